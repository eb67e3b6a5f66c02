//! The raw limit of running a guest: new store, instantiate, call, drop, with the engine settings
//! of the product and nothing else around it.
//!
//! The limit gets what no host can do without: a memory limiter, an epoch deadline and a fresh WASI
//! context for every call; for a command that context has the payload on stdin, the facts of the
//! invocation as environment, and a pipe for stdout. It does without async, verdicts, backtraces,
//! a captured stderr and a clock.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store, StoreLimits,
    StoreLimitsBuilder,
};
use wasmtime_wasi::p2::bindings::sync::CommandPre;
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};
use wasmtime_wasi::{I32Exit, WasiCtx, WasiCtxView, WasiView};

use crate::{Fallible, directory, procfs};

/// What `bindgen!` writes, for callers that block and for those that wait.
mod generated {
    #![allow(
        missing_docs,
        unreachable_pub,
        dead_code,
        clippy::all,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )]

    pub(super) mod bindings {
        wasmtime::component::bindgen!({
            path: "../wit",
            world: "wasmq:task/task",
            ownership: Borrowing { duplicate_if_necessary: true },
        });
    }

    pub(super) mod waiting {
        wasmtime::component::bindgen!({
            path: "../wit",
            world: "wasmq:task/task",
            ownership: Borrowing { duplicate_if_necessary: true },
            exports: { default: async },
        });
    }
}

use generated::bindings::wasmq::task::host::{FollowUp, Level};
use generated::bindings::wasmq::task::types::Invocation;
use generated::bindings::{self, TaskPre};
use generated::waiting;

const ID: &str = "0198f2a4-5b6c-7d8e-9fa0-b1c2d3e4f506";
const MEMORY_BYTES: usize = 256 << 20;
const KEEP_RESIDENT_BYTES: usize = 1 << 20;
const INSTANCE_BYTES: usize = 4 << 20;
/// The facts of an invocation as a command sees them.
const ENVIRONMENT: [(&str, &str); 7] = [
    ("WASMQ_ID", ID),
    ("WASMQ_TASK", "noop"),
    ("WASMQ_ATTEMPT", "1"),
    ("WASMQ_MAX_ATTEMPTS", "3"),
    ("WASMQ_REPLAYS", "0"),
    ("WASMQ_ENQUEUED_AT_MS", "1"),
    ("WASMQ_METADATA", "{}"),
];

/// Where an example guest is, once it is built.
pub(crate) fn file(name: &str) -> PathBuf {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-examples/target/components");
    PathBuf::from(dir).join(name).with_extension("wasm")
}

/// The bytes of an example guest.
pub(crate) fn component(name: &str) -> Fallible<Vec<u8>> {
    let path = file(name);
    std::fs::read(&path)
        .map_err(|error| format!("cannot read {}: {error}; run guest-examples/build first", path.display()).into())
}

pub(crate) struct Host {
    wasi: WasiCtx,
    table: ResourceTable,
    limits: StoreLimits,
}

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl bindings::wasmq::task::types::Host for Host {}
impl waiting::wasmq::task::types::Host for Host {}

/// What the contract guests can ask for, and a no-op does not.
impl bindings::wasmq::task::host::Host for Host {
    fn attempt_number(&mut self) -> u32 {
        1
    }

    fn log(&mut self, _: Level, _: String, _: Vec<(String, String)>) {}

    fn progress(&mut self, _: u64, _: u64, _: String) {}

    fn cancelled(&mut self) -> bool {
        false
    }

    fn enqueue(&mut self, _: FollowUp) -> Result<String, String> {
        Err("the raw limit has no queue".to_owned())
    }
}

/// A guest that is ready to be run.
pub(crate) struct Raw {
    engine: Engine,
    program: Program,
}

enum Program {
    Typed(TaskPre<Host>),
    Command(CommandPre<Host>),
}

/// How long the engine takes to get a component ready.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Readied {
    /// To compile it, on all processors.
    pub(crate) compiled: Duration,
    /// To map what was compiled before.
    pub(crate) loaded: Duration,
}

/// What a call costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// By the clock, in microseconds.
    pub(crate) wall_us: f64,
    /// On the processor, in microseconds.
    pub(crate) cpu_us: f64,
}

impl Raw {
    /// Compiles an example guest for a pool of so many instances.
    pub(crate) fn new(name: &str, concurrent: u32) -> Fallible<Self> {
        let engine = Engine::new(&config(concurrent))?;
        let component = Component::new(&engine, component(name)?)?;
        Self::linked(engine, &component)
    }

    /// Compiles a component for one instance at a time, and says how long that takes.
    pub(crate) fn timed(component: &[u8]) -> Fallible<(Self, Readied)> {
        let engine = Engine::new(&config(1))?;
        let clock = Instant::now();
        let component = Component::new(&engine, component)?;
        let compiled = clock.elapsed();
        let dir = directory::temporary()?;
        let file = dir.path().join("compiled");
        std::fs::write(&file, component.serialize()?)?;
        let clock = Instant::now();
        let component = load(&engine, &file)?;
        let loaded = clock.elapsed();
        Ok((Self::linked(engine, &component)?, Readied { compiled, loaded }))
    }

    fn linked(engine: Engine, component: &Component) -> Fallible<Self> {
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_sync(&mut linker)?;
        bindings::wasmq::task::types::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
        bindings::wasmq::task::host::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
        let ready = linker.instantiate_pre(component)?;
        let is_typed = component.get_export_index(None, "wasmq:task/handler@0.1.0").is_some();
        let program =
            if is_typed { Program::Typed(TaskPre::new(ready)?) } else { Program::Command(CommandPre::new(ready)?) };
        Ok(Self { engine, program })
    }

