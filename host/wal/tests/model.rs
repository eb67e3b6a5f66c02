//! Random histories of appends, syncs, rotations, drops, crashes and reopenings agree with a list in memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation
)]

mod common;

use common::{SMALL, bodies, claimed, create, dir};
use proptest::prelude::*;
use wasmq_wal::Wal;
use wasmq_wal::disk::{Disk, SimDisk, Survival};

#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    Flush,
    Sync,
    Rotate,
    DropOldest,
    Close,
    Kill,
    PowerCut(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..400usize).prop_map(Step::Append),
        2 => Just(Step::Flush),
        3 => Just(Step::Sync),
        1 => Just(Step::Rotate),
        1 => Just(Step::DropOldest),
        1 => Just(Step::Close),
        1 => Just(Step::Kill),
        1 => any::<u64>().prop_map(Step::PowerCut),
    ]
}

/// Records in order: the segment each lies in, its body.
type Records = Vec<(u32, Vec<u8>)>;

struct Model {
    disk: SimDisk,
    wal: Option<Wal>,
    records: Records,
    /// How many of them are flushed, and how many durable.
    flushed: usize,
    durable: usize,
    next: u8,
}

impl Model {
    fn wal(&mut self) -> &mut Wal {
        self.wal.as_mut().unwrap()
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Append(len) => self.append(*len),
            Step::Flush => {
                self.wal().flush().unwrap();
                self.flushed = self.records.len();
            }
            Step::Sync => {
                let _ = self.wal().sync().unwrap();
                self.all_durable();
            }
            Step::Rotate => {
                self.wal().rotate().unwrap();
                if self.wal().position().offset == 64 {
                    self.all_durable();
                }
            }
            Step::DropOldest => self.drop_oldest(),
            Step::Close => {
                self.wal.take().unwrap().close().unwrap();
                self.all_durable();
                self.reopen(Survival::Lost, 0);
            }
            Step::Kill => {
                self.wal = None;
                self.records.truncate(self.flushed.max(self.durable));
                self.reopen_same_disk();
            }
            Step::PowerCut(seed) => {
                let survival = [Survival::Lost, Survival::Torn, Survival::Kept][(seed % 3) as usize];
                self.reopen(survival, *seed);
            }
        }
    }

    fn all_durable(&mut self) {
        self.flushed = self.records.len();
        self.durable = self.records.len();
    }

    fn append(&mut self, len: usize) {
        self.next = self.next.wrapping_add(1);
        let body = vec![self.next; len];
        let before = self.wal().position().segment;
        let at = self.wal().append(7, &[&body]).unwrap();
        if at.segment != before {
            // The rotation synced everything before it.
            self.all_durable();
        }
        self.records.push((at.segment, body.clone()));
        if self.next.is_multiple_of(16) {
            assert_eq!(self.wal().read(at).unwrap(), body);
            self.flushed = self.records.len();
        }
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.wal().oldest_sealed() else {
            return;
        };
        self.wal().drop_oldest().unwrap();
        self.all_durable();
        self.records.retain(|(segment, _)| *segment != oldest);
        self.all_durable();
    }

    fn reopen(&mut self, survival: Survival, seed: u64) {
        self.disk = self.disk.after_power_cut(survival, seed);
        self.wal = None;
        let (found, report) = bodies(&self.disk);
        assert!(report.damaged.is_empty(), "{report:?}");
        assert!(found.len() >= self.durable && found.len() <= self.records.len());
        self.records.truncate(found.len());
        self.reopen_same_disk();
    }

    fn reopen_same_disk(&mut self) {
        let (found, _) = bodies(&self.disk);
        let expected: Vec<_> = self.records.iter().map(|(_, body)| body.clone()).collect();
        assert_eq!(found, expected);
        self.wal = Some(claimed(&self.disk).reopen(SMALL).unwrap());
        self.all_durable();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_is_a_list_that_survives(steps in proptest::collection::vec(step(), 1..60)) {
        let disk = SimDisk::new();
        let wal = Some(create(&disk).unwrap());
        let mut model = Model { disk, wal, records: Vec::new(), flushed: 0, durable: 0, next: 0 };
        for step in &steps {
            model.run(step);
        }
        model.run(&Step::Close);
        model.wal.take().unwrap().delete().unwrap();
        prop_assert_eq!(model.disk.list(dir()).unwrap(), []);
    }

    #[test]
    fn no_bytes_in_place_of_a_segment_can_stop_a_scan(
        junk in proptest::collection::vec(any::<u8>(), 0..400),
        sequence in 1..4u32,
    ) {
        let disk = SimDisk::new();
        let mut wal = create(&disk).unwrap();
        for n in 1..=3u8 {
            wal.append(1, &[&[n; 200]]).unwrap();
        }
        wal.close().unwrap();
        common::put(&disk, &common::segment_path(sequence), &junk);
        let (found, report) = bodies(&disk);
        prop_assert_eq!(found.len(), 2);
        let unfinished = sequence == 3 && junk.iter().all(|&byte| byte == 0);
        prop_assert_eq!(report.damaged.is_empty(), unfinished);
    }
}
