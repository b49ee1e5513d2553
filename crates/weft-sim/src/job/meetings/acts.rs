//! What a process does beside meetings: messages and collectives between jobs, agreements, and its end.

use super::plan::Act;
use super::process::{Comm, Ctx, WORLD, process_of};
use std::collections::HashSet;
use std::future::pending;
use weft_core::matching::Envelope;
use weft_engine::error::Error;
use weft_engine::group::{Group, PeerId};
use weft_engine::memory::SharedBuffer;
use weft_plan::agreement::Vote;
use weft_plan::contexts::{FAREWELL_CONTEXT, Reserved, Serial};
use weft_random::{fill, mix};

use super::world::Life;

/// The longest time for which a process that ends waits for acknowledgements of other jobs, nanoseconds.
const FAREWELL_LIMIT_NS: u64 = 2_000_000_000;
/// The most bytes of a message between jobs.
const BYTES_MAX: u64 = 3_000;
/// The communicator that a shrinking makes, until it is given up.
const SHRUNK: usize = usize::MAX - 2;
/// The peer timeouts after which a process that is gone must be forgotten.
const FORGOTTEN_AFTER: u64 = 4;

/// Does all acts of a process, from its beginning to its end.
pub(super) async fn live(ctx: Ctx) {
    for number in 0..ctx.plan.acts.len() {
        if !ctx.plan.members(number).contains(&ctx.process) {
            continue;
        }
        ctx.proc().begin(number);
        match ctx.plan.acts[number] {
            Act::Meet { .. } => {
                ctx.meet(number).await;
                let spawned = ctx.plan.jobs[ctx.proc().job].spawned_by;
                if spawned == Some(number) && ctx.world().verdict(number, ctx.process) == Some(false) {
                    // MPI_Init fails.
                    ctx.world().dying.insert(ctx.process);
                    pending::<()>().await;
                }
            }
            Act::Exchange { meeting } => ctx.exchange(number, meeting).await,
            Act::Gather { meeting } => ctx.gather(number, meeting).await,
            Act::Disconnect { meeting } => {
                ctx.pause().await;
                ctx.proc().remove_comm(meeting);
            }
            Act::Agree { meeting, shrinks, .. } => ctx.agree(number, meeting.unwrap_or(WORLD), shrinks).await,
        }
    }
    ctx.proc().begin(ctx.plan.acts.len());
    ctx.finalize().await;
}

impl Ctx {
    /// Says whether nothing is promised any more of a communicator: a living process has none of it.
    fn is_excused(&self, which: usize) -> bool {
        which != WORLD && self.world.borrow().is_torn(which)
    }

    /// Fails the program if an operation on a communicator has failed although all its processes live.
    fn judge(&self, act: usize, which: usize, members: &[usize], error: &Error) {
        let excused = self.is_excused(which)
            || members.iter().any(|process| matches!(self.world.borrow().lives[*process], Life::Dead(_)));
        if !excused {
            self.world().fail(self.process, || format!("act {act} fails, and all processes live: {error}"));
        }
    }

    /// The processes of a group.
    fn processes(&self, members: &[PeerId]) -> Vec<Option<usize>> {
        let proc = self.proc();
        members.iter().map(|peer| Some(process_of(&self.plan, proc.engine.name_of(*peer)?))).collect()
    }

