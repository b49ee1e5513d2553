//! Pieces of packets that are longer than their path carries.

use super::{Channel, Number, PIECE_PREFIX, kind, u16_at, u32_at, u64_at};

/// The prefix of a piece: the packet that the piece is of, and the place of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the packet.
    pub number: Number,
    /// The number of the packet's transmission; 1: the first.
    pub transmission: u8,
    /// The number of this transmission among all of its path, modulo 256.
    pub order: u8,
    /// The content of the packet's payload.
    pub channel: Channel,
    /// An acknowledgement of the packet is wanted at once.
    pub request: bool,
    /// Bytes of the packet's payload.
    pub whole: u16,
    /// The place in the payload where the bytes of this piece begin.
    pub at: u16,
}

impl Piece {
    /// Writes the prefix and returns its length; the bytes of the piece are to follow. Panics if `out` is too
    /// short.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let prefix = &mut out[..PIECE_PREFIX];
        let (kind, word, offset) = match self.channel {
            Channel::Messages { first } => (kind::MESSAGES, first.0, 0),
            Channel::Data { remote_key, offset, end: false } => (kind::DATA, remote_key, offset),
            Channel::Data { remote_key, offset, end: true } => (kind::DATA_END, remote_key, offset),
        };
        let kind = if self.request { kind + kind::REQUEST } else { kind };
        prefix[..4].copy_from_slice(&[kind, self.order, self.transmission, 0]);
        prefix[4..8].copy_from_slice(&self.number.0.to_le_bytes());
        prefix[8..10].copy_from_slice(&self.whole.to_le_bytes());
        prefix[10..12].copy_from_slice(&self.at.to_le_bytes());
        prefix[12..16].copy_from_slice(&word.to_le_bytes());
        prefix[16..24].copy_from_slice(&offset.to_le_bytes());
        PIECE_PREFIX
    }

    /// Parses the payload of a `Kind::Piece`; returns the prefix and the bytes of the piece. Sealed pieces
    /// have the seal behind their bytes.
    pub fn parse(payload: &[u8]) -> Option<(Self, &[u8])> {
        let (prefix, bytes) = payload.split_at_checked(PIECE_PREFIX)?;
        let (kind, request) = kind::apart(prefix[0]);
        let word = u32_at(prefix, 12);
        let channel = match kind {
            kind::MESSAGES => Channel::Messages { first: Number(word) },
            kind::DATA | kind::DATA_END => {
                Channel::Data { remote_key: word, offset: u64_at(prefix, 16), end: kind == kind::DATA_END }
            }
            _ => return None,
        };
        let &[_, order, transmission @ 1..=u8::MAX, 0, ..] = prefix else { return None };
        let (number, whole, at) = (Number(u32_at(prefix, 4)), u16_at(prefix, 8), u16_at(prefix, 10));
        Some((Self { number, transmission, order, channel, request, whole, at }, bytes))
    }

    /// Returns whether these bytes, at least one, have a place in the packet.
    pub(crate) const fn holds(&self, bytes: &[u8]) -> bool {
        !bytes.is_empty() && self.at as usize + bytes.len() <= self.whole as usize
    }
}
