//! Notices: what a process manager tells a process unasked, of others of its job.

use std::fmt;
use std::io::Read;

/// A notice of a process manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The process of this rank has failed, for this reason.
    Failed {
        /// Its rank in `MPI_COMM_WORLD`.
        rank: u32,
        /// What has become of it: `it …`.
        reason: &'static str,
    },
    /// A process has called `MPI_Abort`, and the process manager leaves it to the others to end.
    Aborted,
    /// The process manager is gone. Nobody would end this process with its job any more.
    ManagerGone,
}

/// The notices of a process manager, in the order in which they come. The iterator waits for each, and ends
/// when this process leaves its job.
pub struct Notices {
    source: Box<dyn Read + Send>,
    /// Reads a record.
    meaning: fn([u8; RECORD_BYTES]) -> Option<Notice>,
}

/// The length of a record of every source.
pub(super) const RECORD_BYTES: usize = 8;

impl Notices {
    /// Notices whose records come from `source`; `meaning` says what each of them means, and `None` for the
    /// last one.
    pub(super) fn new(source: impl Read + Send + 'static, meaning: fn([u8; RECORD_BYTES]) -> Option<Notice>) -> Self {
        Self { source: Box::new(source), meaning }
    }
}

impl Iterator for Notices {
    type Item = Notice;

    fn next(&mut self) -> Option<Notice> {
        let mut record = [0; RECORD_BYTES];
        self.source.read_exact(&mut record).ok()?;
        (self.meaning)(record)
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notices").finish_non_exhaustive()
    }
}
