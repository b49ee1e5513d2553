//! Windows of messages: a program starts one message to a peer after another, and waits for them together.
//!
//! The message that stands alone and the first of a window look alike when they are started, so a window is
//! known by the one before. Some programs compute before they wait for their messages. They want to keep
//! their processor, so the kernel copies their messages ([`Overlap`]).

use crate::waiting::COMPUTES_TICKS;

/// The messages of a burst from which on it counts as a window. Shorter ones are the sends of programs that
/// exchange their borders, and compute between the start of the sends and their end.
const WINDOW_MIN: u32 = 4;

/// The knowledge whether the program computes between the start of large messages and its wait for them. The
/// start of the last message of a window may itself take long, since earlier ones wait for room; that time
/// does not count.
#[derive(Debug, Default)]
pub(crate) struct Overlap {
    /// The time at which the last message was started that the program has not waited for, in ticks.
    started: Option<u64>,
    computes: bool,
}

impl Overlap {
    /// Notes that a large nonblocking message has been started, and the program goes on `now`.
    pub(crate) fn start(&mut self, now: u64) {
        self.started = Some(now);
    }

    /// Notes that the program has come to a call that may wait, at the time `now`.
    #[inline]
    pub(crate) fn wait(&mut self, now: impl FnOnce() -> u64) {
        if let Some(started) = self.started.take() {
            self.computes = now().saturating_sub(started) > COMPUTES_TICKS;
        }
    }

    /// Returns whether the program computed before its last wait for large messages.
    pub(crate) fn computes(&self) -> bool {
        self.computes
    }
}

/// The nonblocking messages to one peer, or from it, as far as they tell windows.
#[derive(Debug, Default)]
pub(crate) struct MessageWindows {
    /// The request of the last message.
    last: Option<usize>,
    /// The messages that were started without waiting for those before, up to the last.
    burst: u32,
    /// The same of the burst before.
    before: u32,
}

impl MessageWindows {
    /// Notes that the message of the request `handle` is started. `is_outstanding` says whether the program
    /// still has to wait for a request.
    pub(crate) fn note(&mut self, handle: usize, is_outstanding: impl FnOnce(usize) -> bool) {
        // A persistent request that is started again has been waited for.
        if self.last.is_some_and(|last| last != handle && is_outstanding(last)) {
            self.burst = self.burst.saturating_add(1);
        } else {
            self.before = std::mem::replace(&mut self.burst, 1);
        }
        self.last = Some(handle);
    }

    /// Returns whether the last message belongs to a window, as far as is known.
    pub(crate) fn is_window(&self) -> bool {
        self.burst.max(self.before) >= WINDOW_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers for bursts of messages of these requests; the program waits after each burst.
    fn answers(windows: &mut MessageWindows, bursts: &[std::ops::Range<usize>]) -> Vec<String> {
        let answer = |burst: &std::ops::Range<usize>| {
            let note = |handle| {
                windows.note(handle, |last| burst.contains(&last));
                windows.is_window()
            };
            burst.clone().map(note).map(|is_window| if is_window { 'w' } else { '-' }).collect::<String>()
        };
        bursts.iter().map(answer).collect()
    }

    /// Messages that stand alone, pairs, and windows.   Expect: the first window is known from its fourth
    /// message on, later ones from their first. The message after the last window that stands alone counts
    /// as one of a window, and no later one does.
    #[test]
    fn a_window_is_known_by_the_one_before() {
        let found = answers(&mut MessageWindows::default(), &[0..1, 1..3, 3..6, 6..14, 14..20, 20..21, 21..23]);
        assert_eq!(found, ["-", "--", "---", "---wwwww", "wwwwww", "w", "--"]);
    }

    /// Persistent requests are started again and again: four together, then one of them alone.   Expect: the
    /// same as for others.
    #[test]
    fn requests_that_are_started_again_tell_windows_as_others_do() {
        let found = answers(&mut MessageWindows::default(), &[0..4, 0..4, 3..4, 3..4, 3..4]);
        assert_eq!(found, ["---w", "wwww", "w", "-", "-"]);
    }

    /// A program waits at once, then computes for 100 µs before it waits, and waits at once again.   Expect:
    /// the messages after each wait are told by what came before it.
    #[test]
    fn a_program_that_computes_is_known_by_its_last_wait() {
        let mut overlap = Overlap::default();
        let (mut now, mut found) = (0, Vec::new());
        for computes in [1_000, 250_000, 1_000, 1_000] {
            overlap.start(now);
            found.push(overlap.computes());
            now += computes;
            overlap.wait(|| now);
            // Waits for other operations say nothing.
            overlap.wait(|| now + 1_000_000);
        }
        assert_eq!(found, [false, false, true, false]);
    }
}
