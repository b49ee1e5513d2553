//! Tests of programs that survive the death of their ranks: each scenario on one host and on two.

use super::context::{Context, Expected};
use super::needs::Need;
use super::process::Run;
use super::{Case, Outcome};

const PROGRAM: &str = "tests/c/recovery.c";
const EXAMPLE: &str = "examples/survive.c";
/// The ranks of each job, half of them on each of two hosts.
const RANKS: u32 = 6;
/// The exit code of a job in which a rank has killed itself.
const KILLED: i32 = 128 + 9;
const LIMIT_SECONDS: u64 = 60;
/// The scenarios of the program, each with the ranks that die.
const STORIES: [(&str, u32); 7] = [
    ("named", 1),
    ("anybody", 1),
    ("revoked", 0),
    ("agreements", RANKS / 3 + 2),
    ("one-by-one", RANKS - 2),
    ("windows", 1),
    ("many", RANKS / 2),
];
/// Collectives by messages, with a root, and with neighbours.
const SOME_COLLECTIVES: [&str; 4] = ["barrier", "bcast", "allreduce", "neighbor_alltoall"];
const COLLECTIVES: [&str; 13] = [
    "barrier",
    "bcast",
    "gather",
    "scatter",
    "allgather",
    "alltoall",
    "reduce",
    "allreduce",
    "reduce_scatter_block",
    "scan",
    "exscan",
    "neighbor_allgather",
    "neighbor_alltoall",
];
const FORMS: [&str; 3] = ["blocking", "nonblocking", "persistent"];

/// The hosts of a job.
#[derive(Clone, Copy)]
enum Place {
    Host,
    TwoHosts,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Host => "on one host",
            Self::TwoHosts => "on two hosts",
        }
    }

    /// The command that starts a job that goes on when ranks die.
    fn mpiexec(self, context: &Context, ranks: u32) -> anyhow::Result<Run> {
        let run = match self {
            Self::Host => context.mpiexec(ranks),
            Self::TwoHosts => context.mpiexec_on_hosts(ranks)?,
        };
        Ok(run.args(["--on-failure", "continue"]).limit(LIMIT_SECONDS))
    }
}

const PLACES: [Place; 2] = [Place::Host, Place::TwoHosts];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = vec![Case::new("a rank that dies ends the job where nothing else is asked for", |context| {
        let run = |context: &Context| context.mpiexec(RANKS).arg(context.compile(PROGRAM)?).arg("named").finish();
        Expected::code(KILLED).says("ending the other 5 ranks").judge(run(context))
    })];
    for place in PLACES {
        cases.extend(STORIES.map(|(story, deaths)| survived(place, &[story], deaths)));
        cases.extend(SOME_COLLECTIVES.map(|which| survived(place, &["collective", which, "blocking"], 1)));
        cases.extend([false, true].map(|respawns| example(place, respawns)));
    }
    cases.push(host_lost());
    cases
        .extend(["nonblocking", "persistent"].map(|form| survived(Place::Host, &["collective", "allreduce", form], 1)));
    cases
}

pub(crate) fn all_cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for place in PLACES {
        for (which, form) in COLLECTIVES.into_iter().flat_map(|which| FORMS.map(|form| (which, form))) {
            cases.push(survived(place, &["collective", which, form], 1));
        }
    }
    cases
}

/// A scenario: as many ranks as live say that they go on, and no check fails.
fn survived(place: Place, words: &[&'static str], deaths: u32) -> Case {
    let words = words.to_vec();
    let case = Case::new(format!("{}, {RANKS} ranks {}", words.join(" "), place.name()), move |context| {
        let attempt = || place.mpiexec(context, RANKS)?.arg(context.compile(PROGRAM)?).args(&words).finish();
        let finished = match attempt() {
            Ok(finished) => finished,
            Err(error) => return Outcome::Failed(format!("{error:#}")),
        };
        let going = finished.output.lines().filter(|line| line.ends_with("goes on")).count();
        if going != (RANKS - deaths) as usize {
            return Outcome::Failed(format!("{}\n{going} ranks go on", finished.report()));
        }
        let code = if deaths == 0 { 0 } else { KILLED };
        Expected::code(code).never_says("recovery.c:").never_says("exited with status").judge(Ok(finished))
    });
    match place {
        Place::Host => case,
        Place::TwoHosts => case.needs(&[Need::Networks]),
    }
}

/// The agent of one of two hosts dies, and half of the ranks with it.
fn host_lost() -> Case {
    let case = Case::new(format!("a whole host is lost, {RANKS} ranks on two hosts"), |context| {
        let run = |context: &Context| {
            Place::TwoHosts.mpiexec(context, RANKS)?.arg(context.compile(PROGRAM)?).arg("host").finish()
        };
        Expected::code(1).says("is lost").says("rank 0 goes on").never_says("recovery.c:").judge(run(context))
    });
    case.needs(&[Need::Networks])
}

/// The example computes the right result with the ranks that are left, or with new ones.
fn example(place: Place, respawns: bool) -> Case {
    let what = if respawns { " and starts new ones" } else { "" };
    let case =
        Case::new(format!("examples/survive.c loses two of four ranks{what} {}", place.name()), move |context| {
            let run = |context: &Context| {
                let run = place.mpiexec(context, 4)?.arg(context.compile(EXAMPLE)?);
                let run = run.args(["--lose", "2@300", "--lose", "0@700"]);
                let run = if respawns { run.arg("--respawn") } else { run };
                run.finish()
            };
            let ranks = if respawns { 4 } else { 2 };
            let right = format!("{ranks} ranks have computed 1000 steps: the result is right");
            Expected::code(KILLED).says(right).judge(run(context))
        });
    match place {
        Place::Host => case,
        Place::TwoHosts => case.needs(&[Need::Networks]),
    }
}
