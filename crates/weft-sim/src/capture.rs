//! A capture of a run in the format that Wireshark opens (pcapng): each rank's host is an interface, packets
//! stand in Ethernet, IPv4 and UDP as they would on a wire, and the time is virtual, in nanoseconds.

use crate::nuisance::Flight;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use weft_core::pcapng::{self, Direction};
use weft_core::time::Instant;

/// The UDP port of every rank in a capture.
pub const PORT: u16 = 49_377;
/// The most packets that a capture takes.
const PACKETS_MAX: u64 = 2_000_000;

/// A capture file that is being written.
pub struct Capture {
    file: BufWriter<File>,
    block: Vec<u8>,
    frame: Vec<u8>,
    packets: u64,
    /// Packets that were not written, because there were too many or the file could not be written.
    pub missing: u64,
    failure: Option<String>,
}

impl Capture {
    /// Creates a new file, with an interface for each rank.
    pub fn create(path: &Path, ranks: u32) -> Result<Self, String> {
        let name = |why: std::io::Error| format!("cannot write {}: {why}", path.display());
        let mut file = BufWriter::new(File::create(path).map_err(name)?);
        let mut block = Vec::new();
        pcapng::section(&mut block);
        (0..ranks).for_each(|rank| pcapng::interface(&mut block, &format!("rank {rank}")));
        file.write_all(&block).map_err(name)?;
        Ok(Self { file, block, frame: Vec::new(), packets: 0, missing: 0, failure: None })
    }

    /// Writes a packet that a rank's host sends, or takes out of its socket.
    pub(crate) fn write(&mut self, now: Instant, rank: u32, outgoing: bool, flight: &Flight) {
        if self.packets >= PACKETS_MAX || self.failure.is_some() {
            self.missing += 1;
            return;
        }
        let Self { frame, block, .. } = self;
        frame.clear();
        block.clear();
        // ECN: capable, or congestion experienced (RFC 3168 §5).
        let ecn = if flight.marked { 3 } else { 2 };
        pcapng::udp_headers(frame, address(flight.from), address(flight.to), ecn, flight.bytes.len());
        frame.extend(&flight.bytes);
        let direction = if outgoing { Direction::Out } else { Direction::In };
        pcapng::packet(block, rank, now.0, direction, frame, frame.len());
        match self.file.write_all(block) {
            Ok(()) => self.packets += 1,
            Err(why) => {
                self.missing += 1;
                self.failure = Some(why.to_string());
            }
        }
    }

    /// Finishes the file and returns the number of packets in it.
    ///
    /// # Errors
    /// The part of the file that could not be written.
    pub fn finish(mut self) -> Result<u64, String> {
        match (self.failure.take(), self.file.flush()) {
            (Some(why), _) => Err(format!("the capture is not whole: {why}")),
            (None, Err(why)) => Err(format!("the capture is not whole: {why}")),
            (None, Ok(())) => Ok(self.packets),
        }
    }
}

/// The address of a rank: 10.0.0.1 is rank 0.
fn address(rank: u32) -> SocketAddr {
    (Ipv4Addr::from_bits(0x0a00_0001 + rank), PORT).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use weft_core::rails::Role;

    #[test]
    fn a_capture_can_be_read_again() {
        let path = std::env::temp_dir().join(format!("weft-sim-capture-{}.pcapng", std::process::id()));
        let mut capture = Capture::create(&path, 2).expect("a file");
        let flight = Flight {
            from: 0,
            to: 1,
            bytes: vec![7; 100],
            number: None,
            marked: true,
            path: 0,
            rail: 0,
            carrier: Role::BulkData,
        };
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
        assert_eq!((packets[0].2.len(), &packets[0].2[26..34]), (142, &[10, 0, 0, 1, 10, 0, 0, 2][..]));
        assert_eq!(packets[0].2[42..], flight.bytes);
    }
}
