//! Large messages of a node: the side that is inside MPI when both halves are known copies, once, between
//! the two address spaces.
//!
//! A large receive stands on the table of its sender; a receive from any source stands on the any-source
//! table of its process ([`PostedTable`]). A large send that finds its receive there writes to it.
//! Otherwise the send is announced in the ring, also where the receiver waits inside MPI and so will fetch
//! the message. While the announcement waits, the sender still looks at the table. Both sides try one
//! compare-and-swap on the receive's slot, and the side that succeeds copies.
//!
//! The reasons why this is MPI's matching (MPI-5.0 §3.5):
//!
//! - A receive is posted on a table only if all earlier receives that could take the same message stand on a
//!   table too. The sender takes the earliest that its message matches, on either table.
//! - Both sides count the sender's messages. The sender takes a receive only when all messages that it has
//!   sent before have been handled, or it has written them to their receives, and the message itself is not
//!   being handled. So no message is on its way that could have a better claim.
//! - A message that arrives may match a receive that a sender already writes to. If one sender has sent both
//!   messages, it sent the written one first. The message that arrives goes on to the next receive it
//!   matches.
//! - A message that is announced in the ring and written all the same is known by its number when it arrives.
//!
//! Both sides copy a message between a blocking send and a blocking receive, if it is large enough
//! ([`crate::protocols::CostModel::cooperative_bytes_min`], [`Cooperation`]). The receiver says where the
//! message goes. The sender writes one part while the receiver fetches the other. Nonblocking operations
//! leave the copy to one side, so that the other can compute.

mod neighbours;
mod offers;
mod receives;
mod relocation;

use weft_core::matching::Envelope;

use offers::{Offer, Offers, OffersTo};

use super::PointToPoint;
use crate::error::{Error, ErrorClass};
use crate::group::{Group, PeerId};
use crate::memory::UserData;
use crate::messages::{Announced, Fetched};
use crate::peers::{Neighbours, Route, Table};
use crate::protocols::{Copying, KernelTrials};
use crate::request::{Cancellation, Request, Send, State};
use crate::transport::{
    Announcements, Candidate, Claim, Cooperation, Frames, Node, NodeProcessors, Offered, Platform, PostState,
    PostedReceives, PostedTable, Remainder,
};

/// The bytes of a message that one side copies before it asks whether both could copy the rest, at first and
/// at most.
const COPY_BYTES_FIRST: u64 = 128 << 10;
const COPY_BYTES_MAX: u64 = 1 << 20;

/// The bytes after which a pass fetches no further message: others wait for what the pass does next.
const FETCHED_BYTES_PER_PASS: u64 = 128 << 10;

/// The bytes that one side copies at first; `streams` says whether both could copy the rest. Elsewhere one
/// call copies all: on an Intel Xeon of 2025 4 MB take 405 µs in one call, and 465 µs in pieces of 1 MB.
const fn copy_bytes_first(streams: bool) -> u64 {
    if streams { COPY_BYTES_FIRST } else { u64::MAX }
}

/// The single copies that this process has under way.
#[derive(Default)]
pub(super) struct SingleCopies {
    offers: Offers,
    /// Set if receivers may have asked for one of the offers without waiting for this process.
    offers_window: bool,
    /// The messages that were announced early, the relocated ones included.
    early: Vec<relocation::Early>,
    /// The receives of this process that stand on tables, and some that no longer do (`note_posted`).
    receives: Vec<usize>,
    inside_mpi: bool,
    /// Set while messages of the node may stand still without passes of this process or of its neighbours:
    /// they are announced, or wait for room.
    pub(super) may_stand_still: bool,
    /// The trials among messages that this process would send through a ring,
    pub(super) trials: KernelTrials,
    /// and among the receives that it would not post where their senders see them.
    received_trials: KernelTrials,
}

impl SingleCopies {
    /// Forgets a peer that is gone for good.
    pub(super) fn forget_peer(&mut self, peer: PeerId) {
        self.offers.forget_peer(peer);
    }
}

