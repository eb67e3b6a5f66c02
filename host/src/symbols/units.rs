//! The units of debug information, one at a time, with everything that is read of them counted.
//!
//! Debug information is a small language whose parts may refer to each other at will, so a file of a few bytes
//! can ask for any amount of work. Invariants: every step is paid from one purse ([`Units::pay`]) and the
//! search ends when it is empty; no table is read that could take much memory.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use gimli::{Abbreviations, AttributeValue, DebugInfoOffset, DebuggingInformationEntry, EndianSlice, LittleEndian};

use super::modules::Module;

pub(super) type Bytes<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Dwarf<'a> = gimli::Dwarf<Bytes<'a>>;
pub(super) type Unit<'a> = gimli::Unit<Bytes<'a>>;
pub(super) type Header<'a> = gimli::UnitHeader<Bytes<'a>>;
pub(super) type Entry<'a> = DebuggingInformationEntry<Bytes<'a>>;

/// The largest table of abbreviations that is read; in memory it is thirty times as large.
const MAX_ABBREVIATION_BYTES: usize = 8 * 1024 * 1024;
/// The largest list of the files of a unit that is read; in memory it is a hundred times as large.
const MAX_FILE_LIST_BYTES: u64 = 2 * 1024 * 1024;

/// Why a unit says nothing.
#[derive(Debug)]
pub(super) enum Stop {
    /// It is damaged, or over a limit: the next unit may say something.
    Unit,
    /// Everything together is too much work.
    Spent,
}

impl From<gimli::Error> for Stop {
    fn from(_: gimli::Error) -> Self {
        Self::Unit
    }
}

/// The debug information of a core module.
#[derive(Debug)]
pub(super) struct Units<'a> {
    pub(super) dwarf: Dwarf<'a>,
    line: &'a [u8],
    abbreviations: &'a [u8],
    /// Where tables of abbreviations begin, in order.
    tables: Vec<usize>,
    last_table: RefCell<Option<(usize, Arc<Abbreviations>)>>,
    purse: Cell<u64>,
}

impl<'a> Units<'a> {
    /// The debug information of a module, with so many steps to spend on it.
    pub(super) fn of(module: &Module<'a>, steps: u64) -> Result<Self, Stop> {
        let load = |id: gimli::SectionId| Ok::<_, Stop>(Bytes::new(module.section(id.name()), LittleEndian));
        let mut units = Self {
            dwarf: Dwarf::load(load)?,
            line: module.section(".debug_line"),
            abbreviations: module.section(".debug_abbrev"),
            tables: Vec::new(),
            last_table: RefCell::default(),
            purse: Cell::new(steps),
        };
        let mut headers = units.dwarf.units();
        while let Some(header) = headers.next()? {
            units.pay(1)?;
            let table = header.debug_abbrev_offset().0;
            if units.tables.last() != Some(&table) {
                units.tables.push(table);
            }
        }
        units.tables.sort_unstable();
        units.tables.dedup();
        Ok(units)
    }

    /// Pays for so many steps.
    pub(super) fn pay(&self, steps: u64) -> Result<(), Stop> {
        let left = self.purse.get().checked_sub(steps);
        self.purse.set(left.unwrap_or_default());
        left.map(|_| ()).ok_or(Stop::Spent)
    }

    /// Pays for an entry that was read.
    pub(super) fn pay_entry(&self, entry: &Entry<'a>) -> Result<(), Stop> {
        self.pay(1 + entry.attrs().len() as u64)
    }

