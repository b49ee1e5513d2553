//! Copies of whole messages that another processor has written just now.
//!
//! Short ones are copied with their last block first (docs/design/node.md). With a shared cache long blocks
//! are quickest, also for messages that are better copied forward without one. A [`Reader`] measures both.

use super::copies::{copy_arrived, copy_backward};
use super::trials::{Trials, cost_of};

/// The lengths for which there are two ways, in bytes.
const BYTES_MIN: usize = 6 << 10;
const BYTES_MAX: usize = 16 << 10;
/// The bytes of a long block.
const BLOCK_BYTES: usize = 2 << 10;

/// The state of one process's reads of memory that one other process writes.
#[derive(Debug)]
pub struct Reader {
    /// Set if long blocks were quicker at the last trial.
    takes_long_blocks: bool,
    trials: Trials,
    ticks: fn() -> u64,
}

impl Reader {
    /// Makes a reader. For `ticks` see [`super::Writer::new`].
    pub const fn new(ticks: fn() -> u64) -> Self {
        Self { takes_long_blocks: false, trials: Trials::new(), ticks }
    }

    /// Copies `len` bytes from `from` to `to`.
    ///
    /// # Safety
    /// `from` is readable and `to` writable for `len` bytes. They may overlap.
    #[inline(always)]
    pub(super) unsafe fn copy(&mut self, from: *const u8, to: *mut u8, len: usize) {
        if !(BYTES_MIN..=BYTES_MAX).contains(&len) || (from as usize).abs_diff(to as usize) < len {
            // SAFETY: the caller's promise.
            return unsafe { copy_arrived(from, to, len) };
        }
        // SAFETY: the caller's promise, and they are apart.
        unsafe { self.copy_either(from, to, len) }
    }

    /// # Safety
    /// As for [`Self::copy`]; they do not overlap.
    #[inline(never)]
    unsafe fn copy_either(&mut self, from: *const u8, to: *mut u8, len: usize) {
        let Some(way) = self.trials.next() else {
            self.trials.pass(1);
            // SAFETY: the caller's promise.
            return unsafe { copy_by(self.takes_long_blocks, from, to, len) };
        };
        let began = (self.ticks)();
        // SAFETY: the caller's promise.
        unsafe { copy_by(way == 1, from, to, len) };
        self.judge(cost_of((self.ticks)().wrapping_sub(began), len));
    }

    /// Notes the ticks for 1 KiB of a copy of a trial.
    fn judge(&mut self, cost: u64) {
        let Some([short, long]) = self.trials.note(cost) else { return };
        // A forward copy has a cost that it does not see: it takes lines behind the frame from the sender.
        let takes_long_blocks = long <= short + short / 16;
        self.trials.end(takes_long_blocks != self.takes_long_blocks);
        self.takes_long_blocks = takes_long_blocks;
    }
}

/// Copies in one of the two ways.
///
/// # Safety
/// As for [`Reader::copy_either`].
#[inline]
unsafe fn copy_by(takes_long_blocks: bool, from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { if takes_long_blocks { copy_backward(from, to, len, BLOCK_BYTES) } else { copy_arrived(from, to, len) } }
}

#[cfg(test)]
mod tests {
    use super::super::trials::PAUSE_MIN;
    use super::*;

    #[test]
    fn every_alignment_and_length_is_copied_whole_and_nothing_else_is_touched() {
        let source: Vec<u8> = (0..3 * BYTES_MAX).map(|i| (i % 251) as u8).collect();
        for takes_long_blocks in [false, true] {
            let mut reader = Reader { takes_long_blocks, trials: Trials::never(), ticks: || 0 };
            for (skip_from, skip_to) in [(0, 0), (1, 0), (0, 1), (3, 61)] {
                for len in [0, 1, BYTES_MIN - 1, BYTES_MIN, BYTES_MIN + 63, BYTES_MAX - 1, BYTES_MAX, BYTES_MAX + 1] {
                    let mut target = vec![0xaa_u8; 2 * BYTES_MAX];
                    // SAFETY: both ranges lie inside their vectors.
                    unsafe { reader.copy(source.as_ptr().add(skip_from), target.as_mut_ptr().add(skip_to), len) };
                    assert_eq!(target[skip_to..skip_to + len], source[skip_from..skip_from + len]);
                    assert!(target[..skip_to].iter().chain(&target[skip_to + len..]).all(|byte| *byte == 0xaa));
                }
            }
        }
    }

    /// Long blocks are quicker, then slower, as when the processes move apart, then a little slower.
    /// Expect: the next trial changes the choice, and a little slower counts as quicker.
    #[test]
    fn the_quicker_blocks_are_kept() {
        let mut reader = Reader::new(|| 0);
        assert_eq!(reader.trials.left(), PAUSE_MIN);
        for (long, expected) in [(80, true), (120, false), (103, true), (107, false)] {
            reader.trials.begin();
            while let Some(way) = reader.trials.next() {
                reader.judge([100, long][way]);
            }
            assert_eq!(reader.takes_long_blocks, expected, "{long} ticks beside 100");
        }
    }
}
