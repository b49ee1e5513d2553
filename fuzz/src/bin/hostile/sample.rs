//! Samples of the job's packets, taken as they passed.

use weft_fuzz::mutate::Random;

/// The most samples that are kept of one direction. Beyond it new samples replace old ones by chance, so that
/// some samples are very old.
const POOL_MAX: usize = 4096;
/// Weft's raw frames: `weft-net/src/ethernet/frame.rs`.
const RAW_TYPE: [u8; 2] = [0x88, 0xb5];
const RAW_HEADER: usize = 20;
const IPV4_TYPE: [u8; 2] = [0x08, 0x00];
const UDP: u8 = 17;
const IPV4_HEADER: usize = 20;
const UDP_HEADERS: usize = 14 + IPV4_HEADER + 8;
/// Shortest packet of a flow.
const PACKET_MIN: usize = 28;

/// The headers with which a packet travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    /// The packet is in a raw frame.
    Raw([u8; RAW_HEADER]),
    /// The packet is in UDP over IPv4.
    Udp([u8; UDP_HEADERS]),
}

/// A packet of the job, with its headers.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) headers: Headers,
    pub(crate) packet: Vec<u8>,
}

impl Sample {
    /// The packets in a frame, which may be a train of segments of that size.
    pub(crate) fn read(frame: &[u8], segment: Option<usize>) -> Vec<Sample> {
        let Some(kind) = frame.get(12..14) else { return Vec::new() };
        if kind == RAW_TYPE {
            return frame.split_first_chunk().and_then(|(headers, rest)| raw(headers, rest)).into_iter().collect();
        }
        match frame.split_first_chunk() {
            Some((headers, rest)) if kind == IPV4_TYPE && headers[14] == 0x45 && headers[23] == UDP => {
                let length = usize::from(u16::from_be_bytes([headers[38], headers[39]])).saturating_sub(8);
                // The length of a long train may not be filled in yet.
                let bytes = if segment.is_some() { rest } else { &rest[..length.min(rest.len())] };
                bytes
                    .chunks(segment.unwrap_or(bytes.len()).max(1))
                    .filter(|packet| packet.len() >= PACKET_MIN)
                    .map(|packet| Sample { headers: Headers::Udp(*headers), packet: packet.to_vec() })
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Makes a frame with another packet behind these headers.
    pub(crate) fn frame(&self, packet: &[u8]) -> Vec<u8> {
        let length = packet.len() as u16;
        match &self.headers {
            Headers::Raw(headers) => {
                let mut frame = [&headers[..], packet].concat();
                frame[18..20].copy_from_slice(&length.to_be_bytes());
                frame
            }
            Headers::Udp(headers) => {
                let mut frame = [&headers[..], packet].concat();
                frame[16..18].copy_from_slice(&(length + 28).to_be_bytes());
                frame[24..26].fill(0);
                let sum = checksum(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
                frame[38..40].copy_from_slice(&(length + 8).to_be_bytes());
                // The frame has no checksum: RFC 768 allows that, and the kernel does not look.
                frame[40..42].fill(0);
                frame
            }
        }
    }
}

fn raw(headers: &[u8; RAW_HEADER], rest: &[u8]) -> Option<Sample> {
    let length = usize::from(u16::from_be_bytes([headers[18], headers[19]]));
    let packet = rest.get(..length).filter(|packet| packet.len() >= PACKET_MIN)?;
    Some(Sample { headers: Headers::Raw(*headers), packet: packet.to_vec() })
}

/// The checksum of RFC 1071.
fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The samples that are kept.
#[derive(Default)]
pub(crate) struct Pool(Vec<Sample>);

impl Pool {
    pub(crate) fn keep(&mut self, sample: Sample, random: &mut Random) {
        if self.0.len() < POOL_MAX {
            self.0.push(sample);
        } else {
            self.0[random.below(POOL_MAX)] = sample;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn raw(&self) -> usize {
        self.0.iter().filter(|sample| matches!(sample.headers, Headers::Raw(_))).count()
    }

    pub(crate) fn pick(&self, random: &mut Random) -> &Sample {
        random.pick(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_and_written_alike() {
        let packet = vec![7; 100];
        let mut raw = [0; RAW_HEADER];
        raw[12..14].copy_from_slice(&RAW_TYPE);
        let mut udp = [0; UDP_HEADERS];
        udp[12..14].copy_from_slice(&IPV4_TYPE);
        (udp[14], udp[23]) = (0x45, UDP);
        for headers in [Headers::Raw(raw), Headers::Udp(udp)] {
            let frame = Sample { headers, packet: Vec::new() }.frame(&packet);
            let read = Sample::read(&frame, None);
            assert_eq!(read.len(), 1);
            assert_eq!(read[0].packet, packet);
            assert_eq!(read[0].frame(&packet), frame);
        }
        let train = Sample { headers: Headers::Udp(udp), packet: Vec::new() }.frame(&[&packet[..]; 3].concat());
        assert_eq!(Sample::read(&train, Some(100)).len(), 3);
        assert_eq!(
            checksum(&[0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7]),
            0xb861
        );
    }
}
