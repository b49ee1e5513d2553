//! `cargo xtask soak`: makes and frees all kinds of objects for an hour between two hosts that lose packets,
//! and checks whether any quantity grows.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::context::Context;
use super::growth::Growth;
use super::process::{self, Finished, Run};

const HOW: &str = "usage: cargo xtask soak [--minutes N] [--prefix DIR] [--json FILE]";
pub(crate) const RANKS: u32 = 4;
/// The losses of a network on a good day.
const FAULTS: &str = "drop=0.1%,duplicate=0.05%,reorder=0.1%,seed=34";
pub(crate) const SAMPLES: u32 = 400;
/// The part of the samples that is left out: caches fill.
const WARMING_UP: f64 = 0.2;
/// The time that a run may take beyond its duration: to start, to end its last round, to leave.
pub(crate) const SPARE_SECONDS: u64 = 180;
const BAR: usize = 30;
/// The number of characters at the end of the output in which the last sample is looked for.
const LOOKED_BACK: usize = 2000;

/// A quantity that must not grow.
pub(crate) struct Quantity {
    name: &'static str,
    pub(crate) field: &'static str,
    /// The amount by which the quantity may grow in a run of any length, if that is more than `share` allows.
    tolerance: f64,
    /// The part of its median by which the quantity may grow, if that is more than `tolerance`.
    share: f64,
    /// Says whether only a long run can judge the quantity.
    takes_long: bool,
}

const QUANTITIES: [Quantity; 6] = [
    Quantity { name: "heap, bytes", field: "heap", tolerance: 65536.0, share: 0.01, takes_long: false },
    Quantity { name: "memory of its own, KiB", field: "resident_kb", tolerance: 512.0, share: 0.02, takes_long: true },
    Quantity { name: "descriptors", field: "descriptors", tolerance: 0.9, share: 0.0, takes_long: false },
    Quantity { name: "mappings", field: "mappings", tolerance: 8.0, share: 0.0, takes_long: false },
    Quantity { name: "threads", field: "threads", tolerance: 0.9, share: 0.0, takes_long: false },
    Quantity {
        name: "processor time a turn, µs", field: "processor_us", tolerance: 2.0, share: 0.2, takes_long: true
    },
];

/// The growth of one quantity of one rank.
pub(crate) struct Row {
    of: String,
    rank: u64,
    pub(crate) quantity: &'static Quantity,
    growth: Growth,
    tolerance: f64,
}

impl Row {
    pub(crate) fn grows(&self) -> bool {
        self.growth.exceeds(self.tolerance)
    }

    fn to_json(&self) -> Value {
        let Growth { median, slope, span } = self.growth;
        json!({
            "of": self.of, "rank": self.rank, "quantity": self.quantity.field, "median": median, "turns": span,
            "growth": slope.middle * span, "growth_low": slope.low * span, "growth_high": slope.high * span,
            "tolerance": self.tolerance, "grows": self.grows(),
        })
    }
}

/// The samples that a program has printed.
fn samples(output: &str) -> Vec<Value> {
    // Other lines, and lines that are cut off, are no samples.
    output.lines().filter_map(|line| serde_json::from_str(line.split_once("sample ")?.1).ok()).collect()
}

/// Judges all quantities of all ranks.
///
/// # Errors
/// There are too few samples for a judgement.
fn judge(samples: &[Value], is_long: bool) -> anyhow::Result<Vec<Row>> {
    let mut series: BTreeMap<(String, u64), Vec<&Value>> = BTreeMap::new();
    for sample in samples {
        let of = sample["of"].as_str().unwrap_or_default().to_owned();
        series.entry((of, sample["rank"].as_u64().unwrap_or_default())).or_default().push(sample);
    }
    anyhow::ensure!(!series.is_empty(), "the program has printed no samples");
    let mut rows = Vec::new();
    for ((of, rank), samples) in series {
        let samples = &samples[(samples.len() as f64 * WARMING_UP).ceil() as usize..];
        for quantity in QUANTITIES.iter().filter(|quantity| is_long || !quantity.takes_long) {
            let number = |sample: &Value, field: &str| sample[field].as_f64().context("a sample lacks a number");
            let points: anyhow::Result<Vec<(f64, f64)>> =
                samples.iter().map(|sample| Ok((number(sample, "turn")?, number(sample, quantity.field)?))).collect();
            let few = || format!("{} samples of rank {rank} are too few to say anything", samples.len());
            let growth = Growth::of(&points?).with_context(few)?;
            let tolerance = quantity.tolerance.max(quantity.share * growth.median);
            rows.push(Row { of: of.clone(), rank, quantity, growth, tolerance });
        }
    }
    Ok(rows)
}

pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:4}  {:26} {:>12} {:>12} {:>27} {:>12}\n",
        "rank", "quantity", "median", "growth", "99 % sure between", "tolerated"
    );
    for row in rows {
        let Growth { median, slope, span } = row.growth;
        let sure = format!("{:.1} … {:.1}", slope.low * span, slope.high * span);
        let verdict = if row.grows() { "GROWS" } else { "flat" };
        text += &format!(
            "{:4}  {:26} {median:12.1} {:12.1} {sure:>27} {:12.1}  {verdict}\n",
            row.rank,
            row.quantity.name,
            slope.middle * span,
            row.tolerance
        );
    }
    text
}

