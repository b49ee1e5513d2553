//! The receives of this process that stand on tables: how they get there, how they end, and how they leave.

use super::broken;
use crate::engine::PointToPoint;
use crate::group::PeerId;
use crate::memory;
use crate::messages::{Announced, Fetched, Written};
use crate::peers::Table;
use crate::protocols::is_wide;
use crate::request::{Receive, Request, State};
use crate::transport::{
    Cooperation, Ending, Node, Platform, PostState, PostedReceive, PostedReceives, PostedTable, number_near,
};

/// The number of earlier receives that are looked at to see whether a new one may stand on a table.
const RECEIVES_BEFORE_MAX: usize = 64;
/// The number of looks at a copy under way into a receive that is being given up.
const ABANDON_LOOKS_MAX: usize = 10_000_000;

impl<P: Platform> PointToPoint<P> {
    /// Puts the receive `handle` on the table of its sender, or on the common one, if it is fit for that;
    /// returns whether it did.
    pub(in crate::engine) fn announce_receive(&mut self, handle: usize) -> bool {
        self.follow_costs();
        let Some(Request { state: State::Posted(receive), .. }) = self.messages.requests.get(handle) else {
            return false;
        };
        let Receive { context: Some(context), source, peer, tag, data, blocking } = receive else { return false };
        let (context, source, peer, tag, awaited) = (*context, *source, *peer, *tag, *blocking);
        let (Some(address), length) = (data.address(), data.len()) else { return false };
        if !self.is_large(length) {
            return false;
        }
        // A message that a call waits for comes eagerly through the ring if it is short. So does one of a
        // window. A trial needs a receive that the sender sees.
        let is_hidden = match peer {
            _ if awaited => {
                self.note_awaited(peer, handle);
                length <= self.awaited_eager_max()
            }
            Some(peer) if is_wide(self.frame_max) && self.is_received_in_window(peer, handle) => {
                length <= self.window_eager_max(self.exchanges_windows(peer))
            }
            _ => false,
        };
        if is_hidden && !self.single_copy.received_trials.take(length) {
            return false;
        }
        let requests = &self.messages.requests;
        let stands = |other: &usize| requests.get(*other).is_some_and(|request| request.ticket.is_some());
        if !self.messages.matcher.stands_behind(context, source, tag, &handle, RECEIVES_BEFORE_MAX, stands) {
            return false;
        }
        let posted_table = match (source, peer) {
            (None, _) => self.open_common(),
            (Some(_), Some(peer)) => self.open_posted_table(peer),
            (Some(_), None) => None,
        };
        let ticket = posted_table
            .and_then(|posted_table| posted_table.post(&PostedReceive { context, tag, address, length, awaited }));
        let Some(request) = self.messages.requests.get_mut(handle) else { return false };
        request.ticket = ticket;
        if ticket.is_some() {
            self.note_posted(handle);
        }
        ticket.is_some()
    }

    /// Notes that the receive `handle` stands on a table.
    ///
    /// Receives that a message has taken off their table stay noted. They are forgotten when there is no room
    /// for another one. So at most about twice as many are noted as ever stood on tables at a time.
    #[inline]
    fn note_posted(&mut self, handle: usize) {
        if self.single_copy.receives.len() == self.single_copy.receives.capacity() {
            self.forget_withdrawn();
        }
        self.single_copy.receives.push(handle);
    }

    #[cold]
    fn forget_withdrawn(&mut self) {
        let (receives, requests) = (&mut self.single_copy.receives, &self.messages.requests);
        receives.retain(|handle| {
            let request = requests.get(*handle);
            request.is_some_and(|request| request.ticket.is_some() && matches!(request.state, State::Posted(_)))
        });
        // The table of requests may give a handle again.
        weft_ordered::sort(receives);
        receives.dedup();
        if receives.len() > receives.capacity() / 2 {
            receives.reserve(receives.capacity());
        }
    }

    /// The table on which receives from `peer` stand, if the peer can copy.
    pub(super) fn open_posted_table(&mut self, peer: PeerId) -> Option<&mut Table<P>> {
        let local = self.copier(peer)?;
        let handled = self.peers[peer].matching.handled();
        let posted_table = &mut self.peers[peer].own_table;
        if posted_table.is_none() {
            *posted_table = self.node.as_mut()?.posted_receives_mut()?.own_table(local).map(Box::new);
            if let Some(posted_table) = posted_table {
                posted_table.advance(handled);
                posted_table.publish_matched();
            }
        }
        posted_table.as_deref_mut()
    }

    /// The table on which receives from any source stand. Each sender sees on its own table how many of its
    /// messages have been handled.
    fn open_common(&mut self) -> Option<&mut Table<P>> {
        if self.peers.near.common.is_none() && self.peers.near.copies {
            for local in 0..self.peers.near.by_local_rank.len() {
                self.open_posted_table(self.peers.near.by_local_rank[local]);
            }
            self.peers.near.common = self.node.as_mut()?.posted_receives_mut()?.any_source_table();
        }
        self.peers.near.common.as_mut()
    }

