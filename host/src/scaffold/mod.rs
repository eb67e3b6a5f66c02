//! New tasks: templates that the program carries, and the WIT package that it speaks.
//!
//! Invariants: nothing is fetched; a folder is made whole or not at all; no file of somebody else is
//! overwritten unasked.
//!
//! Deliberately absent: building. What a template makes builds and tests itself.

mod folder;
mod language;
mod template;
mod wit;

use std::io;
use std::path::{Path, PathBuf};

pub(crate) use self::folder::make;
pub(crate) use self::language::Language;
pub(crate) use self::template::files;
pub(crate) use self::wit::{PACKAGE, Written, merged, write};

/// A file to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewFile {
    /// Its path in the folder.
    pub(crate) path: String,
    /// What is in it.
    pub(crate) bytes: Vec<u8>,
    /// Whether it is a program.
    pub(crate) executable: bool,
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub enum ScaffoldError {
    /// Nobody said in which language.
    #[error("no language is named; --lang takes {}", Language::names().join(", "))]
    NoLanguage,
    /// A path instead of a name.
    #[error("\"{0}\" is a path, and a task has a plain name")]
    NotAName(String),
    /// There is something in the folder.
    #[error("{} exists and is not an empty folder", .0.display())]
    Occupied(PathBuf),
    /// Files of the WIT package that are there with other contents.
    #[error("{} from the package {PACKAGE} of this wasmq", differing(.0))]
    Differs(Vec<PathBuf>),
    /// A file could not be read or made.
    #[error("failed to {doing} {}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl ScaffoldError {
    fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { doing, path: path.to_owned(), source }
    }
}

/// "a differs", or "a, b differ".
fn differing(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    format!("{} {}", names.join(", "), if names.len() == 1 { "differs" } else { "differ" })
}
