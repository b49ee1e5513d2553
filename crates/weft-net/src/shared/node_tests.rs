//! The ranks of several nodes as threads of one process: frames, sleeping, faults. Tests with real processes
//! are in `tests/shared.rs`.

use super::processors::less_loaded;
use super::*;
use crate::wait::{Interest, wait};
use std::time::Instant;
use weft_engine::transport::{CollectiveSlots as _, SlotCounts, Stamp};

const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

fn key(name: &str) -> String {
    format!("test-{name}-{}", std::process::id())
}

fn nodes(name: &str, size: usize) -> Vec<Node> {
    let settings = Settings::default();
    (0..size).map(|index| Node::create(&key(name), index, size, &settings).unwrap()).collect()
}

fn take(node: &mut Node) -> Vec<(usize, Vec<u8>)> {
    let mut frames = Vec::new();
    node.poll(usize::MAX, |from, bytes| frames.push((from, bytes.to_vec())));
    frames
}

#[test]
fn a_frame_is_head_and_payload_in_one_piece() {
    let mut nodes = nodes("frame", 2);
    assert!(nodes[0].try_send(1, b"head", b"payload"));
    assert!(nodes[0].try_send_with(1, b"h", 3, |out| out.copy_from_slice(b"abc")));
    assert!(nodes[0].try_send(1, b"", b""));
    let expected = [b"headpayload".to_vec(), b"habc".to_vec(), Vec::new()].map(|frame| (0, frame));
    assert_eq!(take(&mut nodes[1]), expected);
    assert_eq!(take(&mut nodes[0]), []);
    assert!(nodes[1].is_complete() && nodes[1].pid(0) == Some(std::process::id() as i32));
}

#[test]
fn a_rank_can_send_to_itself_and_a_single_rank_is_a_node() {
    let mut alone = nodes("self", 1);
    assert!(alone[0].try_send(0, b"to", b"me"));
    assert_eq!(take(&mut alone[0]), [(0, b"tome".to_vec())]);
    assert!(alone[0].is_complete());
}

#[test]
fn the_largest_frame_travels_and_a_larger_one_is_a_defect() {
    let mut nodes = nodes("largest", 2);
    let largest = vec![5; nodes[0].frame_max()];
    assert!(largest.len() >= 4096);
    assert!(nodes[0].try_send(1, &[], &largest));
    assert_eq!(take(&mut nodes[1]), [(0, largest.clone())]);
    let mut sender = nodes.swap_remove(0);
    let larger = std::thread::spawn(move || sender.try_send(1, &[1], &largest)).join();
    assert!(larger.is_err());
}

#[test]
fn a_full_ring_refuses_and_accepts_again_when_polled() {
    let mut nodes = nodes("full", 2);
    let payload = [1; 1000];
    let mut sent = 0;
    while nodes[0].try_send(1, &[], &payload) {
        sent += 1;
        assert!(sent < 10_000);
    }
    assert_eq!(nodes[1].poll(sent / 2, |_, _| {}), sent / 2);
    assert!(nodes[0].try_send(1, &[], &payload));
    assert_eq!(take(&mut nodes[1]).len(), sent - sent / 2 + 1);
    assert_eq!(nodes[0].poll_fault(), None);
}

#[test]
fn a_limited_poll_serves_all_senders_in_turn() {
    let mut nodes = nodes("fair", 3);
    for sender in [0, 2] {
        (0..100).for_each(|_| assert!(nodes[sender].try_send(1, &[], &[7; 8])));
    }
    let mut seen = [0; 3];
    for _ in 0..4 {
        nodes[1].poll(10, |from, _| seen[from] += 1);
    }
    assert_eq!(seen, [20, 0, 20]);
}

