//! One reliable flow to one remote process over packets that may vanish, repeat or change places.
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
//! Running step 3 before step 4 lets answers carry the acknowledgements, so a ping-pong has no packet of its own for them.
//!
//! The ordered lane delivers messages exactly once in the order of submission; bulk data is placed when it arrives, in any order.
//! Messages overtake bulk data.

mod evidence;
mod incoming;
mod outgoing;
mod queue;
mod round_trip;
mod settings;

pub use settings::*;

use crate::time::{Duration, Instant};
use crate::wire::{DATA_OVERHEAD, FRAME_PREFIX, Key, Kind, Lane, MESSAGES_OVERHEAD, Number, Packet, Reject};
use alloc::collections::VecDeque;
use core::ops::Range;
use evidence::Evidence;
use incoming::{Arrival, Incoming};
use outgoing::{Departure, Outgoing, Progress};
use queue::Content;

/// Most bytes that an idle flow occupies, allocations included.
pub const IDLE_BYTES_MAX: usize = 1024;
const _: () = assert!(size_of::<Flow>() + Outgoing::KEPT <= IDLE_BYTES_MAX);

/// Where bulk data is read from when it is sent, and sent again: memory that the sender promised to keep until it is acknowledged.
pub trait Regions {
    /// Fills `out` with the region's bytes that start at `offset`.
    fn read(&mut self, region: u32, offset: u64, out: &mut [u8]);
}

/// Where arriving bytes go.
pub trait Deliver {
    /// The next message of the ordered lane (head and payload in one).
    fn message(&mut self, body: &[u8]);
    /// Bulk data for `sink`, to be placed at `offset`; every byte once, in any order.
    /// The numbers are the peer's word: check them against what was promised to it.
    fn data(&mut self, sink: u32, offset: u64, bytes: &[u8]);
}

/// What the driver should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many more bytes of the region have arrived at the peer; they will not be read again.
    Acknowledged {
        /// The region given to `submit_data`.
        region: u32,
        /// Bytes newly acknowledged.
        bytes: u64,
    },
    /// The peer does not answer; the flow has dropped what it held and will neither send nor accept anything.
    PeerFailed {
        /// Why the flow thinks so.
        reason: Failure,
    },
}

/// Why a peer counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Probes went unanswered for `peer_timeout`.
    Silent,
}

/// A reliable flow to one peer.
#[derive(Debug)]
pub struct Flow {
    settings: Settings,
    own_index: u32,
    failed: bool,
    seal: Key,
    verify: Key,
    outgoing: Outgoing,
    incoming: Incoming,
    events: VecDeque<Event>,
    counters: Counters,
}

