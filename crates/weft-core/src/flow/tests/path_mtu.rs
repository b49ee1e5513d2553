//! Paths that carry less, and more again, while a flow runs: everything arrives once and in order, and
//! packets get as large as they can be.

use super::*;
use crate::wire::{FRAME_PREFIX, MESSAGES_OVERHEAD};
use weft_random::Random;

/// The number of bytes that the path carries, from these steps on.
struct Path {
    mtu: Vec<(u64, usize)>,
    step: u64,
    /// The number of packets of which one is lost, of any length; 0: none.
    loss: u64,
    random: Random,
    longest: usize,
}

impl Path {
    fn new(mtu: &[(u64, usize)]) -> Self {
        Self { mtu: mtu.to_vec(), step: 0, loss: 0, random: Random::new(1), longest: 0 }
    }

    /// The packets that arrive.
    fn pass(&mut self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.step += 1;
        let carried = self.mtu.iter().rev().find(|(from, _)| *from <= self.step).map_or(usize::MAX, |(_, mtu)| *mtu);
        let mut arrives = |packet: &&Vec<u8>| {
            let is_lost = self.loss > 0 && self.random.below(self.loss) == 0;
            if packet.len() <= carried {
                self.longest = self.longest.max(packet.len());
            }
            packet.len() <= carried && !is_lost
        };
        packets.iter().filter(&mut arrives).cloned().collect()
    }
}

impl Pair {
    /// Carries everything over these paths, one for each direction, for at most `turns` turns; returns
    /// whether both have come to rest.
    fn run_over(&mut self, there: &mut Path, back: &mut Path, turns: u32) -> bool {
        for _ in 0..turns {
            let now = self.later(us(10));
            let from_a = self.a.packets(now);
            let from_b = self.b.packets(now);
            let now = self.later(us(10));
            self.b.receive(now, &there.pass(&from_a));
            self.a.receive(now, &back.pass(&from_b));
            if from_a.is_empty() && from_b.is_empty() {
                match [self.a.flow.next_timeout(), self.b.flow.next_timeout()].into_iter().flatten().min() {
                    None => return true,
                    Some(at) => self.now = self.now.max(at),
                }
            }
        }
        false
    }

    /// A message of each length and a range of data from one to the other, in turns; all arrive over these
    /// paths.
    fn exchange(&mut self, lengths: &[usize], data: u64, paths: (&mut Path, &mut Path)) {
        let (before, placed) = (self.b.memory.messages.len(), self.b.memory.placed.len());
        let messages: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, length)| vec![i as u8; *length]).collect();
        for message in &messages {
            self.a.flow.submit_message(message, &[]);
        }
        self.a.flow.submit_data(9, 4, 0..data);
        assert!(self.run_over(paths.0, paths.1, 200_000), "the flows never come to rest");
        assert_eq!(self.b.memory.messages[before..], messages);
        let mut here: Vec<(u64, u64)> = Vec::new();
        for (name, offset, bytes) in &self.b.memory.placed[placed..] {
            assert_eq!(*name, 9);
            assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == pattern(4, offset + i as u64)));
            here.push((*offset, bytes.len() as u64));
        }
        here.sort_unstable();
        let end = here.iter().fold(0, |at, (offset, length)| {
            assert_eq!(at, *offset, "every byte is placed once");
            offset + length
        });
        assert_eq!((end, self.a.acknowledged()), (data, data));
    }
}

fn ethernet() -> Settings {
    Settings { packet_size: 1472, window_packets: 256, ..Settings::default() }
}

/// Messages that fill packets, and some that do not.
fn lengths(flow: &Flow) -> Vec<usize> {
    (0..60).map(|i| if i % 3 == 0 { 8 + i } else { flow.frame_max() }).collect()
}

#[test]
fn what_is_in_flight_survives_a_smaller_mtu() {
    for mtu in [PACKET_SIZE_MIN, 300, 576, 1252, 1372, 1471] {
        for from in [0, 1, 3, 10] {
            for sealed in [false, true] {
                let mut pair = Pair::new(&Settings { sealed, ..ethernet() });
                let (mut there, mut back) = (Path::new(&[(from, mtu)]), Path::new(&[(from, mtu)]));
                let lengths = lengths(&pair.a.flow);
                pair.exchange(&lengths, 2_000_000, (&mut there, &mut back));
                let counters = pair.a.flow.counters();
                assert_eq!(counters.packets_smaller, 1, "{mtu} from {from}");
                assert!(counters.cut > 0, "{mtu} from {from}");
                // No more packets are lost once the size is found.
                while pair.a.flow.outgoing.mtu.as_ref().is_some_and(|mtu| mtu.waits()) {
                    pair.exchange(&[8], 10_000, (&mut there, &mut back));
                }
                let resent = pair.a.flow.counters().resent();
                pair.exchange(&[pair.a.flow.frame_max(); 20], 100_000, (&mut there, &mut back));
                assert_eq!(pair.a.flow.counters().resent(), resent, "{mtu} from {from}");
                let size = pair.a.flow.packet_size();
                assert!(size <= mtu && mtu - size <= usize::from(SIZE_GRAIN), "{size} of {mtu}");
            }
        }
    }
}

