//! How far an attempt says it has come, in words.

use crate::cli::output::safe::safe;
use crate::queue::Progress;

/// "40 of 100 (40 %), reading rows", or "40, reading rows" when nobody knows of how many.
#[must_use]
pub fn in_words(progress: &Progress) -> String {
    let Progress { done, total, note, .. } = progress;
    let how_far = match percent(progress) {
        Some(percent) => format!("{done} of {total} ({percent} %)"),
        None if *total > 0 => format!("{done} of {total}"),
        None => done.to_string(),
    };
    if note.is_empty() { how_far } else { format!("{how_far}, {}", safe(note)) }
}

/// "40 %", or "40" when nobody knows of how many.
#[must_use]
pub fn short(progress: &Progress) -> String {
    percent(progress).map_or_else(|| progress.done.to_string(), |percent| format!("{percent} %"))
}

/// Rounded down, so that 100 % is the end. A guest may say anything; more than all is no share of it.
fn percent(progress: &Progress) -> Option<u128> {
    let Progress { done, total, .. } = progress;
    (done <= total).then(|| (u128::from(*done) * 100).checked_div(u128::from(*total))).flatten()
}

#[cfg(test)]
mod tests {
    use wasmq_core::Timestamp;

    use super::*;

    #[test]
    fn what_a_guest_says_is_told_as_far_as_it_makes_sense() {
        let told = |done, total, note: &str| {
            let progress = Progress { done, total, note: note.to_owned(), said_at: Timestamp(0) };
            (in_words(&progress), short(&progress))
        };
        let pair = |words: &str, short: &str| (words.to_owned(), short.to_owned());
        assert_eq!(told(40, 100, "rows"), pair("40 of 100 (40 %), rows", "40 %"));
        assert_eq!(told(199, 200, ""), pair("199 of 200 (99 %)", "99 %"));
        assert_eq!(told(u64::MAX, u64::MAX, ""), pair(&format!("{0} of {0} (100 %)", u64::MAX), "100 %"));
        assert_eq!(told(40, 0, "rows"), pair("40, rows", "40"));
        assert_eq!(told(0, 0, ""), pair("0", "0"));
        assert_eq!(told(9, 3, "\u{1b}[31m"), pair("9 of 3, \\u{1b}[31m", "9"));
    }
}
