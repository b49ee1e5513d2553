//! What a carrier may do besides carrying packets: write to the memory of a peer by itself, or read it
//! ([`RemoteMemoryAccess`]). Large messages use it (`weft_core::placement`), and so do one-sided operations
//! (`engine/windows/placed.rs`).
//!
//! A process *registers* memory with its carrier, and gets the [`RemoteMemory`] that a peer needs to reach
//! it. A peer's carrier writes there, and tells when it has done so. Until then the bytes are its own. The
//! memory is given back when it is deregistered: no access that begins after that succeeds.
//!
//! [`RemoteMemoryAccess`]: super::RemoteMemoryAccess

pub use weft_core::placement::RemoteMemory;

/// What a carrier can do to the memory of peers by itself, and from which lengths on it is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Write to memory of a peer; a packet that is sent after it has done so arrives behind what was written.
    pub writes: bool,
    /// Read from it.
    pub reads: bool,
    /// Bytes of one access, at most.
    pub bytes_max: u64,
    /// Messages of fewer bytes are quicker as packets, also those that are announced.
    pub bytes_min: u64,
    /// Messages of more bytes are better announced, and then written, than sent unasked.
    pub eager_max: u64,
    /// One-sided operations of fewer bytes are quicker as records in packets.
    pub one_sided_min: u64,
    /// What shows that what it has written for a one-sided operation is in its place.
    pub proof: Proof,
}

/// What shows that what a carrier has written is in the memory of the peer, and not only on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The answer to a packet that is sent behind it.
    Answer,
    /// That the carrier tells of it at all (reliable connections of InfiniBand and RoCE).
    Completion,
    /// That something which is read behind it is here: the carrier tells of a write when it has left (iWARP,
    /// RFC 5040 §5.5).
    Read,
}

/// Memory that is registered: the carrier's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration(pub u32);

/// What became of an access that a carrier was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is under way: [`super::RemoteMemoryAccess::poll_completion`] will tell of it.
    Yes,
    /// There is no room now: try again later.
    NotNow,
    /// The carrier does not do that with this memory: another attempt does not help.
    Never,
}
