//! What an engine tells of itself: to `mpiexec --stats`, to tools, and to those who look from outside.

use weft_core::flow::Counters;

use super::Engine;
use crate::carriers::RailTraffic;
use crate::messages::CREDIT_PER_MESSAGE;
use crate::peers::Route;
use crate::request::Send;
use crate::transport::Platform;

/// What went to one peer, for `mpiexec --stats`.
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

impl<P: Platform> Engine<P> {
    /// What happened in all flows.
    pub fn counters(&self) -> Counters {
        let mut sum = self.network.past.clone();
        for (_, peer) in self.peers.iter() {
            let Route::Remote(remote) = &peer.route else { continue };
            remote.counters().into_iter().for_each(|counters| sum.add(counters));
        }
        sum
    }

    /// Whether a send would leave unasked, but its receiver has no room: messages before it wait there for their receives.
    pub fn waits_for_room(&self, send: &Send) -> bool {
        let Some((peer, state)) = send.peer.and_then(|peer| Some((peer, self.peers.get(peer)?))) else { return false };
        let bytes = send.data.len();
        bytes <= self.eager_limit(peer, &send.data) && state.matching.credit < bytes + CREDIT_PER_MESSAGE
    }

    /// The flow to each peer of another node that has been talked to of late.
    pub fn flows(&self) -> impl Iterator<Item = &weft_core::flow::Flow> {
        self.peers.iter().filter_map(|(_, peer)| match &peer.route {
            Route::Remote(remote) => remote.current_flow(),
            _ => None,
        })
    }

    /// Packets that cannot have come from any peer: too short, from nobody who is reached over the network, challenges about carriers
    /// with a wrong tag, and what the links found damaged.
    pub fn foreign(&self) -> u64 {
        let sentences = self.peers.iter().map(|(_, peer)| match &peer.route {
            Route::Remote(remote) => remote.forged(),
            _ => 0,
        });
        self.network.foreign
            + self.network.carriers.iter().map(|carrier| carrier.diagnostics().rejected).sum::<u64>()
            + sentences.sum::<u64>()
    }

    /// Packets that carriers wrote to memory of their receivers.
    pub fn packets_written(&self) -> u64 {
        self.network.carriers.iter().map(|carrier| carrier.diagnostics().written).sum()
    }

    /// What arrived from other hosts and was dropped, by cause.
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
            ("nonsense", self.messages.nonsense),
        ]
        .into_iter()
        .chain(self.messages.regions.refused())
        .filter(|(_, count)| *count > 0)
    }

    /// How often packets became smaller because a path carried no larger ones, and larger again.
    pub fn path_mtu_changes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Counters { packets_smaller, packets_larger, .. } = self.counters();
        [("smaller", packets_smaller), ("larger", packets_larger)].into_iter().filter(|(_, count)| *count > 0)
    }

    /// What went over each rail to each peer that has several.
    pub fn rail_traffic(&self) -> Vec<RailTraffic> {
        let remotes = self.peers.iter().filter_map(|(_, peer)| match &peer.route {
            Route::Remote(remote) if peer.traffic()[0] > 0 => Some(remote.rail_traffic(peer.number())),
            _ => None,
        });
        remotes.flatten().collect()
    }

    /// What went to each peer.
    pub fn traffic(&self) -> Vec<Traffic> {
        let mut rows = Vec::new();
        for (_, peer) in self.peers.iter() {
            let (name, resends) = match &peer.route {
                Route::Myself => ("self", 0),
                Route::Shared(_) => ("shared", 0),
                Route::Remote(remote) => (remote.links(&self.network.carriers), remote.resent()),
                Route::None(_) => ("none", 0),
            };
            let [messages, bytes, _] = peer.traffic();
            if messages > 0 {
                rows.push(Traffic { peer: peer.number(), link: name, messages, bytes, resends });
            }
        }
        rows
    }
}
