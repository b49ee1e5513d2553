//! Rules about the text of files.

use super::Findings;
use crate::generate::MARKER;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// The number of lines above which a source is mentioned, its tests not counted.
const LINES_MAX: usize = 500;

/// The marks of unfinished work; in pieces, so that this file does not contain them.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
const MACROS: &[&str] = &[concat!("unimple", "mented!"), concat!("to", "do!")];

/// The endings of the files that are read; others (pictures, lock files) are left alone.
const EXTENSIONS: &[&str] = &["rs", "md", "toml", "txt", "c", "h", "cpp", "py", "sh", "in", "mk", "yml", "cmake"];

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let extension = file.extension().unwrap_or_default().to_string_lossy();
        if !EXTENSIONS.contains(&extension.as_ref()) && name != "Makefile" {
            continue;
        }
        let path = file.to_string_lossy();
        let Ok(text) = std::fs::read_to_string(root.join(file)) else {
            findings.broken.push(format!("{path}: not UTF-8 text"));
            continue;
        };
        lines(&path, &text, findings);
        if extension == "rs" {
            length(&path, &text, findings);
        }
        if is_generated(&path) && !text.lines().take(3).any(|line| line.contains(MARKER)) {
            findings.broken.push(format!("{path}: does not say that it is generated"));
        }
    }
    Ok(())
}

fn is_generated(path: &str) -> bool {
    let below = path.contains("/generated/") && path.ends_with(".rs");
    let tables = [
        "crates/weft-abi/src/constants.rs",
        "crates/weft-abi/src/error_classes.rs",
        "crates/weft-abi/src/functions.rs",
        "crates/weft-engine/src/error/class.rs",
        "crates/weft-mpi/src/constants.rs",
    ];
    below || matches!(path, "include/mpi.h" | "docs/status.md") || tables.contains(&path)
}

fn lines(path: &str, text: &str, findings: &mut Findings) {
    let mut broken = |number: usize, what: &str| findings.broken.push(format!("{path}:{}: {what}", number + 1));
    for (number, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            broken(number, "white space at the end of the line");
        }
        if line.starts_with("<<<<<<<") || line.starts_with(">>>>>>>") {
            broken(number, "a conflict that was not resolved");
        }
        if path.ends_with(".rs") && line.contains('\t') {
            broken(number, "a tab");
        }
        for mark in MARKS.iter().filter(|mark| has_word(line, mark)) {
            broken(number, &format!("{mark}: finish it, or write it down as an issue"));
        }
        if path.ends_with(".rs") && !is_test(path) && has_bare_secret(line) {
            broken(
                number,
                "a secret as bytes or text, which can be printed: its type is JobSecret (weft-launch) or Secret (weft-core)",
            );
        }
        for name in MACROS.iter().filter(|name| line.contains(*name)) {
            broken(number, &format!("{name} is not an implementation"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        broken(text.lines().count() - 1, "no newline at the end of the file");
    }
}

/// Returns whether `word` is in the line with nothing alphanumeric around it. (`mktemp XXXXXX` is no mark.)
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(start, _)| {
        !is_part(line[..start].chars().next_back()) && !is_part(line[start + word.len()..].chars().next())
    })
}

/// Returns whether the line has a field or a parameter called `secret` that `{:?}` would show.
fn has_bare_secret(line: &str) -> bool {
    const BARE: &[&str] = &["[u8", "&[u8", "Option<[u8", "String", "Option<String", "&str", "Vec<u8"];
    line.split_once("secret: ").is_some_and(|(_, kind)| BARE.iter().any(|bare| kind.starts_with(bare)))
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs")
}

fn length(path: &str, text: &str, findings: &mut Findings) {
    if is_generated(path) || is_test(path) {
        return;
    }
    let count = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
    if count > LINES_MAX {
        findings.remarks.push(format!("{path} has {count} lines without its tests (about {LINES_MAX} is the aim)"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        lines(path, text, &mut findings);
        findings.broken
    }

    #[test]
    fn clean_text_passes() {
        assert_eq!(broken("a.rs", "fn main() {}\n"), Vec::<String>::new());
        assert_eq!(broken("a.sh", "mktemp -d weft.XXXXXX\n"), Vec::<String>::new());
    }

    #[test]
    fn every_rule_about_lines_can_fail() {
        let mark = MARKS[0];
        assert_eq!(broken("a.rs", &format!("// {mark} later\n")).len(), 1);
        assert_eq!(broken("a.rs", &format!("    {}()\n", MACROS[0])).len(), 1);
        assert_eq!(broken("a.rs", "x \n").len(), 1);
        assert_eq!(broken("a.rs", "\tx\n").len(), 1);
        assert_eq!(broken("Makefile", "\tx\n").len(), 0);
        assert_eq!(broken("a.md", "no newline").len(), 1);
        assert_eq!(broken("crates/a/src/b.rs", concat!("    pub secret", ": Option<[u8; 16]>,\n")).len(), 1);
        assert_eq!(broken("crates/a/src/b.rs", "    pub secret: JobSecret,\n").len(), 0);
        assert_eq!(broken("a.md", ">>>>>>> theirs\n").len(), 1);
    }

    #[test]
    fn long_files_are_mentioned_without_their_tests() {
        let mut findings = Findings::default();
        let long = "x\n".repeat(LINES_MAX + 1);
        length("crates/a/src/b.rs", &long, &mut findings);
        assert_eq!(findings.remarks.len(), 1);
        let tested = format!("x\n#[cfg(test)]\n{long}");
        length("crates/a/src/b.rs", &tested, &mut findings);
        length("crates/a/tests/b.rs", &long, &mut findings);
        assert_eq!(findings.remarks.len(), 1);
    }
}
