//! The program of several jobs, and what goes wrong in it.

use crate::job::network::Wires;
use crate::nuisance::Nuisance;
use std::fmt;
use weft_core::time::Duration;
use weft_random::{Random, mix};

/// The most processes of all jobs together, and of one job.
const PROCESSES_MAX: u64 = 24;
const JOB_MAX: u64 = 8;
/// The nodes on which the processes are.
const NODES_MAX: u64 = 4;
/// The most acts that are drawn, without those that a meeting needs.
const ACTS_MAX: u64 = 10;

/// A group that takes part in an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// All processes of a job; the leader is this rank.
    World { job: usize, leader: usize },
    /// One process of a job.
    Alone { job: usize, rank: usize },
}

impl Side {
    pub(super) fn job(self) -> usize {
        match self {
            Self::World { job, .. } | Self::Alone { job, .. } => job,
        }
    }

    /// The ranks in the job.
    pub(super) fn ranks(self, plan: &Plan) -> Vec<usize> {
        match self {
            Self::World { job, .. } => (0..plan.jobs[job].size).collect(),
            Self::Alone { rank, .. } => vec![rank],
        }
    }

    /// The processes.
    pub(super) fn members(self, plan: &Plan) -> Vec<usize> {
        self.ranks(plan).into_iter().map(|rank| plan.process(self.job(), rank)).collect()
    }

    /// The rank of the leader in the group.
    pub(super) fn leader(self) -> usize {
        if let Self::World { leader, .. } = self { leader } else { 0 }
    }
}

/// What the processes do together. A meeting is named by its number among the acts, and so is the
/// communicator that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Two groups meet at a port of the first; `spawns`: the second is a job that the first starts.
    Meet { accepts: Side, connects: Side, spawns: bool },
    /// Each process of the meeting with this number sends to each of the other group, and receives.
    Exchange { meeting: usize },
    /// All processes of a communicator gather a number from each.
    Gather { meeting: usize },
    /// The communicator of the meeting is given up.
    Disconnect { meeting: usize },
    /// The processes of a job, or of both groups of a meeting, agree, and those that live may make a smaller
    /// communicator.
    Agree { job: usize, meeting: Option<usize>, shrinks: bool },
}

/// A job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) size: usize,
    /// The number of its first process among all.
    pub(super) first: usize,
    /// The act that starts it.
    pub(super) spawned_by: Option<usize>,
}

/// When a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// At this time, in nanoseconds.
    At(u64),
    /// After so many of its turns.
    AfterTurns(u64),
    /// After so many of its steps in an act.
    InAct { act: usize, steps: u64 },
}

/// A fault of a process in a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It cannot map the segment.
    Share,
    /// It cannot tell its part in the second round.
    Tell,
    /// It cannot add a peer, after the first.
    Add,
}

/// A program, and what goes wrong.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) jobs: Vec<Job>,
    /// The node of each process.
    pub(super) nodes: Vec<u64>,
    pub(super) acts: Vec<Act>,
    pub(super) deaths: Vec<(usize, Death)>,
    /// Contacts that break: the meeting, and the bytes of both directions after which that happens.
    pub(super) breaks: Vec<(usize, u64)>,
    /// Faults of processes, by meeting and process.
    pub(super) faults: Vec<(usize, usize, Fault)>,
    pub(super) wires: Wires,
    pub(super) peer_timeout: Duration,
    /// The longest time until the processes of a job know of a death there.
    pub(super) notice_ns_max: u64,
    /// The longest pause of a process before an act, and the longest delay of bytes on a contact.
    pub(super) pause_ns_max: u64,
    pub(super) contact_ns_max: u64,
    /// The most processes of a node that share a segment.
    pub(super) share_max: usize,
    /// The time for which a process that connects waits.
    pub(super) connect_patience_ns: u64,
}

impl Plan {
    pub(super) fn process(&self, job: usize, rank: usize) -> usize {
        self.jobs[job].first + rank
    }

    pub(super) fn processes(&self) -> usize {
        self.nodes.len()
    }

    /// The job and the rank of a process.
    pub(super) fn of_process(&self, process: usize) -> (usize, usize) {
        let job = self.jobs.iter().rposition(|job| job.first <= process).expect("it is of a job");
        (job, process - self.jobs[job].first)
    }

