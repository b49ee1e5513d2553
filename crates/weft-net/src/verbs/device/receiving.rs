//! Receiving messages and completions, and sleeping until one arrives.
#![allow(unsafe_code)]

use super::{ACCESSED, BATCH, Device, Leaving, Peer, RECEIVED, SENT, arm_queue, number, poll_queue};
use crate::verbs::api::{Completion, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, Receive};
use crate::verbs::limits::{CHUNK, MESSAGE_BYTES};
use crate::verbs::pairing::{Event, State};
use crate::verbs::ring;
use crate::verbs::wire::{self, HEADER, Header, Kind};
use std::ptr;

/// Number of looks that found packets in rings after which completions are looked at. Completions of sends
/// are needed to send more.
const RING_LOOKS: u32 = 16;
/// Number of looks after which the events of connections are looked at, unless some are expected: each look
/// is a system call.
const EVENTS_EVERY: u32 = 64;

/// A message that a peer has sent, as it lies in the memory of its receive.
struct Message<'a> {
    /// Index of the receive that brought the message.
    index: usize,
    peer: usize,
    header: Header,
    /// The whole message, header included.
    bytes: &'a [u8],
}

/// The turn of a message: when it is handed on.
enum Turn {
    Now,
    /// Later, as soon as packets may be handed on again.
    Later,
    /// Never: its sender has broken the protocol, for this reason.
    Never(&'static str),
}

impl Device {
    pub(super) fn post_receive(&mut self, index: usize, peer: usize) {
        let chunk = &self.chunks[index / CHUNK as usize];
        let mut piece = chunk.piece(index % CHUNK as usize, MESSAGE_BYTES);
        let mut receive =
            Receive { id: number(RECEIVED, 0, index), next: ptr::null_mut(), pieces: &raw mut piece, count: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: the queues are open. The packet is the device's until its completion comes, or its queue is
        // closed.
        let code = unsafe {
            match self.srq.is_null() {
                false => ((*(*self.srq).context).post_srq_recv)(self.srq, &raw mut receive, &raw mut bad),
                true => match self.peers.get(peer).map(|peer| peer.id) {
                    Some(id) if !id.is_null() && !(*id).qp.is_null() => {
                        let qp = (*id).qp;
                        ((*(*qp).context).post_recv)(qp, &raw mut receive, &raw mut bad)
                    }
                    _ => libc::EINVAL,
                },
            }
        };
        if code == 0 {
            self.posted_to[index] = peer;
        } else {
            self.posted_to[index] = usize::MAX;
            self.free_receives.push(index);
        }
    }

    pub(super) fn poll(&mut self, completions: &mut [Completion; BATCH], wanted: usize) -> usize {
        let mut count = 0;
        while count < wanted.min(BATCH)
            && let Some(found) = self.found.pop_front()
        {
            completions[count] = found;
            count += 1;
        }
        if count > 0 { count } else { self.poll_device(&mut completions[..wanted.min(BATCH)]) }
    }

    /// Returns completions that the device has.
    pub(super) fn poll_device(&mut self, completions: &mut [Completion]) -> usize {
        // SAFETY: the queue is open.
        unsafe { poll_queue(self.cq, completions) }
    }

    /// Hands on at most `limit` packets that have arrived, and returns their number.
    pub(in crate::verbs) fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        let mut packets = if self.looked_at.is_empty() { 0 } else { self.take_from_rings(on_packet, limit) };
        self.ring_looks += 1;
        if packets == 0 || self.ring_looks >= RING_LOOKS {
            self.ring_looks = 0;
            self.look_at_completions(on_packet, &mut packets, limit);
        }
        if !self.due.is_empty() {
            for peer in std::mem::take(&mut self.due) {
                self.peers[peer].is_due = false;
                if !self.talk(peer) && !std::mem::replace(&mut self.peers[peer].is_due, true) {
                    self.due.push(peer);
                }
            }
        }
        packets
    }

    fn look_at_completions(&mut self, on_packet: &mut dyn FnMut(&[u8]), packets: &mut usize, limit: usize) {
        let Some(mut batch) = self.batch.take() else { return };
        while *packets < limit {
            let count = self.poll(&mut batch, limit - *packets);
            self.gone_queues.clear();
            let waits = batch[..count].iter().position(|completion| {
                let is_forgotten = !self.gone_queues.is_empty() && self.forget_gone(completion);
                !is_forgotten && !self.complete(completion, on_packet, packets, limit)
            });
            if let Some(first) = waits {
                for completion in batch[first..count].iter().rev() {
                    if self.gone_queues.is_empty() || !self.forget_gone(completion) {
                        self.found.push_front(*completion);
                    }
                }
                break;
            }
            if count == 0 {
                self.look_aside();
                break;
            }
        }
        self.batch = Some(batch);
    }

