//! Graph topologies (MPI-5.0 §8.5.3 to §8.5.5, §8.5.8).

use crate::arguments::*;
use crate::calls::creation::{compared, create};
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

/// Reads the graph that a program describes. It may have at most as many nodes as `processes`.
fn described_graph(
    nnodes: c_int,
    index: InArray<c_int>,
    edges: UnmeasuredArray<c_int>,
    processes: u32,
) -> Result<Graph> {
    if !u32::try_from(nnodes).is_ok_and(|nodes| nodes <= processes) {
        let message = format!("nnodes is {nnodes}; it must be from 0 to {processes}, the size of the communicator");
        return Err(Error::new(MPI_ERR_ARG, message));
    }
    let index = index.to_vec();
    let count = Graph::check_index(&index)?;
    check::array("edges", edges.as_ptr(), count as i64)?;
    // SAFETY: the last element of `index` is the number of edges (MPI-5.0 §8.5.3), and `edges` is not null.
    let edges = unsafe { edges.measured(count) };
    Graph::new(index, edges.to_vec())
}

/// MPI_Graph_create (MPI-5.0 §8.5.3): a graph without nodes is no communicator at all.
pub(crate) fn graph_create(
    comm_old: MPI_Comm,
    nnodes: c_int,
    index: InArray<c_int>,
    edges: UnmeasuredArray<c_int>,
    reorder: c_int,
    comm_graph: Out<MPI_Comm>,
) -> Result<()> {
    comm_graph.set(MPI_Comm::NULL);
    compared(comm_old)?;
    let (scope, described) = with(|process| {
        let group = process.objects.communicator(comm_old.0)?.intra()?.group.clone();
        let described = described_graph(nnodes, index, edges, group.size()).map(|graph| {
            let ranks = process.ranks_in_graph(&group, &graph, reorder != 0);
            (group.of_ranks(&ranks), graph)
        });
        Ok::<_, Error>((process.collective_scope(comm_old.0)?, described))
    })?;
    let (group, graph) = needed(&scope, Creation::Graph, described)?;
    let topology = Arc::new(Topology::Graph(graph));
    create(Creation::Graph, scope, group, comm_graph, |object| object.topology = Some(topology))
}

/// MPI_Graph_map (MPI-5.0 §8.5.8): the rank that MPI_Graph_create with `reorder` gives. Local.
pub(crate) fn graph_map(
    comm: MPI_Comm,
    nnodes: c_int,
    index: InArray<c_int>,
    edges: UnmeasuredArray<c_int>,
    newrank: Out<c_int>,
) -> Result<()> {
    let rank = with(|process| {
        let group = process.objects.communicator(comm.0)?.intra()?.group.clone();
        let graph = described_graph(nnodes, index, edges, group.size())?;
        let ranks = process.ranks_in_graph(&group, &graph, true);
        Ok::<_, Error>(group.of_ranks(&ranks).rank)
    })?;
    newrank.set(rank.map_or(MPI_UNDEFINED, |rank| rank as c_int));
    Ok(())
}

/// MPI_Graphdims_get (MPI-5.0 §8.5.5).
pub(crate) fn graphdims_get(comm: MPI_Comm, nnodes: Out<c_int>, nedges: Out<c_int>) -> Result<()> {
    let (nodes, edges) = with(|process| {
        let graph = process.objects.communicator(comm.0)?.graph()?;
        Ok::<_, Error>((graph.index.len(), graph.edges.len()))
    })?;
    nnodes.set(nodes as c_int);
    nedges.set(edges as c_int);
    Ok(())
}

fn check_room(name: &str, room: c_int, needed: usize) -> Result<()> {
    if (room as usize) < needed {
        return Err(Error::new(MPI_ERR_ARG, format!("{name} is {room}, but there are {needed}")));
    }
    Ok(())
}

