//! The description of a run: the traffic between its processes, the network, the nuisances, and the demands.

use crate::nuisance::Nuisance;
use crate::topology::{Buffer, Topology};
use weft_core::flow::Settings;
use weft_core::time::{Duration, Instant};

/// The most ranks of one run.
pub const RANKS_MAX: u32 = 16_384;

/// The plan of a whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of processes, each on a host of its own.
    pub ranks: u32,
    /// The network between them.
    pub topology: Topology,
    /// Further networks between the same ranks. Each rank has an interface in each network, and bulk data is
    /// striped over all of them.
    pub rails: Vec<Topology>,
    /// The properties of the hosts.
    pub host: Host,
    /// Settings of all flows.
    pub settings: Settings,
    /// The traffic; at most one entry for each ordered pair.
    pub workload: Vec<Traffic>,
    /// The faults.
    pub nuisances: Vec<Nuisance>,
    /// The demands besides correctness.
    pub demands: Demands,
    /// The time after which an unfinished run has failed.
    pub time_limit: Duration,
}

/// The properties of a host; all hosts are alike.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Bytes that may wait for the host's link before its process stops sending (a socket's send buffer and
    /// the card's ring).
    pub send_bytes: u64,
    /// Bytes that wait in the process's socket; more are dropped.
    pub receive_bytes: u64,
    /// Processor time to handle or to send one packet.
    pub packet_cost: Duration,
    /// The most packets of equal size that leave at once, as with segmentation offload; 1: each packet leaves
    /// alone.
    pub train_packets: usize,
    /// Says whether raw frames are used beside UDP, with a socket of their own, as on interfaces where both
    /// are possible.
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

/// The traffic from one process to another.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// The time before which nothing is submitted.
    pub begin: Instant,
    /// The number of messages on the ordered channel.
    pub messages: u32,
    /// The least and largest size of messages; capped by `frame_max`.
    pub sizes: (u64, u64),
    /// Ranges of bulk data.
    pub bulk: Vec<u64>,
    /// The number of ranges that are under way at a time.
    pub bulk_open: usize,
    /// Says whether bulk data is announced, and leaves when the receiver grants it (`weft_core::grants`).
    pub fetched: bool,
    /// Messages submitted in one turn.
    pub per_turn: u32,
    /// Time between turns.
    pub gap: Duration,
    /// The lead of the messages: message k is submitted only when k − lead messages have come from `to`.
    /// `None`: a message is submitted whenever there is room.
    pub lead: Option<u32>,
}

/// Ranges of bulk data that a process has under way to one peer, unless the plan sets another number.
pub const BULK_OPEN_MAX: usize = 4;

impl Traffic {
    /// Traffic from one process to another, with nothing to send yet.
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

    /// The payload in bytes; messages count with their mean size.
    pub fn payload_bytes(&self) -> u64 {
        self.bulk.iter().sum::<u64>() + u64::from(self.messages) * (self.sizes.0 + self.sizes.1) / 2
    }
}

/// The demands on a run besides those that always hold (`check`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Demands {
    /// Forbids retransmissions and probes.
    pub no_resend: bool,
    /// No rail is given up, and no carrier of bulk data.
    pub no_lane_given_up: bool,
    /// Forbids retransmissions; probes are allowed.
    pub no_resend_of_data: bool,
    /// The most spurious retransmissions in a thousand numbered packets: the packet, or a copy of it, was
    /// still alive. `None`: as many as the nuisances excuse, none if no nuisance can mislead
    /// (`check::misleads`).
    pub spurious_permille_max: Option<u64>,
    /// The most standalone acknowledgements: one for each `packets_per_ack` numbered packets, plus one per
    /// bulk range and flow.
    pub packets_per_ack: Option<u64>,
    /// No acknowledgement travels alone but the last of each direction.
    pub no_standalone_ack: bool,
    /// The most bytes on the wire per byte of payload, in percent.
    pub wire_percent_max: Option<u64>,
    /// The least payload, as a share of what the busiest link could carry in the time, in percent.
    pub share_percent_min: Option<u64>,
    /// The least of this share while the windows have their full size (`Report::steady_percent`).
    pub steady_percent_min: Option<u64>,
    /// The longest time of the slowest in a hundred transfers, in percent of the time that the busiest link
    /// needs for all.
    pub transfer_percent_max: Option<u64>,
}

impl Demands {
    /// The demands on a run in which no packet is lost and no process is slow.
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
    /// A plan of two ranks and a switch, without traffic.
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
