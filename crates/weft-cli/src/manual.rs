//! `weft manual DIRECTORY`: writes the pages for man(1) and the completion for shells below `share`.
//! Installing runs it.
//!
//! Every page is made from the table by which the program reads its command line or its settings: clap's for
//! `weft`, that of `mpiexec --help`, and that of `weft info` for weft.conf(5).

mod completion;
mod page;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;

use crate::out;

/// The arguments of `weft manual`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The directory that gets man/man1, man/man5 and the files of shells: PREFIX/share
    directory: PathBuf,
}

/// Writes everything below the directory. `command` is the command line of `weft`.
pub(crate) fn run(options: &Options, command: Command) -> ExitCode {
    let written = files(command)
        .and_then(|files| files.into_iter().try_for_each(|(path, text)| write(&options.directory.join(path), &text)));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::say!("weft manual: {} cannot be written: {error}", options.directory.display());
            ExitCode::FAILURE
        }
    }
}

/// All files with their paths.
fn files(command: Command) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = page::of_weft(&command)?;
    files.push(("man/man1/mpiexec.1".into(), page::of_mpiexec().into_bytes()));
    files.push(("man/man5/weft.conf.5".into(), page::of_settings().into_bytes()));
    files.extend(completion::all(command));
    Ok(files)
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    std::fs::write(path, text)
}
