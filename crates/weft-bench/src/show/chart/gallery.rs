//! Chooses the charts of a run.

use super::super::summary::{Row, Summary, Sweep, Table};
use super::super::{units, words};
use super::axis::{Axis, Scale};
use super::bars::{Bar, Bars};
use super::canvas::{CARRIER_COLOURS, Canvas, PEER_COLOURS};
use super::conceptual;
use super::plot::{Plot, Point, Series};
use super::png;
use crate::record::Role;
use std::collections::BTreeSet;

/// The availability below which a point is drawn at the edge: deep lows would flatten the rest.
const SHARE_FLOOR: f64 = -100.0;
/// The size of the sweeps that are shown; the nearest measured size is taken.
const SWEEP_SIZE: u64 = 256 << 10;

/// The number of sizes above which an axis names round sizes instead.
const SIZE_TICKS_MAX: usize = 24;

/// A picture, with the measurement and the place to which it belongs.
pub(crate) struct Chart {
    /// The chart's name, fit for a file: `pingpong-1-host-2-ranks`.
    pub(crate) id: String,
    pub(crate) title: String,
    /// The measurement and the place to which the chart belongs.
    pub(crate) measurement: String,
    pub(crate) place: String,
    canvas: Canvas,
}

impl Chart {
    /// The chart as an SVG file of its own.
    pub(crate) fn svg(&self) -> String {
        self.canvas.file(&self.title)
    }

    /// The chart as an SVG element for a page that has `Style`'s rules.
    pub(crate) fn inline(&self) -> String {
        self.canvas.inline(&self.title)
    }

    pub(crate) fn png(&self) -> anyhow::Result<Vec<u8>> {
        png::write(&self.canvas)
    }

    /// The texts and their boxes (left, top, right, bottom), and the box of the whole.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> (Vec<(String, [f64; 4])>, [f64; 4]) {
        let texts = self.canvas.texts().map(|text| (text.text.clone(), text.bounds())).collect();
        (texts, [0.0, 0.0, self.canvas.width, self.canvas.height])
    }
}

/// All charts of a run, in the order of its tables.
pub(crate) fn all(summary: &Summary) -> Vec<Chart> {
    let mut charts = Vec::new();
    for table in &summary.tables {
        let mut variants: Vec<&str> = table.rows.iter().map(|row| row.variant.as_str()).collect();
        variants.dedup();
        for variant in variants {
            let rows: Vec<&Row> = table.rows.iter().filter(|row| row.variant == variant).collect();
            let sizes = rows.iter().filter(|row| row.size.is_some_and(|size| size > 0)).count();
            let canvas = if sizes > 1 {
                by_size(summary, table, variant, &rows)
            } else {
                by_bar(summary, table, variant, &rows)
            };
            charts.extend(canvas.map(|canvas| chart(table, variant, "", canvas)));
        }
        if table.measurement == "availability" {
            charts.extend(sweep_charts(summary, table));
        }
    }
    let mut known = std::collections::BTreeSet::new();
    for chart in &mut charts {
        let plain = chart.id.clone();
        let mut number = 2;
        while !known.insert(chart.id.clone()) {
            chart.id = format!("{plain}-{number}");
            number += 1;
        }
    }
    charts
}

/// The prefix of a run's chart names, so that the names of several runs differ.
pub(crate) fn prefix(index: usize, runs: usize) -> String {
    if runs > 1 { format!("run-{}-", index + 1) } else { String::new() }
}

fn chart(table: &Table, variant: &str, kind: &str, canvas: Canvas) -> Chart {
    let parts = [table.measurement.as_str(), variant, kind, table.place.id.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let safe = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    Chart {
        id: parts.join("-").chars().map(safe).collect(),
        title: [heading(table, variant), kind.to_owned(), words::place(&table.place)]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", "),
        measurement: table.measurement.clone(),
        place: table.place.id.clone(),
        canvas,
    }
}

fn heading(table: &Table, variant: &str) -> String {
    let title = words::title(&table.measurement);
    if variant.is_empty() { title } else { format!("{title}, {variant}") }
}

/// The index of a library in the palette: the same in every chart of a run, and for the known libraries in
/// every run.
pub(super) fn colour(summary: &Summary, library: usize) -> usize {
    const KNOWN: [(&str, usize); 3] = [("mpich", 1), ("openmpi", 2), ("impi", 3)];
    let role = summary.library(library).role;
    let known = |index: usize| KNOWN.iter().find(|(id, _)| *id == summary.library(index).id).map(|(_, colour)| *colour);
    let rank = |role: Role| {
        let before = 0..library;
        before.filter(|i| summary.library(*i).role == role && known(*i).is_none()).count()
    };
    match role {
        Role::Subject => 0,
        Role::Carrier => CARRIER_COLOURS.start + rank(Role::Carrier) % CARRIER_COLOURS.len(),
        Role::Peer => known(library).unwrap_or_else(|| {
            let taken = |colour: usize| (0..summary.libraries.len()).any(|i| known(i) == Some(colour));
            let free: Vec<usize> = PEER_COLOURS.filter(|colour| !taken(*colour)).collect();
            free[rank(Role::Peer) % free.len()]
        }),
    }
}

