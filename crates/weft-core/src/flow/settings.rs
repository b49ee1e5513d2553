//! The settings of a flow, and all its limits.

use crate::time::Duration;
use crate::wire;

/// Most packets that a receiver takes in at once, and so the most in flight on a short path.
pub const WINDOW_MAX: u32 = 2048;
/// The shortest round trip, over an empty path, of a far path. A far path holds packets outside any buffer,
/// so the window may grow by as many.
pub const FAR: Duration = Duration::from_micros(500);
/// Most packets between the oldest unacknowledged and the newest on a far path: their numbers differ by less
/// than 2¹⁹.
pub const FAR_PACKETS_MAX: u32 = 1 << 19;
/// Most time by which packets of a far path leave ahead of their pace, so that they leave in trains.
pub const PACE_AHEAD: Duration = Duration::from_micros(100);
/// Most time by which late packets of a far path are made up for.
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
/// The most to which `REORDER_PACKETS` grows where packets are proved to overtake each other; the map must
/// show that many.
pub const REORDER_PACKETS_MAX: u32 = 192;
/// Resends without a proof that packets overtake each other, after which the grown `REORDER_PACKETS` shrinks
/// by half.
pub const REORDER_MEMORY: u32 = 256;
/// Factor by which acknowledgements of bulk data are later while more of it will follow.
///
/// The sender asks for the acknowledgements that it needs; this bound and the next serve only in case the
/// question is lost.
pub const BULK_DELAY: u32 = 4;
/// Factor of the number of packets after which bulk data is acknowledged while more of it will follow: a
/// quarter of a full window, when the sender asks (docs/design/flow.md).
///
/// It does not apply to striped bulk data.
pub const BULK_PACKETS: u32 = 16;
/// Packets after a new gap that are acknowledged at once. The sender then has its evidence within one round
/// trip.
pub const GAP_ACKS: u8 = 4;
/// Packets that make a burst: the last of them asks for an acknowledgement.
pub const BURST_PACKETS: u32 = 16;
/// Most packets of waiting messages that are no run. A run travels like bulk data, in trains.
pub const RUN_PACKETS: usize = 2;
/// Divisor of a range of bulk data for the most filling of its last packet. The packet is filled up where
/// another range goes on in the same train.
pub const FILLING_SHARE: u64 = 32;
/// Time that an acknowledgement of messages is granted when it is asked for, or many packets have come: the
/// program may answer the messages, and the answer carries the acknowledgement.
pub const ANSWER_TIME: Duration = Duration::from_micros(5);
/// Packets per round trip by which a full window grows that meets no queue: the same for all flows, so that
/// shares become equal.
pub const WINDOW_GROWTH: u32 = 4;
/// Divisor of a full window for its additional growth per round trip, if it meets no queue.
pub const WINDOW_GROWTH_SHARE: u32 = 8;
/// Longest time for which a pause of a process excuses delays.
pub const HOST_DELAY_MEMORY: Duration = Duration::from_millis(20);
/// Unanswered probes of a path before the driver is told to doubt it: a single answer may only be late.
pub const PATH_DOUBTS: u8 = 2;
/// Packets that a message must fill before the long path is tried: there it costs the work of one packet, but
/// the carrier's own work for each is dearer (docs/design/flow.md).
pub const LONG_FROM_PACKETS: usize = 4;
/// Unanswered probes of the long path after which an answer on path 0 shows that the long path is silent, and
/// not the peer.
pub const LONG_DOUBTS: u8 = 4;
/// The time for which the long path may be silent while the peer answers on path 0; then it has failed. A
/// peer that has computed answers on path 0 first. A stream repairs the loss of its last segment after 200
/// ms.
pub const LONG_PATIENCE: Duration = Duration::from_millis(20);
/// Transmissions of a packet after which it is sent on another path, if there is one, because this path may
/// not carry the packet's size.
pub const PATH_TRIES: u8 = 4;
/// Transmissions of a packet that follow each other as soon as the last is proved lost. Each later one is
/// given time: `pto_min` at first, and twice that for the next.
pub const SPACED_AFTER: u8 = 8;
/// Divisor of `peer_timeout` for the longest time between two transmissions of a packet. So `peer_timeout`
/// passes before a packet has been sent as often as it can be.
pub const SPACING_SHARE: u64 = 64;
/// The longest time between two transmissions of a packet, where there is no `peer_timeout`.
pub const SPACING_MAX: Duration = Duration::from_secs(10);
/// Time that a packet has to follow a later packet on another carrier: the receiver may not have looked at
/// the carrier of the earlier packet yet.
pub const LANE_PATIENCE: Duration = Duration::from_millis(2);
/// Losses in a round trip that never cut the window.
pub const LOSSES_FREE: u32 = 2;
/// The number of packets of which one more may be lost before the window is cut: a bad cable is no
/// congestion.
pub const LOSS_SHARE: u32 = 32;

