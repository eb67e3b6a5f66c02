//! Which store, how durable, and where things are in a data directory. No user string is ever part
//! of a path.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where everything durable lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// In the data directory.
    #[default]
    Dir,
    /// Nowhere: live invocations are in memory, dead tasks are logged and dropped.
    None,
}

impl StoreKind {
    /// The word for it in settings and names.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Dir => "dir",
            Self::None => "none",
        }
    }
}

/// When an acknowledged invocation is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// Before it is acknowledged.
    #[default]
    Always,
    /// At most [`FSYNC_INTERVAL_MS`] after it was acknowledged.
    Interval,
    /// When the operating system gets to it.
    Never,
}

/// How long an acknowledged invocation may wait for the disk with [`Fsync::Interval`].
pub const FSYNC_INTERVAL_MS: u64 = 100;

/// The paths of a data directory.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout under a directory.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The logs of live invocations.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    /// The dead letter queue.
    #[must_use]
    pub fn dlq(&self) -> PathBuf {
        self.root.join("dlq")
    }

    /// Precompiled code; may be deleted at any time.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// Sockets of running servers.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }
}
