//! The receiving half: what has arrived, what is held until the messages before it are here, and when to acknowledge.

use super::ring::Ring;
use super::settings::{ANSWER_TIME, AckScheme, BULK_DELAY, BULK_PACKETS, GAP_ACKS, Settings, WINDOW_MAX};
use crate::assembly::{ASSEMBLIES_MAX, Assemblies};
use crate::time::{Duration, Instant};
use crate::wire::{Echo, Echoed, Frames, MAP_WORDS_MAX, Number, PATHS_MAX, Piece, RunWriter, SELECTIVE_PACKETS};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// What a numbered packet says about itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arriving {
    pub(super) number: Number,
    pub(super) transmission: u8,
    /// Place among the transmissions of its way.
    pub(super) order: u8,
    pub(super) path: u8,
    /// It carries messages, which the program may answer.
    pub(super) messages: bool,
    /// It is bulk data of which more will come.
    pub(super) more_follows: bool,
    /// It may have waited here so long.
    pub(super) host_delay: Duration,
}

/// What a packet's number says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    Duplicate,
    Outside,
}

/// Messages that came before their turn, as they stood in their packet.
#[derive(Debug)]
struct Held {
    first: Number,
    payload: Box<[u8]>,
}

/// What waits here for packets that have not arrived.
#[derive(Debug, Default)]
struct Waiting {
    /// Sorted; at most one entry per packet of the window.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Packets of which only pieces have arrived.
    assemblies: Assemblies,
}

/// The newest packet that has not been echoed yet.
#[derive(Clone, Copy, Debug)]
struct PendingEcho {
    of: Echoed,
    at: Instant,
    /// It may have waited so long before.
    host_delay: Duration,
}

/// When the next acknowledgement must leave if nothing takes it along before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPending {
    No,
    By(Instant),
    Now,
}

/// Why an acknowledgement is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It has been deferred long enough.
    Delay,
    /// Enough packets have arrived.
    Count,
    /// A packet was late, sent again, or left a gap.
    Disorder,
    /// The packet had arrived before: the sender does not know.
    Duplicate,
    /// The sender has asked for it, or a range of bulk data is complete.
    Request,
    /// A probe is answered.
    Probe,
    /// A mark of congestion is passed on.
    Mark,
}

/// What the number of a control packet says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BareArrival {
    New,
    /// So old that it is not known whether it was there before.
    Old,
    Duplicate,
}

/// Numbers of control packets that have been seen: the highest, and which of the 64 before it.
#[derive(Debug)]
struct SeenControl {
    next: u64,
    seen: u64,
}

#[derive(Debug)]
pub(super) struct Incoming {
    /// The first packet that has not arrived, beyond 32 bits.
    expected: u64,
    /// One past the last packet that has arrived.
    horizon: Number,
    /// What has arrived of numbers in `expected..horizon`; all others are clear. There only while something is missing.
    arrived: Option<Box<Ring>>,
    next_message: Number,
    /// There only while there is something.
    waiting: Option<Box<Waiting>>,
    /// New packets since the last acknowledgement left.
    unacknowledged: u32,
    ack_pending: AckPending,
    /// Why, as far as something is due.
    cause: Cause,
    /// So many of the next packets are acknowledged at once.
    gap_acks: u8,
    /// The next transmission of each path: what jumps ahead of it left a gap.
    orders: [u8; PATHS_MAX],
    /// A packet came with a mark of congestion since the last acknowledgement.
    marked: bool,
    pending_echo: Option<PendingEcho>,
    control: SeenControl,
}

/// What must not be forgotten while nothing arrives.
#[derive(Debug)]
pub(super) struct Parked {
    expected: u64,
    next_message: Number,
    orders: [u8; PATHS_MAX],
    marked: bool,
    control: SeenControl,
}

/// Whether a packet so far from the one expected is one that the peer may send, or has sent of late.
const fn is_within(distance: i32, reach: u32) -> bool {
    let past = if reach > WINDOW_MAX { reach } else { WINDOW_MAX };
    distance < reach as i32 && distance >= -(past as i32)
}

