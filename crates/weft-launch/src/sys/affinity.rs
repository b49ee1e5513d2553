//! The processors that a process may run on.

use std::io;

/// The most words of a mask: 64 Ki processors, more than Linux can be built for.
const MASK_WORDS_MAX: usize = 1024;
/// The words that are tried first: 1024 processors.
const MASK_WORDS: usize = 16;

/// The processors in this thread's affinity mask, a bit for each, on machines of any size. The cpuset of the
/// control groups counts: the kernel keeps masks inside it.
///
/// # Errors
/// An error of the system.
pub(crate) fn affinity() -> io::Result<Vec<u64>> {
    let mut mask = vec![0_u64; MASK_WORDS];
    loop {
        let length = size_of_val(mask.as_slice());
        // SAFETY: the mask is ours to write, its size is given in bytes.
        let written = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, length, mask.as_mut_ptr()) };
        if written >= 0 {
            return Ok(mask);
        }
        let cause = io::Error::last_os_error();
        if cause.raw_os_error() != Some(libc::EINVAL) || mask.len() >= MASK_WORDS_MAX {
            return Err(cause);
        }
        mask = vec![0; mask.len() * 2];
    }
}
