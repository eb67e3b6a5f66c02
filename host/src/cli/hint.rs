//! What to do next after an error, for the person who met it.
//!
//! Deliberately absent: what was wrong; that is the error's.

use std::io;
use std::path::Path;

use wasmq_core::invocation::MAX_PAYLOAD_BYTES;

use super::candidates::listed;
use super::context::shell_word;
use super::error::CliError;
use super::output::time;
use crate::config::ConfigError;
use crate::config::units::write_size;
use crate::dev::DevError;
use crate::queue::{QueueError, StoreKind, Unresolved};
use crate::scaffold::ScaffoldError;

/// What to do next, where there is something to do.
pub(super) fn hint(error: &CliError) -> Option<String> {
    match error {
        CliError::Queue(error) => queue_hint(error),
        CliError::Ambiguous { candidates, total, .. } => {
            Some(format!("give more of it; these begin like that:\n{}", listed(candidates, *total)))
        }
        CliError::MistypedOption { close, .. } => {
            Some(format!("did you mean {close}? If it is the payload, give it through stdin, with -"))
        }
        CliError::Batch { source, .. } => hint(source),
        CliError::Config(ConfigError::Unknown { close, .. }) if !close.is_empty() => Some(did_you_mean(close)),
        CliError::Config(ConfigError::Unknown { .. }) => Some("`wasmq config` lists all settings".to_owned()),
        CliError::PayloadTooLarge { found, limit, .. } => Some(payload_hint(*found, *limit)),
        CliError::ComponentTooLarge { .. } => Some("strip debug information, or leave data out of it".to_owned()),
        CliError::File { doing, path, source } => file_hint(doing, path, source),
        CliError::NotConfirmed(_) => Some("add --yes".to_owned()),
        CliError::Dev(error) => dev_hint(error),
        CliError::Scaffold(error) => scaffold_hint(error),
        _ => None,
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

/// What to do after an error about a new task or the WIT package.
fn scaffold_hint(error: &ScaffoldError) -> Option<String> {
    match error {
        ScaffoldError::NoLanguage => Some("`wasmq new --list` says what each of them needs".to_owned()),
        ScaffoldError::NotAName(path) => {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            Some(format!("say `{} --dir {}` in its place", shell_word(&name), shell_word(path)))
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
        QueueError::IsDead(id) => format!("`wasmq dlq delete {id}` gives it up for good"),
        other => return place_hint(other),
    })
}

/// What to do after an error of a server, or of the place where everything is kept.
fn place_hint(error: &QueueError) -> Option<String> {
    Some(match error {
        QueueError::InMemory => "`wasmq status` counts them".to_owned(),
        QueueError::OtherUser { run_dir } => format!(
            "run this as that user; when no server runs, remove what is left of it in {}",
            run_dir.display()
        ),
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
        QueueError::Directory { path, source } if source.kind() == io::ErrorKind::NotADirectory => {
            format!("{} is in the way; move it, or name a directory with --data", path.display())
        }
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

/// What to do about a file that cannot be used.
fn file_hint(doing: &str, path: &Path, error: &io::Error) -> Option<String> {
    let is_payload = doing.ends_with("payload");
    Some(match error.kind() {
        io::ErrorKind::NotFound if doing.starts_with("read") => {
            let place = if path.is_absolute() { "" } else { "; it is relative to the current directory" };
            let other = ". A payload that itself begins with @ is given through stdin, with -";
            format!("check the path{place}{}", if is_payload { other } else { "" })
        }
        io::ErrorKind::NotADirectory => "name a directory, or a path that leads through directories only".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_fits_what_was_done() {
        let file =
            |doing, kind: io::ErrorKind| hint(&CliError::from_file(doing, Path::new("a/b"))(kind.into())).unwrap();
        assert!(
            file("read the payload", io::ErrorKind::NotFound).contains("relative to the current directory. A payload")
        );
        assert!(file("read the batch", io::ErrorKind::NotFound).ends_with("relative to the current directory"));
        assert!(file("write into", io::ErrorKind::NotADirectory).starts_with("name a directory"));
        let data = |kind: io::ErrorKind| {
            let error = QueueError::Directory { path: "q".into(), source: kind.into() };
            hint(&error.into()).unwrap()
        };
        assert!(data(io::ErrorKind::NotADirectory).starts_with("q is in the way"));
        assert!(data(io::ErrorKind::PermissionDenied).starts_with("check that q can be written"));
        let name = ScaffoldError::NotAName("../a b".to_owned());
        assert_eq!(scaffold_hint(&name).unwrap(), "say `'a b' --dir '../a b'` in its place");
    }

    #[test]
    fn close_names_read_as_a_sentence() {
        assert_eq!(did_you_mean(&["a"]), "did you mean a?");
        assert_eq!(did_you_mean(&["a", "b", "c"]), "did you mean a, b or c?");
    }
}
