//! Ways through a grid that keep close vertices together: a node that takes the next vertices of such a way
//! takes a compact part.

use alloc::vec;
use alloc::vec::Vec;

use super::Grid;

/// Most steps for making all ways together.
const STEPS_MAX: usize = 1 << 22;
/// Most ways that are made, however small the grid is.
const ORDERS_MAX: usize = 128;

/// Ways through the grid block by block, for blocks of different shapes. Compact blocks as large as a node
/// come first.
pub(super) fn orders(grid: &Grid, capacities: &[u32]) -> Vec<Vec<u32>> {
    let sizes: Vec<u32> = grid.dimensions().iter().map(|dimension| dimension.size).collect();
    let limit = (STEPS_MAX / (grid.size() as usize * sizes.len().max(1))).clamp(1, ORDERS_MAX);
    let mut shapes = shapes(&sizes, capacities);
    shapes.truncate(limit);
    shapes.iter().map(|shape| by_blocks(grid, shape)).collect()
}

/// Shapes of blocks that divide the grid, the most promising first.
fn shapes(sizes: &[u32], capacities: &[u32]) -> Vec<Vec<u32>> {
    /// Most shapes that are looked at.
    const LOOKED_AT_MAX: usize = 1 << 14;
    let mean = (sizes.iter().product::<u32>() / capacities.len().max(1) as u32).max(1);
    let mut shapes = vec![Vec::new()];
    for size in sizes {
        let divisors: Vec<u32> = (1..=*size).filter(|divisor| size.is_multiple_of(*divisor)).collect();
        let longer = |shape: &Vec<u32>| {
            let shape = shape.clone();
            divisors.clone().into_iter().map(move |divisor| [&shape[..], &[divisor]].concat())
        };
        shapes = shapes.iter().flat_map(longer).collect();
        // A block larger than a node is only good as a way to a smaller block.
        shapes.retain(|shape| shape.iter().map(|side| u64::from(*side)).product::<u64>() <= u64::from(mean));
        shapes.truncate(LOOKED_AT_MAX);
    }
    let promise = |shape: &Vec<u32>| {
        let volume: u64 = shape.iter().map(|side| u64::from(*side)).product();
        // The faces that a block shares with others: two in each dimension that it does not fill.
        let faces =
            shape.iter().zip(sizes).filter(|(side, size)| side < size).map(|(side, _)| 2 * volume / u64::from(*side));
        (core::cmp::Reverse(volume), faces.sum::<u64>())
    };
    weft_ordered::sort_by_key(&mut shapes, promise);
    shapes
}

/// All vertices, block by block: blocks in the order of the grid, and so the vertices in a block.
fn by_blocks(grid: &Grid, shape: &[u32]) -> Vec<u32> {
    let mut vertices: Vec<(Vec<u32>, u32)> = Vec::with_capacity(grid.size() as usize);
    for vertex in 0..grid.size() {
        let coordinates = grid.coordinates(vertex);
        vertices.push((coordinates.iter().zip(shape).map(|(coordinate, side)| coordinate / side).collect(), vertex));
    }
    weft_ordered::sort(&mut vertices);
    vertices.into_iter().map(|(_, vertex)| vertex).collect()
}

/// The node of each vertex when the grid is cut in two across its longest side, with half of the nodes on
/// each side, and so on. For nodes of any sizes.
pub(super) fn bisected(grid: &Grid, capacities: &[u32]) -> Vec<u32> {
    let mut nodes = vec![0; grid.size() as usize];
    let mut vertices: Vec<(u32, Vec<u32>)> =
        (0..grid.size()).map(|vertex| (vertex, grid.coordinates(vertex))).collect();
    let capacities: Vec<(u32, u32)> = (0..).zip(capacities.iter().copied()).collect();
    cut(&mut vertices, &capacities, &mut nodes);
    nodes
}

fn cut(vertices: &mut [(u32, Vec<u32>)], capacities: &[(u32, u32)], nodes: &mut [u32]) {
    let total: u32 = capacities.iter().map(|(_, capacity)| capacity).sum();
    if let [(node, _)] = capacities {
        vertices.iter().for_each(|(vertex, _)| nodes[*vertex as usize] = *node);
        return;
    }
    // The first nodes that have half of the vertices together, or nearly half.
    let mut sum = 0;
    let reach = capacities.iter().position(|(_, capacity)| {
        sum += capacity;
        2 * sum >= total
    });
    let split = reach.map_or(1, |at| at + 1).clamp(1, capacities.len() - 1);
    let first: u32 = capacities[..split].iter().map(|(_, capacity)| capacity).sum();
    let dimensions = vertices.first().map_or(0, |(_, coordinates)| coordinates.len());
    let length = |dimension: &usize| {
        let along = vertices.iter().map(|(_, coordinates)| coordinates[*dimension]);
        along.clone().max().unwrap_or(0) - along.min().unwrap_or(0)
    };
    // If sides are equally long, the first is cut, which is the slowest.
    let longest = (0..dimensions).rev().max_by_key(length).unwrap_or(0);
    weft_ordered::sort_by(vertices, |(one_vertex, one), (other_vertex, other)| {
        (one.get(longest), one_vertex).cmp(&(other.get(longest), other_vertex))
    });
    let (left, right) = vertices.split_at_mut(first as usize);
    cut(left, &capacities[..split], nodes);
    cut(right, &capacities[split..], nodes);
}
