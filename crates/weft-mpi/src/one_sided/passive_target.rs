//! Passive target communication (MPI-5.0 §12.5.3, §12.5.4): locks, flushes, and `MPI_Win_sync`.

use std::sync::atomic::{Ordering, fence};

use super::check_assert;
use super::completion::{Awaiting, finish, keep_first};
use crate::constants::*;
use crate::error::{Error, Result};
use crate::process::{Process, lock, with};
use crate::window::{Held, direct};

/// Carries out `MPI_Win_lock`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RANK`, `MPI_ERR_LOCKTYPE`, `MPI_ERR_ASSERT`, `MPI_ERR_RMA_SYNC`; the target is
/// gone.
pub fn lock_one(window: usize, lock_type: i32, rank: i32, assert: i32) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    if !matches!(lock_type, MPI_LOCK_EXCLUSIVE | MPI_LOCK_SHARED) {
        let message = format!("lock_type is {lock_type}; it must be MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED");
        return Err(Error::new(MPI_ERR_LOCKTYPE, message));
    }
    let unchecked = assert & MPI_MODE_NOCHECK != 0;
    let target = with(|process| {
        let target = target_rank(process, window, rank)?;
        if let Some((index, rank)) = target {
            let (found, engine) = process.window_parts(window)?;
            found.epochs.check_lock(rank)?;
            if !unchecked {
                engine.one_sided().lock_target(index, rank, lock_type == MPI_LOCK_EXCLUSIVE)?;
            }
        }
        Ok::<_, Error>(target)
    })?;
    let Some((index, rank)) = target else { return Ok(()) };
    finish(index, Some(&[rank]), Awaiting::LocalUnreported)?;
    with(|process| {
        process.objects.window_mut(window)?.epochs.lock(Held { rank, unchecked });
        Ok(())
    })
}

/// Carries out `MPI_Win_unlock`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RANK`, `MPI_ERR_RMA_SYNC`; an error of operations; the target is gone.
pub fn unlock_one(window: usize, rank: i32) -> Result<()> {
    fence(Ordering::SeqCst);
    let target = with(|process| target_rank(process, window, rank))?;
    let Some((index, rank)) = target else { return Ok(()) };
    let held = with(|process| process.objects.window(window)?.epochs.held(rank))?;
    let done = unlock(index, held);
    with(|process| {
        process.objects.window_mut(window)?.epochs.unlock(rank);
        done
    })
}

fn unlock(index: usize, held: Held) -> Result<()> {
    let Held { rank, unchecked } = held;
    let is_own = with(|process| {
        let window = process.engine()?.windows.get(index);
        Ok::<_, Error>(window.is_some_and(|window| window.own_rank() == rank))
    })?;
    let mut outcome = Ok(());
    if unchecked || is_own {
        outcome = finish(index, Some(&[rank]), Awaiting::Done);
    }
    if !unchecked {
        keep_first(&mut outcome, with(|process| process.engine()?.one_sided().unlock_target(index, rank)));
    }
    keep_first(&mut outcome, finish(index, Some(&[rank]), Awaiting::Done));
    outcome
}

/// Carries out `MPI_Win_lock_all`.
///
/// # Errors
/// As for [`lock_one`].
pub fn lock_all(window: usize, assert: i32) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let unchecked = assert & MPI_MODE_NOCHECK != 0;
    let (index, size, mut outcome) = with(|process| {
        let (found, engine) = process.window_parts(window)?;
        found.check_not_revoked()?;
        found.epochs.check_lock_all()?;
        let (size, mut outcome) = (found.parts.len() as u32, Ok(()));
        if !unchecked {
            (0..size)
                .for_each(|rank| keep_first(&mut outcome, engine.one_sided().lock_target(found.index, rank, false)));
        }
        Ok::<_, Error>((found.index, size, outcome))
    })?;
    keep_first(&mut outcome, finish(index, None, Awaiting::LocalUnreported));
    if outcome.is_err() && !unchecked {
        // Not all locks can be had. The locks that this process holds are given back, as other processes may
        // wait for them.
        give_all_back(index, size).and_then(|()| finish(index, None, Awaiting::LocalUnreported)).ok();
    }
    outcome?;
    with(|process| {
        process.objects.window_mut(window)?.epochs.lock_all(unchecked);
        Ok(())
    })
}

/// Gives the locks of all targets back.
fn give_all_back(index: usize, size: u32) -> Result<()> {
    with(|process| {
        let engine = process.engine()?;
        let mut outcome = Ok(());
        (0..size).for_each(|rank| keep_first(&mut outcome, engine.one_sided().unlock_target(index, rank)));
        outcome
    })
}

/// Carries out `MPI_Win_unlock_all`.
///
/// # Errors
/// As for [`unlock_one`].
pub fn unlock_all(window: usize) -> Result<()> {
    fence(Ordering::SeqCst);
    let (index, size, gives_back, own) = with(|process| {
        let found = process.objects.window(window)?;
        Ok::<_, Error>((found.index, found.parts.len() as u32, found.epochs.check_unlock_all()?, found.rank))
    })?;
    let mut outcome = finish(index, Some(&[own]), Awaiting::Done);
    if gives_back {
        keep_first(&mut outcome, give_all_back(index, size));
    }
    keep_first(&mut outcome, finish(index, None, Awaiting::Done));
    with(|process| {
        process.objects.window_mut(window)?.epochs.unlock_all();
        outcome
    })
}

/// Carries out `MPI_Win_flush` and its relatives: for one rank, or for all that are locked. `locally`: only
/// the program's buffers matter.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RANK`, `MPI_ERR_RMA_SYNC`; an error of operations; a target is gone.
pub fn flush(window: usize, rank: Option<i32>, locally: bool) -> Result<()> {
    if rank.is_some_and(|rank| direct::flush(window, rank)) {
        return Ok(());
    }
    let mut process = lock();
    let is_done = process.is_flushed(window, rank)?;
    if is_done && !process.progress_if_due() {
        fence(Ordering::SeqCst);
        return Ok(());
    }
    drop(process);
    let (index, ranks) = with(|process| {
        let found = process.objects.window(window)?;
        let ranks = match rank {
            None => found.epochs.passive()?,
            Some(rank) => match found.target(rank)? {
                None => Some(Vec::new()),
                Some((rank, _)) => {
                    found.epochs.check_passive(rank)?;
                    Some(vec![rank])
                }
            },
        };
        Ok::<_, Error>((found.index, ranks))
    })?;
    finish(index, ranks.as_deref(), if locally { Awaiting::Local } else { Awaiting::Done })
}

/// Carries out `MPI_Win_sync`.
///
/// # Errors
/// `MPI_ERR_WIN`.
pub fn sync(window: usize) -> Result<()> {
    fence(Ordering::SeqCst);
    // Programs call this in a loop to wait for stores of other processes.
    crate::process::progress_once();
    with(|process| process.objects.window(window).map(|_| ()))
}

fn target_rank(process: &Process, window: usize, rank: i32) -> Result<Option<(usize, u32)>> {
    let found = process.objects.window(window)?;
    Ok(found.target(rank)?.map(|(rank, _)| (found.index, rank)))
}
