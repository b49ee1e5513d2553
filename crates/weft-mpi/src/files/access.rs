//! One access of this process to a file: bytes move between memory and the runs of a view.
//!
//! [`Access::run`] makes system calls and copies, and needs no lock of the process: the calling thread or one
//! of `workers.rs` runs it.

use std::ops::Range;
use std::sync::Arc;

use weft_core::bytes;
use weft_net::files::{self, File};

use super::conversion::Converted;
use super::failure::Failure;
use crate::error::{Error, Result};
use crate::file::FileView;
use crate::memory::UserData;
use crate::request::Status;

/// The bytes that are packed at once, where memory is not one run.
const PACK_BYTES: u64 = 1 << 20;
/// The gap between two runs that a read reads and throws away, rather than begin another system call: as many
/// bytes as the kernel copies in the time of the call's fixed part.
const GAP_BYTES: u64 = 4 << 10;

/// The direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the file to memory.
    Read,
    /// From memory to the file.
    Write,
}

/// Ends an access of which `moved` bytes of the file were moved: its status, with the bytes of the program's
/// buffer.
pub(super) fn ended(converted: &Converted, direction: Direction, moved: u64) -> Result<Status> {
    let bytes = match direction {
        Direction::Write => converted.written(),
        Direction::Read => converted.read(moved)?,
    };
    Ok(Status { bytes, ..Status::EMPTY })
}

/// An access of this process to a file.
#[derive(Clone)]
pub(crate) struct Access {
    /// The file.
    pub(crate) file: Arc<File>,
    /// The view.
    pub(crate) view: Arc<FileView>,
    /// The data, as it is in the file.
    pub(crate) data: UserData,
    /// The bytes of the view's data before the first one.
    pub(crate) position: u64,
    /// The direction.
    pub(crate) direction: Direction,
    /// No other access sees a part of it (MPI-5.0 §14.6.1).
    pub(crate) is_atomic: bool,
    /// Bytes that a read of many pieces may read at once; 0: each piece by itself.
    pub(crate) sieve: u64,
}

impl Access {
    /// The range of the view's data.
    pub(crate) fn range(&self) -> Range<u64> {
        self.position..self.position.saturating_add(self.data.len())
    }

    /// The span of the file in which these bytes of the view's data lie.
    ///
    /// # Errors
    /// `MPI_ERR_IO`: the view has no such data.
    pub(crate) fn span(&self, data: Range<u64>) -> Result<Range<u64>> {
        self.view.view.check(data).map_err(|why| {
            let message = format!("{}: {why}", self.file.path().display());
            Error::new(crate::constants::MPI_ERR_IO, message)
        })
    }

    /// Moves the data. Returns the number of its bytes, from the first one on, that were moved: all, or those
    /// before the end of the file.
    ///
    /// # Errors
    /// As the kernel says; `MPI_ERR_IO`: the view has no such data.
    pub(crate) fn run(&self) -> std::result::Result<u64, Failure> {
        let span = self.span(self.range())?;
        if self.data.is_empty() {
            return Ok(0);
        }
        let _lock = if self.is_atomic && !self.file.is_stream() {
            let exclusive = self.direction == Direction::Write;
            Some(self.file.lock(exclusive, span.start, span.end - span.start)?)
        } else {
            None
        };
        Ok(match self.direction {
            Direction::Write => self.write()?,
            Direction::Read => self.read()?,
        })
    }

    fn write(&self) -> files::Result<u64> {
        let mut packed = Vec::new();
        let mut outcome = Ok(());
        let mut done = 0;
        self.view.view.runs(self.range(), &mut |offset, bytes| {
            if outcome.is_ok() {
                outcome = self.write_run(offset, done, bytes, &mut packed);
                done += bytes;
            }
        });
        outcome.map(|()| done)
    }

    /// Writes `bytes` bytes of the data from `at` on to one run of the file.
    fn write_run(&self, offset: u64, at: u64, bytes: u64, packed: &mut Vec<u8>) -> files::Result<()> {
        if let Some(run) = self.data.run(at, bytes) {
            return self.file.write_at(run, offset);
        }
        let mut moved = 0;
        while moved < bytes {
            let piece = (bytes - moved).min(PACK_BYTES);
            bytes::resize(packed, piece as usize);
            self.data.read(at + moved, packed);
            self.file.write_at(packed, offset + moved)?;
            moved += piece;
        }
        Ok(())
    }

    fn read(&self) -> files::Result<u64> {
        let mut reader = Reader { access: self, group: Vec::new(), buffer: Vec::new(), done: 0, is_over: false };
        let mut outcome = Ok(());
        self.view.view.runs(self.range(), &mut |offset, bytes| {
            if outcome.is_ok() && !reader.is_over {
                outcome = reader.take(offset, bytes);
            }
        });
        outcome?;
        reader.finish()?;
        Ok(reader.done)
    }
}

/// A read of many runs: runs that are close to one another are read at once.
struct Reader<'a> {
    access: &'a Access,
    /// Runs to be read at once: offset and bytes.
    group: Vec<(u64, u64)>,
    buffer: Vec<u8>,
    /// The bytes of data that have been read.
    done: u64,
    /// The file has ended.
    is_over: bool,
}

impl Reader<'_> {
    fn take(&mut self, offset: u64, bytes: u64) -> files::Result<()> {
        if let (Some((first, _)), Some((last, length))) = (self.group.first(), self.group.last()) {
            let end = last + length;
            let joins = offset >= end && offset - end <= GAP_BYTES && offset + bytes - first <= self.access.sieve;
            if !joins {
                self.finish()?;
            }
        }
        self.group.push((offset, bytes));
        Ok(())
    }

    /// Reads the runs of the group.
    fn finish(&mut self) -> files::Result<()> {
        let group = std::mem::take(&mut self.group);
        if self.is_over {
            return Ok(());
        }
        match *group {
            [] => Ok(()),
            [(offset, bytes)] => self.read_run(offset, bytes),
            [(first, _), .., (last, length)] => {
                bytes::resize(&mut self.buffer, (last + length - first) as usize);
                let there = self.access.file.read_at(&mut self.buffer, first)? as u64;
                for (offset, bytes) in &group {
                    let begin = (offset - first).min(there);
                    let end = (offset - first + bytes).min(there);
                    self.access.data.write(self.done, &self.buffer[begin as usize..end as usize]);
                    self.done += end - begin;
                    if end - begin < *bytes {
                        self.is_over = true;
                        break;
                    }
                }
                self.group = group;
                self.group.clear();
                Ok(())
            }
        }
    }

    fn read_run(&mut self, offset: u64, bytes: u64) -> files::Result<()> {
        let Access { file, data, .. } = self.access;
        let there = match data.run_mut(self.done, bytes) {
            Some(run) => file.read_at(run, offset)? as u64,
            None => {
                let mut moved = 0;
                while moved < bytes {
                    let piece = (bytes - moved).min(PACK_BYTES);
                    bytes::resize(&mut self.buffer, piece as usize);
                    let there = file.read_at(&mut self.buffer, offset + moved)?;
                    data.write(self.done + moved, &self.buffer[..there]);
                    moved += there as u64;
                    if (there as u64) < piece {
                        break;
                    }
                }
                moved
            }
        };
        self.done += there;
        self.is_over = there < bytes;
        Ok(())
    }
}