#[test]
fn a_larger_mtu_is_found_again() {
    let mut pair = Pair::new(&ethernet());
    let (mut there, mut back) = (Path::new(&[(2, 700)]), Path::new(&[]));
    let lengths = lengths(&pair.a.flow);
    pair.exchange(&lengths, 300_000, (&mut there, &mut back));
    assert!(pair.a.flow.packet_size() <= 700);
    // The flow finds the larger size after anything that happens meanwhile, such as a rest in which it was
    // parked.
    for (parked, mtu) in [(false, 1000), (true, 1472)] {
        there.mtu = vec![(0, mtu)];
        if parked {
            let flow = core::mem::replace(
                &mut pair.a.flow,
                Flow::new(Arc::new(ethernet()), &secret(), &Parties::of_only_job(1, 2)),
            );
            pair.a.flow = Flow::unpark(flow.park().0, Arc::new(ethernet()), &secret(), &Parties::of_only_job(1, 2));
        }
        for _ in 0..20 {
            pair.later(SIZE_REST);
            pair.exchange(&[20; 3], 200_000, (&mut there, &mut back));
        }
        let size = pair.a.flow.packet_size();
        assert!(size <= mtu && mtu - size <= usize::from(SIZE_GRAIN), "{size} of {mtu}");
        assert!(pair.a.flow.counters().packets_larger > 0);
    }
    assert_eq!(pair.a.flow.packet_size(), 1472);
    assert!(pair.a.flow.outgoing.mtu.is_none(), "nothing is left to find out");
}

#[test]
fn losses_that_have_nothing_to_do_with_size_leave_packets_as_they_are() {
    let mut pair = Pair::new(&ethernet());
    let (mut there, mut back) = (Path::new(&[]), Path::new(&[]));
    (there.loss, back.loss) = (10, 10);
    pair.exchange(&[1000; 40], 3_000_000, (&mut there, &mut back));
    assert_eq!(pair.a.flow.counters().packets_smaller, 0);
    assert_eq!(pair.a.flow.packet_size(), 1472);
}

#[test]
fn trains_that_pass_do_not_hide_that_single_packets_do_not() {
    // A bridge of Linux forwards trains that the kernel has not cut yet, however long their packets are.
    let mut pair = Pair::new(&ethernet());
    let (mut out, mut trains) = (vec![0; 64 << 10], 0);
    pair.a.flow.submit_data(9, 4, 0..2_000_000);
    for _ in 0..100_000 {
        let now = pair.later(us(20));
        while let Some(train) = pair.a.flow.poll_train(now, &mut pair.a.memory, &mut out, 44) {
            let is_train = train.bytes > train.segment;
            trains += u32::from(is_train);
            for (place, packet) in out[..train.bytes].chunks(train.segment).enumerate() {
                // The first trains lose a packet each, which is sent again alone.
                let is_lost = if is_train { trains < 10 && place == 2 } else { packet.len() > 1372 };
                if !is_lost {
                    pair.b.flow.handle_packet(now, packet, &mut pair.b.memory);
                }
            }
        }
        let answers = pair.b.packets(now);
        pair.a.receive(now, &answers);
        match pair.a.flow.next_timeout() {
            None => break,
            Some(at) if answers.is_empty() => pair.now = pair.now.max(at),
            Some(_) => {}
        }
    }
    assert_eq!(pair.a.acknowledged(), 2_000_000);
    assert!(pair.a.flow.is_idle());
    assert!(pair.a.flow.packet_size() <= 1372, "{}", pair.a.flow.packet_size());
}

