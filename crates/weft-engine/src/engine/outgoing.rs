//! The way out: from the program's operations to frames on the route to a peer, in order, as there is room.
//!
//! The queues of `outgoing/queues.rs` call it for each item that may leave. The table of `crate::protocols`
//! chooses the protocol of a message.

mod queues;

use weft_core::bytes;
use weft_core::matching::Envelope;
use weft_core::message::{HEAD_MAX, Head};

use super::network::Network;
use super::{FLOW_QUEUE_BYTES, PointToPoint};
use crate::carriers::{Remote, Submission, Way};
use crate::group::PeerId;
use crate::memory::UserData;
use crate::messages::{CREDIT_PER_MESSAGE, Outgoing};
use crate::peers::Route;
use crate::protocols::{
    self, BUSY_BYTES, Facts, PeerClass, Protocol, RING_PIECE_BYTES, Receiver, RouteClass, Situation, UNASKED_BYTES_MAX,
    is_wide,
};
use crate::request::{Fin, Mode, NO_COMMUNICATOR, Send, State};
use crate::transport::{Candidate, Frames, Platform};

/// The room in a packet above which the first piece of a message fills the packet up, in bytes: little more
/// than a head. A packet that is not full ends a train.
const FIRST_PIECE_MIN: u64 = 48;
/// The least and the most bytes of a piece of a message in a ring; the first piece has the least. Each piece
/// costs about as much as a copy of 4 KiB, so long messages have longer pieces (docs/design/node.md).
const NEXT_PIECE_BYTES: (u64, u64) = (16 << 10, 64 << 10);
/// The most bytes of a piece on a route other than a ring. No receiver waits for the end of a piece there,
/// so it is as long as a frame may well be.
const OTHER_PIECE_BYTES: u64 = 1 << 20;
/// The bytes of a message after which this process looks at what has arrived, so that a process that sends
/// and receives takes turns. It fills half of the largest ring first, or all of a smaller one: lines that
/// both sides write and read at the same time come late.
const TURN_BYTES: u64 = 1 << 20;

/// The bytes of each frame of a message of `total` bytes, if frames have `head` bytes in front of their
/// data and `frame_max` bytes at most: the fewest frames, as long as each other. A short frame behind a
/// long one would cost as much as another long one, and the receiver copies the first frame while the next
/// one leaves.
fn even_frame(total: u64, head: u64, frame_max: u64) -> u64 {
    let frames = total.div_ceil(frame_max - head).max(1);
    total.div_ceil(frames) + head
}

impl<P: Platform> PointToPoint<P> {
    /// Sends a standard message that fits a packet to another node at once, without a request of its own;
    /// `false` leaves everything as it was.
    #[inline]
    pub(super) fn send_small(&mut self, peer: PeerId, envelope: Envelope, data: &UserData) -> bool {
        let bytes = data.len();
        let cost = bytes + CREDIT_PER_MESSAGE;
        let state = &mut self.peers[peer];
        let Some(remote) = self.network.remotes.get_mut(peer) else { return false };
        if bytes > self.eager_limit || state.matching.credit < cost || !state.pending.is_empty() {
            return false;
        }
        let to = remote.submission(&self.network.jobs);
        if bytes as usize + HEAD_MAX > to.frame_max() || to.queued_bytes() > FLOW_QUEUE_BYTES {
            return false;
        }
        let head = Head::eager(envelope, None);
        submit_to(to, &head, data, 0, bytes, &mut self.scratch);
        if !std::mem::replace(&mut remote.active, true) {
            self.network.active.push(peer);
        }
        state.matching.credit -= cost;
        state.put(bytes);
        self.flush_or_coalesce(peer, head.as_bytes().len() + bytes as usize);
        true
    }

    /// Hands `outgoing` to the route to `peer`; returns `false` when the route is full and it (or its rest)
    /// must wait.
    pub(super) fn push(&mut self, peer: PeerId, outgoing: &mut Outgoing) -> bool {
        match outgoing {
            Outgoing::Control(head) => self.carry(peer, head, &UserData::empty(), 0, 0),
            Outgoing::Fin { request } => {
                if let Some(remote) = self.network.remotes.get_mut(peer) {
                    remote.owe_fin(*request);
                    if !std::mem::replace(&mut remote.active, true) {
                        self.network.active.push(peer);
                    }
                }
                true
            }
            Outgoing::Room => true,
            Outgoing::Send { request } => self.push_send(peer, *request),
            Outgoing::Remainder { request, offset } => self.push_remainder(peer, *request, offset),
            Outgoing::Invite { request, asked } => self.push_invitation(peer, *request, *asked),
            Outgoing::Expect { request, asked } => {
                self.push_expectation(peer, *request, *asked);
                true
            }
            Outgoing::Place { request, remote_key, total, target } => {
                self.push_placement(peer, *request, *remote_key, *total, *target);
                true
            }
            Outgoing::Stream { request, remote_key, offset, limit } => {
                self.push_stream(peer, *request, *remote_key, offset, *limit)
            }
        }
    }

