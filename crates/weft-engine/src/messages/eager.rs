//! Eager messages: each goes to the posted receive that it matches, or is kept until there is one.

use weft_core::matching::Envelope;
use weft_core::message::Head;

use super::EventKind;
use super::{
    Arriving, Body, CREDIT_BYTES, CREDIT_PER_MESSAGE, KEPT_BYTES_TOLD, Matched, Messages, Outgoing, Peer, PeerAccess,
    SMALL_BYTES_MAX, SpareBuffers, Stream, Target, Unexpected, failure, status_of, truncated,
};
use crate::error::Error;
use crate::group::PeerId;
use crate::handle::Slab;
use crate::memory::{Reader, UserData};
use crate::request::{Hold, State, Status};

/// The memory that each message costs beside its payload, in bytes, when it is kept beyond its sender's
/// credit: its places in tables and heap.
const LENT_PER_MESSAGE: u64 = 192;

impl Messages {
    /// Gives the unexpected message `unexpected` to the receive `handle`.
    pub fn claim(&mut self, handle: usize, envelope: Envelope, unexpected: usize, peers: &mut impl PeerAccess) {
        let Some(message) = self.unexpected.remove(unexpected) else { return };
        let peer = message.peer;
        self.note_event(EventKind::Matched, peer, envelope, message.total);
        match message.body {
            Body::Whole { bytes, acknowledge } => {
                self.deliver_whole(handle, envelope, &bytes, &mut peers.peer_mut(peer).reader);
                self.let_go(peer, bytes.len() as u64, message.is_lent, peers);
                self.acknowledge(peer, acknowledge);
                self.put_aside(bytes);
            }
            Body::Arriving { bytes, acknowledge, stream } => {
                self.acknowledge(peer, acknowledge);
                self.receive_pieces(handle, peer, envelope, message.total);
                self.let_go(peer, message.total, message.is_lent, peers);
                let rest = peers.peer(peer).arriving(stream);
                self.store_piece(handle, 0, &bytes);
                self.put_aside(bytes);
                let (total, received) = (message.total, rest.map_or(0, |rest| rest.received));
                let rest = Arriving { target: Target::Request(handle), total, received };
                peers.peer_mut(peer).set_arriving(stream, Some(rest));
                if peers.peer(peer).failed.is_some() {
                    // The rest does not come any more.
                    let error = failure(peer, peers);
                    self.fail_over(handle, error);
                }
            }
            Body::Announced { request, address } => {
                self.pull(handle, peer, envelope, request, message.total, address, peers);
            }
            Body::EagerWrite { request } => {
                self.receive_write(handle, peer, envelope, request, message.total, peers);
            }
        }
    }

    /// Removes and returns the bytes of the unexpected message `unexpected`, if all of it is here; otherwise
    /// the message stays.
    pub fn take_whole(&mut self, unexpected: usize, peers: &mut impl PeerAccess) -> Option<Vec<u8>> {
        match self.unexpected.get(unexpected)?.body {
            Body::Whole { acknowledge: None, .. } => {}
            _ => return None,
        }
        let message = self.unexpected.remove(unexpected)?;
        let Body::Whole { bytes, .. } = message.body else { return None };
        self.let_go(message.peer, bytes.len() as u64, message.is_lent, peers);
        Some(bytes)
    }

    /// Keeps the memory of a message for the next one.
    pub fn put_aside(&mut self, bytes: Vec<u8>) {
        self.spare.put(bytes);
    }

    /// Tells the sender that its synchronous message has matched: the sender's `request` waits for that
    /// (MPI-5.0 §3.4).
    pub(super) fn acknowledge(&mut self, peer: PeerId, request: Option<u32>) {
        if let Some(request) = request {
            self.outbox.push((peer, Outgoing::Control(Head::fin(request))));
        }
    }

