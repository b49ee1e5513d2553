//! Reduction whose result everybody gets. Each algorithm combines operands in one fixed order, and every rank gets the
//! same bits.

use super::gather::OUTSTANDING_MAX;
use super::halving::{Exchange, Members, Role};
use super::pieces::{self, cut, cut_range};
use super::plan::{Fold, Plan, Vector, bytes};
use super::select::AllreduceAlgorithm;
use super::tree::cyclic;
use super::{Allreduce, Items};

pub(super) fn add(plan: &mut Plan, arguments: &Allreduce, algorithm: AllreduceAlgorithm) {
    if bytes(arguments.items) == 0 {
        return;
    }
    match algorithm {
        AllreduceAlgorithm::Doubling => folded(plan, arguments, doubling),
        AllreduceAlgorithm::Halving => folded(plan, arguments, halving),
        AllreduceAlgorithm::Ring => ring(plan, arguments),
        AllreduceAlgorithm::Gathered => gathered(plan, arguments),
    }
}

/// Rank 0 takes in what comes of the others one after the other, and sends all of them the result.
fn gathered(plan: &mut Plan, arguments: &Allreduce) {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let whole = 0..items.count;
    let own = Vector::contribution(items, in_place);
    let result = Vector::of_receive(items);
    if rank > 0 {
        plan.send(0, own.part(whole.clone()));
        plan.receive(0, result.part(whole));
        return;
    }
    let other = plan.scratch_items(items);
    let mut fold = Fold::new(own, result, other, size as usize - 1);
    for from in 1..size {
        plan.receive(from, fold.incoming().part(whole.clone()));
        fold.absorb_right(plan, whole.clone());
    }
    fold.finish(plan, whole.clone());
    plan.limit(OUTSTANDING_MAX, |plan| {
        for to in 1..size {
            plan.send(to, result.part(whole.clone()));
        }
    });
}

/// Pairs of ranks become one member each until a power of two remains (see [`Members`]); the folded ranks get the result
/// at the end.
fn folded(plan: &mut Plan, arguments: &Allreduce, among_members: fn(&mut Plan, &Exchange<'_>, Start, Items)) {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let members = Members::new(size, None);
    let whole = 0..items.count;
    let own = Vector::contribution(items, in_place);
    let result = Vector::of_receive(items);
    match members.role(rank) {
        Role::Folded { keeper } => {
            plan.send(keeper, own.part(whole.clone()));
            plan.receive(keeper, result.part(whole));
        }
        Role::Member { index, folded } => {
            let exchange = Exchange {
                members,
                rank,
                position: members.reversed(index),
                member_at: &|position| members.reversed(position),
                cut: &|position| cut(items.count, members.count, position),
            };
            among_members(plan, &exchange, Start { own, folded }, items);
            if let Some(folded) = folded {
                plan.send(folded, result.part(whole));
            }
        }
    }
}

/// With what a member begins.
struct Start {
    own: Vector,
    folded: Option<u32>,
}

impl Start {
    /// Takes in the folded rank's contribution.
    fn fold(&self, plan: &mut Plan, exchange: &Exchange<'_>, items: Items) -> Fold {
        let rights = exchange.partners_above() + self.folded.is_some_and(|folded| folded > exchange.rank) as usize;
        let other = plan.scratch_items(items);
        let mut fold = Fold::new(self.own, Vector::of_receive(items), other, rights);
        if let Some(folded) = self.folded {
            plan.receive(folded, fold.incoming().part(0..items.count));
            fold.absorb(plan, folded, exchange.rank, 0..items.count);
        }
        fold
    }
}

/// The whole vector is exchanged with members 1, 2, 4, … away: log₂ n rounds.
fn doubling(plan: &mut Plan, exchange: &Exchange<'_>, start: Start, items: Items) {
    let whole = 0..items.count;
    let mut fold = start.fold(plan, exchange, items);
    let index = (exchange.member_at)(exchange.position);
    for level in 0..exchange.members.levels() {
        let partner = exchange.members.rank(index ^ (1 << level));
        plan.send(partner, fold.value().part(whole.clone()));
        plan.receive(partner, fold.incoming().part(whole.clone()));
        fold.absorb(plan, partner, exchange.rank, whole.clone());
    }
    fold.finish(plan, whole);
}

/// Reduce-scatter by halving, then the parts are exchanged: 2 log₂ n rounds, every byte leaves a rank less than twice.
fn halving(plan: &mut Plan, exchange: &Exchange<'_>, start: Start, items: Items) {
    let mut fold = start.fold(plan, exchange, items);
    exchange.halve(plan, &mut fold);
    fold.finish(plan, exchange.own_part());
    exchange.double(plan, Vector::of_receive(items));
}

/// Parts travel round the ring and grow, then travel round once more: 2(n − 1) rounds, every byte leaves a rank less than
/// twice for any n. Part `i` is combined from rank `i + 1` round to rank `i`, so the operation must commute.
fn ring(plan: &mut Plan, arguments: &Allreduce) {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let own = Vector::contribution(items, in_place);
    let result = Vector::of_receive(items);
    let part = |i: u64| cut_range(items.count, size, cyclic(i, size));
    let (at, n) = (rank as u64, size as u64);
    let longest = Items { count: items.count.div_ceil(n), ..items };
    let travelling = [plan.scratch_items(longest), plan.scratch_items(longest)];
    let (next, previous) = (cyclic(at + 1, size), cyclic(at + n - 1, size));
    let mut leaving = own.part(part(at + n - 1));
    for step in 0..n - 1 {
        let arriving = part(at + 2 * n - step - 2);
        let last = step == n - 2;
        let to = match last && !in_place {
            true => result.part(arriving.clone()),
            false => travelling[step as usize % 2].part(0..arriving.end - arriving.start),
        };
        plan.send(next, leaving);
        plan.receive(previous, to);
        match last && in_place {
            true => plan.reduce(to, result.part(arriving)),
            false => plan.reduce(own.part(arriving), to),
        }
        leaving = to;
    }
    if size == 1 && !in_place {
        plan.copy(own.part(0..items.count), result.part(0..items.count));
    }
    pieces::ring(plan, rank, size, |place| place, |i| result.part(part(i as u64)));
}
