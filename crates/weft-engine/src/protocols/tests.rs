use super::*;

const LIMITS: [u64; 4] = [0, 8 << 10, 64 << 10, 256 << 10];
const ROUTES: [RouteClass; 10] = [
    RouteClass::Myself,
    RouteClass::Network,
    ring(4 << 10, true, true),
    ring(4 << 10, true, false),
    ring(4 << 10, false, true),
    ring(4 << 10, false, false),
    ring(1 << 20, true, true),
    ring(1 << 20, true, false),
    ring(1 << 20, false, true),
    ring(1 << 20, false, false),
];
const CANDIDATES: [Candidate; 3] = [Candidate::None, Candidate::Posted, Candidate::Awaited];

const fn ring(frame_max: u64, is_near: bool, is_copied: bool) -> RouteClass {
    RouteClass::Ring { frame_max, is_near, is_copied }
}

/// All classes and situations, also the impossible ones: a receiver of which something is known over a
/// network.
fn each(mut look: impl FnMut(&PeerClass, &Situation)) {
    for (route, eager_limit) in ROUTES.into_iter().flat_map(|route| LIMITS.map(|limit| (route, limit))) {
        for (posted, bits) in CANDIDATES.into_iter().flat_map(|posted| (0..1 << 9).map(move |bits| (posted, bits))) {
            let bit = |index: u32| bits >> index & 1 == 1;
            let situation = Situation {
                is_synchronous: bit(0),
                is_blocking: bit(1),
                is_contiguous: bit(2),
                has_credit: bit(3),
                is_path_busy: bit(4),
                receiver: Receiver { posted, is_inside: bit(5), has_announced: bit(6) },
                write_failed: bit(7),
                is_exchanged: bit(8),
            };
            look(&PeerClass { route, eager_limit }, &situation);
        }
    }
}

/// Models of machines of all kinds, also absurd ones.
fn models() -> Vec<CostModel> {
    let mut models = vec![CostModel::BUILT_IN];
    for (name, _) in CostModel::MEANINGS {
        for value in [0, 1, 1_000, 50_000_000, COST_PS_MAX] {
            models.push(format!("{name} {value}").parse().unwrap());
        }
    }
    for all in [0, 1, COST_PS_MAX] {
        let lines = CostModel::MEANINGS.iter().map(|(name, _)| format!("{name} {all}\n"));
        models.push(lines.collect::<String>().parse().unwrap());
    }
    models
}

/// The sizes at and around each end of a range.
fn sizes(ranges: &[Range]) -> impl Iterator<Item = u64> {
    ranges.iter().flat_map(|range| [range.bytes_max, range.bytes_max.saturating_add(1)]).chain([0])
}

/// Models with any costs of copies.   Expect: ranges have no gaps, and neighbours differ. Messages beyond
/// credit or limits are announced, and within them no message waits for a receive of which nothing is known.
/// A written message has a receive that it is written to, and a choice after a failed write is another one.
/// Only a message that a process of this node could read has an address. An answer to a synchronous message
/// does not overtake its last piece.
#[test]
fn every_choice_keeps_the_promises_that_others_rely_on() {
    for model in models() {
        let (mut choices, mut again) = (Choices::new(model), Choices::new(model));
        each(|class, situation| {
            let ranges = choices.ranges(class, situation).to_vec();
            assert_eq!(ranges.last().map(|last| last.bytes_max), Some(u64::MAX));
            for pair in ranges.windows(2) {
                assert!(pair[0].bytes_max < pair[1].bytes_max);
                assert_ne!((pair[0].protocol, pair[0].reason), (pair[1].protocol, pair[1].reason), "{ranges:?}");
            }
            for bytes in sizes(&ranges) {
                let facts = Facts { bytes, class: *class, situation: *situation };
                let (protocol, _) = choices.choose(&facts);
                let is_ring = matches!(class.route, RouteClass::Ring { .. });
                let receiver = situation.receiver;
                match protocol {
                    Protocol::Eager => assert!(situation.has_credit && bytes <= class.eager_limit, "{facts:?}"),
                    Protocol::Pipeline => {
                        assert!(situation.has_credit && is_ring && !situation.is_synchronous, "{facts:?}");
                        let is_awaited = situation.is_blocking && receiver.is_inside;
                        let is_expected = if is_awaited {
                            receiver.posted == Candidate::Awaited
                        } else {
                            !situation.is_blocking && situation.is_path_busy && receiver.posted != Candidate::None
                        };
                        assert!(is_expected, "{facts:?}");
                    }
                    Protocol::WriteToPosted => {
                        assert!(
                            receiver.posted != Candidate::None && bytes >= model.single_copy_bytes_min(),
                            "{facts:?}"
                        );
                        let failed = Situation { write_failed: true, ..*situation };
                        let second = again.choose(&Facts { situation: failed, ..facts }).0;
                        assert!(!situation.write_failed && second != Protocol::WriteToPosted, "{facts:?}");
                    }
                    Protocol::Fetch => {
                        assert!(situation.is_contiguous && class.route != RouteClass::Network, "{facts:?}");
                    }
                    Protocol::Cooperate => assert!(is_ring && situation.is_contiguous && situation.is_blocking),
                    Protocol::ClearToSend => {}
                }
                // A program may rely on such messages not to wait for their receives.
                let is_promised = is_ring && receiver.posted == Candidate::None && situation.has_credit;
                if is_promised && bytes <= class.eager_limit && !situation.is_synchronous {
                    assert_eq!(protocol, Protocol::Eager, "{facts:?}");
                    assert!(!situation.may_be_tried(), "{facts:?}");
                }
                if let (Protocol::Eager, true, RouteClass::Ring { frame_max, .. }) =
                    (protocol, situation.is_synchronous, class.route)
                {
                    assert!(bytes <= frame_max.min(RING_PIECE_BYTES));
                }
            }
        });
    }
}

