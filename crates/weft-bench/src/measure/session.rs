//! A session: runs every library in every place, round by round, and writes a run file.
//!
//! In a round each measurement runs each library in turn before the next measurement begins, and each round
//! begins with another library. So a change in the machine's speed affects all libraries alike, and each
//! library begins some of the rounds instead of always following the same one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::arguments::Request;
use super::build::{self, Programs};
use super::carrier::{CARRIERS, Carrier};
use super::catalogue::{Measurement, Method};
use super::condition::{self, Observer};
use super::fetch;
use super::kind::Kind;
use super::launch::{self, Invocation};
use super::library::{Mpi, Spec};
use super::output::{self, Output};
use super::place::{self, Net, PlannedPlace};
use super::process::{self, Task};
use super::progress::Progress;
use super::verdict::{self, Verdict};
use super::work::Work;
use crate::hosts::fabric::{self, Failure};
use crate::hosts::namespaces::Ground;
use crate::hosts::supervise::Caught;
use crate::record::{self, Condition, End, Job, Outcome, Record, Role, Run, Sample};

/// The end of a session that has a run file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Every cell has a figure, or a reason.
    Complete,
    /// Every cell has a reason, and none has a figure.
    Nothing,
    /// A signal ended the session.
    Interrupted(i32),
}

/// The reason why a session could not be held.
pub(crate) enum Refused {
    /// A sentence for the command line.
    Wrong(String),
    /// Virtual hosts cannot be made; the text says why.
    Unsupported(String),
}

impl From<String> for Refused {
    fn from(why: String) -> Refused {
        Refused::Wrong(why)
    }
}

/// The libraries to compare: the named ones, or Weft and the peers that are installed. `fetch`: fetch peers
/// that are not.
pub(crate) struct Selection {
    pub(crate) named: Vec<Spec>,
    pub(crate) fetch: bool,
    /// Says whether peers take part when the user names no library.
    pub(crate) peers: bool,
}

/// A competitor: a library, or a carrier.
struct Competitor {
    record: record::Library,
    what: What,
    /// The output of a competitor that does not load or start: it is not tried again.
    broken: Option<String>,
}

