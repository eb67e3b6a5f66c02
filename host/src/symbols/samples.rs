//! Components for tests: hand-written ones, and the guest that keeps its line table, stripped or not.

use wasmparser::{Parser, Payload};

/// A component of two core modules, as its author built it. The functions of both have the same indices.
pub(crate) const TWO_MODULES: &str = r#"(component
  (core module $first
    (import "host" "log" (func $log))
    (func $parse (call $log))
    (func $_RNvCs1234_5guest3new (call $parse)))
  (core module $second
    (func $alloc (result i32) (i32.const 7))
    (func $free (drop (call $alloc)))
    (func $last (call $free))))"#;

/// A component or a core module in the text format, as bytes.
pub(crate) fn wasm(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// The guest with names and a line table.
pub(crate) fn deep_trap() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-examples/target/components/deep-trap.wasm");
    std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}; run guest-examples/build first"))
}

/// The same without custom sections, in whatever core module or component.
pub(crate) fn stripped(bytes: &[u8]) -> Vec<u8> {
    let (head, mut rest) = bytes.split_at(8);
    let is_component = head[4] == 0x0d;
    let mut out = head.to_vec();
    while let [id, behind @ ..] = rest {
        let (length, at) = leb(behind);
        let content = &behind[at..at + length];
        rest = &behind[at + length..];
        match id {
            0 => {}
            1 | 4 if is_component => super::pack::section(&mut out, *id, &[&stripped(content)]),
            _ => super::pack::section(&mut out, *id, &[content]),
        }
    }
    out
}

fn leb(bytes: &[u8]) -> (usize, usize) {
    let (mut value, mut at) = (0, 0);
    loop {
        value |= usize::from(bytes[at] & 0x7f) << (7 * at);
        at += 1;
        if bytes[at - 1] < 0x80 {
            return (value, at);
        }
    }
}

/// The first core module of a component, as a file of its own.
pub(crate) fn first_core_module(component: &[u8]) -> Vec<u8> {
    let mut payloads = Parser::new(0).parse_all(component).map(Result::unwrap);
    payloads
        .find_map(|payload| match payload {
            Payload::ModuleSection { unchecked_range, .. } => Some(component[unchecked_range].to_vec()),
            _ => None,
        })
        .unwrap()
}
