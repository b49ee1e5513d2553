//! Checks the numbers of README.md against the generated documents: the progress of the implementation
//! (`docs/status.md`), and the figures beside other libraries (the page of the
//! machine that README.md shows).

use super::Findings;
use anyhow::{Context, Result};
use std::path::Path;

/// The page whose figures README.md shows.
const PAGE: &str = "docs/performance-amd.md";
/// The figures on the first screen: the title of a table in that page, and the size in its first column.
const FIGURES: &[(&str, &str)] = &[
    ("Ping-pong latency, 2 hosts, 2 ranks", "8"),
    ("Ping-pong latency, 2 hosts, 2 ranks", "256 KB"),
    ("Bandwidth, 1 host, 2 ranks", "64 KB"),
];
/// The columns of a figure: Weft and the peers.
const LIBRARIES: usize = 4;
/// The lines of the first screen.
const SCREEN_LINES: usize = 25;

pub(super) fn check(root: &Path, findings: &mut Findings) -> Result<()> {
    let read = |name: &str| std::fs::read_to_string(root.join(name)).with_context(|| name.to_owned());
    let readme = read("README.md")?;
    findings.broken.extend(compare(&readme, &read("docs/status.md")?, &read(PAGE)?));
    Ok(())
}

fn compare(readme: &str, status: &str, performance: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let first = readme.lines().skip(1).find(|line| !line.is_empty()).unwrap_or_default();
    match implemented(status) {
        Some((done, all)) if !first.contains(&format!("{done} of the {all} procedures")) => {
            broken.push(format!(
                "README.md: its first line does not say \"{done} of the {all} procedures\" (docs/status.md)"
            ));
        }
        Some(_) => {}
        None => broken.push("docs/status.md: does not say how many procedures are implemented".into()),
    }
    let screen: Vec<&str> = readme.lines().take(SCREEN_LINES).collect();
    for (title, size) in FIGURES {
        match medians(performance, title, size) {
            Some(row) if !screen.iter().any(|line| line.ends_with(&row)) => broken.push(format!(
                "README.md: no row of its first {SCREEN_LINES} lines ends with \"{row}\" ({title}, {size}, {PAGE})"
            )),
            Some(_) => {}
            None => broken.push(format!("{PAGE}: no row {size} in a table \"{title}\"")),
        }
    }
    broken
}

/// The number of implemented procedures, and the number of all procedures.
fn implemented(status: &str) -> Option<(&str, &str)> {
    let words: Vec<&str> = status.split_whitespace().collect();
    words.windows(4).find_map(|four| match four {
        [done, "of", all, "procedures"] => Some((*done, *all)),
        _ => None,
    })
}

/// The medians of a row, as cells of a table: `| 1.0 | 2.0 | 3.0 | 4.0 |`.
fn medians(performance: &str, title: &str, size: &str) -> Option<String> {
    // Behind the title, tables of one host have the time of a cache line.
    let is_heading = |line: &str| {
        let rest = line.strip_prefix("### ").and_then(|line| line.strip_prefix(title));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", lines "))
    };
    let table =
        performance.lines().skip_while(|line| !is_heading(line)).skip(1).take_while(|line| !line.starts_with('#'));
    let row = table.map(|line| line.split(" | ").collect::<Vec<_>>()).find(|cells| cells[0] == format!("| {size}"))?;
    let median = |cell: &&str| cell.trim_matches('*').split(" ±").next().unwrap_or_default().to_owned();
    let cells: Vec<String> = row.get(1..=LIBRARIES)?.iter().map(median).collect();
    Some(format!("| {} |", cells.join(" | ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Weft exports all. 3 of 5 procedures are implemented.\n";

    fn performance() -> String {
        let table = |title: &str, size: &str, value: u32| {
            let header = "| size | Weft 0.1.0 | A | B | C | × |\n|---|---:|\n";
            let row =
                |size: &str, value: u32| format!("| {size} | **{value}.5 ±1%** | 2.0 ±9% ~ | 3 | 4.0 ±1% | 1× |\n");
            format!("### {title}\n\n{header}{}{}\n", row("7", 0), row(size, value))
        };
        (1..).zip(FIGURES).map(|(value, (title, size))| table(title, size, value)).collect::<String>()
            + &table(FIGURES[0].0, FIGURES[1].1, 9)
    }

    #[test]
    fn what_agrees_passes_and_each_claim_can_fail() {
        let performance = performance().replacen("| 7 |", "| 256 KB |", 1);
        let good = "# Weft\n\nImplements 3 of the 5 procedures.\n\n| a | 1.5 | 2.0 | 3 | 4.0 |\n| b | 0.5 | 2.0 | 3 | 4.0 |\n\
                    | c | 3.5 | 2.0 | 3 | 4.0 |\n";
        assert_eq!(compare(good, STATUS, &performance), Vec::<String>::new());
        let with_state = performance.replace("1 host, 2 ranks\n", "1 host, 2 ranks, lines 59 ns\n");
        assert_ne!(with_state, performance);
        assert_eq!(compare(good, STATUS, &with_state), Vec::<String>::new());
        assert_eq!(compare(&good.replace("3 of", "4 of"), STATUS, &performance).len(), 1);
        assert_eq!(compare(&good.replace("1.5", "1.6"), STATUS, &performance).len(), 1);
        assert_eq!(compare(good, "", &performance).len(), 1);
        assert_eq!(compare(good, STATUS, "").len(), FIGURES.len());
        let late = good.replacen("\n\n|", &format!("{}|", "\n".repeat(SCREEN_LINES)), 1);
        assert_eq!(compare(&late, STATUS, &performance).len(), FIGURES.len());
    }
}
