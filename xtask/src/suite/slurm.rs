//! Tests of Weft's programs under a real Slurm on four virtual hosts, by every way in which it starts them:
//! `srun` without a process manager and with `pmi2` or `pmix`, and Weft's `mpiexec` in an allocation.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::context::{Context, Expected};
use super::needs::Need;
use super::peers;
use super::process::{Finished, Run, until};
use super::{Case, Outcome};

mod cluster;

use cluster::{Absent, Cluster, Lazy, NODES};

const LIMIT_SECONDS: u64 = 60;
const MPI4PY_LIMIT_SECONDS: u64 = 300;
/// The time for a job's ranks to start.
const READY: Duration = Duration::from_secs(30);
/// The time for a job to end that is cancelled or whose rank dies, including the daemons' time for it.
const END: Duration = Duration::from_secs(20);
const BEHAVE: &str = "tests/launcher/behave.c";
const RING: &str = "examples/ring.c";
/// The user id of an ordinary user.
const NOBODY: &str = "65534";
const STREAM: &str = "tests/slurm/stream.c";
/// The lines of 64 bytes that four ranks write together: a megabyte.
const RANKS_OF_STREAM: u32 = 4;
const LINES: usize = (1 << 20) / 64 / RANKS_OF_STREAM as usize;
/// The modules of mpi4py's tests on point-to-point communication.
const POINT_TO_POINT: &str = "^test_p2p";

/// A way in which Slurm starts a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// `srun` without a process manager.
    Plain,
    Pmi2,
    Pmix,
    /// `mpiexec` under `salloc`, on the host where users log in.
    Salloc,
    /// `mpiexec` in a batch script, on the first node.
    Sbatch,
}

use Start::{Plain, Pmi2, Pmix, Salloc, Sbatch};

const STARTS: [Start; 5] = [Plain, Pmi2, Pmix, Salloc, Sbatch];

impl Start {
    fn name(self) -> &'static str {
        match self {
            Plain => "plain srun",
            Pmi2 => "srun --mpi=pmi2",
            Pmix => "srun --mpi=pmix",
            Salloc => "mpiexec in salloc",
            Sbatch => "mpiexec in sbatch",
        }
    }

    /// The command that starts `program` with so many ranks on so many nodes. `options` are those of `srun`.
    fn run(self, context: &Context, cluster: &Cluster, (ranks, nodes): (u32, u32), options: &[&str]) -> Run {
        let shape = [format!("--nodes={nodes}"), format!("--ntasks={ranks}"), "--job-name=weft".to_owned()];
        let srun = |kind: &str| cluster.run(["srun"]).args(&shape).arg(format!("--mpi={kind}")).args(options);
        let run = match self {
            Plain => srun("none"),
            Pmi2 => srun("pmi2"),
            Pmix => srun("pmix"),
            Salloc => cluster.run(["salloc", "--quiet"]).args(&shape).arg(context.bin("mpiexec")),
            Sbatch => {
                // Standard input of a batch script is empty, so it comes by a file.
                let script = "input=$1 output=$2; shift 2; cat >\"$input\"
                    printf '#!/bin/sh\\nexec \"$@\" <\"%s\"\\n' \"$input\" >\"$input.sh\"
                    options=; while [ \"$1\" != -- ]; do options=\"$options $1\"; shift; done; shift
                    sbatch --quiet --wait --output=\"$output\" $options \"$input.sh\" \"$@\"; code=$?
                    cat \"$output\"; rm -f \"$input\" \"$input.sh\" \"$output\"; exit $code";
                let run = cluster.run(["sh", "-c", script, "sh"]);
                let run = run.arg(cluster.file("input")).arg(cluster.file("output")).args(&shape).arg("--");
                run.arg(context.bin("mpiexec"))
            }
        };
        run.limit(LIMIT_SECONDS)
    }
}

/// Cases that share one cluster.
struct Maker {
    cluster: Rc<Lazy>,
    cases: Vec<Case>,
}

impl Maker {
    fn new() -> Self {
        Self { cluster: Rc::new(Lazy::new()), cases: Vec::new() }
    }

    /// Adds a case of a way to start.
    fn add_start<R: Into<Outcome>>(
        &mut self,
        start: Start,
        what: String,
        run: impl Fn(&Context, &Cluster) -> R + 'static,
    ) {
        self.add(format!("{}{what}", start.name()), move |context, cluster| {
            let missing = if start == Pmix { cluster.why_no_pmix() } else { None };
            missing.map_or_else(|| run(context, cluster).into(), Outcome::Skipped)
        });
    }

