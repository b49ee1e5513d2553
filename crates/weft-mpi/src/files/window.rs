//! The window of an aggregator: one range of the file in a round of a collective access, and the data of all
//! processes that lies in it.

use std::ops::Range;
use std::sync::Arc;

use weft_core::file_view::View;
use weft_net::files::{self, File};

use super::failure::Failure;
use crate::memory::{SharedBuffer, UserData};

/// A hole between two runs that a read of a window reads, too.
const GAP_BYTES: usize = 64 << 10;

/// The part of one process in a window.
struct Piece {
    view: View,
    /// The range of the view's data.
    data: Range<u64>,
    held: Held,
}

/// The place of a piece's bytes.
enum Held {
    /// They come from the process with this rank, or go there.
    Message(u32, SharedBuffer),
    /// They are this process's own.
    Own(UserData),
}

/// One range of the file with the data that lies in it.
pub(super) struct Window {
    file: Arc<File>,
    range: Range<u64>,
    is_atomic: bool,
    pieces: Vec<Piece>,
}

impl Window {
    pub(super) fn new(file: Arc<File>, range: Range<u64>, is_atomic: bool) -> Self {
        Self { file, range, is_atomic, pieces: Vec::new() }
    }

    /// Adds the part `data` of the view of the process `rank`.
    pub(super) fn add(&mut self, rank: u32, view: View, data: Range<u64>) {
        let buffer = SharedBuffer::new((data.end - data.start) as usize);
        self.pieces.push(Piece { view, data, held: Held::Message(rank, buffer) });
    }

    /// Adds the part of this process itself.
    pub(super) fn add_own(&mut self, view: View, data: Range<u64>, own: UserData) {
        self.pieces.push(Piece { view, data, held: Held::Own(own) });
    }

    /// The messages from or to the other processes.
    pub(super) fn messages(&self) -> Vec<(u32, UserData)> {
        let message = |piece: &Piece| match &piece.held {
            Held::Message(rank, buffer) => Some((*rank, buffer.describe_all())),
            Held::Own(_) => None,
        };
        self.pieces.iter().filter_map(message).collect()
    }

    /// The memory of these messages.
    pub(super) fn buffers(&self) -> Vec<SharedBuffer> {
        let buffer = |piece: &Piece| match &piece.held {
            Held::Message(_, buffer) => Some(buffer.clone()),
            Held::Own(_) => None,
        };
        self.pieces.iter().filter_map(buffer).collect()
    }

    /// The place in the window of a run of the file.
    fn place(&self, offset: u64, bytes: u64) -> Range<usize> {
        let start = (offset - self.range.start) as usize;
        start..start + bytes as usize
    }

    /// Writes the data of all pieces. Where pieces have the same bytes, the process with the highest rank
    /// wins.
    pub(super) fn write(&self) -> Result<u64, Failure> {
        let length = (self.range.end - self.range.start) as usize;
        let mut bytes = vec![0; length];
        let mut covered = Coverage::new(length);
        for piece in &self.pieces {
            let mut fill = |read: &mut dyn FnMut(u64, &mut [u8])| {
                let mut at = 0;
                piece.view.runs(piece.data.clone(), &mut |offset, run| {
                    let place = self.place(offset, run);
                    covered.add(place.clone());
                    read(at, &mut bytes[place]);
                    at += run;
                });
            };
            match &piece.held {
                Held::Own(data) => fill(&mut |at, to| data.read(at, to)),
                Held::Message(_, buffer) => buffer.with_bytes(|from| {
                    fill(&mut |at, to| to.copy_from_slice(&from[at as usize..][..to.len()]));
                }),
            }
        }
        let _lock = self.lock(true)?;
        for run in covered.runs() {
            self.file.write_at(&bytes[run.clone()], self.range.start + run.start as u64)?;
        }
        Ok(length as u64)
    }

