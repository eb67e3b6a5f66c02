//! What a `.wasm` file is, found out without compiling it: its shape, what it needs, what it is made of.
//!
//! Invariants: any bytes at all give an answer, never a panic; a refusal is one sentence (`rejection.rs`). A
//! component that passes is valid wasm, has an entry point, and imports only interfaces that `linker.rs` offers.
//! Exports that are not known are normal and ignored.

use std::borrow::Cow;
use std::collections::BTreeSet;

use wasmparser::{KnownCustom, Parser, Payload};
use wasmq_core::Digest;

use super::adapt::{self, CoreModule, WASIP1};
use super::offered::OFFERED;
use super::prepare::digest_of;
pub use super::rejection::Rejection;
use super::validate::validate;
use crate::symbols;

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
    let contents = symbols::contents(bytes);
    let inspection = Inspection {
        shape: content.shape().ok(),
        is_core_module,
        needs: content.needs(),
        imports: content.imports,
        exports: content.exports,
        size_bytes: bytes.len() as u64,
        digest: digest_of(bytes),
        wit_version: super::WIT_VERSION,
        has_names: contents.names,
        has_debug_info: contents.lines,
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
    content.core_imports = Some(module.imports.clone());
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
    core_imports: Option<Vec<(String, String)>>,
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
        validate(bytes)?;
        Self::scan(bytes)
    }

    /// Reads what is valid.
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
        let needs: BTreeSet<Need> = match &self.core_imports {
            None => self.imports.iter().filter_map(|name| need_of_interface(name)).collect(),
            Some(imports) => imports.iter().filter_map(|(module, name)| need_of_import(module, name)).collect(),
        };
        needs.into_iter().collect()
    }

    /// Of several handlers one that this host runs is enough.
    fn shape(&self) -> Result<Shape, Rejection> {
        let handlers = self.exports.iter().filter(|name| split(name).0 == HANDLER);
        let judged = handlers.map(|name| fits(name, super::WIT_VERSION)).reduce(Result::or);
        if let Some(judged) = judged {
            return judged.map(|()| Shape::Typed);
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
                if let KnownCustom::Producers(producers) = section.as_known() {
                    self.add_producers(producers);
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

/// By the name of an interface, with its version.
fn need_of_interface(name: &str) -> Option<Need> {
    match split(name).0 {
        "wasi:filesystem/types" => Some(Need::Files),
        "wasi:sockets/tcp"
        | "wasi:sockets/tcp-create-socket"
        | "wasi:sockets/udp"
        | "wasi:sockets/udp-create-socket"
        | "wasi:sockets/ip-name-lookup" => Some(Need::Network),
        _ => None,
    }
}

/// By what a core module imports: a function of wasip1, or of an interface that generated bindings name.
fn need_of_import(module: &str, name: &str) -> Option<Need> {
    match (module, name) {
        (WASIP1, "path_open") => Some(Need::Files),
        (WASIP1, name) if name.starts_with("sock_") => Some(Need::Network),
        (WASIP1, _) => None,
        (interface, _) => need_of_interface(interface),
    }
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
