//! The one module that is allowed to be unsafe: thin, safe wrappers around what the standard library does not offer.

mod affinity;
mod poll;
mod process;
mod signals;

pub(crate) use affinity::affinity;
pub(crate) use poll::{Poll, READ, WRITE};
pub(crate) use process::{Ended, Fork, Spawn, clear_death_signal, exit_now, fork, is_foreground, on_fork, reap};
pub(crate) use process::{SpawnError, Step, become_subreaper, kill, kill_group, new_group, spawn};
pub(crate) use signals::{Mask, Signals, expect_full_files, is_ignored};

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Turns the result of a system call that reports errors by -1 into an `io::Result`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Takes over a descriptor that was inherited and marks it close-on-exec, so that it ends with this process and is not
/// handed on to programs that this process starts.
///
/// # Errors
/// The descriptor is not open.
pub(crate) fn adopt(fd: RawFd) -> io::Result<File> {
    // SAFETY: fcntl only looks at the number; a descriptor that is not open is reported as EBADF.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open, and by the launcher's convention this process is its only user.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Maps `words` 32-bit words of `file` for the rest of the process's life, shared with whoever maps them too.
///
/// # Errors
/// The system's, among them a file shorter than asked for.
pub(crate) fn map_words(file: &File, words: usize) -> io::Result<&'static [AtomicU32]> {
    let length = words * size_of::<AtomicU32>();
    if file.metadata()?.len() < length as u64 || length == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let address =
        unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is page-aligned, `length` bytes long, never unmapped, and only ever seen as atomics.
    Ok(unsafe { std::slice::from_raw_parts(address.cast::<AtomicU32>(), words) })
}

/// A reference that always leads to a word that lives as long as the process.
pub(crate) struct WordRef(AtomicPtr<AtomicU32>);

impl WordRef {
    /// A reference that leads to `word` at first.
    pub(crate) const fn new(word: &'static AtomicU32) -> Self {
        Self(AtomicPtr::new(std::ptr::from_ref(word).cast_mut()))
    }

    /// Makes it lead to `word` from now on.
    pub(crate) fn refer_to(&self, word: &'static AtomicU32) {
        self.0.store(std::ptr::from_ref(word).cast_mut(), Ordering::Release);
    }

    /// The word that it leads to.
    #[inline]
    pub(crate) fn word(&self) -> &'static AtomicU32 {
        let word = self.0.load(Ordering::Relaxed);
        // SAFETY: only `new` and `refer_to` write the pointer, from references that live for ever.
        unsafe { &*word }
    }
}

/// Fills `bytes` with random bytes that cannot be guessed.
///
/// # Errors
/// The system's (a kernel older than 3.17).
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        // SAFETY: the pointer and length describe a writable slice.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(got) {
            Ok(count) => filled += count,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// What the system said, and what to do about a limit of open files.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            format!("{error}: `ulimit -n` says how many a process may have, and `ulimit -n NUMBER` raises it")
        }
        Some(libc::ENFILE) => format!("{error}: the whole machine has no more, see /proc/sys/fs/file-max"),
        Some(libc::EFBIG) => {
            format!(
                "{error}: `ulimit -f` says how large a file may be, one in memory too; `ulimit -f unlimited` raises it"
            )
        }
        _ => error.to_string(),
    }
}

/// Raises this process's limit of open descriptors to `wanted`, or as far as it may.
pub(crate) fn raise_descriptor_limit(wanted: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a local.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
    if known && limit.rlim_cur < wanted {
        limit.rlim_cur = wanted.min(limit.rlim_max);
        // SAFETY: the pointer is to a local. A refusal shows later, as a descriptor that cannot be opened.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
}

/// Gives `file` so many bytes, if this process may have so large a file (`ulimit -f`): else the system would end it by a signal.
///
/// # Errors
/// EFBIG; the system's.
fn set_length(file: &File, bytes: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a local.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    if known && bytes > limit.rlim_cur {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    file.set_len(bytes)
}

/// The user on whose behalf this process acts.
pub(crate) fn user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Ends the process as C programs expect it: exit handlers run and standard output is flushed.
pub(crate) fn exit_as_c(code: i32) -> ! {
    // SAFETY: `exit` may be called from any thread; it does not return.
    unsafe { libc::exit(code) }
}

/// Makes reads and writes on a descriptor return at once; affects everybody who shares its open file.
///
/// # Errors
/// The system's.
pub(crate) fn set_nonblocking(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `file` lives; F_GETFL takes no argument.
    let flags = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: as above; F_SETFL takes the flags.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// Locks an open file (flock(2)) for this process alone until it is closed. False: another process has it.
///
/// # Errors
/// The system's.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open as long as `file` lives; the rest is numbers.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file of `length` zero bytes that lives in memory and has no name.
///
/// # Errors
/// The system's.
pub(crate) fn memory_file(length: usize) -> io::Result<File> {
    // SAFETY: the name is a constant C string.
    let fd = check(unsafe { libc::memfd_create(c"weft-calls".as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    set_length(&file, length as u64)?;
    Ok(file)
}

/// A file in memory without a name that shows as `name`, mapped as so many words, all 0, for the life of the process.
///
/// # Errors
/// The process may have no more files or memory.
pub(crate) fn memory_words(name: &CStr, words: usize) -> io::Result<(File, &'static [AtomicU64])> {
    // SAFETY: the name is a C string that outlives the call.
    let fd = check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let bytes = words * size_of::<AtomicU64>();
    set_length(&file, bytes as u64)?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is page-aligned, so long, never unmapped, and only ever seen as atomics; nobody shortens the file.
    Ok((file, unsafe { std::slice::from_raw_parts(address.cast::<AtomicU64>(), words) }))
}

/// Nanoseconds of the machine's monotonic clock, the same for all its processes.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A second descriptor for one of this process's standard streams (0, 1 or 2), closed on exec.
///
/// # Errors
/// The stream is closed.
pub(crate) fn duplicate_standard(stream: RawFd) -> io::Result<File> {
    // SAFETY: F_DUPFD_CLOEXEC only looks at the number; the copy is at least 3, so that it never becomes a stream.
    let fd = check(unsafe { libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Lets a standard stream (0, 1 or 2) of this process refer to `file`.
///
/// # Errors
/// The system's.
pub(crate) fn replace_standard(stream: RawFd, file: &File) -> io::Result<()> {
    assert!((0..=2).contains(&stream), "{stream} is no standard stream");
    // SAFETY: both descriptors are open; nothing in this program owns descriptors 0 to 2.
    check(unsafe { libc::dup2(file.as_raw_fd(), stream) }).map(drop)
}
