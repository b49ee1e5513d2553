//! Large receives that a process of the node has posted where their senders see them, so that a sender can
//! write its message itself (one copy), and messages that both sides copy at the same time.
//!
//! How senders and receivers agree on who has a receive is the business of the implementation;
//! `crate::engine` says what it relies on.

use std::ops::Range;

use super::absent::part;

/// Bits of a message's number that an entry has room for.
pub const NUMBER_BITS: u32 = 21;

/// A receive as it is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostedReceive {
    /// Context of the communicator.
    pub context: u32,
    /// Tag, `None` for any.
    pub tag: Option<i32>,
    /// Where the message goes, in the receiver's memory.
    pub address: u64,
    /// Bytes there.
    pub length: u64,
    /// Whether the program waits for it in the call that has posted it.
    pub awaited: bool,
}

/// The receiver's name for what it has posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Whether it stands on the common table.
    pub common: bool,
    /// Its entry there.
    pub entry: u8,
    /// Which of the receives that have stood there it is.
    pub word: u32,
}

/// A message that is offered to what is posted.
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    /// Context of the communicator.
    pub context: u32,
    /// Rank of the sender in the communicator.
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// Number of the message that went to this receiver before it.
    pub before: u32,
    /// Its own number, if it has been announced in the ring as well.
    pub number: Option<u32>,
}

/// The sender's name for what it has taken, and where the message goes.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Whether it stands on the common table.
    pub common: bool,
    /// Its entry there.
    pub entry: u8,
    /// Which of the receives that have stood there it is, and who has taken it.
    pub word: u64,
    /// Rank of the sender in the communicator.
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// In the receiver's memory.
    pub address: u64,
    /// Bytes there.
    pub length: u64,
}

/// What of a table a message matches, as far as one can see without taking anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// Nothing that it matches stands there.
    None,
    /// A receive whose process may compute.
    Posted,
    /// Only receives in which processes wait.
    Awaited,
}

/// Who has taken a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taker {
    /// Local rank of the sender.
    pub by: usize,
    /// The number of its message modulo 2²¹, when that has been announced in the ring as well: see
    /// [`number_near`].
    pub announced: Option<u32>,
}

/// The beginning of a message that the sender has not written: both sides wait, so it shall go a quicker way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// Its length.
    pub bytes: u64,
    /// The sender's name for the message.
    pub request: u32,
}

/// What has become of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostState {
    /// Nobody has taken it.
    Open,
    /// The sender is writing.
    Taken(Taker),
    /// The message has been written, as much of it as has room.
    Done {
        /// Who has written it.
        taker: Taker,
        /// The sender's rank in the communicator.
        source: u32,
        /// The message's tag.
        tag: i32,
        /// Its length in bytes, which may be more than there is room for.
        total: u64,
        /// What of it has not been written.
        rest: Option<Remainder>,
    },
    /// The sender could not write.
    Failed,
}

/// The number nearest to `handled` of which `low` are the low bits: fewer messages than half of those numbers
/// are on their way.
pub fn number_near(low: u32, handled: u32) -> u32 {
    let shift = u32::BITS - NUMBER_BITS;
    let ahead = (low.wrapping_sub(handled) << shift) as i32 >> shift;
    handled.wrapping_add_signed(ahead)
}

part! {
    /// Receives that processes of the node have posted for each other, on tables of two of them, and what
    /// both need to know to copy a message once.
    pub trait PostedReceives {
        type {
            /// The receives that two processes have posted for each other.
            Table: PostedTable,
        }

        /// The table on which this process posts receives from `sender`; none without the memory for it.
        fn own_table(&mut self, sender: usize) -> Option<Self::Table>;

        /// The table on which it posts receives from anybody; none without the memory for it.
        fn any_source_table(&mut self) -> Option<Self::Table>;

        /// The table on which `receiver` posts for this process; none as long as it has never used it.
        fn table_of(&mut self, receiver: usize) -> Option<Self::Table>;

        /// Tells `receiver` that one of its messages has been copied, or a part of it; wakes it if it sleeps.
        fn announce_written(&mut self, receiver: usize);

        /// Whether that has been told to this process since the last call.
        fn take_written(&mut self) -> bool;

        /// Says to others whether this process waits inside MPI.
        fn set_inside_mpi(&self, waits: bool);

        /// Whether `peer` waits inside MPI.
        fn is_inside_mpi(&self, peer: usize) -> bool;

        /// Says to others whether this process may copy from the memory of all of them.
        fn say_copies(&self, from_all: bool);

        /// What the process with a local rank has said of that; `None`: nothing yet. It says it when it
        /// joins, and waits for nobody before.
        fn says_copies(&self, local_rank: usize) -> Option<bool>;
    }
}

