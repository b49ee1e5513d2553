//! Turns samples into figures: one for each measurement, place, library and size, with their comparison.

use std::collections::BTreeMap;

use serde_json::Value;

use super::read::RunFile;
use super::statistics::{Figure, Observation, figure, paired};
use super::summary::{CARRIER_PREFIX, Cell, Comparison, Missing, Row, Summary, Sweep, Table};
use super::units::{Better, better, is_share};
use super::{lines, warnings, words};
use crate::record::{Job, Library, Outcome, Place, Role, Sample};

/// Fields of a sample that tell figures of one program and size apart, with the values that stand for absent
/// ones.
const KEYS: &[(&str, &str)] = &[
    ("direction", ""),
    ("kind", ""),
    ("operation", ""),
    ("class", ""),
    ("pairs", "1"),
    ("skew_us_max", ""),
    ("statistic", "median"),
];

/// The factor by which a carrier's size may be larger or smaller than the message size for which the carrier
/// stands.
const CARRIER_SIZES_APART_MAX: u64 = 8;

/// The samples collected for one row, by library.
type Collected = BTreeMap<String, Vec<Observed>>;

#[derive(Clone)]
struct Observed {
    round: u32,
    value: Result<f64, String>,
}

#[derive(Default)]
struct Gathered {
    unit: String,
    rows: BTreeMap<(String, u64), Collected>,
}

/// Makes figures from samples, with no other knowledge than the file.
pub(crate) fn summarize(file: RunFile) -> Summary {
    let (file, told) = lines::separate(file);
    let mut libraries = file.libraries.clone();
    for id in file.jobs.iter().map(|job| &job.library).chain(file.samples.iter().map(|sample| &sample.library)) {
        if !libraries.iter().any(|library| library.id == *id) {
            libraries.push(unknown_library(id));
        }
    }
    libraries.sort_by_key(|library| role_order(library.role));
    let places = known_places(&file);
    let gathered = gather(&file.samples);
    let mut tables = Vec::new();
    for measurement in measurements(&file, &gathered) {
        for place in &places {
            let jobs: Vec<&Job> = file
                .jobs
                .iter()
                .filter(|job| job.place == place.id && words::program(&measurement) == job.measurement)
                .collect();
            let found = gathered.get(&(measurement.clone(), place.id.clone()));
            if found.is_some() || (!jobs.is_empty() && words::program(&measurement) == measurement) {
                let mut table = table(&measurement, place, &libraries, &jobs, found);
                table.footnotes.extend(warnings::few(&table, &libraries, file.run.rounds));
                tables.push(table);
            }
        }
    }
    let mut summary = Summary {
        sweeps: sweeps(&file.samples, &places, &libraries),
        commands: commands(&file.jobs),
        interrupted: file.interrupted(),
        seconds: file.end.as_ref().map(|end| end.at),
        warnings: Vec::new(),
        source: file.source.clone(),
        run: file.run.clone(),
        places,
        libraries,
        tables,
    };
    summary.warnings = warnings::of(&file, &summary);
    summary.warnings.extend(told);
    summary
}

fn role_order(role: Role) -> u8 {
    match role {
        Role::Subject => 0,
        Role::Peer => 1,
        Role::Carrier => 2,
    }
}

/// A library that samples name and the file does not describe: its record was cut out.
fn unknown_library(id: &str) -> Library {
    let role = if id.starts_with(CARRIER_PREFIX) { Role::Carrier } else { Role::Peer };
    let (id, title) = (id.to_owned(), id.to_owned());
    Library { id, role, title, version: String::new(), prefix: None, environment: BTreeMap::new(), within_host: None }
}

fn known_places(file: &RunFile) -> Vec<Place> {
    let mut places = file.places.clone();
    for id in file.jobs.iter().map(|job| &job.place).chain(file.samples.iter().map(|sample| &sample.place)) {
        if !places.iter().any(|place| place.id == *id) {
            let id = id.clone();
            places.push(Place {
                id,
                hosts: 0,
                ranks: 0,
                rate: None,
                loss_percent: None,
                processors: 0,
                note: None,
                lines: None,
            });
        }
    }
    places
}

