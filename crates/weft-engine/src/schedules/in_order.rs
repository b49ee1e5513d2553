//! Operations through shared memory that are done in the order in which they were planned, without a cursor;
//! and the steps of any operation that go through it.

use crate::arguments::{CollectiveScope, Operation, Turn};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::memory::{Run, UserReduction};
use crate::transport::Platform;
use weft_core::collective::Step;

/// What has become of a step that goes through memory that the node's processes share.
pub(super) enum Share {
    /// It is complete, perhaps with an error.
    Done(Option<Error>),
    /// The program's reduction function is to be called for it: so, or after another call.
    Due(Option<UserReduction>),
    /// For what this rank publishes, or for room, or for operations before this one.
    Waits(Option<u32>),
}

/// Does a step that publishes something, or takes what has been published, of an operation that is at `turn`.
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
            return if published { Share::Done(None) } else { Share::Waits(None) };
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

/// How far an operation has come that was [run in order](run_in_order).
pub enum InOrder {
    /// It is complete.
    Complete,
    /// So many of its steps are: the next one must wait, or needs a request. It goes on as a cursor
    /// [behind](Cursor::behind) these.
    Stopped {
        /// How many.
        complete: u32,
        /// What went wrong in one of them.
        failed: Option<Error>,
    },
}

/// Does the steps of an operation through shared memory one after the other, in the order in which they were
/// planned, which is always possible, and without anything that would have to be built for it. As long as
/// what it needs is not there it looks again while `goes_on`, which is told how often it has looked.
///
/// # Errors
/// What went wrong in the operation, which is complete.
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
