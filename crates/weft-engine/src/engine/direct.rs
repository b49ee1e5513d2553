//! Large messages of a node: whichever side is inside MPI when both halves are known copies, once, between the two
//! address spaces.
//!
//! A large receive stands on the board of its sender, one from anybody on the common board of its process
//! ([`PostedTable`]). A large send that finds its receive there writes to it; one that does not, or whose receiver waits inside MPI and so will fetch it, is
//! announced in the ring, and while it waits its sender still looks at the board. The two ways meet in one
//! compare-and-swap on the receive's slot: who wins it copies.
//!
//! What makes this MPI's matching (MPI-5.0 §3.5):
//!
//! - A receive is posted on a board only if every receive that was posted before it and could take the same message
//!   stands on one too. The sender takes the earliest that its message matches, on either board.
//! - Both count the sender's messages. The sender takes a receive only when all messages that it has sent before have been
//!   handled, and none is being handled. So no message is on its way that could have a better claim.
//! - A message that is handled and matches a receive of which a sender has been quicker to take possession was sent
//!   after the one that is written there, if that is by the same sender: it goes on to the next receive that it matches.
//! - A message that is announced in the ring and written all the same is known by its number when it arrives.
//!
//! Between a blocking send and a blocking receive a message of [`SHARED_BYTES_MIN`] or more is copied by both
//! ([`Cooperation`]): the receiver says where it goes, and the sender writes a part while the receiver fetches the other.
//! Nonblocking operations leave the copy to one side, so that the other can compute.

mod receives;

use weft_core::matching::Envelope;

use super::{Engine, Path};
use crate::error::{Error, OTHER};
use crate::memory::UserData;
use crate::messages::{Announced, Fetch, Fetched, Withdrawal};
use crate::request::{Request, Send, State};
use crate::transport::{
    Claim, Cooperation, Ending, Fate, Node, Offered, Platform, PostedTable, Remainder, Taker, Ticket, Wish,
};

type Table<P> = <<P as Platform>::Node as Node>::Table;

/// Smaller messages are not worth two system calls.
pub const BYTES_MIN: u64 = 16 << 10;
// What goes through a ring in one piece looks at no board.
const _: () = assert!(super::outgoing::RING_PIECE_BYTES < BYTES_MIN);
/// From this size on a message is copied by both of its sides, if both are inside MPI.
pub(super) const SHARED_BYTES_MIN: u64 = 64 << 10;
/// A frame of so many bytes is a piece of something large.
const LARGE_FRAME_BYTES: usize = 4 << 10;
/// Bytes of a message that one side copies before it asks whether both could copy the rest, at first and at most.
const COPY_BYTES_FIRST: u64 = 128 << 10;
const COPY_BYTES_MAX: u64 = 1 << 20;
/// Looks at the sender's part of a shared message before the receiver does something else meanwhile.
const SHARED_LOOKS_MAX: usize = 1000;

/// The memory of the node's other processes, and the boards on which our receives stand.
pub(super) struct PeerMemory<P: Platform> {
    copies: P::Memory,
    rank: u32,
    pub(super) pids: Vec<i32>,
    boards: Vec<Option<Box<Table<P>>>>,
    /// Where our receives from anybody stand, once there has been one.
    common: Option<Table<P>>,
    /// Index in the job of each process of the node.
    locals: Vec<u32>,
    /// Peers without a board that we would have shared a message with.
    boardless: Vec<u32>,
    /// Receives of which the senders still copy a part.
    shared: Vec<Announced>,
    /// Memory through which messages in several runs are copied.
    bounce: Vec<u8>,
    /// Whether something large has been copied since that was last asked.
    copied: bool,
    /// Rings are large enough for what is copied by both sides at once.
    streams: bool,
}

impl<P: Platform> PeerMemory<P> {
    pub(super) fn new(copies: P::Memory, rank: u32, pids: Vec<i32>, locals: Vec<u32>, streams: bool) -> Self {
        let boards = pids.iter().map(|_| None).collect();
        Self {
            copies,
            rank,
            pids,
            boards,
            common: None,
            locals,
            boardless: Vec::new(),
            shared: Vec::new(),
            bounce: Vec::new(),
            copied: false,
            streams,
        }
    }