/// The measurements of the file: in the order of `words`, then as they come.
fn measurements(file: &RunFile, gathered: &BTreeMap<(String, String), Gathered>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let jobs = file.jobs.iter().map(|job| job.measurement.clone());
    for measurement in jobs.chain(gathered.keys().map(|(measurement, _)| measurement.clone())) {
        if !all.contains(&measurement) {
            all.push(measurement);
        }
    }
    all.sort_by_key(|measurement| words::order(measurement));
    all
}

fn gather(samples: &[Sample]) -> BTreeMap<(String, String), Gathered> {
    let mut gathered: BTreeMap<(String, String), Gathered> = BTreeMap::new();
    for sample in samples {
        let text = |name: &str| sample.line.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| sample.line.get(name).and_then(Value::as_f64);
        let measurement = text("measurement");
        if measurement == "availability_sample" {
            continue;
        }
        let valid = sample.line.get("valid").and_then(Value::as_bool).unwrap_or(false);
        let why = if text("why").is_empty() { "the sample is not valid and does not say why" } else { text("why") };
        let size = sample.line.get("size").and_then(Value::as_u64).unwrap_or(0);
        let row = (variant(sample), size);
        let mut add = |measurement: &str, unit: &str, value: Option<f64>| {
            let value = value.filter(|value| valid && value.is_finite()).ok_or_else(|| why.to_owned());
            let table = gathered.entry((measurement.to_owned(), sample.place.clone())).or_default();
            table.unit = unit.to_owned();
            let library = table.rows.entry(row.clone()).or_default().entry(sample.library.clone()).or_default();
            library.push(Observed { round: sample.round, value });
        };
        add(measurement, text("unit"), number("value"));
        match measurement {
            "availability" => add("overhead", "us", number("overhead_us")),
            "sendrecv" => add("sendrecv_time", "us", number("time_us")),
            "file_write" | "file_read" | "file_write_all" | "file_read_all" => {
                add(&format!("{measurement}_plain"), "percent", number("percent_of_plain"));
            }
            _ => {}
        }
    }
    gathered.values_mut().for_each(spread_refusals);
    gathered
}

/// Gives the reason of a program that cannot measure at all to all sizes: such a program prints one line
/// without a size.
fn spread_refusals(table: &mut Gathered) {
    let refusals = |((_, size), row): (&(String, u64), &Collected)| {
        *size == 0 && row.values().flatten().all(|observed| observed.value.is_err())
    };
    if !table.rows.keys().any(|(_, size)| *size > 0) {
        return;
    }
    let keys: Vec<(String, u64)> = table.rows.iter().filter(|row| refusals(*row)).map(|(key, _)| key.clone()).collect();
    for key in keys {
        for (library, observed) in table.rows.remove(&key).unwrap_or_default() {
            let of_mpi = |row: &&mut Collected| row.keys().any(|id| !id.starts_with(CARRIER_PREFIX));
            for row in table.rows.values_mut().filter(of_mpi).filter(|row| !row.contains_key(&library)) {
                row.insert(library.clone(), observed.clone());
            }
        }
    }
}

fn variant(sample: &Sample) -> String {
    let value = |name: &str| match sample.line.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let told = KEYS.iter().filter_map(|(name, usual)| Some((name, usual, value(name)?)));
    let told = told.filter(|(_, usual, value)| value != *usual).map(|(name, _, value)| words::variant(name, &value));
    told.collect::<Vec<_>>().join(", ")
}

