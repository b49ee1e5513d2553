//! `cargo xtask suite [NAME[:FILTER] …]`: everything that needs an installed Weft in `build/prefix`
//! (`make install`).
//!
//! A suite is a list of cases; a case runs a program under a time limit and says what it expects. After each
//! case no process it started may live: that is part of every case. Several suites run side by side
//! ([`lanes`]). The closing lines are what each suite took, and `N passed, N failed, N skipped`.

mod book;
mod built;
mod carriers;
mod chaos;
mod checked;
mod checkers;
mod collectives;
pub(crate) mod conformance;
pub(crate) mod context;
mod doctor;
mod fabric;
mod faces;
mod files;
mod fortran;
mod gone;
mod growth;
pub(crate) mod guests;
mod hangs;
mod hostile;
pub(crate) mod instructions;
mod instrument;
mod interfaces;
mod lanes;
mod launcher;
mod launchers;
mod libfabric;
mod lifetimes;
mod memory;
mod multicast;
mod needs;
mod packages;
mod path_mtu;
mod peers;
mod pmix;
mod porting;
pub(crate) mod process;
mod processes;
mod programs;
mod rails;
mod rdma;
pub(crate) mod rdma_bench;
mod recovery;
mod report;
mod scripts;
mod slurm;
pub(crate) mod soak;
mod ssh;
mod strangers;
mod table;
mod tcp;
mod tools;
mod trace;
mod user;
mod virtual_hosts;
mod windows;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

use context::Context;
use lanes::Tally;
use needs::Need;
use table::Table;

/// The end of a case.
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    /// Not possible here, and why.
    Skipped(String),
}

/// An attempt that comes to an error has failed.
impl From<anyhow::Result<Outcome>> for Outcome {
    fn from(attempt: anyhow::Result<Outcome>) -> Outcome {
        attempt.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")))
    }
}

impl From<anyhow::Result<()>> for Outcome {
    fn from(attempt: anyhow::Result<()>) -> Outcome {
        attempt.map(|()| Outcome::Passed).into()
    }
}

/// A thing to run, and to judge.
pub(crate) struct Case {
    name: String,
    needs: Vec<Need>,
    /// The row and the column of a table, for a case that is a cell of one.
    cell: Option<(String, String)>,
    run: Box<dyn Fn(&Context) -> Outcome>,
}

impl Case {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn new<R: Into<Outcome>>(name: impl Into<String>, run: impl Fn(&Context) -> R + 'static) -> Case {
        Case { name: name.into(), needs: Vec::new(), cell: None, run: Box::new(move |context| run(context).into()) }
    }

    /// Adds things without which the case is skipped. The first one that is missing is the reason.
    pub(crate) fn needs(mut self, needs: &[Need]) -> Case {
        self.needs.extend(needs);
        self
    }

    /// Makes the case a cell of the table that is printed after the suite.
    pub(crate) fn in_table(mut self, row: impl Into<String>, column: impl Into<String>) -> Case {
        self.cell = Some((row.into(), column.into()));
        self
    }

    fn run(&self, context: &Context) -> Outcome {
        for need in &self.needs {
            match need.missing(context) {
                Ok(None) => {}
                Ok(Some(why)) => return Outcome::Skipped(why),
                Err(error) => return Outcome::from(anyhow::Result::<Outcome>::Err(error)),
            }
        }
        (self.run)(context)
    }
}

struct Suite {
    name: &'static str,
    what: &'static str,
    cases: fn(&Context) -> Vec<Case>,
}

