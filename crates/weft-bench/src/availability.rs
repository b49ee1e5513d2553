//! `weft availability`: measures the processor time that is left to a program while messages are under way.
//!
//! The measured program is plain C over the MPI API, built by the library's own wrapper where it has one: no
//! Weft is in it.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::bench::single;
use crate::measure::arguments::{Common, Rounds};

/// The arguments of `weft availability`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Iterations up to this times the transfer time count into it [default: 1.02]
    #[arg(long, value_name = "RATIO")]
    base_threshold: Option<f64>,
    /// The work grows until an iteration takes this many transfer times [default: 1.5]
    #[arg(long, value_name = "RATIO")]
    stop_threshold: Option<f64>,
    /// Nonblocking sends, receives, or both; a nonblocking collective of all ranks, or all of these
    #[arg(long, default_value = "both")]
    direction: Direction,
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Direction {
    Send,
    Receive,
    Both,
    Bcast,
    /// A broadcast in which rank 0, which works, is not the root.
    BcastTo,
    Allreduce,
    Allgather,
    Alltoall,
    Collectives,
}

/// Runs the measurement; exit codes as of `weft compare`.
pub fn main(arguments: &Arguments) -> ExitCode {
    let mut common = arguments.common.clone();
    let direction = match arguments.direction {
        Direction::Send => "send",
        Direction::Receive => "receive",
        Direction::Both => "both",
        Direction::Bcast => "bcast",
        Direction::BcastTo => "bcast-to",
        Direction::Allreduce => "allreduce",
        Direction::Allgather => "allgather",
        Direction::Alltoall => "alltoall",
        Direction::Collectives => "collectives",
    };
    let mut options = vec!["--direction".to_owned(), direction.to_owned()];
    let thresholds = [("--base-threshold", arguments.base_threshold), ("--stop-threshold", arguments.stop_threshold)];
    for (name, value) in thresholds.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        options.extend([name.to_owned(), value.to_string()]);
    }
    common.program_options.splice(0..0, options);
    single("availability", "availability", arguments.rounds.rounds, &common)
}
