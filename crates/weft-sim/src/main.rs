//! `weft-sim <scenario> [--seed N] [--runs N]`: plays a scenario; a seed that fails is named, and replays the
//! failure.
//!
//! `weft-sim programs`, `program` and `shrink` do the same with programs on whole engines; `files` and `file`
//! with accesses to files.
#![forbid(unsafe_code)]

mod programs;

use clap::Parser;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_sim::capture::Capture;
use weft_sim::plan::Plan;
use weft_sim::report::Report;
use weft_sim::scenario::{self, SCENARIOS, Scenario};
use weft_sim::violation::Violation;
use weft_sim::world::{self, Watch};

/// Most runs at a time.
const JOBS_MAX: usize = 256;

/// Plays Weft's protocol in virtual time, over a network that does everything wrong, and checks what arrives.
#[derive(Parser)]
#[command(name = "weft-sim", after_help = list())]
struct Arguments {
    /// A scenario of the list below, or `all`; or `programs`, `program`, `shrink`, `files`, `file`
    scenario: String,
    /// The seed of all random choices; 0x… or decimal
    #[arg(long, value_parser = number, default_value = "1")]
    seed: u64,
    /// The number of seeds to play: this one and those that follow
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// The number of runs at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Print only failures and a last line
    #[arg(long)]
    quiet: bool,
    /// Print one JSON object for each run
    #[arg(long)]
    json: bool,
    /// Leave out the nuisances of these names
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Print every packet
    #[arg(long)]
    trace: bool,
    /// Write every packet to a file that Wireshark opens (one run)
    #[arg(long, value_name = "FILE.pcapng")]
    capture: Option<PathBuf>,
    /// Start no further programs after one that fails
    #[arg(long)]
    until_failure: bool,
    /// The number of processes of each program
    #[arg(long, value_parser = clap::value_parser!(u8).range(2..=6))]
    ranks: Option<u8>,
}

fn list() -> String {
    let lines = SCENARIOS.iter().map(|(name, about, _)| format!("  {name:<16}{about}"));
    format!("Scenarios:\n{}\n\nWhole jobs:\n{}", lines.collect::<Vec<_>>().join("\n"), programs::LIST)
}

fn number(word: &str) -> Result<u64, String> {
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.map_err(|_| format!("{word:?} is not a number"))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            weft_sim::out::remark(format_args!("weft-sim: {why}"));
            ExitCode::from(2)
        }
    }
}

/// Plays the scenarios that the arguments name. Returns false if a run failed.
fn run(arguments: &Arguments) -> Result<bool, String> {
    if arguments.jobs == 0 || arguments.jobs > JOBS_MAX {
        return Err(format!("{} jobs; there are 1 to {JOBS_MAX}", arguments.jobs));
    }
    if let Some(done) = programs::run(arguments) {
        return Ok(done);
    }
    let all = arguments.scenario == "all";
    let chosen: Vec<_> = SCENARIOS.iter().filter(|(name, _, _)| all || *name == arguments.scenario).collect();
    if chosen.is_empty() {
        return Err(format!("no scenario is called {:?}; `weft-sim --help` lists them", arguments.scenario));
    }
    if arguments.capture.is_some() && (all || arguments.runs != 1) {
        return Err("a capture is of one run: name one scenario, and leave --runs out".into());
    }
    let runs = chosen.len() as u64 * arguments.runs;
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || -> Result<(), String> {
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= runs {
                return Ok(());
            }
            let (name, _, scenario) = chosen[(run / arguments.runs) as usize];
            let seed = arguments.seed.wrapping_add(run % arguments.runs);
            failed.fetch_add(u64::from(!once(arguments, name, *scenario, seed)?), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker reports what goes wrong"))
    })?;
    let failed = failed.into_inner();
    if arguments.quiet || runs > 1 {
        weft_sim::out::remark(format_args!("{runs} runs, {failed} failed"));
    }
    Ok(failed == 0)
}

/// Plays one run. Returns false if it failed.
fn once(arguments: &Arguments, name: &str, scenario: Scenario, seed: u64) -> Result<bool, String> {
    let plan = scenario::plan(scenario, seed, &arguments.without);
    let capture = arguments.capture.as_ref().map(|path| Capture::create(path, plan.ranks)).transpose()?;
    let mut watch = Watch { trace: arguments.trace, capture };
    let outcome = world::run_watched(&plan, seed, &mut watch);
    if let Some(capture) = watch.capture {
        let missing = capture.missing;
        weft_sim::out::remark(format_args!("{} packets captured, {missing} more were not", capture.finish()?));
    }
    let text = match &outcome {
        Ok(report) => success(arguments, name, seed, &plan, report),
        Err(violation) => {
            weft_sim::out::remark(format_args!("{}", failure(arguments, name, seed, &plan, violation)));
            arguments.json.then(|| json!({ "scenario": name, "seed": hex(seed), "violation": violation.0 }).to_string())
        }
    };
    if let Some(text) = text {
        weft_sim::out::line(format_args!("{text}"));
    }
    Ok(outcome.is_ok())
}

fn nuisances(plan: &Plan) -> Vec<String> {
    plan.nuisances.iter().map(ToString::to_string).collect()
}

fn about(plan: &Plan) -> String {
    if plan.nuisances.is_empty() { "nothing goes wrong".into() } else { nuisances(plan).join(", ") }
}

fn hex(seed: u64) -> String {
    format!("{seed:#x}")
}

fn success(arguments: &Arguments, name: &str, seed: u64, plan: &Plan, report: &Report) -> Option<String> {
    if arguments.json {
        let mut value = report.json();
        value["scenario"] = json!(name);
        value["seed"] = json!(hex(seed));
        value["nuisances"] = json!(nuisances(plan));
        value["events_per_second"] = json!(report.events_per_second());
        return Some(value.to_string());
    }
    let (events, rate) = (report.events, report.events_per_second() / 1e6);
    let (ranks, flows, seconds) = (plan.ranks, report.flows, report.processor.0 as f64 / 1e9);
    (!arguments.quiet).then(|| {
        format!(
            "{name} --seed {seed:#x}: {ranks} ranks, {flows} flows, {}\n{report}\n  \
             simulated  {events} events in {seconds:.2} s of a processor, {rate:.2} million a second",
            about(plan)
        )
    })
}

fn failure(arguments: &Arguments, name: &str, seed: u64, plan: &Plan, violation: &Violation) -> String {
    let mut without = arguments.without.clone();
    without.extend(scenario::idle_nuisances(plan, seed));
    let fewer = scenario::plan(scenario::find(name).expect("it was played"), seed, &without);
    format!(
        "{name} --seed {seed:#x}: {violation}\n  {} ranks, {:?}\n  {:?}\n  {}\n  still fails with: {}\nreplay: {}",
        plan.ranks,
        plan.topology,
        plan.settings,
        about(plan),
        about(&fewer),
        scenario::replay_line(name, seed, &without)
    )
}
