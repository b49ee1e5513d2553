//! The receiving half of a node: the rings that senders have used, polled in turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_engine::transport::PeerFault;

use super::ring::{Broken, Consumer};
use super::segment::Segment;

/// The receiving half of a [`super::Node`].
pub struct Inbox {
    pub(super) segment: Arc<Segment>,
    pub(super) own: usize,
    /// Rings that have been used, with the sender's local index.
    active: Vec<(usize, Consumer)>,
    pub(super) is_active: Vec<bool>,
    pub(super) announcements_seen: u32,
    pub(super) written_seen: u32,
    /// Index of the active ring that is looked at first; it moves, so that a busy ring does not starve the
    /// others.
    first: usize,
    pub(super) faults: Vec<PeerFault>,
}

impl Inbox {
    pub(super) fn new(segment: Arc<Segment>, own: usize) -> Self {
        let is_active = vec![false; segment.geometry().local_size];
        Self {
            segment,
            own,
            active: Vec::new(),
            is_active,
            announcements_seen: 0,
            written_seen: 0,
            first: 0,
            faults: Vec::new(),
        }
    }

    /// Hands at most `limit` arrived frames to `on_frame(sender, bytes)`, head and payload in one piece, and
    /// returns their number. The frames of a sender come in its order. `bytes` is the ring itself: valid
    /// during the call only, aligned to 4 bytes.
    #[inline]
    pub fn poll(&mut self, limit: usize, mut on_frame: impl FnMut(usize, &[u8])) -> usize {
        let announcements = self.segment.rank_state(self.own).announcements.load(Ordering::Acquire);
        if announcements != self.announcements_seen {
            self.discover(announcements);
        }
        let mut handled = 0;
        for turn in 0..self.active.len() {
            let mut at = self.first + turn;
            if at >= self.active.len() {
                at -= self.active.len();
            }
            let (peer, ring) = &mut self.active[at];
            loop {
                match ring.peek() {
                    Ok(None) => break,
                    Ok(Some(frame)) => on_frame(*peer, frame),
                    Err(broken) => {
                        self.discard(at, &broken);
                        return handled;
                    }
                }
                ring.release();
                handled += 1;
                if handled >= limit {
                    self.first = if at + 1 < self.active.len() { at + 1 } else { 0 };
                    return handled;
                }
            }
        }
        handled
    }

    /// Returns the bytes that this process has taken from a peer's ring.
    #[cold]
    pub(super) fn taken_from(&self, peer: usize) -> u64 {
        self.active.iter().find(|(sender, _)| *sender == peer).map_or(0, |(_, ring)| ring.taken())
    }

    /// Returns whether any ring has a frame, sequentially consistent: step 2 of the sleeping protocol.
    pub(super) fn is_pending(&mut self) -> bool {
        let announcements = self.segment.rank_state(self.own).announcements.load(Ordering::SeqCst);
        if announcements != self.announcements_seen {
            self.discover(announcements);
        }
        let written = self.segment.rank_state(self.own).written.load(Ordering::SeqCst);
        written != self.written_seen || self.active.iter().any(|(_, ring)| ring.is_pending())
    }

    /// Adds the rings that have been announced since the last look.
    #[cold]
    pub(super) fn discover(&mut self, announcements: u32) {
        self.announcements_seen = announcements;
        let rank_state = self.segment.rank_state(self.own);
        for sender in 0..self.is_active.len() {
            let announced = rank_state.announced[sender / 64].load(Ordering::SeqCst) >> (sender % 64) & 1 != 0;
            if announced && !self.is_active[sender] {
                self.is_active[sender] = true;
                self.active.push((sender, Consumer::new(self.segment.ring(self.own, sender))));
            }
        }
    }

    /// Removes a broken ring. Its `is_active` stays set, so it is not discovered again.
    #[cold]
    fn discard(&mut self, at: usize, broken: &Broken) {
        let (peer, _) = self.active.swap_remove(at);
        self.first = 0;
        self.faults.push(PeerFault { peer, reason: broken.to_string() });
    }
}
