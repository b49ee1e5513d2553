//! Calls that only look, such as `MPI_Test` and `MPI_Iprobe`, of which programs make loops.

/// The number of vain looks of a program since it last yielded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    in_vain: u32,
}

impl Looks {
    /// Makes a count of no looks.
    pub const fn new() -> Self {
        Self { in_vain: 0 }
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
}
