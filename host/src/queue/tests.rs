//! Retrying on the simulated disk: the power is cut at every operation, others come and clean up, and
//! every death has exactly one replay.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wasmq_core::event::Exhausted;
use wasmq_core::report::FailureReport;
use wasmq_core::state::Entry;
use wasmq_core::{
    Attempt, DeadTask, Digest, Invocation, InvocationId, Problem, Settings, Timestamp, Usage, Verdict, VersionNumber,
};
use wasmq_wal::disk::{Disk, RealDisk, SimDisk, Survival};

use super::*;
use crate::journal::{DiskJournal, JournalOptions, LiveStore};
use crate::registry::{NewVersion, digest_of};

const DATA: &str = "/data";

fn id(n: u128) -> InvocationId {
    InvocationId::new(Timestamp(1), n)
}

pub(super) fn open(disk: &SimDisk) -> Result<Queue, QueueError> {
    Queue::open_on(Arc::new(disk.clone()), Options::new(DATA))
}

pub(super) fn deploy(queue: &Queue, component: &[u8]) -> Digest {
    let registry = &queue.inner.registry;
    let digest = digest_of(component);
    registry.store_component(component, &digest).unwrap();
    let version =
        NewVersion { digest, settings: Settings::default(), label: None, shape: "typed".to_owned(), module: None };
    registry.deploy(&"resize".parse().unwrap(), version, true, Timestamp(3)).unwrap();
    digest
}

pub(crate) fn dead(n: u128, digest: Digest) -> DeadTask {
    let invocation = Invocation::new(id(n), "resize".parse().unwrap(), Timestamp(1));
    let entry = Entry { attempts: 1, ..Entry::new(invocation, ()) };
    let attempt = Attempt {
        number: 1,
        version: VersionNumber::FIRST,
        digest,
        started_at: Timestamp(2),
        ended_at: Timestamp(3),
        verdict: Verdict::ErrorPermanent,
        deterministic: false,
        summary: "broken".to_owned(),
    };
    let exhausted = Exhausted {
        dead_at: Timestamp(3),
        attempt,
        failure: FailureReport { problem: Problem::new("broken", "broken", None), ..FailureReport::default() },
        usage: Usage::default(),
        limits: (&Settings::default()).into(),
        max_attempts: 3,
        worker: "test".to_owned(),
        engine: "test".to_owned(),
        wit: "0.1.0".to_owned(),
    };
    entry.dead_task(&exhausted, format!("payload {n}").as_bytes())
}

/// A disk with a deployed task and three dead tasks.
fn world() -> SimDisk {
    let disk = SimDisk::new();
    let queue = open(&disk).unwrap();
    queue.inner.make_directories().unwrap();
    let digest = deploy(&queue, b"component one");
    queue.inner.dlq.add(&[dead(1, digest), dead(2, digest), dead(3, digest)]).unwrap();
    disk
}

fn retry_all(queue: &Queue) -> Result<RetryReport, QueueError> {
    queue.dead_tasks().retry(&Selection::All, &Component::Current, None, false, &mut |_| {})
}

/// Adopts as a worker does.
fn adopt(disk: &SimDisk, queue: &Queue) -> DiskJournal {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let dir = Path::new(DATA).join("journal");
    let mut journal = DiskJournal::create(shared, &dir, "test", JournalOptions::default()).unwrap();
    let mut hook = |replays: &[(InvocationId, u32)]| {
        let mut locked = queue.inner.dlq.lock().map_err(|error| error.to_string())?;
        locked.drop_superseded(replays, Timestamp(9)).map(|_| ()).map_err(|error| error.to_string())
    };
    while journal.adopt(crate::clock::now(), &mut hook).unwrap().more {}
    journal
}

fn every_death_has_one_replay(journal: &mut DiskJournal, queue: &Queue) {
    assert_eq!(queue.dead_tasks().counts().unwrap().total, 0);
    assert_eq!(journal.counts().ready, 3);
    for n in 1..=3 {
        let entry = journal.get(&id(n)).unwrap_or_else(|| panic!("{n} is lost"));
        assert_eq!((entry.invocation.replays, entry.invocation.deaths.len()), (1, 1));
        assert_eq!(&*journal.payload(&id(n)).unwrap(), format!("payload {n}").as_bytes());
    }
}

#[test]
fn a_retry_keeps_id_payload_and_history_and_counts_the_replay() {
    let disk = world();
    let queue = open(&disk).unwrap();
    let report = retry_all(&queue).unwrap();
    assert_eq!((report.retried.len(), report.refused.len()), (3, 0));
    every_death_has_one_replay(&mut adopt(&disk, &queue), &queue);
}

#[test]
fn power_cut_at_every_step_of_a_retry_then_a_worker_then_an_operator() {
    for cut in 0.. {
        let disk = world();
        let queue = open(&disk).unwrap();
        disk.cut_power_at(disk.operations() + cut);
        let finished = retry_all(&queue).is_ok();
        drop(queue);
        for survival in Survival::ALL {
            for worker_first in [true, false] {
                let after = disk.after_power_cut(survival, cut);
                let queue = open(&after).unwrap();
                if worker_first {
                    let mut journal = adopt(&after, &queue);
                    let already = journal.counts().ready;
                    let report = retry_all(&queue).unwrap();
                    assert_eq!(report.retried.len() as u64 + already, 3, "cut {cut}, {survival:?}");
                    journal.commit().unwrap();
                    drop(journal);
                } else {
                    retry_all(&queue).unwrap();
                }
                every_death_has_one_replay(&mut adopt(&after, &queue), &queue);
            }
        }
        if finished {
            println!("{cut} cut points");
            assert!(cut > 15);
            return;
        }
    }
}

