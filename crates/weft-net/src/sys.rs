//! System calls, each in a safe function with Rust types. `unsafe` lives here so that it does not live in the links.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// How often a call that a signal interrupted is repeated before the interruption is reported.
pub(crate) const INTERRUPTS_MAX: usize = 64;

/// Nanoseconds of CLOCK_MONOTONIC.
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours to write. CLOCK_MONOTONIC always exists, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// ppoll(2) with a timeout in nanoseconds.
pub(crate) fn ppoll(fds: &mut [libc::pollfd], timeout_ns: Option<u64>) -> io::Result<()> {
    let time = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let time_pointer = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `fds` is a valid list of that length, the time is null or valid, the signal mask is absent.
    let result = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, time_pointer, ptr::null()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The effective user.
pub(crate) fn user() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

/// The machine's name; empty when it has none.
pub(crate) fn host_name() -> Vec<u8> {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer is ours, one byte is left for the terminator.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    if result != 0 {
        return Vec::new();
    }
    name.iter().copied().take_while(|&byte| byte != 0).collect()
}

/// Processors in this thread's affinity mask, on machines of any size.
pub(crate) fn affinity_count() -> io::Result<usize> {
    /// 64 Ki processors: more than Linux can be built for.
    const MASK_WORDS_MAX: usize = 1024;
    let mut mask = vec![0_u64; 16];
    loop {
        // SAFETY: the mask is ours to write, its size is given in bytes.
        let written =
            unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, mask.len() * size_of::<u64>(), mask.as_mut_ptr()) };
        if written >= 0 {
            return Ok(mask.iter().map(|word| word.count_ones() as usize).sum());
        }
        let cause = io::Error::last_os_error();
        if cause.raw_os_error() != Some(libc::EINVAL) || mask.len() >= MASK_WORDS_MAX {
            return Err(cause);
        }
        mask = vec![0; mask.len() * 2];
    }
}

/// Whether a lock is for readers (many) or for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
}

/// flock(2) without waiting. The lock lasts as long as the open file, so it dies with its process.
pub(crate) fn try_lock(file: BorrowedFd<'_>, lock: Lock) -> io::Result<()> {
    let operation = match lock {
        Lock::Shared => libc::LOCK_SH,
        Lock::Exclusive => libc::LOCK_EX,
    };
    // SAFETY: the descriptor is open, no memory is involved.
    check(unsafe { libc::flock(file.as_raw_fd(), operation | libc::LOCK_NB) })
}

/// posix_fallocate(3): the range has memory or disk behind it, or the call fails. Interrupted calls are repeated.
pub(crate) fn reserve(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    for _ in 0..INTERRUPTS_MAX {
        // SAFETY: the descriptor is open, no memory is involved.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), offset as libc::off_t, len as libc::off_t) } {
            0 => return Ok(()),
            libc::EINTR => {}
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EINTR))
}

pub(crate) fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
