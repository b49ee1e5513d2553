//! The settings of a flow, and all its limits.

use crate::time::Duration;
use crate::wire;

/// Most packets that a receiver takes in at once, and so the most in flight on a short path.
pub const WINDOW_MAX: u32 = 2048;
/// A path whose empty round trip is at least so long is far: what it holds on its way is not in any buffer,
/// and the window may grow with it.
pub const FAR: Duration = Duration::from_micros(500);
/// Most packets between the oldest unacknowledged and the newest on a far path: such numbers are 19 bits
/// apart.
pub const FAR_PACKETS_MAX: u32 = 1 << 19;
/// Packets of a far path leave ahead of their pace by so much at most, so that they leave in trains …
pub const PACE_AHEAD: Duration = Duration::from_micros(100);
/// … and what was late by more is not made up for.
pub const PACE_BEHIND: Duration = Duration::from_millis(1);
/// The longest queue that a window fills on a far path: the buffers there are not as long as the path.
pub const FAR_QUEUE: Duration = Duration::from_millis(2);
/// Fewest packets the congestion window shrinks to.
pub const WINDOW_MIN: u32 = 16;
/// Smallest packet a carrier may offer, bytes (IPv6's minimum link less IP and UDP headers leaves far more).
pub const PACKET_SIZE_MIN: usize = 256;
/// Largest packet a carrier may offer, bytes: lengths on the wire are 16 bits.
pub const PACKET_SIZE_MAX: usize = 65_507;
/// Resends that may leave in one pass, so that a burst of losses is not answered with a burst.
pub const RESENDS_PER_PASS: u8 = 16;
/// The shortest time between two passes of resends.
pub const RESEND_PASS: Duration = Duration::from_micros(20);
/// Later transmissions that must be acknowledged before a missing one counts as lost (RFC 9002 §6.1.1).
pub const REORDER_PACKETS: u32 = 3;
/// The most this grows to where packets are proved to overtake each other; the map must show that many.
pub const REORDER_PACKETS_MAX: u32 = 192;
/// Resends without such a proof after which it shrinks by half.
pub const REORDER_MEMORY: u32 = 256;
/// Bulk data of which more will follow is acknowledged this many times later than the rest: its sender asks
/// for what it needs, and this bound, as the next one, is there only in case the question is lost.
pub const BULK_DELAY: u32 = 4;
/// The same in packets: a quarter of a full window, which is when its sender asks (decision 0069); not where
/// it is striped.
pub const BULK_PACKETS: u32 = 16;
/// Packets after a new gap that are acknowledged at once, so that the sender has its evidence within one
/// round trip.
pub const GAP_ACKS: u8 = 4;
/// Packets that make a burst: the last of so many asks for an acknowledgement.
pub const BURST_PACKETS: u32 = 16;
/// Messages that wait together and fill more packets than this are a run: they travel like bulk data, in
/// trains.
pub const RUN_PACKETS: usize = 2;
/// The last packet of a range of bulk data is filled up, where another range goes on in the same train, with
/// no more than one part of so many of its range.
pub const FILLING_SHARE: u64 = 32;
/// An acknowledgement of messages that is asked for, or of many, is granted so much time: the program may
/// answer them, and the answer carries it.
pub const ANSWER_TIME: Duration = Duration::from_micros(5);
/// Packets per round trip by which a window grows that is full and meets no queue: the same for all, so that
/// shares become equal.
pub const WINDOW_GROWTH: u32 = 4;
/// A window that is full and meets no queue grows by one part of so many per round trip besides.
pub const WINDOW_GROWTH_SHARE: u32 = 8;
/// A pause of a process excuses delays for at most this long.
pub const HOST_DELAY_MEMORY: Duration = Duration::from_millis(20);
/// Probes of a path that go unanswered before the driver is told to doubt it: one may only be late.
pub const PATH_DOUBTS: u8 = 2;
/// Transmissions of a packet after which it is sent on another path, if there is one: this one may not carry
/// its size.
pub const PATH_TRIES: u8 = 4;
/// Transmissions of a packet that follow each other as soon as the last is proved lost. Each later one is
/// given time, `pto_min` at first and twice that for the next …
pub const SPACED_AFTER: u8 = 8;
/// … up to one part of so many of `peer_timeout`, so that this passes before a packet has been sent as often
/// as it can be …
pub const SPACING_SHARE: u64 = 64;
/// … and to this where there is no timeout.
pub const SPACING_MAX: Duration = Duration::from_secs(10);
/// What overtook a packet on another carrier gives it so much time to follow: the receiver may not have
/// looked there yet.
pub const LANE_PATIENCE: Duration = Duration::from_millis(2);
/// Losses in a round trip that never cut the window.
pub const LOSSES_FREE: u32 = 2;
/// One packet of so many may be lost beside those before the window is cut: a bad cable is no congestion.
pub const LOSS_SHARE: u32 = 32;