const SUITES: &[Suite] = &[
    Suite { name: "c", what: "C programs with 1 to 8 ranks on one host", cases: programs::one_host },
    Suite { name: "hosts", what: "the same over two hosts", cases: programs::two_hosts },
    Suite {
        name: "collectives",
        what: "algorithms of collectives that are asked for, and ranks out of step",
        cases: collectives::cases,
    },
    Suite { name: "faults", what: "the same with packets dropped, repeated and reordered", cases: programs::faults },
    Suite {
        name: "windows",
        what: "one-sided operations from seeds on one to four hosts, also with such faults",
        cases: windows::cases,
    },
    Suite {
        name: "files",
        what: "random programs on files from seeds, and the faults that users have reported",
        cases: files::cases,
    },
    Suite { name: "processes", what: "jobs that meet at ports, and jobs that spawn others", cases: processes::cases },
    Suite {
        name: "faces",
        what: "programs that were compiled for MPICH's and Open MPI's binary interfaces",
        cases: faces::cases,
    },
    Suite { name: "fabric", what: "libfabric in the place of UDP", cases: fabric::cases },
    Suite { name: "tcp", what: "kernel TCP in the place of UDP", cases: tcp::cases },
    Suite {
        name: "path-mtu",
        what: "paths between two hosts that carry smaller packets in the middle of a job",
        cases: path_mtu::cases,
    },
    Suite {
        name: "interfaces",
        what: "hosts whose interfaces do not all lead to the others",
        cases: interfaces::cases,
    },
    Suite { name: "rails", what: "two interfaces between two hosts, and one of them failing", cases: rails::cases },
    Suite {
        name: "multicast",
        what: "broadcasts by multicast on 4 and 8 hosts, under hardship",
        cases: multicast::cases,
    },
    Suite {
        name: "carriers",
        what: "raw frames and UDP side by side, and one of them failing",
        cases: carriers::cases,
    },
    Suite { name: "gone", what: "hosts that are gone, and such as are only slow", cases: gone::cases },
    Suite { name: "recovery", what: "programs that survive the death of their ranks", cases: recovery::cases },
    Suite { name: "hostile", what: "a job under attack, and jobs without privileges", cases: hostile::cases },
    Suite { name: "trace", what: "captured packets, and ranks that hang, seen from outside", cases: trace::cases },
    Suite { name: "examples", what: "the examples, heat above all", cases: programs::examples },
    Suite { name: "book", what: "the commands of the book's first pages, and what they print", cases: book::cases },
    Suite { name: "launcher", what: "mpiexec when things go wrong", cases: launcher::cases },
    Suite {
        name: "ssh",
        what: "hosts behind ssh servers, Kubernetes' MPI Operator, and the means of batch systems",
        cases: ssh::cases,
    },
    Suite { name: "hangs", what: "jobs that hang, and what is said of them", cases: hangs::cases },
    Suite { name: "checked", what: "WEFT_CHECK finds calls that do not match across ranks", cases: checked::cases },
    Suite { name: "checkers", what: "programs under valgrind and with the address sanitizer", cases: checkers::cases },
    Suite { name: "tools", what: "a profiler by PMPI_*, and gdb", cases: tools::cases },
    Suite { name: "memory", what: "little shared memory, and no copies between processes", cases: memory::cases },
    Suite { name: "virtual-hosts", what: "weft hosts cleans up whatever happens", cases: virtual_hosts::cases },
    Suite { name: "doctor", what: "weft info and weft doctor find what is broken", cases: doctor::cases },
    Suite { name: "lifetimes", what: "objects that are made and freed leave nothing behind", cases: lifetimes::cases },
    Suite { name: "conformance", what: "programs for each chapter, on MPICH and on Weft", cases: conformance::cases },
    Suite {
        name: "launchers",
        what: "Weft's programs under other launchers, a selection of jobs",
        cases: launchers::cases,
    },
    Suite { name: "mpich", what: "MPICH's programs under Weft's mpiexec, and on Weft", cases: peers::mpich },
    Suite { name: "pmix", what: "notices and errors under a launcher that speaks PMIx", cases: pmix::cases },
    Suite { name: "slurm", what: "Weft's programs under Slurm, a selection", cases: slurm::cases },
    Suite { name: "porting", what: "what programs and their configure scripts ask for", cases: porting::cases },
    Suite {
        name: "packages",
        what: "a wheel, conda packages, manuals, completion and files of defaults",
        cases: packages::cases,
    },
    Suite { name: "cmake", what: "find_package(MPI)", cases: peers::cmake },
    Suite { name: "fortran", what: "programs in Fortran, by each binding and compiler", cases: fortran::cases },
    Suite { name: "measurements", what: "the programs of bench/ measure what they say", cases: peers::measurements },
    Suite { name: "instructions", what: "what a small message costs, in instructions", cases: instructions::cases },
    Suite { name: "guests", what: "iWARP and RoCE between virtual machines, a selection", cases: rdma::selection },
    Suite { name: "report", what: "the page of weft report in a browser", cases: report::cases },
    Suite { name: "instrument", what: "weft compare, bench and availability run them", cases: instrument::cases },
    Suite { name: "mpi4py", what: "mpi4py's own tests, a selection of runs", cases: peers::mpi4py },
    Suite { name: "demo", what: "the demonstration of the README, to its end", cases: peers::demo },
    Suite { name: "user", what: "the same, and some of the others, as an ordinary user", cases: user::cases },
];

