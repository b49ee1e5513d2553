//! Large messages: announced, asked for, and sent into the buffer that waits for them (the rendezvous of
//! `weft_core::message`). While no receive has asked, the sender may take the announcement back.
//!
//! Data that comes over a network is granted in pieces, by `weft_core::grants`, so that many senders do not
//! drown one receiver. Each grant leaves as a message, ahead of all bulk data.

use weft_core::matching::Envelope;
use weft_core::message::{Head, Invitation};
use weft_core::rendezvous_schemes::SchemeChoice;
use weft_core::time::{Duration, Instant};

use super::EventKind;
use super::{
    Announced, Body, Fetched, Matched, Messages, Outgoing, Peer, PeerAccess, Unexpected, failure, too_many_regions,
};
use crate::group::PeerId;
use crate::memory::{self, SharedBuffer, UserData};
use crate::regions::{AccessKind, Purpose, Region, RegionKey};
use crate::request::{ByCarrier, Cancellation, Fin, Hold, Pulled, Request, Send, State};

/// The bytes still to come above which arriving data bypasses a processor's own caches: it would not stay
/// there until the program reads it. Those caches have 1 or 2 MiB today.
const BEYOND_CACHES_BYTES: u64 = 2 << 20;
/// The most peers that write to the memory of this process at a time, where they could send packets as well.
const WRITERS_MAX: usize = 4;

impl Messages {
    /// Fetches an announced message by single copy, or asks its sender for it.
    pub(super) fn pull(
        &mut self,
        handle: usize,
        peer: PeerId,
        envelope: Envelope,
        request: u32,
        total: u64,
        address: Option<u64>,
        peers: &mut impl PeerAccess,
    ) {
        let posted = self.requests.get(handle).map(|request| &request.state);
        let blocking = matches!(posted, Some(State::Posted(receive)) if receive.blocking);
        let Some((data, fits)) = self.begin_receive(handle, envelope, total) else { return };
        let source = address.filter(|_| peers.peer(peer).single_copy);
        let fetched = match source {
            _ if fits == 0 => Fetched::Whole,
            Some(_) if peers.is_own(peer) => self.copy_own(request, &data),
            Some(address) => {
                peers.fetch(Announced { peer, request, address, handle, data: data.clone(), limit: fits, blocking })
            }
            None => Fetched::Refused,
        };
        if fetched != Fetched::Whole
            && let Some(request) = self.requests.get_mut(handle)
        {
            request.state = State::receiving(peer, data, fits);
        }
        if source.is_none() && fetched == Fetched::Refused {
            return self.ask(handle, peer, request, fits, peers);
        }
        self.conclude_fetch(handle, peer, request, fits, fetched, peers);
    }

    /// Copies a message that this process has announced to itself.
    fn copy_own(&self, request: u32, data: &UserData) -> Fetched {
        let send = self.requests.from_wire(request).and_then(|handle| self.requests.get(handle));
        if let Some(State::Announced(send)) = send.map(|request| &request.state) {
            memory::copy(&send.data, data);
        }
        // A send that is no longer there has failed, and nobody looks at the contents of its receive.
        Fetched::Whole
    }

    /// Acts on the outcome of a fetch: the receive `handle` was to get `limit` bytes of the sender's
    /// `request`.
    pub fn conclude_fetch(
        &mut self,
        handle: usize,
        peer: PeerId,
        request: u32,
        limit: u64,
        fetched: Fetched,
        peers: &mut impl PeerAccess,
    ) {
        match fetched {
            Fetched::Whole => {
                self.outbox.push((peer, Outgoing::Control(Head::fin(request))));
                self.complete(handle);
            }
            Fetched::Begun => {}
            Fetched::Asked(limit) => self.ask(handle, peer, request, limit, peers),
            Fetched::Refused => {
                // The kernel does not permit it, or the peer is going away: from now on the peer sends its
                // data itself.
                peers.peer_mut(peer).single_copy = false;
                self.ask(handle, peer, request, limit, peers);
            }
        }
    }

