//! The facts of a choice: numbers that every rank of the operation has.

use alloc::sync::Arc;
use alloc::vec::Vec;
use weft_ordered::Map;

/// The numbers that a choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Processes of the group.
    pub ranks: u32,
    /// Packed bytes, see the table.
    pub bytes: u64,
    /// The reduction commutes; true where there is none.
    pub commutative: bool,
    /// The places of the processes.
    pub place: Place,
}

/// The operations that may be multicast between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Multicast {
    /// No operation: the network does not carry multicast, it has not been tried, or it is not wanted.
    #[default]
    No,
    /// Other operations than the broadcast; a setting or a hint rules the broadcast out.
    Others,
    /// All operations, where the table chooses multicast.
    Possible,
    /// Broadcasts wherever multicast is possible, because a setting or a hint of the communicator asks for
    /// it; other operations where the table chooses it.
    Asked,
}

/// The places of the processes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Nodes that have processes of the group.
    pub nodes: u32,
    /// Most processes on one node.
    pub per_node: u32,
    /// Processes take turns on the processors that they share.
    pub oversubscribed: bool,
    /// The ranks of each node follow each other.
    pub consecutive: bool,
    /// The bytes that each process can publish at once in memory that all of them read; all processes are on
    /// one node.
    pub published_max: Option<u64>,
    /// The processes may also copy from each other's memory.
    pub copies: bool,
    /// The operations that may be multicast between the nodes.
    pub multicast: Multicast,
}

impl Place {
    /// The place of `ranks` processes, each on a node of its own.
    pub const fn apart(ranks: u32) -> Self {
        Self {
            nodes: ranks,
            per_node: 1,
            oversubscribed: false,
            consecutive: true,
            published_max: None,
            copies: false,
            multicast: Multicast::No,
        }
    }

    /// The place of `ranks` processes, all on one node.
    pub const fn together(ranks: u32) -> Self {
        Self { nodes: 1, per_node: ranks, ..Self::apart(1) }
    }
}

/// The place of each process of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    place: Place,
    /// The node of each rank, by numbers that are equal for the same node; empty where nodes make no
    /// difference.
    nodes: Arc<[u32]>,
    /// The means within a node, where there are several nodes: the bytes that ranks of this rank's node can
    /// publish, and whether they may copy from each other's memory. Other nodes do not know these facts, so
    /// only choices within the node depend on them.
    within: (Option<u64>, bool),
    /// The cluster of each rank, by numbers from 0, if there are several clusters and one of them has several
    /// ranks; else empty.
    clusters: Arc<[u32]>,
}

impl Layout {
    /// The layout of `ranks` processes, each on a node of its own.
    pub fn apart(ranks: u32) -> Self {
        Self { place: Place::apart(ranks), nodes: Arc::new([]), within: (None, false), clusters: Arc::new([]) }
    }

    /// The layout of ranks on these nodes, numbered anyhow.
    pub fn of(nodes: Vec<u32>) -> Self {
        let mut counts = Map::new();
        nodes.iter().for_each(|node| *counts.entry(*node).or_insert(0_u32) += 1);
        let changes = nodes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let place = Place {
            nodes: counts.len() as u32,
            per_node: counts.values().copied().max().unwrap_or(0),
            oversubscribed: false,
            consecutive: changes < counts.len().max(1),
            published_max: None,
            copies: false,
            multicast: Multicast::No,
        };
        let levels = place.nodes > 1 && place.per_node > 1;
        let nodes: Arc<[u32]> = if levels { nodes.into() } else { Arc::new([]) };
        Self { place, nodes, within: (None, false), clusters: Arc::new([]) }
    }

    /// Sets whether the ranks take turns on processors that they share.
    pub fn with_oversubscription(self, oversubscribed: bool) -> Self {
        Self { place: Place { oversubscribed, ..self.place }, ..self }
    }

    /// Sets the bytes that each rank of this rank's node can publish in memory that all of them read; `None`
    /// without such memory.
    pub fn with_published_max(mut self, published_max: Option<u64>) -> Self {
        match self.place.nodes {
            1 => self.place.published_max = published_max,
            _ if self.nodes.is_empty() => {}
            _ => self.within.0 = published_max,
        }
        self
    }

    /// Returns whether ranks of this rank's node can publish data.
    pub fn publishes(&self) -> bool {
        self.place.published_max.or(self.within.0).is_some()
    }

    /// Sets whether the ranks of this rank's node may copy from each other's memory. Without memory in which
    /// they publish, they cannot say where their data is, and so do not copy.
    pub fn with_copies(mut self, copies: bool) -> Self {
        if self.place.nodes == 1 {
            self.place.copies = copies && self.place.published_max.is_some();
        } else {
            self.within.1 = copies && self.within.0.is_some();
        }
        self
    }

    /// Puts the ranks in these clusters, numbered anyhow: between clusters a message takes much longer than
    /// within them. The cluster of a node is that of its first rank.
    pub fn with_clusters(mut self, clusters: &[u32]) -> Self {
        let node = |rank: usize| match (self.nodes.get(rank), self.place.nodes) {
            (Some(node), _) => *node,
            (None, 1) => 0,
            (None, _) => rank as u32,
        };
        let (mut of_nodes, mut numbers) = (Map::new(), Map::new());
        let number = |(rank, cluster): (usize, &u32)| {
            let cluster = *of_nodes.entry(node(rank)).or_insert(*cluster);
            let next = numbers.len() as u32;
            *numbers.entry(cluster).or_insert(next)
        };
        let clusters: Vec<u32> = clusters.iter().enumerate().map(number).collect();
        let levels = numbers.len() > 1 && numbers.len() < clusters.len();
        self.clusters = if levels { clusters.into() } else { Arc::new([]) };
        self
    }

    /// The cluster of each rank, and the number of clusters; none if clusters make no difference.
    pub fn clusters(&self) -> Option<(&[u32], u32)> {
        let last = self.clusters.iter().max()?;
        Some((&self.clusters, last + 1))
    }

    /// The layout of the ranks of this rank's cluster, in this order. All ranks of its node are among them,
    /// so they share here what they share in the whole group.
    pub(in crate::collective) fn part(&self, members: &[u32]) -> Self {
        let (published_max, copies) = match self.place.nodes {
            1 => (self.place.published_max, self.place.copies),
            _ => self.within,
        };
        let node = |rank: &u32| match self.place.nodes {
            1 => 0,
            _ => self.nodes.get(*rank as usize).copied().unwrap_or(*rank),
        };
        Self::of(members.iter().map(node).collect())
            .with_oversubscription(self.place.oversubscribed)
            .with_published_max(published_max)
            .with_copies(copies)
    }

    /// The place of the ranks of one node, as for a group of their own.
    pub(in crate::collective) fn within(&self) -> Place {
        let (published_max, copies) = self.within;
        Place { published_max, copies, ..Place::together(1) }
    }

    /// Sets the operations that may be multicast between the nodes.
    pub fn with_multicast(self, multicast: Multicast) -> Self {
        Self { place: Place { multicast, ..self.place }, ..self }
    }

    /// The place as numbers.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The node of each rank, if there are several nodes and one of them has several ranks; else empty.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }
}
