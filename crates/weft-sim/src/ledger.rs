//! What one process owes another and what it got from it, checked byte by byte as it arrives.

use crate::plan::{BULK_OPEN_MAX, Traffic};
use crate::random::{fill, mix};
use std::collections::BTreeMap;
use weft_core::flow::{Deliver, Flow, Regions};
use weft_core::time::Instant;

/// Sinks and regions are numbered apart, so that one taken for the other is noticed.
const SINK_OFFSET: u32 = 1000;

/// The name of the noise that message `index`, or region `index`, from one to another consists of.
fn key(seed: u64, from: u32, to: u32, kind: u64, index: u32) -> u64 {
    mix(mix(seed ^ kind << 56 ^ u64::from(from) << 32 ^ u64::from(to)) ^ u64::from(index))
}

/// Size of message `index`.
fn message_size(seed: u64, traffic: &Traffic, index: u32, max: usize) -> usize {
    let (low, high) = traffic.sizes;
    let noise = key(seed, traffic.from, traffic.to, 3, index);
    ((low + noise % (high - low + 1)) as usize).min(max)
}

/// The sending half of a pair.
#[derive(Debug)]
pub struct Sending {
    seed: u64,
    traffic: Traffic,
    messages: u32,
    bulk: usize,
    /// Bytes acknowledged, by region.
    acknowledged: Vec<u64>,
    next_turn: Instant,
    /// When the last message was submitted.
    pub submitted_at: Instant,
    body: Vec<u8>,
}

impl Sending {
    /// Nothing sent yet.
    pub fn new(seed: u64, traffic: Traffic) -> Self {
        let acknowledged = vec![0; traffic.bulk.len()];
        Self {
            seed,
            traffic,
            messages: 0,
            bulk: 0,
            acknowledged,
            next_turn: Instant(0),
            submitted_at: Instant(0),
            body: Vec::new(),
        }
    }

    /// Submits what may be submitted, given how many messages came back.
    pub fn submit(&mut self, now: Instant, flow: &mut Flow, received: u32) {
        if now < self.next_turn {
            return;
        }
        let mut turn = 0;
        while self.may_send(received) && turn < self.traffic.per_turn && flow.can_accept() {
            let index = self.messages;
            let size = message_size(self.seed, &self.traffic, index, flow.frame_max());
            self.body.resize(size, 0);
            fill(key(self.seed, self.traffic.from, self.traffic.to, 1, index), 0, &mut self.body);
            let (head, payload) = self.body.split_at(size / 3);
            flow.submit_message(head, payload);
            self.messages += 1;
            self.submitted_at = now;
            turn += 1;
        }
        if turn > 0 {
            self.next_turn = now + self.traffic.gap;
        }
        while self.may_begin_bulk() {
            let region = self.bulk as u32;
            flow.submit_data(region + SINK_OFFSET, region, 0..self.traffic.bulk[self.bulk]);
            self.bulk += 1;
        }
    }

    fn may_send(&self, received: u32) -> bool {
        self.messages < self.traffic.messages
            && self.traffic.lead.is_none_or(|lead| self.messages < received.saturating_add(lead))
    }

    /// Bulk is spread over the messages.
    fn may_begin_bulk(&self) -> bool {
        let total = self.traffic.bulk.len();
        let open = (0..self.bulk).filter(|&i| self.acknowledged[i] < self.traffic.bulk[i]).count();
        self.bulk < total
            && open < BULK_OPEN_MAX
            && u64::from(self.messages) * total as u64 >= self.bulk as u64 * u64::from(self.traffic.messages)
    }

    /// When `submit` would do something though nothing arrives.
    pub fn next_turn(&self, flow: &Flow, received: u32) -> Option<Instant> {
        (self.may_send(received) && flow.can_accept() || self.may_begin_bulk()).then_some(self.next_turn)
    }

    /// Notes an acknowledgement; returns the sink and how much of it must therefore have arrived.
    pub fn acknowledged(&mut self, region: u32, bytes: u64) -> Result<(u32, u64), String> {
        let total = self.acknowledged.get_mut(region as usize).ok_or("a region nobody sent was acknowledged")?;
        *total += bytes;
        if *total > self.traffic.bulk[region as usize] {
            return Err(format!("{total} bytes of region {region} were acknowledged, more than there are"));
        }
        Ok((region + SINK_OFFSET, *total))
    }

