//! Names of the processes that can be reached, and ordered sets of them.
//!
//! All rooms of the engine name processes by a [`PeerId`]; communicators, windows and collectives have a
//! [`Group`].

use std::sync::Arc;

/// A process that this one knows, as an index into the table of peers (`crate::peers`).
///
/// The index is not the process's rank in any communicator: processes that are spawned or accepted later have
/// one as well. A removed peer leaves its index to another peer, with a new generation. So an old name that
/// is still held leads nowhere, until 256 peers have had the index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(u32);

/// The bits of a [`PeerId`] that are the index; the bits above are the generation.
const INDEX_BITS: u32 = 24;

/// The most peers that one process can know at a time.
pub const PEERS_MAX: usize = 1 << INDEX_BITS;

impl PeerId {
    /// The peer at `index` in its `generation`.
    ///
    /// # Panics
    /// When the index is [`PEERS_MAX`] or more.
    pub fn new(index: usize, generation: u8) -> Self {
        assert!(index < PEERS_MAX);
        Self(index as u32 | u32::from(generation) << INDEX_BITS)
    }

    /// The first peer: this process.
    pub const FIRST: Self = Self(0);

    /// The name of the next peer at this index.
    pub(crate) fn next_generation(self) -> Self {
        Self(self.0.wrapping_add(1 << INDEX_BITS))
    }

    /// The peer's index in the table.
    #[inline(always)]
    pub fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }

    /// The peer's generation among those that have had its index.
    #[inline(always)]
    pub fn generation(self) -> u8 {
        (self.0 >> INDEX_BITS) as u8
    }
}

impl std::fmt::Debug for PeerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "peer {}.{}", self.index(), self.generation())
    }
}

/// A group: processes in an order (MPI-5.0 §7.2.1).
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    /// Each member, by rank.
    pub members: Vec<PeerId>,
    /// Rank of this process, if it is a member.
    pub rank: Option<u32>,
    /// Handle of the session of the group (MPI-5.0 §11.3); `None`: the group is from the World Model, or
    /// empty.
    pub session: Option<usize>,
}

impl Group {
    /// The group of `members`, seen from process `own`.
    pub fn new(members: Vec<PeerId>, own: PeerId) -> Arc<Self> {
        Self::of_session(members, own, None)
    }

    /// The group of `members`, seen from process `own`, of `session`.
    pub fn of_session(members: Vec<PeerId>, own: PeerId, session: Option<usize>) -> Arc<Self> {
        let rank = members.iter().position(|member| *member == own).map(|rank| rank as u32);
        Arc::new(Self { members, rank, session })
    }

    /// Makes a group of `members` from this one, with the same session.
    pub fn derive(&self, members: Vec<PeerId>, own: PeerId) -> Arc<Self> {
        Self::of_session(members, own, self.session)
    }

    /// The members of these ranks, in this order, as a group with the same session.
    pub fn of_ranks(&self, ranks: &[u32]) -> Arc<Self> {
        let members = ranks.iter().map(|rank| self.members[*rank as usize]).collect();
        let rank = self.rank.and_then(|own| ranks.iter().position(|rank| *rank == own)).map(|rank| rank as u32);
        Arc::new(Self { members, rank, session: self.session })
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// Rank of process `member`.
    pub fn rank_of(&self, member: PeerId) -> Option<u32> {
        self.members.iter().position(|candidate| *candidate == member).map(|rank| rank as u32)
    }

    /// The rank of each of `members`.
    ///
    /// # Errors
    /// The index in `members` of the first that is not in this group.
    pub fn ranks_of(&self, members: &[PeerId]) -> Result<Vec<u32>, usize> {
        let mut known: Vec<(PeerId, u32)> = self.members.iter().copied().zip(0..).collect();
        weft_ordered::sort(&mut known);
        let rank = |member: &PeerId| known.binary_search_by_key(member, |(known, _)| *known).ok().map(|at| known[at].1);
        members.iter().enumerate().map(|(index, member)| rank(member).ok_or(index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_in_any_order() {
        let peer = |index| PeerId::new(index, 0);
        let group = Group::new([5, 2, 9].map(peer).to_vec(), peer(9));
        assert_eq!(group.rank, Some(2));
        assert_eq!(group.ranks_of(&[9, 5].map(peer)), Ok(vec![2, 0]));
        assert_eq!(group.ranks_of(&[]), Ok(vec![]));
        assert_eq!(group.ranks_of(&[2, 7, 8].map(peer)), Err(1));
        // The index in the table is the same, but the process is another one.
        assert_eq!(group.ranks_of(&[PeerId::new(5, 1)]), Err(0));
        let part = group.of_ranks(&[2, 0]);
        assert_eq!((&part.members[..], part.rank), (&[9, 5].map(peer)[..], Some(0)));
        assert_eq!(group.of_ranks(&[1]).rank, None);
    }
}
