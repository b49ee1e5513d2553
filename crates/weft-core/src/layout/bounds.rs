//! Bounds of a type map: lb, ub and their true twins (MPI-5.0 §5.1.6–§5.1.8).

use super::element::Element;
use super::{Overflow, checked_offset};

/// Where a datatype begins and ends, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) lb: i64,
    pub(super) ub: i64,
    pub(super) true_lb: i64,
    pub(super) true_ub: i64,
    pub(super) alignment: u32,
    /// `lb` and `ub` come from `MPI_Type_create_resized` somewhere inside: they prevail over those of the data.
    marked: bool,
    /// There is at least one byte of data: the true bounds mean something.
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

    pub(super) fn shifted(&self, by: i64) -> Result<Bounds, Overflow> {
        let mut bounds = *self;
        if self.marked {
            bounds.lb = self.lb.checked_add(by).ok_or(Overflow::Bytes)?;
            bounds.ub = self.ub.checked_add(by).ok_or(Overflow::Bytes)?;
        }
        if self.filled {
            bounds.true_lb = self.true_lb.checked_add(by).ok_or(Overflow::Bytes)?;
            bounds.true_ub = self.true_ub.checked_add(by).ok_or(Overflow::Bytes)?;
        }
        Ok(bounds)
    }

    /// Both follow one another in one type map. Markers win over data without markers (definition of lb in §5.1.6).
    pub(super) fn join(&mut self, other: &Bounds) {
        if other.marked {
            self.lb = if self.marked { self.lb.min(other.lb) } else { other.lb };
            self.ub = if self.marked { self.ub.max(other.ub) } else { other.ub };
            self.marked = true;
        }
        if other.filled {
            self.true_lb = if self.filled { self.true_lb.min(other.true_lb) } else { other.true_lb };
            self.true_ub = if self.filled { self.true_ub.max(other.true_ub) } else { other.true_ub };
            self.filled = true;
        }
        self.alignment = self.alignment.max(other.alignment);
    }

    /// `times` copies, `step` apart. The extremes are at the two ends.
    pub(super) fn repeated(&self, times: u64, step: i64) -> Result<Bounds, Overflow> {
        if times == 0 || !(self.marked || self.filled) {
            return Ok(Bounds::empty());
        }
        let mut bounds = *self;
        bounds.join(&self.shifted(checked_offset(times - 1, step)?)?);
        Ok(bounds)
    }

    /// The bounds of the finished type: without markers those of the data, its extent rounded up to the alignment.
    pub(super) fn finished(mut self) -> Result<Bounds, Overflow> {
        if !self.marked {
            let extent = self.true_ub.checked_sub(self.true_lb).ok_or(Overflow::Bytes)?;
            let epsilon = -extent & i64::from(self.alignment - 1);
            let padded = extent.checked_add(epsilon).ok_or(Overflow::Bytes)?;
            self.lb = self.true_lb;
            self.ub = self.lb.checked_add(padded).ok_or(Overflow::Bytes)?;
        }
        self.ub.checked_sub(self.lb).ok_or(Overflow::Bytes)?;
        self.true_ub.checked_sub(self.true_lb).ok_or(Overflow::Bytes)?;
        Ok(self)
    }

    pub(super) fn resized(&self, lb: i64, extent: i64) -> Result<Bounds, Overflow> {
        let ub = lb.checked_add(extent).ok_or(Overflow::Bytes)?;
        Ok(Bounds { lb, ub, marked: true, ..*self })
    }
}
