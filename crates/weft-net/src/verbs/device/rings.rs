//! The fast path of a device: rings in this process that peers write small packets to, rings of peers that
//! this end writes to, and the messages about them.
//!
//! Sent packets and written packets are numbered together. When the receiver finds a packet whose number is
//! not the next one, it takes the packets of the other way first. They are there, because a packet that was
//! written before another was sent is in place when the sent one arrives, by the rules of reliable
//! connections (RFC 5040 §5.5; InfiniBand specification, volume 1, §9.5).
#![allow(unsafe_code)]

use std::ptr::NonNull;

use weft_core::time::Duration;

use super::{Device, OwnRing, Peer, RECEIVED, Rings};
use crate::verbs::api::Completion;
use crate::verbs::limits::RINGS_MAX;
use crate::verbs::memory::Packets;
use crate::verbs::pairing::{Event, State};
use crate::verbs::ring::{self, CELL_BYTES, CELLS, Far, Ring, UNUSED, Use};
use crate::verbs::wire::{Header, Kind};
use crate::watch;

/// First pause after which a sleeping process looks at the rings of peers that have not said yet that they
/// write no more. Each further pause is twice as long.
pub(super) const SLEEP_MIN: Duration = Duration::from_millis(1);
/// Longest pause after which a sleeping process looks at these rings.
const SLEEP_MAX: Duration = Duration::from_millis(1000);

impl Device {
    // ---- rings that peers write to

    /// Hands on at most `limit` packets from rings, and returns their number.
    pub(super) fn take_from_rings(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        let (mut packets, mut index) = (0, 0);
        while packets < limit
            && let Some(peer) = self.looked_at.get(index).copied()
        {
            packets += self.take_from_ring(peer, on_packet, limit - packets);
            index += 1;
        }
        packets
    }

    /// Hands on at most `limit` packets from the ring of one peer, and returns their number.
    pub(super) fn take_from_ring(&mut self, peer: usize, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        let mut packets = 0;
        while packets < limit {
            let Peer { ring: Some(own), arrived, .. } = &mut self.peers[peer] else { break };
            if own.ring.state == Use::Off || !own.ring.look(&mut self.cell) {
                break;
            }
            let Some(header) = Header::decode(&self.cell.header()).filter(|header| header.kind == Kind::Packet) else {
                self.rejected += 1;
                self.fail(peer, Event::Failed, "what was written to its ring is no packet of Weft");
                break;
            };
            // A sent packet comes first.
            if header.number != *arrived {
                break;
            }
            own.ring.take();
            on_packet(self.cell.packet());
            packets += 1;
            if !self.note_header(peer, header) {
                break;
            }
        }
        packets
    }

    /// Takes the news that every message has in its header. Returns `false` when the news cannot be true.
    pub(super) fn note_header(&mut self, peer: usize, header: Header) -> bool {
        let Header { kind, credits, taken, .. } = header;
        let entry = &mut self.peers[peer];
        entry.credits.add(credits);
        if entry.far.as_mut().is_some_and(|far| !far.note_taken(taken)) {
            self.rejected += 1;
            self.fail(peer, Event::Failed, "it says that it has taken what was never written");
            return false;
        }
        if kind.is_packet() {
            entry.arrived = entry.arrived.wrapping_add(1);
            self.clock += 1;
            entry.used = self.clock;
        }
        if entry.ring.as_ref().is_some_and(|own| own.ring.must_tell()) {
            self.say(peer, Kind::Credit);
        }
        true
    }

    /// Notes that a packet was sent that would have fitted in a cell, and gives its peer a ring when that
    /// pays.
    pub(super) fn note_small(&mut self, peer: usize) {
        let entry = &mut self.peers[peer];
        if entry.small_since != self.sleeps {
            (entry.small_since, entry.small) = (self.sleeps, 0);
        }
        entry.small += 1;
        let is_in_use = entry.ring.as_ref().is_some_and(|own| own.ring.state != Use::Off);
        if self.rings == Rings::Nowhere
            || is_in_use
            || entry.small < entry.ring_after
            || entry.pair.state() != State::Ready
        {
            return;
        }
        entry.small = 0;
        match &mut entry.ring {
            Some(own) => own.ring.begin_again(),
            None => match self.new_ring() {
                Some(own) => self.peers[peer].ring = Some(own),
                None => {
                    let entry = &mut self.peers[peer];
                    entry.ring_after = entry.ring_after.max(ring::AFTER);
                    return;
                }
            },
        }
        self.looked_at.push(peer);
        self.say(peer, Kind::Ring);
    }

    /// Makes another ring, if there may be one. Otherwise it frees another peer's ring for the next peer that
    /// asks.
    fn new_ring(&mut self) -> Option<OwnRing> {
        let owners = || self.peers.iter().enumerate().filter_map(|(index, peer)| Some((index, peer.ring.as_ref()?)));
        if owners().count() >= RINGS_MAX {
            let off = owners().find(|(_, own)| own.ring.state == Use::Off).map(|(index, _)| index);
            let is_unused =
                |index: usize, own: &OwnRing| own.ring.state == Use::On && self.clock - self.peers[index].used > UNUSED;
            let unused = owners().find(|(index, own)| is_unused(*index, own)).map(|(index, _)| index);
            match (off, unused) {
                // The key of the other ring is no longer valid when its memory is gone.
                (Some(other), _) => self.peers[other].ring = None,
                (None, Some(other)) => {
                    self.stop_ring(other);
                    return None;
                }
                (None, None) => return None,
            }
        }
        let memory = Packets::open_to_peers(self.library, self.pd, CELLS, CELL_BYTES).ok()?;
        // SAFETY: the memory is all zeros and aligned to pages, and goes after the ring.
        let ring = unsafe { Ring::new(NonNull::new(memory.at(0))?, memory.remote_key()) };
        Some(OwnRing { ring, _memory: memory })
    }

