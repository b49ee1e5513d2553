//! The message layer's services from processes of this node: their announced messages are fetched, by this
//! process alone or by both sides at once, and receives are taken off the tables where senders see them.

use super::{COPY_BYTES_MAX, copy_bytes_first};
use crate::group::PeerId;
use crate::memory;
use crate::messages::{self, Announced, Fetched, PeerAccess, Withdrawal};
use crate::peers::{Neighbours, Peers, Table};
use crate::protocols::Copying;
use crate::transport::{Cooperation, Ending, Platform, PostState, PostedTable, Taker, Ticket};

/// The number of looks at the sender's part of a shared message before the receiver does something else
/// meanwhile.
const COOPERATIVE_LOOKS_MAX: usize = 1000;

/// The longest message of which the receiver asks for all at once, in bytes. The kernel copies the first part
/// of longer ones. An AMD EPYC (Zen 5) moves windows of 4 MiB at 40 GB/s so, and at 20 through the ring.
const ASKED_AT_ONCE_MAX: u64 = 1 << 20;

impl<P: Platform> Peers<P> {
    /// Fetches a message from its end on, until all of it is here or its sender has nothing better to do than
    /// to send the rest.
    pub(super) fn fetch_alone(&mut self, announced: &Announced) -> Fetched {
        let copying = match std::mem::take(&mut self[announced.peer].has_written) {
            true => Copying::FetchOfWritten,
            false => Copying::Fetch,
        };
        let fetched = self.fetch_from(announced.address, announced, copying);
        match self.relocated(announced) {
            Some(address) => self.fetch_from(address, announced, Copying::FetchOfWritten),
            None => fetched,
        }
    }

    /// The address where the sender keeps the message now; `None`: the sender has not relocated the message.
    fn relocated(&mut self, announced: &Announced) -> Option<u64> {
        let found = self.posted_table(announced.peer)?.relocated(announced.request);
        found.filter(|_| !cfg!(weft_mutant = "relocations_overlooked"))
    }

    /// Fetches a message that lies at `address`.
    fn fetch_from(&mut self, address: u64, announced: &Announced, copying: Copying) -> Fetched {
        let Announced { peer, data, limit, .. } = announced;
        let pid = self[*peer].process;
        let (mut left, mut most) = (*limit, copy_bytes_first(self.streams_with(*peer)));
        while left > 0 {
            let begin = left.saturating_sub(most);
            let Neighbours { copier, refinement, .. } = &mut self.near;
            let fetched = refinement
                .copy(copying, left - begin, P::ticks, || copier.fetch(pid, address, data, begin..left).is_ok());
            if !fetched {
                return Fetched::Refused;
            }
            left = begin;
            if left > 0 && self.is_streamed(*peer) {
                return Fetched::Asked(left);
            }
            most = most.saturating_mul(2).min(COPY_BYTES_MAX);
        }
        Fetched::Whole
    }

    /// Copies a message together with its sender; `None` when nothing has been copied, or all must be copied
    /// again.
    fn fetch_cooperatively(&mut self, announced: &Announced) -> Option<Fetched> {
        let Announced { peer, request, address, data, limit, .. } = announced;
        let target = data.address().filter(|_| announced.blocking && *limit >= self.near.cooperative_bytes_min)?;
        let pid = self[*peer].process;
        let mut copier = self.near.copier.another();
        let posted_table = self.posted_table(*peer)?;
        let cooperative_copy = posted_table.cooperative_copy();
        if !cooperative_copy.begin(*request, target, *limit) {
            return None;
        }
        while let Some(piece) = cooperative_copy.take_front() {
            // All of the message is one run, here and there: see above.
            let copied = copier.fetch(pid, *address, data, piece.range.clone()).is_ok();
            cooperative_copy.moved(&piece, copied);
        }
        match await_ending(cooperative_copy) {
            Ending::Moved if posted_table.relocated(*request).is_none() => {
                memory::note_written(data, 0..*limit);
                Some(Fetched::Whole)
            }
            Ending::Open => Some(Fetched::Begun),
            Ending::Moved | Ending::Failed => None,
        }
    }