/// The receiver's state matters only for messages that are large enough for a single copy.
#[test]
fn small_messages_ignore_the_receiver() {
    let mut choices = Choices::new(CostModel::BUILT_IN);
    each(|class, situation| {
        let unknown = Situation { receiver: Receiver::UNKNOWN, write_failed: false, ..*situation };
        for bytes in [0, 8, 8 << 10, (16 << 10) - 1] {
            let facts = Facts { bytes, class: *class, situation: *situation };
            assert_eq!(choices.choose(&facts), choices.choose(&Facts { situation: unknown, ..facts }), "{facts:?}");
        }
    });
}

/// A carrier that writes messages by itself lowers the limit: longer ones are announced, unless the user has
/// set a limit. No route raises the limit above that of others by itself.
#[test]
fn a_carrier_that_writes_lowers_the_limit_where_nobody_has_said_one() {
    let costs = CostModel::BUILT_IN;
    assert_eq!(eager_limit(None, &costs, u64::MAX), EAGER_LIMIT);
    assert_eq!(eager_limit(None, &costs, 20 << 10), 20 << 10);
    assert_eq!(eager_limit(None, &costs, 1 << 20), EAGER_LIMIT);
    for said in LIMITS {
        assert!([0, 20 << 10, u64::MAX].into_iter().all(|above| eager_limit(Some(said), &costs, above) == said));
    }
}

/// The protocols of short messages, below 16 KiB, by the built-in costs, with an eager limit of 64 KiB. The
/// first line whose words all hold counts; sizes are the largest of their range.
const SHORT: &[(&str, &str)] = &[
    ("network credit", "eager"),
    ("network", "clear-to-send"),
    ("standard credit", "eager"),
    ("myself credit", "eager"),
    ("wide credit", "eager"),
    ("narrow copied contiguous credit nonblocking", "eager 4K, fetch"),
    ("narrow copied contiguous credit", "eager 4K, clear-to-send 8K, fetch"),
    ("narrow credit", "eager 4K, clear-to-send"),
    ("contiguous myself", "fetch"),
    ("contiguous copied nonblocking", "fetch"),
    ("contiguous copied narrow", "clear-to-send 8K, fetch"),
    ("", "clear-to-send"),
];

