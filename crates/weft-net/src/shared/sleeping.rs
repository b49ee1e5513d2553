//! The word by which a rank announces that it sleeps: steps 1 and b of the sleeping protocol (see [`super`]).

use std::sync::atomic::Ordering;

use super::SleepMode;
use crate::atomic::AtomicU32;

/// The rank is about to sleep by `rest`. `asleep` counts the ranks that leave their processors to others.
pub(super) fn fall_asleep(sleeping: &AtomicU32, asleep: &AtomicU32, rest: u32) {
    if rest != SleepMode::Thread as u32 {
        asleep.fetch_add(1, Ordering::Relaxed);
    }
    // As a swap it is the instruction that a store of this order is as well, and the model checker knows the
    // order of swaps.
    sleeping.swap(rest, Ordering::SeqCst);
}

/// Makes the rank awake; how it slept. Of all who call this for one sleep, one gets something else than 0.
pub(super) fn take_sleep(sleeping: &AtomicU32, asleep: &AtomicU32) -> u32 {
    let rest = sleeping.swap(0, Ordering::SeqCst);
    if rest != 0 && rest != SleepMode::Thread as u32 {
        asleep.fetch_sub(1, Ordering::Relaxed);
    }
    rest
}
