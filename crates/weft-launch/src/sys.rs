//! The one module that may be unsafe: thin, safe wrappers around system calls that the standard library does
//! not offer.

mod affinity;
mod interfaces;
mod library;
pub(crate) mod munge;
pub(crate) mod pmix;
mod poll;
mod process;
mod signals;
mod stat;

pub(crate) use affinity::affinity;
pub(crate) use interfaces::{Interface, interfaces};
pub(crate) use library::own_file;
pub(crate) use poll::{GONE, Poll, READ, Ready, WRITE};
pub(crate) use process::{
    Ended, Fork, Process, Spawn, clear_death_signal, close_all_but, exit_now, fork, is_foreground, on_fork, reap,
};
pub(crate) use process::{SpawnError, Step, become_subreaper, kill, kill_group, new_group, spawn, start, wait};
pub(crate) use signals::{Mask, Signals, expect_full_files, is_ignored, spawn_without_signals};
pub(crate) use stat::Stat;

use rustix::fs::{MemfdFlags, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::Resource;
use rustix::rand::GetRandomFlags;
use rustix::time::ClockId;
use std::ffi::{CStr, c_void};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Turns the result of a system call that reports errors by -1 into an `io::Result`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Lets programs that this process starts from now on have this descriptor.
///
/// # Errors
/// An error of the system.
pub(crate) fn pass_on(file: &impl AsFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?)
}

/// Another descriptor of the same file, with a number that is not below `lowest`, closed on exec.
///
/// # Errors
/// This process may not have so many.
pub(crate) fn duplicate_above(file: &File, lowest: RawFd) -> io::Result<File> {
    Ok(File::from(rustix::io::fcntl_dupfd_cloexec(file, lowest)?))
}

/// Takes over a descriptor that was inherited and marks it close-on-exec. So it ends with this process, and
/// programs that this process starts do not get it.
///
/// # Errors
/// The descriptor is not open.
pub(crate) fn adopt(fd: RawFd) -> io::Result<File> {
    // SAFETY: fcntl only looks at the number; a descriptor that is not open is reported as EBADF.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open, and by the launcher's convention this process is its only user.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Maps the first bytes of `file` for the rest of the process's life, shared with every process that maps
/// them.
fn map(file: &File, bytes: usize) -> io::Result<*mut c_void> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    Ok(unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }?)
}

/// Maps `words` 32-bit words of `file` for the rest of the process's life, shared with every process that
/// maps them.
///
/// # Errors
/// An error of the system, also for a file shorter than asked for.
pub(crate) fn map_words(file: &File, words: usize) -> io::Result<&'static [AtomicU32]> {
    let length = words * size_of::<AtomicU32>();
    if file.metadata()?.len() < length as u64 || length == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    let address = map(file, length)?;
    // SAFETY: the mapping is page-aligned, `length` bytes long, never unmapped, and only ever seen as
    // atomics.
    Ok(unsafe { std::slice::from_raw_parts(address.cast::<AtomicU32>(), words) })
}

/// A reference to a word that lives as long as the process.
pub(crate) struct WordRef(AtomicPtr<AtomicU32>);

impl WordRef {
    /// A reference to `word` at first.
    pub(crate) const fn new(word: &'static AtomicU32) -> Self {
        Self(AtomicPtr::new(std::ptr::from_ref(word).cast_mut()))
    }

    /// Makes the reference lead to `word` from now on.
    pub(crate) fn refer_to(&self, word: &'static AtomicU32) {
        self.0.store(std::ptr::from_ref(word).cast_mut(), Ordering::Release);
    }

    /// The word that the reference leads to.
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
/// An error of the system (a kernel older than 3.17).
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The text of a system's error, and what to do about a limit of open files.
pub(crate) fn reason(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => {
            format!("{error}: `ulimit -n` says how many a process may have, and `ulimit -n NUMBER` raises it")
        }
        Some(Errno::NFILE) => format!("{error}: the whole machine has no more, see /proc/sys/fs/file-max"),
        Some(Errno::FBIG) => {
            format!(
                "{error}: `ulimit -f` says how large a file may be, one in memory too; `ulimit -f unlimited` raises it"
            )
        }
        _ => error.to_string(),
    }
}

