//! A task: a CSV file in, a JSON report out. The version that survives real files.
//!
//! It reads quoted newlines, skips a byte-order mark and lists ragged rows in the report. What it
//! cannot read it refuses with a code and a sentence, so that the operator need not guess.

mod column;
mod report;

use exports::wasmq::task::handler::Guest;
use report::Refusal;
use wasmq::task::types::{Failure, Invocation, Problem};

wit_bindgen::generate!({ path: "../../wit", world: "task" });

struct CsvReport;

impl Guest for CsvReport {
    fn handle(_invocation: Invocation, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let report = report::of(&payload).map_err(permanent)?;
        Ok(report.to_json())
    }
}

export!(CsvReport);

/// The same bytes will be refused again: another attempt cannot help.
fn permanent(refusal: Refusal) -> Failure {
    Failure::Permanent(Problem { code: refusal.code.to_owned(), message: refusal.message, details: None })
}