enum What {
    Mpi { mpi: Mpi, programs: Option<Programs> },
    Carrier { carrier: &'static Carrier, program: PathBuf },
}

/// Holds the session that `request` describes and writes it to `path`.
pub(crate) fn run(request: &Request, selection: &Selection, path: &Path) -> Result<Ended, Refused> {
    let cache = super::cache()?;
    let mut caught = Caught::new().map_err(|error| format!("cannot catch signals: {error}"))?;
    fabric::sweep();
    let ground = place::ground(&request.places, request.is_quiet).map_err(Refused::Unsupported)?;
    let work = Work::new()?;
    let temporary = work.path().join(TEMPORARY);
    std::fs::create_dir(&temporary).map_err(|error| format!("cannot make {}: {error}", temporary.display()))?;
    let libraries = libraries(selection, &cache, request.is_quiet)?;
    let output = Output::create(path)?;
    let began = Instant::now();
    let mut session = Session {
        request,
        output,
        observer: Observer::new(began),
        began,
        work,
        caught: &mut caught,
        ground,
        jobs: 0,
        figures: 0,
        given_up: BTreeMap::new(),
        libfabric: libraries.iter().find_map(brings_libfabric),
        progress: Progress::new(0, true),
    };
    session.write(Record::Run(Run {
        format: record::FORMAT,
        started: output::now(),
        command: std::env::args().collect(),
        version: env!("CARGO_PKG_VERSION").into(),
        rounds: request.rounds,
        machine: condition::machine(),
    }))?;
    let result = session.hold(&libraries, &cache);
    session.progress.finish();
    let signal = session.caught.terminated();
    let at = session.began.elapsed().as_secs_f64();
    match result {
        Ok(()) => session.write(Record::End(End { at, interrupted: signal.is_some() }))?,
        Err(refused) => {
            // The run file may be the broken part: an attempt is made to write to it, and the first reason is
            // reported.
            let _ = session.write(Record::End(End { at, interrupted: true }));
            return Err(refused);
        }
    }
    Ok(match signal {
        Some(signal) => Ended::Interrupted(signal),
        None if session.figures == 0 => Ended::Nothing,
        None => Ended::Complete,
    })
}

/// Finds, and on request fetches, the libraries that take part. A library that cannot be fetched is reported
/// and left out.
fn libraries(selection: &Selection, cache: &Path, is_quiet: bool) -> Result<Vec<Mpi>, String> {
    let is_wanted = |kind: &Kind| {
        let mut named = selection.named.iter().filter(|spec| spec.prefix.is_none());
        selection.named.is_empty() && selection.peers || named.any(|spec| spec.name == kind.name())
    };
    let mut absent = Vec::new();
    if selection.fetch {
        for kind in fetch::PEERS.into_iter().filter(is_wanted) {
            if fetch::fetched(cache, kind).is_none() && !is_quiet {
                crate::out::say!("fetching {} into {}", kind.name(), cache.join("peers").display());
            }
            if let Err(why) = fetch::fetch(cache, kind) {
                crate::out::say!("{} cannot be fetched ({why}); the comparison goes on without it", kind.name());
                absent.push(kind.name());
            }
        }
    }
    let mut specs = selection.named.clone();
    if specs.is_empty() {
        specs.push(Spec::plain(Kind::Weft));
        let here = fetch::PEERS.into_iter().filter(|kind| selection.peers && fetch::fetched(cache, *kind).is_some());
        specs.extend(here.map(Spec::plain));
    }
    let mut found: Vec<Mpi> = Vec::new();
    for spec in specs.iter().filter(|spec| spec.prefix.is_some() || !absent.contains(&spec.name.as_str())) {
        let mpi = Mpi::find(spec, cache)?;
        if found.iter().any(|known| known.id == mpi.id) {
            return Err(format!("{} is named twice; NAME=PREFIX gives one of them another name", mpi.id));
        }
        found.push(mpi);
    }
    match found.is_empty() {
        true => Err("no library is left to measure".into()),
        false => Ok(found),
    }
}

/// The directory of the libfabric that a library brings; a library without one uses it.
fn brings_libfabric(mpi: &Mpi) -> Option<PathBuf> {
    let directory = mpi.prefix.join("lib/mpich");
    directory.join("libfabric.so.1").is_file().then_some(directory)
}

/// The wrapper by which programs for `mpi` are built. Libraries of the standard ABI share one binary, built
/// by MPICH's wrapper when it takes part. A library without a wrapper borrows another library's.
fn compiler<'a>(mpi: &'a Mpi, all: &'a [Mpi]) -> Result<(&'a Mpi, PathBuf), String> {
    let shared = || {
        let abi = |kind| all.iter().find(|one| one.kind == kind && one.has_abi && one.compiler().is_some());
        abi(Kind::Mpich).or_else(|| abi(Kind::Weft))
    };
    let chosen = if mpi.has_abi { shared() } else { None };
    let chosen = chosen.unwrap_or(mpi);
    let compiler = chosen.compiler().ok_or_else(|| {
        format!(
            "{} has no compiler wrapper; name a library that has one for the standard ABI as well, such as weft",
            mpi.id
        )
    })?;
    Ok((chosen, compiler))
}

/// The directory of the jobs' temporary files, in the session's directory.
const TEMPORARY: &str = "t";

struct Session<'a> {
    request: &'a Request,
    output: Output,
    observer: Observer,
    began: Instant,
    work: Work,
    caught: &'a mut Caught,
    ground: Ground,
    jobs: u32,
    /// The number of jobs that gave a figure.
    figures: usize,
    /// Combinations of measurement, place and library that took too long, with the round: the session does
    /// not wait for them again.
    given_up: BTreeMap<(String, String, String), u32>,
    libfabric: Option<PathBuf>,
    progress: Progress,
}