fn series(summary: &Summary, library: usize, points: Vec<Point>) -> Series {
    let (title, role) = (summary.library(library).title.clone(), summary.library(library).role);
    let (dashed, strong) = (role == Role::Carrier, role == Role::Subject);
    Series { title, colour: colour(summary, library), dashed, strong, points }
}

/// The sizes at which a carrier is shown: those for which libraries have figures. If there are none, all
/// sizes within the libraries' range, since a carrier's frames are no messages.
fn floor_sizes(own: &BTreeSet<u64>, measured: &BTreeSet<u64>) -> BTreeSet<u64> {
    let common: BTreeSet<u64> = own.intersection(measured).copied().collect();
    match (measured.first(), measured.last()) {
        _ if !common.is_empty() => common,
        (Some(least), Some(most)) => own.range(least..=most).copied().collect(),
        _ => own.clone(),
    }
}

fn by_size(summary: &Summary, table: &Table, variant: &str, rows: &[&Row]) -> Option<Canvas> {
    let mut all = Vec::new();
    for (column, library) in table.columns.iter().enumerate() {
        let point = |row: &&Row| {
            let (size, figure) = row.size.filter(|size| *size > 0).zip(row.cells[column].figure)?;
            Some(Point { x: size as f64, y: figure.median, low: figure.low, high: figure.high })
        };
        all.push(series(summary, *library, rows.iter().filter_map(point).collect()));
    }
    let is_carried = |index: &usize| !table.columns.contains(index);
    let measured: BTreeSet<u64> =
        all.iter().flat_map(|series: &Series| &series.points).map(|point| point.x as u64).collect();
    for index in (0..summary.libraries.len()).filter(is_carried) {
        let own = table.carriers.iter().filter(|(library, size, _)| *library == index && *size > 0);
        let sizes = floor_sizes(&own.map(|(_, size, _)| *size).collect(), &measured);
        let mine = table.carriers.iter().filter(|(library, size, _)| *library == index && sizes.contains(size));
        let point = |(_, size, figure): &(usize, u64, super::super::statistics::Figure)| Point {
            x: *size as f64,
            y: figure.median,
            low: figure.low,
            high: figure.high,
        };
        all.push(series(summary, index, mine.map(point).collect()));
    }
    let absent: Vec<String> = table
        .columns
        .iter()
        .zip(&all)
        .filter(|(_, series)| series.points.is_empty())
        .map(|(i, _)| summary.library(*i).title.clone())
        .collect();
    all.retain(|series| !series.points.is_empty());
    if all.is_empty() {
        return None;
    }
    let share = units::is_share(&table.unit);
    let scale = match units::better(&table.unit) {
        units::Better::Lower if all.iter().all(|series| series.points.iter().all(|point| point.y > 0.0)) => Scale::Log,
        _ => Scale::Linear,
    };
    let mut notes = Vec::new();
    let values = range(all.iter().flat_map(|series| &series.points), share);
    if share && all.iter().flat_map(|series| &series.points).any(|point| point.y < SHARE_FLOOR) {
        notes.push(format!("Hollow markers at the lower edge: below {} %.", units::digits(SHARE_FLOOR)));
    }
    if !absent.is_empty() {
        notes.push(format!("Without a figure here (the table says why): {}.", absent.join(", ")));
    }
    let better =
        if units::better(&table.unit) == units::Better::Lower { "lower is better" } else { "higher is better" };
    let sizes = all.iter().flat_map(|series| series.points.iter().map(|point| point.x));
    let measured: Vec<u64> = rows.iter().filter_map(|row| row.size).filter(|size| *size > 0).collect();
    let mut x = Axis::new(Scale::Sizes, sizes);
    x.ticks = size_ticks(&measured).into_iter().map(|size| (size as f64, units::size(size))).collect();
    let plot = Plot {
        title: heading(table, variant),
        subtitle: format!("{}; {better}", words::place(&table.place)),
        x_title: "message size, bytes".to_owned(),
        y_title: words::quantity(&table.measurement, &table.unit),
        x,
        y: Axis::new(scale, values),
        series: all,
        notes,
    };
    Some(plot.draw())
}

/// The ticks of the measured sizes; if there are too many to read, the powers of four between.
fn size_ticks(measured: &[u64]) -> Vec<u64> {
    if measured.len() <= SIZE_TICKS_MAX {
        return measured.to_vec();
    }
    let range = measured.iter().min().copied().unwrap_or(1)..=measured.iter().max().copied().unwrap_or(1);
    (0..u64::BITS / 2).map(|power| 1 << (2 * power)).filter(|size| range.contains(size)).collect()
}

