//! What the message layer asks of the layer that carries its messages ([`PeerAccess`]). It asks for the table
//! of peers. For processes of the same node it asks for receives that senders write to, and for messages that
//! receivers fetch.

use super::Peer;
use crate::group::PeerId;
use crate::memory::UserData;
use crate::transport::{Remainder, Ticket};

/// Who has a receive that stood on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// We: it is on the table no more.
    Ours,
    /// A sender writes to it, or has done so; who, and the low bits of the number of its message, if it has
    /// announced that in the ring as well.
    Taken(Option<(PeerId, u32)>),
}

/// A message whose data lies in the memory of a process of this node, and the receive that it goes to.
pub struct Announced {
    /// Who announced it.
    pub peer: PeerId,
    /// The sender's name for it.
    pub request: u32,
    /// Where it lies.
    pub address: u64,
    /// The receive.
    pub handle: usize,
    /// Where it goes.
    pub data: UserData,
    /// Bytes that have room there.
    pub limit: u64,
    /// Whether the program waits for it in the call that has posted it.
    pub blocking: bool,
}

/// What a sender has written to a receive of ours.
pub struct Written {
    /// Its rank in the communicator.
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// The message's length in bytes.
    pub total: u64,
    /// The number of its announcement, if there is one.
    pub number: Option<u32>,
    /// What of it is to be asked for.
    pub rest: Option<Remainder>,
}

/// What has become of such a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It is there.
    Whole,
    /// Its sender is still copying a part of it: [`Messages::conclude_fetch`] is called when that is there.
    Begun,
    /// Its sender waits as well: it shall send so many bytes from the beginning on; what lies behind them is
    /// there.
    Asked(u64),
    /// It cannot be copied like this.
    Refused,
}

/// The peers, and what the message layer needs done by their carriers: the engine provides both. As it
/// stands, every peer is on a network: nothing can be fetched from its memory, and there is no table of
/// posted receives.
pub trait PeerAccess {
    /// What the message layer knows of a peer.
    fn peer(&self, peer: PeerId) -> &Peer;

    /// The same, to change it.
    fn peer_mut(&mut self, peer: PeerId) -> &mut Peer;

    /// The number of a peer, for messages to people.
    fn number(&self, peer: PeerId) -> u32;

    /// Whether there is such a peer: one that has been removed is known no more.
    fn is_known(&self, _peer: PeerId) -> bool {
        true
    }

    /// Whether nothing comes of waiting for it.
    #[inline(always)]
    fn has_failed(&self, peer: PeerId) -> bool {
        !self.is_known(peer) || self.peer(peer).failed.is_some()
    }

    /// Whether it is this process.
    fn is_own(&self, _peer: PeerId) -> bool {
        false
    }

    /// Message number `handled` of `peer` is being handled: said before a receive is taken off the table for
    /// it.
    fn counted(&mut self, _peer: PeerId, _handled: u32) {}

    /// All messages of `peer` that have been counted have found their receives, or have none yet.
    fn matched(&mut self, _peer: PeerId) {}

    /// Takes a receive off its table for a message of `peer`, unless a sender was quicker.
    fn withdraw(&mut self, _peer: PeerId, _ticket: Ticket) -> Withdrawal {
        Withdrawal::Ours
    }

    /// Copies an announced message into memory of this process.
    fn fetch(&mut self, _announced: Announced) -> Fetched {
        Fetched::Refused
    }
}

/// A peer by itself, for those who have only one.
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
