//! `new` and `wit`: a folder with a task that builds, and the package it is built against.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::privileges::skipped;
use crate::world::{World, repository};

const LANGUAGES: [&str; 6] = ["rust", "python", "javascript", "typescript", "go", "c"];

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn new_makes_a_folder_with_the_package_and_programs_and_says_what_to_type() {
    let world = World::new();
    for language in LANGUAGES {
        let task = format!("sum-{language}");
        let made = world.run(&["new", &task, "--lang", language]).ok();
        assert!(made.stderr.contains(&format!("cd {task} && ./build && ./test")), "{}", made.stderr);
        assert!(made.stderr.contains(&format!("wasmq deploy {task} task.wasm")), "{}", made.stderr);
        let folder = world.path(&task);
        for program in ["build", "test"] {
            assert!(folder.join(program).metadata().unwrap().permissions().mode() & 0o111 != 0, "{program}");
        }
        assert!(std::fs::read_to_string(folder.join("task.toml")).unwrap().contains(&format!("task = \"{task}\"\n")));
        let wit = folder.join("wit");
        assert_eq!(wit.exists(), language != "go");
        if wit.exists() {
            let states = world.run(&["wit", wit.to_str().unwrap()]).ok().text();
            assert_eq!(states.matches("unchanged ").count(), 4, "{states}");
        }
    }
    assert!(!world.data().exists(), "new stores nothing");
    assert_eq!(names(&world.path(".")).len(), LANGUAGES.len(), "nothing is left over");
}

#[test]
fn new_in_json_names_the_folder_and_every_file() {
    let world = World::new();
    let made = world.run(&["new", "sum", "--lang", "ts", "--dir", "deep/er/place", "--json"]).ok().json();
    assert_eq!((&made["task"], &made["language"]), (&"sum".into(), &"typescript".into()));
    assert_eq!(made["dir"], "deep/er/place");
    let files = made["files"].as_array().unwrap();
    assert!(files.contains(&"wit/world.wit".into()) && files.contains(&".gitignore".into()), "{files:?}");
    assert!(files.iter().all(|file| world.path("deep/er/place").join(file.as_str().unwrap()).is_file()));
}

#[test]
fn new_fills_an_empty_folder_and_touches_nothing_else() {
    let world = World::new();
    std::fs::create_dir(world.path("empty")).unwrap();
    let mut here = world.command(&["new", "sum", "--lang", "c", "--dir", "."]);
    assert!(here.current_dir(world.path("empty")).output().unwrap().status.success());
    let before = names(&world.path("empty"));
    assert!(before.contains(&"task.toml".to_owned()), "{before:?}");
    world.run(&["new", "sum", "--lang", "rust", "--dir", "empty"]).fails(5, "empty exists and is not an empty folder");
    assert_eq!(names(&world.path("empty")), before);
    world.file("file", b"mine");
    world.run(&["new", "file", "--lang", "rust", "--json"]).fails(5, "not-empty");
    assert_eq!(std::fs::read(world.path("file")).unwrap(), b"mine");
}

#[test]
fn new_takes_the_name_of_a_task_and_no_path() {
    let world = World::new();
    for name in ["7", "a.b_c-d", &"x".repeat(63)] {
        world.run(&["new", name, "--lang", "go"]).ok();
        assert!(world.path(name).join("go.mod").exists());
    }
    world.run(&["new", "tasks/sum", "--lang", "go"]).fails(2, "wasmq new sum --dir tasks/sum");
    world.run(&["new", "../sum", "--lang", "go", "--json"]).fails(2, "is a path");
    for name in ["", "Sum", "..", "ä", &"x".repeat(64)] {
        let ran = world.run(&["new", name, "--lang", "go"]).fails(2, "a task name");
        assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{}", ran.stderr);
    }
    assert_eq!(names(&world.path(".")).len(), 3);
}