    /// Reads the data of all pieces. Bytes past the end of the file are zeros.
    pub(super) fn read(&self) -> Result<u64, Failure> {
        let length = (self.range.end - self.range.start) as usize;
        let mut bytes = vec![0; length];
        let mut wanted = Coverage::new(length);
        for piece in &self.pieces {
            piece.view.runs(piece.data.clone(), &mut |offset, run| wanted.add(self.place(offset, run)));
        }
        {
            let _lock = self.lock(false)?;
            let mut joined: Option<Range<usize>> = None;
            for run in wanted.runs() {
                joined = match joined {
                    Some(before) if run.start - before.end <= GAP_BYTES => Some(before.start..run.end),
                    Some(before) => {
                        self.read_run(before, &mut bytes)?;
                        Some(run)
                    }
                    None => Some(run),
                };
            }
            if let Some(last) = joined {
                self.read_run(last, &mut bytes)?;
            }
        }
        for piece in &self.pieces {
            let empty = |give: &mut dyn FnMut(u64, &[u8])| {
                let mut at = 0;
                piece.view.runs(piece.data.clone(), &mut |offset, run| {
                    give(at, &bytes[self.place(offset, run)]);
                    at += run;
                });
            };
            match &piece.held {
                Held::Own(data) => empty(&mut |at, from| data.write(at, from)),
                Held::Message(_, buffer) => buffer.with_bytes_mut(|to| {
                    empty(&mut |at, from| to[at as usize..][..from.len()].copy_from_slice(from));
                }),
            }
        }
        Ok(length as u64)
    }

    fn read_run(&self, run: Range<usize>, bytes: &mut [u8]) -> files::Result<()> {
        self.file.read_at(&mut bytes[run.clone()], self.range.start + run.start as u64)?;
        Ok(())
    }

    fn lock(&self, exclusive: bool) -> files::Result<Option<files::Lock<'_>>> {
        if !self.is_atomic {
            return Ok(None);
        }
        self.file.lock(exclusive, self.range.start, self.range.end - self.range.start).map(Some)
    }
}

/// The bytes of a window for which there is data: one bit for each.
struct Coverage {
    words: Vec<u64>,
    bytes: usize,
}

const WORD: usize = u64::BITS as usize;

impl Coverage {
    fn new(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(WORD)], bytes }
    }

    fn add(&mut self, run: Range<usize>) {
        if run.is_empty() {
            return;
        }
        let (first, last) = (run.start / WORD, (run.end - 1) / WORD);
        let from = u64::MAX << (run.start % WORD);
        let to = u64::MAX >> (WORD - 1 - (run.end - 1) % WORD);
        if first == last {
            self.words[first] |= from & to;
            return;
        }
        self.words[first] |= from;
        self.words[first + 1..last].fill(u64::MAX);
        self.words[last] |= to;
    }

    /// The first byte from `at` on that is in the coverage, or is not; the end if there is none.
    fn find(&self, at: usize, is_in: bool) -> usize {
        if at >= self.bytes {
            return self.bytes;
        }
        let seen = |word: u64| if is_in { word } else { !word };
        let mut index = at / WORD;
        let mut word = seen(self.words[index]) & (u64::MAX << (at % WORD));
        while word == 0 {
            index += 1;
            match self.words.get(index) {
                Some(next) => word = seen(*next),
                None => return self.bytes,
            }
        }
        (index * WORD + word.trailing_zeros() as usize).min(self.bytes)
    }

    /// The runs of bytes for which there is data, in order.
    fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.find(at, true);
            if start == self.bytes {
                return None;
            }
            at = self.find(start, false);
            Some(start..at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random runs from a seed.   Expect: the runs of a list of booleans.
    #[test]
    fn coverage_is_a_list_of_bits() {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % below as u64) as usize
        };
        for _ in 0..2000 {
            let bytes = 1 + next(300);
            let mut coverage = Coverage::new(bytes);
            let mut list = vec![false; bytes];
            for _ in 0..next(6) {
                let start = next(bytes);
                let end = start + next(bytes - start + 1);
                coverage.add(start..end);
                list[start..end].fill(true);
            }
            let mut expected = Vec::new();
            let mut at = 0;
            while at < bytes {
                let end = at + list[at..].iter().take_while(|bit| **bit == list[at]).count();
                if list[at] {
                    expected.push(at..end);
                }
                at = end;
            }
            assert_eq!(coverage.runs().collect::<Vec<_>>(), expected);
        }
    }
}
