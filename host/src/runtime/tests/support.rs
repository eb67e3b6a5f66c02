//! Hand-written components and the shortest way to run one.
//!
//! A component is put together from a core `handle` body in the text format and the imports it
//! uses. Return area of a handler: discriminant at +0; output pointer and length at +8 and +12; of a
//! failure the case at +8, code at +16/+20, message at +24/+28, details at +32/+36/+40, delay at +48.

use std::future::Future;
use std::sync::Arc;

use wasmq_core::{AttemptReport, Digest, InvocationId, Millis, Timestamp};

use crate::runtime::prepare::digest_of;
use crate::runtime::{Facts, Input, Limits, Options, Prepared, Purpose, Runtime};

const TYPES: &str = r#"
  (type $types-type (instance
    (type $pair (tuple string string))
    (type $pairs (list $pair))
    (type $i (record (field "id" string) (field "task" string) (field "enqueued-at-ms" u64)
      (field "replays" u32) (field "max-attempts" u32) (field "metadata" $pairs)))
    (export "invocation" (type (eq $i)))
    (type $b (list u8))
    (export "payload" (type $payload (eq $b)))
    (type $p (record (field "code" string) (field "message" string) (field "details" (option string))))
    (export "problem" (type $problem (eq $p)))
    (type $d (record (field "problem" $problem) (field "delay-ms" u64)))
    (export "delayed-problem" (type $delayed (eq $d)))
    (type $f (variant (case "retryable" $problem) (case "retry-after" $delayed) (case "permanent" $problem)))
    (export "failure" (type (eq $f)))))
  (import "wasmq:task/types@0.1.0" (instance $types (type $types-type)))
  (alias export $types "invocation" (type $invocation))
  (alias export $types "payload" (type $payload))
  (alias export $types "failure" (type $failure))
"#;

const LIBC: &str = r#"
  (core module $libc
    (memory (export "memory") PAGES)
    (global $top (mut i32) (i32.const 4096))
    (func $realloc (export "realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
      (global.set $top (i32.add (local.get $at) (local.get 3)))
      (block $fits (loop $more
        (br_if $fits (i32.le_u (global.get $top) (i32.mul (memory.size) (i32.const 65536))))
        (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then (unreachable)))
        (br $more)))
      (local.get $at)))
  (core instance $libc (instantiate $libc))
"#;

/// The binary of a text.
pub(super) fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// What a hand-written component is made of.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts<'a> {
    /// Pages of memory at the start; 1 when left out.
    pub(super) pages: u32,
    /// Imports of the component, and lowered functions.
    pub(super) imports: &'a str,
    /// `(export "name" (func $lowered))` for the core module's import from "host".
    pub(super) with: &'a str,
    /// Imports of the core module.
    pub(super) core_imports: &'a str,
    /// More fields of the core module.
    pub(super) core: &'a str,
    /// The instructions of `handle`; the payload is in `$ptr` and `$len`.
    pub(super) handle: &'a str,
}

impl Parts<'_> {
    fn instances(&self) -> String {
        let libc = LIBC.replace("PAGES", &self.pages.max(1).to_string());
        format!("{libc} {} (core instance $host {})", self.imports, self.with)
    }

    /// A typed task.
    pub(super) fn typed(&self) -> Vec<u8> {
        let (instances, imports, core, handle) = (self.instances(), self.core_imports, self.core, self.handle);
        let text = format!(
            r#"(component {TYPES} {instances}
  (core module $main
    (import "libc" "memory" (memory 1))
    {imports} {core}
    (func $handle (export "handle")
      (param i32 i32 i32 i32 i64 i32 i32 i32 i32) (param $ptr i32) (param $len i32) (result i32)
      {handle}))
  (core instance $main (instantiate $main (with "libc" (instance $libc)) (with "host" (instance $host))))
  (func $handle (param "invocation" $invocation) (param "payload" $payload) (result (result $payload (error $failure)))
    (canon lift (core func $main "handle") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
  (instance $handler (export "handle" (func $handle)))
  (export "wasmq:task/handler@0.1.0" (instance $handler)))"#
        );
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// A command; `handle` is the body of `run`, which returns 0 for ok.
    pub(super) fn command(&self) -> Vec<u8> {
        let (instances, imports, core, handle) = (self.instances(), self.core_imports, self.core, self.handle);
        let text = format!(
            r#"(component {instances}
  (core module $main
    (import "libc" "memory" (memory 1))
    {imports} {core}
    (func (export "run") (result i32) {handle}))
  (core instance $main (instantiate $main (with "libc" (instance $libc)) (with "host" (instance $host))))
  (func $run (result (result)) (canon lift (core func $main "run")))
  (instance $run (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $run)))"#
        );
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }
}

