//! The sending half: what is in flight, and what may leave.

use super::congestion::Congestion;
use super::evidence::{Evidence, Patience, Reordering, Run};
use super::queue::{Content, KEPT_BYTES, Queue};
use super::ring::Ring;
use super::round_trip::RoundTrip;
use super::settings::{AckScheme, BURST_PACKETS, RESEND_PASS, RESENDS_PER_PASS, Settings};
use crate::time::{Duration, Instant};
use crate::wire::Number;
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// Records kept allocated by an idle flow.
const KEPT_RECORDS: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    InFlight,
    /// In flight, and a later transmission of its way is known to have arrived, since so many ns after its sending.
    Overtaken(u32),
    /// Proved missing, in `Outgoing::lost`, will be sent again.
    Lost,
    Acknowledged,
}

/// A numbered packet that was sent.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) sent_at: Instant,
    pub(super) content: Content,
    /// Place of its last transmission among all of its way.
    pub(super) order: Number,
    pub(super) state: State,
    /// 1: sent once.
    pub(super) transmission: u8,
}

/// A numbered packet that should leave now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    /// Beyond 32 bits.
    pub(super) number: u64,
    pub(super) transmission: u8,
    pub(super) order: u8,
    pub(super) content: Content,
    pub(super) request: bool,
}

/// Packets that are to be sent again.
#[derive(Debug)]
pub(super) struct Lost(Option<Box<LostQueue>>);

#[derive(Debug, Default)]
struct LostQueue(VecDeque<(Number, Evidence)>);

impl Lost {
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|lost| lost.0.is_empty())
    }

    pub(super) fn push(&mut self, number: Number, evidence: Evidence) {
        self.0.get_or_insert_default().0.push_back((number, evidence));
    }

    fn pop(&mut self) -> Option<(Number, Evidence)> {
        self.0.as_mut()?.0.pop_front()
    }

    fn memory_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |lost| size_of::<LostQueue>() + lost.0.capacity() * size_of::<(Number, Evidence)>())
    }
}

/// One of the ways that packets take: what overtakes a packet proves something only on the same way.
#[derive(Debug)]
pub(super) struct Way {
    /// The next transmission's place.
    pub(super) order: Number,
    /// The latest transmission that is known to have arrived, plus one.
    pub(super) proved: Number,
    /// Packets of it in state `InFlight` or `Overtaken`.
    pub(super) in_flight: u32,
    /// The last time anything left that wants an answer. An answer to earlier packets does not put the tail's probe off.
    pub(super) asked_at: Instant,
    pub(super) probes: Run,
    pub(super) round_trip: RoundTrip,
}

impl Way {
    const fn new() -> Self {
        Self {
            order: Number::FIRST,
            proved: Number::FIRST,
            in_flight: 0,
            asked_at: Instant(0),
            probes: Run::new(),
            round_trip: RoundTrip::new(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) queue: Queue,
    pub(super) records: VecDeque<Record>,
    /// Number of the first record, beyond 32 bits: the oldest packet that is not acknowledged.
    pub(super) base: u64,
    /// The packets behind `base` that the peer has. There only while there are any.
    pub(super) has: Option<Box<Ring>>,
    /// One past the newest packet that the peer has.
    pub(super) seen: Number,
    /// What is to be sent again. There only while there is something.
    pub(super) lost: Lost,
    /// That of messages, and that of bulk data if the driver has another for it.
    pub(super) ways: [Way; 2],
    /// Packets sent more than once that are not acknowledged.
    pub(super) resent: u32,
    /// First transmissions since one asked for an acknowledgement.
    since_request: u32,
    /// When a packet overtaken by an acknowledged one counts as lost.
    pub(super) loss_at: Option<Instant>,
    resends_left: u32,
    pass_at: Instant,
    pub(super) congestion: Congestion,
    pub(super) patience: Patience,
    pub(super) reordering: Reordering,
    /// A packet was sent as often as can be.
    pub(super) hopeless: bool,
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
            ways: [Way::new(), Way::new()],
            resent: 0,
            since_request: 0,
            loss_at: None,
            resends_left: RESENDS_PER_PASS,
            pass_at: Instant(0),
            congestion: Congestion::new(settings.window_packets),
            patience: Patience::new(),
            reordering: Reordering::new(),
            hopeless: false,
        }
    }

