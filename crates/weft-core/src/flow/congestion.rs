//! The congestion window of one path to a destination: the number of packets that may be in flight there.
//!
//! The window starts full: all that the receiver takes. Once in each round trip in which the window was full,
//! the delay decides. Where packets take longer than an empty round trip and a short queue, the window
//! shrinks in proportion, as in Swift and HPCC, to rate × round trip and half as much. Where they do not, the
//! window grows.
//!
//! A far path may hold more than the receiver takes at once. On such a path the window grows to what the path
//! holds. At first it grows with each acknowledgement, as in slow start, until a queue appears. Then it grows
//! by what the queue may still take, and by twice that in the next step, as long as no queue appears. A queue
//! on a far path makes the window small enough to empty the queue, not only to shorten it. So all flows that
//! share the path begin again without a queue, and measure the round trip of the empty path.
//!
//! Only the network's delay counts. A packet that may have waited because a process was not looking
//! (`HostDelay`) is no sign of a queue, and a smaller window would not shorten its wait. Losses beyond what a
//! bad cable explains, and marks of congestion (ECN), cut the window at once, at most by half in a round
//! trip.

use super::settings::{
    FAR, FAR_QUEUE, LOSS_SHARE, LOSSES_FREE, Settings, WINDOW_GROWTH, WINDOW_GROWTH_SHARE, WINDOW_MIN,
};
use crate::time::Duration;
use crate::wire::Number;

/// The reason for which the window was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    Loss,
    Mark,
    Delay,
}

/// The news of one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledged {
    /// The receiver saw a mark of congestion.
    pub(super) marked: bool,
    /// The number of the newest transmission that has arrived, plus one.
    pub(super) seen: Number,
    /// The number of the next transmission.
    pub(super) next: Number,
    /// The shortest round trip, if there was one.
    pub(super) round_trip: Option<Duration>,
}

/// The window of one path.
#[derive(Debug)]
pub(super) struct Congestion {
    window: u32,
    /// The round trip ends when this transmission has arrived.
    round_end: Number,
    /// The shortest delay on the path in this round; `UNKNOWN` without a sample.
    delay_ns: u32,
    lost: u32,
    /// The window when the round began.
    before: u32,
    /// The window held the sender back: in this round, and in the one before.
    full: bool,
    was_full: bool,
    /// A mark has cut the window in this round.
    mark_counted: bool,
    far: Far,
}

/// The growth of the window on a far path: [`Far::NEW`], [`Far::SLOW_START`], or the rounds since the last
/// one that met a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Far(u8);

impl Far {
    /// The flow has never met a queue, and nothing has cut the window.
    const NEW: Self = Self(u8::MAX);
    /// The flow has not met a queue in this round either: the window grows with the packets that arrive in
    /// it.
    const SLOW_START: Self = Self(u8::MAX - 1);
    /// The window was made smaller: the next round trip still shows the old queue.
    const CUT: Self = Self(u8::MAX - 2);
    /// A round has met a queue.
    const MET: Self = Self(0);
}

const UNKNOWN: u32 = u32::MAX;
/// Most doublings of the growth of a window on a far path, which begins with the room in the path's queue.
/// After as many, the other limit, a share of the window itself, is smaller.
const CALM_MAX: u8 = 16;

impl Congestion {
    pub(super) const fn new(packets: u32) -> Self {
        Self {
            window: packets,
            round_end: Number::FIRST,
            delay_ns: UNKNOWN,
            lost: 0,
            before: packets,
            full: false,
            was_full: false,
            mark_counted: false,
            far: Far::NEW,
        }
    }

    /// Packets that may be in flight.
    pub(super) const fn window(&self) -> u32 {
        self.window
    }

    /// The time between two packets on a far path with this round trip. A round is to be as full at its end
    /// as at its beginning, so that no queue is longer than the path needs.
    pub(super) fn pacing_interval(&self, empty: Duration) -> Duration {
        // While the window doubles, packets leave twice as fast as the window empties; otherwise somewhat
        // faster.
        let (parts, of) = if self.far == Far::NEW || self.far == Far::SLOW_START { (1, 2) } else { (4, 5) };
        Duration(empty.0 * parts / (u64::from(self.window) * of))
    }

    /// Makes the window `packets` long, as if nothing had cut it.
    #[cfg(test)]
    pub(super) const fn widen(&mut self, packets: u32) {
        self.window = packets;
    }

    /// Notes that a packet waits because the window is full.
    pub(super) const fn held_back(&mut self) {
        self.full = true;
    }

    /// Notes that nothing is in flight: the next packets say nothing about the path until the window is full
    /// again.
    pub(super) fn idle(&mut self, next: Number) {
        (self.full, self.was_full) = (false, false);
        self.round_end = next;
        (self.delay_ns, self.lost) = (UNKNOWN, 0);
        if self.far == Far::SLOW_START {
            (self.far, self.before) = (Far::NEW, self.window);
        }
    }

