//! Bounds of a type map: lb and ub, true lb and true ub (MPI-5.0 §5.1.6–§5.1.8).

use super::element::Element;
use super::{Overflow, checked_offset};

/// The beginning and the end of a datatype, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) lb: i64,
    pub(super) ub: i64,
    pub(super) true_lb: i64,
    pub(super) true_ub: i64,
    pub(super) alignment: u32,
    /// `lb` and `ub` come from `MPI_Type_create_resized` somewhere inside: they prevail over others.
    marked: bool,
    /// The datatype has at least one byte of data, so the true bounds mean something.
    filled: bool,
}

impl Bounds {
    pub(super) const fn empty() -> Bounds {
        Bounds { lb: 0, ub: 0, true_lb: 0, true_ub: 0, alignment: 1, marked: false, filled: false }
    }

    pub(super) fn of_element(element: Element) -> Bounds {
        let pair_end = element.pair().map(|pair| pair.index_offset + pair.index_size);
        Bounds {
            ub: element.extent() as i64,
            true_ub: pair_end.unwrap_or(element.extent()) as i64,
            alignment: element.alignment() as u32,
            filled: true,
            ..Bounds::empty()
        }
    }

    fn is_empty(&self) -> bool {
        !(self.marked || self.filled)
    }

    pub(super) fn shifted(&self, by: i64) -> Result<Bounds, Overflow> {
        let mut bounds = *self;
        if !self.is_empty() {
            bounds.lb = self.lb.checked_add(by).ok_or(Overflow::Bytes)?;
            bounds.ub = self.ub.checked_add(by).ok_or(Overflow::Bytes)?;
        }
        if self.filled {
            bounds.true_lb = self.true_lb.checked_add(by).ok_or(Overflow::Bytes)?;
            bounds.true_ub = self.true_ub.checked_add(by).ok_or(Overflow::Bytes)?;
        }
        Ok(bounds)
    }

    /// Joins the bounds of a type that follows in the same type map. Markers win over bounds without markers
    /// (definition of lb in §5.1.6); among equals the outermost do.
    pub(super) fn join(&mut self, other: &Bounds) {
        if self.is_empty() || (other.marked && !self.marked) {
            (self.lb, self.ub) = (other.lb, other.ub);
        } else if !other.is_empty() && self.marked == other.marked {
            (self.lb, self.ub) = (self.lb.min(other.lb), self.ub.max(other.ub));
        }
        self.marked |= other.marked;
        if other.filled {
            self.true_lb = if self.filled { self.true_lb.min(other.true_lb) } else { other.true_lb };
            self.true_ub = if self.filled { self.true_ub.max(other.true_ub) } else { other.true_ub };
            self.filled = true;
        }
        self.alignment = self.alignment.max(other.alignment);
    }

    /// `times` copies, `step` apart. The extremes are at the two ends.
    pub(super) fn repeated(&self, times: u64, step: i64) -> Result<Bounds, Overflow> {
        if times == 0 || self.is_empty() {
            return Ok(Bounds::empty());
        }
        let mut bounds = *self;
        bounds.join(&self.shifted(checked_offset(times - 1, step)?)?);
        Ok(bounds)
    }

    /// The bounds of a structure: unless they are marked, the extent is rounded up to the alignment (the ε of
    /// §5.1.6).
    pub(super) fn padded(mut self) -> Result<Bounds, Overflow> {
        if !self.marked {
            let extent = self.ub.checked_sub(self.lb).ok_or(Overflow::Bytes)?;
            let epsilon = extent.wrapping_neg() & i64::from(self.alignment - 1);
            self.ub = self.ub.checked_add(epsilon).ok_or(Overflow::Bytes)?;
        }
        Ok(self)
    }

    /// The bounds of the finished type, once its extents are known to be numbers.
    pub(super) fn finished(self) -> Result<Bounds, Overflow> {
        self.ub.checked_sub(self.lb).ok_or(Overflow::Bytes)?;
        self.true_ub.checked_sub(self.true_lb).ok_or(Overflow::Bytes)?;
        Ok(self)
    }

    pub(super) fn resized(&self, lb: i64, extent: i64) -> Result<Bounds, Overflow> {
        let ub = lb.checked_add(extent).ok_or(Overflow::Bytes)?;
        Ok(Bounds { lb, ub, marked: true, ..*self })
    }
}
