//! What arrives, and sleeping until something does.
#![allow(unsafe_code)]

use super::{ACCESSED, Device, Leaving, Peer, RECEIVED, SENT, number};
use crate::verbs::api::{Completion, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, Receive};
use crate::verbs::limits::{self, CHUNK, MESSAGE_BYTES};
use crate::verbs::pairing::{Event, State};
use crate::verbs::wire::{HEADER, Kind};
use std::ffi::c_int;
use std::ptr;

/// Completions that are read in one go.
const BATCH: usize = 32;
/// The events of connections are looked at once in so many looks, unless some are expected: each look is a system call.
const EVENTS_EVERY: u32 = 64;

impl Device {
    pub(super) fn post_receive(&mut self, place: usize, peer: usize) {
        let chunk = &self.chunks[place / CHUNK as usize];
        let mut piece = chunk.piece(place % CHUNK as usize, MESSAGE_BYTES);
        let mut receive =
            Receive { id: number(RECEIVED, 0, place), next: ptr::null_mut(), pieces: &raw mut piece, count: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: the queues are open, and the packet is the device's until its completion comes, or its queue is closed.
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
            self.posted_to[place] = peer;
        } else {
            self.posted_to[place] = usize::MAX;
            self.free_receives.push(place);
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
        if count > 0 {
            return count;
        }
        // SAFETY: there is room for so many.
        let read =
            unsafe { ((*(*self.cq).context).poll_cq)(self.cq, wanted.min(BATCH) as c_int, completions.as_mut_ptr()) };
        usize::try_from(read).unwrap_or(0).min(BATCH)
    }

    /// Hands on at most `limit` packets that have arrived; how many.
    pub(in crate::verbs) fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        let mut completions = [Completion::default(); BATCH];
        let mut packets = 0;
        while packets < limit {
            let count = self.poll(&mut completions, limit - packets);
            for completion in &completions[..count] {
                packets += usize::from(self.complete(completion, on_packet));
            }
            if count == 0 {
                self.look_aside();
                break;
            }
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

    /// What is besides packets, when there are none.
    pub(super) fn look_aside(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        if !self.changing.is_empty() {
            self.look_after_changing();
        }
        if std::mem::take(&mut self.must_look) || !self.changing.is_empty() || self.looks.is_multiple_of(EVENTS_EVERY) {
            self.take_events();
        }
    }

    /// Whether the completion is that of a packet that arrived.
    pub(super) fn complete(&mut self, completion: &Completion, on_packet: &mut dyn FnMut(&[u8])) -> bool {
        let (what, epoch, place) =
            (completion.id >> 56, (completion.id >> 32) as u32 & 0x00ff_ffff, completion.id as u32 as usize);
        let ok = completion.status == IBV_WC_SUCCESS;
        match what {
            RECEIVED => return self.arrive(place, completion, on_packet),
            SENT => {
                let Some(leaving) = self.leaving.get_mut(place) else { return false };
                if leaving.is_free || leaving.epoch != epoch {
                    return false;
                }
                leaving.is_free = true;
                let Leaving { peer, is_packet, .. } = *leaving;
                self.free_sends.push(place);
                let entry = &mut self.peers[peer];
                entry.operations = entry.operations.saturating_sub(1);
                entry.held -= usize::from(is_packet && entry.held > 0);
                if !ok {
                    entry.lost |= is_packet;
                    self.operation_failed(peer, completion, "ibv_post_send");
                }
            }
            ACCESSED => {
                let ended = self.placing.as_mut().and_then(|placing| placing.end(place, ok));
                let Some(peer) = ended else { return false };
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
        false
    }

    pub(super) fn operation_failed(&mut self, peer: usize, completion: &Completion, what: &str) {
        let Completion { status, vendor_error, .. } = completion;
        if *status != IBV_WC_WR_FLUSH_ERR || self.peers[peer].warned.is_none() {
            let said = self.library.describe(*status);
            self.peers[peer].warned = Some(format!("{what}: {said} (status {status}, vendor's {vendor_error:#x})"));
        }
        self.note_gone(peer);
    }

    pub(super) fn arrive(&mut self, place: usize, completion: &Completion, on_packet: &mut dyn FnMut(&[u8])) -> bool {
        if place >= self.chunks.len() * CHUNK as usize {
            return false;
        }
        let peer = self.by_qp.get(&completion.qp).copied();
        let known = peer.unwrap_or(usize::MAX);
        if completion.status != IBV_WC_SUCCESS {
            if self.limits.shared {
                self.post_receive(place, known);
            }
            if let Some(peer) = peer {
                self.note_gone(peer);
            }
            return false;
        }
        let Some(peer) = peer else {
            self.rejected += 1;
            if self.limits.shared {
                self.post_receive(place, known);
            }
            return false;
        };
        let length = (completion.length as usize).min(MESSAGE_BYTES);
        let bytes = self.chunks[place / CHUNK as usize].at(place % CHUNK as usize);
        // SAFETY: the device has given this packet back, and all its bytes are initialised. Nothing posts it before this is done with.
        let message = unsafe { std::slice::from_raw_parts(bytes, length) };
        let Some((kind, credits)) = Kind::decode(message) else {
            self.rejected += 1;
            self.post_receive(place, known);
            self.fail(peer, Event::Failed, "what arrived is no message of Weft");
            return false;
        };
        let state = self.peers[peer].pair.state();
        // The client sends first, and what it sends first is its greeting; no device checks that for both ends.
        if (kind != Kind::First && state == State::Accepted) || state == State::Connecting {
            self.post_receive(place, known);
            self.fail(peer, Event::Failed, "the client did not send the first message");
            return false;
        }
        let is_packet = kind == Kind::Packet;
        if is_packet {
            on_packet(&message[HEADER..]);
        }
        self.post_receive(place, known);
        let entry = &mut self.peers[peer];
        entry.credits = entry.credits.saturating_add(credits);
        entry.owed = entry.owed.saturating_add(u16::from(kind.needs_credit()));
        if is_packet {
            self.clock += 1;
            entry.used = self.clock;
        }
        match kind {
            Kind::First => self.event(peer, Event::FirstMessage, None),
            Kind::Packet | Kind::Credit => {}
            Kind::Close => {
                let is_first = state == State::Ready;
                self.event(peer, Event::Unused, None);
                match is_first {
                    true => self.say(peer, Kind::Closed),
                    false => self.note_gone(peer),
                }
            }
            Kind::Closed => self.note_gone(peer),
        }
        let Peer { owed, window, pair, .. } = &self.peers[peer];
        // Also while it closes: the other end's last message needs room.
        if *owed >= limits::tell_at(*window) && matches!(pair.state(), State::Ready | State::Leaving) {
            self.say(peer, Kind::Credit);
        }
        is_packet
    }

    /// Whether a sleep on the descriptor ends when something arrives; `false`: something is here already.
    pub(in crate::verbs) fn arm(&mut self) -> bool {
        self.must_look = true;
        if !self.found.is_empty() || !self.due.is_empty() {
            return false;
        }
        let library = self.library;
        let mut completions = [Completion::default(); BATCH];
        // SAFETY: the channel does not block; each of its events is acknowledged.
        unsafe {
            let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
            let mut events = 0;
            while events < BATCH as u32 && (library.get_cq_event)(self.channel, &raw mut cq, &raw mut context) == 0 {
                events += 1;
            }
            if events > 0 {
                (library.ack_cq_events)(self.cq, events);
            }
            if ((*(*self.cq).context).req_notify_cq)(self.cq, 0) != 0 {
                return false;
            }
        }
        // What came before that is not told of.
        let count = self.poll(&mut completions, BATCH);
        self.found.extend(&completions[..count]);
        count == 0
    }
}
