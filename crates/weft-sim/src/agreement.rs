//! Agreements of processes that die at any moment, from one seed: at a point of time, or in the middle of the
//! messages that one step sends.
//!
//! The processes run the agreements of `weft-core` over a network of channels that keep their order and are
//! as late as they please. The others learn of a death late, each at its own time, before or after the last
//! messages of the dead. A program is a list of agreements and of shrinkings, which are agreements with
//! several rounds; some begin before earlier ones have ended. The checks:
//!
//! - all that return from a round and live have the same decision;
//! - it has the votes of all that live, and names nobody failed that lives;
//! - all that live return, and a shrinking gives all of them the same group;
//! - in the end nothing is kept but the last decisions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weft_plan::agreement::{Agreements, Ranks, Vote};
use weft_random::{Random, mix};

/// The most events of a program. One that needs more goes on for ever.
const EVENTS_MAX: u64 = 2_000_000;
/// The most processes of a program.
const RANKS_MAX: u64 = 40;
/// The rounds that an agreement may keep for each operation that can still be asked for.
const KEPT_MAX: usize = 64;

/// The facts of a program that has ended as it must.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Messages that were sent.
    pub messages: u64,
    /// Processes that died.
    pub deaths: u64,
    /// Decisions with which processes have returned.
    pub rounds: u64,
    /// The time of the last return, in nanoseconds.
    pub ended_ns: u64,
}

impl Played {
    /// Adds the facts of another program.
    pub fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.deaths += other.deaths;
        self.rounds += other.rounds;
        self.ended_ns = self.ended_ns.max(other.ended_ns);
    }
}

/// The costs of the network, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// The time that a message takes.
    pub latency_ns: u64,
    /// The longest additional time, drawn for each message.
    pub delay_ns_max: u64,
    /// The time for which a process is busy with each message that it sends or takes in.
    pub overhead_ns: u64,
    /// The longest time until a process learns of a death.
    pub notice_ns_max: u64,
}

/// An operation of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Agree,
    /// Rounds in pairs until all voters can do as they say: the odd rounds confirm the even ones.
    Shrink,
}

/// The program, and the deaths.
#[derive(Clone, Debug)]
struct Program {
    seed: u64,
    ranks: u32,
    operations: Vec<Operation>,
    /// The most operations that a process has under way at once.
    under_way_max: usize,
    /// The longest pause of a process before an operation.
    pause_ns_max: u64,
    /// Some confirmations are refused, so that shrinkings have more rounds.
    refuses: bool,
    network: Network,
    /// For each process the time at which it dies, and the number of messages after which it dies.
    deaths: Vec<(Option<u64>, Option<u64>)>,
}

impl Program {
    fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let ranks = if random.chance(500_000) { random.between(1, 8) } else { random.between(2, RANKS_MAX) };
        let count = random.between(1, 5);
        let operations =
            (0..count).map(|_| if random.chance(400_000) { Operation::Shrink } else { Operation::Agree }).collect();
        let network = Network {
            latency_ns: 1_000,
            delay_ns_max: random.pick(&[0, 500, 20_000]),
            overhead_ns: random.pick(&[0, 100, 2_000]),
            notice_ns_max: random.pick(&[0, 2_000, 50_000]),
        };
        // The lowest ranks coordinate: they die more often than others.
        let share = random.pick(&[0, 100_000, 300_000, 700_000]);
        let span = (count * 30_000).max(1);
        let mut deaths: Vec<(Option<u64>, Option<u64>)> = (0..ranks)
            .map(|rank| {
                let dies = random.chance(if rank < 3 && share > 0 { 600_000 } else { share });
                let after_sends = random.chance(600_000);
                match (dies, after_sends) {
                    (false, _) => (None, None),
                    (true, true) => (None, Some(random.below(ranks.min(12) * count))),
                    (true, false) => (Some(random.below(span)), None),
                }
            })
            .collect();
        // Somebody lives.
        deaths[random.below(ranks) as usize] = (None, None);
        Self {
            seed,
            ranks: ranks as u32,
            operations,
            under_way_max: random.between(1, 3) as usize,
            pause_ns_max: random.pick(&[0, 3_000, 60_000]),
            refuses: true,
            network,
            deaths,
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A process looks what it can begin.
    Begins(u32),
    Arrives {
        from: u32,
        to: u32,
        bytes: Vec<u8>,
    },
    /// A process learns that another has died.
    Learns {
        who: u32,
        of: u32,
    },
    Dies(u32),
}

struct Process {
    lives: bool,
    agreements: Agreements,
    /// The failures in the order in which the program has seen them.
    known: Ranks,
    /// The operations that have begun: number, round, and whether the process has returned.
    begun: Vec<(u32, u32, bool)>,
    /// The groups that shrinkings have given, by operation.
    groups: BTreeMap<usize, Ranks>,
    sent: u64,
    busy_until: u64,
}

struct World<'a> {
    program: &'a Program,
    random: Random,
    now: u64,
    order: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    processes: Vec<Process>,
    /// The time at which the last message of a channel arrives.
    channels: BTreeMap<(u32, u32), u64>,
    /// The decisions that processes have returned with, by operation and round.
    decided: BTreeMap<(u32, u32), Vec<(u32, Vote)>>,
    played: Played,
}

