//! What is to be played: who sends what to whom, over which network, against which nuisances, and what must
//! hold.

use crate::nuisance::Nuisance;
use crate::topology::{Buffer, Topology};
use weft_core::flow::Settings;
use weft_core::time::{Duration, Instant};

/// Most ranks of one run.
pub const RANKS_MAX: u32 = 16_384;

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of processes, each on a host of its own.
    pub ranks: u32,
    /// The network between them.
    pub topology: Topology,
    /// Further networks between the same ranks, which have an interface in each: bulk data is striped over
    /// all of them.
    pub rails: Vec<Topology>,
    /// What a host can do.
    pub host: Host,
    /// Settings of all flows.
    pub settings: Settings,
    /// What is sent; at most one entry for each ordered pair.
    pub workload: Vec<Traffic>,
    /// What goes wrong.
    pub nuisances: Vec<Nuisance>,
    /// What must hold besides correctness.
    pub demands: Demands,
    /// The run has failed if it is not over by then.
    pub time_limit: Duration,
}

/// A host, all alike.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Bytes that may wait for its own link before its process stops sending (a socket's send buffer and the
    /// card's ring).
    pub send_bytes: u64,
    /// Bytes that wait in the process's socket; more are dropped.
    pub receive_bytes: u64,
    /// Processor time to handle or to send one packet.
    pub packet_cost: Duration,
    /// Packets of equal size that leave at once at most, as with segmentation offload; 1: each for itself.
    pub train_packets: usize,
    /// Raw frames beside UDP, with a socket of its own for each, as on interfaces where both are possible.
    pub frames: bool,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            send_bytes: 128 << 10,
            receive_bytes: 4 << 20,
            packet_cost: Duration(300),
            train_packets: 1,
            frames: false,
        }
    }
}

/// What one process sends to another.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Nothing is submitted before.
    pub begin: Instant,
    /// How many messages on the ordered channel.
    pub messages: u32,
    /// Their sizes, least and most; capped by `frame_max`.
    pub sizes: (u64, u64),
    /// Ranges of bulk data.
    pub bulk: Vec<u64>,
    /// So many of them are under way at a time.
    pub bulk_open: usize,
    /// Bulk data is announced, and leaves when the receiver grants it (`weft_core::grants`).
    pub fetched: bool,
    /// Messages submitted in one turn.
    pub per_turn: u32,
    /// Time between turns.
    pub gap: Duration,
    /// Message k is submitted only when k − lead messages have come from `to`; `None`: whenever there is
    /// room.
    pub lead: Option<u32>,
}

/// Ranges of bulk data that a process has under way to one peer, if nothing else is said.
pub const BULK_OPEN_MAX: usize = 4;

impl Traffic {
    /// Nothing yet, from one to another.
    pub const fn between(from: u32, to: u32) -> Self {
        Self {
            from,
            to,
            begin: Instant(0),
            messages: 0,
            sizes: (8, 8),
            bulk: Vec::new(),
            bulk_open: BULK_OPEN_MAX,
            fetched: false,
            per_turn: 16,
            gap: Duration(0),
            lead: None,
        }
    }

    /// Payload bytes, messages counted with their mean size.
    pub fn payload_bytes(&self) -> u64 {
        self.bulk.iter().sum::<u64>() + u64::from(self.messages) * (self.sizes.0 + self.sizes.1) / 2
    }
}

/// What must hold besides what always must (`check`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Demands {
    /// Nothing is sent again and nothing probed for.
    pub no_resend: bool,
    /// No rail is given up, and no carrier of bulk data.
    pub no_lane_given_up: bool,
    /// Nothing is sent again, probes are allowed.
    pub no_resend_of_data: bool,
    /// Packets sent again though the packet, or a copy of it, was alive: at most so many in a thousand
    /// numbered packets. `None`: what the nuisances excuse, nothing if none can mislead (`check::misleads`).
    pub spurious_permille_max: Option<u64>,
    /// Most standalone acknowledgements: one per so many numbered packets, plus one per bulk range and flow.
    pub packets_per_ack: Option<u64>,
    /// No acknowledgement travels alone but the last of each direction.
    pub no_standalone_ack: bool,
    /// Most bytes on the wire per byte of payload, in percent.
    pub wire_percent_max: Option<u64>,
    /// Least payload, as a share of what the busiest link could carry in the time, in percent.
    pub share_percent_min: Option<u64>,
    /// The same while the windows are as large as they get (`Report::steady_percent`).
    pub steady_percent_min: Option<u64>,
    /// The slowest in a hundred transfers takes at most this many percent of the time the busiest link needs
    /// for all.
    pub transfer_percent_max: Option<u64>,
}

impl Demands {
    /// Of a run in which nothing is lost, and nothing is slow.
    pub(crate) const CLEAN: Self = Self {
        no_lane_given_up: true,
        no_resend: true,
        no_resend_of_data: true,
        spurious_permille_max: Some(0),
        packets_per_ack: Some(16),
        no_standalone_ack: false,
        wire_percent_max: None,
        share_percent_min: None,
        steady_percent_min: None,
        transfer_percent_max: None,
    };
}

impl Plan {
    /// Two ranks and a switch, nothing to do.
    pub(crate) fn quiet() -> Self {
        Self {
            ranks: 2,
            topology: Topology::switch(Buffer::PerPort(4 << 20)),
            rails: Vec::new(),
            host: Host::default(),
            settings: Settings::default(),
            workload: Vec::new(),
            nuisances: Vec::new(),
            demands: Demands::default(),
            time_limit: Duration::from_secs(60),
        }
    }
}