    /// Adds a case. What it leaves on the hosts is an error.
    fn add<R: Into<Outcome>>(&mut self, name: String, run: impl Fn(&Context, &Cluster) -> R + 'static) {
        let lazy = Rc::clone(&self.cluster);
        let case = Case::new(name, move |context| {
            let cluster = match lazy.get(context) {
                Ok(cluster) => cluster,
                Err(Absent::Impossible(why)) => return Outcome::Skipped(why),
                Err(Absent::Broken(why)) => return Outcome::Failed(why),
            };
            let outcome: Outcome = run(context, cluster).into();
            match (outcome, cluster.leftovers()) {
                (Outcome::Passed, Ok(left)) if left.is_empty() => Outcome::Passed,
                (Outcome::Passed, Ok(left)) => Outcome::Failed(format!("left behind: {}", left.join("; "))),
                (Outcome::Passed, Err(error)) => Outcome::Failed(format!("{error:#}")),
                (outcome, _) => outcome,
            }
        });
        self.cases.push(case.needs(&[Need::Slurm]));
    }

    fn ring(&mut self, start: Start, (ranks, nodes): (u32, u32)) {
        let hosts = if nodes == 1 { "one node".to_owned() } else { format!("{nodes} nodes") };
        self.add_start(start, format!(", {ranks} ranks on {hosts}"), move |context, cluster| {
            let run = || start.run(context, cluster, (ranks, nodes), &[]).arg(context.compile(RING)?).finish();
            Expected::code(0).says(over(ranks)).says("(right) on Weft").judge(run())
        });
    }

    /// A test program in C.
    fn program(&mut self, start: Start, source: &'static str) {
        self.add_start(start, format!(", {source}, 3 ranks on 2 nodes"), move |context, cluster| {
            let run = || start.run(context, cluster, (3, 2), &[]).arg(context.compile(source)?).finish();
            Expected::code(0).judge(run())
        });
    }

    fn abort(&mut self, start: Start, who: u32) {
        self.add(
            format!("{}, rank {who} calls MPI_Abort, 5 ranks on 2 nodes", start.name()),
            move |context, cluster| {
                let run = || behave(context, start.run(context, cluster, (5, 2), &[]), &format!("abort {who} 7"));
                let expected = match start {
                    // Slurm's own plugins end the others by a signal, and the largest status counts.
                    Pmi2 | Pmix => Expected::failure(),
                    _ => Expected::code(7),
                };
                expected.judge(run())
            },
        );
    }

    fn cancel(&mut self, start: Start) {
        self.add_start(start, ", scancel ends 5 ranks on 2 nodes".into(), move |context, cluster| {
            let attempt = || -> anyhow::Result<Finished> {
                let program = context.compile(BEHAVE)?;
                let run = start.run(context, cluster, (5, 2), &[]).arg(program).arg("hang");
                let running = run.start()?;
                let output = cluster.file("output");
                let is_ready = match start {
                    // The output of a batch script is in a file.
                    Sbatch => {
                        until(READY, || std::fs::read_to_string(&output).ok().filter(|text| text.contains("ready")))
                            .is_some()
                    }
                    _ => running.says("ready", READY),
                };
                anyhow::ensure!(is_ready, "the ranks do not start:\n{}", running.output());
                let cancelled = cluster.run(["scancel", "--name=weft"]).finish()?;
                anyhow::ensure!(cancelled.code == Some(0), "scancel fails:\n{}", cancelled.report());
                let began = Instant::now();
                let finished = running.finish(Duration::from_secs(LIMIT_SECONDS) + END)?;
                anyhow::ensure!(began.elapsed() < END, "the end took {:.1} s", began.elapsed().as_secs_f64());
                Ok(finished)
            };
            Expected::failure().judge(attempt())
        });
    }

