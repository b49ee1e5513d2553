//! Windows of messages: a program starts one message to a peer after another, and waits for them together.
//!
//! The message that stands alone and the first of a window look alike when they are started, so a window is
//! known by the one before.

/// The messages of a burst from which on it counts as a window. Shorter ones are the sends of programs that
/// exchange their borders, and compute between the start of the sends and their end.
const WINDOW_MIN: u32 = 4;

/// The nonblocking messages to one peer, or from it, as far as they tell windows.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    /// The request of the last message.
    last: Option<usize>,
    /// The messages that were started without waiting for those before, up to the last.
    burst: u32,
    /// The same of the burst before.
    before: u32,
    /// The messages that had left for the peer when the last send was noted.
    left: Option<u64>,
}

impl Windows {
    /// Notes the message of the request `handle`, and returns whether it belongs to a window, as far as is
    /// known. `is_outstanding` says whether the program still has to wait for a request.
    pub(crate) fn note(&mut self, handle: usize, is_outstanding: impl FnOnce(usize) -> bool) -> bool {
        // A persistent request that is started again has been waited for.
        if self.last.is_some_and(|last| last != handle && is_outstanding(last)) {
            self.burst = self.burst.saturating_add(1);
        } else {
            self.before = std::mem::replace(&mut self.burst, 1);
        }
        self.last = Some(handle);
        self.burst.max(self.before) >= WINDOW_MIN
    }

    /// Does the same for a send, which counts once however often it finds no room. `left` is the number of
    /// messages that have left for the peer.
    pub(crate) fn note_send(&mut self, handle: usize, left: u64, is_outstanding: impl FnOnce(usize) -> bool) -> bool {
        if self.left.replace(left) == Some(left) {
            return self.burst.max(self.before) >= WINDOW_MIN;
        }
        self.note(handle, is_outstanding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers for bursts of messages of these requests; the program waits after each burst.
    fn answers(windows: &mut Windows, bursts: &[std::ops::Range<usize>]) -> Vec<String> {
        let answer = |burst: &std::ops::Range<usize>| {
            let note = |handle| windows.note(handle, |last| burst.contains(&last));
            burst.clone().map(note).map(|is_window| if is_window { 'w' } else { '-' }).collect::<String>()
        };
        bursts.iter().map(answer).collect()
    }

    /// Messages that stand alone, pairs, and windows.   Expect: the first window is known from its fourth
    /// message on, later ones from their first. The message after the last window that stands alone counts
    /// as one of a window, and no later one does.
    #[test]
    fn a_window_is_known_by_the_one_before() {
        let found = answers(&mut Windows::default(), &[0..1, 1..3, 3..6, 6..14, 14..20, 20..21, 21..23]);
        assert_eq!(found, ["-", "--", "---", "---wwwww", "wwwwww", "w", "--"]);
    }

    /// Persistent requests are started again and again: four together, then one of them alone.   Expect: the
    /// same as for others.
    #[test]
    fn requests_that_are_started_again_tell_windows_as_others_do() {
        let found = answers(&mut Windows::default(), &[0..4, 0..4, 3..4, 3..4, 3..4]);
        assert_eq!(found, ["---w", "wwww", "w", "-", "-"]);
    }

    /// A send finds no room ten times.   Expect: it counts once.
    #[test]
    fn a_send_counts_once() {
        let mut windows = Windows::default();
        assert!((0..10).all(|_| !windows.note_send(7, 3, |_| true)));
        assert!(!windows.note_send(8, 4, |_| true));
        assert_eq!(windows.burst, 2);
    }
}
