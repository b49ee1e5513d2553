//! A capture of a run in the format that Wireshark opens (pcapng): each rank's host is an interface, packets stand in
//! Ethernet, IPv4 and UDP as they would on a wire, and the time is virtual, in nanoseconds.

use crate::nuisance::Flight;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::{Block, PcapNgWriter};
use pcap_file::{DataLink, PcapError};
use std::borrow::Cow;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use weft_core::time::Instant;

/// The UDP port of every rank in a capture.
pub const PORT: u16 = 49_377;
/// Bytes in front of a datagram: Ethernet 14, IPv4 20, UDP 8.
const HEADERS: usize = 42;
/// Packets after which a capture takes no more.
const PACKETS_MAX: u64 = 2_000_000;

/// A file that grows.
pub struct Capture {
    writer: PcapNgWriter<BufWriter<File>>,
    packets: u64,
    /// Packets that were not written, because there were too many or the file could not be written.
    pub missing: u64,
    failure: Option<String>,
}

impl Capture {
    /// A new file, with an interface for each rank.
    pub fn create(path: &Path, ranks: u32) -> Result<Self, String> {
        let name = |why: &dyn std::fmt::Display| format!("cannot write {}: {why}", path.display());
        let file = File::create(path).map_err(|why| name(&why))?;
        let mut writer = PcapNgWriter::new(BufWriter::new(file)).map_err(|why| name(&why))?;
        for rank in 0..ranks {
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(format!("rank {rank}"))),
                // 10⁻⁹ seconds.
                InterfaceDescriptionOption::IfTsResol(9),
            ];
            let block = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
            writer.write_block(&Block::InterfaceDescription(block)).map_err(|why| name(&why))?;
        }
        Ok(Self { writer, packets: 0, missing: 0, failure: None })
    }

    /// A packet that a rank's host sends, or takes out of its socket.
    pub(crate) fn write(&mut self, now: Instant, rank: u32, outgoing: bool, flight: &Flight) {
        if self.packets >= PACKETS_MAX || self.failure.is_some() {
            self.missing += 1;
            return;
        }
        let frame = frame(flight);
        let block = EnhancedPacketBlock {
            interface_id: rank,
            timestamp: std::time::Duration::from_nanos(now.0),
            original_len: frame.len() as u32,
            data: Cow::Owned(frame),
            // Bits 0 and 1 of epb_flags: inbound 1, outbound 2.
            options: vec![EnhancedPacketOption::Flags(if outgoing { 2 } else { 1 })],
        };
        match self.writer.write_block(&Block::EnhancedPacket(block)) {
            Ok(_) => self.packets += 1,
            Err(why) => {
                self.missing += 1;
                self.failure = Some(why.to_string());
            }
        }
    }

    /// Says how many packets are in the file.
    ///
    /// # Errors
    /// What could not be written.
    pub fn finish(self) -> Result<u64, String> {
        use std::io::Write;
        let flushed = self.writer.into_inner().flush().map_err(PcapError::IoError);
        match (self.failure, flushed) {
            (Some(why), _) => Err(format!("the capture is not whole: {why}")),
            (None, Err(why)) => Err(format!("the capture is not whole: {why}")),
            (None, Ok(())) => Ok(self.packets),
        }
    }
}

/// The address of a rank: 10.0.0.1 is rank 0.
fn address(rank: u32) -> [u8; 4] {
    (0x0a00_0001 + rank).to_be_bytes()
}

/// The frame a packet would travel in. Locally administered Ethernet addresses, no UDP checksum (RFC 768 allows none).
fn frame(flight: &Flight) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADERS + flight.bytes.len());
    let ethernet = |rank: u32| [[2, 0].as_slice(), &rank.to_be_bytes()].concat();
    frame.extend(ethernet(flight.to));
    frame.extend(ethernet(flight.from));
    frame.extend([8, 0]);
    let mut ip = [0_u8; 20];
    let length = flight.bytes.len() + HEADERS - 14;
    ip[0] = 0x45;
    // ECN: capable, or congestion experienced (RFC 3168 §5).
    ip[1] = if flight.marked { 3 } else { 2 };
    ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    ip[6] = 0x40;
    (ip[8], ip[9]) = (64, 17);
    ip[12..16].copy_from_slice(&address(flight.from));
    ip[16..20].copy_from_slice(&address(flight.to));
    let sum: u32 = ip.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(ip);
    frame.extend(PORT.to_be_bytes());
    frame.extend(PORT.to_be_bytes());
    frame.extend(((flight.bytes.len() + 8) as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(&flight.bytes);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::PcapNgReader;

    #[test]
    fn a_capture_can_be_read_again() {
        let path = std::env::temp_dir().join(format!("weft-sim-capture-{}.pcapng", std::process::id()));
        let mut capture = Capture::create(&path, 2).expect("a file");
        let flight = Flight { from: 0, to: 1, bytes: vec![7; 100], number: None, marked: true, bulk: false };
        capture.write(Instant(1_234_567_891), 0, true, &flight);
        capture.write(Instant(1_234_567_999), 1, false, &flight);
        assert_eq!(capture.finish(), Ok(2));

        let mut reader = PcapNgReader::new(File::open(&path).expect("the file")).expect("pcapng");
        let mut packets = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.expect("a block") {
                packets.push((packet.interface_id, packet.timestamp.as_nanos(), packet.data.into_owned()));
            }
        }
        std::fs::remove_file(&path).expect("the file goes");
        let times: Vec<_> = packets.iter().map(|(interface, at, _)| (*interface, *at)).collect();
        assert_eq!(times, [(0, 1_234_567_891), (1, 1_234_567_999)]);
        let frame = &packets[0].2;
        assert_eq!(frame.len(), 142);
        assert_eq!(frame[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
        // The sum over a header with its checksum is all ones (RFC 1071).
        let sum: u32 = frame[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
}