impl<P: Platform> PointToPoint<P> {
    /// Tells neighbours whether a call waits inside MPI here.
    #[inline]
    pub fn set_inside_mpi(&mut self, waits: bool) {
        if self.single_copy.inside_mpi != waits
            && let Some(posted) = self.node.as_ref().and_then(Node::posted_receives)
        {
            self.single_copy.inside_mpi = waits;
            posted.set_inside_mpi(waits);
        }
    }

    /// Notes that the program has come to a call that may wait.
    #[inline(always)]
    pub fn note_wait(&mut self) {
        self.peers.near.overlap.wait(P::ticks);
    }

    /// Notes the nonblocking send of the request `handle` to `peer`, which is large.
    pub(super) fn note_send(&mut self, peer: PeerId, handle: usize) {
        let messages = &self.messages;
        let (windows, overlap) = self.peers.windows(peer);
        windows.note_sent(overlap, handle, |handle| messages.is_outstanding(handle));
    }

    /// Notes that the program may go on behind a large nonblocking operation that it has started.
    pub(super) fn note_start(&mut self) {
        self.peers.near.overlap.start(P::ticks());
    }

    /// Returns whether a large nonblocking send to `peer` belongs to a window for which the program waits at
    /// once, as far as is known.
    pub(super) fn sends_window(&self, peer: PeerId) -> bool {
        self.peers[peer].windows.is_sent(&self.peers.near.overlap)
    }

    /// Returns whether such windows go to `peer` and come from it.
    pub(super) fn exchanges_windows(&self, peer: PeerId) -> bool {
        self.peers[peer].windows.are_exchanged(&self.peers.near.overlap)
    }

    /// Notes the nonblocking receive of the request `handle` from `peer`, which is large, and returns
    /// whether it belongs to such a window.
    fn is_received_in_window(&mut self, peer: PeerId, handle: usize) -> bool {
        self.note_start();
        let messages = &self.messages;
        let (windows, overlap) = self.peers.windows(peer);
        windows.note_received(overlap, (handle, false), |handle| messages.is_outstanding(handle));
        windows.is_received(overlap)
    }

    /// Notes that a call waits for a large message from `peer` as the request `handle`.
    fn note_awaited(&mut self, peer: Option<PeerId>, handle: usize) {
        let (Some(peer), messages) = (peer, &self.messages) else { return };
        let (windows, overlap) = self.peers.windows(peer);
        windows.note_received(overlap, (handle, true), |handle| messages.is_outstanding(handle));
    }

    /// The processors of the node, if it knows which processes spin on them.
    fn processors(&self) -> Option<&dyn NodeProcessors> {
        self.node.as_ref()?.processors()
    }

    /// Tells the processes of the node whether this one may copy from the memory of all of them, once it
    /// knows them.
    pub fn say_copies(&self) {
        if let Some(posted) = self.node.as_ref().and_then(Node::posted_receives) {
            posted.say_copies(
                self.peers.near.by_local_rank.iter().all(|peer| {
                    *peer == self.peers.own() || self.peers.get(*peer).is_some_and(|peer| peer.process != 0)
                }),
            );
        }
    }

    /// Returns whether each process of `group` on this node may copy from the memory of the others there;
    /// `None`: some have not said so yet.
    pub fn all_copy(&self, group: &Group) -> Option<bool> {
        let Some(node) = &self.node else { return Some(false) };
        let Some(posted) = node.posted_receives() else { return Some(false) };
        let mut all = Some(true);
        for peer in &group.members {
            let local_rank = match self.peers.get(*peer).map(|peer| &peer.route) {
                Some(Route::Myself) => node.own_local_rank(),
                Some(Route::Shared(local_rank)) => *local_rank,
                _ => continue,
            };
            match posted.says_copies(local_rank) {
                Some(true) => {}
                Some(false) => return Some(false),
                None => all = None,
            }
        }
        all
    }

