//! Reduction to one rank.

use super::halving::{Exchange, Members, Role};
use super::pieces::cut;
use super::plan::{Fold, Plan, Vector, bytes};
use super::select::ReduceAlgorithm;
use super::{Reduce, tree};

pub(super) fn add(plan: &mut Plan, arguments: &Reduce, algorithm: ReduceAlgorithm) {
    add_to(plan, arguments, algorithm, Vector::of_receive(arguments.items));
}

/// The same with the result somewhere else than in the root's receive buffer.
pub(super) fn add_to(plan: &mut Plan, arguments: &Reduce, algorithm: ReduceAlgorithm, result: Vector) {
    if bytes(arguments.items) == 0 {
        return;
    }
    match algorithm {
        ReduceAlgorithm::Binomial => binomial(plan, arguments, result),
        ReduceAlgorithm::Halving => halving(plan, arguments, result),
    }
}

/// Up the binomial tree, whole. The tree's nodes are ranks counted from the root if the operation commutes; else they are
/// the ranks, so that subtrees are adjacent ranks in order, and rank 0 passes the result on.
fn binomial(plan: &mut Plan, arguments: &Reduce, result: Vector) {
    let Reduce { rank, size, root, items, commutative, in_place } = *arguments;
    let top = if commutative { root } else { 0 };
    let whole = 0..items.count;
    let own = Vector::contribution(items, in_place);
    let here = tree::node(rank, top, size);
    let children = tree::children(here, size);
    let arrivals = children.clone().count();

    let target = match (rank == root && rank == top, arrivals) {
        (true, _) => result,
        (false, 0) => own,
        (false, _) => plan.scratch_items(items),
    };
    // The first arrival goes to the target or, in place, where `own` is the target, to the other buffer.
    let other = if arrivals > 1 || (arrivals == 1 && own == target) { plan.scratch_items(items) } else { target };
    let mut fold = Fold::new(own, target, other, arrivals);
    for child in children {
        plan.receive(tree::rank(child, top, size), fold.incoming().part(whole.clone()));
        if commutative && own == target {
            fold.absorb_left(plan, whole.clone());
        } else {
            fold.absorb_right(plan, whole.clone());
        }
    }
    if let Some(parent) = tree::parent(here) {
        plan.send(tree::rank(parent, top, size), fold.value().part(whole.clone()));
    } else if rank == root {
        fold.finish(plan, whole.clone());
    } else {
        plan.send(root, fold.value().part(whole.clone()));
    }
    if rank == root && rank != top {
        plan.receive(top, result.part(whole));
    }
}

/// Reduce-scatter by halving, then the parts are gathered at the root: every byte leaves a rank less than twice.
fn halving(plan: &mut Plan, arguments: &Reduce, result: Vector) {
    let Reduce { rank, size, root, items, in_place, .. } = *arguments;
    let members = Members::new(size, Some(root));
    let whole = 0..items.count;
    let own = Vector::contribution(items, in_place);
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
