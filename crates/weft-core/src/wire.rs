//! The format of a packet: its header, its tag, and the frames behind it.
//!
//! All numbers are little-endian.
//!
//! ```text
//!  0  tag             8   keyed hash of all that follows, and of its length (`wire/key.rs`)
//!  8  sender          3   index by which the receiver knows the sender
//! 11  flags           1   kind and REQUEST 3 bits, then ECHO, MARKED, then the path, 3 bits
//! 12  number          4   number of the packet; standalone acknowledgements and probes are counted apart
//! 16  acknowledged    4   the first packet that has not arrived
//! 20  selective       8   bit i: packet `acknowledged + 1 + i` has arrived; a clear bit says nothing
//! 28  echo           10   flag ECHO: the packet or probe answered: number 4, transmission 1 (0: a probe),
//!                         hold 3 (64 ns units), host delay 2 (1024 ns units)
//!     length          2   messages and data: bytes of them that follow this prefix
//!     order           1   number of this transmission among all of its path
//!     transmission    1   1: sent for the first time
//!     messages: first 4   number of the first message; then each message as length 2 and bytes; behind
//!                         them, in a packet that is sent again without an echo, perhaps zeros for the echo
//!     data: sink      4, offset 8; then the bytes, and perhaps zeros that make the packet as long as
//!                         others of its train
//!     bare: map       8 each: the arrivals beyond the selective bits; bit i of a word is packet
//!                         `64 k + i`, and the first word is that of packet `acknowledged + 65`
//!       or runs           where a map would be too long: the number of packets from
//!                         `acknowledged + 65` on without a report, the number behind them that have
//!                         arrived, and so on in turn. Each number has 1 to 3 bytes of 7 bits, the low
//!                         ones first; all its bytes but the last have the eighth bit set. The length
//!                         of all runs is no multiple of 8: if need be a zero follows them
//!     piece: kind     1   kind of the packet of which this is a piece, REQUEST included; the control
//!                         packets that are pieces are marked as probes
//!       order         1   as in the packet; so are the transmission and the number
//!       transmission  1
//!       zero          1
//!       number        4
//!       whole         2   bytes of the packet's payload
//!       at            2   the place in the payload of the bytes behind this prefix
//!       first or sink 4   as in the packet
//!       offset        8   of data, as in the packet
//! ```
//!
//! A packet that is longer than its path carries travels in pieces: the receiver puts them together before it
//! takes the packet. Messages of length 0 are a question whether a path carries packets of that size: zeros
//! fill the packet up.
//!
//! The payload of a sealed packet with messages or data is encrypted. Behind it stand 16 bytes that
//! authenticate it and the bytes before it.
//!
//! A packet with messages or data has a number of its own and will be acknowledged; a probe and a standalone
//! acknowledgement will not. Numbers continue beyond 32 bits: the tag covers the part that does not travel
//! (`Key::write_tag`).

mod acknowledgement_map;
mod cipher;
mod key;
mod piece;

use acknowledgement_map::runs_are_whole;
pub(crate) use acknowledgement_map::{Map, RUN_SLACK, RunWriter};
pub(crate) use cipher::{Ciphers, SEAL_SIZE};
pub use key::{Key, Secret};
pub use piece::Piece;

use crate::time::Duration;

/// Bytes in front of every packet's body.
pub const HEADER_SIZE: usize = 28;
/// Bytes in front of each message in a packet.
pub const FRAME_PREFIX: usize = 2;
/// Most bytes of a packet that are not messages: header, echo, prefix.
pub(crate) const MESSAGES_OVERHEAD: usize = HEADER_SIZE + ECHO_SIZE + MESSAGES_PREFIX;
/// Bytes of a packet with bulk data but without an echo that are not data. With an echo the packet holds
/// `ECHO_SIZE` bytes less data, so full packets all have one size.
pub(crate) const DATA_OVERHEAD: usize = HEADER_SIZE + DATA_PREFIX;
/// Most bytes in a packet beside its payload, whatever its kind.
pub const OVERHEAD_MAX: usize = DATA_OVERHEAD + ECHO_SIZE;
/// Bytes of an echo.
pub(crate) const ECHO_SIZE: usize = 10;
/// Packets that the selective bits cover, the first missing one included.
pub const SELECTIVE_PACKETS: u32 = 65;
/// Paths that packets of one flow can take.
pub const PATHS_MAX: usize = 8;
/// Most words of map behind a standalone acknowledgement.
pub const MAP_WORDS_MAX: usize = 32;
/// Most packets of all runs behind a standalone acknowledgement, missing ones included.
pub const RUN_MAX: u32 = 1 << 20;
/// Most bytes in a piece of a packet beside the bytes of the packet's payload.
pub(crate) const PIECE_OVERHEAD: usize = HEADER_SIZE + ECHO_SIZE + PIECE_PREFIX;

