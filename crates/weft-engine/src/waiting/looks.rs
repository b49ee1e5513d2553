//! Calls that only look, such as `MPI_Test` and `MPI_Iprobe`, of which programs make loops.

use weft_core::time::{Duration, Instant};

/// The least time of which the progress loop is told that it passed between two looks of a program.
const APART: Duration = Duration::from_micros(4);

/// The number of vain looks of a program since it last yielded, and the time of one before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    in_vain: u32,
    told: Instant,
}

impl Looks {
    /// Makes a count of no looks.
    pub const fn new() -> Self {
        Self { in_vain: 0, told: Instant(0) }
    }

    /// Counts a look in vain; returns whether the call yields its processor as it leaves. It always does
    /// where others are known to want the processor (`wanted`). Otherwise it yields every `passes` looks, as
    /// a call that waits does ([`super::Pace`]).
    ///
    /// The loop may wait for ranks that are not known to share this processor: ranks of another job, or of
    /// another host of a machine that plays several. A yield that no thread takes costs about as much as one
    /// look. Looks that find something are not counted, so that they cost nothing.
    #[inline]
    pub fn in_vain(&mut self, wanted: bool, passes: u32) -> bool {
        self.in_vain += 1;
        if self.in_vain < passes {
            return wanted;
        }
        self.in_vain = 0;
        true
    }

    /// The time since the progress loop was last told, for a look `now`; `None` where that was just now. A
    /// loop of looks may yield between them, and a program may compute. The progress loop counts its passes
    /// ([`crate::engine::Engine::note_away`]), and knows of neither.
    #[inline]
    pub fn away(&mut self, now: Instant) -> Option<Duration> {
        let away = now.since(self.told);
        if away < APART {
            return None;
        }
        self.told = now;
        Some(away)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_of_looks_offers_its_processor_now_and_then_and_always_where_others_are_known_to_want_it() {
        for passes in [4, 64] {
            let mut looks = Looks::new();
            assert!((1..passes).all(|_| !looks.in_vain(false, passes)));
            assert!(looks.in_vain(false, passes));
            assert!(!looks.in_vain(false, passes));
            assert!((0..3 * passes).all(|_| looks.in_vain(true, passes)));
        }
    }

    #[test]
    fn the_progress_loop_hears_of_all_time_between_looks_but_not_of_each_look() {
        let mut looks = Looks::new();
        let told: Vec<_> = [5_000, 6_000, 8_999, 9_000, 109_000, 112_000].map(|at| looks.away(Instant(at))).into();
        let heard = |span| Some(Duration(span));
        assert_eq!(told, [heard(5_000), None, None, heard(4_000), heard(100_000), None]);
    }
}
