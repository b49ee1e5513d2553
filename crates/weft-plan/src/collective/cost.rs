//! The time of a collective on a network that is simple to describe: the steps of all its ranks, in virtual
//! time.
//!
//! The model compares algorithms, also for sizes of jobs for which no machine is at hand. It does not predict
//! the times of any one machine.
//!
//! Hosts hang on leaf switches, and the leaf switches on spines. The costs of a message:
//!
//! - It takes processor time at its sender and at its receiver.
//! - It waits in turn for the links on its way.
//! - Its bytes take the rate of the slowest of these links.
//!
//! A rank does one thing at a time. A large message leaves when its receive is posted and the sender has
//! heard of it.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use weft_ordered::Map;

use super::choice::{Choices, Facts, Layout, Operation};
use super::schedule::{Kind, Slice, Step};
use super::{Allgather, Allreduce, Barrier, Bcast, Chosen, ElementShape, Frontier, Gather, Items, Reduce};
use super::{ReduceScatterBlock, Schedule};

/// Bytes of headers, of the gap between frames and of the checksum, for each packet on a link.
const PACKET_OVERHEAD: u64 = 66;
/// Bytes of a message in one packet.
const PACKET_BYTES: u64 = 1440;
/// Messages of more bytes wait for their receive.
const EAGER_BYTES: u64 = 64 << 10;

/// A network, and its hosts. Times in nanoseconds, rates in picoseconds for each byte.
#[derive(Clone, Debug)]
pub struct Network {
    /// Processor time that a message costs its sender.
    pub send_ns: u64,
    /// Processor time that a message costs its receiver.
    pub receive_ns: u64,
    /// Time over one link and through the device at its end.
    pub hop_ns: u64,
    /// Time of a byte on a link.
    pub link_ps: u64,
    /// Time of a message between ranks of a host, beside the processor time of both.
    pub node_ns: u64,
    /// Time of a byte of a message between ranks of a host.
    pub node_ps: u64,
    /// Time of a byte that is copied, or reduced.
    pub local_ps: u64,
    /// Hosts on a leaf switch.
    pub hosts_per_leaf: u32,
    /// Spines, to each of which every leaf has one link; a pair of hosts uses one of them.
    pub spines: u32,
    /// Additional time of a link between a leaf and a spine, one way: long cables between places.
    pub trunk_ns: u64,
}

impl Network {
    /// 10 Gbit/s Ethernet, 32 hosts on a leaf, 16 spines: twice as many bytes can leave the hosts of a leaf
    /// as can leave the leaf. A message of few bytes takes 18 µs to another host of the leaf and 24 µs to
    /// another leaf.
    pub const LEAF_SPINE: Self = Self {
        send_ns: 6_000,
        receive_ns: 6_000,
        hop_ns: 3_000,
        link_ps: 800,
        node_ns: 300,
        node_ps: 100,
        local_ps: 50,
        hosts_per_leaf: 32,
        spines: 16,
        trunk_ns: 0,
    };

    /// Two clusters of `hosts` hosts each, each with a switch, joined by one link that takes `link_ns` one
    /// way.
    pub const fn clusters(hosts: u32, link_ns: u64) -> Self {
        Self { hosts_per_leaf: hosts, spines: 1, trunk_ns: link_ns / 2, ..Self::LEAF_SPINE }
    }
}

/// An operation on a number of bytes, as the table of choices counts them.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The operation.
    pub operation: Operation,
    /// Processes.
    pub ranks: u32,
    /// Bytes as the table counts them.
    pub bytes: u64,
}

impl Case {
    /// Plans a rank's part in the operation, as chosen. Items have one byte each.
    pub fn schedule(&self, chosen: &Chosen<'_>, rank: u32) -> Schedule {
        let Self { operation, ranks: size, bytes } = *self;
        let items = Items { count: bytes, shape: ElementShape::plain(1) };
        let share = Items { count: bytes / u64::from(size), ..items };
        let (root, commutative, in_place) = (0, true, false);
        let gather = Gather { rank, size, root, send: items, receive: items, in_place };
        let all = Allreduce { rank, size, items, commutative, in_place };
        match operation {
            Operation::Barrier => chosen.barrier(&Barrier { rank, size }),
            Operation::Bcast => chosen.bcast(&Bcast { rank, size, root, items }),
            Operation::Gather => chosen.gather(&gather),
            Operation::Scatter => chosen.scatter(&gather),
            Operation::Allgather => chosen.allgather(&Allgather { rank, size, send: share, receive: share, in_place }),
            Operation::Alltoall => chosen.alltoall(&Allgather { rank, size, send: items, receive: items, in_place }),
            Operation::Reduce => chosen.reduce(&Reduce { rank, size, root, items, commutative, in_place }),
            Operation::Allreduce => chosen.allreduce(&all),
            Operation::Scan => chosen.scan(&all),
            Operation::ReduceScatter => {
                chosen.reduce_scatter_block(&ReduceScatterBlock { rank, size, items: share, commutative, in_place })
            }
        }
    }