    /// The two groups of a meeting.
    pub(super) fn sides(&self, meeting: usize) -> [Side; 2] {
        let Act::Meet { accepts, connects, .. } = self.acts[meeting] else {
            unreachable!("act {meeting} is a meeting")
        };
        [accepts, connects]
    }

    /// The processes that take part in an act.
    pub(super) fn members(&self, act: usize) -> Vec<usize> {
        match self.acts[act] {
            Act::Meet { accepts, connects, .. } => [accepts.members(self), connects.members(self)].concat(),
            Act::Exchange { meeting } | Act::Gather { meeting } | Act::Disconnect { meeting } => self.members(meeting),
            Act::Agree { meeting: Some(meeting), .. } => self.members(meeting),
            Act::Agree { job, .. } => (0..self.jobs[job].size).map(|rank| self.process(job, rank)).collect(),
        }
    }

    /// Says whether something in the plan can make a meeting fail.
    pub(super) fn may_fail(&self, meeting: usize) -> bool {
        let is_of = |other: usize| other == meeting;
        !self.deaths.is_empty()
            || self.breaks.iter().any(|(other, _)| is_of(*other))
            || self.faults.iter().any(|(other, _, fault)| is_of(*other) && *fault != Fault::Share)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, job) in self.jobs.iter().enumerate() {
            let nodes = &self.nodes[job.first..job.first + job.size];
            let from = job.spawned_by.map_or(String::new(), |act| format!(", started by act {act}"));
            writeln!(
                f,
                "job {number}: processes {} to {} on nodes {nodes:?}{from}",
                job.first,
                job.first + job.size - 1
            )?;
        }
        for (number, act) in self.acts.iter().enumerate() {
            writeln!(f, "act {number}: {act:?}")?;
        }
        writeln!(f, "deaths {:?}; contacts that break {:?}; faults {:?}", self.deaths, self.breaks, self.faults)?;
        writeln!(f, "{:?}", self.wires)?;
        write!(
            f,
            "peer timeout {} ns, notices within {} ns, pauses up to {} ns, contacts up to {} ns late, {} processes \
             share a segment",
            self.peer_timeout.0, self.notice_ns_max, self.pause_ns_max, self.contact_ns_max, self.share_max
        )
    }
}

/// Draws the program of a seed.
pub(super) fn draw(seed: u64) -> Plan {
    let random = &mut Random::new(mix(seed ^ 0x6d65_6574_696e_6773));
    let mut jobs: Vec<Job> = Vec::new();
    let mut nodes = Vec::new();
    let node_count = random.between(1, NODES_MAX);
    let job_max = random.pick(&[1, 2, 3, JOB_MAX]);
    let mut add_job = |random: &mut Random, jobs: &mut Vec<Job>, spawned_by| {
        let room = PROCESSES_MAX - nodes.len() as u64;
        if room == 0 {
            return None;
        }
        let size = random.between(1, job_max.min(room)) as usize;
        jobs.push(Job { size, first: nodes.len(), spawned_by });
        // Node 0 shares no memory.
        nodes.extend((0..size).map(|_| random.below(node_count + 1)));
        Some(jobs.len() - 1)
    };
    for _ in 0..random.between(1, 3) {
        add_job(random, &mut jobs, None);
    }
    let mut acts = Vec::new();
    // The meetings whose communicators are there.
    let mut open: Vec<usize> = Vec::new();
    for _ in 0..random.between(1, ACTS_MAX) {
        let act = acts.len();
        match random.below(10) {
            0..4 => {
                let job = random.below(jobs.len() as u64) as usize;
                let accepts = side(random, &jobs, job);
                let other = random.below(jobs.len() as u64) as usize;
                let spawned =
                    if random.chance(400_000) || other == job { add_job(random, &mut jobs, Some(act)) } else { None };
                let connects = match spawned {
                    Some(job) => Side::World { job, leader: 0 },
                    None if other == job => continue,
                    None => side(random, &jobs, other),
                };
                acts.push(Act::Meet { accepts, connects, spawns: spawned.is_some() });
                open.push(act);
            }
            4..6 if !open.is_empty() => {
                let meeting = random.pick(&open);
                acts.push(if random.chance(600_000) { Act::Exchange { meeting } } else { Act::Gather { meeting } });
            }
            6..8 if !open.is_empty() => {
                let meeting = open.remove(random.below(open.len() as u64) as usize);
                acts.push(Act::Disconnect { meeting });
            }
            _ => {
                let job = random.below(jobs.len() as u64) as usize;
                let meeting = random.chance(400_000).then(|| open.last().copied()).flatten();
                acts.push(Act::Agree { job, meeting, shrinks: random.chance(500_000) });
            }
        }
    }
    let mut plan = Plan {
        seed,
        jobs,
        nodes,
        acts,
        deaths: Vec::new(),
        breaks: Vec::new(),
        faults: Vec::new(),
        wires: wires(random),
        peer_timeout: Duration::from_millis(400),
        notice_ns_max: random.pick(&[0, 100_000, 20_000_000]),
        pause_ns_max: random.pick(&[0, 10_000, 2_000_000]),
        contact_ns_max: random.pick(&[0, 20_000, 500_000]),
        share_max: random.pick(&[0, 3, 64, 64]),
        connect_patience_ns: 20_000_000_000,
    };
    go_wrong(&mut plan, random);
    plan
}

