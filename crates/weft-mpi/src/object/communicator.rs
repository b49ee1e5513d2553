//! Communicators as objects (MPI-5.0 §7.4, §7.6): their groups and contexts, and the state that is cached
//! with them.

use std::sync::{Arc, OnceLock};

use weft_engine::group::Group;
use weft_plan::agreement::Ranks;
use weft_plan::collective::choice::Layout;

use crate::constants::MPI_ERR_COMM;
use crate::description::{Attributes, Info};
use crate::error::{Error, Result};
use crate::topology::Topology;

/// A communicator (MPI-5.0 §7.4, §7.6).
pub struct Communicator {
    /// Matching context of its point-to-point messages. The next contexts are those of its collectives, of
    /// groups, of leaders and of partitioned operations.
    pub context: u32,
    /// The processes; for an intercommunicator, the local group.
    pub group: Arc<Group>,
    /// The processes that the ranks of point-to-point operations name: its group, or the remote group of an
    /// intercommunicator.
    pub addressed: Arc<Group>,
    /// The parts that make it an intercommunicator.
    pub inter: Option<Inter>,
    /// Rank of this process.
    pub rank: u32,
    /// Handle of its error handler.
    pub error_handler: usize,
    /// Set by `MPI_Comm_set_name`.
    pub name: String,
    /// Cached by the program.
    pub attributes: Attributes,
    /// Hints that the program gave.
    pub info: Info,
    /// The number of collective calls so far, which is the tag of the next.
    pub collectives: u32,
    /// The buffer for buffered sends.
    pub buffer: crate::buffered::Buffer,
    /// The neighbours of each process (§8), if it has a topology.
    pub topology: Option<Arc<Topology>>,
    /// The places of the processes of its group, once a call has asked for them.
    pub layout: OnceLock<Layout>,
    /// The processes may all copy from each other's memory; known once a call has asked.
    pub copies: OnceLock<bool>,
    /// Slot in the node's memory for its collectives, if all its processes have one.
    pub slot: Option<u32>,
    /// The state of multicast between its nodes.
    pub multicast: crate::multicast::Multicast,
    /// The number of failures of its members that the program has acknowledged.
    pub acknowledged: usize,
    /// Set once it has been revoked. Then `addressed` has no members.
    pub revocation: Option<Box<Revocation>>,
}

/// What a communicator keeps once it has been revoked.
pub struct Revocation {
    /// The processes that its point-to-point operations addressed.
    pub addressed: Arc<Group>,
    /// The processes that have been told, by their ranks among all.
    pub(crate) told: Ranks,
}

/// The two groups of an intercommunicator (MPI-5.0 §7.6) as one group, for agreements among all its
/// processes.
#[derive(Clone)]
pub struct Inter {
    /// The processes of the first group, then those of the second. All processes know alike which group is
    /// the first.
    pub both: Arc<Group>,
    /// The rank of this process among them.
    pub rank: u32,
    /// Says that this process is in the first group.
    pub is_first: bool,
}

impl Communicator {
    /// Makes it an intercommunicator with `remote`. `is_first`: its own group is the first of the two.
    pub fn connect(&mut self, remote: Arc<Group>, is_first: bool) {
        let (first, second) = if is_first { (&self.group, &remote) } else { (&remote, &self.group) };
        let own = self.group.members[self.rank as usize];
        let both = self.group.derive(first.members.iter().chain(&second.members).copied().collect(), own);
        let rank = self.rank + if is_first { 0 } else { remote.size() };
        self.inter = Some(Inter { both, rank, is_first });
        self.addressed = remote;
    }

    /// All its processes, of both groups if there are two, and this process's rank among them.
    pub fn everybody(&self) -> (&Arc<Group>, u32) {
        self.inter.as_ref().map_or((&self.group, self.rank), |inter| (&inter.both, inter.rank))
    }

    /// The remote group (MPI-5.0 §7.6.1).
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: an intracommunicator has none.
    pub fn remote(&self) -> Result<(&Arc<Group>, &Inter)> {
        match &self.inter {
            Some(inter) => Ok((self.partners(), inter)),
            None => Err(Error::new(MPI_ERR_COMM, "the communicator is an intracommunicator: it has no remote group")),
        }
    }

    /// Checks that it is an intracommunicator.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for an intercommunicator.
    pub fn intra(&self) -> Result<&Self> {
        match &self.inter {
            None => Ok(self),
            Some(_) => Err(Error::new(
                MPI_ERR_COMM,
                "the communicator is an intercommunicator; it must be an intracommunicator",
            )),
        }
    }

    /// Checks that its processes can run collectives.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` for an intercommunicator.
    #[inline]
    pub fn check_collective(&self) -> Result<&Self> {
        if self.inter.is_some() { Err(no_collectives()) } else { Ok(self) }
    }

    /// Context of the collective operations.
    pub fn collective_context(&self) -> u32 {
        self.context + 1
    }

    /// Context of the agreement among some of its processes (`MPI_Comm_create_group`).
    pub fn group_context(&self) -> u32 {
        self.context + 2
    }

    /// Context in which leaders of groups speak to each other (`MPI_Intercomm_create`).
    pub fn leader_context(&self) -> u32 {
        self.context + 3
    }

    /// Context in which the two sides of partitioned operations meet (MPI-5.0 §4.2.1).
    pub fn partitioned_context(&self) -> u32 {
        self.context + 4
    }

    /// Context of the messages of partitioned operations.
    pub fn partition_context(&self) -> u32 {
        self.context + 5
    }
}

impl Communicator {
    /// Checks that it has not been revoked.
    ///
    /// # Errors
    /// `MPIX_ERR_REVOKED`.
    #[inline]
    pub fn check_not_revoked(&self) -> Result<()> {
        if self.revocation.is_some() { Err(Error::revoked()) } else { Ok(()) }
    }

    /// The processes that its point-to-point operations address, or did before it was revoked.
    pub fn partners(&self) -> &Arc<Group> {
        self.revocation.as_ref().map_or(&self.addressed, |revocation| &revocation.addressed)
    }
}

#[cold]
fn no_collectives() -> Error {
    Error::new(MPI_ERR_COMM, "the communicator is an intercommunicator, for which this operation is not defined")
}
