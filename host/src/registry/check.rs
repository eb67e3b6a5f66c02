//! Looking at the registry and the components for damage, and mending what can be mended.
//!
//! Invariants: looking changes nothing and takes no lock; mending holds the lock of all writers, sets aside
//! and never deletes, and does nothing the second time.
//!
//! Deliberately absent: components that are damaged or gone. Only a deploy of the same file brings them back.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wasmq_core::Digest;
use wasmq_wal::disk::{DirEntry, Disk, EntryKind, OpenMode, Wait, is_temporary_of};

use super::components::{self, digest_of};
use super::error::RegistryError;
use super::state::State;
use super::symbols;
use super::{COPY_NAME, FILE_NAME, LOCK_NAME, Registry, is_file_or_copy, refuse_other_formats};
use crate::findings::{
    Check, Effect, Finding, Mended, Place, REPAIR, clear_place, is_no_file, is_set_aside, move_aside,
};

/// How long mending waits for a deploy that is under way.
const PATIENCE: Duration = Duration::from_secs(5);
/// What was found in place of the registry or its copy.
type Loaded = Result<Option<State>, RegistryError>;

const REDEPLOY: &str = "deploy the same file again, with --no-activate unless it is to become current";

/// What is wrong with the registry of a data directory and its components.
pub fn check(disk: &Arc<dyn Disk>, data_dir: &Path) -> Check {
    Check::twice(|| look(disk, data_dir))
}

fn look(disk: &Arc<dyn Disk>, data_dir: &Path) -> Check {
    let mut check = Check::default();
    for entry in check.entries(disk.as_ref(), data_dir) {
        top_entry(&entry, data_dir, &mut check);
    }
    let registry = Registry::unchecked(Arc::clone(disk), data_dir);
    let used = files(&registry, &mut check);
    stored_components(&registry, &used, &mut check);
    stored_symbols(&registry, &mut check);
    check
}

/// What the name of an entry of the data directory says.
fn top_entry(entry: &DirEntry, data_dir: &Path, check: &mut Check) {
    let (name, path) = (entry.name.to_string_lossy(), data_dir.join(&entry.name));
    let number = name.strip_prefix("tasks-v").and_then(|rest| rest.strip_suffix(".json"));
    if number.is_some_and(|text| text != "1" && text.bytes().all(|byte| byte.is_ascii_digit())) {
        check.add(Finding::other_version(&path));
    } else if is_temporary_of(&name, is_file_or_copy) {
        check.add(Finding::leftover(&path));
    } else if name.starts_with("tasks") && is_set_aside(&name) {
        check.add(Finding::set_aside(&path));
    } else if name == LOCK_NAME && entry.kind != EntryKind::File {
        check.add(Finding::new(&path, Effect::Waits, "it is not a file, so nothing can be deployed", REPAIR));
    }
}

/// Looks at the file and its copy. Returns the components that versions need, each with a name for it.
fn files(registry: &Registry, check: &mut Check) -> BTreeSet<Digest> {
    let (path, copy) = (&registry.path, registry.copy_path());
    let (file, spare) = (registry.read_file(path), registry.read_file(&copy));
    check.files += [&file, &spare].iter().filter(|found| !matches!(found, Ok(None))).count() as u64;
    let has_spare = matches!(spare, Ok(Some(_)));
    if let Err(error) = &file {
        // A copy that is damaged too is no help.
        check.add(described(path, error, if has_spare { Effect::Waits } else { Effect::Lost }));
    }
    match (&file, &spare) {
        (Ok(None), Ok(Some(_))) => {
            let what = "it is missing, but its copy is there";
            check.add(Finding::new(path, Effect::Waits, what, format!("{REPAIR}, or remove the copy too")));
        }
        (Ok(Some(_)), Ok(None)) => {
            check.add(Finding::new(&copy, Effect::Harmless, "the copy of the registry is missing", "nothing"));
        }
        (Ok(Some(state)), Ok(Some(other))) if state != other => {
            let what = "it differs from the registry, as after an edit or an interrupted deploy";
            check.add(Finding::new(&copy, Effect::Harmless, what, "nothing; the next deploy writes it anew"));
        }
        (_, Err(error)) => {
            check.add(described(&copy, error, Effect::Waits));
        }
        _ => {}
    }
    let state = file.ok().flatten().or_else(|| spare.ok().flatten()).unwrap_or_default();
    let versions = state.tasks.values().flat_map(|task| &task.versions);
    let used = versions.map(|version| version.digest).collect::<BTreeSet<_>>();
    check.records += state.tasks.values().map(|task| task.versions.len() as u64).sum::<u64>();
    used
}

