//! An agreement of processes of which some may fail at any time, even while they agree (`MPIX_Comm_agree`,
//! `MPIX_Comm_shrink`). All that return have the same decision.
//!
//! The algorithm is the early-returning agreement of Herault et al. (SC '15). The votes go up a binomial tree
//! to the *coordinator*, the lowest rank that lives. It decides once it has the vote of every process that
//! lives, and the decision goes down the tree. A process returns as soon as it has the decision, and forwards
//! it. When a process has failed, its place in the tree is taken by the next living process above it:
//!
//! - a process whose parent has failed sends its vote to its new parent;
//! - a process that has got new children asks them: one that has the decision already answers with it;
//! - a process with the decision answers every vote with it.
//!
//! A new coordinator hears so of a decision that any living process has. If there is none, it decides anew.
//!
//! Messages of a process that is known to have failed count for nothing: the votes may have gone to another
//! coordinator since. This is why a failure must be true: a process that is said to have failed takes part no
//! more. Messages carry the failures that their sender knows.
//!
//! [`Agreements`] holds the agreements of one communicator. It keeps each decision as long as a process may
//! ask for it. `weft-mpi` moves the messages (`recovery.rs`).

mod instance;
mod ranks;
#[cfg(test)]
mod tests;
mod vote;
mod wire;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use weft_ordered::{Map, Set};

use instance::Instance;
pub use ranks::Ranks;
pub use vote::Vote;
use wire::{Body, Message};

/// The most agreements that a process may have begun, or may have heard of, beyond the first that is not
/// over. Messages of later ones are dropped, and their senders wait.
pub const UNDER_WAY_MAX: u32 = 1024;
/// The most rounds of one agreement; messages of later ones are dropped.
pub const ROUNDS_MAX: u32 = 1 << 16;

/// The agreements of the processes of one communicator.
///
/// All processes begin them in the same order; each has a number, from 0 on. An agreement has one round or
/// several, each with votes and a decision: all processes know alike from the decision of a round whether
/// another one follows. Methods that may make messages due put them into a queue, which
/// [`Self::poll_transmit`] empties.
pub struct Agreements {
    rank: u32,
    size: u32,
    /// The processes that have failed, as far as is known here.
    failed: Ranks,
    /// The number of the next agreement that this process begins.
    next: u32,
    /// The agreements that this process has begun and not finished.
    open: Set<u32>,
    /// The first agreement for which a process may still ask.
    first: u32,
    /// The state of each round, by agreement and round.
    instances: Map<(u32, u32), Instance>,
    outbox: VecDeque<(u32, Vec<u8>)>,
    /// Failures of which only messages have told.
    heard: Vec<u32>,
}

impl Agreements {
    /// The agreements of `size` processes, as `rank` sees them. All other processes count as living.
    pub fn new(rank: u32, size: u32) -> Self {
        Self {
            rank,
            size,
            failed: Ranks::new(),
            next: 0,
            open: Set::new(),
            first: 0,
            instances: Map::new(),
            outbox: VecDeque::new(),
            heard: Vec::new(),
        }
    }

    /// Begins the next agreement; returns its number.
    ///
    /// `None`: [`UNDER_WAY_MAX`] agreements are under way.
    pub fn begin(&mut self) -> Option<u32> {
        let number = self.next;
        if number.wrapping_sub(self.first) >= UNDER_WAY_MAX {
            return None;
        }
        self.next = number.wrapping_add(1);
        self.open.insert(number);
        Some(number)
    }

    /// Gives this process's `vote` in a round of an agreement that it has begun.
    pub fn vote(&mut self, number: u32, round: u32, mut vote: Vote) {
        vote.open = self.open.first().copied().unwrap_or(number);
        self.instances.entry((number, round)).or_default().vote(self.rank, vote);
        self.advance(number, round);
    }

    /// The decision of a round, once it is known here.
    pub fn decision(&self, number: u32, round: u32) -> Option<&Vote> {
        self.instances.get(&(number, round))?.decision()
    }

    /// Notes that this process knows all decisions of an agreement.
    pub fn finish(&mut self, number: u32) {
        self.open.remove(&number);
    }

    /// The processes that have failed, as far as is known here.
    pub fn failed(&self) -> &Ranks {
        &self.failed
    }

    /// Notes that `rank` has failed.
    pub fn handle_failure(&mut self, rank: u32) {
        if rank < self.size && rank != self.rank && self.failed.insert(rank) {
            let rounds: Vec<(u32, u32)> = self.instances.keys().copied().collect();
            rounds.into_iter().for_each(|(number, round)| self.advance(number, round));
        }
    }

    /// Takes in a message of `from`. Returns whether it was one of this protocol.
    pub fn handle_message(&mut self, from: u32, bytes: &[u8]) -> bool {
        let Some(Message { number, round, failed, body }) = Message::parse(bytes, self.size) else { return false };
        if from >= self.size || from == self.rank || round > ROUNDS_MAX {
            return false;
        }
        if self.failed.contains(from) && !cfg!(weft_mutant = "agreement_heeds_the_dead") {
            return true;
        }
        for rank in failed.iter().filter(|rank| *rank != from) {
            if !self.failed.contains(rank) {
                self.heard.push(rank);
                self.handle_failure(rank);
            }
        }
        if number.wrapping_sub(self.first) >= UNDER_WAY_MAX {
            // Its sender has the decision, or is much too early.
            return true;
        }
        let instance = self.instances.entry((number, round)).or_default();
        match body {
            Body::Vote { covered, vote } => instance.handle_vote(from, self.size, covered, vote),
            Body::Question => instance.handle_question(from),
            Body::Decision(vote) => instance.decide(vote),
        }
        self.advance(number, round);
        true
    }

    /// The next message that must leave, and the rank that gets it.
    pub fn poll_transmit(&mut self) -> Option<(u32, Vec<u8>)> {
        self.outbox.pop_front()
    }

    /// The next process of whose failure only a message has told; this process itself if others take it for
    /// failed.
    pub fn poll_heard(&mut self) -> Option<u32> {
        self.heard.pop()
    }

    /// The number of rounds that are kept, those that are over included.
    pub fn kept(&self) -> usize {
        self.instances.len()
    }

    /// Makes the messages of a round that have become due, and forgets what nobody can ask for any more.
    fn advance(&mut self, number: u32, round: u32) {
        let Self { rank, size, failed, instances, outbox, .. } = self;
        let Some(instance) = instances.get_mut(&(number, round)) else { return };
        instance.advance(*rank, *size, failed, &mut |to, body| {
            outbox.push_back((to, Message { number, round, failed: failed.clone(), body }.to_bytes()));
        });
        // All that live have finished the agreements before the first open one of any voter.
        let over = instance.decision().map(|decision| decision.open.min(number));
        if let Some(over) = over.filter(|over| *over > self.first && !cfg!(weft_mutant = "agreement_keeps_all")) {
            self.first = over;
            self.instances.retain(|key, _| *key >= (over, 0));
        }
    }
}
