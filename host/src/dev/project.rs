//! Reads `task.toml`: what a task is called, how it is built, what the build makes.
//!
//! Invariants: a key that nobody knows, a value of a wrong type and an empty text are refused with the
//! file, the line and the key; every path of a [`Project`] is beside the file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use wasmq_core::TaskName;

use super::error::DevError;
use crate::config::close::close_names;

/// The file that makes a folder a project.
pub const FILE: &str = "task.toml";
/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
const KEYS: [&str; 5] = ["task", "build", "component", "payload", "watch"];

/// A task that is being developed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The name of the task.
    pub task: TaskName,
    /// What `sh -c` runs in the folder.
    pub build: String,
    /// What the build makes.
    pub component: PathBuf,
    /// The file with the sample payload.
    pub payload: Option<PathBuf>,
    /// What to watch; the whole folder when nobody says.
    pub watch: Option<Vec<PathBuf>>,
}

impl Project {
    /// Reads the project file of a folder.
    ///
    /// # Errors
    /// When it is not there, cannot be read, or is wrong.
    pub fn read(folder: &Path) -> Result<Self, DevError> {
        let path = folder.join(FILE);
        match read_text(&path) {
            Ok(text) => File { text: &text, path: &path, folder }.parse(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(DevError::NoProject { path }),
            Err(source) => Err(DevError::Read { path, source }),
        }
    }
}

#[allow(clippy::disallowed_methods)] // A project is not part of the store.
fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// A project file that is being read.
struct File<'a> {
    text: &'a str,
    path: &'a Path,
    folder: &'a Path,
}

impl File<'_> {
    fn parse(&self) -> Result<Project, DevError> {
        let table = DeTable::parse(self.text)
            .map_err(|error| self.wrong(error.span().map(|span| span.start), error.message().to_owned()))?;
        let table = table.get_ref();
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.get_ref().as_ref())) {
            return Err(self.unknown(key));
        }
        let (at, name) = self.needed(table, "task", "the name of the task")?;
        let task = name.parse().map_err(|error| self.wrong(Some(at), format!("task is \"{name}\", but {error}")))?;
        let (_, build) = self.needed(table, "build", "the command that builds the component")?;
        let (_, component) = self.needed(table, "component", "the .wasm file that the build makes")?;
        Ok(Project {
            task,
            build: build.to_owned(),
            component: self.folder.join(component),
            payload: table.get("payload").map(|value| self.path_of("payload", value)).transpose()?,
            watch: table.get("watch").map(|value| self.paths_of("watch", value)).transpose()?,
        })
    }

    /// The text of a key that must be there, and where it stands.
    fn needed<'t>(&self, table: &'t DeTable<'_>, key: &str, what: &str) -> Result<(usize, &'t str), DevError> {
        let value =
            table.get(key).ok_or_else(|| self.wrong(None, format!("the key {key} is missing; it is {what}")))?;
        Ok((value.span().start, self.text_of(key, value)?))
    }

    fn text_of<'t>(&self, key: &str, value: &'t Spanned<DeValue<'_>>) -> Result<&'t str, DevError> {
        let at = Some(value.span().start);
        match value.get_ref().as_str() {
            Some(text) if text.trim().is_empty() => Err(self.wrong(at, format!("{key} is empty"))),
            Some(text) if text.contains('\0') => Err(self.wrong(at, format!("{key} holds a NUL character"))),
            Some(text) => Ok(text),
            None => Err(self.wrong(at, format!("{key} must be a text, but is of type {}", value.get_ref().type_str()))),
        }
    }

    fn path_of(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<PathBuf, DevError> {
        Ok(self.folder.join(self.text_of(key, value)?))
    }

    fn paths_of(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<PathBuf>, DevError> {
        match value.get_ref().as_array().filter(|paths| !paths.is_empty()) {
            Some(paths) => paths.iter().map(|path| self.path_of(key, path)).collect(),
            None => {
                let message = format!("{key} must be a list of folders and files, such as [\"src\"]");
                Err(self.wrong(Some(value.span().start), message))
            }
        }
    }

    fn unknown(&self, key: &Spanned<impl AsRef<str>>) -> DevError {
        let name = key.get_ref().as_ref();
        let message = format!("there is no key \"{name}\"; the keys are {}", KEYS.join(", "));
        DevError::Project {
            path: self.path.to_owned(),
            line: Some(self.line(key.span().start)),
            message,
            close: close_names(name, KEYS),
        }
    }

    fn wrong(&self, at: Option<usize>, message: String) -> DevError {
        let line = at.map(|at| self.line(at));
        DevError::Project { path: self.path.to_owned(), line, message, close: Vec::new() }
    }

    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Project, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), text).unwrap();
        let root = dir.path().display().to_string();
        Project::read(dir.path()).map_err(|error| error.to_string().replace(&format!("{root}/"), ""))
    }

    const PLAIN: &str = "task = \"shout\"\nbuild = \"./build\"\ncomponent = \"out/shout.wasm\"\n";

    #[test]
    fn paths_are_beside_the_file() {
        let project = read(&format!("{PLAIN}payload = \"sample/a.txt\"\nwatch = [\"src\", \"wit\"]\n")).unwrap();
        assert_eq!(project.task.as_str(), "shout");
        assert!(project.component.is_absolute() && project.component.ends_with("out/shout.wasm"));
        assert!(project.payload.unwrap().ends_with("sample/a.txt"));
        assert_eq!(project.watch.unwrap().len(), 2);
        let plain = read(PLAIN).unwrap();
        assert_eq!((plain.payload, plain.watch), (None, None));
    }

    #[test]
    fn what_is_wrong_is_told_with_file_line_and_key() {
        for (text, says) in [
            (format!("{PLAIN}pay = 1\n"), "task.toml, line 4: there is no key \"pay\"; the keys are task, build"),
            (PLAIN.replace("\"./build\"", "7"), "task.toml, line 2: build must be a text, but is of type integer"),
            (PLAIN.replace("./build", " "), "task.toml, line 2: build is empty"),
            (PLAIN.replace("shout\"\nb", "No Name\"\nb"), "task.toml, line 1: task is \"No Name\", but "),
            (PLAIN.replace("component", "# c"), "task.toml: the key component is missing; it is the .wasm file"),
            (format!("{PLAIN}watch = \"src\"\n"), "task.toml, line 4: watch must be a list of folders"),
            (format!("{PLAIN}watch = [\"src\", 1]\n"), "task.toml, line 4: watch must be a text"),
            (format!("{PLAIN}watch = []\n"), "task.toml, line 4: watch must be a list"),
            (format!("{PLAIN}[other]\n"), "task.toml, line 4: there is no key \"other\""),
            (format!("{PLAIN}task = \"b\"\n"), "task.toml, line 4: duplicate key"),
            ("task = \n".to_owned(), "task.toml, line 1: "),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.starts_with(says), "{error}\nis not\n{says}");
        }
    }

    #[test]
    fn a_key_that_is_nearly_right_is_recognised() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), PLAIN.replace("build =", "biuld =")).unwrap();
        let error = Project::read(dir.path()).unwrap_err();
        assert!(matches!(error, DevError::Project { close, .. } if close == ["build"]));
    }

    #[test]
    fn a_folder_without_the_file_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Project::read(dir.path()), Err(DevError::NoProject { .. })));
    }
}
