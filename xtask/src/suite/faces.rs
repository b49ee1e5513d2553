//! Programs for MPICH's or Open MPI's binary interface run over Weft's `libmpi.so.12` and `libmpi.so.40`. The
//! other library's own wrapper compiles the programs of `tests/c`. Further cases have profilers, both
//! interfaces in one process, and the options and variables by which a program finds these libraries.

mod fortran;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::context::{Context, Expected};
use super::needs::Need;
use super::process::{Finished, Run};
use super::{Case, Outcome, peers};

/// The time limit of a program, which takes a second or two.
const LIMIT_SECONDS: u64 = 60;
/// The time limit of all of mpi4py's tests. With four ranks on two processors they take six minutes alone.
const MPI4PY_LIMIT_SECONDS: u64 = 1800;
/// The time limit of all benchmarks of a program.
const BENCHMARK_LIMIT_SECONDS: u64 = 300;
/// The largest size of a face, bytes.
const SIZE_MAX: u64 = 1_500_000;
/// A part of programs that is left out: the buffer is larger than the program's (faces/library/buffers.c).
const LEAVE_OUT: &str = "full-buffer";

/// What a case does where the other library is there.
type Attempt = Box<dyn Fn(&Context) -> anyhow::Result<Outcome>>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Face {
    Mpich,
    OpenMpi,
}

impl Face {
    pub(super) const ALL: [Face; 2] = [Face::Mpich, Face::OpenMpi];

    pub(super) fn name(self) -> &'static str {
        match self {
            Face::Mpich => "MPICH's ABI",
            Face::OpenMpi => "Open MPI's ABI",
        }
    }

    pub(super) fn library(self) -> &'static str {
        match self {
            Face::Mpich => "libmpi.so.12",
            Face::OpenMpi => "libmpi.so.40",
        }
    }

    /// Where `tools/setup.sh tests` has put the other library.
    fn environment(self, context: &Context) -> PathBuf {
        context.root.join(match self {
            Face::Mpich => "build/venv",
            Face::OpenMpi => "build/venv-openmpi",
        })
    }

    /// Whether the other library is there, to compile programs with.
    pub(super) fn is_here(self, context: &Context) -> bool {
        self.environment(context).join("bin/mpicc").exists()
    }

    /// The installed face.
    pub(super) fn file(self, context: &Context) -> PathBuf {
        context.prefix.join("lib/weft/faces").join(self.library())
    }

    /// Its name for mpi4py.
    pub(super) fn word(self) -> &'static str {
        match self {
            Face::Mpich => "mpich",
            Face::OpenMpi => "openmpi",
        }
    }

    /// The programs of `tests/c` that its `mpi.h` has everything for.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Face::Mpich => &MPICH_PROGRAMS,
            Face::OpenMpi => &OPEN_MPI_PROGRAMS,
        }
    }

    /// Those of them that `make test` runs.
    fn selected(self) -> &'static [&'static str] {
        match self {
            Face::Mpich => {
                &["misuse", "callbacks", "chapter3", "probe", "requests", "datatypes", "files_access", "chapter15"]
            }
            Face::OpenMpi => &["callbacks", "chapter3", "communicators", "persistent", "window_epochs", "files_view"],
        }
    }
}

const MPICH_PROGRAMS: [&str; 48] = [
    "chapter3",
    "point_to_point",
    "probe",
    "partitioned",
    "datatypes",
    "collectives",
    "operations",
    "between",
    "groups",
    "communicators",
    "intercommunicators",
    "contexts",
    "create_group",
    "topologies",
    "neighbors",
    "environment",
    "errors",
    "chapter10",
    "sessions",
    "sessions_after",
    "sessions_later",
    "threads",
    "chapter12",
    "window_access",
    "window_epochs",
    "chapter13",
    "files_open",
    "files_view",
    "files_access",
    "files_collective",
    "files_nonblocking",
    "files_representation",
    "files_consistency",
    "files_errors",
    "chapter15",
    "requests",
    "sizes",
    "node_collectives",
    "persistent",
    "repeated",
    "hardware",
    "tools",
    "events",
    "window_oracles",
    "window_passive",
    "windows",
    "misuse",
    "callbacks",
];

