//! The builder of schedules. An algorithm is written as a program for one rank, from top to bottom, as a
//! textbook has it:
//!
//! ```text
//! let mut plan = Plan::default();
//! plan.receive(parent, data);            // a leaf of a broadcast; an inner node goes on with
//! for child in children { plan.send(child, data) }
//! plan.finish()
//! ```
//!
//! # What waits for what
//!
//! The program does not say which steps wait for which: the plan concludes it from the memory that steps
//! touch. A step that reads waits for the steps that wrote the data. A step that writes waits for the steps
//! that wrote or read the memory before. All other steps may happen at once, and in any order. *So the order
//! of two steps in the program means nothing where they do not touch the same memory.* Two more orders can be
//! asked for:
//!
//! - [`Plan::fence`]: all steps that follow wait for all steps before. A barrier's rounds need this, because
//!   they touch no memory.
//! - [`Plan::limit`]: at most a given number of the following transfers are under way. Each waits for the
//!   transfer that many places before it.
//!
//! Transfers between the same two ranks begin in the order of the program at both of them, so that they
//! match.
//!
//! **An algorithm must be free of deadlocks when every transfer begins as soon as the steps that it waits for
//! are complete**, where a send is complete only with its receive. This holds if a program of rounds, where
//! the transfers of each round begin together, would never be stuck: a plan only ever waits for less.
//!
//! # Memory
//!
//! A [`Vector`] is items at equal distances. Steps are given a [`Part`] of a vector. A part knows its place
//! among the packed bytes of its buffer (its *span*), and the plan compares parts by their spans. So two
//! items whose datatypes have holes do not count as overlapping when they lie in each other's holes. Within
//! one plan, the receive buffer is either one vector (from its beginning) or [blocks](super::Blocks) by rank,
//! and not both.
//!
//! # Algorithms made of algorithms
//!
//! A function that writes to a `&mut Plan` can be used as a part of other algorithms: [`Plan::among`] gives
//! the ranks in it other numbers, those of a part of the group. The steps that follow wait, piece by piece,
//! for the memory that the function leaves.

mod fold;
mod vector;

use alloc::vec::Vec;

use super::dependencies::Dependencies;
use super::schedule::Node;
use super::{Buffer, ElementShape, Items, Kind, SCRATCH_ALIGNMENT, Schedule, Slice, Step};
pub(super) use fold::Fold;
pub(super) use vector::{Part, Vector, bytes};

/// The beginning of the spans of scratch memory; the spans of the receive buffer lie below.
const SCRATCH_SPANS: u64 = 1 << 62;

/// Most steps that each step behind a fence waits for itself; if there are more, a join step waits for them.
const FENCE_EDGES_MAX: usize = 2;

/// Most phases in which a rank may have published while not all ranks of the node have finished the first of
/// them. The current phase counts. Transports must have room for as many.
pub const PHASES_AHEAD: u32 = 4;

/// Most phases that may lack some of their steps when the next phase begins.
const PHASES_OPEN: u32 = 2;

/// A schedule being written.
#[derive(Default)]
pub(super) struct Plan {
    /// The steps. For the time being each node counts the edges that it will have: see [`Plan::finish`].
    nodes: Vec<Node>,
    /// The steps that each step waits for, those of the first step first.
    waits_for: Vec<u32>,
    touched: Dependencies,
    fence: Fence,
    limit: Option<Limit>,
    ranks: Ranks,
    shift: Shift,
    scratch: u64,
    /// Packed bytes of scratch memory that have spans.
    spans: u64,
    phases: u32,
    /// Phases that this rank has finished.
    finished: u32,
}

/// The newest fence: all steps behind it wait for the steps named here.
#[derive(Default)]
struct Fence {
    waits_for: Vec<u32>,
    /// The first step behind the fence.
    first: usize,
}

/// The limit on transfers at once, and the transfers since the limit began.
struct Limit {
    transfers_max: usize,
    transfers: Vec<u32>,
}