    /// Notes that a message of the peer is kept no longer: it has been received, or taken back.
    pub(super) fn let_go(&mut self, peer: PeerId, payload: u64, is_lent: bool, peers: &mut impl PeerAccess) {
        if is_lent {
            // The sender has had its credit back since the message came.
            self.lent -= payload + LENT_PER_MESSAGE;
            return;
        }
        let kept = &mut peers.peer_mut(peer).kept;
        *kept = kept.saturating_sub(payload + CREDIT_PER_MESSAGE);
        self.consumed(peer, payload, peers);
    }

    /// Tells the sender of an unexpected message how it stands.
    ///
    /// A sender to which at least half of its credit is due gets it, and may go on. A sender whose messages
    /// fill its credit is told, and does not wait for more.
    #[inline(never)]
    fn note_unexpected(&mut self, peer: PeerId, peers: &mut impl PeerAccess) {
        // A probe may be waiting for the message.
        self.completions.notify();
        if peers.peer(peer).uncredited >= CREDIT_BYTES / 2 {
            self.give_credit(peer, peers);
        } else {
            self.tell_room(peer, peers);
        }
    }

    /// Tells a peer, once, that it gets no more than its credit.
    ///
    /// A peer without credit never waits for ever. If more than half of its credit is due, it gets that.
    /// Otherwise a quarter of its credit is kept here, and the peer is told so.
    fn tell_room(&mut self, peer: PeerId, peers: &mut impl PeerAccess) {
        let state = peers.peer_mut(peer);
        if state.kept > KEPT_BYTES_TOLD && !std::mem::replace(&mut state.told_full, true) {
            self.outbox.push((peer, Outgoing::Control(Head::credit(0))));
        }
    }

    #[inline(always)]
    pub(super) fn consumed(&mut self, peer: PeerId, payload: u64, peers: &mut impl PeerAccess) {
        let state = peers.peer_mut(peer);
        state.uncredited += payload + CREDIT_PER_MESSAGE;
        if state.uncredited >= CREDIT_BYTES / 2 {
            self.give_credit(peer, peers);
        }
    }

    #[inline(never)]
    fn give_credit(&mut self, peer: PeerId, peers: &mut impl PeerAccess) {
        let bytes = std::mem::take(&mut peers.peer_mut(peer).uncredited);
        #[cfg(weft_mutant = "credit_given_twice")]
        let bytes = bytes * 2;
        self.outbox.push((peer, Outgoing::Control(Head::credit(bytes))));
        peers.peer_mut(peer).told_full = false;
        self.tell_room(peer, peers);
    }

    /// Gives a whole message to the posted receive `handle`. Returns `false`, and does nothing, if the
    /// receive stands on a table, where the sender may have been quicker.
    #[inline(always)]
    fn deliver_whole(&mut self, handle: usize, envelope: Envelope, bytes: &[u8], reader: &mut Reader) -> bool {
        let Some(request) = self.requests.get_mut(handle) else { return true };
        if request.ticket.is_some() {
            return false;
        }
        let State::Posted(receive) = &request.state else { return true };
        let (status, error) = write_whole(&receive.data, envelope, bytes, reader);
        request.status = status;
        if error.is_some() {
            request.error = error;
        }
        request.end_posted();
        self.completions.notify();
        self.under_way -= std::mem::take(&mut request.weight);
        if request.hold == Hold::Freed {
            self.forget(handle);
        }
        true
    }

    /// Gives a whole message that has just arrived to a receive that is not posted; no posted receive may
    /// match the message.
    #[inline]
    pub fn handle_whole(
        &mut self,
        peer: PeerId,
        envelope: Envelope,
        payload: &[u8],
        data: &UserData,
        peers: &mut impl PeerAccess,
    ) -> (Status, Option<Error>) {
        self.count(peer, peers);
        peers.matched(peer);
        let received = write_whole(data, envelope, payload, &mut peers.peer_mut(peer).reader);
        self.consumed(peer, payload.len() as u64, peers);
        received
    }

