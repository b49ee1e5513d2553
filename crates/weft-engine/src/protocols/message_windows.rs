//! Windows of messages: a program starts one message to a peer after another, and waits for them together.
//!
//! The message that stands alone and the first of a window look alike when they are started, so a window is
//! known by the one before. Some programs compute before they wait for their messages. They want to keep
//! their processor, so the kernel copies their messages ([`Overlap`]).

use crate::waiting::COMPUTES_TICKS;

/// The messages of a burst from which on it counts as a window, unless the program is known to exchange
/// messages and to wait for them at once. Shorter bursts may be the sends of programs that exchange their
/// borders, and compute between the start of the sends and their end.
const WINDOW_MIN: u32 = 4;
/// The ticks between the start of a message and the wait for it up to which the wait came at once: 0.5 µs at
/// 2.5 GHz. The copy of a message that would otherwise be left to the other side takes longer.
const AT_ONCE_TICKS: u64 = 1_250;
/// The number of such waits in a row after which the next one is expected to come at once, too.
const TRUSTED_AFTER: u32 = 4;
/// The number of waits for which an exchange is remembered. A receive whose message has already arrived is
/// not noted, so not each exchange is seen.
const EXCHANGE_WAITS: u32 = 64;

/// The knowledge whether the program computes between the start of large messages and its wait for them. The
/// start of the last message of a window may itself take long, since earlier ones wait for room; that time
/// does not count.
#[derive(Debug, Default)]
pub(crate) struct Overlap {
    /// The time at which the last message was started that the program has not waited for, in ticks.
    started: Option<u64>,
    computes: bool,
    /// The number of waits in a row that came at once.
    at_once: u32,
    /// The number of waits.
    waits: u32,
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
            let ticks = now().saturating_sub(started);
            self.computes = ticks > COMPUTES_TICKS;
            self.at_once = if ticks <= AT_ONCE_TICKS { self.at_once.saturating_add(1) } else { 0 };
            self.waits = self.waits.wrapping_add(1);
        }
    }

    /// Returns whether the program computed before its last wait for large messages.
    pub(crate) fn computes(&self) -> bool {
        self.computes
    }

    /// Returns whether the program waits at once for these messages, as far as is known. Single messages
    /// count if they are exchanged: both programs wait then. Otherwise one program may compute while the
    /// other waits, and the message is left to the other side.
    fn waits_for(&self, messages: u32, exchanged: Option<u32>) -> bool {
        let is_exchange = exchanged.is_some_and(|wait| self.waits.wrapping_sub(wait) <= EXCHANGE_WAITS);
        let least = if is_exchange && self.at_once >= TRUSTED_AFTER { 1 } else { WINDOW_MIN };
        !self.computes && messages >= least
    }
}

/// The large nonblocking messages to and from one peer.
#[derive(Debug, Default)]
pub(crate) struct PeerWindows {
    pub(crate) sent: MessageWindows,
    pub(crate) received: MessageWindows,
    /// The number of waits that had been when a message was last started in one direction while the program
    /// had still to wait for one in the other.
    exchanged: Option<u32>,
}

impl PeerWindows {
    /// Notes that a message to the peer is started, as [`MessageWindows::note`] does.
    pub(crate) fn note_sent(&mut self, overlap: &Overlap, handle: usize, is_outstanding: impl Fn(usize) -> bool) {
        self.sent.note(handle, overlap.waits, &is_outstanding);
        if self.received.stands_beside(handle, overlap.waits, &is_outstanding) {
            self.exchanged = Some(overlap.waits);
        }
    }

    /// Notes that a message from the peer is awaited by a call, or that a receive for it is started.
    pub(crate) fn note_received(
        &mut self,
        overlap: &Overlap,
        (handle, is_awaited): (usize, bool),
        is_outstanding: impl Fn(usize) -> bool,
    ) {
        if !is_awaited {
            self.received.note(handle, overlap.waits, &is_outstanding);
        }
        if self.sent.stands_beside(handle, overlap.waits, &is_outstanding) {
            self.exchanged = Some(overlap.waits);
        }
    }

    /// Returns whether the last message to the peer belongs to a window, as far as is known.
    pub(crate) fn is_sent(&self, overlap: &Overlap) -> bool {
        overlap.waits_for(self.sent.messages(), self.exchanged)
    }

