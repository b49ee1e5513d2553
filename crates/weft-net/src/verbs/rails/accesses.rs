//! Accesses to memory of peers, and the stripes of each that are under way. An access is complete when its
//! last stripe is over.

use std::collections::VecDeque;
use std::ops::Range;

use weft_core::time::Instant;
use weft_engine::memory::UserData;
use weft_engine::regions::AccessKind;

use crate::carrier::RemoteMemory;

/// An access that the engine has asked for.
pub(super) struct RmaOperation {
    /// The number by which the engine knows the access.
    pub(super) number: u64,
    pub(super) peer: usize,
    pub(super) kind: AccessKind,
    /// The program's memory, and the place in it where the access begins.
    pub(super) data: UserData,
    pub(super) start: u64,
    pub(super) target: RemoteMemory,
    /// Stripes that are not over.
    left: u32,
}

/// The phase of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The rail has it.
    Moving,
    /// The stripe has been written, and the rail reads behind it to show that it is in place.
    Proving,
    /// The stripe waits for a rail to take it.
    Waiting,
    /// The stripe waits for its rail to read behind it.
    WaitingToProve,
    /// The stripe's rail has failed. A write may still arrive, until the peer has dropped its end.
    Stranded,
}

/// A stripe: a part of an access.
pub(super) struct Stripe {
    pub(super) access: usize,
    /// The bytes of the access that the stripe has.
    pub(super) range: Range<u64>,
    /// The peer's path that has the stripe.
    pub(super) path: usize,
    pub(super) phase: Phase,
    /// Time at which the path got the stripe, if the link watches how long it takes.
    pub(super) since: Option<Instant>,
}

/// Entries whose places are used again. A number that outlives its entry is recognized.
struct Table<T> {
    entries: Vec<(u32, Option<T>)>,
    free: Vec<usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    fn insert(&mut self, value: T) -> usize {
        if let Some(index) = self.free.pop() {
            self.entries[index].1 = Some(value);
            return index;
        }
        self.entries.push((0, Some(value)));
        self.entries.len() - 1
    }

    fn get(&self, index: usize) -> Option<&T> {
        self.entries.get(index)?.1.as_ref()
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.entries.get_mut(index)?.1.as_mut()
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        let (uses, value) = self.entries.get_mut(index)?;
        let value = value.take()?;
        *uses = uses.wrapping_add(1);
        self.free.push(index);
        Some(value)
    }

    /// Returns the number of the entry at this index.
    fn number(&self, index: usize) -> u64 {
        u64::from(self.entries[index].0) << 32 | index as u64
    }

    /// Returns the index of the entry with this number, if the entry is still there.
    fn index(&self, number: u64) -> Option<usize> {
        let index = number as u32 as usize;
        self.entries
            .get(index)
            .filter(|(uses, value)| u64::from(*uses) == number >> 32 && value.is_some())
            .map(|_| index)
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    fn indices(&self) -> Range<usize> {
        0..self.entries.len()
    }
}

/// All accesses and their stripes.
#[derive(Default)]
pub(super) struct Accesses {
    accesses: Table<RmaOperation>,
    stripes: Table<Stripe>,
    /// Numbers of the stripes that wait for a rail to take them, or for their rail to read behind them.
    waiting: VecDeque<u64>,
    done: VecDeque<u64>,
}

impl Accesses {
    /// Begins an access without stripes.
    pub(super) fn open(
        &mut self,
        (number, peer): (u64, usize),
        kind: AccessKind,
        (data, start): (UserData, u64),
        target: RemoteMemory,
    ) -> usize {
        self.accesses.insert(RmaOperation { number, peer, kind, data, start, target, left: 0 })
    }

    /// Forgets an access that has no stripes.
    pub(super) fn withdraw(&mut self, access: usize) {
        debug_assert!(self.accesses.get(access).is_none_or(|access| access.left == 0), "nobody has anything of it");
        self.accesses.remove(access);
    }

    /// Adds a stripe that is given to a path, and returns its number.
    pub(super) fn add(&mut self, access: usize, range: Range<u64>, path: usize) -> u64 {
        if let Some(access) = self.accesses.get_mut(access) {
            access.left += 1;
        }
        let index = self.stripes.insert(Stripe { access, range, path, phase: Phase::Moving, since: None });
        self.stripes.number(index)
    }

