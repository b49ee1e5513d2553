//! Which process takes which place of a topology, so that neighbours share a node where they can: `reorder` (MPI-5.0 §8.4).
//!
//! Everything here is a pure function of the neighbourhood and of the nodes that the processes run on. All processes of a communicator
//! compute it for themselves and find the same.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::Grid;
use super::grid_orders::{bisected, orders};

/// Steps of the search for exchanges that pay, at most: each looks at one neighbour of one place.
const SEARCH_STEPS_MAX: u64 = 1 << 21;

/// The node of a place that none has yet.
const NOBODY: u32 = u32::MAX;

/// Who is whose neighbour, and how much that counts; between two places both directions together.
#[derive(Clone, Debug)]
pub struct Neighbourhood {
    /// Where the neighbours of each place begin; one more at the end.
    first: Vec<usize>,
    neighbours: Vec<(u32, u64)>,
}

impl Neighbourhood {
    /// That of `places` places and edges between them, each with its weight. Edges from a place to itself do not count.
    ///
    /// # Panics
    /// An edge leads to a place that is none.
    pub fn new(places: u32, edges: impl Iterator<Item = (u32, u32, u64)>) -> Self {
        let mut all = Vec::new();
        for (from, to, weight) in edges.filter(|(from, to, _)| from != to) {
            assert!(from < places && to < places, "an edge from {from} to {to} among {places} places");
            all.extend([(from, to, weight), (to, from, weight)]);
        }
        all.sort_unstable();
        // What leads to the same place counts together.
        all.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 = kept.2.saturating_add(next.2);
            }
            same
        });
        let first = (0..=places).map(|place| all.partition_point(|(from, ..)| *from < place)).collect();
        Self { first, neighbours: all.into_iter().map(|(_, to, weight)| (to, weight)).collect() }
    }

    /// That of a grid: each process and the next one in each dimension.
    pub fn of_grid(grid: &Grid) -> Self {
        Self::new(grid.size(), grid.edges().map(|(from, to)| (from, to, 1)))
    }

    /// Number of places.
    pub fn places(&self) -> u32 {
        (self.first.len() - 1) as u32
    }

    fn of(&self, place: u32) -> &[(u32, u64)] {
        &self.neighbours[self.first[place as usize]..self.first[place as usize + 1]]
    }

    /// What the edges between different nodes weigh together; `nodes` says for each place who has it.
    pub fn crossing(&self, nodes: &[u32]) -> u64 {
        let crosses = |place: u32, other: u32| place < other && nodes[place as usize] != nodes[other as usize];
        let of_place = |place: u32| self.of(place).iter().filter(move |(other, _)| crosses(place, *other));
        (0..self.places()).flat_map(of_place).fold(0, |sum, (_, weight)| sum.saturating_add(*weight))
    }
}

/// For each place of a grid the process that gets it, by its rank; `nodes` names the node of each rank, any numbers. As many processes as
/// places. Whoever can stay where it is does, and all do unless less is then left between nodes.
///
/// # Panics
/// There are not as many processes as places.
pub fn place_grid(grid: &Grid, nodes: &[u32]) -> Vec<u32> {
    let neighbourhood = Neighbourhood::of_grid(grid);
    let nodes = named_by_appearance(nodes);
    let capacities = capacities(&nodes);
    let filled = orders(grid, &capacities).into_iter().map(|order| fill(&order, &capacities));
    let candidates = filled.chain([bisected(grid, &capacities)]);
    place(&neighbourhood, &nodes, &capacities, candidates)
}

/// The same for places with any neighbours.
///
/// # Panics
/// There are not as many processes as places.
pub fn place_graph(neighbourhood: &Neighbourhood, nodes: &[u32]) -> Vec<u32> {
    let nodes = named_by_appearance(nodes);
    let capacities = capacities(&nodes);
    place(neighbourhood, &nodes, &capacities, [].into_iter())
}

fn place(
    neighbourhood: &Neighbourhood,
    nodes: &[u32],
    capacities: &[u32],
    candidates: impl Iterator<Item = Vec<u32>>,
) -> Vec<u32> {
    assert_eq!(nodes.len(), neighbourhood.places() as usize, "a process for each place");
    let stay = || (0..nodes.len() as u32).collect();
    let now = neighbourhood.crossing(nodes);
    // Nothing to gain where all share a node, or no two of them do.
    if now == 0 || capacities.len() == 1 || capacities.iter().all(|capacity| *capacity == 1) {
        return stay();
    }
    let mut best = (now, nodes.to_vec());
    for candidate in candidates.chain([grown(neighbourhood, capacities)]) {
        let crossing = neighbourhood.crossing(&candidate);
        if crossing < best.0 {
            best = (crossing, candidate);
        }
    }
    let mut found = best.1;
    exchange(neighbourhood, &mut found);
    if neighbourhood.crossing(&found) < now { members(nodes, &found) } else { stay() }
}

/// The nodes as numbers from 0 on, in the order in which they are first seen.
fn named_by_appearance(nodes: &[u32]) -> Vec<u32> {
    let mut names = BTreeMap::new();
    let name = |node: &u32| {
        let next = names.len() as u32;
        *names.entry(*node).or_insert(next)
    };
    nodes.iter().map(name).collect()
}

