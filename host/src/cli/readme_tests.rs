//! What the README says of settings, phases and the service, held against the code.

use clap::Parser as _;

use super::args::{Cli, Command};
use crate::config::{self, Config, Source, settings};
use crate::queue::LivePhase;

const README: &str = include_str!("../../../README.md");

/// The block of code of a language, of which there is one.
fn block(language: &str) -> &'static str {
    let (_, after) = README.split_once(&format!("```{language}\n")).unwrap();
    after.split_once("```").unwrap().0
}

/// What the real loader makes of a file.
fn loaded(text: &str) -> Config {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wasmq.toml");
    std::fs::write(&path, text).unwrap();
    config::load(&[], |_| None, Some(&path)).unwrap()
}

#[test]
fn the_file_with_every_setting_is_understood_and_has_the_defaults() {
    let default = loaded("");
    let as_it_is = loaded(block("toml"));
    let all = loaded(&block("toml").replace("# workers", "workers"));
    for name in settings::names() {
        let origin = |config: &Config| config.origins.iter().find(|origin| origin.name == name).unwrap().clone();
        assert!(matches!(origin(&all).source, Source::File(_)), "{name} is missing");
        let (value, expected) = (origin(&as_it_is).value, origin(&default).value);
        assert!(value == expected || (name == "data" && value.ends_with(&expected)), "{name}: {value}");
    }
}

#[test]
fn every_phase_has_its_row() {
    for phase in [
        LivePhase::Ready,
        LivePhase::Delayed,
        LivePhase::AwaitingDeploy,
        LivePhase::Running { since: wasmq_core::Timestamp(0) },
        LivePhase::Orphaned,
        LivePhase::Exhausted,
    ] {
        assert!(README.contains(&format!("\n| `{}` |", phase.name())), "{}", phase.name());
    }
}

#[test]
fn the_service_has_options_that_exist_and_time_for_the_grace() {
    let value = |key: &str| block("ini").lines().find_map(|line| line.strip_prefix(key)).unwrap();
    let cli = Cli::try_parse_from(value("ExecStart=").split_whitespace()).unwrap();
    let Command::Serve(args) = &cli.command else { panic!("it does not serve") };
    let grace = config::load(&args.flags(), |_| None, None).unwrap().grace;
    let timeout: u64 = value("TimeoutStopSec=").parse().unwrap();
    assert!(timeout * 1000 > grace.0 + 5000, "{timeout} s for a grace time of {grace}");
    assert!(value("StateDirectory=") == "wasmq" && cli.global.data.is_some_and(|data| data == "/var/lib/wasmq"));
}
