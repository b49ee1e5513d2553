//! The shape of a network: its links, and the nodes at their ends.

use weft_core::time::Duration;

/// Bytes on the wire beside each datagram: preamble, Ethernet header, checksum and gap (38), IPv4 (20), UDP
/// (8).
pub const FRAME_OVERHEAD: u64 = 66;
/// The shortest frame with preamble and gap, bytes.
pub const FRAME_MIN: u64 = 84;

/// A direction of a cable with the transmitter in front of it; the other direction is alike.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The rate in megabits per second, which is bits per microsecond.
    pub rate: u64,
    /// The time from one end to the other.
    pub propagation: Duration,
    /// The bytes in the queue above which packets are marked (RFC 3168; a single threshold as in RFC 8257).
    pub mark_bytes: Option<u64>,
    /// The shaper in front, as Linux's `tbf`; only links of ranks have one.
    pub bucket: Option<Bucket>,
}

impl Default for Link {
    fn default() -> Self {
        Self { rate: 10_000, propagation: Duration(4_500), mark_bytes: None, bucket: None }
    }
}

impl Link {
    /// The time for which a datagram of `bytes` bytes occupies the wire.
    pub fn occupancy(&self, bytes: u64) -> Duration {
        Duration((frame_bytes(bytes) * 8000).div_ceil(self.rate))
    }
}

/// The bytes of the wire that a datagram of `datagram` bytes occupies.
pub fn frame_bytes(datagram: u64) -> u64 {
    (datagram + FRAME_OVERHEAD).max(FRAME_MIN)
}

/// A token bucket: a mean rate, and the bytes that may leave at the link's own rate after a rest.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// The mean rate in Mb/s.
    pub rate: u64,
    /// The burst in bytes; a packet that is larger never leaves.
    pub burst_bytes: u64,
    /// Bytes that may wait; more are dropped.
    pub limit_bytes: u64,
}

/// The memory in a switch where packets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// The bytes of each port.
    PerPort(u64),
    /// The bytes of all ports together. One port gets at most as much as is left (Choudhury and Hahne,
    /// Dynamic queue length thresholds for shared-memory packet switches, 1998, with a factor of 1).
    Shared(u64),
}

/// The rule by which a leaf chooses among its spines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spreading {
    /// A spine for each pair of ranks (ECMP, RFC 2992).
    PerFlow,
    /// Any spine for each packet.
    PerPacket,
}

/// The network between the ranks.
#[derive(Clone, Copy, Debug)]
pub enum Topology {
    /// Two ranks and a cable.
    BackToBack {
        /// The cable.
        link: Link,
    },
    /// A cable from every rank to one switch.
    Switch {
        /// The cables.
        link: Link,
        /// The switch's memory.
        buffer: Buffer,
    },
    /// Ranks in equal groups, a leaf switch for each, and spine switches that join all leaves.
    LeafSpine {
        /// The cable from a rank to its leaf.
        link: Link,
        /// The cable from a leaf to a spine.
        trunk: Link,
        /// The number of leaves.
        leaves: u32,
        /// The number of spines.
        spines: u32,
        /// The rule by which a leaf chooses a spine.
        spreading: Spreading,
        /// The memory of each switch.
        buffer: Buffer,
    },
}

/// A name for a cable, both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cable {
    /// The cable of a rank.
    Rank(u32),
    /// The cable of a rank in one of the further networks of a plan, by index from 1.
    Further(u8, u32),
    /// The cable between a leaf and a spine.
    Trunk(u32, u32),
}

/// An end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A rank's host.
    Host(u32),
    /// The one switch, or a leaf.
    Leaf(u32),
    /// A spine.
    Spine(u32),
}

impl Topology {
    /// A switch with default links and this buffer.
    pub fn switch(buffer: Buffer) -> Self {
        Self::Switch { link: Link::default(), buffer }
    }

    /// The link of a rank.
    pub fn link(&self) -> &Link {
        match self {
            Self::BackToBack { link } | Self::Switch { link, .. } | Self::LeafSpine { link, .. } => link,
        }
    }

    /// The link of a rank, to change it.
    pub fn link_mut(&mut self) -> &mut Link {
        match self {
            Self::BackToBack { link } | Self::Switch { link, .. } | Self::LeafSpine { link, .. } => link,
        }
    }

    /// The number of ranks under one leaf, for this number of ranks; all of them where there is one switch.
    pub fn ranks_per_leaf(&self, ranks: u32) -> u32 {
        match self {
            Self::LeafSpine { leaves, .. } => ranks.div_ceil(*leaves),
            Self::BackToBack { .. } | Self::Switch { .. } => ranks,
        }
    }

    /// The ratio of the ranks' links together to the links that leave their leaf, in percent; 100 where
    /// nothing is exceeded.
    pub fn oversubscription_percent(&self, ranks: u32) -> u64 {
        match self {
            Self::LeafSpine { link, trunk, spines, .. } => {
                u64::from(self.ranks_per_leaf(ranks)) * link.rate * 100 / (u64::from(*spines) * trunk.rate)
            }
            Self::BackToBack { .. } | Self::Switch { .. } => 100,
        }
    }

    /// Returns whether packets of one flow can take ways of different length.
    pub fn spreads_packets(&self) -> bool {
        matches!(self, Self::LeafSpine { spreading: Spreading::PerPacket, spines: 2.., .. })
    }

    /// The round trip of a full packet and a short answer between the ranks that are farthest apart, with
    /// empty queues.
    pub fn round_trip(&self, packet_bytes: u64) -> Duration {
        let there_and_back =
            |link: &Link| link.occupancy(packet_bytes).0 + link.occupancy(0).0 + 2 * link.propagation.0;
        Duration(match self {
            Self::BackToBack { link } => there_and_back(link),
            Self::Switch { link, .. } => 2 * there_and_back(link),
            Self::LeafSpine { link, trunk, .. } => 2 * (there_and_back(link) + there_and_back(trunk)),
        })
    }

    /// The reason why this network cannot be built for `ranks` ranks, if there is one.
    pub fn flaw(&self, ranks: u32, packet_size: u64) -> Option<String> {
        let links = match self {
            Self::BackToBack { .. } if ranks != 2 => return Some(format!("a cable joins two ranks, not {ranks}")),
            Self::LeafSpine { leaves, spines, .. } if *leaves == 0 || *spines == 0 => {
                return Some("a network without leaves or spines".into());
            }
            Self::BackToBack { link } | Self::Switch { link, .. } => [link, link],
            Self::LeafSpine { link, trunk, .. } => [link, trunk],
        };
        if links.iter().any(|link| link.rate == 0) {
            return Some("a link without a rate".into());
        }
        let bucket = links[0].bucket?;
        (bucket.rate == 0 || bucket.burst_bytes < frame_bytes(packet_size))
            .then(|| format!("no packet of {packet_size} bytes passes a bucket of {} bytes", bucket.burst_bytes))
    }
}
