//! Whose code a file is, what it says of a backtrace, and that hostile files say nothing and cost little.

use proptest::prelude::*;
use wasmq_core::report::Frame;
use wasmq_core::{Digest, TrapCode, TrapInfo};

use super::dwarf::{self, Query};
use super::matched::{Matched, SymbolsRefused, matched};
use super::modules::{self, Contents, Module};
use super::samples::{TWO_MODULES, deep_trap, first_core_module, stripped, wasm};
use super::units::{Stop, Units};
use super::{pack, resolve};

const DIGEST: Digest = Digest::new([7; 32]);
const NAMES: Contents = Contents { names: true, lines: false };

fn symbols(component: &[u8], file: &[u8]) -> Result<Matched, SymbolsRefused> {
    matched(component, DIGEST, file)
}

/// A nameless frame in the middle of a function of a core module.
fn frame(component: &[u8], module: usize, function: usize) -> Frame {
    let modules = modules::read(component).unwrap().modules;
    let module = &modules[module];
    let start = function.checked_sub(1).map_or(0, |before| module.ends[before]);
    Frame {
        function_index: module.imported + function as u32,
        offset: Some(module.code_start + u64::from(start + module.ends[function]) / 2),
        ..Frame::default()
    }
}

fn resolved(packed: &[u8], frames: Vec<Frame>) -> Vec<Frame> {
    let mut trap = TrapInfo::new(TrapCode::Unreachable, "unreachable", frames);
    resolve(&mut trap, packed);
    trap.frames
}

fn names(frames: &[Frame]) -> Vec<Option<&str>> {
    frames.iter().map(|frame| frame.function.as_deref()).collect()
}

#[test]
fn nameless_frames_get_the_names_of_their_own_core_module() {
    let file = wasm(TWO_MODULES);
    let component = stripped(&file);
    let found = symbols(&component, &file).unwrap();
    assert_eq!((found.contents, found.modules, found.described), (NAMES, 2, 2));
    let frames = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)].map(|(module, at)| frame(&component, module, at));
    let frames = resolved(&found.packed, frames.to_vec());
    assert_eq!(names(&frames), [Some("parse"), Some("guest::new"), Some("alloc"), Some("free"), Some("last")]);
    let modules: Vec<_> = frames.iter().map(|frame| frame.module.as_deref().unwrap()).collect();
    assert_eq!(modules, ["first", "first", "second", "second", "second"]);
}

#[test]
fn frames_that_do_not_fit_the_code_or_have_all_already_stay_as_they_are() {
    let file = wasm(TWO_MODULES);
    let component = stripped(&file);
    let packed = symbols(&component, &file).unwrap().packed;
    let good = frame(&component, 0, 0);
    let frames = vec![
        Frame { function_index: good.function_index + 1, ..good.clone() },
        Frame { offset: None, ..good.clone() },
        Frame { offset: Some(u64::MAX), ..good.clone() },
        Frame { offset: Some(0), ..good.clone() },
        Frame { function: Some("mine".to_owned()), source: Some("a.rs:1".to_owned()), ..good.clone() },
    ];
    assert_eq!(resolved(&packed, frames.clone()), frames);
    let named = resolved(&packed, vec![Frame { function: Some("mine".to_owned()), ..good }]);
    assert_eq!(names(&named), [Some("mine")], "a name that is there is never replaced");
}

#[test]
fn the_file_may_be_the_core_module_that_the_component_was_made_of() {
    let file = wasm(TWO_MODULES);
    let component = stripped(&file);
    let found = symbols(&component, &first_core_module(&file)).unwrap();
    assert_eq!((found.contents, found.modules, found.described), (NAMES, 2, 1));
    let frames = resolved(&found.packed, vec![frame(&component, 0, 0), frame(&component, 1, 0)]);
    assert_eq!(names(&frames), [Some("parse"), None]);
}

#[test]
fn other_code_is_refused_and_the_module_that_differs_is_named() {
    let file = wasm(TWO_MODULES);
    let component = stripped(&file);
    for (from, to) in [
        ("(i32.const 7)", "(i32.const 8)"),
        ("(func $last (call $free))", ""),
        ("(func $last (call $free))", "(func $last (call $free)) (func $more)"),
    ] {
        let other = wasm(&TWO_MODULES.replace(from, to));
        let error = symbols(&component, &other).unwrap_err();
        assert!(matches!(error, SymbolsRefused::OtherCode { module: 1, functions: 3, .. }), "{error}");
    }
    let imports_more = TWO_MODULES.replace("(func $log))", "(func $log)) (import \"host\" \"end\" (func))");
    assert_ne!(imports_more, TWO_MODULES);
    let error = symbols(&component, &wasm(&imports_more)).unwrap_err();
    assert!(matches!(error, SymbolsRefused::OtherCode { module: 0, .. }), "{error}");
    let error = symbols(&component, &wasm("(module (func $f (result i32) (i32.const 7)))")).unwrap_err();
    assert!(matches!(error, SymbolsRefused::OtherCode { .. }), "{error}");
}

