//! The exit codes of the command line. Scripts may rely on them.
//!
//! Invariant: a code never changes its meaning. 1 to 11 are about the command itself, 20 to 26 say
//! how the attempt ended that `run`, `enqueue --wait` or `dlq retry --wait` waited for.

use std::process::ExitCode;

use wasmq_core::Verdict;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what it was asked.
    Ok = 0,
    /// It failed for a reason without a code of its own.
    Failure = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// There is no such task, version, invocation or dead task.
    NotFound = 3,
    /// The beginning of an id fits several.
    Ambiguous = 4,
    /// The thing is in another state: already retried, already deleted, already there, still live, in
    /// use.
    Conflict = 5,
    /// The component was refused.
    Refused = 6,
    /// Some of several were done, and some were not.
    Partly = 7,
    /// The data directory cannot be used: permission, damage, full disk, newer format.
    Store = 8,
    /// The store is `none`, or it needs a server and none runs.
    Unavailable = 9,
    /// Stdout cannot be written.
    Stdout = 10,
    /// `store verify` or `store repair` found something that somebody has to look at.
    Damaged = 11,
    /// The task returned an error.
    TaskError = 20,
    /// The task trapped.
    Trap = 21,
    /// The command task left with a code other than 0; the verdict says which.
    Exited = 22,
    /// The task ran out of time.
    Timeout = 23,
    /// The task ran into its memory or output limit.
    Limit = 24,
    /// The task used something that was not granted.
    Denied = 25,
    /// Any other verdict.
    OtherVerdict = 26,
}

/// The table of exit codes, as the reference prints it.
pub const TABLE: &str = "\
Exit codes:
   0  done
   1  failed for a reason without a code of its own
   2  the command line or the configuration is wrong
   3  no such task, version, invocation or dead task
   4  the beginning of an id fits several
   5  conflict: already retried, already deleted, already there, still live, in use
   6  the component was refused
   7  some of several were done, and some were not
   8  the data directory cannot be used: permission, damage, full disk, newer format
   9  the store is \"none\", or it needs a server and none runs
  10  stdout cannot be written
  11  store verify, store repair: something is damaged or waits, and somebody has to act
  run, enqueue --wait and dlq retry --wait also leave with how the attempt ended:
  20  error.*      21  trap.*      22  exit.* (the task's own code is in the verdict)
  23  timeout      24  memory-limit, output-limit      25  denied      26  any other verdict";

impl Exit {
    /// The code for a verdict.
    #[must_use]
    pub const fn of_verdict(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Completed => Self::Ok,
            Verdict::ErrorRetryable | Verdict::ErrorRetryAfter | Verdict::ErrorPermanent => Self::TaskError,
            Verdict::Trap(_) => Self::Trap,
            Verdict::Exit(_) => Self::Exited,
            Verdict::Timeout => Self::Timeout,
            Verdict::MemoryLimit | Verdict::OutputLimit => Self::Limit,
            Verdict::Denied => Self::Denied,
            Verdict::InvalidComponent | Verdict::ComponentMissing | Verdict::HostCrash | Verdict::Cancelled => {
                Self::OtherVerdict
            }
        }
    }

    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_never_change() {
        let codes = [
            (Exit::Ok, 0),
            (Exit::Failure, 1),
            (Exit::Usage, 2),
            (Exit::NotFound, 3),
            (Exit::Ambiguous, 4),
            (Exit::Conflict, 5),
            (Exit::Refused, 6),
            (Exit::Partly, 7),
            (Exit::Store, 8),
            (Exit::Unavailable, 9),
            (Exit::Stdout, 10),
            (Exit::Damaged, 11),
            (Exit::TaskError, 20),
            (Exit::Trap, 21),
            (Exit::Exited, 22),
            (Exit::Timeout, 23),
            (Exit::Limit, 24),
            (Exit::Denied, 25),
            (Exit::OtherVerdict, 26),
        ];
        for (exit, code) in codes {
            assert_eq!(exit.code(), code);
            assert!(TABLE.contains(&format!("{code}  ")), "{code} is missing in the table");
        }
    }

    #[test]
    fn the_task_s_own_exit_code_never_hides_one_of_ours() {
        for n in [1, 2, 3, 64, 255] {
            assert_eq!(Exit::of_verdict(&Verdict::Exit(n)), Exit::Exited);
        }
    }
}
