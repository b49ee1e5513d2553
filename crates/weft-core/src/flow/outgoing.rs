//! The sending half: what is queued, what is in flight, what is lost.

use super::round_trip::RoundTrip;
use super::settings::{REORDER_PACKETS, RESEND_PASS, RESENDS_PER_PASS, Settings, WINDOW_GROWTH, WINDOW_MIN};
use crate::time::{Duration, Instant};
use crate::wire::{Echo, Echoed, FRAME_PREFIX, MAP_PACKETS, Number};
use alloc::collections::VecDeque;
use core::ops::Range;

/// Records kept allocated by an idle flow.
pub(super) const KEPT_RECORDS: usize = 2;
/// Bytes of messages kept allocated by an idle flow.
pub(super) const KEPT_BYTES: usize = 128;

/// What a numbered packet carries, so that it can be built again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// `length` bytes of frames; those of the oldest unacknowledged packet stand at the front of `Outgoing::frames`.
    Messages { start: u32, length: u16, first: Number },
    /// A piece of a region.
    Data { sink: u32, region: u32, offset: u64, length: u16, end: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    /// Proved missing, in `Outgoing::lost`, will be sent again.
    Lost,
    Acknowledged,
}

/// Why a packet is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    Gap,
    Probe,
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

/// A range of a region of which bytes are still to be sent.
#[derive(Debug)]
struct Job {
    sink: u32,
    region: u32,
    left: Range<u64>,
}

/// A numbered packet that should leave now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) number: Number,
    pub(super) transmission: u8,
    pub(super) content: Content,
    pub(super) request: bool,
}

/// The probes since the last packet left: their echo proves what is missing.
#[derive(Debug)]
struct Probes {
    /// The next probe's number.
    next: Number,
    /// The first probe sent since `order` was the newest transmission.
    first: Number,
    order: Number,
    sent_at: Instant,
    /// Unanswered in a row.
    unanswered: u32,
    /// How long the peer has been silent, our own absence not counted.
    silent: Duration,
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
    /// Frames of messages that are queued or not yet acknowledged, in order; the first stands at position `front`.
    frames: VecDeque<u8>,
    front: u32,
    /// Position of the first frame that has not been sent.
    unsent: u32,
    /// Number of the message there.
    next_message: Number,
    jobs: VecDeque<Job>,
    records: VecDeque<Record>,
    /// Number of the first record: the oldest packet that is not acknowledged.
    base: Number,
    lost: VecDeque<(Number, Evidence)>,
    /// Records in state `InFlight`.
    in_flight: u32,
    /// The next transmission's place.
    order: Number,
    /// The latest transmission that is known to have arrived, plus one.
    proved: Number,
    /// Congestion window, packets.
    window: u32,
    growth: u32,
    /// Losses of transmissions before this one have already cut the window.
    cut: Number,
    /// First transmissions since one asked for an acknowledgement.
    since_request: u32,
    /// When a packet overtaken by an acknowledged one counts as lost.
    loss_at: Option<Instant>,
    /// The last time anything left that wants an answer, or an answer brought something new.
    active_at: Instant,
    probes: Probes,
    /// Something was sent again since the flow was last idle.
    resent: bool,
    resends_left: u32,
    pass_at: Instant,
    round_trip: RoundTrip,
}

impl Outgoing {
    /// Bytes that stay allocated when idle.
    pub(super) const KEPT: usize = KEPT_RECORDS * size_of::<Record>() + KEPT_BYTES;

    pub(super) const fn new(settings: &Settings) -> Self {
        let start = Number::FIRST;
        let zero = Instant(0);
        Self {
            frames: VecDeque::new(),
            front: 0,
            unsent: 0,
            next_message: start,
            jobs: VecDeque::new(),
            records: VecDeque::new(),
            base: start,
            lost: VecDeque::new(),
            in_flight: 0,
            order: start,
            proved: start,
            window: settings.window_packets,
            growth: 0,
            cut: start,
            since_request: 0,
            loss_at: None,
            active_at: zero,
            probes: Probes {
                next: start,
                first: start,
                order: start,
                sent_at: zero,
                unanswered: 0,
                silent: Duration(0),
            },
            resent: false,
            resends_left: RESENDS_PER_PASS,
            pass_at: zero,
            round_trip: RoundTrip::new(),
        }
    }

    pub(super) fn submit_message(&mut self, head: &[u8], payload: &[u8]) {
        let length = head.len() + payload.len();
        let prefix = u16::try_from(length).expect("a message fits a packet").to_le_bytes();
        self.frames.reserve(FRAME_PREFIX + length);
        self.frames.extend(prefix);
        self.frames.extend(head);
        self.frames.extend(payload);
    }

    pub(super) fn submit_data(&mut self, sink: u32, region: u32, range: Range<u64>) {
        if !range.is_empty() {
            self.jobs.push_back(Job { sink, region, left: range });
        }
    }

