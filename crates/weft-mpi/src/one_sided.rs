//! One-sided communication (MPI-5.0 §12): making windows, and synchronizing on them. The operations are the engine's
//! (`weft_engine::windows`).
//!
//! A window has a communicator of its own, of the same processes, whose contexts keep its messages apart; the program never sees it.

mod creation;

use std::sync::atomic::{Ordering, fence};

use weft_net::clock;

use crate::awaited::Awaited;
use crate::collective::CollectiveScope;
use crate::communicator::gather_all;
use crate::constants::*;
use crate::engine::Engine;
use crate::error::{Error, ErrorClass, Result};
use crate::object::{Class, Group};
use crate::process::{Process, block_for, lock, with};
use crate::window::{Held, Window, direct};

pub use crate::window::direct::{Spot, spot};
pub use creation::{Prepared, Wish, open, prepare};
pub use weft_engine::engine::Access;
pub use weft_engine::memory::Exposed;
pub use weft_engine::windows::{Attached, Exposure, Mark};

/// A program may wait for what others do to its window by calls that need nothing from anybody: so often, in ticks of about 2.5 GHz, one of these
/// looks for what has arrived.
const TICKS_PER_LOOK: u64 = 12_500;
/// The place of the next thing that the processes of a window agree on.
fn scope(communicator: usize) -> Result<CollectiveScope> {
    with(|process| process.agreement_scope(communicator))
}

/// Ranks of the members of `group` in the window (MPI-5.0 §12.5.2).
fn ranks_of(process: &Process, window: usize, group: &Group) -> Result<Vec<u32>> {
    let found = process.objects.window(window)?;
    let members = &process.objects.communicator(found.communicator)?.group.members;
    let rank_of = |member| {
        let rank = members.iter().position(|other| other == member).map(|rank| rank as u32);
        rank.ok_or_else(|| Error::new(MPI_ERR_GROUP, "a process of the group is not in the group of the window"))
    };
    group.members.iter().map(rank_of).collect()
}

impl Process {
    fn window_parts(&mut self, window: usize) -> Result<(&mut Window, &mut Engine)> {
        let (objects, engine) = self.parts()?;
        Ok((objects.window_mut(window)?, engine))
    }

