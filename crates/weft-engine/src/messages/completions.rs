//! The one counter by which waiters see that something has happened.
//!
//! A waiter (a thread in a call, a running collective, the windows) remembers the count and looks again when
//! it has grown. Every event for which a waiter may wait is therefore [notified](Completions::notify), even
//! if no operation completes by it.

/// The count of events for which a caller may be waiting.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Completions {
    count: u64,
}

impl Completions {
    /// Notes that an event has happened.
    #[inline(always)]
    pub(super) fn notify(&mut self) {
        self.count += 1;
    }

    #[inline(always)]
    pub(super) fn count(self) -> u64 {
        self.count
    }

    /// Continues from `before`, the count of an earlier counter.
    pub(super) fn resume(&mut self, before: u64) {
        self.count += before;
    }
}
