//! Virtual topologies: the neighbours of a communicator's processes (MPI-5.0 §8). The boundary's topology
//! calls make and read them.

pub use weft_plan::topology::{Dimension, Grid, Neighbourhood, balanced};

use crate::constants::*;
use crate::error::{Error, Result};

/// The topology of a communicator.
#[derive(Debug)]
pub enum Topology {
    /// A grid (MPI-5.0 §8.5.1).
    Cartesian(Grid),
    /// A graph that every process knows (§8.5.3).
    Graph(Graph),
    /// A graph of which each process knows its neighbours (§8.5.4).
    DistributedGraph(Neighbours),
}

impl Topology {
    /// The constant that names the kind of topology.
    pub fn kind(&self) -> i32 {
        match self {
            Self::Cartesian(_) => MPI_CART,
            Self::Graph(_) => MPI_GRAPH,
            Self::DistributedGraph(_) => MPI_DIST_GRAPH,
        }
    }
}

/// The processes with which a process exchanges data in its topology (MPI-5.0 §8.6), in the order of its
/// buffers; `None` where a grid ends.
pub struct NeighbourLists {
    /// The processes from which data comes.
    pub sources: Vec<Option<u32>>,
    /// The processes to which data goes.
    pub destinations: Vec<Option<u32>>,
    /// The topology is a grid: data that is sent one way along a dimension arrives from the opposite way.
    pub is_grid: bool,
}

impl Topology {
    /// The lists of process `rank`, which is this one.
    pub(crate) fn neighbour_lists(&self, rank: u32) -> NeighbourLists {
        let ranks = |list: &[i32]| list.iter().map(|rank| u32::try_from(*rank).ok()).collect::<Vec<_>>();
        match self {
            Self::Cartesian(grid) => {
                let along = |dimension| <[_; 2]>::from(grid.shift(rank, dimension, 1));
                let both: Vec<_> = (0..grid.dimensions().len()).flat_map(along).collect();
                NeighbourLists { sources: both.clone(), destinations: both, is_grid: true }
            }
            Self::Graph(graph) => {
                let both = ranks(graph.neighbours(rank as usize));
                NeighbourLists { sources: both.clone(), destinations: both, is_grid: false }
            }
            Self::DistributedGraph(neighbours) => NeighbourLists {
                sources: ranks(&neighbours.sources),
                destinations: ranks(&neighbours.destinations),
                is_grid: false,
            },
        }
    }
}

/// A graph in the form of the arguments of `MPI_Graph_create`.
#[derive(Debug)]
pub struct Graph {
    /// For each process, the number of edges of it and of all processes before it.
    pub index: Vec<i32>,
    /// The neighbours of each process, one process after the other.
    pub edges: Vec<i32>,
}

impl Graph {
    /// Checks `index`, and returns the number of edges.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: an index is negative or smaller than the one before it.
    pub fn check_index(index: &[i32]) -> Result<usize> {
        let mut before = 0;
        for (node, edges) in index.iter().enumerate() {
            if *edges < before {
                let message =
                    format!("index[{node}] is {edges}; it must not be less than {before}, the one before it or 0");
                return Err(Error::new(MPI_ERR_ARG, message));
            }
            before = *edges;
        }
        Ok(before as usize)
    }

    /// Makes a graph of these edges.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: an edge leads to no process of the graph.
    pub fn new(index: Vec<i32>, edges: Vec<i32>) -> Result<Self> {
        let nodes = index.len();
        if let Some(edge) = edges.iter().position(|to| usize::try_from(*to).is_ok_and(|to| to < nodes).eq(&false)) {
            let message =
                format!("edges[{edge}] is {}, but the nodes of the graph are 0 to {}", edges[edge], nodes - 1);
            return Err(Error::new(MPI_ERR_ARG, message));
        }
        Ok(Self { index, edges })
    }

    /// The neighbours of process `rank`, which exists.
    pub fn neighbours(&self, rank: usize) -> &[i32] {
        let first = if rank == 0 { 0 } else { self.index[rank - 1] };
        &self.edges[first as usize..self.index[rank] as usize]
    }

    /// The neighbourhood of the graph, whatever the direction of an edge is.
    pub(crate) fn neighbourhood(&self) -> Neighbourhood {
        let of = |rank: usize| self.neighbours(rank).iter().map(move |to| (rank as u32, *to as u32, 1));
        Neighbourhood::new(self.index.len() as u32, (0..self.index.len()).flat_map(of))
    }
}

/// The neighbours of one process of a distributed graph, with the weights of the edges if they have any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// The processes from which edges come.
    pub sources: Vec<i32>,
    /// The processes to which edges lead.
    pub destinations: Vec<i32>,
    /// Weights of both.
    pub weights: Option<(Vec<i32>, Vec<i32>)>,
}

impl Neighbours {
    /// Converts it to numbers that can be sent.
    pub(crate) fn to_numbers(&self) -> Vec<i64> {
        let (of_sources, of_destinations) = self.weights.clone().unwrap_or_default();
        let counts = [self.sources.len() as i64, self.destinations.len() as i64, i64::from(self.weights.is_some())];
        let lists = [&self.sources, &self.destinations, &of_sources, &of_destinations];
        counts.into_iter().chain(lists.into_iter().flatten().map(|number| i64::from(*number))).collect()
    }

    /// Reads it from numbers that were sent.
    pub(crate) fn of_numbers(numbers: &[i64]) -> Self {
        let [sources, destinations, weighted, ref rest @ ..] = *numbers else { return Self::default() };
        let mut rest = rest.iter().map(|number| *number as i32);
        let mut take = |count: i64| rest.by_ref().take(count as usize).collect::<Vec<i32>>();
        let (from, to) = (take(sources), take(destinations));
        let weights = (weighted != 0).then(|| (take(sources), take(destinations)));
        Self { sources: from, destinations: to, weights }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_travel_as_numbers() {
        let plain = Neighbours { sources: vec![3, 1], destinations: vec![], weights: None };
        let weighted =
            Neighbours { sources: vec![0], destinations: vec![2, 2], weights: Some((vec![7], vec![0, i32::MAX])) };
        let empty = Neighbours { weights: Some((vec![], vec![])), ..Neighbours::default() };
        for neighbours in [plain, weighted, empty, Neighbours::default()] {
            assert_eq!(Neighbours::of_numbers(&neighbours.to_numbers()), neighbours);
        }
    }

    #[test]
    fn a_graph_is_checked() {
        assert_eq!(Graph::check_index(&[2, 2, 5]).unwrap(), 5);
        assert_eq!(Graph::check_index(&[2, 1]).expect_err("it falls").class, MPI_ERR_ARG);
        assert_eq!(Graph::check_index(&[-1]).expect_err("negative").class, MPI_ERR_ARG);
        assert!(Graph::new(vec![1, 2], vec![0, 2]).is_err());
        assert!(Graph::new(vec![1, 2], vec![-1, 0]).is_err());
        let graph = Graph::new(vec![2, 2, 3], vec![1, 1, 2]).unwrap();
        assert_eq!((graph.neighbours(0), graph.neighbours(1), graph.neighbours(2)), (&[1, 1][..], &[][..], &[2][..]));
    }
}
