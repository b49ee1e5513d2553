//! Messages that arrive unasked, within the credit of their sender: to the receive that is posted, or kept until there is one.

use weft_core::matching::Envelope;
use weft_core::message::Head;

use super::{
    Arriving, Body, CREDIT_BYTES, CREDIT_PER_MESSAGE, Fetch, Matched, Messages, Outgoing, Peer, Target, Unexpected,
    status_of, truncated,
};
use crate::error::Error;
use crate::handle::Slab;
use crate::memory::UserData;
use crate::request::{State, Status};

/// Memory of messages that nobody had asked for is kept for the next ones: of so many, if it is not larger …
const SPARE_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 1024;
/// … and is not made smaller.
const SPARE_BYTES_MIN: usize = 64;

impl Messages {
    /// Gives the unexpected message `unexpected` to the receive `handle`.
    pub fn claim(&mut self, handle: usize, envelope: Envelope, unexpected: usize, fetch: &mut impl Fetch) {
        let Some(message) = self.unexpected.remove(unexpected) else { return };
        let peer = message.peer;
        match message.body {
            Body::Whole { bytes, acknowledge } => {
                self.let_go(peer, bytes.len() as u64);
                self.deliver_whole(handle, envelope, &bytes);
                self.consumed(peer, bytes.len() as u64);
                self.acknowledge(peer, acknowledge);
                self.put_aside(bytes);
            }
            Body::Arriving { bytes, acknowledge } => {
                self.let_go(peer, message.total);
                self.acknowledge(peer, acknowledge);
                self.receive_pieces(handle, peer, envelope, message.total);
                self.consumed(peer, message.total);
                let rest = self.peers[peer as usize].arriving.take();
                self.store_piece(handle, 0, &bytes);
                let (total, received) = (message.total, rest.map_or(0, |rest| rest.received));
                self.peers[peer as usize].arriving =
                    Some(Arriving { target: Target::Request(handle), total, received });
            }
            Body::Announced { request, address } => {
                self.pull(handle, peer, envelope, request, message.total, address, fetch);
            }
        }
    }

    /// Keeps the memory of a short message for the next.
    #[inline]
    fn put_aside(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= SPARE_BYTES_MAX && self.spare.len() < SPARE_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Tells the sender that its synchronous message has matched: its `request` waits for that (MPI-5.0 §3.4).
    pub(super) fn acknowledge(&mut self, peer: u32, request: Option<u32>) {
        if let Some(request) = request {
            self.outbox.push((peer, Outgoing::Control(Head::done(request))));
        }
    }

    /// A message of the peer is kept no longer.
    pub(super) fn let_go(&mut self, peer: u32, payload: u64) {
        let kept = &mut self.peers[peer as usize].kept;
        *kept = kept.saturating_sub(payload + CREDIT_PER_MESSAGE);
    }

    #[inline(always)]
    pub(super) fn consumed(&mut self, peer: u32, payload: u64) {
        let state = &mut self.peers[peer as usize];
        state.owed += payload + CREDIT_PER_MESSAGE;
        if state.owed >= CREDIT_BYTES / 2 {
            self.give_credit(peer);
        }
    }

    #[inline(never)]
    fn give_credit(&mut self, peer: u32) {
        let bytes = std::mem::take(&mut self.peers[peer as usize].owed);
        self.outbox.push((peer, Outgoing::Control(Head::credit(bytes))));
    }

    /// Gives a whole message to the posted receive `handle`; `false`, and nothing is done, if that stands on a board, where its
    /// sender may have been quicker.
    #[inline(always)]
    fn deliver_whole(&mut self, handle: usize, envelope: Envelope, bytes: &[u8]) -> bool {
        let Some(request) = self.requests.get_mut(handle) else { return true };
        if request.ticket.is_some() {
            return false;
        }
        let State::Posted(receive) = &request.state else { return true };
        let (status, error) = write_whole(&receive.data, envelope, bytes);
        request.status = status;
        if error.is_some() {
            request.error = error;
        }
        request.end_posted();
        self.completions += 1;
        self.unsettled -= 1;
        if request.freed {
            self.forget(handle);
        }
        true
    }

    /// Gives a whole message that has just arrived to a receive that is not posted; no posted one may match it.
    #[inline]
    pub fn handle_whole(
        &mut self,
        peer: u32,
        envelope: Envelope,
        payload: &[u8],
        data: &UserData,
        fetch: &mut impl Fetch,
    ) -> (Status, Option<Error>) {
        self.count(peer, fetch);
        fetch.settled(peer);
        let received = write_whole(data, envelope, payload);
        self.consumed(peer, payload.len() as u64);
        received
    }

    fn receive_pieces(&mut self, handle: usize, peer: u32, envelope: Envelope, total: u64) {
        let Some((data, fits)) = self.begin_receive(handle, envelope, total) else { return };
        if let Some(request) = self.requests.get_mut(handle) {
            request.state = State::Receiving { peer, data, total: fits, received: 0, pulled: None };
        }
    }

    /// Writes what fits of a piece; pieces past the end of a truncated message are dropped.
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
        peer: u32,
        envelope: Envelope,
        acknowledge: Option<u32>,
        payload: &[u8],
        fetch: &mut impl Fetch,
    ) {
        self.count(peer, fetch);
        // Each turn takes a receive out of the matcher, so this ends.
        loop {
            let Self { unexpected, peers, nonsense, spare, .. } = self;
            let found = self.matcher.arrive(envelope, || {
                keep_whole(unexpected, spare, &mut peers[peer as usize], nonsense, peer, payload, acknowledge)
            });
            let Some(handle) = found else {
                // A probe may be waiting for it.
                self.completions += 1;
                return;
            };
            if !self.deliver_whole(handle, envelope, payload) {
                if self.withdraw(peer, handle, fetch) != Matched::Ours {
                    continue;
                }
                self.deliver_whole(handle, envelope, payload);
            }
            self.consumed(peer, payload.len() as u64);
            self.acknowledge(peer, acknowledge);
            return;
        }
    }

