//! The engine: how guests are compiled, where their memories and stacks come from.
//!
//! Invariants: everything that decides about compiled code is the same for a process that runs
//! tasks and for one that only compiles them, so what one has compiled the other can load; they
//! differ in the allocator alone. The pool reserves address space and touches no memory before an
//! attempt needs it.
//!
//! Deliberately absent: fuel. Guests are stopped by epochs, which cost next to nothing (LIMITS).

use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;

use sha2::{Digest as _, Sha256};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, WasmBacktraceDetails};

use super::{Allocator, RuntimeError};

/// The wasm stack of an attempt. Interpreters inside guests recurse deeply.
const WASM_STACK_BYTES: usize = 1024 * 1024;
/// The whole stack of an attempt: that of the guest, and room for host functions on top of it.
const ASYNC_STACK_BYTES: usize = 2 * 1024 * 1024;
/// How much of a memory stays resident between attempts. Only worth it with the page-map scan:
/// without it the whole of this would be cleared by hand each time.
const KEEP_RESIDENT_BYTES: usize = 1024 * 1024;
/// Core instances, memories and tables in one component. Python and StarlingMonkey need about ten.
const CORE_INSTANCES_PER_COMPONENT: u32 = 64;
const MEMORIES_PER_COMPONENT: u32 = 16;
const TABLES_PER_COMPONENT: u32 = 32;
/// Elements of a table; large interpreters and compilers have some ten thousand functions.
const TABLE_ELEMENTS: usize = 128 * 1024;
/// What the bookkeeping of one component or core instance may take.
const INSTANCE_BYTES: usize = 4 * 1024 * 1024;
/// The largest linear memory.
const MEMORY_BYTES: usize = 4 << 30;
/// Frames of a backtrace: more than the stack can hold of the smallest ones, so that a deep recursion
/// shows where it began. Only both ends are kept and looked up.
const BACKTRACE_FRAMES: Option<NonZeroUsize> = NonZeroUsize::new(64 * 1024);
/// A change of what is kept beside the compiled code makes a new directory.
const CACHE_GENERATION: &str = "1";

/// Builds the engine of a process that runs up to this many attempts at once.
pub(super) fn for_running(max_concurrent: u32) -> Result<(Engine, Allocator), RuntimeError> {
    let mut config = compiled_code_config();
    let page_map_scan = PoolingAllocationConfig::is_pagemap_scan_available();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(max_concurrent, page_map_scan)));
    match Engine::new(&config) {
        Ok(engine) => Ok((engine, Allocator::Pooling { page_map_scan })),
        Err(error) => {
            let reason = format!("{error:#}");
            tracing::warn!(reason, "cannot reserve the instance pool; attempts will start more slowly");
            Ok((for_compiling()?.0, Allocator::OnDemand { reason }))
        }
    }
}

/// Builds the engine of a process that compiles and runs at most a task or two.
pub(super) fn for_compiling() -> Result<(Engine, Allocator), RuntimeError> {
    let engine = Engine::new(&compiled_code_config()).map_err(|error| RuntimeError::Engine(format!("{error:#}")))?;
    Ok((engine, Allocator::OnDemand { reason: "asked for".to_owned() }))
}

/// Everything that compiled code depends on, and what costs nothing to have everywhere.
fn compiled_code_config() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(ASYNC_STACK_BYTES)
        .memory_init_cow(true)
        .memory_reservation(MEMORY_BYTES as u64)
        .wasm_backtrace_details(WasmBacktraceDetails::Enable)
        .wasm_backtrace_max_frames(BACKTRACE_FRAMES)
        // The same bytes give the same answer on every machine, at least for what is cheap to pin down.
        .relaxed_simd_deterministic(true);
    config
}

fn pool(max_concurrent: u32, page_map_scan: bool) -> PoolingAllocationConfig {
    // Most components have one memory and one or two tables; larger ones share what others leave.
    // When the pool is used up nevertheless, an attempt waits for another one to end.
    let concurrent = max_concurrent.max(1);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(concurrent)
        .total_core_instances(concurrent.saturating_mul(8).max(CORE_INSTANCES_PER_COMPONENT))
        .total_memories(concurrent.saturating_mul(2).max(MEMORIES_PER_COMPONENT))
        .total_tables(concurrent.saturating_mul(4).max(TABLES_PER_COMPONENT))
        .total_stacks(concurrent)
        .total_gc_heaps(concurrent)
        .max_core_instances_per_component(CORE_INSTANCES_PER_COMPONENT)
        .max_memories_per_component(MEMORIES_PER_COMPONENT)
        .max_tables_per_component(TABLES_PER_COMPONENT)
        .max_memories_per_module(MEMORIES_PER_COMPONENT)
        .max_tables_per_module(TABLES_PER_COMPONENT)
        .max_component_instance_size(INSTANCE_BYTES)
        .max_core_instance_size(INSTANCE_BYTES)
        .max_memory_size(MEMORY_BYTES)
        .table_elements(TABLE_ELEMENTS);
    if page_map_scan {
        pool.pagemap_scan(Enabled::Yes)
            .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
            .table_keep_resident(KEEP_RESIDENT_BYTES);
    }
    pool
}

/// A name for "compiled code that this engine can load"; safe as a directory name.
pub(super) fn key(engine: &Engine) -> String {
    let mut hasher = KeyHasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let mut digest = [0; 32];
    digest.copy_from_slice(&hasher.0.finalize());
    let hex = wasmq_core::Digest::new(digest).hex();
    let short = hex.get(..16).unwrap_or(&hex);
    format!("wasmtime-{}-{CACHE_GENERATION}-{short}", super::ENGINE_VERSION)
}

/// A hash that is the same in every process and every build, which the standard one is not.
struct KeyHasher(Sha256);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        // Only the full digest is used.
        0
    }
}
