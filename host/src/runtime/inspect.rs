//! What a `.wasm` file is, found out without compiling it: its shape, what it needs, what it is made of.
//!
//! Invariants: any bytes at all give an answer, never a panic; a refusal is one sentence that says
//! what is wrong and what to do. A component that passes is valid wasm, has an entry point, and
//! imports only interfaces that `linker.rs` offers. Exports that are not known are normal and ignored.

use std::borrow::Cow;
use std::collections::BTreeSet;

use wasmparser::{KnownCustom, Parser, Payload, Validator, WasmFeatures};
use wasmq_core::Digest;

use super::adapt::{self, CoreModule};
use super::offered::OFFERED;
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

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The entry point of its component; of a file that is refused, the one it seems to have.
    pub shape: Option<Shape>,
    /// Whether it is a core module, which is turned into a component.
    pub is_core_module: bool,
    /// The names of what its component imports, with versions, in the order of the file.
    pub imports: Vec<String>,
    /// The names of what its component exports, with versions, in the order of the file.
    pub exports: Vec<String>,
    /// What it can ask for that has to be granted.
    pub needs: Vec<Need>,
    /// The size of the file, in bytes.
    pub size_bytes: u64,
    /// The digest of the file.
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

/// Something that a task gets only when it was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Opening files.
    Files,
    /// Sockets and the resolution of names.
    Network,
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Files => "files",
            Self::Network => "network",
        })
    }
}

/// A file that can be deployed.
#[derive(Debug)]
pub struct Accepted<'a> {
    /// The component: the file itself, or what was made of a core module.
    pub component: Cow<'a, [u8]>,
    /// The digest of the component.
    pub digest: Digest,
    /// Its entry point.
    pub shape: Shape,
    /// The digest of the core module it was made of.
    pub module: Option<Digest>,
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

/// Finds out whether a file can be deployed, and makes a component of it where it is none.
///
/// # Errors
/// The first reason why it cannot be a task.
pub fn accept(bytes: &[u8]) -> Result<Accepted<'_>, Rejection> {
    check_outside(bytes)?;
    let is_core_module = adapt::is_core_module(bytes);
    let component =
        if is_core_module { Cow::Owned(CoreModule::read(bytes)?.adapt(bytes)?) } else { Cow::Borrowed(bytes) };
    let content = Content::read(&component)?;
    if let Some(problem) = content.problems().into_iter().next() {
        return Err(problem);
    }
    let shape = content.shape()?;
    let module = is_core_module.then(|| digest_of(bytes));
    Ok(Accepted { digest: digest_of(&component), component, shape, module })
}

/// Finds out what a file is, and every reason why it would be refused.
///
/// # Errors
/// When it is not readable as wasm at all.
pub fn inspect(bytes: &[u8]) -> Result<(Inspection, Vec<Rejection>), Rejection> {
    check_outside(bytes)?;
    let is_core_module = adapt::is_core_module(bytes);
    let (content, problems) = if is_core_module { of_core_module(bytes)? } else { of_component(bytes)? };
    let inspection = Inspection {
        shape: content.shape().ok(),
        is_core_module,
        needs: content.needs(),
        imports: content.imports,
        exports: content.exports,
        size_bytes: bytes.len() as u64,
        digest: digest_of(bytes),
        wit_version: super::WIT_VERSION,
        has_names: content.has_names,
        has_debug_info: content.has_debug_info,
        languages: content.languages.into_iter().collect(),
        producers: content.producers.into_iter().collect(),
    };
    Ok((inspection, problems))
}

fn of_component(bytes: &[u8]) -> Result<(Content, Vec<Rejection>), Rejection> {
    let content = Content::read(bytes)?;
    let problems = content.problems();
    Ok((content, problems))
}

/// The notes are those of the module: the adapter has names and producers of its own.
fn of_core_module(bytes: &[u8]) -> Result<(Content, Vec<Rejection>), Rejection> {
    let module = CoreModule::read(bytes)?;
    let mut content = Content::scan(bytes)?;
    content.core_imports = module.imports.clone();
    let mut problems = module.problems();
    if problems.is_empty() {
        match module.adapt(bytes).and_then(|component| Content::read(&component)) {
            Ok(adapted) => {
                problems = adapted.problems();
                (content.imports, content.exports) = (adapted.imports, adapted.exports);
            }
            Err(problem) => problems.push(problem),
        }
    }
    Ok((content, problems))
}