const PIECE_PREFIX: usize = 24;
const MESSAGES_PREFIX: usize = 8;
const DATA_PREFIX: usize = 16;
const SENDER_MAX: u32 = 0x00ff_ffff;
pub(crate) const TAG_SIZE: usize = 8;
const HOLD_UNIT_NS: u64 = 64;
const HOLD_UNKNOWN: u32 = 0x00ff_ffff;
const HOST_DELAY_UNIT_NS: u64 = 1024;

const _: () = assert!(MESSAGES_OVERHEAD + FRAME_PREFIX <= OVERHEAD_MAX);

mod flag {
    pub(super) const KIND: u8 = 7;
    pub(super) const ECHO: u8 = 8;
    pub(super) const MARKED: u8 = 16;
    /// The place of the path: it is in the bits from here on.
    pub(super) const PATH: u32 = 5;
}

mod kind {
    pub(super) const ACKNOWLEDGEMENT: u8 = 0;
    pub(super) const PROBE: u8 = 1;
    pub(super) const MESSAGES: u8 = 2;
    pub(super) const DATA: u8 = 3;
    pub(super) const DATA_END: u8 = 4;
    /// The distance from one of these three kinds to the kind that also wants an acknowledgement at once.
    pub(super) const REQUEST: u8 = 3;

    /// The kind without the request, and whether there is one.
    pub(super) const fn apart(kind: u8) -> (u8, bool) {
        if kind >= MESSAGES + REQUEST { (kind - REQUEST, true) } else { (kind, false) }
    }
}

const _: () = assert!(kind::DATA_END + kind::REQUEST == flag::KIND && PATHS_MAX == 1 << (8 - flag::PATH));

/// The index of the process that claims to have sent this packet of a flow or a connection. `None` if the
/// bytes are too short for a packet. Nothing is proved until the tag has been verified.
pub fn peek_sender(bytes: &[u8]) -> Option<u32> {
    (bytes.len() >= TAG_SIZE + 4).then(|| u32_at(bytes, TAG_SIZE) & SENDER_MAX)
}

/// The number and the kind that a datagram claims: of messages or data (`true`), or of a control packet.
/// `None` if it is too short. The two select the epoch for the tag; until the tag is verified nothing is
/// proved.
pub(crate) fn peek_number(bytes: &[u8]) -> Option<(Number, bool)> {
    (bytes.len() >= HEADER_SIZE).then(|| (Number(u32_at(bytes, 12)), bytes[11] & flag::KIND >= kind::MESSAGES))
}

/// A number that wraps: of a packet, a message, a probe or a transmission. Compared in serial arithmetic (RFC
/// 1982).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number(pub u32);

impl Number {
    /// The first number: close to the wrap, so that every job of some size sees numbers wrap.
    pub const FIRST: Self = Self(u32::MAX - 299);

    /// The number `count` later.
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The distance from `earlier` to this number; negative if this one is before.
    pub const fn since(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// Returns whether this number is strictly later than `other`.
    pub const fn is_after(self, other: Self) -> bool {
        self.since(other) > 0
    }
}

/// The reason why a datagram is no packet for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Too short, or without the right tag: no member of the job sent it to this process, or it was damaged.
    Forged,
    /// The tag is right and the content is not.
    Malformed,
}

/// The packet or probe that an acknowledgement answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echoed {
    /// A packet, and the number of its transmission (1: the first).
    Packet {
        /// Number of the packet.
        number: Number,
        /// The number of its transmission.
        transmission: u8,
    },
    /// A probe.
    Probe(Number),
}

