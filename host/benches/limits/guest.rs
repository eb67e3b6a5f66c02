//! The raw limit of running a guest: new store, instantiate, call, drop, with the engine settings
//! of the product and nothing else around it.
//!
//! The limit gets what no host can do without: a memory limiter, an epoch deadline and a fresh WASI
//! context for every call. It does without async, verdicts, captured output and a clock.

use std::path::PathBuf;
use std::time::Instant;

use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store, StoreLimits,
    StoreLimitsBuilder,
};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::{Fallible, procfs};

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

use generated::bindings::wasmq::task::types::Invocation;
use generated::bindings::{self, TaskPre};
use generated::waiting;

const ID: &str = "0198f2a4-5b6c-7d8e-9fa0-b1c2d3e4f506";
const MEMORY_BYTES: usize = 256 << 20;
const KEEP_RESIDENT_BYTES: usize = 1 << 20;

/// The bytes of an example guest.
pub(crate) fn component(name: &str) -> Fallible<Vec<u8>> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-examples/target/components");
    let path = PathBuf::from(dir).join(name).with_extension("wasm");
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

/// A guest that is ready to be run.
pub(crate) struct Raw {
    engine: Engine,
    task: TaskPre<Host>,
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
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_sync(&mut linker)?;
        bindings::wasmq::task::types::add_to_linker::<Host, HasSelf<Host>>(&mut linker, |host| host)?;
        let task = TaskPre::new(linker.instantiate_pre(&component)?)?;
        Ok(Self { engine, task })
    }

    /// Instantiates and calls once.
    pub(crate) fn call(&self, payload: &[u8]) -> Fallible<Vec<u8>> {
        let mut store = store(&self.engine);
        let task = self.task.instantiate(&mut store)?;
        let invocation =
            Invocation { id: ID, task: "noop", enqueued_at_ms: 1, replays: 0, max_attempts: 3, metadata: &[] };
        match task.wasmq_task_handler().call_handle(&mut store, invocation, payload)? {
            Ok(output) => Ok(output),
            Err(failure) => Err(format!("the guest failed: {failure:?}").into()),
        }
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

fn store(engine: &Engine) -> Store<Host> {
    let limits = StoreLimitsBuilder::new().memory_size(MEMORY_BYTES).build();
    let host = Host { wasi: WasiCtx::builder().build(), table: ResourceTable::new(), limits };
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
        let (mut store, task) = (store(&self.engine), self.task.clone());
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
        .memory_init_cow(true)
        .memory_reservation(4 << 30)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}
