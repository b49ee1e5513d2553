//! A process of one of several jobs: its engine, its communicators, and operations that wait.

use super::plan::Plan;
use super::world::World;
use crate::job::collectives::item;
use crate::job::construct::{SimEngine, UNEXPECTED_BYTES};
use crate::job::moments::Moments;
use crate::job::network::{Medium, address};
use crate::job::platform::Virtual;
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, HashSet};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use weft_core::flow::Settings;
use weft_core::matching::Envelope;
use weft_core::path_validation::Ends;
use weft_core::process::{JobId, ProcessName};
use weft_core::rails::{RailCarrier, Role};
use weft_core::reduce::Op;
use weft_core::time::Duration;
use weft_core::wire::Secret;
use weft_engine::arguments::{Arguments, CollectiveScope, Operation};
use weft_engine::carriers::{self, Attendance, CarrierId, CarrierPath, Remote};
use weft_engine::engine::{Engine, Parts};
use weft_engine::error::{Error, ErrorClass};
use weft_engine::group::{Group, PeerId};
use weft_engine::memory::{Bound, InProcess, Scratch, SharedBuffer};
use weft_engine::peers::{NewPeer, Route};
use weft_engine::protocols::CostModel;
use weft_engine::request::{Mode, Receive, Request, Send, State};
use weft_engine::schedules::{Cursor, Progress};
use weft_plan::agreement::Agreements;
use weft_plan::collective::{self, Allgather, Allreduce, Bcast, ElementShape, Items, Schedule, choice};
use weft_plan::contexts::{CONTEXTS_EACH, Contexts, RECOVERY_CONTEXT};
use weft_plan::meeting::SegmentKey;
use weft_random::{Random, mix};

/// The context of the messages of a process's own job.
pub(super) const WORLD_CONTEXT: u32 = 0;
/// The communicator of a process's own job, beside those of meetings.
pub(super) const WORLD: usize = usize::MAX;

/// The communicator of a process alone.
pub(super) const ALONE: usize = usize::MAX - 1;
/// The context of its messages.
const ALONE_CONTEXT: u32 = CONTEXTS_EACH;

/// A communicator.
pub(super) struct Comm {
    pub(super) context: u32,
    /// This process's group, and the other one if there is one.
    pub(super) local: Arc<Group>,
    pub(super) remote: Option<Arc<Group>>,
    /// All processes, in the same order everywhere, and the rank of this one.
    pub(super) both: Arc<Group>,
    pub(super) rank: u32,
    pub(super) tag: i32,
    pub(super) agreements: Option<Agreements>,
}

impl Comm {
    pub(super) fn new(context: u32, local: Arc<Group>, both: Arc<Group>) -> Self {
        let rank = both.rank.unwrap_or(0);
        Self { context, local, remote: None, both, rank, tag: 0, agreements: None }
    }
}

/// A process.
pub(super) struct Proc {
    pub(super) process: usize,
    pub(super) job: usize,
    pub(super) name: ProcessName,
    pub(super) engine: SimEngine,
    pub(super) secret: Secret,
    pub(super) contexts: Contexts,
    pub(super) comms: BTreeMap<usize, Comm>,
    /// Communicators that are gone, whose agreements others may still ask for.
    freed: Vec<Comm>,
    /// The communicator for a decision of which this process waits.
    pub(super) deciding: Option<usize>,
    /// This process has heard that others take it for dead.
    pub(super) is_excluded: bool,
    /// The segment by which each peer of another job on this node is reached.
    pub(super) near: BTreeMap<PeerId, SegmentKey>,
    /// Messages of agreements that are on their way: request and bytes.
    sent: Vec<(usize, SharedBuffer)>,
    /// The act that is done, and the steps in it.
    pub(super) act: usize,
    steps: u64,
    pub(super) turns: u64,
    pub(super) random: Random,
    /// What the process waits for, for people.
    pub(super) stands: &'static str,
}

