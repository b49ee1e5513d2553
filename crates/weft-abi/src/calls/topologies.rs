//! Cartesian topologies (MPI-5.0 §8.5.1, §8.5.2, §8.5.5 to §8.5.8).

use crate::arguments::*;
use crate::calls::creation::{compared, create};
use crate::check;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use std::sync::Arc;
use weft_mpi::communicator::{Creation, needed};
use weft_mpi::error::{Error, Result};
use weft_mpi::process::with;
use weft_mpi::topology::{Dimension, Grid, Topology, balanced};

/// MPI_Topo_test (MPI-5.0 §8.5.5).
pub(crate) fn topo_test(comm: MPI_Comm, status: Out<c_int>) -> Result<()> {
    let kind = with(|process| {
        let topology = process.objects.communicator(comm.0)?.topology.clone();
        Ok(topology.map_or(MPI_UNDEFINED, |topology| topology.kind()))
    })?;
    status.set(kind);
    Ok(())
}

/// MPI_Dims_create (MPI-5.0 §8.5.2).
pub(crate) fn dims_create(nnodes: c_int, ndims: c_int, dims: InOutArray<c_int>) -> Result<()> {
    let wrong = |message: String| Err(Error::new(MPI_ERR_DIMS, message));
    let Some(nodes) = u32::try_from(nnodes).ok().filter(|nodes| *nodes > 0) else {
        return wrong(format!("nnodes is {nnodes}; it must be at least 1"));
    };
    let mut rest = nodes;
    for (index, dim) in dims.as_in().iter().enumerate().filter(|(_, dim)| *dim != 0) {
        match u32::try_from(dim) {
            Ok(given) if rest.is_multiple_of(given) => rest /= given,
            Ok(_) => return wrong(format!("nnodes is {nnodes}, no multiple of the given dims")),
            Err(_) => return wrong(format!("dims[{index}] is {dim}; it must not be negative")),
        }
    }
    let open = dims.as_in().iter().filter(|dim| *dim == 0).count();
    if open == 0 && ndims > 0 && rest != 1 {
        return wrong(format!("nnodes is {nnodes}, but the given dims have {} nodes", nodes / rest));
    }
    let open_dims = (0..dims.len()).map(|index| dims.at(index)).filter(|dim| dim.get() == 0);
    for (dim, factor) in open_dims.zip(balanced(rest, open)) {
        dim.set(factor as c_int);
    }
    Ok(())
}

/// Reads the grid that a program describes. It may have at most as many vertices as `processes`.
fn described_grid(dims: InArray<c_int>, periods: InArray<c_int>, processes: u32) -> Result<Grid> {
    let (dims, periods) = (dims.to_vec(), periods.to_vec());
    if let Some(index) = dims.iter().position(|dim| *dim < 1) {
        return Err(Error::new(MPI_ERR_DIMS, format!("dims[{index}] is {}; it must be at least 1", dims[index])));
    }
    let dimension = |(size, periodic): (&c_int, &c_int)| Dimension { size: *size as u32, periodic: *periodic != 0 };
    let grid = Grid::new(dims.iter().zip(&periods).map(dimension).collect());
    grid.filter(|grid| grid.size() <= processes).ok_or_else(|| {
        let wanted: Vec<String> = dims.iter().map(c_int::to_string).collect();
        let message =
            format!("a grid of {} is larger than the communicator, which has {processes}", wanted.join(" × "));
        Error::new(MPI_ERR_DIMS, message)
    })
}

/// MPI_Cart_create (MPI-5.0 §8.5.1).
pub(crate) fn cart_create(
    comm_old: MPI_Comm,
    _ndims: c_int,
    dims: InArray<c_int>,
    periods: InArray<c_int>,
    reorder: c_int,
    comm_cart: Out<MPI_Comm>,
) -> Result<()> {
    comm_cart.set(MPI_Comm::NULL);
    compared(comm_old)?;
    let (scope, described) = with(|process| {
        let group = process.objects.communicator(comm_old.0)?.intra()?.group.clone();
        let described = described_grid(dims, periods, group.size()).map(|grid| {
            let ranks = process.ranks_in_grid(&group, &grid, reorder != 0);
            (group.of_ranks(&ranks), grid)
        });
        Ok::<_, Error>((process.collective_scope(comm_old.0)?, described))
    })?;
    let (group, grid) = needed(&scope, Creation::Cartesian, described)?;
    let topology = Arc::new(Topology::Cartesian(grid));
    create(Creation::Cartesian, scope, group, comm_cart, |object| object.topology = Some(topology))
}

/// MPI_Cart_map (MPI-5.0 §8.5.8): the rank that MPI_Cart_create with `reorder` gives. Local.
pub(crate) fn cart_map(
    comm: MPI_Comm,
    _ndims: c_int,
    dims: InArray<c_int>,
    periods: InArray<c_int>,
    newrank: Out<c_int>,
) -> Result<()> {
    let rank = with(|process| {
        let group = process.objects.communicator(comm.0)?.intra()?.group.clone();
        let grid = described_grid(dims, periods, group.size())?;
        let ranks = process.ranks_in_grid(&group, &grid, true);
        Ok::<_, Error>(group.of_ranks(&ranks).rank)
    })?;
    newrank.set(rank.map_or(MPI_UNDEFINED, |rank| rank as c_int));
    Ok(())
}

