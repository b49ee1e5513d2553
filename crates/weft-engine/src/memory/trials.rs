//! Trials of two ways to do the same, by which the quicker one is kept.
//!
//! A process may move to another processor, and a virtual machine does not say which processors share a
//! cache. So nobody asks, and both ways are measured from time to time: less often after each trial that
//! changed nothing.

/// The number of copies between two trials, at first and at most. A trial in vain costs about as much as
/// twenty copies.
pub(super) const PAUSE_MIN: u32 = 128;
pub(super) const PAUSE_MAX: u32 = 4096;
/// The copies of each way in a trial, of which the middle one counts: another may have been interrupted.
const TRIAL: usize = 3;

/// The cost of a copy of `len` bytes that took so many ticks: the ticks for 1 KiB.
pub(super) fn cost_of(ticks: u64, len: usize) -> u64 {
    ticks.saturating_mul(1 << 10) / len as u64
}

/// The trials of two ways.
#[derive(Debug)]
pub(super) struct Trials {
    /// The number of copies to be made before the next trial; 0: a trial is under way.
    left: u32,
    /// The number with which that begins after a trial that changes nothing.
    pause: u32,
    /// The costs of the copies of the trial that is under way, of the two ways in turn.
    costs: [u64; 2 * TRIAL],
    /// The number of these.
    tried: usize,
}

impl Trials {
    pub(super) const fn new() -> Self {
        Self { left: PAUSE_MIN, pause: PAUSE_MIN, costs: [0; 2 * TRIAL], tried: 0 }
    }

    /// Which way a trial that is under way needs next, the first or the second; `None`: there is none.
    #[inline]
    pub(super) fn next(&self) -> Option<usize> {
        (self.left == 0).then_some(self.tried % 2)
    }

    /// The number of copies before the next trial; 0: it is under way.
    #[cfg(test)]
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// Counts copies that are made between trials.
    #[inline]
    pub(super) fn pass(&mut self, copies: u32) {
        self.left = self.left.saturating_sub(copies);
    }

    /// Begins a trial.
    pub(super) fn begin(&mut self) {
        self.left = 0;
    }

    /// Notes the cost of a copy of the trial. Returns the middle cost of each way when the trial is complete:
    /// the caller [decides](Self::end) then.
    pub(super) fn note(&mut self, cost: u64) -> Option<[u64; 2]> {
        self.costs[self.tried] = cost;
        self.tried += 1;
        if self.tried < self.costs.len() {
            return None;
        }
        let middle = |way: usize| {
            let mut costs: [u64; TRIAL] = std::array::from_fn(|i| self.costs[2 * i + way]);
            weft_ordered::sort(&mut costs);
            costs[TRIAL / 2]
        };
        Some([middle(0), middle(1)])
    }

    /// Ends a trial, which has changed the choice or not.
    pub(super) fn end(&mut self, is_changed: bool) {
        self.pause = if is_changed { PAUSE_MIN } else { (self.pause * 2).min(PAUSE_MAX) };
        (self.left, self.tried) = (self.pause, 0);
    }

    /// Trials that never come.
    #[cfg(test)]
    pub(super) const fn never() -> Self {
        Self { left: u32::MAX, ..Self::new() }
    }
}
