//! Messages that are announced although they could be sent eagerly, and what happens if their receives do not
//! come in time.
//!
//! An eager send completes without its receiver, and programs rely on that. So the sender of such an
//! announcement does not wait long. It copies the data to memory of its own, says so on the receiver's table
//! ([`PostedTable::note_relocated`]), and then the program's send is complete. The receiver fetches from the
//! address of the announcement, and then asks the table whether the data was still there: if not, it fetches
//! again from the new address. The table changes only if a message is relocated, so the question costs the
//! receiver no line that has changed owner.
//!
//! Two requests stand for such a message. The announcement has one of its own, whose name the receiver knows;
//! it lives until the receiver has the data. The program's request is complete when the announcement's is, or
//! when the message has been relocated.

use crate::engine::PointToPoint;
use crate::group::PeerId;
use crate::memory::SharedBuffer;
use crate::protocols::{Facts, Protocol};
use crate::request::{Hold, Mode, NO_COMMUNICATOR, Send, State};
use crate::transport::{Cooperation, Platform, PostedTable, RELOCATED_MAX};

/// The most bytes of all messages that are announced early or relocated.
const BYTES_MAX: u64 = 4 << 20;
/// The further looks for a message whose receiver is fetching messages of this process.
const LOOKS_WHILE_FETCHING: u64 = 400;

/// A message that has been announced early.
pub(super) struct Early {
    peer: PeerId,
    /// The program's request; `None` once it is complete, since the message has been relocated.
    sent: Option<usize>,
    /// The announcement's request.
    announced: usize,
    /// The place of the message on the receiver's table, if it is relocated.
    place: usize,
    bytes: u64,
    /// The looks that are left before the message is relocated.
    looks: u64,
    is_extended: bool,
}

impl<P: Platform> PointToPoint<P> {
    /// Returns the place and the looks of a message that is to be announced, although it could be sent
    /// eagerly; the first in the queue of `peer`.
    pub(in crate::engine) fn announces_early(
        &mut self,
        peer: PeerId,
        facts: &Facts,
        send: &Send,
    ) -> Option<(usize, u64)> {
        if self.said_eager_limit.is_some() || send.mode != Mode::Standard || !self.is_large(facts.bytes) {
            return None;
        }
        // A process of another job may fetch a message after this job has ended.
        if !self.peers[peer].is_of_own_job() {
            return None;
        }
        let looks = self.choices.looks_before_relocation(facts)?;
        let early = &self.single_copy.early;
        let place = (0..RELOCATED_MAX).find(|place| early.iter().all(|one| (one.peer, one.place) != (peer, *place)))?;
        let bytes: u64 = early.iter().map(|one| one.bytes).sum();
        let has_room = bytes + facts.bytes <= BYTES_MAX;
        let is_possible = has_room && self.posted_table_of(peer).is_some();
        (is_possible && self.peers[peer].early_announcements.take()).then_some((place, looks))
    }

    /// Announces the message of the request `handle`; returns `false` when its route is full.
    pub(in crate::engine) fn announce_early(
        &mut self,
        peer: PeerId,
        handle: usize,
        send: Send,
        (place, looks): (usize, u64),
        in_window: bool,
    ) -> bool {
        let (bytes, context) = (send.data.len(), send.envelope.context);
        let Ok(announced) = self.messages.add(State::Queued(send.clone()), NO_COMMUNICATOR) else {
            return self.send_eagerly(peer, handle, send);
        };
        if let Some(request) = self.messages.requests.get_mut(announced) {
            request.hold = Hold::Freed;
        }
        if self.has_network() {
            self.messages.note_on_node(announced);
        }
        if !self.announce(peer, announced, send, Protocol::Fetch, in_window) {
            // Nobody has heard of it. The request disappears.
            self.messages.complete(announced);
            return false;
        }
        if let Some(request) = self.messages.requests.get_mut(handle) {
            request.state = State::AwaitingMatch { peer, context };
        }
        let early = Early { peer, sent: Some(handle), announced, place, bytes, looks, is_extended: false };
        self.single_copy.early.push(early);
        true
    }

    /// Completes messages that were announced early and have been fetched, and relocates those for which the
    /// time is up.
    pub(super) fn look_after_early(&mut self) {
        let mut all = std::mem::take(&mut self.single_copy.early);
        all.retain_mut(|early| {
            let is_there = self.messages.requests.get(early.announced).is_some();
            match early.sent {
                None if is_there => return true,
                None => {
                    if let Some(posted_table) = self.posted_table_of(early.peer) {
                        posted_table.note_relocated(early.place, None);
                    }
                    return false;
                }
                Some(_) if is_there => {}
                Some(sent) => {
                    self.peers[early.peer].early_announcements.note_fetched();
                    self.messages.complete(sent);
                    return false;
                }
            }
            early.looks = early.looks.saturating_sub(1);
            if early.looks == 0 {
                self.try_to_relocate(early);
            }
            true
        });
        self.single_copy.early = all;
    }

    /// Relocates a message, unless its receiver has begun to take it.
    fn try_to_relocate(&mut self, early: &mut Early) {
        let Some(State::Announced(send)) = self.messages.requests.get(early.announced).map(|entry| &entry.state) else {
            // The receiver has asked for the message, which leaves as there is room.
            return;
        };
        let (send, wire) = (send.clone(), self.messages.requests.wire(early.announced));
        let Some(posted_table) = self.posted_table_of(early.peer) else { return };
        let copy = posted_table.cooperative_copy();
        if copy.open_name() == Some(wire) || copy.moving_name() == Some(wire) {
            return;
        }
        if posted_table.is_receiver_fetching() && !std::mem::replace(&mut early.is_extended, true) {
            early.looks = LOOKS_WHILE_FETCHING;
            return;
        }
        let buffer = SharedBuffer::packed(&send.data);
        let data = buffer.describe_all();
        let Some(address) = data.address() else { return };
        if let Some(posted_table) = self.posted_table_of(early.peer) {
            posted_table.note_relocated(early.place, Some((wire, address)));
        }
        self.single_copy.offers.remove(early.announced);
        self.messages.keep_remnant(early.announced, buffer);
        if let Some(request) = self.messages.requests.get_mut(early.announced) {
            request.state = State::Announced(Send { data, blocking: false, ..send });
        }
        self.peers[early.peer].early_announcements.note_relocated();
        self.messages.relocated += 1;
        if let Some(sent) = early.sent.take() {
            self.messages.complete(sent);
        }
    }

    /// Returns whether a message that was announced early has not been relocated yet.
    #[inline]
    pub(in crate::engine) fn looks_after_early(&self) -> bool {
        self.single_copy.early.iter().any(|early| early.sent.is_some())
    }

    /// Returns whether this process still keeps the data of sends that the program takes for complete. A
    /// receiver may have to fetch such a message, or has not said that it has arrived.
    pub fn keeps_messages(&self) -> bool {
        !self.single_copy.early.is_empty() || self.keeps_eager_writes()
    }

    /// Forgets the announcement of a message whose request `handle` is abandoned.
    pub(in crate::engine) fn abandon_early(&mut self, handle: usize) {
        let Some(at) = self.single_copy.early.iter().position(|early| early.sent == Some(handle)) else { return };
        let early = self.single_copy.early.swap_remove(at);
        self.messages.abandon(early.announced, &self.peers);
    }
}
