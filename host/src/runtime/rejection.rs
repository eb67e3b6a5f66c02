//! Why a file is not a task, in one sentence each: what is wrong and what to do.

use super::validate::MAX_DEPTH;

/// Why a file is not a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// No bytes.
    #[error("the file is empty; build the component again")]
    Empty,
    /// Over [`MAX_COMPONENT_BYTES`](super::MAX_COMPONENT_BYTES).
    #[error(
        "the file has {found_bytes} bytes, but a component has at most {limit_bytes}; strip debug information or leave data out"
    )]
    TooLarge {
        /// The size of the file.
        found_bytes: u64,
        /// [`MAX_COMPONENT_BYTES`](super::MAX_COMPONENT_BYTES).
        limit_bytes: u64,
    },
    /// Does not begin like wasm.
    #[error(
        "the file is not WebAssembly: it does not begin with \"\\0asm\"; pass the .wasm file that your build made{hint}"
    )]
    NotWasm {
        /// A guess at what it is instead.
        hint: &'static str,
    },
    /// Wasm that is cut off or broken.
    #[error("the file is damaged WebAssembly: {reason} at offset {offset}; build or copy it again")]
    Malformed {
        /// What is wrong.
        reason: String,
        /// Where, in bytes from the start of the file.
        offset: u64,
    },
    /// Components in components in components.
    #[error(
        "the file has more than {MAX_DEPTH} components one in the other, which no toolchain makes; build or copy it again"
    )]
    NestedTooDeep,
    /// A core module of before wasip1.
    #[error(
        "the core module was built for wasi_unstable, which wasip1 replaced in 2020; build it with a newer toolchain"
    )]
    BeforeWasip1,
    /// A core module for another host.
    #[error(
        "the core module imports what only another host has: {}; build it for wasm32-wasip1 or as a component", listed(.imports)
    )]
    ForeignImports {
        /// All of them, as `module.name`.
        imports: Vec<String>,
    },
    /// A core module without an entry point.
    #[error(
        "the core module has no main function (no export _start); build it as a program for wasm32-wasip1, or as a component with the handler of the wasmq:task world"
    )]
    NoStart,
    /// A core module that the encoder refuses.
    #[error("the core module cannot be turned into a component: {reason}")]
    NotAdaptable {
        /// The encoder's sentence.
        reason: String,
    },
    /// A component without an entry point.
    #[error(
        "the component exports neither wasmq:task/handler@{} nor wasi:cli/run@0.2.x; export the handler of the wasmq:task world, or build a command with a main function",
        super::WIT_VERSION
    )]
    NoEntryPoint,
    /// A handler of a version that this host does not run.
    #[error(
        "the component exports {found}, but this host runs wasmq:task@{expected}; {}", other_version(*.is_newer)
    )]
    OtherVersion {
        /// The name it exports.
        found: String,
        /// The versions that this host runs.
        expected: String,
        /// Whether a later host may run it.
        is_newer: bool,
    },
    /// Imports nobody answers.
    #[error("the component imports what this host does not offer: {}; build it without", listed(.imports))]
    MissingImports {
        /// All of them.
        imports: Vec<String>,
    },
}

/// The most names in one sentence.
const MAX_LISTED: usize = 8;

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(MAX_LISTED);
    let shown = names.get(..MAX_LISTED).unwrap_or(names).join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

const fn other_version(is_newer: bool) -> &'static str {
    if is_newer {
        "use a later wasmq, or build it against what `wasmq wit` writes"
    } else {
        "build it against what `wasmq wit` writes"
    }
}

impl Rejection {
    pub(super) fn malformed(error: &wasmparser::BinaryReaderError) -> Self {
        Self::Malformed { reason: error.message().to_owned(), offset: error.offset() as u64 }
    }
}
