//! The services that the processes of one node do for each other, in parts.
//!
//! Each part is a trait. A part that a node may lack is behind a method of [`Node`] that returns `None` then.
//!
//! | part | what it is for | may be missing |
//! |---|---|---|
//! | [`Frames`] | messages | no |
//! | [`Sleeping`] | a process that has nothing to do, and how it is woken | no |
//! | [`CollectiveSlots`] | small collectives without messages | yes |
//! | [`PostedReceives`] | large messages that are copied once | yes |
//! | [`Liveness`] | processes that end without a word | yes |
//! | [`NodeProcessors`] | processes that spin | yes |
//! | [`NodeCosts`] | the same choice of protocols at both ends | yes |
//!
//! The first four are on the way of small messages, and their types are known when the engine is compiled. A
//! platform without neighbours names [`Infallible`] as its node, of which no value exists.

use core::convert::Infallible;
use std::os::fd::RawFd;

use super::absent::part;
use super::posted::PostedReceives;
use super::slots::CollectiveSlots;

/// The share of this process in its node. Processes are named by their local rank.
pub trait Node: Frames + Sleeping {
    /// Slots in which a process publishes something.
    type Slots: CollectiveSlots;
    /// Receives that processes have posted for each other.
    type Posted: PostedReceives;

    /// Returns the slots in which processes publish something for collectives.
    fn slots(&self) -> Option<&Self::Slots>;

    /// Returns the slots, to publish something.
    fn slots_mut(&mut self) -> Option<&mut Self::Slots>;

    /// Returns the receives that processes have posted for each other.
    fn posted_receives(&self) -> Option<&Self::Posted>;

    /// Returns the posted receives, to open a table of them.
    fn posted_receives_mut(&mut self) -> Option<&mut Self::Posted>;

    /// Returns the detector of dead processes; `None` where a process hears of them without a look
    /// ([`Frames::poll_fault`]).
    fn liveness(&mut self) -> Option<&mut dyn Liveness>;

    /// Returns the processors of the node; `None` where processes cannot choose theirs.
    fn processors(&self) -> Option<&dyn NodeProcessors>;

    /// Returns the costs that the processes of the node share; `None` where each process has its own.
    fn costs(&self) -> Option<&dyn NodeCosts>;
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

    fn costs(&self) -> Option<&dyn NodeCosts> {
        match *self {}
    }
}

/// The reason why nothing more can be exchanged with one process of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFault {
    /// The local rank of that process.
    pub peer: usize,
    /// The deed or fate of that process; completes the sentence "rank … ".
    pub reason: String,
}

part! {
    /// Frames of at most [`Self::frame_max`] bytes, head and payload together, delivered exactly once and in
    /// the order of sending from one process to another.
    pub trait Frames {
        /// The local rank of this process.
        fn own_local_rank(&self) -> usize;

        /// Bytes of the largest frame.
        fn frame_max(&self) -> usize;

        /// Sends a frame of `head` and `len` bytes that `fill` writes in place. Returns false, and does
        /// nothing, when there is no room.
        fn try_send_with(&mut self, to: usize, head: &[u8], len: usize, fill: impl FnOnce(&mut [u8])) -> bool;

        /// Returns whether so many bytes have room at present, in frames of 4 KiB to `frame_max` bytes each.
        /// A node may say no though there is room.
        fn has_room(&mut self, to: usize, bytes: u64, frame_max: u64) -> bool;

        /// The bytes of this process's frames that a process of the node has taken; `None`: it has taken all.
        fn taken_by(&self, to: usize) -> Option<u64>;

        /// Hands at most `limit` frames that have arrived to `on_frame`, with the local rank of each sender;
        /// returns how many.
        fn poll(&mut self, limit: usize, on_frame: impl FnMut(usize, &[u8])) -> usize;

        /// Returns whether a frame has arrived that has not been taken.
        fn is_pending(&mut self) -> bool;

        /// Returns a process that has died or broken its memory, each process once.
        fn poll_fault(&mut self) -> Option<PeerFault>;
    }
}

/// The way in which a process of the node sleeps, and so how its neighbours wake it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SleepMode {
    /// In poll(2) or epoll(7), which watches the doorbell among other descriptors.
    Doorbell = 1,
    /// On a word in memory: only a neighbour wakes the process.
    Futex = 2,
    /// The process computes, and a thread of it watches the doorbell: the thread is woken, but the process
    /// still wants its processor.
    Thread = 3,
}

part! {
    /// The way in which a process leaves its processor to others, and is woken when a neighbour has something
    /// for it.
    pub trait Sleeping {
        type {
            /// A handle that sleeps until a neighbour wakes this process, while other threads use the node.
            Sleeper,
        }

        /// Announces how this process is about to sleep; returns false when something has arrived, so that it
        /// must not.
        fn arm(&mut self, rest: SleepMode) -> bool;

        /// Announces that this process is awake again.
        fn disarm(&mut self);

        /// Wakes a process of the node if it sleeps.
        fn wake_if_asleep(&mut self, local_rank: usize);

        /// Wakes a thread of this process that sleeps by [`SleepMode::Futex`].
        fn nudge(&mut self);

        /// Returns the handle for sleeping by [`SleepMode::Futex`].
        fn sleeper(&self) -> Self::Sleeper;

        /// The descriptor that becomes readable when a neighbour wakes this process.
        fn doorbell_fd(&self) -> RawFd;

        /// Takes what neighbours have written to the doorbell.
        fn drain_doorbell(&mut self);

        /// Makes a second doorbell, for a thread of this process that always watches it, and returns its
        /// descriptor. A neighbour rings it to have this process take its frames while the program computes
        /// ([`Self::ring_for_progress`]). `None`: it cannot be made.
        fn make_progress_bell(&mut self) -> Option<RawFd>;

        /// Rings that doorbell of a process of the node, if it has one.
        fn ring_for_progress(&mut self, local_rank: usize);

        /// The number of processes of the node that are not asleep in MPI, this one included.
        fn awake(&self) -> usize;

        /// Returns whether the node has fewer processors than processes.
        fn is_oversubscribed(&self) -> bool;
    }
}

/// The detector of processes that have died without a word, where processes have to look for them.
pub trait Liveness {
    /// Checks that all other processes live, whatever started them: the dead become faults.
    fn look_for_dead(&mut self);

    /// Tells the others whether this process may end now and still counts as living: no process needs it any
    /// more.
    fn say_left(&mut self, left: bool);
}

/// The costs of moving bytes on this machine, as the processes of the node share them. They become known, or
/// change, while messages flow.
pub trait NodeCosts {
    /// Returns a number that changes whenever the costs do; 0 while there are none.
    fn version(&self) -> u32;

    /// Returns the costs, in the order of [`crate::protocols::CostModel::MEANINGS`]; `None` while there are
    /// none, or while they change.
    fn read(&self) -> Option<Vec<u64>>;

    /// Gives the node other costs, in the same order. Where two processes do so at the same time, one of them
    /// may do it in vain.
    fn share(&self, costs: &[u64]);
}

/// The processors on which the processes of the node spin.
pub trait NodeProcessors {
    /// Announces on which processor this thread spins.
    fn note_processor(&self);

    /// Returns whether another process spins on this thread's processor.
    fn shares_processor(&self) -> bool;

    /// Moves this thread to a processor on which no other process spins, as far as is known.
    fn migrate(&self);

    /// Moves this thread to a processor that at least two fewer processes use, where processes take turns. It
    /// does so only if this process is the last, by local rank, of those that spin here.
    fn rebalance(&self);
}
