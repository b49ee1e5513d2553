//! Collectives through memory that the processes of a node share: each process publishes in a slot of its own
//! what others need, and takes what it needs from their slots.
//!
//! A slot serves one communicator at a time, or one persistent operation. All processes count the operations
//! of that communicator, or the runs of that operation, in the same *phases*. Each process does its
//! operations one after the other: one begins when this process has [finished](NodeCollectives::finish_turn)
//! those before. So a process that has published for an operation has finished all earlier ones. In some
//! operations only some processes publish. A process that publishes then must look whether the silent ones
//! have finished with the cell that it is to write.
//!
//! This room lists what each operation waits for. A call that makes progress, or is about to sleep, looks for
//! that.

use std::sync::Arc;

use super::FULL_RING_RETRY_NS;
use super::link::Link;
use crate::arguments::{CollectiveScope, Turn};
use crate::error::{Error, Result};
use crate::group::{Group, PeerId};
use crate::memory::{UserData, Writer};
use crate::transport::{CollectiveSlots, Platform, Stamp};

/// Where a process has something that others may copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exposed {
    address: u64,
    bytes: u64,
}

impl Exposed {
    /// Of one as it is published.
    const BYTES: usize = 16;

    fn of(data: &UserData) -> Self {
        match data.program_run(&(0..data.len())) {
            Some(start) => Self { address: start.expose_provenance() as u64, bytes: data.len() },
            None => Self { address: 0, bytes: 0 },
        }
    }

    fn to_bytes(self) -> [u8; Self::BYTES] {
        (u128::from(self.bytes) << 64 | u128::from(self.address)).to_le_bytes()
    }

    /// `None`: it is something else.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = u128::from_le_bytes(bytes.try_into().ok()?);
        Some(Self { address: word as u64, bytes: (word >> 64) as u64 })
    }
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotWait {
    /// Something that the process of the node with a local rank publishes.
    Published { slot: u32, local_rank: u32, stamp: Stamp },
    /// That all have finished what stands where something is to be published.
    Room { slot: u32 },
}

/// What the slots of this process serve, and what is waited for.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Option<Slot>>,
    waits: Vec<SlotWait>,
}

struct Slot {
    context: u32,
    group: Arc<Group>,
    /// The local rank of each rank that is there.
    local_ranks: Vec<Option<u32>>,
    /// All of them but this process's own, with the first phase that each is not known to have finished.
    others: Vec<(u32, u32)>,
    /// Phases of operations that have begun,
    begun: u32,
    /// and that this process has finished.
    finished: u32,
    /// An operation has failed here, so that nobody knows any more who stands where.
    is_broken: bool,
    /// Why a process will publish nothing more here.
    abandoned: Option<Error>,
    /// How this process writes to what the others read.
    writer: Writer,
}

impl Slots {
    fn get(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(slot as usize)?.as_ref()
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// The context in which a slot has served last, or serves.
    pub(super) fn last_context(&self, slot: u32) -> Option<u32> {
        Some(self.get(slot)?.context)
    }

    /// Whether a slot can serve another communicator: nobody reads what this process has published for the
    /// last one.
    pub(super) fn is_free(&self, slot: u32, published: Option<&impl CollectiveSlots>) -> bool {
        let (Some(published), Some(open)) = (published, self.get(slot)) else { return true };
        open.begun == open.finished
            && !open.is_broken
            && open.others.iter().all(|(local_rank, _)| {
                let theirs = published.finished_phases(*local_rank as usize, slot as usize);
                // A later context: they have left this one behind.
                let left = theirs.context > open.context;
                left || (theirs.context == open.context && reaches(theirs.phase, open.finished))
            })
    }

    /// Whether an operation waits for something.
    #[inline]
    pub(super) fn awaits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// The local ranks of those that an operation waits for here, some of them more than once.
    pub(super) fn awaited_local_ranks(&self) -> impl Iterator<Item = u32> + '_ {
        self.waits.iter().flat_map(|wait| {
            let (only, slot) = match *wait {
                SlotWait::Published { slot, local_rank, .. } => (Some(local_rank), slot),
                SlotWait::Room { slot } => (None, slot),
            };
            let others = self.get(slot).map_or(&[][..], |open| &open.others);
            others
                .iter()
                .map(|(local_rank, _)| *local_rank)
                .filter(move |local_rank| only.is_none_or(|only| only == *local_rank))
        })
    }

