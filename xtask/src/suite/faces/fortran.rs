//! Fortran programs of MPICH's and Open MPI's binary interfaces: compiled with the modules and mpif.h of
//! Debian's packages of those libraries, and run over Weft's libraries of the same names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::context::{Context, Expected};
use super::super::needs::Need;
use super::super::process::Run;
use super::super::{Case, Outcome};
use super::{Attempt, Face, LIMIT_SECONDS, SIZE_MAX, succeeded, symbols};

/// The time limit of compiling a program that calls every procedure.
const COMPILE_LIMIT_SECONDS: u64 = 300;
/// The fewest procedures that a program which calls every procedure calls, with their profiling names.
const CALLS_MIN: usize = 600;

/// A program of `tests/fortran`, with the options that choose a binding.
struct Program {
    what: &'static str,
    source: &'static str,
    options: &'static [&'static str],
}

const PROGRAMS: [Program; 3] = [
    Program { what: "mpif.h", source: "classic.F90", options: &[] },
    Program { what: "the module mpi", source: "classic.F90", options: &["-DMODULE"] },
    Program { what: "the module mpi_f08", source: "modern.F90", options: &["-DSMALL_ONLY"] },
];

/// Only MPICH's module passes sections of arrays.
const SECTIONS: Program = Program { what: "sections of arrays", source: "sections.f90", options: &[] };

impl Face {
    /// The directory with the libraries of Debian's packages, as `tools/setup.sh tests` unpacks them.
    fn debian(self, context: &Context) -> PathBuf {
        let name = match self {
            Face::Mpich => "debian-mpich",
            Face::OpenMpi => "debian-openmpi",
        };
        context.root.join("build").join(name).join("usr/lib/x86_64-linux-gnu")
    }

    /// The directories with mpif.h and the modules.
    fn modules(self, context: &Context) -> Vec<PathBuf> {
        let debian = self.debian(context);
        match self {
            Face::Mpich => vec![debian.join("../../include/x86_64-linux-gnu/mpich")],
            Face::OpenMpi => vec![debian.join("fortran/gfortran-mod-15/openmpi"), debian.join("openmpi/include")],
        }
    }

