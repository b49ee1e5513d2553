//! Datatypes as pure descriptions of memory (MPI-5.0 chapter 5).
//!
//! A [`Layout`] is the part of a datatype that remains once the datatype is built. It knows:
//!
//! - which bytes the datatype touches, and in which order ([`Layout::batches`] is the engine that packs and
//!   unpacks every message that is not contiguous);
//! - the bounds of the datatype (§5.1.6–§5.1.8);
//! - how many basic elements a received message holds (§5.1.11).
//!
//! A layout is immutable; a clone costs one reference count.

mod batch;
mod bounds;
mod census;
mod description;
mod element;
mod shape;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

pub use batch::Batch;
pub use description::NoLayout;
pub use element::{Element, Pair};

use batch::Merger;
use bounds::Bounds;
use census::Census;
use shape::{Sequence, Shape};

/// The deepest nesting of datatypes, after regular nesting has been folded away; it bounds the recursion of
/// every walk.
pub const DEPTH_MAX: u32 = 256;

/// The reason why a datatype cannot be described.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// A size or a displacement does not fit in 63 bits.
    Bytes,
    /// The datatype is nested deeper than [`DEPTH_MAX`].
    Depth,
}

impl fmt::Display for Overflow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Overflow::Bytes => out.write_str("a size or displacement of the datatype exceeds 2^63 - 1 bytes"),
            Overflow::Depth => write!(out, "the datatype is nested more than {DEPTH_MAX} deep"),
        }
    }
}

impl core::error::Error for Overflow {}

/// `index * step` as an offset.
fn checked_offset(index: u64, step: i64) -> Result<i64, Overflow> {
    i64::try_from(index).ok().and_then(|index| index.checked_mul(step)).ok_or(Overflow::Bytes)
}

/// The layout of a committed datatype: the bytes of memory that hold its data.
#[derive(Clone, Debug)]
pub struct Layout(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shape: Shape,
    bounds: Bounds,
    census: Census,
    depth: u32,
}

/// Constructors: every constructor of the standard is one of these or a composition of them.
impl Layout {
    /// Makes the layout of a predefined datatype.
    pub fn element(element: Element) -> Layout {
        let length = element.size() as u64;
        let mut shape = Shape::Run { offset: 0, length };
        if let Some(pair) = element.pair()
            && pair.index_offset != pair.value_size
        {
            let mut sequence = Sequence::default();
            let members = [(0, pair.value_size), (pair.index_offset, pair.index_size)];
            for (offset, length) in members {
                let run = Shape::Run { offset: offset as i64, length: length as u64 };
                sequence.push(run).expect("a pair is a few bytes");
            }
            shape = sequence.finish();
        }
        let bounds = Bounds::of_element(element);
        Layout(Arc::new(Inner { shape, bounds, census: Census::of_element(element), depth: 0 }))
    }

    /// `count` items one extent apart (`MPI_Type_contiguous`, MPI-5.0 §5.1.2).
    pub fn contiguous(count: u64, of: &Layout) -> Result<Layout, Overflow> {
        Layout::vector(1, count, 0, of)
    }

    /// `count` blocks of `block_length` items, the blocks `stride_bytes` apart (`MPI_Type_create_hvector`).
    pub fn vector(count: u64, block_length: u64, stride_bytes: i64, of: &Layout) -> Result<Layout, Overflow> {
        let extent = of.extent();
        let shape = of.0.shape.repeated(block_length, extent)?.repeated(count, stride_bytes)?;
        let bounds = of.0.bounds.repeated(block_length, extent)?.repeated(count, stride_bytes)?.finished()?;
        let times = count.checked_mul(block_length).ok_or(Overflow::Bytes)?;
        Layout::build(shape, bounds, Census::repeated(times, of)?, of.0.depth)
    }

    /// Blocks of (displacement in bytes, items), all of one type (`MPI_Type_create_hindexed` and its
    /// relatives).
    pub fn indexed(blocks: &[(i64, u64)], of: &Layout) -> Result<Layout, Overflow> {
        let extent = of.extent();
        let mut sequence = Sequence::default();
        let mut bounds = Bounds::empty();
        let mut times = 0u64;
        let mut last: Option<(u64, Shape, Bounds)> = None;
        for &(displacement, length) in blocks.iter().filter(|block| block.1 > 0) {
            // Blocks are often of one length: the repeated shape is then made once and shared.
            if last.as_ref().is_none_or(|block| block.0 != length) {
                let shape = of.0.shape.repeated(length, extent)?;
                last = Some((length, shape, of.0.bounds.repeated(length, extent)?));
            }
            let Some((_, shape, block)) = &last else { continue };
            sequence.push(shape.shifted(displacement)?)?;
            bounds.join(&block.shifted(displacement)?);
            times = times.checked_add(length).ok_or(Overflow::Bytes)?;
        }
        Layout::build(sequence.finish(), bounds.finished()?, Census::repeated(times, of)?, of.0.depth)
    }

