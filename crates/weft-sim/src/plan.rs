//! What is to be played: who sends what to whom, over which network, with which faults.

use weft_core::flow::Settings;
use weft_core::time::{Duration, Instant};

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of processes; each has its own link to one switch.
    pub processes: u32,
    /// Settings of all flows.
    pub settings: Settings,
    /// The network.
    pub links: Links,
    /// What goes wrong.
    pub faults: Faults,
    /// What is sent.
    pub traffic: Vec<Traffic>,
    /// Times at which a process does nothing: (process, from, to).
    pub pauses: Vec<(u32, Instant, Instant)>,
    /// What must hold besides correctness.
    pub demands: Demands,
    /// The run has failed if it is not over by then.
    pub time_limit: Duration,
    /// Print every packet.
    pub trace: bool,
}

/// The links between the processes and the switch, all alike.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    /// From process to process, without queues.
    pub latency: Duration,
    /// Bits per microsecond, which is Mb/s.
    pub rate: u64,
    /// Bytes that wait at the switch for one receiver; more are dropped.
    pub queue_bytes: u64,
    /// Bytes that wait in a receiver's socket; more are dropped.
    pub socket_bytes: u64,
    /// What a process needs to handle or to send one packet.
    pub packet_cost: Duration,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(10),
            rate: 10_000,
            queue_bytes: 4 << 20,
            socket_bytes: 4 << 20,
            packet_cost: Duration(300),
        }
    }
}

/// What goes wrong, in cases per million packets.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Lost, each for itself.
    pub loss: u32,
    /// A packet starts a burst in which every packet is lost.
    pub burst_begins: u32,
    /// A packet in a burst is its last.
    pub burst_ends: u32,
    /// Delivered twice.
    pub duplicate: u32,
    /// Delayed by up to `reorder_max`.
    pub reorder: u32,
    /// The longest such delay.
    pub reorder_max: Duration,
    /// One bit changed, or cut short, or made longer.
    pub corrupt: u32,
    /// Accompanied by a packet that somebody without the secret made.
    pub forge: u32,
    /// Accompanied by a packet that was sent before, to whomever.
    pub replay: u32,
    /// Times at which every packet is lost.
    pub outages: Vec<(Instant, Instant)>,
    /// Numbers of packets (counted over the whole run from 0) that are lost.
    pub lose_exactly: Vec<u64>,
}

impl Faults {
    /// Packets arrive once, whole and in order, or not at all.
    pub fn are_only_losses(&self) -> bool {
        self.duplicate == 0 && self.reorder == 0 && self.corrupt == 0 && self.replay == 0
    }
}

/// What one process sends to another.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// How many messages on the ordered lane.
    pub messages: u32,
    /// Their sizes, least and most; capped by `frame_max`.
    pub sizes: (u64, u64),
    /// Ranges of bulk data; at most `BULK_OPEN_MAX` are open at a time.
    pub bulk: Vec<u64>,
    /// Messages submitted in one turn.
    pub per_turn: u32,
    /// Time between turns.
    pub gap: Duration,
    /// Message k is submitted only when k − lead messages have come from `to`; `None`: whenever there is room.
    pub lead: Option<u32>,
}

/// Ranges of bulk data that a process has under way to one peer.
pub const BULK_OPEN_MAX: usize = 4;

impl Traffic {
    /// Nothing yet, from one to another.
    pub const fn between(from: u32, to: u32) -> Self {
        Self { from, to, messages: 0, sizes: (8, 8), bulk: Vec::new(), per_turn: 16, gap: Duration(0), lead: None }
    }
}

/// What must hold besides correctness.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demands {
    /// Nothing is sent again and nothing probed for.
    pub no_resend: bool,
    /// Nothing is sent again, probes are allowed.
    pub no_resend_of_data: bool,
    /// Nothing arrives twice: a resend had its cause.
    pub no_duplicate: bool,
    /// Most standalone acknowledgements: one per so many numbered packets, plus one per bulk range and flow.
    pub packets_per_ack: Option<u64>,
    /// No acknowledgement travels alone but the last of each direction.
    pub no_standalone_ack: bool,
    /// Most bytes on the wire per byte of payload, in percent.
    pub wire_percent_max: Option<u64>,
}
