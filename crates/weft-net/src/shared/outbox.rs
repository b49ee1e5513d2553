//! The sending half of a node: a ring to each peer, made when it is first needed, and the doorbells of
//! sleeping peers.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_engine::transport::{PeerFault, SleepMode};

use super::doorbell::{Bell, Doorbell, Key, Rung};
use super::futex;
use super::ring::Producer;
use super::segment::Segment;

/// The sending half of a [`super::Node`].
pub struct Outbox {
    pub(super) segment: Arc<Segment>,
    pub(super) own: usize,
    pub(super) rings: Vec<Ring>,
    pub(super) bell: Arc<Doorbell>,
    /// Bells of the peers that this rank has rung.
    bells: Vec<Option<Bell>>,
    pub(super) faults: Vec<PeerFault>,
    /// The doorbell that the progress thread always watches, once there is one.
    pub(super) progress_bell: Option<Doorbell>,
}

/// The ring to a peer.
pub(super) enum Ring {
    /// The ring was never used: the peer does not look at it yet.
    Unused,
    /// The ring is in use.
    Open(Producer),
    /// The ring is broken; the fault has been recorded.
    Closed,
}

impl Outbox {
    pub(super) fn new(segment: Arc<Segment>, own: usize, bell: Arc<Doorbell>) -> Self {
        let size = segment.geometry().local_size;
        let rings = (0..size).map(|_| Ring::Unused).collect();
        let bells = (0..size).map(|_| None).collect();
        Self { segment, own, rings, bell, bells, faults: Vec::new(), progress_bell: None }
    }

    /// Sends a frame to local rank `to` (which may be this rank), and wakes the peer if it sleeps. `fill`
    /// writes the `len` bytes of payload where the receiver will read them. `fill` is called at most once,
    /// and not at all when the result is false. It must write all `len` bytes: bytes that it does not write
    /// are those of an earlier frame. `answers` returns the bytes that this process has taken from a peer's
    /// ring to it. Returns false when the ring is full (poll, then try again) or the peer has a fault.
    ///
    /// # Panics
    /// When `to` is not a local rank, or head and payload together exceed [`super::Frames::frame_max`].
    #[inline]
    pub(super) fn try_send_with(
        &mut self,
        to: usize,
        head: &[u8],
        len: usize,
        answers: impl FnOnce(usize) -> u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        if let Ring::Unused = self.rings[to] {
            self.open(to);
        }
        let Ring::Open(producer) = &mut self.rings[to] else { return false };
        match producer.push(head, len, || answers(to), fill) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(broken) => {
                self.close(to, broken.to_string());
                return false;
            }
        }
        if self.segment.rank_state(to).sleeping.load(Ordering::SeqCst) != 0 {
            self.wake(to);
        }
        true
    }

    /// Returns whether so many bytes have room at present, in frames of 4 KiB to `frame_max` bytes each.
    pub(super) fn has_room(&mut self, to: usize, bytes: u64, frame_max: u64) -> bool {
        match &mut self.rings[to] {
            // The next frame finds out that a ring is broken.
            Ring::Open(producer) => producer.has_room(bytes, frame_max) == Ok(true),
            Ring::Unused | Ring::Closed => false,
        }
    }

    /// The bytes that a peer has taken of this rank's ring to it; `None`: it has taken all frames.
    pub(super) fn taken_by(&self, to: usize) -> Option<u64> {
        match &self.rings[to] {
            Ring::Open(producer) => producer.taken(),
            Ring::Unused | Ring::Closed => None,
        }
    }

    /// Makes the doorbell that this rank's progress thread always watches, and returns its descriptor.
    pub(super) fn make_progress_bell(&mut self) -> Option<RawFd> {
        if self.progress_bell.is_none() {
            let bell = Doorbell::hang().ok()?;
            bell.key().publish(&self.segment.rank_state(self.own).progress_bell);
            self.progress_bell = Some(bell);
        }
        self.progress_bell.as_ref().map(Doorbell::fd)
    }

    /// Wakes the thread of a peer that makes progress while its program computes, if there is one. It also
    /// finds out whether the peer lives, which others do better: the answer does not count.
    pub(super) fn ring_for_progress(&mut self, to: usize) {
        if let Some(key) = Key::published(&self.segment.rank_state(to).progress_bell)
            && let Ok(bell) = Bell::new(key)
        {
            self.bell.ring(&bell);
        }
    }

    /// Reserves the ring, and tells the peer to look at it from now on.
    #[cold]
    pub(super) fn open(&mut self, to: usize) {
        if let Err(cause) = self.segment.reserve_ring(to, self.own) {
            return self.close(to, format!("cannot be reached: no memory for its shared ring: {cause}"));
        }
        self.rings[to] = Ring::Open(Producer::new(self.segment.ring(to, self.own)));
        let rank_state = self.segment.rank_state(to);
        rank_state.announced[self.own / 64].fetch_or(1 << (self.own % 64), Ordering::SeqCst);
        rank_state.announcements.fetch_add(1, Ordering::SeqCst);
    }

    #[cold]
    pub(super) fn close(&mut self, to: usize, reason: String) {
        self.rings[to] = Ring::Closed;
        self.faults.push(PeerFault { peer: to, reason });
    }

    /// Wakes the peer if it sleeps: step b of the sleeping protocol.
    #[cold]
    pub(super) fn wake(&mut self, to: usize) {
        let rest = self.segment.take_sleep(to);
        if rest == 0 {
            return;
        }
        if rest == SleepMode::Futex as u32 {
            // If no rank waits in the kernel, the peer is just falling asleep, and the kernel will refuse the
            // sleep.
            return futex::wake(&self.segment.rank_state(to).sleeping);
        }
        match self.ring(to) {
            Rung::Yes => {}
            Rung::Nobody => self.close(to, "has died: nobody answers its doorbell".into()),
            Rung::Failed(code) => {
                let cause = std::io::Error::from_raw_os_error(code);
                self.close(to, format!("cannot be woken: its doorbell fails: {cause}"));
            }
        }
    }

    fn ring(&mut self, to: usize) -> Rung {
        let bell = match &mut self.bells[to] {
            Some(bell) => bell,
            unknown => {
                // The peer sleeps, so it has joined.
                let Some(key) = Key::published(&self.segment.rank_state(to).bell) else { return Rung::Nobody };
                match Bell::new(key) {
                    Ok(bell) => unknown.insert(bell),
                    Err(cause) => return Rung::Failed(cause.raw_os_error().unwrap_or(0)),
                }
            }
        };
        self.bell.ring(bell)
    }
}
