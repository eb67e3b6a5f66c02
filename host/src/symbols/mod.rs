//! Names and lines for backtraces of components that were deployed without them, from an unstripped build
//! of the same code.
//!
//! A frame of a backtrace has the index of its function and its offset in the component file. Both are the
//! same in every build of the same code, so what [`matched`] has accepted for a component gives each frame its
//! name and its place in the source, also long after the trap ([`resolve`]).
//!
//! Invariants: only symbols whose code is byte for byte that of the component, and that say more of it than
//! it does itself, are accepted; a backtrace is
//! added to and never contradicted; any bytes at all give an answer, in bounded time and memory.
//!
//! Deliberately absent: where symbols are kept (`registry/symbols.rs`); the backtraces that the engine makes
//! (`runtime/trap.rs`), which has the names that the component itself has.
//!
//! | file | its one duty |
//! |---|---|
//! | `modules.rs` | the core modules of a `.wasm` file: where their functions are, what describes them |
//! | `matched.rs` | whether a file is of the code of a component |
//! | `pack.rs` | what is kept of such a file, as bytes |
//! | `names.rs` | the name section, mangled names |
//! | `dwarf.rs`, `units.rs` | debug information: lines and inlined functions |
//! | `resolve.rs` | all of it for a backtrace |

mod dwarf;
#[cfg(test)]
mod hostile_tests;
mod matched;
mod modules;
mod names;
mod pack;
mod resolve;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
mod units;

pub use matched::SymbolsRefused;
pub(crate) use matched::{Matched, matched, matched_adapted};
pub(crate) use modules::contents;
pub use modules::{Contents, Described};
pub(crate) use names::{capped, demangled};
pub(crate) use pack::described as packed;
pub(crate) use resolve::resolve;

/// The largest file of symbols, in bytes.
pub const MAX_SYMBOLS_BYTES: u64 = 256 * 1024 * 1024;
