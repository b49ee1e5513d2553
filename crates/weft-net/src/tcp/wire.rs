//! The bytes of a connection: a greeting by the process that connects, the word by which the other process
//! accepts it, and then frames in both directions.
//!
//! All numbers are little-endian.
//!
//! ```text
//! greeting:  "weftTCP1" 8, token of the process that listens 8, token of the process that connects 8
//! accepted:  length 3 = 0, kind 1 = 0x41
//! packet:    length 3, kind 1 = 0x50; then the packet
//! write:     length 3 = 24, kind 1 = 0x57; key 8, address 8, bytes 8; then the bytes
//! unasked:   length 3 = 24, kind 1 = 0x55; name 8, address 8, bytes 8; then the bytes
//! ```
//!
//! Nothing in them is trusted: [`Parser`] takes bytes of any origin apart.

use std::ops::Range;

/// The first bytes of a connection.
const MAGIC: [u8; 8] = *b"weftTCP1";
/// Bytes of a greeting.
pub(super) const GREETING_BYTES: usize = 24;
/// Bytes in front of each frame.
pub(super) const HEAD_BYTES: usize = 4;
/// Bytes of the description of a write.
const WRITE_BYTES: usize = 24;
/// Bytes in front of the data of a write.
pub(super) const WRITE_HEAD_BYTES: usize = HEAD_BYTES + WRITE_BYTES;

const ACCEPTED: u8 = 0x41;
const PACKET: u8 = 0x50;
const WRITE: u8 = 0x57;
const UNASKED: u8 = 0x55;

/// Makes the greeting of a process with the token `own` to the process with the token `peer`.
pub(super) fn greeting(own: u64, peer: u64) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&peer.to_le_bytes());
    bytes[16..].copy_from_slice(&own.to_le_bytes());
    bytes
}

fn head(kind: u8, length: usize) -> [u8; HEAD_BYTES] {
    (u32::from(kind) << 24 | length as u32).to_le_bytes()
}

/// Makes the word by which a greeting is accepted.
pub(super) fn accepted() -> [u8; HEAD_BYTES] {
    head(ACCEPTED, 0)
}

/// Makes the bytes in front of a packet, which is shorter than 2^24 bytes.
pub(super) fn packet_head(length: usize) -> [u8; HEAD_BYTES] {
    head(PACKET, length)
}

/// A write to memory of the process that receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// The key of the memory; of an unasked write, the sender's name for it.
    pub(super) key: u64,
    /// The first byte, as the carrier of that process counts.
    pub(super) address: u64,
    /// The number of bytes.
    pub(super) bytes: u64,
    /// Set if the receiver has not asked for it.
    pub(super) is_unasked: bool,
}

impl Write {
    /// Makes the bytes in front of the data.
    pub(super) fn head(&self) -> [u8; WRITE_HEAD_BYTES] {
        let mut bytes = [0; WRITE_HEAD_BYTES];
        let kind = if self.is_unasked { UNASKED } else { WRITE };
        bytes[..HEAD_BYTES].copy_from_slice(&head(kind, WRITE_BYTES));
        let words = [self.key, self.address, self.bytes];
        for (to, word) in bytes[HEAD_BYTES..].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads the bytes in front of the data; `None` if they are something else.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (start, words) = bytes.first_chunk::<WRITE_HEAD_BYTES>()?.split_first_chunk::<HEAD_BYTES>()?;
        let is_unasked = *start == head(UNASKED, WRITE_BYTES);
        (is_unasked || *start == head(WRITE, WRITE_BYTES)).then(|| Self::of_words(words, is_unasked))
    }

    fn of_words(words: &[u8], is_unasked: bool) -> Self {
        Self { key: word(words), address: word(&words[8..]), bytes: word(&words[16..]), is_unasked }
    }
}

