//! `cargo xtask bench-rdma`: measures the cost of MPI over an RDMA device, by counting. Times on emulated
//! machines mean nothing. So all ranks run in one guest whose clock goes on by a nanosecond with each
//! instruction. The clock counts the instructions of the ranks, of the kernel, and of the device that the
//! kernel plays.
//!
//! Each program runs twice, with few iterations and with many; the difference is that of the iterations.
//! Ranks are on hosts of their own, which are one guest. Callgrind counts the user-space cost of a message
//! besides, in runs where no look is in vain.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::guests::{Device, Guests, Machine};
use super::process::{self, Run};

const HOW: &str = "usage: cargo xtask bench-rdma [--prefix DIR] [--only NAME] [--over ROAD] [--json]
  (--only: operations with this in their names; --over: roads with this in theirs)
  instructions and packets of each operation over RDMA devices that the kernel plays, and over TCP and UDP; the tables, and with --json the figures;
  both stay in build/bench/";
/// The time limit: a run in a guest takes a few seconds.
const LIMIT: Duration = Duration::from_secs(400);
const RANKS: u32 = 2;
const RANKS_COLLECTIVE: u32 = 4;
/// The messages of a block that callgrind counts, and the number of blocks; the first block is for warming
/// up.
const COUNTED: [usize; 2] = [64, 3];
/// The script that counts in a guest: nanoseconds in which its processor did something, and packets of its
/// loopback interface. The program's output follows.
const COUNT: &str = r#"
ulimit -l unlimited
until [ "$(cat /sys/class/net/eth0/operstate)" = up ] || [ $((waited = waited + 1)) -gt 100 ]; do sleep 0.1; done
busybox ip link set lo mtu 1500
counters() { awk '/^cpu0/{print $8}' /proc/schedstat; cat /sys/class/net/lo/statistics/tx_packets; }
before=$(counters)
"$@" >/tmp/said 2>&1 || { code=$?; cat /tmp/said; exit $code; }
after=$(counters)
echo "counted" $before $after
tail -n 1 /tmp/said"#;

/// The directory of FIFOs between the counted programs, and the command that makes it anew.
const BETWEEN: &str = "/tmp/between";
const FRESH: &str = "rm -rf /tmp/rank-* /tmp/between; mkdir /tmp/between";

/// The way in which ranks reach each other.
struct Road {
    name: &'static str,
    device: Device,
    settings: &'static [(&'static str, &'static str)],
    /// Says whether the device has large segments, as TCP has; `siw` is made without.
    has_large_segments: bool,
}

const fn road(name: &'static str, device: Device, settings: &'static [(&'static str, &'static str)]) -> Road {
    Road { name, device, settings, has_large_segments: false }
}

const VERBS: (&str, &str) = ("WEFT_LINK", "verbs");
const RDMA: (&str, &str) = ("WEFT_VERBS_MODE", "rdma");
const SENT: (&str, &str) = ("WEFT_VERBS_MODE", "sendrecv");
const ONE_SIDED: (&str, &str) = ("WEFT_VERBS_MODE", "one-sided");
const ROADS: &[Road] = &[
    road("TCP (libfabric's tcp)", Device::Siw, &[("WEFT_LINK", "fabric"), ("WEFT_FABRIC_PROVIDER", "tcp")]),
    road("UDP", Device::Siw, &[("WEFT_LINK", "udp"), ("WEFT_INTERFACE", "lo")]),
    road("siw, auto", Device::Siw, &[VERBS]),
    road("siw, rdma", Device::Siw, &[VERBS, RDMA]),
    road("siw, sendrecv", Device::Siw, &[VERBS, SENT]),
    road("siw, one-sided", Device::Siw, &[VERBS, ONE_SIDED]),
    Road { has_large_segments: true, ..road("siw with large segments, auto", Device::Siw, &[VERBS]) },
    Road { has_large_segments: true, ..road("siw with large segments, sendrecv", Device::Siw, &[VERBS, SENT]) },
    road("rxe, auto", Device::Rxe, &[VERBS]),
    road("rxe, rdma", Device::Rxe, &[VERBS, RDMA]),
    road("rxe, sendrecv", Device::Rxe, &[VERBS, SENT]),
    road("rxe, one-sided", Device::Rxe, &[VERBS, ONE_SIDED]),
];
/// The guests for these roads.
const MACHINES: [(Device, bool); 3] = [(Device::Siw, false), (Device::Siw, true), (Device::Rxe, false)];

