//! Large receives that a process of the node has posted for its senders to see, and messages that both sides
//! copy at the same time. A sender can write its message to such a receive by itself (one copy).
//!
//! The implementation decides how senders and receivers agree on the owner of a receive; `crate::engine` says
//! what it relies on.
//!
//! `engine/single_copy.rs` uses the tables; shared memory in `weft-net` and the simulator implement them.

use std::ops::Range;

use super::absent::part;

/// The bits of a message's number that an entry has room for.
pub const NUMBER_BITS: u32 = 21;

/// The messages that a sender has announced to a receiver and that are not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Announcements {
    /// At most one.
    #[default]
    One,
    /// Several: the sender may compute before it waits for them.
    Several,
    /// A window: the sender waits for its messages as soon as all are started.
    Window,
}

/// A receive as it is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostedReceive {
    /// Context of the communicator.
    pub context: u32,
    /// Tag, `None` for any.
    pub tag: Option<i32>,
    /// The address of the memory for the message, in the receiver's address space.
    pub address: u64,
    /// The bytes of that memory.
    pub length: u64,
    /// Set when the program waits for the receive in the call that has posted it.
    pub awaited: bool,
}

/// The receiver's name for a receive that it has posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Set when the receive stands on the common table.
    pub common: bool,
    /// The entry of the receive on its table.
    pub entry: u8,
    /// The number that tells this receive from others that have stood in the same entry.
    pub word: u32,
}

/// A message that is offered to the posted receives.
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    /// Context of the communicator.
    pub context: u32,
    /// Rank of the sender in the communicator.
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// The number of the previous message that went to this receiver.
    pub before: u32,
    /// The number of messages right before this one that the sender has announced, and then written itself.
    /// Each of them has its receive. The receiver may not have handled their announcements.
    pub written: u32,
    /// The message's own number, if it has been announced in the ring as well.
    pub number: Option<u32>,
}

impl Offered {
    /// Returns whether the first `count` messages do not include this one, and include each earlier one that
    /// the sender has not written itself.
    pub const fn stands_at(&self, count: u32) -> bool {
        self.before.wrapping_sub(count) <= self.written
    }
}

/// The sender's name for a receive that it has taken, and the memory for the message.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Set when the receive stands on the common table.
    pub common: bool,
    /// The entry of the receive on its table.
    pub entry: u8,
    /// The number that tells this receive from others that have stood in the same entry, and its taker.
    pub word: u64,
    /// Rank of the sender in the communicator.
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// The address of the memory for the message, in the receiver's address space.
    pub address: u64,
    /// The bytes of that memory.
    pub length: u64,
}

/// The posted receives that a message matches, as far as the sender can see without taking one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// No receive on the table matches the message.
    None,
    /// A receive whose process may compute.
    Posted,
    /// Only receives for which processes wait inside MPI.
    Awaited,
}

/// The sender that has taken a posted receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taker {
    /// The local rank of the sender.
    pub by: usize,
    /// The number of the sender's message modulo 2²¹, when it has been announced in the ring as well: see
    /// [`number_near`].
    pub announced: Option<u32>,
}

/// The beginning of a message, which the sender has not written: both sides wait, so it is to go a quicker
/// way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// The length of that part in bytes.
    pub bytes: u64,
    /// The sender's name for the message.
    pub request: u32,
}

/// The state of a posted receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostState {
    /// No sender has taken it.
    Open,
    /// A sender has taken it and is writing.
    Taken(Taker),
    /// The message has been written, as much of it as has room.
    Done {
        /// The sender that has written it.
        taker: Taker,
        /// The sender's rank in the communicator.
        source: u32,
        /// The message's tag.
        tag: i32,
        /// The message's length in bytes, which may exceed the room.
        total: u64,
        /// The part of the message that has not been written.
        rest: Option<Remainder>,
    },
    /// A sender has taken it and could not write.
    Failed,
}

/// The most announced messages of a sender to one receiver that it may relocate at a time.
pub const RELOCATED_MAX: usize = 8;

/// The number nearest to `handled` whose low bits are `low`. Fewer messages are on their way than half of the
/// numbers that the low bits can tell apart.
pub fn number_near(low: u32, handled: u32) -> u32 {
    let shift = u32::BITS - NUMBER_BITS;
    let ahead = (low.wrapping_sub(handled) << shift) as i32 >> shift;
    handled.wrapping_add_signed(ahead)
}

part! {
    /// Receives that processes of the node have posted for each other, each table for two processes, and the
    /// news that both need to copy a message once.
    pub trait PostedReceives {
        type {
            /// The receives that two processes have posted for each other.
            Table: PostedTable,
        }

        /// The table on which this process posts receives from `sender`; none without the memory for it.
        fn own_table(&mut self, sender: usize) -> Option<Self::Table>;

        /// The table on which this process posts receives from any source; none without the memory for it.
        fn any_source_table(&mut self) -> Option<Self::Table>;

        /// The table on which `receiver` posts for this process; none as long as it has never used it.
        fn table_of(&mut self, receiver: usize) -> Option<Self::Table>;

        /// Tells `receiver` that one of its messages, or a part of one, has been copied; wakes it if it
        /// sleeps.
        fn announce_written(&mut self, receiver: usize);

        /// Returns whether a sender has told this process of a copy since the last call.
        fn take_written(&mut self) -> bool;

        /// Tells the others whether this process waits inside MPI.
        fn set_inside_mpi(&self, waits: bool);

        /// Returns whether `peer` waits inside MPI.
        fn is_inside_mpi(&self, peer: usize) -> bool;

        /// Tells the others whether this process may copy from the memory of all of them.
        fn say_copies(&self, from_all: bool);

        /// The answer of the process with a local rank: whether it may copy from the memory of all; `None`:
        /// none yet. A process gives its answer when it joins, and waits for no other process before.
        fn says_copies(&self, local_rank: usize) -> Option<bool>;
    }
}

