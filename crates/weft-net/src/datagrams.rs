//! What every datagram link offers: send a packet, receive a batch, say what fits. Faults, traces and capture wrap it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// What became of a packet handed to [`Datagrams::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel took it. It may still be lost.
    Sent,
    /// The socket's send buffer is full: wait until [`Datagrams::fd`] is writable, or try again later.
    WouldBlock,
    /// Refused by the machine (firewall, queue full, no route just now) and counted: a lost packet like any other.
    Dropped,
    /// Larger than the path to this peer carries without fragmentation. Sending it again cannot help.
    TooLarge,
}

/// A link that carries packets unreliably: it may lose, repeat or reorder them, never on purpose.
pub trait Datagrams {
    /// Sends one packet of at most [`Self::packet_size`] bytes. One system call, never blocks.
    ///
    /// # Errors
    /// Only what no later attempt can cure (the socket is unusable); everything transient is an [`Outcome`].
    fn send(&mut self, to: &SocketAddr, packet: &[u8]) -> io::Result<Outcome>;

    /// Sends a train: consecutive packets of `segment` bytes each (the last may be shorter) to one peer.
    /// Returns how many bytes were taken, a multiple of `segment` or all; less than all means "would block".
    /// A link with segmentation offload does it in one system call.
    ///
    /// # Errors
    /// As [`Self::send`].
    fn send_train(&mut self, to: &SocketAddr, train: &[u8], segment: usize) -> io::Result<usize> {
        let mut taken = 0;
        for packet in train.chunks(segment.max(1)) {
            if self.send(to, packet)? == Outcome::WouldBlock {
                break;
            }
            taken += packet.len();
        }
        Ok(taken)
    }

    /// Hands at most `limit` packets that have arrived to `on_packet`, in order of arrival; returns how many. Never blocks.
    /// Who sent a packet is written in the packet and proved by its tag, so the sender's address is not reported.
    fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize;

    /// The descriptor that becomes readable when a packet arrives.
    fn fd(&self) -> RawFd;

    /// The largest packet this end can send and receive, in bytes (the UDP payload). A pair uses the smaller of its two ends.
    fn packet_size(&self) -> usize;
}

impl<D: Datagrams + ?Sized> Datagrams for &mut D {
    #[inline]
    fn send(&mut self, to: &SocketAddr, packet: &[u8]) -> io::Result<Outcome> {
        (**self).send(to, packet)
    }

    #[inline]
    fn send_train(&mut self, to: &SocketAddr, train: &[u8], segment: usize) -> io::Result<usize> {
        (**self).send_train(to, train, segment)
    }

    #[inline]
    fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        (**self).receive(on_packet, limit)
    }

    fn fd(&self) -> RawFd {
        (**self).fd()
    }

    fn packet_size(&self) -> usize {
        (**self).packet_size()
    }
}