    /// Bytes of messages queued or not yet acknowledged.
    pub(super) fn queued_bytes(&self) -> usize {
        self.frames.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.records.is_empty() && !self.has_unsent()
    }

    fn has_unsent(&self) -> bool {
        self.unsent_bytes() > 0 || !self.jobs.is_empty()
    }

    fn unsent_bytes(&self) -> usize {
        self.frames.len() - self.unsent.wrapping_sub(self.front) as usize
    }

    fn window_is_open(&self, settings: &Settings) -> bool {
        (self.records.len() as u32) < settings.window_packets && self.in_flight < self.window
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
            self.active_at = now;
            self.resends_left -= 1;
            self.resent = true;
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
        let content = if self.unsent_bytes() > 0 { self.cut_messages(messages_max) } else { self.cut_data(data_max)? };
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
        self.active_at = now;
        let request = self.wants_request(settings);
        Some(Departure { number, transmission: 1, content, request })
    }

    /// Takes as many whole messages as fit into a packet; at least one does.
    fn cut_messages(&mut self, max: usize) -> Content {
        let (start, first) = (self.unsent, self.next_message);
        let begin = start.wrapping_sub(self.front) as usize;
        let mut length = 0;
        while let (Some(&low), Some(&high)) = (self.frames.get(begin + length), self.frames.get(begin + length + 1)) {
            let next = length + FRAME_PREFIX + usize::from(u16::from_le_bytes([low, high]));
            if next > max {
                break;
            }
            length = next;
            self.next_message = self.next_message.plus(1);
        }
        assert!(length > 0, "submit_message lets no message in that is larger than a packet");
        self.unsent = start.wrapping_add(length as u32);
        Content::Messages { start, length: length as u16, first }
    }

    fn cut_data(&mut self, max: usize) -> Option<Content> {
        let job = self.jobs.front_mut()?;
        let offset = job.left.start;
        let length = (job.left.end - offset).min(max as u64);
        job.left.start += length;
        let (sink, region, end) = (job.sink, job.region, job.left.is_empty());
        if end {
            self.jobs.pop_front();
        }
        Some(Content::Data { sink, region, offset, length: length as u16, end })
    }

    /// Asks for an acknowledgement every quarter window and at the end of a burst.
    fn wants_request(&mut self, settings: &Settings) -> bool {
        self.since_request += 1;
        // A multiple of the receiver's own bound, so that both do not ask in turns.
        let quarter = self.window / 4;
        let quarter = (quarter - quarter % settings.ack_packets.max(1)).max(quarter.min(settings.ack_packets)).max(1);
        let burst_ends = self.since_request >= super::settings::BURST_PACKETS
            && settings.ack_scheme != super::settings::AckScheme::Deferred
            && !self.has_unsent();
        let request = self.since_request >= quarter || burst_ends;
        if request {
            self.since_request = 0;
        }
        request
    }

    /// The frames of a packet, in two pieces.
    pub(super) fn frames(&self, start: u32, length: u16) -> (&[u8], &[u8]) {
        let begin = start.wrapping_sub(self.front) as usize;
        let end = begin + usize::from(length);
        let (low, high) = self.frames.as_slices();
        let split = low.len();
        (&low[begin.min(split)..end.min(split)], &high[begin.saturating_sub(split)..end.saturating_sub(split)])
    }