/// Whether a file is wasm at all, by its size and its first bytes.
///
/// # Errors
/// It is not.
pub fn check_outside(bytes: &[u8]) -> Result<(), Rejection> {
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

/// What the sections of a file say.
#[derive(Debug, Default)]
struct Content {
    imports: Vec<String>,
    exports: Vec<String>,
    /// What a core module that is not yet a component imports.
    core_imports: Vec<(String, String)>,
    has_names: bool,
    has_debug_info: bool,
    languages: BTreeSet<String>,
    producers: BTreeSet<String>,
}

/// The most entries of a list that is only shown to people.
const MAX_NOTES: usize = 64;
/// The longest of these entries.
const MAX_NOTE_CHARS: usize = 128;

impl Content {
    /// Reads and validates.
    fn read(bytes: &[u8]) -> Result<Self, Rejection> {
        let content = Self::scan(bytes)?;
        Validator::new_with_features(WasmFeatures::default())
            .validate_all(bytes)
            .map_err(|error| Rejection::malformed(&error))?;
        Ok(content)
    }

    fn scan(bytes: &[u8]) -> Result<Self, Rejection> {
        let mut content = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(|error| Rejection::malformed(&error))?;
            match &payload {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                _ => content.add(&payload, depth).map_err(|error| Rejection::malformed(&error))?,
            }
        }
        Ok(content)
    }

    /// Every reason why it cannot be a task.
    fn problems(&self) -> Vec<Rejection> {
        let mut problems: Vec<Rejection> = self.shape().err().into_iter().collect();
        let imports: Vec<String> = self.imports.iter().filter(|name| !is_offered(name)).cloned().collect();
        if !imports.is_empty() {
            problems.push(Rejection::MissingImports { imports });
        }
        problems
    }

    /// Adapted modules import everything that the adapter might want, so they are judged by their own imports.
    fn needs(&self) -> Vec<Need> {
        let needs: BTreeSet<Need> = if self.core_imports.is_empty() {
            self.imports.iter().filter_map(|name| need_of_interface(split(name).0)).collect()
        } else {
            self.core_imports.iter().filter_map(|(_, name)| need_of_function(name)).collect()
        };
        needs.into_iter().collect()
    }

    fn shape(&self) -> Result<Shape, Rejection> {
        let handler = self.exports.iter().find(|name| split(name).0 == HANDLER);
        if let Some(found) = handler {
            return fits(found, super::WIT_VERSION).map(|()| Shape::Typed);
        }
        let runs =
            self.exports.iter().map(|name| split(name)).any(|(name, version)| name == RUN && is_wasi_0_2(version));
        if runs { Ok(Shape::Command) } else { Err(Rejection::NoEntryPoint) }
    }

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

fn need_of_interface(name: &str) -> Option<Need> {
    match name {
        "wasi:filesystem/types" => Some(Need::Files),
        "wasi:sockets/tcp"
        | "wasi:sockets/tcp-create-socket"
        | "wasi:sockets/udp"
        | "wasi:sockets/udp-create-socket"
        | "wasi:sockets/ip-name-lookup" => Some(Need::Network),
        _ => None,
    }
}

/// By the functions of wasip1.
fn need_of_function(name: &str) -> Option<Need> {
    if name == "path_open" {
        return Some(Need::Files);
    }
    name.starts_with("sock_").then_some(Need::Network)
}

/// `package:namespace/interface` and the version behind the `@`.
fn split(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

fn is_wasi_0_2(version: &str) -> bool {
    let number = version.strip_prefix("0.2.").unwrap_or_default();
    number.parse::<u32>().is_ok()
}

/// The parts of `major.minor.patch`.
fn parts(version: &str) -> Option<[u32; 3]> {
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    let parts = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(parts)
}

/// Whether a host of one version of the contract runs what was built against another: a compatible one that is
/// not later, which may have what this host lacks. `wit/README.md` has the rule.
pub(super) fn runs(host: &str, built_against: &str) -> bool {
    let (Some([major, minor, patch]), Some([built_major, built_minor, built_patch])) =
        (parts(host), parts(built_against))
    else {
        return false;
    };
    // Before 1.0 a minor version may break, from then on a major one.
    let is_same = major == built_major && (major > 0 || minor == built_minor);
    is_same && (built_minor, built_patch) <= (minor, patch)
}

fn fits(handler: &str, host: &str) -> Result<(), Rejection> {
    let version = split(handler).1;
    if runs(host, version) {
        return Ok(());
    }
    let [major, minor, patch] = parts(host).unwrap_or_default();
    let expected = if patch == 0 { host.to_owned() } else { format!("{major}.{minor}.0 to {host}") };
    Err(Rejection::OtherVersion { found: handler.to_owned(), expected, is_newer: parts(version) > parts(host) })
}

fn is_offered(import: &str) -> bool {
    let (name, version) = split(import);
    let right_version =
        if name.starts_with("wasi:") { is_wasi_0_2(version) } else { runs(super::WIT_VERSION, version) };
    right_version && OFFERED.contains(&name)
}
