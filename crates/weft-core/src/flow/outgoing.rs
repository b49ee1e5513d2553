//! The sending half: the packets in flight, and the packets that may leave.

mod probes;

use super::loss_detection::{LossCause, ProbeTimeout, Reordering};
use super::path_mtu::PathMtu;
use super::paths::{Path, Paths};
use super::queue::{Content, Departure, KEPT_BYTES, Queue};
use super::ring::Ring;
use super::settings::{
    AckScheme, BURST_PACKETS, PACE_AHEAD, PACKET_SIZE_MIN, PATH_TRIES, RESEND_PASS, RESENDS_PER_PASS, SPACED_AFTER,
    Settings,
};
use crate::time::{Duration, Instant};
use crate::wire::Number;
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// Records kept allocated by an idle flow.
const KEPT_RECORDS: usize = 1;

impl Settings {
    /// Most bytes that a flow holds to know which packets are on their way, however long the path is: it
    /// copies no bulk data.
    pub const fn books_max(&self) -> usize {
        // A collection that grows by doubling has half its room to spare.
        let packets = self.reach().next_power_of_two() as usize;
        packets * (size_of::<Record>() + size_of::<(Number, LossCause)>()) + 2 * packets.next_multiple_of(64) / 8
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    InFlight,
    /// A packet in flight of which a later transmission on its path is known to have arrived, this many ns
    /// after the sending of the packet.
    Overtaken(u32),
    /// Proved missing, in `Outgoing::lost`, will be sent again.
    Lost,
    Acknowledged,
}

/// The state of the long path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongPath {
    /// Its carrier has no connection to the peer: messages take the other paths.
    Closed,
    /// Its carrier takes no further packet at present: messages for the path wait while a packet that it has
    /// taken is in flight, and take the other paths when there is none.
    Full,
    /// It takes packets.
    Open,
}

/// A numbered packet that was sent.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) sent_at: Instant,
    pub(super) content: Content,
    /// Number of its last transmission among all of its path.
    pub(super) order: Number,
    pub(super) state: State,
    /// The number of times that the packet was sent; 1: sent once.
    pub(super) transmission: u8,
    /// Path of its last transmission.
    pub(super) path: u8,
}

/// Packets that are to be sent again.
#[derive(Debug)]
pub(super) struct Lost(Option<Box<LostQueue>>);

#[derive(Debug, Default)]
struct LostQueue(VecDeque<(Number, LossCause)>);

impl Lost {
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|lost| lost.0.is_empty())
    }

    pub(super) fn push(&mut self, number: Number, cause: LossCause) {
        self.0.get_or_insert_default().0.push_back((number, cause));
    }

    fn pop(&mut self) -> Option<(Number, LossCause)> {
        self.0.as_mut()?.0.pop_front()
    }

    fn memory_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |lost| size_of::<LostQueue>() + lost.0.capacity() * size_of::<(Number, LossCause)>())
    }
}

#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) queue: Queue,
    pub(super) records: VecDeque<Record>,
    /// Number of the first record, beyond 32 bits: the oldest packet that is not acknowledged.
    pub(super) base: u64,
    /// The packets behind `base` that the peer has; there only while there are some.
    pub(super) has: Option<Box<Ring>>,
    /// One past the number of the newest packet that the peer has.
    pub(super) seen: Number,
    /// The packets to send again; there only while there are some.
    pub(super) lost: Lost,
    pub(super) paths: Paths,
    /// Packets sent more than once that are not acknowledged.
    pub(super) resent: u32,
    /// The time at which a packet that an acknowledged one has overtaken counts as lost.
    pub(super) loss_at: Option<Instant>,
    resends_left: u8,
    /// Packets of messages among the records.
    pub(super) message_packets: u16,
    pass_at: Instant,
    pub(super) probe_timeout: ProbeTimeout,
    pub(super) reordering: Reordering,
    /// The time for which the oldest packet has been sent in vain, beyond its first transmissions and without
    /// the pauses of this process.
    pub(super) in_vain: Duration,
    /// A packet does not get through.
    pub(super) hopeless: bool,
    /// Bytes of the longest packet that leaves as a whole at present, on any path but the long one.
    pub(super) size: u16,
    pub(super) long: LongPath,
    /// The packets of the long path that were known to have arrived when it was opened.
    long_opened: Number,
    /// The first answer on path 0 while the long path was silent, and has been since.
    pub(super) long_silent_since: Option<Instant>,
    /// The peer answers on path 0, and has not answered on the long path for long.
    pub(super) long_failed: bool,
    /// The number of times that packets have become smaller, and larger, since the last report.
    pub(super) size_changes: [u8; 2],
    /// The number of times that the present size was in doubt and has arrived, since the loss of a packet
    /// that had not been lost often.
    pub(super) vouched: u8,
    /// The state of path MTU discovery; there only while packets are smaller than by the settings, or their
    /// size is in doubt.
    pub(super) mtu: Option<Box<PathMtu>>,
}

