//! Debug information: the file and line of an instruction, and the functions that were inlined around it.
//!
//! Invariants: what is found lies inside the function that was asked about, so what linkers leave behind of
//! functions that they dropped is not taken for it; what is damaged says nothing, and the rest is still read.

use std::collections::BTreeMap;
use std::ops::Range;

use gimli::{AttributeValue, ColumnType, UnitOffset};

use super::modules::Module;
use super::names::{capped, demangled};
use super::units::{Bytes, Entry, Header, Purse, Stop, Unit, Units};

/// How deep functions are inlined into each other, at most.
const MAX_INLINED: usize = 64;
/// How often an entry may refer to another for its name.
const MAX_REFERENCES: usize = 16;
/// How deep functions are defined in each other, at most.
const MAX_NESTED: usize = 64;

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    /// Where it is, in bytes from the start of the code.
    pub(super) address: u64,
    /// The function that it belongs to.
    pub(super) function: Range<u64>,
}

/// A function that an instruction belongs to, with the place in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// Its name.
    pub(super) function: Option<String>,
    /// `file:line:column`.
    pub(super) source: Option<String>,
}

/// For each instruction the functions that it belongs to, the innermost first; none where nothing is known.
/// The queries are in the order of their addresses.
pub(super) fn look_up(module: &Module<'_>, queries: &[Query], purse: &Purse) -> Vec<Vec<Place>> {
    let mut found = vec![Vec::new(); queries.len()];
    if !module.contents().lines {
        return found;
    }
    if let Ok(units) = Units::of(module, purse) {
        let mut headers = units.dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let is_spent = matches!(in_unit(&units, header, queries, &mut found), Err(Stop::Spent));
            if is_spent || found.iter().all(|places| !places.is_empty()) {
                break;
            }
        }
    }
    found
}

/// Looks for the queries that have no answer yet in one unit.
pub(super) fn in_unit<'a>(
    units: &Units<'a>,
    header: Header<'a>,
    queries: &[Query],
    found: &mut [Vec<Place>],
) -> Result<(), Stop> {
    units.pay(1)?;
    let unit = units.open(header)?;
    let mut open: Vec<(usize, &Query)> =
        queries.iter().enumerate().filter(|(at, _)| found.get(*at).is_some_and(Vec::is_empty)).collect();
    let mut covered = vec![false; queries.len()];
    let root = units.entry(&unit, unit.header.root_offset())?;
    let mut cover = |from: u64, to: u64| {
        let hits = in_range(&open, from, to);
        for (at, _) in hits {
            covered.iter_mut().skip(*at).take(1).for_each(|covered| *covered = true);
        }
        hits.len()
    };
    // A unit that does not say which addresses it covers may cover all.
    if units.each_range(&unit, &root, &mut cover)? {
        open.retain(|(at, _)| covered.get(*at) == Some(&true));
    }
    if open.is_empty() {
        return Ok(());
    }
    let unit = InUnit { units, unit };
    let rows = unit.rows(&open)?;
    let scopes = unit.scopes(&open)?;
    for (at, _) in open {
        let places = unit.places(scopes.get(&at).map_or(&[], Vec::as_slice), rows.get(&at))?;
        found.iter_mut().skip(at).take(1).for_each(|found| found.clone_from(&places));
    }
    Ok(())
}

/// Those whose addresses lie in a range.
fn in_range<'q, 'r>(open: &'r [(usize, &'q Query)], from: u64, to: u64) -> &'r [(usize, &'q Query)] {
    let first = open.partition_point(|(_, query)| query.address < from);
    let behind = open.partition_point(|(_, query)| query.address < to);
    open.get(first..behind).unwrap_or_default()
}

/// A place in a file, by the number of the file in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    file: u64,
    line: u64,
    column: u64,
}

/// A row of a line table, which holds from its address to that of the next row.
#[derive(Debug, Clone, Copy)]
struct Row {
    line: Line,
    /// Whether its sequence begins in the function that was asked about.
    is_own: bool,
}

/// A function around an instruction.
#[derive(Debug)]
struct Scope {
    entry: UnitOffset,
    /// Where it was called, when it was inlined.
    call: Option<Line>,
    depth: isize,
}

struct InUnit<'u, 'a> {
    units: &'u Units<'a>,
    unit: Unit<'a>,
}

