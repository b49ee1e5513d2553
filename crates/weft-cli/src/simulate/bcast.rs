//! `weft simulate bcast`: the time of broadcasts by each scheme of multicast and by a tree, in formulas and
//! by the library's own state machines in virtual time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use weft_mpi::multicast::Scheme;
use weft_mpi::multicast::model::Testbed;
use weft_mpi::multicast::simulation::Simulation;

use super::RANKS_MAX;
use weft_bench::{Curve, Words, curve_files};

/// The largest message that is simulated: beyond it times grow in proportion.
const BYTES_MAX: u64 = 4 << 20;
/// The number of broadcasts that are simulated one by one, and back to back.
const SINGLE: u32 = 5;
const SERIES: u32 = 60;
/// The most packets of all receivers together in a series; a longer series is cut.
const SERIES_PACKETS_MAX: u64 = 4 << 20;

#[derive(Args)]
pub(super) struct Bcast {
    /// Powers of two up to this
    #[arg(long, default_value_t = RANKS_MAX, value_parser = clap::value_parser!(u32).range(2..=RANKS_MAX as i64))]
    ranks: u32,
    /// Bytes of the message
    #[arg(long, value_delimiter = ',', default_value = "4,1836,65536", value_parser = clap::value_parser!(u64).range(0..=BYTES_MAX))]
    size: Vec<u64>,
    /// tree, auto, or a scheme of WEFT_BCAST such as basic, window, coroot-32, aggregate-10,
    /// coroot-32+aggregate-10
    #[arg(long, value_delimiter = ',', default_value = "tree,basic,window,coroot-32,aggregate-10,auto")]
    scheme: Vec<BcastScheme>,
    /// Hosts and network
    #[arg(long, default_value = "paper")]
    testbed: Bed,
    /// Packets that each receiver loses on its own, in percent
    #[arg(long, default_value_t = 0.0, value_parser = percent)]
    loss: f64,
    /// The average delay of receivers, in microseconds
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    skew: u64,
    /// Draw a chart for each size into this directory, model and simulation in one: bcast-SIZE.svg and .png
    #[arg(long, value_name = "DIRECTORY")]
    charts: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bed {
    /// Eight nodes of 2.4 GHz Xeon with 4X InfiniBand, 2003
    Paper,
    /// 10 Gbit/s Ethernet and UDP sockets
    Ethernet,
}

/// The way in which a message gets to all ranks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BcastScheme {
    Tree,
    /// The scheme that the library chooses for this number of ranks.
    Auto,
    By(Scheme),
}

impl FromStr for BcastScheme {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "tree" => Ok(Self::Tree),
            "auto" => Ok(Self::Auto),
            name => match name.parse() {
                Ok(Scheme { written: true, .. }) => Err(format!("{name}: writes to memory of peers are not simulated")),
                Ok(scheme) => Ok(Self::By(scheme)),
                Err(_) => Err(format!("{name} is no scheme")),
            },
        }
    }
}

impl std::fmt::Display for BcastScheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tree => f.write_str("tree"),
            Self::Auto => f.write_str("auto"),
            Self::By(scheme) => scheme.fmt(f),
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('%').parse::<f64>().ok().filter(|value| (0.0..=50.0).contains(value));
    value.ok_or_else(|| "a share is 0 to 50 percent".to_owned())
}

/// The times of one scheme, one size and one number of ranks, in nanoseconds: by the model and by the
/// simulation.
struct Row {
    latency: [u64; 2],
    period: [u64; 2],
    root: u64,
}

