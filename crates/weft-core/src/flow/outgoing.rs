//! The sending half: what is in flight, what is lost, what may leave.

use super::evidence::{Evidence, Probes, Reordering, Window};
use super::queue::{Content, KEPT_BYTES, Queue};
use super::round_trip::RoundTrip;
use super::settings::{AckScheme, BURST_PACKETS, RESEND_PASS, RESENDS_PER_PASS, Settings};
use crate::time::{Duration, Instant};
use crate::wire::{Echo, Echoed, MAP_PACKETS, Number};
use alloc::collections::VecDeque;

/// Records kept allocated by an idle flow.
const KEPT_RECORDS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    /// In flight, and since then a later transmission is known to have arrived.
    Overtaken(Instant),
    /// Proved missing, in `Outgoing::lost`, will be sent again.
    Lost,
    Acknowledged,
}

/// A numbered packet that was sent.
#[derive(Debug)]
pub(super) struct Record {
    sent_at: Instant,
    content: Content,
    /// Place of its last transmission among all transmissions.
    order: Number,
    /// 1: sent once. Stays at 255.
    transmission: u8,
    state: State,
}

/// A numbered packet that should leave now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) number: Number,
    pub(super) transmission: u8,
    pub(super) content: Content,
    pub(super) request: bool,
}

/// What an acknowledgement brought.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The peer claims packets that were never sent.
    pub(super) unsent: bool,
    pub(super) lost_by_gap: u32,
    pub(super) lost_by_probe: u32,
    pub(super) window_cuts: u32,
}

#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) queue: Queue,
    records: VecDeque<Record>,
    /// Number of the first record: the oldest packet that is not acknowledged.
    base: Number,
    lost: VecDeque<(Number, Evidence)>,
    /// Records in state `InFlight` or `Overtaken`.
    in_flight: u32,
    /// The next transmission's place.
    order: Number,
    /// The latest transmission that is known to have arrived, plus one.
    proved: Number,
    /// First transmissions since one asked for an acknowledgement.
    since_request: u32,
    /// When a packet overtaken by an acknowledged one counts as lost.
    loss_at: Option<Instant>,
    /// The last time anything left that wants an answer. An answer to earlier packets does not put the tail's probe off.
    asked_at: Instant,
    /// Something was sent again since the flow was last idle.
    resent: bool,
    resends_left: u32,
    pass_at: Instant,
    window: Window,
    probes: Probes,
    reordering: Reordering,
    round_trip: RoundTrip,
}

impl Outgoing {
    /// Bytes that stay allocated when idle.
    pub(super) const KEPT: usize = KEPT_RECORDS * size_of::<Record>() + KEPT_BYTES;