    /// Removes a stripe that the rail did not take.
    pub(super) fn take_back(&mut self, stripe: u64) {
        let removed = self.stripes.index(stripe).and_then(|index| self.stripes.remove(index));
        if let Some(access) = removed.and_then(|stripe| self.accesses.get_mut(stripe.access)) {
            access.left -= 1;
        }
    }

    /// Returns a stripe, and the access that it is a part of.
    pub(super) fn find(&mut self, stripe: u64) -> Option<(&mut Stripe, &RmaOperation)> {
        let index = self.stripes.index(stripe)?;
        let stripe = self.stripes.get_mut(index)?;
        let access = self.accesses.get(stripe.access)?;
        Some((stripe, access))
    }

    /// Ends a stripe, and returns its peer. The last stripe completes its access.
    pub(super) fn end(&mut self, stripe: u64) -> Option<usize> {
        let index = self.stripes.index(stripe)?;
        let Stripe { access, .. } = self.stripes.remove(index)?;
        let of = self.accesses.get_mut(access)?;
        of.left -= 1;
        let (peer, number) = (of.peer, of.number);
        if of.left == 0 {
            self.accesses.remove(access);
            self.done.push_back(number);
        }
        Some(peer)
    }

    /// Lets a stripe wait.
    pub(super) fn wait(&mut self, stripe: u64, phase: Phase) {
        debug_assert!(matches!(phase, Phase::Waiting | Phase::WaitingToProve));
        if let Some((found, _)) = self.find(stripe) {
            (found.phase, found.since) = (phase, None);
            self.waiting.push_back(stripe);
        }
    }

    /// Returns whether a stripe waits.
    #[inline]
    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns how many stripes wait at most.
    pub(super) fn count_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the stripe that has waited longest, and its phase.
    pub(super) fn next_waiting(&mut self) -> Option<(u64, Phase)> {
        while let Some(stripe) = self.waiting.pop_front() {
            if let Some((found, _)) = self.find(stripe)
                && matches!(found.phase, Phase::Waiting | Phase::WaitingToProve)
            {
                return Some((stripe, found.phase));
            }
        }
        None
    }

    /// Ends a path to a peer that has failed: its stripes are stranded, or wait for another path. A read on a
    /// closed connection arrives no more. A write arrives no more once `peer_dropped` its end.
    pub(super) fn strand(&mut self, peer: usize, path: usize, peer_dropped: bool) {
        for index in self.stripes.indices() {
            let Some(stripe) = self.stripes.get_mut(index) else { continue };
            let Some(access) = self.accesses.get(stripe.access).filter(|access| access.peer == peer) else { continue };
            // No rail has a stripe that waits to be taken. A stripe that waits to be proved is this rail's.
            if stripe.path != path || matches!(stripe.phase, Phase::Waiting) {
                continue;
            }
            (stripe.phase, stripe.since) = (Phase::Stranded, None);
            if peer_dropped || access.kind == AccessKind::Read {
                stripe.phase = Phase::Waiting;
                self.waiting.push_back(self.stripes.number(index));
            }
        }
    }

    /// Forgets all stripes and accesses for a peer that is lost.
    pub(super) fn forget(&mut self, peer: usize) {
        for index in self.accesses.indices() {
            if self.accesses.get(index).is_some_and(|access| access.peer == peer) {
                self.accesses.remove(index);
            }
        }
        for index in self.stripes.indices() {
            if self.stripes.get(index).is_some_and(|stripe| self.accesses.get(stripe.access).is_none()) {
                self.stripes.remove(index);
            }
        }
    }

    /// Returns a peer and its path that has had a stripe since before `then`, and has not ended it.
    pub(super) fn stalled(&self, then: Instant) -> Option<(usize, usize)> {
        let stripes = self.stripes.indices().filter_map(|index| self.stripes.get(index));
        let mut old = stripes.filter(|stripe| stripe.since.is_some_and(|since| since < then));
        old.find_map(|stripe| Some((self.accesses.get(stripe.access)?.peer, stripe.path)))
    }