/// The packet that prompted an acknowledgement, so that the sender can measure the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The newest packet or probe that arrived.
    pub of: Echoed,
    /// The time that it waited for its answer, to 64 ns; `None` if that is longer than a second.
    pub hold: Option<Duration>,
    /// The longest time for which it may have waited until the process looked, to 1024 ns, at most 67 ms.
    pub host_delay: Duration,
}

/// The content of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Messages of the ordered channel, at least one; read them with `Frames`.
    Messages {
        /// Number of the first; the others follow without a gap.
        first: Number,
    },
    /// Bulk data.
    Data {
        /// The receiver's name for the memory.
        remote_key: u32,
        /// The offset in that memory, bytes.
        offset: u64,
        /// A submitted range ends here, and no other was waiting.
        end: bool,
    },
}

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An acknowledgement alone: the facts that every packet tells, and perhaps a longer map.
    Acknowledgement(Number),
    /// Asks for an acknowledgement.
    Probe(Number),
    /// A piece of a packet with messages or data: see [`Piece`]. Like an acknowledgement and a probe, a piece
    /// has a number of its own.
    Piece(Number),
    /// Messages or data.
    Numbered {
        /// The packet's number, the same for all transmissions.
        number: Number,
        /// 1: sent for the first time.
        transmission: u8,
        /// The number among all transmissions of its path, modulo 256.
        order: u8,
        /// The content of the payload.
        channel: Channel,
    },
}

/// A packet without its payload. Made only by `open` from authentic, well-formed bytes, or by a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Index of the sending process.
    pub sender: u32,
    /// The first packet that has not arrived at the sender of this packet.
    pub acknowledged: Number,
    /// Bit i: packet `acknowledged + 1 + i` has arrived.
    pub selective: u64,
    /// The packet that prompted this one, if a new packet arrived since the last echo.
    pub echo: Option<Echo>,
    /// An acknowledgement is wanted at once.
    pub request: bool,
    /// A packet came with a mark of congestion (RFC 3168) since the last acknowledgement.
    pub marked: bool,
    /// The path of the packet, below [`PATHS_MAX`]: packets of other paths may overtake it. Path 0 is that of
    /// messages.
    pub path: u8,
    /// The part that differs by kind.
    pub kind: Kind,
}

impl Packet {
    /// Writes the bytes in front of a payload of `length` bytes and returns their number. The caller then
    /// writes the payload and calls `Key::write_tag`. (The payload of a standalone acknowledgement is the
    /// map, that of a piece the bytes that [`Piece`] writes.) Panics if `out` is too short.
    pub fn emit(&self, length: usize, out: &mut [u8]) -> usize {
        let mut flags = self.path << flag::PATH | if self.marked { flag::MARKED } else { 0 };
        let mut at = HEADER_SIZE;
        if let Some(echo) = &self.echo {
            flags |= flag::ECHO;
            emit_echo(echo, &mut out[at..at + ECHO_SIZE]);
            at += ECHO_SIZE;
        }
        let (kind, number) = match self.kind {
            Kind::Acknowledgement(number) => (kind::ACKNOWLEDGEMENT, number),
            Kind::Probe(number) | Kind::Piece(number) => (kind::PROBE, number),
            Kind::Numbered { number, transmission, order, channel } => {
                let prefix = &mut out[at..];
                prefix[2..4].copy_from_slice(&[order, transmission]);
                let (kind, size) = emit_channel(&channel, length, prefix);
                at += size;
                (if self.request { kind + kind::REQUEST } else { kind }, number)
            }
        };
        out[8..12].copy_from_slice(&(self.sender & SENDER_MAX | u32::from(flags | kind) << 24).to_le_bytes());
        out[12..16].copy_from_slice(&number.0.to_le_bytes());
        out[16..20].copy_from_slice(&self.acknowledged.0.to_le_bytes());
        out[20..28].copy_from_slice(&self.selective.to_le_bytes());
        at
    }