/// A program of `bench/programs`, and the part of it that is counted.
struct Program {
    name: &'static str,
    file: &'static str,
    words: &'static [&'static str],
    ranks: u32,
    /// The option that repeats the counted part, and its two values: few times and many.
    repeats: &'static str,
    times: [u32; 2],
    /// The number of operations in an iteration.
    operations: u32,
}

const PROGRAMS: &[Program] = &[
    of("message of 8 B", "pingpong", &["--sizes", "8"], RANKS, [100, 1100], 2),
    of("message of 64 KB", "pingpong", &["--sizes", "64k"], RANKS, [10, 60], 2),
    of("message of 8 B, 64 at a time", "bandwidth", &["--sizes", "8", "--window", "64"], RANKS, [5, 55], 64),
    of("message of 64 KB, 16 at a time", "bandwidth", &["--sizes", "64k", "--window", "16"], RANKS, [2, 12], 16),
    of("put of 8 B and flush", "put_latency", &["--sizes", "8"], RANKS, [100, 600], 1),
    of("get of 8 B and flush", "get_latency", &["--sizes", "8"], RANKS, [100, 600], 1),
    of("barrier, 4 ranks", "barrier", &[], RANKS_COLLECTIVE, [50, 250], 1),
    of("allreduce of 8 B, 4 ranks", "allreduce", &["--sizes", "8"], RANKS_COLLECTIVE, [50, 250], 1),
    of("allgather of 8 B, 4 ranks", "allgather", &["--sizes", "8"], RANKS_COLLECTIVE, [50, 250], 1),
    kernel("NAS IS, class S, 4 ranks", "nas_is", [1, 9]),
    kernel("NAS CG, class S, 4 ranks", "nas_cg", [1, 3]),
];

const fn of(
    name: &'static str,
    file: &'static str,
    words: &'static [&'static str],
    ranks: u32,
    times: [u32; 2],
    operations: u32,
) -> Program {
    Program { name, file, words, ranks, repeats: "--iterations", times, operations }
}

/// The description of a NAS benchmark, which begins anew for each sample.
const fn kernel(name: &'static str, file: &'static str, times: [u32; 2]) -> Program {
    Program {
        name,
        file,
        words: &["--class", "S"],
        ranks: RANKS_COLLECTIVE,
        repeats: "--samples",
        times,
        operations: 1,
    }
}

/// The instructions and packets of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    instructions: f64,
    packets: f64,
}

/// Runs `cargo xtask bench-rdma`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the project")?;
    let (mut prefix, mut only, mut over, mut is_json) =
        (root.join("build/prefix"), String::new(), String::new(), false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{argument} needs a value\n{HOW}"));
        match argument.as_str() {
            "--prefix" => prefix = value()?.into(),
            "--only" => only = value()?.clone(),
            "--over" => over = value()?.clone(),
            "--json" => is_json = true,
            other => anyhow::bail!("{other} is no option\n{HOW}"),
        }
    }
    anyhow::ensure!(
        prefix.join("bin/mpiexec").is_file(),
        "{} has no bin/mpiexec: make own installs it",
        prefix.display()
    );
    process::catch_interrupts()?;
    let bench = Bench { work: root.join("build/bench/rdma"), root: root.to_owned(), prefix };
    std::fs::create_dir_all(&bench.work)?;
    let (costs, mut failed) = bench.operations(&only, &over)?;
    let counts = if only.is_empty() && over.is_empty() { bench.counts() } else { Ok(Vec::new()) };
    let counts = counts.unwrap_or_else(|error| {
        failed.push(format!("{error:#}"));
        Vec::new()
    });
    let tables = format!("{}\n{}", operations_table(&costs), counts_table(&counts));
    let figures = figures(&costs, &counts);
    std::fs::write(bench.work.join("rdma.md"), &tables)?;
    std::fs::write(bench.work.join("rdma.json"), format!("{figures:#}\n"))?;
    println!("{}", if is_json { format!("{figures:#}") } else { tables });
    anyhow::ensure!(failed.is_empty(), "{} of them failed:\n{}", failed.len(), failed.join("\n"));
    Ok(())
}

/// The costs by road and program.
type Costs = BTreeMap<(usize, usize), Cost>;
/// The library with the side, and the instructions and system calls of a message.
type Counts = Vec<(String, [f64; 2])>;

