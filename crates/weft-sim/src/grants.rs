//! What a receiver lets come: announced transfers, granted in the order of their announcement, a bounded number of bytes at a
//! time over all senders. However many send, about one budget waits in the switch: the cure for incast of Homa (Montazeri and
//! others, 2018) and of Weft's rendezvous.

use std::collections::VecDeque;
use std::ops::Range;

/// Parts of a budget that one grant may be: so that there is always one on its way.
const PARTS: u64 = 4;

/// What travels in messages beside the workload's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The sender has this region of bulk data.
    Announce(u32),
    /// The receiver wants these bytes of a region.
    Grant(u32, Range<u64>),
}

#[derive(Debug)]
struct Waiting {
    peer: usize,
    region: u32,
    left: Range<u64>,
}

/// What one process has granted and has still to grant.
#[derive(Debug)]
pub(crate) struct Grants {
    budget: u64,
    /// Granted and not arrived.
    outstanding: u64,
    waiting: VecDeque<Waiting>,
}

impl Grants {
    pub(crate) fn new(budget: u64) -> Self {
        Self { budget, outstanding: 0, waiting: VecDeque::new() }
    }

    /// A peer has so many bytes.
    pub(crate) fn announced(&mut self, peer: usize, region: u32, bytes: u64) {
        self.waiting.push_back(Waiting { peer, region, left: 0..bytes });
    }

    /// So many granted bytes have arrived.
    pub(crate) fn arrived(&mut self, bytes: u64) {
        self.outstanding -= bytes;
    }

    /// The next grant, and to whom it goes.
    pub(crate) fn next(&mut self) -> Option<(usize, Control)> {
        let waiting = self.waiting.front_mut()?;
        let Range { start, end } = waiting.left;
        let bytes = (end - start).min((self.budget / PARTS).max(1));
        if self.outstanding > 0 && self.outstanding + bytes > self.budget {
            return None;
        }
        self.outstanding += bytes;
        waiting.left.start += bytes;
        let granted = (waiting.peer, Control::Grant(waiting.region, start..start + bytes));
        if waiting.left.is_empty() {
            self.waiting.pop_front();
        }
        Some(granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_granted_in_parts_and_in_turn() {
        let mut grants = Grants::new(400);
        grants.announced(7, 0, 250);
        grants.announced(8, 1, 1000);
        let mut all = || std::iter::from_fn(|| grants.next()).collect::<Vec<_>>();
        let grant = |peer, region, range| (peer, Control::Grant(region, range));
        assert_eq!(
            all(),
            [grant(7, 0, 0..100), grant(7, 0, 100..200), grant(7, 0, 200..250), grant(8, 1, 0..100)],
            "350 of 400 bytes: no room for another part"
        );
        grants.arrived(50);
        assert_eq!(grants.next(), Some(grant(8, 1, 100..200)));
        assert_eq!(grants.next(), None);
    }

    #[test]
    fn the_smallest_budget_still_moves() {
        let mut grants = Grants::new(1);
        grants.announced(0, 0, 2);
        assert!(grants.next().is_some() && grants.next().is_none());
        grants.arrived(1);
        assert_eq!(grants.next(), Some((0, Control::Grant(0, 1..2))));
    }
}
