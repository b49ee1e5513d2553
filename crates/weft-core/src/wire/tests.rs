use super::*;
use crate::process::ProcessName;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

const SECRET: [u8; 16] = *b"a job's secret..";

fn secret() -> Secret {
    Secret::new(SECRET)
}

const EPOCH: u32 = 7;

fn key() -> Key {
    Key::derive(&secret(), ProcessName::of_only_job(3), ProcessName::of_only_job(5))
}

fn numbers() -> impl Strategy<Value = Number> {
    prop_oneof![any::<u32>(), (u32::MAX - 3)..=u32::MAX, 0u32..3].prop_map(Number)
}

fn echoes() -> impl Strategy<Value = Option<Echo>> {
    let of = prop_oneof![
        (numbers(), 1..=u8::MAX).prop_map(|(number, transmission)| Echoed::Packet { number, transmission }),
        numbers().prop_map(Echoed::Probe),
    ];
    // Hold times survive the trip as multiples of 64 ns.
    let hold = prop::option::of((0u64..HOLD_UNKNOWN.into()).prop_map(|units| Duration(units * HOLD_UNIT_NS)));
    let host_delay = any::<u16>().prop_map(|units| Duration(u64::from(units) * HOST_DELAY_UNIT_NS));
    prop::option::of((of, hold, host_delay).prop_map(|(of, hold, host_delay)| Echo { of, hold, host_delay }))
}

fn payloads() -> impl Strategy<Value = (Kind, Vec<u8>)> {
    let numbered = |number, transmission: u8, channel| {
        let order = transmission.wrapping_mul(37);
        Kind::Numbered { number, transmission: transmission.max(1), order, channel }
    };
    let message = prop::collection::vec(any::<u8>(), 0..40);
    let messages = (numbers(), any::<u8>(), numbers(), prop::collection::vec(message, 1..6)).prop_map(
        move |(number, transmission, first, list)| {
            let mut payload = Vec::new();
            for message in &list {
                payload.extend_from_slice(&(message.len() as u16).to_le_bytes());
                payload.extend_from_slice(message);
            }
            (numbered(number, transmission, Channel::Messages { first }), payload)
        },
    );
    let bytes = prop::collection::vec(any::<u8>(), 1..300);
    let data = (numbers(), any::<u8>(), any::<u32>(), 0u64..u64::MAX - 300, any::<bool>(), bytes).prop_map(
        move |(number, transmission, remote_key, offset, end, bytes)| {
            (numbered(number, transmission, Channel::Data { remote_key, offset, end }), bytes)
        },
    );
    let map = prop::collection::vec(any::<u64>(), 0..=MAP_WORDS_MAX);
    let bare = (numbers(), map).prop_map(|(number, map)| {
        (Kind::Acknowledgement(number), map.iter().flat_map(|word| word.to_le_bytes()).collect())
    });
    let runs = prop::collection::vec((0u32..5_000, 0u32..20_000), 1..30);
    let runs = (numbers(), runs).prop_map(|(number, runs)| {
        let mut out = vec![0; 300];
        let mut writer = RunWriter::new(&mut out);
        assert!(runs.into_iter().all(|(missing, arrived)| writer.run(missing, arrived)));
        let length = writer.finish();
        out.truncate(length);
        (Kind::Acknowledgement(number), out)
    });
    let piece = prop::collection::vec(any::<u8>(), 1 + PIECE_PREFIX..300);
    let pieces = (numbers(), piece).prop_map(|(number, payload)| (Kind::Piece(number), payload));
    prop_oneof![bare, runs, pieces, numbers().prop_map(|number| (Kind::Probe(number), vec![])), messages, data]
}

fn packets() -> impl Strategy<Value = (Packet, Vec<u8>)> {
    let path = 0..PATHS_MAX as u8;
    (0..=SENDER_MAX, numbers(), any::<u64>(), echoes(), any::<[bool; 2]>(), path, payloads()).prop_map(
        |(sender, acknowledged, selective, echo, [request, marked], path, (kind, payload))| {
            // Only a packet with a number is acknowledged.
            let request = request && matches!(kind, Kind::Numbered { .. });
            (Packet { sender, acknowledged, selective, echo, request, marked, path, kind }, payload)
        },
    )
}

fn plain(kind: Kind) -> Packet {
    let (sender, acknowledged) = (3, Number(0));
    Packet { sender, acknowledged, selective: 0, echo: None, request: false, marked: false, path: 0, kind }
}

