//! Log records on stderr: one record, one line, whatever is in it.
//!
//! Invariants: stdout never gets a log record; a record's text cannot break its line or drive a
//! terminal; a failed write to stderr is ignored, because there is nobody left to tell.
//!
//! Deliberately absent: metrics, files, rotation; whoever runs the server has tools for these.

pub mod safe;

use std::fmt;
use std::io::{self, Write, stderr};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::safe::{escape_json, safe};
use crate::config::{Config, LogFormat, LogLevel};

/// Starts logging. Commands other than servers only log what somebody should look at, unless a
/// person asked for more.
pub fn start(config: &Config, server: bool, asked: bool) {
    let level = level_of(config.log);
    let level = if server || asked { level } else { level.min(LevelFilter::WARN) };
    let ours = ["wasmq", "wasmq_core", "wasmq_wal"].map(|name| (name, level));
    // What the watcher of files warns of is a folder that is gone, and `wasmq dev` says that in its own words.
    let watcher = if asked { level.min(LevelFilter::WARN) } else { LevelFilter::OFF };
    let targets =
        Targets::new().with_default(level.min(LevelFilter::WARN)).with_targets(ours).with_target("notify", watcher);
    let layer = tracing_subscriber::fmt::layer().with_writer(Lines { format: config.log_format }).with_ansi(false);
    let registry = tracing_subscriber::registry().with(targets);
    // A second start in one process (tests, embedding) keeps the first.
    let _ = match config.log_format {
        LogFormat::Text => registry.with(layer.with_target(false)).try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    };
}

const fn level_of(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Makes one writer a record.
struct Lines {
    format: LogFormat,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { format: self.format, record: Vec::with_capacity(256) }
    }
}

/// Collects one record and writes it escaped, in one piece, when it is complete.
struct Line {
    format: LogFormat,
    record: Vec<u8>,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.record.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.record.is_empty() {
            let mut line = escaped(&String::from_utf8_lossy(&self.record), self.format);
            line.push('\n');
            let _ = stderr().lock().write_all(line.as_bytes());
        }
    }
}

/// The record without its line break, as one harmless line.
fn escaped(record: &str, format: LogFormat) -> String {
    let record = record.strip_suffix('\n').unwrap_or(record);
    match format {
        LogFormat::Text => safe(record).into_owned(),
        LogFormat::Json => escape_json(record.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_harmless_line() {
        assert_eq!(escaped("a\nforged\u{2028}x\u{1b}[2J\n", LogFormat::Text), "a\\nforged\\u{2028}x\\u{1b}[2J");
        assert_eq!(escaped("{\"m\":\"\u{9b}\"}\n", LogFormat::Json), "{\"m\":\"\\u009b\"}");
    }
}
