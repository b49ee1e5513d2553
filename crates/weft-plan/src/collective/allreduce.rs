//! Reduction with the result at all ranks. Each algorithm combines operands in one fixed order, and every
//! rank gets the same bits.

use alloc::vec::Vec;

use super::halving::{Exchange, Members, Role};
use super::pieces::{self, cut, cut_range};
use super::plan::{Fold, Plan, Vector, bytes};
use super::select::{AllreduceAlgorithm, Tree};
use super::tree::cyclic;
use super::{Allreduce, Bcast, Items, Reduce, bcast, reduce, shared};

/// Bytes of a segment in which a vector comes up the tree and is multicast.
const MULTICAST_SEGMENT_BYTES: u64 = 64 << 10;

pub(super) fn add(plan: &mut Plan, arguments: &Allreduce, algorithm: AllreduceAlgorithm) {
    if bytes(arguments.items) == 0 {
        return;
    }
    match algorithm {
        AllreduceAlgorithm::SharedShares if shared::can_publish(arguments.items) => {
            shared::allreduce_by_shares(plan, arguments);
        }
        AllreduceAlgorithm::Doubling | AllreduceAlgorithm::SharedShares => folded(plan, arguments, doubling),
        AllreduceAlgorithm::Multiplying { radix } => multiplying(plan, arguments, radix.max(2)),
        AllreduceAlgorithm::Tree { tree, segment_bytes } => up_and_down(plan, arguments, tree, segment_bytes),
        AllreduceAlgorithm::Multicast => up_and_multicast(plan, arguments),
        AllreduceAlgorithm::Halving => folded(plan, arguments, halving),
        AllreduceAlgorithm::Ring => ring(plan, arguments),
        AllreduceAlgorithm::Shared => shared::allreduce_whole(plan, arguments),
        AllreduceAlgorithm::SingleCopy => super::single_copy::allreduce(plan, arguments),
    }
}

/// Plans a reduction up a tree to rank 0, and down again: a segment that has come to the top goes down while
/// other segments come up.
fn up_and_down(plan: &mut Plan, arguments: &Allreduce, tree: Tree, segment_bytes: u64) {
    let Allreduce { rank, size, items, commutative, in_place } = *arguments;
    // The segments are the same on both ways.
    let segment_bytes = segment_bytes / items.shape.size * items.shape.size;
    let arguments = Reduce { rank, size, root: 0, items, commutative, in_place };
    let own = Vector::contribution(items, in_place);
    reduce::up(plan, &arguments, tree, segment_bytes, own, Vector::of_receive(items));
    bcast::down(plan, &Bcast { rank, size, root: 0, items }, tree, segment_bytes);
}

/// Plans a reduction up a tree to rank 0, which multicasts each segment while other segments come up. Rank 0
/// sends nothing else.
fn up_and_multicast(plan: &mut Plan, arguments: &Allreduce) {
    let Allreduce { rank, size, items, commutative, in_place } = *arguments;
    let own = Vector::contribution(items, in_place);
    let arguments = Reduce { rank, size, root: 0, items, commutative, in_place };
    let tree = Tree::towards_multicast(size);
    reduce::up(plan, &arguments, tree, MULTICAST_SEGMENT_BYTES, own, Vector::of_receive(items));
    if size > 1 {
        bcast::multicast(plan, &Bcast { rank, size, root: 0, items }, MULTICAST_SEGMENT_BYTES);
    }
}

/// Plans an exchange of the whole vector with `radix` − 1 members, then with as many further away: log n
/// rounds. In each round all members of a group combine the group's vectors in the order of the group, so all
/// get the same bits. Ranks beyond the largest power of the radix are folded into members first.
fn multiplying(plan: &mut Plan, arguments: &Allreduce, radix: u32) {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let whole = 0..items.count;
    let own = Vector::contribution(items, in_place);
    let result = Vector::of_receive(items);
    let members = radix.pow(size.ilog(radix));
    if rank >= members {
        plan.send(rank % members, own.part(whole.clone()));
        plan.receive(rank % members, result.part(whole));
        return;
    }
    let folded = || (rank..size).step_by(members as usize).skip(1);
    let buffer_count = if members > 1 { radix } else { 1 }.max(1 + folded().count().min(1) as u32) as usize;
    let mut buffers: Vec<Vector> = (1..buffer_count).map(|_| plan.scratch_items(items)).collect();
    // The value is in the last buffer.
    buffers.push(result);
    if !in_place {
        plan.copy(own.part(whole.clone()), result.part(whole.clone()));
    }
    for from in folded() {
        plan.receive(from, buffers[0].part(whole.clone()));
        plan.reduce(buffers[0].part(whole.clone()), result.part(whole.clone()));
    }
    let mut distance = 1;
    while distance < members {
        let digit = rank / distance % radix;
        let first = rank - digit * distance;
        let value = buffers.pop().expect("there is a value");
        buffers.insert(digit as usize, value);
        for step in 1..radix {
            let to = (digit + step) % radix;
            plan.send(first + to * distance, value.part(whole.clone()));
        }
        for step in 1..radix {
            let from = (digit + radix - step) % radix;
            plan.receive(first + from * distance, buffers[from as usize].part(whole.clone()));
        }
        for pair in buffers.windows(2) {
            plan.reduce(pair[0].part(whole.clone()), pair[1].part(whole.clone()));
        }
        distance *= radix;
    }
    let value = buffers[buffers.len() - 1];
    if value != result {
        plan.copy(value.part(whole.clone()), result.part(whole.clone()));
    }
    for to in folded() {
        plan.send(to, value.part(whole.clone()));
    }
}

/// Plans an allreduce among members: pairs of ranks become one member each until a power of two remains (see
/// [`Members`]). The folded ranks get the result at the end.
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

/// The state with which a member begins.
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

/// Plans an exchange of the whole vector with members 1, 2, 4, … away: log₂ n rounds.
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

/// Plans a reduce-scatter by halving, then an exchange of the parts: 2 log₂ n rounds, and every byte leaves a
/// rank less than twice.
fn halving(plan: &mut Plan, exchange: &Exchange<'_>, start: Start, items: Items) {
    let mut fold = start.fold(plan, exchange, items);
    exchange.halve(plan, &mut fold);
    fold.finish(plan, exchange.own_part());
    exchange.double(plan, Vector::of_receive(items));
}

/// Plans parts that travel round the ring and grow, then travel round once more: 2(n − 1) rounds, and every
/// byte leaves a rank less than twice for any n. Part `i` is combined from rank `i + 1` round to rank `i`, so
/// the operation must commute.
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
    pieces::ring(plan, rank, size, |position| position, |i| result.part(part(i as u64)));
}