#[test]
fn what_says_nothing_is_refused_with_a_reason() {
    let file = wasm(TWO_MODULES);
    let component = stripped(&file);
    assert_eq!(symbols(&component, &component).unwrap_err(), SymbolsRefused::Stripped { digest: DIGEST });
    for junk in [&b""[..], b"MZ\x90", b"\0asm", &file[..file.len() / 2]] {
        assert!(matches!(symbols(&component, junk), Err(SymbolsRefused::Malformed { .. })), "{junk:?}");
    }
    let empty = wasm("(component (core module))");
    assert_eq!(symbols(&empty, &file).unwrap_err(), SymbolsRefused::NoCode { digest: DIGEST });
}

#[test]
fn what_is_kept_is_what_was_found_without_the_code() {
    let file = deep_trap();
    let component = stripped(&file);
    let found = symbols(&component, &file).unwrap();
    assert_eq!(found.contents, Contents { names: true, lines: true });
    assert_eq!(pack::contents(&found.packed), found.contents);
    let modules = pack::read(&found.packed).unwrap();
    let deployed = modules::read(&component).unwrap().modules;
    let of = |modules: &[Module<'_>]| -> Vec<_> {
        modules.iter().map(|module| (module.code_start, module.imported, module.ends.clone())).collect()
    };
    assert_eq!(of(&modules), of(&deployed));
    assert_eq!(modules[0].section("name"), modules::read(&file).unwrap().modules[0].section("name"));
    assert_eq!(pack::write(&modules, found.packed.len() as u64).as_ref(), Some(&found.packed));
    assert_eq!(pack::write(&modules, found.packed.len() as u64 - 1), None, "one byte over the limit");
}