    pub(super) const fn new(settings: &Settings) -> Self {
        Self {
            queue: Queue::new(),
            records: VecDeque::new(),
            base: Number::FIRST,
            lost: VecDeque::new(),
            in_flight: 0,
            order: Number::FIRST,
            proved: Number::FIRST,
            since_request: 0,
            loss_at: None,
            asked_at: Instant(0),
            resent: false,
            resends_left: RESENDS_PER_PASS,
            pass_at: Instant(0),
            window: Window::new(settings.window_packets),
            probes: Probes::new(),
            reordering: Reordering::new(),
            round_trip: RoundTrip::new(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.records.is_empty() && !self.queue.has_unsent()
    }

    fn window_is_open(&self, settings: &Settings) -> bool {
        (self.records.len() as u32) < settings.window_packets && self.in_flight < self.window.packets()
    }

    /// The next packet to send again, at most so many a pass.
    pub(super) fn next_resend(&mut self, now: Instant) -> Option<(Departure, Evidence)> {
        if self.lost.is_empty() {
            return None;
        }
        if now >= self.pass_at + RESEND_PASS {
            self.resends_left = RESENDS_PER_PASS;
            self.pass_at = now;
        }
        if self.resends_left == 0 {
            return None;
        }
        while let Some((number, evidence)) = self.lost.pop_front() {
            let index = number.since(self.base);
            // It may have been acknowledged after all.
            let Some(record) = usize::try_from(index).ok().and_then(|index| self.records.get_mut(index)) else {
                continue;
            };
            if record.state != State::Lost {
                continue;
            }
            record.state = State::InFlight;
            record.transmission = record.transmission.saturating_add(1);
            record.order = self.order;
            record.sent_at = now;
            let (transmission, content) = (record.transmission, record.content);
            self.in_flight += 1;
            self.order = self.order.plus(1);
            self.asked_at = now;
            self.resends_left -= 1;
            self.resent = true;
            self.reordering.resent();
            let request = self.lost.is_empty();
            return Some((Departure { number, transmission, content, request }, evidence));
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
            return None;
        }
        let content = self.queue.next(messages_max, data_max)?;
        let number = self.base.plus(self.records.len() as u32);
        if self.records.capacity() == 0 {
            self.records.reserve_exact(KEPT_RECORDS);
        }
        self.records.push_back(Record {
            sent_at: now,
            content,
            order: self.order,
            transmission: 1,
            state: State::InFlight,
        });
        self.in_flight += 1;
        self.order = self.order.plus(1);
        self.asked_at = now;
        let request = self.wants_request(settings);
        Some(Departure { number, transmission: 1, content, request })
    }

    /// Asks for an acknowledgement every quarter window and at the end of a burst.
    fn wants_request(&mut self, settings: &Settings) -> bool {
        self.since_request += 1;
        // A multiple of the receiver's own bound, so that both do not ask in turns.
        let quarter = self.window.packets() / 4;
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
    pub(super) fn heard(&mut self) {
        self.probes.heard();
    }

    /// Takes what the peer says has arrived; `acknowledged(region, bytes)` is told of bulk data.
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        (first_missing, map): (Number, u64),
        echo: Option<Echo>,
        settings: &Settings,
        acknowledged: &mut dyn FnMut(u32, u64),
    ) -> Progress {
        let mut progress = Progress::default();
        let advance = first_missing.since(self.base);
        if advance < 0 || self.records.is_empty() && advance == 0 && map == 0 {
            return progress;
        }
        let reach = advance as usize + if map == 0 { 0 } else { 65 - map.leading_zeros() as usize };
        if reach > self.records.len() {
            progress.unsent = true;
            return progress;
        }
        let before = self.in_flight + self.lost.len() as u32;
        let echoed = self.echoed_index(echo);
        let newly = self.settle(now, advance as usize, map, echo.filter(|_| echoed.is_some()), echoed, acknowledged);
        let probed = self.probe_answered(now, echo);
        if newly > 0 || probed.is_some() {
            self.probes.progress();
        }
        if before >= self.window.packets() {
            self.window.grow(newly, settings);
        }
        // Without a map and without resends the acknowledged packets are the oldest: nothing was overtaken.
        if map != 0 || probed.is_some() || self.resent {
            self.detect_losses(now, probed, &mut progress);
        }
        if self.records.is_empty() {
            self.release();
        }
        progress
    }

    fn echoed_index(&self, echo: Option<Echo>) -> Option<usize> {
        let Echoed::Packet { number, transmission } = echo?.of else { return None };
        let index = usize::try_from(number.since(self.base)).ok()?;
        let record = self.records.get(index)?;
        (record.state != State::Acknowledged && record.transmission == transmission && transmission < u8::MAX)
            .then_some(index)
    }

    /// Marks what has arrived and drops the records in front. Returns how many packets are newly acknowledged.
    fn settle(
        &mut self,
        now: Instant,
        advance: usize,
        map: u64,
        echo: Option<Echo>,
        echoed: Option<usize>,
        acknowledged: &mut dyn FnMut(u32, u64),
    ) -> u32 {
        let mut newly = 0;
        let mut bits = map;
        while bits != 0 {
            let index = advance + 1 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            newly += self.settle_one(now, index, echo.filter(|_| echoed == Some(index)), acknowledged);
        }
        for index in 0..advance {
            newly += self.settle_one(now, index, echo.filter(|_| echoed == Some(index)), acknowledged);
        }
        for record in self.records.drain(..advance) {
            self.queue.forget(&record.content);
        }
        self.base = self.base.plus(advance as u32);
        newly
    }

    fn settle_one(
        &mut self,
        now: Instant,
        index: usize,
        echo: Option<Echo>,
        acknowledged: &mut dyn FnMut(u32, u64),
    ) -> u32 {
        let record = &mut self.records[index];
        match record.state {
            State::Acknowledged => return 0,
            State::InFlight | State::Overtaken(_) => self.in_flight -= 1,
            State::Lost => {}
        }
        record.state = State::Acknowledged;
        if record.transmission > 1 && self.round_trip.is_too_early(now.since(record.sent_at)) {
            // This answers an earlier transmission: it was not lost.
            self.reordering.proved();
        }
        if let Some(hold) = echo.and_then(|echo| echo.hold) {
            self.round_trip.sample(Duration(now.since(record.sent_at).0.saturating_sub(hold.0)));
        }
        // Of a packet sent more than once only the echo tells which transmission arrived.
        if (record.transmission == 1 || echo.is_some()) && record.order.plus(1).is_after(self.proved) {
            self.proved = record.order.plus(1);
        }
        if let Content::Data { region, length, .. } = record.content {
            acknowledged(region, u64::from(length));
        }
        1
    }

    /// The transmission before which all have arrived or are lost, if an echo of a probe proves that.
    fn probe_answered(&mut self, now: Instant, echo: Option<Echo>) -> Option<Number> {
        let Echo { of: Echoed::Probe(probe), hold } = echo? else { return None };
        let (order, sent_at) = self.probes.answered(probe)?;
        if let (Some(hold), Some(sent_at)) = (hold, sent_at) {
            self.round_trip.sample(Duration(now.since(sent_at).0.saturating_sub(hold.0)));
        }
        Some(order)
    }

    /// Looks for packets that are missing although later ones have arrived. Beyond the map a missing bit says nothing.
    fn detect_losses(&mut self, now: Instant, probed: Option<Number>, progress: &mut Progress) {
        let patience = self.reordering.patience(self.round_trip.loss_delay());
        let threshold = self.reordering.packets() as i32;
        self.loss_at = None;
        for (index, record) in self.records.iter_mut().take(MAP_PACKETS).enumerate() {
            let overtaken = self.proved.since(record.order.plus(1));
            let since = match record.state {
                State::InFlight if overtaken > 0 => now,
                State::InFlight => Instant(u64::MAX),
                State::Overtaken(since) => since,
                State::Lost | State::Acknowledged => continue,
            };
            // It may have waited below us while a later one did not: it gets a moment to follow.
            let late_at = (record.sent_at + patience).max(since + Duration(patience.0 / 8));
            let evidence = if overtaken >= threshold || late_at <= now {
                progress.lost_by_gap += 1;
                Evidence::Gap
            } else if probed.is_some_and(|order| order.is_after(record.order)) {
                progress.lost_by_probe += 1;
                Evidence::Probe
            } else {
                if overtaken > 0 {
                    record.state = State::Overtaken(since);
                    self.loss_at = Some(self.loss_at.map_or(late_at, |at| at.min(late_at)));
                }
                continue;
            };
            record.state = State::Lost;
            self.lost.push_back((self.base.plus(index as u32), evidence));
            self.in_flight -= 1;
            progress.window_cuts += u32::from(self.window.lost(record.order, self.order));
        }
    }

    /// The time threshold has passed for some packet.
    pub(super) fn check_late(&mut self, now: Instant) -> Progress {
        let mut progress = Progress::default();
        if self.loss_at.is_some_and(|at| at <= now) {
            self.detect_losses(now, None, &mut progress);
        }
        progress
    }

    /// When the next probe should leave.
    fn probe_at(&self, settings: &Settings) -> Option<Instant> {
        if self.in_flight == 0 {
            return None;
        }
        Some(self.asked_at + self.probe_interval(settings))
    }

    fn probe_interval(&self, settings: &Settings) -> Duration {
        self.probes.interval(self.round_trip.probe_delay(settings.ack_delay, settings.probe_floor), settings)
    }

    fn probe_is_due(&self, now: Instant, settings: &Settings) -> bool {
        self.probe_at(settings).is_some_and(|at| at <= now)
    }

    /// Whether the peer has been silent for too long. To be asked before `next_probe`.
    pub(super) fn peer_is_silent(&mut self, now: Instant, settings: &Settings) -> bool {
        self.probe_is_due(now, settings) && self.probes.is_silent(now, self.probe_interval(settings), settings)
    }

    /// The number of a probe that should leave now.
    pub(super) fn next_probe(&mut self, now: Instant, settings: &Settings) -> Option<Number> {
        if !self.probe_is_due(now, settings) {
            return None;
        }
        self.asked_at = now;
        Some(self.probes.sent(now, self.order))
    }

    /// When something should leave though nothing arrives; a time in the past means now.
    pub(super) fn next_timeout(&self, settings: &Settings) -> Option<Instant> {
        if self.queue.has_unsent() && self.window_is_open(settings) {
            return Some(Instant(0));
        }
        let resend = match (self.lost.is_empty(), self.resends_left) {
            (true, _) => None,
            (false, 0) => Some(self.pass_at + RESEND_PASS),
            (false, _) => Some(Instant(0)),
        };
        [resend, self.loss_at, self.probe_at(settings)].into_iter().flatten().min()
    }

    pub(super) const fn smoothed_round_trip(&self) -> Duration {
        self.round_trip.smoothed()
    }

    pub(super) const fn window(&self) -> u32 {
        self.window.packets()
    }

    /// Gives memory back when everything in flight has been acknowledged.
    fn release(&mut self) {
        self.lost = VecDeque::new();
        self.loss_at = None;
        self.resent = false;
        if self.records.capacity() > KEPT_RECORDS {
            self.records = VecDeque::new();
        }
        self.queue.release();
    }

    /// Forgets everything: the peer has failed.
    pub(super) fn abandon(&mut self) {
        self.records.clear();
        self.queue = Queue::new();
        self.in_flight = 0;
        self.release();
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.lost.capacity() * size_of::<(Number, Evidence)>()
    }
}