/// The distance by which all places in the user's buffers are moved on.
#[derive(Clone, Copy, Default)]
struct Shift {
    /// Bytes in memory.
    offset: i64,
    /// Packed bytes.
    span: u64,
}

/// The ranks that the numbers 0, 1, … stand for.
#[derive(Clone, Default)]
pub(super) enum Ranks {
    /// All ranks of the schedule.
    #[default]
    All,
    /// The ranks from this one on.
    From(u32),
    /// The ranks of this list.
    Listed(Vec<u32>),
}

impl Ranks {
    fn of(&self, number: u32) -> u32 {
        match self {
            Self::All => number,
            Self::From(first) => first + number,
            Self::Listed(ranks) => ranks[number as usize],
        }
    }

    /// The ranks for which these numbers stand among the ranks of `outer`.
    fn among(self, outer: &Self) -> Self {
        match (self, outer) {
            (ranks, Self::All) => ranks,
            (Self::All, outer) => outer.clone(),
            (Self::From(first), Self::From(outer)) => Self::From(first + outer),
            (Self::From(first), Self::Listed(outer)) => Self::Listed(outer[first as usize..].to_vec()),
            (Self::Listed(ranks), outer) => Self::Listed(ranks.iter().map(|rank| outer.of(*rank)).collect()),
        }
    }
}

impl Plan {
    /// Sends a part; nothing if it has no items (the receiver leaves it out as well).
    pub(super) fn send(&mut self, to: u32, part: Part) {
        let part = self.shifted(part);
        if part.slice.count > 0 {
            self.transfer(Step::Send { to: self.ranks.of(to), slice: part.slice }, Some(part), None);
        }
    }

    /// Sends a part to one rank of each other node; nothing if it has no items.
    pub(super) fn multicast(&mut self, part: Part) {
        let part = self.shifted(part);
        if part.slice.count > 0 {
            self.transfer(Step::Multicast { slice: part.slice }, Some(part), None);
        }
    }

    /// Sends an empty message to one rank of each other node.
    pub(super) fn multicast_signal(&mut self) {
        self.transfer(Step::Multicast { slice: NOTHING }, None, None);
    }

    /// Receives a part; nothing if it has no items.
    pub(super) fn receive(&mut self, from: u32, part: Part) {
        let part = self.shifted(part);
        if part.slice.count > 0 {
            self.transfer(Step::Receive { from: self.ranks.of(from), slice: part.slice }, None, Some(part));
        }
    }

    /// Sends an empty message.
    pub(super) fn signal(&mut self, to: u32) {
        self.transfer(Step::Send { to: self.ranks.of(to), slice: NOTHING }, None, None);
    }

    /// Receives an empty message.
    pub(super) fn await_signal(&mut self, from: u32) {
        self.transfer(Step::Receive { from: self.ranks.of(from), slice: NOTHING }, None, None);
    }

    /// Copies packed bytes.
    pub(super) fn copy(&mut self, from: Part, to: Part) {
        let (from, to) = (self.shifted(from), self.shifted(to));
        if from.slice.count > 0 && to.slice.count > 0 {
            self.add(Step::Copy { from: from.slice, to: to.slice }, Some(from), Some(to));
        }
    }

    /// Computes `inout = input op inout`.
    pub(super) fn reduce(&mut self, input: Part, inout: Part) {
        assert_eq!(input.slice.count, inout.slice.count);
        let (input, inout) = (self.shifted(input), self.shifted(inout));
        if input.slice.count > 0 {
            self.add(Step::Reduce { input: input.slice, inout: inout.slice }, Some(input), Some(inout));
        }
    }

    /// Begins one more phase, in which ranks of the node publish something, and returns its number. All ranks
    /// of the node count the same phases. A rank that publishes waits until the others have finished earlier
    /// phases. Some ranks, such as the root of a broadcast, finish a phase in no step of their own: this call
    /// adds the step for them.
    pub(super) fn begin_phase(&mut self) -> u32 {
        if self.phases - self.finished >= PHASES_AHEAD {
            self.fence();
            self.finish_phase(self.phases - 1 - PHASES_OPEN);
        }
        self.phases += 1;
        self.phases - 1
    }

