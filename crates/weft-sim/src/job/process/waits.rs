//! Waiting in a simulated process: carries out the decisions of `weft_engine::waiting`, as `weft-mpi` does.
//!
//! Some programs look only a few times before they sleep: the simulator can play more of such programs, and
//! more happens while their threads sleep.

use super::{Checked, Phase, Proc, Waiting};
use weft_core::time::{Duration, Instant};
use weft_engine::engine::SleepOn;
use weft_engine::waiting::{
    Armed, CALLS_APART, Fact, Leaving, Left, Next, Outstanding, State, Wait, Woken, after_passes, when_busy,
};

/// The duration of a yield, nanoseconds.
const YIELD_NS: u64 = 300;
/// The chance that the progress thread finds the lock taken, and that another thread wants the lock from the
/// progress thread; cases per million.
const BUSY: u32 = 50_000;

/// The most times in a row that the threads of a process may wake each other though nothing arrives and no
/// call ends.
const ALARMS_MAX: u32 = 10_000;

/// The time for which a thread looks before it sleeps.
#[derive(Debug)]
pub(super) enum Spin {
    /// The thread looks `left` more times. `entered`: it has noted that it waits.
    Short { left: u64, entered: bool },
    /// The thread looks as long as the library does.
    Real(Box<Wait>),
}

/// A thread that sleeps on behalf of all.
pub(super) struct Sleeping {
    pub(super) thread: usize,
    pub(super) until: Option<u64>,
    pub(super) watches_network: bool,
    pub(super) alarm: Option<u64>,
    /// Says whether neighbours have to wake the thread: the engine has arranged for no look of its own, and
    /// nobody else is there.
    pub(super) relies_on_neighbours: bool,
}

/// The events that wake the progress thread.
#[derive(Default)]
pub(super) struct Watched {
    network: bool,
    doorbell: bool,
    timer: Option<u64>,
    /// The time of the progress thread's second look.
    again: Option<u64>,
    /// The time until which the progress thread is busy.
    busy: u64,
}

impl Watched {
    /// The time when the progress thread wakes.
    pub(super) fn ready(&self, proc: &Proc) -> Option<u64> {
        let network = if self.network { proc.network.next_event(proc.rank) } else { None };
        let doorbell = if self.doorbell { proc.node.borrow().wakes(proc.local_rank) } else { None };
        let asked = if proc.pace.helps { proc.node.borrow().is_asked_at(proc.local_rank) } else { None };
        [self.timer, self.again, network, doorbell, asked].into_iter().flatten().min().map(|at| at.max(self.busy))
    }
}

impl Proc {
    pub(super) fn begin_waiting(&mut self, at: usize, waiting: Waiting) -> Checked<()> {
        // A nanosecond counts as a tick.
        self.coverage.wait(|| self.clock.now());
        let spin = if self.pace.spins_like_the_library {
            Spin::Real(Box::default())
        } else {
            Spin::Short { left: self.random.below(self.pace.spins_max + 1), entered: false }
        };
        self.wait(at, waiting, spin)
    }

