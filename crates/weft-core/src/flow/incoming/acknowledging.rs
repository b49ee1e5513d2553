//! The acknowledgements that are owed: their time, their cause, and their content (the map of arrived
//! packets, and an echo).

use super::Incoming;
use crate::flow::ring::Ring;
use crate::flow::settings::{ANSWER_TIME, AckScheme};
use crate::time::{Duration, Instant};
use crate::wire::{Echo, Echoed, MAP_WORDS_MAX, Number, RunWriter, SELECTIVE_PACKETS};

/// The time at which the next acknowledgement must leave if no packet takes it along before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPending {
    No,
    By(Instant),
    Now,
}

/// The cause for which an acknowledgement is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flow) enum Cause {
    /// The acknowledgement has been deferred long enough.
    Delay,
    /// Enough packets have arrived.
    Count,
    /// A packet was late, sent again, or left a gap.
    Disorder,
    /// The packet had arrived before: the sender does not know.
    Duplicate,
    /// The sender has asked for it, or a range of bulk data is complete.
    Request,
    /// A probe is answered.
    Probe,
    /// A mark of congestion is passed on.
    Mark,
}

/// The newest packet that has not been echoed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingEcho {
    pub(super) of: Echoed,
    pub(super) at: Instant,
    /// The longest time for which the packet may have waited before.
    pub(super) host_delay: Duration,
}

impl Incoming {
    /// Grants a sender of messages an acknowledgement: it has asked, or should get one.
    pub(in crate::flow) fn asked(&mut self, now: Instant) {
        if self.ack_pending != AckPending::Now {
            self.defer(now + ANSWER_TIME, Cause::Request);
        }
    }

    /// Makes an acknowledgement leave at this time at the latest.
    pub(super) fn defer(&mut self, at: Instant, cause: Cause) {
        if self.ack_deadline().is_none_or(|due| at < due) {
            (self.ack_pending, self.cause) = (AckPending::By(at), cause);
        }
    }

    /// Notes that a packet came with a mark of congestion: the sender should know at once.
    pub(in crate::flow) fn marked(&mut self) {
        self.note_mark();
        self.ack_now(Cause::Mark);
    }

    /// Makes the next acknowledgement report a mark of congestion.
    pub(in crate::flow) fn note_mark(&mut self) {
        self.marked = true;
    }

    /// Returns whether there is a mark to report; each mark is reported once.
    pub(in crate::flow) fn take_mark(&mut self) -> bool {
        core::mem::take(&mut self.marked)
    }

    /// Returns whether an acknowledgement should leave before anything else.
    pub(in crate::flow) fn is_urgent(&self) -> bool {
        self.ack_pending == AckPending::Now
    }

    /// Notes a probe, which is answered at once; its echo takes precedence.
    pub(in crate::flow) fn probed(&mut self, now: Instant, probe: Number, host_delay: Duration) {
        self.pending_echo = Some(PendingEcho { of: Echoed::Probe(probe), at: now, host_delay });
        self.ack_now(Cause::Probe);
    }

    /// Makes an acknowledgement leave as soon as possible; the first cause stands.
    pub(in crate::flow) fn ack_now(&mut self, cause: Cause) {
        if self.ack_pending != AckPending::Now {
            (self.ack_pending, self.cause) = (AckPending::Now, cause);
        }
    }

    /// The cause of the acknowledgement that is owed.
    pub(in crate::flow) const fn cause(&self) -> Cause {
        self.cause
    }

    /// The first packet that is missing, and the map of those after it.
    pub(in crate::flow) fn state(&self) -> (Number, u64) {
        let expected = self.expected();
        (expected, self.arrived.as_ref().map_or(0, |arrived| arrived.bits_from(expected.plus(1))))
    }

    /// Returns whether packets have arrived beyond the selective bits, and the sender should know at once.
    pub(in crate::flow) fn wants_map(&self) -> bool {
        self.ack_pending == AckPending::Now && self.map_words() > 0
    }

    /// Words of map needed to report all arrivals.
    fn map_words(&self) -> usize {
        let first = self.expected().plus(SELECTIVE_PACKETS);
        match self.horizon.since(first) {
            beyond @ 1.. => (beyond as usize + first.0 as usize % 64).div_ceil(64),
            _ => 0,
        }
    }

    /// Writes all of the map beyond the selective bits that fits; returns its length in bytes.
    pub(in crate::flow) fn write_map(&self, out: &mut [u8]) -> usize {
        let Some(arrived) = &self.arrived else { return 0 };
        let (needed, most) = (self.map_words(), MAP_WORDS_MAX.min(out.len() / 8));
        if needed > most {
            let (told, length) = self.write_runs(arrived, out);
            if told as usize > 64 * most {
                return length;
            }
        }
        self.write_words(arrived, needed.min(most), out)
    }

    /// Writes runs from the oldest packet on, so that no arrived packet within their reach seems missing.
    /// Returns the number of packets that they cover, and their length in bytes.
    fn write_runs(&self, arrived: &Ring, out: &mut [u8]) -> (u32, usize) {
        let first = self.expected().plus(SELECTIVE_PACKETS);
        let all = self.horizon.since(first).max(0) as u32;
        let mut writer = RunWriter::new(out);
        let mut told = 0;
        while told < all {
            let missing =
                if arrived.has(first.plus(told)) { 0 } else { arrived.alike_from(first.plus(told), all - told) };
            let here = arrived.alike_from(first.plus(told + missing), all - told - missing);
            if !writer.run(missing, here) {
                break;
            }
            told += missing + here;
        }
        (told, writer.finish())
    }

    fn write_words(&self, arrived: &Ring, words: usize, out: &mut [u8]) -> usize {
        let first = self.expected().plus(SELECTIVE_PACKETS);
        for (i, word) in out.chunks_exact_mut(8).take(words).enumerate() {
            word.copy_from_slice(&arrived.word(first.plus(64 * i as u32)).to_le_bytes());
        }
        words * 8
    }

    /// Returns whether there is a new packet to echo.
    pub(in crate::flow) fn has_echo(&self) -> bool {
        self.pending_echo.is_some()
    }

    /// The echo for a packet that leaves now, if there is a new packet to echo.
    pub(in crate::flow) fn take_echo(&mut self, now: Instant) -> Option<Echo> {
        self.pending_echo.take().map(|echo| Echo {
            of: echo.of,
            hold: Some(now.since(echo.at)),
            host_delay: echo.host_delay,
        })
    }

    /// Notes that an acknowledgement has left with messages or data.
    pub(in crate::flow) fn acknowledged(&mut self) {
        // The map that had no room in the other packet goes on its own.
        if !self.wants_map() {
            self.unacknowledged = 0;
            self.ack_pending = AckPending::No;
        }
    }

    /// Notes that an acknowledgement has left on its own.
    pub(in crate::flow) fn acknowledged_alone(&mut self, scheme: AckScheme) {
        let more = scheme == AckScheme::EveryPacket && self.unacknowledged > 1;
        self.unacknowledged = if more { self.unacknowledged - 1 } else { 0 };
        self.ack_pending = if more { AckPending::Now } else { AckPending::No };
    }

    /// Returns whether an acknowledgement is owed, now or later.
    pub(in crate::flow) fn is_ack_pending(&self) -> bool {
        self.ack_pending != AckPending::No
    }

    /// The time at which an acknowledgement must leave; a time in the past means now.
    pub(in crate::flow) fn ack_deadline(&self) -> Option<Instant> {
        match self.ack_pending {
            AckPending::No => None,
            AckPending::By(at) => Some(at),
            AckPending::Now => Some(Instant(0)),
        }
    }
}