fn side(random: &mut Random, jobs: &[Job], job: usize) -> Side {
    let rank = random.below(jobs[job].size as u64) as usize;
    if random.chance(750_000) { Side::World { job, leader: rank } } else { Side::Alone { job, rank } }
}

/// Draws deaths, contacts that break, and faults of processes. A quarter of the programs has none.
fn go_wrong(plan: &mut Plan, random: &mut Random) {
    let meetings: Vec<usize> = (0..plan.acts.len()).filter(|act| matches!(plan.acts[*act], Act::Meet { .. })).collect();
    let kind = random.below(8);
    if kind >= 3 && !plan.acts.is_empty() {
        for _ in 0..random.between(1, 3) {
            let process = random.below(plan.processes() as u64) as usize;
            let act = random.below(plan.acts.len() as u64) as usize;
            let among = plan.members(act);
            let death = match random.below(5) {
                0 => (process, Death::At(random.below(20_000_000))),
                1 => (process, Death::AfterTurns(random.below(400))),
                _ => (random.pick(&among), Death::InAct { act, steps: random.below(12) }),
            };
            if plan.deaths.iter().all(|(process, _)| *process != death.0) {
                plan.deaths.push(death);
            }
        }
    }
    for meeting in meetings {
        if (kind == 1 || kind >= 6) && random.chance(300_000) {
            let most = random.pick(&[300, 4_000]);
            plan.breaks.push((meeting, random.between(1, most)));
        }
        if (kind == 2 || kind >= 6) && random.chance(400_000) {
            let process = random.pick(&plan.members(meeting));
            let fault = random.pick(&[Fault::Share, Fault::Share, Fault::Tell, Fault::Add]);
            plan.faults.push((meeting, process, fault));
        }
    }
}

fn wires(random: &mut Random) -> Wires {
    let mut nuisances = Vec::new();
    let us = Duration::from_micros;
    if random.chance(400_000) {
        nuisances.push(Nuisance::Loss { per_million: random.pick(&[1_000, 10_000, 40_000]), rank: None });
    }
    if random.chance(250_000) {
        nuisances.push(Nuisance::Duplication { per_million: 50_000, late_max: us(300) });
    }
    if random.chance(250_000) {
        nuisances.push(Nuisance::Reordering { per_million: 100_000, delay_max: us(100) });
    }
    if random.chance(100_000) {
        nuisances.push(Nuisance::Replay { per_million: 20_000 });
    }
    Wires {
        packet_size: 1452,
        latency: random.pick(&[1_000, 10_000, 30_000]),
        gigabits: 10,
        send_bytes: 1 << 20,
        receive_bytes: 8 << 20,
        refused: random.pick(&[0, 0, 10_000]),
        joins: false,
        train_bytes: 0,
        nuisances,
        multicast: None,
        ordered: None,
    }
}
