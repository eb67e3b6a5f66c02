//! Makes a folder with files, whole or not at all.
//!
//! Invariant: everything is written beside the place first and moved there when it is complete. So
//! whatever fails, the place is as it was.

use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{NewFile, ScaffoldError};

/// What is at a place.
enum Place {
    Free,
    EmptyFolder,
}

/// Makes the folder. Its parents are made when they are missing; an empty folder is filled.
pub(crate) fn make(folder: &Path, files: &[NewFile]) -> Result<(), ScaffoldError> {
    match look(folder)? {
        Place::Free => {
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            make_dir(parent)?;
            let temporary = write_beside(parent, files)?;
            rename(temporary.path(), folder).map_err(|error| not_free(folder, error))?;
            // It is in its place now; there is nothing left to remove.
            let _ = temporary.keep();
            Ok(())
        }
        Place::EmptyFolder => {
            let temporary = write_beside(folder, files)?;
            move_into(temporary.path(), folder)
        }
    }
}

fn look(folder: &Path) -> Result<Place, ScaffoldError> {
    match list(folder) {
        Ok(names) if names.is_empty() => Ok(Place::EmptyFolder),
        Err(error) if error.kind() == ErrorKind::NotFound && !folder.is_symlink() => Ok(Place::Free),
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(ScaffoldError::file("look into", folder)(error))
        }
        Ok(_) | Err(_) => Err(ScaffoldError::Occupied(folder.to_owned())),
    }
}

/// Why the complete folder could not be moved: somebody else made one meanwhile, or it is the disk.
fn not_free(folder: &Path, error: io::Error) -> ScaffoldError {
    match error.kind() {
        ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            ScaffoldError::Occupied(folder.to_owned())
        }
        _ => ScaffoldError::file("create", folder)(error),
    }
}

/// All files in a temporary folder in `parent`.
fn write_beside(parent: &Path, files: &[NewFile]) -> Result<TempDir, ScaffoldError> {
    let mode = std::fs::Permissions::from_mode(0o777);
    let temporary = tempfile::Builder::new()
        .prefix(".wasmq-new-")
        .permissions(mode)
        .tempdir_in(parent)
        .map_err(ScaffoldError::file("create a folder in", parent))?;
    for file in files {
        let path = temporary.path().join(&file.path);
        make_dir(path.parent().unwrap_or(&path))?;
        write(&path, file).map_err(ScaffoldError::file("write", &path))?;
    }
    Ok(temporary)
}

fn write(path: &Path, file: &NewFile) -> io::Result<()> {
    let mode = if file.executable { 0o777 } else { 0o666 };
    let mut opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    io::Write::write_all(&mut opened, &file.bytes)
}

/// Moves everything from one folder into another, or nothing.
fn move_into(from: &Path, to: &Path) -> Result<(), ScaffoldError> {
    let names = list(from).map_err(ScaffoldError::file("look into", from))?;
    for (at, name) in names.iter().enumerate() {
        let place = to.join(name);
        if let Err(error) = rename(&from.join(name), &place) {
            for name in names.iter().take(at) {
                // What cannot be moved back stays; the first error is the one to tell of.
                let _ = rename(&to.join(name), &from.join(name));
            }
            return Err(ScaffoldError::file("create", &place)(error));
        }
    }
    Ok(())
}

#[allow(clippy::disallowed_methods)] // What a user names on the command line is not part of the store.
fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?.map(|entry| Ok(PathBuf::from(entry?.file_name()))).collect()
}

#[allow(clippy::disallowed_methods)]
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

fn make_dir(dir: &Path) -> Result<(), ScaffoldError> {
    std::fs::create_dir_all(dir).map_err(ScaffoldError::file("create", dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<NewFile> {
        let file = |path: &str, executable| NewFile { path: path.to_owned(), bytes: path.into(), executable };
        vec![file("a/b/c", false), file("build", true)]
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = list(dir).unwrap().iter().map(|name| name.display().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_free_place_and_an_empty_folder_are_filled_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        for folder in [dir.path().join("x/y/free"), empty] {
            make(&folder, &files()).unwrap();
            assert_eq!(names(&folder), ["a", "build"]);
            assert_eq!(std::fs::read(folder.join("a/b/c")).unwrap(), b"a/b/c");
            assert_eq!(names(folder.parent().unwrap()).iter().filter(|name| name.starts_with('.')).count(), 0);
            let mode = |path: &str| folder.join(path).metadata().unwrap().permissions().mode();
            assert!(mode("build") & 0o100 != 0 && mode("a/b/c") & 0o111 == 0);
            assert_eq!(mode("."), mode("a"), "as any new folder");
        }
    }

    #[test]
    fn what_is_there_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let full = dir.path().join("full");
        std::fs::create_dir(&full).unwrap();
        std::fs::write(full.join(".git"), "").unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "mine").unwrap();
        let nowhere = dir.path().join("nowhere");
        std::os::unix::fs::symlink("gone", &nowhere).unwrap();
        for place in [&full, &file, &nowhere] {
            assert!(matches!(make(place, &files()), Err(ScaffoldError::Occupied(path)) if path == *place));
        }
        assert_eq!(names(dir.path()), ["file", "full", "nowhere"]);
        assert_eq!((names(&full), std::fs::read(&file).unwrap()), (vec![".git".to_owned()], b"mine".to_vec()));
    }

    #[test]
    fn a_folder_that_cannot_be_completed_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = files();
        files.push(NewFile { path: "build/impossible".to_owned(), bytes: Vec::new(), executable: false });
        for name in ["new", "empty"] {
            let folder = dir.path().join(name);
            if name == "empty" {
                std::fs::create_dir(&folder).unwrap();
            }
            assert!(matches!(make(&folder, &files), Err(ScaffoldError::File { .. })));
            assert!(!folder.exists() || names(&folder).is_empty());
        }
        assert_eq!(names(dir.path()), ["empty"]);
    }

    #[test]
    fn a_folder_that_somebody_else_made_meanwhile_is_not_touched() {
        let error = not_free(Path::new("x"), ErrorKind::DirectoryNotEmpty.into());
        assert!(matches!(error, ScaffoldError::Occupied(_)));
    }
}