    /// Blocks of (displacement in bytes, items, type) (`MPI_Type_create_struct`).
    pub fn structure(blocks: &[(i64, u64, Layout)]) -> Result<Layout, Overflow> {
        let mut sequence = Sequence::default();
        let mut bounds = Bounds::empty();
        let mut depth = 0;
        for (displacement, length, of) in blocks.iter().filter(|block| block.1 > 0) {
            let extent = of.extent();
            sequence.push(of.0.shape.repeated(*length, extent)?.shifted(*displacement)?)?;
            bounds.join(&of.0.bounds.repeated(*length, extent)?.shifted(*displacement)?);
            depth = depth.max(of.0.depth);
        }
        let census = Census::sequence(blocks)?;
        Layout::build(sequence.finish(), bounds.padded()?.finished()?, census, depth)
    }

    /// Gives the data other bounds (`MPI_Type_create_resized`, MPI-5.0 §5.1.7). The bounds stick: a type made
    /// of this one takes its own from them.
    pub fn resized(of: &Layout, lb: i64, extent: i64) -> Result<Layout, Overflow> {
        let bounds = of.0.bounds.resized(lb, extent)?;
        let Inner { shape, census, depth, .. } = &*of.0;
        Ok(Layout(Arc::new(Inner { shape: shape.clone(), bounds, census: census.clone(), depth: *depth })))
    }

    /// Moves the data `by` bytes further, with the same nesting.
    fn shifted(&self, by: i64) -> Result<Layout, Overflow> {
        let Inner { shape, bounds, census, depth } = &*self.0;
        let (shape, bounds) = (shape.shifted(by)?, bounds.shifted(by)?.finished()?);
        Ok(Layout(Arc::new(Inner { shape, bounds, census: census.clone(), depth: *depth })))
    }

    fn build(shape: Shape, bounds: Bounds, census: Census, inner_depth: u32) -> Result<Layout, Overflow> {
        let depth = if shape.is_flat() && census.is_flat() { 0 } else { inner_depth + 1 };
        if depth > DEPTH_MAX {
            return Err(Overflow::Depth);
        }
        Ok(Layout(Arc::new(Inner { shape, bounds, census, depth })))
    }
}

/// Queries: the figures for `MPI_Type_size`, `MPI_Type_get_extent`, `MPI_Type_get_true_extent` and
/// `MPI_Get_elements`.
impl Layout {
    /// Bytes of data in one item; at most `i64::MAX`.
    pub fn size(&self) -> u64 {
        self.0.census.bytes()
    }

    /// Lower bound in bytes (MPI-5.0 §5.1.6).
    pub fn lb(&self) -> i64 {
        self.0.bounds.lb
    }

    /// Upper bound in bytes. The extent of a structure is rounded up by an ε to the alignment of its
    /// strictest element; types made of the structure keep this ε (docs/design/matching.md).
    pub fn ub(&self) -> i64 {
        self.0.bounds.ub
    }

    /// Bytes from one item to the next: `ub - lb`.
    pub fn extent(&self) -> i64 {
        self.0.bounds.ub - self.0.bounds.lb
    }

    /// Offset of the lowest byte of data; 0 when there is none (MPI-5.0 §5.1.8).
    pub fn true_lb(&self) -> i64 {
        self.0.bounds.true_lb
    }

    /// Bytes from the lowest byte of data to one past the highest (MPI-5.0 §5.1.8).
    pub fn true_extent(&self) -> i64 {
        self.0.bounds.true_ub - self.0.bounds.true_lb
    }

    /// Alignment of the strictest element in bytes; 1 when there is none.
    pub fn alignment(&self) -> u32 {
        self.0.bounds.alignment
    }

    /// Basic elements in one item, pairs counted as two (MPI-5.0 §5.1.11).
    pub fn elements(&self) -> u64 {
        self.0.census.elements()
    }

    /// The element of which the whole layout is made; None when there are several kinds or none.
    pub fn homogeneous(&self) -> Option<Element> {
        self.0.census.homogeneous()
    }

