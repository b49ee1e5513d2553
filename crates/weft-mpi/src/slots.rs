//! Which communicators have a slot in the memory of their node for collectives (`weft_engine::engine::slots`): all their processes agree on
//! that when they agree on a context, at no cost of its own. Those of a process are numbered like its contexts, so that nobody need say which it is.

use std::sync::Arc;

use crate::context::Serial;
use crate::engine::Engine;
use crate::object::Group;

/// The slot of `MPI_COMM_WORLD`, which no other communicator gets.
const OF_WORLD: u32 = 0;

/// The slots of this process.
pub(crate) struct Slots {
    /// A bit for each that has a communicator, or may get one by an agreement that is under way.
    taken: u64,
}

impl Slots {
    /// All are free.
    pub(crate) const fn new() -> Self {
        Self { taken: 0 }
    }

    /// The slot that a communicator with this number would have, of so many; `None`: there is none for it.
    fn of(serial: Serial, slots: usize) -> Option<u32> {
        let others = u64::try_from(slots).ok()?.checked_sub(1).filter(|others| *others > 0)?;
        Some(OF_WORLD + 1 + (serial.0 % others) as u32)
    }

    /// Takes the slot for a communicator with this number. False: another one has it. Where there is none at all, as all processes of the node
    /// know alike, nothing stands in the way.
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

    /// All its processes have reserved it: the slot of a communicator of `group`, with this context for collectives.
    pub(crate) fn open(serial: Serial, context: u32, group: &Arc<Group>, engine: &mut Engine) -> Option<u32> {
        let slot = Self::of(serial, engine.slots())?;
        engine.open_slot(slot, context, group);
        Some(slot)
    }

    /// The same for `MPI_COMM_WORLD`.
    pub(crate) fn open_world(context: u32, group: &Arc<Group>, engine: &mut Engine) -> Option<u32> {
        (engine.slots() > 0).then(|| {
            engine.open_slot(OF_WORLD, context, group);
            OF_WORLD
        })
    }

    /// The communicator that had it is gone. Another one gets it when nobody reads there any more.
    pub(crate) fn release(&mut self, slot: u32) {
        self.taken &= !(1 << slot);
    }
}
