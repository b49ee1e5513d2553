//! Requests: operations that have begun and may not be complete yet (MPI-5.0 §3.7).
//!
//! The table of requests is the message layer's ([`crate::messages::Messages::requests`]); all parts of the
//! engine and `weft-mpi` start operations as requests.

use std::sync::Arc;

use weft_core::matching::Envelope;

use crate::arguments::{Bound, CollectiveScope};
use crate::callbacks::{MPI_Grequest_cancel_function, MPI_Grequest_free_function, MPI_Grequest_query_function};
use crate::error::Error;
use crate::group::PeerId;
use crate::memory::UserData;
use crate::regions::RegionKey;
use crate::transport::Ticket;

/// The report of a completed operation (MPI-5.0 §3.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender in the communicator, or `MPI_ANY_SOURCE` in an empty status.
    pub source: i32,
    /// The message's tag, or `MPI_ANY_TAG` in an empty status.
    pub tag: i32,
    /// Error class; meaningful only where the standard says that it is set.
    pub error: i32,
    /// Bytes received.
    pub bytes: u64,
    /// Set when the operation was cancelled.
    pub cancelled: bool,
}

impl Status {
    /// The empty status (MPI-5.0 §3.7.3).
    pub const EMPTY: Self = Self { source: -1, tag: -2, error: 0, bytes: 0, cancelled: false };
    /// The status of a receive from `MPI_PROC_NULL` (MPI-5.0 §3.10).
    pub const PROC_NULL: Self = Self { source: -3, tag: -2, error: 0, bytes: 0, cancelled: false };
}

/// The send modes (MPI-5.0 §3.4). Ready sends are sent as standard ones, which the standard allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `MPI_Send`.
    Standard,
    /// `MPI_Ssend`.
    Synchronous,
    /// `MPI_Bsend`: complete as soon as the data is in a buffer of the library.
    Buffered,
}

/// A send as the program asked for it.
#[derive(Clone)]
pub struct Send {
    /// The destination; `None` for `MPI_PROC_NULL`.
    pub peer: Option<PeerId>,
    /// The envelope that the receiver matches.
    pub envelope: Envelope,
    /// The data to be sent.
    pub data: UserData,
    /// The send mode.
    pub mode: Mode,
    /// Set when the program waits for the send in the very call that starts it: then the sender may as well
    /// copy.
    pub blocking: bool,
}

/// A receive as the program asked for it.
#[derive(Clone)]
pub struct Receive {
    /// Context of the communicator; `None` for a receive from `MPI_PROC_NULL`.
    pub context: Option<u32>,
    /// Rank in the communicator, `None` for any.
    pub source: Option<u32>,
    /// The process behind `source`.
    pub peer: Option<PeerId>,
    /// Tag, `None` for any.
    pub tag: Option<i32>,
    /// The memory for the message.
    pub data: UserData,
    /// Set when the program waits for the receive in the very call that starts it.
    pub blocking: bool,
}

/// The receiver's word that it has the data of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fin {
    /// Acknowledgements and completions say as much.
    NotNeeded,
    /// A carrier writes the data, and does not prove that it has arrived. The receiver says so, or asks for
    /// the message anew.
    Awaited,
    /// The receiver has said so. The carrier may not have told yet that it has taken all data.
    Arrived,
}

/// A message that the sender's carrier writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByCarrier {
    /// The sender's name for the message.
    pub request: u32,
    /// Set if the sender has not been asked for the message: it is an eager write.
    pub is_unasked: bool,
}

/// A receive whose message is granted in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Pulled {
    /// The sender's name for the message.
    pub request: u32,
    /// Bytes that have arrived and of which the grants have been told.
    pub counted: u64,
}

