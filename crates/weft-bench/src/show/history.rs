//! The performance record, a file that travels with the sources: each line is a JSON object that says what
//! one measured commit reached. The page of a record marks each row ahead, level or behind, for each kind of
//! machine.
//!
//! A line is never changed: a later measurement is another line. Machines of different kinds are never
//! compared.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::chart::{self, Curve, Words};
use super::markdown::{inline, wrapped};
use super::summary::{Standing, Summary};
use super::{units, words};

/// The version of the format; a reader refuses others.
const FORMAT: u32 = 1;
/// The measurements of a row that the page shows beside each other.
const SHOWN: usize = 5;

/// The measurements of a commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    format: u32,
    /// The commit that was measured.
    commit: String,
    /// The time of the measurement, in seconds since 1970, UTC.
    date: u64,
    /// The kind of machine: its processor's name, and the number of processors.
    machine: String,
    rows: Vec<Row>,
    /// Counts of instructions and system calls, as `cargo xtask instructions --save` writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    counts: Vec<Count>,
}

/// A row of a table beside the best peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    measurement: String,
    place: String,
    /// The direction, the size and such.
    row: String,
    unit: String,
    value: f64,
    peer: String,
    /// How many times as good the subject is as the best peer; for percentages, how many points better.
    advantage: f64,
    is_points: bool,
    standing: Standing,
}

/// Counts that are the same on all machines of one architecture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Count {
    place: String,
    mode: String,
    side: String,
    instructions: f64,
    system_calls: f64,
}

/// The file of `cargo xtask instructions --save`, as far as it is kept.
#[derive(Deserialize)]
struct Counts {
    counts: Vec<Count>,
}

/// Makes the entry of a commit from the runs that were measured at it. `counts` is the text of the file of
/// counts.
///
/// # Errors
/// One sentence: the runs are of several machines, or have no row with a peer; or the counts are none.
pub(crate) fn entry(summaries: &[Summary], commit: &str, counts: Option<&str>) -> anyhow::Result<Entry> {
    let Some(first) = summaries.first() else { anyhow::bail!("there is no run to record") };
    let machine = machine(first);
    if let Some(other) = summaries.iter().map(self::machine).find(|other| *other != machine) {
        anyhow::bail!("the runs are of two machines, {machine} and {other}: record them apart");
    }
    let rows: Vec<Row> = summaries.iter().flat_map(rows).collect();
    anyhow::ensure!(!rows.is_empty(), "no row of these runs has a figure of Weft and of a peer");
    let counts = match counts {
        Some(text) => serde_json::from_str::<Counts>(text)?.counts,
        None => Vec::new(),
    };
    Ok(Entry { format: FORMAT, commit: commit.to_owned(), date: first.run.started, machine, rows, counts })
}

/// The kind of a run's machine.
fn machine(summary: &Summary) -> String {
    let fact = |name: &str| {
        let found = summary.run.machine.iter().find(|(known, _)| known == name);
        found.map_or("unknown", |(_, value)| value.as_str()).to_owned()
    };
    format!("{}, {} processors", fact("processor"), fact("processors"))
}

fn rows(summary: &Summary) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in &summary.tables {
        for row in &table.rows {
            let (Some(comparison), Some(subject)) = (row.best_peer, summary.subject()) else { continue };
            let column = table.columns.iter().position(|column| *column == subject);
            let Some(figure) = column.and_then(|column| row.cells.get(column)?.figure) else { continue };
            rows.push(Row {
                measurement: table.measurement.clone(),
                place: words::place(&table.place),
                row: words::row_title(row),
                unit: table.unit.clone(),
                value: figure.median,
                peer: summary.library(comparison.against).title.clone(),
                advantage: comparison.advantage.median,
                is_points: comparison.is_points,
                standing: comparison.standing(),
            });
        }
    }
    rows
}

impl Entry {
    /// The entry as a line of the record, with its end.
    ///
    /// # Errors
    /// A figure is no number.
    pub(crate) fn line(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }
}

