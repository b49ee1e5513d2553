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
    /// Messages of fewer bytes are quicker as packets.
    pub bytes_min: u64,
    /// One-sided operations of fewer bytes are quicker as records in packets.
    pub one_sided_min: u64,
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
