//! Errors of the command line: what a person reads, the hint, and the exit code, all in this file.
//!
//! Invariants: every error has a stable code word, a message with all its causes, an exit code, and
//! a hint where there is something to do; the library's errors know nothing of words for a terminal.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use wasmq_core::name::NameError;
use wasmq_core::settings::SettingsError;

use super::candidates::Candidate;
use super::exit::Exit;
use super::hint::hint;
use super::output::json;
use super::output::paint::{Paint, Tone};
use super::output::safe::{safe, safe_block};
use super::output::time;
use crate::config::ConfigError;
use crate::dev::DevError;
use crate::dlq::DlqError;
use crate::queue::{QueueError, Unresolved};
use crate::registry::RegistryError;
use crate::scaffold::ScaffoldError;
use crate::supervisor::ServeError;
use crate::worker::WorkerError;

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The reader of stdout went away. Not an error for anybody.
    #[error("the reader of stdout went away")]
    ReaderGone,
    /// Stdout cannot be written.
    #[error("failed to write to stdout")]
    Stdout(#[source] io::Error),
    /// The queue refused or failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// More than one invocation begins like that.
    #[error("\"{prefix}\" is the beginning of {total} ids")]
    Ambiguous {
        /// What was asked for.
        prefix: String,
        /// Some of those it may mean.
        candidates: Vec<Candidate>,
        /// How many there are.
        total: usize,
    },
    /// The settings are wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Not the name of a task.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A setting of a task version is outside its range.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file that the user named.
    #[error("failed to {doing} {}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A payload over the limit.
    #[error("{name} has {}, but the limit of a payload is {}", found.map_or_else(|| "more".to_owned(), in_bytes), in_bytes(*limit))]
    PayloadTooLarge {
        /// Where it comes from.
        name: String,
        /// Its size, where it is known.
        found: Option<u64>,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A component over the limit.
    #[error("{} has {}, but the limit of a component is {}", path.display(), in_bytes(*found), in_bytes(*limit))]
    ComponentTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size, in bytes.
        found: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A payload that is a slip for an option.
    #[error("there is no option {text}")]
    MistypedOption {
        /// As it was typed.
        text: String,
        /// What may have been meant.
        close: String,
    },
    /// A batch that failed in the middle.
    #[error("enqueued and safe: {enqueued} of the lines; then it failed")]
    Batch {
        /// How many lines were enqueued.
        enqueued: u64,
        /// Why not more.
        source: Box<CliError>,
    },
    /// The server could not start.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The worker process could not start, or had to stop.
    #[error("the worker stopped")]
    Worker(#[source] WorkerError),
    /// Something that needs a confirmation was not confirmed.
    #[error("{0}")]
    NotConfirmed(String),
    /// A round of `wasmq dev` could not be gone through.
    #[error(transparent)]
    Dev(#[from] DevError),
    /// No new task, or no WIT package, was written.
    #[error(transparent)]
    Scaffold(#[from] ScaffoldError),
    /// A step of the demonstration did not show what it should.
    #[error("{0}")]
    Demo(String),
}

impl CliError {
    /// From a failed write to stdout.
    pub fn from_stdout(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::ReaderGone } else { Self::Stdout(error) }
    }

    /// From a failed operation on a file that the user named.
    pub fn from_file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { doing, path: path.to_owned(), source }
    }

    /// What people and programs are told.
    #[must_use]
    pub fn describe(&self) -> Description {
        let (code, exit) = match self {
            Self::ReaderGone => ("reader-gone", Exit::Ok),
            Self::Stdout(_) => ("stdout", Exit::Stdout),
            Self::Queue(error) => queue_code(error),
            Self::Ambiguous { .. } => ("ambiguous-id", Exit::Ambiguous),
            Self::Config(_) => ("configuration", Exit::Usage),
            Self::Name(_) => ("name", Exit::Usage),
            Self::Settings(_) => ("settings", Exit::Usage),
            Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound => ("file-not-found", Exit::Usage),
            Self::File { source, .. }
                if matches!(source.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory) =>
            {
                ("file", Exit::Usage)
            }
            Self::File { .. } => ("file", Exit::Failure),
            Self::PayloadTooLarge { .. } => ("payload-too-large", Exit::Usage),
            Self::ComponentTooLarge { .. } => ("component-too-large", Exit::Refused),
            Self::MistypedOption { .. } => ("usage", Exit::Usage),
            Self::Batch { .. } => ("batch", Exit::Partly),
            Self::Serve(ServeError::Listen { source, .. }) if source.kind() != io::ErrorKind::AlreadyExists => {
                ("serve", Exit::Store)
            }
            Self::Serve(_) => ("serve", Exit::Failure),
            Self::Worker(_) => ("worker", Exit::Failure),
            Self::NotConfirmed(_) => ("not-confirmed", Exit::Usage),
            Self::Dev(error) => dev_code(error),
            Self::Scaffold(error) => scaffold_code(error),
            Self::Demo(_) => ("demo", Exit::Failure),
        };
        Description { code, exit, message: with_causes(self), hint: hint(self) }
    }
}

/// The code word and exit code of an error around a task that is being developed.
const fn dev_code(error: &DevError) -> (&'static str, Exit) {
    match error {
        DevError::NoProject { .. } | DevError::Read { .. } | DevError::Project { .. } => ("project", Exit::Usage),
        DevError::Watch { .. } | DevError::TooManyFiles { .. } => ("watch", Exit::Usage),
        DevError::Gone { .. } => ("gone", Exit::Failure),
        DevError::Stdin | DevError::NotAFolder { .. } => ("usage", Exit::Usage),
        DevError::Start { .. } | DevError::Build { .. } => ("build", Exit::Failure),
        DevError::NoComponent { .. } | DevError::ComponentNoFile { .. } => ("no-component", Exit::Failure),
        DevError::Payload { .. } => ("payload", Exit::Usage),
        DevError::System { .. } => ("dev", Exit::Failure),
        DevError::Interrupted => ("interrupted", Exit::Failure),
    }
}

/// The code word and exit code of an error of the queue.
const fn queue_code(error: &QueueError) -> (&'static str, Exit) {
    match error {
        QueueError::Unresolved(error) => unresolved_code(error),
        QueueError::UnknownId(_) => ("unknown-id", Exit::NotFound),
        QueueError::OtherUser { .. } => ("other-user", Exit::Store),
        QueueError::UnknownGroup(_) => ("unknown-group", Exit::NotFound),
        QueueError::AmbiguousId { .. } => ("ambiguous-id", Exit::Ambiguous),
        QueueError::AlreadyRetried { .. } => ("already-retried", Exit::Conflict),
        QueueError::AlreadyDeleted { .. } => ("already-deleted", Exit::Conflict),
        QueueError::StillLive(_) => ("still-live", Exit::Conflict),
        QueueError::Refused(_) => ("component-refused", Exit::Refused),
        QueueError::Prepare(_) => ("component-unusable", Exit::Refused),
        QueueError::UnknownComponent { .. } => ("unknown-component", Exit::NotFound),
        QueueError::AmbiguousComponent { .. } => ("ambiguous-component", Exit::Ambiguous),
        QueueError::SymbolsRefused(_) => ("symbols-refused", Exit::Refused),
        QueueError::NoSymbols(_) => ("no-symbols", Exit::NotFound),
        QueueError::NotAnId(_) => ("not-an-id", Exit::Usage),
        QueueError::Settings(_) => ("settings", Exit::Usage),
        QueueError::Metadata(_) => ("metadata", Exit::Usage),
        QueueError::PayloadTooLarge { .. } => ("payload-too-large", Exit::Usage),
        QueueError::NothingKept | QueueError::InMemory => ("nothing-kept", Exit::Unavailable),
        QueueError::NoServer { .. } => ("no-server", Exit::Unavailable),
        QueueError::Unavailable(_) => ("unavailable", Exit::Unavailable),
        QueueError::IsDead(_) => ("is-dead", Exit::Conflict),
        QueueError::Server(_) => ("server", Exit::Failure),
        QueueError::Connection(_) => ("connection", Exit::Failure),
        QueueError::Left { .. } => ("left", Exit::Failure),
        QueueError::Interrupted { .. } => ("interrupted", Exit::Failure),
        QueueError::NoAnswer { .. } => ("no-answer", Exit::Unavailable),
        QueueError::OtherStore { .. } => ("other-store", Exit::Unavailable),
        QueueError::Worker(_) => ("worker", Exit::Failure),
        QueueError::NoSpace(_) => ("no-space", Exit::Store),
        QueueError::Directory { .. } => ("data-directory", Exit::Store),
        QueueError::NetworkDisk { .. } => ("network-disk", Exit::Store),
        QueueError::Journal(_) => ("journal", Exit::Store),
        QueueError::Dlq(DlqError::NoSpace { .. }) | QueueError::Registry(RegistryError::NoSpace { .. }) => {
            ("no-space", Exit::Store)
        }
        QueueError::Dlq(_) => ("dead-letter-queue", Exit::Store),
        QueueError::Registry(_) => ("registry", Exit::Store),
    }
}

/// The code word and exit code of a choice of task and version that leads to nothing.
const fn unresolved_code(error: &Unresolved) -> (&'static str, Exit) {
    match error {
        Unresolved::NoTask { .. } => ("unknown-task", Exit::NotFound),
        Unresolved::SeveralDigests { .. } => ("ambiguous-version", Exit::Ambiguous),
        Unresolved::NotAChoice { .. } => ("not-a-version", Exit::Usage),
        Unresolved::NoVersion { .. }
        | Unresolved::NoCurrent { .. }
        | Unresolved::NoDigest { .. }
        | Unresolved::NoLabel { .. } => ("unknown-version", Exit::NotFound),
    }
}

/// The code word and exit code of an error about a new task or the WIT package.
fn scaffold_code(error: &ScaffoldError) -> (&'static str, Exit) {
    match error {
        ScaffoldError::NoLanguage => ("no-language", Exit::Usage),
        ScaffoldError::NotAName(_) => ("name", Exit::Usage),
        ScaffoldError::Occupied(_) => ("not-empty", Exit::Conflict),
        ScaffoldError::Differs(_) => ("differs", Exit::Conflict),
        ScaffoldError::File { .. } => ("file", Exit::Failure),
    }
}

/// "1048576 bytes (1 MiB)".
fn in_bytes(amount: u64) -> String {
    let exact = time::count(amount, "byte", "bytes");
    if amount < 1024 { exact } else { format!("{exact} ({})", time::bytes(amount)) }
}

/// The message with all its causes, each once.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}

/// An error as people and programs are told about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// A stable word for programs.
    pub code: &'static str,
    /// What was wrong and where.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// How the command ends.
    pub exit: Exit,
}

impl Description {
    /// The lines for a person.
    #[must_use]
    pub fn to_text(&self, paint: Paint) -> String {
        let mut text = format!("{} {}", paint.apply(Tone::Bad, "error:"), safe_block(&self.message));
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\n{} {}", paint.apply(Tone::Command, " hint:"), safe_block(hint)));
        }
        text
    }

    /// The line for a program: `{"error":{"code":…,"message":…,"hint":…}}`, and the id it is about
    /// where there are several.
    #[must_use]
    pub fn to_json(&self, id: Option<&str>) -> String {
        let Self { code, message, hint, .. } = self;
        let mut value = json!({ "error": { "code": code, "message": message, "hint": hint } });
        if let (Some(id), Some(fields)) = (id, value.as_object_mut()) {
            fields.insert("id".to_owned(), id.into());
        }
        json::line(&value).unwrap_or_else(|_| safe(message).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_where_and_why_and_never_obeys_its_content() {
        let error = CliError::from_file("read", Path::new("a\u{1b}[2J"))(io::ErrorKind::PermissionDenied.into());
        let text = error.describe().to_text(Paint::off());
        assert_eq!(
            text,
            "error: failed to read a\\u{1b}[2J: permission denied\n hint: check who may access a\\u{1b}[2J"
        );
    }

    #[test]
    fn programs_get_code_message_and_hint() {
        let error = CliError::PayloadTooLarge { name: "stdin".into(), found: None, limit: 5 };
        assert_eq!(
            error.describe().to_json(None),
            r#"{"error":{"code":"payload-too-large","hint":"raise the limit with --payload-limit, WASMQ_PAYLOAD_LIMIT or payload_limit in wasmq.toml; the maximum is 64MiB","message":"stdin has more, but the limit of a payload is 5 bytes"}}"#
        );
    }

    #[test]
    fn a_limit_that_cannot_be_raised_any_more_is_not_to_be_raised() {
        let told = |found, limit| {
            let error = CliError::PayloadTooLarge { name: "big".into(), found, limit };
            let Description { message, hint, .. } = error.describe();
            (message, hint.unwrap())
        };
        let (message, hint) = told(Some(2_000_000), 1 << 20);
        assert_eq!(message, "big has 2000000 bytes (1.9 MiB), but the limit of a payload is 1048576 bytes (1 MiB)");
        assert!(hint.starts_with("raise the limit") && hint.contains("maximum is 64MiB"), "{hint}");
        for (found, limit) in [(Some(70_000_000), 64 << 20), (None, 64 << 20), (Some(70_000_000), 1 << 20)] {
            let (_, hint) = told(found, limit);
            assert!(hint.contains("more than 64MiB") && !hint.contains("raise"), "{hint}");
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure_and_a_full_device_is() {
        assert_eq!(CliError::from_stdout(io::ErrorKind::BrokenPipe.into()).describe().exit, Exit::Ok);
        assert_eq!(CliError::from_stdout(io::ErrorKind::StorageFull.into()).describe().exit, Exit::Stdout);
    }
}
