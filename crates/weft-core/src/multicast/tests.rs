//! Groups on a network whose faults each test chooses for each receiver. Larger groups and combinations of
//! faults are left to weft-sim.

use super::wire::{Body, Packet};
use super::*;
use crate::placement::RemoteMemory;
use alloc::collections::BinaryHeap;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use proptest::prelude::*;
use weft_random::Random;

const STREAM: StreamId = StreamId { context: 5, first: 2, generation: 77, root: 0 };

fn secret() -> Secret {
    Secret::new([3; 16])
}

fn settings(members: u32, scheme: Scheme) -> Settings {
    Settings { members, packet_size: 304, window: 64, scheme, peer_timeout: Duration::from_secs(2) }
}

/// The faults of a network; chances are in 1000.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    loss: u64,
    duplication: u64,
    reordering: u64,
    /// Packets to the group reach no member.
    filtered: bool,
    /// The paths of these members carry no packets of more bytes: odd members' paths, or all.
    mtu: Option<(bool, usize)>,
    /// A member that does not run before a time.
    paused: Option<(u32, Duration)>,
    /// A member that runs no more from a time on.
    dead: Option<(u32, Duration)>,
}

struct Group {
    now: Instant,
    root: Sender,
    others: Vec<Receiver>,
    delivered: Vec<Vec<Vec<u8>>>,
    faults: Faults,
    random: Random,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    sent: u64,
    to_group: u64,
    /// The packets that are never delivered: the member, and the ordinal of the packet to the group.
    lose: Vec<(usize, u64)>,
    /// The time that a packet takes.
    path: Duration,
    /// The slots in the root's memory, and the writes on their way there: time, member, word.
    slots: Vec<u64>,
    writes: Vec<(Instant, usize, u64)>,
    /// A write has arrived.
    moved: bool,
    /// The interval at which the root looks while it waits without sleep.
    looks: Option<Duration>,
}

/// Time, order among arrivals at one time, member, and packet.
type Arrival = (u64, u64, usize, Vec<u8>);

const SLOTS: RemoteMemory = RemoteMemory { key: 77, address: 4096 };
const PATH: Duration = Duration::from_micros(20);

impl Group {
    fn new(settings: Settings, faults: Faults, seed: u64) -> Self {
        let others: Vec<_> =
            (1..settings.members).map(|member| Receiver::new(settings, STREAM, 0, member, &secret())).collect();
        Self {
            now: Instant(1),
            root: Sender::new(settings, STREAM, 0, &secret()),
            delivered: vec![Vec::new(); others.len()],
            others,
            faults,
            random: Random::new(seed),
            arrivals: BinaryHeap::new(),
            sent: 0,
            to_group: 0,
            lose: Vec::new(),
            path: PATH,
            slots: vec![0; settings.members as usize],
            writes: Vec::new(),
            moved: false,
            looks: None,
        }
        .with_slots(settings.scheme.written)
    }

    fn with_slots(mut self, has_slots: bool) -> Self {
        if has_slots {
            self.root.open_slots(SLOTS);
        }
        self
    }

    /// Carries the members' writes to the root, which finds a written word only when it looks.
    fn move_slots(&mut self) {
        for (at, other) in self.others.iter_mut().enumerate() {
            let is_dead = self.faults.dead.is_some_and(|(who, from)| who as usize == at + 1 && self.now.0 >= from.0);
            if let Some((RemoteMemory { key, address }, word)) = other.to_write().filter(|_| !is_dead) {
                assert_eq!((key, address), (SLOTS.key, SLOTS.address + SLOT_BYTES * (at as u64 + 1)));
                self.writes.push((self.now + self.path, at + 1, word));
                other.begun();
                self.moved = true;
            }
        }
        let before = self.root.acknowledged();
        for (_, member, word) in self.writes.extract_if(.., |(at, ..)| *at <= self.now) {
            self.slots[member] = word;
        }
        for (member, word) in (0..).zip(&self.slots) {
            self.root.handle_written(self.now, member, *word);
        }
        self.moved |= self.root.acknowledged() != before;
    }