/// The state of an operation.
pub enum State {
    /// A send that waits behind others on a full path.
    Queued(Send),
    /// A send whose data stays here until the receiver asks for it.
    Announced(Send),
    /// A send whose data is on its way.
    Sending {
        /// The send as the program asked for it.
        send: Send,
        /// The receiver's name for the memory that the data goes to.
        remote_key: u32,
        /// The region from which the data is read.
        region: Option<RegionKey>,
        /// Bytes that the receiver takes.
        total: u64,
        /// Bytes of `total` that may be sent so far.
        granted: u64,
        /// Bytes of `total` that are not acknowledged yet.
        left: u64,
        /// The receiver's word that it has the data.
        fin: Fin,
    },
    /// A synchronous send that has left and waits for the match.
    AwaitingMatch {
        /// The process that must match the send.
        peer: PeerId,
        /// The context of the send, which a cancellation names.
        context: u32,
    },
    /// A message that goes to all hosts of its context's multicast group.
    Multicasting(Send),
    /// A receive that waits for its message.
    Posted(Receive),
    /// A receive whose message is arriving in pieces.
    Receiving {
        /// The sender.
        peer: PeerId,
        /// The memory for the message.
        data: UserData,
        /// Bytes that will arrive.
        total: u64,
        /// Bytes that have arrived.
        received: u64,
        /// The region that the sender writes to, once it has been asked for the message.
        region: Option<RegionKey>,
        /// Set if the sender sends the message piece by piece, as it is granted.
        pulled: Option<Pulled>,
        /// Set if the sender's carrier writes the message, and may fail at that: then it is asked for anew.
        written: Option<ByCarrier>,
    },
    /// A send and a receive under one handle (`MPI_Isendrecv`): the requests of both.
    Pair {
        /// The send.
        send: usize,
        /// The receive, whose status is that of the pair.
        receive: usize,
    },
    /// A receive of a message with a label, which is checked when the message is there.
    Labelled {
        /// The handle of the request by which the message comes.
        receive: usize,
    },
    /// Buffered messages that must have left (`MPI_Buffer_iflush`): their requests.
    Flush(Vec<usize>),
    /// A collective operation that the progress loop advances.
    Collective,
    /// A one-sided operation, which its window completes (MPI-5.0 §12.3.5).
    OneSided,
    /// An access to a file that a thread of the library makes (MPI-5.0 §14.4).
    FileAccess,
    /// A partitioned operation, whose messages have requests of their own (MPI-5.0 §4).
    Partitioned,
    /// A generalized request that the program completes itself (MPI-5.0 §13.2).
    Generalized,
    /// A complete operation: the status says how it ended.
    Complete,
    /// A persistent request that is not started.
    Inactive,
}

/// The operation that a persistent request does each time it is started (MPI-5.0 §3.9).
#[derive(Clone)]
pub enum Persistent {
    /// A send.
    Send(Send),
    /// A receive.
    Receive(Receive),
    /// A collective.
    Collective(Arc<PersistentCollective>),
    /// A partitioned operation: the code that makes one knows it by its request.
    Partitioned,
}

/// The operation that a persistent collective does each time it is started (MPI-5.0 §6.13).
pub struct PersistentCollective {
    /// The processes that take part.
    pub scope: CollectiveScope,
    /// The operation, with its buffers.
    pub bound: Arc<Bound>,
    /// The operation's own slot in the node's memory, if it goes through one.
    pub slot: Option<u32>,
}

/// The callbacks of a generalized request: functions of the program and their state (MPI-5.0 §13.2). A
/// binding of another language may attach some to any request, for what it has to do when the request
/// completes.
#[derive(Clone, Copy, Debug)]
pub struct Generalized {
    /// Fills in the status.
    pub query: MPI_Grequest_query_function,
    /// Frees the state.
    pub free: MPI_Grequest_free_function,
    /// Cancels the operation. `None`: the callbacks are attached to an operation that Weft cancels.
    pub cancel: Option<MPI_Grequest_cancel_function>,
    /// Passed to each of the functions.
    pub extra_state: usize,
}

/// The program's hold on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The program has a handle.
    Held,
    /// The program has a handle, and has been told that the operation is complete (MPI-5.0 §3.7.6).
    ToldComplete,
    /// The program has no handle any more: the request disappears when it completes.
    Freed,
}

/// The answer to the question whether an operation can be cancelled (MPI-5.0 §3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// The operation can be cancelled as long as it has not come too far.
    Possible,
    /// A cancellation has been asked for, and the peer has not answered.
    Asked,
    /// The operation cannot be cancelled. Collective and one-sided operations can be neither cancelled nor
    /// freed before the program knows that they are complete (MPI-5.0 §6.12, §12.3.5). Partitioned operations
    /// cannot be cancelled (§4.2).
    Excluded,
    /// The request can be freed, but not cancelled, since it is no communication: a flush of a buffer
    /// (MPI-5.0 §3.6).
    OnlyFreed,
}