/// Raises this process's limit of open descriptors to `wanted`, or as far as it may.
pub(crate) fn raise_descriptor_limit(wanted: u64) {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| wanted.min(maximum)));
        // A refusal shows later, when a descriptor cannot be opened.
        let _ = rustix::process::setrlimit(Resource::Nofile, limit);
    }
}

/// Gives `file` so many bytes, if this process may have so large a file (`ulimit -f`). Otherwise the system
/// would end the process by a signal.
///
/// # Errors
/// EFBIG; an error of the system.
fn set_length(file: &File, bytes: u64) -> io::Result<()> {
    if rustix::process::getrlimit(Resource::Fsize).current.is_some_and(|most| bytes > most) {
        return Err(Errno::FBIG.into());
    }
    file.set_len(bytes)
}

/// The user on whose behalf this process acts.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Ends the process as C programs expect it: exit handlers run and standard output is flushed.
pub(crate) fn exit_as_c(code: i32) -> ! {
    // SAFETY: `exit` may be called from any thread; it does not return.
    unsafe { libc::exit(code) }
}

/// Makes reads and writes on a descriptor return at once. This affects every process that shares its open
/// file.
///
/// # Errors
/// An error of the system.
pub(crate) fn set_nonblocking(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags | OFlags::NONBLOCK)?)
}

/// Locks an open file (flock(2)) for this process alone until it is closed. Returns `false` when another
/// process has it.
///
/// # Errors
/// An error of the system.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Makes a file of `length` zero bytes in memory, which shows as `name`.
///
/// # Errors
/// An error of the system.
fn named_memory_file(name: &CStr, length: usize) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    set_length(&file, length as u64)?;
    Ok(file)
}

/// Makes a file of `length` zero bytes in memory, without a name.
///
/// # Errors
/// An error of the system.
pub(crate) fn memory_file(length: usize) -> io::Result<File> {
    named_memory_file(c"weft-calls", length)
}

/// Makes a file in memory that shows as `name`, mapped as `words` words, all 0, for the life of the process.
///
/// # Errors
/// The process may not have more files or memory.
pub(crate) fn memory_words(name: &CStr, words: usize) -> io::Result<(File, &'static [AtomicU64])> {
    let bytes = words * size_of::<AtomicU64>();
    let file = named_memory_file(name, bytes)?;
    let address = map(&file, bytes)?;
    // SAFETY: the mapping is page-aligned, so long, never unmapped, and only ever seen as atomics; nobody
    // shortens the file.
    Ok((file, unsafe { std::slice::from_raw_parts(address.cast::<AtomicU64>(), words) }))
}

/// Nanoseconds of the machine's monotonic clock, the same for all its processes.
pub(crate) fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Makes a second descriptor for one of this process's standard streams (0, 1 or 2), closed on exec. Its
/// number is at least 3, so that it never becomes a stream.
///
/// # Errors
/// The stream is closed.
pub(crate) fn duplicate_standard(stream: RawFd) -> io::Result<File> {
    let copy = match stream {
        0 => io::stdin().as_fd().try_clone_to_owned(),
        1 => io::stdout().as_fd().try_clone_to_owned(),
        2 => io::stderr().as_fd().try_clone_to_owned(),
        _ => panic!("{stream} is no standard stream"),
    };
    copy.map(File::from)
}

/// Makes a standard stream (0, 1 or 2) of this process refer to `file`.
///
/// # Errors
/// An error of the system.
pub(crate) fn replace_standard(stream: RawFd, file: &File) -> io::Result<()> {
    let replaced = match stream {
        0 => rustix::stdio::dup2_stdin(file),
        1 => rustix::stdio::dup2_stdout(file),
        2 => rustix::stdio::dup2_stderr(file),
        _ => panic!("{stream} is no standard stream"),
    };
    Ok(replaced?)
}