    /// Takes the receive `handle` off its table; returns `false` when a sender was quicker.
    pub(in crate::engine) fn withdraw_receive(&mut self, handle: usize) -> bool {
        let Some(request) = self.messages.requests.get_mut(handle) else { return true };
        let (Some(ticket), State::Posted(Receive { peer, .. })) = (request.ticket, &request.state) else {
            return true;
        };
        if self.peers.posted_table_with(ticket, *peer).is_some_and(|posted_table| !posted_table.withdraw(ticket)) {
            return false;
        }
        request.ticket = None;
        true
    }

    /// Takes receives from any source that hear of the failure of `peer` off the table, except those that
    /// another process is writing to.
    pub(in crate::engine) fn withdraw_receives_from_anybody(&mut self, peer: PeerId) {
        for at in 0..self.single_copy.receives.len() {
            let handle = self.single_copy.receives[at];
            let Some(Request { ticket: Some(ticket), .. }) = self.messages.requests.get(handle) else { continue };
            let ticket = *ticket;
            if !ticket.common || self.withdraw_receive(handle) {
                continue;
            }
            let state = self.peers.near.common.as_ref().map(|posted_table| posted_table.state(ticket));
            if let Some(PostState::Taken(taker)) = state
                && self.peers.peer_of(taker) == Some(peer)
                && let Some(posted_table) = &mut self.peers.near.common
            {
                // The sender writes no more.
                posted_table.free(ticket);
                if let Some(request) = self.messages.requests.get_mut(handle) {
                    request.ticket = None;
                }
            }
        }
    }

    /// Forgets a receive of this process, whatever its state: afterwards no sender writes to its memory. A
    /// send is forgotten as well: nothing reads its memory any more.
    pub fn abandon_receive(&mut self, handle: usize) {
        self.settle_copies();
        self.abandon_early(handle);
        self.abandon_eager_write(handle);
        for _ in 0..ABANDON_LOOKS_MAX {
            if self.withdraw_receive(handle)
                && !self.peers.near.cooperative.iter().any(|shared| shared.handle == handle)
            {
                break;
            }
            self.collect_written();
            self.collect_cooperative();
            std::hint::spin_loop();
        }
        self.messages.cancel_receive(handle);
        self.messages.abandon(handle, &self.peers);
        self.end_accesses();
    }

    /// Completes receives whose senders have copied their part.
    pub(super) fn collect_cooperative(&mut self) {
        let shared = std::mem::take(&mut self.peers.near.cooperative);
        for announced in shared {
            let Announced { handle, peer, request, limit, .. } = announced;
            let Some(Request { state: State::Receiving { .. }, .. }) = self.messages.requests.get(handle) else {
                continue;
            };
            let fetched = match self
                .peers
                .posted_table(peer)
                .map_or(Ending::Failed, |posted_table| posted_table.cooperative_copy().ending())
            {
                Ending::Open => {
                    self.peers.near.cooperative.push(announced);
                    continue;
                }
                Ending::Moved => {
                    memory::note_written(&announced.data, 0..limit);
                    Fetched::Whole
                }
                Ending::Failed => self.peers.fetch_alone(&announced),
            };
            self.messages.conclude_fetch(handle, peer, request, limit, fetched, &mut self.peers);
        }
    }

    /// Completes receives that have been written to.
    pub(super) fn collect_written(&mut self) {
        let mut receives = std::mem::take(&mut self.single_copy.receives);
        receives.retain(|handle| {
            let Some(request) = self.messages.requests.get(*handle) else { return false };
            let (Some(ticket), State::Posted(Receive { peer, data, .. })) = (request.ticket, &request.state) else {
                return false;
            };
            let peer = *peer;
            let Some(posted_table) = self.peers.posted_table_with(ticket, peer) else { return false };
            let state = posted_table.state(ticket);
            match state {
                PostState::Open | PostState::Taken(_) => return true,
                PostState::Done { taker, source, tag, total, rest } => {
                    memory::note_written(data, 0..total);
                    posted_table.free(ticket);
                    // A sender that is not of the node has broken the table: its message counts as one of
                    // this process.
                    let peer = peer.or_else(|| self.peers.peer_of(taker)).unwrap_or(self.peers.own());
                    self.peers[peer].has_written = true;
                    let number = taker.announced.map(|low| number_near(low, self.peers[peer].matching.handled()));
                    self.messages.handle_written(
                        peer,
                        *handle,
                        Written { source, tag, total, number, rest },
                        &mut self.peers,
                    );
                }
                PostState::Failed => {
                    posted_table.free(ticket);
                    if let Some(request) = self.messages.requests.get_mut(*handle) {
                        request.ticket = None;
                    }
                    self.messages.cancel_receive(*handle);
                    let who = peer.map_or_else(
                        || "a sender".to_owned(),
                        |peer| format!("process {} of the job", self.peers[peer].number()),
                    );
                    self.messages.fail(*handle, broken(&who, "the sender could not write to this process"));
                }
            }
            false
        });
        self.single_copy.receives = receives;
    }
}
