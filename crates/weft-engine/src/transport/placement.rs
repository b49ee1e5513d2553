//! What a link may do besides carrying packets: write to the memory of a peer by itself, or read it. Large messages use it
//! (`weft_core::placement`), and so do one-sided operations (`engine/windows/placed.rs`).
//!
//! A process *exposes* memory: its link registers it, and returns the [`RemoteMemory`] that a peer needs to reach it. A peer's link writes there
//! with [`Datagrams::write`], and tells when it has done so ([`Datagrams::poll_placed`]). Until then the bytes are its own. The memory is given back
//! with [`Datagrams::conceal`]: no access that begins after it succeeds.
//!
//! [`Datagrams::write`]: super::Datagrams::write
//! [`Datagrams::poll_placed`]: super::Datagrams::poll_placed
//! [`Datagrams::conceal`]: super::Datagrams::conceal

pub use weft_core::placement::RemoteMemory;

/// What a link can do by itself, as far as it has shown it.
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

/// What shows that what a link has written is in the memory of the peer, and not only on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The answer to a packet that is sent behind it.
    Answer,
    /// That the link tells of it at all (reliable connections of InfiniBand and RoCE).
    Completion,
    /// That something which is read behind it is here: the link tells of a write when it has left (iWARP, RFC 5040 §5.5).
    Read,
}

/// Memory that is exposed: the link's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure(pub u32);

/// What became of an access that a link was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is under way: [`super::Datagrams::poll_placed`] will tell of it.
    Yes,
    /// There is no room now: try again later.
    NotNow,
    /// The link does not do that with this memory: another attempt does not help.
    Never,
}