    /// The largest message that is sent eagerly to `peer`, in bytes.
    pub(super) fn eager_limit(&self, peer: PeerId, data: &UserData) -> u64 {
        match self.network.remotes.get(peer) {
            // Carriers write from one run of memory only.
            Some(remote) if data.address().is_some() => {
                let (costs, bytes) = (self.choices.costs(), data.len());
                let mut placed_above = remote.placed_above();
                if bytes > placed_above && bytes <= self.eager_limit {
                    let schemes = self.peers[peer].matching.schemes.as_ref();
                    let spared = schemes.and_then(|schemes| schemes.spared_by_writes(bytes));
                    if spared.is_some_and(|spared| spared < costs.announcement_ps + costs.answer_ps) {
                        placed_above = u64::MAX;
                    }
                }
                protocols::eager_limit(self.said_eager_limit, costs, placed_above)
            }
            _ => self.eager_limit,
        }
    }

    /// The facts of a send: its size, its route and its receiver.
    fn facts(&mut self, peer: PeerId, send: &Send) -> Facts {
        let bytes = send.data.len();
        if bytes > UNASKED_BYTES_MAX {
            self.follow_costs();
        }
        let is_large = self.is_large(bytes);
        let state = &self.peers[peer];
        let has_credit = bytes + CREDIT_PER_MESSAGE <= state.matching.credit;
        let is_nonblocking_on_node = !send.blocking && matches!(state.route, Route::Shared(_));
        // The engine counts large messages only. Short ones that have used up the credit are a window, too.
        let is_in_window = is_nonblocking_on_node && if is_large { self.sends_window(peer) } else { !has_credit };
        let is_exchanged = is_in_window && self.exchanges_windows(peer);
        let has_credit = has_credit && (!is_in_window || bytes <= self.eager_limit || self.is_taken_whole(peer, bytes));
        // Such a message goes eagerly, whether its receive is posted or not.
        let is_eager = is_in_window
            && is_wide(self.frame_max)
            && send.data.address().is_some()
            && bytes <= self.window_eager_max(is_exchanged)
            && !self.is_kernel_trial(peer, bytes);
        let posted = if is_large && !is_eager { self.candidate(peer, &send.envelope) } else { Candidate::None };
        let receiver = match posted {
            // Without a known receive the rest does not count. The receiver writes with every message
            // whether it waits, so each look fetches a line from the other processor.
            Candidate::None => Receiver::UNKNOWN,
            posted => Receiver { posted, is_inside: self.is_inside_mpi(peer), has_announced: self.has_offer(peer) },
        };
        let state = &self.peers[peer];
        let (route, is_path_busy) = match &state.route {
            Route::Shared(_) => {
                let (is_near, is_copied) = (state.writer.is_plain(), state.process != 0);
                (RouteClass::Ring { frame_max: self.frame_max, is_near, is_copied }, is_in_window)
            }
            Route::Remote(()) => (RouteClass::Network, self.queued_bytes(peer) > BUSY_BYTES),
            Route::Myself | Route::None(_) => (RouteClass::Myself, false),
        };
        Facts {
            bytes,
            class: PeerClass { route, eager_limit: self.eager_limit(peer, &send.data) },
            situation: Situation {
                is_synchronous: send.mode == Mode::Synchronous,
                is_blocking: send.blocking,
                is_contiguous: send.data.address().is_some(),
                has_credit,
                is_path_busy,
                is_exchanged,
                receiver,
                write_failed: false,
            },
        }
    }

    /// Returns whether the ring of `peer` takes a message of so many bytes whole at present.
    fn is_taken_whole(&mut self, peer: PeerId, bytes: u64) -> bool {
        match (&self.peers[peer].route, &mut self.node) {
            (Route::Shared(local), Some(node)) => node.has_room(*local, bytes, NEXT_PIECE_BYTES.1),
            _ => false,
        }
    }

