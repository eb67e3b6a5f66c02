//! `cargo bench -p wasmq`: what wasmq reaches, beside what this machine can do at most.
//!
//! Every figure stands beside the raw limit measured in the same run: the plainest loop that does
//! the same work without any of the product. Both take turns, round by round, and medians are
//! compared, because machines are noisy; read the ratios, not the absolute figures.
//!
//! One JSON document goes to stdout (or to `--json FILE`), a table for people to stderr.
//!
//! ```text
//! cargo bench -p wasmq                      everything, about five minutes
//! cargo bench -p wasmq -- --quick           small counts, to see that it works
//! cargo bench -p wasmq -- --only tasks      enqueue, tasks, drain, memory or languages
//! cargo bench -p wasmq -- --concurrency 64  attempts at the same time in a worker
//! ```
//!
//! Deliberately absent: assertions. A slow machine fails no build; the table says what was missed.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark measures with the plainest tools of the standard library and prints what it found"
)]

mod directory;
mod drain;
mod enqueue;
mod feed;
mod guest;
mod languages;
mod memory;
mod procfs;
mod raw_commit;
mod raw_loop;
mod report;
mod server;
mod tasks;

use std::path::PathBuf;

use report::Report;

/// That of the product, so that a raw limit is not held back by another one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Anything that stops a benchmark.
pub(crate) type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// How often each side has its turn.
    pub(crate) rounds: usize,
    /// No-op tasks in a turn.
    pub(crate) tasks: usize,
    /// How long a turn of single enqueues takes, in milliseconds.
    pub(crate) enqueue_ms: u64,
    /// How long a turn of calls of one guest takes, in milliseconds.
    pub(crate) calls_ms: u64,
    /// Tasks that are enqueued first and drained then.
    pub(crate) drained: usize,
    /// Attempts at the same time in a worker; the product's default unless asked for.
    pub(crate) concurrency: usize,
}

impl Scale {
    const FULL: Self =
        Self { rounds: 5, tasks: 200_000, enqueue_ms: 1500, calls_ms: 500, drained: 200_000, concurrency: 16 };
    const QUICK: Self =
        Self { rounds: 1, tasks: 20_000, enqueue_ms: 300, calls_ms: 100, drained: 20_000, concurrency: 16 };
}

struct Wanted {
    scale: Scale,
    only: Option<String>,
    json: Option<PathBuf>,
}

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(raw_loop::ROLE) => raw_loop::child(arguments.get(1..).unwrap_or_default()),
        Some(memory::ROLE) => memory::child(arguments.get(1..).unwrap_or_default()),
        _ => measure(&wanted(arguments)?),
    }
}

fn wanted(arguments: Vec<String>) -> Fallible<Wanted> {
    let mut wanted = Wanted { scale: Scale::FULL, only: None, json: None };
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo passes it to every benchmark.
            "--bench" => {}
            "--quick" => wanted.scale = Scale { concurrency: wanted.scale.concurrency, ..Scale::QUICK },
            "--concurrency" => {
                wanted.scale.concurrency = arguments.next().ok_or("--concurrency takes a number")?.parse()?
            }
            "--only" => wanted.only = arguments.next(),
            "--json" => wanted.json = arguments.next().map(PathBuf::from),
            other => {
                return Err(format!(
                    "unknown option {other}; there are --quick, --only NAME, --concurrency N and --json FILE"
                )
                .into());
            }
        }
    }
    Ok(wanted)
}

type Part = (&'static str, fn(Scale, &mut Report) -> Fallible<()>);

const PARTS: [Part; 5] = [
    ("enqueue", enqueue::measure),
    ("tasks", tasks::measure),
    ("drain", drain::measure),
    ("memory", memory::measure),
    ("languages", languages::measure),
];

fn measure(wanted: &Wanted) -> Fallible<()> {
    let mut report = Report::new(wanted.scale);
    let chosen = |name: &str| wanted.only.as_ref().is_none_or(|only| only == name);
    if !PARTS.iter().any(|(name, _)| chosen(name)) {
        return Err("--only takes enqueue, tasks, drain, memory or languages".into());
    }
    for (name, part) in PARTS.iter().filter(|(name, _)| chosen(name)) {
        eprintln!("measuring {name} ...");
        part(wanted.scale, &mut report)?;
    }
    eprint!("{}", report.table());
    let json = report.json()?;
    match &wanted.json {
        Some(path) => std::fs::write(path, json + "\n")?,
        None => println!("{json}"),
    }
    Ok(())
}
