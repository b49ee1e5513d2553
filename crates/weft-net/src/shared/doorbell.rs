//! The doorbell: wakes a rank that sleeps in the kernel, by a datagram to a socket in Linux's abstract name
//! space.
//!
//! The name needs no file, and disappears with its process however the process ends. The socket can be polled
//! together with network sockets. The kernel refuses a datagram to a dead process at once.
//!
//! Every user of the machine can see such names (/proc/net/unix) and send to them. So a bell has a secret in
//! the shared segment, where only the ranks of the node can read it. To ring the bell is to send that secret.
//! The bell's owner gives its socket a filter, which the kernel runs on each datagram before it queues the
//! datagram, on the sender's time. A stranger's datagram is dropped there, with all descriptors that come
//! along: it takes no room in the queue and wakes nobody.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::Ordering;

use crate::Error;
use crate::atomic::AtomicU64;
use crate::socket_filter::{self, SECRET_WORDS};
use crate::sys::{self, INTERRUPTS_MAX};
use crate::wait::{Interest, wait};
use weft_core::time::Duration;

/// Longest time for which a sender waits for room while its rings to very many peers are still unheard.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most names that are tried. Each name is random, so a second one is hardly ever needed.
const NAMES_MAX: usize = 8;
/// Words in which a key is told to other ranks.
pub(crate) const KEY_WORDS: usize = 3;

/// The key of a rank's bell, which other ranks need to ring the bell: the number in its name, and its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) [u64; KEY_WORDS]);

impl Key {
    fn random() -> io::Result<Self> {
        let mut bytes = [0; KEY_WORDS * size_of::<u64>()];
        sys::random(&mut bytes)?;
        let (words, _) = bytes.as_chunks();
        Ok(Self(std::array::from_fn(|i| u64::from_ne_bytes(words[i]))))
    }

    /// Writes the key where other ranks read it ([`Self::published`]).
    pub(crate) fn publish(self, words: &[AtomicU64; KEY_WORDS]) {
        for (word, value) in words.iter().zip(self.0).rev() {
            word.store(value, Ordering::Release);
        }
    }

    /// The key that stands in these words; `None`: there is none yet.
    pub(crate) fn published(words: &[AtomicU64; KEY_WORDS]) -> Option<Self> {
        // The first word is written last.
        let key = Self(std::array::from_fn(|i| words[i].load(Ordering::Acquire)));
        (key.0[0] != 0).then_some(key)
    }

    fn address(self) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(format!("weft-{:016x}", self.0[0]))
    }

    /// Returns the secret as bytes, which are the datagram of a ring.
    fn secret(self) -> [u8; SECRET_WORDS * size_of::<u32>()] {
        (u128::from(self.0[1]) << 64 | u128::from(self.0[2])).to_be_bytes()
    }

    /// Returns the secret as words, as the kernel's filter compares them.
    fn words(self) -> [u32; SECRET_WORDS] {
        let secret = self.secret();
        let (words, _) = secret.as_chunks();
        std::array::from_fn(|i| u32::from_be_bytes(words[i]))
    }
}

/// A bell of this process, which also rings the bells of all others of its job on this node.
pub(crate) struct Doorbell {
    socket: UnixDatagram,
    key: Key,
}

/// A peer's bell.
pub(crate) struct Bell {
    address: SocketAddr,
    ring: [u8; SECRET_WORDS * size_of::<u32>()],
}

/// The result of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// The peer will wake up.
    Yes,
    /// No process owns that bell any more: the peer has left or died.
    Nobody,
    /// The machine refused for another reason.
    Failed(i32),
}

impl Bell {
    /// The bell with this key.
    #[inline(never)]
    pub(crate) fn new(key: Key) -> io::Result<Self> {
        Ok(Self { address: key.address()?, ring: key.secret() })
    }
}

impl Doorbell {
    /// Makes this process's bell.
    #[inline(never)]
    pub(crate) fn hang() -> Result<Self, Error> {
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..NAMES_MAX {
            match Key::random().and_then(Self::hang_with) {
                Ok(bell) => return Ok(bell),
                Err(cause) => last = cause,
            }
            if last.kind() != io::ErrorKind::AddrInUse {
                break;
            }
        }
        Err(Error::system("make this rank's doorbell", last))
    }

    fn hang_with(key: Key) -> io::Result<Self> {
        let socket = UnixDatagram::bind_addr(&key.address()?)?;
        socket.set_nonblocking(true)?;
        sys::attach_filter(socket.as_fd(), &socket_filter::whoever_knows(key.words()))?;
        let bell = Self { socket, key };
        // Removes the datagrams that came before the socket had a filter.
        bell.drain();
        Ok(bell)
    }

