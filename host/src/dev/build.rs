//! The build of a project: a shell in a process group of its own.
//!
//! Invariants: what a build writes goes to our stderr as it is, through no pipe, so that colours stay; nothing
//! of its process group outlives it, however it ends; a [`Build`] that is dropped is stopped.

use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::error::DevError;
use super::event::Event;
use crate::clock::Stopwatch;

/// How long a build may take to end when it is asked to, before it is killed.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often it is looked at meanwhile.
const GLANCE: Duration = Duration::from_millis(2);

/// A build that runs, or has just ended.
#[derive(Debug)]
pub struct Build {
    child: Child,
    ended: bool,
}

impl Build {
    /// Starts it. Its end is told as [`Event::Built`].
    ///
    /// # Errors
    /// When there is no shell, or no process to be had.
    pub fn start(command: &str, folder: &Path, round: u64, events: &Sender<Event>) -> Result<Self, DevError> {
        let wrong = |source| DevError::Start { command: command.to_owned(), source };
        let stderr = std::io::stderr().as_fd().try_clone_to_owned().map_err(wrong)?;
        let child = Command::new("sh")
            .args(["-c", command])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(stderr)
            .process_group(0)
            .spawn()
            .map_err(wrong)?;
        let build = Self { child, ended: false };
        let (pid, events) = (build.pid(), events.clone());
        let watching = thread::Builder::new().name("build".to_owned()).spawn(move || {
            // Without reaping it: until then its number belongs to nobody else.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let _ = events.send(Event::Built(round));
        });
        watching.map(|_| build).map_err(wrong)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Collects a build that has ended, and ends what it left running.
    ///
    /// # Errors
    /// When it did not end well.
    pub fn collect(mut self) -> Result<(), DevError> {
        let status = self.reap().map_err(|source| DevError::System { doing: "wait for the build", source })?;
        if status.success() { Ok(()) } else { Err(DevError::Build { status }) }
    }

    /// Asks the whole group to end, and kills what does not.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::TERM);
        let since = Stopwatch::start();
        while !self.has_exited() && since.elapsed() < PATIENCE {
            glance();
        }
        let _ = self.reap();
    }

    fn has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.pid()), options), Ok(None))
    }

    /// Kills what is left of the group while its number is still taken, then gives the number back.
    fn reap(&mut self) -> std::io::Result<ExitStatus> {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        self.ended = true;
        self.child.wait()
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}

/// The pause between two looks at a process that is to end; never a guess at how long that takes.
#[allow(clippy::disallowed_methods)]
fn glance() {
    thread::sleep(GLANCE);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn start(command: &str, folder: &Path) -> (Build, std::sync::mpsc::Receiver<Event>) {
        let (events, inbox) = channel();
        (Build::start(command, folder, 7, &events).unwrap(), inbox)
    }

    fn is_alive(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
    }

    /// The number of the process that a build wrote to a file.
    fn pid_in(file: &Path) -> String {
        loop {
            match std::fs::read_to_string(file) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => glance(),
            }
        }
    }

    #[test]
    fn its_end_is_told_with_its_round_and_its_code() {
        let dir = tempfile::tempdir().unwrap();
        let (build, inbox) = start("exit 3", dir.path());
        assert!(matches!(inbox.recv().unwrap(), Event::Built(7)));
        assert_eq!(build.collect().unwrap_err().to_string(), "the build failed with code 3");
        let (build, inbox) = start("kill -9 $$", dir.path());
        inbox.recv().unwrap();
        assert_eq!(build.collect().unwrap_err().to_string(), "the build was ended by signal 9");
    }

    #[test]
    fn a_build_that_ends_leaves_nothing_running() {
        let dir = tempfile::tempdir().unwrap();
        let (build, inbox) = start("sleep 600 & echo $! > pid", dir.path());
        inbox.recv().unwrap();
        let pid = pid_in(&dir.path().join("pid"));
        assert!(is_alive(&pid));
        build.collect().unwrap();
        while is_alive(&pid) {
            glance();
        }
    }

    #[test]
    fn a_build_that_does_not_want_to_end_is_killed_with_all_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let (build, _inbox) = start("trap '' TERM; sleep 600 & echo $! > pid; wait; sleep 600", dir.path());
        let pid = pid_in(&dir.path().join("pid"));
        build.stop();
        while is_alive(&pid) {
            glance();
        }
    }
}
