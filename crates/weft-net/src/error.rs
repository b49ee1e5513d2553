//! What can go wrong while a link is set up. On the data path errors are counted, or reported as typed faults, instead.

use std::fmt;
use std::io;

/// A link could not be set up. The text is one sentence for the user: what was tried, on what, and why it failed.
#[derive(Debug)]
pub enum Error {
    /// A system call failed; `what` names the operation and the object.
    System {
        /// The operation and its object, e.g. "create the shared segment /dev/shm/weft-…".
        what: String,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A value that the caller or the user gave makes no sense.
    Invalid(String),
    /// No directory can hold the shared segment, or no interface can carry packets; every candidate is named with its reason.
    Unavailable(String),
    /// The other processes of this node did not appear in time, or what they left there is not ours.
    Peer(String),
}

impl Error {
    pub(crate) fn system(what: impl Into<String>, cause: io::Error) -> Self {
        Self::System { what: what.into(), cause }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { what, cause } if cause.raw_os_error() == Some(libc::EMFILE) => {
                write!(
                    f,
                    "cannot {what}: {cause}: `ulimit -n` says how many a process may have, and `ulimit -n NUMBER` raises it"
                )
            }
            Self::System { what, cause } => write!(f, "cannot {what}: {cause}"),
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
