//! Core modules made components: what they keep, and what is mended in them.

use wasmq_core::Verdict;
use wit_component::{StringEncoding, embed_component_metadata};

use super::support::{run, wat};
use crate::runtime::prepare::digest_of;
use crate::runtime::{Need, Rejection, Shape, accept, inspect};

/// A core module for wasip1 that leaves with 75.
pub(super) fn program(imports: &str) -> Vec<u8> {
    wat(&format!(
        r#"(module $prog {imports} (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1) (func $main (export "_start") (call $exit (i32.const 75)) (unreachable)))"#
    ))
}

#[test]
fn a_program_for_wasip1_becomes_a_command_and_always_the_same() {
    let bytes = program("");
    let (one, two) = (accept(&bytes).unwrap(), accept(&bytes).unwrap());
    assert_eq!((one.shape, one.module), (Shape::Command, Some(digest_of(&bytes))));
    assert_eq!((one.digest, &one.component), (two.digest, &two.component));
    assert_eq!(one.digest, digest_of(&one.component));
    assert!(accept(&one.component).unwrap().module.is_none());
}

/// What passes the inspection the engine can compile: both know the same proposals.
#[test]
fn the_engine_has_what_compilers_use_of_webassembly_3_0() {
    let exceptions = r#"(tag $oops (param i32))
        (func $main (local $code i32)
          (block $caught (result i32) (try_table (catch $oops $caught) (throw $oops (i32.const 7))) (unreachable))
          (if (i32.ne (i32.const 7)) (then (unreachable))))"#;
    let garbage = r#"(type $pair (struct (field i32) (field i32)))
        (func $main (if (i32.ne (struct.get $pair 1 (struct.new $pair (i32.const 1) (i32.const 2))) (i32.const 2))
          (then (unreachable))))"#;
    let tail_calls = r#"(func $down (param i32) (if (local.get 0)
          (then (return_call $down (i32.sub (local.get 0) (i32.const 1))))))
        (func $main (call $down (i32.const 5000000)))"#;
    for fields in [exceptions, garbage, tail_calls] {
        let bytes = wat(&format!(r#"(module (memory (export "memory") 1) {fields} (export "_start" (func $main)))"#));
        assert_eq!(run(&accept(&bytes).unwrap().component, b"").verdict, Verdict::Completed, "{fields}");
    }
}

#[test]
fn an_adapted_program_keeps_its_exit_code() {
    let component = accept(&program("")).unwrap().component.into_owned();
    assert_eq!(run(&component, b"").verdict, Verdict::Exit(75));
}

#[test]
fn the_code_and_the_names_of_an_adapted_module_stay_as_they_were() {
    let bytes = program("");
    let component = accept(&bytes).unwrap().component.into_owned();
    let code = |bytes: &[u8]| {
        let sections = wasmparser::Parser::new(0).parse_all(bytes).map(Result::unwrap);
        let mut code = sections.filter_map(|payload| match payload {
            wasmparser::Payload::CodeSectionStart { range, .. } => Some(bytes[range].to_vec()),
            _ => None,
        });
        code.next().unwrap()
    };
    assert_eq!(code(&component), code(&bytes));
    assert!(inspect(&component).unwrap().0.has_names);
}

/// Writes a word, takes 40 pages from its own end of the heap as Go's `sbrk` does, fills them, and writes again:
/// with two owners of the same pages, the adapter's state would be gone by then.
const IN_GO: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 4)
    (data (i32.const 0) "\10\00\00\00\05\00\00\00") (data (i32.const 16) "hello")
    (func $sbrk (param $n i64) (result i64) (local $page i64)
      (local.set $page (i64.const 65536))
      (local.set $n (i64.and (i64.add (i64.add (local.get $n) (local.get $page)) (i64.const -1))
        (i64.sub (i64.const 0) (local.get $page))))
      (drop (memory.grow (i32.wrap_i64 (i64.div_u (local.get $n) (local.get $page)))))
      (i64.store (i32.wrap_i64 (i64.const 1032))
        (i64.add (i64.load (i32.wrap_i64 (i64.const 1024))) (local.get $n)))
      (i64.store (i32.wrap_i64 (i64.const 1024))
        (i64.add (i64.load (i32.wrap_i64 (i64.const 1024))) (local.get $n)))
      (i64.sub (i64.load (i32.wrap_i64 (i64.const 1024))) (local.get $n)))
    (func $say (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
    (func (export "_start")
      (i64.store (i32.const 1024) (i64.const 65536)) (i64.store (i32.const 1032) (i64.const 65536))
      (call $say)
      (memory.fill (i32.wrap_i64 (call $sbrk (i64.const 2621440))) (i32.const 255) (i32.const 2621440))
      (call $say)))"#;

/// The module with a custom section in front, as Go's linker writes it.
fn with_section(name: &str, data: &[u8], module: &[u8]) -> Vec<u8> {
    let section = wasm_encoder::CustomSection { name: name.into(), data: data.into() };
    let mut bytes = module[..8].to_vec();
    wasm_encoder::Section::append_to(&section, &mut bytes);
    bytes.extend(&module[8..]);
    bytes
}

fn marked(module: &[u8]) -> Vec<u8> {
    with_section("go:buildid", b"", module)
}

/// A module of Go's linker in which nothing like the `sbrk` above is.
fn with_another_heap(export: &str) -> Vec<u8> {
    marked(&wat(&format!(
        r#"(module (memory (export "memory") 1) (func (export "_start"))
        (func {export} (param i32 i32 i32 i32) (result i32) (unreachable)))"#
    )))
}

