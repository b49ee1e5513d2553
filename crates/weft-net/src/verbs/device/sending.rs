//! What leaves.
#![allow(unsafe_code)]

use super::{Device, Leaving, OPERATIONS_RESERVED, SENT, number, post};
use crate::verbs::api::{IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WR_SEND, Send};
use crate::verbs::pairing::{Event, State};
use crate::verbs::wire::{HEADER, Kind};
use std::io;
use std::net::SocketAddr;
use std::ptr;

/// Sends that only what this end has to say by itself may use.
const SENDS_RESERVED: usize = 16;

impl Device {
    /// Sends a packet: whether the device has it; an error says why it never will.
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
        // What is to be said first goes first: a client's first message above all.
        if !peer.says.is_empty() && !self.talk(to) {
            return Ok(false);
        }
        self.transmit(to, Kind::Packet, packet)
    }

    /// Sends a message of a kind; `false`: there is no room for it now.
    pub(super) fn transmit(&mut self, to: usize, kind: Kind, packet: &[u8]) -> Result<bool, ()> {
        let is_packet = kind == Kind::Packet;
        let peer = &mut self.peers[to];
        let operations =
            self.limits.operations - if is_packet { OPERATIONS_RESERVED.min(self.limits.operations / 2) } else { 0 };
        let sends_left = if is_packet { SENDS_RESERVED } else { 0 };
        if peer.operations >= operations
            || (kind.needs_credit() && peer.credits == 0)
            || self.free_sends.len() <= sends_left
            || peer.id.is_null()
        {
            return Ok(false);
        }
        let (Some(place), Some(sends)) = (self.free_sends.pop(), &self.sends) else { return Ok(false) };
        let length = HEADER + packet.len();
        let header = kind.encode(peer.owed);
        let mut piece = sends.piece(place, length);
        // SAFETY: the place is this message's until its completion comes, and a packet fits behind the header.
        unsafe {
            let bytes = sends.at(place);
            ptr::copy_nonoverlapping(header.as_ptr(), bytes, HEADER);
            ptr::copy_nonoverlapping(packet.as_ptr(), bytes.add(HEADER), packet.len());
        }
        let inline = if length <= self.inline_max { IBV_SEND_INLINE } else { 0 };
        let mut send = Send {
            id: number(SENT, peer.epoch, place),
            next: ptr::null_mut(),
            pieces: &raw mut piece,
            count: 1,
            operation: IBV_WR_SEND,
            flags: IBV_SEND_SIGNALED | inline,
            immediate: 0,
            remote_address: 0,
            remote_key: 0,
            unused: [0; 9],
        };
        // SAFETY: the identifier is open and has a queue pair whenever the pair may send.
        if let Err(error) = unsafe { post(peer.id, &mut send) } {
            self.free_sends.push(place);
            if error == libc::ENOMEM || error == libc::EAGAIN {
                return Ok(false);
            }
            peer.warned = Some(format!("ibv_post_send: {}", io::Error::from_raw_os_error(error)));
            self.note_gone(to);
            self.peers[to].lost |= is_packet;
            return Ok(false);
        }
        self.leaving[place] = Leaving { peer: to, epoch: peer.epoch, is_packet, is_free: false };
        peer.owed = 0;
        peer.operations += 1;
        peer.held += usize::from(is_packet);
        peer.credits -= u16::from(kind.needs_credit());
        if is_packet {
            self.clock += 1;
            peer.used = self.clock;
        }
        Ok(true)
    }

    /// Something is to be said to a peer as soon as there is room.
    pub(super) fn say(&mut self, to: usize, kind: Kind) {
        let peer = &mut self.peers[to];
        if !peer.says.contains(&kind) {
            peer.says.push_back(kind);
        }
        if !self.talk(to) && !std::mem::replace(&mut self.peers[to].is_due, true) {
            self.due.push(to);
        }
    }

    /// Says what is to be said; whether nothing is left.
    pub(super) fn talk(&mut self, to: usize) -> bool {
        while let Some(kind) = self.peers[to].says.front().copied() {
            // What was told by another message need not be told, and nothing follows the last message but what was taken before it.
            let is_moot = kind == Kind::Credit && self.peers[to].owed == 0;
            let must_wait = matches!(kind, Kind::Close | Kind::Closed) && self.peers[to].held > 0;
            if must_wait || (!is_moot && self.transmit(to, kind, &[]) != Ok(true)) {
                return false;
            }
            self.peers[to].says.pop_front();
        }
        true
    }

    /// Packets and accesses that the device has for a peer, and one more while a connection to it begins.
    pub(in crate::verbs) fn under_way(&self, to: usize) -> usize {
        self.peers.get(to).map_or(0, |peer| {
            peer.held + usize::from(matches!(peer.pair.state(), State::Connecting | State::Awaiting | State::Pausing))
        })
    }

    /// A peer to which the connection is lost, each once.
    pub(in crate::verbs) fn take_broken(&mut self) -> Option<usize> {
        self.broken.pop_front()
    }

    /// Where a peer listens.
    pub(in crate::verbs) fn name_of(&self, peer: usize) -> Option<SocketAddr> {
        Some(self.peers.get(peer)?.name)
    }
}
