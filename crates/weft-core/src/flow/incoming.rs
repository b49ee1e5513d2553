//! The receiving half: the packets that have arrived, the messages that wait for earlier ones, and the time
//! to acknowledge.

mod acknowledging;

use super::ring::Ring;
use super::settings::{AckScheme, BULK_DELAY, BULK_PACKETS, GAP_ACKS, Settings, WINDOW_MAX};
use crate::assembly::{ASSEMBLIES_MAX, Assemblies};
use crate::time::{Duration, Instant};
use crate::wire::{Echoed, Frames, Number, PATHS_MAX, Piece};
pub(super) use acknowledging::Cause;
use acknowledging::{AckPending, PendingEcho};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The facts that a numbered packet tells about itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arriving {
    pub(super) number: Number,
    pub(super) transmission: u8,
    /// Number among the transmissions of its path.
    pub(super) order: u8,
    pub(super) path: u8,
    /// The packet carries messages, which the program may answer.
    pub(super) messages: bool,
    /// The packet is bulk data of which more will come.
    pub(super) more_follows: bool,
    /// The longest time that the packet may have waited at this end.
    pub(super) host_delay: Duration,
}

/// The verdict on a packet by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    Duplicate,
    Outside,
}

/// Messages that came before their turn, unchanged from their packet.
#[derive(Debug)]
struct Held {
    first: Number,
    payload: Box<[u8]>,
}

/// The messages and pieces that wait for packets that have not arrived.
#[derive(Debug, Default)]
struct Waiting {
    /// Sorted; at most one entry per packet of the window.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Packets of which only pieces have arrived.
    assemblies: Assemblies,
}

/// The verdict on a control packet by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BareArrival {
    New,
    /// A packet so old that an earlier arrival would no longer be known.
    Old,
    Duplicate,
}

/// Numbers of control packets that have been seen: the highest, and a bit for each of the 64 before it.
#[derive(Debug)]
struct SeenControl {
    next: u64,
    seen: u64,
}

#[derive(Debug)]
pub(super) struct Incoming {
    /// The first packet that has not arrived, beyond 32 bits.
    expected: u64,
    /// One past the number of the last packet that has arrived.
    horizon: Number,
    /// The arrivals among the numbers `expected..horizon`; all other bits are clear. There only while a
    /// packet is missing.
    arrived: Option<Box<Ring>>,
    next_message: Number,
    /// The messages and pieces that wait; there only while there are some.
    waiting: Option<Box<Waiting>>,
    /// New packets since the last acknowledgement left.
    unacknowledged: u32,
    ack_pending: AckPending,
    /// The cause of the acknowledgement that is due, if one is due.
    cause: Cause,
    /// The number of next packets that are acknowledged at once.
    gap_acks: u8,
    /// The next transmission of each path: a packet that jumps ahead of it left a gap.
    orders: [u8; PATHS_MAX],
    /// A packet came with a mark of congestion since the last acknowledgement.
    marked: bool,
    pending_echo: Option<PendingEcho>,
    control: SeenControl,
}

/// The state of the receiving half that must not be forgotten while nothing arrives.
#[derive(Debug)]
pub(super) struct Parked {
    expected: u64,
    next_message: Number,
    orders: [u8; PATHS_MAX],
    marked: bool,
    control: SeenControl,
}

/// Returns whether the peer may send a packet at this distance from the expected one, or has sent it
/// recently.
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
    /// Most bytes of packets that a receiver has in pieces. Numbers of bulk data reach beyond
    /// `window_packets`, so that limit does not bound these packets.
    pub fn pieces_max(&self) -> usize {
        (self.reach() as usize).min(ASSEMBLIES_MAX) * self.packet_size
    }
}

impl Incoming {
    /// Returns whether nothing is missing, held or owed.
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

    /// Makes the flow behave as if this many packets and control packets had arrived.
    #[cfg(test)]
    pub(super) fn skip(&mut self, packets: u64) {
        self.expected += packets;
        self.control.next += packets;
    }

    /// Returns the bits above 32 of a packet's number, if the packet is genuine: its number is near the
    /// expected one.
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

    /// Classifies a number, before anything is changed.
    pub(super) fn classify(&self, number: Number, settings: &Settings) -> Arrival {
        let distance = number.since(self.expected());
        // Nearly always the packet is the expected one, or near it.
        let is_near = distance >= 0 && distance < settings.window_packets as i32;
        if !is_near && !is_within(distance, settings.reach()) {
            Arrival::Outside
        } else if distance < 0 || self.arrived.as_ref().is_some_and(|arrived| arrived.has(number)) {
            Arrival::Duplicate
        } else {
            Arrival::New
        }
    }

    /// Takes a piece of a packet that has not arrived; returns the payload of the packet once it is whole.
    pub(super) fn assemble(&mut self, piece: &Piece, bytes: &[u8]) -> Option<Vec<u8>> {
        let Piece { number, whole, at, .. } = *piece;
        let packet = self.waiting.get_or_insert_default().assemblies.take(number, whole, at, bytes);
        self.forget_waiting();
        packet
    }

    /// Forgets the pieces of a packet that has arrived, and of all packets before the expected one.
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

    /// Notes a new packet and decides when to acknowledge it. Returns true if it was overtaken on its way.
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
            // The arrivals on each of several paths decide which packets the path gets next, so the sender
            // should know them soon.
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

    /// Returns whether a packet with messages may be taken. False for messages that were delivered already; a
    /// peer that keeps to the protocol never sends these under a new packet number.
    ///
    /// Messages behind a gap are held. They occupy no more memory than a window of packets that are not long.
    pub(super) fn expects_messages(&self, first: Number, bytes: usize, settings: &Settings) -> bool {
        let has_room = || {
            let Some(waiting) = &self.waiting else { return true };
            let window = settings.window_packets as usize;
            waiting.held.len() < window && waiting.held_bytes + bytes <= window * settings.packet_size
        };
        !self.next_message.is_after(first) && (first == self.next_message || has_room())
    }

    /// Delivers messages whose turn it is and holds the others. Returns how many were delivered, and their
    /// bytes.
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

    /// Delivers held messages whose turn it is.
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

    /// Forgets the held messages and the owed acknowledgement.
    pub(super) fn abandon(&mut self) {
        self.waiting = None;
        (self.unacknowledged, self.ack_pending) = (0, AckPending::No);
    }
}
