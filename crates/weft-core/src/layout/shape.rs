//! The places of a datatype's bytes: its type map reduced to runs of bytes in order, as a tree kept as flat
//! as possible.
//!
//! Element types are forgotten here. Neighbouring runs are joined when a shape is built, and regular
//! repetition stays a formula. So a matrix column of any height is one [`Shape::Grid`], and an indexed type
//! of contiguous blocks is one table with prefix sums.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::batch::{Batch, Merger};
use super::{Overflow, checked_offset};

/// Parts of a nested sequence are copied into the outer one while it has no more than this many: flat tables
/// are walked faster, but a tower of sequences must not multiply.
const FLATTEN_PARTS_MAX: usize = 64;

/// The bytes of one item, in type-map order.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// No bytes.
    Empty,
    /// A single run.
    Run { offset: i64, length: u64 },
    /// `count` ≥ 2 runs of `length` bytes, `step` apart, not touching one another.
    Grid { offset: i64, length: u64, step: i64, count: u64 },
    /// `times` ≥ 2 copies of a shape that is not a run, `step` apart. `size` is that of one copy.
    Repeat { offset: i64, step: i64, times: u64, size: u64, of: Arc<Shape> },
    /// Runs at irregular places.
    Pieces { offset: i64, size: u64, pieces: Arc<[Piece]> },
    /// Anything else, one after the other.
    Parts { offset: i64, size: u64, parts: Arc<[Part]> },
}

/// A run of [`Shape::Pieces`]; it ends where the next one starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Packed bytes before it.
    start: u64,
    offset: i64,
}

/// A member of [`Shape::Parts`].
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Packed bytes before it.
    start: u64,
    shape: Shape,
}

impl Shape {
    pub(super) fn size(&self) -> u64 {
        match self {
            Shape::Empty => 0,
            Shape::Run { length, .. } => *length,
            Shape::Grid { length, count, .. } => length * count,
            Shape::Repeat { times, size, .. } => times * size,
            Shape::Pieces { size, .. } | Shape::Parts { size, .. } => *size,
        }
    }

    /// Returns whether walking the shape calls no other shape.
    pub(super) fn is_flat(&self) -> bool {
        !matches!(self, Shape::Repeat { .. } | Shape::Parts { .. })
    }

