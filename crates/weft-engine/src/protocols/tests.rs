use super::*;

const SIZES: [u64; 17] = [
    0,
    8,
    4 << 10,
    RING_PIECE_BYTES,
    RING_PIECE_BYTES + 1,
    SINGLE_COPY_BYTES_MIN - 1,
    SINGLE_COPY_BYTES_MIN,
    SINGLE_COPY_BYTES_MIN + 1,
    BUSY_EAGER_MAX + 1,
    COOPERATIVE_BYTES_MIN - 1,
    COOPERATIVE_BYTES_MIN,
    STREAMED_PIPE_BYTES_MAX,
    STREAMED_PIPE_BYTES_MAX + 1,
    PIPE_BYTES_MAX,
    PIPE_BYTES_MAX + 1,
    1 << 30,
    u64::MAX / 2,
];
const LIMITS: [u64; 4] = [0, 8 << 10, 64 << 10, 256 << 10];
const ROUTES: [RouteFacts; 7] = [
    RouteFacts::Myself,
    RouteFacts::Ring { frame_max: 4 << 10, is_near: true },
    RouteFacts::Ring { frame_max: 4 << 10, is_near: false },
    RouteFacts::Ring { frame_max: 1 << 20, is_near: true },
    RouteFacts::Ring { frame_max: 1 << 20, is_near: false },
    RouteFacts::Network { queued: 0 },
    RouteFacts::Network { queued: BUSY_BYTES + 1 },
];
const WISHES: [Wish; 3] = [Wish::None, Wish::Posted, Wish::Awaited];

/// All facts, for each size and limit.
fn each(mut look: impl FnMut(&Facts)) {
    for (bytes, eager_limit, route, posted) in SIZES.into_iter().flat_map(|bytes| {
        LIMITS.into_iter().flat_map(move |limit| {
            ROUTES
                .into_iter()
                .flat_map(move |route| WISHES.into_iter().map(move |posted| (bytes, limit, route, posted)))
        })
    }) {
        for bits in 0..1 << 7 {
            let bit = |place: u32| bits >> place & 1 == 1;
            look(&Facts {
                bytes,
                is_synchronous: bit(0),
                is_blocking: bit(1),
                is_contiguous: bit(2),
                eager_limit,
                has_credit: bit(3),
                route,
                receiver: Receiver { posted, is_inside: bit(4), has_announced: bit(5) },
                write_failed: bit(6),
            });
        }
    }
}

/// What holds whatever is known.   Expect: what goes beyond credit or limits is announced, what is written has a receive that it is written
/// to, a choice after a failed write is another one, and only what a process of this node could read has an address.
#[test]
fn every_choice_keeps_the_promises_that_others_rely_on() {
    let mut choices = 0;
    each(|facts| {
        choices += 1;
        let (protocol, reason) = choose(facts);
        let is_ring = matches!(facts.route, RouteFacts::Ring { .. });
        match protocol {
            Protocol::Eager => {
                assert!(facts.has_credit, "{facts:?}");
                let is_piped = reason == Reason::BothWait;
                assert!(facts.bytes <= eager_max(facts) || (is_piped && is_ring && facts.bytes <= PIPE_BYTES_MAX));
                assert!(!is_piped || (!facts.is_synchronous && facts.is_blocking && facts.receiver.is_inside));
            }
            Protocol::WriteToPosted => {
                assert!(facts.receiver.posted != Wish::None && facts.bytes >= SINGLE_COPY_BYTES_MIN, "{facts:?}");
                assert!(!facts.write_failed);
                let again = choose(&Facts { write_failed: true, ..*facts });
                assert!(again.0 != Protocol::WriteToPosted, "{facts:?}");
            }
            Protocol::Announce { with_address, is_cooperative } => {
                assert!(!with_address || (facts.is_contiguous && !matches!(facts.route, RouteFacts::Network { .. })));
                assert!(!is_cooperative || (facts.is_blocking && facts.bytes >= COOPERATIVE_BYTES_MIN));
                assert!(!matches!(reason, Reason::Fits | Reason::BothWait | Reason::Posted), "{facts:?}");
            }
        }
        // An answer to a synchronous message must not overtake its last piece.
        if let (Protocol::Eager, true, RouteFacts::Ring { frame_max, .. }) =
            (protocol, facts.is_synchronous, facts.route)
        {
            assert!(facts.bytes <= frame_max.min(RING_PIECE_BYTES));
        }
    });
    assert_eq!(choices, SIZES.len() * LIMITS.len() * ROUTES.len() * WISHES.len() * 128);
}

/// What the receiver does matters only for messages that are large enough for a single copy.
#[test]
fn small_messages_ignore_the_receiver() {
    each(|facts| {
        if facts.bytes < SINGLE_COPY_BYTES_MIN {
            let unknown = Facts { receiver: Receiver::UNKNOWN, write_failed: false, ..*facts };
            assert_eq!(choose(facts), choose(&unknown), "{facts:?}");
        }
    });
}

/// What a carrier would rather write is announced from there on, unless the user has said a limit; no route has more than others by itself.
#[test]
fn a_carrier_that_writes_lowers_the_limit_where_nobody_has_said_one() {
    assert_eq!(eager_limit(None, u64::MAX), EAGER_LIMIT);
    assert_eq!(eager_limit(None, 20 << 10), 20 << 10);
    assert_eq!(eager_limit(None, 1 << 20), EAGER_LIMIT);
    for said in LIMITS {
        assert!([0, 20 << 10, u64::MAX].into_iter().all(|above| eager_limit(Some(said), above) == said));
    }
}

/// The table as people know it, one line for each kind of message.
#[test]
fn the_choices_that_users_meet_most_often() {
    let base = Facts {
        bytes: 8,
        is_synchronous: false,
        is_blocking: true,
        is_contiguous: true,
        eager_limit: 64 << 10,
        has_credit: true,
        route: RouteFacts::Ring { frame_max: 1 << 20, is_near: true },
        receiver: Receiver::UNKNOWN,
        write_failed: false,
    };
    let network = RouteFacts::Network { queued: 0 };
    let busy = RouteFacts::Network { queued: 1 << 20 };
    let (waits, computes) = (
        Receiver { posted: Wish::Awaited, is_inside: true, has_announced: false },
        Receiver { posted: Wish::Posted, is_inside: false, has_announced: false },
    );
    let announce = |with_address, is_cooperative| Protocol::Announce { with_address, is_cooperative };
    let table = [
        (base, Protocol::Eager, Reason::Fits),
        (Facts { route: network, bytes: 64 << 10, ..base }, Protocol::Eager, Reason::Fits),
        (Facts { route: busy, bytes: 64 << 10, is_blocking: false, ..base }, announce(false, false), Reason::Busy),
        (Facts { route: network, bytes: 1 << 20, ..base }, announce(false, true), Reason::TooLong),
        (Facts { has_credit: false, ..base }, announce(true, false), Reason::NoCredit),
        (Facts { bytes: 1 << 20, receiver: computes, ..base }, Protocol::WriteToPosted, Reason::Posted),
        (Facts { bytes: 256 << 10, receiver: waits, ..base }, Protocol::Eager, Reason::BothWait),
        (Facts { bytes: 1 << 20, receiver: waits, ..base }, announce(false, true), Reason::Fetched),
        (Facts { bytes: 1 << 20, receiver: waits, is_blocking: false, ..base }, announce(true, false), Reason::Fetched),
    ];
    for (facts, protocol, reason) in table {
        assert_eq!(choose(&facts), (protocol, reason), "{facts:?}");
    }
}
