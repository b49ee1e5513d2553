//! Titles and sentences that tables, charts and pages share.

use super::statistics::Figure;
use super::summary::{Comparison, Missing, Row, Standing, Summary, Table};
use super::units;
use crate::record::{Library, Outcome, Place, Role};

/// The version of a library: the lines of its text joined to one.
pub(crate) fn version(library: &Library) -> String {
    let lines = library.version.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

struct Measurement {
    id: &'static str,
    title: &'static str,
    what: &'static str,
    /// The unit for tables without a sample.
    unit: &'static str,
}

const fn m(id: &'static str, title: &'static str, unit: &'static str, what: &'static str) -> Measurement {
    Measurement { id, title, what, unit }
}

/// The measurements in the order in which they are shown.
const MEASUREMENTS: &[Measurement] = &[
    m("pingpong", "Ping-pong latency", "us", "half the round trip of a blocking send and receive"),
    m("bandwidth", "Bandwidth", "MB/s", "bytes a second in one direction, a window of messages outstanding"),
    m("bibandwidth", "Bandwidth in both directions", "MB/s", "the same in both directions at once, added up"),
    m("rate", "Message rate", "messages/s", "small messages a second from one rank to another"),
    m(
        "rate_threads",
        "Message rate of threads",
        "messages/s",
        "the same, from two threads of a rank to two of another, on communicators of their own",
    ),
    m("sendrecv", "Sendrecv", "MB/s", "MPI_Sendrecv around a ring; bytes in and out of a rank"),
    m("sendrecv_time", "Sendrecv time", "us", "one MPI_Sendrecv of the same samples, the slowest rank counts"),
    m("exchange", "Exchange", "MB/s", "each rank exchanges with both neighbours; bytes in and out of a rank"),
    m("halo", "Halo", "us", "MPI_Irecv, MPI_Isend and MPI_Waitall of one message each way, the slowest rank counts"),
    m(
        "exchange_threads",
        "Exchange of threads",
        "us",
        "one step of a pattern that all threads of all ranks repeat at the same time, the slowest rank counts",
    ),
    m("barrier", "Barrier", "us", "barriers back to back, the slowest rank counts"),
    m("bcast", "Broadcast", "us", "the slowest rank counts"),
    m("bcast_throughput", "Broadcasts back to back", "MB/s", "bytes a second to each receiver"),
    m("bcast_skew", "Broadcast to late receivers", "us", "receivers come late by a random time"),
    m("allreduce", "Allreduce", "us", "the slowest rank counts"),
    m("reduce", "Reduce", "us", "a sum at rank 0; the slowest rank counts"),
    m("reducescatter", "Reduce-scatter", "us", "the slowest rank counts"),
    m("allgather", "Allgather", "us", "the slowest rank counts"),
    m("alltoall", "Alltoall", "us", "the slowest rank counts"),
    m("reduce_local", "Sum in one rank", "MB/s", "MPI_Reduce_local of doubles, bytes of one vector a second"),
    m("put_latency", "One-sided put", "us", "a put and its flush"),
    m("get_latency", "One-sided get", "us", "a get and its flush"),
    m("fetch_latency", "Fetch-and-op", "us", "an MPI_Fetch_and_op of 8 bytes and its flush"),
    m(
        "get_computing",
        "One-sided get from a target that computes",
        "us",
        "a get and its flush; the target makes no MPI call for a second",
    ),
    m("put_bandwidth", "One-sided put bandwidth", "MB/s", "a window of puts, then one flush"),
    m("put_rate", "One-sided put rate", "messages/s", "puts a second, a window of them and one flush"),
    m("get_bandwidth", "One-sided get bandwidth", "MB/s", "a window of gets, then one flush"),
    m(
        "availability",
        "Application availability",
        "percent",
        "share of a transfer's time that is left to the application",
    ),
    m("overhead", "Overhead", "us", "processor time that a nonblocking transfer takes from the application"),
    m(
        "file_write",
        "Writing blocks of one file",
        "MB/s",
        "bytes a second of all ranks, each with blocks of its own and without collective calls, into the page cache",
    ),
    m("file_read", "Reading blocks of one file", "MB/s", "the same, out of the page cache"),
    m(
        "file_write_all",
        "Collective write of an array",
        "MB/s",
        "bytes a second of all ranks, each with a block of a 3-D array; the size is that of a run in the file",
    ),
    m("file_read_all", "Collective read of an array", "MB/s", "the same, out of the page cache"),
    m(
        "file_write_plain",
        "Writing blocks beside pwrite",
        "percent",
        "speed beside pwrite of the same blocks by the same processes; 100 % is as quick",
    ),
    m("file_read_plain", "Reading blocks beside pread", "percent", "the same for pread"),
    m(
        "file_write_all_plain",
        "Collective write beside pwrite",
        "percent",
        "speed beside pwrite of as many bytes in one run by each process",
    ),
    m("file_read_all_plain", "Collective read beside pread", "percent", "the same for pread"),
    m(
        "file_availability",
        "Application availability, files",
        "percent",
        "share of a nonblocking write's or read's time that is left to the application",
    ),
    m("file_open", "Opening a file", "us", "MPI_File_open and MPI_File_close, the slowest rank counts"),
    m("spawn", "Spawning a job", "us", "MPI_Comm_spawn and MPI_Comm_disconnect by one rank"),
    m("connect", "Meeting at a port", "us", "MPI_Comm_accept, MPI_Comm_connect and MPI_Comm_disconnect of two groups"),
    m("waitcpu", "Processor time of a waiting rank", "s", "processor seconds used while nothing arrives"),
    m(
        "memory",
        "Memory of a rank",
        "MiB",
        "its share of the pages it has mapped after MPI_Init; the mean of the ranks",
    ),
    m("startup", "Start-up", "ms", "MPI_Init, the slowest rank counts"),
    m("nas_is", "NAS IS", "Mop/s", "sorting of integers, verified"),
    m("nas_cg", "NAS CG", "Mop/s", "conjugate gradient, verified"),
];

fn known(measurement: &str) -> Option<(usize, &'static Measurement)> {
    MEASUREMENTS.iter().enumerate().find(|(_, known)| known.id == measurement)
}

pub(crate) fn order(measurement: &str) -> usize {
    known(measurement).map_or(MEASUREMENTS.len(), |(index, _)| index)
}

pub(crate) fn title(measurement: &str) -> String {
    known(measurement).map_or_else(|| measurement.replace('_', " "), |(_, known)| known.title.to_owned())
}

pub(crate) fn what(measurement: &str) -> &'static str {
    known(measurement).map_or("", |(_, known)| known.what)
}

