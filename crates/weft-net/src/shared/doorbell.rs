//! Waking a rank that sleeps in the kernel: one datagram to a socket in Linux's abstract name space.
//!
//! The name needs no file, disappears with its process however that ends, can be polled together with network sockets, and a ring
//! at a dead process is refused at once, which is how a peer's death is noticed.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::Error;

/// Rings that one `drain` takes; more are left for the next.
const DRAIN_MAX: usize = 64;

/// This process's bell, and the way to all others of its job on this node.
pub(crate) struct Doorbell {
    socket: UnixDatagram,
}

/// What became of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// The peer will wake up.
    Yes,
    /// Nobody owns that bell any more: the peer has left or died.
    Nobody,
    /// The machine refused for another reason.
    Failed(i32),
}

/// The name of a rank's bell. Unguessable as the job's key is.
pub(crate) fn address(job_key: &str, index: usize) -> Result<SocketAddr, Error> {
    let name = format!("weft-{job_key}-{index}");
    SocketAddr::from_abstract_name(&name).map_err(|cause| Error::system(format!("name the doorbell {name}"), cause))
}

impl Doorbell {
    /// Hangs the bell.
    pub(crate) fn bind(address: &SocketAddr) -> Result<Self, Error> {
        let bind = || {
            let socket = UnixDatagram::bind_addr(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = bind().map_err(|cause: io::Error| {
            Error::system("bind this rank's doorbell (are two groups of ranks using one job key?)", cause)
        })?;
        Ok(Self { socket })
    }

    /// Rings a peer's bell.
    pub(crate) fn ring(&self, peer: &SocketAddr) -> Rung {
        for _ in 0..crate::sys::INTERRUPTS_MAX {
            let cause = match self.socket.send_to_addr(&[1], peer) {
                Ok(_) => return Rung::Yes,
                Err(cause) => cause,
            };
            match cause.kind() {
                // Its queue is full of rings: it will wake up.
                io::ErrorKind::WouldBlock => return Rung::Yes,
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => return Rung::Nobody,
                io::ErrorKind::Interrupted => {}
                _ => return Rung::Failed(cause.raw_os_error().unwrap_or(0)),
            }
        }
        Rung::Failed(libc::EINTR)
    }

    /// Takes the rings that have come.
    pub(crate) fn drain(&self) {
        let mut ring = [0; 8];
        for _ in 0..DRAIN_MAX {
            if self.socket.recv(&mut ring).is_err() {
                break;
            }
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{Interest, wait};
    use weft_core::time::Duration;

    fn pair(name: &str) -> [(Doorbell, SocketAddr); 2] {
        let key = format!("test-{name}-{}", std::process::id());
        [0, 1].map(|i| {
            let address = address(&key, i).unwrap();
            (Doorbell::bind(&address).unwrap(), address)
        })
    }

    #[test]
    fn a_ring_wakes_a_sleeper_and_can_be_drained() {
        let [(near, address), (far, _)] = pair("wake");
        let asleep = |ms| wait(&[(near.fd(), Interest::Read)], Some(Duration::from_millis(ms))).unwrap().is_empty();
        assert!(asleep(1));
        // More rings than any queue holds: none blocks, none is an error.
        (0..1000).for_each(|_| assert_eq!(far.ring(&address), Rung::Yes));
        assert!(!asleep(5_000));
        near.drain();
        near.drain();
        assert!(asleep(1));
    }

    #[test]
    fn a_bell_without_owner_is_noticed() {
        let [(near, address), (far, _)] = pair("gone");
        drop(near);
        assert_eq!(far.ring(&address), Rung::Nobody);
    }
}
