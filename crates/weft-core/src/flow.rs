//! The reliable flow between two processes, over packets that may be lost, duplicated or reordered.
//!
//! A flow is a pure state machine: packets and time come in, packets and events go out.
//! The driver's loop is
//!
//! 1. `handle_packet` for every datagram of this peer,
//! 2. `poll_event` until `None`,
//! 3. `submit_*` what the program wants to send,
//! 4. `poll_transmit` until `None`,
//! 5. sleep until something arrives or `next_timeout`.
//!
//! A link that sends or receives several packets at once uses `poll_train` and `handle_train`: then one clock
//! reading and one decision to acknowledge serve all of them.
//!
//! Running step 3 before step 4 lets answers carry the acknowledgements, so a ping-pong needs no packets for
//! acknowledgements alone.
//!
//! The ordered channel delivers messages exactly once in the order of submission; bulk data is placed when it
//! arrives, in any order. Messages overtake bulk data.

mod acknowledged;
mod congestion;
mod counters;
mod host_delay;
mod incoming;
mod loss_detection;
mod outgoing;
mod parked;
mod path_mtu;
mod paths;
mod queue;
mod receive;
mod ring;
mod round_trip;
mod settings;
mod sizes;
mod transmit;

pub use counters::{Counters, Gauges};
pub use parked::{PARKED_BYTES_MAX, Parked};
pub use settings::*;
pub use transmit::Train;

use crate::long_path_choice::Sending;
use crate::process::Parties;
use crate::time::{Duration, Instant};
use crate::wire::{Ciphers, FRAME_PREFIX, Key, Number, PATHS_MAX, Secret};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::ops::Range;
use host_delay::HostDelay;
use incoming::Incoming;
pub use outgoing::LongPath;
use outgoing::Outgoing;

/// Most bytes that an idle flow occupies after `Flow::shrink`, allocations included.
///
/// A flow that has used more than two paths keeps [`paths_bytes`] more, and a flow whose packets have become
/// smaller [`SMALLER_BYTES`] more. A flow that is not used for long is parked, and is smaller then
/// ([`PARKED_BYTES_MAX`]).
pub const IDLE_BYTES_MAX: usize = 1208;
/// Bytes on their way that are frames without data: beside them a message counts as alone.
const CONTROL_BYTES_MAX: usize = 256;
const _: () = assert!(size_of::<Flow>() + Outgoing::KEPT <= IDLE_BYTES_MAX);

/// Bytes that a flow keeps once it has used so many paths beside path 0.
pub const fn paths_bytes(others: usize) -> usize {
    paths::Paths::bytes_max(others)
}

/// Bytes that a flow keeps while its packets are smaller than at first, because a path does not carry larger
/// ones.
pub const SMALLER_BYTES: usize = size_of::<path_mtu::PathMtu>();

/// The source of bulk data that is sent, and sent again: memory that the sender promised to keep until it is
/// acknowledged.
pub trait Regions {
    /// Fills `out` with the region's bytes that start at `offset`.
    fn read(&mut self, region: u32, offset: u64, out: &mut [u8]);
}

/// The destination of arriving bytes.
pub trait Deliver {
    /// Takes the next message of the ordered channel (head and payload in one).
    fn message(&mut self, body: &[u8]);
    /// Takes bulk data for `remote_key`, to be placed at `offset`; every byte once, in any order. The numbers
    /// are the peer's word: check them against the promises that were made to the peer.
    fn data(&mut self, remote_key: u32, offset: u64, bytes: &[u8]);
}

/// The news for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes of the region have arrived at the peer, and so has all that was sent before them. They will not
    /// be read again.
    Acknowledged {
        /// The region given to `submit_data`.
        region: u32,
        /// Bytes newly acknowledged.
        bytes: u64,
    },
    /// The peer has failed: the flow has dropped all that it held and will neither send nor accept anything.
    PeerFailed {
        /// The reason for the failure.
        reason: Failure,
    },
}

/// The reason why a peer counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Probes went unanswered for `peer_timeout`.
    Silent,
    /// The peer answers, but for `peer_timeout` one packet has not got through however often it was sent: it
    /// may be too large for the path.
    Blocked,
    /// A packet is missing on a carrier that loses none: its connection is broken.
    Lost,
}

