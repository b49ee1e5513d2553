//! Tests of features that users' scripts need of `mpiexec` and `weft`: options of other launchers, programs
//! of other libraries, long lines, and readers that close the pipe early.

use super::context::{Context, Expected};
use super::process::{Finished, Run};
use super::{Case, Outcome};

/// The time limit, longer than any of these cases takes.
const LIMIT_SECONDS: u64 = 60;
/// The bytes of a long line: more than an agent reads at once, or may send before it is told that the line
/// was written.
const LONG_LINE: usize = 300_000;
/// The ranks that write long lines, and the lines of each.
const WRITERS: usize = 4;
const LINES_EACH: usize = 3;
/// The agent that reaches "hosts" that are this one, in nodes of their own.
const AGENT: &str = "sh -c 'exec env WEFT_NODE={host} \"$@\"' sh";
const SAY_SIZE: [&str; 3] = ["sh", "-c", "echo size $PMI_SIZE"];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = other_launchers();
    cases.push(stranger());
    cases.push(long_lines());
    cases.extend(UNREAD.map(without_a_reader));
    cases
}

fn mpiexec(context: &Context) -> Run {
    Run::new(context.bin("mpiexec")).limit(LIMIT_SECONDS)
}

fn other_launchers() -> Vec<Case> {
    vec![
        Case::new("without -n the slots of the hosts are filled", |context| {
            let run = mpiexec(context).args(["--hosts", "here:2,there", "--agent", AGENT]).args(SAY_SIZE);
            Expected::code(0).says("size 3").judge(run.finish())
        }),
        Case::new("without -n and hosts the slots of an allocation are filled", |context| {
            let file = context.work.join("allocation");
            let attempt = || -> anyhow::Result<Finished> {
                std::fs::write(&file, "here\nhere\nthere\nhere\n")?;
                let run = mpiexec(context).env("PBS_NODEFILE", &file).args(["-print-rank-map", "--agent", AGENT]);
                run.args(SAY_SIZE).finish()
            };
            Expected::code(0).says("size 4").says("(here:0,1,2)").says("(there:3)").judge(attempt())
        }),
        Case::new("programs are read from a file, and looked for where -path says", |context| {
            let file = context.work.join("programs");
            let attempt = || -> anyhow::Result<Finished> {
                std::fs::write(
                    &file,
                    "# two programs\n-n 2 sh -c 'echo first $PMI_SIZE'\n-n 1 -path /bin sh -c 'echo second $PMI_SIZE'\n",
                )?;
                mpiexec(context).arg("-configfile").arg(&file).finish()
            };
            Expected::code(0).says("first 3").says("second 3").judge(attempt())
        }),
        Case::new("an option that is not here says what is used instead", |context| {
            let run = mpiexec(context).args(["--rankfile", "ranks", "-n", "2", "true"]);
            Expected::failure().says("no option --rankfile here: ").says("--hosts").judge(run.finish())
        }),
        Case::new("-disable-auto-cleanup lets the others go on", |context| {
            let script = "test $PMI_RANK = 1 && exit 3; echo survived";
            let run = mpiexec(context).args(["-n", "3", "-disable-auto-cleanup", "sh", "-c", script]);
            let finished = run.finish();
            let survivors = finished.as_ref().map_or(0, |finished| finished.output.matches("survived").count());
            match Expected::code(3).says("rank 1").judge(finished) {
                Outcome::Passed if survivors != 2 => Outcome::Failed(format!("{survivors} of 2 went on")),
                outcome => outcome,
            }
        }),
        Case::new("--stats of a job that did not start has no table", |context| {
            let run = mpiexec(context).args(["-n", "2", "--stats", "./no-such-program"]);
            Expected::code(127).says("no statistics: ").never_says("from  to").judge(run.finish())
        }),
    ]
}

/// A case of a program that names another MPI library and does not speak to `mpiexec`: each of its processes
/// is a job of its own.
fn stranger() -> Case {
    Case::new("a program of another MPI library is noticed", |context| {
        let directory = context.work.join("another-mpi");
        let script = "cd \"$1\" && echo 'int MPI_Init(void) { return 0; }' >library.c && \
                      echo '#include <stdio.h>\nint MPI_Init(void);\nint main(void) { puts(\"rank 0 of 1\"); return MPI_Init(); }' >program.c && \
                      cc -shared -fPIC -Wl,-soname,libmpi.so.40 -o libmpi.so.40 library.c && \
                      cc -o program program.c ./libmpi.so.40 -Wl,-rpath,\"$1\" && exec \"$0\" --no-faces -n 2 ./program";
        let attempt = || -> anyhow::Result<Finished> {
            std::fs::create_dir_all(&directory)?;
            let run = Run::new("sh").args(["-c", script]).arg(context.bin("mpiexec")).arg(&directory);
            run.limit(LIMIT_SECONDS).finish()
        };
        let finished = attempt();
        let notes = finished.as_ref().map_or(0, |finished| finished.output.matches("another MPI library").count());
        match Expected::code(0).says("program is linked with libmpi.so.40, another MPI library").judge(finished) {
            Outcome::Passed if notes != 1 => Outcome::Failed(format!("it is said {notes} times")),
            outcome => outcome,
        }
    })
}

fn long_lines() -> Case {
    Case::new("long lines of several ranks do not mix, two hosts", |context| {
        let script =
            format!("for line in 1 2 3; do head -c {LONG_LINE} /dev/zero | tr '\\0' \"$PMI_RANK\"; echo; done");
        let run = mpiexec(context).args(["--hosts", "here:2,there:2", "--agent", AGENT, "sh", "-c", &script]);
        let finished = run.finish();
        let whole = finished.as_ref().map_or(0, |finished| {
            let is_whole = |line: &&str| line.len() == LONG_LINE && line.bytes().all(|byte| byte == line.as_bytes()[0]);
            finished.output.lines().filter(is_whole).count()
        });
        let code = finished.as_ref().map(|finished| finished.code);
        match code {
            Ok(Some(0)) if whole == WRITERS * LINES_EACH => Outcome::Passed,
            Ok(code) => Outcome::Failed(format!("{whole} whole lines of {}, code {code:?}", WRITERS * LINES_EACH)),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        }
    })
}

/// The commands that write into a pipe whose reader has gone.
const UNREAD: [&str; 14] = [
    "weft version",
    "weft --help",
    "weft info",
    "weft info --json",
    "weft info --collectives",
    "weft info --live 1",
    "weft doctor",
    "weft doctor --json",
    "weft simulate",
    "weft report tests/report/run.jsonl",
    "weft report --json tests/report/run.jsonl",
    "weft report --csv tests/report/run.jsonl",
    "mpiexec --help",
    "mpiexec --version",
];
/// A Python program that starts its arguments with such a pipe as standard output.
const CLOSED: &str = "import os, sys\nreader, writer = os.pipe()\nos.close(reader)\nos.dup2(writer, 1)\nos.execv(sys.argv[1], sys.argv[1:])";

fn without_a_reader(line: &'static str) -> Case {
    Case::new(format!("{line} ends well when nobody reads what it says"), move |context| {
        let (program, arguments) = line.split_once(' ').unwrap_or((line, ""));
        let run = Run::new(context.python("python")).args(["-c", CLOSED]).arg(context.bin(program));
        let finished = run.args(arguments.split(' ')).directory(&context.root).limit(LIMIT_SECONDS).finish()?;
        let is_well = finished.code.is_some_and(|code| code <= 2) && !finished.output.contains("panicked");
        anyhow::ensure!(is_well, "{}", finished.report());
        Ok(())
    })
}