/// Suites that run only when they are named: what takes too long for every change.
const LARGE: &[Suite] = &[
    Suite {
        name: "conformance-all",
        what: "the same with 1 to 5 ranks, and known faults",
        cases: conformance::all_cases,
    },
    Suite {
        name: "fabric-all",
        what: "all programs over libfabric on four hosts, and windows over every strict provider",
        cases: fabric::all_cases,
    },
    Suite { name: "tcp-all", what: "all programs over kernel TCP on four hosts", cases: tcp::all_cases },
    Suite { name: "recovery-all", what: "the same in each collective and each form", cases: recovery::all_cases },
    Suite { name: "hostile-all", what: "a million hostile packets", cases: hostile::all_cases },
    Suite {
        name: "lifetimes-all",
        what: "ten minutes of everything, and 100,000 turns of each kind of object: nothing grows",
        cases: lifetimes::all_cases,
    },
    Suite {
        name: "faces-all",
        what: "all programs for both binary interfaces with 1 to 4 ranks, and all of mpi4py's tests by its published wheel",
        cases: faces::all_cases,
    },
    Suite {
        name: "files-all",
        what: "hundreds of random programs on files with 1 to 16 ranks, and writes of two gigabytes",
        cases: files::all_cases,
    },
    Suite {
        name: "processes-all",
        what: "the same with all kinds of jobs, a thousand clients and a thousand spawned jobs",
        cases: processes::all_cases,
    },
    Suite {
        name: "launcher-chaos",
        what: "mpiexec, agents and ranks are killed or stopped at every stage of a job",
        cases: chaos::cases,
    },
    Suite {
        name: "launchers-all",
        what: "every launcher with every job, on one host and on two, and a table",
        cases: launchers::all_cases,
    },
    Suite { name: "mpi4py-all", what: "mpi4py's own tests in all runs", cases: peers::mpi4py_all },
    Suite {
        name: "mpi4py-collectives",
        what: "those of collectives with up to 8 ranks on up to four hosts",
        cases: peers::mpi4py_collectives,
    },
    Suite {
        name: "mpi4py-windows",
        what: "those of windows with up to 5 ranks on up to four hosts",
        cases: peers::mpi4py_windows,
    },
    Suite {
        name: "packages-all",
        what: "every package built twice, installed on an empty system, used and removed",
        cases: packages::all_cases,
    },
    Suite {
        name: "slurm-all",
        what: "all ways in which Slurm starts jobs, 1 to 16 ranks on up to four nodes",
        cases: slurm::all_cases,
    },
    Suite { name: "ssh-all", what: "the same, and 63 hosts behind ssh servers", cases: ssh::all_cases },
    Suite { name: "rdma", what: "iWARP and RoCE between virtual machines", cases: rdma::cases },
];

const USAGE: &str =
    "usage: cargo xtask suite [--list] [--prefix DIR] [--root DIR] [--lanes N] [NAME[:PART OF A CASE] ...]
  --lanes N   run so many suites side by side; 1: one after the other (as many as there are processors, and one)";

/// The wishes of the command line.
struct Options {
    /// The directory of an installed Weft, seen from the project.
    prefix: PathBuf,
    /// The directory of the project, unless it is the one in which this was built.
    root: Option<PathBuf>,
    lanes: Option<usize>,
    /// The directory in which a lane's process keeps its files.
    work: Option<PathBuf>,
    /// The file in which a lane's process tells what came of its suite.
    tally: Option<PathBuf>,
    wanted: Vec<(&'static Suite, String)>,
}

impl Options {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self {
            prefix: PathBuf::from("build/prefix"),
            root: None,
            lanes: None,
            work: None,
            tally: None,
            wanted: Vec::new(),
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = |what: &str| rest.next().ok_or_else(|| anyhow::anyhow!("{argument} needs {what}\n{USAGE}"));
            match argument.as_str() {
                "--prefix" => options.prefix = value("a directory")?.into(),
                "--root" => options.root = Some(value("a directory")?.into()),
                "--work" => options.work = Some(value("a directory")?.into()),
                "--tally" => options.tally = Some(value("a file")?.into()),
                "--lanes" => {
                    let lanes = value("a number")?;
                    let number = lanes.parse().ok().filter(|number| *number > 0);
                    options.lanes =
                        Some(number.ok_or_else(|| anyhow::anyhow!("--lanes: {lanes} is no number of lanes\n{USAGE}"))?);
                }
                option if option.starts_with("--") => anyhow::bail!("there is no option {option}\n{USAGE}"),
                name => {
                    let (suite, filter) = parse_name(name)?;
                    options.wanted.push((suite, filter.to_owned()));
                }
            }
        }
        if options.wanted.is_empty() {
            options.wanted = SUITES.iter().map(|suite| (suite, String::new())).collect();
        }
        Ok(options)
    }
}

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    if arguments.iter().any(|argument| argument == "--list") {
        SUITES.iter().for_each(|suite| println!("{:15} {}", suite.name, suite.what));
        LARGE.iter().for_each(|suite| println!("{:15} {} (only when named)", suite.name, suite.what));
        return Ok(());
    }
    let options = Options::parse(arguments)?;
    let wanted: Vec<(&Suite, &str)> = options.wanted.iter().map(|(suite, filter)| (*suite, filter.as_str())).collect();
    let context = Context::new(options.root.clone(), &options.prefix, options.work.as_deref())?;
    process::catch_interrupts()?;
    let began = Instant::now();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let tally = match options.lanes.unwrap_or_else(|| lanes::usual(processors, wanted.len())) {
        1 => {
            let mut tally = Tally::default();
            for (suite, filter) in wanted {
                run_suite(suite, filter, &context, &mut tally);
            }
            tally
        }
        lanes => {
            let places = ["--lanes", "1", "--prefix", &context.prefix.to_string_lossy(), "--root"];
            let mut words = places.map(str::to_owned).to_vec();
            words.push(context.root.to_string_lossy().into_owned());
            lanes::run(&context.root, &words, &wanted, lanes, processors)?
        }
    };
    if process::is_interrupted() {
        std::process::exit(process::EXIT_INTERRUPTED);
    }
    if let Some(file) = &options.tally {
        // The process that started this one says what came of it.
        std::fs::write(file, serde_json::to_vec(&tally)?)?;
        return Ok(());
    }
    conclude(tally, began.elapsed().as_secs_f64())
}

