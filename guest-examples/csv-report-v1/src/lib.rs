//! A task: a CSV file in, a JSON report out. The first version, which trusts its input.
//!
//! It is what one writes on a good afternoon: it splits on commas and newlines. Real files hold
//! quoted newlines, byte-order marks and ragged rows; on those it panics, and the attempt ends as a
//! trap. `csv-report-v2` is the repaired one.

mod report;

use exports::wasmq::task::handler::Guest;
use wasmq::task::types::{Failure, Invocation};

wit_bindgen::generate!({ path: "../../wit", world: "task" });

struct CsvReport;

impl Guest for CsvReport {
    fn handle(_invocation: Invocation, payload: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let text = String::from_utf8(payload).expect("the file is text");
        Ok(report::of(&text))
    }
}

export!(CsvReport);
