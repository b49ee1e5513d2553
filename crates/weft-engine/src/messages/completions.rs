//! The one counter by which waiters see that something has happened.
//!
//! Whoever waits, a thread in a call, a running collective or the windows, remembers the count and looks
//! again when it has grown. So everything that somebody may wait for is [notified](Completions::notify),
//! whether an operation completes by it or not.

/// How often something has happened that somebody may wait for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Completions {
    count: u64,
}

impl Completions {
    /// Something has happened.
    #[inline(always)]
    pub(super) fn notify(&mut self) {
        self.count += 1;
    }

    #[inline(always)]
    pub(super) fn count(self) -> u64 {
        self.count
    }

    /// So often something had happened before this counter began.
    pub(super) fn resume(&mut self, before: u64) {
        self.count += before;
    }
}
