//! Eager writes: a carrier that reaches memory of a peer writes a message of medium length, and no invitation
//! is waited for.
//!
//! A message of many packets costs work for each packet at both ends, and two copies at each. A carrier over
//! kernel TCP takes the message in one system call out of the program's memory, and puts it into the memory
//! of the receive. What a message needs beside its data, its envelope and its place in the order of messages,
//! leaves as a frame of the flow in front of it ([`Head::eager_write`]). The choice between the two is that
//! of the flow's long path (`weft_core::long_path_choice`): an eager write is the form that the long path has
//! for a message alone.
//!
//! An eager send completes without its receiver. So the sender copies the data as soon as the carrier has
//! taken it: the receiver is at work meanwhile, and nobody waits for the copy. The copy lasts until the
//! receiver's FIN. If the carrier fails, the receiver asks for the message anew, and gets it as packets out
//! of the copy (`messages/eager_writes.rs`).
//!
//! Two requests stand for an eager write, as for a message that is announced early on a node
//! (`single_copy/relocation.rs`). The announcement has one of its own, whose name the receiver knows; it
//! lives until the FIN. The program's request is complete when the data may change.

use weft_core::long_path_choice::EAGER_WRITE_BYTES_MAX;
use weft_core::message::Head;

use super::PointToPoint;
use super::network::Network;
use crate::group::PeerId;
use crate::memory::UserData;
use crate::messages::Messages;
use crate::protocols::UNASKED_BYTES_MAX;
use crate::request::{Hold, Mode, Send, State};
use crate::transport::{Platform, Unasked};

/// The bit that is set in the names under which a carrier is given eager writes; the name ends with the
/// handle of the announcement's request.
pub(super) const OF_AN_EAGER_WRITE: u64 = 1 << 61;

/// An eager write whose FIN has not come.
pub(super) struct EagerWrite {
    peer: PeerId,
    /// The program's request; `None` once it is complete.
    sent: Option<usize>,
    /// The announcement's request, and its name.
    announced: usize,
    name: u32,
}

impl EagerWrite {
    /// Returns whether its FIN is still awaited.
    fn is_awaited(&self, messages: &Messages) -> bool {
        messages.requests.from_wire(self.name).is_some()
    }
}

impl<P: Platform> PointToPoint<P> {
    /// Returns whether the carrier of a peer's long path may write this message. Others must leave as
    /// packets: a message of which the peer has not said yet that it has arrived is the only one.
    pub(super) fn may_write_eagerly(&mut self, peer: PeerId, send: &Send) -> bool {
        let is_possible = (UNASKED_BYTES_MAX + 1..=EAGER_WRITE_BYTES_MAX).contains(&send.data.len())
            && send.mode == Mode::Standard
            && send.data.address().is_some()
            && self.peers[peer].matching.has_choice()
            && self.eager_writes.iter().all(|write| write.peer != peer);
        let Network { remotes, carriers, .. } = &mut self.network;
        let access = remotes.get(peer).and_then(|remote| remote.access.as_ref()).filter(|_| is_possible);
        let rma = access.and_then(|access| carriers.rma(access.carrier_path.carrier));
        rma.is_some_and(|rma| rma.may_write_unasked(&send.data))
    }