/// A reliable flow to one peer.
#[derive(Debug)]
pub struct Flow {
    settings: Arc<Settings>,
    own_index: u32,
    failed: bool,
    tag_key: Key,
    peer_tag_key: Key,
    /// The ciphers that seal payloads, in a sealed flow that is not idle.
    ciphers: Option<Box<Ciphers>>,
    /// The number of the next control packet, beyond 32 bits.
    next_control: u64,
    /// The program waits for the peer.
    watched: bool,
    host_delay: HostDelay,
    outgoing: Outgoing,
    incoming: Incoming,
    events: VecDeque<Event>,
    counters: Counters,
}

impl Flow {
    /// Begins a flow between two processes whose jobs have `secret` in common.
    ///
    /// Both sides must use the same `packet_size`, `window_packets` and `sealed`. Panics if the settings are
    /// outside their limits. The settings are shared with the driver.
    pub fn new(settings: Arc<Settings>, secret: &Secret, parties: &Parties) -> Self {
        let Parties { own, peer, own_index } = *parties;
        assert!((PACKET_SIZE_MIN..=PACKET_SIZE_MAX).contains(&settings.packet_size), "packet_size outside its limits");
        assert!((1..=WINDOW_MAX).contains(&settings.window_packets), "window_packets outside its limits");
        assert!(settings.other_paths() < PATHS_MAX, "more paths than a packet can name");
        assert!(settings.long_packet_size <= PACKET_SIZE_MAX, "long_packet_size outside its limits");
        assert!(own_index < 1 << 24, "a process index has 24 bits");
        Self {
            outgoing: Outgoing::new(&settings),
            settings,
            own_index,
            failed: false,
            tag_key: Key::derive(secret, own, peer),
            peer_tag_key: Key::derive(secret, peer, own),
            ciphers: None,
            next_control: u64::from(Number::FIRST.0),
            watched: false,
            host_delay: HostDelay::new(),
            incoming: Incoming::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// The largest `head` plus `payload` that fills one packet at present, in bytes. It may become smaller,
    /// and larger again.
    #[inline]
    pub fn frame_max(&self) -> usize {
        self.outgoing.messages_max(&self.settings) - FRAME_PREFIX
    }

    /// Returns whether a message of `length` bytes, head included, would fill so many packets that the long
    /// path may be better.
    #[inline]
    pub fn may_take_long_path(&self, length: usize) -> bool {
        self.settings.long_packet_size > 0 && length > LONG_FROM_PACKETS * self.frame_max()
    }

    /// The largest `head` plus `payload` that fills one packet on the long path, unless the path is closed.
    pub fn long_frame_max(&self) -> Option<usize> {
        (self.outgoing.long != LongPath::Closed)
            .then(|| self.settings.messages_max(self.settings.long_packet_size) - FRAME_PREFIX)
    }

    /// Notes whether the long path takes packets. While it is not closed, messages of more than
    /// [`Self::frame_max`] take it. Its packets in flight are sent again on other paths once it is closed.
    pub fn set_long_path(&mut self, long: LongPath) {
        if self.settings.long_packet_size > 0 && long != self.outgoing.long {
            self.outgoing.set_long(long, &self.settings);
        }
    }

    /// Returns whether the peer answers on path 0, and leaves the packets on the long path unanswered for
    /// long: its carrier does not deliver them.
    pub fn has_long_path_failed(&self) -> bool {
        self.outgoing.long_failed
    }

    /// Returns whether packets are in flight on the long path, or wait for it: then the driver must say what
    /// its carrier does.
    #[inline]
    pub fn needs_long_path(&self) -> bool {
        self.outgoing.long != LongPath::Closed && self.outgoing.needs_long(&self.settings)
    }

    /// Returns whether a packet on the long path is known to have arrived since the path was opened.
    pub fn has_long_path_worked(&self) -> bool {
        self.settings.long_packet_size > 0 && self.outgoing.has_long_worked(&self.settings)
    }

    /// The state of the long path, as the driver has told it.
    pub fn long_path(&self) -> LongPath {
        self.outgoing.long
    }

    /// Bytes of the longest packet that leaves as a whole at present.
    pub fn packet_size(&self) -> usize {
        self.outgoing.packet_size()
    }

    /// The largest `head` plus `payload` that shares the packet with the messages submitted before it; 0 if
    /// none does. A long message whose first piece has this size leaves no gap: all packets of the run have
    /// one size then, and travel as one train.
    pub fn frame_room(&self) -> usize {
        self.outgoing.queue.room(self.outgoing.messages_max(&self.settings)).saturating_sub(FRAME_PREFIX)
    }

    fn ciphers(&mut self) -> &mut Ciphers {
        let (own, peer) = (&self.tag_key, &self.peer_tag_key);
        self.ciphers.get_or_insert_with(|| Box::new(Ciphers::new(own, peer)))
    }

    /// Sends `head` and `payload` as one message on the ordered channel. Both are copied. Panics if they
    /// exceed the first value of `frame_max`, or `long_frame_max`. Without effect once the peer has failed.
    pub fn submit_message(&mut self, head: &[u8], payload: &[u8]) {
        let most = self.settings.messages_max(self.settings.longest()) - FRAME_PREFIX;
        assert!(head.len() + payload.len() <= most, "a message larger than frame_max");
        if !self.failed {
            self.counters.messages_sent += 1;
            self.outgoing.queue.submit_message(head, payload, self.outgoing.messages_max(&self.settings));
        }
    }

    /// Sends bytes `range` of `region` to the same offsets of the peer's `remote_key`. An empty range does
    /// nothing. Without effect once the peer has failed.
    ///
    /// The bytes are read when a packet leaves. They must stay the same until `Event::Acknowledged` has named
    /// all of them.
    pub fn submit_data(&mut self, remote_key: u32, region: u32, range: Range<u64>) {
        if !self.failed {
            self.outgoing.queue.submit_data(remote_key, region, range);
        }
    }

    /// Returns false while the queue is so long that the program should wait. Nothing is dropped if it does
    /// not.
    pub fn can_accept(&self) -> bool {
        self.queued_bytes() < self.settings.queue_bytes
    }

    /// Bytes of the ordered channel that are queued or not yet acknowledged.
    pub fn queued_bytes(&self) -> usize {
        self.outgoing.queue.bytes()
    }

    /// The time to call `poll_transmit` though nothing arrives; a time in the past means now. `None`: the
    /// flow is idle.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.failed {
            return None;
        }
        match (self.outgoing.next_timeout(self.watched, &self.settings), self.incoming.ack_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Notes whether the program waits for something from the peer. While it does, a peer that has been
    /// silent for `Settings::keepalive` is probed though nothing is unacknowledged. The peer fails after
    /// `Settings::peer_timeout` of silence.
    ///
    /// A watched flow that is otherwise idle may be looked at less often than `next_timeout` says: the peer's
    /// silence counts at most twice `Settings::keepalive` between two looks.
    pub fn watch(&mut self, watched: bool) {
        self.watched = watched;
    }

    /// Returns the next news for the driver.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Gives back memory that an idle flow keeps for later use. Without effect on a flow that is not idle.
    pub fn shrink(&mut self) {
        if !self.is_idle() {
            return;
        }
        self.ciphers = None;
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
        self.outgoing.shrink();
    }

    /// Returns whether a message of `length` bytes, head included, that was submitted just now may wait for
    /// others. Earlier packets must be unacknowledged, and at most `most` bytes may wait after another such
    /// message.
    pub fn may_coalesce(&self, length: usize, most: usize) -> bool {
        !self.outgoing.records.is_empty() && self.outgoing.queue.unsent_bytes() + length <= most
    }

    /// The progress of messages, for the choice of the long path.
    pub fn sending(&self, now: Instant) -> Sending {
        let (acknowledged, submitted) = self.outgoing.queue.positions();
        let Outgoing { queue, .. } = &self.outgoing;
        let on_their_way = queue.bytes().max(self.outgoing.in_flight() as usize);
        let is_idle = !queue.has_unsent() && on_their_way <= CONTROL_BYTES_MAX;
        Sending { now, is_idle, acknowledged, submitted }
    }

    /// Returns whether nothing is unacknowledged or queued, and no acknowledgement is owed.
    ///
    /// The peer may still miss the last acknowledgement and probe for it. A process that leaves at once
    /// leaves the peer probing.
    pub fn is_idle(&self) -> bool {
        self.outgoing.is_idle() && !self.incoming.is_ack_pending()
    }

    /// True once `Event::PeerFailed` has been raised.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// The counts of all that happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The state of the flow in figures.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            round_trip_ns: self.smoothed_round_trip().0,
            round_trip_min_ns: self.shortest_round_trip().map_or(0, |shortest| shortest.0),
            window_packets: self.window().into(),
            in_flight_packets: self.outgoing.in_flight().into(),
            packet_bytes: self.packet_size() as u64,
        }
    }

