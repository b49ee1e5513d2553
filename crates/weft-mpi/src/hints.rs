//! Hints of communicators (MPI-5.0 §7.4.4): the program asserts what it does not do.
//!
//! Weft needs none of these assertions, but knows, keeps and reports them all. One hint is Weft's own: the
//! multicast scheme of broadcasts. Unknown hints, and values that a hint cannot have, are ignored.

use crate::multicast::{BcastSetting, HINT};
use crate::object::Info;
use crate::session::{MEMORY_KINDS, MEMORY_KINDS_BASE};

/// The assertions that a program can make; all are false until the program makes them.
const ASSERTIONS: [&str; 5] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_persistent_collective_ordering",
];

/// Takes the known hints of `wanted`. Other hints stay as they are.
pub fn update(hints: &mut Info, wanted: &Info) {
    let is_known = |key: &str, value: &str| match key {
        HINT => BcastSetting::parse(value).is_some(),
        key => ASSERTIONS.contains(&key) && matches!(value, "true" | "false"),
    };
    for (key, value) in wanted.iter().filter(|(key, value)| is_known(key, value)) {
        match hints.iter_mut().find(|(present, _)| present == key) {
            Some((_, present)) => present.clone_from(value),
            None => hints.push((key.clone(), value.clone())),
        }
    }
}

/// The hints of a communicator that is made with `wanted`.
pub fn of(wanted: &Info) -> Info {
    let mut hints = Info::new();
    update(&mut hints, wanted);
    hints
}

/// The hints that `MPI_Comm_get_info` reports: every known hint, with its value.
pub fn told(hints: &Info) -> Info {
    let value = |key: &str| hints.iter().find(|(present, _)| present == key).map_or("false", |(_, value)| value);
    let assertions = ASSERTIONS.iter().map(|key| ((*key).to_owned(), value(key).to_owned()));
    let bcast = hints.iter().find(|(key, _)| key == HINT).cloned();
    assertions.chain(bcast).chain([(MEMORY_KINDS.to_owned(), MEMORY_KINDS_BASE.to_owned())]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_is_kept() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let mut hints = of(&vec![pair("mpi_assert_no_any_tag", "true"), pair("other", "true")]);
        assert_eq!(hints, [pair("mpi_assert_no_any_tag", "true")]);
        update(&mut hints, &vec![pair("mpi_assert_no_any_tag", "perhaps"), pair("mpi_assert_exact_length", "true")]);
        assert_eq!(hints.len(), 2);
        update(&mut hints, &vec![pair("mpi_assert_no_any_tag", "false")]);
        let told = told(&hints);
        assert_eq!(told.len(), ASSERTIONS.len() + 1);
        assert!(told.contains(&pair("mpi_assert_no_any_tag", "false")));
        assert!(told.contains(&pair("mpi_assert_exact_length", "true")));
    }
}
