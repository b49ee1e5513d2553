//! The agreements of the processes of a communicator for a persistent collective (MPI-5.0 §6.13).

use super::highest;
use crate::collective::Bound;
use crate::error::Result;
use crate::process::{Guard, Process, lock};
use crate::slots::{Agreed, Need, Offer};

/// Agrees with all processes of a communicator on a slot in the memory of each of their nodes, for the
/// persistent collective of which `bound` is this process's part.
///
/// All of them call this as they initialise it: the initialising calls are collective, and need not be local
/// (MPI-5.0 §6.13).
///
/// # Errors
/// `MPI_ERR_COMM`; a process is gone.
pub fn agree_on_slot(mut process: Guard, communicator: usize, bound: &Bound) -> Result<(Guard, Agreed)> {
    if !process.shares_memory(process.objects.communicator(communicator)?) {
        return Ok((process, Agreed::NotNeeded));
    }
    let scope = process.agreement_scope(communicator)?;
    let group = scope.group.clone();
    let Some(offer) = process.offer_slot(bound) else { return Ok((process, Agreed::NotNeeded)) };
    drop(process);
    let mut values = offer.values.clone();
    let outcome = highest(scope, &mut values);
    process = lock();
    let Process { slots, engine: Some(engine), .. } = &mut *process else { return Ok((process, Agreed::NoneFree)) };
    let agreed = slots.agreed(&offer, outcome.is_ok().then_some(&values), &group, engine);
    outcome.map(|()| (process, agreed))
}

impl Process {
    /// Makes the offer of this process in an agreement on the slot of a persistent collective.
    fn offer_slot(&mut self, bound: &Bound) -> Option<Offer> {
        let Self { slots, engine: Some(engine), .. } = self else { return None };
        Some(slots.offer(Need::of(bound.published_max(), engine), engine))
    }
}
