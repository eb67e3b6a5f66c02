//! Compiled code on disk: used when it is right, replaced when it is not, never needed.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use wasmq_core::Verdict;

use super::support::{ECHO, block_on, digest, handler, input, options};
use crate::runtime::prepare::PrepareError;
use crate::runtime::{Options, Purpose, Runtime, engine};

fn cached(dir: &Path, purpose: Purpose) -> Runtime {
    Runtime::new(&Options { cache_dir: Some(dir.to_owned()), purpose, ..options() }).unwrap()
}

/// Prepares and runs in a fresh runtime; says whether the component had to be compiled.
fn compiles(dir: &Path, bytes: &[u8]) -> bool {
    let runtime = cached(dir, Purpose::Serve);
    let loaded = Cell::new(false);
    let prepared = runtime.prepare(digest(bytes), &mut || {
        loaded.set(true);
        Ok(bytes.to_vec())
    });
    let report = block_on(runtime.run(&prepared.unwrap(), input(b"x")));
    assert_eq!(report.verdict, Verdict::Completed);
    loaded.get()
}

fn only_file(dir: &Path) -> PathBuf {
    let key = std::fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    let files: Vec<_> = std::fs::read_dir(key).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn what_one_process_has_compiled_the_next_one_loads() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = handler(ECHO);
    assert!(compiles(dir.path(), &bytes));
    assert!(!compiles(dir.path(), &bytes));
    assert!(only_file(dir.path()).ends_with(format!("{}.cwasm", digest(&bytes).hex())));
}

#[test]
fn what_a_deploying_process_has_compiled_a_serving_one_loads() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = handler(ECHO);
    let deploying = cached(dir.path(), Purpose::Once);
    let serving = cached(dir.path(), Purpose::Serve);
    assert_eq!(engine::key(&deploying.engine), engine::key(&serving.engine));
    deploying.prepare(digest(&bytes), &mut || Ok(bytes.clone())).unwrap();
    assert!(!compiles(dir.path(), &bytes));
}

#[test]
fn a_damaged_cache_file_is_replaced_wherever_the_damage_is() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = handler(ECHO);
    compiles(dir.path(), &bytes);
    let path = only_file(dir.path());
    let good = std::fs::read(&path).unwrap();
    let flipped = |at: usize| {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        bad
    };
    let last = good.len() - 1;
    let bads = [
        Vec::new(),
        b"x".to_vec(),
        good[..last].to_vec(),
        [&good[..], b"x"].concat(),
        flipped(0),
        flipped(last / 2),
        flipped(last - 50),
        flipped(last),
    ];
    for bad in bads {
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bad).unwrap();
        assert!(compiles(dir.path(), &bytes));
        assert!(!compiles(dir.path(), &bytes));
    }
}

#[test]
fn a_file_of_another_component_is_not_taken_for_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (handler(ECHO), handler("(i32.const 1024)"));
    compiles(dir.path(), &one);
    let path = only_file(dir.path());
    std::fs::rename(&path, path.with_file_name(format!("{}.cwasm", digest(&two).hex()))).unwrap();
    assert!(compiles(dir.path(), &two));
}

#[test]
fn a_cache_that_cannot_be_written_costs_time_only() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"not a directory").unwrap();
    let bytes = handler(ECHO);
    assert!(compiles(&file, &bytes));
    assert!(compiles(&file, &bytes));
}

#[test]
fn bytes_that_are_not_those_of_the_digest_are_refused() {
    let runtime = Runtime::new(&options()).unwrap();
    let error = runtime.prepare(digest(b"something else"), &mut || Ok(handler(ECHO))).unwrap_err();
    assert!(matches!(error, PrepareError::Damaged { .. }));
    assert!(error.to_string().starts_with("component file damaged"));
}

#[test]
fn an_unreadable_file_and_broken_code_are_errors_that_name_the_component() {
    let runtime = Runtime::new(&options()).unwrap();
    let error = runtime.prepare(digest(b""), &mut || Err(std::io::Error::other("gone"))).unwrap_err();
    assert!(matches!(error, PrepareError::Read { .. }));
    let error = runtime.prepare(digest(b"\0asm"), &mut || Ok(b"\0asm".to_vec())).unwrap_err();
    assert!(matches!(error, PrepareError::Compile { .. }));
}

#[test]
fn a_forgotten_component_is_prepared_anew() {
    let runtime = Runtime::new(&options()).unwrap();
    let bytes = handler(ECHO);
    let first = runtime.prepare(digest(&bytes), &mut || Ok(bytes.clone())).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &runtime.prepared(digest(&bytes)).unwrap()));
    runtime.forget(digest(&bytes));
    assert!(runtime.prepared(digest(&bytes)).is_none());
    assert_eq!(block_on(runtime.run(&first, input(b"x"))).output, b"x", "whoever holds it can still run it");
}

#[test]
fn files_that_a_dead_process_was_writing_go_after_a_day_and_no_sooner() {
    let dir = tempfile::tempdir().unwrap();
    compiles(dir.path(), &handler(ECHO));
    let beside = only_file(dir.path()).parent().unwrap().to_owned();
    let unfinished = |name: &str, hours: u64| {
        let path = beside.join(name);
        let file = std::fs::File::create(&path).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now - std::time::Duration::from_hours(hours)).unwrap();
        path
    };
    let (dead, young) = (unfinished(".compiling-dead", 25), unfinished(".compiling-young", 23));
    let foreign = unfinished("somebody-else", 1000);
    std::fs::remove_file(beside.join(format!("{}.cwasm", digest(&handler(ECHO)).hex()))).unwrap();
    compiles(dir.path(), &handler(ECHO));
    assert_eq!([dead.exists(), young.exists(), foreign.exists()], [false, true, true]);
}

#[test]
fn what_is_kept_for_a_time_goes_when_something_else_is_compiled_later_and_other_engines_files_too() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cache");
    let other_engine = root.join("another-engine");
    std::fs::create_dir_all(&other_engine).unwrap();
    let aged = |name: &str, hours: u64| {
        let path = other_engine.join(name);
        let file = std::fs::File::create(&path).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now - std::time::Duration::from_hours(hours)).unwrap();
        path
    };
    let (old, young, foreign) = (aged("old.cwasm", 3), aged("young.cwasm", 1), aged("notes.txt", 1000));
    let compile = |cache_for| {
        let runtime = Runtime::new(&Options { cache_dir: Some(root.clone()), cache_for, ..options() }).unwrap();
        let bytes = handler(if cache_for.is_some() { ECHO } else { "(unreachable)" });
        runtime.prepare(digest(&bytes), &mut || Ok(bytes.clone())).unwrap();
    };
    compile(None);
    assert!(old.exists(), "for ever means for ever");
    compile(Some(std::time::Duration::from_hours(2)));
    assert_eq!([old.exists(), young.exists(), foreign.exists()], [false, true, true]);
}

#[test]
fn what_is_discarded_is_compiled_again_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = handler(ECHO);
    compiles(dir.path(), &bytes);
    cached(dir.path(), Purpose::Once).discard(digest(b"another"));
    assert!(!compiles(dir.path(), &bytes));
    let runtime = cached(dir.path(), Purpose::Once);
    runtime.prepare(digest(&bytes), &mut || Ok(bytes.clone())).unwrap();
    runtime.discard(digest(&bytes));
    assert!(runtime.prepared(digest(&bytes)).is_none());
    assert!(compiles(dir.path(), &bytes), "also what another kind of engine compiled is gone");
}
