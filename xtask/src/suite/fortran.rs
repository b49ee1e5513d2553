//! Fortran: the programs of `tests/fortran` with each compiler and each binding, over Weft and over MPICH's
//! library of the standard ABI; profilers; and what configure scripts, CMake and users ask `mpifort`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::context::{Context, Expected};
use super::instructions;
use super::needs::{Need, flang};
use super::process::{Finished, Run};
use super::{Case, Outcome};

/// The time limit of a program, which takes a second.
const LIMIT_SECONDS: u64 = 60;
/// The time limit of compiling the program that names every procedure.
const COMPILE_LIMIT_SECONDS: u64 = 180;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Compiler {
    Gnu,
    Llvm,
}

impl Compiler {
    fn name(self) -> &'static str {
        match self {
            Compiler::Gnu => "gfortran",
            Compiler::Llvm => "flang",
        }
    }

    fn need(self) -> Need {
        match self {
            Compiler::Gnu => Need::Gfortran,
            Compiler::Llvm => Need::Flang,
        }
    }

    fn command(self) -> &'static str {
        match self {
            Compiler::Gnu => "gfortran",
            Compiler::Llvm => flang().unwrap_or("flang"),
        }
    }
}

/// The programs, with the options that choose a binding.
const PROGRAMS: &[(&str, &str, &[&str])] = &[
    ("mpif.h in fixed form", "fixed.f", &[]),
    ("mpif.h", "classic.F90", &[]),
    ("the module mpi", "classic.F90", &["-DMODULE"]),
    ("the module mpi_f08", "modern.F90", &[]),
    ("sections of arrays", "sections.f90", &[]),
    ("the lengths of REAL without options", "reals.F90", &["-DF08"]),
];

/// Options that change the lengths of REAL and DOUBLE PRECISION, and what the program is told of them.
const LENGTHS: &[&[&str]] = &[&["-fdefault-real-8", "-fdefault-double-8"], &["-fdefault-real-8", "-DLONG_DOUBLE"]];

/// The instructions that the binding may add to an `MPI_Send` of 8 bytes, and the messages that the program
/// sends.
const ADDED_MOST: &[(&str, u64)] = &[("-DMPIF", 15), ("-DMODULE", 15), ("-DF08", 40)];
const COUNTED: u64 = 1000;
/// The seconds of processor time that compiling the modules for a compiler may take.
const MODULES_SECONDS_MOST: f64 = 20.0;

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for compiler in [Compiler::Gnu, Compiler::Llvm] {
        let name = compiler.name();
        let mut add = |what: String, run: Box<dyn Fn(&Context) -> Outcome>| {
            cases.push(Case::new(format!("{name}: {what}"), run).needs(&[compiler.need()]));
        };
        add(
            "every procedure, by mpif.h and by both modules".to_owned(),
            Box::new(move |context| every_procedure(context, compiler).into()),
        );
        add(
            "every procedure answers as in C, by mpif.h and by both modules, 1 and 2 ranks".to_owned(),
            Box::new(move |context| every_answer(context, compiler).into()),
        );
        for &(what, source, options) in PROGRAMS {
            add(
                format!("{what}, 2 ranks"),
                Box::new(move |context| program(context, compiler, source, options).into()),
            );
        }
        add("sections of arrays, 2 ranks, over MPICH's library".to_owned(), over_mpich(compiler, "sections.f90"));
        add("the module mpi_f08, 2 ranks, over MPICH's library".to_owned(), over_mpich(compiler, "modern.F90"));
        add(
            "errors, WEFT_CHECK and the help for hangs name the procedures of Fortran".to_owned(),
            Box::new(move |context| named(context, compiler).into()),
        );
        add(
            "options that change the lengths of REAL, with all bindings".to_owned(),
            Box::new(move |context| lengths(context, compiler).into()),
        );
        add("a program half in C".to_owned(), Box::new(move |context| mixed(context, compiler).into()));
        add(
            "profilers in C and in Fortran see the calls".to_owned(),
            Box::new(move |context| profilers(context, compiler).into()),
        );
    }
    cases.push(Case::new("mpifort answers what the scripts of every library ask", questions).needs(&[Need::Gfortran]));
    cases.push(Case::new("the modules for a new compiler are compiled once", first_use).needs(&[Need::Gfortran]));
    cases.push(
        Case::new("a module file of others is named before the compiler speaks", foreign).needs(&[Need::Gfortran]),
    );
    cases.push(Case::new("what the binding adds to MPI_SEND", added).needs(&[Need::Gfortran]));
    cases.push(Case::new("mpifort, mpif90 and mpif77 say that there is no compiler", no_compiler));
    cases.push(Case::new("find_package(MPI) finds all three bindings", cmake).needs(&[Need::Gfortran]));
    cases
}