/// The others use what this `mpi.h` does not have: functions with large counts, events, classes of errors.
const OPEN_MPI_PROGRAMS: [&str; 25] = [
    "chapter3",
    "probe",
    "partitioned",
    "collectives",
    "operations",
    "groups",
    "communicators",
    "intercommunicators",
    "contexts",
    "create_group",
    "topologies",
    "errors",
    "sessions_after",
    "sessions_later",
    "threads",
    "window_epochs",
    "files_open",
    "files_view",
    "files_consistency",
    "files_errors",
    "persistent",
    "repeated",
    "window_oracles",
    "window_passive",
    "callbacks",
];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for face in Face::ALL {
        let mut add = |what: String, run: Attempt| {
            cases.push(Case::new(format!("{}: {what}", face.name()), move |context| {
                unless_missing(context, face, &run)
            }));
        };
        add(
            "all functions and variables of the library are there".into(),
            Box::new(move |context| exports(context, face)),
        );
        for &name in face.selected() {
            add(format!("{name}, 2 ranks"), Box::new(move |context| program(context, face, name, 2)));
        }
        add("a program that is not position independent".into(), Box::new(move |context| fixed(context, face)));
        add("a forked child learns the class of its error".into(), Box::new(move |context| forked(context, face)));
        add("a profiler sees the program's calls only".into(), Box::new(move |context| profiler(context, face)));
        add("what older programs name, and their statuses".into(), Box::new(move |context| older(context, face)));
        add("mpiexec, weft run and weft info lead to it".into(), Box::new(move |context| ways(context, face)));
        add(
            "some of mpi4py's tests by its published wheel, 1 rank".into(),
            Box::new(move |context| {
                mpi4py(context, face, 1, &["-i", "test_(status|request|attributes|errhandler|grequest|info)"])
            }),
        );
    }
    cases.extend(fortran::cases());
    cases.push(Case::new("another MPI library in the process is named", |context| {
        unless_missing(context, Face::Mpich, |context| Ok(unless_missing(context, Face::OpenMpi, strangers)))
    }));
    cases.push(Case::new("both in one process", |context| {
        unless_missing(context, Face::Mpich, |context| Ok(unless_missing(context, Face::OpenMpi, together)))
    }));
    cases
}

/// All programs with 1 to 4 ranks, and all of mpi4py's tests.
pub(crate) fn all_cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for face in Face::ALL {
        for &name in face.programs() {
            for ranks in 1..=4 {
                let run = move |context: &Context| program(context, face, name, ranks);
                let what = format!("{}: {name}, {ranks} ranks", face.name());
                cases.push(Case::new(what, move |context| unless_missing(context, face, run)));
            }
        }
        if face == Face::Mpich {
            for name in ["IMB-MPI1", "IMB-NBC", "IMB-RMA"] {
                let run = move |context: &Context| imb(context, context.mpiexec(2), name);
                cases.push(Case::new(format!("Intel's {name}, 2 ranks"), run));
                let run = move |context: &Context| anyhow::Ok(imb(context, context.mpiexec_on_hosts(4)?, name));
                cases.push(Case::new(format!("Intel's {name}, 4 ranks on two hosts"), run).needs(&[Need::Networks]));
            }
        }
        for ranks in [1, 2, 4] {
            let run = move |context: &Context| all_of_mpi4py(context, face, ranks);
            let what = format!("{}: all of mpi4py's tests by its published wheel, {ranks} ranks", face.name());
            cases.push(Case::new(what, move |context| unless_missing(context, face, run)));
        }
    }
    cases
}

/// Skips the case where the other library was not installed.
pub(super) fn unless_missing(
    context: &Context,
    face: Face,
    run: impl Fn(&Context) -> anyhow::Result<Outcome>,
) -> Outcome {
    match face.is_here(context) {
        true => run(context).into(),
        false => Outcome::Skipped(format!("no {} here: `tools/setup.sh tests` fetches it", face.name())),
    }
}

fn succeeded(finished: Finished, what: &str) -> anyhow::Result<Finished> {
    anyhow::ensure!(finished.code == Some(0), "{what} failed:\n{}", finished.report());
    Ok(finished)
}

