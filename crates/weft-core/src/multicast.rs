//! Reliable, ordered broadcast of frames over network multicast: the substrate of MPI_Bcast and others
//! (MPI-5.0 §6.4), as pure state machines.
//!
//! A *group* has members. A member is a host of which one process has joined a multicast address. Any process
//! of a member may be the root of a *stream* to all other members: packets with numbers, which the network
//! may lose, repeat and reorder for each receiver by itself. The root has a [`Sender`], and every other
//! member has a [`Receiver`] for the stream. Each receiver gets the sender's frames once, whole and in order.
//!
//! | part | what it does |
//! |---|---|
//! | [`wire`] | the bytes: packets of a stream, probes, acknowledgements |
//! | [`Scheme`], [`AckTree`] | the paper's schemes: who acknowledges to whom, when, does the root wait |
//! | [`Sender`] | a window of packets, which it keeps until all have them |
//! | `slots` | acknowledgements that receivers write into the root's memory |
//! | [`Receiver`] | orders packets, asks for missing ones (NACK), acknowledges; a co-root also repairs |
//! | [`model`], [`simulation`] | times of broadcasts in large groups: in formulas, and in virtual time |
//!
//! # How losses are repaired
//!
//! A gap is proved by the next packet, and the receiver asks for the missing packet at once. The member that
//! keeps the packet sends it by unicast to the one or two members that ask, or to the group if more ask.
//!
//! No later packet proves the loss of the last packet. When nothing has left for a round trip and some member
//! has not acknowledged the last packet, the sender multicasts that packet again, and a probe behind it. Then
//! the sender asks the members that lag behind one by one, each time after twice the time. So a network that
//! carries no multicast at all is slow, and nothing worse.
//!
//! A packet that does not get through however often it is sent again may be too long for a path whose MTU has
//! become smaller: it leaves in pieces.
//!
//! # Flow and congestion control
//!
//! A sender has no more packets under way than its window, and than its congestion window. The congestion
//! window grows with each acknowledgement. It shrinks once in a round trip if some receiver has lost more
//! than one packet in [`LOSS_SHARE`], which is more than a bad cable loses.

mod keeper;
pub mod model;
mod receiver;
mod scheme;
mod sender;
pub mod simulation;
mod slots;
pub mod wire;

#[cfg(test)]
mod tests;

pub use receiver::Receiver;
pub use scheme::{AGGREGATE_MAX, AckTree, Scheme, UnknownScheme};
pub use sender::Sender;
pub use slots::SLOT_BYTES;
pub use wire::StreamId;

use crate::time::{Duration, Instant};
use crate::wire::Secret;

/// Number of the first packet of a stream: each stream of some length sees its 32 bits on the wire wrap.
pub const FIRST: u64 = (1 << 32) - 300;
/// Most packets of a window: no acknowledgement can cover more.
pub const WINDOW_MAX: u32 = 1024;
/// Fewest packets that the congestion window shrinks to.
pub const WINDOW_MIN: u32 = 16;
/// A receiver may lose one packet in this many before its losses count as congestion.
pub const LOSS_SHARE: u32 = 16;
/// Losses in a round trip that never count as congestion.
pub const LOSSES_FREE: u32 = 2;
/// Members that must ask for one packet before it is sent to all again.
const REPAIR_BY_MULTICAST: usize = 3;
/// Times that a packet is sent again to members that ask for it before it leaves in pieces.
const CUT_AFTER: u8 = 3;
/// Bytes of a piece of a packet that leaves in pieces: every interface that is offered to peers carries them.
const PIECE_BYTES: usize = crate::flow::PACKET_SIZE_MIN;
/// Fewest packets that show how well the network carries multicast.
const REVIEW_PACKETS_MIN: u64 = 32;
/// Fewest packets that show how well the network carries multicast, for a root that decides without the other
/// members: a receiver that was stopped for a while has lost many packets, too.
const REVIEW_ALONE_PACKETS_MIN: u64 = 128;
/// Fewest requests that show how well the network carries multicast. A train of packets that another train
/// overtakes is asked for at once, for example where the sender changes its processor. Requests for very many
/// packets count even if they are fewer:
const REVIEW_TIMES_MIN: u64 = 3;
/// Packets that no train has.
const REVIEW_AT_ONCE_MIN: u64 = 512;
/// The number of unanswered probes of which one goes to the group; the others go to the members that lag
/// behind.
const PROBES_PER_ROUND: u32 = 4;
/// Most members that are asked at one time which packets have arrived.
const PROBE_BURST: usize = 16;
/// Longest message that is multicast, bytes: longer ones are cut.
pub const MESSAGE_BYTES_MAX: u64 = 256 << 10;
/// The round trip that is assumed before the first sample.
const ROUND_TRIP_INITIAL: Duration = Duration::from_micros(200);
/// The shortest time before a probe leaves or a packet is asked for again: on a busy host a look at the
/// network takes as long.
const PROBE_MIN: Duration = Duration::from_micros(100);
/// The longest time between two probes or two requests for missing packets.
const PROBE_MAX: Duration = Duration::from_millis(100);

