//! What the behaviours share: the bindings of the `task` world and a macro that exports a function.
//!
//! Each behaviour is one file in `examples/` and becomes one component. To write a task of your own,
//! copy `csv-report-v2` or `markdown` instead: they say everything in plain sight.

// Generated code, which has no comments of its own.
#[allow(missing_docs)]
mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "task",
        pub_export_macro: true,
        export_macro_name: "export_task",
        default_bindings_module: "behaviours",
    });
}

pub use bindings::{
    export_task, exports,
    exports::wasmq::task::handler::Guest,
    wasmq::task::host,
    wasmq::task::types::{DelayedProblem, Failure, Invocation, Payload, Problem},
};

/// Exports a function as the handler of a component.
#[macro_export]
macro_rules! task {
    ($handle:path) => {
        struct Task;

        impl $crate::Guest for Task {
            fn handle(
                invocation: $crate::Invocation,
                payload: $crate::Payload,
            ) -> Result<$crate::Payload, $crate::Failure> {
                $handle(invocation, payload)
            }
        }

        $crate::export_task!(Task);
    };
}

/// A problem with a code and a sentence.
pub fn problem(code: &str, message: impl Into<String>) -> Problem {
    Problem { code: code.to_owned(), message: message.into(), details: None }
}

/// A failure that another attempt may get over.
pub fn retryable(code: &str, message: impl Into<String>) -> Failure {
    Failure::Retryable(problem(code, message))
}

/// A failure that another attempt cannot get over.
pub fn permanent(code: &str, message: impl Into<String>) -> Failure {
    Failure::Permanent(problem(code, message))
}

/// The payload as a decimal number; surrounding white space does not matter.
pub fn number(payload: &[u8]) -> Result<u64, Failure> {
    let text = text(payload)?.trim();
    text.parse()
        .map_err(|error| permanent("bad-payload", format!("the payload {text:?} is not a decimal number: {error}")))
}

/// The payload as text.
pub fn text(payload: &[u8]) -> Result<&str, Failure> {
    str::from_utf8(payload).map_err(|error| permanent("bad-payload", format!("the payload is not text: {error}")))
}

/// A value as JSON, with a newline at its end so that it reads well on a terminal.
pub fn json(value: &serde_json::Value) -> Payload {
    format!("{value:#}\n").into_bytes()
}

/// Writes about `bytes` bytes of everything a terminal or a log must not be given, half to stderr
/// and half to stdout. The first and the last line are readable, so that a test can tell which end
/// of the flood was kept.
pub fn flood(bytes: u64) {
    use std::io::Write;

    let line: &[u8] = b"nul \0, red \x1b[31mtext\x1b[0m, title \x1b]0;pwned\x07, not utf-8 \xff\xfe, back\x08\r\n";
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
    // A task that cannot write its log goes on: the errors are not its business.
    let _ = writeln!(out, "first line on stdout");
    let _ = writeln!(err, "first line on stderr");
    for _ in 0..bytes.div_ceil(2 * line.len() as u64) {
        let _ = out.write_all(line);
        let _ = err.write_all(line);
    }
    let _ = writeln!(out, "last line on stdout");
    let _ = writeln!(err, "last line on stderr");
}
