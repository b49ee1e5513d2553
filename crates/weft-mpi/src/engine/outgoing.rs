//! What leaves: from the program's operations to frames on the path of a peer, in order, as there is room.

use weft_core::matching::Envelope;
use weft_core::message::{HEAD_MAX, Head};
use weft_net::clock;

use super::{Engine, FLOW_QUEUE_BYTES, Path, direct};
use crate::memory::UserData;
use crate::messages::{CREDIT_PER_MESSAGE, Outgoing};
use crate::request::{Mode, Send, State};

/// While many bytes of messages are on their way to a peer of another node, larger ones are announced: the announcement's round trip
/// passes unnoticed then, and their data needs no copy in the flow's queue. Into an empty way they leave at once.
const BUSY_EAGER_MAX: u64 = 16 << 10;
/// So many bytes of messages that the peer has not acknowledged.
const BUSY_BYTES: usize = 32 << 10;

impl Engine {
    pub(super) fn enqueue(&mut self, peer: u32, outgoing: Outgoing) {
        let link = &mut self.links[peer as usize];
        link.pending.push_back(outgoing);
        if !std::mem::replace(&mut link.waiting, true) {
            self.backlog.push(peer);
        }
    }

    /// Sends a standard message that fits a packet to another node at once, without a request of its own; `false` leaves
    /// everything as it was.
    #[inline]
    pub(super) fn send_small(&mut self, peer: u32, envelope: Envelope, data: &UserData) -> bool {
        let bytes = data.len();
        let cost = bytes + CREDIT_PER_MESSAGE;
        if bytes > self.eager_limit
            || self.messages.peers[peer as usize].credit < cost
            || !self.links[peer as usize].pending.is_empty()
        {
            return false;
        }
        let flow = self.flow(peer);
        if bytes as usize + HEAD_MAX > flow.frame_max() || flow.queued_bytes() > FLOW_QUEUE_BYTES {
            return false;
        }
        let head = Head::eager(envelope, None);
        self.submit(peer, &head, data, 0, bytes);
        self.messages.peers[peer as usize].credit -= cost;
        let link = &mut self.links[peer as usize];
        link.numbered = link.numbered.wrapping_add(1);
        link.messages += 1;
        link.bytes += bytes;
        self.depart(peer, head.as_bytes().len() + bytes as usize);
        true
    }

    /// Hands everything that waits to its path.
    #[inline]
    pub(super) fn settle(&mut self) {
        while !self.messages.outbox.is_empty() || !self.backlog.is_empty() || self.messages.may_grant() {
            if self.messages.may_grant() {
                self.messages.poll_grants(clock::now());
            }
            self.route_outbox();
            self.push_backlog();
            // What is left then waits for room.
            if self.messages.outbox.is_empty() {
                break;
            }
        }
    }

    pub(super) fn route_outbox(&mut self) {
        if self.messages.outbox.is_empty() {
            return;
        }
        let mut outbox = std::mem::take(&mut self.messages.outbox);
        for (peer, outgoing) in outbox.drain(..) {
            self.enqueue(peer, outgoing);
        }
        self.messages.outbox = outbox;
    }