    /// Tells neighbours on which processor a thread spins here.
    pub fn note_processor(&self) {
        if let Some(processors) = self.processors()
            && self.single_copy.inside_mpi
        {
            processors.note_processor();
        }
    }

    /// Returns whether another process of the node spins on this thread's processor.
    pub fn shares_processor(&self) -> bool {
        self.processors().is_some_and(NodeProcessors::shares_processor)
    }

    /// Moves this thread to a processor on which no process of the node spins; returns false if there is no
    /// node that would know of one.
    pub fn migrate(&self) -> bool {
        self.processors().map(NodeProcessors::migrate).is_some()
    }

    /// Moves this thread to a processor with fewer processes of the node, if it is this thread's turn to
    /// move.
    pub fn rebalance(&self) {
        if let Some(processors) = self.processors() {
            processors.rebalance();
        }
    }

    /// The local rank of a peer that may read this process's memory, and whose memory this process may read.
    fn copier(&self, peer: PeerId) -> Option<usize> {
        match self.peers[peer].route {
            Route::Shared(local) if self.peers[peer].process != 0 => Some(local),
            _ => None,
        }
    }

    /// The kind of receive that a message with this envelope matches on the table of `peer`.
    pub(super) fn candidate(&mut self, peer: PeerId, envelope: &Envelope) -> Candidate {
        self.posted_table_of(peer)
            .map_or(Candidate::None, |posted_table| posted_table.candidate(envelope.context, envelope.tag))
    }

    /// Notes a message that would go through a ring, and returns whether it is to be announced instead, so
    /// that the kernel copies it.
    pub(super) fn is_kernel_trial(&mut self, peer: PeerId, bytes: u64) -> bool {
        self.single_copy.trials.is_due(bytes) && self.copier(peer).is_some()
    }

    fn posted_table_of(&mut self, peer: PeerId) -> Option<&mut Table<P>> {
        let local = self.copier(peer)?;
        let table = &mut self.peers[peer].their_table;
        if table.is_none() {
            *table = self
                .node
                .as_mut()
                .and_then(Node::posted_receives_mut)
                .and_then(|posted| posted.table_of(local))
                .map(Box::new);
        }
        table.as_deref_mut()
    }

    /// Returns whether `peer` waits inside MPI.
    pub(super) fn is_inside_mpi(&self, peer: PeerId) -> bool {
        match (&self.peers[peer].route, &self.node) {
            (Route::Shared(local), Some(node)) => {
                node.posted_receives().is_some_and(|posted| posted.is_inside_mpi(*local))
            }
            _ => false,
        }
    }

    /// Writes the message of the request `handle` to its receive, if that stands on the table of `peer` and
    /// no other message can have it; the request is complete then. `number` is that of the message's
    /// announcement, if it has one.
    pub(super) fn write(&mut self, peer: PeerId, handle: usize, send: &Send, number: Option<u32>) -> bool {
        let before = number.map_or(self.peers[peer].numbered(), |number| number.wrapping_sub(1));
        let Envelope { context, source, tag } = send.envelope;
        let written = self.peers[peer].written_up_to(before);
        let Some(posted_table) = self.posted_table_of(peer) else { return false };
        let offered = Offered { context, source, tag, before, written, number };
        let Some(claim) = posted_table.take(&offered) else { return false };
        let written = self.write_from_end(peer, &claim, &send.data);
        if let (Ok(_), Some(number)) = (&written, number) {
            self.peers[peer].note_announced_written(number);
        }
        let rest = match written {
            Ok(bytes) if bytes > 0 => Some(Remainder { bytes, request: self.messages.requests.wire(handle) }),
            _ => None,
        };
        if let Some(entry) = self.messages.requests.get_mut(handle)
            && rest.is_some()
        {
            entry.state = State::Announced(send.clone());
        }
        if let Some(posted_table) = self.posted_table_of(peer) {
            posted_table.finish(&claim, send.data.len(), rest, written.is_ok());
        }
        self.tell(peer);
        match written {
            Ok(0) => self.messages.complete(handle),
            Ok(_) => {}
            Err(cause) => {
                let who = format!("process {} of the job", self.peers[peer].number());
                self.messages.fail(handle, broken(&who, &cause.to_string()));
            }
        }
        true
    }

