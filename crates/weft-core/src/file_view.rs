//! The view of a process on a file (MPI-5.0 §14.3): which bytes of the file its data is.
//!
//! A [`View`] is a displacement and a filetype, which tiles the file from the displacement on. The data of
//! the view is the bytes of the tiles, one after the other. A position in the data is a number of bytes; MPI
//! counts in etypes, and [`View::data`] converts. Nothing here expands a datatype: each question costs one
//! search per level of nesting, and a walk costs the runs that it visits.
//!
//! All offsets in the file are below 2^63. [`View::new`] and [`View::check`] refuse what reaches further.

#[cfg(test)]
mod tests;

use core::fmt;
use core::ops::Range;

use crate::layout::{Batch, Element, Layout};

/// The largest offset in a file, exclusive: `MPI_Offset` and the kernel's `off_t` are signed.
pub const OFFSET_MAX: u64 = i64::MAX as u64;

/// The reason why a displacement and two datatypes are no view (MPI-5.0 §14.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrongView {
    /// The displacement is negative.
    Displacement(i64),
    /// The filetype does not consist of whole etypes: the bytes of both.
    NotWhole {
        /// Bytes of the etype.
        etype: u64,
        /// Bytes of the filetype.
        filetype: u64,
    },
    /// The filetype has data before its origin, at this offset.
    BeforeOrigin(i64),
    /// The data of the filetype goes back in the file, to this offset.
    GoesBack(i64),
    /// The next tile does not lie behind the tile before it: the extent of the filetype.
    Extent(i64),
    /// The first tile reaches past the offset 2^63 - 1.
    TooFar,
}

impl fmt::Display for WrongView {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WrongView::Displacement(at) => write!(out, "the displacement is {at}; it must not be negative"),
            WrongView::NotWhole { etype, filetype } => {
                write!(out, "the filetype has {filetype} bytes, which are no whole etypes of {etype} bytes")
            }
            WrongView::BeforeOrigin(at) => {
                write!(out, "the filetype has data at {at}; its displacements must not be negative")
            }
            WrongView::GoesBack(at) => {
                write!(out, "the filetype goes back to {at}; its displacements must not decrease in type-map order")
            }
            WrongView::Extent(extent) => {
                write!(out, "the filetype has extent {extent}; each tile must begin behind the one before")
            }
            WrongView::TooFar => out.write_str("the first tile of the view reaches past the offset 2^63 - 1"),
        }
    }
}

impl core::error::Error for WrongView {}

/// The data reaches past the offset 2^63 - 1 of the file, or there is no data where some is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutOfView {
    /// An offset exceeds 2^63 - 1.
    TooFar,
    /// The filetype has no data, so the view has none.
    NoData,
}

impl fmt::Display for OutOfView {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            OutOfView::TooFar => "the access reaches past the offset 2^63 - 1 of the file",
            OutOfView::NoData => "the filetype of the view has no data",
        })
    }
}

impl core::error::Error for OutOfView {}

/// A view on a file (MPI-5.0 §14.3).
#[derive(Clone, Debug)]
pub struct View {
    displacement: u64,
    etype_size: u64,
    filetype: Layout,
    /// Bytes of data in one tile.
    tile: u64,
    /// The offset of the first byte of a tile's data, from the origin of the tile.
    begin: u64,
    /// The offset of the last byte.
    last: u64,
    /// Bytes from one tile to the next; at least 1 where there is data.
    extent: u64,
    /// The data is one run, from the displacement plus this offset on.
    contiguous: Option<u64>,
    /// Two etypes share bytes of the file.
    overlaps: bool,
}

impl Default for View {
    /// The view of a file that has just been opened: all of its bytes (MPI-5.0 §14.3).
    fn default() -> View {
        let byte = Layout::element(Element::Byte);
        View {
            displacement: 0,
            etype_size: 1,
            filetype: byte,
            tile: 1,
            begin: 0,
            last: 0,
            extent: 1,
            contiguous: Some(0),
            overlaps: false,
        }
    }
}

impl View {
    /// Makes the view of `filetype` from `displacement` on, which consists of `etype`s. Costs a walk of the
    /// runs of one tile.
    ///
    /// # Errors
    /// As [`WrongView`] says.
    pub fn new(displacement: i64, etype: &Layout, filetype: &Layout) -> Result<View, WrongView> {
        let start = u64::try_from(displacement).map_err(|_| WrongView::Displacement(displacement))?;
        let (etype_size, tile) = (etype.size(), filetype.size());
        if tile > 0 && (etype_size == 0 || !tile.is_multiple_of(etype_size)) {
            return Err(WrongView::NotWhole { etype: etype_size, filetype: tile });
        }
        let mut shape = Walk::default();
        filetype.batches(1, 0..tile, &mut |batch| shape.take(&batch));
        if let Some(wrong) = shape.wrong {
            return Err(wrong);
        }
        let extent = filetype.extent();
        if tile > 0 && extent < 1 {
            return Err(WrongView::Extent(extent));
        }
        let extent = extent.max(0) as u64;
        let (begin, last) = (shape.begin, shape.end.saturating_sub(1));
        if start.checked_add(last).is_none_or(|last| last >= OFFSET_MAX) {
            return Err(WrongView::TooFar);
        }
        let contiguous = (shape.runs == 1 && extent == tile).then_some(shape.begin);
        let overlaps = shape.overlaps;
        let etype_size = etype_size.max(1);
        Ok(View {
            displacement: start,
            etype_size,
            filetype: filetype.clone(),
            tile,
            begin,
            last,
            extent,
            contiguous,
            overlaps,
        })
    }

