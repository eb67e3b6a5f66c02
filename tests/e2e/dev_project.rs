//! A project for `wasmq dev`: a folder with a `task.toml`, and the program that watches it.
//!
//! The stream of `--json` has an object per round, so whoever waits, waits for the round it means.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::stories::ran;
use crate::world::{Ran, World, guest_file, signal, until};

/// How long a round may take; far more than it needs on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(40);

/// A folder with a task whose component is made by a command.
pub struct Project {
    pub world: World,
}

impl Project {
    pub fn new(guest: &str, build: &str) -> Self {
        let project = Self { world: World::new() };
        fs::create_dir_all(project.path("src")).unwrap();
        project.guest(guest);
        project.write("src/main.txt", "one");
        project.write("sample.txt", "hello");
        project.build(build);
        project
    }

    pub fn folder(&self) -> PathBuf {
        self.world.path("project")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Puts a guest where the build takes it from, in one step.
    pub fn guest(&self, name: &str) {
        fs::copy(guest_file(name), self.path("src/new.wasm~")).unwrap();
        fs::rename(self.path("src/new.wasm~"), self.path("good.wasm")).unwrap();
    }

    pub fn build(&self, build: &str) {
        let build = Value::from(build).to_string();
        self.write(
            "task.toml",
            &format!("task = \"job\"\nbuild = {build}\ncomponent = \"out.wasm\"\npayload = \"sample.txt\"\n"),
        );
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.command(&[&["dev"], arguments].concat());
        command.current_dir(self.folder());
        command
    }

    /// One round.
    pub fn once(&self, arguments: &[&str]) -> Ran {
        ran(self.command(&[&["--once"], arguments].concat()).output().unwrap())
    }

    /// Rounds until the end of the test.
    pub fn dev(&self, arguments: &[&str]) -> Dev {
        Dev::start(self.command(&[&["--json"], arguments].concat()), self.world.path("stderr"))
    }

    /// A command on the store of the project.
    pub fn on_store(&self, arguments: &[&str]) -> Ran {
        let store = self.path(".wasmq");
        self.world.run(&[arguments, &["--data", store.to_str().unwrap()]].concat())
    }

    /// A file outside the folder, which nobody watches.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }
}

/// A running `wasmq dev`.
pub struct Dev {
    pub child: Child,
    rounds: Receiver<Value>,
    stderr: PathBuf,
}

impl Dev {
    pub fn start(mut command: Command, stderr: PathBuf) -> Self {
        let file = fs::File::create(&stderr).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let (told, rounds) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = told.send(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        Self { child, rounds, stderr }
    }

    /// The next round, however it ended.
    #[track_caller]
    pub fn round(&self) -> Value {
        self.rounds.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no round came; stderr: {}", self.said()))
    }

    /// The next round, which ran to this verdict.
    #[track_caller]
    pub fn ran(&self, verdict: &str) -> Value {
        let round = self.round();
        assert_eq!((&round["ended"], &round["verdict"]), (&"ran".into(), &verdict.into()), "{round}");
        round
    }

    pub fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stderr).unwrap()).into_owned()
    }

    #[track_caller]
    pub fn ended(&mut self) -> i32 {
        let mut code = None;
        until("dev ends", || {
            code = self.child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1));
            code.is_some()
        });
        code.unwrap()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            signal(self.child.id(), "TERM");
            let _ = self.child.wait();
        }
    }
}