    /// The nanoseconds from when all ranks begin until the last one is done, by the algorithm that is chosen.
    /// `None`: the schedules have more than `steps_max` steps together.
    ///
    /// # Panics
    /// When ranks wait for each other for ever: a test of the algorithm rules this out.
    pub fn time(&self, network: &Network, choices: &Choices, layout: &Layout, steps_max: usize) -> Option<u64> {
        let chosen = Chosen { choices, layout };
        let (mut schedules, mut steps) = (Vec::new(), 0);
        for rank in 0..self.ranks {
            let schedule = self.schedule(&chosen, rank);
            steps += schedule.len();
            if steps > steps_max {
                return None;
            }
            schedules.push(schedule);
        }
        Some(time(network, &schedules, layout.nodes()))
    }

    /// Messages that leave the first cluster, and messages that leave any other, by the chosen algorithms.
    /// `cluster` gives the cluster of a rank, from 0 on.
    pub fn crossings(&self, choices: &Choices, layout: &Layout, cluster: impl Fn(u32) -> u32) -> [u64; 2] {
        let chosen = Chosen { choices, layout };
        let mut crossings = [0, 0];
        for rank in 0..self.ranks {
            let schedule = self.schedule(&chosen, rank);
            let sends = (0..schedule.len() as u32).filter_map(|step| match *schedule.step(step) {
                Step::Send { to, .. } => Some(to),
                _ => None,
            });
            let from = cluster(rank);
            crossings[usize::from(from != 0)] += sends.filter(|to| cluster(*to) != from).count() as u64;
        }
        crossings
    }

    /// The algorithm that is chosen for the case.
    pub fn algorithm(&self, choices: &Choices, layout: &Layout) -> super::choice::Algorithm {
        let Self { operation, ranks, bytes } = *self;
        choices.choose(operation, &Facts { ranks, bytes, commutative: true, place: *layout.place() }).0
    }
}

/// The nanoseconds until the last of the ranks with these schedules is done. `nodes`: the host of each, by
/// numbers from 0; empty: each has its own.
///
/// # Panics
/// When ranks wait for each other for ever.
pub fn time(network: &Network, schedules: &[Schedule], nodes: &[u32]) -> u64 {
    let host = |rank: usize| nodes.get(rank).copied().unwrap_or(rank as u32);
    let hosts = (0..schedules.len()).map(host).max().map_or(0, |last| last as usize + 1);
    let leaves = hosts.div_ceil(network.hosts_per_leaf.max(1) as usize);
    let mut world = World {
        network,
        schedules,
        ranks: schedules
            .iter()
            .enumerate()
            .map(|(rank, schedule)| Rank { frontier: Frontier::new(schedule), free: 0, host: host(rank) })
            .collect(),
        leaving: vec![0; hosts],
        arriving: vec![0; hosts],
        up: vec![0; leaves * network.spines.max(1) as usize],
        down: vec![0; leaves * network.spines.max(1) as usize],
        sends: Map::new(),
        receives: Map::new(),
        agenda: BinaryHeap::new(),
    };
    (0..schedules.len()).for_each(|rank| world.go_on(rank, 0));
    let mut end = 0;
    while let Some(Reverse((now, what, rank, step))) = world.agenda.pop() {
        let own = &mut world.ranks[rank as usize];
        match what {
            What::Arrives => {
                own.free = own.free.max(now) + network.receive_ns;
                world.agenda.push(Reverse((own.free, What::Ends, rank, step)));
            }
            What::Ends => {
                end = end.max(now);
                own.frontier.complete(&schedules[rank as usize], step);
                world.go_on(rank as usize, now);
            }
        }
    }
    assert!(world.ranks.iter().all(|rank| rank.frontier.is_at_end()), "ranks wait for each other for ever");
    end
}

