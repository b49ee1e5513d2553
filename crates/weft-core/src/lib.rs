//! Weft's protocols as pure state machines: no I/O, no clock and no randomness of its own. Time and bytes are
//! arguments, and the packets to send are results.
//!
//! The engine (`weft-engine`) runs these state machines over real carriers, and the simulator (`weft-sim`)
//! runs them over a network of its own, in virtual time.
//!
//! | module | what it decides or describes | called by |
//! |---|---|---|
//! | [`flow`] | the reliable flow to a peer over packets that may be lost | engine `carriers.rs` |
//! | [`connection`] | the same over a carrier that loses no packet | engine `carriers.rs` |
//! | [`wire`] | the format, the tag and the seal of packets | `flow`, `connection`; engine |
//! | [`rails`] | the carriers to a peer, and what each carries | engine `carriers.rs` |
//! | [`path_validation`] | the proof that a carrier leads to a peer | `rails`; engine `carriers.rs` |
//! | [`message`] | the frames that move MPI messages | engine `messages.rs` |
//! | [`matching`] | which receive takes which message | engine `messages.rs` |
//! | [`grants`] | which announced message may send how much | engine `messages.rs` |
//! | [`placement`] | the pieces that a carrier writes into a peer's memory | engine `engine/placement.rs` |
//! | [`rendezvous_schemes`] | whether packets or such writes bring a message | engine `engine/placement.rs` |
//! | [`long_path_choice`] | whether a message of several packets takes the flow's long path | engine `carriers.rs` |
//! | [`measured_choice`] | which of two ways is the quicker one | `rendezvous_schemes`, `long_path_choice` |
//! | [`one_sided`] | the records and the lock of windows | engine `engine/windows/` |
//! | [`multicast`] | reliable streams to a multicast group | engine `engine/multicast/` |
//! | [`layout`] | datatypes as runs of memory | engine `memory.rs`; `weft-mpi` |
//! | [`file_view`] | views on files as runs of bytes | `weft-mpi` `files.rs` |
//! | [`reduce`] | the reductions that each datatype allows | engine `memory/`; `weft-mpi` |
//! | [`fingerprint`] | numbers by which processes compare short texts | `weft-mpi`, `weft-net` `node.rs` |
//! | [`meeting`] | the secrets of jobs that meet | `weft-net` `port.rs`; `weft-mpi` `processes/` |
//! | [`bytes`] | buffers of bytes | all |
//! | [`process`], [`time`] | names of processes, and time | all |
//! | [`pcapng`] | packets as a file for Wireshark | `weft-net`, `weft-sim` |
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod assembly;
pub mod bytes;
pub mod connection;
pub mod distrust;
pub mod file_view;
pub mod fingerprint;
pub mod flow;
pub mod grants;
pub mod layout;
pub mod long_path_choice;
pub mod matching;
pub mod measured_choice;
pub mod meeting;
pub mod message;
pub mod multicast;
pub mod one_sided;
pub mod path_validation;
pub mod pcapng;
pub mod placement;
pub mod process;
pub mod rails;
pub mod reduce;
pub mod refusal;
pub mod rendezvous_schemes;
pub mod time;
pub mod wire;
