//! How many packets may be in flight to one destination.
//!
//! The window starts full: all the receiver takes. From the first full round trip on it is what the way was seen to carry in the
//! time of an empty round trip and a short queue, which is 1.5 times rate × round trip where the way is long. So a standing
//! queue shrinks the window in proportion, as in Swift and HPCC, and a pause of either process, which lets the rate seem low for
//! a moment, does not: the rate is forgotten slowly. Losses beyond what a bad cable explains and marks of congestion cut at
//! once, at most by half in a round trip.

use super::settings::{LOSS_SHARE, LOSSES_FREE, RATE_MEMORY, Settings, WINDOW_GROWTH, WINDOW_MIN};
use crate::time::{Duration, Instant};
use crate::wire::Number;

/// Why the window was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    Loss,
    Mark,
    Delay,
}

/// What one acknowledgement tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledged {
    /// Packets newly acknowledged.
    pub(super) newly: u32,
    /// The receiver saw a mark of congestion.
    pub(super) marked: bool,
    /// One past the newest packet that has arrived.
    pub(super) seen: Number,
    /// The next packet to be sent for the first time.
    pub(super) next: Number,
    /// The shortest round trip, if there was one.
    pub(super) round_trip: Option<Duration>,
}

/// The window of one flow.
#[derive(Debug)]
pub(super) struct Congestion {
    window: u32,
    /// Packets a second that the way carried lately, at its best.
    rate: u64,
    /// The round trip ends when this packet has arrived.
    round_end: Number,
    round_at: Instant,
    delivered: u32,
    lost: u32,
    /// The window when the round began.
    before: u32,
    /// The window was what held us back: in this round, and in the one before.
    full: bool,
    was_full: bool,
    /// A mark has cut the window in this round.
    mark_counted: bool,
}

impl Congestion {
    pub(super) const fn new(packets: u32) -> Self {
        Self {
            window: packets,
            rate: 0,
            round_end: Number::FIRST,
            round_at: Instant(0),
            delivered: 0,
            lost: 0,
            before: packets,
            full: false,
            was_full: false,
            mark_counted: false,
        }
    }

    /// Packets that may be in flight.
    pub(super) const fn window(&self) -> u32 {
        self.window
    }

    /// Packets a second that the way was seen to carry; 0: not known.
    pub(super) const fn rate(&self) -> u64 {
        self.rate
    }

    /// Something waits because the window is full.
    pub(super) const fn held_back(&mut self) {
        self.full = true;
    }

    /// Nothing is in flight: what comes next says nothing about the way until the window is full again.
    pub(super) const fn idle(&mut self, next: Number) {
        (self.full, self.was_full) = (false, false);
        self.round_end = next;
        (self.delivered, self.lost) = (0, 0);
    }

    /// A packet was lost.
    pub(super) fn lost(&mut self) -> Option<Cut> {
        self.lost += 1;
        let bearable = LOSSES_FREE + self.before / LOSS_SHARE;
        if self.lost == bearable + 1 || self.lost == self.before / 4 && self.lost > bearable {
            self.cut(4).then_some(Cut::Loss)
        } else {
            None
        }
    }

    /// Takes one part of so many from the window, never more than half of what it was when the round began.
    fn cut(&mut self, parts: u32) -> bool {
        let floor = (self.before / 2).max(WINDOW_MIN).min(self.window);
        let cut = (self.window - self.window.div_ceil(parts)).max(floor);
        self.rate = self.rate * u64::from(cut) / u64::from(self.window.max(1));
        core::mem::replace(&mut self.window, cut) > cut
    }

    /// Takes an acknowledgement; once in a round trip the window changes.
    pub(super) fn acknowledged(&mut self, now: Instant, news: &Acknowledged, settings: &Settings) -> Option<Cut> {
        self.delivered += news.newly;
        let mut cut = None;
        if news.marked && !core::mem::replace(&mut self.mark_counted, true) && self.cut(4) {
            cut = Some(Cut::Mark);
        }
        if !news.seen.is_after(self.round_end) {
            return cut;
        }
        if let Some(round_trip) = news.round_trip
            && self.round_at.0 > 0
        {
            let took = now.since(self.round_at).0.max(round_trip.0).max(1);
            let rate = u64::from(self.delivered) * 1_000_000_000 / took;
            if self.full && self.was_full {
                self.rate = rate.max(self.rate - self.rate / RATE_MEMORY);
                if self.adapt(round_trip, settings) {
                    cut = cut.or(Some(Cut::Delay));
                }
            } else if self.rate > 0 {
                self.rate = self.rate.max(rate);
            }
        }
        self.was_full = self.full;
        (self.full, self.mark_counted) = (false, false);
        (self.delivered, self.lost) = (0, 0);
        (self.round_end, self.round_at, self.before) = (news.next, now, self.window);
        cut
    }

