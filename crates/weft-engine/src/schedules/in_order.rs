//! Operations through shared memory that are done in the order of their plan, without a cursor; and the steps
//! of any operation that go through shared memory.

use crate::arguments::{CollectiveScope, Operation, Turn};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::memory::{Run, UserReduction};
use crate::transport::Platform;
use weft_plan::collective::Step;

/// The outcome of a step that goes through memory that the node's processes share.
pub(super) enum Share {
    /// The step is complete, perhaps with an error.
    Done(Option<Error>),
    /// The program's reduction function has to be called: with these arguments, or after another call.
    Due(Option<UserReduction>),
    /// The step waits for this rank to publish; `None`: for room, or for operations before this one.
    Waits(Option<u32>),
}

/// Does a step that publishes data, or takes published data, of an operation that is at `turn`.
#[inline]
pub(super) fn share<P: Platform>(
    engine: &mut Engine<P>,
    scope: &CollectiveScope,
    turn: &Turn,
    run: &Run,
    number: u32,
) -> Share {
    let mut collectives = engine.node_collectives();
    if !collectives.is_turn(turn) {
        return Share::Waits(None);
    }
    let (phase, from) = match run.bound().schedule().step(number) {
        Step::Publish { phase, .. } => {
            let published = collectives.publish(turn, *phase, &run.published(number));
            return published.map_or(Share::Waits(None), |published| Share::Done(published.err()));
        }
        Step::Expose { phase, .. } => {
            let exposed = collectives.expose(turn, *phase, &run.published(number));
            return if exposed { Share::Done(None) } else { Share::Waits(None) };
        }
        Step::Fetch { phase, from, at, of, .. } => {
            let fetched = collectives.fetch_exposed(scope, turn, (*phase, *from), (*at, *of), || run.fetched(number));
            let Some(fetched) = fetched else { return Share::Waits(Some(*from)) };
            collectives.note_published(turn, *from);
            return Share::Done(fetched.err());
        }
        Step::Finish { phase } => {
            collectives.finish_phase(turn, *phase);
            return Share::Done(None);
        }
        Step::Collect { phase, from, .. } | Step::Combine { phase, from, .. } => (*phase, *from),
        _ => return Share::Done(None),
    };
    let taken = collectives.with_published(turn, phase, from, |bytes| run.take_published(number, bytes));
    let Some(taken) = taken else { return Share::Waits(Some(from)) };
    collectives.note_published(turn, from);
    match taken {
        Ok(None) => Share::Done(None),
        Ok(due) => Share::Due(due),
        Err(error) => Share::Done(Some(error)),
    }
}

/// The outcome of an operation that was [run in order](run_in_order).
pub enum InOrder {
    /// The operation is complete.
    Complete,
    /// The operation has stopped: the next step must wait, or needs a request. It goes on as a cursor
    /// [behind](super::Cursor::behind) the complete steps.
    Stopped {
        /// The number of complete steps.
        complete: u32,
        /// The error of one of these steps.
        failed: Option<Error>,
    },
}

/// Does the steps of an operation through shared memory one after the other, in the order of their plan. That
/// is always possible, and nothing has to be built for it.
///
/// If the data for a step is not there, it looks again as long as `goes_on` returns true; that function is
/// told how often it has looked.
///
/// # Errors
/// The error of the operation, which is complete.
pub fn run_in_order<P: Platform>(
    engine: &mut Engine<P>,
    scope: &CollectiveScope,
    run: &Run,
    goes_on: impl Fn(u32) -> bool,
) -> Result<InOrder> {
    let schedule = run.bound().schedule();
    let by_program = matches!(run.bound().operation(), Some(Operation::User(_)));
    let Some(turn) = scope.turn.filter(|_| !by_program) else {
        return Ok(InOrder::Stopped { complete: 0, failed: None });
    };
    let mut failed = None;
    for (number, step) in schedule.steps().enumerate() {
        let number = number as u32;
        if step.is_transfer() {
            return Ok(InOrder::Stopped { complete: number, failed });
        }
        if step.phase().is_none() {
            failed = failed.or(run.do_local(number).err());
            continue;
        }
        let mut looks = 0;
        loop {
            match share(engine, scope, &turn, run, number) {
                Share::Done(error) => {
                    failed = failed.or(error);
                    break;
                }
                Share::Waits(_) if goes_on(looks) => std::hint::spin_loop(),
                Share::Waits(_) | Share::Due(_) => return Ok(InOrder::Stopped { complete: number, failed }),
            }
            looks += 1;
        }
    }
    engine.node_collectives().finish_turn(&turn, schedule.phases);
    failed.map_or(Ok(InOrder::Complete), Err)
}
