//! What proves a packet lost, and what a loss does to the window.

use super::settings::{REORDER_MEMORY, REORDER_PACKETS, REORDER_PACKETS_MAX, Settings, WINDOW_GROWTH, WINDOW_MIN};
use crate::time::{Duration, Instant};
use crate::wire::Number;

/// Why a packet is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// Later packets have arrived.
    Gap,
    /// A later probe has arrived.
    Probe,
}

/// How much packets overtake each other on this way (after RFC 8985 §6.2: a proof widens, resends without one narrow).
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

    /// A packet that counted as lost was only late.
    pub(super) fn proved(&mut self) {
        self.packets = (self.packets * 2).min(REORDER_PACKETS_MAX);
        self.unproved = 0;
    }

    /// A packet is sent again.
    pub(super) fn resent(&mut self) {
        self.unproved += 1;
        if self.unproved >= REORDER_MEMORY {
            self.packets = (self.packets / 2).max(REORDER_PACKETS);
            self.unproved = 0;
        }
    }

    /// How long after its sending a packet that was overtaken counts as lost.
    pub(super) const fn patience(&self, loss_delay: Duration) -> Duration {
        // With the first threshold 9/8 of a round trip, with the last three times that.
        Duration(loss_delay.0 + loss_delay.0 * 2 * (self.packets - REORDER_PACKETS) as u64 / REORDER_PACKETS_MAX as u64)
    }
}

/// How many packets may be in flight: all the receiver takes at first, a quarter less after losses, a little more each round trip.
#[derive(Debug)]
pub(super) struct Window {
    packets: u32,
    growth: u32,
    /// Losses of transmissions before this one have already cut the window.
    cut: Number,
}

impl Window {
    pub(super) const fn new(packets: u32) -> Self {
        Self { packets, growth: 0, cut: Number::FIRST }
    }

    pub(super) const fn packets(&self) -> u32 {
        self.packets
    }

    /// Packets were acknowledged while the window was what held us back.
    pub(super) fn grow(&mut self, newly: u32, settings: &Settings) {
        if self.packets >= settings.window_packets {
            return;
        }
        self.growth += newly * WINDOW_GROWTH;
        while self.growth >= self.packets && self.packets < settings.window_packets {
            self.growth -= self.packets;
            self.packets += 1;
        }
    }

    /// Transmission `order` was lost; `next` is the next. True if the window shrinks: at most once a round trip.
    pub(super) fn lost(&mut self, order: Number, next: Number) -> bool {
        if self.cut.is_after(order) {
            return false;
        }
        self.packets = (self.packets - self.packets / 4).max(WINDOW_MIN.min(self.packets));
        self.growth = 0;
        self.cut = next;
        true
    }
}

/// The probes since the last packet left: their echo proves what is missing.
#[derive(Debug)]
pub(super) struct Probes {
    /// The next probe's number.
    next: Number,
    /// The first probe sent since `order` was the next transmission, and not yet answered.
    first: Number,
    order: Number,
    sent_at: Instant,
    /// Unanswered in a row.
    unanswered: u32,
    /// How long the peer has been silent, our own absence not counted.
    silent: Duration,
}

impl Probes {
    pub(super) const fn new() -> Self {
        let (start, zero) = (Number::FIRST, Instant(0));
        Self { next: start, first: start, order: start, sent_at: zero, unanswered: 0, silent: Duration(0) }
    }

    /// The wait before the next probe: `delay`, doubled for each that went unanswered.
    pub(super) fn interval(&self, delay: Duration, settings: &Settings) -> Duration {
        let doubled = delay.0.saturating_mul(1 << self.unanswered.min(20));
        Duration(doubled.min(settings.probe_cap.0.max(settings.probe_floor.0)))
    }

    /// A probe leaves. `order` is the next transmission. Returns its number.
    pub(super) fn sent(&mut self, now: Instant, order: Number) -> Number {
        let number = self.next;
        if self.order != order {
            (self.order, self.first) = (order, number);
        }
        self.next = number.plus(1);
        self.sent_at = now;
        self.unanswered = self.unanswered.saturating_add(1);
        number
    }