    /// Writes a message to its receive, from the end on. It stops when all is written, or when the receiver
    /// waits inside MPI for several messages: then both sides copy the rest. Returns the length of the rest.
    fn write_from_end(&mut self, peer: PeerId, claim: &Claim, data: &UserData) -> std::io::Result<u64> {
        let pid = self.peers[peer].process;
        let streams = self.peers.streams_with(peer);
        let (mut left, mut most) = (data.len().min(claim.length), copy_bytes_first(streams));
        self.peers.near.copied = true;
        while left > 0 {
            let begin = left.saturating_sub(most);
            let Neighbours { copier, refinement, .. } = &mut self.peers.near;
            refinement.copy(Copying::Write, left - begin, P::ticks, || {
                copier.deliver(pid, claim.address, data, begin..left)
            })?;
            left = begin;
            if streams
                && self.is_inside_mpi(peer)
                && self.posted_table_of(peer).is_some_and(|posted_table| posted_table.is_wanted())
            {
                break;
            }
            most = most.saturating_mul(2).min(COPY_BYTES_MAX);
        }
        Ok(left)
    }

    /// Tells `peer` to look at its copies under way with this process, and wakes it if it sleeps.
    fn tell(&mut self, peer: PeerId) {
        if let (Route::Shared(local), Some(node)) = (&self.peers[peer].route, &mut self.node)
            && let Some(posted) = node.posted_receives_mut()
        {
            posted.announce_written(*local);
        }
    }

    /// Notes that frame `number` of the ring has announced a send. `in_window` says whether the send belongs
    /// to a window; the receiver reads that in the table.
    pub(super) fn offer(&mut self, peer: PeerId, handle: usize, number: u32, in_window: bool) {
        if self.peers[peer].process != 0 {
            // Only receivers of streams ask.
            let announcements = match self.peers.streams_with(peer) {
                true if in_window => Announcements::Window,
                true if self.has_offer(peer) => Announcements::Several,
                _ => Announcements::One,
            };
            if let Some(posted_table) = self.posted_table_of(peer) {
                posted_table.note_announcements(announcements);
            }
            self.single_copy.offers_window = announcements == Announcements::Window || self.offers_window();
            self.single_copy.offers.push(peer, handle, number);
            self.single_copy.may_stand_still = true;
        }
    }

    /// Returns whether an announced send may belong to a window, for which receivers ask at once.
    #[inline]
    pub(super) fn offers_window(&self) -> bool {
        self.single_copy.offers_window && !self.single_copy.offers.is_empty()
    }

    /// Returns whether messages are announced whose receivers have not taken them.
    #[inline]
    pub(super) fn has_offers(&self) -> bool {
        !self.single_copy.offers.is_empty()
    }

    /// The receiver at this place among those of announced messages.
    pub(super) fn offers_to(&self, at: usize) -> Option<PeerId> {
        self.single_copy.offers.peer(at)
    }

    /// Returns whether a look at announced messages may write one though nothing has arrived until then.
    #[inline]
    pub(super) fn looks_after_offers(&self) -> bool {
        self.single_copy.offers.look_on()
    }

    /// Returns whether a message announced to `peer` waits for its receive, or to be fetched, as far as is
    /// known.
    pub(super) fn has_offer(&self, peer: PeerId) -> bool {
        let open =
            |handle| matches!(self.messages.requests.get(handle), Some(Request { state: State::Announced(_), .. }));
        self.single_copy.offers.has_open(peer, open)
    }

    /// Returns whether no announced send of this process waits for its receive to be posted, and no receive
    /// for its sender's part.
    #[inline]
    pub(super) fn is_single_copy_idle(&self) -> bool {
        self.single_copy.offers.is_empty()
            && self.peers.near.cooperative.is_empty()
            && self.single_copy.early.is_empty()
            && !self.owes_copies()
    }

