//! Datatypes that travel: the target of a one-sided operation walks the layout that its origin describes
//! (MPI-5.0 §12.3).
//!
//! A description holds only what is needed to walk the layout: the bytes of an item, their order, and the
//! distance between items. The kinds of elements are left out; an operation that computes names its element
//! itself.
//!
//! ```text
//! extent (8 bytes) │ shape
//! shape: kind (1 byte), offset (8), then
//!   run: length (8) │ grid: length, step, count (8 each) │ repeat: step, times (8 each), shape
//!   pieces: number (4), for each offset and length (8 each) │ parts: number (4), for each a shape
//! ```

use alloc::vec::Vec;
use core::ops::Range;

use super::shape::Shape;
use super::{DEPTH_MAX, Element, Layout, Overflow};

const EMPTY: u8 = 0;
const RUN: u8 = 1;
const GRID: u8 = 2;
const REPEAT: u8 = 3;
const PIECES: u8 = 4;
const PARTS: u8 = 5;

/// Bytes of a shape before the part that depends on its kind.
const HEAD_BYTES: usize = 9;

/// The error that the bytes are no description of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLayout;

impl Layout {
    /// Appends the description that [`Layout::from_description`] reads.
    pub fn describe(&self, out: &mut Vec<u8>) {
        put(out, self.extent() as u64);
        describe_shape(&self.0.shape, out);
    }

    /// The bytes that [`Layout::describe`] appends; `None` where these are more than `most`.
    pub fn described_bytes(&self, most: usize) -> Option<usize> {
        let mut left = most;
        (take(&mut left, 8) && fits(&self.0.shape, &mut left)).then(|| most - left)
    }

    /// Cuts `count` items into parts that have short descriptions, and calls `visit` with each part in order
    /// until `visit` returns false. One item of the part, at the same base address, has the packed bytes
    /// `range` of the items. A part has `runs` runs, or as many more as it needs to end between two pieces of
    /// `grain` packed bytes.
    ///
    /// # Errors
    /// The items are too far apart.
    pub fn cut(
        &self,
        count: u64,
        runs: usize,
        grain: u64,
        visit: &mut dyn FnMut(&Layout, Range<u64>) -> bool,
    ) -> Result<(), Overflow> {
        let byte = Layout::element(Element::Byte);
        let mut blocks = Vec::with_capacity(runs);
        let (mut start, mut end) = (0, 0);
        let mut goes_on = Ok(true);
        let mut give = |blocks: &mut Vec<(i64, u64)>, range: Range<u64>| {
            let part = Layout::indexed(blocks, &byte)?;
            blocks.clear();
            Ok(visit(&part, range))
        };
        self.runs(count, 0..u64::MAX, &mut |offset, length| {
            if goes_on != Ok(true) {
                return;
            }
            blocks.push((offset, length as u64));
            end += length as u64;
            if blocks.len() >= runs && end % grain == 0 {
                goes_on = give(&mut blocks, start..end);
                start = end;
            }
        });
        if goes_on? && !blocks.is_empty() {
            give(&mut blocks, start..end)?;
        }
        Ok(())
    }

    /// Builds the layout that a peer has described: the same bytes in the same order, and the same extent.
    ///
    /// # Errors
    /// [`NoLayout`]: the description ends too early or too late, is nested too deep, or describes no possible
    /// layout.
    pub fn from_description(bytes: &[u8]) -> Result<Layout, NoLayout> {
        let mut reader = Reader(bytes);
        let extent = reader.u64()? as i64;
        let shape = reader.shape(0)?;
        if !reader.0.is_empty() {
            return Err(NoLayout);
        }
        Layout::resized(&shape, 0, extent).map_err(|_| NoLayout)
    }

