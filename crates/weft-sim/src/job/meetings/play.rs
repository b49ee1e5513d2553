//! Plays a program: gives the processes their turns, lets them die, and checks how it ends.

use super::acts;
use super::plan::{Death, Plan};
use super::process::{Ctx, Proc, name_of};
use super::world::{Counts, Life, World};
use crate::job::moments::Clock;
use crate::job::network::Network;
use crate::job::platform::set_ticks_per_look;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use weft_random::{Random, mix};

/// The longest time of a program, and the most turns.
const TIME_MAX_NS: u64 = 60_000_000_000;
const TURNS_MAX: u64 = 400_000;
/// The longest time from what happens to a process until its turn, nanoseconds.
const STEP_NS_MAX: u64 = 500;

/// The facts of programs that have ended as they must.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Processes that were started.
    pub processes: u64,
    /// Processes that died.
    pub deaths: u64,
    /// Meetings from which processes came with a communicator.
    pub met: u64,
    /// Meetings that have failed for processes.
    pub failed: u64,
    /// Meetings with both kinds of processes, none of which is promised anything.
    pub mixed: u64,
    /// Decisions with which processes have returned.
    pub decisions: u64,
    /// Farewells that were said.
    pub farewells: u64,
    /// Segments of memory that were made.
    pub segments: u64,
    /// Packets that were sent.
    pub packets: u64,
    /// The time that has passed, in nanoseconds.
    pub nanoseconds: u64,
}

impl Played {
    /// Adds the facts of another program.
    pub fn add(&mut self, other: &Self) {
        self.processes += other.processes;
        self.deaths += other.deaths;
        self.met += other.met;
        self.failed += other.failed;
        self.mixed += other.mixed;
        self.decisions += other.decisions;
        self.farewells += other.farewells;
        self.segments += other.segments;
        self.packets += other.packets;
        self.nanoseconds += other.nanoseconds;
    }
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processes, deaths, met, failed, mixed, decisions, farewells, segments, packets, nanoseconds } = self;
        write!(
            f,
            "{processes} processes in {} s, {deaths} died; {met} times met, {failed} times failed, {mixed} meetings \
             torn; {decisions} decisions, {farewells} farewells, {segments} segments, {packets} packets",
            nanoseconds / 1_000_000_000
        )
    }
}

/// A process, and what it does.
struct Running {
    ctx: Ctx,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// The time when its engine wants to look.
    due: Option<u64>,
    /// The time of its next turn because of the network.
    network: Option<u64>,
}

struct Play {
    plan: Rc<Plan>,
    world: Rc<RefCell<World>>,
    lives: Vec<Option<Running>>,
    clock: Clock,
    network: Network,
    random: Random,
    turns: u64,
    deaths: u64,
}

/// Plays a program.
///
/// # Errors
/// The first promise that was broken.
pub(super) fn play(plan: &Plan, trace: bool) -> Result<Played, String> {
    set_ticks_per_look(0);
    let played = catch_unwind(AssertUnwindSafe(|| Play::new(plan, trace).run()));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("without words")))
    })
}

impl Play {
    fn new(plan: &Plan, trace: bool) -> Self {
        let plan = Rc::new(plan.clone());
        let clock = Clock::default();
        let network = Network::new(&plan.wires, plan.processes(), 1, clock.clone(), mix(plan.seed ^ 0x6e65));
        let world = World::new(plan.clone(), clock.clone(), network.clone(), trace);
        let play = Self {
            lives: (0..plan.processes()).map(|_| None).collect(),
            random: Random::new(mix(plan.seed ^ 0x706c)),
            world: Rc::new(RefCell::new(world)),
            plan,
            clock,
            network,
            turns: 0,
            deaths: 0,
        };
        for process in 0..play.plan.processes() {
            play.world.borrow_mut().alarm(0, process);
            let deaths = play.plan.deaths.clone();
            for (of, death) in deaths {
                if let (true, Death::At(at)) = (of == process, death) {
                    play.world.borrow_mut().alarm(at, process);
                }
            }
        }
        play
    }

    fn run(mut self) -> Result<Played, String> {
        loop {
            self.take_notices();
            self.take_deaths();
            if let Some(what) = self.world.borrow_mut().violation.take() {
                return Err(what);
            }
            let touched = self.clock.take_touched();
            let now = self.clock.now();
            for (process, life) in self.lives.iter_mut().enumerate() {
                if let Some(life) = life.as_mut().filter(|_| touched >> process & 1 != 0) {
                    life.network = self.network.next_event(process);
                }
            }
            let alarmed = self.world.borrow_mut().take_alarm();
            if let Some(process) = alarmed {
                self.turn(process);
                continue;
            }
            let next = |life: &Option<Running>| {
                let life = life.as_ref()?;
                life.due.into_iter().chain(life.network).min()
            };
            let ready: Vec<usize> = (0..self.lives.len())
                .filter(|process| next(&self.lives[*process]).is_some_and(|at| at <= now))
                .collect();
            if !ready.is_empty() {
                let process = ready[self.random.below(ready.len() as u64) as usize];
                self.turn(process);
                continue;
            }
            if (0..self.lives.len()).all(|process| self.world.borrow().is_gone(process)) {
                return self.conclude();
            }
            let world = self.world.borrow();
            let notice = world.notices.first().map(|(at, _, _)| *at);
            let at = self.lives.iter().filter_map(next).chain(world.next_alarm()).chain(notice).min();
            match at {
                Some(at) if at <= TIME_MAX_NS && self.turns <= TURNS_MAX => self.clock.set(at),
                Some(_) => return Err(self.hang(&world, "it takes too long")),
                None => return Err(self.hang(&world, "nobody has anything to do")),
            }
        }
    }

