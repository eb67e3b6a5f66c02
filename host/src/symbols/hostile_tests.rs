//! That hostile files say nothing and cost little.

use proptest::prelude::*;
use wasmq_core::report::MAX_FRAME_NAME_BYTES;

use super::dwarf::{self, Query};
use super::modules::{self, Module};
use super::pack;
use super::samples::{TWO_MODULES, deep_trap, stripped, wasm};
use super::tests::{frame, resolved, symbols};
use super::units::{Purse, Stop, Units};

/// A module whose one function is 100 bytes long, with these sections.
fn described<'a>(sections: &[(&'a str, &'a [u8])]) -> Module<'a> {
    let mut module = Module { ends: vec![100], ..Module::default() };
    sections.iter().for_each(|(name, content)| module.add_section(name, content));
    module
}

const QUERY: Query = Query { address: 50, function: 0..100 };

/// A unit of DWARF 4 that begins with the abbreviation at 0.
fn unit(entries: &[u8]) -> Vec<u8> {
    let mut bytes = (entries.len() as u32 + 7).to_le_bytes().to_vec();
    bytes.extend([4, 0, 0, 0, 0, 0, 4]);
    bytes.extend(entries);
    bytes
}

#[test]
fn work_without_end_is_given_up() {
    // A function with so many attributes that take no space, so often: a quadratic amount of work.
    let mut abbreviations = vec![1, 0x2e, 0];
    abbreviations.extend([0x3f, 0x19].repeat(60_000));
    abbreviations.extend([0, 0, 0]);
    let info = unit(&vec![1; 1_000_000]);
    let module = described(&[(".debug_abbrev", &abbreviations), (".debug_info", &info), (".debug_line", &[0])]);
    let purse = Purse::of(1_000_000);
    let units = Units::of(&module, &purse).unwrap();
    let header = units.dwarf.units().next().unwrap().unwrap();
    let ended = dwarf::in_unit(&units, header, &[QUERY], &mut [vec![]]);
    assert!(matches!(ended, Err(Stop::Spent)), "{ended:?}");
    assert_eq!(dwarf::look_up(&module, &[QUERY], &Purse::of(1_000_000)), [vec![]]);
}

#[test]
fn tables_that_lie_in_each_other_are_each_read_to_the_next_one_only() {
    // As many units as abbreviations, and the table of each goes on to the end: a quadratic amount of work.
    let abbreviation = |code: u32| [(code | 128) as u8, (code >> 7 | 128) as u8, (code >> 14) as u8, 0x11, 0, 0, 0];
    let table: Vec<u8> = (1..100_000_u32).flat_map(abbreviation).chain([0]).collect();
    let units = (1..100_000_u32).flat_map(|code| {
        let mut bytes = unit(&abbreviation(code)[..3]);
        bytes[6..10].copy_from_slice(&((code - 1) * 7).to_le_bytes());
        bytes
    });
    let units: Vec<u8> = units.collect();
    let module = described(&[(".debug_abbrev", &table), (".debug_info", &units), (".debug_line", &[0])]);
    assert_eq!(dwarf::look_up(&module, &[QUERY], &Purse::of(u64::MAX)), [vec![]]);
    let purse = Purse::of(u64::MAX);
    let last = Units::of(&module, &purse).unwrap();
    let header = last.dwarf.units().last().unwrap().unwrap();
    assert!(last.open(header).is_ok(), "the units are what they should be");
}

#[test]
fn a_list_of_files_that_would_fill_the_memory_is_not_read() {
    // DWARF 4: a unit with a line table whose header claims to be 16 MiB long.
    let abbreviations = [1, 0x11, 0, 0x10, 0x17, 0, 0, 0];
    let info = unit(&[1, 0, 0, 0, 0]);
    let mut line = vec![0; 16 << 20];
    let length = line.len() as u32;
    line[..4].copy_from_slice(&(length - 4).to_le_bytes());
    line[4] = 4;
    line[6..10].copy_from_slice(&(length - 10).to_le_bytes());
    line[10..].fill(1);
    let module = described(&[(".debug_abbrev", &abbreviations), (".debug_info", &info), (".debug_line", &line)]);
    let purse = Purse::of(1_000_000);
    let units = Units::of(&module, &purse).unwrap();
    let header = units.dwarf.units().next().unwrap().unwrap();
    assert!(units.open(header).is_err());
}

