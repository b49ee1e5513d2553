//! What the engine asks of its carriers, and of whoever runs it. Every call to the system, the clock and the processors is behind
//! these traits: the engine itself is a function of what they say, so that a simulator can run it in virtual time.
//!
//! | trait | what it stands for | who has it |
//! |---|---|---|
//! | [`Platform`] | the clock, and the kinds of carrier that the engine is built for | the process; a simulator |
//! | [`Node`] | frames between the processes of one node, delivered once and in order, and how they sleep | rings in shared memory |
//! | [`PostedTable`], [`Cooperation`] | receives that a process of the node has posted for its senders to write into | the same memory |
//! | [`NeighbourMemory`] | one copy between two address spaces of the node | the kernel's cross-memory calls |
//! | [`Carrier`] | packets to other nodes, and whatever else it says that it can do ([`CarrierAttributes`]) | UDP, raw Ethernet frames, AF_XDP, libfabric, RDMA devices |

mod carrier;
mod none;
mod placement;
mod posted;
mod wrapper;

use std::os::fd::RawFd;

use weft_core::time::Instant;

pub use crate::memory::NeighbourMemory;

pub use carrier::{
    Address, Arrival, Carrier, CarrierAttributes, Delivery, Diagnostics, EthernetAddress, FabricAddress, JOINED_MAX,
    Look, Multicast, MulticastAttributes, Outcome, RemoteMemoryAccess, VerbsAddress, receive_packets, send_one_by_one,
    wrong_address,
};
pub use none::NoNode;
pub use placement::{Begun, Placement, Proof, Registration, RemoteMemory};
pub use posted::{
    Claim, Cooperation, Ending, Fate, NUMBER_BITS, Offered, Piece, PostedTable, Remainder, Taker, Ticket, Wanted, Wish,
    number_near,
};
pub use wrapper::Wrapper;

/// Whom an engine runs for: its clock, and the kinds of carriers it is built for. There is one type of it for the library and one for
/// the simulator, so a call through it costs nothing.
pub trait Platform {
    /// The processes of this node.
    type Node: Node;
    /// Their memory.
    type Memory: NeighbourMemory;

    /// The time. Asked for where it is needed only: a look at the clock costs as much as a tenth of a small message.
    fn now(&self) -> Instant;

    /// Whether another thread waits to use the engine: what takes long is interrupted then.
    fn is_contended(&self) -> bool;

    /// A counter that grows steadily with the time that copies of memory take, at about 2.5 GHz; see [`crate::memory::Writer`].
    fn ticks() -> u64;
}

/// Why nothing more can be exchanged with one process of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFault {
    /// Its place on the node.
    pub peer: usize,
    /// What it did or what happened to it; completes the sentence "rank … ".
    pub reason: String,
}

/// How a process of the node sleeps, for those that have something for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SleepMode {
    /// In poll(2) or epoll(7), with the doorbell among what it watches.
    Doorbell = 1,
    /// On a word in memory: nothing but a neighbour will wake it.
    Futex = 2,
    /// The process computes, and a thread of it watches the doorbell: it is woken, but still wants its processor.
    Thread = 3,
}

/// A phase of the collectives of one context: no two of them are alike, of whatever communicators, until numbers come round again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The context.
    pub context: u32,
    /// Phases of it before this one, modulo 2³².
    pub phase: u32,
}

/// How many slots for collectives each process of a node has, and whom they serve. They are numbered in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Each serves one communicator at a time.
    pub communicators: usize,
    /// Each serves one persistent operation at a time, at most [`Self::LONG_MAX`].
    pub long: usize,
    /// The same for operations that publish little at once, at most [`Self::SHORT_MAX`].
    pub short: usize,
}

impl SlotCounts {
    /// The most slots for persistent operations that publish much at once.
    pub const LONG_MAX: usize = 4;
    /// The same for those that publish little.
    pub const SHORT_MAX: usize = 32;
}

/// This process's place among those of its node: frames of at most [`Self::frame_max`] bytes, head and payload together, delivered
/// exactly once and in the order of sending from one process to another. Processes are named by their place on the node.
pub trait Node {
    /// The receives that two of them have posted for each other.
    type Table: PostedTable;
    /// Sleeps until a neighbour wakes this process, while others use the node.
    type Sleeper;

    /// This process's place on the node.
    fn own_place(&self) -> usize;

    /// Slots that each process has, in which it can publish something for collectives; the same at all of them, and none where there is no
    /// memory for that.
    fn slots(&self) -> SlotCounts;

    /// Bytes that can be published in a slot at once.
    fn published_max(&self, slot: usize) -> usize;

    /// A process may publish `len` bytes in a slot if all have finished so many phases before, counting the one it publishes in.
    fn phases_ahead(&self, slot: usize, len: usize) -> u32;

