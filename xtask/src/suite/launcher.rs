//! Tests of `mpiexec`: failures of ranks, of hosts and of `mpiexec` itself, and the features that users'
//! scripts need.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Signal, kill_process, kill_process_group};

use super::context::{Context, Expected};
use super::process::{Finished, Run};
use super::{Case, Outcome};

mod limits;

const READY: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(10);
/// The letters of a line that mpiexec must hand on whole, 5 × 40.
const LETTERS: usize = 200;

const BEHAVE: &str = "tests/launcher/behave.c";
const MISUSED: &str = "tests/launcher/misused.c";
const CONSEQUENCE: &str = "tests/c/consequence.c";

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for location in [Location::Local, Location::Hosts] {
        cases.extend(endings(location));
        cases.extend(consequences(location));
        cases.extend(kills(location));
        cases.push(output_is_whole(location));
        cases.extend(misused(location));
    }
    cases.extend(starts());
    cases.extend(options());
    cases.extend(processors());
    cases.extend(limits::cases());
    cases.push(silent_host());
    cases.extend(super::scripts::cases());
    cases.extend(super::chaos::selection());
    cases
}

#[derive(Clone, Copy)]
enum Location {
    Local,
    Hosts,
}

impl Location {
    fn name(self) -> &'static str {
        match self {
            Location::Local => "one host",
            Location::Hosts => "two hosts",
        }
    }

    fn mpiexec(self, context: &Context, ranks: u32) -> anyhow::Result<Run> {
        match self {
            Location::Local => Ok(context.mpiexec(ranks)),
            Location::Hosts => context.mpiexec_on_hosts(ranks),
        }
    }
}

fn behave(context: &Context, location: Location, ranks: u32, arguments: &str) -> anyhow::Result<Run> {
    Ok(location.mpiexec(context, ranks)?.arg(context.compile(BEHAVE)?).args(arguments.split(' ')))
}

/// The cases of ranks that end badly: the exit code is theirs, one line names the rank and the cause, and the
/// other ranks are ended.
fn endings(location: Location) -> Vec<Case> {
    let table: &[(&str, &str, i32, &[&'static str])] = &[
        ("a rank dies by SIGSEGV", "signal 3 11", 139, &["rank 3", "SIGSEGV"]),
        ("a rank dies by SIGKILL", "signal 1 9", 137, &["rank 1", "SIGKILL"]),
        ("a rank is killed inside MPI_Recv", "signal-inside 2 9", 137, &["rank 2", "SIGKILL", "MPI_Recv"]),
        ("a rank calls MPI_Abort", "abort 1 7", 7, &["rank 1", "Abort"]),
        ("a rank leaves without MPI_Finalize", "leave 2 5", 5, &["rank 2"]),
        ("a rank leaves with 0 and without MPI_Finalize", "leave 2 0", 1, &["rank 2", "without MPI_Finalize"]),
        ("all ranks leave with 0 and without MPI_Finalize", "all-leave 2 0", 1, &["0-3", "without MPI_Finalize"]),
        ("they do, and one of them later", "all-leave 2 2500", 1, &["without MPI_Finalize"]),
        ("a rank returns 3 after MPI_Finalize", "exit 1 3", 3, &["rank 1"]),
    ];
    let make = |&(name, arguments, code, says): &(&'static str, &'static str, i32, &'static [&'static str])| {
        Case::new(format!("{name}, {}", location.name()), move |context| {
            let expected = says.iter().fold(Expected::code(code), |expected, text| expected.says(*text));
            expected.judge(behave(context, location, 4, arguments).and_then(|run| run.limit(END.as_secs()).finish()))
        })
    };
    table.iter().map(make).collect()
}

/// The cases of a rank that cannot do its part of a call, and is slow to end the job. The ranks that have an
/// error because of that rank let it end the job.
fn consequences(location: Location) -> Vec<Case> {
    const CALLS: [&str; 6] = ["allgather", "create", "connect", "open-file", "open-window", "close-window"];
    let make = |call: &'static str| {
        Case::new(format!("the rank with the cause ends the job, {call}, {}", location.name()), move |context| {
            let attempt = || -> anyhow::Result<Finished> {
                let run = location.mpiexec(context, 4)?.env("WEFT_LINK", "udp").directory(&context.work);
                run.arg(context.compile(CONSEQUENCE)?).arg(call).limit(END.as_secs()).finish()
            };
            Expected::code(77).says("rank 3").judge(attempt())
        })
    };
    CALLS.map(make).into()
}