#[test]
fn a_program_in_go_and_the_adapter_do_not_share_pages() {
    let stripped = wat(IN_GO);
    let sum = "(i64.add (i64.add (local.get $n) (local.get $page)) (i64.const -1))";
    assert!(IN_GO.contains(sum));
    let of_1_24 = wat(&IN_GO.replace(sum, &format!("(local.tee $n {sum})")));
    for bytes in [marked(&stripped), stripped, of_1_24] {
        let report = run(&accept(&bytes).unwrap().component, b"");
        assert_eq!((report.verdict, report.output.as_slice()), (Verdict::Completed, b"hellohello".as_slice()));
    }
}

#[test]
fn without_the_code_of_sbrk_the_pages_would_be_shared() {
    let other = IN_GO.replace("(i64.const -1))", "(i64.const -2))");
    assert_ne!(run(&accept(&wat(&other)).unwrap().component, b"").verdict, Verdict::Completed);
}

#[test]
fn a_program_in_go_whose_heap_cannot_be_found_is_refused_and_told_so() {
    let bytes = with_another_heap("");
    let refused = accept(&bytes).unwrap_err();
    assert!(matches!(&refused, Rejection::NotAdaptable { .. }), "{refused}");
    let sentence = refused.to_string();
    assert!(sentence.contains("made by Go") && sentence.contains("wasm-opt"), "{sentence}");
    assert_eq!(inspect(&bytes).unwrap().1, [refused]);
    let twice = IN_GO.replace("(func $say", &format!("{} (func $say", second_sbrk()));
    assert!(accept(&marked(&wat(&twice))).is_err(), "two that look like it, and who knows which one it is");
}

/// The `sbrk` above with other variables.
fn second_sbrk() -> String {
    let (from, to) = (IN_GO.find("(func $sbrk").unwrap(), IN_GO.find("(func $say").unwrap());
    IN_GO[from..to].replace("$sbrk", "$other").replace("1032", "2032").replace("1024", "2024")
}

