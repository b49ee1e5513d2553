//! The format of a multicast stream: its packets, probes for the packets that have arrived, and
//! acknowledgements.
//!
//! All numbers are little-endian.
//!
//! ```text
//!  0  tag          8   keyed hash of all that follows, and of its length (`wire/key.rs`); the key is
//!                      that of the stream
//!  8  mark         3   0xffffff: packets of flows have the number of a process there, and no process
//!                      has this number
//! 11  kind         1   1 data, 2 probe, 3 acknowledgement, 4 test, 5 slot, 6 piece;
//!                      bit 7: an acknowledgement is wanted at once
//! 12  context      4   the communicator's
//! 16  generation   4   tells the groups apart that have had this context
//! 20  root         4   rank of the process that sends the stream
//! 24  from         4   member that has made the packet
//! 28  first        4   number in the job of the communicator's first process: disjoint communicators
//!                      may have one context
//! 32  number       4   data: its own; probe: one past the last packet that has been sent;
//!                      acknowledgement: the first packet that may be missing at its sender, or at a
//!                      member whose acknowledgements its sender gathers;
//!                      test: ordinal of the attempt; piece: that of the data packet
//!     data: frames, each as length 2 and bytes
//!     slot: key 8, address 8: the place to which the receiver's acknowledgements are to be written
//!     piece: whole 2, at 2: length of the data packet, and the place in it of the bytes behind this
//!     test: zeros, so that it is as long as the longest packet
//!     acknowledgement:
//!       expected   4   the first packet that has not arrived at the sender itself
//!       end        4   one past the newest packet that the sender knows of: it asks for the packets
//!                      before that have not arrived
//!       echo       4   the number of the data packet or question that asked last for an acknowledgement
//!       hold       4   the time that it waited for this answer, 64 ns units; 0xffffffff: the answer
//!                      is to none, or it waited longer
//!       map        8 each, at most 16: bit i of word k: packet `expected + 1 + 64 k + i` has arrived
//! ```
//!
//! A packet that is sent again is the same in every byte, from whatever member: a member that repairs keeps
//! only the packet. A packet that does not get through, as where a path carries less than before, is sent
//! again in pieces. The receiver puts the same bytes together again.
//!
//! Numbers continue beyond 32 bits: the tag covers the part that does not travel.

use alloc::vec::Vec;

use crate::placement::RemoteMemory;
use crate::time::Duration;
use crate::wire::{Key, Secret};

/// Bytes in front of the frames of a packet.
pub const HEADER_SIZE: usize = 36;
/// Bytes in front of each frame.
pub const FRAME_PREFIX: usize = 2;
/// Packets beyond the first missing one that an acknowledgement can cover.
pub const MAP_PACKETS: u64 = 64 * MAP_WORDS_MAX as u64;
const MAP_WORDS_MAX: usize = 16;
/// Bytes in front of those of a piece.
pub(super) const PIECE_AT: usize = HEADER_SIZE + 4;
const ACKNOWLEDGEMENT_SIZE: usize = HEADER_SIZE + 16;
const MARK: u32 = 0x00ff_ffff;
const REQUEST: u8 = 0x80;
const HOLD_UNIT_NS: u64 = 64;
const HOLD_UNKNOWN: u32 = u32::MAX;

mod kind {
    pub(super) const DATA: u8 = 1;
    pub(super) const PROBE: u8 = 2;
    pub(super) const ACKNOWLEDGEMENT: u8 = 3;
    pub(super) const TEST: u8 = 4;
    pub(super) const SLOT: u8 = 5;
    pub(super) const PIECE: u8 = 6;
}

/// The name that tells the streams of a process apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    /// The communicator's context.
    pub context: u32,
    /// The number in the job of the communicator's first process: communicators that have no process in
    /// common may have one context.
    pub first: u32,
    /// A number that no other group of this context with this first process has had: contexts are given
    /// again.
    pub generation: u32,
    /// The rank in the communicator of the process that sends the stream.
    pub root: u32,
}

impl StreamId {
    /// The key that makes and verifies the tags of the stream's packets.
    pub fn key(&self, secret: &Secret) -> Key {
        Key::for_group(secret, [self.context, self.first, self.generation, self.root])
    }
}

/// The stream that a packet claims to be of; `None` if it claims to be of no multicast stream. Nothing is
/// proved until the packet is opened.
#[inline]
pub fn peek(bytes: &[u8]) -> Option<StreamId> {
    let is_stream = bytes.len() >= HEADER_SIZE && u32_at(bytes, 8) & MARK == MARK;
    is_stream.then(|| StreamId {
        context: u32_at(bytes, 12),
        generation: u32_at(bytes, 16),
        root: u32_at(bytes, 20),
        first: u32_at(bytes, 28),
    })
}

