//! Tables for a terminal, as wide as it is.

use std::io::{self, IsTerminal, Write};

use comfy_table::{Attribute, Cell as Field, Color, ContentArrangement, Table as Grid, presets};

use super::summary::{Cell, Row, Standing, Summary, Table};
use super::{units, words};

/// The width of tables where the output is a file or a pipe.
const WIDTH_OF_A_FILE: u16 = 200;
/// The most verdicts of each kind that are listed.
const VERDICTS_MAX: usize = 5;

/// The look of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) colour: bool,
    /// The number of columns; None: as many as the terminal has.
    pub(crate) width: Option<u16>,
}

impl Look {
    /// The look of standard output: colour only on a terminal, and not when `NO_COLOR` is set to a text.
    pub(crate) fn of_stdout() -> Look {
        let terminal = io::stdout().is_terminal();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Look { colour: terminal && !refused, width: (!terminal).then_some(WIDTH_OF_A_FILE) }
    }
}

/// Writes a run: warnings, a table for each measurement and place, and the rows in which the subject leads
/// and lags.
pub(crate) fn write(out: &mut dyn Write, summary: &Summary, look: Look) -> io::Result<()> {
    for warning in &summary.warnings {
        writeln!(out, "{}", painted(look, "33", &format!("warning: {warning}")))?;
    }
    for table in &summary.tables {
        write_table(out, summary, table, look)?;
    }
    write_verdicts(out, summary, look)
}

/// Writes a table with its footnotes.
pub(crate) fn write_table(out: &mut dyn Write, summary: &Summary, table: &Table, look: Look) -> io::Result<()> {
    let title = format!("{}, {}", words::title(&table.measurement), words::place(&table.place));
    writeln!(out, "\n{} ({})", painted(look, "1", &title), words::caption(table))?;
    let mut grid = Grid::new();
    grid.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = look.width {
        grid.set_width(width);
    }
    let compared = columns_compared(table);
    let mut head = vec![Field::new(words::row_heading(table))];
    head.extend(table.columns.iter().map(|library| Field::new(&summary.library(*library).title)));
    head.extend(
        compared
            .peer
            .then(|| Field::new(if units::is_share(&table.unit) { "to best peer, points" } else { "× best peer" })),
    );
    head.extend(compared.carrier.then(|| Field::new("× carrier")));
    if look.colour {
        head = head.into_iter().map(|cell| cell.add_attribute(Attribute::Bold)).collect();
    }
    grid.set_header(head);
    for row in &table.rows {
        grid.add_row(line(summary, table, row, compared, look));
    }
    // Figures are aligned to the right of their column, so that they can be compared.
    for column in grid.column_iter_mut().skip(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    if look.colour {
        grid.enforce_styling();
    }
    writeln!(out, "{grid}")?;
    for (i, footnote) in table.footnotes.iter().enumerate() {
        writeln!(out, "  [{}] {footnote}", i + 1)?;
    }
    Ok(())
}

/// The columns of ratios that a table has.
#[derive(Clone, Copy)]
pub(super) struct Compared {
    pub(super) peer: bool,
    pub(super) carrier: bool,
}

pub(super) fn columns_compared(table: &Table) -> Compared {
    Compared {
        peer: table.rows.iter().any(|row| row.best_peer.is_some()),
        carrier: table.rows.iter().any(|row| row.carrier.is_some()),
    }
}

fn line(summary: &Summary, table: &Table, row: &Row, compared: Compared, look: Look) -> Vec<Field> {
    let standing = row.best_peer.map(|comparison| comparison.standing());
    let mut line = vec![Field::new(words::row_title(row))];
    for (library, cell) in table.columns.iter().zip(&row.cells) {
        let text = Field::new(cell_text(cell, &table.unit));
        let ours = summary.subject() == Some(*library);
        line.push(match (look.colour, ours, standing) {
            (true, _, _) if cell.figure.is_none() => text.fg(Color::Yellow),
            (true, true, Some(Standing::Ahead)) => text.fg(Color::Green).add_attribute(Attribute::Bold),
            (true, true, Some(Standing::Behind)) => text.fg(Color::Red).add_attribute(Attribute::Bold),
            (true, true, _) => text.add_attribute(Attribute::Bold),
            _ => text,
        });
    }
    if compared.peer {
        line.push(Field::new(words::comparison(summary, row.best_peer, row.size)));
    }
    if compared.carrier {
        line.push(Field::new(words::comparison(summary, row.carrier, row.size)));
    }
    line
}

/// The text of a cell, `12.4 ±3% ~ [1]`: median, half the distance of the quartiles, and marks.
pub(super) fn cell_text(cell: &Cell, unit: &str) -> String {
    let mut text = match (&cell.figure, cell.missing) {
        (Some(figure), _) => words::figure(figure, unit),
        (None, missing) => missing.map_or("", words::missing).to_owned(),
    };
    if cell.spread {
        text += " ~";
    }
    for note in &cell.notes {
        text += &format!(" [{}]", note + 1);
    }
    text
}

fn write_verdicts(out: &mut dyn Write, summary: &Summary, look: Look) -> io::Result<()> {
    let verdicts = words::verdicts(summary);
    writeln!(out, "\n{}", painted(look, "1", &words::tally(summary, &verdicts)))?;
    for (standing, heading, colour) in [(Standing::Ahead, "leads most", "32"), (Standing::Behind, "behind most", "31")]
    {
        let some: Vec<_> = verdicts.iter().filter(|verdict| verdict.standing == standing).collect();
        for (i, verdict) in some.iter().take(VERDICTS_MAX).enumerate() {
            let mark = if i == 0 { heading } else { "" };
            writeln!(
                out,
                "  {} {}: {}",
                painted(look, colour, &format!("{mark:12}")),
                verdict.subject,
                verdict.figures
            )?;
        }
        if some.len() > VERDICTS_MAX {
            writeln!(out, "  {:12} and {} more", "", some.len() - VERDICTS_MAX)?;
        }
    }
    Ok(())
}

fn painted(look: Look, code: &str, text: &str) -> String {
    if look.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}
