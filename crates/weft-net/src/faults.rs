//! Injected faults: a carrier that wraps another one and damages the packets sent through it.
//!
//! It loses, repeats, reorders and corrupts packets, by chance, from a seed. It is compiled into the product,
//! so that a user can see a program survive a bad network (`WEFT_FAULTS`).
//!
//! Packets for a peer are damaged when they leave; when all processes of a job use the same plan, every
//! direction is damaged. Packets for a multicast group leave whole, and are damaged where they arrive: each
//! receiver loses other packets, as at the ports of a switch. Connections of an RDMA device are spared: they
//! lose no packet, and break if they do.

use std::collections::VecDeque;
use std::io;

use crate::carrier::{self, Address, Arrival, Carrier, CarrierAttributes, Delivery, Outcome};
use crate::{Error, clock};
use weft_core::time::{Duration, Instant};
use weft_random::Random;

/// Most packets that are held back at a time; when more should be, the oldest leaves.
const HELD_MAX: usize = 64;
/// Most later packets after which a packet that is held back leaves.
const OVERTAKEN_MAX: u64 = 8;
/// Longest time for which a packet is held back, if the link is used again. So the last packet of an exchange
/// is late, not lost.
const HELD_TIME_MAX: Duration = Duration::from_millis(1);

/// Probabilities of faults, 0 to 1, each drawn for each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Plan {
    /// Share of packets that are lost.
    pub drop: f64,
    /// Share of packets that are sent twice.
    pub duplicate: f64,
    /// Share of packets that leave after later ones.
    pub reorder: f64,
    /// Share of packets with a damaged byte.
    pub corrupt: f64,
    /// Seed of the random numbers. Mix the process's index in, or all processes lose the same packets.
    pub seed: u64,
}

impl Plan {
    /// Parses e.g. `drop=5%,duplicate=1%,reorder=0.01,corrupt=0.1%,seed=7`. A name that is left out is 0.
    ///
    /// # Errors
    /// An unknown name, or a value that is not a probability (or, for the seed, a number). The text names the
    /// word.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut plan = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let field = match name.trim() {
                "drop" => &mut plan.drop,
                "duplicate" => &mut plan.duplicate,
                "reorder" => &mut plan.reorder,
                "corrupt" => &mut plan.corrupt,
                "seed" => {
                    plan.seed = parse_seed(value.trim()).ok_or_else(|| invalid(word, "a seed is a whole number"))?;
                    continue;
                }
                _ => return Err(invalid(word, "known are drop, duplicate, reorder, corrupt and seed")),
            };
            *field = parse_probability(value.trim())
                .ok_or_else(|| invalid(word, "a probability is 0% to 100% or 0 to 1"))?;
        }
        Ok(plan)
    }

    /// Returns whether the plan damages no packet.
    pub fn is_clean(&self) -> bool {
        self.drop == 0.0 && self.duplicate == 0.0 && self.reorder == 0.0 && self.corrupt == 0.0
    }
}

fn invalid(word: &str, rule: &str) -> Error {
    Error::Invalid(format!("faults: {word:?} is not understood: {rule}"))
}

fn parse_probability(text: &str) -> Option<f64> {
    let value = match text.strip_suffix('%') {
        Some(percent) => decimal(percent.trim())? / 100.0,
        None => decimal(text)?,
    };
    (0.0..=1.0).contains(&value).then_some(value)
}

/// A number such as `0.25`, `3` or `1e-3`, exact to the last digit if it has few. The standard library's way,
/// which no other text needs, would take 20 KB of the library.
fn decimal(text: &str) -> Option<f64> {
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse().ok()?),
        None => (text, 0_i32),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let mut value = 0.0;
    for digit in whole.chars().chain(part.chars()) {
        value = value * 10.0 + f64::from(digit.to_digit(10)?);
    }
    let exponent = exponent.checked_sub(i32::try_from(part.len()).ok()?)?;
    let power = 10_f64.powi(exponent.checked_abs()?);
    let is_number = !whole.is_empty() || !part.is_empty();
    is_number.then_some(if exponent < 0 { value / power } else { value * power })
}

fn parse_seed(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Counters of the packets that met each fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that were handed in.
    pub packets: u64,
    /// Packets that were lost.
    pub dropped: u64,
    /// Packets that were sent twice.
    pub duplicated: u64,
    /// Packets that were held back behind later ones.
    pub reordered: u64,
    /// Packets that were damaged.
    pub corrupted: u64,
}

