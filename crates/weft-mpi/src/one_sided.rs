//! One-sided communication (MPI-5.0 §12): making windows, and synchronizing on them. The operations are the
//! engine's (`weft_engine::windows`). The boundary calls this module.
//!
//! `active_target.rs` and `passive_target.rs` synchronize on windows. Both use `completion.rs` to wait for
//! operations.
//!
//! A window has a communicator of its own, of the same processes, whose contexts keep its messages apart. The
//! program never sees it.

mod active_target;
mod completion;
mod creation;
mod fetch;
mod passive_target;

use crate::collective::CollectiveScope;
use crate::communicator::gather_all;
use crate::constants::*;
use crate::engine::Engine;
use crate::error::{Error, ErrorClass, Result};
use crate::object::{Class, Group};
use crate::process::{Process, with};
use crate::window::Window;

pub use crate::window::direct::{Spot, spot};
pub use active_target::{Fence, complete, post, start, wait};
pub use creation::{Prepared, WindowOptions, open, open_at_first, prepare, prepare_at_first};
pub use fetch::fetch_and_op;
pub use passive_target::{flush, lock_all, lock_one, sync, unlock_all, unlock_one};
pub use weft_engine::engine::TargetItems;
pub use weft_engine::memory::Exposed;
pub use weft_engine::windows::{Attached, ExposedMemory};

use completion::{Awaiting, finish, keep_first};

/// The scope of the next agreement among the processes of a window.
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
}

fn check_assert(assert: i32, allowed: i32) -> Result<()> {
    if assert & !allowed == 0 {
        return Ok(());
    }
    let message = format!("assert is {assert}, which has bits that mean nothing to this function");
    Err(Error::new(MPI_ERR_ASSERT, message))
}

/// Carries out `MPI_Win_attach` of `part`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_FLAVOR`; `MPI_ERR_RMA_ATTACH` where a part of it is attached already.
pub fn attach(window: usize, part: Exposed) -> Result<()> {
    with(|process| {
        if attached(process, window)?.attach(part) {
            return Ok(());
        }
        Err(Error::new(MPI_ERR_RMA_ATTACH, "some of this memory is attached to the window already"))
    })
}

/// Carries out `MPI_Win_detach`.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_FLAVOR`; `MPI_ERR_RMA_ATTACH` where no memory that was attached begins at
/// `address`.
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
    match process.engine()?.windows.get_mut(index).map(|window| &mut window.exposed_memory) {
        Some(ExposedMemory::Attached(parts)) => Ok(parts),
        _ => Err(Error::new(MPI_ERR_WIN, "the window is gone")),
    }
}

/// Ends a window. All its processes call this, also a process at which it must not end by `may_end`. The
/// window ends at all of them or at none, and is accessed no more once it has ended.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RMA_SYNC`, an error of operations, and `may_end`, of any process; a process is
/// gone. Then the window is as it was, with the error handler that this is an error for: a peer that is alive
/// may still write to its memory.
pub fn free(window: usize, may_end: Result<()>) -> Result<()> {
    let is_revoked = with(|process| Ok::<_, Error>(process.objects.window(window)?.check_not_revoked().is_err()))?;
    if is_revoked {
        // The others cannot be asked any more. Whoever still accesses the window gets an error.
        discard(window);
        return Ok(());
    }
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
    let why =
        |rank| format!("rank {rank} cannot free it, as its own call says, and so the window stays at all processes");
    agree(communicator, &outcome, why)?;
    with(|process| remove(process, window));
    Ok(())
}

/// Removes a window of the library itself from this process. All processes have ended their operations on it.
pub fn discard(window: usize) {
    with(|process| remove(process, window));
}

/// Removes a window from this process.
fn remove(process: &mut Process, window: usize) {
    if let Some(gone) = process.objects.windows.remove(window) {
        process.objects.release_error_handler(gone.error_handler);
        process.windows_elsewhere -= usize::from(gone.is_elsewhere);
        if let Ok(engine) = process.engine() {
            engine.one_sided().close_window(gone.index);
        }
        process.remove_communicator(gone.communicator);
        drop(gone.memory);
    }
}

/// Tells all processes of a window whether all of them have been successful. `why` gives the
/// sentence for a failure of another process, from its rank.
///
/// # Errors
/// The error of `outcome`, or of another process; a process is gone.
fn agree<T>(communicator: usize, outcome: &Result<T>, why: impl Fn(usize) -> String) -> Result<()> {
    let class = ErrorClass::to_wire(outcome.as_ref().err().map(|error| error.class));
    let classes = scope(communicator).and_then(|scope| gather_all(scope, &[i64::from(class)]));
    if let Err(error) = outcome {
        return Err(error.clone());
    }
    let mut failed = classes?.into_iter().enumerate();
    match failed.find_map(|(rank, class)| Some((rank, ErrorClass::from_wire(class as u32)?))) {
        None => Ok(()),
        Some((rank, class)) => Err(Error::consequence(class, why(rank))),
    }
}

/// Sets the error handler of a window.
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