/// Compiles with the other library's own wrapper. Its `mpi.h` and Weft's programs need not agree on
/// warnings.
pub(super) fn compile(
    context: &Context,
    face: Face,
    source: &str,
    suffix: &str,
    options: &[&str],
) -> anyhow::Result<PathBuf> {
    let source = context.root.join(source);
    let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let place = context.work.join("faces").join(face.word());
    std::fs::create_dir_all(&place)?;
    let program = place.join(name + suffix);
    let run = Run::new(face.environment(context).join("bin/mpicc")).args(["-std=gnu11", "-w", "-O0", "-pthread"]);
    let run = run.args(options).arg("-o").arg(&program).arg(&source).args(["-lm"]);
    succeeded(run.limit(LIMIT_SECONDS).finish()?, &format!("compiling {}", source.display()))?;
    Ok(program)
}

fn program(context: &Context, face: Face, name: &str, ranks: u32) -> anyhow::Result<Outcome> {
    let program = compile(context, face, &format!("tests/c/{name}.c"), "", &[])?;
    let run = context.mpiexec(ranks).arg(program).env("LEAVE_OUT", LEAVE_OUT).limit(LIMIT_SECONDS);
    Ok(Expected::code(0).judge(run.finish()))
}

/// The symbols that a library defines: name to size, and whether it is a variable.
fn symbols(file: &Path) -> anyhow::Result<BTreeMap<String, (u64, bool)>> {
    let listed = succeeded(Run::new("nm").args(["-D", "-S", "--defined-only"]).arg(file).finish()?, "nm")?;
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Another name of a function may have no size of its own.
        let (size, kind, name) = match words[..] {
            [_, size, kind, name] => (size, kind, name),
            [_, kind, name] => ("0", kind, name),
            _ => return None,
        };
        Some((name.to_owned(), (u64::from_str_radix(size, 16).ok()?, "BDRVG".contains(kind))))
    };
    Ok(listed.output.lines().filter_map(row).collect())
}

/// Expect: the functions of the standard that the other library has, and all of libmpi_abi, which would
/// otherwise get handles of another ABI; the variables whose addresses are handles, with the same sizes;
/// a small file.
fn exports(context: &Context, face: Face) -> anyhow::Result<Outcome> {
    let own = symbols(&face.file(context))?;
    let theirs = symbols(&face.environment(context).join("lib").join(face.library()))?;
    let standard = symbols(&context.prefix.join("lib/libmpi_abi.so.1"))?;
    // A function's third letter is small: capitals are Fortran's, and so is the ending `_set_info`, which
    // is none.
    let is_function = |name: &str| {
        let name = name.strip_prefix('P').unwrap_or(name);
        name.starts_with("MPI_") && name[4..].contains(|letter: char| letter.is_ascii_lowercase())
    };
    let beyond_the_standard = ["MPI_Session_set_info", "PMPI_Session_set_info"];
    let wanted = theirs.keys().chain(standard.keys()).filter(|name| is_function(name));
    let missing: Vec<&String> =
        wanted.filter(|name| !own.contains_key(*name) && !beyond_the_standard.contains(&name.as_str())).collect();
    anyhow::ensure!(missing.is_empty(), "{} lacks {missing:?}", face.library());
    let mut variables = 0;
    for (name, (size, _)) in own.iter().filter(|(_, (_, is_variable))| *is_variable) {
        let Some((their_size, true)) = theirs.get(name) else { continue };
        anyhow::ensure!(size == their_size, "{name} has {size} bytes, and in the other library {their_size}");
        variables += 1;
    }
    anyhow::ensure!(variables >= 5, "only {variables} variables are in both");
    let size = face.file(context).metadata()?.len();
    anyhow::ensure!(size <= SIZE_MAX, "{} has {size} bytes", face.library());
    Ok(Outcome::Passed)
}

/// A program at a fixed address has copies of the library's variables.
fn fixed(context: &Context, face: Face) -> anyhow::Result<Outcome> {
    let program = compile(context, face, "examples/ring.c", "-fixed", &["-fno-pie", "-no-pie"])?;
    Ok(Expected::code(0).says("(right) on Weft").judge(context.mpiexec(2).arg(program).limit(LIMIT_SECONDS).finish()))
}