    pub(super) const fn base(&self) -> Number {
        Number(self.base as u32)
    }

    /// The number that the next new packet gets.
    pub(super) fn next_number(&self) -> Number {
        self.base().plus(self.records.len() as u32)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.records.is_empty() && !self.queue.has_unsent()
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.ways[0].in_flight + self.ways[1].in_flight
    }

    fn window_is_open(&self, settings: &Settings) -> bool {
        (self.records.len() as u32) < settings.window_packets && self.in_flight() < self.congestion.window()
    }

    /// Packets that may still be sent for the first time.
    pub(super) fn window_left(&self, settings: &Settings) -> u32 {
        let receiver = settings.window_packets.saturating_sub(self.records.len() as u32);
        receiver.min(self.congestion.window().saturating_sub(self.in_flight()))
    }

    /// Packets are waiting to be sent again, and may be.
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

    /// The next packet to send again, at most so many a pass.
    pub(super) fn next_resend(&mut self, now: Instant, settings: &Settings) -> Option<(Departure, Evidence)> {
        if !self.may_resend(now) {
            return None;
        }
        while let Some((number, evidence)) = self.lost.pop() {
            let index = number.since(self.base());
            // It may have been acknowledged after all.
            let Some(record) = usize::try_from(index).ok().and_then(|index| self.records.get_mut(index)) else {
                continue;
            };
            if record.state != State::Lost {
                continue;
            }
            let Some(transmission) = record.transmission.checked_add(1) else {
                self.hopeless = true;
                return None;
            };
            let way = &mut self.ways[record.content.way(settings)];
            record.state = State::InFlight;
            self.resent += u32::from(record.transmission == 1);
            record.transmission = transmission;
            record.order = way.order;
            record.sent_at = now;
            way.in_flight += 1;
            way.order = way.order.plus(1);
            way.asked_at = now;
            let (order, content) = (record.order.0 as u8, record.content);
            self.resends_left -= 1;
            self.reordering.resent();
            let request = self.lost.is_empty();
            return Some((
                Departure { number: self.base + index as u64, transmission, order, content, request },
                evidence,
            ));
        }
        None
    }

    /// The next packet to send for the first time: messages before data.
    pub(super) fn next_new(
        &mut self,
        now: Instant,
        settings: &Settings,
        messages_max: usize,
        data_max: usize,
    ) -> Option<Departure> {
        if !self.window_is_open(settings) {
            if self.queue.has_unsent() && self.in_flight() >= self.congestion.window() {
                self.congestion.held_back();
            }
            return None;
        }
        let content = self.queue.next(messages_max, data_max)?;
        let number = self.base + self.records.len() as u64;
        if self.records.capacity() == 0 {
            self.records.reserve_exact(KEPT_RECORDS);
        }
        let way = &mut self.ways[content.way(settings)];
        let order = way.order;
        way.in_flight += 1;
        way.order = order.plus(1);
        way.asked_at = now;
        self.records.push_back(Record { sent_at: now, content, order, transmission: 1, state: State::InFlight });
        let request = self.wants_request(settings);
        Some(Departure { number, transmission: 1, order: order.0 as u8, content, request })
    }

    /// Asks for an acknowledgement every quarter window and at the end of a burst.
    fn wants_request(&mut self, settings: &Settings) -> bool {
        self.since_request += 1;
        // A multiple of the receiver's own bound, so that both do not ask in turns.
        let quarter = self.congestion.window() / 4;
        let quarter = (quarter - quarter % settings.ack_packets.max(1)).max(quarter.min(settings.ack_packets)).max(1);
        let burst_ends = self.since_request >= BURST_PACKETS
            && settings.ack_scheme != AckScheme::Deferred
            && !self.queue.has_unsent();
        let request = self.since_request >= quarter || burst_ends;
        if request {
            self.since_request = 0;
        }
        request
    }

