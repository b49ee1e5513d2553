//! Tests of programs under valgrind and with the address sanitizer: correct programs get no complaint, and a
//! mistake is found where it is made.

use super::Case;
use super::context::{Context, Expected};
use super::process::Run;

const EXCHANGE: &str = "tests/checkers/exchange.c";
/// The time limit, seconds: valgrind takes fifty times as long.
const LIMIT: u64 = 240;
/// The exit status of a rank in which memcheck has found something.
const FOUND: i32 = 99;

/// The mistakes for both kinds of checkers, each with the call in which it is found.
const WRONG: &[(&str, &str)] = &[
    ("short 400", "MPI_Recv"),
    ("short 400000", "MPI_Recv"),
    ("later 400", "MPI_Irecv"),
    ("later 4000000", "MPI_Irecv"),
    ("items 400", "MPI_Recv"),
    ("items 400000", "MPI_Recv"),
    ("collective 4000", "MPI_Bcast"),
];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for place in [Place::OneHost, Place::TwoHosts] {
        cases.push(Case::new(
            format!("memcheck: nothing is wrong, and nothing is lost{}", place.name()),
            move |context| {
                let expected = Expected::code(0).says("the end");
                let expected = expected.never_says("Invalid").never_says("ninitialised").never_says("naddressable");
                expected.never_says("lost in loss record").judge(memcheck(context, place, ""))
            },
        ));
        cases.push(Case::new(format!("address sanitizer: nothing is wrong{}", place.name()), move |context| {
            Expected::code(0).says("the end").never_says("Sanitizer").judge(sanitized(context, place, ""))
        }));
    }
    for (what, call) in WRONG.iter().copied() {
        cases.push(Case::new(format!("memcheck: {what} is found in {call}"), move |context| {
            Expected::failure().says("Unaddressable byte(s) found").says(call).judge(memcheck(
                context,
                Place::OneHost,
                what,
            ))
        }));
        cases.push(Case::new(format!("address sanitizer: {what} is found in {call}"), move |context| {
            Expected::failure().says("heap-buffer-overflow").says(call).judge(sanitized(context, Place::OneHost, what))
        }));
    }
    cases.push(Case::new("memcheck: what is sent without a value is found where it is sent", |context| {
        let expected = Expected::failure().says("Uninitialised byte(s) found").says("MPI_Send");
        expected.never_says("MPI_Recv").judge(memcheck(context, Place::OneHost, "unset 400000"))
    }));
    cases
}

#[derive(Clone, Copy)]
enum Place {
    OneHost,
    TwoHosts,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::OneHost => "",
            Place::TwoHosts => ", two hosts",
        }
    }

    fn mpiexec(self, context: &Context) -> anyhow::Result<Run> {
        match self {
            Place::OneHost => Ok(context.mpiexec(2)),
            Place::TwoHosts => context.mpiexec_on_hosts(2),
        }
    }
}

type Finished = anyhow::Result<super::process::Finished>;

fn memcheck(context: &Context, place: Place, what: &str) -> Finished {
    // A rank that the end of the job meets has memory in use, of which a wrong program's case must not hear.
    let leaks = if what.is_empty() { "--leak-check=full" } else { "--leak-check=no" };
    let valgrind = ["valgrind", "-q", leaks, &format!("--error-exitcode={FOUND}")].map(str::to_owned);
    let run = place.mpiexec(context)?.args(valgrind).arg(context.compile(EXCHANGE)?);
    run.args(what.split_whitespace()).limit(LIMIT).finish()
}

fn sanitized(context: &Context, place: Place, what: &str) -> Finished {
    let program = context.work.join("exchange-sanitized");
    let compiler = Run::new(context.bin("mpicc")).args(["-std=c11", "-g", "-fsanitize=address", "-o"]).arg(&program);
    let compiled = compiler.arg(context.root.join(EXCHANGE)).finish()?;
    anyhow::ensure!(compiled.code == Some(0), "cannot compile with -fsanitize=address:\n{}", compiled.report());
    place.mpiexec(context)?.arg(program).args(what.split_whitespace()).limit(LIMIT).finish()
}
