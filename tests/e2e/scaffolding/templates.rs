//! What `new` makes of every template builds, passes its own test and answers as the others do.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::names;
use super::project::{Project, is_there, kept, left_out, tools};
use crate::world::repository;

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
    let called = |name| let_cargo_build_for_wasm(Project::called(name, "rust").with("CARGO_TARGET_DIR", kept("rust")));
    let project = called("sum");
    project.goes_all_the_way();
    project.notices_a_wrong_output();

    // The same cargo folder, where the files of both lie side by side.
    let other = called("other").with_text("src/lib.rs", "\"not-text\"", "\"other\"");
    other.succeeds("build");
    let component = |project: &Project| std::fs::read(project.world.path("sum/task.wasm")).unwrap();
    let before = component(&project);
    project.succeeds("build");
    assert!(component(&project) == before && component(&other) != before, "each gets its own component");
}

/// What Python imports late by itself, and what a folder that was moved leaves behind.
#[test]
fn a_new_task_in_python_goes_all_the_way() {
    if is_there(Path::new("python3"), "--version", "python") {
        let project = Project::new("python")
            .with("PIP_CACHE_DIR", kept("pip"))
            .with_text("app.py", "import re\n", "import re\nfrom datetime import datetime\n")
            .with_text(
                "app.py",
                "    total = 0\n",
                "    total = 0\n    datetime.strptime(b\"\\xff\\xfe2\\x000\\x002\\x006\\x00\".decode(\"utf-16\"), \"%Y\")\n    \
                 if text == \"number\":\n        return 5\n    if text == \"exception\":\n        raise KeyError(\"shelf\")\n",
            );
        let program = project.world.path("sum/.tools/componentize-py-0.25.1/bin/componentize-py");
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        write_program(&program, "#!/no/such/python\n");
        project.goes_all_the_way();
        let run = |payload: &str| project.world.run(&["run", "sum/task.wasm", "--payload", payload, "--json"]).json();
        let message = |payload: &str| run(payload)["failure"]["problem"]["message"].as_str().unwrap().to_owned();
        assert!(message("number").starts_with("TypeError: handle returned int, not bytes"), "{}", message("number"));
        assert_eq!(message("exception"), "KeyError: 'shelf'");
        let stack = run("exception")["failure"]["stderr"]["text"].to_string();
        assert!(stack.contains("raise KeyError"), "with the lines of the source: {stack}");
    }
}

