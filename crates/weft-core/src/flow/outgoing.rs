//! The sending half: what is in flight, and what may leave.

use super::evidence::{Evidence, Patience, Reordering};
use super::queue::{Content, KEPT_BYTES, Queue};
use super::ring::Ring;
use super::settings::{
    AckScheme, BURST_PACKETS, RESEND_PASS, RESENDS_PER_PASS, SPACED_AFTER, Settings, WAY_DOUBTS, WAY_TRIES,
};
use super::ways::{Way, Ways};
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
    /// Way of its last transmission.
    pub(super) way: u8,
}

/// A numbered packet that should leave now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    /// Beyond 32 bits.
    pub(super) number: u64,
    pub(super) transmission: u8,
    pub(super) way: usize,
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
    pub(super) ways: Ways,
    /// Packets sent more than once that are not acknowledged.
    pub(super) resent: u32,
    /// When a packet overtaken by an acknowledged one counts as lost.
    pub(super) loss_at: Option<Instant>,
    resends_left: u32,
    pass_at: Instant,
    pub(super) patience: Patience,
    pub(super) reordering: Reordering,
    /// How long the oldest packet has been sent in vain, beyond its first transmissions; our own absence not counted.
    pub(super) in_vain: Duration,
    /// A packet does not get through.
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
            ways: Ways::new(settings),
            resent: 0,
            loss_at: None,
            resends_left: RESENDS_PER_PASS,
            pass_at: Instant(0),
            patience: Patience::new(),
            reordering: Reordering::new(),
            in_vain: Duration(0),
            hopeless: false,
        }
    }

    /// Goes on where another ended that was idle.
    pub(super) fn resume(&mut self, ways: Ways, reordering: Reordering, base: u64, next_message: Number) {
        self.queue = Queue::resumed(next_message);
        (self.ways, self.reordering, self.base) = (ways, reordering, base);
        self.seen = self.base();
    }

    pub(super) const fn base(&self) -> Number {
        Number(self.base as u32)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.records.is_empty() && !self.queue.has_unsent()
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.ways.in_flight()
    }

    /// Packets that may be in flight: bulk data where that has ways of its own.
    pub(super) fn window(&self, settings: &Settings) -> u32 {
        let sum: u32 = self.ways.bulk(settings).map(|way| self.ways[way].congestion.window()).sum();
        sum.min(settings.window_packets)
    }

    /// Whether a packet may be sent for the first time on this way.
    pub(super) fn window_is_open(&self, way: usize, settings: &Settings) -> bool {
        (self.records.len() as u32) < settings.window_packets && !self.ways[way].is_full()
    }

    /// The way of the next packet that may be sent for the first time, and whether it is data: messages come before it.
    pub(super) fn next_way(&mut self, now: Instant, settings: &Settings) -> Option<(usize, bool)> {
        let (messages, data) = (self.queue.has_unsent_messages(), self.queue.has_unsent_data());
        if data {
            self.ways.prepare(settings);
        }
        let next = self.peek_way(now, settings);
        if next.is_none() && (messages || data) {
            let way = messages.then(|| self.messages_way(settings));
            self.ways.held_back(way, data, settings);
        }
        next
    }

    fn peek_way(&self, now: Instant, settings: &Settings) -> Option<(usize, bool)> {
        if self.records.len() as u32 >= settings.window_packets {
            return None;
        }
        if self.queue.has_unsent_messages() {
            let way = self.messages_way(settings);
            if !self.ways[way].is_full() {
                return Some((way, false));
            }
        }
        let data = self.queue.has_unsent_data().then(|| self.ways.choose(now, settings, None));
        data.filter(|way| !self.ways[*way].is_full()).map(|way| (way, true))
    }

    /// The way of the unsent messages. A run goes like bulk data, but all of it one way: messages that overtake others would wait
    /// for these at the receiver.
    fn messages_way(&self, settings: &Settings) -> usize {
        let run = settings.bulk_ways > 0 && self.queue.is_run(settings.messages_max());
        if run { self.ways.bulk(settings).next().unwrap_or(0) } else { 0 }
    }

    /// Whether the unsent messages may be sent at once.
    pub(super) fn messages_may_leave(&self, settings: &Settings) -> bool {
        self.window_is_open(self.messages_way(settings), settings)
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
            if index == 0 && record.transmission >= SPACED_AFTER {
                // Each time is ended by a proof of loss. One in which nobody looked here counts for little.
                let spacing = settings.spacing(record.transmission).max(settings.probe_cap);
                self.in_vain.0 += now.since(record.sent_at).0.min(2 * spacing.0);
                self.hopeless = settings.peer_timeout.0 != 0 && self.in_vain >= settings.peer_timeout;
            }
            let transmission = record.transmission.checked_add(1);
            let Some(transmission) = transmission.filter(|_| !self.hopeless) else {
                self.hopeless = true;
                return None;
            };
            let way = if record.content.is_bulk() {
                let stale = transmission > WAY_TRIES;
                self.ways.choose(now, settings, stale.then_some(usize::from(record.way)))
            } else {
                0
            };
            record.state = State::InFlight;
            self.resent += u32::from(record.transmission == 1);
            record.transmission = transmission;
            record.order = self.ways.depart(now, way);
            record.sent_at = now;
            record.way = way as u8;
            let (order, content) = (record.order.0 as u8, record.content);
            self.resends_left -= 1;
            self.reordering.resent();
            let request = self.lost.is_empty();
            return Some((
                Departure { number: self.base + index as u64, transmission, way, order, content, request },
                evidence,
            ));
        }
        None
    }

    /// The next packet to send for the first time, on the way and of the kind that `next_way` says, with at most `max` bytes.
    pub(super) fn next_new(
        &mut self,
        now: Instant,
        settings: &Settings,
        way: usize,
        data: bool,
        max: usize,
    ) -> Departure {
        let content = if data { self.queue.next_data(max) } else { Some(self.queue.next_messages(max)) };
        let content = content.expect("next_way says what there is");
        let number = self.base + self.records.len() as u64;
        if self.records.capacity() == 0 {
            self.records.reserve_exact(KEPT_RECORDS);
        }
        let order = self.ways.depart(now, way);
        let (transmission, state) = (1, State::InFlight);
        self.records.push_back(Record { sent_at: now, content, order, transmission, way: way as u8, state });
        let request = self.wants_request(way, settings);
        Departure { number, transmission, way, order: order.0 as u8, content, request }
    }

    /// Asks for an acknowledgement every quarter window and at the end of a burst.
    fn wants_request(&mut self, way: usize, settings: &Settings) -> bool {
        let way = &mut self.ways[way];
        way.since_request += 1;
        // A multiple of the receiver's own bound, so that both do not ask in turns.
        let quarter = way.congestion.window() / 4;
        let quarter = (quarter - quarter % settings.ack_packets.max(1)).max(quarter.min(settings.ack_packets)).max(1);
        let burst_ends = way.since_request >= BURST_PACKETS
            && settings.ack_scheme != AckScheme::Deferred
            && !self.queue.has_unsent();
        let request = way.since_request >= quarter || burst_ends;
        if request {
            way.since_request = 0;
        }
        request
    }

    /// The driver gives a way of bulk data up: what is in flight there is lost.
    pub(super) fn give_up(&mut self, way: usize) {
        if way == 0 || self.ways.get(way).is_none_or(|way| way.in_flight == 0) {
            return;
        }
        let base = self.base();
        for (record, index) in self.records.iter_mut().zip(0..) {
            if usize::from(record.way) == way && matches!(record.state, State::InFlight | State::Overtaken(_)) {
                record.state = State::Lost;
                self.lost.push(base.plus(index), Evidence::Way);
            }
        }
        self.ways[way].in_flight = 0;
    }

    /// Packets are in flight on this way, and the last probes for them went unanswered.
    pub(super) fn is_silent(&self, way: usize) -> bool {
        self.ways.get(way).is_some_and(|way| way.in_flight > 0 && way.unanswered >= WAY_DOUBTS)
    }

    /// An authentic packet came from the peer.
    pub(super) fn heard(&mut self, now: Instant) {
        self.patience.heard(now);
    }

    /// The way on which a probe is due first, and when.
    fn probe_at(&self, watched: bool, settings: &Settings) -> Option<(Instant, usize)> {
        let due = |index: usize, way: &Way| way.asked_at + self.probe_interval(index, way, settings);
        let waiting = self.ways.iter().enumerate().filter(|(_, way)| way.in_flight > 0);
        let unsettled = || self.is_unsettled().then(|| (due(0, &self.ways[0]), 0));
        let keepalive = || {
            let quiet_since = self.patience.quiet_since().max(self.ways[0].asked_at);
            (watched && settings.keepalive.0 != 0).then_some((quiet_since + settings.keepalive, 0))
        };
        waiting.map(|(index, way)| (due(index, way), index)).min().or_else(unsettled).or_else(keepalive)
    }

    /// Nothing is outstanding by what is noted, and yet the peer has not acknowledged everything: so it must be asked what it misses.
    fn is_unsettled(&self) -> bool {
        !self.records.is_empty() && self.in_flight() == 0 && self.lost.is_empty()
    }

    /// There may be an answer now: probes for what is in flight need not wait any longer.
    pub(super) fn ask_again(&mut self) {
        for way in self.ways.iter_mut().filter(|way| way.in_flight > 0) {
            way.unanswered = 0;
        }
    }

    fn probe_interval(&self, index: usize, way: &Way, settings: &Settings) -> Duration {
        let delay = way.round_trip.probe_delay(settings.ack_delay, settings.probe_floor);
        let interval = Patience::interval(delay, way.unanswered, settings);
        // Nothing would come of an answer before the oldest packet may count as lost.
        let oldest =
            self.records.front().filter(|oldest| oldest.state == State::InFlight && usize::from(oldest.way) == index);
        oldest.map_or(interval, |oldest| interval.max(settings.spacing(oldest.transmission)))
    }

    /// The way on which a probe should leave now.
    pub(super) fn due_probe(&self, now: Instant, watched: bool, settings: &Settings) -> Option<usize> {
        self.probe_at(watched, settings).filter(|(at, _)| *at <= now).map(|(_, way)| way)
    }

    /// Whether the peer has been silent for too long. To be asked before `probe_sent`.
    pub(super) fn peer_is_silent(&mut self, now: Instant, way: usize, settings: &Settings) -> bool {
        let asks_only = self.records.is_empty();
        if asks_only {
            self.patience.was_quiet(settings.keepalive);
        }
        let interval = if asks_only { settings.keepalive } else { self.probe_interval(way, &self.ways[way], settings) };
        self.patience.is_silent(now, interval, settings)
    }

    /// A probe with this number leaves.
    pub(super) fn probe_sent(&mut self, now: Instant, number: Number, way: usize) {
        self.ways.probe_sent(now, number, way);
        self.patience.probe_sent(now);
    }

    /// When something should leave though nothing arrives; a time in the past means now.
    pub(super) fn next_timeout(&self, watched: bool, settings: &Settings) -> Option<Instant> {
        if self.peek_way(Instant(0), settings).is_some() {
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
        for way in self.ways.iter_mut() {
            way.in_flight = 0;
        }
        (self.resent, self.in_vain) = (0, Duration(0));
        self.settled();
        self.records = VecDeque::new();
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
            + self.ways.memory_bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.lost.memory_bytes()
            + self.has.as_ref().map_or(0, |has| size_of_val(&**has))
    }
}
