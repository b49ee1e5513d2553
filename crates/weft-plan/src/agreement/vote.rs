//! What a process brings to an agreement, and what comes of all votes.

use super::Ranks;

/// The vote of a process, of several, or the decision. Votes are joined in any order and any number of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Of these bits, the decision has those that all votes have.
    pub flags: u32,
    /// The decision has the highest of all votes.
    pub highest: u64,
    /// The decision has the lowest of all votes.
    pub lowest: u64,
    /// The processes that have failed. The decision has those that any voter or the coordinator knew.
    pub failed: Ranks,
    /// The failures that the program knows of. The decision has those that are known at all voters.
    pub acknowledged: Ranks,
    /// The first agreement of which the voter has no decision. [`super::Agreements`] fills it in.
    pub open: u32,
}

impl Vote {
    /// A vote with these flags, and neutral otherwise.
    pub fn new(flags: u32) -> Self {
        Self { flags, highest: 0, lowest: u64::MAX, failed: Ranks::new(), acknowledged: Ranks::new(), open: 0 }
    }

    pub(super) fn from_parts(
        [flags, open]: [u32; 2],
        [highest, lowest]: [u64; 2],
        failed: Ranks,
        acknowledged: Ranks,
    ) -> Self {
        Self { flags, highest, lowest, failed, acknowledged, open }
    }

    /// Joins another vote to this one.
    pub(super) fn join(&mut self, other: &Self) {
        self.flags &= other.flags;
        self.highest = self.highest.max(other.highest);
        self.lowest = self.lowest.min(other.lowest);
        self.failed.unite(&other.failed);
        self.acknowledged.intersect(&other.acknowledged);
        self.open = self.open.min(other.open);
    }

    /// Returns whether the program of every voter knows of all failures.
    pub fn is_acknowledged(&self) -> bool {
        self.failed.is_within(&self.acknowledged)
    }
}