/// The protocols of messages of 16 KiB and more.
const LARGE: &[(&str, &str)] = &[
    // To this process itself, and over a network.
    ("myself contiguous credit", "eager 64K, fetch"),
    ("myself contiguous", "fetch"),
    ("network busy nonblocking credit", "eager 16K, clear-to-send"),
    ("myself credit", "eager 64K, clear-to-send"),
    ("network credit", "eager 64K, clear-to-send"),
    ("myself", "clear-to-send"),
    ("network", "clear-to-send"),
    // Through a ring alone.
    ("uncopied standard credit", "eager 64K, clear-to-send"),
    ("uncopied wide credit", "eager 32K, clear-to-send"),
    ("uncopied", "clear-to-send"),
    // A window through a ring.
    ("busy copied wide contiguous nonblocking standard credit known", "eager 64K, pipeline"),
    ("busy copied wide contiguous nonblocking standard credit", "eager 64K, fetch"),
    ("busy copied wide contiguous nonblocking credit", "eager 32K, fetch"),
    ("busy copied wide contiguous nonblocking", "fetch"),
    // A part of windows that go both ways.
    ("exchanged busy known inside contiguous nonblocking", "fetch"),
    ("exchanged busy contiguous nonblocking standard credit", "eager 64K, fetch"),
    ("exchanged busy contiguous nonblocking", "fetch"),
    // The receive is posted, and its process does not fetch the message.
    ("known untried outside", "write"),
    ("known untried scattered", "write"),
    // Both sides wait for this message.
    ("awaited inside contiguous blocking standard credit wide near", "eager 64K, pipeline 512K, clear-to-send"),
    ("awaited inside contiguous blocking standard credit wide far", "eager 64K, pipeline 128K, cooperate"),
    ("awaited inside contiguous blocking standard credit narrow alone", "fetch 64K-1, cooperate"),
    // The receiver fetches the message at once, and one of the two sides may compute.
    ("known inside contiguous nonblocking", "fetch"),
    ("posted inside contiguous alone", "fetch"),
    // Nothing is known of the receiver, or nothing that helps.
    ("scattered standard credit", "eager 64K, clear-to-send"),
    ("scattered wide credit", "eager 32K, clear-to-send"),
    ("scattered", "clear-to-send"),
    ("nonblocking standard credit", "eager 64K, fetch"),
    ("nonblocking wide credit", "eager 32K, fetch"),
    ("nonblocking", "fetch"),
    ("posted standard credit", "eager 64K, fetch"),
    ("posted wide credit", "eager 32K, fetch"),
    ("posted", "fetch"),
    ("wide near standard credit", "eager 64K, clear-to-send"),
    ("wide near credit", "eager 32K, clear-to-send"),
    ("wide near", "clear-to-send"),
    ("wide standard credit", "eager 64K, clear-to-send 115343, cooperate"),
    ("wide credit", "eager 32K, clear-to-send 115343, cooperate"),
    ("wide", "clear-to-send 115343, cooperate"),
    ("standard credit", "eager 64K, cooperate"),
    ("", "fetch 64K-1, cooperate"),
];

/// The words of the tables that hold for a class of peers and a situation.
fn words(class: &PeerClass, situation: &Situation) -> Vec<&'static str> {
    let Situation {
        is_synchronous,
        is_blocking,
        is_contiguous,
        has_credit,
        is_path_busy,
        is_exchanged,
        receiver,
        write_failed,
    } = *situation;
    let either = |is: bool, one, other| if is { one } else { other };
    let mut words = vec![
        either(is_synchronous, "synchronous", "standard"),
        either(is_blocking, "blocking", "nonblocking"),
        either(is_contiguous, "contiguous", "scattered"),
        either(has_credit, "credit", "no-credit"),
    ];
    match class.route {
        RouteClass::Myself => words.push("myself"),
        RouteClass::Network => words.extend(["network", either(is_path_busy, "busy", "idle")]),
        RouteClass::Ring { frame_max, is_near, is_copied } => words.extend([
            either(is_wide(frame_max), "wide", "narrow"),
            either(is_near, "near", "far"),
            either(is_copied, "copied", "uncopied"),
            either(is_path_busy, "busy", "idle"),
            either(is_exchanged, "exchanged", "one-way"),
            either(receiver.is_inside, "inside", "outside"),
            // No earlier announcement waits for the receiver.
            either(receiver.has_announced, "several", "alone"),
            either(receiver.posted == Candidate::None, "unknown", "known"),
            either(write_failed, "failed", "untried"),
        ]),
    }
    words.extend(match receiver.posted {
        Candidate::None => None,
        Candidate::Posted => Some("posted"),
        Candidate::Awaited => Some("awaited"),
    });
    words
}

