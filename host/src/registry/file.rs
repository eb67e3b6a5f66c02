//! The JSON of the registry's file.
//!
//! ```json
//! {
//!   "format": 1,
//!   "tasks": {
//!     "resize": {
//!       "current": "v2",
//!       "versions": [
//!         { "number": "v2", "digest": "sha256:…", "label": "hotfix", "settings": {…},
//!           "deployed_at": 1700000000000, "size_bytes": 54321, "shape": "task" }
//!       ]
//!     }
//!   },
//!   "removed": { "old-name": "v7" },
//!   "crc": "7a3f09c1"
//! }
//! ```
//!
//! `crc` is the CRC-32C of the file with eight zeros in its place, in hex. A file without it, as people
//! write it, is not checked.
//!
//! Invariants: what is read is checked as a whole before anything uses it; a file of another format
//! is told apart before its content is looked at.
//!
//! Deliberately absent: reading and writing files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use wasmq_core::{TaskName, VersionNumber};

use super::error::RegistryError;
use super::state::State;
use super::tasks::{Task, Version};

/// The format this version reads and writes.
pub(super) const FORMAT: u64 = 1;
/// What stands for the checksum while it is computed.
const NO_CRC: &str = "00000000";
const CRC_KEY: &[u8] = b"\n  \"crc\": \"";
const CRC_END: &[u8] = b"\"\n}\n";

#[derive(Deserialize)]
struct Probe {
    format: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<'a> {
    format: u64,
    tasks: BTreeMap<TaskName, TaskForm<'a>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    removed: BTreeMap<TaskName, VersionNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crc: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskForm<'a> {
    #[serde(default)]
    current: Option<VersionNumber>,
    versions: Cow<'a, [Version]>,
}

/// Reads the file's content; `path` is for the errors.
pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<State, RegistryError> {
    let damaged = |source: serde_json::Error| RegistryError::Damaged {
        path: path.to_owned(),
        line: source.line(),
        column: source.column(),
        source,
    };
    let Probe { format } = serde_json::from_slice(bytes).map_err(damaged)?;
    if format != FORMAT {
        return Err(RegistryError::OtherFormat { path: path.to_owned(), found: format, known: FORMAT });
    }
    let document: Document<'_> = serde_json::from_slice(bytes).map_err(damaged)?;
    if document.crc.is_some() && !is_as_written(bytes) {
        return Err(RegistryError::Checksum { path: path.to_owned() });
    }
    let task = |(name, form): (TaskName, TaskForm<'_>)| {
        let task = Task { name: name.clone(), current: form.current, versions: form.versions.into_owned() };
        match contradiction(&task) {
            None => Ok((name, task)),
            Some(what) => Err(RegistryError::Contradiction { path: path.to_owned(), task: name, what }),
        }
    };
    let tasks = document.tasks.into_iter().map(task).collect::<Result<_, _>>()?;
    Ok(State { tasks, removed: document.removed })
}

/// The file's content, pretty, with a newline at its end.
pub(super) fn encode(state: &State) -> serde_json::Result<Vec<u8>> {
    let form = |task: &Task| TaskForm { current: task.current, versions: task.versions.as_slice().to_vec().into() };
    let tasks = state.tasks.iter().map(|(name, task)| (name.clone(), form(task))).collect();
    let document = Document { format: FORMAT, tasks, removed: state.removed.clone(), crc: Some(NO_CRC.into()) };
    let mut bytes = serde_json::to_vec_pretty(&document)?;
    bytes.push(b'\n');
    let crc = format!("{:08x}", crc32c::crc32c(&bytes));
    if let Some(field) = crc_field(&mut bytes) {
        field.copy_from_slice(crc.as_bytes());
    }
    Ok(bytes)
}

/// The digits of the checksum: the last field of the file.
fn crc_field(bytes: &mut [u8]) -> Option<&mut [u8]> {
    let end = bytes.len().checked_sub(CRC_END.len())?;
    let start = end.checked_sub(NO_CRC.len())?;
    let is_there = bytes.ends_with(CRC_END) && bytes.get(..start).is_some_and(|before| before.ends_with(CRC_KEY));
    bytes.get_mut(start..end).filter(|_| is_there)
}

/// Whether the checksum in a file is the one of the file.
fn is_as_written(bytes: &[u8]) -> bool {
    let mut bytes = bytes.to_vec();
    let Some(field) = crc_field(&mut bytes) else { return false };
    let found = field.to_vec();
    field.copy_from_slice(NO_CRC.as_bytes());
    found == format!("{:08x}", crc32c::crc32c(&bytes)).as_bytes()
}

fn contradiction(task: &Task) -> Option<&'static str> {
    let versions = &task.versions;
    if !versions.is_sorted_by(|a, b| a.number < b.number) {
        return Some("the numbers of its versions do not grow");
    }
    if task.current.is_some_and(|current| task.version(current).is_none()) {
        return Some("its current version is not among its versions");
    }
    let mut labels: Vec<_> = versions.iter().filter_map(|version| version.label.as_ref()).collect();
    labels.sort();
    labels.is_sorted_by(|a, b| a < b).then_some(()).map_or(Some("two of its versions have the same label"), |()| None)
}
