//! Tests of Weft beside programs and tools that were not made for it: Hydra, MPICH's programs, CMake, mpi4py.

use std::path::PathBuf;

use super::context::{Context, EXIT_NO_HOSTS, Expected};
use super::needs::Need;
use super::process::{Finished, Run};
use super::{Case, Outcome, libfabric};

/// The time limit of mpi4py's tests: with one rank they take a minute, with eight ranks on two processors
/// seven minutes, and beside a load of 12 more than twice as long.
const MPI4PY_LIMIT_SECONDS: u64 = 1800;
const MPI4PY_BUILD_LIMIT_SECONDS: u64 = 300;
/// The time limit of a pool: Python starts in a second, and in many on a busy machine.
const POOL_LIMIT_SECONDS: u64 = 120;
/// The time limit of the demonstration: it takes half a minute, and one minute more if mpi4py must be built.
const DEMO_LIMIT_SECONDS: u64 = 300;
/// The modules that test datatypes within one rank, as a pattern. They take half of the time of all modules.
const DATATYPES_ALONE: &str = "^test_(datatype|pack|util_dtlib)\\.py$";
/// The list of mpi4py's tests that are left out, one a line: `module reason` or `pattern reason`; with `>N`
/// before it, only where more than N ranks run.
pub(super) const LEFT_OUT: &str = "tests/mpi4py/left-out.txt";

pub(crate) fn mpich(_: &Context) -> Vec<Case> {
    vec![
        Case::new("MPICH's program and library under Weft's mpiexec, 3 ranks", |context| {
            let run = || Ok(context.mpiexec(3).arg(theirs(context)?));
            Expected::code(0).says("3 ranks").says("(right) on MPICH").judge(run().and_then(|run| run.finish()))
        }),
        Case::new("MPICH's program on Weft's library, 4 ranks, not rebuilt", |context| {
            let run =
                || Ok(context.mpiexec(4).arg(theirs(context)?).env("LD_LIBRARY_PATH", context.prefix.join("lib")));
            Expected::code(0).says("4 ranks").says("(right) on Weft").judge(run().and_then(|run| run.finish()))
        }),
    ]
}

/// The ring, compiled by MPICH's wrapper of the standard ABI.
pub(super) fn theirs(context: &Context) -> anyhow::Result<PathBuf> {
    context.compile_with(&context.python("mpicc_abi"), "examples/ring.c", "-mpich")
}

pub(crate) fn cmake(_: &Context) -> Vec<Case> {
    vec![Case::new("find_package(MPI) by PATH and by MPI_HOME, in C and C++", |context| {
        let run = Run::new(context.root.join("tests/cmake/run.sh")).arg(&context.prefix).limit(120);
        Expected::code(0).says("find_package(MPI) found Weft").judge(run.finish())
    })]
}

/// The case of the measurement programs: they build, run and give valid samples; their speed is not tested.
pub(crate) fn measurements(_: &Context) -> Vec<Case> {
    let programs = Case::new("every program, with 2 and 4 ranks", |context| {
        let run = Run::new(context.root.join("bench/programs/check.sh")).arg(&context.prefix).limit(300);
        Expected::code(0).says("all right").judge(run.finish())
    });
    let carriers = Case::new("every carrier without MPI", |context| {
        let check = context.root.join("bench/carriers/check.sh");
        let between_hosts = Run::new(context.bin("weft")).args(["hosts", "run", "--count", "2", "--"]).arg(&check);
        let finished = between_hosts.limit(120).finish();
        match finished.as_ref().is_ok_and(|finished| finished.code == Some(EXIT_NO_HOSTS)) {
            true => Expected::code(0).says("all right").judge(Run::new(&check).limit(120).finish()),
            false => Expected::code(0).says("all right").says("packet between two hosts").judge(finished),
        }
    });
    vec![programs, carriers]
}

/// Leaves out the test that looks up the address of its host's name: virtual hosts have no such service.
const WITHOUT_NAMES: &[&str] = &["-x", "test_dynproc.TestDPM.testJoin"];

