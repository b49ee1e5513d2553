//! All-to-all: a block from each rank to each rank.

use super::gather::OUTSTANDING_MAX;
use super::plan::{Part, Plan, Vector, bytes};
use super::select::AlltoallAlgorithm;
use super::tree::cyclic;
use super::{Allgather, Alltoallv, Alltoallw, Buffer, Kind, Slice};

/// Most scratch bytes that an exchange in place uses to have more than one block under way.
const IN_PLACE_SCRATCH_MAX: u64 = 1 << 20;

pub(super) fn add(plan: &mut Plan, arguments: &Allgather, algorithm: AlltoallAlgorithm) {
    let Allgather { rank, size, send, receive, in_place } = *arguments;
    if bytes(receive) == 0 {
        return;
    }
    let outstanding = match algorithm {
        AlltoallAlgorithm::Bruck => return bruck(plan, arguments),
        AlltoallAlgorithm::Shared => return super::shared::alltoall(plan, arguments),
        AlltoallAlgorithm::SingleCopy => return super::single_copy::alltoall(plan, arguments),
        AlltoallAlgorithm::Exchange { outstanding } => outstanding,
    };
    let to = Vector::of_receive(receive);
    let from = Vector::of_send(send);
    let receive_block =
        |i: u32| Block::new(to.part(i as u64 * receive.count..(i as u64 + 1) * receive.count), receive.shape.size);
    if in_place {
        return exchange_in_place(plan, rank, size, receive_block);
    }
    let send_block =
        |i: u32| Block::new(from.part(i as u64 * send.count..(i as u64 + 1) * send.count), send.shape.size);
    exchange(plan, rank, size, outstanding, send_block, receive_block)
}

pub(super) fn alltoallv(plan: &mut Plan, arguments: &Alltoallv<'_>) {
    let Alltoallv { rank, size, send, receive, in_place } = *arguments;
    let to = |i| Block::new(receive.part(i, Buffer::Receive, Kind::Receive), receive.item_size);
    if in_place {
        return exchange_in_place(plan, rank, size, to);
    }
    exchange(
        plan,
        rank,
        size,
        OUTSTANDING_MAX,
        |i| Block::new(send.part(i, Buffer::Send, Kind::Send), send.item_size),
        to,
    )
}

pub(super) fn alltoallw(plan: &mut Plan, arguments: &Alltoallw<'_>) {
    let Alltoallw { rank, size, send, receive, in_place } = *arguments;
    let to = |i| receive.block(i, Buffer::Receive, Kind::ReceiveOf(i));
    if in_place {
        return exchange_in_place(plan, rank, size, to);
    }
    exchange(plan, rank, size, OUTSTANDING_MAX, |i| send.block(i, Buffer::Send, Kind::SendOf(i)), to)
}

/// A block, and its packed bytes.
struct Block {
    part: Part,
    bytes: u64,
}

impl Block {
    fn new(part: Part, item_size: u64) -> Self {
        Self { part, bytes: part.slice.count * item_size }
    }
}

impl super::TypedBlocks<'_> {
    fn block(&self, rank: u32, buffer: Buffer, kind: Kind) -> Block {
        let i = rank as usize;
        let slice = Slice { buffer, offset: self.displacements[i], count: self.counts[i], kind };
        Block::new(Part::block(rank, slice), self.item_sizes[i])
    }
}

/// Plans an exchange in steps: in step `k` every rank sends to the rank `k` further on and receives from the
/// rank `k` before, so no rank is the target of two in one step. Several steps are under way together.
/// Transfers wait for earlier steps only. So the rank that is furthest behind finds the transfers of both its
/// partners started.
fn exchange(
    plan: &mut Plan,
    rank: u32,
    size: u32,
    outstanding: usize,
    send: impl Fn(u32) -> Block,
    receive: impl Fn(u32) -> Block,
) {
    let (at, n) = (rank as u64, size as u64);
    plan.limit(2 * outstanding, |plan| {
        for step in 1..n {
            let (to, from) = (cyclic(at + step, size), cyclic(at + n - step, size));
            let (leaving, arriving) = (send(to), receive(from));
            if arriving.bytes > 0 {
                plan.receive(from, arriving.part);
            }
            if leaving.bytes > 0 {
                plan.send(to, leaving.part);
            }
        }
    });
    if receive(rank).bytes > 0 {
        plan.copy(send(rank).part, receive(rank).part);
    }
}

