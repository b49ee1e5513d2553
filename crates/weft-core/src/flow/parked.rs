//! Parked flows: the state that is kept of a flow that has been idle for long, enough to go on later as
//! before, in a fraction of the memory.

use super::incoming::{self, Incoming};
use super::loss_detection::Reordering;
use super::outgoing::Outgoing;
use super::paths::{ParkedPaths, Paths};
use super::settings::Settings;
use super::{Counters, Flow};
use crate::process::Parties;
use crate::wire::{Number, Secret};
use alloc::sync::Arc;

/// Most bytes of a parked flow, unless its bulk data takes several paths.
pub const PARKED_BYTES_MAX: usize = 256;
const _: () = assert!(size_of::<Parked>() <= PARKED_BYTES_MAX);

/// The state of a flow with nothing under way: see [`Flow::park`].
#[derive(Debug)]
pub struct Parked {
    paths: ParkedPaths,
    reordering: Reordering,
    base: u64,
    next_control: u64,
    next_message: Number,
    /// Bytes of the longest packet that leaves.
    packet_size: u16,
    incoming: incoming::Parked,
}

impl Flow {
    /// Returns whether parking loses nothing: nothing is under way, held or awaited, and no event or failure
    /// is to be reported.
    pub fn can_park(&self) -> bool {
        self.is_idle() && self.incoming.can_park() && !self.failed && !self.watched && self.events.is_empty()
    }

    /// Returns the state that [`Flow::unpark`] needs to go on, and the counts so far. The counts begin at
    /// zero again.
    ///
    /// Panics if the flow is not ready to be parked.
    pub fn park(self) -> (Parked, Counters) {
        assert!(self.can_park(), "a flow that is in use");
        let packet_size = self.packet_size() as u16;
        let Outgoing { paths, reordering, base, queue, .. } = self.outgoing;
        let (next_control, next_message) = (self.next_control, queue.next_message());
        let (paths, incoming) = (paths.park(), self.incoming.park());
        (Parked { paths, reordering, base, next_control, next_message, packet_size, incoming }, self.counters)
    }

    /// Restores a parked flow, with the arguments that it was made with. Facts about time are forgotten: how
    /// long the peer has been silent, and when a process looked last.
    pub fn unpark(parked: Parked, settings: Arc<Settings>, secret: &Secret, parties: &Parties) -> Self {
        let Parked { paths, reordering, base, next_control, next_message, packet_size, incoming } = parked;
        let paths = Paths::unpark(paths, &settings);
        let mut flow = Self::new(settings, secret, parties);
        flow.next_control = next_control;
        flow.outgoing.resume(paths, reordering, base, next_message);
        flow.outgoing.resume_size(packet_size, &flow.settings);
        flow.incoming = Incoming::unpark(incoming);
        flow
    }
}
