//! What one attempt carries in its store: the evidence, the captured output, the limits.
//!
//! Invariants: making one allocates nothing that a quick, quiet attempt does not need; streams, log
//! and contexts come into being when the guest first asks for them. Nothing in here is shared
//! between attempts.

use tokio::time::Instant;
use wasmq_core::bytes::Tail;
use wasmq_core::{FollowUp, InvocationId};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::Rng;
use wasmtime_wasi::filesystem::WasiFilesystemCtx;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::sockets::WasiSocketsCtx;

use super::guest_log::GuestLog;
use super::limits::MemoryLimiter;
use super::observed::{Observation, Observed};
use super::signals::Signals;
use super::stdio::Capture;

/// Streams, timers and the like that a guest may hold at once. Each costs the host some memory.
const MAX_RESOURCES: usize = 10_000;

/// What only a command needs.
pub(super) struct Command {
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) stdin: MemoryInputPipe,
    pub(super) output_bytes: usize,
}

/// The data of one attempt's store.
pub(super) struct State {
    pub(super) table: ResourceTable,
    pub(super) limiter: MemoryLimiter,
    pub(super) observed: Observed,
    /// Something was used that the operator has not granted.
    pub(super) denied: Option<&'static str>,
    pub(super) id: InvocationId,
    pub(super) replays: u32,
    pub(super) attempt: u32,
    pub(super) signals: Option<Signals>,
    pub(super) log: GuestLog,
    pub(super) follow_ups: Vec<FollowUp>,
    pub(super) follow_up_bytes: usize,
    pub(super) command: Option<Command>,
    pub(super) stdout: Option<Capture>,
    pub(super) stderr: Option<Capture>,
    pub(super) insecure: Insecure,
    pub(super) secure: Option<Box<dyn Rng + Send>>,
    pub(super) clock_start: Option<Instant>,
    pub(super) files: WasiFilesystemCtx,
    sockets: Option<WasiSocketsCtx>,
}

impl State {
    pub(super) fn new(id: InvocationId, limiter: MemoryLimiter) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_RESOURCES);
        Self {
            table,
            limiter,
            observed: Observed::default(),
            denied: None,
            id,
            replays: 0,
            attempt: 1,
            signals: None,
            log: GuestLog::default(),
            follow_ups: Vec::new(),
            follow_up_bytes: 0,
            command: None,
            stdout: None,
            stderr: None,
            insecure: Insecure::new(id),
            secure: None,
            clock_start: None,
            files: WasiFilesystemCtx::default(),
            sockets: None,
        }
    }

    pub(super) fn observe(&mut self, what: Observation) {
        self.observed.mark(what);
    }

    /// Notes that the guest used something that was not granted to it.
    pub(super) fn deny(&mut self, what: &'static str) {
        self.denied.get_or_insert(what);
    }

    /// The sockets that nobody granted: every use of them is answered with "access denied".
    pub(super) fn sockets(&mut self) -> (&mut WasiSocketsCtx, &mut ResourceTable) {
        (self.sockets.get_or_insert_default(), &mut self.table)
    }

    pub(super) fn stdout(&mut self) -> &Capture {
        let whole = self.command.as_ref().map(|command| command.output_bytes);
        self.stdout.get_or_insert_with(|| whole.map_or_else(Capture::tail, Capture::whole))
    }

    pub(super) fn stderr(&mut self) -> &Capture {
        self.stderr.get_or_insert_with(Capture::tail)
    }

    pub(super) fn stdout_tail(&self) -> Tail {
        self.stdout.as_ref().map(Capture::to_tail).unwrap_or_default()
    }

    pub(super) fn stderr_tail(&self) -> Tail {
        self.stderr.as_ref().map(Capture::to_tail).unwrap_or_default()
    }
}

/// Numbers for hash maps and the like: the same for every attempt of an invocation, so that they
/// do not stand in the way of `deterministic`. SplitMix64, seeded with the id.
#[derive(Debug, Clone, Copy)]
pub(super) struct Insecure(u64);

impl Insecure {
    #[allow(clippy::cast_possible_truncation)]
    fn new(id: InvocationId) -> Self {
        let bits = id.as_u128();
        let mut mixed = Self((bits >> 64) as u64);
        Self(mixed.next_u64() ^ bits as u64)
    }

    /// A seed of 128 bits that does not depend on what was drawn before.
    pub(super) fn seed(id: InvocationId) -> (u64, u64) {
        let mut mixed = Self(!Self::new(id).0);
        (mixed.next_u64(), mixed.next_u64())
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(word.get(..chunk.len()).unwrap_or_default());
        }
        bytes
    }
}
