//! What is changed in a program for wasip1 before the adapter is put under it.
//!
//! **Exit codes.** The adapter knows success and failure only, and a command's exit code is its verdict here. So
//! `proc_exit` is imported straight from `exit-with-code` of `wasi:cli/exit`, which has the same type in a core
//! module. A module that imports that function itself, which none is known to do, is left as it is: two imports
//! of one name are refused.
//!
//! **Memory.** The adapter grows the memory of the program for its own state. Programs written in Go take for
//! granted that they alone do so: their runtime counts where its heap ends (`bloc` and `blocMax`, in `sbrk`) and
//! never asks. So such a program gets a `cabi_realloc`, which the adapter uses where there is one, that moves the
//! end of the heap as `sbrk` itself would (`program_break.rs`).
//!
//! Invariants: all other sections are kept byte for byte, and the code in the same places, so debug information
//! and names stay right.

use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as WASIP1;
use wasm_encoder::reencode::{Error, Reencode, RoundtripReencoder};
use wasm_encoder::{BlockType, Function, ImportSection, MemArg, Module, RawSection, ValType};
use wasmparser::{BinaryReader, ImportSectionReader, Parser, Payload, TypeRef, TypeSectionReader};

use super::program_break::ProgramBreak;

/// The function of wasip1 that ends a program, and what takes its place.
pub(super) const PROC_EXIT: &str = "proc_exit";
pub(super) const EXIT: (&str, &str) = ("wasi:cli/exit@0.2.12", "exit-with-code");
/// The type of that, for the encoder: as much of `wasi:cli/exit` as the adapter knows too.
pub(super) const EXIT_WIT: &str = "
package wasmq:adapted;
world program { import wasi:cli/exit@0.2.12; }
package wasi:cli@0.2.12 {
  interface exit {
    exit: func(status: result);
    exit-with-code: func(status-code: u8);
  }
}";
/// What the adapter asks for memory.
pub(super) const REALLOC: &str = "cabi_realloc";
/// Sections by number.
const TYPES: u8 = 1;
const FUNCTIONS: u8 = 3;
const EXPORTS: u8 = 7;
const CODE: u8 = 10;

/// What has to be known before the sections are written.
#[derive(Debug, Default)]
struct Numbers {
    types: u32,
    functions: u32,
}

impl Numbers {
    fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut numbers = Self::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::TypeSection(section) => numbers.types = types(section)?,
                Payload::ImportSection(section) => numbers.functions += imported_functions(section)?,
                Payload::FunctionSection(section) => numbers.functions += section.count(),
                _ => {}
            }
        }
        Ok(numbers)
    }
}

fn types(section: TypeSectionReader<'_>) -> Result<u32, Error> {
    let mut count = 0;
    for group in section {
        count += u32::try_from(group?.types().len()).unwrap_or(u32::MAX);
    }
    Ok(count)
}

/// How many functions are imported; their indices come first.
pub(super) fn imported_functions(section: ImportSectionReader<'_>) -> Result<u32, Error> {
    let mut count = 0;
    for import in section.into_imports() {
        count += u32::from(matches!(import?.ty, TypeRef::Func(_) | TypeRef::FuncExact(_)));
    }
    Ok(count)
}

/// Rewrites a module that is valid.
///
/// # Errors
/// When it is not valid after all.
pub(super) fn rewrite(bytes: &[u8], heap: Option<ProgramBreak>, mends_exit: bool) -> Result<Vec<u8>, Error> {
    let numbers = Numbers::read(bytes)?;
    let mut module = Module::new();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        if let (Payload::ImportSection(section), true) = (&payload, mends_exit) {
            module.section(&imports(section.clone())?);
            continue;
        }
        let Some((id, range)) = payload.as_section() else { continue };
        let data = bytes.get(range).unwrap_or_default();
        match heap.and_then(|heap| item(id, &numbers, heap)) {
            Some(item) => module.section(&RawSection { id, data: &with_one_more(data, &item)? }),
            None => module.section(&RawSection { id, data }),
        };
    }
    Ok(module.finish())
}

