//! Multicast on communicators: what is wanted of it, and what is known.

use weft_core::multicast::Scheme;
use weft_core::time::Duration;

/// What a user wants of multicast (`WEFT_MULTICAST`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Wanted {
    /// None of it.
    #[default]
    Off,
    /// Where it is possible, by the scheme that fits the group.
    Auto,
    /// The same by this scheme, from the first broadcast on.
    By(Scheme),
}

impl Wanted {
    /// Reads the setting; `None`: it is none.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "off" => Some(Self::Off),
            "auto" => Some(Self::Auto),
            scheme => scheme.parse().ok().map(Self::By),
        }
    }
}

/// How a communicator stands with multicast: the same at all its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multicast {
    /// It has not been tried; after so many broadcasts.
    Untried(u32),
    /// The network carries it.
    Works,
    /// It does not, or not everywhere.
    Impossible,
}

impl Default for Multicast {
    fn default() -> Self {
        Self::Untried(0)
    }
}

/// What a process knows of multicast, on all its communicators together.
pub struct Knowledge {
    /// What the user wants.
    pub wanted: Wanted,
    /// After so much silence a member of a group that is asked has failed; zero: never.
    pub peer_timeout: Duration,
    /// Trying has failed once: it is not tried again.
    pub(crate) fails: bool,
    /// A number that no group has had to which this process belongs.
    pub(crate) next_generation: u32,
}

impl Knowledge {
    /// Nothing is known, and nothing wanted.
    pub(crate) const fn new() -> Self {
        Self { wanted: Wanted::Off, peer_timeout: Duration(0), fails: false, next_generation: 0 }
    }
}
