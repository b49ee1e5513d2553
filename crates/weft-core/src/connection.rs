//! The connection to one remote process, over a carrier that delivers every packet once, and nearly in the
//! order of sending.
//!
//! A reliable endpoint of libfabric is such a carrier: `FI_EP_RDM` with `FI_ORDER_SAS` keeps the order in
//! which messages meet receives. A message that the receiver fetches may be reported after later ones. A
//! connection does over such a carrier what [`crate::flow::Flow`] does over a carrier that loses packets. It
//! needs no acknowledgement, no retransmission and no window.
//!
//! A connection adds what no carrier does:
//!
//! - Messages share packets.
//! - Bulk data is read where it lies.
//! - Every packet proves its sender.
//! - While this process waits for a peer, the connection asks now and then whether the peer lives.
//!
//! A packet stands ready until the carrier takes it ([`Connection::poll_packet`], [`Connection::taken`]);
//! from then on it is the carrier's.
//!
//! All numbers are little-endian.
//!
//! ```text
//!  0  tag       8   as of every packet (`wire/key.rs`)
//!  8  sender    3   index by which the receiver knows the sender
//! 11  kind      1   0xe0 messages, 0xe1 data, 0xe2 probe, 0xe3 its answer; packets of flows have other
//!                   values there
//! 12  number    4   of the packet; the tag covers the part beyond 32 bits
//!     messages:     each as length 2 and bytes
//!     data: remote key 4, offset 8; then the bytes
//! ```
//!
//! The payload of a sealed packet with messages or data is encrypted, and 16 bytes follow it.

mod receive;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use weft_ordered::Map;

use crate::flow::{Counters, Event, Failure, Regions, Settings};
use crate::process::Parties;
use crate::rails::RAILS_MAX;
use crate::refusal::Refusal;
use crate::time::{Duration, Instant};
use crate::wire::{Ciphers, FRAME_PREFIX, Key, Number, Secret};

/// Bytes in front of every packet's body.
pub const HEADER_SIZE: usize = 16;
/// Additional bytes in front of bulk data.
const DATA_PREFIX: usize = 12;
const SENDER_MAX: u32 = 0x00ff_ffff;
const NUMBER_AT: usize = 12;
/// Most packets behind a missing one: a carrier that delivers more has lost the missing packet.
const EARLY_MAX: usize = 1024;
/// Most bytes of packets behind a missing one that are kept.
const EARLY_BYTES_MAX: usize = 4 << 20;

const MESSAGES: u8 = 0xe0;
const DATA: u8 = 0xe1;
const PROBE: u8 = 0xe2;
const ALIVE: u8 = 0xe3;
// As a packet of a flow it would name a path that does not exist.
const _: () = assert!((MESSAGES >> 5) as usize > RAILS_MAX);

/// Returns whether these bytes claim to be a packet of a connection with messages: for captures.
pub fn claims_messages(bytes: &[u8]) -> bool {
    bytes.get(11) == Some(&MESSAGES)
}

/// Bulk data that is to leave.
#[derive(Debug)]
struct Granted {
    remote_key: u32,
    region: u32,
    range: Range<u64>,
}

/// The packet that the carrier is to take next.
#[derive(Debug, Default)]
struct Ready {
    /// The bytes of the packet; empty: there is none.
    bytes: Vec<u8>,
    /// The region and the number of its bytes in the packet, if it has bulk data.
    data: Option<(u32, u64)>,
}

/// Packets that have arrived before an earlier packet, by their numbers.
#[derive(Debug, Default)]
struct Early {
    /// The bytes of the waiting packets; none of bulk data, whose place is known without an order.
    packets: Map<u64, Option<Vec<u8>>>,
    /// Bytes of the waiting packets.
    bytes: usize,
}

/// The time for which the peer has been silent while it owed an answer.
#[derive(Debug, Default)]
struct Silence {
    length: Duration,
    /// The time of the last look.
    looked: Option<Instant>,
    /// The length of silence at the last question.
    asked: Duration,
}

