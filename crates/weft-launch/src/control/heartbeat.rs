//! Heartbeats between hosts: what `mpiexec` and its agents say about them.

use super::codec::{Decode, Encode, Reader, structure};
use std::net::SocketAddr;

/// The part of an agent in the heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// The number of the host.
    pub(crate) member: u32,
    /// The longest silence of a host, in milliseconds.
    pub(crate) limit_ms: u64,
}

structure!(Heartbeat { member, limit_ms });

/// Another host, and where its agent listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) member: u32,
    pub(crate) addresses: Vec<SocketAddr>,
}

structure!(Listener { member, addresses });

/// A word of `mpiexec` to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToMember {
    /// Heartbeats go to `next`, and those of `watched` are expected; at once, if they are known to come
    /// through.
    Place { next: Option<Listener>, watched: Option<u32>, is_audible: bool },
    /// Ask the anchor until it answers.
    Ask { round: u32, anchor: Listener },
    /// The others go on without this host: end its ranks. The text says why.
    Excluded(String),
}

/// A word of an agent to `mpiexec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromMember {
    /// The agent listens at these addresses.
    Listens(Vec<SocketAddr>),
    /// A heartbeat has come from the host that it watches, the first one or the first after a silence.
    Audible,
    /// No heartbeat has ever come from this host.
    Unheard { member: u32 },
    /// Heartbeats of this host have come, and come no more.
    Silent { member: u32 },
    /// The agent asks the anchor of this round.
    Asking { round: u32 },
    /// The anchor of this round has answered.
    Heard { round: u32 },
    /// All ranks of the host have ended, and it sends no more.
    Leaves,
}

impl Encode for SocketAddr {
    fn encode(&self, out: &mut Vec<u8>) {
        self.to_string().encode(out);
    }
}

impl Decode for SocketAddr {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        String::decode(reader)?.parse().ok()
    }
}

impl Encode for ToMember {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Place { next, watched, is_audible } => (0u8, next, watched, is_audible).encode(out),
            Self::Ask { round, anchor } => (1u8, round, anchor).encode(out),
            Self::Excluded(why) => (2u8, why).encode(out),
        }
    }
}

impl Decode for ToMember {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match u8::decode(reader)? {
            0 => Self::Place {
                next: Decode::decode(reader)?,
                watched: Decode::decode(reader)?,
                is_audible: Decode::decode(reader)?,
            },
            1 => Self::Ask { round: Decode::decode(reader)?, anchor: Decode::decode(reader)? },
            2 => Self::Excluded(Decode::decode(reader)?),
            _ => return None,
        })
    }
}

impl Encode for FromMember {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Listens(addresses) => (0u8, addresses).encode(out),
            Self::Audible => 1u8.encode(out),
            Self::Unheard { member } => (2u8, member).encode(out),
            Self::Silent { member } => (3u8, member).encode(out),
            Self::Asking { round } => (4u8, round).encode(out),
            Self::Heard { round } => (5u8, round).encode(out),
            Self::Leaves => 6u8.encode(out),
        }
    }
}

impl Decode for FromMember {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match u8::decode(reader)? {
            0 => Self::Listens(Decode::decode(reader)?),
            1 => Self::Audible,
            2 => Self::Unheard { member: Decode::decode(reader)? },
            3 => Self::Silent { member: Decode::decode(reader)? },
            4 => Self::Asking { round: Decode::decode(reader)? },
            5 => Self::Heard { round: Decode::decode(reader)? },
            6 => Self::Leaves,
            _ => return None,
        })
    }
}
