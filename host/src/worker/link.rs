//! The worker's end of the socket to its supervisor.
//!
//! Invariant: when the supervisor is gone, the worker drains and exits, at once if it had been draining; it never
//! outlives the process that answers for it for longer than the grace time.

use std::io::{BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender};

use super::keeper::Command;
use crate::wire::{Frame, Kind};

/// How many bytes of answers are gathered before they are written.
const WRITE_BYTES: usize = 256 * 1024;

/// Reads frames until the supervisor goes away.
pub(super) fn read(socket: UnixStream, keeper: &Sender<Command>) {
    let mut socket = BufReader::with_capacity(WRITE_BYTES, socket);
    loop {
        let command = match Frame::read(&mut socket) {
            Ok(Some(frame)) if frame.kind == Kind::Drain => Command::Drain,
            Ok(Some(frame)) => Command::Frame(frame),
            Ok(None) | Err(_) => {
                tracing::warn!(pid = std::process::id(), "the server that this worker belongs to is gone");
                let _ = keeper.send(Command::SupervisorGone);
                return;
            }
        };
        if keeper.send(command).is_err() {
            return;
        }
    }
}

/// Writes answers until the keeper is gone. A supervisor that is gone is noticed by the reader.
pub(super) fn write(mut socket: UnixStream, answers: &Receiver<Frame>) {
    let mut buffer = Vec::with_capacity(WRITE_BYTES);
    while let Ok(first) = answers.recv() {
        first.encode(&mut buffer);
        while buffer.len() < WRITE_BYTES
            && let Ok(next) = answers.try_recv()
        {
            next.encode(&mut buffer);
        }
        let _ = socket.write_all(&buffer);
        buffer.clear();
    }
}