/// The name of a job among all.
pub(super) fn job_id(plan: &Plan, job: usize) -> JobId {
    JobId(mix(plan.seed ^ (job as u64 + 1) << 40))
}

pub(super) fn name_of(plan: &Plan, process: usize) -> ProcessName {
    let (job, rank) = plan.of_process(process);
    ProcessName { job: job_id(plan, job), number: rank as u32 }
}

/// The process of a name.
pub(super) fn process_of(plan: &Plan, name: ProcessName) -> usize {
    let job = (0..plan.jobs.len()).find(|job| job_id(plan, *job) == name.job).expect("a job of the program");
    plan.process(job, name.number as usize)
}

/// The way to a process.
pub(super) fn route(plan: &Plan, to: usize) -> Route {
    let (role, rail) = (Role::BulkData, 0);
    let carrier = RailCarrier { role, rail, ends: Ends { own: rail, peer: rail }, standby: false };
    let path = CarrierPath { carrier: CarrierId(0), to: address(to, Medium::Udp) };
    let settings = Settings {
        packet_size: plan.wires.packet_size,
        window_packets: 64,
        sealed: false,
        peer_timeout: plan.peer_timeout,
        keepalive: Duration(plan.peer_timeout.0 / 8),
        ..Settings::default()
    };
    Route::Remote(Box::new(Remote::new(&[(carrier, path)], settings)))
}

impl Proc {
    pub(super) fn new(plan: &Plan, world: &World, process: usize) -> Self {
        let (job, rank) = plan.of_process(process);
        let size = plan.jobs[job].size;
        let mut bytes = [3; 16];
        bytes[..8].copy_from_slice(&mix(plan.seed ^ 0x7365_6372 ^ (job as u64) << 32).to_le_bytes());
        let secret = Secret::new(bytes);
        let name = name_of(plan, process);
        let carrier = Box::new(world.network.device(process, 0, Medium::Udp)) as carriers::BoxedCarrier;
        let mut engine = Engine::new(Parts {
            platform: Virtual { clock: world.clock.clone(), moments: Moments::new(plan.seed, 0, 0) },
            name,
            host: None,
            node: None,
            memory: InProcess::new(),
            carriers: carriers::Carriers::new(vec![carrier]),
            secret: Secret::new(bytes),
            eager_limit: None,
            costs: CostModel::BUILT_IN,
            unexpected_bytes: UNEXPECTED_BYTES,
            peer_timeout: plan.peer_timeout,
        });
        engine.messages.recovery.goes_on = true;
        engine.attend(Attendance::Prompt);
        for other in (0..size).filter(|other| *other != rank) {
            let name = ProcessName { number: other as u32, ..name };
            let route = route(plan, plan.process(job, other));
            engine.add_peer(NewPeer { name, own_index: rank as u32, route, process: 0, host: None });
        }
        let member = |other: usize| engine.find_process(ProcessName { number: other as u32, ..name });
        let members: Vec<PeerId> = (0..size)
            .map(|other| if other == rank { engine.peers.own() } else { member(other).expect("a peer") })
            .collect();
        let group = Group::new(members, engine.peers.own());
        let alone = Group::new(vec![engine.peers.own()], engine.peers.own());
        let alone = Comm::new(ALONE_CONTEXT, alone.clone(), alone);
        let world_comm = Comm::new(WORLD_CONTEXT, group.clone(), group);
        Self {
            process,
            job,
            name,
            engine,
            secret,
            contexts: Contexts::new(),
            comms: BTreeMap::from([(WORLD, world_comm), (ALONE, alone)]),
            freed: Vec::new(),
            deciding: None,
            is_excluded: false,
            near: BTreeMap::new(),
            sent: Vec::new(),
            act: 0,
            steps: 0,
            turns: 0,
            random: Random::new(mix(plan.seed ^ 0x7072 ^ (process as u64) << 32)),
            stands: "begins",
        }
    }

    /// Begins an act.
    pub(super) fn begin(&mut self, act: usize) {
        (self.act, self.steps) = (act, 0);
    }

