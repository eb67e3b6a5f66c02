//! What needs rights or tools that not every machine has: file systems of one's own, another user,
//! system calls that fail on order. Where one is missing, the test that needs it says so and passes.
#![allow(clippy::print_stderr)]

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::world::World;

/// The user that no file here belongs to: "nobody".
pub const STRANGER: &str = "65534";

/// Says why something was not tested. Not with `eprintln!`, which the harness keeps to itself when a test passes.
pub fn skipped(what: &str, why: &dyn std::fmt::Debug) {
    std::io::stderr().write_all(format!("skipped: {what}: {why:?}\n").as_bytes()).unwrap();
}

/// A file system that is mounted until this is dropped.
pub struct Mount(PathBuf);

impl Mount {
    /// `None`, and a word about it, where that is not permitted. `arguments` are those of mount(8) but for
    /// the place.
    pub fn new(arguments: &[&str], at: &Path) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        match Command::new("mount").args(arguments).arg(at).output() {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            other => {
                skipped("a file system cannot be mounted here", &other);
                None
            }
        }
    }

    /// A small file system in memory.
    pub fn memory(bytes: u64, at: &Path) -> Option<Self> {
        Self::new(&["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"], at)
    }

    /// What lies at `source`, for reading alone.
    pub fn read_only(source: &Path, at: &Path) -> Option<Self> {
        let mounted = Self::new(&["--bind", source.to_str().unwrap()], at)?;
        let changed = Command::new("mount").args(["-o", "remount,ro,bind"]).arg(at).output();
        match changed {
            Ok(output) if output.status.success() => Some(mounted),
            other => {
                skipped("nothing can be mounted for reading alone here", &other);
                None
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily, because a server that a failed test left may still hold files.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A command that runs `command` as it is set up, behind other words.
fn behind(program: &str, words: &[&str], command: &Command) -> Command {
    let mut outer = Command::new(program);
    outer.args(words).arg("--").arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    if let Some(dir) = command.get_current_dir() {
        outer.current_dir(dir);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

fn works(probe: &mut Command, what: &str) -> bool {
    let output = probe.stdin(Stdio::null()).output();
    let works = output.as_ref().is_ok_and(|output| output.status.success());
    if !works {
        skipped(what, &output);
    }
    works
}

/// Whether commands can be run as a stranger; opens the world's own folder to them.
pub fn has_stranger(world: &World) -> bool {
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(world.path("."), open).unwrap();
    works(&mut as_stranger(&world.command(&["--version"])), "nothing can be run as another user here")
}

/// A command as another user.
pub fn as_stranger(command: &Command) -> Command {
    behind("setpriv", &["--reuid", STRANGER, "--regid", STRANGER, "--clear-groups"], command)
}

/// Whether system calls can be made to fail.
pub fn has_injection() -> bool {
    works(
        Command::new("strace").args(["-f", "-qq", "-e", "trace=none", "true"]),
        "nothing can be injected by strace here",
    )
}

/// A command some of whose system calls end as `what` says, in the words of strace(1): "fsync:error=EIO".
/// `trace` gets a line each of these calls; those that were made to fail have the word `INJECTED`.
pub fn injected(what: &str, trace: &Path, command: &Command) -> Command {
    let calls = what.split(':').next().unwrap();
    let (calls, inject) = (format!("trace={calls}"), format!("inject={what}"));
    behind("strace", &["-f", "-qq", "-o", trace.to_str().unwrap(), "-e", &calls, "-e", &inject], command)
}
