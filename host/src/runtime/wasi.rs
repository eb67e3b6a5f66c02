//! The parts of WASI 0.2 that the host answers itself: clocks, random numbers, and what
//! `wasi:cli` offers, except for leaving (`exit.rs`).
//!
//! Invariants: whatever can differ between attempts is marked before it is answered; nothing here
//! blocks the thread; nothing outside the store is reachable.
//!
//! Deliberately absent: files and sockets. Their interfaces come from `wasmtime-wasi` with empty
//! contexts, because nothing of the kind is granted (`linker.rs`).

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use wasmtime::component::Resource;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::bindings::cli::{
    environment, stderr, stdin, stdout, terminal_input, terminal_output, terminal_stderr, terminal_stdin,
    terminal_stdout,
};
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, Pollable, subscribe};

use super::observed::Observation;
use super::state::{Insecure, State};

/// The most random bytes a guest gets in one call.
const MAX_RANDOM_BYTES: u64 = 16 * 1024 * 1024;

impl wall_clock::Host for State {
    // The host's own clock counts milliseconds, which is too coarse for some guests.
    #[allow(clippy::disallowed_methods)]
    fn now(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        self.observe(Observation::WallClock);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(wall_clock::Datetime { seconds: now.as_secs(), nanoseconds: now.subsec_nanos() })
    }

    fn resolution(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        Ok(wall_clock::Datetime { seconds: 0, nanoseconds: 1 })
    }
}

impl monotonic_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<u64> {
        self.observe(Observation::MonotonicClock);
        Ok(self.elapsed_nanos())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(1)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.observe(Observation::MonotonicClock);
        let wait = when.saturating_sub(self.elapsed_nanos());
        self.subscribe_nanos(wait)
    }

    fn subscribe_duration(&mut self, wait: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.observe(Observation::MonotonicClock);
        self.subscribe_nanos(wait)
    }
}

impl State {
    /// Nanoseconds since the guest first asked. Starts at one second, because some libraries
    /// subtract a little from what they get.
    fn elapsed_nanos(&mut self) -> u64 {
        let start = *self.clock_start.get_or_insert_with(Instant::now);
        let elapsed = start.elapsed() + Duration::from_secs(1);
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }

    fn subscribe_nanos(&mut self, wait: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let deadline = Instant::now().checked_add(Duration::from_nanos(wait));
        let timer = self.table.push(Timer { deadline, yielded: wait > 0 })?;
        subscribe(&mut self.table, timer)
    }
}

/// A point in time a guest waits for. `None` is too far away to be represented.
struct Timer {
    deadline: Option<Instant>,
    /// A wait of nothing still gives the other attempts on the thread a turn, once.
    yielded: bool,
}

#[async_trait]
impl Pollable for Timer {
    async fn ready(&mut self) {
        if !self.yielded {
            self.yielded = true;
            tokio::task::yield_now().await;
            return;
        }
        match self.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }
}

fn checked_len(len: u64) -> wasmtime::Result<usize> {
    if len > MAX_RANDOM_BYTES {
        return Err(wasmtime::format_err!(
            "{len} random bytes in one call are more than the limit of {MAX_RANDOM_BYTES}"
        ));
    }
    Ok(usize::try_from(len)?)
}

impl random::Host for State {
    fn get_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.observe(Observation::SecureRandom);
        let mut bytes = vec![0; checked_len(len)?];
        self.secure.get_or_insert_with(wasmtime_wasi::random::thread_rng).fill_bytes(&mut bytes);
        Ok(bytes)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.observe(Observation::SecureRandom);
        Ok(self.secure.get_or_insert_with(wasmtime_wasi::random::thread_rng).next_u64())
    }
}

impl insecure::Host for State {
    fn get_insecure_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        Ok(self.insecure.bytes(checked_len(len)?))
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.insecure.next_u64())
    }
}

impl insecure_seed::Host for State {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok(Insecure::seed(self.id))
    }
}

impl environment::Host for State {
    /// A typed task has no environment, so the answer is always the same empty list. That of a
    /// command holds the attempt number.
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        let Some(command) = &self.command else { return Ok(Vec::new()) };
        let environment = command.environment.clone();
        self.observe(Observation::Environment);
        Ok(environment)
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(self.command.as_ref().map(|command| command.arguments.clone()).unwrap_or_default())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}

impl stdin::Host for State {
    /// The payload for a command, nothing for a typed task. All handles read on from the same place.
    fn get_stdin(&mut self) -> wasmtime::Result<Resource<DynInputStream>> {
        let pipe = self.command.as_ref().map(|command| command.stdin.clone());
        let stream: DynInputStream = Box::new(pipe.unwrap_or_else(|| MemoryInputPipe::new(Vec::new())));
        Ok(self.table.push(stream)?)
    }
}

impl stdout::Host for State {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(self.stdout().clone());
        Ok(self.table.push(stream)?)
    }
}

impl stderr::Host for State {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(self.stderr().clone());
        Ok(self.table.push(stream)?)
    }
}

impl terminal_input::Host for State {}
impl terminal_output::Host for State {}

impl terminal_input::HostTerminalInput for State {
    fn drop(&mut self, terminal: Resource<terminal_input::TerminalInput>) -> wasmtime::Result<()> {
        self.table.delete(terminal)?;
        Ok(())
    }
}

impl terminal_output::HostTerminalOutput for State {
    fn drop(&mut self, terminal: Resource<terminal_output::TerminalOutput>) -> wasmtime::Result<()> {
        self.table.delete(terminal)?;
        Ok(())
    }
}

impl terminal_stdin::Host for State {
    fn get_terminal_stdin(&mut self) -> wasmtime::Result<Option<Resource<terminal_input::TerminalInput>>> {
        Ok(None)
    }
}

impl terminal_stdout::Host for State {
    fn get_terminal_stdout(&mut self) -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}

impl terminal_stderr::Host for State {
    fn get_terminal_stderr(&mut self) -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}