/// Transmissions of a packet that are lost before its path is asked whether it carries such a size …
pub const SIZE_DOUBTED_AFTER: u8 = 2;
/// … and before the packet itself is cut into pieces of the least size …
pub const CUT_AFTER: u8 = 3;
/// … if packets of its size have been in doubt so often meanwhile, and have arrived: a bridge of Linux
/// forwards trains that are not cut yet, but not the single packet that is sent again.
pub const VOUCHED_MIN: u8 = 6;
/// Bytes of a control: a question that every path carries.
pub const CONTROL_SIZE: u16 = 128;
/// Questions whether a path carries a size that are lost before it counts as not carrying it (RFC 8899
/// §5.1.2, `MAX_PROBES`).
pub const SIZE_TRIES: u8 = 3;
/// The same for the size that packets have, controls that are lost taken into account.
pub const DOUBT_TRIES: u8 = 6;
/// A control that is lost takes back so many lost questions; if there are no more of them, the doubt ends.
pub const CONTROL_WEIGHT: u8 = 2;
/// After a lost control has ended a doubt, no size is doubted before this has passed: questions are packets
/// too, and those that arrive make a congested flow send again sooner what was lost.
pub const DOUBT_REST: Duration = Duration::from_millis(10);
/// Sizes that differ by no more are not told apart, bytes.
pub const SIZE_GRAIN: u16 = 16;
/// How long after a size was found the path is asked for a larger one, and again after twice the time …
pub const SIZE_REST: Duration = Duration::from_secs(1);
/// … up to this (RFC 8899 §5.1.1, `PMTU_RAISE_TIMER`, is longer: its questions are not answered by the
/// packets around them).
pub const SIZE_REST_MAX: Duration = Duration::from_secs(60);

const _: () = assert!(SIZE_DOUBTED_AFTER <= CUT_AFTER && CUT_AFTER < SPACED_AFTER);
const _: () =
    assert!(wire::PIECE_OVERHEAD + wire::SEAL_SIZE < PACKET_SIZE_MIN && (CONTROL_SIZE as usize) < PACKET_SIZE_MIN);
