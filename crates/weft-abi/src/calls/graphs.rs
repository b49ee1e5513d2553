//! Graph topologies (MPI-5.0 §8.5.3 to §8.5.5, §8.5.8).
//!
//! # Safety
//! Every function here is called by its generated wrapper with the arguments of the C prototype: arrays have the
//! lengths given beside them or asked of the topology, output pointers can be written.

use crate::calls::creation::{compared, create};
use crate::calls::topologies::{give, slice};
use crate::check;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use std::sync::Arc;
use weft_mpi::communicator::{Creation, needed, open_creation};
use weft_mpi::error::{Error, Result};
use weft_mpi::placement::{Distributed, Edge, distribute, distribute_adjacent};
use weft_mpi::process::with;
use weft_mpi::topology::{Graph, Neighbours, Topology};

/// The graph that a program describes, which must have a node for at most `processes`.
///
/// # Safety
/// `index` has `nnodes` elements, `edges` as many as its last one says.
unsafe fn described_graph(nnodes: c_int, index: *const c_int, edges: *const c_int, processes: u32) -> Result<Graph> {
    if !u32::try_from(nnodes).is_ok_and(|nodes| nodes <= processes) {
        let message = format!("nnodes is {nnodes}; it must be from 0 to {processes}, the size of the communicator");
        return Err(Error::new(MPI_ERR_ARG, message));
    }
    // SAFETY: the caller's array.
    let index = unsafe { slice(index, nnodes as usize) };
    let count = Graph::check_index(index)?;
    check::array("edges", edges, count as i64)?;
    // SAFETY: the caller's array.
    let edges = unsafe { slice(edges, count) };
    Graph::new(index.to_vec(), edges.to_vec())
}

/// MPI_Graph_create (MPI-5.0 §8.5.3): a graph without nodes is no communicator at all.
pub(crate) unsafe fn graph_create(
    comm_old: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    comm_graph: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's pointer. After an error it is no communicator.
    unsafe { *comm_graph = MPI_Comm::NULL };
    compared(comm_old)?;
    let (place, described) = with(|process| {
        let group = process.objects.communicator(comm_old.0)?.intra()?.group.clone();
        // SAFETY: the caller's arrays.
        let described = unsafe { described_graph(nnodes, index, edges, group.size()) }.map(|graph| {
            let places = process.places_in_graph(&group, &graph, reorder != 0);
            (group.of_ranks(&places), graph)
        });
        Ok::<_, Error>((process.collective_scope(comm_old.0)?, described))
    })?;
    let (group, graph) = needed(&place, Creation::Graph, described)?;
    let topology = Arc::new(Topology::Graph(graph));
    // SAFETY: the caller's pointer.
    unsafe { create(Creation::Graph, place, group, comm_graph, |object| object.topology = Some(topology)) }
}

