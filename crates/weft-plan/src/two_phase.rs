//! The plan of a collective access to a file (MPI-5.0 §14.4.4): two phases, where data is exchanged between
//! the processes so that few of them, the aggregators, move large runs between memory and file; or none.
//!
//! All processes of the file have the same facts, and so come to the same plan without a word. Each
//! aggregator has one range of the file, its domain, and goes through it in windows. In round `r` a process
//! sends each aggregator the part of its data that lies in window `r` of the aggregator's domain (del
//! Rosario, Bordawekar, Choudhary 1993; Thakur, Gropp, Lusk 1999).

pub mod steps;
#[cfg(test)]
mod tests;
pub mod window;

use alloc::vec::Vec;
use core::ops::Range;

/// The part of one process in a collective access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// The span of the file in which its data lies.
    pub start: u64,
    /// The end of the span, exclusive.
    pub end: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// The number of runs of the file that hold the data.
    pub runs: u64,
    /// The data is in the order of the file, so that a range of the file holds one range of the data.
    pub is_ordered: bool,
    /// The number of the process's node: processes with the same number share a machine.
    pub node: u32,
}

impl Part {
    /// The part of a process that moves nothing.
    pub const NOTHING: Self = Self { start: 0, end: 0, bytes: 0, runs: 0, is_ordered: false, node: 0 };
}

/// The costs and wishes that decide. The defaults are those of a model; hints of the program change them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Whether there may be two phases, must be two, or must not.
    pub wish: Wish,
    /// The time that each run of the file costs, nanoseconds: a system call, and a message to a server where
    /// the file system has one.
    pub run_ns: u64,
    /// Bytes that the exchange moves in a nanosecond, in thousandths: all copies of both sides.
    pub exchanged_per_us: u64,
    /// The fixed time of the exchange, nanoseconds.
    pub exchange_ns: u64,
    /// The most aggregators of one node.
    pub aggregators_of_node: u32,
    /// The most aggregators at all.
    pub aggregators_max: u32,
    /// Bytes of a window, at least one stripe.
    pub window: u64,
    /// Domains begin at multiples of this many bytes, except for the first one; at least 1.
    pub stripe: u64,
}

/// The program's wish (`romio_cb_write`, `romio_cb_read`, `collective_buffering`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wish {
    /// The costs decide.
    #[default]
    Automatic,
    /// Two phases, where that is possible.
    Always,
    /// Each process accesses the file by itself.
    Never,
}

/// An aggregator and its range of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// The rank of the aggregator.
    pub rank: u32,
    /// Its range of the file, not empty.
    pub range: Range<u64>,
}

/// A plan of two phases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The aggregators, in the order of the file.
    pub domains: Vec<Domain>,
    /// Bytes of a window.
    pub window: u64,
    /// The number of rounds, at least 1.
    pub rounds: u64,
}

impl Plan {
    /// The window of a domain in a round: a range of the file, empty when the domain has fewer rounds.
    pub fn window_of(&self, domain: &Domain, round: u64) -> Range<u64> {
        let Range { start, end } = domain.range;
        let begin = start.saturating_add(round.saturating_mul(self.window)).min(end);
        begin..begin.saturating_add(self.window).min(end)
    }
}

/// Decides between two phases (`Some`) and accesses of each process by itself (`None`).
pub fn plan(parts: &[Part], policy: &Policy) -> Option<Plan> {
    let with_data = || parts.iter().filter(|part| part.bytes > 0);
    if policy.wish == Wish::Never || with_data().any(|part| !part.is_ordered) {
        return None;
    }
    let start = with_data().map(|part| part.start).min()?;
    let end = with_data().map(|part| part.end).max()?;
    if policy.wish == Wish::Automatic && !pays(parts, policy) {
        return None;
    }
    let ranks = aggregators(parts, policy);
    let stripe = policy.stripe.max(1);
    let first_stripe = start - start % stripe;
    let share = (end - first_stripe).div_ceil(ranks.len() as u64).max(1).next_multiple_of(stripe);
    let mut domains = Vec::with_capacity(ranks.len());
    let mut at = start;
    for rank in ranks {
        // The first domain may begin within a stripe; all others begin with one.
        let next = (at - at % stripe).saturating_add(share).min(end);
        if at < next {
            domains.push(Domain { rank, range: at..next });
        }
        at = next;
    }
    let window = policy.window.max(1).next_multiple_of(stripe);
    let longest = domains.iter().map(|domain| domain.range.end - domain.range.start).max().unwrap_or(0);
    Some(Plan { domains, window, rounds: longest.div_ceil(window).max(1) })
}

/// Returns whether the exchange costs less than the runs that it saves.
fn pays(parts: &[Part], policy: &Policy) -> bool {
    let with_data = || parts.iter().filter(|part| part.bytes > 0);
    if with_data().count() < 2 {
        return false;
    }
    // After the exchange, the runs of the processes have become runs between holes that no process fills.
    let is_interleaved = {
        let mut spans: Vec<(u64, u64)> = with_data().map(|part| (part.start, part.end)).collect();
        spans.sort_unstable();
        spans.windows(2).any(|pair| pair[1].0 < pair[0].1)
    };
    if !is_interleaved {
        return false;
    }
    let runs_ns = with_data().map(|part| part.runs.saturating_mul(policy.run_ns)).max().unwrap_or(0);
    let most = with_data().map(|part| part.bytes).max().unwrap_or(0);
    let exchange_ns = policy.exchange_ns.saturating_add(most.saturating_mul(1000) / policy.exchanged_per_us.max(1));
    runs_ns > exchange_ns
}

/// The ranks that aggregate, in ascending order: as many of each node as the policy allows, spread evenly
/// over its processes.
fn aggregators(parts: &[Part], policy: &Policy) -> Vec<u32> {
    let mut nodes: Vec<(u32, Vec<u32>)> = Vec::new();
    for (rank, part) in parts.iter().enumerate() {
        match nodes.iter_mut().find(|(node, _)| *node == part.node) {
            Some((_, ranks)) => ranks.push(rank as u32),
            None => nodes.push((part.node, Vec::from([rank as u32]))),
        }
    }
    let most = policy.aggregators_max.max(1) as usize;
    nodes.truncate(most);
    let of_node = (policy.aggregators_of_node.max(1) as usize).min(most / nodes.len().max(1)).max(1);
    let mut chosen: Vec<u32> = Vec::new();
    for (_, ranks) in &nodes {
        let count = of_node.min(ranks.len());
        chosen.extend((0..count).map(|index| ranks[index * ranks.len() / count]));
    }
    chosen.sort_unstable();
    chosen
}
