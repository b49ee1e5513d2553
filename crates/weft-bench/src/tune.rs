//! `weft tune`: measures each algorithm of each collective on this machine, and writes a table for
//! `WEFT_COLLECTIVES_TABLE`; or measures the protocols of large messages (`costs.rs`).
//!
//! Each algorithm is measured by a job of its own, in which its setting asks for it; the measured program is
//! plain C over the MPI API.

mod costs;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;
use weft_mpi::algorithms::choice::{Operation, Table};

use crate::measure::build::{Programs, TUNE};
use crate::measure::kind::Kind;
use crate::measure::library::{Mpi, Spec};
use crate::measure::progress::Progress;

/// The factor by which another algorithm must be quicker: otherwise a size keeps the algorithm of the size
/// before.
const CLEARLY: f64 = 0.95;
/// Seconds that one job may take.
const LIMIT_SECONDS: u32 = 120;

/// The arguments of `weft tune`.
#[derive(Args)]
pub struct Arguments {
    /// Measure the protocols of large messages between two ranks of a node, and write their costs
    #[arg(long, conflicts_with_all = ["operation", "sizes", "n"])]
    costs: bool,
    /// Ranks
    #[arg(short, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=65536))]
    n: u32,
    /// Only these operations, such as allreduce,bcast
    #[arg(long, value_delimiter = ',')]
    operation: Vec<String>,
    /// Bytes, as the table counts them
    #[arg(long, value_delimiter = ',', default_values_t = [8, 1 << 10, 8 << 10, 32 << 10, 128 << 10, 1 << 20])]
    sizes: Vec<u64>,
    /// Seconds for each size of each algorithm or protocol
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    /// Write the table or the costs here, and not to the file that the command names at the end
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Print only errors
    #[arg(long, short)]
    quiet: bool,
    /// Options for mpiexec, after `--`: such as --hosts A,B -ppn 4
    #[arg(last = true, value_name = "OPTION")]
    mpiexec: Vec<String>,
}

/// The numbers of ranks and nodes of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Where {
    ranks: u32,
    nodes: u32,
    per_node: u32,
}

/// The measurements of an operation's jobs: by size, the microseconds of each algorithm.
type Times = BTreeMap<u64, Vec<(f64, &'static str)>>;

/// Runs `weft tune`. Exit codes: 0 if the table is written, 1 if not, 2 for wrong use.
pub fn main(arguments: &Arguments) -> ExitCode {
    let operations = match crate::operations::operations(&arguments.operation) {
        Ok(operations) => operations,
        Err(why) => {
            crate::out::say!("weft tune: {why}");
            return ExitCode::from(2);
        }
    };
    match tune(arguments, &operations) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            crate::out::say!("weft tune: {why}");
            ExitCode::FAILURE
        }
    }
}

/// A job of the measuring program.
struct Job<'a> {
    ranks: u32,
    limit_seconds: u32,
    /// The program's word for what it measures.
    what: &'a str,
    /// Bytes.
    sizes: &'a [u64],
    settings: Vec<(String, String)>,
}

fn tune(arguments: &Arguments, operations: &[Operation]) -> Result<(), String> {
    let cache = crate::measure::cache()?;
    let mpi = Mpi::find(&Spec::plain(Kind::Weft), &cache)?;
    let compiler = mpi.compiler().ok_or_else(|| format!("there is no bin/mpicc in {}", mpi.prefix.display()))?;
    let program = Programs::new(&cache, &compiler, Vec::new())?.build(TUNE)?;
    let default = if arguments.costs { "weft.costs" } else { "weft-collectives.table" };
    let output = arguments.output.clone().unwrap_or_else(|| default.into());
    if arguments.costs {
        return costs::tune(arguments, &mpi, &program, &output);
    }
    let mut text = String::from(
        "# Written by `weft tune`: microseconds behind each line are those of its algorithm at the largest size it was best at.\n",
    );
    let jobs = operations.iter().map(|operation| operation.candidates().len()).sum();
    let progress = Progress::new(jobs, arguments.quiet);
    for &operation in operations {
        let (mut times, mut places) = (Times::new(), None);
        for &algorithm in operation.candidates() {
            let name = format!("{} {algorithm}", operation.name());
            progress.begin(&name);
            let began = Instant::now();
            let measured = measure_algorithm(arguments, &mpi, &program, operation, algorithm);
            progress.end(&name, began.elapsed(), measured.as_ref().err().map(String::as_str));
            let Ok((place, measured)) = measured else { continue };
            places = Some(place);
            for (size, microseconds) in measured {
                times.entry(size).or_default().push((microseconds, algorithm));
            }
        }
        let Some(place) = places else { return Err(format!("no algorithm of {} could be measured", operation.name())) };
        text += &rules(operation, place, &times);
    }
    progress.finish();
    // The library must be able to read the table that is written.
    Table::parse(&text).map_err(|why| format!("the table would not be understood: {why}"))?;
    std::fs::write(&output, text).map_err(|error| format!("{}: {error}", output.display()))?;
    if !arguments.quiet {
        crate::out::say!("WEFT_COLLECTIVES_TABLE={} uses it", output.display());
    }
    Ok(())
}

/// Measures one algorithm: see [`measure`].
fn measure_algorithm(
    arguments: &Arguments,
    mpi: &Mpi,
    program: &Path,
    operation: Operation,
    algorithm: &str,
) -> Result<(Where, Vec<(u64, f64)>), String> {
    let sizes = if operation == Operation::Barrier { &[0] } else { &arguments.sizes[..] };
    let (ranks, limit_seconds, what) = (arguments.n, LIMIT_SECONDS, operation.name());
    let setting = (format!("WEFT_{}", operation.name().to_uppercase()), algorithm.to_owned());
    measure(arguments, mpi, program, &Job { ranks, limit_seconds, what, sizes, settings: vec![setting] })
}