pub(crate) fn unit(measurement: &str) -> &'static str {
    known(measurement).map_or("", |(_, known)| known.unit)
}

/// The quantity on an axis: `time, µs`, `bandwidth, MB/s`.
pub(crate) fn quantity(measurement: &str, unit: &str) -> String {
    let title = units::unit_title(unit);
    match (measurement, unit) {
        ("availability" | "overhead", _) => format!("{measurement}, {title}"),
        (_, "us" | "ms" | "s") => format!("time, {title}"),
        (_, "MB/s") => format!("bandwidth, {title}"),
        (_, "MiB") => format!("memory, {title}"),
        _ => title.to_owned(),
    }
}

/// The program that prints the samples of a measurement.
pub(crate) fn program(measurement: &str) -> &str {
    match measurement {
        "overhead" => "availability",
        "sendrecv_time" => "sendrecv",
        own => own.strip_suffix("_plain").unwrap_or(own),
    }
}

/// Returns whether a peer's figure stands beside Weft's. A share of plain system calls does not: these were
/// made in each library's own processes, some of which spin while others work.
pub(crate) fn is_compared(measurement: &str) -> bool {
    !measurement.ends_with("_plain")
}

/// The words for a variant: `send`, `class A`, `2 pairs`.
pub(crate) fn variant(key: &str, value: &str) -> String {
    match (key, value) {
        ("direction", "send") => "Isend".to_owned(),
        ("direction", "receive") => "Irecv".to_owned(),
        ("direction" | "operation", value) => value.to_owned(),
        ("kind", value) => value.to_owned(),
        ("pairs", value) => format!("{value} pairs"),
        ("skew_us_max", value) => format!("up to {value} µs late"),
        ("statistic", value) => format!("by {value}"),
        (key, value) => format!("{key} {value}"),
    }
}

