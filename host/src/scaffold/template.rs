//! The files of a new task, by language. They lie in `host/templates` as they are, but for the name.
//!
//! Invariants: every file of `host/templates` belongs to a template, and every typed one gets the WIT
//! package of this program. `{{task}}` stands for the name of the task, `{{package}}` for a name
//! that package managers take, which have other rules, `{{verdict}}` and `{{exit}}` for how a task
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
};

const JAVASCRIPT: &[Part] = parts! {
    ".gitignore" from "javascript/gitignore",
    "README.md" from "javascript/README.md",
    "build" from "javascript/build",
    "package.json" from "javascript/package.json",
    "src/task.js" from "javascript/src/task.js",
    "src/utf8.js" from "javascript/src/utf8.js",
};

const TYPESCRIPT: &[Part] = parts! {
    ".gitignore" from "typescript/gitignore",
    "README.md" from "typescript/README.md",
    "build" from "typescript/build",
    "package.json" from "typescript/package.json",
    "src/task.ts" from "typescript/src/task.ts",
    "src/utf8.ts" from "typescript/src/utf8.ts",
    "src/wasmq.d.ts" from "typescript/src/wasmq.d.ts",
    "tsconfig.json" from "typescript/tsconfig.json",
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

/// The files of a new task, sorted by path.
pub(crate) fn files(language: Language, task: &TaskName) -> Vec<NewFile> {
    let typed = language.about().shape == "typed";
    let mut files: Vec<NewFile> = COMMON.iter().chain(own(language)).map(|part| fill(part, task, typed)).collect();
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
fn fill(part: &Part, task: &TaskName, typed: bool) -> NewFile {
    let (exit, verdict) = if typed { ("20", "error.permanent") } else { ("22", "exit.65") };
    let package = package(task);
    let places = [("{{task}}", task.as_str()), ("{{package}}", &package), ("{{exit}}", exit), ("{{verdict}}", verdict)];
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
    fn no_place_is_left_open_and_no_path_comes_twice() {
        for language in Language::ALL {
            let files = made(language, "a.b_c");
            for file in &files {
                let text = String::from_utf8_lossy(&file.bytes);
                for place in ["{{task}}", "{{package}}", "{{exit}}", "{{verdict}}"] {
                    assert!(!text.contains(place), "{place} in {}", file.path);
                }
            }
            let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths.len(), files.len());
        }
        assert!(text(&made(Language::Rust, "a.b_c"), "Cargo.toml").contains("name = \"task-a-b_c\"\n"));
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
        assert_eq!(found.len(), known.len());
        assert!(found.iter().all(|bytes| known.contains(&bytes.as_slice())));
    }

    /// The names of the fields and functions of the WIT package.
    fn wit_names() -> Vec<&'static str> {
        let lines = wit::FILES.iter().flat_map(|file| file.text.lines()).map(str::trim);
        let named = lines.filter(|line| !line.starts_with("//")).filter_map(|line| line.split_once(": "));
        named.map(|(name, _)| name).collect()
    }

    #[test]
    fn what_was_made_of_the_wit_package_knows_all_that_is_in_it() {
        let types = text(&made(Language::TypeScript, "t"), "src/wasmq.d.ts");
        let header = text(&made(Language::C, "t"), "bindings/task.h");
        assert!(wit_names().contains(&"attempt-number") && wit_names().len() > 20);
        for name in wit_names() {
            assert!(types.contains(&camel_case(name)), "{name} in wasmq.d.ts");
            assert!(header.contains(&name.replace('-', "_")), "{name} in task.h");
        }
        for interface in ["types", "handler", "host"] {
            let whole = format!("wasmq:task/{interface}@{}", crate::runtime::WIT_VERSION);
            assert!(types.contains(&whole), "{whole} in wasmq.d.ts");
            assert!(interface == "types" || header.contains(&whole), "{whole} in task.h");
        }
    }

    fn camel_case(name: &str) -> String {
        let mut parts = name.split('-');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |name, part| format!("{name}{}{}", part[..1].to_uppercase(), &part[1..]))
    }
}
