//! Checks that comments name no file that does not exist.
//!
//! A comment names a file of the project by its path, or by the last parts of the path: `tests/c/check.h`,
//! `suite/gone.rs`, `flow.rs`. A word with the ending of a source or a text file counts as a file name. There
//! are three exceptions:
//!
//! - a path whose first folder the project does not have belongs to another project (`linux/if_packet.h`);
//! - a header without a folder is the system's (`stdint.h`);
//! - a name in capitals stands for other names (`NAME.c`).

use super::Findings;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of the chapters, which describe the present state, too.
const CHAPTERS: &str = "docs/design/";
const ENDINGS: &[&str] = &["rs", "c", "h", "cpp", "md", "sh", "py", "lua", "toml", "txt", "table"];
/// The texts that describe the present state; the change log describes the past.
const TEXTS: &[&str] =
    &["README.md", "ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/carriers.md"];

/// The files of the project, by all names that a comment may use.
struct Names {
    files: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl Names {
    fn new<'a>(files: impl Iterator<Item = &'a Path>) -> Self {
        let mut names = Names { files: BTreeSet::new(), folders: BTreeSet::new() };
        for file in files {
            let parts: Vec<String> = file.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            names.files.extend((0..parts.len()).map(|from| parts[from..].join("/")));
            names.folders.extend(parts[..parts.len() - 1].iter().cloned());
        }
        names
    }

    /// Returns whether a word can only be a file of the project, and there is none of that name.
    fn lacks(&self, word: &str) -> bool {
        let (folders, name) = word.rsplit_once('/').map_or(("", word), |(folders, name)| (folders, name));
        let Some((stem, ending)) = name.rsplit_once('.') else { return false };
        let stands_for_others = word.contains(['{', '}', '<', '>', '*', '$']);
        let is_file = ENDINGS.contains(&ending) && !stands_for_others && stem.chars().any(|c| c.is_ascii_lowercase());
        let is_ours = match folders.split('/').next() {
            Some("") => ending != "h" && !word.starts_with('/'),
            first => first.is_some_and(|folder| self.folders.contains(folder)),
        };
        is_file && is_ours && !self.files.contains(word)
    }
}

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let names = Names::new(files.iter().map(PathBuf::as_path));
    for file in files {
        let path = file.to_string_lossy();
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_text = TEXTS.contains(&path.as_ref()) || path.starts_with(CHAPTERS);
        if !matches!(ending, "rs" | "c" | "h" | "cpp" | "sh" | "py") && !is_text {
            continue;
        }
        let text = std::fs::read_to_string(root.join(file)).with_context(|| path.to_string())?;
        findings.broken.extend(
            missing(&names, ending, &text)
                .into_iter()
                .map(|(line, name)| format!("{path}:{line}: names {name}, which is not there")),
        );
    }
    Ok(())
}

/// The files that comments of a text name and that do not exist, with their lines.
fn missing(names: &Names, ending: &str, text: &str) -> Vec<(usize, String)> {
    let mut is_within = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let comment = match ending {
            "md" => line,
            "sh" | "py" => line.trim_start().strip_prefix('#').unwrap_or_default(),
            _ => comment(line, &mut is_within),
        };
        let is_part = |c: char| {
            c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '{' | '}' | '<' | '>' | '*' | '$' | ':')
        };
        for word in comment.split(|c| !is_part(c)) {
            // A line number may follow the name, and a sentence ends with a point.
            let word = word.split(':').next().unwrap_or_default().trim_end_matches('.');
            if names.lacks(word) {
                found.push((number + 1, word.to_owned()));
            }
        }
    }
    found
}

/// The comment on a line of Rust or C. `is_within` says whether a comment goes on over the next line.
fn comment<'a>(line: &'a str, is_within: &mut bool) -> &'a str {
    let from = if *is_within { Some(0) } else { start(line) };
    let Some(from) = from else { return "" };
    let rest = &line[from..];
    if !*is_within && rest.starts_with("//") {
        return rest;
    }
    *is_within = !rest.contains("*/");
    rest
}

/// The start of a comment in a line, outside of quoted text.
fn start(line: &str) -> Option<usize> {
    let begins = |at: &usize| line[..*at].matches('"').count().is_multiple_of(2) && !line[..*at].ends_with(':');
    let starts = line.match_indices("//").chain(line.match_indices("/*")).map(|(at, _)| at);
    starts.filter(begins).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ending: &str, text: &str) -> Vec<String> {
        let files = ["tests/c/check.h", "crates/weft-core/src/flow.rs", "docs/carriers.md"];
        let names = Names::new(files.iter().map(Path::new));
        missing(&names, ending, text).into_iter().map(|(line, name)| format!("{line} {name}")).collect()
    }

    #[test]
    fn what_is_there_may_be_named_by_any_part_of_its_path() {
        let text = "/// `flow.rs`, src/flow.rs:12 and crates/weft-core/src/flow.rs, see docs/carriers.md.\n";
        assert_eq!(found("rs", text), Vec::<String>::new());
        assert_eq!(found("c", "/* tests/c/check.h\n * c/check.h */\n"), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_there_is_found_in_every_kind_of_comment() {
        assert_eq!(found("rs", "let x = 1; // as in gone.rs\n"), ["1 gone.rs"]);
        assert_eq!(
            found("c", "/* First\n * tests/c/known-faults.txt.\n */ int x; /* a.c */\n"),
            ["2 tests/c/known-faults.txt", "3 a.c"]
        );
        assert_eq!(found("sh", "# by gone.sh\n"), ["1 gone.sh"]);
        assert_eq!(found("md", "`src/gone.rs`\n"), ["1 src/gone.rs"]);
    }

    #[test]
    fn code_other_projects_and_placeholders_are_left_alone() {
        assert_eq!(found("rs", "let path = \"gone.rs\";\nlet url = \"http://gone.rs\";\n"), Vec::<String>::new());
        assert_eq!(
            found("c", "#include \"gone.h\"\n/* linux/if_packet.h, stdint.h, NAME.c, libfabric.so.1 */\n"),
            Vec::<String>::new()
        );
        assert_eq!(found("sh", "cc gone.c\n# $program.c\n"), Vec::<String>::new());
    }
}
