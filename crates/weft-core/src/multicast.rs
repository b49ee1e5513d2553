//! Reliable, ordered broadcast of frames over network multicast: the substrate of MPI_Bcast and others
//! (MPI-5.0 §6.4), as pure state machines.
//!
//! A *group* has members: hosts, of each of which one process has joined a multicast address. Any process of
//! a member may be the root of a *stream* to all other members: packets with numbers, which the network may
//! lose, repeat and reorder for each receiver by itself. The root has a [`Sender`], every other member a
//! [`Receiver`] for it. What the sender is given arrives at each receiver once, whole and in order.
//!
//! | part | what it does |
//! |---|---|
//! | [`wire`] | the bytes: packets of a stream, probes, acknowledgements |
//! | [`Scheme`], [`AckTree`] | who acknowledges to whom, how often, and whether the root waits: the schemes of the paper |
//! | [`Sender`] | a window of packets, which it keeps until all have them |
//! | `slots` | acknowledgements that receivers write into the root's memory |
//! | [`Receiver`] | puts packets in order, asks for what is missing (NACK), acknowledges; as a co-root it keeps packets and repairs as well |
//! | [`model`], [`simulation`] | what broadcasts take in groups of any size: in formulas, and by these state machines in virtual time |
//!
//! # How losses are repaired
//!
//! A gap is proved by the next packet, and the receiver asks at once. Who keeps the packet sends it to the
//! one or two that ask, by unicast, or to the group if more do. The loss of the last packet is proved by
//! nothing that comes. When nothing has left for a round trip and somebody has not acknowledged it, the
//! sender multicasts it again, and a probe behind it; then it asks those that lag behind one by one, after
//! twice the time each time. So a network that carries no multicast at all is slow, and nothing worse. A
//! packet that does not get through however often it is sent again may be too long for a path whose MTU has
//! become smaller: it leaves in pieces.
//!
//! # Flow and congestion control
//!
//! A sender has no more packets under way than its window, and a congestion window within it: that grows with
//! each acknowledgement, and shrinks once in a round trip if some receiver has lost more than one packet of
//! [`LOSS_SHARE`], which is more than a bad cable does.

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
/// Most packets of a window: no acknowledgement can speak of more.
pub const WINDOW_MAX: u32 = 1024;
/// Fewest packets that the congestion window shrinks to.
pub const WINDOW_MIN: u32 = 16;
/// One packet of so many may be lost by a receiver before that counts as congestion …
pub const LOSS_SHARE: u32 = 16;
/// … and so many in a round trip always.
pub const LOSSES_FREE: u32 = 2;
/// Askers for one packet from which on it is sent to all again.
const REPAIR_BY_MULTICAST: usize = 3;
/// Times that a packet is sent again to who asks for it before it leaves in pieces …
const CUT_AFTER: u8 = 3;
/// … of so many bytes, which every interface carries that is offered to peers.
const PIECE_BYTES: usize = crate::flow::PACKET_SIZE_MIN;
/// Fewer packets than this say nothing of how well the network carries them.
const REVIEW_PACKETS_MIN: u64 = 32;
/// The same for a root that asks nobody else: a receiver that was stopped for a while has lost many packets,
/// too.
const REVIEW_ALONE_PACKETS_MIN: u64 = 128;
/// Nor do fewer requests: a train of packets that another one overtakes, as where the sender changes its
/// processor, is asked for at once. But for very many packets:
const REVIEW_TIMES_MIN: u64 = 3;
/// No train has so many packets.
const REVIEW_AT_ONCE_MIN: u64 = 512;
/// Of so many probes in vain one goes to the group, the others to those that lag behind.
const PROBES_PER_ROUND: u32 = 4;
/// Members that are asked at once what has arrived.
const PROBE_BURST: usize = 16;
/// Longest message that is multicast, bytes: longer ones are cut.
pub const MESSAGE_BYTES_MAX: u64 = 256 << 10;
/// Assumed before the first sample.
const ROUND_TRIP_INITIAL: Duration = Duration::from_micros(200);
/// No probe leaves and nothing is asked for again before so much time: a look at the network takes as long on
/// a busy host.
const PROBE_MIN: Duration = Duration::from_micros(100);
/// The longest time between two probes or two requests for what is missing.
const PROBE_MAX: Duration = Duration::from_millis(100);

/// How a stream behaves; the same at all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Members of the group.
    pub members: u32,
    /// Bytes of the longest packet.
    pub packet_size: usize,
    /// Packets of the window, at most [`WINDOW_MAX`].
    pub window: u32,
    /// Who acknowledges to whom, and how often.
    pub scheme: Scheme,
    /// A member of which nothing is heard for so long although it is asked has failed; zero: never.
    pub peer_timeout: Duration,
}

/// Whom a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The group's multicast address.
    Group,
    /// One member's own address.
    Member(u32),
}

/// What has happened in streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Data packets sent to the group for the first time.
    pub packets: u64,
    /// Packets sent again to the group,
    pub repairs_by_multicast: u64,
    /// and to one member.
    pub repairs_by_unicast: u64,
    /// Questions for what has arrived.
    pub probes: u64,
    /// Acknowledgements sent, those that ask for packets included.
    pub acknowledgements: u64,
    /// Those that were written to the root's memory and are no packets.
    pub written: u64,
    /// Those that ask for packets (NACK).
    pub negative: u64,
    /// Data packets that had arrived before.
    pub duplicates: u64,
    /// Packets that are no packets of the stream, or that come from who may not send them.
    pub rejected: u64,
}

impl Counters {
    /// A packet is sent once more, to a destination.
    fn count_repair(&mut self, to: Destination) {
        match to {
            Destination::Group => self.repairs_by_multicast += 1,
            Destination::Member(_) => self.repairs_by_unicast += 1,
        }
    }

    /// Adds those of another stream.
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

/// How long a round trip takes (RFC 6298), and what follows from that.
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
        // One receiver that did not look for a while is no longer path.
        let sample = sample.0.min(smoothed.0 + 8 * self.variance.0 + PROBE_MIN.0);
        self.variance = Duration(self.variance.0 - self.variance.0 / 4 + smoothed.0.abs_diff(sample) / 4);
        self.smoothed = Some(Duration(smoothed.0 - smoothed.0 / 8 + sample / 8));
    }

    /// A sample that may hold the time until somebody looked, and counts unless it is that: samples that grow
    /// by what waits grow by them would have no end.
    fn sample_at_most(&mut self, sample: Duration) {
        if sample.0 <= self.round_trip().0 + 2 * self.variance.0 {
            self.sample(sample);
        }
    }

    fn round_trip(&self) -> Duration {
        self.smoothed.unwrap_or(ROUND_TRIP_INITIAL)
    }

    /// How long to wait for an answer after so many questions in vain.
    fn probe_delay(&self, questions: u32) -> Duration {
        let first = (self.round_trip().0 + 4 * self.variance.0).max(PROBE_MIN.0);
        Duration(first.saturating_mul(1 << questions.min(20)).min(PROBE_MAX.0.max(first)))
    }
}

/// A number that names a stream to those who are not of the job: its address is derived from it, and the
/// secret is not.
pub fn public_name(stream: &StreamId, secret: &Secret) -> u64 {
    let mut name = [0; 8];
    stream.key(secret).write_tag(0, &mut name);
    u64::from_le_bytes(name)
}

/// The earlier of two times, if there are any.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}
