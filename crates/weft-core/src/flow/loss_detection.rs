//! The proofs that a packet is lost (packet and time thresholds, answered probes; RFC 9002 §6.1) or that a
//! peer has failed, and the wait for a peer before the next probe (its probe timeout, RFC 9002 §6.2).

use super::settings::{REORDER_MEMORY, REORDER_PACKETS, REORDER_PACKETS_MAX, Settings};
use crate::time::{Duration, Instant};
use crate::wire::Number;

/// The reason for which a packet is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossCause {
    /// Later packets have arrived.
    Gap,
    /// A later probe has arrived.
    Probe,
    /// The driver has given its path up.
    Path,
    /// The peer misses the packet after it had reported it.
    Denial,
}

/// The extent to which packets overtake each other on this path (after RFC 8985 §6.2: a proof widens it,
/// resends without a proof narrow it).
#[derive(Debug)]
pub(super) struct Reordering {
    packets: u32,
    /// Resends since the last proof.
    unproved: u32,
}

impl Reordering {
    pub(super) const fn new() -> Self {
        Self { packets: REORDER_PACKETS, unproved: 0 }
    }

    /// Later transmissions that must have arrived before a missing one counts as lost.
    pub(super) const fn packets(&self) -> u32 {
        self.packets
    }

    /// Notes that a packet that counted as lost was only late, after `overtaken` later ones had arrived (0:
    /// not known).
    pub(super) fn proved(&mut self, overtaken: u32) {
        self.packets = (self.packets * 2).max(overtaken.saturating_add(1)).min(REORDER_PACKETS_MAX);
        self.unproved = 0;
    }

    /// Notes that a packet is sent again.
    pub(super) fn resent(&mut self) {
        self.unproved += 1;
        if self.unproved >= REORDER_MEMORY {
            self.packets = (self.packets / 2).max(REORDER_PACKETS);
            self.unproved = 0;
        }
    }

    /// The time after its sending at which an overtaken packet counts as lost.
    pub(super) const fn time_threshold(&self, loss_delay: Duration) -> Duration {
        // With the smallest threshold 9/8 of a round trip, with the largest three times that.
        Duration(loss_delay.0 + loss_delay.0 * 2 * (self.packets - REORDER_PACKETS) as u64 / REORDER_PACKETS_MAX as u64)
    }
}

/// The probes of one path since its last packet left: their echo proves which packets are missing.
#[derive(Debug)]
pub(super) struct OutstandingProbes {
    /// The first unanswered probe of those sent since `order` was the next transmission.
    first: Number,
    /// The last probe sent, plus one.
    next: Number,
    order: Number,
}

impl OutstandingProbes {
    pub(super) const fn new() -> Self {
        let start = Number::FIRST;
        Self { first: start, next: start, order: start }
    }

    /// Notes that probe `number` leaves. `order` is the next transmission.
    pub(super) fn sent(&mut self, number: Number, order: Number) {
        if self.order != order || self.first == self.next {
            (self.order, self.first) = (order, number);
        }
        self.next = number.plus(1);
    }

    /// Takes an echo of `probe`. If it proves anything, returns the transmission before which all have
    /// arrived or are lost, and whether the probe is the newest. Each probe proves once.
    pub(super) fn answered(&mut self, probe: Number) -> Option<(Number, bool)> {
        if self.first.is_after(probe) || !self.next.is_after(probe) {
            return None;
        }
        let newest = probe.plus(1) == self.next;
        self.first = probe.plus(1);
        Some((self.order, newest))
    }
}

/// The wait for the peer.
#[derive(Debug)]
pub(super) struct ProbeTimeout {
    /// The time at which the last probe left.
    sent_at: Instant,
    /// Probes unanswered in a row.
    unanswered: u32,
    /// The time for which the peer has been silent, without the pauses of this process.
    silent: Duration,
    /// The time at which the peer was heard last.
    heard_at: Instant,
}

