//! Eager writes: messages of medium length that the sender's carrier writes without an invitation
//! (`weft_core::message`, `EagerWrite`).
//!
//! The frame that announces the message goes through the flow, so it is matched in order. The data goes by a
//! carrier that reaches memory of the peer. The receiver's carrier puts it into the receive's memory, or
//! keeps it until there is a receive. The sender keeps a copy of the data until the receiver has said that it
//! has the message (FIN): if the carrier fails, the receiver asks for the message anew.

use weft_core::long_path_choice::EAGER_WRITE_BYTES_MAX;
use weft_core::matching::Envelope;

use super::{Body, EventKind, Matched, Messages, Outgoing, PeerAccess, Unexpected};
use crate::group::PeerId;
use crate::memory::SharedBuffer;
use crate::regions::{Purpose, Region};
use crate::request::{ByCarrier, Fin, Send, State};

impl Messages {
    /// Takes in the announcement of an eager write.
    pub(super) fn handle_eager_write(
        &mut self,
        peer: PeerId,
        envelope: Envelope,
        request: u32,
        total: u64,
        peers: &mut impl PeerAccess,
    ) {
        // A peer that has been told of no carrier for remote writes has none to write with.
        if peers.peer(peer).placed_min == u64::MAX || total == 0 || total > EAGER_WRITE_BYTES_MAX {
            self.malformed_frames += 1;
            return;
        }
        self.completions.notify();
        self.count(peer, peers);
        // Each turn takes a receive out of the matcher, so this ends.
        loop {
            let Self { unexpected, malformed_frames, .. } = self;
            let found = self.matcher.arrive(envelope, || {
                let kept =
                    unexpected.insert(Unexpected { peer, total, is_lent: false, body: Body::EagerWrite { request } });
                *malformed_frames += u64::from(kept.is_none());
                kept
            });
            let Some(handle) = found else {
                return self.note_event(EventKind::Unexpected, peer, envelope, total);
            };
            if self.withdraw(peer, handle, peers) == Matched::Ours {
                return self.receive_write(handle, peer, envelope, request, total, peers);
            }
        }
    }

    /// Receives an eager write of `total` bytes, the sender's `request`, to the memory of the receive
    /// `handle`.
    pub(super) fn receive_write(
        &mut self,
        handle: usize,
        peer: PeerId,
        envelope: Envelope,
        request: u32,
        total: u64,
        peers: &mut impl PeerAccess,
    ) {
        // Where the message does not fit, its end is dropped as it comes.
        let Some((data, _)) = self.begin_receive(handle, envelope, total) else { return };
        let Some(key) = self.open_receive(handle, peer, request, &data, total, peers) else { return };
        if let Some(entry) = self.requests.get_mut(handle) {
            entry.state = State::Receiving {
                peer,
                data,
                total,
                received: 0,
                region: Some(key),
                pulled: None,
                written: Some(ByCarrier { request, is_unasked: true }),
            };
        }
        self.outbox.push((peer, Outgoing::Expect { request: handle, asked: request }));
    }

    /// Asks for an eager write as for an announced message: our carrier cannot put it into its place.
    #[cold]
    pub fn ask_for_eager_write(&mut self, handle: usize) {
        let state = self.requests.get_mut(handle).map(|entry| &mut entry.state);
        let Some(State::Receiving { written, .. }) = state else { return };
        let Some(ByCarrier { request, .. }) = written.take() else { return };
        self.asked_anew += 1;
        self.ask_in_pieces(handle, request);
    }

    /// Begins an eager write: the data of the request `handle` is about to be given to the carrier. Returns
    /// `false`, and leaves the message announced, if that cannot be.
    pub fn begin_eager_write(&mut self, handle: usize, peer: PeerId, send: Send) -> bool {
        let total = send.data.len();
        let opened = Region { peer, purpose: Purpose::Send, data: send.data.clone(), length: total, owner: handle };
        let region = self.regions.open(opened);
        let Some(entry) = self.requests.get_mut(handle) else { return false };
        let Some(key) = region else {
            entry.state = State::Announced(send);
            return false;
        };
        let (remote_key, region, granted, left) = (0, Some(key), total, total);
        entry.state = State::Sending { send, remote_key, region, total, granted, left, fin: Fin::Awaited };
        true
    }

    /// Notes that the carrier reads the data of the eager write `handle` no more. A copy takes its place
    /// until the FIN comes. Returns whether the program may have its memory back.
    pub fn end_eager_write(&mut self, handle: usize) -> bool {
        let state = self.requests.get_mut(handle).map(|entry| &mut entry.state);
        let Some(State::Sending { send, region: Some(key), left, fin, .. }) = state else { return false };
        match fin {
            Fin::Arrived => {
                *left = 0;
                self.complete(handle);
            }
            Fin::Awaited => {
                *left = 0;
                if cfg!(weft_mutant = "eager_write_not_copied") {
                    return true;
                }
                let copy = SharedBuffer::packed(&send.data);
                (send.data, send.blocking) = (copy.describe_all(), false);
                self.regions.replace(*key, copy.describe_all());
                self.keep_remnant(handle, copy);
                self.note_as_sent(handle);
            }
            // The receiver has asked for the message anew, and gets it as packets out of the program's
            // memory.
            Fin::NotNeeded => return false,
        }
        true
    }
}
