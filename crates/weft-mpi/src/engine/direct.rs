//! Large messages of a node: whichever side is inside MPI when both halves are known copies, once, between the two
//! address spaces.
//!
//! A large receive whose source is known stands on that sender's board (`weft_net::shared::Board`). A large send that
//! finds its receive there writes to it; one that does not, or whose receiver waits inside MPI and so will fetch it, is
//! announced in the ring, and while it waits its sender still looks at the board. The two ways meet in one
//! compare-and-swap on the receive's slot: who wins it copies.
//!
//! What makes this MPI's matching (MPI-5.0 §3.5):
//!
//! - A receive is posted on the board only if every receive that was posted before it and could take the same message
//!   stands there too. The sender takes the earliest that its message matches.
//! - Both count the sender's messages. The receive says how many of them had been handled when it was posted; the sender
//!   takes it only for the very next one. So no message is on its way that could have a better claim.
//! - A message that is handled and matches a receive of which the sender has been quicker to take possession was sent
//!   after the one that is written there: it goes on to the next receive that it matches.
//! - A message that is announced in the ring and written all the same is known by its number when it arrives.

use weft_core::matching::Envelope;
use weft_net::shared::{self, Board, Fate, Ticket, Wanted};
use weft_net::single_copy;

use super::{Engine, Path};
use crate::constants::MPI_ERR_OTHER;
use crate::error::Error;
use crate::memory::UserData;
use crate::messages::{Fetch, Withdrawal};
use crate::request::{Receive, Request, Send, State};

/// Smaller messages are not worth two system calls.
pub(super) const BYTES_MIN: u64 = 16 << 10;
/// Receives before a new one that are looked at to see whether it may stand on a board.
const RECEIVES_BEFORE_MAX: usize = 64;
/// Looks at a copy under way into a receive that is being given up.
const ABANDON_LOOKS_MAX: usize = 10_000_000;

/// The memory of the node's other processes, and the boards on which our receives stand.
pub(super) struct PeerMemory {
    rank: u32,
    pub(super) pids: Vec<i32>,
    boards: Vec<Option<Board>>,
}

impl PeerMemory {
    pub(super) fn new(rank: u32, pids: Vec<i32>) -> Self {
        let boards = pids.iter().map(|_| None).collect();
        Self { rank, pids, boards }
    }

    /// Whether there is anybody whose memory we may read.
    pub(super) fn copies(&self) -> bool {
        self.pids.iter().any(|pid| *pid != 0)
    }

    fn board(&mut self, peer: u32) -> Option<&mut Board> {
        self.boards[peer as usize].as_mut()
    }
}

impl Fetch for PeerMemory {
    #[inline]
    fn counted(&mut self, peer: u32, handled: u32) {
        if let Some(board) = self.board(peer) {
            board.advance(handled);
        }
    }

    fn withdraw(&mut self, peer: u32, ticket: Ticket) -> Withdrawal {
        let Some(board) = self.board(peer) else { return Withdrawal::Ours };
        if board.withdraw(ticket) {
            return Withdrawal::Ours;
        }
        match board.fate(ticket) {
            Fate::Taken { message } | Fate::Done { message, .. } => Withdrawal::Taken(message),
            Fate::Open | Fate::Failed => Withdrawal::Taken(None),
        }
    }

    fn fetch(&mut self, peer: u32, address: u64, data: &UserData, limit: u64) -> bool {
        if peer == self.rank {
            let source = crate::memory::own_bytes(address, limit);
            crate::memory::copy(&source, data);
            return true;
        }
        crate::memory::fetch(self.pids[peer as usize], address, data, limit).is_ok()
    }
}

/// A send that is announced in the ring and may still be written by us.
struct Offer {
    peer: u32,
    handle: usize,
    /// The number of its announcement.
    number: u32,
    /// Posts on the receiver's board when it was last looked at; none: never.
    posted: Option<u32>,
}

/// What this process has under way directly.
pub(super) struct Direct {
    /// The boards on which others post receives for us, once they have.
    boards: Vec<Option<Board>>,
    /// Whether we may write to their memory, once we have asked.
    writable: Vec<Option<bool>>,
    offers: Vec<Offer>,
    /// Our receives that stand on boards.
    receives: Vec<usize>,
    attentive: bool,
}