/// Plans an exchange in place: in step `k` the ranks whose sum is `k` modulo n swap their blocks. An arrived
/// block is kept packed in scratch until the block that leaves from the same place has left.
fn exchange_in_place(plan: &mut Plan, rank: u32, size: u32, block: impl Fn(u32) -> Block) {
    let mut waiting: alloc::vec::Vec<(Part, Part)> = alloc::vec::Vec::new();
    let longest = (0..size).filter(|&i| i != rank).map(|i| block(i).bytes).max().unwrap_or(0);
    let slots = (IN_PLACE_SCRATCH_MAX / longest.max(1)).clamp(1, OUTSTANDING_MAX as u64).min(size as u64);
    let arrived = plan.scratch_bytes(if longest == 0 { 0 } else { slots * longest });
    for step in 0..size as u64 {
        let peer = cyclic(step + size as u64 - rank as u64, size);
        let swapped = block(peer);
        if peer == rank || swapped.bytes == 0 {
            continue;
        }
        let start = waiting.len() as u64 * longest;
        let packed = arrived.part(start..start + swapped.bytes);
        plan.receive(peer, packed);
        plan.send(peer, swapped.part);
        waiting.push((packed, swapped.part));
        if waiting.len() as u64 == slots {
            waiting.drain(..).for_each(|(from, to)| plan.copy(from, to));
        }
    }
    waiting.drain(..).for_each(|(from, to)| plan.copy(from, to));
}

/// Plans ⌈log₂ n⌉ rounds (Bruck and others, 1997): block `i` has `i` places to go round, and in round `k`
/// travels 2^k places if bit `k` of `i` is set. Each byte travels several times, so this is for small blocks.
fn bruck(plan: &mut Plan, arguments: &Allgather) {
    let Allgather { rank, size, send, receive, in_place } = *arguments;
    let (at, n, length) = (rank as u64, size as u64, bytes(receive));
    let (own, items) = if in_place { (Vector::of_receive(receive), receive) } else { (Vector::of_send(send), send) };
    // At index i: the block that has i places to go, at first that for the rank i further on.
    let blocks = plan.scratch_bytes(n * length);
    let ahead = n - at;
    plan.copy(own.part(at * items.count..n * items.count), blocks.part(0..ahead * length));
    plan.copy(own.part(0..at * items.count), blocks.part(ahead * length..n * length));
    let half = n.next_power_of_two() / 2 * length;
    let (leaving, arriving) = (plan.scratch_bytes(half), plan.scratch_bytes(half));
    let mut distance = 1;
    while distance < n {
        let runs = || {
            (distance..n).step_by(2 * distance as usize).scan(0, |packed, first| {
                let count = distance.min(n - first);
                let start = *packed;
                *packed += count;
                Some((first * length..(first + count) * length, start * length..(start + count) * length))
            })
        };
        let total = runs().last().map_or(0, |(_, packed)| packed.end);
        runs().for_each(|(run, packed)| plan.copy(blocks.part(run), leaving.part(packed)));
        plan.send(cyclic(at + distance, size), leaving.part(0..total));
        plan.receive(cyclic(at + n - distance, size), arriving.part(0..total));
        runs().for_each(|(run, packed)| plan.copy(arriving.part(packed), blocks.part(run)));
        distance *= 2;
    }
    let all = Vector::of_receive(receive);
    for i in 0..n {
        let from = cyclic(at + n - i, size) as u64;
        plan.copy(
            blocks.part(i * length..(i + 1) * length),
            all.part(from * receive.count..(from + 1) * receive.count),
        );
    }
}
