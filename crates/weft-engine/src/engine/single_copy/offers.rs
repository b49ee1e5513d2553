//! The sends that are announced in a ring and may still be written by their sender, by receiver.
//!
//! A process with a window of messages under way makes a pass for every few of them. So a pass that finds
//! nothing new looks at the receiver's words and at the oldest offer only, however many offers there are.

use std::collections::VecDeque;

use crate::group::PeerId;

/// A send that is announced in the ring and may still be written by this process.
pub(super) struct Offer {
    pub(super) handle: usize,
    /// The number of the announcement.
    pub(super) number: u32,
    /// The number of posted receives on the receiver's table at the last look; `None`: there was no look.
    pub(super) posted: Option<u32>,
}

/// The number of looks for which the sender of exchanged windows leaves them to a receiver that is outside of
/// MPI: it usually comes to its wait at once.
const EXCHANGE_LOOKS: u32 = 100;
/// The least number of offers to one peer of which those that are over are forgotten.
const CROWD_MIN: usize = 32;

/// The offers to one peer, the oldest first; at least one. Behind an offer that stays, some may be over.
pub(super) struct OffersTo {
    pub(super) peer: PeerId,
    pub(super) offers: VecDeque<Offer>,
    /// The number of posted receives at which all of these offers have been looked at.
    pub(super) looked_at: Option<u32>,
    /// The number of looks that found the receiver of exchanged windows outside of MPI, since the last offer.
    looks: u32,
    /// Set if the next look may write exchanged windows though nothing has arrived until then.
    looks_on: bool,
    /// The number of offers at which all of them are looked at next, to forget those that are over.
    crowd: usize,
}

impl OffersTo {
    /// Returns whether there are so many offers that those that are over should be forgotten.
    pub(super) fn is_crowded(&self) -> bool {
        self.offers.len() >= self.crowd
    }

    /// Notes a look at these offers. `may_wait` says that they belong to exchanged windows, and that their
    /// receiver is outside of MPI. Returns whether they are left to the receiver for now.
    pub(super) fn is_left_to_receiver(&mut self, may_wait: bool) -> bool {
        self.looks_on = may_wait && self.looks < EXCHANGE_LOOKS;
        self.looks += u32::from(self.looks_on);
        self.looks_on
    }

    /// Notes that all offers that are over have been forgotten.
    pub(super) fn note_cleared(&mut self) {
        self.crowd = (2 * self.offers.len()).max(CROWD_MIN);
    }
}

/// All offers of this process.
#[derive(Default)]
pub(super) struct Offers {
    to: Vec<OffersTo>,
}

impl Offers {
    /// Adds an offer, the newest to its peer.
    pub(super) fn push(&mut self, peer: PeerId, handle: usize, number: u32) {
        let offer = Offer { handle, number, posted: None };
        match self.to.iter_mut().find(|to| to.peer == peer) {
            Some(to) => {
                to.offers.push_back(offer);
                to.looked_at = None;
                to.looks = 0;
            }
            None => self.to.push(OffersTo {
                peer,
                offers: [offer].into(),
                looked_at: None,
                looks: 0,
                looks_on: false,
                crowd: CROWD_MIN,
            }),
        }
    }

    /// Returns whether one of the offers to `peer` is open, as `is_open` says of a handle.
    pub(super) fn has_open(&self, peer: PeerId, is_open: impl Fn(usize) -> bool) -> bool {
        let to_peer = self.to.iter().find(|to| to.peer == peer);
        to_peer.is_some_and(|to| to.offers.iter().rev().any(|offer| is_open(offer.handle)))
    }

    /// The receiver at this place.
    pub(super) fn peer(&self, at: usize) -> Option<PeerId> {
        self.to.get(at).map(|to| to.peer)
    }

    /// Returns whether the next look may write a message though nothing has arrived until then.
    pub(super) fn look_on(&self) -> bool {
        self.to.iter().any(|to| to.looks_on)
    }

    /// Returns whether there is no offer. Offers of which the next pass finds that they are over still count.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.to.is_empty()
    }

    /// Returns whether `is` says so of one of the offers, of its peer and its handle.
    pub(super) fn any(&self, mut is: impl FnMut(PeerId, usize) -> bool) -> bool {
        self.to.iter().any(|to| to.offers.iter().any(|offer| is(to.peer, offer.handle)))
    }

    /// Forgets the offer with this handle, if there is one.
    pub(super) fn remove(&mut self, handle: usize) {
        self.retain(|to| {
            to.offers.retain(|offer| offer.handle != handle);
            !to.offers.is_empty()
        });
    }

    /// Forgets a peer that is gone for good.
    pub(super) fn forget_peer(&mut self, peer: PeerId) {
        self.to.retain(|to| to.peer != peer);
    }

    /// Keeps the peers of which `keeps` says so.
    pub(super) fn retain(&mut self, keeps: impl FnMut(&mut OffersTo) -> bool) {
        self.to.retain_mut(keeps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers to two peers, one of which is removed, and one of whose peers goes.   Expect: each peer has its
    /// own, and none is left at the end.
    #[test]
    fn each_peer_has_its_own_offers() {
        let [near, far] = [1, 2].map(|index| PeerId::new(index, 0));
        let mut offers = Offers::default();
        for (peer, handle) in [(near, 10), (far, 20), (near, 11)] {
            offers.push(peer, handle, 0);
        }
        assert!(offers.has_open(near, |handle| handle == 10) && !offers.has_open(far, |handle| handle == 10));
        assert!(offers.any(|peer, handle| (peer, handle) == (far, 20)));
        offers.remove(20);
        assert!(!offers.has_open(far, |_| true));
        offers.remove(10);
        assert!(offers.has_open(near, |_| true) && !offers.is_empty());
        offers.forget_peer(near);
        assert!(offers.is_empty());
    }

    /// The first of many offers stays, and all others are over at once.   Expect: few of them are kept, and
    /// hardly ever are all looked at.
    #[test]
    fn offers_that_are_over_do_not_gather_behind_one_that_stays() {
        let mut offers = Offers::default();
        let (mut most, mut clearings) = (0, 0);
        for handle in 0..10_000 {
            offers.push(PeerId::new(1, 0), handle, 0);
            offers.retain(|to| {
                if to.is_crowded() {
                    to.offers.retain(|offer| offer.handle == 0);
                    to.note_cleared();
                    clearings += 1;
                }
                most = most.max(to.offers.len());
                true
            });
        }
        assert!(most < 2 * CROWD_MIN && clearings < 10_000 / (CROWD_MIN / 2), "{most} kept, {clearings} clearings");
    }
}