    /// Fetches a message from its end on, until all of it is here or its sender has nothing better to do than to send the rest.
    fn fetch_alone(&mut self, announced: &Announced) -> Fetched {
        let Announced { peer, address, data, limit, .. } = announced;
        let pid = self.pids[*peer as usize];
        let (mut left, mut most) = (*limit, COPY_BYTES_FIRST);
        while left > 0 {
            let begin = left.saturating_sub(most);
            if crate::memory::fetch(&self.copies, pid, *address, data, begin..left, &mut self.bounce).is_err() {
                return Fetched::Refused;
            }
            left = begin;
            if left > 0 && self.is_streamed(*peer) {
                return Fetched::Asked(left);
            }
            most = (most * 2).min(COPY_BYTES_MAX);
        }
        Fetched::Whole
    }

    /// Copies a message together with its sender; `None` when nothing has been copied, or all must be again.
    fn fetch_together(&mut self, announced: &Announced) -> Option<Fetched> {
        let Announced { peer, request, address, data, limit, .. } = announced;
        let target = data.address().filter(|_| announced.blocking && *limit >= SHARED_BYTES_MIN)?;
        let pid = self.pids[*peer as usize];
        let copies = self.copies.clone();
        let Some(board) = self.board(*peer) else {
            if !self.boardless.contains(peer) {
                self.boardless.push(*peer);
            }
            return None;
        };
        let share = board.share();
        if !share.begin(*request, target, *limit) {
            return None;
        }
        while let Some(piece) = share.take_front() {
            // All of it is one run, here and there: see above.
            let copied =
                crate::memory::fetch(&copies, pid, *address, data, piece.range.clone(), &mut Vec::new()).is_ok();
            share.moved(&piece, copied);
        }
        match await_ending(share) {
            Ending::Moved => Some(Fetched::Whole),
            Ending::Open => Some(Fetched::Begun),
            Ending::Failed => None,
        }
    }

    /// A frame of `bytes` bytes is here.
    #[inline]
    pub(super) fn note_frame(&mut self, bytes: usize) {
        self.copied |= bytes >= LARGE_FRAME_BYTES;
    }

    /// Whether `peer` has announced several messages and waits inside MPI: both copy at the same time then. The program does not compute while
    /// it waits for the first of them, and it does not while the others are fetched.
    fn is_streamed(&mut self, peer: u32) -> bool {
        self.streams && self.board(peer).is_some_and(|board| board.sender_awaits_several())
    }

    /// Whether there is anybody whose memory we may read.
    pub(super) fn copies(&self) -> bool {
        self.pids.iter().any(|pid| *pid != 0)
    }

    fn board(&mut self, peer: u32) -> Option<&mut Table<P>> {
        self.boards[peer as usize].as_deref_mut()
    }

    /// The board of a receive that `peer` may take, or any process.
    fn board_with(&mut self, ticket: Ticket, peer: Option<u32>) -> Option<&mut Table<P>> {
        if ticket.common { self.common.as_mut() } else { self.board(peer?) }
    }

    fn peer_of(&self, taker: Taker) -> Option<u32> {
        self.locals.get(taker.by).copied()
    }
}

impl<P: Platform> Fetch for PeerMemory<P> {
    #[inline]
    fn counted(&mut self, peer: u32, handled: u32) {
        if let Some(board) = self.board(peer) {
            board.advance(handled);
        }
    }

    #[inline]
    fn settled(&mut self, peer: u32) {
        if let Some(board) = self.board(peer) {
            board.settle();
        }
    }

    fn withdraw(&mut self, peer: u32, ticket: Ticket) -> Withdrawal {
        let Some(board) = self.board_with(ticket, Some(peer)) else { return Withdrawal::Ours };
        if board.withdraw(ticket) {
            return Withdrawal::Ours;
        }
        match board.fate(ticket) {
            Fate::Taken(taker) | Fate::Done { taker, .. } => {
                Withdrawal::Taken(self.peer_of(taker).and_then(|peer| Some((peer, taker.announced?))))
            }
            _ => Withdrawal::Taken(None),
        }
    }

