//! Names, suggestions, help and the page of the book.

use super::suggestions::{distance, suggestion};
use super::*;
use crate::mpiexec::help;

fn bare(name: &str) -> &str {
    name.trim_start_matches('-')
}

#[test]
fn no_name_stands_for_two_options() {
    let mut names: Vec<&str> = OPTIONS.iter().flat_map(|entry| entry.names).map(|name| bare(name)).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn every_option_is_found_by_each_name_with_one_dash_and_with_two() {
    for entry in OPTIONS {
        assert!(!entry.text.is_empty() && !entry.names.is_empty());
        assert_eq!(entry.takes == Takes::Nothing, entry.value.is_empty(), "{:?}", entry.names);
        for name in entry.names {
            for dashes in ["-", "--"] {
                let found = find(&format!("{dashes}{}", bare(name))).expect("an option");
                assert!(std::ptr::eq(found, entry), "{name}");
            }
        }
    }
    assert!(find("hosts").is_none());
    assert!(find("---hosts").is_none());
}

#[test]
fn help_and_the_book_say_every_option() {
    let (text, page) = (help::text(), help::page());
    for entry in OPTIONS {
        let last = entry.names.last().expect("a name");
        assert!(text.contains(last), "--help lacks {last}");
        assert!(page.contains(&format!("`{last}`")) && page.contains(&entry.text.replace('|', "\\|")), "{last}");
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 110, "{line}");
        assert!(!line.ends_with(' '), "{line}");
    }
    let book = include_str!("../../../../docs/book/mpiexec.md");
    assert!(book == page, "docs/book/mpiexec.md should be:\n{page}");
}

#[test]
fn the_nearest_name_is_suggested() {
    for (typed, meant) in [
        ("--tmeout", "--timeout"),
        ("--timeuot", "--timeout"),
        ("-hostfil", "--hostfile"),
        ("-hostlist", "--host"),
        ("-hsots", "--hosts"),
        ("-pp", "-ppn"),
        ("-ppm", "-ppn"),
        ("--agnt", "--agent"),
        ("--mapby", "--map-by"),
        ("--bind", "--bind-to"),
        ("--oversubscribed", "--oversubscribe"),
        ("--verbos", "--verbose"),
        ("-workdir", ""),
        ("--frobnicate", ""),
        ("-nprocs", ""),
        ("-z", ""),
        ("-cpus", "--cpus-per-rank"),
        ("--soft2", "-soft"),
    ] {
        let said = unknown(typed);
        match meant {
            "" => assert!(said.contains("--help") && !said.contains("did you mean"), "{said}"),
            meant => assert!(said.ends_with(&format!("did you mean {meant}?")), "{said}"),
        }
    }
    assert_eq!((distance("", "abc"), distance("abc", "abc"), distance("kitten", "sitting")), (3, 0, 3));
    assert_eq!((distance("hsots", "hosts"), distance("ab", "ba")), (1, 1));
}

/// Expect: a suggestion is an option with an effect, and a slip of one letter in a long name is understood.
#[test]
fn slips_are_understood() {
    let works = |entry: &&Entry| !matches!(entry.action, Action::Ignored(_) | Action::Instead);
    for entry in OPTIONS.iter().filter(works) {
        for name in entry.names.iter().filter(|name| bare(name).len() > 4) {
            let doubled = format!("{name}{}", name.chars().last().expect("a letter"));
            for slip in [&name[..name.len() - 1], doubled.as_str()] {
                if find(slip).is_some() {
                    continue;
                }
                let known = suggestion(slip).unwrap_or_default();
                assert!(find(known).as_ref().is_some_and(works), "{slip}: {known}");
                assert!(distance(bare(slip), bare(known)) <= 2, "{slip}: {known}");
            }
        }
    }
}
