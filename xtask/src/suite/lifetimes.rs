//! Tests that objects that are made and freed leave nothing behind, each kind by itself and all together.
//! Operations that the program has freed while they were under way must be complete before a process leaves.

use super::Case;
use super::context::{Context, Expected};
use super::programs::attempt;
use super::soak::{RANKS, Row, SAMPLES, SPARE_SECONDS, judged, soak, table};

/// The rounds of a run that shows that no large leak exists, or that a leak is found.
const ROUNDS_SHORT: u32 = 40;
const LIMIT_SHORT_SECONDS: u64 = 300;
/// The turns of each kind of object in the suite of all kinds, and the time limit.
const TURNS_ALL: &str = "100000";
const LIMIT_ALL_SECONDS: u64 = 3600;
const MINUTES_LARGE: u64 = 10;
/// The operations that `tests/c/left_to_finalize.c` leaves to MPI_Finalize, and the lengths of their
/// messages: one for each protocol.
const LEFT: [&str; 9] = ["isend", "issend", "ibsend", "bsend", "persistent", "irecv", "any", "recv_init", "disconnect"];
/// The program for operations that are left to the last session.
const SESSION: &str = "session";
const LEFT_BYTES: [&str; 3] = ["4", "40000", "2000000"];

/// The cases of an operation that is left to MPI_Finalize, with each number of bytes, on one host and on two.
fn left(what: &str, operation: &'static str, expected: &Expected) -> Vec<Case> {
    let case = |(bytes, hosts): (&'static str, u32)| {
        let expected = expected.clone();
        Case::new(format!("{what}, {bytes} bytes on {hosts} of the hosts"), move |context| {
            let run = || {
                let run = if hosts == 1 { context.mpiexec(3) } else { context.mpiexec_on_hosts(4)? };
                match operation {
                    SESSION => run.arg(context.compile("tests/c/left_to_session.c")?).arg(bytes).finish(),
                    _ => run.arg(context.compile("tests/c/left_to_finalize.c")?).args([operation, bytes]).finish(),
                }
            };
            expected.judge(run())
        })
    };
    LEFT_BYTES.into_iter().flat_map(|bytes| [(bytes, 1), (bytes, 2)]).map(case).collect()
}

fn nothing_grows(rows: anyhow::Result<Vec<Row>>) -> anyhow::Result<()> {
    let rows = rows?;
    anyhow::ensure!(!rows.iter().any(Row::grows), "{}", table(&rows));
    Ok(())
}

/// Checks that the judge finds a leak at every rank, and no other growth.
fn leak_is_found(context: &Context, leak: &str, field: &str) -> anyhow::Result<()> {
    let rows = judged(soak(context, 0, ROUNDS_SHORT, Some(leak)), LIMIT_SHORT_SECONDS, false)?;
    let is_found = rows.iter().all(|row| row.grows() == (row.quantity.field == field));
    anyhow::ensure!(is_found, "{leak} leaks, and:\n{}", table(&rows));
    Ok(())
}

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let lifetimes = |hosts: u32| {
        move |context: &Context| {
            attempt(|| {
                let run = if hosts == 1 { context.mpiexec(2) } else { context.mpiexec_on_hosts(2)? };
                Ok(run.arg(context.compile("tests/c/lifetimes.c")?))
            })
        }
    };
    let mut cases = vec![
        Case::new("each kind of object leaves nothing, 2 ranks on one host", lifetimes(1)),
        Case::new("each kind of object leaves nothing, 2 ranks on two hosts", lifetimes(2)),
        Case::new(
            format!("{ROUNDS_SHORT} rounds of all kinds, {RANKS} ranks on two hosts: nothing grows"),
            |context| nothing_grows(judged(soak(context, 0, ROUNDS_SHORT, None), LIMIT_SHORT_SECONDS, false)),
        ),
        Case::new("memory that leaks is found", |context| leak_is_found(context, "memory", "heap")),
        Case::new("descriptors that leak are found", |context| leak_is_found(context, "descriptors", "descriptors")),
    ];
    for operation in LEFT {
        let expected = Expected::code(0).never_says("gives up");
        cases.extend(left(&format!("{operation} left to MPI_Finalize is complete"), operation, &expected));
    }
    cases.extend(left("what is left to the last session is complete", SESSION, &Expected::code(0)));
    for (operation, sentence) in [
        ("unmatched-send", "MPI_Finalize gives up a message to rank 1"),
        ("unmatched-receive", "MPI_Finalize gives up a receive from rank 1 with tag 7"),
    ] {
        let what = format!("{operation} left to MPI_Finalize is said in a sentence");
        cases.extend(left(&what, operation, &Expected::code(0).says(sentence)));
    }
    cases
}

/// The cases that take long: each kind of object, 100,000 times, and ten minutes of all kinds.
pub(crate) fn all_cases(context: &Context) -> Vec<Case> {
    let seconds = MINUTES_LARGE * 60;
    let mut cases =
        vec![Case::new(format!("{MINUTES_LARGE} minutes of all kinds, {RANKS} ranks on two hosts"), move |context| {
            nothing_grows(judged(soak(context, seconds, SAMPLES, None), seconds + SPARE_SECONDS, true))
        })];
    for kind in kinds(context) {
        for hosts in [1, 2] {
            let name = format!("{TURNS_ALL} turns of {kind}, 2 ranks on {hosts} of the hosts");
            let kind = kind.clone();
            cases.push(Case::new(name, move |context| {
                let run = || {
                    let run = if hosts == 1 { context.mpiexec(2) } else { context.mpiexec_on_hosts(2)? };
                    Ok(run.arg(context.compile("tests/c/lifetimes.c")?).args([TURNS_ALL, "samples", &kind]))
                };
                nothing_grows(judged(run(), LIMIT_ALL_SECONDS, true))
            }));
        }
    }
    cases
}

/// The names of the kinds in `tests/c/kinds.h`.
fn kinds(context: &Context) -> Vec<String> {
    let text = std::fs::read_to_string(context.root.join("tests/c/kinds.h")).unwrap_or_default();
    let name = |line: &str| Some(line.trim().strip_prefix("{\"")?.split_once('"')?.0.to_owned());
    text.lines().filter_map(name).collect()
}
