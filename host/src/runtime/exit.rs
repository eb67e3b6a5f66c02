//! `wasi:cli/exit`: how a guest leaves in good order. Many languages do so at the end of every program.
//!
//! Invariant: leaving does not look at the stack. The engine puts a backtrace into every error that
//! has none, and reads the guest's debug information for it, which takes many times as long as a
//! short program. Nobody sees the backtrace of an exit, so the error brings one along that is empty.

use std::sync::{LazyLock, Mutex, PoisonError};

use wasmtime::{Config, Engine, Store, WasmBacktrace};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p2::bindings::cli::exit;

use super::state::State;

impl exit::Host for State {
    fn exit(&mut self, status: Result<(), ()>) -> wasmtime::Result<()> {
        Err(leave(i32::from(status.is_err())))
    }

    fn exit_with_code(&mut self, status: u8) -> wasmtime::Result<()> {
        Err(leave(status.into()))
    }
}

/// A store of an engine without backtraces: the one way to an empty backtrace. `None` when there can be
/// no such engine, and then leaving takes its time.
static WITHOUT_FRAMES: LazyLock<Option<Mutex<Store<()>>>> = LazyLock::new(|| {
    let engine = Engine::new(Config::new().wasm_backtrace_max_frames(None)).ok()?;
    Some(Mutex::new(Store::new(&engine, ())))
});

/// The error that ends a guest with this code.
fn leave(code: i32) -> wasmtime::Error {
    let error = wasmtime::format_err!(I32Exit(code));
    let Some(store) = &*WITHOUT_FRAMES else { return error };
    let store = store.lock().unwrap_or_else(PoisonError::into_inner);
    error.context(WasmBacktrace::capture(&*store))
}

#[cfg(test)]
mod tests {
    use wasmtime::{Func, Instance, Module};

    use super::*;

    /// What a guest ends with that calls a host function which fails like this.
    fn ended(error: fn() -> wasmtime::Error) -> wasmtime::Error {
        let wasm = wat::parse_str(r#"(module (import "" "" (func $f)) (func (export "run") (call $f)))"#).unwrap();
        let engine = Engine::default();
        let mut store = Store::new(&engine, ());
        let host = Func::wrap(&mut store, move || -> wasmtime::Result<()> { Err(error()) });
        let module = Module::new(&engine, wasm).unwrap();
        let instance = Instance::new(&mut store, &module, &[host.into()]).unwrap();
        let run = instance.get_typed_func::<(), ()>(&mut store, "run").unwrap();
        run.call(&mut store, ()).unwrap_err()
    }

    fn frames(error: &wasmtime::Error) -> usize {
        error.downcast_ref::<WasmBacktrace>().unwrap().frames().len()
    }

    #[test]
    fn the_engine_does_not_look_at_the_stack_of_a_guest_that_leaves() {
        let left = ended(|| leave(3));
        assert_eq!(left.downcast_ref::<I32Exit>().unwrap().0, 3);
        assert_eq!(frames(&left), 0);
        assert_eq!(frames(&ended(|| wasmtime::format_err!("refused"))), 1, "any other error has its backtrace");
    }
}
