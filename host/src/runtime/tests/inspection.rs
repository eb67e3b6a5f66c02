//! What is accepted as a task, and the sentence for everything else.

use wasmq_core::Verdict;

use super::support::{ECHO, Parts, handler, import_number, run};
use crate::runtime::linker::build;
use crate::runtime::offered::OFFERED;
use crate::runtime::prepare::digest_of;
use crate::runtime::{Need, Rejection, Shape, accept, inspect};

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

#[test]
fn a_typed_task_is_recognised() {
    let bytes = handler(ECHO);
    let (inspection, problems) = inspect(&bytes).unwrap();
    assert_eq!((inspection.shape, problems), (Some(Shape::Typed), vec![]));
    assert_eq!(inspection.imports, ["wasmq:task/types@0.1.0"]);
    assert_eq!(inspection.exports, ["wasmq:task/handler@0.1.0"]);
    assert_eq!(inspection.digest, digest_of(&bytes));
    assert_eq!(inspection.size_bytes, bytes.len() as u64);
    assert!(inspection.has_names && !inspection.has_debug_info);
    assert!(inspection.needs.is_empty() && !inspection.is_core_module);
}

#[test]
fn a_command_is_recognised_and_any_0_2_version_of_wasi_will_do() {
    let (imports, with, core_imports) = import_number("wasi:random/random@0.2.9", "get-random-u64", "u64");
    let parts = Parts {
        imports: &imports,
        with: &with,
        core_imports: &core_imports,
        handle: "(i32.const 0)",
        ..Parts::default()
    };
    assert_eq!(accept(&parts.command()).unwrap().shape, Shape::Command);
}

