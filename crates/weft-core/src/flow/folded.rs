//! What is kept of a flow that has been idle for long: enough to go on later as if nothing had been, in a fraction of the memory.

use super::evidence::Reordering;
use super::incoming::{self, Incoming};
use super::outgoing::Outgoing;
use super::settings::Settings;
use super::ways::{FoldedWays, Ways};
use super::{Counters, Flow};
use crate::wire::{Number, Secret};
use alloc::sync::Arc;

/// Most bytes that a folded flow occupies whose bulk data does not take several ways.
pub const FOLDED_BYTES_MAX: usize = 256;
const _: () = assert!(size_of::<Folded>() <= FOLDED_BYTES_MAX);

/// A flow of which nothing is under way: see [`Flow::fold`].
#[derive(Debug)]
pub struct Folded {
    ways: FoldedWays,
    reordering: Reordering,
    base: u64,
    next_bare: u64,
    next_message: Number,
    incoming: incoming::Folded,
}

impl Flow {
    /// Whether nothing is lost by folding: nothing is under way, held or awaited, and nobody is to be told of anything.
    pub fn is_foldable(&self) -> bool {
        self.is_idle() && self.incoming.is_foldable() && !self.failed && !self.watched && self.events.is_empty()
    }

    /// What must be known to go on with [`Flow::unfold`], and what happened so far: that counts from zero again.
    ///
    /// Panics if the flow is not foldable.
    pub fn fold(self) -> (Folded, Counters) {
        assert!(self.is_foldable(), "a flow that is in use");
        let Outgoing { ways, reordering, base, queue, .. } = self.outgoing;
        let (next_bare, next_message) = (self.next_bare, queue.next_message());
        let (ways, incoming) = (ways.fold(), self.incoming.fold());
        (Folded { ways, reordering, base, next_bare, next_message, incoming }, self.counters)
    }

    /// The flow that was folded, with the arguments that it was made with. What it knew of time alone is forgotten: how long the
    /// peer has been silent, and when somebody looked last.
    pub fn unfold(folded: Folded, settings: Arc<Settings>, secret: &Secret, own_index: u32, peer_index: u32) -> Self {
        let Folded { ways, reordering, base, next_bare, next_message, incoming } = folded;
        let ways = Ways::unfold(ways, &settings);
        let mut flow = Self::new(settings, secret, own_index, peer_index);
        flow.next_bare = next_bare;
        flow.outgoing.resume(ways, reordering, base, next_message);
        flow.incoming = Incoming::unfold(incoming);
        flow
    }
}