    /// Returns whether announced messages have their receives, and this process has still to fetch them.
    #[inline]
    pub fn owes_copies(&self) -> bool {
        !self.peers.near.due.is_empty()
    }

    /// Fetches messages that are due, in the order of their announcements, until `bytes` bytes are here.
    fn fetch_due(&mut self, bytes: u64) {
        let mut fetched_bytes = 0;
        while fetched_bytes < bytes
            && let Some(announced) = self.peers.near.due.pop_front()
        {
            let Announced { handle, peer, request, limit, .. } = announced;
            // If a message of this process waits for the peer, the peer has one to fetch, too.
            let alone = self.has_offer(peer);
            // Without the table this process would not see where the sender has relocated the message.
            let fetched = match self.open_posted_table(peer) {
                Some(_) => self.peers.fetch_now(announced, alone),
                None => Fetched::Refused,
            };
            self.messages.conclude_fetch(handle, peer, request, limit, fetched, &mut self.peers);
            fetched_bytes += limit;
            if self.peers.near.due.iter().all(|announced| announced.peer != peer)
                && let Some(posted_table) = self.peers.posted_table(peer)
            {
                posted_table.note_fetching(false);
            }
        }
    }

    /// Fetches all messages that are due, where no later pass may do so: the memory of a receive goes away,
    /// or the program computes and no thread makes passes.
    pub fn settle_copies(&mut self) {
        while self.owes_copies() {
            self.fetch_due(u64::MAX);
            self.flush();
        }
    }

    /// Fetches all messages that are due if the program, which is about to leave a call that has started an
    /// operation, will compute before it waits for them.
    #[inline]
    pub(super) fn fetch_before_computing(&mut self) {
        if self.owes_copies()
            && self.peers.near.overlap.computes()
            && self.peers.near.due.iter().any(|announced| !announced.blocking)
        {
            self.fetch_due(u64::MAX);
        }
    }

    /// Moves the single copies under way on.
    #[inline]
    pub(super) fn progress_single_copies(&mut self) {
        // The news must be taken even if no receive is left, or this process would never sleep again.
        if self.node.as_mut().and_then(Node::posted_receives_mut).is_some_and(PostedReceives::take_written) {
            self.collect_written();
        }
        if !self.single_copy.offers.is_empty() {
            self.try_offers();
        }
        if !self.single_copy.early.is_empty() {
            self.look_after_early();
        }
        if self.owes_copies() {
            self.fetch_due(FETCHED_BYTES_PER_PASS);
        }
        if !self.peers.near.cooperative.is_empty() {
            self.collect_cooperative();
        }
    }

    /// Returns whether this process has copied something large since the last call: such a pass takes long.
    pub(super) fn take_copied(&mut self) -> bool {
        std::mem::take(&mut self.peers.near.copied)
    }

    /// Returns whether a neighbour is copying a message to or from this process at this time: it has a
    /// processor, and will soon be done.
    pub fn is_served(&mut self) -> bool {
        let moving = |posted_table: &Table<P>, wire| posted_table.cooperative_copy().moving_name() == Some(wire);
        !self.peers.near.cooperative.is_empty()
            || self.single_copy.offers.any(|peer, handle| {
                let posted_table = self.peers[peer].their_table.as_deref();
                posted_table.is_some_and(|posted_table| {
                    posted_table.is_receiver_fetching() || moving(posted_table, self.messages.requests.wire(handle))
                })
            })
            || self.single_copy.receives.iter().any(|handle| {
                let request = self.messages.requests.get(*handle);
                let Some(Request { ticket: Some(ticket), state: State::Posted(receive), .. }) = request else {
                    return false;
                };
                let posted_table = self.peers.posted_table_with(*ticket, receive.peer);
                posted_table.is_some_and(|posted_table| matches!(posted_table.state(*ticket), PostState::Taken(_)))
            })
    }