    /// Instantiates and calls once.
    pub(crate) fn call(&self, payload: &[u8]) -> Fallible<Vec<u8>> {
        match &self.program {
            Program::Typed(task) => self.call_typed(task, payload),
            Program::Command(command) => self.call_command(command, payload),
        }
    }

    fn call_typed(&self, task: &TaskPre<Host>, payload: &[u8]) -> Fallible<Vec<u8>> {
        let mut store = store(&self.engine, WasiCtx::builder().build());
        let task = task.instantiate(&mut store)?;
        let invocation =
            Invocation { id: ID, task: "noop", enqueued_at_ms: 1, replays: 0, max_attempts: 3, metadata: &[] };
        match task.wasmq_task_handler().call_handle(&mut store, invocation, payload)? {
            Ok(output) => Ok(output),
            Err(failure) => Err(format!("the guest failed: {failure:?}").into()),
        }
    }

    fn call_command(&self, command: &CommandPre<Host>, payload: &[u8]) -> Fallible<Vec<u8>> {
        let stdout = MemoryOutputPipe::new(MEMORY_BYTES);
        let mut wasi = WasiCtx::builder();
        wasi.stdin(MemoryInputPipe::new(payload.to_vec())).stdout(stdout.clone()).envs(&ENVIRONMENT).arg("task");
        let mut store = store(&self.engine, wasi.build());
        let command = command.instantiate(&mut store)?;
        let is_good = match command.wasi_cli_run().call_run(&mut store) {
            Ok(status) => status.is_ok(),
            Err(error) => matches!(error.downcast_ref(), Some(I32Exit(0))),
        };
        if is_good { Ok(stdout.contents().to_vec()) } else { Err("the command failed".into()) }
    }

    /// How long each of so many calls takes, until its instance is gone.
    pub(crate) fn times(&self, calls: u32, payload: &[u8]) -> Fallible<Vec<f64>> {
        let timed = || {
            let clock = Instant::now();
            self.call(payload)?;
            Ok(clock.elapsed().as_secs_f64() * 1e6)
        };
        (0..calls).map(|_| timed()).collect()
    }

    /// What a call costs, over so many.
    pub(crate) fn cost(&self, calls: usize, payload: &[u8]) -> Fallible<Cost> {
        let (clock, before) = (Instant::now(), procfs::this_thread_cpu_us()?);
        for _ in 0..calls {
            self.call(payload)?;
        }
        let per_call = 1.0 / calls as f64;
        let cpu_us = (procfs::this_thread_cpu_us()? - before) * per_call;
        Ok(Cost { wall_us: clock.elapsed().as_secs_f64() * 1e6 * per_call, cpu_us })
    }
}

#[allow(unsafe_code)]
fn load(engine: &Engine, file: &Path) -> wasmtime::Result<Component> {
    // SAFETY: this process has just written the file, into a directory of its own.
    unsafe { Component::deserialize_file(engine, file) }
}

fn store(engine: &Engine, wasi: WasiCtx) -> Store<Host> {
    let limits = StoreLimitsBuilder::new().memory_size(MEMORY_BYTES).build();
    let host = Host { wasi, table: ResourceTable::new(), limits };
    let mut store = Store::new(engine, host);
    store.limiter(|host| &mut host.limits);
    store.set_epoch_deadline(1 << 40);
    store
}

/// A guest that can wait, so that many run at the same time on one thread.
pub(crate) struct Sleeping {
    engine: Engine,
    task: waiting::TaskPre<Host>,
}

impl Sleeping {
    /// As [`Raw::new`].
    pub(crate) fn new(name: &str, concurrent: u32) -> Fallible<Self> {
        let engine = Engine::new(&config(concurrent))?;
        let component = Component::new(&engine, component(name)?)?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        waiting::wasmq::task::types::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
        let task = waiting::TaskPre::new(linker.instantiate_pre(&component)?)?;
        Ok(Self { engine, task })
    }

    /// Starts a call on the local set of this thread.
    pub(crate) fn start(&self, payload: &'static [u8]) {
        let (mut store, task) = (store(&self.engine, WasiCtx::builder().build()), self.task.clone());
        tokio::task::spawn_local(async move {
            let task = match task.instantiate_async(&mut store).await {
                Ok(task) => task,
                Err(error) => return eprintln!("a guest cannot be instantiated: {error:?}"),
            };
            let invocation = waiting::wasmq::task::types::Invocation {
                id: ID,
                task: "slow",
                enqueued_at_ms: 1,
                replays: 0,
                max_attempts: 3,
                metadata: &[],
            };
            let answer = task.wasmq_task_handler().call_handle(&mut store, invocation, payload).await;
            drop(answer.inspect_err(|error| eprintln!("a sleeping guest failed: {error:?}")));
        });
    }
}

/// The settings of `runtime/engine.rs`, as far as they decide about speed.
fn config(concurrent: u32) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(concurrent)
        .total_core_instances(concurrent.saturating_mul(8).max(64))
        .total_memories(concurrent.saturating_mul(2).max(16))
        .total_tables(concurrent.saturating_mul(4).max(32))
        .total_stacks(concurrent)
        .max_component_instance_size(INSTANCE_BYTES)
        .max_core_instance_size(INSTANCE_BYTES)
        .max_memory_size(4 << 30)
        .table_elements(128 * 1024);
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        pool.pagemap_scan(Enabled::Yes)
            .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
            .table_keep_resident(KEEP_RESIDENT_BYTES);
    }
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(1 << 20)
        .relaxed_simd_deterministic(true)
        .wasm_backtrace_max_frames(None)
        .memory_init_cow(true)
        .memory_reservation(4 << 30)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}
