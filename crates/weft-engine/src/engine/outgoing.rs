//! What leaves: from the program's operations to frames on the path of a peer, in order, as there is room.

use weft_core::matching::Envelope;
use weft_core::message::{HEAD_MAX, Head};

use super::{Engine, FLOW_QUEUE_BYTES, Path, direct};
use crate::memory::UserData;
use crate::messages::{CREDIT_PER_MESSAGE, Outgoing};
use crate::request::{Mode, Send, State};
use crate::transport::{Node, Platform, Wish};

/// While many bytes of messages are on their way to a peer of another node, larger ones that nobody waits for are announced: the
/// announcement's round trip passes unnoticed then, and their data needs no copy in the flow's queue. Into an empty way they leave
/// at once, and so do those that their sender waits for.
const BUSY_EAGER_MAX: u64 = 16 << 10;
/// The first piece of a message fills up a packet if that leaves room for more than this, bytes.
const FIRST_PIECE_MIN: u64 = 128;
/// So many bytes of messages that the peer has not acknowledged.
const BUSY_BYTES: usize = 32 << 10;
/// Larger messages go through a ring in pieces, of this size at least: while the receiver copies one out, the sender copies the next
/// one in.
pub(super) const RING_PIECE_BYTES: u64 = 8 << 10;
/// All but the first of these pieces have so much at least, and so much at most: each costs about as much as a copy of 4 KiB, so that long
/// messages have longer ones. Decision 0107, section 2.
const NEXT_PIECE_BYTES: (u64, u64) = (16 << 10, 64 << 10);
/// With nobody to wait for it, a piece is as long as a frame may well be.
const OTHER_PIECE_BYTES: u64 = 1 << 20;
/// After so much of a message this process sees to what has arrived, if anything: who sends and receives takes turns. Each fills half of a ring first:
/// lines that both write and read at the same time come late.
const TURN_BYTES: u64 = 1 << 20;
/// So long may a message be that goes through a ring unasked although it is above the eager limit: if its receiver waits for it and it is
/// for a receive that is posted, both sides copy at the same time, each its half of the way. Where processors share a cache
/// that is quicker than copies by the kernel.
const PIPE_BYTES_MAX: u64 = 512 << 10;
/// The same where they do not.
const STREAMED_PIPE_BYTES_MAX: u64 = 128 << 10;
/// Largest frame of the smallest ring in which two sides do not hinder each other.
const PIPE_FRAME_MIN: u64 = 64 << 10;
/// With so much waiting for a peer, its questions for messages back are not answered: whoever asks so often does not read either.
const PENDING_BEHIND_RETRACTED_MAX: usize = 1 << 16;