/// A link into which faults are injected. An empty plan adds one comparison per packet.
pub struct Faults<D> {
    inner: D,
    attributes: CarrierAttributes,
    plan: Plan,
    is_clean: bool,
    random: Random,
    held: VecDeque<Held>,
    /// Packets for groups that have arrived and are held back.
    late: VecDeque<Late>,
    damaged: Vec<u8>,
    counters: Counters,
}

/// A packet that has arrived, with the time at which it is handed on.
struct Late {
    packet: Vec<u8>,
    until_packet: u64,
    until: Instant,
}

struct Held {
    to: Address,
    packet: Vec<u8>,
    /// Number of packets handed in at which this packet leaves, or the time below.
    until_packet: u64,
    until: Instant,
}

impl<D: Carrier> Faults<D> {
    /// Wraps a link, into which the faults of `plan` are injected.
    pub fn new(inner: D, plan: Plan) -> Self {
        let (random, is_clean) = (Random::new(plan.seed), plan.is_clean());
        let mut attributes = *inner.attributes();
        if !is_clean && !SPARED.contains(&attributes.name) {
            attributes.delivery = Delivery::Unreliable;
        }
        Self {
            inner,
            attributes,
            plan,
            is_clean,
            random,
            held: VecDeque::new(),
            late: VecDeque::new(),
            damaged: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Returns the link inside.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Returns the link inside, to be changed.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn happens(&mut self, probability: f64) -> bool {
        // The draw is made even for probability 0, so that a change of one probability moves only its own
        // packets.
        self.random.unit() < probability
    }

    /// Sends held packets whose time has come.
    #[inline]
    fn release_held(&mut self) {
        if !self.held.is_empty() {
            // An error here comes again with the next send, which reports it.
            let _ = self.release(clock::now());
        }
    }

    /// Sends held packets that are due. A packet that the link refuses now is lost, which is a fault like the
    /// others.
    fn release(&mut self, everything_due_at: Instant) -> io::Result<()> {
        let is_due = |held: &Held, packets| held.until_packet <= packets || held.until <= everything_due_at;
        while self.held.len() > HELD_MAX || self.held.front().is_some_and(|held| is_due(held, self.counters.packets)) {
            let Some(held) = self.held.pop_front() else { break };
            self.inner.send(&held.to, &held.packet)?;
        }
        Ok(())
    }

    /// Returns the packet number and the time at which a packet that is held back now travels on.
    fn later(&mut self) -> (u64, Instant) {
        self.counters.reordered += 1;
        (self.counters.packets + 1 + self.random.next() % OVERTAKEN_MAX, clock::now() + HELD_TIME_MAX)
    }

    fn hold(&mut self, to: Address, packet: &[u8]) {
        let (until_packet, until) = self.later();
        self.held.push_back(Held { to, packet: packet.to_vec(), until_packet, until });
    }

    /// Draws the fate of a packet: `None` if it is lost; otherwise its bytes, whether it is late, and whether
    /// it comes twice.
    fn damage(&mut self, packet: &[u8]) -> Option<(Vec<u8>, bool, bool)> {
        self.counters.packets += 1;
        let [drop, corrupt, reorder, duplicate] =
            [self.plan.drop, self.plan.corrupt, self.plan.reorder, self.plan.duplicate].map(|p| self.happens(p));
        if drop {
            self.counters.dropped += 1;
            return None;
        }
        let mut damaged = std::mem::take(&mut self.damaged);
        damaged.clear();
        damaged.extend_from_slice(packet);
        if corrupt && !packet.is_empty() {
            self.counters.corrupted += 1;
            let at = (self.random.next() % packet.len() as u64) as usize;
            damaged[at] ^= 1 + (self.random.next() % 255) as u8;
        }
        Some((damaged, reorder, duplicate))
    }

    /// Hands on a packet that has arrived for a group as this receiver's cable would: not at all, late, twice
    /// or damaged.
    fn arrive_damaged(&mut self, packet: &[u8], on_packet: &mut dyn FnMut(&[u8])) {
        let Some((damaged, is_late, is_double)) = self.damage(packet) else { return };
        if is_late {
            let (until_packet, until) = self.later();
            self.late.push_back(Late { packet: damaged.clone(), until_packet, until });
        } else {
            on_packet(&damaged);
        }
        if is_double {
            self.counters.duplicated += 1;
            on_packet(&damaged);
        }
        self.damaged = damaged;
    }

    /// Hands on the packets that have been late for long enough.
    fn arrive_late(&mut self, on_packet: &mut dyn FnMut(&[u8])) -> usize {
        let (packets, now) = (self.counters.packets, if self.late.is_empty() { Instant(0) } else { clock::now() });
        let is_due = |late: &Late| late.until_packet <= packets || late.until <= now;
        let mut count = 0;
        while self.late.len() > HELD_MAX || self.late.front().is_some_and(is_due) {
            let Some(late) = self.late.pop_front() else { break };
            on_packet(&late.packet);
            count += 1;
        }
        count
    }

    /// Receives trains of peers as they come, and packets for a group one by one.
    fn receive_damaged(&mut self, on_train: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        let mut to_group = Vec::new();
        let on_arrival = &mut |train: Arrival<'_>| match train.to_group {
            true => to_group.extend(train.bytes.chunks(train.segment.max(1)).map(<[u8]>::to_vec)),
            false => on_train(train),
        };
        let count = self.inner.receive(on_arrival, limit);
        let mut each = |packet: &[u8]| on_train(Arrival { to_group: true, ..Arrival::packet(packet) });
        to_group.iter().for_each(|packet| self.arrive_damaged(packet, &mut each));
        count + self.arrive_late(&mut each)
    }

    fn send_damaged(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        if spares(to) {
            return self.inner.send(to, packet);
        }
        let Some((damaged, reorder, duplicate)) = self.damage(packet) else {
            self.release(clock::now())?;
            return Ok(Outcome::Sent);
        };
        let outcome = if reorder {
            self.hold(*to, &damaged);
            Ok(Outcome::Sent)
        } else {
            self.inner.send(to, &damaged)
        };
        if duplicate && matches!(outcome, Ok(Outcome::Sent)) {
            self.counters.duplicated += 1;
            self.inner.send(to, &damaged)?;
        }
        self.damaged = damaged;
        self.release(clock::now())?;
        outcome
    }
}

impl<D: Carrier> carrier::Wrapper for Faults<D> {
    type Inner = D;

