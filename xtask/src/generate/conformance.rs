//! Generates `docs/conformance.md`: the sections of the standard that each program of `tests/c` checks, and
//! the parts that it leaves out on other libraries.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use super::MARKER;
use crate::suite::conformance::{CHAPTERS, LEFT_OUT, left_out};

/// The page, made from the current programs.
pub(crate) fn page(root: &Path) -> Result<String> {
    let mut page = format!(
        "<!-- {MARKER} from tests/c/*.c and {LEFT_OUT}; do not edit. -->\n\n# Conformance programs\n\n\
         Each program is compiled once, by MPICH's wrapper of the standard ABI, and the same binary runs on MPICH and\n\
         on Weft:\n\n\
         - with 2 ranks in `make test` (suite `conformance`);\n\
         - with 1 to 5 ranks in `make test-large` (suite `conformance-all`);\n\
         - with more ranks, and on two hosts, on Weft only (suites `c` and `hosts`).\n\n\
         | chapter | program | sections that it cites |\n|---|---|---|\n"
    );
    for (chapter, programs) in CHAPTERS {
        for program in *programs {
            let path = format!("tests/c/{program}.c");
            let source = std::fs::read_to_string(root.join(&path)).context(path)?;
            let sections: Vec<String> = sections(&source).iter().map(|numbers| written(numbers)).collect();
            page.push_str(&format!("| {chapter} | `{program}` | {} |\n", sections.join(", ")));
        }
    }
    page.push_str(
        "\n## Parts that are left out on other libraries\n\n\
         - `fault`: the standard asks for the behavior, and the library fails the part.\n\
         - `chance`: as `fault`, but the library fails the part only now and then.\n\
         - `open`: the standard leaves the behavior open, and Weft promises it.\n\n\
         | library | program | part | | why |\n|---|---|---|---|---|\n",
    );
    for line in left_out(root)? {
        let kind = line.kind.name();
        page.push_str(&format!(
            "| {} | `{}` | {} | {kind} | {} |\n",
            line.library, line.program, line.part, line.reason
        ));
    }
    Ok(page)
}

fn written(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

/// The sections that a program names: in a line with a `§`, in the name of a story, or in a comment that
/// begins with the number.
fn sections(source: &str) -> BTreeSet<Vec<u32>> {
    let begins = |line: &str, mark: &str| {
        line.split(mark).nth(1).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let names = |line: &&str| {
        line.contains('§')
            || begins(line, "STORY(\"")
            || begins(line, "/* ")
            || line.contains("MPI-5.0 section")
            || line.contains("MPI-5.0 chapter")
    };
    let words = source.lines().filter(names).flat_map(|line| line.split(|c: char| !c.is_ascii_digit() && c != '.'));
    words.filter_map(section).collect()
}

/// Parses `3.7.2` and the like, if the chapter exists.
fn section(word: &str) -> Option<Vec<u32>> {
    let numbers: Option<Vec<u32>> = word.trim_end_matches('.').split('.').map(|part| part.parse().ok()).collect();
    let numbers = numbers?;
    let is_one = match numbers.as_slice() {
        [chapter] => *chapter == 10 || *chapter == 16 || *chapter == 20,
        [chapter, rest @ ..] => (3..=20).contains(chapter) && rest.len() <= 3 && rest.iter().all(|part| *part > 0),
        [] => false,
    };
    is_one.then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_found_where_they_are_named() {
        let source = "/* MPI-5.0 §3.7.2, §3.10; not 5.0 itself */\nSTORY(\"8.5.4 graphs\"); x = 1.5;\nint y = 4.2;\n/* 11.3: sessions */\n";
        let found: Vec<String> = sections(source).iter().map(|numbers| written(numbers)).collect();
        assert_eq!(found, ["3.7.2", "3.10", "8.5.4", "11.3"]);
    }

    #[test]
    fn every_program_cites_a_section_of_its_chapter() {
        let root = crate::generate::project_root();
        for (chapter, programs) in CHAPTERS {
            for program in *programs {
                let source = std::fs::read_to_string(root.join(format!("tests/c/{program}.c"))).unwrap();
                assert!(sections(&source).iter().any(|numbers| numbers[0] == *chapter), "{program}");
            }
        }
    }
}
