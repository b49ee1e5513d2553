//! The number of passes of the progress loop between two looks at the clock, learnt from how long the passes
//! take.

use weft_core::time::Duration;

/// The time between looks at which a look, with its yield, is worth its price. A thread that shares the
/// processor waits for the yield.
const LOOK_EVERY: Duration = Duration::from_micros(4);
/// The most passes between two looks. If a pass looks at memory only, they take about as long as that time.
const PASSES_MAX: u32 = 64;
/// The fewest passes between two looks.
const PASSES_MIN: u32 = 4;
/// The passes between two looks with peers on other nodes, before anything has been measured: a pass may be a
/// system call.
const PASSES_NETWORK: u32 = 8;

/// The factor by which looks become rarer after a yield that let another thread compute for long, and the
/// number of short yields that end that.
const DEAR: u32 = 16;

/// The number of passes between two looks.
///
/// A pass takes 30 ns where it looks at a ring in shared memory, and 20 times as long where it asks a socket.
/// If two ranks spin on one processor, each waits for the other's yield: after a fixed number of passes that
/// came 40 µs late over UDP.
///
/// A yield to a thread that computes costs that thread's turn, a few milliseconds. The operation had better
/// complete before the next yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    passes: u32,
    /// The factor by which yields are rarer than their price alone would have it.
    rarer: u32,
}

impl Pace {
    /// Makes a pace before any measurement. `network` says whether there are peers on other nodes.
    pub const fn new(network: bool) -> Self {
        Self { passes: if network { PASSES_NETWORK } else { PASSES_MAX }, rarer: 1 }
    }

    /// The number of passes from one look to the next.
    #[inline]
    pub fn passes(&self) -> u32 {
        (self.passes * self.rarer).min(PASSES_MAX)
    }

    /// Notes that a yield has let another thread run, for `long` or not.
    pub fn yielded(&mut self, long: bool) {
        self.rarer = if long { DEAR } else { (self.rarer - 1).max(1) };
    }

    /// Notes that this many passes, at least one, took this long.
    pub fn measured(&mut self, passes: u32, span: Duration) {
        let fit = u64::from(passes) * LOOK_EVERY.as_nanos() / span.as_nanos().max(1);
        self.passes = u32::try_from(fit).unwrap_or(PASSES_MAX).clamp(PASSES_MIN, PASSES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_as_far_apart_whether_a_pass_is_a_system_call_or_not() {
        // The length of a pass in ns, and the number of passes between two looks that follows from it.
        for (pass, expected) in [(30, 64), (60, 64), (100, 40), (600, 6), (1_000, 4), (50_000, 4)] {
            let mut pace = Pace::new(true);
            for _ in 0..3 {
                let passes = pace.passes();
                pace.measured(passes, Duration(u64::from(passes) * pass));
            }
            assert_eq!(pace.passes(), expected, "{pass}");
        }
    }

    #[test]
    fn after_a_yield_to_somebody_who_computes_the_next_ones_are_rare_until_yields_are_short_again() {
        let mut pace = Pace::new(true);
        pace.yielded(true);
        let passes: Vec<u32> = (0..18)
            .map(|_| {
                let passes = pace.passes();
                pace.yielded(false);
                passes
            })
            .collect();
        assert_eq!(passes, [64, 64, 64, 64, 64, 64, 64, 64, 64, 56, 48, 40, 32, 24, 16, 8, 8, 8]);
        // Where looks are far apart anyway they stay as they are.
        let mut pace = Pace::new(false);
        pace.yielded(true);
        assert_eq!(pace.passes(), PASSES_MAX);
    }

    #[test]
    fn one_that_was_interrupted_is_forgotten_with_the_next_that_was_not() {
        let mut pace = Pace::new(false);
        pace.measured(64, Duration::from_micros(90));
        assert_eq!(pace.passes(), PASSES_MIN);
        pace.measured(PASSES_MIN, Duration(120));
        assert_eq!(pace.passes(), PASSES_MAX);
        pace.measured(1, Duration(0));
        assert_eq!(pace.passes(), PASSES_MAX);
    }
}