impl Outgoing {
    /// Bytes that stay allocated when idle.
    pub(super) const KEPT: usize = KEPT_RECORDS * size_of::<Record>() + KEPT_BYTES;

    pub(super) const fn new(settings: &Settings) -> Self {
        Self {
            queue: Queue::new(),
            records: VecDeque::new(),
            base: Number::FIRST.0 as u64,
            has: None,
            seen: Number::FIRST,
            lost: Lost(None),
            paths: Paths::new(settings),
            resent: 0,
            loss_at: None,
            resends_left: RESENDS_PER_PASS,
            message_packets: 0,
            pass_at: Instant(0),
            probe_timeout: ProbeTimeout::new(),
            reordering: Reordering::new(),
            in_vain: Duration(0),
            hopeless: false,
            // No packet is longer than 2¹⁶ bytes.
            size: settings.packet_size as u16,
            long: LongPath::Closed,
            long_opened: Number::FIRST,
            long_silent_since: None,
            long_failed: false,
            size_changes: [0; 2],
            vouched: 0,
            mtu: None,
        }
    }

    /// Bytes of the longest packet that leaves as a whole at present, on any path but the long one.
    #[inline]
    pub(super) const fn packet_size(&self) -> usize {
        self.size as usize
    }

    /// Bytes of the longest packet that leaves as a whole at present on this path.
    #[inline]
    pub(super) fn packet_size_on(&self, path: usize, settings: &Settings) -> usize {
        if self.is_long(path, settings) { settings.long_packet_size } else { self.packet_size() }
    }

    /// Notes whether the long path takes packets.
    pub(super) fn set_long(&mut self, long: LongPath, settings: &Settings) {
        let path = settings.long_path();
        if long == LongPath::Closed {
            self.give_up(path);
            (self.long_failed, self.long_silent_since) = (false, None);
        } else {
            self.paths.prepare(settings);
        }
        if self.long == LongPath::Closed {
            self.long_opened = self.paths[path].proved;
        }
        self.long = long;
    }

    /// Returns whether a packet on the long path is known to have arrived since the path was opened.
    pub(super) fn has_long_worked(&self, settings: &Settings) -> bool {
        self.paths.get(settings.long_path()).is_some_and(|path| path.proved != self.long_opened)
    }

    /// Returns whether this is the long path, and not closed.
    #[inline]
    pub(super) fn is_long(&self, path: usize, settings: &Settings) -> bool {
        self.long != LongPath::Closed && path == settings.long_path()
    }

    /// Returns whether packets are in flight on the long path, which is not closed, or wait for it.
    pub(super) fn needs_long(&self, settings: &Settings) -> bool {
        self.paths[settings.long_path()].in_flight > 0 || self.is_next_long(settings)
    }

    /// Returns whether the next message is for the long path.
    #[inline]
    pub(super) fn is_next_long(&self, settings: &Settings) -> bool {
        self.long != LongPath::Closed
            && !self.is_long_blocked(settings)
            && self.queue.is_first_longer(self.messages_max(settings))
    }

    /// Returns whether the carrier of the long path takes nothing, though all that it took from this flow has
    /// arrived, perhaps on other paths. Then nothing of this flow shows when the carrier takes more. The
    /// carrier may be writing to the peer's memory, or its connection may stand still for ever.
    #[inline]
    fn is_long_blocked(&self, settings: &Settings) -> bool {
        self.long == LongPath::Full && self.paths[settings.long_path()].in_flight == 0
    }

