//! Messages that need no request: small sends to the node that leave at once, and blocking receives whose
//! message arrives at once and goes from the ring to the program's memory.
//!
//! Calls of `weft-mpi` try these functions first. So do the schedules of collectives and the batches of
//! windows.

use weft_core::matching::Envelope;
use weft_core::message::{Frame, Head};

use super::{NETWORK_EVERY, NODE_CHECK_EVERY, PointToPoint};
use crate::error::Error;
use crate::group::PeerId;
use crate::memory::UserData;
use crate::messages::{CREDIT_PER_MESSAGE, Messages};
use crate::peers::{Peers, Route};
use crate::protocols::{RING_PIECE_BYTES, UNASKED_BYTES_MAX};
use crate::request::{Mode, Receive, Send, Status};
use crate::transport::{Candidate, Frames, Platform};

/// The outcome of a receive without a request.
pub struct Received {
    /// The status of the receive.
    pub status: Status,
    /// The error of the receive, if it has failed.
    pub error: Option<Error>,
}

/// The outcome of one look at the rings.
enum Look {
    Nothing,
    /// A frame that is not for this receive, or that takes more than a copy.
    Other,
    Message(Received),
}

impl<P: Platform> PointToPoint<P> {
    /// Completes `send` at once, if that needs no request; `false` leaves everything as it was.
    #[inline]
    pub fn submit_now(&mut self, send: &Send) -> bool {
        match (send.mode, send.peer) {
            (Mode::Standard, Some(peer)) => self.send_now(peer, send.envelope, &send.data),
            (Mode::Standard, None) => true,
            _ => false,
        }
    }

    /// Sends a small standard message at once, if nothing stands in the way; `false` leaves everything as it
    /// was.
    #[inline]
    pub fn send_now(&mut self, peer: PeerId, envelope: Envelope, data: &UserData) -> bool {
        if data.len() > UNASKED_BYTES_MAX && self.has_choice(peer, &envelope, data.len()) {
            return false;
        }
        let Some(state) = self.peers.get_mut(peer) else { return false };
        let local = match &state.route {
            Route::Shared(local) => *local,
            Route::Remote(()) => return self.send_small(peer, envelope, data),
            _ => return false,
        };
        let bytes = data.len();
        let cost = bytes + CREDIT_PER_MESSAGE;
        if bytes > self.immediate_max || state.matching.credit < cost || !state.pending.is_empty() {
            return false;
        }
        let Some(node) = &mut self.node else { return false };
        let head = Head::eager(envelope, None);
        let writer = &mut state.writer;
        if !node.try_send_with(local, head.as_bytes(), bytes as usize, |out| data.read_for_others(0, out, writer)) {
            return false;
        }
        state.matching.credit -= cost;
        state.put(bytes);
        true
    }

    /// Returns whether another protocol may be better for this message than to send it at once: its receive
    /// is posted where this sender sees it, or would be, if the receiver waits.
    #[inline(never)]
    fn has_choice(&mut self, peer: PeerId, envelope: &Envelope, bytes: u64) -> bool {
        self.is_large(bytes)
            && self.peers.get(peer).is_some()
            && (bytes > self.awaited_eager_max() || self.candidate(peer, envelope) != Candidate::None)
    }

    /// Returns whether looking at the rings of the node alone leaves nothing behind that this process could
    /// move on.
    #[inline]
    fn has_only_rings(&self) -> bool {
        self.backlog.is_empty()
            && self.messages.outbox.is_empty()
            && !self.messages.may_grant()
            && self.myself.is_empty()
            && self.network.active.is_empty()
            && self.is_single_copy_idle()
    }

    /// Takes the message of `receive`, which is not posted, as it arrives. Looks for it at most `turns`
    /// times, as long as `goes_on`.
    ///
    /// `None`: the receive must be posted; nothing of its message is lost then.
    #[inline]
    pub fn receive_now(&mut self, receive: &Receive, turns: u32, goes_on: impl Fn() -> bool) -> Option<Received> {
        let Some(context) = receive.context else { return Some(Received { status: Status::PROC_NULL, error: None }) };
        let reachable = match receive.peer {
            Some(peer) => matches!(self.peers[peer].route, Route::Shared(_)),
            // A barred receive is refused where it would be posted.
            None => !self.messages.recovery.bars_any(),
        };
        // A receive of a message in pieces is posted at once, and so is a receive that the kernel may serve:
        // its sender looks for it.
        let looks = reachable && self.node.is_some() && self.has_only_rings();
        if !looks || receive.data.len() > RING_PIECE_BYTES.min(self.awaited_eager_max()) {
            return None;
        }
        if self.messages.matcher.has_unexpected(context, receive.source, receive.tag) {
            return None;
        }
        for _ in 0..turns {
            let pass = self.passes.wrapping_add(1);
            if pass.is_multiple_of(NODE_CHECK_EVERY) || (self.has_network() && pass.is_multiple_of(NETWORK_EVERY)) {
                // That pass looks further than at the rings: it is the progress loop's.
                return None;
            }
            self.passes = pass;
            match self.look(context, receive) {
                Look::Message(received) => {
                    if !self.messages.outbox.is_empty() {
                        self.flush();
                    }
                    return Some(received);
                }
                Look::Other => {
                    let is_here = self.messages.matcher.has_unexpected(context, receive.source, receive.tag);
                    if is_here || !self.has_only_rings() {
                        return None;
                    }
                }
                Look::Nothing if goes_on() => std::hint::spin_loop(),
                Look::Nothing => return None,
            }
        }
        None
    }

    #[inline]
    fn look(&mut self, context: u32, receive: &Receive) -> Look {
        let Self { node, messages, peers, .. } = self;
        let Some(node) = node else { return Look::Nothing };
        let mut found = Look::Nothing;
        node.poll(1, |from, frame| {
            let peer = peers.near.by_local_rank[from];
            found = match Frame::whole(frame) {
                Some((envelope, payload))
                    if envelope.context == context
                        && receive.source.is_none_or(|source| source == envelope.source)
                        && receive.tag.is_none_or(|tag| tag == envelope.tag)
                        && !messages.matcher.has_posted(&envelope) =>
                {
                    let (status, error) = messages.handle_whole(peer, envelope, payload, &receive.data, peers);
                    Look::Message(Received { status, error })
                }
                _ => {
                    pass_on(messages, peer, frame, peers);
                    Look::Other
                }
            };
        });
        found
    }
}

/// Handles a frame that is not for a receive without a request. Kept out of the look, which is short without
/// it.
#[inline(never)]
fn pass_on<P: Platform>(messages: &mut Messages, peer: PeerId, frame: &[u8], peers: &mut Peers<P>) {
    messages.handle_frame(peer, frame, peers);
}
