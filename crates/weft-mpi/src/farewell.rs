//! The farewell of a process to processes of other jobs: it says in `MPI_Finalize` that nothing more comes,
//! and they forget it.
//!
//! MPI_Finalize is collective over all connected processes (MPI-5.0 §11.10.4). So a process waits there for
//! the farewells of those with which it has a communicator in common. To the others it says farewell, and
//! waits for nothing.
//!
//! A farewell is an empty message in a context of its own. Its source is the index by which the receiver
//! knows the sender, because ranks of different jobs are the same.

use std::collections::HashSet;

use weft_core::matching::Envelope;
use weft_engine::messages::PeerAccess as _;

use crate::context::FAREWELL_CONTEXT;
use crate::engine::Engine;
use crate::memory::UserData;
use crate::object::{Group, PeerId};
use crate::process::Process;

impl Process {
    /// The peers that belong to other jobs.
    fn strangers(&self) -> Vec<PeerId> {
        let Some(engine) = self.engine.as_deref().filter(|engine| !engine.jobs_met().is_empty()) else {
            return Vec::new();
        };
        let own = engine.name_of(engine.peers.own()).map(|name| name.job);
        let peers = engine.peers.iter().map(|(peer, _)| peer);
        peers.filter(|peer| engine.name_of(*peer).map(|name| name.job) != own).collect()
    }

    /// The processes of other jobs that are in some object of this process.
    fn connected(&self) -> HashSet<PeerId> {
        let mut members = HashSet::new();
        self.objects.for_each_group(|group| members.extend(group.members.iter().copied()));
        members
    }

    /// A number that differs, as good as always, where two processes know different processes of other jobs.
    pub(crate) fn known_strangers(&self) -> u64 {
        let Some(engine) = self.engine.as_deref() else { return 0 };
        let names = self.strangers().into_iter().filter_map(|peer| engine.name_of(peer));
        names.fold(0, |all, name| {
            all ^ weft_net::node::hash(&[name.job.0.to_le_bytes(), u64::from(name.number).to_le_bytes()].concat())
        })
    }

    /// Returns whether some process of `group` belongs to another job.
    pub(crate) fn has_strangers(&self, group: &Group) -> bool {
        let Some(engine) = self.engine.as_deref().filter(|engine| !engine.jobs_met().is_empty()) else {
            return false;
        };
        let job = |peer| engine.name_of(peer).map(|name| name.job);
        let own = job(engine.peers.own());
        group.members.iter().any(|member| job(*member) != own)
    }

    /// Forgets processes of other jobs that have said farewell or are dead, and with which nothing is in
    /// common any more.
    pub(crate) fn forget_strangers(&mut self) {
        let strangers = self.strangers();
        if strangers.is_empty() {
            return;
        }
        self.progress();
        let connected = self.connected();
        let Some(engine) = &mut self.engine else { return };
        let gone = have_said_farewell(engine);
        let mut over = Vec::new();
        for peer in strangers {
            // A process that has said farewell waits for the acknowledgement.
            let has_ended = gone.contains(&peer) && engine.is_quiet_with(peer);
            if connected.contains(&peer) || !(has_ended || engine.peers.has_failed(peer)) {
                continue;
            }
            if let Some(index) = index_of(engine, peer) {
                engine.messages.drop_unexpected(FAREWELL_CONTEXT, index, 0);
            }
            over.push(peer);
        }
        over.into_iter().for_each(|peer| self.forget_peer(peer));
        let Some(engine) = &mut self.engine else { return };
        for job in engine.jobs_met() {
            engine.part_from_job(job);
        }
    }
}

/// The peers whose farewell is here.
fn have_said_farewell(engine: &mut Engine) -> HashSet<PeerId> {
    let arrived = engine.messages.unexpected_in(FAREWELL_CONTEXT);
    arrived.into_iter().filter_map(|(index, _)| engine.find_index(index)).collect()
}

/// The index by which this process knows `peer`.
fn index_of(engine: &Engine, peer: PeerId) -> Option<u32> {
    let name = engine.name_of(peer)?;
    Some(engine.index_of_job(name.job)? + name.number)
}

/// Says farewell to all processes of other jobs, as soon as the way there is free. A look of a call that
/// waits; `told` are those that have been told.
pub(crate) fn say_farewell(process: &mut Process, told: &mut HashSet<PeerId>) -> Option<()> {
    let strangers = process.strangers();
    if strangers.is_empty() {
        return Some(());
    }
    let connected = process.connected();
    let Some(engine) = &mut process.engine else { return Some(()) };
    let gone = have_said_farewell(engine);
    let mut is_done = true;
    for peer in strangers {
        let waits = connected.contains(&peer) || !gone.contains(&peer);
        if told.contains(&peer) || engine.peers.has_failed(peer) || !waits {
            continue;
        }
        let Some(source) = engine.own_index(peer) else { continue };
        let envelope = Envelope { context: FAREWELL_CONTEXT, source, tag: 0 };
        if engine.send_now(peer, envelope, &UserData::empty()) {
            told.insert(peer);
        } else {
            is_done = false;
        }
    }
    process.signal();
    is_done.then_some(())
}

/// Looks whether all processes of other jobs that are connected with this one have said farewell, or are
/// dead. A look of a call that waits.
pub(crate) fn await_farewells(process: &mut Process) -> Option<()> {
    let strangers = process.strangers();
    if strangers.is_empty() {
        return Some(());
    }
    let connected = process.connected();
    let engine = process.engine.as_mut()?;
    let gone = have_said_farewell(engine);
    let mut awaited = strangers.iter().filter(|peer| connected.contains(peer));
    awaited.all(|peer| gone.contains(peer) || engine.peers.has_failed(*peer)).then_some(())
}