    /// All is submitted and all bulk data acknowledged.
    pub fn is_complete(&self) -> bool {
        self.messages == self.traffic.messages
            && self.bulk == self.traffic.bulk.len()
            && self.acknowledged == self.traffic.bulk
    }

    /// Payload bytes submitted so far, messages by their number of bytes.
    pub fn bulk_ranges(&self) -> u64 {
        self.traffic.bulk.len() as u64
    }
}

impl Regions for Sending {
    fn read(&mut self, region: u32, offset: u64, out: &mut [u8]) {
        let length = self.traffic.bulk[region as usize];
        assert!(offset + out.len() as u64 <= length, "the flow reads beyond the end of a region");
        fill(key(self.seed, self.traffic.from, self.traffic.to, 2, region), offset, out);
    }
}

/// The receiving half of a pair. `traffic` is what the peer sends.
#[derive(Debug)]
pub struct Receiving {
    seed: u64,
    traffic: Traffic,
    frame_max: usize,
    /// Messages that arrived.
    pub messages: u32,
    /// Pieces that arrived: (sink, offset) → length.
    pieces: BTreeMap<(u32, u64), u64>,
    /// Bytes that arrived, by sink.
    placed: BTreeMap<u32, u64>,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// The first thing that was wrong.
    pub violation: Option<String>,
    expected: Vec<u8>,
}

impl Receiving {
    /// Nothing received yet.
    pub fn new(seed: u64, traffic: Traffic, frame_max: usize) -> Self {
        Self {
            seed,
            traffic,
            frame_max,
            messages: 0,
            pieces: BTreeMap::new(),
            placed: BTreeMap::new(),
            bytes: 0,
            violation: None,
            expected: Vec::new(),
        }
    }

    fn wrong(&mut self, what: String) {
        let (from, to) = (self.traffic.from, self.traffic.to);
        self.violation.get_or_insert(format!("from {from} to {to}: {what}"));
    }

    /// Bytes of a sink that arrived.
    pub fn placed(&self, sink: u32) -> u64 {
        self.placed.get(&sink).copied().unwrap_or(0)
    }

    /// Every message and every byte is there.
    pub fn is_complete(&self) -> bool {
        self.messages == self.traffic.messages
            && self.traffic.bulk.iter().enumerate().all(|(i, length)| self.placed(i as u32 + SINK_OFFSET) == *length)
    }
}

impl Deliver for Receiving {
    fn message(&mut self, body: &[u8]) {
        let index = self.messages;
        if index >= self.traffic.messages {
            return self.wrong("more messages arrive than were sent".into());
        }
        let size = message_size(self.seed, &self.traffic, index, self.frame_max);
        self.expected.resize(size, 0);
        fill(key(self.seed, self.traffic.from, self.traffic.to, 1, index), 0, &mut self.expected);
        if body != self.expected {
            return self.wrong(format!("message {index} is damaged, repeated or out of order"));
        }
        self.messages += 1;
        self.bytes += body.len() as u64;
    }

    fn data(&mut self, sink: u32, offset: u64, bytes: &[u8]) {
        let Some(region) = sink.checked_sub(SINK_OFFSET).filter(|r| (*r as usize) < self.traffic.bulk.len()) else {
            return self.wrong(format!("data for sink {sink} that nobody offered"));
        };
        let end = offset + bytes.len() as u64;
        if end > self.traffic.bulk[region as usize] {
            return self.wrong(format!("data beyond the end of sink {sink}"));
        }
        self.expected.resize(bytes.len(), 0);
        fill(key(self.seed, self.traffic.from, self.traffic.to, 2, region), offset, &mut self.expected);
        if bytes != self.expected {
            return self.wrong(format!("damaged data at {offset} of sink {sink}"));
        }
        let before = self.pieces.range(..(sink, end)).next_back();
        if before.is_some_and(|(&(s, at), &length)| s == sink && at + length > offset) {
            return self.wrong(format!("data at {offset} of sink {sink} arrives twice"));
        }
        self.pieces.insert((sink, offset), bytes.len() as u64);
        *self.placed.entry(sink).or_default() += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
    }
}
