//! What every command has at hand: the settings, the output, the queue.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::args::Global;
use super::error::CliError;
use super::output::Output;
use super::output::safe::safe;
use crate::config::{self, Config, FsyncMode, NetworkDiskMode, Source, StoreMode};
use crate::queue::{Fsync, NetworkDisk, Options, Queue, StoreKind};

/// The settings that the options of one command give, by name.
pub type Flags = Vec<(&'static str, OsString)>;

/// What every command has at hand.
#[derive(Debug)]
pub struct Context {
    /// The checked settings.
    pub config: Config,
    /// Stdout and stderr.
    pub out: Output,
    /// Opened once: what a queue has read it need not read again.
    queue: OnceCell<Queue>,
}

impl Context {
    /// Collects the settings. `flags` are those of the command itself.
    ///
    /// # Errors
    /// When a setting is wrong.
    pub fn new(global: &Global, flags: Flags) -> Result<Self, CliError> {
        let mut all = flags;
        let mut add = |name, value: Option<&OsStr>| all.extend(value.map(|value| (name, value.to_owned())));
        add("data", global.data.as_deref());
        add("store", global.store.as_deref().map(OsStr::new));
        add("color", global.color.as_deref().map(OsStr::new));
        add("log", verbosity(global.verbose).map(OsStr::new));
        let config = config::load(&all, |name| std::env::var_os(name), global.config.as_deref())?;
        Ok(Self { out: Output::new(config.color, global.json), config, queue: OnceCell::new() })
    }

    /// Opens the queue in the data directory.
    ///
    /// # Errors
    /// When the data directory cannot be used.
    pub fn queue(&self) -> Result<Queue, CliError> {
        if let Some(queue) = self.queue.get() {
            return Ok(queue.clone());
        }
        let queue = self.open_queue(self.config.data.clone(), true)?;
        Ok(self.queue.get_or_init(|| queue).clone())
    }

    /// The same for a command that goes on although its current directory is removed, so it has an absolute
    /// path; and signals are left to the command.
    ///
    /// # Errors
    /// When the data directory cannot be used.
    pub fn lasting_queue(&self) -> Result<Queue, CliError> {
        let data = &self.config.data;
        let absolute = std::path::absolute(data).map_err(CliError::from_file("find the data directory", data))?;
        let queue = self.open_queue(absolute, false)?;
        Ok(self.queue.get_or_init(|| queue).clone())
    }

    fn open_queue(&self, data_dir: PathBuf, on_signals: bool) -> Result<Queue, CliError> {
        Ok(Queue::open(Options {
            data_dir,
            store: self.store(),
            fsync: self.fsync(),
            payload_limit: self.config.payload_limit,
            network_disk: self.network_disk(),
            on_signals,
        })?)
    }

    /// Whoever looks for trouble in the wrong place must not take its emptiness for good news.
    ///
    /// # Errors
    /// When the data directory cannot be used.
    pub fn note_absence(&mut self) -> Result<(), CliError> {
        if self.store() == StoreKind::Dir && !self.queue()?.exists()? {
            self.say_absent();
        }
        Ok(())
    }

    /// Tells about a place that the data directory should not be in.
    ///
    /// # Errors
    /// When the data directory cannot be used.
    pub fn warn_of_place(&mut self) -> Result<(), CliError> {
        if let Some(warning) = self.queue()?.warning_of_place() {
            self.out.note(format_args!("warning: {}", safe(&warning)));
        }
        Ok(())
    }

    /// Whether a queue was opened.
    #[must_use]
    pub fn has_queue(&self) -> bool {
        self.queue.get().is_some()
    }

    /// What to do on a network file system, in the queue's words.
    const fn network_disk(&self) -> NetworkDisk {
        match self.config.network_disk {
            NetworkDiskMode::Refuse => NetworkDisk::Refuse,
            NetworkDiskMode::Allow => NetworkDisk::Allow,
        }
    }

    /// The same for who looks at a directory that a queue may refuse.
    pub fn note_no_directory(&mut self) {
        if self.queue().is_ok_and(|queue| queue.exists().is_ok_and(|exists| !exists)) {
            self.say_absent();
        }
    }

    fn say_absent(&mut self) {
        let place = safe(&self.config.data.to_string_lossy()).into_owned();
        self.out.note(format_args!("{place} does not exist; nothing was ever deployed or enqueued there"));
    }

    /// The store, in the queue's words.
    #[must_use]
    pub const fn store(&self) -> StoreKind {
        match self.config.store {
            StoreMode::Dir => StoreKind::Dir,
            StoreMode::None => StoreKind::None,
        }
    }

    /// The durability, in the queue's words.
    #[must_use]
    pub const fn fsync(&self) -> Fsync {
        match self.config.fsync {
            FsyncMode::Always => Fsync::Always,
            FsyncMode::Interval => Fsync::Interval,
            FsyncMode::Never => Fsync::Never,
        }
    }

    /// How the reader calls the program so that it means this data directory: `wasmq`, or `wasmq
    /// --data DIR` when a flag named it.
    #[must_use]
    pub fn program(&self) -> String {
        let named = self.config.origins.iter().any(|origin| origin.name == "data" && origin.source == Source::Flag);
        if named {
            format!("wasmq --data {}", shell_word(&self.config.data.to_string_lossy()))
        } else {
            "wasmq".to_owned()
        }
    }
}

const fn verbosity(times: u8) -> Option<&'static str> {
    match times {
        0 => None,
        1 => Some("debug"),
        _ => Some("trace"),
    }
}

/// A text as one word of a shell.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | ':' | '=' | '@' | '+' | ',');
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell_are_quoted_only_where_needed() {
        assert_eq!(shell_word("/tmp/a-b_1"), "/tmp/a-b_1");
        assert_eq!(shell_word("it's here"), "'it'\\''s here'");
        assert_eq!(shell_word(""), "''");
    }
}