impl<'a> InUnit<'_, 'a> {
    /// The rows of the line table that the instructions belong to.
    fn rows(&self, open: &[(usize, &Query)]) -> Result<BTreeMap<usize, Row>, Stop> {
        let mut found: BTreeMap<usize, Row> = BTreeMap::new();
        let Some(program) = self.unit.line_program.clone() else { return Ok(found) };
        self.units.pay(program.header().raw_program_buf().len() as u64)?;
        let mut rows = program.rows();
        // Where the sequence began, and the row before this one.
        let mut before: Option<(u64, u64, Line)> = None;
        // What is damaged further on leaves valid what was found by then.
        while let Ok(Some((_, row))) = rows.next_row() {
            if let Some((start, address, line)) = before {
                let hits = in_range(open, address, row.address());
                self.units.pay(hits.len() as u64)?;
                for (at, query) in hits {
                    let is_own = query.function.contains(&start);
                    if is_own || !found.contains_key(at) {
                        found.insert(*at, Row { line, is_own });
                    }
                }
            }
            let column = match row.column() {
                ColumnType::LeftEdge => 0,
                ColumnType::Column(column) => column.get(),
            };
            let line = Line { file: row.file_index(), line: row.line().map_or(0, u64::from), column };
            let start = before.map_or(row.address(), |(start, ..)| start);
            before = (!row.end_sequence()).then_some((start, row.address(), line));
        }
        Ok(found)
    }

    /// The functions around the instructions, the outermost first.
    fn scopes(&self, open: &[(usize, &Query)]) -> Result<BTreeMap<usize, Vec<Scope>>, Stop> {
        let mut found: BTreeMap<usize, Vec<Scope>> = BTreeMap::new();
        let mut entries = self.unit.entries();
        // The functions that the entry lies in, the outermost first: their entries and depths.
        let mut around: Vec<(UnitOffset, isize)> = Vec::new();
        while let Ok(Some(entry)) = entries.next_dfs() {
            self.units.pay_entry(entry)?;
            while around.last().is_some_and(|(_, depth)| *depth >= entry.depth()) {
                around.pop();
            }
            let is_inlined = match entry.tag() {
                gimli::DW_TAG_subprogram => false,
                gimli::DW_TAG_inlined_subroutine => true,
                _ => continue,
            };
            let outer = around.last().map(|(outer, _)| *outer);
            let add = |from: u64, to: u64| {
                let hits = in_range(open, from, to);
                for (at, query) in hits {
                    let scopes = found.entry(*at).or_default();
                    if is_inlined {
                        add_inlined(scopes, entry, outer);
                    } else if query.function.contains(&from) {
                        scopes.clear();
                        scopes.push(Scope::new(entry, None));
                    }
                }
                hits.len()
            };
            match self.units.each_range(&self.unit, entry, add) {
                Err(Stop::Spent) => return Err(Stop::Spent),
                // What has no code, such as a declaration, has nothing inlined into it either.
                Ok(true) if !is_inlined && around.len() < MAX_NESTED => around.push((entry.offset(), entry.depth())),
                Err(Stop::Unit) | Ok(_) => {}
            }
        }
        Ok(found)
    }

    /// The places of an instruction, the innermost first: it is on the line of the table, and each inlined
    /// function was called on a line of the one around it.
    fn places(&self, scopes: &[Scope], row: Option<&Row>) -> Result<Vec<Place>, Stop> {
        // A row of another sequence only counts when the functions do not contradict it.
        let mut line = row.filter(|row| row.is_own || !scopes.is_empty()).map(|row| row.line);
        let mut places = Vec::new();
        for scope in scopes.iter().rev() {
            places.push(Place { function: self.name(scope.entry)?, source: self.source(line)? });
            line = scope.call;
        }
        if places.is_empty() {
            let source = self.source(line)?;
            places.extend(source.map(|source| Place { function: None, source: Some(source) }));
        }
        Ok(places)
    }

    /// The name of a function, which often stands with another entry.
    fn name(&self, entry: UnitOffset) -> Result<Option<String>, Stop> {
        match self.find_name(entry) {
            Err(Stop::Unit) => Ok(None),
            found => found,
        }
    }

    fn find_name(&self, entry: UnitOffset) -> Result<Option<String>, Stop> {
        let (mut offset, mut other) = (entry, None::<Unit<'a>>);
        for _ in 0..MAX_REFERENCES {
            let unit = other.as_ref().unwrap_or(&self.unit);
            let entry = self.units.entry(unit, offset)?;
            let names = [gimli::DW_AT_linkage_name, gimli::DW_AT_MIPS_linkage_name, gimli::DW_AT_name];
            if let Some(name) = names.into_iter().find_map(|name| entry.attr_value(name)) {
                let Some(name) = self.units.text(unit, name)? else { return Ok(None) };
                self.units.pay(name.len() as u64)?;
                return Ok(Some(demangled(&name.to_string_lossy())).filter(|name| !name.is_empty()));
            }
            let references = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
            match references.into_iter().find_map(|name| entry.attr_value(name)) {
                Some(AttributeValue::UnitRef(next)) => offset = next,
                Some(AttributeValue::DebugInfoRef(next)) => {
                    let (unit, next) = self.units.open_at(next)?;
                    (other, offset) = (Some(unit), next);
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// `file:line:column`, as far as it is known, with the path as the compiler wrote it.
    fn source(&self, line: Option<Line>) -> Result<Option<String>, Stop> {
        let Some(line) = line else { return Ok(None) };
        let Some(path) = self.path(line.file)? else { return Ok(None) };
        let path = capped(&path);
        Ok(Some(match line {
            Line { line: 0, .. } => path,
            Line { line, column: 0, .. } => format!("{path}:{line}"),
            Line { line, column, .. } => format!("{path}:{line}:{column}"),
        }))
    }

    /// The path of a file by its number in the unit.
    fn path(&self, file: u64) -> Result<Option<String>, Stop> {
        let Some(program) = &self.unit.line_program else { return Ok(None) };
        let header = program.header();
        let part = |value| Ok::<_, Stop>(self.units.text(&self.unit, value)?.map(text));
        let mut path = self.unit.comp_dir.map(text).unwrap_or_default();
        let name = match header.file(file) {
            Some(file) => {
                let directory = file.directory(header).filter(|_| file.directory_index() != 0);
                if let Some(directory) = directory.map_or(Ok(None), part)? {
                    enter(&mut path, &directory);
                }
                part(file.path_name())?
            }
            // Before DWARF 5 the file of the unit itself is not in its list.
            None if file == 0 => self.unit.name.map(text),
            None => None,
        };
        Ok(name.map(|name| {
            enter(&mut path, &name);
            path
        }))
    }
}

/// Adds what was inlined into the function that was found, or into what was inlined there.
fn add_inlined(scopes: &mut Vec<Scope>, entry: &Entry<'_>, outer: Option<UnitOffset>) {
    let is_of_function = scopes.first().map(|outermost| outermost.entry) == outer;
    if is_of_function && scopes.len() < MAX_INLINED && scopes.last().is_some_and(|last| last.depth < entry.depth()) {
        scopes.push(Scope::new(entry, Some(call_of(entry))));
    }
}

impl Scope {
    fn new(entry: &Entry<'_>, call: Option<Line>) -> Self {
        Self { entry: entry.offset(), call, depth: entry.depth() }
    }
}

fn call_of(entry: &Entry<'_>) -> Line {
    let number = |name| entry.attr_value(name).and_then(|value| value.udata_value()).unwrap_or_default();
    let file = match entry.attr_value(gimli::DW_AT_call_file) {
        Some(AttributeValue::FileIndex(file)) => file,
        _ => 0,
    };
    Line { file, line: number(gimli::DW_AT_call_line), column: number(gimli::DW_AT_call_column) }
}

fn text(bytes: Bytes<'_>) -> String {
    bytes.to_string_lossy().into_owned()
}

/// Goes on from a directory, or begins anew where the next part of a path says so.
fn enter(path: &mut String, part: &str) {
    let is_windows = |text: &str| text.get(1..3) == Some(":\\") || text.starts_with('\\');
    if part.starts_with('/') || part.get(1..3) == Some(":/") || is_windows(part) {
        path.clear();
    } else if !path.is_empty() && !path.ends_with(['/', '\\']) {
        path.push(if is_windows(path) { '\\' } else { '/' });
    }
    path.push_str(part);
}
