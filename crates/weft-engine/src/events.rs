//! What happened to messages, noted for tools that want to hear of it (MPI-5.0 §15.3.8): only while one does.

use std::collections::VecDeque;

use weft_core::matching::Envelope;

use crate::group::PeerId;

/// Events that are kept until somebody takes them; what comes beyond is counted and dropped.
pub const EVENTS_MAX: usize = 4096;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message has come that no receive asks for.
    Unexpected,
    /// Such a message has found its receive.
    Matched,
    /// Packets were sent again; how many.
    Resent,
    /// Ways to peers failed; how many.
    PathFailed,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Unexpected, Self::Matched, Self::Resent, Self::PathFailed];
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: Kind,
    /// When, ns of the machine's monotonic clock.
    pub time_ns: u64,
    /// With whom, if that is one process.
    pub peer: Option<PeerId>,
    /// The message's tag and context.
    pub envelope: Envelope,
    /// Bytes of the message, or how many of what was counted.
    pub amount: u64,
}

/// Events that nobody has taken.
pub struct Events {
    queue: VecDeque<Event>,
    dropped: [u64; Kind::ALL.len()],
    now: fn() -> u64,
}

impl Events {
    /// None so far; `now` is the clock.
    pub fn new(now: fn() -> u64) -> Self {
        Self { queue: VecDeque::new(), dropped: [0; Kind::ALL.len()], now }
    }

    /// Notes that something has happened.
    pub fn note(&mut self, kind: Kind, peer: Option<PeerId>, envelope: Envelope, amount: u64) {
        if self.queue.len() == EVENTS_MAX {
            self.dropped[kind as usize] += 1;
            return;
        }
        self.queue.push_back(Event { kind, time_ns: (self.now)(), peer, envelope, amount });
    }

    /// Whether there is anything to take.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes all, oldest first, and how many of each kind were dropped.
    pub fn take(&mut self) -> (Vec<Event>, [u64; Kind::ALL.len()]) {
        (self.queue.drain(..).collect(), std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_beyond_the_limit_are_counted_by_their_kind_and_the_order_stays() {
        let mut events = Events::new(|| 7);
        let envelope = Envelope { context: 0, source: 1, tag: 2 };
        for amount in 0..EVENTS_MAX as u64 + 3 {
            events.note(Kind::Matched, None, envelope, amount);
        }
        let (taken, dropped) = events.take();
        assert_eq!((taken.len(), dropped), (EVENTS_MAX, [0, 3, 0, 0]));
        assert!(taken.iter().zip(0..).all(|(event, amount)| event.amount == amount && event.time_ns == 7));
        assert_eq!(events.take(), (Vec::new(), [0; 4]));
    }
}
