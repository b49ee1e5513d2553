//! Messages of a node that stand still, because their receiver is outside of MPI and takes no frames.
//!
//! The sender waits: messages that it has announced have not been fetched, or others wait for room. Mostly
//! the receiver comes back at once. If it does not, it computes, and its progress thread sleeps, since on a
//! node most messages need no help of the receiver. So the sender wakes that thread
//! ([`Sleeping::ring_for_progress`]).

use super::PointToPoint;
use crate::group::PeerId;
use crate::peers::Route;
use crate::transport::{Frames, Platform, Sleeping};

/// The number of looks in vain after which the receiver's thread is woken: 10 to 20 µs, if nothing else
/// happens. A thread that wakes costs the receiver's program about as much.
const LOOKS_BEFORE_RING: u32 = 200;
/// The number of rings after which the sender gives up until the receiver takes a frame. One ring is enough
/// for a thread that is there.
const RINGS_MAX: u32 = 3;

/// The look at such a receiver.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// The receiver, by its local rank, and the bytes that it had taken.
    receiver: Option<(usize, u64)>,
    /// The looks since the last ring.
    looks: u32,
    rings: u32,
}

impl Stalls {
    /// Notes the `receiver` for which messages of this process stand still, with the bytes that it has taken,
    /// or that there is none. Returns whether its progress thread is to be woken.
    fn note(&mut self, receiver: Option<(usize, u64)>) -> bool {
        if receiver.is_none() || self.receiver != receiver {
            *self = Self { receiver, ..Self::default() };
            return false;
        }
        self.looks += u32::from(self.looks_on());
        let rings = self.looks == LOOKS_BEFORE_RING;
        if rings {
            (self.looks, self.rings) = (0, self.rings + 1);
        }
        rings
    }

    /// Returns whether a further look may wake a thread, though nothing arrives until then.
    pub(super) fn looks_on(&self) -> bool {
        self.receiver.is_some() && self.rings < RINGS_MAX
    }
}

impl<P: Platform> PointToPoint<P> {
    /// Looks for a receiver of this node that is outside of MPI while messages to it stand still, and wakes
    /// its progress thread when it has been outside for a while.
    #[inline]
    pub(super) fn look_for_stalls(&mut self) {
        if self.single_copy.may_stand_still {
            self.look_at_receivers();
        }
    }

    #[inline(never)]
    fn look_at_receivers(&mut self) {
        self.is_full_on_node = self.is_full_on_node && self.is_queued_on_node();
        self.single_copy.may_stand_still = self.is_full_on_node || self.has_offers();
        let near = self.peers.near.by_local_rank.iter().filter(|_| self.is_full_on_node);
        let queued = near.copied().filter(|peer| !self.peers[*peer].pending.is_empty());
        let stalled = self.offers_to().chain(queued).find_map(|peer| self.taken_while_outside(peer));
        if self.stalls.note(stalled)
            && let (Some((local, _)), Some(node)) = (stalled, &mut self.node)
        {
            node.ring_for_progress(local);
        }
    }

    /// The local rank of a receiver that is outside of MPI and has not taken all frames of this process, and
    /// the bytes that it has taken.
    fn taken_while_outside(&self, peer: PeerId) -> Option<(usize, u64)> {
        let Route::Shared(local) = self.peers[peer].route else { return None };
        if self.is_inside_mpi(peer) {
            return None;
        }
        Some((local, self.node.as_ref()?.taken_by(local)?))
    }

    /// Returns whether messages to neighbours move on only while this process makes passes: they wait for
    /// room, or belong to an announced window, for which the receiver may have asked at any time.
    #[inline(never)]
    pub(super) fn stands_still_without_passes(&self) -> bool {
        self.offers_window() || (self.is_full_on_node && self.is_queued_on_node())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver takes nothing for a long time, then takes a frame, and takes nothing again.   Expect: its
    /// thread is woken a few times, and again after the frame. A receiver that takes frames now and then is
    /// left alone.
    #[test]
    fn a_receiver_that_takes_nothing_is_woken_a_few_times() {
        let mut stalls = Stalls::default();
        let mut rings = |taken: u64, looks: u32| (0..looks).filter(|_| stalls.note(Some((1, taken)))).count();
        assert_eq!([rings(0, LOOKS_BEFORE_RING), rings(0, 1)], [0, 1]);
        assert_eq!(rings(0, 100 * LOOKS_BEFORE_RING), RINGS_MAX as usize - 1);
        assert_eq!(rings(64, 100 * LOOKS_BEFORE_RING), RINGS_MAX as usize);
        assert_eq!((2..100).map(|frame| rings(64 * frame, LOOKS_BEFORE_RING)).sum::<usize>(), 0);
        assert!(stalls.looks_on());
        assert!(!stalls.note(None) && !stalls.looks_on());
    }
}
