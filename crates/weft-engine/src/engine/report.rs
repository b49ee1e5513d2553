//! What an engine tells of itself: to `mpiexec --stats`, to tools, and to those who look from outside.

use weft_core::flow::Counters;

use super::{Engine, Path, RailTraffic};
use crate::transport::Platform;

/// What went to one peer, for `mpiexec --stats`.
pub struct Traffic {
    /// Index of the peer in the job.
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
    /// Path, messages, bytes and credit of each peer, by its index in the job; at most the first `limit`.
    pub fn each_link(&self, limit: usize, mut look: impl FnMut(usize, &Path, [u64; 3])) {
        for (peer, link) in self.links.iter().take(limit).enumerate() {
            look(peer, &link.path, [link.messages, link.bytes, self.messages.peers[peer].credit]);
        }
    }

    /// What happened in all flows.
    pub fn counters(&self) -> Counters {
        let mut sum = self.past.clone();
        self.flows().for_each(|flow| sum.add(flow.counters()));
        sum
    }

    /// The flow to each peer of another node that has been talked to of late.
    pub fn flows(&self) -> impl Iterator<Item = &weft_core::flow::Flow> {
        self.links.iter().filter_map(|link| match &link.path {
            Path::Remote(remote) => remote.flow.as_deref(),
            _ => None,
        })
    }

    /// Packets that cannot have come from any peer: too short, from nobody who is reached over the network, questions about lanes
    /// with a wrong tag, and what the links found damaged.
    pub fn foreign(&self) -> u64 {
        let sentences = self.links.iter().map(|link| match &link.path {
            Path::Remote(remote) => remote.forged(),
            _ => 0,
        });
        self.foreign + self.devices.iter().map(|device| device.rejected()).sum::<u64>() + sentences.sum::<u64>()
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
        .filter(|(_, count)| *count > 0)
    }

    /// What went over each rail to each peer that has several.
    pub fn rail_traffic(&self) -> Vec<RailTraffic> {
        let remotes = self.links.iter().enumerate().filter_map(|(peer, link)| match &link.path {
            Path::Remote(remote) if link.messages > 0 => Some(remote.rail_traffic(peer as u32)),
            _ => None,
        });
        remotes.flatten().collect()
    }

    /// What went to each peer.
    pub fn traffic(&self) -> Vec<Traffic> {
        let mut rows = Vec::new();
        for (peer, link) in self.links.iter().enumerate() {
            let (name, resends) = match &link.path {
                Path::Myself => ("self", 0),
                Path::Shared(_) => ("shared", 0),
                Path::Remote(remote) => (remote.links(&self.devices), remote.resent()),
                Path::None(_) => ("none", 0),
            };
            if link.messages > 0 {
                rows.push(Traffic {
                    peer: peer as u32,
                    link: name,
                    messages: link.messages,
                    bytes: link.bytes,
                    resends,
                });
            }
        }
        rows
    }
}
