//! Receives that simulated processes post for their senders: lists, searched from the beginning, as
//! `weft_engine::transport` describes them.
//!
//! No entry is used again and no words are compared, so that a reader sees that the model is right.

use super::{NodeMemory, SharedMemory};
use crate::job::moments::Moments;
use weft_engine::transport::{
    Announcements, Candidate, Claim, Cooperation, Ending, NUMBER_BITS, Offered, Piece, PostState, PostedReceive,
    PostedTable, Remainder, Taker, Ticket,
};

/// Bytes of a unit of a message that both sides copy.
const UNIT_BYTES: u64 = 16 << 10;

/// A receive that has been posted.
pub(in crate::job) struct Posted {
    /// The number of the receive in the order of posting.
    order: u32,
    /// The sender for which the receive is posted; the receiver itself stands for any sender.
    sender: usize,
    /// The name of the receive, unique on the node.
    word: u32,
    receive: PostedReceive,
    state: PostState,
}

/// An end of a table of posted receives.
pub(in crate::job) struct Table {
    memory: SharedMemory,
    receiver: usize,
    /// The sender; the receiver itself stands for the common table.
    sender: usize,
    share: Share,
    moments: Moments,
}

impl Table {
    pub(super) fn new(memory: SharedMemory, receiver: usize, sender: usize, moments: Moments) -> Self {
        let share = Share { memory: memory.clone(), receiver, sender, moments: moments.clone() };
        Self { memory, receiver, sender, share, moments }
    }

    /// The earliest open receive for this sender that matches a message with this context and tag.
    fn find(&self, memory: &NodeMemory, context: u32, tag: i32) -> Option<usize> {
        let neighbour = &memory.neighbours[self.receiver];
        let fits = |post: &Posted| {
            (post.sender == self.sender || post.sender == self.receiver)
                && post.state == PostState::Open
                && post.receive.context == context
                && post.receive.tag.is_none_or(|wanted| wanted == tag)
        };
        let earliest = neighbour.posts.iter().enumerate().filter(|(_, post)| fits(post));
        earliest.min_by_key(|(_, post)| post.order).map(|(at, _)| at)
    }
}

impl PostedTable for Table {
    type Cooperation = Share;

    fn cooperative_copy(&self) -> &Share {
        &self.share
    }

    fn note_announcements(&mut self, announcements: Announcements) {
        self.memory.borrow_mut().pair(self.receiver, self.sender).announcements = announcements;
    }

    fn sender_awaits_several(&self) -> bool {
        let mut memory = self.memory.borrow_mut();
        match memory.pair(self.receiver, self.sender).announcements {
            Announcements::One => false,
            Announcements::Several => memory.is_inside_mpi(self.sender),
            Announcements::Window => true,
        }
    }

    fn note_relocated(&self, place: usize, relocated: Option<(u32, u64)>) {
        self.memory.borrow_mut().pair(self.receiver, self.sender).relocated[place] = relocated;
        self.moments.pass();
    }

    fn relocated(&self, request: u32) -> Option<u64> {
        let mut memory = self.memory.borrow_mut();
        let relocated = memory.pair(self.receiver, self.sender).relocated;
        relocated.into_iter().flatten().find(|(name, _)| *name == request).map(|(_, address)| address)
    }

    fn note_fetching(&self, fetching: bool) {
        self.memory.borrow_mut().pair(self.receiver, self.sender).fetching = fetching;
    }

    fn is_receiver_fetching(&self) -> bool {
        self.memory.borrow_mut().pair(self.receiver, self.sender).fetching
    }

    fn posted(&self) -> u32 {
        self.memory.borrow().neighbours[self.receiver].posted
    }

    fn advance(&mut self, handled: u32) {
        self.memory.borrow_mut().pair(self.receiver, self.sender).handled = handled;
        self.moments.pass();
    }

    fn publish_matched(&mut self) {
        {
            let mut memory = self.memory.borrow_mut();
            let pair = memory.pair(self.receiver, self.sender);
            pair.settled = pair.handled;
        }
        self.moments.pass();
    }

    fn post(&mut self, receive: &PostedReceive) -> Option<Ticket> {
        let ticket = {
            let mut memory = self.memory.borrow_mut();
            let entries = memory.habits.entries;
            let neighbour = &memory.neighbours[self.receiver];
            if neighbour.posts.iter().filter(|post| post.sender == self.sender).count() >= entries {
                return None;
            }
            memory.serial = memory.serial.wrapping_add(1);
            let word = memory.serial;
            let neighbour = &mut memory.neighbours[self.receiver];
            neighbour.posted += 1;
            let order = neighbour.posted;
            neighbour.posts.push(Posted {
                order,
                sender: self.sender,
                word,
                receive: *receive,
                state: PostState::Open,
            });
            Ticket { common: self.sender == self.receiver, entry: 0, word }
        };
        self.moments.pass();
        Some(ticket)
    }

    fn withdraw(&mut self, ticket: Ticket) -> bool {
        self.moments.pass();
        let posts = &mut self.memory.borrow_mut().neighbours[self.receiver].posts;
        let open = posts.iter().position(|post| post.word == ticket.word && post.state == PostState::Open);
        if cfg!(weft_mutant = "withdrawn_receive_written_to") {
            return open.is_some();
        }
        open.map(|at| posts.remove(at)).is_some()
    }

    fn state(&self, ticket: Ticket) -> PostState {
        let memory = self.memory.borrow();
        let post = memory.neighbours[self.receiver].posts.iter().find(|post| post.word == ticket.word);
        post.map_or(PostState::Failed, |post| post.state)
    }