fn write_program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// In a folder of which npm believes that a workspace above it owns it, and where it leaves out tools.
fn in_a_workspace(language: &'static str) -> Project {
    let project = Project::new(language).with("npm_config_cache", kept("npm")).with("NODE_ENV", "production");
    project.world.file("package.json", br#"{ "name": "above", "private": true, "workspaces": ["*"] }"#);
    project
}

#[test]
fn new_tasks_in_javascript_and_typescript_go_all_the_way() {
    for language in ["javascript", "typescript"] {
        if is_there(Path::new("npm"), "--version", language) {
            let project = in_a_workspace(language);
            project.goes_all_the_way();
            assert!(
                !project.world.path("node_modules").exists(),
                "{language}: the tools are in the folder of the task"
            );
            std::fs::remove_file(project.world.path("sum/node_modules/.bin/esbuild")).unwrap();
            project.succeeds("build");
            traps_in_its_own_words(project);
        }
    }
}

/// All that a task may throw, return and print without being one that is well written.
const CARELESS: &str = r#"// @ts-nocheck
import { enqueue, log, permanent, progress, retryAfter, sleep, task, text } from "./wasmq-task.EXTENSION";

const cyclic = { name: "cyclic" };
cyclic.self = cyclic;
const error = new Error("its own cause");
error.cause = error;

export const handler = task((invocation, payload) => {
    const word = text(payload);
    if (word === "text") throw "busy";
    if (word === "object") throw { status: 503 };
    if (word === "refused") enqueue("BAD NAME", payload);
    if (word === "unsendable") enqueue("sum", { a: 1 });
    if (word === "promise") return (async () => payload)();
    if (word === "soon") throw retryAfter("soon", "busy", "later");
    if (word === "never") enqueue("sum", payload, { delayMs: -1 });
    if (word === "level") log("loud", "hello");
    if (word === "progress") progress(1, NaN);
    if (word === "sleep") sleep(undefined);
    if (word === "numbers") progress(1.4, 2n, 3);
    if (word === "details") throw permanent(404, "missing", { details: { row: 7n } });
    if (word === "options") return enqueue("sum", payload, { delayMs: 10, metadata: { tries: 1 } });
    console.log(cyclic, { big: 1n }, 2n, error, undefined, null);
    return "printed";
});
"#;

/// Whatever is thrown or returned, the author reads what it was.
#[track_caller]
fn traps_in_its_own_words(project: Project) {
    let extension = if project.language == "typescript" { "ts" } else { "js" };
    let source = project.world.path("sum/src/task").with_extension(extension);
    std::fs::write(source, CARELESS.replace("EXTENSION", extension)).unwrap();
    project.succeeds("build");
    let run = |payload: &str| project.world.run(&["run", "sum/task.wasm", "--payload", payload, "--json"]).json();
    for (payload, says) in [
        ("text", "Uncaught busy"),
        ("object", "Uncaught {\"status\":503}"),
        ("refused", "Uncaught Error: cannot enqueue a follow-up: a task name"),
        ("unsendable", "Uncaught TypeError: the payload is Object, not a Uint8Array or a string"),
        ("soon", "Uncaught TypeError: the delay is soon, not a number from 0"),
        ("never", "Uncaught TypeError: the delay is -1, not a number from 0"),
        ("level", "Uncaught TypeError: loud is no level; there are trace, debug"),
        ("progress", "Uncaught TypeError: the total is NaN, not a number from 0"),
        ("sleep", "Uncaught TypeError: the time to sleep is undefined, not a number from 0"),
        ("promise", "Uncaught TypeError: the handler's output is Promise, not a Uint8Array or a string"),
    ] {
        let failure = &run(payload)["failure"];
        let (message, stderr) =
            (failure["problem"]["message"].as_str().unwrap(), failure["stderr"]["text"].to_string());
        assert!(message.starts_with(says), "{payload}: {failure}");
        assert!(!stderr.contains("FromJs"), "{payload}: the runtime speaks too: {failure}");
    }
    let problem = &run("details")["failure"]["problem"];
    assert_eq!((&problem["code"], &problem["details"]), (&"404".into(), &"{\"row\":\"7\"}".into()), "{problem}");
    for payload in ["options", "print", "numbers"] {
        let ran = run(payload);
        assert_eq!(ran["verdict"], "completed", "{payload}: {ran}");
    }
    let printed = run("print")["said"]["stderr"]["text"].as_str().unwrap().to_owned();
    assert!(printed.starts_with("[object Object] {\"big\":\"1\"} 2 Error: its own cause\n"), "{printed}");
    assert!(printed.ends_with(" undefined null\n"), "{printed}");
}

#[test]
fn typescript_that_does_not_type_check_is_not_built() {
    if is_there(Path::new("npm"), "--version", "typescript") {
        let project = Project::new("typescript").with("npm_config_cache", kept("npm"));
        let project = project.with_text("src/task.ts", "throw permanent(", "throw forever(");
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
        // A workspace above that knows nothing of it.
        project.world.file("go.work", b"go 1.21\n");
        project.goes_all_the_way();
        project.notices_a_wrong_output();
    }
}

#[test]
fn a_new_task_in_c_goes_all_the_way_with_clang() {
    let project = Project::new("c").with("WASI_CC", "clang");
    let (succeeded, said) = project.script("build");
    if !succeeded {
        return left_out("the template for c is not built with clang", &said);
    }
    std::fs::remove_file(project.world.path("sum/task.wasm")).unwrap();
    project.goes_all_the_way();
    traps_when_its_stack_overflows(project);
}

/// Zig is large: that of guest-examples/build will do, if it is the version that the template wants. What is
/// installed otherwise stays from one run to the next.
#[test]
fn a_new_task_in_c_goes_all_the_way_with_zig() {
    if !is_there(Path::new("python3"), "--version", "c") {
        return;
    }
    let project = Project::new("c").with("PIP_CACHE_DIR", kept("pip")).with("ZIG_GLOBAL_CACHE_DIR", kept("zig-cache"));
    let own = tools().join("zig");
    let installed = std::fs::read_to_string(own.join("installed")).unwrap_or_default();
    if let Some(version) = installed.split_whitespace().nth(1) {
        let place = PathBuf::from(kept("zig")).join(format!("zig-{version}"));
        let _ = std::os::unix::fs::symlink(own.join("venv"), place);
    }
    std::os::unix::fs::symlink(kept("zig"), project.world.path("sum/.tools")).unwrap();
    let bin = project.world.path("bin");
    std::fs::create_dir(&bin).unwrap();
    write_program(&bin.join("clang"), "#!/bin/sh\necho this one knows no WASI >&2\nexit 1\n");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let project = project.with("PATH", path).with("WASI_CC", "").with("WASI_SDK_PATH", "");
    let (succeeded, said) = project.script("build");
    if !succeeded && !zig_is_installed() {
        return left_out("the template for c is not built with Zig, because it cannot be installed", &said);
    }
    assert!(succeeded, "{said}");
    std::fs::remove_file(project.world.path("sum/task.wasm")).unwrap();
    project.goes_all_the_way();
    traps_when_its_stack_overflows(project);
}

fn zig_is_installed() -> bool {
    let place = PathBuf::from(kept("zig"));
    let works = |name: &String| {
        let python = place.join(name).join("bin/python");
        Command::new(python).args(["-c", "import ziglang"]).output().is_ok_and(|output| output.status.success())
    };
    names(&place).iter().any(works)
}

/// A large array on the stack leaves alone what is not on it, and one that is too large traps.
#[track_caller]
fn traps_when_its_stack_overflows(project: Project) {
    let used = |bytes: usize| {
        format!(
            "(void)invocation;\n    volatile char room[{bytes}];\n    \
             for (size_t i = sizeof room; i-- > 0;) room[i] = 'x';\n    if (strcmp((const char *)kept, \"kept\") != 0) \
             return permanent(failure, \"overwritten\", \"the stack has run into the data\");"
        )
    };
    let project = project
        .with_text("src/handler.c", "// Called once", "volatile char kept[8] = \"kept\";\n\n// Called once")
        .with_text("src/handler.c", "(void)invocation;", &used(100_000));
    project.succeeds("build");
    project.succeeds("test");
    let project = project.with_text("src/handler.c", "room[100000]", "room[300000]");
    project.succeeds("build");
    let ran = project.world.run(&["run", "sum/task.wasm", "--payload", "coffee,350", "--json"]).json();
    assert!(ran["verdict"].as_str().unwrap().starts_with("trap."), "{ran}");
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
