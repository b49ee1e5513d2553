//! The switches and cables of a topology. This module decides on which route a packet travels, whether it
//! arrives at the next node, and when.

use crate::port::{Offer, Port};
use crate::topology::{Buffer, Cable, Node, Spreading, Topology};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use weft_core::time::{Duration, Instant};
use weft_random::{Random, mix};

/// The time for which a leaf goes on using a cut cable: until the link's state is noticed, or a routing
/// protocol has converged.
pub const REROUTE_AFTER: Duration = Duration::from_millis(1);
/// A host's own queue is bounded by its process (`Host::send_bytes`), not by the port.
const HOST_ROOM: u64 = u64::MAX;

/// A cut of a cable.
pub type Cut = (Cable, Range<Instant>);

/// The outcome of a packet at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// The packet arrives at the next node.
    Arrives {
        /// The time of arrival.
        at: Instant,
        /// The node where the packet arrives.
        node: Node,
        /// The packet was marked, because the queue was long.
        marked: bool,
    },
    /// The queue was full.
    Full,
    /// The cable is cut.
    Cut,
}

/// Memory that all ports of a switch share.
#[derive(Debug, Default)]
struct Pool {
    used: u64,
    /// The times at which bytes leave the pool.
    releases: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Pool {
    fn left(&mut self, now: Instant, size: u64) -> u64 {
        while let Some(&Reverse((at, bytes))) = self.releases.peek() {
            if at > now {
                break;
            }
            self.releases.pop();
            self.used -= bytes;
        }
        size.saturating_sub(self.used)
    }
}

/// The state of the network: its ports, with the packets that wait there, and the pools of its switches.
#[derive(Debug)]
pub struct Fabric {
    topology: Topology,
    ranks: u32,
    ports: Vec<Port>,
    /// The pools of the leaves, then those of the spines.
    pools: Vec<Pool>,
    random: Random,
    salt: u64,
}

impl Fabric {
    /// Creates a network without nuisances.
    pub fn new(topology: &Topology, ranks: u32, cuts: &[Cut], seed: u64) -> Self {
        let mut fabric = Self {
            topology: *topology,
            ranks,
            ports: Vec::new(),
            pools: Vec::new(),
            random: Random::new(mix(seed ^ 0xfab)),
            salt: mix(seed ^ 0x5a17),
        };
        let add = |fabric: &mut Self, link, leads_to, cable| {
            let mut own: Vec<_> =
                cuts.iter().filter(|(cut, _)| *cut == cable).map(|(_, range)| range.clone()).collect();
            own.sort_by_key(|range| range.start);
            fabric.ports.push(Port::new(link, leads_to, own));
        };
        let link = *topology.link();
        let unshaped = crate::topology::Link { bucket: None, ..link };
        for rank in 0..ranks {
            let end = match topology {
                Topology::BackToBack { .. } => Node::Host(1 - rank),
                Topology::Switch { .. } | Topology::LeafSpine { .. } => Node::Leaf(fabric.leaf(rank)),
            };
            add(&mut fabric, link, end, Cable::Rank(rank));
        }
        let (leaves, spines) = fabric.switches();
        if leaves > 0 {
            for rank in 0..ranks {
                add(&mut fabric, unshaped, Node::Host(rank), Cable::Rank(rank));
            }
        }
        if let Topology::LeafSpine { trunk, .. } = *topology {
            for (leaf, spine) in (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, spine))) {
                add(&mut fabric, trunk, Node::Spine(spine), Cable::Trunk(leaf, spine));
            }
            for (spine, leaf) in (0..spines).flat_map(|spine| (0..leaves).map(move |leaf| (spine, leaf))) {
                add(&mut fabric, trunk, Node::Leaf(leaf), Cable::Trunk(leaf, spine));
            }
        }
        fabric.pools.resize_with((leaves + spines) as usize, Pool::default);
        fabric
    }

    fn switches(&self) -> (u32, u32) {
        match self.topology {
            Topology::BackToBack { .. } => (0, 0),
            Topology::Switch { .. } => (1, 0),
            Topology::LeafSpine { leaves, spines, .. } => (leaves, spines),
        }
    }

    fn leaf(&self, rank: u32) -> u32 {
        rank / self.topology.ranks_per_leaf(self.ranks)
    }

    /// Bytes that wait for the link of a rank, in its host.
    pub fn host_waiting_bytes(&mut self, now: Instant, rank: u32) -> u64 {
        self.ports[rank as usize].waiting_bytes(now)
    }

    /// The time when at most `bytes` will wait in a rank's host.
    pub fn host_waits_at_most(&mut self, now: Instant, rank: u32, bytes: u64) -> Instant {
        self.ports[rank as usize].waits_at_most(now, bytes)
    }

    /// Forwards a datagram that is at a node on its way from one rank to another.
    ///
    /// Each path of a flow may take another route.
    pub fn forward(&mut self, now: Instant, node: Node, (from, to): (u32, u32), path: u8, bytes: u64) -> Hop {
        let port = self.port(now, node, (from, to), path);
        let size = crate::topology::frame_bytes(bytes);
        let buffer = match (node, self.topology) {
            (Node::Host(_), _) | (_, Topology::BackToBack { .. }) => Buffer::PerPort(HOST_ROOM),
            (_, Topology::Switch { buffer, .. } | Topology::LeafSpine { buffer, .. }) => buffer,
        };
        let pool = match node {
            Node::Host(_) => 0,
            Node::Leaf(leaf) => leaf,
            Node::Spine(spine) => self.switches().0 + spine,
        } as usize;
        let room = match buffer {
            Buffer::PerPort(room) => room,
            Buffer::Shared(room) => {
                let left = self.pools[pool].left(now, room);
                if left < size {
                    return Hop::Full;
                }
                left.max(size)
            }
        };
        let port = &mut self.ports[port];
        match port.offer(now, bytes, room) {
            Offer::Arrives { at, left, marked } => {
                if matches!(buffer, Buffer::Shared(_)) {
                    self.pools[pool].used += size;
                    self.pools[pool].releases.push(Reverse((left, size)));
                }
                Hop::Arrives { at, node: port.leads_to, marked }
            }
            Offer::Full => Hop::Full,
            Offer::Cut => Hop::Cut,
        }
    }

    fn port(&mut self, now: Instant, node: Node, (from, to): (u32, u32), path: u8) -> usize {
        let ((leaves, spines), ranks) = (self.switches(), self.ranks as usize);
        let home = if leaves == 0 { 0 } else { self.leaf(to) };
        match node {
            Node::Host(rank) => rank as usize,
            Node::Leaf(leaf) if leaf == home => ranks + to as usize,
            Node::Leaf(leaf) => {
                let spine = self.spine(now, (leaf, home), (from, to), path);
                2 * ranks + (leaf * spines + spine) as usize
            }
            Node::Spine(spine) => 2 * ranks + (leaves * spines + spine * leaves + home) as usize,
        }
    }

    /// The spine on the way from one leaf to another. A spine whose cables are known to be cut is chosen only
    /// if there is no other.
    fn spine(&mut self, now: Instant, (leaf, home): (u32, u32), (from, to): (u32, u32), path: u8) -> u32 {
        let Topology::LeafSpine { leaves, spines, spreading, .. } = self.topology else { return 0 };
        let first = match spreading {
            Spreading::PerFlow => {
                mix(self.salt ^ u64::from(path).reverse_bits() ^ u64::from(from) << 32 ^ u64::from(to))
                    % u64::from(spines)
            }
            Spreading::PerPacket => self.random.below(spines.into()),
        } as u32;
        let usable = |spine: &u32| {
            let (up, down) = (leaf * spines + spine, leaves * spines + spine * leaves + home);
            [up, down].iter().all(|port| !self.ports[(2 * self.ranks + port) as usize].is_cut_since(now, REROUTE_AFTER))
        };
        (0..spines).map(|step| (first + step) % spines).find(usable).unwrap_or(first)
    }

    /// The most bytes that waited at one port of a switch, and in one host.
    pub fn deepest_bytes(&self) -> (u64, u64) {
        let deepest = |ports: &[Port]| ports.iter().map(|port| port.deepest_bytes).max().unwrap_or(0);
        let (hosts, switches) = self.ports.split_at(self.ranks as usize);
        (deepest(switches), deepest(hosts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Link;

    fn leaf_spine(spreading: Spreading) -> Topology {
        let link = Link::default();
        let buffer = Buffer::PerPort(1 << 20);
        Topology::LeafSpine { link, trunk: link, leaves: 4, spines: 3, spreading, buffer }
    }

    /// The nodes that a packet passes.
    fn path(fabric: &mut Fabric, mut now: Instant, from: u32, to: u32) -> Vec<Node> {
        let mut path = vec![Node::Host(from)];
        while path.len() < 8 && path.last() != Some(&Node::Host(to)) {
            match fabric.forward(now, path[path.len() - 1], (from, to), 0, 100) {
                Hop::Arrives { at, node, .. } => {
                    now = at;
                    path.push(node);
                }
                Hop::Full | Hop::Cut => break,
            }
        }
        path
    }

    #[test]
    fn every_pair_is_joined_by_the_shortest_way() {
        for spreading in [Spreading::PerFlow, Spreading::PerPacket] {
            let mut fabric = Fabric::new(&leaf_spine(spreading), 10, &[], 1);
            for (from, to) in (0..10).flat_map(|a| (0..10).map(move |b| (a, b))).filter(|(a, b)| a != b) {
                let path = path(&mut fabric, Instant(0), from, to);
                assert_eq!(path.last(), Some(&Node::Host(to)));
                assert_eq!(path.len(), if from / 3 == to / 3 { 3 } else { 5 }, "{path:?}");
            }
        }
    }

    #[test]
    fn a_flow_keeps_its_spine_and_packets_are_spread() {
        for (spreading, spines) in [(Spreading::PerFlow, 1), (Spreading::PerPacket, 3)] {
            let mut fabric = Fabric::new(&leaf_spine(spreading), 12, &[], 1);
            let mut seen: Vec<_> = (0..100).map(|_| path(&mut fabric, Instant(0), 0, 11)[2]).collect();
            seen.sort_by_key(|node| format!("{node:?}"));
            seen.dedup();
            assert_eq!(seen.len(), spines);
        }
    }

    #[test]
    fn a_cut_trunk_loses_packets_until_it_is_noticed() {
        let cuts: Vec<Cut> = (0..2).map(|spine| (Cable::Trunk(0, spine), Instant(0)..Instant(u64::MAX))).collect();
        let mut fabric = Fabric::new(&leaf_spine(Spreading::PerPacket), 12, &cuts, 1);
        let arrived = |fabric: &mut Fabric, now| {
            (0..300).filter(|_| path(fabric, now, 0, 11).last() == Some(&Node::Host(11))).count()
        };
        assert!((50..150).contains(&arrived(&mut fabric, Instant(0))));
        assert_eq!(arrived(&mut fabric, Instant(0) + REROUTE_AFTER), 300);
    }

    #[test]
    fn a_shared_buffer_leaves_room_for_the_other_ports() {
        let topology = Topology::switch(Buffer::Shared(100_000));
        let mut fabric = Fabric::new(&topology, 3, &[], 1);
        let mut fill = |to| {
            (0..1000).take_while(|_| fabric.forward(Instant(0), Node::Leaf(0), (0, to), 0, 934) != Hop::Full).count()
        };
        // One port gets half of the pool, the next port half of the rest.
        assert_eq!((fill(1), fill(2)), (50, 25));
    }
}
