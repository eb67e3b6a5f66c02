//! The core modules of a `.wasm` file: where their functions are, and the sections that describe them.
//!
//! Invariant: what is read here is never validated wasm, only wasm that can be taken apart; nothing in it is
//! believed that is not checked where it is used. Reading takes a small multiple of the memory of the file.

use std::ops::Range;

use wasmparser::{BinaryReaderError, Encoding, Parser, Payload, TypeRef};

/// The most core modules of a component, as the engine has it.
const MAX_MODULES: usize = 1000;
/// The most functions of a core module, as the engine has it.
const MAX_FUNCTIONS: u32 = 1_000_000;
/// The most functions of a whole file.
const MAX_FUNCTIONS_IN_ALL: u32 = 4 * MAX_FUNCTIONS;
/// How deep components may lie in each other.
const MAX_NESTED: usize = 100;
/// The custom sections that say something of functions.
pub(super) const DESCRIBING: [&str; 11] = [
    NAME,
    ".debug_abbrev",
    ".debug_addr",
    INFO,
    LINE,
    ".debug_line_str",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
    ".debug_types",
];
pub(super) const NAME: &str = "name";
const INFO: &str = ".debug_info";
const LINE: &str = ".debug_line";

/// A core module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Module<'a> {
    /// Where the content of its code section begins, in bytes from the start of the component.
    pub(super) code_start: u64,
    /// How many functions it imports; their indices come first.
    pub(super) imported: u32,
    /// Where each of its own functions ends, in bytes from the start of the code.
    pub(super) ends: Vec<u32>,
    /// The content of the sections that describe it, each name once.
    pub(super) sections: Vec<(&'a str, &'a [u8])>,
}

/// A function of a core module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    /// Its index in the module.
    pub(super) index: u32,
    /// Where it is, in bytes from the start of the code.
    pub(super) range: Range<u64>,
}

/// What a file says of its functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Contents {
    /// Whether functions have names.
    pub names: bool,
    /// Whether instructions have files and lines.
    pub lines: bool,
}

/// What symbols have for a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Described {
    /// What they say.
    #[serde(flatten)]
    pub contents: Contents,
    /// How many core modules with code the component has.
    pub modules: usize,
    /// For how many of them there is something.
    pub described: usize,
}

impl Described {
    pub(super) fn of(modules: &[Module<'_>]) -> Self {
        let said = modules.iter().map(Module::contents).filter(|contents| *contents != Contents::default());
        said.fold(Self { modules: modules.len(), ..Self::default() }, |all, contents| Self {
            contents: all.contents.or(contents),
            described: all.described + 1,
            ..all
        })
    }
}

impl<'a> Module<'a> {
    /// A section by its name; empty when there is none.
    pub(super) fn section(&self, name: &str) -> &'a [u8] {
        self.sections.iter().find(|(found, _)| *found == name).map_or(&[], |(_, content)| *content)
    }

    /// How many bytes of code it has.
    pub(super) fn code_bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or_default().into()
    }

    /// The function that an offset in the component belongs to.
    pub(super) fn function_at(&self, offset: u64) -> Option<Function> {
        let address = offset.checked_sub(self.code_start)?;
        let at = self.ends.partition_point(|end| u64::from(*end) <= address);
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        let index = self.imported.checked_add(u32::try_from(at).ok()?)?;
        Some(Function { index, range: start.into()..end.into() })
    }

    /// What its sections say.
    pub(super) fn contents(&self) -> Contents {
        let lines = !self.section(INFO).is_empty() && !self.section(LINE).is_empty();
        Contents { names: self.named() > 0, lines }
    }

    /// How many functions have names.
    pub(super) fn named(&self) -> u64 {
        super::names::count(self.section(NAME))
    }

    pub(super) fn add_section(&mut self, name: &str, content: &'a [u8]) {
        let known = DESCRIBING.iter().find(|known| **known == name);
        if let Some(known) = known.filter(|known| self.sections.iter().all(|(found, _)| found != *known)) {
            self.sections.push((known, content));
        }
    }
}

impl Contents {
    /// What either says.
    const fn or(self, other: Self) -> Self {
        Self { names: self.names || other.names, lines: self.lines || other.lines }
    }
}

