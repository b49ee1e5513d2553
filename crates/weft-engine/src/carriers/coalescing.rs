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

/// The number of frames in a row that a message of the program has followed, from which on the next one waits
/// for a message.
const FOLLOWED_MIN: u8 = 2;

/// A frame to a peer for which nobody waits: the word that its last message has arrived. Where programs
/// answer each message in the next call, the frame leaves with the answer.
#[derive(Default)]
pub(crate) struct Company {
    /// The number of such frames in a row that a message of the program has followed at once.
    followed: u8,
    /// The passes since the last one, until the next message; `None`: there is none.
    passes: Option<u8>,
}

impl Company {
    /// Notes that such a frame has been submitted.
    pub(crate) fn submitted(&mut self) {
        self.passes = Some(0);
    }

    /// Notes that a message of the program follows.
    pub(crate) fn joined(&mut self) {
        if self.passes.take().is_some() {
            self.followed = self.followed.saturating_add(1);
        }
    }

    /// Notes that a pass is about to send. Returns whether it leaves the frame to the next message: only one
    /// pass does so.
    pub(crate) fn waits(&mut self) -> bool {
        match &mut self.passes {
            Some(passes @ 0) => {
                *passes = 1;
                self.followed >= FOLLOWED_MIN
            }
            Some(_) => {
                (self.passes, self.followed) = (None, 0);
                false
            }
            None => false,
        }
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

    /// A program that answers each message, then one that computes.   Expect: the third frame waits, and the
    /// first one that no message follows leaves a pass later, and the next ones at once.
    #[test]
    fn a_frame_waits_for_the_message_that_has_always_followed() {
        let mut company = Company::default();
        assert!(!company.waits(), "there is none");
        for expected in [false, false, true, true] {
            company.submitted();
            assert_eq!(company.waits(), expected);
            company.joined();
            assert!(!company.waits());
        }
        for expected in [true, false, false] {
            company.submitted();
            assert_eq!(company.waits(), expected);
            assert!(!company.waits(), "the next pass sends it");
        }
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