    /// An echo of `probe` came; if it proves anything: the transmission before which all have arrived or are lost,
    /// and, of the newest probe, when it was sent. Each probe proves once.
    pub(super) fn answered(&mut self, probe: Number) -> Option<(Number, Option<Instant>)> {
        if self.first.is_after(probe) || !self.next.is_after(probe) {
            return None;
        }
        let newest = probe.plus(1) == self.next;
        self.first = probe.plus(1);
        Some((self.order, newest.then_some(self.sent_at)))
    }

    /// Something new was acknowledged, or a probe answered.
    pub(super) fn progress(&mut self) {
        self.unanswered = 0;
    }

    /// An authentic packet came from the peer: it lives.
    pub(super) fn heard(&mut self) {
        self.silent = Duration(0);
    }

    /// Adds to the silence when the next probe is due; true once it is too long.
    ///
    /// Time in which nobody looked here is not the peer's silence: an interval counts at most twice its length.
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
    fn the_window_is_cut_once_a_round_trip_and_grows_slowly() {
        let settings = Settings { window_packets: 128, ..Settings::default() };
        let mut window = Window::new(128);
        let start = Number::FIRST;
        assert!(window.lost(start.plus(3), start.plus(100)));
        for order in 4..100 {
            assert!(!window.lost(start.plus(order), start.plus(120)));
        }
        assert_eq!(window.packets(), 96);
        // A whole window acknowledged is a round trip.
        window.grow(96, &settings);
        assert!((96 + WINDOW_GROWTH - 1..=96 + WINDOW_GROWTH).contains(&window.packets()));
        for _ in 0..1000 {
            window.grow(1000, &settings);
        }
        assert_eq!(window.packets(), 128);
        for order in 200..10_000 {
            window.lost(start.plus(order), start.plus(order + 1));
        }
        assert_eq!(window.packets(), WINDOW_MIN);
    }

    #[test]
    fn a_window_smaller_than_the_least_stays_as_it_is() {
        let mut window = Window::new(2);
        window.lost(Number::FIRST, Number::FIRST.plus(1));
        assert_eq!(window.packets(), 2);
    }

    #[test]
    fn a_proof_of_reordering_widens_and_time_narrows() {
        let delay = Duration::from_micros(100);
        let mut reordering = Reordering::new();
        assert_eq!((reordering.packets(), reordering.patience(delay)), (REORDER_PACKETS, delay));
        for _ in 0..10 {
            reordering.proved();
        }
        assert_eq!(reordering.packets(), REORDER_PACKETS_MAX);
        assert!((250..=300).contains(&reordering.patience(delay).as_micros()));
        for _ in 0..10 * REORDER_MEMORY {
            reordering.resent();
        }
        assert_eq!((reordering.packets(), reordering.patience(delay)), (REORDER_PACKETS, delay));
    }

    #[test]
    fn a_probe_proves_once_and_only_for_what_left_before_it() {
        let mut probes = Probes::new();
        let order = Number::FIRST.plus(10);
        let first = probes.sent(Instant(1), order);
        let second = probes.sent(Instant(2), order);
        assert_eq!(probes.answered(second.plus(1)), None, "a probe that was never sent");
        // The echo of the older one says nothing about the newer one's round trip.
        assert_eq!(probes.answered(first), Some((order, None)));
        assert_eq!(probes.answered(first), None);
        assert_eq!(probes.answered(second), Some((order, Some(Instant(2)))));
        // A packet leaves, then a probe.   Expect: old echoes prove nothing about the packet.
        let old = probes.sent(Instant(3), order);
        let new = probes.sent(Instant(4), order.plus(1));
        assert_eq!(probes.answered(old), None);
        assert_eq!(probes.answered(new), Some((order.plus(1), Some(Instant(4)))));
    }
}
