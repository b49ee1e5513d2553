//! What the two ends say to each other: with a request for a connection, and in front of each packet. Both come from strangers.

use std::net::{IpAddr, SocketAddr};

use super::pairing::Reason;

/// Bytes in front of every packet: what it is, and how many packets more the receiver of this may send.
pub(super) const HEADER: usize = 8;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The client's first message, which has no contents.
    First,
    /// A packet follows.
    Packet,
    /// Room for more packets, and nothing else.
    Credit,
    /// The sender has not used the connection for long, and sends nothing more.
    Close,
    /// The answer: nothing more follows.
    Closed,
}

impl Kind {
    const ALL: [Self; 5] = [Self::First, Self::Packet, Self::Credit, Self::Close, Self::Closed];

    /// Whether it needs room that the receiver has granted. What grants room needs none.
    pub(super) fn needs_credit(self) -> bool {
        self != Self::Credit
    }

    pub(super) fn encode(self, credits: u16) -> [u8; HEADER] {
        let [low, high] = credits.to_le_bytes();
        [self as u8 + 1, 0, low, high, 0, 0, 0, 0]
    }

    /// The inverse; none of anything else.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, u16)> {
        let &[kind, 0, low, high, 0, 0, 0, 0] = bytes.get(..HEADER)? else { return None };
        let kind = *Self::ALL.get(usize::from(kind.checked_sub(1)?))?;
        Some((kind, u16::from_le_bytes([low, high])))
    }
}

/// Bytes of a [`Greeting`].
pub(super) const GREETING: usize = 36;
const MAGIC: [u8; 4] = *b"weft";
const VERSION: u8 = 1;

/// What goes with a request for a connection, with its acceptance and its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    /// Where the sender listens: its name.
    pub(super) name: SocketAddr,
    /// The number on the receiver's card: whoever has not read that does not know it.
    pub(super) token: u64,
    /// Packets that the receiver of this may send before it is granted more.
    pub(super) window: u16,
    /// Why a request is refused.
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

    /// The inverse; more bytes may follow, as some devices fill up.
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
            assert_eq!(Kind::decode(&kind.encode(517)), Some((kind, 517)));
        }
        assert_eq!(Kind::decode(&[6, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Kind::decode(&[0; 8]), None);
        assert_eq!(Kind::decode(&Kind::Packet.encode(1)[..7]), None);
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
            bytes[4] = 2;
            assert_eq!(Greeting::decode(&bytes), None, "another version");
        }
    }
}
