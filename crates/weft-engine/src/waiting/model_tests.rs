//! A model of several processes in virtual time that exchange frames, sleep, compute, and have progress
//! threads, from a seed.
//!
//! This module's state machines take the decisions. The model stands for the mechanism that carries them out:
//!
//! - the lock;
//! - the rings of a node with the order of `transport::Sleeping` (announce the sleep, look once more, sleep;
//!   write the frame, read the announcement, wake);
//! - a network that loses packets;
//! - epoll(7) with descriptors that wake once;
//! - a timer.
//!
//! In every schedule no process sleeps for ever. No frame lies for long in front of a process that waits, or
//! that has left something outstanding. Each fault of [`Fault`] breaks that, and the model finds it: a check
//! that cannot fail proves nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use weft_core::time::{Duration, Instant};
use weft_random::Random;

use super::*;
use crate::transport::SleepMode;

/// A step that the mechanism leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The look at the rings behind the announcement of a sleep.
    LookInArm,
    /// The sender's order: it reads how the receiver sleeps before it writes the frame.
    OrderOfSender,
    /// The arming for the progress thread as a call leaves.
    Arming,
    /// The timer that is to be set as a call leaves.
    Timer,
    /// The timer behind a wake-up that found the lock taken, or the program calling.
    LookAgain,
    /// The waking of parked threads when their operations have completed.
    News,
    /// The waking of a parked thread when no other thread makes progress for it any more.
    HandOver,
    /// The check, after a yield with the lock released, that the operation may have completed meanwhile.
    YieldedWithoutLock,
    /// The waking of a sleeping thread when work is left for the next pass.
    Work,
    /// The restriction to wake only those threads that are concerned.
    Concerned,
    /// The disarming for the progress thread when a call goes on waiting that has done something else
    /// meanwhile.
    TakenBackAside,
    /// The check that the sleeping thread knows already what is due.
    KnownDeadlines,
    /// The look of the progress thread after messages that a call leaves to the next pass.
    Copies,
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// The time after which a frame counts as forgotten by the process that must see to it.
const LIMIT: u64 = 60 * MS;
/// Ten times the steps of the longest run: threads that wake each other for nothing take more.
const STEPS_MAX: u32 = 200_000;
/// The longest time for which messages wait for others to share their packet.
const SOON: Duration = Duration::from_micros(100);

/// The kind of a frame: the exchange has begun at its sender, or has been answered by its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Begin,
    Answer,
    /// An acknowledgement of a packet.
    Acknowledge(bool),
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    from: usize,
    exchange: usize,
    kind: Kind,
    since: u64,
}

#[derive(Clone, Copy, Debug)]
struct Exchange {
    sender: usize,
    receiver: usize,
    networked: bool,
}

/// A packet that has not been acknowledged.
#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    to: usize,
    frame: Frame,
    due: u64,
    timeout: u64,
}

struct Process {
    // The part that neighbours see.
    ring: VecDeque<Frame>,
    sleeping: Option<SleepMode>,
    futex_wakes: u64,
    rung: bool,
    // The part that the kernel holds.
    packets: VecDeque<Frame>,
    network_armed: bool,
    doorbell_armed: bool,
    timer: Option<u64>,
    alarm: bool,
    // The lock, and the values that are read without it.
    locked: bool,
    wanting: u32,
    waits: bool,
    // Under the lock.
    waiters: Waiters,
    learned: Learned,
    coverage: Coverage,
    completions: u64,
    /// The parked threads, by their tickets, and the exchanges for which each waits.
    parked: BTreeMap<u64, Vec<usize>>,
    tickets: u64,
    /// The exchanges for which the thread waits that sleeps on behalf of all.
    sleeper: Option<Vec<usize>>,
    /// Exchanges begun here and not complete.
    requests: BTreeSet<usize>,
    /// Exchanges begun by their senders, and not yet here.
    unexpected: BTreeSet<usize>,
    seen: BTreeSet<(usize, Kind)>,
    unacknowledged: Vec<Unacknowledged>,
    /// Frames that have been taken in, and that the next pass is to handle.
    left: Vec<(Frame, bool)>,
    /// Frames for which a ring had no room, with their receivers: the next pass is to write them.
    outbox: Vec<(usize, Frame)>,
    /// Messages that wait for others, with their receivers, and since when they wait.
    held: Vec<(usize, Frame)>,
    advanced: bool,
    has_network: bool,
    node_needs_help: bool,
    oversubscribed: bool,
    // The part that the checks see.
    threads: usize,
    /// Threads inside MPI.
    inside: usize,
    covers: (bool, bool),
    /// The last times when the process neither waited nor had anything outstanding that needs the ring, and
    /// the network.
    free: (u64, u64),
    /// The last time when no thread of the process was inside MPI.
    away: u64,
}

impl Process {
    /// Returns whether a call that waits for all of `exchanges` may return; with none, it waits until
    /// everything has left and has been acknowledged.
    fn has(&self, exchanges: &[usize]) -> bool {
        match exchanges {
            [] => self.unacknowledged.is_empty() && self.held.is_empty() && !self.has_work(),
            _ => exchanges.iter().all(|exchange| !self.requests.contains(exchange)),
        }
    }

