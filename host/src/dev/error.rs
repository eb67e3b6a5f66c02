//! Why `wasmq dev` cannot go on, or why a round ended early.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use std::os::unix::process::ExitStatusExt as _;

/// What went wrong around a task that is being developed.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// There is nothing to develop.
    #[error("there is no {}", path.display())]
    NoProject {
        /// The file that is missing.
        path: PathBuf,
    },
    /// The project file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The project file is wrong.
    #[error("{}{}: {message}", path.display(), line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Project {
        /// The file.
        path: PathBuf,
        /// The line, from 1, where one is to blame.
        line: Option<usize>,
        /// What is wrong with which key.
        message: String,
        /// Keys that may have been meant.
        close: Vec<&'static str>,
    },
    /// A folder or file to watch cannot be read.
    #[error("cannot watch {}", path.display())]
    Watch {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was watched is there no more.
    #[error("{}{} is gone", path.display(), if *is_named { ", which `watch` in task.toml names," } else { "" })]
    Gone {
        /// What: the folder of the project, or a folder or file in it.
        path: PathBuf,
        /// Whether the project file names it.
        is_named: bool,
    },
    /// There is too much to watch.
    #[error("{} has more than {limit} files to watch", folder.display())]
    TooManyFiles {
        /// Where.
        folder: PathBuf,
        /// The most there may be.
        limit: usize,
    },
    /// The build could not be started.
    #[error("cannot start the build `{command}`")]
    Start {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The build ended badly.
    #[error("the build {}", ending(*status))]
    Build {
        /// How.
        status: ExitStatus,
    },
    /// The build ended well and made nothing.
    #[error("the build succeeded, but {} is not there", path.display())]
    NoComponent {
        /// The component that the project file names.
        path: PathBuf,
    },
    /// What is in the place of the component is no file.
    #[error("the build succeeded, but {} is {}", path.display(), no_file(*is_folder))]
    ComponentNoFile {
        /// The component that the project file names.
        path: PathBuf,
        /// Whether it is a folder.
        is_folder: bool,
    },
    /// The sample payload cannot be read, or is no file.
    #[error("cannot read the payload {}", path.display())]
    Payload {
        /// The payload that the project file names.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file in the place of a folder.
    #[error("{} is a file, but `wasmq dev` takes a folder with a task.toml", path.display())]
    NotAFolder {
        /// As it was typed.
        path: PathBuf,
    },
    /// Stdin belongs to nobody.
    #[error("the payload cannot come from stdin, because it is read in every round")]
    Stdin,
    /// A thread or a signal handler cannot be had.
    #[error("cannot {doing}")]
    System {
        /// What.
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A signal came before there was a verdict.
    #[error("interrupted before the round ended")]
    Interrupted,
}

impl DevError {
    /// What is to be looked at and cannot be.
    #[must_use]
    pub fn place(&self) -> Option<&Path> {
        match self {
            Self::Watch { path, .. } | Self::Gone { path, .. } | Self::TooManyFiles { folder: path, .. } => Some(path),
            _ => None,
        }
    }
}

const fn no_file(is_folder: bool) -> &'static str {
    if is_folder { "a folder" } else { "no file" }
}

/// "failed with code 1", "was ended by signal 9".
fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("failed with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "failed".to_owned(),
    }
}