    /// Takes all completions that the device has, to look at them later.
    pub(super) fn find_completions(&mut self) {
        let mut batch = [Completion::default(); BATCH];
        loop {
            let count = self.poll_device(&mut batch);
            self.found.extend(&batch[..count]);
            if count < BATCH {
                return;
            }
        }
    }

    /// Forgets the completions of a queue pair that is closed, once all completions have been found. Devices
    /// give its number to the next queue pair, and other peers use its buffers.
    pub(super) fn forget_completions(&mut self, qp: u32) {
        self.gone_queues.push(qp);
        for _ in 0..self.found.len() {
            let Some(completion) = self.found.pop_front() else { return };
            if completion.qp == qp {
                self.give_back(&completion);
            } else {
                self.found.push_back(completion);
            }
        }
    }

    /// Forgets a completion if it was found before its queue pair was closed. Returns whether it forgot it.
    fn forget_gone(&mut self, completion: &Completion) -> bool {
        let is = self.gone_queues.contains(&completion.qp);
        if is {
            self.give_back(completion);
        }
        is
    }

    /// Posts the receive of a forgotten completion again, if it has a receive. A peer's own receives came
    /// back with its queues.
    fn give_back(&mut self, completion: &Completion) {
        let index = completion.id as u32 as usize;
        if completion.id >> 56 == RECEIVED && self.limits.shared && index < self.posted_to.len() {
            self.post_receive(index, usize::MAX);
        }
    }

    /// Looks after everything but packets, when no packet is there.
    pub(super) fn look_aside(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        if let Some(placing) = &mut self.placing {
            placing.close_changed();
        }
        if !self.changing.is_empty() {
            self.look_after_changing();
        }
        if std::mem::take(&mut self.must_look) || !self.changing.is_empty() || self.looks.is_multiple_of(EVENTS_EVERY) {
            self.take_events();
        }
    }

    /// Acts on a completion, and counts packets that it hands on. Returns `false` when no more packets may be
    /// handed on, so that the completion must wait.
    fn complete(
        &mut self,
        completion: &Completion,
        on_packet: &mut dyn FnMut(&[u8]),
        packets: &mut usize,
        limit: usize,
    ) -> bool {
        if completion.id >> 56 == RECEIVED {
            return self.arrive(completion, on_packet, packets, limit);
        }
        self.complete_own(completion);
        true
    }

    /// Acts on the completion of an operation that this end has begun.
    pub(super) fn complete_own(&mut self, completion: &Completion) {
        let (what, epoch, index) =
            (completion.id >> 56, (completion.id >> 32) as u32 & 0x00ff_ffff, completion.id as u32 as usize);
        let ok = completion.status == IBV_WC_SUCCESS;
        match what {
            SENT => {
                let Some(leaving) = self.leaving.get_mut(index) else { return };
                if leaving.is_free || leaving.epoch != epoch {
                    return;
                }
                leaving.is_free = true;
                let Leaving { peer, is_packet, .. } = *leaving;
                self.free_sends.push(index);
                let entry = &mut self.peers[peer];
                entry.operations = entry.operations.saturating_sub(1);
                entry.held -= usize::from(is_packet && entry.held > 0);
                if !ok {
                    entry.lost |= is_packet;
                    self.operation_failed(peer, completion, "ibv_post_send");
                }
            }
            ACCESSED => {
                let Some(placing) = &mut self.placing else { return };
                let is_now = |peer: &usize| self.peers[*peer].epoch == epoch;
                let Some(peer) = placing.peer_of(index).filter(is_now) else { return };
                placing.end(index, ok);
                let entry = &mut self.peers[peer];
                entry.operations = entry.operations.saturating_sub(1);
                entry.held = entry.held.saturating_sub(1);
                if !ok {
                    entry.lost = true;
                    self.operation_failed(peer, completion, "a remote write or read");
                }
            }
            _ => {}
        }
    }

    pub(super) fn operation_failed(&mut self, peer: usize, completion: &Completion, what: &str) {
        let Completion { status, vendor_error, .. } = completion;
        if *status != IBV_WC_WR_FLUSH_ERR || self.peers[peer].warned.is_none() {
            let said = self.library.describe(*status);
            self.peers[peer].warned = Some(format!("{what}: {said} (status {status}, vendor's {vendor_error:#x})"));
        }
        self.note_gone(peer);
    }