    /// Publishes a part to the ranks of the node.
    pub(super) fn publish(&mut self, phase: u32, part: Part) {
        let part = self.shifted(part);
        self.add(Step::Publish { phase, slice: part.slice }, Some(part), None);
    }

    /// Tells the ranks of the node that this rank has come to the phase.
    pub(super) fn publish_nothing(&mut self, phase: u32) {
        self.add(Step::Publish { phase, slice: NOTHING }, None, None);
    }

    /// Waits until a rank of the node has come to the phase.
    pub(super) fn await_published(&mut self, phase: u32, from: u32) {
        let from = self.ranks.of(from);
        self.add(Step::Collect { phase, from, at: 0, of: 0, slice: NOTHING }, None, None);
    }

    /// Takes a part out of the `of` bytes that a rank of the node publishes, from byte `at` on.
    pub(super) fn collect(&mut self, phase: u32, from: u32, (at, of): (u64, u64), part: Part) {
        let part = self.shifted(part);
        if part.slice.count > 0 {
            let from = self.ranks.of(from);
            self.add(Step::Collect { phase, from, at, of, slice: part.slice }, None, Some(part));
        }
    }

    /// Computes `inout = published op inout`.
    pub(super) fn combine(&mut self, phase: u32, from: u32, at: u64, inout: Part) {
        let inout = self.shifted(inout);
        if inout.slice.count > 0 {
            let from = self.ranks.of(from);
            self.add(Step::Combine { phase, from, at, inout: inout.slice }, None, Some(inout));
        }
    }

    /// Exposes a part, which is one run of memory: the ranks of the node may copy it.
    pub(super) fn expose(&mut self, phase: u32, part: Part) {
        let part = self.shifted(part);
        self.add(Step::Expose { phase, slice: part.slice }, Some(part), None);
    }

    /// Copies a part out of the `of` bytes that a rank of the node exposes, from byte `at` on.
    pub(super) fn fetch(&mut self, phase: u32, from: u32, (at, of): (u64, u64), part: Part) {
        let part = self.shifted(part);
        if part.slice.count > 0 {
            let from = self.ranks.of(from);
            self.add(Step::Fetch { phase, from, at, of, slice: part.slice }, None, Some(part));
        }
    }

    /// Tells the ranks of the node that this rank is done with a phase, and with the phases before it. Steps
    /// that touch these phases must have been fenced off.
    pub(super) fn finish_phase(&mut self, phase: u32) {
        self.finished = self.finished.max(phase + 1);
        self.add(Step::Finish { phase }, None, None);
    }

    /// Makes all steps that follow wait for all steps added so far.
    pub(super) fn fence(&mut self) {
        if self.nodes.len() == self.fence.first {
            return;
        }
        let mut is_last = alloc::vec![true; self.nodes.len() - self.fence.first];
        let since: usize = self.nodes[self.fence.first..].iter().map(|node| node.waits as usize).sum();
        for &earlier in &self.waits_for[self.waits_for.len() - since..] {
            if let Some(is_last) = (earlier as usize).checked_sub(self.fence.first).and_then(|at| is_last.get_mut(at)) {
                *is_last = false;
            }
        }
        let last = (self.fence.first..self.nodes.len()).zip(is_last).filter(|(_, is_last)| *is_last);
        let waits_for: Vec<u32> = last.map(|(number, _)| number as u32).collect();
        if waits_for.len() <= FENCE_EDGES_MAX {
            self.fence = Fence { waits_for, first: self.nodes.len() };
            return;
        }
        let join = self.nodes.len() as u32;
        self.waits_for.extend_from_slice(&waits_for);
        self.push(Step::Join, waits_for.len());
        self.fence = Fence { waits_for: alloc::vec![join], first: self.nodes.len() };
    }