    /// Publishes `len` bytes that `fill` writes in place, in a slot of this process: instead of what it published [`Self::phases_ahead`] phases before,
    /// with as many bytes, which nobody may need any more. Visible to all, and ordered before a look at who sleeps, when it returns.
    ///
    /// # Panics
    /// When `len` exceeds [`Self::published_max`].
    fn publish(&mut self, slot: usize, stamp: Stamp, len: usize, fill: impl FnOnce(&mut [u8]));

    /// Wakes a process of the node if it sleeps.
    fn wake_if_asleep(&mut self, place: usize);

    /// Gives `take` what the process `of` has published in a slot under a stamp; `None`: nothing yet. It may be wrong, as whatever a peer
    /// writes.
    fn with_published<R>(&self, of: usize, slot: usize, stamp: Stamp, take: impl FnOnce(&[u8]) -> R) -> Option<R>;

    /// Whether there is something; ordered behind [`Self::arm`].
    fn is_published(&self, of: usize, slot: usize, stamp: Stamp) -> bool;

    /// This process needs nothing more of what was published in a slot for phases before this one.
    fn finish_phases(&mut self, slot: usize, before: Stamp);

    /// What the process `of` has said so last.
    fn finished_phases(&self, of: usize, slot: usize) -> Stamp;

    /// Bytes of the largest frame.
    fn frame_max(&self) -> usize;

    /// Sends a frame of `head` and `len` bytes that `fill` writes in place; false, and nothing happens, when there is no room.
    fn try_send_with(&mut self, to: usize, head: &[u8], len: usize, fill: impl FnOnce(&mut [u8])) -> bool;

    /// Hands at most `limit` frames that have arrived to `on_frame`, with the place of their sender; returns how many.
    fn poll(&mut self, limit: usize, on_frame: impl FnMut(usize, &[u8])) -> usize;

    /// Whether a frame has arrived that nobody has taken.
    fn is_pending(&mut self) -> bool;

    /// A process that has died or broken its memory, once for each.
    fn poll_fault(&mut self) -> Option<PeerFault>;

    /// Looks whether all the others live, whatever started them: those that do not become faults.
    fn look_for_dead(&mut self);

    /// Says to others whether this process may end now, and counts as living all the same: nobody needs it any more.
    fn say_left(&self, left: bool);

    /// Says how this process is about to sleep; false when something has arrived, and it must not.
    fn arm(&mut self, rest: SleepMode) -> bool;

    /// It is awake again.
    fn disarm(&mut self);

    /// Wakes a thread of this process that sleeps by [`SleepMode::Futex`].
    fn nudge(&mut self);

    /// What sleeps by [`SleepMode::Futex`].
    fn sleeper(&self) -> Self::Sleeper;

    /// The descriptor that becomes readable when somebody wakes this process.
    fn doorbell_fd(&self) -> RawFd;

    /// Takes what has been written to it.
    fn drain_doorbell(&mut self);

    /// The table on which this process posts receives from `sender`; none without the memory for it.
    fn own_posted_table(&mut self, sender: usize) -> Option<Self::Table>;

    /// The table on which it posts receives from anybody; none without the memory for it.
    fn any_source_table(&mut self) -> Option<Self::Table>;

    /// The table on which `receiver` posts for this process; none as long as it has never used it.
    fn posted_table_of(&mut self, receiver: usize) -> Option<Self::Table>;

    /// Tells `receiver` that one of its messages has been copied, or a part of it; wakes it if it sleeps.
    fn announce_written(&mut self, receiver: usize);

    /// Whether that has been told to this process since the last call.
    fn take_written(&mut self) -> bool;

    /// Says to others whether this process waits inside MPI.
    fn set_inside_mpi(&self, waits: bool);

    /// Whether `peer` waits inside MPI.
    fn is_inside_mpi(&self, peer: usize) -> bool;

    /// Says to others whether this process may copy from the memory of all of them.
    fn say_copies(&self, from_all: bool);

    /// What the process at a place has said of that; `None`: nothing yet. It says it when it joins, and waits for nobody before.
    fn says_copies(&self, place: usize) -> Option<bool>;

    /// Processes of the node that are not asleep in MPI, this one included.
    fn awake(&self) -> usize;

    /// Whether the node has fewer processors than processes.
    fn is_oversubscribed(&self) -> bool;

    /// Says on which processor this thread spins.
    fn note_processor(&self);

    /// Whether another process spins on the processor that this thread is on.
    fn shares_processor(&self) -> bool;

    /// Moves this thread to a processor on which no other one spins, as far as is known.
    fn migrate(&self);

    /// Where processes take turns: moves this thread to a processor that at least two fewer use, if it is the last one here.
    fn rebalance(&self);
}
