//! The farewell of a process to processes of other jobs: it says in `MPI_Finalize` that nothing more comes,
//! and they forget it.
//!
//! MPI_Finalize is collective over all connected processes (MPI-5.0 §11.10.4). The caller names the processes
//! with which this process has a communicator in common, and this process waits for their farewells. To other
//! processes of other jobs this process says farewell, and waits for nothing.
//!
//! A farewell is an empty message in a context of its own. Its source is the index by which the receiver
//! knows the sender, because ranks of different jobs are the same.

use std::collections::HashSet;

use weft_core::matching::Envelope;

use super::Engine;
use crate::group::PeerId;
use crate::memory::UserData;
use crate::messages::PeerAccess as _;
use crate::transport::Platform;

impl<P: Platform> Engine<P> {
    /// The peers that belong to other jobs.
    pub fn strangers(&self) -> Vec<PeerId> {
        if self.jobs_met().is_empty() {
            return Vec::new();
        }
        let own = self.name_of(self.peers.own()).map(|name| name.job);
        let peers = self.peers.iter().map(|(peer, _)| peer);
        peers.filter(|peer| self.name_of(*peer).map(|name| name.job) != own).collect()
    }

    /// The peers whose farewell is here. Farewells come in `context`.
    fn have_said_farewell(&mut self, context: u32) -> HashSet<PeerId> {
        let arrived = self.messages.unexpected_in(context);
        arrived.into_iter().filter_map(|(index, _)| self.find_index(index)).collect()
    }

    /// Forgets processes of other jobs that have said farewell or are dead, and are not `connected` with this
    /// one any more. Returns those of which nothing is left.
    pub fn forget_strangers(&mut self, context: u32, connected: &HashSet<PeerId>) -> Vec<PeerId> {
        let gone = self.have_said_farewell(context);
        let mut over = Vec::new();
        for peer in self.strangers() {
            // A process that has said farewell waits for the acknowledgement.
            let has_ended = gone.contains(&peer) && self.is_quiet_with(peer);
            if connected.contains(&peer) || !(has_ended || self.peers.has_failed(peer)) {
                continue;
            }
            if self.forget_stranger(context, peer) {
                over.push(peer);
            }
        }
        self.part_from_jobs();
        over
    }

    /// Forgets a process of another job, and its farewell if it is here. Returns false if other messages of
    /// it are kept: then it stays, as one that is gone.
    pub fn forget_stranger(&mut self, context: u32, peer: PeerId) -> bool {
        if let Some(index) = self.index_of(peer) {
            self.messages.drop_unexpected(context, index, 0);
        }
        self.remove_peer(peer)
    }

    /// Forgets the jobs of which no process is known.
    pub fn part_from_jobs(&mut self) {
        for job in self.jobs_met().into_iter().filter(|_| !cfg!(weft_mutant = "meeting_keeps_its_jobs")) {
            self.part_from_job(job);
        }
    }

    /// The index by which this process knows `peer`.
    fn index_of(&self, peer: PeerId) -> Option<u32> {
        let name = self.name_of(peer)?;
        Some(self.index_of_job(name.job)? + name.number)
    }

    /// Says farewell to all processes of other jobs, as far as the ways there are free. `told` are those that
    /// have been told. Returns whether all have been.
    pub fn say_farewell(&mut self, context: u32, connected: &HashSet<PeerId>, told: &mut HashSet<PeerId>) -> bool {
        let gone = self.have_said_farewell(context);
        let mut is_done = true;
        for peer in self.strangers() {
            let waits = connected.contains(&peer)
                || !gone.contains(&peer) && !cfg!(weft_mutant = "meeting_farewell_to_the_connected_only");
            if told.contains(&peer) || self.peers.has_failed(peer) || !waits {
                continue;
            }
            let Some(source) = self.own_index(peer) else { continue };
            let envelope = Envelope { context, source, tag: 0 };
            if self.send_now(peer, envelope, &UserData::empty()) {
                told.insert(peer);
            } else {
                is_done = false;
            }
        }
        is_done
    }

    /// Returns whether all `connected` processes of other jobs have said farewell, or are dead. Meanwhile
    /// this process asks now and then whether they live.
    pub fn has_all_farewells(&mut self, context: u32, connected: &HashSet<PeerId>) -> bool {
        let gone = self.have_said_farewell(context);
        let is_awaited =
            |peer: &PeerId| connected.contains(peer) && !gone.contains(peer) && !self.peers.has_failed(*peer);
        let awaited: Vec<PeerId> = self.strangers().into_iter().filter(is_awaited).collect();
        let is_done = awaited.is_empty();
        self.await_farewells_of(awaited);
        is_done
    }
}
