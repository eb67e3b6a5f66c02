//! The files of a project: which are watched, and which of them have changed.
//!
//! Invariants: whatever the system reports, a file has changed only when its content has (or whether it may be
//! executed): touching it, or writing the same again, is no change; and a file that is found empty is believed
//! to be so at the second look, because whoever writes a file anew empties it first. The component, the data directory and the
//! folders of builds are never looked at. Links to folders are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use wasmq_core::Timestamp;

use super::error::DevError;
use super::project::{FILE, Project};

/// The most files that are watched.
const MAX_FILES: usize = 50_000;
/// A larger file is not read: it counts as changed when its size or time has.
const MAX_READ_BYTES: u64 = 4 * 1024 * 1024;
/// Folders that hold what builds make, whatever the language.
const OF_BUILDS: [&str; 7] = ["target", "node_modules", "dist", "build", "zig-out", "__pycache__", "venv"];

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    folder: PathBuf,
    /// Folders, and files, that are looked at with everything in them.
    roots: Vec<PathBuf>,
    /// Files that are looked at wherever they are; they need not be there.
    files: Vec<PathBuf>,
    component: PathBuf,
    data: PathBuf,
}

impl Scope {
    /// What a project wants to be watched, with the file of a payload that is given otherwise.
    #[must_use]
    pub fn new(folder: &Path, project: &Project, payload: Option<&Path>, data: &Path) -> Self {
        let files = [Some(folder.join(FILE)), project.payload.clone(), payload.map(Path::to_owned)];
        Self {
            folder: folder.to_owned(),
            roots: project.watch.clone().unwrap_or_else(|| vec![folder.to_owned()]),
            files: files.into_iter().flatten().collect(),
            component: project.component.clone(),
            data: data.to_owned(),
        }
    }

    /// How a file is called in messages: by its place in the folder.
    #[must_use]
    pub fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.folder).unwrap_or(path).display().to_string()
    }

    fn ignores_folder(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        let of_build = name.as_bytes().starts_with(b".") || OF_BUILDS.iter().any(|known| name == *known);
        of_build || real(path) == real(&self.data)
    }

    fn ignores_file(&self, path: &Path) -> bool {
        let bytes = path.file_name().unwrap_or_default().as_bytes();
        let of_editor = bytes.starts_with(b".") || bytes.ends_with(b"~") || bytes.starts_with(b"#");
        // What is being written beside the component is about to become it.
        let component = self.component.file_name().unwrap_or_default().as_bytes();
        of_editor || (path.parent() == self.component.parent() && bytes.starts_with(component))
    }
}

/// A path as the system sees it; as it is when nothing is there.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// What a file looked like. When its marks are the same, it was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marks {
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
}

impl Marks {
    fn of(meta: &Metadata) -> Self {
        Self {
            len: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
        }
    }
}

/// What is in a file, as far as it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Digest([u8; 32], bool),
    Unread(Marks),
}

/// A file that is watched.
#[derive(Debug, Clone, Copy)]
struct Known {
    marks: Marks,
    content: Content,
}

/// A file whose content is another, that is new, or that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub path: PathBuf,
    /// When it was written, by its own account; absent when it is gone.
    pub written_at: Option<Timestamp>,
}

/// The files that are watched, as they were at the last look.
#[derive(Debug, Default)]
pub struct Tree {
    /// Absent before the first look.
    files: Option<BTreeMap<PathBuf, Known>>,
    folders: BTreeMap<PathBuf, u64>,
    /// Files that were found empty, and were not before.
    emptied: BTreeSet<PathBuf>,
}

impl Tree {
    /// Looks at everything, and says what has changed since the last look.
    ///
    /// # Errors
    /// When a folder or file that the project names cannot be read, or there is too much.
    pub fn look(&mut self, scope: &Scope) -> Result<Vec<Change>, DevError> {
        let mut walk = Walk::new(scope, self);
        for root in &scope.roots {
            let watch = |source| DevError::Watch { path: root.clone(), source };
            let meta = root.metadata().map_err(watch)?;
            if meta.is_dir() {
                walk.folder(root, &meta).map_err(watch)?
            } else {
                walk.beside(root)
            }
            if walk.files.len() > MAX_FILES {
                return Err(DevError::TooManyFiles { folder: root.clone(), limit: MAX_FILES });
            }
        }
        scope.files.iter().for_each(|file| walk.beside(file));
        let Walk { files, folders, emptied, .. } = walk;
        let changes = changes(self.files.as_ref().unwrap_or(&BTreeMap::new()), &files);
        (self.files, self.folders, self.emptied) = (Some(files), folders, emptied);
        Ok(changes)
    }

