//! Datatypes that travel: the target of a one-sided operation walks the layout that its origin describes (MPI-5.0 §12.3).
//!
//! Only what is needed to walk it: which bytes of an item, in which order, and the distance between items. The kinds of elements stay at home;
//! an operation that computes says of what element it is.
//!
//! ```text
//! extent (8 bytes) │ shape
//! shape: kind (1 byte), offset (8), then
//!   run: length (8) │ grid: length, step, count (8 each) │ repeat: step, times (8 each), shape
//!   pieces: number (4), for each offset and length (8 each) │ parts: number (4), for each a shape
//! ```

use alloc::vec::Vec;

use super::shape::Shape;
use super::{DEPTH_MAX, Element, Layout};

const EMPTY: u8 = 0;
const RUN: u8 = 1;
const GRID: u8 = 2;
const REPEAT: u8 = 3;
const PIECES: u8 = 4;
const PARTS: u8 = 5;

/// The bytes are no description of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLayout;

impl Layout {
    /// Appends what [`Layout::from_description`] needs.
    pub fn describe(&self, out: &mut Vec<u8>) {
        put(out, self.extent() as u64);
        describe_shape(&self.0.shape, out);
    }

    /// The layout that a peer has described: with the same bytes in the same order, and the same extent.
    ///
    /// # Errors
    /// [`NoLayout`]: it ends too early or too late, is nested too deep, or says what no layout can be.
    pub fn from_description(bytes: &[u8]) -> Result<Layout, NoLayout> {
        let mut reader = Reader(bytes);
        let extent = reader.u64()? as i64;
        let shape = reader.shape(0)?;
        if !reader.0.is_empty() {
            return Err(NoLayout);
        }
        Layout::resized(&shape, 0, extent).map_err(|_| NoLayout)
    }

    /// Whether both are one and the same object.
    pub fn is_same(&self, other: &Layout) -> bool {
        alloc::sync::Arc::ptr_eq(&self.0, &other.0)
    }
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

    /// A number of things of which each takes at least `bytes` of what is left.
    fn number(&mut self, bytes: usize) -> Result<usize, NoLayout> {
        let number = self.u32()? as usize;
        if number > self.0.len() / bytes { Err(NoLayout) } else { Ok(number) }
    }

    /// Built as a program would build it, so that all that is checked there is checked here.
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
        if offset == 0 {
            return Ok(built);
        }
        Layout::structure(&[(offset, 1, built)]).map_err(|_| NoLayout)
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

    /// Layouts of all shapes are described, and built again from that.   Expect: the same bytes in the same order, the same extent.
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

    /// Descriptions are cut at each place, lengthened, and changed in each byte.   Expect: an error or some layout, never a panic.
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
