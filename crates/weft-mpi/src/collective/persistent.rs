//! Persistent collectives (MPI-5.0 §6.13): planned once, and started again and again. `point_to_point.rs`
//! restarts them with other persistent requests.

use std::sync::Arc;

use super::{Bound, CollectiveScope};
use crate::error::Result;
use crate::process::Process;
use crate::request::{Persistent, PersistentCollective};

impl Process {
    /// Makes a persistent collective, with the slot that its processes have agreed on, if there is one. The
    /// operation has its own tag for its messages, and publishes in its own slot only. So ranks may start
    /// several operations in different orders.
    ///
    /// # Errors
    /// Too many requests.
    pub fn make_persistent_collective(
        &mut self,
        scope: CollectiveScope,
        bound: Arc<Bound>,
        slot: Option<u32>,
    ) -> Result<usize> {
        let communicator = scope.communicator;
        let operation = Persistent::Collective(Arc::new(PersistentCollective { scope, bound, slot }));
        let made = self.make_persistent(operation, communicator);
        if made.is_err() {
            self.release_slot(slot);
        }
        made
    }

    /// Starts a persistent collective, for the request `handle`.
    ///
    /// # Errors
    /// As for [`Process::start_collective`].
    pub(crate) fn restart_collective(&mut self, handle: usize, operation: &PersistentCollective) -> Result<()> {
        let PersistentCollective { scope, bound, slot } = operation;
        let mut scope = scope.clone();
        if let Some(slot) = slot {
            scope.turn = self.engine()?.node_collectives().take_turn(*slot, bound.schedule().phases);
        }
        self.start_schedule(handle, scope, bound.clone())
    }

    /// Releases the slot of a persistent collective that is gone.
    pub(crate) fn release_slot(&mut self, slot: Option<u32>) {
        slot.into_iter().for_each(|slot| self.slots.release(slot));
    }
}
