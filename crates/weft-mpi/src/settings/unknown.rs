//! Variables that look like settings of Weft but are none. The start of a job and `weft info` report them,
//! with the setting that was meant.

use super::table::TABLE;

/// Names with the prefix that are no settings: variables that `weft hosts run` sets for its command,
/// `mpiexec` and a spawn for ranks (also the files of defaults), the compilers behind the wrappers, and the
/// project's own tools.
const OTHER_NAMES: [&str; 14] = [
    weft_launch::DEFAULTS_VARIABLE,
    "WEFT_COMMIT",
    "WEFT_HOSTS",
    "WEFT_LOAD",
    "WEFT_PARENT_PORT",
    "WEFT_CC",
    "WEFT_CXX",
    "WEFT_BUILD",
    "WEFT_SUITE_RUN",
    "WEFT_MEASUREMENT_JOB",
    "WEFT_TEST_HYDRA",
    "WEFT_TEST_MPIRUN",
    "WEFT_TEST_SECONDS",
    "WEFT_SCALE",
];
/// The prefix of all names.
const PREFIX: &str = "WEFT_";
/// The most letters in which a name may differ from the setting that was meant.
const MISSPELT_LETTERS_MAX: usize = 4;

/// A variable with the prefix that no program reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The variable.
    pub name: String,
    /// The setting whose name is nearest, when one is near enough to have been meant.
    pub meant: Option<&'static str>,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is set, but is no setting of Weft", self.name)?;
        self.meant.map_or(Ok(()), |meant| write!(f, "; {meant} is"))
    }
}

/// The names that look like settings and are none.
pub fn unknown(names: impl Iterator<Item = String>) -> Vec<Unknown> {
    let is_known = |name: &String| TABLE.iter().any(|one| one.name == name) || OTHER_NAMES.contains(&name.as_str());
    let mut unknown: Vec<Unknown> = names
        .filter(|name| name.starts_with(PREFIX) && !is_known(name))
        .map(|name| Unknown { meant: nearest(&name), name })
        .collect();
    weft_ordered::sort_by(&mut unknown, |a, b| a.name.cmp(&b.name));
    unknown
}

fn nearest(name: &str) -> Option<&'static str> {
    let best = TABLE.iter().map(|setting| (distance(name, setting.name), setting.name)).min()?;
    (best.0 <= MISSPELT_LETTERS_MAX).then_some(best.1)
}

/// The number of letters to insert, remove or change to make one name of the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_settings_are_named_with_the_one_that_was_meant() {
        let names = ["PATH", "WEFT_LINK", "WEFT_LINKS", "WEFT_EAGERLIMIT", "WEFT_COLOUR_OF_THE_SKY", "WEFT_HOSTS"];
        let found = unknown(names.iter().map(|name| (*name).to_owned()));
        let pairs: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.meant)).collect();
        assert_eq!(
            pairs,
            [
                ("WEFT_COLOUR_OF_THE_SKY", None),
                ("WEFT_EAGERLIMIT", Some("WEFT_EAGER_LIMIT")),
                ("WEFT_LINKS", Some("WEFT_LINK")),
            ]
        );
        assert_eq!(found[2].to_string(), "WEFT_LINKS is set, but is no setting of Weft; WEFT_LINK is");
    }

    #[test]
    fn distances_count_single_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("abc", "axc"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