    /// Fetches a message: together with its sender, if both wait for it, or `alone`.
    pub(super) fn fetch_now(&mut self, announced: Announced, alone: bool) -> Fetched {
        self.near.copied = true;
        let together = if alone { None } else { self.fetch_cooperatively(&announced) };
        match together {
            Some(Fetched::Begun) => {
                self.near.cooperative.push(announced);
                Fetched::Begun
            }
            Some(fetched) => fetched,
            None => self.fetch_alone(&announced),
        }
    }

    /// Returns whether `peer` has announced several messages and waits inside MPI: then both sides copy at
    /// the same time. The program does not compute while it waits for the first message, nor while the others
    /// are fetched.
    fn is_streamed(&mut self, peer: PeerId) -> bool {
        self.streams_with(peer)
            && self.posted_table(peer).is_some_and(|posted_table| posted_table.sender_awaits_several())
    }

    /// Returns whether both sides of the ring with `peer` copy large data at once.
    pub(super) fn streams_with(&self, peer: PeerId) -> bool {
        let peer = &self[peer];
        self.near.streams.to(peer.writer.is_plain(), peer.windows.are_exchanged(&self.near.overlap))
    }

    pub(super) fn posted_table(&mut self, peer: PeerId) -> Option<&mut Table<P>> {
        self[peer].own_table.as_deref_mut()
    }

    /// The table of a receive that `peer`, or any process, may take.
    pub(super) fn posted_table_with(&mut self, ticket: Ticket, peer: Option<PeerId>) -> Option<&mut Table<P>> {
        if ticket.common { self.near.common.as_mut() } else { self.posted_table(peer?) }
    }

    pub(super) fn peer_of(&self, taker: Taker) -> Option<PeerId> {
        self.near.by_local_rank.get(taker.by).copied()
    }
}

impl<P: Platform> PeerAccess for Peers<P> {
    #[inline(always)]
    fn peer(&self, peer: PeerId) -> &messages::Peer {
        &self[peer].matching
    }

    #[inline(always)]
    fn peer_mut(&mut self, peer: PeerId) -> &mut messages::Peer {
        &mut self[peer].matching
    }

    fn number(&self, peer: PeerId) -> u32 {
        self[peer].number()
    }

    #[inline(always)]
    fn is_known(&self, peer: PeerId) -> bool {
        self.get(peer).is_some()
    }

    fn is_own(&self, peer: PeerId) -> bool {
        peer == self.own()
    }

    #[inline]
    fn counted(&mut self, peer: PeerId, handled: u32) {
        if let Some(posted_table) = self.posted_table(peer) {
            posted_table.advance(handled);
        }
    }

    #[inline]
    fn matched(&mut self, peer: PeerId) {
        if let Some(posted_table) = self.posted_table(peer) {
            posted_table.publish_matched();
        }
    }

    fn withdraw(&mut self, peer: PeerId, ticket: Ticket) -> Withdrawal {
        let Some(posted_table) = self.posted_table_with(ticket, Some(peer)) else { return Withdrawal::Ours };
        if posted_table.withdraw(ticket) {
            return Withdrawal::Ours;
        }
        match posted_table.state(ticket) {
            PostState::Taken(taker) | PostState::Done { taker, .. } => {
                Withdrawal::Taken(self.peer_of(taker).and_then(|peer| Some((peer, taker.announced?))))
            }
            _ => Withdrawal::Taken(None),
        }
    }

    fn fetch(&mut self, announced: Announced) -> Fetched {
        let is_asked = announced.limit <= ASKED_AT_ONCE_MAX && self.is_streamed(announced.peer);
        if is_asked && !self.near.trials.take(announced.limit) {
            return Fetched::Asked(announced.limit);
        }
        if let Some(posted_table) = self.posted_table(announced.peer) {
            posted_table.note_fetching(true);
        }
        self.near.due.push_back(announced);
        Fetched::Begun
    }
}

/// Waits a moment for the other side's part.
fn await_ending(cooperative_copy: &impl Cooperation) -> Ending {
    for _ in 0..COOPERATIVE_LOOKS_MAX {
        let ending = cooperative_copy.ending();
        if ending != Ending::Open {
            return ending;
        }
        std::hint::spin_loop();
    }
    cooperative_copy.ending()
}