struct Bench {
    root: PathBuf,
    work: PathBuf,
    prefix: PathBuf,
}

impl Bench {
    /// The counts that could be made, and the reasons why others could not.
    fn operations(&self, only: &str, over: &str) -> anyhow::Result<(Costs, Vec<String>)> {
        for program in PROGRAMS.iter().filter(|program| program.name.contains(only)) {
            self.build(program.file)?;
        }
        let (mut costs, mut failed) = (Costs::new(), Vec::new());
        for (device, has_large_segments) in MACHINES {
            let is_of_it = |road: &Road| {
                (road.device, road.has_large_segments) == (device, has_large_segments) && road.name.contains(over)
            };
            if !ROADS.iter().any(is_of_it) {
                continue;
            }
            let machine = Machine { counts: true, has_large_segments, ..Machine::default() };
            let guests = Guests::boot(&self.root, 1, device, machine)?;
            for (road, of_it) in ROADS.iter().enumerate().filter(|(_, road)| is_of_it(road)) {
                for (index, program) in PROGRAMS.iter().enumerate().filter(|(_, program)| program.name.contains(only)) {
                    tell(&format!("{}: {}", of_it.name, program.name));
                    match self.cost(&guests, of_it, program) {
                        Ok(cost) => drop(costs.insert((road, index), cost)),
                        // The other costs are shown all the same.
                        Err(error) => failed.push(format!("{error:#}")),
                    }
                    anyhow::ensure!(!process::is_interrupted(), "interrupted");
                }
            }
        }
        Ok((costs, failed))
    }

    fn build(&self, file: &str) -> anyhow::Result<()> {
        let sources = self.root.join("bench/programs");
        let run = Run::new(self.prefix.join("bin/mpicc")).args(["-O2", "-pthread", "-o"]).arg(self.work.join(file));
        let run = run.arg(sources.join(format!("{file}.c"))).arg(sources.join("common.c")).arg("-lm");
        let finished = run.finish()?;
        anyhow::ensure!(finished.code == Some(0), "{}", finished.report());
        Ok(())
    }

    fn cost(&self, guests: &Guests, road: &Road, program: &Program) -> anyhow::Result<Cost> {
        let [few, many] = program.times;
        let [first, second] = [self.once(guests, road, program, few)?, self.once(guests, road, program, many)?];
        Ok(difference(first, second, f64::from((many - few) * program.operations)))
    }

    fn once(&self, guests: &Guests, road: &Road, program: &Program, times: u32) -> anyhow::Result<[f64; 2]> {
        let mut words = self.mpiexec(program.ranks);
        words.push(self.work.join(program.file).display().to_string());
        words.extend(program.words.iter().map(|word| (*word).to_owned()));
        words.extend(["--samples", "1", "--warmup", "10", program.repeats, &times.to_string()].map(str::to_owned));
        let words = ["sh", "-c", COUNT, "count"].into_iter().map(str::to_owned).chain(words);
        let finished = guests.start(1, &self.work, &self.variables(road.settings), words)?.finish(LIMIT)?;
        let failed = || format!("{}, {}: {}", road.name, program.name, finished.report());
        anyhow::ensure!(finished.code == Some(0), "{}", failed());
        counted(&finished.output).with_context(failed)
    }

    /// The command of ranks on hosts of their own, which are one guest.
    fn mpiexec(&self, ranks: u32) -> Vec<String> {
        let hosts: Vec<String> = (0..ranks).map(|host| format!("h{host}")).collect();
        let program = self.prefix.join("bin/mpiexec").display().to_string();
        let ranks = ranks.to_string();
        let words =
            [&program, "-n", &ranks, "-ppn", "1", "--hosts", &hosts.join(","), "--agent", "env WEFT_NODE={host}"];
        words.map(str::to_owned).to_vec()
    }

    fn variables(&self, settings: &[(&str, &str)]) -> Vec<(String, String)> {
        let library = self.prefix.join("lib").display().to_string();
        let path = process::search_path().to_string_lossy().into_owned();
        let own = [("LD_LIBRARY_PATH".to_owned(), library), ("PATH".to_owned(), path)];
        own.into_iter().chain(settings.iter().map(|(name, value)| ((*name).into(), (*value).into()))).collect()
    }

