//! Tests of files beyond the conformance programs: random programs from seeds beside an oracle, the faults
//! that users of other libraries have reported, and what goes wrong with files at one rank or at all.

use super::context::{Context, Expected};
use super::needs::Need;
use super::process::Run;
use super::programs::BAD_DAY;
use super::{Case, Outcome};

const RANDOM: &str = "tests/c/random_files.c";
const FAULTS: &str = "tests/c/file_faults.c";
const FAILURES: &str = "tests/c/file_failures.c";
/// The library that makes transfers of the tests' files go wrong.
const WRONG_TRANSFERS: &str = "tests/c/wrong_transfers.c";
/// The time limits, in seconds: of a run in `make test`, and of one in the long target.
const LIMIT_SECONDS: u64 = 60;
const LIMIT_ALL_SECONDS: u64 = 900;
/// The number of random programs of a run in `make test`, and in the long target.
const PROGRAMS: &str = "15";
const PROGRAMS_ALL: &str = "300";
/// The bytes that stand for each byte of the oracle, in programs with larger files.
const UNIT: &str = "300";
const UNIT_ALL: &str = "4096";
/// The seed from which the runs of `make test` begin, and that of the long target.
const SEED: &str = "1";
const SEED_ALL: &str = "100000";
/// What MPICH is known to do wrong in random programs; `tests/c/random_files.c` says what the parts are.
const MPICH_LEAVES_OUT: &str = "short-reads late-pointer holes progress moved-pointer preallocate ordered-race \
                                atomic-requests";
/// The small file system that a test fills. It is mounted where the test's processes alone see it.
const FULL: &str = "mount -t tmpfs -o size=2M none \"$0\" && exec \"$@\" --full \"$0\"";

/// A directory that cannot be written, where the test's processes alone see it.
const READ_ONLY: &str = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
/// A shell in which no file may have more than 100 MiB, in blocks of 512 bytes. The memory that the ranks
/// share is a file, too, and smaller.
const LIMITED: &str = "ulimit -f 204800; exec \"$0\" \"$@\"";

/// The directory of the files of one case, which the case removes.
fn with_directory(
    context: &Context,
    name: &str,
    run: impl FnOnce(&std::path::Path) -> anyhow::Result<Outcome>,
) -> Outcome {
    let directory = context.work.join(format!("files-{name}-{}", std::process::id()));
    let outcome = std::fs::create_dir_all(&directory).map_err(Into::into).and_then(|()| run(&directory));
    // A program that was ended by force leaves its files.
    let removed = std::fs::remove_dir_all(&directory);
    match outcome {
        Ok(Outcome::Passed) => removed.map(|()| Outcome::Passed).map_err(anyhow::Error::from).into(),
        other => other.into(),
    }
}

/// Where the ranks run.
#[derive(Clone, Copy)]
enum Where {
    OneHost,
    TwoHosts,
    /// Two hosts whose network loses, repeats and reorders packets.
    BadDay,
}

impl Where {
    const fn name(self) -> &'static str {
        match self {
            Where::OneHost => "one host",
            Where::TwoHosts => "two hosts",
            Where::BadDay => "two hosts on a bad day",
        }
    }

    fn mpiexec(self, context: &Context, ranks: u32) -> anyhow::Result<Run> {
        Ok(match self {
            Where::OneHost => context.mpiexec(ranks),
            Where::TwoHosts => context.mpiexec_on_hosts(ranks)?,
            Where::BadDay => context.mpiexec_on_hosts(ranks)?.env("WEFT_FAULTS", BAD_DAY),
        })
    }
}

/// A case of one program with these arguments.
fn case(
    what: &str,
    source: &'static str,
    arguments: &'static [&'static str],
    ranks: u32,
    place: Where,
    limit: u64,
) -> Case {
    Case::new(format!("{what}, {ranks} ranks on {}", place.name()), move |context| {
        with_directory(context, "own", |directory| {
            let run = place.mpiexec(context, ranks)?.arg(context.compile(source)?).args(arguments);
            let run = run.env("WEFT_TEST_SECONDS", limit.to_string()).arg("--directory").arg(directory);
            Ok(Expected::code(0).judge(run.limit(limit).finish()))
        })
    })
}

