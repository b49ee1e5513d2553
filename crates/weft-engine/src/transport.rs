//! What the engine asks of its carriers, and of whoever runs it. Every call to the system, the clock and the
//! processors is behind these traits: the engine itself is a function of what they say, so that a simulator
//! can run it in virtual time.
//!
//! | trait | what it stands for | who has it |
//! |---|---|---|
//! | [`Platform`] | the clock, and the kinds of carrier that the engine is built for | the process; a simulator |
//! | [`Node`] and its parts | frames between the processes of one node, how they sleep, and what else they share | shared memory |
//! | [`NeighbourMemory`] | one copy between two address spaces of the node | the kernel's cross-memory calls |
//! | [`Carrier`] | packets to other nodes, and whatever else it says that it can do ([`CarrierAttributes`]) | UDP, raw Ethernet frames, AF_XDP, libfabric, RDMA devices |

mod absent;
mod carrier;
mod node;
mod placement;
mod posted;
mod slots;
mod wrapper;

use weft_core::time::Instant;

pub use crate::memory::NeighbourMemory;

pub use carrier::{
    Address, AddressKind, Arrival, Carrier, CarrierAttributes, Delivery, Diagnostics, EthernetAddress, FabricAddress,
    JOINED_MAX, Look, Multicast, MulticastAttributes, Outcome, RemoteMemoryAccess, VerbsAddress, receive_packets,
    send_one_by_one, wrong_address,
};
pub use node::{Frames, Liveness, Node, NodeProcessors, PeerFault, SleepMode, Sleeping};
pub use placement::{Begun, Placement, Proof, Registration, RemoteMemory};
pub use posted::{
    Candidate, Claim, Cooperation, Ending, NUMBER_BITS, Offered, Piece, PostState, PostedReceive, PostedReceives,
    PostedTable, Remainder, Taker, Ticket, number_near,
};
pub use slots::{CollectiveSlots, SlotCounts, Stamp};
pub use wrapper::Wrapper;

/// Whom an engine runs for: its clock, and the kinds of carriers it is built for. There is one type of it for
/// the library and one for the simulator, so a call through it costs nothing.
pub trait Platform {
    /// The processes of this node; [`core::convert::Infallible`] where there never are any.
    type Node: Node;
    /// Their memory.
    type Memory: NeighbourMemory;

    /// The time. Asked for where it is needed only: a look at the clock costs as much as a tenth of a small
    /// message.
    fn now(&self) -> Instant;

    /// Whether another thread waits to use the engine: what takes long is interrupted then.
    fn is_contended(&self) -> bool;

    /// A counter that grows steadily with the time that copies of memory take, at about 2.5 GHz; see
    /// [`crate::memory::Writer`].
    fn ticks() -> u64;
}