/// The communicator of requests that belong to no communicator.
pub const NO_COMMUNICATOR: usize = 0;

/// A request: the record of one operation, from its beginning until the program has its result.
pub struct Request {
    /// The state of the operation.
    pub state: State,
    /// Filled in as the operation completes.
    pub status: Status,
    /// The error of the operation, if it has failed.
    pub error: Option<Error>,
    /// The handle of the communicator on which the operation was started; its error handler is called.
    pub communicator: usize,
    /// The program's hold on the request.
    pub hold: Hold,
    /// Says whether the operation can be cancelled.
    pub cancellation: Cancellation,
    /// Set for persistent requests.
    pub persistent: Option<Box<Persistent>>,
    /// Set for generalized requests, and where callbacks are attached.
    pub generalized: Option<Box<Generalized>>,
    /// Set while a receive stands on the table of its sender, which may write the message itself.
    pub ticket: Option<Ticket>,
    /// The weight of the operation among those that are under way; 0 when it is complete.
    pub(crate) weight: Weight,
}

/// The weight of operations under way: their number in the lower half, and in the upper half the number of
/// those that the network may have to move on.
pub(crate) type Weight = u64;

/// The weight of an operation with a process of this node.
pub(crate) const NODE_WEIGHT: Weight = 1;
/// The weight of any other operation.
pub(crate) const FULL_WEIGHT: Weight = NODE_WEIGHT | 1 << 32;

impl State {
    /// Makes the state of a receive to whose memory `total` bytes of `peer` will come.
    pub fn receiving(peer: PeerId, data: UserData, total: u64) -> Self {
        let (region, pulled, written) = (None, None, None);
        Self::Receiving { peer, data, total, received: 0, region, pulled, written }
    }

    /// Returns whether a carrier writes the data of this send to `to`, and the receiver has to say that it
    /// has arrived.
    pub(crate) fn awaits_writes_to(&self, to: PeerId) -> bool {
        match self {
            Self::Sending { send, fin, .. } => *fin != Fin::NotNeeded && send.peer == Some(to),
            _ => false,
        }
    }
}

impl Request {
    /// Makes a request for an operation in `state` on `communicator`.
    #[inline]
    pub fn new(state: State, communicator: usize) -> Self {
        let mut request = Self {
            state: State::Complete,
            status: Status::EMPTY,
            error: None,
            communicator,
            hold: Hold::Held,
            cancellation: Cancellation::Possible,
            persistent: None,
            generalized: None,
            ticket: None,
            weight: 0,
        };
        request.begin(state, communicator);
        request
    }

    /// Reuses a request that [is over](Self::is_over) for an operation in `state` on `communicator`.
    ///
    /// The request is changed in place: it is large, and would be moved in pieces that the processor cannot
    /// forward from its store buffer.
    #[inline(always)]
    pub fn begin(&mut self, state: State, communicator: usize) {
        debug_assert!(self.is_over());
        self.status = Status::EMPTY;
        self.communicator = communicator;
        (self.hold, self.cancellation) = (Hold::Held, Cancellation::Possible);
        self.ticket = None;
        // The old state is `Complete`, which holds nothing that would have to be dropped.
        std::mem::forget(std::mem::replace(&mut self.state, state));
        self.weight = if self.is_complete() { 0 } else { FULL_WEIGHT };
    }

    /// Completes a posted receive.
    #[inline(always)]
    pub(crate) fn end_posted(&mut self) {
        debug_assert!(matches!(self.state, State::Posted(_)));
        if let State::Posted(receive) = &mut self.state {
            receive.data.release();
        }
        self.ticket = None;
        // The only thing that the old state held was the datatype of its data.
        std::mem::forget(std::mem::replace(&mut self.state, State::Complete));
    }

    /// Returns whether a wait for the request would return at once.
    #[inline]
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete | State::Inactive)
    }

    /// Returns whether the operation is complete and nothing but its status remains to be told.
    #[inline]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Complete)
            && self.error.is_none()
            && self.persistent.is_none()
            && self.generalized.is_none()
    }
}
