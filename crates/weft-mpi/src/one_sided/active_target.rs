//! Active target communication (MPI-5.0 §12.5.1, §12.5.2): fences, and epochs that both sides open and close.

use std::sync::atomic::{Ordering, fence};

use super::completion::{Awaiting, finish, keep_first};
use super::{check_assert, ranks_of};
use crate::awaited::Awaited;
use crate::constants::*;
use crate::error::{Error, Result};
use crate::object::Group;
use crate::process::{Process, block_for, lock, with};

/// A fence that has done everything except the barrier.
pub struct Fence {
    /// The communicator of the window, whose processes meet.
    pub communicator: usize,
    /// The error of this process, if any. The others wait for this process all the same.
    outcome: Result<()>,
    /// Operations may follow the fence.
    goes_on: bool,
    window: usize,
}

impl Fence {
    /// Carries out `MPI_Win_fence` up to the barrier: completes all operations that this process has begun.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`: there are no processes to meet.
    pub fn begin(window: usize, assert: i32) -> Result<Self> {
        let (index, communicator, is_allowed) = with(|process| {
            let found = process.objects.window(window)?;
            Ok::<_, Error>((found.index, found.communicator, found.epochs.check_fence()))
        })?;
        let allowed = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
        let mut outcome = check_assert(assert, allowed);
        keep_first(&mut outcome, is_allowed);
        if outcome.is_ok() {
            outcome = finish(index, None, Awaiting::Done);
        }
        Ok(Self { communicator, outcome, goes_on: assert & MPI_MODE_NOSUCCEED == 0, window })
    }

    /// Ends the fence when the barrier is over, or has failed.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`, `MPI_ERR_ASSERT`, `MPI_ERR_RMA_SYNC`; an error of operations, or of the barrier.
    pub fn end(self, met: Result<()>) -> Result<()> {
        let Self { mut outcome, goes_on, window, .. } = self;
        fence(Ordering::SeqCst);
        keep_first(&mut outcome, met);
        let next = with(|process| process.objects.window_mut(window)?.epochs.fence(goes_on));
        keep_first(&mut outcome, next);
        outcome
    }
}

/// Carries out `MPI_Win_post`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_GROUP`, `MPI_ERR_ASSERT`, `MPI_ERR_RMA_SYNC`; a process is gone.
pub fn post(window: usize, group: &Group, assert: i32) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT)?;
    fence(Ordering::SeqCst);
    with(|process| {
        let ranks = ranks_of(process, window, group)?;
        let (found, engine) = process.window_parts(window)?;
        found.check_not_revoked()?;
        found.epochs.post(ranks.clone())?;
        if let Some(window) = engine.windows.get_mut(found.index) {
            window.await_ranks(&ranks);
        }
        let mut outcome = Ok(());
        if assert & MPI_MODE_NOCHECK == 0 {
            // Ranks after a process that is gone wait for the post as well.
            for rank in ranks {
                keep_first(&mut outcome, engine.one_sided().post_to(found.index, rank));
            }
        }
        outcome
    })
}

/// Carries out `MPI_Win_start`: returns when all targets have posted.
///
/// # Errors
/// As for [`post`].
pub fn start(window: usize, group: &Group, assert: i32) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let mut process = lock();
    let ranks = ranks_of(&process, window, group)?;
    let (found, _) = process.window_parts(window)?;
    found.check_not_revoked()?;
    found.epochs.start(ranks.clone())?;
    let index = found.index;
    if assert & MPI_MODE_NOCHECK != 0 {
        found.epochs.begin_started(&ranks);
        process.signal();
        return Ok(());
    }
    if let Some(window) = process.engine()?.windows.get_mut(index) {
        window.await_ranks(&ranks);
    }
    let outcome = block_for(process, &|| Awaited::Unknown, |process| {
        await_all(
            process,
            index,
            &ranks,
            |window, rank| window.has_post_of(rank),
            |window, rank| window.take_post(rank),
        )
    });
    // The epoch is open for the targets that have posted: they wait for its end.
    with(|process| process.objects.window_mut(window).map(|found| found.epochs.begin_started(&ranks)))?;
    fence(Ordering::SeqCst);
    outcome
}

/// Returns whether each of `ranks`, which the window [awaits](weft_engine::windows::Window::await_ranks), has
/// given its sign. The signs are taken, and the ranks are awaited no more. Returns an error for a rank that
/// is gone.
fn await_all(
    process: &mut Process,
    index: usize,
    ranks: &[u32],
    has: impl Fn(&weft_engine::windows::Window, u32) -> bool,
    take: impl Fn(&mut weft_engine::windows::Window, u32),
) -> Option<Result<()>> {
    let engine = match process.engine() {
        Ok(engine) => engine,
        Err(error) => return Some(Err(error)),
    };
    let found = engine.windows.get(index)?;
    let mut outcome = Ok(());
    for rank in ranks.iter().filter(|rank| !has(found, **rank)) {
        keep_first(&mut outcome, Err(engine.check_member(index, *rank).err()?));
    }
    let found = engine.windows.get_mut(index)?;
    found.await_no_more(ranks);
    for rank in ranks {
        if has(found, *rank) {
            take(found, *rank);
        }
    }
    Some(outcome)
}

/// Carries out `MPI_Win_complete`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_SYNC`; an error of operations; a process is gone.
pub fn complete(window: usize) -> Result<()> {
    fence(Ordering::SeqCst);
    let (index, own, ranks) = with(|process| {
        let found = process.objects.window_mut(window)?;
        Ok::<_, Error>((found.index, found.rank, found.epochs.complete()?))
    })?;
    let mut outcome = Ok(());
    if ranks.contains(&own) {
        outcome = finish(index, Some(&[own]), Awaiting::Done);
    }
    with(|process| {
        let engine = process.engine()?;
        ranks.iter().for_each(|rank| keep_first(&mut outcome, engine.one_sided().complete_at(index, *rank)));
        Ok::<_, Error>(())
    })?;
    keep_first(&mut outcome, finish(index, Some(&ranks), Awaiting::Local));
    outcome
}

/// Carries out `MPI_Win_wait`, or `MPI_Win_test` if it does not block. Returns whether the exposure epoch is
/// over.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_SYNC`; a process is gone.
pub fn wait(window: usize, blocks: bool) -> Result<bool> {
    let mut process = lock();
    let (found, _) = process.window_parts(window)?;
    let (index, ranks) = (found.index, found.epochs.exposed_to()?);
    let mut over = |process: &mut Process| {
        await_all(
            process,
            index,
            &ranks,
            |window, rank| window.has_complete_of(rank),
            |window, rank| {
                window.take_complete(rank);
            },
        )
    };
    let outcome = if blocks {
        block_for(process, &|| Awaited::Unknown, over)
    } else {
        // The program may know of the end in another way, by a message that came by another route. So the
        // network is looked at here.
        process.engine()?.look_at_network();
        drop(process);
        match crate::process::attempt(&mut over) {
            Some(outcome) => outcome,
            None => return Ok(false),
        }
    };
    fence(Ordering::SeqCst);
    with(|process| {
        process.objects.window_mut(window)?.epochs.end_exposure();
        outcome
    })?;
    Ok(true)
}
