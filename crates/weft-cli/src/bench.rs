//! `weft bench`: one measurement under the library at hand.

use std::process::ExitCode;

use clap::Args;

use crate::compare::{named, refuse, session};
use crate::measure::Wanted;
use crate::measure::arguments::{Common, Rounds};

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
    let temporary = || std::env::temp_dir().join(format!("weft-{command}-{}.jsonl", std::process::id()));
    let path = common.output.clone().unwrap_or_else(temporary);
    let wanted = Wanted { named: named(common), fetch: false, peers: false };
    let code = session(command, &request, &wanted, common, &path);
    if common.output.is_none() {
        let _ = std::fs::remove_file(&path);
    }
    code
}
