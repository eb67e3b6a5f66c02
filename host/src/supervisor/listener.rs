//! Accepts clients on the server's local socket.

use std::io;
use std::path::{Path, PathBuf};

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wasmq_wal::disk::{Disk as _, RealDisk};

use super::hub::{ClientId, Event};
use super::socket::{self, ServerSocket};
use crate::store::StoreKind;
use crate::wire::Frame;

/// The socket file of a running server.
pub(super) struct Listening {
    path: PathBuf,
}

impl Listening {
    pub(super) fn remove(self) {
        let _ = RealDisk.remove(&self.path);
    }
}

/// Starts to accept. Sockets that dead servers left behind are removed on the way.
///
/// # Errors
/// `AlreadyExists` when a server with another store runs in the same place.
pub(super) fn listen(dir: &Path, store: StoreKind, events: UnboundedSender<Event>) -> io::Result<Listening> {
    RealDisk.create_dir_all(dir)?;
    for server in socket::servers(dir)? {
        match socket::connect(dir, &server) {
            Ok(None) => drop(RealDisk.remove(&dir.join(server.name))),
            Ok(Some(_)) if server.store != store => return Err(other_store(server.store)),
            _ => {}
        }
    }
    let ServerSocket { name, .. } = ServerSocket::new(store);
    let path = dir.join(&name);
    tokio::spawn(accept(bind(dir, &name, &path)?, events));
    Ok(Listening { path })
}

/// A socket is bound first and listens a moment later. In between it looks like one that a dead server left
/// behind, so it gets its name when it listens.
fn bind(dir: &Path, name: &str, path: &Path) -> io::Result<UnixListener> {
    let unfinished = format!("{name}.new");
    let short = socket::short_path(dir, &unfinished)?;
    let listener = UnixListener::bind(&short.path)?;
    RealDisk.rename(&dir.join(unfinished), path)?;
    Ok(listener)
}

fn other_store(running: StoreKind) -> io::Error {
    let message = format!("a server with the store {} runs there already; stop it first", running.word());
    io::Error::new(io::ErrorKind::AlreadyExists, message)
}

async fn accept(listener: UnixListener, events: UnboundedSender<Event>) {
    let mut next = 0;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                next += 1;
                let (reader, writer) = stream.into_split();
                let (outbox, frames) = unbounded_channel();
                if events.send(Event::Client(ClientId(next), outbox)).is_err() {
                    return;
                }
                tokio::spawn(write(writer, frames));
                tokio::spawn(read(ClientId(next), reader, events.clone()));
            }
            Err(error) => {
                tracing::error!(%error, "a client could not be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn read(client: ClientId, mut reader: OwnedReadHalf, events: UnboundedSender<Event>) {
    loop {
        let event = match Frame::read_async(&mut reader).await {
            Ok(Some(frame)) => Event::FromClient(client, frame),
            Ok(None) => Event::ClientGone(client),
            Err(error) => {
                tracing::warn!(%error, "a client was dropped");
                Event::ClientGone(client)
            }
        };
        let gone = matches!(event, Event::ClientGone(_));
        if events.send(event).is_err() || gone {
            return;
        }
    }
}

/// Writes frames until the other side or the sender is gone; gathers what waits.
pub(super) async fn write(mut writer: OwnedWriteHalf, mut frames: UnboundedReceiver<Frame>) {
    let mut buffer = Vec::new();
    while let Some(frame) = frames.recv().await {
        frame.encode(&mut buffer);
        while buffer.len() < 256 * 1024
            && let Ok(next) = frames.try_recv()
        {
            next.encode(&mut buffer);
        }
        if writer.write_all(&buffer).await.is_err() {
            return;
        }
        buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// Somebody else looks for the first moment at which a socket can be seen, many times.
    #[test]
    fn a_server_that_starts_is_never_taken_for_a_dead_one() {
        let parent = tempfile::tempdir().unwrap();
        let dirs: Vec<PathBuf> = (0..500).map(|n| parent.path().join(n.to_string())).collect();
        dirs.iter().for_each(|dir| RealDisk.create_dir_all(dir).unwrap());
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = tokio.enter();
        let looked_for = AtomicUsize::new(0);
        // They listen until the looker has seen the last of them.
        let mut listeners = Vec::new();
        thread::scope(|scope| {
            let looker = scope.spawn(|| {
                for (index, dir) in dirs.iter().enumerate() {
                    looked_for.store(index, Ordering::Release);
                    let server = loop {
                        if let Some(server) = socket::servers(dir).unwrap().pop() {
                            break server;
                        }
                    };
                    assert!(socket::connect(dir, &server).unwrap().is_some(), "it does not listen yet");
                }
            });
            for (index, dir) in dirs.iter().enumerate() {
                while looked_for.load(Ordering::Acquire) < index && !looker.is_finished() {
                    thread::yield_now();
                }
                let ServerSocket { name, .. } = ServerSocket::new(StoreKind::Dir);
                listeners.push(bind(dir, &name, &dir.join(&name)).unwrap());
            }
        });
    }
}