impl Session<'_> {
    fn write(&mut self, record: Record) -> Result<(), Refused> {
        self.output.write(&record).map_err(Refused::Wrong)
    }

    fn is_stopped(&mut self) -> bool {
        self.caught.terminated().is_some()
    }

    fn hold(&mut self, libraries: &[Mpi], cache: &Path) -> Result<(), Refused> {
        let request = self.request;
        for place in &request.places {
            self.write(Record::Place(place.record(self.ground)))?;
        }
        for reached in request.places.iter().filter_map(|place| place.reached.as_ref()) {
            reached.share(cache)?;
        }
        let competitors = self.competitors(libraries, cache)?;
        let in_place = |place: &PlannedPlace| {
            let cells =
                request.measurements.iter().flat_map(|m| competitors.iter().map(move |c| c.takes_part(m, place)));
            cells.filter(|takes_part| *takes_part).count()
        };
        let jobs: usize = request.places.iter().map(in_place).sum();
        self.progress = Progress::new(jobs * request.rounds as usize, request.is_quiet);
        for round in 0..request.rounds {
            for place in &request.places {
                if self.is_stopped() {
                    return Ok(());
                }
                let caught = &mut *self.caught;
                let net = match place.open(self.work.path(), &mut || caught.terminated()) {
                    Ok(net) => net,
                    Err(Failure::Interrupted) => return Ok(()),
                    Err(Failure::Unsupported(why)) => return Err(Refused::Unsupported(why)),
                    Err(Failure::Step(why)) => {
                        return Err(Refused::Wrong(format!("cannot make the virtual hosts: {why}")));
                    }
                };
                self.round(round, place, net.as_ref(), &competitors)?;
            }
        }
        Ok(())
    }

    /// Runs every measurement in one place, each with every competitor.
    fn round(
        &mut self,
        round: u32,
        place: &PlannedPlace,
        net: Option<&Net>,
        all: &[Competitor],
    ) -> Result<(), Refused> {
        for measurement in &self.request.measurements {
            let taking_part: Vec<&Competitor> = all.iter().filter(|one| one.takes_part(measurement, place)).collect();
            for competitor in rotated(&taking_part, round) {
                if self.is_stopped() {
                    return Ok(());
                }
                self.job(round, measurement, place, net, competitor)?;
            }
        }
        Ok(())
    }

    /// Asks every library for its version, which also shows that it works; builds the carriers.
    fn competitors(&mut self, libraries: &[Mpi], cache: &Path) -> Result<Vec<Competitor>, Refused> {
        let mut all = Vec::new();
        let alone = PlannedPlace { hosts: 1, ranks: 1, reached: None, rate: None, loss: None };
        // A second Weft in the same places, with other settings, is compared with the first like any other
        // library.
        let subject_of = |places: Option<bool>| {
            libraries.iter().position(|mpi| mpi.kind == Kind::Weft && mpi.within_host == places).unwrap_or(0)
        };
        for (index, mpi) in libraries.iter().enumerate() {
            let prepared = compiler(mpi, libraries)
                .and_then(|(owner, compiler)| Programs::new(cache, &compiler, launch::environment(owner, false, None)));
            let answer = prepared.clone().and_then(|programs| self.ask(mpi, &alone, &programs));
            let (version, broken) = match answer {
                Ok(version) => (version, None),
                Err(why) => {
                    (String::new(), Some(format!("{} in {} does not work: {why}", mpi.id, mpi.prefix.display())))
                }
            };
            if let Some(why) = &broken {
                crate::out::say!("{why}; the others go on");
            }
            let is_subject = index == subject_of(mpi.within_host);
            let record = record::Library {
                id: mpi.id.clone(),
                role: if is_subject { Role::Subject } else { Role::Peer },
                title: mpi.title(&version),
                version,
                prefix: Some(mpi.prefix.display().to_string()),
                environment: mpi.environment.clone(),
                within_host: mpi.within_host,
            };
            self.write(Record::Library(record.clone()))?;
            all.push(Competitor { record, what: What::Mpi { mpi: mpi.clone(), programs: prepared.ok() }, broken });
        }
        if self.request.carriers {
            all.extend(self.carriers(cache)?);
        }
        Ok(all)
    }

    fn carriers(&mut self, cache: &Path) -> Result<Vec<Competitor>, Refused> {
        let request = self.request;
        let fits = |carrier: &&Carrier| {
            let names = request.measurements.iter().map(|measurement| measurement.name);
            names.into_iter().any(|name| request.places.iter().any(|place| carrier.fits(name, place)))
        };
        let mut all = Vec::new();
        for carrier in CARRIERS.iter().filter(fits) {
            let built = build::carrier(cache);
            let record = record::Library {
                id: carrier.id(),
                role: Role::Carrier,
                title: carrier.title.into(),
                version: String::new(),
                prefix: None,
                environment: BTreeMap::new(),
                within_host: None,
            };
            self.write(Record::Library(record.clone()))?;
            let broken = built.as_ref().err().map(|why| format!("the carriers' program is missing: {why}"));
            all.push(Competitor {
                record,
                what: What::Carrier { carrier, program: built.unwrap_or_default() },
                broken,
            });
        }
        Ok(all)
    }

    /// The text of `MPI_Get_library_version`, from a program with one rank.
    fn ask(&mut self, mpi: &Mpi, place: &PlannedPlace, programs: &Programs) -> Result<String, String> {
        let program = programs.build(build::LIBRARY)?;
        let invocation = launch::invocation(mpi, place, None, self.libfabric.as_deref(), &program, &[]);
        let (verdict, _) = self.execute(&invocation, None, false)?;
        let text = verdict.samples.first().and_then(|sample| sample.get("library")?.as_str().map(str::to_owned));
        text.filter(|_| verdict.outcome == Outcome::Succeeded).ok_or(verdict.why.unwrap_or("it said nothing".into()))
    }

    /// Runs an invocation. `lines`: the program measures the time of a cache line around its samples.
    fn execute(
        &mut self,
        main: &Invocation,
        companion: Option<&Invocation>,
        lines: bool,
    ) -> Result<(Verdict, Duration), String> {
        self.jobs += 1;
        let temporary = self.work.path().join(TEMPORARY);
        let limit = Duration::from_secs(self.request.limit_seconds.into());
        let task = Task { main, companion, temporary: &temporary, limit, number: self.jobs, lines };
        let finished = process::run(&task, &mut || self.caught.terminated())?;
        Ok((verdict::judge(&finished, limit.as_secs_f64()), finished.elapsed))
    }

    /// Runs an invocation; between hosts its samples count only if they crossed the wire.
    fn measure(
        &mut self,
        main: &Invocation,
        companion: Option<&Invocation>,
        net: Option<&Net>,
        lines: bool,
    ) -> Result<(Verdict, Duration), String> {
        let sent_bytes = || net.map_or(Ok(None), Net::sent_bytes);
        let before = sent_bytes()?;
        let (mut verdict, took) = self.execute(main, companion, lines)?;
        if let (Some(before), Some(after)) = (before, sent_bytes()?) {
            verdict.require_wire(after.saturating_sub(before));
        }
        Ok((verdict, took))
    }

    /// Runs one job, with its condition before and after, its samples and its verdict.
    fn job(
        &mut self,
        round: u32,
        measurement: &Measurement,
        place: &PlannedPlace,
        net: Option<&Net>,
        competitor: &Competitor,
    ) -> Result<(), Refused> {
        let cell = (measurement.name.to_owned(), place.id(), competitor.record.id.clone());
        let name = format!("{} · {} · {}", cell.0, cell.1, cell.2);
        self.progress.begin(&name);
        let condition = self.observer.look();
        self.write(Record::Condition(condition))?;
        let prepared = self.given_up.get(&cell).map_or_else(
            || competitor.invocation(self.request, measurement, place, net, self.libfabric.as_deref()),
            |first| {
                let limit = self.request.limit_seconds;
                Err((Outcome::TimedOut, format!("not tried again: it did not end in {limit} s in round {}", first + 1)))
            },
        );
        let (command, verdict, took) = match prepared {
            Err((outcome, why)) => {
                (Vec::new(), Verdict { samples: Vec::new(), outcome, why: Some(why) }, Duration::ZERO)
            }
            Ok((main, companion)) => match self.measure(&main, companion.as_ref(), net, place.has_lines()) {
                Ok((verdict, took)) => (main.words, verdict, took),
                Err(why) => {
                    let verdict = Verdict { samples: Vec::new(), outcome: Outcome::Failed, why: Some(why) };
                    (main.words, verdict, Duration::ZERO)
                }
            },
        };
        if verdict.outcome == Outcome::TimedOut {
            self.given_up.entry(cell.clone()).or_insert(round);
        }
        self.figures += usize::from(verdict.outcome == Outcome::Succeeded);
        let lines = match measurement.method {
            Method::Launch if verdict.outcome == Outcome::Succeeded => vec![launch_sample(measurement, place, took)],
            Method::Launch => Vec::new(),
            Method::Printed => verdict.samples,
        };
        for line in lines {
            let sample = Sample { place: cell.1.clone(), library: cell.2.clone(), round, line };
            self.write(Record::Sample(sample))?;
        }
        self.progress.end(&name, took, verdict.why.as_deref());
        self.write(Record::Job(Job {
            measurement: cell.0,
            place: cell.1,
            library: cell.2,
            round,
            command,
            outcome: verdict.outcome,
            why: verdict.why,
            seconds: took.as_secs_f64(),
        }))?;
        let condition: Condition = self.observer.look();
        self.write(Record::Condition(condition))
    }
}

