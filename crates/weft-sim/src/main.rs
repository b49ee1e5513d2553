//! `weft-sim <scenario> [--seed N] [--runs N]`: plays a scenario; a seed that fails is named, and replays the failure.
#![forbid(unsafe_code)]

use clap::Parser;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use weft_sim::capture::Capture;
use weft_sim::plan::Plan;
use weft_sim::report::Report;
use weft_sim::scenario::{self, SCENARIOS, Scenario};
use weft_sim::world::{self, Violation, Watch};

/// Plays Weft's protocol in virtual time, over a network that does everything wrong, and checks what arrives.
#[derive(Parser)]
#[command(name = "weft-sim", after_help = list())]
struct Arguments {
    /// One of the scenarios below, or `all`
    scenario: String,
    /// Where chance begins; 0x… or decimal
    #[arg(long, value_parser = number, default_value = "1")]
    seed: u64,
    /// Play with so many seeds, this one and the next
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Print only failures and a last line
    #[arg(long)]
    quiet: bool,
    /// One JSON object for each run
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
}

fn list() -> String {
    let lines = SCENARIOS.iter().map(|(name, about, _)| format!("  {name:<16}{about}"));
    format!("Scenarios:\n{}", lines.collect::<Vec<_>>().join("\n"))
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
            eprintln!("weft-sim: {why}");
            ExitCode::from(2)
        }
    }
}

/// Plays what was asked for; false if something failed.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let all = arguments.scenario == "all";
    let chosen: Vec<_> = SCENARIOS.iter().filter(|(name, _, _)| all || *name == arguments.scenario).collect();
    if chosen.is_empty() {
        return Err(format!("no scenario is called {:?}; `weft-sim --help` lists them", arguments.scenario));
    }
    if arguments.capture.is_some() && (all || arguments.runs != 1) {
        return Err("a capture is of one run: name one scenario, and leave --runs out".into());
    }
    let (mut played, mut failed) = (0, 0_u64);
    for (name, _, scenario) in chosen {
        for run in 0..arguments.runs {
            let seed = arguments.seed.wrapping_add(run);
            played += 1;
            failed += u64::from(!once(arguments, name, *scenario, seed)?);
        }
    }
    if arguments.quiet || arguments.runs > 1 {
        eprintln!("{played} runs, {failed} failed");
    }
    Ok(failed == 0)
}

fn once(arguments: &Arguments, name: &str, scenario: Scenario, seed: u64) -> Result<bool, String> {
    let plan = scenario::plan(scenario, seed, &arguments.without);
    let capture = arguments.capture.as_ref().map(|path| Capture::create(path, plan.ranks)).transpose()?;
    let mut watch = Watch { trace: arguments.trace, capture };
    let outcome = world::run_watched(&plan, seed, &mut watch);
    if let Some(capture) = watch.capture {
        let missing = capture.missing;
        let packets = capture.finish()?;
        eprintln!(
            "{packets} packets captured{}",
            if missing > 0 { format!(", {missing} more were not") } else { String::new() }
        );
    }
    match outcome {
        Ok(report) => {
            show(arguments, name, seed, &plan, &report);
            Ok(true)
        }
        Err(violation) => {
            fail(arguments, name, seed, &plan, &violation);
            Ok(false)
        }
    }
}

fn nuisances(plan: &Plan) -> Vec<String> {
    plan.nuisances.iter().map(ToString::to_string).collect()
}

fn show(arguments: &Arguments, name: &str, seed: u64, plan: &Plan, report: &Report) {
    if arguments.json {
        let mut value = report.json();
        value["scenario"] = json!(name);
        value["seed"] = json!(format!("{seed:#x}"));
        value["nuisances"] = json!(nuisances(plan));
        value["events_per_second"] = json!(report.events_per_second());
        println!("{value}");
    } else if !arguments.quiet {
        println!("{name} --seed {seed:#x}: {} ranks, {} flows, {}", plan.ranks, report.flows, about(plan));
        println!("{report}");
        let (events, rate) = (report.events, report.events_per_second() / 1e6);
        println!("  simulated  {events} events in {:.2} s, {rate:.2} million a second", report.wall.as_secs_f64());
    }
}

fn about(plan: &Plan) -> String {
    if plan.nuisances.is_empty() { "nothing goes wrong".into() } else { nuisances(plan).join(", ") }
}

fn fail(arguments: &Arguments, name: &str, seed: u64, plan: &Plan, violation: &Violation) {
    if arguments.json {
        println!("{}", json!({ "scenario": name, "seed": format!("{seed:#x}"), "violation": violation.0 }));
    }
    eprintln!("{name} --seed {seed:#x}: {violation}");
    eprintln!("  {} ranks, {:?}", plan.ranks, plan.topology);
    eprintln!("  {:?}", plan.settings);
    eprintln!("  {}", about(plan));
    eprintln!("replay: {}", scenario::replay_line(name, seed));
}
