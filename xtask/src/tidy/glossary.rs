//! Checks the third column of docs/glossary.md against the code: the files exist, and the names stand in
//! them.
//!
//! A word in backquotes is a path if it has a slash or the ending of a file, and a name otherwise.
//!
//! Paths are below `crates/`. The words *core*, *engine*, *net*, *mpi* and *launch* stand for the `src` of
//! their crate. Such a word holds for the path behind it and for the further paths of the cell. A path may
//! also begin in the folder of the path before it.
//!
//! A name must be a word in one of the files of its cell; of a name with `::`, each part must be. A cell
//! without paths is not checked.

use super::Findings;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

const GLOSSARY: &str = "docs/glossary.md";
/// The words that stand for a folder.
const CRATES: [(&str, &str); 6] = [
    ("core", "weft-core/src"),
    ("plan", "weft-plan/src"),
    ("engine", "weft-engine/src"),
    ("net", "weft-net/src"),
    ("mpi", "weft-mpi/src"),
    ("launch", "weft-launch/src"),
];

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let read = |path: &Path| std::fs::read_to_string(root.join(path)).with_context(|| path.display().to_string());
    let glossary = read(Path::new(GLOSSARY))?;
    for (number, line) in glossary.lines().enumerate() {
        let Some(cell) = third_column(line) else { continue };
        let Cell { names, paths } = Cell::parse(cell, |path| files.iter().any(|file| is_at(file, path)));
        let mut text = String::new();
        for path in &paths {
            let named: Vec<&PathBuf> = files.iter().filter(|file| is_at(file, path)).collect();
            if named.is_empty() {
                findings.broken.push(format!("{GLOSSARY}:{}: names {path}, which is not there", number + 1));
            }
            for file in named {
                text.push_str(&read(file)?);
            }
        }
        if paths.is_empty() || text.is_empty() {
            continue;
        }
        for name in names.iter().filter(|name| !name.split("::").all(|part| has_word(&text, part))) {
            findings.broken.push(format!("{GLOSSARY}:{}: {name} stands in no file of its cell", number + 1));
        }
    }
    Ok(())
}

/// The third cell of a row of a table with four; `None` for a heading.
fn third_column(line: &str) -> Option<&str> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix('|')?.split(" |").collect();
    (cells.len() >= 3).then(|| cells[2].trim()).filter(|cell| *cell != "in the code")
}

/// The words of a cell in backquotes.
#[derive(Debug, Default, PartialEq)]
struct Cell<'text> {
    names: Vec<&'text str>,
    paths: Vec<String>,
}

impl<'text> Cell<'text> {
    /// Parses a cell. `is_there` says whether a file or folder exists: of the meanings of a path, the
    /// existing one counts.
    fn parse(cell: &'text str, is_there: impl Fn(&str) -> bool) -> Self {
        let mut found = Self::default();
        let (mut source, mut folder) = (String::new(), String::new());
        let mut pieces = cell.split('`');
        while let (Some(before), Some(quoted)) = (pieces.next(), pieces.next()) {
            let word = before.trim_end().rsplit([' ', ':', '(']).next().unwrap_or_default();
            if let Some((_, path)) = CRATES.iter().find(|(name, _)| *name == word) {
                (source, folder) = (format!("crates/{path}"), format!("crates/{path}"));
            }
            let has_ending = quoted.rsplit_once('.').is_some_and(|(_, ending)| matches!(ending, "rs" | "table"));
            if !quoted.contains('/') && !has_ending {
                // Commands, which have blanks, are no names.
                found.names.extend(Some(quoted).filter(|name| !name.contains(' ')));
                continue;
            }
            if let Some((name, _)) = quoted.split_once("/src/").filter(|(name, _)| name.starts_with("weft-")) {
                source = format!("crates/{name}/src");
            }
            let meanings = match quoted.starts_with("weft-") {
                true => vec![format!("crates/{quoted}")],
                false => vec![format!("{source}/{quoted}"), format!("{folder}/{quoted}")],
            };
            let path = meanings.iter().find(|path| is_there(path)).unwrap_or(&meanings[0]).clone();
            folder = path.trim_end_matches('/').rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
            found.paths.push(path);
        }
        found
    }
}

/// Returns whether a file is `path`, or is in the folder `path`, whose name ends with a slash.
fn is_at(file: &Path, path: &str) -> bool {
    match path.ends_with('/') {
        true => file.starts_with(path),
        false => file == Path::new(path),
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(is_part)
            && !text[at + word.len()..].chars().next().is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells in the glossary's form.
    ///
    /// Expect: names and paths apart, and paths below the crate that is named before.
    #[test]
    fn a_cell_names_words_and_files() {
        let cell = third_column(
            "| echo | What it is. | `Echo`, core `wire.rs`; as it arrives: `AckInfo`, `flow/acknowledged.rs` | RFC |",
        );
        let Cell { names, paths } = Cell::parse(cell.expect("a row"), |_| false);
        assert_eq!(names, ["Echo", "AckInfo"]);
        assert_eq!(paths, ["crates/weft-core/src/wire.rs", "crates/weft-core/src/flow/acknowledged.rs"]);
        let beside = Cell::parse("net `verbs/local.rs`, `monitor.rs`", |path| path.contains("verbs/"));
        assert_eq!(beside.paths, ["crates/weft-net/src/verbs/local.rs", "crates/weft-net/src/verbs/monitor.rs"]);
        let other = Cell::parse("`weft-launch/src/manager/pmi1.rs`, `agent/server.rs`", |_| false);
        assert_eq!(other.paths[1], "crates/weft-launch/src/agent/server.rs");
        assert_eq!(third_column("| term | what it is | in the code | source |"), None);
        assert_eq!(third_column("Some text."), None);
    }

    /// A name that is part of another word.
    ///
    /// Expect: the name is not found.
    #[test]
    fn a_name_is_a_whole_word() {
        assert!(has_word("pub struct Way;", "Way"));
        assert!(!has_word("pub struct Ways; fn way() {}", "Way"));
    }
}