    fn death(&mut self, start: Start, what: &'static str, options: &'static [&'static str], nodes: u32) {
        let what_then = format!("{}, {what}, 5 ranks on {nodes} nodes", joined(options));
        self.add_start(start, what_then, move |context, cluster| {
            let run = start.run(context, cluster, (5, nodes), options).env("WEFT_PEER_TIMEOUT", "4");
            Expected::failure().judge(behave(context, run, what))
        });
    }

    fn stream(&mut self, start: Start) {
        self.add_start(start, ", a megabyte of output, and standard input".into(), move |context, cluster| {
            let input = "0123456789abcdef".repeat(4096);
            let attempt = || {
                let program = context.compile(STREAM)?;
                let run = start.run(context, cluster, (RANKS_OF_STREAM, 2), &[]).arg(program).arg(LINES.to_string());
                run.input(&input).finish()
            };
            match attempt() {
                Ok(finished) => {
                    let is_whole = |line: &&str| line.len() == 63 && line.starts_with('<') && line.ends_with("65536>");
                    let whole = finished.output.lines().filter(is_whole).count();
                    let wanted = LINES * RANKS_OF_STREAM as usize;
                    match Expected::code(0).says("rank 0 has read 65536 bytes").judge(Ok(finished)) {
                        Outcome::Passed if whole != wanted => {
                            Outcome::Failed(format!("{whole} lines of {wanted} came whole"))
                        }
                        outcome => outcome,
                    }
                }
                error => Expected::code(0).judge(error),
            }
        });
    }
}

/// Runs the program that behaves as it is told.
fn behave(context: &Context, run: Run, arguments: &str) -> anyhow::Result<Finished> {
    run.arg(context.compile(BEHAVE)?).args(arguments.split(' ')).finish()
}

/// The words of the ring about its ranks.
fn over(ranks: u32) -> &'static str {
    match ranks {
        1 => "over 1 ranks",
        2 => "over 2 ranks",
        5 => "over 5 ranks",
        _ => "over 16 ranks",
    }
}

fn joined(options: &[&str]) -> String {
    options.iter().map(|option| format!(" {option}")).collect()
}

/// A selection that takes half a minute.
pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut maker = Maker::new();
    for (start, shape) in
        [(Plain, (16, 4)), (Plain, (5, 1)), (Pmi2, (5, 2)), (Pmix, (5, 2)), (Salloc, (5, 2)), (Sbatch, (16, 4))]
    {
        maker.ring(start, shape);
    }
    maker.add("plain srun, one rank is a job of its own".into(), |context, cluster| {
        let run = || Plain.run(context, cluster, (1, 1), &[]).arg(context.compile(RING)?).finish();
        Expected::code(0).says(over(1)).judge(run())
    });
    maker.abort(Plain, 1);
    maker.death(Plain, "signal 0 9", &["--kill-on-bad-exit"], 2);
    maker.cancel(Plain);
    maker.cancel(Sbatch);
    maker.stream(Plain);
    maker.cases
}

/// All ways to start, with all numbers of ranks on one node and more.
pub(crate) fn all_cases(_: &Context) -> Vec<Case> {
    let mut maker = Maker::new();
    for start in STARTS {
        for shape in [(1, 1), (2, 1), (2, 2), (5, 1), (5, 2), (16, 1), (16, NODES)] {
            maker.ring(start, shape);
        }
        for who in [0, 4] {
            maker.abort(start, who);
        }
        maker.program(start, "tests/c/sessions.c");
        maker.program(start, "tests/c/point_to_point.c");
        maker.death(start, "signal 3 9", &[], 1);
        maker.cancel(start);
        maker.stream(start);
    }
    for start in [Plain, Pmi2] {
        for (what, options, nodes) in [
            ("signal 0 9", &[][..], 1),
            ("signal 0 9", &[][..], 2),
            ("signal 4 11", &[][..], 2),
            ("leave 3 5", &["--kill-on-bad-exit"][..], 2),
        ] {
            maker.death(start, what, options, nodes);
        }
    }
    plain_only(&mut maker);
    inside_an_allocation(&mut maker);
    point_to_point(&mut maker);
    maker.cases
}

