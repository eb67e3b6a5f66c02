//! Errors of the command line: what a person reads, the hint, and the exit code, all in this file.
//!
//! Invariants: every error has a stable code word, a message with all its causes, an exit code, and
//! a hint where there is something to do; the library's errors know nothing of words for a terminal.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use wasmq_core::invocation::MAX_PAYLOAD_BYTES;
use wasmq_core::name::NameError;
use wasmq_core::settings::SettingsError;

use super::candidates::{Candidate, listed};
use super::context::shell_word;
use super::exit::Exit;
use super::output::json;
use super::output::paint::{Paint, Tone};
use super::output::safe::{safe, safe_block};
use super::output::time;
use crate::config::ConfigError;
use crate::config::units::write_size;
use crate::dev::DevError;
use crate::dlq::DlqError;
use crate::queue::{QueueError, StoreKind, Unresolved};
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
        Description { code, exit, message: with_causes(self), hint: self.hint() }
    }

    /// What to do next, where there is something to do.
    fn hint(&self) -> Option<String> {
        match self {
            Self::Queue(error) => queue_hint(error),
            Self::Ambiguous { candidates, total, .. } => {
                Some(format!("give more of it; these begin like that:\n{}", listed(candidates, *total)))
            }
            Self::MistypedOption { close, .. } => {
                Some(format!("did you mean {close}? If it is the payload, give it through stdin, with -"))
            }
            Self::Batch { source, .. } => source.hint(),
            Self::Config(ConfigError::Unknown { close, .. }) if !close.is_empty() => Some(did_you_mean(close)),
            Self::Config(ConfigError::Unknown { .. }) => Some("`wasmq config` lists all settings".to_owned()),
            Self::PayloadTooLarge { found, limit, .. } => Some(payload_hint(*found, *limit)),
            Self::ComponentTooLarge { .. } => Some("strip debug information, or leave data out of it".to_owned()),
            Self::File { doing, path, source } => file_hint(doing, path, source),
            Self::NotConfirmed(_) => Some("add --yes".to_owned()),
            Self::Dev(error) => dev_hint(error),
            Self::Scaffold(error) => scaffold_hint(error),
            _ => None,
        }
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

/// What to do after an error around a task that is being developed.
fn dev_hint(error: &DevError) -> Option<String> {
    Some(match error {
        DevError::NoProject { .. } => {
            "it says how the task is built; name the folder that has it, or make one with `wasmq new`".to_owned()
        }
        DevError::Project { close, .. } if !close.is_empty() => did_you_mean(close),
        DevError::Watch { .. } => "`watch` in task.toml names what to watch".to_owned(),
        DevError::TooManyFiles { .. } => "name what to watch in task.toml, such as watch = [\"src\"]".to_owned(),
        DevError::NoComponent { .. } => "`component` in task.toml names what the build makes".to_owned(),
        DevError::ComponentNoFile { .. } => {
            "`component` in task.toml must name the .wasm file itself that the build makes".to_owned()
        }
        DevError::Payload { source, .. } if source.kind() == io::ErrorKind::IsADirectory => {
            "it is a folder; `payload` in task.toml must name a file".to_owned()
        }
        DevError::Payload { .. } => "`payload` in task.toml must name a file that can be read".to_owned(),
        DevError::NotAFolder { path } => folder_hint(path),
        DevError::Stdin => "give it as @FILE".to_owned(),
        _ => return None,
    })
}

/// What may have been meant by a file in the place of a folder.
fn folder_hint(path: &Path) -> String {
    if path.ends_with("task.toml") {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        return format!("say `wasmq dev {}`", shell_word(&parent.to_string_lossy()));
    }
    let run = format!("`wasmq run {}` runs a component once", shell_word(&path.to_string_lossy()));
    let new = "`wasmq new NAME` makes a folder with a new task";
    if path.extension().is_some_and(|extension| extension == "wasm") { format!("{run}; {new}") } else { new.to_owned() }
}

/// The code word and exit code of an error of the queue.
const fn queue_code(error: &QueueError) -> (&'static str, Exit) {
    match error {
        QueueError::Unresolved(error) => unresolved_code(error),
        QueueError::UnknownId(_) => ("unknown-id", Exit::NotFound),
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
        QueueError::NothingKept => ("nothing-kept", Exit::Unavailable),
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

/// What to do after it.
fn scaffold_hint(error: &ScaffoldError) -> Option<String> {
    match error {
        ScaffoldError::NoLanguage => Some("`wasmq new --list` says what each of them needs".to_owned()),
        ScaffoldError::NotAName(path) => {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            Some(format!("say `wasmq new {} --dir {}`", shell_word(&name), shell_word(path)))
        }
        ScaffoldError::Occupied(_) => Some("choose another name, or another folder with --dir".to_owned()),
        ScaffoldError::Differs(_) => Some("replace with --force, or name another directory".to_owned()),
        ScaffoldError::File { doing, path, source } => file_hint(doing, path, source),
    }
}

/// What to do after an error of the queue.
fn queue_hint(error: &QueueError) -> Option<String> {
    Some(match error {
        QueueError::Unresolved(Unresolved::NoTask { .. }) => "`wasmq task list` shows what is deployed".to_owned(),
        QueueError::Unresolved(Unresolved::NoCurrent { task, .. }) => {
            format!("make one current with `wasmq task activate {task} VERSION`")
        }
        QueueError::UnknownId(_) => {
            "what is done is not kept; `wasmq list` and `wasmq dlq list` show what is".to_owned()
        }
        QueueError::UnknownGroup(_) => {
            "what was retried or deleted is in none; `wasmq dlq groups` shows those there are".to_owned()
        }
        QueueError::AmbiguousId { ids, total, .. } => {
            let shown: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let more = if *total > ids.len() { "\n…" } else { "" };
            format!("give more of it:\n{}{more}", shown.join("\n"))
        }
        QueueError::UnknownComponent { close, .. } if !close.is_empty() => did_you_mean(close),
        QueueError::UnknownComponent { .. } => "`wasmq task show TASK` shows the components of a task".to_owned(),
        QueueError::AmbiguousComponent { components, .. } => {
            let shown: Vec<String> = components.iter().map(ToString::to_string).collect();
            format!("give more digits:\n{}", shown.join("\n"))
        }
        QueueError::NoSymbols(_) => "`wasmq symbols list` shows what there is".to_owned(),
        QueueError::AlreadyRetried { id, at, .. } => {
            format!("that was at {}; `wasmq show {id}` says where it stands", time::local(*at))
        }
        QueueError::AlreadyDeleted { at, .. } => format!("that was at {}", time::local(*at)),
        QueueError::StillLive(id) => format!("`wasmq show {id}` says where it stands, `wasmq cancel {id}` ends it"),
        QueueError::PayloadTooLarge { found, limit } => payload_hint(Some(*found), *limit),
        QueueError::NothingKept => "choose the store dir to keep dead tasks".to_owned(),
        QueueError::NoServer { store: StoreKind::None, .. } => "start one with `wasmq serve --store none`".to_owned(),
        QueueError::NoServer { .. } => "start one with `wasmq serve`".to_owned(),
        QueueError::Left { id, .. } => format!("`wasmq show {id}` says where it stands"),
        QueueError::Interrupted { id } => format!("`wasmq show {id}` says where it stands, `wasmq cancel {id}` ends it"),
        QueueError::NoAnswer { .. } => {
            "`wasmq status` says which worker is silent, `wasmq list` what is enqueued".to_owned()
        }
        QueueError::OtherStore { running, .. } => {
            format!("say `--store {}` too, or choose another data directory with --data", running.word())
        }
        QueueError::IsDead(id) => format!("`wasmq dlq delete {id}` gives it up for good"),
        QueueError::Directory { path, .. } => {
            format!("check that {} can be written, or name another one with --data", path.display())
        }
        QueueError::NetworkDisk { .. } => {
            "name a directory on a local disk with --data; `network_disk = \"allow\"` or WASMQ_NETWORK_DISK=allow takes the risk"
                .to_owned()
        }
        QueueError::NoSpace(_) => "free some space and try again; nothing acknowledged is lost".to_owned(),
        _ => return None,
    })
}

/// What to do about a payload that is too large. The limit is not worth raising when it is the largest
/// there is, or the payload is over that too.
fn payload_hint(found: Option<u64>, limit: u64) -> String {
    let most = write_size(MAX_PAYLOAD_BYTES);
    if limit >= MAX_PAYLOAD_BYTES || found.is_some_and(|found| found > MAX_PAYLOAD_BYTES) {
        return format!(
            "no payload may have more than {most}; split it, or keep the data elsewhere and enqueue its address"
        );
    }
    format!(
        "raise the limit with --payload-limit, WASMQ_PAYLOAD_LIMIT or payload_limit in wasmq.toml; the maximum is {most}"
    )
}

/// "1048576 bytes (1 MiB)".
fn in_bytes(amount: u64) -> String {
    let exact = time::count(amount, "byte", "bytes");
    if amount < 1024 { exact } else { format!("{exact} ({})", time::bytes(amount)) }
}

/// What to do about a file that cannot be used.
fn file_hint(doing: &str, path: &Path, error: &io::Error) -> Option<String> {
    let is_payload = doing.ends_with("payload");
    Some(match error.kind() {
        io::ErrorKind::NotFound if is_payload => {
            let place = if path.is_absolute() { "" } else { "; it is relative to the current directory" };
            format!("check the path{place}. A payload that itself begins with @ is given through stdin, with -")
        }
        io::ErrorKind::NotFound if doing.starts_with("read") => "check the path".to_owned(),
        io::ErrorKind::IsADirectory => "name a file in it".to_owned(),
        io::ErrorKind::InvalidInput if is_payload => {
            "write @FILE, or give a payload that is only an @ through stdin, with -".to_owned()
        }
        io::ErrorKind::PermissionDenied => format!("check who may access {}", path.display()),
        _ => return None,
    })
}

/// "did you mean a, b or c?"
#[must_use]
pub fn did_you_mean<T: AsRef<str>>(close: &[T]) -> String {
    let names: Vec<&str> = close.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, [])) => format!("did you mean {last}?"),
        Some((last, rest)) => format!("did you mean {} or {last}?", rest.join(", ")),
        None => String::new(),
    }
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

    #[test]
    fn close_names_read_as_a_sentence() {
        assert_eq!(did_you_mean(&["a"]), "did you mean a?");
        assert_eq!(did_you_mean(&["a", "b", "c"]), "did you mean a, b or c?");
    }
}
