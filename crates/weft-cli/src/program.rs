//! The MPI library that a program would load: `weft info PROGRAM`, and `weft run PROGRAM`, which runs it over
//! Weft.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use weft_launch::faces::{self, Faces, LIBRARY_PATH};

use crate::out;

/// The arguments of `weft run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    words: Vec<OsString>,
}

/// The exit code of a shell for a program that cannot be run.
const CANNOT_RUN: u8 = 127;
/// The most bytes of a script's first line.
const FIRST_LINE_MAX: u64 = 256;

/// Runs a program as a job of one process, with Weft's libraries for programs of other MPIs before all
/// others.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let [program, rest @ ..] = &arguments.words[..] else { return ExitCode::from(CANNOT_RUN) };
    let Some(directory) = faces::directory() else {
        out::say!("weft run: this Weft was not installed with `make install`: there is no lib/weft/faces beside it");
        return ExitCode::from(CANNOT_RUN);
    };
    let mut command = Command::new(program);
    command.args(rest);
    if let Some(path) = faces::search_path(std::env::var_os(LIBRARY_PATH).as_deref(), Faces::First, &directory) {
        command.env(LIBRARY_PATH, path);
    }
    // Returns only if the program cannot be run.
    let error = command.exec();
    out::say!("weft run: {} cannot be run: {error}", program.to_string_lossy());
    ExitCode::from(CANNOT_RUN)
}

/// An MPI library's binary interface, for a reader.
fn abi_of(library: &str) -> Option<&'static str> {
    let (stem, version) = library.split_once(".so.")?;
    match (stem, version.split('.').next()?) {
        ("libmpi_abi", _) => Some("the standard's"),
        ("libmpifort_abi", _) => Some("the standard's, for Fortran"),
        ("libmpi" | "libmpich", "12") => Some("MPICH's, which Intel MPI, MVAPICH and Cray MPI have, too"),
        ("libmpifort", "12") => Some("MPICH's, for Fortran"),
        ("libmpicxx", "12") => Some("MPICH's, for C++"),
        ("libmpi", "40") => Some("Open MPI's"),
        ("libmpi_mpifh" | "libmpi_usempif08" | "libmpi_usempi_ignore_tkr", "40") => Some("Open MPI's, for Fortran"),
        ("libmpi_cxx", "40") => Some("Open MPI's, for C++"),
        ("libmpi" | "libmpich", _) => Some("another one, which Weft does not have"),
        _ => None,
    }
}

/// A library in the loader's list: its name, and its file if it was found.
fn listed(line: &str) -> Option<(&str, Option<&str>)> {
    let (name, file) = line.trim().split_once(" => ")?;
    let file = file.split(" (0x").next().unwrap_or_default();
    Some((name, (file != "not found").then_some(file)))
}

/// The interpreter of a script, by its first line.
fn interpreter(first_line: &[u8]) -> Option<OsString> {
    let line = first_line.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let is_env = Path::new(first).file_name() == Some(OsStr::new("env"));
    let named = if is_env { words.find(|word| !word.starts_with('-') && !word.contains('=')) } else { Some(first) };
    named.map(OsString::from)
}

