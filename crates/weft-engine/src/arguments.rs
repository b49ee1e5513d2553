//! What a collective operation is given: its buffers, their datatypes, the reduction, and the processes that
//! take part.

use std::sync::Arc;

use crate::group::Group;

pub use crate::memory::{Address, Arguments, Bound, Datatype, Operation, SharedDatatype, UserOperation};

/// Where the messages of a collective go: among whom, and apart from all others.
#[derive(Clone)]
pub struct CollectiveScope {
    /// Communicator whose error handler hears of errors.
    pub communicator: usize,
    /// Context of the messages.
    pub context: u32,
    /// Their tag.
    pub tag: i32,
    /// The processes.
    pub group: Arc<Group>,
    /// This process's rank among them.
    pub rank: u32,
    /// What stands as the source in each member's messages, where its rank in `group` does not tell it from
    /// everybody else who sends in this context: groups that overlap agree in one context (MPI-5.0 §7.4.2,
    /// `MPI_Comm_create_group`), and the first of one is not the first of another.
    pub sources: Option<Arc<[u32]>>,
    /// Where it stands among the operations that go through memory that the node's processes share, if it is
    /// one of those.
    pub turn: Option<Turn>,
}

/// An operation among those of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The slot.
    pub slot: u32,
    /// Its first phase.
    pub first: u32,
}
