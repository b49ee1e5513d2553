//! The farewell of this process to processes of other jobs (`weft_engine::engine`, `farewell.rs`): which of
//! them are connected with it, and what else is forgotten with a process.

use std::collections::HashSet;

use crate::context::FAREWELL_CONTEXT;
use crate::object::{Group, PeerId};
use crate::process::Process;

impl Process {
    /// The processes of other jobs that are in some object of this process.
    fn connected(&self) -> HashSet<PeerId> {
        let mut members = HashSet::new();
        self.objects.for_each_group(|group| members.extend(group.members.iter().copied()));
        members
    }

    /// A number that differs, as good as always, where two processes know different processes of other jobs.
    pub(crate) fn known_strangers(&self) -> u64 {
        let Some(engine) = self.engine.as_deref() else { return 0 };
        let names = engine.strangers().into_iter().filter_map(|peer| engine.name_of(peer));
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
        if self.engine.as_deref().is_none_or(|engine| engine.jobs_met().is_empty()) {
            return;
        }
        self.progress();
        let connected = self.connected();
        let Some(engine) = &mut self.engine else { return };
        let over = engine.forget_strangers(FAREWELL_CONTEXT, &connected);
        over.into_iter().for_each(|peer| self.forget_facts_of(peer));
    }
}

/// Says farewell to all processes of other jobs, as soon as the way there is free. A look of a call that
/// waits; `told` are those that have been told.
pub(crate) fn say_farewell(process: &mut Process, told: &mut HashSet<PeerId>) -> Option<()> {
    let connected = process.connected();
    let Some(engine) = &mut process.engine else { return Some(()) };
    let is_done = engine.say_farewell(FAREWELL_CONTEXT, &connected, told);
    process.signal();
    is_done.then_some(())
}

/// Looks whether all processes of other jobs that are connected with this one have said farewell, or are
/// dead. A look of a call that waits.
pub(crate) fn await_farewells(process: &mut Process) -> Option<()> {
    let connected = process.connected();
    let engine = process.engine.as_mut()?;
    engine.has_all_farewells(FAREWELL_CONTEXT, &connected).then_some(())
}
