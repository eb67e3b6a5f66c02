//! What a `.wasm` file is, found out without compiling it: its shape, what it needs, what it is made of.
//!
//! Invariants: any bytes at all give an answer, never a panic; a refusal is one sentence that says
//! what is wrong and what to do. A component that passes is valid wasm, has an entry point, and
//! imports only interfaces that `linker.rs` offers. Exports that are not known are normal and ignored.
//!
//! Deliberately absent: turning a core module into a component; whoever deploys does that and
//! inspects the result.

use std::collections::BTreeSet;

use wasmparser::{Encoding, KnownCustom, Parser, Payload, Validator, WasmFeatures};
use wasmq_core::Digest;

use super::linker::OFFERED;
use super::prepare::digest_of;

/// The largest component, in bytes.
pub const MAX_COMPONENT_BYTES: u64 = 256 * 1024 * 1024;

const HANDLER: &str = "wasmq:task/handler";
const RUN: &str = "wasi:cli/run";

/// Which of the two entry points a component has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Exports `wasmq:task/handler`.
    Typed,
    /// Exports `wasi:cli/run`: payload on stdin, output on stdout, exit code as verdict.
    Command,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Typed => "typed",
            Self::Command => "command",
        })
    }
}

/// What a component is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Its entry point.
    pub shape: Shape,
    /// The names of what it imports, with versions, in the order of the file.
    pub imports: Vec<String>,
    /// The names of what it exports, with versions, in the order of the file.
    pub exports: Vec<String>,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its digest.
    pub digest: Digest,
    /// The version of the WIT package it was checked against.
    pub wit_version: &'static str,
    /// Whether it has function names, so that a backtrace has them too.
    pub has_names: bool,
    /// Whether it has debug information, so that a backtrace has files and lines.
    pub has_debug_info: bool,
    /// The source languages, where the tools left a note.
    pub languages: Vec<String>,
    /// The tools that made it, as `name version`, where they left a note.
    pub producers: Vec<String>,
}

/// Why a file is not a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// No bytes.
    #[error("the file is empty; build the component again")]
    Empty,
    /// Over [`MAX_COMPONENT_BYTES`].
    #[error(
        "the file has {found_bytes} bytes, but a component has at most {limit_bytes}; strip debug information or leave data out"
    )]
    TooLarge {
        /// The size of the file.
        found_bytes: u64,
        /// [`MAX_COMPONENT_BYTES`].
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
    /// A core module.
    #[error("{}", core_module_sentence(*.wasip1_command))]
    CoreModule {
        /// Whether it is a command for wasip1, which can be turned into a component as it is.
        wasip1_command: bool,
    },
    /// A component without an entry point.
    #[error(
        "the component exports neither wasmq:task/handler@0.1.0 nor wasi:cli/run@0.2.x; export the handler of the wasmq:task world, or build a command with a main function"
    )]
    NoEntryPoint,
    /// A handler of another version.
    #[error(
        "the component exports {found}, but this host speaks wasmq:task@{expected}; build it against the wit of this host or use a host that speaks its version"
    )]
    OtherVersion {
        /// The name it exports.
        found: String,
        /// The version of this host.
        expected: &'static str,
    },
    /// Imports nobody answers.
    #[error("the component imports what this host does not offer: {}; build it without", .imports.join(", "))]
    MissingImports {
        /// All of them.
        imports: Vec<String>,
    },
}

const fn core_module_sentence(wasip1_command: bool) -> &'static str {
    if wasip1_command {
        "this is a core module for wasm32-wasip1 and not a component; build for wasm32-wasip2, or make it a component with `wasm-tools component new --adapt`"
    } else {
        "this is a core module and not a component; build for wasm32-wasip2, or make it a component with `wasm-tools component new`"
    }
}

/// Finds out what a file is.
///
/// # Errors
/// The first reason why it cannot be a task.
pub fn inspect(bytes: &[u8]) -> Result<Inspection, Rejection> {
    check_outside(bytes)?;
    let content = read(bytes)?;
    let shape = shape(&content.exports)?;
    let missing: Vec<String> = content.imports.iter().filter(|name| !is_offered(name)).cloned().collect();
    if !missing.is_empty() {
        return Err(Rejection::MissingImports { imports: missing });
    }
    Ok(Inspection {
        shape,
        imports: content.imports,
        exports: content.exports,
        size_bytes: bytes.len() as u64,
        digest: digest_of(bytes),
        wit_version: super::WIT_VERSION,
        has_names: content.has_names,
        has_debug_info: content.has_debug_info,
        languages: content.languages.into_iter().collect(),
        producers: content.producers.into_iter().collect(),
    })
}

fn check_outside(bytes: &[u8]) -> Result<(), Rejection> {
    let found_bytes = bytes.len() as u64;
    if bytes.is_empty() {
        return Err(Rejection::Empty);
    }
    if found_bytes > MAX_COMPONENT_BYTES {
        return Err(Rejection::TooLarge { found_bytes, limit_bytes: MAX_COMPONENT_BYTES });
    }
    if !bytes.starts_with(b"\0asm") {
        let truncated = b"\0asm".starts_with(bytes);
        let hint = if truncated { "; this one was cut off" } else { guess(bytes) };
        return Err(Rejection::NotWasm { hint });
    }
    Ok(())
}