    /// Whether the last look is to be believed; otherwise another is due in a moment.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.emptied.is_empty()
    }

    /// The folders that files lie in, each with the number of its inode.
    #[must_use]
    pub const fn folders(&self) -> &BTreeMap<PathBuf, u64> {
        &self.folders
    }
}

fn changes(before: &BTreeMap<PathBuf, Known>, after: &BTreeMap<PathBuf, Known>) -> Vec<Change> {
    let paths: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let content = |files: &BTreeMap<PathBuf, Known>, path| files.get(path).map(|known: &Known| known.content);
    let other = paths.into_iter().filter(|path| content(before, *path) != content(after, *path));
    other.map(|path| Change { path: path.clone(), written_at: after.get(path).map(written_at) }).collect()
}

fn written_at(known: &Known) -> Timestamp {
    let (secs, nanos) = known.marks.modified;
    let millis = secs.saturating_mul(1000).saturating_add(nanos / 1_000_000);
    Timestamp(u64::try_from(millis).unwrap_or(0))
}

/// One look at everything.
struct Walk<'a> {
    scope: &'a Scope,
    before: &'a Tree,
    files: BTreeMap<PathBuf, Known>,
    folders: BTreeMap<PathBuf, u64>,
    emptied: BTreeSet<PathBuf>,
    walked: BTreeSet<PathBuf>,
}

impl<'a> Walk<'a> {
    fn new(scope: &'a Scope, before: &'a Tree) -> Self {
        let (files, folders, emptied, walked) = Default::default();
        Self { scope, before, files, folders, emptied, walked }
    }

    #[allow(clippy::disallowed_methods)] // A project is not part of the store.
    fn folder(&mut self, path: &Path, meta: &Metadata) -> io::Result<()> {
        if !self.walked.insert(path.to_owned()) {
            return Ok(());
        }
        self.folders.insert(path.to_owned(), meta.ino());
        for entry in std::fs::read_dir(path)? {
            if self.files.len() > MAX_FILES {
                return Ok(());
            }
            let Ok(entry) = entry else { continue };
            let path = entry.path();
            // What vanishes while it is looked at was there for a moment only.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() && !self.scope.ignores_folder(&path) {
                // One that may not be read cannot be built from either.
                let _ = self.folder(&path, &meta);
            } else if !meta.is_dir() && !self.scope.ignores_file(&path) {
                self.file(&path);
            }
        }
        Ok(())
    }

    /// A file that somebody named: it is watched through the folder it lies in.
    fn beside(&mut self, path: &Path) {
        if let Some((folder, meta)) = path.parent().and_then(|folder| Some((folder, folder.metadata().ok()?))) {
            self.folders.entry(folder.to_owned()).or_insert(meta.ino());
        }
        self.file(path);
    }

    fn file(&mut self, path: &Path) {
        let Some(meta) = path.metadata().ok().filter(Metadata::is_file) else { return };
        let marks = Marks::of(&meta);
        let before = self.before.files.as_ref().and_then(|files| files.get(path));
        let known = match before {
            Some(known) if known.marks == marks => *known,
            _ if marks.len == 0 && self.is_emptied(path, before) => {
                self.emptied.insert(path.to_owned());
                let Some(known) = before else { return };
                *known
            }
            _ => Known { marks, content: content(path, marks, &meta) },
        };
        self.files.insert(path.to_owned(), known);
    }

    /// Whether an empty file was not empty, or not there, and is seen like that for the first time.
    fn is_emptied(&self, path: &Path, before: Option<&Known>) -> bool {
        let was_empty = before.is_some_and(|known| known.marks.len == 0);
        self.before.files.is_some() && !was_empty && !self.before.emptied.contains(path)
    }
}