part! {
    /// One end of a table of posted receives. The receiver posts, withdraws and frees; the sender takes and
    /// finishes. A post is taken by one of them exactly, and all know by whom.
    pub trait PostedTable {
        type {
            /// What both sides copy at the same time.
            Cooperation: Cooperation,
        }

        /// The message that both sides copy at this time; its name is that of the sender's request.
        fn cooperative_copy(&self) -> &Self::Cooperation;

        /// Says whether several messages are announced to the receiver at this time (sender).
        fn note_several(&self, several: bool);

        /// Whether the sender has announced several messages and waits for them inside MPI (receiver).
        fn sender_awaits_several(&self) -> bool;

        /// How many receives the receiver has ever posted; for the sender, to see whether there is anything
        /// new.
        fn posted(&self) -> u32;

        /// Says that message `handled` of the sender is being handled (receiver): before any receive is
        /// withdrawn for it.
        fn advance(&mut self, handled: u32);

        /// Says that all messages that have been handled have found their receives, or have none yet
        /// (receiver).
        fn publish_matched(&mut self);

        /// Posts a receive (receiver). None: the table is full.
        fn post(&mut self, receive: &PostedReceive) -> Option<Ticket>;

        /// Takes a post back (receiver). False: a sender has taken it, and [`Self::state`] says more.
        fn withdraw(&mut self, ticket: Ticket) -> bool;

        /// What has become of a post (receiver).
        fn state(&self, ticket: Ticket) -> PostState;

        /// Frees the entry of a post that is done or has failed (receiver).
        fn free(&mut self, ticket: Ticket);

        /// Takes the earliest receive that `message` matches (sender), on either table, if all messages of
        /// this sender before it have found their receives, and it is not being handled itself.
        fn take(&mut self, message: &Offered) -> Option<Claim>;

        /// What is posted of `context` that a message with `tag` matches (sender): a hint, nothing is taken.
        fn candidate(&self, context: u32, tag: i32) -> Candidate;

        /// Whether a receive stands here that nobody has taken (sender): a hint.
        fn is_wanted(&self) -> bool;

        /// The message of `total` bytes has been written, but for `rest`; or it could not be (sender).
        fn finish(&mut self, claim: &Claim, total: u64, rest: Option<Remainder>, written: bool);
    }
}

/// A piece of a message that one side has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where the message begins in the memory of the side that has begun.
    pub address: u64,
    /// Which of its bytes are to be moved.
    pub range: Range<u64>,
    /// How many units of the implementation these are.
    pub units: u32,
}

/// How a message ended that both sides copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Pieces are still being moved.
    Open,
    /// All of it is there.
    Moved,
    /// A piece could not be moved.
    Failed,
}

part! {
    /// A message that both of its sides copy at the same time, each a part: the receiver takes pieces from
    /// the front, the sender from the back.
    pub trait Cooperation {
        /// Begins with a message of `length` bytes that both know as `name`, and that lies at `address` here.
        /// False: the last one is not complete, or there is nothing to be shared.
        fn begin(&self, name: u32, address: u64, length: u64) -> bool;

        /// The message of which something is left to be taken.
        fn open_name(&self) -> Option<u32>;

        /// The message of which something is being moved or left to be moved.
        fn moving_name(&self) -> Option<u32>;

        /// Takes a piece from the front (who has begun).
        fn take_front(&self) -> Option<Piece>;

        /// Takes a piece of the message `name` from the back (the other).
        fn take_back(&self, name: u32) -> Option<Piece>;

        /// A piece has been moved, or could not be; whether it was the last one under way.
        fn moved(&self, piece: &Piece, success: bool) -> bool;

        /// What has become of the message (who has begun).
        fn ending(&self) -> Ending;
    }
}