#[test]
fn names_that_refer_to_each_other_in_a_circle_come_to_an_end() {
    // A function from 0 to 100 whose name stands with another entry, whose name stands with the first.
    let abbreviations =
        [1, 0x11, 1, 0, 0, 2, 0x2e, 0, 0x11, 0x01, 0x12, 0x06, 0x31, 0x13, 0, 0, 3, 0x2e, 0, 0x47, 0x13, 0, 0, 0];
    let info = unit(&[&[1, 2][..], &[0; 4], &[100, 0, 0, 0], &[25, 0, 0, 0], &[3], &[12, 0, 0, 0], &[0]].concat());
    let module = described(&[(".debug_abbrev", &abbreviations), (".debug_info", &info), (".debug_line", &[0])]);
    let found = dwarf::look_up(&module, &[QUERY], &Purse::of(1_000_000)).remove(0);
    assert_eq!(found, [dwarf::Place::default()], "a function without name or line");
}

#[test]
fn a_name_that_unfolds_to_more_than_memory_is_cut() {
    // Each of these substitutions is twice as long as the one before.
    let doubling: String = (0..40).map(|n: u32| format!("S{}_IXadE", char::from_digit(n % 36, 36).unwrap())).collect();
    let mut mangled = String::from("_Z1fI1aIiiEE");
    mangled.push_str(&doubling);
    let twice = (0..60).fold("1a".to_owned(), |inner, _| format!("P{inner}"));
    for name in [mangled, format!("_Z1f{twice}"), "_R".repeat(50_000), "_ZN".repeat(50_000)] {
        assert!(super::demangled(&name).len() <= MAX_FRAME_NAME_BYTES);
    }
}

/// A name of Rust that stands for this identifier so many times over, doubled by reference.
fn doubled(identifier: &str, times: usize) -> String {
    let head = format!("IC1aC{}{identifier}", identifier.len());
    let base62 = |number: usize| -> String {
        const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let digits = [number / 62, number % 62].map(|digit| DIGITS[digit] as char);
        digits.iter().collect()
    };
    // The types are `T` of the one inside and a reference to it; the first is the identifier itself.
    let (before, inside) = head.split_at(4);
    let back = |level: usize| format!("B{}_E", base62(before.len() + times - level - 1));
    let references: String = (0..times).map(back).collect();
    format!("_R{before}{}{inside}{references}E", "T".repeat(times))
}

#[test]
fn a_name_of_rust_that_unfolds_to_a_million_bytes_is_cut_in_linear_time() {
    for (identifier, times) in [("[[[[[[[[[[", 16), ("[0[0[0[0[0", 16), ("plain", 18)] {
        let name = doubled(identifier, times);
        assert!(rustc_demangle::try_demangle(&name).unwrap().to_string().len() > 100_000, "{name}");
        let short = super::demangled(&name);
        assert!(short.len() <= MAX_FRAME_NAME_BYTES && short.ends_with('\u{2026}'), "{} bytes", short.len());
    }
}

#[test]
fn ranges_that_are_empty_are_paid_for_too() {
    // A unit with a list of ranges, each of which ends where it begins.
    let abbreviations = [1, 0x11, 0, 0x55, 0x17, 0, 0, 0];
    let ranges = [1, 0, 0, 0].repeat(20_000);
    let info = unit(&[1, 0, 0, 0, 0]);
    let module = described(&[
        (".debug_abbrev", &abbreviations),
        (".debug_info", &info),
        (".debug_line", &[0]),
        (".debug_ranges", &ranges),
    ]);
    let purse = Purse::of(5_000);
    let units = Units::of(&module, &purse).unwrap();
    let header = units.dwarf.units().next().unwrap().unwrap();
    let ended = dwarf::in_unit(&units, header, &[QUERY], &mut [vec![]]);
    assert!(matches!(ended, Err(Stop::Spent)), "{ended:?}");
}

#[test]
fn texts_without_an_end_are_paid_for_and_not_looked_through() {
    // A unit whose directory is a text of a mebibyte; then one whose own entry has it inside.
    let endless = vec![b'a'; 1 << 20];
    let outside = ([1, 0x11, 0, 0x1b, 0x0e, 0, 0, 0], unit(&[1, 0, 0, 0, 0]));
    let inside = ([1, 0x11, 0, 0x1b, 0x08, 0, 0, 0], unit(&[&[1], &endless[..], &[0]].concat()));
    for (abbreviations, info) in [outside, inside] {
        let module = described(&[
            (".debug_abbrev", &abbreviations),
            (".debug_info", &info),
            (".debug_line", &[0]),
            (".debug_str", &endless),
        ]);
        let purse = Purse::of(500);
        let units = Units::of(&module, &purse).unwrap();
        let header = units.dwarf.units().next().unwrap().unwrap();
        assert!(matches!(units.open(header), Err(Stop::Spent)));
        let purse = Purse::of(1_000_000);
        let units = Units::of(&module, &purse).unwrap();
        let directory = units.open(header).unwrap().comp_dir.unwrap();
        assert!(directory.len() <= 16 * 1024, "{} bytes", directory.len());
    }
}

