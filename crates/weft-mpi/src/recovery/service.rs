//! The agreements of one communicator: moves the messages between the state machine of `weft-core` and the
//! engine, and hands out the decisions.

use weft_core::matching::Envelope;

use super::excluded;
use crate::constants::MPI_COMM_WORLD;
use crate::context::RECOVERY_CONTEXT;
use crate::error::Result;
use crate::memory::SharedBuffer;
use crate::object::PeerId;
use crate::process::{Process, Service, Waiting};
use crate::request::{Mode, Send};

/// The most freed communicators whose agreements are kept, for processes that have not got the last decision.
const FREED_MAX: usize = 64;
/// The exit code of a process that the others take for failed.
const EXIT_EXCLUDED: i32 = 1;

impl Process {
    /// The agreements of a communicator; there are some from now on.
    pub(super) fn service_of(&mut self, communicator: usize) -> Result<&mut Service> {
        let object = self.objects.communicator(communicator)?;
        let context = object.context;
        let known = self.recovery.services.iter().position(|service| service.context == context && !service.is_freed);
        let at = match known {
            Some(at) => at,
            None => {
                let (group, rank) = object.everybody();
                let mut service = Service::new(context, group.clone(), rank);
                for peer in self.failures_of(object) {
                    service.handle_failure(peer);
                }
                self.recovery.services.retain(|other| other.context != context);
                self.recovery.services.push(service);
                self.recovery.services.len() - 1
            }
        };
        self.messages()?.recovery.has_news = true;
        Ok(&mut self.recovery.services[at])
    }

    /// Keeps the agreements of a communicator that is gone: another process may not have the last decision.
    pub(crate) fn free_service(&mut self, context: u32) {
        let services = &mut self.recovery.services;
        let Some(at) = services.iter().position(|service| service.context == context) else { return };
        services[at].is_freed = true;
        if services[at].group.size() == 1 {
            services.remove(at);
        }
        if services.iter().filter(|service| service.is_freed).count() > FREED_MAX
            && let Some(oldest) = services.iter().position(|service| service.is_freed)
        {
            services.remove(oldest);
        }
    }

    /// Moves all agreements on: takes in messages, sends those that are due, and goes on with decisions.
    pub(super) fn serve_agreements(&mut self) {
        loop {
            let Self { recovery, engine: Some(engine), .. } = self else { return };
            let mut heard = Vec::new();
            for service in &mut recovery.services {
                service.receive(engine);
                while let Some(rank) = service.agreements.poll_heard() {
                    heard.push((service.group.members[rank as usize], rank == service.rank));
                }
            }
            for (peer, is_own) in heard {
                self.hear_from_agreement(peer, is_own);
            }
            self.send_of_agreements();
            if !self.take_decision() {
                return self.ask_voters();
            }
        }
    }

    /// Lets the engine ask those who vote whether they live, while a decision is waited for. A launcher tells
    /// of deaths in its own job only, and not every launcher does.
    fn ask_voters(&mut self) {
        let Self { recovery, engine: Some(engine), .. } = self else { return };
        let mut voters = Vec::new();
        for waiting in &recovery.waiting {
            let service = recovery.services.iter().find(|service| service.context == waiting.context);
            voters.extend(service.iter().flat_map(|service| service.group.members.iter().copied()));
        }
        engine.await_decision_of(voters);
    }

    /// Takes another process's word that a process has failed.
    fn hear_from_agreement(&mut self, peer: PeerId, is_own: bool) {
        if is_own {
            let rank = self.job.as_ref().map_or(0, |job| job.rank);
            crate::say(&format!("weft: rank {rank}: {}", excluded()));
            weft_launch::exit_now(EXIT_EXCLUDED);
        }
        if let Some(engine) = &mut self.engine {
            engine.hear_of_death(peer, "it has failed, says another process");
        }
    }

    fn send_of_agreements(&mut self) {
        let mut due = Vec::new();
        for (at, service) in self.recovery.services.iter_mut().enumerate() {
            while let Some((to, bytes)) = service.unsent.pop_front().or_else(|| service.agreements.poll_transmit()) {
                due.push((at, to, bytes));
            }
        }
        for (at, to, bytes) in due {
            let service = &self.recovery.services[at];
            let (peer, source) = (service.group.members[to as usize], service.rank);
            let envelope = Envelope { context: service.context + RECOVERY_CONTEXT, source, tag: 0 };
            let buffer = SharedBuffer::new(bytes.len());
            buffer.write(0, &bytes);
            let data = buffer.describe_all();
            let send = Send { peer: Some(peer), envelope, data, mode: Mode::Standard, blocking: false };
            if self.start_copied(send, MPI_COMM_WORLD).is_err() {
                self.recovery.services[at].unsent.push_back((to, bytes));
            }
        }
    }

    /// Goes on with a decision that is here. Returns false if there is none.
    fn take_decision(&mut self) -> bool {
        let decision = |waiting: &Waiting| {
            let service = self.recovery.services.iter().find(|service| service.context == waiting.context)?;
            service.agreements.decision(waiting.number, waiting.round).cloned()
        };
        let found = self.recovery.waiting.iter().enumerate().find_map(|(at, waiting)| Some((at, decision(waiting)?)));
        let Some((at, decision)) = found else { return false };
        let waiting = self.recovery.waiting.remove(at);
        (waiting.then)(self, decision);
        true
    }
}
