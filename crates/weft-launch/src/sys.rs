//! The one module that is allowed to be unsafe: thin, safe wrappers around what the standard library does not offer.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

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

/// A place that always refers to a word that lives as long as the process.
pub(crate) struct Place(AtomicPtr<AtomicU32>);

impl Place {
    /// A place that refers to `word` at first.
    pub(crate) const fn new(word: &'static AtomicU32) -> Self {
        Self(AtomicPtr::new(std::ptr::from_ref(word).cast_mut()))
    }

    /// Makes the place refer to `word` from now on.
    pub(crate) fn refer_to(&self, word: &'static AtomicU32) {
        self.0.store(std::ptr::from_ref(word).cast_mut(), Ordering::Release);
    }

    /// The word that the place refers to.
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

/// Ends the process as C programs expect it: exit handlers run and standard output is flushed.
pub(crate) fn exit_as_c(code: i32) -> ! {
    // SAFETY: `exit` may be called from any thread; it does not return.
    unsafe { libc::exit(code) }
}
