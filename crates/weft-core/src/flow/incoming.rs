//! The receiving half: what has arrived, what is held until its turn comes, and when to acknowledge.

use super::settings::{AckScheme, BULK_DELAY, GAP_ACKS, Settings, WINDOW_MAX};
use crate::time::{Duration, Instant};
use crate::wire::{Echo, Echoed, Frames, Number};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

const WORDS: usize = WINDOW_MAX as usize / 64;

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

/// The newest packet that has not been echoed yet.
#[derive(Clone, Copy, Debug)]
struct Heard {
    of: Echoed,
    at: Instant,
}

/// When the next acknowledgement must leave if nothing takes it along before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    At(Instant),
    Now,
}

#[derive(Debug)]
pub(super) struct Incoming {
    /// The first packet that has not arrived.
    expected: Number,
    /// One past the last packet that has arrived.
    horizon: Number,
    /// Bit `number % WINDOW_MAX`: arrived, for numbers in `expected..horizon`; all others are clear.
    /// There only while something is missing.
    arrived: Option<Box<[u64; WORDS]>>,
    next_message: Number,
    /// Sorted; at most one entry per packet of the window.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// New packets since the last acknowledgement left.
    owed: u32,
    due: Due,
    /// So many of the next packets are acknowledged at once.
    gap_acks: u8,
    heard: Option<Heard>,
}

impl Incoming {
    pub(super) const fn new() -> Self {
        Self {
            expected: Number::FIRST,
            horizon: Number::FIRST,
            arrived: None,
            next_message: Number::FIRST,
            held: VecDeque::new(),
            held_bytes: 0,
            owed: 0,
            due: Due::Nothing,
            gap_acks: 0,
            heard: None,
        }
    }

    /// What the number means, before anything is changed.
    pub(super) fn classify(&self, number: Number, window: u32) -> Arrival {
        let distance = number.since(self.expected);
        if distance >= window as i32 || distance < -(WINDOW_MAX as i32) {
            Arrival::Outside
        } else if distance < 0 || self.has(number) {
            Arrival::Duplicate
        } else {
            Arrival::New
        }
    }