impl Direct {
    pub(super) fn new(size: usize) -> Self {
        Self {
            boards: (0..size).map(|_| None).collect(),
            writable: vec![None; size],
            offers: Vec::new(),
            receives: Vec::new(),
            attentive: false,
        }
    }
}

impl Engine {
    /// Lets neighbours know whether somebody waits inside MPI here.
    #[inline]
    pub fn set_attentive(&mut self, waits: bool) {
        if self.direct.attentive != waits
            && let Some(node) = &self.node
        {
            self.direct.attentive = waits;
            node.set_attentive(waits);
        }
    }

    /// Lets neighbours know on which processor somebody spins here.
    pub(crate) fn note_processor(&self) {
        if let Some(node) = &self.node
            && self.direct.attentive
        {
            node.note_processor();
        }
    }

    /// Whether another process of the node spins on the processor that this thread is on.
    pub(crate) fn shares_processor(&self) -> bool {
        self.node.as_ref().is_some_and(shared::Node::shares_processor)
    }

    /// Moves this thread to another processor, if it may run on one.
    pub(crate) fn leave_processor(&self) {
        if let Some(node) = &self.node {
            node.leave_processor();
        }
    }

    /// Puts the receive `handle` on the board of its sender, if it is one for that; whether it did.
    pub(super) fn announce_receive(&mut self, handle: usize) -> bool {
        let Some(Request { state: State::Posted(receive), .. }) = self.messages.requests.get(handle) else {
            return false;
        };
        let Receive { context: Some(context), source, peer: Some(peer), tag, data } = receive else { return false };
        let (context, source, peer, tag) = (*context, *source, *peer, *tag);
        let (Some(address), length) = (data.address(), data.len()) else { return false };
        let Path::Shared(local) = self.links[peer as usize].path else { return false };
        if length < BYTES_MIN || self.memory.pids[peer as usize] == 0 {
            return false;
        }
        let requests = &self.messages.requests;
        let stands = |other: &usize| requests.get(*other).is_some_and(|request| request.ticket.is_some());
        if !self.messages.matcher.stands_behind(context, source, tag, &handle, RECEIVES_BEFORE_MAX, stands) {
            return false;
        }
        let Some(node) = &mut self.node else { return false };
        let board = &mut self.memory.boards[peer as usize];
        if board.is_none() {
            *board = node.own_board(local);
        }
        let wanted = Wanted { context, tag, address, length, after: self.messages.handled(peer) };
        let ticket = board.as_mut().and_then(|board| board.post(&wanted));
        let Some(request) = self.messages.requests.get_mut(handle) else { return false };
        request.ticket = ticket;
        if ticket.is_some() {
            self.direct.receives.push(handle);
        }
        ticket.is_some()
    }

    /// Takes the receive `handle` off its board; `false` when its sender was quicker.
    pub(super) fn withdraw_receive(&mut self, handle: usize) -> bool {
        let Some(request) = self.messages.requests.get_mut(handle) else { return true };
        let (Some(ticket), State::Posted(Receive { peer: Some(peer), .. })) = (request.ticket, &request.state) else {
            return true;
        };
        if self.memory.withdraw(*peer, ticket) != Withdrawal::Ours {
            return false;
        }
        request.ticket = None;
        true
    }

    /// Forgets a receive of ours, whatever has become of it: afterwards nobody writes to its memory.
    pub fn abandon_receive(&mut self, handle: usize) {
        for _ in 0..ABANDON_LOOKS_MAX {
            if self.withdraw_receive(handle) {
                break;
            }
            self.collect_written();
            std::hint::spin_loop();
        }
        self.messages.cancel_receive(handle);
        self.messages.abandon(handle);
    }

    /// Whether a receive that such a message matches stands on the board of `peer`.
    pub(super) fn is_wanted(&mut self, peer: u32, envelope: &Envelope) -> bool {
        self.board_of(peer).is_some_and(|board| board.wants(envelope.context, envelope.tag))
    }

    fn board_of(&mut self, peer: u32) -> Option<&mut Board> {
        let Path::Shared(local) = self.links[peer as usize].path else { return None };
        if !self.may_write(peer) {
            return None;
        }
        let board = &mut self.direct.boards[peer as usize];
        if board.is_none() {
            *board = self.node.as_mut().and_then(|node| node.board_of(local));
        }
        board.as_mut()
    }

