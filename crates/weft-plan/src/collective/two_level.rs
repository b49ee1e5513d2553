//! Collectives in two levels: within each node, and between one rank of each node, its leader.
//!
//! Between nodes each byte travels once for a node, however many ranks the node has. A reduction to all may
//! have several leaders on each node, each for a share of the data.

use alloc::vec::Vec;

use super::pieces::cut_range;
use super::plan::{Plan, Ranks, Vector, bytes};
use super::select::{AllgatherAlgorithm, AllreduceAlgorithm, BarrierAlgorithm, BcastAlgorithm, ReduceAlgorithm};
use super::shared::SEGMENT_BYTES;
use super::{Allgather, Allreduce, Barrier, Bcast, Items, Reduce, allgather, allreduce, barrier, bcast, reduce};

/// The ranks of this rank's node, and the leaders of all nodes.
struct Levels {
    /// The ranks of this rank's node, its leader first.
    node: Vec<u32>,
    /// The place of this rank in that list.
    within: u32,
    /// The leaders, by their nodes' first ranks.
    leaders: Vec<u32>,
    /// The place of this rank's node among the leaders.
    between: u32,
}

impl Levels {
    /// The levels of ranks on `nodes`, numbered anyhow. A node's leader is its first rank, but `root` leads
    /// its own node.
    fn new(rank: u32, root: u32, nodes: &[u32]) -> Self {
        let of = |rank: u32| nodes[rank as usize];
        let all = || 0..nodes.len() as u32;
        let mut seen = weft_ordered::Set::new();
        let leaders: Vec<u32> = all()
            .filter(|&rank| seen.insert(of(rank)))
            .map(|first| if of(first) == of(root) { root } else { first })
            .collect();
        let between = leaders.iter().position(|&leader| of(leader) == of(rank)).map_or(0, |at| at as u32);
        let leader = leaders[between as usize];
        let others = all().filter(|&other| of(other) == of(rank) && other != leader);
        let node: Vec<u32> = [leader].into_iter().chain(others).collect();
        let within = node.iter().position(|&member| member == rank).map_or(0, |at| at as u32);
        Self { node, within, leaders, between }
    }

    fn node_size(&self) -> u32 {
        self.node.len() as u32
    }

    fn nodes(&self) -> u32 {
        self.leaders.len() as u32
    }

    /// The leaders for a share of the data: the ranks that have the local rank `local_rank` on their nodes,
    /// by nodes.
    fn leaders_at(local_rank: u32, nodes: &[u32]) -> Vec<u32> {
        let mut seen = weft_ordered::Map::new();
        let mut leaders: Vec<Option<u32>> = Vec::new();
        for (rank, node) in (0..).zip(nodes) {
            let (at, count) = seen.entry(*node).or_insert_with(|| {
                leaders.push(None);
                (leaders.len() - 1, 0)
            });
            if *count == local_rank {
                leaders[*at] = Some(rank);
            }
            *count += 1;
        }
        leaders.into_iter().flatten().collect()
    }

    fn within(&self) -> Ranks {
        Ranks::Listed(self.node.clone())
    }

    fn between(&self) -> Ranks {
        Ranks::Listed(self.leaders.clone())
    }
}

/// Plans a broadcast from the root to the leaders, and from these to their nodes.
pub(super) fn add_bcast(
    plan: &mut Plan,
    arguments: &Bcast,
    nodes: &[u32],
    (between, within): (BcastAlgorithm, BcastAlgorithm),
) {
    let within = |plan: &mut Plan, of: &Bcast, _: &[u32]| bcast::add(plan, of, within);
    add_bcast_by(plan, arguments, nodes, |plan, of| bcast::add(plan, of, between), within);
}

/// Plans a broadcast in two levels by any planner for each level. The planner within a node is told the
/// node's ranks, the leader first.
pub(super) fn add_bcast_by(
    plan: &mut Plan,
    arguments: &Bcast,
    nodes: &[u32],
    between: impl FnOnce(&mut Plan, &Bcast),
    within: impl FnOnce(&mut Plan, &Bcast, &[u32]),
) {
    let Bcast { rank, root, items, .. } = *arguments;
    let levels = Levels::new(rank, root, nodes);
    if levels.within == 0 {
        let root = Levels::new(root, root, nodes).between;
        let arguments = Bcast { rank: levels.between, size: levels.nodes(), root, items };
        plan.among(levels.between(), |plan| between(plan, &arguments));
    }
    let arguments = Bcast { rank: levels.within, size: levels.node_size(), root: 0, items };
    plan.among(levels.within(), |plan| within(plan, &arguments, &levels.node));
}

