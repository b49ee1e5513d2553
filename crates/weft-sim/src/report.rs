//! The results of a run, for people and for programs.

use crate::ledger::Conversation;
use crate::nuisance::PacketCounts;
use crate::plan::{Plan, Traffic};
use crate::topology::Topology;
use crate::witness::Resends;
use serde_json::{Value, json};
use std::fmt;
use weft_core::flow::Counters;
use weft_core::time::{Duration, Instant};

/// The bounds of the steady part of a run: from the arrival of the first of these percentages of the payload
/// to that of the second.
const STEADY: [u64; 2] = [50, 90];

/// Spans of time, which can be sorted.
#[derive(Clone, Debug, Default)]
pub struct Spans(Vec<Duration>);

impl Spans {
    /// Adds a span.
    pub fn push(&mut self, span: Duration) {
        self.0.push(span);
    }

    /// The span that `percent` of all spans do not exceed; zero if there are no spans.
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
        if rank >= sorted.len() {
            return Duration(0);
        }
        *sorted.select_nth_unstable(rank).1
    }

    /// The number of spans.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    fn json(&self) -> Value {
        let [p50, p99, max] = [50, 99, 100].map(|percent| self.percentile(percent).0);
        json!({ "count": self.count(), "p50_ns": p50, "p99_ns": p99, "max_ns": max })
    }
}

/// The sums over all flows, and the events of the network.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of processes.
    pub ranks: u32,
    /// Virtual time until the last flow came to rest.
    pub elapsed: Duration,
    /// Virtual time until the last payload byte arrived.
    pub delivered_at: Duration,
    /// The time that the busiest link needs for the payload alone.
    pub ideal: Duration,
    /// The payload bytes of the plan, the bytes that have arrived so far, and the times when the percentages
    /// of `STEADY` had arrived.
    payload: u64,
    arrived: u64,
    steady: [Duration; 2],
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// The counters, summed over all flows.
    pub counters: Counters,
    /// Flows that were made, both ends counted.
    pub flows: u64,
    /// The number of times that a rail, or the carrier of its bulk data, was given up.
    pub given_up: u64,
    /// The fate of packets in the network.
    pub packets: PacketCounts,
    /// The causes of retransmissions.
    pub resends: Resends,
    /// Packets of ranks that have no flow with their receiver.
    pub strangers: u64,
    /// The most bytes that one flow held.
    pub flow_bytes_max: usize,
    /// The most bytes that waited at one port of a switch.
    pub queue_bytes_max: u64,
    /// The most bytes that waited in one host for its link.
    pub host_bytes_max: u64,
    /// The most packets under way at a time.
    pub packets_alive_max: usize,
    /// The most entries of the agenda.
    pub agenda_max: usize,
    /// The times from a message's submission to its delivery.
    pub messages: Spans,
    /// The times from the submission of a range of bulk data to the delivery of its last byte.
    pub transfers: Spans,
    /// The times from a message's submission to its answer, where the traffic has one.
    pub round_trips: Spans,
    /// The number of events.
    pub events: u64,
    /// Processor time of this machine. It differs between runs of one seed.
    pub processor: Duration,
}

impl Report {
    /// Creates the report of a run that has not begun.
    pub fn of(plan: &Plan) -> Self {
        let payload = plan.workload.iter().map(Traffic::payload_bytes).sum();
        Self { ranks: plan.ranks, ideal: ideal(plan), payload, ..Self::default() }
    }

    /// Notes that `bytes` bytes of payload have arrived.
    pub fn deliver(&mut self, now: Instant, bytes: u64) {
        let before = self.arrived;
        self.arrived += bytes;
        for (at, percent) in self.steady.iter_mut().zip(STEADY) {
            let mark = self.payload * percent / 100;
            if before < mark && self.arrived >= mark {
                *at = Duration(now.0);
            }
        }
    }

    /// The value of `share_percent` for the steady part of the run, in which the windows have their full
    /// size.
    pub fn steady_percent(&self) -> f64 {
        let [begin, end] = self.steady;
        let share = STEADY[1] - STEADY[0];
        self.ideal.0 as f64 * share as f64 / end.0.saturating_sub(begin.0).max(1) as f64
    }

