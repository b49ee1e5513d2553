//! The slots that communicators and persistent operations have in the memory of their node for collectives
//! (`weft_engine::engine::slots`).
//!
//! `communicator/agreement.rs` and `communicator/operations.rs` agree on them.
//!
//! All processes of a communicator agree on its slot when they agree on a context, at no cost of its own. A
//! process numbers the slots of communicators like its contexts, so the context tells the slot.
//!
//! Processes may start persistent operations in different orders (MPI-5.0 §6.13), but the operations of one
//! slot have one order. So each persistent operation has a slot of its own. The processes agree on the slot
//! by one reduction in the call that initialises the operation, which may wait for the others. Each process
//! states the number that the next use of each slot would have there. A slot is free if it is free at every
//! process. The highest number stated is the number of this use.

use std::sync::Arc;

use weft_engine::transport::SlotCounts;

use crate::context::Serial;
use crate::engine::Engine;
use crate::object::Group;

/// The slot of `MPI_COMM_WORLD`, which no other communicator gets.
const OF_WORLD: u32 = 0;

/// The slots of this process that are taken.
pub(crate) struct Slots {
    /// A bit for each slot that a communicator or an operation has, or may get by an agreement that is under
    /// way.
    taken: u64,
    /// An agreement on the slot of an operation is under way. Another agreement that begins meanwhile gets no
    /// slot, since both might take the same one.
    is_offering: bool,
}

/// The slots for operations that an agreement covers: no process has more.
const OPERATIONS_MAX: usize = SlotCounts::LONG_MAX + SlotCounts::SHORT_MAX;

/// The value that a process states for a slot that it does not have, or that serves something else.
const NOT_FREE: i64 = i64::MAX;

/// The value of a process that neither publishes nor reads anything: it leaves the choice to the others.
const WHATEVER: i64 = 0;

/// The size of slot that the processes of a persistent operation need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// No slot: this process publishes nothing.
    Nothing,
    /// A slot with small cells.
    Short,
    /// A slot with large cells.
    Long,
}

impl Need {
    /// The need of a process that publishes so many bytes at once, if it takes part.
    pub(crate) fn of(published_max: Option<u64>, engine: &Engine) -> Self {
        let SlotCounts { communicators, long, short } = engine.slots();
        let short = (short > 0).then(|| engine.published_max((communicators + long) as u32));
        match (published_max, short) {
            (None, _) => Self::Nothing,
            (Some(bytes), Some(room)) if bytes <= room => Self::Short,
            _ => Self::Long,
        }
    }
}

/// The result of an agreement on a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreed {
    /// No process needs a slot.
    NotNeeded,
    /// No slot is free for the operation.
    NoneFree,
    /// The slot, if this process takes part in what is done there.
    Slot(Option<u32>),
}

impl Slots {
    /// The state in which all slots are free.
    pub(crate) const fn new() -> Self {
        Self { taken: 0, is_offering: false }
    }

    /// The slot for a communicator with this number. `None` where only `MPI_COMM_WORLD` can have one.
    fn of(serial: Serial, slots: SlotCounts) -> Option<u32> {
        let others = u64::try_from(slots.communicators).ok()?.checked_sub(1).filter(|others| *others > 0)?;
        Some(OF_WORLD + 1 + (serial.0 % others) as u32)
    }

    /// Takes the slot for a communicator with this number. Returns `false` when the slot is taken. Where
    /// there is no such slot at all, as all processes of the node know alike, returns `true`.
    pub(crate) fn reserve(&mut self, serial: Serial, engine: &Engine) -> bool {
        let Some(slot) = Self::of(serial, engine.slots()) else { return true };
        if self.taken >> slot & 1 != 0 || !engine.is_slot_free(slot) {
            return false;
        }
        self.taken |= 1 << slot;
        true
    }

    /// Releases the slot that was reserved: the communicator gets another number, or does without a slot.
    pub(crate) fn give_back(&mut self, serial: Serial, engine: &Engine) {
        Self::of(serial, engine.slots()).into_iter().for_each(|slot| self.release(slot));
    }