    fn fetch(&mut self, announced: Announced) -> Fetched {
        if announced.peer == self.rank {
            let source = crate::memory::own_bytes(announced.address, announced.limit);
            crate::memory::copy(&source, &announced.data);
            return Fetched::Whole;
        }
        self.copied = true;
        if self.is_streamed(announced.peer) {
            return Fetched::Asked(announced.limit);
        }
        match self.fetch_together(&announced) {
            Some(Fetched::Begun) => {
                self.shared.push(announced);
                Fetched::Begun
            }
            Some(fetched) => fetched,
            None => self.fetch_alone(&announced),
        }
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

/// Waits a moment for the other side's part.
fn await_ending(share: &impl Cooperation) -> Ending {
    for _ in 0..SHARED_LOOKS_MAX {
        let ending = share.ending();
        if ending != Ending::Open {
            return ending;
        }
        std::hint::spin_loop();
    }
    share.ending()
}

/// What this process has under way directly.
pub(super) struct Direct<P: Platform> {
    /// The boards on which others post receives for us, once they have.
    boards: Vec<Option<Box<Table<P>>>>,
    offers: Vec<Offer>,
    /// Our receives that stand on boards.
    receives: Vec<usize>,
    attentive: bool,
}

impl<P: Platform> Direct<P> {
    pub(super) fn new(size: usize) -> Self {
        Self { boards: (0..size).map(|_| None).collect(), offers: Vec::new(), receives: Vec::new(), attentive: false }
    }
}

impl<P: Platform> Engine<P> {
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
    pub fn note_processor(&self) {
        if let Some(node) = &self.node
            && self.direct.attentive
        {
            node.note_processor();
        }
    }

    /// Whether another process of the node spins on the processor that this thread is on.
    pub fn shares_processor(&self) -> bool {
        self.node.as_ref().is_some_and(Node::shares_processor)
    }

    /// Moves this thread to a processor on which no process of the node spins; false: there is no node that would know of one.
    pub fn leave_processor(&self) -> bool {
        self.node.as_ref().map(Node::leave_processor).is_some()
    }

    /// Moves this thread to a processor with fewer processes of the node, if it is for this one to do so.
    pub fn even_out(&self) {
        if let Some(node) = &self.node {
            node.even_out();
        }
    }

    /// The place on the node of a peer whose memory may be read, and ours by it.
    fn copier(&self, peer: u32) -> Option<usize> {
        match self.links[peer as usize].path {
            Path::Shared(local) if self.memory.pids[peer as usize] != 0 => Some(local),
            _ => None,
        }
    }

    /// Whether a receive that such a message matches stands on the board of `peer`.
    pub(super) fn wish(&mut self, peer: u32, envelope: &Envelope) -> Wish {
        self.board_of(peer).map_or(Wish::None, |board| board.wish(envelope.context, envelope.tag))
    }

    fn board_of(&mut self, peer: u32) -> Option<&mut Table<P>> {
        let local = self.copier(peer)?;
        let board = &mut self.direct.boards[peer as usize];
        if board.is_none() {
            *board = self.node.as_mut().and_then(|node| node.board_of(local)).map(Box::new);
        }
        board.as_deref_mut()
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
        let Envelope { context, source, tag } = send.envelope;
        let Some(board) = self.board_of(peer) else { return false };
        let Some(claim) = board.take(&Offered { context, source, tag, before, number }) else { return false };
        let written = self.write_from_end(peer, &claim, &send.data);
        let rest = match written {
            Ok(bytes) if bytes > 0 => Some(Remainder { bytes, request: self.messages.requests.wire(handle) }),
            _ => None,
        };
        if let Some(entry) = self.messages.requests.get_mut(handle)
            && rest.is_some()
        {
            entry.state = State::Announced(send.clone());
        }
        if let Some(board) = self.board_of(peer) {
            board.finish(&claim, send.data.len(), rest, written.is_ok());
        }
        self.tell(peer);
        match written {
            Ok(0) => self.messages.complete(handle),
            Ok(_) => {}
            Err(cause) => {
                let who = format!("process {peer} of the job");
                self.messages.fail(handle, broken(&who, &cause.to_string()));
            }
        }
        true
    }

    /// Writes a message to the receive that it has, from its end on, until all of it is there or the receiver waits inside MPI for several:
    /// then both copy what is left. How much that is.
    fn write_from_end(&mut self, peer: u32, claim: &Claim, data: &UserData) -> std::io::Result<u64> {
        let pid = self.memory.pids[peer as usize];
        let (mut left, mut most) = (data.len().min(claim.length), COPY_BYTES_FIRST);
        self.memory.copied = true;
        while left > 0 {
            let begin = left.saturating_sub(most);
            crate::memory::deliver(
                &self.memory.copies,
                pid,
                claim.address,
                data,
                begin..left,
                &mut self.memory.bounce,
            )?;
            left = begin;
            if self.memory.streams
                && self.is_attentive(peer)
                && self.board_of(peer).is_some_and(|board| board.is_wanted())
            {
                break;
            }
            most = (most * 2).min(COPY_BYTES_MAX);
        }
        Ok(left)
    }

    /// Lets `peer` see to what it has under way with us, and wakes it if it sleeps.
    fn tell(&mut self, peer: u32) {
        if let (Path::Shared(local), Some(node)) = (&self.links[peer as usize].path, &mut self.node) {
            node.announce_written(*local);
        }
    }

    /// A send has been announced in the ring by frame `number`.
    pub(super) fn offer(&mut self, peer: u32, handle: usize, number: u32) {
        if self.memory.pids[peer as usize] != 0 {
            let several = self.has_offer(peer);
            if let Some(board) = self.board_of(peer) {
                board.note_several(several);
            }
            self.direct.offers.push(Offer { peer, handle, number, posted: None });
        }
    }

    /// Whether something announced to `peer` waits for its receive, or to be fetched, as far as is known.
    pub(super) fn has_offer(&self, peer: u32) -> bool {
        let open =
            |handle| matches!(self.messages.requests.get(handle), Some(Request { state: State::Announced(_), .. }));
        self.direct.offers.iter().rev().any(|offer| offer.peer == peer && open(offer.handle))
    }

    /// Whether no announced send of ours waits for its receive to be posted, and no receive for its sender's part.
    #[inline]
    pub(super) fn is_direct_idle(&self) -> bool {
        self.direct.offers.is_empty() && self.memory.shared.is_empty() && self.memory.boardless.is_empty()
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
        if !self.memory.shared.is_empty() || !self.memory.boardless.is_empty() {
            self.collect_shared();
        }
    }

    /// Whether this process has copied something large since this was last asked: such a pass takes long.
    pub(super) fn take_copied(&mut self) -> bool {
        std::mem::take(&mut self.memory.copied)
    }

    /// Whether a neighbour is copying a message to or from this process at this time: it has a processor, and will soon be done.
    pub fn is_served(&mut self) -> bool {
        let moving = |board: &Table<P>, wire| board.share().moving_name() == Some(wire);
        !self.memory.shared.is_empty()
            || self.direct.offers.iter().any(|offer| {
                let board = self.direct.boards[offer.peer as usize].as_deref();
                board.is_some_and(|board| moving(board, self.messages.requests.wire(offer.handle)))
            })
            || self.direct.receives.iter().any(|handle| {
                let request = self.messages.requests.get(*handle);
                let Some(Request { ticket: Some(ticket), state: State::Posted(receive), .. }) = request else {
                    return false;
                };
                let board = self.memory.board_with(*ticket, receive.peer);
                board.is_some_and(|board| matches!(board.fate(*ticket), Fate::Taken(_)))
            })
    }

    /// Copies what it can of the message that `send` has announced as `wire`, if its receiver is copying it.
    fn help(&mut self, peer: u32, wire: u32, send: &Send) {
        let pid = self.memory.pids[peer as usize];
        let copies = self.memory.copies.clone();
        let Some(board) = self.board_of(peer) else { return };
        let mut last = false;
        while let Some(piece) = board.share().take_back(wire) {
            let copied = piece.range.end <= send.data.len()
                // Announced with its address, so it is one run.
                && crate::memory::deliver(&copies, pid, piece.address, &send.data, piece.range.clone(), &mut Vec::new()).is_ok();
            last = board.share().moved(&piece, copied);
        }
        self.memory.copied = true;
        if last {
            self.tell(peer);
        }
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
            let (send, wire) = (send.clone(), self.messages.requests.wire(offer.handle));
            if send.blocking && self.board_of(offer.peer).and_then(|board| board.share().open_name()) == Some(wire) {
                self.help(offer.peer, wire, &send);
            }
            let posted = self.board_of(offer.peer).map(|board| board.posted());
            // A receiver that is inside MPI fetches it, and we can help.
            if posted.is_none() || posted == offer.posted || self.is_attentive(offer.peer) {
                return true;
            }
            offer.posted = posted;
            !self.write(offer.peer, offer.handle, &send, Some(offer.number))
        });
        self.direct.offers = offers;
    }
}

fn broken(who: &str, cause: &str) -> Error {
    Error::new(OTHER, format!("the copy between this process and {who} failed: {cause}"))
}