/// Lost transmissions of a packet before its path is asked whether it carries the packet's size.
pub const SIZE_DOUBTED_AFTER: u8 = 2;
/// Lost transmissions of a packet before the packet itself may be cut into pieces of the least size.
pub const CUT_AFTER: u8 = 3;
/// Times that packets of a size must have been in doubt and arrived before a packet of the size is cut into
/// pieces.
///
/// A bridge of Linux forwards trains that are not cut yet, but not the single packet that is sent again.
pub const VOUCHED_MIN: u8 = 6;
/// Bytes of a control: a question of a size that every path carries.
pub const CONTROL_SIZE: u16 = 128;
/// Lost questions for a size before a path counts as not carrying it (RFC 8899 §5.1.2, `MAX_PROBES`).
pub const SIZE_TRIES: u8 = 3;
/// Lost questions for the present size of packets before a path counts as not carrying it, lost controls
/// taken into account.
pub const DOUBT_TRIES: u8 = 6;
/// Lost questions that a lost control takes back; if no more than these are lost, the doubt ends.
pub const CONTROL_WEIGHT: u8 = 2;
/// The time without doubt after a lost control has ended one. Questions are packets too, and questions that
/// arrive make a congested flow send its lost packets again sooner.
pub const DOUBT_REST: Duration = Duration::from_millis(10);
/// Largest difference of sizes that are not told apart, bytes.
pub const SIZE_GRAIN: u16 = 16;
/// Time after a size was found until the path is asked for a larger one; twice the time for each later
/// question.
pub const SIZE_REST: Duration = Duration::from_secs(1);
/// The longest time until a path is asked for a larger size. (RFC 8899 §5.1.1, `PMTU_RAISE_TIMER`, is longer:
/// its questions are not answered by the packets around them.)
pub const SIZE_REST_MAX: Duration = Duration::from_secs(60);

const _: () = assert!(SIZE_DOUBTED_AFTER <= CUT_AFTER && CUT_AFTER < SPACED_AFTER);
const _: () =
    assert!(wire::PIECE_OVERHEAD + wire::SEAL_SIZE < PACKET_SIZE_MIN && (CONTROL_SIZE as usize) < PACKET_SIZE_MIN);
const _: () = assert!(WINDOW_MIN <= WINDOW_MAX && WINDOW_MAX.is_power_of_two() && WINDOW_MAX <= FAR_PACKETS_MAX);
const _: () = assert!(FAR_PACKETS_MAX <= wire::RUN_MAX);
const _: () = assert!(wire::OVERHEAD_MAX < PACKET_SIZE_MIN && PACKET_SIZE_MAX <= u16::MAX as usize);
const _: () = assert!(REORDER_PACKETS <= GAP_ACKS as u32);
const _: () = assert!(REORDER_PACKETS_MAX < WINDOW_MAX && WINDOW_MAX as usize <= 64 * wire::MAP_WORDS_MAX);

