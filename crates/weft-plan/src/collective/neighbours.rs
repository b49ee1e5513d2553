//! Exchanges with neighbours, and with all processes of another group: a block to each and a block from each
//! (MPI-5.0 §8.6, §6.2.3).

use super::gather::OUTSTANDING_MAX;
use super::plan::{Part, Plan, Vector, bytes};
use super::{Buffer, ExchangeBetween, Items, Kind, NeighbourExchange, Parts, Schedule, Slice};

impl Parts<'_> {
    /// The block at index `at`, unless it is empty: an empty block does not travel, and the process at the
    /// other end knows that.
    fn block(&self, at: usize, side: Side) -> Option<Part> {
        let index = at as u32;
        let (part, bytes) = match *self {
            Self::Same(items) => (side.vector(items).part(0..items.count), bytes(items)),
            Self::Consecutive(items) => {
                let first = u64::from(index) * items.count;
                (side.vector(items).part(first..first + items.count), bytes(items))
            }
            Self::Listed(blocks) => (blocks.part(index, side.buffer(), side.kind()), blocks.bytes(index)),
            Self::Typed(blocks) => {
                let (count, offset) = (blocks.counts[at], blocks.displacements[at]);
                let slice = Slice { buffer: side.buffer(), offset, count, kind: side.kind_of(index) };
                (Part::block(index, slice), count * blocks.item_sizes[at])
            }
        };
        (bytes > 0).then_some(part)
    }
}

/// The program's buffer that blocks are in.
#[derive(Clone, Copy)]
enum Side {
    Send,
    Receive,
}

impl Side {
    fn buffer(self) -> Buffer {
        match self {
            Self::Send => Buffer::Send,
            Self::Receive => Buffer::Receive,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Send => Kind::Send,
            Self::Receive => Kind::Receive,
        }
    }

    fn kind_of(self, at: u32) -> Kind {
        match self {
            Self::Send => Kind::SendOf(at),
            Self::Receive => Kind::ReceiveOf(at),
        }
    }

    fn vector(self, items: Items) -> Vector {
        match self {
            Self::Send => Vector::of_send(items),
            Self::Receive => Vector::of_receive(items),
        }
    }
}

/// The order in which this process receives the blocks of its sources. A source sends its messages to this
/// process in the order of its destinations, and messages between two processes match in the order of
/// sending.
///
/// In a graph this is the order in which the sources are listed. In a grid, a neighbour's message in one
/// direction arrives from the opposite side (the code in MPI-5.0 §8.6.2), so the two sources of a dimension
/// change places. This matters where one process is both neighbours.
fn order_of_sources(arguments: &NeighbourExchange<'_>) -> impl Iterator<Item = usize> {
    let is_grid = arguments.is_grid;
    (0..arguments.sources.len()).map(move |at| if is_grid { at ^ 1 } else { at })
}

/// Plans all transfers at once. In some graphs any order would make processes wait for each other in a
/// circle.
pub(super) fn exchange(arguments: &NeighbourExchange<'_>) -> Schedule {
    let NeighbourExchange { rank, sources, destinations, send, receive, .. } = *arguments;
    let mut plan = Plan::default();
    let own = |list: &[Option<u32>], at: usize| list[at] == Some(rank);
    for at in order_of_sources(arguments) {
        if let (Some(from), Some(part)) = (sources[at], receive.block(at, Side::Receive))
            && from != rank
        {
            plan.receive(from, part);
        }
    }
    for (at, to) in destinations.iter().enumerate() {
        if let (Some(to), Some(part)) = (*to, send.block(at, Side::Send))
            && to != rank
        {
            plan.send(to, part);
        }
    }
    let leaving = (0..destinations.len()).filter(|at| own(destinations, *at));
    let arriving = order_of_sources(arguments).filter(|at| own(sources, *at));
    for (from, to) in leaving.zip(arriving) {
        if let (Some(from), Some(to)) = (send.block(from, Side::Send), receive.block(to, Side::Receive)) {
            plan.copy(from, to);
        }
    }
    plan.finish()
}

/// Plans the exchange between two groups, where block `i` is that of rank `i` of the other group. Ranks `a`
/// and `b` exchange their blocks in step `a + b`, modulo the size of the larger group. No rank has two
/// partners in one step, and both partners know the step.
pub(super) fn between(arguments: &ExchangeBetween<'_>) -> Schedule {
    let ExchangeBetween { rank, size, remote_size, is_first, send, receive } = *arguments;
    let (steps, first) = (size.max(remote_size), if is_first { size } else { 0 });
    let mut plan = Plan::default();
    plan.limit(2 * OUTSTANDING_MAX, |plan| {
        for step in 0..steps {
            let partner = (step + steps - rank) % steps;
            if partner >= remote_size {
                continue;
            }
            if let Some(part) = receive.block(partner as usize, Side::Receive) {
                plan.receive(first + partner, part);
            }
            if let Some(part) = send.block(partner as usize, Side::Send) {
                plan.send(first + partner, part);
            }
        }
    });
    plan.finish()
}