/// Expect: a code without a sentence has its class in this ABI, too.
fn forked(context: &Context, face: Face) -> anyhow::Result<Outcome> {
    let program = compile(context, face, "tests/launcher/misused.c", "", &[])?;
    let run = context.mpiexec(2).arg(program).arg("fork").limit(LIMIT_SECONDS);
    Ok(Expected::code(0).says("children ended with 16 and 77").judge(run.finish()))
}

fn older(context: &Context, face: Face) -> anyhow::Result<Outcome> {
    let program = compile(context, face, "tests/faces/older.c", "", &[])?;
    let run = context.mpiexec(1).arg(program).limit(LIMIT_SECONDS);
    Ok(Expected::code(0).judge(run.finish()))
}

fn profiler(context: &Context, face: Face) -> anyhow::Result<Outcome> {
    let profiler = compile(context, face, "tests/faces/profiler.c", ".so", &["-shared", "-fPIC"])?;
    let program = compile(context, face, "tests/faces/profiled.c", "", &[])?;
    let run = context.mpiexec(2).arg("-genv").arg("LD_PRELOAD").arg(profiler).arg(program);
    let expected = Expected::code(0).says("profiler: 1 sends, 1 questions for the size").never_says("got");
    Ok(expected.judge(run.limit(LIMIT_SECONDS).finish()))
}

/// Expect: without an option a program runs over Weft, wherever it leads to by itself; a directory in
/// LD_LIBRARY_PATH comes first; --faces and `weft run` come before that; --no-faces is the program's own
/// library.
fn ways(context: &Context, face: Face) -> anyhow::Result<Outcome> {
    let program = compile(context, face, "examples/ring.c", "", &[])?;
    let others = face.environment(context).join("lib");
    let info = |options: &[(&str, &Path)]| {
        let run = Run::new(context.bin("weft")).arg("info").arg(&program);
        options.iter().fold(run, |run, (name, value)| run.env(name, value)).finish()
    };
    let own = face.file(context);
    let found = info(&[])?;
    let says = format!("{}: {}, Weft's", face.library(), own.display());
    anyhow::ensure!(found.code == Some(0) && found.output.contains(&says), "{}", found.report());
    let found = info(&[("LD_LIBRARY_PATH", &others)])?;
    anyhow::ensure!(found.code == Some(1) && found.output.contains("not Weft's"), "{}", found.report());
    // The program says by itself which library it has.
    let which = |run: Run, expected: bool, what: &str| -> anyhow::Result<()> {
        let finished = run.limit(LIMIT_SECONDS).finish()?;
        anyhow::ensure!(finished.output.contains("on Weft") == expected, "{what}:\n{}", finished.report());
        Ok(())
    };
    which(context.mpiexec(1).arg(&program), true, "mpiexec")?;
    which(context.mpiexec(1).arg("--faces").arg(&program).env("LD_LIBRARY_PATH", &others), true, "mpiexec --faces")?;
    which(Run::new(context.bin("weft")).arg("run").arg(&program).env("LD_LIBRARY_PATH", &others), true, "weft run")?;
    let loads = |run: Run| run.args(["ldd"]).arg(&program).limit(LIMIT_SECONDS).finish();
    for run in [context.mpiexec(1).arg("--no-faces"), context.mpiexec(1).env("LD_LIBRARY_PATH", &others)] {
        let finished = loads(run)?;
        anyhow::ensure!(!finished.output.contains("weft/faces"), "{}", finished.report());
    }
    Ok(Outcome::Passed)
}

/// The program that loads two modules, and the modules: of each ABI one.
fn program_of_both(context: &Context) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
    let modules = Face::ALL.map(|face| {
        compile(context, face, "tests/faces/module.c", ".so", &["-shared", "-fPIC", "-Wl,--disable-new-dtags"])
    });
    let program = context.work.join("faces/together");
    let run =
        Run::new("cc").args(["-w", "-o"]).arg(&program).arg(context.root.join("tests/faces/together.c")).arg("-ldl");
    succeeded(run.finish()?, "compiling together.c")?;
    Ok((program, modules.into_iter().collect::<anyhow::Result<_>>()?))
}