    /// Notes a new packet and decides when to acknowledge it. True if it arrived later than one with a higher number.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        number: Number,
        transmission: u8,
        more_follows: bool,
        settings: &Settings,
    ) -> bool {
        let past = number.since(self.horizon);
        self.record(number);
        self.heard = Some(Heard { of: Echoed::Packet { number, transmission }, at: now });
        self.owed += 1;
        if past > 0 {
            self.gap_acks = GAP_ACKS;
        }
        let at_once = past < 0
            || self.gap_acks > 0
            || self.owed >= settings.ack_packets
            || settings.ack_scheme == AckScheme::EveryPacket;
        self.gap_acks = self.gap_acks.saturating_sub(1);
        if at_once {
            self.due = Due::Now;
        } else if self.due != Due::Now {
            let at = now + Duration(settings.ack_delay.0 * if more_follows { BULK_DELAY } else { 1 });
            self.due = Due::At(self.due().map_or(at, |due| due.min(at)));
        }
        past < 0
    }

    fn record(&mut self, number: Number) {
        if number.plus(1).is_after(self.horizon) {
            self.horizon = number.plus(1);
        }
        if number != self.expected {
            self.arrived.get_or_insert_default()[word(number)] |= bit(number);
            return;
        }
        self.expected = number.plus(1);
        let Some(arrived) = &mut self.arrived else { return };
        while self.expected != self.horizon && arrived[word(self.expected)] & bit(self.expected) != 0 {
            arrived[word(self.expected)] &= !bit(self.expected);
            self.expected = self.expected.plus(1);
        }
        if self.expected == self.horizon {
            self.arrived = None;
        }
    }

    fn has(&self, number: Number) -> bool {
        self.arrived.as_ref().is_some_and(|arrived| arrived[word(number)] & bit(number) != 0)
    }

    /// A probe is answered at once, and its echo takes precedence.
    pub(super) fn probed(&mut self, now: Instant, probe: Number) {
        self.heard = Some(Heard { of: Echoed::Probe(probe), at: now });
        self.due = Due::Now;
    }

    /// An acknowledgement leaves as soon as possible.
    pub(super) fn hurry(&mut self) {
        self.due = Due::Now;
    }

    /// The first packet that is missing, and the map of those after it.
    pub(super) fn state(&self) -> (Number, u64) {
        let Some(arrived) = &self.arrived else { return (self.expected, 0) };
        let first = self.expected.plus(1);
        let (at, shift) = (word(first), first.0 % 64);
        let low = arrived[at] >> shift;
        // Two shifts, because shifting by 64 in one is not defined.
        let high = arrived[(at + 1) % WORDS] << (63 - shift) << 1;
        (self.expected, low | high)
    }

    /// The echo for a packet that leaves now, if there is anything new to say.
    pub(super) fn take_echo(&mut self, now: Instant) -> Option<Echo> {
        self.heard.take().map(|heard| Echo { of: heard.of, hold: Some(now.since(heard.at)) })
    }

    /// An acknowledgement has left with other things.
    pub(super) fn acknowledged(&mut self) {
        self.owed = 0;
        self.due = Due::Nothing;
    }

    /// An acknowledgement has left on its own.
    pub(super) fn acknowledged_alone(&mut self, scheme: AckScheme) {
        let more = scheme == AckScheme::EveryPacket && self.owed > 1;
        self.owed = if more { self.owed - 1 } else { 0 };
        self.due = if more { Due::Now } else { Due::Nothing };
    }

    /// An acknowledgement is owed, be it now or later.
    pub(super) fn owes(&self) -> bool {
        self.due != Due::Nothing
    }

    /// When an acknowledgement must leave; a time in the past means now.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.due {
            Due::Nothing => None,
            Due::At(at) => Some(at),
            Due::Now => Some(Instant(0)),
        }
    }

    /// Whether a packet with messages may be taken: false for messages that were delivered already,
    /// which a peer that keeps to the protocol never sends under a new packet number.
    pub(super) fn expects_messages(&self, first: Number, window: u32) -> bool {
        !self.next_message.is_after(first) && (first == self.next_message || self.held.len() < window as usize)
    }

    /// Delivers messages whose turn it is and holds the others. Returns how many were delivered, and their bytes.
    pub(super) fn messages(&mut self, first: Number, payload: &[u8], deliver: &mut dyn FnMut(&[u8])) -> (u64, u64) {
        if first != self.next_message {
            self.hold(first, payload);
            return (0, 0);
        }
        let mut total = (0, 0);
        self.deliver(payload, deliver, &mut total);
        while let Some(front) = self.held.front() {
            if front.first != self.next_message {
                break;
            }
            let Some(held) = self.held.pop_front() else { break };
            self.held_bytes -= held.payload.len();
            self.deliver(&held.payload, deliver, &mut total);
            if self.held.is_empty() {
                self.held = VecDeque::new();
            }
        }
        total
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
        let at = self.held.partition_point(|held| first.is_after(held.first));
        self.held_bytes += payload.len();
        self.held.insert(at, Held { first, payload: payload.into() });
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        let map = self.arrived.as_ref().map_or(0, |arrived| size_of_val(&**arrived));
        self.held.capacity() * size_of::<Held>() + self.held_bytes + map
    }

    /// Forgets what is held and what is owed.
    pub(super) fn abandon(&mut self) {
        self.held = VecDeque::new();
        self.held_bytes = 0;
        self.acknowledged();
    }
}

const fn word(number: Number) -> usize {
    (number.0 % WINDOW_MAX / 64) as usize
}

const fn bit(number: Number) -> u64 {
    1 << (number.0 % 64)
}