/// Says what came of all suites.
///
/// # Errors
/// A case has failed, or none was run.
fn conclude(mut tally: Tally, seconds: f64) -> anyhow::Result<()> {
    if tally.seconds.len() > 1 {
        tally.seconds.sort_by(|one, other| other.1.total_cmp(&one.1));
        let rows = tally.seconds.iter().map(|(name, seconds)| format!("{name} {seconds:.0}"));
        println!("\nseconds of each suite: {}", rows.collect::<Vec<_>>().join(", "));
    }
    if !tally.failed.is_empty() {
        println!("\nfailed:");
        tally.failed.iter().for_each(|name| println!("  {name}"));
    }
    if !tally.skipped.is_empty() {
        println!("\nskipped:");
        tally.skipped.iter().for_each(|(why, count)| println!("  {count:4}  {why}"));
    }
    println!(
        "\nsuite: {} passed, {} failed, {} skipped in {seconds:.0} s",
        tally.passed,
        tally.failed.len(),
        tally.skipped.values().sum::<usize>(),
    );
    anyhow::ensure!(tally.failed.is_empty(), "the suite failed");
    anyhow::ensure!(tally.passed > 0, "nothing was run");
    Ok(())
}

fn parse_name(name: &str) -> anyhow::Result<(&'static Suite, &str)> {
    let (name, filter) = name.split_once(':').unwrap_or((name, ""));
    let known: Vec<&str> = SUITES.iter().chain(LARGE).map(|suite| suite.name).collect();
    let suite = SUITES.iter().chain(LARGE).find(|suite| suite.name == name);
    Ok((suite.ok_or(anyhow::anyhow!("there is no suite {name}; there are {}", known.join(", ")))?, filter))
}

fn run_suite(suite: &Suite, filter: &str, context: &Context, tally: &mut Tally) {
    println!("\n{}: {}", suite.name, suite.what);
    let terminal = std::io::stdout().is_terminal();
    let began = Instant::now();
    let mut table = Table::default();
    for case in (suite.cases)(context).iter().filter(|case| case.name.contains(filter)) {
        if terminal {
            print!("\r\x1b[K  …      {}", case.name);
            let _ = std::io::stdout().flush();
        }
        let started = Instant::now();
        let outcome = case.run(context);
        let seconds = started.elapsed().as_secs_f64();
        if let Some((row, column)) = &case.cell {
            table.note(row, column, &outcome);
        }
        let (verdict, why) = match outcome {
            Outcome::Passed => {
                tally.passed += 1;
                ("ok", String::new())
            }
            Outcome::Skipped(why) => {
                *tally.skipped.entry(why.clone()).or_default() += 1;
                ("skip", format!("  ({why})"))
            }
            Outcome::Failed(why) => {
                tally.failed.push(format!("{}:{}", suite.name, case.name));
                ("FAILED", format!("\n{}", indented(&why)))
            }
        };
        let clear = if terminal { "\r\x1b[K" } else { "" };
        println!("{clear}  {verdict:6} {} {seconds:.1} s{why}", case.name);
    }
    print!("{table}");
    let seconds = began.elapsed().as_secs_f64();
    println!("  {} took {seconds:.0} s", suite.name);
    tally.seconds.push((suite.name.to_owned(), seconds));
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("         | {line}\n")).collect()
}