#[test]
fn all_ranks_send_to_all_in_order_and_sleep_in_between() {
    const SIZE: usize = 5;
    const ROUNDS: u32 = 300;
    let deadline = Instant::now() + LIMIT;
    std::thread::scope(|scope| {
        for index in 0..SIZE {
            scope.spawn(move || {
                let mut node = Node::create(&key("all"), index, SIZE, &Settings::default()).unwrap();
                let mut expected = [0_u32; SIZE];
                for round in 0..ROUNDS {
                    for to in 0..SIZE {
                        while !node.try_send(to, &round.to_le_bytes(), &[index as u8; 3000]) {
                            receive(&mut node, &mut expected);
                        }
                    }
                    // No rank runs ahead by more than a few rounds, so every rank must sleep often.
                    while expected.iter().any(|&next| next + 3 <= round) {
                        if receive(&mut node, &mut expected) == 0 && node.arm(SleepMode::Doorbell) {
                            wait(&[(node.doorbell_fd(), Interest::Read)], Some(Duration::from_secs(20))).unwrap();
                            node.disarm();
                            node.drain_doorbell();
                        }
                        assert!(Instant::now() < deadline, "rank {index} is stuck in round {round}: {expected:?}");
                    }
                }
                while expected.iter().any(|&next| next < ROUNDS) {
                    receive(&mut node, &mut expected);
                    assert!(Instant::now() < deadline);
                    std::thread::yield_now();
                }
                assert_eq!(node.poll_fault(), None);
            });
        }
    });
}

fn receive(node: &mut Node, expected: &mut [u32]) -> usize {
    node.poll(16, |from, bytes| {
        assert_eq!(bytes[..4], expected[from].to_le_bytes(), "order from {from}");
        assert!(bytes.len() == 3004 && bytes[4..].iter().all(|&byte| usize::from(byte) == from));
        expected[from] += 1;
    })
}

#[test]
fn a_frame_before_the_sleep_is_noticed_and_one_during_it_rings() {
    let mut nodes = nodes("arm", 2);
    assert!(nodes[0].try_send(1, &[], &[1]));
    assert!(!nodes[1].arm(SleepMode::Doorbell), "the first frame of a ring that was never used");
    assert_eq!(take(&mut nodes[1]).len(), 1);
    assert!(nodes[1].arm(SleepMode::Doorbell));
    let readable = |node: &Node, ms| {
        !wait(&[(node.doorbell_fd(), Interest::Read)], Some(Duration::from_millis(ms))).unwrap().is_empty()
    };
    assert!(!readable(&nodes[1], 1));
    (0..3).for_each(|_| assert!(nodes[0].try_send(1, &[], &[2])));
    assert!(readable(&nodes[1], 5_000));
    nodes[1].disarm();
    nodes[1].drain_doorbell();
    assert!(!readable(&nodes[1], 1), "three frames, one ring");
    assert_eq!(take(&mut nodes[1]).len(), 3);
}

#[test]
fn a_sleeper_on_the_futex_is_woken_by_a_frame_and_by_its_own_process() {
    let mut nodes = nodes("futex", 2);
    assert_eq!(nodes[0].awake(), 2);
    for own in [false, true] {
        assert!(nodes[1].arm(SleepMode::Futex));
        assert_eq!(nodes[0].awake(), 1);
        let sleeper = nodes[1].sleeper();
        let began = Instant::now();
        std::thread::scope(|scope| {
            let asleep = scope.spawn(move || sleeper.sleep(Some(Duration::from_secs(20))));
            std::thread::sleep(std::time::Duration::from_millis(5));
            if own {
                nodes[1].nudge();
            } else {
                assert!(nodes[0].try_send(1, &[], &[1]));
            }
            asleep.join().unwrap();
        });
        assert!(began.elapsed() < std::time::Duration::from_secs(15), "nobody woke the sleeper");
        nodes[1].disarm();
        assert_eq!(nodes[0].awake(), 2);
        take(&mut nodes[1]);
    }
    // A frame that comes between the announcement and the sleep: the kernel refuses the sleep.
    assert!(nodes[1].arm(SleepMode::Futex));
    assert!(nodes[0].try_send(1, &[], &[1]));
    nodes[1].sleeper().sleep(None);
    nodes[1].disarm();
    assert_eq!(nodes[0].poll_fault(), None);
}

#[test]
fn a_peer_that_died_asleep_is_a_fault_reported_once() {
    let mut nodes = nodes("died", 2);
    assert!(nodes[1].arm(SleepMode::Doorbell));
    // The rank is killed: its bell disappears, its flag stays.
    let segment = Arc::clone(&nodes[0].inbox.segment);
    drop(nodes.pop());
    segment.rank_state(1).sleeping.store(1, Ordering::SeqCst);
    nodes[0].try_send(1, &[], &[1]);
    let fault = nodes[0].poll_fault().unwrap();
    assert!(fault.peer == 1 && fault.reason.contains("died"), "{fault:?}");
    assert_eq!(nodes[0].poll_fault(), None);
    assert!(!nodes[0].try_send(1, &[], &[1]));
    assert_eq!(nodes[0].poll_fault(), None);
}