fn table(measurement: &str, place: &Place, libraries: &[Library], jobs: &[&Job], found: Option<&Gathered>) -> Table {
    let empty = Gathered::default();
    let found = found.unwrap_or(&empty);
    let is_carrier = |id: &str| libraries.iter().any(|library| library.id == id && library.role == Role::Carrier);
    let ran = |library: &Library| {
        jobs.iter().any(|job| job.library == library.id) || found.rows.values().any(|row| row.contains_key(&library.id))
    };
    let is_there = |library: &Library| library.within_host.is_none_or(|within| within == (place.hosts == 1));
    let mpi = |library: &Library| library.role != Role::Carrier && is_there(library);
    let anyone = libraries.iter().any(|library| mpi(library) && ran(library));
    // Where only carriers were measured, they are the columns.
    let columns: Vec<usize> =
        (0..libraries.len()).filter(|i| if anyone { mpi(&libraries[*i]) } else { ran(&libraries[*i]) }).collect();
    let mut table = Table {
        measurement: measurement.to_owned(),
        place: place.clone(),
        unit: if found.unit.is_empty() { words::unit(measurement).to_owned() } else { found.unit.clone() },
        columns,
        rows: Vec::new(),
        carriers: carriers(found, libraries),
        footnotes: Vec::new(),
    };
    let nothing = (String::new(), 0);
    let nobody = Collected::new();
    let mut rows: Vec<(&(String, u64), &Collected)> =
        found.rows.iter().filter(|(_, row)| !anyone || row.keys().any(|id| !is_carrier(id))).collect();
    let known = !rows.is_empty();
    if !known {
        rows.push((&nothing, &nobody));
    }
    for (key, collected) in rows {
        let size = known.then_some(key.1);
        let row = fill(&mut table, libraries, jobs, (key.0.clone(), size), collected, found);
        table.rows.push(row);
    }
    table
}

fn carriers(found: &Gathered, libraries: &[Library]) -> Vec<(usize, u64, Figure)> {
    let mut carriers = Vec::new();
    for (index, library) in libraries.iter().enumerate().filter(|(_, library)| library.role == Role::Carrier) {
        for ((_, size), row) in &found.rows {
            if let Some(figure) = row.get(&library.id).and_then(|all| figure(&valid(all))) {
                carriers.push((index, *size, figure));
            }
        }
    }
    carriers
}

fn valid(observed: &[Observed]) -> Vec<Observation> {
    observed.iter().filter_map(|one| Some((one.round, *one.value.as_ref().ok()?))).collect()
}

fn fill(
    table: &mut Table,
    libraries: &[Library],
    jobs: &[&Job],
    (variant, size): (String, Option<u64>),
    collected: &Collected,
    found: &Gathered,
) -> Row {
    let mut cells = Vec::new();
    for index in table.columns.clone() {
        let library = &libraries[index];
        let own: Vec<&Job> = jobs.iter().filter(|job| job.library == library.id).copied().collect();
        let observed = collected.get(&library.id).map_or(&[][..], Vec::as_slice);
        cells.push(cell(table, library, &own, observed));
    }
    let subject = table.columns.iter().copied().find(|index| libraries[*index].role == Role::Subject);
    let ours = subject.and_then(|index| collected.get(&libraries[index].id)).map(|all| valid(all));
    let (mut best, mut floor) = (None, None);
    if let Some(ours) = ours.filter(|ours| !ours.is_empty()) {
        let size = size.unwrap_or(0);
        let peers = libraries.iter().enumerate().filter(|(_, library)| library.role == Role::Peer);
        let peers = peers.filter(|_| words::is_compared(&table.measurement));
        let peers = peers.filter_map(|(i, library)| Some((i, size, valid(collected.get(&library.id)?))));
        best = compare(&table.unit, &ours, choose(&table.unit, peers.collect()));
        floor = compare(&table.unit, &ours, choose(&table.unit, fitting(&table.unit, size, libraries, found)));
    }
    Row { variant, size, cells, best_peer: best, carrier: floor }
}

type Candidate = (usize, u64, Vec<Observation>);

