//! Collectives through memory that the processes of a node share: each process publishes data in a slot of
//! its own, and takes what it needs from the slots of the others.
//!
//! A slot serves one communicator at a time, or one persistent operation. All processes count the operations
//! of that communicator, or the runs of that operation, in the same *phases*. Each process does its
//! operations one after the other: one begins when this process has [finished](NodeCollectives::finish_turn)
//! those before. So a process that has published for an operation has finished all earlier ones.
//!
//! In some operations only some processes publish. A process that publishes then must check whether the
//! silent ones have finished with the cell that it is to write.
//!
//! This room lists the waits of all operations. A call that makes progress, or is about to sleep, looks
//! whether they are over.
//!
//! The schedules of collectives publish and take through this room. `weft-mpi` opens the slots of
//! communicators and persistent operations.

use std::sync::Arc;

use super::FULL_RING_RETRY_NS;
use super::link::Link;
use crate::arguments::{CollectiveScope, Turn};
use crate::error::{Error, Result};
use crate::group::{Group, PeerId};
use crate::memory::{UserData, Writer};
use crate::transport::{CollectiveSlots, Platform, Stamp};

/// The place of data that the other processes may copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exposed {
    address: u64,
    bytes: u64,
}

impl Exposed {
    /// The bytes of a place as it is published.
    const BYTES: usize = 16;

    fn of(data: &UserData) -> Self {
        match data.address() {
            Some(address) => Self { address, bytes: data.len() },
            None => Self { address: 0, bytes: 0 },
        }
    }

    fn to_bytes(self) -> [u8; Self::BYTES] {
        (u128::from(self.bytes) << 64 | u128::from(self.address)).to_le_bytes()
    }

    /// Reads a place; `None`: the bytes are something else.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = u128::from_le_bytes(bytes.try_into().ok()?);
        Some(Self { address: word as u64, bytes: (word >> 64) as u64 })
    }
}

/// The reason for which an operation waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotWait {
    /// The process of the node with this local rank has still to publish.
    Published { slot: u32, local_rank: u32, stamp: Stamp },
    /// All processes must finish the phases before `needed`: they use the cell in which this process is to
    /// publish.
    Room { slot: u32, needed: u32 },
    /// This process must finish the operations before this one.
    Turn { slot: u32 },
}

/// The uses of this process's slots, and the waits of operations.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Option<Slot>>,
    waits: Vec<SlotWait>,
}

struct Slot {
    context: u32,
    group: Arc<Group>,
    /// The local rank of each rank that is on this node.
    local_ranks: Vec<Option<u32>>,
    /// The local ranks except this process's own, each with the first phase that it is not known to have
    /// finished.
    others: Vec<(u32, u32)>,
    /// The phase before which all processes must have finished, to make room for what could not be published
    /// last.
    needed: u32,
    /// The number of phases of operations that have begun,
    begun: u32,
    /// and of those that this process has finished.
    finished: u32,
    /// Set when an operation has failed here, so that the phases of the processes are not known any more.
    is_broken: bool,
    /// The reason why a process will publish nothing more here.
    abandoned: Option<Error>,
    /// The writer for data that the others read.
    writer: Writer,
}