/// Runs one job. Returns its ranks and nodes, and the microseconds for each size.
fn measure(
    arguments: &Arguments,
    mpi: &Mpi,
    program: &Path,
    job: &Job<'_>,
) -> Result<(Where, Vec<(u64, f64)>), String> {
    let mut command = Command::new(mpi.bin("mpiexec"));
    let Job { ranks, limit_seconds, what, sizes, settings } = job;
    command.args(["-n", &ranks.to_string(), "--timeout", &limit_seconds.to_string()]).args(&arguments.mpiexec);
    command.arg(program).arg(what).arg(arguments.seconds.to_string()).args(sizes.iter().map(u64::to_string));
    // No other setting may disturb the measurement.
    command.env_remove("WEFT_COLLECTIVES_TABLE").env_remove("WEFT_COSTS").env_remove("WEFT_EAGER_LIMIT");
    command.envs(settings.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("{}: {error}", mpi.bin("mpiexec").display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(said.lines().next().unwrap_or("it failed without a word").to_owned());
    }
    read(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| "the measuring program said something strange".to_owned())
}

/// Reads the lines of the measuring program: first the numbers of ranks, of nodes and of ranks of the fullest
/// node, then a size and its microseconds each.
fn read(text: &str) -> Option<(Where, Vec<(u64, f64)>)> {
    let mut lines = text.lines();
    let first: Vec<u32> = lines.next()?.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [ranks, nodes, per_node] = first[..] else { return None };
    let line = |line: &str| {
        let (size, microseconds) = line.split_once(' ')?;
        Some((size.parse().ok()?, microseconds.parse::<f64>().ok().filter(|time| time.is_finite())?))
    };
    Some((Where { ranks, nodes, per_node }, lines.map(line).collect::<Option<_>>()?))
}

/// The lines of a table for this number of ranks and nodes: each size takes the algorithm that was quickest
/// at the nearest measured size.
fn rules(operation: Operation, place: Where, times: &Times) -> String {
    let mut chosen: Vec<(u64, f64, &str)> = Vec::new();
    for (&size, measured) in times {
        let Some(&best) = measured.iter().min_by(|one, other| one.0.total_cmp(&other.0)) else { continue };
        let before = chosen.last().and_then(|(_, _, algorithm)| measured.iter().find(|(_, name)| name == algorithm));
        let (time, algorithm) = match before {
            Some(&before) if before.0 * CLEARLY <= best.0 => before,
            _ => best,
        };
        chosen.push((size, time, algorithm));
    }
    let Where { ranks, nodes, per_node } = place;
    let here = format!(
        "{:<15} ranks>={ranks} ranks<={ranks} nodes>={nodes} nodes<={nodes} ranks/node>={per_node} ranks/node<={per_node}",
        operation.name()
    );
    let mut text = String::new();
    for (at, &(size, time, algorithm)) in chosen.iter().enumerate() {
        let next = chosen.get(at + 1);
        if next.is_some_and(|next| next.2 == algorithm) {
            continue;
        }
        // The bound is halfway to the next size, as factors go.
        let until = next.map(|next| ((size.max(1) as f64) * next.0 as f64).sqrt() as u64);
        let until = until.map_or(String::new(), |until| format!(" bytes<={until}"));
        let _ = writeln!(text, "{here}{until} {algorithm} # {time:.1}");
    }
    text
}

#[cfg(test)]
mod tests {
    use weft_mpi::algorithms::choice::{Choices, Facts, Place, Source};

    use super::*;

    #[test]
    fn a_written_table_is_read_and_obeyed() {
        let said = "8 2 4\n8 10.0\n1024 20.0\n1048576 900.5\n";
        let (place, times) = read(said).unwrap();
        assert_eq!(place, Where { ranks: 8, nodes: 2, per_node: 4 });
        let mut measured = Times::new();
        for (size, ring) in times {
            // Doubling is hardly slower at 1 KiB, and much slower at 1 MiB.
            let doubling = if size > 1024 { 3.0 * ring } else { ring * if size == 8 { 0.5 } else { 1.04 } };
            measured.insert(size, vec![(ring, "ring"), (doubling, "doubling")]);
        }
        let text = rules(Operation::Allreduce, place, &measured);
        let choices = Choices::new(Vec::new(), Table::parse(&text).unwrap());
        let place = Place { nodes: 2, per_node: 4, ..Place::apart(8) };
        let choose =
            |ranks, bytes| choices.choose(Operation::Allreduce, &Facts { ranks, bytes, commutative: true, place });
        for (bytes, name) in
            [(1, "doubling"), (1024, "doubling"), (32 << 10, "doubling"), (40 << 10, "ring"), (1 << 30, "ring")]
        {
            let (algorithm, source) = choose(8, bytes);
            assert_eq!((algorithm.to_string().as_str(), source), (name, Source::Users), "{bytes}: {text}");
        }
        assert_eq!(choose(7, 8).1, Source::BuiltIn);
    }

    #[test]
    fn what_makes_no_sense_is_no_measurement() {
        for text in ["", "8 2\n8 1.0", "8 2 4\n8", "8 2 4\n8 fast", "8 2 4\n8 inf"] {
            assert!(read(text).is_none(), "{text:?}");
        }
    }
}
