//! The files of a new task, by language. They lie in `host/templates` as they are, but for the name; what
//! helps a task in JavaScript or TypeScript lies with the examples, which use it too.
//!
//! Invariants: every file of `host/templates` belongs to a template, and every typed one gets the WIT
//! package of this program. `{{task}}` stands for the name of the task, `{{package}}` for a name
//! that package managers take, which have other rules, `{{crate}}` for that name as Rust names files,
//! `{{sources}}` for what `wasmq dev` may watch, `{{verdict}}` and `{{exit}}` for how a task
//! gives up and how `wasmq run` leaves then.

use wasmq_core::TaskName;

use super::NewFile;
use super::language::Language;
use super::wit;

/// A file of a template.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Its path in the new folder.
    path: &'static str,
    bytes: &'static [u8],
}

macro_rules! parts {
    ($($path:literal from $source:literal,)*) => {
        &[$(Part { path: $path, bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/", $source)) },)*]
    };
}

const COMMON: &[Part] = parts! {
    "task.toml" from "common/task.toml",
    "test" from "common/test",
    "sample/expenses.csv" from "common/sample/expenses.csv",
    "sample/bad-amount.csv" from "common/sample/bad-amount.csv",
};

const RUST: &[Part] = parts! {
    ".gitignore" from "rust/gitignore",
    "Cargo.toml" from "rust/Cargo.toml.template",
    "README.md" from "rust/README.md",
    "build" from "rust/build",
    "src/lib.rs" from "rust/src/lib.rs",
};

const PYTHON: &[Part] = parts! {
    ".gitignore" from "python/gitignore",
    "README.md" from "python/README.md",
    "app.py" from "python/app.py",
    "build" from "python/build",
    "wasmq_task.py" from "../../guest-examples/python/wasmq_task.py",
};

const JAVASCRIPT: &[Part] = parts! {
    ".gitignore" from "javascript/gitignore",
    "README.md" from "javascript/README.md",
    "build" from "javascript/build",
    "package.json" from "javascript/package.json",
    "src/task.js" from "javascript/src/task.js",
    "src/wasmq-task.js" from "../../guest-examples/javascript/wasmq-task.js",
    "wit/script.wit" from "../../guest-examples/javascript/script.wit",
};

const TYPESCRIPT: &[Part] = parts! {
    ".gitignore" from "typescript/gitignore",
    "README.md" from "typescript/README.md",
    "build" from "typescript/build",
    "package.json" from "typescript/package.json",
    "src/task.ts" from "typescript/src/task.ts",
    "src/wasmq-task.ts" from "../../guest-examples/typescript/wasmq-task.ts",
    "src/wit.d.ts" from "../../guest-examples/typescript/wit.d.ts",
    "tsconfig.json" from "typescript/tsconfig.json",
    "wit/script.wit" from "../../guest-examples/javascript/script.wit",
};

const GO: &[Part] = parts! {
    ".gitignore" from "go/gitignore",
    "README.md" from "go/README.md",
    "build" from "go/build",
    "go.mod" from "go/go.mod.template",
    "main.go" from "go/main.go",
};

const C: &[Part] = parts! {
    ".gitignore" from "c/gitignore",
    "README.md" from "c/README.md",
    "bindings/task.c" from "c/bindings/task.c",
    "bindings/task.h" from "c/bindings/task.h",
    "bindings/task_component_type.o" from "c/bindings/task_component_type.o",
    "build" from "c/build",
    "src/handler.c" from "c/src/handler.c",
};

/// The parts that a language adds to the common ones.
const fn own(language: Language) -> &'static [Part] {
    match language {
        Language::Rust => RUST,
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
        Language::TypeScript => TYPESCRIPT,
        Language::Go => GO,
        Language::C => C,
    }
}

/// What there is to watch beside the samples, as a list of TOML without its brackets.
const fn sources(language: Language) -> &'static str {
    match language {
        Language::Python => "\"app.py\", \"wit\"",
        Language::Go => "\"main.go\", \"go.mod\"",
        _ => "\"src\", \"wit\"",
    }
}

/// The files of a new task, sorted by path.
pub(crate) fn files(language: Language, task: &TaskName) -> Vec<NewFile> {
    let typed = language.about().shape == "typed";
    let package = package(task);
    let places = [
        ("{{task}}", task.as_str()),
        ("{{package}}", &package),
        ("{{crate}}", &package.replace('-', "_")),
        ("{{sources}}", sources(language)),
        ("{{exit}}", if typed { "20" } else { "22" }),
        ("{{verdict}}", if typed { "error.permanent" } else { "exit.65" }),
    ];
    let mut files: Vec<NewFile> = COMMON.iter().chain(own(language)).map(|part| fill(part, &places)).collect();
    if typed {
        files.extend(wit::FILES.iter().map(|file| NewFile {
            path: format!("wit/{}", file.name),
            bytes: file.text.as_bytes().to_vec(),
            executable: false,
        }));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// A part with everything in its places. What is not text has no places.
fn fill(part: &Part, places: &[(&str, &str)]) -> NewFile {
    let bytes = str::from_utf8(part.bytes).map_or_else(
        |_| part.bytes.to_vec(),
        |text| places.iter().fold(text.to_owned(), |text, (place, value)| text.replace(place, value)).into_bytes(),
    );
    NewFile { path: part.path.to_owned(), bytes, executable: matches!(part.path, "build" | "test") }
}

/// A name for package managers: one that begins with a letter, has no dot and is no word of a language,
/// whatever the task is called.
fn package(task: &TaskName) -> String {
    format!("task-{}", task.as_str().replace('.', "-"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use sha2::{Digest as _, Sha256};

    use super::*;

    fn made(language: Language, name: &str) -> Vec<NewFile> {
        files(language, &name.parse().unwrap())
    }

    fn text(files: &[NewFile], path: &str) -> String {
        let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}"));
        String::from_utf8(file.bytes.clone()).unwrap()
    }

    #[test]
    fn every_template_has_what_the_tools_around_it_need() {
        for language in Language::ALL {
            let files = made(language, "sum-7");
            let settings: toml::Table = text(&files, "task.toml").parse().unwrap();
            assert_eq!(settings["task"].as_str(), Some("sum-7"));
            assert_eq!(
                (settings["build"].as_str(), settings["component"].as_str()),
                (Some("./build"), Some("task.wasm"))
            );
            let payload = settings["payload"].as_str().unwrap();
            assert!(files.iter().any(|file| file.path == payload), "{payload}");
            assert!(text(&files, ".gitignore").contains("/task.wasm\n"));
            assert!(text(&files, "README.md").starts_with("# sum-7\n"));
            let programs: Vec<&str> =
                files.iter().filter(|file| file.executable).map(|file| file.path.as_str()).collect();
            assert_eq!(programs, ["build", "test"]);
            let has_wit = files.iter().any(|file| file.path == "wit/world.wit");
            assert_eq!(has_wit, language != Language::Go);
        }
    }

    #[test]
    fn what_the_settings_offer_to_watch_is_there() {
        for language in Language::ALL {
            let files = made(language, "sum");
            let settings = text(&files, "task.toml").replace("# watch", "watch").parse::<toml::Table>().unwrap();
            let watched: Vec<&str> =
                settings["watch"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
            let is_in = |path: &str| files.iter().any(|file| Path::new(&file.path).starts_with(path));
            assert!(watched.len() == 2 && watched.iter().all(|path| is_in(path)), "{language:?}: {watched:?}");
        }
    }

    #[test]
    fn no_place_is_left_open_and_no_path_comes_twice() {
        for language in Language::ALL {
            let files = made(language, "a.b_c");
            for file in &files {
                let text = String::from_utf8_lossy(&file.bytes);
                let is_place = |rest: &str| rest.starts_with(|first: char| first.is_ascii_lowercase());
                assert!(!text.split("{{").skip(1).any(is_place), "{}", file.path);
            }
            let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths.len(), files.len());
        }
        let rust = made(Language::Rust, "a.b_c");
        assert!(text(&rust, "Cargo.toml").contains("name = \"task-a-b_c\"\n"));
        assert!(text(&rust, "build").contains("/task_a_b_c.wasm\" task.wasm\n"));
    }

    #[test]
    fn every_file_in_the_folder_of_templates_is_part_of_one() {
        fn visit(dir: &Path, found: &mut Vec<Vec<u8>>) {
            for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    visit(&entry.path(), found);
                } else {
                    found.push(std::fs::read(entry.path()).unwrap());
                }
            }
        }
        let mut found = Vec::new();
        visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("templates"), &mut found);
        let known: Vec<&[u8]> =
            Language::ALL.iter().flat_map(|language| own(*language)).chain(COMMON).map(|part| part.bytes).collect();
        assert!(found.iter().all(|bytes| known.contains(&bytes.as_slice())));
    }

    /// The lines that `sha256sum ./*.wit` prints.
    fn checksums() -> String {
        let mut files = wit::FILES.to_vec();
        files.sort_by_key(|file| file.name);
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        files.iter().map(|file| format!("{}  ./{}\n", hex(&Sha256::digest(file.text)), file.name)).collect()
    }

    #[test]
    fn what_was_made_of_the_wit_package_was_made_of_this_one() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-examples");
        for (made, sums) in [
            ("run guest-examples/c/generate-bindings", "c/wit.sha256"),
            (
                "bring guest-examples/typescript/wit.d.ts up to date, and write `cd wit && sha256sum ./*.wit` there",
                "typescript/wit.sha256",
            ),
        ] {
            let sums = std::fs::read_to_string(examples.join(sums)).unwrap();
            assert!(sums == checksums(), "the files in wit have changed; {made}");
        }
    }
}
