//! Who wants the lock around the process while another thread has it: what has it can see that, and let the
//! other in.

use std::sync::atomic::{AtomicU32, Ordering};

static LOCK_WAITERS: AtomicU32 = AtomicU32::new(0);

/// A thread wants the lock, as long as this lives.
pub(crate) struct LockWaiter(());

impl LockWaiter {
    /// From now on.
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

/// Whether another thread waits for the lock.
#[inline]
pub(crate) fn is_contended() -> bool {
    LOCK_WAITERS.load(Ordering::Relaxed) != 0
}
