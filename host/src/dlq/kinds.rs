//! The combinations of task, verdict, fingerprint and component, each kept once: a million entries
//! of three kinds remember three of them.
//!
//! Deliberately absent: counting; the queries do that.

use std::collections::HashMap;

use wasmq_core::{Digest, TaskName, Verdict};

use super::head::Head;
use super::types::{DamageReason, Filter};

/// The number of a kind.
pub(super) type KindId = u32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) task: TaskName,
    pub(super) verdict: Verdict,
    pub(super) fingerprint: Box<str>,
    pub(super) component: Digest,
}

impl Kind {
    fn matches(&self, filter: &Filter) -> bool {
        let verdict = |wanted: &str| self.verdict.family() == wanted || self.verdict.to_string() == wanted;
        filter.task.as_ref().is_none_or(|task| *task == self.task)
            && filter.verdict.as_deref().is_none_or(verdict)
            && filter.fingerprint.as_deref().is_none_or(|wanted| *wanted == *self.fingerprint)
    }
}

#[derive(Debug, Default)]
pub(super) struct Kinds {
    list: Vec<Kind>,
    by_text: HashMap<Box<str>, KindId>,
    /// Used again for every look-up.
    text: String,
}

impl Kinds {
    /// The number of the kind of an entry.
    pub(super) fn number(&mut self, head: &Head<'_>) -> Result<KindId, DamageReason> {
        self.text.clear();
        for part in [&head.task, &head.verdict, &head.component, &head.fingerprint] {
            self.text.push_str(part);
            self.text.push('\0');
        }
        if let Some(&number) = self.by_text.get(self.text.as_str()) {
            return Ok(number);
        }
        let wrong = |_| DamageReason::Content;
        let kind = Kind {
            task: head.task.parse().map_err(|_| DamageReason::Content)?,
            verdict: head.verdict.parse().map_err(|_| DamageReason::Content)?,
            fingerprint: head.fingerprint.as_ref().into(),
            component: head.component.parse().map_err(|_| DamageReason::Content)?,
        };
        let number = KindId::try_from(self.list.len()).map_err(wrong)?;
        self.list.push(kind);
        self.by_text.insert(self.text.as_str().into(), number);
        Ok(number)
    }

    pub(super) fn get(&self, number: KindId) -> Option<&Kind> {
        self.list.get(number as usize)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// For every kind, whether the filter lets it through.
    pub(super) fn matching(&self, filter: &Filter) -> Vec<bool> {
        self.list.iter().map(|kind| kind.matches(filter)).collect()
    }
}