/// MPI_Cartdim_get (MPI-5.0 §8.5.5).
pub(crate) fn cartdim_get(comm: MPI_Comm, ndims: Out<c_int>) -> Result<()> {
    let count = with(|process| Ok(process.objects.communicator(comm.0)?.grid()?.dimensions().len()))?;
    ndims.set(count as c_int);
    Ok(())
}

fn check_room(maxdims: c_int, grid: &Grid) -> Result<()> {
    let count = grid.dimensions().len();
    if (maxdims as usize) < count {
        return Err(Error::new(MPI_ERR_ARG, format!("maxdims is {maxdims}, but the grid has {count} dimensions")));
    }
    Ok(())
}

/// MPI_Cart_get (MPI-5.0 §8.5.5).
pub(crate) fn cart_get(
    comm: MPI_Comm,
    maxdims: c_int,
    dims: OutArray<c_int>,
    periods: OutArray<c_int>,
    coords: OutArray<c_int>,
) -> Result<()> {
    let (grid, own) = with(|process| {
        let object = process.objects.communicator(comm.0)?;
        let grid = object.grid()?;
        check_room(maxdims, grid)?;
        Ok::<_, Error>((grid.clone(), grid.coordinates(object.rank)))
    })?;
    dims.fill(grid.dimensions().iter().map(|dimension| dimension.size as c_int));
    periods.fill(grid.dimensions().iter().map(|dimension| c_int::from(dimension.periodic)));
    coords.fill(own.into_iter().map(|coordinate| coordinate as c_int));
    Ok(())
}

/// MPI_Cart_rank (MPI-5.0 §8.5.5): coordinates of periodic dimensions may be any numbers.
pub(crate) fn cart_rank(comm: MPI_Comm, coords: UnmeasuredArray<c_int>, rank: Out<c_int>) -> Result<()> {
    let found = with(|process| {
        let grid = process.objects.communicator(comm.0)?.grid()?;
        let count = grid.dimensions().len();
        check::array("coords", coords.as_ptr(), count as i64)?;
        // SAFETY: `coords` has an element for each dimension (MPI-5.0 §8.5.5), and is not null.
        let coords = unsafe { coords.measured(count) }.to_vec();
        grid.rank(&coords).map_err(|index| {
            let (coordinate, last) = (coords[index], grid.dimensions()[index].size - 1);
            let message =
                format!("coords[{index}] is {coordinate}, but that dimension is not periodic and ends at {last}");
            Error::new(MPI_ERR_ARG, message)
        })
    })?;
    rank.set(found as c_int);
    Ok(())
}

/// MPI_Cart_coords (MPI-5.0 §8.5.5).
pub(crate) fn cart_coords(comm: MPI_Comm, rank: c_int, maxdims: c_int, coords: OutArray<c_int>) -> Result<()> {
    let found = with(|process| {
        let object = process.objects.communicator(comm.0)?;
        let grid = object.grid()?;
        let rank = object.existing_rank("rank", rank)?;
        check_room(maxdims, grid)?;
        Ok::<_, Error>(grid.coordinates(rank))
    })?;
    coords.fill(found.into_iter().map(|coordinate| coordinate as c_int));
    Ok(())
}

/// MPI_Cart_shift (MPI-5.0 §8.5.6).
pub(crate) fn cart_shift(
    comm: MPI_Comm,
    direction: c_int,
    disp: c_int,
    rank_source: Out<c_int>,
    rank_dest: Out<c_int>,
) -> Result<()> {
    let (source, destination) = with(|process| {
        let object = process.objects.communicator(comm.0)?;
        let grid = object.grid()?;
        let count = grid.dimensions().len();
        let direction = usize::try_from(direction).ok().filter(|direction| *direction < count).ok_or_else(|| {
            let message = format!("direction is {direction}, but the grid has {count} dimensions, counted from 0");
            Error::new(MPI_ERR_ARG, message)
        })?;
        Ok::<_, Error>(grid.shift(object.rank, direction, disp))
    })?;
    let rank = |neighbour: Option<u32>| neighbour.map_or(MPI_PROC_NULL, |rank| rank as c_int);
    rank_source.set(rank(source));
    rank_dest.set(rank(destination));
    Ok(())
}

/// MPI_Cart_sub (MPI-5.0 §8.5.7).
pub(crate) fn cart_sub(comm: MPI_Comm, remain_dims: UnmeasuredArray<c_int>, newcomm: Out<MPI_Comm>) -> Result<()> {
    newcomm.set(MPI_Comm::NULL);
    compared(comm)?;
    let (scope, described) = with(|process| {
        let object = process.objects.communicator(comm.0)?;
        let (grid, group) = (object.grid()?, object.group.clone());
        let count = grid.dimensions().len();
        let described = check::array("remain_dims", remain_dims.as_ptr(), count as i64).map(|()| {
            // SAFETY: `remain_dims` has an element for each dimension (MPI-5.0 §8.5.7), and is not null.
            let remain_dims = unsafe { remain_dims.measured(count) };
            let remain: Vec<bool> = remain_dims.iter().map(|remains| remains != 0).collect();
            let members = grid.members_of_subgrid(object.rank, &remain);
            (group.of_ranks(&members), grid.subgrid(&remain))
        });
        Ok::<_, Error>((process.collective_scope(comm.0)?, described))
    })?;
    let (group, grid) = needed(&scope, Creation::CartesianSub, described)?;
    let topology = Arc::new(Topology::Cartesian(grid));
    create(Creation::CartesianSub, scope, group, newcomm, |object| object.topology = Some(topology))
}
