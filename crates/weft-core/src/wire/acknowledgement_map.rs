//! The report of a standalone acknowledgement beyond the selective bits: a map of words, or runs of packets.

use super::{Number, RUN_MAX, u64_at};
use core::ops::Range;

/// Bytes of the longest number in runs.
const RUN_BYTES: usize = 3;
/// The most bytes of room that stay free because the next word, or the next run, does not fit.
pub(crate) const RUN_SLACK: usize = 2 * RUN_BYTES + 1;

/// The report of a standalone acknowledgement beyond the selective bits, as it stands in the packet: words,
/// or runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map<'a>(pub(crate) &'a [u8]);

impl<'a> Map<'a> {
    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(super) const fn is_words(self) -> bool {
        self.0.len().is_multiple_of(8)
    }

    /// Packets that have arrived, 64 at a time; `first` is the first packet of the report. Bit i stands for
    /// the i-th packet from the number on.
    pub(crate) fn pieces(self, first: Number) -> impl Iterator<Item = (Number, u64)> + 'a {
        let aligned = Number(first.0 & !63);
        let (words, runs) = if self.is_words() { (self.0, &[][..]) } else { (&[][..], self.0) };
        let words = words.chunks_exact(8).zip(0..).map(move |(word, i)| (aligned.plus(64 * i), u64_at(word, 0)));
        let runs = Runs { rest: runs, at: 0 }.flat_map(move |run| {
            let pieces = run.clone().step_by(64);
            pieces.map(move |at| (first.plus(at), u64::MAX >> (64 - (run.end - at).min(64))))
        });
        words.chain(runs)
    }

    /// The end of the arrived packets: one past the last, counted from `first`; 0 without any.
    pub(crate) fn end(self, first: Number) -> u32 {
        if self.is_words() {
            let end = |(at, word): (Number, u64)| at.plus(64 - word.leading_zeros()).since(first).max(0) as u32;
            return self.pieces(first).filter(|(_, word)| *word != 0).map(end).last().unwrap_or(0);
        }
        Runs { rest: self.0, at: 0 }.last().map_or(0, |run| run.end)
    }

    /// The end of the packets of which the map tells whether they have arrived, counted from `first`.
    pub(crate) fn told(self, first: Number) -> u32 {
        if self.is_words() { (8 * self.0.len() as u32).saturating_sub(first.0 % 64) } else { self.end(first) }
    }
}

/// The runs of packets that have arrived, none of them empty, counted from the first packet of the report.
struct Runs<'a> {
    rest: &'a [u8],
    at: u32,
}

impl Iterator for Runs<'_> {
    type Item = Range<u32>;

    fn next(&mut self) -> Option<Range<u32>> {
        loop {
            let start = self.at.saturating_add(take_run(&mut self.rest)?);
            self.at = start.saturating_add(take_run(&mut self.rest)?);
            if self.at > start {
                return Some(start..self.at);
            }
        }
    }
}

/// Takes a number off the front; `None` if there is none, or it is too long.
fn take_run(bytes: &mut &[u8]) -> Option<u32> {
    let length = 1 + bytes.iter().take(RUN_BYTES).position(|byte| byte & 0x80 == 0)?;
    let (number, rest) = bytes.split_at(length);
    *bytes = rest;
    Some(number.iter().rev().fold(0, |value, byte| value << 7 | u32::from(byte & 0x7f)))
}

/// Returns whether the bytes are only whole numbers, and not too many packets.
pub(super) fn runs_are_whole(mut bytes: &[u8]) -> bool {
    let mut packets = 0;
    while let Some(run) = take_run(&mut bytes) {
        packets += run;
        if packets > RUN_MAX {
            return false;
        }
    }
    bytes.is_empty()
}

/// Writes runs to the front of a buffer.
pub(crate) struct RunWriter<'a> {
    out: &'a mut [u8],
    length: usize,
}

impl<'a> RunWriter<'a> {
    pub(crate) const fn new(out: &'a mut [u8]) -> Self {
        Self { out, length: 0 }
    }

    /// Adds a run: `missing` packets without a report, and behind them `arrived` packets. Returns false if it
    /// does not fit.
    pub(crate) fn run(&mut self, missing: u32, arrived: u32) -> bool {
        let start = self.length;
        // One byte stays free for the zero that makes the length no multiple of 8.
        let fits = self.number(missing) && self.number(arrived) && self.length < self.out.len();
        if !fits {
            self.length = start;
        }
        fits
    }

    fn number(&mut self, mut number: u32) -> bool {
        loop {
            let Some(byte) = self.out.get_mut(self.length) else { return false };
            self.length += 1;
            *byte = (number & 0x7f) as u8 | if number > 0x7f { 0x80 } else { 0 };
            number >>= 7;
            if number == 0 {
                return true;
            }
        }
    }

    /// Returns the length of all runs, in bytes.
    pub(crate) fn finish(mut self) -> usize {
        if self.length > 0 && self.length.is_multiple_of(8) {
            self.number(0);
        }
        self.length
    }
}
