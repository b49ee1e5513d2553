//! The processors on which the ranks of a node spin, chosen so that no two ranks wait on the same one.

use std::sync::atomic::Ordering;

use weft_engine::transport::NodeProcessors;

use super::Node;
use crate::sys;

/// Values of [`super::segment::RankState::inside_mpi`] beside 0. [`WAITS`]: the rank waits. [`SPINS`] and
/// above: the rank spins on the processor whose number is the value less [`SPINS`].
pub(super) const WAITS: u32 = 1;
pub(super) const SPINS: u32 = 2;

/// Returns the processor to which this rank should move, if any: the one of `mine` with the fewest ranks of
/// `spinning`. Counting this rank, `here` must have at least two more ranks than that processor, even if all
/// `unknown` ranks are there.
pub(super) fn less_loaded(here: u32, mine: &[u32], spinning: &[u32], unknown: usize) -> Option<u32> {
    let on = |processor: u32| spinning.iter().filter(|other| **other == processor).count();
    let emptiest = mine.iter().copied().filter(|other| *other != here).min_by_key(|other| on(*other))?;
    (on(emptiest) + unknown < on(here)).then_some(emptiest)
}

impl Node {
    /// The processors on which other ranks spin.
    fn spinning_elsewhere(&self) -> impl Iterator<Item = u32> {
        let segment = &self.inbox.segment;
        let others = (0..segment.geometry().local_size).filter(|index| *index != self.inbox.own);
        others.filter_map(|index| segment.rank_state(index).inside_mpi.load(Ordering::Relaxed).checked_sub(SPINS))
    }
}

impl NodeProcessors for Node {
    fn note_processor(&self) {
        let spins = sys::processor().map_or(WAITS, |processor| SPINS.saturating_add(processor));
        self.inbox.segment.rank_state(self.inbox.own).inside_mpi.store(spins, Ordering::Relaxed);
    }

    fn shares_processor(&self) -> bool {
        sys::processor().is_some_and(|here| self.spinning_elsewhere().any(|processor| processor == here))
    }

    fn migrate(&self) {
        if let Some(here) = sys::processor() {
            // When every other processor has a rank that spins, any processor but this one will do.
            if !sys::move_to(|other| other != here && self.spinning_elsewhere().all(|taken| taken != other)) {
                sys::move_to(|other| other != here);
            }
        }
        self.note_processor();
    }

    fn rebalance(&self) {
        let Some(here) = sys::processor() else { return };
        let segment = &self.inbox.segment;
        let others = (0..segment.geometry().local_size).filter(|index| *index != self.inbox.own);
        let mut spinning = Vec::new();
        for index in others.clone() {
            match segment.rank_state(index).inside_mpi.load(Ordering::Relaxed).checked_sub(SPINS) {
                Some(processor) if processor == here && index > self.inbox.own => return,
                Some(processor) => spinning.push(processor),
                None => {}
            }
        }
        let unknown = others.count() - spinning.len();
        if let Some(less_loaded) = less_loaded(here, &sys::processors(), &spinning, unknown) {
            sys::move_to(|other| other == less_loaded);
            self.note_processor();
        }
    }
}
