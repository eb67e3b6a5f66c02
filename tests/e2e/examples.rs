//! The example tasks of the other languages, on the samples that lie beside them: what comes out of a good one,
//! and how the one fails that fails on purpose.

use serde_json::{Value, json};

use crate::world::{World, guest_file, repository};

/// Runs an example on a sample.
fn run(component: &str, sample: &str) -> Value {
    run_on(component, &std::fs::read(repository().join("guest-examples").join(sample)).unwrap())
}

/// Runs a guest on a payload.
fn run_on(component: &str, payload: &[u8]) -> Value {
    let world = World::new();
    let file = guest_file(component);
    world.run_with(&["run", file.to_str().unwrap(), "--payload", "-", "--json"], payload).json()
}

#[track_caller]
fn output(component: &str, sample: &str) -> String {
    let report = run(component, sample);
    assert_eq!(report["verdict"], "completed", "{report}");
    report["output"]["text"].as_str().unwrap().to_owned()
}

#[track_caller]
fn report(component: &str, sample: &str) -> Value {
    serde_json::from_str(&output(component, sample)).unwrap()
}

/// Code and message of a failure with this verdict.
#[track_caller]
fn fails(component: &str, sample: &str, verdict: &str, code: &str, message: &str) {
    let report = run(component, sample);
    let problem = &report["failure"]["problem"];
    assert_eq!((&report["verdict"], &problem["code"]), (&json!(verdict), &json!(code)), "{report}");
    assert!(problem["message"].as_str().unwrap().contains(message), "{problem}");
}

#[test]
fn python_reports_on_an_access_log_and_names_the_line_that_it_cannot_read() {
    let found = report("access-log", "python/samples/access.log");
    assert_eq!((&found["requests"], &found["clients"], &found["bytes"]), (&json!(62), &json!(7), &json!(301_427)));
    assert_eq!(found["by_status"], json!({"200": 41, "304": 3, "404": 7, "408": 1, "502": 10}));
    fails("access-log", "python/samples/cut-off.log", "error.permanent", "bad-line", "line 24 cannot be read");
}

/// A line ends with LF or CR LF. What else Unicode calls an end of line may be in the name of a browser.
#[test]
fn python_counts_the_lines_of_a_log_as_editors_do() {
    let line = |size: &str, agent: &str| {
        format!(r#"192.0.2.7 - - [30/Nov/2026:06:25:14 +0000] "GET / HTTP/1.1" 200 {size} "-" "{agent}""#)
    };
    let agents = ["a\u{2028}b", "c\u{85}d", "e\u{c}f"].map(|agent| line("7", agent) + "\r\n").concat();
    let report = run_on("access-log", agents.as_bytes());
    assert!(report["output"]["text"].as_str().unwrap_or_default().contains("\"requests\": 3"), "{report}");
    let report = run_on("access-log", [agents, line(&"9".repeat(5000), "g")].concat().as_bytes());
    let problem = &report["failure"]["problem"];
    assert_eq!(problem["code"], "bad-line", "{report}");
    assert!(problem["message"].as_str().unwrap().starts_with("line 4 cannot be read"), "{problem}");
}

#[test]
fn javascript_writes_invoices_and_names_what_is_wrong_with_an_order() {
    let invoices = report("invoices", "javascript/samples/orders.json");
    assert_eq!((&invoices[0]["customer"], &invoices[0]["net"]), (&json!("Café Zürich"), &json!("308.85")));
    let bad = "javascript/samples/bad-orders.json";
    fails("invoices", bad, "error.permanent", "bad-orders", "quantity is not a count from 1 to 100000, and 1 more");
}

#[test]
fn typescript_fills_a_template_and_names_the_place_that_it_has_no_value_for() {
    let letter = output("render", "typescript/samples/letter.json");
    assert!(letter.starts_with("<p>Dear Smith &amp; Sons,</p>") && letter.contains("12 × espresso beans"), "{letter}");
    let misspelt = "typescript/samples/misspelt.json";
    fails("render", misspelt, "error.permanent", "unknown-name", "line 2, column 25 of the template");
}

#[test]
fn go_reports_on_test_results_and_names_the_line_that_is_cut_off() {
    let found = report("go-test-report", "go/test-report/sample/failed.jsonl");
    assert_eq!((&found["passed"], &found["failed"]), (&json!(4), &json!(1)), "{found}");
    assert_eq!(report("go-test-report", "go/test-report/sample/passed.jsonl")["failed"], 0);
    let aborted = report("go-test-report", "go/test-report/sample/aborted.jsonl");
    assert_eq!((&aborted["passed"], &aborted["failed"]), (&json!(1), &json!(4)), "{aborted}");
    let cut_off = "go/test-report/sample/cut-off.jsonl";
    fails("go-test-report", cut_off, "exit.65", "exit.65", "bad-event: line 9: unexpected end of JSON input");
}

#[test]
fn c_checks_a_picture_and_names_the_chunk_that_is_damaged() {
    let found = report("png-check", "c/sample/gradient.png");
    assert_eq!((&found["width"], &found["height"], &found["color"]), (&json!(96), &json!(54), &json!("rgb")));
    fails("png-check", "c/sample/damaged.png", "error.permanent", "bad-checksum", "the chunk IDAT at byte 61");
}

/// `any-bytes` says its payload in every way in which a task in C can say something.
#[test]
fn c_tells_the_host_any_bytes_and_every_field() {
    let report = run_on("any-bytes", b"a\xffb \xc3\xa4");
    let problem = &report["failure"]["problem"];
    assert_eq!((&report["verdict"], &problem["code"]), (&json!("error.permanent"), &json!("a?b ä")), "{report}");
    assert!(problem["message"].as_str().unwrap().contains("task name"), "{problem}");
    assert_eq!(problem["details"], "a?b ä");
    let log = report["failure"]["log"].to_string();
    for record in ["INFO a?b ä a?b ä=a?b ä", "19= last=of-all", "INFO no value for key=", "PROGRESS 1/2 a?b ä"] {
        assert!(log.contains(record), "{record} is missing in: {log}");
    }
}

#[test]
fn zig_lists_an_archive_and_says_that_it_is_cut_off() {
    let found = report("tar-manifest", "zig/sample/wit.tar.gz");
    assert_eq!(found["entries"][0]["name"], "wit/handler.wit", "{found}");
    fails("tar-manifest", "zig/sample/cut-off.tar.gz", "exit.65", "exit.65", "cannot be unpacked: EndOfStream");
    let bad_name = "bad-name: the name of the entry after 1 files is not UTF-8: caf\\xe9.txt";
    fails("tar-manifest", "zig/sample/latin-1.tar", "exit.65", "exit.65", bad_name);
}
