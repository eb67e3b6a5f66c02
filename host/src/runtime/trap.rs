//! Traps: the engine's names turned into ours, and the engine's backtrace into frames.
//!
//! Invariants: every trap of the engine has a code, unknown ones `other`; a frame never holds more
//! than the guest's own names, and those are capped by [`TrapInfo::new`].

use wasmq_core::report::{Frame, MAX_FRAMES_EACH_END};
use wasmq_core::{TrapCode, TrapInfo};
use wasmtime::{FrameInfo, FrameSymbol, Trap, WasmBacktrace};

use crate::symbols::demangled;

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
    let head = all.get(..MAX_FRAMES_EACH_END).unwrap_or(all);
    let rest = all.get(head.len()..).unwrap_or_default();
    let tail = rest.get(rest.len().saturating_sub(MAX_FRAMES_EACH_END)..).unwrap_or(rest);
    let frames = head.iter().chain(tail).flat_map(expand).collect();
    let mut info = TrapInfo::new(code, message, frames);
    info.frames_omitted += (rest.len() - tail.len()) as u64;
    info
}

/// The frame itself, or one for each function that was inlined into it.
fn expand(info: &FrameInfo) -> Vec<Frame> {
    let plain = Frame {
        function: info.func_name().map(demangled),
        module: info.module().name().map(str::to_owned),
        function_index: info.func_index(),
        offset: info.module_offset().map(|offset| offset as u64),
        source: None,
    };
    if info.symbols().is_empty() {
        return vec![plain];
    }
    let with_symbol = |symbol: &FrameSymbol| Frame {
        function: symbol.name().map(demangled).or_else(|| plain.function.clone()),
        source: source(symbol),
        ..plain.clone()
    };
    info.symbols().iter().map(with_symbol).collect()
}

fn source(symbol: &FrameSymbol) -> Option<String> {
    let file = symbol.file()?;
    Some(match (symbol.line(), symbol.column()) {
        (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
        (Some(line), None) => format!("{file}:{line}"),
        _ => file.to_owned(),
    })
}
