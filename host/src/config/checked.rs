//! The checked configuration, and how raw texts become it.
//!
//! Invariant: a [`Config`] is only made by [`RawConfig::check`].

use std::num::NonZeroUsize;
use std::path::PathBuf;

use wasmq_core::Millis;
use wasmq_core::invocation::MAX_PAYLOAD_BYTES;

use super::raw::{RawConfig, Source};
use super::settings::SETTINGS;
use super::units::{parse_duration, parse_size, write_duration, write_size};
use super::{ConfigError, Setting};

/// The most worker processes of one server.
pub const MAX_WORKERS: usize = 256;
/// The most attempts at the same time in one worker.
pub const MAX_CONCURRENCY: usize = 10_000;
/// The longest grace time.
pub const MAX_GRACE: Millis = Millis(24 * 3_600_000);

macro_rules! word_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            const EXPECTED: &'static [&'static str] = &[$($word,)*];

            /// The variant that a word stands for.
            pub(crate) fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$variant),)* _ => None }
            }

            /// The word that stands for it in settings.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

word_enum! {
    /// Where durable things live.
    StoreMode {
        /// In the data directory.
        Dir = "dir",
        /// Nowhere: everything is lost when the process ends.
        None = "none",
    }
}
word_enum! {
    /// When acknowledged work is forced to the disk.
    FsyncMode {
        /// Before every acknowledgement.
        Always = "always",
        /// A few times a second.
        Interval = "interval",
        /// When the system likes to.
        Never = "never",
    }
}
word_enum! {
    /// Whether to write on a network file system.
    NetworkDiskMode {
        /// Never.
        Refuse = "refuse",
        /// As on any other.
        Allow = "allow",
    }
}
word_enum! {
    /// When output has colours.
    ColorMode {
        /// On a terminal, unless NO_COLOR is set.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never.
        Never = "never",
    }
}
word_enum! {
    /// The least severe log records that are written.
    LogLevel {
        /// None at all.
        Off = "off",
        /// What failed.
        Error = "error",
        /// What somebody should look at.
        Warn = "warn",
        /// What happened.
        Info = "info",
        /// What led to it.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}
word_enum! {
    /// How log records are written.
    LogFormat {
        /// A line of text.
        Text = "text",
        /// A line of JSON.
        Json = "json",
    }
}

/// A setting's final value as text, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The setting.
    pub name: &'static str,
    /// The value in its normal form.
    pub value: String,
    /// Where it came from.
    pub source: Source,
}

/// The checked settings of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The data directory.
    pub data: PathBuf,
    /// Where durable things live.
    pub store: StoreMode,
    /// When acknowledged work is forced to the disk.
    pub fsync: FsyncMode,
    /// Worker processes of one server.
    pub workers: NonZeroUsize,
    /// Attempts at the same time in one worker.
    pub concurrency: NonZeroUsize,
    /// The largest payload, in bytes.
    pub payload_limit: u64,
    /// How long a stopping server lets attempts finish.
    pub grace: Millis,
    /// Whether to write on a network file system.
    pub network_disk: NetworkDiskMode,
    /// When output has colours.
    pub color: ColorMode,
    /// The least severe log records.
    pub log: LogLevel,
    /// How log records are written.
    pub log_format: LogFormat,
    /// Every setting with its value and where it came from, in the order of [`SETTINGS`].
    pub origins: Vec<Origin>,
}

impl RawConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// The first value that is outside its range.
    pub fn check(&self) -> Result<Config, ConfigError> {
        let mut config = Config {
            data: self.parse("data", directory, || "the path of a directory, in UTF-8".to_owned())?,
            store: self.parse("store", StoreMode::parse, || one_of(StoreMode::EXPECTED))?,
            fsync: self.parse("fsync", FsyncMode::parse, || one_of(FsyncMode::EXPECTED))?,
            workers: self.parse("workers", workers, || format!("a number from 1 to {MAX_WORKERS}"))?,
            concurrency: self.parse(
                "concurrency",
                |text| count(text, MAX_CONCURRENCY),
                || format!("a number from 1 to {MAX_CONCURRENCY}"),
            )?,
            payload_limit: self.parse(
                "payload_limit",
                |text| parse_size(text).ok().filter(|bytes| *bytes <= MAX_PAYLOAD_BYTES),
                || "a size from 0 to 64MiB, such as 65536, 512KiB or 1MiB".to_owned(),
            )?,
            grace: self.parse(
                "grace",
                |text| parse_duration(text).ok().filter(|grace| *grace <= MAX_GRACE),
                || "a duration from 0s to 24h, such as 30s or 5m".to_owned(),
            )?,
            network_disk: self.parse("network_disk", NetworkDiskMode::parse, || one_of(NetworkDiskMode::EXPECTED))?,
            color: self.parse("color", ColorMode::parse, || one_of(ColorMode::EXPECTED))?,
            log: self.parse("log", LogLevel::parse, || one_of(LogLevel::EXPECTED))?,
            log_format: self.parse("log_format", LogFormat::parse, || one_of(LogFormat::EXPECTED))?,
            origins: Vec::new(),
        };
        config.origins = SETTINGS.iter().map(|setting| self.origin(setting, &config)).collect();
        Ok(config)
    }

    fn parse<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Option<T>,
        expected: impl Fn() -> String,
    ) -> Result<T, ConfigError> {
        let text = self.get(name).and_then(|value| value.text.to_str());
        text.and_then(parse).ok_or_else(|| self.wrong(name, expected()))
    }

    fn wrong(&self, setting: &'static str, expected: String) -> ConfigError {
        let value = self.get(setting);
        ConfigError::Value {
            setting,
            found: value.map(|value| value.text.display().to_string()).unwrap_or_default(),
            origin: value.map_or(Source::Default, |value| value.source.clone()),
            expected,
        }
    }

    fn origin(&self, setting: &Setting, config: &Config) -> Origin {
        let source = self.get(setting.name).map_or(Source::Default, |value| value.source.clone());
        Origin { name: setting.name, value: config.value(setting.name), source }
    }
}

impl Config {
    /// The value of a setting in its normal text form.
    fn value(&self, name: &str) -> String {
        match name {
            "data" => self.data.display().to_string(),
            "store" => self.store.word().to_owned(),
            "fsync" => self.fsync.word().to_owned(),
            "workers" => self.workers.to_string(),
            "concurrency" => self.concurrency.to_string(),
            "payload_limit" => write_size(self.payload_limit),
            "grace" => write_duration(self.grace),
            "network_disk" => self.network_disk.word().to_owned(),
            "color" => self.color.word().to_owned(),
            "log" => self.log.word().to_owned(),
            "log_format" => self.log_format.word().to_owned(),
            _ => String::new(),
        }
    }
}

/// A path that can be handed to workers as text.
fn directory(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

fn one_of(words: &[&str]) -> String {
    format!("one of {}", words.join(", "))
}

fn count(text: &str, most: usize) -> Option<NonZeroUsize> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|count: &NonZeroUsize| plain && count.get() <= most)
}

/// The number of workers; an empty text stands for one per core.
fn workers(text: &str) -> Option<NonZeroUsize> {
    if text.is_empty() {
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        return Some(cores.min(NonZeroUsize::new(MAX_WORKERS)?));
    }
    count(text, MAX_WORKERS)
}