fn together(context: &Context) -> anyhow::Result<Outcome> {
    let (program, modules) = program_of_both(context)?;
    let run = context.mpiexec(2).arg(program).args(modules).limit(LIMIT_SECONDS);
    let expected = Expected::code(0).says("together: failures 0").never_says("two MPI libraries");
    Ok(expected.judge(run.finish()))
}

/// Expect: where the search path leads one module to Open MPI itself, the library says in one sentence
/// which two the process has.
fn strangers(context: &Context) -> anyhow::Result<Outcome> {
    let (program, modules) = program_of_both(context)?;
    let theirs = Face::OpenMpi.environment(context).join("lib");
    let [of_mpich, of_open_mpi] = &modules[..] else { anyhow::bail!("there are two modules") };
    // Their order is that of loading: Weft begins when the other library is there.
    let run = context.mpiexec(1).arg(program).args(["--load-only"]).arg(of_open_mpi).arg(of_mpich);
    let run = run.env("LD_LIBRARY_PATH", &theirs).limit(LIMIT_SECONDS);
    let finished = run.finish()?;
    let sentences: Vec<&str> = finished.output.lines().filter(|line| line.contains("two MPI libraries")).collect();
    let names_it = |line: &&str| line.contains(&*theirs.join("libmpi.so.40").to_string_lossy());
    anyhow::ensure!(sentences.len() == 1 && sentences.iter().all(names_it), "{}", finished.report());
    Ok(Outcome::Passed)
}

/// Runs one of Intel's benchmarks as Intel compiled it, with few repetitions.
fn imb(context: &Context, mpiexec: Run, name: &str) -> Outcome {
    let program = context.root.join("build/venv-intel/bin").join(name);
    if !program.exists() {
        return Outcome::Skipped("no Intel MPI here: `tools/setup.sh tests` fetches it".to_owned());
    }
    let run = mpiexec.arg(program).args(["-iter", "20", "-msglog", "0:16"]).limit(BENCHMARK_LIMIT_SECONDS);
    Expected::code(0).says("Benchmarking").never_says("ERROR").judge(run.finish())
}

/// The tests that are left out by the published wheel: a line has the ABI before what the list of all has.
const LEFT_OUT_WHEEL: &str = "tests/mpi4py/left-out-wheel.txt";

/// How many of them there are, and how many are skipped where NumPy and libraries for devices are not there.
const COUNTS_WHEEL: &str = "tests/mpi4py/wheel.txt";

/// Runs some of mpi4py's own tests by the wheel that is published, which has a module for each of the two
/// ABIs.
fn mpi4py(context: &Context, face: Face, ranks: u32, selected: &[&str]) -> anyhow::Result<Outcome> {
    match run_mpi4py(context, face, ranks, selected)? {
        Ok(finished) => Ok(judge_mpi4py(Ok(finished))),
        Err(why) => Ok(Outcome::Skipped(why)),
    }
}