    /// Hands on the message that a receive has brought, and posts the receive again. Counts packets that it
    /// hands on. Returns `false` when no more packets may be handed on, so that the completion must wait.
    fn arrive(
        &mut self,
        completion: &Completion,
        on_packet: &mut dyn FnMut(&[u8]),
        packets: &mut usize,
        limit: usize,
    ) -> bool {
        let Some(message) = self.identify(completion) else { return true };
        let Message { index, peer, header, bytes } = message;
        let kind = header.kind;
        match self.find_turn(&message, on_packet, packets, limit) {
            Turn::Now => {}
            Turn::Later => return false,
            Turn::Never(why) => {
                self.post_receive(index, peer);
                self.fail(peer, Event::Failed, why);
                return true;
            }
        }
        match kind {
            Kind::Packet => {
                on_packet(&bytes[HEADER..]);
                *packets += 1;
            }
            Kind::Ring => self.note_offer(peer, &bytes[HEADER..]),
            _ => {}
        }
        let (count, length) = (wire::count(&bytes[HEADER..]), bytes.len() - HEADER);
        // The device may write to these bytes again from here on.
        self.post_receive(index, peer);
        if self.note_header(peer, header) && self.note_room_taken(peer, kind) {
            self.heed(peer, kind, count, length);
            self.give_room(peer);
        }
        true
    }

    /// Returns the message that a receive has brought, and its sender. Returns none, and posts the receive
    /// again, when the receive has failed, the sender is unknown, or the bytes are no message.
    fn identify<'a>(&mut self, completion: &Completion) -> Option<Message<'a>> {
        let index = completion.id as u32 as usize;
        if index >= self.chunks.len() * CHUNK as usize {
            return None;
        }
        let known = self.by_qp.get(&completion.qp).copied();
        let has_failed = completion.status != IBV_WC_SUCCESS;
        let Some(peer) = known.filter(|_| !has_failed) else {
            self.rejected += u64::from(!has_failed);
            if self.limits.shared {
                self.post_receive(index, known.unwrap_or(usize::MAX));
            }
            if let Some(peer) = known {
                self.operation_failed(peer, completion, "a receive");
            }
            return None;
        };
        let length = (completion.length as usize).min(MESSAGE_BYTES);
        let bytes = self.chunks[index / CHUNK as usize].at(index % CHUNK as usize);
        // SAFETY: the device has given this packet back, and all its bytes are initialised. The packet is
        // posted again only after the message is done with.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
        let Some(header) = Header::decode(bytes) else {
            self.rejected += 1;
            self.post_receive(index, peer);
            self.fail(peer, Event::Failed, "what arrived is no message of Weft");
            return None;
        };
        Some(Message { index, peer, header, bytes })
    }

    /// Returns the turn of a message among all that its sender has sent and written. Hands on the packets
    /// that were written before it.
    fn find_turn(
        &mut self,
        message: &Message<'_>,
        on_packet: &mut dyn FnMut(&[u8]),
        packets: &mut usize,
        limit: usize,
    ) -> Turn {
        let Message { peer, header, .. } = *message;
        if self.peers[peer].pair.is_unheard() {
            self.peers[peer].pair.note_heard();
        }
        let state = self.peers[peer].pair.state();
        // The client sends first, and its first message is its greeting. No device checks that for both ends.
        if (header.kind != Kind::First && state == State::Accepted) || state == State::Connecting {
            return Turn::Never("the client did not send the first message");
        }
        // A packet that was written before this message was sent is in place. A packet that was written
        // afterwards may have been taken already, if this message is no packet itself.
        let is_packet = header.kind.is_packet();
        let comes_next = |arrived: u16| match arrived.wrapping_sub(header.number) {
            0 => true,
            ahead => !is_packet && ahead <= u16::MAX / 2,
        };
        if !comes_next(self.peers[peer].arrived) {
            *packets += self.take_from_ring(peer, on_packet, limit - *packets);
        }
        let comes_next = comes_next(self.peers[peer].arrived);
        if *packets >= limit && (is_packet || !comes_next) {
            return Turn::Later;
        }
        if !comes_next {
            self.rejected += 1;
            return Turn::Never("a packet that was written before another was sent is not in its ring");
        }
        Turn::Now
    }

