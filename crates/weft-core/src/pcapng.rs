//! Packets as a file that Wireshark opens (pcapng, draft-ietf-opsawg-pcapng): its blocks as bytes, and the
//! headers in which a packet travels or would travel.
//!
//! Writing the bytes to a file is the caller's business.
//!
//! A file is one [`section`], then an [`interface`] for each place where packets were seen, then the
//! [`packet`]s. All interfaces are Ethernet, and times are in nanoseconds.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// Most bytes of headers that this module puts in front of a datagram: Ethernet, IPv6, UDP.
pub const HEADERS_MAX: usize = ETHERNET + 40 + UDP;

const ETHERNET: usize = 14;
const UDP: usize = 8;

/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// The number by which a reader learns the byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;

mod option {
    pub(super) const END: u16 = 0;
    pub(super) const PACKET_FLAGS: u16 = 2;
    pub(super) const INTERFACE_NAME: u16 = 2;
    pub(super) const TIME_RESOLUTION: u16 = 9;
}

/// The direction of a packet, as a capture tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The packet arrived.
    In,
    /// The packet was sent.
    Out,
}

/// Appends a block of `kind` around the bytes that `body` appends.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    let length = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    out.extend(length.to_le_bytes());
}

/// Appends bytes, then zeros up to a multiple of four.
fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes);
    out.resize(out.len() + bytes.len().next_multiple_of(4) - bytes.len(), 0);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    padded(out, value);
}

/// Begins a file.
pub fn section(out: &mut Vec<u8>) {
    block(out, SECTION, |out| {
        out.extend(BYTE_ORDER.to_le_bytes());
        // Version 1.0; the length of the section is not known.
        out.extend([1, 0, 0, 0]);
        out.extend([0xff; 8]);
    });
}

/// Appends the next interface; the first is number 0.
pub fn interface(out: &mut Vec<u8>, name: &str) {
    block(out, INTERFACE, |out| {
        out.extend(LINKTYPE_ETHERNET.to_le_bytes());
        // Reserved; no limit for the length of packets.
        out.extend([0; 6]);
        option(out, option::INTERFACE_NAME, name.as_bytes());
        option(out, option::TIME_RESOLUTION, &[9]);
        option(out, option::END, &[]);
    });
}

/// Appends a packet, seen on an interface `at_ns` nanoseconds after 1970 (or another origin). `frame` has the
/// kept part of its `length` bytes.
pub fn packet(out: &mut Vec<u8>, interface: u32, at_ns: u64, direction: Direction, frame: &[u8], length: usize) {
    block(out, PACKET, |out| {
        out.extend(interface.to_le_bytes());
        out.extend(((at_ns >> 32) as u32).to_le_bytes());
        out.extend((at_ns as u32).to_le_bytes());
        out.extend((frame.len() as u32).to_le_bytes());
        out.extend((length as u32).to_le_bytes());
        padded(out, frame);
        let flags: u32 = if direction == Direction::In { 1 } else { 2 };
        option(out, option::PACKET_FLAGS, &flags.to_le_bytes());
        option(out, option::END, &[]);
    });
}

/// Appends the Ethernet header of a frame.
pub fn ethernet_header(out: &mut Vec<u8>, from: [u8; 6], to: [u8; 6], ether_type: u16) {
    out.extend(to);
    out.extend(from);
    out.extend(ether_type.to_be_bytes());
}

/// Appends the Ethernet, IP and UDP headers of a datagram of `length` bytes. `ecn`: the two bits of RFC 3168
/// §5. The Ethernet addresses are made up from the others, and there is no UDP checksum.
pub fn udp_headers(out: &mut Vec<u8>, from: SocketAddr, to: SocketAddr, ecn: u8, length: usize) {
    let udp_length = (length + UDP) as u16;
    match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let (source, destination) = (source.octets(), destination.octets());
            ethernet_header(out, made_up(source), made_up(destination), 0x0800);
            let mut ip = [0_u8; 20];
            (ip[0], ip[1], ip[6], ip[8], ip[9]) = (0x45, ecn, 0x40, 64, 17);
            ip[2..4].copy_from_slice(&(udp_length + 20).to_be_bytes());
            ip[12..16].copy_from_slice(&source);
            ip[16..20].copy_from_slice(&destination);
            let sum: u32 = ip.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
            let folded = (sum & 0xffff) + (sum >> 16);
            let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            out.extend(ip);
        }
        (source, destination) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            let (source, destination) = (octets(source), octets(destination));
            let last = |ip: [u8; 16]| made_up([ip[12], ip[13], ip[14], ip[15]]);
            ethernet_header(out, last(source), last(destination), 0x86dd);
            // Version 6, traffic class, no flow label.
            out.extend((6 << 28 | u32::from(ecn) << 20).to_be_bytes());
            out.extend(udp_length.to_be_bytes());
            out.extend([17, 64]);
            out.extend(source);
            out.extend(destination);
        }
    }
    out.extend(from.port().to_be_bytes());
    out.extend(to.port().to_be_bytes());
    out.extend(udp_length.to_be_bytes());
    out.extend([0, 0]);
}

/// A locally administered Ethernet address.
fn made_up(ip: [u8; 4]) -> [u8; 6] {
    [2, 0, ip[0], ip[1], ip[2], ip[3]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Bodies of the blocks in a file, by their types; checks that lengths stand at both ends.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
            let length = word(4) as usize;
            assert_eq!((length % 4, word(length - 4) as usize), (0, length));
            blocks.push((word(0), file[8..length - 4].to_vec()));
            file = &file[length..];
        }
        blocks
    }

    #[test]
    fn blocks_tell_their_length_twice_and_are_whole_words() {
        let mut file = Vec::new();
        section(&mut file);
        for name in ["", "a", "four", "rank 7"] {
            interface(&mut file, name);
        }
        for length in 0..9 {
            packet(&mut file, 2, (7 << 32) + 5, Direction::In, &vec![1; length], 1000);
        }
        let blocks = blocks(&file);
        assert_eq!(blocks.len(), 14);
        assert_eq!(blocks[0].1[..4], BYTE_ORDER.to_le_bytes());
        assert_eq!(blocks[13].1[..20], [2, 0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0, 0xe8, 3, 0, 0]);
    }

    #[test]
    fn a_header_of_ipv4_has_its_checksum() {
        let mut frame = Vec::new();
        udp_headers(&mut frame, ([10, 0, 0, 1], 7).into(), ([10, 0, 0, 2], 8).into(), 2, 100);
        assert_eq!((frame.len(), &frame[26..34]), (42, &[10, 0, 0, 1, 10, 0, 0, 2][..]));
        // The sum over a header with its checksum is all ones (RFC 1071).
        let sum: u32 = frame[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(frame[34..42], [0, 7, 0, 8, 0, 108, 0, 0]);
    }

    #[test]
    fn a_header_of_ipv6_is_as_long_as_promised() {
        let mut frame = Vec::new();
        udp_headers(&mut frame, ([0, 0, 0, 0, 0, 0, 0, 1], 7).into(), ([9, 8, 7, 6, 5, 4, 3, 2], 8).into(), 0, 1);
        assert_eq!((frame.len(), frame[12], frame[20]), (HEADERS_MAX, 0x86, 17));
    }
}
