//! The units of debug information, one at a time, with everything that is read of them counted.
//!
//! Debug information is a small language whose parts may refer to each other at will, so a file of a few bytes
//! can ask for any amount of work. Invariants: every step is paid from one purse ([`Units::pay`]) and the
//! search ends when it is empty; no table is read that could take much memory.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use gimli::{
    Abbreviations, AttributeValue, DebugInfoOffset, DebuggingInformationEntry, EndianSlice, LittleEndian, SectionId,
    UnitOffset,
};

use super::modules::Module;

pub(super) type Bytes<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Dwarf<'a> = gimli::Dwarf<Bytes<'a>>;
pub(super) type Unit<'a> = gimli::Unit<Bytes<'a>>;
pub(super) type Header<'a> = gimli::UnitHeader<Bytes<'a>>;
pub(super) type Entry<'a> = DebuggingInformationEntry<Bytes<'a>>;
pub(super) type Value<'a> = AttributeValue<Bytes<'a>>;

/// The largest table of abbreviations that is read; in memory it is thirty times as large.
const MAX_ABBREVIATION_BYTES: usize = 8 * 1024 * 1024;
/// The largest list of the files of a unit that is read; in memory it is a hundred times as large.
const MAX_FILE_LIST_BYTES: u64 = 2 * 1024 * 1024;
/// The longest text that is looked at.
const MAX_TEXT_BYTES: usize = 16 * 1024;
/// How many bytes that are only searched for an end are as much work as one step.
const BYTES_PER_STEP: u64 = 16;

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

/// How many steps may still be taken.
#[derive(Debug)]
pub(super) struct Purse(Cell<u64>);

impl Purse {
    pub(super) const fn of(steps: u64) -> Self {
        Self(Cell::new(steps))
    }

    /// Pays for so many steps.
    fn pay(&self, steps: u64) -> Result<(), Stop> {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or_default());
        left.map(|_| ()).ok_or(Stop::Spent)
    }
}

/// The debug information of a core module.
#[derive(Debug)]
pub(super) struct Units<'a> {
    /// Without the sections of texts, which are looked for with [`Units::text`].
    pub(super) dwarf: Dwarf<'a>,
    texts: &'a [u8],
    line_texts: &'a [u8],
    line: &'a [u8],
    abbreviations: &'a [u8],
    /// Where tables of abbreviations begin, in order.
    tables: Vec<usize>,
    last_table: RefCell<Option<(usize, Arc<Abbreviations>)>>,
    purse: &'a Purse,
}

