//! What the processes of several jobs share: time, ports and contacts, segments of memory, the launcher, and
//! what has become of each meeting.

use super::plan::{Death, Plan};
use crate::job::moments::Clock;
use crate::job::network::Network;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use weft_plan::meeting::SegmentKey;
use weft_random::{Random, mix};

/// The time that bytes of a contact need at least, nanoseconds.
const CONTACT_NS: u64 = 5_000;

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// The launcher has not started it.
    Unborn,
    /// It runs, and is in `MPI_Init` or not.
    Runs,
    /// It has died at this time.
    Dead(u64),
    /// It has left `MPI_Finalize` at this time.
    Ended(u64),
}

/// One end of a contact.
#[derive(Debug, Default)]
struct End {
    process: usize,
    /// The bytes on their way to it, with the time when they arrive.
    incoming: VecDeque<(u64, Vec<u8>)>,
    /// The time when the last of them arrives, and when it sees the end of the contact.
    last: u64,
    over: Option<u64>,
}

/// A contact: a connection of two leaders.
#[derive(Debug)]
struct Pair {
    ends: [End; 2],
    /// The bytes that it still moves before it breaks.
    left: u64,
}

/// A port, by the meeting for which it is opened.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    is_open: bool,
    /// The process that calls, and the time when its call arrives.
    caller: Option<(usize, u64)>,
    /// The contact, once the call is accepted.
    contact: Option<usize>,
}

/// A segment of memory of a node.
#[derive(Debug, Default)]
struct Segment {
    /// The processes that map it.
    members: BTreeSet<usize>,
}

/// A death of which a process will hear.
type Notice = (u64, usize, usize);

pub(super) struct World {
    pub(super) plan: Rc<Plan>,
    pub(super) clock: Clock,
    pub(super) network: Network,
    pub(super) random: Random,
    pub(super) trace: bool,
    pub(super) lives: Vec<Life>,
    /// Whether each process has come out of each meeting with a communicator.
    verdicts: BTreeMap<(usize, usize), bool>,
    ports: BTreeMap<usize, Port>,
    contacts: Vec<Pair>,
    segments: BTreeMap<SegmentKey, Segment>,
    /// When processes must have a turn, whatever comes to them.
    alarms: BTreeSet<(u64, usize)>,
    pub(super) notices: BTreeSet<Notice>,
    /// Processes that die now.
    pub(super) dying: BTreeSet<usize>,
    /// Processes that have ended before all that they have sent was acknowledged.
    pub(super) late: BTreeSet<usize>,
    /// The processes that have come to a fence of the launcher: by job and number of the fence.
    fences: BTreeMap<(usize, u32), BTreeSet<usize>>,
    /// The decisions of agreements, by what they agree on: the processes and what they have got.
    pub(super) decisions: BTreeMap<String, Vec<(usize, String)>>,
    pub(super) violation: Option<String>,
    pub(super) counts: Counts,
}

/// What has happened in a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) met: u64,
    pub(super) failed: u64,
    pub(super) mixed: u64,
    pub(super) decisions: u64,
    pub(super) farewells: u64,
    pub(super) segments: u64,
}