/// The runs of `make test`: two ranks on two hosts run all of mpi4py's tests, and two ranks on one host run
/// those of communication.
pub(crate) fn mpi4py(_: &Context) -> Vec<Case> {
    let mut cases = mpi4py_runs(&[], &[2]);
    cases.push(Case::new("its tests of communication, 2 ranks", |context| {
        run_tests(context, 2, &["-e", DATATYPES_ALONE], || Ok(context.mpiexec(2)))
    }));
    cases
}

/// All runs, with the numbers of ranks on one host and on two.
pub(crate) fn mpi4py_all(_: &Context) -> Vec<Case> {
    let mut cases = mpi4py_runs(&[1, 2, 3, 4, 5], &[2, 4]);
    for provider in ["udp", "tcp"] {
        let name = format!("its tests, 2 ranks on two hosts, by libfabric's provider {provider}");
        let case = Case::new(name, move |context| {
            run_tests(context, 2, WITHOUT_NAMES, || Ok(libfabric::by(provider, context.mpiexec_on_hosts(2)?)))
        });
        cases.push(case.needs(&[Need::Libfabric]));
        let name = format!("its tests, 4 ranks on four hosts, by libfabric's provider {provider}");
        let case = Case::new(name, move |context| {
            run_tests(context, 4, WITHOUT_NAMES, || Ok(libfabric::by(provider, on_hosts(context, 4, 4))))
        });
        cases.push(case.needs(&[Need::Libfabric]));
    }
    cases
}

/// The tests of collectives alone, with more ranks and on more hosts.
pub(crate) fn mpi4py_collectives(_: &Context) -> Vec<Case> {
    let mut cases = vec![mpi4py_build("build from the source distribution")];
    for ranks in [6, 7, 8] {
        cases.push(Case::new(format!("its tests of collectives, {ranks} ranks"), move |context| {
            collective_tests(context, ranks, context.mpiexec(ranks))
        }));
    }
    for (ranks, hosts) in [(3, 2), (5, 2), (7, 2), (8, 2), (3, 3), (6, 3), (4, 4), (8, 4)] {
        let name = format!("its tests of collectives, {ranks} ranks on {hosts} hosts");
        let case = Case::new(name, move |context| collective_tests(context, ranks, on_hosts(context, ranks, hosts)));
        cases.push(case.needs(&[Need::Networks]));
    }
    cases
}

/// The tests of one-sided operations alone, on one host to four.
pub(crate) fn mpi4py_windows(_: &Context) -> Vec<Case> {
    let mut cases = vec![mpi4py_build("build from the source distribution")];
    for (ranks, hosts) in [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (2, 2), (5, 2), (3, 3), (4, 4)] {
        let name = format!("its tests of windows, {ranks} ranks on {hosts} hosts");
        let case = Case::new(name, move |context| match hosts {
            1 => window_tests(context, ranks, context.mpiexec(ranks)),
            _ => window_tests(context, ranks, on_hosts(context, ranks, hosts)),
        });
        cases.push(case.needs(if hosts == 1 { &[] } else { &[Need::Networks] }));
    }
    cases
}

/// The run of `mpiexec` with `ranks` ranks on `hosts` virtual hosts, which end with it.
fn on_hosts(context: &Context, ranks: u32, hosts: u32) -> Run {
    let per_host = ranks.div_ceil(hosts);
    let script =
        format!("exec \"$0\" -n {ranks} -ppn {per_host} --hosts \"$WEFT_HOSTS\" --agent \"$WEFT_AGENT\" \"$@\"");
    let run = Run::new(context.bin("weft")).args(["hosts", "run", "--count", &hosts.to_string(), "--", "sh", "-c"]);
    run.arg(script).arg(context.bin("mpiexec"))
}

/// Runs the modules whose names say that they test collectives; none of these is left out.
fn collective_tests(context: &Context, ranks: u32, mpiexec: Run) -> Outcome {
    run_tests(context, ranks, &["-i", "test_cco"], || Ok(mpiexec))
}