    /// Asks the sender for its `request`, and opens a region for the data.
    pub(super) fn ask(&mut self, handle: usize, peer: PeerId, request: u32, limit: u64, peers: &mut impl PeerAccess) {
        let Some(State::Receiving { data, .. }) = self.requests.get(handle).map(|entry| &entry.state) else { return };
        let data = data.clone();
        let Some(key) = self.open_receive(handle, peer, request, &data, limit, peers) else { return };
        let state = peers.peer(peer);
        let (is_paced, is_placed) = (state.paced, state.may_place(limit, &data));
        if let Some(State::Receiving { total, region, .. }) =
            self.requests.get_mut(handle).map(|entry| &mut entry.state)
        {
            (*total, *region) = (limit, Some(key));
        }
        if !is_paced {
            peers.peer_mut(peer).asked += limit;
        }
        if is_placed {
            self.outbox.push((peer, Outgoing::Invite { request: handle, asked: request }));
        } else if is_paced {
            self.ask_in_pieces(handle, request);
        } else {
            self.outbox.push((peer, Outgoing::Control(Head::clear_to_send(request, key.wire(), limit, limit))));
        }
    }

    /// Opens a region for `length` bytes of the sender's `request`, which go to `data`. `None`: that cannot
    /// be, and the receive `handle` has failed.
    pub(super) fn open_receive(
        &mut self,
        handle: usize,
        peer: PeerId,
        request: u32,
        data: &UserData,
        length: u64,
        peers: &impl PeerAccess,
    ) -> Option<RegionKey> {
        if peers.peer(peer).failed.is_some() {
            // The message was announced while its sender lived.
            let error = failure(peer, peers);
            self.fail_over(handle, error);
            return None;
        }
        let opened = Region { peer, purpose: Purpose::Receive, data: data.clone(), length, owner: handle };
        let key = self.regions.open(opened);
        if key.is_none() {
            // The sender's operation is over, as if its message had been truncated to nothing.
            self.outbox.push((peer, Outgoing::Control(Head::fin(request))));
            self.fail(handle, too_many_regions());
        }
        key
    }

    /// Asks the sender for its `request` piece by piece, as other senders leave room for it.
    pub fn ask_in_pieces(&mut self, handle: usize, request: u32) {
        if let Some(State::Receiving { peer, total, region: Some(key), pulled, .. }) =
            self.requests.get_mut(handle).map(|entry| &mut entry.state)
        {
            *pulled = Some(Pulled { request, counted: 0 });
            self.grants.submit(key.wire(), peer.index() as u32, *total);
            self.regrant = true;
        }
    }

    /// Notes that a carrier writes nothing to a peer any more, and will not tell of what it has written.
    /// Sends are complete whose data the peer has, or as soon as it says so.
    pub fn end_writes(&mut self, peer: PeerId) {
        let written = self.requests.iter().filter(|(_, request)| request.state.awaits_writes_to(peer));
        let written: Vec<usize> = written.map(|(handle, _)| handle).collect();
        for handle in written.into_iter().filter(|_| !cfg!(weft_mutant = "written_sends_forgotten")) {
            let state = self.requests.get_mut(handle).map(|entry| &mut entry.state);
            let Some(State::Sending { left, fin, .. }) = state else { continue };
            *left = 0;
            if *fin == Fin::Arrived {
                self.complete(handle);
            }
        }
    }

    /// Notes that the sender's carrier writes the message of a receive, and may fail at that.
    pub fn note_invited(&mut self, handle: usize, request: u32) {
        if let Some(State::Receiving { written, .. }) = self.requests.get_mut(handle).map(|entry| &mut entry.state) {
            *written = Some(ByCarrier { request, is_unasked: false });
        }
    }

    /// Asks for all messages anew that a peer's carrier was to write, and has not: now they come in packets.
    pub fn ask_for_written(&mut self, peer: PeerId) {
        let open = self.regions.registered_for(peer);
        for (key, handle) in open {
            let state = self.requests.get_mut(handle).map(|entry| &mut entry.state);
            let Some(State::Receiving { received, region, written, .. }) = state else { continue };
            let Some(ByCarrier { request, .. }) = written.take() else { continue };
            let Some(old) = self.regions.get(key).cloned() else { continue };
            self.regions.close(key);
            let Some(new) = self.regions.open(old) else { continue };
            (*received, *region) = (0, Some(new));
            self.asked_anew += 1;
            self.ask_in_pieces(handle, request);
        }
    }

    /// Returns whether a peer may write another message: only a few peers do so at a time. More would drown
    /// this process, since nothing paces writes.
    pub fn may_be_written_by(&mut self, peer: PeerId, now: Instant, peers: &impl PeerAccess) -> bool {
        let writes =
            |peer: &PeerId| peers.peer(*peer).schemes.as_ref().is_some_and(|schemes| schemes.is_written_to(now));
        self.writers.retain(writes);
        self.writers.contains(&peer) || self.writers.len() < WRITERS_MAX
    }

