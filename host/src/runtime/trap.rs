//! Traps: the engine's names turned into ours, and the engine's backtrace into frames.
//!
//! Invariants: every trap of the engine has a code, unknown ones `other`; a frame never holds more
//! than the guest's own names, and those are capped by [`TrapInfo::new`].

use wasmq_core::report::Frame;
use wasmq_core::{TrapCode, TrapInfo};
use wasmtime::{FrameInfo, FrameSymbol, Trap, WasmBacktrace};

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

/// A trap and its frames, innermost first. Inlined functions get frames of their own.
pub(super) fn info(code: TrapCode, message: &str, backtrace: Option<&WasmBacktrace>) -> TrapInfo {
    TrapInfo::new(code, message, backtrace.map(frames).unwrap_or_default())
}

fn frames(backtrace: &WasmBacktrace) -> Vec<Frame> {
    let mut frames: Vec<Frame> = backtrace.frames().iter().flat_map(expand).collect();
    // The engine demangles names only in its own text form, which has one name per line.
    let text = backtrace.to_string();
    let names: Vec<&str> = text.lines().skip(1).filter_map(name_in_line).collect();
    if names.len() == frames.len() {
        for (frame, name) in frames.iter_mut().zip(names) {
            frame.function = frame.function.take().map(|raw| demangled(name, frame.module.as_deref(), raw));
        }
    }
    frames
}

/// The frame itself, or one for each function that was inlined into it.
fn expand(info: &FrameInfo) -> Vec<Frame> {
    let plain = Frame {
        function: info.func_name().map(str::to_owned),
        module: info.module().name().map(str::to_owned),
        function_index: info.func_index(),
        offset: info.module_offset().map(|offset| offset as u64),
        source: None,
    };
    if info.symbols().is_empty() {
        return vec![plain];
    }
    let with_symbol = |symbol: &FrameSymbol| Frame {
        function: symbol.name().map(str::to_owned).or_else(|| plain.function.clone()),
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

/// `    0:   0x1234 - name` and the `        - name` of an inlined function; not `   at file`.
fn name_in_line(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some(inlined) = line.strip_prefix("- ") {
        return Some(inlined);
    }
    let (number, rest) = line.split_once(':')?;
    number.parse::<u32>().ok()?;
    let rest = rest.trim_start();
    let has_offset = rest.starts_with("0x");
    Some(if has_offset { rest.split_once(" - ").map_or(rest, |(_, name)| name) } else { rest })
}

fn demangled(name: &str, module: Option<&str>, raw: String) -> String {
    // A name that is not mangled needs nothing; this also keeps names that hold odd characters.
    if name.ends_with(raw.as_str()) {
        return raw;
    }
    let in_module = name.strip_prefix(module.unwrap_or("<unknown>")).and_then(|rest| rest.strip_prefix('!'));
    without_hashes(in_module.unwrap_or(name))
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
