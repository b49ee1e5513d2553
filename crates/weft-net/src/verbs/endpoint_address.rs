//! The RDMA devices of a process as its peers are told of them.

use super::RAILS_MAX;
use crate::Error;
use crate::udp::{self, Candidate};

/// The word by which an endpoint address says that remote writes and reads are used.
const PLACING: &str = "placing";
const PACKETS: &str = "packets";

/// The endpoint address of a process: the facts that its peers need to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointAddress {
    /// The addresses where this process listens, a rail each, in their order: at least one.
    pub rails: Vec<Candidate>,
    /// Number that comes with each request for a connection. Only a process that has read this address knows
    /// it.
    pub token: u64,
    /// True if peers may write to memory here, and this end to memory of peers.
    pub has_remote_memory: bool,
    /// Bytes of a packet.
    pub packet_size: u16,
}

impl EndpointAddress {
    /// Encodes the address as peers are told it: without commas and spaces.
    pub fn encode(&self) -> String {
        let Self { rails, token, has_remote_memory, packet_size } = self;
        let kind = if *has_remote_memory { PLACING } else { PACKETS };
        let rails = udp::EndpointAddress { candidates: rails.clone(), window_packets: 0 }.encode();
        format!("{kind};{packet_size};{token:x};{rails}")
    }

    /// Decodes an endpoint address. The text is a peer's: nothing in it is trusted.
    ///
    /// # Errors
    /// The text is no endpoint address.
    pub fn decode(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Peer(format!("'{text}' are no addresses of RDMA devices"));
        let parts: Vec<&str> = text.splitn(4, ';').collect();
        let [kind, packet_size, token, rails] = parts[..] else { return Err(wrong()) };
        let has_remote_memory = match kind {
            PLACING => true,
            PACKETS => false,
            _ => return Err(wrong()),
        };
        let packet_size = packet_size.parse().map_err(|_| wrong())?;
        let token = u64::from_str_radix(token, 16).map_err(|_| wrong())?;
        let rails = udp::EndpointAddress::decode(rails).map_err(|_| wrong())?.candidates;
        let are_numbered = rails.iter().zip(0..).all(|(one, index)| one.rail == index && one.port != 0);
        let fits = usize::from(packet_size) >= udp::PACKET_SIZE_MIN && (1..=RAILS_MAX).contains(&rails.len());
        (fits && are_numbered).then_some(Self { rails, token, has_remote_memory, packet_size }).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rail(rail: u8, ip: &str) -> Candidate {
        let ip = ip.parse().expect("an address");
        Candidate { ip, prefix: 24, port: 18515, packet_size: 1472, host: 7, interface: 0, rail, speed: 100_000 }
    }

    #[test]
    fn a_card_is_read_back_and_nothing_else_is() {
        for (rails, has_remote_memory) in
            [(vec![rail(0, "192.0.2.1")], true), (vec![rail(0, "2001:db8::7"), rail(1, "fe80::1")], false)]
        {
            let endpoint_address = EndpointAddress { rails, token: u64::MAX - 1, has_remote_memory, packet_size: 4088 };
            let text = endpoint_address.encode();
            assert!(!text.contains([',', ' ', '+']), "{text}");
            assert_eq!(EndpointAddress::decode(&text).expect("an endpoint address"), endpoint_address);
        }
        let with = |rails: Vec<Candidate>, packet_size| {
            EndpointAddress { rails, token: 1, has_remote_memory: true, packet_size }.encode()
        };
        let silent = Candidate { port: 0, ..rail(0, "192.0.2.1") };
        for text in [
            String::new(),
            "placing;4088;1".into(),
            "else;4088;1;00000007.0".into(),
            with(Vec::new(), 4088),
            with(vec![silent], 4088),
            with(vec![rail(0, "192.0.2.1")], 1),
            with(vec![rail(1, "192.0.2.1")], 4088),
            with(vec![rail(0, "192.0.2.1"), rail(0, "192.0.2.2")], 4088),
            with((0..=RAILS_MAX as u8).map(|number| rail(number, "192.0.2.1")).collect(), 4088),
        ] {
            assert!(EndpointAddress::decode(&text).is_err(), "{text}");
        }
    }
}