/// The cases of programs that use MPI wrongly in a way that ends, or could hang, a job: a sentence says what
/// is wrong.
fn misused(location: Location) -> Vec<Case> {
    let case = |name: &str, ranks: u32, arguments: &'static str, expected: fn() -> Expected| {
        Case::new(format!("{name}, {ranks} ranks, {}", location.name()), move |context| {
            let attempt = || -> anyhow::Result<Finished> {
                location
                    .mpiexec(context, ranks)?
                    .arg(context.compile(MISUSED)?)
                    .arg(arguments)
                    .limit(END.as_secs())
                    .finish()
            };
            expected().judge(attempt())
        })
    };
    const FINALIZED: &str = "rank 0 of MPI_COMM_WORLD has called MPI_Finalize";
    let mut cases = vec![case("forked children call MPI", 2, "fork", || {
        Expected::code(0).says("this process was forked from").says("children ended with 16 and 77")
    })];
    for ranks in [2, 3, 5] {
        cases.push(case("a rank finalizes while others are in a barrier", ranks, "finalize-early", || {
            // MPI_ERR_OTHER.
            Expected::code(16).says("MPI_Barrier").says(FINALIZED)
        }));
        cases.push(case("MPI_Comm_dup against MPI_Comm_split", ranks, "dup-against-split", || {
            Expected::code(0)
                .says("rank 0 got: MPI_ERR_OTHER: MPI_Comm_dup: processes of the communicator are in MPI_Comm_dup while others are in MPI_Comm_split")
                .says("rank 1 got: MPI_ERR_OTHER: MPI_Comm_split: processes of the communicator are in MPI_Comm_dup while others are in MPI_Comm_split")
        }));
        cases.push(case("each creation of a communicator against each other", ranks, "creations", || {
            Expected::code(0)
                .says("all creations were told apart")
                .says("MPI_Comm_split while others are in MPI_Cart_create")
        }));
    }
    cases
}

/// The cases in which `mpiexec` itself is ended: no process of the job outlives it.
fn kills(location: Location) -> Vec<Case> {
    let case = |name: &str, signal: Signal, whole_group: bool, code: i32| {
        Case::new(format!("{name}, {}", location.name()), move |context| {
            let attempt = || -> anyhow::Result<Finished> {
                let mut running = behave(context, location, 4, "hang")?.start()?;
                anyhow::ensure!(running.says("ready", READY), "it did not start:\n{}", running.output());
                anyhow::ensure!(running.processes().len() >= 5, "the ranks are not found");
                match (signal, whole_group) {
                    (Signal::KILL, _) => running.kill()?,
                    (_, true) => kill_process_group(running.pid(), signal)?,
                    (_, false) => kill_process(running.pid(), signal)?,
                }
                running.finish(END)
            };
            Expected::code(code).judge(attempt())
        })
    };
    vec![
        case("mpiexec is killed (SIGKILL)", Signal::KILL, false, 137),
        case("mpiexec is told to end (SIGTERM)", Signal::TERM, false, 143),
        case("the user types Ctrl-C (SIGINT to all)", Signal::INT, true, 130),
    ]
}

fn output_is_whole(location: Location) -> Case {
    Case::new(format!("no line is torn, {}", location.name()), move |context| {
        let finished = behave(context, location, 4, "lines 100").and_then(|run| run.finish());
        let torn = finished.as_ref().ok().and_then(|finished| {
            let is_whole = |line: &&str| {
                let letters = line.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')?.rsplit(':').next());
                letters.is_some_and(|text| text.len() == LETTERS && text.bytes().all(|byte| byte == text.as_bytes()[0]))
            };
            let whole = finished.output.lines().filter(is_whole).count();
            (whole != 400).then(|| {
                format!(
                    "{whole} whole lines of 400; not whole: {:?}",
                    finished.output.lines().find(|line| !is_whole(line))
                )
            })
        });
        match (Expected::code(0).judge(finished), torn) {
            (Outcome::Passed, Some(why)) => Outcome::Failed(why),
            (outcome, _) => outcome,
        }
    })
}

