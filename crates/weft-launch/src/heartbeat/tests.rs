//! Expect: in whole rings with lost datagrams, hosts that are stopped for less than the limit, deaths and
//! cuts, exactly those hosts are excluded that are gone, and in time.

use super::beat::{Beat, Kind};
use super::{Act, Member, Pace, Ring, Ruling};
use crate::control::FromMember;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weft_random::Random;

const LIMIT: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(10);
/// The ring has formed, and every host has heard the one before it.
const FORMED: u32 = 50;
const SEEDS: u64 = 400;

/// Something that happens to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is gone: no power.
    Dies,
    /// Its agent speaks with `mpiexec` only: the network of the ranks is cut, together with all other hosts
    /// that have the same number.
    Cut { side: u32 },
    /// It does nothing for so many ticks.
    Stops { ticks: u32 },
}

/// A message on its way.
struct Flying<T> {
    at: u32,
    to: u32,
    content: T,
}

/// All hosts, the network and `mpiexec`.
struct World {
    random: Random,
    tick: u32,
    members: BTreeMap<u32, Member>,
    ring: Ring,
    /// Datagrams, each with its sender.
    datagrams: Vec<Flying<(u32, Beat)>>,
    orders: Vec<Flying<Ruling>>,
    reports: Vec<Flying<FromMember>>,
    dead: BTreeSet<u32>,
    sides: BTreeMap<u32, u32>,
    /// The tick at which a host, or `mpiexec` (`u32::MAX`), goes on.
    stopped_until: BTreeMap<u32, u32>,
    lost: BTreeMap<u32, u32>,
    /// The tick of the last heartbeat of each host that was not lost on its way.
    sent_at: BTreeMap<u32, u32>,
    deaf: Vec<(u32, u32)>,
    /// Datagrams from the first to the second never arrive.
    blocked: Option<(u32, u32)>,
    loss_per_million: u32,
}

/// The number under which `mpiexec` is stopped.
const MPIEXEC: u32 = u32::MAX;

impl World {
    fn new(seed: u64, hosts: u32, home: Option<u32>) -> Self {
        let pace = Pace::new(LIMIT);
        let numbers: Vec<u32> = (0..hosts).collect();
        let (ring, places) = Ring::new(pace, &numbers, home, Duration::ZERO);
        let mut world = Self {
            random: Random::new(seed),
            tick: 0,
            members: numbers.iter().map(|&number| (number, Member::new(number, pace, Duration::ZERO))).collect(),
            ring,
            datagrams: Vec::new(),
            orders: Vec::new(),
            reports: Vec::new(),
            dead: BTreeSet::new(),
            sides: BTreeMap::new(),
            stopped_until: BTreeMap::new(),
            lost: BTreeMap::new(),
            sent_at: BTreeMap::new(),
            deaf: Vec::new(),
            blocked: None,
            loss_per_million: 0,
        };
        world.obey(places);
        world
    }

    fn now(&self) -> Duration {
        TICK * self.tick
    }

    fn is_stopped(&self, who: u32) -> bool {
        self.stopped_until.get(&who).is_some_and(|&until| self.tick < until)
    }

    fn happen(&mut self, host: u32, fault: Fault) {
        match fault {
            Fault::Dies => drop(self.dead.insert(host)),
            Fault::Cut { side } => drop(self.sides.insert(host, side)),
            Fault::Stops { ticks } => drop(self.stopped_until.insert(host, self.tick + ticks)),
        }
    }

    /// Sends what `mpiexec` has decided. A host that is lost is told, and ends.
    fn obey(&mut self, rulings: Vec<Ruling>) {
        for ruling in rulings {
            match ruling {
                Ruling::Place { member, .. } | Ruling::Ask { member, .. } => {
                    let at = self.tick + self.random.between(0, 2) as u32;
                    push_behind(&mut self.orders, Flying { at, to: member, content: ruling });
                }
                Ruling::Lost { member } => {
                    assert!(self.lost.insert(member, self.tick).is_none(), "{member} is lost twice");
                    self.dead.insert(member);
                }
                Ruling::Deaf { by, of } => self.deaf.push((by, of)),
            }
        }
    }

    fn act(&mut self, from: u32, acts: impl IntoIterator<Item = Act>) {
        for act in acts {
            match act {
                Act::Send { to, beat } => {
                    let is_cut = self.sides.get(&from) != self.sides.get(&to) || self.blocked == Some((from, to));
                    if !is_cut && !self.random.chance(self.loss_per_million) {
                        if beat.kind == Kind::Alive {
                            self.sent_at.insert(from, self.tick);
                        }
                        let at = self.tick + self.random.between(0, 2) as u32;
                        self.datagrams.push(Flying { at, to, content: (from, beat) });
                    }
                }
                Act::Report(word) => {
                    let at = self.tick + self.random.between(0, 2) as u32;
                    push_behind(&mut self.reports, Flying { at, to: from, content: word });
                }
            }
        }
    }

