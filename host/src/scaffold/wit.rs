//! The WIT package that this program speaks, as it was when it was built.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::ScaffoldError;

/// Its name and version.
pub(crate) const PACKAGE: &str = "wasmq:task@0.1.0";

/// A file of the package.
#[derive(Debug, Clone, Copy)]
pub(super) struct WitFile {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! wit_files {
    ($($name:literal)*) => {
        [$(WitFile { name: $name, text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/", $name)) },)*]
    };
}

/// Its files.
pub(super) const FILES: [WitFile; 4] = wit_files!["types.wit" "handler.wit" "host.wit" "world.wit"];

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It was not there.
    New,
    /// It was there, with the same content.
    Unchanged,
    /// It was there, with another content.
    Replaced,
}

/// The package as one document: a document says only once to which package it belongs.
pub(crate) fn merged() -> String {
    let head = format!("package {PACKAGE};\n");
    let bodies = FILES.iter().map(|file| file.text.strip_prefix(&head).unwrap_or(file.text));
    bodies.fold(head.clone(), |document, body| document + body)
}

/// Writes the package into a directory, which is made when it is missing. With `force`, files with
/// another content are replaced; without, nothing at all is written when there is one.
pub(crate) fn write(dir: &Path, force: bool) -> Result<Vec<(PathBuf, Written)>, ScaffoldError> {
    if dir.exists() && !dir.is_dir() {
        return Err(ScaffoldError::file("write into", dir)(ErrorKind::NotADirectory.into()));
    }
    let mut plan = Vec::with_capacity(FILES.len());
    for file in &FILES {
        let path = dir.join(file.name);
        plan.push((file, state(&path, file.text)?, path));
    }
    let differing: Vec<PathBuf> =
        plan.iter().filter(|(_, state, _)| *state == Written::Replaced).map(|(.., path)| path.clone()).collect();
    if !force && !differing.is_empty() {
        return Err(ScaffoldError::Differs(differing));
    }
    make_dir(dir)?;
    for (file, _, path) in plan.iter().filter(|(_, state, _)| *state != Written::Unchanged) {
        put(dir, path, file.text).map_err(ScaffoldError::file("write", path))?;
    }
    Ok(plan.into_iter().map(|(_, state, path)| (path, state)).collect())
}

/// What would become of a file.
#[allow(clippy::disallowed_methods)] // What a user names on the command line is not part of the store.
fn state(path: &Path, text: &str) -> Result<Written, ScaffoldError> {
    match std::fs::read(path) {
        Ok(bytes) if bytes == text.as_bytes() => Ok(Written::Unchanged),
        Ok(_) => Ok(Written::Replaced),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Written::New),
        Err(error) => Err(ScaffoldError::file("read", path)(error)),
    }
}

fn make_dir(dir: &Path) -> Result<(), ScaffoldError> {
    std::fs::create_dir_all(dir).map_err(ScaffoldError::file("create", dir))
}

/// Puts a file into its place in one step.
fn put(dir: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let mode = std::fs::Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".wasmq-wit-").permissions(mode).tempfile_in(dir)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::WIT_VERSION;

    #[test]
    fn the_package_is_the_one_of_the_repository_and_of_the_runtime() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
        let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        assert_eq!(entries.filter(|path| path.extension().is_some_and(|wit| wit == "wit")).count(), FILES.len());
        assert_eq!(PACKAGE, format!("wasmq:task@{WIT_VERSION}"));
        assert!(FILES.iter().all(|file| file.text.starts_with(&format!("package {PACKAGE};\n"))));
    }

    #[test]
    fn the_document_has_every_part_and_one_package_line() {
        let document = merged();
        assert_eq!(document.matches("package ").count(), 1);
        for part in ["interface types {", "interface handler {", "interface host {", "world task {"] {
            assert_eq!(document.matches(part).count(), 1, "{part}");
        }
    }

    #[test]
    fn nothing_is_written_when_one_file_differs() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("world.wit"), "package other:one;\n").unwrap();
        let error = write(dir.path(), false).unwrap_err();
        assert!(matches!(error, ScaffoldError::Differs(paths) if paths == [dir.path().join("world.wit")]));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let written = write(dir.path(), true).unwrap();
        let states: Vec<Written> = written.iter().map(|(_, state)| *state).collect();
        assert_eq!(states, [Written::New, Written::New, Written::New, Written::Replaced]);
        assert!(write(dir.path(), false).unwrap().iter().all(|(_, state)| *state == Written::Unchanged));
    }
}
