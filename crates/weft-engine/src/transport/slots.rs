//! Slots in which each process of a node publishes what the others need for a collective.
//!
//! `engine/slots.rs` uses them; shared memory in `weft-net` and the simulator implement them.

use super::absent::part;

/// A phase of the collectives of one context. No two phases of any communicators have the same stamp, until
/// the numbers come round again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The context.
    pub context: u32,
    /// The number of phases of the context before this one, modulo 2³².
    pub phase: u32,
}

/// The number of slots for collectives that each process of a node has, by use. Slots are numbered in this
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Slots that serve one communicator at a time each.
    pub communicators: usize,
    /// Slots that serve one persistent operation at a time each, at most [`Self::LONG_MAX`].
    pub long: usize,
    /// Slots for persistent operations that publish little at once, at most [`Self::SHORT_MAX`].
    pub short: usize,
}

impl SlotCounts {
    /// The most slots for persistent operations that publish much at once.
    pub const LONG_MAX: usize = 4;
    /// The most slots for persistent operations that publish little at once.
    pub const SHORT_MAX: usize = 32;
}

part! {
    /// Slots of each process of a node, in which it publishes something for collectives.
    pub trait CollectiveSlots {
        /// The number of slots of each process; the same at all of them, and fewer where there is little
        /// memory for slots.
        fn counts(&self) -> SlotCounts;

        /// The bytes that can be published in a slot at once.
        fn published_max(&self, slot: usize) -> usize;

        /// The number of phases by which a publishing process may be ahead of the others. To publish `len`
        /// bytes in a slot in phase `p`, all processes must have finished phase `p` minus this number.
        fn phases_ahead(&self, slot: usize, len: usize) -> u32;

        /// Publishes `len` bytes in a slot of this process; `fill` writes them in place.
        ///
        /// They replace the bytes that this process published there [`Self::phases_ahead`] phases before,
        /// with as many bytes: no process may need those any more. When this returns, the bytes are visible
        /// to all processes, and ordered before a look at which of them sleep.
        ///
        /// # Panics
        /// When `len` exceeds [`Self::published_max`].
        fn publish(&mut self, slot: usize, stamp: Stamp, len: usize, fill: impl FnOnce(&mut [u8]));

        /// Gives `take` the bytes that the process `of` has published in a slot under a stamp; `None`:
        /// nothing yet. The bytes may be wrong, as whatever a peer writes.
        fn with_published<R>(&self, of: usize, slot: usize, stamp: Stamp, take: impl FnOnce(&[u8]) -> R) -> Option<R>;

        /// Returns whether the process `of` has published in a slot under a stamp; ordered behind
        /// [`super::Sleeping::arm`].
        fn is_published(&self, of: usize, slot: usize, stamp: Stamp) -> bool;

        /// Announces that this process needs nothing more of the phases of a slot before this one.
        fn finish_phases(&mut self, slot: usize, before: Stamp);

        /// The stamp that the process `of` has announced last by [`Self::finish_phases`] for a slot.
        fn finished_phases(&self, of: usize, slot: usize) -> Stamp;
    }
}