fn emitted(packet: &Packet, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; OVERHEAD_MAX + payload.len()];
    let at = packet.emit(payload.len(), &mut out);
    out[at..at + payload.len()].copy_from_slice(payload);
    out.truncate(at + payload.len());
    key().write_tag(EPOCH, &mut out);
    out
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed((packet, payload) in packets()) {
        let bytes = emitted(&packet, &payload);
        prop_assert!(bytes.len() <= payload.len() + OVERHEAD_MAX);
        prop_assert_eq!(peek_sender(&bytes), Some(packet.sender));
        prop_assert_eq!(Packet::open(&key(), EPOCH, &bytes), Ok((packet, &payload[..])));
    }

    #[test]
    fn a_changed_bit_is_noticed_wherever_it_is((packet, payload) in packets(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = emitted(&packet, &payload);
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        prop_assert_eq!(Packet::open(&key(), EPOCH, &bytes), Err(Reject::Forged));
    }

    #[test]
    fn a_changed_length_is_noticed((packet, payload) in packets(), cut in 1usize..30) {
        let mut bytes = emitted(&packet, &payload);
        let whole = bytes.len();
        bytes.truncate(whole.saturating_sub(cut));
        prop_assert_eq!(Packet::open(&key(), EPOCH, &bytes), Err(Reject::Forged));
        bytes.resize(whole + cut, 0);
        prop_assert_eq!(Packet::open(&key(), EPOCH, &bytes), Err(Reject::Forged));
    }

    #[test]
    fn any_bytes_are_harmless(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = peek_sender(&bytes);
        prop_assert_eq!(Packet::open(&key(), EPOCH, &bytes), Err(Reject::Forged));
    }

    #[test]
    fn any_authentic_bytes_are_harmless(mut bytes in prop::collection::vec(any::<u8>(), HEADER_SIZE..200), flags in any::<u8>(), length in 0u8..200) {
        bytes[11] = flags;
        for at in [HEADER_SIZE, HEADER_SIZE + ECHO_SIZE] {
            if at + 1 < bytes.len() { bytes[at..at + 2].copy_from_slice(&[length, 0]); }
        }
        key().write_tag(EPOCH, &mut bytes);
        if let Ok((packet, payload)) = Packet::open(&key(), EPOCH, &bytes)
            && let Kind::Numbered { channel: Channel::Messages { .. }, .. } = packet.kind
        {
            let total: usize = Frames::new(payload).map(|message| message.len() + FRAME_PREFIX).sum();
            prop_assert_eq!(total, payload.len());
        }
    }

    #[test]
    fn numbers_compare_across_the_wrap(start in any::<u32>(), distance in 1u32..(1 << 31)) {
        let (early, late) = (Number(start), Number(start).plus(distance));
        prop_assert!(late.is_after(early) && !early.is_after(late) && !early.is_after(early));
        prop_assert_eq!(late.since(early), distance as i32);
    }
}

#[test]
fn a_packet_fits_only_its_pair_and_direction() {
    let bytes = emitted(&plain(Kind::Acknowledgement(Number(0))), &[]);
    assert!(Key::derive(&secret(), ProcessName::of_only_job(3), ProcessName::of_only_job(5)).verify(EPOCH, &bytes));
    for (sender, receiver) in [(5, 3), (3, 6), (4, 5), (3, 3)] {
        assert!(
            !Key::derive(&secret(), ProcessName::of_only_job(sender), ProcessName::of_only_job(receiver))
                .verify(EPOCH, &bytes)
        );
    }
    assert!(
        !Key::derive(&Secret::new(*b"another secret.."), ProcessName::of_only_job(3), ProcessName::of_only_job(5))
            .verify(EPOCH, &bytes)
    );
}

#[test]
fn a_packet_fits_only_its_epoch() {
    // Receive a packet that was sent 2³² numbers ago.   Expect: forged.
    let bytes = emitted(&plain(Kind::Acknowledgement(Number(0))), &[]);
    assert_eq!(Packet::open(&key(), EPOCH + 1, &bytes), Err(Reject::Forged));
}

#[test]
fn a_long_hold_is_unknown_rather_than_wrong() {
    let echo =
        Echo { of: Echoed::Probe(Number(9)), hold: Some(Duration::from_secs(5)), host_delay: Duration::from_secs(5) };
    let packet = Packet { echo: Some(echo), ..plain(Kind::Acknowledgement(Number(0))) };
    let bytes = emitted(&packet, &[]);
    let (parsed, _) = Packet::open(&key(), EPOCH, &bytes).expect("authentic");
    let echo = parsed.echo.expect("an echo");
    assert_eq!((echo.hold, echo.host_delay.as_micros()), (None, 67_107));
}

#[test]
fn runs_that_are_cut_too_long_or_of_too_many_packets_are_refused() {
    let parses = |runs: &[u8]| Packet::parse(&emitted(&plain(Kind::Acknowledgement(Number(1))), runs)).is_some();
    assert!(parses(&[5, 0x80 | 1, 2, 3, 4]), "5 missing, 257 there, 3 missing, 4 there");
    assert!(!parses(&[5, 0x80 | 1]), "the end of a number is missing");
    assert!(!parses(&[5, 0x80, 0x80, 0x80, 1]), "four bytes");
    // 2²⁰ packets, and one more.
    assert!(parses(&[0x80, 0x80, 0x40]) && !parses(&[0x80, 0x80, 0x40, 1]));
}

proptest! {
    #[test]
    fn what_is_written_of_a_piece_is_read(
        number in numbers(),
        channel in prop_oneof![
            numbers().prop_map(|first| Channel::Messages { first }),
            (any::<u32>(), any::<u64>(), any::<bool>())
                .prop_map(|(remote_key, offset, end)| Channel::Data { remote_key, offset, end }),
        ],
        (transmission, order, request, whole, at) in (1..=u8::MAX, any::<u8>(), any::<bool>(), any::<u16>(), any::<u16>()),
        bytes in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let piece = Piece { number, transmission, order, channel, request, whole, at };
        let mut out = vec![0xee; PIECE_PREFIX];
        prop_assert_eq!(piece.emit(&mut out), PIECE_PREFIX);
        out.extend_from_slice(&bytes);
        prop_assert_eq!(Piece::parse(&out), Some((piece, &bytes[..])));
        prop_assert_eq!(piece.holds(&bytes), !bytes.is_empty() && usize::from(at) + bytes.len() <= usize::from(whole));
    }
}