    /// Most bytes of messages, with their prefixes, that a packet takes at present.
    #[inline]
    pub(super) fn messages_max(&self, settings: &Settings) -> usize {
        settings.messages_max(self.packet_size())
    }

    /// Goes on where an idle sending half has ended.
    pub(super) fn resume(&mut self, paths: Paths, reordering: Reordering, base: u64, next_message: Number) {
        self.queue = Queue::resumed(next_message);
        (self.paths, self.reordering, self.base) = (paths, reordering, base);
        self.seen = self.base();
    }

    pub(super) const fn base(&self) -> Number {
        Number(self.base as u32)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.records.is_empty() && !self.queue.has_unsent()
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.paths.in_flight()
    }

    /// Returns whether there are bytes that have never been sent, or packets to send again.
    pub(super) fn has_more(&self) -> bool {
        self.queue.has_unsent() || !self.lost.is_empty() || self.mtu.as_ref().is_some_and(|mtu| mtu.waits())
    }

    /// Packets that may be in flight: packets of bulk data where bulk data has paths of its own.
    pub(super) fn window(&self, settings: &Settings) -> u32 {
        let sum: u32 = self.paths.bulk(settings).map(|path| self.paths[path].congestion.window()).sum();
        sum.min(settings.reach())
    }

    /// Returns whether a packet may be sent for the first time on this path.
    pub(super) fn window_is_open(&self, path: usize, data: bool, settings: &Settings) -> bool {
        self.is_within_reach(data, settings) && !self.paths[path].is_full()
    }

    /// Returns whether pacing lets bulk data leave now on a path.
    pub(super) fn pacing_allows(&self, now: Instant, path: usize) -> bool {
        self.paths[path].paced_until() <= now + PACE_AHEAD
    }

    /// Returns whether the peer takes another packet behind the oldest that it may miss. The peer keeps
    /// packets of messages; it puts data where it belongs.
    pub(super) fn is_within_reach(&self, data: bool, settings: &Settings) -> bool {
        let sent = self.records.len() as u32;
        sent < settings.window_packets
            || sent < settings.reach() && (data || u32::from(self.message_packets) < settings.window_packets)
    }

    /// The path of the next packet that may be sent for the first time, and whether it is data: messages come
    /// before it.
    pub(super) fn next_path(&mut self, now: Instant, settings: &Settings) -> Option<(usize, bool)> {
        let (messages, data) = (self.queue.has_unsent_messages(), self.queue.has_unsent_data());
        if data {
            self.paths.prepare(settings);
        }
        let next = self.peek_path(now, settings);
        if next.is_some_and(|(path, data)| data && !self.pacing_allows(now, path)) {
            return None;
        }
        if next.is_none() && (messages || data) {
            let path = if messages { self.messages_path(settings) } else { None };
            self.paths.held_back(path, data, settings);
        }
        next
    }

    fn peek_path(&self, now: Instant, settings: &Settings) -> Option<(usize, bool)> {
        if self.queue.has_unsent_messages() && self.is_within_reach(false, settings) {
            let path = self.messages_path(settings);
            if let Some(path) = path.filter(|path| !self.paths[*path].is_full()) {
                return Some((path, false));
            }
        }
        let waits = self.queue.has_unsent_data() && self.is_within_reach(true, settings);
        let data = waits.then(|| self.paths.choose(now, settings, None));
        data.filter(|path| !self.paths[*path].is_full()).map(|path| (path, true))
    }

    /// The path of the unsent messages, unless they wait for the carrier of the long path. A run takes a path
    /// of bulk data, but all of the run takes one path: messages that overtake others would wait for them at
    /// the receiver.
    #[inline]
    fn messages_path(&self, settings: &Settings) -> Option<usize> {
        if self.is_next_long(settings) {
            return (self.long == LongPath::Open).then_some(settings.long_path());
        }
        let run = settings.bulk_paths > 0 && self.queue.is_run(self.messages_max(settings));
        Some(if run { self.paths.bulk(settings).next().unwrap_or(0) } else { 0 })
    }