    fn hang(&self, world: &World, why: &str) -> String {
        let mut text = format!("{why}, at {} ns:", world.now());
        for life in self.lives.iter().flatten() {
            let proc = life.ctx.proc.borrow();
            if world.runs(life.ctx.process) {
                text += &format!("\n    process {}, act {}: waits for {}", life.ctx.process, proc.act, proc.stands);
            }
        }
        text
    }

    /// Tells processes of deaths of which the launcher or the system knows.
    fn take_notices(&mut self) {
        loop {
            let notice = {
                let mut world = self.world.borrow_mut();
                let now = world.now();
                let Some(notice) = world.notices.first().copied().filter(|(at, _, _)| *at <= now) else { return };
                world.notices.pop_first();
                notice
            };
            let (_, process, dead) = notice;
            if !self.world.borrow().runs(process) {
                continue;
            }
            let Some(life) = &self.lives[process] else { continue };
            let name = name_of(&self.plan, dead);
            let mut proc = life.ctx.proc.borrow_mut();
            if let Some(peer) = proc.engine.find_process(name) {
                proc.engine.hear_of_death(peer, "it has ended");
            }
            drop(proc);
            let now = self.clock.now();
            self.world.borrow_mut().alarm(now, process);
        }
    }

    fn take_deaths(&mut self) {
        let now = self.clock.now();
        for (process, death) in &self.plan.deaths {
            if matches!(death, Death::At(at) if *at <= now) && self.world.borrow().runs(*process) {
                self.world.borrow_mut().dying.insert(*process);
            }
        }
        loop {
            let dying = self.world.borrow_mut().dying.pop_first();
            let Some(process) = dying else { return };
            if !self.world.borrow().runs(process) {
                continue;
            }
            self.deaths += 1;
            self.world.borrow().note(process, || "dies".into());
            self.lives[process] = None;
            self.world.borrow_mut().die(process);
        }
    }

    fn turn(&mut self, process: usize) {
        if !self.world.borrow().runs(process) {
            self.lives[process] = None;
            return;
        }
        self.turns += 1;
        let Self { plan, world, .. } = self;
        let life = self.lives[process].get_or_insert_with(|| {
            let proc = Rc::new(RefCell::new(Proc::new(plan, &world.borrow(), process)));
            let ctx = Ctx { proc, world: world.clone(), plan: plan.clone(), process };
            Running { future: Some(Box::pin(acts::live(ctx.clone()))), ctx, due: None, network: None }
        });
        let turns = {
            let mut proc = life.ctx.proc.borrow_mut();
            proc.turns += 1;
            proc.progress();
            proc.turns
        };
        // A process that others take for dead ends.
        let is_excluded = life.ctx.proc.borrow().is_excluded;
        if is_excluded || self.plan.deaths.contains(&(process, Death::AfterTurns(turns))) {
            self.world.borrow_mut().dying.insert(process);
            return;
        }
        if let Some(future) = &mut life.future
            && future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        {
            life.future = None;
        }
        let mut proc = life.ctx.proc.borrow_mut();
        proc.progress();
        let now = self.clock.now();
        life.due = proc.due().map(|due| now + due.max(1) + self.random.below(STEP_NS_MAX));
        life.network = self.network.next_event(process).map(|at| at.max(now + 1 + self.random.below(STEP_NS_MAX)));
    }

    /// Says whether a process of a meeting is of a job whose start has failed.
    fn follows_a_failed_start(&self, world: &World, meeting: usize) -> bool {
        self.plan.members(meeting).into_iter().any(|process| {
            let (job, _) = self.plan.of_process(process);
            self.plan.jobs[job].spawned_by.is_some_and(|act| world.verdict(act, process) != Some(true))
        })
    }

    /// Checks what is left when all processes are gone.
    fn conclude(&self) -> Result<Played, String> {
        let mut world = self.world.borrow_mut();
        let ended = |process: usize| matches!(world.lives[process], Life::Ended(_));
        for (what, decisions) in &world.decisions {
            // A process that has died may have had another decision: nobody knows of it any more.
            let mut living = decisions.iter().filter(|(process, _)| ended(*process));
            let Some((first, decision)) = living.next() else { continue };
            if let Some((other, different)) = living.find(|(_, other)| other != decision) {
                return Err(format!("{what}: process {first} has {decision}, and {other} has {different}"));
            }
        }
        let meetings: Vec<usize> = (0..self.plan.acts.len())
            .filter(|act| matches!(self.plan.acts[*act], super::plan::Act::Meet { .. }))
            .collect();
        for meeting in meetings {
            let members = self.plan.members(meeting);
            let verdicts: Vec<Option<bool>> = members.iter().map(|process| world.verdict(meeting, *process)).collect();
            let is_torn = verdicts.contains(&Some(true)) && verdicts.contains(&Some(false));
            world.counts.mixed += u64::from(is_torn);
            if is_torn && members.iter().all(|process| matches!(world.lives[*process], Life::Ended(_))) {
                return Err(format!("act {meeting}: nobody has died, and the meeting is one of some: {verdicts:?}"));
            }
            let is_bad = verdicts.contains(&Some(false))
                && !self.plan.may_fail(meeting)
                && !self.follows_a_failed_start(&world, meeting);
            if is_bad {
                return Err(format!("act {meeting}: the meeting has failed, and nothing went wrong"));
            }
        }
        if world.has_segments() {
            return Err("a segment is left when all processes are gone".into());
        }
        let Counts { met, failed, mixed, decisions, farewells, segments } = world.counts;
        Ok(Played {
            processes: self.plan.processes() as u64,
            deaths: self.deaths,
            met,
            failed,
            mixed,
            decisions,
            farewells,
            segments,
            packets: self.network.packets(),
            nanoseconds: self.clock.now(),
        })
    }
}
