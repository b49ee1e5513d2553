//! Warnings about circumstances that may have distorted a run, shown beside its figures.

use super::read::RunFile;
use super::statistics::{Figure, median};
use super::summary::{Summary, Table};
use super::units::is_share;
use crate::record::Library;

/// The distance of the quartiles that counts as a wide spread, as a share of the median, or in percentage
/// points.
const SPREAD_SHARE: f64 = 0.25;
const SPREAD_POINTS: f64 = 10.0;
/// The number of samples below which quartiles mean nothing.
const SPREAD_SAMPLES_MIN: usize = 4;
/// The number of rounds below which a ratio may be an accident.
const ROUNDS_MIN: u32 = 3;
/// The factor by which the processors' frequency may change.
const FREQUENCY_CHANGE: f64 = 1.1;
/// The share of the time that the hypervisor may take, in percent.
const STEAL_PERCENT: f64 = 2.0;
/// The share of readings in which programs of others may be runnable.
const STRANGERS_SHARE: f64 = 0.1;
/// The load average of a quiet machine before the run.
const LOAD_AT_START: f64 = 0.5;

pub(crate) fn is_spread(figure: &Figure, unit: &str) -> bool {
    let width = figure.high - figure.low;
    let limit = if is_share(unit) { SPREAD_POINTS } else { SPREAD_SHARE * figure.median.abs() };
    figure.samples >= SPREAD_SAMPLES_MIN && width > limit
}

/// The warning below a table of one state of the lines, if a library has samples of too few rounds there.
pub(crate) fn few(table: &Table, libraries: &[Library], rounds: u32) -> Option<String> {
    let state = table.place.lines.as_ref()?.name.as_ref()?;
    let rounds_of = |column: usize| {
        let figures = table.rows.iter().filter_map(|row| row.cells[column].figure);
        figures.map(|figure| figure.rounds).min()
    };
    let least = rounds.min(ROUNDS_MIN) as usize;
    let columns = table.columns.iter().enumerate().filter_map(|(column, library)| Some((library, rounds_of(column)?)));
    let few = columns.filter(|(_, seen)| *seen < least);
    let few: Vec<String> = few.map(|(library, seen)| format!("{seen} ({})", libraries[*library].title)).collect();
    let paired = table.rows.iter().filter_map(|row| Some(row.best_peer?.advantage.rounds)).min();
    let mut parts = Vec::new();
    if !few.is_empty() {
        parts.push(format!("at some size there are samples of only {} of {rounds} rounds", few.join(", ")));
    }
    parts.extend(paired.filter(|paired| *paired < least).map(|paired| format!("some ratio is of {paired} only")));
    (!parts.is_empty()).then(|| format!("Few samples while lines were {state}: {}.", parts.join("; ")))
}

pub(crate) fn of(file: &RunFile, summary: &Summary) -> Vec<String> {
    let mut all = Vec::new();
    if file.interrupted() {
        let how = if file.end.is_some() { "was interrupted" } else { "did not come to its end" };
        all.push(format!("The run {how}; what follows is made of the samples taken until then."));
    }
    if file.cut {
        all.push("The last line of the run file was cut off and is left out.".to_owned());
    }
    if file.run.rounds < ROUNDS_MIN {
        let rounds = file.run.rounds;
        all.push(format!(
            "Only {rounds} round{} ran: the ratios may be accidents.",
            if rounds == 1 { "" } else { "s" }
        ));
    }
    let crowded = summary.places.iter().filter(|place| place.processors > 0 && place.ranks > place.processors);
    for place in crowded {
        let (id, ranks, processors) = (&place.id, place.ranks, place.processors);
        all.push(format!(
            "{id}: {ranks} ranks share {processors} processors; figures there show waiting as much as moving."
        ));
    }
    machine(file, &mut all);
    let cells = summary.tables.iter().flat_map(|table| table.rows.iter().flat_map(|row| &row.cells));
    let (spread, figures) = cells
        .filter(|cell| cell.figure.is_some())
        .fold((0, 0), |(spread, all), cell| (spread + usize::from(cell.spread), all + 1));
    if spread > 0 {
        all.push(format!(
            "{spread} of {figures} figures spread widely (quartiles more than {:.0} % of the median apart, or {SPREAD_POINTS:.0} \
             points); they are marked with ~.",
            SPREAD_SHARE * 100.0
        ));
    }
    let missing = summary.tables.iter().flat_map(|table| table.rows.iter().flat_map(|row| &row.cells));
    let missing = missing.filter(|cell| cell.figure.is_none()).count();
    if missing > 0 {
        let have = if missing == 1 { "cell has" } else { "cells have" };
        all.push(format!("{missing} {have} no figure; the footnotes say why."));
    }
    all
}

/// Adds warnings from the machine's state before and after each job.
fn machine(file: &RunFile, all: &mut Vec<String>) {
    let conditions = &file.conditions;
    let Some(first) = conditions.first() else { return };
    if first.load > LOAD_AT_START {
        all.push(format!("The machine was not idle when the run started (load {:.2}).", first.load));
    }
    let busy = conditions.iter().filter(|condition| condition.strangers > 0).count();
    if busy as f64 > STRANGERS_SHARE * conditions.len() as f64 {
        let most = conditions.iter().map(|condition| condition.strangers).max().unwrap_or(0);
        let count = conditions.len();
        all.push(format!(
            "Other programs were running at {busy} of {count} looks at the machine (up to {most} at once)."
        ));
    }
    let speeds: Vec<f64> =
        conditions.iter().filter_map(|condition| median(condition.megahertz.iter().copied())).collect();
    let (slow, fast) = speeds.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(*v), high.max(*v)));
    if slow > 0.0 && fast > slow * FREQUENCY_CHANGE {
        all.push(format!("The processors' frequency changed during the run, between {slow:.0} and {fast:.0} MHz."));
    }
    let steal = conditions.iter().map(|condition| condition.steal_percent).fold(0.0, f64::max);
    if steal > STEAL_PERCENT {
        all.push(format!("The hypervisor took up to {steal:.0} % of the processors' time away."));
    }
}
