//! A log in two segments: its files as any bytes, or a real log with damage done to it. Reading ends, says
//! the same twice, invents nothing, and what was read can be written and read again; a log that is gone on
//! with has all of it and the new record.
//!
//! The first byte says which: even for raw bytes (the length of the first segment in two bytes, the two
//! segments), odd for records (kind, length in two bytes, body; kind 0 begins the damage) and damage
//! (segment, offset in two bytes, what).

use std::ops::ControlFlow;
use std::path::Path;

use wasmq_wal::disk::SimDisk;
use wasmq_wal::{Claim, Options, ScanReport, Wal, WalId, claim, scan, segment_file_name};

use crate::input::{Input, content, put, share};

const DIR: &str = "/journal";
const ID: WalId = WalId::from_bytes([0xA7; 16]);
const OTHER: WalId = WalId::from_bytes([0xB8; 16]);
const SMALL: Options = Options { segment_bytes: 300, extend_bytes: 128, buffer_bytes: 1 << 20 };

type Records = Vec<(u8, Vec<u8>)>;

/// See the module.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let disk = SimDisk::new();
    let written = if input.byte() % 2 == 0 { raw(&mut input, &disk) } else { damaged(&mut input, &disk) };
    let Some((found, report)) = read(&disk, ID) else { return };
    assert_eq!(read(&disk, ID), Some((found.clone(), report)), "the same twice");
    if let Some(written) = written {
        let mut rest = written.iter();
        assert!(found.iter().all(|one| rest.any(|other| one == other)), "nothing invented, order kept");
    }
    copy(&disk, &found);
    go_on(&disk, found);
}

fn path(sequence: u32) -> String {
    format!("{DIR}/{}", segment_file_name(ID, sequence))
}

fn raw(input: &mut Input<'_>, disk: &SimDisk) -> Option<Records> {
    let len = input.short();
    put(disk, &path(1), input.take(len));
    if !input.is_empty() {
        put(disk, &path(2), input.0);
    }
    None
}

fn damaged(input: &mut Input<'_>, disk: &SimDisk) -> Option<Records> {
    let mut wal = Wal::create(share(disk), Path::new(DIR), ID, "fuzz", SMALL).unwrap();
    let mut written = Records::new();
    loop {
        let kind = input.byte();
        if kind == 0 || written.len() == 64 {
            break;
        }
        let len = input.short() % 600;
        let body = input.take(len);
        wal.append(kind, &[body]).unwrap();
        written.push((kind, body.to_vec()));
    }
    let _proof = wal.sync().unwrap();
    drop(wal);
    while !input.is_empty() {
        harm(input, disk);
    }
    Some(written)
}

/// Cuts a segment, or changes, blanks or doubles a part of it.
fn harm(input: &mut Input<'_>, disk: &SimDisk) {
    let path = path(u32::from(input.byte() % 4) + 1);
    let at = input.short();
    let what = input.byte();
    let Some(mut bytes) = content(disk, &path) else { return };
    let at = at % (bytes.len() + 1);
    let end = (at + usize::from(what >> 2)).min(bytes.len());
    match what % 4 {
        0 => bytes.truncate(at),
        1 => bytes[at..end].fill(0),
        2 => bytes[at..end].iter_mut().for_each(|byte| *byte ^= 0x55),
        _ => {
            let part = bytes[at..end].to_vec();
            bytes.splice(end..end, part);
        }
    }
    put(disk, &path, &bytes);
}

fn read(disk: &SimDisk, id: WalId) -> Option<(Records, String)> {
    let mut found = Records::new();
    let report: ScanReport = scan(disk, Path::new(DIR), id, &mut |record| {
        found.push((record.kind, record.body.to_vec()));
        ControlFlow::Continue(())
    })
    .ok()?;
    assert_eq!(report.records, found.len() as u64);
    Some((found, format!("{report:?}")))
}

/// What was read goes through a log of its own unchanged.
fn copy(disk: &SimDisk, found: &Records) {
    let mut wal = Wal::create(share(disk), Path::new(DIR), OTHER, "fuzz", SMALL).unwrap();
    for (kind, body) in found {
        wal.append(*kind, &[body]).unwrap();
    }
    wal.close().unwrap();
    let (again, _) = read(disk, OTHER).unwrap();
    assert_eq!(&again, found);
}

/// The log is taken over where it lies and gets one more record.
fn go_on(disk: &SimDisk, mut found: Records) {
    let Ok(Claim::Claimed(orphan)) = claim(share(disk), Path::new(DIR), ID) else { return };
    let Ok(mut wal) = orphan.reopen(SMALL) else { return };
    wal.append(9, &[b"one more"]).unwrap();
    wal.close().unwrap();
    found.push((9, b"one more".to_vec()));
    let (again, report) = read(disk, ID).unwrap();
    assert_eq!(again, found, "{report}");
}