#[allow(clippy::disallowed_methods)] // A project is not part of the store.
fn content(path: &Path, marks: Marks, meta: &Metadata) -> Content {
    if marks.len > MAX_READ_BYTES {
        return Content::Unread(marks);
    }
    let runs = meta.mode() & 0o111 != 0;
    std::fs::read(path).map_or(Content::Unread(marks), |bytes| Content::Digest(Sha256::digest(bytes).into(), runs))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct World {
        dir: tempfile::TempDir,
        tree: Tree,
        scope: Scope,
    }

    impl World {
        fn new(watch: Option<&[&str]>) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path();
            for (name, text) in [("task.toml", ""), ("src/main.rs", "one"), ("sample/a.txt", "a"), ("notes", "n")] {
                fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
                fs::write(folder.join(name), text).unwrap();
            }
            let project = Project {
                task: "t".parse().unwrap(),
                build: "./build".to_owned(),
                component: folder.join("out.wasm"),
                payload: Some(folder.join("sample/a.txt")),
                watch: watch.map(|names| names.iter().map(|name| folder.join(name)).collect()),
            };
            let scope = Scope::new(folder, &project, None, &folder.join("data"));
            let mut world = Self { tree: Tree::default(), scope, dir };
            assert!(!world.look().is_empty());
            assert_eq!(world.look(), [""; 0]);
            world
        }

        fn look(&mut self) -> Vec<String> {
            let changes = self.tree.look(&self.scope).unwrap();
            changes.iter().map(|change| self.scope.name(&change.path)).collect()
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn only_another_content_is_a_change() {
        let mut world = World::new(None);
        world.write("src/main.rs", "one");
        assert_eq!(world.look(), [""; 0]);
        world.write("src/main.rs", "two");
        world.write("src/deep/er/new.rs", "x");
        assert_eq!(world.look(), ["src/deep/er/new.rs", "src/main.rs"]);
        fs::remove_file(world.dir.path().join("src/main.rs")).unwrap();
        assert_eq!(world.look(), ["src/main.rs"]);
        assert!(world.tree.folders().contains_key(&world.dir.path().join("src/deep/er")));
    }

    #[test]
    fn a_file_that_is_being_written_anew_is_not_taken_for_empty() {
        let mut world = World::new(None);
        world.write("src/main.rs", "");
        assert_eq!(world.look(), [""; 0]);
        assert!(!world.tree.is_settled());
        world.write("src/main.rs", "one");
        assert_eq!(world.look(), [""; 0]);
        assert!(world.tree.is_settled());
        world.write("src/main.rs", "");
        assert_eq!(world.look(), [""; 0]);
        assert_eq!(world.look(), ["src/main.rs"], "it is empty indeed");
        world.write("src/new.rs", "");
        assert_eq!(world.look(), [""; 0]);
        assert_eq!(world.look(), ["src/new.rs"]);
        assert_eq!(world.look(), [""; 0]);
        assert!(world.tree.is_settled());
    }

    #[test]
    fn a_save_by_rename_is_a_change_even_with_the_old_time_and_size() {
        let mut world = World::new(None);
        let (path, new) = (world.dir.path().join("src/main.rs"), world.dir.path().join("src/.main.swp"));
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&new, "two").unwrap();
        fs::File::options().write(true).open(&new).unwrap().set_modified(before).unwrap();
        fs::rename(&new, &path).unwrap();
        assert_eq!(world.look(), ["src/main.rs"]);
    }

    #[test]
    fn what_builds_and_editors_make_is_not_looked_at() {
        let mut world = World::new(None);
        for name in ["out.wasm", "out.wasm.tmp", "target/x", "node_modules/y/z", "data/w", ".git/HEAD", ".env"] {
            world.write(name, "x");
        }
        for name in ["src/main.rs~", "src/.main.rs.swp", "src/#main.rs#", "src/__pycache__/m.pyc"] {
            world.write(name, "x");
        }
        assert_eq!(world.look(), [""; 0]);
        world.write("src/out.wasm", "a file of the same name elsewhere");
        assert_eq!(world.look(), ["src/out.wasm"]);
    }

    #[test]
    fn whoever_names_what_to_watch_gets_that_and_the_project_file_and_the_payload() {
        let mut world = World::new(Some(&["src"]));
        world.write("notes", "other");
        world.write("sample/b.txt", "other");
        assert_eq!(world.look(), [""; 0]);
        world.write("task.toml", "#");
        world.write("sample/a.txt", "b");
        assert_eq!(world.look(), ["sample/a.txt", "task.toml"]);
    }

    #[test]
    fn a_folder_is_looked_at_though_a_file_in_it_is_named_first() {
        let mut world = World::new(Some(&["src/main.rs", "src", "."]));
        world.write("src/other.rs", "x");
        world.write("notes", "other");
        assert_eq!(world.look(), ["notes", "src/other.rs"]);
    }

    #[test]
    fn a_link_to_its_own_folder_is_no_trap() {
        let mut world = World::new(None);
        std::os::unix::fs::symlink("..", world.dir.path().join("src/up")).unwrap();
        assert_eq!(world.look(), [""; 0]);
    }

    #[test]
    fn what_is_named_and_not_there_is_told() {
        let mut world = World::new(None);
        world.scope.roots = vec![world.dir.path().join("srcs")];
        let error = world.tree.look(&world.scope).unwrap_err();
        assert!(error.to_string().ends_with("/srcs"), "{error}");
    }
}
