//! Bulk data over several paths: each carries a share; a packet that another path overtakes is not lost; a
//! path that fails is not used any more.

use super::*;

const PATHS: usize = 3;
const BYTES: u64 = 400_000;

fn striped() -> Settings {
    Settings { bulk_paths: 2, ..Settings::default() }
}

/// The packets that may leave now, apart by path.
fn by_path(side: &mut Side, now: Instant) -> [Vec<Vec<u8>>; PATHS] {
    let mut out = vec![0; 1 << 16];
    let mut paths = [const { Vec::new() }; PATHS];
    while let Some(train) = side.flow.poll_train(now, &mut side.memory, &mut out, 44) {
        let packets = out[..train.bytes].chunks(train.segment).map(<[u8]>::to_vec);
        paths[train.path].extend(packets);
    }
    paths
}

/// Two flows; `a` may use both paths and has sent as much as it may.
fn sent() -> (Pair, [Vec<Vec<u8>>; PATHS]) {
    let mut pair = Pair::new(&striped());
    pair.a.flow.use_paths(0b110);
    pair.a.flow.submit_data(1, 1, 0..BYTES);
    let paths = by_path(&mut pair.a, pair.now);
    (pair, paths)
}

/// Delivers packets to `b`, and a moment later the answers of `b` to `a`.
fn deliver(pair: &mut Pair, packets: &[Vec<u8>]) {
    let now = pair.later(us(20));
    pair.b.receive(now, packets);
    let answers = by_path(&mut pair.b, now).concat();
    let now = pair.later(us(20));
    pair.a.receive(now, &answers);
}

fn placed(pair: &Pair) -> u64 {
    pair.b.memory.placed.iter().map(|(_, _, bytes)| bytes.len() as u64).sum()
}

#[test]
fn both_ways_carry_a_share_and_overtaking_between_them_is_no_loss() {
    let (mut pair, paths) = sent();
    let [messages, first, second] = paths.each_ref().map(Vec::len);
    assert!(messages == 0 && first.abs_diff(second) <= 44, "{first} and {second} packets");
    // All of the second arrives before the first.   Expect: nothing is sent again, nothing hurried for each
    // packet.
    deliver(&mut pair, &paths[2]);
    assert!(by_path(&mut pair.a, pair.now).concat().is_empty());
    deliver(&mut pair, &paths[1]);
    pair.run_until_idle();
    assert_eq!((pair.a.acknowledged(), placed(&pair)), (BYTES, BYTES));
    assert_eq!((pair.a.flow.counters().resent(), pair.b.flow.counters().reordered), (0, 0));
    let acks = pair.b.flow.counters().acks_standalone;
    assert!(acks < 40, "{acks} acknowledgements for {} packets", first + second);
}

#[test]
fn a_way_that_may_not_be_used_gets_nothing_and_no_way_at_all_changes_nothing() {
    let mut pair = Pair::new(&striped());
    pair.a.flow.give_up(2);
    assert!(!pair.a.flow.is_silent(2), "nothing was ever sent there");
    pair.a.flow.submit_data(1, 1, 0..BYTES);
    let before = by_path(&mut pair.a, pair.now).map(|packets| packets.len());
    assert!(before[1] > 0 && before[2] == 0, "the first is believed in: {before:?}");
    for paths in [0b100, 0] {
        pair.a.flow.use_paths(paths);
        pair.a.flow.submit_data(2, 2, 0..BYTES);
        let after = by_path(&mut pair.a, pair.now).map(|packets| packets.len());
        assert!(after[1] == 0 && after[2] > 0, "{after:?}");
    }
}