/// The words for a place: `two hosts, 2 ranks, links of 10gbit, 1 % loss`.
pub(crate) fn place(place: &Place) -> String {
    if place.hosts == 0 {
        return place.id.clone();
    }
    let plural = |count: u32, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let mut text = format!("{}, {}", plural(place.hosts, "host"), plural(place.ranks, "rank"));
    if let Some(rate) = &place.rate {
        text += &format!(", links of {}", rate.replace("gbit", " Gb/s").replace("mbit", " Mb/s"));
    }
    if let Some(loss) = place.loss_percent.filter(|loss| *loss > 0.0) {
        text += &format!(", {loss} % of the frames lost");
    }
    if let Some(lines) = lines(place) {
        text += &format!(", {lines}");
    }
    text
}

/// The words for the lines of a place: `lines near, 36 ns`, or `lines 36 ns` where they had one state.
pub(crate) fn lines(place: &Place) -> Option<String> {
    let lines = place.lines.as_ref()?;
    let name = lines.name.as_ref().map(|name| format!("{name},")).unwrap_or_default();
    Some(
        ["lines", &name, &format!("{:.0} ns", lines.ns)]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// The caption of a table, `µs, lower is better`, with the number of samples where the table is one of
/// several states of the lines.
pub(crate) fn caption(table: &Table) -> String {
    let better = if units::better(&table.unit) == units::Better::Lower { "lower" } else { "higher" };
    let mut text = format!("{}, {better} is better", units::unit_title(&table.unit));
    if table.place.lines.as_ref().is_some_and(|lines| lines.name.is_some()) {
        let figures = table.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.figure);
        let carriers = table.carriers.iter().filter(|(library, _, _)| !table.columns.contains(library));
        let count: usize = figures.chain(carriers.map(|(_, _, figure)| *figure)).map(|figure| figure.samples).sum();
        text += &format!("; {count} samples");
    }
    text
}

/// The meaning of a table's factors, for its head; empty where nothing is compared.
pub(crate) fn factors(table: &Table) -> &'static str {
    if !table.rows.iter().any(|row| row.best_peer.is_some() || row.carrier.is_some()) {
        return "";
    }
    match (units::is_share(&table.unit), units::better(&table.unit)) {
        (true, _) => "; more than 0 points: Weft is better",
        (_, units::Better::Lower) => "; above 1×: Weft takes less, at 2× half of the other's, at 0.5× twice as much",
        (_, units::Better::Higher) => "; above 1×: Weft has more, at 2× twice the other's, at 0.5× half",
    }
}

pub(crate) fn missing(missing: Missing) -> &'static str {
    match missing {
        Missing::Failed => "failed",
        Missing::TimedOut => "timed out",
        Missing::Unsupported => "unsupported",
        Missing::Interrupted => "interrupted",
        Missing::Invalid => "not valid",
        Missing::NotRun => "not run",
        Missing::NoSample => "no sample",
    }
}

/// The sentence about a failure. Rounds are counted from 1 for people.
pub(crate) fn trouble(library: &str, outcome: Outcome, why: &str, rounds: &[u32], all: usize) -> String {
    let what = match outcome {
        Outcome::Failed => "failed",
        Outcome::TimedOut => "timed out",
        Outcome::Unsupported => "does not support this",
        Outcome::Interrupted => "was interrupted",
        Outcome::Succeeded => "succeeded",
    };
    let list: Vec<String> = rounds.iter().map(|round| (round + 1).to_string()).collect();
    let when = match list.as_slice() {
        _ if list.len() == all => String::new(),
        [one] => format!(" in round {one} of {all}"),
        many => format!(" in rounds {} of {all}", many.join(", ")),
    };
    let why = why.trim().trim_end_matches('.');
    if why.is_empty() { format!("{library} {what}{when}.") } else { format!("{library} {what}{when}: {why}.") }
}

