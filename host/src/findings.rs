//! The words of a check of the store: what was found where, what it means, what was done about it.
//!
//! Deliberately absent: looking and mending; `journal`, `dlq` and `registry` each do that for their own
//! files, and `queue::store_check` puts it together.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use wasmq_wal::disk::{DirEntry, Disk, EntryKind};

/// The step to take for most findings.
pub const REPAIR: &str = "run `wasmq store repair`";

/// Where in a file something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The file as a whole.
    Whole,
    /// From this byte on.
    Offset(u64),
    /// A line, counted from 1, which begins at a byte.
    Line {
        /// The line.
        line: u64,
        /// Where it begins.
        offset: u64,
    },
    /// A place in a text, counted from 1.
    Text {
        /// The line.
        line: u64,
        /// The column; 0 at the end of a line.
        column: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("-"),
            Self::Offset(offset) => write!(f, "offset {offset}"),
            Self::Line { line, offset } => write!(f, "line {line}, offset {offset}"),
            Self::Text { line, column } => write!(f, "line {line}, column {column}"),
        }
    }
}

/// What a finding means for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// What was there cannot be read any more, and is not served.
    Lost,
    /// Nothing is lost, but something is not served or not safe until somebody acts.
    Waits,
    /// Damaged bytes that were set aside earlier, kept as evidence.
    SetAside,
    /// It heals by itself, or does no harm.
    Harmless,
}

impl Effect {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Waits => "waits",
            Self::SetAside => "set aside",
            Self::Harmless => "harmless",
        }
    }

    /// Whether somebody has to act.
    #[must_use]
    pub const fn needs_action(self) -> bool {
        matches!(self, Self::Lost | Self::Waits)
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file or directory.
    pub path: PathBuf,
    /// Where in it.
    pub place: Place,
    /// What it means.
    pub effect: Effect,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub todo: String,
}

impl Finding {
    /// A finding about a file as a whole; see [`Finding::at`].
    pub fn new(path: &Path, effect: Effect, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { path: path.to_owned(), place: Place::Whole, effect, what: what.into(), todo: todo.into() }
    }

    /// The same finding about one place.
    #[must_use]
    pub fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// Something that the operating system does not let us read.
    pub fn unreadable(path: &Path, error: impl fmt::Display) -> Self {
        Self::new(path, Effect::Lost, format!("it cannot be read: {error}"), "check the disk and the permissions")
    }

    /// A file that stands for all its kind, by another version of wasmq.
    #[must_use]
    pub fn other_version(path: &Path) -> Self {
        let what = "it was written by another version of wasmq; nothing can be used beside it";
        Self::new(path, Effect::Waits, what, "use that version, or move the file away")
    }

    /// Bytes that were set aside earlier.
    #[must_use]
    pub fn set_aside(path: &Path) -> Self {
        Self::new(
            path,
            Effect::SetAside,
            "what was damaged and set aside",
            "look at it; remove it when it is of no use",
        )
    }

    /// What somebody left behind who was interrupted, or is still writing.
    #[must_use]
    pub fn leftover(path: &Path) -> Self {
        let what = "a leftover of something interrupted, or being written right now";
        Self::new(path, Effect::Harmless, what, "nothing; `wasmq store repair` removes leftovers")
    }
}

/// What a check has looked at and found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Check {
    /// How many files were read.
    pub files: u64,
    /// How many records, lines and components were read in them.
    pub records: u64,
    /// What was found, by file.
    pub findings: Vec<Finding>,
}

impl Check {
    /// Whether nobody has to act.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.findings.iter().any(|finding| finding.effect.needs_action())
    }

    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// What a directory holds; nothing where there is none.
    pub fn entries(&mut self, disk: &dyn Disk, dir: &Path) -> Vec<DirEntry> {
        match disk.list(dir) {
            Ok(entries) => return entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.add(Finding::unreadable(dir, error)),
        }
        Vec::new()
    }

    /// Takes in what a part of the check found.
    pub fn extend(&mut self, part: Self) {
        self.files += part.files;
        self.records += part.records;
        self.findings.extend(part.findings);
    }

    /// Looks twice when something is found: a file that is being written or replaced meanwhile looks wrong
    /// for a moment, and only what is still wrong then is believed.
    pub fn twice(look: impl Fn() -> Self) -> Self {
        let mut first = look();
        if !first.is_sound() {
            let second = look();
            first.findings.retain(|finding| second.findings.contains(finding));
        }
        first
    }
}

/// One thing that was mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mended {
    /// The file or directory.
    pub path: PathBuf,
    /// What was done.
    pub what: String,
}

impl Mended {
    /// A step that was done.
    pub fn new(path: &Path, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), what: what.into() }
    }
}

/// Whether something lies at a path that is not a file.
pub fn is_no_file(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    Ok(disk.stat(path)?.is_some_and(|found| found.kind != EntryKind::File))
}

/// Moves whatever lies at a path aside, under the first free name `<name>.damaged-<n>`, durably.
pub fn move_aside(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let mut number = 0_u32;
    let target = loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".damaged-{number}"));
        let target = PathBuf::from(name);
        if disk.stat(&target)?.is_none() {
            break target;
        }
        number += 1;
    };
    disk.rename(path, &target)?;
    disk.sync_dir(path.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
    Ok(target)
}

/// Moves aside what is not a file where a file belongs. Tells what was done.
pub fn clear_place(disk: &dyn Disk, path: &Path, done: &mut Vec<Mended>) -> io::Result<()> {
    if is_no_file(disk, path)? {
        let target = move_aside(disk, path)?;
        done.push(Mended::new(path, format!("what lay in place of the file was moved to {}", target.display())));
    }
    Ok(())
}

/// Whether a name is that of something set aside by [`move_aside`].
#[must_use]
pub fn is_set_aside(name: &str) -> bool {
    name.rsplit_once(".damaged-")
        .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