    /// The window becomes what the way carries in an empty round trip and a short queue. True if it shrinks.
    fn adapt(&mut self, round_trip: Duration, settings: &Settings) -> bool {
        let span = round_trip.0 + settings.delay_target.0.max(round_trip.0 / 2);
        let product = (u128::from(self.rate) * u128::from(span) / 1_000_000_000).min(u128::from(u32::MAX)) as u32;
        let wanted = product.saturating_add(WINDOW_GROWTH);
        let least = (self.before / 2).max(WINDOW_MIN).min(self.window);
        let most = self.before.saturating_mul(2).min(settings.window_packets).max(least);
        let cut = wanted < self.window;
        // A cut by loss or mark stands for its round.
        if self.window >= self.before {
            self.window = wanted.clamp(least, most);
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way with a queue without end.
    struct Play {
        congestion: Congestion,
        settings: Settings,
        empty: Duration,
        now: Instant,
        next: Number,
    }

    impl Play {
        fn new(window_packets: u32, empty_us: u64) -> Self {
            Self {
                congestion: Congestion::new(window_packets),
                settings: Settings { window_packets, delay_target: Duration::from_micros(80), ..Settings::default() },
                empty: Duration::from_micros(empty_us),
                now: Instant(1),
                next: Number::FIRST.plus(1),
            }
        }

        /// Plays so many round trips in which the way carries so many packets a microsecond; returns the window.
        fn play(&mut self, packets_per_us: u32, rounds: u32) -> u32 {
            for _ in 0..rounds {
                let window = self.congestion.window();
                // A window takes as long as the way needs for it, and never less than an empty round trip.
                self.round(window, Duration(u64::from(window / packets_per_us) * 1_000));
            }
            self.congestion.window()
        }

        fn round(&mut self, newly: u32, took: Duration) {
            self.congestion.held_back();
            self.now = self.now + took.max(self.empty);
            self.next = self.next.plus(newly);
            let (seen, next, round_trip) = (self.next, self.next, Some(self.empty));
            let news = Acknowledged { newly, marked: false, seen, next, round_trip };
            self.congestion.acknowledged(self.now, &news, &self.settings);
            self.next = self.next.plus(1);
        }
    }

    #[test]
    fn the_window_finds_the_rate_of_the_way() {
        for packets_per_us in [1, 2, 4] {
            let mut way = Play::new(1024, 20);
            // 20 µs of way and 80 µs of queue.
            let (window, expected) = (way.play(packets_per_us, 200), 100 * packets_per_us);
            assert!((expected..=expected + 50).contains(&window), "{window} packets, expected about {expected}");
        }
        // A way that gets faster.   Expect: the window follows.
        let mut way = Play::new(1024, 20);
        way.play(1, 200);
        assert!(way.play(4, 40) >= 400);
    }

    #[test]
    fn a_long_way_gets_one_and_a_half_times_its_product() {
        let window = Play::new(2048, 1_000).play(1, 300);
        assert!((1_500..=1_600).contains(&window), "{window}");
    }

    #[test]
    fn one_pause_costs_little() {
        let mut way = Play::new(1024, 20);
        let before = way.play(2, 100);
        // Ten milliseconds in which the receiver did not look.
        way.round(before, Duration::from_millis(10));
        let after = way.congestion.window();
        assert!(after >= before * 3 / 4, "{before} packets, then {after}");
    }

    #[test]
    fn losses_that_a_cable_explains_are_free_and_others_cut_at_most_by_half_a_round() {
        let mut congestion = Congestion::new(256);
        let bearable = LOSSES_FREE + 256 / LOSS_SHARE;
        for _ in 0..bearable {
            assert_eq!(congestion.lost(), None);
        }
        assert_eq!(congestion.lost(), Some(Cut::Loss));
        assert_eq!(congestion.window(), 192);
        for _ in 0..256 {
            congestion.lost();
        }
        assert!((128..192).contains(&congestion.window()), "{}", congestion.window());
    }

    #[test]
    fn a_mark_cuts_once_a_round() {
        let settings = Settings { window_packets: 256, ..Settings::default() };
        let mut congestion = Congestion::new(256);
        let news = |seen, next| Acknowledged { newly: 1, marked: true, seen, next, round_trip: None };
        let start = Number::FIRST;
        let mut cuts = 0;
        for round in 0..3 {
            for _ in 0..10 {
                let seen = start.plus(100 * round);
                cuts += u32::from(
                    congestion.acknowledged(Instant(1), &news(seen, start.plus(100 * round + 99)), &settings).is_some(),
                );
            }
        }
        assert_eq!(cuts, 3);
        assert_eq!(congestion.window(), 108);
    }

    #[test]
    fn a_window_smaller_than_the_least_stays_as_it_is() {
        let mut congestion = Congestion::new(2);
        for _ in 0..20 {
            congestion.lost();
        }
        assert_eq!(congestion.window(), 2);
    }
}