/// The file of a program that is named as in a shell.
fn find(program: &OsStr) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 || Path::new(program).is_absolute() {
        return Path::new(program).is_file().then(|| program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// The name of a program or module as it was given, and the file to look at: that of its interpreter for
/// a script.
fn file_of(program: &OsStr) -> Result<(PathBuf, Option<PathBuf>), String> {
    let name = program.to_string_lossy();
    let file = find(program).ok_or_else(|| format!("there is no program {name}"))?;
    let mut head = Vec::new();
    let opened = std::fs::File::open(&file).map_err(|error| format!("{name} cannot be read: {error}"))?;
    opened.take(FIRST_LINE_MAX).read_to_end(&mut head).map_err(|error| format!("{name} cannot be read: {error}"))?;
    let Some(interpreter) = interpreter(&head) else { return Ok((file, None)) };
    let run_by =
        find(&interpreter).ok_or_else(|| format!("{name} needs {}, which is missing", interpreter.display()))?;
    Ok((file, Some(run_by)))
}

/// Prints which MPI library a program or a shared object wants, and which one it gets from `mpiexec`. The
/// exit code is 0 when all of them are Weft's.
pub(crate) fn info(program: &OsStr) -> ExitCode {
    match page(program) {
        Ok((text, is_wefts)) => {
            out::write(format_args!("{text}"));
            ExitCode::from(u8::from(!is_wefts))
        }
        Err(why) => {
            out::say!("weft info: {why}");
            ExitCode::FAILURE
        }
    }
}

fn page(program: &OsStr) -> Result<(String, bool), String> {
    let (file, run_by) = file_of(program)?;
    let mut text = format!("program   {}\n", file.display());
    if let Some(interpreter) = &run_by {
        text += &format!("run by    {}\n", interpreter.display());
    }
    let target = run_by.unwrap_or(file);
    let directory = faces::directory();
    let mut command = Command::new("ldd");
    command.arg(&target);
    let own = std::env::var_os(LIBRARY_PATH);
    if let Some(path) = directory.as_ref().and_then(|faces| faces::search_path(own.as_deref(), Faces::Last, faces)) {
        command.env(LIBRARY_PATH, path);
    }
    let output = command.output().map_err(|error| format!("ldd, which asks the loader, cannot be run: {error}"))?;
    let list = String::from_utf8_lossy(&output.stdout);
    let real = directory.as_ref().map(|faces| std::fs::canonicalize(faces).unwrap_or_else(|_| faces.clone()));
    let (rows, is_wefts) = rows(&list, real.as_deref());
    Ok((text + &rows, is_wefts))
}

/// A row for each MPI library in the loader's list, and whether all of them are Weft's.
fn rows(list: &str, faces: Option<&Path>) -> (String, bool) {
    let (mut text, mut is_wefts) = (String::new(), true);
    let prefix = faces.and_then(|faces| faces.ancestors().nth(2));
    for (name, file) in list.lines().filter_map(listed) {
        let Some(abi) = abi_of(name) else { continue };
        let file = file.map(|file| std::fs::canonicalize(file).unwrap_or_else(|_| file.into()));
        let is_face = file.as_ref().is_some_and(|file| faces.is_some_and(|faces| file.starts_with(faces)));
        let is_own = file.as_ref().is_some_and(|file| prefix.is_some() && file.parent() == prefix);
        is_wefts &= is_face || is_own;
        let verdict = match file {
            None => "which is nowhere: mpiexec cannot start the program".to_owned(),
            Some(file) if is_face || is_own => format!("{}, Weft's", file.display()),
            Some(file) => format!("{}, not Weft's; `mpiexec --faces` takes Weft's if there is one", file.display()),
        };
        text += &format!("ABI       {abi}\nloads     {name}: {verdict}\n");
    }
    if text.is_empty() {
        text += "ABI       none: it names no MPI library itself, but may load one later, as Python does\n";
    }
    (text, is_wefts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        assert_eq!(abi_of("libmpi.so.40"), Some("Open MPI's"));
        assert_eq!(abi_of("libmpich.so.12"), abi_of("libmpi.so.12"));
        assert!(abi_of("libmpi.so.12").unwrap().starts_with("MPICH's"));
        assert_eq!(abi_of("libmpi_abi.so.1"), Some("the standard's"));
        assert!(abi_of("libmpi.so.20").unwrap().contains("does not have"));
        assert_eq!(abi_of("libm.so.6"), None);
    }

    #[test]
    fn the_loaders_list_is_judged() {
        let faces = Path::new("/w/lib/weft/faces");
        let weft = "\tlibmpi.so.12 => /w/lib/weft/faces/libmpi.so.12 (0x00007f)\n\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\
                    \tlibmpi_abi.so.1 => /w/lib/libmpi_abi.so.1 (0x2)\n";
        let (text, is_wefts) = rows(weft, Some(faces));
        assert!(is_wefts && text.matches("Weft's\n").count() == 2, "{text}");
        let (text, is_wefts) = rows("libmpi.so.40 => /usr/lib/libmpi.so.40 (0x1)", Some(faces));
        assert!(!is_wefts && text.contains("--faces"), "{text}");
        let (text, is_wefts) = rows("libmpifort.so.12 => not found", Some(faces));
        assert!(!is_wefts && text.contains("nowhere"), "{text}");
        assert!(rows("libc.so.6 => /lib/libc.so.6 (0x1)", Some(faces)).0.contains("none"));
    }

    #[test]
    fn scripts_have_interpreters() {
        assert_eq!(interpreter(b"#!/bin/sh -e\nls\n").as_deref(), Some(OsStr::new("/bin/sh")));
        assert_eq!(interpreter(b"#! /usr/bin/env -S python3 -u\n").as_deref(), Some(OsStr::new("python3")));
        assert_eq!(interpreter(b"\x7fELF"), None);
    }
}
