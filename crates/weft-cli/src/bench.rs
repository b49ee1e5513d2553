//! `weft bench`: one measurement under the library at hand.

use std::process::ExitCode;

use clap::Args;

use crate::compare::{named, refuse, session};
use crate::measure::arguments::{Common, Rounds};
use crate::measure::{Wanted, output};

/// What follows `weft bench`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// What to measure (a wrong name is answered with all)
    measurement: String,
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    common: Common,
}

/// Runs it; exit codes as of `weft compare`.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    single("bench", &arguments.measurement, arguments.rounds.rounds, &arguments.common)
}

/// One measurement, under Weft unless other libraries are named. The run file is kept when the user says where.
pub(crate) fn single(command: &str, measurement: &str, rounds: u32, common: &Common) -> ExitCode {
    let request = match common.request(&[measurement.to_owned()], rounds, false) {
        Ok(request) => request,
        Err(why) => return refuse(command, &why),
    };
    let path = common.output.clone().unwrap_or_else(|| output::default_name(command, output::now()));
    session(command, &request, &Wanted { named: named(common), fetch: false, peers: false }, common, &path)
}
