//! The interface between the message layer and the layer that carries its messages ([`PeerAccess`]).
//!
//! The message layer asks for the table of peers. For processes of the same node it asks for receives that
//! senders write to, and for messages that receivers fetch.

use super::Peer;
use crate::group::PeerId;
use crate::memory::UserData;
use crate::transport::{Remainder, Ticket};

/// The owner of a receive that stood on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// The receiver: the receive is no longer on the table.
    Ours,
    /// A sender, which writes to the receive or has done so. If it has announced the message in the ring as
    /// well: its name, and the low bits of the message's number.
    Taken(Option<(PeerId, u32)>),
}

/// A message whose data lies in the memory of a process of this node, and the receive that it goes to.
pub struct Announced {
    /// The sender.
    pub peer: PeerId,
    /// The sender's name for the message.
    pub request: u32,
    /// The address of the data in the sender's memory.
    pub address: u64,
    /// The handle of the receive.
    pub handle: usize,
    /// The receive's memory.
    pub data: UserData,
    /// Bytes that have room there.
    pub limit: u64,
    /// Set when the program waits for the receive in the call that has posted it.
    pub blocking: bool,
}

/// A message that a sender has written to a receive of this process.
pub struct Written {
    /// The sender's rank in the communicator.
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// The message's length in bytes.
    pub total: u64,
    /// The number of the message's announcement, if there is one.
    pub number: Option<u32>,
    /// The rest that has to be asked for, if the sender has not written all.
    pub rest: Option<Remainder>,
}

/// The outcome of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// All of the message is there.
    Whole,
    /// The message is fetched in the next pass, or its sender is still copying a part of it;
    /// [`Messages::conclude_fetch`](super::Messages::conclude_fetch) is called when that is there.
    Begun,
    /// The sender is inside MPI as well, and is to send this many bytes from the beginning on; the bytes
    /// behind them are there.
    Asked(u64),
    /// The message cannot be copied by single copy.
    Refused,
}

/// The peers, and the services of their carriers that the message layer needs; the engine provides both.
///
/// With the default methods every peer is on a network: nothing can be fetched from its memory, and there is
/// no table of posted receives.
pub trait PeerAccess {
    /// Returns what the message layer knows of a peer.
    fn peer(&self, peer: PeerId) -> &Peer;

    /// Returns what the message layer knows of a peer, to change it.
    fn peer_mut(&mut self, peer: PeerId) -> &mut Peer;

    /// The number of a peer, for messages to people.
    fn number(&self, peer: PeerId) -> u32;

    /// Returns whether the peer exists: a peer that has been removed is no longer known.
    fn is_known(&self, _peer: PeerId) -> bool {
        true
    }

    /// Returns whether the peer is gone, so that nothing comes of waiting for it.
    #[inline(always)]
    fn has_failed(&self, peer: PeerId) -> bool {
        !self.is_known(peer) || self.peer(peer).failed.is_some()
    }

    /// Returns whether the peer is this process.
    fn is_own(&self, _peer: PeerId) -> bool {
        false
    }

    /// Notes that message number `handled` of `peer` is being handled. Called before a receive is taken off
    /// the table for it.
    fn counted(&mut self, _peer: PeerId, _handled: u32) {}

    /// Notes that each counted message of `peer` has found its receive, or has none yet.
    fn matched(&mut self, _peer: PeerId) {}

    /// Takes a receive off its table for a message of `peer`, unless a sender was quicker.
    fn withdraw(&mut self, _peer: PeerId, _ticket: Ticket) -> Withdrawal {
        Withdrawal::Ours
    }

    /// Fetches an announced message into memory of this process, now or in the next pass.
    fn fetch(&mut self, _announced: Announced) -> Fetched {
        Fetched::Refused
    }
}

/// A single peer, for callers that have only one.
impl PeerAccess for Peer {
    fn peer(&self, _peer: PeerId) -> &Peer {
        self
    }

    fn peer_mut(&mut self, _peer: PeerId) -> &mut Peer {
        self
    }

    fn number(&self, peer: PeerId) -> u32 {
        peer.index() as u32
    }
}
