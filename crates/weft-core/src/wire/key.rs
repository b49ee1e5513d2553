//! Tags: who may make packets of one direction of one pair.

use super::{HEADER_SIZE, TAG_SIZE, u64_at};
use core::hash::Hasher;
use siphasher::sip::{SipHasher13, SipHasher24};

/// What makes and verifies the tags of one direction of one pair: nobody else's packets fit, not even the same sender's to others.
#[derive(Clone)]
pub struct Key {
    k0: u64,
    k1: u64,
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// The key for packets from process `sender` to process `receiver` of the job that knows `secret`.
    pub fn derive(secret: &[u8; 16], sender: u32, receiver: u32) -> Self {
        let half = |which: u8| {
            let mut hasher = SipHasher24::new_with_key(secret);
            hasher.write(b"weft tag");
            hasher.write(&sender.to_le_bytes());
            hasher.write(&receiver.to_le_bytes());
            hasher.write(&[which]);
            hasher.finish()
        };
        Self { k0: half(0), k1: half(1) }
    }

    /// A key for something else, by SipHash-2-4.
    pub(super) fn for_purpose(&self, purpose: &[u8; 8]) -> [u8; 16] {
        let mut key = [0; 16];
        for (which, half) in (0u8..).zip(key.chunks_exact_mut(8)) {
            let mut hasher = SipHasher24::new_with_keys(self.k0, self.k1);
            hasher.write(purpose);
            hasher.write(&[which]);
            half.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        key
    }

    /// SipHash-1-3 of the epoch, the length, the header after the tag, and the first `covered` bytes behind the header.
    fn tag(&self, epoch: u32, packet: &[u8], covered: usize) -> u64 {
        let end = HEADER_SIZE.saturating_add(covered).min(packet.len());
        let mut hasher = SipHasher13::new_with_keys(self.k0, self.k1);
        // No packet is longer than 2¹⁶ bytes.
        hasher.write(&(u64::from(epoch) << 32 | packet.len() as u64).to_le_bytes());
        hasher.write(&packet[TAG_SIZE..end]);
        hasher.finish()
    }

    /// Writes the tag into a packet that is otherwise complete. `epoch` is what its number exceeds 32 bits by: a packet recorded
    /// 2³² numbers ago does not fit any more. Panics if it is shorter than a header.
    pub fn seal(&self, epoch: u32, packet: &mut [u8], covered: usize) {
        let tag = self.tag(epoch, packet, covered);
        packet[..TAG_SIZE].copy_from_slice(&tag.to_le_bytes());
    }

    /// Whether the holder of this key made the packet in this epoch; in constant time.
    pub fn verify(&self, epoch: u32, packet: &[u8], covered: usize) -> bool {
        packet.len() >= HEADER_SIZE && self.tag(epoch, packet, covered) ^ u64_at(packet, 0) == 0
    }
}
