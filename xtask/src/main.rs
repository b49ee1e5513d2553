//! `cargo xtask <command>`: the project's automation.
#![forbid(unsafe_code)]

mod applications;
mod generate;
mod import;
mod size;
mod suite;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>
  import DIR          make spec/ from the standard's two JSON files in DIR
  generate [--check]  make the C boundary, mpi.h, the symbol list and docs/status.md from spec/
  tidy                check the house rules
  tidy --circles CRATE [ROOM ROOM]
                      the circles of imports within a crate, or all places where one room imports another
  tidy --fields [FOLDER STRUCTURE]
                      which fields of a structure each file touches (of the engine without words)
  suite [NAME ...]    run the integration suites (all of them without a name)
  applications [NAME ...]
                      programs that others wrote, fetched, built, and run with their own tests
  soak [--minutes N]  make and free all kinds of objects between two hosts for an hour, and judge whether anything grows
  rdma -- PROGRAM …   run a program in virtual machines with RDMA devices that the kernel plays
  bench-rdma          count what MPI costs in them, over RDMA, TCP and UDP
  size [LIBRARY]      how large the library is without its symbols, by part
  instructions        count what a message of 8 bytes costs, or compare it between installed prefixes";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let result = match arguments.first().map(String::as_str) {
        Some("import") => import::run(rest),
        Some("generate") => generate::run(rest),
        Some("tidy") => tidy::run(rest),
        Some("suite") => suite::run(rest),
        Some("applications") => applications::run(rest),
        Some("soak") => suite::soak::run(rest),
        Some("rdma") => suite::guests::run(rest),
        Some("bench-rdma") => suite::rdma_bench::run(rest),
        Some("guest") => suite::guests::run_inside(rest),
        Some("size") => size::run(rest),
        Some("instructions") => suite::instructions::run(rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