    /// Returns the key of this bell. A process that knows the key can ring the bell.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Rings a peer's bell.
    #[inline(never)]
    pub(crate) fn ring(&self, peer: &Bell) -> Rung {
        let mut last = libc::EINTR;
        for _ in 0..INTERRUPTS_MAX {
            let cause = match self.socket.send_to_addr(&peer.ring, &peer.address) {
                Ok(_) => return Rung::Yes,
                Err(cause) => cause,
            };
            last = cause.raw_os_error().unwrap_or(0);
            match last {
                // Either the peer's queue is full of rings, so the peer will wake up; or this process's own
                // unheard rings fill its buffer, so it waits.
                libc::EAGAIN if self.has_room(Duration::default()) => return Rung::Yes,
                libc::EAGAIN if self.has_room(PATIENCE) => {}
                libc::ECONNREFUSED | libc::ENOENT => return Rung::Nobody,
                libc::EINTR | libc::ENOBUFS | libc::ENOMEM => {}
                _ => break,
            }
        }
        Rung::Failed(last)
    }

    /// Returns whether this end's buffer has room within `patience`.
    fn has_room(&self, patience: Duration) -> bool {
        wait(&[(self.fd(), Interest::Write)], Some(patience)).is_ok_and(|ready| !ready.is_empty())
    }

    /// Removes the rings that have come from the queue.
    pub(crate) fn drain(&self) {
        // If there is no ring, or a signal interrupts, the next sleep is short; nothing is lost.
        let _ = sys::discard(self.socket.as_fd());
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::descriptors;

    fn pair() -> [(Doorbell, Bell); 2] {
        [(); 2].map(|()| {
            let own = Doorbell::hang().unwrap();
            let bell = Bell::new(own.key()).unwrap();
            (own, bell)
        })
    }

    fn is_quiet(bell: &Doorbell, ms: u64) -> bool {
        wait(&[(bell.fd(), Interest::Read)], Some(Duration::from_millis(ms))).unwrap().is_empty()
    }

    /// Sends an end of a connection by `send`, and returns whether no process holds that end any more.
    fn is_closed(send: impl FnOnce(&UnixStream)) -> bool {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        send(&far);
        drop(far);
        near.read(&mut [0]).is_ok_and(|read| read == 0)
    }

    #[test]
    fn a_ring_wakes_a_sleeper_and_can_be_drained() {
        let [(near, bell), (far, _)] = pair();
        assert!(is_quiet(&near, 1));
        // More rings than any queue holds: no ring blocks, and no ring is an error.
        (0..1000).for_each(|_| assert_eq!(far.ring(&bell), Rung::Yes));
        assert!(!is_quiet(&near, 5_000));
        near.drain();
        near.drain();
        assert!(is_quiet(&near, 1));
    }

    #[test]
    fn a_bell_without_owner_is_noticed() {
        let [(near, bell), (far, _)] = pair();
        drop(near);
        assert_eq!(far.ring(&bell), Rung::Nobody);
    }

    #[test]
    fn what_a_stranger_sends_neither_wakes_nor_fills_nor_stays_and_rings_come_all_the_same() {
        let [(near, bell), (far, _)] = pair();
        let stranger = UnixDatagram::unbound().unwrap();
        stranger.connect_addr(&bell.address).unwrap();
        stranger.set_nonblocking(true).unwrap();
        let mut guesses = vec![Vec::new(), vec![1], vec![0; 16], vec![7; 4000]];
        // Datagrams that are nearly right: short, long, and with each bit wrong.
        guesses.extend([bell.ring[..15].to_vec(), [&bell.ring[..], &[0]].concat()]);
        guesses.extend((0..128).map(|bit| {
            let mut guess = bell.ring;
            guess[bit / 8] ^= 1 << (bit % 8);
            guess.to_vec()
        }));
        for guess in &guesses {
            assert_eq!(stranger.send(guess).unwrap(), guess.len(), "there is room, since nothing is kept");
            let send = |far: &UnixStream| descriptors::send(&stranger, guess, [far.as_fd()]).unwrap();
            assert!(is_closed(send), "a descriptor is kept");
        }
        assert!(is_quiet(&near, 1), "a stranger has woken it");
        assert_eq!(far.ring(&bell), Rung::Yes);
        assert!(!is_quiet(&near, 5_000));
        near.drain();
        assert!(is_quiet(&near, 1));
    }

    #[test]
    fn descriptors_that_come_with_a_ring_are_closed() {
        let [(near, bell), (far, _)] = pair();
        far.socket.connect_addr(&bell.address).unwrap();
        assert!(is_closed(|end| {
            descriptors::send(&far.socket, &bell.ring, [end.as_fd()]).unwrap();
            assert!(!is_quiet(&near, 5_000), "it is a ring, of one who knows the secret");
            near.drain();
        }));
    }

    #[test]
    fn more_sleepers_than_the_send_buffer_holds_are_all_woken() {
        const SLEEPERS: usize = 500;
        let sleepers: Vec<_> = (0..SLEEPERS).map(|_| Doorbell::hang().unwrap()).collect();
        let bells: Vec<_> = sleepers.iter().map(|own| Bell::new(own.key()).unwrap()).collect();
        let sender = Doorbell::hang().unwrap();
        std::thread::scope(|scope| {
            let ringing = scope.spawn(move || bells.iter().filter(|peer| sender.ring(peer) == Rung::Yes).count());
            std::thread::sleep(std::time::Duration::from_millis(20));
            for bell in &sleepers {
                assert!(!is_quiet(bell, 20_000), "a sleeper was not woken");
                bell.drain();
            }
            assert_eq!(ringing.join().unwrap(), SLEEPERS);
        });
    }
}