pub(crate) fn invalid(library: &str, why: &str, count: usize, all: usize) -> String {
    let why = why.trim().trim_end_matches('.');
    format!("{library}: {count} of {all} samples did not validate and are not counted: {why}.")
}

/// The words for an advantage: `2.31×` or `+83.0`.
pub(crate) fn advantage(comparison: &Comparison) -> String {
    let median = comparison.advantage.median;
    if comparison.is_points { units::points(median) } else { units::times(median) }
}

/// The words for a comparison, `2.31× mpich`; with the carrier's size where it is not the row's:
/// `0.84× udp (64)`.
pub(crate) fn comparison(summary: &Summary, comparison: Option<Comparison>, size: Option<u64>) -> String {
    let Some(comparison) = comparison else { return "–".to_owned() };
    let id = &summary.library(comparison.against).id;
    let name = id.strip_prefix("carrier-").unwrap_or(id);
    let other = size.is_some_and(|size| size != comparison.size);
    let other = if other { format!(" ({})", units::size(comparison.size)) } else { String::new() };
    format!("{} {name}{other}", advantage(&comparison))
}

/// The words for a figure, `12.4 ±3%`: the median, and half the distance of the quartiles as a share of it;
/// in points for percentages.
pub(crate) fn figure(figure: &Figure, unit: &str) -> String {
    let half = (figure.high - figure.low) / 2.0;
    let value = units::value(figure.median, unit);
    if units::is_share(unit) {
        return format!("{value} ±{half:.1}");
    }
    match half / figure.median.abs() * 100.0 {
        _ if figure.samples < 2 => value,
        share if !share.is_finite() => value,
        share if share > 100.0 => format!("{value} ±>100%"),
        share if share < 1.0 => format!("{value} ±{share:.1}%"),
        share => format!("{value} ±{share:.0}%"),
    }
}

/// The heading of a table's first column.
pub(crate) fn row_heading(table: &Table) -> &'static str {
    if table.rows.iter().any(|row| row.size.is_some_and(|size| size > 0)) { "size" } else { "" }
}

/// The title of a row: `64 KB`, `Isend, 64 KB`, `class A`; never empty, even when there is nothing to tell
/// apart.
pub(crate) fn row_title(row: &Row) -> String {
    let size = row.size.filter(|size| *size > 0).map(units::size);
    match (row.variant.as_str(), size) {
        ("", None) => "all".to_owned(),
        ("", Some(size)) => size,
        (variant, None) => variant.to_owned(),
        (variant, Some(size)) => format!("{variant}, {size}"),
    }
}

/// A row in which the subject leads or lags.
pub(crate) struct Verdict {
    pub(crate) standing: Standing,
    /// The distance between the figures. Ratios count as the larger over the smaller; points are scaled so
    /// that 100 of them weigh as much as a factor of 10.
    pub(crate) distance: f64,
    /// The row: `Ping-pong latency, 8 B, 1 host, 2 ranks`.
    pub(crate) subject: String,
    /// The figures: `2.31× of Open MPI 5.0.11: 0.26 µs beside 0.60 µs`.
    pub(crate) figures: String,
}

