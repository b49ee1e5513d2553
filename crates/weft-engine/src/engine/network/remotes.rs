//! The table of [`Remote`]s: the flow or connection to each peer of another node, and its carriers.
//!
//! It is kept apart from the table of peers. A flow may deliver something that concerns any peer, so the flow
//! and the whole table are in use at the same time.

use crate::carriers::Remote;
use crate::group::PeerId;

/// The [`Remote`] of each peer, by index; `None` for peers that are reached otherwise, or not at all.
#[derive(Default)]
pub(in crate::engine) struct Remotes {
    entries: Vec<Option<Box<Remote>>>,
}

impl Remotes {
    /// Adds the carriers by which `peer` is reached from now on.
    pub(in crate::engine) fn insert(&mut self, peer: PeerId, remote: Box<Remote>) {
        if self.entries.len() <= peer.index() {
            self.entries.resize_with(peer.index() + 1, || None);
        }
        self.entries[peer.index()] = Some(remote);
    }

    /// Removes the carriers to `peer`: nothing leads to it any more.
    pub(in crate::engine) fn remove(&mut self, peer: PeerId) -> Option<Box<Remote>> {
        let removed = self.entries.get_mut(peer.index())?.take();
        while matches!(self.entries.last(), Some(None)) {
            self.entries.pop();
        }
        removed
    }

    #[inline(always)]
    pub(in crate::engine) fn get(&self, peer: PeerId) -> Option<&Remote> {
        self.entries.get(peer.index())?.as_deref()
    }

    /// The [`Remote`] of `peer`, to change it.
    #[inline(always)]
    pub(in crate::engine) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Remote> {
        self.entries.get_mut(peer.index())?.as_deref_mut()
    }

    /// All [`Remote`]s, by the indices of their peers.
    pub(in crate::engine) fn iter(&self) -> impl Iterator<Item = &Remote> {
        self.entries.iter().flatten().map(|remote| &**remote)
    }
}
