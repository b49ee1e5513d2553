//! The protocol between `weft doctor` and its agents: one JSON object a line; the agent answers each request
//! once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::facts::Facts;

/// The first words of an agent, behind the output of a remote shell; the version and a newline follow.
pub(crate) const GREETING: &str = "WEFT-DOCTOR ";
/// The version of the command: an agent of another version is not used.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The longest line, bytes.
pub(crate) const LINE_MAX: u64 = 4 << 20;
/// The bytes of a short packet.
pub(crate) const SHORT_BYTES: usize = 64;
/// The copies of each packet in one round: a single loss is not a finding.
pub(crate) const COPIES: usize = 2;

/// A request of the controller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Begin a run: the agent's number in it, the run's token, and the settings that the agent is to assume.
    Begin { index: u16, token: u64, variables: BTreeMap<String, String> },
    /// Answer at once, with the time.
    Ping,
    /// Tell the facts of the host.
    Facts,
    /// Open every link, and join the multicast groups.
    Open,
    /// Send packets to these peers.
    Send { link: String, targets: Vec<Target> },
    /// Send to the multicast groups: a short packet to each, and a full one to the group that programs would
    /// use.
    Multicast,
    /// Send [`BURST`] packets in a row to the group that programs would use.
    MulticastInARow,
    /// Wait until `expected` different packets have arrived, at most for `milliseconds`; report all that ever
    /// arrived.
    Collect { expected: usize, milliseconds: u64 },
    /// Find out the fate of a packet to this peer that does not arrive.
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
    /// The peer's own endpoint address.
    #[serde(rename = "card")]
    pub(crate) endpoint_address: String,
    /// The bytes of the packets; an empty list: a short packet and the largest.
    pub(crate) sizes: Vec<usize>,
}

/// A reply of an agent.
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
        /// The bytes of the longest packet that can be multicast, or the reason why multicast cannot be
        /// tried.
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
    /// The request makes no sense, or cannot be fulfilled; the reason is one sentence.
    Failed {
        why: String,
    },
}

/// The name of libfabric's best endpoint of a host.
pub(crate) const FABRIC: &str = "fabric";
/// The beginning of the names of libfabric's endpoints, where a host has several.
pub(crate) const FABRIC_ON: &str = "fabric on ";
/// The name of UDP between the second pair of interfaces, which may be one that only stands by.
pub(crate) const UDP_ON_OTHERS: &str = "udp on other interfaces";

/// A link of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenedLink {
    pub(crate) name: String,
    /// The address that peers need, or the reason why the link cannot be used here.
    #[serde(rename = "card")]
    pub(crate) endpoint_address: Result<String, String>,
    pub(crate) warnings: Vec<String>,
}

/// The result of sending to one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SentTo {
    pub(crate) peer: u16,
    /// The addresses that were chosen, or the reason why there are none.
    pub(crate) path: Result<LinkPath, String>,
    /// The sizes that the machine refused, each with the reason.
    pub(crate) refused: Vec<(usize, String)>,
}

/// The path to a peer over one link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkPath {
    pub(crate) own: String,
    pub(crate) peer: String,
    /// The largest packets of both ends and of the pair, bytes.
    pub(crate) own_bytes: usize,
    pub(crate) peer_bytes: usize,
    pub(crate) packet_bytes: usize,
}

/// A packet that arrived.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Arrived {
    pub(crate) link: String,
    pub(crate) from: u16,
    pub(crate) bytes: usize,
}

/// The name under which packets to a multicast group that programs use are reported.
pub(crate) const MULTICAST: &str = "multicast";
/// The name under which packets to a group of the link are reported. Switches pass such packets on without
/// knowing which hosts have joined (RFC 4541, §2.1.2).
pub(crate) const MULTICAST_OF_LINK: &str = "multicast of the link";
/// The number of multicast packets in a row, which show a limit on their rate. They have different lengths,
/// the first of which is one more than [`SHORT_BYTES`].
pub(crate) const BURST: usize = 200;

/// The reason why a packet is not answered, as far as the network tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unanswered {
    /// No answer comes: the packet is lost, or dropped by a firewall that does not answer.
    Silence,
    /// The host answers that no process listens there: a firewall rejects, or two hosts have the same
    /// address.
    Refused,
    /// A firewall or router answers that the packet is prohibited.
    Prohibited,
    /// The machine has no route to the peer.
    NoRoute,
    /// The next hop does not answer.
    HostDown,
}