/// The verdicts of all rows with a peer, the largest distance first.
pub(crate) fn verdicts(summary: &Summary) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for table in &summary.tables {
        for row in &table.rows {
            let (Some(comparison), Some(subject)) = (row.best_peer, summary.subject()) else { continue };
            let figure = |library: usize| {
                let column = table.columns.iter().position(|column| *column == library)?;
                row.cells.get(column)?.figure
            };
            let (Some(ours), Some(theirs)) = (figure(subject), figure(comparison.against)) else { continue };
            let mut place_of = vec![title(&table.measurement)];
            place_of.extend(Some(row.variant.clone()).filter(|variant| !variant.is_empty()));
            place_of.extend(row.size.filter(|size| *size > 0).map(units::size_in_words));
            place_of.push(place(&table.place));
            let median = comparison.advantage.median;
            let distance = if comparison.is_points { median.abs() / 43.4 } else { median.abs().max(1e-9).ln().abs() };
            verdicts.push(Verdict {
                standing: comparison.standing(),
                distance,
                subject: place_of.join(", "),
                figures: format!(
                    "{} ({} beside {} of {})",
                    if comparison.is_points { advantage(&comparison) + " points" } else { advantage(&comparison) },
                    units::with_unit(ours.median, &table.unit),
                    units::with_unit(theirs.median, &table.unit),
                    summary.library(comparison.against).title
                ),
            });
        }
    }
    verdicts.sort_by(|a, b| b.distance.total_cmp(&a.distance));
    verdicts
}

/// The tally of a run: `Weft 0.1.0 leads the best peer in 31 of 52 rows, is level in 9 and behind in 12.`
pub(crate) fn tally(summary: &Summary, verdicts: &[Verdict]) -> String {
    let Some(subject) = summary.subject() else {
        return "Nothing is compared: no library of this run is its subject.".to_owned();
    };
    if verdicts.is_empty() {
        return format!("{} was measured alone: no peer has a figure beside it.", summary.library(subject).title);
    }
    let count = |standing| verdicts.iter().filter(|verdict| verdict.standing == standing).count();
    format!(
        "{} leads the best peer in {} of {} rows, is level in {} and behind in {}.",
        summary.library(subject).title,
        count(Standing::Ahead),
        verdicts.len(),
        count(Standing::Level),
        count(Standing::Behind)
    )
}

/// The words for a library that has neither a version nor a place: carriers are programs without one.
pub(crate) fn of_role(role: Role) -> &'static str {
    match role {
        Role::Carrier => "the link alone, by system calls, without MPI",
        Role::Subject | Role::Peer => "of unknown version",
    }
}

/// The paragraphs of a page that explain how the figures were made.
pub(crate) const METHOD: &[&str] = &[
    "Each measurement is one small C program over the MPI interface, the same source for every library. It prints one line per \
     sample, warm-up apart, and checks the contents it received outside the timed part; samples that do not validate are not \
     counted and are named.",
    "The libraries take turns round by round, so that drift of the machine hits all alike. A figure is the median of all valid \
     samples; behind it stands half the distance between its quartiles. In charts thin lines join the quartiles; they end at the \
     edge where they would flatten the rest. A comparison is made in each round by itself, and the median of the rounds is shown: \
     above 1× Weft is better, whichever way the unit runs. Percentages are compared by their difference, in points. A lead or a lag \
     counts when the median is more than 5 % (2 points) away, three quarters of the rounds agree, and the medians over all rounds \
     agree too; all else is level.",
    "On one node a program says, before and after each sample, what a cache line costs between the processors of two ranks. Where a \
     virtual machine changed between states, each has tables of its own, named by what a line takes one way; samples in which it \
     changed are left out.",
    "Carriers are the floor under the figures: the same machine, in the same run, without MPI. A carrier of the same size is taken; \
     for a time else the nearest, for a stream else the fastest whose frames are not far larger than the message.",
    "Overhead and availability follow Doerfler and Brightwell, “Measuring MPI Send and Receive Overhead and Application \
     Availability in High Performance Network Interfaces” (EuroPVM/MPI 2006): a nonblocking operation is posted, work is done, the \
     operation is waited for; the work grows until it matters. Overhead is the iteration's time minus the work's; availability is \
     1 − overhead / transfer time. Below 0 the transfer and the work together take longer than one after the other.",
];
