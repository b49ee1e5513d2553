//! The reports of an engine about itself: for `mpiexec --stats`, for tools, and for observers outside.

use weft_ordered::Map;

use weft_core::flow::Counters;

use super::PointToPoint;
use crate::carriers::{RailTraffic, Remote};
use crate::group::PeerId;
use crate::messages::CREDIT_PER_MESSAGE;
use crate::peers::Route;
use crate::request::Send;
use crate::transport::Platform;

/// The traffic to one peer, for `mpiexec --stats`.
pub struct Traffic {
    /// The peer's number.
    pub peer: u32,
    /// Name of the link.
    pub link: &'static str,
    /// Messages sent.
    pub messages: u64,
    /// Bytes of payload sent.
    pub bytes: u64,
    /// Packets sent again.
    pub resends: u64,
}

impl<P: Platform> PointToPoint<P> {
    /// The counters of all flows together.
    pub fn counters(&self) -> Counters {
        let mut sum = self.network.past.clone();
        self.network.remotes.iter().filter_map(Remote::counters).for_each(|counters| sum.add(counters));
        sum
    }

    /// Returns whether a send would leave eagerly, but its receiver has no room: messages before it wait
    /// there for their receives.
    pub fn waits_for_room(&self, send: &Send) -> bool {
        let Some((peer, state)) = send.peer.and_then(|peer| Some((peer, self.peers.get(peer)?))) else { return false };
        let bytes = send.data.len();
        bytes <= self.eager_limit(peer, &send.data) && state.matching.credit < bytes + CREDIT_PER_MESSAGE
    }

    /// The flow to each peer of another node that has been talked to of late.
    pub fn flows(&self) -> impl Iterator<Item = &weft_core::flow::Flow> {
        self.remotes().filter_map(Remote::current_flow)
    }

    /// The [`Remote`] of each peer of another node: its flow or connection, and its carriers.
    pub fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.network.remotes.iter()
    }

    /// The [`Remote`] of one peer; `None`: the peer is reached otherwise, or not at all.
    pub fn remote(&self, peer: PeerId) -> Option<&Remote> {
        self.network.remotes.get(peer)
    }

    /// The number of packets that cannot have come from any peer:
    ///
    /// - packets that are too short;
    /// - packets that name no process reached over the network;
    /// - challenges about carriers with a wrong tag;
    /// - packets that the links found damaged.
    pub fn foreign(&self) -> u64 {
        let sentences = self.network.remotes.iter().map(Remote::forged);
        self.network.foreign
            + self.network.carriers.iter().map(|carrier| carrier.diagnostics().rejected).sum::<u64>()
            + sentences.sum::<u64>()
    }

    /// The number of packets that carriers wrote to memory of their receivers.
    pub fn packets_written(&self) -> u64 {
        self.network.carriers.iter().map(|carrier| carrier.diagnostics().written).sum()
    }

    /// The packets that arrived from other hosts and were dropped, by cause.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let flows = self.counters();
        [
            ("foreign", self.foreign()),
            ("forged", flows.forged),
            ("duplicate", flows.duplicates),
            ("replayed", flows.replayed),
            ("out-of-window", flows.out_of_window),
            ("malformed", flows.malformed),
            ("unsealed", flows.unsealed),
            ("malformed-frames", self.messages.malformed_frames),
        ]
        .into_iter()
        .chain(self.messages.regions.refused())
        .filter(|(_, count)| *count > 0)
    }

    /// The number of times that packets became smaller because a path carried no larger ones, and larger
    /// again.
    pub fn path_mtu_changes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Counters { packets_smaller, packets_larger, .. } = self.counters();
        [("smaller", packets_smaller), ("larger", packets_larger)].into_iter().filter(|(_, count)| *count > 0)
    }

    /// The traffic of each rail to each peer of this job that has several.
    pub fn rail_traffic(&self) -> Vec<RailTraffic> {
        let remotes = self.peers.iter().filter_map(|(id, peer)| {
            let counts = peer.is_of_own_job() && peer.traffic()[0] > 0;
            let remote = self.network.remotes.get(id).filter(|_| counts)?;
            Some(remote.rail_traffic(peer.number()))
        });
        remotes.flatten().collect()
    }

    /// The messages to processes of other jobs, by link; those that are gone count.
    pub fn messages_to_other_jobs(&self) -> Map<&'static str, u64> {
        let mut all = self.past_messages.clone();
        for (id, peer) in self.peers.iter().filter(|(_, peer)| !peer.is_of_own_job()) {
            if let Some(remote) = self.network.remotes.get(id) {
                *all.entry(remote.links(&self.network.carriers)).or_default() += peer.traffic()[0];
            }
        }
        all.retain(|_, messages| *messages > 0);
        all
    }

    /// The traffic to each peer of this job.
    pub fn traffic(&self) -> Vec<Traffic> {
        let mut rows = Vec::new();
        for (id, peer) in self.peers.iter().filter(|(_, peer)| peer.is_of_own_job()) {
            let (name, resends) = match (&peer.route, self.network.remotes.get(id)) {
                (Route::Myself, _) => ("self", 0),
                (Route::Shared(_), _) => ("shared", 0),
                (_, Some(remote)) => (remote.links(&self.network.carriers), remote.resent()),
                (_, None) => ("none", 0),
            };
            let [messages, bytes, _] = peer.traffic();
            if messages > 0 {
                rows.push(Traffic { peer: peer.number(), link: name, messages, bytes, resends });
            }
        }
        rows
    }
}