    /// Copies this process's part of the message that `send` has announced as `wire`, if its receiver is
    /// copying it.
    fn copy_own_part(&mut self, peer: PeerId, wire: u32, send: &Send) {
        let pid = self.peers[peer].process;
        let mut copier = self.peers.near.copier.another();
        let Some(posted_table) = self.posted_table_of(peer) else { return };
        let mut last = false;
        while let Some(piece) = posted_table.cooperative_copy().take_back(wire) {
            let copied = piece.range.end <= send.data.len()
                // The message is announced with its address, so it is one run.
                && copier.deliver(pid, piece.address, &send.data, piece.range.clone()).is_ok();
            last = posted_table.cooperative_copy().moved(&piece, copied);
        }
        self.peers.near.copied = true;
        if last {
            self.tell(peer);
        }
    }

    /// Checks whether receives for announced sends have been posted meanwhile.
    fn try_offers(&mut self) {
        let mut offers = std::mem::take(&mut self.single_copy.offers);
        offers.retain(|to| self.try_offers_to(to));
        self.single_copy.offers = offers;
    }

    /// Looks at each offer to a peer, if there is news for them; returns whether any is left.
    #[inline(never)]
    fn try_offers_to(&mut self, to: &mut OffersTo) -> bool {
        // Most messages are fetched in the order of their announcements.
        while to.offers.front().is_some_and(|oldest| self.offered(oldest).is_none()) {
            to.offers.pop_front();
        }
        let peer = to.peer;
        let Some(posted_table) = self.posted_table_of(peer) else { return !to.offers.is_empty() };
        let (opened, posted) = (posted_table.cooperative_copy().open_name(), Some(posted_table.posted()));
        // A receiver that is inside MPI fetches the messages, and this process can help.
        let is_outside = posted != to.looked_at && !self.is_inside_mpi(peer);
        let is_left = to.is_left_to_receiver(is_outside && self.exchanges_windows(peer));
        let mut may_write = is_outside && !is_left;
        if opened.is_none() && !may_write && !to.is_crowded() {
            return !to.offers.is_empty();
        }
        let mut at = 0;
        while let Some(offer) = to.offers.get_mut(at) {
            may_write = may_write && !self.is_inside_mpi(peer);
            let is_open = self.try_offer(peer, offer, opened, posted.filter(|_| may_write));
            if is_open {
                at += 1;
            } else {
                to.offers.remove(at);
            }
        }
        to.note_cleared();
        if may_write {
            to.looked_at = posted;
        }
        !to.offers.is_empty()
    }

    /// Copies a part of an offered message if its receiver copies it now, as message `opened`. Writes it if
    /// it may be written, to a receiver that has posted so many receives. Returns whether it is still
    /// offered.
    fn try_offer(&mut self, peer: PeerId, offer: &mut Offer, opened: Option<u32>, posted: Option<u32>) -> bool {
        let Some(send) = self.offered(offer) else { return false };
        if send.blocking && opened == Some(self.messages.requests.wire(offer.handle)) {
            let (wire, send) = (self.messages.requests.wire(offer.handle), send.clone());
            self.copy_own_part(peer, wire, &send);
        }
        if posted.is_none() || posted == offer.posted {
            return true;
        }
        offer.posted = posted;
        let Some(send) = self.offered(offer).cloned() else { return false };
        !self.write(peer, offer.handle, &send, Some(offer.number))
    }

    /// The message of an offer, unless it is fetched or written, or is being cancelled.
    fn offered(&self, offer: &Offer) -> Option<&Send> {
        match self.messages.requests.get(offer.handle) {
            Some(Request { state: State::Announced(send), cancellation: Cancellation::Possible, .. }) => Some(send),
            _ => None,
        }
    }
}

fn broken(who: &str, cause: &str) -> Error {
    Error::new(ErrorClass::Other, format!("the copy between this process and {who} failed: {cause}"))
}