/// They took what the instruction that grows the memory gave.
#[test]
fn programs_of_go_before_1_24_cannot_share_pages_and_are_taken() {
    let by = |version: &str| {
        let mut producers = wasm_encoder::ProducersSection::new();
        producers.field("language", wasm_encoder::ProducersField::new().value("Go", version));
        let mut section = Vec::new();
        wasm_encoder::Section::append_to(&producers, &mut section);
        [with_another_heap("").as_slice(), &section].concat()
    };
    for (version, is_taken) in [("go1.21.13", true), ("go1.23rc1", true), ("go1.24", false), ("devel", false)] {
        assert_eq!(accept(&by(version)).is_ok(), is_taken, "{version}");
    }
}

#[test]
fn a_program_in_go_that_brings_its_own_realloc_is_left_alone() {
    accept(&with_another_heap(r#"(export "cabi_realloc")"#)).unwrap();
}

/// The module with what a generator of bindings leaves for this world.
fn with_component_type(module: &str, world: &str) -> Vec<u8> {
    let mut bytes = wat(module);
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_str("world.wit", world).unwrap();
    let world = resolve.select_world(&[package], Some("program")).unwrap();
    embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8).unwrap();
    bytes
}

/// Leaves with 65, and links what generators of bindings make.
const WITH_BINDINGS: &str = r#"(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (import "wasi:random/random@0.2.0" "get-random-u64" (func (result i64)))
    (import "wasi:cli/exit@0.2.12" "exit" (func (param i32)))
    (memory (export "memory") 1)
    (func (export "_start") (call $exit (i32.const 65)) (unreachable)))"#;

fn world(exit: &str) -> String {
    format!(
        "package bound:here;
        world program {{ import wasi:random/random@0.2.0; import wasi:cli/exit@0.2.12; }}
        package wasi:random@0.2.0 {{ interface random {{ get-random-u64: func() -> u64; }} }}
        package wasi:cli@0.2.12 {{ interface exit {{ exit: func(status: result); {exit} }} }}"
    )
}

#[test]
fn an_adapted_program_keeps_its_exit_code_although_it_links_generated_bindings() {
    for exit in ["exit-with-code: func(status-code: u8);", ""] {
        let component = accept(&with_component_type(WITH_BINDINGS, &world(exit))).unwrap().component.into_owned();
        assert_eq!(run(&component, b"").verdict, Verdict::Exit(65), "{exit}");
    }
}

#[test]
fn a_library_that_exports_its_entry_point_itself_keeps_its_exit_code_too() {
    let module = WITH_BINDINGS.replace(r#"(export "_start")"#, r#"(export "wasi:cli/run@0.2.12#run") (result i32)"#);
    let world = world("").replace("world program {", "world program { export wasi:cli/run@0.2.12;");
    let world = world.replace("interface exit", "interface run { run: func() -> result; } interface exit");
    let component = accept(&with_component_type(&module, &world)).unwrap().component.into_owned();
    assert_eq!(run(&component, b"").verdict, Verdict::Exit(65));
}

#[test]
fn what_a_core_module_with_bindings_needs_is_told_by_the_interfaces_that_it_imports() {
    let module = r#"(module
        (import "wasi:sockets/tcp@0.2.0" "[resource-drop]tcp-socket" (func (param i32)))
        (import "wasi:filesystem/types@0.2.0" "[resource-drop]descriptor" (func (param i32)))
        (memory (export "memory") 1) (func (export "_start")))"#;
    let world = "package bound:here;
        world program { import wasi:sockets/tcp@0.2.0; import wasi:filesystem/types@0.2.0; }
        package wasi:sockets@0.2.0 { interface tcp { resource tcp-socket; } }
        package wasi:filesystem@0.2.0 { interface types { resource descriptor; } }";
    let (found, problems) = inspect(&with_component_type(module, world)).unwrap();
    assert_eq!((found.needs, problems), (vec![Need::Files, Need::Network], vec![]));
    let nothing = wat(r#"(module (memory (export "memory") 1) (func (export "_start")))"#);
    assert_eq!(inspect(&nothing).unwrap().0.needs, []);
}
