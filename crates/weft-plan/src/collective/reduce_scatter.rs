//! Reduction with the result scattered. All algorithms keep the order of ranks.

use alloc::vec::Vec;

use super::halving::{Exchange, Members, Role};
use super::pieces::STEPS_UNDER_WAY;
use super::plan::{Fold, Plan, Vector};
use super::select::ReduceScatterAlgorithm;
use super::single_copy;
use super::tree::cyclic;
use super::{ElementShape, Items};

/// Arguments of both forms of the operation.
pub(super) struct Arguments<'a> {
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) shape: ElementShape,
    /// First item of each rank's block; at `size`, the end.
    pub(super) start: &'a dyn Fn(u32) -> u64,
    pub(super) commutative: bool,
    pub(super) in_place: bool,
}

impl Arguments<'_> {
    fn block(&self, rank: u32) -> core::ops::Range<u64> {
        (self.start)(rank)..(self.start)(rank + 1)
    }

    fn count(&self, rank: u32) -> u64 {
        self.block(rank).end - self.block(rank).start
    }

    fn items(&self, count: u64) -> Items {
        Items { count, shape: self.shape }
    }

    fn whole(&self) -> Items {
        self.items((self.start)(self.size))
    }

    fn own(&self) -> Vector {
        Vector::contribution(self.whole(), self.in_place)
    }
}

pub(super) fn add(plan: &mut Plan, arguments: &Arguments<'_>, algorithm: ReduceScatterAlgorithm) {
    if arguments.whole().count * arguments.shape.size == 0 {
        return;
    }
    if arguments.size == 1 {
        return alone(plan, arguments);
    }
    match algorithm {
        ReduceScatterAlgorithm::Halving => halving(plan, arguments),
        ReduceScatterAlgorithm::Pairwise => pairwise(plan, arguments),
        ReduceScatterAlgorithm::SingleCopy => {
            let Arguments { rank, size, in_place, .. } = *arguments;
            let own = (arguments.own(), in_place);
            single_copy::reduce_scatter(plan, (rank, size), arguments.whole(), own, arguments.block(rank));
        }
    }
}

/// Copies the only rank's contribution: it is the result.
fn alone(plan: &mut Plan, arguments: &Arguments<'_>) {
    let items = arguments.whole();
    if !arguments.in_place {
        plan.copy(arguments.own().part(0..items.count), Vector::of_receive(items).part(0..items.count));
    }
}

/// Plans recursive halving of the whole vector. If the operation commutes, the positions of members are their
/// numbers, so that halves are runs of blocks. Otherwise the positions are bit-reversed, and the blocks are
/// put into that order first.
fn halving(plan: &mut Plan, arguments: &Arguments<'_>) {
    let Arguments { rank, size, commutative, .. } = *arguments;
    let members = Members::new(size, None);
    let items = arguments.whole();
    let (own, result) = (arguments.own(), Vector::of_receive(items).part(0..arguments.count(rank)));
    let (index, folded) = match members.role(rank) {
        Role::Folded { keeper } => {
            plan.send(keeper, own.part(0..items.count));
            plan.receive(keeper, result);
            return;
        }
        Role::Member { index, folded } => (index, folded),
    };
    let position_of = |number| if commutative { number } else { members.reversed(number) };
    let group =
        |member| (arguments.start)(members.first_rank(member))..(arguments.start)(members.first_rank(member + 1));
    let mut cuts = Vec::with_capacity(members.count as usize + 1);
    cuts.push(0);
    for position in 0..members.count {
        let range = group(position_of(position));
        cuts.push(cuts[position as usize] + (range.end - range.start));
    }

    let buffers = [plan.scratch_items(items), plan.scratch_items(items)];
    let mut fold = Fold::new(own, buffers[0], buffers[1], 0);
    if let Some(folded) = folded {
        plan.receive(folded, fold.incoming().part(0..items.count));
        fold.absorb(plan, folded, rank, 0..items.count);
    }
    if !commutative && members.count > 2 {
        for position in 0..members.count {
            let to = cuts[position as usize]..cuts[position as usize + 1];
            plan.copy(fold.value().part(group(position_of(position))), fold.incoming().part(to));
        }
        fold.swap();
    }
    let position = position_of(index);
    let exchange =
        Exchange { members, rank, position, member_at: &position_of, cut: &|position| cuts[position as usize] };
    exchange.halve(plan, &mut fold);

    // The member's part is the blocks of its one or two ranks.
    let part = fold.value().starting_at(cuts[position as usize]);
    let first = members.first_rank(index);
    let offset = |rank| (arguments.start)(rank) - (arguments.start)(first);
    if let Some(folded) = folded {
        plan.send(folded, part.part(offset(folded)..offset(folded) + arguments.count(folded)));
    }
    plan.copy(part.part(offset(rank)..offset(rank) + arguments.count(rank)), result);
}

/// Plans one step for each distance: in step k every rank sends the block of the rank k further on to it, and
/// combines the block that comes from the rank k before. There are n − 1 rounds, and every byte leaves a rank
/// once. First come the blocks of the ranks below, downwards, each to the left of the value. Then come those
/// of the ranks above, downwards, each to the left of a second value. At last the second value goes to the
/// right of the first.
fn pairwise(plan: &mut Plan, arguments: &Arguments<'_>) {
    let Arguments { rank, size, commutative, in_place, .. } = *arguments;
    let (at, n) = (rank as u64, size as u64);
    let (own, count) = (arguments.own(), arguments.count(rank));
    let block = arguments.items(count);
    let result = Vector::of_receive(block);
    let whole = 0..count;

    // The value is wanted in the receive buffer, where the contribution still is in place.
    let two = !commutative && rank + 1 < size;
    let last = if in_place { plan.scratch_items(block) } else { result }.part(whole.clone());
    let value = if two { plan.scratch_items(block).part(whole.clone()) } else { last };
    // One block is combined while the next arrives.
    let arrived = [(); 2].map(|()| plan.scratch_items(block).part(whole.clone()));
    plan.copy(own.part(arguments.block(rank)), value);
    plan.limit(2 * STEPS_UNDER_WAY, |plan| {
        for step in 1..n {
            let (to, from) = (cyclic(at + step, size), cyclic(at + n - step, size));
            let above = two && from > rank;
            let first_above = above && from == size - 1;
            let into = if first_above { last } else { arrived[step as usize % 2] };
            plan.send(to, own.part(arguments.block(to)));
            plan.receive(from, into);
            if !first_above {
                plan.reduce(into, if above { last } else { value });
            }
        }
    });
    if two {
        plan.reduce(value, last);
    }
    if in_place {
        plan.copy(last, result.part(whole));
    }
}