    async fn exchange(&self, number: usize, meeting: usize) {
        self.pause().await;
        let Some((context, source, remote)) = self.proc().comms.get(&meeting).map(|comm| {
            (comm.context, comm.local.rank.unwrap_or(0), comm.remote.clone().map(|group| group.members.clone()))
        }) else {
            return;
        };
        let (remote, all) = (remote.unwrap_or_default(), self.plan.members(meeting));
        let theirs = self.processes(&remote);
        let content = |from: usize, to: usize| {
            let key = mix(self.plan.seed ^ (number * 10_000 + from * 100 + to) as u64);
            let buffer = SharedBuffer::new((key % BYTES_MAX) as usize);
            let mut bytes = vec![0; buffer.len()];
            fill(key, 0, &mut bytes);
            buffer.write(0, &bytes);
            (buffer, bytes)
        };
        let mut under_way = Vec::new();
        for (rank, (peer, process)) in remote.iter().zip(&theirs).enumerate() {
            let Some(process) = *process else { continue };
            self.step().await;
            let tag = number as i32;
            let (_, expected) = content(process, self.process);
            let incoming = SharedBuffer::new(expected.len());
            let receive = self.receive(*peer, Envelope { context, source: rank as u32, tag }, &incoming);
            let (outgoing, _) = content(self.process, process);
            let send = self.send(*peer, Envelope { context, source, tag }, &outgoing);
            under_way.push((receive, Some((incoming, expected))));
            under_way.push((send, None));
            // The memory of a send stays until it is over.
            under_way.push((Ok(usize::MAX), Some((outgoing.clone(), Vec::new()))));
        }
        for (handle, received) in &under_way {
            let ended = match handle {
                Ok(usize::MAX) => continue,
                Ok(handle) => self.wait(*handle, |this| this.is_excused(meeting)).await,
                Err(error) => Err(error.clone()),
            };
            match (ended, received) {
                (Err(error), _) => self.judge(number, meeting, &all, &error),
                (Ok(()), Some((buffer, expected))) if !buffer.equals(0, expected) => {
                    self.world().fail(self.process, || format!("act {number}: a message has other bytes"));
                }
                _ => {}
            }
        }
    }

    async fn gather(&self, number: usize, meeting: usize) {
        self.pause().await;
        let Some(scope) = self.scope(meeting) else { return };
        let members = self.plan.members(meeting);
        let group = scope.group.clone();
        let own = [(number * 100 + self.process) as i64];
        match self.gather_all(scope, &own, |this| this.is_excused(meeting)).await {
            Err(error) => self.judge(number, meeting, &members, &error),
            Ok(values) => {
                let wanted = self.processes(&group.members);
                let is_right = |(value, process): (&i64, &Option<usize>)| {
                    process.is_none_or(|process| *value == (number * 100 + process) as i64)
                };
                if !values.iter().zip(&wanted).all(is_right) {
                    self.world().fail(self.process, || format!("act {number} gathers {values:?} of {wanted:?}"));
                }
            }
        }
    }

    /// Votes in a round of an agreement, and waits for the decision; `None`: nothing is promised of it.
    async fn decide(&self, act: usize, which: usize, (number, round): (u32, u32), vote: Vote) -> Option<Vote> {
        {
            let mut proc = self.proc();
            let failed = proc.comms.get(&which)?.agreements.as_ref()?.failed().clone();
            let agreements = proc.comms.get_mut(&which)?.agreements.as_mut()?;
            agreements.vote(number, round, Vote { failed, ..vote });
            proc.deciding = Some(which);
            proc.progress();
        }
        self.step().await;
        let decision = self.until("a decision", |this| {
            let decision = {
                let proc = this.proc();
                let comm = proc.comms.get(&which)?;
                comm.agreements.as_ref()?.decision(number, round).cloned()
            };
            decision.map(Some).or_else(|| this.is_excused(which).then_some(None))
        });
        let decision = decision.await;
        self.proc().deciding = None;
        let decision = decision?;
        let mut world = self.world();
        world.counts.decisions += 1;
        let entry = world.decisions.entry(format!("act {act}, round {round}")).or_default();
        entry.push((self.process, format!("{decision:?}")));
        Some(decision)
    }