    /// The processes of other jobs that are in some communicator of this one.
    pub(super) fn connected(&self) -> HashSet<PeerId> {
        self.comms.values().flat_map(|comm| comm.both.members.iter().copied()).collect()
    }

    /// Makes a pass of progress, and moves the agreements on.
    pub(super) fn progress(&mut self) {
        self.engine.progress();
        let Self { engine, comms, freed, sent, is_excluded, deciding, .. } = self;
        let voters = deciding.and_then(|which| comms.get(&which)).map(|comm| comm.both.members.clone());
        engine.await_decision_of(voters.unwrap_or_default());
        let failed = engine.messages.recovery.take_failures();
        for comm in comms.values_mut().chain(freed) {
            let Some(agreements) = &mut comm.agreements else { continue };
            for peer in &failed {
                if let Some(rank) = comm.both.members.iter().position(|member| member == peer) {
                    agreements.handle_failure(rank as u32);
                }
            }
            while let Some(taken) = engine.take_message(comm.context + RECOVERY_CONTEXT, None) {
                let bytes = taken.whole.expect("messages of agreements are short");
                agreements.handle_message(taken.envelope.source, &bytes);
            }
            while let Some(rank) = agreements.poll_heard() {
                *is_excluded |= rank == comm.rank;
                engine.hear_of_death(comm.both.members[rank as usize], "it has failed, says another process");
            }
            while let Some((to, bytes)) = agreements.poll_transmit() {
                let buffer = SharedBuffer::new(bytes.len());
                buffer.write(0, &bytes);
                let envelope = Envelope { context: comm.context + RECOVERY_CONTEXT, source: comm.rank, tag: 0 };
                let peer = Some(comm.both.members[to as usize]);
                let send = Send { peer, envelope, data: buffer.describe_all(), mode: Mode::Standard, blocking: false };
                if let Ok(handle) = engine.messages.add(State::Queued(send), 0) {
                    engine.start_send(handle);
                    sent.push((handle, buffer));
                }
            }
        }
        sent.retain(|(handle, _)| {
            let is_over = engine.messages.requests.get(*handle).is_none_or(Request::is_complete);
            if is_over {
                engine.messages.take_error(*handle);
            }
            !is_over
        });
        self.engine.progress();
    }

    /// Begins agreements of a communicator, if there are none.
    pub(super) fn begin_agreements(&mut self, which: usize) {
        let Self { engine, comms, .. } = self;
        let Some(comm) = comms.get_mut(&which).filter(|comm| comm.agreements.is_none()) else { return };
        let mut agreements = Agreements::new(comm.rank, comm.both.size());
        for peer in &engine.messages.recovery.failures {
            if let Some(rank) = comm.both.members.iter().position(|member| member == peer) {
                agreements.handle_failure(rank as u32);
            }
        }
        comm.agreements = Some(agreements);
    }

    /// The time until this process must look, nanoseconds.
    pub(super) fn due(&mut self) -> Option<u64> {
        if self.engine.has_work() {
            return Some(1);
        }
        let sleep = self.engine.prepare_sleep();
        self.engine.finish_sleep();
        sleep.map_or(Some(1), |sleep| sleep.timeout)
    }

    /// Drops the messages in contexts that no communicator has, and in `another` one.
    pub(super) fn discard_contexts_that_are_over(&mut self, another: Option<u32>) {
        self.progress();
        let Self { engine, contexts, .. } = self;
        engine.discard_contexts(|context| another == Some(context) || contexts.is_over(context));
    }

    /// Gives a communicator up.
    pub(super) fn remove_comm(&mut self, which: usize) {
        let Some(comm) = self.comms.remove(&which) else { return };
        let contexts = comm.context..comm.context + CONTEXTS_EACH;
        self.engine.messages.recovery.forget_bar(comm.context);
        self.engine.messages.release_contexts(contexts);
        self.contexts.end_use(which, comm.context);
        if comm.agreements.is_some() {
            self.freed.push(comm);
        }
    }