    /// An authentic packet came from the peer.
    pub(super) fn heard(&mut self, now: Instant) {
        self.patience.heard(now);
    }

    /// The way on which a probe is due first, and when.
    fn probe_at(&self, watched: bool, settings: &Settings) -> Option<(Instant, usize)> {
        let due = |way: &Way| way.asked_at + self.probe_interval(way, settings);
        let waiting = self.ways.iter().enumerate().filter(|(_, way)| way.in_flight > 0);
        let keepalive = || {
            let quiet_since = self.patience.quiet_since().max(self.ways[0].asked_at);
            (watched && settings.keepalive.0 != 0).then_some((quiet_since + settings.keepalive, 0))
        };
        waiting.map(|(index, way)| (due(way), index)).min().or_else(keepalive)
    }

    fn probe_interval(&self, way: &Way, settings: &Settings) -> Duration {
        self.patience.interval(way.round_trip.probe_delay(settings.ack_delay, settings.probe_floor), settings)
    }

    /// The way on which a probe should leave now.
    pub(super) fn due_probe(&self, now: Instant, watched: bool, settings: &Settings) -> Option<usize> {
        self.probe_at(watched, settings).filter(|(at, _)| *at <= now).map(|(_, way)| way)
    }

    /// Whether the peer has been silent for too long. To be asked before `probe_sent`.
    pub(super) fn peer_is_silent(&mut self, now: Instant, way: usize, settings: &Settings) -> bool {
        let asks_only = self.in_flight() == 0;
        if asks_only {
            self.patience.was_quiet(settings.keepalive);
        }
        let interval = if asks_only { settings.keepalive } else { self.probe_interval(&self.ways[way], settings) };
        self.patience.is_silent(now, interval, settings)
    }

    /// A probe with this number leaves.
    pub(super) fn probe_sent(&mut self, now: Instant, number: Number, way: usize) {
        let way = &mut self.ways[way];
        way.asked_at = now;
        way.probes.sent(number, way.order);
        self.patience.probe_sent(now);
    }

    /// When something should leave though nothing arrives; a time in the past means now.
    pub(super) fn next_timeout(&self, watched: bool, settings: &Settings) -> Option<Instant> {
        if self.queue.has_unsent() && self.window_is_open(settings) {
            return Some(Instant(0));
        }
        let resend = match (self.lost.is_empty(), self.resends_left) {
            (true, _) => None,
            (false, 0) => Some(self.pass_at + RESEND_PASS),
            (false, _) => Some(Instant(0)),
        };
        let probe = self.probe_at(watched, settings).map(|(at, _)| at);
        [resend, self.loss_at, probe].into_iter().flatten().min()
    }

    /// The way of bulk data, if any went there.
    pub(super) fn bulk_way(&self) -> &Way {
        if self.ways[1].round_trip.has_sample() { &self.ways[1] } else { &self.ways[0] }
    }

    /// Everything in flight has been acknowledged: nothing is missing any more.
    pub(super) fn settled(&mut self) {
        self.lost = Lost(None);
        self.has = None;
        self.loss_at = None;
    }

    /// Gives memory back; nothing is in flight or queued.
    pub(super) fn rest(&mut self) {
        if self.records.capacity() > KEPT_RECORDS {
            self.records = VecDeque::new();
        }
        self.queue.rest();
    }

    /// Forgets everything: the peer has failed.
    pub(super) fn abandon(&mut self) {
        self.records.clear();
        self.queue = Queue::new();
        for way in &mut self.ways {
            way.in_flight = 0;
        }
        self.resent = 0;
        self.settled();
        self.records = VecDeque::new();
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.lost.memory_bytes()
            + self.has.as_ref().map_or(0, |has| size_of_val(&**has))
    }
}