    fn may_write(&mut self, peer: u32) -> bool {
        let pid = self.memory.pids[peer as usize];
        *self.direct.writable[peer as usize].get_or_insert_with(|| pid != 0 && single_copy::available(pid))
    }

    /// Whether `peer` waits inside MPI.
    pub(super) fn is_attentive(&self, peer: u32) -> bool {
        match (&self.links[peer as usize].path, &self.node) {
            (Path::Shared(local), Some(node)) => node.is_attentive(*local),
            _ => false,
        }
    }

    /// Writes the message of the request `handle` to its receive, if that stands on the board of `peer` and no other
    /// message can have it; the request is complete then. `number`: that of its announcement, if it has one.
    pub(super) fn write(&mut self, peer: u32, handle: usize, send: &Send, number: Option<u32>) -> bool {
        let before = number.map_or(self.links[peer as usize].numbered, |number| number.wrapping_sub(1));
        let envelope = send.envelope;
        let Some(board) = self.board_of(peer) else { return false };
        let Some(claim) = board.take(envelope.context, envelope.tag, before, number) else { return false };
        let total = send.data.len();
        let result =
            crate::memory::deliver(self.memory.pids[peer as usize], claim.address, &send.data, total.min(claim.length));
        if let Some(board) = self.board_of(peer) {
            board.finish(&claim, total, result.is_ok());
        }
        if let (Path::Shared(local), Some(node)) = (&self.links[peer as usize].path, &mut self.node) {
            node.announce_written(*local);
        }
        match result {
            Ok(()) => self.messages.complete(handle),
            Err(cause) => self.messages.fail(handle, broken(peer, &cause.to_string())),
        }
        true
    }

    /// A send has been announced in the ring by frame `number`.
    pub(super) fn offer(&mut self, peer: u32, handle: usize, number: u32) {
        if self.may_write(peer) {
            self.direct.offers.push(Offer { peer, handle, number, posted: None });
        }
    }

    /// Whether no announced send of ours waits for its receive to be posted.
    #[inline]
    pub(super) fn is_direct_idle(&self) -> bool {
        self.direct.offers.is_empty()
    }

    /// Moves on what is under way directly.
    #[inline]
    pub(super) fn progress_direct(&mut self) {
        // What is noticed must be taken note of even if no receive is left, or this process would never sleep again.
        if self.node.as_mut().is_some_and(|node| node.take_written()) {
            self.collect_written();
        }
        if !self.direct.offers.is_empty() {
            self.try_offers();
        }
    }

    /// Completes receives that have been written to.
    fn collect_written(&mut self) {
        let mut receives = std::mem::take(&mut self.direct.receives);
        receives.retain(|handle| {
            let Some(request) = self.messages.requests.get(*handle) else { return false };
            let (Some(ticket), State::Posted(Receive { peer: Some(peer), .. })) = (request.ticket, &request.state)
            else {
                return false;
            };
            let peer = *peer;
            let Some(board) = self.memory.board(peer) else { return false };
            match board.fate(ticket) {
                Fate::Open | Fate::Taken { .. } => return true,
                Fate::Done { message, tag, total } => {
                    board.free(ticket);
                    self.messages.handle_written(peer, *handle, tag, total, message);
                }
                Fate::Failed => {
                    board.free(ticket);
                    if let Some(request) = self.messages.requests.get_mut(*handle) {
                        request.ticket = None;
                    }
                    self.messages.cancel_receive(*handle);
                    self.messages.fail(*handle, broken(peer, "the sender could not write to this process"));
                }
            }
            false
        });
        self.direct.receives = receives;
    }

    /// Looks whether receives for announced sends have been posted meanwhile.
    fn try_offers(&mut self) {
        let mut offers = std::mem::take(&mut self.direct.offers);
        offers.retain_mut(|offer| {
            let Some(Request { state: State::Announced(send), cancelling: false, .. }) =
                self.messages.requests.get(offer.handle)
            else {
                return false;
            };
            let send = send.clone();
            let posted = self.board_of(offer.peer).map(|board| board.posted());
            if posted.is_none() || posted == offer.posted {
                return true;
            }
            offer.posted = posted;
            !self.write(offer.peer, offer.handle, &send, Some(offer.number))
        });
        self.direct.offers = offers;
    }
}

fn broken(peer: u32, cause: &str) -> Error {
    Error::new(MPI_ERR_OTHER, format!("the copy between this process and process {peer} of the job failed: {cause}"))
}
