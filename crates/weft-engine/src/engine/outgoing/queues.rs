//! Items that wait for room: the queue of each peer, and the peers that have one.
//!
//! The message layer's outbox is emptied into these queues after each operation and in each pass of progress.

use std::collections::VecDeque;

use crate::engine::PointToPoint;
use crate::group::PeerId;
use crate::messages::{CREDIT_PER_MESSAGE, Outgoing, SMALL_BYTES_MAX};
use crate::peers::Route;
use crate::request::State;
use crate::transport::Platform;

/// The number of items waiting for a peer at which its requests to retract messages are not answered any
/// more: a peer that asks so often does not read either.
const PENDING_BEHIND_RETRACTED_MAX: usize = 1 << 16;

impl<P: Platform> PointToPoint<P> {
    pub(in crate::engine) fn enqueue(&mut self, peer: PeerId, outgoing: Outgoing) {
        let state = &mut self.peers[peer];
        match (&mut state.ahead_of_room, &outgoing) {
            (
                Some(ahead),
                Outgoing::Control(_) | Outgoing::Invite { .. } | Outgoing::Place { .. } | Outgoing::Stream { .. },
            ) => {
                state.pending.insert(*ahead, outgoing);
                *ahead += 1;
            }
            // The item waits behind one that waits for room: until then there is nothing to try.
            (Some(0), Outgoing::Send { .. }) => return state.pending.push_back(outgoing),
            _ => state.pending.push_back(outgoing),
        }
        if !std::mem::replace(&mut state.waiting, true) {
            self.backlog.push(peer);
        }
    }

    /// Hands all waiting items to their routes.
    #[inline]
    pub(in crate::engine) fn drain_queues(&mut self) {
        while !self.messages.outbox.is_empty() || !self.backlog.is_empty() || self.messages.may_grant() {
            if self.messages.may_grant() {
                let Self { messages, network, platform, .. } = self;
                messages.poll_grants(platform.now(), |peer| {
                    network.remotes.get(peer)?.current_flow()?.shortest_round_trip()
                });
            }
            self.route_outbox();
            self.push_backlog();
            // The items that are left then wait for room.
            if self.messages.outbox.is_empty() {
                break;
            }
        }
    }

    pub(in crate::engine) fn route_outbox(&mut self) {
        if self.messages.outbox.is_empty() {
            return;
        }
        let mut outbox = std::mem::take(&mut self.messages.outbox);
        for (peer, outgoing) in outbox.drain(..) {
            if matches!(outgoing, Outgoing::Room) {
                self.resume(peer);
                continue;
            }
            let waiting = self.peers[peer].pending.len();
            if waiting >= PENDING_BEHIND_RETRACTED_MAX
                && matches!(&outgoing, Outgoing::Control(head) if head.is_retracted())
            {
                self.messages.malformed_frames += 1;
                continue;
            }
            self.enqueue(peer, outgoing);
        }
        self.messages.outbox = outbox;
    }

    pub(in crate::engine) fn push_backlog(&mut self) {
        self.turn_over = false;
        let mut at = 0;
        while at < self.backlog.len() {
            let peer = self.backlog[at];
            while let Some(mut outgoing) = self.next_pending(peer) {
                if !self.push(peer, &mut outgoing) {
                    self.put_back(peer, outgoing);
                    break;
                }
            }
            let state = &self.peers[peer];
            if state.pending.is_empty() || state.ahead_of_room == Some(0) {
                self.peers[peer].waiting = false;
                self.backlog.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Takes the first item that may leave for `peer`.
    #[inline]
    fn next_pending(&mut self, peer: PeerId) -> Option<Outgoing> {
        let state = &mut self.peers[peer];
        match &mut state.ahead_of_room {
            None => {}
            Some(0) => return None,
            Some(ahead) => *ahead -= 1,
        }
        state.pending.pop_front()
    }

    /// Puts an item that could not leave back to the front.
    fn put_back(&mut self, peer: PeerId, outgoing: Outgoing) {
        let needs_room = self.must_wait_for_room(peer, &outgoing);
        let is_near = matches!(self.peers[peer].route, Route::Shared(_));
        self.is_full_on_node |= is_near;
        self.single_copy.may_stand_still |= is_near;
        let state = &mut self.peers[peer];
        if let Some(ahead) = &mut state.ahead_of_room {
            *ahead += 1;
        }
        state.pending.push_front(outgoing);
        if !needs_room || state.ahead_of_room.is_some() {
            return;
        }
        // An item that needs no room goes ahead: the peer may wait for it before it makes any room.
        let all = std::mem::take(&mut state.pending);
        let free = |out: &Outgoing| !matches!(out, Outgoing::Send { .. });
        let (mut first, rest): (VecDeque<_>, VecDeque<_>) = all.into_iter().partition(free);
        state.ahead_of_room = Some(first.len());
        first.extend(rest);
        state.pending = first;
        self.push_ahead(peer);
    }

    /// Returns whether items wait for room at a peer of this node.
    #[inline(never)]
    pub(in crate::engine) fn is_queued_on_node(&self) -> bool {
        self.peers.near.by_local_rank.iter().any(|peer| !self.peers[*peer].pending.is_empty())
    }

    /// Hands the items ahead of a message that waits for room to the route.
    fn push_ahead(&mut self, peer: PeerId) {
        while let Some(mut outgoing) = self.next_pending(peer) {
            if !self.push(peer, &mut outgoing) {
                return self.put_back(peer, outgoing);
            }
        }
    }

    /// Returns whether `outgoing` is a small message without credit whose receiver has not said yet that
    /// there is no more room: the receiver may give some at once.
    fn must_wait_for_room(&self, peer: PeerId, outgoing: &Outgoing) -> bool {
        let Outgoing::Send { request } = outgoing else { return false };
        let state = self.messages.requests.get(*request).map(|entry| &entry.state);
        matches!(state, Some(State::Queued(send)) if self.lacks_room(peer, send.data.len()))
    }

    pub(super) fn lacks_room(&self, peer: PeerId, bytes: u64) -> bool {
        let state = &self.peers[peer];
        bytes <= SMALL_BYTES_MAX.min(self.eager_limit)
            && state.matching.credit < bytes + CREDIT_PER_MESSAGE
            && !state.matching.is_full
            && !matches!(state.route, Route::None(_))
    }

    /// Lets waiting items go on: there is news of the room at `peer`.
    pub(in crate::engine) fn resume(&mut self, peer: PeerId) {
        let state = &mut self.peers[peer];
        state.ahead_of_room = None;
        if !state.pending.is_empty() && !std::mem::replace(&mut state.waiting, true) {
            self.backlog.push(peer);
        }
    }
}
