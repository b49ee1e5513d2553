//! A communicator's topology and ranks. The boundary's topology calls and neighbourhood collectives use them.

use crate::constants::{MPI_ERR_RANK, MPI_ERR_TOPOLOGY};
use crate::error::{Error, Result};
use crate::object::Communicator;
use crate::topology::{Graph, Grid, NeighbourLists, Neighbours, Topology};

impl Communicator {
    /// The processes with which this process exchanges data in the topology (MPI-5.0 §8.6).
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY` when the communicator has no topology.
    pub fn neighbour_lists(&self) -> Result<NeighbourLists> {
        let topology = self.topology.as_ref().ok_or_else(|| {
            let message =
                "the communicator has no topology, so that no process has neighbours in it (MPI-5.0 section 8.6)";
            Error::new(MPI_ERR_TOPOLOGY, message)
        })?;
        Ok(topology.neighbour_lists(self.rank))
    }

    /// The Cartesian topology of the communicator.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`.
    pub fn grid(&self) -> Result<&Grid> {
        match self.topology.as_deref() {
            Some(Topology::Cartesian(grid)) => Ok(grid),
            _ => Err(no_topology(self, "a Cartesian")),
        }
    }

    /// The graph topology of the communicator.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`.
    pub fn graph(&self) -> Result<&Graph> {
        match self.topology.as_deref() {
            Some(Topology::Graph(graph)) => Ok(graph),
            _ => Err(no_topology(self, "a graph")),
        }
    }

    /// The neighbours of this process in the distributed graph topology.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`.
    pub fn neighbours(&self) -> Result<&Neighbours> {
        match self.topology.as_deref() {
            Some(Topology::DistributedGraph(neighbours)) => Ok(neighbours),
            _ => Err(no_topology(self, "a distributed graph")),
        }
    }

    /// Checks the rank in an argument.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`.
    pub fn existing_rank(&self, name: &str, rank: i32) -> Result<u32> {
        let size = self.group.size();
        u32::try_from(rank).ok().filter(|rank| *rank < size).ok_or_else(|| {
            Error::new(
                MPI_ERR_RANK,
                format!("{name} is {rank}, but the ranks of the communicator are 0 to {}", size - 1),
            )
        })
    }
}

fn no_topology(communicator: &Communicator, wanted: &str) -> Error {
    let has = match communicator.topology.as_deref() {
        None => "no topology",
        Some(Topology::Cartesian(_)) => "a Cartesian one",
        Some(Topology::Graph(_)) => "a graph, made by MPI_Graph_create",
        Some(Topology::DistributedGraph(_)) => "a distributed graph",
    };
    Error::new(MPI_ERR_TOPOLOGY, format!("the communicator must have {wanted} topology, and has {has}"))
}
