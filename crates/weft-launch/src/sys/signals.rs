//! Signals that are read instead of interrupting.

use super::check;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread::JoinHandle;

/// The signals that a process has blocked.
#[derive(Clone, Copy)]
pub(crate) struct Mask(pub(super) libc::sigset_t);

/// Signals that are blocked and read instead.
pub(crate) struct Signals {
    file: File,
}

impl Signals {
    /// Blocks `numbers` for this process and makes them readable. Returns the mask from before, for the
    /// programs that this process starts.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn block(numbers: &[i32]) -> io::Result<(Self, Mask)> {
        // SAFETY: an all-zero sigset_t is a valid value to be initialised.
        let mut wanted: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a local.
        check(unsafe { libc::sigemptyset(&mut wanted) })?;
        for &number in numbers {
            // SAFETY: the pointer is to an initialised local; a bad number is reported.
            check(unsafe { libc::sigaddset(&mut wanted, number) })?;
        }
        // SAFETY: as above.
        let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to locals.
        check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &wanted, &mut before) })?;
        // SAFETY: -1 asks for a new descriptor; the set is initialised.
        let fd = check(unsafe { libc::signalfd(-1, &wanted, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })?;
        // SAFETY: the descriptor is new and nobody else's.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        Ok((Self { file }, Mask(before)))
    }

    /// The next signal that has arrived.
    pub(crate) fn next(&mut self) -> Option<i32> {
        let mut record = [0; size_of::<libc::signalfd_siginfo>()];
        match self.file.read(&mut record) {
            // The number is the record's first word (signalfd(2)).
            Ok(length) if length == record.len() => {
                Some(i32::from_ne_bytes([record[0], record[1], record[2], record[3]]))
            }
            _ => None,
        }
    }
}

/// Starts a thread to which no signal of the program is delivered.
///
/// # Errors
/// There cannot be another thread.
pub(crate) fn spawn_without_signals(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    spawn(name, Box::new(body))
}

/// What starts a thread is there once, and not for each body.
fn spawn(name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    // SAFETY: sets of zeros are valid places for sets; the calls read and write only these. A new thread has
    // the signal mask of the thread that starts it, which gets its own mask back at once.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        thread
    }
}

/// Makes a write that would exceed the largest allowed file (`ulimit -f`) an error from now on, and not a
/// signal that ends the process. Programs that this process starts get the signal as usual: a handler does
/// not survive execve(2).
pub(crate) fn expect_full_files() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, which is safe at any time; the signal exists on every Linux.
    unsafe { libc::signal(libc::SIGXFSZ, nothing as *const () as libc::sighandler_t) };
}

/// Returns whether this process was started with this signal ignored.
pub(crate) fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid value to be overwritten.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null pointer asks for the present action only; the other pointer is to a local.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } == 0;
    known && action.sa_sigaction == libc::SIG_IGN
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
