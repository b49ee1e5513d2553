//! Figures for other programs: one JSON object, or CSV with a row for each cell. `docs/book/report.md`
//! describes both.

use std::io::{self, Write};

use serde::Serialize;

use super::statistics::Figure;
use super::summary::{Comparison, Row, Standing, Summary, Table};
use super::units::{self, Better};
use super::words;
use crate::record::{Library, Place, Role, Run};

/// The version of the shape; it grows when a field is removed or changes its meaning.
const SHAPE: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    shape: u32,
    runs: Vec<RunFigures<'a>>,
}

#[derive(Serialize)]
struct RunFigures<'a> {
    source: &'a str,
    run: &'a Run,
    interrupted: bool,
    seconds: Option<f64>,
    warnings: &'a [String],
    places: &'a [Place],
    libraries: &'a [Library],
    tables: Vec<TableFigures<'a>>,
}

#[derive(Serialize)]
struct TableFigures<'a> {
    measurement: &'a str,
    title: String,
    place: &'a str,
    unit: &'a str,
    better: &'static str,
    rows: Vec<RowFigures<'a>>,
    carriers: Vec<CarrierFigures<'a>>,
}

#[derive(Serialize)]
struct RowFigures<'a> {
    variant: &'a str,
    size: Option<u64>,
    cells: Vec<CellFigures<'a>>,
    best_peer: Option<Beside<'a>>,
    carrier: Option<Beside<'a>>,
}

#[derive(Serialize)]
struct CellFigures<'a> {
    library: &'a str,
    figure: Option<Numbers>,
    /// The reason why there is no figure: `failed`, `timed out`, …
    missing: Option<&'static str>,
    spread_is_large: bool,
    notes: Vec<&'a str>,
}

#[derive(Serialize)]
struct CarrierFigures<'a> {
    library: &'a str,
    size: u64,
    figure: Numbers,
}

#[derive(Serialize)]
struct Beside<'a> {
    library: &'a str,
    size: u64,
    /// The kind of the advantage: `times` or `points`.
    kind: &'static str,
    /// The subject's standing: `ahead`, `level` or `behind`.
    standing: &'static str,
    advantage: Numbers,
}

#[derive(Serialize)]
struct Numbers {
    median: f64,
    low_quartile: f64,
    high_quartile: f64,
    min: f64,
    max: f64,
    samples: usize,
    rounds: usize,
}

impl From<Figure> for Numbers {
    fn from(figure: Figure) -> Numbers {
        let Figure { median, low, high, min, max, samples, rounds } = figure;
        Numbers { median, low_quartile: low, high_quartile: high, min, max, samples, rounds }
    }
}

/// Writes all runs as one JSON object.
pub(crate) fn json(out: &mut dyn Write, summaries: &[Summary]) -> anyhow::Result<()> {
    let report = Report { shape: SHAPE, runs: summaries.iter().map(run).collect() };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)?;
    Ok(())
}

fn run(summary: &Summary) -> RunFigures<'_> {
    RunFigures {
        source: &summary.source,
        run: &summary.run,
        interrupted: summary.interrupted,
        seconds: summary.seconds,
        warnings: &summary.warnings,
        places: &summary.places,
        libraries: &summary.libraries,
        tables: summary.tables.iter().map(|one| table(summary, one)).collect(),
    }
}

fn better(unit: &str) -> &'static str {
    match units::better(unit) {
        Better::Lower => "lower",
        Better::Higher => "higher",
    }
}

fn table<'a>(summary: &'a Summary, table: &'a Table) -> TableFigures<'a> {
    let carriers = table.carriers.iter().map(|(library, size, figure)| CarrierFigures {
        library: &summary.library(*library).id,
        size: *size,
        figure: (*figure).into(),
    });
    TableFigures {
        measurement: &table.measurement,
        title: words::title(&table.measurement),
        place: &table.place.id,
        unit: &table.unit,
        better: better(&table.unit),
        rows: table.rows.iter().map(|one| row(summary, table, one)).collect(),
        carriers: carriers.collect(),
    }
}

