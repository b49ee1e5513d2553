//! The conditions that every run must meet at its end, and the further demands of a plan.
//!
//! While a run is played, other modules check it:
//!
//! - `ledger` checks the deliveries: each message arrives exactly once, in order and whole; each byte of bulk
//!   data arrives once at its place; nothing is acknowledged before it arrives.
//! - `process` checks the memory of each flow.
//! - `witness` knows of each retransmission whether its packet was lost.
//! - `world` ends a run that does not end by itself.

use crate::nuisance::Nuisance;
use crate::plan::{Demands, Plan};
use crate::process::Peer;
use crate::report::Report;
use crate::violation::Violation;
use weft_core::flow::IDLE_BYTES_MAX;

/// Spurious retransmissions, in a thousand numbered packets, where packets overtake each other or arrive
/// twice. A flow takes a late packet for lost until it has learnt how late packets are on this network, and
/// now and then afterwards.
const SPURIOUS_PERMILLE: u64 = 250;
/// Spurious retransmissions of each flow before it has learnt anything: learning takes a round trip, in which
/// some part of a window leaves.
const SPURIOUS_UNLEARNT: u64 = 64;
/// The divisor of a large window: the quotient is the part that leaves in that round trip.
const SPURIOUS_WINDOW_PART: u64 = 8;

/// Checks that a flow has nothing to do, expects nothing, and keeps little memory.
pub(crate) fn rest(own: u32, peer: &Peer) -> Result<(), Violation> {
    let pair = format!("{own} with {}", peer.other);
    if !peer.flow.is_idle() || peer.flow.next_timeout().is_some() {
        return Err(Violation(format!("{pair} does not come to rest")));
    }
    let held = peer.flow.memory_bytes();
    if held > IDLE_BYTES_MAX + peer.kept_bytes() {
        return Err(Violation(format!("{pair} is idle and holds {held} bytes")));
    }
    Ok(())
}

/// Returns whether packets can arrive twice, or later than packets that left after them.
pub fn misleads(plan: &Plan) -> bool {
    plan.topology.spreads_packets()
        || plan.nuisances.iter().any(|nuisance| match nuisance {
            Nuisance::Duplication { .. } | Nuisance::Reordering { .. } | Nuisance::Replay { .. } => true,
            // The process looks at one socket now, and at the other when it runs again.
            Nuisance::Overload { .. } => plan.host.frames || !plan.rails.is_empty(),
            // A detour may be shorter than the queue on the way that was cut.
            Nuisance::Cut { .. } | Nuisance::Flapping { .. } => true,
            // When a packet leaves in pieces, some of them may arrive.
            Nuisance::Mtu { .. } => true,
            _ => false,
        })
}

/// Spurious retransmissions that the nuisances of a plan excuse.
fn spurious_allowed(plan: &Plan, report: &Report) -> u64 {
    let numbered = report.counters.data_packets_sent;
    match plan.demands.spurious_permille_max {
        Some(permille) => numbered * permille / 1000,
        None if misleads(plan) => {
            let unlearnt = SPURIOUS_UNLEARNT.max(u64::from(plan.settings.window_packets) / SPURIOUS_WINDOW_PART);
            numbered * SPURIOUS_PERMILLE / 1000 + plan.workload.len() as u64 * unlearnt
        }
        None => 0,
    }
}

/// Checks the conditions of every run, and the demands of the plan.
pub(crate) fn demands(plan: &Plan, report: &Report) -> Result<(), Violation> {
    let Demands { packets_per_ack, wire_percent_max, share_percent_min, .. } = plan.demands;
    let Demands { steady_percent_min, transfer_percent_max, .. } = plan.demands;
    let sum = &report.counters;
    let mut broken = Vec::new();
    let mut demand = |holds: bool, what: String| {
        if !holds {
            broken.push(what);
        }
    };
    let (resent, spurious) = (sum.resent(), report.resends.spurious());
    demand(
        resent == report.resends.total(),
        format!("flows count {resent} resends, the network saw {}", report.resends.total()),
    );
    let allowed = spurious_allowed(plan, report);
    demand(
        spurious <= allowed,
        format!("{spurious} of {} packets sent again for nothing, {allowed} allowed", sum.data_packets_sent),
    );
    let answered = sum.data_packets_received + sum.duplicates + sum.probes_received + sum.malformed;
    let by_cause = sum.acks_by_cause();
    demand(by_cause == sum.acks_standalone, format!("{by_cause} acks have a cause of {}", sum.acks_standalone));
    demand(sum.acks_standalone <= answered, format!("{} acks for {answered} packets", sum.acks_standalone));
    if plan.demands.no_lane_given_up {
        demand(report.given_up == 0, format!("{} times a rail or carrier was given up", report.given_up));
    }
    demand(sum.lost_by_denial == 0, format!("{} packets were acknowledged and are missing", sum.lost_by_denial));
    if plan.demands.no_resend {
        demand(sum.probes == 0, format!("{} probes", sum.probes));
    }
    if plan.demands.no_resend || plan.demands.no_resend_of_data {
        demand(resent == 0, format!("{resent} resends"));
    }
    if let Some(packets) = packets_per_ack {
        let ranges: u64 = plan.workload.iter().map(|traffic| traffic.bulk.len() as u64).sum();
        let allowed = sum.data_packets_received / packets + ranges + report.flows;
        demand(sum.acks_standalone <= allowed, format!("{} acks, {allowed} allowed", sum.acks_standalone));
    }
    if plan.demands.no_standalone_ack {
        demand(sum.acks_standalone <= report.flows, format!("{} acks of their own", sum.acks_standalone));
    }
    if let Some(percent) = wire_percent_max {
        let (wire, payload) = (report.packets.sent_bytes, report.bytes);
        demand(wire * 100 <= payload * percent, format!("{wire} bytes on the wire for {payload}"));
    }
    if let Some(percent) = share_percent_min {
        let share = report.share_percent();
        demand(share >= percent as f64, format!("{share:.1} % of the busiest link"));
    }
    if let Some(percent) = steady_percent_min {
        let share = report.steady_percent();
        demand(share >= percent as f64, format!("{share:.1} % of the busiest link in the long run"));
    }
    if let Some(percent) = transfer_percent_max {
        let (slow, ideal) = (report.transfers.percentile(99).0, report.ideal.0);
        demand(slow * 100 <= ideal * percent, format!("a transfer takes {slow} ns, ideally {ideal}"));
    }
    if broken.is_empty() { Ok(()) } else { Err(Violation(broken.join("; "))) }
}
