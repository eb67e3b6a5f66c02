//! Traps: the engine's names turned into ours, and the engine's backtrace into frames.
//!
//! Invariants: every trap of the engine has a code, unknown ones `other`; a frame never holds more
//! than the guest's own names, and those are capped by [`TrapInfo::new`].

use std::collections::BTreeMap;

use wasmq_core::report::{Frame, MAX_FRAMES_EACH_END};
use wasmq_core::{TrapCode, TrapInfo};
use wasmtime::{FrameInfo, FrameSymbol, Trap, WasmBacktrace};

use crate::symbols::{capped, demangled};

/// The code of a trap.
pub(super) fn code(trap: Trap) -> TrapCode {
    match trap {
        Trap::UnreachableCodeReached => TrapCode::Unreachable,
        Trap::MemoryOutOfBounds | Trap::ArrayOutOfBounds => TrapCode::OutOfBoundsMemory,
        Trap::TableOutOfBounds => TrapCode::OutOfBoundsTable,
        Trap::IndirectCallToNull => TrapCode::IndirectCallToNull,
        Trap::BadSignature => TrapCode::IndirectCallType,
        Trap::IntegerDivisionByZero => TrapCode::DivideByZero,
        Trap::IntegerOverflow => TrapCode::IntegerOverflow,
        Trap::BadConversionToInteger => TrapCode::InvalidConversion,
        Trap::StackOverflow => TrapCode::StackOverflow,
        Trap::HeapMisaligned => TrapCode::MisalignedAtomic,
        Trap::NullReference => TrapCode::NullReference,
        Trap::CastFailure => TrapCode::CastFailure,
        Trap::AllocationTooLarge => TrapCode::AllocationTooLarge,
        Trap::UncaughtException => TrapCode::UncaughtException,
        Trap::CannotEnterComponent
        | Trap::CannotLeaveComponent
        | Trap::InvalidChar
        | Trap::DebugAssertStringEncodingFinished
        | Trap::DebugAssertEqualCodeUnits
        | Trap::DebugAssertPointerAligned
        | Trap::DebugAssertUpperBitsUnset
        | Trap::StringOutOfBounds
        | Trap::ListOutOfBounds
        | Trap::InvalidDiscriminant
        | Trap::UnalignedPointer
        | Trap::NoAsyncResult
        | Trap::CannotBlockSyncTask
        | Trap::TaskReturnInvalid => TrapCode::Canonical,
        // Interrupts and fuel are not used; the rest belongs to proposals that are switched off.
        _ => TrapCode::Other,
    }
}

/// The engine's sentence on a trap.
pub(super) fn sentence(trap: Trap) -> String {
    let text = trap.to_string();
    text.strip_prefix("wasm trap: ").map(str::to_owned).unwrap_or(text)
}

/// A trap and its frames, innermost first. Inlined functions get frames of their own. Of a deep stack
/// only both ends are looked at.
pub(super) fn info(code: TrapCode, message: &str, backtrace: Option<&WasmBacktrace>) -> TrapInfo {
    let all = backtrace.map(WasmBacktrace::frames).unwrap_or_default();
    let (kept, frames_omitted) = both_ends(all.iter().collect());
    let (kept, inlined_omitted) = both_ends(kept.into_iter().flat_map(functions).collect());
    let mut names = Names::default();
    let frames = kept.into_iter().map(|(info, symbol)| frame(info, symbol, &mut names)).collect();
    let mut info = TrapInfo::new(code, message, frames);
    info.frames_omitted += frames_omitted + inlined_omitted;
    info
}

/// As much of a list as is kept of a backtrace, and how many were left out of the middle.
fn both_ends<T>(mut all: Vec<T>) -> (Vec<T>, u64) {
    let omitted = all.len().saturating_sub(2 * MAX_FRAMES_EACH_END);
    if omitted > 0 {
        all.drain(MAX_FRAMES_EACH_END..MAX_FRAMES_EACH_END + omitted);
    }
    (all, omitted as u64)
}

/// The functions of a frame, innermost first: one, or each that was inlined into it.
fn functions(info: &FrameInfo) -> impl Iterator<Item = (&FrameInfo, Option<&FrameSymbol>)> {
    let plain = info.symbols().is_empty().then_some((info, None));
    plain.into_iter().chain(info.symbols().iter().map(move |symbol| (info, Some(symbol))))
}

/// Names as their authors wrote them, each looked into once: a recursion has the same ones many times.
#[derive(Default)]
struct Names<'a>(BTreeMap<&'a str, String>);

impl<'a> Names<'a> {
    fn of(&mut self, raw: &'a str) -> String {
        self.0.entry(raw).or_insert_with(|| demangled(raw)).clone()
    }
}

fn frame<'a>(info: &'a FrameInfo, symbol: Option<&'a FrameSymbol>, names: &mut Names<'a>) -> Frame {
    Frame {
        function: symbol.and_then(FrameSymbol::name).or_else(|| info.func_name()).map(|name| names.of(name)),
        module: info.module().name().map(capped),
        function_index: info.func_index(),
        offset: info.module_offset().map(|offset| offset as u64),
        source: symbol.and_then(source),
    }
}

fn source(symbol: &FrameSymbol) -> Option<String> {
    let file = capped(symbol.file()?);
    Some(match (symbol.line(), symbol.column()) {
        (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
        (Some(line), None) => format!("{file}:{line}"),
        _ => file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_list_both_ends_are_kept_and_the_rest_is_counted() {
        assert_eq!(both_ends((0..64).collect::<Vec<_>>()), ((0..64).collect(), 0));
        assert_eq!(both_ends((0..1000).collect::<Vec<_>>()), ((0..32).chain(968..1000).collect(), 936));
    }
}