/// Runs all of them. Expect: no fewer tests than the table has, and no more of them skipped.
fn all_of_mpi4py(context: &Context, face: Face, ranks: u32) -> anyhow::Result<Outcome> {
    let finished = match run_mpi4py(context, face, ranks, &[])? {
        Ok(finished) => finished,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let [ran, skipped] = counts_of_tests(&finished.output).with_context(|| finished.report())?;
    println!("         | {}, {ranks} ranks: {ran} tests, {skipped} of them skipped", face.name());
    if let Outcome::Failed(why) = judge_mpi4py(Ok(finished)) {
        return Ok(Outcome::Failed(why));
    }
    let table = std::fs::read_to_string(context.root.join(COUNTS_WHEEL))?;
    let expected = counts_in_table(&table, face, ranks)?;
    anyhow::ensure!(
        ran >= expected[0] && skipped <= expected[1],
        "{ran} tests ran and {skipped} of them were skipped, instead of {} and {}",
        expected[0],
        expected[1]
    );
    Ok(Outcome::Passed)
}

fn judge_mpi4py(finished: anyhow::Result<Finished>) -> Outcome {
    Expected::code(0).says("OK").never_says("FAILED (").judge(finished)
}

/// The reason why nothing runs is the inner error.
fn run_mpi4py(
    context: &Context,
    face: Face,
    ranks: u32,
    selected: &[&str],
) -> anyhow::Result<Result<Finished, String>> {
    let ready = Run::new(context.root.join("tools/mpi4py-wheel.sh")).limit(LIMIT_SECONDS).finish()?;
    if ready.code != Some(0) {
        return Ok(Err(format!("no wheel of mpi4py here: {}", ready.output.trim())));
    }
    let mut list = std::fs::read_to_string(context.root.join(peers::LEFT_OUT))?;
    let of_the_wheel = std::fs::read_to_string(context.root.join(LEFT_OUT_WHEEL))?;
    let lines = of_the_wheel.lines().filter_map(|line| line.strip_prefix(face.word())?.strip_prefix(' '));
    lines.for_each(|line| list += &format!("{line}\n"));
    let home = context.root.join("build/mpi4py-wheel");
    let tests = home.join("source/test");
    let run = context.mpiexec(ranks).arg(context.python("python")).arg(tests.join("main.py"));
    let run = run.args(["-v", "--no-builddir", "--path"]).arg(home.join("site")).args(selected);
    // Interpreters that the tests spawn find the wheel by the variable, as they would where pip installed it.
    let run = run.args(peers::left_out(&list, ranks)?).env("PYTHONPATH", home.join("site"));
    Ok(Ok(run.env("MPI4PY_MPIABI", face.word()).directory(&tests).limit(MPI4PY_LIMIT_SECONDS).finish()?))
}

/// What mpi4py's runner says at the end, at the rank that ran fewest tests and at the one that skipped most.
fn counts_of_tests(output: &str) -> anyhow::Result<[u64; 2]> {
    let words = output.lines().filter_map(|line| line.strip_prefix("Ran ")?.split(' ').next());
    let ran = words.filter_map(|word| word.parse().ok()).min().context("no count of tests")?;
    let skipped = output.lines().filter_map(|line| {
        let ends = line.starts_with("OK") || line.starts_with("FAILED (");
        let words = line.split("skipped=").nth(1).filter(|_| ends)?;
        words.split([',', ')']).next()?.parse().ok()
    });
    Ok([ran, skipped.max().unwrap_or(0)])
}

/// The numbers of a row `ABI RANKS TESTS SKIPPED`.
fn counts_in_table(table: &str, face: Face, ranks: u32) -> anyhow::Result<[u64; 2]> {
    let ranks = ranks.to_string();
    for line in table.lines() {
        if let [abi, of_ranks, ran, skipped] = line.split(' ').collect::<Vec<_>>()[..]
            && (abi, of_ranks) == (face.word(), ranks.as_str())
        {
            return Ok([ran.parse()?, skipped.parse()?]);
        }
    }
    anyhow::bail!("{COUNTS_WHEEL} has no row of {} with {ranks} ranks", face.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_all_ranks_are_read() {
        let output =
            "test_a ... ok\nRan 2127 tests in 9.0s\nRan 2126 tests in 9.1s\n\nOK (skipped=75)\nOK (skipped=76)\n";
        assert_eq!(counts_of_tests(output).unwrap(), [2126, 76]);
        assert_eq!(counts_of_tests("Ran 5 tests in 1s\nFAILED (failures=1, skipped=2, errors=1)").unwrap(), [5, 2]);
        assert!(counts_of_tests("OK (skipped=1)").is_err());
    }

    /// Expect: the page for users has the numbers of the table, which the suite compares with each run.
    #[test]
    fn the_book_says_the_counts_of_the_table() {
        let root = crate::generate::project_root();
        let page = std::fs::read_to_string(root.join("docs/book/faces.md")).unwrap();
        let table = std::fs::read_to_string(root.join(COUNTS_WHEEL)).unwrap();
        for ranks in [1, 2, 4] {
            let of = |face| {
                let [ran, skipped] = counts_in_table(&table, face, ranks).unwrap();
                format!("{}, {skipped}", ran - skipped)
            };
            let row = format!("| {ranks} | {} | {} |", of(Face::Mpich), of(Face::OpenMpi));
            assert!(page.contains(&row), "docs/book/faces.md has no row: {row}");
        }
        assert!(counts_in_table(&table, Face::Mpich, 3).is_err());
    }
}