    /// Sends the message of the request `handle` by the protocol that is chosen for it; returns `false` when
    /// its route is full.
    fn push_send(&mut self, peer: PeerId, handle: usize) -> bool {
        let Some(State::Queued(send)) = self.messages.requests.get(handle).map(|entry| &entry.state) else {
            return true;
        };
        let send = send.clone();
        let mut facts = self.facts(peer, &send);
        // The second choice differs from the first: `write_failed` is among the facts.
        loop {
            match self.choices.choose(&facts).0 {
                Protocol::WriteToPosted if self.write(peer, handle, &send, None) => {
                    self.peers[peer].note(facts.bytes);
                    return true;
                }
                Protocol::WriteToPosted => facts.situation.write_failed = true,
                Protocol::Eager | Protocol::Pipeline
                    if facts.situation.may_be_tried() && self.is_kernel_trial(peer, facts.bytes) =>
                {
                    if self.lacks_room(peer, facts.bytes) {
                        return false;
                    }
                    self.single_copy.trials.make();
                    return self.announce(peer, handle, send, Protocol::Fetch, facts.situation.is_path_busy);
                }
                Protocol::Eager if let Some(early) = self.announces_early(peer, &facts, &send) => {
                    return self.announce_early(peer, handle, send, early, facts.situation.is_path_busy);
                }
                Protocol::Eager | Protocol::Pipeline => return self.send_eagerly(peer, handle, send),
                Protocol::ClearToSend
                    if facts.situation.has_credit
                        && self.is_written_in_place_of_announcement(peer, &send)
                        && let Ok(announced) = self.messages.add(State::Queued(send.clone()), NO_COMMUNICATOR) =>
                {
                    return self.write_eagerly(peer, handle, send, announced);
                }
                Protocol::Fetch | Protocol::Cooperate | Protocol::ClearToSend if self.lacks_room(peer, facts.bytes) => {
                    return false;
                }
                how @ (Protocol::Fetch | Protocol::Cooperate | Protocol::ClearToSend) => {
                    return self.announce(peer, handle, send, how, facts.situation.is_path_busy);
                }
            }
        }
    }

    /// Sends a message eagerly, or its first piece; returns `false` when its route is full.
    pub(super) fn send_eagerly(&mut self, peer: PeerId, handle: usize, send: Send) -> bool {
        let bytes = send.data.len();
        let is_synchronous = send.mode == Mode::Synchronous;
        let acknowledge = is_synchronous.then(|| self.messages.requests.wire(handle));
        let context = send.envelope.context;
        let way = self.way(peer, &send);
        if way == Way::EagerWrite
            && let Ok(announced) = self.messages.add(State::Queued(send.clone()), NO_COMMUNICATOR)
        {
            return self.write_eagerly(peer, handle, send, announced);
        }
        let Some(sent) = self.push_eager(peer, &send, acknowledge, way) else { return false };
        let state = &mut self.peers[peer];
        state.matching.credit -= bytes + CREDIT_PER_MESSAGE;
        state.put(bytes);
        let left = bytes - sent;
        if left > 0 {
            state.pending.push_front(Outgoing::Remainder { request: handle, offset: sent });
            if let Some(entry) = self.messages.requests.get_mut(handle) {
                // All of it may leave: there is no region for which anything could be granted.
                entry.state = State::Sending {
                    send,
                    remote_key: 0,
                    region: None,
                    total: bytes,
                    granted: bytes,
                    left,
                    fin: Fin::NotNeeded,
                };
            }
        } else if !is_synchronous {
            self.messages.complete(handle);
        } else if let Some(entry) = self.messages.requests.get_mut(handle) {
            entry.state = State::AwaitingMatch { peer, context };
            if matches!(self.peers[peer].route, Route::Shared(_)) {
                self.synchronous.push(handle);
                self.single_copy.may_stand_still = true;
            }
        }
        true
    }

    /// Announces a message, whose data stays here; returns `false` when its route is full.
    pub(super) fn announce(&mut self, peer: PeerId, handle: usize, send: Send, how: Protocol, in_window: bool) -> bool {
        let bytes = send.data.len();
        let address = send.data.address().filter(|_| how != Protocol::ClearToSend);
        if how == Protocol::Cooperate {
            self.peers[peer].writer.pass_by(bytes);
        }
        let head = Head::rendezvous(send.envelope, self.messages.requests.wire(handle), bytes, address);
        if !self.carry(peer, &head, &UserData::empty(), 0, 0) {
            return false;
        }
        let number = self.peers[peer].put(bytes);
        let Some(entry) = self.messages.requests.get_mut(handle) else { return true };
        entry.state = State::Announced(send.clone());
        // The receive may have been posted after the look above and before the receiver could see this. A
        // receiver that waits inside MPI fetches the message.
        let may_write =
            bytes >= self.choices.costs().single_copy_bytes_min() && !self.is_inside_mpi(peer) && !in_window;
        if !may_write || !self.write(peer, handle, &send, Some(number)) {
            self.offer(peer, handle, number, in_window);
        }
        true
    }