    /// Whether something has been published that is waited for.
    #[inline]
    pub(super) fn is_awaited_there(&self, published: Option<&impl CollectiveSlots>) -> bool {
        let Some(published) = published else { return false };
        self.waits.iter().any(|wait| match wait {
            SlotWait::Published { slot, local_rank, stamp } => {
                published.is_published(*local_rank as usize, *slot as usize, *stamp)
            }
            SlotWait::Room { .. } => false,
        })
    }

    /// How soon to look again for what nobody wakes this process for, in nanoseconds.
    pub(super) fn due(&self) -> Option<u64> {
        let for_room = self.waits.iter().any(|wait| matches!(wait, SlotWait::Room { .. }));
        for_room.then_some(FULL_RING_RETRY_NS)
    }
}

/// Whether phase `a` is no earlier than `b`; they are never far apart.
fn reaches(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

/// The slots of this process, and the link to the rest of the engine.
pub struct NodeCollectives<'a, P: Platform> {
    slots: &'a mut Slots,
    link: Link<'a, P>,
}

impl<'a, P: Platform> NodeCollectives<'a, P> {
    #[inline(always)]
    pub(super) fn new(slots: &'a mut Slots, link: Link<'a, P>) -> Self {
        Self { slots, link }
    }
}

impl<P: Platform> NodeCollectives<'_, P> {
    /// From now on the slot serves the collectives in `context` of those of `group` that are on this node.
    /// For a slot that serves operations the contexts are numbers of its own, of which each use has a higher
    /// one at all processes.
    pub fn open_slot(&mut self, slot: u32, context: u32, group: &Arc<Group>) {
        let Some(own) = self.link.own_local_rank() else { return };
        let local_rank = |peer: &PeerId| self.link.local_rank(*peer).map(|local_rank| local_rank as u32);
        let local_ranks: Vec<Option<u32>> = group.members.iter().map(local_rank).collect();
        let others = local_ranks
            .iter()
            .flatten()
            .filter(|local_rank| **local_rank as usize != own)
            .map(|local_rank| (*local_rank, 0))
            .collect();
        let slots = &mut self.slots.slots;
        if slots.len() <= slot as usize {
            slots.resize_with(slot as usize + 1, || None);
        }
        let group = group.clone();
        let (begun, finished, writer) = (0, 0, Writer::new(P::ticks));
        let (is_broken, abandoned) = (false, None);
        slots[slot as usize] =
            Some(Slot { context, group, local_ranks, others, begun, finished, is_broken, abandoned, writer });
        if let Some(published) = self.link.published_mut() {
            published.finish_phases(slot as usize, Stamp { context, phase: 0 });
        }
    }

    /// An operation of so many phases begins in a slot; all processes do this in the same order.
    pub fn take_turn(&mut self, slot: u32, phases: u32) -> Option<Turn> {
        let open = self.slots.get_mut(slot)?;
        let first = open.begun;
        open.begun = first.wrapping_add(phases);
        Some(Turn { slot, first })
    }

    fn slot(&self, turn: &Turn) -> Option<&Slot> {
        self.slots.get(turn.slot)
    }

    /// Why nothing more can come of operations in a slot.
    #[cold]
    pub(crate) fn slot_error(&self, turn: &Turn) -> Option<Error> {
        let open = self.slot(turn)?;
        let failed = open
            .group
            .members
            .iter()
            .zip(&open.local_ranks)
            .find(|(peer, local_rank)| local_rank.is_some() && self.link.has_failed(**peer));
        if let Some((peer, _)) = failed {
            return Some(self.link.failure(*peer));
        }
        if let Some(error) = &open.abandoned {
            return Some(error.clone());
        }
        open.is_broken.then(|| {
            let message = "an earlier collective operation of this communicator has failed: only those that need no other process can go on";
            Error::new(crate::error::ErrorClass::ProcAborted, message)
        })
    }

    /// Whether this process has finished all that comes before an operation.
    #[inline]
    pub(crate) fn is_turn(&self, turn: &Turn) -> bool {
        self.slot(turn).is_some_and(|open| open.finished == turn.first)
    }

    /// Publishes `data` in a phase of an operation whose turn it is; false: not yet.
    #[inline]
    pub(crate) fn publish(&mut self, turn: &Turn, phase: u32, data: &UserData) -> bool {
        self.publish_with(turn, phase, data.len(), |out, writer| data.read_for_others(0, out, writer))
    }

    /// Publishes `len` bytes that `fill` writes, in the same way.
    #[inline]
    fn publish_with(&mut self, turn: &Turn, phase: u32, len: u64, fill: impl FnOnce(&mut [u8], &mut Writer)) -> bool {
        let Self { slots, link } = self;
        let Some(published) = link.published_mut() else { return false };
        let Some(open) = slots.get_mut(turn.slot) else { return false };
        let phase = turn.first.wrapping_add(phase);
        // All must have finished the phase whose cell this is.
        let needed = phase.wrapping_sub(published.phases_ahead(turn.slot as usize, len as usize)).wrapping_add(1);
        for (local_rank, known) in &mut open.others {
            if reaches(*known, needed) {
                continue;
            }
            let theirs = published.finished_phases(*local_rank as usize, turn.slot as usize);
            if theirs.context == open.context {
                *known = theirs.phase;
            }
            if !reaches(*known, needed) {
                return false;
            }
        }
        let stamp = Stamp { context: open.context, phase };
        let writer = &mut open.writer;
        published.publish(turn.slot as usize, stamp, len as usize, |out| fill(out, writer));
        link.wake_if_asleep(open.others.iter().map(|(local_rank, _)| *local_rank as usize));
        true
    }

    /// Publishes where `data` is; as [`Self::publish`]. What is not one run of memory is told as nothing.
    pub(crate) fn expose(&mut self, turn: &Turn, phase: u32, data: &UserData) -> bool {
        let exposed = Exposed::of(data);
        self.publish_with(turn, phase, Exposed::BYTES as u64, |out, _| out.copy_from_slice(&exposed.to_bytes()))
    }

    /// Copies the bytes from `at` on of what rank `from` of the group has exposed in a phase of an operation,
    /// as many as are there, to `data`; there are `of` in all, as far as this process knows. `None`: nothing
    /// has been exposed yet.
    pub(crate) fn fetch_exposed(
        &mut self,
        local_rank: &CollectiveScope,
        turn: &Turn,
        (phase, from): (u32, u32),
        (at, of): (u64, u64),
        data: impl FnOnce() -> UserData,
    ) -> Option<Result<()>> {
        let exposed = self.with_published(turn, phase, from, Exposed::from_bytes)?;
        Some(self.copy_exposed(local_rank.group.members[from as usize], exposed, (at, of), &data()))
    }

    fn copy_exposed(
        &mut self,
        peer: PeerId,
        exposed: Option<Exposed>,
        (at, of): (u64, u64),
        data: &UserData,
    ) -> Result<()> {
        let link = &mut self.link;
        let number = link.number(peer).unwrap_or_default();
        let failed = |cause: &str| {
            let message = format!("the copy from the memory of process {number} of the job failed: {cause}");
            Error::new(crate::error::ErrorClass::Other, message)
        };
        let Some(Exposed { address, bytes }) = exposed else {
            return Err(failed("it has not said where its data is"));
        };
        let Some(process) = link.neighbour(peer) else { return Err(failed("the system refuses it")) };
        let range = 0..bytes.saturating_sub(at).min(data.len());
        let copied = link.fetch(process, address.wrapping_add(at), data, range);
        link.note_copied();
        copied.map_err(|cause| failed(&cause.to_string()))?;
        if bytes > of { Err(crate::memory::too_long(bytes, of)) } else { Ok(()) }
    }

    /// What rank `from` publishes in a phase of an operation.
    #[inline]
    fn stamped(&self, turn: &Turn, phase: u32, from: u32) -> Option<(u32, Stamp)> {
        let open = self.slot(turn)?;
        let local_rank = *open.local_ranks.get(from as usize)?.as_ref()?;
        Some((local_rank, Stamp { context: open.context, phase: turn.first.wrapping_add(phase) }))
    }

    /// Gives `take` what rank `from` has published in a phase of an operation; `None`: nothing yet.
    #[inline]
    pub(crate) fn with_published<R>(
        &self,
        turn: &Turn,
        phase: u32,
        from: u32,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let (local_rank, stamp) = self.stamped(turn, phase, from)?;
        self.link.published()?.with_published(local_rank as usize, turn.slot as usize, stamp, take)
    }

    /// Rank `from` has published something in an operation: it has finished those before.
    #[inline]
    pub(crate) fn note_published(&mut self, turn: &Turn, from: u32) {
        let Some(open) = self.slots.get_mut(turn.slot) else { return };
        let Some(Some(local_rank)) = open.local_ranks.get(from as usize) else { return };
        let known = open.others.iter_mut().find(|(other, _)| other == local_rank).map(|(_, known)| known);
        if let Some(known) = known.filter(|known| !reaches(**known, turn.first)) {
            *known = turn.first;
        }
    }

    /// This process needs nothing more of what was published for a phase of an operation, and for those
    /// before it.
    #[inline]
    pub(crate) fn finish_phase(&mut self, turn: &Turn, phase: u32) {
        let Self { slots, link } = self;
        let (Some(published), Some(open)) = (link.published_mut(), slots.get(turn.slot)) else { return };
        let before = turn.first.wrapping_add(phase).wrapping_add(1);
        published.finish_phases(turn.slot as usize, Stamp { context: open.context, phase: before });
    }

    /// This process has done its part in an operation of so many phases: the next one may begin.
    #[inline]
    pub(crate) fn finish_turn(&mut self, turn: &Turn, phases: u32) {
        let Self { slots, link } = self;
        let (Some(published), Some(open)) = (link.published_mut(), slots.get_mut(turn.slot)) else { return };
        open.finished = turn.first.wrapping_add(phases);
        published.finish_phases(turn.slot as usize, Stamp { context: open.context, phase: open.finished });
        if open.finished != open.begun {
            // Others wait for their turn.
            self.link.notify();
        }
    }

    /// The ranks that are on this node, of those whose operation this is.
    pub(crate) fn ranks_in_slot(&self, turn: &Turn) -> impl Iterator<Item = u32> + use<P> {
        let local_ranks = self.slot(turn).map(|open| open.local_ranks.clone()).unwrap_or_default();
        (0..).zip(local_ranks).filter(|(_, local_rank)| local_rank.is_some()).map(|(rank, _)| rank)
    }

    /// An operation is given up: those that come after it in its slot cannot be done.
    pub(crate) fn break_slot(&mut self, turn: &Turn) {
        if let Some(open) = self.slots.get_mut(turn.slot) {
            open.is_broken = true;
            self.link.notify();
        }
    }

    /// What a step waits for that could not be done.
    pub(crate) fn slot_wait(&self, turn: &Turn, phase: u32, from: Option<u32>) -> SlotWait {
        match from.and_then(|from| self.stamped(turn, phase, from)) {
            Some((local_rank, stamp)) => SlotWait::Published { slot: turn.slot, local_rank, stamp },
            None => SlotWait::Room { slot: turn.slot },
        }
    }

    /// From now on it is looked for this in each pass, and before each sleep.
    pub(crate) fn await_slot(&mut self, wait: SlotWait) {
        self.slots.waits.push(wait);
    }

    /// No more.
    pub(crate) fn forget_slot_wait(&mut self, wait: SlotWait) {
        if let Some(at) = self.slots.waits.iter().position(|known| *known == wait) {
            self.slots.waits.swap_remove(at);
        }
    }

    /// `peer` publishes nothing more: what waits for that, and is not there, fails with `error`. Whether
    /// anything does.
    pub fn nothing_more_published_by(&mut self, peer: PeerId, error: &Error) -> bool {
        let Some(local_rank) = self.link.known_local_rank(peer) else { return false };
        let is_awaited = self.slots.awaited_local_ranks().any(|awaited| awaited as usize == local_rank);
        if !is_awaited || self.slots.is_awaited_there(self.link.published()) {
            return false;
        }
        for at in 0..self.slots.waits.len() {
            let (SlotWait::Published { slot, .. } | SlotWait::Room { slot }) = self.slots.waits[at];
            if let Some(open) = self.slots.get_mut(slot)
                && open.others.iter().any(|(other, _)| *other as usize == local_rank)
            {
                open.abandoned.get_or_insert_with(|| error.clone());
            }
        }
        self.link.notify();
        true
    }

    /// In the progress loop: operations that wait for what is there now, or for room, are to be moved on.
    #[inline]
    pub(super) fn progress(&mut self) {
        if self.slots.awaits() && (self.slots.is_awaited_there(self.link.published()) || self.slots.due().is_some()) {
            self.link.notify();
        }
    }
}
