//! The traits through which the engine reaches its carriers, its node, the clock and the processors.
//!
//! Every call to the system is behind these traits. The engine itself is a function of their answers, so a
//! simulator can run it in virtual time.
//!
//! | trait | what it stands for | implemented by |
//! |---|---|---|
//! | [`Platform`] | the clock, and the kinds of carrier that the engine is built for | the process; a simulator |
//! | [`Node`] and its parts | frames between the processes of one node, how they sleep, and what else they share | shared memory |
//! | [`NeighbourMemory`] | one copy between two address spaces of the node | the kernel's cross-memory calls |
//! | [`Carrier`] | packets to other nodes, and further abilities that it declares ([`CarrierAttributes`]) | UDP, raw Ethernet frames, AF_XDP, libfabric, RDMA devices |

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
    JOINED_MAX, Look, Multicast, MulticastAttributes, Outcome, RemoteMemoryAccess, SharedAddress, TcpAddress,
    VerbsAddress, receive_packets, send_one_by_one, wrong_address,
};
pub use node::{Frames, Liveness, Node, NodeCosts, NodeProcessors, PeerFault, SleepMode, Sleeping};
pub use placement::{Begun, Placement, Proof, Registration, RemoteMemory, Unasked, Written};
pub use posted::{
    Announcements, Candidate, Claim, Cooperation, Ending, NUMBER_BITS, Offered, Piece, PostState, PostedReceive,
    PostedReceives, PostedTable, RELOCATED_MAX, Remainder, Taker, Ticket, number_near,
};
pub use slots::{CollectiveSlots, SlotCounts, Stamp};
pub use wrapper::Wrapper;

/// The platform that an engine runs on: its clock, and the kinds of carriers that the engine is built for.
///
/// There is one type for the library and one for the simulator, so a call through this trait costs nothing.
pub trait Platform {
    /// The processes of this node; [`core::convert::Infallible`] where there never are any.
    type Node: Node;
    /// The memory of these processes.
    type Memory: NeighbourMemory;

    /// Returns the time. Read only where it is needed: a look at the clock costs as much as a tenth of a
    /// small message.
    fn now(&self) -> Instant;

    /// Returns whether another thread waits to use the engine: then long work is interrupted.
    fn is_contended(&self) -> bool;

    /// A counter that grows steadily with the time that copies of memory take, at about 2.5 GHz; see
    /// [`crate::memory::Writer`].
    fn ticks() -> u64;
}
