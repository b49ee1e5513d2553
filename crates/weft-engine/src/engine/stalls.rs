//! Messages of a node that stand still, because their receiver is outside of MPI and takes no frames.
//!
//! The sender waits: messages that it has announced have not been fetched, synchronous ones have not been
//! matched, or others wait for room. Mostly the receiver comes back at once. If it does not, it computes, and
//! its progress thread sleeps, since on a node most messages need no help of the receiver. So the sender
//! wakes that thread ([`Sleeping::ring_for_progress`]).

use super::PointToPoint;
use crate::group::PeerId;
use crate::peers::Route;
use crate::request::{Request, State};
use crate::transport::{Frames, Platform, Sleeping};

impl<P: Platform> PointToPoint<P> {
    /// Looks for receivers of this node that are outside of MPI while messages to them stand still, and wakes
    /// the progress threads of those that have been outside for a while.
    #[inline]
    pub(super) fn look_for_stalls(&mut self) {
        if self.single_copy.may_stand_still {
            self.look_at_receivers();
        }
    }

    #[inline(never)]
    fn look_at_receivers(&mut self) {
        self.looks_after_stalls = false;
        self.is_full_on_node = self.is_full_on_node && self.is_queued_on_node();
        let mut at = 0;
        while at < self.synchronous.len() {
            let request = self.messages.requests.get(self.synchronous[at]);
            if let Some(Request { state: State::AwaitingMatch { peer, .. }, .. }) = request {
                self.look_at_receiver(*peer);
                at += 1;
            } else {
                self.synchronous.swap_remove(at);
            }
        }
        self.single_copy.may_stand_still = self.is_full_on_node || self.has_offers() || at > 0;
        at = 0;
        while let Some(peer) = self.offers_to(at) {
            self.look_at_receiver(peer);
            at += 1;
        }
        for local in 0..if self.is_full_on_node { self.peers.near.by_local_rank.len() } else { 0 } {
            let peer = self.peers.near.by_local_rank[local];
            if !self.peers[peer].pending.is_empty() {
                self.look_at_receiver(peer);
            }
        }
    }

    #[inline(never)]
    fn look_at_receiver(&mut self, peer: PeerId) {
        let Route::Shared(local) = self.peers[peer].route else { return };
        let is_outside = !self.is_inside_mpi(peer);
        let Some(node) = self.node.as_mut() else { return };
        let stall = &mut self.peers[peer].stall;
        if stall.note(node.taken_by(local).filter(|_| is_outside)) {
            node.ring_for_progress(local);
        }
        self.looks_after_stalls |= stall.looks_on();
    }

    /// Returns whether messages to neighbours move on only while this process makes passes: they wait for
    /// room, or belong to an announced window, for which the receiver may have asked at any time.
    #[inline(never)]
    pub(super) fn stands_still_without_passes(&self) -> bool {
        self.offers_window() || (self.is_full_on_node && self.is_queued_on_node())
    }
}