fn guess(bytes: &[u8]) -> &'static str {
    let text = bytes.trim_ascii_start();
    match text {
        _ if bytes.starts_with(b"\x7fELF") => "; this is a native program",
        _ if bytes.starts_with(b"PK") => "; this is a zip archive",
        _ if bytes.starts_with(b"\x1f\x8b") => "; this is compressed with gzip",
        _ if text.starts_with(b"(module") || text.starts_with(b"(component") => {
            "; this is the text format, turn it into binary first"
        }
        _ => "",
    }
}

/// What the sections of a component say.
#[derive(Debug, Default)]
struct Content {
    imports: Vec<String>,
    exports: Vec<String>,
    has_names: bool,
    has_debug_info: bool,
    languages: BTreeSet<String>,
    producers: BTreeSet<String>,
}

/// The most entries of a list that is only shown to people.
const MAX_NOTES: usize = 64;
/// The longest of these entries.
const MAX_NOTE_CHARS: usize = 128;

fn malformed(error: &wasmparser::BinaryReaderError) -> Rejection {
    Rejection::Malformed { reason: error.message().to_owned(), offset: error.offset() as u64 }
}

fn read(bytes: &[u8]) -> Result<Content, Rejection> {
    let mut content = Content::default();
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| malformed(&error))?;
        match &payload {
            Payload::Version { encoding, .. } => {
                if depth == 0 && *encoding == Encoding::Module {
                    return Err(core_module(bytes));
                }
                depth += 1;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => content.add(&payload, depth).map_err(|error| malformed(&error))?,
        }
    }
    Validator::new_with_features(WasmFeatures::default()).validate_all(bytes).map_err(|error| malformed(&error))?;
    Ok(content)
}

impl Content {
    fn add(&mut self, payload: &Payload<'_>, depth: usize) -> Result<(), wasmparser::BinaryReaderError> {
        match payload {
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section.clone() {
                    self.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section.clone() {
                    self.exports.push(export?.name.name.to_owned());
                }
            }
            Payload::CustomSection(section) => {
                self.has_debug_info |= section.name() == ".debug_info";
                match section.as_known() {
                    KnownCustom::Name(_) => self.has_names = true,
                    KnownCustom::Producers(producers) => self.add_producers(producers),
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes for people; a damaged section is no reason to refuse the component.
    fn add_producers(&mut self, fields: wasmparser::ProducersSectionReader<'_>) {
        for field in fields.into_iter().map_while(Result::ok) {
            for value in field.values.into_iter().map_while(Result::ok) {
                let list = if field.name == "language" { &mut self.languages } else { &mut self.producers };
                if list.len() < MAX_NOTES {
                    list.insert(
                        format!("{} {}", value.name, value.version).trim().chars().take(MAX_NOTE_CHARS).collect(),
                    );
                }
            }
        }
    }
}

/// A core module is refused either way, but one for wasip1 with a `_start` can be helped.
fn core_module(bytes: &[u8]) -> Rejection {
    let (mut imports_wasip1, mut has_start) = (false, false);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload {
            Err(error) => return malformed(&error),
            Ok(Payload::ImportSection(section)) => {
                imports_wasip1 |= section
                    .into_imports()
                    .map_while(Result::ok)
                    .any(|import| import.module == "wasi_snapshot_preview1");
            }
            Ok(Payload::ExportSection(section)) => {
                has_start |= section.into_iter().map_while(Result::ok).any(|export| export.name == "_start")
            }
            Ok(_) => {}
        }
    }
    Rejection::CoreModule { wasip1_command: imports_wasip1 && has_start }
}

/// `package:namespace/interface` and the version behind the `@`.
fn split(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

fn is_wasi_0_2(version: &str) -> bool {
    let number = version.strip_prefix("0.2.").unwrap_or_default();
    number.parse::<u32>().is_ok()
}

fn shape(exports: &[String]) -> Result<Shape, Rejection> {
    let handler = exports.iter().find(|name| split(name).0 == HANDLER);
    if let Some(found) = handler {
        if split(found).1 == super::WIT_VERSION {
            return Ok(Shape::Typed);
        }
        return Err(Rejection::OtherVersion { found: found.clone(), expected: super::WIT_VERSION });
    }
    let runs = exports.iter().map(|name| split(name)).any(|(name, version)| name == RUN && is_wasi_0_2(version));
    if runs { Ok(Shape::Command) } else { Err(Rejection::NoEntryPoint) }
}

fn is_offered(import: &str) -> bool {
    let (name, version) = split(import);
    let right_version = if name.starts_with("wasi:") { is_wasi_0_2(version) } else { version == super::WIT_VERSION };
    right_version && OFFERED.contains(&name)
}