    pub(super) fn push_backlog(&mut self) {
        let mut at = 0;
        while at < self.backlog.len() {
            let peer = self.backlog[at];
            while let Some(mut outgoing) = self.links[peer as usize].pending.pop_front() {
                if !self.push(peer, &mut outgoing) {
                    self.links[peer as usize].pending.push_front(outgoing);
                    break;
                }
            }
            if self.links[peer as usize].pending.is_empty() {
                self.links[peer as usize].waiting = false;
                self.backlog.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Hands `outgoing` to the path of `peer`; `false` when the path is full and it (or its rest) must wait.
    pub(super) fn push(&mut self, peer: u32, outgoing: &mut Outgoing) -> bool {
        match outgoing {
            Outgoing::Control(head) => self.carry(peer, head, &UserData::empty(), 0, 0),
            Outgoing::Send { request } => self.push_send(peer, *request),
            Outgoing::Stream { request, sink, offset, limit } => {
                self.push_stream(peer, *request, *sink, offset, *limit)
            }
        }
    }

    pub(super) fn push_send(&mut self, peer: u32, handle: usize) -> bool {
        let wire = self.messages.requests.wire(handle);
        let Some(entry) = self.messages.requests.get(handle) else { return true };
        let State::Queued(send) = &entry.state else { return true };
        let send = send.clone();
        let bytes = send.data.len();
        let synchronous = send.mode == Mode::Synchronous;
        let cost = bytes + CREDIT_PER_MESSAGE;
        let large = bytes >= direct::BYTES_MIN;
        let wanted = large && self.is_wanted(peer, &send.envelope);
        // A receiver that waits inside MPI fetches what is announced, and the program goes on here.
        let is_fetched = large && self.is_attentive(peer) && send.data.address().is_some();
        if wanted && !is_fetched && self.write(peer, handle, &send, None) {
            let link = &mut self.links[peer as usize];
            link.messages += 1;
            link.bytes += bytes;
            return true;
        }
        let fits = bytes <= self.eager_bytes(peer) && cost <= self.messages.peers[peer as usize].credit;
        let eager = fits && !(wanted && is_fetched);
        if eager {
            let acknowledge = synchronous.then_some(wire);
            if !self.push_eager(peer, &send, acknowledge) {
                return false;
            }
            self.messages.peers[peer as usize].credit -= cost;
        } else {
            let address = match self.links[peer as usize].path {
                Path::Myself | Path::Shared(_) => send.data.address(),
                _ => None,
            };
            let head = Head::rendezvous(send.envelope, wire, bytes, address);
            if !self.carry(peer, &head, &UserData::empty(), 0, 0) {
                return false;
            }
        }
        let link = &mut self.links[peer as usize];
        link.numbered = link.numbered.wrapping_add(1);
        link.messages += 1;
        link.bytes += bytes;
        let number = link.numbered;
        if eager && !synchronous {
            self.messages.complete(handle);
        } else if let Some(entry) = self.messages.requests.get_mut(handle) {
            if eager {
                entry.state = State::AwaitingMatch { peer };
                return true;
            }
            entry.state = State::Announced(send.clone());
            // The receive may have been posted after the look above and before the receiver could see this.
            if is_fetched || !large || !self.write(peer, handle, &send, Some(number)) {
                self.offer(peer, handle, number);
            }
        }
        true
    }

    /// Largest message that goes to `peer` without asking.
    pub(super) fn eager_bytes(&self, peer: u32) -> u64 {
        match &self.links[peer as usize].path {
            Path::Shared(_) => self.frame_max.min(self.eager_limit),
            Path::Remote(remote) if remote.queued_bytes() > BUSY_BYTES => self.eager_limit.min(BUSY_EAGER_MAX),
            _ => self.eager_limit,
        }
    }

    pub(super) fn push_eager(&mut self, peer: u32, send: &Send, acknowledge: Option<u32>) -> bool {
        let total = send.data.len();
        let whole = Head::eager(send.envelope, acknowledge);
        let frame_max = match &self.links[peer as usize].path {
            Path::Remote(_) => self.flow(peer).frame_max() as u64,
            _ => u64::MAX,
        };
        if total <= frame_max - whole.as_bytes().len() as u64 {
            return self.carry(peer, &whole, &send.data, 0, total);
        }
        // Pieces go to a flow only, whose queue takes them all once it takes the first. All but the last fill a packet each.
        let (first, more) = (Head::eager_first(send.envelope, acknowledge, total), Head::eager_more());
        let mut offset = frame_max - first.as_bytes().len() as u64;
        if !self.carry(peer, &first, &send.data, 0, offset) {
            return false;
        }
        while offset < total {
            let length = (frame_max - more.as_bytes().len() as u64).min(total - offset);
            self.submit(peer, &more, &send.data, offset, length);
            offset += length;
        }
        true
    }

    pub(super) fn piece_max(&mut self, peer: u32) -> u64 {
        match &self.links[peer as usize].path {
            Path::Myself => u64::MAX,
            Path::Shared(_) => self.frame_max,
            Path::Remote(_) => (self.flow(peer).frame_max() - HEAD_MAX) as u64,
            Path::None(_) => 0,
        }
    }

    pub(super) fn push_stream(&mut self, peer: u32, handle: usize, sink: u32, offset: &mut u64, limit: u64) -> bool {
        let wire = self.messages.requests.wire(handle);
        let Some(State::Sending { send, .. }) = self.messages.requests.get(handle).map(|entry| &entry.state) else {
            return true;
        };
        if let Path::Remote(_) = self.links[peer as usize].path {
            self.flow(peer).submit_data(sink, wire, *offset..limit);
            return true;
        }
        let data = send.data.clone();
        let piece_max = self.piece_max(peer).min(1 << 20);
        while *offset < limit {
            let length = piece_max.min(limit - *offset);
            if !self.carry(peer, &Head::data(sink, *offset), &data, *offset, length) {
                return false;
            }
            *offset += length;
            // A ring holds a copy: the program's buffer is free again.
            self.messages.handle_acknowledged(wire, length);
        }
        true
    }

    /// Puts one frame on the path of `peer`; `false` when it is full.
    pub(super) fn carry(&mut self, peer: u32, head: &Head, data: &UserData, offset: u64, length: u64) -> bool {
        match &self.links[peer as usize].path {
            Path::Myself => {
                let mut frame = head.as_bytes().to_vec();
                frame.resize(frame.len() + length as usize, 0);
                data_into(data, offset, &mut frame[head.as_bytes().len()..]);
                self.myself.push_back(frame);
                true
            }
            Path::Shared(local) => {
                let local = *local;
                let Some(node) = &mut self.node else { return false };
                node.try_send_with(local, head.as_bytes(), length as usize, |out| data_into(data, offset, out))
            }
            Path::Remote(remote) => {
                if remote.flow.as_ref().is_some_and(|flow| flow.queued_bytes() > FLOW_QUEUE_BYTES) {
                    return false;
                }
                self.submit(peer, head, data, offset, length);
                true
            }
            // Nothing can be on its way to a peer that was never reached.
            Path::None(_) => true,
        }
    }

    pub(super) fn submit(&mut self, peer: u32, head: &Head, data: &UserData, offset: u64, length: u64) {
        if let Some(run) = data.run(offset, length) {
            self.flow(peer).submit_message(head.as_bytes(), run);
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(length as usize, 0);
        data_into(data, offset, &mut scratch);
        self.flow(peer).submit_message(head.as_bytes(), &scratch);
        self.scratch = scratch;
    }
}

fn data_into(data: &UserData, offset: u64, out: &mut [u8]) {
    if !out.is_empty() {
        data.read(offset, out);
    }
}
