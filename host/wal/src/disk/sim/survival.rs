//! What a power cut leaves: unsynced changes lost, kept, torn or reordered by seeded dice.

use super::Survival;
use super::dice::Dice;
use super::state::{Change, Inode, Node, State, Write};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Sizes of the blocks that survive on their own when writes are reordered, in bytes. Small ones
/// are not realistic, but find more in tests with small records.
const BLOCK_BYTES: [usize; 3] = [16, 64, 512];

impl State {
    pub(super) fn after_power_cut(&self, survival: Survival, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let entries = surviving_entries(&self.durable, &self.pending, survival, &mut dice);
        let inodes = entries.values().filter_map(|node| match node {
            Node::Dir => None,
            Node::File(number) => Some((*number, self.inodes.get(number)?)),
        });
        let inodes = inodes.map(|(number, inode)| (number, surviving_inode(inode, survival, &mut dice))).collect();
        Self {
            inodes,
            live: entries.clone(),
            durable: entries,
            capacity: self.capacity,
            next_inode: self.next_inode,
            ..Self::default()
        }
    }

    /// The file to which the last operation wrote that came through, if it was a write.
    fn written_last(&self) -> Option<u64> {
        let came_through = self.operations - u64::from(self.off);
        self.writes.last().filter(|(operation, _)| operation + 1 == came_through).map(|(_, inode)| *inode)
    }

    /// What that operation wrote.
    pub(super) fn last_write(&self) -> Option<&[u8]> {
        match self.inodes.get(&self.written_last()?)?.pending.last()? {
            Write::Bytes { bytes, .. } => Some(bytes),
            Write::Len(_) => None,
        }
    }

    pub(super) fn after_torn_write(&self, kept: usize) -> Self {
        let mut after = self.after_power_cut(Survival::Kept, 0);
        let torn = self.written_last().and_then(|number| Some((number, self.inodes.get(&number)?)));
        if let Some((number, inode)) = torn
            && let Some((Write::Bytes { offset, bytes }, earlier)) = inode.pending.split_last()
        {
            let mut content = inode.durable.clone();
            earlier.iter().for_each(|write| write.apply(&mut content));
            let part = bytes.iter().copied().take(kept).collect();
            Write::Bytes { offset: *offset, bytes: part }.apply(&mut content);
            after.inodes.insert(number, Inode::settled(content));
        }
        after
    }
}

fn surviving_entries(
    durable: &BTreeMap<PathBuf, Node>,
    pending: &[Change],
    survival: Survival,
    dice: &mut Dice,
) -> BTreeMap<PathBuf, Node> {
    let mut entries = durable.clone();
    let count = match survival {
        Survival::Lost => 0,
        Survival::Kept | Survival::Reordered => pending.len(),
        Survival::Torn => dice.up_to(pending.len()),
    };
    for change in pending.iter().take(count) {
        if survival != Survival::Reordered || dice.coin() {
            change.apply(&mut entries);
        }
    }
    let known = entries.clone();
    entries.retain(|path, _| reachable(path, &known));
    entries
}

/// Whether every directory above the path survived too.
fn reachable(path: &Path, entries: &BTreeMap<PathBuf, Node>) -> bool {
    let mut above = path.ancestors().skip(1).filter(|parent| parent.parent().is_some());
    above.all(|parent| entries.get(parent) == Some(&Node::Dir))
}

fn surviving_inode(inode: &Inode, survival: Survival, dice: &mut Dice) -> Inode {
    let mut content = inode.durable.clone();
    let pending = inode.pending.iter();
    match survival {
        Survival::Lost => {}
        Survival::Kept => pending.for_each(|write| write.apply(&mut content)),
        Survival::Torn => {
            let whole = dice.up_to(inode.pending.len());
            pending.clone().take(whole).for_each(|write| write.apply(&mut content));
            if let Some(write) = pending.clone().nth(whole) {
                apply_prefix(write, &mut content, dice);
            }
        }
        Survival::Reordered => pending.for_each(|write| apply_blocks(write, &mut content, dice)),
    }
    Inode::settled(content)
}

/// A write that was cut at a byte; a change of length happens or not.
fn apply_prefix(write: &Write, content: &mut Vec<u8>, dice: &mut Dice) {
    if let Write::Bytes { offset, bytes } = write {
        let part = bytes.iter().copied().take(dice.up_to(bytes.len())).collect();
        Write::Bytes { offset: *offset, bytes: part }.apply(content);
    }
}

/// A write of which each block happened or not.
fn apply_blocks(write: &Write, content: &mut Vec<u8>, dice: &mut Dice) {
    let Write::Bytes { offset, bytes } = write else {
        if dice.coin() {
            write.apply(content);
        }
        return;
    };
    let size = BLOCK_BYTES.get(dice.up_to(BLOCK_BYTES.len() - 1)).copied().unwrap_or(512);
    // The first block ends where the grid of blocks on the disk has its next line.
    let (head, rest) = bytes.split_at(bytes.len().min(size - offset % size));
    let mut at = *offset;
    for block in std::iter::once(head).chain(rest.chunks(size)) {
        if dice.coin() {
            Write::Bytes { offset: at, bytes: block.to_vec() }.apply(content);
        }
        at += block.len();
    }
}
