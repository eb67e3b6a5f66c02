//! The typed face of `wit/`, generated at compile time.
//!
//! Invariants: the payload and the facts are lowered from borrowed slices; nothing is copied on the
//! way to the guest beyond the one write into its memory. The version here is the version that
//! [`super::WIT_VERSION`] names.
//!
//! Deliberately absent: the implementation of the imports (`host_impl.rs`).

#![allow(missing_docs, unreachable_pub, clippy::all, clippy::indexing_slicing, clippy::cast_possible_truncation)]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "wasmq:task/task",
    ownership: Borrowing { duplicate_if_necessary: true },
    exports: { default: async },
});
