//! Tests of tools beside a program: a profiler by the names PMPI_*, preloaded and linked; and gdb.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::context::{Context, Expected};
use super::process::Run;
use super::{Case, Outcome};

const PROFILER: &str = "tests/tools/profiler.c";
const PROFILED: &str = "tests/tools/profiled.c";
const WAITS: &str = "tests/tools/waits.c";
const MPIR: &str = "tests/tools/mpir.py";
/// The lines of the table about ranks of the profiled program: the file and the running program are the same.
const MPIR_RANKS: [&str; 3] = ["MPIR: rank 0 on ", "MPIR: rank 1 on ", " is profiled, and that runs profiled"];
const DEBUGGER: &str = "share/weft/weft-gdb.py";
/// The time that the program may take until it waits as it should, and that gdb may take.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(500);

/// The profiler's lines about two ranks: three messages of 1, 2 and 3 int, and one of two reductions.
const SAYS: [&str; 4] = [
    "profile: rank 0: MPI_Send 3 calls, 24 bytes",
    "profile: rank 1: MPI_Recv 3 calls, 24 bytes",
    "profile: rank 0: MPI_Allreduce 1 calls, 8 bytes",
    "profile: rank 1: MPI_Allreduce 1 calls, 8 bytes",
];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    vec![
        Case::new("a profiler that is preloaded", |context| profile(context, false)),
        Case::new("a profiler that is linked", |context| profile(context, true)),
        Case::new("gdb: all ranks in one session, and their queues", debug),
        Case::new("MPIR: a debugger finds the ranks in mpiexec", |context| {
            let expected = Expected::code(0).says("MPIR: 3 ranks").says("MPIR: exit status 0");
            let expected = (0..3).fold(expected, |expected, rank| expected.says(MPIR_RANKS[rank]));
            mpir(context, expected, |context| {
                Ok(vec!["-n".into(), "3".into(), build(context, "profiled", &[PROFILED], &[])?])
            })
        }),
        Case::new("MPIR: a debugger hears why a job ends", |context| {
            let expected =
                Expected::code(0).says("MPIR: 2 ranks").says("MPIR: aborting: rank ").says("exited with status 3");
            mpir(context, expected.says("MPIR: exit status 3"), |_| {
                Ok(["-n", "2", "sh", "-c", "exit 3"].map(PathBuf::from).to_vec())
            })
        }),
        Case::new("gdb: without a rank it says so", |context| {
            // There is no process with this number.
            let source = format!("source {}", context.prefix.join(DEBUGGER).display());
            let run = Run::new("gdb").args(["-q", "-nx", "-batch", "-ex", &source, "-ex", "weft attach 2147483647"]);
            let expected = Expected::failure().says("no process at or below 2147483647 is a running rank");
            gdb_is_here().map(|()| expected.never_says("Traceback").judge(run.finish()))
        }),
    ]
}

/// Runs a debugger that knows only the MPIR interface, over `mpiexec` with these words.
fn mpir(
    context: &Context,
    expected: Expected,
    words: fn(&Context) -> anyhow::Result<Vec<PathBuf>>,
) -> anyhow::Result<Outcome> {
    gdb_is_here()?;
    let gdb = Run::new("gdb").args(["-q", "-nx", "-batch", "-x"]).arg(context.root.join(MPIR)).arg("--args");
    let finished = gdb.arg(context.bin("mpiexec")).args(words(context)?).limit(LIMIT.as_secs()).finish()?;
    if finished.output.contains("ptrace: Operation not permitted") {
        return Ok(Outcome::Skipped("this machine does not let processes be traced".to_owned()));
    }
    Ok(expected.judge(Ok(finished)))
}

fn gdb_is_here() -> anyhow::Result<()> {
    let found = Run::new("gdb").args(["-batch", "-ex", "python print(41 + 1)"]).finish()?;
    anyhow::ensure!(found.output.contains("42"), "gdb has no Python");
    Ok(())
}

/// Compiles with further options for the compiler.
fn build(context: &Context, name: &str, sources: &[&str], flags: &[&str]) -> anyhow::Result<PathBuf> {
    let target = context.work.join(name);
    let sources = sources.iter().map(|source| context.root.join(source));
    let compiler = Run::new(context.bin("mpicc")).args(["-std=c11", "-g", "-Wall", "-Wextra", "-Werror"]).args(flags);
    let finished = compiler.arg("-o").arg(&target).args(sources).finish()?;
    anyhow::ensure!(finished.code == Some(0), "cannot compile {name}:\n{}", finished.report());
    Ok(target)
}

fn profile(context: &Context, linked: bool) -> Outcome {
    let run = || -> anyhow::Result<_> {
        let run = if linked {
            context.mpiexec(2).arg(build(context, "profiled-linked", &[PROFILED, PROFILER], &[])?)
        } else {
            let library = build(context, "libprofiler.so", &[PROFILER], &["-shared", "-fPIC"])?;
            let preload = format!("LD_PRELOAD={}", library.display());
            context.mpiexec(2).args(["-x", &preload]).arg(build(context, "profiled", &[PROFILED], &[])?)
        };
        run.limit(LIMIT.as_secs()).finish()
    };
    SAYS.into_iter().fold(Expected::code(0), Expected::says).judge(run())
}

/// Lets gdb attach to all ranks of a waiting job; it shows what they wait for, their queues, and where they
/// are in the program.
fn debug(context: &Context) -> anyhow::Result<Outcome> {
    gdb_is_here()?;
    let running = context.mpiexec(2).arg(context.compile(WAITS)?).start()?;
    let pid = running.pid().as_raw_nonzero().to_string();
    let deadline = Instant::now() + LIMIT;
    let waits = loop {
        std::thread::sleep(PAUSE);
        let seen = Run::new(context.bin("weft")).args(["info", "--live", &pid, "--once"]).finish()?.output;
        // When this conclusion is drawn, the rank has stood still for long enough: from then on the debugger
        // stops it.
        if seen.contains("unexpected from rank 1") && seen.contains("why: rank 0 waits for rank 1") {
            break true;
        }
        if Instant::now() > deadline {
            break false;
        }
    };
    let words = [
        format!("source {}", context.prefix.join(DEBUGGER).display()),
        format!("weft attach {pid}"),
        "weft queues".to_owned(),
        "weft rank 0".to_owned(),
        "bt".to_owned(),
    ];
    let gdb = words.iter().fold(Run::new("gdb").args(["-q", "-nx", "-batch"]), |run, word| run.args(["-ex", word]));
    let finished = gdb.limit(LIMIT.as_secs()).finish()?;
    kill_process(running.pid(), Signal::INT)?;
    running.finish(2 * LIMIT)?;
    if !waits {
        return Ok(Outcome::Failed("the program never waited as it should".to_owned()));
    }
    if finished.output.contains("ptrace: Operation not permitted") {
        return Ok(Outcome::Skipped("this machine does not let processes be traced".to_owned()));
    }
    let expected = Expected::code(0)
        .says("rank 0 of 2: inferior 1")
        .says("rank 1 of 2: inferior 2")
        .says("waits for: receive from rank 1, tag 42, 4 bytes on MPI_COMM_WORLD")
        .says("1 receives posted, 1 messages unexpected")
        .says("unexpected: from rank 1, tag 43, 4 bytes on MPI_COMM_WORLD")
        .says("why: rank 0 waits for rank 1")
        .says("MPI_Recv ()");
    Ok(expected.judge(Ok(finished)))
}
