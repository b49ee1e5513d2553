//! The time of a broadcast, in formulas: those of Liu, Mamidala and Panda ("Fast and Scalable MPI-Level
//! Broadcast using InfiniBand's Hardware Multicast Support", IPDPS 2004), for a network that is described by
//! a few costs.
//!
//! `simulation` runs the state machines on the same network.
//!
//! With N ranks, p packets and M broadcasts for each acknowledgement:
//!
//! ```text
//! step(b)      = send + b copy + way + b wire + receive + b copy     one message between two ranks
//! tree(N, b)   = ceil(log2 N) step(b)                    binomial tree: steps to the last rank
//! multicast(b) = step(b / p) + (p - 1) slowest(b / p)    packet after packet; nothing grows with N
//! gathers      = N - 1 (at the root), or N / K at each of K co-roots and K at the root
//! known(N, b)  = multicast(b) + answer + way + gathers x acknowledgement
//!                the wait of `basic`; with co-roots two such waits, one after the other
//! period(N, b) = max(p slowest(b / p), gathers x acknowledgement / M)
//!                back to back: the time of the busiest part
//! ```
//!
//! # The parameters of the paper's testbed
//!
//! The source at hand gives the results of the paper's model for 1024 ranks: 4 B under 20 µs, 1836 B under 40
//! µs, up to 4.86 times better than the tree. It also describes the testbed: 2.4 GHz Xeon, 4X InfiniBand,
//! packets of 2 KB. It does not give the model's parameters. So [`Testbed::PAPER`] is concluded:
//!
//! - The tree takes 4.86 x 20 = 97 µs in 10 steps, so a step of few bytes takes 9.7 µs.
//! - The tree takes 4.86 x 40 = 194 µs for 1836 B, so a byte takes 5.3 ns: 1 ns on the link of 8 Gbit/s and
//!   the rest for a copy at either end.
//! - A multicast packet is taken to cost what any other packet costs.
//!
//! Other parameters would change the result as follows. Every figure of `multicast` and `tree` is
//! proportional to the step, and their ratio is ceil(log2 N) whatever the step is. Only the last two lines
//! depend on the price of an acknowledgement.

use super::Scheme;
use super::wire::HEADER_SIZE;

/// Hosts and their network, described by costs: times in nanoseconds, and picoseconds for each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Testbed {
    /// Processor time that a packet or message costs its sender.
    pub send_ns: u64,
    /// Processor time that a packet or message costs its receiver.
    pub receive_ns: u64,
    /// Processor time of a byte of a packet or message, at either end.
    pub copy_ps: u64,
    /// Time from one host to another.
    pub way_ns: u64,
    /// Time of a byte on a link.
    pub wire_ps: u64,
    /// Processor time that an acknowledgement costs its sender, and its receiver.
    pub acknowledgement_ns: u64,
    /// Bytes of the longest packet.
    pub packet_bytes: usize,
}

impl Testbed {
    /// Eight nodes of 2.4 GHz Xeon with 4X InfiniBand, 2003: see above.
    pub const PAPER: Self = Self {
        send_ns: 4_000,
        receive_ns: 4_000,
        copy_ps: 2_150,
        way_ns: 1_700,
        wire_ps: 1_000,
        acknowledgement_ns: 600,
        packet_bytes: 2048,
    };

    /// 10 Gbit/s Ethernet and UDP sockets, as `Network::LEAF_SPINE` has them: 18 µs for a message of few
    /// bytes.
    pub const ETHERNET: Self = Self {
        send_ns: 6_000,
        receive_ns: 6_000,
        copy_ps: 50,
        way_ns: 6_000,
        wire_ps: 800,
        acknowledgement_ns: 2_000,
        packet_bytes: 1472,
    };

    /// Processor time of a packet at either end, and its time on the link.
    pub(super) fn costs(&self, bytes: u64) -> [u64; 3] {
        let copy = bytes * self.copy_ps / 1000;
        [self.send_ns + copy, bytes * self.wire_ps / 1000, self.receive_ns + copy]
    }

    /// The time of a message of `bytes` from one rank to another.
    pub fn step_ns(&self, bytes: u64) -> u64 {
        self.costs(bytes).iter().sum::<u64>() + self.way_ns
    }