    /// Puts a message, or its first piece, on the route to `peer`; returns how many bytes. `None` when the
    /// route is full.
    fn push_eager(&mut self, peer: PeerId, send: &Send, acknowledge: Option<u32>, way: Way) -> Option<u64> {
        let total = send.data.len();
        let (whole, first) =
            (Head::eager(send.envelope, acknowledge), Head::eager_first(send.envelope, acknowledge, total));
        let more = Head::eager_more();
        let frame_max = match &self.peers[peer].route {
            Route::Remote(()) => match way {
                Way::LongPackets(frame_max) => frame_max as u64,
                Way::Packets | Way::EagerWrite => self.submission(peer).frame_max() as u64,
            },
            Route::Shared(_) => {
                let piece_max = self.piece_max(peer);
                if total <= piece_max {
                    return self.carry(peer, &whole, &send.data, 0, total).then_some(total);
                }
                let piece = piece_max.min(NEXT_PIECE_BYTES.0);
                return self.carry(peer, &first, &send.data, 0, piece).then_some(piece);
            }
            _ => u64::MAX,
        };
        if total <= frame_max - whole.as_bytes().len() as u64 {
            return self.carry(peer, &whole, &send.data, 0, total).then_some(total);
        }
        // The queue of a flow takes all pieces once it takes the first. The first piece fills up the rest of
        // the last packet of earlier messages. All others but the last fill a packet each. Pieces for the
        // long path share no packet, and are as long as each other.
        let is_long = matches!(way, Way::LongPackets(_));
        let frame_max = if is_long { even_frame(total, first.as_bytes().len() as u64, frame_max) } else { frame_max };
        let room = if is_long { 0 } else { self.submission(peer).frame_room() as u64 };
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

    /// The way of an eager message, if it goes to another host and the flow takes a message at present.
    fn way(&mut self, peer: PeerId, send: &Send) -> Way {
        if !matches!(self.peers[peer].route, Route::Remote(())) {
            return Way::Packets;
        }
        let may_write = self.may_write_eagerly(peer, send).then_some(self.network.attendance);
        let bytes = send.data.len();
        let length = Head::eager(send.envelope, None).as_bytes().len() + bytes as usize;
        let Self { network, platform, .. } = self;
        let Network { remotes, carriers, long_path_choice, .. } = network;
        match remotes.get_mut(peer).filter(|remote| remote.queued_bytes() <= FLOW_QUEUE_BYTES) {
            Some(remote) => remote.way((bytes, length), may_write, carriers, long_path_choice, || platform.now()),
            None => Way::Packets,
        }
    }

    /// Returns whether a message that is longer than the eager limit is an eager write nevertheless, which
    /// spares the wait for the invitation. The program waits for its departure, and for nothing else: in an
    /// exchange both ends would make their copies before they receive. (96 KiB, half a round trip: 28 µs
    /// instead of 31; an exchange: 49 instead of 39. Xeon of the Granite Rapids kind, two virtual hosts.)
    fn is_written_in_place_of_announcement(&mut self, peer: PeerId, send: &Send) -> bool {
        let is_alone = send.blocking && !self.messages.are_several_under_way();
        if self.said_eager_limit.is_some()
            || !is_alone
            || !matches!(self.peers[peer].route, Route::Remote(()))
            || !self.may_write_eagerly(peer, send)
        {
            return false;
        }
        let Self { network, platform, .. } = self;
        let Network { remotes, carriers, attendance, .. } = network;
        remotes
            .get_mut(peer)
            .filter(|remote| remote.queued_bytes() <= FLOW_QUEUE_BYTES)
            .is_some_and(|remote| remote.begins_eager_write(send.data.len(), *attendance, carriers, platform.now()))
    }

    /// Puts the pieces of a message from `offset` on into the ring of `peer`, as long as there is room.
    fn push_remainder(&mut self, peer: PeerId, handle: usize, offset: &mut u64) -> bool {
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

    pub(super) fn piece_max(&mut self, peer: PeerId) -> u64 {
        match &self.peers[peer].route {
            Route::Myself => u64::MAX,
            Route::Shared(_) => self.frame_max.min(RING_PIECE_BYTES),
            Route::Remote(()) => (self.submission(peer).frame_max() - HEAD_MAX) as u64,
            Route::None(_) => 0,
        }
    }

    /// The length in bytes of the piece from `offset` on of a message that goes to `peer` up to `end`.
    ///
    /// The first pieces in a ring are short, so that the receiver begins soon. The last ones are short, so
    /// that it ends soon after the sender. With other operations under way, such as the receive of
    /// MPI_Sendrecv, that does not count: the receiver has other work as well.
    fn next_piece(&self, peer: PeerId, offset: u64, end: u64) -> u64 {
        let left = end - offset;
        if !matches!(self.peers[peer].route, Route::Shared(_)) {
            return left.min(OTHER_PIECE_BYTES);
        }
        let (least, most) = NEXT_PIECE_BYTES;
        if self.messages.are_several_under_way() {
            return left.min(most).min(self.frame_max);
        }
        let long = (offset / 2).min(left / 4).min(most) / least * least;
        left.min(long.max(least)).min(self.frame_max)
    }

    pub(super) fn push_stream(
        &mut self,
        peer: PeerId,
        handle: usize,
        remote_key: u32,
        offset: &mut u64,
        limit: u64,
    ) -> bool {
        let Some(State::Sending { send, region: Some(key), .. }) =
            self.messages.requests.get(handle).map(|entry| &entry.state)
        else {
            return true;
        };
        let key = *key;
        if let Route::Remote(()) = self.peers[peer].route {
            self.submission(peer).submit_data(remote_key, key.wire(), *offset..limit);
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
            if !self.carry(peer, &Head::data(remote_key, *offset), &data, *offset, length) {
                return false;
            }
            *offset += length;
            // A ring holds a copy: the program's buffer is free again.
            self.messages.handle_acknowledged(key, length);
        }
        true
    }

    /// Puts one frame on the route to `peer`; returns `false` when the route is full.
    pub(super) fn carry(&mut self, peer: PeerId, head: &Head, data: &UserData, offset: u64, length: u64) -> bool {
        match &self.peers[peer].route {
            Route::Myself => {
                let mut frame = head.as_bytes().to_vec();
                bytes::resize(&mut frame, head.as_bytes().len() + length as usize);
                data_into(data, offset, &mut frame[head.as_bytes().len()..]);
                self.myself.push_back(frame);
                true
            }
            Route::Shared(local) => {
                let local = *local;
                let Some(node) = &mut self.node else { return false };
                let writer = &mut self.peers[peer].writer;
                let fill = |out: &mut [u8]| data.read_for_others(offset, out, writer);
                let is_sent = node.try_send_with(local, head.as_bytes(), length as usize, fill);
                if is_sent {
                    self.peers.near.note_frame(length as usize);
                }
                is_sent
            }
            Route::Remote(()) => {
                if self.queued_bytes(peer) > FLOW_QUEUE_BYTES {
                    return false;
                }
                self.submit(peer, head, data, offset, length);
                true
            }
            // Nothing can be on its way to a peer that was never reached.
            Route::None(_) => true,
        }
    }

    /// Bytes of messages to a peer of another node that are queued or not acknowledged.
    fn queued_bytes(&self, peer: PeerId) -> usize {
        self.network.remotes.get(peer).map_or(0, Remote::queued_bytes)
    }

    pub(super) fn submit(&mut self, peer: PeerId, head: &Head, data: &UserData, offset: u64, length: u64) {
        let mut scratch = std::mem::take(&mut self.scratch);
        submit_to(self.submission(peer), head, data, offset, length, &mut scratch);
        self.scratch = scratch;
    }
}

/// Submits a frame with `length` bytes of `data` from `offset` on, through `scratch` if the data is several
/// runs of memory.
#[inline(always)]
fn submit_to(mut to: Submission<'_>, head: &Head, data: &UserData, offset: u64, length: u64, scratch: &mut Vec<u8>) {
    match data.run(offset, length) {
        Some(run) => to.submit_message(head.as_bytes(), run),
        None => {
            bytes::resize(scratch, length as usize);
            data_into(data, offset, scratch);
            to.submit_message(head.as_bytes(), scratch);
        }
    }
}

fn data_into(data: &UserData, offset: u64, out: &mut [u8]) {
    if !out.is_empty() {
        data.read(offset, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_message_are_few_and_even() {
        for (total, expected, what) in [
            (65_000, 65_030, "one frame"),
            (65_470, 65_500, "one full frame"),
            (65_471, 32_766, "two halves"),
            (65_536, 32_798, "two halves"),
            (200_000, 50_030, "four quarters"),
            (1, 31, "one byte"),
            (0, 30, "nothing"),
        ] {
            assert_eq!(even_frame(total, 30, 65_500), expected, "{total} bytes: {what}");
        }
    }
}