    /// Whether all `marks` have been reached, or never will be, as their processes are gone: the first of which this is so. Those of which either is
    /// so are taken away.
    fn are_reached(&mut self, index: usize, marks: &mut Vec<Mark>, gone: &mut Result<()>) -> bool {
        let Ok(engine) = self.engine() else { return true };
        let Some(window) = engine.windows.get(index) else { return false };
        while let Some(mark) = marks.last() {
            if !window.has_reached(mark) {
                match engine.check_window_peer(index, mark.rank()) {
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
    fn is_flushed(&mut self, window: usize, rank: Option<i32>) -> Result<bool> {
        let (objects, engine) = self.parts()?;
        let found = objects.window(window)?;
        let Some(Some((rank, _))) = rank.map(|rank| found.target(rank)).transpose()? else { return Ok(false) };
        found.epochs.check_passive(rank)?;
        Ok(engine.windows.get(found.index).is_some_and(|window| window.is_untouched(rank)))
    }

    /// Makes progress if that has not been done for a while; whether it was time.
    #[inline]
    fn progress_if_due(&mut self) -> bool {
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

/// Of several things that went wrong a call reports the first.
fn keep_first(outcome: &mut Result<()>, next: Result<()>) {
    if outcome.is_ok() {
        *outcome = next;
    }
}

/// What a synchronization has to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaiting {
    /// All that has been begun is done, also at the target.
    Done,
    /// The program may use its buffers again.
    Local,
    /// The same, and what went wrong with operations is left for the call that ends their epoch: this one only begins another.
    LocalUnreported,
}

/// Waits until all is done that this process has begun at `ranks` of the window, or everywhere. Whatever goes wrong, it waits for the rest as well.
///
/// # Errors
/// What went wrong first: a process is gone, or an operation has been refused.
fn finish(index: usize, ranks: Option<&[u32]>, awaiting: Awaiting) -> Result<()> {
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
            Awaiting::Done => engine.flush_target(index, rank),
            Awaiting::Local | Awaiting::LocalUnreported => engine.send_collected(index, rank),
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

/// A fence that has done its part but for the barrier.
pub struct Fence {
    /// The communicator of the window, whose processes meet.
    pub communicator: usize,
    /// What has gone wrong: the others wait for this process all the same.
    outcome: Result<()>,
    /// What kind of epoch may follow.
    goes_on: bool,
    window: usize,
}

impl Fence {
    /// `MPI_Win_fence` but for the barrier: all that this process has begun is done.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`: there is nobody to meet.
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

    /// The barrier is over, or has failed.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`, `MPI_ERR_ASSERT`, `MPI_ERR_RMA_SYNC`; what went wrong with operations, or with the barrier.
    pub fn end(self, met: Result<()>) -> Result<()> {
        let Self { mut outcome, goes_on, window, .. } = self;
        fence(Ordering::SeqCst);
        keep_first(&mut outcome, met);
        let next = with(|process| process.objects.window_mut(window)?.epochs.fence(goes_on));
        keep_first(&mut outcome, next);
        outcome
    }
}

fn check_assert(assert: i32, allowed: i32) -> Result<()> {
    if assert & !allowed == 0 {
        return Ok(());
    }
    let message = format!("assert is {assert}, which has bits that mean nothing to this function");
    Err(Error::new(MPI_ERR_ASSERT, message))
}

/// `MPI_Win_post`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_GROUP`, `MPI_ERR_ASSERT`, `MPI_ERR_RMA_SYNC`; a process is gone.
pub fn post(window: usize, group: &Group, assert: i32) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT)?;
    fence(Ordering::SeqCst);
    with(|process| {
        let ranks = ranks_of(process, window, group)?;
        let (found, engine) = process.window_parts(window)?;
        found.epochs.post(ranks.clone())?;
        if let Some(window) = engine.windows.get_mut(found.index) {
            window.await_ranks(&ranks);
        }
        let mut outcome = Ok(());
        if assert & MPI_MODE_NOCHECK == 0 {
            // Those behind one that is gone wait for it as well.
            for rank in ranks {
                keep_first(&mut outcome, engine.post_to(found.index, rank));
            }
        }
        outcome
    })
}

/// `MPI_Win_start`: returns when all targets have posted.
///
/// # Errors
/// As for [`post`].
pub fn start(window: usize, group: &Group, assert: i32) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let mut process = lock();
    let ranks = ranks_of(&process, window, group)?;
    let (found, _) = process.window_parts(window)?;
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
    // The epoch is open for those that have posted: they wait for its end.
    with(|process| process.objects.window_mut(window).map(|found| found.epochs.begin_started(&ranks)))?;
    fence(Ordering::SeqCst);
    outcome
}

/// Whether each of `ranks`, which the window [awaits](weft_engine::windows::Window::await_ranks), has done something, or is gone: an error then. What they
/// have done is taken, and they are awaited no more.
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
        keep_first(&mut outcome, Err(engine.check_window_peer(index, *rank).err()?));
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

/// `MPI_Win_complete`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_SYNC`; what went wrong with operations; a process is gone.
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
        ranks.iter().for_each(|rank| keep_first(&mut outcome, engine.complete_at(index, *rank)));
        Ok::<_, Error>(())
    })?;
    keep_first(&mut outcome, finish(index, Some(&ranks), Awaiting::Local));
    outcome
}

/// `MPI_Win_wait`, or `MPI_Win_test` if it does not block: whether the exposure epoch is over.
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
        // A program that has heard of the end in another way finds it here: what told it may have come by another route.
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

fn target_rank(process: &Process, window: usize, rank: i32) -> Result<Option<(usize, u32)>> {
    let found = process.objects.window(window)?;
    Ok(found.target(rank)?.map(|(rank, _)| (found.index, rank)))
}

/// `MPI_Win_lock`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RANK`, `MPI_ERR_LOCKTYPE`, `MPI_ERR_ASSERT`, `MPI_ERR_RMA_SYNC`; the target is gone.
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
                engine.lock_target(index, rank, lock_type == MPI_LOCK_EXCLUSIVE)?;
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

/// `MPI_Win_unlock`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RANK`, `MPI_ERR_RMA_SYNC`; what went wrong with operations; the target is gone.
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
        keep_first(&mut outcome, with(|process| process.engine()?.unlock_target(index, rank)));
    }
    keep_first(&mut outcome, finish(index, Some(&[rank]), Awaiting::Done));
    outcome
}

/// `MPI_Win_lock_all`.
///
/// # Errors
/// As for [`lock_one`].
pub fn lock_all(window: usize, assert: i32) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let unchecked = assert & MPI_MODE_NOCHECK != 0;
    let (index, size, mut outcome) = with(|process| {
        let (found, engine) = process.window_parts(window)?;
        found.epochs.check_lock_all()?;
        let (size, mut outcome) = (found.parts.len() as u32, Ok(()));
        if !unchecked {
            (0..size).for_each(|rank| keep_first(&mut outcome, engine.lock_target(found.index, rank, false)));
        }
        Ok::<_, Error>((found.index, size, outcome))
    })?;
    keep_first(&mut outcome, finish(index, None, Awaiting::LocalUnreported));
    if outcome.is_err() && !unchecked {
        // Not all of them can be had: those that are had are given back, as others may wait for them.
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
        (0..size).for_each(|rank| keep_first(&mut outcome, engine.unlock_target(index, rank)));
        outcome
    })
}