    /// Notes that a peer writes a message.
    pub fn note_writer(&mut self, peer: PeerId) {
        if !self.writers.contains(&peer) {
            self.writers.push(peer);
        }
    }

    /// Notes that the peer has asked for the send `handle`. This process chooses the scheme of the peer's
    /// messages by the time of both directions.
    fn begin_to_peer(&mut self, handle: usize, peer: PeerId, peers: &impl PeerAccess) {
        if peers.peer(peer).has_choice() {
            self.begun_to_peer.push(peer);
            self.under_way_to_peer.push(handle);
            self.has_news_of_writes = true;
        }
    }

    /// Notes that the request `handle` is complete, which was in the state `before`.
    #[inline(never)]
    pub(super) fn end_to_peer(&mut self, handle: usize, before: &State) {
        let Some(at) = self.under_way_to_peer.iter().position(|known| *known == handle) else { return };
        self.under_way_to_peer.swap_remove(at);
        if let State::Sending { send: Send { peer: Some(peer), .. }, total, .. } = before {
            self.ended_to_peer.push((*peer, *total));
            self.has_news_of_writes = true;
        }
    }

    /// Tells the choices of schemes which announced messages have arrived, and which have left.
    pub fn end_arrived(&mut self, now: Instant, peers: &mut impl PeerAccess) {
        let mut tell = |peer: PeerId, what: &dyn Fn(&mut SchemeChoice)| {
            if let Some(schemes) = &mut peers.peer_mut(peer).schemes {
                what(schemes);
            }
        };
        for peer in self.begun_to_peer.drain(..) {
            tell(peer, &|schemes| schemes.begin_to_peer(now));
        }
        for (peer, bytes) in self.ended_to_peer.drain(..) {
            tell(peer, &|schemes| schemes.end_to_peer(now, bytes));
        }
        for (peer, bytes) in self.arrived_whole.drain(..) {
            tell(peer, &|schemes| schemes.end(now, bytes));
        }
    }

    /// Returns whether [`Self::poll_grants`] may have something to do.
    #[inline]
    pub fn may_grant(&self) -> bool {
        self.regrant || (!self.arrived.is_empty() && self.grants.has_waiting())
    }

    /// Notes that it is time to look for grants, if it is: see `Grants::next_timeout`.
    pub fn look_for_grants(&mut self, now: Instant) {
        self.regrant |= self.grants.next_timeout().is_some_and(|at| at <= now);
    }

    /// Tells the grants what has arrived, and tells the senders what they may send now. `round_trip` returns
    /// the shortest round trip to a peer, if that is known.
    pub fn poll_grants(&mut self, now: Instant, round_trip: impl Fn(PeerId) -> Option<Duration>) {
        self.regrant = false;
        for key in self.arrived.drain(..) {
            let Some(region) = self.regions.get(key) else { continue };
            if let Some(State::Receiving { peer, received, pulled: Some(pulled), .. }) =
                self.requests.get_mut(region.owner).map(|entry| &mut entry.state)
            {
                self.grants.arrived(now, key.wire(), *received - pulled.counted, round_trip(*peer));
                pulled.counted = *received;
            }
        }
        while let Some(grant) = self.grants.poll(now) {
            let region = self.regions.get(RegionKey::from_wire(grant.name));
            let entry = region.and_then(|region| self.requests.get(region.owner));
            let Some(State::Receiving { peer, total, pulled: Some(pulled), .. }) = entry.map(|entry| &entry.state)
            else {
                self.grants.cancel(grant.name);
                continue;
            };
            let head = Head::clear_to_send(pulled.request, grant.name, grant.limit, *total);
            self.outbox.push((*peer, Outgoing::Control(head)));
        }
    }

    /// Ends the peers' access to the memory of an operation that is over. If its message `was_granted` in
    /// pieces, other messages may have its share.
    pub(super) fn end_access(&mut self, key: RegionKey, was_granted: bool) {
        self.regions.close(key);
        if was_granted {
            self.grants.cancel(key.wire());
            self.regrant |= self.grants.has_waiting();
            if self.grants.is_empty() {
                self.arrived.clear();
            }
        }
    }

    /// Keeps the data of a message as long as its request `handle` is there.
    pub fn keep_remnant(&mut self, handle: usize, remnant: SharedBuffer) {
        let requests = &self.requests;
        self.remnants.retain(|(handle, _)| requests.get(*handle).is_some());
        self.remnants.push((handle, remnant));
    }