#[test]
fn a_version_that_does_not_exist_leaves_the_dead_task_where_it_is() {
    let disk = world();
    let queue = open(&disk).unwrap();
    let report = queue
        .dead_tasks()
        .retry(&Selection::Ids(vec![id(2)]), &Component::Named("v7".to_owned()), None, false, &mut |_| {})
        .unwrap();
    assert!(matches!(report.refused[0].error, QueueError::Unresolved(_)), "{:?}", report.refused);
    queue.remove_task(&"resize".parse().unwrap()).unwrap();
    assert!(retry_all(&queue).unwrap().retried.is_empty());
    assert_eq!(queue.dead_tasks().counts().unwrap().total, 3);
}

#[test]
fn the_original_is_found_by_its_digest_also_under_another_version_number() {
    let disk = world();
    let queue = open(&disk).unwrap();
    let second = deploy(&queue, b"component two");
    let retried = retry_original(&queue);
    assert_eq!((retried.version, retried.component), (VersionNumber::FIRST, retried.failed_component));
    assert_ne!(retried.component, second);
}

fn retry_original(queue: &Queue) -> Retried {
    let mut report =
        queue.dead_tasks().retry(&Selection::Ids(vec![id(1)]), &Component::Original, None, true, &mut |_| {}).unwrap();
    report.retried.pop().unwrap()
}

#[test]
fn twenty_at_once_make_one_replay_and_nineteen_clear_answers() {
    let disk = world();
    let queue = open(&disk).unwrap();
    let threads: Vec<_> = (0..20)
        .map(|_| {
            let own = open(&disk).unwrap();
            std::thread::spawn(move || {
                own.dead_tasks().retry(&Selection::Ids(vec![id(1)]), &Component::Current, None, false, &mut |_| {})
            })
        })
        .collect();
    let reports: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect();
    assert_eq!(reports.iter().filter(|report| report.retried.len() == 1).count(), 1);
    let refusals = reports.iter().flat_map(|report| &report.refused);
    assert!(refusals.clone().all(|refused| matches!(refused.error, QueueError::AlreadyRetried { replays: 1, .. })));
    assert_eq!(refusals.count(), 19);
    assert_eq!(adopt(&disk, &queue).counts().ready, 1);
}

#[test]
fn retrying_and_deleting_inside_the_loop_visits_every_dead_task() {
    let disk = world();
    let queue = open(&disk).unwrap();
    let digest = digest_of(b"component one");
    let more: Vec<_> = (100..900).map(|n| dead(n, digest)).collect();
    queue.inner.dlq.add(&more).unwrap();
    let mut visited = 0;
    for entry in queue.dead_tasks().iter(&Selection::All) {
        let entry = entry.unwrap();
        if visited % 2 == 0 {
            entry.delete().unwrap()
        } else {
            entry.retry(&Component::Current).map(|_| ()).unwrap()
        }
        visited += 1;
    }
    assert_eq!(visited, 803);
    assert_eq!(queue.dead_tasks().counts().unwrap().total, 0);
}

#[test]
fn an_enqueue_for_a_task_that_is_not_deployed_writes_nothing() {
    let disk = world();
    let queue = open(&disk).unwrap();
    let before = disk.list(&Path::new(DATA).join("journal")).unwrap().len();
    let refused = queue.enqueue(NewInvocation::new("resise".parse().unwrap(), Vec::new()));
    assert!(refused.unwrap_err().to_string().contains("resize"));
    let too_large = queue.enqueue(NewInvocation::new("resize".parse().unwrap(), vec![0; (1 << 20) + 1]));
    assert!(matches!(too_large, Err(QueueError::PayloadTooLarge { found: 1_048_577, limit: 1_048_576 })));
    assert_eq!(disk.list(&Path::new(DATA).join("journal")).unwrap().len(), before);
}

#[test]
fn many_threads_that_enqueue_share_a_log_and_lose_nothing() {
    let disk = world();
    let queue = open(&disk).unwrap();
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let queue = queue.clone();
            std::thread::spawn(move || {
                (0..25)
                    .map(|_| queue.enqueue(NewInvocation::new("resize".parse().unwrap(), b"x".to_vec())).unwrap())
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let ids: std::collections::HashSet<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    queue.flush().unwrap();
    let journal = adopt(&disk, &queue);
    assert_eq!(ids.len(), 400);
    assert!(ids.iter().all(|id| journal.get(id).is_some()));
}

#[test]
fn an_empty_batch_is_enqueued_at_once() {
    let queue = open(&SimDisk::new()).unwrap();
    assert_eq!(queue.enqueue_all(Vec::new()).unwrap(), []);
}

/// Somebody else looks at each directory all the while it is made.
#[test]
fn a_directory_that_is_made_at_this_moment_is_not_taken_for_a_link_to_nowhere() {
    let root = tempfile::tempdir().unwrap();
    let parents: Vec<_> = (0..3000).map(|n| root.path().join(n.to_string())).collect();
    parents.iter().for_each(|parent| std::fs::create_dir(parent).unwrap());
    let looked_for = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            for (index, parent) in parents.iter().enumerate() {
                let dir = parent.join("data");
                looked_for.store(index + 1, Ordering::Release);
                while !dir.exists() {
                    refuse_what_is_no_directory(&RealDisk, &dir).unwrap();
                }
            }
        });
        for (index, parent) in parents.iter().enumerate() {
            while looked_for.load(Ordering::Acquire) <= index && !looker.is_finished() {
                std::thread::yield_now();
            }
            std::fs::create_dir(parent.join("data")).unwrap();
        }
    });
}
