//! Rules about `docs/decisions/`: every record has a name, a title and its sections, and stands in the index
//! with a status; the index, and whoever cites a decision, name no record that does not exist.

use super::Findings;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FOLDER: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";
/// Not a record: what a new one begins with.
const TEMPLATE: &str = "0000";
const SECTIONS: &[&str] = &["Context", "Decision", "Alternatives", "Consequences"];

/// A record holds, perhaps as changed by others that are named.
const IN_FORCE: &str = "in force";
/// It does not hold any more, because of the one that is named. Its file may be gone.
const OVER: &[&str] = &["superseded by ", "drawn together into "];

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let mut records = BTreeMap::new();
    let mut index = None;
    let mut cited = Vec::new();
    for file in files {
        let path = file.to_string_lossy().into_owned();
        if !(path.ends_with(".md") || path.ends_with(".rs")) {
            continue;
        }
        let text = std::fs::read_to_string(root.join(file)).with_context(|| path.clone())?;
        cited.extend(citations(&text).map(|number| (path.clone(), number.to_owned())));
        if path == INDEX {
            index = Some(text);
        } else if let Some(name) = path.strip_prefix(FOLDER) {
            form(&path, name, &text, findings);
            if let Some((number, _)) = name.split_once('-')
                && number != TEMPLATE
            {
                let title = title(&text, number).unwrap_or_default().to_owned();
                records.insert(number.to_owned(), (name.to_owned(), title));
            }
        }
    }
    compare(&records, index.as_deref().unwrap_or_default(), findings);
    for (path, number) in cited {
        if !records.contains_key(&number) {
            findings.broken.push(format!("{path}: cites decision {number}, of which there is no record (see {INDEX})"));
        }
    }
    Ok(())
}

/// The text behind `# NNNN: `.
fn title<'a>(text: &'a str, number: &str) -> Option<&'a str> {
    text.lines().next()?.strip_prefix("# ")?.strip_prefix(number)?.strip_prefix(": ")
}

fn is_number(word: &str) -> bool {
    word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn form(path: &str, name: &str, text: &str, findings: &mut Findings) {
    let number = name.split('-').next().unwrap_or_default();
    if !is_number(number) || !name.ends_with(".md") {
        findings.broken.push(format!("{path}: a decision is called NNNN-title.md"));
    } else if title(text, number).is_none() {
        findings.broken.push(format!("{path}: does not begin with \"# {number}: \" and its title"));
    }
    for section in SECTIONS {
        let heading = |line: &str| line.starts_with("##") && line.trim_start_matches('#').trim() == *section;
        if !text.lines().any(heading) {
            findings.broken.push(format!("{path}: no section \"## {section}\""));
        }
    }
}

/// Numbers behind the word "decision" or "decisions" in `text`.
fn citations(text: &str) -> impl Iterator<Item = &str> {
    text.split_once("ecision")
        .map(|(_, rest)| rest)
        .into_iter()
        .flat_map(|rest| rest.split("ecision"))
        .flat_map(|rest| {
            let rest = rest.strip_prefix('s').unwrap_or(rest);
            let words = rest.strip_prefix(' ').unwrap_or_default().split(' ');
            words.map_while(|word| {
                if matches!(word, "and" | "to" | "or") {
                    return Some("");
                }
                let number = word.get(..4).filter(|number| is_number(number))?;
                // "0024 KiB" is no citation, and neither is 00241.
                let tail = &word[4..];
                (!tail.starts_with(|c: char| c.is_alphanumeric())).then_some(number)
            })
        })
        .filter(|number| !number.is_empty())
}

/// `records`: file name and title by number.
fn compare(records: &BTreeMap<String, (String, String)>, index: &str, findings: &mut Findings) {
    let mut broken = |what: String| findings.broken.push(format!("{INDEX}: {what}"));
    let mut seen = Vec::new();
    for row in index.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let (name, link) = match cells[0].strip_prefix('[').and_then(|cell| cell.strip_suffix(')')) {
            Some(cell) => cell.split_once("](").unwrap_or_default(),
            None => (cells[0], ""),
        };
        if !is_number(name) {
            continue;
        }
        let [_, title, status] = cells[..] else {
            broken(format!("{name}: a row has a number, a title and a status"));
            continue;
        };
        if seen.contains(&name) {
            broken(format!("{name} stands there twice"));
        }
        seen.push(name);
        match records.get(name) {
            Some((file, its_title)) if link != file || title != its_title => {
                broken(format!("{name} is called \"{its_title}\" and is in {file}"));
            }
            None if !link.is_empty() => broken(format!("{name}: there is no such record")),
            None if !is_over(status) => broken(format!("{name}: it is not there, so it cannot be \"{status}\"")),
            _ => {}
        }
        if !is_over(status) && status != IN_FORCE && !status.starts_with(&format!("{IN_FORCE}, ")) {
            broken(format!("{name}: \"{status}\" is no status"));
        }
        let named = status.split(|c: char| !c.is_ascii_digit()).filter(|word| is_number(word));
        let missing: Vec<&str> = named.filter(|number| !records.contains_key(*number)).collect();
        if !missing.is_empty() {
            broken(format!("{name}: its status names {}, of which there is no record", missing.join(", ")));
        }
    }
    for number in records.keys().filter(|number| !seen.contains(&number.as_str())) {
        broken(format!("{number} is missing"));
    }
}

