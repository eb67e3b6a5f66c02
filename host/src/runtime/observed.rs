//! What an attempt looked at that can differ between attempts: the evidence behind `deterministic`.
//!
//! Invariant: every import that can answer differently in another attempt marks its kind here
//! before it answers. What always answers the same for the same invocation (the insecure random
//! numbers, the arguments, the empty list of directories) leaves no mark.

/// One kind of observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Observation {
    WallClock,
    MonotonicClock,
    SecureRandom,
    Network,
    Files,
    Environment,
    AttemptNumber,
    Cancelled,
    HostMemory,
}

impl Observation {
    const ALL: [Self; 9] = [
        Self::WallClock,
        Self::MonotonicClock,
        Self::SecureRandom,
        Self::Network,
        Self::Files,
        Self::Environment,
        Self::AttemptNumber,
        Self::Cancelled,
        Self::HostMemory,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::WallClock => "wall-clock",
            Self::MonotonicClock => "monotonic-clock",
            Self::SecureRandom => "secure-random",
            Self::Network => "network",
            Self::Files => "files",
            Self::Environment => "environment",
            Self::AttemptNumber => "attempt-number",
            Self::Cancelled => "cancelled",
            Self::HostMemory => "host-memory",
        }
    }
}

/// The set of observations of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Observed(u16);

impl Observed {
    pub(super) fn mark(&mut self, what: Observation) {
        self.0 |= 1 << what as u16;
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The short names, in a fixed order.
    pub(super) fn names(self) -> Vec<String> {
        Observation::ALL
            .iter()
            .filter(|what| self.0 & (1 << **what as u16) != 0)
            .map(|what| what.name().to_owned())
            .collect()
    }
}
