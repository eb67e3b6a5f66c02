//! Which dead tasks a command is about: ids, a task, a group, or all.
//!
//! Invariant: an empty choice is a usage error and never means everything.

use wasmq_core::{InvocationId, TaskName};

use crate::cli::candidates::explained;
use crate::cli::error::CliError;
use crate::cli::several::Several;
use crate::cli::values::{self, IdArg};
use crate::queue::{DeadTasks, Queue, QueueError, Selection};

/// Said of a choice that has nothing in it.
pub const NOTHING_MEANT: &str = "no dead task is meant; nothing was done";

/// Which dead tasks.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "which", required = true, multiple = false)]
pub struct SelectArgs {
    /// The ids, or at least their first 8 characters.
    #[arg(value_name = "ID", group = "which")]
    pub ids: Vec<IdArg>,
    /// All dead tasks of a task.
    #[arg(long, value_name = "NAME", group = "which")]
    pub task: Option<TaskName>,
    /// All dead tasks of a group, as `wasmq dlq groups` shows it.
    #[arg(long, value_name = "FINGERPRINT", value_parser = values::group, group = "which")]
    pub group: Option<String>,
    /// All dead tasks.
    #[arg(long, group = "which")]
    pub all: bool,
}

impl SelectArgs {
    /// The selection in the queue's words. Ids that cannot be found are noted in `several`.
    ///
    /// # Errors
    /// When the dead letter queue cannot be read.
    pub fn resolve(&self, queue: &Queue, several: &mut Several) -> Result<Selection, CliError> {
        if let Some(selection) = several_at_once(self.task.as_ref(), self.group.as_deref(), self.all) {
            refuse_unknown(&selection, queue)?;
            return Ok(selection);
        }
        let dead = queue.dead_tasks();
        let mut ids: Vec<InvocationId> = Vec::new();
        for text in &self.ids {
            match find(&dead, text) {
                Ok(id) if ids.contains(&id) => {}
                Ok(id) => ids.push(id),
                Err(error) if is_about_the_id(&error) => several.refused(text.to_string(), explained(error, queue)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Selection::Ids(ids))
    }
}

/// What is chosen by something that dead tasks have in common.
pub fn several_at_once(task: Option<&TaskName>, group: Option<&str>, all: bool) -> Option<Selection> {
    let by_task = task.map(|task| Selection::Task(task.clone()));
    let by_group = group.map(|group| Selection::Group(group.to_owned()));
    by_task.or(by_group).or_else(|| all.then_some(Selection::All))
}

/// Refuses a task or group that does not exist: a slip of the pen is no success. A task without dead tasks is.
///
/// # Errors
/// When there is no such task or group, or the store cannot be read.
pub fn refuse_unknown(selection: &Selection, queue: &Queue) -> Result<(), QueueError> {
    match selection {
        Selection::Ids(_) | Selection::All => Ok(()),
        _ if queue.dead_tasks().count(selection)? > 0 => Ok(()),
        Selection::Task(task) => queue.task(task).map(|_| ()),
        Selection::Group(group) => Err(QueueError::UnknownGroup(group.clone())),
    }
}

fn find(dead: &DeadTasks, text: &IdArg) -> Result<InvocationId, QueueError> {
    match text {
        IdArg::Whole(id) => Ok(*id),
        IdArg::Prefix(prefix) => dead.find(prefix),
    }
}

const fn is_about_the_id(error: &QueueError) -> bool {
    matches!(error, QueueError::UnknownId(_) | QueueError::AmbiguousId { .. } | QueueError::NotAnId(_))
}
