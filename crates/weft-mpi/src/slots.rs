//! Which communicators and persistent operations have a slot in the memory of their node for collectives
//! (`weft_engine::engine::slots`).
//!
//! All processes of a communicator agree on its slot when they agree on a context, at no cost of its own.
//! Those slots of a process are numbered like its contexts, so that nobody need say which it is.
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

/// The slots of this process.
pub(crate) struct Slots {
    /// A bit for each that has a communicator or an operation, or may get one by an agreement that is under
    /// way.
    taken: u64,
    /// An agreement on the slot of an operation is under way: another one that begins meanwhile gets none,
    /// since both might take the same.
    is_offering: bool,
}

/// The processes of a communicator agree on this many slots for operations: no process has more.
const OPERATIONS_MAX: usize = SlotCounts::LONG_MAX + SlotCounts::SHORT_MAX;

/// What a process says of a slot that it has not, or that serves something else.
const NOT_FREE: i64 = i64::MAX;

/// What a process says of a slot where it publishes nothing, and reads nothing: whatever the others say.
const WHATEVER: i64 = 0;

/// Which slot the processes of a persistent operation need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// None: this process publishes nothing.
    Nothing,
    /// A short one does.
    Short,
    /// One with large cells.
    Long,
}

impl Need {
    /// Of a process that publishes so many bytes at once, if it takes part.
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

/// What came of an agreement on a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreed {
    /// Nobody needs one.
    NotNeeded,
    /// There is none for it.
    NoneFree,
    /// This one, if this process takes part in what is done there.
    Slot(Option<u32>),
}

impl Slots {
    /// All are free.
    pub(crate) const fn new() -> Self {
        Self { taken: 0, is_offering: false }
    }

    /// The slot that a communicator with this number would have, of so many; `None`: there is none for it.
    fn of(serial: Serial, slots: SlotCounts) -> Option<u32> {
        let others = u64::try_from(slots.communicators).ok()?.checked_sub(1).filter(|others| *others > 0)?;
        Some(OF_WORLD + 1 + (serial.0 % others) as u32)
    }

    /// Takes the slot for a communicator with this number. False: another one has it. Where there is none at
    /// all, as all processes of the node know alike, nothing stands in the way.
    pub(crate) fn reserve(&mut self, serial: Serial, engine: &Engine) -> bool {
        let Some(slot) = Self::of(serial, engine.slots()) else { return true };
        if self.taken >> slot & 1 != 0 || !engine.is_slot_free(slot) {
            return false;
        }
        self.taken |= 1 << slot;
        true
    }

    /// The communicator gets another number, or is to do without a slot.
    pub(crate) fn give_back(&mut self, serial: Serial, engine: &Engine) {
        Self::of(serial, engine.slots()).into_iter().for_each(|slot| self.release(slot));
    }

    /// All its processes have reserved it: the slot of a communicator of `group`, with this context for
    /// collectives.
    pub(crate) fn open(serial: Serial, context: u32, group: &Arc<Group>, engine: &mut Engine) -> Option<u32> {
        let slot = Self::of(serial, engine.slots())?;
        engine.node_collectives().open_slot(slot, context, group);
        Some(slot)
    }

    /// The same for `MPI_COMM_WORLD`.
    pub(crate) fn open_world(context: u32, group: &Arc<Group>, engine: &mut Engine) -> Option<u32> {
        (engine.slots().communicators > 0).then(|| {
            engine.node_collectives().open_slot(OF_WORLD, context, group);
            OF_WORLD
        })
    }

    /// The communicator or operation that had it is gone. Another one gets it when nobody reads there any
    /// more.
    pub(crate) fn release(&mut self, slot: u32) {
        self.taken &= !(1 << slot);
    }

    /// Of the slots for operations, one that has most room at once.
    pub(crate) fn roomiest(slots: SlotCounts) -> Option<u32> {
        (slots.long + slots.short > 0).then_some(slots.communicators as u32)
    }

    /// The number that the slot has here which all know as `of` among those for operations.
    fn of_operation(of: usize, slots: SlotCounts) -> Option<u32> {
        let SlotCounts { communicators, long, short } = slots;
        let slot = match of.checked_sub(SlotCounts::LONG_MAX) {
            None => (of < long).then_some(communicators + of),
            Some(of) => (of < short).then_some(communicators + long + of),
        };
        slot.map(|slot| slot as u32)
    }

    /// What this process says when a persistent operation is initialised: what it needs, and of each slot for
    /// operations the number that its next use has here. Ends with [`Self::agreed`], whatever comes of it.
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

    /// The highest of what all have said is `highest`, or nothing has come of it: the slot of the operation,
    /// whose processes are `group`.
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
        // Short ones first: those with large cells are few.
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

/// What a process has said in an agreement on the slot of an operation.
pub(crate) struct Offer {
    need: Need,
    /// No other agreement of this process was under way.
    is_ours: bool,
    /// The numbers of which the highest of all processes are found.
    pub(crate) values: Vec<i64>,
}