    /// Returns whether the data of this request is kept by [`Self::keep_remnant`].
    pub(super) fn is_remnant(&self, handle: usize) -> bool {
        self.remnants.iter().any(|(kept, _)| *kept == handle)
    }

    /// Forgets the request `handle`.
    ///
    /// For a receive: data that its sender has still to send is dropped when it comes, and the sender's
    /// operation completes. For a send whose first piece has left eagerly: the message is sent to its end,
    /// out of a copy. The receiver could not tell a later message from the missing pieces.
    pub fn abandon(&mut self, handle: usize, peers: &impl PeerAccess) {
        if let Some(Request { state: State::Sending { send, region: None, .. }, hold, .. }) =
            self.requests.get_mut(handle)
        {
            let remnant = SharedBuffer::packed(&send.data);
            send.data = remnant.describe_all();
            *hold = Hold::Freed;
            self.keep_remnant(handle, remnant);
            return;
        }
        let Some(entry) = self.requests.remove(handle) else { return };
        self.under_way -= entry.weight;
        self.end_to_peer(handle, &entry.state);
        match entry.state {
            State::Receiving { peer, total, region: Some(key), pulled, written, .. } => {
                self.end_access(key, pulled.is_some());
                if let Some(written) = written.filter(|_| peers.peer(peer).failed.is_none()) {
                    self.outbox.push((peer, Outgoing::Control(Head::fin(written.request))));
                }
                if let Some(pulled) = pulled.filter(|_| peers.peer(peer).failed.is_none()) {
                    self.outbox
                        .push((peer, Outgoing::Control(Head::clear_to_send(pulled.request, key.wire(), total, total))));
                }
            }
            State::Sending { send, region: Some(key), fin, left, .. } => {
                self.end_access(key, false);
                // A carrier may be about to read what it has not written yet.
                self.broken_writes.extend(send.peer.filter(|_| fin != Fin::NotNeeded && left > 0));
            }
            _ => {}
        }
    }

    pub(super) fn handle_rendezvous(
        &mut self,
        peer: PeerId,
        envelope: Envelope,
        request: u32,
        total: u64,
        address: Option<u64>,
        peers: &mut impl PeerAccess,
    ) {
        self.completions.notify();
        if !self.count(peer, peers) {
            return;
        }
        // Each turn takes a receive out of the matcher, so this ends.
        loop {
            let Self { unexpected, malformed_frames, .. } = self;
            let body = Body::Announced { request, address };
            let found = self.matcher.arrive(envelope, || {
                // The data stays with the sender, which has at most as many requests as this table has
                // entries.
                let kept = unexpected.insert(Unexpected { peer, total, is_lent: false, body });
                *malformed_frames += u64::from(kept.is_none());
                kept
            });
            let Some(handle) = found else {
                return self.note_event(EventKind::Unexpected, peer, envelope, total);
            };
            match self.withdraw(peer, handle, peers) {
                Matched::Ours => return self.pull(handle, peer, envelope, request, total, address, peers),
                // The sender is writing the message: this is the announcement of that very message.
                Matched::Written => return,
                Matched::Taken => {}
            }
        }
    }

    pub(super) fn handle_clear_to_send(
        &mut self,
        peer: PeerId,
        request: u32,
        remote_key: u32,
        limit: u64,
        total: u64,
        peers: &impl PeerAccess,
    ) {
        let Some(handle) = self.requests.from_wire(request) else {
            self.malformed_frames += 1;
            return;
        };
        let Some(entry) = self.requests.get_mut(handle) else { return };
        let offset = match &mut entry.state {
            State::Announced(send)
                if send.peer == Some(peer) && limit > 0 && limit <= total && total <= send.data.len() =>
            {
                let send = send.clone();
                let opened =
                    Region { peer, purpose: Purpose::Send, data: send.data.clone(), length: total, owner: handle };
                let Some(key) = self.regions.open(opened) else { return self.fail(handle, too_many_regions()) };
                entry.state = State::Sending {
                    send,
                    remote_key,
                    region: Some(key),
                    total,
                    granted: limit,
                    left: total,
                    fin: Fin::NotNeeded,
                };
                self.begin_to_peer(handle, peer, peers);
                0
            }
            // The message was being written, and has not arrived: the receiver asks for it anew.
            State::Sending { send, region: Some(old), total: agreed, fin: Fin::Awaited, .. }
                if send.peer == Some(peer) && *agreed == total && limit > 0 && limit <= total =>
            {
                let (send, old) = (send.clone(), *old);
                // Packets of the first attempt may still be on their way: they must not count for the second.
                let Some(region) = self.regions.get(old).cloned() else { return };
                #[cfg(not(weft_mutant = "first_attempt_counted"))]
                self.regions.close(old);
                self.broken_writes.push(peer);
                self.has_news_of_writes = true;
                let region = self.regions.open(region);
                #[cfg(weft_mutant = "first_attempt_counted")]
                let region = region.and(Some(old));
                let (granted, left) = (limit, total);
                entry.state = State::Sending { send, remote_key, region, total, granted, left, fin: Fin::NotNeeded };
                0
            }
            State::Sending { send, remote_key: known, total: agreed, granted, .. }
                if send.peer == Some(peer)
                    && (*known, *agreed) == (remote_key, total)
                    && limit > *granted
                    && limit <= total =>
            {
                let before = std::mem::replace(granted, limit);
                #[cfg(weft_mutant = "grant_counted_twice")]
                let before = before / 2;
                before
            }
            _ => {
                self.malformed_frames += 1;
                return;
            }
        };
        self.outbox.push((peer, Outgoing::Stream { request: handle, remote_key, offset, limit }));
    }

