//! The sleep of a waiter: what the engine tells its node and its carriers before, and what it looks at after.
//!
//! `weft-mpi` calls it for calls that wait and for the progress thread (`process/waiting.rs`,
//! `process/helped.rs`, `progress_thread.rs`).

use super::Engine;
use super::network::Looks;
use crate::carriers::Descriptors;
use crate::transport::{Platform, SleepMode, Sleeping};

impl<P: Platform> Engine<P> {
    /// The descriptors that a thread has to watch to make progress for this process: network and doorbell.
    pub fn watched(&self) -> (Vec<i32>, Option<i32>) {
        let network = self.network.carriers.descriptors().into_iter().flatten().collect();
        (network, self.node.as_ref().map(Sleeping::doorbell_fd))
    }

    /// Makes a doorbell that a thread of this process always watches, by which neighbours have it take their
    /// messages while the program computes.
    pub fn progress_bell(&mut self) -> Option<i32> {
        self.node.as_mut()?.make_progress_bell()
    }

    /// Prepares the network for a thread of this process that watches it; returns `false` when something has
    /// arrived already.
    pub fn arm_network_for_thread(&mut self) -> bool {
        self.network.carriers.prepare_sleep()
    }

    /// Prepares the doorbell for a thread of this process that watches it; returns `false` when something has
    /// arrived already.
    pub fn arm_for_thread(&mut self) -> bool {
        self.doorbell_used = true;
        self.rests.watches += 1;
        self.node.is_none() || self.arm_node(SleepMode::Thread)
    }

    /// Tells the node how this process is about to sleep; returns false when something has arrived, so that
    /// it must not.
    fn arm_node(&mut self, rest: SleepMode) -> bool {
        let Some(node) = &mut self.node else { return false };
        if !node.arm(rest) {
            return false;
        }
        let is_here = self.slots.is_awaited_there(self.published());
        if is_here && let Some(node) = &mut self.node {
            node.disarm();
        }
        !is_here
    }

    /// Tells the node that no thread watches the doorbell any more.
    pub fn disarm_for_thread(&mut self) {
        if let Some(node) = &mut self.node {
            node.disarm();
        }
    }

    /// Prepares a sleep: returns what to sleep on, and for how long at most (nanoseconds). `None` when there
    /// is something to do already.
    pub fn prepare_sleep(&mut self) -> Option<Sleep<P>> {
        self.prepare_sleep_on(false)
    }

    /// Does the same for a sleeper that watches other descriptors, too.
    pub fn prepare_sleep_on_descriptors(&mut self) -> Option<Sleep<P>> {
        self.prepare_sleep_on(true)
    }

    fn prepare_sleep_on(&mut self, descriptors: bool) -> Option<Sleep<P>> {
        let sleep = self.try_to_sleep(descriptors);
        self.rests.sleeps += u64::from(sleep.is_some());
        sleep
    }

    fn try_to_sleep(&mut self, descriptors: bool) -> Option<Sleep<P>> {
        if self.has_work() || !self.network.carriers.prepare_sleep() {
            return None;
        }
        let timeout = self.due().into_iter().chain(self.asking_due()).chain(self.neighbours_due()).min();
        let network = self.network.carriers.descriptors();
        let Some(node) = &self.node else {
            return Some(Sleep { rest: SleepOn::Descriptors { doorbell: None, network }, timeout });
        };
        if !self.network.carriers.is_empty() || descriptors {
            let rest = SleepOn::Descriptors { doorbell: Some(node.doorbell_fd()), network };
            self.doorbell_used |= descriptors;
            return self.arm_node(SleepMode::Doorbell).then_some(Sleep { rest, timeout });
        }
        let rest = SleepOn::Neighbours(node.sleeper());
        self.arm_node(SleepMode::Futex).then_some(Sleep { rest, timeout })
    }

    /// The number of rests of this process so far.
    pub fn rests(&self) -> Rests {
        self.rests
    }

    /// Ends a sleep: looks at the doorbell and at the node.
    pub fn finish_sleep(&mut self) {
        let may_have_been_rung = !self.network.carriers.is_empty() || self.doorbell_used;
        if let Some(node) = &mut self.node {
            node.disarm();
            if may_have_been_rung {
                node.drain_doorbell();
            }
        }
        self.check_node();
        // The network is looked at in the very next pass.
        self.network.must_look = true;
        self.network.looks = Looks::now();
    }
}

/// The rests of this process: its sleeps, and the times when it left its neighbours to wake its progress
/// thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rests {
    /// The number of sleeps of calls that waited.
    pub sleeps: u64,
    /// The number of times that neighbours were told to ring for the progress thread.
    pub watches: u64,
}

/// A sleep of a waiter.
pub struct Sleep<P: Platform> {
    /// The object to sleep on.
    pub rest: SleepOn<P>,
    /// The most nanoseconds to sleep.
    pub timeout: Option<u64>,
}

/// The object that a waiter sleeps on.
pub enum SleepOn<P: Platform> {
    /// A word in memory: only processes of the node can have something for this process.
    Neighbours(<P::Node as Sleeping>::Sleeper),
    /// Descriptors that become readable.
    Descriptors {
        /// Readable when a process of the node has something for this process.
        doorbell: Option<i32>,
        /// Readable when a packet is here.
        network: Descriptors,
    },
}
