//! Large messages that a carrier writes to the peer's memory by itself: the receiver's invitation, and the
//! sender's pieces (`weft_core::placement`).
//!
//! `outgoing.rs` calls it for invitations and remote writes, and `network.rs` when a connection may have work
//! for its carrier.

use weft_core::message::Head;
use weft_core::time::Instant;

use super::{FLOW_QUEUE_BYTES, PointToPoint};
use crate::carriers::{Carriers, Conversation, Remote};
use crate::group::PeerId;
use crate::memory::UserData;
use crate::messages::Messages;
use crate::regions::RegionKey;
use crate::request::State;
use crate::transport::{Begun, Platform, RemoteMemory};

/// The bit that is set in the names of pieces of one-sided operations; the name ends with that of the
/// operation.
pub(super) const OF_A_WINDOW: u64 = 1 << 63;
/// The bit that is set in the names of acknowledgements of streams.
pub(super) const OF_A_STREAM: u64 = 1 << 62;

/// The name under which a carrier is given a piece of a message: the peer's index, and the number of the
/// piece.
fn name(peer: PeerId, number: u32) -> u64 {
    (peer.index() as u64) << 32 | u64::from(number)
}

impl<P: Platform> PointToPoint<P> {
    /// Invites the sender of a message to have it written to our memory, or asks for its data where the
    /// memory cannot be registered; returns `false` when the route is full.
    pub(super) fn push_invitation(&mut self, peer: PeerId, handle: usize, asked: u32) -> bool {
        let Self { messages, network, .. } = self;
        let Some(remote) = network.remotes.get(peer) else { return true };
        if remote.queued_bytes() > FLOW_QUEUE_BYTES {
            return false;
        }
        let state = messages.requests.get(handle).map(|entry| &entry.state);
        let head = match state {
            Some(State::Receiving { data, total, region: Some(key), .. }) => {
                let (_, carrier_path) = remote.carrier_path(0);
                match network.carriers.register(carrier_path.carrier, data, *total) {
                    Some((registered, target)) => {
                        messages.regions.note_registered(*key, registered);
                        Head::clear_to_place(asked, key.wire(), *total, target)
                    }
                    None => Head::clear_to_send(asked, key.wire(), *total, *total),
                }
            }
            // The receive is gone: the sender's operation is over.
            _ => Head::fin(asked),
        };
        self.carry(peer, &head, &UserData::empty(), 0, 0)
    }

    /// Begins to write the first `total` bytes of the send `handle` to `target`.
    pub(super) fn push_placement(
        &mut self,
        peer: PeerId,
        handle: usize,
        remote_key: u32,
        total: u64,
        target: RemoteMemory,
    ) {
        let Some(State::Sending { send, region: Some(key), .. }) =
            self.messages.requests.get(handle).map(|entry| &entry.state)
        else {
            return;
        };
        let (key, is_run) = (*key, send.data.address().is_some());
        // The peer becomes due to be looked at.
        self.submission(peer);
        let Some(remote) = self.network.remotes.get_mut(peer) else { return };
        if let Some(placements) = remote.placements().filter(|_| is_run) {
            placements.submit(remote_key, key.wire(), total, target);
        } else {
            self.submission(peer).submit_data(remote_key, key.wire(), 0..total);
        }
    }

    /// Tells the receiver of a message that a piece of it has been written.
    pub(super) fn note_placed(&mut self, done: u64) {
        let Some(peer) = self.peers.at((done >> 32) as usize) else { return };
        let Some(remote) = self.network.remotes.get_mut(peer) else { return };
        let Some(piece) = remote.placements().and_then(|placements| placements.ended(done as u32)) else { return };
        let length = piece.range.end - piece.range.start;
        #[cfg(not(weft_mutant = "placed_told_early"))]
        let head = Head::placed(piece.remote_key, piece.range.start, length);
        #[cfg(not(weft_mutant = "placed_told_early"))]
        self.submission(peer).submit_message(head.as_bytes(), &[]);
        self.messages.handle_acknowledged(RegionKey::from_wire(piece.region), length);
    }

    /// Deregisters the memory of closed regions: peers reach it no more.
    #[inline]
    pub(super) fn deregister_closed(&mut self) {
        while let Some(registered) = self.messages.regions.take_closed() {
            self.network.carriers.deregister(registered);
        }
    }
}

/// Gives the carrier of a peer its pieces to write, as far as it has room.
pub(super) fn write_pieces(
    carriers: &mut Carriers,
    peer: PeerId,
    remote: &mut Remote,
    messages: &mut Messages,
    now: Instant,
) {
    let (_, carrier_path) = remote.carrier_path(0);
    let Some(rma) = carriers.rma(carrier_path.carrier) else { return };
    loop {
        let Conversation::Connection { placements: Some(placements), connection: Some(connection), .. } =
            &mut remote.conversation
        else {
            return;
        };
        let Some(piece) = placements.poll() else { return };
        let begun = match messages.regions.get(RegionKey::from_wire(piece.region)) {
            Some(region) => {
                let (range, number) = (piece.range.clone(), name(peer, piece.number));
                rma.write(&carrier_path.to, &region.data, range, piece.target, number)
            }
            // The operation is over, and no caller waits for it.
            None => {
                placements.refused();
                continue;
            }
        };
        match begun {
            Begun::Yes => {
                messages.remote_writes += 1;
                #[cfg(weft_mutant = "placed_told_early")]
                let _ = connection.submit_message(
                    Head::placed(piece.remote_key, piece.range.start, piece.range.end - piece.range.start).as_bytes(),
                    &[],
                );
                placements.begun();
            }
            Begun::NotNow => return connection.refused(now),
            Begun::Never => {
                if let Some((remote_key, region, range)) = placements.refused()
                    && !cfg!(weft_mutant = "placement_refused_forgotten")
                {
                    connection.submit_data(remote_key, region, range);
                }
            }
        }
    }
}