/// A part of what has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A greeting, by the process with this token.
    Greeting(u64),
    /// The greeting of this end has been accepted.
    Accepted,
    /// A packet: its place in the bytes.
    Packet(Range<usize>),
    /// The beginning of a write, or a further part of the same write: the place of the data in the bytes.
    Data(Write, Range<usize>),
}

/// The bytes with which a direction of a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// A greeting that shows this token.
    Greeting(u64),
    /// The word by which a greeting is accepted.
    Accepted,
    /// Frames.
    Frames,
}

/// The state of one direction of a connection.
#[derive(Debug)]
pub(super) struct Parser {
    /// The bytes that come next.
    beginning: Beginning,
    /// The most bytes of a packet.
    packet_max: usize,
    /// The rest of the write whose data is arriving.
    write: Option<Write>,
}

/// The error that bytes are none of this protocol, or a stranger's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wrong;

impl Parser {
    pub(super) fn new(beginning: Beginning, packet_max: usize) -> Self {
        Self { beginning, packet_max, write: None }
    }

    /// The write whose data comes next.
    pub(super) fn write(&self) -> Option<Write> {
        self.write
    }

    /// Returns whether the next byte is the first one of a frame.
    pub(super) fn is_between_frames(&self) -> bool {
        self.beginning == Beginning::Frames && self.write.is_none()
    }

    /// Begins a write whose head, the next frame's, has been taken already.
    pub(super) fn begin_write(&mut self, write: Write) {
        self.write = Some(write);
    }

    /// Notes that the next `count` bytes of the write have been taken.
    pub(super) fn written(&mut self, count: u64) {
        if let Some(write) = &mut self.write {
            write.address = write.address.wrapping_add(count);
            write.bytes -= count;
            if write.bytes == 0 {
                self.write = None;
            }
        }
    }