/// A finding about the file or its copy.
fn described(path: &Path, error: &RegistryError, effect: Effect) -> Finding {
    let copy = if effect == Effect::Lost {
        ", which sets it aside, and deploy the tasks anew; or put a backup there: no copy is sound"
    } else {
        ""
    };
    match error {
        RegistryError::Damaged { line, column, source, .. } => {
            let place = Place::Text { line: *line as u64, column: *column as u64 };
            Finding::new(path, effect, format!("it is not what was written: {source}"), format!("{REPAIR}{copy}"))
                .at(place)
        }
        RegistryError::Contradiction { task, what, .. } => Finding::new(
            path,
            effect,
            format!("it contradicts itself about task {task}: {what}"),
            format!("{REPAIR}{copy}"),
        ),
        RegistryError::Checksum { .. } => {
            let todo = format!("{REPAIR}; if it was changed by hand, remove the field crc instead{copy}");
            Finding::new(path, effect, "it does not match its checksum", todo)
        }
        RegistryError::NotAFile { .. } => Finding::new(path, effect, "it is not a file", format!("{REPAIR}{copy}")),
        RegistryError::OtherFormat { found, known, .. } => {
            let what = format!("it has format {found}; this wasmq knows format {known}");
            Finding::new(path, Effect::Waits, what, "use a wasmq that knows it")
        }
        other => Finding::unreadable(path, other),
    }
}

/// Compares every component with its name, and looks for those that are missing.
fn stored_components(registry: &Registry, used: &BTreeSet<Digest>, check: &mut Check) {
    let dir = components::dir_of(&registry.data_dir);
    let mut seen = BTreeSet::new();
    for entry in check.entries(registry.disk.as_ref(), &dir) {
        let (name, path) = (entry.name.to_string_lossy(), dir.join(&entry.name));
        let digest = components::digest_in(&name);
        match digest {
            Some(digest) => {
                seen.insert(digest);
                component(registry.disk.as_ref(), &path, &digest, used.contains(&digest), check);
            }
            None if is_temporary_of(&name, components::is_file_name) => check.add(Finding::leftover(&path)),
            None if is_set_aside(&name) => check.add(Finding::set_aside(&path)),
            None => {
                check.add(Finding::new(&path, Effect::Harmless, "it is no component by its name", "nothing"));
            }
        }
    }
    for digest in used.difference(&seen) {
        let path = components::path_of(&registry.data_dir, digest);
        check.add(Finding::new(&path, Effect::Lost, "the component of a deployed version is missing", REDEPLOY));
    }
}

fn component(disk: &dyn Disk, path: &Path, digest: &Digest, is_used: bool, check: &mut Check) {
    check.files += 1;
    let effect = if is_used { Effect::Lost } else { Effect::Harmless };
    match is_no_file(disk, path) {
        Ok(true) => {
            let todo = if is_used { format!("{REPAIR}, then {REDEPLOY}") } else { REPAIR.to_owned() };
            return check.add(Finding::new(path, effect, "it is not a file", todo));
        }
        Err(error) => return check.add(Finding::unreadable(path, error)),
        Ok(false) => {}
    }
    let bytes = match disk.open(path, OpenMode::Read).and_then(|file| file.read_all()) {
        Err(error) => return check.add(Finding::unreadable(path, error)),
        Ok(bytes) => bytes,
    };
    check.records += 1;
    if digest_of(&bytes) != *digest {
        let what = format!("its {} bytes are not those of its name", bytes.len());
        check.add(Finding::new(path, effect, what, REDEPLOY));
    } else if !is_used {
        let what = "no deployed version needs it; dead tasks may have run it";
        check.add(Finding::new(path, Effect::Harmless, what, "nothing"));
    }
}

