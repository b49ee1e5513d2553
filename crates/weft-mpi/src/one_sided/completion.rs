//! The completion of operations on a window (MPI-5.0 §12.7): the operations that each synchronization waits
//! for, and the error that it reports.

use std::sync::atomic::{Ordering, fence};

use weft_engine::windows::Mark;
use weft_net::clock;

use crate::awaited::Awaited;
use crate::error::Result;
use crate::process::{Process, block_for, lock};

/// The ticks (of about 2.5 GHz) after which a call on a window makes progress that would otherwise make none.
/// A program may use such calls only, to wait for what other processes do to its window.
const TICKS_PER_LOOK: u64 = 12_500;

/// The operations that a synchronization waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaiting {
    /// All operations that have begun are complete, also at the target.
    Done,
    /// The program may use its buffers again.
    Local,
    /// The same as `Local`, but errors of operations are left for the call that ends their epoch: this call
    /// only begins another epoch.
    LocalUnreported,
}

impl Process {
    /// Returns whether all `marks` have been reached, or never will be because their processes are gone.
    /// Removes the marks that are decided. `gone` gets the first error.
    fn are_reached(&mut self, index: usize, marks: &mut Vec<Mark>, gone: &mut Result<()>) -> bool {
        let Ok(engine) = self.engine() else { return true };
        let Some(window) = engine.windows.get(index) else { return false };
        while let Some(mark) = marks.last() {
            if !window.has_reached(mark) {
                match engine.check_member(index, mark.rank()) {
                    Ok(()) => return false,
                    Err(error) => keep_first(gone, Err(error)),
                }
            }
            marks.pop();
        }
        true
    }

    /// Returns whether nothing is under way to this one locked target, as is usual where it shares memory.
    #[inline]
    pub(super) fn is_flushed(&mut self, window: usize, rank: Option<i32>) -> Result<bool> {
        let (objects, engine) = self.parts()?;
        let found = objects.window(window)?;
        let Some(Some((rank, _))) = rank.map(|rank| found.target(rank)).transpose()? else { return Ok(false) };
        found.epochs.check_passive(rank)?;
        Ok(engine.windows.get(found.index).is_some_and(|window| window.is_untouched(rank)))
    }

    /// Makes progress if none has been made for a while. Returns whether it was time.
    #[inline]
    pub(super) fn progress_if_due(&mut self) -> bool {
        let now = clock::ticks();
        if now.wrapping_sub(self.window_looked) < TICKS_PER_LOOK {
            return false;
        }
        self.window_looked = now;
        if let Some(engine) = &mut self.engine {
            engine.look_at_network();
        }
        self.progress();
        true
    }

    fn take_window_error(&mut self, index: usize, ranks: Option<&[u32]>) -> Result<()> {
        let Some(window) = self.engine()?.windows.get_mut(index) else { return Ok(()) };
        // All errors are taken. An error that stayed here would be reported by a later call about other
        // operations.
        let (mut outcome, size) = (Ok(()), window.size());
        let mut take = |rank| keep_first(&mut outcome, window.take_error(rank).map_or(Ok(()), Err));
        match ranks {
            Some(ranks) => ranks.iter().for_each(|rank| take(*rank)),
            None => (0..size).for_each(take),
        }
        outcome
    }
}

/// Waits for all operations that this process has begun at `ranks` of the window, or everywhere. After an
/// error it waits for the rest as well.
///
/// # Errors
/// The first error: a process is gone, or an operation has been refused.
pub(super) fn finish(index: usize, ranks: Option<&[u32]>, awaiting: Awaiting) -> Result<()> {
    let mut process = lock();
    let engine = process.engine()?;
    let begun: Vec<u32> = match (ranks, engine.windows.get(index)) {
        (Some(ranks), _) => ranks.to_vec(),
        (None, Some(window)) => window.unfinished(),
        (None, None) => Vec::new(),
    };
    let mut marks = Vec::with_capacity(begun.len());
    let mut gone = Ok(());
    for rank in begun {
        let sent = match awaiting {
            Awaiting::Done => engine.one_sided().flush_target(index, rank),
            Awaiting::Local | Awaiting::LocalUnreported => engine.one_sided().send_collected(index, rank),
        };
        match sent {
            Ok(mark) => marks.push(mark),
            Err(error) => {
                // A message that has left may still be under way.
                marks.extend(engine.windows.get(index).map(|window| window.mark(rank)));
                keep_first(&mut gone, Err(error));
            }
        }
    }
    let reports = awaiting != Awaiting::LocalUnreported;
    let mut over = |process: &mut Process| {
        if !process.are_reached(index, &mut marks, &mut gone) {
            return None;
        }
        let mut outcome = std::mem::replace(&mut gone, Ok(()));
        if reports {
            keep_first(&mut outcome, process.take_window_error(index, ranks));
        }
        Some(outcome)
    };
    let outcome = match over(&mut process) {
        Some(outcome) => {
            process.progress_if_due();
            process.signal();
            outcome
        }
        None => block_for(process, &|| Awaited::Unknown, over),
    };
    // Stores to shared memory have been direct.
    fence(Ordering::SeqCst);
    outcome
}

/// Keeps the first of several errors, which the call reports.
pub(super) fn keep_first(outcome: &mut Result<()>, next: Result<()>) {
    if outcome.is_ok() {
        *outcome = next;
    }
}