    pub(super) fn wait(&mut self, at: usize, mut waiting: Waiting, mut spin: Spin) -> Checked<()> {
        let mut was_forgotten = false;
        if let Some(sleeping) = self.sleeping.take_if(|sleeping| sleeping.thread == at) {
            let is_woken = self.is_woken(&sleeping);
            if !is_woken && self.node.borrow_mut().is_forgotten(self.local_rank) {
                return Err("sleeps until its time limit, though a neighbour has sent something".into());
            }
            was_forgotten = !is_woken && sleeping.relies_on_neighbours;
            self.alarms = if self.has_arrivals(&sleeping) || !is_woken { 0 } else { self.alarms + 1 };
            if self.alarms > ALARMS_MAX {
                return Err("its threads wake each other again and again, and nothing happens".into());
            }
            self.waiters.wake_up();
            self.engine.finish_sleep();
            self.unpark(|waiting| !matches!(waiting, Waiting::Send(_) | Waiting::Receive(_)));
        }
        for looks_again in [true, false] {
            match self.look(waiting)? {
                None => {
                    self.conclude_wait(&spin);
                    return Ok(());
                }
                Some(still) => waiting = still,
            }
            if looks_again {
                let completions = self.engine.messages.completions();
                let acts = self.node.borrow().acts_of_others(self.local_rank);
                self.progress();
                // A neighbour may act during the pass, at the very time when the sleep ends.
                let is_alone = self.node.borrow().acts_of_others(self.local_rank) == acts;
                if was_forgotten && is_alone && self.engine.messages.completions() != completions {
                    return Err("sleeps until its time limit, though a neighbour has done its part".into());
                }
            }
        }
        self.notify();
        match self.next(&mut spin) {
            Next::Park => {
                let enters = match &mut spin {
                    Spin::Short { entered, .. } => !std::mem::replace(entered, true),
                    Spin::Real(wait) => wait.enters(),
                };
                if enters {
                    self.enter_wait();
                }
                self.waiters.park();
                self.threads[at].phase = Phase::Parked { waiting, spin };
                return Ok(());
            }
            Next::Sleep => self.fall_asleep(at),
            _ => {}
        }
        self.threads[at].phase = Phase::Waits { waiting, spin };
        Ok(())
    }

    /// Returns whether something has woken a sleeping thread before its time limit.
    fn is_woken(&self, sleeping: &Sleeping) -> bool {
        sleeping.alarm.is_some() || self.has_arrivals(sleeping)
    }

    /// Returns whether the network or a neighbour wakes a sleeping thread.
    fn has_arrivals(&self, sleeping: &Sleeping) -> bool {
        let network = sleeping.watches_network.then(|| self.network.next_event(self.rank)).flatten();
        let arrived = network.is_some_and(|at| at <= self.clock.now());
        arrived || self.node.borrow().wakes(self.local_rank).is_some()
    }

    fn fall_asleep(&mut self, at: usize) {
        let Some(sleep) = self.engine.prepare_sleep() else { return };
        let now = self.clock.now();
        let until = sleep.timeout.map(|timeout| now + timeout);
        let watches_network = matches!(sleep.rest, SleepOn::Descriptors { .. });
        let relies_on_neighbours = !self.engine.has_network() && self.engine.due().is_none() && self.mortal.is_none();
        self.waiters.fall_asleep(until.map(Instant));
        self.sleeping = Some(Sleeping { thread: at, until, watches_network, alarm: None, relies_on_neighbours });
    }

    /// Decides the next step of a thread whose pass found nothing.
    fn next(&mut self, spin: &mut Spin) -> Next {
        let sleeps = self.waiters.sleeps();
        let wait = match spin {
            Spin::Short { .. } if sleeps => return Next::Park,
            Spin::Short { left, entered } => {
                let enters = !std::mem::replace(entered, true);
                let is_over = *left == 0;
                *left = left.saturating_sub(1);
                if enters {
                    self.enter_wait();
                }
                return if is_over { Next::Sleep } else { Next::Pass };
            }
            Spin::Real(wait) => wait,
        };
        let mut next = wait.pass_in_vain(sleeps);
        loop {
            let now = Instant(self.clock.now());
            let fact = match next {
                Next::Pass | Next::Park | Next::Sleep | Next::Migrate => return next,
                Next::Enter | Next::Assess => {
                    if next == Next::Enter {
                        self.enter_wait();
                    }
                    self.engine.take_advance();
                    Fact::Assessed { oversubscribed: self.engine.is_oversubscribed() }
                }
                Next::AskServed => Fact::Served(self.engine.is_served()),
                Next::Look => {
                    let advanced = self.engine.take_advance();
                    Fact::Looked { now, advanced, oversubscribed: self.engine.is_oversubscribed() }
                }
                Next::Yield { .. } => Fact::Yielded(Instant(now.0 + YIELD_NS)),
                Next::AskShared => Fact::Shared(self.random.chance(BUSY)),
            };
            next = wait.next(fact, &mut self.learned);
        }
    }