/// Reads all symbols. What they describe is in the component files, which have findings of their own.
fn stored_symbols(registry: &Registry, check: &mut Check) {
    let (disk, dir) = (registry.disk.as_ref(), symbols::dir_of(&registry.data_dir));
    let parent = dir.parent().unwrap_or(&dir);
    for entry in check.entries(disk, parent) {
        if dir.file_name() != Some(entry.name.as_os_str()) {
            let what = "it holds no symbols by its name";
            check.add(Finding::new(&parent.join(&entry.name), Effect::Harmless, what, "nothing"));
        }
    }
    for entry in check.entries(disk, &dir) {
        let (name, path) = (entry.name.to_string_lossy(), dir.join(&entry.name));
        match components::digest_in(&name) {
            Some(digest) => symbols_of(registry, &path, &digest, check),
            None if is_temporary_of(&name, components::is_file_name) => check.add(Finding::leftover(&path)),
            None if is_set_aside(&name) => check.add(Finding::set_aside(&path)),
            None => check.add(Finding::new(&path, Effect::Harmless, "it holds no symbols by its name", "nothing")),
        }
    }
}

fn symbols_of(registry: &Registry, path: &Path, digest: &Digest, check: &mut Check) {
    check.files += 1;
    match symbols::load(registry.disk.as_ref(), path, digest) {
        Ok(Some(_)) => check.records += 1,
        Ok(None) => {}
        Err(RegistryError::SymbolsDamaged { .. }) => {
            let todo = format!("{REPAIR}, then add the symbols again");
            check.add(Finding::new(path, Effect::Lost, "these symbols are not what was written", todo));
        }
        Err(error) => check.add(Finding::unreadable(path, error)),
    }
    let component = components::path_of(&registry.data_dir, digest);
    if matches!(registry.disk.stat(&component), Ok(None)) {
        let what = "they are symbols of a component that is not there";
        check.add(Finding::new(path, Effect::Harmless, what, "nothing"));
    }
}

/// Moves damaged symbols aside, so that others can be added.
fn mend_symbols(registry: &Registry, done: &mut Vec<Mended>) -> Result<(), RegistryError> {
    let (disk, dir) = (registry.disk.as_ref(), symbols::dir_of(&registry.data_dir));
    for digest in symbols::all(disk, &registry.data_dir).unwrap_or_default() {
        let path = symbols::path_of(&registry.data_dir, &digest);
        if matches!(symbols::load(disk, &path, &digest), Err(RegistryError::SymbolsDamaged { .. })) {
            let target = move_aside(disk, &path).map_err(RegistryError::io("setting aside", &dir))?;
            done.push(Mended::new(&path, format!("the damaged symbols were moved to {}", target.display())));
        }
    }
    Ok(())
}

