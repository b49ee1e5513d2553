//! The symbols by which a debugger finds the ranks of a job: the MPIR process acquisition interface, version
//! 1.1 (MPI Forum, 2018). TotalView and DDT read them in the starter of a job, `mpiexec`.
//!
//! Debuggers find the symbols by name, so nothing here is called from elsewhere, and the types are those that
//! a debugger expects. The symbols are in this executable only: in the library they would tell a debugger
//! that every rank is a starter.
#![allow(non_upper_case_globals, non_snake_case)]

use std::ffi::{CString, c_char, c_int};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering, compiler_fence};

use weft_launch::mpiexec::Debugger;

/// `MPIR_PROCDESC`.
#[repr(C)]
struct Process {
    host_name: *const c_char,
    executable_name: *const c_char,
    pid: c_int,
}

/// `MPIR_DEBUG_SPAWNED`.
const SPAWNED: i32 = 1;
/// `MPIR_DEBUG_ABORTING`.
const ABORTING: i32 = 2;

/// The processes by rank.
#[used]
#[unsafe(no_mangle)]
static MPIR_proctable: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
/// The number of processes in the table.
#[used]
#[unsafe(no_mangle)]
static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);
/// The reason why [`MPIR_Breakpoint`] has been called.
#[used]
#[unsafe(no_mangle)]
static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);
/// Set by a debugger. Nothing here depends on it.
#[used]
#[unsafe(no_mangle)]
static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);
/// The reason why the job is aborted.
#[used]
#[unsafe(no_mangle)]
static MPIR_debug_abort_string: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());
/// Tells a debugger, by being there, that this process is no rank.
#[used]
#[unsafe(no_mangle)]
static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(0);
/// Tells a debugger, by being there, that it need not attach to all ranks: the others go on by themselves.
#[used]
#[unsafe(no_mangle)]
static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(0);

/// Stops here under a debugger.
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn MPIR_Breakpoint() {
    // A call of an empty function would be optimised away.
    std::hint::black_box(&MPIR_debug_state);
    compiler_fence(Ordering::SeqCst);
}

/// The view of a job for debuggers that read these symbols.
pub(crate) struct Mpir;

impl Debugger for Mpir {
    fn show_ranks(&self, ranks: Vec<(String, Vec<u8>, i32)>) {
        // A debugger may read the table at any time from now on, so it is never freed.
        let text = |bytes: Vec<u8>| CString::new(bytes).unwrap_or_default().into_raw().cast_const();
        let describe = |(host, program, pid): (String, Vec<u8>, i32)| Process {
            host_name: text(host.into_bytes()),
            executable_name: text(program),
            pid,
        };
        let table: Box<[Process]> = ranks.into_iter().map(describe).collect();
        let table = Box::leak(table);
        MPIR_proctable_size.store(i32::try_from(table.len()).unwrap_or(i32::MAX), Ordering::SeqCst);
        MPIR_proctable.store(table.as_mut_ptr(), Ordering::SeqCst);
        MPIR_debug_state.store(SPAWNED, Ordering::SeqCst);
        MPIR_Breakpoint();
    }

    fn show_abort(&self, reason: &str) {
        let reason = CString::new(reason).unwrap_or_default();
        MPIR_debug_abort_string.store(reason.into_raw(), Ordering::SeqCst);
        MPIR_debug_state.store(ABORTING, Ordering::SeqCst);
        MPIR_Breakpoint();
    }
}