    /// Lets a hundredth of the limit pass.
    fn step(&mut self) {
        self.tick += 1;
        let now = self.now();
        let hosts: Vec<u32> = self.members.keys().copied().collect();
        for host in hosts {
            if self.dead.contains(&host) || self.is_stopped(host) {
                continue;
            }
            for Flying { content, .. } in take(&mut self.orders, self.tick, host) {
                let member = self.members.get_mut(&host).expect("a host");
                match content {
                    Ruling::Place { next, watched, is_audible, .. } => {
                        member.take_place(now, next, watched, is_audible)
                    }
                    Ruling::Ask { round, anchor, .. } => {
                        let word = member.ask(now, round, anchor);
                        self.act(host, [Act::Report(word)]);
                    }
                    _ => unreachable!("other rulings are no orders"),
                }
            }
            for Flying { content: (_, beat), .. } in take(&mut self.datagrams, self.tick, host) {
                let answer = self.members.get_mut(&host).expect("a host").handle_beat(now, beat);
                self.act(host, answer);
            }
            let acts = self.members.get_mut(&host).expect("a host").poll(now);
            self.act(host, acts);
        }
        if self.is_stopped(MPIEXEC) {
            return;
        }
        let tick = self.tick;
        let (arrived, flying) = std::mem::take(&mut self.reports).into_iter().partition(|report| report.at <= tick);
        self.reports = flying;
        let arrived: Vec<Flying<FromMember>> = arrived;
        for Flying { to: from, content, .. } in arrived {
            match content {
                FromMember::Audible => self.ring.handle_audible(from),
                FromMember::Silent { member } => {
                    let rulings = self.ring.handle_silence(now, from, member);
                    self.obey(rulings);
                }
                FromMember::Asking { round } => self.ring.handle_asking(now, from, round),
                FromMember::Heard { round } => self.ring.handle_heard(now, from, round),
                _ => {}
            }
        }
        let rulings = self.ring.poll(now);
        self.obey(rulings);
    }

    fn run(&mut self, ticks: u32) {
        for _ in 0..ticks {
            self.step();
        }
    }
}

/// Sends a message on a channel, where messages of a host arrive in order.
fn push_behind<T>(flying: &mut Vec<Flying<T>>, message: Flying<T>) {
    let before = flying.iter().filter(|other| other.to == message.to).map(|other| other.at).max();
    flying.push(Flying { at: message.at.max(before.unwrap_or(0)), ..message });
}

/// Takes the messages that have arrived at a host.
fn take<T>(flying: &mut Vec<Flying<T>>, tick: u32, to: u32) -> Vec<Flying<T>> {
    let mut arrived = Vec::new();
    let mut index = 0;
    while index < flying.len() {
        if flying[index].to == to && flying[index].at <= tick {
            arrived.push(flying.remove(index));
        } else {
            index += 1;
        }
    }
    arrived
}

/// The limit in ticks.
const LIMIT_TICKS: u32 = 100;

#[test]
fn a_host_that_dies_is_lost_after_the_limit_and_soon() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let hosts = random.between(2, 9) as u32;
        let home = random.chance(500_000).then_some(0);
        let victim = random.between(1, u64::from(hosts) - 1) as u32;
        let fault = random.pick(&[Fault::Dies, Fault::Cut { side: 1 }]);
        let mut world = World::new(seed, hosts, home);
        world.run(FORMED + random.below(50) as u32);
        let at = world.tick;
        world.happen(victim, fault);
        world.run(2 * LIMIT_TICKS);
        // Without a host of mpiexec, either of two hosts that are cut apart may be the one.
        let may_be_other = hosts == 2 && home.is_none() && fault != Fault::Dies;
        let lost: Vec<u32> = world.lost.keys().copied().collect();
        assert!(lost == [victim] || (may_be_other && lost.len() == 1), "seed {seed}: {lost:?} for {victim}");
        let after = world.lost[&lost[0]] - at;
        assert!((LIMIT_TICKS..=LIMIT_TICKS * 3 / 2).contains(&after), "seed {seed}: after {after} ticks");
    }
}

#[test]
fn the_host_of_mpiexec_is_lost_when_it_is_the_one_that_is_cut_off() {
    let mut world = World::new(1, 4, Some(0));
    world.run(FORMED);
    world.happen(0, Fault::Cut { side: 1 });
    world.run(2 * LIMIT_TICKS);
    assert_eq!(world.lost.keys().copied().collect::<Vec<_>>(), [0]);
    // Of two hosts that do not hear each other, that of mpiexec goes on.
    let mut world = World::new(1, 2, Some(1));
    world.run(FORMED);
    world.happen(1, Fault::Cut { side: 1 });
    world.run(2 * LIMIT_TICKS);
    assert_eq!(world.lost.keys().copied().collect::<Vec<_>>(), [0]);
}

