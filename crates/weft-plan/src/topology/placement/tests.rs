use super::*;
use crate::topology::Dimension;
use proptest::prelude::*;

fn grid(sizes: &[u32], periodic: bool) -> Grid {
    Grid::new(sizes.iter().map(|size| Dimension { size: *size, periodic }).collect()).unwrap()
}

/// The weight between nodes before and after; checks that the members are all processes, each once.
fn before_and_after(neighbourhood: &Neighbourhood, nodes: &[u32], members: &[u32]) -> (u64, u64) {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..nodes.len() as u32), "{members:?}");
    let after: Vec<u32> = members.iter().map(|member| nodes[*member as usize]).collect();
    (neighbourhood.crossing(nodes), neighbourhood.crossing(&after))
}

fn crossing_of_grid(grid: &Grid, nodes: &[u32]) -> (u64, u64) {
    before_and_after(&Neighbourhood::of_grid(grid), nodes, &place_grid(grid, nodes))
}

/// `count` nodes, ranks dealt to them one by one, or in blocks.
fn round_robin(ranks: u32, count: u32) -> Vec<u32> {
    (0..ranks).map(|rank| rank % count).collect()
}

fn in_blocks(ranks: u32, count: u32) -> Vec<u32> {
    (0..ranks).map(|rank| rank / (ranks / count)).collect()
}

#[test]
fn nodes_get_blocks() {
    // Rows of a 4 × 4 grid on four nodes leave 12 edges between them, squares leave 8.
    assert_eq!(crossing_of_grid(&grid(&[4, 4], false), &in_blocks(16, 4)), (12, 8));
    assert_eq!(crossing_of_grid(&grid(&[4, 4], false), &round_robin(16, 4)), (12, 8));
    assert_eq!(crossing_of_grid(&grid(&[4, 4], false), &round_robin(16, 2)), (12, 4));
    // Eight nodes of eight: cubes.
    assert_eq!(crossing_of_grid(&grid(&[4, 4, 4], false), &in_blocks(64, 8)).1, 48);
    assert_eq!(crossing_of_grid(&grid(&[4, 4, 4], true), &in_blocks(64, 8)).1, 96);
    // Two nodes, and long strips: cut across.
    assert_eq!(crossing_of_grid(&grid(&[2, 32], false), &in_blocks(64, 2)), (32, 2));
    assert_eq!(crossing_of_grid(&grid(&[8, 8, 16], false), &in_blocks(1024, 16)).1, 448);
}

#[test]
fn nodes_of_different_sizes_get_compact_parts() {
    let nodes: Vec<u32> = [4, 12, 8].into_iter().zip(7..).flat_map(|(count, node)| vec![node; count]).collect();
    // 6 × 4 by rows is as good as can be already: 4 + 4.
    assert_eq!(crossing_of_grid(&grid(&[6, 4], false), &nodes), (8, 8));
    // 4 × 6: two nodes end within a row.
    let (before, after) = crossing_of_grid(&grid(&[4, 6], false), &nodes);
    assert_eq!((before, after), (12, 8));
}

#[test]
fn who_can_stay_does() {
    let grid = grid(&[6, 4], false);
    let stay: Vec<u32> = (0..24).collect();
    assert_eq!(place_grid(&grid, &in_blocks(24, 6)), place_grid(&grid, &in_blocks(24, 6)));
    // Rows of four on a node each: nothing is better.
    let rows = super::super::Grid::new(vec![Dimension { size: 24, periodic: true }]).unwrap();
    assert_eq!(place_grid(&rows, &in_blocks(24, 6)), stay);
    assert_eq!(place_grid(&grid, &[3; 24]), stay);
    assert_eq!(place_grid(&grid, &(0..24).collect::<Vec<_>>()), stay);
    assert_eq!(place_grid(&super::super::Grid::new(vec![]).unwrap(), &[5]), [0]);
}

#[test]
fn a_graph_of_cliques_is_put_together_again() {
    // Four cliques of four, a ring between them, dealt to four nodes one by one.
    let mut edges = Vec::new();
    for clique in 0..4_u32 {
        for one in 0..4 {
            edges.extend((one + 1..4).map(|other| (clique + 4 * one, clique + 4 * other, 1)));
        }
        edges.push((clique, (clique + 1) % 4, 1));
    }
    let neighbourhood = Neighbourhood::new(16, edges.into_iter());
    for nodes in [round_robin(16, 4), in_blocks(16, 4)] {
        assert_eq!(before_and_after(&neighbourhood, &nodes, &place_graph(&neighbourhood, &nodes)).1, 4);
    }
}

