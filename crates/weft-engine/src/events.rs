//! Events of messages, noted for tools that want to hear of them (MPI-5.0 §15.3.8): only while one does.
//!
//! The message layer and `weft-mpi` note events; `weft-mpi` hands them to the tool (`tools/events.rs`).

use std::collections::VecDeque;

use weft_core::matching::Envelope;

use crate::group::PeerId;

/// The most events that are kept until a tool takes them; later ones are counted and dropped.
pub const EVENTS_MAX: usize = 4096;

/// The kind of an event that a tool can hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message has come that no receive asks for.
    Unexpected,
    /// An unexpected message has found its receive.
    Matched,
    /// Packets were sent again; the amount is their number.
    Resent,
    /// Ways to peers failed; the amount is their number.
    PathFailed,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Unexpected, Self::Matched, Self::Resent, Self::PathFailed];
}

/// An event that a tool can hear of (MPI-5.0 §15.3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kind.
    pub kind: Kind,
    /// The time, in ns of the machine's monotonic clock.
    pub time_ns: u64,
    /// The other process, if there is just one.
    pub peer: Option<PeerId>,
    /// The message's tag and context.
    pub envelope: Envelope,
    /// The bytes of the message, or the number of events that were counted.
    pub amount: u64,
}

/// The events that no tool has taken yet.
pub struct Events {
    queue: VecDeque<Event>,
    dropped: [u64; Kind::ALL.len()],
    now: fn() -> u64,
}

impl Events {
    /// Makes an empty record; `now` is the clock.
    pub fn new(now: fn() -> u64) -> Self {
        Self { queue: VecDeque::new(), dropped: [0; Kind::ALL.len()], now }
    }

    /// Notes an event.
    pub fn note(&mut self, kind: Kind, peer: Option<PeerId>, envelope: Envelope, amount: u64) {
        if self.queue.len() == EVENTS_MAX {
            self.dropped[kind as usize] += 1;
            return;
        }
        self.queue.push_back(Event { kind, time_ns: (self.now)(), peer, envelope, amount });
    }

    /// Returns whether there is no event to take.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes all events, oldest first, and the number of dropped ones of each kind.
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