    /// The runs of [`Shape::Pieces`] by offset and length, its own offset left out; none of another shape.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let (pieces, size): (&[Piece], u64) = match self {
            Shape::Pieces { pieces, size, .. } => (pieces, *size),
            _ => (&[], 0),
        };
        let ends = pieces.iter().skip(1).map(|piece| piece.start).chain([size]);
        pieces.iter().zip(ends).map(|(piece, end)| (piece.offset, end - piece.start))
    }

    /// The members of [`Shape::Parts`]; none of another shape.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Shape> {
        let parts: &[Part] = if let Shape::Parts { parts, .. } = self { parts } else { &[] };
        parts.iter().map(|part| &part.shape)
    }

    pub(super) fn shifted(&self, by: i64) -> Result<Shape, Overflow> {
        let mut shape = self.clone();
        match &mut shape {
            Shape::Empty => {}
            Shape::Run { offset, .. }
            | Shape::Grid { offset, .. }
            | Shape::Repeat { offset, .. }
            | Shape::Pieces { offset, .. }
            | Shape::Parts { offset, .. } => *offset = offset.checked_add(by).ok_or(Overflow::Bytes)?,
        }
        Ok(shape)
    }

    /// `times` copies, each `step` bytes after the one before.
    pub(super) fn repeated(&self, times: u64, step: i64) -> Result<Shape, Overflow> {
        if times == 0 || self.size() == 0 {
            return Ok(Shape::Empty);
        }
        if times == 1 {
            return Ok(self.clone());
        }
        let size = self.size();
        size.checked_mul(times).filter(|&total| i64::try_from(total).is_ok()).ok_or(Overflow::Bytes)?;
        checked_offset(times - 1, step)?;
        Ok(match *self {
            Shape::Run { offset, length } if step == length as i64 => Shape::Run { offset, length: length * times },
            Shape::Run { offset, length } => Shape::Grid { offset, length, step, count: times },
            Shape::Grid { offset, length, step: inner, count } if inner.checked_mul(count as i64) == Some(step) => {
                Shape::Grid { offset, length, step: inner, count: count * times }
            }
            Shape::Repeat { offset, step: inner, times: count, size, ref of }
                if inner.checked_mul(count as i64) == Some(step) =>
            {
                Shape::Repeat { offset, step: inner, times: count * times, size, of: of.clone() }
            }
            _ => Shape::Repeat { offset: 0, step, times, size, of: Arc::new(self.clone()) },
        })
    }

    /// Walks the packed bytes `range` of this shape placed at `base`. `range` is not empty and within the
    /// size.
    pub(super) fn walk(&self, base: i64, range: Range<u64>, out: &mut Merger<'_>) {
        match *self {
            Shape::Empty => {}
            Shape::Run { offset, .. } => out.run(add(add(base, offset), range.start as i64), range.end - range.start),
            Shape::Grid { offset, length, step, .. } => walk_grid(add(base, offset), length, step, range, out),
            Shape::Repeat { offset, step, size, ref of, .. } => {
                walk_repeat(of, add(base, offset), step, size, range, out)
            }
            Shape::Pieces { offset, size, ref pieces } => walk_pieces(pieces, size, add(base, offset), range, out),
            Shape::Parts { offset, size, ref parts } => walk_parts(parts, size, add(base, offset), range, out),
        }
    }

    /// Walks `range` of endlessly many copies of this shape, `step` apart: the items of a message.
    pub(super) fn walk_items(&self, step: i64, range: Range<u64>, out: &mut Merger<'_>) {
        match *self {
            Shape::Empty => {}
            Shape::Run { offset, length } => walk_grid(offset, length, step, range, out),
            _ => walk_repeat(self, 0, step, self.size(), range, out),
        }
    }
}

/// Adds offsets and wraps. The offset of every byte was checked when the type was built, but not the sums on
/// the way to it.
fn add(base: i64, offset: i64) -> i64 {
    base.wrapping_add(offset)
}

fn at(base: i64, step: i64, index: u64) -> i64 {
    add(base, step.wrapping_mul(index as i64))
}

/// Runs of `length` bytes, `step` apart; the first and the last may be cut by the range.
fn walk_grid(base: i64, length: u64, step: i64, range: Range<u64>, out: &mut Merger<'_>) {
    let (mut first, skip) = (range.start / length, range.start % length);
    let mut rest = range.end - range.start;
    if step == length as i64 {
        return out.run(add(base, range.start as i64), rest);
    }
    if skip != 0 {
        let head = (length - skip).min(rest);
        out.run(at(base, step, first).wrapping_add(skip as i64), head);
        rest -= head;
        first += 1;
    }
    let (whole, tail) = (rest / length, rest % length);
    if whole > 0 {
        out.batch(Batch { offset: at(base, step, first), length: length as usize, step, count: whole });
    }
    if tail != 0 {
        out.run(at(base, step, first + whole), tail);
    }
}

/// Copies of `of`, `size` bytes each; the first and the last may be cut by the range.
fn walk_repeat(of: &Shape, base: i64, step: i64, size: u64, range: Range<u64>, out: &mut Merger<'_>) {
    let mut index = range.start / size;
    let mut from = range.start % size;
    let mut rest = range.end - range.start;
    while rest > 0 {
        let take = (size - from).min(rest);
        of.walk(at(base, step, index), from..from + take, out);
        rest -= take;
        from = 0;
        index += 1;
    }
}