    /// Limits the transfers that `write` adds: at most `transfers_max` of them are under way.
    pub(super) fn limit(&mut self, transfers_max: usize, write: impl FnOnce(&mut Self)) {
        let limit = Limit { transfers_max: transfers_max.max(1), transfers: Vec::new() };
        let outer = self.limit.replace(limit);
        write(self);
        self.limit = outer;
    }

    /// Makes the steps that `write` adds use numbers among these ranks, taken among the current ranks.
    pub(super) fn among(&mut self, ranks: Ranks, write: impl FnOnce(&mut Self)) {
        let ranks = ranks.among(&self.ranks);
        let outer = core::mem::replace(&mut self.ranks, ranks);
        write(self);
        self.ranks = outer;
    }

    /// Makes the steps that `write` adds see the user's buffers from item `first` on, as if they began there.
    pub(super) fn beginning_at(&mut self, first: u64, shape: ElementShape, write: impl FnOnce(&mut Self)) {
        let outer = self.shift;
        self.shift.offset += first as i64 * shape.extent;
        self.shift.span += first * shape.size;
        write(self);
        self.shift = outer;
    }

    fn shifted(&self, mut part: Part) -> Part {
        if part.slice.buffer != Buffer::Scratch {
            part.slice.offset += self.shift.offset;
            if part.slice.buffer == Buffer::Receive {
                part.span = (part.span.0 + self.shift.span, part.span.1 + self.shift.span);
            }
        }
        part
    }

    /// Scratch memory for packed bytes.
    pub(super) fn scratch_bytes(&mut self, count: u64) -> Vector {
        let base = self.scratch.next_multiple_of(SCRATCH_ALIGNMENT);
        self.scratch = base + count;
        let packed = Vector::packed(Buffer::Scratch, base as i64);
        Vector { origin: self.span(count), ..packed }
    }

    /// Scratch memory for items of the reduction's datatype.
    ///
    /// The base is the place where item 0 would begin if its lower bound were 0. It is a multiple of
    /// [`SCRATCH_ALIGNMENT`], so items are aligned as in user memory. The base may lie outside the scratch
    /// memory; the bytes touched do not.
    pub(super) fn scratch_items(&mut self, items: Items) -> Vector {
        let shape = items.shape;
        let last = (items.count.max(1) as i64 - 1) * shape.extent;
        let lowest = last.min(0) + shape.true_lb;
        let end = last.max(0) + shape.true_lb + shape.true_extent;
        let alignment = SCRATCH_ALIGNMENT as i64;
        let base = (self.scratch as i64 - lowest + alignment - 1).div_euclid(alignment) * alignment;
        self.scratch = self.scratch.max((base + end) as u64);
        let origin = self.span(bytes(items));
        Vector { buffer: Buffer::Scratch, base, origin, ..Vector::of_receive(items) }
    }

    /// Reserves the span of `bytes` more packed bytes.
    fn span(&mut self, bytes: u64) -> u64 {
        self.spans += bytes;
        SCRATCH_SPANS + self.spans - bytes
    }

    fn transfer(&mut self, step: Step, read: Option<Part>, written: Option<Part>) {
        let number = self.nodes.len() as u32;
        let first = self.waits_for.len();
        if let Some(Limit { transfers_max, transfers }) = &mut self.limit {
            if let Some(earlier) = transfers.len().checked_sub(*transfers_max) {
                self.waits_for.push(transfers[earlier]);
            }
            transfers.push(number);
        }
        self.add_behind(first, step, read, written);
    }

    fn add(&mut self, step: Step, read: Option<Part>, written: Option<Part>) {
        self.add_behind(self.waits_for.len(), step, read, written);
    }

