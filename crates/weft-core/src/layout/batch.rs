//! What a layout hands out: runs of bytes, gathered into batches of equal runs at equal steps.

/// `count` runs of `length` bytes each, the first at `offset`, each next one `step` bytes further.
///
/// A copier that looks at `length` once per batch can use a fixed-size move for 4, 8 or 16 bytes; that is what
/// makes a column of a matrix cheap to pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Bytes from the base address to the first run.
    pub offset: i64,
    /// Bytes in each run, never 0.
    pub length: usize,
    /// Bytes from the start of one run to the start of the next; meaningless when `count` is 1.
    pub step: i64,
    /// How many runs, never 0.
    pub count: u64,
}

impl Batch {
    fn offset_of_last(&self) -> i64 {
        self.offset.wrapping_add(self.step.wrapping_mul(self.count as i64 - 1))
    }
}

/// Joins what can be joined on the way from the shape's walk to the visitor: runs that touch become one run, equal
/// runs at an equal step become one batch. Holds back one batch, so [`finish`](Merger::finish) must be called.
pub(super) struct Merger<'a> {
    held: Option<Batch>,
    visit: &'a mut dyn FnMut(Batch),
}

impl<'a> Merger<'a> {
    pub(super) fn new(visit: &'a mut dyn FnMut(Batch)) -> Merger<'a> {
        Merger { held: None, visit }
    }

    pub(super) fn finish(self) {
        if let Some(held) = self.held {
            (self.visit)(held);
        }
    }

    #[inline]
    pub(super) fn run(&mut self, offset: i64, length: u64) {
        // A run lies in memory, so its length fits in the machine's address size.
        let length = length as usize;
        let Some(held) = &mut self.held else {
            self.held = Some(Batch { offset, length, step: 0, count: 1 });
            return;
        };
        let last = held.offset_of_last();
        if last.wrapping_add(held.length as i64) == offset {
            self.extend_last(last, length);
        } else if held.length == length && (held.count == 1 || last.wrapping_add(held.step) == offset) {
            held.step = offset.wrapping_sub(last);
            held.count += 1;
        } else {
            let full = core::mem::replace(held, Batch { offset, length, step: 0, count: 1 });
            (self.visit)(full);
        }
    }

    /// The last held run grows by `length` bytes; those before it, of another length now, go out.
    fn extend_last(&mut self, last: i64, length: usize) {
        let Some(held) = &mut self.held else { return };
        if held.count > 1 {
            let mut earlier = *held;
            earlier.count -= 1;
            *held = Batch { offset: last, length: held.length, step: 0, count: 1 };
            held.length += length;
            (self.visit)(earlier);
        } else {
            held.length += length;
        }
    }

    /// Takes several runs that do not touch each other.
    #[inline]
    pub(super) fn batch(&mut self, mut batch: Batch) {
        if batch.count > 1 {
            self.run(batch.offset, batch.length as u64);
            batch.offset = batch.offset.wrapping_add(batch.step);
            batch.count -= 1;
        }
        if batch.count > 1
            && let Some(held) = &mut self.held
        {
            let last = held.offset_of_last();
            let continues = held.length == batch.length
                && last.wrapping_add(batch.step) == batch.offset
                && (held.count == 1 || held.step == batch.step);
            if continues {
                held.step = batch.step;
                held.count += batch.count;
            } else {
                // The first run joined what was held before; the rest is a batch of its own.
                let full = core::mem::replace(held, batch);
                (self.visit)(full);
            }
            return;
        }
        self.run(batch.offset, batch.length as u64);
    }
}
