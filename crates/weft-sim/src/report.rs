//! What a run came to.

use crate::network::Fates;
use std::fmt;
use weft_core::flow::Counters;
use weft_core::time::Duration;

/// The sums over all flows, and what the network did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Virtual time until the last flow came to rest.
    pub elapsed: Duration,
    /// Virtual time until the last payload byte arrived.
    pub delivered_at: Duration,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Summed over all flows.
    pub counters: Counters,
    /// What the network did.
    pub fates: Fates,
    /// Packets that found a full socket.
    pub dropped_by_socket: u64,
    /// Most bytes one flow held.
    pub flow_bytes_max: usize,
    /// Times from a message's submission to its answer, where the traffic has one.
    pub round_trips: Vec<Duration>,
}

impl Report {
    /// Payload in Mb/s of virtual time.
    pub fn goodput(&self) -> u64 {
        self.bytes * 8000 / self.delivered_at.0.max(1)
    }

    /// The round trip that `percent` of all do not exceed.
    pub fn round_trip_percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.round_trips.clone();
        sorted.sort_unstable();
        sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    /// Adds one flow's counters.
    pub fn add(&mut self, flow: &Counters) {
        let sum = &mut self.counters;
        sum.packets_sent += flow.packets_sent;
        sum.packets_received += flow.packets_received;
        sum.data_packets_sent += flow.data_packets_sent;
        sum.data_packets_received += flow.data_packets_received;
        sum.messages_sent += flow.messages_sent;
        sum.messages_received += flow.messages_received;
        sum.bytes_sent += flow.bytes_sent;
        sum.bytes_received += flow.bytes_received;
        sum.lost_by_gap += flow.lost_by_gap;
        sum.lost_by_probe += flow.lost_by_probe;
        sum.resent_by_gap += flow.resent_by_gap;
        sum.resent_by_probe += flow.resent_by_probe;
        sum.probes += flow.probes;
        sum.probes_received += flow.probes_received;
        sum.duplicates += flow.duplicates;
        sum.reordered += flow.reordered;
        sum.out_of_window += flow.out_of_window;
        sum.forged += flow.forged;
        sum.malformed += flow.malformed;
        sum.acknowledged_unsent += flow.acknowledged_unsent;
        sum.acks_standalone += flow.acks_standalone;
        sum.acks_piggybacked += flow.acks_piggybacked;
        sum.window_cuts += flow.window_cuts;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sum, fates) = (&self.counters, &self.fates);
        writeln!(
            f,
            "  delivered  {} messages, {} bytes in {} us, {} Mb/s",
            sum.messages_received,
            self.bytes,
            self.delivered_at.as_micros(),
            self.goodput()
        )?;
        writeln!(
            f,
            "  packets    {} numbered, {} resent by gap, {} by probe, {} probes, {} duplicates, {} reordered",
            sum.data_packets_sent, sum.resent_by_gap, sum.resent_by_probe, sum.probes, sum.duplicates, sum.reordered
        )?;
        writeln!(
            f,
            "  acks       {} standalone, {} piggybacked; window cut {} times",
            sum.acks_standalone, sum.acks_piggybacked, sum.window_cuts
        )?;
        writeln!(
            f,
            "  refused    {} forged, {} malformed, {} outside the window, {} for what was never sent",
            sum.forged, sum.malformed, sum.out_of_window, sum.acknowledged_unsent
        )?;
        writeln!(
            f,
            "  network    {} sent, {} lost, {} dropped by the switch, {} by a socket, {} repeated, {} delayed, {} damaged, {} forged, {} replayed",
            fates.sent,
            fates.lost,
            fates.dropped_by_switch,
            self.dropped_by_socket,
            fates.duplicated,
            fates.delayed,
            fates.corrupted,
            fates.forged,
            fates.replayed
        )?;
        if !self.round_trips.is_empty() {
            writeln!(
                f,
                "  round trip {} ns median, {} ns in 99 of 100",
                self.round_trip_percentile(50).0,
                self.round_trip_percentile(99).0
            )?;
        }
        write!(f, "  memory     at most {} bytes in one flow", self.flow_bytes_max)
    }
}