    /// The round trip without the receiver's hold time; a guess before the first sample.
    pub fn smoothed_round_trip(&self) -> Duration {
        self.outgoing.bulk_path().round_trip.smoothed()
    }

    /// The shortest recent round trip, once there was one.
    pub fn shortest_round_trip(&self) -> Option<Duration> {
        self.outgoing.bulk_path().round_trip.minimum()
    }

    /// Packets that may be in flight at present: packets of bulk data where bulk data has paths of its own.
    pub fn window(&self) -> u32 {
        self.outgoing.window(&self.settings)
    }

    /// Lets bulk data take these of its paths from now on, bit k for path k; the other paths take no new
    /// packets. With no bit set the paths stay as they were. Before the first call, bulk data takes path 1.
    pub fn use_paths(&mut self, paths: u8) {
        let known = paths & !1;
        if known != 0 {
            self.outgoing.paths.usable = known;
        }
    }

    /// Paths, bit k for path k, on which a probe has left since the last call after an earlier probe went
    /// unanswered. (A single answer may only be late.) Either the path leads to the peer no more, or answers
    /// do not come back, or the peer is not looking.
    pub fn take_doubts(&mut self) -> u8 {
        self.outgoing.paths.take_doubts()
    }

    /// Paths, bit k for path k, that proved alive since the last call: a probe was answered there, or a
    /// packet acknowledged that was sent after the path was doubted.
    pub fn take_alive(&mut self) -> u8 {
        self.outgoing.paths.take_alive()
    }