    /// The payload in Mb/s of virtual time.
    pub fn goodput(&self) -> u64 {
        self.bytes * 8000 / self.delivered_at.0.max(1)
    }

    /// The payload on the busiest link, as a share of what the link could carry until the last byte arrived.
    pub fn share_percent(&self) -> f64 {
        self.ideal.0 as f64 * 100.0 / self.delivered_at.0.max(1) as f64
    }

    /// The number of numbered packets for each standalone acknowledgement.
    pub fn packets_per_ack(&self) -> f64 {
        self.counters.data_packets_received as f64 / self.counters.acks_standalone.max(1) as f64
    }

    /// The number of events in a second of a processor of this machine.
    pub fn events_per_second(&self) -> f64 {
        self.events as f64 * 1e9 / self.processor.0.max(1) as f64
    }

    /// Adds the results of a conversation.
    pub fn take(&mut self, conversation: &mut Conversation) {
        self.bytes += conversation.bytes;
        self.delivered_at = self.delivered_at.max(Duration(conversation.delivered_at.0));
        let times = std::mem::take(&mut conversation.times);
        self.messages.0.extend(times.messages);
        self.transfers.0.extend(times.transfers);
    }

    /// Adds one flow's counters.
    pub fn add(&mut self, flow: &Counters) {
        self.counters.add(flow);
    }

    /// The report as JSON. Times are nanoseconds.
    pub fn json(&self) -> Value {
        let (sum, packets, why) = (&self.counters, &self.packets, &self.resends);
        json!({
            "ranks": self.ranks,
            "flows": self.flows,
            "elapsed_ns": self.elapsed.0,
            "delivered_ns": self.delivered_at.0,
            "ideal_ns": self.ideal.0,
            "payload_bytes": self.bytes,
            "goodput_mbps": self.goodput(),
            "share_percent": self.share_percent(),
            "steady_percent": self.steady_percent(),
            "messages": self.messages.json(),
            "transfers": self.transfers.json(),
            "round_trips": self.round_trips.json(),
            "packets": {
                "sent": packets.sent, "sent_bytes": packets.sent_bytes, "numbered": sum.data_packets_sent,
                "duplicates": sum.duplicates, "reordered": sum.reordered, "probes": sum.probes,
                "window_cuts": sum.window_cuts,
            },
            "acks": {
                "standalone": sum.acks_standalone, "piggybacked": sum.acks_piggybacked,
                "packets_per_ack": self.packets_per_ack(),
            },
            "resends": {
                "by_gap": sum.resent_by_gap, "by_probe": sum.resent_by_probe, "lost": why.lost,
                "damaged": why.damaged, "queue": why.queue, "socket": why.socket, "cut": why.cut,
                "spurious_late": why.late, "spurious_arrived": why.arrived,
            },
            "refused": {
                "forged": sum.forged, "malformed": sum.malformed, "out_of_window": sum.out_of_window,
                "acknowledged_unsent": sum.acknowledged_unsent, "strangers": self.strangers,
            },
            "network": {
                "lost": packets.lost, "dropped_by_switch": packets.dropped_by_switch,
                "dropped_by_socket": packets.dropped_by_socket, "dropped_by_cut": packets.dropped_by_cut,
                "duplicated": packets.duplicated, "delayed": packets.delayed, "corrupted": packets.corrupted,
                "forged": packets.forged, "replayed": packets.replayed, "marked": packets.marked,
            },
            "most": {
                "queue_bytes": self.queue_bytes_max, "host_bytes": self.host_bytes_max,
                "flow_bytes": self.flow_bytes_max, "packets_alive": self.packets_alive_max,
            },
            "events": self.events,
        })
    }
}

