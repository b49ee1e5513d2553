//! Sleeping on a word of the segment by futex(2), shared between processes.
//!
//! A futex is cheaper than the doorbell for a rank that waits only for its neighbours: a system call on each
//! side.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::AtomicU32;

/// Sleeps while `word` is `value`, at most `timeout_ns`. Returns for any reason, a signal included.
pub(crate) fn wait(word: &AtomicU32, value: u32, timeout_ns: Option<u64>) {
    let time = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let time_pointer = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word is alive during the call, and the time is null or valid. Whatever the result, the
    // caller looks again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, time_pointer) };
}

/// Wakes one sleeper, if there is one.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the kernel takes the address of a living word as a name and does not write to it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}