    /// An authentic packet came from the peer: it lives.
    pub(super) fn heard(&mut self) {
        self.probes.silent = Duration(0);
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
        let probe_answered = self.probe_answered(now, echo);
        if newly > 0 || probe_answered {
            self.active_at = now;
            self.probes.unanswered = 0;
        }
        if newly > 0 {
            self.grow(newly, before >= self.window, settings.window_packets);
        }
        // Without a map and without resends the acknowledged packets are the oldest: nothing was overtaken.
        if map != 0 || probe_answered || self.resent {
            self.detect_losses(now, probe_answered, &mut progress);
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
            if let Content::Messages { length, .. } = record.content {
                self.frames.drain(..usize::from(length));
                self.front = self.front.wrapping_add(u32::from(length));
            }
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
            State::InFlight => self.in_flight -= 1,
            State::Lost => {}
        }
        record.state = State::Acknowledged;
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

    fn probe_answered(&mut self, now: Instant, echo: Option<Echo>) -> bool {
        let Some(Echo { of: Echoed::Probe(probe), hold }) = echo else { return false };
        if self.probes.first.is_after(probe) || !self.probes.next.is_after(probe) {
            return false;
        }
        if let (Some(hold), true) = (hold, probe.plus(1) == self.probes.next) {
            self.round_trip.sample(Duration(now.since(self.probes.sent_at).0.saturating_sub(hold.0)));
        }
        // Each proves once.
        self.probes.first = probe.plus(1);
        true
    }

    /// More only if the window was what held us back.
    fn grow(&mut self, newly: u32, was_full: bool, most: u32) {
        if !was_full || self.window >= most {
            return;
        }
        self.growth += newly * WINDOW_GROWTH;
        while self.growth >= self.window && self.window < most {
            self.growth -= self.window;
            self.window += 1;
        }
    }

    /// Looks for packets that are missing although later ones have arrived. Beyond the map a missing bit says nothing.
    fn detect_losses(&mut self, now: Instant, probe_answered: bool, progress: &mut Progress) {
        let delay = self.round_trip.loss_delay();
        let (proved, base) = (self.proved, self.base);
        let mut cut = false;
        self.loss_at = None;
        for (index, record) in self.records.iter_mut().take(MAP_PACKETS).enumerate() {
            if record.state != State::InFlight {
                continue;
            }
            let overtaken = proved.since(record.order.plus(1));
            let late_at = record.sent_at + delay;
            let by_gap = overtaken >= REORDER_PACKETS as i32 || overtaken > 0 && now >= late_at;
            let by_probe = probe_answered && self.probes.order.is_after(record.order);
            if by_gap || by_probe {
                record.state = State::Lost;
                let evidence = if by_gap { Evidence::Gap } else { Evidence::Probe };
                self.lost.push_back((base.plus(index as u32), evidence));
                self.in_flight -= 1;
                cut |= !self.cut.is_after(record.order);
                progress.lost_by_gap += u32::from(by_gap);
                progress.lost_by_probe += u32::from(!by_gap);
            } else if overtaken > 0 {
                self.loss_at = Some(self.loss_at.map_or(late_at, |at| at.min(late_at)));
            }
        }
        if cut {
            self.window = (self.window - self.window / 4).max(WINDOW_MIN.min(self.window));
            self.cut = self.order;
            self.growth = 0;
            progress.window_cuts = 1;
        }
    }

    /// The time threshold has passed for some packet.
    pub(super) fn check_late(&mut self, now: Instant) -> Progress {
        let mut progress = Progress::default();
        if self.loss_at.is_some_and(|at| at <= now) {
            self.detect_losses(now, false, &mut progress);
        }
        progress
    }

    /// When the next probe should leave.
    fn probe_at(&self, settings: &Settings) -> Option<Instant> {
        if self.in_flight == 0 {
            return None;
        }
        Some(self.active_at + self.probe_interval(settings))
    }

    fn probe_interval(&self, settings: &Settings) -> Duration {
        let delay = self.round_trip.probe_delay(settings.ack_delay, settings.probe_floor);
        let doubled = delay.0.saturating_mul(1 << self.probes.unanswered.min(20));
        Duration(doubled.min(settings.probe_cap.0.max(settings.probe_floor.0)))
    }

    /// The number of a probe that should leave now.
    pub(super) fn next_probe(&mut self, now: Instant, settings: &Settings) -> Option<Number> {
        if self.probe_at(settings).is_none_or(|at| at > now) {
            return None;
        }
        let probes = &mut self.probes;
        let number = probes.next;
        if probes.order != self.order {
            (probes.order, probes.first) = (self.order, number);
        }
        probes.next = number.plus(1);
        probes.sent_at = now;
        probes.unanswered = probes.unanswered.saturating_add(1);
        self.active_at = now;
        Some(number)
    }

    /// Whether the peer has been silent for too long. Called when a probe is due, before it leaves.
    ///
    /// Time in which nobody looked here is not the peer's silence: an interval counts at most twice its length.
    pub(super) fn peer_is_silent(&mut self, now: Instant, settings: &Settings) -> bool {
        if settings.peer_timeout.0 == 0 || self.probe_at(settings).is_none_or(|at| at > now) {
            return false;
        }
        if self.probes.unanswered > 0 {
            let waited = now.since(self.probes.sent_at).0.min(2 * self.probe_interval(settings).0);
            self.probes.silent.0 += waited;
        }
        self.probes.silent >= settings.peer_timeout
    }

    /// When something should leave though nothing arrives; a time in the past means now.
    pub(super) fn next_timeout(&self, settings: &Settings) -> Option<Instant> {
        if self.has_unsent() && self.window_is_open(settings) {
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
        self.window
    }

    /// Gives memory back when everything in flight has been acknowledged.
    fn release(&mut self) {
        self.lost = VecDeque::new();
        self.loss_at = None;
        self.resent = false;
        if self.records.capacity() > KEPT_RECORDS {
            self.records = VecDeque::new();
        }
        if self.frames.is_empty() && self.frames.capacity() > KEPT_BYTES {
            self.frames = VecDeque::new();
        }
        if self.jobs.is_empty() {
            self.jobs = VecDeque::new();
        }
    }

    /// Forgets everything: the peer has failed.
    pub(super) fn abandon(&mut self) {
        self.records.clear();
        self.jobs.clear();
        self.frames.clear();
        (self.front, self.unsent) = (0, 0);
        self.in_flight = 0;
        self.release();
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        self.frames.capacity()
            + self.records.capacity() * size_of::<Record>()
            + self.jobs.capacity() * size_of::<Job>()
            + self.lost.capacity() * size_of::<(Number, Evidence)>()
    }
}