/// Makes a changed copy of the example `hello`.
fn damaged(context: &Context, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut program = std::fs::read(context.compile("examples/hello.c")?)?;
    change(&mut program);
    let path = context.work.join(format!("hello-{name}"));
    std::fs::write(&path, program)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn starts() -> Vec<Case> {
    vec![
        Case::new("the program is missing", |context| {
            let run = context.mpiexec(2).arg("./no-such-program").limit(END.as_secs());
            Expected::code(127).says("no-such-program").judge(run.finish())
        }),
        Case::new("the program is missing on two hosts", |context| {
            let run = context.mpiexec_on_hosts(2).map(|run| run.arg("./no-such-program").limit(END.as_secs()));
            Expected::code(127).says("no-such-program").judge(run.and_then(|run| run.finish()))
        }),
        Case::new("the program may not be executed", |context| {
            let run = context.mpiexec(1).arg(context.root.join("Cargo.toml")).limit(END.as_secs());
            Expected::code(126).says("Cargo.toml").judge(run.finish())
        }),
        Case::new("the program is for another processor", |context| {
            let made = damaged(context, "aarch64", |program| program[18..20].copy_from_slice(&183u16.to_le_bytes()));
            let run = made.map(|program| context.mpiexec(2).arg(program).limit(END.as_secs()));
            let expected =
                Expected::code(126).says("rank 0").says("is a program for AArch64").never_says("Syntax error");
            expected.judge(run.and_then(|run| run.finish()))
        }),
        Case::new("the program is cut off", |context| {
            let made = damaged(context, "cut-off", |program| program.truncate(4096));
            let run = made.map(|program| context.mpiexec(2).arg(program).limit(END.as_secs()));
            let expected = Expected::code(126).says("rank 0").says("is cut off: it has 4096 bytes");
            expected.judge(run.and_then(|run| run.finish()))
        }),
        Case::new("a setting that is wrong is said once by 40 ranks, and whole", |context| {
            let run = context.compile("examples/hello.c").map(|program| context.mpiexec(40).arg(program));
            let finished = run.and_then(|run| run.env("WEFT_EAGER_LIMIT", "lots").limit(40).finish());
            let lines = finished.as_ref().map_or(0, |finished| finished.output.lines().count());
            let expected =
                Expected::failure().says("WEFT_EAGER_LIMIT=lots is not such a whole number: it may say auto, or bytes");
            match (expected.judge(finished), lines) {
                (Outcome::Passed, 1) => Outcome::Passed,
                (Outcome::Passed, _) => Outcome::Failed(format!("{lines} lines are said")),
                (outcome, _) => outcome,
            }
        }),
        Case::new("a setting that is wrong is said once by ranks of two hosts", |context| {
            let run =
                context.compile("examples/hello.c").and_then(|program| Ok(context.mpiexec_on_hosts(8)?.arg(program)));
            let finished = run.and_then(|run| run.env("WEFT_EAGER_LIMIT", "lots").limit(40).finish());
            let lines = finished.as_ref().map_or(0, |finished| finished.output.lines().count());
            match (Expected::failure().says("WEFT_EAGER_LIMIT=lots is not such a whole number").judge(finished), lines)
            {
                (Outcome::Passed, 1) => Outcome::Passed,
                (Outcome::Passed, _) => Outcome::Failed(format!("{lines} lines are said")),
                (outcome, _) => outcome,
            }
        }),
        Case::new("mpiexec may have few files", |context| {
            let script = format!("ulimit -n 20; exec '{}' -n 40 true", context.bin("mpiexec").display());
            Expected::failure().says("`ulimit -n` says").judge(Run::new("sh").args(["-c", &script]).limit(40).finish())
        }),
        Case::new("ranks may have few files", |context| {
            let attempt = || -> anyhow::Result<Finished> {
                let program = context.compile("examples/hello.c")?;
                let script = format!("ulimit -n 7; exec '{}'", program.display());
                context.mpiexec(2).args(["sh", "-c", &script]).limit(40).finish()
            };
            Expected::failure().says("MPI_Init").says("`ulimit -n` says").judge(attempt())
        }),
        Case::new("a host cannot be reached", |context| {
            let run = context.mpiexec(2).args(["--hosts", "nowhere.invalid", "--agent", "false {host}", "true"]);
            Expected::failure().says("nowhere.invalid").judge(run.limit(END.as_secs()).finish())
        }),
        Case::new("one of two hosts cannot be reached", |context| {
            let agent = "sh -c 'test {host} != gone && exec env WEFT_NODE={host} \"$@\"' sh";
            let run = context.mpiexec(4).args(["-ppn", "2", "--hosts", "here,gone", "--agent", agent]);
            Expected::failure().says("gone").judge(
                context.compile(BEHAVE).and_then(|program| run.arg(program).arg("hang").limit(END.as_secs()).finish()),
            )
        }),
        Case::new("an agent that is told to end before it is told what to start ends", |context| {
            let script = "cd \"$(mktemp -d)\" && mkfifo in out && { \"$0\" --weft-agent <in >out & } && exec 3>in 4<out && read greeting <&4 && \
                          kill -TERM $! && wait $!; rm -r \"$PWD\"; echo \"ended after: $greeting\"";
            let run = Run::new("sh").args(["-c", script]).arg(context.bin("mpiexec"));
            Expected::code(0).says("ended after: WEFT-AGENT").judge(run.limit(END.as_secs()).finish())
        }),
        Case::new("which ranks are on which host is said when it is asked for", |context| {
            let agent = "sh -c 'exec env WEFT_NODE={host} \"$@\"' sh";
            let run =
                context.mpiexec(4).args(["-print-rank-map", "-ppn", "2", "--hosts", "here,there", "--agent", agent]);
            let finished = run.arg("true").limit(END.as_secs()).finish();
            Expected::code(0).says("(here:0,1)").says("(there:2,3)").judge(finished)
        }),
        Case::new("32 ranks on few processors", |context| {
            Expected::code(0)
                .judge(behave(context, Location::Local, 32, "barriers 50").and_then(|run| run.limit(40).finish()))
        }),
        Case::new("a program that is no MPI program", |context| {
            Expected::code(0)
                .says("plain")
                .judge(context.mpiexec(3).args(["echo", "plain"]).limit(END.as_secs()).finish())
        }),
        Case::new("no mpiexec: a singleton", |context| {
            let run = context.compile("examples/hello.c").map(Run::new);
            Expected::code(0).says("rank 0 of 1").judge(run.and_then(|run| run.finish()))
        }),
        Case::new("a launcher without a process manager: no silent singletons", |context| {
            let run = context.compile("examples/hello.c").map(Run::new);
            let run = run.map(|run| run.env("SLURM_PROCID", "0").env("SLURM_NTASKS", "2").env("SLURM_JOB_ID", "1"));
            Expected::failure().says("Slurm").never_says("rank 0 of 1").judge(run.and_then(|run| run.finish()))
        }),
    ]
}

fn options() -> Vec<Case> {
    vec![
        Case::new("--timeout ends a job that hangs", |context| {
            let run = context
                .compile(BEHAVE)
                .map(|program| context.mpiexec(2).args(["--timeout", "2"]).arg(program).arg("hang"));
            Expected::failure().says("2 s").judge(run.and_then(|run| run.limit(END.as_secs()).finish()))
        }),
        Case::new("-l labels each line with its rank", |context| {
            let run = context.mpiexec(2).args(["-l", "echo", "thread"]);
            let finished = run.limit(END.as_secs()).finish();
            Expected::code(0).says("0").says("1").says("thread").judge(finished)
        }),
        variable(&["-genv", "WEAVE", "twill"]),
        variable(&["-x", "WEAVE=twill"]),
        variable(&["-env", "WEAVE", "twill"]),
        Case::new("several programs by :", |context| {
            let run = context.compile(BEHAVE).map(|program| {
                let run = context.mpiexec(1).arg(&program).args(["print", "PATH", ":", "-n", "2"]);
                run.arg(&program).args(["print", "HOME"])
            });
            let expected = Expected::code(0).says("rank 0: PATH=").says("rank 1: HOME=").says("rank 2: HOME=");
            expected.judge(run.and_then(|run| run.finish()))
        }),
        Case::new("options of both families", |context| {
            let options =
                ["-np", "2", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "--map-by", "slot"];
            let more = ["--mca", "btl", "self", "--tag-output"];
            let run = Run::new(context.bin("mpiexec")).args(options).args(more).args(["echo", "plain"]);
            Expected::code(0).says("plain").judge(run.limit(END.as_secs()).finish())
        }),
        Case::new("an option nobody knows is named", |context| {
            let run = context.mpiexec(1).args(["--no-such-option", "true"]).limit(END.as_secs());
            Expected::failure().says("--no-such-option").judge(run.finish())
        }),
        Case::new("standard input goes to rank 0", |context| {
            let run = context.mpiexec(2).arg("cat").input("warp and weft\n").limit(END.as_secs());
            Expected::code(0).says("warp and weft").judge(run.finish())
        }),
        Case::new("a host file", |context| {
            let file = context.work.join("hostfile");
            let attempt = || {
                let hosts = context.hosts()?;
                std::fs::write(&file, format!("# two hosts\n{}:1\n{} slots=1\n", hosts.names[0], hosts.names[1]))?;
                let run = context.mpiexec(2).args(["--agent", &hosts.agent, "-f"]).arg(&file);
                run.arg(context.compile("examples/ring.c")?).limit(END.as_secs()).finish()
            };
            Expected::code(0).says("(right)").judge(attempt())
        }),
        Case::new("--stats names both links", |context| {
            let attempt = || {
                let run = context.mpiexec_on_hosts(4)?.arg("--stats").arg(context.compile("examples/ring.c")?);
                run.limit(END.as_secs()).finish()
            };
            Expected::code(0).says("(right)").says("shared").says("udp").judge(attempt())
        }),
    ]
}

/// The most jobs that one story starts at the same time.
const JOBS_MAX: usize = 5;

/// The processors of each rank in the output of `mpiexec --report-bindings`; `None`: the rank is not bound.
fn bound_to(output: &str) -> Vec<Option<String>> {
    let lines = output.lines().filter(|line| line.starts_with("mpiexec: rank ") && line.contains("bound"));
    let list = |line: &str| {
        let words = line.split_once(": bound to processor")?.1;
        Some(words.trim_start_matches('s').split(':').next()?.trim().to_owned())
    };
    lines.map(list).collect()
}

/// A case with a variable that these options give to the ranks, which run in a chosen directory.
fn variable(options: &'static [&'static str]) -> Case {
    Case::new(format!("a variable by {}; --wdir", options[0]), move |context| {
        let run = context.compile(BEHAVE).map(|program| {
            let run = context.mpiexec(2).args(options).args(["--wdir", "/usr"]);
            run.arg(program).args(["print", "WEAVE"])
        });
        let expected = Expected::code(0).says("rank 0: WEAVE=twill in /usr").says("rank 1: WEAVE=twill in /usr");
        expected.judge(run.and_then(|run| run.finish()))
    })
}

