//! The core modules of a `.wasm` file: where their functions are, and the sections that describe them.
//!
//! Invariant: what is read here is never validated wasm, only wasm that can be taken apart; nothing in it is
//! believed that is not checked where it is used.

use std::ops::Range;

use wasmparser::{BinaryReaderError, Encoding, Parser, Payload, TypeRef};

/// The most core modules of a component, as the engine has it.
const MAX_MODULES: usize = 1000;
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
        Contents { names: super::names::has_functions(self.section(NAME)), lines }
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
    #[must_use]
    pub(crate) const fn or(self, other: Self) -> Self {
        Self { names: self.names || other.names, lines: self.lines || other.lines }
    }
}

/// What a `.wasm` file says of its functions.
pub(crate) fn contents(bytes: &[u8]) -> Contents {
    let modules = read(bytes).map(|file| file.modules).unwrap_or_default();
    modules.iter().fold(Contents::default(), |all, module| all.or(module.contents()))
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
pub(super) fn read(bytes: &[u8]) -> Result<File<'_>, BinaryReaderError> {
    let mut file = File { is_core: false, modules: Vec::new() };
    let (mut current, mut is_first) = (None::<Module<'_>>, true);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding, .. } => {
                file.is_core |= is_first && encoding == Encoding::Module;
                is_first = false;
                current = (encoding == Encoding::Module).then(Module::default);
            }
            Payload::End(_) => file.modules.extend(current.take().filter(|module| !module.ends.is_empty())),
            payload => {
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

fn add<'a>(module: &mut Module<'a>, payload: &Payload<'a>) -> Result<(), BinaryReaderError> {
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
