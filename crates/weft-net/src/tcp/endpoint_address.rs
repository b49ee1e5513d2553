//! The address of this end as peers are told of it.

use crate::Error;
use crate::udp::{self, Candidate};

/// The endpoint address of a process: the facts that its peers need to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointAddress {
    /// The addresses where this process listens, best first: at least one. Their port is that of TCP.
    pub candidates: Vec<Candidate>,
    /// The number that a connection must show, and by which this process is known when it connects. Only a
    /// process that has read this address knows it.
    pub token: u64,
}

impl EndpointAddress {
    /// Encodes the address as peers are told it: without commas and spaces.
    pub fn encode(&self) -> String {
        let addresses = udp::EndpointAddress { candidates: self.candidates.clone(), window_packets: 0 };
        format!("{:x};{}", self.token, addresses.encode())
    }

    /// Decodes an endpoint address. The text is a peer's: nothing in it is trusted.
    ///
    /// # Errors
    /// The text is no endpoint address.
    pub fn decode(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Peer(format!("'{text}' is no address of TCP"));
        let (token, candidates) = text.split_once(';').ok_or_else(wrong)?;
        let is_token = (1..=16).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_hexdigit());
        let token = u64::from_str_radix(token, 16).ok().filter(|_| is_token).ok_or_else(wrong)?;
        let candidates = udp::EndpointAddress::decode(candidates).map_err(|_| wrong())?.candidates;
        let listens = !candidates.is_empty() && candidates.iter().all(|candidate| candidate.port != 0);
        listens.then_some(Self { candidates, token }).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_back_and_nothing_else_is() {
        let candidate = |port| Candidate {
            ip: [192, 0, 2, 1].into(),
            prefix: 24,
            port,
            packet_size: 1472,
            host: 7,
            interface: 0,
            rail: 0,
            speed: 100_000,
        };
        let address = EndpointAddress { candidates: vec![candidate(4000)], token: u64::MAX - 1 };
        let text = address.encode();
        assert!(!text.contains([',', ' ', '+']), "{text}");
        assert_eq!(EndpointAddress::decode(&text).expect("an address"), address);
        let silent = EndpointAddress { candidates: vec![candidate(0)], ..address.clone() };
        let nowhere = EndpointAddress { candidates: Vec::new(), ..address };
        for text in [silent.encode(), nowhere.encode(), String::new(), format!("+{text}"), format!("0{text}")] {
            assert!(EndpointAddress::decode(&text).is_err(), "{text}");
        }
    }
}