/// The cases of bindings: a registry of their own keeps other jobs of the machine out of these stories.
fn processors() -> Vec<Case> {
    let registry = |context: &Context| context.work.join("registry");
    let enough = || std::thread::available_parallelism().is_ok_and(|count| count.get() >= 2);
    let apart = move |context: &Context, run: Run| -> anyhow::Result<()> {
        let finished = run.env("WEFT_REGISTRY", registry(context)).limit(END.as_secs()).finish()?;
        let bound = bound_to(&finished.output);
        anyhow::ensure!(finished.code == Some(0) && bound.len() == 2, "{}", finished.report());
        let distinct = bound[0].is_some() && bound[1].is_some() && bound[0] != bound[1];
        anyhow::ensure!(distinct == enough(), "ranks are bound to {bound:?}:\n{}", finished.report());
        Ok(())
    };
    // A rank's processor is taken as long as the rank runs: the ranks must run at the same time, also when
    // one host starts later.
    let options = ["--bind-to", "hwthread", "--report-bindings", "sleep", "1"];
    vec![
        Case::new("--bind-to gives each rank a processor of its own", move |context| {
            apart(context, context.mpiexec(2).args(options))
        }),
        Case::new("hosts in network namespaces share the processors of the machine", move |context| {
            context.mpiexec_on_hosts(2).and_then(|run| apart(context, run.args(options)))
        }),
        Case::new(
            "jobs that share a machine have processors of their own, and one too many is not bound",
            move |context| {
                let job = || {
                    let run = context.mpiexec(1).env("WEFT_REGISTRY", registry(context));
                    run.args(["--bind-to", "hwthread", "--report-bindings", "sleep", "3"]).start()
                };
                let processors = std::thread::available_parallelism()?.get();
                let mut jobs = Vec::new();
                for _ in 0..(processors + 1).min(JOBS_MAX) {
                    let running = job()?;
                    anyhow::ensure!(running.says("mpiexec: rank 0", READY), "no binding:\n{}", running.output());
                    jobs.push(running);
                }
                let bound: Vec<_> = jobs.iter().map(|job| bound_to(&job.output()).first().cloned().flatten()).collect();
                jobs.into_iter().try_for_each(|job| job.finish(END).map(|_| ()))?;
                let mut own: Vec<_> = bound.iter().take(processors).collect();
                own.sort();
                own.dedup();
                let apart = own.len() == bound.len().min(processors) && !own.contains(&&None);
                let too_many = bound.iter().skip(processors).all(Option::is_none);
                anyhow::ensure!(apart && too_many, "the jobs are bound to {bound:?}");
                Ok(())
            },
        ),
        Case::new("more ranks than processors are not bound, and it is said", move |context| {
            let ranks = std::thread::available_parallelism().map_or(1, |count| count.get() as u32) + 1;
            let run =
                context.mpiexec(ranks).env("WEFT_REGISTRY", registry(context)).args(["--bind-to", "core", "true"]);
            Expected::code(0).says("ranks are not bound:").judge(run.limit(END.as_secs()).finish())
        }),
        Case::new("a control group's time quota counts, in whole processors", move |context| match enough() {
            true => quota(context, &registry(context)),
            false => Outcome::Skipped("there is only one processor".into()),
        }),
    ]
}