/// A case in which the file system is full.
fn full(ranks: u32) -> Case {
    let case = Case::new(format!("a file system that is full, {ranks} ranks"), move |context| {
        with_directory(context, "full", |directory| {
            let (small, large) = (directory.join("small"), directory.join("large"));
            std::fs::create_dir(&small)?;
            std::fs::create_dir(&large)?;
            let run = Run::new("unshare").args(["--mount", "sh", "-c", FULL]).arg(&small);
            let run = run.arg(context.bin("mpiexec")).arg("-n").arg(ranks.to_string());
            let run = run.arg(context.compile(FAULTS)?).arg("--directory").arg(&large);
            Ok(Expected::code(0).judge(run.limit(LIMIT_SECONDS).finish()))
        })
    });
    case.needs(&[Need::Root])
}

/// A job whose transfers go wrong in this way, at all ranks or at the last one: without its program.
fn with_wrong_transfers(context: &Context, how: &str, ranks: u32) -> anyhow::Result<Run> {
    let library = context.work.join("libwrong_transfers.so");
    let compile = Run::new("cc").args(["-O1", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]);
    let compiled = compile.arg("-o").arg(&library).arg(context.root.join(WRONG_TRANSFERS)).finish()?;
    anyhow::ensure!(compiled.code == Some(0), "{}", compiled.report());
    let preload = format!("LD_PRELOAD={}", library.display());
    let (how, which) = (format!("WRONG_TRANSFERS={how}"), format!("WRONG_RANK={}", ranks - 1));
    Ok(context.mpiexec(ranks).args(["env", &preload, &how, &which]).limit(LIMIT_SECONDS))
}

/// A case of random programs with transfers that go wrong in this way.
fn wrong_transfers(what: &str, how: &'static str, ranks: u32, expected: Expected) -> Case {
    Case::new(format!("{what}, {ranks} ranks"), move |context| {
        with_directory(context, how, |directory| {
            let run = with_wrong_transfers(context, how, ranks)?;
            let run = run.arg(context.compile(RANDOM)?).arg("--directory").arg(directory);
            Ok(expected.judge(run.finish()))
        })
    })
}

/// The cases of what goes wrong at one rank, or at all.
fn failures() -> Vec<Case> {
    let mut cases = Vec::new();
    for error in ["ENOSPC", "EDQUOT", "EROFS", "EFBIG", "EIO", "ESTALE"] {
        for ranks in [1, 3] {
            cases.push(Case::new(format!("{error} at one rank: all hear of it, {ranks} ranks"), move |context| {
                with_directory(context, error, |directory| {
                    let run = with_wrong_transfers(context, error, ranks)?.arg(context.compile(FAILURES)?);
                    Ok(Expected::code(0).judge(run.args(["told", error]).arg(directory).finish()))
                })
            }));
        }
    }
    for (what, how) in [("a directory that is removed", "removed"), ("signals interrupt accesses", "signals")] {
        for ranks in [1, 3] {
            cases.push(Case::new(format!("{what}, {ranks} ranks"), move |context| {
                with_directory(context, how, |directory| {
                    let run = context.mpiexec(ranks).arg(context.compile(FAILURES)?).args([how, ""]).arg(directory);
                    Ok(Expected::code(0).judge(run.limit(LIMIT_SECONDS).finish()))
                })
            }));
        }
    }
    cases.push(Case::new("the shell's limit of file sizes, 3 ranks", |context| {
        with_directory(context, "limit", |directory| {
            let run = context.mpiexec(3).args(["sh", "-c", LIMITED]).arg(context.compile(FAILURES)?);
            let run = run.args(["limit", ""]).arg(directory);
            Ok(Expected::code(0).judge(run.limit(LIMIT_SECONDS).finish()))
        })
    }));
    let read_only = Case::new("a file system that cannot be written, 3 ranks", |context| {
        with_directory(context, "read-only", |directory| {
            std::fs::write(directory.join("there"), "there")?;
            let run = Run::new("unshare").args(["--mount", "sh", "-c", READ_ONLY]).arg(directory);
            let run = run.arg(context.bin("mpiexec")).args(["-n", "3"]).arg(context.compile(FAILURES)?);
            Ok(Expected::code(0).judge(run.arg("read-only").arg(directory).limit(LIMIT_SECONDS).finish()))
        })
    });
    cases.push(read_only.needs(&[Need::Root]));
    cases.push(Case::new("a rank dies inside a collective write, 3 ranks", |context| {
        with_directory(context, "dies", |directory| {
            let run = with_wrong_transfers(context, "dying", 3)?.arg(context.compile(FAILURES)?);
            let died = Expected::failure().says("rank 2").says("SIGKILL").never_says("file_failures.c:");
            Ok(died.judge(run.args(["dies", ""]).arg(directory).finish()))
        })
    }));
    cases.push(Case::new("two jobs on one file, 3 ranks each", |context| {
        with_directory(context, "beside", |directory| {
            let program = context.compile(FAILURES)?;
            let job = |part| context.mpiexec(3).arg(&program).arg("beside").arg(directory).arg(part);
            let one = job("0").start()?;
            let other = job("1").limit(LIMIT_SECONDS).finish();
            let one = one.finish(std::time::Duration::from_secs(LIMIT_SECONDS));
            Ok(match Expected::code(0).judge(other) {
                Outcome::Passed => Expected::code(0).judge(one),
                failed => failed,
            })
        })
    }));
    cases
}

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let random = |ranks, place| {
        let arguments = &["--seed", SEED, "--programs", PROGRAMS];
        case("random programs", RANDOM, arguments, ranks, place, LIMIT_SECONDS)
    };
    let faults = |ranks, place| case("reported faults", FAULTS, &[], ranks, place, LIMIT_SECONDS);
    let mut cases: Vec<Case> = [1, 2, 3, 5].map(|ranks| random(ranks, Where::OneHost)).into();
    cases.extend([Where::TwoHosts, Where::BadDay].map(|place| random(4, place)));
    let arguments = &["--seed", SEED, "--programs", "2", "--unit", UNIT];
    let large = |ranks| case("random programs in megabytes", RANDOM, arguments, ranks, Where::OneHost, LIMIT_SECONDS);
    cases.extend([2, 3].map(large));
    cases.extend([1, 2, 3].map(|ranks| faults(ranks, Where::OneHost)));
    cases.push(faults(4, Where::TwoHosts));
    cases.push(full(3));
    // The program finds it by the bytes, not by an error of a call.
    let found = || Expected::failure().says("random_files --seed 1").never_says("failed:");
    for ranks in [1, 3] {
        let expected = Expected::code(0);
        cases.push(wrong_transfers("transfers that are cut short or interrupted", "short", ranks, expected));
        cases.push(wrong_transfers("writes that are lost are found", "lost", ranks, found()));
        cases.push(wrong_transfers("writes of other bytes are found", "damaged", ranks, found()));
    }
    let expected = Expected::failure().says("MPI_ERR_IO").says("Input/output error");
    cases.push(wrong_transfers("a write that fails says where", "failing", 1, expected));
    cases.extend(failures());
    cases
}