struct World<'a> {
    network: &'a Network,
    schedules: &'a [Schedule],
    ranks: Vec<Rank>,
    /// The times at which each link is free again: of the hosts, and between leaves and spines, both ways.
    leaving: Vec<u64>,
    arriving: Vec<u64>,
    up: Vec<u64>,
    down: Vec<u64>,
    /// Transfers that have begun at one end only, by sender and receiver.
    sends: Map<(u32, u32), VecDeque<End>>,
    receives: Map<(u32, u32), VecDeque<End>>,
    /// The events to come: time, event, rank, step.
    agenda: BinaryHeap<Reverse<(u64, What, u32, u32)>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The data of a receive is there, and costs the rank time.
    Arrives,
    Ends,
}

struct Rank {
    frontier: Frontier,
    /// The time at which its processor is free again.
    free: u64,
    host: u32,
}

/// An end of a transfer.
#[derive(Clone, Copy)]
struct End {
    step: u32,
    /// The time at which it began; for a small message that has left, the time at which it arrives.
    at: u64,
    bytes: u64,
}

impl World<'_> {
    /// Begins all steps that the rank may begin.
    fn go_on(&mut self, rank: usize, now: u64) {
        while let Some(step) = self.ranks[rank].frontier.take_next() {
            let schedule = &self.schedules[rank];
            let begin = self.ranks[rank].free.max(now);
            match *schedule.step(step) {
                Step::Send { to, slice } => {
                    self.ranks[rank].frontier.start(schedule, step);
                    let at = begin + self.network.send_ns;
                    self.ranks[rank].free = at;
                    self.send((rank as u32, to), End { step, at, bytes: bytes(&slice) });
                }
                // No layout for this network says that the network carries multicast.
                Step::Multicast { .. } => unreachable!("this network has no multicast"),
                Step::Receive { from, slice } => {
                    self.ranks[rank].frontier.start(schedule, step);
                    self.receive((from, rank as u32), End { step, at: begin, bytes: bytes(&slice) });
                }
                Step::Copy { from: slice, .. } | Step::Reduce { input: slice, .. } => {
                    self.ranks[rank].free = begin + bytes(&slice) * self.network.local_ps / 1000;
                    self.agenda.push(Reverse((self.ranks[rank].free, What::Ends, rank as u32, step)));
                }
                Step::Publish { .. }
                | Step::Collect { .. }
                | Step::Combine { .. }
                | Step::Expose { .. }
                | Step::Fetch { .. }
                | Step::Finish { .. } => {
                    unreachable!("hosts of a network share no memory")
                }
                Step::Join => self.agenda.push(Reverse((now, What::Ends, rank as u32, step))),
            }
        }
    }

    fn send(&mut self, pair: (u32, u32), mut end: End) {
        let posted = take(&mut self.receives, pair);
        if end.bytes <= EAGER_BYTES {
            let (left, arrives) = self.travel(pair, end.bytes, end.at);
            self.agenda.push(Reverse((left, What::Ends, pair.0, end.step)));
            end.at = arrives;
            return match posted {
                Some(receive) => self.arrive(pair.1, receive, arrives),
                None => self.sends.entry(pair).or_default().push_back(end),
            };
        }
        match posted {
            Some(receive) => self.meet(pair, end, receive),
            None => self.sends.entry(pair).or_default().push_back(end),
        }
    }

    fn receive(&mut self, pair: (u32, u32), end: End) {
        match take(&mut self.sends, pair) {
            Some(sent) if sent.bytes <= EAGER_BYTES => self.arrive(pair.1, end, sent.at),
            Some(sent) => self.meet(pair, sent, end),
            None => self.receives.entry(pair).or_default().push_back(end),
        }
    }

    /// Plays a large message, which leaves when its sender has heard of the receive.
    fn meet(&mut self, pair: (u32, u32), sent: End, receive: End) {
        let heard = receive.at.max(sent.at + self.latency(pair)) + self.latency(pair);
        let (left, arrives) = self.travel(pair, sent.bytes, heard);
        self.agenda.push(Reverse((left, What::Ends, pair.0, sent.step)));
        self.arrive(pair.1, receive, arrives);
    }

    fn arrive(&mut self, rank: u32, receive: End, at: u64) {
        self.agenda.push(Reverse((at.max(receive.at), What::Arrives, rank, receive.step)));
    }

    /// The time from one rank to another, without any bytes.
    fn latency(&self, (from, to): (u32, u32)) -> u64 {
        let (from, to) = (self.ranks[from as usize].host, self.ranks[to as usize].host);
        match (from == to, self.leaf(from) == self.leaf(to)) {
            (true, _) => self.network.node_ns,
            (_, true) => 2 * self.network.hop_ns,
            _ => 4 * self.network.hop_ns + 2 * self.network.trunk_ns,
        }
    }

    fn leaf(&self, host: u32) -> u32 {
        host / self.network.hosts_per_leaf.max(1)
    }

    /// The times at which a message has left its sender's host and has come to its receiver's.
    fn travel(&mut self, (from, to): (u32, u32), bytes: u64, at: u64) -> (u64, u64) {
        let (from, to) = (self.ranks[from as usize].host, self.ranks[to as usize].host);
        let network = self.network;
        if from == to {
            let end = at + network.node_ns + bytes * network.node_ps / 1000;
            return (end, end);
        }
        let takes = (bytes + PACKET_OVERHEAD * bytes.div_ceil(PACKET_BYTES).max(1)) * network.link_ps / 1000;
        let through = |link: &mut u64, at: u64| {
            let begin = at.max(*link);
            *link = begin + takes;
            begin
        };
        let mut begin = through(&mut self.leaving[from as usize], at);
        let left = begin + takes;
        let (here, there) = (self.leaf(from), self.leaf(to));
        if here != there {
            let spines = network.spines.max(1);
            // The spine is chosen as by a hash of both ends.
            let spine = (from.wrapping_mul(0x9E37_79B1) ^ to.wrapping_mul(0x85EB_CA6B)) >> 16;
            let link = |leaf: u32| (leaf * spines + spine % spines) as usize;
            begin = through(&mut self.up[link(here)], begin + network.hop_ns);
            begin = through(&mut self.down[link(there)], begin + network.hop_ns + network.trunk_ns);
        }
        let trunk_ns = if here == there { 0 } else { network.trunk_ns };
        begin = through(&mut self.arriving[to as usize], begin + network.hop_ns + trunk_ns);
        (left, begin + takes + network.hop_ns)
    }
}

