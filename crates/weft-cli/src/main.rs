//! The `weft` command: tools around the library that are no part of an MPI program.
#![forbid(unsafe_code)]
// All output goes through `out`, which ends the command when its reader has gone.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod doctor;
mod info;
mod manual;
mod program;
mod simulate;
mod version;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use weft_bench::{availability, bench, compare, hosts, out, report, tune};

/// Tools around Weft: virtual hosts, measurements, diagnosis
#[derive(Parser)]
#[command(name = "weft", version, long_version = version::text(), subcommand_required = true, arg_required_else_help = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

// The help of each command is one line; its arguments and its work are in the module of its name.
#[derive(Subcommand)]
enum Command {
    /// Virtual hosts on this machine, for as long as one command runs
    Hosts(hosts::Arguments),
    /// Measure MPI libraries side by side: the same programs, in turn, in the same places
    Compare(compare::Arguments),
    /// Take a measurement under the library at hand
    Bench(bench::Arguments),
    /// Measure the processor time that is left to a program while messages are under way, for any MPI library
    Availability(availability::Arguments),
    /// Check hosts and the ways between them; exit code 0: no fault, 1: faults, 2: wrong use
    Doctor(doctor::Options),
    /// Show what is built in, what would be used and why, every setting; or which MPI library a program loads
    Info(info::Options),
    /// Run a program of MPICH's or Open MPI's ABI over Weft, as a job of one process
    Run(program::Arguments),
    /// Tables, charts and pages from the run files of `weft compare`
    Report(report::Options),
    /// Simulate collectives in jobs of up to 4096 ranks, on a simulated network
    Simulate(simulate::Arguments),
    /// Measure all algorithms of collectives here, and write the table by which the library chooses them
    Tune(tune::Arguments),
    /// Print the version, the commit, what is built in, and what needs which kernel
    Version,
    /// Write the manual's pages and the completion of shells
    #[command(hide = true)]
    Manual(manual::Options),
}

fn main() -> ExitCode {
    out::run(|| match Line::parse().command {
        Command::Hosts(arguments) => hosts::main(arguments),
        Command::Compare(arguments) => compare::main(&arguments),
        Command::Bench(arguments) => bench::main(&arguments),
        Command::Availability(arguments) => availability::main(&arguments),
        Command::Doctor(options) => doctor::run(&options),
        Command::Info(options) => info::run(&options),
        Command::Run(arguments) => program::run(&arguments),
        Command::Report(options) => report::run(&options),
        Command::Simulate(arguments) => simulate::main(&arguments),
        Command::Tune(arguments) => tune::main(&arguments),
        Command::Manual(options) => manual::run(&options, Line::command()),
        Command::Version => {
            weft_bench::out::print_line!("weft {}", version::text());
            ExitCode::SUCCESS
        }
    })
}
