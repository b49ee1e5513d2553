//! What a collective operation is given: its buffers, their datatypes, the reduction, and the processes that take part.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use weft_core::layout::{Element, Layout};
use weft_core::reduce::Op;

use crate::group::Group;
use crate::memory::{Address, UserFunction};

/// A reduction operation of the program (MPI-5.0 §6.9.5).
#[derive(Clone, Copy, Debug)]
pub struct UserOperation {
    /// The C function.
    pub function: UserFunction,
    /// Whether operands may change places.
    pub commutative: bool,
}

/// What a reduction does.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// One of the standard's.
    Predefined(Op),
    /// The program's.
    User(UserOperation),
}

impl Operation {
    /// Whether operands may change places.
    pub fn is_commutative(&self) -> bool {
        match self {
            Self::Predefined(_) => true,
            Self::User(user) => user.commutative,
        }
    }
}

/// What a collective needs to know of a datatype. Operations that use it keep it alive.
pub trait Datatype: std::marker::Send + Sync {
    /// Where the bytes of an item are.
    fn layout(&self) -> &Layout;
    /// Set for predefined types.
    fn element(&self) -> Option<Element>;
    /// The program's handle of it, for reduction functions of the program.
    fn handle(&self) -> &AtomicUsize;
}

/// A datatype as collectives hold it.
pub type SharedDatatype = Arc<dyn Datatype>;

/// The buffers of a collective, as the program gave them.
#[derive(Clone)]
pub struct Arguments {
    /// Send buffer; where `MPI_IN_PLACE` was given, it is never used.
    pub send: Address,
    /// Receive buffer, or the only one.
    pub receive: Address,
    /// Datatype of the send buffer.
    pub send_type: Option<SharedDatatype>,
    /// Datatype of the receive buffer.
    pub receive_type: Option<SharedDatatype>,
    /// `sendtypes` of `MPI_Alltoallw`.
    pub send_types: Vec<SharedDatatype>,
    /// `recvtypes` of `MPI_Alltoallw`.
    pub receive_types: Vec<SharedDatatype>,
    /// The reduction.
    pub operation: Option<Operation>,
}

impl Arguments {
    /// No buffers.
    pub const fn none() -> Self {
        Self {
            send: Address::NULL,
            receive: Address::NULL,
            send_type: None,
            receive_type: None,
            send_types: Vec::new(),
            receive_types: Vec::new(),
            operation: None,
        }
    }
}

/// Where the messages of a collective go: among whom, and apart from all others.
#[derive(Clone)]
pub struct Place {
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
}