    /// Returns whether a rail has a stripe.
    pub(super) fn are_under_way(&self) -> bool {
        let mut stripes = self.stripes.indices().filter_map(|index| self.stripes.get(index));
        stripes.any(|stripe| matches!(stripe.phase, Phase::Moving | Phase::Proving))
    }

    /// Returns whether no stripe is under way or waits, and no completion is to be told.
    #[inline]
    pub(super) fn are_over(&self) -> bool {
        self.done.is_empty() && self.stripes.is_empty()
    }

    /// Returns the engine's number of an access that is complete.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<u64> {
        self.done.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: RemoteMemory = RemoteMemory { key: 1, address: 0 };

    fn open(accesses: &mut Accesses, number: u64, peer: usize, kind: AccessKind) -> usize {
        accesses.open((number, peer), kind, (UserData::empty(), 0), TARGET)
    }

    #[test]
    fn an_access_is_complete_when_its_last_stripe_is_and_is_told_once() {
        let mut all = Accesses::default();
        let access = open(&mut all, 77, 3, AccessKind::Write);
        let (first, second) = (all.add(access, 0..5, 0), all.add(access, 5..9, 1));
        let refused = all.add(access, 9..12, 1);
        all.take_back(refused);
        assert_eq!(all.end(second), Some(3));
        assert_eq!(all.poll(), None, "the first one is still under way");
        assert_eq!(all.end(second), None, "it ended once");
        assert_eq!(all.end(first), Some(3));
        assert_eq!((all.poll(), all.poll()), (Some(77), None));
        // The next access has the same index, and another number.
        let access = open(&mut all, 78, 3, AccessKind::Write);
        let next = all.add(access, 0..5, 0);
        assert_eq!((all.end(first), all.end(second)), (None, None), "what is told late is of nobody");
        assert_eq!((all.end(next), all.poll()), (Some(3), Some(78)));
    }

    #[test]
    fn what_a_rail_had_is_repeated_at_once_if_it_is_read_and_otherwise_when_the_peer_has_dropped_it() {
        let mut all = Accesses::default();
        let (write, read) = (open(&mut all, 1, 0, AccessKind::Write), open(&mut all, 2, 0, AccessKind::Read));
        let other = open(&mut all, 3, 1, AccessKind::Write);
        let written = all.add(write, 0..9, 1);
        let unproved = all.add(write, 9..10, 1);
        let elsewhere = all.add(write, 10..19, 0);
        let (reads, others) = (all.add(read, 0..9, 1), all.add(other, 0..9, 1));
        all.wait(unproved, Phase::WaitingToProve);
        all.strand(0, 1, false);
        assert_eq!(all.next_waiting(), Some((reads, Phase::Waiting)), "the write's proof is of no use any more");
        assert_eq!(all.next_waiting(), None);
        let phase = |all: &mut Accesses, stripe| all.find(stripe).map(|(stripe, _)| stripe.phase);
        assert_eq!(phase(&mut all, written), Some(Phase::Stranded));
        assert_eq!((phase(&mut all, elsewhere), phase(&mut all, others)), (Some(Phase::Moving), Some(Phase::Moving)));
        all.strand(0, 1, true);
        assert_eq!(all.next_waiting(), Some((written, Phase::Waiting)));
        assert_eq!(all.next_waiting(), Some((unproved, Phase::Waiting)));
    }

    #[test]
    fn what_is_under_way_for_too_long_is_found_and_what_was_for_a_lost_peer_is_forgotten() {
        let mut all = Accesses::default();
        let access = open(&mut all, 1, 4, AccessKind::Write);
        let (timed, untimed) = (all.add(access, 0..9, 1), all.add(access, 9..10, 0));
        all.find(timed).expect("it is there").0.since = Some(Instant(100));
        assert_eq!((all.stalled(Instant(100)), all.stalled(Instant(101))), (None, Some((4, 1))));
        assert!(all.are_under_way());
        all.forget(4);
        assert_eq!((all.end(timed), all.end(untimed), all.poll()), (None, None, None));
        assert!(!all.are_under_way() && all.stalled(Instant(101)).is_none());
    }
}