impl Waiting {
    /// Bytes allocated.
    fn memory_bytes(&self) -> usize {
        self.held.capacity() * size_of::<Held>() + self.held_bytes + self.assemblies.memory_bytes()
    }
}

impl Settings {
    /// Most bytes of packets that a receiver has in pieces. Numbers of bulk data reach beyond `window_packets`, so that does not limit
    /// them.
    pub fn pieces_max(&self) -> usize {
        (self.reach() as usize).min(ASSEMBLIES_MAX) * self.packet_size
    }
}

impl Incoming {
    /// Whether nothing is missing, held or owed.
    pub(super) fn can_park(&self) -> bool {
        self.arrived.is_none() && self.waiting.is_none() && !self.is_ack_pending()
    }

    pub(super) fn park(self) -> Parked {
        let Self { expected, next_message, orders, marked, control, .. } = self;
        Parked { expected, next_message, orders, marked, control }
    }

    pub(super) fn unpark(parked: Parked) -> Self {
        let Parked { expected, next_message, orders, marked, control } = parked;
        Self { expected, horizon: Number(expected as u32), next_message, orders, marked, control, ..Self::new() }
    }

    pub(super) const fn new() -> Self {
        Self {
            expected: Number::FIRST.0 as u64,
            horizon: Number::FIRST,
            arrived: None,
            next_message: Number::FIRST,
            waiting: None,
            unacknowledged: 0,
            ack_pending: AckPending::No,
            cause: Cause::Delay,
            gap_acks: 0,
            orders: [Number::FIRST.0 as u8; PATHS_MAX],
            marked: false,
            pending_echo: None,
            control: SeenControl { next: Number::FIRST.0 as u64, seen: 0 },
        }
    }

    const fn expected(&self) -> Number {
        Number(self.expected as u32)
    }

    /// As if so many packets and control packets had arrived.
    #[cfg(test)]
    pub(super) fn skip(&mut self, packets: u64) {
        self.expected += packets;
        self.control.next += packets;
    }

    /// What the number of a packet exceeds 32 bits by, if it is genuine: it is near the one expected.
    pub(super) const fn epoch(&self, number: Number, numbered: bool) -> u32 {
        let near = if numbered { self.expected } else { self.control.next };
        (near.wrapping_add_signed(number.since(Number(near as u32)) as i64) >> 32) as u32
    }

    /// Notes the number of an authentic control packet.
    pub(super) fn bare_arrives(&mut self, number: Number) -> BareArrival {
        let ahead = i64::from(number.since(Number(self.control.next as u32)));
        if ahead >= 0 {
            let shift = ahead as u64 + 1;
            // The newest is bit 0.
            self.control.seen = if shift < 64 { self.control.seen << shift } else { 0 } | 1;
            self.control.next += shift;
            return BareArrival::New;
        }
        let bit = (-ahead - 1) as u64;
        if bit >= 64 {
            return BareArrival::Old;
        }
        let was_seen = self.control.seen >> bit & 1 != 0;
        self.control.seen |= 1 << bit;
        if was_seen { BareArrival::Duplicate } else { BareArrival::New }
    }

    /// What the number means, before anything is changed.
    pub(super) fn classify(&self, number: Number, settings: &Settings) -> Arrival {
        let distance = number.since(self.expected());
        // As good as always it is the one expected, or near it.
        let is_near = distance >= 0 && distance < settings.window_packets as i32;
        if !is_near && !is_within(distance, settings.reach()) {
            Arrival::Outside
        } else if distance < 0 || self.arrived.as_ref().is_some_and(|arrived| arrived.has(number)) {
            Arrival::Duplicate
        } else {
            Arrival::New
        }
    }

    /// Takes a piece of a packet that has not arrived; the payload of the packet once it is whole.
    pub(super) fn assemble(&mut self, piece: &Piece, bytes: &[u8]) -> Option<Vec<u8>> {
        let Piece { number, whole, at, .. } = *piece;
        let packet = self.waiting.get_or_insert_default().assemblies.take(number, whole, at, bytes);
        self.forget_waiting();
        packet
    }

