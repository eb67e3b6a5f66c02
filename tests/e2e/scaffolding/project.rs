//! A new task, from its folder to what it answers.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::privileges::skipped;
use crate::world::{World, repository};

/// What the task of every template answers: an output, or the code of a failure.
fn answers() -> Vec<(Vec<u8>, Result<&'static str, &'static str>)> {
    let one = Ok("{\"items\":1,\"total\":350}\n");
    let long = "x".repeat(100_000);
    vec![
        (b"".to_vec(), Ok("{\"items\":0,\"total\":0}\n")),
        (b"coffee,350\r\ntea,1\r\n".to_vec(), Ok("{\"items\":2,\"total\":351}\n")),
        (b"coffee,000000350".to_vec(), one),
        (b"coffee,999999999\ntea,999999999".to_vec(), Ok("{\"items\":2,\"total\":1999999998}\n")),
        ("cof\u{2028}fee\u{b}\u{85},350\n".into(), one),
        (format!("{long},350\n").into(), one),
        (b"coffee".to_vec(), Err("bad-amount")),
        (b"coffee,".to_vec(), Err("bad-amount")),
        (b"coffee,2,350".to_vec(), Err("bad-amount")),
        (b"coffee,+5".to_vec(), Err("bad-amount")),
        (b"coffee, 5".to_vec(), Err("bad-amount")),
        (b"coffee,1_0".to_vec(), Err("bad-amount")),
        (b"coffee,1000000000".to_vec(), Err("bad-amount")),
        (b"coffee,350\r".to_vec(), Err("bad-amount")),
        (b"coffee,350\n\ntea,1\n".to_vec(), Err("bad-amount")),
        ("coffee,\u{663}".into(), Err("bad-amount")),
        (format!("coffee,{}", "1".repeat(400)).into(), Err("bad-amount")),
        (format!("{long}\n").into(), Err("bad-amount")),
        (b"caf\xe9,350\n".to_vec(), Err("not-text")),
    ]
}

/// Where guest-examples/build keeps its tools.
pub fn tools() -> PathBuf {
    repository().join("guest-examples/target/tools")
}

/// Downloads and what is compiled once for all runs, away from what belongs to whoever runs the tests.
pub fn kept(name: &str) -> String {
    let dir = tools().join("templates").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir.into_os_string().into_string().unwrap()
}

/// Says why something is not tested. Where everything has to be, as WASMQ_NO_SKIPS=1 says, it fails instead.
pub fn left_out(what: &str, why: &dyn std::fmt::Debug) {
    let all_has_to_be_tested = std::env::var_os("WASMQ_NO_SKIPS").is_some_and(|value| value == "1");
    assert!(!all_has_to_be_tested, "{what}: {why:?}, and WASMQ_NO_SKIPS=1 allows no test to be skipped");
    skipped(what, why);
}

/// Whether a program can be run. Says so when it cannot.
pub fn is_there(program: &Path, argument: &str, language: &str) -> bool {
    let ran = Command::new(program).arg(argument).output();
    let there = ran.as_ref().is_ok_and(|output| output.status.success());
    if !there {
        let what = format!("the template for {language} is not built, because {} does not run", program.display());
        left_out(&what, &ran);
    }
    there
}

/// A new task of a language in a world of its own.
pub struct Project {
    pub world: World,
    pub language: &'static str,
    variables: Vec<(&'static str, String)>,
}

impl Project {
    pub fn new(language: &'static str) -> Self {
        Self::called("sum", language)
    }

    /// One of another name, in the same folder.
    pub fn called(name: &str, language: &'static str) -> Self {
        let world = World::new();
        world.run(&["new", name, "--lang", language, "--dir", "sum"]).ok();
        Self { world, language, variables: Vec::new() }
    }

    /// The same with another text in one of its files.
    pub fn with_text(self, file: &str, from: &str, to: &str) -> Self {
        let path = self.world.path("sum").join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from} in {file}");
        std::fs::write(path, text.replace(from, to)).unwrap();
        self
    }

    /// The same with a variable for `./build`.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Runs a program of the folder; returns whether it succeeded, and what it said.
    pub fn script(&self, program: &str) -> (bool, String) {
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
    pub fn succeeds(&self, program: &str) -> String {
        let (succeeded, said) = self.script(program);
        assert!(succeeded, "./{program} of {}: {said}", self.language);
        said
    }

    /// The way of every new task: build, test, deploy, enqueue, see it completed.
    #[track_caller]
    pub fn goes_all_the_way(&self) {
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
        self.answers_like_every_other();
    }

    /// Every language gives the same answers, and the same codes where there is none.
    #[track_caller]
    fn answers_like_every_other(&self) {
        for (payload, answer) in answers() {
            // What C leaves out, it says.
            if self.language == "c" && answer == Err("not-text") {
                continue;
            }
            let payload = self.world.file("payload", &payload);
            let (end, _) = self.world.wait_for(&["sum", &format!("@{}", payload.display())]);
            match answer {
                Ok(output) => assert_eq!(end["output"]["text"], output, "{}: {end}", self.language),
                Err(code) => assert_eq!(code_of(&end["failure"]["problem"]), code, "{}: {end}", self.language),
            }
        }
    }

    /// A test that cannot fail is none.
    #[track_caller]
    pub fn notices_a_wrong_output(&self) {
        let other = self.world.path("sum/sample/expenses.csv");
        std::fs::write(other, "coffee,351\n").unwrap();
        let (succeeded, said) = self.script("test");
        assert!(!succeeded && said.contains("expected: {\"items\":3,\"total\":4125}"), "{said}");
        assert!(said.contains("found:    {\"items\":1,\"total\":351}"), "{said}");
    }
}

/// The code of a failure. A program has it at the begin of what it says.
fn code_of(problem: &Value) -> &str {
    let [code, message] = ["code", "message"].map(|name| problem[name].as_str().unwrap_or_default());
    if code == "exit.65" { message.split(": ").next().unwrap_or_default() } else { code }
}