/// Runs the modules about windows, and about the locks and counters that mpi4py's `util.sync` makes of
/// windows; none of these is left out.
fn window_tests(context: &Context, ranks: u32, mpiexec: Run) -> Outcome {
    run_tests(context, ranks, &["-i", "^test_(win|rma|rma_nb|util_sync)\\.py$"], || Ok(mpiexec))
}

/// Builds what mpi4py's tests need, unless that was built with the same library.
pub(super) fn mpi4py_build(name: &str) -> Case {
    Case::new(name, |context| {
        let script = context.root.join("tools/mpi4py.sh");
        let run = Run::new(script).arg(&context.prefix).limit(MPI4PY_BUILD_LIMIT_SECONDS);
        Expected::code(0).says("mpi4py is ready").judge(run.finish())
    })
}

fn mpi4py_runs(one_host: &[u32], two_hosts: &[u32]) -> Vec<Case> {
    let mut cases = vec![mpi4py_build("build from the source distribution")];
    for &ranks in one_host {
        cases.push(Case::new(format!("its tests, {ranks} ranks"), move |context| {
            mpi4py_tests(context, ranks, || Ok(context.mpiexec(ranks)))
        }));
    }
    for &ranks in two_hosts {
        cases.push(Case::new(format!("its tests, {ranks} ranks on two hosts"), move |context| {
            run_tests(context, ranks, WITHOUT_NAMES, || context.mpiexec_on_hosts(ranks))
        }));
    }
    cases.push(Case::new("mpi4py.futures with its own tests, 3 ranks", |context| {
        Expected::code(0).says("OK").never_says("FAILED (").judge(futures(context, Ok(context.mpiexec(3))))
    }));
    cases.push(Case::new("mpi4py.futures with its own tests, 3 ranks on two hosts", |context| {
        Expected::code(0).says("OK").never_says("FAILED (").judge(futures(context, context.mpiexec_on_hosts(3)))
    }));
    // Outside of its run mode the executor spawns.
    for launcher in ["without mpiexec", "under mpiexec"] {
        let name = format!("MPIPoolExecutor starts its own workers, {launcher}");
        cases.push(Case::new(name, move |context| {
            let script =
                "from mpi4py.futures import MPIPoolExecutor\nprint(MPIPoolExecutor(2).submit(pow, 2, 3).result())";
            let python = context.python("python");
            let run = if launcher == "under mpiexec" { context.mpiexec(1).arg(python) } else { Run::new(python) };
            let run = run.args(["-c", script]).env("PYTHONPATH", context.root.join("build/mpi4py/site"));
            Expected::code(0).says("8").judge(run.limit(POOL_LIMIT_SECONDS).finish())
        }));
    }
    cases.push(Case::new("MPIPoolExecutor in its run mode works, 3 ranks", |context| {
        let program = context.work.join("pool.py");
        let script = "from mpi4py.futures import MPIPoolExecutor\nif __name__ == '__main__':\n    print('sum', sum(MPIPoolExecutor().map(abs, range(-5, 5))))\n";
        let attempt = || -> anyhow::Result<Finished> {
            std::fs::write(&program, script)?;
            let run = context.mpiexec(3).arg(context.python("python")).args(["-m", "mpi4py.futures"]).arg(&program);
            run.env("PYTHONPATH", context.root.join("build/mpi4py/site")).limit(POOL_LIMIT_SECONDS).finish()
        };
        Expected::code(0).says("sum 25").judge(attempt())
    }));
    cases
}

/// The links that messages of the demonstration may have used, alone or together.
const LINKS: &[&str] = &["self", "shared", "udp", "ethernet", "xdp", "ethernet+udp", "xdp+udp"];

/// The links in the second column of the demonstration's last table, where a row has one: a program's first
/// row begins with its name.
fn links_of(output: &str) -> Vec<String> {
    let rows = output.lines().skip_while(|line| !line.trim_start().starts_with("program")).skip(1);
    let link = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| word.parse::<u64>().is_ok())?;
        (words.len() > 4 && at > 0).then(|| words[at - 1].to_owned())
    };
    rows.take_while(|line| !line.contains("the whole demo")).filter_map(link).collect()
}

