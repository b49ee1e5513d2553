//! Prints a report: as text for people, and as JSON for programs.

use std::fmt::Write;

use serde_json::json;

use super::examine::{ALL_PAIRS_HOSTS_MAX, Report};
use super::findings::{Finding, Level};
use crate::info::amounts::counted;
use crate::info::text::{GREEN, GREY, RED, Style, YELLOW};

/// The most subjects named in one line; further ones are counted.
const SUBJECTS_SHOWN: usize = 4;

/// The report as one JSON object.
pub(crate) fn json(report: &Report) -> String {
    let object = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "hosts": report.hosts,
        "seconds": report.seconds,
        "findings": report.findings,
        "facts": report.facts,
    });
    format!("{object:#}\n")
}

/// The report as a table, coloured on a terminal.
pub(crate) fn text(report: &Report) -> String {
    table(report, Style::of_output())
}

fn table(report: &Report, style: Style) -> String {
    let rows = merged(&report.findings);
    let width = rows.iter().map(|row| row.finding.name.len()).max().unwrap_or(0);
    let mut page = String::new();
    // Writing to a string cannot fail.
    for Row { finding, subjects } in &rows {
        let (code, word) = mark(finding.level);
        let word = style.paint(code, &format!("{word:7}"));
        let _ = writeln!(page, "{word}  {:width$}  {subjects}: {}", finding.name, finding.what);
        if !finding.cure.is_empty() {
            let _ =
                writeln!(page, "{:7}  {:width$}  {}", "", "", style.paint(GREY, &format!("cure: {}", finding.cure)));
        }
    }
    let _ = writeln!(page, "\n{}", summary(report));
    page
}

fn mark(level: Level) -> (u8, &'static str) {
    match level {
        Level::Ok => (GREEN, "ok"),
        Level::Note => (GREY, "note"),
        Level::Warning => (YELLOW, "warning"),
        Level::Fault => (RED, "fault"),
    }
}

/// A finding that several subjects share.
struct Row<'a> {
    finding: &'a Finding,
    subjects: String,
}

fn merged(findings: &[Finding]) -> Vec<Row<'_>> {
    let mut groups: Vec<(&Finding, Vec<&str>)> = Vec::new();
    for finding in findings {
        let same =
            |other: &Finding| (other.name, &other.what, &other.cure) == (finding.name, &finding.what, &finding.cure);
        match groups.iter_mut().find(|(first, _)| same(first)) {
            Some((_, subjects)) => subjects.push(&finding.subject),
            None => groups.push((finding, vec![&finding.subject])),
        }
    }
    // The worst findings come last, where the eye is when a command has ended.
    groups.sort_by_key(|(finding, _)| finding.level);
    let row = |(finding, subjects): (&'_ Finding, Vec<&str>)| {
        let more = subjects.len().saturating_sub(SUBJECTS_SHOWN);
        let shown = subjects[..subjects.len().min(SUBJECTS_SHOWN)].join(", ");
        let subjects = if more > 0 { format!("{shown} and {more} more") } else { shown };
        (finding.level, subjects)
    };
    let labels: Vec<String> = groups.iter().map(|(finding, subjects)| row((finding, subjects.clone())).1).collect();
    groups.into_iter().zip(labels).map(|((finding, _), subjects)| Row { finding, subjects }).collect()
}

fn summary(report: &Report) -> String {
    let count = |level: Level| report.findings.iter().filter(|finding| finding.level == level).count();
    let hosts = report.hosts.len();
    let how = if hosts > ALL_PAIRS_HOSTS_MAX { " (in a ring)" } else { "" };
    // A single host has no peer to send to.
    let directions = match report.directions {
        0 => String::new(),
        count => format!(", {}{how}", counted(count, "direction")),
    };
    format!(
        "{}{directions} in {:.1} s: {}, {}, {}",
        counted(hosts, "host"),
        report.seconds,
        counted(count(Level::Fault), "fault"),
        counted(count(Level::Warning), "warning"),
        counted(count(Level::Note), "note")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(level: Level, name: &'static str, subject: &str, what: &str) -> Finding {
        Finding { level, name, subject: subject.into(), what: what.into(), cure: String::new() }
    }

    fn report(findings: Vec<Finding>) -> Report {
        let hosts = vec!["h0".to_owned(), "h1".to_owned()];
        Report { hosts, findings, facts: Default::default(), directions: 2, seconds: 0.5 }
    }

    fn report_of_nothing() -> Report {
        report(Vec::new())
    }

    #[test]
    fn what_is_the_same_is_said_once_and_the_worst_comes_last() {
        let report = report(vec![
            finding(Level::Fault, "full-size-lost", "h0 → h1", "packets of 1472 bytes do not arrive"),
            finding(Level::Ok, "shm", "h0", "1 GiB free"),
            finding(Level::Ok, "shm", "h1", "1 GiB free"),
        ]);
        let page = table(&report, Style::Plain);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines[0], "ok       shm             h0, h1: 1 GiB free");
        assert!(lines[1].starts_with("fault    full-size-lost  h0 → h1: packets"));
        assert_eq!(*lines.last().unwrap(), "2 hosts, 2 directions in 0.5 s: 1 fault, 0 warnings, 0 notes");
        let alone = Report { hosts: vec!["h0".into()], directions: 0, ..report_of_nothing() };
        assert_eq!(summary(&alone), "1 host in 0.5 s: 0 faults, 0 warnings, 0 notes");
        assert!(!page.contains('\x1b'));
        assert!(table(&report, Style::Coloured).contains("\x1b[31mfault"));
    }

    #[test]
    fn the_object_has_levels_as_words() {
        let text = json(&report(vec![finding(Level::Warning, "mtu-differs", "h0 → h1", "x")]));
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["findings"][0]["level"], "warning");
    }
}