/// Ranges in the words of the tables, for the sizes in `sizes` only.
fn shown(ranges: &[Range], sizes: std::ops::RangeInclusive<u64>) -> String {
    let mut text: Vec<String> = Vec::new();
    let mut least = 0;
    let mut last = None;
    for range in ranges {
        if range.bytes_max >= *sizes.start() && least <= *sizes.end() {
            let name = ROWS.iter().find(|row| row.protocol == range.protocol).map(|row| row.name).unwrap();
            // Ranges that differ in the reason alone.
            if last == Some(range.protocol) {
                text.pop();
            }
            last = Some(range.protocol);
            text.push(match range.bytes_max {
                most if most >= *sizes.end() => name.to_owned(),
                most if most % 1024 == 0 => format!("{name} {}K", most / 1024),
                most if (most + 1) % 1024 == 0 => format!("{name} {}K-1", (most + 1) / 1024),
                most => format!("{name} {most}"),
            });
        }
        least = range.bytes_max.saturating_add(1);
    }
    text.join(", ")
}

/// Every class and situation.   Expect: messages travel as the tables say, and each of their lines applies
/// somewhere.
#[test]
fn messages_travel_as_the_tables_say() {
    let mut choices = Choices::new(CostModel::BUILT_IN);
    let mut used = [vec![0; SHORT.len()], vec![0; LARGE.len()]];
    each(|class, situation| {
        if class.eager_limit != 64 << 10
            || class.route == RouteClass::Network && situation.receiver != Receiver::UNKNOWN
        {
            return;
        }
        let words = words(class, situation);
        let ranges = choices.ranges(class, situation).to_vec();
        let tables = [(SHORT, 0..=(16 << 10) - 1), (LARGE, 16 << 10..=u64::MAX)];
        for ((table, sizes), used) in tables.into_iter().zip(&mut used) {
            let holds = |line: &str| line.split_whitespace().all(|word| words.contains(&word));
            let line = table.iter().position(|(line, _)| holds(line)).expect("the last line has no words");
            used[line] += 1;
            assert_eq!(shown(&ranges, sizes), table[line].1, "{:?} for {words:?}", table[line].0);
        }
    });
    assert!(used.iter().flatten().all(|count| *count > 0), "{used:?}");
}

/// Costs as on an Intel Xeon of 2025, where the kernel copies two to three times as quickly as any ring:
/// both sides wait.   Expect: the receiver fetches all but short messages, and lets the sender copy a part
/// of none.
#[test]
fn costs_decide_where_both_sides_wait() {
    let costs = "kernel_copy_ps 400000\nkernel_copy_per_byte_ps 33\ncooperative_copy_ps 3400000\n\
                 cooperative_copy_per_byte_ps 33\nring_in_turn_per_byte_ps 120\nring_near_per_byte_ps 62\n\
                 ring_far_per_byte_ps 80\n";
    let mut choices = Choices::new(costs.parse().expect("they are costs"));
    let waits = Situation::BOTH_WAIT;
    for (is_near, expected) in [(true, "eager 13793, fetch"), (false, "eager 8510, fetch")] {
        let route = RouteClass::Ring { frame_max: 1 << 20, is_near, is_copied: true };
        let class = PeerClass { route, eager_limit: 64 << 10 };
        assert_eq!(shown(choices.ranges(&class, &waits), 0..=u64::MAX), expected);
    }
}

/// A window goes to a receiver that has posted its receives and waits for nothing yet. Three machines have
/// costs: an Intel Xeon whose receiver has the data in its cache, the same Xeon without that, and an AMD
/// EPYC. On the EPYC a ring and the kernel take the same time for a byte where no cache is shared.
/// Expect: on the Xeon the kernel copies all but short messages if the data is cached. If not, the kernel
/// copies only where both processes send windows. On the EPYC messages go through the ring, as long as it is
/// as quick.
#[test]
fn costs_decide_how_a_window_travels() {
    let intel = "kernel_copy_ps 400000\nkernel_copy_per_byte_ps 33\nring_near_per_byte_ps 62\n";
    let amd = "kernel_copy_ps 820000\nkernel_copy_per_byte_ps 66\nring_near_per_byte_ps 32\nring_far_per_byte_ps 67\n";
    let cold = "kernel_copy_ps 1200000\nkernel_copy_per_byte_ps 100\nring_near_per_byte_ps 78\n";
    let receiver = Receiver { posted: Candidate::Posted, is_inside: false, has_announced: false };
    let window = Situation { is_blocking: false, is_path_busy: true, receiver, ..Situation::BOTH_WAIT };
    for (costs, is_near, is_exchanged, expected) in [
        (intel, true, false, "eager 13793, write"),
        (intel, true, true, "eager 8K, fetch"),
        (cold, true, false, "eager 64K, pipeline"),
        (cold, true, true, "eager 26109, fetch"),
        (amd, true, false, "eager 64K, pipeline"),
        (amd, true, true, "eager 64K, pipeline"),
        (amd, false, false, "eager 64K, pipeline 820000, write"),
        (amd, false, true, "eager 64K, pipeline"),
    ] {
        let window = Situation { is_exchanged, ..window };
        let route = RouteClass::Ring { frame_max: 1 << 20, is_near, is_copied: true };
        let mut choices = Choices::new(costs.parse().expect("they are costs"));
        let class = PeerClass { route, eager_limit: 64 << 10 };
        assert_eq!(shown(choices.ranges(&class, &window), 0..=u64::MAX), expected);
    }
}

