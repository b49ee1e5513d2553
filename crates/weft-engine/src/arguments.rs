//! The arguments of a collective operation: its buffers, their datatypes, the reduction, and the processes
//! that take part.
//!
//! `weft-abi` and `weft-mpi` fill them in from a call of the program; `crate::schedules` runs the operation
//! with them.

use std::sync::Arc;

use crate::group::Group;

pub use crate::memory::{Address, Arguments, Bound, Datatype, Operation, SharedDatatype, UserOperation};

/// The scope of a collective's messages: its processes, and the context and tag that keep them apart from all
/// others.
#[derive(Clone)]
pub struct CollectiveScope {
    /// The communicator whose error handler is called.
    pub communicator: usize,
    /// The context of the messages.
    pub context: u32,
    /// The tag of the messages.
    pub tag: i32,
    /// The processes.
    pub group: Arc<Group>,
    /// The rank of this process in the group.
    pub rank: u32,
    /// The source in the envelopes of each member, where its rank in `group` is not unique among all senders
    /// in this context. Groups that overlap may agree in one context (MPI-5.0 §7.4.2,
    /// `MPI_Comm_create_group`). Rank 0 of one of these groups is another process than rank 0 of another
    /// group.
    pub sources: Option<Arc<[u32]>>,
    /// The operation's turn among those that go through memory that the node's processes share, if it is one
    /// of those.
    pub turn: Option<Turn>,
}

/// The turn of an operation in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The slot.
    pub slot: u32,
    /// The first phase of the operation.
    pub first: u32,
}