fn is_over(status: &str) -> bool {
    OVER.iter().any(|word| status.strip_prefix(word).is_some_and(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_has_four_sections_a_number_and_a_title() {
        let mut findings = Findings::default();
        let good = "# 0001: T\n\n## Context\n## Decision\n## Alternatives\n## Consequences\n";
        form("docs/decisions/0001-a.md", "0001-a.md", good, &mut findings);
        assert!(findings.broken.is_empty());
        form("docs/decisions/0002-a.md", "0002-a.md", good, &mut findings);
        form("docs/decisions/a.md", "a.md", "# T\n## Context\n", &mut findings);
        assert_eq!(findings.broken.len(), 5);
    }

    fn compared(index: &str) -> Vec<String> {
        let record = |number: &str, title: &str| (number.to_owned(), (format!("{number}-x.md"), title.to_owned()));
        let mut findings = Findings::default();
        compare(&BTreeMap::from([record("0001", "one"), record("0003", "three")]), index, &mut findings);
        findings.broken
    }

    #[test]
    fn an_index_that_agrees_passes() {
        let good = "| number | title | status |\n|---|---|---|\n| [0001](0001-x.md) | one | in force, changed by 0003 |\n\
                    | 0002 | two | drawn together into 0003 |\n| [0003](0003-x.md) | three | in force |\n";
        assert_eq!(compared(good), Vec::<String>::new());
    }

    #[test]
    fn every_rule_about_the_index_can_fail() {
        let three = "| [0003](0003-x.md) | three | in force |\n";
        for (row, what) in [
            ("", "0001 is missing"),
            ("| [0001](0001-x.md) | one |\n", "has a number"),
            ("| [0001](0001-x.md) | ein | in force |\n", "is called"),
            ("| [0001](0001-y.md) | one | in force |\n", "is called"),
            ("| [0001](0001-x.md) | one | valid |\n", "is no status"),
            ("| [0001](0001-x.md) | one | superseded by 0002 |\n", "names 0002"),
            ("| [0001](0001-x.md) | one | in force |\n| [0001](0001-x.md) | one | in force |\n", "twice"),
            ("| [0001](0001-x.md) | one | in force |\n| [0002](0002-x.md) | two | superseded by 0003 |\n", "no such"),
            ("| [0001](0001-x.md) | one | in force |\n| 0002 | two | in force |\n", "not there"),
        ] {
            let broken = compared(&format!("{row}{three}"));
            assert!(broken.iter().any(|line| line.contains(what)), "{row}: {broken:?}");
        }
    }

    #[test]
    fn what_cites_a_decision_is_found() {
        let text =
            concat!("decis", "ion 0001, and decis", "ions 0002 and 0003. The decis", "ion 12, Decis", "ion 0004:");
        assert_eq!(citations(text).collect::<Vec<_>>(), ["0001", "0002", "0003", "0004"]);
    }
}