/// The settings of a stream; the same at all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Members of the group.
    pub members: u32,
    /// Bytes of the longest packet.
    pub packet_size: usize,
    /// Packets of the window, at most [`WINDOW_MAX`].
    pub window: u32,
    /// The acknowledgement scheme: who acknowledges to whom, and how often.
    pub scheme: Scheme,
    /// Time of silence, although it is asked, after which a member has failed; zero: never.
    pub peer_timeout: Duration,
}

/// The destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The group's multicast address.
    Group,
    /// The own address of one member.
    Member(u32),
}

/// Counts of what happened in streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Data packets sent to the group for the first time.
    pub packets: u64,
    /// Packets sent again to the group.
    pub repairs_by_multicast: u64,
    /// Packets sent again to one member.
    pub repairs_by_unicast: u64,
    /// Questions for the packets that have arrived.
    pub probes: u64,
    /// Acknowledgements sent, those that ask for packets included.
    pub acknowledgements: u64,
    /// Acknowledgements that were written to the root's memory and are no packets.
    pub written: u64,
    /// Acknowledgements that ask for packets (NACK).
    pub negative: u64,
    /// Data packets that had arrived before.
    pub duplicates: u64,
    /// Packets that are no packets of the stream, or whose sender may not send them.
    pub rejected: u64,
}

impl Counters {
    /// Counts a packet that is sent once more, to a destination.
    fn count_repair(&mut self, to: Destination) {
        match to {
            Destination::Group => self.repairs_by_multicast += 1,
            Destination::Member(_) => self.repairs_by_unicast += 1,
        }
    }

    /// Adds the counts of another stream.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.repairs_by_multicast += other.repairs_by_multicast;
        self.repairs_by_unicast += other.repairs_by_unicast;
        self.probes += other.probes;
        self.acknowledgements += other.acknowledgements;
        self.written += other.written;
        self.negative += other.negative;
        self.duplicates += other.duplicates;
        self.rejected += other.rejected;
    }
}

/// The round trip (RFC 6298), and the times that follow from it.
#[derive(Clone, Copy, Debug)]
struct Timing {
    smoothed: Option<Duration>,
    variance: Duration,
}

impl Timing {
    const fn new() -> Self {
        Self { smoothed: None, variance: Duration(ROUND_TRIP_INITIAL.0 / 2) }
    }

    fn sample(&mut self, sample: Duration) {
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variance) = (Some(sample), Duration(sample.0 / 2));
            return;
        };
        // A receiver that did not look for a while does not make the path longer.
        let sample = sample.0.min(smoothed.0 + 8 * self.variance.0 + PROBE_MIN.0);
        self.variance = Duration(self.variance.0 - self.variance.0 / 4 + smoothed.0.abs_diff(sample) / 4);
        self.smoothed = Some(Duration(smoothed.0 - smoothed.0 / 8 + sample / 8));
    }

    /// Takes a sample that may contain the time until a process looked, unless it is so long that it probably
    /// does. A sample may also contain a wait that itself grows with the round trip: taking such samples, the
    /// estimate would grow without end.
    fn sample_at_most(&mut self, sample: Duration) {
        if sample.0 <= self.round_trip().0 + 2 * self.variance.0 {
            self.sample(sample);
        }
    }

    fn round_trip(&self) -> Duration {
        self.smoothed.unwrap_or(ROUND_TRIP_INITIAL)
    }

    /// The wait for an answer after this many unanswered questions.
    fn probe_delay(&self, questions: u32) -> Duration {
        let first = (self.round_trip().0 + 4 * self.variance.0).max(PROBE_MIN.0);
        Duration(first.saturating_mul(1 << questions.min(20)).min(PROBE_MAX.0.max(first)))
    }
}

/// A number that names a stream to processes outside the job: the stream's address is derived from it, and it
/// does not reveal the secret.
pub fn public_name(stream: &StreamId, secret: &Secret) -> u64 {
    let mut name = [0; 8];
    stream.key(secret).write_tag(0, &mut name);
    u64::from_le_bytes(name)
}

/// The earlier of two times, if there are any.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}