    async fn agree(&self, number: usize, which: usize, shrinks: bool) {
        self.pause().await;
        if !self.proc().comms.contains_key(&which) || self.is_excused(which) {
            return;
        }
        let agreement = {
            let mut proc = self.proc();
            proc.begin_agreements(which);
            let agreements = proc.comms.get_mut(&which).and_then(|comm| comm.agreements.as_mut());
            agreements.and_then(|agreements| agreements.begin()).expect("there is room")
        };
        let done = if shrinks {
            self.shrink(number, which, agreement).await
        } else {
            let flags = !(1 << (self.process % 32));
            self.decide(number, which, (agreement, 0), Vote::new(flags)).await.map(|decision| {
                let lives = (0..self.plan.processes()).filter(|process| self.world.borrow().runs(*process));
                let members = if which == WORLD { self.plan.members(number) } else { self.plan.members(which) };
                let wanted = lives
                    .filter(|process| members.contains(process))
                    .fold(u32::MAX, |all, process| all & !(1 << (process % 32)));
                if decision.flags & !wanted != 0 {
                    self.world().fail(self.process, || {
                        format!("act {number} decides {:#x}, and those that live have {wanted:#x}", decision.flags)
                    });
                }
            })
        };
        if done.is_some()
            && let Some(agreements) = self.proc().comms.get_mut(&which).and_then(|comm| comm.agreements.as_mut())
        {
            agreements.finish(agreement);
        }
    }

    /// Makes a communicator of the processes that live, as `weft-mpi` does (`communicator/agreement.rs`).
    async fn shrink(&self, act: usize, which: usize, agreement: u32) -> Option<()> {
        let (context, both) = {
            let proc = self.proc();
            let comm = proc.comms.get(&which)?;
            (comm.context, comm.both.clone())
        };
        let (mut met, mut round) = (0, 0);
        let (serial, failed) = loop {
            let offer = self.proc().contexts.offer(u64::from(context) << 32 | 0xffff, met)?;
            let vote = Vote { highest: offer.0, ..Vote::new(u32::MAX) };
            let decision = self.decide(act, which, (agreement, round), vote).await;
            let Some(decision) = decision else {
                self.proc().contexts.withdraw(offer);
                return None;
            };
            let serial = Serial(decision.highest);
            let reserved = self.proc().contexts.reserve(serial, true);
            let vote = Vote { lowest: reserved as u64, ..Vote::new(u32::MAX) };
            let decision = self.decide(act, which, (agreement, round + 1), vote).await;
            let contexts = &mut self.proc().contexts;
            let confirmed = decision.as_ref().is_some_and(|one| one.lowest >= Reserved::OursWithoutSlot as u64);
            if reserved == Reserved::Ours {
                if confirmed { contexts.begin_use(serial) } else { contexts.release(serial) }
            }
            contexts.withdraw(offer);
            let decision = decision?;
            if confirmed {
                break (serial, decision.failed);
            }
            (met, round) = (met + 1, round + 2);
        };
        let living: Vec<PeerId> =
            (0..).zip(&both.members).filter(|(rank, _)| !failed.contains(*rank)).map(|(_, peer)| *peer).collect();
        {
            let mut proc = self.proc();
            let group = Group::new(living.clone(), proc.engine.peers.own());
            if group.rank.is_none() {
                drop(proc);
                self.world().fail(self.process, || format!("act {act}: it lives, and is in no group"));
                return None;
            }
            let comm = Comm::new(serial.context(), group.clone(), group);
            proc.comms.insert(SHRUNK, comm);
        }
        let processes = self.processes(&living);
        self.world()
            .decisions
            .entry(format!("act {act}, group"))
            .or_default()
            .push((self.process, format!("{processes:?} in {}", serial.context())));
        // The new communicator works, unless another process dies.
        let scope = self.scope(SHRUNK)?;
        let gathered = self.gather_all(scope, &[self.process as i64], |this| this.is_excused(which)).await;
        let members: Vec<usize> = processes.into_iter().flatten().collect();
        match gathered {
            Err(error) => self.judge(act, which, &members, &error),
            Ok(values) if values.iter().zip(&members).any(|(value, process)| *value != *process as i64) => {
                self.world().fail(self.process, || format!("act {act}: the new communicator gathers {values:?}"));
            }
            Ok(_) => {}
        }
        self.proc().remove_comm(SHRUNK);
        Some(())
    }

