//! The job that this process belongs to.

use std::collections::{HashMap, HashSet};

use weft_engine::group::PeerId;
use weft_launch::ProcessManager;

use crate::names::SharedNames;

/// How this process belongs to its job.
pub struct Job {
    /// Its process manager.
    pub(crate) manager: Box<dyn ProcessManager>,
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Processes in the job.
    pub size: u32,
    /// `MPI_APPNUM`.
    pub appnum: Option<i32>,
    /// `MPI_UNIVERSE_SIZE`.
    pub universe_size: Option<i32>,
    /// Name of the node: the machine's, and the setting `WEFT_NODE` where it is given.
    pub processor_name: String,
    /// Names of the interfaces over which other nodes are reached, by their number.
    pub(crate) interfaces: Vec<String>,
    /// Whether topologies may give processes other ranks, to bring neighbours to one node.
    pub(crate) reorders: bool,
    /// The node of each process, as a number without meaning but equality.
    pub(crate) nodes: HashMap<PeerId, u64>,
    /// The cluster of each process, where the user has named some; else empty.
    pub(crate) clusters: HashMap<PeerId, u32>,
    /// Processes that take turns on their processors: the job has more on these than there are.
    pub(crate) crowded: HashSet<PeerId>,
    /// Names what the processes of this node share.
    pub(crate) names: SharedNames,
    /// The directory for that, if the user has named one.
    pub(crate) shm_dir: Option<std::path::PathBuf>,
    /// Its processes, by their rank.
    pub members: Vec<PeerId>,
    /// `MPI_APPNUM` of each, by rank.
    pub(crate) appnums: Vec<Option<i32>>,
    /// The launcher has this process's statistics.
    pub(crate) has_reported: bool,
}

impl Job {
    /// Whether two processes of the job are on one node.
    pub fn share_node(&self, one: PeerId, other: PeerId) -> bool {
        self.nodes.get(&one).is_some_and(|node| self.nodes.get(&other) == Some(node))
    }
}
