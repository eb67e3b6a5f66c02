//! What threads share and wait with, named in one place.
//!
//! It is the standard library's. `tests/models` puts a model checker's in its place, so that the checker runs
//! the product's own code.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
pub(crate) use std::thread;
