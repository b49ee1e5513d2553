//! Assigns the vertices of a topology to processes (MPI-5.0 §8.4, `reorder`), and tells processes their edges
//! of a distributed graph (§8.5.4). The boundary's constructors of topologies call it.

use std::sync::Arc;

use weft_plan::topology::placement::{place_graph, place_grid};

use crate::communicator::{exchange, gather_all, highest};
use crate::constants::*;
use crate::error::{Error, Result};
use crate::object::{Group, PeerId};
use crate::process::{Process, with};
use crate::topology::{Graph, Grid, Neighbourhood, Neighbours};

/// The most edges of a distributed graph, of all processes together, with which its processes are reordered:
/// every process has to know all of them for that.
const REORDERED_EDGES_MAX: i64 = 1 << 22;

impl Process {
    /// The node of each of `members`, as numbers that are equal where the node is. A process whose node is
    /// unknown has a node of its own.
    pub(crate) fn nodes_of(&self, members: &[PeerId]) -> Vec<u32> {
        let known = |member: &PeerId| self.job.as_ref().and_then(|job| job.nodes.get(member));
        let mut names = std::collections::HashMap::new();
        let mut next = 0..;
        let mut name = |member: &PeerId| match known(member) {
            Some(node) => *names.entry(*node).or_insert_with(|| next.next().unwrap_or(0)),
            None => next.next().unwrap_or(0),
        };
        members.iter().map(&mut name).collect()
    }

    /// The cluster of each of `members`. `None` where the user has named no clusters, or a member belongs to
    /// another job.
    pub(crate) fn clusters_of(&self, members: &[PeerId]) -> Option<Vec<u32>> {
        let job = self.job.as_ref().filter(|job| !job.clusters.is_empty())?;
        members.iter().map(|member| job.clusters.get(member).copied()).collect()
    }

    /// Returns whether topologies may change ranks here, when the program allows it.
    fn may_reorder(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.reorders)
    }

    /// The rank in `group` of the process for each vertex of a grid (MPI-5.0 §8.4, `reorder`).
    pub fn ranks_in_grid(&self, group: &Group, grid: &Grid, reorder: bool) -> Vec<u32> {
        let first = &group.members[..grid.size() as usize];
        if reorder && self.may_reorder() {
            return place_grid(grid, &self.nodes_of(first));
        }
        (0..grid.size()).collect()
    }

    /// The rank in `group` of the process for each vertex of a graph.
    pub fn ranks_in_graph(&self, group: &Group, graph: &Graph, reorder: bool) -> Vec<u32> {
        let first = &group.members[..graph.index.len()];
        if reorder && self.may_reorder() {
            return place_graph(&graph.neighbourhood(), &self.nodes_of(first));
        }
        (0..graph.index.len() as u32).collect()
    }
}

/// An edge of a distributed graph, and its weight.
pub type Edge = (i32, i32, i32);

/// A distributed graph after its creation: the process of each rank, and the neighbours of this process.
pub struct Distributed {
    /// The process of each rank.
    pub group: Arc<Group>,
    /// The neighbours of this process.
    pub neighbours: Neighbours,
}

/// Makes a distributed graph of edges that any process may give (MPI-5.0 §8.5.4, `MPI_Dist_graph_create`).
/// All processes of the communicator call this.
///
/// # Errors
/// `MPI_ERR_ARG` at all processes when only some give weights. A process is gone.
pub fn distribute(communicator: usize, edges: &[Edge], weighted: bool, reorder: bool) -> Result<Distributed> {
    let weighted = agree_on_weights(communicator, weighted, edges.is_empty())?;
    let group = with(|process| Ok::<_, Error>(process.objects.communicator(communicator)?.group.clone()))?;
    let ranks = reorder_ranks(communicator, &group, edges, reorder)?;
    // Rank `ranks[vertex]` becomes `vertex`, so it must know the edges of that vertex.
    let mut lists = vec![Vec::new(); ranks.len()];
    for (from, to, weight) in edges {
        for (direction, vertex) in [(OUT, *from), (IN, *to)] {
            let edge = [direction, i64::from(*from), i64::from(*to), i64::from(*weight)];
            lists[ranks[vertex as usize] as usize].extend(edge);
        }
    }
    let mut neighbours = Neighbours { weights: weighted.then(Default::default), ..Neighbours::default() };
    for edge in exchange(communicator, &lists)?.concat().chunks_exact(4) {
        let (from, to, weight) = (edge[1] as i32, edge[2] as i32, edge[3] as i32);
        let (list, other) =
            if edge[0] == OUT { (&mut neighbours.destinations, to) } else { (&mut neighbours.sources, from) };
        list.push(other);
        if let Some((of_sources, of_destinations)) = &mut neighbours.weights {
            if edge[0] == OUT { of_destinations.push(weight) } else { of_sources.push(weight) }
        }
    }
    Ok(Distributed { group: group.of_ranks(&ranks), neighbours })
}

