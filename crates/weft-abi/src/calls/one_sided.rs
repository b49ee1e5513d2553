//! One-sided communication (MPI-5.0 §12): windows and their synchronization. The operations that move data
//! are in `one_sided/operations.rs`.

mod operands;
pub(crate) mod operations;

use crate::arguments::*;
use crate::calls::attributes::delete_attributes;
use crate::calls::communicators::info_of;
use crate::calls::error_handlers;
use crate::calls::text;
use crate::calls::{collectives, groups, info};
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use weft_mpi::communicator::Notes;
use weft_mpi::error::{Error, Result};
use weft_mpi::memory::{self};
use weft_mpi::object::Class;
use weft_mpi::one_sided::{self, Attached, Exposed, ExposedMemory, Fence, Prepared, WindowOptions};
use weft_mpi::process::with;

/// The memory of a prepared window: this process's part, and the parts that are mapped here.
fn exposed(prepared: &Prepared) -> (ExposedMemory, Vec<Option<Exposed>>) {
    let rank = prepared.rank() as usize;
    let mapped: Vec<Option<Exposed>> = prepared
        .parts
        .iter()
        .zip(&prepared.locks)
        .map(|(part, lock)| {
            let here = std::ptr::with_exposed_provenance_mut::<u8>(part.here);
            match (part.here, *lock) {
                _ if prepared.is_dynamic() => None,
                (0, _) => None,
                // SAFETY: memory of the program is as long as the program says; mapped memory is as long as
                // the processes have agreed. It is unmapped when the window is gone.
                (_, 0) => Some(unsafe { Exposed::new(here, part.size) }),
                (_, lock) => {
                    let lock = std::ptr::with_exposed_provenance_mut(lock);
                    // SAFETY: as above; the lock is in the same mapping, aligned.
                    Some(unsafe { Exposed::shared(here, part.size, lock, prepared.holder()) })
                }
            }
        })
        .collect();
    let exposed_memory = match mapped[rank] {
        _ if prepared.is_dynamic() => ExposedMemory::Attached(Attached::default()),
        Some(exposed) => ExposedMemory::Whole(exposed),
        None => ExposedMemory::Whole(Exposed::empty()),
    };
    (exposed_memory, mapped)
}

/// Makes a window of one number at rank 0, for a file.
pub(super) fn create_counter(comm: MPI_Comm, notes: Notes) -> Result<(usize, Notes)> {
    let (prepared, highest) = one_sided::prepare_at_first(comm.0, size_of::<i64>(), notes)?;
    let (exposed_memory, mapped) = exposed(&prepared);
    Ok((one_sided::open_at_first(prepared, exposed_memory, mapped)?, highest))
}

/// Makes a window, and returns the address of this process's part of it.
fn create(
    flavor: i32,
    base: Buffer,
    size: i64,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    win: Out<MPI_Win>,
) -> Result<usize> {
    let info = with(|process| info_of(process, info));
    let prepared = one_sided::prepare(comm.0, WindowOptions { flavor, size, disp_unit, base: base.addr(), info })?;
    let (exposed_memory, mapped) = exposed(&prepared);
    let here = prepared.parts[prepared.rank() as usize].here;
    let handle = one_sided::open(prepared, exposed_memory, mapped)?;
    win.set(MPI_Win(handle));
    Ok(here)
}

/// MPI_Win_create (MPI-5.0 §12.2.1).
pub(crate) fn win_create(
    base: Buffer,
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    win: Out<MPI_Win>,
) -> Result<()> {
    // The address goes to other code of the program as an integer, so its provenance is exposed.
    base.as_ptr().expose_provenance();
    create(MPI_WIN_FLAVOR_CREATE, base, size as i64, disp_unit, info, comm, win).map(|_| ())
}

/// MPI_Win_allocate (MPI-5.0 §12.2.2).
pub(crate) fn win_allocate(
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: Out<usize>,
    win: Out<MPI_Win>,
) -> Result<()> {
    let here = create(MPI_WIN_FLAVOR_ALLOCATE, Buffer::NULL, size as i64, disp_unit, info, comm, win)?;
    baseptr.set(here);
    Ok(())
}

/// MPI_Win_allocate_shared (MPI-5.0 §12.2.3).
pub(crate) fn win_allocate_shared(
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: Out<usize>,
    win: Out<MPI_Win>,
) -> Result<()> {
    let here = create(MPI_WIN_FLAVOR_SHARED, Buffer::NULL, size as i64, disp_unit, info, comm, win)?;
    baseptr.set(here);
    Ok(())
}