    /// Returns whether the next pass has work even if nothing arrives.
    fn has_work(&self) -> bool {
        !self.left.is_empty() || !self.outbox.is_empty()
    }

    /// Returns whether such a call must look when operations have completed.
    fn concerns(&self, exchanges: &[usize]) -> bool {
        exchanges.is_empty() || self.has(exchanges)
    }
}

/// The events of all runs together: the model must have been where it matters.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    futex: u64,
    doorbell: u64,
    look_found: u64,
    parks: u64,
    handed_over: u64,
    stale: u64,
    woken: u64,
    /// The number of woken threads that found neither their operation complete nor that they had to make
    /// progress.
    woken_in_vain: u64,
    acts: u64,
    thread_look_found: u64,
    trusts: u64,
    defers: u64,
    busy: u64,
    retransmitted: u64,
    taken_back: u64,
    migrations: u64,
}

struct World {
    now: u64,
    random: Random,
    fault: Option<Fault>,
    exchanges: Vec<Exchange>,
    processes: Vec<Process>,
    marks: Marks,
    /// The condition for which the actor that runs just now waits.
    pause: Option<Box<When>>,
    running: usize,
}

/// The time at which an actor goes on, as far as is known; `None`: only when another actor brings it about.
type When = dyn Fn(&World) -> Option<u64>;

impl World {
    fn below(&mut self, limit: u64) -> u64 {
        self.random.next() % limit.max(1)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn lacks(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// A frame or packet that was forgotten, in words.
    fn overdue(&self) -> Option<String> {
        for (rank, process) in self.processes.iter().enumerate() {
            let (ring_free, network_free) = process.free;
            let late = |since: u64, free: u64| self.now > since.max(free) + LIMIT;
            if let Some(frame) = process.ring.front().filter(|frame| late(frame.since, ring_free)) {
                return Some(format!("a frame lies in front of process {rank}: {frame:?}, now {}", self.now));
            }
            if let Some(frame) = process.packets.front().filter(|frame| late(frame.since, network_free)) {
                return Some(format!("a packet lies in front of process {rank}: {frame:?}, now {}", self.now));
            }
            if let Some((frame, _)) = process.left.iter().find(|(frame, _)| late(frame.since, 0)) {
                return Some(format!("nobody handles what process {rank} has taken in: {frame:?}, now {}", self.now));
            }
            if let Some((_, frame)) = process.outbox.iter().find(|(_, frame)| late(frame.since, process.away)) {
                return Some(format!("nobody sends what process {rank} has left: {frame:?}, now {}", self.now));
            }
            if process.unacknowledged.iter().any(|packet| late(packet.due, network_free))
                || process.held.iter().any(|(_, frame)| late(frame.since, network_free))
            {
                return Some(format!("process {rank} does not send what is due, now {}", self.now));
            }
        }
        None
    }

    /// Moves the time on, and notes which processes need not see to what arrives.
    fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        for process in &mut self.processes {
            if process.inside == 0 {
                process.away = self.now;
                let (ring, network) = process.covers;
                process.free.0 = if ring { process.free.0 } else { self.now };
                process.free.1 = if network { process.free.1 } else { self.now };
            }
        }
    }
}

/// One process's side of the model, or the world's.
#[derive(Clone)]
struct Here {
    world: Rc<RefCell<World>>,
    rank: usize,
}

impl Here {
    fn with<R>(&self, look: impl FnOnce(&mut Process) -> R) -> R {
        look(&mut self.world.borrow_mut().processes[self.rank])
    }

    fn world<R>(&self, look: impl FnOnce(&mut World) -> R) -> R {
        look(&mut self.world.borrow_mut())
    }

    fn lacks(&self, fault: Fault) -> bool {
        self.world.borrow().lacks(fault)
    }