#[test]
fn a_way_that_is_silent_is_doubted_and_given_up_and_its_packets_take_the_other() {
    let (mut pair, paths) = sent();
    let lost = paths[2].len() as u64;
    deliver(&mut pair, &paths[1]);
    assert!(!pair.a.flow.is_silent(2) && pair.a.flow.take_doubts() == 0);
    // Nothing arrives on the second; the first goes on carrying.   Expect: a doubt after two probes, and no
    // resend by itself.
    let begin = pair.now;
    pair.a.flow.use_paths(0b010);
    while pair.a.flow.take_doubts() == 0 {
        pair.a.flow.submit_data(2, 2, 0..10_000);
        let [messages, first, _] = by_path(&mut pair.a, pair.now);
        deliver(&mut pair, &[messages, first].concat());
        assert!(pair.now.since(begin) < us(10_000), "it is never doubted");
    }
    assert!(pair.a.flow.is_silent(2) && !pair.a.flow.is_silent(1));
    assert_eq!(pair.a.flow.take_alive(), 0b010);
    assert_eq!(pair.a.flow.counters().resent(), 0);
    pair.a.flow.give_up(2);
    assert!(!pair.a.flow.is_silent(2));
    loop {
        let [messages, first, second] = by_path(&mut pair.a, pair.now);
        assert!(second.is_empty());
        if messages.is_empty() && first.is_empty() && pair.a.flow.is_idle() {
            break;
        }
        deliver(&mut pair, &[messages, first].concat());
    }
    assert_eq!(pair.a.flow.counters().resent_by_path, lost);
    // The packets that were under way all the time arrive after all.   Expect: duplicates.
    deliver(&mut pair, &paths[2]);
    assert_eq!(pair.b.flow.counters().duplicates, lost);
    assert_eq!(pair.a.acknowledged(), placed(&pair));
}

#[test]
fn the_faster_way_gets_more() {
    let mut pair = Pair::new(&striped());
    pair.a.flow.use_paths(0b110);
    pair.a.flow.submit_data(1, 1, 0..20_000_000);
    // The first delivers four packets every 10 µs, the second one.
    let mut wires = [const { VecDeque::<Vec<u8>>::new() }; PATHS];
    let mut carried = [0, 0, 0];
    while placed(&pair) < 20_000_000 {
        let now = pair.later(us(10));
        for (wire, packets) in wires.iter_mut().zip(by_path(&mut pair.a, now)) {
            wire.extend(packets);
        }
        let mut arrive = Vec::new();
        for (path, count) in [(0, 64), (1, 4), (2, 1)] {
            let packets = wires[path].len().min(count);
            carried[path] += packets;
            arrive.extend(wires[path].drain(..packets));
        }
        pair.b.receive(now, &arrive);
        let answers = by_path(&mut pair.b, now).concat();
        pair.a.receive(now, &answers);
        assert!(pair.now < Instant(100_000_000), "{carried:?}");
    }
    let ratio = carried[1] as f64 / carried[2] as f64;
    assert!((3.0..=5.5).contains(&ratio), "{carried:?}");
    // Both together carry five packets every 10 µs.
    let best = 20_000_000 / 1424 / 5 * 10;
    assert!(pair.now.0 / 1_000 < best * 11 / 10, "{} us, at best {best}", pair.now.0 / 1_000);
    assert_eq!(pair.a.flow.counters().resent(), 0);
}

/// Two paths of the same speed and with small windows. For half a second the second path hardly moves.
/// Expect: two seconds later both paths carry the same.
#[test]
fn a_path_that_was_slow_in_a_bad_moment_is_found_quick_again() {
    let mut pair = Pair::new(&Settings { window_packets: 16, ..striped() });
    pair.a.flow.use_paths(0b110);
    let mut wires = [const { VecDeque::<Vec<u8>>::new() }; PATHS];
    let (mut carried, mut submitted) = ([0, 0, 0], 0);
    for millisecond in 0..3_500 {
        let now = pair.later(us(1_000));
        if submitted < placed(&pair) + 1_000_000 {
            submitted += 1_000_000;
            pair.a.flow.submit_data(1, 1, 0..1_000_000);
        }
        for (wire, packets) in wires.iter_mut().zip(by_path(&mut pair.a, now)) {
            wire.extend(packets);
        }
        let slow = if millisecond < 500 { usize::from(millisecond % 10 == 0) } else { 4 };
        let mut arrive = Vec::new();
        for (path, count) in [(0, 64), (1, 4), (2, slow)] {
            let packets = wires[path].len().min(count);
            carried[path] += if millisecond < 2_500 { 0 } else { packets };
            arrive.extend(wires[path].drain(..packets));
        }
        pair.b.receive(now, &arrive);
        let answers = by_path(&mut pair.b, now).concat();
        pair.a.receive(now, &answers);
    }
    assert!(carried[2] * 2 > carried[1], "the first and the second path carry {carried:?}");
}
