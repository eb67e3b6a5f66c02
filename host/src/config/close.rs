//! Finds the names somebody may have meant, for "did you mean" hints.
//!
//! Deliberately absent: any claim that a close name is the right one; callers only suggest.

/// The candidates that are close to a name, best first, at most three.
pub fn close_names<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let allowed = name.chars().count().div_ceil(3).clamp(1, 3);
    let mut close: Vec<(usize, &str)> = candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= allowed || is_prefix(name, candidate))
        .collect();
    close.sort_unstable();
    close.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

fn is_prefix(name: &str, candidate: &str) -> bool {
    name.len() >= 3 && candidate.starts_with(name)
}

/// Edits (insert, delete, replace, swap neighbours) between two words, after Damerau.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&last, j) + usize::from(x != y)).min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_slips_are_found_and_other_words_are_not() {
        let names = ["resize", "csv-report", "markdown", "thumbnail"];
        assert_eq!(close_names("reszie", names), ["resize"]);
        assert_eq!(close_names("csv-reports", names), ["csv-report"]);
        assert_eq!(close_names("thumb", names), ["thumbnail"]);
        assert!(close_names("invoice", names).is_empty());
        assert!(close_names("", names).is_empty());
    }

    #[test]
    fn distances_count_a_swap_as_one_edit() {
        assert_eq!((distance("ab", "ba"), distance("abc", "abc"), distance("", "abc")), (1, 0, 3));
    }
}
