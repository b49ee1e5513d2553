//! Two clusters that one long link joins, and streams of bulk data from one to the other.

use crate::nuisance::Nuisance;
use crate::plan::{Demands, Plan, Traffic};
use crate::topology::{Buffer, Link, Spreading, Topology};
use weft_core::time::Duration;

/// The link between the two clusters, and the streams that use it.
#[derive(Clone, Copy, Debug)]
pub struct Clusters {
    /// The time that a packet takes to cross the link.
    pub latency: Duration,
    /// Megabits per second of the link between the clusters; the link of each host has [`HOST_RATE`].
    pub rate: u64,
    /// Bytes of a packet.
    pub packet_size: usize,
    /// Hosts of each cluster; each host sends to one of the other cluster.
    pub streams: u32,
    /// Messages are announced, and sent when the receiver grants them, as large messages are.
    pub fetched: bool,
    /// Packets lost on the way, each independently of the others.
    pub lost_per_million: u32,
}

/// Megabits per second of a host's own link.
pub const HOST_RATE: u64 = 10_000;
/// The smallest share of the link that payload takes while the windows have their full size. Packets of 1452
/// bytes leave 92.7 % of the wire to payload.
const STEADY_PERCENT_MIN: u64 = 90;
/// The least length of a run, in round trips. The windows grow to the content of the link in the first half;
/// the second half is steady.
const ROUND_TRIPS: u64 = 40;
/// Messages of each stream.
const MESSAGES: u64 = 8;
/// The most bytes that wait in front of the link.
const BUFFER_BYTES: u64 = 64 << 20;

impl Clusters {
    /// Bytes that the link holds in a round trip.
    pub const fn product(&self) -> u64 {
        2 * self.latency.0 * self.rate / 8_000
    }

    /// The plan of the run.
    pub fn plan(&self) -> Plan {
        let mut plan = Plan::quiet();
        let link = Link { rate: HOST_RATE, ..Link::default() };
        let trunk = Link { propagation: Duration(self.latency.0 / 2), rate: self.rate, ..link };
        let buffer = Buffer::PerPort(BUFFER_BYTES);
        let spreading = Spreading::PerFlow;
        plan.topology = Topology::LeafSpine { link, trunk, leaves: 2, spines: 1, spreading, buffer };
        plan.ranks = 2 * self.streams;
        plan.settings.packet_size = self.packet_size;
        plan.host.receive_bytes = BUFFER_BYTES;
        let bytes = (ROUND_TRIPS * self.product()).max(64 << 20) / u64::from(self.streams);
        let stream = |own| Traffic {
            bulk: vec![bytes / MESSAGES; MESSAGES as usize],
            fetched: self.fetched,
            ..Traffic::between(own, own + self.streams)
        };
        plan.workload = (0..self.streams).map(stream).collect();
        plan.demands = Demands {
            no_resend: false,
            no_resend_of_data: false,
            packets_per_ack: None,
            spurious_permille_max: Some(1),
            steady_percent_min: Some(STEADY_PERCENT_MIN),
            ..Demands::CLEAN
        };
        if self.lost_per_million > 0 {
            plan.nuisances = vec![Nuisance::Loss { per_million: self.lost_per_million, rank: None }];
        }
        plan
    }
}
