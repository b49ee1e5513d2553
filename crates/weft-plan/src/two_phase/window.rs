//! The window of an aggregator: one range of the file in a round of a collective access, and the data of all
//! processes that lies in it.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use weft_core::file_view::View;

/// A hole between two runs that a read of a window reads, too.
const GAP_BYTES: usize = 64 << 10;

/// Copies bytes from a place in the data of a process.
pub type Read<'a> = dyn FnMut(u64, &mut [u8]) + 'a;
/// Sets bytes from a place on in the data of a process.
pub type Write<'a> = dyn FnMut(u64, &[u8]) + 'a;

/// The bytes of one process in a window, in the order of its data.
pub trait Held {
    /// Gives `used` what reads the bytes.
    fn read_with(&self, used: &mut dyn FnMut(&mut Read<'_>));
    /// Gives `used` what sets the bytes.
    fn write_with(&self, used: &mut dyn FnMut(&mut Write<'_>));
}

/// A file.
pub trait Store {
    /// What it says when it fails.
    type Error;
    /// A lock on a range, until it goes.
    type Lock<'a>
    where
        Self: 'a;

    /// Writes all of `from` from `offset` on.
    ///
    /// # Errors
    /// It fails. Bytes before the place where it does are in the file.
    fn write_at(&self, from: &[u8], offset: u64) -> Result<(), Self::Error>;
    /// Reads into all of `to` from `offset` on, or to the end of the file. Bytes past the end stay as they
    /// are.
    ///
    /// # Errors
    /// It fails.
    fn read_at(&self, to: &mut [u8], offset: u64) -> Result<(), Self::Error>;
    /// Locks a range against others, who may read it unless the lock is `exclusive`.
    ///
    /// # Errors
    /// It fails.
    fn lock(&self, exclusive: bool, range: Range<u64>) -> Result<Self::Lock<'_>, Self::Error>;
}

/// The part of one process in a window.
struct Piece<H> {
    view: View,
    /// The range of the view's data.
    data: Range<u64>,
    held: H,
}

/// One range of the file with the data that lies in it.
pub struct Window<H> {
    range: Range<u64>,
    is_atomic: bool,
    pieces: Vec<Piece<H>>,
}

impl<H: Held> Window<H> {
    /// The window of this range. `is_atomic`: accesses lock it.
    pub fn new(range: Range<u64>, is_atomic: bool) -> Self {
        Self { range, is_atomic, pieces: Vec::new() }
    }

    /// Adds the part `data` of the view of a process: all of it is in the window.
    pub fn add(&mut self, view: View, data: Range<u64>, held: H) {
        self.pieces.push(Piece { view, data, held });
    }

    /// The bytes of the processes.
    pub fn held(&self) -> impl Iterator<Item = &H> {
        self.pieces.iter().map(|piece| &piece.held)
    }

    /// The place in the window of a run of the file.
    fn place(&self, offset: u64, bytes: u64) -> Range<usize> {
        let start = (offset - self.range.start) as usize;
        start..start + bytes as usize
    }

    fn length(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    /// Calls `visit(place in the window, place in the process's bytes)` for each run of a piece.
    fn runs(&self, piece: &Piece<H>, visit: &mut dyn FnMut(Range<usize>, u64)) {
        let mut at = 0;
        piece.view.runs(piece.data.clone(), &mut |offset, run| {
            visit(self.place(offset, run), at);
            at += run;
        });
    }

    /// Writes the data of all pieces, and no other bytes. Where pieces have the same bytes, the one that was
    /// added last wins. Returns the bytes of the window.
    ///
    /// # Errors
    /// The file fails.
    pub fn write<S: Store>(&self, file: &S) -> Result<u64, S::Error> {
        let mut bytes = vec![0; self.length()];
        let mut covered = Coverage::new(bytes.len());
        for piece in &self.pieces {
            piece.held.read_with(&mut |read| {
                self.runs(piece, &mut |place, at| {
                    covered.add(place.clone());
                    read(at, &mut bytes[place]);
                });
            });
        }
        let _lock = self.lock(file, true)?;
        if cfg!(weft_mutant = "window_written_with_its_holes") {
            file.write_at(&bytes, self.range.start)?;
            return Ok(bytes.len() as u64);
        }
        for run in covered.runs() {
            file.write_at(&bytes[run.clone()], self.range.start + run.start as u64)?;
        }
        Ok(bytes.len() as u64)
    }

    /// Reads the data of all pieces. Bytes past the end of the file are zeros. Returns the bytes of the
    /// window.
    ///
    /// # Errors
    /// The file fails.
    pub fn read<S: Store>(&self, file: &S) -> Result<u64, S::Error> {
        let mut bytes = vec![0; self.length()];
        let mut wanted = Coverage::new(bytes.len());
        for piece in &self.pieces {
            self.runs(piece, &mut |place, _| wanted.add(place));
        }
        {
            let _lock = self.lock(file, false)?;
            let mut read = |run: Range<usize>| {
                let offset = self.range.start + run.start as u64;
                file.read_at(&mut bytes[run], offset)
            };
            let mut joined: Option<Range<usize>> = None;
            for run in wanted.runs() {
                joined = match joined {
                    Some(before) if run.start - before.end <= GAP_BYTES => Some(before.start..run.end),
                    Some(before) => {
                        read(before)?;
                        Some(run)
                    }
                    None => Some(run),
                };
            }
            joined.map_or(Ok(()), &mut read)?;
        }
        for piece in &self.pieces {
            piece.held.write_with(&mut |write| self.runs(piece, &mut |place, at| write(at, &bytes[place])));
        }
        Ok(bytes.len() as u64)
    }

    fn lock<'a, S: Store>(&self, file: &'a S, exclusive: bool) -> Result<Option<S::Lock<'a>>, S::Error> {
        self.is_atomic.then(|| file.lock(exclusive, self.range.clone())).transpose()
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
        core::iter::from_fn(move || {
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