impl Flow {
    /// A flow from process `own_index` to process `peer_index` (both below 2²⁴) of the job that knows `secret`.
    ///
    /// Both sides must use the same `packet_size`, `window_packets` and `tag_bytes`. Panics if the settings are outside
    /// their limits.
    pub fn new(settings: &Settings, secret: [u8; 16], own_index: u32, peer_index: u32) -> Self {
        assert!((PACKET_SIZE_MIN..=PACKET_SIZE_MAX).contains(&settings.packet_size), "packet_size outside its limits");
        assert!((1..=WINDOW_MAX).contains(&settings.window_packets), "window_packets outside its limits");
        assert!(own_index < 1 << 24 && peer_index < 1 << 24, "a process index has 24 bits");
        Self {
            settings: settings.clone(),
            own_index,
            failed: false,
            seal: Key::derive(&secret, own_index, peer_index),
            verify: Key::derive(&secret, peer_index, own_index),
            outgoing: Outgoing::new(settings),
            incoming: Incoming::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// The largest `head` plus `payload` that `submit_message` takes, in bytes.
    pub fn frame_max(&self) -> usize {
        self.settings.packet_size - MESSAGES_OVERHEAD - FRAME_PREFIX
    }

    /// Sends `head` and `payload` as one message on the ordered lane. Both are copied. Panics if they exceed `frame_max`.
    /// Without effect once the peer has failed.
    pub fn submit_message(&mut self, head: &[u8], payload: &[u8]) {
        assert!(head.len() + payload.len() <= self.frame_max(), "a message larger than frame_max");
        if !self.failed {
            self.counters.messages_sent += 1;
            self.outgoing.queue.submit_message(head, payload);
        }
    }

    /// Sends bytes `range` of `region` to the same offsets of the peer's `sink`. An empty range does nothing.
    /// Without effect once the peer has failed.
    ///
    /// The bytes are read when a packet leaves and must stay the same until `Event::Acknowledged` has told of all of them.
    pub fn submit_data(&mut self, sink: u32, region: u32, range: Range<u64>) {
        if !self.failed {
            self.outgoing.queue.submit_data(sink, region, range);
        }
    }

    /// False while so much is queued that the program should wait. Nothing is dropped if it does not.
    pub fn can_accept(&self) -> bool {
        self.queued_bytes() < self.settings.queue_bytes
    }

    /// Bytes of the ordered lane that are queued or not yet acknowledged.
    pub fn queued_bytes(&self) -> usize {
        self.outgoing.queue.bytes()
    }

    /// Writes the next packet that is due into `out` (at least `packet_size` bytes) and returns its length.
    /// `None`: nothing may leave before something arrives, is submitted, or `next_timeout` passes.
    pub fn poll_transmit(&mut self, now: Instant, regions: &mut dyn Regions, out: &mut [u8]) -> Option<usize> {
        if self.failed {
            return None;
        }
        let progress = self.outgoing.check_late(now);
        self.count_progress(&progress);
        if let Some((departure, evidence)) = self.outgoing.next_resend(now) {
            match evidence {
                Evidence::Gap => self.counters.resent_by_gap += 1,
                Evidence::Probe => self.counters.resent_by_probe += 1,
            }
            return Some(self.emit_numbered(now, &departure, regions, out));
        }
        let size = self.settings.packet_size;
        let (messages_max, data_max) = (size - MESSAGES_OVERHEAD, size - DATA_OVERHEAD);
        if let Some(departure) = self.outgoing.next_new(now, &self.settings, messages_max, data_max) {
            self.counters.data_packets_sent += 1;
            return Some(self.emit_numbered(now, &departure, regions, out));
        }
        if self.outgoing.peer_is_silent(now, &self.settings) {
            self.fail(Failure::Silent);
            return None;
        }
        if let Some(probe) = self.outgoing.next_probe(now, &self.settings) {
            self.counters.probes += 1;
            self.incoming.acknowledged();
            return Some(self.emit_bare(now, Kind::Probe(probe), out));
        }
        if self.incoming.due().is_some_and(|due| due <= now) {
            self.counters.acks_standalone += 1;
            self.incoming.acknowledged_alone(self.settings.ack_scheme);
            return Some(self.emit_bare(now, Kind::Acknowledgement, out));
        }
        None
    }

    /// When `poll_transmit` should be called though nothing arrives; a time in the past means now. `None`: the flow is idle.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.failed {
            return None;
        }
        match (self.outgoing.next_timeout(&self.settings), self.incoming.due()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Takes a datagram that claims to be from this flow's peer (`wire::peek_sender`).
    /// Nothing but its length is looked at before its tag is verified.
    pub fn handle_packet(&mut self, now: Instant, bytes: &[u8], sink: &mut dyn Deliver) {
        if self.failed {
            return;
        }
        let (packet, payload) = match Packet::open(&self.verify, self.settings.tag_bytes, bytes) {
            Ok(opened) => opened,
            Err(Reject::Forged) => {
                self.counters.forged += 1;
                return;
            }
            Err(Reject::Malformed) => {
                self.counters.malformed += 1;
                return;
            }
        };
        self.counters.packets_received += 1;
        self.outgoing.heard();
        match packet.kind {
            Kind::Acknowledgement => {}
            Kind::Probe(probe) => {
                self.counters.probes_received += 1;
                self.incoming.probed(now, probe);
            }
            Kind::Numbered { number, transmission, lane } => {
                self.handle_numbered(now, number, transmission, lane, packet.request, payload, sink);
            }
        }
        self.handle_acknowledgement(now, &packet);
    }

    /// The next thing the driver should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if event.is_none() && self.events.capacity() > 0 && self.outgoing.is_idle() {
            self.events = VecDeque::new();
        }
        event
    }

    /// Nothing unacknowledged, nothing queued, no acknowledgement owed.
    ///
    /// The peer may still miss the last acknowledgement and probe for it: who leaves at once leaves it probing.
    pub fn is_idle(&self) -> bool {
        self.outgoing.is_idle() && !self.incoming.owes()
    }

    /// True once `Event::PeerFailed` has been raised.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The round trip without the receiver's hold time; a guess before the first sample.
    pub fn smoothed_round_trip(&self) -> Duration {
        self.outgoing.smoothed_round_trip()
    }

    /// Packets that may be in flight at present.
    pub fn window(&self) -> u32 {
        self.outgoing.window()
    }