    /// Returns whether the unsent messages may be sent at once.
    pub(super) fn messages_may_leave(&self, settings: &Settings) -> bool {
        self.messages_path(settings).is_some_and(|path| self.window_is_open(path, false, settings))
    }

    /// Returns whether packets wait to be sent again, and may leave.
    pub(super) fn may_resend(&mut self, now: Instant) -> bool {
        if self.lost.is_empty() {
            return false;
        }
        if now >= self.pass_at + RESEND_PASS {
            self.resends_left = RESENDS_PER_PASS;
            self.pass_at = now;
        }
        self.resends_left > 0
    }

    /// Returns the next packet to send again; each pass has a limit.
    pub(super) fn next_resend(&mut self, now: Instant, settings: &Settings) -> Option<(Departure, LossCause)> {
        if !self.may_resend(now) {
            return None;
        }
        while let Some((number, cause)) = self.lost.pop() {
            let index = number.since(self.base());
            // The packet may have been acknowledged after all.
            let Some(record) = usize::try_from(index).ok().and_then(|index| self.records.get_mut(index)) else {
                continue;
            };
            if record.state != State::Lost {
                continue;
            }
            if index == 0 && record.transmission >= SPACED_AFTER {
                // Each such wait ends with a proof of loss. A wait in which this process paused counts for
                // little.
                let spacing = settings.spacing(record.transmission).max(settings.pto_max);
                self.in_vain.0 += now.since(record.sent_at).0.min(2 * spacing.0);
                self.hopeless = settings.peer_timeout.0 != 0 && self.in_vain >= settings.peer_timeout;
            }
            let transmission = record.transmission.checked_add(1);
            let Some(transmission) = transmission.filter(|_| !self.hopeless) else {
                self.hopeless = true;
                return None;
            };
            let path = if record.content.is_bulk() {
                let stale = transmission > PATH_TRIES;
                self.paths.choose(now, settings, stale.then_some(usize::from(record.path)))
            } else {
                0
            };
            let (lost, lost_on, bytes) = (record.transmission, record.path, record.content.packet_bytes());
            record.state = State::InFlight;
            self.resent += u32::from(record.transmission == 1);
            record.transmission = transmission;
            record.order = self.paths.depart(now, path, None);
            record.sent_at = now;
            record.path = path as u8;
            if usize::from(lost_on) != path {
                self.paths.take_over(path, Number((self.base + index as u64) as u32));
            }
            let asked = match &mut record.content {
                Content::Question { size } => core::mem::take(size),
                _ => 0,
            };
            let (order, content) = (record.order.0 as u8, record.content);
            self.resends_left -= 1;
            self.reordering.resent();
            let request = self.lost.is_empty();
            if asked > 0 {
                self.question_failed(now, asked);
            } else if bytes + settings.seal_size() > PACKET_SIZE_MIN {
                self.doubt_lost(now, lost, lost_on, settings);
            }
            let number = self.base + index as u64;
            return Some((Departure { number, transmission, path, order, content, request }, cause));
        }
        None
    }

    /// Returns the next packet to send for the first time, on the path and of the kind that `next_path`
    /// names, with at most `max` bytes.
    #[inline(never)]
    pub(super) fn next_new(
        &mut self,
        now: Instant,
        settings: &Settings,
        path: usize,
        data: bool,
        max: usize,
    ) -> Departure {
        let content = if data { self.queue.next_data(max) } else { Some(self.queue.next_messages(max, false)) };
        let content = content.expect("next_path says what there is");
        self.depart(now, settings, path, content)
    }

    /// Notes that a packet with this content leaves for the first time.
    #[inline(always)]
    fn depart(&mut self, now: Instant, settings: &Settings, path: usize, content: Content) -> Departure {
        self.message_packets += u16::from(!content.is_data());
        let number = self.base + self.records.len() as u64;
        if self.records.capacity() == 0 {
            self.records.reserve_exact(KEPT_RECORDS);
        }
        let order = self.paths.depart(now, path, Some(Number(number as u32)));
        let (transmission, state) = (1, State::InFlight);
        self.records.push_back(Record { sent_at: now, content, order, transmission, path: path as u8, state });
        let request = self.wants_request(path, settings);
        Departure { number, transmission, path, order: order.0 as u8, content, request }
    }