    /// Takes the delay `sample` of a packet and its answer, of which up to `host_delay` may have passed
    /// because a process did not look. `empty` is the shortest round trip.
    pub(super) fn delayed(&mut self, sample: Duration, host_delay: Duration, empty: Option<Duration>) {
        if let Some(empty) = empty.filter(|empty| *empty >= FAR) {
            self.delayed_far(sample, host_delay, empty);
        } else if host_delay.0 <= sample.0 / 2 {
            // A sample with a longer host delay says nothing.
            let delay = u32::try_from(sample.0 - host_delay.0).unwrap_or(UNKNOWN - 1);
            self.delay_ns = self.delay_ns.min(delay);
        }
    }

    /// Takes the delay on a far path. A process that waits for a far peer looks seldom, so the host delay is
    /// often long. A sample within the target shows no queue, even if no process looked late. A sample beyond
    /// the target, after the host delay is taken off, shows a queue, although the process looked late.
    #[cold]
    fn delayed_far(&mut self, sample: Duration, host_delay: Duration, empty: Duration) {
        let (target, told) = (empty.0 + far_queue(empty).0, sample.0.saturating_sub(host_delay.0));
        let delay = if sample.0 <= target { sample.0 } else { told };
        if sample.0 > target && told <= target {
            return;
        }
        self.delay_ns = self.delay_ns.min(u32::try_from(delay).unwrap_or(UNKNOWN - 1));
        // The packets sent since are too many already: the window does not wait until the round ends.
        if self.far == Far::SLOW_START && delay > target {
            self.far = Far::MET;
        }
    }

    /// Notes that a packet was lost; returns the cut of the window, if it was cut.
    pub(super) fn lost(&mut self) -> Option<Cut> {
        self.lost += 1;
        let bearable = LOSSES_FREE + self.before / LOSS_SHARE;
        if self.lost == bearable + 1 || self.lost == self.before / 4 && self.lost > bearable {
            self.cut(4).then_some(Cut::Loss)
        } else {
            None
        }
    }

    /// Takes one part in `parts` from the window, which keeps at least half of its length at the beginning of
    /// the round.
    fn cut(&mut self, parts: u32) -> bool {
        let floor = (self.before / 2).max(WINDOW_MIN).min(self.window);
        let cut = (self.window - self.window.div_ceil(parts)).max(floor);
        self.far = Far::CUT;
        core::mem::replace(&mut self.window, cut) > cut
    }

    /// Returns whether a round trip ends with this acknowledgement.
    pub(super) const fn round_ends(&self, news: &Acknowledged) -> bool {
        news.seen.is_after(self.round_end)
    }

    /// Takes an acknowledgement; once in a round trip the window changes.
    pub(super) fn acknowledged(&mut self, news: &Acknowledged, settings: &Settings) -> Option<Cut> {
        let mut cut = None;
        if news.marked && !core::mem::replace(&mut self.mark_counted, true) && self.cut(4) {
            cut = Some(Cut::Mark);
        }
        if self.far == Far::SLOW_START {
            // The window was full when the round began.
            let left = self.round_end.since(news.seen).max(0) as u32;
            let grown = self.before.saturating_add(self.before.saturating_sub(left));
            self.window = grown.min(settings.reach()).max(self.window);
        }
        if !self.round_ends(news) {
            return cut;
        }
        if self.full && self.was_full && self.adapt(news.round_trip, settings) {
            cut = Some(Cut::Delay);
        }
        self.was_full = self.full;
        (self.full, self.mark_counted) = (false, false);
        (self.delay_ns, self.lost) = (UNKNOWN, 0);
        (self.round_end, self.before) = (news.next, self.window);
        cut
    }

    /// Shrinks the window where there is a queue, and lets it grow where there is none. Returns true if it
    /// shrinks.
    fn adapt(&mut self, round_trip: Option<Duration>, settings: &Settings) -> bool {
        // A cut by loss or mark stands for its round.
        if self.window < self.before {
            return false;
        }
        let empty = round_trip.unwrap_or_default();
        if empty >= FAR {
            return self.delay_ns != UNKNOWN && self.adapt_far(empty, settings);
        }
        let target = empty.0 + settings.delay_target.0.max(empty.0 / 2);
        let delay = u64::from(self.delay_ns);
        if self.delay_ns == UNKNOWN || delay <= target {
            let grown = self.window + self.window / WINDOW_GROWTH_SHARE + WINDOW_GROWTH;
            self.window = grown.min(settings.window_packets).max(self.window);
            return false;
        }
        let wanted = (u64::from(self.window) * target / delay) as u32 + WINDOW_GROWTH;
        self.shrink(wanted)
    }

    /// Adapts the window of a far path, which holds many packets.
    #[cold]
    fn adapt_far(&mut self, empty: Duration, settings: &Settings) -> bool {
        let (target, delay) = (empty.0 + far_queue(empty).0, u64::from(self.delay_ns).max(1));
        let window = u64::from(self.window);
        if self.far == Far::CUT {
            self.far = Far::MET;
            return false;
        }
        if delay > target {
            self.far = Far::CUT;
            return self.shrink((window * empty.0 / delay) as u32 + WINDOW_GROWTH);
        }
        if self.far == Far::NEW || self.far == Far::SLOW_START {
            self.far = Far::SLOW_START;
            return false;
        }
        let room = window * (target - delay) / delay + u64::from(WINDOW_GROWTH);
        let growth = (room << self.far.0).min(window / u64::from(WINDOW_GROWTH_SHARE) + u64::from(WINDOW_GROWTH));
        self.far.0 = (self.far.0 + 1).min(CALM_MAX);
        self.window = (self.window + growth as u32).min(settings.reach()).max(self.window);
        false
    }

