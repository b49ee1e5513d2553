//! Waiting: when a call spins, yields, migrates or sleeps, and what is left to the progress thread.
//!
//! Each type here is a state machine: it takes facts as values, and answers with the next step. It has no
//! clock, makes no call to the engine and starts nothing. The code that runs it carries out the answers in
//! their order: the process in `weft-mpi`, a simulator, or the model in `model_tests.rs`.
//!
//! | type | whose it is | what it decides |
//! |---|---|---|
//! | [`Wait`] | one call that waits | another pass, a look at the clock, a yield, a migration, a sleep |
//! | [`Looks`] | one process | when a loop of calls that only look yields the processor |
//! | [`Learned`] | one process | how long its calls spin ([`SpinBudget`]), how often they look at the clock meanwhile ([`Pace`]) and change the processor ([`Migration`]) |
//! | [`Waiters`] | one process | which thread sleeps on behalf of all, what wakes the others, and which one takes over when it leaves |
//! | [`Outstanding`], [`Coverage`] | one process | what the progress thread watches while the program computes, and what it does when it is woken |
//! | [`Backoff`] | the progress thread | how long it pauses while the program is inside MPI |
//! | [`Pulse`] | the progress thread | when it looks around for peers that ask whether the process lives |
//!
//! # One call that waits
//!
//! ```text
//!                                   ┌──► Pass    most passes: a look comes every 4 µs; none on an oversubscribed node
//!   free passes in vain ──► Enter ──┤
//!                             │     └──► Look ──► (AskServed) ──► Yield ──► (AskShared) ──► Pass or Migrate
//!                             ▼           │            │            │
//!                           Sleep ◄───────┴────────────┴────────────┘ the budget is spent, or somebody else needs the processor
//! ```
//!
//! A thread that finds another thread of the process asleep on behalf of all parks instead.
//!
//! # No wake-up is lost
//!
//! A frame between processes of a node is covered by the order *announce the sleep, look once more, sleep*
//! (`transport::Sleeping::arm`) against *write the frame, read the announcement, wake*. What is outstanding
//! while the program computes is covered by what [`Coverage`] arms. Completions by another thread of the
//! process are covered by [`Waiters::news`], which is asked before the lock is released. Each thread that
//! waits for such a completion is woken, and no other. Before a thread that has driven the others' progress
//! leaves, [`Waiters::lacks_driver`] says whether a parked thread must be woken to do so. The model plays all
//! three against each other, and finds the fault when one of them is left out.

mod budget;
mod call;
mod coverage;
mod habit;
mod looks;
mod migration;
#[cfg(test)]
mod model_tests;
mod pace;
mod pulse;
mod stall;
mod waiters;

pub use budget::SpinBudget;
pub use call::{Fact, Next, Wait};
use call::{SPIN_NETWORK, SPIN_NODE};
pub use coverage::{
    Arm, Armed, Backoff, CALLS_APART, CALLS_PAUSE, Coverage, Leaving, Left, Outstanding, REPAIR_AFTER, State, TakeBack,
    Woken, after_passes, when_busy,
};
pub(crate) use habit::COMPUTES_TICKS;
pub use looks::Looks;
pub use migration::Migration;
pub use pace::Pace;
pub use pulse::Pulse;
pub(crate) use stall::Stall;
pub use waiters::{News, Waiters};

use weft_core::time::Duration;

/// The lessons of one process from its earlier waits.
#[derive(Clone, Debug)]
pub struct Learned {
    budget: SpinBudget,
    pace: Pace,
    migration: Migration,
}

impl Learned {
    /// Makes the record of a process that has not waited yet. `network` says whether there are peers on other
    /// nodes.
    pub const fn new(network: bool) -> Self {
        let most = if network { SPIN_NETWORK } else { SPIN_NODE };
        Self { budget: SpinBudget::new(most), pace: Pace::new(network), migration: Migration::new() }
    }

    /// Notes that other jobs were on the processors before this one: spinning must show that it pays before
    /// it is trusted.
    pub fn distrust_spinning(&mut self) {
        self.budget.missed(true);
    }

    /// The number of passes of the progress loop that take about as long as a yield is worth.
    #[inline]
    pub fn passes_per_look(&self) -> u32 {
        self.pace.passes()
    }

    /// Returns whether spinning pays, as far as is known.
    #[inline]
    pub fn may_spin(&self) -> bool {
        self.budget.now() > Duration::default()
    }
}
