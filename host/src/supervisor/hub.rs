//! The hub: all state of a supervisor, driven by messages.
//!
//! Invariant: every entry of `pending` is answered once, by the worker or, when that is gone, here.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use wasmq_core::Timestamp;
use wasmq_core::codec::{Decoder, Encoder};

use super::children::{self, Worker};
use super::slot::{SILENCE, Slot};
use super::{PATIENCE, ServeOptions};
use crate::clock::{self, Stopwatch};
use crate::wire::{Frame, Kind, Reason};
use crate::worker::WorkerFigures;

/// The shortest and longest pause before a dead worker is started again.
const RESTART_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));
/// A worker that lived this long starts anew with the shortest pause.
const STEADY: Duration = Duration::from_secs(10);

/// The request number of all hand-overs; those of clients begin with 1.
const HAND_OVER_REQUEST: u64 = 0;

/// A connected client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClientId(pub(super) u64);

/// One life of the worker in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Incarnation {
    slot: usize,
    life: u64,
}

/// What the hub is told.
pub(super) enum Event {
    Client(ClientId, UnboundedSender<Frame>),
    FromClient(ClientId, Frame),
    ClientGone(ClientId),
    FromWorker(Incarnation, Frame),
    WorkerGone(Incarnation, String),
    Restart(usize),
    Tick,
    Stop,
    OutOfPatience,
}

/// The body of a question for the figures that are to say how far running attempts are.
pub const WITH_PROGRESS: &[u8] = b"progress";

/// The figures of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFigures {
    /// Its process id.
    pub pid: u32,
    /// When it started.
    pub since: Timestamp,
    /// Whether it stops once what runs has ended.
    #[serde(default)]
    pub draining: bool,
    /// Its workers.
    pub workers: Vec<WorkerStatus>,
}

/// A worker as its supervisor sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Whether its process runs.
    pub alive: bool,
    /// How often it was started again.
    pub restarts: u64,
    /// How long ago it said anything, in milliseconds. Workers say something several times a second.
    #[serde(default)]
    pub silent_ms: u64,
    /// Its own last figures.
    pub figures: WorkerFigures,
}

impl WorkerStatus {
    /// Whether it runs and says nothing: it was stopped by somebody, or is held up by its disk.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.alive && Duration::from_millis(self.silent_ms) > SILENCE
    }
}

struct Pending {
    client: ClientId,
    request: u64,
    /// The workers that have not answered yet: one, or for a cancellation all, of which one may know it.
    slots: Vec<usize>,
    /// After the acknowledgement a `Finished` follows.
    waits: bool,
}

/// See the module.
pub(super) struct Hub {
    options: ServeOptions,
    events: UnboundedSender<Event>,
    clients: HashMap<ClientId, UnboundedSender<Frame>>,
    slots: Vec<Slot>,
    pending: HashMap<u64, Pending>,
    next_request: u64,
    since: Timestamp,
    stops: u32,
}

impl Hub {
    pub(super) fn new(options: ServeOptions, events: UnboundedSender<Event>) -> Self {
        Self {
            options,
            events,
            clients: HashMap::new(),
            slots: Vec::new(),
            pending: HashMap::new(),
            next_request: 0,
            since: clock::now(),
            stops: 0,
        }
    }

    pub(super) fn start_workers(&mut self) {
        for slot in 0..self.options.workers.max(1) {
            self.slots.push(Slot {
                worker: None,
                life: 0,
                started: Stopwatch::start(),
                pause: RESTART_PAUSE.0,
                figures: WorkerFigures::default(),
                progress: Vec::new(),
                heard: Stopwatch::start(),
                missed: false,
                routed: 0,
                asked_to_hand_over: None,
                backlog_since: None,
            });
            self.start_worker(slot);
        }
    }

    /// Runs until it was told to stop and all workers have ended.
    pub(super) async fn run(&mut self, mut inbox: UnboundedReceiver<Event>) {
        while let Some(event) = inbox.recv().await {
            match event {
                Event::Client(client, outbox) => {
                    self.clients.insert(client, outbox);
                }
                Event::FromClient(client, frame) => self.client_asks(client, frame),
                Event::ClientGone(client) => {
                    self.clients.remove(&client);
                    self.pending.retain(|_, pending| pending.client != client);
                }
                Event::FromWorker(incarnation, frame) => self.worker_says(incarnation, frame),
                Event::WorkerGone(incarnation, status) => self.worker_gone(incarnation, &status),
                Event::Restart(slot) => self.start_worker(slot),
                Event::Tick => self.notice_silence(),
                Event::Stop => self.stop(),
                Event::OutOfPatience => self.kill_all(),
            }
            if self.stops > 0 && self.slots.iter().all(|slot| slot.worker.is_none()) {
                return;
            }
        }
    }