    /// Verifies and parses a datagram; returns the packet and its payload (of a standalone acknowledgement:
    /// the map).
    pub fn open<'a>(key: &Key, epoch: u32, bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Reject> {
        if !key.verify(epoch, bytes) {
            return Err(Reject::Forged);
        }
        Self::parse(bytes).ok_or(Reject::Malformed)
    }

    /// Parses a datagram that is not verified: for traces.
    pub fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        Self::parse_by(bytes, parse_channel)
    }

    /// Parses the bytes before a payload that may be sealed: for traces. Nothing is verified, and the
    /// payload, which is returned with all that follows it, is not looked at.
    pub fn parse_head(bytes: &[u8]) -> Option<(Self, &[u8])> {
        Self::parse_by(bytes, |kind, rest| {
            let (channel, prefix) = parse_prefix(kind, rest)?;
            *rest = &rest[prefix..];
            Some(channel)
        })
    }

    fn parse_by<'a>(
        bytes: &'a [u8],
        parse_channel: impl FnOnce(u8, &mut &'a [u8]) -> Option<Channel>,
    ) -> Option<(Self, &'a [u8])> {
        let (header, mut rest) = bytes.split_at_checked(HEADER_SIZE)?;
        let flags = header[11];
        let mut echo = None;
        if flags & flag::ECHO != 0 {
            let (echo_bytes, after) = rest.split_at_checked(ECHO_SIZE)?;
            echo = Some(parse_echo(echo_bytes));
            rest = after;
        }
        let number = Number(u32_at(header, 12));
        let (kind, request) = kind::apart(flags & flag::KIND);
        let kind = match kind {
            kind::ACKNOWLEDGEMENT => {
                let fits = if Map(rest).is_words() { rest.len() <= 8 * MAP_WORDS_MAX } else { runs_are_whole(rest) };
                if !fits {
                    return None;
                }
                Kind::Acknowledgement(number)
            }
            kind::PROBE if rest.is_empty() => Kind::Probe(number),
            kind::PROBE if rest.len() > PIECE_PREFIX => Kind::Piece(number),
            kind @ (kind::MESSAGES | kind::DATA | kind::DATA_END) => {
                let &[_, _, order, transmission @ 1..=u8::MAX, ..] = rest else { return None };
                Kind::Numbered { number, transmission, order, channel: parse_channel(kind, &mut rest)? }
            }
            _ => return None,
        };
        let packet = Self {
            sender: u32_at(header, 8) & SENDER_MAX,
            acknowledged: Number(u32_at(header, 16)),
            selective: u64_at(header, 20),
            echo,
            request,
            marked: flags & flag::MARKED != 0,
            path: flags >> flag::PATH,
            kind,
        };
        Some((packet, rest))
    }
}

/// The offset of the payload of messages or data; `None` for other kinds, or if the packet is too short.
pub(crate) fn payload_at(bytes: &[u8]) -> Option<usize> {
    let flags = *bytes.get(11)?;
    let prefix = match kind::apart(flags & flag::KIND).0 {
        kind::MESSAGES => MESSAGES_PREFIX,
        kind::DATA | kind::DATA_END => DATA_PREFIX,
        _ => return None,
    };
    let at = HEADER_SIZE + prefix + if flags & flag::ECHO != 0 { ECHO_SIZE } else { 0 };
    (at <= bytes.len()).then_some(at)
}

/// The offset of the bytes of a piece; `None` for other kinds, or if the packet is too short.
pub(crate) fn piece_at(bytes: &[u8]) -> Option<usize> {
    let flags = *bytes.get(11)?;
    let at = HEADER_SIZE + PIECE_PREFIX + if flags & flag::ECHO != 0 { ECHO_SIZE } else { 0 };
    (flags & flag::KIND == kind::PROBE && at < bytes.len()).then_some(at)
}

fn is_messages(bytes: &[u8]) -> bool {
    kind::apart(bytes[11] & flag::KIND).0 == kind::MESSAGES
}

fn emit_echo(echo: &Echo, out: &mut [u8]) {
    let hold = echo.hold.map_or(HOLD_UNKNOWN, |hold| (hold.0 / HOLD_UNIT_NS).min(HOLD_UNKNOWN.into()) as u32);
    let (number, transmission) = match echo.of {
        Echoed::Packet { number, transmission } => (number, transmission),
        Echoed::Probe(number) => (number, 0),
    };
    out[..4].copy_from_slice(&number.0.to_le_bytes());
    out[4..8].copy_from_slice(&(u32::from(transmission) | hold << 8).to_le_bytes());
    let host_delay = u16::try_from(echo.host_delay.0.div_ceil(HOST_DELAY_UNIT_NS)).unwrap_or(u16::MAX);
    out[8..10].copy_from_slice(&host_delay.to_le_bytes());
}

