//! Reads the monotonic clock, for the core, which has no clock of its own.

use weft_core::time::Instant;

/// Returns nanoseconds of the monotonic clock (CLOCK_MONOTONIC; the same origin for all processes of a
/// machine, until it reboots).
///
/// It makes no system call where the kernel offers a vDSO. It takes about 20–40 ns, so read it once per
/// batch, not per packet.
#[inline]
pub fn now() -> Instant {
    Instant(crate::sys::monotonic_nanos())
}

/// Returns a counter of the processor that grows steadily, by about 2.5 each nanosecond; cheaper than
/// [`now`]. Where there is none it stands still.
#[inline]
pub fn ticks() -> u64 {
    crate::sys::ticks()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_and_never_goes_back() {
        let start = now();
        let mut last = start;
        for _ in 0..10_000 {
            let next = now();
            assert!(next >= last);
            last = next;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(now().since(start).as_micros() >= 2_000);
    }
}