impl Slots {
    fn get(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(slot as usize)?.as_ref()
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// The context that a slot serves, or has served last.
    pub(super) fn last_context(&self, slot: u32) -> Option<u32> {
        Some(self.get(slot)?.context)
    }

    /// Returns whether a slot can serve another communicator: nobody reads what this process has published
    /// for the last one.
    pub(super) fn is_free(&self, slot: u32, published: Option<&impl CollectiveSlots>) -> bool {
        let (Some(published), Some(open)) = (published, self.get(slot)) else { return true };
        open.begun == open.finished
            && !open.is_broken
            && open.others.iter().all(|(local_rank, _)| {
                let theirs = published.finished_phases(*local_rank as usize, slot as usize);
                // The other process is in a later context: it has left this one behind.
                let left = theirs.context > open.context;
                left || (theirs.context == open.context && reaches(theirs.phase, open.finished))
            })
    }

    /// Returns whether an operation waits for a slot.
    #[inline]
    pub(super) fn awaits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// The local ranks of the processes for which an operation waits here, some of them more than once.
    pub(super) fn awaited_local_ranks(&self) -> impl Iterator<Item = u32> + '_ {
        self.waits.iter().flat_map(|wait| {
            let (only, slot) = match *wait {
                SlotWait::Published { slot, local_rank, .. } => (Some(local_rank), slot),
                SlotWait::Room { slot, .. } | SlotWait::Turn { slot } => (None, slot),
            };
            let others = self.get(slot).map_or(&[][..], |open| &open.others);
            others
                .iter()
                .map(|(local_rank, _)| *local_rank)
                .filter(move |local_rank| only.is_none_or(|only| only == *local_rank))
        })
    }

    /// Returns whether something is there for which an operation waits: published data, or room.
    #[inline]
    pub(super) fn is_awaited_there(&self, published: Option<&impl CollectiveSlots>) -> bool {
        let Some(published) = published else { return false };
        self.waits.iter().any(|wait| match wait {
            SlotWait::Published { slot, local_rank, stamp } => {
                published.is_published(*local_rank as usize, *slot as usize, *stamp)
            }
            SlotWait::Room { slot, needed } => self.get(*slot).is_some_and(|open| {
                let finished = |local_rank| finished_by(published, local_rank, *slot, open.context);
                open.others.iter().all(|(local_rank, known)| {
                    reaches(*known, *needed) || finished(*local_rank).is_some_and(|phase| reaches(phase, *needed))
                })
            }),
            SlotWait::Turn { .. } => false,
        })
    }

    /// The nanoseconds after which to look again for room, of which no process tells this one.
    pub(super) fn due(&self) -> Option<u64> {
        let for_room = self.waits.iter().any(|wait| matches!(wait, SlotWait::Room { .. }));
        for_room.then_some(FULL_RING_RETRY_NS)
    }
}

/// The first phase of `context` that a process of the node has not finished; `None`: it has left that
/// context, or has not begun it.
fn finished_by(published: &impl CollectiveSlots, local_rank: u32, slot: u32, context: u32) -> Option<u32> {
    let theirs = published.finished_phases(local_rank as usize, slot as usize);
    (theirs.context == context).then_some(theirs.phase)
}

