//! The dependencies of steps: which steps must wait for which earlier ones.
//!
//! The memory that each step touches decides. A step that reads waits for the steps that have written there.
//! A step that writes waits for the steps that read or write the old content.
//!
//! Memory is named by *spans* of numbers. No two pieces of memory share a number; the caller decides what the
//! numbers count.

use alloc::vec::Vec;
use core::ops::Range;

/// No step, or the end of a list.
const NONE: u32 = u32::MAX;

/// The accesses to a whole span since it was last written.
#[derive(Clone, Copy)]
struct Piece {
    start: u64,
    end: u64,
    /// The step that wrote it.
    writer: u32,
    /// The newest of the steps that have read it since: an index into [`Dependencies::readers`].
    readers: u32,
}

/// The accesses of all steps so far.
#[derive(Default)]
pub(super) struct Dependencies {
    /// The pieces in order, and apart from each other.
    pieces: Vec<Piece>,
    /// A step, and the next older step of its list. Pieces that are cut in two share the list of the whole.
    readers: Vec<(u32, u32)>,
}

impl Dependencies {
    /// Notes that `step` reads a span; adds the steps that it must wait for.
    pub(super) fn read(&mut self, span: Range<u64>, step: u32, waits_for: &mut Vec<u32>) {
        let Range { mut start, end } = span;
        let mut at = self.first_reaching(start);
        while start < end {
            let next = self.pieces.get(at).map_or(end, |piece| piece.start.min(end));
            if start < next {
                self.pieces.insert(at, Piece { start, end: next, writer: NONE, readers: NONE });
            }
            let piece = &mut self.pieces[at];
            if piece.start < start {
                let before = Piece { end: start, ..*piece };
                piece.start = start;
                self.pieces.insert(at, before);
                at += 1;
            }
            let piece = &mut self.pieces[at];
            if piece.end > end {
                let behind = Piece { start: end, ..*piece };
                piece.end = end;
                self.pieces.insert(at + 1, behind);
            }
            let piece = &mut self.pieces[at];
            if piece.writer != NONE {
                waits_for.push(piece.writer);
            }
            self.readers.push((step, piece.readers));
            piece.readers = self.readers.len() as u32 - 1;
            start = piece.end;
            at += 1;
        }
    }

    /// Notes that `step` writes a span; adds the steps that it must wait for.
    pub(super) fn write(&mut self, span: Range<u64>, step: u32, waits_for: &mut Vec<u32>) {
        let Range { start, end } = span;
        if start >= end {
            return;
        }
        let first = self.first_reaching(start);
        let mut last = first;
        while let Some(piece) = self.pieces.get(last).filter(|piece| piece.start < end) {
            last += 1;
            if piece.readers == NONE && piece.writer != NONE {
                waits_for.push(piece.writer);
            }
            // The readers have waited for the writer.
            let mut reader = piece.readers;
            while let Some(&(earlier, next)) = self.readers.get(reader as usize) {
                waits_for.push(earlier);
                reader = next;
            }
        }
        let touched = &self.pieces[first..last];
        let before = touched.first().filter(|piece| piece.start < start).map(|piece| Piece { end: start, ..*piece });
        let behind = touched.last().filter(|piece| piece.end > end).map(|piece| Piece { start: end, ..*piece });
        let written = Piece { start, end, writer: step, readers: NONE };
        match &mut self.pieces[first..last] {
            [one] if before.is_none() && behind.is_none() => *one = written,
            _ => drop(self.pieces.splice(first..last, before.into_iter().chain([written]).chain(behind))),
        }
    }

    /// The first piece that ends behind `start`.
    fn first_reaching(&self, start: u64) -> usize {
        match self.pieces.last() {
            // Most algorithms go upwards.
            Some(last) if last.end > start => self.pieces.partition_point(|piece| piece.end <= start),
            _ => self.pieces.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    /// The steps that each step must wait for, by a look at every earlier one.
    fn naive(steps: &[(bool, Range<u64>)]) -> Vec<BTreeSet<usize>> {
        let overlap = |a: &Range<u64>, b: &Range<u64>| a.start.max(b.start) < a.end.min(b.end);
        let earlier = |at: usize| {
            let (writes, span) = &steps[at];
            (0..at).filter(move |&other| (*writes || steps[other].0) && overlap(span, &steps[other].1)).collect()
        };
        (0..steps.len()).map(earlier).collect()
    }

    /// The steps that each step waits for by [`Dependencies`], also by way of others.
    fn concluded(steps: &[(bool, Range<u64>)]) -> Vec<BTreeSet<usize>> {
        let mut dependencies = Dependencies::default();
        let mut all: Vec<BTreeSet<usize>> = Vec::new();
        for (number, (writes, span)) in steps.iter().enumerate() {
            let mut waits_for = Vec::new();
            match writes {
                true => dependencies.write(span.clone(), number as u32, &mut waits_for),
                false => dependencies.read(span.clone(), number as u32, &mut waits_for),
            }
            let mut set = BTreeSet::new();
            for earlier in waits_for {
                set.insert(earlier as usize);
                set.extend(all[earlier as usize].iter().copied());
            }
            all.push(set);
        }
        all
    }

    /// Steps that touch the same memory are ordered. No step waits for a step without need, not even by way
    /// of others.
    #[test]
    fn steps_wait_for_whoever_touched_the_same_memory_and_for_nobody_else() {
        let mut numbers = weft_random::Random::new(1);
        let mut random = |limit: u64| numbers.below(limit);
        for _ in 0..2000 {
            let mut steps = Vec::new();
            for _ in 0..random(20) {
                let start = random(30);
                steps.push((random(2) == 1, start..start + random(8)));
            }
            let closed = |direct: Vec<BTreeSet<usize>>| {
                let mut all: Vec<BTreeSet<usize>> = Vec::new();
                for set in direct {
                    let more = set.iter().flat_map(|&earlier| all[earlier].clone()).collect::<Vec<_>>();
                    all.push(set.into_iter().chain(more).collect());
                }
                all
            };
            assert_eq!(concluded(&steps), closed(naive(&steps)), "{steps:?}");
        }
    }
}
