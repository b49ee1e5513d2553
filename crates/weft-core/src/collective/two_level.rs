//! Two levels: within each node, and between one rank of each node, its leader. Between nodes each byte travels once for a node, however many
//! ranks that has.

use alloc::vec::Vec;

use super::plan::{Plan, Ranks};
use super::select::{AllreduceAlgorithm, BcastAlgorithm, ReduceAlgorithm};
use super::{Allreduce, Bcast, Reduce, allreduce, bcast, reduce};

/// The ranks of this rank's node, and the leaders of all nodes.
struct Levels {
    /// This rank's node, its leader first.
    node: Vec<u32>,
    /// This rank among those.
    within: u32,
    /// The leaders, by their nodes' first ranks.
    leaders: Vec<u32>,
    /// The node among those.
    between: u32,
}

impl Levels {
    /// Of ranks on `nodes`, numbered anyhow. A node's leader is its first rank, but `root` leads its own.
    fn new(rank: u32, root: u32, nodes: &[u32]) -> Self {
        let of = |rank: u32| nodes[rank as usize];
        let all = || 0..nodes.len() as u32;
        let mut seen = alloc::collections::BTreeSet::new();
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

    fn within(&self) -> Ranks {
        Ranks::Listed(self.node.clone())
    }

    fn between(&self) -> Ranks {
        Ranks::Listed(self.leaders.clone())
    }
}

/// From the root to the leaders, and from these to their nodes.
pub(super) fn add_bcast(
    plan: &mut Plan,
    arguments: &Bcast,
    nodes: &[u32],
    (between, within): (BcastAlgorithm, BcastAlgorithm),
) {
    let Bcast { rank, root, items, .. } = *arguments;
    let levels = Levels::new(rank, root, nodes);
    if levels.within == 0 {
        let root = Levels::new(root, root, nodes).between;
        let arguments = Bcast { rank: levels.between, size: levels.nodes(), root, items };
        plan.among(levels.between(), |plan| bcast::add(plan, &arguments, between));
    }
    let arguments = Bcast { rank: levels.within, size: levels.node_size(), root: 0, items };
    plan.among(levels.within(), |plan| bcast::add(plan, &arguments, within));
}

/// To the leaders, among these, and from these to their nodes. Operands do not stay in the order of ranks.
pub(super) fn add_allreduce(
    plan: &mut Plan,
    arguments: &Allreduce,
    nodes: &[u32],
    (up, between, down): (ReduceAlgorithm, AllreduceAlgorithm, BcastAlgorithm),
) {
    let Allreduce { rank, items, in_place, .. } = *arguments;
    let levels = Levels::new(rank, 0, nodes);
    let (rank, size) = (levels.within, levels.node_size());
    plan.among(levels.within(), |plan| {
        reduce::add(plan, &Reduce { rank, size, root: 0, items, commutative: true, in_place }, up);
    });
    if levels.within == 0 {
        let (rank, size) = (levels.between, levels.nodes());
        let arguments = Allreduce { rank, size, items, commutative: true, in_place: true };
        plan.among(levels.between(), |plan| allreduce::add(plan, &arguments, between));
    }
    plan.among(levels.within(), |plan| bcast::add(plan, &Bcast { rank, size, root: 0, items }, down));
}