/// Windows one way and both ways, on an Intel Xeon, an AMD EPYC, and a machine whose kernel is slow.
/// Expect: messages for which the sender does not look for the receive are eager. Longer ones go through the
/// ring on the EPYC. On the others a receiver that waits fetches them, within the eager limit as well.
#[test]
fn the_sender_of_a_window_looks_for_receives_where_that_changes_the_choice() {
    let intel = "kernel_copy_ps 400000\nkernel_copy_per_byte_ps 38\nring_near_per_byte_ps 80\n";
    let slow = "kernel_copy_ps 50000000\nkernel_copy_per_byte_ps 38\nring_near_per_byte_ps 80\n";
    let route = RouteClass::Ring { frame_max: 1 << 20, is_near: true, is_copied: true };
    let class = PeerClass { route, eager_limit: 64 << 10 };
    for (costs, is_exchanged, expected, beyond) in [
        (intel, false, 15_765, Protocol::Fetch),
        (intel, true, 8 << 10, Protocol::Fetch),
        ("", false, 64 << 10, Protocol::Pipeline),
        ("", true, 64 << 10, Protocol::Pipeline),
        (slow, false, 64 << 10, Protocol::Fetch),
    ] {
        let costs: CostModel = costs.parse().expect("they are costs");
        let most = costs.window_eager_max(is_exchanged);
        assert_eq!(most, expected, "{costs:?}");
        let mut choices = Choices::new(costs);
        let window = Situation { is_blocking: false, is_path_busy: true, is_exchanged, ..Situation::BOTH_WAIT };
        let mut taken =
            |bytes, receiver| choices.choose(&Facts { bytes, class, situation: Situation { receiver, ..window } }).0;
        for bytes in [1, most / 2, most] {
            assert_eq!(taken(bytes, Receiver::UNKNOWN), Protocol::Eager, "{bytes} of {most}");
        }
        assert_eq!(taken(most + 1, window.receiver), beyond, "{most}");
    }
}

/// The limit for eager messages is the user's. It stands above costs where no receiver is known to fetch the
/// message at once.
#[test]
fn limits_of_the_user_are_kept() {
    let near = RouteClass::Ring { frame_max: 1 << 20, is_near: true, is_copied: true };
    let mut choices = Choices::new(CostModel::BUILT_IN);
    let mut shown = |route, limit, situation: &Situation| {
        shown(choices.ranges(&PeerClass { route, eager_limit: limit }, situation), 0..=u64::MAX)
    };
    let unknown = Situation {
        is_synchronous: false,
        is_blocking: true,
        is_contiguous: true,
        has_credit: true,
        is_path_busy: false,
        is_exchanged: false,
        receiver: Receiver::UNKNOWN,
        write_failed: false,
    };
    let waits = Situation {
        receiver: Receiver { posted: Candidate::Awaited, is_inside: true, has_announced: false },
        ..unknown
    };
    for (route, limit, situation, expected) in [
        (near, 256 << 10, unknown, "eager 256K, clear-to-send"),
        (near, 256 << 10, waits, "eager 256K, pipeline 512K, clear-to-send"),
        (near, 0, unknown, "eager 0K, clear-to-send"),
        (near, 0, waits, "eager 0K, clear-to-send 16K-1, pipeline 512K, clear-to-send"),
        (RouteClass::Network, 256 << 10, unknown, "eager 256K, clear-to-send"),
        (RouteClass::Network, 0, unknown, "eager 0K, clear-to-send"),
    ] {
        assert_eq!(shown(route, limit, &situation), expected);
    }
}