/// Plays the program of a seed.
///
/// # Errors
/// A sentence that says which promise was broken.
pub fn play(seed: u64) -> Result<Played, String> {
    let program = Program::draw(seed);
    run(&program).map_err(|what| format!("seed {seed:#x}, {} processes: {what}", program.ranks))
}

/// The time that one agreement of `ranks` processes takes if nobody fails, in nanoseconds.
///
/// # Errors
/// As for [`play`].
pub fn time_without_failures(ranks: u32, network: Network) -> Result<u64, String> {
    let program = Program {
        seed: 1,
        ranks,
        operations: vec![Operation::Agree],
        under_way_max: 1,
        pause_ns_max: 0,
        refuses: false,
        network,
        deaths: vec![(None, None); ranks as usize],
    };
    run(&program).map(|played| played.ended_ns)
}

/// The time from the death of the coordinator until all others have a smaller group, in nanoseconds: a
/// shrinking that begins as each process learns of the death.
///
/// # Errors
/// As for [`play`].
pub fn time_to_shrink(ranks: u32, network: Network) -> Result<u64, String> {
    let mut deaths = vec![(None, None); ranks as usize];
    deaths[0] = (Some(0), None);
    let program = Program {
        seed: 1,
        ranks,
        operations: vec![Operation::Shrink],
        under_way_max: 1,
        pause_ns_max: 0,
        refuses: false,
        network,
        deaths,
    };
    run(&program).map(|played| played.ended_ns)
}

fn run(program: &Program) -> Result<Played, String> {
    let mut world = World::new(program);
    let mut events = 0;
    while let Some(Reverse((at, _, event))) = world.events.pop() {
        events += 1;
        if events > EVENTS_MAX {
            return Err(format!("it goes on for ever: {EVENTS_MAX} events"));
        }
        world.now = at;
        world.happen(event)?;
    }
    world.check_end()?;
    Ok(world.played)
}

impl<'a> World<'a> {
    fn new(program: &'a Program) -> Self {
        let process = |rank| Process {
            lives: true,
            agreements: Agreements::new(rank, program.ranks),
            known: Ranks::new(),
            begun: Vec::new(),
            groups: BTreeMap::new(),
            sent: 0,
            busy_until: 0,
        };
        let mut world = Self {
            program,
            random: Random::new(mix(program.seed)),
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            processes: (0..program.ranks).map(process).collect(),
            channels: BTreeMap::new(),
            decided: BTreeMap::new(),
            played: Played::default(),
        };
        for rank in 0..program.ranks {
            if let (Some(at), _) = program.deaths[rank as usize] {
                world.schedule(at, Event::Dies(rank));
            }
            world.pause(rank);
        }
        world
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn pause(&mut self, rank: u32) {
        let pause = self.random.below(self.program.pause_ns_max + 1);
        self.schedule(self.now + pause, Event::Begins(rank));
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Dies(rank) => {
                self.die(rank);
                Ok(())
            }
            Event::Begins(rank) => {
                self.begin(rank);
                self.follow(rank)
            }
            Event::Learns { who, of } => {
                let process = &mut self.processes[who as usize];
                process.known.insert(of);
                process.agreements.handle_failure(of);
                self.follow(who)
            }
            Event::Arrives { from, to, bytes } => {
                let process = &mut self.processes[to as usize];
                if !process.lives {
                    return Ok(());
                }
                process.busy_until = process.busy_until.max(self.now) + self.program.network.overhead_ns;
                if !process.agreements.handle_message(from, &bytes) {
                    return Err(format!("{to} cannot read a message of {from}"));
                }
                self.take_heard(to)?;
                self.follow(to)
            }
        }
    }

