//! Packets that come over the network: from strangers, and from members of the job that have gone mad.

use weft_core::flow::{Deliver, FAR_PACKETS_MAX, Flow, Regions, Settings};
use weft_core::matching::Envelope;
use weft_core::message::{Frame, Head};
use weft_core::path_validation::{Ends, Keys, SIZE, is_path_frame};
use weft_core::process::{Parties, ProcessName};
use weft_core::rails::{self, Handled, Rails, Role};
use weft_core::time::{Duration, Instant};
use weft_core::wire::{Channel, Echo, Echoed, Key, Kind, Number, OVERHEAD_MAX, Packet, Piece, Secret, peek_sender};
use weft_engine::group::PeerId;
use weft_engine::memory::SharedBuffer;
use weft_engine::messages::{CREDIT_BYTES, CREDIT_PER_MESSAGE, Messages, Peer};
use weft_engine::request::{Receive, State};

use crate::{join, pieces};

fn secret() -> Secret {
    Secret::new([5; 16])
}
/// Messages that a flow is given to send before strangers speak.
const OWN_MESSAGES: usize = 20;
/// The most packets asked of a flow after a packet arrives.
const ANSWERS_MAX: usize = 64;
/// The most bytes that a flow of these settings may keep:
///
/// - the messages that it was given to send;
/// - a window of packets ahead of a missing one;
/// - pieces of 64 packets;
/// - its maps, which reach as far as on the longest path.
const FLOW_BYTES_MAX: usize = 64 * 600 * 2 + 64 * 600 * 5 + (64 << 10) + FAR_PACKETS_MAX as usize / 8;

/// Every form of packet, without a tag.
pub(crate) fn packet_seeds() -> Vec<Vec<u8>> {
    let number = Number::FIRST;
    let echo = Echo {
        of: Echoed::Packet { number, transmission: 1 },
        hold: Some(Duration::from_micros(3)),
        host_delay: Duration::from_micros(9),
    };
    let channels = [Channel::Messages { first: number }, Channel::Data { remote_key: 7, offset: 1 << 33, end: true }];
    let numbered = |channel| Kind::Numbered { number, transmission: 1, order: number.0 as u8, channel };
    let kinds = [
        Kind::Acknowledgement(number),
        Kind::Probe(number),
        Kind::Piece(number),
        numbered(channels[0]),
        numbered(channels[1]),
    ];
    let mut piece = vec![0; 64];
    let [channel, _] = channels;
    Piece { number, transmission: 1, order: 3, channel, request: false, whole: 60, at: 2 }.emit(&mut piece);
    let mut seeds = Vec::new();
    for kind in kinds {
        for echo in [None, Some(echo)] {
            let payload: &[u8] = match kind {
                Kind::Probe(_) => &[],
                Kind::Piece(_) => &piece,
                // The payload is runs, and a map.
                Kind::Acknowledgement(_) if echo.is_some() => &[3, 0x85, 1, 2, 4],
                Kind::Acknowledgement(_) => &[0xff; 16],
                Kind::Numbered { .. } => &[3, 0, b'a', b'b', b'c', 2, 0, b'd', b'e'],
            };
            let packet = Packet {
                sender: 1,
                acknowledged: number,
                selective: 5,
                echo,
                request: true,
                marked: true,
                path: u8::from(echo.is_some()),
                kind,
            };
            let mut bytes = vec![0; OVERHEAD_MAX];
            let length = packet.emit(payload.len(), &mut bytes);
            bytes.truncate(length);
            bytes.extend(payload);
            seeds.push(bytes);
        }
    }
    seeds
}

/// Parses a packet: writing the parsed packet must give the same bytes.
pub(crate) fn packet(bytes: &[u8]) {
    let Some((packet, payload)) = Packet::parse(bytes) else { return };
    assert_eq!(peek_sender(bytes), Some(packet.sender));
    let mut out = vec![0; OVERHEAD_MAX];
    let length = packet.emit(payload.len(), &mut out);
    out.truncate(length);
    out.extend(payload);
    assert_eq!(Packet::parse(&out), Some((packet, payload)));
}

struct Sink;

impl Deliver for Sink {
    fn message(&mut self, body: &[u8]) {
        let _ = Frame::parse(body);
    }

    fn data(&mut self, _: u32, _: u64, _: &[u8]) {}
}

impl Regions for Sink {
    fn read(&mut self, _: u32, _: u64, out: &mut [u8]) {
        out.fill(1);
    }
}

