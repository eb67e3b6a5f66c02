//! Whether a file is an unstripped build of the code of a component.

use std::collections::HashMap;
use std::ops::Range;

use wasmq_core::Digest;

use super::modules::{self, Described, Module, Unreadable};
use super::{MAX_SYMBOLS_BYTES, pack};

/// Why a file was refused as symbols of a component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SymbolsRefused {
    /// Over the limit.
    #[error(
        "the file has more than {limit_bytes} bytes, which is the limit for symbols; build with less debug information, line tables are enough"
    )]
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
    /// The same code, stripped too, or no more than the component has.
    #[error(
        "its code is that of {digest}, but it has neither names nor debug information that the component lacks; build the same source without stripping"
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
    /// What they have.
    pub(crate) described: Described,
}

/// Takes from a file what describes the code of a component and is more than the component says itself.
///
/// Every core module of the component needs one in the file with the same code. A file that is a core module
/// itself can be that of one of them: the small ones that a toolchain adds around it have no file of their own.
///
/// # Errors
/// The first reason why the file is of no use for this component.
pub(crate) fn matched(component: &[u8], digest: Digest, file: &[u8]) -> Result<Matched, SymbolsRefused> {
    let found = read(file)?;
    described_by(component, digest, file, &found.modules, found.is_core)
}

/// The same for a core module, of which this component was made. Its own code comes first in it; what was added
/// around that is of this version of the program, and may be of another in the component that was deployed.
///
/// # Errors
/// As [`matched`].
pub(crate) fn matched_adapted(component: &[u8], digest: Digest, adapted: &[u8]) -> Result<Matched, SymbolsRefused> {
    let found = read(adapted)?;
    described_by(component, digest, adapted, found.modules.get(..1).unwrap_or_default(), true)
}

fn read(file: &[u8]) -> Result<modules::File<'_>, SymbolsRefused> {
    if file.len() as u64 > MAX_SYMBOLS_BYTES {
        return Err(SymbolsRefused::TooLarge { limit_bytes: MAX_SYMBOLS_BYTES });
    }
    modules::read(file).map_err(|Unreadable { reason, offset }| SymbolsRefused::Malformed { reason, offset })
}

/// What some modules of a file describe of a component, all of whose modules are among them or any.
fn described_by(
    component: &[u8],
    digest: Digest,
    file: &[u8],
    candidates: &[Module<'_>],
    any_is_enough: bool,
) -> Result<Matched, SymbolsRefused> {
    let deployed = modules::read(component).map(|file| file.modules).unwrap_or_default();
    if deployed.is_empty() {
        return Err(SymbolsRefused::NoCode { digest });
    }
    let by_code = by_code(file, candidates);
    let twin = |module| by_code.get(&key(component, module)?).copied();
    let pairs: Vec<_> = deployed.iter().map(twin).collect();
    let is_found = if any_is_enough { pairs.iter().any(Option::is_some) } else { pairs.iter().all(Option::is_some) };
    if !is_found {
        return Err(other_code(digest, &deployed, &pairs));
    }
    let all: Vec<Module<'_>> = deployed.iter().zip(&pairs).map(|(module, twin)| with_more(module, *twin)).collect();
    let described = Described::of(&all);
    if described.described == 0 {
        return Err(SymbolsRefused::Stripped { digest });
    }
    let too_large = SymbolsRefused::TooLarge { limit_bytes: MAX_SYMBOLS_BYTES };
    let packed = pack::write(&all, MAX_SYMBOLS_BYTES).ok_or(too_large)?;
    Ok(Matched { packed, described })
}

/// What two modules of the same code have in common.
type Key<'a> = (u32, &'a [u32], &'a [u8]);
/// How much a module says: whether it has lines, and how many functions have names.
type Said = (bool, u64);
type Twin<'m, 'f> = (&'m Module<'f>, Said);

/// The modules of a file by their code; of several with the same the one that says most.
fn by_code<'m, 'f>(file: &'m [u8], modules: &'m [Module<'f>]) -> HashMap<Key<'m>, Twin<'m, 'f>> {
    let mut found: HashMap<Key<'m>, Twin<'m, 'f>> = HashMap::new();
    for module in modules {
        let Some(key) = key(file, module) else { continue };
        let twin = (module, (module.contents().lines, module.named()));
        let kept = found.entry(key).or_insert(twin);
        if twin.1 > kept.1 {
            *kept = twin;
        }
    }
    found
}

fn key<'a>(file: &'a [u8], module: &'a Module<'_>) -> Option<Key<'a>> {
    Some((module.imported, &module.ends, code(file, module)?))
}

fn code<'a>(file: &'a [u8], module: &Module<'_>) -> Option<&'a [u8]> {
    let start = usize::try_from(module.code_start).ok()?;
    let range: Range<usize> = start..start.checked_add(usize::try_from(module.code_bytes()).ok()?)?;
    file.get(range)
}

/// The module where it is in the component, with what its twin says of it if that is more than it says itself.
fn with_more<'f>(module: &Module<'_>, twin: Option<Twin<'_, 'f>>) -> Module<'f> {
    let (has_lines, named) = (module.contents().lines, module.named());
    let more = twin.filter(|(_, (twin_has_lines, twin_named))| *twin_has_lines && !has_lines || *twin_named > named);
    Module {
        code_start: module.code_start,
        imported: module.imported,
        ends: module.ends.clone(),
        sections: more.map(|(twin, _)| twin.sections.clone()).unwrap_or_default(),
    }
}

/// Names the largest module that has no twin.
fn other_code(digest: Digest, deployed: &[Module<'_>], pairs: &[Option<Twin<'_, '_>>]) -> SymbolsRefused {
    let missing = deployed.iter().zip(pairs).enumerate().filter(|(_, (_, twin))| twin.is_none());
    let largest = missing.map(|(at, (module, _))| (at, module)).max_by_key(|(_, module)| module.code_bytes());
    let (module, functions, code_bytes) =
        largest.map_or((0, 0, 0), |(at, module)| (at, module.ends.len(), module.code_bytes()));
    SymbolsRefused::OtherCode { digest, module, functions, code_bytes }
}