    fn start_worker(&mut self, index: usize) {
        if self.stops > 0 {
            return;
        }
        let Some(slot) = self.slots.get_mut(index) else { return };
        slot.life += 1;
        slot.started = Stopwatch::start();
        slot.heard = Stopwatch::start();
        slot.missed = false;
        slot.routed = 0;
        let incarnation = Incarnation { slot: index, life: slot.life };
        match children::start(&self.options, incarnation, self.events.clone()) {
            Ok(worker) => {
                tracing::info!(pid = worker.pid, slot = index, "started a worker");
                slot.figures = WorkerFigures { pid: worker.pid, ..WorkerFigures::default() };
                slot.progress.clear();
                slot.worker = Some(worker);
            }
            Err(error) => {
                tracing::error!(%error, "a worker could not be started; it is tried again");
                self.restart_later(index);
            }
        }
    }

    fn restart_later(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        if slot.started.elapsed() >= STEADY {
            slot.pause = RESTART_PAUSE.0;
        }
        let pause = slot.pause;
        slot.pause = (pause * 2).min(RESTART_PAUSE.1);
        let events = self.events.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let _ = events.send(Event::Restart(index));
        });
    }

    fn worker_gone(&mut self, incarnation: Incarnation, status: &str) {
        let Some(slot) = self.slots.get_mut(incarnation.slot).filter(|slot| slot.life == incarnation.life) else {
            return;
        };
        let pid = slot.worker.take().map(|worker| worker.pid);
        self.answer_for_the_dead(incarnation.slot);
        if self.stops == 0 {
            tracing::error!(pid, slot = incarnation.slot, status, "a worker ended; another takes over its log");
            self.restart_later(incarnation.slot);
        }
    }

    fn answer_for_the_dead(&mut self, index: usize) {
        let mut lost = Vec::new();
        self.pending.retain(|_, pending| {
            let asked = pending.slots.len();
            pending.slots.retain(|slot| *slot != index);
            let is_lost = pending.slots.len() < asked && pending.slots.is_empty();
            if is_lost {
                lost.push((pending.client, pending.request));
            }
            !is_lost
        });
        let message =
            "the worker died before it answered; what it had acknowledged is safe and goes on in another worker";
        for (client, request) in lost {
            self.answer(client, Frame::refused(request, Reason::Failed, message));
        }
    }

    fn client_asks(&mut self, client: ClientId, frame: Frame) {
        match frame.kind {
            Kind::Status => {
                let figures = self.figures(frame.body == WITH_PROGRESS);
                self.answer(client, Frame::json(Kind::Figures, frame.request, &figures));
            }
            Kind::Enqueue | Kind::Cancel if self.stops > 0 => {
                self.answer(
                    client,
                    Frame::refused(frame.request, Reason::Unavailable, "the server is stopping; nothing was done"),
                );
            }
            Kind::Enqueue => self.route_enqueue(client, frame),
            Kind::Cancel => self.ask_all(client, &frame),
            _ => self.answer(client, Frame::refused(frame.request, Reason::Malformed, "a client cannot ask for that")),
        }
    }

    fn route_enqueue(&mut self, client: ClientId, frame: Frame) {
        let (invocations, waits) = batch_facts(&frame.body);
        let least = self
            .slots
            .iter_mut()
            .enumerate()
            .filter(|(_, slot)| slot.worker.is_some())
            .min_by_key(|(_, slot)| (slot.is_silent(), slot.figures.draining, slot.isolates(), slot.load()));
        // What is sent to a worker that was stopped cannot be taken back; the client can do without.
        let Some((index, slot)) = least.filter(|(_, slot)| !slot.is_silent()) else {
            let message = "no worker answers at the moment; nothing was enqueued";
            self.answer(client, Frame::refused(frame.request, Reason::Unavailable, message));
            return;
        };
        slot.routed += invocations;
        self.next_request += 1;
        let pending = Pending { client, request: frame.request, slots: vec![index], waits };
        if let Some(worker) = &slot.worker {
            let _ = worker.frames.send(Frame::new(Kind::Enqueue, self.next_request, frame.body));
        }
        self.pending.insert(self.next_request, pending);
    }

    /// Nobody but its worker knows where an invocation is, so all are asked.
    fn ask_all(&mut self, client: ClientId, frame: &Frame) {
        self.next_request += 1;
        let mut slots = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            if let Some(worker) = &slot.worker {
                let _ = worker.frames.send(Frame::new(frame.kind, self.next_request, frame.body.clone()));
                slots.push(index);
            }
        }
        if slots.is_empty() {
            let message = "no worker is running at the moment; nothing was cancelled";
            return self.answer(client, Frame::refused(frame.request, Reason::Unavailable, message));
        }
        let pending = Pending { client, request: frame.request, slots, waits: false };
        self.pending.insert(self.next_request, pending);
    }

    fn worker_says(&mut self, incarnation: Incarnation, frame: Frame) {
        let Some(slot) = self.slots.get_mut(incarnation.slot).filter(|slot| slot.life == incarnation.life) else {
            return;
        };
        slot.heard = Stopwatch::start();
        if std::mem::take(&mut slot.missed) {
            tracing::info!(slot = incarnation.slot, "the worker says something again");
        }
        if frame.kind == Kind::Figures {
            if let Ok(figures) = serde_json::from_slice(&frame.body) {
                slot.take(figures);
                if self.stops == 0 {
                    self.balance();
                }
            }
            return;
        }
        if frame.request == HAND_OVER_REQUEST {
            if self.stops == 0 {
                self.tell_idle_to_adopt();
            }
            return;
        }
        let Some(pending) = self.pending.get_mut(&frame.request) else { return };
        let more_follows = frame.kind == Kind::Attempt || (frame.kind == Kind::Ack && pending.waits);
        if !more_follows {
            pending.slots.retain(|slot| *slot != incarnation.slot);
        }
        if frame.kind == Kind::Refused && !pending.slots.is_empty() {
            return;
        }
        let (client, request) = (pending.client, pending.request);
        if !more_follows {
            self.pending.remove(&frame.request);
        }
        self.answer(client, Frame::new(frame.kind, request, frame.body));
    }

    /// When a worker has a long backlog and another has nothing to do, half of it is handed over; so is the longest
    /// of those that have waited for long, when places are free anywhere. One that lets suspects run alone gives all
    /// the rest to whoever has none.
    fn balance(&mut self) {
        let is_idle = self.slots.iter().any(Slot::is_idle);
        let is_free = self.slots.iter().any(|slot| slot.worker.is_some() && !slot.is_silent() && !slot.isolates());
        let places = u64::from(self.options.worker.concurrency);
        let free: u64 = self.slots.iter().map(|slot| slot.free_places(places)).sum();
        // A few free places are no reason for all to give.
        let waiting = self.slots.iter().enumerate().filter(|(_, slot)| slot.has_old_backlog());
        let longest = waiting.max_by_key(|(_, slot)| slot.harmless()).map(|(index, _)| index);
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let free = if longest == Some(index) { free.saturating_sub(slot.free_places(places)) } else { 0 };
            if let Some(most) = slot.surplus(is_idle, is_free, free)
                && let Some(worker) = &slot.worker
            {
                let mut body = Vec::new();
                Encoder(&mut body).uint(most);
                let _ = worker.frames.send(Frame::new(Kind::HandOver, HAND_OVER_REQUEST, body));
                slot.asked_to_hand_over = Some(Stopwatch::start());
            }
        }
    }

    /// Idle workers look for free logs by themselves too, but not as soon.
    fn tell_idle_to_adopt(&self) {
        let places = u64::from(self.options.worker.concurrency);
        let free = self.slots.iter().filter(|slot| slot.is_idle() || slot.free_places(places) > 0);
        for worker in free.filter_map(|slot| slot.worker.as_ref()) {
            let _ = worker.frames.send(Frame::new(Kind::Adopt, 0, Vec::new()));
        }
    }

    fn notice_silence(&mut self) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(worker) = &slot.worker
                && slot.is_silent()
                && !std::mem::replace(&mut slot.missed, true)
            {
                tracing::warn!(
                    slot = index,
                    pid = worker.pid,
                    "a worker says nothing: it was stopped, or waits for its disk; others take what comes in"
                );
            }
        }
    }

    fn answer(&self, client: ClientId, frame: Frame) {
        if let Some(outbox) = self.clients.get(&client) {
            let _ = outbox.send(frame);
        }
    }

    /// The figures; how far attempts are only for whoever wants to know.
    fn figures(&self, with_progress: bool) -> ServerFigures {
        let of = |slot: &Slot| {
            let progress = if with_progress { slot.progress.clone() } else { Vec::new() };
            WorkerFigures { progress, ..slot.figures.clone() }
        };
        let workers = self.slots.iter().map(|slot| WorkerStatus {
            alive: slot.worker.is_some(),
            restarts: slot.life.saturating_sub(1),
            silent_ms: u64::try_from(slot.heard.elapsed().as_millis()).unwrap_or(u64::MAX),
            figures: of(slot),
        });
        ServerFigures {
            pid: std::process::id(),
            since: self.since,
            draining: self.stops > 0,
            workers: workers.collect(),
        }
    }

    fn stop(&mut self) {
        self.stops += 1;
        if self.stops > 1 {
            tracing::warn!("stopping at once");
            self.kill_all();
            return;
        }
        for worker in self.slots.iter().filter_map(|slot| slot.worker.as_ref()) {
            let _ = worker.frames.send(Frame::new(Kind::Drain, 0, Vec::new()));
        }
        let patience = Duration::from_millis(self.options.worker.grace_ms) + PATIENCE;
        let events = self.events.clone();
        tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            let _ = events.send(Event::OutOfPatience);
        });
    }

    fn kill_all(&mut self) {
        self.slots.iter_mut().filter_map(|slot| slot.worker.as_mut()).for_each(Worker::kill);
    }
}

/// How many invocations a batch has and whether somebody waits for their end.
fn batch_facts(body: &[u8]) -> (u64, bool) {
    let mut decoder = Decoder::new(body);
    let waits = decoder.byte("wait").unwrap_or(0) != 0;
    let mut count = 0;
    while !decoder.rest().is_empty() && decoder.bytes("invocation").is_ok() {
        count += 1;
    }
    (count, waits)
}
