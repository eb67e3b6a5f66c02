//! A world for one test: a data directory of its own, the real binary, servers that never outlive it.
//!
//! Everything that waits, waits here, for a condition and with a deadline.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long a condition may take to hold; far more than it needs on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(40);
const GLANCE: Duration = Duration::from_millis(20);

pub struct World {
    dir: TempDir,
}

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    fn new(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Stdout as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }

    /// Stdout as JSON lines.
    pub fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Itself, if the command succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.text(), self.stderr);
        self
    }

    /// Itself, if the command left with this code and said this on stderr.
    #[track_caller]
    pub fn fails(self, code: i32, says: &str) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.text(), self.stderr);
        assert!(self.stderr.contains(says), "expected \"{says}\" in: {}", self.stderr);
        self
    }
}

impl World {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A path outside the data directory that goes away with the world.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The binary, set up for this world and deaf to the environment of whoever runs the tests.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wasmq"));
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WASMQ_")) {
            command.env_remove(name);
        }
        // What one test compiles for `wasmq run`, others need not.
        command.env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
        command.env("WASMQ_DATA", self.data()).env_remove("RUST_BACKTRACE").env_remove("NO_COLOR");
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::new(self.command(arguments).output().unwrap())
    }

    /// Runs a command with bytes on stdin.
    pub fn run_with(&self, arguments: &[&str], stdin: &[u8]) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let bytes = stdin.to_vec();
        // A command that refuses early closes its stdin; that is no failure of the test.
        let writer = std::thread::spawn(move || drop(pipe.write_all(&bytes)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ran::new(output)
    }

    /// Writes a file of this world.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Deploys a guest under its own name, with quick retries and more arguments.
    #[track_caller]
    pub fn deploy(&self, guest: &str, more: &[&str]) {
        let file = guest_file(guest);
        let mut arguments = vec!["deploy", guest, file.to_str().unwrap(), "--backoff", "fixed:50ms", "--jitter", "0"];
        arguments.extend(more);
        self.run(&arguments).ok();
    }

    /// Enqueues and returns the id.
    #[track_caller]
    pub fn enqueue(&self, arguments: &[&str]) -> String {
        let ran = self.run(&[&["enqueue"], arguments].concat()).ok();
        ran.text().trim().to_owned()
    }

    /// Enqueues, waits for the end, and returns the completion as JSON with the exit code.
    #[track_caller]
    pub fn wait_for(&self, arguments: &[&str]) -> (Value, i32) {
        let ran = self.run(&[&["enqueue", "--wait", "--json"], arguments].concat());
        (ran.json(), ran.code)
    }

    /// Starts a server and waits until it answers.
    pub fn serve(&self, arguments: &[&str]) -> Server {
        self.serve_by(self.command(&[&["serve"], arguments].concat()))
    }

    /// The same with a command that was set up by hand.
    pub fn serve_by(&self, command: Command) -> Server {
        let server = self.start_server(command);
        let pid = server.pid();
        until("the server answers", || {
            let status = self.run(&["status", "--json"]);
            let servers = status.json()["servers"].as_array().cloned().unwrap_or_default();
            servers.iter().any(|server| server["pid"] == pid)
        });
        server
    }

    /// Starts a server and waits for nothing.
    pub fn start_server(&self, mut command: Command) -> Server {
        let log = self.path(&format!("serve-{}.log", self.servers_started()));
        let file = std::fs::File::create(&log).unwrap();
        let child = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Server { child, log }
    }

    fn servers_started(&self) -> usize {
        let names = std::fs::read_dir(self.dir.path()).unwrap().filter_map(Result::ok);
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with("serve-")).count()
    }

    /// What all servers of this world have written to stderr so far.
    pub fn server_logs(&self) -> impl Iterator<Item = String> {
        (0..self.servers_started()).map(|n| {
            let bytes = std::fs::read(self.path(&format!("serve-{n}.log"))).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }

    pub fn status(&self) -> Value {
        self.run(&["status", "--json"]).ok().json()
    }

    /// The process ids of all living workers of all servers.
    pub fn workers(&self) -> Vec<u32> {
        let status = self.status();
        let servers = status["servers"].as_array().cloned().unwrap_or_default();
        let workers = servers.iter().flat_map(|server| server["workers"].as_array().cloned().unwrap_or_default());
        workers.filter(|worker| worker["alive"] == true).map(|worker| worker["pid"].as_u64().unwrap() as u32).collect()
    }

    /// Dead tasks, newest first, as `dlq list --json` prints them.
    pub fn dead(&self) -> Vec<Value> {
        self.run(&["dlq", "list", "--json"]).ok().lines()
    }

    /// Live invocations as `list --json` prints them.
    pub fn live(&self) -> Vec<Value> {
        self.run(&["list", "--json"]).ok().lines()
    }

    /// All about a dead task, as `dlq show --json` prints it.
    #[track_caller]
    pub fn dead_task(&self, id: &str) -> Value {
        self.run(&["dlq", "show", id, "--json"]).ok().json()
    }

    /// Deploys a file under a name, as it is.
    #[track_caller]
    pub fn deploy_as(&self, task: &str, file: &Path, more: &[&str]) -> Value {
        let file = file.to_str().unwrap();
        self.run(&[&["deploy", task, file, "--json"], more].concat()).ok().json()
    }

    /// Waits until an invocation is in a phase and returns it.
    #[track_caller]
    pub fn until_phase(&self, id: &str, phase: &str) -> Value {
        let find = || self.live().into_iter().find(|live| live["id"] == id && live["phase"] == phase);
        until(&format!("{id} is {phase}"), || find().is_some());
        self.run(&["show", id, "--json"]).ok().json()
    }

    /// Waits until nothing is live any more.
    #[track_caller]
    pub fn until_done(&self) {
        until("nothing is live", || self.live().is_empty());
    }
}

/// A running server.
pub struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal such as `TERM` to the server.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Sends a signal until the server has ended: what comes soon after another is one with it.
    #[track_caller]
    pub fn press_until_ended(&mut self, name: &str) {
        until("the server ends", || {
            self.signal(name);
            self.child.try_wait().unwrap().is_some()
        });
    }

    /// Waits for its end and returns its exit code; -1 when a signal ended it.
    #[track_caller]
    pub fn ended(&mut self) -> i32 {
        let mut code = None;
        until("the server ends", || {
            code = self.child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1));
            code.is_some()
        });
        code.unwrap()
    }

    /// Stops it in an orderly way.
    #[track_caller]
    pub fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.ended(), 0, "{}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

/// Whether a process is there (a zombie is not).
pub fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

/// Waits until a condition holds.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "waited {} s until {what}", PATIENCE.as_secs());
        sleep(GLANCE);
    }
}

/// The component of a guest.
#[track_caller]
pub fn guest_file(name: &str) -> PathBuf {
    let path = repository().join("guest-examples/target/components").join(format!("{name}.wasm"));
    assert!(path.exists(), "{} is missing: run guest-examples/build first", path.display());
    path
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