/// The values for which the axis has room: every median, and quartiles as long as they do not flatten the
/// rest; longer quartiles end at the edge.
fn range<'a>(points: impl Iterator<Item = &'a Point>, share: bool) -> impl Iterator<Item = f64> {
    let points: Vec<Point> = points.copied().collect();
    let medians = points.iter().map(|point| point.y);
    let (low, high) = medians.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
    let (least, most) = if share { (SHARE_FLOOR.max(low - 20.0), 100.0) } else { (low / 2.0, high * 1.2) };
    let values = points.into_iter().flat_map(|point| [point.low, point.y, point.high]);
    values.map(move |value| value.clamp(least.min(most), most)).chain(share.then_some(100.0))
}

fn by_bar(summary: &Summary, table: &Table, variant: &str, rows: &[&Row]) -> Option<Canvas> {
    let row = rows.first()?;
    let mut bars = Vec::new();
    for (library, cell) in table.columns.iter().zip(&row.cells) {
        let value = cell.figure.map(|figure| (figure.median, figure.low, figure.high));
        let label = match (cell.figure, cell.missing) {
            (Some(figure), _) => units::with_unit(figure.median, &table.unit),
            (None, missing) => missing.map_or("", words::missing).to_owned(),
        };
        let library = *library;
        let strong = summary.library(library).role == Role::Subject;
        let title = summary.library(library).title.clone();
        bars.push(Bar { title, colour: colour(summary, library), strong, value, label });
    }
    if bars.iter().all(|bar| bar.value.is_none()) {
        return None;
    }
    let better =
        if units::better(&table.unit) == units::Better::Lower { "lower is better" } else { "higher is better" };
    let size =
        row.size.filter(|size| *size > 0).map(|size| format!("{}, ", units::size_in_words(size))).unwrap_or_default();
    let subtitle = format!("{size}{}; {better}", words::place(&table.place));
    Some(Bars { title: heading(table, variant), subtitle, bars }.draw())
}

/// The conceptual figure from the subject's own points, and all libraries' sweeps over each other, for each
/// direction.
fn sweep_charts(summary: &Summary, table: &Table) -> Vec<Chart> {
    let mut charts = Vec::new();
    for direction in ["send", "receive", "bcast", "bcast-to", "allreduce", "allgather", "alltoall"] {
        let here = |sweep: &&Sweep| sweep.place.id == table.place.id && sweep.direction == direction;
        let all: Vec<&Sweep> = summary.sweeps.iter().filter(here).collect();
        let distance = |size: u64| (size.max(1) as f64 / SWEEP_SIZE as f64).ln().abs();
        let sizes = all.iter().map(|sweep| sweep.size);
        let Some(size) = sizes.min_by(|a, b| distance(*a).total_cmp(&distance(*b))) else { continue };
        let typical = |library: usize| {
            let mut mine: Vec<&Sweep> =
                all.iter().copied().filter(|sweep| sweep.library == library && sweep.size == size).collect();
            mine.sort_by(|a, b| (a.overhead_us / a.transfer_us).total_cmp(&(b.overhead_us / b.transfer_us)));
            mine.get(mine.len() / 2).copied()
        };
        let variant = words::variant("direction", direction);
        let shown: Vec<(usize, &Sweep)> =
            (0..summary.libraries.len()).filter_map(|library| Some((library, typical(library)?))).collect();
        let subtitle = format!("{}, {}", units::size_in_words(size), words::place(&table.place));
        if let Some((library, sweep)) = shown.first() {
            let title = format!("The method, by a sweep of {}, {variant}", summary.library(*library).title);
            let canvas = conceptual::draw(sweep, &title, &subtitle, colour(summary, *library));
            charts.push(chart(table, &variant, "method", canvas));
        }
        if shown.len() > 1 {
            let series = shown
                .iter()
                .map(|(library, sweep)| (*sweep, series(summary, *library, Vec::new())))
                .collect::<Vec<_>>();
            let canvas = conceptual::sweeps(&series, format!("Sweeps of the work, {variant}"), subtitle);
            charts.push(chart(table, &variant, "sweeps", canvas));
        }
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A floor without a figure above it would say nothing.
    #[test]
    fn a_floor_has_points_at_the_sizes_of_libraries() {
        let sizes = |own: &[u64], measured: &[u64]| -> Vec<u64> {
            let set = |list: &[u64]| list.iter().copied().collect::<BTreeSet<u64>>();
            floor_sizes(&set(own), &set(measured)).into_iter().collect()
        };
        assert_eq!(sizes(&[8, 64, 4096, 65536], &[8, 1024, 4096]), [8, 4096]);
        assert_eq!(sizes(&[1, 64, 1448, 65536], &[8, 1024, 4096]), [64, 1448]);
        assert_eq!(sizes(&[65536], &[8, 4096]), [0_u64; 0]);
        assert_eq!(sizes(&[8, 64], &[]), [8, 64]);
    }
}
