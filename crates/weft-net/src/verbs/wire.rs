//! The messages between the two ends: with a request for a connection, and in front of each packet. Both come
//! from strangers.

use std::net::{IpAddr, SocketAddr};

use super::pairing::Reason;

/// Bytes in front of every packet: see [`Header`].
pub(super) const HEADER: usize = 8;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The client's first message, which has no contents.
    First,
    /// A packet follows the header.
    Packet,
    /// Room for more packets, and nothing else.
    Credit,
    /// The sender has not used the connection for long, and sends nothing more.
    Close,
    /// The answer to [`Kind::Close`]: the sender sends nothing more.
    Closed,
    /// The receiver may write small packets into a ring of the sender, which is described.
    Ring,
    /// The receiver must stop writing into the ring: the sender is about to sleep.
    Stop,
    /// The answer to [`Kind::Stop`]: no more is written into the ring.
    Stopped,
    /// The receiver has so large a window that it is asked to give a part of it back: [`count`] packets.
    Reclaim,
    /// The answer to [`Kind::Reclaim`]: [`count`] packets that its sender will not send.
    Returned,
    /// The sender has dropped its ends of connections to other rails of the receiver: [`count`] has a bit for
    /// each. Counted as a packet: the message arrives, or the connection is lost.
    Dropped,
}

/// The header that every message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Further packets that the receiver of this message may send.
    pub(super) credits: u16,
    /// Cells taken, since the ring began, of the ring that the receiver of this message writes to.
    pub(super) taken: u16,
    /// Packets that came before this message on this connection, sent or written into a ring.
    pub(super) number: u16,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::First,
        Self::Packet,
        Self::Credit,
        Self::Close,
        Self::Closed,
        Self::Ring,
        Self::Stop,
        Self::Stopped,
        Self::Reclaim,
        Self::Returned,
        Self::Dropped,
    ];

    /// Returns whether the message is numbered among packets, so that its loss is the loss of the connection.
    pub(super) fn is_packet(self) -> bool {
        matches!(self, Self::Packet | Self::Dropped)
    }

    /// Returns whether the message needs room that the receiver has granted. A message that grants room needs
    /// none, and the first message comes before there is any to grant.
    pub(super) fn needs_credit(self) -> bool {
        !matches!(self, Self::Credit | Self::First)
    }
}

impl Header {
    pub(super) fn encode(self) -> [u8; HEADER] {
        let Self { kind, credits, taken, number } = self;
        let ([a, b], [c, d], [e, f]) = (credits.to_le_bytes(), taken.to_le_bytes(), number.to_le_bytes());
        [kind as u8 + 1, 0, a, b, c, d, e, f]
    }

    /// Decodes a header, or returns none if the bytes are not one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let &[kind, 0, a, b, c, d, e, f] = bytes.get(..HEADER)? else { return None };
        let kind = *Kind::ALL.get(usize::from(kind.checked_sub(1)?))?;
        let of = |low, high| u16::from_le_bytes([low, high]);
        Some(Self { kind, credits: of(a, b), taken: of(c, d), number: of(e, f) })
    }
}

/// Returns the number that follows the header of [`Kind::Reclaim`], [`Kind::Returned`] and [`Kind::Dropped`],
/// or 0 for anything else.
pub(super) fn count(contents: &[u8]) -> u16 {
    <[u8; 2]>::try_from(contents).map_or(0, u16::from_le_bytes)
}

/// Bytes of a [`Greeting`].
pub(super) const GREETING: usize = 36;
const MAGIC: [u8; 4] = *b"weft";
const VERSION: u8 = 4;

/// The data that go with a request for a connection, with its acceptance and with its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    /// The sender's name: the address where it listens.
    pub(super) name: SocketAddr,
    /// The number in the receiver's endpoint address. Only a process that has read that address knows it.
    pub(super) token: u64,
    /// Packets that the receiver of this may send before it is granted more.
    pub(super) window: u16,
    /// The reason for which a request is refused.
    pub(super) refusal: Option<Reason>,
}

impl Greeting {
    pub(super) fn encode(&self) -> [u8; GREETING] {
        let mut bytes = [0; GREETING];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = match self.refusal {
            None => 0,
            Some(Reason::GiveWay) => 1,
            Some(Reason::Later) => 2,
            Some(Reason::Other) => 3,
        };
        bytes[6..8].copy_from_slice(&self.window.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.token.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.name.port().to_le_bytes());
        match self.name.ip() {
            IpAddr::V4(ip) => {
                bytes[18] = 4;
                bytes[20..24].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                bytes[18] = 6;
                bytes[20..36].copy_from_slice(&ip.octets());
            }
        }
        bytes
    }

    /// Decodes a greeting. More bytes may follow, because some devices fill up.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; GREETING] = bytes.get(..GREETING)?.try_into().ok()?;
        if bytes[..4] != MAGIC || bytes[4] != VERSION {
            return None;
        }
        let refusal = match bytes[5] {
            0 => None,
            1 => Some(Reason::GiveWay),
            2 => Some(Reason::Later),
            3 => Some(Reason::Other),
            _ => return None,
        };
        let ip: IpAddr = match bytes[18] {
            4 => <[u8; 4]>::try_from(&bytes[20..24]).ok()?.into(),
            6 => <[u8; 16]>::try_from(&bytes[20..36]).ok()?.into(),
            _ => return None,
        };
        Some(Self {
            name: (ip, u16::from_le_bytes([bytes[16], bytes[17]])).into(),
            token: u64::from_le_bytes(<[u8; 8]>::try_from(&bytes[8..16]).ok()?),
            window: u16::from_le_bytes([bytes[6], bytes[7]]),
            refusal,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood_and_anything_else_is_not() {
        for kind in Kind::ALL {
            let header = Header { kind, credits: 517, taken: 40_000, number: 65_535 };
            assert_eq!(Header::decode(&header.encode()), Some(header));
            assert_eq!(Header::decode(&header.encode()[..HEADER - 1]), None);
        }
        for nonsense in [[12, 0, 0, 0, 0, 0, 0, 0], [0; 8], [2, 1, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(Header::decode(&nonsense), None);
        }
        for (name, refusal) in [
            ("192.0.2.1:18515", None),
            ("[2001:db8::1]:7", Some(Reason::GiveWay)),
            ("192.0.2.1:1", Some(Reason::Later)),
        ] {
            let greeting =
                Greeting { name: name.parse().expect("an address"), token: 0x1234_5678_9abc, window: 9, refusal };
            let mut bytes = greeting.encode().to_vec();
            assert_eq!(Greeting::decode(&bytes[..GREETING - 1]), None);
            bytes.extend([7; 20]);
            assert_eq!(Greeting::decode(&bytes), Some(greeting));
            bytes[4] = 1;
            assert_eq!(Greeting::decode(&bytes), None, "another version");
        }
    }
}
