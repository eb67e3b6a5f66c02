//! The settings of a task version: the raw form that people write and the checked form that runs.
//!
//! Invariant: a [`Settings`] can only be made by [`RawSettings::check`], so every value is inside
//! its documented range. The JSON form of `Settings` is the fully spelled-out raw form.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bytes::exact_size;
use crate::time::Millis;
use crate::verdict::Verdict;

/// The shortest and longest timeout of an attempt.
pub const TIMEOUT_RANGE: (Millis, Millis) = (Millis(1), Millis(24 * 3_600_000));
/// The smallest and largest memory limit, in bytes: one wasm page and what 32-bit memories can hold.
pub const MEMORY_RANGE: (u64, u64) = (64 * 1024, 4 * 1024 * 1024 * 1024);
/// The largest output limit, in bytes.
pub const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;
/// The largest number of attempts.
pub const MAX_ATTEMPTS: u32 = 1000;
/// The most arguments of a command.
pub const MAX_ARGS: usize = 128;
/// The most bytes of all arguments of a command together.
pub const MAX_ARGS_BYTES: usize = 32 * 1024;
/// The longest backoff there is, whatever a formula says: 30 days.
pub const MAX_BACKOFF: Millis = Millis(30 * 24 * 3_600_000);

/// Settings as people write them; everything may be left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSettings {
    /// Wall-clock limit of an attempt, in milliseconds. Default 60,000.
    pub timeout_ms: Option<u64>,
    /// Limit of all linear memories together, in bytes. Default 256 MiB.
    pub memory_bytes: Option<u64>,
    /// Limit of the output, in bytes. Default 16 MiB.
    pub output_bytes: Option<u64>,
    /// Attempts including the first. Default 3.
    pub max_attempts: Option<u32>,
    /// The time between attempts. Default: attempt^4 + 10 seconds.
    pub backoff: Option<Backoff>,
    /// How much of the backoff is added at random, 0 to 1. Default 0.25.
    pub jitter: Option<f64>,
    /// What to do on a verdict or a family of verdicts (`trap`, `exit.3`), over the default.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policy: BTreeMap<String, Action>,
    /// The arguments of a command, behind its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// How the time between attempts grows. `attempt` is the number of the attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Backoff {
    /// attempt^4 + 10 seconds (after Sidekiq's formula).
    Polynomial,
    /// Always the same.
    Fixed {
        /// The delay in milliseconds.
        delay_ms: u64,
    },
    /// base × factor^(attempt − 1), at most the cap.
    Exponential {
        /// The first delay in milliseconds.
        base_ms: u64,
        /// The growth per attempt, 1 to 100.
        factor: f64,
        /// The longest delay in milliseconds.
        cap_ms: u64,
    },
}

/// What a policy says about a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Another attempt while there are any left.
    Retry,
    /// Dead at once.
    Dead,
}

/// Checked settings. Only [`RawSettings::check`] makes them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Wall-clock limit of an attempt; the time in which other guests of its worker run does not count.
    pub timeout: Millis,
    /// Limit of all linear memories together, in bytes.
    pub memory_bytes: u64,
    /// Limit of the output, in bytes.
    pub output_bytes: u64,
    /// Attempts including the first.
    pub max_attempts: u32,
    /// The time between attempts.
    pub backoff: Backoff,
    /// How much of the backoff is added at random, 0 to 1.
    pub jitter: f64,
    /// What to do on a verdict or a family, over the default.
    pub policy: BTreeMap<String, Action>,
    /// The arguments of a command, behind its name.
    pub args: Vec<String>,
}

/// A setting outside its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{setting} is {found}, but must be {expected}")]
pub struct SettingsError {
    /// The name of the setting as in the configuration file.
    pub setting: &'static str,
    /// The value, as text.
    pub found: String,
    /// The range, as text.
    pub expected: String,
}

impl SettingsError {
    fn new(setting: &'static str, found: impl ToString, expected: impl Into<String>) -> Self {
        Self { setting, found: found.to_string(), expected: expected.into() }
    }
}

impl Settings {
    /// The names of those that another version has otherwise, as on the command line.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let pairs = [
            ("timeout", self.timeout == other.timeout),
            ("memory", self.memory_bytes == other.memory_bytes),
            ("output-limit", self.output_bytes == other.output_bytes),
            ("max-attempts", self.max_attempts == other.max_attempts),
            ("backoff", self.backoff == other.backoff),
            ("jitter", self.jitter == other.jitter),
            ("policy", self.policy == other.policy),
            ("arg", self.args == other.args),
        ];
        pairs.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Millis(60_000),
            memory_bytes: 256 * 1024 * 1024,
            output_bytes: 16 * 1024 * 1024,
            max_attempts: 3,
            backoff: Backoff::Polynomial,
            jitter: 0.25,
            policy: BTreeMap::new(),
            args: Vec::new(),
        }
    }
}

