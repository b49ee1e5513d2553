//! Tags of packets. A tag proves which process made a packet for which other, and that no byte of the packet
//! was changed on the path.
//!
//! A tag covers a whole packet. Short packets are hashed by SipHash alone. For a longer packet, a universal
//! hash (`weft_hash`) reduces each 2 KiB of the body, and SipHash takes the header and these results. The key
//! of the universal hash stays secret, because SipHash hides its results. Two bodies of one length have the
//! same result in one of 2⁶⁴ keys.

use super::{HEADER_SIZE, TAG_SIZE, u64_at};
use crate::process::ProcessName;
use alloc::sync::Arc;
use core::hash::Hasher;
use siphasher::sip::{SipHasher13, SipHasher24};
use weft_hash::{BLOCK, universal};

/// Longest body of packets that SipHash hashes whole: up to about this length that costs no more.
const SHORT_BODY: usize = 64;
const SHORT: usize = HEADER_SIZE + SHORT_BODY;
const _: () = assert!(BODY_AT <= SHORT && TAG_SIZE == 8);
/// The place where the universal hash of a longer packet begins: behind the header, at a whole word.
const BODY_AT: usize = HEADER_SIZE.next_multiple_of(8);

/// The bytes that are hashed before a packet: its epoch and its length. No packet is longer than 2¹⁶ bytes.
fn start(epoch: u32, length: usize) -> [u8; TAG_SIZE] {
    (u64::from(epoch) << 32 | length as u64).to_le_bytes()
}

/// The secret that only the processes of a job know, or those of two jobs that have met. The part of the keys
/// that serves the whole process is derived from it here.
#[derive(Clone)]
pub struct Secret {
    bytes: [u8; 16],
    body: Arc<weft_hash::Key>,
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Makes the secret of the bytes that the job's launcher has given to all. A process makes it once and
    /// clones it: clones share 2 KiB.
    pub fn new(bytes: [u8; 16]) -> Self {
        let word = |index: usize| {
            let mut hasher = SipHasher24::new_with_key(&bytes);
            // Keys of flows and of questions are derived with other words.
            hasher.write(b"weft body");
            hasher.write(&(index as u32).to_le_bytes());
            hasher.finish()
        };
        Self { body: Arc::new(weft_hash::Key(core::array::from_fn(word))), bytes }
    }

    /// The bytes of the key.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.bytes
    }
}

/// The key that makes and verifies the tags of one direction of one pair. Packets of other senders do not
/// fit, nor packets of the same sender to others.
#[derive(Clone)]
pub struct Key {
    k0: u64,
    k1: u64,
    body: Arc<weft_hash::Key>,
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// The key for packets from process `sender` to process `receiver`, whose jobs have `secret` in common.
    pub fn derive(secret: &Secret, sender: ProcessName, receiver: ProcessName) -> Self {
        let half = |which: u8| {
            let mut hasher = SipHasher24::new_with_key(&secret.bytes);
            hasher.write(b"weft tag");
            hasher.write(&sender.bytes());
            hasher.write(&receiver.bytes());
            hasher.write(&[which]);
            hasher.finish()
        };
        Self { k0: half(0), k1: half(1), body: secret.body.clone() }
    }

    /// The key for all packets about the stream of one process to a multicast group; the numbers name the
    /// group. The group's members know the key, and so do all processes of the job.
    pub(crate) fn for_group(secret: &Secret, group: [u32; 4]) -> Self {
        let half = |which: u8| {
            let mut hasher = SipHasher24::new_with_key(&secret.bytes);
            hasher.write(b"weft group");
            group.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
            hasher.write(&[which]);
            hasher.finish()
        };
        Self { k0: half(0), k1: half(1), body: secret.body.clone() }
    }

    /// Derives a key for another purpose, by SipHash-2-4.
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

    /// The tag: SipHash-1-3 of the epoch, the length, the header after the tag, and the body or its universal
    /// hashes.
    #[inline]
    fn tag(&self, epoch: u32, packet: &[u8]) -> u64 {
        if packet.len() > SHORT {
            return self.long_tag(epoch, packet);
        }
        let mut bytes = [0; SHORT];
        let bytes = &mut bytes[..packet.len()];
        bytes.copy_from_slice(packet);
        self.short_tag(epoch, bytes)
    }

    /// The tag of a short packet; the epoch and the length are written in the place of the tag.
    #[inline]
    fn short_tag(&self, epoch: u32, packet: &mut [u8]) -> u64 {
        let start = start(epoch, packet.len());
        packet[..TAG_SIZE].copy_from_slice(&start);
        SipHasher13::new_with_keys(self.k0, self.k1).hash(packet)
    }

    #[inline(never)]
    fn long_tag(&self, epoch: u32, packet: &[u8]) -> u64 {
        let (header, body) = packet.split_at(BODY_AT);
        let mut hasher = SipHasher13::new_with_keys(self.k0, self.k1);
        hasher.write(&start(epoch, packet.len()));
        hasher.write(&header[TAG_SIZE..]);
        for block in body.chunks(BLOCK) {
            hasher.write(&universal(&self.body, block).to_le_bytes());
        }
        hasher.finish()
    }

    /// Writes the tag into a packet that is otherwise complete. `epoch` is the part of its number beyond 32
    /// bits: a packet recorded 2³² numbers ago does not fit any more. Panics if the packet is shorter than a
    /// tag.
    pub fn write_tag(&self, epoch: u32, packet: &mut [u8]) {
        let tag = if packet.len() <= SHORT { self.short_tag(epoch, packet) } else { self.long_tag(epoch, packet) };
        packet[..TAG_SIZE].copy_from_slice(&tag.to_le_bytes());
    }

    /// Returns whether the holder of this key made the whole packet in this epoch; in constant time.
    pub fn verify(&self, epoch: u32, packet: &[u8]) -> bool {
        packet.len() >= TAG_SIZE && self.tag(epoch, packet) ^ u64_at(packet, 0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn every_byte_of_packets_of_any_length_counts() {
        let key = Key::derive(&Secret::new([5; 16]), ProcessName::of_only_job(1), ProcessName::of_only_job(2));
        for length in [HEADER_SIZE, 90, 91, 92, 93, 100, 107, 108, 109, 1452, 2079, 2080, 2081, 3000] {
            let mut packet = vec![7; length];
            key.write_tag(3, &mut packet);
            assert!(key.verify(3, &packet) && !key.verify(4, &packet), "{length} bytes");
            for at in 0..length {
                packet[at] ^= 0x40;
                assert!(!key.verify(3, &packet), "byte {at} of {length}");
                packet[at] ^= 0x40;
            }
            let mut other = vec![7; length + 1];
            other[..length].copy_from_slice(&packet);
            assert!(!key.verify(3, &packet[..length - 1]) && !key.verify(3, &other), "{length} bytes");
        }
    }

    #[test]
    fn blocks_of_a_body_do_not_change_places() {
        let key = Key::derive(&Secret::new([5; 16]), ProcessName::of_only_job(1), ProcessName::of_only_job(2));
        let mut packet = vec![1; BODY_AT + 2 * BLOCK];
        packet[BODY_AT + BLOCK..].fill(2);
        key.write_tag(0, &mut packet);
        let (first, second) = packet[BODY_AT..].split_at_mut(BLOCK);
        first.swap_with_slice(second);
        assert!(!key.verify(0, &packet));
    }
}
