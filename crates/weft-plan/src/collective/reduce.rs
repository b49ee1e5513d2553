//! Reduction to one rank.

use alloc::vec::Vec;

use super::bcast::segments_max;
use super::gather::OUTSTANDING_MAX;
use super::halving::{Exchange, Members, Role};
use super::pieces::{STEPS_UNDER_WAY, cut, segments};
use super::plan::{Fold, Plan, Vector, bytes};
use super::select::{ReduceAlgorithm, Tree};
use super::{Reduce, tree};

pub(super) fn add(plan: &mut Plan, arguments: &Reduce, algorithm: ReduceAlgorithm) {
    add_to(plan, arguments, algorithm, Vector::of_receive(arguments.items));
}

/// Plans a reduction with the result at another place than the root's receive buffer.
pub(super) fn add_to(plan: &mut Plan, arguments: &Reduce, algorithm: ReduceAlgorithm, result: Vector) {
    let own = Vector::contribution(arguments.items, arguments.in_place);
    add_from(plan, arguments, algorithm, own, result);
}

/// Plans a reduction with this rank's contribution outside the buffers of the user; at the root the
/// contribution may be in the place of the result.
pub(super) fn add_from(plan: &mut Plan, arguments: &Reduce, algorithm: ReduceAlgorithm, own: Vector, result: Vector) {
    if bytes(arguments.items) == 0 {
        return;
    }
    match algorithm {
        ReduceAlgorithm::Tree { tree, segment_bytes } => up(plan, arguments, tree, segment_bytes, own, result),
        ReduceAlgorithm::Halving => halving(plan, arguments, own, result),
        ReduceAlgorithm::Shared => super::shared::reduce(plan, arguments, own, result),
        ReduceAlgorithm::SingleCopy => super::single_copy::reduce(plan, arguments, own, result),
    }
}

/// Plans the way up a tree, in segments. If the operation commutes, the tree's nodes are ranks counted from
/// the root. Otherwise they are the ranks themselves, so that subtrees are adjacent ranks in order, and rank
/// 0 passes the result on.
pub(super) fn up(plan: &mut Plan, arguments: &Reduce, tree: Tree, segment_bytes: u64, own: Vector, result: Vector) {
    let Reduce { rank, size, root, items, commutative, .. } = *arguments;
    assert!(commutative || tree.is_ordered(), "{tree:?} keeps no order");
    let top = if commutative { root } else { 0 };
    let here = tree::node(rank, top, size);
    let families: Vec<_> = tree.each(size).map(|one| (one.parent(here), one.children(here))).collect();
    let arrivals = families.iter().map(|(_, children)| children.len()).max().unwrap_or(0);

    let target = match (rank == root && rank == top, arrivals) {
        (true, _) => result,
        (false, 0) => own,
        (false, _) => plan.scratch_items(items),
    };
    // The first arrival goes to the target or, in place, where `own` is the target, to the other buffer.
    let other = if arrivals > 1 || (arrivals == 1 && own == target) { plan.scratch_items(items) } else { target };
    let segments = segments(items.count, segment_bytes / items.shape.size, segments_max(tree, size));
    plan.limit((STEPS_UNDER_WAY * (arrivals + 1)).min(OUTSTANDING_MAX), |plan| {
        for (range, (parent, children)) in segments.zip(families.iter().cycle()) {
            let mut fold = Fold::new(own, target, other, children.len());
            for child in children {
                plan.receive(tree::rank(*child, top, size), fold.incoming().part(range.clone()));
                if commutative && own == target {
                    fold.absorb_left(plan, range.clone());
                } else {
                    fold.absorb_right(plan, range.clone());
                }
            }
            match parent {
                Some(parent) => plan.send(tree::rank(*parent, top, size), fold.value().part(range.clone())),
                None if rank == root => fold.finish(plan, range.clone()),
                None => plan.send(root, fold.value().part(range.clone())),
            }
            if rank == root && rank != top {
                plan.receive(top, result.part(range));
            }
        }
    });
}

/// Plans a reduce-scatter by halving, then a gather of the parts at the root: every byte leaves a rank less
/// than twice.
fn halving(plan: &mut Plan, arguments: &Reduce, own: Vector, result: Vector) {
    let Reduce { rank, size, root, items, .. } = *arguments;
    let members = Members::new(size, Some(root));
    let whole = 0..items.count;
    let (index, folded) = match members.role(rank) {
        Role::Folded { keeper } => {
            plan.send(keeper, own.part(whole));
            return;
        }
        Role::Member { index, folded } => (index, folded),
    };
    let exchange = Exchange {
        members,
        rank,
        position: members.reversed(index),
        member_at: &|position| members.reversed(position),
        cut: &|position| cut(items.count, members.count, position),
    };
    let target = if rank == root { result } else { plan.scratch_items(items) };
    let other = plan.scratch_items(items);
    let rights = exchange.partners_above() + folded.is_some_and(|folded| folded > rank) as usize;
    let mut fold = Fold::new(own, target, other, rights);
    if let Some(folded) = folded {
        plan.receive(folded, fold.incoming().part(whole.clone()));
        fold.absorb(plan, folded, rank, whole);
    }
    exchange.halve(plan, &mut fold);
    fold.finish(plan, exchange.own_part());
    let Role::Member { index: root_index, .. } = members.role(root) else { unreachable!("the root is favoured") };
    exchange.gather(plan, target, members.reversed(root_index));
}
