//! `weft doctor [HOST …]`: checks each host and the paths between them, and names a cure for each problem
//! that it finds.
//!
//! An agent runs on every host, reached as `mpiexec` reaches it. Every step has a time limit, and an agent
//! ends when its standard input closes. [`examine`] collects the agents' observations; [`findings`] draws the
//! conclusions.

mod agent;
mod examine;
mod facts;
mod findings;
mod host;
mod page;
mod probe;
mod protocol;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use weft_launch::{mpiexec, reach};
use weft_mpi::settings::{AGENT, Said};

use findings::Level;
use host::Reach;

/// The exit code for wrong use.
const EXIT_USAGE: u8 = 2;
/// The exit code that shells give to a program that SIGINT ended.
const EXIT_INTERRUPTED: u8 = 130;
/// The most hosts of one run.
const HOSTS_MAX: usize = 256;
/// The longest time limit, seconds.
const TIMEOUT_MAX: f64 = 3600.0;

/// The arguments of `weft doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Hosts, also as lists with commas; none: those of a batch system's allocation, else this machine alone
    hosts: Vec<String>,
    /// The hosts, as for mpiexec
    #[arg(long = "hosts", value_name = "H0,H1")]
    listed: Vec<String>,
    /// The command that runs a program on a host, as for mpiexec [default: WEFT_AGENT, else
    /// `ssh -o BatchMode=yes {host}`]
    #[arg(long, value_name = "TEMPLATE")]
    agent: Option<String>,
    /// Path of weft on the hosts [default: the path of this command]
    #[arg(long, value_name = "PATH")]
    agent_program: Option<String>,
    /// Seconds that a host may take to answer for the first time
    #[arg(long, value_name = "SECONDS", default_value_t = reach::ANSWER_SECONDS as f64)]
    agent_timeout: f64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Be the agent of this host
    #[arg(long, hide = true)]
    serve: bool,
}

/// Examines the hosts and prints the findings.
pub(crate) fn run(options: &Options) -> ExitCode {
    if options.serve {
        return agent::serve();
    }
    let plan = match plan(options) {
        Ok(plan) => plan,
        Err(why) => {
            weft_bench::out::say!("weft doctor: {why}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&interrupted)) {
            weft_bench::out::say!("weft doctor: cannot catch signals: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    }
    let Some(report) = examine::run(&plan, &interrupted) else {
        weft_bench::out::say!("weft doctor: interrupted");
        return ExitCode::from(EXIT_INTERRUPTED);
    };
    let written = if options.json { page::json(&report) } else { page::text(&report) };
    weft_bench::out::write(format_args!("{written}"));
    ExitCode::from(u8::from(report.findings.iter().any(|finding| finding.level == Level::Fault)))
}

/// The hosts to examine.
#[derive(Debug)]
struct Plan {
    /// The names of the hosts, each with whether it is reached by the template instead of being this host.
    hosts: Vec<(String, bool)>,
    reach: Reach,
}

fn plan(options: &Options) -> Result<Plan, String> {
    let mut names: Vec<String> = Vec::new();
    for list in options.hosts.iter().chain(&options.listed) {
        for name in reach::hosts(list)? {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    if !(options.agent_timeout > 0.0 && options.agent_timeout <= TIMEOUT_MAX) {
        return Err(format!("--agent-timeout is a number of seconds up to {TIMEOUT_MAX}"));
    }
    let said = Said::here()?;
    let own = reach::own_name();
    let full_name = reach::full_name();
    let allocated = if names.is_empty() { mpiexec::allocated()? } else { None };
    let template = allocated.as_ref().and_then(|allocated| allocated.template.clone());
    names.extend(allocated.into_iter().flat_map(|allocated| allocated.hosts));
    if names.len() > HOSTS_MAX {
        return Err(format!("{} hosts are too many for one run: at most {HOSTS_MAX}", names.len()));
    }
    let said = options.agent.clone().filter(|text| !text.is_empty()).or_else(|| said.value(AGENT.name));
    // As for mpiexec: a user who names a command wants it used for this host as well.
    let explicit = said.is_some();
    let hosts = match names.is_empty() {
        true => vec![(own, false)],
        false => {
            let is_remote = |name: &str| explicit || !reach::is_local(name, &full_name);
            names.iter().map(|name| (name.clone(), is_remote(name))).collect()
        }
    };
    let program = options.agent_program.clone().map_or_else(host::own_path, Ok)?;
    let template = said.or(template).unwrap_or_else(|| AGENT.default.to_owned());
    reach::command("host", &template, &program, &[]).map_err(|why| format!("--agent or WEFT_AGENT: {why}"))?;
    let answer = Duration::from_secs_f64(options.agent_timeout);
    Ok(Plan { hosts, reach: Reach { template, program, answer } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn planned(line: &str) -> Result<Plan, String> {
        plan(&Line::parse_from(format!("doctor {line}").split_whitespace()).options)
    }

    #[test]
    fn hosts_are_named_as_for_mpiexec() {
        let names = |line: &str| planned(line).unwrap().hosts.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("--agent x h0 h1,h2:4 h0"), ["h0", "h1", "h2"]);
        assert_eq!(names("--hosts h0,h1:2 --agent x h2 --hosts=h0"), ["h2", "h0", "h1"]);
        assert_eq!(planned("").unwrap().hosts, [(reach::own_name(), false)]);
        assert_eq!(planned("--agent x localhost").unwrap().hosts, [("localhost".to_owned(), true)]);
    }

    #[test]
    fn wrong_use_is_a_sentence() {
        for (line, word) in [("$(x)", "host name"), ("--agent-timeout 0 h0", "seconds"), ("--agent ' h0", "quote")] {
            let why = planned(line).unwrap_err();
            assert!(why.contains(word), "{line}: {why}");
        }
    }
}
