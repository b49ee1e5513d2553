//! The state machines of a group of any size on a simulated network: broadcasts one by one and back to back,
//! under loss and with receivers that come late.
//!
//! Each host does one thing at a time, at the costs of a [`Testbed`]. A packet to the group takes the
//! sender's processor and link once. The simulation has what `model` leaves out: acknowledgements that delay
//! data, windows that fill, repairs.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::model::Testbed;
use super::wire;
use super::{Destination, Receiver, Scheme, Sender, Settings, StreamId};
use crate::time::{Duration, Instant};
use crate::wire::Secret;

const STREAM: StreamId = StreamId { context: 1, first: 0, generation: 0, root: 0 };
const WINDOW: u32 = 256;

/// The case that is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Simulation {
    /// Hosts and network.
    pub testbed: Testbed,
    /// The acknowledgement scheme.
    pub scheme: Scheme,
    /// Number of ranks, one on each host.
    pub ranks: u32,
    /// Bytes of a message.
    pub bytes: u64,
    /// Packets that each receiver loses on its own, of a million.
    pub loss: u32,
    /// Receivers come late by 0 to twice this many nanoseconds; before that they do nothing at all.
    pub skew_ns: u64,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// The results: means over the broadcasts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Time from the root's beginning until the last receiver has the message, nanoseconds.
    pub latency_ns: u64,
    /// Time until the root's call ends, nanoseconds.
    pub root_ns: u64,
    /// Data packets that the root has multicast, in all.
    pub packets: u64,
    /// Packets sent again, in all.
    pub repairs: u64,
}

/// Time, order among events at one time, host, and event.
type Event = (u64, u64, u32, What);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrives(Rc<[u8]>),
    /// A timeout is due.
    Alarm,
    /// The processor is free for the packets that have arrived meanwhile.
    Free,
}

struct Host {
    /// The time at which its processor is free.
    free: u64,
    /// The time at which it next looks although nothing arrives.
    alarm: u64,
    /// The time before which it does nothing.
    away: u64,
    /// The packets that have arrived and wait for the processor.
    inbox: VecDeque<Rc<[u8]>>,
    /// Bytes that have arrived in order.
    delivered: u64,
}

struct World<'a> {
    of: &'a Simulation,
    now: u64,
    root: Sender,
    others: Vec<Receiver>,
    hosts: Vec<Host>,
    events: BinaryHeap<Reverse<Event>>,
    serial: u64,
    random: u64,
    /// Receivers that have less than `goal` bytes, and the time at which the last of the others had them.
    behind: u32,
    goal: u64,
    reached: u64,
}

impl Simulation {
    /// Runs `count` broadcasts, each when nothing is left of the one before.
    ///
    /// # Panics
    /// When a host waits for ever.
    pub fn one_by_one(&self, count: u32) -> Outcome {
        let mut world = World::new(self);
        let mut sum = Outcome::default();
        for _ in 0..count {
            world.settle();
            world.come_late();
            let begun = world.now;
            let number = world.submit();
            let mut returned = world.hosts[0].free;
            if self.scheme.blocking {
                while world.root.acknowledged() <= number {
                    world.step();
                }
                returned = world.hosts[0].free.max(world.now);
            }
            world.arrive();
            sum.latency_ns += world.reached - begun;
            sum.root_ns += returned - begun;
        }
        world.settle();
        world.count(&mut sum);
        Outcome { latency_ns: sum.latency_ns / u64::from(count), root_ns: sum.root_ns / u64::from(count), ..sum }
    }

    /// Runs `count` broadcasts, each as soon as the one before lets the root go. `latency_ns` and `root_ns`
    /// are both the time from one broadcast to the next.
    ///
    /// # Panics
    /// When a host waits for ever.
    pub fn back_to_back(&self, count: u32) -> Outcome {
        let mut world = World::new(self);
        let begun = world.now;
        for _ in 0..count {
            let number = world.submit();
            while self.scheme.blocking && world.root.acknowledged() <= number {
                world.step();
            }
            // Packets that have come by then come first, as in a pass of the engine.
            world.until(world.hosts[0].free);
        }
        world.arrive();
        let mut outcome = Outcome::default();
        world.count(&mut outcome);
        let each = (world.reached - begun) / u64::from(count);
        Outcome { latency_ns: each, root_ns: each, ..outcome }
    }

