//! Where a program with an older C library believes that its heap ends.
//!
//! Until 2022 the `malloc` of wasi-libc took for its heap, when it was first called, what lies between the data
//! of the program and the end of the memory: `sbrk(0) - &__heap_base`. By then the adapter has grown the memory
//! for its own state. So the call of `sbrk` becomes the end of the memory that the program brought along, as newer
//! libraries have it. What comes behind, `malloc` asks for, and gets pages that are nobody's.
//!
//! The call is recognised by what is computed: a function that returns the size of the memory, or grows it, is
//! called with 0, and a constant is subtracted. Names may have been stripped and are not looked at.
//!
//! Invariants: something is changed only where exactly one place looks like that; the end takes as many bytes as
//! the call did, so all code stays where it was.

use std::borrow::Cow;
use std::ops::Range;

use wasm_encoder::Encode as _;
use wasmparser::{FunctionBody, MemorySectionReader, Operator, Parser, Payload};

use super::rewrite::imported_functions;

/// A page of memory, in bytes.
const PAGE: u64 = 65_536;
/// The most instructions of `sbrk`; it has about 40.
const MAX_SBRK: usize = 200;
/// What does nothing.
const NOP: u8 = 0x01;
const I32_CONST: u8 = 0x41;

/// `sbrk(0) - constant`, perhaps.
#[derive(Debug)]
struct Site {
    /// Where the call is in the file, with its argument.
    call: Range<usize>,
    callee: u32,
}

/// What is found in one pass over the code.
#[derive(Debug, Default)]
struct Found {
    /// The index of the next function.
    function: u32,
    /// The size of the memory that the program brings along, in bytes.
    memory_bytes: Option<u64>,
    /// The functions that may be `sbrk`.
    sbrk: Vec<u32>,
    sites: Vec<Site>,
}

/// The program with a heap that ends where its own memory does.
pub(super) fn bounded(bytes: &[u8]) -> Cow<'_, [u8]> {
    let Some((call, end)) = find(bytes) else { return Cow::Borrowed(bytes) };
    let mut program = bytes.to_vec();
    if let Some(place) = program.get_mut(call) {
        place.copy_from_slice(&end);
    }
    Cow::Owned(program)
}

/// Where the call is, and what takes its place.
fn find(bytes: &[u8]) -> Option<(Range<usize>, Vec<u8>)> {
    let mut found = Found::default();
    let mut code = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.ok()? {
            Payload::ImportSection(section) => found.function += imported_functions(section).ok()?,
            Payload::MemorySection(section) => found.memory_bytes = memory_bytes(section),
            Payload::CodeSectionEntry(body) => found.look_at(&body, &mut code)?,
            _ => {}
        }
    }
    let end = i32::try_from(found.memory_bytes?).ok()?;
    let mut calls = found.sites.into_iter().filter(|site| found.sbrk.contains(&site.callee));
    let call = calls.next().filter(|_| calls.next().is_none())?.call;
    let end = constant(end, call.len())?;
    Some((call, end))
}

/// The size of the only memory at the start.
fn memory_bytes(section: MemorySectionReader<'_>) -> Option<u64> {
    let mut memories = section.into_iter();
    let memory = memories.next()?.ok().filter(|memory| !memory.memory64 && memory.page_size_log2.is_none())?;
    if memories.next().is_some() { None } else { memory.initial.checked_mul(PAGE) }
}

impl Found {
    fn look_at<'a>(&mut self, body: &FunctionBody<'a>, code: &mut Vec<(Operator<'a>, usize)>) -> Option<()> {
        if may_matter(body) {
            code.clear();
            for operator in body.get_operators_reader().ok()?.into_iter_with_offsets() {
                code.push(operator.ok()?);
            }
            if code.len() <= MAX_SBRK && is_sbrk(code) {
                self.sbrk.push(self.function);
            }
            self.sites.extend(code.windows(4).filter_map(site));
        }
        self.function += 1;
        Some(())
    }
}

/// Whether the bytes of what [`is_sbrk`] or [`site`] look for are there at all. Of large programs only some
/// functions are looked at more closely.
fn may_matter(body: &FunctionBody<'_>) -> bool {
    // memory.size 0; i32.const 0, call
    const BYTES: [&[u8]; 2] = [&[0x3f, 0x00], &[I32_CONST, 0x00, 0x10]];
    BYTES.iter().any(|wanted| body.as_bytes().windows(wanted.len()).any(|bytes| bytes == *wanted))
}