/// Plans a reduction to the leaders, and from these to the root, which leads its own node. Operands do not
/// stay in the order of ranks.
pub(super) fn add_reduce(
    plan: &mut Plan,
    arguments: &Reduce,
    nodes: &[u32],
    (within, between): (ReduceAlgorithm, ReduceAlgorithm),
) {
    let within = |plan: &mut Plan, of: &Reduce, _: &[u32], ends: Ends| {
        reduce::add_from(plan, of, within, ends.own, ends.result);
    };
    let between = |plan: &mut Plan, of: &Reduce, ends: Ends| reduce::add_from(plan, of, between, ends.own, ends.result);
    add_reduce_by(plan, arguments, nodes, Ends::of(arguments), between, within);
}

/// The places of a rank's contribution and, at the root, of the result.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) own: Vector,
    pub(super) result: Vector,
}

impl Ends {
    /// The buffers of the user.
    pub(super) fn of(arguments: &Reduce) -> Self {
        let Reduce { items, in_place, .. } = *arguments;
        Self { own: Vector::contribution(items, in_place), result: Vector::of_receive(items) }
    }
}

/// Plans a reduction in two levels by any planner for each level, as for [`add_bcast_by`].
pub(super) fn add_reduce_by(
    plan: &mut Plan,
    arguments: &Reduce,
    nodes: &[u32],
    Ends { own, result }: Ends,
    between: impl FnOnce(&mut Plan, &Reduce, Ends),
    within: impl FnOnce(&mut Plan, &Reduce, &[u32], Ends),
) {
    let Reduce { rank, root, items, .. } = *arguments;
    let levels = Levels::new(rank, root, nodes);
    let of_node = match (levels.within, levels.node_size()) {
        _ if rank == root => result,
        (0, 2..) => plan.scratch_items(items),
        _ => own,
    };
    if rank == root || levels.node_size() > 1 {
        let arguments =
            Reduce { rank: levels.within, size: levels.node_size(), root: 0, commutative: true, ..*arguments };
        plan.among(levels.within(), |plan| within(plan, &arguments, &levels.node, Ends { own, result: of_node }));
    }
    if levels.within == 0 {
        let root = Levels::new(root, root, nodes).between;
        let arguments = Reduce { rank: levels.between, size: levels.nodes(), root, commutative: true, ..*arguments };
        plan.among(levels.between(), |plan| between(plan, &arguments, Ends { own: of_node, result }));
    }
}

/// Plans an allreduce to the leaders, among these, and from these to their nodes. Operands do not stay in the
/// order of ranks. Each of `leaders` ranks of a node (fewer, if some node has fewer) leads for its share of
/// the items.
pub(super) fn add_allreduce(
    plan: &mut Plan,
    arguments: &Allreduce,
    nodes: &[u32],
    leaders: u32,
    (up, between, down): (ReduceAlgorithm, AllreduceAlgorithm, BcastAlgorithm),
) {
    let up = |plan: &mut Plan, of: &Reduce, _: &[u32]| reduce::add(plan, of, up);
    let down = |plan: &mut Plan, of: &Bcast, _: &[u32]| bcast::add(plan, of, down);
    add_allreduce_by(plan, arguments, nodes, leaders, |plan, of| allreduce::add(plan, of, between), (up, down));
}

/// Plans an allreduce in two levels by any planner for each level, as for [`add_bcast_by`].
pub(super) fn add_allreduce_by(
    plan: &mut Plan,
    arguments: &Allreduce,
    nodes: &[u32],
    leaders: u32,
    between: impl FnOnce(&mut Plan, &Allreduce),
    (up, down): (impl Fn(&mut Plan, &Reduce, &[u32]), impl Fn(&mut Plan, &Bcast, &[u32])),
) {
    let Allreduce { rank, items, in_place, .. } = *arguments;
    let levels = Levels::new(rank, 0, nodes);
    let shares = leaders.clamp(1, fewest(nodes));
    let (within, size) = (levels.within, levels.node_size());
    let share = |number: u32| cut_range(items.count, shares, number);
    let items_of = |number: u32| Items { count: share(number).end - share(number).start, ..items };
    for number in 0..shares {
        let arguments =
            Reduce { rank: within, size, root: number, items: items_of(number), commutative: true, in_place };
        plan.beginning_at(share(number).start, items.shape, |plan| {
            plan.among(levels.within(), |plan| up(plan, &arguments, &levels.node));
        });
    }
    if within < shares {
        let arguments = Allreduce {
            rank: levels.between,
            size: levels.nodes(),
            items: items_of(within),
            commutative: true,
            in_place: true,
        };
        plan.beginning_at(share(within).start, items.shape, |plan| {
            let leaders = Ranks::Listed(Levels::leaders_at(within, nodes));
            plan.among(leaders, |plan| between(plan, &arguments));
        });
    }
    for number in 0..shares {
        let arguments = Bcast { rank: within, size, root: number, items: items_of(number) };
        plan.beginning_at(share(number).start, items.shape, |plan| {
            plan.among(levels.within(), |plan| down(plan, &arguments, &levels.node));
        });
    }
}

