//! What the processes of one node do for each other, in parts. Each part is a trait; what a node may be
//! without is behind a method of [`Node`] that gives `None` then.
//!
//! | part | what it is for | may be missing |
//! |---|---|---|
//! | [`Frames`] | messages | no |
//! | [`Sleeping`] | a process that has nothing to do, and who wakes it | no |
//! | [`CollectiveSlots`] | small collectives without messages | yes |
//! | [`PostedReceives`] | large messages that are copied once | yes |
//! | [`Liveness`] | processes that end without a word | yes |
//! | [`NodeProcessors`] | processes that spin | yes |
//!
//! The first four are on the way of small messages, and their types are known when the engine is compiled. A
//! platform without neighbours names [`Infallible`] as its node, of which no value exists.

use core::convert::Infallible;
use std::os::fd::RawFd;

use super::absent::part;
use super::posted::PostedReceives;
use super::slots::CollectiveSlots;

/// This process's share in its node. Processes are named by their local rank.
pub trait Node: Frames + Sleeping {
    /// Slots in which a process publishes something.
    type Slots: CollectiveSlots;
    /// Receives that processes have posted for each other.
    type Posted: PostedReceives;

    /// Slots in which processes publish something for collectives.
    fn slots(&self) -> Option<&Self::Slots>;

    /// The same, to publish something.
    fn slots_mut(&mut self) -> Option<&mut Self::Slots>;

    /// Receives that processes have posted for each other.
    fn posted_receives(&self) -> Option<&Self::Posted>;

    /// The same, to open a table of them.
    fn posted_receives_mut(&mut self) -> Option<&mut Self::Posted>;

    /// Who has died; `None` where a process hears of that without a look ([`Frames::poll_fault`]).
    fn liveness(&mut self) -> Option<&mut dyn Liveness>;

    /// The processors of the node; `None` where processes cannot choose theirs.
    fn processors(&self) -> Option<&dyn NodeProcessors>;
}

impl Node for Infallible {
    type Slots = Self;
    type Posted = Self;

    fn slots(&self) -> Option<&Self> {
        match *self {}
    }

    fn slots_mut(&mut self) -> Option<&mut Self> {
        match *self {}
    }

    fn posted_receives(&self) -> Option<&Self> {
        match *self {}
    }

    fn posted_receives_mut(&mut self) -> Option<&mut Self> {
        match *self {}
    }

    fn liveness(&mut self) -> Option<&mut dyn Liveness> {
        match *self {}
    }

    fn processors(&self) -> Option<&dyn NodeProcessors> {
        match *self {}
    }
}

/// Why nothing more can be exchanged with one process of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFault {
    /// Its local rank.
    pub peer: usize,
    /// What it did or what happened to it; completes the sentence "rank … ".
    pub reason: String,
}

part! {
    /// Frames of at most [`Self::frame_max`] bytes, head and payload together, delivered exactly once and in
    /// the order of sending from one process to another.
    pub trait Frames {
        /// This process's local rank.
        fn own_local_rank(&self) -> usize;

        /// Bytes of the largest frame.
        fn frame_max(&self) -> usize;

        /// Sends a frame of `head` and `len` bytes that `fill` writes in place; false, and nothing happens,
        /// when there is no room.
        fn try_send_with(&mut self, to: usize, head: &[u8], len: usize, fill: impl FnOnce(&mut [u8])) -> bool;

        /// Hands at most `limit` frames that have arrived to `on_frame`, with the local rank of their sender;
        /// returns how many.
        fn poll(&mut self, limit: usize, on_frame: impl FnMut(usize, &[u8])) -> usize;

        /// Whether a frame has arrived that nobody has taken.
        fn is_pending(&mut self) -> bool;

        /// A process that has died or broken its memory, once for each.
        fn poll_fault(&mut self) -> Option<PeerFault>;
    }
}

/// How a process of the node sleeps, for those that have something for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SleepMode {
    /// In poll(2) or epoll(7), with the doorbell among what it watches.
    Doorbell = 1,
    /// On a word in memory: nothing but a neighbour will wake it.
    Futex = 2,
    /// The process computes, and a thread of it watches the doorbell: it is woken, but still wants its
    /// processor.
    Thread = 3,
}

part! {
    /// How a process leaves its processor to others, and is woken when one of them has something for it.
    pub trait Sleeping {
        type {
            /// Sleeps until a neighbour wakes this process, while others use the node.
            Sleeper,
        }

        /// Says how this process is about to sleep; false when something has arrived, and it must not.
        fn arm(&mut self, rest: SleepMode) -> bool;

        /// It is awake again.
        fn disarm(&mut self);

        /// Wakes a process of the node if it sleeps.
        fn wake_if_asleep(&mut self, local_rank: usize);

        /// Wakes a thread of this process that sleeps by [`SleepMode::Futex`].
        fn nudge(&mut self);

        /// What sleeps by [`SleepMode::Futex`].
        fn sleeper(&self) -> Self::Sleeper;

        /// The descriptor that becomes readable when somebody wakes this process.
        fn doorbell_fd(&self) -> RawFd;

        /// Takes what has been written to it.
        fn drain_doorbell(&mut self);

        /// Processes of the node that are not asleep in MPI, this one included.
        fn awake(&self) -> usize;

        /// Whether the node has fewer processors than processes.
        fn is_oversubscribed(&self) -> bool;
    }
}

/// Who has died without a word, for processes that have to look for it.
pub trait Liveness {
    /// Looks whether all the others live, whatever started them: those that do not become faults.
    fn look_for_dead(&mut self);

    /// Says to others whether this process may end now, and counts as living all the same: nobody needs it
    /// any more.
    fn say_left(&mut self, left: bool);
}

/// On which processors the processes of the node spin.
pub trait NodeProcessors {
    /// Says on which processor this thread spins.
    fn note_processor(&self);

    /// Whether another process spins on the processor that this thread is on.
    fn shares_processor(&self) -> bool;

    /// Moves this thread to a processor on which no other one spins, as far as is known.
    fn migrate(&self);

    /// Where processes take turns: moves this thread to a processor that at least two fewer use, if it is the
    /// last one here.
    fn rebalance(&self);
}