    fn carry(&mut self, to: usize, bytes: &[u8]) {
        let is_too_long = |(all, mtu)| (all || to % 2 == 1) && bytes.len() > mtu;
        if self.random.below(1000) < self.faults.loss || self.faults.mtu.is_some_and(is_too_long) {
            return;
        }
        let copies = 1 + u64::from(self.random.below(1000) < self.faults.duplication);
        for _ in 0..copies {
            let late = if self.random.below(1000) < self.faults.reordering { self.random.below(200_000) } else { 0 };
            self.sent += 1;
            self.arrivals.push(Reverse((self.now.0 + self.path.0 + late, self.sent, to, bytes.to_vec())));
        }
    }

    fn send(&mut self, from: usize, to: Destination, bytes: &[u8]) {
        match to {
            Destination::Member(to) => self.carry(to as usize, bytes),
            Destination::Group => {
                self.to_group += 1;
                for to in (0..=self.others.len()).filter(|to| *to != from) {
                    if !self.faults.filtered && !self.lose.contains(&(to, self.to_group)) {
                        self.carry(to, bytes);
                    }
                }
            }
        }
    }

    fn runs(&self, member: usize) -> bool {
        let paused = self.faults.paused.is_some_and(|(who, until)| who as usize == member && self.now.0 < until.0);
        let dead = self.faults.dead.is_some_and(|(who, from)| who as usize == member && self.now.0 >= from.0);
        !paused && !dead
    }

    fn poll(&mut self) {
        self.move_slots();
        let mut out = Vec::new();
        for member in 0..=self.others.len() {
            while self.runs(member) {
                let next = match member.checked_sub(1) {
                    None => self.root.poll(self.now, &mut out),
                    Some(at) => self.others[at].poll(self.now, &mut out),
                };
                let Some(to) = next else { break };
                self.send(member, to, &out.clone());
            }
        }
    }

    /// Runs the next event; false when nothing will happen any more.
    fn step(&mut self) -> bool {
        self.step_before(Instant(u64::MAX))
    }

    /// Runs the next event before `limit`; false when there is none, and then the time is `limit`.
    fn step_before(&mut self, limit: Instant) -> bool {
        self.poll();
        let moved = core::mem::take(&mut self.moved);
        let arrival = self.arrivals.peek().map(|Reverse((at, ..))| *at);
        let timeouts = [self.root.next_timeout()].into_iter().chain(self.others.iter().map(Receiver::next_timeout));
        let running = timeouts.enumerate().filter(|(member, _)| self.runs(*member)).filter_map(|(_, at)| at);
        let wakes = self.faults.paused.map(|(_, until)| until.0).filter(|until| *until > self.now.0);
        let looks = self.looks.filter(|_| !self.root.is_idle()).map(|often| (self.now + often).0);
        let Some(next) = running.map(|at| at.0.max(self.now.0 + 1)).chain(arrival).chain(wakes).chain(looks).min()
        else {
            return moved;
        };
        if next >= limit.0 {
            self.now = limit;
            return false;
        }
        self.now = Instant(next.max(self.now.0));
        while self.arrivals.peek().is_some_and(|Reverse((at, ..))| *at <= self.now.0) {
            let Some(Reverse((_, _, to, bytes))) = self.arrivals.pop() else { break };
            // A host that does not run would keep packets as long as its socket has room: here it loses them.
            if !self.runs(to) {
                continue;
            }
            match to.checked_sub(1) {
                None => self.root.handle(self.now, &bytes),
                Some(at) => {
                    let delivered = &mut self.delivered[at];
                    self.others[at].handle(self.now, &bytes, &mut |frame| delivered.push(frame.to_vec()));
                }
            }
        }
        true
    }

    fn is_settled(&self) -> bool {
        self.root.is_idle() && self.others.iter().all(Receiver::is_idle)
    }

    /// Runs until nothing is owed any more.
    fn settle(&mut self) {
        let limit = self.now + Duration::from_secs(60);
        while !self.is_settled() {
            // The last step may be an acknowledgement that is lost, and that the root needs no more.
            assert!(self.step() || self.is_settled(), "somebody waits, and nothing will happen");
            assert!(self.now < limit, "still busy after a minute");
        }
    }