    fn stop_ring(&mut self, peer: usize) {
        if let Some(own) = &mut self.peers[peer].ring {
            own.ring.state = Use::Stopping;
            self.say(peer, Kind::Stop);
        }
    }

    /// Notes that the peer writes no more, and that all packets it wrote have been taken.
    pub(super) fn note_stopped(&mut self, peer: usize) {
        let Peer { ring: Some(own), ring_after, .. } = &mut self.peers[peer] else { return };
        if own.ring.state != Use::Stopping {
            return;
        }
        own.ring.state = Use::Off;
        if self.rings == Rings::WherePaid {
            *ring_after = ring::next_after(*ring_after, own.ring.used());
        }
        self.looked_at.retain(|other| *other != peer);
    }

    /// Asks the peers before a sleep to write no more to rings, because a write wakes nobody. Returns `false`
    /// when a ring has a packet.
    pub(super) fn stop_rings(&mut self) -> bool {
        self.sleeps = self.sleeps.wrapping_add(1);
        if self.has_written() {
            return false;
        }
        for index in 0..self.looked_at.len() {
            let peer = self.looked_at[index];
            if self.peers[peer].ring.as_ref().is_some_and(|own| own.ring.state == Use::On) {
                self.stop_ring(peer);
            }
        }
        true
    }

    /// Sets the timer before a sleep: the sleep ends when peers that may still be writing are to be looked
    /// at, or a connection's deadline comes.
    pub(super) fn set_timer(&mut self) {
        let mut span = self.quiet();
        if self.looked_at.is_empty() {
            self.sleep = SLEEP_MIN;
        } else {
            span = Some(span.map_or(self.sleep, |span| span.min(self.sleep)));
            self.sleep = Duration::from_micros(2 * self.sleep.as_micros()).min(SLEEP_MAX);
        }
        if let Some(timer) = &self.timer
            && (span.is_some() || self.is_timer_set)
        {
            watch::set_timer(timer, span);
            self.is_timer_set = span.is_some();
        }
    }

    /// Returns whether a ring has a packet.
    pub(super) fn has_written(&self) -> bool {
        self.looked_at.iter().any(|peer| self.peers[*peer].ring.as_ref().is_some_and(|own| own.ring.has_some()))
    }

    // ---- rings at peers

    /// Takes a ring that a peer offers. The ring is used if there is a receive for the messages that tell of
    /// taken cells.
    pub(super) fn note_offer(&mut self, peer: usize, offer: &[u8]) {
        let Some(far) = Far::new(offer) else {
            self.rejected += 1;
            return self.fail(peer, Event::Failed, "what it offers is no ring");
        };
        if self.rings == Rings::Nowhere {
            return;
        }
        if !self.peers[peer].has_extra {
            let count = self.peers.iter().filter(|peer| peer.has_extra).count();
            let may = self.limits.shared && count < RINGS_MAX && self.given < self.limits.receives;
            if !may || self.reserve(1).is_err() {
                return;
            }
            self.given += 1;
            self.peers[peer].receives += 1;
            self.peers[peer].has_extra = true;
        }
        self.peers[peer].far = Some(far);
    }

    /// Notes that a peer is about to sleep.
    pub(super) fn note_stop(&mut self, peer: usize) {
        self.peers[peer].far = None;
        self.say(peer, Kind::Stopped);
    }

    /// Returns whether a packet of so many bytes may be written to the peer's ring. It looks at completions
    /// first: the peer may have asked to stop.
    pub(super) fn far_has_room(&mut self, to: usize, bytes: usize) -> bool {
        let has_room = |peer: &Peer| peer.far.as_ref().is_some_and(|far| far.has_room(bytes)) && !peer.gone;
        has_room(&self.peers[to]) && self.found.is_empty() && {
            self.reap();
            self.found.is_empty() && has_room(&self.peers[to]) && self.has_room(to, true)
        }
    }

    /// Takes the completions of sends, and keeps those of receives for later.
    fn reap(&mut self) {
        let Some(mut batch) = self.batch.take() else { return };
        let count = self.poll_device(&mut batch[..]);
        for completion in &batch[..count] {
            let Completion { id, .. } = completion;
            if id >> 56 == RECEIVED {
                self.found.push_back(*completion);
            } else {
                self.complete_own(completion);
            }
        }
        self.batch = Some(batch);
    }

    /// Writes a packet to the peer's ring, in which there is room.
    pub(super) fn write_to_ring(&mut self, to: usize, packet: &[u8]) -> Result<bool, ()> {
        let header = self.header(to, Kind::Packet);
        let Some(far) = self.peers[to].far else { return Ok(false) };
        let (Some(index), Some(sends)) = (self.free_sends.pop(), &self.sends) else { return Ok(false) };
        // SAFETY: the buffer is this packet's until its completion comes; it is larger than a cell, and so
        // aligned.
        let length = unsafe { far.fill(sends.at(index), header, packet) };
        if !self.leave(to, (index, length), true, Some(far.address_and_key())) {
            return Ok(false);
        }
        self.peers[to].far.iter_mut().for_each(Far::note_written);
        self.written += 1;
        Ok(true)
    }

    /// Forgets the rings of a connection that is gone and whose queues are closed.
    pub(super) fn drop_rings(&mut self, peer: usize) {
        self.looked_at.retain(|other| *other != peer);
        let entry = &mut self.peers[peer];
        (entry.ring, entry.far, entry.has_extra) = (None, None, false);
        (entry.sent, entry.arrived, entry.small) = (0, 0, 0);
    }
}