type Prepared = (Invocation, Option<Invocation>);

impl Competitor {
    /// Returns whether the competitor takes part. A carrier takes part where it is a floor; a library takes
    /// part everywhere, unless the user asked for it in some places only.
    fn takes_part(&self, measurement: &Measurement, place: &PlannedPlace) -> bool {
        match &self.what {
            What::Mpi { mpi, .. } => mpi.within_host.is_none_or(|within| within == (place.hosts == 1)),
            What::Carrier { carrier, .. } => carrier.fits(measurement.name, place),
        }
    }

    /// The command to run, with a companion beside it; or the reason why there is none.
    fn invocation(
        &self,
        request: &Request,
        measurement: &Measurement,
        place: &PlannedPlace,
        net: Option<&Net>,
        libfabric: Option<&Path>,
    ) -> Result<Prepared, (Outcome, String)> {
        if let Some(why) = &self.broken {
            return Err((Outcome::Failed, why.clone()));
        }
        if place.ranks < measurement.ranks_min {
            return Err((Outcome::Unsupported, format!("needs at least {} ranks", measurement.ranks_min)));
        }
        let mut options: Vec<String> = measurement.arguments.iter().map(|word| (*word).to_owned()).collect();
        let sizes = request.sizes.iter().filter(|_| measurement.has_sizes);
        match &self.what {
            What::Mpi { mpi, programs } => {
                options.extend(sizes.flat_map(|sizes| ["--sizes".to_owned(), sizes.clone()]));
                options.extend(request.options.iter().cloned());
                let programs = programs.as_ref().ok_or((Outcome::Failed, "no program could be built".to_owned()))?;
                let program = programs.build(measurement.program).map_err(|why| (Outcome::Failed, why))?;
                Ok((launch::invocation(mpi, place, net, libfabric, &program, &options), None))
            }
            What::Carrier { carrier, program } => Ok(carrier.invocations(program, measurement.name, net, &options)),
        }
    }
}

