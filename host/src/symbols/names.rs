//! Names of functions: the name section of a module, and names as their authors wrote them.
//!
//! Invariant: a name is as long as it is worth showing and no longer, whatever it unfolds to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use wasmparser::{BinaryReader, Name, NameSectionReader};

/// The longest name in a compiler's form that is looked into.
const MAX_MANGLED_BYTES: usize = 16 * 1024;
/// The longest name that another is unfolded to: far more than is kept.
const MAX_NAME_BYTES: usize = 16 * 1024;

/// What a name section says of some functions.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    /// The name of the module.
    pub(super) module: Option<&'a str>,
    /// The names of the functions that were asked for.
    pub(super) functions: BTreeMap<u32, &'a str>,
}

/// Reads the names of some functions. What is damaged has no names.
pub(super) fn look_up<'a>(section: &'a [u8], wanted: &BTreeSet<u32>) -> Names<'a> {
    let mut names = Names::default();
    for part in NameSectionReader::new(BinaryReader::new(section, 0)).map_while(Result::ok) {
        match part {
            Name::Module { name, .. } => names.module = Some(name).filter(|name| !name.is_empty()),
            Name::Function(map) => {
                let named = map.into_iter().map_while(Result::ok).filter(|naming| wanted.contains(&naming.index));
                names.functions.extend(named.map(|naming| (naming.index, naming.name)));
            }
            _ => {}
        }
    }
    names
}

/// Whether a name section names any function.
pub(super) fn has_functions(section: &[u8]) -> bool {
    let mut parts = NameSectionReader::new(BinaryReader::new(section, 0)).map_while(Result::ok);
    parts.any(|part| matches!(part, Name::Function(map) if map.count() > 0))
}

/// A name as its author wrote it, from Rust's or C++'s mangled form.
pub(crate) fn demangled(raw: &str) -> String {
    if raw.len() > MAX_MANGLED_BYTES {
        return wasmq_core::bytes::cap_text(raw, MAX_NAME_BYTES).0;
    }
    if let Ok(name) = rustc_demangle::try_demangle(raw) {
        return without_hashes(&format!("{name:#}"));
    }
    let cpp = cpp_demangle::Symbol::new(raw).ok().filter(|_| raw.starts_with("_Z"));
    cpp.and_then(|symbol| unfolded(&symbol)).unwrap_or_else(|| without_hashes(raw))
}

/// A name of C++, whose short form can stand for one of any length.
fn unfolded(symbol: &cpp_demangle::Symbol<&str>) -> Option<String> {
    let mut name = Bounded(String::new());
    match symbol.structured_demangle(&mut name, &cpp_demangle::DemangleOptions::default()) {
        Err(_) if name.0.len() < MAX_NAME_BYTES => None,
        _ => Some(name.0),
    }
}

struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_NAME_BYTES.saturating_sub(self.0.len());
        self.0.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
        if text.len() < room { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Rust's names carry hashes of the build: `core[396ca3b7bb79b2ea]::fmt`, or `core::fmt::h396ca3b7bb79b2ea`
/// in the older form. Without them the same failure of two builds looks the same.
fn without_hashes(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        rest = match after.split_once(']') {
            Some((inside, behind)) if is_hash(inside) && follows_a_name(&plain) => behind,
            _ => {
                plain.push('[');
                after
            }
        };
    }
    plain.push_str(rest);
    if let Some((before, hash)) = plain.rsplit_once("::h")
        && hash.len() == 16
        && is_hash(hash)
    {
        plain.truncate(before.len());
    }
    plain
}

fn is_hash(text: &str) -> bool {
    (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A type such as `[u8]` stands behind a space or a bracket, a hash behind a name.
fn follows_a_name(text: &str) -> bool {
    text.ends_with(|character: char| character.is_alphanumeric() || character == '_')
}
