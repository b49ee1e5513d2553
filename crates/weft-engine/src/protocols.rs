//! The choice of the protocol that carries a message.
//!
//! Nothing here moves a byte; `crate::engine` collects the [`Facts`], asks [`Choices::choose`], and follows
//! the answer.
//!
//! Each protocol is a row of [`ROWS`]: when it is possible, and what it costs as a function of the size and
//! the situation. Costs come from a [`CostModel`]. For a class of peers and a situation the rows are compiled
//! into ranges of sizes once; a message looks its size up.
//!
//! Thresholds and their reasons are in docs/design/node.md (a node), docs/design/flow.md
//! and docs/design/message.md (between nodes) and docs/design/rdma.md (writes by carriers).
//! docs/design/message.md says how costs take the place of thresholds.

mod calibration;
mod choices;
mod costs;
mod early_announcements;
mod message_windows;
mod refinement;
mod rows;

use crate::transport::Candidate;

pub use calibration::{
    CALIBRATION_LONG_BYTES, CALIBRATION_PIECE_BYTES, CALIBRATION_ROUNDS_MAX, CALIBRATION_ROUNDS_MIN,
    CALIBRATION_SHORT_BYTES, CalibrationRound, CalibrationSamples, Disturbed, KernelTimes,
};
pub use choices::{Choices, Range, offers};
pub use costs::{COST_PS_MAX, Cost, CostModel, Explained};
pub(crate) use early_announcements::EarlyAnnouncements;
pub(crate) use message_windows::{Overlap, PeerWindows};
pub(crate) use refinement::{Copying, KernelTrials, Refinement};
pub(crate) use rows::Streams;
pub use rows::{Offer, ROWS, Row};

/// The size above which a message goes through a ring in pieces, in bytes. While the receiver copies one
/// piece out, the sender copies the next one in. Each piece costs a line that goes to the receiver and back.
pub const RING_PIECE_BYTES: u64 = 32 << 10;
/// The largest message whose receiver a sender on the node never asks for, whatever the costs, in bytes: such
/// a message is there before the answer would be.
pub const UNASKED_BYTES_MAX: u64 = 8 << 10;
/// The number of bytes, queued for the peer or not acknowledged by it, above which a path is busy.
///
/// On a busy path the round trip of an announcement passes unnoticed, and announced data needs no copy in the
/// flow's queue. Onto an idle path messages leave at once. So do messages for which their sender waits, on
/// any path.
pub const BUSY_BYTES: usize = 32 << 10;
/// The largest frame of the smallest ring in which two sides do not hinder each other, in bytes.
const PIPE_FRAME_MIN: u64 = 64 << 10;

/// The largest message that is sent eagerly by the built-in costs, in bytes, where neither `WEFT_EAGER_LIMIT`
/// nor the route sets another limit.
pub const EAGER_LIMIT: u64 = CostModel::BUILT_IN.eager_limit();

/// Returns whether rings with frames of at most this many bytes are large enough that both sides copy at
/// once.
pub const fn is_wide(frame_max: u64) -> bool {
    frame_max >= PIPE_FRAME_MIN
}

/// A class of peers to which messages travel in the same way. The class of a peer does not change between
/// messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerClass {
    /// The route.
    pub route: RouteClass,
    /// The largest message that is sent eagerly on this route, in bytes: [`eager_limit`].
    pub eager_limit: u64,
}

/// The route, as far as the choice depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteClass {
    /// To this process itself.
    Myself,
    /// Through a ring in shared memory.
    Ring {
        /// The most payload bytes of a frame of the ring.
        frame_max: u64,
        /// Set if plain stores to the ring are quick: its two processors share a cache, as far as is known.
        is_near: bool,
        /// Set if the two processes may copy from and to each other's memory.
        is_copied: bool,
    },
    /// Over a network.
    Network,
}

/// The sender's knowledge of the receiver, on a node; between nodes nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The matching receives that the receiver has posted where this sender sees them.
    pub posted: Candidate,
    /// Set while the receiver waits inside MPI.
    pub is_inside: bool,
    /// Set while an announced message waits for its receive, or to be fetched.
    pub has_announced: bool,
}

