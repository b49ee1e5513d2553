//! Counts the threads that want the process lock while another thread has it.
//!
//! The thread with the lock can see this, and let another thread in. `process.rs` counts them; waiting calls
//! and the progress thread look.

use std::sync::atomic::{AtomicU32, Ordering};

static LOCK_WAITERS: AtomicU32 = AtomicU32::new(0);

/// A thread that wants the lock, as long as this value lives.
pub(crate) struct LockWaiter(());

impl LockWaiter {
    /// Counts this thread from now on.
    pub(crate) fn begin() -> Self {
        LOCK_WAITERS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for LockWaiter {
    fn drop(&mut self) {
        LOCK_WAITERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether another thread waits for the lock.
#[inline]
pub(crate) fn is_contended() -> bool {
    LOCK_WAITERS.load(Ordering::Relaxed) != 0
}
