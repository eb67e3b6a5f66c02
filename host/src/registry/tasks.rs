//! Tasks and their versions, as one snapshot, and what a choice of version leads to.
//!
//! Invariants: a snapshot never changes; a version never changes but for its label.
//!
//! Deliberately absent: files.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wasmq_core::{Digest, Label, Pin, Settings, TaskName, Timestamp, VersionNumber};

use super::close::close_names;
use super::error::Unresolved;

/// The fewest hex digits that choose a component.
const MIN_DIGEST_DIGITS: usize = 12;

/// One version of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// Its number.
    pub number: VersionNumber,
    /// Its component.
    pub digest: Digest,
    /// A word for it; at most one version of a task has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// Its settings.
    pub settings: Settings,
    /// When it was deployed.
    pub deployed_at: Timestamp,
    /// The size of its component, in bytes.
    pub size_bytes: u64,
    /// Which kind of component it is, in the words of the runtime.
    pub shape: String,
    /// The core module that its component was made of, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<Digest>,
}

/// A task with its versions.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its name.
    pub name: TaskName,
    /// The version that new attempts use.
    pub current: Option<VersionNumber>,
    /// All versions, in the order of their numbers.
    pub versions: Vec<Version>,
}

/// What runs an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The version.
    pub version: VersionNumber,
    /// Its component.
    pub digest: Digest,
    /// Its settings.
    pub settings: Settings,
}

impl From<&Version> for Resolved {
    fn from(version: &Version) -> Self {
        Self { version: version.number, digest: version.digest, settings: version.settings.clone() }
    }
}

impl Task {
    /// A version by its number.
    #[must_use]
    pub fn version(&self, number: VersionNumber) -> Option<&Version> {
        self.versions.iter().find(|version| version.number == number)
    }

    /// The version that a text means: `current`, `v2`, a label, or `sha256:` and at least 12 hex
    /// digits. Of several versions with one component it is the latest.
    ///
    /// # Errors
    /// The text means no version, with those there are.
    pub fn choose(&self, text: &str) -> Result<&Version, Unresolved> {
        if text == "current" {
            return self.current_version();
        }
        if let Some(digits) = text.strip_prefix("sha256:") {
            return self.choose_digest(text, digits);
        }
        if let Ok(number) = text.parse() {
            return self.version(number).ok_or_else(|| self.no_version(number));
        }
        let label: Label = text.parse().map_err(|_| not_a_choice(text))?;
        let found = self.versions.iter().find(|version| version.label.as_ref() == Some(&label));
        found.ok_or_else(|| self.no_label(&label))
    }

    /// The latest version that was made of a core module with these settings.
    #[must_use]
    pub fn made_of(&self, module: &Digest, settings: &Settings) -> Option<&Version> {
        let is_same = |version: &&Version| version.module.as_ref() == Some(module) && version.settings == *settings;
        self.versions.iter().rev().find(is_same)
    }

    fn current_version(&self) -> Result<&Version, Unresolved> {
        let found = self.current.and_then(|number| self.version(number));
        found.ok_or_else(|| Unresolved::NoCurrent { task: self.name.clone(), existing: self.numbers() })
    }

    fn choose_digest(&self, text: &str, digits: &str) -> Result<&Version, Unresolved> {
        let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hex || !(MIN_DIGEST_DIGITS..=64).contains(&digits.len()) {
            return Err(not_a_choice(text));
        }
        let digits = digits.to_ascii_lowercase();
        let is_meant = |digest: &Digest| digest.hex().starts_with(&digits);
        let found: Vec<&Version> = self
            .versions
            .iter()
            .filter(|version| is_meant(&version.digest) || version.module.as_ref().is_some_and(is_meant))
            .collect();
        let Some(last) = found.last() else { return Err(self.no_digest(text.to_owned())) };
        if found.iter().all(|version| version.digest == last.digest) {
            return Ok(last);
        }
        let versions = found.iter().map(|version| version.number).collect();
        Err(Unresolved::SeveralDigests { task: self.name.clone(), digest: text.to_owned(), versions })
    }

    fn numbers(&self) -> Vec<VersionNumber> {
        self.versions.iter().map(|version| version.number).collect()
    }

    fn no_version(&self, version: VersionNumber) -> Unresolved {
        Unresolved::NoVersion { task: self.name.clone(), version, existing: self.numbers() }
    }

    fn no_digest(&self, digest: String) -> Unresolved {
        Unresolved::NoDigest { task: self.name.clone(), digest, existing: self.numbers() }
    }

    fn no_label(&self, label: &Label) -> Unresolved {
        let describe = |version: &Version| match &version.label {
            Some(label) => format!("{} ({label})", version.number),
            None => version.number.to_string(),
        };
        let existing = self.versions.iter().map(describe).collect();
        Unresolved::NoLabel { task: self.name.clone(), label: label.to_string(), existing }
    }
}

fn not_a_choice(text: &str) -> Unresolved {
    Unresolved::NotAChoice { text: text.chars().take(80).flat_map(char::escape_debug).collect() }
}

/// All tasks at one moment. Cheap to clone; changes of the registry make a new one.
#[derive(Debug, Clone, Default)]
pub struct Tasks(pub(super) Arc<BTreeMap<TaskName, Task>>);

impl Tasks {
    /// A task by its name.
    #[must_use]
    pub fn get(&self, name: &TaskName) -> Option<&Task> {
        self.0.get(name)
    }

    /// All tasks, in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Task> {
        self.0.values()
    }

    /// Whether two snapshots are the same one.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether any version of any task has a component.
    #[must_use]
    pub fn has_component(&self, digest: &Digest) -> bool {
        self.iter().flat_map(|task| &task.versions).any(|version| version.digest == *digest)
    }

    /// Names that are spelled like this one, the closest first.
    #[must_use]
    pub fn close_to(&self, name: &TaskName) -> Vec<TaskName> {
        close_names(name, self.0.keys())
    }

    /// A task by its name, or which names are close.
    ///
    /// # Errors
    /// [`Unresolved::NoTask`].
    pub fn find(&self, name: &TaskName) -> Result<&Task, Unresolved> {
        self.get(name).ok_or_else(|| Unresolved::NoTask { name: name.clone(), close: self.close_to(name) })
    }

    /// What runs an invocation of a task with a pin.
    ///
    /// # Errors
    /// As [`Tasks::pinned`].
    pub fn resolve(&self, name: &TaskName, pin: &Pin) -> Result<Resolved, Unresolved> {
        self.pinned(name, pin).map(Resolved::from)
    }

    /// The version of a task that a pin means. Of several with the pinned component it is the latest.
    ///
    /// # Errors
    /// `NoTask`, `NoVersion`, `NoCurrent` or `NoDigest`.
    pub fn pinned(&self, name: &TaskName, pin: &Pin) -> Result<&Version, Unresolved> {
        let task = self.find(name)?;
        match pin {
            Pin::Current => task.current_version(),
            Pin::Version(number) => task.version(*number).ok_or_else(|| task.no_version(*number)),
            Pin::Digest(digest) => {
                let found = task.versions.iter().rev().find(|version| version.digest == **digest);
                found.ok_or_else(|| task.no_digest(digest.to_string()))
            }
        }
    }

    /// What a text chooses among the versions of a task; see [`Task::choose`].
    ///
    /// # Errors
    /// Any [`Unresolved`].
    pub fn choose(&self, name: &TaskName, text: &str) -> Result<&Version, Unresolved> {
        self.find(name)?.choose(text)
    }
}
