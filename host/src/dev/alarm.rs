//! Wakes whoever waits for something to change in some folders.
//!
//! Invariants: it only says that something moved, a moment after the last movement; what has changed is for
//! [`tree`](super::tree) to find out. When the system watches no more folders, it rings again and again
//! instead, so that a change is found late rather than never.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::error::DevError;
use super::event::Event;
use crate::clock::Stopwatch;

/// How long nothing may move before it rings.
const QUIET: Duration = Duration::from_millis(50);
/// How long it waits for that at most.
const AT_MOST: Duration = Duration::from_secs(1);
/// How often it rings when it cannot watch.
const POLL: Duration = Duration::from_millis(500);

/// Watches folders.
#[derive(Debug)]
pub struct Alarm {
    /// Absent when it polls.
    watcher: Option<RecommendedWatcher>,
    /// The folders it watches, with their inodes: a folder that was made anew must be watched anew.
    folders: BTreeMap<PathBuf, u64>,
    vanished: Vanished,
    events: Sender<Event>,
}

impl Alarm {
    /// One that watches nothing yet.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn new(events: &Sender<Event>) -> Result<Self, DevError> {
        let (moved, movements) = channel();
        let vanished = Vanished::default();
        let told = vanished.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| told.note(&event) || is_movement(&event)) {
                let _ = moved.send(());
            }
        });
        let ring = events.clone();
        spawn("alarm", move || ring_after(&movements, &ring))?;
        Ok(Self { watcher: watcher.ok(), folders: BTreeMap::new(), vanished, events: events.clone() })
    }

    /// Watches these folders and no others. Returns whether some were not watched before, so that something
    /// may have moved in them unseen.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn watch(&mut self, folders: &BTreeMap<PathBuf, u64>) -> Result<Watched, DevError> {
        let Some(watcher) = &mut self.watcher else {
            // It could not even begin: from the first call on it polls.
            return if self.folders.is_empty() { self.poll(folders) } else { Ok(Watched::AsBefore) };
        };
        let vanished = self.vanished.take();
        self.folders.retain(|path, inode| {
            let is_lost = path.ancestors().any(|path| vanished.contains(path));
            let stays = folders.get(path) == Some(inode) && !is_lost;
            if !stays {
                // It fails for a folder that is gone, whose watch has gone with it.
                let _ = watcher.unwatch(path);
            }
            stays
        });
        let mut grew = false;
        for (path, inode) in folders {
            if self.folders.contains_key(path) {
                continue;
            }
            match watcher.watch(path, RecursiveMode::NonRecursive) {
                Ok(()) => grew |= self.folders.insert(path.clone(), *inode).is_none(),
                Err(error) if is_limit(&error) => return self.poll(folders),
                // It is gone again, which its parent folder tells of.
                Err(_) => {}
            }
        }
        Ok(if grew { Watched::More } else { Watched::AsBefore })
    }

    /// Gives up watching, and rings every now and then.
    fn poll(&mut self, folders: &BTreeMap<PathBuf, u64>) -> Result<Watched, DevError> {
        self.watcher = None;
        self.folders.clone_from(folders);
        let events = self.events.clone();
        spawn("alarm", move || {
            let (_held, never) = channel::<()>();
            while never.recv_timeout(POLL).is_err() {
                if events.send(Event::Stirred).is_err() {
                    return;
                }
            }
        })?;
        Ok(Watched::ByPolling)
    }
}

/// Paths that were removed or renamed away. The watches of folders there are gone, also when folders with the
/// same names, and even the same inodes, are back before anybody looks.
#[derive(Debug, Clone, Default)]
struct Vanished(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Vanished {
    /// Remembers what an event tells of; returns whether it was such an event.
    fn note(&self, event: &notify::Event) -> bool {
        let is_one = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
        if is_one {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(event.paths.iter().cloned());
        }
        is_one
    }

    fn take(&self) -> BTreeSet<PathBuf> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What became of the wish to watch folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// All of them were watched already.
    AsBefore,
    /// Some are watched only now.
    More,
    /// The system watches no more; from now on it polls.
    ByPolling,
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), DevError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map(drop).map_err(|source| DevError::System { doing: "start a thread that watches", source })
}

/// Whether an event can mean that a file is another. To be looked at makes none of it another, and we look.
const fn is_movement(event: &notify::Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

fn is_limit(error: &notify::Error) -> bool {
    const TOO_MANY_FILES: i32 = 24;
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => true,
        notify::ErrorKind::Io(error) => error.raw_os_error() == Some(TOO_MANY_FILES),
        _ => false,
    }
}

/// Rings when nothing has moved for a moment.
fn ring_after(movements: &Receiver<()>, events: &Sender<Event>) {
    while movements.recv().is_ok() {
        let since = Stopwatch::start();
        while since.elapsed() < AT_MOST {
            match movements.recv_timeout(QUIET) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if events.send(Event::Stirred).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(path: &std::path::Path) -> BTreeMap<PathBuf, u64> {
        use std::os::unix::fs::MetadataExt as _;
        BTreeMap::from([(path.to_owned(), path.metadata().unwrap().ino())])
    }

    #[test]
    fn many_movements_are_one_ring_and_looking_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let (events, inbox) = channel();
        let mut alarm = Alarm::new(&events).unwrap();
        assert_eq!(alarm.watch(&folder(dir.path())).unwrap(), Watched::More);
        assert_eq!(alarm.watch(&folder(dir.path())).unwrap(), Watched::AsBefore);
        for n in 0..20 {
            std::fs::write(dir.path().join("a"), [n; 9]).unwrap();
        }
        assert!(matches!(inbox.recv_timeout(Duration::from_secs(10)), Ok(Event::Stirred)));
        for _ in 0..20 {
            std::fs::read(dir.path().join("a")).unwrap();
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        }
        assert!(inbox.recv_timeout(QUIET * 4).is_err(), "nothing moved");
    }

    #[test]
    fn a_folder_that_was_away_for_a_moment_is_watched_again() {
        let dir = tempfile::tempdir().unwrap();
        let (src, away) = (dir.path().join("src"), dir.path().join("away"));
        std::fs::create_dir(&src).unwrap();
        let (events, inbox) = channel();
        let mut alarm = Alarm::new(&events).unwrap();
        let both: BTreeMap<_, _> = folder(dir.path()).into_iter().chain(folder(&src)).collect();
        assert_eq!(alarm.watch(&both).unwrap(), Watched::More);
        std::fs::rename(&src, &away).unwrap();
        std::fs::rename(&away, &src).unwrap();
        assert!(matches!(inbox.recv_timeout(Duration::from_secs(10)), Ok(Event::Stirred)));
        assert_eq!(alarm.watch(&both).unwrap(), Watched::More, "the same folder, and no watch on it");
        std::fs::write(src.join("a"), "a").unwrap();
        assert!(matches!(inbox.recv_timeout(Duration::from_secs(10)), Ok(Event::Stirred)));
    }

    #[test]
    fn without_a_watcher_it_rings_again_and_again() {
        let dir = tempfile::tempdir().unwrap();
        let (events, inbox) = channel();
        let mut alarm = Alarm { watcher: None, folders: BTreeMap::new(), vanished: Vanished::default(), events };
        assert_eq!(alarm.watch(&folder(dir.path())).unwrap(), Watched::ByPolling);
        assert_eq!(alarm.watch(&folder(dir.path())).unwrap(), Watched::AsBefore);
        for _ in 0..2 {
            assert!(matches!(inbox.recv_timeout(Duration::from_secs(10)), Ok(Event::Stirred)));
        }
    }
}
