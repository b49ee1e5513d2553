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

mod settings;

pub use settings::*;

use crate::time::Instant;
use core::ops::Range;

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
    counters: Counters,
}

impl Flow {
    /// A flow from process `own_index` to process `peer_index` (both below 2²⁴) of the job that knows `secret`.
    ///
    /// Both sides must use the same `packet_size` and `window_packets`. Panics if the settings are outside their limits.
    pub fn new(settings: &Settings, secret: [u8; 16], own_index: u32, peer_index: u32) -> Self {
        let _ = (secret, own_index, peer_index);
        Self { settings: settings.clone(), counters: Counters::default() }
    }

    /// The largest `head` plus `payload` that `submit_message` takes, in bytes.
    pub fn frame_max(&self) -> usize {
        self.settings.packet_size - crate::wire::OVERHEAD_MAX
    }

    /// Sends `head` and `payload` as one message on the ordered lane. Both are copied. Panics if they exceed `frame_max`.
    pub fn submit_message(&mut self, head: &[u8], payload: &[u8]) {
        let _ = (head, payload);
    }

    /// Sends bytes `range` of `region` to the same offsets of the peer's `sink`.
    ///
    /// The bytes are read when a packet leaves and must stay the same until `Event::Acknowledged` has told of all of them.
    pub fn submit_data(&mut self, sink: u32, region: u32, range: Range<u64>) {
        let _ = (sink, region, range);
    }

    /// False while so much is queued that the program should wait.
    pub fn can_accept(&self) -> bool {
        self.queued_bytes() < self.settings.queue_bytes
    }

    /// Bytes of the ordered lane that are queued or not yet acknowledged.
    pub fn queued_bytes(&self) -> usize {
        0
    }

    /// Writes the next packet that is due into `out` (at least `packet_size` bytes) and returns its length.
    /// `None`: nothing may leave before something arrives, is submitted, or `next_timeout` passes.
    pub fn poll_transmit(&mut self, now: Instant, regions: &mut dyn Regions, out: &mut [u8]) -> Option<usize> {
        let _ = (now, regions, out);
        None
    }

    /// When `poll_transmit` should be called though nothing arrives; a time in the past means now. `None`: the flow is idle.
    pub fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Takes a datagram that claims to be from this flow's peer (`wire::peek_sender`).
    /// Nothing but its length is looked at before its tag is verified.
    pub fn handle_packet(&mut self, now: Instant, bytes: &[u8], sink: &mut dyn Deliver) {
        let _ = (now, bytes, sink);
    }

    /// The next thing the driver should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// Nothing unacknowledged, nothing queued, no acknowledgement owed.
    pub fn is_idle(&self) -> bool {
        true
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