part! {
    /// An end of a table of posted receives.
    ///
    /// The receiver posts, withdraws and frees; the sender takes and finishes. Exactly one of them gets a
    /// posted receive, and both know which.
    pub trait PostedTable {
        type {
            /// The message that both sides copy at the same time.
            Cooperation: Cooperation,
        }

        /// The message that both sides copy at this time; its name is that of the sender's request.
        fn cooperative_copy(&self) -> &Self::Cooperation;

        /// Says which messages are announced to the receiver at this time (sender).
        fn note_announcements(&mut self, announcements: Announcements);

        /// Returns whether the sender has announced several messages and waits for them inside MPI, or
        /// announces a window (receiver).
        fn sender_awaits_several(&self) -> bool;

        /// Announces that the data of the announced message `request` lies at `address` now (sender), in the
        /// place `place` below [`RELOCATED_MAX`]; with `None` the place is free again. Later writes to the
        /// message's first place come after this.
        fn note_relocated(&self, place: usize, relocated: Option<(u32, u64)>);

        /// The address where the data of the announced message `request` lies now, if not where it was
        /// announced (receiver). The receiver asks after it has copied.
        fn relocated(&self, request: u32) -> Option<u64>;

        /// Announces whether this process is fetching messages of the sender, one after the other (receiver).
        fn note_fetching(&self, fetching: bool);

        /// Returns whether the receiver is fetching messages of this process (sender).
        fn is_receiver_fetching(&self) -> bool;

        /// The number of receives that the receiver has ever posted; the sender sees by it whether there is a
        /// new one.
        fn posted(&self) -> u32;

        /// Announces that message `handled` of the sender is being handled (receiver); called before any
        /// receive is withdrawn for it.
        fn advance(&mut self, handled: u32);

        /// Announces that all handled messages have found their receives, or have none yet (receiver).
        fn publish_matched(&mut self);

        /// Posts a receive (receiver). None: the table is full.
        fn post(&mut self, receive: &PostedReceive) -> Option<Ticket>;

        /// Takes a posted receive back (receiver). Returns false if a sender has taken it; [`Self::state`]
        /// says more.
        fn withdraw(&mut self, ticket: Ticket) -> bool;

        /// The state of a posted receive (receiver).
        fn state(&self, ticket: Ticket) -> PostState;

        /// Frees the entry of a posted receive that is done or has failed (receiver).
        fn free(&mut self, ticket: Ticket);

        /// Takes the earliest receive on either table that `message` matches (sender). All earlier messages
        /// of this sender must have found their receives, and `message` itself must not be in handling.
        fn take(&mut self, message: &Offered) -> Option<Claim>;

        /// The kind of receive posted in `context` that a message with `tag` matches (sender): a hint, no
        /// receive is taken.
        fn candidate(&self, context: u32, tag: i32) -> Candidate;

        /// Returns whether a receive stands here that no sender has taken (sender): a hint.
        fn is_wanted(&self) -> bool;

        /// Ends the writing of a message of `total` bytes (sender): it has been written, but for `rest`, or
        /// it could not be.
        fn finish(&mut self, claim: &Claim, total: u64, rest: Option<Remainder>, written: bool);
    }
}

/// A piece of a message that one side has taken to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The address of the message in the memory of the side that has begun.
    pub address: u64,
    /// The bytes of the message that are to be moved.
    pub range: Range<u64>,
    /// The number of units of the implementation that the piece has.
    pub units: u32,
}

/// The end of a message that both sides copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Pieces are still being moved.
    Open,
    /// All of the message is there.
    Moved,
    /// A piece could not be moved.
    Failed,
}

part! {
    /// A message that both of its sides copy at the same time, each a part: the receiver takes pieces from
    /// the front, the sender from the back.
    pub trait Cooperation {
        /// Begins with a message of `length` bytes that both sides know as `name`, and that lies at `address`
        /// here. Returns false if the last message is not complete, or if there is nothing to be shared.
        fn begin(&self, name: u32, address: u64, length: u64) -> bool;

        /// The message of which a piece is left to be taken.
        fn open_name(&self) -> Option<u32>;

        /// The message of which a piece is being moved or left to be moved.
        fn moving_name(&self) -> Option<u32>;

        /// Takes a piece from the front (the side that has begun).
        fn take_front(&self) -> Option<Piece>;

        /// Takes a piece of the message `name` from the back (the other side).
        fn take_back(&self, name: u32) -> Option<Piece>;

        /// Notes that a piece has been moved, or could not be; returns whether it was the last piece under
        /// way.
        fn moved(&self, piece: &Piece, success: bool) -> bool;

        /// The end of the message (for the side that has begun).
        fn ending(&self) -> Ending;
    }
}
