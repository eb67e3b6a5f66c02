//! What has to hold after every crash, whatever was lost (`ARCHITECTURE.md`, "Invariants").

use super::found::{Copy, Found};
use super::told::{Known, Told};
use wasmq_core::InvocationId;

/// Panics with `what` and the facts when what was found contradicts what was told.
pub(super) fn hold(told: &Told, found: &Found, what: &str) {
    for id in found.live.keys().chain(found.dead.keys()) {
        assert!(told.known.contains_key(id), "{what}: {id} was never enqueued");
    }
    for (id, known) in &told.known {
        let (live, dead) = (found.live.get(id), found.dead.get(id));
        if let Some(broken) = broken_rule(known, live, dead) {
            panic!("{what}: {}: {broken}\n told: {known:?}\n live: {live:?}\n dead: {dead:?}", number(id));
        }
    }
    deploys_hold(told, found, what);
}

/// The short number that a test gave an id.
fn number(id: &InvocationId) -> u128 {
    id.as_u128() & 0xffff
}

fn broken_rule(known: &Known, live: Option<&Copy>, dead: Option<&Copy>) -> Option<&'static str> {
    let copies = [live, dead];
    let mut here = copies.iter().flatten();
    let is_here = live.is_some() || dead.is_some();
    if live.is_some() && dead.is_some() {
        return Some("it is live and dead at once");
    }
    if known.safe && !known.end_tried && !is_here {
        return Some("it was acknowledged and is lost");
    }
    if known.ended && is_here {
        return Some("it has ended and came back");
    }
    if here.clone().any(|copy| copy.payload != known.payload) {
        return Some("its payload is not what was enqueued");
    }
    if here.clone().any(|copy| copy.replays > known.replays_tried) {
        return Some("it has a replay that nobody asked for");
    }
    if here.clone().any(|copy| copy.replays < known.replays) {
        return Some("its acknowledged replay is lost");
    }
    let buried = known.dead.filter(|replays| *replays >= known.replays_tried && !known.end_tried);
    if buried.is_some_and(|replays| dead.is_none_or(|copy| copy.replays != replays)) {
        return Some("the dead letter queue had acknowledged it");
    }
    let (replays, attempts) = known.started;
    if !known.released && here.any(|copy| copy.replays == replays && copy.attempts < attempts) {
        return Some("an attempt that had started does not count");
    }
    None
}

fn deploys_hold(told: &Told, found: &Found, what: &str) {
    for (task, number, digest) in &told.versions {
        let here = found.versions.get(&(task.clone(), *number));
        assert_eq!(here, Some(digest), "{what}: {task} {number} was deployed");
    }
    for (task, allowed) in &told.current {
        let here = found.current.get(task).copied();
        assert!(allowed.contains(&here), "{what}: {task} resolves to {here:?} and not to one of {allowed:?}");
    }
}