/// `MPI_Win_unlock_all`.
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

/// `MPI_Win_flush` and its relatives: of one rank, or of all that are locked; `locally`: only the program's buffers matter.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RANK`, `MPI_ERR_RMA_SYNC`; what went wrong with operations; a target is gone.
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

/// `MPI_Win_sync`.
///
/// # Errors
/// `MPI_ERR_WIN`.
pub fn sync(window: usize) -> Result<()> {
    fence(Ordering::SeqCst);
    // Programs wait for what others store by calling this in a loop.
    crate::process::progress_once();
    with(|process| process.objects.window(window).map(|_| ()))
}

/// `MPI_Win_attach` of `part`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_FLAVOR`; `MPI_ERR_RMA_ATTACH` where some of it is attached already.
pub fn attach(window: usize, part: Exposed) -> Result<()> {
    with(|process| {
        if attached(process, window)?.attach(part) {
            return Ok(());
        }
        Err(Error::new(MPI_ERR_RMA_ATTACH, "some of this memory is attached to the window already"))
    })
}

/// `MPI_Win_detach`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_FLAVOR`; `MPI_ERR_RMA_ATTACH` where no memory that was attached begins at `address`.
pub fn detach(window: usize, address: u64) -> Result<()> {
    with(|process| {
        if attached(process, window)?.detach(address) {
            return Ok(());
        }
        Err(Error::new(MPI_ERR_RMA_ATTACH, format!("nothing is attached to the window at {address:#x}")))
    })
}

fn attached(process: &mut Process, window: usize) -> Result<&mut Attached> {
    let found = process.objects.window(window)?;
    if !found.is_dynamic() {
        let message = "memory can be attached only to windows that MPI_Win_create_dynamic has made";
        return Err(Error::new(MPI_ERR_RMA_FLAVOR, message));
    }
    let index = found.index;
    match process.engine()?.windows.get_mut(index).map(|window| &mut window.exposure) {
        Some(Exposure::Attached(parts)) => Ok(parts),
        _ => Err(Error::new(MPI_ERR_WIN, "the window is gone")),
    }
}

/// Ends a window: all its processes call this, also one at which it `may_end` not. It ends at all of them or at none, and nothing is accessed any more
/// when it has.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_SYNC`, what went wrong with operations, and `may_end`, of whichever process; a process is gone. The window is as it was, with
/// the error handler that this is an error for: a peer that is alive may still write to its memory.
pub fn free(window: usize, may_end: Result<()>) -> Result<()> {
    let (index, communicator) = with(|process| {
        let found = process.objects.window(window)?;
        let (index, communicator) = (found.index, found.communicator);
        if let Some(window) = process.engine()?.windows.get_mut(index) {
            window.finish_unanswered();
        }
        Ok::<_, Error>((index, communicator))
    })?;
    let mut outcome = may_end;
    keep_first(&mut outcome, finish(index, None, Awaiting::Done));
    let why = |rank, class| {
        let message =
            format!("rank {rank} cannot free it, as its own call says, and so the window stays at all processes");
        Error::new(class, message)
    };
    agree(communicator, &outcome, why)?;
    with(|process| remove(process, window));
    Ok(())
}

/// A window is gone from this process.
fn remove(process: &mut Process, window: usize) {
    if let Some(gone) = process.objects.windows.remove(window) {
        process.objects.release_error_handler(gone.error_handler);
        if let Ok(engine) = process.engine() {
            engine.close_window(gone.index);
        }
        process.remove_communicator(gone.communicator);
        drop(gone.memory);
    }
}

/// Whether all processes of a window have been successful, which all hear. An error of another process is as `why` says, given its rank and class.
///
/// # Errors
/// That of `outcome`, or of another process; one is gone.
fn agree<T>(communicator: usize, outcome: &Result<T>, why: impl Fn(usize, ErrorClass) -> Error) -> Result<()> {
    let class = ErrorClass::to_wire(outcome.as_ref().err().map(|error| error.class));
    let classes = scope(communicator).and_then(|scope| gather_all(scope, &[i64::from(class)]));
    if let Err(error) = outcome {
        return Err(error.clone());
    }
    let mut failed = classes?.into_iter().enumerate();
    match failed.find_map(|(rank, class)| Some((rank, ErrorClass::from_wire(class as u32)?))) {
        None => Ok(()),
        Some((rank, class)) => Err(why(rank, class)),
    }
}

/// The error handler of a window is another one from now on.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_ERRHANDLER`.
pub fn set_error_handler(process: &mut Process, window: usize, handler: usize) -> Result<()> {
    let old = process.objects.window(window)?.error_handler;
    process.objects.retain_error_handler(handler, Some(Class::Window))?;
    process.objects.window_mut(window)?.error_handler = handler;
    process.objects.release_error_handler(old);
    Ok(())
}
