//! `weft hosts`: several virtual hosts on one machine, for as long as one command runs.
//!
//! Every host is a network namespace with an interface `e0`, and more on request. The interfaces of one
//! number meet in a bridge. The bridge lives in a namespace of its own, so the machine's own network is never
//! touched. The command finds its hosts by two variables:
//!
//! - `WEFT_HOSTS` is the list of their names, `weft-4711-0,weft-4711-1`;
//! - `WEFT_AGENT` is the template of the command by which `mpiexec` reaches a host,
//!   `weft hosts enter {host}`. Inside, the machine's name is the host's.
//!
//! A user who may not make hosts on the machine makes them in a user namespace (`namespaces.rs`), with the
//! same result.
//!
//! However the command ends, the hosts and the processes left in them are removed. After SIGKILL they stay,
//! and the next start sweeps them away: the creator's process id is part of every name.

pub(crate) mod fabric;
pub(crate) mod loss;
pub(crate) mod namespaces;
pub(crate) mod supervise;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use fabric::{Fabric, Failure, Plan};
use loss::Loss;

/// The exit code when network namespaces cannot be made, because this user has neither the privilege nor a
/// user namespace. Test drivers skip a case that ends with this code.
pub(crate) const EXIT_SKIPPED: u8 = 77;
/// The exit code when the command could not be started, as shells have it.
pub(crate) const EXIT_NOT_STARTED: u8 = 127;

const HOSTS_MAX: i64 = 64;
const INTERFACES_MAX: i64 = 8;

/// The arguments of `weft hosts`.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Run COMMAND beside virtual hosts joined by a switch; it finds them in WEFT_HOSTS and WEFT_AGENT
    Run {
        /// The number of hosts
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=HOSTS_MAX))]
        count: u8,
        /// Network interfaces of each host: e0 and so on, each in a network of its own
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=INTERFACES_MAX))]
        interfaces: u8,
        /// The rate at which each host may send, as `tc` calls it: 10gbit; a list gives each interface its
        /// own
        #[arg(long, value_delimiter = ',')]
        rate: Vec<String>,
        /// Share of frames that each host drops on arrival: 1%
        #[arg(long)]
        loss: Option<Loss>,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Become COMMAND inside a virtual host
    Enter {
        host: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Remove virtual hosts whose creator is gone
    Sweep,
}

/// Runs `weft hosts …`; the exit code is the command's, or 128 + signal, or one of the codes above.
pub fn main(arguments: Arguments) -> ExitCode {
    match arguments.action {
        Action::Run { count, interfaces, rate: rates, loss, command } => {
            run(&Plan { count: count.into(), interfaces: interfaces.into(), rates, loss }, &command)
        }
        Action::Enter { host, command } => {
            crate::out::say!("weft hosts: {}", fabric::enter(&host, &command));
            ExitCode::from(EXIT_NOT_STARTED)
        }
        Action::Sweep => {
            for name in fabric::sweep() {
                crate::out::print_line!("removed {name}");
            }
            ExitCode::SUCCESS
        }
    }
}

fn run(plan: &Plan, command: &[String]) -> ExitCode {
    // Signals are caught from here on: everything below is undone before this process ends.
    let mut signals = match supervise::Caught::new() {
        Ok(signals) => signals,
        Err(error) => {
            crate::out::say!("weft hosts: cannot catch signals: {error}");
            return ExitCode::from(EXIT_NOT_STARTED);
        }
    };
    // From inside a user namespace this process would not see the hosts that others have left.
    for name in fabric::sweep() {
        crate::out::say!("weft hosts: removed {name}, left by a process that is gone");
    }
    match namespaces::prepare() {
        Ok(ground) => ground.remark().iter().for_each(|remark| crate::out::say!("weft hosts: {remark}")),
        Err(why) => {
            crate::out::say!("weft hosts: {why}; run it as root, or use hosts you have with --hosts");
            return ExitCode::from(EXIT_SKIPPED);
        }
    }
    let fabric = match Fabric::create(plan, &mut || signals.terminated()) {
        Ok(fabric) => fabric,
        Err(Failure::Interrupted) => return supervise::exit_by_signal(signals.terminated().unwrap_or(0)),
        Err(Failure::Unsupported(why)) => {
            crate::out::say!("weft hosts: network namespaces cannot be made here: {why}");
            return ExitCode::from(EXIT_SKIPPED);
        }
        Err(Failure::Step(why)) => {
            crate::out::say!("weft hosts: cannot make the virtual hosts: {why}");
            return ExitCode::FAILURE;
        }
    };
    let code = supervise::run(command, &fabric.environment(), &mut signals);
    drop(fabric);
    code
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(line: &str) -> Result<Action, String> {
        let words = ["hosts"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.arguments.action).map_err(|error| error.to_string())
    }

    #[test]
    fn options_and_command_are_told_apart() {
        let line = "run --count 3 --interfaces 2 --rate=10gbit,1gbit --loss 1% -- mpiexec --count 4";
        let Ok(Action::Run { count, interfaces, rate, loss, command }) = parse(line) else {
            panic!("{:?}", parse(line))
        };
        assert_eq!((count, interfaces, loss), (3, 2, Some(Loss { percent: 1.0 })));
        assert_eq!(rate, ["10gbit", "1gbit"]);
        assert_eq!(command, ["mpiexec", "--count", "4"]);
        let Ok(Action::Enter { host, command }) = parse("enter h0 ls -l --all") else { panic!("enter") };
        assert_eq!((host.as_str(), command.join(" ").as_str()), ("h0", "ls -l --all"));
    }

    #[test]
    fn nonsense_is_named() {
        for (line, word) in [
            ("", "hosts"),
            ("run --count 3 --", "COMMAND"),
            ("run --count", "--count"),
            ("run --count 0 -- true", "1..=64"),
            ("run --count 65 -- true", "1..=64"),
            ("run --interfaces 9 -- true", "1..=8"),
            ("run --loss much -- true", "0.0001%"),
            ("run true", "'true'"),
            ("enter h0", "COMMAND"),
        ] {
            let why = parse(line).unwrap_err();
            assert!(why.contains(word), "{line:?} says {why:?}");
        }
    }
}
