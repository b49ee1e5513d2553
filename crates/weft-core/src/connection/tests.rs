use super::*;
use crate::flow::Deliver;
use crate::refusal::RETRY_MIN;
use alloc::vec;

const TIMEOUT: Duration = Duration::from_secs(8);

/// The messages and data that the other end of a connection has been given.
#[derive(Default)]
struct Delivered {
    messages: Vec<Vec<u8>>,
    data: Vec<(u32, u64, Vec<u8>)>,
}

impl Deliver for Delivered {
    fn message(&mut self, body: &[u8]) {
        self.messages.push(body.to_vec());
    }

    fn data(&mut self, remote_key: u32, offset: u64, bytes: &[u8]) {
        self.data.push((remote_key, offset, bytes.to_vec()));
    }
}

/// Memory in which each byte tells its offset.
struct Memory;

impl Regions for Memory {
    fn read(&mut self, region: u32, offset: u64, out: &mut [u8]) {
        out.iter_mut().enumerate().for_each(|(i, byte)| *byte = (offset + i as u64 + u64::from(region)) as u8);
    }
}

fn pair(sealed: bool) -> [Connection; 2] {
    let settings = Settings {
        packet_size: 1000,
        sealed,
        peer_timeout: TIMEOUT,
        keepalive: Duration(TIMEOUT.0 / 8),
        ..Settings::default()
    };
    let settings = Arc::new(settings);
    let secret = Secret::new([3; 16]);
    [
        Connection::new(settings.clone(), &secret, &Parties::of_only_job(4, 9)),
        Connection::new(settings, &secret, &Parties::of_only_job(9, 4)),
    ]
}

/// The next packet, as the carrier takes it.
fn take(from: &mut Connection, now: Instant) -> Option<Vec<u8>> {
    let packet = from.poll_packet(now, &mut Memory)?.to_vec();
    from.taken();
    Some(packet)
}

/// Carries all packets across.
fn carry(from: &mut Connection, to: &mut Connection, now: Instant, delivered: &mut Delivered) {
    while let Some(packet) = take(from, now) {
        to.handle_packet(&packet, delivered);
    }
}

#[test]
fn messages_of_all_lengths_arrive_in_order_and_small_ones_share_packets() {
    for sealed in [false, true] {
        let [mut near, mut far] = pair(sealed);
        let mut delivered = Delivered::default();
        let most = near.frame_max();
        let lengths: Vec<usize> = (0..400).map(|i| if i % 7 == 0 { most } else { i % 90 }).collect();
        let messages: Vec<Vec<u8>> = lengths.iter().zip(0_u8..=255).map(|(length, i)| vec![i; *length]).collect();
        for message in &messages {
            let (head, payload) = message.split_at(message.len() / 3);
            near.submit_message(head, payload);
        }
        assert!(!near.is_idle() && near.queued_bytes() > 0 && near.next_timeout() == Some(Instant(0)));
        carry(&mut near, &mut far, Instant(5), &mut delivered);
        assert_eq!(delivered.messages, messages);
        assert!(near.is_idle() && near.queued_bytes() == 0 && near.next_timeout().is_none());
        let packets = near.counters().packets_sent as usize;
        assert!(packets < messages.len(), "{packets} packets");
        assert_eq!(far.counters().packets_received as usize, packets);
        // Long after its first 2³² packets nothing is different.
        (near.next, far.expected) = (5 << 32, 5 << 32);
        near.submit_message(b"later", &[]);
        carry(&mut near, &mut far, Instant(6), &mut delivered);
        assert_eq!(delivered.messages.last().unwrap(), b"later");
    }
}

#[test]
fn bulk_data_is_read_as_it_leaves_and_overtaken_by_messages() {
    for sealed in [false, true] {
        let [mut near, mut far] = pair(sealed);
        let mut delivered = Delivered::default();
        near.submit_data(77, 5, 10..10);
        assert!(near.is_idle());
        near.submit_data(77, 5, 100..5100);
        let first = take(&mut near, Instant(0)).unwrap();
        far.handle_packet(&first, &mut delivered);
        near.submit_message(b"urgent", &[]);
        let second = take(&mut near, Instant(0)).unwrap();
        far.handle_packet(&second, &mut delivered);
        assert_eq!((delivered.messages.len(), delivered.data.len()), (1, 1));
        carry(&mut near, &mut far, Instant(0), &mut delivered);
        let mut offset = 100;
        for (key, at, bytes) in &delivered.data {
            assert_eq!((*key, *at), (77, offset));
            let mut expected = vec![0; bytes.len()];
            Memory.read(5, offset, &mut expected);
            assert_eq!(*bytes, expected);
            offset += bytes.len() as u64;
        }
        assert_eq!(offset, 5100);
        // The carrier has a copy of the data that has left.   Expect: the program may have its memory back,
        // all 5000 bytes of it.
        assert_eq!(near.poll_event(), Some(Event::Acknowledged { region: 5, bytes: 5000 }));
        assert_eq!(near.poll_event(), None);
    }
}