#[test]
fn weights_count_and_multiple_edges_add_up() {
    // 0-1 and 2-3 are heavy, 0-2 and 1-3 are many.
    let light = |one, other| core::iter::repeat_n((one, other, 1), 3);
    let edges = [(0, 1, 5), (2, 3, 5), (1, 1, 100)].into_iter().chain(light(0, 2)).chain(light(3, 1));
    let neighbourhood = Neighbourhood::new(4, edges);
    assert_eq!(neighbourhood.crossing(&[0, 1, 0, 1]), 10);
    assert_eq!(neighbourhood.crossing(&[0, 0, 1, 1]), 6);
    let members = place_graph(&neighbourhood, &[0, 1, 0, 1]);
    assert_eq!(before_and_after(&neighbourhood, &[0, 1, 0, 1], &members), (10, 6));
    let huge = Neighbourhood::new(4, [(0, 1, u64::MAX), (2, 3, u64::MAX), (0, 2, 1)].into_iter());
    assert_eq!(place_graph(&huge, &[0, 1, 0, 1]).len(), 4);
}

#[test]
fn a_large_grid_takes_no_time_to_speak_of() {
    let grid = grid(&[32, 32, 32], true);
    let (before, after) = crossing_of_grid(&grid, &in_blocks(32 * 32 * 32, 512));
    // Blocks of 4 × 4 × 4.
    assert!(after == 512 * 48 && before > after, "{before} {after}");
}

/// The least weight between two nodes, over all ways to deal the vertices to them.
fn least_crossing(neighbourhood: &Neighbourhood, first: u32) -> u64 {
    let vertices = neighbourhood.vertices();
    let all = (0..1_u32 << vertices).filter(|mask| mask.count_ones() == first);
    let nodes = all.map(|mask| (0..vertices).map(|vertex| mask >> vertex & 1).collect::<Vec<u32>>());
    nodes.map(|nodes| neighbourhood.crossing(&nodes)).min().unwrap_or(0)
}

#[test]
fn small_grids_on_two_nodes_are_as_good_as_can_be() {
    for sizes in [&[4][..], &[7], &[12], &[2, 3], &[3, 3], &[3, 4], &[2, 5], &[2, 6], &[2, 2, 3], &[2, 2, 2]] {
        for periodic in [false, true] {
            let grid = grid(sizes, periodic);
            for first in 1..grid.size() {
                let neighbourhood = Neighbourhood::of_grid(&grid);
                let best = least_crossing(&neighbourhood, first);
                // Node 1 has ranks from all parts, where 5 is no divisor.
                let size = grid.size();
                let step = if size.is_multiple_of(5) { 1 } else { 5 };
                let nodes: Vec<u32> = (0..size).map(|rank| u32::from(rank * step % size < first)).collect();
                let (_, after) = crossing_of_grid(&grid, &nodes);
                assert_eq!(after, best, "{sizes:?} {periodic} {first}");
            }
        }
    }
}

proptest! {
    /// Any grid and any nodes.   Expect: each process has one vertex, and the weight between nodes does not
    /// grow.
    #[test]
    fn no_grid_gets_worse(
        sizes in prop::collection::vec((1_u32..7, any::<bool>()), 0..4),
        seed in prop::collection::vec(0_u32..6, 1..300),
    ) {
        let grid = Grid::new(sizes.iter().map(|(size, periodic)| Dimension { size: *size, periodic: *periodic }).collect()).unwrap();
        let nodes: Vec<u32> = seed.iter().cycle().take(grid.size() as usize).copied().collect();
        let (before, after) = crossing_of_grid(&grid, &nodes);
        prop_assert!(after <= before);
    }

    #[test]
    fn no_graph_gets_worse(
        vertices in 1_u32..40,
        edges in prop::collection::vec((0_u32..40, 0_u32..40, 0_u64..9), 0..120),
        seed in prop::collection::vec(0_u32..5, 1..40),
    ) {
        let edges = edges.into_iter().map(|(from, to, weight)| (from % vertices, to % vertices, weight));
        let neighbourhood = Neighbourhood::new(vertices, edges);
        let nodes: Vec<u32> = seed.iter().cycle().take(vertices as usize).copied().collect();
        let (before, after) = before_and_after(&neighbourhood, &nodes, &place_graph(&neighbourhood, &nodes));
        prop_assert!(after <= before);
    }
}
