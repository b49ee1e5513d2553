//! `weft simulate clusters`: two clusters that one slow link joins. Shows how often collectives cross the
//! link, and how long they take, with `WEFT_CLUSTERS` and without.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use weft_mpi::algorithms::choice::{Choices, Layout, Operation, Table};
use weft_mpi::algorithms::cost::{Case, Network};

use super::STEPS_MAX;
use weft_bench::{Curve, Words, curves};

/// The most hosts of a cluster.
const HOSTS_MAX: u32 = 512;
/// The operations that the library plans with regard to clusters, then all others.
const OPERATIONS: [Operation; 10] = [
    Operation::Barrier,
    Operation::Bcast,
    Operation::Reduce,
    Operation::Allreduce,
    Operation::Allgather,
    Operation::Gather,
    Operation::Scatter,
    Operation::Alltoall,
    Operation::ReduceScatter,
    Operation::Scan,
];

#[derive(Args)]
pub(super) struct Clusters {
    /// Hosts of each of the two clusters
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=HOSTS_MAX as i64))]
    hosts: u32,
    /// Ranks on each host
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    per_host: u32,
    /// The time to cross the link one way, in milliseconds
    #[arg(long, value_delimiter = ',', default_value = "0.1,1,10,100", value_parser = milliseconds)]
    latency: Vec<f64>,
    /// Bytes, as WEFT_COLLECTIVES_TABLE counts them
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(0..=1 << 30))]
    size: u64,
    /// Only these operations, such as allreduce,bcast
    #[arg(long, value_delimiter = ',')]
    operation: Vec<String>,
    /// Draw a chart for each operation into this directory: clusters-OPERATION.svg
    #[arg(long, value_name = "DIRECTORY")]
    charts: Option<PathBuf>,
    /// Print a line of JSON for each case
    #[arg(long)]
    json: bool,
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=10_000.0).contains(value));
    value.ok_or_else(|| "a latency is 0 to 10000 milliseconds".to_owned())
}

/// The result of one way to plan an operation.
struct Found {
    /// Messages that cross the link from the first cluster, and from the second.
    crossings: [u64; 2],
    milliseconds: f64,
}

/// Runs `weft simulate clusters`. Exit codes: 0 if it is done, 1 if a file cannot be written, 2 for wrong
/// use.
pub(super) fn main(arguments: &Clusters) -> ExitCode {
    let wanted = match super::operations(&arguments.operation) {
        Ok(wanted) => OPERATIONS.into_iter().filter(move |operation| wanted.contains(operation)),
        Err(why) => {
            weft_bench::out::say!("weft simulate: {why}");
            return ExitCode::from(2);
        }
    };
    if !arguments.json {
        weft_bench::out::print_line!("                                    with WEFT_CLUSTERS           without");
        weft_bench::out::print_line!(
            "operation       latency ms  messages there, back        ms  there, back        ms"
        );
    }
    for operation in wanted {
        let drawn = simulate(arguments, operation).and_then(|curves| draw(arguments, operation, &curves));
        if let Err(why) = drawn {
            weft_bench::out::say!("weft simulate: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Simulates an operation; returns the times as two curves.
fn simulate(arguments: &Clusters, operation: Operation) -> Result<Vec<Curve>, String> {
    let Clusters { hosts, per_host, .. } = *arguments;
    let ranks = 2 * hosts * per_host;
    // Where the size is that of all ranks together, each rank has a share.
    let is_whole = matches!(operation, Operation::Allgather | Operation::ReduceScatter);
    let bytes = if is_whole { arguments.size.next_multiple_of(u64::from(ranks)) } else { arguments.size };
    let case = Case { operation, ranks, bytes };
    let cluster = |rank: u32| rank / (hosts * per_host);
    let clusters: Vec<u32> = (0..ranks).map(cluster).collect();
    let without = Layout::of((0..ranks).map(|rank| rank / per_host).collect());
    let layouts = [without.clone().with_clusters(&clusters), without];
    let choices = Choices::new(Vec::new(), Table::default());
    let mut points = [Vec::new(), Vec::new()];
    for &latency in &arguments.latency {
        let network = Network::clusters(hosts, (latency * 1e6) as u64);
        let find = |layout: &Layout| {
            let nanoseconds = case.time(&network, &choices, layout, STEPS_MAX).ok_or_else(|| {
                format!("{} of so many ranks has too many steps: try fewer --hosts", operation.name())
            })?;
            let crossings = case.crossings(&choices, layout, cluster);
            Ok::<_, String>(Found { crossings, milliseconds: nanoseconds as f64 / 1e6 })
        };
        let [with, without] = [find(&layouts[0])?, find(&layouts[1])?];
        for (points, found) in points.iter_mut().zip([&with, &without]) {
            points.push((latency, found.milliseconds));
        }
        if arguments.json {
            let of = |found: &Found| json!({"there": found.crossings[0], "back": found.crossings[1], "milliseconds": found.milliseconds});
            let line = json!({
                "operation": operation.name(), "ranks": ranks, "bytes": bytes, "latency_ms": latency,
                "with_clusters": of(&with), "without": of(&without)
            });
            weft_bench::out::print_line!("{line}");
            continue;
        }
        let [there, back] = with.crossings;
        let [there_without, back_without] = without.crossings;
        weft_bench::out::print_line!(
            "{:<15} {latency:>10} {there:>10} {back:>11} {:>11.3} {there_without:>7} {back_without:>4} {:>11.3}",
            operation.name(),
            with.milliseconds,
            without.milliseconds
        );
    }
    let [with, without] = points;
    Ok(vec![("with WEFT_CLUSTERS".to_owned(), with), ("without".to_owned(), without)])
}

fn draw(arguments: &Clusters, operation: Operation, drawn: &[Curve]) -> Result<(), String> {
    let Some(directory) = &arguments.charts else { return Ok(()) };
    let Clusters { hosts, per_host, size, .. } = *arguments;
    let subtitle = format!("simulated: two clusters of {hosts} hosts with {per_host} ranks each, {size} bytes");
    let words =
        Words { title: operation.name(), subtitle: &subtitle, x: "milliseconds to cross the link", y: "milliseconds" };
    let path = directory.join(format!("clusters-{}.svg", operation.name()));
    let says = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(directory).map_err(|error| says(directory, error))?;
    std::fs::write(&path, curves(&words, drawn)).map_err(|error| says(&path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_numbers_of_milliseconds() {
        assert_eq!(milliseconds("0.1"), Ok(0.1));
        assert!(milliseconds("-1").is_err() && milliseconds("x").is_err() && milliseconds("NaN").is_err());
    }
}