/// Reads a record. `source` names it in sentences.
///
/// # Errors
/// One sentence: a line is no entry, or is one of another format.
pub(crate) fn parse(text: &str, source: &str) -> anyhow::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let entry: Entry = serde_json::from_str(line)
            .map_err(|error| anyhow::anyhow!("{source}, line {number} is no entry of a performance record: {error}"))?;
        let format = entry.format;
        anyhow::ensure!(
            format == FORMAT,
            "{source}, line {number} has format {format}, and this program reads {FORMAT}"
        );
        entries.push(entry);
    }
    anyhow::ensure!(!entries.is_empty(), "{source} has no entry");
    Ok(entries)
}

/// The ns that a line takes between two processors below which they count as near, in comparisons of commits.
const NEAR_NS: f64 = 64.0;

/// A place without the time that its lines took: that differs by a nanosecond or ten from run to run, and the
/// place is still the same.
fn over_time(place: &str) -> String {
    let Some((place_alone, lines)) = place.split_once(", lines ") else { return place.to_owned() };
    let ns = lines.strip_suffix(" ns").and_then(|lines| lines.rsplit(' ').next()?.parse::<f64>().ok());
    match ns {
        Some(ns) => format!("{place_alone}, lines {}", if ns < NEAR_NS { "near" } else { "far" }),
        None => place.to_owned(),
    }
}

/// The page of a record, and its charts by the names of their files. `folder` is the directory of the charts,
/// seen from the page.
pub(crate) fn page(entries: &[Entry], folder: &str) -> (String, Vec<(String, String)>) {
    let mut text = "# Performance over time\n\n\
                    <!-- Generated by `weft report --history`; add measurements, and do not change this file. -->\n\n\
                    Each row compares Weft with the best peer in one run on one machine. *Ahead* and *behind* are\n\
                    differences of more than 5 % (2 points), in three quarters of the rounds.\n"
        .to_owned();
    let mut charts = Vec::new();
    let mut entries = entries.to_vec();
    entries.iter_mut().flat_map(|entry| &mut entry.rows).for_each(|row| row.place = over_time(&row.place));
    let entries = &entries[..];
    let mut machines: Vec<&str> = Vec::new();
    for entry in entries {
        if !machines.contains(&entry.machine.as_str()) {
            machines.push(&entry.machine);
        }
    }
    for (number, machine) in machines.iter().enumerate() {
        let of_machine: Vec<&Entry> = entries.iter().filter(|entry| entry.machine == *machine).collect();
        let _ = write!(text, "\n## {}\n\n{}\n", inline(machine), wrapped(&measured(&of_machine)));
        for (measurement, place) in groups(&of_machine) {
            let title = format!("{}, {}", words::title(measurement), place);
            let _ = write!(text, "\n### {}\n\n", inline(&title));
            let rows = in_group(&of_machine, measurement, place);
            table(&mut text, &of_machine, &rows);
            if of_machine.len() > 1
                && let Some(svg) = chart(&title, &of_machine, &rows)
            {
                let name = format!("machine-{}-{measurement}-{}", number + 1, slug(place));
                let _ = write!(text, "\n![{}]({folder}/{name}.svg)\n", inline(&title));
                charts.push((name, svg));
            }
        }
    }
    if let Some(entry) = entries.iter().rev().find(|entry| !entry.counts.is_empty()) {
        text += "\n## Instructions and system calls of an operation\n\n";
        let _ = writeln!(text, "At {}.\n\n| where | how | side | instructions | system calls |", short(&entry.commit));
        text += "|---|---|---|---:|---:|\n";
        for Count { place, mode, side, instructions, system_calls } in &entry.counts {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {instructions:.0} | {system_calls:.2} |",
                inline(place),
                inline(mode),
                inline(side)
            );
        }
    }
    (text, charts)
}

/// Says what was measured, and how Weft stands in the latest figures of each row.
fn measured(entries: &[&Entry]) -> String {
    let list: Vec<String> =
        entries.iter().map(|entry| format!("{} ({})", short(&entry.commit), units::date(entry.date))).collect();
    let mut standings = [0; 3];
    for (measurement, place) in groups(entries) {
        for row in in_group(entries, measurement, place) {
            if let Some(last) = row.figures.iter().rev().flatten().next() {
                standings[last.standing as usize] += 1;
            }
        }
    }
    let [ahead, level, behind] = standings;
    format!(
        "Measured at {}. In the latest figures of each row Weft is ahead of the best peer in {ahead} rows, level in \
         {level} and behind in {behind}.",
        list.join(", ")
    )
}

