//! The packets of one look at a carrier, and their way: to the flow or the connection of their sender, or to
//! a multicast stream.

use weft_core::flow::Deliver;
use weft_core::multicast::{StreamId, wire as multicast};
use weft_core::path_validation;
use weft_core::rails::{PathFrame, Role};
use weft_core::time::Instant;
use weft_core::wire::{self, Secret};

use super::Remotes;
use crate::carriers::CarrierPath;
use crate::group::PeerId;
use crate::jobs::Jobs;
use crate::messages::Messages;
use crate::peers::Peers;
use crate::transport::{Arrival, Platform};

/// The most responses about carriers that one pass gives.
const ANSWERS_MAX: usize = 64;

struct Adapter<'a, P: Platform> {
    peer: PeerId,
    messages: &'a mut Messages,
    peers: &'a mut Peers<P>,
}

impl<P: Platform> Deliver for Adapter<'_, P> {
    fn message(&mut self, body: &[u8]) {
        self.messages.handle_frame(self.peer, body, self.peers);
    }

    fn data(&mut self, remote_key: u32, offset: u64, bytes: &[u8]) {
        self.messages.handle_data(self.peer, remote_key, offset, bytes, self.peers);
    }
}

/// The function that takes packets of multicast streams.
pub(in crate::engine) type OnStream<'a, P> =
    dyn FnMut(&StreamId, &[u8], &Secret, &mut Messages, &mut Peers<P>) -> bool + 'a;

/// The destinations for the packets of one look at a carrier.
pub(super) struct Intake<'a, P: Platform> {
    pub(super) now: Instant,
    /// The role of the carrier.
    pub(super) role: Role,
    pub(super) jobs: &'a Jobs,
    pub(super) messages: &'a mut Messages,
    pub(super) peers: &'a mut Peers<P>,
    pub(super) remotes: &'a mut Remotes,
    pub(super) active: &'a mut Vec<PeerId>,
    /// Takes a packet that claims to be of a multicast stream; returns false if it is of no stream that this
    /// process receives.
    pub(super) on_stream: &'a mut OnStream<'a, P>,
    pub(super) foreign: &'a mut u64,
    /// Responses to challenges about carriers, each with its path.
    pub(super) answers: Vec<(CarrierPath, PathFrame)>,
}

impl<P: Platform> Intake<'_, P> {
    /// Takes packets that arrived together, all of one sender.
    #[inline]
    pub(super) fn take(&mut self, train: Arrival<'_>) {
        match wire::peek_sender(train.bytes).and_then(|index| self.peers.of_index(index)) {
            Some(peer) => self.take_from(peer, train),
            None => self.take_multicast(train),
        }
    }

    /// Takes packets that claim to be from `peer`: its flow or connection checks the claim.
    #[inline]
    fn take_from(&mut self, peer: PeerId, train: Arrival<'_>) {
        let Self { now, role, jobs, messages, peers, remotes, active, .. } = self;
        let Some(remote) = remotes.get_mut(peer) else {
            *self.foreign += 1;
            return;
        };
        let mut deliver = Adapter { peer, messages, peers };
        let wants_more = if let Some(connection) = remote.connection(jobs) {
            connection.handle_packet(train.bytes, &mut deliver);
            !connection.is_idle() || connection.misses_packets() || connection.has_failed()
        } else if path_validation::is_path_frame(train.bytes) {
            let answer = remote.handle_path_frame(*now, *role, train.bytes, jobs);
            self.answers.extend(answer.filter(|_| self.answers.len() < ANSWERS_MAX));
            false
        } else if let Some(flow) = remote.flow(jobs) {
            flow.handle_train(*now, train.bytes, train.segment, train.marked, &mut deliver);
            true
        } else {
            false
        };
        if wants_more && !std::mem::replace(&mut remote.active, true) {
            active.push(peer);
        }
    }

    /// Takes packets that name no sender: they are of multicast streams, or foreign.
    #[inline(never)]
    fn take_multicast(&mut self, train: Arrival<'_>) {
        let Self { jobs, messages, peers, on_stream, foreign, .. } = self;
        for packet in train.bytes.chunks(train.segment.max(1)) {
            let is_ours = multicast::peek(packet)
                .is_some_and(|stream| on_stream(&stream, packet, jobs.own_secret(), messages, peers));
            **foreign += u64::from(!is_ours);
        }
    }
}

/// Hands on packets that arrived together, with challenges about a carrier apart: a challenge is short, so it
/// may be the last of the packets that a kernel joins.
#[inline]
pub(super) fn without_questions(train: Arrival<'_>, hand_on: &mut dyn FnMut(Arrival<'_>)) {
    match train.bytes.len() <= train.segment {
        true => hand_on(train),
        false => split_questions(train, hand_on),
    }
}

fn split_questions(train: Arrival<'_>, hand_on: &mut dyn FnMut(Arrival<'_>)) {
    let Arrival { bytes, segment, .. } = train;
    if segment == path_validation::SIZE {
        return bytes.chunks(segment).for_each(|packet| hand_on(Arrival { bytes: packet, ..train }));
    }
    let (others, last) = bytes.split_at((bytes.len() - 1) / segment * segment);
    if !path_validation::is_path_frame(last) {
        return hand_on(train);
    }
    hand_on(Arrival { bytes: others, ..train });
    hand_on(Arrival::packet(last));
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::path_validation::{Ends, SIZE, Validation};
    use weft_core::process::Parties;

    #[test]
    fn questions_leave_the_train_in_which_a_kernel_has_put_them() {
        let question = Validation::unknown().poll_challenge(Instant(0)).unwrap();
        let question = path_validation::Keys::new(&wire::Secret::new([1; 16]), &Parties::of_only_job(1, 0))
            .challenge(&question, Ends::default());
        let packets = [[7; 3 * SIZE].as_slice(), &[8; 3 * SIZE]].concat();
        let asked = [packets.as_slice(), &question].concat();
        let twice = [question, question].concat();
        let trains: [(&[u8], usize, &[usize]); 5] = [
            (&packets, 3 * SIZE, &[6 * SIZE]),
            (&asked, 3 * SIZE, &[6 * SIZE, SIZE]),
            (&asked[..6 * SIZE + 5], 3 * SIZE, &[6 * SIZE + 5]),
            (&twice, SIZE, &[SIZE, SIZE]),
            (&question, SIZE, &[SIZE]),
        ];
        for (bytes, segment, expected) in trains {
            let mut parts = Vec::new();
            without_questions(Arrival { segment, ..Arrival::packet(bytes) }, &mut |part| parts.push(part.bytes.len()));
            assert_eq!(parts, expected);
        }
    }
}
