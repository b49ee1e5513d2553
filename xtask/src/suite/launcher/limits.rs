//! Tests of jobs that get less than they need: too little of a resource that the system limits (`ulimit`), or
//! of the World Model.

use super::super::context::Expected;
use super::super::process::Finished;
use super::super::{Case, Outcome};
use super::END;

const LIMITED: &str = "tests/launcher/limited.c";
const WITHOUT_WORLD: &str = "tests/launcher/world_without_init.c";

pub(super) fn cases() -> Vec<Case> {
    too_low().into_iter().chain(without_world()).collect()
}

/// Limits that are too low for some part of a job (`ulimit`), and some that are just enough. Limits under
/// which not even a program of one rank starts are not here: no library can report them.
const LIMITS: &[&str] = &[
    "-f 0",
    "-f 1",
    "-f 8",
    "-f 64",
    "-f 1024",
    "-f 16384",
    "-n 8",
    "-n 12",
    "-n 16",
    "-n 24",
    "-n 40",
    "-l 0",
    "-l 16",
    "-s 256",
    "-d 20000",
    "-v 400000",
    "-u 1",
    "-u 40",
    "-i 0",
    "-q 0",
    "-t 20",
];

/// The script that runs a command under a limit. Its output goes through a pipe, since the limit may forbid a
/// file.
const UNDER_LIMIT: &str = "(ulimit $0 && exec \"$@\") 2>&1 | cat; exit ${PIPESTATUS[0]}";

/// The cases of each limit: the job runs, or `mpiexec` or a rank reports the failure and names the limit. No
/// process dies by a signal.
fn too_low() -> Vec<Case> {
    let case = |ranks: u32| {
        Case::new(format!("limits that are too low, {ranks} ranks"), move |context| {
            let attempt = |limit: &str| -> anyhow::Result<Option<String>> {
                let run = context.mpiexec(ranks).arg(context.compile(LIMITED)?).limit(END.as_secs());
                let finished = run.behind(&["bash", "-c", UNDER_LIMIT, limit]).finish()?;
                let wrong = wrong_under_limit(&finished);
                Ok(wrong.map(|what| format!("ulimit {limit}: {what}:\n{}", finished.report())))
            };
            for limit in LIMITS {
                match attempt(limit) {
                    Ok(None) => {}
                    Ok(Some(wrong)) => return Outcome::Failed(wrong),
                    Err(error) => return Outcome::Failed(format!("ulimit {limit}: {error:#}")),
                }
            }
            Outcome::Passed
        })
    };
    [1, 2].map(case).into()
}

/// The fault in the end of a job under a limit, if there is one.
fn wrong_under_limit(finished: &Finished) -> Option<&'static str> {
    let says = |texts: &[&str]| texts.iter().any(|text| finished.output.contains(text));
    match finished.code {
        None => Some("it did not end"),
        Some(128..) => Some("a signal ended mpiexec"),
        _ if says(&["signal", "SIG", "panicked"]) => Some("a signal or a defect ended a part of it"),
        Some(0) => (!says(&["the sum is"])).then_some("it said nothing"),
        Some(_) => (!says(&["mpiexec: "])).then_some("it failed without a word"),
    }
}

fn without_world() -> Vec<Case> {
    let case = |(argument, name): (&'static str, &'static str)| {
        Case::new(format!("{name} where only sessions are open"), move |context| {
            let attempt =
                || context.mpiexec(2).arg(context.compile(WITHOUT_WORLD)?).arg(argument).limit(END.as_secs()).finish();
            // MPI_ERR_COMM.
            Expected::code(5)
                .says(name)
                .says("exists only from MPI_Init")
                .says("MPI_Comm_create_from_group")
                .judge(attempt())
        })
    };
    [("world", "MPI_COMM_WORLD"), ("self", "MPI_COMM_SELF")].map(case).into()
}
