//! `weft simulate`: simulates collectives in jobs of any size on a network of leaf and spine switches,
//! broadcasts by multicast ([`bcast`]), and collectives between two clusters ([`clusters`]).

mod bcast;
mod clusters;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use weft_mpi::algorithms::choice::{Choices, Layout, Operation, Table};
use weft_mpi::algorithms::cost::{Case, Network};

use weft_bench::{Curve, Words, curves, operations};

/// The most ranks of a simulated job.
const RANKS_MAX: u32 = 4096;
/// The most steps of all schedules together in a simulation: more would take minutes, and gigabytes.
const STEPS_MAX: usize = 6 << 20;
/// The sizes in bytes, as the table of choices counts them.
const SIZES: [(u64, &str); 3] = [(8, "8 B"), (16 << 10, "16 KiB"), (1 << 20, "1 MiB")];

/// The arguments of `weft simulate`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The time of each collective, by the algorithms that the library chooses, over the number of ranks
    Collectives(Collectives),
    /// The time of a broadcast by multicast, by each scheme, and by a tree: in formulas and by the state
    /// machines of the library
    Bcast(bcast::Bcast),
    /// Two clusters that one link joins: how often collectives cross it, and how long they take
    Clusters(clusters::Clusters),
}

#[derive(Args)]
struct Collectives {
    /// Powers of two up to this
    #[arg(long, default_value_t = RANKS_MAX, value_parser = clap::value_parser!(u32).range(2..=RANKS_MAX as i64))]
    ranks: u32,
    /// Ranks on each host
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    per_host: u32,
    /// Only these operations, such as allreduce,bcast
    #[arg(long, value_delimiter = ',')]
    operation: Vec<String>,
    /// A table as for WEFT_COLLECTIVES_TABLE, before the one that is built in
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Draw a chart for each operation into this directory: OPERATION.svg
    #[arg(long, value_name = "DIRECTORY")]
    charts: Option<PathBuf>,
}

/// Runs `weft simulate`. Exit codes: 0 if it is done, 1 if a file cannot be written, 2 for wrong use.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    let arguments = match &arguments.what {
        What::Collectives(arguments) => arguments,
        What::Bcast(arguments) => return bcast::main(arguments),
        What::Clusters(arguments) => return clusters::main(arguments),
    };
    let (operations, choices) = match operations(&arguments.operation).and_then(|o| Ok((o, choices(arguments)?))) {
        Ok(wanted) => wanted,
        Err(why) => {
            weft_bench::out::say!("weft simulate: {why}");
            return ExitCode::from(2);
        }
    };
    weft_bench::out::print_line!("operation        bytes   ranks   microseconds  algorithm");
    for operation in operations {
        let curves = simulate(arguments, &choices, operation);
        let drawn =
            arguments.charts.as_ref().map_or(Ok(()), |directory| draw(arguments, operation, &curves, directory));
        if let Err(why) = drawn {
            weft_bench::out::say!("weft simulate: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn choices(arguments: &Collectives) -> Result<Choices, String> {
    let table = arguments.table.as_ref().map(|path| {
        let says = |what: String| format!("{}: {what}", path.display());
        std::fs::read_to_string(path)
            .map_err(|error| says(error.to_string()))
            .and_then(|text| Table::parse(&text).map_err(says))
    });
    Ok(Choices::new(Vec::new(), table.transpose()?.unwrap_or_default()))
}

/// Makes a curve for each size; prints each point as soon as it is known.
fn simulate(arguments: &Collectives, choices: &Choices, operation: Operation) -> Vec<Curve> {
    let ranks =
        || std::iter::successors(Some(2), |ranks| Some(ranks * 2)).take_while(|ranks| *ranks <= arguments.ranks);
    let sizes = if operation == Operation::Barrier { &[(0, "no bytes")][..] } else { &SIZES[..] };
    let mut curves = Vec::new();
    for (bytes, name) in sizes {
        let mut points = Vec::new();
        for ranks in ranks() {
            // Where the size is that of all ranks together, each rank has a share.
            let is_whole = matches!(operation, Operation::Allgather | Operation::ReduceScatter);
            let bytes = if is_whole { bytes.next_multiple_of(u64::from(ranks)) } else { *bytes };
            let case = Case { operation, ranks, bytes };
            let layout = Layout::of((0..ranks).map(|rank| rank / arguments.per_host).collect());
            let Some(nanoseconds) = case.time(&Network::LEAF_SPINE, choices, &layout, STEPS_MAX) else { break };
            let microseconds = nanoseconds as f64 / 1000.0;
            let algorithm = case.algorithm(choices, &layout);
            weft_bench::out::print_line!(
                "{:<15} {bytes:>8} {ranks:>7} {microseconds:>14.1}  {algorithm}",
                operation.name()
            );
            points.push((f64::from(ranks), microseconds));
        }
        curves.push(((*name).to_owned(), points));
    }
    curves
}

fn draw(arguments: &Collectives, operation: Operation, drawn: &[Curve], directory: &Path) -> Result<(), String> {
    let subtitle = format!("simulated: 10 Gbit/s, leaf and spine, ranks on each host: {}", arguments.per_host);
    let words = Words { title: operation.name(), subtitle: &subtitle, x: "ranks", y: "microseconds" };
    let path = directory.join(format!("{}.svg", operation.name()));
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, curves(&words, drawn)))
        .map_err(|error| format!("{}: {error}", path.display()))
}