    /// Frees the contexts of communicators that are gone.
    pub(super) fn sweep(&mut self) {
        let Self { engine, contexts, .. } = self;
        contexts.sweep(|_| false);
        engine.discard_contexts(|context| contexts.is_over(context));
    }

    /// Forgets peers as `weft-mpi` does, and gives back segments that reach nobody.
    pub(super) fn forget_facts_of(&mut self, peers: &[PeerId], world: &mut World) {
        for peer in peers {
            if let Some(key) = self.near.remove(peer)
                && !self.near.values().any(|other| *other == key)
            {
                world.unmap(key, self.process);
            }
        }
    }
}

/// A process, and what it shares with the others. Clones are the same.
#[derive(Clone)]
pub(super) struct Ctx {
    pub(super) proc: Rc<RefCell<Proc>>,
    pub(super) world: Rc<RefCell<World>>,
    pub(super) plan: Rc<Plan>,
    pub(super) process: usize,
}

impl Ctx {
    pub(super) fn proc(&self) -> RefMut<'_, Proc> {
        self.proc.borrow_mut()
    }

    pub(super) fn world(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        self.world.borrow().note(self.process, what);
    }

    /// Waits until `look` finds something.
    pub(super) async fn until<T>(&self, stands: &'static str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        poll_fn(|_| {
            self.proc().stands = stands;
            look(self).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// A step of an act: a process may die here.
    pub(super) async fn step(&self) {
        let (act, steps) = {
            let mut proc = self.proc();
            proc.steps += 1;
            (proc.act, proc.steps)
        };
        if self.world().dies_in(self.process, act, steps) {
            self.world().dying.insert(self.process);
            pending::<()>().await;
        }
    }

    /// Pauses.
    pub(super) async fn pause(&self) {
        let pause = self.proc().random.below(self.plan.pause_ns_max + 1);
        self.rest(pause).await;
    }

    pub(super) async fn rest(&self, nanoseconds: u64) {
        let until = self.world().now() + nanoseconds;
        self.world().alarm(until, self.process);
        self.until("rests", |this| (this.world().now() >= until).then_some(())).await;
    }

    /// The scope of the next collective of a communicator.
    pub(super) fn scope(&self, which: usize) -> Option<CollectiveScope> {
        let mut proc = self.proc();
        let comm = proc.comms.get_mut(&which)?;
        comm.tag += 1;
        Some(CollectiveScope {
            communicator: 0,
            context: comm.context + 1,
            tag: comm.tag,
            group: comm.both.clone(),
            rank: comm.rank,
            sources: None,
            turn: None,
        })
    }

    /// Runs a collective on a buffer.
    async fn run(
        &self,
        scope: CollectiveScope,
        schedule: Schedule,
        buffer: &SharedBuffer,
        op: Option<Op>,
        excused: impl Fn(&Self) -> bool,
    ) -> Result<(), Error> {
        self.step().await;
        let of = item(false);
        let scratch = Scratch::shared(SharedBuffer::new(schedule.scratch as usize));
        let arguments = Arguments {
            receive: buffer.address(0),
            send_type: Some(of.clone()),
            receive_type: Some(of),
            operation: op.map(Operation::Predefined),
            ..Arguments::none()
        };
        let mut cursor = Cursor::in_scratch(scope, Arc::new(Bound::shared(schedule, arguments)), scratch);
        let request = self.proc().engine.messages.add(State::Collective, 0)?;
        let ended = self.until("a collective", |this| match cursor.advance(&mut this.proc().engine) {
            Progress::Waits if excused(this) => Some(Err(Error::new(ErrorClass::Other, "it is excused"))),
            Progress::Waits => None,
            Progress::Complete => Some(Ok(())),
            Progress::Failed(error) => Some(Err(error)),
        });
        let ended = ended.await;
        {
            let mut proc = self.proc();
            proc.engine.messages.complete(request);
            proc.engine.messages.forget(request);
            cursor.abandon(&mut proc.engine);
        }
        self.step().await;
        ended
    }

    /// Gathers values of all processes of a scope, by rank.
    pub(super) async fn gather_all(
        &self,
        scope: CollectiveScope,
        values: &[i64],
        excused: impl Fn(&Self) -> bool,
    ) -> Result<Vec<i64>, Error> {
        let size = scope.group.size();
        let mut all = vec![0; values.len() * size as usize];
        all[scope.rank as usize * values.len()..][..values.len()].copy_from_slice(values);
        let buffer = SharedBuffer::of_values(&all);
        let items = Items { count: values.len() as u64, shape: ElementShape::plain(8) };
        let shape = Allgather { rank: scope.rank, size, send: items, receive: items, in_place: true };
        let algorithm = choice::allgather(size, u64::from(size) * items.bytes());
        self.run(scope, collective::allgather_with(&shape, algorithm), &buffer, None, excused).await?;
        Ok(buffer.values())
    }

    /// Sends the values of a rank to all processes of a scope.
    pub(super) async fn broadcast(&self, scope: CollectiveScope, root: u32, values: &mut [i64]) -> Result<(), Error> {
        let buffer = SharedBuffer::of_values(values);
        let items = Items { count: values.len() as u64, shape: ElementShape::plain(8) };
        let shape = Bcast { rank: scope.rank, size: scope.group.size(), root, items };
        let algorithm = choice::bcast(shape.size, items.bytes());
        self.run(scope, collective::bcast_with(&shape, algorithm), &buffer, None, |_| false).await?;
        values.copy_from_slice(&buffer.values());
        Ok(())
    }

    /// The highest or lowest of each of the values of all processes of a scope.
    pub(super) async fn reduce(&self, scope: CollectiveScope, values: &[i64], op: Op) -> Result<Vec<i64>, Error> {
        let buffer = SharedBuffer::of_values(values);
        let items = Items { count: values.len() as u64, shape: ElementShape::plain(8) };
        let shape = Allreduce { rank: scope.rank, size: scope.group.size(), items, commutative: true, in_place: true };
        let algorithm = choice::allreduce(shape.size, items.bytes(), true);
        self.run(scope, collective::allreduce_with(&shape, algorithm), &buffer, Some(op), |_| false).await?;
        Ok(buffer.values())
    }

    /// Starts to send a message.
    pub(super) fn send(&self, peer: PeerId, envelope: Envelope, buffer: &SharedBuffer) -> Result<usize, Error> {
        let send =
            Send { peer: Some(peer), envelope, data: buffer.describe_all(), mode: Mode::Standard, blocking: false };
        let engine = &mut self.proc().engine;
        let handle = engine.messages.add(State::Queued(send), 0)?;
        engine.start_send(handle);
        Ok(handle)
    }

    /// Posts a receive.
    pub(super) fn receive(&self, peer: PeerId, envelope: Envelope, buffer: &SharedBuffer) -> Result<usize, Error> {
        let Envelope { context, source, tag } = envelope;
        let receive = Receive {
            context: Some(context),
            source: Some(source),
            peer: Some(peer),
            tag: Some(tag),
            data: buffer.describe_all(),
            blocking: false,
        };
        let engine = &mut self.proc().engine;
        let handle = engine.messages.add(State::Posted(receive), 0)?;
        engine.start_receive(handle);
        Ok(handle)
    }

    /// Waits for a request, or until it is excused, and returns its error.
    pub(super) async fn wait(&self, handle: usize, excused: impl Fn(&Self) -> bool) -> Result<(), Error> {
        let error = self.until("a message", |this| {
            let is_over = this.proc().engine.messages.requests.get(handle).is_none_or(Request::is_complete);
            if is_over {
                return Some(this.proc().engine.messages.take_error(handle));
            }
            excused(this).then(|| {
                this.proc().engine.abandon(handle);
                Some(Error::new(ErrorClass::Other, "it is excused"))
            })
        });
        error.await.map_or(Ok(()), Err)
    }
}