#[test]
fn a_packet_that_only_its_echo_makes_too_long_is_noticed() {
    // Two processes answer each other with messages that fill a packet but for the echo. The path carries
    // them without an echo only.
    const ROUNDS: usize = 200;
    for sealed in [false, true] {
        let mut pair = Pair::new(&Settings { sealed, ..ethernet() });
        let message = vec![7; 1340];
        let whole = MESSAGES_OVERHEAD + FRAME_PREFIX + message.len() + pair.a.flow.settings.seal_size();
        let (mut there, mut back) = (Path::new(&[(0, whole - 1)]), Path::new(&[]));
        let mut submitted = [0; 2];
        for _ in 0..100_000 {
            // Each process sends as soon as it has the other's message.
            if submitted[0] < ROUNDS && pair.a.memory.messages.len() == submitted[0] {
                pair.a.flow.submit_message(&message, &[]);
                submitted[0] += 1;
            }
            if pair.b.memory.messages.len() > submitted[1] {
                pair.b.flow.submit_message(&message, &[]);
                submitted[1] += 1;
            }
            if pair.run_over(&mut there, &mut back, 1) && submitted[1] == ROUNDS {
                break;
            }
        }
        assert_eq!(pair.a.memory.messages.len(), ROUNDS);
        let counters = pair.a.flow.counters();
        assert!(
            counters.packets_smaller == 1 && counters.resent() < ROUNDS as u64 / 4,
            "sealed: {sealed}: {counters:?}"
        );
    }
}

#[test]
fn what_does_not_even_carry_the_least_fails_and_says_so() {
    let mut pair = Pair::new(&Settings { peer_timeout: Duration::from_secs(3), ..ethernet() });
    let (mut there, mut back) = (Path::new(&[(0, PACKET_SIZE_MIN - 20)]), Path::new(&[]));
    pair.a.flow.submit_message(&[1; 1000], &[]);
    pair.run_over(&mut there, &mut back, 200_000);
    assert_eq!(pair.a.flow.poll_event(), Some(Event::PeerFailed { reason: Failure::Blocked }));
}

#[test]
fn whoever_sends_packets_of_others_again_or_changes_them_makes_no_packet_smaller() {
    let mut pair = Pair::new(&ethernet());
    let (mut kept, mut forged) = (Vec::<Vec<u8>>::new(), 0);
    pair.a.flow.submit_data(9, 4, 0..1_000_000);
    pair.a.flow.submit_message(&[1; 1400], &[]);
    for turn in 0..20_000 {
        let now = pair.later(us(10));
        let (there, back) = (pair.a.packets(now), pair.b.packets(now));
        if there.is_empty() && back.is_empty() {
            break;
        }
        for packet in there.iter().chain(&back) {
            kept.push(packet.clone());
            // Send bytes that claim to be a piece.
            let mut piece = packet.clone();
            piece[11] = piece[11] & 0xf8 | 1;
            piece.truncate(90);
            pair.a.receive(now, core::slice::from_ref(&piece));
            pair.b.receive(now, &[piece]);
            forged += 1;
        }
        pair.b.receive(now, &there);
        pair.a.receive(now, &back);
        let again = kept[turn * 7 % kept.len()].clone();
        pair.a.receive(now, core::slice::from_ref(&again));
        pair.b.receive(now, &[again]);
    }
    assert!(forged > 100);
    let counters = pair.a.flow.counters();
    assert_eq!((counters.packets_smaller, counters.cut, pair.a.flow.packet_size()), (0, 0, 1472));
    assert_eq!(pair.a.acknowledged(), 1_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn everything_arrives_once_whatever_the_path_does(
        steps in prop::collection::vec((0u64..400, PACKET_SIZE_MIN..1500), 0..5),
        back in prop::collection::vec((0u64..400, PACKET_SIZE_MIN..1500), 0..3),
        lengths in prop::collection::vec(0usize..1400, 0..40),
        (sealed, stripes, loss, seed) in (any::<bool>(), 0u8..3, prop_oneof![Just(0u64), 10u64..100], any::<u64>()),
        data in 0u64..400_000,
    ) {
        let mut pair = Pair::new(&Settings { sealed, bulk_paths: stripes, ..ethernet() });
        let sorted = |mut steps: Vec<(u64, usize)>| {
            steps.sort_unstable();
            steps
        };
        let (mut there, mut back) = (Path::new(&sorted(steps)), Path::new(&sorted(back)));
        (there.loss, back.loss, there.random, back.random) = (loss, loss, Random::new(seed), Random::new(!seed));
        for _ in 0..2 {
            pair.exchange(&lengths, data, (&mut there, &mut back));
            pair.later(SIZE_REST);
        }
    }
}