#[test]
fn a_packet_that_the_carrier_has_no_room_for_stays_the_same_until_it_is_taken() {
    let [mut near, mut far] = pair(false);
    near.submit_message(b"one", &[]);
    let offered = near.poll_packet(Instant(0), &mut Memory).unwrap().to_vec();
    near.refused(Instant(7));
    near.submit_message(b"two", &[]);
    assert_eq!(near.next_timeout(), Some(Instant(7) + RETRY_MIN));
    assert_eq!(near.poll_packet(Instant(9), &mut Memory).unwrap(), offered);
    let mut delivered = Delivered::default();
    carry(&mut near, &mut far, Instant(9), &mut delivered);
    assert_eq!(delivered.messages, [b"one", b"two"]);
}

#[test]
fn a_packet_that_is_missing_for_too_long_breaks_the_connection_and_repeated_ones_do_not() {
    let [mut near, mut far] = pair(false);
    let mut delivered = Delivered::default();
    let packets: Vec<Vec<u8>> = (0_u8..3)
        .map(|i| {
            near.submit_message(&[i], &[]);
            take(&mut near, Instant(0)).unwrap()
        })
        .collect();
    far.handle_packet(&packets[0], &mut delivered);
    far.handle_packet(&packets[0], &mut delivered);
    assert_eq!((far.counters().duplicates, far.has_failed()), (1, false));
    far.handle_packet(&packets[2], &mut delivered);
    far.handle_packet(&packets[2], &mut delivered);
    assert_eq!((far.counters().duplicates, far.has_failed(), far.misses_packets()), (2, false, true));
    assert_eq!(delivered.messages, [[0]], "messages keep their order");
    let mut now = Instant(0);
    while !far.has_failed() {
        assert!(take(&mut far, now).is_none(), "it is not asked whether it lives unless somebody waits for it");
        now = now + Duration::from_millis(100);
        assert!(now.0 < 3 * far.settings.peer_timeout.0, "it fails in the end");
    }
    assert_eq!(far.poll_event(), Some(Event::PeerFailed { reason: Failure::Lost }));
    far.handle_packet(&packets[1], &mut delivered);
    assert_eq!(delivered.messages, [[0]]);
    assert!(far.next_timeout().is_none() && !far.misses_packets());
}

/// A packet that the receiver fetches comes after shorter ones that were sent later, as with libfabric's
/// `ofi_rxm`.
#[test]
fn packets_that_overtake_each_other_are_handed_on_in_order() {
    for sealed in [false, true] {
        for seed in 1..40_u64 {
            let [mut near, mut far] = pair(sealed);
            let mut packets = Vec::new();
            for i in 0..60_u8 {
                near.submit_message(&[i], &[]);
                packets.push(take(&mut near, Instant(0)).unwrap());
                near.submit_data(7, 0, u64::from(i) * 10..u64::from(i) * 10 + 10);
                packets.push(take(&mut near, Instant(0)).unwrap());
            }
            let (mut delivered, mut random) = (Delivered::default(), weft_random::Random::new(seed));
            while !packets.is_empty() {
                let index = random.below(packets.len().min(20) as u64) as usize;
                let packet = packets.remove(index);
                far.handle_packet(&packet, &mut delivered);
                if random.chance(250_000) {
                    far.handle_packet(&packet, &mut delivered);
                }
            }
            let expected: Vec<Vec<u8>> = (0..60).map(|i| vec![i]).collect();
            assert_eq!(delivered.messages, expected, "seed {seed}");
            assert_eq!((far.counters().packets_received, far.misses_packets()), (120, false), "seed {seed}");
            assert_eq!(far.early.bytes, 0);
        }
    }
}

#[test]
fn no_more_is_kept_behind_a_missing_packet_than_a_carrier_has() {
    let [mut near, mut far] = pair(false);
    let mut delivered = Delivered::default();
    for i in 0..EARLY_MAX as u32 + 2 {
        near.submit_message(&i.to_le_bytes(), &[]);
        let packet = take(&mut near, Instant(0)).unwrap();
        if i > 0 {
            far.handle_packet(&packet, &mut delivered);
        }
    }
    assert_eq!(far.poll_event(), Some(Event::PeerFailed { reason: Failure::Lost }));
    assert!(delivered.messages.is_empty() && far.early.packets.is_empty());
}