#[test]
fn functions_inlined_behind_a_declaration_are_found() {
    // A unit; a function from 0 to 100; in it a class that declares another, then what was inlined at 40 to 60.
    let abbreviations = [
        &[1, 0x11, 1, 0, 0][..],
        &[2, 0x2e, 1, 0x11, 0x01, 0x12, 0x06, 0, 0],
        &[3, 0x02, 1, 0, 0],
        &[4, 0x2e, 0, 0x3c, 0x19, 0, 0],
        &[5, 0x1d, 0, 0x11, 0x01, 0x12, 0x06, 0, 0, 0],
    ]
    .concat();
    let info = unit(&[1, 2, 0, 0, 0, 0, 100, 0, 0, 0, 3, 4, 0, 5, 40, 0, 0, 0, 20, 0, 0, 0, 0, 0]);
    let module = described(&[(".debug_abbrev", &abbreviations), (".debug_info", &info), (".debug_line", &[0])]);
    assert_eq!(dwarf::look_up(&module, &[QUERY], &Purse::of(1_000_000)).remove(0).len(), 2);
}

/// A section of a binary module.
fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack::section(&mut bytes, id, &[content]);
    bytes
}

/// A module with so many functions, none of which has a byte.
fn empty_functions(count: u32) -> Vec<u8> {
    // Their number as LEB128, then a zero for each: the type of one section, the length of the other.
    let mut content = [0, 7, 14].map(|bits| (count >> bits) as u8 | 128).to_vec();
    content.push((count >> 21) as u8);
    content.resize(4 + count as usize, 0);
    [&b"\0asm\x01\0\0\0"[..], &section(3, &content), &section(10, &content)].concat()
}

#[test]
fn more_functions_than_the_engine_takes_are_refused_before_they_are_read() {
    let refused = modules::read(&empty_functions(1_000_001)).unwrap_err();
    assert_eq!(refused.reason, "a core module has more than 1000000 functions");
    let most = empty_functions(1_000_000);
    assert_eq!(modules::read(&most).unwrap().modules[0].ends.len(), 1_000_000);
    let refused = modules::read(&[&b"\0asm\x0d\0\x01\0"[..], &section(1, &most).repeat(5)].concat()).unwrap_err();
    assert_eq!(refused.reason, "the file has more than 4000000 functions");
}

#[test]
fn components_that_lie_in_each_other_without_end_are_refused() {
    let empty = b"\0asm\x0d\0\x01\0".to_vec();
    let nested = |depth| (0..depth).fold(empty.clone(), |inner, _| [&empty[..], &section(4, &inner)].concat());
    assert!(modules::read(&nested(100)).is_ok());
    let refused = modules::read(&nested(101)).unwrap_err();
    assert_eq!(refused.reason, "components lie in each other more than 100 deep");
    assert!(pack::read(&nested(101)).is_err());
}

#[test]
fn one_purse_is_for_all_that_is_looked_into() {
    let abbreviations = [1, 0x2e, 0, 0, 0, 0];
    let info = unit(&vec![1; 1000]);
    let module = described(&[(".debug_abbrev", &abbreviations), (".debug_info", &info), (".debug_line", &[0])]);
    let purse = Purse::of(1500);
    for is_enough in [true, false] {
        let units = Units::of(&module, &purse);
        let in_unit = |units: &Units<'_>| {
            let header = units.dwarf.units().next().unwrap().unwrap();
            dwarf::in_unit(units, header, &[QUERY], &mut [vec![]])
        };
        assert_eq!(units.and_then(|units| in_unit(&units)).is_ok(), is_enough);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn damaged_debug_information_says_something_else_or_nothing_and_comes_to_an_end(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..60),
        function in any::<proptest::sample::Index>(),
    ) {
        let file = deep_trap();
        let component = stripped(&file);
        let mut packed = symbols(&component, &file).unwrap().packed;
        // Behind the table of functions, which is short: what can be damaged is what describes them.
        let behind = packed.len() / 2;
        for (at, byte) in flips {
            let at = packed.len() - 1 - at.index(behind);
            packed[at] = byte;
        }
        let count = modules::read(&component).unwrap().modules[0].ends.len();
        resolved(&packed, vec![frame(&component, 0, function.index(count))]);
    }

    #[test]
    fn any_bytes_are_symbols_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let component = stripped(&wasm(TWO_MODULES));
        prop_assert!(symbols(&component, &bytes).is_err());
        let wrapped = [b"\0asm\x01\0\0\0\0", &bytes[..]].concat();
        prop_assert!(symbols(&component, &wrapped).is_err());
        let _ = pack::read(&bytes);
        let sections: Vec<_> = modules::DESCRIBING.iter().map(|name| (*name, &bytes[..])).collect();
        let _ = dwarf::look_up(&described(&sections), &[QUERY], &Purse::of(1_000_000));
    }
}