/// The measurements and places of these entries, in the order in which they are shown.
fn groups<'a>(entries: &[&'a Entry]) -> Vec<(&'a str, &'a str)> {
    let mut groups: Vec<(&str, &str)> = Vec::new();
    for row in entries.iter().flat_map(|entry| &entry.rows) {
        let group = (row.measurement.as_str(), row.place.as_str());
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let places: Vec<&str> = groups.iter().map(|(_, place)| *place).collect();
    let order = |place: &str| places.iter().position(|one| *one == place);
    groups.sort_by_key(|(measurement, place)| (order(place), words::order(measurement)));
    groups
}

/// A row, with its figure in each entry that has one.
struct Line<'a> {
    title: &'a str,
    figures: Vec<Option<&'a Row>>,
}

fn in_group<'a>(entries: &[&'a Entry], measurement: &str, place: &str) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        for row in entry.rows.iter().filter(|row| row.measurement == measurement && row.place == place) {
            let known = lines.iter().position(|line| line.title == row.row);
            let at = known.unwrap_or_else(|| {
                lines.push(Line { title: &row.row, figures: vec![None; entries.len()] });
                lines.len() - 1
            });
            lines[at].figures[number] = Some(row);
        }
    }
    lines
}

fn table(text: &mut String, entries: &[&Entry], rows: &[Line<'_>]) {
    let from = entries.len().saturating_sub(SHOWN);
    let heads: Vec<String> = entries[from..].iter().map(|entry| short(&entry.commit)).collect();
    let _ = writeln!(text, "| | {} | latest | best peer | |", heads.join(" | "));
    let _ = writeln!(text, "|---|{}---:|---|---|", "---:|".repeat(heads.len()));
    for Line { title, figures } in rows {
        let Some(last) = figures.iter().rev().flatten().next() else { continue };
        let cells: Vec<String> =
            figures[from..].iter().map(|row| row.map_or_else(|| "–".to_owned(), advantage)).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            inline(title),
            cells.join(" | "),
            units::with_unit(last.value, &last.unit),
            inline(&last.peer),
            match last.standing {
                Standing::Ahead => "**ahead**",
                Standing::Level => "level",
                Standing::Behind => "behind",
            }
        );
    }
}

fn advantage(row: &Row) -> String {
    if row.is_points { units::points(row.advantage) } else { units::times(row.advantage) }
}

/// The chart of some rows over the entries; `None` where no row has a ratio.
fn chart(title: &str, entries: &[&Entry], rows: &[Line<'_>]) -> Option<String> {
    let curves: Vec<Curve> = rows
        .iter()
        .map(|row| {
            let of = |(number, row): (usize, &Option<&Row>)| {
                row.filter(|row| !row.is_points && row.advantage > 0.0).map(|row| (number as f64 + 1.0, row.advantage))
            };
            (row.title.to_owned(), row.figures.iter().enumerate().filter_map(of).collect())
        })
        .filter(|(_, points): &Curve| !points.is_empty())
        .collect();
    let names: Vec<String> = entries.iter().map(|entry| short(&entry.commit)).collect();
    let words =
        Words { title, subtitle: "above 1 Weft is ahead of the best peer", x: "commit", y: "times the best peer" };
    (!curves.is_empty()).then(|| chart::over_steps(&words, &names, &curves))
}

/// The first letters of a commit's name.
fn short(commit: &str) -> String {
    commit.chars().take(8).collect()
}

/// A place as part of a file's name.
fn slug(place: &str) -> String {
    let letters = place.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let mut slug: String = letters.collect();
    while slug.contains("--") {
        slug = slug.replace("--", "-");
    }
    slug.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_take_a_nanosecond_more_make_no_other_place() {
        for (place, expected) in [
            ("1 host, 2 ranks, lines near, 25 ns", "1 host, 2 ranks, lines near"),
            ("1 host, 2 ranks, lines 26 ns", "1 host, 2 ranks, lines near"),
            ("1 host, 2 ranks, lines far, 201 ns", "1 host, 2 ranks, lines far"),
            ("1 host, 2 ranks, lines 104 ns", "1 host, 2 ranks, lines far"),
            ("2 hosts, 2 ranks, links of 10 Gb/s", "2 hosts, 2 ranks, links of 10 Gb/s"),
            ("one node", "one node"),
        ] {
            assert_eq!(over_time(place), expected, "{place}");
        }
    }
}