    /// This packet is here, and perhaps others before it: no pieces of them are awaited.
    fn forget_pieces(&mut self, number: Number) {
        let expected = self.expected();
        if let Some(waiting) = &mut self.waiting {
            waiting.assemblies.forget(number);
            waiting.assemblies.forget_before(expected);
        }
        self.forget_waiting();
    }

    /// Gives the memory back once nothing waits.
    fn forget_waiting(&mut self) {
        self.waiting.take_if(|waiting| waiting.held.is_empty() && waiting.assemblies.is_empty());
    }

    /// Notes a new packet and decides when to acknowledge it. True if it was overtaken on its way.
    pub(super) fn arrive(&mut self, now: Instant, packet: &Arriving, settings: &Settings) -> bool {
        let Arriving { number, transmission, order, path, messages, more_follows, host_delay } = *packet;
        let newest = !self.horizon.is_after(number);
        let next = &mut self.orders[usize::from(path)];
        let jump = order.wrapping_sub(*next) as i8;
        let late = jump < 0 && !newest;
        if jump != 0 && !late {
            self.gap_acks = GAP_ACKS;
        }
        if !late {
            *next = order.wrapping_add(1);
        }
        self.record(number);
        if self.waiting.is_some() {
            self.forget_pieces(number);
        }
        self.pending_echo = Some(PendingEcho { of: Echoed::Packet { number, transmission }, at: now, host_delay });
        self.unacknowledged += 1;
        let (delays, packets) = match (more_follows, messages) {
            // What each of several paths delivers decides what it gets next, so the sender is to know it soon.
            (true, _) if settings.bulk_paths > 1 => (BULK_DELAY, BULK_DELAY),
            (true, _) => (BULK_DELAY, BULK_PACKETS),
            (false, true) => (1, BULK_DELAY),
            (false, false) => (1, 1),
        };
        let disorder = late || transmission > 1 || self.gap_acks > 0;
        let enough =
            self.unacknowledged >= settings.ack_packets * packets || settings.ack_scheme == AckScheme::EveryPacket;
        self.gap_acks = self.gap_acks.saturating_sub(1);
        if disorder || enough {
            self.ack_now(if disorder { Cause::Disorder } else { Cause::Count });
        } else if self.ack_pending != AckPending::Now {
            let at = now + Duration(settings.ack_delay.0 * u64::from(delays));
            self.defer(at, Cause::Delay);
            if messages && self.unacknowledged >= settings.ack_packets {
                self.asked(now);
            }
        }
        late
    }

    /// The sender of messages asks for an acknowledgement, or should get one.
    pub(super) fn asked(&mut self, now: Instant) {
        if self.ack_pending != AckPending::Now {
            self.defer(now + ANSWER_TIME, Cause::Request);
        }
    }

    /// An acknowledgement leaves then at the latest.
    fn defer(&mut self, at: Instant, cause: Cause) {
        if self.ack_deadline().is_none_or(|due| at < due) {
            (self.ack_pending, self.cause) = (AckPending::By(at), cause);
        }
    }

    fn record(&mut self, number: Number) {
        if number.plus(1).is_after(self.horizon) {
            self.horizon = number.plus(1);
        }
        if number != self.expected() {
            let expected = self.expected();
            self.arrived.get_or_insert_default().set(expected, number);
            return;
        }
        self.expected += 1;
        let Some(arrived) = &mut self.arrived else { return };
        while self.expected as u32 != self.horizon.0 && arrived.take(Number(self.expected as u32)) {
            self.expected += 1;
        }
        if self.expected as u32 == self.horizon.0 {
            self.arrived = None;
        }
    }

    /// A packet came with a mark of congestion: the sender should know at once.
    pub(super) fn marked(&mut self) {
        self.note_mark();
        self.ack_now(Cause::Mark);
    }

    /// The next acknowledgement tells of such a mark.
    pub(super) fn note_mark(&mut self) {
        self.marked = true;
    }