impl<P: Platform> Engine<P> {
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
        self.links[peer as usize].put(bytes);
        self.depart(peer, head.as_bytes().len() + bytes as usize);
        true
    }

    /// Hands everything that waits to its path.
    #[inline]
    pub(super) fn settle(&mut self) {
        while !self.messages.outbox.is_empty() || !self.backlog.is_empty() || self.messages.may_grant() {
            if self.messages.may_grant() {
                self.messages.poll_grants(self.platform.now());
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
            let waiting = self.links[peer as usize].pending.len();
            if waiting >= PENDING_BEHIND_RETRACTED_MAX
                && matches!(&outgoing, Outgoing::Control(head) if head.is_retracted())
            {
                self.messages.nonsense += 1;
                continue;
            }
            self.enqueue(peer, outgoing);
        }
        self.messages.outbox = outbox;
    }

    pub(super) fn push_backlog(&mut self) {
        self.turn_over = false;
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
            Outgoing::Rest { request, offset } => self.push_rest(peer, *request, offset),
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
        let blocking = send.blocking;
        let large = bytes >= direct::BYTES_MIN;
        let wish = if large { self.wish(peer, &send.envelope) } else { Wish::None };
        // A receiver that waits inside MPI fetches what is announced, and the program goes on here.
        let is_fetched = large && self.is_attentive(peer) && send.data.address().is_some();
        if wish != Wish::None && !is_fetched && self.write(peer, handle, &send, None) {
            self.links[peer as usize].note(bytes);
            return true;
        }
        // Where both sides wait for the message all the same, each copies its half of the way at the same time.
        let expected = wish != Wish::None && is_fetched && !self.has_offer(peer);
        let piped = blocking && is_fetched && wish == Wish::Awaited;
        let most = self.eager_bytes(peer, synchronous, blocking);
        let fits = bytes <= most || (piped && !synchronous && bytes <= self.pipe_bytes(peer));
        let eager = fits && cost <= self.messages.peers[peer as usize].credit && (piped || !expected);
        let mut left = 0;
        if eager {
            let acknowledge = synchronous.then_some(wire);
            let Some(sent) = self.push_eager(peer, &send, acknowledge) else { return false };
            left = bytes - sent;
            self.messages.peers[peer as usize].credit -= cost;
        } else {
            // The program waits here, and as far as is known it does where the message goes.
            let streams = blocking && wish != Wish::Posted && bytes >= direct::SHARED_BYTES_MIN;
            let address = match self.links[peer as usize].path {
                // Its receiver asks for it then, and it comes through the ring.
                Path::Shared(_) if streams && self.is_quick_ring(peer) => None,
                Path::Myself | Path::Shared(_) => send.data.address(),
                _ => None,
            };
            if address.is_some() && streams {
                self.links[peer as usize].writer.pass_by(bytes);
            }
            let head = Head::rendezvous(send.envelope, wire, bytes, address);
            if !self.carry(peer, &head, &UserData::empty(), 0, 0) {
                return false;
            }
        }
        let number = self.links[peer as usize].put(bytes);
        if left > 0 {
            let link = &mut self.links[peer as usize];
            link.pending.push_front(Outgoing::Rest { request: handle, offset: bytes - left });
            if let Some(entry) = self.messages.requests.get_mut(handle) {
                // All of it may leave: it has no sink that anything could be granted to.
                entry.state = State::Sending { send, sink: 0, total: bytes, granted: bytes, left };
            }
        } else if eager && !synchronous {
            self.messages.complete(handle);
        } else if let Some(entry) = self.messages.requests.get_mut(handle) {
            if eager {
                entry.state = State::AwaitingMatch { peer };
                return true;
            }
            entry.state = State::Announced(send.clone());
            // The receive may have been posted after the look above and before the receiver could see this.
            let here = is_fetched || self.is_attentive(peer);
            if here || !large || !self.write(peer, handle, &send, Some(number)) {
                self.offer(peer, handle, number);
            }
        }
        true
    }

    /// Largest message that goes to `peer` without asking.
    pub(super) fn eager_bytes(&mut self, peer: u32, synchronous: bool, blocking: bool) -> u64 {
        match &self.links[peer as usize].path {
            // The answer must not overtake the last piece.
            Path::Shared(_) if synchronous => self.eager_limit.min(self.piece_max(peer)),
            Path::Remote(remote) if !blocking && remote.queued_bytes() > BUSY_BYTES => {
                self.eager_limit.min(BUSY_EAGER_MAX)
            }
            _ => self.eager_limit,
        }
    }

    /// Largest message that goes through the ring of `peer` while both sides wait for it.
    fn pipe_bytes(&self, peer: u32) -> u64 {
        let link = &self.links[peer as usize];
        match link.path {
            Path::Shared(_) if !is_wide(self.frame_max) => 0,
            Path::Shared(_) if link.writer.is_plain() => PIPE_BYTES_MAX,
            Path::Shared(_) => STREAMED_PIPE_BYTES_MAX,
            _ => 0,
        }
    }

    /// Whether two copies through the ring of `peer`, at the same time, take less than any by the kernel.
    fn is_quick_ring(&self, peer: u32) -> bool {
        is_wide(self.frame_max) && self.links[peer as usize].writer.is_plain()
    }

    /// How much of a message has been put on the path of `peer`: all of it, or its first piece; `None` when the path is full.
    fn push_eager(&mut self, peer: u32, send: &Send, acknowledge: Option<u32>) -> Option<u64> {
        let total = send.data.len();
        let (whole, first) =
            (Head::eager(send.envelope, acknowledge), Head::eager_first(send.envelope, acknowledge, total));
        let more = Head::eager_more();
        let frame_max = match &self.links[peer as usize].path {
            Path::Remote(_) => self.flow(peer).frame_max() as u64,
            Path::Shared(_) => {
                let piece_max = self.piece_max(peer);
                if total <= piece_max {
                    return self.carry(peer, &whole, &send.data, 0, total).then_some(total);
                }
                return self.carry(peer, &first, &send.data, 0, piece_max).then_some(piece_max);
            }
            _ => u64::MAX,
        };
        if total <= frame_max - whole.as_bytes().len() as u64 {
            return self.carry(peer, &whole, &send.data, 0, total).then_some(total);
        }
        // The queue of a flow takes all pieces once it takes the first, which fills up what earlier messages have left of their last
        // packet. All others but the last fill a packet each.
        let room = self.flow(peer).frame_room() as u64;
        let first_max = if room > FIRST_PIECE_MIN { room } else { frame_max };
        let mut offset = first_max - first.as_bytes().len() as u64;
        if !self.carry(peer, &first, &send.data, 0, offset) {
            return None;
        }
        while offset < total {
            let length = (frame_max - more.as_bytes().len() as u64).min(total - offset);
            self.submit(peer, &more, &send.data, offset, length);
            offset += length;
        }
        Some(total)
    }

    /// Puts the pieces of a message from `offset` on into the ring of `peer`, as long as there is room.
    fn push_rest(&mut self, peer: u32, handle: usize, offset: &mut u64) -> bool {
        let Some(State::Sending { send, .. }) = self.messages.requests.get(handle).map(|entry| &entry.state) else {
            return true;
        };
        let data = send.data.clone();
        let mut turn_end = *offset + TURN_BYTES;
        while *offset < data.len() {
            if *offset >= turn_end {
                if self.node.as_mut().is_some_and(|node| node.is_pending()) {
                    self.turn_over = true;
                    return false;
                }
                turn_end += TURN_BYTES;
            }
            let length = self.next_piece(peer, *offset, data.len());
            if !self.carry(peer, &Head::eager_more(), &data, *offset, length) {
                return false;
            }
            *offset += length;
        }
        // A ring holds a copy: the program's buffer is free again.
        self.messages.complete(handle);
        true
    }

    pub(super) fn piece_max(&mut self, peer: u32) -> u64 {
        match &self.links[peer as usize].path {
            Path::Myself => u64::MAX,
            Path::Shared(_) => self.frame_max.min(RING_PIECE_BYTES),
            Path::Remote(_) => (self.flow(peer).frame_max() - HEAD_MAX) as u64,
            Path::None(_) => 0,
        }
    }

    /// Bytes of the piece from `offset` on of a message that goes to `peer` up to `end`. The first pieces in a ring are short, so that the
    /// receiver begins soon, and so are the last ones, so that it ends soon after the sender. With other operations under way, such as the receive
    /// of MPI_Sendrecv, that is not what counts: the receiver has something to do as well.
    fn next_piece(&self, peer: u32, offset: u64, end: u64) -> u64 {
        let left = end - offset;
        if !matches!(self.links[peer as usize].path, Path::Shared(_)) {
            return left.min(OTHER_PIECE_BYTES);
        }
        let (least, most) = NEXT_PIECE_BYTES;
        if self.messages.are_several_under_way() {
            return left.min(most).min(self.frame_max);
        }
        let long = (offset / 2).min(left / 4).min(most) / least * least;
        left.min(long.max(least)).min(self.frame_max)
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
        let mut turn_end = *offset + TURN_BYTES;
        while *offset < limit {
            if *offset >= turn_end {
                if self.node.as_mut().is_some_and(|node| node.is_pending()) {
                    self.turn_over = true;
                    return false;
                }
                turn_end += TURN_BYTES;
            }
            let length = self.next_piece(peer, *offset, limit);
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
                let writer = &mut self.links[peer as usize].writer;
                let fill = |out: &mut [u8]| data.read_for_others(offset, out, writer);
                node.try_send_with(local, head.as_bytes(), length as usize, fill)
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

/// Whether rings with frames of at most so many bytes are large enough that both sides copy at once.
pub(super) fn is_wide(frame_max: u64) -> bool {
    frame_max >= PIPE_FRAME_MIN
}

fn data_into(data: &UserData, offset: u64, out: &mut [u8]) {
    if !out.is_empty() {
        data.read(offset, out);
    }
}
