//! Packets on a multicast group: from strangers, from other jobs and groups, recorded and sent again, and
//! from a member that has gone mad.

use weft_core::multicast::wire::{Acknowledgement, Body, HEADER_SIZE, Packet, peek, seal};
use weft_core::multicast::{Destination, FIRST, Receiver, Scheme, Sender, Settings, StreamId};
use weft_core::time::{Duration, Instant};
use weft_core::wire::{Key, Secret};

use crate::{join, pieces};

const STREAM: StreamId = StreamId { context: 4, first: 0, generation: 1, root: 0 };
const WINDOW: u32 = 64;
const PACKET_SIZE: usize = 400;
/// The number of broadcasts with which the root begins, and the bytes of each.
const BROADCASTS: usize = 20;
const BROADCAST_BYTES: usize = 100;
/// The most packets asked of each side after a packet arrives.
const ANSWERS_MAX: usize = 64;
/// The virtual time after which every lost packet has been repaired.
const SETTLED: Duration = Duration::from_secs(10);

fn secret() -> Secret {
    Secret::new([5; 16])
}

fn settings(co_roots: u32) -> Settings {
    let scheme = Scheme { co_roots, ..Scheme::WINDOW };
    Settings { members: 3, packet_size: PACKET_SIZE, window: WINDOW, scheme, peer_timeout: Duration(0) }
}

/// A root, and a receiver that is the co-root of a second receiver, if there is one.
struct Pair {
    now: Instant,
    root: Sender,
    receiver: Receiver,
    other: Receiver,
    delivered: [Vec<Vec<u8>>; 2],
}

impl Pair {
    fn new(co_roots: u32) -> Self {
        let settings = settings(co_roots);
        let mut root = Sender::new(settings, STREAM, 0, &secret());
        for number in 0..BROADCASTS {
            root.submit(BROADCAST_BYTES, |room| room.fill(number as u8));
            root.end_broadcast();
        }
        let receiver = |member| Receiver::new(settings, STREAM, 0, member, &secret());
        Self { now: Instant(1), root, receiver: receiver(1), other: receiver(2), delivered: Default::default() }
    }

    /// Lets each member send the packets that are due, and delivers them unless the network loses them.
    fn exchange(&mut self, loses: bool) {
        let mut out = Vec::new();
        for from in 0..3 {
            for _ in 0..ANSWERS_MAX {
                let next = match from {
                    0 => self.root.poll(self.now, &mut out),
                    1 => self.receiver.poll(self.now, &mut out),
                    _ => self.other.poll(self.now, &mut out),
                };
                let Some(to) = next else { break };
                for member in 0..3 {
                    let is_for = to == Destination::Group || to == Destination::Member(member);
                    if member != from && is_for && !loses {
                        self.hand(member, &out);
                    }
                }
            }
        }
    }

    fn hand(&mut self, member: u32, packet: &[u8]) {
        let [first, second] = &mut self.delivered;
        match member {
            0 => self.root.handle(self.now, packet),
            1 => self.receiver.handle(self.now, packet, &mut |frame| first.push(frame.to_vec())),
            _ => self.other.handle(self.now, packet, &mut |frame| second.push(frame.to_vec())),
        }
    }
}

/// Feeds packets to the group. The first byte says whether there is a co-root, and whether tags are put
/// right. Without right tags no packet has any effect: all broadcasts arrive whole and in order.
pub(crate) fn stream(bytes: &[u8]) {
    let Some((how, rest)) = bytes.split_first() else { return };
    let (co_roots, is_authentic) = (u32::from(how & 1), how & 2 != 0);
    let mut group = Pair::new(co_roots);
    group.exchange(true);
    for piece in pieces(rest) {
        let mut packet = piece.to_vec();
        peek(&packet);
        if is_authentic && packet.len() >= HEADER_SIZE {
            let low: [u8; 4] = packet[32..36].try_into().unwrap_or_default();
            let number = FIRST & !0xffff_ffff | u64::from(u32::from_le_bytes(low));
            seal(&STREAM.key(&secret()), number, &mut packet);
        }
        (0..3).for_each(|member| group.hand(member, &packet));
        group.exchange(true);
        group.now = group.now + Duration::from_micros(50);
    }
    if is_authentic {
        return;
    }
    let until = group.now + SETTLED;
    while !(group.root.is_idle() && group.receiver.is_idle() && group.other.is_idle()) {
        assert!(group.now < until, "what strangers said keeps a broadcast from its receivers");
        group.exchange(false);
        group.now = group.now + Duration::from_micros(200);
    }
    for delivered in &group.delivered {
        let expected = (0..BROADCASTS).map(|number| vec![number as u8; BROADCAST_BYTES]);
        // If libFuzzer learnt the tag by watching comparisons, the packet would be a forgery, and would show
        // here.
        assert!(delivered.iter().cloned().eq(expected), "{} broadcasts", delivered.len());
    }
}

/// Packets of every kind by this stream, by other streams of the job and by another job; each of them twice.
pub(crate) fn stream_seeds() -> Vec<Vec<u8>> {
    let acknowledgement = Acknowledgement { expected: FIRST + 3, end: FIRST + 9, echo: None, map: vec![0b1010] };
    let bodies = [
        (FIRST, Body::Data),
        (FIRST + 3, Body::Data),
        (FIRST + 9, Body::Probe),
        (FIRST + 2, Body::Acknowledgement(acknowledgement)),
        (0, Body::Test),
    ];
    let make = |stream: StreamId, key: &Key, from: u32| {
        let one = |(number, body): &(u64, Body)| {
            let mut out = Vec::new();
            Packet { from, request: true, number: *number, body: body.clone() }.emit(&stream, &mut out);
            if *body == Body::Data {
                out.extend_from_slice(&[3, 0, b'a', b'b', b'c', 0, 0]);
            }
            seal(key, *number, &mut out);
            out
        };
        bodies.iter().map(one).collect::<Vec<_>>()
    };
    let others = StreamId { generation: 2, ..STREAM };
    let foreign = Secret::new([6; 16]);
    let mut packets = make(STREAM, &STREAM.key(&foreign), 0);
    packets.extend(make(others, &others.key(&secret()), 0));
    packets.extend(make(STREAM, &others.key(&secret()), 1));
    packets.extend(packets.clone());
    (0..4).map(|how| [&[how][..], &join(&packets)].concat()).collect()
}
