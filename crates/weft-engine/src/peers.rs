//! The processes that can be reached, and ordered sets of them.

use std::sync::Arc;

/// A group: processes of the job in an order (MPI-5.0 §7.2.1).
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    /// Index in the job of each member, by rank.
    pub members: Vec<u32>,
    /// Rank of this process, if it is a member.
    pub rank: Option<u32>,
}

impl Group {
    /// The group of `members`, seen from process `own` of the job.
    pub fn new(members: Vec<u32>, own: u32) -> Arc<Self> {
        let rank = members.iter().position(|member| *member == own).map(|rank| rank as u32);
        Arc::new(Self { members, rank })
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// Rank of process `member` of the job.
    pub fn rank_of(&self, member: u32) -> Option<u32> {
        self.members.iter().position(|candidate| *candidate == member).map(|rank| rank as u32)
    }
}