impl RawSettings {
    /// Checks every value and fills in the defaults.
    ///
    /// # Errors
    /// The first setting that is outside its range.
    pub fn check(&self) -> Result<Settings, SettingsError> {
        let default = Settings::default();
        let timeout = Millis(self.timeout_ms.unwrap_or(default.timeout.0));
        let memory_bytes = self.memory_bytes.unwrap_or(default.memory_bytes);
        let output_bytes = self.output_bytes.unwrap_or(default.output_bytes);
        let max_attempts = self.max_attempts.unwrap_or(default.max_attempts);
        let jitter = self.jitter.unwrap_or(default.jitter);
        if timeout < TIMEOUT_RANGE.0 || timeout > TIMEOUT_RANGE.1 {
            return Err(SettingsError::new("timeout", timeout, "between 1 ms and 24 hours"));
        }
        if memory_bytes < MEMORY_RANGE.0 || memory_bytes > MEMORY_RANGE.1 {
            return Err(SettingsError::new("memory", exact_size(memory_bytes), "between 64 KiB and 4 GiB"));
        }
        if output_bytes > MAX_OUTPUT_BYTES {
            return Err(SettingsError::new("output", exact_size(output_bytes), "at most 64 MiB"));
        }
        if max_attempts == 0 || max_attempts > MAX_ATTEMPTS {
            return Err(SettingsError::new(
                "max_attempts",
                max_attempts,
                "between 1 and 1000; it counts the first execution too",
            ));
        }
        if !(0.0..=1.0).contains(&jitter) {
            return Err(SettingsError::new("jitter", jitter, "between 0 and 1"));
        }
        let backoff = self.backoff.unwrap_or(default.backoff).check()?;
        let policy = self.policy.clone();
        policy.keys().try_for_each(|key| check_pattern(key))?;
        let args = check_args(&self.args)?;
        Ok(Settings { timeout, memory_bytes, output_bytes, max_attempts, backoff, jitter, policy, args })
    }
}

fn check_args(args: &[String]) -> Result<Vec<String>, SettingsError> {
    let bytes: usize = args.iter().map(|arg| arg.len() + 1).sum();
    if args.len() > MAX_ARGS || bytes > MAX_ARGS_BYTES {
        let found = format!("a list of {} with {bytes} bytes", args.len());
        return Err(SettingsError::new("arg", found, "at most 128 with 32 KiB together"));
    }
    if let Some(arg) = args.iter().find(|arg| arg.contains('\0')) {
        return Err(SettingsError::new("arg", format!("\"{}\"", arg.escape_debug()), "without zero bytes"));
    }
    Ok(args.to_vec())
}

/// The families a policy may name as a whole.
const FAMILIES: [&str; 3] = ["trap", "exit", "error"];

fn check_pattern(pattern: &str) -> Result<(), SettingsError> {
    let expected = "a verdict such as timeout or trap.unreachable, or a family: trap, exit, error";
    let wrong = || SettingsError::new("policy", format!("\"{}\"", pattern.escape_debug()), expected);
    if FAMILIES.contains(&pattern) {
        return Ok(());
    }
    match pattern.parse::<Verdict>() {
        Ok(Verdict::Completed | Verdict::Cancelled | Verdict::ComponentMissing | Verdict::InvalidComponent)
        | Err(_) => Err(wrong()),
        Ok(_) => Ok(()),
    }
}

impl Backoff {
    fn check(self) -> Result<Self, SettingsError> {
        let too_long = |ms: u64| ms > MAX_BACKOFF.0;
        let refuse = |setting, ms| Err(SettingsError::new(setting, Millis(ms), "at most 30 days"));
        match self {
            Self::Fixed { delay_ms } if too_long(delay_ms) => refuse("backoff", delay_ms),
            Self::Exponential { base_ms, .. } if too_long(base_ms) => refuse("backoff base", base_ms),
            Self::Exponential { cap_ms, .. } if too_long(cap_ms) => refuse("backoff cap", cap_ms),
            Self::Exponential { factor, .. } if !(1.0..=100.0).contains(&factor) => {
                Err(SettingsError::new("backoff factor", factor, "between 1 and 100"))
            }
            fine => Ok(fine),
        }
    }
}

impl Settings {
    /// The raw form with everything spelled out.
    #[must_use]
    pub fn to_raw(&self) -> RawSettings {
        RawSettings {
            timeout_ms: Some(self.timeout.0),
            memory_bytes: Some(self.memory_bytes),
            output_bytes: Some(self.output_bytes),
            max_attempts: Some(self.max_attempts),
            backoff: Some(self.backoff),
            jitter: Some(self.jitter),
            policy: self.policy.clone(),
            args: self.args.clone(),
        }
    }

