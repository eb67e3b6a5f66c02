//! Names of functions: the name section of a module, and names as their authors wrote them.
//!
//! Invariant: a name is as long as it is worth showing and no longer, whatever it unfolds to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use wasmparser::{BinaryReader, Name, NameSectionReader};
use wasmq_core::bytes::cap_text;
use wasmq_core::report::MAX_FRAME_NAME_BYTES;

/// The longest name in a compiler's form that is looked into.
const MAX_MANGLED_BYTES: usize = 16 * 1024;
/// The longest name that another is unfolded to: far more than is kept.
const MAX_UNFOLDED_BYTES: usize = 16 * 1024;
/// The longest hash in a name, in digits.
const MAX_HASH_DIGITS: usize = 16;

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

/// How many functions a name section names.
pub(super) fn count(section: &[u8]) -> u64 {
    let parts = NameSectionReader::new(BinaryReader::new(section, 0)).map_while(Result::ok);
    let functions = parts.map(|part| if let Name::Function(map) = part { map.count().into() } else { 0 });
    functions.sum()
}

/// A name as its author wrote it, from Rust's or C++'s mangled form, of at most [`MAX_FRAME_NAME_BYTES`].
pub(crate) fn demangled(raw: &str) -> String {
    if raw.len() > MAX_MANGLED_BYTES {
        return capped(raw);
    }
    if let Ok(name) = rustc_demangle::try_demangle(raw) {
        return unfolded(|text| write!(text, "{name:#}")).unwrap_or_else(|| capped(raw));
    }
    let cpp = Some(raw).filter(|raw| raw.starts_with("_Z")).and_then(|raw| cpp_demangle::Symbol::new(raw).ok());
    let options = cpp_demangle::DemangleOptions::default();
    let cpp = cpp.and_then(|symbol| unfolded(|text| symbol.structured_demangle(text, &options)));
    cpp.unwrap_or_else(|| capped(&without_hashes(raw)))
}

/// What is written of a name whose short form can stand for one of any length.
fn unfolded(write: impl FnOnce(&mut Bounded) -> fmt::Result) -> Option<String> {
    let mut name = Bounded::default();
    let is_written = write(&mut name).is_ok();
    let plain = without_hashes(&name.text);
    if name.is_full {
        // Nobody knows how long it would have been.
        const MARK: &str = "…";
        let head = plain.get(..plain.floor_char_boundary(MAX_FRAME_NAME_BYTES - MARK.len()));
        return Some(format!("{}{MARK}", head.unwrap_or_default()));
    }
    is_written.then(|| capped(&plain))
}

/// A text of at most as many bytes as a frame keeps.
pub(crate) fn capped(text: &str) -> String {
    cap_text(text, MAX_FRAME_NAME_BYTES).0
}

#[derive(Default)]
struct Bounded {
    text: String,
    is_full: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_UNFOLDED_BYTES.saturating_sub(self.text.len());
        self.is_full |= text.len() > room;
        self.text.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
        if self.is_full { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Rust's names carry hashes of the build: `core[396ca3b7bb79b2ea]::fmt`, or `core::fmt::h396ca3b7bb79b2ea`
/// in the older form. Without them the same failure of two builds looks the same.
fn without_hashes(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('[') {
        plain.push_str(before);
        rest = match hash_before(after) {
            Some(behind) if follows_a_name(&plain) => behind,
            _ => {
                plain.push('[');
                after
            }
        };
    }
    plain.push_str(rest);
    if let Some((before, hash)) = plain.rsplit_once("::h")
        && hash.len() == MAX_HASH_DIGITS
        && is_hash(hash)
    {
        plain.truncate(before.len());
    }
    plain
}

/// What is behind a hash and its bracket. A bracket further on ends something else.
fn hash_before(text: &str) -> Option<&str> {
    let end = text.bytes().take(MAX_HASH_DIGITS + 1).position(|byte| byte == b']')?;
    text.get(..end).filter(|inside| is_hash(inside))?;
    text.get(end + 1..)
}

fn is_hash(text: &str) -> bool {
    (1..=MAX_HASH_DIGITS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A type such as `[u8]` stands behind a space or a bracket, a hash behind a name.
fn follows_a_name(text: &str) -> bool {
    text.ends_with(|character: char| character.is_alphanumeric() || character == '_')
}
