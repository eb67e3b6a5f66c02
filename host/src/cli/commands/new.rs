//! `wasmq new`: a folder with everything for a new task.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::json;
use wasmq_core::TaskName;

use crate::cli::context::{Context, shell_word};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::output::paint::Tone;
use crate::cli::output::safe::safe;
use crate::cli::output::table::{Cell, Table};
use crate::scaffold::{self, Language, NewFile, ScaffoldError};

/// What stands under the list.
const NOTES: &str = "\
typed: sees attempt number and metadata, logs, and fails in words; command: stdin, stdout and an exit code
START: what each attempt takes before the task's own code; DEPLOY: compiling a version, once; both are rough";

/// Make a folder with a new task: source, build, test, sample payloads.
///
/// The task is small and works: `./build` makes its component, `./test` runs it with `wasmq run`.
/// Nothing is fetched here. What the build needs it says, or gets into the folder itself. A folder
/// that is not empty is never touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  wasmq new --list
  wasmq new resize --lang rust
  wasmq new resize --lang python --dir tasks/resize

Then: cd resize && ./build && ./test && wasmq deploy resize task.wasm")]
pub struct Args {
    /// The name of the task, and of the folder.
    #[arg(required_unless_present = "list")]
    pub name: Option<String>,
    /// The language.
    #[arg(long, value_name = "LANGUAGE", value_parser = language_parser())]
    lang: Option<Language>,
    /// The folder, if it is to have another name or place. [default: NAME]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// List the languages: what a task in it is like and what it takes to build one.
    #[arg(long, conflicts_with_all = ["name", "lang", "dir"])]
    pub list: bool,
}

fn language_parser() -> impl TypedValueParser<Value = Language> {
    let values = Language::ALL.map(|language| {
        let about = language.about();
        PossibleValue::new(about.name).aliases(about.aliases)
    });
    PossibleValuesParser::new(values).try_map(|name| Language::find(&name).ok_or("there is no such language"))
}

/// Makes the folder and says what to do in it; or lists the languages.
///
/// # Errors
/// When the name or the language is missing or wrong, the folder is not empty or cannot be written.
pub fn run(args: &Args, context: &mut Context) -> Result<Exit, CliError> {
    let Some(name) = args.name.as_deref().filter(|_| !args.list) else {
        list(context)?;
        return Ok(Exit::Ok);
    };
    if name.contains('/') {
        return Err(ScaffoldError::NotAName(name.to_owned()).into());
    }
    let task: TaskName = name.parse()?;
    let language = args.lang.ok_or(ScaffoldError::NoLanguage)?;
    let folder = args.dir.clone().unwrap_or_else(|| name.into());
    let files = scaffold::files(language, &task);
    scaffold::make(&folder, &files)?;
    tell(&task, language, &folder, &files, context)?;
    Ok(Exit::Ok)
}

fn tell(
    task: &TaskName,
    language: Language,
    folder: &Path,
    files: &[NewFile],
    context: &mut Context,
) -> Result<(), CliError> {
    let name = language.about().name;
    let shown = folder.display().to_string();
    let program = context.program();
    let out = &mut context.out;
    if out.is_json() {
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        return out.json(&json!({ "task": task, "language": name, "dir": shown, "files": paths }));
    }
    out.line(format_args!("made {}, a task in {name}, {} files", safe(&shown), files.len()))?;
    let enter = if shown == "." { String::new() } else { format!("cd {} && ", safe(&shell_word(&shown))) };
    out.next_step("build and test it", &format!("{enter}./build && ./test"));
    out.next_step("deploy it", &format!("{program} deploy {task} task.wasm"));
    Ok(())
}

fn list(context: &mut Context) -> Result<(), CliError> {
    let abouts = Language::ALL.map(Language::about);
    if context.out.is_json() {
        return abouts.iter().try_for_each(|about| {
            context.out.json(&json!({
                "name": about.name,
                "aliases": about.aliases,
                "kind": about.shape,
                "size": about.size,
                "start": about.start,
                "deploy": about.deploy,
                "needs": about.needs,
            }))
        });
    }
    let mut table = Table::new(&["LANGUAGE", "KIND", ">SIZE", ">START", ">DEPLOY", "NEEDS"]).uncut();
    for about in abouts {
        table.row([
            Cell::new(about.name, Tone::Strong),
            Cell::plain(about.shape),
            Cell::plain(about.size),
            Cell::plain(about.start),
            Cell::plain(about.deploy),
            Cell::plain(about.needs),
        ]);
    }
    context.out.table(&table)?;
    context.out.note(NOTES);
    Ok(())
}