    /// Ends the process as `weft-mpi` does (`start/leave.rs`).
    async fn finalize(&self) {
        self.pause().await;
        let job = self.proc().job;
        self.until("the fence of its job", |this| this.world().fence(job, 0, this.process).then_some(())).await;
        let mut told = HashSet::new();
        self.step().await;
        self.until("room for farewells", |this| {
            let mut proc = this.proc();
            let connected = proc.connected();
            proc.engine.say_farewell(FAREWELL_CONTEXT, &connected, &mut told).then_some(())
        })
        .await;
        self.world().counts.farewells += told.len() as u64;
        self.note(|| format!("has said farewell to {:?}", self.processes(&told.iter().copied().collect::<Vec<_>>())));
        self.step().await;
        self.until("farewells", |this| {
            let mut proc = this.proc();
            let connected = proc.connected();
            proc.engine.has_all_farewells(FAREWELL_CONTEXT, &connected).then_some(())
        })
        .await;
        self.step().await;
        let until = self.world().now() + FAREWELL_LIMIT_NS;
        self.world().alarm(until, self.process);
        self.until("acknowledgements", |this| {
            let (proc, now) = (this.proc(), this.world.borrow().now());
            let is_late = !proc.engine.jobs_met().is_empty() && now >= until;
            let is_quiet = proc.engine.is_quiet();
            if is_late && !is_quiet {
                this.world().late.insert(this.process);
            }
            (is_quiet || is_late).then_some(())
        })
        .await;
        self.until("the last fence of its job", |this| this.world().fence(job, 1, this.process).then_some(())).await;
        self.check_end();
        let now = self.world().now();
        self.note(|| "ends".into());
        self.world().leave(self.process, Life::Ended(now));
    }

    /// Checks, as a meeting begins, that the processes that have ended are forgotten. Each has waited until
    /// its farewell was there.
    pub(super) fn check_forgotten(&self) {
        let connected = self.proc().connected();
        let strangers = self.proc().engine.strangers();
        for peer in strangers.into_iter().filter(|peer| !connected.contains(peer)) {
            let Some(name) = self.proc().engine.name_of(peer) else { continue };
            let process = process_of(&self.plan, name);
            let has_ended = matches!(self.world.borrow().lives[process], Life::Ended(_));
            if has_ended && self.proc().engine.is_quiet_with(peer) && !self.world.borrow().is_late(process) {
                self.world().fail(self.process, || format!("it keeps process {process}, which has said farewell"));
            }
        }
    }

    /// Checks that nothing is left of processes that are gone.
    fn check_end(&self) {
        self.forget_strangers();
        let open: Vec<usize> = self.proc().comms.keys().copied().filter(|which| *which < SHRUNK).collect();
        let connected = self.proc().connected();
        let strangers = self.proc().engine.strangers();
        let now = self.world().now();
        for peer in strangers.into_iter().filter(|peer| !connected.contains(peer)) {
            let Some(name) = self.proc().engine.name_of(peer) else { continue };
            let process = process_of(&self.plan, name);
            let gone = match self.world.borrow().lives[process] {
                Life::Dead(at) | Life::Ended(at) => at,
                _ => continue,
            };
            if now > gone + FORGOTTEN_AFTER * self.plan.peer_timeout.0 {
                self.world()
                    .fail(self.process, || format!("it keeps process {process}, which is gone since {gone} ns"));
            }
        }
        open.into_iter().for_each(|which| self.proc().remove_comm(which));
        let mut proc = self.proc();
        proc.sweep();
        let (agreements, used) = (proc.contexts.under_way(), proc.contexts.used());
        if agreements > 0 || used > 0 {
            self.world()
                .fail(self.process, || format!("{agreements} context numbers are reserved, {used} used at the end"));
        }
        let segments: HashSet<_> = proc.near.values().copied().collect();
        let mapped = self.world.borrow().mapped_by(self.process);
        if segments.len() != mapped {
            self.world().fail(self.process, || format!("it maps {mapped} segments, and uses {}", segments.len()));
        }
        let (flows, peers) = (proc.engine.remotes().count(), proc.engine.peers.iter().count());
        if flows >= peers {
            self.world().fail(self.process, || format!("it has {flows} flows to {} peers", peers - 1));
        }
    }
}
