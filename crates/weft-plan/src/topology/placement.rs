//! The placement of processes on the vertices of a topology, so that neighbours share a node where they can:
//! `reorder` (MPI-5.0 §8.4).
//!
//! Everything here is a pure function of the neighbourhood and of the nodes that the processes run on. All
//! processes of a communicator compute it for themselves and find the same.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use weft_ordered::Map;

use super::Grid;
use super::grid_orders::{bisected, orders};

/// Most steps of the search for exchanges that pay; each step looks at one neighbour of one vertex.
const SEARCH_STEPS_MAX: u64 = 1 << 21;

/// The node of a vertex that no node has yet.
const NOBODY: u32 = u32::MAX;

/// The neighbours of each vertex, with weights; the weight between two vertices counts both directions.
#[derive(Clone, Debug)]
pub struct Neighbourhood {
    /// The place where the neighbours of each vertex begin; one more at the end.
    first: Vec<usize>,
    neighbours: Vec<(u32, u64)>,
}

impl Neighbourhood {
    /// The neighbourhood of `vertices` vertices with weighted edges between them. Edges from a vertex to
    /// itself do not count.
    ///
    /// # Panics
    /// When an edge leads to a vertex that does not exist.
    pub fn new(vertices: u32, edges: impl Iterator<Item = (u32, u32, u64)>) -> Self {
        let mut all = Vec::new();
        for (from, to, weight) in edges.filter(|(from, to, _)| from != to) {
            assert!(from < vertices && to < vertices, "an edge from {from} to {to} among {vertices} vertices");
            all.extend([(from, to, weight), (to, from, weight)]);
        }
        weft_ordered::sort(&mut all);
        // Edges to the same vertex count together.
        all.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 = kept.2.saturating_add(next.2);
            }
            same
        });
        let first = (0..=vertices).map(|vertex| all.partition_point(|(from, ..)| *from < vertex)).collect();
        Self { first, neighbours: all.into_iter().map(|(_, to, weight)| (to, weight)).collect() }
    }

    /// The neighbourhood of a grid: each process and the next one in each dimension.
    pub fn of_grid(grid: &Grid) -> Self {
        Self::new(grid.size(), grid.edges().map(|(from, to)| (from, to, 1)))
    }

    /// Number of vertices.
    pub fn vertices(&self) -> u32 {
        (self.first.len() - 1) as u32
    }

    fn of(&self, vertex: u32) -> &[(u32, u64)] {
        &self.neighbours[self.first[vertex as usize]..self.first[vertex as usize + 1]]
    }

    /// The total weight of the edges between different nodes; `nodes` has the node of each vertex.
    pub fn crossing(&self, nodes: &[u32]) -> u64 {
        let crosses = |vertex: u32, other: u32| vertex < other && nodes[vertex as usize] != nodes[other as usize];
        let of_vertex = |vertex: u32| self.of(vertex).iter().filter(move |(other, _)| crosses(vertex, *other));
        (0..self.vertices()).flat_map(of_vertex).fold(0, |sum, (_, weight)| sum.saturating_add(*weight))
    }
}

/// The process for each vertex of a grid, by its rank.
///
/// `nodes` names the node of each rank, by any numbers. There are as many processes as vertices. Processes
/// that can stay where they are do so, and all do unless a change leaves less between nodes.
///
/// # Panics
/// When the numbers of processes and vertices differ.
pub fn place_grid(grid: &Grid, nodes: &[u32]) -> Vec<u32> {
    let neighbourhood = Neighbourhood::of_grid(grid);
    let nodes = named_by_appearance(nodes);
    let capacities = capacities(&nodes);
    let filled = orders(grid, &capacities).into_iter().map(|order| fill(&order, &capacities));
    let candidates = filled.chain([bisected(grid, &capacities)]);
    place(&neighbourhood, &nodes, &capacities, candidates)
}

/// The process for each vertex, as by [`place_grid`], of a graph with any neighbours.
///
/// # Panics
/// When the numbers of processes and vertices differ.
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
    assert_eq!(nodes.len(), neighbourhood.vertices() as usize, "a process for each vertex");
    let stay = || (0..nodes.len() as u32).collect();
    let now = neighbourhood.crossing(nodes);
    // Nothing can be gained where all processes share a node, or no two of them do.
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
    let mut names = Map::new();
    let name = |node: &u32| {
        let next = names.len() as u32;
        *names.entry(*node).or_insert(next)
    };
    nodes.iter().map(name).collect()
}

/// The number of processes of each node.
fn capacities(nodes: &[u32]) -> Vec<u32> {
    let mut capacities = vec![0; nodes.iter().max().map_or(0, |most| *most as usize + 1)];
    nodes.iter().for_each(|node| capacities[*node as usize] += 1);
    capacities
}

/// The node of each vertex when the nodes are filled one after the other along `order`.
fn fill(order: &[u32], capacities: &[u32]) -> Vec<u32> {
    let mut nodes = vec![0; order.len()];
    let owners = (0..).zip(capacities).flat_map(|(node, capacity)| core::iter::repeat_n(node, *capacity as usize));
    order.iter().zip(owners).for_each(|(vertex, node)| nodes[*vertex as usize] = node);
    nodes
}