/// Puts the copy back in place of a damaged file, renews a damaged copy, and clears the places of files.
///
/// # Errors
/// The disk is full or fails; what was done by then is in `done`.
pub fn mend(disk: &Arc<dyn Disk>, data_dir: &Path, done: &mut Vec<Mended>) -> Result<(), RegistryError> {
    if disk.stat(data_dir).map_err(RegistryError::io("looking at", data_dir))?.is_none()
        || refuse_other_formats(disk.as_ref(), data_dir).is_err()
    {
        return Ok(());
    }
    let registry = Registry::unchecked(Arc::clone(disk), data_dir);
    let is_needed = look(disk, data_dir).findings.iter().any(|finding| finding.effect != Effect::SetAside);
    if !is_needed {
        return Ok(());
    }
    let lock = data_dir.join(LOCK_NAME);
    clear_place(disk.as_ref(), &lock, done).map_err(RegistryError::io("clearing", &lock))?;
    let before = leftovers(disk, data_dir);
    let Some(_lock) = registry.try_lock(Wait::UpTo(PATIENCE))? else { return Ok(()) };
    done.extend(
        before
            .iter()
            .filter(|path| matches!(disk.stat(path), Ok(None)))
            .map(|path| Mended::new(path, "a leftover was removed")),
    );
    mend_file(&registry, done)?;
    let dir = components::dir_of(data_dir);
    for entry in disk.list(&dir).unwrap_or_default() {
        if components::digest_in(&entry.name.to_string_lossy()).is_some() {
            let path = dir.join(&entry.name);
            clear_place(disk.as_ref(), &path, done).map_err(RegistryError::io("clearing", &path))?;
        }
    }
    mend_symbols(&registry, done)
}

fn leftovers(disk: &Arc<dyn Disk>, data_dir: &Path) -> Vec<std::path::PathBuf> {
    let dirs = [data_dir.to_owned(), components::dir_of(data_dir), symbols::dir_of(data_dir)];
    let is_ours = |name: &str| is_file_or_copy(name) || components::is_file_name(name);
    let all = dirs.iter().flat_map(|dir| {
        let entries = disk.list(dir).unwrap_or_default();
        entries.into_iter().map(move |entry| (dir.join(&entry.name), entry.name.to_string_lossy().into_owned()))
    });
    all.filter(|(_, name)| is_temporary_of(name, is_ours)).map(|(path, _)| path).collect()
}

/// Whether there is nothing but damage.
fn is_unreadable(file: &Loaded, spare: &Loaded) -> bool {
    let is_no_use = |found: &Loaded| match found {
        Ok(state) => state.is_none(),
        Err(error) => error.is_damage(),
    };
    is_no_use(file) && is_no_use(spare)
}

fn mend_file(registry: &Registry, done: &mut Vec<Mended>) -> Result<(), RegistryError> {
    let (path, copy) = (&registry.path, registry.copy_path());
    let (file, spare) = (registry.read_file(path), registry.read_file(&copy));
    let aside =
        |path: &Path| move_aside(registry.disk.as_ref(), path).map_err(RegistryError::io("setting aside", path));
    match (file, spare) {
        (Err(error), Ok(Some(state))) if error.is_damage() => {
            let target = aside(path)?;
            registry.write_to(path, &state)?;
            let what = format!("the copy was put in its place; it was moved to {}", target.display());
            done.push(Mended::new(path, what));
        }
        // Whoever was interrupted here, or removed the file alone.
        (Ok(None), Ok(Some(state))) => {
            registry.write_to(path, &state)?;
            done.push(Mended::new(path, format!("it was missing and was made anew from {COPY_NAME}")));
        }
        (Ok(Some(state)), Err(error)) if error.is_damage() => {
            let target = aside(&copy)?;
            registry.write_to(&copy, &state)?;
            let what = format!("it was made anew from {FILE_NAME}; the damaged one was moved to {}", target.display());
            done.push(Mended::new(&copy, what));
        }
        (Ok(Some(state)), Ok(other)) if other.as_ref() != Some(&state) => {
            registry.write_to(&copy, &state)?;
            done.push(Mended::new(&copy, format!("it was made anew from {FILE_NAME}")));
        }
        // Neither can be read: without them the tasks can at least be deployed anew.
        (file, spare) if is_unreadable(&file, &spare) => {
            for (path, found) in [(path, file), (&copy, spare)] {
                if found.is_err() {
                    let target = aside(path)?;
                    let what = format!("it was moved to {}; deploy the tasks anew", target.display());
                    done.push(Mended::new(path, what));
                }
            }
        }
        _ => {}
    }
    Ok(())
}