    #[inline]
    fn inner(&self) -> &D {
        &self.inner
    }

    #[inline]
    fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// A carrier into which faults are injected keeps no promise.
    #[inline]
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    #[inline]
    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        if self.is_clean { self.inner.send(to, packet) } else { self.send_damaged(to, packet) }
    }

    /// Faults meet packets, not trains: a damaged packet travels by itself.
    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        if self.is_clean || spares(to) {
            return self.inner.send_train(to, train, segment);
        }
        let mut taken = 0;
        for packet in train.chunks(segment.max(1)) {
            if self.send_damaged(to, packet)? == Outcome::WouldBlock {
                break;
            }
            taken += packet.len();
        }
        Ok(taken)
    }

    #[inline]
    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        self.release_held();
        if self.is_clean { self.inner.receive(on_arrival, limit) } else { self.receive_damaged(on_arrival, limit) }
    }
}

/// The carriers whose connections are spared.
const SPARED: [&str; 2] = ["verbs", "tcp"];

/// Returns whether packets to this address leave whole.
fn spares(to: &Address) -> bool {
    to.is_group() || matches!(to, Address::Verbs(_) | Address::Tcp(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::{Diagnostics, Look, receive_packets, send_one_by_one};

    const ATTRIBUTES: CarrierAttributes = CarrierAttributes::packets("test", 1400, Look::Memory);

    /// A carrier that remembers what was sent.
    #[derive(Default)]
    struct Recorder(Vec<Vec<u8>>);

    impl Carrier for Recorder {
        fn attributes(&self) -> &CarrierAttributes {
            &ATTRIBUTES
        }

        fn send(&mut self, _: &Address, packet: &[u8]) -> io::Result<Outcome> {
            self.0.push(packet.to_vec());
            Ok(Outcome::Sent)
        }

        fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> std::io::Result<usize> {
            send_one_by_one(self, to, train, segment)
        }

        fn receive(&mut self, _: &mut dyn FnMut(Arrival<'_>), _: usize) -> usize {
            0
        }

        fn prepare_sleep(&mut self) -> bool {
            false
        }

        fn diagnostics(&self) -> Diagnostics {
            Diagnostics::default()
        }

        fn under_way(&self, _: &Address) -> usize {
            0
        }

        fn take_broken(&mut self) -> Option<Address> {
            None
        }
    }

    fn run(plan: &str, packets: u64) -> (Vec<Vec<u8>>, Counters) {
        let mut link = Faults::new(Recorder::default(), Plan::parse(plan).unwrap());
        let to = Address::Udp(([127, 0, 0, 1], 9).into());
        for number in 0..packets {
            assert_eq!(link.send(&to, &number.to_le_bytes()).unwrap(), Outcome::Sent);
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
        receive_packets(&mut link, &mut |_| {}, 1);
        assert!(link.held.is_empty(), "what was held back has left");
        (link.inner.0, link.counters)
    }

    /// Expect: the number that the standard library finds, or none where it finds none or one without digits.
    #[test]
    fn numbers_are_those_of_the_standard_library() {
        for text in ["0", "1", "0.25", ".5", "3.", "1e-3", "12.5E-2", "0.1", "0.3", "99.9", "2.5e1", "0.0001"] {
            assert_eq!(decimal(text), text.parse().ok(), "{text}");
        }
        for text in ["", ".", "x", "1e", "e1", "0x1", "1.2.3", "-1", "1e-2147483648", "nan"] {
            assert_eq!(decimal(text), None, "{text:?}");
        }
    }

    #[test]
    fn plans_are_parsed_and_nonsense_is_named() {
        let plan = Plan::parse("drop=5%, duplicate=1%,reorder=0.01,corrupt=0.1%,seed=0x10").unwrap();
        assert_eq!(plan, Plan { drop: 0.05, duplicate: 0.01, reorder: 0.01, corrupt: 0.001, seed: 16 });
        assert!(Plan::parse("").unwrap().is_clean() && Plan::parse("seed=3").unwrap().is_clean());
        for bad in ["drop", "drop=", "drop=101%", "drop=-1", "drop=NaN", "loss=1%", "seed=x", "drop=5%;seed=1"] {
            let error = Plan::parse(bad).unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
    }

    #[test]
    fn an_empty_plan_changes_nothing() {
        let (sent, counters) = run("", 1000);
        assert_eq!(sent, (0..1000_u64).map(|n| n.to_le_bytes().to_vec()).collect::<Vec<_>>());
        assert_eq!(counters, Counters::default());
    }

    #[test]
    fn each_fault_happens_as_often_as_planned() {
        const PACKETS: u64 = 20_000;
        let about = |count: u64, share: f64| (count as f64 / PACKETS as f64 - share).abs() < share / 5.0;
        let (sent, counters) = run("drop=5%,seed=1", PACKETS);
        assert!(about(counters.dropped, 0.05) && sent.len() as u64 == PACKETS - counters.dropped);
        let (sent, counters) = run("duplicate=5%,seed=2", PACKETS);
        assert!(about(counters.duplicated, 0.05) && sent.len() as u64 == PACKETS + counters.duplicated);
        let (sent, counters) = run("corrupt=5%,seed=3", PACKETS);
        let damaged = sent.iter().enumerate().filter(|(i, packet)| ***packet != (*i as u64).to_le_bytes()).count();
        assert!(about(counters.corrupted, 0.05) && damaged as u64 == counters.corrupted);
        let (sent, counters) = run("reorder=5%,seed=4", PACKETS);
        let late = sent.windows(2).filter(|pair| number(&pair[0]) > number(&pair[1])).count() as u64;
        assert!(about(counters.reordered, 0.05) && late > counters.reordered / 2, "{late} {counters:?}");
        let mut sorted: Vec<u64> = sent.iter().map(|packet| number(packet)).collect();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..PACKETS).collect::<Vec<_>>(), "reordered, not lost");
    }

    #[test]
    fn faults_meet_the_packets_of_a_train_one_by_one() {
        const PACKETS: usize = 2_000;
        let to = Address::Udp(([127, 0, 0, 1], 9).into());
        let train: Vec<u8> = (0..PACKETS as u64).flat_map(u64::to_le_bytes).collect();
        let mut lossy = Faults::new(Recorder::default(), Plan::parse("drop=10%,seed=1").unwrap());
        assert_eq!(lossy.send_train(&to, &train, 8).unwrap(), train.len());
        let Faults { inner, counters, .. } = lossy;
        assert!(counters.dropped > 100 && inner.0.len() as u64 == PACKETS as u64 - counters.dropped, "{counters:?}");
        // Without faults the link inside gets the train, and cuts it.
        let mut clean = Faults::new(Recorder::default(), Plan::default());
        assert_eq!((clean.send_train(&to, &train, 8).unwrap(), clean.inner.0.len()), (train.len(), PACKETS));
    }

    /// A carrier that has a train for a group, once.
    struct Group(Vec<u8>);

    impl Carrier for Group {
        fn attributes(&self) -> &CarrierAttributes {
            &ATTRIBUTES
        }

        fn send(&mut self, _: &Address, packet: &[u8]) -> io::Result<Outcome> {
            self.0.extend_from_slice(packet);
            Ok(Outcome::Sent)
        }

        fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> std::io::Result<usize> {
            send_one_by_one(self, to, train, segment)
        }

        fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), _: usize) -> usize {
            let bytes = std::mem::take(&mut self.0);
            on_arrival(Arrival { bytes: &bytes, segment: 8, marked: false, to_group: true });
            bytes.len() / 8
        }

        fn prepare_sleep(&mut self) -> bool {
            false
        }

        fn diagnostics(&self) -> Diagnostics {
            Diagnostics::default()
        }

        fn under_way(&self, _: &Address) -> usize {
            0
        }

        fn take_broken(&mut self) -> Option<Address> {
            None
        }
    }

    #[test]
    fn a_connection_of_a_device_is_spared_and_its_groups_are_not() {
        use crate::carrier::VerbsAddress;
        let plan = Plan { drop: 1.0, ..Plan::default() };
        let mut link = Faults::new(Recorder::default(), plan);
        let at = |ip: [u8; 4]| Address::Verbs(VerbsAddress { peer: 1, listens: (ip, 7).into() });
        for to in [at([192, 0, 2, 1]), at([239, 192, 0, 1])] {
            assert_eq!(link.send(&to, b"whole").unwrap(), Outcome::Sent);
        }
        // A packet for a group leaves as well: it is lost where it arrives.
        assert_eq!(link.inner().0.len(), 2);
        link.arrive_damaged(b"whole", &mut |_| panic!("it is lost"));
        assert_eq!(link.counters().dropped, 1);
    }

    #[test]
    fn what_goes_to_a_group_is_lost_by_each_receiver_on_its_own() {
        const PACKETS: u64 = 2_000;
        let to = Address::Udp(([239, 192, 0, 1], 9).into());
        let arrived = |seed: u64| {
            let plan = Plan::parse(&format!("drop=10%,duplicate=5%,reorder=10%,seed={seed}")).unwrap();
            let mut link = Faults::new(Group(Vec::new()), plan);
            for number in 0..PACKETS {
                link.send(&to, &number.to_le_bytes()).unwrap();
            }
            assert_eq!(link.inner.0.len() as u64, 8 * PACKETS, "it leaves whole");
            let mut arrived = Vec::new();
            receive_packets(&mut link, &mut |packet| arrived.push(number(packet)), 1);
            std::thread::sleep(std::time::Duration::from_millis(2));
            receive_packets(&mut link, &mut |packet| arrived.push(number(packet)), 1);
            assert!(link.late.is_empty(), "what was late has arrived");
            let Counters { dropped, duplicated, reordered, .. } = link.counters;
            assert!(dropped > 100 && reordered > 100 && duplicated > 50, "{:?}", link.counters);
            assert_eq!(arrived.len() as u64, PACKETS - dropped + duplicated);
            arrived
        };
        let (one, other) = (arrived(1), arrived(2));
        let lost = |arrived: &[u64]| (0..PACKETS).filter(|n| !arrived.contains(n)).collect::<Vec<_>>();
        assert_ne!(lost(&one), lost(&other));
        assert_eq!(one, arrived(1), "the same seed, the same packets");
    }

    fn number(packet: &[u8]) -> u64 {
        u64::from_le_bytes(packet.try_into().unwrap())
    }

    #[test]
    fn the_same_seed_damages_the_same_packets() {
        let plan = "drop=10%,duplicate=10%,corrupt=10%,seed=5";
        assert_eq!(run(plan, 500), run(plan, 500));
        assert_ne!(run(plan, 500).0, run("drop=10%,duplicate=10%,corrupt=10%,seed=6", 500).0);
    }
}