    fn receive_pieces(&mut self, handle: usize, peer: PeerId, envelope: Envelope, total: u64) {
        let Some((data, fits)) = self.begin_receive(handle, envelope, total) else { return };
        if let Some(request) = self.requests.get_mut(handle) {
            request.state = State::receiving(peer, data, fits);
        }
    }

    /// Writes the part of a piece that fits; pieces past the end of a truncated message are dropped.
    fn store_piece(&mut self, handle: usize, offset: u64, bytes: &[u8]) {
        let Some(State::Receiving { data, total, received, .. }) =
            self.requests.get_mut(handle).map(|request| &mut request.state)
        else {
            return;
        };
        let fits = total.saturating_sub(offset).min(bytes.len() as u64);
        if fits > 0 {
            data.write(offset, &bytes[..fits as usize]);
            *received += fits;
        }
    }

    #[inline(always)]
    pub(super) fn handle_eager(
        &mut self,
        peer: PeerId,
        envelope: Envelope,
        acknowledge: Option<u32>,
        payload: &[u8],
        peers: &mut impl PeerAccess,
    ) {
        self.count(peer, peers);
        // Each turn takes a receive out of the matcher, so this ends.
        loop {
            let Self { matcher, unexpected, malformed_frames, spare, lent, lent_max, .. } = self;
            let room =
                Room { unexpected, malformed_frames, lent, lent_max: *lent_max, state: peers.peer_mut(peer), peer };
            let found = matcher.arrive(envelope, || keep_whole(room, spare, payload, acknowledge));
            let Some(handle) = found else {
                self.note_unexpected(peer, peers);
                self.note_event(EventKind::Unexpected, peer, envelope, payload.len() as u64);
                return;
            };
            if !self.deliver_whole(handle, envelope, payload, &mut peers.peer_mut(peer).reader) {
                if self.withdraw(peer, handle, peers) != Matched::Ours {
                    continue;
                }
                self.deliver_whole(handle, envelope, payload, &mut peers.peer_mut(peer).reader);
            }
            self.consumed(peer, payload.len() as u64, peers);
            self.acknowledge(peer, acknowledge);
            return;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what stands in the frame, and whence it came")]
    pub(super) fn handle_first(
        &mut self,
        peer: PeerId,
        stream: Stream,
        envelope: Envelope,
        acknowledge: Option<u32>,
        total: u64,
        payload: &[u8],
        peers: &mut impl PeerAccess,
    ) {
        if total > CREDIT_BYTES || payload.len() as u64 >= total || peers.peer(peer).arriving(stream).is_some() {
            self.malformed_frames += 1;
            return;
        }
        self.count(peer, peers);
        let mut kept = None;
        // Each turn takes a receive out of the matcher, so this ends.
        let found = loop {
            let Self { matcher, unexpected, malformed_frames, spare, lent, .. } = self;
            // A message that comes in pieces is kept within the sender's credit.
            let room = Room { unexpected, malformed_frames, lent, lent_max: 0, state: peers.peer_mut(peer), peer };
            let found = matcher.arrive(envelope, || {
                let make = || {
                    let mut bytes = spare.take(total as usize);
                    bytes.extend_from_slice(payload);
                    Body::Arriving { bytes, acknowledge, stream }
                };
                kept = room.keep(total, make);
                kept
            });
            match found {
                Some(handle) if self.withdraw(peer, handle, peers) != Matched::Ours => {}
                _ => break found,
            }
        };
        let target = match found {
            Some(handle) => {
                self.acknowledge(peer, acknowledge);
                self.receive_pieces(handle, peer, envelope, total);
                self.consumed(peer, total, peers);
                self.store_piece(handle, 0, payload);
                Target::Request(handle)
            }
            None => match kept {
                Some(kept) => {
                    self.note_event(EventKind::Unexpected, peer, envelope, total);
                    self.tell_room(peer, peers);
                    Target::Unexpected(kept)
                }
                // The further pieces of the message are malformed as well.
                None => return,
            },
        };
        self.completions.notify();
        let rest = Arriving { target, total, received: payload.len() as u64 };
        peers.peer_mut(peer).set_arriving(stream, Some(rest));
    }

    pub(super) fn handle_more(&mut self, peer: PeerId, stream: Stream, payload: &[u8], peers: &mut impl PeerAccess) {
        let Some(arriving) = peers.peer(peer).arriving(stream) else {
            self.malformed_frames += 1;
            return;
        };
        let received = arriving.received + payload.len() as u64;
        if received > arriving.total {
            self.malformed_frames += 1;
            return;
        }
        let whole = received == arriving.total;
        match arriving.target {
            Target::Request(handle) => {
                self.store_piece(handle, arriving.received, payload);
                if whole {
                    self.complete(handle);
                }
            }
            Target::Unexpected(kept) => {
                if let Some(message) = self.unexpected.get_mut(kept)
                    && let Body::Arriving { bytes, acknowledge, .. } = &mut message.body
                {
                    bytes.extend_from_slice(payload);
                    if whole {
                        message.body = Body::Whole { bytes: std::mem::take(bytes), acknowledge: *acknowledge };
                    }
                }
            }
        }
        let rest = (!whole).then_some(Arriving { received, ..arriving });
        peers.peer_mut(peer).set_arriving(stream, rest);
    }
}

/// The place where unexpected messages are kept.
struct Room<'a> {
    unexpected: &'a mut Slab<Unexpected>,
    malformed_frames: &'a mut u64,
    lent: &'a mut u64,
    lent_max: u64,
    state: &'a mut Peer,
    peer: PeerId,
}

impl Room<'_> {
    /// Stores an eager message of `total` bytes, and returns its name for the matcher.
    ///
    /// As long as there is room for the messages of all peers together, the sender of a small message gets
    /// its credit back at once, as if the message had been received. Beyond that room a peer's messages are
    /// kept up to its credit. A peer that exceeds its credit is not believed: its message is counted as
    /// malformed and dropped.
    fn keep(self, total: u64, make: impl FnOnce() -> Body) -> Option<usize> {
        let Self { unexpected, malformed_frames, lent, lent_max, state, peer } = self;
        let cost = total.saturating_add(CREDIT_PER_MESSAGE);
        let lends = total <= SMALL_BYTES_MAX && *lent + total + LENT_PER_MESSAGE <= lent_max;
        let fits = lends || state.kept.saturating_add(cost) <= CREDIT_BYTES;
        let message = || Unexpected { peer, total, is_lent: lends, body: make() };
        let kept = if fits { unexpected.insert(message()) } else { None };
        match kept {
            Some(_) if lends => {
                *lent += total + LENT_PER_MESSAGE;
                state.uncredited += cost;
            }
            Some(_) => state.kept += cost,
            None => *malformed_frames += 1,
        }
        kept
    }
}

#[inline(never)]
fn keep_whole(room: Room<'_>, spare: &mut SpareBuffers, payload: &[u8], acknowledge: Option<u32>) -> Option<usize> {
    let make = || {
        let mut bytes = spare.take(payload.len());
        bytes.extend_from_slice(payload);
        Body::Whole { bytes, acknowledge }
    };
    room.keep(payload.len() as u64, make)
}

/// Writes the part of a whole message that fits, and returns what its receive reports.
#[inline(always)]
fn write_whole(data: &UserData, envelope: Envelope, bytes: &[u8], reader: &mut Reader) -> (Status, Option<Error>) {
    let (total, capacity) = (bytes.len() as u64, data.len());
    if total > capacity {
        data.write(0, &bytes[..capacity as usize]);
        return (status_of(envelope, capacity), Some(truncated(envelope, total, capacity)));
    }
    data.write_whole(bytes, reader);
    (status_of(envelope, total), None)
}