    /// Bytes this flow occupies, allocations included. At most `IDLE_BYTES_MAX` when idle and all events are taken.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.outgoing.memory_bytes()
            + self.incoming.memory_bytes()
            + self.events.capacity() * size_of::<Event>()
    }

    fn emit_numbered(
        &mut self,
        now: Instant,
        departure: &Departure,
        regions: &mut dyn Regions,
        out: &mut [u8],
    ) -> usize {
        self.counters.acks_piggybacked += u64::from(self.incoming.owes());
        self.incoming.acknowledged();
        let &Departure { number, transmission, content, request } = departure;
        let (lane, length) = match content {
            Content::Messages { first, length, .. } => (Lane::Messages { first }, usize::from(length)),
            Content::Data { sink, offset, length, end, .. } => (Lane::Data { sink, offset, end }, usize::from(length)),
        };
        let at = self.emit_head(now, Kind::Numbered { number, transmission, lane }, request, length, out);
        let payload = &mut out[at..at + length];
        match content {
            Content::Messages { start, length, .. } => {
                let (low, high) = self.outgoing.queue.frames(start, length);
                payload[..low.len()].copy_from_slice(low);
                payload[low.len()..].copy_from_slice(high);
            }
            Content::Data { region, offset, .. } => regions.read(region, offset, payload),
        }
        if transmission == 1 {
            self.counters.bytes_sent += length as u64;
        }
        self.finish(at + length, out)
    }

    fn emit_bare(&mut self, now: Instant, kind: Kind, out: &mut [u8]) -> usize {
        let length = self.emit_head(now, kind, false, 0, out);
        self.finish(length, out)
    }

    fn emit_head(&mut self, now: Instant, kind: Kind, request: bool, length: usize, out: &mut [u8]) -> usize {
        let (acknowledged, selective) = self.incoming.state();
        let echo = self.incoming.take_echo(now);
        Packet { sender: self.own_index, acknowledged, selective, echo, request, kind }.emit(length, out)
    }

    fn finish(&mut self, length: usize, out: &mut [u8]) -> usize {
        self.seal.seal(&mut out[..length], self.settings.tag_bytes);
        self.counters.packets_sent += 1;
        length
    }

    fn handle_numbered(
        &mut self,
        now: Instant,
        number: Number,
        transmission: u8,
        lane: Lane,
        request: bool,
        payload: &[u8],
        sink: &mut dyn Deliver,
    ) {
        match self.incoming.classify(number, self.settings.window_packets) {
            Arrival::Outside => {
                self.counters.out_of_window += 1;
                return;
            }
            Arrival::Duplicate => {
                self.counters.duplicates += 1;
                self.incoming.hurry();
                return;
            }
            Arrival::New => {}
        }
        if let Lane::Messages { first } = lane
            && !self.incoming.expects_messages(first, self.settings.window_packets)
        {
            self.counters.malformed += 1;
            return;
        }
        self.counters.data_packets_received += 1;
        let more_follows = matches!(lane, Lane::Data { end: false, .. });
        let late = self.incoming.arrive(now, number, transmission, more_follows, &self.settings);
        self.counters.reordered += u64::from(late);
        let mut ends = false;
        match lane {
            Lane::Messages { first } => {
                let (messages, bytes) = self.incoming.messages(first, payload, &mut |body| sink.message(body));
                self.counters.messages_received += messages;
                self.counters.bytes_received += bytes;
            }
            Lane::Data { sink: name, offset, end } => {
                sink.data(name, offset, payload);
                self.counters.bytes_received += payload.len() as u64;
                ends = end;
            }
        }
        if request || ends && self.settings.ack_scheme == AckScheme::Immediate {
            self.incoming.hurry();
        }
    }

    fn handle_acknowledgement(&mut self, now: Instant, packet: &Packet) {
        let events = &mut self.events;
        let mut acknowledged = |region: u32, bytes: u64| match events.back_mut() {
            Some(Event::Acknowledged { region: last, bytes: sum }) if *last == region => *sum += bytes,
            _ => events.push_back(Event::Acknowledged { region, bytes }),
        };
        let state = (packet.acknowledged, packet.selective);
        let progress = self.outgoing.acknowledge(now, state, packet.echo, &self.settings, &mut acknowledged);
        self.count_progress(&progress);
    }

    fn count_progress(&mut self, progress: &Progress) {
        self.counters.acknowledged_unsent += u64::from(progress.unsent);
        self.counters.lost_by_gap += u64::from(progress.lost_by_gap);
        self.counters.lost_by_probe += u64::from(progress.lost_by_probe);
        self.counters.window_cuts += u64::from(progress.window_cuts);
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