    /// Notes that a message of this kind has taken room that its sender was granted. Returns false when the
    /// sender had none; its connection ends then.
    fn note_room_taken(&mut self, peer: usize, kind: Kind) -> bool {
        if !kind.needs_credit() || self.peers[peer].grants.note_taken() {
            return true;
        }
        self.rejected += 1;
        self.fail(peer, Event::Failed, "it sends more than it has room for");
        false
    }

    /// Does what a message asks for. `count` is the number that the message carries, `length` the bytes
    /// behind its header.
    fn heed(&mut self, peer: usize, kind: Kind, count: u16, length: usize) {
        match kind {
            Kind::First => self.event(peer, Event::FirstMessage, None),
            Kind::Packet if length <= ring::PACKET_MAX => self.note_small(peer),
            Kind::Packet | Kind::Credit | Kind::Ring => {}
            Kind::Close => self.event(peer, Event::PeerCloses, None),
            Kind::Closed => self.note_gone(peer),
            Kind::Stop => self.note_stop(peer),
            Kind::Stopped => self.note_stopped(peer),
            Kind::Reclaim => {
                self.peers[peer].credits.give_back(count);
                self.say(peer, Kind::Returned);
            }
            Kind::Returned => self.note_returned(peer, count),
            // Each is taken before the next look, and a peer may send only a window of them.
            Kind::Dropped => self.dropped.push_back((peer as u32, count)),
        }
    }

    /// Tells a peer of the room that it has again, when it is time.
    fn give_room(&mut self, peer: usize) {
        let Peer { grants, pair, .. } = &self.peers[peer];
        // Also while the connection closes: the other end's last message needs room.
        if grants.is_due() && matches!(pair.state(), State::Ready | State::Leaving) {
            self.grow(peer);
            self.say(peer, Kind::Credit);
        }
    }

    /// Makes the window of a peer that sends much larger, if there are receives left for that. Otherwise it
    /// asks the peer with the largest window to give some of it back, for the next time.
    fn grow(&mut self, peer: usize) {
        let wanted = self.peers[peer].grants.wants();
        if !self.limits.shared || wanted == 0 {
            return;
        }
        let left = self.limits.growth.saturating_sub(self.grown).min(u32::from(wanted)) & !1;
        if left > 0 {
            // The window stays as it is where no more memory may be registered.
            if self.reserve(left).is_err() {
                return self.peers[peer].grants.note_refused();
            }
            self.given += left;
            self.grown += left;
            let entry = &mut self.peers[peer];
            entry.receives += left;
            entry.grown += left;
            return entry.grants.grow(left as u16);
        }
        self.peers[peer].grants.note_refused();
        if self.reclaimed.is_some() {
            return;
        }
        let own = self.peers[peer].grants.window();
        let spare = |other: &Peer| match other.pair.state() {
            State::Ready if !other.gone => other.grants.spare(own),
            _ => 0,
        };
        let most = self.peers.iter().enumerate().map(|(index, other)| (spare(other), index)).max();
        if let Some((count, other)) = most.filter(|(count, _)| *count > 0) {
            self.peers[other].grants.ask_back(count);
            self.reclaimed = Some(other);
            self.say(other, Kind::Reclaim);
        }
    }

    /// Takes the part of its window that a peer gives back.
    fn note_returned(&mut self, peer: usize, count: u16) {
        let entry = &mut self.peers[peer];
        if !entry.grants.note_returned(count) || u32::from(count) > entry.grown {
            self.rejected += 1;
            return self.fail(peer, Event::Failed, "it gives back room that it does not have");
        }
        let count = u32::from(count);
        entry.receives -= count;
        entry.grown -= count;
        self.given -= count;
        self.grown -= count;
        self.reclaimed = None;
    }

    /// Arms the descriptor, so that a sleep on it ends when a message or completion arrives. Returns `false`
    /// when one is here already.
    pub(in crate::verbs) fn arm(&mut self) -> bool {
        self.must_look = true;
        if !self.found.is_empty() || !self.stop_rings() || !self.due.is_empty() || !self.arm_groups() {
            return false;
        }
        self.set_timer();
        // SAFETY: both are open, and the channel does not block.
        if !unsafe { arm_queue(self.library, self.channel, self.cq) } {
            return false;
        }
        let Some(mut batch) = self.batch.take() else { return false };
        // The channel does not tell of completions that came before it was armed.
        let count = self.poll_device(&mut *batch);
        self.found.extend(&batch[..count]);
        self.batch = Some(batch);
        // A packet that was written before peers were asked to stop may be there by now.
        count == 0 && !self.has_written()
    }
}
