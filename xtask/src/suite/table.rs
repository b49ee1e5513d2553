//! The table of a suite whose cases are cells: what came of each, and below it the reasons of those that
//! could not be.

use std::fmt;

use super::Outcome;

/// The outcomes of cells, in the order in which they were run.
#[derive(Default)]
pub(super) struct Table {
    rows: Vec<(String, Vec<(String, String)>)>,
    columns: Vec<String>,
    /// The reasons why cells were left out; a cell shows the number of its reason.
    reasons: Vec<String>,
}

impl Table {
    pub(super) fn note(&mut self, row: &str, column: &str, outcome: &Outcome) {
        let text = match outcome {
            Outcome::Passed => "ok".to_owned(),
            Outcome::Failed(_) => "FAILED".to_owned(),
            Outcome::Skipped(why) => format!("({})", self.number(why)),
        };
        if !self.columns.iter().any(|known| known == column) {
            self.columns.push(column.to_owned());
        }
        let cell = (column.to_owned(), text);
        match self.rows.iter_mut().find(|(name, _)| name == row) {
            Some((_, cells)) => cells.push(cell),
            None => self.rows.push((row.to_owned(), vec![cell])),
        }
    }

    fn number(&mut self, why: &str) -> usize {
        if !self.reasons.iter().any(|known| known == why) {
            self.reasons.push(why.to_owned());
        }
        self.reasons.iter().position(|known| known == why).map_or(0, |place| place + 1)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let widest = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        writeln!(f)?;
        write!(f, "  {:widest$}", "")?;
        self.columns.iter().try_for_each(|column| write!(f, " | {column}"))?;
        writeln!(f)?;
        for (name, cells) in &self.rows {
            write!(f, "  {name:widest$}")?;
            for column in &self.columns {
                let text = cells.iter().find(|(of, _)| of == column).map_or("not run", |(_, text)| text);
                write!(f, " | {text:width$}", width = column.chars().count())?;
            }
            writeln!(f)?;
        }
        (1..).zip(&self.reasons).try_for_each(|(number, why)| writeln!(f, "  ({number}) {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_tells_what_came_of_it() {
        let mut table = Table::default();
        assert_eq!(table.to_string(), "");
        table.note("one", "first", &Outcome::Passed);
        table.note("one", "second", &Outcome::Failed("why".into()));
        table.note("other", "first", &Outcome::Skipped("it is not here".into()));
        table.note("third", "first", &Outcome::Skipped("it is not here".into()));
        assert_eq!(
            table.to_string(),
            "\n        | first | second\n  one   | ok    | FAILED\n  other | (1)   | not run\n  third | (1)   | not run\n  (1) it is not here\n"
        );
    }
}