fn succeeded(finished: Finished, what: &str) -> anyhow::Result<Finished> {
    anyhow::ensure!(finished.code == Some(0), "{what} failed:\n{}", finished.report());
    Ok(finished)
}

fn mpifort(context: &Context, compiler: Compiler) -> Run {
    Run::new(context.bin("mpifort")).arg(format!("-fc={}", compiler.command())).limit(COMPILE_LIMIT_SECONDS)
}

/// A directory for the files of one case.
fn directory(context: &Context, name: &str) -> anyhow::Result<PathBuf> {
    let path = context.work.join("fortran").join(name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

/// Compiles and links files of tests/fortran. Warnings of old forms are not wanted.
fn compile(context: &Context, compiler: Compiler, files: &[PathBuf], options: &[&str]) -> anyhow::Result<PathBuf> {
    let last = files.last().and_then(|file| file.file_name()).unwrap_or_default().to_string_lossy().into_owned();
    let place = directory(context, &format!("{} {last} {}", compiler.name(), options.join(" ")))?;
    let program = place.join("program");
    let run = mpifort(context, compiler).args(["-g", "-w"]).args(options).arg("-o").arg(&program).args(files);
    succeeded(run.directory(&place).finish()?, &format!("compiling {last}"))?;
    Ok(program)
}

fn source(context: &Context, name: &str) -> PathBuf {
    context.root.join("tests/fortran").join(name)
}

/// The modules for the options are compiled at the first use.
fn lengths(context: &Context, compiler: Compiler) -> anyhow::Result<()> {
    let place = directory(context, &format!("{} lengths", compiler.name()))?;
    let reals = source(context, "reals.F90");
    for &options in LENGTHS {
        for binding in ["-DMPIF", "-DMODULE", "-DF08"] {
            let run = mpifort(context, compiler).args(["-g", "-w", binding]).args(options).arg("-o").arg("program");
            let run = run.arg(&reals).env("XDG_CACHE_HOME", place.join("cache")).directory(&place);
            succeeded(run.finish()?, &format!("compiling with {options:?} {binding}"))?;
            let run = context.mpiexec(2).arg(place.join("program")).limit(LIMIT_SECONDS);
            let finished = succeeded(run.finish()?, &format!("{options:?} {binding}"))?;
            anyhow::ensure!(finished.output.contains("failures: 0\n"), "{options:?} {binding}: {}", finished.report());
        }
    }
    Ok(())
}

fn program(context: &Context, compiler: Compiler, name: &str, options: &[&str]) -> anyhow::Result<Outcome> {
    let program = compile(context, compiler, &[source(context, name)], options)?;
    let finished = context.mpiexec(2).arg(program).limit(LIMIT_SECONDS).finish();
    Ok(Expected::code(0).says("failures: 0\n").judge(finished))
}

/// Runs a program by MPICH's launcher with its library of the standard ABI in the place of Weft's.
fn over_mpich(compiler: Compiler, name: &'static str) -> Box<dyn Fn(&Context) -> Outcome> {
    Box::new(move |context| {
        let library = context.root.join("build/venv/lib");
        if !library.join("libmpi_abi.so.1").exists() {
            return Outcome::Skipped("no MPICH in build/venv; tools/setup.sh tests installs it".to_owned());
        }
        let run = || {
            let program = compile(context, compiler, &[source(context, name)], &[])?;
            let run = Run::new(context.python("mpiexec")).args(["-n", "2"]).arg(program).limit(LIMIT_SECONDS);
            run.env("LD_LIBRARY_PATH", &library).finish()
        };
        Expected::code(0).says("failures: 0\n").judge(run())
    })
}

/// Compiles and links the three programs that `cargo xtask generate` makes of the tables. They count what
/// they name.
fn every_procedure(context: &Context, compiler: Compiler) -> anyhow::Result<()> {
    let place = directory(context, &format!("{} every procedure", compiler.name()))?;
    let generate = Run::new(std::env::current_exe()?).args(["generate", "--fortran-programs"]).arg(&place);
    succeeded(generate.directory(&context.root).finish()?, "generating the programs")?;
    for binding in ["mpif", "mpi", "mpi_f08"] {
        let file = place.join(format!("every_call_{binding}.f90"));
        let named = std::fs::read_to_string(&file)?.matches("\nend subroutine").count();
        anyhow::ensure!(named > 800, "the program names {named} procedures only");
        let program = compile(context, compiler, &[file], &["-O0"])?;
        let finished = succeeded(Run::new(program).finish()?, binding)?;
        anyhow::ensure!(finished.output.contains(&format!("procedures named: {named}")), "{}", finished.report());
    }
    Ok(())
}

/// The fewest procedures that a program which calls every procedure calls, with their profiling names.
const CALLS_MIN: usize = 700;

/// Programs in C and by each binding call every procedure with the same arguments, which stand for nothing.
/// Expect: the same answers, success or the class of an error.
fn every_answer(context: &Context, compiler: Compiler) -> anyhow::Result<()> {
    let place = directory(context, &format!("{} every answer", compiler.name()))?;
    let generate = Run::new(std::env::current_exe()?).args(["generate", "--fortran-programs"]).arg(&place);
    succeeded(generate.directory(&context.root).finish()?, "generating the programs")?;
    let in_c = place.join("in-c");
    let run = Run::new(context.bin("mpicc")).args(["-w", "-o"]).arg(&in_c).arg(place.join("every_answer.c"));
    succeeded(run.limit(COMPILE_LIMIT_SECONDS).finish()?, "compiling the program in C")?;
    let long = if compiler == Compiler::Gnu { "-ffree-line-length-none" } else { "-O0" };
    let of_binding = |binding: &'static str| {
        let source = place.join(format!("every_answer_{binding}.f90"));
        anyhow::Ok((binding, compile(context, compiler, &[source], &["-O0", long])?))
    };
    let programs = ["mpif", "mpi", "mpi_f08"].map(of_binding).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    for ranks in [1, 2] {
        let answers = |program: &Path| {
            let finished =
                succeeded(context.mpiexec(ranks).arg(program).limit(LIMIT_SECONDS).finish()?, "the program")?;
            let answers = finished.output.lines().filter(|line| line.starts_with("MPI_") || line.starts_with("PMPI_"));
            anyhow::Ok(answers.map(str::to_owned).collect::<BTreeSet<String>>())
        };
        let of_c = answers(&in_c)?;
        for (binding, program) in &programs {
            let of_fortran = answers(program)?;
            anyhow::ensure!(of_fortran.len() >= CALLS_MIN, "{binding}: {} answers only", of_fortran.len());
            let others: Vec<&String> = of_fortran.difference(&of_c).collect();
            anyhow::ensure!(others.is_empty(), "{ranks} ranks, {binding} answers otherwise than C: {others:?}");
        }
    }
    Ok(())
}

/// Compiles a C file of tests/fortran.
fn object(context: &Context, name: &str) -> anyhow::Result<PathBuf> {
    let object = directory(context, "objects")?.join(format!("{name}.o"));
    let run = Run::new(context.bin("mpicc")).args(["-Wall", "-Wextra", "-Werror", "-c", "-o"]);
    succeeded(run.arg(&object).arg(source(context, name)).finish()?, name)?;
    Ok(object)
}

fn mixed(context: &Context, compiler: Compiler) -> anyhow::Result<Outcome> {
    let files = [object(context, "mixed.c")?, source(context, "mixed.f90")];
    let program = compile(context, compiler, &files, &[])?;
    Ok(Expected::code(0).says("failures: 0\n").judge(Run::new(program).limit(LIMIT_SECONDS).finish()))
}

/// What is said about calls of `named.F90`: its options, its argument, options of `mpiexec`, and the words.
const SAID: &[(&[&str], &str, &[&str], &str)] = &[
    (&[], "error", &[], "MPI_SEND: "),
    (&["-DMODERN"], "error", &[], "MPI_SEND: "),
    (&["-DMODERN"], "section", &[], "MPI_SEND: "),
    (&[], "check", &["-genv", "WEFT_CHECK", "1"], "rank 1 calls MPI_BARRIER, rank 0 calls MPI_BCAST"),
    (&[], "hang", &["--timeout", "2"], "in MPI_RECV for "),
];

fn named(context: &Context, compiler: Compiler) -> anyhow::Result<()> {
    for &(options, what, launching, says) in SAID {
        let program = compile(context, compiler, &[source(context, "named.F90")], options)?;
        let run = Run::new(context.bin("mpiexec")).args(["-n", "2"]).args(launching).arg(program).arg(what);
        let finished = run.limit(LIMIT_SECONDS).finish()?;
        let is_right = finished.code != Some(0) && finished.report().contains(says);
        anyhow::ensure!(is_right, "{what} {options:?}: no {says:?}\n{}", finished.report());
    }
    Ok(())
}

/// Each tool sees two of three messages: the third is sent by a name that is not profiled.
fn profilers(context: &Context, compiler: Compiler) -> anyhow::Result<()> {
    let in_c = object(context, "tool.c")?;
    let in_fortran = source(context, "tool.f90");
    for (tool, options, says) in [
        (&in_c, "-DF08", "seen in C: 2\n"),
        (&in_c, "-DMODULE", "seen in C: 2\n"),
        (&in_fortran, "-DMODULE_AND_TOOL", "seen in Fortran: 2\n"),
    ] {
        let program = compile(context, compiler, &[tool.clone(), source(context, "sends.F90")], &[options])?;
        let finished = succeeded(Run::new(program).limit(LIMIT_SECONDS).finish()?, "the program")?;
        anyhow::ensure!(finished.output.contains(says), "{options}: no {says:?}\n{}", finished.report());
    }
    Ok(())
}

/// Questions to `mpifort`, with parts of the answers. `PREFIX` is the installation's prefix.
const QUESTIONS: &[(&[&str], &[&str])] = &[
    (&["-show"], &["gfortran -IPREFIX/include -IPREFIX/lib/weft/fortran/GNU", "-lmpifort_abi -lmpi_abi\n"]),
    (&["-show", "-c", "a.f90"], &["-IPREFIX/include", "-c a.f90\n"]),
    (&["-compile-info"], &["gfortran -IPREFIX/include", "-c\n"]),
    (&["-link-info"], &["-LPREFIX/lib", "-lweft_mpi_modules", "-lmpifort_abi -lmpi_abi\n"]),
    (&["-showme:compile"], &["-IPREFIX/include -IPREFIX/lib/weft/fortran/GNU"]),
    (&["--showme:link"], &["-LPREFIX/lib", "-lmpifort_abi -lmpi_abi\n"]),
    (&["-showme:incdirs"], &["PREFIX/include PREFIX/lib/weft/fortran/GNU"]),
    (&["-showme:libs"], &["weft_mpi_modules mpifort_abi mpi_abi\n"]),
    (&["-showme:command"], &["gfortran\n"]),
    (&["--version"], &["GNU Fortran"]),
];

fn questions(context: &Context) -> anyhow::Result<()> {
    let prefix = std::fs::canonicalize(&context.prefix)?.to_string_lossy().into_owned();
    for (question, answers) in QUESTIONS {
        let run = Run::new(context.bin("mpifort")).arg("-fc=gfortran").args(*question);
        let finished = succeeded(run.finish()?, &format!("mpifort {question:?}"))?;
        for answer in *answers {
            let answer = answer.replace("PREFIX", &prefix);
            anyhow::ensure!(finished.output.contains(&answer), "{question:?}: no {answer:?}\n{}", finished.report());
        }
    }
    for variable in ["WEFT_FC", "MPICH_FC", "OMPI_FC", "I_MPI_FC"] {
        let run = Run::new(context.bin("mpifort")).arg("-showme:command").env(variable, "mine");
        anyhow::ensure!(run.finish()?.output == "mine\n", "{variable} is not heard");
    }
    for (option, says) in [("-fdefault-integer-8", "INTEGER(8)"), ("-freal-8-real-4", "MPI_WTIME")] {
        let finished = mpifort(context, Compiler::Gnu).args(["-show", option, "program.f90"]).finish()?;
        let report = finished.report();
        anyhow::ensure!(finished.code == Some(1) && report.contains(says), "{option}: {report}");
    }
    for (name, variable) in [("mpif77", "OMPI_F77"), ("mpif90", "MPICH_F90")] {
        let run = Run::new(context.bin(name)).arg("-showme:command").env(variable, "mine");
        anyhow::ensure!(run.finish()?.output == "mine\n", "{name}: {variable} is not heard");
    }
    Ok(())
}

/// A compiler of a version that the installation has not seen.
fn new_compiler(place: &Path) -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = place.join("newfortran");
    let says = "case $1 in --version) echo 'GNU Fortran (new) 99.1.0' ;; *) exec gfortran \"$@\" ;; esac";
    std::fs::write(&path, format!("#!/bin/sh\n{says}\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// The seconds of processor time in the last line of a shell's `times`, which is of its children: `0m2.93s
/// 0m0.20s`.
fn children_seconds(times: &str) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for time in times.split_whitespace() {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').with_context(|| times.to_owned())?;
        sum += minutes.parse::<f64>()? * 60.0 + seconds.parse::<f64>()?;
    }
    Ok(sum)
}

/// The first call compiles the modules into the cache, in little time, and says so in one line; the second is
/// silent.
fn first_use(context: &Context) -> anyhow::Result<()> {
    let place = directory(context, "first use")?;
    let compiler = new_compiler(&place)?;
    let cache = place.join("cache");
    if cache.exists() {
        std::fs::remove_dir_all(&cache)?;
    }
    let call = || {
        let run = Run::new("sh").args(["-c", "\"$@\"; code=$?; times; exit $code", "sh"]).arg(context.bin("mpifort"));
        let run = run.arg(format!("-fc={}", compiler.display())).directory(&place);
        let run = run.arg("-w").arg("-o").arg(place.join("program")).arg(source(context, "modern.F90"));
        run.env("XDG_CACHE_HOME", &cache).limit(COMPILE_LIMIT_SECONDS).finish()
    };
    // What `times` says is two more lines.
    let first = succeeded(call()?, "the first call")?;
    let says = first.output.lines().count() == 3 && first.output.starts_with("compiled Weft's Fortran modules for");
    anyhow::ensure!(says, "the first call does not say in one line what it does:\n{}", first.report());
    let second = succeeded(call()?, "the second call")?;
    anyhow::ensure!(second.output.lines().count() == 2, "the second call is not silent:\n{}", second.report());
    let [all, program] = [&first, &second].map(|call| children_seconds(call.output.lines().last().unwrap_or_default()));
    let modules = all? - program?;
    anyhow::ensure!(
        (0.0..=MODULES_SECONDS_MOST).contains(&modules),
        "compiling the modules takes {modules:.1} s of a processor, and may take {MODULES_SECONDS_MOST}"
    );
    Ok(())
}

/// A module file that the compiler would take in the place of Weft's.   Expect: mpifort names it first, and
/// says nothing of a copy of Weft's own.
fn foreign(context: &Context) -> anyhow::Result<()> {
    let place = directory(context, "module files of others")?;
    let call = || {
        let run = mpifort(context, Compiler::Gnu).args(["-c", "-w", "-DMODULE"]).arg(source(context, "reals.F90"));
        run.directory(&place).finish()
    };
    let shown = mpifort(context, Compiler::Gnu).arg("-showme:incdirs").finish()?.output;
    let own = shown.split_whitespace().last().context("no directory of modules")?;
    std::fs::copy(Path::new(own).join("mpi.mod"), place.join("mpi.mod"))?;
    let finished = succeeded(call()?, "compiling beside a copy of the module")?;
    anyhow::ensure!(finished.output.is_empty(), "a copy is named:\n{}", finished.report());
    std::fs::write(place.join("mpi.mod"), "a module file of another compiler\n")?;
    let finished = call()?;
    let first = finished.output.lines().next().unwrap_or_default();
    let says = first.starts_with("mpifort: the compiler takes ") && first.contains("/mpi.mod, which is not Weft's");
    anyhow::ensure!(finished.code != Some(0) && says, "the file is not named first:\n{}", finished.report());
    Ok(())
}

/// Expect: each binding adds at least one instruction to a message, and at most as many as it may.
fn added(context: &Context) -> anyhow::Result<Outcome> {
    if let Some(why) = instructions::missing() {
        return Ok(Outcome::Skipped(why));
    }
    for &(binding, most) in ADDED_MOST {
        let program =
            compile(context, Compiler::Gnu, &[source(context, "counted.F90")], &[binding, "-O2", "-fno-inline"])?;
        let profile = program.with_extension("profile");
        let counter = ["--quiet", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=counted"];
        let run = Run::new("valgrind").args(counter).arg(format!("--callgrind-out-file={}", profile.display()));
        let run = run.arg(&program).env("LD_LIBRARY_PATH", context.prefix.join("lib")).limit(LIMIT_SECONDS);
        succeeded(run.finish()?, "the program under callgrind")?;
        let text = std::fs::read_to_string(&profile).with_context(|| profile.display().to_string())?;
        let all = instructions::of_file(&text, "libmpifort_abi.so.1.0.0")?;
        let each = all.div_ceil(COUNTED);
        anyhow::ensure!(
            (1..=most).contains(&each),
            "{binding} adds {each} instructions to MPI_SEND, and may add {most}; they are in {}",
            profile.display()
        );
    }
    Ok(Outcome::Passed)
}

fn no_compiler(context: &Context) -> anyhow::Result<()> {
    for name in ["mpifort", "mpif90", "mpif77"] {
        let finished = Run::new(context.bin(name)).args(["-fc=no-such-compiler", "a.f90"]).finish()?;
        let says = finished.output.starts_with(&format!("{name}: there is no Fortran compiler no-such-compiler here"));
        anyhow::ensure!(finished.code == Some(1) && says, "{name}:\n{}", finished.report());
    }
    Ok(())
}

fn cmake(context: &Context) -> Outcome {
    let run = Run::new(context.root.join("tests/cmake-fortran/run.sh")).arg(&context.prefix).limit(120);
    Expected::code(0).says("find_package(MPI) found mpif.h, mpi and mpi_f08").judge(run.finish())
}
