//! A layout as runs of bytes. Consecutive runs of equal length at equal distances are handed out as one
//! batch.

/// `count` runs of `length` bytes each, the first at `offset`, each next one `step` bytes further.
///
/// A copier that looks at `length` once per batch can use a fixed-size move for 4, 8 or 16 bytes; this makes
/// a column of a matrix cheap to pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Bytes from the base address to the first run.
    pub offset: i64,
    /// Bytes in each run, never 0.
    pub length: usize,
    /// Bytes from the start of one run to the start of the next; meaningless when `count` is 1.
    pub step: i64,
    /// The number of runs, never 0.
    pub count: u64,
}

impl Batch {
    fn one(offset: i64, length: usize) -> Batch {
        Batch { offset, length, step: 0, count: 1 }
    }
}

/// Joins runs on their way from the shape's walk to the visitor: runs that touch become one run, equal runs
/// at an equal step become one batch. The merger holds back one batch, so [`finish`](Merger::finish) must be
/// called.
pub(super) struct Merger<'a> {
    /// The batch that is held back; none while its count is 0.
    held: Batch,
    /// Offset of the last run held.
    last: i64,
    visit: &'a mut dyn FnMut(Batch),
}

impl<'a> Merger<'a> {
    pub(super) fn new(visit: &'a mut dyn FnMut(Batch)) -> Merger<'a> {
        Merger { held: Batch { count: 0, ..Batch::one(0, 0) }, last: 0, visit }
    }

    pub(super) fn finish(self) {
        if self.held.count > 0 {
            (self.visit)(self.held);
        }
    }

    /// Takes one run, not empty.
    #[inline]
    pub(super) fn run(&mut self, offset: i64, length: u64) {
        // A run lies in memory, so its length fits in the machine's address size.
        let length = length as usize;
        let held = &mut self.held;
        if held.count > 0 && self.last.wrapping_add(held.length as i64) == offset {
            return self.extend_last(length);
        }
        if held.length == length && (held.count == 1 || self.last.wrapping_add(held.step) == offset) {
            held.step = offset.wrapping_sub(self.last);
            held.count += 1;
        } else {
            let full = core::mem::replace(held, Batch::one(offset, length));
            if full.count > 0 {
                (self.visit)(full);
            }
        }
        self.last = offset;
    }

    /// The last held run grows by `length` bytes; those before it, of another length now, go out.
    fn extend_last(&mut self, length: usize) {
        let mut earlier = self.held;
        earlier.count -= 1;
        self.held = Batch::one(self.last, earlier.length + length);
        if earlier.count > 0 {
            (self.visit)(earlier);
        }
    }

    /// Takes several runs that do not touch each other.
    #[inline]
    pub(super) fn batch(&mut self, batch: Batch) {
        self.run(batch.offset, batch.length as u64);
        let rest = batch.count - 1;
        if rest == 0 {
            return;
        }
        let next = batch.offset.wrapping_add(batch.step);
        self.run(next, batch.length as u64);
        // The second run, of the same length and not touching the first, was either put behind it or is held
        // alone.
        self.held.step = batch.step;
        self.held.count += rest - 1;
        self.last = batch.offset.wrapping_add(batch.step.wrapping_mul(rest as i64));
    }
}