#[test]
fn what_others_make_is_counted_and_does_nothing() {
    let [mut near, mut far] = pair(false);
    let mut delivered = Delivered::default();
    near.submit_message(b"from the peer", &[]);
    let packet = take(&mut near, Instant(0)).unwrap();
    let mut forged = 0;
    for length in 0..packet.len() {
        far.handle_packet(&packet[..length], &mut delivered);
        forged += 1;
    }
    for at in 0..packet.len() {
        let mut other = packet.clone();
        other[at] ^= 1;
        far.handle_packet(&other, &mut delivered);
        forged += 1;
    }
    // The own packets of an end are not its peer's.
    far.submit_message(b"back", &[]);
    let own = take(&mut far, Instant(0)).unwrap();
    far.handle_packet(&own, &mut delivered);
    assert_eq!((far.counters().forged, far.has_failed()), (forged + 1, false));
    far.handle_packet(&packet, &mut delivered);
    assert_eq!(delivered.messages, [b"from the peer"]);
    // A peer may send packets that make no sense.
    for (kind, body) in [(MESSAGES, vec![9, 0, 1]), (DATA, vec![1; DATA_PREFIX - 1]), (PROBE, vec![1]), (0xe4, vec![])]
    {
        near.begin();
        near.ready.bytes.extend_from_slice(&body);
        near.finish(kind, HEADER_SIZE);
        carry(&mut near, &mut far, Instant(0), &mut delivered);
    }
    assert_eq!((far.counters().malformed, delivered.messages.len(), far.has_failed()), (4, 1, false));
}

#[test]
fn a_peer_that_is_waited_for_is_asked_and_one_that_does_not_answer_fails() {
    let [mut near, mut far] = pair(false);
    let mut delivered = Delivered::default();
    near.watch(true);
    let mut now = Instant(0);
    let second = Duration::from_secs(1);
    let mut asked = 0;
    // The peer answers for three times the timeout, though its program sends nothing.
    while now < Instant(0) + Duration(3 * TIMEOUT.0) {
        now = now + second;
        asked += u64::from(near.poll_packet(now, &mut Memory).is_some());
        carry(&mut near, &mut far, now, &mut delivered);
        carry(&mut far, &mut near, now, &mut delivered);
        assert!(!near.has_failed());
    }
    assert!(asked > 20 && far.counters().probes_received == asked, "{asked} questions");
    // From now on no packet comes back.
    let silent = now;
    while !near.has_failed() {
        now = now + second;
        assert!(now.since(silent) < Duration(2 * TIMEOUT.0), "a silent peer is waited for");
        take(&mut near, now);
    }
    assert!(now.since(silent) >= TIMEOUT);
    assert_eq!(near.poll_event(), Some(Event::PeerFailed { reason: Failure::Silent }));
}

#[test]
fn a_carrier_that_never_takes_a_packet_is_a_peer_that_does_not_answer() {
    let [mut near, _] = pair(false);
    near.submit_message(b"stuck", &[]);
    let mut now = Instant(0);
    while near.poll_packet(now, &mut Memory).is_some() {
        assert!(now.since(Instant(0)) < Duration(2 * TIMEOUT.0), "it waits for ever");
        near.refused(now);
        now = now + RETRY_MIN + Duration::from_millis(200);
    }
    assert_eq!(near.poll_event(), Some(Event::PeerFailed { reason: Failure::Silent }));
    assert!(near.is_idle());
}

#[test]
fn a_carrier_that_never_gets_rid_of_a_packet_is_a_peer_that_does_not_answer() {
    let [mut near, _] = pair(false);
    let second = Duration::from_secs(1);
    near.submit_message(b"stuck", &[]);
    let mut now = Instant(0);
    assert!(take(&mut near, now).is_some() && near.is_idle());
    // A carrier that has fewer packets each time is in order, however slow it is.
    for packets in (1..20).rev() {
        near.hold(packets, now);
        now = now + second;
    }
    let stuck = now;
    while near.poll_event().is_none() {
        assert!(now.since(stuck) < Duration(2 * TIMEOUT.0), "it waits for ever");
        near.hold(1, now);
        assert!(near.next_timeout().is_some_and(|next| next <= now + TIMEOUT) || near.has_failed());
        now = now + second;
    }
    assert!(near.has_failed() && now.since(stuck) >= TIMEOUT);
    // The last packet leaves, and long after that another one is taken: no silence in between counts.
    let [mut near, _] = pair(false);
    for (packets, at) in [(1, 0), (1, 1), (0, 2), (1, 100), (1, 101)] {
        near.hold(packets, Instant(0) + Duration::from_secs(at));
    }
    assert!(!near.has_failed() && near.silence.length == second);
}

#[test]
fn an_idle_connection_keeps_little() {
    let [mut near, mut far] = pair(true);
    near.submit_message(&[1; 500], &[]);
    carry(&mut near, &mut far, Instant(0), &mut Delivered::default());
    [&mut near, &mut far].into_iter().for_each(Connection::shrink);
    assert!(near.memory_bytes() <= crate::flow::IDLE_BYTES_MAX && far.memory_bytes() <= crate::flow::IDLE_BYTES_MAX);
}
