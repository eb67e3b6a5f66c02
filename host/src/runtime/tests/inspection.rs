//! What is accepted as a task, and the sentence for everything else.

use super::adapting::program;
use super::support::{ECHO, Parts, handler, import_number, run, wat};
use crate::runtime::linker::build;
use crate::runtime::offered::OFFERED;
use crate::runtime::prepare::digest_of;
use crate::runtime::{Need, Rejection, Shape, accept, inspect};

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

#[test]
fn one_handler_that_this_host_runs_is_enough() {
    let text = |first: &str, second: &str| {
        wat(&format!(r#"(component (instance $i) (export "{first}" (instance $i)) (export "{second}" (instance $i)))"#))
    };
    let (ours, later) = ("wasmq:task/handler@0.1.0", "wasmq:task/handler@0.2.0");
    for bytes in [text(later, ours), text(ours, later)] {
        assert_eq!(accept(&bytes).unwrap().shape, Shape::Typed);
    }
    let neither = accept(&text(later, "wasmq:task/handler@0.3.0")).unwrap_err();
    assert!(matches!(neither, Rejection::OtherVersion { is_newer: true, .. }), "{neither}");
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

/// Components one in the other, of which the innermost is at this depth.
fn nested(depth: usize) -> Vec<u8> {
    let mut bytes = wasm_encoder::Component::HEADER.to_vec();
    for _ in 1..depth {
        let mut outer = wasm_encoder::Component::HEADER.to_vec();
        outer.push(wasm_encoder::ComponentSectionId::Component.into());
        wasm_encoder::Encode::encode(bytes.as_slice(), &mut outer);
        bytes = outer;
    }
    bytes
}

#[test]
fn a_component_nested_beyond_reason_is_refused_and_not_a_stack_overflow() {
    assert_eq!(accept(&nested(100)).unwrap_err(), Rejection::NoEntryPoint);
    for depth in [101, 2000] {
        let sentence = accept(&nested(depth)).unwrap_err().to_string();
        assert!(sentence.contains("more than 100 components one in the other"), "{sentence}");
        assert!(inspect(&nested(depth)).is_err());
    }
}

/// Who looks for a function looks in the module with the most code; an adapter's names are no help there.
#[test]
fn names_are_told_of_only_where_the_functions_of_the_program_have_them() {
    let program = |module: &str, name: &str| format!("(core module {module} (func {name} (drop (i32.const 1234567))))");
    let cases = [
        (program("", ""), "(core module (func $helper))", false),
        (program("", "$main"), "(core module (func))", true),
        (program("$main", ""), "", false),
        ("(core module $empty)".to_owned(), "", false),
    ];
    for (program, helper, expected) in cases {
        for text in [format!("(component {program} {helper})"), format!("(component {helper} {program})")] {
            assert_eq!(inspect(&wat(&text)).unwrap().0.has_names, expected, "{text}");
        }
    }
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