/// The time that the busiest link needs for the payload of a plan alone: without headers, latency and pauses.
fn ideal(plan: &Plan) -> Duration {
    let ranks = plan.ranks as usize;
    let per_leaf = plan.topology.ranks_per_leaf(plan.ranks).max(1);
    let (mut sent, mut received) = (vec![0; ranks], vec![0; ranks]);
    let leaves = ranks.div_ceil(per_leaf as usize);
    let (mut up, mut down) = (vec![0; leaves], vec![0; leaves]);
    for traffic in &plan.workload {
        let bytes = traffic.payload_bytes();
        sent[traffic.from as usize] += bytes;
        received[traffic.to as usize] += bytes;
        let (here, there) = (traffic.from / per_leaf, traffic.to / per_leaf);
        if here != there {
            up[here as usize] += bytes;
            down[there as usize] += bytes;
        }
    }
    let link = plan.topology.link();
    let most = |bytes: &[u64]| bytes.iter().copied().max().unwrap_or(0);
    let rate_up = link.bucket.map_or(link.rate, |bucket| bucket.rate.min(link.rate));
    let mut ns = (most(&sent) * 8000 / rate_up).max(most(&received) * 8000 / link.rate);
    if let Topology::LeafSpine { trunk, spines, .. } = plan.topology {
        ns = ns.max(most(&up).max(most(&down)) * 8000 / (trunk.rate * u64::from(spines)));
    }
    Duration(ns)
}

/// Writes the counts that are not zero in one line.
fn line(f: &mut fmt::Formatter<'_>, name: &str, counts: &[(u64, &str)]) -> fmt::Result {
    let some: Vec<_> = counts.iter().filter(|(count, _)| *count > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if some.is_empty() { Ok(()) } else { writeln!(f, "  {name:<10} {}", some.join(", ")) }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sum, packets, why) = (&self.counters, &self.packets, &self.resends);
        writeln!(
            f,
            "  delivered  {} messages, {} bytes in {} us: {} Mb/s, {:.1} % of the busiest link",
            sum.messages_received,
            self.bytes,
            self.delivered_at.as_micros(),
            self.goodput(),
            self.share_percent()
        )?;
        for (name, spans) in
            [("messages", &self.messages), ("transfers", &self.transfers), ("round trip", &self.round_trips)]
        {
            if spans.count() > 0 {
                let [p50, p99] = [50, 99].map(|percent| spans.percentile(percent).0 as f64 / 1000.0);
                writeln!(f, "  {name:<10} {} took {p50:.1} us median, {p99:.1} us in 99 of 100", spans.count())?;
            }
        }
        writeln!(
            f,
            "  packets    {} numbered, {} resent by gap, {} by probe, {} probes, {} duplicates, {} reordered",
            sum.data_packets_sent, sum.resent_by_gap, sum.resent_by_probe, sum.probes, sum.duplicates, sum.reordered
        )?;
        let causes = [
            (why.lost, "lost"),
            (why.damaged, "damaged"),
            (why.queue, "dropped by switches"),
            (why.socket, "dropped by sockets"),
            (why.cut, "cut off"),
            (why.late, "for nothing: still on its way"),
            (why.arrived, "for nothing: had arrived"),
        ];
        line(f, "resends", &causes)?;
        writeln!(
            f,
            "  acks       {} standalone ({:.1} packets each), {} piggybacked; window cut {} times",
            sum.acks_standalone,
            self.packets_per_ack(),
            sum.acks_piggybacked,
            sum.window_cuts
        )?;
        let refused = [
            (sum.forged, "forged"),
            (sum.malformed, "malformed"),
            (sum.out_of_window, "outside the window"),
            (sum.acknowledged_unsent, "for what was never sent"),
            (self.strangers, "of strangers"),
        ];
        line(f, "refused", &refused)?;
        let network = [
            (packets.sent, "sent"),
            (packets.lost, "lost on the way"),
            (packets.dropped_by_switch, "dropped by switches"),
            (packets.dropped_by_socket, "dropped by sockets"),
            (packets.dropped_by_cut, "cut off"),
            (packets.marked, "marked"),
            (packets.duplicated, "repeated"),
            (packets.delayed, "delayed"),
            (packets.corrupted, "damaged"),
            (packets.forged, "forged"),
            (packets.replayed, "replayed"),
        ];
        line(f, "network", &network)?;
        write!(
            f,
            "  most       {} bytes at a switch's port, {} in a host, {} in a flow; {} packets under way",
            self.queue_bytes_max, self.host_bytes_max, self.flow_bytes_max, self.packets_alive_max
        )
    }
}
