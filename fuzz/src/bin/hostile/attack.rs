//! The hostile packets.

use weft_core::multicast::{FIRST, StreamId, WINDOW_MAX, wire as multicast};
use weft_core::process::ProcessName;
use weft_core::wire::{Channel, Key, Kind, Number, OVERHEAD_MAX, Packet, Secret, peek_sender};
use weft_fuzz::mutate::{Random, flip_bits};

use crate::sample::{Pool, Sample};

/// The number of times that a repeated packet comes in a row.
const REPEATED: usize = 64;
/// The longest packet that is made up.
const MADE_UP_MAX: usize = 1400;

/// A kind of hostile packet.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    make: fn(&Sample, &Pool, &mut Attack, &mut Random) -> Vec<u8>,
}

/// All kinds, equally often.
pub(crate) const KINDS: [Way; 8] = [
    Way { name: "replayed", make: |sample, _, _, _| sample.frame(&sample.packet) },
    Way { name: "repeated", make: |sample, _, _, _| sample.frame(&sample.packet) },
    Way { name: "truncated", make: truncated },
    Way { name: "with flipped bits", make: flipped },
    Way { name: "forged", make: forged },
    Way { name: "of another job", make: foreign },
    Way { name: "spliced", make: spliced },
    Way { name: "of noise", make: noise },
];
const REPEATED_KIND: usize = 1;

/// The attack's own job, and the counts of the packets that it has sent.
pub(crate) struct Attack {
    secret: Secret,
    number: u32,
    pub(crate) counts: [usize; KINDS.len()],
}

impl Attack {
    pub(crate) fn new(random: &mut Random) -> Self {
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&random.next_u64().to_le_bytes());
        Self { secret: Secret::new(secret), number: Number::FIRST.0, counts: [0; KINDS.len()] }
    }

    /// Makes the next frames.
    pub(crate) fn frames(&mut self, pool: &Pool, count: usize, random: &mut Random) -> Vec<Vec<u8>> {
        let mut frames = Vec::with_capacity(count);
        while frames.len() < count {
            // A packet that is repeated in a row is begun less often.
            let kind = match random.below(KINDS.len() * REPEATED) {
                0 => REPEATED_KIND,
                at => Some(at % KINDS.len()).filter(|kind| *kind != REPEATED_KIND).unwrap_or(0),
            };
            let times = if kind == REPEATED_KIND { REPEATED.min(count - frames.len()) } else { 1 };
            let sample = pool.pick(random);
            let frame = (KINDS[kind].make)(sample, pool, self, random);
            self.counts[kind] += times;
            frames.extend(std::iter::repeat_n(frame, times));
        }
        frames
    }
}

/// Cuts a packet; half of the headers have the new length.
fn truncated(sample: &Sample, _: &Pool, _: &mut Attack, random: &mut Random) -> Vec<u8> {
    let end = random.below(sample.packet.len());
    if random.below(2) == 0 {
        return sample.frame(&sample.packet[..end]);
    }
    let mut frame = sample.frame(&sample.packet);
    frame.truncate(frame.len() - sample.packet.len() + end);
    frame
}

fn flipped(sample: &Sample, _: &Pool, _: &mut Attack, random: &mut Random) -> Vec<u8> {
    let mut packet = sample.packet.clone();
    // The tag and the header are at the start.
    let end = if random.below(2) == 0 { packet.len() } else { packet.len().min(64) };
    flip_bits(&mut packet[..end], random);
    sample.frame(&packet)
}

/// Makes a packet whose tag is wrong, with a number near the genuine one.
fn forged(sample: &Sample, _: &Pool, _: &mut Attack, random: &mut Random) -> Vec<u8> {
    let mut packet = sample.packet.clone();
    packet[..8].copy_from_slice(&random.next_u64().to_le_bytes());
    let number = u32::from_le_bytes([packet[12], packet[13], packet[14], packet[15]]);
    let near = number.wrapping_add(random.below(2000) as u32).wrapping_sub(1000);
    packet[12..16].copy_from_slice(&near.to_le_bytes());
    sample.frame(&packet)
}

/// Makes a valid packet of a job with another secret.
fn foreign(sample: &Sample, _: &Pool, attack: &mut Attack, random: &mut Random) -> Vec<u8> {
    attack.number = attack.number.wrapping_add(1);
    if let Some(stream) = multicast::peek(&sample.packet) {
        return sample.frame(&foreign_to_group(&stream, attack, random));
    }
    let (sender, number) = (peek_sender(&sample.packet).unwrap_or(0), Number(attack.number));
    let payload = vec![1; random.below(MADE_UP_MAX) + 1];
    let channel = match random.below(2) {
        0 => Channel::Messages { first: number },
        _ => Channel::Data { remote_key: random.next_u64() as u32, offset: random.next_u64(), end: false },
    };
    let head = Packet {
        sender,
        acknowledged: number,
        selective: random.next_u64(),
        echo: None,
        request: true,
        marked: false,
        path: 0,
        kind: Kind::Numbered { number, transmission: 1, order: number.0 as u8, channel },
    };
    let mut packet = vec![0; OVERHEAD_MAX];
    let length = head.emit(payload.len(), &mut packet);
    packet.truncate(length);
    packet.extend(payload);
    Key::derive(&attack.secret, ProcessName::of_only_job(sender), ProcessName::of_only_job(1 - sender.min(1)))
        .write_tag(0, &mut packet);
    sample.frame(&packet)
}

/// Makes such a packet to a multicast group: one that the root would send next, or one that receivers would
/// send.
fn foreign_to_group(stream: &StreamId, attack: &Attack, random: &mut Random) -> Vec<u8> {
    let number = FIRST + u64::from(attack.number % (4 * WINDOW_MAX));
    let body = match random.below(3) {
        0 => multicast::Body::Test,
        1 => multicast::Body::Probe,
        _ => multicast::Body::Data,
    };
    let mut packet = Vec::new();
    multicast::Packet { from: random.below(3) as u32, request: true, number, body }.emit(stream, &mut packet);
    let payload = random.below(MADE_UP_MAX);
    packet.resize(packet.len() + payload, 1);
    multicast::seal(&stream.key(&attack.secret), number, &mut packet);
    packet
}

/// Joins the front of one packet and the back of another.
fn spliced(sample: &Sample, pool: &Pool, _: &mut Attack, random: &mut Random) -> Vec<u8> {
    let other = &pool.pick(random).packet;
    let (front, back) = (random.below(sample.packet.len()), random.below(other.len()));
    let mut packet = [&sample.packet[..front], &other[back..]].concat();
    packet.truncate(sample.packet.len().max(other.len()));
    sample.frame(&packet)
}

fn noise(sample: &Sample, _: &Pool, _: &mut Attack, random: &mut Random) -> Vec<u8> {
    let length = random.below(MADE_UP_MAX);
    let mut packet = Vec::with_capacity(length + 8);
    while packet.len() < length {
        packet.extend(random.next_u64().to_le_bytes());
    }
    packet.truncate(length);
    // A third of them look like a question whether a carrier works.
    if packet.len() >= 28 && random.below(3) == 0 {
        packet.truncate(28);
        packet[8..11].copy_from_slice(&sample.packet[8..11]);
        packet[11] = 0xff;
    }
    sample.frame(&packet)
}