/// MPI_Graph_get (MPI-5.0 §8.5.5).
pub(crate) fn graph_get(
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    index: OutArray<c_int>,
    edges: OutArray<c_int>,
) -> Result<()> {
    with(|process| {
        let graph = process.objects.communicator(comm.0)?.graph()?;
        check_room("maxindex", maxindex, graph.index.len())?;
        check_room("maxedges", maxedges, graph.edges.len())?;
        index.fill(graph.index.iter().copied());
        edges.fill(graph.edges.iter().copied());
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
pub(crate) fn graph_neighbors_count(comm: MPI_Comm, rank: c_int, nneighbors: Out<c_int>) -> Result<()> {
    let count = neighbours_of(comm, rank)?.len();
    nneighbors.set(count as c_int);
    Ok(())
}

/// MPI_Graph_neighbors (MPI-5.0 §8.5.5).
pub(crate) fn graph_neighbors(
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: OutArray<c_int>,
) -> Result<()> {
    let found = neighbours_of(comm, rank)?;
    check_room("maxneighbors", maxneighbors, found.len())?;
    neighbors.fill(found.into_iter());
    Ok(())
}

/// Returns whether an array of weights says that there are none.
fn is_unweighted(weights: *const c_int) -> bool {
    weights.addr() == MPI_UNWEIGHTED
}

/// The weights of `count` edges. Without edges the array may be MPI_WEIGHTS_EMPTY, or anything.
///
/// # Safety
/// The array has `count` elements, unless it is one of the special addresses.
unsafe fn weights(name: &str, weights: UnmeasuredArray<c_int>, count: usize) -> Result<Vec<c_int>> {
    let address = weights.as_ptr();
    if count > 0 && (address.is_null() || address.addr() == MPI_WEIGHTS_EMPTY) {
        let found = if address.is_null() { "a null pointer" } else { "MPI_WEIGHTS_EMPTY" };
        return Err(Error::new(MPI_ERR_ARG, format!("{name} is {found}; it must have {count} elements")));
    }
    // SAFETY: the caller's promise; the address is none of the special ones.
    let weights = unsafe { weights.measured(count) }.to_vec();
    match weights.iter().position(|weight| *weight < 0) {
        Some(at) => {
            let message = format!("{name}[{at}] is {}; a weight must not be negative", weights[at]);
            Err(Error::new(MPI_ERR_ARG, message))
        }
        None => Ok(weights),
    }
}

/// Reads an array of ranks of the communicator `comm`.
fn ranks(comm: MPI_Comm, name: &str, ranks: InArray<c_int>) -> Result<Vec<c_int>> {
    let ranks = ranks.to_vec();
    with(|process| {
        let object = process.objects.communicator(comm.0)?.intra()?;
        for (at, rank) in ranks.iter().enumerate() {
            object.existing_rank(&format!("{name}[{at}]"), *rank)?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(ranks)
}

fn check_array(name: &str, array: *const c_int, count: usize) -> Result<()> {
    if array.is_null() && count > 0 {
        return Err(Error::new(MPI_ERR_ARG, format!("{name} is a null pointer; it must have {count} elements")));
    }
    Ok(())
}

/// MPI_Dist_graph_create (MPI-5.0 §8.5.4): any process may give any edges. No info key is known.
pub(crate) fn dist_graph_create(
    comm_old: MPI_Comm,
    _n: c_int,
    sources: InArray<c_int>,
    degrees: InArray<c_int>,
    destinations: UnmeasuredArray<c_int>,
    weights_of_edges: UnmeasuredArray<c_int>,
    _info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: Out<MPI_Comm>,
) -> Result<()> {
    comm_dist_graph.set(MPI_Comm::NULL);
    compared(comm_old)?;
    let scope = with(|process| process.collective_scope(comm_old.0))?;
    let edges = described_edges(comm_old, sources, degrees, destinations, weights_of_edges);
    let edges = open_creation(scope, Creation::DistributedGraph, edges)?;
    let distributed = distribute(comm_old.0, &edges, !is_unweighted(weights_of_edges.as_ptr()), reorder != 0)?;
    create_distributed(Creation::DistributedGraph, comm_old, distributed, comm_dist_graph)
}

/// The edges that a process gives to a distributed graph.
fn described_edges(
    comm_old: MPI_Comm,
    sources: InArray<c_int>,
    degrees: InArray<c_int>,
    destinations: UnmeasuredArray<c_int>,
    weights_of_edges: UnmeasuredArray<c_int>,
) -> Result<Vec<Edge>> {
    let (sources, degrees) = (ranks(comm_old, "sources", sources)?, degrees.to_vec());
    if let Some(at) = degrees.iter().position(|degree| *degree < 0) {
        let message = format!("degrees[{at}] is {}; it must not be negative", degrees[at]);
        return Err(Error::new(MPI_ERR_ARG, message));
    }
    let total: usize = degrees.iter().map(|degree| *degree as usize).sum();
    check_array("destinations", destinations.as_ptr(), total)?;
    // SAFETY: there is one for each edge, and the degrees are the numbers of edges (MPI-5.0 §8.5.4); the
    // array is not null.
    let destinations = ranks(comm_old, "destinations", unsafe { destinations.measured(total) })?;
    let weighted = !is_unweighted(weights_of_edges.as_ptr());
    // SAFETY: there is one for each edge.
    let weights = if weighted { unsafe { weights("weights", weights_of_edges, total)? } } else { vec![1; total] };
    let from = sources.iter().zip(&degrees).flat_map(|(source, degree)| std::iter::repeat_n(*source, *degree as usize));
    Ok(from.zip(destinations).zip(weights).map(|((from, to), weight)| (from, to, weight)).collect())
}

fn create_distributed(creation: Creation, comm_old: MPI_Comm, made: Distributed, newcomm: Out<MPI_Comm>) -> Result<()> {
    let scope = with(|process| process.collective_scope(comm_old.0))?;
    let topology = Arc::new(Topology::DistributedGraph(made.neighbours));
    create(creation, scope, made.group, newcomm, |object| object.topology = Some(topology))
}

/// MPI_Dist_graph_create_adjacent (MPI-5.0 §8.5.4): each process gives its own neighbours. No info key is
/// known.
pub(crate) fn dist_graph_create_adjacent(
    comm_old: MPI_Comm,
    _indegree: c_int,
    sources: InArray<c_int>,
    sourceweights: UnmeasuredArray<c_int>,
    _outdegree: c_int,
    destinations: InArray<c_int>,
    destweights: UnmeasuredArray<c_int>,
    _info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: Out<MPI_Comm>,
) -> Result<()> {
    comm_dist_graph.set(MPI_Comm::NULL);
    compared(comm_old)?;
    let scope = with(|process| process.collective_scope(comm_old.0))?;
    let own = described_neighbours(comm_old, (sources, sourceweights), (destinations, destweights));
    let own = open_creation(scope, Creation::DistributedGraphAdjacent, own)?;
    let distributed = distribute_adjacent(comm_old.0, own, reorder != 0)?;
    create_distributed(Creation::DistributedGraphAdjacent, comm_old, distributed, comm_dist_graph)
}

/// The neighbours that a process gives for itself in a distributed graph: for each side their ranks, and
/// weights.
fn described_neighbours(
    comm_old: MPI_Comm,
    (sources, sourceweights): (InArray<c_int>, UnmeasuredArray<c_int>),
    (destinations, destweights): (InArray<c_int>, UnmeasuredArray<c_int>),
) -> Result<Neighbours> {
    let (incoming, outgoing) = (sources.len(), destinations.len());
    let (sources, destinations) =
        (ranks(comm_old, "sources", sources)?, ranks(comm_old, "destinations", destinations)?);
    // A side without edges decides nothing, whatever is given for its weights.
    let is_unweighted = |weights: UnmeasuredArray<c_int>| is_unweighted(weights.as_ptr());
    let unweighted = |weights: UnmeasuredArray<c_int>, count: usize| (count > 0).then(|| is_unweighted(weights));
    let weights = match (unweighted(sourceweights, incoming), unweighted(destweights, outgoing)) {
        (Some(true), Some(false)) | (Some(false), Some(true)) => {
            let message = "one of sourceweights and destweights is MPI_UNWEIGHTED and the other is not";
            return Err(Error::new(MPI_ERR_ARG, message));
        }
        (Some(true), _) | (_, Some(true)) => None,
        (None, None) if is_unweighted(sourceweights) || is_unweighted(destweights) => None,
        // SAFETY: there is one for each neighbour (MPI-5.0 §8.5.4).
        _ => Some(unsafe {
            (weights("sourceweights", sourceweights, incoming)?, weights("destweights", destweights, outgoing)?)
        }),
    };
    Ok(Neighbours { sources, destinations, weights })
}

/// MPI_Dist_graph_neighbors_count (MPI-5.0 §8.5.5).
pub(crate) fn dist_graph_neighbors_count(
    comm: MPI_Comm,
    indegree: Out<c_int>,
    outdegree: Out<c_int>,
    weighted: Out<c_int>,
) -> Result<()> {
    let (sources, destinations, has_weights) = with(|process| {
        let found = process.objects.communicator(comm.0)?.neighbours()?;
        Ok::<_, Error>((found.sources.len(), found.destinations.len(), found.weights.is_some()))
    })?;
    indegree.set(sources as c_int);
    outdegree.set(destinations as c_int);
    weighted.set(c_int::from(has_weights));
    Ok(())
}

/// MPI_Dist_graph_neighbors (MPI-5.0 §8.5.5): where there is room for fewer neighbours than exist, the first
/// ones. Weights are not written where the graph has none.
pub(crate) unsafe fn dist_graph_neighbors(
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: OutArray<c_int>,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: OutArray<c_int>,
    destweights: *mut c_int,
) -> Result<()> {
    let found = with(|process| Ok::<_, Error>(process.objects.communicator(comm.0)?.neighbours()?.clone()))?;
    let (incoming, outgoing) =
        (found.sources.len().min(maxindegree as usize), found.destinations.len().min(maxoutdegree as usize));
    sources.fill(found.sources.into_iter().take(incoming));
    destinations.fill(found.destinations.into_iter().take(outgoing));
    let Some((of_sources, of_destinations)) = found.weights else { return Ok(()) };
    let lists = [
        ("sourceweights", sourceweights, of_sources, incoming),
        ("destweights", destweights, of_destinations, outgoing),
    ];
    for (name, array, list, count) in lists {
        // A program that does not want the weights may say so.
        if is_unweighted(array) || array.addr() == MPI_WEIGHTS_EMPTY {
            continue;
        }
        check_array(name, array, count)?;
        // SAFETY: there is room for as many as for neighbours (MPI-5.0 §8.5.5), and the address is none of
        // the special ones.
        unsafe { OutArray::new(array, count as i64) }.fill(list.into_iter().take(count));
    }
    Ok(())
}
