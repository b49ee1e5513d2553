//! One agreement, as one process sees it.

use super::wire::{Body, Covered};
use super::{Ranks, Vote};

/// The state of an agreement. A process may hear of it before it begins it.
#[derive(Default)]
pub(super) struct Instance {
    /// This process has voted.
    has_voted: bool,
    /// The joined votes that are here, and whose they are.
    votes: Option<Vote>,
    covered: Ranks,
    /// The process that the votes have been sent to, and the number of voters that they had.
    sent: Option<(u32, u32)>,
    /// The new children that have been asked.
    asked: Ranks,
    /// The processes that wait for an answer: they have sent votes, or a question.
    waiting: Ranks,
    decision: Option<Vote>,
    /// The processes that have been sent the decision.
    told: Ranks,
}

impl Instance {
    pub(super) fn decision(&self) -> Option<&Vote> {
        self.decision.as_ref()
    }

    /// Adds this process's own vote.
    pub(super) fn vote(&mut self, rank: u32, vote: Vote) {
        self.has_voted = true;
        self.join(&Ranks::of([rank]), vote);
    }

    fn join(&mut self, covered: &Ranks, vote: Vote) {
        self.covered.unite(covered);
        match &mut self.votes {
            Some(votes) => votes.join(&vote),
            votes => *votes = Some(vote),
        }
    }

    pub(super) fn handle_vote(&mut self, from: u32, size: u32, covered: Covered, vote: Vote) {
        let covered = match covered {
            Covered::Below => Ranks::of(below(from, size)),
            Covered::These(ranks) => ranks,
        };
        self.join(&covered, vote);
        // A process that votes again has not got the decision.
        self.expect_answer(from);
    }

    pub(super) fn handle_question(&mut self, from: u32) {
        self.expect_answer(from);
    }

    fn expect_answer(&mut self, from: u32) {
        self.waiting.insert(from);
        if !self.told.is_empty() {
            self.told = Ranks::of(self.told.iter().filter(|rank| *rank != from));
        }
    }

    pub(super) fn decide(&mut self, vote: Vote) {
        self.decision.get_or_insert(vote);
    }

    /// Gives `send` the messages that have become due, each with the rank that gets it.
    pub(super) fn advance(&mut self, rank: u32, size: u32, failed: &Ranks, send: &mut dyn FnMut(u32, Body)) {
        if self.decision.is_none() && self.has_voted {
            self.gather(rank, size, failed, send);
        }
        let Some(decision) = &self.decision else { return };
        let children = children(rank, size, failed);
        for to in children.into_iter().chain(self.waiting.iter()) {
            if !failed.contains(to) && self.told.insert(to) {
                send(to, Body::Decision(decision.clone()));
            }
        }
    }

    /// Moves the votes on: asks for those that are missing, sends them up, or decides.
    fn gather(&mut self, rank: u32, size: u32, failed: &Ranks, send: &mut dyn FnMut(u32, Body)) {
        let above = parent(rank, failed);
        let mut is_complete = true;
        for child in wanted(rank, size, above.is_none()) {
            if self.covered.contains(child) || failed.contains(child) {
                continue;
            }
            is_complete = false;
            // In the undisturbed tree it sends its votes unasked.
            let is_new = parent(child, &Ranks::new()) != Some(rank) && parent(child, failed) == Some(rank);
            if is_new && self.asked.insert(child) && !cfg!(weft_mutant = "agreement_never_asks") {
                send(child, Body::Question);
            }
        }
        let Some(votes) = &self.votes else { return };
        match above {
            _ if !is_complete && !cfg!(weft_mutant = "agreement_without_all_votes") => {}
            Some(above) => {
                let voters = self.covered.len();
                if self.sent != Some((above, voters)) {
                    self.sent = Some((above, voters));
                    let whole = below(rank, size).all(|rank| self.covered.contains(rank));
                    let is_below = whole && voters == below(rank, size).count() as u32;
                    let covered = if is_below { Covered::Below } else { Covered::These(self.covered.clone()) };
                    send(above, Body::Vote { covered, vote: votes.clone() });
                }
            }
            None => {
                let mut decision = votes.clone();
                decision.failed.unite(failed);
                self.decision = Some(decision);
            }
        }
    }
}

/// The ranks of which a process must have the votes: those below it in the tree, or all.
fn wanted(rank: u32, size: u32, is_coordinator: bool) -> core::ops::Range<u32> {
    if is_coordinator { 0..size } else { below(rank, size) }
}

/// A rank and those below it in the tree in which nobody has failed, of `size` ranks.
fn below(rank: u32, size: u32) -> core::ops::Range<u32> {
    let span = if rank == 0 { size } else { 1 << rank.trailing_zeros() };
    rank..rank.saturating_add(span).min(size)
}

/// The process to which the votes of `rank` go: the next living one above it in the tree, else the lowest
/// that lives. `None`: it is the coordinator.
fn parent(rank: u32, failed: &Ranks) -> Option<u32> {
    let mut above = rank;
    while above != 0 {
        above &= above - 1;
        if !failed.contains(above) {
            return Some(above);
        }
    }
    (0..rank).find(|lower| !failed.contains(*lower))
}

/// The living processes whose votes go to `rank`.
fn children(rank: u32, size: u32, failed: &Ranks) -> alloc::vec::Vec<u32> {
    let is_coordinator = parent(rank, failed).is_none();
    if failed.is_empty() {
        let steps = (0..u32::BITS).map(|bit| 1_u32 << bit);
        let own = below(rank, size);
        let fits =
            |step: &u32| (rank == 0 || *step < 1 << rank.trailing_zeros()) && rank.saturating_add(*step) < own.end;
        // The highest subtree takes longest.
        return steps
            .take_while(fits)
            .map(|step| rank + step)
            .collect::<alloc::vec::Vec<_>>()
            .into_iter()
            .rev()
            .collect();
    }
    let living = |other: &u32| *other != rank && !failed.contains(*other) && parent(*other, failed) == Some(rank);
    wanted(rank, size, is_coordinator).filter(living).collect()
}
