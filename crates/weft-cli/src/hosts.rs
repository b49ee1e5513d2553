//! `weft hosts`: several virtual hosts on one machine, for as long as one command runs.
//!
//! Every host is a network namespace with one interface `e0`; the interfaces meet in a bridge that lives in a namespace
//! of its own, so the machine's own network is never touched. The command is told where its hosts are:
//!
//! - `WEFT_HOSTS` is the list of their names, `weft-4711-0,weft-4711-1`;
//! - `WEFT_AGENT` is the template by which `mpiexec` reaches one of them, `weft hosts enter {host}`: there the host has
//!   its own name as well.
//!
//! Whatever ends the command, the hosts and the processes left in them are removed. Only SIGKILL cannot be answered: what
//! it leaves is swept by the next start, since the creator's process id is part of every name.

mod fabric;
mod supervise;

use std::process::ExitCode;

use fabric::{Fabric, Failure, Plan};

/// No privilege (or no kernel support) to make network namespaces: the code by which test drivers skip a case.
pub(crate) const EXIT_SKIPPED: u8 = 77;
/// The command could not be started, as shells have it.
pub(crate) const EXIT_NOT_STARTED: u8 = 127;
const EXIT_USAGE: u8 = 2;

const HOSTS_MAX: usize = 64;

const USAGE: &str = "usage: weft hosts run [--count N] [--rate 10gbit] -- COMMAND …
       weft hosts enter HOST COMMAND …
       weft hosts sweep";

/// Runs `weft hosts ARGUMENTS`; the exit code is the command's, or 128 + signal, or one of the codes above.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    match arguments.first().map(String::as_str) {
        Some("run") => match parse(&arguments[1..]) {
            Ok((plan, command)) => run(plan, &command),
            Err(why) => {
                eprintln!("weft hosts: {why}\n{USAGE}");
                ExitCode::from(EXIT_USAGE)
            }
        },
        Some("enter") => match arguments.get(1..) {
            Some([host, command @ ..]) if !command.is_empty() => {
                eprintln!("weft hosts: {}", fabric::enter(host, command));
                ExitCode::from(EXIT_NOT_STARTED)
            }
            _ => {
                eprintln!("{USAGE}");
                ExitCode::from(EXIT_USAGE)
            }
        },
        Some("sweep") => {
            for name in fabric::sweep() {
                println!("removed {name}");
            }
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn parse(arguments: &[String]) -> Result<(Plan, Vec<String>), String> {
    let mut plan = Plan { count: 2, rate: None };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let (name, inline) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (argument.as_str(), None),
        };
        let mut value = || inline.clone().or_else(|| rest.next().cloned()).ok_or(format!("{name} needs a value"));
        match name {
            "--count" => {
                plan.count = value()?
                    .parse()
                    .ok()
                    .filter(|count| (1..=HOSTS_MAX).contains(count))
                    .ok_or(format!("--count must be a number from 1 to {HOSTS_MAX}"))?;
            }
            "--rate" => plan.rate = Some(value()?),
            "--" => {
                let command: Vec<String> = rest.cloned().collect();
                return if command.is_empty() { Err("no COMMAND after --".into()) } else { Ok((plan, command)) };
            }
            _ => return Err(format!("{argument:?} is not understood; the COMMAND comes after --")),
        }
    }
    Err("no COMMAND".into())
}

fn run(plan: Plan, command: &[String]) -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        eprintln!(
            "weft hosts: only root can make network namespaces; run it as root, or use hosts you have with --hosts"
        );
        return ExitCode::from(EXIT_SKIPPED);
    }
    // Signals are caught from here on: everything below is undone before this process ends.
    let mut signals = match supervise::Caught::new() {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("weft hosts: cannot catch signals: {error}");
            return ExitCode::from(EXIT_NOT_STARTED);
        }
    };
    for name in fabric::sweep() {
        eprintln!("weft hosts: removed {name}, left by a process that is gone");
    }
    let fabric = match Fabric::create(&plan, &mut || signals.terminated()) {
        Ok(fabric) => fabric,
        Err(Failure::Interrupted) => return supervise::exit_by_signal(signals.terminated().unwrap_or(0)),
        Err(Failure::Unsupported(why)) => {
            eprintln!("weft hosts: network namespaces cannot be made here: {why}");
            return ExitCode::from(EXIT_SKIPPED);
        }
        Err(Failure::Step(why)) => {
            eprintln!("weft hosts: cannot make the virtual hosts: {why}");
            return ExitCode::FAILURE;
        }
    };
    let code = supervise::run(command, &fabric.environment(), &mut signals);
    drop(fabric);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_and_command_are_told_apart() {
        let (plan, command) = parse(&words("--count 3 --rate=10gbit -- mpiexec --count 4")).unwrap();
        assert_eq!((plan.count, plan.rate.as_deref()), (3, Some("10gbit")));
        assert_eq!(command, words("mpiexec --count 4"));
    }

    #[test]
    fn nonsense_is_named() {
        for (line, word) in [
            ("", "COMMAND"),
            ("--count 3 --", "COMMAND"),
            ("--count", "--count"),
            ("--count 0 -- true", "1 to 64"),
            ("--count 65 -- true", "1 to 64"),
            ("true", "\"true\""),
        ] {
            let why = parse(&words(line)).unwrap_err();
            assert!(why.contains(word), "{line:?} says {why:?}");
        }
    }
}
