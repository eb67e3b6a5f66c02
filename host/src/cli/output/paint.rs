//! Colours: what a piece of text means decides how it looks.
//!
//! Invariant: without permission to colour, text comes out unchanged.

use std::io::{Stderr, Stdout};

use anstream::{AutoStream, ColorChoice};
use clap::builder::styling::{AnsiColor, Style};

use crate::config::ColorMode;

/// What a piece of text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// The thing itself: a title, a name.
    Strong,
    /// Of lesser interest.
    Faint,
    /// As it should be.
    Good,
    /// Needs attention.
    Warn,
    /// Wrong.
    Bad,
    /// Something to type.
    Command,
}

/// Applies tones, or leaves text as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// For a stdout.
    #[must_use]
    pub fn for_stdout(mode: ColorMode, stdout: &Stdout) -> Self {
        Self::new(mode, || AutoStream::choice(stdout))
    }

    /// For a stderr.
    #[must_use]
    pub fn for_stderr(mode: ColorMode, stderr: &Stderr) -> Self {
        Self::new(mode, || AutoStream::choice(stderr))
    }

    fn new(mode: ColorMode, detect: impl Fn() -> ColorChoice) -> Self {
        let on = match mode {
            ColorMode::Always => true,
            ColorMode::Never => false,
            ColorMode::Auto => detect() != ColorChoice::Never,
        };
        Self { on }
    }

    /// Never colours.
    #[must_use]
    pub const fn off() -> Self {
        Self { on: false }
    }

    /// Whether it colours.
    #[must_use]
    pub const fn is_on(self) -> bool {
        self.on
    }

    /// The text in its tone. The text must be safe already.
    #[must_use]
    pub fn apply(self, tone: Tone, text: &str) -> String {
        if !self.on || tone == Tone::Plain || text.is_empty() {
            return text.to_owned();
        }
        let style = style_of(tone);
        format!("{style}{text}{style:#}")
    }
}

fn style_of(tone: Tone) -> Style {
    let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
    match tone {
        Tone::Plain => Style::new(),
        Tone::Strong => Style::new().bold(),
        Tone::Faint => Style::new().dimmed(),
        Tone::Good => color(AnsiColor::Green),
        Tone::Warn => color(AnsiColor::Yellow),
        Tone::Bad => color(AnsiColor::Red),
        Tone::Command => color(AnsiColor::Cyan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_permission_text_is_unchanged() {
        let paint = Paint::new(ColorMode::Auto, || ColorChoice::Never);
        assert_eq!(paint.apply(Tone::Bad, "x"), "x");
        assert_eq!(Paint::new(ColorMode::Always, || ColorChoice::Never).apply(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
    }
}
