//! What a flow may be told, what it counts, and every limit it keeps.

use crate::time::Duration;
use crate::wire;

/// Most packets a flow may have between the oldest unacknowledged and the newest: the size of the receiver's bit ring.
pub const WINDOW_MAX: u32 = 1024;
/// Fewest packets the congestion window shrinks to.
pub const WINDOW_MIN: u32 = 16;
/// Smallest packet a carrier may offer, bytes (IPv6's minimum link less IP and UDP headers leaves far more).
pub const PACKET_SIZE_MIN: usize = 256;
/// Largest packet a carrier may offer, bytes: lengths on the wire are 16 bits.
pub const PACKET_SIZE_MAX: usize = 65_507;
/// Resends that may leave in one pass, so that a burst of losses is not answered with a burst.
pub const RESENDS_PER_PASS: u32 = 16;
/// The shortest time between two passes of resends.
pub const RESEND_PASS: Duration = Duration::from_micros(20);
/// Later transmissions that must be acknowledged before a missing one counts as lost (RFC 9002 §6.1.1).
pub const REORDER_PACKETS: u32 = 3;
/// The most this grows to where packets are proved to overtake each other; the map must show that many.
pub const REORDER_PACKETS_MAX: u32 = 48;
/// Resends without such a proof after which it shrinks by half.
pub const REORDER_MEMORY: u32 = 256;
/// Bulk data of which more will follow is acknowledged this many times later than the rest:
/// its sender asks for what it needs, and the clock is there only in case the question is lost.
pub const BULK_DELAY: u64 = 4;
/// Packets after a new gap that are acknowledged at once, so that the sender has its evidence within one round trip.
pub const GAP_ACKS: u8 = 4;
/// Packets that make a burst: the last of so many asks for an acknowledgement.
pub const BURST_PACKETS: u32 = 8;
/// Packets per round trip by which the window grows.
pub const WINDOW_GROWTH: u32 = 4;

const _: () = assert!(WINDOW_MIN <= WINDOW_MAX && WINDOW_MAX.is_power_of_two());
const _: () = assert!(wire::OVERHEAD_MAX < PACKET_SIZE_MIN && PACKET_SIZE_MAX <= u16::MAX as usize);
const _: () = assert!(REORDER_PACKETS <= GAP_ACKS as u32);
const _: () = assert!((REORDER_PACKETS_MAX as usize) < wire::MAP_PACKETS);

/// When the receiver acknowledges. Whatever the scheme, packets going back carry the acknowledgement,
/// and a gap, a duplicate and a probe are answered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AckScheme {
    /// Only deferred: after so many packets or so much time.
    Deferred,
    /// Deferred, but at once for the last fragment of bulk data and at the end of a burst.
    #[default]
    Immediate,
    /// One for every packet.
    EveryPacket,
}

/// How a flow behaves; the same on both sides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Largest datagram payload in bytes, header included; `PACKET_SIZE_MIN..=PACKET_SIZE_MAX`.
    pub packet_size: usize,
    /// Most packets in flight, and how far ahead of a gap the receiver keeps packets; `1..=WINDOW_MAX`.
    pub window_packets: u32,
    /// When to acknowledge.
    pub ack_scheme: AckScheme,
    /// An acknowledgement is deferred over at most this many packets.
    pub ack_packets: u32,
    /// An acknowledgement is deferred for at most this long, for data in the middle of a range `BULK_DELAY` times.
    pub ack_delay: Duration,
    /// The shortest wait before a probe.
    pub probe_floor: Duration,
    /// The longest wait between probes.
    pub probe_cap: Duration,
    /// Unanswered probes for this long mean that the peer has failed; zero: never.
    pub peer_timeout: Duration,
    /// `can_accept` is false while more bytes than this are queued or unacknowledged on the ordered lane.
    pub queue_bytes: usize,
    /// Bytes of the body that the tag covers (the header always is); `usize::MAX` for all.
    pub tag_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            packet_size: 1452,
            window_packets: 128,
            ack_scheme: AckScheme::default(),
            ack_packets: 16,
            ack_delay: Duration::from_micros(50),
            probe_floor: Duration::from_micros(200),
            probe_cap: Duration::from_millis(100),
            peer_timeout: Duration::from_secs(30),
            queue_bytes: 512 * 1024,
            tag_bytes: wire::TAG_BYTES,
        }
    }
}

/// Everything that happened in one flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets given to the carrier, of every kind.
    pub packets_sent: u64,
    /// Authentic packets that arrived, of every kind.
    pub packets_received: u64,
    /// Packets with messages or data that were sent for the first time.
    pub data_packets_sent: u64,
    /// Packets with messages or data that arrived for the first time.
    pub data_packets_received: u64,
    /// Messages submitted on the ordered lane.
    pub messages_sent: u64,
    /// Messages delivered from the ordered lane.
    pub messages_received: u64,
    /// Bytes of messages (with their two bytes of length) and bulk data sent for the first time.
    pub bytes_sent: u64,
    /// Bytes of messages and bulk data delivered.
    pub bytes_received: u64,
    /// Packets found missing because later ones were acknowledged.
    pub lost_by_gap: u64,
    /// Packets found missing by the echo of a probe.
    pub lost_by_probe: u64,
    /// Packets sent again because later ones were acknowledged.
    pub resent_by_gap: u64,
    /// Packets sent again because the echo of a probe proved them missing.
    pub resent_by_probe: u64,
    /// Probes sent.
    pub probes: u64,
    /// Probes that arrived.
    pub probes_received: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Packets that arrived later than one with a higher number.
    pub reordered: u64,
    /// Packets with a number outside the window.
    pub out_of_window: u64,
    /// Packets whose tag was wrong, or too short to have one.
    pub forged: u64,
    /// Authentic packets that made no sense.
    pub malformed: u64,
    /// Acknowledgements of packets that were never sent.
    pub acknowledged_unsent: u64,
    /// Packets that carried nothing but an acknowledgement.
    pub acks_standalone: u64,
    /// Owed acknowledgements that travelled with a message or data.
    pub acks_piggybacked: u64,
    /// Times the congestion window was cut.
    pub window_cuts: u64,
}

impl Counters {
    /// Packets sent again, for whatever reason.
    pub fn resent(&self) -> u64 {
        self.resent_by_gap + self.resent_by_probe
    }
}
