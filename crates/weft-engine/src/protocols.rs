//! Which protocol carries a message. Nothing here moves a byte; `crate::engine` collects the [`Facts`], asks
//! [`Choices::choose`], and does what it says.
//!
//! Each protocol is a row of [`ROWS`]: when it is possible, and what it costs as a function of the size and
//! the situation. Costs come from a [`CostModel`]. For a class of peers and a situation the rows are compiled
//! into ranges of sizes once; a message looks its size up.
//!
//! Thresholds and their reasons are in docs/decisions/0107 (a node), 0069 and 0079 (between nodes), 0193
//! (what carriers write by themselves); 0204 says how costs take the place of thresholds.

mod choices;
mod costs;
mod rows;

use crate::transport::Candidate;

pub use choices::{Choices, Range, offers};
pub use costs::{COST_PS_MAX, Cost, CostModel};
pub use rows::{Offer, ROWS, Row};

/// Larger messages go through a ring in pieces, of this size at least: while the receiver copies one out, the
/// sender copies the next one in.
pub const RING_PIECE_BYTES: u64 = 8 << 10;
/// A path is busy while more bytes than this are queued for the peer or not acknowledged by it. The round
/// trip of an announcement passes unnoticed then, and what is announced needs no copy in the flow's queue.
/// Onto an idle path messages leave at once, and so do those that their sender waits for.
pub const BUSY_BYTES: usize = 32 << 10;
/// Largest frame of the smallest ring in which two sides do not hinder each other.
const PIPE_FRAME_MIN: u64 = 64 << 10;

/// Largest message that is sent unasked where neither `WEFT_EAGER_LIMIT` nor the route says another, bytes,
/// by the costs that are built in.
pub const EAGER_LIMIT: u64 = CostModel::BUILT_IN.eager_limit();

/// Whether rings with frames of at most so many bytes are large enough that both sides copy at once.
pub const fn is_wide(frame_max: u64) -> bool {
    frame_max >= PIPE_FRAME_MIN
}

/// Peers to which messages travel in the same way. It does not change from one message to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerClass {
    /// The route.
    pub route: RouteClass,
    /// What a message may be to be sent unasked on this route, bytes: [`eager_limit`].
    pub eager_limit: u64,
}

/// What is known of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteClass {
    /// To this process itself.
    Myself,
    /// Through a ring in shared memory.
    Ring {
        /// Bytes of payload of its largest frame.
        frame_max: u64,
        /// Plain stores to it are quick: its two processors share a cache, as far as is known.
        is_near: bool,
        /// The two processes may copy from and to each other's memory.
        is_copied: bool,
    },
    /// Over a network.
    Network,
}

/// What is known of the receiver, on a node; between nodes nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The receives that it has posted where this sender sees them, and that the message matches.
    pub posted: Candidate,
    /// It waits inside MPI.
    pub is_inside: bool,
    /// Something that was announced to it waits for its receive, or to be fetched.
    pub has_announced: bool,
}

impl Receiver {
    /// One of whom nothing is known.
    pub const UNKNOWN: Self = Self { posted: Candidate::None, is_inside: false, has_announced: false };
}

/// Everything but the size and the peer that the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// The sender must hear of the match (MPI-5.0 §3.4).
    pub is_synchronous: bool,
    /// The program waits for the message in the call that starts it.
    pub is_blocking: bool,
    /// Its data is one run of memory.
    pub is_contiguous: bool,
    /// The receiver has room for it unasked at present.
    pub has_credit: bool,
    /// More than [`BUSY_BYTES`] of earlier messages are queued or not acknowledged, on a network.
    pub is_path_busy: bool,
    /// The receiver.
    pub receiver: Receiver,
    /// The message could not be written to the receive that is posted: another has it, or an earlier message
    /// has not found its own.
    pub write_failed: bool,
}

/// Everything that the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of the message.
    pub bytes: u64,
    /// The peer.
    pub class: PeerClass,
    /// The rest.
    pub situation: Situation,
}

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// It is sent unasked, in pieces if it is long.
    Eager,
    /// It is sent unasked although it is longer than the eager limit: both sides copy at the same time, each
    /// its half of the way.
    Pipeline,
    /// Its sender writes it to the receive that is posted. If that fails the choice is made again, with
    /// [`Situation::write_failed`].
    WriteToPosted,
    /// It is announced with its address, so that its receiver, a process of the node, can fetch it.
    Fetch,
    /// It is announced with its address, and each side copies a part of it.
    Cooperate,
    /// It is announced without an address: its receiver asks for it.
    ClearToSend,
}

/// Why, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is at most the limit for messages that are sent unasked, and there is credit.
    Fits,
    /// It is longer, but both sides wait for it, and copying at both ends of the ring at once is quickest.
    BothWait,
    /// A receive that it matches is posted, and its process computes.
    Posted,
    /// It is longer than what is sent unasked.
    TooLong,
    /// Unacknowledged messages wait before it, so the round trip of an announcement costs nothing.
    Busy,
    /// The receiver has not room for more unasked bytes at present.
    NoCredit,
    /// The receiver waits for it inside MPI, and will fetch it.
    Fetched,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fits => "it is short enough to be sent unasked",
            Self::BothWait => "both sides wait for it, and copy at the same time through the ring",
            Self::Posted => "its receive is posted, and the receiver computes",
            Self::TooLong => "it is longer than what is sent unasked",
            Self::Busy => "earlier messages are on their way, so its announcement costs no time",
            Self::NoCredit => "the receiver has no room for more unasked messages at present",
            Self::Fetched => "the receiver waits inside MPI, and fetches it",
        })
    }
}

/// Largest message that is sent unasked on a route, bytes: what the user has `said`, or what suits the route.
/// `placed_above`: longer ones are better announced there, since the carrier writes them to where they belong
/// ([`crate::transport::Placement::eager_max`]).
pub fn eager_limit(said: Option<u64>, costs: &CostModel, placed_above: u64) -> u64 {
    said.unwrap_or_else(|| costs.eager_limit().min(placed_above))
}

#[cfg(test)]
mod tests;
