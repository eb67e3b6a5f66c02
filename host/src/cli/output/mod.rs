//! What leaves the command line: data on stdout, everything else on stderr.
//!
//! Invariants: a write to stdout that fails is an error and never lost, except that a reader who
//! went away (`| head`) ends the command quietly; nothing is written to stdout by any other file.
//!
//! Deliberately absent: pagers, and colours anywhere but on a terminal.

pub mod json;
pub mod paint;
pub mod table;
pub mod time;

pub use crate::telemetry::safe;

use std::fmt::Display;
use std::io::{BufWriter, IsTerminal as _, Stdout, Write as _, stderr, stdout};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde::Serialize;

use self::paint::{Paint, Tone};
use self::table::Table;
use crate::cli::error::{CliError, Description};
use crate::cli::render::sheet::Sheet;
use crate::config::ColorMode;

/// The two streams of a command.
#[derive(Debug)]
pub struct Output {
    stdout: BufWriter<Stdout>,
    paint: Paint,
    notes: Paint,
    json: bool,
    columns: Option<usize>,
}

impl Output {
    /// Output for people or, with `json`, for programs.
    #[must_use]
    pub fn new(color: ColorMode, json: bool) -> Self {
        let out = stdout();
        Self {
            paint: Paint::for_stdout(color, &out),
            notes: Paint::for_stderr(color, &stderr()),
            json,
            columns: terminal_columns(&out),
            stdout: BufWriter::with_capacity(64 * 1024, out),
        }
    }

    /// Whether a program reads.
    #[must_use]
    pub const fn is_json(&self) -> bool {
        self.json
    }

    /// The colours of stdout.
    #[must_use]
    pub const fn paint(&self) -> Paint {
        self.paint
    }

    /// The colours of stderr.
    #[must_use]
    pub const fn notes_paint(&self) -> Paint {
        self.notes
    }

    /// Whether a person looks at stdout, rather than a program or a file.
    #[must_use]
    pub fn is_for_terminal(&self) -> bool {
        self.stdout.get_ref().is_terminal()
    }

    /// Writes a line of data. The text must be safe already.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn line(&mut self, text: impl Display) -> Result<(), CliError> {
        writeln!(self.stdout, "{text}").map_err(CliError::from_stdout)
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.stdout.write_all(bytes).map_err(CliError::from_stdout)
    }

    /// Writes a value as one line of JSON.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let line = json::line(value).map_err(|error| CliError::from_stdout(error.into()))?;
        self.line(line)
    }

    /// Writes a table.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn table(&mut self, table: &Table) -> Result<(), CliError> {
        let lines = table.lines(self.paint, self.columns);
        lines.iter().try_for_each(|line| self.line(line))
    }

    /// An empty page for stdout.
    #[must_use]
    pub const fn sheet(&self) -> Sheet {
        Sheet::new(self.paint, self.columns)
    }

    /// Writes a page.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn page(&mut self, sheet: Sheet) -> Result<(), CliError> {
        sheet.into_lines().iter().try_for_each(|line| self.line(line))
    }

    /// An empty page for stderr.
    #[must_use]
    pub const fn notes_sheet(&self) -> Sheet {
        Sheet::new(self.notes, self.columns)
    }

    /// Writes a page that is not data to stderr, for people only.
    pub fn note_page(&mut self, sheet: Sheet) {
        sheet.into_lines().iter().for_each(|line| self.note(line));
    }

    /// Writes bytes of a guest or user: as they are for a program, harmless and with a line break at
    /// the end for a terminal.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn content(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        if !self.is_for_terminal() {
            return self.raw(bytes);
        }
        let text = safe::safe_bytes(bytes);
        if text.is_empty() { Ok(()) } else { self.line(text.trim_end_matches('\n')) }
    }

    /// Writes what is not data to stderr, for people only, after the data before it. The text must
    /// be safe already.
    pub fn note(&mut self, text: impl Display) {
        // What cannot be flushed stays in the buffer, and the flush at the end tells.
        let _ = self.stdout.flush();
        if !self.json {
            let _ = writeln!(stderr().lock(), "{text}");
        }
    }

    /// Tells about one error of several on stderr.
    pub fn error(&mut self, error: &Description, id: Option<&str>) {
        let _ = self.stdout.flush();
        let text = if self.json { error.to_json(id) } else { error.to_text(self.notes) };
        let _ = writeln!(stderr().lock(), "{text}");
    }

    /// A note about the next command to type.
    pub fn next_step(&mut self, what: &str, command: &str) {
        let command = self.notes.apply(Tone::Command, command);
        self.note(format_args!("{what}: {command}"));
    }

    /// Shows everything that was written so far.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn flush(&mut self) -> Result<(), CliError> {
        self.stdout.flush().map_err(CliError::from_stdout)
    }

    /// A bar on stderr for long work; hidden unless a person looks at a terminal.
    #[must_use]
    pub fn progress(&self, total: u64, what: &'static str) -> ProgressBar {
        if self.json || !stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{msg} {wide_bar:.cyan} {human_pos}/{human_len} {eta}");
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        bar.set_message(what);
        style.map_or(bar.clone(), |style| bar.with_style(style))
    }

    /// The same for work of which nobody can say how far it is: it shows that it goes on, and for how long.
    #[must_use]
    pub fn busy(&self, what: String) -> ProgressBar {
        self.busy_with(what, String::new)
    }

    /// The same, with what `more` has to say of it again and again. It must be safe already.
    #[must_use]
    pub fn busy_with(&self, what: String, more: impl Fn() -> String + Clone + Send + Sync + 'static) -> ProgressBar {
        if self.json || !stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim} {more}").map(|style| {
            style.with_key("more", move |_: &ProgressState, line: &mut dyn std::fmt::Write| {
                let _ = line.write_str(&more());
            })
        });
        let bar = style.map_or(bar.clone(), |style| bar.with_style(style)).with_message(what);
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }
}

/// The width of the terminal behind stdout.
fn terminal_columns(stdout: &Stdout) -> Option<usize> {
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stdout).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