    /// Notes that packets on this path take another carrier from now on: packets sent until now prove nothing
    /// about the new carrier.
    pub fn changes_carrier(&mut self, path: usize) {
        self.outgoing.paths.changes_carrier(path, Number(self.next_control as u32));
    }

    /// Probes at once for the packets in flight, because a silent path leads to the peer again, or answers
    /// come back on another path.
    pub fn ask_again(&mut self) {
        self.outgoing.ask_again();
    }

    /// Notes a sign of life of the peer beside the flow's packets: the peer has answered a challenge.
    pub fn heard_beside(&mut self, now: Instant) {
        self.outgoing.heard(now);
    }

    /// Returns whether packets are in flight on this path, and the last probes for them went unanswered.
    pub fn is_silent(&self, path: usize) -> bool {
        self.outgoing.is_silent(path)
    }

    /// Gives up a path of bulk data that leads to the peer no more: its packets in flight are sent again on
    /// the other paths.
    pub fn give_up(&mut self, path: usize) {
        self.outgoing.give_up(path);
    }

    /// Bytes this flow occupies, allocations included. At most `IDLE_BYTES_MAX` after `shrink`, when idle and
    /// all events are taken.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.outgoing.memory_bytes()
            + self.incoming.memory_bytes()
            + self.events.capacity() * size_of::<Event>()
            + self.ciphers.as_ref().map_or(0, |ciphers| size_of::<Ciphers>() + ciphers.memory_bytes())
    }

    fn fail(&mut self, reason: Failure) {
        self.failed = true;
        self.outgoing.abandon();
        self.incoming.abandon();
        self.events.push_back(Event::PeerFailed { reason });
    }
}

#[cfg(test)]
mod tests;