    /// Adds a step. It waits for the steps noted from `first` on, and for earlier steps that touch the same
    /// memory.
    fn add_behind(&mut self, first: usize, step: Step, read: Option<Part>, written: Option<Part>) {
        let number = self.nodes.len() as u32;
        if let Some(part) = read {
            self.touched.read(part.span.0..part.span.1, number, &mut self.waits_for);
        }
        if let Some(part) = written {
            self.touched.write(part.span.0..part.span.1, number, &mut self.waits_for);
        }
        // A step that waits for a step behind the fence waits for the fence, too.
        if !self.waits_for[first..].iter().any(|&earlier| earlier as usize >= self.fence.first) {
            self.waits_for.extend_from_slice(&self.fence.waits_for);
        }
        if self.waits_for.len() - first > 1 {
            weft_ordered::sort(&mut self.waits_for[first..]);
            let mut kept = first + 1;
            for at in first + 1..self.waits_for.len() {
                if self.waits_for[at] != self.waits_for[kept - 1] {
                    self.waits_for[kept] = self.waits_for[at];
                    kept += 1;
                }
            }
            self.waits_for.truncate(kept);
        }
        self.push(step, self.waits_for.len() - first);
    }

    fn push(&mut self, step: Step, waits: usize) {
        self.nodes.push(Node { step, waits: waits as u32, at_start: 0, at_end: 0 });
    }

    /// The schedule as written.
    pub(super) fn finish(self) -> Schedule {
        let Self { mut nodes, waits_for, scratch, phases, .. } = self;
        let in_turn = in_turn(&nodes, &waits_for);
        // First count the steps that wait for the beginning of each step, and for its end; then note where
        // each list ends.
        in_turn.iter().for_each(|&(earlier, _)| nodes[earlier as usize].at_start += 1);
        waits_for.iter().for_each(|&earlier| nodes[earlier as usize].at_end += 1);
        let mut end = 0;
        for node in &mut nodes {
            node.at_start += end;
            node.at_end += node.at_start;
            end = node.at_end;
        }
        // The lists are filled from their ends: when all are filled, the noted ends have become the
        // beginnings.
        let mut successors = alloc::vec![0; end as usize];
        let mut edges = waits_for.iter().rev();
        for later in (0..nodes.len()).rev() {
            for &earlier in edges.by_ref().take(nodes[later].waits as usize) {
                let at = &mut nodes[earlier as usize].at_end;
                *at -= 1;
                successors[*at as usize] = later as u32;
            }
        }
        for &(earlier, later) in in_turn.iter().rev() {
            let at = &mut nodes[earlier as usize].at_start;
            *at -= 1;
            successors[*at as usize] = later;
            nodes[later as usize].waits += 1;
        }
        Schedule { nodes, successors, scratch, phases }
    }
}

/// The ranks of other nodes as the target of a multicast.
const EVERYBODY: u32 = u32::MAX;

/// Pairs of transfers with the same rank in the same direction. The second must begin after the first. Pairs
/// in which the second waits for the end of the first anyway are left out.
fn in_turn(nodes: &[Node], waits_for: &[u32]) -> Vec<(u32, u32)> {
    let key = |node: &Node| match node.step {
        Step::Send { to, .. } => Some((to, true)),
        Step::Multicast { .. } => Some((EVERYBODY, true)),
        Step::Receive { from, .. } => Some((from, false)),
        _ => None,
    };
    let mut transfers: Vec<((u32, bool), u32)> =
        nodes.iter().enumerate().filter_map(|(number, node)| Some((key(node)?, number as u32))).collect();
    weft_ordered::sort(&mut transfers);
    let mut pairs: Vec<(u32, u32)> =
        transfers.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| (pair[0].1, pair[1].1)).collect();
    if pairs.is_empty() {
        return pairs;
    }
    weft_ordered::sort_by_key(&mut pairs, |pair| pair.1);
    let (mut first, mut number) = (0, 0);
    pairs.retain(|&(earlier, later)| {
        while number < later {
            first += nodes[number as usize].waits as usize;
            number += 1;
        }
        !waits_for[first..first + nodes[later as usize].waits as usize].contains(&earlier)
    });
    pairs
}

const NOTHING: Slice = Slice { buffer: Buffer::Scratch, offset: 0, count: 0, kind: Kind::Bytes };