    /// Starts a remote write: the receiver of `request` lets our carrier write to its memory.
    pub(super) fn handle_clear_to_place(&mut self, peer: PeerId, invitation: Invitation, peers: &impl PeerAccess) {
        let Invitation { request, remote_key, total, target, with_fin } = invitation;
        // A peer that has been told of no carrier for remote writes has nothing to invite.
        if peers.peer(peer).placed_min == u64::MAX {
            self.malformed_frames += 1;
            return;
        }
        let handle = self.requests.from_wire(request);
        let Some((handle, entry)) = handle.and_then(|handle| Some((handle, self.requests.get_mut(handle)?))) else {
            self.malformed_frames += 1;
            return;
        };
        let State::Announced(send) = &entry.state else {
            self.malformed_frames += 1;
            return;
        };
        if send.peer != Some(peer) || total == 0 || total > send.data.len() {
            self.malformed_frames += 1;
            return;
        }
        let send = send.clone();
        let opened = Region { peer, purpose: Purpose::Send, data: send.data.clone(), length: total, owner: handle };
        let Some(key) = self.regions.open(opened) else { return self.fail(handle, too_many_regions()) };
        let fin = if with_fin { Fin::Awaited } else { Fin::NotNeeded };
        let (region, granted, left) = (Some(key), total, total);
        entry.state = State::Sending { send, remote_key, region, total, granted, left, fin };
        self.begin_to_peer(handle, peer, peers);
        self.outbox.push((peer, Outgoing::Place { request: handle, remote_key, total, target }));
    }

    /// Notes that the carrier of `peer` has written `length` bytes to the region that the peer calls `key`.
    pub fn handle_placed(&mut self, peer: PeerId, key: u32, offset: u64, length: u64, peers: &mut impl PeerAccess) {
        let asked = &mut peers.peer_mut(peer).asked;
        *asked = asked.saturating_sub(length);
        let key = RegionKey::from_wire(key);
        // A refused access has been counted.
        let Ok(region) = self.regions.access(peer, key, AccessKind::Write, offset, length) else { return };
        let handle = region.owner;
        let is_registered = self.regions.is_registered(key);
        match self.requests.get_mut(handle).map(|request| &mut request.state) {
            Some(State::Receiving { total, received, written, .. })
                if is_registered && length <= *total - *received =>
            {
                *received += length;
                if *received == *total {
                    if let Some(ByCarrier { request, is_unasked }) = *written {
                        if is_unasked {
                            self.outbox.push((peer, Outgoing::Fin { request }));
                        } else {
                            self.arrived_whole.push((peer, *total));
                            self.has_news_of_writes = true;
                            self.outbox.push((peer, Outgoing::Control(Head::fin(request))));
                        }
                    }
                    self.complete(handle);
                }
            }
            _ => self.malformed_frames += 1,
        }
    }