/// How many processes each node has.
fn capacities(nodes: &[u32]) -> Vec<u32> {
    let mut capacities = vec![0; nodes.iter().max().map_or(0, |most| *most as usize + 1)];
    nodes.iter().for_each(|node| capacities[*node as usize] += 1);
    capacities
}

/// The node of each place when the nodes are filled one after the other along `order`.
fn fill(order: &[u32], capacities: &[u32]) -> Vec<u32> {
    let mut nodes = vec![0; order.len()];
    let owners = (0..).zip(capacities).flat_map(|(node, capacity)| core::iter::repeat_n(node, *capacity as usize));
    order.iter().zip(owners).for_each(|(place, node)| nodes[*place as usize] = node);
    nodes
}

/// The node of each place when every node grows from one place, always by the one that leaves least between it and the others.
fn grown(neighbourhood: &Neighbourhood, capacities: &[u32]) -> Vec<u32> {
    let places = neighbourhood.places();
    let mut nodes = vec![NOBODY; places as usize];
    let mut seeds = 0..places;
    for (node, capacity) in (0..).zip(capacities) {
        // How much each place would add to the edges that leave this node; what a heap holds may be out of date.
        let mut adds: BTreeMap<u32, i128> = BTreeMap::new();
        let mut heap: BinaryHeap<(Reverse<i128>, Reverse<u32>)> = BinaryHeap::new();
        for _ in 0..*capacity {
            let is_free = |place: &u32| nodes[*place as usize] == NOBODY;
            let mut nearest = core::iter::from_fn(|| heap.pop());
            let next = nearest.find(|(added, place)| is_free(&place.0) && adds.get(&place.0) == Some(&added.0));
            // Where nobody is near, anybody will do: there are as many places as room for them.
            let place = next.map(|(_, place)| place.0).or_else(|| seeds.find(is_free));
            let place = place.expect("a place for each process");
            nodes[place as usize] = node;
            for (other, weight) in neighbourhood.of(place).iter().filter(|(other, _)| nodes[*other as usize] == NOBODY)
            {
                let all = || neighbourhood.of(*other).iter().map(|(_, weight)| i128::from(*weight)).sum();
                let added = adds.entry(*other).or_insert_with(all);
                *added -= 2 * i128::from(*weight);
                heap.push((Reverse(*added), Reverse(*other)));
            }
        }
    }
    nodes
}

/// Exchanges the nodes of two places as long as that leaves less between nodes, within a limit.
fn exchange(neighbourhood: &Neighbourhood, nodes: &mut [u32]) {
    let mut steps = 0;
    let mut improved = true;
    while improved && steps < SEARCH_STEPS_MAX {
        improved = false;
        for place in 0..neighbourhood.places() {
            steps += 1;
            if let Some(other) = best_exchange(neighbourhood, nodes, place, &mut steps) {
                nodes.swap(place as usize, other as usize);
                improved = true;
            }
            if steps >= SEARCH_STEPS_MAX {
                return;
            }
        }
    }
}

/// The place that is better exchanged with `place` than any other, if there is one: among those next to the neighbours of `place`
/// that have another node, since all others gain less.
fn best_exchange(neighbourhood: &Neighbourhood, nodes: &[u32], place: u32, steps: &mut u64) -> Option<u32> {
    let own = nodes[place as usize];
    let mut best: Option<(i128, u32)> = None;
    let mut look = |other: u32| {
        let node = nodes[other as usize];
        if node == own {
            return;
        }
        *steps += (neighbourhood.of(place).len() + neighbourhood.of(other).len()) as u64;
        let gain = gain(neighbourhood, nodes, place, other);
        if gain > 0 && best.is_none_or(|(best, _)| gain > best) {
            best = Some((gain, other));
        }
    };
    for (neighbour, _) in neighbourhood.of(place).iter().filter(|(neighbour, _)| nodes[*neighbour as usize] != own) {
        look(*neighbour);
        neighbourhood.of(*neighbour).iter().filter(|(other, _)| *other != place).for_each(|(other, _)| look(*other));
    }
    best.map(|(_, other)| other)
}

/// How much less is between nodes when two places exchange theirs.
fn gain(neighbourhood: &Neighbourhood, nodes: &[u32], one: u32, other: u32) -> i128 {
    let moves = |place: u32, to: u32, partner: u32| {
        let from = nodes[place as usize];
        let value = |(neighbour, weight): &(u32, u64)| match nodes[*neighbour as usize] {
            // They stay apart, whoever is where.
            _ if *neighbour == partner => 0,
            node if node == to => i128::from(*weight),
            node if node == from => -i128::from(*weight),
            _ => 0,
        };
        neighbourhood.of(place).iter().map(value).sum::<i128>()
    };
    moves(one, nodes[other as usize], other) + moves(other, nodes[one as usize], one)
}

/// The process for each place, where `old` says the node of each process and `new` that of each place. Whoever has its place on the
/// right node stays; the others come in the order of their ranks.
fn members(old: &[u32], new: &[u32]) -> Vec<u32> {
    let mut movers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (rank, (node, place_node)) in old.iter().zip(new).enumerate().rev() {
        if node != place_node {
            movers.entry(*node).or_default().push(rank as u32);
        }
    }
    let member = |(place, node): (usize, &u32)| match old[place] == *node {
        true => place as u32,
        false => movers.get_mut(node).and_then(Vec::pop).expect("a node has as many places as processes"),
    };
    new.iter().enumerate().map(member).collect()
}

#[cfg(test)]
mod tests;