    /// The number of basic elements in the first `bytes` bytes of a message of items of this type
    /// (`MPI_Get_elements`, MPI-5.0 §5.1.11). None (`MPI_UNDEFINED`) when a basic element is cut in two, or
    /// the type has no data but the message has.
    pub fn elements_in(&self, bytes: u64) -> Option<u64> {
        self.0.census.elements_in(bytes)
    }

    /// The number of whole items in `bytes` bytes (`MPI_Get_count`, MPI-5.0 §3.2.5). None (`MPI_UNDEFINED`)
    /// when there is a rest. A type without data counts 0 items in an empty message.
    pub fn items_in(&self, bytes: u64) -> Option<u64> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }

    /// Packed bytes of `count` items.
    pub fn packed_size(&self, count: u64) -> Result<u64, Overflow> {
        self.size().checked_mul(count).filter(|&total| i64::try_from(total).is_ok()).ok_or(Overflow::Bytes)
    }
}

/// The layout as messages use it: as runs of memory.
impl Layout {
    /// Returns whether the data of `count` items is one run of memory in packed order.
    pub fn is_contiguous(&self, count: u64) -> bool {
        self.single_run(count).is_some()
    }

    /// The one run of memory (offset from the base, length in bytes) that holds `count` items in packed
    /// order. None when there are several runs, or more bytes than 63 bits count. Constant time. Without data
    /// the run is (0, 0).
    #[inline]
    pub fn single_run(&self, count: u64) -> Option<(i64, u64)> {
        match self.0.shape {
            Shape::Run { offset, length } if count <= 1 || self.extent() == length as i64 => match count {
                0 => Some((0, 0)),
                // A length fits 63 bits; the callers refuse a product that does not.
                _ => Some((offset, (length as i64).checked_mul(i64::try_from(count).ok()?)? as u64)),
            },
            Shape::Empty => Some((0, 0)),
            _ if count == 0 => Some((0, 0)),
            _ => None,
        }
    }

    /// The datatype of which one item is the packed bytes `range` of `count` items of this one, at the same
    /// base address. Items that the range cuts are described byte by byte, the others as they are.
    ///
    /// # Errors
    /// The items are nested too deep for one more level, or too far apart.
    pub fn window(&self, count: u64, range: Range<u64>) -> Result<Layout, Overflow> {
        let byte = Layout::element(Element::Byte);
        let size = self.size().max(1);
        // Whole items lie from the first that begins within the range to the last that ends there.
        let (first, last) = (range.start.div_ceil(size), range.end / size);
        let (head, tail) = if first > last {
            (range.clone(), range.end..range.end)
        } else {
            (range.start..first * size, last * size..range.end)
        };
        let cut = |part: Range<u64>| {
            let mut blocks = Vec::new();
            self.runs(count, part, &mut |offset, length| blocks.push((offset, length as u64)));
            Layout::indexed(&blocks, &byte)
        };
        let whole = checked_offset(first, self.extent())?;
        Layout::structure(&[(0, 1, cut(head)?), (whole, last.saturating_sub(first), self.clone()), (0, 1, cut(tail)?)])
    }

    /// Lowest and one past the highest byte offset that `count` items touch; 0..0 when they touch none.
    /// Saturates.
    pub fn touched(&self, count: u64) -> Range<i64> {
        if count == 0 || self.size() == 0 {
            return 0..0;
        }
        let last = i64::try_from(count - 1).unwrap_or(i64::MAX).saturating_mul(self.extent());
        let Bounds { true_lb, true_ub, .. } = self.0.bounds;
        true_lb.saturating_add(last.min(0))..true_ub.saturating_add(last.max(0))
    }

    /// Calls `visit` for the memory that holds the packed bytes `range` of `count` items, in packed order:
    /// equal runs at equal steps together, adjacent runs joined. The part of the range past the end of the
    /// items is left out.
    ///
    /// Offsets are from the base address. Seeking to the start of the range costs one division or binary
    /// search per level of nesting.
    pub fn batches(&self, count: u64, range: Range<u64>, visit: &mut dyn FnMut(Batch)) {
        let end = range.end.min(self.size().saturating_mul(count));
        if range.start >= end {
            return;
        }
        let mut out = Merger::new(visit);
        self.0.shape.walk_items(self.extent(), range.start..end, &mut out);
        out.finish();
    }

    /// Calls `visit(offset, length)` for each run of [`batches`](Layout::batches).
    pub fn runs(&self, count: u64, range: Range<u64>, visit: &mut dyn FnMut(i64, usize)) {
        self.batches(count, range, &mut |batch| {
            let mut offset = batch.offset;
            for _ in 0..batch.count {
                visit(offset, batch.length);
                offset = offset.wrapping_add(batch.step);
            }
        });
    }
}