    /// Takes the next part out of `bytes`, and moves `at` behind it. `None`: no further part is complete, and
    /// the bytes from `at` on must be given again.
    ///
    /// # Errors
    /// The bytes are none of this protocol.
    pub(super) fn next(&mut self, bytes: &[u8], at: &mut usize) -> Result<Option<Part>, Wrong> {
        let rest = &bytes[*at..];
        if let Beginning::Greeting(token) = self.beginning {
            let Some(greeting) = rest.first_chunk::<GREETING_BYTES>() else { return Ok(None) };
            if greeting[..8] != MAGIC || word(&greeting[8..]) != token {
                return Err(Wrong);
            }
            self.beginning = Beginning::Frames;
            *at += GREETING_BYTES;
            return Ok(Some(Part::Greeting(word(&greeting[16..]))));
        }
        if let Some(write) = self.write {
            let count = write.bytes.min(rest.len() as u64);
            if count == 0 {
                return Ok(None);
            }
            let range = *at..*at + count as usize;
            *at = range.end;
            self.written(count);
            return Ok(Some(Part::Data(Write { bytes: count, ..write }, range)));
        }
        let Some(head) = rest.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let head = u32::from_le_bytes(*head);
        let (kind, length) = ((head >> 24) as u8, (head & 0x00ff_ffff) as usize);
        if self.beginning == Beginning::Accepted {
            if (kind, length) != (ACCEPTED, 0) {
                return Err(Wrong);
            }
            self.beginning = Beginning::Frames;
            *at += HEAD_BYTES;
            return Ok(Some(Part::Accepted));
        }
        match kind {
            PACKET if length <= self.packet_max => {}
            WRITE | UNASKED if length == WRITE_BYTES => {}
            _ => return Err(Wrong),
        }
        if rest.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        let range = *at + HEAD_BYTES..*at + HEAD_BYTES + length;
        *at = range.end;
        if kind == PACKET {
            return Ok(Some(Part::Packet(range)));
        }
        let write = Write::of_words(&bytes[range], kind == UNASKED);
        if write.bytes == 0 {
            return Err(Wrong);
        }
        self.write = Some(write);
        self.next(bytes, at)
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// Packets, and data with its place.
pub(super) type Parts = (Vec<Vec<u8>>, Vec<(u64, u8)>);

/// Takes `stream` apart as it arrives in pieces of `step` bytes.
///
/// # Errors
/// As for [`Parser::next`].
pub(super) fn take_apart(stream: &[u8], step: usize, mut parser: Parser) -> Result<Parts, Wrong> {
    let (mut kept, mut packets, mut data) = (Vec::new(), Vec::new(), Vec::new());
    for piece in stream.chunks(step.max(1)) {
        kept.extend_from_slice(piece);
        let mut at = 0;
        while let Some(part) = parser.next(&kept, &mut at)? {
            match part {
                Part::Greeting(_) | Part::Accepted => {}
                Part::Packet(range) => packets.push(kept[range].to_vec()),
                Part::Data(write, range) => {
                    assert_eq!(range.len() as u64, write.bytes, "a part has as many bytes as it says");
                    data.extend((0..).map(|byte| write.address.wrapping_add(byte)).zip(kept[range].iter().copied()));
                }
            }
        }
        kept.drain(..at);
        let most = (HEAD_BYTES + parser.packet_max).max(GREETING_BYTES).max(WRITE_HEAD_BYTES);
        assert!(kept.len() < most, "only a frame that is not complete is kept");
    }
    Ok((packets, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET_MAX: usize = 100;

    fn parse(stream: &[u8], step: usize, beginning: Beginning) -> Result<Parts, Wrong> {
        take_apart(stream, step, Parser::new(beginning, PACKET_MAX))
    }

    /// Each beginning, packets and writes, in pieces of each length.   Expect: the same parts.
    #[test]
    fn what_arrives_in_any_pieces_is_taken_apart_alike() {
        let mut stream = Vec::new();
        let packets: Vec<Vec<u8>> = [0, 1, 50, PACKET_MAX].map(|length| vec![length as u8; length]).into();
        let write = Write { key: 5, address: 1000, bytes: 300, is_unasked: false };
        for packet in &packets {
            stream.extend(packet_head(packet.len()));
            stream.extend(packet);
            stream.extend(write.head());
            stream.extend((0..300).map(|at| at as u8));
        }
        let data: Vec<(u64, u8)> = (0..4).flat_map(|_| (0..300).map(|at| (1000 + at, at as u8))).collect();
        for (first, beginning) in [
            (&greeting(9, 7)[..], Beginning::Greeting(7)),
            (&accepted()[..], Beginning::Accepted),
            (&[], Beginning::Frames),
        ] {
            let stream = [first, &stream].concat();
            for step in (1..200).chain([stream.len()]) {
                assert_eq!(parse(&stream, step, beginning), Ok((packets.clone(), data.clone())), "{step}");
            }
        }
    }

    #[test]
    fn what_is_none_of_the_protocol_is_refused() {
        let nothing = Write { key: 1, address: 2, bytes: 0, is_unasked: true };
        for (stream, beginning) in [
            (greeting(9, 6).to_vec(), Beginning::Greeting(7)),
            (b"GET / HTTP/1.1\r\nHost: somewhere\r\n".to_vec(), Beginning::Greeting(7)),
            (packet_head(5).to_vec(), Beginning::Accepted),
            (b"GET / HTTP/1.1\r\n".to_vec(), Beginning::Accepted),
            (b"GET / HTTP/1.1\r\n".to_vec(), Beginning::Frames),
            (accepted().to_vec(), Beginning::Frames),
            (packet_head(PACKET_MAX + 1).to_vec(), Beginning::Frames),
            (nothing.head().to_vec(), Beginning::Frames),
            (head(WRITE, WRITE_BYTES + 1).to_vec(), Beginning::Frames),
        ] {
            assert_eq!(parse(&stream, stream.len(), beginning), Err(Wrong), "{stream:?}");
        }
    }
}