/// The samples of carriers that may stand beside a message of `size`:
///
/// - samples of the same size, when there are any;
/// - for a time, else, samples of the nearest size;
/// - for a stream, else, samples of any size that is not far larger, since a carrier's frames are no
///   messages.
fn fitting(unit: &str, size: u64, libraries: &[Library], found: &Gathered) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    for (index, library) in libraries.iter().enumerate().filter(|(_, library)| library.role == Role::Carrier) {
        let rows = found.rows.iter();
        all.extend(rows.filter_map(|((_, size), row)| Some((index, *size, valid(row.get(&library.id)?)))));
    }
    let apart = |other: u64| other.max(size) / other.min(size).max(1);
    let exact = all.iter().any(|(_, other, values)| *other == size && !values.is_empty());
    match better(unit) {
        _ if exact => all.retain(|(_, other, _)| *other == size),
        Better::Lower => {
            let nearest = all.iter().map(|(_, other, _)| apart(*other)).min().unwrap_or(u64::MAX);
            all.retain(|(_, other, _)| apart(*other) == nearest && nearest <= CARRIER_SIZES_APART_MAX);
        }
        Better::Higher => all.retain(|(_, other, _)| *other / CARRIER_SIZES_APART_MAX <= size),
    }
    all
}

/// The candidate with the best median.
fn choose(unit: &str, candidates: Vec<Candidate>) -> Option<Candidate> {
    let median = |candidate: &Candidate| figure(&candidate.2).map(|figure| figure.median);
    let known = candidates.into_iter().filter(|candidate| median(candidate).is_some());
    let order = |a: &Candidate, b: &Candidate| median(a).unwrap_or(0.0).total_cmp(&median(b).unwrap_or(0.0));
    match better(unit) {
        Better::Lower => known.min_by(order),
        Better::Higher => known.max_by(order),
    }
}

/// The least time in microseconds that counts: a call takes longer. An overhead is the difference of two
/// times, and may come out as zero or less.
const LEAST_US: f64 = 0.01;

fn compare(unit: &str, ours: &[Observation], theirs: Option<Candidate>) -> Option<Comparison> {
    let (against, size, theirs) = theirs?;
    let advantage = |mine: f64, other: f64| match better(unit) {
        _ if is_share(unit) => mine - other,
        Better::Lower if unit == "us" => other.max(LEAST_US) / mine.max(LEAST_US),
        Better::Lower => other / mine,
        Better::Higher => mine / other,
    };
    let of_medians = advantage(figure(ours)?.median, figure(&theirs)?.median);
    let advantage = paired(ours, &theirs, advantage)?;
    Some(Comparison { against, size, advantage, of_medians, is_points: is_share(unit) })
}

fn cell(table: &mut Table, library: &Library, jobs: &[&Job], observed: &[Observed]) -> Cell {
    let figure = figure(&valid(observed));
    let mut cell = Cell { figure, missing: None, spread: false, notes: Vec::new() };
    cell.spread = figure.is_some_and(|figure| warnings::is_spread(&figure, &table.unit));
    for (outcome, why, rounds) in troubles(jobs) {
        note(table, &mut cell, words::trouble(&library.title, outcome, &why, &rounds, jobs.len()));
        cell.missing = cell.missing.or(match outcome {
            Outcome::Failed => Some(Missing::Failed),
            Outcome::TimedOut => Some(Missing::TimedOut),
            Outcome::Unsupported => Some(Missing::Unsupported),
            Outcome::Interrupted => Some(Missing::Interrupted),
            Outcome::Succeeded => None,
        });
    }
    let said = |why: &str| jobs.iter().any(|job| job.why.as_ref().is_some_and(|told| told.contains(why)));
    if let Some(why) = observed.iter().filter_map(|one| one.value.as_ref().err()).find(|why| !said(why)) {
        let count = observed.iter().filter(|one| one.value.is_err()).count();
        note(table, &mut cell, words::invalid(&library.title, why, count, observed.len()));
        cell.missing = Some(cell.missing.unwrap_or(Missing::Invalid));
    }
    if cell.figure.is_some() {
        cell.missing = None;
    } else if cell.missing.is_none() {
        let state = table.place.lines.as_ref().and_then(|lines| lines.name.as_ref());
        let (missing, sentence) = match (jobs, state) {
            ([], _) if observed.is_empty() => (Missing::NotRun, "was not run here".to_owned()),
            (_, Some(state)) => (Missing::NoSample, format!("has no sample of this size while lines were {state}")),
            (_, None) => (Missing::NoSample, "ended well but has no sample of this size".to_owned()),
        };
        note(table, &mut cell, format!("{} {sentence}.", library.title));
        cell.missing = Some(missing);
    }
    cell
}