/// MPI_Win_shared_query (MPI-5.0 §12.2.3): MPI_PROC_NULL stands for the lowest rank that has memory.
pub(crate) fn win_shared_query(
    win: MPI_Win,
    rank: c_int,
    size: Out<MPI_Aint>,
    disp_unit: Out<i64>,
    baseptr: Out<usize>,
) -> Result<()> {
    let (bytes, unit, here) = with(|process| {
        let found = process.objects.window(win.0)?;
        if found.is_dynamic() {
            let message = "the window has been made by MPI_Win_create_dynamic, and its memory cannot be shared";
            return Err(Error::new(MPI_ERR_RMA_FLAVOR, message));
        }
        let allocated = found.facts.flavor != MPI_WIN_FLAVOR_CREATE;
        let part = match found.target(rank)? {
            Some((_, part)) => Some(part),
            None => found.parts.iter().find(|part| part.size > 0),
        };
        let shared = part.filter(|part| allocated && part.here != 0);
        Ok(shared.map_or((0, part.map_or(1, |part| part.disp_unit), 0), |part| (part.size, part.disp_unit, part.here)))
    })?;
    size.set(bytes as MPI_Aint);
    disp_unit.set(unit as i64);
    baseptr.set(here);
    Ok(())
}

/// MPI_Win_create_dynamic (MPI-5.0 §12.2.4).
pub(crate) fn win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: Out<MPI_Win>) -> Result<()> {
    create(MPI_WIN_FLAVOR_DYNAMIC, Buffer::NULL, 0, 1, info, comm, win).map(|_| ())
}

/// MPI_Win_attach (MPI-5.0 §12.2.4).
pub(crate) fn win_attach(win: MPI_Win, base: Buffer, size: MPI_Aint) -> Result<()> {
    let bytes = u64::try_from(size)
        .map_err(|_| Error::new(MPI_ERR_SIZE, format!("size is {size}; it must not be negative")))?;
    if base.is_null() && bytes > 0 {
        return Err(Error::new(MPI_ERR_BASE, format!("base is a null pointer; it must have {bytes} bytes")));
    }
    memory::check_size(base.addr(), bytes, MPI_ERR_SIZE)?;
    // SAFETY: the program keeps the memory until it is detached (MPI-5.0 §12.2.4).
    one_sided::attach(win.0, unsafe { Exposed::new(base.as_ptr(), bytes) })
}

/// MPI_Win_detach (MPI-5.0 §12.2.4).
pub(crate) fn win_detach(win: MPI_Win, base: Buffer) -> Result<()> {
    one_sided::detach(win.0, base.addr() as u64)
}

/// MPI_Win_free (MPI-5.0 §12.2.5).
pub(crate) fn win_free(win: InOut<MPI_Win>) -> Result<()> {
    let handle = win.get();
    let may_end = with(|process| Ok::<_, Error>(process.objects.window(handle.0)?.epochs.check_free()))?;
    let may_end = may_end.and_then(|()| delete_attributes(handle.0, Class::Window));
    one_sided::free(handle.0, may_end)?;
    win.set(MPI_Win::NULL);
    Ok(())
}

/// MPI_Win_get_group (MPI-5.0 §12.2.6).
pub(crate) fn win_get_group(win: MPI_Win, group: Out<MPI_Group>) -> Result<()> {
    groups::comm_group(MPI_Comm(with(|process| Ok::<_, Error>(process.objects.window(win.0)?.communicator))?), group)
}

/// MPI_Win_set_name (MPI-5.0 §7.8).
pub(crate) fn win_set_name(win: MPI_Win, win_name: InString) -> Result<()> {
    let name = text::object_name(win_name);
    with(|process| {
        process.objects.window_mut(win.0)?.name = name;
        Ok(())
    })
}

/// MPI_Win_get_name (MPI-5.0 §7.8): the null handle has a name as well.
pub(crate) fn win_get_name(win: MPI_Win, win_name: OutString, resultlen: Out<c_int>) -> Result<()> {
    let name = match win {
        MPI_Win::NULL => "MPI_WIN_NULL".to_owned(),
        _ => with(|process| Ok::<_, Error>(process.objects.window(win.0)?.name.clone()))?,
    };
    resultlen.set(win_name.set(&name));
    Ok(())
}

/// MPI_Win_set_info (MPI-5.0 §12.2.7): known hints take the given values.
pub(crate) fn win_set_info(win: MPI_Win, info: MPI_Info) -> Result<()> {
    with(|process| {
        let given = info_of(process, info)?;
        let found = process.objects.window_mut(win.0)?;
        for (key, value) in &mut found.info {
            if let Some((_, new)) = given.iter().find(|(name, _)| name == key) {
                value.clone_from(new);
            }
        }
        Ok(())
    })
}

/// MPI_Win_get_info (MPI-5.0 §12.2.7).
pub(crate) fn win_get_info(win: MPI_Win, info_used: Out<MPI_Info>) -> Result<()> {
    info::give(with(|process| Ok::<_, Error>(process.objects.window(win.0)?.info.clone()))?, info_used)
}

