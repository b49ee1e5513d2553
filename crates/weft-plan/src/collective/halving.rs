//! Reduce-scatter by recursive halving and its reverse (Rabenseifner, 2004), for any number of ranks and in
//! rank order.
//!
//! Some neighbouring ranks are first *folded* together, so that a power of two *members* remain whose
//! contributions are in the order of ranks. Then in each round a member exchanges half of the part that it
//! still has with a partner.
//!
//! Members stand at *positions*; the vector is cut into a part for each position. Partners differ in one bit
//! of the position, the highest bit first. Where positions are bit-reversed member numbers, partners are the
//! nearest members first. Then groups that are combined are always adjacent, so operands stay in rank order.
//! The largest messages go to the nearest ranks, often on the same host.

use super::plan::{Fold, Plan, Vector};

/// The ranks that are members.
#[derive(Clone, Copy)]
pub(super) struct Members {
    /// Number of members: the largest power of two that is not above the number of ranks.
    pub(super) count: u32,
    /// Number of pairs of ranks `(2i, 2i + 1)` that make one member, from rank 0 on; every other rank is a
    /// member by itself.
    pairs: u32,
    /// The rank that stays as the member of its pair; in other pairs the even rank does.
    favoured: Option<u32>,
}

/// The role of a rank.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// The rank gives its contribution to `keeper`.
    Folded {
        /// The rank that stays.
        keeper: u32,
    },
    /// The rank stays, with the contribution of `folded` if there is one.
    Member {
        /// Member number.
        index: u32,
        /// The rank that is folded into the member, if any.
        folded: Option<u32>,
    },
}

impl Members {
    pub(super) fn new(size: u32, favoured: Option<u32>) -> Self {
        let count = 1 << size.ilog2();
        Self { count, pairs: size - count, favoured }
    }

    pub(super) fn role(self, rank: u32) -> Role {
        if rank >= 2 * self.pairs {
            return Role::Member { index: rank - self.pairs, folded: None };
        }
        let keeper = self.rank(rank / 2);
        if keeper == rank { Role::Member { index: rank / 2, folded: Some(rank ^ 1) } } else { Role::Folded { keeper } }
    }

    /// The rank of a member.
    pub(super) fn rank(self, index: u32) -> u32 {
        if index >= self.pairs {
            return index + self.pairs;
        }
        match self.favoured {
            Some(favoured) if favoured == 2 * index + 1 => favoured,
            _ => 2 * index,
        }
    }

    /// The first rank whose contribution member `index` has; the last is before that of member `index + 1`.
    pub(super) fn first_rank(self, index: u32) -> u32 {
        if index >= self.pairs { index + self.pairs } else { 2 * index }
    }

    /// Rounds of an exchange in which each member meets half of the rest.
    pub(super) fn levels(self) -> u32 {
        self.count.trailing_zeros()
    }

    /// The member at a bit-reversed position, and the position of a member (it is its own inverse).
    pub(super) fn reversed(self, number: u32) -> u32 {
        if self.count == 1 { 0 } else { number.reverse_bits() >> (u32::BITS - self.levels()) }
    }
}

/// The positions of members, seen from one of them, and the cuts of the vector.
pub(super) struct Exchange<'a> {
    pub(super) members: Members,
    /// Rank of this process.
    pub(super) rank: u32,
    /// Position of this member.
    pub(super) position: u32,
    /// Member at a position.
    pub(super) member_at: &'a dyn Fn(u32) -> u32,
    /// First item of the part of a position; `cut(count)` is the end of the vector.
    pub(super) cut: &'a dyn Fn(u32) -> u64,
}

impl Exchange<'_> {
    /// Plans rounds of halving until this member has the result for its own part.
    pub(super) fn halve(&self, plan: &mut Plan, fold: &mut Fold) {
        for level in (0..self.members.levels()).rev() {
            let (partner, mine, theirs) = self.partner(level);
            plan.send(partner, fold.value().part(theirs));
            plan.receive(partner, fold.incoming().part(mine.clone()));
            fold.absorb(plan, partner, self.rank, mine);
        }
    }

    /// Plans the reverse of halving: from the part of each member to all parts.
    pub(super) fn double(&self, plan: &mut Plan, vector: Vector) {
        for level in 0..self.members.levels() {
            let (partner, mine, theirs) = self.partner(level);
            plan.send(partner, vector.part(mine));
            plan.receive(partner, vector.part(theirs));
        }
    }

    /// Plans the reverse of halving, but only the member at position `root` gets all parts.
    pub(super) fn gather(&self, plan: &mut Plan, vector: Vector, root: u32) {
        for level in 0..self.members.levels() {
            let (partner, mine, theirs) = self.partner(level);
            if (self.position ^ root) >> level & 1 == 1 {
                plan.send(partner, vector.part(mine));
                return;
            }
            plan.receive(partner, vector.part(theirs));
        }
    }

    /// The number of partners that come after this rank, for [`Fold::new`].
    pub(super) fn partners_above(&self) -> usize {
        (0..self.members.levels()).filter(|&level| self.partner(level).0 > self.rank).count()
    }

    /// The range of items of this member's part.
    pub(super) fn own_part(&self) -> core::ops::Range<u64> {
        (self.cut)(self.position)..(self.cut)(self.position + 1)
    }

    /// Rank of the partner at a level, and the parts that this side and the other side have below it.
    fn partner(&self, level: u32) -> (u32, core::ops::Range<u64>, core::ops::Range<u64>) {
        let width = 1 << level;
        let side = |position: u32| {
            let first = position & !(width - 1);
            (self.cut)(first)..(self.cut)(first + width)
        };
        let other = self.position ^ width;
        (self.members.rank((self.member_at)(other)), side(self.position), side(other))
    }
}