    /// Whether there is a mark to report; reported once.
    pub(super) fn take_mark(&mut self) -> bool {
        core::mem::take(&mut self.marked)
    }

    /// An acknowledgement should leave before anything else.
    pub(super) fn is_urgent(&self) -> bool {
        self.ack_pending == AckPending::Now
    }

    /// A probe is answered at once, and its echo takes precedence.
    pub(super) fn probed(&mut self, now: Instant, probe: Number, host_delay: Duration) {
        self.pending_echo = Some(PendingEcho { of: Echoed::Probe(probe), at: now, host_delay });
        self.ack_now(Cause::Probe);
    }

    /// An acknowledgement leaves as soon as possible; the first cause stands.
    pub(super) fn ack_now(&mut self, cause: Cause) {
        if self.ack_pending != AckPending::Now {
            (self.ack_pending, self.cause) = (AckPending::Now, cause);
        }
    }

    /// Why an acknowledgement is owed.
    pub(super) const fn cause(&self) -> Cause {
        self.cause
    }

    /// The first packet that is missing, and the map of those after it.
    pub(super) fn state(&self) -> (Number, u64) {
        let expected = self.expected();
        (expected, self.arrived.as_ref().map_or(0, |arrived| arrived.bits_from(expected.plus(1))))
    }

    /// Packets have arrived beyond the selective bits, and the sender should know at once.
    pub(super) fn wants_map(&self) -> bool {
        self.ack_pending == AckPending::Now && self.map_words() > 0
    }

    /// Words of map needed to tell everything.
    fn map_words(&self) -> usize {
        let first = self.expected().plus(SELECTIVE_PACKETS);
        match self.horizon.since(first) {
            beyond @ 1.. => (beyond as usize + first.0 as usize % 64).div_ceil(64),
            _ => 0,
        }
    }

    /// Writes as much of the map beyond the selective bits as there is and fits; returns its length in bytes.
    pub(super) fn write_map(&self, out: &mut [u8]) -> usize {
        let Some(arrived) = &self.arrived else { return 0 };
        let (needed, most) = (self.map_words(), MAP_WORDS_MAX.min(out.len() / 8));
        if needed > most {
            let (told, length) = self.write_runs(arrived, out);
            if told as usize > 64 * most {
                return length;
            }
        }
        self.write_words(arrived, needed.min(most), out)
    }

    /// Writes runs from the oldest packet on, so that nothing before what is told of seems missing that is not. Returns how many packets they
    /// tell of, and their length in bytes.
    fn write_runs(&self, arrived: &Ring, out: &mut [u8]) -> (u32, usize) {
        let first = self.expected().plus(SELECTIVE_PACKETS);
        let all = self.horizon.since(first).max(0) as u32;
        let mut writer = RunWriter::new(out);
        let mut told = 0;
        while told < all {
            let missing =
                if arrived.has(first.plus(told)) { 0 } else { arrived.alike_from(first.plus(told), all - told) };
            let here = arrived.alike_from(first.plus(told + missing), all - told - missing);
            if !writer.run(missing, here) {
                break;
            }
            told += missing + here;
        }
        (told, writer.finish())
    }

    fn write_words(&self, arrived: &Ring, words: usize, out: &mut [u8]) -> usize {
        let first = self.expected().plus(SELECTIVE_PACKETS);
        for (i, word) in out.chunks_exact_mut(8).take(words).enumerate() {
            // The ring is one window long: the last word may be the first again.
            let bits = arrived.word(first.plus(64 * i as u32));
            let start = first.plus(64 * i as u32).0 & !63;
            let past = self.horizon.since(Number(start)).clamp(0, 64) as u32;
            let mask = if past == 64 { u64::MAX } else { (1 << past) - 1 };
            word.copy_from_slice(&(bits & mask).to_le_bytes());
        }
        words * 8
    }

    /// There is something new to echo.
    pub(super) fn has_echo(&self) -> bool {
        self.pending_echo.is_some()
    }

