//! The format of Weft's raw frames: an Ethernet header, then six bytes, then the packet, then Ethernet's
//! padding.
//!
//! ```text
//!  0  destination  6
//!  6  source       6
//! 12  EtherType    2   IEEE Std 802: local experimental
//! 14  magic        2   tells Weft's frames from other experiments
//! 16  port         2   the process on the destination host
//! 18  length       2   bytes of the packet: short frames are padded on their way
//! ```
//!
//! Numbers are in network order, as in everything else on Ethernet.

use weft_core::bytes;

/// EtherType: "local experimental 1" (IEEE Std 802-2014 §9.2.4).
pub(crate) const ETHER_TYPE: u16 = 0x88b5;
pub(crate) const ETHER_TYPE_AT: usize = 12;
/// `Wf`, version 0.
pub(crate) const MAGIC: u16 = 0x5766;
pub(crate) const MAGIC_AT: usize = 14;
pub(crate) const PORT_AT: usize = 16;
pub(crate) const LENGTH_AT: usize = 18;
/// Bytes in front of the packet.
pub(crate) const HEADER: usize = 20;
/// Bytes of the header that count as payload of the interface: its MTU leaves so much less for a packet.
pub(crate) const MTU_SHARE: usize = HEADER - 14;
/// Longest packet whose length can be written.
pub(crate) const PACKET_MAX: usize = u16::MAX as usize;

/// Returns a header with the bytes that all frames from the interface `source` share.
pub(crate) fn template(source: [u8; 6]) -> Vec<u8> {
    let mut frame = vec![0; HEADER];
    frame[6..12].copy_from_slice(&source);
    frame[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    frame
}

/// Returns the bytes between the Ethernet header of a frame to the process `port` and a packet of `length`
/// bytes.
#[inline]
pub(crate) fn share_of_header(port: u16, length: u16) -> [u8; MTU_SHARE] {
    let ([a, b], [c, d], [e, f]) = (MAGIC.to_be_bytes(), port.to_be_bytes(), length.to_be_bytes());
    [a, b, c, d, e, f]
}

/// Completes a frame made from [`template`], and returns its length. Panics if the packet is longer than
/// [`PACKET_MAX`].
#[inline]
pub(crate) fn emit(frame: &mut Vec<u8>, destination: [u8; 6], port: u16, packet: &[u8]) -> usize {
    let length = u16::try_from(packet.len()).expect("a packet fits a frame");
    let end = HEADER + packet.len();
    if frame.len() < end {
        bytes::resize(frame, end);
    }
    frame[..6].copy_from_slice(&destination);
    frame[MAGIC_AT..HEADER].copy_from_slice(&share_of_header(port, length));
    frame[HEADER..end].copy_from_slice(packet);
    end
}

/// Returns whether a frame came to a multicast address.
#[inline]
pub(crate) fn is_to_group(frame: &[u8]) -> bool {
    frame.first().is_some_and(|first| first & 1 == 1)
}

/// Returns the packet of a frame that passed the filter of `port`; `None` when the frame is not whole, or not
/// for this process after all.
#[inline]
pub(crate) fn parse(frame: &[u8], port: u16) -> Option<&[u8]> {
    let (header, rest) = frame.split_at_checked(HEADER)?;
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    if half(ETHER_TYPE_AT) != ETHER_TYPE || half(MAGIC_AT) != MAGIC || half(PORT_AT) != port {
        return None;
    }
    rest.get(..usize::from(half(LENGTH_AT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];

    #[test]
    fn a_packet_comes_back_whatever_ethernet_pads() {
        let mut frame = template(SOURCE);
        for packet in [&b""[..], b"x", &[7; 1494], &[8; 60]] {
            let length = emit(&mut frame, [2, 0, 0, 0, 0, 2], 77, packet);
            assert_eq!(length, HEADER + packet.len());
            let mut padded = frame[..length].to_vec();
            padded.resize(length.max(60), 0xee);
            assert_eq!(parse(&padded, 77), Some(packet));
            assert_eq!(padded[6..12], SOURCE);
        }
    }

    #[test]
    fn frames_that_are_cut_or_foreign_are_no_packets() {
        let mut frame = template(SOURCE);
        let length = emit(&mut frame, [2, 0, 0, 0, 0, 2], 77, &[5; 100]);
        for end in 0..length {
            assert_eq!(parse(&frame[..end], 77), None, "{end} bytes");
        }
        assert_eq!(parse(&frame[..length], 78), None);
        for at in 12..PORT_AT {
            let mut foreign = frame[..length].to_vec();
            foreign[at] ^= 0x40;
            assert_eq!(parse(&foreign, 77), None, "byte {at} differs");
        }
    }
}
