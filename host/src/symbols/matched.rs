//! Whether a file is an unstripped build of the code of a component.

use std::ops::Range;

use wasmq_core::Digest;

use super::modules::{self, Contents, Module};
use super::{MAX_SYMBOLS_BYTES, pack};

/// Why a file was refused as symbols of a component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SymbolsRefused {
    /// Over the limit.
    #[error("the file has more than {limit_bytes} bytes of symbols, which is the limit; leave out what is not needed")]
    TooLarge {
        /// [`MAX_SYMBOLS_BYTES`].
        limit_bytes: u64,
    },
    /// Not wasm, or damaged.
    #[error(
        "the file is no WebAssembly that can be read: {reason} at offset {offset}; pass the .wasm file that your build made"
    )]
    Malformed {
        /// What is wrong.
        reason: String,
        /// Where, in bytes from the start of the file.
        offset: u64,
    },
    /// The component has no code that the file could describe.
    #[error("{digest} has no code of its own, so there is nothing to name")]
    NoCode {
        /// The component.
        digest: Digest,
    },
    /// Another program, or another build of it.
    #[error(
        "its code is not that of {digest}: core module {module} of it, with {functions} functions in {code_bytes} bytes of code, is not in the file; strip a copy of a build and deploy that, since settings of the build change its code"
    )]
    OtherCode {
        /// The component.
        digest: Digest,
        /// Which core module of the component, from 0.
        module: usize,
        /// Its functions.
        functions: usize,
        /// Its code.
        code_bytes: u64,
    },
    /// The same code, stripped too.
    #[error(
        "its code is that of {digest}, but it has neither names nor debug information; build the same source without stripping"
    )]
    Stripped {
        /// The component.
        digest: Digest,
    },
}

/// What a file of symbols has for a component.
#[derive(Debug)]
pub(crate) struct Matched {
    /// The bytes to keep.
    pub(crate) packed: Vec<u8>,
    /// What they say.
    pub(crate) contents: Contents,
    /// How many core modules with code the component has.
    pub(crate) modules: usize,
    /// For how many of them the file says something.
    pub(crate) described: usize,
}

/// Takes from a file what describes the code of a component.
///
/// Every core module of the component needs one in the file with the same code. A file that is a core module
/// itself can be that of one of them: the small ones that a toolchain adds around it have no file of their own.
///
/// # Errors
/// The first reason why the file is of no use for this component.
pub(crate) fn matched(component: &[u8], digest: Digest, file: &[u8]) -> Result<Matched, SymbolsRefused> {
    let too_large = SymbolsRefused::TooLarge { limit_bytes: MAX_SYMBOLS_BYTES };
    if file.len() as u64 > MAX_SYMBOLS_BYTES {
        return Err(too_large);
    }
    let described = modules::read(file).map_err(|error| SymbolsRefused::Malformed {
        reason: error.message().to_owned(),
        offset: error.offset() as u64,
    })?;
    let deployed = modules::read(component).map(|file| file.modules).unwrap_or_default();
    if deployed.is_empty() {
        return Err(SymbolsRefused::NoCode { digest });
    }
    let pairs: Vec<_> = deployed.iter().map(|module| twin(component, module, file, &described.modules)).collect();
    let is_whole =
        if described.is_core { pairs.iter().any(Option::is_some) } else { pairs.iter().all(Option::is_some) };
    if !is_whole {
        return Err(other_code(digest, &deployed, &pairs));
    }
    let all: Vec<Module<'_>> = deployed.iter().zip(&pairs).map(|(module, twin)| with_sections(module, *twin)).collect();
    let each = all.iter().map(Module::contents);
    let contents = each.clone().fold(Contents::default(), Contents::or);
    if contents == Contents::default() {
        return Err(SymbolsRefused::Stripped { digest });
    }
    let described = each.filter(|contents| *contents != Contents::default()).count();
    let packed = pack::write(&all, MAX_SYMBOLS_BYTES).ok_or(too_large)?;
    Ok(Matched { packed, contents, modules: all.len(), described })
}

/// The module of the file with the same code; of several the one that says most.
fn twin<'m, 'f>(
    component: &[u8],
    module: &Module<'_>,
    file: &[u8],
    candidates: &'m [Module<'f>],
) -> Option<&'m Module<'f>> {
    let code = code(component, module)?;
    let same = candidates.iter().filter(|other| {
        other.imported == module.imported && other.ends == module.ends && self::code(file, other) == Some(code)
    });
    same.max_by_key(|other| (other.contents().lines, other.contents().names))
}

fn code<'a>(file: &'a [u8], module: &Module<'_>) -> Option<&'a [u8]> {
    let start = usize::try_from(module.code_start).ok()?;
    let range: Range<usize> = start..start.checked_add(usize::try_from(module.code_bytes()).ok()?)?;
    file.get(range)
}

/// The module where it is in the component, with what its twin says of it.
fn with_sections<'f>(module: &Module<'_>, twin: Option<&Module<'f>>) -> Module<'f> {
    Module {
        code_start: module.code_start,
        imported: module.imported,
        ends: module.ends.clone(),
        sections: twin.map(|twin| twin.sections.clone()).unwrap_or_default(),
    }
}

/// Names the largest module that has no twin.
fn other_code(digest: Digest, deployed: &[Module<'_>], pairs: &[Option<&Module<'_>>]) -> SymbolsRefused {
    let missing = deployed.iter().zip(pairs).enumerate().filter(|(_, (_, twin))| twin.is_none());
    let largest = missing.map(|(at, (module, _))| (at, module)).max_by_key(|(_, module)| module.code_bytes());
    let (module, functions, code_bytes) =
        largest.map_or((0, 0, 0), |(at, module)| (at, module.ends.len(), module.code_bytes()));
    SymbolsRefused::OtherCode { digest, module, functions, code_bytes }
}
