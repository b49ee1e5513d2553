//! Sending: packets, and the messages that this end has to send by itself.
#![allow(unsafe_code)]

use super::{Device, Leaving, OPERATIONS_RESERVED, Peer, SENT, number, post};
use crate::verbs::api::{IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WR_RDMA_WRITE, IBV_WR_SEND, Send};
use crate::verbs::pairing::{Event, State};
use crate::verbs::ring;
use crate::verbs::wire::{HEADER, Header, Kind};
use std::io;
use std::net::SocketAddr;
use std::ptr;

/// Sends that are reserved for messages that this end has to send by itself.
const SENDS_RESERVED: usize = 16;

impl Device {
    /// Sends a packet, and returns whether the device has it. An error means that the device never will.
    pub(in crate::verbs) fn send(&mut self, to: usize, packet: &[u8]) -> Result<bool, ()> {
        let Some(peer) = self.peers.get(to) else { return Err(()) };
        match peer.pair.state() {
            State::Ready if !peer.gone => {}
            State::Apart => {
                self.event(to, Event::Wanted, None);
                return Ok(false);
            }
            State::Lost => return Err(()),
            _ => return Ok(false),
        }
        // Messages that this end has to send go first: a client's first message above all.
        if !peer.says.is_empty() && !self.talk(to) {
            return Ok(false);
        }
        if self.far_has_room(to, packet.len()) {
            return self.write_to_ring(to, packet);
        }
        self.transmit(to, Kind::Packet, packet)
    }

    /// Tells a peer which of its rails this end has dropped. Returns `false` when that is not possible now.
    /// The message is as sure to arrive as a packet.
    pub(in crate::verbs) fn tell_dropped(&mut self, to: usize, rails: u16) -> bool {
        let Some(peer) = self.peers.get(to) else { return false };
        match peer.pair.state() {
            State::Ready if !peer.gone => {}
            State::Apart => {
                self.event(to, Event::Wanted, None);
                return false;
            }
            _ => return false,
        }
        self.peers[to].says.is_empty() && self.transmit(to, Kind::Dropped, &rails.to_le_bytes()) == Ok(true)
    }

    /// Sends a message of a kind. Returns `false` when there is no room for it now.
    pub(super) fn transmit(&mut self, to: usize, kind: Kind, packet: &[u8]) -> Result<bool, ()> {
        let peer = &self.peers[to];
        if (kind.needs_credit() && peer.credits.left() == 0) || !self.has_room(to, kind.is_packet()) {
            return Ok(false);
        }
        let header = self.header(to, kind);
        let (Some(index), Some(sends)) = (self.free_sends.pop(), &self.sends) else { return Ok(false) };
        // SAFETY: the buffer is this message's until its completion comes, and a packet fits behind the
        // header.
        unsafe {
            let bytes = sends.at(index);
            ptr::copy_nonoverlapping(header.as_ptr(), bytes, HEADER);
            ptr::copy_nonoverlapping(packet.as_ptr(), bytes.add(HEADER), packet.len());
        }
        if !self.leave(to, (index, HEADER + packet.len()), kind.is_packet(), None) {
            return Ok(false);
        }
        if kind.needs_credit() {
            self.peers[to].credits.take();
        }
        Ok(true)
    }

    /// Returns whether the device takes another message to a peer.
    pub(super) fn has_room(&self, to: usize, is_packet: bool) -> bool {
        let peer = &self.peers[to];
        let reserved = if is_packet { OPERATIONS_RESERVED.min(self.limits.operations / 2) } else { 0 };
        let sends_left = if is_packet { SENDS_RESERVED } else { 0 };
        peer.operations < self.limits.operations - reserved && self.free_sends.len() > sends_left && !peer.id.is_null()
    }

    /// Returns the header of the next message to a peer.
    pub(super) fn header(&self, to: usize, kind: Kind) -> [u8; HEADER] {
        let Peer { grants, sent, ring, .. } = &self.peers[to];
        let taken = ring.as_ref().map_or(0, |own| own.ring.taken());
        Header { kind, credits: grants.owed(), taken, number: *sent }.encode()
    }

    /// Hands the message in a buffer to the device, to send it, or to write it to an address with a key.
    /// Returns whether the device took it.
    pub(super) fn leave(
        &mut self,
        to: usize,
        (index, length): (usize, usize),
        is_packet: bool,
        written: Option<(u64, u32)>,
    ) -> bool {
        let Some(sends) = &self.sends else { return false };
        let mut piece = sends.piece(index, length);
        let inline = if length <= self.inline_max { IBV_SEND_INLINE } else { 0 };
        let (remote_address, remote_key) = written.unwrap_or_default();
        let mut send = Send {
            id: number(SENT, self.peers[to].epoch, index),
            next: ptr::null_mut(),
            pieces: &raw mut piece,
            count: 1,
            operation: if written.is_some() { IBV_WR_RDMA_WRITE } else { IBV_WR_SEND },
            flags: IBV_SEND_SIGNALED | inline,
            immediate: 0,
            remote_address,
            remote_key,
            unused: [0; 9],
        };
        if !self.hand_on(to, (index, is_packet), &mut send) {
            return false;
        }
        let peer = &mut self.peers[to];
        peer.grants.note_told();
        peer.ring.iter_mut().for_each(|own| own.ring.note_told());
        peer.held += usize::from(is_packet);
        peer.sent = peer.sent.wrapping_add(u16::from(is_packet));
        if is_packet {
            self.clock += 1;
            peer.used = self.clock;
        }
        true
    }