    fn enter_wait(&mut self) {
        self.waiters.enter();
        self.engine.set_inside_mpi(true);
        if self.coverage.is_armed() {
            self.take_back();
        }
    }

    fn conclude_wait(&mut self, spin: &Spin) {
        self.alarms = 0;
        let entered = match spin {
            Spin::Short { entered, .. } => *entered,
            Spin::Real(wait) if wait.is_brief() => false,
            Spin::Real(wait) => {
                wait.conclude(&mut self.learned);
                true
            }
        };
        if entered {
            self.waiters.leave();
        }
        if !self.waiters.any() {
            self.engine.set_inside_mpi(false);
        }
        self.leave();
    }

    /// Wakes the parked threads whose awaited event is `chosen`.
    fn unpark(&mut self, mut chosen: impl FnMut(&Waiting) -> bool) {
        if !self.threads.iter().any(|thread| matches!(thread.phase, Phase::Parked { .. })) {
            return;
        }
        let ready = self.clock.now() + self.pause();
        for thread in &mut self.threads {
            match std::mem::replace(&mut thread.phase, Phase::Over) {
                Phase::Parked { waiting, spin } if chosen(&waiting) => {
                    self.waiters.unpark();
                    thread.ready = ready;
                    thread.phase = Phase::Waits { waiting, spin };
                }
                phase => thread.phase = phase,
            }
        }
    }

    /// Wakes the sleeping threads of this process that may wait for something that has happened.
    pub(super) fn notify(&mut self) {
        if !self.waiters.may_want_news() {
            return;
        }
        let now = self.clock.now();
        let due = || self.engine.due().map(|span| Instant(now + span));
        let news = self.waiters.news(self.engine.messages.completions(), due);
        if (news.completed || news.sooner)
            && self.waiters.sleeps()
            && !self.engine.nudge()
            && let Some(sleeping) = &mut self.sleeping
        {
            sleeping.alarm.get_or_insert(now);
        }
        if news.completed {
            // Any thread may wait for the completed operation: in the simulation threads look more often than
            // they would have to.
            self.unpark(|_| true);
        }
        if self.waiters.lacks_driver() {
            let mut is_first = true;
            self.unpark(|_| std::mem::take(&mut is_first));
        }
    }

    /// Ends a call of the program.
    pub(super) fn leave(&mut self) {
        let expects = self.engine.messages.need_network()
            || !self.engine.windows.is_empty()
            || self.engine.coalescing_time().is_some();
        self.coverage.leave(expects, || self.clock.now());
        self.signal();
    }

    /// Ends a call: wakes the threads that it concerns, and hands outstanding work over to the progress
    /// thread.
    pub(super) fn signal(&mut self) {
        self.notify();
        let everything = self.engine.has_network() || self.engine.node_needs_help();
        if self.pace.helps && (everything || self.serves_others() || self.engine.needs_passes()) {
            self.hand_over();
        } else if self.engine.owes_copies() {
            self.engine.settle_copies();
        }
    }

    /// Returns whether other processes may need something of this process.
    fn serves_others(&self) -> bool {
        !self.running.is_empty() || !self.engine.windows.is_empty()
    }