    /// Returns whether the last message from the peer belongs to a window.
    pub(crate) fn is_received(&self, overlap: &Overlap) -> bool {
        overlap.waits_for(self.received.messages(), self.exchanged)
    }

    /// Returns whether both do.
    #[inline(never)]
    pub(crate) fn are_exchanged(&self, overlap: &Overlap) -> bool {
        self.is_sent(overlap) && self.is_received(overlap)
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
    /// The program's waits when the last message was started.
    waits: u32,
}

impl MessageWindows {
    /// Notes that the message of the request `handle` is started. `is_outstanding` says whether the program
    /// still has to wait for a request.
    fn note(&mut self, handle: usize, waits: u32, is_outstanding: impl FnOnce(usize) -> bool) {
        // A persistent request that is started again has been waited for.
        if self.last.is_some_and(|last| last != handle && is_outstanding(last)) {
            self.burst = self.burst.saturating_add(1);
        } else {
            self.before = std::mem::replace(&mut self.burst, 1);
        }
        self.last = Some(handle);
        self.waits = waits;
    }

    /// Returns whether the program has still to wait for the last message, and an operation in the other
    /// direction is started as `handle`. Handles are used again, so the last message must be a new one.
    fn stands_beside(&self, handle: usize, waits: u32, is_outstanding: impl Fn(usize) -> bool) -> bool {
        let is_new = waits.wrapping_sub(self.waits) <= 1;
        is_new && self.last.is_some_and(|last| last != handle && is_outstanding(last))
    }

    /// The number of messages of the last burst, or of the one before if that had more.
    fn messages(&self) -> u32 {
        self.burst.max(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers for bursts of messages of these requests; the program waits after each burst.
    fn answers(bursts: &[std::ops::Range<usize>]) -> Vec<String> {
        let (mut windows, overlap) = (PeerWindows::default(), Overlap::default());
        let mut answer = |burst: &std::ops::Range<usize>| {
            let note = |handle| {
                windows.note_sent(&overlap, handle, |last| burst.contains(&last));
                windows.is_sent(&overlap)
            };
            burst.clone().map(note).map(|is_window| if is_window { 'w' } else { '-' }).collect::<String>()
        };
        bursts.iter().map(&mut answer).collect()
    }

    /// Messages that stand alone, pairs, and windows.   Expect: the first window is known from its fourth
    /// message on, later ones from their first. The message after the last window that stands alone counts
    /// as one of a window, and no later one does.
    #[test]
    fn a_window_is_known_by_the_one_before() {
        let found = answers(&[0..1, 1..3, 3..6, 6..14, 14..20, 20..21, 21..23]);
        assert_eq!(found, ["-", "--", "---", "---wwwww", "wwwwww", "w", "--"]);
    }

    /// Persistent requests are started again and again: four together, then one of them alone.   Expect: the
    /// same as for others.
    #[test]
    fn requests_that_are_started_again_tell_windows_as_others_do() {
        let found = answers(&[0..4, 0..4, 3..4, 3..4, 3..4]);
        assert_eq!(found, ["---w", "wwww", "w", "-", "-"]);
    }

    /// Programs start a message in one direction or in both, and wait for them after 0.1 µs; later they
    /// compute for 1 µs.   Expect: exchanged messages count as windows from the fifth wait on, and not after
    /// a longer wait. Others never do.
    #[test]
    fn messages_that_are_exchanged_and_waited_for_at_once_are_windows() {
        for (is_exchanged, expected) in [(true, "----www--"), (false, "---------")] {
            let (mut windows, mut overlap) = (PeerWindows::default(), Overlap::default());
            let (mut now, mut found) = (0, String::new());
            for (turn, ticks) in [250, 250, 250, 250, 250, 250, 2_500, 250, 2_500].into_iter().enumerate() {
                // The program waits for each message that it has started.
                let started = std::cell::Cell::new(0);
                let is_outstanding = |handle: usize| started.get() & 1 << handle != 0;
                if is_exchanged || turn % 2 == 1 {
                    windows.note_received(&overlap, (1, false), is_outstanding);
                    started.set(started.get() | 1 << 1);
                }
                if is_exchanged || turn % 2 == 0 {
                    windows.note_sent(&overlap, 2, is_outstanding);
                }
                found.push(if windows.is_sent(&overlap) || windows.is_received(&overlap) { 'w' } else { '-' });
                overlap.start(now);
                now += ticks;
                overlap.wait(|| now);
            }
            assert_eq!(found, expected);
        }
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