/// Runs two ranks with the time of one and a half processors: they are told that they share a processor, and
/// neither is bound.
fn quota(context: &Context, registry: &Path) -> Outcome {
    let options =
        ["-n", "2", "--bind-to", "core", "--report-bindings", "sh", "-c", "echo ranks and processors: $WEFT_LOAD"];
    let run = Run::new(context.root.join("tests/launcher/quota.sh")).arg(context.bin("mpiexec")).args(options);
    let finished = run.env("WEFT_REGISTRY", registry).limit(END.as_secs()).finish();
    if finished.as_ref().is_ok_and(|finished| finished.output.contains("no control group to be had")) {
        return Outcome::Skipped("no privilege to make control groups".into());
    }
    Expected::code(0).says("time quota allows for 1 processor").says("ranks and processors: 2/1").judge(finished)
}

/// A case of a host without power: its agent sends no more, and no sign tells that it is gone.
fn silent_host() -> Case {
    Case::new("a host that falls silent ends the job", |context| {
        let attempt = || -> anyhow::Result<Finished> {
            let run = context.mpiexec_on_hosts(4)?.args(["--host-timeout", "2"]);
            let running = run.arg(context.compile(BEHAVE)?).arg("hang").start()?;
            anyhow::ensure!(running.says("ready", READY), "it did not start:\n{}", running.output());
            let agent = running.processes().into_iter().find(|(_, line)| line.contains("--weft-agent"));
            let Some((agent, _)) = agent else { anyhow::bail!("no agent is found") };
            kill_process(agent, Signal::STOP)?;
            running.finish(END)
        };
        Expected::code(1).says("has not answered for 2 s").judge(attempt())
    })
}
