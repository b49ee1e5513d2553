//! Small messages to one peer that wait for others, so that they share a packet.
//!
//! `engine/network.rs` asks for messages to one peer, and `engine/multicast/sending.rs` for messages to a
//! group.

use weft_core::time::{Duration, Instant};

/// The time for which a small message waits for others while the program goes on calling MPI.
const COALESCE_TIME: Duration = Duration::from_micros(10);
/// The time for which a small message waits for others while the program calls no MPI: then the progress
/// thread sends the message.
pub(crate) const COALESCE_TIME_MAX: Duration = Duration::from_micros(100);

/// The care for messages that wait for others while no call of MPI comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attendance {
    /// Nothing sends them: no message may wait.
    #[default]
    None,
    /// A thread sends them in time.
    Prompt,
    /// Ranks take turns on processors, so the thread that sends them waits for a processor first.
    Late,
}

impl Attendance {
    /// The number of small messages of a burst to one peer that leave at once although others are on their
    /// way. A burst lies between two waiting calls; its later messages share packets.
    ///
    /// Two ranks that share a dimension of a grid send each other two messages. The second one would wait for
    /// the thread, where the program computes and finds that its receive is complete.
    pub(crate) const fn leave_at_once(self) -> u32 {
        match self {
            Self::None => u32::MAX,
            Self::Prompt => 1,
            Self::Late => 2,
        }
    }
}

/// The share of a packet up to which messages wait until they fill one packet. Longer messages wait until
/// they fill a train: a packet for each few of them would cost a system call each.
const SHORT_SHARE: usize = 16;

/// The most bytes that may wait when messages of `length` bytes follow each other, where a packet takes
/// `packet` bytes of messages, and a train `train`.
pub(crate) fn coalesced_bytes_max(length: usize, packet: usize, train: usize) -> usize {
    if length <= packet / SHORT_SHARE { packet } else { train }
}

/// Small messages to one peer that wait for others to share their packet.
///
/// The first messages of a burst leave at once. All messages leave when the program waits.
#[derive(Default)]
pub(crate) struct Coalescing {
    /// The number of messages sent since the program waited last.
    burst: u32,
    /// The time since when a message waits.
    since: Option<Instant>,
}

impl Coalescing {
    /// Counts one more message; returns whether it may wait.
    pub(crate) fn joins(&mut self, attendance: Attendance, now: impl FnOnce() -> Instant) -> bool {
        self.burst += 1;
        if self.burst <= attendance.leave_at_once() {
            return false;
        }
        let now = now();
        now.since(*self.since.get_or_insert(now)) < COALESCE_TIME
    }

    /// Notes that all messages leave. `waits` says that the program does nothing else meanwhile.
    pub(crate) fn end(&mut self, waits: bool) {
        self.since = None;
        if waits {
            self.burst = 0;
        }
    }

    /// The time at which the messages that wait must leave at the latest.
    pub(crate) fn ends(&self) -> Option<Instant> {
        self.since.map(|since| since + COALESCE_TIME_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_fill_a_packet_and_longer_ones_a_train() {
        let most = |length| coalesced_bytes_max(length, 1352, 64_000);
        assert_eq!([1, 84, 85, 1352, 1353, 4000].map(most), [1352, 1352, 64_000, 64_000, 64_000, 64_000]);
    }

    #[test]
    fn the_first_messages_of_a_burst_leave_at_once_and_a_wait_ends_the_burst() {
        for (attendance, at_once) in [(Attendance::Prompt, 1), (Attendance::Late, 2)] {
            let mut coalescing = Coalescing::default();
            let joins = |coalescing: &mut Coalescing| coalescing.joins(attendance, || Instant(7));
            for _ in 0..2 {
                assert!((0..at_once).all(|_| !joins(&mut coalescing)) && coalescing.ends().is_none());
                assert!(joins(&mut coalescing) && coalescing.ends().is_some());
                // A full packet leaves.   Expect: the burst goes on.
                coalescing.end(false);
                assert!(coalescing.ends().is_none());
                assert!(joins(&mut coalescing) && coalescing.ends().is_some());
                coalescing.end(true);
            }
        }
        let mut alone = Coalescing::default();
        assert!((0..100).all(|_| !alone.joins(Attendance::None, || Instant(7))));
    }
}
