//! The word by which a rank announces that it sleeps: steps 1 and b of the sleeping protocol (see [`super`]).

use std::sync::atomic::Ordering;

use super::SleepMode;
use crate::atomic::AtomicU32;

/// Announces that the rank is about to sleep in the way `rest`. `asleep` counts the ranks that leave their
/// processors to others.
pub(super) fn fall_asleep(sleeping: &AtomicU32, asleep: &AtomicU32, rest: u32) {
    if rest != SleepMode::Thread as u32 {
        asleep.fetch_add(1, Ordering::Relaxed);
    }
    // A swap is the same instruction as a store of this order, and the model checker knows the order of
    // swaps.
    sleeping.swap(rest, Ordering::SeqCst);
}

/// Makes the rank awake, and returns how it slept. Of all callers for the same sleep, only one gets a value
/// other than 0.
pub(super) fn take_sleep(sleeping: &AtomicU32, asleep: &AtomicU32) -> u32 {
    let rest = sleeping.swap(0, Ordering::SeqCst);
    if rest != 0 && rest != SleepMode::Thread as u32 {
        asleep.fetch_sub(1, Ordering::Relaxed);
    }
    rest
}
