//! When operations on a window are complete (MPI-5.0 §12.7): what each synchronization waits for, and which
//! error it reports.

use std::sync::atomic::{Ordering, fence};

use weft_engine::windows::Mark;
use weft_net::clock;

use crate::awaited::Awaited;
use crate::error::Result;
use crate::process::{Process, block_for, lock};

/// A program may wait for what others do to its window by calls that need nothing from anybody: so often, in
/// ticks of about 2.5 GHz, one of these looks for what has arrived.
const TICKS_PER_LOOK: u64 = 12_500;

/// What a synchronization has to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaiting {
    /// All that has been begun is done, also at the target.
    Done,
    /// The program may use its buffers again.
    Local,
    /// The same, and what went wrong with operations is left for the call that ends their epoch: this one
    /// only begins another.
    LocalUnreported,
}

impl Process {
    /// Whether all `marks` have been reached, or never will be, as their processes are gone: the first of
    /// which this is so. Those of which either is so are taken away.
    fn are_reached(&mut self, index: usize, marks: &mut Vec<Mark>, gone: &mut Result<()>) -> bool {
        let Ok(engine) = self.engine() else { return true };
        let Some(window) = engine.windows.get(index) else { return false };
        while let Some(mark) = marks.last() {
            if !window.has_reached(mark) {
                match engine.check_peer(window.member(mark.rank())) {
                    Ok(()) => return false,
                    Err(error) => keep_first(gone, Err(error)),
                }
            }
            marks.pop();
        }
        true
    }

    /// Whether nothing is under way to this one locked target, which is most often so where it shares memory.
    #[inline]
    pub(super) fn is_flushed(&mut self, window: usize, rank: Option<i32>) -> Result<bool> {
        let (objects, engine) = self.parts()?;
        let found = objects.window(window)?;
        let Some(Some((rank, _))) = rank.map(|rank| found.target(rank)).transpose()? else { return Ok(false) };
        found.epochs.check_passive(rank)?;
        Ok(engine.windows.get(found.index).is_some_and(|window| window.is_untouched(rank)))
    }

    /// Makes progress if that has not been done for a while; whether it was time.
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
        // All are taken: what this call does not report, a later one would report of other operations.
        let (mut outcome, size) = (Ok(()), window.size());
        let mut take = |rank| keep_first(&mut outcome, window.take_error(rank).map_or(Ok(()), Err));
        match ranks {
            Some(ranks) => ranks.iter().for_each(|rank| take(*rank)),
            None => (0..size).for_each(take),
        }
        outcome
    }
}

/// Waits until all is done that this process has begun at `ranks` of the window, or everywhere. Whatever goes
/// wrong, it waits for the rest as well.
///
/// # Errors
/// What went wrong first: a process is gone, or an operation has been refused.
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
                // What has left may be under way still.
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
    // What is shared has been stored to directly.
    fence(Ordering::SeqCst);
    outcome
}

/// Of several things that went wrong a call reports the first.
pub(super) fn keep_first(outcome: &mut Result<()>, next: Result<()>) {
    if outcome.is_ok() {
        *outcome = next;
    }
}