#[test]
fn new_without_a_language_or_with_an_unknown_one_names_them_all() {
    let world = World::new();
    for arguments in [&["new", "sum"][..], &["new", "sum", "--lang", "cobol"], &["new", "sum", "--lang", ""]] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(LANGUAGES.iter().all(|language| ran.stderr.contains(language)), "{arguments:?}: {}", ran.stderr);
        assert!(!world.path("sum").exists());
    }
    world.run(&["new"]).fails(2, "NAME");
}

#[test]
fn the_list_is_aligned_and_in_json_an_object_a_language() {
    let world = World::new();
    let list = world.run(&["new", "--list"]).ok().text();
    let needs = list.lines().next().unwrap().find("NEEDS").unwrap();
    assert_eq!(list.lines().count(), 1 + LANGUAGES.len());
    for (line, language) in list.lines().skip(1).zip(LANGUAGES) {
        assert!(line.starts_with(language) && line[..needs].ends_with("  ") && line.len() > needs, "{line}");
    }
    let lines = world.run(&["new", "--list", "--json"]).ok().lines();
    assert_eq!(lines.iter().map(|line| line["name"].as_str().unwrap()).collect::<Vec<_>>(), LANGUAGES);
    assert!(lines.iter().all(|line| line["needs"].is_string() && line["kind"].is_string()));
}