    /// Returns whether both are one and the same object.
    pub fn is_same(&self, other: &Layout) -> bool {
        alloc::sync::Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Takes `bytes` off what is left; false when less is left.
fn take(left: &mut usize, bytes: usize) -> bool {
    let rest = left.checked_sub(bytes);
    *left = rest.unwrap_or(0);
    rest.is_some()
}

/// Takes the length of a shape's description off what is left; false when the description is longer. The walk
/// stops there: shapes share parts, and a description may be far longer than memory.
fn fits(shape: &Shape, left: &mut usize) -> bool {
    let own = match shape {
        Shape::Empty => 0,
        Shape::Run { .. } => 8,
        Shape::Grid { .. } => 24,
        Shape::Repeat { .. } => 16,
        Shape::Pieces { pieces, .. } => 4 + pieces.len().saturating_mul(16),
        Shape::Parts { .. } => 4,
    };
    let inner = |left: &mut usize| match shape {
        Shape::Repeat { of, .. } => fits(of, left),
        _ => shape.parts().all(|part| fits(part, left)),
    };
    take(left, HEAD_BYTES + own) && inner(left)
}

fn put(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn begin(out: &mut Vec<u8>, kind: u8, offset: i64) {
    out.push(kind);
    put(out, offset as u64);
}

fn describe_shape(shape: &Shape, out: &mut Vec<u8>) {
    match shape {
        Shape::Empty => begin(out, EMPTY, 0),
        Shape::Run { offset, length } => {
            begin(out, RUN, *offset);
            put(out, *length);
        }
        Shape::Grid { offset, length, step, count } => {
            begin(out, GRID, *offset);
            [*length, *step as u64, *count].into_iter().for_each(|value| put(out, value));
        }
        Shape::Repeat { offset, step, times, of, .. } => {
            begin(out, REPEAT, *offset);
            [*step as u64, *times].into_iter().for_each(|value| put(out, value));
            describe_shape(of, out);
        }
        Shape::Pieces { offset, .. } => {
            begin(out, PIECES, *offset);
            let pieces: Vec<(i64, u64)> = shape.pieces().collect();
            out.extend_from_slice(&(pieces.len() as u32).to_le_bytes());
            for (offset, length) in pieces {
                put(out, offset as u64);
                put(out, length);
            }
        }
        Shape::Parts { offset, .. } => {
            begin(out, PARTS, *offset);
            out.extend_from_slice(&(shape.parts().count() as u32).to_le_bytes());
            shape.parts().for_each(|part| describe_shape(part, out));
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn u32(&mut self) -> Result<u32, NoLayout> {
        let (head, rest) = self.0.split_first_chunk::<4>().ok_or(NoLayout)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*head))
    }

    fn u64(&mut self) -> Result<u64, NoLayout> {
        let (head, rest) = self.0.split_first_chunk::<8>().ok_or(NoLayout)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*head))
    }

    /// Reads a count of things of which each takes at least `bytes` of what is left.
    fn number(&mut self, bytes: usize) -> Result<usize, NoLayout> {
        let number = self.u32()? as usize;
        if number > self.0.len() / bytes { Err(NoLayout) } else { Ok(number) }
    }

    /// Builds a shape by the constructors that programs use, so the same checks apply.
    fn shape(&mut self, depth: u32) -> Result<Layout, NoLayout> {
        if depth > DEPTH_MAX {
            return Err(NoLayout);
        }
        let (&kind, rest) = self.0.split_first().ok_or(NoLayout)?;
        self.0 = rest;
        let offset = self.u64()? as i64;
        let byte = Layout::element(Element::Byte);
        let built = match kind {
            EMPTY => Layout::indexed(&[], &byte),
            RUN => Layout::indexed(&[(0, self.u64()?)], &byte),
            GRID => {
                let (length, step, count) = (self.u64()?, self.u64()? as i64, self.u64()?);
                Layout::contiguous(length, &byte).and_then(|run| Layout::vector(count, 1, step, &run))
            }
            REPEAT => {
                let (step, times) = (self.u64()? as i64, self.u64()?);
                let of = self.shape(depth + 1)?;
                Layout::vector(times, 1, step, &of)
            }
            PIECES => {
                let number = self.number(16)?;
                let mut blocks = Vec::with_capacity(number);
                for _ in 0..number {
                    blocks.push((self.u64()? as i64, self.u64()?));
                }
                Layout::indexed(&blocks, &byte)
            }
            PARTS => {
                let number = self.number(9)?;
                let mut parts = Vec::with_capacity(number);
                for _ in 0..number {
                    parts.push((0, 1, self.shape(depth + 1)?));
                }
                Layout::structure(&parts)
            }
            _ => return Err(NoLayout),
        };
        let built = built.map_err(|_| NoLayout)?;
        // No level of its own: a layout may be nested as deep as can be, with an offset at each level.
        built.shifted(offset).map_err(|_| NoLayout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(layout: &Layout, count: u64) -> Vec<(i64, usize)> {
        let mut found = Vec::new();
        layout.runs(count, 0..u64::MAX, &mut |offset, length| found.push((offset, length)));
        found
    }

    fn several() -> Vec<Layout> {
        let int = Layout::element(Element::Int32);
        let pair = Layout::element(Element::DoubleInt);
        let column = Layout::vector(5, 2, 24, &int).unwrap();
        let irregular = Layout::indexed(&[(40, 3), (-8, 1), (0, 2)], &int).unwrap();
        let mixed =
            Layout::structure(&[(8, 2, column.clone()), (-100, 3, irregular.clone()), (300, 1, pair.clone())]).unwrap();
        let nested = Layout::vector(3, 2, 1000, &mixed).unwrap();
        let spread = Layout::resized(&nested, -16, 5000).unwrap();
        let nothing = Layout::contiguous(0, &int).unwrap();
        alloc::vec![int, pair, column, irregular, mixed, nested, spread, nothing]
    }

    /// Layouts of all shapes are described, and built again from the description.   Expect: the same bytes in
    /// the same order, the same extent.
    #[test]
    fn a_layout_survives_its_description() {
        for layout in several() {
            let mut bytes = Vec::new();
            layout.describe(&mut bytes);
            let again = Layout::from_description(&bytes).unwrap();
            assert_eq!((again.size(), again.extent()), (layout.size(), layout.extent()));
            assert_eq!(runs(&again, 3), runs(&layout, 3));
            assert_eq!(again.touched(3), layout.touched(3));
        }
    }

    /// Each layout, and limits about the length of its description.   Expect: the check accepts the limits
    /// from the true length on.
    #[test]
    fn how_long_a_description_is_is_known_before() {
        for layout in several() {
            let mut bytes = Vec::new();
            layout.describe(&mut bytes);
            assert_eq!(layout.described_bytes(bytes.len() + 5), Some(bytes.len()));
            assert_eq!(layout.described_bytes(bytes.len()), Some(bytes.len()));
            assert_eq!(layout.described_bytes(bytes.len() - 1), None);
        }
    }

    /// A sequence of two of a sequence of two, fifty levels deep: shapes share their parts.   Expect: the
    /// layout knows at once that its description is too long.
    #[test]
    fn a_description_that_no_memory_holds_is_not_begun() {
        let hole = Layout::indexed(&[(0, 1), (3, 2), (9, 1)], &Layout::element(Element::Byte)).unwrap();
        let mut layout = hole;
        for _ in 0..50 {
            let far = layout.extent() + 7;
            layout = Layout::structure(&[(0, 1, layout.clone()), (far, 1, layout.clone())]).unwrap();
        }
        assert_eq!(layout.described_bytes(1 << 20), None);
    }

    /// A datatype as deep as can be, with an offset at each level.   Expect: a peer takes its description.
    #[test]
    fn the_deepest_layout_is_taken_by_a_peer() {
        let irregular = Layout::indexed(&[(1, 3), (9, 1), (12, 2)], &Layout::element(Element::Byte)).unwrap();
        let mut layout = irregular;
        while let Ok(deeper) =
            Layout::vector(2, 1, layout.extent() + 5, &layout).and_then(|two| Layout::structure(&[(3, 1, two)]))
        {
            // Sizes double with each level: as deep as they allow.
            layout = deeper;
        }
        let mut deep = Layout::indexed(&[(1, 3), (9, 1)], &Layout::element(Element::Byte)).unwrap();
        while let Ok(deeper) = Layout::structure(&[(5, 1, deep.clone()), (deep.extent() + 90, 1, tiny())]) {
            deep = deeper;
        }
        for layout in [layout, deep] {
            let mut bytes = Vec::new();
            layout.describe(&mut bytes);
            let again = Layout::from_description(&bytes).expect("what is described is taken");
            assert_eq!((again.size(), again.extent()), (layout.size(), layout.extent()));
        }
    }

    fn tiny() -> Layout {
        Layout::vector(2, 1, 2, &Layout::element(Element::Byte)).unwrap()
    }

    /// Several items of each layout, cut into parts of few runs.   Expect: the parts have the bytes of the
    /// whole in order. Each part has as many runs as asked for, or more to end between two elements. A caller
    /// that wants no more parts gets no more.
    #[test]
    fn parts_of_items_are_the_items() {
        for layout in several() {
            for (most, grain) in [(1, 1), (2, 4), (5, 12), (1000, 1)] {
                let (mut found, mut packed) = (Vec::new(), 0);
                layout
                    .cut(3, most, grain, &mut |part, range| {
                        assert_eq!(range.start, packed);
                        assert_eq!(part.size(), range.end - range.start);
                        packed = range.end;
                        let own = runs(part, 1);
                        assert!(own.len() <= most + grain as usize);
                        assert!(packed % grain == 0 || packed == 3 * layout.size());
                        found.extend(own);
                        true
                    })
                    .unwrap();
                assert_eq!(packed, 3 * layout.size());
                let bytes = |runs: &[(i64, usize)]| -> Vec<i64> {
                    runs.iter().flat_map(|(offset, length)| *offset..*offset + *length as i64).collect()
                };
                assert_eq!(bytes(&found), bytes(&runs(&layout, 3)));
            }
        }
        let mut calls = 0;
        let cut = several()[3].cut(9, 1, 1, &mut |_, _| {
            calls += 1;
            calls < 2
        });
        assert_eq!((cut, calls), (Ok(()), 2));
    }

    /// Descriptions are cut at each place, lengthened, and changed in each byte.   Expect: an error or some
    /// layout, never a panic.
    #[test]
    fn a_damaged_description_is_refused_or_harmless() {
        for layout in several() {
            let mut bytes = Vec::new();
            layout.describe(&mut bytes);
            for end in 0..bytes.len() {
                assert!(Layout::from_description(&bytes[..end]).is_err());
            }
            for at in 0..bytes.len() {
                for change in [1, 0x80, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= change;
                    if let Ok(layout) = Layout::from_description(&damaged) {
                        let _ = (layout.touched(2), layout.packed_size(2));
                    }
                }
            }
            bytes.push(0);
            assert!(Layout::from_description(&bytes).is_err());
        }
    }
}
