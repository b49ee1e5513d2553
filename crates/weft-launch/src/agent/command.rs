//! A command that reaches a host, such as ssh, and the pipes to its standard streams. `mpiexec` runs such
//! commands, and agents do for `mpiexec`.

use super::search;
use crate::reach;
use crate::sys::{self, Mask, Spawn};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A command that has been started. The command leads a session and a process group of its own.
pub(crate) struct Command {
    pub(crate) pid: libc::pid_t,
    /// The pipe to its standard input.
    pub(crate) input: File,
    /// The pipe from its standard output.
    pub(crate) output: File,
    /// The pipe from its standard error, which never blocks.
    pub(crate) errors: File,
}

/// Starts the command with these words, in the environment and the directory of this process. `mask` has the
/// signals that are blocked in the command. The command is told to end when this process dies.
///
/// # Errors
/// Half a sentence with the reason.
pub(crate) fn start(words: &[String], mask: &Mask) -> Result<Command, String> {
    let shown = reach::shown(words);
    let failed = |error: io::Error| format!("the command `{shown}` cannot be started: {}", sys::reason(&error));
    let directory = std::env::current_dir().unwrap_or_else(|_| Path::new("/").into());
    let path = std::env::var_os("PATH");
    let first = words.first().map_or("", |word| word.as_str());
    let file = search::find(first.as_bytes(), path.as_deref().map(OsStrExt::as_bytes), &directory)
        .map_err(|why| format!("the command `{shown}` cannot be started: {}", why.reason))?;
    let (child_input, input) = io::pipe().map_err(failed)?;
    let (output, child_output) = io::pipe().map_err(failed)?;
    let (errors, child_errors) = io::pipe().map_err(failed)?;
    let errors = File::from(OwnedFd::from(errors));
    sys::set_nonblocking(&errors).map_err(failed)?;
    let no_zero = |bytes: Vec<u8>| CString::new(bytes).map_err(|error| failed(error.into()));
    let arguments = words.iter().map(|word| no_zero(word.clone().into_bytes())).collect::<Result<Vec<_>, _>>()?;
    let environment = std::env::vars_os().map(|(name, value)| no_zero(join(&name, &value)));
    let spawn = Spawn {
        file: &no_zero(file.into_os_string().into_vec())?,
        arguments: &arguments,
        environment: &environment.collect::<Result<Vec<_>, _>>()?,
        directory: None,
        streams: [child_input.as_raw_fd(), child_output.as_raw_fd(), child_errors.as_raw_fd()],
        keep: &[],
        // An agent that works ends by itself when mpiexec is gone. A command that hangs before must not stay.
        death_signal: libc::SIGTERM,
        mask,
        affinity: &[],
        // A terminal would stop a remote shell that asks a question, and nobody would know why. And the
        // kernel shares processors out among sessions.
        session: true,
    };
    let pid = sys::spawn(&spawn).map_err(|failure| failed(failure.error))?;
    let (input, output) = (File::from(OwnedFd::from(input)), File::from(OwnedFd::from(output)));
    Ok(Command { pid, input, output, errors })
}

fn join(name: &OsStr, value: &OsStr) -> Vec<u8> {
    [name.as_bytes(), b"=", value.as_bytes()].concat()
}
