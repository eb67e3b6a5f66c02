//! What is accepted as a task, and the sentence for everything else.

use super::support::{ECHO, Parts, handler, import_number};
use crate::runtime::linker::{OFFERED, build};
use crate::runtime::prepare::digest_of;
use crate::runtime::{Rejection, Shape, inspect};

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

#[test]
fn a_typed_task_is_recognised() {
    let bytes = handler(ECHO);
    let inspection = inspect(&bytes).unwrap();
    assert_eq!(inspection.shape, Shape::Typed);
    assert_eq!(inspection.imports, ["wasmq:task/types@0.1.0"]);
    assert_eq!(inspection.exports, ["wasmq:task/handler@0.1.0"]);
    assert_eq!(inspection.digest, digest_of(&bytes));
    assert_eq!(inspection.size_bytes, bytes.len() as u64);
    assert!(inspection.has_names && !inspection.has_debug_info);
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
    assert_eq!(inspect(&parts.command()).unwrap().shape, Shape::Command);
}

#[test]
fn every_refusal_says_what_is_wrong_and_what_to_do() {
    let good = handler(ECHO);
    let cases: [(Vec<u8>, &str); 9] = [
        (Vec::new(), "the file is empty"),
        (b"hello".to_vec(), "not WebAssembly"),
        (b"\x7fELF....".to_vec(), "this is a native program"),
        (b"(module)".to_vec(), "text format"),
        (b"\0as".to_vec(), "cut off"),
        (good[..good.len() / 2].to_vec(), "damaged WebAssembly"),
        (wat("(module)"), "this is a core module and not a component; build for wasm32-wasip2"),
        (
            wat(
                r#"(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32))) (func (export "_start")))"#,
            ),
            "core module for wasm32-wasip1",
        ),
        (wat("(component)"), "exports neither wasmq:task/handler@0.1.0 nor wasi:cli/run@0.2.x"),
    ];
    for (bytes, expected) in cases {
        let sentence = inspect(&bytes).unwrap_err().to_string();
        assert!(sentence.contains(expected), "{sentence}");
    }
}

#[test]
fn another_version_of_the_contract_names_both() {
    let bytes = wat(r#"(component (instance $i) (export "wasmq:task/handler@0.2.0" (instance $i)))"#);
    let sentence = inspect(&bytes).unwrap_err().to_string();
    assert!(sentence.contains("wasmq:task/handler@0.2.0") && sentence.contains("wasmq:task@0.1.0"), "{sentence}");
}

#[test]
fn all_imports_that_are_not_offered_are_named() {
    let bytes = wat(r#"(component
        (import "wasi:http/outgoing-handler@0.2.0" (instance)) (import "wasi:cli/exit@0.3.0" (instance))
        (import "wasi:cli/environment@0.2.0" (instance)) (import "wasmq:task/host@0.9.0" (instance)) (import "plain" (func))
        (instance $i) (export "wasi:cli/run@0.2.0" (instance $i)))"#);
    let Err(Rejection::MissingImports { imports }) = inspect(&bytes) else { panic!("accepted") };
    assert_eq!(imports, ["wasi:http/outgoing-handler@0.2.0", "wasi:cli/exit@0.3.0", "wasmq:task/host@0.9.0", "plain"]);
}

#[test]
fn exports_that_are_not_known_are_normal() {
    let bytes =
        wat(r#"(component (instance $i) (export "wasi:cli/run@0.2.3" (instance $i)) (export "init" (instance $i)))"#);
    assert_eq!(inspect(&bytes).unwrap().exports.len(), 2);
}

#[test]
fn no_prefix_and_no_flipped_byte_of_a_component_makes_it_panic() {
    let mut bytes = handler(ECHO);
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
    assert!(inspect(&bytes).is_err());
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
