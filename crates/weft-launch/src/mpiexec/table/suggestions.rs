//! Suggests an option in place of one that the table does not have.

use super::{Action, Entry, OPTIONS};

/// The sentence about an unknown option.
pub(crate) fn unknown(option: &str) -> String {
    match suggestion(option) {
        Some(known) => format!("the option {option} is not known; did you mean {known}?"),
        None => format!("the option {option} is not known; `mpiexec --help` lists those that are"),
    }
}

/// Finds the option that was probably meant. It must have an effect, and its name is longer, shorter, or
/// differs in a letter (in two if it is long).
pub(super) fn suggestion(option: &str) -> Option<&'static str> {
    let name = option.trim_start_matches('-');
    let works = |entry: &&Entry| !matches!(entry.action, Action::Ignored(_) | Action::Instead);
    let names = OPTIONS.iter().filter(works).flat_map(|entry| entry.names);
    let rate = |known: &&'static str| {
        let known = *known;
        let bare = known.trim_start_matches('-');
        let begun = name.len() > 2 && bare.starts_with(name);
        let exceeded = bare.len() > 1 && name.starts_with(bare) && bare.len() * 2 >= name.len();
        let far = distance(name, bare);
        let allowed = match bare.len() {
            0..=2 => 0,
            3..=6 => 1,
            _ => 2,
        };
        // Of two names at the same distance, the longer one: people leave out the end.
        let rating = if far <= allowed { far } else { allowed + 1 };
        (begun || exceeded || far <= allowed).then_some((rating, !begun, known))
    };
    names.filter_map(rate).min_by_key(|&(rating, later, _)| (rating, later)).map(|(_, _, known)| known)
}

/// The number of letters that must be inserted, removed, replaced or exchanged with their neighbour to make
/// `one` of `other`.
pub(super) fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for line in 0..=one.len() {
        for column in 0..=other.len() {
            rows[line][column] = if line == 0 || column == 0 {
                line + column
            } else {
                let replaced = rows[line - 1][column - 1] + usize::from(one[line - 1] != other[column - 1]);
                let shifted = (rows[line - 1][column] + 1).min(rows[line][column - 1] + 1);
                let is_exchange =
                    line > 1 && column > 1 && one[line - 1] == other[column - 2] && one[line - 2] == other[column - 1];
                let exchanged = if is_exchange { rows[line - 2][column - 2] + 1 } else { usize::MAX };
                replaced.min(shifted).min(exchanged)
            };
        }
    }
    rows[one.len()][other.len()]
}
