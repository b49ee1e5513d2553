//! Slots in which each process of a node publishes what the others need for a collective.

use super::absent::part;

/// A phase of the collectives of one context: no two of them are alike, of whatever communicators, until
/// numbers come round again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The context.
    pub context: u32,
    /// Phases of it before this one, modulo 2³².
    pub phase: u32,
}

/// How many slots for collectives each process of a node has, and whom they serve. They are numbered in this
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Each serves one communicator at a time.
    pub communicators: usize,
    /// Each serves one persistent operation at a time, at most [`Self::LONG_MAX`].
    pub long: usize,
    /// The same for operations that publish little at once, at most [`Self::SHORT_MAX`].
    pub short: usize,
}

impl SlotCounts {
    /// The most slots for persistent operations that publish much at once.
    pub const LONG_MAX: usize = 4;
    /// The same for those that publish little.
    pub const SHORT_MAX: usize = 32;
}

part! {
    /// Slots of each process of a node, in which it publishes something for collectives.
    pub trait CollectiveSlots {
        /// How many each process has; the same at all of them, and fewer where there is little memory for
        /// them.
        fn counts(&self) -> SlotCounts;

        /// Bytes that can be published in a slot at once.
        fn published_max(&self, slot: usize) -> usize;

        /// A process may publish `len` bytes in a slot if all have finished so many phases before, counting
        /// the one it publishes in.
        fn phases_ahead(&self, slot: usize, len: usize) -> u32;

        /// Publishes `len` bytes in a slot of this process; `fill` writes them in place. They replace what
        /// this process published there [`Self::phases_ahead`] phases before, with as many bytes: no process
        /// may need that any more. When this returns, the bytes are visible to all processes, and ordered
        /// before a look at which of them sleep.
        ///
        /// # Panics
        /// When `len` exceeds [`Self::published_max`].
        fn publish(&mut self, slot: usize, stamp: Stamp, len: usize, fill: impl FnOnce(&mut [u8]));

        /// Gives `take` what the process `of` has published in a slot under a stamp; `None`: nothing yet. It
        /// may be wrong, as whatever a peer writes.
        fn with_published<R>(&self, of: usize, slot: usize, stamp: Stamp, take: impl FnOnce(&[u8]) -> R) -> Option<R>;

        /// Whether there is something; ordered behind [`super::Sleeping::arm`].
        fn is_published(&self, of: usize, slot: usize, stamp: Stamp) -> bool;

        /// This process needs nothing more of what was published in a slot for phases before this one.
        fn finish_phases(&mut self, slot: usize, before: Stamp);

        /// What the process `of` has said so last.
        fn finished_phases(&self, of: usize, slot: usize) -> Stamp;
    }
}