/// What the library says that the engine uses, in our words.
fn by_addr2line(module: &Module<'_>, address: u64) -> Vec<dwarf::Place> {
    let load = |id: gimli::SectionId| {
        Ok::<_, gimli::Error>(gimli::EndianSlice::new(module.section(id.name()), gimli::LittleEndian))
    };
    let context = addr2line::Context::from_dwarf(gimli::Dwarf::load(load).unwrap()).unwrap();
    let mut frames = context.find_frames(address).skip_all_loads().unwrap();
    let mut places = Vec::new();
    while let Some(frame) = frames.next().unwrap() {
        let source = frame.location.and_then(|location| {
            let file = location.file?;
            Some(match (location.line, location.column.filter(|column| *column > 0)) {
                (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
                (Some(line), None) => format!("{file}:{line}"),
                _ => file.to_owned(),
            })
        });
        let function = frame.function.map(|function| super::demangled(&function.raw_name().unwrap()));
        places.push(dwarf::Place { function, source });
    }
    places
}

#[test]
fn lines_and_inlined_functions_are_those_that_the_engine_would_give() {
    let file = deep_trap();
    let modules = modules::read(&file).unwrap().modules;
    let module = &modules[0];
    let mut compared = 0;
    for address in (0..module.code_bytes()).step_by(97) {
        let function = module.function_at(module.code_start + address).unwrap();
        let query = Query { address, function: function.range.clone() };
        let ours = dwarf::look_up(module, &[query], u64::MAX).remove(0);
        let theirs = by_addr2line(module, address);
        // Linkers leave the lines of functions that they dropped at the start of the code, where the library
        // takes them for those of the functions that are there. Ours are those of the function itself.
        let is_first = function.index <= module.imported + 3;
        // Two libraries define it, and the linker has kept one and the lines of both.
        let is_double = ours.last().is_some_and(|place| place.function.as_deref() == Some("cabi_realloc"));
        if !is_first && !is_double {
            assert_eq!(ours, theirs, "at {address}");
            compared += usize::from(ours.len() > 1);
        }
    }
    assert!(compared > 20, "only {compared} with inlined functions were compared");
}

#[test]
fn a_hand_written_line_table_is_read_to_the_letter() {
    // What the fuzzer begins with: which frames are asked about, then two functions in 32 bytes of code.
    let packed = &include_bytes!("../../../tests/fuzz/corpus/symbols_file/lines")[4..];
    let frame = |function_index, offset| Frame { function_index, offset: Some(offset), ..Frame::default() };
    let at = |index, offset| -> Vec<_> {
        let frames = resolved(packed, vec![frame(index, offset)]);
        frames.into_iter().map(|frame| (frame.function.unwrap(), frame.source.unwrap())).collect()
    };
    let place = |function: &str, source: &str| (function.to_owned(), source.to_owned());
    assert_eq!(at(1, 2), [place("share", "/src/lib/a.rs:10")]);
    assert_eq!(at(1, 5), [place("guest::div", "/src/lib/a.rs:12:3"), place("share", "/src/lib/a.rs:7:5")]);
    assert_eq!(at(1, 14), [place("share", "/src/lib/a.rs:12:3")]);
    assert_eq!(at(2, 20), [place("whole", "/src/lib/a.rs:12:3")]);
    assert_eq!(resolved(packed, vec![frame(3, 40)]), [frame(3, 40)], "behind the code");
}

#[test]
fn many_frames_are_looked_up_at_once_as_each_alone() {
    let file = deep_trap();
    let component = stripped(&file);
    let packed = symbols(&component, &file).unwrap().packed;
    let count = modules::read(&component).unwrap().modules[0].ends.len();
    let frames: Vec<Frame> = (0..count).step_by(9).map(|at| frame(&component, 0, at)).collect();
    let alone: Vec<Frame> = frames.iter().flat_map(|frame| resolved(&packed, vec![frame.clone()])).collect();
    let together = resolved(&packed, frames.into_iter().rev().collect());
    assert!(together.len() <= 64 && together.iter().all(|frame| frame.function.is_some()), "{together:#?}");
    assert!(together.iter().any(|frame| frame.source.is_some()), "{together:#?}");
    assert!(together.iter().all(|frame| alone.contains(frame)));
}

#[test]
fn a_deep_recursion_stays_capped_when_its_frames_are_expanded() {
    let file = deep_trap();
    let component = stripped(&file);
    let packed = symbols(&component, &file).unwrap().packed;
    let count = modules::read(&component).unwrap().modules[0].ends.len();
    let inlined = (0..count).map(|at| frame(&component, 0, at));
    let inlined = inlined.into_iter().find(|frame| resolved(&packed, vec![frame.clone()]).len() > 2).unwrap();
    let mut trap = TrapInfo::new(TrapCode::StackOverflow, "exhausted", vec![inlined; 1000]);
    assert_eq!(trap.frames_omitted, 936);
    resolve(&mut trap, &packed);
    assert_eq!(trap.frames.len(), 64);
    assert!(trap.frames_omitted >= 936 + 64, "{}", trap.frames_omitted);
}

/// A module whose one function is 100 bytes long, with these sections.
fn described<'a>(sections: &[(&'a str, &'a [u8])]) -> Module<'a> {
    let mut module = Module { ends: vec![100], ..Module::default() };
    sections.iter().for_each(|(name, content)| module.add_section(name, content));
    module
}

const QUERY: Query = Query { address: 50, function: 0..100 };

/// A unit of DWARF 4 that begins with the abbreviation at 0.
fn unit(entries: &[u8]) -> Vec<u8> {
    let mut bytes = (entries.len() as u32 + 7).to_le_bytes().to_vec();
    bytes.extend([4, 0, 0, 0, 0, 0, 4]);
    bytes.extend(entries);
    bytes
}

#[test]
fn work_without_end_is_given_up() {
    // A function with so many attributes that take no space, so often: a quadratic amount of work.
    let mut abbreviations = vec![1, 0x2e, 0];
    abbreviations.extend([0x3f, 0x19].repeat(60_000));
    abbreviations.extend([0, 0, 0]);
    let info = unit(&vec![1; 1_000_000]);
    let module = described(&[(".debug_abbrev", &abbreviations), (".debug_info", &info), (".debug_line", &[0])]);
    let units = Units::of(&module, 1_000_000).unwrap();
    let header = units.dwarf.units().next().unwrap().unwrap();
    let ended = dwarf::in_unit(&units, header, &[QUERY], &mut [vec![]]);
    assert!(matches!(ended, Err(Stop::Spent)), "{ended:?}");
    assert_eq!(dwarf::look_up(&module, &[QUERY], 1_000_000), [vec![]]);
}

#[test]
fn tables_that_lie_in_each_other_are_each_read_to_the_next_one_only() {
    // As many units as abbreviations, and the table of each goes on to the end: a quadratic amount of work.
    let abbreviation = |code: u32| [(code | 128) as u8, (code >> 7 | 128) as u8, (code >> 14) as u8, 0x11, 0, 0, 0];
    let table: Vec<u8> = (1..100_000_u32).flat_map(abbreviation).chain([0]).collect();
    let units = (1..100_000_u32).flat_map(|code| {
        let mut bytes = unit(&abbreviation(code)[..3]);
        bytes[6..10].copy_from_slice(&((code - 1) * 7).to_le_bytes());
        bytes
    });
    let units: Vec<u8> = units.collect();
    let module = described(&[(".debug_abbrev", &table), (".debug_info", &units), (".debug_line", &[0])]);
    assert_eq!(dwarf::look_up(&module, &[QUERY], u64::MAX), [vec![]]);
    let last = Units::of(&module, u64::MAX).unwrap();
    let header = last.dwarf.units().last().unwrap().unwrap();
    assert!(last.open(header).is_ok(), "the units are what they should be");
}

#[test]
fn a_list_of_files_that_would_fill_the_memory_is_not_read() {
    // DWARF 4: a unit with a line table whose header claims to be 16 MiB long.
    let abbreviations = [1, 0x11, 0, 0x10, 0x17, 0, 0, 0];
    let info = unit(&[1, 0, 0, 0, 0]);
    let mut line = vec![0; 16 << 20];
    let length = line.len() as u32;
    line[..4].copy_from_slice(&(length - 4).to_le_bytes());
    line[4] = 4;
    line[6..10].copy_from_slice(&(length - 10).to_le_bytes());
    line[10..].fill(1);
    let module = described(&[(".debug_abbrev", &abbreviations), (".debug_info", &info), (".debug_line", &line)]);
    let units = Units::of(&module, 1_000_000).unwrap();
    let header = units.dwarf.units().next().unwrap().unwrap();
    assert!(units.open(header).is_err());
}

#[test]
fn names_that_refer_to_each_other_in_a_circle_come_to_an_end() {
    // A function from 0 to 100 whose name stands with another entry, whose name stands with the first.
    let abbreviations =
        [1, 0x11, 1, 0, 0, 2, 0x2e, 0, 0x11, 0x01, 0x12, 0x06, 0x31, 0x13, 0, 0, 3, 0x2e, 0, 0x47, 0x13, 0, 0, 0];
    let info = unit(&[&[1, 2][..], &[0; 4], &[100, 0, 0, 0], &[25, 0, 0, 0], &[3], &[12, 0, 0, 0], &[0]].concat());
    let module = described(&[(".debug_abbrev", &abbreviations), (".debug_info", &info), (".debug_line", &[0])]);
    let found = dwarf::look_up(&module, &[QUERY], 1_000_000).remove(0);
    assert_eq!(found, [dwarf::Place::default()], "a function without name or line");
}

#[test]
fn a_name_that_unfolds_to_more_than_memory_is_cut() {
    // Each of these substitutions is twice as long as the one before.
    let doubling: String = (0..40).map(|n: u32| format!("S{}_IXadE", char::from_digit(n % 36, 36).unwrap())).collect();
    let mut mangled = String::from("_Z1fI1aIiiEE");
    mangled.push_str(&doubling);
    let twice = (0..60).fold("1a".to_owned(), |inner, _| format!("P{inner}"));
    for name in [mangled, format!("_Z1f{twice}"), "_R".repeat(50_000), "_ZN".repeat(50_000)] {
        assert!(super::demangled(&name).len() <= 64 * 1024);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn damaged_debug_information_says_something_else_or_nothing_and_comes_to_an_end(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..60),
        function in any::<proptest::sample::Index>(),
    ) {
        let file = deep_trap();
        let component = stripped(&file);
        let mut packed = symbols(&component, &file).unwrap().packed;
        // Behind the table of functions, which is short: what can be damaged is what describes them.
        let behind = packed.len() / 2;
        for (at, byte) in flips {
            let at = packed.len() - 1 - at.index(behind);
            packed[at] = byte;
        }
        let count = modules::read(&component).unwrap().modules[0].ends.len();
        resolved(&packed, vec![frame(&component, 0, function.index(count))]);
    }

    #[test]
    fn any_bytes_are_symbols_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let component = stripped(&wasm(TWO_MODULES));
        prop_assert!(symbols(&component, &bytes).is_err());
        let wrapped = [b"\0asm\x01\0\0\0\0", &bytes[..]].concat();
        prop_assert!(symbols(&component, &wrapped).is_err());
        let _ = pack::read(&bytes);
        let sections: Vec<_> = modules::DESCRIBING.iter().map(|name| (*name, &bytes[..])).collect();
        let _ = dwarf::look_up(&described(&sections), &[QUERY], 1_000_000);
    }
}
