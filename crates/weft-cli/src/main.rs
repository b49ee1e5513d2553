//! The `weft` command: tools around the library that are no part of an MPI program.
#![forbid(unsafe_code)]

mod hosts;
mod info;
mod record;

use std::process::ExitCode;

const USAGE: &str = "usage: weft <command>
  hosts run [--count N] [--rate RATE] -- COMMAND …   run COMMAND beside N virtual hosts joined by a switch
  hosts enter HOST COMMAND …                         become COMMAND inside a virtual host
  hosts sweep                                        remove virtual hosts whose creator is gone
  info [--json]                                      what is built in, what would be used and why, every setting
  version                                            print the version";

/// What the command line is told when it makes no sense.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("hosts") => hosts::main(&arguments[1..]),
        Some("info") => info::main(&arguments),
        Some("version" | "--version" | "-V") => {
            println!("weft {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}