#[test]
fn every_refusal_says_what_is_wrong_and_what_to_do() {
    let good = handler(ECHO);
    let module = |fields: &str| wat(&format!("(module {fields})"));
    let cases: [(Vec<u8>, &str); 11] = [
        (Vec::new(), "the file is empty"),
        (b"hello".to_vec(), "not WebAssembly"),
        (b"\x7fELF....".to_vec(), "this is a native program"),
        (b"(module)".to_vec(), "text format"),
        (b"\0as".to_vec(), "cut off"),
        (good[..good.len() / 2].to_vec(), "damaged WebAssembly"),
        (module(""), "has no main function (no export _start)"),
        (module(r#"(import "env" "now" (func)) (func (export "_start"))"#), "only another host has: env.now; build it"),
        (module(r#"(import "wasi_unstable" "fd_write" (func)) (func (export "_start"))"#), "wasi_unstable"),
        (module(r#"(import "wasi_snapshot_preview1" "fd_wrote" (func)) (func (export "_start"))"#), "fd_wrote"),
        (wat("(component)"), "exports neither wasmq:task/handler@0.1.0 nor wasi:cli/run@0.2.x"),
    ];
    for (bytes, expected) in cases {
        let sentence = accept(&bytes).unwrap_err().to_string();
        assert!(sentence.contains(expected), "{sentence}");
    }
}

fn exporting(name: &str) -> Vec<u8> {
    wat(&format!(r#"(component (instance $i) (export "{name}" (instance $i)))"#))
}

#[test]
fn another_version_of_the_contract_names_both_and_says_which_side_is_behind() {
    let sentence = accept(&exporting("wasmq:task/handler@0.2.0")).unwrap_err().to_string();
    assert!(sentence.contains("wasmq:task/handler@0.2.0") && sentence.contains("wasmq:task@0.1.0"), "{sentence}");
    assert!(sentence.contains("use a later wasmq"), "{sentence}");
    let sentence = accept(&exporting("wasmq:task/handler@0.0.9")).unwrap_err().to_string();
    assert!(sentence.ends_with("build it against what `wasmq wit` writes"), "{sentence}");
}

/// `runs` decides for both what is exported and what is imported.
#[test]
fn a_host_runs_what_was_built_against_its_own_version_and_earlier_compatible_ones() {
    let cases = [
        ("0.1.0", "0.1.0", true),
        ("0.1.3", "0.1.0", true),
        ("0.1.3", "0.1.4", false),
        ("0.2.0", "0.1.0", false),
        ("0.1.0", "0.2.0", false),
        ("1.2.0", "1.1.9", true),
        ("1.2.0", "1.3.0", false),
        ("2.0.0", "1.9.0", false),
        ("0.1.0", "0.1", false),
        ("0.1.0", "", false),
    ];
    for (host, built_against, expected) in cases {
        assert_eq!(crate::runtime::inspect::runs(host, built_against), expected, "{built_against} on {host}");
    }
}

/// The engine finds a handler of another patch under the name that the host asks for.
#[test]
fn a_handler_of_another_patch_links() {
    let (mut later, name) = (handler(ECHO), b"wasmq:task/handler@0.1.0");
    let at = later.windows(name.len()).position(|window| window == name).unwrap();
    later[at + name.len() - 1] = b'7';
    assert!(matches!(accept(&later), Err(Rejection::OtherVersion { is_newer: true, .. })));
    assert_eq!(run(&later, b"hello").output, b"hello");
}

#[test]
fn every_reason_is_found_and_not_only_the_first() {
    let bytes = wat(r#"(component
        (import "wasi:http/outgoing-handler@0.2.0" (instance)) (import "wasi:cli/exit@0.3.0" (instance))
        (import "wasi:cli/environment@0.2.0" (instance)) (import "wasmq:task/host@0.9.0" (instance)) (import "plain" (func)))"#);
    let (_, problems) = inspect(&bytes).unwrap();
    let imports = ["wasi:http/outgoing-handler@0.2.0", "wasi:cli/exit@0.3.0", "wasmq:task/host@0.9.0", "plain"];
    let imports = imports.map(str::to_owned).to_vec();
    assert_eq!(problems, [Rejection::NoEntryPoint, Rejection::MissingImports { imports }]);
    let module = wat(r#"(module (import "env" "a" (func)) (import "wasi_unstable" "b" (func)))"#);
    assert_eq!(inspect(&module).unwrap().1.len(), 3);
}

#[test]
fn what_would_have_to_be_granted_is_told_by_what_a_file_imports_itself() {
    let component = wat(
        r#"(component (import "wasi:sockets/tcp@0.2.0" (instance)) (import "wasi:filesystem/types@0.2.0" (instance))
        (import "wasi:filesystem/preopens@0.2.0" (instance)) (instance $i) (export "wasi:cli/run@0.2.0" (instance $i)))"#,
    );
    assert_eq!(inspect(&component).unwrap().0.needs, [Need::Files, Need::Network]);
    let (plain, problems) = inspect(&program("")).unwrap();
    assert_eq!((plain.needs, problems, plain.shape), (vec![], vec![], Some(Shape::Command)));
    let opens = r#"(import "wasi_snapshot_preview1" "path_open"
        (func (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))"#;
    assert_eq!(inspect(&program(opens)).unwrap().0.needs, [Need::Files]);
}

/// A core module for wasip1 that leaves with 75.
fn program(imports: &str) -> Vec<u8> {
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

/// Writes a word, takes 40 pages from its own end of the heap as Go's `sbrk` does, fills them, and writes again:
/// with two owners of the same pages, the adapter's state would be gone by then.
#[test]
fn a_program_in_go_and_the_adapter_do_not_share_pages() {
    let text = r#"(module
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
    let mut bytes = wat(text);
    assert_ne!(run(&accept(&bytes).unwrap().component, b"").verdict, Verdict::Completed, "it is no program in Go yet");
    let mut marked = bytes[..8].to_vec();
    marked.extend(b"\x00\x0b\x0ago:buildid");
    marked.extend(bytes.drain(8..));
    let report = run(&accept(&marked).unwrap().component, b"");
    assert_eq!((report.verdict, report.output.as_slice()), (Verdict::Completed, b"hellohello".as_slice()));
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

#[test]
fn exports_that_are_not_known_are_normal() {
    let bytes =
        wat(r#"(component (instance $i) (export "wasi:cli/run@0.2.3" (instance $i)) (export "init" (instance $i)))"#);
    assert_eq!(inspect(&bytes).unwrap().0.exports.len(), 2);
}

#[test]
fn no_prefix_and_no_flipped_byte_of_a_file_makes_it_panic() {
    for mut bytes in [handler(ECHO), program("")] {
        for end in 0..bytes.len() {
            let _ = inspect(&bytes[..end]);
        }
        for at in 0..bytes.len() {
            for flip in [0x01, 0x40, 0x80, 0xff] {
                bytes[at] ^= flip;
                let _ = inspect(&bytes);
                bytes[at] ^= flip;
            }
        }
    }
}

#[test]
fn a_component_nested_beyond_reason_is_refused_and_not_a_stack_overflow() {
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    for _ in 0..2000 {
        let mut outer = b"\0asm\x0d\0\x01\0\x04".to_vec();
        let mut length = bytes.len();
        while length >= 0x80 {
            outer.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        outer.push(u8::try_from(length).unwrap());
        outer.extend_from_slice(&bytes);
        bytes = outer;
    }
    assert!(accept(&bytes).is_err());
}

#[test]
fn the_list_of_offered_interfaces_is_what_the_linker_has() {
    let (engine, _) = crate::runtime::engine::for_compiling().unwrap();
    let linker = build(&engine).unwrap();
    for name in OFFERED {
        let version = if name.starts_with("wasi:") { "0.2.0" } else { "0.1.0" };
        // An import of an instance that must have a function nobody has: the complaint tells
        // whether the instance itself is there.
        let text = format!(r#"(component (import "{name}@{version}" (instance (export "no-such-function" (func)))))"#);
        let component = wasmtime::component::Component::new(&engine, wat(&text)).unwrap();
        let complaint = format!("{:#}", linker.instantiate_pre(&component).map(|_| ()).unwrap_err());
        assert!(complaint.contains("no-such-function"), "{name}: {complaint}");
    }
}