fn take(ends: &mut Map<(u32, u32), VecDeque<End>>, pair: (u32, u32)) -> Option<End> {
    let list = ends.get_mut(&pair)?;
    let end = list.pop_front();
    if list.is_empty() {
        ends.remove(&pair);
    }
    end
}

/// Items have one byte, whatever their kind.
fn bytes(slice: &Slice) -> u64 {
    debug_assert!(!matches!(slice.kind, Kind::SendOf(_) | Kind::ReceiveOf(_)));
    slice.count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::choice::Table;

    fn time_of(name: &str, operation: Operation, ranks: u32, bytes: u64, layout: &Layout) -> u64 {
        let choices = Choices::new(vec![(operation, operation.parse(name).unwrap())], Table::default());
        Case { operation, ranks, bytes }.time(&Network::LEAF_SPINE, &choices, layout, usize::MAX).unwrap()
    }

    #[test]
    fn one_message_takes_what_its_parts_take() {
        let layout = Layout::apart(2);
        let small = time_of("linear", Operation::Bcast, 2, 1, &layout);
        // Processor time at both ends, two hops, one packet on two links, of which the second begins while
        // the first goes on.
        assert_eq!(small, 6_000 + 6_000 + 2 * 3_000 + 67 * 800 / 1000);
        let large = time_of("linear", Operation::Bcast, 2, 1 << 20, &layout);
        let bytes = (1_u64 << 20) + 66 * (1_u64 << 20).div_ceil(1440);
        assert_eq!(large, 6_000 + 6_000 + 3 * 2 * 3_000 + bytes * 800 / 1000);
    }

    #[test]
    fn trees_win_for_little_and_rings_for_much() {
        let layout = Layout::apart(64);
        let time = |name, bytes| time_of(name, Operation::Allreduce, 64, bytes, &layout);
        assert!(time("doubling", 8) < time("ring", 8) / 5);
        assert!(time("ring", 16 << 20) < time("doubling", 16 << 20) / 2);
    }

    #[test]
    fn on_hosts_with_many_ranks_two_levels_save_what_goes_over_the_network() {
        let layout = Layout::of((0..64).map(|rank| rank / 8).collect());
        let time = |name, bytes| time_of(name, Operation::Allreduce, 64, bytes, &layout);
        assert!(time("two-level", 1 << 20) < time("doubling", 1 << 20) / 2);
    }
}
