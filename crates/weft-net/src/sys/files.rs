//! System calls on files that the standard library does not have.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

/// What [`lock_range`] does with a range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RangeLock {
    /// Others may read, nobody may write.
    Shared,
    /// Nobody else may read or write.
    Exclusive,
    /// The lock is given back.
    Unlocked,
}

/// Locks the bytes from `start` on of an open file against other descriptions of it, and waits until this is
/// possible (`F_OFD_SETLKW`). The lock belongs to the description: it goes when that is closed.
pub(crate) fn lock_range(file: BorrowedFd<'_>, lock: RangeLock, start: u64, bytes: u64) -> io::Result<()> {
    let kind = match lock {
        RangeLock::Shared => libc::F_RDLCK,
        RangeLock::Exclusive => libc::F_WRLCK,
        RangeLock::Unlocked => libc::F_UNLCK,
    };
    // SAFETY: zeros are a valid value of this structure.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    (range.l_type, range.l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    (range.l_start, range.l_len) = (start as libc::off_t, bytes as libc::off_t);
    loop {
        // SAFETY: the descriptor is open, and the kernel only reads the structure.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &range) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Reserves room for the bytes from `start` on of a file, which becomes as long as that if it is shorter
/// (fallocate(2)).
pub(crate) fn allocate(file: BorrowedFd<'_>, start: u64, bytes: u64) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open.
        let failed = unsafe { libc::fallocate(file.as_raw_fd(), 0, start as libc::off_t, bytes as libc::off_t) } != 0;
        if !failed {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The number by which the file system of a file names itself (statfs(2)).
pub(crate) fn file_system(file: BorrowedFd<'_>) -> io::Result<i64> {
    // SAFETY: zeros are a valid value of this structure.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and the place is there to be written.
    match unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut facts) } {
        0 => Ok(facts.f_type),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes a descriptor, and tells what the kernel says. The descriptor is gone in any case.
pub(crate) fn close(file: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open, and belongs to nobody any more.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

/// The size that a file of this process may have (`RLIMIT_FSIZE`). A write beyond it raises a signal, which
/// by default ends the process.
pub(crate) fn file_size_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the place is there to be written.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}