/// MPI_Graph_map (MPI-5.0 §8.5.8): the rank that MPI_Graph_create with `reorder` gives. Local.
pub(crate) unsafe fn graph_map(
    comm: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> Result<()> {
    let rank = with(|process| {
        let group = process.objects.communicator(comm.0)?.intra()?.group.clone();
        // SAFETY: the caller's arrays.
        let graph = unsafe { described_graph(nnodes, index, edges, group.size())? };
        let places = process.places_in_graph(&group, &graph, true);
        Ok::<_, Error>(group.of_ranks(&places).rank)
    })?;
    // SAFETY: the caller's pointer.
    unsafe { *newrank = rank.map_or(MPI_UNDEFINED, |rank| rank as c_int) };
    Ok(())
}

/// MPI_Graphdims_get (MPI-5.0 §8.5.5).
pub(crate) unsafe fn graphdims_get(comm: MPI_Comm, nnodes: *mut c_int, nedges: *mut c_int) -> Result<()> {
    let (nodes, edges) = with(|process| {
        let graph = process.objects.communicator(comm.0)?.graph()?;
        Ok::<_, Error>((graph.index.len(), graph.edges.len()))
    })?;
    // SAFETY: the caller's pointers.
    unsafe {
        *nnodes = nodes as c_int;
        *nedges = edges as c_int;
    }
    Ok(())
}

fn check_room(name: &str, room: c_int, needed: usize) -> Result<()> {
    if (room as usize) < needed {
        return Err(Error::new(MPI_ERR_ARG, format!("{name} is {room}, but there are {needed}")));
    }
    Ok(())
}

/// MPI_Graph_get (MPI-5.0 §8.5.5).
pub(crate) unsafe fn graph_get(
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    index: *mut c_int,
    edges: *mut c_int,
) -> Result<()> {
    with(|process| {
        let graph = process.objects.communicator(comm.0)?.graph()?;
        check_room("maxindex", maxindex, graph.index.len())?;
        check_room("maxedges", maxedges, graph.edges.len())?;
        // SAFETY: the caller's arrays, whose lengths were compared above.
        unsafe {
            give(index, graph.index.iter().copied());
            give(edges, graph.edges.iter().copied());
        }
        Ok(())
    })
}

/// The neighbours of `rank`.
fn neighbours_of(comm: MPI_Comm, rank: c_int) -> Result<Vec<c_int>> {
    with(|process| {
        let object = process.objects.communicator(comm.0)?;
        let graph = object.graph()?;
        Ok(graph.neighbours(object.existing_rank("rank", rank)? as usize).to_vec())
    })
}

/// MPI_Graph_neighbors_count (MPI-5.0 §8.5.5).
pub(crate) unsafe fn graph_neighbors_count(comm: MPI_Comm, rank: c_int, nneighbors: *mut c_int) -> Result<()> {
    let count = neighbours_of(comm, rank)?.len();
    // SAFETY: the caller's pointer.
    unsafe { *nneighbors = count as c_int };
    Ok(())
}

/// MPI_Graph_neighbors (MPI-5.0 §8.5.5).
pub(crate) unsafe fn graph_neighbors(
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> Result<()> {
    let found = neighbours_of(comm, rank)?;
    check_room("maxneighbors", maxneighbors, found.len())?;
    // SAFETY: the caller's array, whose length was compared above.
    unsafe { give(neighbors, found.into_iter()) };
    Ok(())
}

/// Whether an array of weights says that there are none.
fn is_unweighted(weights: *const c_int) -> bool {
    weights.addr() == MPI_UNWEIGHTED
}

/// The weights of `count` edges; those of none may be MPI_WEIGHTS_EMPTY, or anything.
///
/// # Safety
/// The array has `count` elements, unless it is one of the special addresses.
unsafe fn weights(name: &str, weights: *const c_int, count: usize) -> Result<Vec<c_int>> {
    if count > 0 && (weights.is_null() || weights.addr() == MPI_WEIGHTS_EMPTY) {
        let found = if weights.is_null() { "a null pointer" } else { "MPI_WEIGHTS_EMPTY" };
        return Err(Error::new(MPI_ERR_ARG, format!("{name} is {found}; it must have {count} elements")));
    }
    // SAFETY: the caller's array.
    let weights = unsafe { slice(weights, count) };
    match weights.iter().position(|weight| *weight < 0) {
        Some(at) => {
            let message = format!("{name}[{at}] is {}; a weight must not be negative", weights[at]);
            Err(Error::new(MPI_ERR_ARG, message))
        }
        None => Ok(weights.to_vec()),
    }
}

/// Ranks of the communicator `comm`.
///
/// # Safety
/// The array has `count` elements.
unsafe fn ranks(comm: MPI_Comm, name: &str, ranks: *const c_int, count: usize) -> Result<Vec<c_int>> {
    check_array(name, ranks, count)?;
    // SAFETY: the caller's array.
    let ranks = unsafe { slice(ranks, count) };
    with(|process| {
        let object = process.objects.communicator(comm.0)?.intra()?;
        for (at, rank) in ranks.iter().enumerate() {
            object.existing_rank(&format!("{name}[{at}]"), *rank)?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(ranks.to_vec())
}

fn check_array(name: &str, array: *const c_int, count: usize) -> Result<()> {
    if array.is_null() && count > 0 {
        return Err(Error::new(MPI_ERR_ARG, format!("{name} is a null pointer; it must have {count} elements")));
    }
    Ok(())
}

/// MPI_Dist_graph_create (MPI-5.0 §8.5.4): any process may give any edges. No info key is known.
pub(crate) unsafe fn dist_graph_create(
    comm_old: MPI_Comm,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights_of_edges: *const c_int,
    _info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's pointer. After an error it is no communicator.
    unsafe { *comm_dist_graph = MPI_Comm::NULL };
    compared(comm_old)?;
    let place = with(|process| process.collective_scope(comm_old.0))?;
    // SAFETY: the caller's arrays.
    let edges = unsafe { described_edges(comm_old, n as usize, sources, degrees, destinations, weights_of_edges) };
    let edges = open_creation(place, Creation::DistributedGraph, edges)?;
    let distributed = distribute(comm_old.0, &edges, !is_unweighted(weights_of_edges), reorder != 0)?;
    // SAFETY: the caller's pointer.
    unsafe { create_distributed(Creation::DistributedGraph, comm_old, distributed, comm_dist_graph) }
}

/// The edges that a process gives to a distributed graph.
///
/// # Safety
/// `sources` and `degrees` have `n` elements, the other two as many as the sum of the latter.
unsafe fn described_edges(
    comm_old: MPI_Comm,
    n: usize,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights_of_edges: *const c_int,
) -> Result<Vec<Edge>> {
    // SAFETY: the caller's arrays.
    let (sources, degrees) = unsafe { (ranks(comm_old, "sources", sources, n)?, slice(degrees, n)) };
    if let Some(at) = degrees.iter().position(|degree| *degree < 0) {
        let message = format!("degrees[{at}] is {}; it must not be negative", degrees[at]);
        return Err(Error::new(MPI_ERR_ARG, message));
    }
    let total: usize = degrees.iter().map(|degree| *degree as usize).sum();
    // SAFETY: the caller's array.
    let destinations = unsafe { ranks(comm_old, "destinations", destinations, total)? };
    let weighted = !is_unweighted(weights_of_edges);
    // SAFETY: the caller's array.
    let weights = if weighted { unsafe { weights("weights", weights_of_edges, total)? } } else { vec![1; total] };
    let from = sources.iter().zip(degrees).flat_map(|(source, degree)| std::iter::repeat_n(*source, *degree as usize));
    Ok(from.zip(destinations).zip(weights).map(|((from, to), weight)| (from, to, weight)).collect())
}

/// # Safety
/// `newcomm` can be written.
unsafe fn create_distributed(
    creation: Creation,
    comm_old: MPI_Comm,
    made: Distributed,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    let place = with(|process| process.collective_scope(comm_old.0))?;
    let topology = Arc::new(Topology::DistributedGraph(made.neighbours));
    // SAFETY: the caller's pointer.
    unsafe { create(creation, place, made.group, newcomm, |object| object.topology = Some(topology)) }
}

/// MPI_Dist_graph_create_adjacent (MPI-5.0 §8.5.4): each process gives its own neighbours. No info key is known.
pub(crate) unsafe fn dist_graph_create_adjacent(
    comm_old: MPI_Comm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    _info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's pointer. After an error it is no communicator.
    unsafe { *comm_dist_graph = MPI_Comm::NULL };
    compared(comm_old)?;
    let place = with(|process| process.collective_scope(comm_old.0))?;
    // SAFETY: the caller's arrays.
    let own = unsafe {
        let incoming = (indegree as usize, sources, sourceweights);
        described_neighbours(comm_old, incoming, (outdegree as usize, destinations, destweights))
    };
    let own = open_creation(place, Creation::DistributedGraphAdjacent, own)?;
    let distributed = distribute_adjacent(comm_old.0, own, reorder != 0)?;
    // SAFETY: the caller's pointer.
    unsafe { create_distributed(Creation::DistributedGraphAdjacent, comm_old, distributed, comm_dist_graph) }
}

/// The neighbours that a process gives itself in a distributed graph: of each side how many, their ranks, and weights.
///
/// # Safety
/// The arrays have as many elements.
unsafe fn described_neighbours(
    comm_old: MPI_Comm,
    (incoming, sources, sourceweights): (usize, *const c_int, *const c_int),
    (outgoing, destinations, destweights): (usize, *const c_int, *const c_int),
) -> Result<Neighbours> {
    // SAFETY: the caller's arrays.
    let (sources, destinations) = unsafe {
        (ranks(comm_old, "sources", sources, incoming)?, ranks(comm_old, "destinations", destinations, outgoing)?)
    };
    // A side without edges has no say, whatever is given for its weights.
    let unweighted = |weights: *const c_int, count: usize| (count > 0).then(|| is_unweighted(weights));
    let weights = match (unweighted(sourceweights, incoming), unweighted(destweights, outgoing)) {
        (Some(true), Some(false)) | (Some(false), Some(true)) => {
            let message = "one of sourceweights and destweights is MPI_UNWEIGHTED and the other is not";
            return Err(Error::new(MPI_ERR_ARG, message));
        }
        (Some(true), _) | (_, Some(true)) => None,
        (None, None) if is_unweighted(sourceweights) || is_unweighted(destweights) => None,
        // SAFETY: the caller's arrays.
        _ => Some(unsafe {
            (weights("sourceweights", sourceweights, incoming)?, weights("destweights", destweights, outgoing)?)
        }),
    };
    Ok(Neighbours { sources, destinations, weights })
}

/// MPI_Dist_graph_neighbors_count (MPI-5.0 §8.5.5).
pub(crate) unsafe fn dist_graph_neighbors_count(
    comm: MPI_Comm,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> Result<()> {
    let (sources, destinations, has_weights) = with(|process| {
        let found = process.objects.communicator(comm.0)?.neighbours()?;
        Ok::<_, Error>((found.sources.len(), found.destinations.len(), found.weights.is_some()))
    })?;
    // SAFETY: the caller's pointers.
    unsafe {
        *indegree = sources as c_int;
        *outdegree = destinations as c_int;
        *weighted = c_int::from(has_weights);
    }
    Ok(())
}

/// MPI_Dist_graph_neighbors (MPI-5.0 §8.5.5): where there is room for fewer neighbours than there are, the first ones. Weights are
/// not written where the graph has none.
pub(crate) unsafe fn dist_graph_neighbors(
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> Result<()> {
    let found = with(|process| Ok::<_, Error>(process.objects.communicator(comm.0)?.neighbours()?.clone()))?;
    let (incoming, outgoing) =
        (found.sources.len().min(maxindegree as usize), found.destinations.len().min(maxoutdegree as usize));
    // SAFETY: the caller's arrays of `maxindegree` and `maxoutdegree` elements.
    unsafe {
        give(sources, found.sources.into_iter().take(incoming));
        give(destinations, found.destinations.into_iter().take(outgoing));
    }
    let Some((of_sources, of_destinations)) = found.weights else { return Ok(()) };
    let lists = [
        ("sourceweights", sourceweights, of_sources, incoming),
        ("destweights", destweights, of_destinations, outgoing),
    ];
    for (name, array, list, count) in lists {
        // Who does not want them may say so.
        if is_unweighted(array) || array.addr() == MPI_WEIGHTS_EMPTY {
            continue;
        }
        check_array(name, array, count)?;
        // SAFETY: the caller's array.
        unsafe { give(array, list.into_iter().take(count)) };
    }
    Ok(())
}
