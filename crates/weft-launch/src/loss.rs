//! The loss of a rank while the others go on: what has become of it, and how they are told.
//!
//! The agent of a host gives each of its ranks a pipe and writes a record to it for each lost rank of the
//! job. `mpiexec` tells the agents of the other hosts. The ranks read the records as [`crate::Notices`].

use crate::control::{Loss, Phase, Position};
use crate::sys::Ended;

/// The variable that names the descriptor from which a rank reads the records. `mpiexec` started in a rank
/// removes it with all others that begin like it.
pub(crate) const NOTICES_VARIABLE: &str = "PMI_NOTICES_FD";

/// The length of a record: the loss and the rank, four bytes each.
pub(crate) const RECORD_BYTES: usize = 8;

impl Loss {
    const ALL: [Self; 4] = [Self::Signal, Self::Status, Self::Unfinalized, Self::Host];

    /// The loss that the end of a rank is; `None`: the others need it no more, or it never was one of them.
    pub(crate) fn of(position: &Position, ended: Ended) -> Option<Self> {
        match (ended, position.phase) {
            (_, Phase::Finalized) => None,
            (Ended::Signal(_), _) => Some(Self::Signal),
            (Ended::Exit(0), Phase::Joined | Phase::Waiting) => Some(Self::Unfinalized),
            (Ended::Exit(0), Phase::Silent) => None,
            (Ended::Exit(_), _) => Some(Self::Status),
        }
    }

    /// The reason why the rank cannot be reached.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Signal => "it was ended by a signal",
            Self::Status => "it ended with an exit code that is not 0",
            Self::Unfinalized => "it ended without MPI_Finalize",
            Self::Host => "its host does not answer",
        }
    }

    /// The record that tells of the loss of `rank`.
    pub(crate) fn record(self, rank: u32) -> [u8; RECORD_BYTES] {
        let code = Self::ALL.iter().position(|other| *other == self).expect("all are listed") as u64 + 1;
        (code | u64::from(rank) << 32).to_le_bytes()
    }

    /// Reads a record; `None`: it is none.
    pub(crate) fn parse(record: [u8; RECORD_BYTES]) -> Option<(Self, u32)> {
        let word = u64::from_le_bytes(record);
        let loss = (word as u32).checked_sub(1).and_then(|index| Self::ALL.get(index as usize))?;
        Some((*loss, (word >> 32) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_site::Whereabouts;

    #[test]
    fn records_say_which_rank_and_what_has_become_of_it() {
        for loss in Loss::ALL {
            assert_eq!(Loss::parse(loss.record(70_000)), Some((loss, 70_000)));
        }
        assert_eq!((Loss::parse([0; 8]), Loss::parse([9; 8])), (None, None));
    }

    #[test]
    fn a_rank_is_lost_unless_it_has_finalized_or_never_joined_and_ended_well() {
        let of = |phase, ended| Loss::of(&Position { rank: 1, phase, whereabouts: Whereabouts::Unknown }, ended);
        assert_eq!(of(Phase::Joined, Ended::Signal(9)), Some(Loss::Signal));
        assert_eq!(of(Phase::Silent, Ended::Signal(9)), Some(Loss::Signal));
        assert_eq!(of(Phase::Waiting, Ended::Exit(0)), Some(Loss::Unfinalized));
        assert_eq!(of(Phase::Joined, Ended::Exit(3)), Some(Loss::Status));
        assert_eq!(of(Phase::Silent, Ended::Exit(0)), None);
        assert_eq!(of(Phase::Finalized, Ended::Exit(3)), None);
        assert_eq!(of(Phase::Finalized, Ended::Signal(9)), None);
    }
}
