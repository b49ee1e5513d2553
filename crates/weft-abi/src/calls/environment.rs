//! MPI environmental management, start-up and shutdown (MPI-5.0 §9, §11.2).

use crate::arguments::*;
use crate::caller;
use crate::calls::attributes::{check_all_at_rest, delete_attributes};
use crate::calls::info::give;
use crate::calls::processes::meet_parent;
use crate::constants::*;
use crate::others;
use crate::types::*;
use std::alloc::Layout;
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use weft_mpi::error::{Error, Result};
use weft_mpi::object::Class;
use weft_mpi::process::{Phase, with};
use weft_mpi::start;
use weft_ordered::Map;

/// MPI_Get_version (MPI-5.0 §9.1.1).
pub(crate) fn get_version(version: Out<c_int>, subversion: Out<c_int>) -> Result<()> {
    version.set(MPI_VERSION);
    subversion.set(MPI_SUBVERSION);
    Ok(())
}

/// MPI_Get_library_version (MPI-5.0 §9.1.1).
pub(crate) fn get_library_version(version: OutString, resultlen: Out<c_int>) -> Result<()> {
    let sentence = concat!("Weft ", env!("CARGO_PKG_VERSION"), " (MPI 5.0, standard ABI 1.0)");
    resultlen.set(version.set(sentence));
    Ok(())
}

/// MPI_Abi_get_version (MPI-5.0 §20.2).
pub(crate) fn abi_get_version(abi_major: Out<c_int>, abi_minor: Out<c_int>) -> Result<()> {
    abi_major.set(MPI_ABI_VERSION);
    abi_minor.set(MPI_ABI_SUBVERSION);
    Ok(())
}

/// MPI_Abi_get_info (MPI-5.0 §20.2): sizes of the ABI's integer types in bytes.
pub(crate) fn abi_get_info(info: Out<MPI_Info>) -> Result<()> {
    let sizes = [
        ("mpi_aint_size", size_of::<MPI_Aint>()),
        ("mpi_count_size", size_of::<MPI_Count>()),
        ("mpi_offset_size", size_of::<MPI_Offset>()),
    ];
    let pairs = sizes.map(|(name, size)| (name.to_owned(), size.to_string())).to_vec();
    give(pairs, info)
}

/// MPI_Get_hw_resource_info (MPI-5.0 §9.1.2): the names are those that `MPI_Comm_split_type` takes.
pub(crate) fn get_hw_resource_info(hw_info: Out<MPI_Info>) -> Result<()> {
    give(weft_mpi::hardware::info(), hw_info)
}

/// MPI_Init (MPI-5.0 §11.2.1).
pub(crate) fn init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Result<()> {
    initialize(MPI_THREAD_SINGLE)
}

/// MPI_Init_thread (MPI-5.0 §11.2.1): every level is provided.
pub(crate) fn init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: Out<c_int>,
) -> Result<()> {
    let levels = [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE];
    let level = levels.into_iter().find(|level| *level >= required).unwrap_or(MPI_THREAD_MULTIPLE);
    initialize(level)?;
    provided.set(level);
    Ok(())
}

fn initialize(level: c_int) -> Result<()> {
    match with(|process| process.phase) {
        Phase::Before => {
            others::tell();
            start::initialize(level, caller::names())?;
            meet_parent()
        }
        Phase::Active => Err(Error::new(MPI_ERR_OTHER, "MPI has been initialised already")),
        Phase::After => Err(Error::new(MPI_ERR_OTHER, "MPI has been finalized: it cannot be initialised again")),
    }
}

/// MPI_Finalize (MPI-5.0 §11.2.2). The attributes of MPI_COMM_SELF are deleted first (MPI-5.0 §11.2.4).
pub(crate) fn finalize() -> Result<()> {
    others::tell();
    with(|process| check_all_at_rest(&process.objects))?;
    delete_attributes(weft_mpi::constants::MPI_COMM_SELF, Class::Communicator)?;
    start::finalize()
}

/// MPI_Initialized (MPI-5.0 §11.2.3).
pub(crate) fn initialized(flag: Out<c_int>) -> Result<()> {
    let begun = with(|process| process.phase != Phase::Before);
    flag.set(c_int::from(begun));
    Ok(())
}

