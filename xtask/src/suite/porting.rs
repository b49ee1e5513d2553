//! Tests of the parts that others' programs and their configure scripts look for: the compiler wrappers in
//! every dialect, pkg-config, `mpi.h`.

use super::Case;
use super::context::{Context, Expected};
use super::process::Run;

/// Questions to `mpicc`, with parts of the answers. `PREFIX` is the installation's prefix.
const QUESTIONS: &[(&[&str], &[&str])] = &[
    // MPICH and Intel MPI.
    (&["-show"], &["mine -IPREFIX/include -LPREFIX/lib", "-lmpi_abi"]),
    (&["-show", "-c", "a.c"], &["mine -IPREFIX/include -c a.c\n"]),
    (&["-compile_info"], &["mine -IPREFIX/include -c\n"]),
    (&["-compile-info"], &["mine -IPREFIX/include -c\n"]),
    (&["-link_info"], &["-LPREFIX/lib", "-lmpi_abi"]),
    (&["-link-info"], &["-LPREFIX/lib", "-lmpi_abi"]),
    (&["-profile=mpiP", "-show", "a.o"], &["a.o -lmpiP -LPREFIX/lib"]),
    (&["-mt_mpi", "-show", "-c", "a.c"], &["mine -IPREFIX/include -c a.c\n"]),
    (&["-help"], &["-profile=NAME"]),
    // Open MPI.
    (&["--showme"], &["mine -IPREFIX/include"]),
    (&["-showme"], &["mine -IPREFIX/include"]),
    (&["-showme:compile"], &["-IPREFIX/include\n"]),
    (&["--showme:compile"], &["-IPREFIX/include\n"]),
    (&["-showme:link"], &["-LPREFIX/lib", "-lmpi_abi\n"]),
    (&["-showme:incdirs"], &["PREFIX/include\n"]),
    (&["-showme:libdirs"], &["PREFIX/lib\n"]),
    (&["-showme:libs"], &["mpi_abi\n"]),
    (&["-showme:command"], &["mine\n"]),
    (&["-showme:version"], &["mpicc: Weft"]),
    (&["-showme:help"], &["--showme:command"]),
    // The compiler's own.
    (&["--version"], &["mine --version\n"]),
    (&["-v"], &["mine -v\n"]),
    (&["-dumpmachine"], &["mine -dumpmachine\n"]),
];

/// The variables by which each library names the compiler behind its wrapper, in C and in C++.
const COMPILER_VARIABLES: &[(&str, &str)] =
    &[("WEFT_CC", "WEFT_CXX"), ("MPICH_CC", "MPICH_CXX"), ("OMPI_CC", "OMPI_CXX"), ("I_MPI_CC", "I_MPI_CXX")];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    vec![
        Case::new("mpi.h: Fortran's handles and statuses, the names of MPI-1; 2 ranks", |context| {
            let run = || Ok(context.mpiexec(2).arg(context.compile("tests/c/porting.c")?));
            Expected::code(0).judge(run().and_then(|run| run.limit(60).finish()))
        }),
        Case::new("mpicc answers what the scripts of every library ask", questions),
        Case::new("mpicc and mpicxx use the compiler that any library's variable names", compilers),
        Case::new("pkg-config knows Weft by the names that others ask for", pkg_config),
    ]
}

/// Makes a compiler that prints how it was called.
fn speaking_compiler(context: &Context, name: &str) -> anyhow::Result<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = context.work.join("compilers");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\necho {name} \"$@\"\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(directory.to_string_lossy().into_owned())
}

fn with_path(run: Run, directory: &str) -> Run {
    let path = std::env::var("PATH").unwrap_or_default();
    run.env("PATH", format!("{directory}:{path}"))
}

fn questions(context: &Context) -> anyhow::Result<()> {
    let prefix = std::fs::canonicalize(&context.prefix)?.to_string_lossy().into_owned();
    let directory = speaking_compiler(context, "mine")?;
    for (question, answers) in QUESTIONS {
        let run = Run::new(context.bin("mpicc")).arg("-cc=mine").args(*question);
        let finished = with_path(run, &directory).finish()?;
        anyhow::ensure!(finished.code == Some(0), "mpicc {question:?} failed:\n{}", finished.report());
        for answer in *answers {
            let answer = answer.replace("PREFIX", &prefix);
            anyhow::ensure!(
                finished.output.contains(&answer),
                "mpicc {question:?}: no {answer:?}\n{}",
                finished.report()
            );
        }
    }
    let refused = Run::new(context.bin("mpicc")).arg("-showme:weather").finish()?;
    anyhow::ensure!(refused.code == Some(2), "an unknown question is accepted:\n{}", refused.report());
    Ok(())
}

fn compilers(context: &Context) -> anyhow::Result<()> {
    let directory = speaking_compiler(context, "mine")?;
    let ask = |wrapper: &str, set: &dyn Fn(Run) -> Run| -> anyhow::Result<()> {
        let finished = with_path(set(Run::new(context.bin(wrapper))), &directory).arg("--version").finish()?;
        anyhow::ensure!(finished.output == "mine --version\n", "{wrapper} did not use it:\n{}", finished.report());
        Ok(())
    };
    for (c, cxx) in COMPILER_VARIABLES {
        ask("mpicc", &|run| run.env(c, "mine"))?;
        ask("mpicxx", &|run| run.env(cxx, "mine"))?;
    }
    for option in ["-cxx=mine", "-CC=mine"] {
        ask("mpicxx", &|run| run.arg(option))?;
    }
    ask("mpicc", &|run| run.arg("-cc=mine").env("MPICH_CC", "another"))
}

fn pkg_config(context: &Context) -> anyhow::Result<()> {
    let library = context.prefix.join("lib");
    for name in ["weft", "mpi", "mpi-c", "mpi-cxx", "mpich"] {
        let run = Run::new("pkg-config").args(["--cflags", "--libs", name]);
        let finished = run.env("PKG_CONFIG_PATH", library.join("pkgconfig")).finish()?;
        anyhow::ensure!(finished.code == Some(0), "pkg-config {name} failed:\n{}", finished.report());
        anyhow::ensure!(finished.output.contains("-lmpi_abi"), "{name}:\n{}", finished.report());
    }
    Ok(())
}