    /// The echo for a packet that leaves now, if there is anything new to say.
    pub(super) fn take_echo(&mut self, now: Instant) -> Option<Echo> {
        self.pending_echo.take().map(|echo| Echo {
            of: echo.of,
            hold: Some(now.since(echo.at)),
            host_delay: echo.host_delay,
        })
    }

    /// An acknowledgement has left with other things.
    pub(super) fn acknowledged(&mut self) {
        // What the other packet had no room for goes on its own.
        if !self.wants_map() {
            self.unacknowledged = 0;
            self.ack_pending = AckPending::No;
        }
    }

    /// An acknowledgement has left on its own.
    pub(super) fn acknowledged_alone(&mut self, scheme: AckScheme) {
        let more = scheme == AckScheme::EveryPacket && self.unacknowledged > 1;
        self.unacknowledged = if more { self.unacknowledged - 1 } else { 0 };
        self.ack_pending = if more { AckPending::Now } else { AckPending::No };
    }

    /// An acknowledgement is owed, be it now or later.
    pub(super) fn is_ack_pending(&self) -> bool {
        self.ack_pending != AckPending::No
    }

    /// When an acknowledgement must leave; a time in the past means now.
    pub(super) fn ack_deadline(&self) -> Option<Instant> {
        match self.ack_pending {
            AckPending::No => None,
            AckPending::By(at) => Some(at),
            AckPending::Now => Some(Instant(0)),
        }
    }

    /// Whether a packet with messages may be taken: false for messages that were delivered already,
    /// which a peer that keeps to the protocol never sends under a new packet number.
    pub(super) fn expects_messages(&self, first: Number, window: u32) -> bool {
        let held = || self.waiting.as_ref().map_or(0, |waiting| waiting.held.len());
        !self.next_message.is_after(first) && (first == self.next_message || held() < window as usize)
    }

    /// Delivers messages whose turn it is and holds the others. Returns how many were delivered, and their bytes.
    pub(super) fn messages(&mut self, first: Number, payload: &[u8], deliver: &mut dyn FnMut(&[u8])) -> (u64, u64) {
        if first != self.next_message {
            self.hold(first, payload);
            return (0, 0);
        }
        let mut total = (0, 0);
        self.deliver(payload, deliver, &mut total);
        if self.waiting.is_some() {
            self.deliver_held(deliver, &mut total);
        }
        total
    }

    /// Delivers what was held and whose turn it is.
    fn deliver_held(&mut self, deliver: &mut dyn FnMut(&[u8]), total: &mut (u64, u64)) {
        while let Some(waiting) = &mut self.waiting {
            let next = self.next_message;
            if waiting.held.front().is_none_or(|front| front.first != next) {
                break;
            }
            let Some(held) = waiting.held.pop_front() else { break };
            waiting.held_bytes -= held.payload.len();
            self.deliver(&held.payload, deliver, total);
            self.forget_waiting();
        }
    }

    fn deliver(&mut self, payload: &[u8], deliver: &mut dyn FnMut(&[u8]), total: &mut (u64, u64)) {
        for message in Frames::new(payload) {
            deliver(message);
            self.next_message = self.next_message.plus(1);
            total.0 += 1;
            total.1 += message.len() as u64;
        }
    }

    fn hold(&mut self, first: Number, payload: &[u8]) {
        let Waiting { held, held_bytes, .. } = &mut **self.waiting.get_or_insert_default();
        let at = held.partition_point(|held| first.is_after(held.first));
        *held_bytes += payload.len();
        held.insert(at, Held { first, payload: payload.into() });
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        let map = self.arrived.as_ref().map_or(0, |arrived| arrived.memory_bytes());
        let waiting = self.waiting.as_ref().map_or(0, |waiting| size_of::<Waiting>() + waiting.memory_bytes());
        map + waiting
    }

    /// Forgets what is held and what is owed.
    pub(super) fn abandon(&mut self) {
        self.waiting = None;
        (self.unacknowledged, self.ack_pending) = (0, AckPending::No);
    }
}
