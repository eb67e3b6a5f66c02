//! Whose code a file is, and what it says of a backtrace.

use wasmq_core::report::Frame;
use wasmq_core::{Digest, TrapCode, TrapInfo};

use super::dwarf::{self, Query};
use super::matched::{Matched, SymbolsRefused, matched, matched_adapted};
use super::modules::{self, Contents, Described, Module};
use super::samples::{TWO_MODULES, deep_trap, first_core_module, stripped, wasm};
use super::units::Purse;
use super::{pack, resolve};

const DIGEST: Digest = Digest::new([7; 32]);
const NAMES: Contents = Contents { names: true, lines: false };

pub(super) fn symbols(component: &[u8], file: &[u8]) -> Result<Matched, SymbolsRefused> {
    matched(component, DIGEST, file)
}

/// A nameless frame in the middle of a function of a core module.
pub(super) fn frame(component: &[u8], module: usize, function: usize) -> Frame {
    let modules = modules::read(component).unwrap().modules;
    let module = &modules[module];
    let start = function.checked_sub(1).map_or(0, |before| module.ends[before]);
    Frame {
        function_index: module.imported + function as u32,
        offset: Some(module.code_start + u64::from(start + module.ends[function]) / 2),
        ..Frame::default()
    }
}

pub(super) fn resolved(packed: &[u8], frames: Vec<Frame>) -> Vec<Frame> {
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
    assert_eq!(found.described, Described { contents: NAMES, modules: 2, described: 2 });
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
    assert_eq!(found.described, Described { contents: NAMES, modules: 2, described: 1 });
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

/// The same component, with names in its second and smaller module only.
fn with_a_named_helper() -> Vec<u8> {
    let text = TWO_MODULES.replace("$first", "").replace("(func $parse (call $log))", "(func (call 0))");
    let text = text.replace("(func $log)", "(func)").replace("(func $_RNvCs1234_5guest3new (call $parse))", "(func)");
    let nops = "(func (nop) (nop) (nop) (nop) (nop) (nop) (nop) (nop) (nop) (nop) (nop) (nop) (nop) (nop) (nop))";
    wasm(&text.replace("(func (call 0))", nops))
}

#[test]
fn what_says_no_more_than_the_component_itself_is_refused() {
    for whole in [wasm(TWO_MODULES), with_a_named_helper()] {
        assert_eq!(symbols(&whole, &whole).unwrap_err(), SymbolsRefused::Stripped { digest: DIGEST });
        assert!(symbols(&stripped(&whole), &whole).is_ok());
    }
}

#[test]
fn the_core_module_with_the_most_code_says_whether_a_component_has_names() {
    assert_eq!(super::contents(&wasm(TWO_MODULES)), NAMES);
    assert_eq!(super::contents(&with_a_named_helper()), Contents::default());
    assert_eq!(super::contents(&wasm("(module $named (func))")), Contents::default(), "the name of the module only");
}

#[test]
fn of_modules_with_the_same_code_the_one_that_says_most_is_taken() {
    let named = "(core module (func $first) (func $second))";
    let bare = "(core module (func) (func))";
    let component = stripped(&wasm(&format!("(component {named} {bare})")));
    for order in [[bare, named], [named, bare]] {
        let found = symbols(&component, &wasm(&format!("(component {})", order.join(" ")))).unwrap();
        assert_eq!(found.described.described, 2);
    }
}

#[test]
fn a_core_module_needs_not_the_adapter_that_it_was_deployed_with() {
    let adapted = wasm(TWO_MODULES);
    let earlier = stripped(&wasm(&TWO_MODULES.replace("(i32.const 7)", "(i32.const 8)")));
    let found = matched_adapted(&earlier, DIGEST, &adapted).unwrap();
    assert_eq!(found.described, Described { contents: NAMES, modules: 2, described: 1 });
    let other_program = stripped(&wasm(&TWO_MODULES.replace("(call $log)", "(call $log) (call $log)")));
    let refused = matched_adapted(&other_program, DIGEST, &adapted).unwrap_err();
    assert!(matches!(refused, SymbolsRefused::OtherCode { .. }), "the adapter alone is nothing: {refused}");
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
    assert_eq!(found.described.contents, Contents { names: true, lines: true });
    assert_eq!(pack::described(&found.packed), found.described);
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
        let ours = dwarf::look_up(module, &[query], &Purse::of(u64::MAX)).remove(0);
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
