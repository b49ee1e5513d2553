//! Rules about `docs/design/`, whose chapters say why things are as they are: the index lists each of them,
//! and their places are in the code.
//!
//! A place is a path or a name in backquotes. The rule about files that are named (`mentions.rs`) covers the
//! paths. A name is a type, a function, a constant, a setting or a procedure of MPI; it must be a word in
//! some file that is no text. Names of other projects have no backquotes.
//!
//! Decisions had numbers once, and files of their own. Nobody cites such a number any more.

use super::Findings;
use super::links::prose;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const FOLDER: &str = "docs/design/";
const INDEX: &str = "docs/design/README.md";
/// The most chapters: a reader looks through a list of so many titles.
const CHAPTERS_MAX: usize = 22;
/// The most words of all chapters. A chapter that grows must leave something out.
const WORDS_MAX: usize = 39_500;

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let (mut index, mut chapters, mut code) = (String::new(), Vec::new(), BTreeSet::new());
    for file in files {
        let path = file.to_string_lossy().into_owned();
        let is_text = path.ends_with(".md");
        if path.starts_with("docs/") && !is_text {
            continue;
        }
        // Some files of tests are no text.
        let bytes = std::fs::read(root.join(file)).with_context(|| path.clone())?;
        let text = String::from_utf8_lossy(&bytes);
        if !is_text {
            code.extend(words(&text).map(str::to_owned));
        }
        if is_text || path.ends_with(".rs") {
            for (line, number) in citations(&text) {
                findings.broken.push(format!("{path}:{line}: cites decision {number}; name the chapter in {FOLDER}"));
            }
        }
        match path.as_str() {
            INDEX => index = text.into_owned(),
            chapter if chapter.starts_with(FOLDER) => chapters.push((path, text.into_owned())),
            _ => {}
        }
    }
    for (path, text) in &chapters {
        for (line, what) in faults(text, &code) {
            findings.broken.push(format!("{path}:{line}: {what}"));
        }
    }
    findings.broken.extend(compare(&index, &chapters));
    Ok(())
}

/// The faults of the index, and of all chapters together.
fn compare(index: &str, chapters: &[(String, String)]) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, text) in chapters {
        let file = path.strip_prefix(FOLDER).unwrap_or(path);
        let title = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
        if !index.contains(&format!("[{title}]({file})")) {
            broken.push(format!("{INDEX}: does not list [{title}]({file})"));
        }
    }
    if chapters.len() > CHAPTERS_MAX {
        broken.push(format!("{FOLDER}: {} chapters are more than {CHAPTERS_MAX}", chapters.len()));
    }
    let count: usize = chapters.iter().map(|(_, text)| text.split_whitespace().count()).sum();
    if count > WORDS_MAX {
        broken.push(format!("{FOLDER}: {count} words are more than {WORDS_MAX}"));
    }
    broken
}

/// The names in a chapter that are not in the code, each with its line.
fn faults(text: &str, code: &BTreeSet<String>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let quoted = line.split('`').skip(1).step_by(2).map(|word| word.trim_end_matches("()"));
        for name in quoted.filter(|word| is_name(word)) {
            if !name.split("::").all(|part| code.contains(part)) {
                found.push((number, format!("names {name}, which is nowhere in the code")));
            }
        }
    }
    found
}

/// Returns whether a word in backquotes names something in code: it has an underscore, a capital letter
/// behind a small one, or two colons, or begins with a capital letter and goes on with a small one.
fn is_name(word: &str) -> bool {
    let is_word = word.split("::").all(|part| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    });
    let pairs = || word.chars().zip(word.chars().skip(1));
    is_word
        && (word.contains('_')
            || word.contains("::")
            || pairs().any(|(one, next)| one.is_lowercase() && next.is_uppercase())
            || pairs().next().is_some_and(|(one, next)| one.is_uppercase() && next.is_lowercase()))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The lines that cite a decision by its number, and the number.
fn citations(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let behind = line.split("ecision ").skip(1).chain(line.split("ecisions ").skip(1));
        found.extend(
            behind
                .filter_map(|rest| rest.get(..4))
                .filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
                .map(|word| (number + 1, word)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        let code = words("pub struct Flow; fn handle_packet() MPI_Send").map(str::to_owned).collect();
        faults(text, &code)
    }

    #[test]
    fn places_that_are_there_are_right() {
        let text = "# The flow\n\nSee core `flow.rs`: `Flow`, `Flow::handle_packet()` and `MPI_Send`; `tcp`, `64` and\n\
                    `weft info` are no names.\n\n```text\n`Gone`\n```\n";
        assert_eq!(found(text), []);
    }

    #[test]
    fn places_that_are_gone_are_found_with_their_line() {
        let text = "# The flow\n\nSee core `flow.rs`, `Flow::gone`\nand `GoneFlow`.\n";
        let what: Vec<String> = found(text).iter().map(|(line, what)| format!("{line} {what}")).collect();
        assert_eq!(what.len(), 2);
        assert!(what[0].starts_with("3 names Flow::gone"), "{what:?}");
        assert!(what[1].starts_with("4 names GoneFlow"), "{what:?}");
    }

    #[test]
    fn the_index_lists_each_chapter_and_there_are_not_too_many() {
        let chapter = |file: &str| (format!("{FOLDER}{file}"), "# Title\n".to_owned());
        assert_eq!(compare("[Title](a.md)", &[chapter("a.md")]), Vec::<String>::new());
        assert_eq!(compare("[Title](a.md)", &[chapter("b.md")]).len(), 1);
        let many: Vec<_> = (0..=CHAPTERS_MAX).map(|_| chapter("a.md")).collect();
        assert_eq!(compare("[Title](a.md)", &many).len(), 1);
        let long = (format!("{FOLDER}a.md"), format!("# Title\n{}", "word ".repeat(WORDS_MAX)));
        assert_eq!(compare("[Title](a.md)", &[long]).len(), 1);
    }

    #[test]
    fn numbers_of_decisions_are_cited_no_more() {
        // The words are put together here, so that this file cites none.
        let cited = ["see ", "decision", " 0107"].concat();
        assert_eq!(citations(&cited), [(1, "0107")]);
        assert_eq!(citations("the decision 24 KiB, a decision"), []);
    }
}