    /// Opens the slot that all processes of a communicator of `group` have reserved, with this context for
    /// collectives.
    pub(crate) fn open(serial: Serial, context: u32, group: &Arc<Group>, engine: &mut Engine) -> Option<u32> {
        let slot = Self::of(serial, engine.slots())?;
        engine.node_collectives().open_slot(slot, context, group);
        Some(slot)
    }

    /// Opens the slot of `MPI_COMM_WORLD`.
    pub(crate) fn open_world(context: u32, group: &Arc<Group>, engine: &mut Engine) -> Option<u32> {
        (engine.slots().communicators > 0).then(|| {
            engine.node_collectives().open_slot(OF_WORLD, context, group);
            OF_WORLD
        })
    }

    /// Releases a slot whose communicator or operation is gone. Another one gets the slot when no process
    /// reads there any more.
    pub(crate) fn release(&mut self, slot: u32) {
        self.taken &= !(1 << slot);
    }

    /// The slot for operations with the most room.
    pub(crate) fn roomiest(slots: SlotCounts) -> Option<u32> {
        (slots.long + slots.short > 0).then_some(slots.communicators as u32)
    }

    /// The number that this process gives to the slot which all processes call `of` among the slots for
    /// operations.
    fn of_operation(of: usize, slots: SlotCounts) -> Option<u32> {
        let SlotCounts { communicators, long, short } = slots;
        let slot = match of.checked_sub(SlotCounts::LONG_MAX) {
            None => (of < long).then_some(communicators + of),
            Some(of) => (of < short).then_some(communicators + long + of),
        };
        slot.map(|slot| slot as u32)
    }

    /// States what this process says when a persistent operation is initialised: its need, and for each slot
    /// for operations the number that the next use has here. Every offer ends with [`Self::agreed`], also
    /// when the agreement fails.
    pub(crate) fn offer(&mut self, need: Need, engine: &Engine) -> Offer {
        let is_ours = !std::mem::replace(&mut self.is_offering, true);
        let number = |of: usize| {
            let slot = Self::of_operation(of, engine.slots()).filter(|slot| self.taken >> slot & 1 == 0);
            let slot = slot.filter(|slot| is_ours && engine.is_slot_free(*slot))?;
            engine.last_context(slot).unwrap_or(0).checked_add(1)
        };
        let say = |of| match need {
            Need::Nothing => WHATEVER,
            _ => number(of).map_or(NOT_FREE, i64::from),
        };
        let values = std::iter::once(need as i64).chain((0..OPERATIONS_MAX).map(say)).collect();
        Offer { need, is_ours, values }
    }

    /// Ends an agreement: takes and opens the slot of the operation, whose processes are `group`. `highest`
    /// has the highest of the stated values; `None` when the agreement has failed.
    pub(crate) fn agreed(
        &mut self,
        offer: &Offer,
        highest: Option<&[i64]>,
        group: &Arc<Group>,
        engine: &mut Engine,
    ) -> Agreed {
        if offer.is_ours {
            self.is_offering = false;
        }
        let Some((need, numbers)) = highest.and_then(|highest| highest.split_first()) else { return Agreed::NoneFree };
        if *need == Need::Nothing as i64 {
            return Agreed::NotNeeded;
        }
        // Slots with small cells first: there are few with large cells.
        let usable = (0..OPERATIONS_MAX).rev().filter(|of| *of < SlotCounts::LONG_MAX || *need == Need::Short as i64);
        let Some(of) = usable.into_iter().find(|of| numbers[*of] != NOT_FREE) else { return Agreed::NoneFree };
        if offer.need == Need::Nothing {
            return Agreed::Slot(None);
        }
        let slot = Self::of_operation(of, engine.slots());
        if let Some(slot) = slot {
            self.taken |= 1 << slot;
            engine.node_collectives().open_slot(slot, numbers[of] as u32, group);
        }
        Agreed::Slot(slot)
    }
}

/// The values that a process states in an agreement on the slot of an operation.
pub(crate) struct Offer {
    need: Need,
    /// Says that this process had no other agreement under way.
    is_ours: bool,
    /// The values of which the processes find the highest.
    pub(crate) values: Vec<i64>,
}