/// MPI_Finalized (MPI-5.0 §11.2.3).
pub(crate) fn finalized(flag: Out<c_int>) -> Result<()> {
    let over = with(|process| process.phase == Phase::After);
    flag.set(c_int::from(over));
    Ok(())
}

/// MPI_Query_thread (MPI-5.0 §11.2.1).
pub(crate) fn query_thread(provided: Out<c_int>) -> Result<()> {
    let level = with(|process| process.thread_level);
    provided.set(level);
    Ok(())
}

/// MPI_Is_thread_main (MPI-5.0 §11.2.1).
pub(crate) fn is_thread_main(flag: Out<c_int>) -> Result<()> {
    let main = with(|process| process.main_thread == Some(weft_mpi::process::thread_number()));
    flag.set(c_int::from(main));
    Ok(())
}

/// MPI_Abort (MPI-5.0 §11.4.2): ends the whole job.
pub(crate) fn abort(_comm: MPI_Comm, errorcode: c_int) -> Result<()> {
    start::abort(errorcode, &format!("MPI_Abort was called with error code {errorcode}"))
}

/// MPI_Get_processor_name (MPI-5.0 §9.1.2).
pub(crate) fn get_processor_name(name: OutString, resultlen: Out<c_int>) -> Result<()> {
    let text = with(|process| process.job.as_ref().map(|job| job.processor_name.clone())).unwrap_or_default();
    resultlen.set(name.set(&text));
    Ok(())
}

static ORIGIN: OnceLock<Instant> = OnceLock::new();

/// MPI_Wtime (MPI-5.0 §9.6): seconds since the first call of this process.
pub(crate) fn wtime() -> f64 {
    ORIGIN.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// MPI_Wtick (MPI-5.0 §9.6): the clock counts nanoseconds.
pub(crate) fn wtick() -> f64 {
    1e-9
}

/// MPI_Pcontrol (MPI-5.0 §15.2.7): for profilers; the library itself does nothing.
pub(crate) fn pcontrol(_level: c_int) -> Result<()> {
    Ok(())
}

/// The alignment, in bytes, of memory from MPI_Alloc_mem: a cache line.
const MEMORY_ALIGNMENT: usize = 64;

/// The memory that MPI_Alloc_mem gave and MPI_Free_mem has not taken back, by address. No other address is
/// freed.
static ALLOCATED: Mutex<Map<usize, Layout>> = Mutex::new(Map::new());

fn allocated() -> MutexGuard<'static, Map<usize, Layout>> {
    ALLOCATED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// MPI_Alloc_mem (MPI-5.0 §9.2).
pub(crate) fn alloc_mem(size: MPI_Aint, _info: MPI_Info, baseptr: Out<usize>) -> Result<()> {
    let no_memory = || Error::new(MPI_ERR_NO_MEM, format!("size is {size}: there is not so much memory left"));
    // Memory of no bytes has its own address, too.
    let bytes = usize::try_from(size).unwrap_or(0).max(1);
    let layout = Layout::from_size_align(bytes, MEMORY_ALIGNMENT).map_err(|_| no_memory())?;
    // SAFETY: the size is not zero.
    let memory = unsafe { std::alloc::alloc(layout) };
    if memory.is_null() {
        return Err(no_memory());
    }
    allocated().insert(memory.expose_provenance(), layout);
    baseptr.set(memory.addr());
    Ok(())
}

/// MPI_Free_mem (MPI-5.0 §9.2).
pub(crate) fn free_mem(base: Buffer) -> Result<()> {
    if base.is_null() {
        return Ok(());
    }
    let Some(layout) = allocated().remove(&base.addr()) else {
        let sentence =
            format!("base is {:p}, which MPI_Alloc_mem has not given, or which has been freed already", base.as_ptr());
        return Err(Error::new(MPI_ERR_BASE, sentence));
    };
    // SAFETY: this is memory of this layout, which nobody has freed: it was in the table.
    unsafe { std::alloc::dealloc(base.as_ptr(), layout) };
    Ok(())
}
