//! What `weft doctor` and its agents say to each other: one JSON object a line, the agent answers each
//! request once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::Facts;

/// What an agent says first, past whatever a remote shell prints; the version and a newline follow.
pub(crate) const GREETING: &str = "WEFT-DOCTOR ";
/// The version of the command: agents of another one are not talked to.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Longest line, bytes.
pub(crate) const LINE_MAX: u64 = 4 << 20;
/// Bytes of a short packet.
pub(crate) const SHORT_BYTES: usize = 64;
/// Copies of each packet in one round: a single loss is not a finding.
pub(crate) const COPIES: usize = 2;

/// From the controller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Who the agent is in this run, and the settings it shall assume.
    Begin { index: u16, token: u64, variables: BTreeMap<String, String> },
    /// Answer at once, with the time.
    Ping,
    /// Tell the facts of the host.
    Facts,
    /// Open every link, and join the multicast groups.
    Open,
    /// Send to these.
    Send { link: String, targets: Vec<Target> },
    /// Send to the multicast groups: a short packet to each, and a full one to the one that programs would
    /// use.
    Multicast,
    /// Send [`BURST`] packets in a row to the group that programs would use.
    MulticastInARow,
    /// Wait for packets until so many different ones are there, at most so long; tell all that ever came.
    Collect { expected: usize, milliseconds: u64 },
    /// Find out what becomes of a packet to this peer that does not arrive.
    Trace {
        link: String,
        #[serde(rename = "card")]
        endpoint_address: String,
    },
}

/// A peer to send to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) peer: u16,
    /// The peer's words on its own addresses.
    #[serde(rename = "card")]
    pub(crate) endpoint_address: String,
    /// Bytes of the packets; empty: a short one and the largest.
    pub(crate) sizes: Vec<usize>,
}

/// From an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(crate) enum Reply {
    Done,
    /// Nanoseconds since 1970, by the host's clock.
    Time {
        nanoseconds: u64,
    },
    Facts(Box<Facts>),
    Opened {
        links: Vec<OpenedLink>,
        /// Bytes of the longest packet that can be multicast, or why multicast cannot be tried.
        multicast: Result<usize, String>,
    },
    Sent {
        targets: Vec<SentTo>,
    },
    Arrived {
        packets: Vec<Arrived>,
    },
    Traced {
        #[serde(rename = "fate")]
        unanswered: Unanswered,
    },
    /// The request makes no sense, or cannot be fulfilled: one sentence.
    Failed {
        why: String,
    },
}

/// libfabric's best endpoint of a host …
pub(crate) const FABRIC: &str = "fabric";
/// … and what the names of its endpoints begin with where there are several.
pub(crate) const FABRIC_ON: &str = "fabric on ";

/// A link of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenedLink {
    pub(crate) name: String,
    /// What peers need to know, or why the link cannot be used here.
    #[serde(rename = "card")]
    pub(crate) endpoint_address: Result<String, String>,
    pub(crate) warnings: Vec<String>,
}

/// What was sent to one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SentTo {
    pub(crate) peer: u16,
    /// The addresses that were chosen, or why none.
    pub(crate) path: Result<LinkPath, String>,
    /// By size: what the machine refused, and why.
    pub(crate) refused: Vec<(usize, String)>,
}

/// The way to a peer over one link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkPath {
    pub(crate) own: String,
    pub(crate) peer: String,
    /// Largest packets of both ends and of the pair, bytes.
    pub(crate) own_bytes: usize,
    pub(crate) peer_bytes: usize,
    pub(crate) packet_bytes: usize,
}

/// A packet that came, and how often.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Arrived {
    pub(crate) link: String,
    pub(crate) from: u16,
    pub(crate) bytes: usize,
}

/// The names under which multicast packets are told: to a group as programs use them, …
pub(crate) const MULTICAST: &str = "multicast";
/// … and to one of the link, which switches pass on without knowing who has joined (RFC 4541, §2.1.2).
pub(crate) const MULTICAST_OF_LINK: &str = "multicast of the link";
/// Multicast packets in a row, by which a limit on their rate shows. They have different lengths, from one
/// more than [`SHORT_BYTES`] on.
pub(crate) const BURST: usize = 200;

/// Why a packet is not answered, as far as the network says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unanswered {
    /// Nobody says anything: lost, or dropped by a firewall that does not answer.
    Silence,
    /// The host answers that nobody listens there: a firewall that rejects, or an address that two hosts
    /// have.
    Refused,
    /// A firewall or router answers that it is prohibited.
    Prohibited,
    /// This machine knows no way there.
    NoRoute,
    /// The next hop does not answer.
    HostDown,
}
