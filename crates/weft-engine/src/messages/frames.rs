//! Frames that arrive: each is counted, and goes to the function for its kind.
//!
//! The engine hands frames over from the rings, from the flows and from multicast streams.

use weft_core::matching::Envelope;
use weft_core::message::Frame;

use super::{CREDIT_BYTES, Messages, OWN_STREAM, Outgoing, PeerAccess, Stream, Withdrawal, Written};
use crate::error::{Cause, ErrorClass};
use crate::group::PeerId;
use crate::request::{Receive, State};
use crate::transport::{Remainder, number_near};

/// The state of the receive that a message matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matched {
    /// The receive is for the message.
    Ours,
    /// The sender is writing that very message to the receive.
    Written,
    /// Another message has taken the receive.
    Taken,
}

impl Messages {
    /// Takes in a frame from `peer` on a multicast stream: a message, or a piece of one.
    pub fn handle_frame_on(&mut self, peer: PeerId, stream: Stream, bytes: &[u8], peers: &mut impl PeerAccess) {
        match Frame::parse(bytes) {
            Ok(Frame::Eager { envelope, acknowledge: None, payload }) => {
                self.handle_eager(peer, envelope, None, payload, peers);
            }
            Ok(Frame::EagerFirst { envelope, acknowledge: None, total, payload }) => {
                self.handle_first(peer, stream, envelope, None, total, payload, peers);
            }
            Ok(Frame::EagerMore { payload }) => self.handle_more(peer, stream, payload, peers),
            _ => self.malformed_frames += 1,
        }
        peers.matched(peer);
    }

    /// Takes in a frame from `peer`.
    #[inline]
    pub fn handle_frame(&mut self, peer: PeerId, bytes: &[u8], peers: &mut impl PeerAccess) {
        match Frame::whole(bytes) {
            Some((envelope, payload)) => self.handle_eager(peer, envelope, None, payload, peers),
            None => self.handle_other_frame(peer, bytes, peers),
        }
        peers.matched(peer);
    }

    #[inline(never)]
    fn handle_other_frame(&mut self, peer: PeerId, bytes: &[u8], peers: &mut impl PeerAccess) {
        let Ok(frame) = Frame::parse(bytes) else {
            self.malformed_frames += 1;
            return;
        };
        match frame {
            Frame::Eager { envelope, acknowledge, payload } => {
                self.handle_eager(peer, envelope, acknowledge, payload, peers);
            }
            Frame::EagerFirst { envelope, acknowledge, total, payload } => {
                self.handle_first(peer, OWN_STREAM, envelope, acknowledge, total, payload, peers);
            }
            Frame::EagerMore { payload } => self.handle_more(peer, OWN_STREAM, payload, peers),
            Frame::Rendezvous { envelope, request, total, address } => {
                self.handle_rendezvous(peer, envelope, request, total, address, peers);
            }
            Frame::EagerWrite { envelope, request, total } => {
                self.handle_eager_write(peer, envelope, request, total, peers);
            }
            Frame::ClearToSend { request, remote_key, limit, total } => {
                self.handle_clear_to_send(peer, request, remote_key, limit, total, peers)
            }
            Frame::ClearToPlace(invitation) => self.handle_clear_to_place(peer, invitation, peers),
            Frame::Placed { remote_key, offset, length } => self.handle_placed(peer, remote_key, offset, length, peers),
            Frame::Data { remote_key, offset, payload } => self.handle_data(peer, remote_key, offset, payload, peers),
            Frame::Fin { request } => self.handle_fin(peer, request),
            Frame::Credit { bytes } => {
                let state = peers.peer_mut(peer);
                state.credit = state.credit.saturating_add(bytes).min(CREDIT_BYTES);
                // No bytes are news as well: there is no more room.
                state.is_full = bytes == 0;
                self.completions.notify();
                self.outbox.push((peer, Outgoing::Room));
            }
            Frame::Revoked { context } => self.handle_revoked(context),
            Frame::Retract { context, request } => self.handle_retract(peer, context, request, peers),
            Frame::Retracted { request, forgotten } => self.handle_retracted(peer, request, forgotten),
            Frame::GivenUp { context, tag, class, finalized } => {
                self.handle_given_up(
                    peer,
                    context,
                    tag,
                    Cause { class: ErrorClass::from_wire(class).unwrap_or(ErrorClass::Other), finalized },
                );
            }
        }
    }

    /// Counts a message that has arrived; returns `false` when its sender has written it to its receive
    /// meanwhile.
    #[inline]
    pub(super) fn count(&mut self, peer: PeerId, peers: &mut impl PeerAccess) -> bool {
        let state = peers.peer_mut(peer);
        let handled = state.handled.wrapping_add(1);
        state.handled = handled;
        let was_written = state.written.is_some();
        state.written.take_if(|written| *written == handled);
        peers.counted(peer, handled);
        !was_written
    }

    /// Finds out which message has the receive `handle`, which the last counted message matches.
    #[inline(never)]
    pub(super) fn withdraw(&mut self, peer: PeerId, handle: usize, peers: &mut impl PeerAccess) -> Matched {
        let Some(request) = self.requests.get_mut(handle) else { return Matched::Ours };
        let Some(ticket) = request.ticket else { return Matched::Ours };
        match peers.withdraw(peer, ticket) {
            Withdrawal::Ours => {
                request.ticket = None;
                Matched::Ours
            }
            Withdrawal::Taken(None) => Matched::Taken,
            Withdrawal::Taken(Some((writer, low))) => {
                let number = number_near(low, peers.peer(writer).handled);
                if writer == peer && number == peers.peer(peer).handled {
                    return Matched::Written;
                }
                // The receive has left the matcher, so the announcement would find another receive.
                note_written(writer, number, peers);
                Matched::Taken
            }
        }
    }

    /// Takes in a message that `peer` has written to the receive `handle`.
    pub fn handle_written(&mut self, peer: PeerId, handle: usize, written: Written, peers: &mut impl PeerAccess) {
        let Written { source: from, tag, total, number, rest } = written;
        if let Some(number) = number {
            note_written(peer, number, peers);
        }
        let Some(request) = self.requests.get_mut(handle) else { return };
        request.ticket = None;
        let State::Posted(Receive { context: Some(context), source, .. }) = request.state else { return };
        self.matcher.cancel(context, |posted| *posted == handle);
        let begun = self.begin_receive(handle, Envelope { context, source: source.unwrap_or(from), tag }, total);
        match (begun, rest) {
            (Some((data, fits)), Some(Remainder { bytes, request })) if bytes <= fits => {
                if let Some(entry) = self.requests.get_mut(handle) {
                    entry.state = State::receiving(peer, data, bytes);
                }
                self.ask(handle, peer, request, bytes, peers);
            }
            _ => self.complete(handle),
        }
    }
}

/// Notes that `peer` has written its message `number` to a receive; the announcement may be still to come.
/// The peer has written all messages up to this one that have not been handled (`Offered::written`).
fn note_written(peer: PeerId, number: u32, peers: &mut impl PeerAccess) {
    let state = peers.peer_mut(peer);
    if number.wrapping_sub(state.handled) as i32 > 0 {
        let is_last = state.written.is_none_or(|last| number.wrapping_sub(last) as i32 > 0);
        state.written = if is_last { Some(number) } else { state.written };
    }
}
