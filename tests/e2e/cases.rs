//! The table of cases names tests that exist.

use std::collections::BTreeSet;
use std::path::Path;

use crate::world::repository;

/// All functions of a file's name, as `file::function`, below a directory. A test directory with files of its own
/// counts as one file under its parent's name too: `dlq::function`.
fn functions_below(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            functions_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let scopes: Vec<String> = path
                .iter()
                .rev()
                .take(4)
                .map(|part| part.to_string_lossy().trim_end_matches(".rs").to_owned())
                .collect();
            for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("fn ")) {
                let function: String = line.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                found.extend(scopes.iter().map(|scope| format!("{scope}::{function}")));
            }
        }
    }
}

#[test]
fn every_test_that_the_table_of_cases_names_exists() {
    let root = repository();
    let mut known = BTreeSet::new();
    ["host", "tests"].iter().for_each(|dir| functions_below(&root.join(dir), &mut known));
    let table = std::fs::read_to_string(root.join("tests/CASES.md")).unwrap();
    let named: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| "))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect();
    assert!(named.len() > 60, "the table lost its rows: {} tests", named.len());
    let missing: Vec<&&str> = named.iter().filter(|name| !known.contains(**name)).collect();
    assert!(missing.is_empty(), "these tests do not exist: {missing:#?}");
}