/// Plans a barrier: all ranks of a node tell its leader, the leaders meet, and tell their nodes.
pub(super) fn add_barrier(
    plan: &mut Plan,
    arguments: &Barrier,
    nodes: &[u32],
    (within, between): (BarrierAlgorithm, BarrierAlgorithm),
) {
    let up = |plan: &mut Plan, of: &Barrier, _: &[u32]| barrier::add_up(plan, of, within);
    let down = |plan: &mut Plan, of: &Barrier, _: &[u32]| barrier::add_down(plan, of, within);
    add_barrier_by(plan, arguments, nodes, |plan, of| barrier::add(plan, of, between), (up, down));
}

/// Plans a barrier in two levels by any planner for each level, as for [`add_bcast_by`]: to the leaders,
/// among them, and back. Either half can be planned alone, with no steps for the other.
pub(super) fn add_barrier_by(
    plan: &mut Plan,
    arguments: &Barrier,
    nodes: &[u32],
    between: impl FnOnce(&mut Plan, &Barrier),
    (up, down): (impl FnOnce(&mut Plan, &Barrier, &[u32]), impl FnOnce(&mut Plan, &Barrier, &[u32])),
) {
    let levels = Levels::new(arguments.rank, 0, nodes);
    let node = Barrier { rank: levels.within, size: levels.node_size() };
    plan.among(levels.within(), |plan| up(plan, &node, &levels.node));
    plan.fence();
    if levels.within == 0 {
        let leaders = Barrier { rank: levels.between, size: levels.nodes() };
        plan.among(levels.between(), |plan| between(plan, &leaders));
        plan.fence();
    }
    plan.among(levels.within(), |plan| down(plan, &node, &levels.node));
}

/// Plans an allgather: the blocks of a node are gathered at its leader, the leaders exchange them, and give
/// all to their nodes. The ranks of each node follow each other, so that its blocks lie side by side.
pub(super) fn add_allgather(
    plan: &mut Plan,
    arguments: &Allgather,
    nodes: &[u32],
    (between, within): (AllgatherAlgorithm, BcastAlgorithm),
) {
    let is_shared = within == BcastAlgorithm::Shared;
    let within = |plan: &mut Plan, of: &Bcast, _: &[u32]| bcast::add(plan, of, within);
    add_allgather_by(plan, arguments, nodes, between, is_shared, within);
}

/// Plans an allgather in two levels by any planner within each node, as for [`add_bcast_by`]. `is_shared`:
/// each node is given the blocks in memory that its ranks share, and gathers its own there, too.
pub(super) fn add_allgather_by(
    plan: &mut Plan,
    arguments: &Allgather,
    nodes: &[u32],
    between: AllgatherAlgorithm,
    is_shared: bool,
    within: impl FnOnce(&mut Plan, &Bcast, &[u32]),
) {
    let Allgather { rank, size, send, receive, in_place } = *arguments;
    if bytes(receive) == 0 {
        return;
    }
    let levels = Levels::new(rank, 0, nodes);
    let all = Vector::of_receive(receive);
    let run = |first: u32, end: u32| all.part(first as u64 * receive.count..end as u64 * receive.count);
    let own = if in_place { run(rank, rank + 1) } else { Vector::of_send(send).part(0..send.count) };
    // The room for data that is published to many holds one block of each.
    let publishes = is_shared && bytes(receive) <= SEGMENT_BYTES && levels.node_size() > 1;
    let phase = if publishes { plan.begin_phase() } else { 0 };
    if levels.within == 0 {
        if !in_place {
            plan.copy(own, run(rank, rank + 1));
        }
        for &member in levels.node.iter().skip(1) {
            let block = run(member, member + 1);
            if publishes {
                plan.collect(phase, member, (0, bytes(receive)), block);
            } else {
                plan.receive(member, block);
            }
        }
        let mut starts = levels.leaders.clone();
        starts.push(size);
        let run = |first: u32, end: u32| run(starts[first as usize], starts[end as usize]);
        let (here, count) = (levels.between, levels.nodes());
        plan.among(levels.between(), |plan| allgather::exchange(plan, (here, count), between, run));
    } else if publishes {
        plan.publish(phase, own);
    } else {
        plan.send(levels.node[0], own);
    }
    let items = Items { count: size as u64 * receive.count, ..receive };
    let arguments = Bcast { rank: levels.within, size: levels.node_size(), root: 0, items };
    plan.among(levels.within(), |plan| within(plan, &arguments, &levels.node));
}

/// The ranks of the node that has the fewest.
fn fewest(nodes: &[u32]) -> u32 {
    let mut counts = weft_ordered::Map::new();
    nodes.iter().for_each(|node| *counts.entry(*node).or_insert(0) += 1);
    counts.into_values().min().unwrap_or(1)
}