/// Returns whether a packet claims to be a test.
#[inline]
pub fn is_test(bytes: &[u8]) -> bool {
    bytes.get(11).is_some_and(|flags| flags & !REQUEST == kind::TEST)
}

/// Returns whether a packet claims to have frames.
pub(super) fn is_data(bytes: &[u8]) -> bool {
    bytes.get(11).is_some_and(|flags| flags & !REQUEST == kind::DATA)
}

/// The content of a packet beside its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Frames of the stream, behind [`HEADER_SIZE`] bytes.
    Data,
    /// The packets before its number have been sent.
    Probe,
    /// A report of the packets that have arrived.
    Acknowledgement(Acknowledgement),
    /// A test whether the network carries packets to this group.
    Test,
    /// The memory into which the receiver's acknowledgements may be written.
    Slot(RemoteMemory),
    /// Bytes of a data packet, behind `PIECE_AT` bytes: the length of the data packet, and their place in
    /// it.
    Piece(u16, u16),
}

/// The report of the packets that have arrived at one member.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Acknowledgement {
    /// The first packet that has not arrived at the member itself.
    pub expected: u64,
    /// One past the number of the newest packet that the member knows of.
    pub end: u64,
    /// The number of the last packet or question that asked for the acknowledgement, and the time that it
    /// waited for this answer.
    pub echo: Option<(u64, Duration)>,
    /// Bit i of word k: packet `expected + 1 + 64 k + i` has arrived.
    pub map: Vec<u64>,
}

impl Acknowledgement {
    /// The packets that have not arrived although they have been sent.
    pub fn missing(&self) -> impl Iterator<Item = u64> + '_ {
        let last = self.end.min(self.expected.saturating_add(MAP_PACKETS + 1));
        let has_arrived = |number: &u64| {
            let bit = number.checked_sub(self.expected + 1);
            bit.is_some_and(|bit| self.map.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1))
        };
        (self.expected..last).filter(move |number| !has_arrived(number))
    }

    /// Notes that packet `number` has arrived; a packet beyond the map is not reported.
    pub(super) fn note(&mut self, number: u64) {
        let Some(bit) = number.checked_sub(self.expected + 1).filter(|bit| *bit < MAP_PACKETS) else { return };
        let word = (bit / 64) as usize;
        if self.map.len() <= word {
            self.map.resize(word + 1, 0);
        }
        self.map[word] |= 1 << (bit % 64);
    }
}

/// An authentic packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The member that has made the packet.
    pub from: u32,
    /// An acknowledgement is wanted at once.
    pub request: bool,
    /// The packet's number; for a data packet and a probe a number of the stream, for an acknowledgement the
    /// first packet that does not count as arrived.
    pub number: u64,
    /// The content.
    pub body: Body,
}

/// The reason why bytes that claim to be of a stream are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The tag is not that of the stream: no member of the job made it, or it was damaged, or recorded long
    /// ago.
    Forged,
    /// The tag is right and the content is not.
    Malformed,
}