    /// Opens a unit: reads its abbreviations, its first entry and its list of files.
    pub(super) fn open(&self, header: Header<'a>) -> Result<Unit<'a>, Stop> {
        let abbreviations = self.abbreviations(&header)?;
        {
            let mut entries = header.entries(&abbreviations);
            let Some(root) = entries.next_dfs()? else { return Err(Stop::Unit) };
            self.pay_entry(root)?;
            if let Some(AttributeValue::DebugLineRef(offset)) = root.attr_value(gimli::DW_AT_stmt_list) {
                let bytes = file_list_bytes(self.line, offset.0).filter(|bytes| *bytes <= MAX_FILE_LIST_BYTES);
                self.pay(bytes.ok_or(Stop::Unit)? / 8)?;
            }
        }
        Ok(Unit::new_with_abbreviations(&self.dwarf, header, abbreviations)?)
    }

    /// Opens the unit that has an entry, and says where in it.
    pub(super) fn open_at(&self, offset: DebugInfoOffset) -> Result<(Unit<'a>, gimli::UnitOffset), Stop> {
        let mut headers = self.dwarf.units();
        while let Some(header) = headers.next()? {
            self.pay(1)?;
            if let Some(inside) = offset.to_unit_offset(&header) {
                return Ok((self.open(header)?, inside));
            }
        }
        Err(Stop::Unit)
    }

    /// A table of abbreviations. Tables do not overlap, so each is read no further than to where the next
    /// begins, and all of them together are no more work than their section has bytes.
    fn abbreviations(&self, header: &Header<'a>) -> Result<Arc<Abbreviations>, Stop> {
        let start = header.debug_abbrev_offset().0;
        if let Some((_, table)) = self.last_table.borrow().as_ref().filter(|(last, _)| *last == start) {
            return Ok(Arc::clone(table));
        }
        let next = self.tables.partition_point(|table| *table <= start);
        let end = self.tables.get(next).copied().unwrap_or(self.abbreviations.len()).min(self.abbreviations.len());
        let bytes = self.abbreviations.get(start..end).ok_or(Stop::Unit)?;
        self.pay(bytes.len() as u64 / 4)?;
        if bytes.len() > MAX_ABBREVIATION_BYTES {
            return Err(Stop::Unit);
        }
        let section = gimli::DebugAbbrev::from(Bytes::new(bytes, LittleEndian));
        let table = Arc::new(section.abbreviations(gimli::DebugAbbrevOffset(0))?);
        *self.last_table.borrow_mut() = Some((start, Arc::clone(&table)));
        Ok(table)
    }

    /// The ranges of addresses of an entry, each given to `visit`. Whether it says anything of them.
    pub(super) fn each_range(
        &self,
        unit: &Unit<'a>,
        entry: &Entry<'a>,
        mut visit: impl FnMut(u64, u64),
    ) -> Result<bool, Stop> {
        if let Some(ranges) = entry.attr_value(gimli::DW_AT_ranges) {
            let Some(mut list) = self.dwarf.attr_ranges(unit, ranges)? else { return Ok(false) };
            while let Some(range) = list.next()? {
                self.pay(1)?;
                visit(range.begin, range.end);
            }
            return Ok(true);
        }
        let address = |name| match entry.attr_value(name) {
            Some(value) => self.dwarf.attr_address(unit, value),
            None => Ok(None),
        };
        let Some(low) = address(gimli::DW_AT_low_pc)? else { return Ok(false) };
        let length = entry.attr_value(gimli::DW_AT_high_pc).and_then(|value| value.udata_value());
        let high = match length {
            Some(length) => low.checked_add(length),
            None => address(gimli::DW_AT_high_pc)?,
        };
        let Some(high) = high else { return Ok(false) };
        visit(low, high);
        Ok(true)
    }
}

/// How long the header of a line program says it is, without reading the lists in it.
fn file_list_bytes(section: &[u8], offset: usize) -> Option<u64> {
    let mut header = section.get(offset..)?;
    let mut number = |bytes: usize| {
        let (field, rest) = header.split_at_checked(bytes)?;
        header = rest;
        Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let is_wide = number(4)? == 0xffff_ffff;
    if is_wide {
        number(8)?;
    }
    if number(2)? >= 5 {
        number(2)?;
    }
    number(if is_wide { 8 } else { 4 })
}
