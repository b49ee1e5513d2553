//! The passes in which the progress loop looks at a carrier whose look is a system call.
//!
//! The schedule counts passes, since a count costs nothing and most passes follow each other at once. A call
//! that waits on a shared processor yields it between two passes, perhaps after each pass. Such a yield takes
//! as long as many passes, so the time away counts as well ([`Looks::note_away`]).

use weft_core::time::Duration;

use crate::carriers::{CARRIERS_MAX, CarrierId};

/// The passes since some event, and the time away since then, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    passes: u64,
    away: u64,
}

impl Span {
    const fn new(passes: u64, away: u64) -> Self {
        Self { passes, away }
    }

    const fn since(self, event: Self) -> Self {
        Self::new(self.passes - event.passes, self.away - event.away)
    }

    /// Returns whether this is as long as `least`, in passes or in time away.
    const fn reaches(self, least: Self) -> bool {
        self.passes >= least.passes || self.away >= least.away
    }
}

/// How often a pass looks at a carrier if the look is a system call and peers can be reached otherwise, too.
/// Each row says: until such a span since a packet came by the carrier, a look after each such span. Looks
/// must be few: a waiter counts passes until it yields its processor, so a pass must stay short. A look takes
/// 300 to 500 ns.
const SYSTEM_CALL_EVERY: [(Span, Span); 2] =
    [(Span::new(512, 128_000), Span::new(4, 1_000)), (Span::new(8192, 2_000_000), Span::new(16, 4_000))];
/// The same behind the last row. A carrier that is quiet must cost next to nothing.
const SYSTEM_CALL_EVERY_QUIET: Span = Span::new(64, 64_000);
/// The number of passes in each of which such a carrier is looked at after a few packets have come by it: an
/// answer to an answer comes soon, and the same way. Many packets are bulk data, of which more should gather.
const SYSTEM_CALL_FAVOURED: u32 = 32;
const FEW_PACKETS: usize = 2;
/// The span between two looks at a carrier by which nothing is expected.
const UNEXPECTED_EVERY: Span = Span::new(4096, 1_000_000);
/// The pass with which a schedule begins: nothing has come lately, and each look is due.
const FIRST: Span = Span::new(8192, 0);

const _: () = assert!(FIRST.reaches(UNEXPECTED_EVERY) && FIRST.reaches(SYSTEM_CALL_EVERY[1].0));

/// The schedule of looks at carriers whose look is a system call.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Looks {
    /// The passes so far, and the time away.
    now: Span,
    carriers: [Looked; CARRIERS_MAX],
    /// The last look at carriers by which nothing is expected.
    unexpected: Span,
}

/// What a schedule knows of one carrier.
#[derive(Clone, Copy, Debug)]
struct Looked {
    /// The last look.
    last: Span,
    /// The last look that found something.
    found: Span,
    /// The number of passes in which the carrier is favoured.
    favoured: u32,
}

impl Looks {
    /// Makes a schedule with a look in the next pass.
    pub(in crate::engine) const fn now() -> Self {
        let never = Span::new(0, 0);
        Self {
            now: FIRST,
            carriers: [Looked { last: never, found: never, favoured: 0 }; CARRIERS_MAX],
            unexpected: never,
        }
    }

    /// Begins a pass. Returns whether it also looks at carriers by which nothing is expected.
    #[inline]
    pub(super) fn begin_pass(&mut self) -> bool {
        self.now.passes += 1;
        let is_due = self.now.since(self.unexpected).reaches(UNEXPECTED_EVERY);
        if is_due {
            self.unexpected = self.now;
        }
        is_due
    }

    /// Returns whether a carrier is looked at in this pass, of which this is told once.
    #[inline]
    pub(super) fn is_due(&mut self, id: CarrierId) -> bool {
        let carrier = &mut self.carriers[usize::from(id.0)];
        let since = self.now.since(carrier.found);
        let row = SYSTEM_CALL_EVERY.iter().find(|(until, _)| !since.reaches(*until));
        let every = row.map_or(SYSTEM_CALL_EVERY_QUIET, |(_, every)| *every);
        let is_due = carrier.favoured > 0 || self.now.since(carrier.last).reaches(every);
        carrier.favoured = carrier.favoured.saturating_sub(1);
        if is_due {
            carrier.last = self.now;
        }
        is_due
    }

