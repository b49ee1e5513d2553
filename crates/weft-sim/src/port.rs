//! A direction of a cable: the queue in front of it, its shaper, and the times at which it is cut.

use crate::topology::{Bucket, Link, Node, frame_bytes};
use std::collections::VecDeque;
use std::ops::Range;
use weft_core::time::{Duration, Instant};

/// A transmitter. Packets leave in the order of arrival, so that the fate of a packet is known when it
/// arrives.
#[derive(Debug)]
pub struct Port {
    link: Link,
    /// The node where the cable ends.
    pub leads_to: Node,
    free_at: Instant,
    /// Packets that have not left: the time when each will have left, and its bytes on the wire.
    waiting: VecDeque<(Instant, u64)>,
    waiting_bytes: u64,
    /// The time when the bucket was, or would have been, empty.
    bucket_empty_at: Instant,
    /// The times when the cable is cut, in order.
    cuts: Vec<Range<Instant>>,
    /// The most bytes that waited.
    pub deepest_bytes: u64,
}

/// The fate of a packet that was offered to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The packet will be at the other end at `at`, and will have left this port at `left`.
    Arrives {
        /// The time of arrival at the other end.
        at: Instant,
        /// The time when the packet has left the queue.
        left: Instant,
        /// Says whether more than `mark_bytes` waited.
        marked: bool,
    },
    /// The queue had no room.
    Full,
    /// The cable is cut.
    Cut,
}

impl Port {
    /// Creates an idle port.
    pub fn new(link: Link, leads_to: Node, cuts: Vec<Range<Instant>>) -> Self {
        Self {
            link,
            leads_to,
            free_at: Instant(0),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            bucket_empty_at: Instant(0),
            cuts,
            deepest_bytes: 0,
        }
    }