/// The cases of tasks that find each other by themselves.
fn plain_only(maker: &mut Maker) {
    maker.add("plain srun, ports that Slurm has reserved".into(), |context, cluster| {
        let run = || Plain.run(context, cluster, (5, 2), &["--resv-ports"]).arg(context.compile(RING)?).finish();
        Expected::code(0).says(over(5)).judge(run())
    });
    maker.add("plain srun, tasks spread cyclically".into(), |context, cluster| {
        let options = ["--distribution=cyclic"];
        let run = || Plain.run(context, cluster, (5, 2), &options).arg(context.compile(RING)?).finish();
        Expected::code(0).says(over(5)).judge(run())
    });
    maker.add("plain srun, the first task is on the last node".into(), |context, cluster| {
        let attempt = || {
            let list = cluster.file("hostfile");
            std::fs::write(&list, "n1\nn0\nn1\nn0\nn0\n")?;
            let run = Plain.run(context, cluster, (5, 2), &["--distribution=arbitrary"]).env("SLURM_HOSTFILE", list);
            run.arg(context.compile(RING)?).finish()
        };
        Expected::code(0).says(over(5)).judge(attempt())
    });
    maker.add(
        "plain srun, two steps of a job at once, and one program after the other in a step".into(),
        |context, cluster| {
            let attempt = || {
                let step = "srun --overlap --nodes=2 --ntasks=2 sh -c '\"$0\" && exec \"$0\"' \"$0\"";
                let script = format!("{step} & {step} & wait");
                let run = cluster.run(["salloc", "--quiet", "--nodes=2", "--ntasks=2", "sh", "-c", &script]);
                run.arg(context.compile(RING)?).limit(LIMIT_SECONDS).finish()
            };
            match attempt() {
                Ok(finished) if finished.output.matches("over 2 ranks").count() == 4 => {
                    Expected::code(0).judge(Ok(finished))
                }
                Ok(finished) => Outcome::Failed(format!("four rings should run\n{}", finished.report())),
                error => Expected::code(0).judge(error),
            }
        },
    );
    maker.add(
        "plain srun without MUNGE on the nodes: one sentence, no silent singletons".into(),
        |context, cluster| {
            let run = || {
                let run =
                    Plain.run(context, cluster, (3, 2), &[]).args(["sh", "-c", "SLURM_CONF=/dev/null exec \"$0\""]);
                run.arg(context.compile(RING)?).finish()
            };
            Expected::failure().says("MUNGE").says("srun --mpi=pmi2").never_says("ring:").judge(run())
        },
    );
    maker.add("plain srun, an ordinary user".into(), ordinary_user);
    maker.add("plain srun, another user cannot read the credential that the first task shows".into(), stranger);
}

/// The ring as an ordinary user, who can read what is copied to the cluster's files.
fn ordinary_user(context: &Context, cluster: &Cluster) -> Outcome {
    let attempt = || {
        let (program, library) = (cluster.file("ring"), cluster.file("libmpi_abi.so.1"));
        std::fs::copy(context.compile(RING)?, &program)?;
        std::fs::copy(context.prefix.join("lib/libmpi_abi.so.1"), &library)?;
        let become_user = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];
        let run = cluster.run(become_user).args(["srun", "--nodes=2", "--ntasks=5", "--mpi=none"]).arg(&program);
        let run = run.env("LD_LIBRARY_PATH", cluster.file("")).directory(Path::new("/"));
        run.limit(LIMIT_SECONDS).finish()
    };
    Expected::code(0).says(over(5)).says("(right) on Weft").judge(attempt())
}

/// Asks the first task of a step, whose others have not come, for its credential, and decodes that as its
/// user and as another one.
fn stranger(context: &Context, cluster: &Cluster) -> Outcome {
    let attempt = || -> anyhow::Result<()> {
        let program = context.compile(RING)?;
        let script = "[ \"$SLURM_PROCID\" = 0 ] && exec \"$0\"; echo ready; exec sleep 60";
        let run = Plain.run(context, cluster, (2, 1), &["--nodelist=n0"]).args(["sh", "-c", script]).arg(program);
        let running = run.start()?;
        anyhow::ensure!(running.says("ready", READY), "the tasks do not start:\n{}", running.output());
        let look = cluster.run(["squeue", "--steps", "--noheader", "--format=%i"]).finish()?;
        let steps = look.output.split_whitespace().find(|step| step.ends_with(".0"));
        let step = anyhow::Context::with_context(steps, || format!("no step: {}", look.output))?.to_owned();
        let socket = cluster.file("munge.socket");
        let tool = context.root.join("tests/slurm/stranger.py");
        let asked = cluster.on_node(0, ["python3"]).arg(tool).args([&step]).arg(&socket).finish()?;
        let ended = cluster.run(["scancel", "--name=weft"]).finish()?;
        running.finish(Duration::from_secs(LIMIT_SECONDS))?;
        anyhow::ensure!(asked.code == Some(0) && ended.code == Some(0), "{}", asked.report());
        Ok(())
    };
    attempt().into()
}