    pub(super) fn handle_first(
        &mut self,
        peer: u32,
        envelope: Envelope,
        acknowledge: Option<u32>,
        total: u64,
        payload: &[u8],
        fetch: &mut impl Fetch,
    ) {
        if total > CREDIT_BYTES || payload.len() as u64 >= total || self.peers[peer as usize].arriving.is_some() {
            self.nonsense += 1;
            return;
        }
        self.count(peer, fetch);
        let mut kept = None;
        // Each turn takes a receive out of the matcher, so this ends.
        let found = loop {
            let Self { unexpected, peers, nonsense, .. } = self;
            let found = self.matcher.arrive(envelope, || {
                let make = || {
                    let mut bytes = Vec::with_capacity(total as usize);
                    bytes.extend_from_slice(payload);
                    Body::Arriving { bytes, acknowledge }
                };
                kept = keep(unexpected, &mut peers[peer as usize], nonsense, peer, total, make);
                kept
            });
            match found {
                Some(handle) if self.withdraw(peer, handle, fetch) != Matched::Ours => {}
                _ => break found,
            }
        };
        let target = match found {
            Some(handle) => {
                self.acknowledge(peer, acknowledge);
                self.receive_pieces(handle, peer, envelope, total);
                self.consumed(peer, total);
                self.store_piece(handle, 0, payload);
                Target::Request(handle)
            }
            None => match kept {
                Some(kept) => Target::Unexpected(kept),
                // Its further pieces are nonsense as well.
                None => return,
            },
        };
        self.completions += 1;
        self.peers[peer as usize].arriving = Some(Arriving { target, total, received: payload.len() as u64 });
    }

    pub(super) fn handle_more(&mut self, peer: u32, payload: &[u8]) {
        let Some(arriving) = self.peers[peer as usize].arriving else {
            self.nonsense += 1;
            return;
        };
        let received = arriving.received + payload.len() as u64;
        if received > arriving.total {
            self.nonsense += 1;
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
                    && let Body::Arriving { bytes, acknowledge } = &mut message.body
                {
                    bytes.extend_from_slice(payload);
                    if whole {
                        message.body = Body::Whole { bytes: std::mem::take(bytes), acknowledge: *acknowledge };
                    }
                }
            }
        }
        self.peers[peer as usize].arriving = (!whole).then_some(Arriving { received, ..arriving });
    }
}

/// Stores an eager message of `peer` that no receive has asked for; its name for the matcher. Not more than the peer has credit
/// for: one that does not keep to it is not believed, and what it sends beyond is counted and dropped.
fn keep(
    unexpected: &mut Slab<Unexpected>,
    state: &mut Peer,
    nonsense: &mut u64,
    peer: u32,
    total: u64,
    make: impl FnOnce() -> Body,
) -> Option<usize> {
    let cost = total.saturating_add(CREDIT_PER_MESSAGE);
    let fits = state.kept.saturating_add(cost) <= CREDIT_BYTES;
    let kept = if fits { unexpected.insert(Unexpected { peer, total, body: make() }) } else { None };
    match kept {
        Some(_) => state.kept += cost,
        None => *nonsense += 1,
    }
    kept
}

#[inline(never)]
fn keep_whole(
    unexpected: &mut Slab<Unexpected>,
    spare: &mut Vec<Vec<u8>>,
    state: &mut Peer,
    nonsense: &mut u64,
    peer: u32,
    payload: &[u8],
    acknowledge: Option<u32>,
) -> Option<usize> {
    let make = || {
        let mut bytes = spare.pop().unwrap_or_else(|| Vec::with_capacity(payload.len().max(SPARE_BYTES_MIN)));
        bytes.extend_from_slice(payload);
        Body::Whole { bytes, acknowledge }
    };
    keep(unexpected, state, nonsense, peer, payload.len() as u64, make)
}

/// Writes what fits of a whole message; what its receive reports.
#[inline(always)]
fn write_whole(data: &UserData, envelope: Envelope, bytes: &[u8]) -> (Status, Option<Error>) {
    let (total, capacity) = (bytes.len() as u64, data.len());
    if total > capacity {
        data.write(0, &bytes[..capacity as usize]);
        return (status_of(envelope, capacity), Some(truncated(envelope, total, capacity)));
    }
    data.write(0, bytes);
    (status_of(envelope, total), None)
}