    fn hand_over(&mut self) {
        let (collectives, node_needs_help) = (self.serves_others(), self.engine.node_needs_help());
        let coalescing = self.engine.coalescing_time().is_some();
        let owes_copies = self.engine.owes_copies();
        let needs_rings = self.engine.needs_rings();
        let most = Outstanding::most(collectives || node_needs_help, needs_rings, owes_copies);
        if self.waiters.any() || (!self.coverage.trusts() && self.coverage.is_covered(&most, coalescing)) {
            return;
        }
        let has_windows = !self.engine.windows.is_empty();
        let state = State {
            requests: self.engine.messages.are_under_way() || has_windows,
            remote: self.engine.messages.need_network() || has_windows,
            collectives,
            has_network: self.engine.has_network(),
            node_needs_help,
            needs_rings,
            is_crowded: self.engine.is_oversubscribed(),
            owes_copies,
        };
        let Some(outstanding) = Outstanding::of(&state, || self.engine.has_deadlines()) else { return };
        if self.coverage.is_covered(&outstanding, coalescing) {
            return;
        }
        let takes_turns = self.engine.has_network() && self.engine.is_oversubscribed();
        let leaving = Leaving { coalescing, takes_turns, has_windows };
        let arm = self.coverage.hand_over(outstanding, leaving);
        self.watched.network |= arm.network;
        let mut arrived = false;
        if arm.doorbell {
            self.watched.doorbell = true;
            arrived = !self.engine.arm_for_thread();
        }
        let due = if self.coverage.wants_due(arrived) { self.engine.due().map(Duration) } else { None };
        let armed = Armed { arrived, due, coalescing: self.engine.coalescing_time() };
        let span = self.coverage.set_timer(outstanding, armed);
        self.set_timer(span);
    }

    fn set_timer(&mut self, span: Option<Duration>) {
        if let Some(span) = span {
            self.watched.timer = Some(self.clock.now() + span.as_nanos());
        }
    }

    /// Takes the work back from the progress thread, because a thread waits inside MPI and sees to
    /// everything.
    fn take_back(&mut self) {
        let back = self.coverage.take_back();
        if back.network {
            self.watched.network = false;
        }
        if back.doorbell {
            self.watched.doorbell = false;
            self.engine.disarm_for_thread();
        }
        self.set_timer(back.timer);
    }

    /// Makes the progress thread's pass when it wakes.
    pub(super) fn help(&mut self) {
        let now = self.clock.now();
        self.watched.busy = now + self.pause();
        self.watched.timer.take_if(|at| *at <= now);
        self.node.borrow_mut().take_asked(self.local_rank, now);
        let looked = self.watched.again.take_if(|at| *at <= now).is_some();
        // An event that has woken the progress thread wakes it once.
        if self.watched.network && self.network.next_event(self.rank).is_some_and(|at| at <= now) {
            self.watched.network = false;
        }
        if self.watched.doorbell && self.node.borrow().wakes(self.local_rank).is_some_and(|at| at <= now) {
            self.watched.doorbell = false;
        }
        let again = self.try_help(looked);
        let pause = self.backoff.pause(again);
        self.set_timer(pause);
    }

    /// Returns the time after which the progress thread looks again, if the armed events are not enough.
    fn try_help(&mut self, looked: bool) -> Option<Duration> {
        if self.random.chance(BUSY) {
            return Some(when_busy(self.waiters.any()));
        }
        let coalescing = self.engine.coalescing_time().is_some();
        match self.coverage.woken(self.waiters.any(), coalescing, looked, self.clock.now()) {
            Woken::LookAgain => {
                self.watched.again = Some(self.clock.now() + CALLS_APART.as_nanos());
                None
            }
            Woken::Defer(span) => {
                self.set_timer(Some(span));
                None
            }
            Woken::Act { disarm_doorbell, passes } => {
                if disarm_doorbell {
                    self.watched.doorbell = false;
                    self.engine.disarm_for_thread();
                }
                if passes > 0 {
                    self.engine.finish_sleep();
                }
                let mut contended = false;
                for _ in 0..passes {
                    self.progress();
                    contended = self.random.chance(BUSY);
                    if contended {
                        break;
                    }
                }
                while self.engine.owes_copies() && !contended {
                    self.progress();
                }
                match after_passes(contended) {
                    Left::HandOver => {
                        self.signal();
                        None
                    }
                    Left::Pause(span) => {
                        self.notify();
                        Some(span)
                    }
                }
            }
        }
    }
}