#[test]
fn wit_writes_the_package_once_and_never_over_something_else_unasked() {
    let world = World::new();
    let states = |arguments: &[&str]| {
        let lines = world.run(&[&["wit", "--json"], arguments].concat()).ok().lines();
        lines.iter().map(|line| line["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(states(&[]), ["written"; 4]);
    for name in names(&repository().join("wit")).iter().filter(|name| name.ends_with(".wit")) {
        let (ours, theirs) = (world.path("wit").join(name), repository().join("wit").join(name));
        assert_eq!(std::fs::read(ours).unwrap(), std::fs::read(theirs).unwrap(), "{name}");
    }
    assert_eq!(states(&[]), ["unchanged"; 4]);
    std::fs::write(world.path("wit/host.wit"), "mine").unwrap();
    std::fs::remove_file(world.path("wit/world.wit")).unwrap();
    world.run(&["wit"]).fails(5, "wit/host.wit differs from the package wasmq:task@");
    world.run(&["wit", "--json"]).fails(5, "\"differs\"");
    assert_eq!(std::fs::read(world.path("wit/host.wit")).unwrap(), b"mine");
    assert!(!world.path("wit/world.wit").exists(), "nothing is written when one file is in the way");
    assert_eq!(states(&["--force"]), ["unchanged", "unchanged", "replaced", "written"]);
    world.run(&["wit", "wit/host.wit"]).fails(1, "wit/host.wit");
}

#[test]
fn wit_prints_the_package_as_one_document() {
    let world = World::new();
    let document = world.run(&["wit", "--stdout"]).ok().text();
    assert!(document.starts_with("package wasmq:task@") && document.matches("package ").count() == 1, "{document}");
    assert!(document.contains("handle: func(") && document.contains("world task {"), "{document}");
    assert_eq!(world.run(&["wit", "--stdout", "--json"]).ok().json()["document"], document);
    world.run(&["wit", "elsewhere", "--stdout"]).fails(2, "--stdout");
    assert!(names(&world.path(".")).is_empty());
}

// --- from new to a completed invocation ----------------------------------------------------------

/// Where guest-examples/build keeps its tools.
fn tools() -> PathBuf {
    repository().join("guest-examples/target/tools")
}

/// Downloads and what is compiled once for all runs, away from what belongs to whoever runs the tests.
fn kept(name: &str) -> String {
    let dir = tools().join("templates").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir.into_os_string().into_string().unwrap()
}

/// Whether a program can be run. Says so when it cannot.
fn is_there(program: &Path, argument: &str, language: &str) -> bool {
    let ran = Command::new(program).arg(argument).output();
    let there = ran.as_ref().is_ok_and(|output| output.status.success());
    if !there {
        let what = format!("the template for {language} is not built, because {} does not run", program.display());
        skipped(&what, &ran);
    }
    there
}

/// A new task of a language in a world of its own.
struct Project {
    world: World,
    language: &'static str,
    variables: Vec<(&'static str, String)>,
}

impl Project {
    fn new(language: &'static str) -> Self {
        let world = World::new();
        world.run(&["new", "sum", "--lang", language]).ok();
        Self { world, language, variables: Vec::new() }
    }

    /// The same with a variable for `./build`.
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Runs a program of the folder; returns whether it succeeded, and what it said.
    fn script(&self, program: &str) -> (bool, String) {
        let folder = self.world.path("sum");
        let mut command = Command::new(folder.join(program));
        command.current_dir(&folder).stdin(std::process::Stdio::null());
        // Flags from outside would take the place of those that the target needs.
        let of_others = |name: &str| name.starts_with("WASMQ") || name.ends_with("RUSTFLAGS");
        for (name, _) in std::env::vars().filter(|(name, _)| of_others(name)) {
            command.env_remove(name);
        }
        command.env("WASMQ", env!("CARGO_BIN_EXE_wasmq")).envs(self.variables.iter().cloned());
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    #[track_caller]
    fn succeeds(&self, program: &str) -> String {
        let (succeeded, said) = self.script(program);
        assert!(succeeded, "./{program} of {}: {said}", self.language);
        said
    }

    /// The way of every new task: build, test, deploy, enqueue, see it completed.
    #[track_caller]
    fn goes_all_the_way(&self) {
        let (succeeded, said) = self.script("test");
        assert!(!succeeded && said.contains("run ./build first"), "{said}");
        self.succeeds("build");
        assert!(self.succeeds("test").contains("as expected"));
        let deployed = self.world.deploy_as("sum", &self.world.path("sum/task.wasm"), &[]);
        assert_eq!(deployed["version"], "v1", "{deployed}");
        let sample = format!("@{}", self.world.path("sum/sample/expenses.csv").display());
        let (done, code) = self.world.wait_for(&["sum", &sample]);
        assert_eq!((code, &done["verdict"]), (0, &"completed".into()), "{done}");
        assert_eq!(done["output"]["text"], "{\"items\":3,\"total\":4125}\n");
        let bad = format!("@{}", self.world.path("sum/sample/bad-amount.csv").display());
        let (_, code) = self.world.wait_for(&["sum", &bad]);
        assert!(code != 0 && self.world.dead().len() == 1, "a bad payload is dead at the first attempt");
    }

    /// A test that cannot fail is none.
    #[track_caller]
    fn notices_a_wrong_output(&self) {
        let other = self.world.path("sum/sample/expenses.csv");
        std::fs::write(other, "coffee,351\n").unwrap();
        let (succeeded, said) = self.script("test");
        assert!(!succeeded && said.contains("expected: {\"items\":3,\"total\":4125}"), "{said}");
        assert!(said.contains("found:    {\"items\":1,\"total\":351}"), "{said}");
    }
}

/// Where the target is not installed: what guest-examples/build does then, as a file of cargo above the
/// new folder. Its compiler and linker are those that guest-examples/build has set up.
fn let_cargo_build_for_wasm(project: Project) -> Project {
    let asked = Command::new("rustc").args(["--print", "target-libdir", "--target", "wasm32-wasip2"]).output().unwrap();
    if Path::new(String::from_utf8_lossy(&asked.stdout).trim()).is_dir() {
        return project;
    }
    let linker = repository().join("guest-examples/target/wasip2-ld");
    let settings = format!(
        "[build]\nrustc = \"/usr/bin/rustc\"\n[unstable]\nbuild-std = [\"std\", \"panic_abort\"]\n\
         [target.wasm32-wasip2]\nlinker = \"{}\"\n\
         rustflags = [\"-Clink-self-contained=no\", \"-Lnative=/usr/lib/wasm32-wasi\"]\n",
        linker.display()
    );
    std::fs::create_dir(project.world.path(".cargo")).unwrap();
    project.world.file(".cargo/config.toml", settings.as_bytes());
    project.with("RUSTC_BOOTSTRAP", "1")
}

#[test]
fn a_new_task_in_rust_goes_all_the_way() {
    let target = kept("rust");
    let project = let_cargo_build_for_wasm(Project::new("rust").with("CARGO_TARGET_DIR", target));
    project.goes_all_the_way();
    project.notices_a_wrong_output();
}

#[test]
fn a_new_task_in_python_goes_all_the_way() {
    if is_there(Path::new("python3"), "--version", "python") {
        Project::new("python").with("PIP_CACHE_DIR", kept("pip")).goes_all_the_way();
    }
}

#[test]
fn new_tasks_in_javascript_and_typescript_go_all_the_way() {
    for language in ["javascript", "typescript"] {
        if is_there(Path::new("npm"), "--version", language) {
            Project::new(language).with("npm_config_cache", kept("npm")).goes_all_the_way();
        }
    }
}

#[test]
fn typescript_that_does_not_type_check_is_not_built() {
    if is_there(Path::new("npm"), "--version", "typescript") {
        let project = Project::new("typescript").with("npm_config_cache", kept("npm"));
        let source = project.world.path("sum/src/task.ts");
        let text = std::fs::read_to_string(&source).unwrap();
        std::fs::write(source, text.replace("tag: \"permanent\"", "tag: \"forever\"")).unwrap();
        let (succeeded, said) = project.script("build");
        assert!(!succeeded && said.contains("forever") && said.contains("src/task.ts"), "{said}");
    }
}

#[test]
fn a_new_task_in_go_goes_all_the_way() {
    // Where guest-examples/go/build puts it, before those on the path.
    let own = tools().join("go/venv/bin");
    let go = if own.join("go").exists() { own.join("go") } else { PathBuf::from("go") };
    if is_there(&go, "version", "go") {
        let path = std::env::var("PATH").unwrap();
        let project = Project::new("go").with("PATH", format!("{}:{path}", own.display()));
        let project = project.with("GOCACHE", kept("go"));
        project.goes_all_the_way();
        project.notices_a_wrong_output();
    }
}

#[test]
fn a_new_task_in_c_goes_all_the_way() {
    // Without clang the build gets Zig with Python's pip.
    let clang = Command::new("clang").arg("--version").output().is_ok();
    if clang || is_there(Path::new("python3"), "--version", "c") {
        Project::new("c").with("PIP_CACHE_DIR", kept("pip")).goes_all_the_way();
    }
}

#[test]
fn a_build_without_its_tools_says_what_to_install() {
    for (language, says) in [
        ("rust", "install Rust"),
        ("python", "install Python 3.10"),
        ("javascript", "install Node.js 20"),
        ("typescript", "install Node.js 20"),
        ("go", "install Go 1.21"),
        ("c", "install clang, lld and wasi-libc"),
    ] {
        // Only what a shell script itself needs.
        let project = Project::new(language);
        let tools = project.world.path("tools");
        std::fs::create_dir(&tools).unwrap();
        for tool in ["dirname", "rm"] {
            let found =
                ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(tool)).into_iter().find(|path| path.exists());
            std::os::unix::fs::symlink(found.unwrap(), tools.join(tool)).unwrap();
        }
        let project = project.with("PATH", tools.display().to_string());
        let (succeeded, said) = project.script("build");
        let sentences: Vec<&str> = said.lines().filter(|line| line.starts_with("build: ")).collect();
        assert!(!succeeded && sentences.len() == 1 && sentences[0].contains(says), "{language}: {said}");
    }
}

#[test]
fn the_test_of_a_template_without_wasmq_says_how_to_name_it() {
    let project = Project::new("python").with("WASMQ", "/no/such/wasmq");
    let (succeeded, said) = project.script("test");
    assert!(!succeeded && said.contains("WASMQ=/path/to/wasmq ./test"), "{said}");
}