    /// Takes in granted data from `peer` for the region that the peer calls `key`: in any order, each byte
    /// once.
    pub fn handle_data(&mut self, peer: PeerId, key: u32, offset: u64, bytes: &[u8], peers: &mut impl PeerAccess) {
        let state = peers.peer_mut(peer);
        let chosen_min = if state.has_choice() { state.placed_min } else { u64::MAX };
        let Peer { asked, writer, .. } = state;
        let length = bytes.len() as u64;
        let to_come = *asked;
        *asked = to_come.saturating_sub(length);
        let key = RegionKey::from_wire(key);
        // A refused access has been counted.
        let Ok(region) = self.regions.access(peer, key, AccessKind::Write, offset, length) else { return };
        let handle = region.owner;
        let Some(State::Receiving { total, received, pulled, written, .. }) =
            self.requests.get_mut(handle).map(|request| &mut request.state)
        else {
            self.malformed_frames += 1;
            return;
        };
        if *received + length > *total {
            self.malformed_frames += 1;
            return;
        }
        // An eager write may be longer than the memory that it goes to.
        let (offset, bytes) = region.data.fitting(offset, bytes);
        if to_come.max(*total) >= BEYOND_CACHES_BYTES {
            region.data.write_large(offset, bytes, writer);
        } else {
            region.data.write(offset, bytes);
        }
        let first_news = pulled.is_some_and(|pulled| pulled.counted == *received);
        *received += length;
        if *received == *total {
            if *total >= chosen_min && region.data.address().is_some() {
                self.arrived_whole.push((peer, *total));
                self.has_news_of_writes = true;
            }
            if let Some(ByCarrier { request, .. }) = *written {
                self.outbox.push((peer, Outgoing::Control(Head::fin(request))));
            }
            self.complete(handle);
        } else if first_news {
            self.arrived.push(key);
        }
    }

    pub(super) fn handle_fin(&mut self, peer: PeerId, request: u32) {
        let handle = self.requests.from_wire(request);
        let Some((handle, entry)) = handle.and_then(|handle| Some((handle, self.requests.get_mut(handle)?))) else {
            // The send has been abandoned, as those of a window are that the program frees: the peer has its
            // data, and its FIN was still on the way.
            return;
        };
        let expected = match &mut entry.state {
            State::Announced(send) => send.peer == Some(peer),
            State::AwaitingMatch { peer: to, .. } => *to == peer,
            State::Sending { send, fin: fin @ Fin::Awaited, left, .. } if send.peer == Some(peer) => {
                *fin = Fin::Arrived;
                if *left > 0 {
                    return;
                }
                true
            }
            _ => false,
        };
        if expected {
            self.complete(handle);
        } else {
            self.malformed_frames += 1;
        }
    }

    /// Notes that `bytes` of what was granted of the region `key` have reached the receiver, or need the
    /// program's buffer no more.
    pub fn handle_acknowledged(&mut self, key: RegionKey, bytes: u64) {
        let Some(handle) = self.regions.get(key).map(|region| region.owner) else { return };
        let Some(State::Sending { left, fin, .. }) = self.requests.get_mut(handle).map(|entry| &mut entry.state) else {
            return;
        };
        *left = left.saturating_sub(bytes);
        if *left == 0 && *fin != Fin::Awaited {
            self.complete(handle);
        }
    }

    pub(super) fn handle_retract(&mut self, peer: PeerId, context: u32, request: u32, peers: &mut impl PeerAccess) {
        let unexpected = &self.unexpected;
        let found = self.matcher.retract(context, |_, id| {
            unexpected.get(*id).is_some_and(|message| {
                message.peer == peer
                    && match &message.body {
                        Body::Announced { request: announced, .. } | Body::EagerWrite { request: announced } => {
                            *announced == request
                        }
                        Body::Whole { acknowledge, .. } => *acknowledge == Some(request),
                        Body::Arriving { .. } => false,
                    }
            })
        });
        if let Some((_, id)) = found
            && let Some(Unexpected { body: Body::Whole { bytes, .. }, is_lent, .. }) = self.unexpected.remove(id)
        {
            self.let_go(peer, bytes.len() as u64, is_lent, peers);
        }
        self.outbox.push((peer, Outgoing::Control(Head::retracted(request, found.is_some()))));
    }

    pub(super) fn handle_retracted(&mut self, peer: PeerId, request: u32, forgotten: bool) {
        let Some(handle) = self.requests.from_wire(request) else { return };
        let Some(entry) = self.requests.get_mut(handle) else { return };
        let ours = match &entry.state {
            State::Announced(send) => send.peer == Some(peer),
            State::AwaitingMatch { peer: to, .. } => *to == peer,
            _ => false,
        };
        entry.cancellation = Cancellation::Possible;
        if ours && forgotten {
            entry.status.cancelled = true;
            self.complete(handle);
        }
    }
}