/// The run of the program that uses all kinds of objects, on two hosts.
pub(crate) fn soak(context: &Context, seconds: u64, samples: u32, leak: Option<&str>) -> anyhow::Result<Run> {
    let run = context.mpiexec_on_hosts(RANKS)?.arg(context.compile("tests/c/soak.c")?);
    let run = run.args([seconds.to_string(), samples.to_string()]).args(leak);
    Ok(run.env("WEFT_FAULTS", FAULTS))
}

/// Runs `cargo xtask soak`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut prefix = PathBuf::from("build/prefix");
    let (mut minutes, mut file) = (60, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{argument} needs a value\n{HOW}"));
        match argument.as_str() {
            "--minutes" => {
                minutes = value()?
                    .parse()
                    .ok()
                    .filter(|minutes| *minutes > 0)
                    .context("--minutes takes a whole number from 1 on")?
            }
            "--prefix" => prefix = value()?.into(),
            "--json" => file = Some(PathBuf::from(value()?)),
            _ => anyhow::bail!("{argument} is not understood\n{HOW}"),
        }
    }
    let context = Context::new(None, &prefix, None)?;
    process::catch_interrupts()?;
    let seconds = minutes * 60;
    println!("soak: {RANKS} ranks on two hosts for {minutes} min, {FAULTS}");
    let finished = watch(&soak(&context, seconds, SAMPLES, None)?, seconds)?;
    let samples = samples(&finished.output);
    anyhow::ensure!(finished.code == Some(0), "the program failed\n{}", finished.report());
    let rows = judge(&samples, true)?;
    println!("{}", table(&rows));
    if let Some(file) = file {
        let rows: Vec<Value> = rows.iter().map(Row::to_json).collect();
        let all = json!({"minutes": minutes, "ranks": RANKS, "faults": FAULTS, "rows": rows, "samples": samples});
        std::fs::write(&file, format!("{all}\n")).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let growing = rows.iter().filter(|row| row.grows()).count();
    anyhow::ensure!(growing == 0, "{growing} of {} quantities grow", rows.len());
    println!("soak: nothing grows");
    Ok(())
}

/// Runs the program to its end, with a bar on a terminal, and elsewhere a line for each tenth.
fn watch(run: &Run, seconds: u64) -> anyhow::Result<Finished> {
    let running = run.start()?;
    let began = Instant::now();
    let terminal = std::io::stdout().is_terminal();
    let mut tenths = 0;
    while !running.has_ended() && !process::is_interrupted() && began.elapsed().as_secs() < seconds + SPARE_SECONDS {
        std::thread::sleep(Duration::from_millis(500));
        let part = (began.elapsed().as_secs_f64() / seconds as f64).min(1.0);
        let is_due = terminal || (part * 10.0) as u32 > tenths;
        if !is_due {
            continue;
        }
        tenths = (part * 10.0) as u32;
        let output = running.output();
        let from = output.char_indices().rev().nth(LOOKED_BACK).map_or(0, |(at, _)| at);
        let rounds = samples(&output[from..]).last().and_then(|sample| sample["turn"].as_u64()).unwrap_or_default();
        let full = (part * BAR as f64) as usize;
        let minutes = began.elapsed().as_secs_f64() / 60.0;
        let line = format!(
            "{}{} {minutes:.1} of {} min, round {rounds}",
            "█".repeat(full),
            "░".repeat(BAR - full),
            seconds / 60
        );
        if terminal {
            print!("\r\x1b[K{line}");
            let _ = std::io::stdout().flush();
        } else {
            println!("{line}");
        }
    }
    if terminal {
        print!("\r\x1b[K");
    }
    running.finish(Duration::from_secs(seconds + SPARE_SECONDS))
}

/// Runs a program that prints samples; returns the growth of its quantities.
pub(crate) fn judged(run: anyhow::Result<Run>, limit_seconds: u64, is_long: bool) -> anyhow::Result<Vec<Row>> {
    let finished = run?.limit(limit_seconds).finish()?;
    anyhow::ensure!(finished.code == Some(0), "the program failed\n{}", finished.report());
    judge(&samples(&finished.output), is_long)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of rank 0 in 60 rounds; the heap grows by `heap` in each, and the processor time by `time`.
    fn output(heap: u64, time: f64) -> String {
        let line = |turn: u64| {
            let (heap, time) =
                (1_000_000 + heap * turn + turn % 7 * 1000, 5000.0 + time * turn as f64 + (turn % 5) as f64 * 400.0);
            format!(
                "[0] sample {{\"of\":\"soak\",\"rank\":0,\"turn\":{turn},\"heap\":{heap},\"resident_kb\":9000,\"descriptors\":12,\
                 \"mappings\":80,\"threads\":2,\"processor_us\":{time}}}\n"
            )
        };
        (1..=60).map(line).collect::<String>() + "sample {\"of\":\"so"
    }

    fn growing(output: &str, is_long: bool) -> Vec<&'static str> {
        let rows = judge(&samples(output), is_long).expect("samples enough");
        rows.iter().filter(|row| row.grows()).map(|row| row.quantity.field).collect()
    }

    #[test]
    fn what_grows_is_named() {
        assert_eq!(growing(&output(0, 0.0), true), [""; 0]);
        assert_eq!(growing(&output(5000, 0.0), true), ["heap"]);
        assert_eq!(growing(&output(0, 50.0), true), ["processor_us"]);
        assert_eq!(growing(&output(5000, 50.0), false), ["heap"], "a short run says nothing of time");
    }

    #[test]
    fn without_samples_there_is_no_verdict() {
        assert!(judge(&[], true).is_err());
        assert!(
            judge(&samples(output(0, 0.0).split_inclusive('\n').take(4).collect::<String>().as_str()), true).is_err()
        );
    }
}
