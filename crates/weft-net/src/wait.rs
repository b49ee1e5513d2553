//! Sleeping in the kernel until a descriptor is ready or a time has come ([`wait`]).
//!
//! The engine's `SpinBudget` and `Wait` ([`weft_engine::waiting`]) say how long a call spins before it
//! sleeps.

use std::io;
use std::os::fd::RawFd;

use weft_core::time::Duration;

use crate::sys;

/// Most descriptors that a call can watch.
pub const FDS_MAX: usize = 32;

/// A set of descriptors, by their index in the list given to [`wait`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready(pub u32);

impl Ready {
    /// Returns whether the descriptor at `index` is ready (readable, writable if asked for, hung up, or
    /// broken).
    pub fn has(self, index: usize) -> bool {
        index < FDS_MAX && self.0 & (1 << index) != 0
    }

    /// Returns whether the time ran out, or a signal came, and no descriptor is ready.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The event to wait for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// The descriptor is readable.
    Read,
    /// The descriptor is readable, or has room to write.
    ReadWrite,
    /// The descriptor has room to write.
    Write,
}

/// Sleeps until one of `fds` is ready or `timeout` has passed (None: no limit). A signal ends the sleep
/// without a ready descriptor.
///
/// # Errors
/// InvalidInput with more than [`FDS_MAX`] descriptors; otherwise the error of ppoll(2).
pub fn wait(fds: &[(RawFd, Interest)], timeout: Option<Duration>) -> io::Result<Ready> {
    if fds.len() > FDS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors to wait for"));
    }
    let mut polled = [libc::pollfd { fd: -1, events: 0, revents: 0 }; FDS_MAX];
    for (slot, &(fd, interest)) in polled.iter_mut().zip(fds) {
        slot.fd = fd;
        slot.events = match interest {
            Interest::Read => libc::POLLIN,
            Interest::ReadWrite => libc::POLLIN | libc::POLLOUT,
            Interest::Write => libc::POLLOUT,
        };
    }
    match sys::ppoll(&mut polled[..fds.len()], timeout.map(Duration::as_nanos)) {
        Ok(()) => {}
        Err(cause) if cause.kind() == io::ErrorKind::Interrupted => return Ok(Ready::default()),
        Err(cause) => return Err(cause),
    }
    let mut ready = 0;
    for (index, slot) in polled[..fds.len()].iter().enumerate() {
        if slot.revents != 0 {
            ready |= 1 << index;
        }
    }
    Ok(Ready(ready))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::clock;

    #[test]
    fn a_timeout_ends_the_sleep_with_nothing_ready() {
        let (near, _far) = UnixStream::pair().unwrap();
        let start = clock::now();
        let ready = wait(&[(near.as_raw_fd(), Interest::Read)], Some(Duration::from_millis(3))).unwrap();
        assert!(ready.is_empty());
        assert!(clock::now().since(start) >= Duration::from_millis(3));
    }

    #[test]
    fn the_ready_descriptor_is_named() {
        let (idle, _far) = UnixStream::pair().unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"x").unwrap();
        let fds = [(idle.as_raw_fd(), Interest::Read), (near.as_raw_fd(), Interest::Read)];
        let ready = wait(&fds, Some(Duration::from_secs(5))).unwrap();
        assert!(!ready.has(0) && ready.has(1) && !ready.has(FDS_MAX));
        let ready = wait(&[(idle.as_raw_fd(), Interest::ReadWrite)], Some(Duration::from_secs(5))).unwrap();
        assert!(ready.has(0));
    }

    #[test]
    fn too_many_descriptors_are_refused() {
        assert!(wait(&[(0, Interest::Read); FDS_MAX + 1], None).is_err());
    }
}
