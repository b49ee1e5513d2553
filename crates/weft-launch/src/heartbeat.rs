//! Heartbeats between the hosts of a job, where the user asks for them: who watches whom, when a silence is a
//! failure, and who is excluded then (docs/design/launch.md).
//!
//! Everything here is policy, without a clock or a socket: times come in, and what is to be done goes out. A
//! [`Member`] is a host as its agent sees it. The [`Ring`] is all hosts as `mpiexec` sees them.

mod beat;
mod member;
mod ring;
#[cfg(test)]
mod tests;

pub(crate) use beat::{BEAT_BYTES, Key};
pub(crate) use member::{Act, Member};
pub(crate) use ring::{Ring, Ruling};

use std::time::Duration;

/// The shortest limit that may be asked for: an agent must get a processor several times within it.
pub(crate) const LIMIT_MIN: Duration = Duration::from_millis(500);

/// The times that follow from the limit, which is the longest silence of a host that lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    limit: Duration,
}

impl Pace {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit }
    }

    /// The limit itself.
    pub(crate) fn limit(self) -> Duration {
        self.limit
    }

    /// The time between two heartbeats.
    pub(crate) fn beat(self) -> Duration {
        self.limit / 20
    }

    /// The silence after which a host is suspected.
    pub(crate) fn suspicion(self) -> Duration {
        self.limit * 8 / 10
    }

    /// The time that a suspected host has to hear the anchor. When a host is stopped, its last heartbeat may
    /// be as old as the time between two, and some may have been lost. So a stop that is shorter than the
    /// limit excludes nobody even then.
    pub(crate) fn answer(self) -> Duration {
        self.limit * 4 / 10
    }

    /// The time that a host has to hear the anchor in the repetition of a round.
    pub(crate) fn repetition(self) -> Duration {
        self.limit * 2 / 10
    }

    /// The time in which a host that is not stopped says that it asks, and hears an answer.
    pub(crate) fn exchange(self) -> Duration {
        self.limit / 10
    }

    /// The time between two looks of one process that says that this process itself was stopped.
    pub(crate) fn stop(self) -> Duration {
        self.limit * 3 / 10
    }

    /// The longest silence of the control channel, in both directions. Signs of life are asked for four times
    /// in it, so the last one may be as old as a quarter of it.
    pub(crate) fn control(self) -> Duration {
        self.limit * 4 / 3
    }
}