const _: () = assert!(WINDOW_MIN <= WINDOW_MAX && WINDOW_MAX.is_power_of_two() && WINDOW_MAX <= FAR_PACKETS_MAX);
const _: () = assert!(FAR_PACKETS_MAX <= wire::RUN_MAX);
const _: () = assert!(wire::OVERHEAD_MAX < PACKET_SIZE_MIN && PACKET_SIZE_MAX <= u16::MAX as usize);
const _: () = assert!(REORDER_PACKETS <= GAP_ACKS as u32);
const _: () = assert!(REORDER_PACKETS_MAX < WINDOW_MAX && WINDOW_MAX as usize <= 64 * wire::MAP_WORDS_MAX);

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Largest datagram payload in bytes, header included; `PACKET_SIZE_MIN..=PACKET_SIZE_MAX`. The flow
    /// begins with it, and goes on with smaller ones where a path does not carry it (`path_mtu`).
    pub packet_size: usize,
    /// Paths (sockets, carriers, interfaces) that bulk data takes, other than that of the packets around it:
    /// what overtakes a packet on another path proves nothing. 0: all packets go the same path; below
    /// `wire::PATHS_MAX`.
    pub bulk_paths: u8,
    /// Most packets in flight on a short path, and most packets of messages that the receiver keeps behind a
    /// gap; `1..=WINDOW_MAX`.
    pub window_packets: u32,
    /// Most bytes of packets between the oldest unacknowledged and the newest on a far path, at most
    /// [`FAR_PACKETS_MAX`] packets: twice what the path holds, so that it stays full while a lost packet is
    /// sent again. 0: no more than elsewhere.
    pub far_bytes: u64,
    /// When to acknowledge.
    pub ack_scheme: AckScheme,
    /// An acknowledgement is deferred over at most this many packets, of data that more will follow
    /// `BULK_PACKETS` times as many; of packets with messages over `BULK_DELAY` times as many, but from this
    /// many on for no longer than `ANSWER_TIME`.
    pub ack_packets: u32,
    /// An acknowledgement is deferred for at most this long, for data that more will follow `BULK_DELAY`
    /// times.
    pub ack_delay: Duration,
    /// How long a queue on the path the window may fill, unless half an empty round trip is longer; where it
    /// is far, see [`FAR_QUEUE`].
    pub delay_target: Duration,
    /// The shortest wait before a probe.
    pub pto_min: Duration,
    /// The longest wait between probes.
    pub pto_max: Duration,
    /// While the program waits for the peer, one of which nothing is heard for this long is probed, and again
    /// after this long; zero: never. An eighth of `peer_timeout` leaves room for some lost probes.
    pub keepalive: Duration,
    /// Unanswered probes for this long mean that the peer has failed, and so does a packet that is proved
    /// lost again and again for this long; zero: never.
    pub peer_timeout: Duration,
    /// `can_accept` is false while more bytes than this are queued or unacknowledged on the ordered channel.
    pub queue_bytes: usize,
    /// Payloads are encrypted and authenticated whole, at 16 bytes a packet and some processor time a byte.
    pub sealed: bool,
}

impl Settings {
    /// Most bytes of messages, with their prefixes, that a packet of `size` bytes takes.
    pub(super) const fn messages_max(&self, size: usize) -> usize {
        size - wire::MESSAGES_OVERHEAD - self.seal_size()
    }

    /// Most packets between the oldest unacknowledged and the newest, however long the path is.
    pub(super) const fn reach(&self) -> u32 {
        let packets = self.far_bytes / self.packet_size as u64;
        let far = if packets < FAR_PACKETS_MAX as u64 { packets as u32 } else { FAR_PACKETS_MAX };
        if far > self.window_packets { far } else { self.window_packets }
    }

    /// How long after a packet was sent for the time `transmission` it may count as lost at the earliest:
    /// nothing at first, more and more once it was sent in vain so often that something else must be wrong.
    pub(super) fn spacing(&self, transmission: u8) -> Duration {
        let Some(doublings) = transmission.checked_sub(SPACED_AFTER) else { return Duration(0) };
        let longest = match self.peer_timeout.0 {
            0 => SPACING_MAX.0,
            timeout => (timeout / SPACING_SHARE).max(self.pto_max.0),
        };
        Duration(self.pto_min.0.max(1).saturating_mul(1 << doublings.min(40)).min(longest))
    }

    /// Bytes that a seal takes of each packet.
    pub(crate) const fn seal_size(&self) -> usize {
        if self.sealed { wire::SEAL_SIZE } else { 0 }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            packet_size: 1452,
            bulk_paths: 0,
            window_packets: 1024,
            far_bytes: 512 << 20,
            ack_scheme: AckScheme::default(),
            ack_packets: 16,
            ack_delay: Duration::from_micros(50),
            delay_target: Duration::from_micros(100),
            pto_min: Duration::from_micros(200),
            pto_max: Duration::from_millis(100),
            keepalive: Duration::from_secs(1),
            peer_timeout: Duration::from_secs(30),
            queue_bytes: 512 * 1024,
            sealed: false,
        }
    }
}