impl ProbeTimeout {
    pub(super) const fn new() -> Self {
        Self { sent_at: Instant(0), unanswered: 0, silent: Duration(0), heard_at: Instant(0) }
    }

    /// The wait before the next probe: `delay`, doubled for each probe that went unanswered on the same path.
    pub(super) fn interval(delay: Duration, unanswered: u8, settings: &Settings) -> Duration {
        let doubled = delay.0.saturating_mul(1 << unanswered.min(20));
        // Where an answer takes longer than that, the wait is longer.
        Duration(doubled.min(settings.pto_max.0.max(settings.pto_min.0).max(delay.0)))
    }

    /// Notes that a probe leaves.
    pub(super) fn probe_sent(&mut self, now: Instant) {
        self.sent_at = now;
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// Notes that a packet was newly acknowledged, or a probe answered.
    pub(super) fn progress(&mut self) {
        self.unanswered = 0;
    }

    /// Notes an authentic packet from the peer, which shows that the peer lives.
    pub(super) fn heard(&mut self, now: Instant) {
        self.silent = Duration(0);
        self.heard_at = now;
    }

    /// The time since which the peer has been silent.
    pub(super) fn quiet_since(&self) -> Instant {
        self.heard_at
    }

    /// Notes, before the first probe that asks for a sign of life, that the peer has been silent for `span`.
    pub(super) fn was_quiet(&mut self, span: Duration) {
        if self.unanswered == 0 {
            self.silent = self.silent.max(span);
        }
    }

    /// Adds to the silence when the next probe is due; returns true once the silence is too long.
    ///
    /// A pause of this process is not the peer's silence: an interval counts at most twice its length.
    pub(super) fn is_silent(&mut self, now: Instant, interval: Duration, settings: &Settings) -> bool {
        if self.unanswered > 0 {
            self.silent.0 += now.since(self.sent_at).0.min(2 * interval.0);
        }
        settings.peer_timeout.0 != 0 && self.silent >= settings.peer_timeout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_of_reordering_widens_and_time_narrows() {
        let delay = Duration::from_micros(100);
        let mut reordering = Reordering::new();
        assert_eq!((reordering.packets(), reordering.time_threshold(delay)), (REORDER_PACKETS, delay));
        for _ in 0..10 {
            reordering.proved(0);
        }
        assert_eq!(reordering.packets(), REORDER_PACKETS_MAX);
        // One proof is enough if it tells by how many packets.
        reordering = Reordering::new();
        reordering.proved(60);
        assert_eq!(reordering.packets(), 61);
        reordering.proved(10_000);
        assert_eq!(reordering.packets(), REORDER_PACKETS_MAX);
        assert!((250..=300).contains(&reordering.time_threshold(delay).as_micros()));
        for _ in 0..10 * REORDER_MEMORY {
            reordering.resent();
        }
        assert_eq!((reordering.packets(), reordering.time_threshold(delay)), (REORDER_PACKETS, delay));
    }

    #[test]
    fn a_probe_proves_once_and_only_for_what_left_before_it() {
        let mut run = OutstandingProbes::new();
        let number = |count| Number::FIRST.plus(count);
        let order = number(10);
        run.sent(number(5), order);
        run.sent(number(8), order);
        assert_eq!(run.answered(number(9)), None, "a probe that was never sent");
        // The echo of the older one says nothing about the newer one's round trip.
        assert_eq!(run.answered(number(5)), Some((order, false)));
        assert_eq!(run.answered(number(5)), None);
        assert_eq!(run.answered(number(8)), Some((order, true)));
        // A packet leaves, then a probe.   Expect: old echoes prove nothing about the packet.
        run.sent(number(9), order);
        run.sent(number(10), order.plus(1));
        assert_eq!(run.answered(number(9)), None);
        assert_eq!(run.answered(number(10)), Some((order.plus(1), true)));
    }
}
