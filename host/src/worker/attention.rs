//! Who calls whom between the keeper's thread, which commits, and the executor, which leaves something to
//! commit while that thread sleeps.
//!
//! Invariant: what was left is committed although nothing else happens, either because the thread was called
//! after it or because it sleeps no longer than a change may wait. `tests/models` checks it in every order of
//! steps.

/// Changed only under the keeper's lock.
#[derive(Debug, Default)]
pub(crate) struct Attention {
    /// The keeper's thread sleeps no longer than a change may wait.
    watches: bool,
    /// It has been called and has not heard it yet.
    called: bool,
}

impl Attention {
    /// The thread is about to sleep, as briefly as a change may wait if there is one.
    pub(crate) const fn sleeps(&mut self, is_dirty: bool) {
        self.watches = is_dirty;
    }

    /// Whether to call the thread now: there is a reason that cannot wait, or a change that it does not watch.
    pub(crate) const fn must_call(&mut self, is_urgent: bool, is_dirty: bool) -> bool {
        let must = (is_urgent || (is_dirty && !self.watches)) && !self.called;
        self.called |= must;
        must
    }

    /// The thread has heard the call.
    pub(crate) const fn heard(&mut self) {
        self.called = false;
    }
}