    /// Bytes that a packet has room for, and packets of a message.
    fn packets(&self, bytes: u64) -> (u64, u64) {
        let room = (self.packet_bytes - HEADER_SIZE) as u64;
        (bytes.min(room), bytes.div_ceil(room).max(1))
    }

    /// The time by a binomial tree of messages.
    pub fn tree_ns(&self, ranks: u32, bytes: u64) -> u64 {
        u64::from(ranks.max(1).next_power_of_two().ilog2()) * self.step_ns(bytes)
    }

    /// The time from one broadcast by a tree to the next: the root sends one message a level.
    pub fn tree_period_ns(&self, ranks: u32, bytes: u64) -> u64 {
        let [send, wire, _] = self.costs(bytes);
        u64::from(ranks.max(1).next_power_of_two().ilog2()) * send.max(wire)
    }

    /// The time by multicast, until all have the message.
    pub fn multicast_ns(&self, bytes: u64) -> u64 {
        let (each, packets) = self.packets(bytes);
        self.step_ns(each) + (packets - 1) * self.slowest_ns(each)
    }

    fn slowest_ns(&self, bytes: u64) -> u64 {
        self.costs(bytes).into_iter().max().unwrap_or(0)
    }

    /// Members that acknowledge to the root, and members that acknowledge to the busiest co-root.
    fn gathers(ranks: u32, scheme: Scheme) -> (u64, u64) {
        let others = u64::from(ranks.saturating_sub(1));
        match u64::from(scheme.co_roots).min(others) {
            0 => (others, 0),
            co_roots => (co_roots, (others - co_roots).div_ceil(co_roots)),
        }
    }

    /// The time until the root knows that all have the message.
    pub fn known_ns(&self, ranks: u32, bytes: u64, scheme: Scheme) -> u64 {
        let (root, co_root) = Self::gathers(ranks, scheme);
        let level = |gathered: u64| match gathered {
            0 => 0,
            gathered => self.acknowledgement_ns + self.way_ns + gathered * self.acknowledgement_ns,
        };
        self.multicast_ns(bytes) + level(co_root) + level(root)
    }

    /// The time from one broadcast to the next, back to back.
    pub fn period_ns(&self, ranks: u32, bytes: u64, scheme: Scheme) -> u64 {
        if scheme.blocking {
            return self.known_ns(ranks, bytes, scheme);
        }
        let (root, co_root) = Self::gathers(ranks, scheme);
        let (each, packets) = self.packets(bytes);
        let [send, wire, receive] = self.costs(each);
        // A member gathers acknowledgements beside its other work.
        let gathered = |count: u64| count * self.acknowledgement_ns / u64::from(scheme.aggregate);
        let busiest = [packets * send + gathered(root), packets * wire, packets * receive + gathered(co_root)];
        busiest.into_iter().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_gives_the_results_of_the_paper() {
        let paper = Testbed::PAPER;
        for (bytes, bar) in [(4, 20_000), (1836, 40_000)] {
            assert!(paper.multicast_ns(bytes) < bar, "{bytes} B: {} ns", paper.multicast_ns(bytes));
            // The figures from which the parameters were concluded.
            let tree = paper.tree_ns(1024, bytes);
            assert!(tree.abs_diff(bar * 486 / 100) < tree / 50, "{bytes} B by tree: {tree} ns");
            assert!(tree * 100 >= 486 * paper.multicast_ns(bytes));
        }
    }

    #[test]
    fn co_roots_and_aggregation_take_the_acknowledgements_from_the_root() {
        let period = |scheme| Testbed::PAPER.period_ns(1024, 4, scheme);
        let coroot = Scheme { co_roots: 32, ..Scheme::WINDOW };
        let both = Scheme { aggregate: 10, ..coroot };
        assert!(period(Scheme::BASIC) > period(Scheme::WINDOW));
        assert!(period(Scheme::WINDOW) > 10 * period(coroot) && period(coroot) > 2 * period(both));
        // Large messages are as slow as the busiest part, whatever the scheme.
        let megabyte = Testbed::PAPER.multicast_ns(1 << 20);
        assert!(megabyte.abs_diff(Testbed::PAPER.period_ns(1024, 1 << 20, both)) < megabyte / 50);
    }
}