    /// The cost of a message of 8 bytes in user space, over `siw`.
    fn counts(&self) -> anyhow::Result<Counts> {
        let compile = |compiler: PathBuf, file: &str, library: &[&str]| {
            let source = self.root.join("tests/instructions").join(format!("{file}.c"));
            let flags = ["-std=c11", "-O2", "-g", "-pthread", "-o"];
            let run = Run::new(compiler).args(flags).arg(self.work.join(file)).arg(source).args(library);
            let finished = run.finish()?;
            anyhow::ensure!(finished.code == Some(0), "{}", finished.report());
            Ok(())
        };
        compile(self.prefix.join("bin/mpicc"), "messages", &[])?;
        compile("cc".into(), "endpoint", &["-lfabric"])?;
        let guests = Guests::boot(&self.root, 1, Device::Siw, Machine::default())?;
        let [messages, blocks] = COUNTED.map(|number| number.to_string());
        let counter = "valgrind --quiet --tool=callgrind --collect-atstart=no --toggle-collect=counted --dump-after=mark --collect-systime=yes";
        let mut counts = Counts::new();
        for (name, settings) in [("rings", ("WEFT_VERBS_MODE", "rdma")), ("sent", ("WEFT_VERBS_MODE", "sendrecv"))] {
            tell(&format!("instructions of MPI_Send and MPI_Recv, {name}"));
            let program = format!("{} {}", counter, "--callgrind-out-file=/tmp/rank-%q{PMI_RANK}");
            let words = self.mpiexec(RANKS).into_iter().chain(program.split(' ').map(str::to_owned));
            let words =
                words.chain([self.work.join("messages").display().to_string(), BETWEEN.into(), "blocking".into()]);
            let words: Vec<String> = words.chain([blocks.clone(), messages.clone()]).collect();
            let script = format!("{FRESH}; \"$@\" && grep -H '^totals' /tmp/rank-?.*");
            let said = self.in_guest(&guests, &[VERBS, settings, ("SETTLE_MS", "3")], &script, &words)?;
            counts.extend(sides(&format!("MPI_Send, MPI_Recv: {name}"), &said)?);
        }
        tell("instructions of libfabric");
        let one = |rank: u32| {
            let out = format!("--callgrind-out-file=/tmp/rank-{rank}");
            format!("{counter} {out} \"$1\" {BETWEEN} 192.0.2.1 7711 {rank} {blocks} {messages}")
        };
        let script = format!("{FRESH}; {} & {}; wait; grep -H '^totals' /tmp/rank-?.*", one(1), one(0));
        let program = [self.work.join("endpoint").display().to_string()];
        let said = self.in_guest(&guests, &[], &script, &program)?;
        counts.extend(sides("libfabric, verbs, FI_EP_MSG, no MPI", &said)?);
        Ok(counts)
    }

    fn in_guest(
        &self,
        guests: &Guests,
        settings: &[(&str, &str)],
        script: &str,
        words: &[String],
    ) -> anyhow::Result<String> {
        let script = format!("ulimit -l unlimited; {script}");
        let words = ["sh", "-c", &script, "count"].into_iter().map(str::to_owned).chain(words.iter().cloned());
        let finished = guests.start(1, &self.work, &self.variables(settings), words)?.finish(LIMIT)?;
        anyhow::ensure!(finished.code == Some(0), "{}", finished.report());
        Ok(finished.output)
    }
}

/// Prints the present step on a terminal.
fn tell(what: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{what} …");
    } else {
        eprintln!("bench-rdma: {what}");
    }
}

fn difference(from: [f64; 2], to: [f64; 2], operations: f64) -> Cost {
    let [instructions, packets] = [0, 1].map(|column| (to[column] - from[column]) / operations);
    Cost { instructions, packets }
}

/// The nanoseconds and packets from the guest's output, which has both before and both after.
fn counted(output: &str) -> anyhow::Result<[f64; 2]> {
    let line = output.lines().find_map(|line| line.strip_prefix("counted ")).context("nothing was counted")?;
    let values: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [time, packets, time_after, packets_after] = values[..] else { anyhow::bail!("counted {line}") };
    Ok([time_after - time, packets_after - packets])
}

