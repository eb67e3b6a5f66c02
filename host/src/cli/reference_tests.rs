//! The whole command line reference as one golden file, so that a changed help text shows in review.

use std::fmt::Write as _;

use clap::CommandFactory as _;

use super::args::Cli;

/// Every help text, in the order of the commands. Global options stand only in the first.
fn reference() -> String {
    let mut root = Cli::command().term_width(100);
    root.build();
    let mut out = String::from("The command line of wasmq, as `--help` prints it.\n");
    add(&mut root, &mut out);
    out
}

fn add(command: &mut clap::Command, out: &mut String) {
    let name = command.get_display_name().unwrap_or(command.get_name()).replace('-', " ");
    let help = command.render_long_help().to_string();
    let help = if name == "wasmq" { help } else { without_global_options(&help) };
    let _ = write!(out, "\n{}\n$ {name} --help\n\n{}\n", "=".repeat(100), help.trim_end());
    for child in command.get_subcommands_mut().filter(|child| !child.is_hide_set()) {
        add(child, out);
    }
}

fn without_global_options(help: &str) -> String {
    let Some((before, rest)) = help.split_once("Global options:\n") else { return help.to_owned() };
    let after = rest.lines().skip_while(|line| line.is_empty() || line.starts_with(' '));
    format!("{before}{}", after.collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_reference_is_as_reviewed() {
    insta::assert_snapshot!("cli-reference", reference());
}

#[test]
fn the_definition_of_the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn no_option_of_a_command_takes_the_place_of_a_global_one() {
    fn visit(command: &clap::Command, global: &[clap::Id]) {
        for argument in command.get_arguments().filter(|argument| global.contains(argument.get_id())) {
            assert!(argument.is_global_set(), "{} of {}", argument.get_id(), command.get_name());
        }
        command.get_subcommands().for_each(|child| visit(child, global));
    }
    let root = Cli::command();
    let global: Vec<_> = root
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .map(|argument| argument.get_id().clone())
        .collect();
    assert_eq!(global.len(), 6);
    root.get_subcommands().for_each(|child| visit(child, &global));
}

#[test]
fn every_command_has_an_example_and_sentences() {
    fn visit(command: &clap::Command) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && about.chars().next().unwrap().is_uppercase(), "{}", command.get_name());
        let leaf = command.get_subcommands().next().is_none();
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(!leaf || after.contains("wasmq"), "{} has no example", command.get_name());
        command.get_subcommands().filter(|child| !child.is_hide_set()).for_each(visit);
    }
    visit(&Cli::command());
}