    /// Writes no bytes to a server, so that the server's kernel looks at what has come before.
    #[cold]
    pub(super) fn nudge(&mut self, to: usize) {
        if !self.has_room(to, false) {
            return;
        }
        let Some(index) = self.free_sends.pop() else { return };
        let mut send = Send {
            id: number(SENT, self.peers[to].epoch, index),
            next: ptr::null_mut(),
            pieces: ptr::null_mut(),
            count: 0,
            operation: IBV_WR_RDMA_WRITE,
            flags: IBV_SEND_SIGNALED,
            immediate: 0,
            remote_address: 0,
            remote_key: 0,
            unused: [0; 9],
        };
        self.hand_on(to, (index, false), &mut send);
    }

    /// Hands an operation that uses a send buffer to the device, and returns whether the device took it.
    #[inline(always)]
    fn hand_on(&mut self, to: usize, (index, is_packet): (usize, bool), send: &mut Send) -> bool {
        let peer = &mut self.peers[to];
        // SAFETY: the identifier is open and has a queue pair whenever the pair may send.
        if let Err(error) = unsafe { post(peer.id, send) } {
            self.free_sends.push(index);
            if error == libc::ENOMEM || error == libc::EAGAIN {
                return false;
            }
            peer.warned = Some(format!("ibv_post_send: {}", io::Error::from_raw_os_error(error)));
            self.note_gone(to);
            self.peers[to].lost |= is_packet;
            return false;
        }
        self.leaving[index] = Leaving { peer: to, epoch: peer.epoch, is_packet, is_free: false };
        peer.operations += 1;
        true
    }

    /// Notes a message that goes to a peer as soon as there is room.
    pub(super) fn say(&mut self, to: usize, kind: Kind) {
        let peer = &mut self.peers[to];
        peer.says.insert(kind);
        if !self.talk(to) && !std::mem::replace(&mut self.peers[to].is_due, true) {
            self.due.push(to);
        }
    }

    /// Sends the messages that this end has to send by itself, and returns whether none is left.
    pub(super) fn talk(&mut self, to: usize) -> bool {
        while let Some(kind) = self.peers[to].says.first() {
            // A message is left out when another message has told the same. Behind the last message only news
            // of packets that were taken before it may follow.
            let peer = &self.peers[to];
            let is_moot = match kind {
                Kind::Credit => peer.grants.owed() == 0 && !peer.ring.as_ref().is_some_and(|own| own.ring.must_tell()),
                Kind::Ring => peer.ring.is_none(),
                _ => false,
            };
            let (offer, count);
            let contents: &[u8] = match kind {
                Kind::Ring if let Some(own) = &peer.ring => {
                    offer = ring::offer(own.ring.address_and_key());
                    &offer
                }
                Kind::Reclaim | Kind::Returned => {
                    let of = if kind == Kind::Reclaim { peer.grants.asked() } else { peer.credits.returning() };
                    count = of.to_le_bytes();
                    &count
                }
                _ => &[],
            };
            let must_wait = matches!(kind, Kind::Close | Kind::Closed) && self.peers[to].held > 0;
            if must_wait || (!is_moot && self.transmit(to, kind, contents) != Ok(true)) {
                return false;
            }
            let peer = &mut self.peers[to];
            if kind == Kind::Returned {
                peer.credits.note_returned();
            }
            peer.says.remove_first();
        }
        true
    }

    /// Returns the packets and accesses that the device has for a peer, and one more while a connection to
    /// the peer begins.
    pub(in crate::verbs) fn under_way(&self, to: usize) -> usize {
        self.peers.get(to).map_or(0, |peer| {
            peer.held + usize::from(matches!(peer.pair.state(), State::Connecting | State::Awaiting | State::Pausing))
        })
    }

    /// Returns a peer to which the connection is lost, each peer once.
    pub(in crate::verbs) fn take_broken(&mut self) -> Option<usize> {
        self.broken.pop_front()
    }

    /// Returns the address where a peer listens.
    pub(in crate::verbs) fn name_of(&self, peer: usize) -> Option<SocketAddr> {
        Some(self.peers.get(peer)?.name)
    }
}
