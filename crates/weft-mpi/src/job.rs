//! The job that this process belongs to. `start/join.rs` makes it and `start/leave.rs` ends it.

use std::collections::{HashMap, HashSet};

use weft_core::wire::Secret;
use weft_engine::carriers::CarrierId;
use weft_engine::group::PeerId;
use weft_launch::ProcessManager;
use weft_net::shared::SharedLink;
use weft_net::udp::Candidate;

use crate::business_card::BusinessCard;
use crate::names::SharedNames;
use crate::settings::Settings;

/// What this process needs to meet processes of other jobs.
pub(crate) struct Introduction {
    pub(crate) settings: Settings,
    /// The card that this process gives to others.
    pub(crate) card: BusinessCard,
    /// The secret of this process's own job.
    pub(crate) secret: Secret,
    /// The link to processes of other jobs on other nodes, once there is one.
    pub(crate) link: Option<Link>,
    /// The link to processes of other jobs on this node, once there is one.
    pub(crate) near: Option<NearLink>,
    /// The addresses of this process, once it has asked for them without a link.
    pub(crate) candidates: Option<Vec<Candidate>>,
}

/// The link by shared memory that leads to processes of other jobs on this node.
#[derive(Clone)]
pub(crate) struct NearLink {
    /// Its name among the carriers.
    pub(crate) carrier: CarrierId,
    pub(crate) link: SharedLink,
}

/// The link by UDP that leads to processes of other jobs.
pub(crate) struct Link {
    /// Its name among the carriers.
    pub(crate) carrier: CarrierId,
    /// The addresses of this process.
    pub(crate) candidates: Vec<Candidate>,
}

/// The job as this process knows it, and its own place in the job.
pub struct Job {
    /// The process manager of the job.
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
    /// Topologies may give processes other ranks, to bring neighbours to one node.
    pub(crate) reorders: bool,
    /// The node of each process, as a number of which only equality means something.
    pub(crate) nodes: HashMap<PeerId, u64>,
    /// The cluster of each process, where the user has named some; else empty.
    pub(crate) clusters: HashMap<PeerId, u32>,
    /// The processes that take turns on their processors: the job has more processes there than there are
    /// processors.
    pub(crate) crowded: HashSet<PeerId>,
    /// The names of the memory and sockets that the processes of this node share.
    pub(crate) names: SharedNames,
    /// The directory for the shared memory of the node, if the user has named one.
    pub(crate) shm_dir: Option<std::path::PathBuf>,
    /// The processes of the job, by rank.
    pub members: Vec<PeerId>,
    /// `MPI_APPNUM` of each, by rank.
    pub(crate) appnums: Vec<Option<i32>>,
    /// The launcher has this process's statistics.
    pub(crate) has_reported: bool,
    /// The job has processes on several hosts, or played ones.
    pub(crate) spans_hosts: bool,
    /// What this process tells processes of other jobs.
    pub(crate) introduction: Introduction,
    /// The intercommunicator with the job that has spawned this one, if one has.
    pub parent: Option<usize>,
}

impl Job {
    /// Returns whether two processes of the job are on one node.
    pub fn share_node(&self, one: PeerId, other: PeerId) -> bool {
        self.nodes.get(&one).is_some_and(|node| self.nodes.get(&other) == Some(node))
    }
}