/// The cases of `mpiexec` in an allocation.
fn inside_an_allocation(maker: &mut Maker) {
    maker.add("mpiexec in salloc takes all slots, and each node its own".into(), |context, cluster| {
        let script = "\"$0\" -print-rank-map \"$1\"; \"$0\" --hosts n1 \"$1\"";
        let attempt = || {
            let run = cluster.run([
                "salloc",
                "--quiet",
                "--nodes=2",
                "--ntasks=16",
                "--ntasks-per-node=8",
                "sh",
                "-c",
                script,
            ]);
            run.arg(context.bin("mpiexec")).arg(context.compile(RING)?).limit(LIMIT_SECONDS).finish()
        };
        let expected = Expected::code(0).says("(n0:0,1,2,3,4,5,6,7)").says("(n1:8,9,10,11,12,13,14,15)");
        expected.says(over(16)).says(over(1)).judge(attempt())
    });
    maker.add("weft compare --on allocation in salloc, and in sbatch".into(), |context, cluster| {
        let attempt = || -> anyhow::Result<Finished> {
            let within = |way: &'static str, command: Run| -> anyhow::Result<Finished> {
                let file = cluster.file(&format!("{way}.jsonl"));
                let words = ["compare", "pingpong", "--library", "weft", "--no-carriers", "--rounds", "1"];
                let run = command.arg(context.bin("weft")).args(words);
                let run = run.args(["--sizes", "8", "--samples", "1", "--seconds", "0.001", "--ranks", "2"]);
                let run = run.args(["--on", "allocation", "--json", "-o"]).arg(&file);
                let finished = run.env("XDG_CACHE_HOME", cluster.file("cache")).limit(LIMIT_SECONDS).finish()?;
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                anyhow::ensure!(text.contains("2-hosts-2-ranks"), "{way}: no run file:\n{}", finished.report());
                Ok(finished)
            };
            let shape = ["--quiet", "--nodes=2", "--ntasks=2"];
            let salloc = within("salloc", cluster.run(["salloc"]).args(shape))?;
            anyhow::ensure!(salloc.code == Some(0), "in salloc:\n{}", salloc.report());
            let script = "output=$1; shift; printf '#!/bin/sh\\nexec \"$@\"\\n' >\"$output.sh\"
                sbatch --quiet --wait --output=\"$output\" --nodes=2 --ntasks=2 \"$output.sh\" \"$@\"; code=$?
                cat \"$output\"; rm -f \"$output\" \"$output.sh\"; exit $code";
            within("sbatch", cluster.run(["sh", "-c", script, "sh"]).arg(cluster.file("compared")))
        };
        Expected::code(0).says("\"median\"").never_says("did not cross the wire").judge(attempt())
    });
    maker.add("mpiexec in sbatch with wishes for its own steps".into(), |context, cluster| {
        let run = || {
            let run =
                Sbatch.run(context, cluster, (5, 2), &[]).env("SLURM_LABELIO", "1").env("SLURM_UNBUFFEREDIO", "1");
            run.env("SBATCH_MEM_PER_CPU", "10").arg(context.compile(RING)?).finish()
        };
        Expected::code(0).says(over(5)).judge(run())
    });
    maker.add("mpiexec in salloc is killed: nothing is left".into(), |context, cluster| {
        let attempt = || -> anyhow::Result<Finished> {
            let script = "\"$0\" \"$1\" hang & pid=$!; read -r line; kill -KILL $pid; wait $pid";
            let run = cluster.run(["salloc", "--quiet", "--nodes=2", "--ntasks=4", "sh", "-c", script]);
            let fifo = cluster.file("fifo");
            let made = Run::new("mkfifo").arg(&fifo).finish()?;
            anyhow::ensure!(made.code == Some(0), "mkfifo fails");
            let held = std::fs::File::options().read(true).write(true).open(&fifo)?;
            let script = "exec \"$@\" <\"$0\"";
            let inner = run.arg(context.bin("mpiexec")).arg(context.compile(BEHAVE)?);
            let running = inner.behind(&["sh", "-c", script, &fifo.to_string_lossy()]).start()?;
            anyhow::ensure!(running.says("ready", READY), "the ranks do not start:\n{}", running.output());
            std::io::Write::write_all(&mut &held, b"kill\n")?;
            let finished = running.finish(READY + END);
            std::fs::remove_file(&fifo)?;
            finished
        };
        Expected::failure().judge(attempt())
    });
}

/// mpi4py's tests of point-to-point communication.
fn point_to_point(maker: &mut Maker) {
    maker.cases.push(peers::mpi4py_build("mpi4py, built from the source distribution"));
    for start in STARTS {
        maker.add_start(
            start,
            ", mpi4py's tests of point-to-point communication, 3 ranks".into(),
            move |context, cluster| {
                let attempt = || {
                    let (tests, words) = peers::test_words(context, 3, &["-i", POINT_TO_POINT])?;
                    start
                        .run(context, cluster, (3, 2), &[])
                        .args(words)
                        .directory(&tests)
                        .limit(MPI4PY_LIMIT_SECONDS)
                        .finish()
                };
                Expected::code(0).says("OK").never_says("FAILED (").judge(attempt())
            },
        );
    }
}