    /// Broadcasts `frames`, as soon as the window has room for each.
    fn broadcast(&mut self, frames: &[Vec<u8>]) {
        let limit = self.now + Duration::from_secs(600);
        for frame in frames {
            while self.root.submit(frame.len(), |room| room.copy_from_slice(frame)).is_none() {
                assert!(self.step() && self.now < limit, "the window stays full");
            }
            self.root.end_broadcast();
            self.poll();
        }
    }

    fn check(&self, frames: &[Vec<u8>]) {
        for (at, delivered) in self.delivered.iter().enumerate() {
            assert!(delivered == frames, "member {}: {} of {} frames", at + 1, delivered.len(), frames.len());
        }
        for other in &self.others {
            assert_eq!(other.counters().rejected, 0);
        }
    }
}

fn frames(count: u32, longest: u64, seed: u64) -> Vec<Vec<u8>> {
    let length = |number: u32| ((u64::from(number) + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % (longest + 1);
    (0..count).map(|number| vec![number as u8; length(number) as usize]).collect()
}

fn schemes() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        Just(Scheme::BASIC),
        Just(Scheme::WINDOW),
        Just(Scheme::WRITTEN),
        (1u32..4).prop_map(|co_roots| Scheme { co_roots, ..Scheme::WINDOW }),
        (2u32..20).prop_map(|aggregate| Scheme { aggregate, ..Scheme::WINDOW }),
        (1u32..4, 2u32..20).prop_map(|(co_roots, aggregate)| Scheme { co_roots, aggregate, ..Scheme::WINDOW }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_frame_arrives_once_and_in_order_whatever_is_lost_repeated_or_reordered(
        scheme in schemes(),
        members in 2u32..12,
        loss in prop_oneof![Just(0u64), Just(1), Just(10), Just(100), Just(300)],
        (duplication, reordering) in (0u64..100, 0u64..200),
        seed in any::<u64>(),
        longest in prop_oneof![Just(0u64), Just(20), Just(266)],
        mtu in prop::option::weighted(0.2, (any::<bool>(), crate::flow::PACKET_SIZE_MIN..304)),
    ) {
        let faults = Faults { loss, duplication, reordering, mtu, ..Faults::default() };
        let mut group = Group::new(settings(members, scheme), faults, seed);
        let frames = frames(400, longest, seed);
        group.broadcast(&frames);
        group.settle();
        group.check(&frames);
    }
}

#[test]
fn the_root_sends_as_many_packets_to_two_receivers_as_to_twenty() {
    let count = |members| {
        let mut group = Group::new(settings(members, Scheme::WINDOW), Faults::default(), 1);
        let frames = frames(50, 266, 1);
        group.broadcast(&frames);
        group.settle();
        group.check(&frames);
        assert_eq!(group.root.counters().repairs_by_unicast + group.root.counters().repairs_by_multicast, 0);
        group.root.counters().packets
    };
    assert_eq!(count(3), count(21));
}

/// The time until all members have 12 packets, the time until the root's call ends, and the number of
/// repaired packets.
fn twelve_packets(scheme: Scheme, lose: &[(usize, u64)]) -> (Duration, Duration, u64) {
    let mut group = Group::new(settings(8, scheme), Faults::default(), 1);
    group.path = Duration::from_micros(100);
    group.looks = scheme.written.then_some(Duration::from_micros(5));
    // Earlier broadcasts make the round trip known.
    for frame in &frames(40, 100, 9) {
        group.broadcast(core::slice::from_ref(frame));
        group.settle();
    }
    group.delivered.iter_mut().for_each(Vec::clear);
    group.lose = lose.iter().map(|(to, number)| (*to, group.to_group + number)).collect();
    let (begin, before) = (group.now, *group.root.counters());
    let frames = vec![vec![7; 266]; 12];
    // One broadcast of 12 packets.
    let submit = |frame: &Vec<u8>| group.root.submit(frame.len(), |room| room.copy_from_slice(frame));
    let last = frames.iter().map(submit).last().flatten().expect("the window has room");
    group.root.end_broadcast();
    let (mut arrived, mut returned) = (None, None);
    while arrived.is_none() || returned.is_none() {
        let has_arrived = group.delivered.iter().all(|delivered| delivered.len() == frames.len());
        arrived = arrived.or_else(|| has_arrived.then(|| group.now.since(begin)));
        let has_returned = !scheme.blocking || group.root.acknowledged() > last;
        returned = returned.or_else(|| has_returned.then(|| group.now.since(begin)));
        assert!(arrived.is_some() && returned.is_some() || group.step());
    }
    group.settle();
    group.check(&frames);
    let after = group.root.counters();
    let repairs = after.repairs_by_multicast + after.repairs_by_unicast;
    let repairs = repairs - before.repairs_by_multicast - before.repairs_by_unicast;
    (arrived.unwrap_or_default(), returned.unwrap_or_default(), repairs)
}

/// Under every scheme, one receiver or co-root, or most of them, lose the first, a middle or the last packet
/// of a broadcast. Expect: the last member has all packets less than two round trips later than without the
/// loss. A root that waits for this hears of it less than two round trips later, too.
#[test]
fn one_lost_packet_costs_less_than_two_round_trips() {
    let round_trip = Duration::from_micros(200);
    let coroot = Scheme { co_roots: 2, ..Scheme::WINDOW };
    let aggregate = Scheme { aggregate: 10, ..Scheme::WINDOW };
    for scheme in
        [Scheme::BASIC, Scheme::WINDOW, Scheme::WRITTEN, coroot, aggregate, Scheme { aggregate: 10, ..coroot }]
    {
        let (arrived, returned, repairs) = twelve_packets(scheme, &[]);
        for lost in [1, 6, 12] {
            for losers in [&[3][..], &[1], &[1, 2, 5, 7]] {
                let lose: Vec<_> = losers.iter().map(|member| (*member, lost)).collect();
                let with = twelve_packets(scheme, &lose);
                let what = format!("{scheme}, packet {lost} of 12 lost by {losers:?}");
                let [later, returns_later] = [with.0.0 - arrived.0, with.1.0 - returned.0];
                assert!(later < 2 * round_trip.0, "{what}: {later} ns later");
                assert!(returns_later < 2 * round_trip.0, "{what}: the root returns {returns_later} ns later");
                assert!(with.2 > repairs || scheme.co_roots > 0, "{what}: nothing was repaired");
            }
        }
    }
}

/// Broadcasts that are apart by more than a question waits, and by less than a pause. Expect: ten of them are
/// acknowledged together, and a packet that is lost is there again all the same before the next broadcast.
#[test]
fn broadcasts_that_are_apart_share_acknowledgements_and_are_repaired_at_once() {
    const COUNT: u32 = 100;
    let apart = Duration::from_micros(300);
    let scheme = Scheme { aggregate: 10, ..Scheme::WINDOW };
    let mut group = Group::new(settings(8, scheme), Faults::default(), 1);
    group.lose = (20..COUNT).map(|number| (number as usize % 7 + 1, u64::from(number))).collect();
    let frames = frames(COUNT, 100, 1);
    for (number, frame) in frames.iter().enumerate() {
        let next = group.now + apart;
        group.broadcast(core::slice::from_ref(frame));
        while group.step_before(next) {}
        group.now = next.max(group.now);
        for (at, delivered) in group.delivered.iter().enumerate() {
            assert_eq!(delivered.len(), number + 1, "member {} has not what was lost", at + 1);
        }
    }
    group.settle();
    group.check(&frames);
    for other in &group.others {
        let answers = other.counters().acknowledgements - other.counters().negative;
        assert!(answers <= u64::from(COUNT / 10 + 8), "{answers} acknowledgements of {COUNT} broadcasts");
    }
}

/// Packets to the group take longer than packets to one member, as when they lie in another socket of a
/// process that does not run. Expect: a question that comes before the packets in question makes no member
/// ask for them.
#[test]
fn a_question_that_overtakes_costs_no_repairs() {
    let mut group = Group::new(settings(4, Scheme::WINDOW), Faults::default(), 1);
    let mut out = Vec::new();
    group.broadcast(&frames(20, 100, 1));
    let receiver = &mut group.others[0];
    let question = Packet { from: 0, request: true, number: FIRST + 20, body: Body::Probe };
    question.emit(&STREAM, &mut out);
    wire::seal(&STREAM.key(&secret()), FIRST + 20, &mut out);
    receiver.handle(group.now, &out.clone(), &mut |_| {});
    group.settle();
    let negative: u64 = group.others.iter().map(|other| other.counters().negative).sum();
    assert_eq!((negative, group.root.counters().repairs_by_unicast), (0, 0));
}

/// Each broadcast ends before the next begins, so each lost packet is the last one: a question proves its
/// loss. Expect: a loss costs some round trips, however often packets are lost; the answers to questions do
/// not make the next question later.
#[test]
fn losses_of_broadcasts_that_wait_for_each_other_cost_a_few_round_trips_each() {
    const COUNT: u32 = 400;
    let path = Duration::from_micros(500);
    let mut group = Group::new(settings(2, Scheme::BASIC), Faults { loss: 150, ..Faults::default() }, 1);
    group.path = path;
    let frames = frames(COUNT, 100, 9);
    for frame in &frames {
        group.broadcast(core::slice::from_ref(frame));
        group.settle();
    }
    group.check(&frames);
    let round_trip = 2 * path.0;
    let lost = (group.root.counters().probes + group.root.counters().repairs_by_unicast) * round_trip;
    let without = u64::from(COUNT) * round_trip;
    assert!(
        group.now.0 < without + 3 * lost,
        "{} us beside {} and {}",
        group.now.0 / 1000,
        without / 1000,
        lost / 1000
    );
}

/// The root waits for the acknowledgements of seven members, each of which loses 5 % on both ways: every
/// other broadcast loses a packet. Expect: a broadcast takes two round trips in the mean at most.
#[test]
fn broadcasts_that_wait_for_all_of_seven_do_not_collapse_under_loss() {
    const COUNT: u32 = 1000;
    let mut group = Group::new(settings(8, Scheme::BASIC), Faults { loss: 50, ..Faults::default() }, 1);
    group.path = Duration::from_micros(100);
    let begin = group.now;
    let frames = frames(COUNT, 100, 9);
    for frame in &frames {
        group.broadcast(core::slice::from_ref(frame));
        group.settle();
    }
    group.check(&frames);
    let mean = group.now.since(begin).0 / u64::from(COUNT);
    assert!(mean < 4 * group.path.0, "{mean} ns each");
}

#[test]
fn a_network_without_multicast_is_slow_and_nothing_worse() {
    let faults = Faults { filtered: true, ..Faults::default() };
    for scheme in [Scheme::WINDOW, Scheme::WRITTEN, Scheme { co_roots: 2, ..Scheme::WINDOW }] {
        let mut group = Group::new(settings(5, scheme), faults, 1);
        let frames = frames(300, 200, 1);
        group.broadcast(&frames);
        group.settle();
        group.check(&frames);
        assert!(is_beyond_use(&mut group), "{scheme}: whoever repairs everything sees it");
        assert!(!is_beyond_use(&mut group), "nothing has been sent since");
    }
}

#[test]
fn packets_that_a_path_does_not_carry_arrive_in_pieces() {
    for (scheme, loss) in [(Scheme::BASIC, 0), (Scheme::WINDOW, 10), (Scheme { co_roots: 2, ..Scheme::WINDOW }, 10)] {
        for all in [false, true] {
            let faults = Faults { loss, mtu: Some((all, crate::flow::PACKET_SIZE_MIN)), ..Faults::default() };
            let mut group = Group::new(settings(5, scheme), faults, 1);
            let frames = frames(300, 266, 1);
            group.broadcast(&frames);
            group.settle();
            group.check(&frames);
        }
    }
}

/// Expect: the root finds out by itself after some hundred packets, and never where a tenth is lost.
#[test]
fn a_root_that_asks_nobody_knows_what_the_network_filters() {
    for (faults, expected) in [
        (Faults { filtered: true, ..Faults::default() }, true),
        (Faults { loss: 100, ..Faults::default() }, false),
        (Faults::default(), false),
    ] {
        let mut group = Group::new(settings(5, Scheme::WINDOW), faults, 1);
        let mut is_beyond_use = false;
        for frame in &frames(300, 200, 1) {
            group.broadcast(core::slice::from_ref(frame));
            group.settle();
            is_beyond_use |= group.root.is_beyond_use();
        }
        assert_eq!(is_beyond_use, expected, "{faults:?}");
    }
}

/// A receiver lacks a hundred consecutive packets, as when a socket overflows, and hears all the others.
/// Expect: this gap says nothing of whether the network carries multicast.
#[test]
fn one_gap_however_long_is_no_reason_to_give_multicast_up() {
    let mut group = Group::new(settings(5, Scheme::WINDOW), Faults::default(), 1);
    group.lose = (150..250).map(|number| (2, number)).collect();
    let frames = vec![vec![1; 266]; 400];
    let mut is_beyond_use = false;
    for frame in &frames {
        group.broadcast(core::slice::from_ref(frame));
        is_beyond_use |= group.root.is_beyond_use();
    }
    group.settle();
    group.check(&frames);
    assert!(group.root.counters().repairs_by_unicast >= 50, "{}", group.root.counters().repairs_by_unicast);
    assert!(!is_beyond_use && !group.root.is_beyond_use());
}

fn is_beyond_use(group: &mut Group) -> bool {
    let others = group.others.iter_mut().fold(false, |any, other| any | other.review());
    group.root.review() || others
}

/// Expect: once the receivers know their slots, next to nothing is acknowledged by packets, and only the
/// root's own clock makes it look.
#[test]
fn acknowledgements_that_are_written_are_no_packets() {
    let count = |scheme| {
        let mut group = Group::new(settings(8, scheme), Faults::default(), 1);
        let frames = frames(300, 200, 1);
        for frame in &frames {
            group.broadcast(core::slice::from_ref(frame));
            for _ in 0..8 {
                group.step();
            }
        }
        group.settle();
        group.check(&frames);
        let sum = |of: &dyn Fn(&Counters) -> u64| group.others.iter().map(|other| of(other.counters())).sum::<u64>();
        (sum(&|counters| counters.acknowledgements), sum(&|counters| counters.written), group.root.counters().packets)
    };
    let (sent, none, packets) = count(Scheme::WINDOW);
    assert!(sent >= 7 * packets && none == 0, "{sent} of {packets}");
    let (sent, written, packets) = count(Scheme::WRITTEN);
    assert!(sent < packets && written > 4 * packets, "{sent} sent and {written} written of {packets}");
}

/// A receiver dies whose acknowledgements were written. Expect: it is named all the same.
#[test]
fn a_receiver_that_writes_and_dies_is_named() {
    let dead = Some((2, Duration::from_millis(1)));
    let mut group = Group::new(settings(4, Scheme::WRITTEN), Faults { dead, ..Faults::default() }, 5);
    for frame in &frames(60, 100, 1) {
        assert!(group.root.submit(frame.len(), |room| room.copy_from_slice(frame)).is_some());
        group.root.end_broadcast();
        (0..50).for_each(|_| _ = group.step());
    }
    let limit = group.now + Duration::from_secs(10);
    while group.root.silent(group.now).is_none() {
        assert!(group.step() && group.now < limit, "nobody is named");
    }
    assert_eq!(group.root.silent(group.now), Some(2));
}

/// A receiver whose carrier refuses to write. Expect: it acknowledges by packets.
#[test]
fn who_cannot_write_acknowledges_by_packets() {
    let mut group = Group::new(settings(3, Scheme::WRITTEN), Faults::default(), 1);
    let frames = frames(100, 200, 1);
    for frame in &frames {
        group.broadcast(core::slice::from_ref(frame));
        group.others.iter_mut().for_each(Receiver::cannot_write);
    }
    group.settle();
    group.check(&frames);
}

#[test]
fn a_network_that_loses_a_tenth_is_still_of_use() {
    for scheme in [Scheme::WINDOW, Scheme { co_roots: 2, ..Scheme::WINDOW }] {
        for loss in [0, 10, 100] {
            let mut group = Group::new(settings(5, scheme), Faults { loss, ..Faults::default() }, 1);
            let frames = frames(300, 200, 1);
            group.broadcast(&frames);
            group.settle();
            group.check(&frames);
            assert!(!is_beyond_use(&mut group), "{scheme}, {loss} of 1000 lost");
        }
    }
}

#[test]
fn the_root_does_not_run_ahead_of_a_receiver_by_more_than_its_window() {
    let paused = Some((2, Duration::from_millis(500)));
    let mut group = Group::new(settings(4, Scheme::WINDOW), Faults { paused, ..Faults::default() }, 1);
    let frames = vec![vec![1; 266]; 200];
    group.broadcast(&frames);
    assert!(group.now.0 >= Duration::from_millis(500).0, "who does not run holds the root up, once the window is full");
    group.settle();
    group.check(&frames);
}

#[test]
fn a_receiver_that_dies_is_named_and_a_co_root_that_dies_keeps_nobody_from_the_data() {
    let scheme = Scheme { co_roots: 2, ..Scheme::WINDOW };
    // Member 1 is the co-root of 2 and 3; the network loses packets, so that these need it, or the root.
    let dead = Some((1, Duration::from_millis(1)));
    let mut group = Group::new(settings(6, scheme), Faults { dead, loss: 100, ..Faults::default() }, 5);
    let frames = frames(60, 100, 1);
    for frame in &frames {
        assert!(group.root.submit(frame.len(), |room| room.copy_from_slice(frame)).is_some());
        group.root.end_broadcast();
        for _ in 0..50 {
            group.step();
        }
    }
    let limit = group.now + Duration::from_secs(10);
    while group.root.silent(group.now).is_none() {
        assert!(group.step() && group.now < limit, "nobody is named");
    }
    assert_eq!(group.root.silent(group.now), Some(1));
    // The root does not run ahead of the dead member for ever; all that it has sent is there.
    let sent = FIRST + group.root.counters().packets;
    for member in [2, 3, 4, 5] {
        assert_eq!(group.others[member - 1].expected(), sent, "member {member}");
    }
}

/// The root asks again before the members behind a co-root have answered its last question. Expect: the
/// co-root passes their answers on all the same, and the window never fills.
#[test]
fn a_root_that_goes_on_asking_hears_from_its_co_roots_meanwhile() {
    let mut group = Group::new(settings(8, Scheme { co_roots: 2, ..Scheme::WINDOW }), Faults::default(), 1);
    let frames = frames(300, 100, 1);
    for (number, frame) in frames.iter().enumerate() {
        let submitted = group.root.submit(frame.len(), |room| room.copy_from_slice(frame));
        assert!(submitted.is_some(), "the window is full at broadcast {number}");
        group.root.end_broadcast();
        assert!(group.step());
    }
    group.settle();
    group.check(&frames);
}

#[test]
fn small_frames_share_packets_while_the_window_is_full() {
    let mut group = Group::new(settings(3, Scheme { aggregate: 10, ..Scheme::WINDOW }), Faults::default(), 1);
    let frames = vec![vec![5; 4]; 1000];
    for frame in &frames {
        // The program is quicker than anything leaves.
        while group.root.submit(frame.len(), |room| room.copy_from_slice(frame)).is_none() {
            assert!(group.step());
        }
        group.root.end_broadcast();
    }
    group.settle();
    group.check(&frames);
    assert!(group.root.counters().packets < 60, "{} packets", group.root.counters().packets);
}

#[test]
fn packets_of_strangers_and_of_other_groups_are_counted_and_harmless() {
    let settings = settings(3, Scheme::WINDOW);
    let mut receiver = Receiver::new(settings, STREAM, 0, 1, &secret());
    let mut others = [
        Sender::new(settings, STREAM, 0, &Secret::new([4; 16])),
        Sender::new(settings, StreamId { generation: 78, ..STREAM }, 0, &secret()),
        Sender::new(settings, StreamId { root: 2, ..STREAM }, 0, &secret()),
    ];
    let mut out = Vec::new();
    for sender in &mut others {
        sender.submit(1, |room| room[0] = 1);
        assert_eq!(sender.poll(Instant(1), &mut out), Some(Destination::Group));
        receiver.handle(Instant(1), &out, &mut |_| panic!("this was for somebody else"));
    }
    assert_eq!((receiver.counters().rejected, receiver.expected()), (3, FIRST));
}