    /// What the policy says about a verdict: the exact name first, then the family.
    #[must_use]
    pub fn action(&self, verdict: &Verdict) -> Option<Action> {
        if self.policy.is_empty() {
            return None;
        }
        self.policy.get(&verdict.to_string()).or_else(|| self.policy.get(verdict.family())).copied()
    }
}

impl Serialize for Settings {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_raw().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawSettings::deserialize(deserializer)?.check().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(raw: &RawSettings) -> &'static str {
        raw.check().unwrap_err().setting
    }

    #[test]
    fn zero_attempts_and_absurd_values_are_refused() {
        assert_eq!(refused(&RawSettings { max_attempts: Some(0), ..RawSettings::default() }), "max_attempts");
        assert_eq!(refused(&RawSettings { timeout_ms: Some(0), ..RawSettings::default() }), "timeout");
        assert_eq!(refused(&RawSettings { timeout_ms: Some(u64::MAX), ..RawSettings::default() }), "timeout");
        assert_eq!(refused(&RawSettings { memory_bytes: Some(1), ..RawSettings::default() }), "memory");
        assert_eq!(refused(&RawSettings { output_bytes: Some(u64::MAX), ..RawSettings::default() }), "output");
    }

    #[test]
    fn a_value_that_is_refused_is_told_in_units_that_people_type() {
        let backoff = |backoff| RawSettings { backoff: Some(backoff), ..RawSettings::default() };
        let day_ms = 86_400_000;
        for (raw, told) in [
            (backoff(Backoff::Fixed { delay_ms: 40 * day_ms }), "backoff is 40d, but must be at most 30 days"),
            (
                backoff(Backoff::Exponential { base_ms: 1, factor: 2.0, cap_ms: 31 * day_ms }),
                "backoff cap is 31d, but must be at most 30 days",
            ),
            (
                RawSettings { memory_bytes: Some(5 << 30), ..RawSettings::default() },
                "memory is 5GiB, but must be between 64 KiB and 4 GiB",
            ),
            (
                RawSettings { output_bytes: Some((64 << 20) + 1), ..RawSettings::default() },
                "output is 67108865 bytes, but must be at most 64 MiB",
            ),
            (
                RawSettings { timeout_ms: Some(25 * 3_600_000), ..RawSettings::default() },
                "timeout is 25h, but must be between 1 ms and 24 hours",
            ),
        ] {
            assert_eq!(raw.check().unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn not_a_number_and_negative_numbers_are_refused() {
        for jitter in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
            assert_eq!(refused(&RawSettings { jitter: Some(jitter), ..RawSettings::default() }), "jitter");
        }
        for factor in [f64::NAN, f64::NEG_INFINITY, -1.0, 0.5, 1e9] {
            let backoff = Some(Backoff::Exponential { base_ms: 1, factor, cap_ms: 2 });
            assert_eq!(refused(&RawSettings { backoff, ..RawSettings::default() }), "backoff factor");
        }
    }

    #[test]
    fn a_policy_for_something_that_is_no_verdict_is_refused() {
        for pattern in ["traps", "", "completed", "exit.-1"] {
            let policy = BTreeMap::from([(pattern.to_owned(), Action::Dead)]);
            assert_eq!(refused(&RawSettings { policy, ..RawSettings::default() }), "policy");
        }
    }

    #[test]
    fn too_many_arguments_and_zero_bytes_are_refused() {
        for args in [vec!["x".to_owned(); 129], vec!["x".repeat(33_000)], vec!["a\0b".to_owned()]] {
            assert_eq!(refused(&RawSettings { args, ..RawSettings::default() }), "arg");
        }
        let args = vec!["x".to_owned(); 128];
        assert_eq!(RawSettings { args: args.clone(), ..RawSettings::default() }.check().unwrap().args, args);
    }

    #[test]
    fn the_exact_verdict_wins_over_its_family() {
        let policy = BTreeMap::from([("exit".to_owned(), Action::Dead), ("exit.3".to_owned(), Action::Retry)]);
        let settings = RawSettings { policy, ..RawSettings::default() }.check().unwrap();
        assert_eq!(settings.action(&Verdict::Exit(3)), Some(Action::Retry));
        assert_eq!(settings.action(&Verdict::Exit(4)), Some(Action::Dead));
        assert_eq!(settings.action(&Verdict::Timeout), None);
    }

    #[test]
    fn settings_survive_json_spelled_out() {
        let settings = Settings::default();
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&json).unwrap(), settings);
        assert!(json.contains("\"max_attempts\":3"));
    }
}
