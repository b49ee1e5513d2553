//! `weft bench`: one measurement under the Weft that is installed beside this command, or one experiment,
//! which joins measurements, settings and places.

mod experiment;

use std::process::ExitCode;

use clap::Args;

use crate::compare::{keep, named, refuse, session};
use crate::measure::arguments::{Common, Rounds};
use crate::measure::{Selection, Work};

/// The arguments of `weft bench`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The measurement (a wrong name is answered with all), or an experiment. The experiments: ack (how late
    /// acknowledgements show in Sendrecv), carriers (Weft over each of its own links, beside the link without
    /// MPI), fabric (its own links beside libfabric), multicast and multicast-skew (broadcasts down trees and
    /// by each scheme of multicast, also where receivers come late)
    measurement: String,
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    common: Common,
}

/// Runs the measurement or the experiment; exit codes as of `weft compare`.
pub fn main(arguments: &Arguments) -> ExitCode {
    let Arguments { measurement, rounds, common } = arguments;
    match experiment::find(measurement) {
        Some(experiment) => conduct(&experiment, rounds.rounds, common),
        None => single("bench", measurement, rounds.rounds, common),
    }
}

/// Conducts an experiment; its run file is kept like a comparison's. The user's settings take precedence over
/// the experiment's.
fn conduct(experiment: &experiment::Experiment, rounds: u32, common: &Common) -> ExitCode {
    let mut common = common.clone();
    if common.hosts.is_empty() {
        common.hosts = experiment.hosts.clone();
    }
    common.sizes = common.sizes.or_else(|| experiment.sizes.clone());
    let request = match common.request(&experiment.measurements, rounds, experiment.carriers) {
        Ok(request) => request,
        Err(why) => return refuse("bench", &why),
    };
    let mut libraries = named(&common);
    if libraries.is_empty() {
        libraries.clone_from(&experiment.libraries);
    }
    let selection = Selection { named: libraries, fetch: false, peers: false };
    keep("bench", experiment.name, &request, &selection, &common)
}

/// Conducts a measurement, under Weft unless other libraries are named. The run file is kept if the user
/// names a place for it.
pub(crate) fn single(command: &str, measurement: &str, rounds: u32, common: &Common) -> ExitCode {
    let request = match common.request(&[measurement.to_owned()], rounds, false) {
        Ok(request) => request,
        Err(why) => return refuse(command, &why),
    };
    let (path, _work) = match &common.output {
        Some(path) => (path.clone(), None),
        None => match Work::new() {
            Ok(work) => (work.path().join("run.jsonl"), Some(work)),
            Err(why) => return refuse(command, &why),
        },
    };
    let selection = Selection { named: named(common), fetch: false, peers: false };
    session(command, &request, &selection, common, &path)
}