fn walk_pieces(pieces: &[Piece], size: u64, base: i64, range: Range<u64>, out: &mut Merger<'_>) {
    let first = if range.start == 0 { 0 } else { pieces.partition_point(|piece| piece.start <= range.start) - 1 };
    let mut from = range.start;
    for (index, piece) in pieces.iter().enumerate().skip(first) {
        let end = pieces.get(index + 1).map_or(size, |next| next.start).min(range.end);
        out.run(add(add(base, piece.offset), (from - piece.start) as i64), end - from);
        from = end;
        if from == range.end {
            return;
        }
    }
}

fn walk_parts(parts: &[Part], size: u64, base: i64, range: Range<u64>, out: &mut Merger<'_>) {
    let first = if range.start == 0 { 0 } else { parts.partition_point(|part| part.start <= range.start) - 1 };
    let mut from = range.start;
    for (index, part) in parts.iter().enumerate().skip(first) {
        let end = parts.get(index + 1).map_or(size, |next| next.start).min(range.end);
        part.shape.walk(base, from - part.start..end - part.start, out);
        from = end;
        if from == range.end {
            return;
        }
    }
}

/// Builds a shape from shapes that follow one another in the type map.
#[derive(Default)]
pub(super) struct Sequence {
    parts: Vec<Part>,
    size: u64,
}

impl Sequence {
    pub(super) fn push(&mut self, shape: Shape) -> Result<(), Overflow> {
        match shape {
            Shape::Empty => Ok(()),
            Shape::Pieces { offset, size, ref pieces } if pieces.len() <= FLATTEN_PARTS_MAX => {
                for (index, piece) in pieces.iter().enumerate() {
                    let end = pieces.get(index + 1).map_or(size, |next| next.start);
                    let offset = offset.checked_add(piece.offset).ok_or(Overflow::Bytes)?;
                    self.push_one(Shape::Run { offset, length: end - piece.start })?;
                }
                Ok(())
            }
            Shape::Parts { offset, ref parts, .. } if parts.len() <= FLATTEN_PARTS_MAX => {
                parts.iter().try_for_each(|part| self.push_one(part.shape.shifted(offset)?))
            }
            shape => self.push_one(shape),
        }
    }

    fn push_one(&mut self, shape: Shape) -> Result<(), Overflow> {
        let added = shape.size();
        let size = self.size.checked_add(added).filter(|&size| i64::try_from(size).is_ok());
        let start = core::mem::replace(&mut self.size, size.ok_or(Overflow::Bytes)?);
        if let Some(last) = self.parts.last_mut()
            && last.shape.absorb(&shape)
        {
            return Ok(());
        }
        self.parts.push(Part { start, shape });
        Ok(())
    }

    pub(super) fn finish(mut self) -> Shape {
        if self.parts.len() <= 1 {
            return self.parts.pop().map_or(Shape::Empty, |part| part.shape);
        }
        let runs: Option<Vec<Piece>> = self.parts.iter().map(Part::as_piece).collect();
        match runs {
            Some(pieces) => Shape::Pieces { offset: 0, size: self.size, pieces: pieces.into() },
            None => Shape::Parts { offset: 0, size: self.size, parts: self.parts.into() },
        }
    }
}

impl Part {
    fn as_piece(&self) -> Option<Piece> {
        match self.shape {
            Shape::Run { offset, .. } => Some(Piece { start: self.start, offset }),
            _ => None,
        }
    }
}

impl Shape {
    /// Takes `next` in when the two together are one run or one grid of runs; false when they are not.
    fn absorb(&mut self, next: &Shape) -> bool {
        let (Shape::Run { offset, length }, &Shape::Run { offset: next_offset, length: next_length }) = (&*self, next)
        else {
            return false;
        };
        if offset.checked_add_unsigned(*length) != Some(next_offset) {
            return false;
        }
        *self = Shape::Run { offset: *offset, length: length + next_length };
        true
    }
}