#[test]
fn a_scribbled_ring_is_a_fault_of_that_peer_only() {
    let mut nodes = nodes("scribble", 3);
    assert!(nodes[0].try_send(1, &[], &[1]) && nodes[2].try_send(1, &[], &[2]));
    assert_eq!(take(&mut nodes[1]).len(), 2);
    // Rank 0 misbehaves: it writes a frame that no ring holds.
    let area = nodes[0].outbox.segment.ring(1, 0);
    area.scribble_for_tests(1, u32::MAX);
    assert!(nodes[2].try_send(1, &[], &[3]));
    let mut frames = take(&mut nodes[1]);
    frames.extend(take(&mut nodes[1]));
    assert_eq!(frames, [(2, vec![3])]);
    let fault = nodes[1].poll_fault().unwrap();
    assert!(fault.peer == 0 && fault.reason.contains("0xffffffff"), "{fault:?}");
    assert!(
        nodes[1].poll_fault().is_none() && nodes[1].arm(SleepMode::Doorbell),
        "the broken ring does not keep anybody awake"
    );
    nodes[1].disarm();
}

#[test]
fn senseless_arguments_are_refused() {
    let settings = Settings::default();
    for bad in ["", "a/b", "..\0", "ä", &"x".repeat(JOB_KEY_MAX + 1)] {
        assert!(Node::create(bad, 0, 1, &settings).is_err(), "{bad}");
    }
    assert!(Node::create("ok", 2, 2, &settings).is_err());
    assert!(Node::create("ok", 0, LOCAL_SIZE_MAX + 1, &settings).is_err());
}

#[test]
fn ranks_that_take_turns_move_only_to_where_there_are_fewer_of_them() {
    // Other ranks: five here and two there; then an unknown one that may be anywhere; then two unknown ones.
    let spinning = [0, 0, 0, 0, 0, 1, 1];
    assert_eq!(less_loaded(0, &[0, 1], &spinning, 0), Some(1));
    assert_eq!(less_loaded(0, &[0, 1], &spinning, 2), Some(1));
    assert_eq!(less_loaded(0, &[0, 1], &spinning, 3), None, "they may all be there");
    // Four on each with this one, and three here beside four there: a move would change nothing.
    assert_eq!(less_loaded(0, &[0, 1], &[0, 0, 0, 1, 1, 1, 1], 0), None);
    assert_eq!(less_loaded(0, &[0, 1], &[0, 0, 0, 1, 1, 1], 0), None);
    assert_eq!(less_loaded(0, &[0], &spinning, 0), None, "there is no other");
    assert_eq!(less_loaded(0, &[0, 1, 7], &spinning, 0), Some(7), "nobody is there");
}

#[test]
fn what_is_published_is_read_under_its_stamp_only_and_never_outside_of_its_cell() {
    let mut nodes = nodes("published", 2);
    let [stamp, other] = [1, 2].map(|context| Stamp { context, phase: 7 });
    let SlotCounts { communicators, long, short } = nodes[0].counts();
    let all = communicators + long + short;
    assert!(communicators > 1 && long > 0 && short > 0);
    for slot in 0..all {
        let most = nodes[0].published_max(slot);
        assert_eq!(most, nodes[1].published_max(slot));
        assert_eq!(most >= 32 << 10, slot < communicators + long, "slot {slot} holds {most} bytes");
        assert_eq!(nodes[1].with_published(0, slot, stamp, <[u8]>::len), None, "what went before is in other slots");
        nodes[0].publish(slot, stamp, most, |out| out.fill(slot as u8));
    }
    for slot in 0..all {
        let most = nodes[0].published_max(slot);
        assert_eq!(nodes[1].with_published(0, slot, stamp, <[u8]>::to_vec), Some(vec![slot as u8; most]));
        assert!(nodes[1].is_published(0, slot, stamp) && !nodes[1].is_published(0, slot, other));
        // A length that makes no sense, as a peer might write it.
        nodes[0].inbox.segment.slot(0, slot).scribble_for_tests(7, u32::MAX);
        assert_eq!(nodes[1].with_published(0, slot, stamp, <[u8]>::len), Some(most));
        nodes[1].finish_phases(slot, Stamp { context: 1, phase: 8 });
        assert_eq!(nodes[0].finished_phases(1, slot), Stamp { context: 1, phase: 8 });
    }
}

