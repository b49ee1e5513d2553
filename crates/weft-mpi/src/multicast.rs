//! Multicast on communicators: what is wanted of it, and what is known.

pub use weft_core::multicast::{Scheme, model, simulation};
use weft_core::time::Duration;

/// The hint of a communicator that says by which scheme its broadcasts are multicast, as `WEFT_BCAST` says it for all.
pub const HINT: &str = "weft_bcast";

/// What a user wants of multicast (`WEFT_BCAST`, or the hint of a communicator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// None of it (`tree`, or another algorithm).
    Off,
    /// Where it is possible and the table chooses it, by the scheme that fits the group (`auto`).
    Auto,
    /// Wherever it is possible, from the first broadcast on: by the scheme that fits the group (`multicast`), or by this one.
    By(Option<Scheme>),
}

impl Wanted {
    /// Reads the setting; `None`: it names something else.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "tree" => Some(Self::Off),
            "auto" => Some(Self::Auto),
            "multicast" => Some(Self::By(None)),
            scheme => scheme.parse().ok().map(|scheme| Self::By(Some(scheme))),
        }
    }
}

/// How a communicator stands with multicast: the same at all its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multicast {
    /// It has not been tried; after so many broadcasts.
    Untried(u32),
    /// The network carries it, or did when all last looked; after so many broadcasts.
    Works(u32),
    /// It does not, or not everywhere.
    Impossible,
    /// It did, and then lost too much: what has been planned to be multicast still is, and nothing new.
    GivenUp,
}

impl Default for Multicast {
    fn default() -> Self {
        Self::Untried(0)
    }
}

/// What a process knows of multicast, on all its communicators together.
pub struct Knowledge {
    /// What the user wants where a communicator has no hint.
    wanted: Wanted,
    /// After so much silence a member of a group that is asked has failed; zero: never.
    pub(crate) peer_timeout: Duration,
    /// What is sent is sealed for one receiver: there is none.
    is_sealed: bool,
    /// Trying has failed once, or what worked does no longer: it is not tried again.
    pub(crate) fails: bool,
    /// A number that no group has had to which this process belongs.
    pub(crate) next_generation: u32,
}

impl Knowledge {
    /// Nothing is known.
    pub(crate) const fn new(wanted: Wanted, is_sealed: bool, peer_timeout: Duration) -> Self {
        Self { wanted, peer_timeout, is_sealed, fails: false, next_generation: 0 }
    }

    /// What is wanted of it on a communicator with these hints.
    pub fn wanted(&self, hints: &[(String, String)]) -> Wanted {
        if self.is_sealed {
            return Wanted::Off;
        }
        let hint = hints.iter().find(|(key, _)| key == HINT);
        hint.and_then(|(_, value)| Wanted::parse(value)).unwrap_or(self.wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_broadcast_are_told_from_algorithms() {
        assert_eq!(Wanted::parse("tree"), Some(Wanted::Off));
        assert_eq!(Wanted::parse("auto"), Some(Wanted::Auto));
        assert_eq!(Wanted::parse("multicast"), Some(Wanted::By(None)));
        assert_eq!(Wanted::parse("window"), Some(Wanted::By(Some(Scheme::WINDOW))));
        assert_eq!(Wanted::parse("binomial"), None);
    }
}