    /// Goes on at the time that `when` says, whenever it is asked.
    async fn until(&self, when: impl Fn(&World) -> Option<u64> + 'static) {
        let mut when: Option<Box<When>> = Some(Box::new(when));
        poll_fn(move |_| match when.take() {
            Some(when) => {
                self.world.borrow_mut().pause = Some(when);
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
        .await;
    }

    async fn spend(&self, ns: u64) {
        let end = self.world.borrow().now + ns;
        self.until(move |_| Some(end)).await;
    }

    /// Takes `ns` or somewhat more, seldom much more: another actor may run in between.
    async fn step(&self, ns: u64) {
        let span = self.world(|world| {
            let away = if world.one_in(400) { world.below(300 * US) } else { 0 };
            ns + world.below(2 * ns) + away
        });
        self.spend(span).await;
    }

    /// Takes time as [`Self::step`] does, where much may happen in between: the kernel takes the processor
    /// away more often than it would.
    async fn critical_step(&self, ns: u64) {
        let away = self.world(|world| if world.one_in(8) { world.below(30 * US) } else { 0 });
        self.step(ns + away).await;
    }

    /// Goes on when `condition` holds here, or at the time that the condition says.
    async fn until_here(&self, condition: impl Fn(&Process) -> Option<u64> + 'static) {
        let rank = self.rank;
        self.until(move |world| condition(&world.processes[rank])).await;
    }

    // The lock.

    fn try_lock(&self) -> bool {
        self.with(|process| !std::mem::replace(&mut process.locked, true))
    }

    async fn lock(&self) {
        self.step(20).await;
        if self.try_lock() {
            return;
        }
        self.with(|process| process.wanting += 1);
        while {
            self.until_here(|process| (!process.locked).then_some(0)).await;
            !self.try_lock()
        } {}
        self.with(|process| process.wanting -= 1);
    }

    fn unlock(&self) {
        self.with(|process| process.locked = false);
    }

    // Frames.

    async fn send(&self, to: usize, exchange: usize, kind: Kind, networked: bool) {
        let frame = self.world(|world| Frame { from: self.rank, exchange, kind, since: world.now });
        if !networked {
            if self.world(|world| world.one_in(6)) {
                return self.with(|process| process.outbox.push((to, frame)));
            }
            return self.put(to, frame).await;
        }
        if self.world(|world| world.one_in(4)) {
            return self.with(|process| process.held.push((to, frame)));
        }
        self.transmit(to, frame);
    }

    /// Writes the frame; reads how the receiver sleeps; wakes it.
    async fn put(&self, to: usize, frame: Frame) {
        let early = self.lacks(Fault::OrderOfSender);
        let peer = Self { rank: to, ..self.clone() };
        let mut sleeping = None;
        if early {
            sleeping = peer.with(|process| process.sleeping.take());
        }
        self.critical_step(30).await;
        let now = self.world(|world| world.now);
        peer.with(|process| process.ring.push_back(Frame { since: now, ..frame }));
        self.critical_step(10).await;
        if !early {
            sleeping = peer.with(|process| process.sleeping.take());
        }
        let Some(rest) = sleeping else { return };
        self.step(500).await;
        peer.with(|process| match rest {
            SleepMode::Futex => process.futex_wakes += 1,
            SleepMode::Doorbell | SleepMode::Thread => process.rung = true,
        });
    }

    fn transmit(&self, to: usize, frame: Frame) {
        let due = self.world(|world| world.now) + MS;
        self.with(|process| process.unacknowledged.push(Unacknowledged { to, frame, due, timeout: MS }));
        self.emit(to, frame);
    }

    /// Sends a packet on its way, with a courier of its own, which may lose it.
    fn emit(&self, to: usize, frame: Frame) {
        self.world(|world| {
            if !world.one_in(8) {
                let arrives = world.now + 3 * US + world.below(30 * US);
                world.processes[to].packets.push_back(Frame { since: arrives, ..frame });
                world.processes[to].packets.make_contiguous().sort_by_key(|frame| frame.since);
            }
        });
    }

    /// Makes a pass of the progress loop.
    async fn pass(&self) {
        self.step(80).await;
        let now = self.world(|world| world.now);
        for (to, frame) in self.with(|process| std::mem::take(&mut process.held)) {
            self.transmit(to, frame);
        }
        for (to, frame) in self.with(|process| std::mem::take(&mut process.outbox)) {
            self.put(to, frame).await;
        }
        for (frame, networked) in self.with(|process| std::mem::take(&mut process.left)) {
            self.handle(frame, networked).await;
        }
        loop {
            let frame = self.with(|process| {
                let packet = process.packets.front().filter(|packet| packet.since <= now).copied();
                if packet.is_some() {
                    process.advanced = true;
                    process.packets.pop_front();
                }
                packet.map(|packet| (packet, true)).or_else(|| process.ring.pop_front().map(|frame| (frame, false)))
            });
            let Some((frame, networked)) = frame else { break };
            if self.world(|world| world.one_in(6)) {
                let since = self.world(|world| world.now);
                self.with(|process| process.left.push((Frame { since, ..frame }, networked)));
            } else {
                self.handle(frame, networked).await;
            }
        }
        let late = self.with(|process| {
            let late = process.unacknowledged.iter_mut().filter(|packet| packet.due <= now);
            late.map(|packet| {
                packet.timeout = (2 * packet.timeout).min(8 * MS);
                packet.due = now + packet.timeout;
                *packet
            })
            .collect::<Vec<_>>()
        });
        for packet in late {
            self.world(|world| world.marks.retransmitted += 1);
            self.emit(packet.to, packet.frame);
        }
    }

    async fn handle(&self, frame: Frame, networked: bool) {
        let Frame { from, exchange, kind, .. } = frame;
        if let Kind::Acknowledge(is_answer) = kind {
            let kind = if is_answer { Kind::Answer } else { Kind::Begin };
            return self.with(|process| {
                process.unacknowledged.retain(|packet| (packet.frame.exchange, packet.frame.kind) != (exchange, kind));
                process.completions += 1;
            });
        }
        if networked {
            let since = self.world(|world| world.now);
            let kind = Kind::Acknowledge(kind == Kind::Answer);
            self.emit(from, Frame { from: self.rank, exchange, kind, since });
        }
        if !self.with(|process| process.seen.insert((exchange, kind))) {
            return;
        }
        match kind {
            Kind::Begin if !self.with(|process| process.requests.contains(&exchange)) => {
                self.with(|process| process.unexpected.insert(exchange));
            }
            Kind::Begin => {
                self.complete(exchange);
                Box::pin(self.send(from, exchange, Kind::Answer, networked)).await;
            }
            _ => self.complete(exchange),
        }
    }

    fn complete(&self, exchange: usize) {
        self.with(|process| {
            process.requests.remove(&exchange);
            process.completions += 1;
        });
    }

    // A call that waits; see `weft-mpi/src/process/waiting.rs`.

    /// Waits until all of `exchanges` are complete; with none, until everything has left and has been
    /// acknowledged.
    async fn block_until_complete(&self, exchanges: Vec<usize>) {
        self.with(|process| process.inside += 1);
        self.lock().await;
        let mut wait = Wait::default();
        let now = self.world(|world| world.now);
        self.with(|process| process.coverage.wait(|| now));
        let done = || self.with(|process| process.has(&exchanges));
        while !done() {
            self.pass().await;
            if done() {
                break;
            }
            if !wait.is_brief() && self.world(|world| world.one_in(8)) {
                self.aside().await;
                continue;
            }
            self.notify();
            match self.next(&mut wait).await {
                Next::Park => {
                    if wait.enters() {
                        self.enter();
                    }
                    self.park(&exchanges).await;
                }
                Next::Sleep => self.sleep(&exchanges).await,
                _ => self.give_way().await,
            }
        }
        self.with(|process| {
            if !wait.is_brief() {
                wait.conclude(&mut process.learned);
                process.waiters.leave();
                process.waits = process.waiters.any();
            }
        });
        self.leave().await;
    }

    async fn next(&self, wait: &mut Wait) -> Next {
        let mut next = self.with(|process| wait.pass_in_vain(process.waiters.sleeps()));
        loop {
            let fact = match next {
                Next::Pass | Next::Park | Next::Sleep => return next,
                Next::Migrate => {
                    self.world(|world| world.marks.migrations += 1);
                    return next;
                }
                Next::Enter | Next::Assess => {
                    if next == Next::Enter {
                        self.enter();
                    }
                    self.with(|process| {
                        process.advanced = false;
                        Fact::Assessed { oversubscribed: process.oversubscribed }
                    })
                }
                Next::AskServed => Fact::Served(self.world(|world| world.one_in(20))),
                Next::Look => {
                    let now = Instant(self.world(|world| world.now));
                    self.with(|process| Fact::Looked {
                        now,
                        advanced: std::mem::take(&mut process.advanced),
                        oversubscribed: process.oversubscribed,
                    })
                }
                Next::Yield { .. } => {
                    next = self.yield_processor(wait).await;
                    continue;
                }
                Next::AskShared => Fact::Shared(self.world(|world| world.one_in(3))),
            };
            next = self.with(|process| wait.next(fact, &mut process.learned));
        }
    }

    /// Says that a call waits, and disarms the progress thread's sources.
    fn enter(&self) {
        self.with(|process| {
            process.waiters.enter();
            process.waits = true;
            if process.coverage.is_armed() {
                let back = process.coverage.take_back();
                process.network_armed &= !back.network;
                if back.doorbell {
                    process.doorbell_armed = false;
                    process.sleeping = None;
                }
                back.timer
            } else {
                None
            }
        })
        .into_iter()
        .for_each(|span| self.set_timer(span));
        self.world(|world| world.marks.taken_back += 1);
    }

    /// Yields with the lock released; returns the next step.
    async fn yield_processor(&self, wait: &mut Wait) -> Next {
        let seen = self.with(|process| process.completions);
        self.unlock();
        let others = self.world(|world| world.one_in(3));
        self.step(if others { 3_000 } else { 400 }).await;
        self.lock().await;
        let now = Instant(self.world(|world| world.now));
        let ignores = self.lacks(Fault::YieldedWithoutLock);
        let (next, is_stale) = self.with(|process| {
            let next = wait.next(Fact::Yielded(now), &mut process.learned);
            (next, process.completions != seen || process.waiters.sleeps())
        });
        if next == Next::Sleep && is_stale && !ignores {
            self.world(|world| world.marks.stale += 1);
            return Next::Pass;
        }
        next
    }

    /// Does other work with the lock released, such as to call a function of the program, and goes on
    /// waiting.
    async fn aside(&self) {
        let is_alone = !self.with(|process| process.waiters.has_parked());
        let forgets = self.lacks(Fault::TakenBackAside);
        if is_alone && !forgets {
            self.unlock();
            self.step(500).await;
            return self.lock().await;
        }
        self.with(|process| process.waiters.leave());
        self.notify();
        self.unlock();
        self.step(500).await;
        self.lock().await;
        if forgets {
            self.with(|process| process.waiters.enter());
        } else {
            self.enter();
        }
    }

    async fn give_way(&self) {
        if self.with(|process| process.wanting > 0) {
            self.unlock();
            self.step(300).await;
            self.lock().await;
        }
    }

    async fn park(&self, exchanges: &[usize]) {
        self.world(|world| world.marks.parks += 1);
        let ticket = self.with(|process| {
            process.waiters.park();
            process.tickets += 1;
            process.parked.insert(process.tickets, exchanges.to_vec());
            process.tickets
        });
        self.unlock();
        self.until_here(move |process| (!process.parked.contains_key(&ticket)).then_some(0)).await;
        self.lock().await;
        let in_vain = self.with(|process| process.waiters.sleeps() && !process.concerns(exchanges));
        self.world(|world| world.marks.woken_in_vain += u64::from(in_vain));
    }

    /// Wakes those parked threads that `chosen` picks by their tickets and by their exchanges.
    fn wake(&self, chosen: impl Fn(&Process, u64, &[usize]) -> bool) {
        let woken = self.with(|process| {
            let all = process.parked.iter();
            let chosen = all.filter(|(ticket, waits)| chosen(process, **ticket, waits));
            let chosen: Vec<u64> = chosen.map(|(ticket, _)| *ticket).collect();
            for ticket in &chosen {
                process.parked.remove(ticket);
                process.waiters.unpark();
            }
            chosen.len()
        });
        self.world(|world| world.marks.woken += woken as u64);
    }

    /// Announces the kind of sleep and looks once more; returns whether the thread may sleep.
    async fn arm(&self, rest: SleepMode) -> bool {
        self.with(|process| process.sleeping = Some(rest));
        self.critical_step(20).await;
        if self.lacks(Fault::LookInArm) {
            return true;
        }
        self.with(|process| {
            let arrived = !process.ring.is_empty();
            if arrived {
                process.sleeping = None;
            }
            !arrived
        })
    }

    /// The time when something is due.
    fn due(&self) -> Option<u64> {
        self.with(|process| {
            let held = process.held.iter().map(|(_, frame)| frame.since + SOON.as_nanos());
            process.unacknowledged.iter().map(|packet| packet.due).chain(held).min()
        })
    }

    async fn sleep(&self, exchanges: &[usize]) {
        if self.with(|process| process.has_work()) {
            return;
        }
        let end = self.due();
        let rest = self.with(|process| if process.has_network { SleepMode::Doorbell } else { SleepMode::Futex });
        if !self.arm(rest).await {
            return self.world(|world| world.marks.look_found += 1);
        }
        self.with(|process| {
            process.waiters.fall_asleep(end.map(Instant));
            process.sleeper = Some(exchanges.to_vec());
        });
        self.unlock();
        self.step(300).await;
        if rest == SleepMode::Futex {
            self.world(|world| world.marks.futex += 1);
            let before = self.with(|process| (process.sleeping == Some(rest)).then_some(process.futex_wakes));
            if let Some(before) = before {
                self.until_here(move |process| if process.futex_wakes != before { Some(0) } else { end }).await;
            }
        } else {
            self.world(|world| world.marks.doorbell += 1);
            self.until_here(move |process| {
                let packet = process.packets.front().map(|packet| packet.since);
                if process.rung || process.alarm { Some(0) } else { end.into_iter().chain(packet).min() }
            })
            .await;
        }
        self.step(1_000).await;
        self.lock().await;
        self.with(|process| {
            process.waiters.wake_up();
            process.sleeper = None;
            process.alarm = false;
            process.sleeping = None;
            process.rung = false;
        });
        self.wake(|_, _, waits| waits.is_empty());
    }

    fn notify(&self) {
        let [forgets, wakes_all] = [Fault::News, Fault::Concerned].map(|fault| self.lacks(fault));
        let forgets_work = self.lacks(Fault::Work);
        let (due, tells_again) = (self.due(), self.lacks(Fault::KnownDeadlines));
        let news = self.with(|process| {
            let mut news = process.waiters.news(process.completions, || due.map(Instant));
            news.sooner |= process.waiters.sleeps() && tells_again && due.is_some();
            let concerned = || process.sleeper.as_ref().is_some_and(|waits| wakes_all || process.concerns(waits));
            let has_work = process.has_work() && !forgets_work;
            let wakes = process.waiters.sleeps() && (has_work || news.sooner || (news.completed && concerned()));
            if wakes && process.has_network {
                process.alarm = true;
            } else if wakes && process.sleeping == Some(SleepMode::Futex) {
                process.sleeping = None;
                process.futex_wakes += 1;
            }
            news
        });
        if news.completed && !forgets {
            self.wake(|process, _, waits| wakes_all || process.concerns(waits));
        }
        if self.with(|process| process.waiters.lacks_driver()) && !self.lacks(Fault::HandOver) {
            self.world(|world| world.marks.handed_over += 1);
            self.wake(|process, ticket, _| process.parked.keys().next() == Some(&ticket));
        }
    }

    // The part of the progress thread; see `weft-mpi/src/process/helped.rs` and
    // `weft-mpi/src/progress_thread.rs`.

    fn set_timer(&self, span: Duration) {
        let now = self.world(|world| world.now);
        self.with(|process| process.timer = Some(now + span.as_nanos()));
    }

    /// Leaves MPI, with the lock.
    async fn leave(&self) {
        let now = self.world(|world| world.now);
        self.with(|process| {
            let expects = !process.requests.is_empty() || !process.held.is_empty();
            process.coverage.leave(expects, || now);
        });
        self.signal().await;
        self.with(|process| process.inside -= 1);
        self.unlock();
    }

    async fn signal(&self) {
        self.notify();
        let forgets_copies = self.lacks(Fault::Copies);
        let outstanding = self.with(|process| {
            let state = State {
                requests: !process.requests.is_empty(),
                remote: !process.requests.is_empty(),
                collectives: false,
                has_network: process.has_network,
                node_needs_help: process.node_needs_help,
                needs_rings: false,
                is_crowded: process.oversubscribed,
                owes_copies: !process.left.is_empty() && !forgets_copies,
            };
            let outstanding =
                Outstanding::of(&state, || !process.unacknowledged.is_empty() || !process.held.is_empty());
            process.covers =
                outstanding.map_or((false, false), |outstanding| (outstanding.neighbours, process.has_network));
            outstanding.filter(|_| !process.waiters.any())
        });
        let Some(outstanding) = outstanding else { return };
        let arm = self.with(|process| {
            let takes_turns = process.has_network && process.oversubscribed;
            let leaving = Leaving { coalescing: !process.held.is_empty(), takes_turns, has_windows: false };
            process.coverage.hand_over(outstanding, leaving)
        });
        let trusts = self.with(|process| process.coverage.trusts());
        self.world(|world| world.marks.trusts += u64::from(trusts));
        let arm = if self.lacks(Fault::Arming) { Arm::default() } else { arm };
        self.with(|process| process.network_armed |= arm.network);
        let mut arrived = false;
        if arm.doorbell {
            self.with(|process| process.doorbell_armed = true);
            arrived = !self.arm(SleepMode::Thread).await;
            self.world(|world| world.marks.thread_look_found += u64::from(arrived));
        }
        let wants_due = self.with(|process| process.coverage.wants_due(arrived));
        let now = Instant(self.world(|world| world.now));
        let due = self.due().filter(|_| wants_due).map(|due| Instant(due).since(now));
        let coalescing = self.with(|process| (!process.held.is_empty()).then_some(SOON));
        let span = self.with(|process| process.coverage.set_timer(outstanding, Armed { arrived, due, coalescing }));
        if let Some(span) = span.filter(|_| !self.lacks(Fault::Timer)) {
            self.set_timer(span);
        }
    }

    /// Runs the progress thread, for ever.
    async fn progress_thread(self) {
        let mut backoff = Backoff::default();
        loop {
            self.until_here(|process| {
                let packet = process.packets.front().filter(|_| process.network_armed).map(|packet| packet.since);
                let rung = (process.doorbell_armed && process.rung).then_some(0);
                [packet, rung, process.timer].into_iter().flatten().min()
            })
            .await;
            let now = self.world(|world| world.now);
            self.with(|process| {
                process.network_armed &= process.packets.front().is_none_or(|packet| packet.since > now);
                process.doorbell_armed &= !process.rung;
                process.timer = process.timer.filter(|timer| *timer > now);
            });
            self.step(2_000).await;
            let again = self.copy_own_part().await;
            if let Some(span) = backoff.pause(again).filter(|_| !self.lacks(Fault::LookAgain)) {
                self.set_timer(span);
            }
        }
    }

    fn try_lock_to_help(&self) -> Result<(), Duration> {
        if self.try_lock() {
            return Ok(());
        }
        self.world(|world| world.marks.busy += 1);
        Err(when_busy(self.with(|process| process.waits)))
    }

    async fn copy_own_part(&self) -> Option<Duration> {
        let woken = |looked| {
            let now = self.world(|world| world.now);
            self.with(|process| process.coverage.woken(process.waiters.any(), !process.held.is_empty(), looked, now))
        };
        if let Err(again) = self.try_lock_to_help() {
            return Some(again);
        }
        let mut did = woken(false);
        if did == Woken::LookAgain {
            self.unlock();
            self.spend(CALLS_APART.as_nanos()).await;
            if let Err(again) = self.try_lock_to_help() {
                return Some(again);
            }
            did = woken(true);
        }
        let passes = match did {
            Woken::LookAgain => unreachable!("it looks again once"),
            Woken::Defer(span) => {
                self.world(|world| world.marks.defers += 1);
                if !self.lacks(Fault::LookAgain) {
                    self.set_timer(span);
                }
                self.unlock();
                return None;
            }
            Woken::Act { disarm_doorbell, passes } => {
                if disarm_doorbell {
                    self.with(|process| process.sleeping = None);
                }
                passes
            }
        };
        self.world(|world| world.marks.acts += 1);
        if passes > 0 {
            self.with(|process| (process.sleeping, process.rung) = (None, false));
        }
        let contended = || self.with(|process| process.wanting > 0);
        for _ in 0..passes {
            self.pass().await;
            if contended() {
                break;
            }
        }
        let again = match after_passes(contended()) {
            Left::HandOver => {
                self.signal().await;
                None
            }
            Left::Pause(span) => {
                self.notify();
                Some(span)
            }
        };
        self.unlock();
        again
    }

    // The program.

    /// Starts this process's side of an exchange, without waiting.
    async fn start(&self, number: usize) {
        let exchange = self.world(|world| world.exchanges[number]);
        self.with(|process| process.inside += 1);
        self.lock().await;
        self.with(|process| process.requests.insert(number));
        if exchange.sender == self.rank {
            self.send(exchange.receiver, number, Kind::Begin, exchange.networked).await;
        } else if self.with(|process| process.unexpected.remove(&number)) {
            if number.is_multiple_of(2) {
                self.complete(number);
                self.send(exchange.sender, number, Kind::Answer, exchange.networked).await;
            } else {
                // The message has been announced, and the next pass is to fetch it.
                let since = self.world(|world| world.now);
                let frame = Frame { from: exchange.sender, exchange: number, kind: Kind::Begin, since };
                self.with(|process| {
                    process.seen.remove(&(number, Kind::Begin));
                    process.left.push((frame, exchange.networked));
                });
            }
        }
        self.leave().await;
    }

    /// Runs one of `threads` threads of the program: its share of the exchanges, in their order, with
    /// computation in between.
    async fn program(self, thread: usize, threads: usize) {
        let mine: Vec<usize> = self.world(|world| {
            let all = world.exchanges.iter().enumerate();
            let here = all.filter(|(_, exchange)| [exchange.sender, exchange.receiver].contains(&self.rank));
            here.map(|(number, _)| number).filter(|number| number % threads == thread).collect()
        });
        let mut open = Vec::new();
        for number in mine {
            self.start(number).await;
            open.push(number);
            let (computes, waits) = self.world(|world| {
                let computes = match world.below(12) {
                    0 => 150 * MS,
                    1..=2 => world.below(MS),
                    3..=8 => world.below(20 * US),
                    _ => 100,
                };
                (computes, world.one_in(5))
            });
            self.spend(computes).await;
            if waits {
                self.block_until_complete(std::mem::take(&mut open)).await;
            }
        }
        if !open.is_empty() {
            self.block_until_complete(open).await;
        }
        self.block_until_complete(Vec::new()).await;
        self.with(|process| process.threads -= 1);
    }
}

/// Goes on after the end of a process: it still answers peers whose acknowledgements were lost (in
/// `MPI_Finalize`), and sees to nothing else.
async fn after_its_end(here: Here) {
    here.until_here(|process| (process.threads == 0).then_some(0)).await;
    here.with(|process| {
        process.inside += 1;
        process.network_armed = false;
        process.doorbell_armed = false;
        process.timer = None;
    });
    loop {
        here.until_here(|process| {
            let left = process.has_work().then_some(0);
            left.or_else(|| process.packets.front().map(|packet| packet.since))
        })
        .await;
        here.pass().await;
    }
}

fn process(world: &mut World, has_network: bool) -> Process {
    Process {
        ring: VecDeque::new(),
        sleeping: None,
        futex_wakes: 0,
        rung: false,
        packets: VecDeque::new(),
        network_armed: false,
        doorbell_armed: false,
        timer: None,
        alarm: false,
        locked: false,
        wanting: 0,
        waits: false,
        waiters: Waiters::new(),
        learned: Learned::new(has_network),
        coverage: Coverage::new(true),
        completions: 0,
        parked: BTreeMap::new(),
        tickets: 0,
        sleeper: None,
        requests: BTreeSet::new(),
        unexpected: BTreeSet::new(),
        seen: BTreeSet::new(),
        unacknowledged: Vec::new(),
        left: Vec::new(),
        outbox: Vec::new(),
        held: Vec::new(),
        advanced: false,
        has_network,
        node_needs_help: world.one_in(2),
        oversubscribed: world.one_in(2),
        threads: 0,
        inside: 0,
        covers: (false, false),
        free: (0, 0),
        away: 0,
    }
}

type Actor = Pin<Box<dyn Future<Output = ()>>>;

/// Plays the run of `seed` to its end; returns what went wrong.
fn play(seed: u64, fault: Option<Fault>, marks: &mut Marks) -> Result<(), String> {
    let mut world = World {
        now: 0,
        random: Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
        fault,
        exchanges: Vec::new(),
        processes: Vec::new(),
        marks: *marks,
        pause: None,
        running: 0,
    };
    let size = 2 + world.below(3) as usize;
    // The number of processes on the first node; the others are on another one.
    let near = 1 + world.below(size as u64) as usize;
    for _ in 0..size {
        let one = process(&mut world, near < size);
        world.processes.push(one);
    }
    for _ in 0..4 + world.below(40) {
        let sender = world.below(size as u64) as usize;
        let receiver = (sender + 1 + world.below(size as u64 - 1) as usize) % size;
        world.exchanges.push(Exchange { sender, receiver, networked: (sender < near) != (receiver < near) });
    }
    let threads: Vec<usize> = (0..size).map(|_| 1 + world.below(3) as usize).collect();
    let world = Rc::new(RefCell::new(world));
    let mut actors: BTreeMap<usize, (Actor, Box<When>)> = BTreeMap::new();
    let mut add = |actor: Actor| {
        let number = actors.len();
        actors.insert(number, (actor, Box::new(|_| Some(0))));
    };
    for (rank, threads) in threads.into_iter().enumerate() {
        let here = Here { world: Rc::clone(&world), rank };
        here.with(|process| process.threads = threads);
        world.borrow_mut().running += threads;
        for thread in 0..threads {
            let (here, ended) = (here.clone(), Rc::clone(&world));
            add(Box::pin(async move {
                here.program(thread, threads).await;
                ended.borrow_mut().running -= 1;
            }));
        }
        add(Box::pin(here.clone().progress_thread()));
        add(Box::pin(after_its_end(here)));
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut steps = 0;
    while world.borrow().running > 0 {
        let next = {
            let mut world = world.borrow_mut();
            let chance = world.below(1 << 16);
            let times = actors.iter().filter_map(|(number, (_, when))| Some((when(&world)?.max(world.now), *number)));
            // Any of the actors that could go on at the same time does.
            times.min_by_key(|(time, number)| (*time, (*number as u64 + 1).wrapping_mul(chance * 2 + 1) % 1_009))
        };
        let Some((time, number)) = next else {
            return Err(format!("everybody sleeps, with {} threads of the program left", world.borrow().running));
        };
        world.borrow_mut().advance(time);
        if let Some(overdue) = world.borrow().overdue() {
            return Err(overdue);
        }
        let (actor, _) = actors.get_mut(&number).unwrap();
        let ended = actor.as_mut().poll(&mut context).is_ready();
        let pause = world.borrow_mut().pause.take();
        match pause {
            Some(pause) if !ended => actors.get_mut(&number).unwrap().1 = pause,
            _ => drop(actors.remove(&number)),
        }
        steps += 1;
        if steps > STEPS_MAX {
            return Err("it does not come to an end".into());
        }
    }
    *marks = world.borrow().marks;
    Ok(())
}

const SEEDS: u64 = 2_000;

#[test]
fn whatever_the_schedule_nobody_sleeps_for_ever_and_no_frame_is_forgotten() {
    let mut marks = Marks::default();
    for seed in 0..SEEDS {
        if let Err(wrong) = play(seed, None, &mut marks) {
            panic!("{wrong}\nreplay: play({seed}, None, …)");
        }
    }
    let Marks { futex, doorbell, look_found, parks, acts, thread_look_found, trusts, defers, busy, .. } = marks;
    for (at, mark) in
        [futex, doorbell, look_found, parks, acts, thread_look_found, trusts, defers, busy].into_iter().enumerate()
    {
        assert!(mark > 0, "the model has not been there: {at} of {marks:?}");
    }
    assert!(marks.retransmitted > 0 && marks.taken_back > 0 && marks.migrations > 0, "{marks:?}");
    assert!(marks.handed_over > 0 && marks.stale > 0 && wakes_few(marks), "{marks:?}");
}

/// Returns whether nearly all woken threads find their operation complete, or have to make progress. (Other
/// threads may have made that progress before they run.)
fn wakes_few(marks: Marks) -> bool {
    marks.woken > 0 && marks.woken_in_vain * 20 < marks.woken
}

/// The model's finding when the mechanism leaves a step out: in which run, and what.
fn found(fault: Fault) -> String {
    let found = (0..SEEDS).find_map(|seed| play(seed, Some(fault), &mut Marks::default()).err());
    found.unwrap_or_else(|| panic!("the model does not notice that {fault:?} is missing"))
}

#[test]
fn it_finds_a_sleep_without_a_last_look() {
    let what = found(Fault::LookInArm);
    assert!(what.contains("sleeps") || what.contains("a frame lies"), "{what}");
}

#[test]
fn it_finds_a_sender_that_looks_for_sleepers_too_early() {
    let what = found(Fault::OrderOfSender);
    assert!(what.contains("sleeps") || what.contains("a frame lies"), "{what}");
}

#[test]
fn it_finds_that_nothing_is_armed_for_what_is_outstanding() {
    let what = found(Fault::Arming);
    assert!(what.contains("lies"), "{what}");
}

#[test]
fn it_finds_a_timer_that_is_not_set() {
    let what = found(Fault::Timer);
    assert!(what.contains("due") || what.contains("lies"), "{what}");
}

#[test]
fn it_finds_a_wake_up_that_is_thrown_away_because_the_program_was_calling() {
    let what = found(Fault::LookAgain);
    assert!(what.contains("lies"), "{what}");
}

#[test]
fn it_finds_threads_that_nobody_wakes() {
    let what = found(Fault::News);
    assert!(what.contains("sleeps"), "{what}");
}

#[test]
fn it_finds_that_nobody_makes_progress_for_threads_that_are_parked() {
    let what = found(Fault::HandOver);
    assert!(what.contains("sleeps") || what.contains("lies"), "{what}");
}

#[test]
fn it_finds_a_sleep_although_what_the_call_waits_for_has_completed_while_it_yielded() {
    let what = found(Fault::YieldedWithoutLock);
    assert!(what.contains("sleeps") || what.contains("lies"), "{what}");
}

#[test]
fn it_finds_that_what_is_left_for_the_next_pass_is_left_for_nobody() {
    let what = found(Fault::Work);
    assert!(what.contains("sleeps") || what.contains("nobody sends"), "{what}");
}

#[test]
fn it_finds_that_what_a_call_leaves_to_the_next_pass_waits_for_the_next_call() {
    let what = found(Fault::Copies);
    assert!(what.contains("nobody handles"), "{what}");
}

#[test]
fn it_finds_threads_that_are_woken_by_what_concerns_others() {
    let mut marks = Marks::default();
    for seed in 0..SEEDS {
        play(seed, Some(Fault::Concerned), &mut marks).unwrap();
    }
    assert!(!wakes_few(marks), "{marks:?}");
}

#[test]
fn it_finds_a_call_that_waits_on_with_the_progress_thread_still_watching() {
    let what = found(Fault::TakenBackAside);
    assert!(what.contains("sleeps") || what.contains("lies") || what.contains("handles"), "{what}");
}

#[test]
fn it_finds_threads_that_wake_each_other_for_nothing() {
    let what = found(Fault::KnownDeadlines);
    assert!(what.contains("does not come to an end"), "{what}");
}
