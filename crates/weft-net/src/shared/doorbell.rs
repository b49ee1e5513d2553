//! Wakes a rank that sleeps in the kernel, by one datagram to a socket in Linux's abstract name space.
//!
//! The name needs no file and disappears with its process however that ends; the socket can be polled together with network sockets; and a datagram
//! to a dead process is refused at once, which is how a peer's death is noticed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::Error;
use crate::sys::{INTERRUPTS_MAX, ReceiveBatch};
use crate::wait::{Interest, wait};
use weft_core::time::Duration;

/// Rings that one `drain` takes, with one system call; more are left for the next. Linux queues 10 by default.
const DRAIN_MAX: usize = 16;
/// Bytes of a ring.
const RING_BYTES: usize = 1;
/// How long a sender waits for room when rings to very many peers are still unheard.
const PATIENCE: Duration = Duration::from_secs(10);

/// This process's bell, and the way to all others of its job on this node.
pub(crate) struct Doorbell {
    socket: UnixDatagram,
    rings: ReceiveBatch,
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
        Ok(Self { socket, rings: ReceiveBatch::new(DRAIN_MAX, RING_BYTES) })
    }

    /// Rings a peer's bell.
    pub(crate) fn ring(&self, peer: &SocketAddr) -> Rung {
        let mut last = libc::EINTR;
        for _ in 0..INTERRUPTS_MAX {
            let cause = match self.socket.send_to_addr(&[1; RING_BYTES], peer) {
                Ok(_) => return Rung::Yes,
                Err(cause) => cause,
            };
            last = cause.raw_os_error().unwrap_or(0);
            match last {
                // The peer's queue is full of rings, so it will wake up; or our own unheard rings fill our buffer, so wait.
                libc::EAGAIN if self.has_room(Duration::default()) => return Rung::Yes,
                libc::EAGAIN if self.has_room(PATIENCE) => {}
                libc::ECONNREFUSED | libc::ENOENT => return Rung::Nobody,
                libc::EINTR | libc::ENOBUFS | libc::ENOMEM => {}
                _ => break,
            }
        }
        Rung::Failed(last)
    }

    /// Whether this end's buffer has room within `patience`.
    fn has_room(&self, patience: Duration) -> bool {
        wait(&[(self.fd(), Interest::Write)], Some(patience)).is_ok_and(|ready| !ready.is_empty())
    }

    /// Takes the rings that have come.
    pub(crate) fn drain(&mut self) {
        // Nothing there, or an interruption: the next sleep is short, nothing is lost.
        let _ = self.rings.receive(self.socket.as_fd(), DRAIN_MAX);
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str) -> [(Doorbell, SocketAddr); 2] {
        let key = format!("test-{name}-{}", std::process::id());
        [0, 1].map(|i| {
            let address = address(&key, i).unwrap();
            (Doorbell::bind(&address).unwrap(), address)
        })
    }

    #[test]
    fn a_ring_wakes_a_sleeper_and_can_be_drained() {
        let [(mut near, address), (far, _)] = pair("wake");
        let fd = near.fd();
        let asleep = |ms| wait(&[(fd, Interest::Read)], Some(Duration::from_millis(ms))).unwrap().is_empty();
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
    #[test]
    fn more_sleepers_than_the_send_buffer_holds_are_all_woken() {
        const SLEEPERS: usize = 500;
        let key = format!("test-many-{}", std::process::id());
        let mut sleepers: Vec<_> = (0..SLEEPERS)
            .map(|i| {
                let address = address(&key, i).unwrap();
                (Doorbell::bind(&address).unwrap(), address)
            })
            .collect();
        let addresses: Vec<_> = sleepers.iter().map(|(_, address)| address.clone()).collect();
        let [(sender, _), _] = pair("many-sender");
        std::thread::scope(|scope| {
            let ringing = scope.spawn(move || addresses.iter().filter(|peer| sender.ring(peer) == Rung::Yes).count());
            std::thread::sleep(std::time::Duration::from_millis(20));
            for (bell, _) in &mut sleepers {
                let heard = wait(&[(bell.fd(), Interest::Read)], Some(Duration::from_secs(20))).unwrap();
                assert!(!heard.is_empty(), "a sleeper was not woken");
                bell.drain();
            }
            assert_eq!(ringing.join().unwrap(), SLEEPERS);
        });
    }
}