pub(super) fn main(arguments: &Bcast) -> ExitCode {
    weft_bench::out::print_line!(
        "   bytes   ranks  scheme                      latency us       back to back us    root us"
    );
    weft_bench::out::print_line!("                                          model simulated       model simulated");
    for bytes in &arguments.size {
        let curves = size(arguments, *bytes);
        let drawn = arguments.charts.as_ref().map_or(Ok(()), |directory| draw(arguments, *bytes, &curves, directory));
        if let Err(why) = drawn {
            weft_bench::out::say!("weft simulate: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Simulates all ways and numbers of ranks for one size; returns the latency of each as two curves.
fn size(arguments: &Bcast, bytes: u64) -> Vec<Curve> {
    let mut curves = Vec::new();
    for scheme in &arguments.scheme {
        let mut points = [Vec::new(), Vec::new()];
        for ranks in std::iter::successors(Some(2), |ranks| Some(ranks * 2)).take_while(|n| *n <= arguments.ranks) {
            let row = row(arguments, *scheme, bytes, ranks);
            let us = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
            let [[model, simulated], [model_period, period]] = [row.latency, row.period].map(|both| both.map(us));
            weft_bench::out::print_line!(
                "{bytes:>8} {ranks:>7}  {:<22} {model:>8.1} {simulated:>9.1} {model_period:>11.1} {period:>9.1} {:>10.1}",
                scheme.to_string(),
                us(row.root)
            );
            points[0].push((f64::from(ranks), model));
            points[1].push((f64::from(ranks), simulated));
        }
        let [model, simulated] = points;
        curves.push((format!("{scheme}, model"), model));
        curves.push((format!("{scheme}, simulated"), simulated));
    }
    curves
}

fn row(arguments: &Bcast, asked: BcastScheme, bytes: u64, ranks: u32) -> Row {
    let testbed = match arguments.testbed {
        Bed::Paper => Testbed::PAPER,
        Bed::Ethernet => Testbed::ETHERNET,
    };
    let scheme = match asked {
        BcastScheme::By(scheme) => scheme,
        BcastScheme::Tree | BcastScheme::Auto => Scheme::for_members(ranks),
    };
    let loss = (arguments.loss * 10_000.0) as u32;
    let simulation =
        Simulation { testbed, scheme, ranks, bytes, loss, skew_ns: arguments.skew * 1000, seed: 0x77656674 };
    if asked == BcastScheme::Tree {
        let (model, simulated) = (testbed.tree_ns(ranks, bytes), simulation.tree_ns());
        // The root sends one message for each level, and may then go on.
        let period = testbed.tree_period_ns(ranks, bytes);
        return Row { latency: [model, simulated], period: [period, period], root: period };
    }
    let single = simulation.one_by_one(SINGLE);
    let packets = (bytes / testbed.packet_bytes as u64 + 1) * u64::from(ranks);
    let series = (SERIES_PACKETS_MAX / packets).clamp(1, u64::from(SERIES)) as u32;
    Row {
        latency: [testbed.multicast_ns(bytes), single.latency_ns],
        period: [testbed.period_ns(ranks, bytes, scheme), simulation.back_to_back(series).latency_ns],
        root: single.root_ns,
    }
}

fn draw(arguments: &Bcast, bytes: u64, curves: &[Curve], directory: &Path) -> Result<(), String> {
    let bed = match arguments.testbed {
        Bed::Paper => "4X InfiniBand of 2003",
        Bed::Ethernet => "10 Gbit/s Ethernet",
    };
    let title = format!("bcast of {bytes} B");
    let subtitle =
        format!("latency until the last rank has it; model and simulation, {bed}, loss {} %", arguments.loss);
    let words = Words { title: &title, subtitle: &subtitle, x: "ranks", y: "microseconds" };
    let says = |path: &Path, why: String| format!("{}: {why}", path.display());
    std::fs::create_dir_all(directory).map_err(|error| says(directory, error.to_string()))?;
    let (svg, png) = curve_files(&words, curves).map_err(|error| format!("{error:#}"))?;
    for (ending, contents) in [("svg", svg.into_bytes()), ("png", png)] {
        let path = directory.join(format!("bcast-{bytes}.{ending}"));
        std::fs::write(&path, contents).map_err(|error| says(&path, error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_read_as_they_are_written() {
        for name in ["tree", "auto", "basic", "window", "coroot-8", "aggregate-10", "coroot-3+aggregate-10"] {
            assert_eq!(name.parse::<BcastScheme>().map(|scheme| scheme.to_string()), Ok(name.to_owned()));
        }
        assert!("binomial".parse::<BcastScheme>().is_err());
    }
}