    /// The bytes of the file before the view.
    pub fn displacement(&self) -> u64 {
        self.displacement
    }

    /// The filetype, whose tiles begin at the displacement.
    pub fn filetype(&self) -> &Layout {
        &self.filetype
    }

    /// Bytes of data in an etype, at least 1.
    pub fn etype_size(&self) -> u64 {
        self.etype_size
    }

    /// Returns whether two parts of the filetype are at the same place of the file. Then the view is for
    /// reading only (MPI-5.0 §14.3). Tiles may overlap all the same: programs that use one tile only, such as
    /// HDF5, give filetypes with such extents.
    pub fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// Returns whether the data is one run of bytes without an end.
    pub fn is_contiguous(&self) -> bool {
        self.contiguous.is_some()
    }

    /// The bytes of data in `etypes` etypes.
    ///
    /// # Errors
    /// They are too many for any file.
    pub fn data(&self, etypes: u64) -> Result<u64, OutOfView> {
        etypes.checked_mul(self.etype_size).filter(|data| *data <= OFFSET_MAX).ok_or(OutOfView::TooFar)
    }

    /// The offset in the file of the byte `data` of the view's data (`MPI_File_get_byte_offset`, MPI-5.0
    /// §14.4.3). In a view without data the tiles all begin at the displacement.
    ///
    /// # Errors
    /// The byte is past the offset 2^63 - 1.
    pub fn byte_offset(&self, data: u64) -> Result<u64, OutOfView> {
        if let Some(offset) = self.contiguous {
            return self
                .displacement
                .checked_add(offset + data)
                .filter(|at| *at <= OFFSET_MAX)
                .ok_or(OutOfView::TooFar);
        }
        if self.tile == 0 {
            return Ok(self.displacement);
        }
        let origin = self.origin(data / self.tile)?;
        let within = data % self.tile;
        let mut offset = 0;
        self.filetype.runs(1, within..within + 1, &mut |at, _| offset = at as u64);
        Ok(origin + offset)
    }

    /// The offset in the file of the origin of a tile whose data lies within the file.
    fn origin(&self, tile: u64) -> Result<u64, OutOfView> {
        let from_start = tile.checked_mul(self.extent).ok_or(OutOfView::TooFar)?;
        let origin = self.displacement.checked_add(from_start).ok_or(OutOfView::TooFar)?;
        let last = origin.checked_add(self.last).ok_or(OutOfView::TooFar)?;
        if last < OFFSET_MAX { Ok(origin) } else { Err(OutOfView::TooFar) }
    }

    /// Checks that the bytes `data` of the view can be visited, and returns the span of the file in which
    /// they lie: from the lowest byte of the first tile's part to past the highest byte of all. Empty data
    /// has an empty span.
    ///
    /// # Errors
    /// There is no data, or the data reaches past the offset 2^63 - 1.
    pub fn check(&self, data: Range<u64>) -> Result<Range<u64>, OutOfView> {
        if data.start >= data.end {
            let at = self.byte_offset(data.start)?;
            return Ok(at..at);
        }
        if let Some(offset) = self.contiguous {
            let start = self.displacement + offset;
            let end = start.checked_add(data.end).filter(|end| *end <= OFFSET_MAX).ok_or(OutOfView::TooFar)?;
            return Ok(start + data.start..end);
        }
        if self.tile == 0 {
            return Err(OutOfView::NoData);
        }
        let (first, last) = (data.start / self.tile, (data.end - 1) / self.tile);
        let mut end = self.origin(last)?;
        // Data goes forwards within a tile, and tiles go forwards. Where tiles lie in one another's holes,
        // the tile before the last may reach further than the part of the last.
        end = end.max(self.byte_offset(data.end - 1)?);
        if last > first {
            end = end.max(self.origin(last - 1)? + self.last);
        }
        let mut start = self.byte_offset(data.start)?;
        if last > first {
            start = start.min(self.byte_offset((first + 1) * self.tile)?);
        }
        Ok(start..end + 1)
    }

    /// Calls `visit(offset in the file, bytes)` for the bytes `data` of the view, in the order of the data;
    /// runs that touch are joined. [`View::check`] has accepted the range.
    ///
    /// # Panics
    /// The range reaches past the offset 2^63 - 1.
    pub fn runs(&self, data: Range<u64>, visit: &mut dyn FnMut(u64, u64)) {
        self.batches(data, &mut |batch| {
            let mut offset = batch.offset as u64;
            for _ in 0..batch.count {
                visit(offset, batch.length as u64);
                offset = offset.wrapping_add_signed(batch.step);
            }
        });
    }

