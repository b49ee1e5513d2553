//! The links of Weft: packets between hosts, and frames between the processes of a node. No other crate makes
//! system calls on the data path.
//!
//! | module | promise |
//! |---|---|
//! | [`shared`] | frames between the ranks of one node by rings in shared memory; doorbells for sleepers |
//! | [`single_copy`] | bytes copied once, directly between two address spaces of one node |
//! | [`udp`] | datagrams to other nodes, which the core's flow makes reliable; the choice of addresses |
//! | [`tcp`] | packets to other nodes over kernel TCP, and writes to memory of peers |
//! | [`ethernet`] | datagrams as frames on an interface, no IP or UDP; needs a privilege or `weft-netd` |
//! | [`xdp`] | the same frames, received before the kernel's network sees them; needs more privileges |
//! | [`fabric`] | datagrams by a provider of libfabric, over any network that the provider leads to |
//! | [`verbs`] | packets by an RDMA device, each once and in order, and accesses to memory of peers |
//! | [`carrier`] | the interface of every carrier |
//! | [`faults`] | a carrier that wraps another one: loses, repeats, reorders, damages packets from a seed |
//! | [`capture`] | a carrier that wraps another one and writes its packets to a file for Wireshark |
//! | [`wait`] | the sleep until a descriptor is ready or a time has come |
//! | [`clock`] | the machine's monotonic clock |
//! | [`checkers`] | tells valgrind and the address sanitizer what happens to the program's memory |
//! | [`watch`] | the descriptors and timers on which the progress thread sleeps |
//! | [`files`] | files: transfers that are resumed, errors that say what, where and how much |
//! | [`port`] | ports at which processes of two jobs meet, and the contact of their leaders |
//! | [`node`] | the identity of a node, by which processes know that they share memory |
//!
//! `unsafe` is allowed only in the modules that ARCHITECTURE.md names for this crate. Each block says why the
//! block is sound. No module here prints: what the user should know is returned as a value.
#![deny(unsafe_code)]

mod atomic;
pub mod capture;
#[cfg(not(loom))]
pub mod checkers;
pub mod clock;
pub mod carrier {
    //! The traits and types that every carrier offers, from `weft_engine::transport`.
    pub use weft_engine::transport::{
        Address, Arrival, Begun, Carrier, CarrierAttributes, Delivery, Diagnostics, EthernetAddress, FabricAddress,
        JOINED_MAX, Look, Multicast, MulticastAttributes, Outcome, Placement, Proof, Registration, RemoteMemory,
        RemoteMemoryAccess, TcpAddress, Unasked, VerbsAddress, Wrapper, Written, receive_packets, send_one_by_one,
        wrong_address,
    };
}
pub mod descriptors;
mod error;
pub mod ethernet;
pub mod fabric;
pub mod faults;
#[cfg(not(loom))]
pub mod files;
mod life;
pub mod lock;
pub mod node;
// The model checker has no sockets.
#[cfg(not(loom))]
pub mod port;
pub mod shared;
pub mod single_copy;
mod socket_filter;
// The model checker has no files and no kernel.
#[cfg_attr(loom, allow(dead_code))]
mod sys;
pub mod tcp;
pub mod udp;
pub mod verbs;
pub mod wait;
pub mod watch;
pub mod xdp;

pub use error::{Error, reason};
