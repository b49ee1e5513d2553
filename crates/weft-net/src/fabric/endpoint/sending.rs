//! Sending of packets: at once, or when the provider has room for them.
#![allow(unsafe_code)]

use std::ptr;

use weft_core::time::Duration;

use super::Endpoint;
use crate::clock;

/// Least packets for a peer that the provider may have, however many peers there are.
const SHARE_MIN: usize = 4;
/// Longest time for which a peer without room holds up packets for other peers.
const PATIENCE: Duration = Duration::from_millis(10);

/// The result of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric) enum Sent {
    /// The provider has it.
    Taken,
    /// The provider has no room now.
    Full,
    /// The provider has had no room for this peer for too long; the packet is lost.
    Lost,
    /// The provider refuses the packet.
    Refused,
}

impl Endpoint {
    /// Sends a packet of at most `packet_size` bytes to the peer of this number, which `insert` has given.
    ///
    /// There may be room for one peer and none for another: a reliable endpoint takes no more for a peer that
    /// does not read. Such a peer holds others up for [`PATIENCE`] only. From then on its packets are lost
    /// until there is room for one.
    pub(in crate::fabric) fn send(&mut self, to: u64, packet: &[u8]) -> Sent {
        let sent = self.try_send(to, packet);
        let Some(peer) = self.peers.get_mut(to as usize) else { return Sent::Refused };
        if sent != Sent::Full {
            peer.full_since = None;
            return sent;
        }
        let now = clock::now();
        if now.since(*peer.full_since.get_or_insert(now)) < PATIENCE {
            return Sent::Full;
        }
        // A provider that finds no connection for a packet gives only this error, however often it is asked.
        self.last_error.get_or_insert(("fi_send", -i64::from(libc::EAGAIN)));
        Sent::Lost
    }

    fn try_send(&mut self, to: u64, packet: &[u8]) -> Sent {
        let peers = self.peers.len();
        let Some(peer) = self.peers.get_mut(to as usize) else { return Sent::Refused };
        let code = if packet.len() <= self.inject_max {
            // SAFETY: the endpoint is open; `inject` has done with the bytes when it returns.
            unsafe { ((*(*self.ep.0).msg).inject)(self.ep.0, packet.as_ptr().cast(), packet.len(), peer.name) }
        } else {
            // No peer's packets take all the room.
            if peer.under_way >= (self.sends.count / peers).max(SHARE_MIN).min(self.sends.count) {
                return Sent::Full;
            }
            let Some(index) = self.free_sends.pop() else { return Sent::Full };
            let (bytes, length) = (self.sends.at(index), self.prefix.sent + packet.len());
            let context = self.sends.context(index);
            // SAFETY: there is room for the prefix and a packet; the buffer is ours until the context comes
            // back by the completion queue.
            let code = unsafe {
                ptr::copy_nonoverlapping(packet.as_ptr(), bytes.add(self.prefix.sent), packet.len());
                let send = (*(*self.ep.0).msg).send;
                send(self.ep.0, bytes.cast(), length, self.sends.description(), peer.name, context)
            };
            match code {
                0 => (self.owners[index], peer.under_way) = (to as usize, peer.under_way + 1),
                _ => self.free_sends.push(index),
            }
            code
        };
        match code {
            0 => Sent::Taken,
            code if code == -(libc::EAGAIN as isize) => Sent::Full,
            code => {
                self.last_error = Some(("fi_send", code as i64));
                Sent::Refused
            }
        }
    }

    /// Takes back the packet at this index, which the provider has given back.
    pub(super) fn end_send(&mut self, index: usize) {
        if let Some(peer) = self.peers.get_mut(self.owners[index]) {
            peer.under_way = peer.under_way.saturating_sub(1);
        }
        self.free_sends.push(index);
    }
}