    /// Calls `visit` as [`View::runs`] does, for equal runs at equal steps together. Their offsets are in the
    /// file.
    ///
    /// # Panics
    /// As for [`View::runs`].
    pub fn batches(&self, data: Range<u64>, visit: &mut dyn FnMut(Batch)) {
        let span = self.check(data.clone()).expect("the range has been checked");
        if span.is_empty() {
            return;
        }
        let start = self.displacement as i64;
        if self.is_contiguous() {
            return visit(Batch {
                offset: span.start as i64,
                length: (span.end - span.start) as usize,
                step: 0,
                count: 1,
            });
        }
        let tiles = (data.end - 1) / self.tile + 1;
        self.filetype.batches(tiles, data, &mut |batch| visit(Batch { offset: start + batch.offset, ..batch }));
    }

    /// Returns whether the data is in the order of the file, so that each range of the file holds one range
    /// of the data.
    pub fn is_ordered(&self) -> bool {
        !self.overlaps && self.extent > self.last - self.begin
    }

    /// The bytes of data that are at offsets below `offset` of the file. The view [is
    /// ordered](View::is_ordered).
    pub fn data_before(&self, offset: u64) -> u64 {
        let Some(offset) = offset.checked_sub(self.displacement).filter(|_| self.tile > 0) else { return 0 };
        if let Some(begin) = self.contiguous {
            return offset.saturating_sub(begin);
        }
        let Some(offset) = offset.checked_sub(self.begin) else { return 0 };
        let (tile, rest) = (offset / self.extent, self.begin + offset % self.extent);
        // The bytes of one tile before `rest`, whose offsets ascend.
        let (mut low, mut high) = (0, self.tile);
        while low < high {
            let middle = low + (high - low) / 2;
            let mut at = 0;
            self.filetype.runs(1, middle..middle + 1, &mut |offset, _| at = offset as u64);
            if at < rest {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        tile * self.tile + low
    }

    /// The end of a file of `size` bytes in this view: the number of the first etype that begins past its
    /// last byte (MPI-5.0 §14.1.1). In a view without data it is 0.
    pub fn end_of_file(&self, size: u64) -> u64 {
        let Some(size) = size.checked_sub(self.displacement).filter(|_| self.tile > 0) else { return 0 };
        if let Some(offset) = self.contiguous {
            return size.saturating_sub(offset).div_ceil(self.etype_size);
        }
        // The last etype of a tile begins at `begin`. All tiles whose last etype begins before the end of the
        // file lie before it, but for etypes that later tiles have in the holes of an earlier one.
        let in_tile = self.tile / self.etype_size;
        let begin = self.etype_begin(in_tile - 1);
        if size == 0 {
            return 0;
        }
        let tile = if size <= begin { 0 } else { (size - begin).div_ceil(self.extent) };
        let rest = size.saturating_sub(tile.saturating_mul(self.extent));
        // The first etype of that tile that begins at `rest` or later.
        let (mut low, mut high) = (0, in_tile - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.etype_begin(middle) >= rest {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        tile * in_tile + low
    }

    /// The offset of an etype's first byte from the origin of its tile.
    fn etype_begin(&self, etype: u64) -> u64 {
        let at = etype * self.etype_size;
        let mut begin = 0;
        self.filetype.runs(1, at..at + 1, &mut |offset, _| begin = offset as u64);
        begin
    }
}

/// What a walk over the runs of one tile finds.
#[derive(Default)]
struct Walk {
    wrong: Option<WrongView>,
    runs: u64,
    begin: u64,
    end: u64,
    /// The offset of the last run.
    at: i64,
    overlaps: bool,
}

impl Walk {
    fn take(&mut self, batch: &Batch) {
        if self.wrong.is_some() {
            return;
        }
        if batch.offset < 0 {
            self.wrong = Some(WrongView::BeforeOrigin(batch.offset));
        } else if self.runs > 0 && batch.offset < self.at {
            self.wrong = Some(WrongView::GoesBack(batch.offset));
        } else if batch.count > 1 && batch.step < 0 {
            self.wrong = Some(WrongView::GoesBack(batch.offset.wrapping_add(batch.step)));
        }
        if self.wrong.is_some() {
            return;
        }
        let (offset, length) = (batch.offset as u64, batch.length as u64);
        if self.runs == 0 {
            self.begin = offset;
        }
        self.overlaps |= self.runs > 0 && offset < self.end;
        self.overlaps |= batch.count > 1 && (batch.step as u64) < length;
        // The offset of each byte was checked when the datatype was built.
        self.at = batch.offset.wrapping_add(batch.step.wrapping_mul(batch.count as i64 - 1));
        self.end = self.end.max(self.at as u64 + length);
        self.runs += batch.count;
    }
}