#[test]
fn of_two_sides_of_a_cut_the_larger_goes_on_whole() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let hosts = random.between(3, 9) as u32;
        let mut world = World::new(seed, hosts, random.chance(500_000).then_some(0));
        world.run(FORMED);
        let smaller = random.between(1, u64::from(hosts - 1) / 2) as u32;
        let mut cut = BTreeSet::new();
        while cut.len() < smaller as usize {
            cut.insert(random.below(u64::from(hosts)) as u32);
        }
        cut.iter().for_each(|&host| world.happen(host, Fault::Cut { side: 1 }));
        world.run(5 * LIMIT_TICKS);
        assert_eq!(world.lost.keys().copied().collect::<BTreeSet<_>>(), cut, "seed {seed}, {hosts} hosts");
    }
}

#[test]
fn many_faults_at_once_exclude_exactly_those_that_are_gone() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let hosts = random.between(2, 9) as u32;
        let mut world = World::new(seed, hosts, random.chance(500_000).then_some(0));
        world.loss_per_million = random.below(100_000) as u32;
        world.run(FORMED + LIMIT_TICKS);
        // At least one host lives, and the others die at any time within three limits.
        let mut deaths: Vec<(u32, u32)> = Vec::new();
        for host in 0..hosts {
            if random.chance(400_000) && deaths.len() + 1 < hosts as usize {
                deaths.push((world.tick + random.below(3 * u64::from(LIMIT_TICKS)) as u32, host));
            }
        }
        let end = world.tick + 10 * LIMIT_TICKS;
        while world.tick < end {
            for (at, host) in deaths.clone() {
                if at == world.tick {
                    world.happen(host, Fault::Dies);
                }
            }
            let who = random.below(u64::from(hosts) + 1) as u32;
            let who = if who == hosts { MPIEXEC } else { who };
            // A host goes on for a while before it is stopped again.
            let rested = world.stopped_until.get(&who).is_none_or(|&until| world.tick > until + LIMIT_TICKS / 2);
            if rested && random.chance(20_000) {
                let ticks = random.between(1, u64::from(LIMIT_TICKS) - 1) as u32;
                world.happen(who, Fault::Stops { ticks });
            }
            world.step();
        }
        world.run(5 * LIMIT_TICKS);
        let gone: BTreeSet<u32> = deaths.iter().map(|(_, host)| *host).collect();
        let lost: BTreeSet<u32> = world.lost.keys().copied().collect();
        assert_eq!(lost, gone, "seed {seed}, {hosts} hosts");
        assert!(world.deaf.is_empty(), "seed {seed}");
        for (host, at) in world.lost {
            assert!(at >= world.sent_at[&host] + LIMIT_TICKS, "seed {seed}: {host} is lost too early");
        }
    }
}

#[test]
fn a_host_that_was_stopped_for_longer_is_lost() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, 3, Some(0));
        world.run(FORMED);
        world.happen(1, Fault::Stops { ticks: LIMIT_TICKS * 3 / 2 });
        world.run(2 * LIMIT_TICKS);
        assert_eq!(world.lost.keys().copied().collect::<Vec<_>>(), [1], "seed {seed}");
    }
}

#[test]
fn hosts_between_which_only_one_way_is_blocked_are_named_and_stay() {
    let mut world = World::new(1, 4, Some(0));
    world.run(FORMED);
    world.blocked = Some((1, 2));
    world.run(10 * LIMIT_TICKS);
    assert_eq!((world.lost.len(), &world.deaf[..]), (0, &[(2, 1)][..]));
    // A death is still noticed by the others.
    world.happen(3, Fault::Dies);
    world.run(2 * LIMIT_TICKS);
    assert_eq!(world.lost.keys().copied().collect::<Vec<_>>(), [3]);
}

#[test]
fn where_no_datagram_comes_through_nobody_is_excluded() {
    let mut world = World::new(1, 4, Some(0));
    world.loss_per_million = 1_000_000;
    world.run(3 * LIMIT_TICKS);
    let rulings = world.ring.remove(world.now(), 2);
    world.obey(rulings);
    world.run(5 * LIMIT_TICKS);
    assert!(world.lost.is_empty());
}

#[test]
fn hosts_that_leave_are_missed_by_nobody() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let hosts = random.between(2, 9) as u32;
        let mut world = World::new(seed, hosts, Some(0));
        world.run(FORMED);
        let mut left: Vec<u32> = (0..hosts).collect();
        while left.len() > 1 {
            let host = left.swap_remove(random.below(left.len() as u64) as usize);
            world.happen(host, Fault::Dies);
            world.run(random.below(60) as u32);
            let rulings = world.ring.remove(world.now(), host);
            world.obey(rulings);
            world.run(random.below(120) as u32);
        }
        world.run(2 * LIMIT_TICKS);
        assert!(world.lost.is_empty(), "seed {seed}: {:?}", world.lost);
    }
}