    /// Announces the message of the request `handle` as the request `announced`, and gives its data to the
    /// carrier; returns `false` when the route is full.
    #[inline(never)]
    pub(super) fn write_eagerly(&mut self, peer: PeerId, handle: usize, send: Send, announced: usize) -> bool {
        let (bytes, context) = (send.data.len(), send.envelope.context);
        if let Some(request) = self.messages.requests.get_mut(announced) {
            request.hold = Hold::Freed;
        }
        let name = self.messages.requests.wire(announced);
        let head = Head::eager_write(send.envelope, name, bytes);
        if let Some(remote) = self.network.remotes.get_mut(peer) {
            remote.submit_fins(&self.network.jobs);
        }
        if !self.carry(peer, &head, &UserData::empty(), 0, 0) {
            // Nobody has heard of it. The request disappears.
            self.messages.complete(announced);
            return false;
        }
        self.transmit_to(peer, self.platform.now());
        let data = send.data.clone();
        let state = &mut self.peers[peer];
        state.put(bytes);
        if let Some(request) = self.messages.requests.get_mut(handle) {
            request.state = State::AwaitingMatch { peer, context };
        }
        self.eager_writes.push(EagerWrite { peer, sent: Some(handle), announced, name });
        if !self.messages.begin_eager_write(announced, peer, send) {
            return true;
        }
        let path =
            self.network.remotes.get(peer).and_then(|remote| remote.access.as_ref()).map(|access| access.carrier_path);
        let Some(path) = path else { return true };
        let Some(rma) = self.network.carriers.rma(path.carrier) else { return true };
        let number = OF_AN_EAGER_WRITE | announced as u64;
        let answer = rma.write_unasked(&path.to, &data, name, number);
        self.messages.remote_writes += u64::from(answer != Unasked::Refused);
        self.messages.written_eagerly += u64::from(answer != Unasked::Refused);
        match answer {
            Unasked::Begun => self.network.writes = true,
            // Of a message that the carrier has refused the receiver asks for the copy.
            Unasked::Taken | Unasked::Refused => self.note_eager_write(announced),
        }
        true
    }

    /// Notes that the carrier reads the data of an eager write no more: the program's operation is complete.
    #[inline(never)]
    pub(super) fn note_eager_write(&mut self, announced: usize) {
        let Some(write) = self.eager_writes.iter_mut().find(|write| write.announced == announced) else { return };
        if let Some(sent) = write.sent.take_if(|_| self.messages.end_eager_write(announced)) {
            self.messages.complete(sent);
        }
    }

    /// Notes that the carrier reads nothing for a peer any more.
    #[cold]
    pub(super) fn end_eager_writes(&mut self, peer: PeerId) {
        let of_peer = self.eager_writes.iter().filter(|write| write.peer == peer).map(|write| write.announced);
        for announced in of_peer.collect::<Vec<_>>() {
            self.note_eager_write(announced);
        }
    }

    /// Returns whether the FIN of an eager write is awaited. The list still has writes whose FIN has come
    /// since the last pass began. They do not count: a process asks this before it sleeps, and perhaps no
    /// event wakes it for a further pass.
    pub(super) fn keeps_eager_writes(&self) -> bool {
        self.eager_writes.iter().any(|write| write.is_awaited(&self.messages))
    }

    /// Returns whether the next pass completes a send of the program: its eager write has arrived.
    #[inline]
    pub(super) fn has_settled_eager_writes(&self) -> bool {
        self.eager_writes.iter().any(|write| write.sent.is_some() && !write.is_awaited(&self.messages))
    }

    /// Forgets the eager writes that have arrived.
    #[inline]
    pub(super) fn look_after_eager_writes(&mut self) {
        if !self.eager_writes.is_empty() {
            self.forget_eager_writes();
        }
    }

    #[inline(never)]
    fn forget_eager_writes(&mut self) {
        let Self { eager_writes, messages, .. } = self;
        eager_writes.retain(|write| {
            let is_awaited = write.is_awaited(messages);
            if let Some(sent) = write.sent.filter(|_| !is_awaited) {
                messages.complete(sent);
            }
            is_awaited
        });
    }

    /// Forgets the eager writes to a peer that has failed: their requests have failed.
    pub(super) fn drop_eager_writes(&mut self, peer: PeerId) {
        self.eager_writes.retain(|write| write.peer != peer);
    }

    /// Keeps the carrier from the memory of the request `handle`, which is abandoned. Its message arrives all
    /// the same, out of a copy.
    #[cold]
    pub(super) fn abandon_eager_write(&mut self, handle: usize) {
        let of_request = |write: &EagerWrite| write.sent == Some(handle);
        let Some(peer) = self.eager_writes.iter().find(|write| of_request(write)).map(|write| write.peer) else {
            return;
        };
        self.drop_writes(peer);
        // Packets of it are under way instead.
        if let Some(at) = self.eager_writes.iter().position(of_request) {
            let write = self.eager_writes.swap_remove(at);
            self.messages.abandon(write.announced, &self.peers);
        }
    }

    /// Returns whether a carrier is about to read data of eager writes.
    pub(super) fn is_writing_eagerly(&self) -> bool {
        self.eager_writes.iter().any(|write| write.sent.is_some())
    }
}