    /// The time of the same message by a binomial tree of messages on the same network, until the last rank
    /// has it.
    pub fn tree_ns(&self) -> u64 {
        let [send, wire, receive] = self.testbed.costs(self.bytes);
        let mut has = vec![0; self.ranks as usize];
        let mut last = 0;
        // Each rank comes after the rank that it gets the message from.
        for rank in 0..self.ranks {
            let lowest = if rank == 0 { self.ranks.next_power_of_two() } else { 1 << rank.trailing_zeros() };
            let mut free = has[rank as usize];
            let mut distance = lowest / 2;
            while distance > 0 {
                if let Some(child) = has.get_mut((rank + distance) as usize) {
                    free += send;
                    *child = free + wire + self.testbed.way_ns + receive;
                    last = last.max(*child);
                }
                distance /= 2;
            }
        }
        last
    }
}

impl<'a> World<'a> {
    fn new(of: &'a Simulation) -> Self {
        let secret = Secret::new([1; 16]);
        let settings = Settings {
            members: of.ranks,
            packet_size: of.testbed.packet_bytes,
            window: WINDOW,
            scheme: of.scheme,
            peer_timeout: Duration(0),
        };
        let host = |_| Host { free: 0, alarm: u64::MAX, away: 0, inbox: VecDeque::new(), delivered: 0 };
        Self {
            of,
            now: 1,
            root: Sender::new(settings, STREAM, 0, &secret),
            others: (1..of.ranks).map(|member| Receiver::new(settings, STREAM, 0, member, &secret)).collect(),
            hosts: (0..of.ranks).map(host).collect(),
            events: BinaryHeap::new(),
            serial: 0,
            random: of.seed | 1,
            behind: 0,
            goal: 0,
            reached: 0,
        }
    }

