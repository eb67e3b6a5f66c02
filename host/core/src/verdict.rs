//! Verdicts: how one attempt ended, and the names under which people and policies know them.
//!
//! Invariant: every verdict has exactly one text form (`trap.divide-by-zero`, `exit.3`), and the
//! text form gives the verdict back.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::serde_as_text;

/// How one attempt ended (DESIGN, section "Verdicts").
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The handler returned ok, or a command left with 0.
    Completed,
    /// The task said: another attempt may help.
    ErrorRetryable,
    /// The task said: another attempt may help, after a delay it chose.
    ErrorRetryAfter,
    /// The task said: another attempt cannot help.
    ErrorPermanent,
    /// The guest trapped.
    Trap(TrapCode),
    /// A command left with a code other than 0.
    Exit(u32),
    /// The wall-clock or CPU deadline passed.
    Timeout,
    /// The guest failed after its memory limit had refused it more.
    MemoryLimit,
    /// The output was larger than the task's limit.
    OutputLimit,
    /// The guest failed after it had used something that was not granted.
    Denied,
    /// The component cannot be instantiated by this engine.
    InvalidComponent,
    /// No such version is deployed.
    ComponentMissing,
    /// The process died during the attempt.
    HostCrash,
    /// An operator cancelled the invocation.
    Cancelled,
}

macro_rules! trap_codes {
    ($($variant:ident $text:literal $doc:literal,)*) => {
        /// Why a guest trapped; the names are those of the WebAssembly specification's test suite,
        /// with dashes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum TrapCode { $(#[doc = $doc] $variant,)* }

        impl TrapCode {
            /// Every code, for tables and tests.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name without the `trap.` in front.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl FromStr for TrapCode {
            type Err = ParseVerdictError;
            fn from_str(text: &str) -> Result<Self, ParseVerdictError> {
                match text { $($text => Ok(Self::$variant),)* _ => Err(ParseVerdictError(text.to_owned())) }
            }
        }
    };
}

trap_codes! {
    Unreachable "unreachable" "An `unreachable` instruction: panic, abort, failed assertion.",
    OutOfBoundsMemory "out-of-bounds-memory" "A load or store outside the linear memory.",
    OutOfBoundsTable "out-of-bounds-table" "An access outside a table.",
    IndirectCallToNull "indirect-call-to-null" "A call through an empty table element.",
    IndirectCallType "indirect-call-type-mismatch" "A call through a table element of another type.",
    DivideByZero "divide-by-zero" "An integer division by zero.",
    IntegerOverflow "integer-overflow" "An integer division whose result does not fit.",
    InvalidConversion "invalid-conversion-to-integer" "A float without an integer value.",
    StackOverflow "stack-overflow" "The call stack is exhausted: too deep recursion.",
    MisalignedAtomic "misaligned-atomic" "An atomic access at an unaligned address.",
    NullReference "null-reference" "A null reference was used.",
    CastFailure "cast-failure" "A reference has another type.",
    AllocationTooLarge "allocation-too-large" "An object larger than the engine allows.",
    Canonical "canonical-abi" "The component broke a rule of the canonical ABI, such as a bad pointer or text that is not UTF-8.",
    UncaughtException "uncaught-exception" "A WebAssembly exception nobody caught.",
    Other "other" "A trap this version has no name for; the message says more.",
}

/// A text that names no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a verdict: expected one such as completed, error.permanent, trap.unreachable, exit.1, timeout")]
pub struct ParseVerdictError(pub String);

impl Verdict {
    /// The part before the first dot: `trap`, `error`, `exit`, or the whole name. A policy may
    /// name a family.
    #[must_use]
    pub const fn family(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::ErrorRetryable | Self::ErrorRetryAfter | Self::ErrorPermanent => "error",
            Self::Trap(_) => "trap",
            Self::Exit(_) => "exit",
            Self::Timeout => "timeout",
            Self::MemoryLimit => "memory-limit",
            Self::OutputLimit => "output-limit",
            Self::Denied => "denied",
            Self::InvalidComponent => "invalid-component",
            Self::ComponentMissing => "component-missing",
            Self::HostCrash => "host-crash",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ErrorRetryable => f.pad("error.retryable"),
            Self::ErrorRetryAfter => f.pad("error.retry-after"),
            Self::ErrorPermanent => f.pad("error.permanent"),
            Self::Trap(code) => f.pad(&format!("trap.{}", code.name())),
            Self::Exit(code) => f.pad(&format!("exit.{code}")),
            plain => f.pad(plain.family()),
        }
    }
}

impl FromStr for Verdict {
    type Err = ParseVerdictError;

    fn from_str(text: &str) -> Result<Self, ParseVerdictError> {
        let wrong = || ParseVerdictError(text.to_owned());
        if let Some(code) = text.strip_prefix("trap.") {
            return code.parse().map(Self::Trap);
        }
        if let Some(code) = text.strip_prefix("exit.") {
            return code.parse().map(Self::Exit).map_err(|_| wrong());
        }
        Ok(match text {
            "completed" => Self::Completed,
            "error.retryable" => Self::ErrorRetryable,
            "error.retry-after" => Self::ErrorRetryAfter,
            "error.permanent" => Self::ErrorPermanent,
            "timeout" => Self::Timeout,
            "memory-limit" => Self::MemoryLimit,
            "output-limit" => Self::OutputLimit,
            "denied" => Self::Denied,
            "invalid-component" => Self::InvalidComponent,
            "component-missing" => Self::ComponentMissing,
            "host-crash" => Self::HostCrash,
            "cancelled" => Self::Cancelled,
            _ => return Err(wrong()),
        })
    }
}

serde_as_text!(Verdict);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_survives_its_text_form() {
        let plain = [
            Verdict::Completed,
            Verdict::ErrorRetryable,
            Verdict::ErrorRetryAfter,
            Verdict::ErrorPermanent,
            Verdict::Exit(75),
            Verdict::Timeout,
            Verdict::MemoryLimit,
            Verdict::OutputLimit,
            Verdict::Denied,
            Verdict::InvalidComponent,
            Verdict::ComponentMissing,
            Verdict::HostCrash,
            Verdict::Cancelled,
        ];
        let traps = TrapCode::ALL.iter().map(|code| Verdict::Trap(*code));
        for verdict in plain.into_iter().chain(traps) {
            assert_eq!(verdict.to_string().parse(), Ok(verdict.clone()));
            assert!(verdict.to_string().starts_with(verdict.family()));
        }
    }
}
