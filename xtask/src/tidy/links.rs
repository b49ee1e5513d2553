//! Checks the relative links of all Markdown files, and that some page shows each chart.
//!
//! A link `[text](path#anchor)` leads to a file or a folder of the project; the anchor is a heading of that
//! file, by the name that GitHub gives to it. Pictures are links, too. Code is none: neither a fenced block
//! nor a span in backquotes.

use super::Findings;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The Markdown files by their paths, with the anchors of each, and the other files and folders.
#[derive(Default)]
struct Places {
    anchors: BTreeMap<String, BTreeSet<String>>,
    others: BTreeSet<String>,
}

impl Places {
    fn add(&mut self, path: &str, text: Option<&str>) {
        self.others.extend(Path::new(path).ancestors().skip(1).map(|folder| folder.to_string_lossy().into_owned()));
        match text {
            Some(text) => drop(self.anchors.insert(path.to_owned(), anchors(text))),
            None => drop(self.others.insert(path.to_owned())),
        }
    }

    /// The fault of a link in the file `from`; `None` if the link leads to a place that is there, or out of
    /// the project by a URL.
    fn fault(&self, from: &str, link: &str) -> Option<String> {
        if link.contains("://") || link.starts_with("mailto:") {
            return None;
        }
        let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
        let Some(target) = resolved(from, path) else {
            return Some(format!("the link {link} leads out of the project"));
        };
        match (self.anchors.get(&target), anchor) {
            (None, _) if !self.others.contains(&target) => Some(format!("the link {link} leads to no file")),
            (Some(anchors), Some(anchor)) if !anchors.contains(anchor) => {
                Some(format!("the link {link} leads to no heading of {target}"))
            }
            _ => None,
        }
    }
}

pub(super) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> Result<()> {
    let mut places = Places::default();
    let mut texts = Vec::new();
    for file in files {
        let path = file.to_string_lossy().into_owned();
        if path.ends_with(".md") {
            let text = std::fs::read_to_string(root.join(file)).with_context(|| path.clone())?;
            places.add(&path, Some(&text));
            texts.push((path, text));
        } else {
            places.add(&path, None);
        }
    }
    let mut shown = BTreeSet::new();
    for (path, text) in &texts {
        for (line, link) in links(text) {
            findings.broken.extend(places.fault(path, link).map(|fault| format!("{path}:{line}: {fault}")));
            shown.extend(resolved(path, link));
        }
    }
    findings.broken.extend(unseen(&places, &shown));
    Ok(())
}

/// The charts below `docs` that no page shows: those of measurements that were made anew, say.
fn unseen(places: &Places, shown: &BTreeSet<String>) -> Vec<String> {
    let charts = places.others.iter().filter(|path| path.starts_with("docs/") && path.ends_with(".svg"));
    charts.filter(|chart| !shown.contains(*chart)).map(|chart| format!("{chart}: no page shows this chart")).collect()
}

/// The path from the top of the project of a path that is relative to the folder of the file `from`; `from`
/// itself for an empty path, and `None` for a path out of the project.
fn resolved(from: &str, path: &str) -> Option<String> {
    if path.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if path.starts_with('/') {
        parts.clear();
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The lines outside of fenced blocks, with their numbers from 1.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<String> = None;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let trimmed = line.trim_start();
        let mark: String = trimmed.chars().take_while(|c| matches!(c, '`' | '~')).collect();
        match &fence {
            Some(opening) => {
                if mark.starts_with(opening.as_str()) {
                    fence = None;
                }
                None
            }
            None if mark.len() >= 3 => {
                fence = Some(mark);
                None
            }
            None => Some((number + 1, line)),
        }
    })
}

/// The targets of the links of a text, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for (at, _) in line.match_indices("](") {
            if line[..at].matches('`').count() % 2 == 1 {
                continue;
            }
            let rest = &line[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            found.push((number, target.trim_start_matches('<').trim_end_matches('>')));
        }
    }
    found
}

/// The anchors of a text: its headings as GitHub names them, and names that the text sets by itself.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        for attribute in ["<a id=\"", "<a name=\""] {
            let names = line.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
            anchors.extend(names.map(str::to_owned));
        }
        let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
        let Some(heading) = line[hashes..].strip_prefix(' ').filter(|_| (1..=6).contains(&hashes)) else { continue };
        let name = anchor(heading);
        let count = counts.entry(name.clone()).or_default();
        anchors.insert(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    anchors
}

/// The anchor of a heading: small letters, digits, `-` and `_` stay, a blank becomes `-`, all else goes. Of a
/// link the text counts.
fn anchor(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading.trim();
    while let Some((before, behind)) = rest.split_once("](") {
        text.push_str(before);
        rest = behind.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of the links of a page in `docs/book`, beside another page and a picture above.
    fn faults(page: &str) -> Vec<String> {
        let other = "# Other\n\n## How `weft info` answers\n\n## Twice\n\n## Twice\n";
        let mut places = Places::default();
        places.add("docs/book/page.md", Some(page));
        places.add("docs/book/other.md", Some(other));
        places.add("docs/chart.svg", None);
        links(page)
            .iter()
            .filter_map(|(line, link)| Some((line, places.fault("docs/book/page.md", link)?)))
            .map(|(line, fault)| format!("{line}: {fault}"))
            .collect()
    }

    /// Links to files, folders, headings, and out of the project.
    ///
    /// Expect: no fault.
    #[test]
    fn a_link_that_leads_somewhere_passes() {
        let page = "# Page\n\n[a](other.md), [b](#page), [c](other.md#how-weft-info-answers) and ![d](../chart.svg)\n\
                    [e](other.md#twice-1 \"title\"), [the folder](../book/), [`code`](../../docs/book/other.md#other)\n\
                    [URL](https://example.org/no.md), [mail](mailto:a@example.org), [top](/docs/chart.svg)\n";
        assert_eq!(faults(page), Vec::<String>::new());
    }

    #[test]
    fn a_chart_that_no_page_shows_is_named() {
        let mut places = Places::default();
        for path in ["docs/run/old.svg", "docs/run/new.svg", "packaging/icon.svg"] {
            places.add(path, None);
        }
        let shown = BTreeSet::from(["docs/run/new.svg".to_owned()]);
        assert_eq!(unseen(&places, &shown), ["docs/run/old.svg: no page shows this chart"]);
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_is_broken() {
        assert_eq!(faults("\n[a](gone.md)\n"), ["2: the link gone.md leads to no file"]);
        assert_eq!(faults("[a](../../../x.md)\n"), ["1: the link ../../../x.md leads out of the project"]);
    }

    #[test]
    fn a_link_to_a_heading_that_is_not_there_is_broken() {
        let broken = faults("# Page\n[a](other.md#gone), [b](#gone), [c](other.md#twice-2)\n");
        assert_eq!(broken.len(), 3);
        assert_eq!(broken[0], "2: the link other.md#gone leads to no heading of docs/book/other.md");
    }

    #[test]
    fn code_holds_no_links_and_no_headings() {
        let page = "```text\n[a](gone.md)\n# Heading\n```\n`[text](path#anchor)`\n[b](#heading)\n";
        assert_eq!(faults(page), ["6: the link #heading leads to no heading of docs/book/page.md"]);
    }

    #[test]
    fn anchors_are_those_of_github() {
        assert_eq!(anchor("What is wrong: `weft doctor`"), "what-is-wrong-weft-doctor");
        assert_eq!(anchor("Rails & carriers, 2 of them"), "rails--carriers-2-of-them");
        assert_eq!(anchor("See [the `WEFT_LINK` page](a.md#b)."), "see-the-weft_link-page");
    }
}