fn parse_echo(bytes: &[u8]) -> Echo {
    let number = Number(u32_at(bytes, 0));
    let word = u32_at(bytes, 4);
    let hold = word >> 8;
    Echo {
        of: match word as u8 {
            0 => Echoed::Probe(number),
            transmission => Echoed::Packet { number, transmission },
        },
        hold: (hold != HOLD_UNKNOWN).then_some(Duration(u64::from(hold) * HOLD_UNIT_NS)),
        host_delay: Duration(u64::from(u16_at(bytes, 8)) * HOST_DELAY_UNIT_NS),
    }
}

/// Writes the prefix of messages or data; returns the kind and the size of the prefix.
fn emit_channel(channel: &Channel, length: usize, out: &mut [u8]) -> (u8, usize) {
    let length = u16::try_from(length).expect("a payload fits a packet");
    out[..2].copy_from_slice(&length.to_le_bytes());
    match *channel {
        Channel::Messages { first } => {
            out[4..8].copy_from_slice(&first.0.to_le_bytes());
            (kind::MESSAGES, MESSAGES_PREFIX)
        }
        Channel::Data { remote_key, offset, end } => {
            out[4..8].copy_from_slice(&remote_key.to_le_bytes());
            out[8..16].copy_from_slice(&offset.to_le_bytes());
            (if end { kind::DATA_END } else { kind::DATA }, DATA_PREFIX)
        }
    }
}

/// Parses the prefix of messages or data; returns the channel and the length of the prefix.
fn parse_prefix(kind: u8, bytes: &[u8]) -> Option<(Channel, usize)> {
    if bytes.len() < MESSAGES_PREFIX {
        return None;
    }
    let word = u32_at(bytes, 4);
    match kind {
        kind::MESSAGES => Some((Channel::Messages { first: Number(word) }, MESSAGES_PREFIX)),
        _ if bytes.len() > DATA_PREFIX => Some((
            Channel::Data { remote_key: word, offset: u64_at(bytes, 8), end: kind == kind::DATA_END },
            DATA_PREFIX,
        )),
        _ => None,
    }
}

/// Shortens `rest` to the announced payload. Checks that all of the payload is there, and that nothing but a
/// filling stands behind it.
fn parse_channel(kind: u8, rest: &mut &[u8]) -> Option<Channel> {
    let bytes = *rest;
    let (channel, prefix) = parse_prefix(kind, bytes)?;
    let (payload, filling) = bytes[prefix..].split_at_checked(usize::from(u16_at(bytes, 0)))?;
    *rest = payload;
    let is_right = match channel {
        // A question whether the path carries packets of this size.
        Channel::Messages { .. } if payload.is_empty() => true,
        Channel::Messages { .. } => filling.len() <= ECHO_SIZE && is_payload(&channel, payload),
        Channel::Data { .. } => is_payload(&channel, payload),
    };
    is_right.then_some(channel)
}

/// Returns whether a packet of this channel may have this payload.
pub(crate) fn is_payload(channel: &Channel, payload: &[u8]) -> bool {
    match channel {
        Channel::Messages { .. } => Frames::are_whole(payload),
        Channel::Data { offset, .. } => !payload.is_empty() && offset.checked_add(payload.len() as u64).is_some(),
    }
}

/// The messages in the payload of a `Channel::Messages`.
#[derive(Clone, Debug)]
pub struct Frames<'a>(&'a [u8]);

impl<'a> Frames<'a> {
    /// The messages of a payload that `Packet::open` returned.
    pub fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    fn are_whole(payload: &[u8]) -> bool {
        let mut frames = Frames(payload);
        while frames.next().is_some() {}
        !payload.is_empty() && frames.0.is_empty()
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        let (prefix, rest) = self.0.split_at_checked(FRAME_PREFIX)?;
        let (message, rest) = rest.split_at_checked(usize::from(u16_at(prefix, 0)))?;
        self.0 = rest;
        Some(message)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests;
