//! Collective communication with the neighbours in a virtual topology (MPI-5.0 §8.6).

use super::buffers::Partners;
use super::sides::{Side, plan_exchange};
use super::{called, run};
use crate::arguments::*;
use crate::types::*;
use weft_mpi::algorithms::{self, NeighbourExchange};
use weft_mpi::error::Result;

/// Carries out one exchange between the neighbours of the topology.
fn exchange(form: Form, comm: MPI_Comm, send: Side, receive: Side) -> Result<()> {
    run(
        form,
        comm,
        &|process, comm| {
            let neighbours = comm.neighbour_lists()?;
            let send = (send, Partners::destinations(&neighbours));
            let receive = (receive, Partners::sources(&neighbours));
            plan_exchange(process, send, receive, |send, receive| {
                algorithms::neighbour_exchange(&NeighbourExchange {
                    rank: comm.rank,
                    sources: &neighbours.sources,
                    destinations: &neighbours.destinations,
                    is_grid: neighbours.is_grid,
                    send,
                    receive,
                })
            })
        },
        &|process, comm| called::neighbours(process, comm, &send, &receive),
    )
}

/// MPI_Neighbor_allgather (MPI-5.0 §8.6.1).
pub(crate) fn neighbor_allgather(form: Form, send: Part, receive: Part, comm: MPI_Comm) -> Result<()> {
    exchange(form, comm, Side::Same(send), Side::Consecutive(receive))
}

/// MPI_Neighbor_allgatherv (MPI-5.0 §8.6.1).
pub(crate) fn neighbor_allgatherv(form: Form, send: Part, receive: Parts, comm: MPI_Comm) -> Result<()> {
    exchange(form, comm, Side::Same(send), Side::Listed(receive))
}

/// MPI_Neighbor_alltoall (MPI-5.0 §8.6.2).
pub(crate) fn neighbor_alltoall(form: Form, send: Part, receive: Part, comm: MPI_Comm) -> Result<()> {
    exchange(form, comm, Side::Consecutive(send), Side::Consecutive(receive))
}

/// MPI_Neighbor_alltoallv (MPI-5.0 §8.6.2).
pub(crate) fn neighbor_alltoallv(form: Form, send: Parts, receive: Parts, comm: MPI_Comm) -> Result<()> {
    exchange(form, comm, Side::Listed(send), Side::Listed(receive))
}

/// MPI_Neighbor_alltoallw (MPI-5.0 §8.6.2).
pub(crate) fn neighbor_alltoallw(form: Form, send: TypedParts, receive: TypedParts, comm: MPI_Comm) -> Result<()> {
    exchange(form, comm, Side::Typed(send), Side::Typed(receive))
}