/// A connection to one peer.
#[derive(Debug)]
pub struct Connection {
    settings: Arc<Settings>,
    own_index: u32,
    failed: bool,
    tag_key: Key,
    peer_tag_key: Key,
    ciphers: Option<Box<Ciphers>>,
    /// The number of the next packet that leaves, and of the next that arrives.
    next: u64,
    expected: u64,
    ready: Ready,
    /// Packets with messages; the last one may take more. Each begins with room for a header.
    open: VecDeque<Vec<u8>>,
    /// Bytes in these packets, and in the ready one.
    queued: usize,
    granted: VecDeque<Granted>,
    /// Memory for the next packet.
    spare: Vec<u8>,
    /// The program waits for the peer.
    watched: bool,
    /// The peer wants to know whether this process lives.
    owes_answer: bool,
    /// Set while the carrier refuses the ready packet.
    refused: Option<Refusal>,
    /// Packets that the carrier has taken and still has.
    held: usize,
    silence: Silence,
    early: Early,
    events: VecDeque<Event>,
    counters: Counters,
}

impl Connection {
    /// Begins a connection between two processes whose jobs have `secret` in common. Both sides must use the
    /// same `packet_size` and `sealed`. Of the other settings only those of liveness count.
    pub fn new(settings: Arc<Settings>, secret: &Secret, parties: &Parties) -> Self {
        let Parties { own, peer, own_index } = *parties;
        assert!(own_index <= SENDER_MAX, "a process index has 24 bits");
        let first = u64::from(Number::FIRST.0);
        Self {
            settings,
            own_index,
            failed: false,
            tag_key: Key::derive(secret, own, peer),
            peer_tag_key: Key::derive(secret, peer, own),
            ciphers: None,
            next: first,
            expected: first,
            ready: Ready::default(),
            open: VecDeque::new(),
            queued: 0,
            granted: VecDeque::new(),
            spare: Vec::new(),
            watched: false,
            owes_answer: false,
            refused: None,
            held: 0,
            silence: Silence::default(),
            early: Early::default(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Most bytes of a packet behind its header.
    fn body_max(&self) -> usize {
        self.settings.packet_size - HEADER_SIZE - self.settings.seal_size()
    }

    /// The largest `head` plus `payload` that `submit_message` takes, in bytes.
    pub fn frame_max(&self) -> usize {
        self.body_max() - FRAME_PREFIX
    }

    /// The largest `head` plus `payload` that shares the packet with the messages submitted before it; 0 if
    /// none does.
    pub fn frame_room(&self) -> usize {
        let begun = self.open.back().map_or(self.body_max(), |last| last.len() - HEADER_SIZE);
        (self.body_max() - begun).saturating_sub(FRAME_PREFIX)
    }

    /// Sends `head` and `payload` as one message, in order. Both are copied. Panics if they exceed
    /// `frame_max`. Without effect once the peer has failed.
    pub fn submit_message(&mut self, head: &[u8], payload: &[u8]) {
        let length = head.len() + payload.len();
        assert!(length <= self.frame_max(), "a message larger than frame_max");
        if self.failed {
            return;
        }
        if self.open.is_empty() || length > self.frame_room() {
            let mut packet = core::mem::take(&mut self.spare);
            packet.clear();
            packet.extend_from_slice(&[0; HEADER_SIZE]);
            self.open.push_back(packet);
        }
        let Some(packet) = self.open.back_mut() else { return };
        packet.extend_from_slice(&(length as u16).to_le_bytes());
        packet.extend_from_slice(head);
        packet.extend_from_slice(payload);
        self.queued += FRAME_PREFIX + length;
        self.counters.messages_sent += 1;
        self.counters.bytes_sent += (FRAME_PREFIX + length) as u64;
    }

    /// Sends bytes `range` of `region` to the same offsets of the peer's `remote_key`. An empty range does
    /// nothing. The bytes must stay the same until `Event::Acknowledged` has named all of them: then the
    /// carrier has a copy.
    pub fn submit_data(&mut self, remote_key: u32, region: u32, range: Range<u64>) {
        if !self.failed && !range.is_empty() {
            #[cfg(weft_mutant = "connection_data_acknowledged_early")]
            self.events.push_back(Event::Acknowledged { region, bytes: range.end - range.start });
            self.granted.push_back(Granted { remote_key, region, range });
        }
    }

    /// Bytes of messages that the carrier has not taken.
    pub fn queued_bytes(&self) -> usize {
        self.queued
    }

    /// Returns whether nothing waits for the carrier. The carrier may still have packets that it has taken.
    pub fn is_idle(&self) -> bool {
        self.ready.bytes.is_empty() && self.open.is_empty() && self.granted.is_empty() && !self.owes_answer
    }

    /// Returns whether an earlier packet than others that are here is missing: then the caller must look at
    /// the time.
    #[inline]
    pub fn misses_packets(&self) -> bool {
        !self.early.packets.is_empty()
    }

    /// True once `Event::PeerFailed` has been raised.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Notes whether the program waits for something from the peer. While it does, a peer that has been
    /// silent for `Settings::keepalive` is probed, and fails after `Settings::peer_timeout` of silence.
    pub fn watch(&mut self, watched: bool) {
        self.watched = watched;
    }

    /// Notes the number of packets that the carrier has taken and that have not left it. A peer whose packets
    /// stay there fails after `Settings::peer_timeout`. A carrier may need far longer to find out that a host
    /// is gone, and until then it is never empty.
    #[inline]
    pub fn hold(&mut self, packets: usize, now: Instant) {
        if packets > 0 || self.held > 0 {
            self.note_held(packets, now);
        }
    }

    fn note_held(&mut self, packets: usize, now: Instant) {
        if packets < self.held && !self.watched && !self.misses_packets() {
            self.silence = Silence::default();
        }
        self.held = packets;
        if packets > 0 && !self.failed {
            self.count_silence(now);
        }
    }

    /// Returns the next news for the driver.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The counts of all that happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The time to call `poll_packet` though nothing arrives; a time in the past means now.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.failed {
            return None;
        }
        if !self.is_idle() {
            return Some(self.now_or_retry());
        }
        let keepalive = self.settings.keepalive;
        ((self.watched || self.held > 0 || self.misses_packets()) && keepalive.0 > 0)
            .then(|| self.silence.looked.map_or(Instant(0), |looked| looked + keepalive))
    }

    /// The time to offer the carrier a packet: now, or a while after it has refused one.
    fn now_or_retry(&self) -> Instant {
        self.refused.map_or(Instant(0), |refusal| refusal.retry_at())
    }

    /// Gives back memory that an idle connection keeps for later use.
    pub fn shrink(&mut self) {
        if !self.is_idle() {
            return;
        }
        (self.spare, self.ready, self.ciphers) = (Vec::new(), Ready::default(), None);
        (self.open, self.granted) = (VecDeque::new(), VecDeque::new());
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
    }

    /// Bytes that the connection occupies, allocations included.
    pub fn memory_bytes(&self) -> usize {
        let packets = self.open.iter().map(Vec::capacity).sum::<usize>() + self.early.bytes;
        size_of::<Self>() + packets + self.spare.capacity() + self.ready.bytes.capacity()
    }

    /// Returns whether `poll_packet` depends on the time now.
    #[inline]
    pub fn needs_time(&self) -> bool {
        self.watched || self.refused.is_some() || self.misses_packets()
    }

    /// The packet that the carrier is to take next: the same until [`Self::taken`]. `None`: there is nothing
    /// to send.
    pub fn poll_packet(&mut self, now: Instant, regions: &mut dyn Regions) -> Option<&[u8]> {
        if self.failed {
            return None;
        }
        let probe = self.needs_time() && self.is_probe_due(now);
        if self.failed {
            return None;
        }
        if self.ready.bytes.is_empty() {
            if core::mem::take(&mut self.owes_answer) {
                self.make_control(ALIVE);
            } else if probe {
                self.counters.probes += 1;
                self.make_control(PROBE);
            } else if let Some(packet) = self.open.pop_front() {
                self.queued -= packet.len() - HEADER_SIZE;
                self.ready.bytes = packet;
                self.counters.data_packets_sent += 1;
                self.finish(MESSAGES, HEADER_SIZE);
            } else {
                self.make_data(regions)?;
            }
        }
        Some(&self.ready.bytes)
    }

    /// Notes that the carrier has taken the packet: its memory is the connection's again.
    pub fn taken(&mut self) {
        self.counters.packets_sent += 1;
        #[cfg(weft_mutant = "connection_packet_twice")]
        if self.refused.take().is_some() {
            return;
        }
        self.refused = None;
        #[cfg(weft_mutant = "connection_data_acknowledged_early")]
        self.ready.data.take();
        if let Some((region, bytes)) = self.ready.data.take() {
            match self.events.back_mut() {
                Some(Event::Acknowledged { region: last, bytes: sum }) if *last == region => *sum += bytes,
                _ => self.events.push_back(Event::Acknowledged { region, bytes }),
            }
        }
        self.spare = core::mem::take(&mut self.ready.bytes);
        self.spare.clear();
        if !self.watched && !self.misses_packets() {
            // A carrier that takes packets also sends them.
            self.silence = Silence::default();
        }
    }

    /// Notes that the carrier has no room: the packet is offered again later.
    pub fn refused(&mut self, now: Instant) {
        self.refused = Some(Refusal::after(self.refused, now));
    }

    /// Counts silence while the peer owes an answer; returns whether to ask the peer.
    fn is_probe_due(&mut self, now: Instant) -> bool {
        self.count_silence(now);
        let (keepalive, silence) = (self.settings.keepalive, &mut self.silence);
        let is_due =
            !self.failed && self.watched && keepalive.0 > 0 && silence.length.0 - silence.asked.0 >= keepalive.0;
        if is_due {
            silence.asked = silence.length;
        }
        is_due
    }

    /// Counts silence while the peer owes an answer. The peer fails when the silence is too long.
    fn count_silence(&mut self, now: Instant) {
        let Settings { keepalive, peer_timeout, .. } = *self.settings;
        let silence = &mut self.silence;
        if let Some(looked) = silence.looked.replace(now) {
            // A caller that looks seldom does not know that the peer was silent all the time.
            let most = if keepalive.0 > 0 { 2 * keepalive.0 } else { u64::MAX };
            silence.length = Duration(silence.length.0 + now.since(looked).0.min(most));
        }
        if peer_timeout.0 > 0 && silence.length >= peer_timeout {
            self.fail(if self.misses_packets() { Failure::Lost } else { Failure::Silent });
        }
    }

    fn fail(&mut self, reason: Failure) {
        self.failed = true;
        self.open = VecDeque::new();
        self.granted = VecDeque::new();
        self.ready = Ready::default();
        self.early = Early::default();
        self.queued = 0;
        self.events.push_back(Event::PeerFailed { reason });
    }

    fn begin(&mut self) {
        self.ready.bytes = core::mem::take(&mut self.spare);
        self.ready.bytes.clear();
        self.ready.bytes.extend_from_slice(&[0; HEADER_SIZE]);
    }

    fn make_control(&mut self, kind: u8) {
        self.begin();
        self.finish(kind, HEADER_SIZE);
    }

    fn make_data(&mut self, regions: &mut dyn Regions) -> Option<()> {
        let most = (self.body_max() - DATA_PREFIX) as u64;
        let granted = self.granted.front_mut()?;
        let (offset, remote_key, region) = (granted.range.start, granted.remote_key, granted.region);
        let length = (granted.range.end - offset).min(most);
        granted.range.start += length;
        if granted.range.is_empty() {
            self.granted.pop_front();
        }
        self.begin();
        let bytes = &mut self.ready.bytes;
        bytes.extend_from_slice(&remote_key.to_le_bytes());
        bytes.extend_from_slice(&offset.to_le_bytes());
        let at = bytes.len();
        bytes.resize(at + length as usize, 0);
        regions.read(region, offset, &mut bytes[at..]);
        self.ready.data = Some((region, length));
        self.counters.data_packets_sent += 1;
        self.counters.bytes_sent += length;
        self.finish(DATA, at);
        Some(())
    }

    /// Completes the ready packet by its header; its payload begins at `at`.
    fn finish(&mut self, kind: u8, at: usize) {
        let number = self.next;
        self.next += 1;
        let bytes = &mut self.ready.bytes;
        let sender = self.own_index & SENDER_MAX | u32::from(kind) << 24;
        bytes[8..NUMBER_AT].copy_from_slice(&sender.to_le_bytes());
        bytes[NUMBER_AT..HEADER_SIZE].copy_from_slice(&(number as u32).to_le_bytes());
        if self.settings.sealed && kind <= DATA {
            let length = bytes.len();
            bytes.resize(length + self.settings.seal_size(), 0);
            let (own, peer) = (&self.tag_key, &self.peer_tag_key);
            let ciphers = self.ciphers.get_or_insert_with(|| Box::new(Ciphers::new(own, peer)));
            ciphers.seal(number, 1, at, length, bytes);
        }
        self.tag_key.write_tag((number >> 32) as u32, bytes);
    }
}

#[cfg(test)]
mod tests;