    fn free(&mut self, ticket: Ticket) {
        self.memory.borrow_mut().neighbours[self.receiver].posts.retain(|post| post.word != ticket.word);
    }

    fn take(&mut self, message: &Offered) -> Option<Claim> {
        self.moments.pass();
        let claim = {
            let mut memory = self.memory.borrow_mut();
            let pair = memory.pair(self.receiver, self.sender);
            let is_next = message.stands_at(pair.settled) && message.stands_at(pair.handled);
            if !is_next && !cfg!(weft_mutant = "ring_overtaken") {
                return None;
            }
            let at = self.find(&memory, message.context, message.tag)?;
            memory.taken += 1;
            let announced = message.number.map(|number| number & ((1 << NUMBER_BITS) - 1));
            let post = &mut memory.neighbours[self.receiver].posts[at];
            post.state = PostState::Taken(Taker { by: self.sender, announced });
            let PostedReceive { address, length, .. } = post.receive;
            let (common, word) = (post.sender == self.receiver, u64::from(post.word));
            Claim { common, entry: 0, word, source: message.source, tag: message.tag, address, length }
        };
        self.moments.pass();
        Some(claim)
    }

    fn candidate(&self, context: u32, tag: i32) -> Candidate {
        let memory = self.memory.borrow();
        let mut candidate = Candidate::None;
        for post in &memory.neighbours[self.receiver].posts {
            let ours = post.sender == self.sender || post.sender == self.receiver;
            let matches = post.receive.context == context && post.receive.tag.is_none_or(|wanted| wanted == tag);
            if !ours || !matches || post.state != PostState::Open {
                continue;
            }
            if !post.receive.awaited {
                return Candidate::Posted;
            }
            candidate = Candidate::Awaited;
        }
        candidate
    }

    fn is_wanted(&self) -> bool {
        self.moments.pass();
        let memory = self.memory.borrow();
        let ours = |post: &Posted| post.sender == self.sender || post.sender == self.receiver;
        memory.neighbours[self.receiver].posts.iter().any(|post| ours(post) && post.state == PostState::Open)
    }

    fn finish(&mut self, claim: &Claim, total: u64, rest: Option<Remainder>, written: bool) {
        let mut memory = self.memory.borrow_mut();
        let posts = &mut memory.neighbours[self.receiver].posts;
        let Some(post) = posts.iter_mut().find(|post| u64::from(post.word) == claim.word) else { return };
        let PostState::Taken(taker) = post.state else { return };
        let Claim { source, tag, .. } = *claim;
        post.state = if written { PostState::Done { taker, source, tag, total, rest } } else { PostState::Failed };
    }
}

/// A message that two processes copy at the same time.
#[derive(Default)]
pub(in crate::job) struct Sharing {
    name: u32,
    address: u64,
    length: u64,
    /// Units that neither process has taken.
    begin: u64,
    end: u64,
    /// The number of units that have not been moved.
    left: u64,
    failed: bool,
}

/// The end that a process has of a shared copy.
pub(in crate::job) struct Share {
    memory: SharedMemory,
    receiver: usize,
    sender: usize,
    moments: Moments,
}

impl Share {
    fn with<R>(&self, look: impl FnOnce(&mut Sharing) -> R) -> R {
        look(&mut self.memory.borrow_mut().pair(self.receiver, self.sender).sharing)
    }

    fn take(&self, from_front: bool, name: Option<u32>) -> Option<Piece> {
        self.moments.pass();
        let chance = self.memory.borrow_mut().random.next();
        let piece = self.with(|sharing| {
            let open = sharing.end - sharing.begin;
            if open == 0 || name.is_some_and(|name| name != sharing.name) {
                return None;
            }
            let units = 1 + chance % open.div_ceil(2);
            let first = if from_front {
                sharing.begin += units;
                sharing.begin - units
            } else {
                sharing.end -= units;
                sharing.end
            };
            let at = |unit: u64| (unit * UNIT_BYTES).min(sharing.length);
            Some(Piece { address: sharing.address, range: at(first)..at(first + units), units: units as u32 })
        })?;
        if !from_front {
            self.memory.borrow_mut().shared += 1;
        }
        self.moments.pass();
        Some(piece)
    }
}

impl Cooperation for Share {
    fn begin(&self, name: u32, address: u64, length: u64) -> bool {
        let units = length.div_ceil(UNIT_BYTES);
        self.with(|sharing| {
            let begins = sharing.left == 0 && units >= 2;
            if begins {
                *sharing = Sharing { name, address, length, begin: 0, end: units, left: units, failed: false };
            }
            begins
        })
    }

    fn open_name(&self) -> Option<u32> {
        self.with(|sharing| (sharing.begin < sharing.end).then_some(sharing.name))
    }

    fn moving_name(&self) -> Option<u32> {
        self.with(|sharing| (sharing.left > 0).then_some(sharing.name))
    }

    fn take_front(&self) -> Option<Piece> {
        self.take(true, None)
    }

    fn take_back(&self, name: u32) -> Option<Piece> {
        self.take(false, Some(name))
    }

    fn moved(&self, piece: &Piece, success: bool) -> bool {
        self.with(|sharing| {
            sharing.failed |= !success;
            sharing.left -= u64::from(piece.units);
            sharing.left == 0
        })
    }

    fn ending(&self) -> Ending {
        self.moments.pass();
        self.with(|sharing| match (sharing.left, sharing.failed) {
            (0, false) => Ending::Moved,
            (0, true) => Ending::Failed,
            _ => Ending::Open,
        })
    }
}
