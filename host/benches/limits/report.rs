//! The figures, their raw limits and their targets; as a table and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{Fallible, Scale, procfs};

/// What has to be reached.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// At least this share of the limit.
    Share(f64),
    /// At most so many times the limit.
    Times(f64),
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Only to be looked at.
    None,
}

/// One figure.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// One value for each round.
    pub(crate) measured: Vec<f64>,
    /// What the plainest loop reached in the same rounds; empty where there is no such loop.
    pub(crate) limit: Vec<f64>,
    pub(crate) target: Target,
    pub(crate) note: String,
}

/// The middle value; the mean of the two middle ones of an even number; 0 of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.get((sorted.len().max(1) - 1) / 2..=sorted.len() / 2).unwrap_or(&sorted);
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

impl Figure {
    fn ratio(&self) -> Option<f64> {
        let limit = median(&self.limit);
        (limit > 0.0).then(|| median(&self.measured) / limit)
    }

    fn met(&self) -> Option<bool> {
        let value = median(&self.measured);
        match self.target {
            Target::Share(share) => self.ratio().map(|ratio| ratio >= share),
            Target::Times(times) => self.ratio().map(|ratio| ratio <= times),
            Target::AtLeast(least) => Some(value >= least),
            Target::AtMost(most) => Some(value <= most),
            Target::None => None,
        }
    }

    fn wanted(&self) -> String {
        match self.target {
            Target::Share(share) => format!(">= {:.0} % of limit", share * 100.0),
            Target::Times(times) => format!("<= {times} x limit"),
            Target::AtLeast(least) => format!(">= {least}"),
            Target::AtMost(most) => format!("<= {most}"),
            Target::None => String::new(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "unit": self.unit,
            "measured": median(&self.measured),
            "limit": if self.limit.is_empty() { None } else { Some(median(&self.limit)) },
            "ratio": self.ratio(),
            "target": self.wanted(),
            "met": self.met(),
            "rounds": self.measured,
            "limit_rounds": self.limit,
            "note": self.note,
        })
    }
}

/// All figures of a run.
#[derive(Debug)]
pub(crate) struct Report {
    scale: Scale,
    figures: Vec<Figure>,
    details: Vec<(&'static str, Value)>,
}

impl Report {
    pub(crate) fn new(scale: Scale) -> Self {
        Self { scale, figures: Vec::new(), details: Vec::new() }
    }

    pub(crate) fn add(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// Something that explains the figures.
    pub(crate) fn explain(&mut self, name: &'static str, value: Value) {
        self.details.push((name, value));
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut table = format!(
            "\n{:<52} {:>12} {:>12} {:>7}  {:<18} {}\n",
            "figure", "measured", "raw limit", "ratio", "target", ""
        );
        for figure in &self.figures {
            let limit = if figure.limit.is_empty() { String::new() } else { number(median(&figure.limit)) };
            let ratio = figure.ratio().map(|ratio| format!("{:.0} %", ratio * 100.0)).unwrap_or_default();
            let met = figure.met().map_or("", |met| if met { "met" } else { "MISSED" });
            let name = format!("{} [{}]", figure.name, figure.unit);
            let measured = number(median(&figure.measured));
            // Writing to a String cannot fail.
            let _ = writeln!(table, "{name:<52} {measured:>12} {limit:>12} {ratio:>7}  {:<18} {met}", figure.wanted());
            if !figure.note.is_empty() {
                let _ = writeln!(table, "    {}", figure.note);
            }
        }
        table
    }

    /// For programs.
    pub(crate) fn json(&self) -> Fallible<String> {
        let details: serde_json::Map<String, Value> =
            self.details.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let document = json!({
            "benchmark": "limits",
            "cores": std::thread::available_parallelism()?.get(),
            "rounds": self.scale.rounds,
            "concurrency": self.scale.concurrency,
            "load_average_at_end": procfs::load_average()?,
            "figures": self.figures.iter().map(Figure::json).collect::<Vec<_>>(),
            "details": details,
        });
        Ok(serde_json::to_string_pretty(&document)?)
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