fn launch_sample(measurement: &Measurement, place: &PlannedPlace, took: Duration) -> Map<String, Value> {
    let fields = json!({
        "measurement": measurement.name, "size": 0, "ranks": place.ranks, "unit": measurement.unit,
        "value": took.as_secs_f64() * 1e3, "valid": true,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => unreachable!("an object was written"),
    }
}

/// Rotates the order for each round: every competitor begins once, and the neighbours stay the same.
fn rotated<T: Copy>(all: &[T], round: u32) -> impl Iterator<Item = T> + '_ {
    let first = if all.is_empty() { 0 } else { round as usize % all.len() };
    all[first..].iter().chain(&all[..first]).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_begins_once() {
        let order = |round| rotated(&["a", "b", "c"], round).collect::<String>();
        assert_eq!([order(0), order(1), order(2), order(3)], ["abc", "bca", "cab", "abc"]);
        assert_eq!(rotated::<u8>(&[], 3).count(), 0);
    }

    #[test]
    fn libraries_of_the_standard_abi_share_a_wrapper() {
        let root = std::env::temp_dir().join(format!("weft-session-test-{}", std::process::id()));
        let library = |kind: Kind, wrapper: Option<&str>| {
            let prefix = root.join(kind.name());
            std::fs::create_dir_all(prefix.join("bin")).unwrap();
            if let Some(wrapper) = wrapper {
                std::fs::write(prefix.join("bin").join(wrapper), "").unwrap();
            }
            let has_abi = kind != Kind::OpenMpi;
            Mpi { id: kind.name().into(), kind, prefix, environment: BTreeMap::new(), has_abi, within_host: None }
        };
        let weft = library(Kind::Weft, Some("mpicc"));
        let mpich = library(Kind::Mpich, Some("mpicc_abi"));
        let intel = library(Kind::Intel, None);
        let open = library(Kind::OpenMpi, Some("mpicc"));
        let all = [weft.clone(), mpich.clone(), intel.clone(), open.clone()];
        let owners: Vec<&str> = all.iter().map(|mpi| compiler(mpi, &all).unwrap().0.id.as_str()).collect();
        let alone = compiler(&intel, std::slice::from_ref(&intel)).map(drop);
        let _ = std::fs::remove_dir_all(&root);
        assert_eq!(owners, ["mpich", "mpich", "mpich", "openmpi"]);
        assert!(alone.unwrap_err().contains("no compiler wrapper"));
    }
}
