//! The `mpiexec` that a singleton starts when it spawns for the first time, and that serves it from then on.

use crate::manager::link::Link;
use crate::manager::pmi1::Conversation;
use crate::mpiexec::SINGLETON_OPTION;
use crate::{LaunchError, MPIEXEC_NAMES, sys};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Where the program is, seen from the directory of the library: beside `lib`, and beside a directory in it.
const FROM_LIBRARY: [&str; 3] = ["../bin", "../../bin", "../../../bin"];

/// The files that may be the program, the best first: those beside the library in `own_file`, then those of
/// `PATH`.
fn candidates(own_file: Option<&Path>, path: Option<&str>) -> Vec<PathBuf> {
    let directory = own_file.and_then(Path::parent);
    let beside = directory.into_iter().flat_map(|directory| FROM_LIBRARY.map(|way| directory.join(way)));
    let listed = path.into_iter().flat_map(std::env::split_paths).filter(|entry| entry.is_absolute());
    beside.chain(listed).flat_map(|directory| MPIEXEC_NAMES.map(|name| directory.join(name))).collect()
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Starts the program, and begins to talk to it.
///
/// # Errors
/// It is not found, cannot be started, or is the program of another MPI library.
pub(super) fn start() -> Result<Conversation, LaunchError> {
    let own_file = sys::own_file().map(PathBuf::from).and_then(|file| file.canonicalize().ok());
    let path = std::env::var("PATH").ok();
    let found = candidates(own_file.as_deref(), path.as_deref()).into_iter().find(|file| is_program(file));
    let program = found.ok_or_else(|| {
        LaunchError::CannotSpawn(format!(
            "no mpiexec, which would start the processes, is beside the library{} or in PATH: start the program with \
             Weft's mpiexec, or add the directory of that mpiexec to PATH",
            own_file.as_deref().map_or_else(String::new, |file| format!(" {}", file.display()))
        ))
    })?;
    let failed = |error: std::io::Error| {
        LaunchError::CannotSpawn(format!("{} cannot be started: {}", program.display(), sys::reason(&error)))
    };
    let (own, other) = UnixStream::pair().map_err(failed)?;
    sys::pass_on(&other).map_err(failed)?;
    let argument = format!("{SINGLETON_OPTION}={}:{}", other.as_raw_fd(), std::process::id());
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| failed(std::io::ErrorKind::InvalidInput.into()));
    let (file, argument) = (text(program.as_os_str().as_bytes())?, text(argument.as_bytes())?);
    let child = sys::start(&file, &argument).map_err(failed)?;
    drop(other);
    // It goes on as a process of its own and ends at once as a child of this one. Where the program waits for
    // children itself, the end of this one may be known already.
    sys::wait(child);
    let foreign = || {
        LaunchError::CannotSpawn(format!(
            "{} is not the mpiexec of this Weft: put the directory of that one first in PATH",
            program.display()
        ))
    };
    match Conversation::begin(Link::over(File::from(OwnedFd::from(own)))) {
        Ok((talk, true)) => Ok(talk),
        Ok((_, false)) | Err(LaunchError::Gone) => Err(foreign()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_beside_the_library_comes_first() {
        let files = candidates(Some(Path::new("/opt/weft/lib/libmpi_abi.so.1")), Some("/usr/bin:relative:/bin"));
        let shown: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        let expected = [
            "/opt/weft/lib/../bin/mpiexec.weft",
            "/opt/weft/lib/../bin/mpiexec",
            "/opt/weft/lib/../../bin/mpiexec.weft",
            "/opt/weft/lib/../../bin/mpiexec",
            "/opt/weft/lib/../../../bin/mpiexec.weft",
            "/opt/weft/lib/../../../bin/mpiexec",
            "/usr/bin/mpiexec.weft",
            "/usr/bin/mpiexec",
            "/bin/mpiexec.weft",
            "/bin/mpiexec",
        ];
        assert_eq!(shown, expected);
        assert_eq!(candidates(None, None), Vec::<PathBuf>::new());
    }

    #[test]
    fn the_file_of_this_code_is_known() {
        let own = sys::own_file().expect("a program is a file");
        assert_eq!(Path::new(&own).canonicalize().expect("it runs"), std::env::current_exe().expect("it runs"));
    }
}
