//! Remote memory access of a carrier: it may write to the memory of a peer by itself, or read it
//! ([`RemoteMemoryAccess`]).
//!
//! Large messages use it (`weft_core::placement`), and so do one-sided operations
//! (`engine/windows/placed.rs`).
//!
//! A process *registers* memory with its carrier, and gets the [`RemoteMemory`] that a peer needs to reach
//! it. A peer's carrier writes there, and tells its own process when it has done so. Until then the source
//! bytes belong to the carrier. Some carriers also tell the process whose memory it is
//! ([`Placement::tells`]). The memory is given back when it is deregistered: no access that begins after that
//! succeeds.
//!
//! [`RemoteMemoryAccess`]: super::RemoteMemoryAccess

pub use weft_core::placement::RemoteMemory;

/// A carrier's ability to access the memory of peers by itself, and the sizes from which on it is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Set if the carrier can write to memory of a peer. A packet that is sent after a write arrives behind
    /// it.
    pub writes: bool,
    /// Set if the carrier can read from memory of a peer.
    pub reads: bool,
    /// The most bytes of one access.
    pub bytes_max: u64,
    /// The size below which a message is quicker as packets, even if it is announced.
    pub bytes_min: u64,
    /// The size above which a message is better announced, and then written, than sent eagerly.
    pub eager_max: u64,
    /// The size below which a one-sided operation is quicker as a record in a packet.
    pub one_sided_min: u64,
    /// The proof that a write of a one-sided operation is in its place.
    pub proof: Proof,
    /// Set if the carrier tells the process whose memory it is of each write that has ended there
    /// ([`super::RemoteMemoryAccess::poll_written`]). Otherwise the writer has to tell it.
    pub tells: bool,
    /// Set if the carrier writes messages that their receivers have not asked for
    /// ([`super::RemoteMemoryAccess::write_unasked`]).
    pub unasked: bool,
}

/// A write of a peer that has ended in memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The memory.
    pub registration: Registration,
    /// The first byte that was written, counted from the beginning of that memory.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

/// The answer of a carrier that is given an unasked write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// The carrier has taken all bytes, and reads the memory no more.
    Taken,
    /// The carrier has begun, and tells the end as that of any write.
    Begun,
    /// The carrier does not write.
    Refused,
}

/// The proof that a carrier's write is in the memory of the peer, and not only on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The answer to a packet that is sent behind the write.
    Answer,
    /// The completion itself, which the carrier reports (reliable connections of InfiniBand and RoCE).
    Completion,
    /// The arrival of data that is read behind the write: this carrier reports a write when it has left
    /// (iWARP, RFC 5040 §5.5).
    Read,
}

/// The carrier's name for registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registration(pub u32);

/// The outcome of asking a carrier for an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The access is under way: [`super::RemoteMemoryAccess::poll_completion`] will tell of it.
    Yes,
    /// The carrier has no room now: try again later.
    NotNow,
    /// The carrier does not access this memory: another attempt does not help.
    Never,
}