/// What a `.wasm` file says of its functions, by the core module with the most code: the small ones that a
/// toolchain adds around it often have names when the program itself has none.
pub(crate) fn contents(bytes: &[u8]) -> Contents {
    let modules = read(bytes).map(|file| file.modules).unwrap_or_default();
    modules.iter().max_by_key(|module| module.code_bytes()).map(Module::contents).unwrap_or_default()
}

/// Why a file cannot be taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// What is wrong.
    pub(super) reason: String,
    /// Where, in bytes from the start of the file.
    pub(super) offset: u64,
}

impl Unreadable {
    fn new(reason: String, offset: usize) -> Self {
        Self { reason, offset: offset as u64 }
    }
}

impl From<BinaryReaderError> for Unreadable {
    fn from(error: BinaryReaderError) -> Self {
        Self::new(error.message().to_owned(), error.offset())
    }
}

/// The parts of a file. Reading ends with the first error.
pub(super) fn parts(bytes: &[u8]) -> impl Iterator<Item = Result<Payload<'_>, Unreadable>> {
    let mut depth = 0_usize;
    Parser::new(0).parse_all(bytes).map(move |payload| {
        let payload = payload?;
        match &payload {
            Payload::Version { range, .. } if depth > MAX_NESTED => {
                let reason = format!("components lie in each other more than {MAX_NESTED} deep");
                return Err(Unreadable::new(reason, range.start));
            }
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        Ok(payload)
    })
}

/// A `.wasm` file taken apart.
#[derive(Debug)]
pub(super) struct File<'a> {
    /// Whether it is a core module itself.
    pub(super) is_core: bool,
    /// Its core modules that have code, in the order of the file.
    pub(super) modules: Vec<Module<'a>>,
}

/// Takes a component or a core module apart.
pub(super) fn read(bytes: &[u8]) -> Result<File<'_>, Unreadable> {
    let mut file = File { is_core: false, modules: Vec::new() };
    let (mut current, mut is_first) = (None::<Module<'_>>, true);
    let mut functions = 0;
    for payload in parts(bytes) {
        match payload? {
            Payload::Version { encoding, .. } => {
                file.is_core |= is_first && encoding == Encoding::Module;
                is_first = false;
                current = (encoding == Encoding::Module).then(Module::default);
            }
            Payload::End(_) => file.modules.extend(current.take().filter(|module| !module.ends.is_empty())),
            payload => {
                count_functions(&payload, &mut functions)?;
                if let Some(module) = &mut current {
                    add(module, &payload)?;
                }
            }
        }
        if file.modules.len() >= MAX_MODULES {
            break;
        }
    }
    Ok(file)
}

/// Counts the functions of a module before any of them is read.
fn count_functions(payload: &Payload<'_>, functions: &mut u32) -> Result<(), Unreadable> {
    let Payload::CodeSectionStart { count, range, .. } = payload else { return Ok(()) };
    *functions = functions.saturating_add(*count);
    let (limit, of) =
        if *count > MAX_FUNCTIONS { (MAX_FUNCTIONS, "a core module") } else { (MAX_FUNCTIONS_IN_ALL, "the file") };
    if *count > limit || *functions > limit {
        return Err(Unreadable::new(format!("{of} has more than {limit} functions"), range.start));
    }
    Ok(())
}

fn add<'a>(module: &mut Module<'a>, payload: &Payload<'a>) -> Result<(), Unreadable> {
    match payload {
        Payload::ImportSection(section) => {
            for import in section.clone().into_imports() {
                let is_function = matches!(import?.ty, TypeRef::Func(_) | TypeRef::FuncExact(_));
                module.imported = module.imported.saturating_add(is_function.into());
            }
        }
        Payload::CodeSectionStart { range, .. } => module.code_start = range.start as u64,
        Payload::CodeSectionEntry(body) => {
            let end = (body.range().end as u64).saturating_sub(module.code_start);
            module.ends.push(u32::try_from(end).unwrap_or(u32::MAX));
        }
        Payload::CustomSection(section) => module.add_section(section.name(), section.data()),
        _ => {}
    }
    Ok(())
}