/// Feeds a flow with packets of a peer that has the key but breaks the protocol. The first byte says whether
/// packets are sealed, and whether tags are put right.
pub(crate) fn flow(bytes: &[u8]) {
    let Some((how, rest)) = bytes.split_first() else { return };
    let (sealed, authentic) = (how & 1 != 0, how & 2 != 0);
    let settings = Settings { packet_size: 600, window_packets: 64, sealed, ..Settings::default() };
    let mut flow = Flow::new(settings.into(), &secret(), &Parties::of_only_job(0, 1));
    (0..OWN_MESSAGES).for_each(|_| flow.submit_message(b"own", &[7; 100]));
    flow.submit_data(1, 2, 0..100_000);
    let key = Key::derive(&secret(), ProcessName::of_only_job(1), ProcessName::of_only_job(0));
    let (mut now, mut out) = (Instant(1), vec![0; 600]);
    for piece in pieces(rest) {
        let mut packet = piece.to_vec();
        if authentic && packet.len() >= 28 {
            key.write_tag(0, &mut packet);
        }
        flow.handle_packet(now, &packet, &mut Sink);
        for _ in 0..ANSWERS_MAX {
            if flow.poll_transmit(now, &mut Sink, &mut out).is_none() {
                break;
            }
        }
        while flow.poll_event().is_some() {}
        now = now + Duration::from_micros(50);
        let kept = flow.memory_bytes();
        assert!(kept <= FLOW_BYTES_MAX, "the flow keeps {kept} bytes");
    }
}

/// Packets one after the other; each is one that a flow might send.
pub(crate) fn flow_seeds() -> Vec<Vec<u8>> {
    let packets = packet_seeds();
    (0..4).map(|how| [&[how][..], &join(&packets)].concat()).collect()
}

/// Feeds questions whether a carrier works, by the peer or by strangers.
pub(crate) fn reach(bytes: &[u8]) {
    let mut rails = carriers();
    let keys = || Keys::new(&secret(), &Parties::of_only_job(0, 1));
    let asked = rails.poll_challenge(0, Instant(0), keys);
    assert!(asked.is_some() && (!is_path_frame(bytes) || bytes.len() == SIZE));
    // No made-up packet is answered or believed. (A fuzzer that watches comparisons learns the tag in time.)
    let is_made_up = keys().open(bytes).is_none();
    for carrier in [Role::SmallMessages, Role::BulkData] {
        let before = rails.forged();
        let answer = rails.handle(carrier, bytes, keys);
        assert!(!is_made_up || (answer == Handled::Nothing && rails.forged() == before + 1));
    }
    assert!(!is_made_up || (!rails.is_proved(0) && rails.is_proved(1)));
}

fn carriers() -> Rails {
    let ends = Ends { own: 0, peer: 0 };
    Rails::new(&[Role::SmallMessages, Role::BulkData].map(|carrier| rails::RailCarrier {
        role: carrier,
        rail: 0,
        ends,
        standby: false,
    }))
}

/// A question whether a carrier works.
pub(crate) fn reach_seeds() -> Vec<Vec<u8>> {
    let question =
        carriers().poll_challenge(0, Instant(0), || Keys::new(&Secret::new([6; 16]), &Parties::of_only_job(1, 0)));
    question.map(|question| question.to_vec()).into_iter().collect()
}

/// Feeds frames of a peer that has gone mad, some of them for receives that wait.
pub(crate) fn messages(bytes: &[u8]) {
    let (mut messages, mut peers) = (Messages::new(), Peer::new(|| 0));
    let buffer = SharedBuffer::new(4096);
    for tag in [Some(1), None] {
        let data = buffer.describe_all();
        let receive = Receive { context: Some(2), source: None, peer: None, tag, data, blocking: false };
        if let Ok(handle) = messages.add(State::Posted(receive), 0) {
            messages.post(handle, &mut peers);
        }
    }
    let (mut frames, mut length) = (0, 0);
    for frame in pieces(bytes) {
        messages.handle_frame(PeerId::new(1, 0), frame, &mut peers);
        frames += 1;
        length += frame.len() as u64;
        messages.outbox.clear();
    }
    let kept: u64 = messages.unexpected.iter().map(|(_, message)| message.total.min(length)).sum();
    assert!(messages.matcher.unexpected_count() <= frames);
    assert!(kept <= CREDIT_BYTES + CREDIT_PER_MESSAGE * frames as u64 + length * frames as u64);
}

/// Every kind of frame.
pub(crate) fn messages_seeds() -> Vec<Vec<u8>> {
    let envelope = Envelope { context: 2, source: 1, tag: 1 };
    let heads = [
        Head::eager(envelope, Some(3)),
        Head::eager_first(envelope, None, 8),
        Head::eager_more(),
        Head::rendezvous(envelope, 4, 1 << 20, Some(4096)),
        Head::clear_to_send(0, 1, 100, 100),
        Head::data(0, 0),
        Head::fin(0),
        Head::credit(1 << 19),
        Head::retract(2, 4),
        Head::retracted(4, true),
    ];
    let frames: Vec<Vec<u8>> = heads.iter().map(|head| [head.as_bytes(), b"four"].concat()).collect();
    let mut seeds: Vec<Vec<u8>> = frames.iter().map(|frame| join(std::slice::from_ref(frame))).collect();
    seeds.push(join(&frames));
    seeds
}