/// The time at which the receiver acknowledges. With each scheme, packets that go back carry the
/// acknowledgement, and a gap, a duplicate and a probe are answered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AckScheme {
    /// Only deferred: after a number of packets or a time.
    Deferred,
    /// Deferred, but at once for the last fragment of bulk data and at the end of a burst.
    #[default]
    Immediate,
    /// An acknowledgement for every packet.
    EveryPacket,
}

/// The settings of a flow; the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Largest datagram payload in bytes, header included; `PACKET_SIZE_MIN..=PACKET_SIZE_MAX`. The flow
    /// begins with packets of this size, and goes on with smaller ones where a path does not carry it
    /// (`path_mtu`).
    pub packet_size: usize,
    /// Paths (sockets, carriers, interfaces) that bulk data takes, apart from the path of the packets around
    /// it; below `wire::PATHS_MAX`. Overtaking on another path proves no loss. 0: all packets take the same
    /// path.
    pub bulk_paths: u8,
    /// Bytes of the longest packet on the long path, header included, at most [`PACKET_SIZE_MAX`]. The long
    /// path is that of a carrier that takes longer packets than the others, such as TCP, and loses none while
    /// its connection lasts. 0: there is none.
    pub long_packet_size: usize,
    /// Most packets in flight on a short path, and most packets of messages that the receiver keeps behind a
    /// gap; `1..=WINDOW_MAX`.
    pub window_packets: u32,
    /// Most bytes of packets between the oldest unacknowledged and the newest on a far path, at most
    /// [`FAR_PACKETS_MAX`] packets. Twice the bytes that the path holds keep it full while a lost packet is
    /// sent again. 0: no more than elsewhere.
    pub far_bytes: u64,
    /// The times at which the receiver acknowledges.
    pub ack_scheme: AckScheme,
    /// Most packets over which an acknowledgement is deferred. For data that more will follow, `BULK_PACKETS`
    /// times as many. For packets with messages, `BULK_DELAY` times as many, but from this many on for no
    /// longer than `ANSWER_TIME`.
    pub ack_packets: u32,
    /// Longest time for which an acknowledgement is deferred; for data that more will follow, `BULK_DELAY`
    /// times as long.
    pub ack_delay: Duration,
    /// The longest queue on the path, in time, that the window may fill, unless half an empty round trip is
    /// longer. For far paths see [`FAR_QUEUE`].
    pub delay_target: Duration,
    /// The shortest wait before a probe.
    pub pto_min: Duration,
    /// The longest wait between probes.
    pub pto_max: Duration,
    /// Time of silence after which a peer is probed while the program waits for it, and again after this
    /// long; zero: never. An eighth of `peer_timeout` leaves room for some lost probes.
    pub keepalive: Duration,
    /// Time of unanswered probes after which the peer has failed; zero: never. A packet that is proved lost
    /// again and again for this long has the same effect.
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

    /// The number of the long path: it comes after the paths of bulk data.
    pub const fn long_path(&self) -> usize {
        self.bulk_paths as usize + 1
    }

    /// Returns whether this is the long path.
    pub const fn is_long(&self, path: usize) -> bool {
        self.long_packet_size > 0 && path == self.long_path()
    }

    /// Bytes of the longest packet on any path.
    pub(super) const fn longest(&self) -> usize {
        if self.long_packet_size > self.packet_size { self.long_packet_size } else { self.packet_size }
    }

    /// The number of paths behind path 0.
    pub(super) const fn other_paths(&self) -> usize {
        self.bulk_paths as usize + (self.long_packet_size > 0) as usize
    }

    /// Most packets between the oldest unacknowledged and the newest, however long the path is.
    pub(super) const fn reach(&self) -> u32 {
        let packets = self.far_bytes / self.packet_size as u64;
        let far = if packets < FAR_PACKETS_MAX as u64 { packets as u32 } else { FAR_PACKETS_MAX };
        if far > self.window_packets { far } else { self.window_packets }
    }

    /// The earliest time after transmission number `transmission` at which the packet may count as lost. Zero
    /// at first, and more and more once the packet was sent in vain so often that something else must be
    /// wrong.
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
            long_packet_size: 0,
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
