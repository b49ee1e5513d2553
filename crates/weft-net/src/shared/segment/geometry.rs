//! The geometry of a segment: the parts that each rank has in it, and their places.

use weft_engine::transport::SlotCounts;

use super::super::slot_area::{SHORT_SLOT_BYTES, SLOT_BYTES};
use super::super::{LOCAL_SIZE_MAX, Settings, sizes};
use super::RankState;

pub(super) const PAGE: usize = 4096;
/// Most bytes of all rings for which the rings are reserved at once. Above it each ring is reserved on its
/// first use.
pub(super) const EAGER_BYTES_MAX: usize = 32 << 20;
/// Bytes that the rings of a few ranks share. Each has at most [`sizes::ring_bytes_max`] of them. Many ranks
/// have modest rings.
const GENEROUS_BYTES: usize = 8 << 20;
const MODEST_RING_BYTES: usize = 256 << 10;
/// Most slots for collectives of each rank: that many communicators can use slots at a time. There are fewer
/// where many ranks share the node.
const SLOTS_MAX: usize = 8;
/// Most bytes that the slots of all ranks take, unless a single slot for each rank takes more.
const SLOTS_BYTES_MAX: usize = 16 << 20;
/// Bytes from one slot to the next. Short slots follow each other closely.
const SLOT_STRIDE: usize = SLOT_BYTES.next_multiple_of(PAGE);
/// Most bytes that the short slots of all ranks for persistent collectives take, and as many again for the
/// long ones, unless a single short slot for each rank takes more.
const OPERATION_SLOTS_BYTES_MAX: usize = 4 << 20;

/// Sizes of a segment, agreed by all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) local_size: usize,
    pub(crate) ring_bytes: usize,
    /// Slots for collectives that each rank has.
    pub(crate) slots: SlotCounts,
    /// There are no slots, and each ring is reserved on its first use.
    pub(crate) only_rings: bool,
}

impl Geometry {
    /// Chooses the largest rings of these settings that are fair for `local_size` ranks.
    pub(crate) fn choose(local_size: usize, settings: &Settings) -> Self {
        let Settings { ring_bytes_max, only_rings, .. } = *settings;
        let generous = GENEROUS_BYTES / (local_size * (local_size - 1)).max(1);
        let modest = (EAGER_BYTES_MAX / (local_size * local_size)).min(MODEST_RING_BYTES);
        let most = ring_bytes_max.min(sizes::RING_BYTES_MAX);
        let ring_bytes = (generous.max(modest).min(most) / PAGE * PAGE).max(sizes::RING_BYTES_MIN);
        let communicators = if local_size == 1 || only_rings {
            0
        } else {
            (SLOTS_BYTES_MAX / (local_size * SLOT_STRIDE)).clamp(1, SLOTS_MAX)
        };
        // Rings that take memory only when they are used need not share it.
        let ring_bytes = if only_rings { most } else { ring_bytes };
        Self { local_size, ring_bytes, slots: Self::slots(local_size, communicators), only_rings }
    }

    /// Returns the slots of each of `local_size` ranks, of which `communicators` are for communicators. A
    /// rank that has no memory for those has no other slots.
    pub(super) fn slots(local_size: usize, communicators: usize) -> SlotCounts {
        if communicators == 0 {
            return SlotCounts::default();
        }
        let fit = |bytes: usize| OPERATION_SLOTS_BYTES_MAX / (local_size * bytes);
        let (long, short) = (fit(SLOT_STRIDE), fit(SHORT_SLOT_BYTES));
        SlotCounts { communicators, long: long.min(SlotCounts::LONG_MAX), short: short.clamp(1, SlotCounts::SHORT_MAX) }
    }

    /// Returns a smaller geometry: without slots, and then with rings of half the size. None when the rings
    /// are the smallest.
    pub(super) fn smaller(self) -> Option<Self> {
        if self.slots.communicators > 0 { Some(Self { slots: SlotCounts::default(), ..self }) } else { self.halved() }
    }

    /// Returns the same geometry with rings of half the size. None when the rings are the smallest.
    pub(super) fn halved(self) -> Option<Self> {
        let ring_bytes = (self.ring_bytes / 2 / PAGE * PAGE).max(sizes::RING_BYTES_MIN);
        (self.ring_bytes > sizes::RING_BYTES_MIN).then_some(Self { ring_bytes, ..self })
    }

    /// Returns the ranges that must be reserved from the beginning. They leave out the rings of ranks to
    /// themselves or, where rings are reserved on their first use, all rings.
    pub(super) fn eager_ranges(self) -> impl Iterator<Item = (usize, usize)> {
        let rings = if self.is_lazy() { 0 } else { self.local_size - 1 };
        let between = (0..rings).map(move |i| (self.ring_start(i, i) + self.ring_bytes, self.ring_start(i + 1, i + 1)));
        std::iter::once((0, self.rings_start())).chain(between)
    }

    pub(super) fn is_valid(self) -> bool {
        (1..=LOCAL_SIZE_MAX).contains(&self.local_size)
            && (sizes::RING_BYTES_MIN..=sizes::RING_BYTES_MAX).contains(&self.ring_bytes)
            && self.ring_bytes.is_multiple_of(PAGE)
            && self.slots.communicators <= SLOTS_MAX
    }

    pub(super) fn slots_start(self) -> usize {
        (PAGE + self.local_size * size_of::<RankState>()).next_multiple_of(PAGE)
    }

    /// Returns the bytes of a rank's slots.
    fn slots_bytes(self) -> usize {
        let SlotCounts { communicators, long, short } = self.slots;
        (communicators + long) * SLOT_STRIDE + (short * SHORT_SLOT_BYTES).next_multiple_of(PAGE)
    }

    /// Returns whether a slot has small cells only.
    #[inline]
    pub(crate) fn is_short(self, slot: usize) -> bool {
        slot >= self.slots.communicators + self.slots.long
    }

    /// Returns the offset at which a slot begins.
    #[inline]
    pub(super) fn slot_start(self, of: usize, slot: usize) -> usize {
        let SlotCounts { communicators, long, short } = self.slots;
        let before = communicators + long;
        assert!(of < self.local_size && slot < before + short);
        let start = self.slots_start() + of * self.slots_bytes();
        start + slot.min(before) * SLOT_STRIDE + slot.saturating_sub(before) * SHORT_SLOT_BYTES
    }

    pub(super) fn rings_start(self) -> usize {
        self.slots_start() + self.local_size * self.slots_bytes()
    }

    pub(super) fn ring_start(self, to: usize, from: usize) -> usize {
        assert!(to < self.local_size && from < self.local_size);
        self.rings_start() + (to * self.local_size + from) * self.ring_bytes
    }

    pub(crate) fn total(self) -> usize {
        self.rings_start() + self.local_size * self.local_size * self.ring_bytes
    }

    /// Returns whether rings are reserved on their first use.
    pub(crate) fn is_lazy(self) -> bool {
        self.only_rings || self.local_size * self.local_size * self.ring_bytes > EAGER_BYTES_MAX
    }
}