/// Returns whether phase `a` is no earlier than `b`; they are never far apart.
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
    /// Opens the slot for the collectives in `context` of the members of `group` on this node.
    ///
    /// A slot for persistent operations has contexts of its own: they are numbers of which each use has a
    /// higher one at all processes.
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
        let (needed, begun, finished, writer) = (0, 0, 0, Writer::new(P::ticks));
        let (is_broken, abandoned) = (false, None);
        slots[slot as usize] =
            Some(Slot { context, group, local_ranks, others, needed, begun, finished, is_broken, abandoned, writer });
        if let Some(published) = self.link.published_mut() {
            published.finish_phases(slot as usize, Stamp { context, phase: 0 });
        }
    }

    /// Begins an operation of this many phases in a slot; all processes do this in the same order.
    pub fn take_turn(&mut self, slot: u32, phases: u32) -> Option<Turn> {
        let open = self.slots.get_mut(slot)?;
        let first = open.begun;
        open.begun = first.wrapping_add(phases);
        Some(Turn { slot, first })
    }

    fn slot(&self, turn: &Turn) -> Option<&Slot> {
        self.slots.get(turn.slot)
    }

    /// The reason why operations in a slot cannot succeed any more.
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

    /// Returns whether this process has finished all operations before this one.
    #[inline]
    pub(crate) fn is_turn(&self, turn: &Turn) -> bool {
        self.slot(turn).is_some_and(|open| open.finished == turn.first)
    }

    /// Publishes `data` in a phase of an operation whose turn it is; `None`: that is not possible yet.
    ///
    /// # Errors
    /// `MPI_ERR_TRUNCATE`: there is no room for so much, because the program sends more than it receives. The
    /// others get what there is room for, so that none of them waits.
    #[inline]
    pub(crate) fn publish(&mut self, turn: &Turn, phase: u32, data: &UserData) -> Option<Result<()>> {
        let (bytes, room) = (data.len(), self.link.published()?.published_max(turn.slot as usize) as u64);
        let fill = |out: &mut [u8], writer: &mut Writer| data.read_for_others(0, out, writer);
        if !self.publish_with(turn, phase, bytes.min(room), fill) {
            return None;
        }
        Some(if bytes > room { Err(crate::memory::too_long(bytes, room)) } else { Ok(()) })
    }

    /// Publishes `len` bytes that `fill` writes; returns false if that is not possible yet.
    #[inline]
    fn publish_with(&mut self, turn: &Turn, phase: u32, len: u64, fill: impl FnOnce(&mut [u8], &mut Writer)) -> bool {
        let Self { slots, link } = self;
        let Some(published) = link.published_mut() else { return false };
        let Some(open) = slots.get_mut(turn.slot) else { return false };
        let phase = turn.first.wrapping_add(phase);
        // All processes must have finished the phase that used this cell.
        let needed = phase.wrapping_sub(published.phases_ahead(turn.slot as usize, len as usize)).wrapping_add(1);
        for (local_rank, known) in &mut open.others {
            if reaches(*known, needed) {
                continue;
            }
            *known = finished_by(published, *local_rank, turn.slot, open.context).unwrap_or(*known);
            if !reaches(*known, needed) {
                open.needed = needed;
                return false;
            }
        }
        let stamp = Stamp { context: open.context, phase };
        let writer = &mut open.writer;
        published.publish(turn.slot as usize, stamp, len as usize, |out| fill(out, writer));
        if !cfg!(weft_mutant = "published_without_waking") {
            link.wake_if_asleep(open.others.iter().map(|(local_rank, _)| *local_rank as usize));
        }
        true
    }

    /// Publishes the place of `data`, as [`Self::publish_with`] does. Data that is not one run of memory is
    /// published as nothing.
    pub(crate) fn expose(&mut self, turn: &Turn, phase: u32, data: &UserData) -> bool {
        let exposed = Exposed::of(data);
        self.publish_with(turn, phase, Exposed::BYTES as u64, |out, _| out.copy_from_slice(&exposed.to_bytes()))
    }

    /// Copies bytes that rank `from` of the group has exposed in a phase of an operation to `data`: from `at`
    /// on, as many as are there. `of` is the number of all bytes, as far as this process knows. `None`:
    /// nothing has been exposed yet.
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

    /// The process and the stamp of what rank `from` publishes in a phase of an operation.
    #[inline]
    fn stamped(&self, turn: &Turn, phase: u32, from: u32) -> Option<(u32, Stamp)> {
        let open = self.slot(turn)?;
        let local_rank = *open.local_ranks.get(from as usize)?.as_ref()?;
        Some((local_rank, Stamp { context: open.context, phase: turn.first.wrapping_add(phase) }))
    }

    /// Gives `take` the bytes that rank `from` has published in a phase of an operation; `None`: nothing yet.
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

    /// Notes that rank `from` has published something in an operation: it has finished the operations before.
    #[inline]
    pub(crate) fn note_published(&mut self, turn: &Turn, from: u32) {
        let Some(open) = self.slots.get_mut(turn.slot) else { return };
        let Some(Some(local_rank)) = open.local_ranks.get(from as usize) else { return };
        let known = open.others.iter_mut().find(|(other, _)| other == local_rank).map(|(_, known)| known);
        if let Some(known) = known.filter(|known| !reaches(**known, turn.first)) {
            *known = turn.first;
        }
    }

    /// Announces that this process needs nothing more of a phase of an operation, and of the phases before
    /// it.
    #[inline]
    pub(crate) fn finish_phase(&mut self, turn: &Turn, phase: u32) {
        let Self { slots, link } = self;
        let (Some(published), Some(open)) = (link.published_mut(), slots.get(turn.slot)) else { return };
        let before = turn.first.wrapping_add(phase).wrapping_add(1);
        published.finish_phases(turn.slot as usize, Stamp { context: open.context, phase: before });
    }

    /// Ends this process's part in an operation of this many phases: the next one may begin.
    #[inline]
    pub(crate) fn finish_turn(&mut self, turn: &Turn, phases: u32) {
        let Self { slots, link } = self;
        let (Some(published), Some(open)) = (link.published_mut(), slots.get_mut(turn.slot)) else { return };
        open.finished = turn.first.wrapping_add(phases);
        published.finish_phases(turn.slot as usize, Stamp { context: open.context, phase: open.finished });
        if open.finished != open.begun {
            // Other operations wait for their turn.
            self.link.notify();
        }
    }

    /// The ranks of an operation that are on this node.
    pub(crate) fn ranks_in_slot(&self, turn: &Turn) -> impl Iterator<Item = u32> + use<P> {
        let local_ranks = self.slot(turn).map(|open| open.local_ranks.clone()).unwrap_or_default();
        (0..).zip(local_ranks).filter(|(_, local_rank)| local_rank.is_some()).map(|(rank, _)| rank)
    }

    /// Gives an operation up: operations that come after it in its slot cannot be done.
    pub(crate) fn break_slot(&mut self, turn: &Turn) {
        if let Some(open) = self.slots.get_mut(turn.slot) {
            open.is_broken = true;
            self.link.notify();
        }
    }

    /// The reason for which a step waits that could not be done.
    pub(crate) fn slot_wait(&self, turn: &Turn, phase: u32, from: Option<u32>) -> SlotWait {
        let slot = turn.slot;
        match (from.and_then(|from| self.stamped(turn, phase, from)), self.slot(turn)) {
            (Some((local_rank, stamp)), _) => SlotWait::Published { slot, local_rank, stamp },
            (None, Some(Slot { finished, needed, .. })) if *finished == turn.first => {
                SlotWait::Room { slot, needed: *needed }
            }
            (None, _) => SlotWait::Turn { slot },
        }
    }

    /// Adds a wait: it is checked in each pass, and before each sleep.
    pub(crate) fn await_slot(&mut self, wait: SlotWait) {
        self.slots.waits.push(wait);
    }

    /// Removes a wait.
    pub(crate) fn forget_slot_wait(&mut self, wait: SlotWait) {
        if let Some(at) = self.slots.waits.iter().position(|known| *known == wait) {
            self.slots.waits.swap_remove(at);
        }
    }

    /// Fails the operations that wait for something that `peer` has not published: it publishes nothing more.
    /// They fail with `error`. Returns whether there are any.
    pub fn nothing_more_published_by(&mut self, peer: PeerId, error: &Error) -> bool {
        let Some(local_rank) = self.link.known_local_rank(peer) else { return false };
        let is_awaited = self.slots.awaited_local_ranks().any(|awaited| awaited as usize == local_rank);
        if !is_awaited || self.slots.is_awaited_there(self.link.published()) {
            return false;
        }
        for at in 0..self.slots.waits.len() {
            let (SlotWait::Published { slot, .. } | SlotWait::Room { slot, .. } | SlotWait::Turn { slot }) =
                self.slots.waits[at];
            if let Some(open) = self.slots.get_mut(slot)
                && open.others.iter().any(|(other, _)| *other as usize == local_rank)
            {
                open.abandoned.get_or_insert_with(|| error.clone());
            }
        }
        self.link.notify();
        true
    }

    /// Lets operations go on that wait for data that is there now, or for room; called in the progress loop.
    #[inline]
    pub(super) fn progress(&mut self) {
        if self.slots.awaits() && self.slots.is_awaited_there(self.link.published()) {
            self.link.notify();
        }
    }
}