fn row<'a>(summary: &'a Summary, table: &'a Table, row: &'a Row) -> RowFigures<'a> {
    let cells = table.columns.iter().zip(&row.cells).map(|(library, cell)| CellFigures {
        library: &summary.library(*library).id,
        figure: cell.figure.map(Numbers::from),
        missing: cell.missing.map(words::missing),
        spread_is_large: cell.spread,
        notes: cell.notes.iter().map(|note| table.footnotes[*note].as_str()).collect(),
    });
    let beside = |comparison: Comparison| Beside {
        library: &summary.library(comparison.against).id,
        size: comparison.size,
        kind: if comparison.is_points { "points" } else { "times" },
        standing: standing(comparison.standing()),
        advantage: comparison.advantage.into(),
    };
    RowFigures {
        variant: &row.variant,
        size: row.size,
        cells: cells.collect(),
        best_peer: row.best_peer.map(beside),
        carrier: row.carrier.map(beside),
    }
}

fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Ahead => "ahead",
        Standing::Level => "level",
        Standing::Behind => "behind",
    }
}

const COLUMNS: &[&str] = &[
    "source",
    "measurement",
    "place",
    "variant",
    "size",
    "unit",
    "better",
    "library",
    "role",
    "median",
    "low_quartile",
    "high_quartile",
    "min",
    "max",
    "samples",
    "rounds",
    "best_peer",
    "advantage_to_best_peer",
    "carrier",
    "advantage_to_carrier",
    "missing",
    "notes",
];

/// Writes a row for each cell of each table, then one for each figure of a carrier; advantages stand only in
/// the subject's rows.
pub(crate) fn csv(out: &mut dyn Write, summaries: &[Summary]) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))?;
    for summary in summaries {
        for table in &summary.tables {
            for row in &table.rows {
                for (library, cell) in table.columns.iter().zip(&row.cells) {
                    let notes: Vec<&str> = cell.notes.iter().map(|note| table.footnotes[*note].as_str()).collect();
                    let mut fields = start(summary, table, &row.variant, row.size, *library);
                    fields.extend(numbers(cell.figure));
                    let ours = summary.subject() == Some(*library);
                    for comparison in [row.best_peer, row.carrier].map(|comparison| comparison.filter(|_| ours)) {
                        fields.extend(comparison.map_or([String::new(), String::new()], |comparison| {
                            [summary.library(comparison.against).id.clone(), comparison.advantage.median.to_string()]
                        }));
                    }
                    fields.push(cell.missing.map_or("", words::missing).to_owned());
                    fields.push(notes.join(" "));
                    write_fields(out, &fields)?;
                }
            }
            for (library, size, figure) in
                table.carriers.iter().filter(|(library, _, _)| !table.columns.contains(library))
            {
                let mut fields = start(summary, table, "", Some(*size), *library);
                fields.extend(numbers(Some(*figure)));
                fields.resize(COLUMNS.len(), String::new());
                write_fields(out, &fields)?;
            }
        }
    }
    Ok(())
}

fn start(summary: &Summary, table: &Table, variant: &str, size: Option<u64>, library: usize) -> Vec<String> {
    let role = match summary.library(library).role {
        Role::Subject => "subject",
        Role::Peer => "peer",
        Role::Carrier => "carrier",
    };
    let size = size.map(|size| size.to_string()).unwrap_or_default();
    let (id, place) = (summary.library(library).id.as_str(), table.place.id.as_str());
    let fields =
        [&summary.source, &table.measurement, place, variant, &size, &table.unit, better(&table.unit), id, role];
    fields.map(str::to_owned).to_vec()
}

fn numbers(figure: Option<Figure>) -> Vec<String> {
    let Some(figure) = figure else { return vec![String::new(); 7] };
    let Figure { median, low, high, min, max, samples, rounds } = figure;
    let values = [median, low, high, min, max].map(|value| value.to_string());
    values.into_iter().chain([samples, rounds].map(|count| count.to_string())).collect()
}

fn write_fields(out: &mut dyn Write, fields: &[String]) -> io::Result<()> {
    let quoted: Vec<String> = fields.iter().map(|field| quote(field)).collect();
    writeln!(out, "{}", quoted.join(","))
}

/// A field of CSV as RFC 4180 §2 has it: in quotes when it holds a comma, a quote or an end of line, quotes
/// doubled.
fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn fields_are_quoted_when_they_must_be() {
        assert_eq!(quote("plain text"), "plain text");
        assert_eq!(quote("a,b"), "\"a,b\"");
        assert_eq!(quote("say \"no\"\n"), "\"say \"\"no\"\"\n\"");
    }
}