impl Packet {
    /// Verifies and parses a packet of the stream with this `key`. `near` is a number that is less than 2³¹
    /// from the packet's.
    ///
    /// # Errors
    /// When the bytes are no such packet.
    pub fn open(key: &Key, near: u64, bytes: &[u8]) -> Result<Self, Reject> {
        if bytes.len() < HEADER_SIZE {
            return Err(Reject::Forged);
        }
        let number = nearest(near, u32_at(bytes, 32));
        if !key.verify((number >> 32) as u32, bytes) {
            return Err(Reject::Forged);
        }
        let body = match bytes[11] & !REQUEST {
            kind::DATA => Body::Data,
            kind::PROBE if bytes.len() == HEADER_SIZE => Body::Probe,
            kind::TEST => Body::Test,
            kind::SLOT if bytes.len() == HEADER_SIZE + 16 => {
                let [key, address] = [u64_at(bytes, HEADER_SIZE), u64_at(bytes, HEADER_SIZE + 8)];
                Body::Slot(RemoteMemory { key, address })
            }
            kind::PIECE => {
                let length = bytes.get(PIECE_AT..).map_or(0, <[u8]>::len);
                let [whole, at] = [HEADER_SIZE, HEADER_SIZE + 2].map(|at| {
                    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |half| u16::from_le_bytes(*half))
                });
                if length == 0 || usize::from(at) + length > usize::from(whole) {
                    return Err(Reject::Malformed);
                }
                Body::Piece(whole, at)
            }
            kind::ACKNOWLEDGEMENT => {
                Body::Acknowledgement(parse_acknowledgement(number, bytes).ok_or(Reject::Malformed)?)
            }
            _ => return Err(Reject::Malformed),
        };
        Ok(Self { from: u32_at(bytes, 24), request: bytes[11] & REQUEST != 0, number, body })
    }

    /// Writes the packet without the frames of a data packet, the bytes of a piece, or the zeros of a test.
    /// The caller appends these; then [`seal`] completes the packet.
    pub fn emit(&self, stream: &StreamId, out: &mut Vec<u8>) {
        let kind = match &self.body {
            Body::Data => kind::DATA,
            Body::Probe => kind::PROBE,
            Body::Acknowledgement(_) => kind::ACKNOWLEDGEMENT,
            Body::Test => kind::TEST,
            Body::Slot(_) => kind::SLOT,
            Body::Piece(..) => kind::PIECE,
        };
        let flags = kind | if self.request { REQUEST } else { 0 };
        out.clear();
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&(MARK | u32::from(flags) << 24).to_le_bytes());
        for word in [stream.context, stream.generation, stream.root, self.from, stream.first, self.number as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        if let Body::Slot(RemoteMemory { key, address }) = &self.body {
            [key, address].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        if let Body::Piece(whole, at) = &self.body {
            [whole, at].iter().for_each(|half| out.extend_from_slice(&half.to_le_bytes()));
        }
        let Body::Acknowledgement(acknowledgement) = &self.body else { return };
        let hold = |hold: Duration| u32::try_from(hold.0 / HOLD_UNIT_NS).unwrap_or(HOLD_UNKNOWN);
        let (echo, hold) = acknowledgement.echo.map_or((0, HOLD_UNKNOWN), |(echo, time)| (echo, hold(time)));
        for word in [acknowledgement.expected as u32, acknowledgement.end as u32, echo as u32, hold] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        acknowledgement.map.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
}

/// The maker of pieces of a stream's packets.
pub(super) struct Cutter<'a> {
    pub(super) stream: &'a StreamId,
    pub(super) key: &'a Key,
    pub(super) from: u32,
}

impl Cutter<'_> {
    /// Writes the piece of data packet `number` that begins at byte `at`, with at most `size` bytes in all.
    /// Returns the beginning of the next piece.
    pub(super) fn cut(&self, number: u64, packet: &[u8], at: usize, size: usize, out: &mut Vec<u8>) -> usize {
        let end = packet.len().min(at + size - PIECE_AT);
        let body = Body::Piece(packet.len() as u16, at as u16);
        Packet { from: self.from, request: false, number, body }.emit(self.stream, out);
        out.extend_from_slice(&packet[at..end]);
        seal(self.key, number, out);
        end
    }
}

/// Asks for an acknowledgement in a packet that is not sealed yet.
pub(super) fn request(packet: &mut [u8]) {
    packet[11] |= REQUEST;
}

/// Writes the tag of the packet with this number, which is otherwise complete.
pub fn seal(key: &Key, number: u64, packet: &mut [u8]) {
    key.write_tag((number >> 32) as u32, packet);
}

/// The frames of a data packet; `None` in the place of bytes that are no frame, and then nothing follows.
pub fn frames(packet: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = packet.get(HEADER_SIZE..).unwrap_or(&[]);
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let frame = rest.split_first_chunk::<FRAME_PREFIX>().and_then(|(length, behind)| {
            let (frame, behind) = behind.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            rest = behind;
            Some(frame)
        });
        if frame.is_none() {
            rest = &[];
        }
        Some(frame)
    })
}

fn parse_acknowledgement(number: u64, bytes: &[u8]) -> Option<Acknowledgement> {
    let map = bytes.get(ACKNOWLEDGEMENT_SIZE..)?;
    if map.len() % 8 != 0 || map.len() > 8 * MAP_WORDS_MAX {
        return None;
    }
    let hold = u32_at(bytes, 48);
    let echo = || (nearest(number, u32_at(bytes, 44)), Duration(u64::from(hold) * HOLD_UNIT_NS));
    Some(Acknowledgement {
        expected: nearest(number, u32_at(bytes, 36)),
        end: nearest(number, u32_at(bytes, 40)),
        echo: (hold != HOLD_UNKNOWN).then(echo),
        map: map.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect(),
    })
}