impl Receiver {
    /// A receiver of which nothing is known.
    pub const UNKNOWN: Self = Self { posted: Candidate::None, is_inside: false, has_announced: false };
}

/// The facts on which the choice depends, besides the size and the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// Set if the sender must hear of the match (MPI-5.0 §3.4).
    pub is_synchronous: bool,
    /// Set if the program waits for the message in the call that starts it.
    pub is_blocking: bool,
    /// Set if the data is one run of memory.
    pub is_contiguous: bool,
    /// Set if the sender has credit for the message at present. A message of a window that is longer than the
    /// eager limit has it only if the ring takes all of it: its receiver may be outside of MPI, and makes no
    /// room then.
    pub has_credit: bool,
    /// Set while earlier messages are on their way: on a network, more than [`BUSY_BYTES`] that are queued or
    /// not acknowledged; on a node, those of a window that the program waits for together.
    pub is_path_busy: bool,
    /// Set if the message belongs to a window, on a node, and the peer sends windows here at the same time.
    pub is_exchanged: bool,
    /// The receiver.
    pub receiver: Receiver,
    /// Set if the message could not be written to the posted receive: another message has it, or an earlier
    /// message has not found its own.
    pub write_failed: bool,
}

impl Situation {
    /// A message of one run of memory, for which the program waits at both ends, and which nothing hinders.
    pub const BOTH_WAIT: Self = Self {
        is_synchronous: false,
        is_blocking: true,
        is_contiguous: true,
        has_credit: true,
        is_path_busy: false,
        is_exchanged: false,
        receiver: Receiver { posted: Candidate::Awaited, is_inside: true, has_announced: false },
        write_failed: false,
    };
}

/// All facts on which the choice depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of the message.
    pub bytes: u64,
    /// The peer.
    pub class: PeerClass,
    /// The other facts.
    pub situation: Situation,
}

/// The protocol by which a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The message is sent eagerly, in pieces if it is long.
    Eager,
    /// The message is sent eagerly although it is longer than the eager limit: both sides copy at the same
    /// time, each its half of the way.
    Pipeline,
    /// The sender writes the message to the posted receive. If that fails the choice is made again, with
    /// [`Situation::write_failed`].
    WriteToPosted,
    /// The message is announced with its address, so that the receiver, a process of the node, can fetch it.
    Fetch,
    /// The message is announced with its address, and each side copies a part of it.
    Cooperate,
    /// The message is announced without an address: the receiver asks for it.
    ClearToSend,
}

/// The reason of a choice, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The message is within the eager limit, and there is credit.
    Fits,
    /// The message is longer, but both sides wait for it, and copying at both ends of the ring at once is
    /// quickest.
    BothWait,
    /// A matching receive is posted, and its process computes.
    Posted,
    /// The message is longer than the eager limit.
    TooLong,
    /// Unacknowledged messages wait before this one, so the round trip of an announcement costs nothing.
    Busy,
    /// Credit is missing for more eager bytes at present.
    NoCredit,
    /// The receiver waits for the message inside MPI, and will fetch it.
    Fetched,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fits => "it is within the eager limit",
            Self::BothWait => "both sides wait for it, and copy at the same time through the ring",
            Self::Posted => "its receive is posted, and the receiver computes",
            Self::TooLong => "it is longer than the eager limit",
            Self::Busy => "earlier messages are on their way, so its announcement costs no time",
            Self::NoCredit => "the sender has no credit for another eager message at present",
            Self::Fetched => "the receiver waits inside MPI, and fetches it",
        })
    }
}

/// The largest message that is sent eagerly on a route, in bytes: the limit that the user has `said`, or the
/// one that suits the route.
///
/// Messages above `placed_above` are better announced there, since the carrier writes them to their place
/// ([`crate::transport::Placement::eager_max`]).
pub fn eager_limit(said: Option<u64>, costs: &CostModel, placed_above: u64) -> u64 {
    said.unwrap_or_else(|| costs.eager_limit().min(placed_above))
}

#[cfg(test)]
mod tests;
