//! The choice as it was before rows and costs, for the comparison in `tests.rs`.

use super::{Reason, Receiver};
use crate::transport::Wish;

/// Smaller messages are not worth two system calls for a copy between processes.
pub(super) const SINGLE_COPY_BYTES_MIN: u64 = 16 << 10;
/// From this size on a message is copied by both of its sides, if both are inside MPI.
pub(super) const COOPERATIVE_BYTES_MIN: u64 = 64 << 10;
/// Larger messages go through a ring in pieces, of this size at least: while the receiver copies one out, the sender copies the next
/// one in.
pub(super) const RING_PIECE_BYTES: u64 = 8 << 10;
/// While so many bytes of messages that the peer has not acknowledged are on their way, larger ones that nobody waits for are announced: the
/// announcement's round trip passes unnoticed then, and their data needs no copy in the flow's queue. Onto an idle path they leave
/// at once, and so do those that their sender waits for.
const BUSY_BYTES: usize = 32 << 10;
/// Largest message that is sent unasked then.
const BUSY_EAGER_MAX: u64 = 16 << 10;
/// So long may a message be that goes through a ring unasked although it is above the eager limit: if its receiver waits for it and it is
/// for a receive that is posted, both sides copy at the same time, each its half of the way. Where processors share a cache
/// that is quicker than copies by the kernel.
const PIPE_BYTES_MAX: u64 = 512 << 10;
/// The same where they do not.
const STREAMED_PIPE_BYTES_MAX: u64 = 128 << 10;
/// Largest frame of the smallest ring in which two sides do not hinder each other.
const PIPE_FRAME_MIN: u64 = 64 << 10;

// What goes through a ring in one piece is written to no posted receive.
const _: () = assert!(RING_PIECE_BYTES < SINGLE_COPY_BYTES_MIN && SINGLE_COPY_BYTES_MIN <= COOPERATIVE_BYTES_MIN);
const _: () = assert!(BUSY_EAGER_MAX <= BUSY_BYTES as u64 && STREAMED_PIPE_BYTES_MAX <= PIPE_BYTES_MAX);

/// Whether rings with frames of at most so many bytes are large enough that both sides copy at once.
pub(super) const fn is_wide(frame_max: u64) -> bool {
    frame_max >= PIPE_FRAME_MIN
}

/// What is known of the route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteFacts {
    /// To this process itself.
    Myself,
    /// Through a ring in shared memory.
    Ring {
        /// Bytes of payload of its largest frame.
        frame_max: u64,
        /// Plain stores to it are quick: its two processors share a cache, as far as is known.
        is_near: bool,
    },
    /// Over a network.
    Network {
        /// Bytes of messages that are queued or not acknowledged.
        queued: usize,
    },
}

/// Everything that the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Bytes of the message.
    pub(super) bytes: u64,
    /// Its sender must hear of the match (MPI-5.0 §3.4).
    pub(super) is_synchronous: bool,
    /// The program waits for it in the call that starts it.
    pub(super) is_blocking: bool,
    /// Its data is one run of memory.
    pub(super) is_contiguous: bool,
    /// What it may be to be sent unasked on this route: [`eager_limit`].
    pub(super) eager_limit: u64,
    /// The receiver has room for it unasked at present.
    pub(super) has_credit: bool,
    /// The route.
    pub(super) route: RouteFacts,
    /// The receiver.
    pub(super) receiver: Receiver,
    /// The message could not be written to the receive that is posted: another has it, or an earlier message has not found its own.
    pub(super) write_failed: bool,
}

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Its sender writes it to the receive that is posted. If that fails the choice is made again, with [`Facts::write_failed`].
    WriteToPosted,
    /// It is sent unasked, in pieces if it is long.
    Eager,
    /// It is announced.
    Announce {
        /// With its address, so that a process of the node can fetch it.
        with_address: bool,
        /// Both sides wait, so they copy at the same time: through the ring, or, with its address, each a part of it.
        is_cooperative: bool,
    },
}

/// Largest message of this kind that is sent unasked, in bytes.
pub(super) fn eager_max(facts: &Facts) -> u64 {
    match facts.route {
        // The answer must not overtake the last piece.
        RouteFacts::Ring { frame_max, .. } if facts.is_synchronous => {
            facts.eager_limit.min(frame_max.min(RING_PIECE_BYTES))
        }
        RouteFacts::Network { queued } if !facts.is_blocking && queued > BUSY_BYTES => {
            facts.eager_limit.min(BUSY_EAGER_MAX)
        }
        _ => facts.eager_limit,
    }
}

/// Largest message that goes through a ring while both sides wait for it, in bytes.
fn pipe_max(route: RouteFacts) -> u64 {
    match route {
        RouteFacts::Ring { frame_max, .. } if !is_wide(frame_max) => 0,
        RouteFacts::Ring { is_near: true, .. } => PIPE_BYTES_MAX,
        RouteFacts::Ring { is_near: false, .. } => STREAMED_PIPE_BYTES_MAX,
        _ => 0,
    }
}

/// Which protocol carries the message, and why.
pub(super) fn choose(facts: &Facts) -> (Protocol, Reason) {
    let Facts { bytes, is_blocking, route, .. } = *facts;
    let Receiver { posted, is_inside, has_announced } = facts.receiver;
    let is_large = bytes >= SINGLE_COPY_BYTES_MIN;
    // A receiver that waits inside MPI fetches what is announced, and the program goes on here.
    let is_fetched = is_large && is_inside && facts.is_contiguous;
    if is_large && posted != Wish::None && !is_fetched && !facts.write_failed {
        return (Protocol::WriteToPosted, Reason::Posted);
    }
    // Where both sides wait for the message all the same, each copies its half of the way at the same time.
    let is_piped = is_blocking && is_fetched && posted == Wish::Awaited;
    let is_expected = is_large && posted != Wish::None && is_fetched && !has_announced;
    let fits = bytes <= eager_max(facts);
    let fits_pipe = is_piped && !facts.is_synchronous && bytes <= pipe_max(route);
    if (fits || fits_pipe) && facts.has_credit && (is_piped || !is_expected) {
        return (Protocol::Eager, if fits { Reason::Fits } else { Reason::BothWait });
    }
    let reason = match route {
        _ if fits && !facts.has_credit => Reason::NoCredit,
        _ if is_expected => Reason::Fetched,
        RouteFacts::Network { .. } if bytes <= facts.eager_limit => Reason::Busy,
        _ => Reason::TooLong,
    };
    // The program waits here, and as far as is known it does where the message goes.
    let is_cooperative = is_blocking && posted != Wish::Posted && bytes >= COOPERATIVE_BYTES_MIN;
    let with_address = facts.is_contiguous
        && match route {
            RouteFacts::Myself => true,
            // Its receiver asks for it without one, and it comes through the ring, which is quick if both are near.
            RouteFacts::Ring { frame_max, is_near } => !(is_cooperative && is_wide(frame_max) && is_near),
            RouteFacts::Network { .. } => false,
        };
    (Protocol::Announce { with_address, is_cooperative }, reason)
}