    /// The bytes that wait, including the packet that is leaving.
    pub fn waiting_bytes(&mut self, now: Instant) -> u64 {
        while let Some(&(left, bytes)) = self.waiting.front() {
            if left > now {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= bytes;
        }
        self.waiting_bytes
    }

    /// The time when at most `bytes` will wait, if no packet is added.
    pub fn waits_at_most(&mut self, now: Instant, bytes: u64) -> Instant {
        let mut left = self.waiting_bytes(now);
        let mut at = now;
        for &(leaves, size) in &self.waiting {
            if left <= bytes {
                break;
            }
            left -= size;
            at = leaves;
        }
        at
    }

    /// Returns whether the cable has been cut for at least `since`.
    pub fn is_cut_since(&self, now: Instant, since: Duration) -> bool {
        self.cuts.iter().any(|cut| cut.contains(&now) && now.since(cut.start) >= since)
    }

    /// Offers a datagram of `bytes` bytes to the port; at most `room` bytes may wait in all.
    pub fn offer(&mut self, now: Instant, bytes: u64, room: u64) -> Offer {
        if self.is_cut_since(now, Duration(0)) {
            return Offer::Cut;
        }
        let size = frame_bytes(bytes);
        let before = self.waiting_bytes(now);
        let room = self.link.bucket.map_or(room, |bucket| room.min(bucket.limit_bytes));
        if before + size > room || self.link.bucket.is_some_and(|bucket| size > bucket.burst_bytes) {
            return Offer::Full;
        }
        let begin = self.begin(now, size);
        let left = begin + self.link.occupancy(bytes);
        self.free_at = left;
        self.waiting.push_back((left, size));
        self.waiting_bytes += size;
        self.deepest_bytes = self.deepest_bytes.max(self.waiting_bytes);
        if self.cuts.iter().any(|cut| cut.start < left && begin < cut.end) {
            return Offer::Cut;
        }
        let marked = self.link.mark_bytes.is_some_and(|limit| before > limit);
        Offer::Arrives { at: left + self.link.propagation, left, marked }
    }

    /// The time when a packet's first bit leaves: behind the waiting packets, and when the bucket has enough
    /// bytes.
    fn begin(&mut self, now: Instant, size: u64) -> Instant {
        let ready = self.free_at.max(now);
        let Some(Bucket { rate, burst_bytes, .. }) = self.link.bucket else { return ready };
        let refill = |bytes: u64| Duration((bytes * 8000).div_ceil(rate));
        let begin = ready.max(self.bucket_empty_at + refill(size));
        // A full bucket is a bucket that was empty a whole burst ago; it never holds more.
        self.bucket_empty_at = self.bucket_empty_at.max(begin - refill(burst_bytes)) + refill(size);
        begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(link: Link) -> Port {
        Port::new(link, Node::Host(0), Vec::new())
    }

    fn left(offer: Offer) -> u64 {
        match offer {
            Offer::Arrives { left, .. } => left.0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn packets_queue_up_and_the_last_does_not_fit() {
        // 1184 + 66 bytes at 10 Gb/s are one microsecond.
        let mut port = port(Link { mark_bytes: Some(2000), ..Link::default() });
        let offers = [0; 4].map(|_| port.offer(Instant(1_000_000), 1184, 4000));
        let at = |left, marked| Offer::Arrives { at: Instant(left + 4_500), left: Instant(left), marked };
        assert_eq!(offers[..3], [at(1_001_000, false), at(1_002_000, false), at(1_003_000, true)]);
        assert_eq!(offers[3], Offer::Full);
        assert_eq!(port.waiting_bytes(Instant(1_001_999)), 2500);
        assert_eq!(port.waits_at_most(Instant(1_001_999), 1250), Instant(1_002_000));
        assert_eq!((port.waiting_bytes(Instant(1_003_000)), port.deepest_bytes), (0, 3750));
    }

    #[test]
    fn a_bucket_lets_a_burst_through_and_then_its_rate() {
        let bucket = Bucket { rate: 1000, burst_bytes: 5000, limit_bytes: 1 << 20 };
        let mut port = port(Link { bucket: Some(bucket), ..Link::default() });
        let start = 1_000_000_000;
        let times: Vec<u64> = (0..8).map(|_| left(port.offer(Instant(start), 1184, u64::MAX)) - start).collect();
        // Four packets are the burst, at the link's rate; the others need ten microseconds each.
        assert_eq!(times[..4], [1_000, 2_000, 3_000, 4_000]);
        assert_eq!(times[4..], [11_000, 21_000, 31_000, 41_000]);
        // After a rest the bucket is full again, and no fuller.
        let rest = start + 1_000_000_000;
        let times: Vec<u64> = (0..5).map(|_| left(port.offer(Instant(rest), 1184, u64::MAX)) - rest).collect();
        assert_eq!(times, [1_000, 2_000, 3_000, 4_000, 11_000]);
    }

    #[test]
    fn a_bucket_has_a_limit_of_its_own_and_passes_nothing_larger_than_itself() {
        let bucket = Bucket { rate: 1000, burst_bytes: 1250, limit_bytes: 2500 };
        let mut port = port(Link { bucket: Some(bucket), ..Link::default() });
        assert_eq!(port.offer(Instant(1_000_000), 1185, u64::MAX), Offer::Full);
        assert!(matches!(port.offer(Instant(1_000_000), 1184, u64::MAX), Offer::Arrives { .. }));
        assert!(matches!(port.offer(Instant(1_000_000), 1184, u64::MAX), Offer::Arrives { .. }));
        assert_eq!(port.offer(Instant(1_000_000), 1184, u64::MAX), Offer::Full);
    }

    #[test]
    fn a_cut_takes_what_is_on_the_wire_and_what_comes_after() {
        let cut = Instant(1_500)..Instant(10_000);
        let mut port = Port::new(Link::default(), Node::Host(0), vec![cut]);
        assert_eq!(left(port.offer(Instant(0), 1184, u64::MAX)), 1_000);
        assert_eq!(port.offer(Instant(0), 1184, u64::MAX), Offer::Cut, "it would leave from 1 to 2 us");
        assert_eq!(port.offer(Instant(9_999), 1184, u64::MAX), Offer::Cut);
        assert_eq!(left(port.offer(Instant(10_000), 1184, u64::MAX)), 11_000);
        assert!(
            port.is_cut_since(Instant(2_500), Duration(1_000)) && !port.is_cut_since(Instant(2_499), Duration(1_000))
        );
    }
}
