//! What a choice depends on: numbers that every rank of the operation has.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What a choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Processes of the group.
    pub ranks: u32,
    /// Packed bytes, see the table.
    pub bytes: u64,
    /// The reduction commutes; true where there is none.
    pub commutative: bool,
    /// Where the processes are.
    pub place: Place,
}

/// What may be multicast between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Multicast {
    /// The network does not carry it, it has not been tried, or nobody wants it.
    #[default]
    No,
    /// Other operations than the broadcast, for which a setting or a hint says otherwise.
    Others,
    /// Where the table says so.
    Possible,
    /// Broadcasts, wherever it is possible: a setting or a hint of the communicator says so. Others where the
    /// table says so.
    Asked,
}

/// Where the processes of a group are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Nodes with any of them.
    pub nodes: u32,
    /// Most of them on one node.
    pub per_node: u32,
    /// They take turns on the processors that they share.
    pub oversubscribed: bool,
    /// The ranks of each node follow each other.
    pub consecutive: bool,
    /// All of them are on one node, and each can publish so many bytes at once in memory that all of them
    /// read.
    pub published_max: Option<u64>,
    /// The same, and each may copy from the memory of the others.
    pub copies: bool,
    /// What may be multicast between their nodes.
    pub multicast: Multicast,
}

impl Place {
    /// Each of `ranks` processes on a node of its own.
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

    /// All of `ranks` processes on one node.
    pub const fn together(ranks: u32) -> Self {
        Self { nodes: 1, per_node: ranks, ..Self::apart(1) }
    }
}

/// Where each process of a group is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    place: Place,
    /// The node of each rank, as numbers that are equal where the node is; empty where that makes no
    /// difference.
    nodes: Arc<[u32]>,
    /// Where there are several nodes: what the ranks of this rank's node can publish, and whether they may
    /// copy from each other's memory. Other nodes know nothing of that, so only what is done within the node
    /// depends on it.
    within: (Option<u64>, bool),
    /// The cluster of each rank, by numbers from 0, where there are several of which one has several ranks;
    /// else empty.
    clusters: Arc<[u32]>,
}

impl Layout {
    /// Each of `ranks` processes on a node of its own.
    pub fn apart(ranks: u32) -> Self {
        Self { place: Place::apart(ranks), nodes: Arc::new([]), within: (None, false), clusters: Arc::new([]) }
    }

    /// Of ranks on these nodes, numbered anyhow.
    pub fn of(nodes: Vec<u32>) -> Self {
        let mut counts = BTreeMap::new();
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

    /// The same ranks, which take turns on processors that they share, or do not.
    pub fn with_oversubscription(self, oversubscribed: bool) -> Self {
        Self { place: Place { oversubscribed, ..self.place }, ..self }
    }

    /// The same ranks, of which those of this rank's node can publish so many bytes each in memory that all
    /// of them read, if there is such memory.
    pub fn with_published_max(mut self, published_max: Option<u64>) -> Self {
        match self.place.nodes {
            1 => self.place.published_max = published_max,
            _ if self.nodes.is_empty() => {}
            _ => self.within.0 = published_max,
        }
        self
    }

    /// Whether ranks of this rank's node publish something anywhere.
    pub fn publishes(&self) -> bool {
        self.place.published_max.or(self.within.0).is_some()
    }

    /// The same ranks, of which those of this rank's node may copy from each other's memory or may not.
    /// Without memory in which they publish they cannot say where.
    pub fn with_copies(mut self, copies: bool) -> Self {
        if self.place.nodes == 1 {
            self.place.copies = copies && self.place.published_max.is_some();
        } else {
            self.within.1 = copies && self.within.0.is_some();
        }
        self
    }

    /// The same ranks in these clusters, numbered anyhow: between them a message takes much longer than
    /// within them. A node is where its first rank says.
    pub fn with_clusters(mut self, clusters: &[u32]) -> Self {
        let node = |rank: usize| match (self.nodes.get(rank), self.place.nodes) {
            (Some(node), _) => *node,
            (None, 1) => 0,
            (None, _) => rank as u32,
        };
        let (mut of_nodes, mut numbers) = (BTreeMap::new(), BTreeMap::new());
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

    /// The cluster of each rank, and how many there are; none if that makes no difference.
    pub fn clusters(&self) -> Option<(&[u32], u32)> {
        let last = self.clusters.iter().max()?;
        Some((&self.clusters, last + 1))
    }

    /// Some of the ranks, in this order: those of this rank's cluster. What the ranks of its node share they
    /// share here, too, since all of them are here.
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

    /// The same ranks, between whose nodes this may be multicast.
    pub fn with_multicast(self, multicast: Multicast) -> Self {
        Self { place: Place { multicast, ..self.place }, ..self }
    }

    /// The numbers of it.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The node of each rank, where there are several nodes of which one has several ranks; else nothing.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }
}
