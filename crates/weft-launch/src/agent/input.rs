//! Passes standard input from `mpiexec` on to the ranks of one host.

use super::rank::Rank;
use std::io::{ErrorKind, Write};

/// Bytes that not every rank has taken yet.
#[derive(Default)]
pub(crate) struct InputQueue {
    bytes: Vec<u8>,
    /// Position of the first of `bytes`, counted from the start of the input.
    base: u64,
    ended: bool,
}

impl InputQueue {
    /// Adds input that has come.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Notes that the input has ended.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    fn total(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Returns whether there is something for a rank that has taken `taken` bytes, the end included.
    pub(crate) fn has_news(&self, taken: u64) -> bool {
        taken < self.total() || self.ended
    }

    /// Gives a rank as much as it takes without waiting, and the end when it has everything.
    pub(crate) fn feed(&self, rank: &mut Rank) {
        let Some(input) = &mut rank.input else { return };
        let from = usize::try_from(input.taken - self.base).expect("within the queue");
        let rest = &self.bytes[from..];
        let gone = match input.file.write(rest) {
            _ if rest.is_empty() => false,
            Ok(count) => {
                input.taken += count as u64;
                false
            }
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        if gone || (self.ended && input.taken == self.total()) {
            rank.input = None;
        }
    }

    /// Forgets the bytes that every rank has taken. Returns their number since the start, when it has grown.
    pub(crate) fn trim(&mut self, ranks: &[Rank]) -> Option<u64> {
        let taken = ranks.iter().filter_map(|rank| rank.input.as_ref()).map(|input| input.taken).min();
        let taken = taken.unwrap_or_else(|| self.total());
        if taken == self.base {
            return None;
        }
        self.bytes.drain(..usize::try_from(taken - self.base).expect("within the queue"));
        self.base = taken;
        Some(taken)
    }
}