/// MPI_Win_set_errhandler (MPI-5.0 §9.3.2).
pub(crate) fn win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) -> Result<()> {
    with(|process| one_sided::set_error_handler(process, win.0, errhandler.0))
}

/// MPI_Win_get_errhandler (MPI-5.0 §9.3.2): the program frees the handle that it gets.
pub(crate) fn win_get_errhandler(win: MPI_Win, errhandler: Out<MPI_Errhandler>) -> Result<()> {
    let handler = with(|process| {
        let handler = process.objects.window(win.0)?.error_handler;
        process.objects.retain_error_handler(handler, None)?;
        Ok::<_, Error>(handler)
    })?;
    errhandler.set(MPI_Errhandler(handler));
    Ok(())
}

/// MPI_Win_call_errhandler (MPI-5.0 §9.5.2).
pub(crate) fn win_call_errhandler(win: MPI_Win, errorcode: c_int) -> Result<()> {
    with(|process| process.objects.window(win.0).map(|_| ()))?;
    error_handlers::call(crate::scope::Scope::Win(win), "MPI_Win_call_errhandler", errorcode)
}

/// MPI_Win_fence (MPI-5.0 §12.5.1).
pub(crate) fn win_fence(assert: c_int, win: MPI_Win) -> Result<()> {
    let fence = Fence::begin(win.0, assert)?;
    let met = collectives::barrier(Form::Blocking, MPI_Comm(fence.communicator));
    // An error of the barrier concerns the window: its communicator has no error handler of the program.
    fence.end(met.map_err(Error::of_the_call))
}

/// MPI_Win_post (MPI-5.0 §12.5.2).
pub(crate) fn win_post(group: MPI_Group, assert: c_int, win: MPI_Win) -> Result<()> {
    let members = with(|process| {
        process.objects.window(win.0)?;
        process.objects.group(group.0)
    })?;
    one_sided::post(win.0, &members, assert)
}

/// MPI_Win_start (MPI-5.0 §12.5.2).
pub(crate) fn win_start(group: MPI_Group, assert: c_int, win: MPI_Win) -> Result<()> {
    let members = with(|process| {
        process.objects.window(win.0)?;
        process.objects.group(group.0)
    })?;
    one_sided::start(win.0, &members, assert)
}

/// MPI_Win_complete (MPI-5.0 §12.5.2).
pub(crate) fn win_complete(win: MPI_Win) -> Result<()> {
    one_sided::complete(win.0)
}

/// MPI_Win_wait (MPI-5.0 §12.5.2).
pub(crate) fn win_wait(win: MPI_Win) -> Result<()> {
    one_sided::wait(win.0, true).map(|_| ())
}

/// MPI_Win_test (MPI-5.0 §12.5.2).
pub(crate) fn win_test(win: MPI_Win, flag: Out<c_int>) -> Result<()> {
    let over = one_sided::wait(win.0, false)?;
    flag.set(c_int::from(over));
    Ok(())
}

/// MPI_Win_lock (MPI-5.0 §12.5.3).
pub(crate) fn win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) -> Result<()> {
    one_sided::lock_one(win.0, lock_type, rank, assert)
}

/// MPI_Win_unlock (MPI-5.0 §12.5.3).
pub(crate) fn win_unlock(rank: c_int, win: MPI_Win) -> Result<()> {
    one_sided::unlock_one(win.0, rank)
}

/// MPI_Win_lock_all (MPI-5.0 §12.5.3).
pub(crate) fn win_lock_all(assert: c_int, win: MPI_Win) -> Result<()> {
    one_sided::lock_all(win.0, assert)
}

/// MPI_Win_unlock_all (MPI-5.0 §12.5.3).
pub(crate) fn win_unlock_all(win: MPI_Win) -> Result<()> {
    one_sided::unlock_all(win.0)
}

/// MPI_Win_flush (MPI-5.0 §12.5.4).
pub(crate) fn win_flush(rank: c_int, win: MPI_Win) -> Result<()> {
    one_sided::flush(win.0, Some(rank), false)
}

/// MPI_Win_flush_all (MPI-5.0 §12.5.4).
pub(crate) fn win_flush_all(win: MPI_Win) -> Result<()> {
    one_sided::flush(win.0, None, false)
}

/// MPI_Win_flush_local (MPI-5.0 §12.5.4).
pub(crate) fn win_flush_local(rank: c_int, win: MPI_Win) -> Result<()> {
    one_sided::flush(win.0, Some(rank), true)
}

/// MPI_Win_flush_local_all (MPI-5.0 §12.5.4).
pub(crate) fn win_flush_local_all(win: MPI_Win) -> Result<()> {
    one_sided::flush(win.0, None, true)
}

/// MPI_Win_sync (MPI-5.0 §12.5.4).
pub(crate) fn win_sync(win: MPI_Win) -> Result<()> {
    one_sided::sync(win.0)
}
