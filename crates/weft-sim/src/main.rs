//! `weft-sim <scenario> [--seed N] [--runs N] [--trace]`: plays a scenario; a seed that fails is named, and replays the failure.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use weft_sim::scenario::{self, SCENARIOS};

struct Arguments {
    name: String,
    seed: u64,
    runs: u64,
    trace: bool,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("weft-sim: {why}\nusage: weft-sim <scenario> [--seed N] [--runs N] [--trace]\n");
            for (name, about, _) in SCENARIOS {
                eprintln!("  {name:<16}{about}");
            }
            return ExitCode::from(2);
        }
    };
    let Some(play) = scenario::find(&arguments.name) else {
        eprintln!("weft-sim: no scenario is called {:?}", arguments.name);
        return ExitCode::from(2);
    };
    for run in 0..arguments.runs {
        let seed = arguments.seed.wrapping_add(run);
        match scenario::play(play, seed, arguments.trace) {
            Ok(report) => println!("{} --seed {seed:#x}\n{report}", arguments.name),
            Err(violation) => {
                eprintln!("{} --seed {seed:#x}: {violation}", arguments.name);
                eprintln!("replay: {}", scenario::replay_line(&arguments.name, seed));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { name: String::new(), seed: 1, runs: 1, trace: false };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => arguments.seed = number(words.next())?,
            "--runs" => arguments.runs = number(words.next())?,
            "--trace" => arguments.trace = true,
            _ if word.starts_with('-') || !arguments.name.is_empty() => return Err(format!("what is {word:?}?")),
            _ => arguments.name = word,
        }
    }
    if arguments.name.is_empty() { Err("which scenario?".into()) } else { Ok(arguments) }
}

fn number(word: Option<String>) -> Result<u64, String> {
    let word = word.ok_or("a number is missing")?;
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.map_err(|_| format!("{word:?} is not a number"))
}