    /// Takes the failures that a message has told of.
    fn take_heard(&mut self, rank: u32) -> Result<(), String> {
        while let Some(heard) = self.processes[rank as usize].agreements.poll_heard() {
            self.processes[rank as usize].known.insert(heard);
            if self.processes[heard as usize].lives {
                return Err(format!("{rank} hears that {heard} has failed, which lives"));
            }
        }
        Ok(())
    }

    fn die(&mut self, rank: u32) {
        if !std::mem::replace(&mut self.processes[rank as usize].lives, false) {
            return;
        }
        self.played.deaths += 1;
        for who in (0..self.program.ranks).filter(|who| *who != rank) {
            let notice = self.random.below(self.program.network.notice_ns_max + 1);
            self.schedule(self.now + notice, Event::Learns { who, of: rank });
        }
    }

    /// Begins the next operation of a process if it may.
    fn begin(&mut self, rank: u32) {
        let Program { operations, under_way_max, .. } = self.program;
        let process = &mut self.processes[rank as usize];
        let open = process.begun.iter().filter(|(_, _, is_over)| !is_over).count();
        if !process.lives || process.begun.len() == operations.len() || open >= *under_way_max {
            return;
        }
        let Some(number) = process.agreements.begin() else { return };
        process.begun.push((number, 0, false));
        self.vote(rank, number, 0);
        if self.processes[rank as usize].begun.len() < operations.len() {
            self.pause(rank);
        }
    }

    /// The flags that a process brings to a round.
    fn flags(&self, rank: u32, number: u32, round: u32) -> u32 {
        let word = mix(self.program.seed ^ u64::from(rank) << 40 ^ u64::from(number) << 20 ^ u64::from(round));
        // Few bits are missing in each vote, so that the votes of all matter.
        !(1 << (word % 32))
    }

    fn vote(&mut self, rank: u32, number: u32, round: u32) {
        let flags = self.flags(rank, number, round);
        // One confirmation in eight is refused.
        let word = mix(u64::from(flags) << 8 ^ u64::from(round) ^ self.program.seed);
        let confirms = !self.program.refuses || !word.is_multiple_of(8) || round > 6;
        let process = &mut self.processes[rank as usize];
        let failed = process.known.clone();
        let mut vote = Vote::new(flags);
        (vote.failed, vote.highest, vote.lowest) = (failed, u64::from(rank), u64::from(confirms));
        process.agreements.vote(number, round, vote);
    }

    /// Returns what a process has got, sends what it wants sent, and goes on.
    fn follow(&mut self, rank: u32) -> Result<(), String> {
        if !self.processes[rank as usize].lives {
            return Ok(());
        }
        for at in 0..self.processes[rank as usize].begun.len() {
            self.return_from(rank, at)?;
        }
        while let Some((to, bytes)) = self.processes[rank as usize].agreements.poll_transmit() {
            let process = &mut self.processes[rank as usize];
            if self.program.deaths[rank as usize].1 == Some(process.sent) {
                self.die(rank);
                return Ok(());
            }
            process.sent += 1;
            let Network { latency_ns, delay_ns_max, overhead_ns, .. } = self.program.network;
            process.busy_until = process.busy_until.max(self.now) + overhead_ns;
            let leaves = process.busy_until;
            let arrives = leaves + latency_ns + self.random.below(delay_ns_max + 1);
            let last = self.channels.entry((rank, to)).or_default();
            *last = arrives.max(*last + 1);
            let arrives = *last;
            self.played.messages += 1;
            self.schedule(arrives, Event::Arrives { from: rank, to, bytes });
        }
        Ok(())
    }