    /// Returns the next packet to send on the long path for the first time.
    #[cold]
    pub(super) fn next_long(&mut self, now: Instant, settings: &Settings) -> Departure {
        let content = self.queue.next_messages(settings.messages_max(settings.long_packet_size), true);
        self.depart(now, settings, settings.long_path(), content)
    }

    /// Returns whether the packet asks for an acknowledgement: every quarter window and at the end of a
    /// burst.
    fn wants_request(&mut self, path: usize, settings: &Settings) -> bool {
        let path = &mut self.paths[path];
        path.since_request += 1;
        // A multiple of the receiver's own bound, so that sender and receiver do not prompt acknowledgements
        // in turns.
        let quarter = path.congestion.window() / 4;
        let quarter = (quarter - quarter % settings.ack_packets.max(1)).max(quarter.min(settings.ack_packets)).max(1);
        let burst_ends = path.since_request >= BURST_PACKETS
            && settings.ack_scheme != AckScheme::Deferred
            && !self.queue.has_unsent();
        let request = path.since_request >= quarter || burst_ends;
        if request {
            path.since_request = 0;
        }
        request
    }

    /// Gives a path other than path 0 up at the driver's wish: its packets in flight are lost.
    pub(super) fn give_up(&mut self, path: usize) {
        if path == 0 || self.paths.get(path).is_none_or(|path| path.in_flight == 0) {
            return;
        }
        let base = self.base();
        for (record, index) in self.records.iter_mut().zip(0..) {
            if usize::from(record.path) == path && matches!(record.state, State::InFlight | State::Overtaken(_)) {
                record.state = State::Lost;
                self.lost.push(base.plus(index), LossCause::Path);
            }
        }
        self.paths[path].in_flight = 0;
    }

    /// The time at which a packet should leave though nothing arrives; a time in the past means now.
    pub(super) fn next_timeout(&self, watched: bool, settings: &Settings) -> Option<Instant> {
        let paced = match self.peek_path(Instant(0), settings) {
            Some((path, true)) => Some(self.paths[path].paced_until()),
            Some((_, false)) => Some(Instant(0)),
            None => None,
        };
        if paced == Some(Instant(0)) || self.has_sizes_to_try(settings) {
            return Some(Instant(0));
        }
        let resend = match (self.lost.is_empty(), self.resends_left) {
            (true, _) => None,
            (false, 0) => Some(self.pass_at + RESEND_PASS),
            (false, _) => Some(Instant(0)),
        };
        let probe = self.probe_at(watched, settings).map(|(at, _)| at);
        [paced, resend, self.loss_at, probe].into_iter().flatten().min()
    }

    /// The path of bulk data, if any bulk data went there.
    pub(super) fn bulk_path(&self) -> &Path {
        if self.paths[1].round_trip.has_sample() { &self.paths[1] } else { &self.paths[0] }
    }

    /// Notes that all packets in flight have been acknowledged: none is missing any more.
    pub(super) fn all_acknowledged(&mut self) {
        self.lost = Lost(None);
        self.has = None;
        self.loss_at = None;
    }

    /// Gives memory back; nothing is in flight or queued.
    pub(super) fn shrink(&mut self) {
        self.forget_doubt();
        if self.records.capacity() > KEPT_RECORDS {
            self.records = VecDeque::new();
        }
        self.queue.shrink();
    }

    /// Forgets everything: the peer has failed.
    pub(super) fn abandon(&mut self) {
        self.records.clear();
        self.queue = Queue::new();
        for path in self.paths.iter_mut() {
            path.in_flight = 0;
        }
        (self.resent, self.message_packets, self.in_vain) = (0, 0, Duration(0));
        self.mtu = None;
        self.all_acknowledged();
        self.records = VecDeque::new();
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
            + self.paths.memory_bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.lost.memory_bytes()
            + self.mtu.as_ref().map_or(0, |mtu| size_of_val(&**mtu))
            + self.has.as_ref().map_or(0, |has| has.memory_bytes())
    }
}