/// The number whose low 32 bits are `low` that is nearest to `near`.
fn nearest(near: u64, low: u32) -> u64 {
    near.wrapping_add_signed(i64::from(low.wrapping_sub(near as u32) as i32))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const STREAM: StreamId = StreamId { context: 7, first: 9, generation: 0xdead_beef, root: 3 };

    fn key() -> Key {
        STREAM.key(&Secret::new([9; 16]))
    }

    fn packets() -> impl Strategy<Value = Packet> {
        let echo = prop::option::of((0u64..1000, 0u64..1 << 20));
        let acknowledgement = (0u64..1000, 0u64..1000, echo, prop::collection::vec(any::<u64>(), 0..=MAP_WORDS_MAX));
        let body = prop_oneof![
            Just(Body::Data),
            Just(Body::Probe),
            Just(Body::Test),
            (any::<u64>(), any::<u64>()).prop_map(|(key, address)| Body::Slot(RemoteMemory { key, address })),
            (8u16.., any::<u16>()).prop_map(|(whole, at)| Body::Piece(whole, at % (whole - 4))),
            acknowledgement.prop_map(|(expected, end, echo, map)| {
                let echo = echo.map(|(echo, hold)| ((1 << 40) + echo, Duration(hold * HOLD_UNIT_NS)));
                let (expected, end) = ((1 << 40) + expected, (1 << 40) + end);
                Body::Acknowledgement(Acknowledgement { expected, end, echo, map })
            }),
        ];
        (any::<u32>(), any::<bool>(), 0u64..1000, body).prop_map(|(from, request, number, body)| Packet {
            from,
            request,
            number: (1 << 40) + number,
            body,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_no_other_byte_is_believed(packet in packets(), at in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            packet.emit(&STREAM, &mut bytes);
            if let Body::Piece(..) = packet.body {
                bytes.extend_from_slice(&[1; 4]);
            }
            seal(&key(), packet.number, &mut bytes);
            prop_assert_eq!(peek(&bytes), Some(STREAM));
            prop_assert_eq!(Packet::open(&key(), 1 << 40, &bytes), Ok(packet.clone()));
            // The number four thousand million packets ago, and any damage.
            prop_assert_eq!(Packet::open(&key(), (1 << 40) - (1 << 32), &bytes), Err(Reject::Forged));
            bytes[at.index(HEADER_SIZE)] ^= 4;
            prop_assert_eq!(Packet::open(&key(), 1 << 40, &bytes), Err(Reject::Forged));
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200), near in any::<u64>()) {
            peek(&bytes);
            let mut bytes = bytes;
            frames(&bytes).for_each(drop);
            if bytes.len() >= HEADER_SIZE {
                let number = nearest(near, u32_at(&bytes, 32));
                seal(&key(), number, &mut bytes);
                let _ = Packet::open(&key(), near, &bytes);
            }
        }
    }

    #[test]
    fn frames_are_found_and_a_frame_that_is_cut_ends_the_packet() {
        let mut packet = vec![0; HEADER_SIZE];
        for frame in [&b"ab"[..], b"", b"c"] {
            packet.extend_from_slice(&(frame.len() as u16).to_le_bytes());
            packet.extend_from_slice(frame);
        }
        let all: Vec<_> = frames(&packet).collect();
        assert_eq!(all, [Some(&b"ab"[..]), Some(b""), Some(b"c")]);
        packet.pop();
        let cut: Vec<_> = frames(&packet).collect();
        assert_eq!(cut, [Some(&b"ab"[..]), Some(b""), None]);
    }

    #[test]
    fn what_is_missing_lies_before_the_newest_that_is_known() {
        let mut acknowledgement = Acknowledgement { expected: 100, end: 100, ..Acknowledgement::default() };
        assert_eq!(acknowledgement.missing().count(), 0);
        acknowledgement.end = 172;
        for number in [102, 103, 170] {
            acknowledgement.note(number);
        }
        let missing: Vec<_> = acknowledgement.missing().collect();
        let expected: Vec<_> = [100, 101].into_iter().chain(104..170).chain([171]).collect();
        assert_eq!(missing, expected);
        // A packet beyond the map is not reported.
        acknowledgement.note(100 + MAP_PACKETS + 1);
        acknowledgement.end = u64::MAX;
        assert_eq!(acknowledgement.missing().last(), Some(100 + MAP_PACKETS));
        assert_eq!(acknowledgement.map.len(), 2);
    }
}