impl World {
    pub(super) fn new(plan: Rc<Plan>, clock: Clock, network: Network, trace: bool) -> Self {
        let lives = (0..plan.processes()).map(|process| {
            let (job, _) = plan.of_process(process);
            if plan.jobs[job].spawned_by.is_some() { Life::Unborn } else { Life::Runs }
        });
        Self {
            lives: lives.collect(),
            random: Random::new(mix(plan.seed ^ 0x776f_726c)),
            clock,
            network,
            trace,
            verdicts: BTreeMap::new(),
            ports: BTreeMap::new(),
            contacts: Vec::new(),
            segments: BTreeMap::new(),
            alarms: BTreeSet::new(),
            notices: BTreeSet::new(),
            dying: BTreeSet::new(),
            late: BTreeSet::new(),
            fences: BTreeMap::new(),
            decisions: BTreeMap::new(),
            violation: None,
            counts: Counts::default(),
            plan,
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    pub(super) fn note(&self, process: usize, what: impl FnOnce() -> String) {
        if self.trace {
            crate::out::line(format_args!("{:>12} ns  process {process}: {}", self.now(), what()));
        }
    }

    /// Gives a process a turn at a time.
    pub(super) fn alarm(&mut self, at: u64, process: usize) {
        self.alarms.insert((at, process));
    }

    /// Gives all processes a turn soon.
    pub(super) fn alarm_all(&mut self) {
        let at = self.now() + 1;
        (0..self.lives.len()).for_each(|process| self.alarm(at, process));
    }

    pub(super) fn next_alarm(&self) -> Option<u64> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Takes the next process whose time has come.
    pub(super) fn take_alarm(&mut self) -> Option<usize> {
        let now = self.now();
        let (at, process) = *self.alarms.first()?;
        (at <= now).then(|| {
            self.alarms.pop_first();
            process
        })
    }

    pub(super) fn is_late(&self, process: usize) -> bool {
        self.late.contains(&process)
    }

    pub(super) fn runs(&self, process: usize) -> bool {
        self.lives[process] == Life::Runs
    }

    /// Says whether a process is gone, in either way.
    pub(super) fn is_gone(&self, process: usize) -> bool {
        match self.lives[process] {
            Life::Runs => false,
            Life::Dead(_) | Life::Ended(_) => true,
            // A job that nobody will start.
            Life::Unborn => {
                let (job, _) = self.plan.of_process(process);
                let act = self.plan.jobs[job].spawned_by.expect("all others run");
                self.has_failed(act, self.leader(act, 0))
            }
        }
    }

    /// Starts the processes of a job.
    pub(super) fn start(&mut self, job: usize) {
        for rank in 0..self.plan.jobs[job].size {
            let process = self.plan.process(job, rank);
            self.lives[process] = Life::Runs;
            let at = self.now() + self.random.below(self.plan.pause_ns_max + 1_000);
            self.alarm(at, process);
        }
    }

    /// A process dies: its contacts end, its memory is given back, and the launcher tells its job.
    pub(super) fn die(&mut self, process: usize) {
        self.leave(process, Life::Dead(self.now()));
        let (job, _) = self.plan.of_process(process);
        for rank in 0..self.plan.jobs[job].size {
            let other = self.plan.process(job, rank);
            let at = self.now() + 1 + self.random.below(self.plan.notice_ns_max + 1);
            self.notices.insert((at, other, process));
        }
        // A job of which a process dies in MPI_Init is ended.
        let is_in_init = |act: usize| self.verdicts.get(&(act, process)) != Some(&true);
        if self.plan.jobs[job].spawned_by.is_some_and(is_in_init) {
            let members = (0..self.plan.jobs[job].size).map(|rank| self.plan.process(job, rank));
            let members: Vec<usize> = members.filter(|other| self.runs(*other)).collect();
            self.dying.extend(members);
        }
    }

    /// A process is gone.
    pub(super) fn leave(&mut self, process: usize, life: Life) {
        // Those who map a segment with it learn of its end from the system.
        let near: BTreeSet<usize> = self
            .segments
            .values()
            .filter(|segment| segment.members.contains(&process))
            .flat_map(|segment| segment.members.iter().copied())
            .collect();
        if matches!(life, Life::Dead(_)) {
            for other in near.into_iter().filter(|other| *other != process) {
                self.notices.insert((self.now() + 1 + self.random.below(100_000), other, process));
            }
        }
        self.lives[process] = life;
        self.network.die(process);
        let keys: Vec<SegmentKey> = self.segments.keys().copied().collect();
        keys.into_iter().for_each(|key| self.unmap(key, process));
        for contact in 0..self.contacts.len() {
            for end in 0..2 {
                if self.contacts[contact].ends[end].process == process {
                    self.close(contact, end, true);
                }
            }
        }
        self.alarm_all();
    }

    /// Notes how a process has come out of a meeting.
    pub(super) fn conclude(&mut self, meeting: usize, process: usize, met: bool) {
        self.note(process, || format!("act {meeting}: the meeting {}", if met { "succeeds" } else { "fails" }));
        self.verdicts.insert((meeting, process), met);
        self.counts.met += u64::from(met);
        self.counts.failed += u64::from(!met);
        self.alarm_all();
    }

    /// Says whether a process is out of a meeting without a communicator, or gone.
    pub(super) fn has_failed(&self, meeting: usize, process: usize) -> bool {
        self.is_gone(process) || self.verdicts.get(&(meeting, process)) == Some(&false)
    }

    /// Says whether a process that lives has no communicator of a meeting although it should: then nothing is
    /// promised of what the others do there.
    pub(super) fn is_torn(&self, meeting: usize) -> bool {
        let members = self.plan.members(meeting);
        members.into_iter().any(|process| self.verdicts.get(&(meeting, process)) == Some(&false))
    }

    pub(super) fn verdict(&self, meeting: usize, process: usize) -> Option<bool> {
        self.verdicts.get(&(meeting, process)).copied()
    }

    // Ports and contacts.

    pub(super) fn open_port(&mut self, meeting: usize) {
        self.ports.entry(meeting).or_default().is_open = true;
        self.alarm_all();
    }

    pub(super) fn is_open(&self, meeting: usize) -> bool {
        self.ports.get(&meeting).is_some_and(|port| port.is_open)
    }

    pub(super) fn close_port(&mut self, meeting: usize) {
        if let Some(port) = self.ports.get_mut(&meeting) {
            port.is_open = false;
        }
    }

    /// Calls at a port.
    pub(super) fn call(&mut self, meeting: usize, process: usize) {
        let at = self.now() + CONTACT_NS + self.random.below(self.plan.contact_ns_max + 1);
        self.ports.entry(meeting).or_default().caller = Some((process, at));
        let acceptor = self.leader(meeting, 0);
        self.alarm(at, acceptor);
    }

    /// Goes away from a port.
    pub(super) fn hang_up(&mut self, meeting: usize) {
        if let Some(port) = self.ports.get_mut(&meeting) {
            port.caller = None;
        }
    }

    pub(super) fn leader(&self, meeting: usize, side: usize) -> usize {
        let side = self.plan.sides(meeting)[side];
        side.members(&self.plan)[side.leader()]
    }

    /// Accepts a process that has called; returns the contact.
    pub(super) fn accept(&mut self, meeting: usize, process: usize) -> Option<usize> {
        let now = self.now();
        let (caller, at) = self.ports.get(&meeting)?.caller?;
        if at > now || !self.runs(caller) {
            return None;
        }
        let end = |process| End { process, last: now, ..End::default() };
        let left = self.plan.breaks.iter().find(|(of, _)| *of == meeting).map_or(u64::MAX, |(_, bytes)| *bytes);
        self.contacts.push(Pair { ends: [end(process), end(caller)], left });
        let contact = self.contacts.len() - 1;
        let port = self.ports.get_mut(&meeting)?;
        (port.contact, port.caller) = (Some(contact), None);
        let at = now + CONTACT_NS + self.random.below(self.plan.contact_ns_max + 1);
        self.alarm(at, caller);
        Some(contact)
    }

    /// The contact of a process that has called, once it is accepted.
    pub(super) fn accepted(&self, meeting: usize) -> Option<usize> {
        self.ports.get(&meeting)?.contact
    }

    /// Sends some bytes of a contact; returns how many have left.
    pub(super) fn send(&mut self, contact: usize, end: usize, bytes: &[u8]) -> Result<usize, ()> {
        let now = self.now();
        if self.contacts[contact].ends[end].over.is_some_and(|over| over <= now) {
            return Err(());
        }
        if self.contacts[contact].left == 0 {
            // It is broken, and this end does not know yet.
            return Ok(0);
        }
        let taken = self.random.between(1, bytes.len() as u64).min(self.contacts[contact].left) as usize;
        let at = now + CONTACT_NS + self.random.below(self.plan.contact_ns_max + 1);
        let pair = &mut self.contacts[contact];
        pair.left -= taken as u64;
        let breaks = pair.left == 0;
        let there = &mut pair.ends[1 - end];
        there.last = there.last.max(at);
        if there.over.is_none() {
            there.incoming.push_back((there.last, bytes[..taken].to_vec()));
        }
        let (at, other) = (there.last, there.process);
        let own = pair.ends[end].process;
        self.alarm(at, other);
        if taken < bytes.len() {
            // What has not left leaves in later looks.
            self.alarm(now + 1_000, own);
        }
        if breaks {
            self.close(contact, 0, true);
            self.close(contact, 1, true);
        }
        Ok(taken)
    }

    /// Receives what has come over a contact.
    pub(super) fn receive(&mut self, contact: usize, end: usize) -> Result<Option<Vec<u8>>, ()> {
        let now = self.now();
        let here = &mut self.contacts[contact].ends[end];
        match here.incoming.front() {
            Some((at, _)) if *at <= now => Ok(here.incoming.pop_front().map(|(_, bytes)| bytes)),
            None if here.over.is_some_and(|over| over <= now) => Err(()),
            _ => Ok(None),
        }
    }

    /// Ends a contact at one end: the other one sees it behind what was sent, or in place of some of it.
    /// `breaks`: bytes may be lost.
    pub(super) fn close(&mut self, contact: usize, end: usize, breaks: bool) {
        let now = self.now();
        let is_reset = breaks && self.random.chance(300_000);
        let cut = self.random.below(3) as usize;
        let there = &mut self.contacts[contact].ends[1 - end];
        if there.over.is_some() {
            return;
        }
        if is_reset {
            let length = there.incoming.len().saturating_sub(cut);
            there.incoming.truncate(length);
        }
        let at = there.last.max(now) + CONTACT_NS;
        there.over = Some(at);
        let process = there.process;
        self.alarm(at, process);
    }

    // Segments.

    /// Maps a segment; its creator comes first. Returns whether it is there.
    pub(super) fn map(&mut self, key: SegmentKey, process: usize, creates: bool) -> bool {
        if creates {
            self.segments.insert(key, Segment::default());
            self.counts.segments += 1;
        }
        self.segments.get_mut(&key).map(|segment| segment.members.insert(process)).is_some()
    }

    /// Gives a segment back. It goes with the last process.
    pub(super) fn unmap(&mut self, key: SegmentKey, process: usize) {
        if let Some(segment) = self.segments.get_mut(&key) {
            segment.members.remove(&process);
            if segment.members.is_empty() {
                self.segments.remove(&key);
            }
        }
    }

    /// The segments that a process maps.
    pub(super) fn mapped_by(&self, process: usize) -> usize {
        self.segments.values().filter(|segment| segment.members.contains(&process)).count()
    }

    pub(super) fn has_segments(&self) -> bool {
        !self.segments.is_empty()
    }

    // The launcher.

    /// Comes to a fence of a job. Returns whether all that live are there.
    pub(super) fn fence(&mut self, job: usize, number: u32, process: usize) -> bool {
        let is_new = self.fences.entry((job, number)).or_default().insert(process);
        if is_new {
            self.alarm_all();
        }
        let here = &self.fences[&(job, number)];
        let members = (0..self.plan.jobs[job].size).map(|rank| self.plan.process(job, rank));
        members.filter(|process| !self.is_gone(*process)).all(|process| here.contains(&process))
    }

    /// Counts a step of a process in an act, and lets it die there if that is its fate.
    pub(super) fn dies_in(&self, process: usize, act: usize, steps: u64) -> bool {
        self.plan.deaths.contains(&(process, Death::InAct { act, steps }))
    }

    pub(super) fn fail(&mut self, process: usize, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(format!("process {process}: {}", what()));
        }
    }
}