/// Runs `make demo` on the installed library.
pub(crate) fn demo(_: &Context) -> Vec<Case> {
    vec![Case::new("from mpi4py to lost packets", |context| {
        let run = Run::new(context.root.join("demo/demo.sh")).limit(DEMO_LIMIT_SECONDS);
        let judged =
            Expected::code(0).says("the two images are the same, byte for byte").never_says("no setting of Weft");
        let finished = run.finish();
        let strangers = finished.as_ref().map_or(Vec::new(), |finished| links_of(&finished.output));
        match judged.judge(finished) {
            Outcome::Passed if strangers.iter().any(|link| !LINKS.contains(&link.as_str())) => {
                Outcome::Failed(format!("the last table speaks of the links {strangers:?}"))
            }
            outcome => outcome,
        }
    })]
}

/// Runs the tests of mpi4py's pool, whose processes were started together with the master and talk over an
/// intercommunicator. Tests that make a pool of their own would spawn, and leave themselves out.
fn futures(context: &Context, mpiexec: anyhow::Result<Run>) -> anyhow::Result<Finished> {
    let home = context.root.join("build/mpi4py");
    let run = mpiexec?.arg(context.python("python")).args(["-m", "mpi4py.futures"]);
    let run = run.arg(home.join("source/demo/futures/test_futures.py")).env("PYTHONPATH", home.join("site"));
    run.limit(MPI4PY_LIMIT_SECONDS).finish()
}

fn mpi4py_tests(context: &Context, ranks: u32, mpiexec: impl FnOnce() -> anyhow::Result<Run>) -> Outcome {
    run_tests(context, ranks, &[], mpiexec)
}

fn run_tests(
    context: &Context,
    ranks: u32,
    selected: &[&str],
    mpiexec: impl FnOnce() -> anyhow::Result<Run>,
) -> Outcome {
    let attempt = || {
        let (tests, words) = test_words(context, ranks, selected)?;
        mpiexec()?.args(words).directory(&tests).limit(MPI4PY_LIMIT_SECONDS).finish()
    };
    Expected::code(0).says("OK").never_says("FAILED (").judge(attempt())
}

/// The directory where mpi4py's tests run, and the words that run them with `ranks` ranks, without the tests
/// that are left out.
pub(super) fn test_words(context: &Context, ranks: u32, selected: &[&str]) -> anyhow::Result<(PathBuf, Vec<String>)> {
    let home = context.root.join("build/mpi4py");
    let list = std::fs::read_to_string(context.root.join(LEFT_OUT))?;
    let tests = home.join("source/test");
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let mut words = vec![text(context.python("python")), text(tests.join("main.py"))];
    words.extend(["-v", "--no-builddir", "--path"].map(str::to_owned));
    words.push(text(home.join("site")));
    words.extend(selected.iter().map(|word| (*word).to_owned()));
    words.extend(left_out(&list, ranks)?);
    Ok((tests, words))
}

/// The runner's options that leave tests out.
pub(super) fn left_out(list: &str, ranks: u32) -> anyhow::Result<Vec<String>> {
    let mut options = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (limit, rest) = match line.strip_prefix('>').and_then(|rest| rest.split_once(' ')) {
            Some((limit, rest)) => (limit.parse()?, rest),
            None => (0, line),
        };
        let (name, reason) = rest.split_once(' ').unwrap_or((rest, ""));
        anyhow::ensure!(!reason.trim().is_empty(), "{LEFT_OUT}: {name} has no reason");
        match name.contains(['.', '*']) {
            _ if ranks <= limit => {}
            true => options.extend(["-x".to_owned(), name.to_owned()]),
            false => options.extend(["-e".to_owned(), format!("^{name}\\.py$")]),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_a_reason() {
        let list = "# comment\n\ntest_win windows come later\n>2 test_op.TestOp.testX because\n";
        assert_eq!(left_out(list, 3).unwrap(), ["-e", "^test_win\\.py$", "-x", "test_op.TestOp.testX"]);
        assert_eq!(left_out(list, 2).unwrap(), ["-e", "^test_win\\.py$"]);
        assert!(left_out("test_win\n", 1).is_err());
    }
}