/// Whether it tells the size of the memory in bytes, and grows it.
fn is_sbrk(code: &[(Operator<'_>, usize)]) -> bool {
    let tells = |code: &[(Operator<'_>, usize)]| {
        let [(first, _), (second, _), (third, _)] = code else { return false };
        let is_page = matches!(second, Operator::I32Const { value: 16 });
        is_page && matches!((first, third), (Operator::MemorySize { mem: 0 }, Operator::I32Shl))
    };
    let grows = |(operator, _): &(Operator<'_>, usize)| matches!(operator, Operator::MemoryGrow { mem: 0 });
    code.windows(3).any(tells) && code.iter().any(grows)
}

/// A function that is called with 0, and a constant that is subtracted from what it returns.
fn site(code: &[(Operator<'_>, usize)]) -> Option<Site> {
    match code {
        [
            (Operator::I32Const { value: 0 }, start),
            (Operator::Call { function_index }, _),
            (Operator::I32Const { .. }, end),
            (Operator::I32Sub, _),
        ] => Some(Site { call: *start..*end, callee: *function_index }),
        _ => None,
    }
}

/// A constant in just so many bytes; nothing when it needs more.
fn constant(value: i32, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![I32_CONST];
    value.encode(&mut bytes);
    let missing = length.checked_sub(bytes.len())?;
    bytes.extend(std::iter::repeat_n(NOP, missing));
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose `malloc` begins like that, with more in front of the call and behind it.
    fn program(before: &str, behind: &str) -> Vec<u8> {
        let text = format!(
            r#"(module
                (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
                (memory 3)
                (func $sbrk (param i32) (result i32)
                  (if (i32.eqz (local.get 0)) (then (return (i32.shl (memory.size) (i32.const 16)))))
                  (i32.shl (memory.grow (i32.shr_u (local.get 0) (i32.const 16))) (i32.const 16)))
                (func $malloc (result i32) {before} (i32.sub (call $sbrk (i32.const 0)) (i32.const 72016)) {behind}))"#
        );
        wat::parse_str(text).unwrap()
    }

    fn changed(bytes: &[u8]) -> Vec<(u8, u8)> {
        let bounded = bounded(bytes);
        assert_eq!(bounded.len(), bytes.len());
        wasmparser::validate(&bounded).unwrap();
        bytes.iter().zip(&*bounded).filter(|(old, new)| old != new).map(|(old, new)| (*old, *new)).collect()
    }

    #[test]
    fn the_heap_ends_where_the_memory_of_the_program_does_and_no_code_moves() {
        // i32.const 0, call 1: what fits into four bytes is 196608.
        assert_eq!(changed(&program("", "")), [(0x00, 0x80), (0x10, 0x80), (0x01, 0x0c)]);
    }

    #[test]
    fn a_place_that_is_not_the_only_one_is_left_alone() {
        let twice = "(drop (i32.sub (call $sbrk (i32.const 0)) (i32.const 8)))";
        assert_eq!(changed(&program(twice, "")), []);
        let other = "(drop (call $sbrk (i32.const 0))) (drop (i32.sub (call $sbrk (i32.const 1)) (i32.const 8)))";
        assert_eq!(changed(&program(other, "")).len(), 3, "these are no such places");
    }

    #[test]
    fn a_function_that_does_not_grow_the_memory_is_not_sbrk() {
        let text = r#"(module (memory 3)
            (func $size (param i32) (result i32) (i32.shl (memory.size) (i32.const 16)))
            (func (result i32) (i32.sub (call $size (i32.const 0)) (i32.const 72016))))"#;
        assert_eq!(changed(&wat::parse_str(text).unwrap()), []);
    }

    #[test]
    fn a_constant_fills_the_place_or_is_not_written() {
        assert_eq!(constant(131_072, 8).unwrap(), [0x41, 0x80, 0x80, 0x08, NOP, NOP, NOP, NOP]);
        assert_eq!(constant(131_072, 4).unwrap(), [0x41, 0x80, 0x80, 0x08]);
        assert_eq!(constant(131_072, 3), None);
        assert_eq!(constant(64, 3).unwrap(), [0x41, 0xc0, 0x00], "the sign");
    }
}
