//! Barriers: messages without contents.

use super::Barrier;
use super::gather::OUTSTANDING_MAX;
use super::plan::Plan;
use super::select::{BarrierAlgorithm, Tree};
use super::tree::cyclic;

pub(super) fn add(plan: &mut Plan, arguments: &Barrier, algorithm: BarrierAlgorithm) {
    match algorithm {
        BarrierAlgorithm::Dissemination => dissemination(plan, arguments),
        BarrierAlgorithm::Tree(tree) => up_and_down(plan, arguments, tree),
        BarrierAlgorithm::Multicast => up_and_multicast(plan, arguments),
        BarrierAlgorithm::Shared => super::shared::barrier(plan, arguments),
    }
}

/// Plans rounds: in round `k` every rank signals the rank `2^k` further on and waits for the rank `2^k`
/// before. After ⌈log₂ n⌉ rounds every rank has heard, directly or not, of every other (Hensgen, Finkel,
/// Manber, 1988).
fn dissemination(plan: &mut Plan, arguments: &Barrier) {
    let Barrier { rank, size } = *arguments;
    let (here, n) = (rank as u64, size as u64);
    let mut distance = 1;
    while distance < n {
        plan.signal(cyclic(here + distance, size));
        plan.await_signal(cyclic(here + n - distance, size));
        plan.fence();
        distance *= 2;
    }
}

/// Plans the first half of a barrier: rank 0 hears of all.
pub(super) fn add_up(plan: &mut Plan, arguments: &Barrier, algorithm: BarrierAlgorithm) {
    match algorithm {
        _ if arguments.size == 1 => {}
        BarrierAlgorithm::Shared => super::shared::barrier_up(plan, arguments),
        BarrierAlgorithm::Tree(tree) => up(plan, arguments, tree),
        BarrierAlgorithm::Dissemination | BarrierAlgorithm::Multicast => up(plan, arguments, Tree::BINOMIAL),
    }
}

/// Plans the second half of a barrier: all hear of rank 0.
pub(super) fn add_down(plan: &mut Plan, arguments: &Barrier, algorithm: BarrierAlgorithm) {
    match algorithm {
        _ if arguments.size == 1 => {}
        BarrierAlgorithm::Shared => super::shared::barrier_down(plan, arguments),
        BarrierAlgorithm::Tree(tree) => down(plan, arguments, tree),
        BarrierAlgorithm::Dissemination | BarrierAlgorithm::Multicast => down(plan, arguments, Tree::BINOMIAL),
    }
}

/// Plans a barrier up a tree and down again: each rank hears of all ranks below it, tells its parent, and
/// passes on that all have entered.
fn up_and_down(plan: &mut Plan, arguments: &Barrier, tree: Tree) {
    up(plan, arguments, tree);
    down(plan, arguments, tree);
}

/// Plans a barrier in which rank 0 hears of all, and multicasts to all that they have entered.
fn up_and_multicast(plan: &mut Plan, arguments: &Barrier) {
    let Barrier { rank, size } = *arguments;
    up(plan, arguments, Tree::towards_multicast(size));
    if size == 1 {
        return;
    }
    plan.fence();
    if rank == 0 { plan.multicast_signal() } else { plan.await_signal(0) }
}

/// Plans the way up a tree: each rank hears of all ranks below it, and tells its parent.
fn up(plan: &mut Plan, arguments: &Barrier, tree: Tree) {
    let Barrier { rank, size } = *arguments;
    let Some(one) = tree.each(size).next() else { return };
    let children = one.children(rank);
    plan.limit(OUTSTANDING_MAX, |plan| children.iter().for_each(|&child| plan.await_signal(child)));
    plan.fence();
    if let Some(parent) = one.parent(rank) {
        plan.signal(parent);
    }
}

/// Plans the way down a tree: each rank hears from its parent that all have entered, and tells its children.
fn down(plan: &mut Plan, arguments: &Barrier, tree: Tree) {
    let Barrier { rank, size } = *arguments;
    let Some(one) = tree.each(size).next() else { return };
    if let Some(parent) = one.parent(rank) {
        plan.await_signal(parent);
        plan.fence();
    }
    let children = one.children(rank);
    plan.limit(OUTSTANDING_MAX, |plan| children.iter().rev().for_each(|&child| plan.signal(child)));
}
