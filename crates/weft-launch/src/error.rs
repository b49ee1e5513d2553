//! The errors of a process that joins its job, one sentence each.

use std::fmt;

/// The reason why a process could not join its job, or why the job's launcher no longer answers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchError {
    /// A launcher started several tasks but offers no way for them to find each other.
    NoProcessManager {
        /// The launcher, as its variables show it.
        launcher: &'static str,
        /// The number of tasks that it started, if it says so.
        tasks: Option<u64>,
        /// The command to type instead.
        advice: &'static str,
    },
    /// A variable of the launcher holds something that cannot be used.
    Environment(String),
    /// The launcher closed the connection: it ended or was killed.
    Gone,
    /// The connection to the launcher failed.
    Connection(String),
    /// The launcher refused a request.
    Refused {
        /// The request, by its PMI name.
        request: &'static str,
        /// The launcher's reason.
        reason: String,
    },
    /// The process manager starts no further processes: half a sentence that names it.
    CannotSpawn(String),
    /// The launcher answered with something that is not PMI-1.1.
    Protocol(String),
    /// A key or a value is longer than the launcher accepts.
    TooLong {
        /// The name of the text that is too long.
        what: &'static str,
        /// The length in bytes after encoding.
        length: usize,
        /// The longest length that is accepted, in bytes.
        limit: usize,
    },
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcessManager { launcher, tasks, advice } => {
                let tasks = tasks.map_or_else(|| "this task".to_string(), |tasks| format!("{tasks} tasks"));
                write!(f, "{launcher} started {tasks} but offers no PMI-1 for tasks to find each other; {advice}")
            }
            Self::Environment(text) | Self::CannotSpawn(text) | Self::Connection(text) | Self::Protocol(text) => {
                f.write_str(text)
            }
            Self::Gone => f.write_str("the launcher of this job (mpiexec) is gone"),
            Self::Refused { request, reason } => write!(f, "the launcher refused the request {request}: {reason}"),
            Self::TooLong { what, length, limit } => {
                write!(f, "{what} is {length} bytes long, the launcher accepts {limit}")
            }
        }
    }
}

impl std::error::Error for LaunchError {}