    /// The names of the libraries for Fortran, as Debian's programs need them.
    fn fortran_libraries(self) -> &'static [&'static str] {
        match self {
            Face::Mpich => &["libmpichfort.so.12"],
            Face::OpenMpi => &["libmpi_usempif08.so.40", "libmpi_usempi_ignore_tkr.so.40", "libmpi_mpifh.so.40"],
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for face in Face::ALL {
        let mut add = |what: String, run: Attempt| {
            let run = move |context: &Context| unless_missing(context, face, &run);
            cases.push(Case::new(format!("{} in Fortran: {what}", face.name()), run).needs(&[Need::Gfortran]));
        };
        add("all names of the library are there".to_owned(), Box::new(move |context| exports(context, face)));
        let sections = (face == Face::Mpich).then_some(SECTIONS);
        for program in PROGRAMS.into_iter().chain(sections) {
            add(format!("{}, 2 ranks", program.what), Box::new(move |context| runs(context, face, &program)));
        }
        for binding in ["mpif", "mpi_f08"] {
            add(
                format!("every procedure of {binding} answers as by the standard's ABI, 1 and 2 ranks"),
                Box::new(move |context| answers(context, face, binding)),
            );
        }
        add(
            "an error names the procedure of Fortran".to_owned(),
            Box::new(move |context| {
                let program = compile(context, face, "tests/fortran/named.F90", &[], &[])?;
                let run = context.mpiexec(2).arg(program).arg("error").limit(LIMIT_SECONDS);
                let finished = run.finish()?;
                let is_named = finished.code != Some(0) && finished.report().contains("MPI_SEND: ");
                anyhow::ensure!(is_named, "no MPI_SEND:\n{}", finished.report());
                Ok(Outcome::Passed)
            }),
        );
    }
    cases
}

fn unless_missing(context: &Context, face: Face, run: impl Fn(&Context) -> anyhow::Result<Outcome>) -> Outcome {
    let first = face.fortran_libraries().first().copied().unwrap_or_default();
    match face.debian(context).join(first).exists() {
        true => run(context).into(),
        false => Outcome::Skipped("Debian's libraries are not there: `tools/setup.sh tests` unpacks them".to_owned()),
    }
}

fn is_of_mpi(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let stem = name.strip_prefix('p').unwrap_or(&name);
    stem.starts_with("mpi_") || name.starts_with("__mpi_") || name.starts_with("ompi_f08_mpi_")
}

/// Returns whether the standard does not have this name: MPICH and Open MPI export such names for themselves.
/// They are extensions, helpers and constructors of their modules, and parts of polymorphic variables. Other
/// ones have letters of both cases, or are MPICH's older names of what the standard has.
fn is_their_own(name: &str) -> bool {
    const PARTS: [&str; 6] = ["__vtab", "__def_init", "__copy_", "mpi_c_interface", "_delete_error_", "mpi_f_arg"];
    let small = name.to_ascii_lowercase();
    let has_both = name.contains(|letter: char| letter.is_ascii_uppercase())
        && name.contains(|letter: char| letter.is_ascii_lowercase());
    PARTS.iter().any(|part| small.contains(part))
        || small == "mpi_f_errcodes_ignore"
        || has_both && !small.starts_with("__")
}

/// Expect: every procedure in every spelling, and every variable, with the same size where a program has
/// a copy.
fn exports(context: &Context, face: Face) -> anyhow::Result<Outcome> {
    let directory = context.prefix.join("lib/weft/faces");
    for &library in face.fortran_libraries() {
        let own = symbols(&directory.join(library))?;
        let theirs = symbols(&face.debian(context).join(library))?;
        anyhow::ensure!(theirs.len() > 300, "Debian's {library} has {} symbols only", theirs.len());
        let missing: Vec<&String> =
            theirs.keys().filter(|name| is_of_mpi(name) && !is_their_own(name) && !own.contains_key(*name)).collect();
        anyhow::ensure!(missing.is_empty(), "{library} lacks {} names: {missing:?}", missing.len());
        for (name, (size, is_variable)) in &theirs {
            let Some((own_size, true)) = own.get(name).filter(|_| *is_variable) else { continue };
            anyhow::ensure!(size == own_size, "{library}: {name} has {own_size} bytes, and theirs {size}");
        }
        let bytes = std::fs::canonicalize(directory.join(library))?.metadata()?.len();
        anyhow::ensure!(bytes <= SIZE_MAX, "{library} has {bytes} bytes");
    }
    Ok(Outcome::Passed)
}

/// Compiles with the other library's mpif.h and modules. `libraries` are linked before Debian's.
fn compile(
    context: &Context,
    face: Face,
    source: &str,
    options: &[&str],
    libraries: &[PathBuf],
) -> anyhow::Result<PathBuf> {
    let source = context.root.join(source);
    let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned() + &options.concat();
    let place = context.work.join("faces").join(format!("{}-fortran", face.word())).join(name);
    std::fs::create_dir_all(&place)?;
    let program = place.join("program");
    let mut run = Run::new("gfortran").args(["-w", "-O0", "-ffree-line-length-none", "-fallow-argument-mismatch"]);
    for directory in face.modules(context) {
        run = run.arg("-I").arg(directory);
    }
    run = run.args(options).arg("-o").arg(&program).arg(&source).args(libraries);
    let debian = face.debian(context);
    run = run.args(face.fortran_libraries().iter().map(|library| debian.join(library)));
    let in_c = match face {
        Face::Mpich => "libmpich.so.12",
        Face::OpenMpi => "libmpi.so.40",
    };
    // Their own libraries are not on the loader's path here.
    run = run.arg(debian.join(in_c)).arg("-Wl,--allow-shlib-undefined");
    succeeded(
        run.directory(&place).limit(COMPILE_LIMIT_SECONDS).finish()?,
        &format!("compiling {}", source.display()),
    )?;
    Ok(program)
}

fn runs(context: &Context, face: Face, program: &Program) -> anyhow::Result<Outcome> {
    // The libraries of Debian's version lack procedures of later ones.
    let own = context.prefix.join("lib/weft/faces");
    let later: Vec<PathBuf> = match face {
        Face::Mpich => Vec::new(),
        Face::OpenMpi => vec![own.join("libmpi_mpifh.so.40")],
    };
    let source = format!("tests/fortran/{}", program.source);
    let program = compile(context, face, &source, program.options, &later)?;
    Ok(Expected::code(0).says("failures: 0\n").judge(context.mpiexec(2).arg(program).limit(LIMIT_SECONDS).finish()))
}

/// What the program printed for each procedure, for each rank the same.
fn said(run: Run) -> anyhow::Result<BTreeSet<String>> {
    let finished = succeeded(run.limit(LIMIT_SECONDS).finish()?, "the program that calls every procedure")?;
    let calls = finished.output.lines().filter(|line| line.starts_with("MPI_") || line.starts_with("PMPI_"));
    let calls: BTreeSet<String> = calls.map(str::to_owned).collect();
    anyhow::ensure!(
        finished.output.contains("procedures called: "),
        "it did not come to its end:\n{}",
        finished.report()
    );
    Ok(calls)
}

/// Expect: the program that calls every procedure of the other library says the same as the one that
/// Weft's own mpifort made of the same source.
fn answers(context: &Context, face: Face, binding: &str) -> anyhow::Result<Outcome> {
    let place = context.work.join("faces").join(format!("{}-answers", face.word()));
    std::fs::create_dir_all(&place)?;
    let source = generate(context, face, &place)?.join(format!("every_answer_{binding}.f90"));
    let source_text = source.to_string_lossy().into_owned();
    let other = compile(context, face, &source_text, &[], &[])?;
    let own = place.join(format!("own-{binding}"));
    let run = Run::new(context.bin("mpifort")).args(["-fc=gfortran", "-w", "-O0", "-ffree-line-length-none"]);
    let run = run.args(["-fallow-argument-mismatch", "-o"]).arg(&own).arg(&source).directory(&place);
    succeeded(run.limit(COMPILE_LIMIT_SECONDS).finish()?, "compiling with mpifort")?;
    for ranks in [1, 2] {
        let theirs = said(context.mpiexec(ranks).arg(&other))?;
        let standards = said(context.mpiexec(ranks).arg(&own))?;
        anyhow::ensure!(standards.len() >= CALLS_MIN, "{} answers only", standards.len());
        // Classes that not every ABI has are others there.
        let has_another = |line: &str| standards.contains(&format!("{} another class", first_word(line)));
        let differ: Vec<&String> = theirs.symmetric_difference(&standards).filter(|line| !has_another(line)).collect();
        anyhow::ensure!(differ.is_empty(), "{ranks} ranks, by one of both ABIs only: {differ:?}");
    }
    Ok(Outcome::Passed)
}

fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// Makes the programs, with the procedures that Debian's library has.
fn generate(context: &Context, face: Face, place: &Path) -> anyhow::Result<PathBuf> {
    let mut known = String::new();
    for library in face.fortran_libraries() {
        for name in symbols(&face.debian(context).join(library))?.keys() {
            known += name;
            known.push('\n');
        }
    }
    let list = place.join("symbols");
    std::fs::write(&list, known)?;
    let run = Run::new(std::env::current_exe()?).args(["generate", "--fortran-programs"]).arg(place).arg(&list);
    succeeded(run.directory(&context.root).finish()?, "generating the programs")?;
    Ok(place.to_owned())
}