    /// Notes that `packets` packets have come by a carrier.
    pub(super) fn found(&mut self, id: CarrierId, packets: usize) {
        let carrier = &mut self.carriers[usize::from(id.0)];
        carrier.found = self.now;
        carrier.favoured = if packets <= FEW_PACKETS { SYSTEM_CALL_FAVOURED } else { 0 };
    }

    /// Notes that the thread made no passes for this `span`, although a call waits or looks.
    pub(super) fn note_away(&mut self, span: Duration) {
        self.now.away += span.as_nanos();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: CarrierId = CarrierId(1);

    /// The passes, up to `most`, in which the carrier is looked at. Each is followed by a yield of `away`.
    fn looks(looks: &mut Looks, away: Duration, most: u64) -> Vec<u64> {
        let mut due = Vec::new();
        for pass in 1..=most {
            looks.begin_pass();
            if looks.is_due(UDP) {
                due.push(pass);
            }
            looks.note_away(away);
        }
        due
    }

    fn gaps(due: &[u64]) -> Vec<u64> {
        due.windows(2).map(|at| at[1] - at[0]).collect()
    }

    #[test]
    fn looks_are_few_where_passes_follow_each_other_at_once_and_fewer_the_longer_nothing_comes() {
        let mut schedule = Looks::now();
        let quiet = looks(&mut schedule, Duration(0), 1000);
        assert_eq!(quiet[0], 1, "the first pass looks");
        assert!(gaps(&quiet).iter().all(|gap| *gap == 64), "{quiet:?}");
        schedule.found(UDP, 64);
        assert!(gaps(&looks(&mut schedule, Duration(0), 500)).iter().all(|gap| *gap == 4));
        looks(&mut schedule, Duration(0), 20);
        assert!(gaps(&looks(&mut schedule, Duration(0), 7000)).iter().all(|gap| *gap == 16));
        looks(&mut schedule, Duration(0), 1000);
        assert!(gaps(&looks(&mut schedule, Duration(0), 1000)).iter().all(|gap| *gap == 64));
    }

    #[test]
    fn after_few_packets_each_pass_looks_for_a_while() {
        let mut schedule = Looks::now();
        schedule.found(UDP, 1);
        let due = looks(&mut schedule, Duration(0), 48);
        assert_eq!(due[..32], (1..=32).collect::<Vec<u64>>());
        assert_eq!(due[32..], [36, 40, 44, 48]);
    }

    /// Ranks that take turns on a processor yield after each pass. Then a look came once in 64 turns, with
    /// neighbours on the node once in 1024: a message waited for a millisecond and more.
    #[test]
    fn the_next_look_is_at_most_some_microseconds_away_however_long_a_yield_takes() {
        for away in [300, 1_500, 4_000, 100_000, 3_000_000] {
            let mut schedule = Looks::now();
            let due = looks(&mut schedule, Duration(away), 1000);
            let furthest = gaps(&due).into_iter().max().unwrap();
            assert!(furthest == 1 || furthest * away <= 68_000, "quiet: {furthest} turns of {away} ns");
            schedule.found(UDP, 64);
            let furthest = gaps(&looks(&mut schedule, Duration(away), 20)).into_iter().max().unwrap();
            assert!(furthest == 1 || furthest * away <= 6_000, "busy: {furthest} turns of {away} ns");
        }
    }

    #[test]
    fn carriers_by_which_nothing_is_expected_have_their_turn_by_time_too() {
        for (away, expected) in [(0, 4096), (10_000, 100), (2_000_000, 1)] {
            let mut schedule = Looks::now();
            let due: Vec<u64> = (0..10_000)
                .filter(|_| {
                    let is_due = schedule.begin_pass();
                    schedule.note_away(Duration(away));
                    is_due
                })
                .collect();
            assert_eq!(due[0], 0, "the first pass looks");
            assert!(gaps(&due).iter().all(|gap| gap.abs_diff(expected) <= 1), "{away}: {due:?}");
        }
    }
}
