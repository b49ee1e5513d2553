//! Errors while a link is set up. On the data path errors are counted, or reported as typed faults, instead.

use std::fmt;
use std::io;

/// The error of a link that could not be set up. The text is a sentence for the user: what was tried, on
/// what, and why it failed.
#[derive(Debug)]
pub enum Error {
    /// A system call failed; `what` names the operation and the object.
    System {
        /// The operation and its object, e.g. "create the shared segment /dev/shm/weft-…".
        what: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A value that the caller or the user gave makes no sense.
    Invalid(String),
    /// No directory can hold the shared segment, or no interface can carry packets. The text names every
    /// candidate with its reason.
    Unavailable(String),
    /// The other processes of this node did not appear in time, or what they left there is not this job's.
    Peer(String),
}

impl Error {
    pub(crate) fn system(what: impl Into<String>, cause: io::Error) -> Self {
        Self::System { what: what.into(), cause }
    }
}

/// Returns the system's words for an error, and what to do about a limit of open files.
pub fn reason(cause: &io::Error) -> String {
    match cause.raw_os_error() {
        Some(libc::EMFILE) => {
            format!("{cause}: `ulimit -n` says how many a process may have, and `ulimit -n NUMBER` raises it")
        }
        Some(libc::ENFILE) => format!("{cause}: the whole machine has no more, see /proc/sys/fs/file-max"),
        Some(libc::EFBIG) => {
            format!(
                "{cause}: `ulimit -f` says how large a file may be, one in memory too; `ulimit -f unlimited` raises it"
            )
        }
        _ => cause.to_string(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { what, cause } => write!(f, "cannot {what}: {}", reason(cause)),
            Self::Invalid(why) | Self::Unavailable(why) | Self::Peer(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_open_files_comes_with_what_to_do() {
        let error = |code| Error::system("make a doorbell", io::Error::from_raw_os_error(code)).to_string();
        assert!(
            error(libc::EMFILE).starts_with("cannot make a doorbell: ") && error(libc::EMFILE).contains("`ulimit -n`")
        );
        assert!(error(libc::ENFILE).contains("/proc/sys/fs/file-max"));
        assert!(!error(libc::EACCES).contains("ulimit"));
    }
}