/// The failures of jobs: each failure once, with the rounds in which it happened.
fn troubles(jobs: &[&Job]) -> Vec<(Outcome, String, Vec<u32>)> {
    let mut troubles: Vec<(Outcome, String, Vec<u32>)> = Vec::new();
    for job in jobs.iter().filter(|job| job.outcome != Outcome::Succeeded) {
        let why = job.why.clone().unwrap_or_default();
        match troubles.iter_mut().find(|(outcome, known, _)| *outcome == job.outcome && *known == why) {
            Some((_, _, rounds)) => rounds.push(job.round),
            None => troubles.push((job.outcome, why, vec![job.round])),
        }
    }
    troubles
}

fn note(table: &mut Table, cell: &mut Cell, sentence: String) {
    let known = table.footnotes.iter().position(|known| *known == sentence);
    let index = known.unwrap_or_else(|| {
        table.footnotes.push(sentence);
        table.footnotes.len() - 1
    });
    if !cell.notes.contains(&index) {
        cell.notes.push(index);
    }
}

/// The key of a sweep: place, library, direction, size.
type SweepKey = (String, String, String, u64);

fn sweeps(samples: &[Sample], places: &[Place], libraries: &[Library]) -> Vec<Sweep> {
    let mut sweeps = Vec::new();
    let mut points: BTreeMap<SweepKey, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in samples {
        let text = |name: &str| sample.line.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |name: &str| sample.line.get(name).and_then(Value::as_f64);
        let size = sample.line.get("size").and_then(Value::as_u64).unwrap_or(0);
        let key = (sample.place.clone(), sample.library.clone(), text("direction"), size);
        match text("measurement").as_str() {
            "availability_sample" => {
                let all = points.entry(key).or_default();
                if number("point") == Some(0.0) {
                    all.clear();
                }
                all.extend(number("work_us").zip(number("iteration_us")));
            }
            "availability" => {
                let points = points.remove(&key).unwrap_or_default();
                let place = places.iter().find(|place| place.id == key.0);
                let library = libraries.iter().position(|library| library.id == key.1);
                let valid = sample.line.get("valid").and_then(Value::as_bool) == Some(true);
                let figures = number("transfer_us").zip(number("overhead_us"));
                if let (Some(place), Some(library), Some((transfer_us, overhead_us)), true) =
                    (place, library, figures, valid && points.len() > 2)
                {
                    let base_threshold = number("base_threshold").unwrap_or(1.02);
                    let stop_threshold = number("stop_threshold").unwrap_or(1.5);
                    let (place, direction) = (place.clone(), key.2);
                    sweeps.push(Sweep {
                        place,
                        library,
                        direction,
                        size,
                        points,
                        transfer_us,
                        overhead_us,
                        base_threshold,
                        stop_threshold,
                    });
                }
            }
            _ => {}
        }
    }
    sweeps
}

fn commands(jobs: &[Job]) -> Vec<Job> {
    let mut first: Vec<Job> = Vec::new();
    for job in jobs.iter().filter(|job| !job.command.is_empty()) {
        let same = |known: &Job| {
            (&known.measurement, &known.place, &known.library) == (&job.measurement, &job.place, &job.library)
        };
        if !first.iter().any(same) {
            first.push(job.clone());
        }
    }
    first
}