/// The instructions and system calls of a message at both ranks, from the totals of the blocks: the medians.
fn sides(name: &str, output: &str) -> anyhow::Result<Counts> {
    ["sender", "receiver"]
        .iter()
        .enumerate()
        .map(|(rank, side)| {
            let begin = format!("/tmp/rank-{rank}.");
            // `/tmp/rank-0.2:totals: 43712 128 33`; the first block is that of the warm-up, and the last one
            // that of the end.
            let of_block = |line: &str| {
                let (number, values) = line.strip_prefix(&begin)?.split_once(":totals: ")?;
                let number: usize = number.parse().ok()?;
                let mut values = values.split(' ').map(|value| value.parse::<f64>().unwrap_or(0.0));
                let values = [values.next()?, values.next().unwrap_or(0.0)];
                (2..2 + COUNTED[1]).contains(&number).then_some(values)
            };
            let blocks: Vec<[f64; 2]> = output.lines().filter_map(of_block).collect();
            anyhow::ensure!(blocks.len() == COUNTED[1], "{name}: {} blocks of rank {rank} in\n{output}", blocks.len());
            let of_message = [0, 1].map(|column| {
                let mut values: Vec<f64> = blocks.iter().map(|block| block[column]).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2] / COUNTED[0] as f64
            });
            Ok((format!("{name}, {side}"), of_message))
        })
        .collect()
}

fn operations_table(costs: &Costs) -> String {
    let indices: Vec<usize> = (0..PROGRAMS.len()).filter(|index| costs.keys().any(|(_, of)| of == index)).collect();
    let roads: Vec<usize> = (0..ROADS.len()).filter(|road| costs.keys().any(|(of, _)| of == road)).collect();
    let names: Vec<&str> = roads.iter().map(|road| ROADS[*road].name).collect();
    let mut table = format!("| instructions (packets) | {} |\n", names.join(" | "));
    table += &format!("|---|{}\n", "---|".repeat(roads.len()));
    for index in indices {
        let cells = roads.iter().map(|&road| match costs.get(&(road, index)) {
            // Packets that RoCE sends to itself pass no interface.
            Some(cost) if ROADS[road].device == Device::Rxe => thousands(cost.instructions),
            Some(cost) => format!("{} ({:.1})", thousands(cost.instructions), cost.packets),
            None => "-".to_owned(),
        });
        table += &format!("| {} | {} |\n", PROGRAMS[index].name, cells.collect::<Vec<_>>().join(" | "));
    }
    table
}

fn thousands(instructions: f64) -> String {
    match instructions {
        large if large >= 1e7 => format!("{:.1} M", large / 1e6),
        _ => format!("{:.1} k", instructions / 1e3),
    }
}

fn counts_table(counts: &Counts) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let rows =
        counts.iter().map(|(name, [instructions, calls])| format!("| {name} | {instructions:.0} | {calls:.1} |\n"));
    format!(
        "| a message of 8 B over siw, user space | instructions | system calls |\n|---|---|---|\n{}",
        rows.collect::<String>()
    )
}

fn figures(costs: &Costs, counts: &Counts) -> Value {
    let operations = costs.iter().map(|((road, program), cost)| {
        json!({"road": ROADS[*road].name, "operation": PROGRAMS[*program].name, "instructions": cost.instructions, "packets": cost.packets})
    });
    let messages = counts.iter().map(
        |(name, [instructions, calls])| json!({"side": name, "instructions": instructions, "system_calls": calls}),
    );
    json!({"operations": operations.collect::<Vec<_>>(), "messages": messages.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_costs_the_difference_divided_by_the_iterations() {
        let few = counted("x\ncounted 1000 5 51000 25\n{}").expect("counted");
        assert_eq!(few, [50_000.0, 20.0]);
        assert_eq!(difference(few, [150_000.0, 220.0], 100.0), Cost { instructions: 1000.0, packets: 2.0 });
        assert!(counted("counted 1 2 3").is_err() && counted("nothing").is_err());
    }

    #[test]
    fn blocks_of_both_ranks_are_counted_without_the_first() {
        let block = |rank: u32, number: u32, total: u32| format!("/tmp/rank-{rank}.{number}:totals: {total} 128 33\n");
        let blocks = [(1, 9_999_999), (2, 64_000), (3, 70_400), (4, 64_000), (5, 1)];
        let said: String =
            [0, 1].iter().flat_map(|rank| blocks.iter().map(|(number, total)| block(*rank, *number, *total))).collect();
        let counts = sides("it", &said).expect("counts");
        assert_eq!(counts, [("it, sender".to_owned(), [1000.0, 2.0]), ("it, receiver".to_owned(), [1000.0, 2.0])]);
        assert!(sides("it", "").is_err());
    }
}