fn imports(section: ImportSectionReader<'_>) -> Result<ImportSection, Error> {
    let mut imports = ImportSection::new();
    for import in section.into_imports() {
        let import = import?;
        let is_exit = import.module == WASIP1 && import.name == PROC_EXIT;
        let (module, name) = if is_exit { EXIT } else { (import.module, import.name) };
        imports.import(module, name, RoundtripReencoder.entity_type(import.ty)?);
    }
    Ok(imports)
}

/// The entry that a section gets for `cabi_realloc`.
fn item(section: u8, numbers: &Numbers, heap: ProgramBreak) -> Option<Vec<u8>> {
    let mut item = Vec::new();
    match section {
        // (func (param i32 i32 i32 i32) (result i32))
        TYPES => item.extend([0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f]),
        FUNCTIONS => number(numbers.types, 0, &mut item),
        EXPORTS => {
            counted(REALLOC.as_bytes(), &mut item);
            item.push(0);
            number(numbers.functions, 0, &mut item);
        }
        CODE => counted(&realloc(heap).into_raw_body(), &mut item),
        _ => return None,
    }
    Some(item)
}

/// `cabi_realloc(old, old_size, align, size)`: new pages at the end of the memory; the heap of the program goes
/// on behind them. The first call comes before the program has set its variables, which is why they are moved to
/// the end of the memory and not by so many pages.
fn realloc(heap: ProgramBreak) -> Function {
    let word = MemArg { offset: 0, align: 3, memory_index: 0 };
    let (bloc, max) = (as_i32(heap.bloc), as_i32(heap.max));
    let (old, old_size, size, at) = (0, 1, 3, 4);
    let mut function = Function::new([(1, ValType::I32)]);
    let mut code = function.instructions();
    code.local_get(size).i32_const(65_535).i32_add().i32_const(16).i32_shr_u().memory_grow(0);
    code.local_tee(at).i32_const(-1).i32_eq().if_(BlockType::Empty).unreachable().end();
    code.local_get(at).i32_const(16).i32_shl().local_set(at);
    code.i32_const(bloc).i64_load(word).i64_const(0).i64_ne().if_(BlockType::Empty);
    for variable in [bloc, max] {
        code.i32_const(variable).memory_size(0).i64_extend_i32_u().i64_const(16).i64_shl().i64_store(word);
    }
    code.end();
    code.local_get(at).local_get(old).local_get(old_size).memory_copy(0, 0).local_get(at).end();
    function
}

/// An address in a memory of at most 4 GiB, as constants are written.
fn as_i32(address: u64) -> i32 {
    u32::try_from(address).unwrap_or(u32::MAX).cast_signed()
}

/// Bytes with their number in front.
fn counted(bytes: &[u8], into: &mut Vec<u8>) {
    number(u32::try_from(bytes.len()).unwrap_or(u32::MAX), 0, into);
    into.extend_from_slice(bytes);
}

/// A list of a section with one entry more behind the others. The number in front keeps its length where it
/// can, so that the entries stay where they were.
fn with_one_more(list: &[u8], item: &[u8]) -> Result<Vec<u8>, Error> {
    let mut reader = BinaryReader::new(list, 0);
    let count = reader.read_var_u32()?;
    let length = reader.original_position();
    let mut longer = Vec::with_capacity(list.len() + item.len() + 1);
    number(count + 1, length, &mut longer);
    longer.extend_from_slice(list.get(length..).unwrap_or_default());
    longer.extend_from_slice(item);
    Ok(longer)
}

/// A number in LEB128, in at least so many bytes.
fn number(mut value: u32, least: usize, into: &mut Vec<u8>) {
    let start = into.len();
    loop {
        let [byte, ..] = (value & 0x7f).to_le_bytes();
        value >>= 7;
        let is_last = value == 0 && into.len() + 1 - start >= least;
        into.push(if is_last { byte } else { byte | 0x80 });
        if is_last {
            return;
        }
    }
}