impl<'a> Units<'a> {
    /// The debug information of a module, with what may be spent on it.
    pub(super) fn of(module: &Module<'a>, purse: &'a Purse) -> Result<Self, Stop> {
        let load = |id: SectionId| {
            let is_searched = !matches!(id, SectionId::DebugStr | SectionId::DebugLineStr);
            Ok::<_, Stop>(Bytes::new(if is_searched { module.section(id.name()) } else { &[] }, LittleEndian))
        };
        let mut units = Self {
            dwarf: Dwarf::load(load)?,
            texts: module.section(SectionId::DebugStr.name()),
            line_texts: module.section(SectionId::DebugLineStr.name()),
            line: module.section(".debug_line"),
            abbreviations: module.section(".debug_abbrev"),
            tables: Vec::new(),
            last_table: RefCell::default(),
            purse,
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
        self.purse.pay(steps)
    }

    /// Pays for an entry that was read, with the texts in it.
    pub(super) fn pay_entry(&self, entry: &Entry<'a>) -> Result<(), Stop> {
        let texts = entry.attrs().iter().map(|attribute| match attribute.raw_value() {
            AttributeValue::String(text) => text.len() as u64 / BYTES_PER_STEP,
            _ => 0,
        });
        self.pay(1 + entry.attrs().len() as u64 + texts.sum::<u64>())
    }

    /// Reads an entry.
    pub(super) fn entry(&self, unit: &Unit<'a>, offset: UnitOffset) -> Result<Entry<'a>, Stop> {
        let entry = unit.entry(offset).map_err(|_| self.damaged(&unit.header))?;
        self.pay_entry(&entry)?;
        Ok(entry)
    }

    /// What has no end was looked at to the end of its unit.
    fn damaged(&self, header: &Header<'a>) -> Stop {
        self.pay(header.length_including_self() as u64 / BYTES_PER_STEP).err().unwrap_or(Stop::Unit)
    }

    /// Opens a unit: reads its abbreviations, its first entry and its list of files.
    pub(super) fn open(&self, header: Header<'a>) -> Result<Unit<'a>, Stop> {
        let abbreviations = self.abbreviations(&header)?;
        let (name, directory) = {
            let mut entries = header.entries(&abbreviations);
            let root = entries.next_dfs().map_err(|_| self.damaged(&header))?.ok_or(Stop::Unit)?;
            self.pay_entry(root)?;
            if let Some(AttributeValue::DebugLineRef(offset)) = root.attr_value(gimli::DW_AT_stmt_list) {
                let bytes = file_list_bytes(self.line, offset.0).filter(|bytes| *bytes <= MAX_FILE_LIST_BYTES);
                self.pay(bytes.ok_or(Stop::Unit)? / 8)?;
            }
            (root.attr_value(gimli::DW_AT_name), root.attr_value(gimli::DW_AT_comp_dir))
        };
        let mut unit = Unit::new_with_abbreviations(&self.dwarf, header, abbreviations)?;
        unit.name = name.map_or(Ok(None), |name| self.text(&unit, name))?;
        unit.comp_dir = directory.map_or(Ok(None), |directory| self.text(&unit, directory))?;
        Ok(unit)
    }

    /// A text that an attribute has or refers to, no longer than is worth looking at.
    pub(super) fn text(&self, unit: &Unit<'a>, value: Value<'a>) -> Result<Option<Bytes<'a>>, Stop> {
        let place = match value {
            AttributeValue::String(text) => Some(text.slice()),
            AttributeValue::DebugStrRef(offset) => self.texts.get(offset.0..),
            AttributeValue::DebugLineStrRef(offset) => self.line_texts.get(offset.0..),
            AttributeValue::DebugStrOffsetsIndex(index) => {
                self.dwarf.string_offset(unit, index).ok().and_then(|offset| self.texts.get(offset.0..))
            }
            _ => None,
        };
        let Some(place) = place else { return Ok(None) };
        let text = place.get(..MAX_TEXT_BYTES).unwrap_or(place);
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        self.pay(1 + text.len() as u64 / BYTES_PER_STEP)?;
        Ok(Some(Bytes::new(text, LittleEndian)))
    }

    /// Opens the unit that has an entry, and says where in it.
    pub(super) fn open_at(&self, offset: DebugInfoOffset) -> Result<(Unit<'a>, UnitOffset), Stop> {
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

    /// The ranges of addresses of an entry, each given to `visit`, which says how much work it had with it.
    /// Whether the entry says anything of them.
    pub(super) fn each_range(
        &self,
        unit: &Unit<'a>,
        entry: &Entry<'a>,
        mut visit: impl FnMut(u64, u64) -> usize,
    ) -> Result<bool, Stop> {
        if let Some(ranges) = entry.attr_value(gimli::DW_AT_ranges) {
            let Some(mut list) = self.dwarf.attr_ranges(unit, ranges)? else { return Ok(false) };
            // One by one: what covers nothing, of which a list may have any number, is work too.
            while let Some(raw) = list.next_raw()? {
                self.pay(1)?;
                if let Some(range) = list.convert_raw(raw)? {
                    self.pay(visit(range.begin, range.end) as u64)?;
                }
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
        self.pay(visit(low, high) as u64)?;
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