/// Expect: a slot holds as many phases, of whatever length, as a process may be ahead by its own word, and no
/// earlier phase.
#[test]
fn so_many_phases_stand_in_a_slot_at_once() {
    let mut nodes = nodes("phases", 2);
    let SlotCounts { communicators, long, short } = nodes[0].counts();
    for slot in 0..communicators + long + short {
        for len in [0, 1, 1008, 1009, 32 << 10] {
            if len > nodes[0].published_max(slot) {
                continue;
            }
            let ahead = nodes[0].phases_ahead(slot, len);
            // Stamps of different lengths must differ here: no rank says that it has finished the earlier
            // phases.
            let stamp = |phase| Stamp { context: 1 + len as u32, phase };
            (0..=ahead).for_each(|phase| nodes[0].publish(slot, stamp(phase), len, |out| out.fill(phase as u8)));
            let stands = |phase| nodes[1].with_published(0, slot, stamp(phase), <[u8]>::to_vec);
            assert_eq!(stands(0), None, "slot {slot}, {len} bytes: it is written over");
            (1..=ahead).for_each(|phase| assert_eq!(stands(phase), Some(vec![phase as u8; len])));
        }
    }
}

#[test]
fn a_publisher_wakes_who_sleeps_for_it() {
    let mut nodes = nodes("published-wake", 2);
    let (mut reader, mut writer) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let stamp = Stamp { context: 1, phase: 0 };
    assert!(reader.arm(SleepMode::Futex) && !reader.is_published(0, 0, stamp));
    let sleeper = reader.sleeper();
    let sleeping = std::thread::spawn(move || sleeper.sleep(Some(Duration::from_micros(LIMIT.as_micros() as u64))));
    let began = Instant::now();
    writer.publish(0, stamp, 0, |_| ());
    writer.wake_if_asleep(1);
    sleeping.join().unwrap();
    assert!(began.elapsed() < LIMIT && reader.is_published(0, 0, stamp));
}

/// Two ranks that start together, and one that starts alone.   Expect: two find the costs of this machine, or
/// say that they were disturbed; the costs reach both. Nobody waits for a rank that does not come.
#[test]
fn two_ranks_calibrate_the_machine_and_share_what_they_find() {
    use super::calibration::Unmeasured;
    use weft_engine::protocols::{CALIBRATION_ROUNDS_MAX, CostModel};
    use weft_engine::transport::Node as _;
    let started = Instant::now();
    let nodes = nodes("calibration", 2);
    let said = nodes[0].calibrate().expect_err("the helper is not there");
    // Beside other programs nobody waits.
    assert!([Unmeasured::CameLate, Unmeasured::Busy].contains(&said), "{said}");
    nodes[1].help_calibrate();
    let mut nodes = self::nodes("calibration-2", 2);
    assert!(nodes[1].costs().is_none(), "each rank has its own until it says so");
    let (leader, helper) = nodes.split_at_mut(1);
    let samples = std::thread::scope(|scope| {
        let helper = &mut helper[0];
        scope.spawn(move || helper.help_calibrate());
        let samples = leader[0].calibrate();
        leader[0].end_calibration();
        samples
    });
    // Where the threads were kept from their processors, there are too few rounds.
    if let Ok(samples) = samples {
        assert!(samples.rounds.len() <= CALIBRATION_ROUNDS_MAX);
        for round in &samples.rounds {
            assert!(round.ring_ns > 0 && round.small_frame_ns > 0, "{samples:?}");
        }
        eprintln!("{samples:?}: {:?}", samples.costs(&CostModel::BUILT_IN));
    }
    let costs = CostModel { kernel_copy_ps: 7, ..CostModel::BUILT_IN };
    nodes[1].share_costs();
    let version = nodes[1].costs().expect("it shares them").version();
    assert_eq!(nodes[1].costs().and_then(|shared| shared.read()), None, "nobody has published any");
    nodes[0].share_costs();
    nodes[0].costs().expect("it shares them").share(&costs.values().collect::<Vec<_>>());
    let shared = nodes[1].costs().expect("it shares them");
    assert_ne!(shared.version(), version);
    assert_eq!(shared.read().and_then(|values| CostModel::from_values(&values)), Some(costs));
    assert!(started.elapsed() < LIMIT);
}