    /// A number below `bound` (xorshift64*).
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound.max(1)
    }

    fn count(&self, outcome: &mut Outcome) {
        outcome.packets = self.root.counters().packets;
        let machines = self.others.iter().map(Receiver::counters).chain([self.root.counters()]);
        outcome.repairs = machines.map(|one| one.repairs_by_multicast + one.repairs_by_unicast).sum();
    }

    fn come_late(&mut self) {
        for host in 1..self.hosts.len() {
            self.hosts[host].away = self.now + self.below(2 * self.of.skew_ns);
        }
    }

    /// Hands over a message at the root, and lets the packets leave for which the window has room. Returns
    /// the number of the last packet.
    fn submit(&mut self) -> u64 {
        let (bytes, mut left) = (self.of.bytes, self.of.bytes);
        (self.behind, self.goal) = (self.of.ranks - 1, self.goal + bytes.max(1));
        loop {
            let room = self.root.room().map_or(0, |room| room as u64);
            let length = left.min(room) as usize;
            // A message of no bytes is one byte here, so that it can be seen to arrive.
            let submitted = self.root.submit(length.max(usize::from(bytes == 0)), |out| out.fill(0));
            match submitted.filter(|_| room > 0) {
                Some(number) => {
                    left -= length as u64;
                    if left == 0 {
                        self.root.end_broadcast();
                        self.transmit(0);
                        return number;
                    }
                    self.transmit(0);
                }
                None => self.step(),
            }
        }
    }

    /// Runs until all hosts have all messages that were submitted.
    fn arrive(&mut self) {
        while self.behind > 0 {
            self.step();
        }
    }

    fn settle(&mut self) {
        while !(self.root.is_idle() && self.others.iter().all(Receiver::is_idle)) {
            self.step();
        }
        self.now = self.hosts.iter().map(|host| host.free.max(host.away)).max().unwrap_or(0).max(self.now);
    }

    fn until(&mut self, time: u64) {
        while self.events.peek().is_some_and(|Reverse((at, ..))| *at <= time) {
            self.step();
        }
        self.now = self.now.max(time);
    }

    fn push(&mut self, at: u64, host: u32, what: What) {
        self.serial += 1;
        self.events.push(Reverse((at, self.serial, host, what)));
    }

    /// Runs the next event.
    fn step(&mut self) {
        let Some(Reverse((at, _, member, what))) = self.events.pop() else { panic!("somebody waits for ever") };
        self.now = self.now.max(at);
        let host = &mut self.hosts[member as usize];
        let ready = host.free.max(host.away);
        match what {
            What::Arrives(packet) => {
                let is_first = host.inbox.is_empty();
                host.inbox.push_back(packet);
                if is_first {
                    self.push(ready.max(at), member, What::Free);
                }
                return;
            }
            What::Alarm if host.alarm > at => return,
            What::Free | What::Alarm if ready > at => return self.push(ready, member, what),
            What::Alarm => host.alarm = u64::MAX,
            What::Free => {
                if let Some(packet) = host.inbox.pop_front() {
                    self.handle(member, at, &packet);
                }
            }
        }
        self.transmit(member);
        let host = &self.hosts[member as usize];
        if what == What::Free && !host.inbox.is_empty() {
            self.push(host.free, member, What::Free);
        }
    }

    fn handle(&mut self, member: u32, at: u64, packet: &[u8]) {
        let testbed = &self.of.testbed;
        let cost =
            if wire::is_data(packet) { testbed.costs(packet.len() as u64)[2] } else { testbed.acknowledgement_ns };
        let host = &mut self.hosts[member as usize];
        host.free = at + cost;
        let (free, goal) = (Instant(host.free), self.goal);
        let Some(receiver) = (member as usize).checked_sub(1).map(|at| &mut self.others[at]) else {
            return self.root.handle(free, packet);
        };
        let before = host.delivered;
        receiver.handle(free, packet, &mut |frame| host.delivered += frame.len() as u64);
        if before < goal && host.delivered >= goal {
            self.behind -= 1;
            self.reached = self.reached.max(host.free);
        }
    }

    /// Sends all packets of a host that are due, one after the other.
    fn transmit(&mut self, member: u32) {
        let mut out = Vec::new();
        loop {
            let free = self.hosts[member as usize].free.max(self.now);
            let next = match (member as usize).checked_sub(1) {
                None => self.root.poll(Instant(free), &mut out),
                Some(at) => self.others[at].poll(Instant(free), &mut out),
            };
            let Some(to) = next else { break };
            let [send, wire, _] = self.of.testbed.costs(out.len() as u64);
            let cost = if wire::is_data(&out) { send } else { self.of.testbed.acknowledgement_ns };
            self.hosts[member as usize].free = free + cost;
            let arrives = free + cost + wire + self.of.testbed.way_ns;
            let packet: Rc<[u8]> = out.as_slice().into();
            match to {
                Destination::Member(to) => self.carry(arrives, to, &packet),
                Destination::Group => {
                    (0..self.of.ranks).filter(|to| *to != member).for_each(|to| self.carry(arrives, to, &packet));
                }
            }
        }
        let timeout = match (member as usize).checked_sub(1) {
            None => self.root.next_timeout(),
            Some(at) => self.others[at].next_timeout(),
        };
        let host = &mut self.hosts[member as usize];
        if let Some(Instant(at)) = timeout {
            let at = at.max(host.free).max(self.now + 1);
            if at < host.alarm {
                host.alarm = at;
                self.push(at, member, What::Alarm);
            }
        }
    }

    fn carry(&mut self, at: u64, to: u32, packet: &Rc<[u8]>) {
        if self.below(1_000_000) >= u64::from(self.of.loss) {
            self.push(at, to, What::Arrives(Rc::clone(packet)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulation(ranks: u32, bytes: u64, scheme: Scheme) -> Simulation {
        let testbed = Testbed::PAPER;
        Simulation { testbed, scheme, ranks, bytes, loss: 0, skew_ns: 0, seed: 7 }
    }

    fn auto(ranks: u32, bytes: u64) -> Simulation {
        simulation(ranks, bytes, Scheme::for_members(ranks))
    }

    #[test]
    fn at_1024_and_4096_ranks_the_bars_of_the_paper_are_met() {
        for ranks in [1024, 4096] {
            for (bytes, bar) in [(4, 20_000), (1836, 40_000)] {
                let run = auto(ranks, bytes);
                let Outcome { latency_ns, packets, repairs, .. } = run.one_by_one(3);
                assert!(latency_ns < bar, "{ranks} ranks, {bytes} B: {latency_ns} ns");
                let tree = run.tree_ns();
                assert!(tree * 100 >= 486 * latency_ns, "{ranks} ranks, {bytes} B: {latency_ns} beside {tree} ns");
                assert_eq!(packets, 3, "the root sends one packet to however many");
                // A packet that asks for no answer leaves a second time when no other packet follows.
                assert!(repairs <= 3, "{repairs}");
            }
        }
    }

    #[test]
    fn from_8_to_64_ranks_latency_hardly_grows() {
        for bytes in [4, 1836, 65536] {
            let [few, many] = [8, 64].map(|ranks| auto(ranks, bytes).one_by_one(5).latency_ns);
            assert!(many * 10 < few * 12, "{bytes} B: {few} and {many} ns");
        }
    }

    #[test]
    fn formulas_and_state_machines_agree() {
        for bytes in [4, 1836, 1 << 16] {
            let run = auto(64, bytes);
            let (model, found) = (run.testbed.multicast_ns(bytes), run.one_by_one(5).latency_ns);
            assert!(found.abs_diff(model) < model / 4, "{bytes} B: {model} and {found} ns");
            let (model, found) = (run.testbed.tree_ns(64, bytes), run.tree_ns());
            assert!(found.abs_diff(model) < model / 4, "{bytes} B by tree: {model} and {found} ns");
        }
        // The time for which the root waits in the simplest scheme.
        let run = simulation(64, 4, Scheme::BASIC);
        let (model, found) = (run.testbed.known_ns(64, 4, run.scheme), run.one_by_one(5).root_ns);
        assert!(found.abs_diff(model) < model / 4, "{model} and {found} ns");
    }

    #[test]
    fn receivers_that_come_late_do_not_hold_the_root() {
        for (scheme, holds) in [(Scheme::BASIC, true), (Scheme::WINDOW, false), (Scheme::for_members(64), false)] {
            let even = simulation(64, 4, scheme);
            let late = Simulation { skew_ns: 100_000, ..even };
            let [even, late] = [even, late].map(|run| run.one_by_one(20).root_ns);
            // At most 1.2 times as long.
            assert_eq!(late * 10 > even * 12, holds, "{scheme}: {even} and {late} ns");
        }
    }

    #[test]
    fn a_thousand_receivers_that_lose_packets_have_all_in_the_end() {
        for scheme in [Scheme::WINDOW, Scheme::for_members(1024)] {
            let run = Simulation { loss: 10_000, ..simulation(1024, 1836, scheme) };
            let outcome = run.back_to_back(30);
            assert!(outcome.repairs > 0, "{scheme}: {outcome:?}");
        }
    }

    #[test]
    fn back_to_back_co_roots_and_aggregation_relieve_the_root() {
        // Each fills a packet: small ones would share packets while the root is busy with acknowledgements.
        let period = |scheme| simulation(256, 1836, scheme).back_to_back(200).latency_ns;
        let coroot = Scheme { co_roots: 16, ..Scheme::WINDOW };
        let [basic, window, coroot, both] =
            [Scheme::BASIC, Scheme::WINDOW, coroot, Scheme { aggregate: 10, ..coroot }].map(period);
        assert!(basic > window && window > 2 * coroot && coroot > both, "{basic}, {window}, {coroot}, {both} ns");
    }
}
