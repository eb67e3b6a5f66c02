//! Whatever the executor leaves to commit is committed, whoever is interrupted where. The rule who wakes whom
//! is the product's (`worker/attention.rs`); the two loops around it are written anew after `worker/keeper.rs`
//! and `worker/executor.rs`, without guests and disk.

use shuttle::sync::mpsc::{Receiver, Sender, channel};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;

use crate::attention::Attention;
use crate::schedules::{draw, in_many_ways};

enum Command {
    /// An attempt ended while the keeper was in use.
    Finished,
    Look,
    Drain,
}

#[derive(Default)]
struct Keeper {
    attention: Attention,
    written: u32,
    durable: u32,
    /// Somebody waits for an answer to what was written.
    answers: u32,
    answered: u32,
    draining: bool,
}

impl Keeper {
    fn is_dirty(&self) -> bool {
        self.written > self.durable
    }
}

#[derive(Default)]
struct Shared {
    keeper: Mutex<Keeper>,
    committed: Condvar,
}

/// The keeper's thread. Without a change to watch it sleeps until it is called: in the product 200 ms, which
/// is later than anything may wait.
fn keep(shared: &Shared, commands: &Receiver<Command>) {
    loop {
        let is_dirty = {
            let mut keeper = shared.keeper.lock().unwrap();
            let is_dirty = keeper.is_dirty();
            keeper.attention.sleeps(is_dirty);
            is_dirty
        };
        let first = if is_dirty { commands.try_recv().ok() } else { commands.recv().ok() };
        let mut keeper = shared.keeper.lock().unwrap();
        for command in first.into_iter().chain(commands.try_iter()) {
            match command {
                Command::Finished => keeper.written += 1,
                Command::Look => keeper.attention.heard(),
                Command::Drain => keeper.draining = true,
            }
        }
        // A change that nobody waits for may wait for another turn.
        let is_wanted = keeper.answers > 0 || keeper.draining || draw(2) == 0;
        let (covers, answers) = (keeper.written, std::mem::take(&mut keeper.answers));
        drop(keeper);
        thread::yield_now();
        let mut keeper = shared.keeper.lock().unwrap();
        if is_wanted {
            keeper.durable = covers;
        }
        keeper.answered += answers;
        shared.committed.notify_all();
        if keeper.draining && !keeper.is_dirty() && keeper.answers == 0 {
            return;
        }
    }
}

/// The executor: each attempt that ends is judged by itself if the keeper is free.
fn execute(shared: &Shared, commands: &Sender<Command>, attempts: u32) {
    for attempt in 0..attempts {
        let Ok(mut keeper) = shared.keeper.try_lock() else {
            commands.send(Command::Finished).unwrap();
            continue;
        };
        keeper.written += 1;
        // Somebody waits for one of the first; nobody for the last.
        keeper.answers += u32::from(attempt == 1);
        let (is_urgent, is_dirty) = (keeper.answers > 0, keeper.is_dirty());
        let calls = keeper.attention.must_call(is_urgent, is_dirty);
        drop(keeper);
        if calls {
            commands.send(Command::Look).unwrap();
        }
    }
}

pub fn no_change_waits_for_a_commit_for_ever() {
    in_many_ways(20_000, || {
        let shared = Arc::new(Shared::default());
        let (commands, inbox) = channel();
        let keeper = thread::spawn({
            let shared = Arc::clone(&shared);
            move || keep(&shared, &inbox)
        });
        let executor = thread::spawn({
            let (shared, commands) = (Arc::clone(&shared), commands.clone());
            move || execute(&shared, &commands, 4)
        });
        let mut state = shared.keeper.lock().unwrap();
        while state.durable < 4 || state.answers > 0 {
            state = shared.committed.wait(state).unwrap();
        }
        drop(state);
        executor.join().unwrap();
        commands.send(Command::Drain).unwrap();
        keeper.join().unwrap();
    });
}