/// An edge that leads away from the process that is told of it.
const OUT: i64 = 0;
/// An edge that leads to the process that is told of it.
const IN: i64 = 1;

/// Makes a distributed graph for which each process has given its own neighbours (MPI-5.0 §8.5.4,
/// `MPI_Dist_graph_create_adjacent`). All processes of the communicator call this.
///
/// # Errors
/// As for [`distribute`].
pub fn distribute_adjacent(communicator: usize, own: Neighbours, reorder: bool) -> Result<Distributed> {
    let empty = own.sources.is_empty() && own.destinations.is_empty();
    let weighted = agree_on_weights(communicator, own.weights.is_some(), empty)?;
    let mut own = own;
    own.weights = weighted.then(|| own.weights.take().unwrap_or_default());
    let (group, rank) = with(|process| {
        let object = process.objects.communicator(communicator)?;
        Ok::<_, Error>((object.group.clone(), object.rank))
    })?;
    // Every edge is also among the edges that lead to some process.
    let weights = own.weights.as_ref().map(|(_, of_destinations)| of_destinations.clone());
    let weights = weights.unwrap_or_else(|| vec![1; own.destinations.len()]);
    let edges: Vec<Edge> =
        own.destinations.iter().zip(weights).map(|(to, weight)| (rank as i32, *to, weight)).collect();
    let ranks = reorder_ranks(communicator, &group, &edges, reorder)?;
    // The process that will have this rank needs the neighbours that this process was given.
    let neighbours = if ranks.iter().copied().eq(0..group.size()) {
        own
    } else {
        let mut lists = vec![Vec::new(); ranks.len()];
        lists[ranks[rank as usize] as usize] = own.to_numbers();
        Neighbours::of_numbers(&exchange(communicator, &lists)?.concat())
    };
    Ok(Distributed { group: group.of_ranks(&ranks), neighbours })
}

/// Agrees on whether the edges have weights. All processes must say the same, except those without edges.
fn agree_on_weights(communicator: usize, weighted: bool, empty: bool) -> Result<bool> {
    let scope = with(|process| process.collective_scope(communicator))?;
    let mut said = [i64::from(weighted && !empty), i64::from(!weighted && !empty), i64::from(weighted)];
    highest(scope, &mut said)?;
    match said {
        [1, 1, _] => {
            let message = "some processes give weights and others MPI_UNWEIGHTED: all must do the same";
            Err(Error::new(MPI_ERR_ARG, message))
        }
        // No process has an edge. The result is whether any process would have weights.
        [0, 0, weighted] => Ok(weighted != 0),
        [weighted, ..] => Ok(weighted != 0),
    }
}

/// The rank of the process for each vertex. `edges` are those that this process has given.
fn reorder_ranks(communicator: usize, group: &Group, edges: &[Edge], reorder: bool) -> Result<Vec<u32>> {
    let (nodes, scope) = with(|process| {
        let nodes = if process.may_reorder() { process.nodes_of(&group.members) } else { vec![0; group.members.len()] };
        Ok::<_, Error>((nodes, process.collective_scope(communicator)?))
    })?;
    let stay = || (0..group.size()).collect();
    // All processes must get the same result, whatever their settings are.
    let would = reorder && nodes.iter().any(|node| *node != nodes[0]);
    let counts: Vec<i64> = gather_all(scope, &[edges.len() as i64, i64::from(would)])?;
    let total = counts.chunks_exact(2).fold(0_i64, |sum, pair| sum.saturating_add(pair[0]));
    if !counts.chunks_exact(2).all(|pair| pair[1] != 0) || total > REORDERED_EDGES_MAX {
        return Ok(stay());
    }
    let numbers: Vec<i64> = edges.iter().flat_map(|(from, to, weight)| [*from, *to, *weight].map(i64::from)).collect();
    let all = exchange(communicator, &vec![numbers; group.members.len()])?.concat();
    let all = all.chunks_exact(3).map(|edge| (edge[0] as u32, edge[1] as u32, edge[2] as u64));
    Ok(place_graph(&Neighbourhood::new(group.size(), all), &nodes))
}