    /// Takes the decisions of an operation that are there, and begins its next round, or returns from it.
    fn return_from(&mut self, rank: u32, at: usize) -> Result<(), String> {
        loop {
            let process = &mut self.processes[rank as usize];
            let (number, round, is_over) = process.begun[at];
            if is_over {
                return Ok(());
            }
            let Some(decision) = process.agreements.decision(number, round).cloned() else { return Ok(()) };
            self.check_decision(rank, number, round, &decision)?;
            let process = &mut self.processes[rank as usize];
            let is_last = match self.program.operations[at] {
                Operation::Agree => true,
                Operation::Shrink => round % 2 == 1 && decision.lowest == 1,
            };
            if !is_last {
                process.begun[at].1 = round + 1;
                self.vote(rank, number, round + 1);
                continue;
            }
            process.begun[at].2 = true;
            process.agreements.finish(number);
            let living = (0..self.program.ranks).filter(|other| !decision.failed.contains(*other));
            process.groups.insert(at, Ranks::of(living));
            self.played.ended_ns = self.played.ended_ns.max(process.busy_until.max(self.now));
            self.pause(rank);
            return Ok(());
        }
    }

    fn check_decision(&mut self, rank: u32, number: u32, round: u32, decision: &Vote) -> Result<(), String> {
        let name = format!("agreement {number}, round {round}");
        if let Some(alive) = decision.failed.iter().find(|failed| self.processes[*failed as usize].lives) {
            return Err(format!("{name}: {alive} counts as failed, and lives"));
        }
        let mut missing = u32::MAX;
        for other in 0..self.program.ranks {
            missing &= if self.processes[other as usize].lives { self.flags(other, number, round) } else { u32::MAX };
        }
        if decision.flags & !missing != 0 {
            return Err(format!(
                "{name}: the votes of all that live have {missing:#x}, the decision {:#x}",
                decision.flags
            ));
        }
        self.played.rounds += 1;
        self.decided.entry((number, round)).or_default().push((rank, decision.clone()));
        Ok(())
    }

    fn check_end(&self) -> Result<(), String> {
        let Program { operations, .. } = self.program;
        for ((number, round), decisions) in &self.decided {
            // A process that has died since may have had another decision: nobody knows of it any more.
            let mut living = decisions.iter().filter(|(rank, _)| self.processes[*rank as usize].lives);
            let Some((first, decision)) = living.next() else { continue };
            if let Some((rank, other)) = living.find(|(_, other)| other != decision) {
                return Err(format!(
                    "agreement {number}, round {round}: {first} has {decision:?}, and {rank} has {other:?}"
                ));
            }
        }
        let mut groups: BTreeMap<usize, &Ranks> = BTreeMap::new();
        for (rank, process) in self.processes.iter().enumerate().filter(|(_, process)| process.lives) {
            let returned = process.begun.iter().filter(|(_, _, is_over)| *is_over).count();
            if returned < operations.len() {
                return Err(format!("{rank} waits for ever in operation {returned} of {}", operations.len()));
            }
            for (at, group) in &process.groups {
                if *groups.entry(*at).or_insert(group) != group {
                    return Err(format!("{rank} has another group than others of operation {at}"));
                }
                if !group.contains(rank as u32) {
                    return Err(format!("{rank} lives and is not in its own group"));
                }
            }
            let kept = process.agreements.kept();
            if kept > KEPT_MAX || (self.program.under_way_max == 1 && kept > self.rounds_of_last()) {
                return Err(format!("{rank} keeps {kept} rounds"));
            }
        }
        Ok(())
    }

    /// The most rounds that may still be asked for when one operation after the other has ended: those of the
    /// last one and of the one before.
    fn rounds_of_last(&self) -> usize {
        let last = self.program.operations.len() as u32;
        self.decided.keys().filter(|(number, _)| number + 2 >= last).count()
    }
}
