//! Separates the samples of one place by the time that a cache line took while they were taken
//! (`crate::lines`).
//!
//! A place whose lines had several states becomes several places, so that every table, chart and ratio is of
//! one state. Samples of programs that do not measure lines stay where they are: a start-up has none. Samples
//! in which the lines changed are left out, and counted.

use std::collections::{BTreeMap, BTreeSet};

use super::read::RunFile;
use super::summary::CARRIER_PREFIX;
use super::words;
use crate::lines::{self, Class, State};
use crate::record::{Job, Lines, Place, Sample};

/// The measurement of a sweep's points, which come before the line that has the time of a cache line.
const POINT: &str = "availability_sample";

/// The places into which one place is split.
struct Plan {
    states: Vec<State>,
    /// For each state: its place, and the number of its samples.
    parts: BTreeMap<usize, (Place, usize)>,
    /// Programs whose samples have the time of a cache line, with the states in which an MPI library has
    /// samples, or a carrier, where there is no library.
    programs: BTreeMap<String, BTreeSet<usize>>,
    changed: usize,
    unknown: usize,
}

/// Splits the places of a run by state; returns the run, and sentences that report the split.
pub(super) fn separate(mut file: RunFile) -> (RunFile, Vec<String>) {
    let plans: BTreeMap<String, Plan> =
        file.places.iter().map(|place| (place.id.clone(), plan(place, &file.samples))).collect();
    let told = file.places.iter().filter_map(|place| plans[&place.id].sentence(place)).collect();
    let mut waiting: Vec<Sample> = Vec::new();
    for sample in std::mem::take(&mut file.samples) {
        if measurement(&sample) == POINT {
            waiting.push(sample);
            continue;
        }
        let ids = plans.get(&sample.place).map_or_else(|| vec![sample.place.clone()], |plan| plan.places_of(&sample));
        // A sweep that was broken off has no final line that would use its points.
        let key = |sample: &Sample| (sample.place.clone(), sample.library.clone(), sample.round);
        let points: Vec<Sample> = waiting.drain(..).filter(|point| key(point) == key(&sample)).collect();
        for one in points.into_iter().chain([sample]) {
            file.samples.extend(ids.iter().map(|id| Sample { place: id.clone(), ..one.clone() }));
        }
    }
    for job in std::mem::take(&mut file.jobs) {
        let mut ids = plans.get(&job.place).map_or(Vec::new(), |plan| plan.places_of_program(&job.measurement));
        if ids.is_empty() {
            ids.push(job.place.clone());
        }
        file.jobs.extend(ids.into_iter().map(|id| Job { place: id, ..job.clone() }));
    }
    for mut place in std::mem::take(&mut file.places) {
        let plan = &plans[&place.id];
        let parts: Vec<Place> = plan.parts.values().map(|(part, _)| part.clone()).collect();
        if !plan.is_split() {
            place.lines = parts.first().and_then(|part| part.lines.clone());
            file.places.push(place);
            continue;
        }
        let is_used = file.jobs.iter().map(|job| &job.place).chain(file.samples.iter().map(|sample| &sample.place));
        let is_used = is_used.into_iter().any(|id| *id == place.id);
        file.places.extend(parts);
        file.places.extend(is_used.then_some(place));
    }
    (file, told)
}

fn measurement(sample: &Sample) -> &str {
    sample.line.get("measurement").and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// The figures before and after a sample; None when its program does not measure lines.
fn figures(sample: &Sample) -> Option<[Option<f64>; 2]> {
    let [before, after] = ["line_ns_before", "line_ns_after"].map(|name| sample.line.get(name));
    Some([before?.as_f64(), after?.as_f64()])
}

fn plan(place: &Place, samples: &[Sample]) -> Plan {
    let own: Vec<(&Sample, [Option<f64>; 2])> = samples
        .iter()
        .filter(|sample| sample.place == place.id)
        .filter_map(|sample| Some((sample, figures(sample)?)))
        .collect();
    let all: Vec<f64> = own.iter().flat_map(|(_, figures)| figures.iter().copied().flatten()).collect();
    let states = lines::states(&all);
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let mut floors: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    let mut plan = Plan { states, parts: BTreeMap::new(), programs: BTreeMap::new(), changed: 0, unknown: 0 };
    for (sample, [before, after]) in own {
        let program = words::program(measurement(sample)).to_owned();
        let of_carrier = sample.library.starts_with(CARRIER_PREFIX);
        let program = if of_carrier { &mut floors } else { &mut plan.programs }.entry(program).or_default();
        match lines::classify(before, after, &plan.states) {
            Class::State(state) => {
                program.insert(state);
                *counts.entry(state).or_default() += 1;
            }
            Class::Changed => plan.changed += 1,
            Class::Unknown => plan.unknown += 1,
        }
    }
    for (program, states) in floors {
        plan.programs.entry(program).or_insert(states);
    }
    // A state that only samples with changing lines have seen has no table and is not counted.
    let (several, count) = (counts.len() > 1, counts.len());
    for (position, (state, samples)) in counts.into_iter().enumerate() {
        let name = several.then(|| lines::name(position, count));
        let id = name.as_ref().map_or_else(|| place.id.clone(), |name| format!("{}-lines-{name}", place.id));
        let lines = Some(Lines { name, ns: plan.states[state].median_ns });
        plan.parts.insert(state, (Place { id, lines, ..place.clone() }, samples));
    }
    plan
}

impl Plan {
    fn is_split(&self) -> bool {
        self.parts.len() > 1
    }

    /// The places to which a job of this program belongs; if there are none, its place does not change.
    fn places_of_program(&self, program: &str) -> Vec<String> {
        let states = self.programs.get(program).filter(|_| self.is_split());
        states.into_iter().flatten().map(|state| self.parts[state].0.id.clone()).collect()
    }

    /// The places in which a sample counts: none when it is left out, all of its program's when it has no
    /// time of a line.
    fn places_of(&self, sample: &Sample) -> Vec<String> {
        let program = words::program(measurement(sample));
        let stay = || vec![sample.place.clone()];
        let Some([before, after]) = figures(sample) else {
            let all = self.places_of_program(program);
            return if all.is_empty() { stay() } else { all };
        };
        match lines::classify(before, after, &self.states) {
            Class::State(state) => vec![self.parts[&state].0.id.clone()],
            Class::Unknown if !self.is_split() => stay(),
            Class::Changed | Class::Unknown => Vec::new(),
        }
    }

    fn sentence(&self, place: &Place) -> Option<String> {
        let mut text = String::new();
        let samples = |count: usize| format!("{count} sample{}", if count == 1 { "" } else { "s" });
        if self.is_split() {
            let part = |(part, count): &(Place, usize)| {
                format!("{} ({})", words::lines(part).unwrap_or_default(), samples(*count))
            };
            let parts: Vec<String> = self.parts.values().map(part).collect();
            text += &format!(
                " What a cache line costs between the processors had {} states, which have tables of their own: {}.",
                self.parts.len(),
                parts.join("; ")
            );
        }
        let are = |count: usize| if count == 1 { "is" } else { "are" };
        if self.changed > 0 {
            let count = self.changed;
            text += &format!(
                " {} in which a cache line cost another time before than after {} left out.",
                samples(count),
                are(count)
            );
        }
        if self.unknown > 0 && self.is_split() {
            let count = self.unknown;
            text += &format!(
                " {} around which that could not be measured, since another program had a processor, {} left out.",
                samples(count),
                are(count)
            );
        }
        (!text.is_empty()).then(|| format!("{}:{text}", words::place(place)))
    }
}