/// A typed task with this body and no imports.
pub(super) fn handler(body: &str) -> Vec<u8> {
    Parts { handle: body, ..Parts::default() }.typed()
}

/// A body that returns the payload.
pub(super) const ECHO: &str =
    "(i32.store (i32.const 1032) (local.get $ptr)) (i32.store (i32.const 1036) (local.get $len)) (i32.const 1024)";
/// A body that never ends.
pub(super) const SPIN: &str = "(loop (br 0)) (unreachable)";

/// Imports and core imports for a function without parameters that gives a number.
pub(super) fn import_number(interface: &str, name: &str, ty: &str) -> (String, String, String) {
    let core = if ty == "u64" { "i64" } else { "i32" };
    (
        format!(
            r#"(import "{interface}" (instance $number (export "{name}" (func (result {ty})))))
               (core func $number (canon lower (func $number "{name}")))"#
        ),
        r#"(export "number" (func $number))"#.to_owned(),
        format!(r#"(import "host" "number" (func $number (result {core})))"#),
    )
}

/// Imports that write to stdout or stderr through `$write (ptr len)`.
pub(super) fn import_write(stream: &str) -> (String, String, String) {
    (
        format!(
            r#"(import "wasi:io/error@0.2.0" (instance $io-error (export "error" (type (sub resource)))))
  (alias export $io-error "error" (type $error))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (export "output-stream" (type $os (sub resource)))
    (alias outer 1 $error (type $e0)) (export "error" (type $e (eq $e0)))
    (type $se0 (variant (case "last-operation-failed" (own $e)) (case "closed")))
    (export "stream-error" (type $se (eq $se0)))
    (export "[method]output-stream.blocking-write-and-flush"
      (func (param "self" (borrow $os)) (param "contents" (list u8)) (result (result (error $se)))))))
  (alias export $streams "output-stream" (type $output-stream))
  (import "wasi:cli/{stream}@0.2.0" (instance $stream
    (alias outer 1 $output-stream (type $os0)) (export "output-stream" (type $os (eq $os0)))
    (export "get-{stream}" (func (result (own $os))))))
  (core func $get (canon lower (func $stream "get-{stream}")))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush") (memory (core memory $libc "memory"))))"#
        ),
        r#"(export "get" (func $get)) (export "write" (func $write))"#.to_owned(),
        r#"(import "host" "get" (func $get (result i32)))
           (import "host" "write" (func $write_to (param i32 i32 i32 i32)))
           (func $write (param i32 i32) (call $write_to (call $get) (local.get 0) (local.get 1) (i32.const 512)))"#
            .to_owned(),
    )
}

pub(super) fn options() -> Options {
    Options { cache_dir: None, cache_for: None, max_concurrent: 4, purpose: Purpose::Serve }
}

pub(super) fn runtime() -> Runtime {
    Runtime::new(&options()).unwrap()
}

pub(super) fn prepare(runtime: &Runtime, bytes: &[u8]) -> Arc<Prepared> {
    runtime.prepare(digest_of(bytes), &mut || Ok(bytes.to_vec())).unwrap()
}

pub(super) fn digest(bytes: &[u8]) -> Digest {
    digest_of(bytes)
}

pub(super) fn id(number: u128) -> InvocationId {
    InvocationId::new(Timestamp(1_700_000_000_000), number)
}

pub(super) const LIMITS: Limits = Limits { timeout: Millis(10_000), memory_bytes: 16 << 20, output_bytes: 1 << 20 };

pub(super) fn input(payload: &[u8]) -> Input<'_> {
    let facts = Facts { id: id(1), task: "test", enqueued_at_ms: 7, replays: 0, max_attempts: 3, metadata: &[] };
    Input { facts, payload, attempt: 1, args: &[], limits: LIMITS, signals: None }
}

/// Drives a future the way a worker does.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// One attempt of a component on a payload.
pub(super) fn run(bytes: &[u8], payload: &[u8]) -> AttemptReport {
    run_with(bytes, input(payload))
}

/// One attempt with another input.
pub(super) fn run_with(bytes: &[u8], input: Input<'_>) -> AttemptReport {
    let runtime = runtime();
    let prepared = prepare(&runtime, bytes);
    block_on(runtime.run(&prepared, input))
}