/// Many more seeds and ranks, writes of two gigabytes, and MPICH with the same programs.
pub(crate) fn all_cases(_: &Context) -> Vec<Case> {
    let random = |ranks, place| {
        let arguments = &["--seed", SEED_ALL, "--programs", PROGRAMS_ALL];
        case("random programs", RANDOM, arguments, ranks, place, LIMIT_ALL_SECONDS)
    };
    let mut cases: Vec<Case> = [1, 2, 3, 4, 5, 8, 16].map(|ranks| random(ranks, Where::OneHost)).into();
    for place in [Where::TwoHosts, Where::BadDay] {
        cases.extend([2, 3, 4, 8].map(|ranks| random(ranks, place)));
    }
    let arguments = &["--seed", SEED_ALL, "--programs", "30", "--unit", UNIT_ALL];
    let units =
        |ranks| case("random programs in megabytes", RANDOM, arguments, ranks, Where::OneHost, LIMIT_ALL_SECONDS);
    cases.extend([1, 2, 3, 5].map(units));
    let large = |ranks, place| {
        case("reported faults with two gigabytes", FAULTS, &["--large"], ranks, place, LIMIT_ALL_SECONDS)
    };
    cases.extend([large(2, Where::OneHost), large(2, Where::TwoHosts)]);
    cases.extend([1, 2, 3, 4, 5].map(on_mpich));
    cases
}

/// A case that shows that the oracle is right: the same programs on another library, without what that
/// library is known to do wrong.
fn on_mpich(ranks: u32) -> Case {
    Case::new(format!("random programs, {ranks} ranks on MPICH"), move |context| {
        let compiler = context.python("mpicc_abi");
        if !compiler.exists() {
            return Outcome::Skipped("MPICH is not here: `tools/setup.sh tests` fetches it".to_owned());
        }
        with_directory(context, "mpich", |directory| {
            let run = Run::new(context.python("mpiexec")).arg("-n").arg(ranks.to_string());
            let run = run.arg(context.compile_with(&compiler, RANDOM, "-mpich")?).arg("--directory").arg(directory);
            let run = run.args(["--programs", "40"]).env("LEAVE_OUT", MPICH_LEAVES_OUT);
            Ok(Expected::code(0).judge(run.limit(LIMIT_ALL_SECONDS).finish()))
        })
    })
}
