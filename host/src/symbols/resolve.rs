//! A backtrace with the names and lines that symbols have for it.

use std::collections::{BTreeMap, BTreeSet};

use wasmq_core::TrapInfo;
use wasmq_core::report::Frame;

use super::dwarf::{self, Place, Query};
use super::modules::{Function, Module};
use super::names;
use super::pack;
use super::units::Purse;

/// How many steps the search in debug information may take for one backtrace: a second or two of work, and what a
/// large program needs many times over.
const MAX_STEPS: u64 = 50_000_000;

/// What is known of the frames of one core module.
struct Known {
    module: Option<String>,
    functions: BTreeMap<u32, String>,
    places: BTreeMap<u64, Vec<Place>>,
}

/// Gives the frames of a backtrace the names and lines that they lack, from symbols that were packed for its
/// component. A frame with functions that were inlined into it becomes several, as those of the engine do.
pub(crate) fn resolve(trap: &mut TrapInfo, packed: &[u8]) {
    // The bytes are as they were written; what cannot be read is of another version of this program.
    let modules = pack::read(packed).unwrap_or_default();
    with_modules(trap, &modules);
}

fn with_modules(trap: &mut TrapInfo, modules: &[Module<'_>]) {
    let found: Vec<_> = trap.frames.iter().map(|frame| function_of(frame, modules)).collect();
    let used: BTreeSet<usize> = found.iter().flatten().map(|(module, _)| *module).collect();
    let purse = Purse::of(MAX_STEPS);
    let known: BTreeMap<usize, Known> = used
        .into_iter()
        .filter_map(|at| {
            let inside = trap.frames.iter().zip(&found).filter_map(|(frame, found)| {
                let (_, function) = found.as_ref().filter(|(module, _)| *module == at)?;
                Some((frame, function))
            });
            Some((at, look_up(modules.get(at)?, inside, &purse)))
        })
        .collect();
    let frames = trap.frames.iter().zip(&found).flat_map(|(frame, found)| match found {
        Some((module, _)) => expand(frame, modules.get(*module), known.get(module)),
        None => vec![frame.clone()],
    });
    *trap = trap.with_frames(frames.collect());
}

/// The function of a frame that lacks something, and the core module that it is in. The offset alone says both;
/// code that the engine makes itself has offsets too, and is told apart by the index.
fn function_of(frame: &Frame, modules: &[Module<'_>]) -> Option<(usize, Function)> {
    if frame.function.is_some() && frame.source.is_some() {
        return None;
    }
    let offset = frame.offset?;
    let functions = modules.iter().enumerate().map(|(at, module)| Some((at, module.function_at(offset)?)));
    functions.flatten().find(|(_, function)| function.index == frame.function_index)
}

fn look_up<'f>(module: &Module<'_>, inside: impl Iterator<Item = (&'f Frame, &'f Function)>, purse: &Purse) -> Known {
    let mut wanted = BTreeSet::new();
    let mut queries = BTreeMap::new();
    for (frame, function) in inside {
        wanted.insert(function.index);
        if let Some(address) = address(frame, module) {
            queries.insert(address, Query { address, function: function.range.clone() });
        }
    }
    let queries: Vec<Query> = queries.into_values().collect();
    let places = dwarf::look_up(module, &queries, purse);
    let names = names::look_up(module.section(super::modules::NAME), &wanted);
    Known {
        module: names.module.map(names::capped),
        functions: names.functions.into_iter().map(|(index, name)| (index, names::demangled(name))).collect(),
        places: queries.iter().map(|query| query.address).zip(places).collect(),
    }
}

/// Where the instruction of a frame is, in bytes from the start of the code.
fn address(frame: &Frame, module: &Module<'_>) -> Option<u64> {
    frame.offset?.checked_sub(module.code_start)
}

/// The frame itself with what is known of it, or one for each function that was inlined into it.
fn expand(frame: &Frame, module: Option<&Module<'_>>, known: Option<&Known>) -> Vec<Frame> {
    let (Some(module), Some(known)) = (module, known) else { return vec![frame.clone()] };
    let named = known.functions.get(&frame.function_index);
    let plain = Frame {
        function: frame.function.as_ref().or(named).cloned(),
        module: frame.module.as_ref().or(known.module.as_ref()).cloned(),
        ..frame.clone()
    };
    let places = address(frame, module).and_then(|address| known.places.get(&address)).map_or(&[][..], Vec::as_slice);
    // What the engine has resolved already it has expanded too.
    if places.is_empty() || frame.source.is_some() {
        return vec![plain];
    }
    let at = |place: &Place| Frame {
        function: place.function.clone().or_else(|| plain.function.clone()),
        source: place.source.clone(),
        ..plain.clone()
    };
    places.iter().map(at).collect()
}
