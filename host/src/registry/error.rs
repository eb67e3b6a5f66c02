//! What can go wrong with the registry of tasks, in words that say what to do next.
//!
//! Deliberately absent: exit codes and hints about command-line flags; the edges have those.

use std::io;
use std::path::{Path, PathBuf};

use wasmq_core::{Digest, TaskName, VersionNumber};
use wasmq_wal::disk::is_no_space;

/// Why an operation on the registry failed. The registry is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// No space, or over quota.
    #[error("the disk is full while {doing} {path}: nothing was changed; free some space and try again", path = path.display())]
    NoSpace {
        /// What was being done, as in "writing".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// Any other error of the file system.
    #[error("failed {doing} {path}: check the disk and the permissions, then try again", path = path.display())]
    Io {
        /// What was being done, as in "writing".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// The registry was written by another version of wasmq.
    #[error("{path} has format {found}, this wasmq knows format {known}: nothing was touched; use a wasmq that knows it", path = path.display())]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The format this version writes.
        known: u64,
    },
    /// Not the JSON that belongs there.
    #[error("{path} is damaged at line {line}, column {column}: nothing was touched; run `wasmq store repair`, or repair that place", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// Counted from 1; 0 at the end of a line.
        column: usize,
        /// What was found.
        source: serde_json::Error,
    },
    /// The file is gone and its copy is not.
    #[error("{path} is missing, but its copy is there and is used; run `wasmq store repair`, or remove the copy too", path = path.display())]
    Missing {
        /// Where the file belongs.
        path: PathBuf,
    },
    /// Something else lies in place of the file.
    #[error("{path} is not a file: nothing was touched; run `wasmq store repair`", path = path.display())]
    NotAFile {
        /// Where the file belongs.
        path: PathBuf,
    },
    /// The JSON is not what was written.
    #[error("{path} does not match its checksum: nothing was touched; run `wasmq store repair`, or, if it was changed by hand, remove the field crc at its end", path = path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
    },
    /// JSON that contradicts itself.
    #[error("{path} contradicts itself about task {task}: {what}; nothing was touched; run `wasmq store repair`, or repair that place", path = path.display())]
    Contradiction {
        /// The file.
        path: PathBuf,
        /// The task.
        task: TaskName,
        /// What is wrong.
        what: &'static str,
    },
    /// The bytes of a component have another hash than was said.
    #[error("the component has digest {found} instead of {expected}: it changed while it was read; try again")]
    DigestMismatch {
        /// What was said.
        expected: Digest,
        /// What it is.
        found: Digest,
    },
    /// A component is not in the store.
    #[error("component {digest} is not at {path}: deploy the file again", path = path.display())]
    ComponentMissing {
        /// Its digest.
        digest: Digest,
        /// Where it should be.
        path: PathBuf,
    },
    /// A component has other bytes than its name says.
    #[error("component {digest} at {path} is damaged: deploy the file again to repair it", path = path.display())]
    ComponentDamaged {
        /// Its digest.
        digest: Digest,
        /// Where it is.
        path: PathBuf,
    },
    /// Symbols have other bytes than were written.
    #[error("the symbols of {digest} at {path} are damaged: add them again, or remove them with `wasmq symbols remove`", path = path.display())]
    SymbolsDamaged {
        /// The component that they are of.
        digest: Digest,
        /// Where they are.
        path: PathBuf,
    },
    /// There is no such task or version.
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
}

impl RegistryError {
    /// Whether the file is there and not what was written.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Damaged { .. } | Self::Checksum { .. } | Self::Contradiction { .. } | Self::NotAFile { .. }
        )
    }

    /// Turns an error of the file system into one that says what was being done to what.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let path = path.to_owned();
            if is_no_space(&source) { Self::NoSpace { doing, path, source } } else { Self::Io { doing, path, source } }
        }
    }
}

/// Why a task and a choice of version lead to nothing that can run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// No task of this name.
    #[error("no task {name} is deployed{}", did_you_mean(close))]
    NoTask {
        /// The name.
        name: TaskName,
        /// Names that are spelled alike, the closest first.
        close: Vec<TaskName>,
    },
    /// The task has no such version.
    #[error("task {task} has no version {version}; it has {}", list(existing))]
    NoVersion {
        /// The task.
        task: TaskName,
        /// The version.
        version: VersionNumber,
        /// The versions there are.
        existing: Vec<VersionNumber>,
    },
    /// No version of the task was activated.
    #[error("no version of task {task} is current; activate one of {}", list(existing))]
    NoCurrent {
        /// The task.
        task: TaskName,
        /// The versions there are.
        existing: Vec<VersionNumber>,
    },
    /// No version of the task has this component.
    #[error("no version of task {task} has component {digest}; it has {}", list(existing))]
    NoDigest {
        /// The task.
        task: TaskName,
        /// The digest, or the beginning of one.
        digest: String,
        /// The versions there are.
        existing: Vec<VersionNumber>,
    },
    /// Several components begin like this.
    #[error("several components of task {task} begin with {digest}: {}; give more digits", list(versions))]
    SeveralDigests {
        /// The task.
        task: TaskName,
        /// The beginning.
        digest: String,
        /// The versions with such components.
        versions: Vec<VersionNumber>,
    },
    /// No version of the task has this label.
    #[error("no version of task {task} has the label \"{label}\"; it has {}", list(existing))]
    NoLabel {
        /// The task.
        task: TaskName,
        /// The label.
        label: String,
        /// The versions there are, with their labels.
        existing: Vec<String>,
    },
    /// Text that can mean no version.
    #[error(
        "\"{text}\" chooses no version: expected current, v<number>, a label, or sha256: and at least 12 hex digits"
    )]
    NotAChoice {
        /// The text, shortened and escaped.
        text: String,
    },
}

fn did_you_mean(close: &[TaskName]) -> String {
    match close {
        [] => "; deploy it first".to_owned(),
        some => format!("; did you mean {}?", some.iter().map(TaskName::as_str).collect::<Vec<_>>().join(" or ")),
    }
}

fn list(existing: &[impl ToString]) -> String {
    match existing {
        [] => "none".to_owned(),
        some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
