//! Which names somebody may have meant: those a few edits away, or that go on from what was typed.
//!
//! Deliberately absent: any use of it for resolving; a guess is only ever shown.

use wasmq_core::TaskName;

const MAX_SUGGESTIONS: usize = 3;

/// At most 3 names that are spelled like `wanted`, the closest first.
pub(super) fn close_names<'a>(wanted: &TaskName, names: impl Iterator<Item = &'a TaskName>) -> Vec<TaskName> {
    let wanted = wanted.as_str();
    let limit = (wanted.len() / 3).clamp(1, 3);
    let mut found: Vec<(usize, &TaskName)> = names
        .filter_map(|name| {
            let edits = distance(wanted.as_bytes(), name.as_str().as_bytes());
            let goes_on = wanted.len() >= 3 && name.as_str().starts_with(wanted);
            (edits <= limit || goes_on).then_some((edits, name))
        })
        .collect();
    found.sort();
    found.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name.clone()).collect()
}

/// The edits between two words: insertions, deletions and replacements of a byte, and two neighbours
/// that changed places (optimal string alignment).
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, byte) in from.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX - 1);
            let replaced = at(&last, column) + usize::from(byte != other);
            let mut edits = replaced.min(at(&last, column + 1) + 1).min(at(&next, column) + 1);
            if row > 0 && column > 0 && from.get(row - 1) == Some(other) && to.get(column - 1) == Some(byte) {
                edits = edits.min(at(&before_last, column - 1) + 1);
            }
            next.push(edits);
        }
        before_last = std::mem::replace(&mut last, next);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_found_and_other_names_are_not() {
        let names: Vec<TaskName> =
            ["resize", "resize-hd", "resized", "mail"].iter().map(|name| name.parse().unwrap()).collect();
        let close = |wanted: &str| close_names(&wanted.parse().unwrap(), names.iter());
        assert_eq!(close("resise"), [names[0].clone(), names[2].clone()]);
        assert_eq!(close("mial"), names[3..]);
        assert_eq!(close("mxyl"), []);
        assert_eq!(close("mai"), names[3..]);
        assert_eq!(close("resiz").first(), Some(&names[0]));
        assert_eq!(close("x"), []);
    }

    #[test]
    fn distances_are_those_of_the_textbook() {
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"abc", b""), 3);
        assert_eq!(distance(b"abc", b"abc"), 0);
    }
}
