//! The frontier of one run of a schedule: the steps that may begin, and the events for which the others still
//! wait.

use alloc::vec;
use alloc::vec::Vec;

use super::Schedule;

/// Most steps of a schedule that can be run without memory on the heap.
const FEW: usize = 64;

/// The edge between the complete steps of a schedule and the others: a pure function of the events that it is
/// told.
///
/// The caller takes [the next step](Self::take_next), begins it and calls [`Self::start`], and calls
/// [`Self::complete`] when the step is complete. Each call is given the schedule; it must be the same.
#[derive(Clone, Debug)]
pub struct Frontier {
    left: u32,
    open: Open,
}

#[derive(Clone, Debug)]
enum Open {
    Few {
        /// The number of events for which each step still waits.
        waits: [u8; FEW],
        /// A bit for each step that may begin.
        ready: u64,
    },
    Many {
        waits: Vec<u32>,
        ready: Vec<u64>,
        /// The words before this one have no bits set.
        first: usize,
    },
}

impl Frontier {
    /// The frontier at the beginning of `schedule`.
    pub fn new(schedule: &Schedule) -> Self {
        let length = schedule.len();
        let open = if length <= FEW {
            let (mut waits, mut ready) = ([0; FEW], 0);
            for (number, node) in schedule.nodes.iter().enumerate() {
                // Each of fewer than 64 other steps counts twice at most.
                waits[number] = node.waits as u8;
                ready |= u64::from(node.waits == 0) << number;
            }
            Open::Few { waits, ready }
        } else {
            let mut ready = vec![0; length.div_ceil(64)];
            let waits = schedule.nodes.iter().enumerate().map(|(number, node)| {
                ready[number / 64] |= u64::from(node.waits == 0) << (number % 64);
                node.waits
            });
            Open::Many { waits: waits.collect(), ready, first: 0 }
        };
        Self { left: length as u32, open }
    }

    /// Returns whether every step is complete.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.left == 0
    }

    /// Takes a step that may begin; if there are several, the one planned first.
    #[inline]
    pub fn take_next(&mut self) -> Option<u32> {
        match &mut self.open {
            Open::Few { ready, .. } => {
                let number = (*ready != 0).then(|| ready.trailing_zeros())?;
                *ready &= *ready - 1;
                Some(number)
            }
            Open::Many { ready, first, .. } => {
                while *ready.get(*first)? == 0 {
                    *first += 1;
                }
                let word = &mut ready[*first];
                let number = word.trailing_zeros();
                *word &= *word - 1;
                Some(*first as u32 * 64 + number)
            }
        }
    }

    /// Takes this step; false: it may not begin yet.
    pub fn take(&mut self, number: u32) -> bool {
        let word = match &mut self.open {
            Open::Few { ready, .. } => ready,
            Open::Many { ready, .. } => &mut ready[number as usize / 64],
        };
        let bit = 1 << (number % 64);
        let is_ready = *word & bit != 0;
        *word &= !bit;
        is_ready
    }

    /// Puts back a step that was taken and has not begun: it may begin later.
    pub fn put_back(&mut self, number: u32) {
        match &mut self.open {
            Open::Few { ready, .. } => *ready |= 1 << number,
            Open::Many { ready, first, .. } => {
                ready[number as usize / 64] |= 1 << (number % 64);
                *first = (*first).min(number as usize / 64);
            }
        }
    }

    /// Notes that a step that was taken has begun. Only transfers need this call: no step waits for the
    /// beginning of a step of another kind.
    #[inline]
    pub fn start(&mut self, schedule: &Schedule, number: u32) {
        for &later in schedule.after_start(number) {
            self.release(later);
        }
    }

    /// Notes that a step that has begun is complete.
    #[inline]
    pub fn complete(&mut self, schedule: &Schedule, number: u32) {
        self.left -= 1;
        for &later in schedule.after_end(number) {
            self.release(later);
        }
    }

    #[inline]
    fn release(&mut self, number: u32) {
        let is_last = match &mut self.open {
            Open::Few { waits, .. } => {
                let waits = &mut waits[number as usize % FEW];
                *waits -= 1;
                *waits == 0
            }
            Open::Many { waits, .. } => {
                let waits = &mut waits[number as usize];
                *waits -= 1;
                *waits == 0
            }
        };
        if is_last {
            self.put_back(number);
        }
    }
}