    /// Sets the window to `wanted` or more: it never grows, and keeps at least half of its length at the
    /// beginning of the round. Returns true if it becomes smaller.
    fn shrink(&mut self, wanted: u32) -> bool {
        let least = (self.before / 2).max(WINDOW_MIN).min(self.window);
        let shrunk = wanted.clamp(least, self.window);
        core::mem::replace(&mut self.window, shrunk) > shrunk
    }
}

/// The longest queue that a flow may cause on a far path.
fn far_queue(empty: Duration) -> Duration {
    Duration((empty.0 / 2).min(FAR_QUEUE.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path with a queue without end.
    struct Play {
        congestion: Congestion,
        settings: Settings,
        empty: Duration,
        next: Number,
    }

    impl Play {
        fn new(window_packets: u32, empty_us: u64) -> Self {
            let delay_target = Duration::from_micros(80);
            Self {
                congestion: Congestion::new(window_packets),
                settings: Settings { window_packets, delay_target, ..Settings::default() },
                empty: Duration::from_micros(empty_us),
                next: Number::FIRST.plus(1),
            }
        }

        /// Plays `rounds` round trips on a path that carries `packets_per_us` packets a microsecond; returns
        /// the window.
        fn play(&mut self, packets_per_us: u32, rounds: u32) -> u32 {
            for _ in 0..rounds {
                // A window takes the time that the path needs for it, and at least an empty round trip.
                let took = Duration(u64::from(self.congestion.window() / packets_per_us) * 1_000).max(self.empty);
                self.round(took, Duration(0));
            }
            self.congestion.window()
        }

        fn round(&mut self, took: Duration, host_delay: Duration) {
            self.congestion.held_back();
            self.congestion.delayed(took, host_delay, Some(self.empty));
            self.next = self.next.plus(1);
            let (seen, next, round_trip) = (self.next, self.next, Some(self.empty));
            self.congestion.acknowledged(&Acknowledged { marked: false, seen, next, round_trip }, &self.settings);
        }
    }

    #[test]
    fn the_window_finds_the_rate_of_the_way() {
        for packets_per_us in [1, 2, 4] {
            let mut path = Play::new(1024, 20);
            // 20 µs of path and 80 µs of queue.
            let (window, expected) = (path.play(packets_per_us, 200), 100 * packets_per_us);
            assert!((expected - 5..=expected + 80).contains(&window), "{window} packets, expected about {expected}");
        }
        // A path that gets faster.   Expect: the window follows.
        let mut path = Play::new(1024, 20);
        path.play(1, 200);
        assert!(path.play(4, 40) >= 380);
    }

    #[test]
    fn a_long_way_gets_one_and_a_half_times_its_product() {
        let window = Play::new(2048, 1_000).play(1, 300);
        assert!((1_400..=1_700).contains(&window), "{window}");
    }

    #[test]
    fn a_far_way_is_filled_within_some_round_trips_and_its_queue_stays_short() {
        // 20 ms at a packet a microsecond.
        let mut path = Play::new(1024, 20_000);
        assert!(path.play(1, 12) >= 20_000);
        for _ in 0..200 {
            let window = path.play(1, 1);
            assert!((20_000..=20_000 + 20_000 / 8 + 4_000).contains(&window), "{window} packets");
        }
        // Losses have halved it.
        path.congestion.widen(10_000);
        assert!(path.play(1, 20) >= 20_000);
    }

    #[test]
    fn a_window_grows_no_farther_than_far_bytes_and_not_on_a_short_way() {
        let mut path = Play::new(1024, 50_000);
        path.settings.far_bytes = 3_000 * path.settings.packet_size as u64;
        assert_eq!(path.play(1_000, 60), 3_000);
        let mut path = Play::new(1024, 400);
        assert_eq!(path.play(1_000, 60), 1024);
    }

    #[test]
    fn pauses_of_a_process_cost_nothing() {
        let mut path = Play::new(1024, 20);
        let before = path.play(2, 100);
        // The processes share a processor with others: again and again, none of them looks for milliseconds.
        for _ in 0..100 {
            path.round(Duration::from_millis(10), Duration::from_millis(9));
        }
        assert!(path.congestion.window() >= before, "{before} packets, then {}", path.congestion.window());
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
        let news = |seen, next| Acknowledged { marked: true, seen, next, round_trip: None };
        let start = Number::FIRST;
        let mut cuts = 0;
        for round in 0..3 {
            for _ in 0..10 {
                let seen = start.plus(100 * round);
                cuts +=
                    u32::from(congestion.acknowledged(&news(seen, start.plus(100 * round + 99)), &settings).is_some());
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