/// The node of each vertex when every node grows from one vertex. It always takes the vertex that leaves the
/// least weight between the node and the others.
fn grown(neighbourhood: &Neighbourhood, capacities: &[u32]) -> Vec<u32> {
    let vertices = neighbourhood.vertices();
    let mut nodes = vec![NOBODY; vertices as usize];
    let mut seeds = 0..vertices;
    for (node, capacity) in (0..).zip(capacities) {
        // The weight that each vertex would add to the edges that leave this node; entries in the heap may be
        // out of date.
        let mut adds: Map<u32, i128> = Map::new();
        let mut heap: BinaryHeap<(Reverse<i128>, Reverse<u32>)> = BinaryHeap::new();
        for _ in 0..*capacity {
            let is_free = |vertex: &u32| nodes[*vertex as usize] == NOBODY;
            let mut nearest = core::iter::from_fn(|| heap.pop());
            let next = nearest.find(|(added, vertex)| is_free(&vertex.0) && adds.get(&vertex.0) == Some(&added.0));
            // Where no vertex is near, any vertex will do: there is room for as many vertices as there are.
            let vertex = next.map(|(_, vertex)| vertex.0).or_else(|| seeds.find(is_free));
            let vertex = vertex.expect("a vertex for each process");
            nodes[vertex as usize] = node;
            for (other, weight) in neighbourhood.of(vertex).iter().filter(|(other, _)| nodes[*other as usize] == NOBODY)
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

/// Exchanges the nodes of two vertices as long as that leaves less weight between nodes, within a limit.
fn exchange(neighbourhood: &Neighbourhood, nodes: &mut [u32]) {
    let mut steps = 0;
    let mut improved = true;
    while improved && steps < SEARCH_STEPS_MAX {
        improved = false;
        for vertex in 0..neighbourhood.vertices() {
            steps += 1;
            if let Some(other) = best_exchange(neighbourhood, nodes, vertex, &mut steps) {
                nodes.swap(vertex as usize, other as usize);
                improved = true;
            }
            if steps >= SEARCH_STEPS_MAX {
                return;
            }
        }
    }
}

/// The vertex whose exchange with `vertex` gains most; none if no exchange gains weight. Candidates are the
/// neighbours of `vertex` on other nodes, and their neighbours: any other vertex gains less.
fn best_exchange(neighbourhood: &Neighbourhood, nodes: &[u32], vertex: u32, steps: &mut u64) -> Option<u32> {
    let own = nodes[vertex as usize];
    let mut best: Option<(i128, u32)> = None;
    let mut look = |other: u32| {
        let node = nodes[other as usize];
        if node == own {
            return;
        }
        *steps += (neighbourhood.of(vertex).len() + neighbourhood.of(other).len()) as u64;
        let gain = gain(neighbourhood, nodes, vertex, other);
        if gain > 0 && best.is_none_or(|(best, _)| gain > best) {
            best = Some((gain, other));
        }
    };
    for (neighbour, _) in neighbourhood.of(vertex).iter().filter(|(neighbour, _)| nodes[*neighbour as usize] != own) {
        look(*neighbour);
        neighbourhood.of(*neighbour).iter().filter(|(other, _)| *other != vertex).for_each(|(other, _)| look(*other));
    }
    best.map(|(_, other)| other)
}

/// The weight that is no longer between nodes when two vertices exchange their nodes.
fn gain(neighbourhood: &Neighbourhood, nodes: &[u32], one: u32, other: u32) -> i128 {
    let moves = |vertex: u32, to: u32, partner: u32| {
        let from = nodes[vertex as usize];
        let value = |(neighbour, weight): &(u32, u64)| match nodes[*neighbour as usize] {
            // The two vertices stay apart either way.
            _ if *neighbour == partner => 0,
            node if node == to => i128::from(*weight),
            node if node == from => -i128::from(*weight),
            _ => 0,
        };
        neighbourhood.of(vertex).iter().map(value).sum::<i128>()
    };
    moves(one, nodes[other as usize], other) + moves(other, nodes[one as usize], one)
}

/// The process for each vertex; `old` has the node of each process and `new` that of each vertex. A process
/// whose vertex is on its node stays; the others come in the order of their ranks.
fn members(old: &[u32], new: &[u32]) -> Vec<u32> {
    let mut movers: Map<u32, Vec<u32>> = Map::new();
    for (rank, (node, place_node)) in old.iter().zip(new).enumerate().rev() {
        if node != place_node {
            movers.entry(*node).or_default().push(rank as u32);
        }
    }
    let member = |(vertex, node): (usize, &u32)| match old[vertex] == *node {
        true => vertex as u32,
        false => movers.get_mut(node).and_then(Vec::pop).expect("a node has as many vertices as processes"),
    };
    new.iter().enumerate().map(member).collect()
}

#[cfg(test)]
mod tests;
