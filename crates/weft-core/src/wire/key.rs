//! Tags: who may make packets of one direction of one pair, and that nothing in them was changed on the path.
//!
//! A tag covers a whole packet. Short packets are hashed by SipHash alone. Of longer ones SipHash takes the header, and behind it
//! what a universal hash makes of each 2 KiB of the rest: NH with words of 64 bits (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999;
//! RFC 4418 §5.2 has it with words of 32 bits), whose key nobody learns, because SipHash hides its results. Two bodies of one length
//! have the same result in one of 2⁶⁴ keys.

use super::{HEADER_SIZE, TAG_SIZE, u64_at};
use alloc::sync::Arc;
use core::hash::Hasher;
use siphasher::sip::{SipHasher13, SipHasher24};

/// Bytes of body up to which SipHash takes all of a packet: about as far it costs no more.
const SHORT_BODY: usize = 64;
const _: () = assert!(BODY_AT <= HEADER_SIZE + SHORT_BODY && BLOCK.is_multiple_of(ROW));
/// Where in a longer packet the universal hash begins: behind the header, at a whole word.
const BODY_AT: usize = HEADER_SIZE.next_multiple_of(8);
/// Words of the universal hash's key …
const BODY_WORDS: usize = 256;
/// … and so many bytes it takes at a time: one packet, on most networks.
const BLOCK: usize = 8 * BODY_WORDS;
/// Bytes that it takes with one multiplication …
const PAIR: usize = 16;
/// … and in one round of its loop.
const ROW: usize = 64;

/// What all processes of a job know and nobody else, and what is derived from it for the whole process.
#[derive(Clone)]
pub struct Secret {
    bytes: [u8; 16],
    body: Arc<[u64; BODY_WORDS]>,
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// From the bytes that the job's launcher has given to all. To be made once and cloned: that shares 2 KiB.
    pub fn new(bytes: [u8; 16]) -> Self {
        let word = |index: usize| {
            let mut hasher = SipHasher24::new_with_key(&bytes);
            // Keys of flows and of questions are derived with other words.
            hasher.write(b"weft body");
            hasher.write(&(index as u32).to_le_bytes());
            hasher.finish()
        };
        Self { body: Arc::new(core::array::from_fn(word)), bytes }
    }

    /// The bytes.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.bytes
    }
}

/// What makes and verifies the tags of one direction of one pair: nobody else's packets fit, not even the same sender's to others.
#[derive(Clone)]
pub struct Key {
    k0: u64,
    k1: u64,
    body: Arc<[u64; BODY_WORDS]>,
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// The key for packets from process `sender` to process `receiver` of the job that knows `secret`.
    pub fn derive(secret: &Secret, sender: u32, receiver: u32) -> Self {
        let half = |which: u8| {
            let mut hasher = SipHasher24::new_with_key(&secret.bytes);
            hasher.write(b"weft tag");
            hasher.write(&sender.to_le_bytes());
            hasher.write(&receiver.to_le_bytes());
            hasher.write(&[which]);
            hasher.finish()
        };
        Self { k0: half(0), k1: half(1), body: secret.body.clone() }
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

    /// SipHash-1-3 of the epoch, the length, the header after the tag, and the rest or what NH makes of it.
    #[inline]
    fn tag(&self, epoch: u32, packet: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.k0, self.k1);
        // No packet is longer than 2¹⁶ bytes.
        hasher.write(&(u64::from(epoch) << 32 | packet.len() as u64).to_le_bytes());
        if packet.len() <= HEADER_SIZE + SHORT_BODY {
            hasher.write(&packet[TAG_SIZE..]);
            return hasher.finish();
        }
        self.long_tag(hasher, packet)
    }

    #[inline(never)]
    fn long_tag(&self, mut hasher: SipHasher13, packet: &[u8]) -> u64 {
        let (header, body) = packet.split_at(BODY_AT);
        hasher.write(&header[TAG_SIZE..]);
        for block in body.chunks(BLOCK) {
            hasher.write(&universal(&self.body, block).to_le_bytes());
        }
        hasher.finish()
    }

    /// Writes the tag into a packet that is otherwise complete. `epoch` is what its number exceeds 32 bits by: a packet recorded
    /// 2³² numbers ago does not fit any more. Panics if it is shorter than a header.
    pub fn write_tag(&self, epoch: u32, packet: &mut [u8]) {
        let tag = self.tag(epoch, packet);
        packet[..TAG_SIZE].copy_from_slice(&tag.to_le_bytes());
    }

    /// Whether the holder of this key made the packet in this epoch, all of it; in constant time.
    pub fn verify(&self, epoch: u32, packet: &[u8]) -> bool {
        packet.len() >= HEADER_SIZE && self.tag(epoch, packet) ^ u64_at(packet, 0) == 0
    }
}

/// NH of at most a block: the sum of the products of its words, the key's added, two at a time. The last is filled up with zeros:
/// the length is hashed besides.
fn universal(key: &[u64; BODY_WORDS], block: &[u8]) -> u128 {
    // Four products at a time take an eighth less time than one.
    let (rows, rest) = block.as_chunks::<ROW>();
    let mut sum = 0_u128;
    for (bytes, key) in rows.iter().zip(key.as_chunks::<{ ROW / 8 }>().0) {
        let word = |at: usize| u64_at(bytes, 8 * at).wrapping_add(key[at]);
        let product = |at: usize| u128::from(word(at)) * u128::from(word(at + 1));
        sum = sum.wrapping_add(product(0)).wrapping_add(product(2)).wrapping_add(product(4)).wrapping_add(product(6));
    }
    let keys = key.chunks_exact(2).skip(rows.len() * ROW / PAIR);
    for (bytes, key) in rest.chunks(PAIR).zip(keys) {
        let mut pair = [0; PAIR];
        pair[..bytes.len()].copy_from_slice(bytes);
        let word = |at: usize| u64_at(&pair, 8 * at).wrapping_add(key[at]);
        sum = sum.wrapping_add(u128::from(word(0)) * u128::from(word(1)));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_universal_hash_is_the_sum_of_products() {
        // Three words, the last of them cut short.
        let mut key = [0; BODY_WORDS];
        key[..4].copy_from_slice(&[1, 2, 3, u64::MAX]);
        let mut bytes = vec![0; 21];
        (bytes[0], bytes[8], bytes[16], bytes[20]) = (10, 20, 30, 1);
        let third = (30 + (1 << 32) + 3) * u128::from(u64::MAX);
        assert_eq!(universal(&key, &bytes), 11 * 22 + third);
        // However long: whole rows, pairs behind them, and the rest.
        let key: [u64; BODY_WORDS] =
            core::array::from_fn(|index| (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for length in 0..=BLOCK {
            let bytes: alloc::vec::Vec<u8> = (0..length).map(|at| (at * 37 + length) as u8).collect();
            let mut padded = bytes.clone();
            padded.resize(length.next_multiple_of(PAIR), 0);
            let word = |at: usize| u64_at(&padded, 8 * at).wrapping_add(key[at]);
            let products =
                (0..padded.len() / PAIR).map(|pair| u128::from(word(2 * pair)) * u128::from(word(2 * pair + 1)));
            assert_eq!(universal(&key, &bytes), products.fold(0, u128::wrapping_add), "{length} bytes");
        }
    }

    #[test]
    fn every_byte_of_packets_of_any_length_counts() {
        let key = Key::derive(&Secret::new([5; 16]), 1, 2);
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
        let key = Key::derive(&Secret::new([5; 16]), 1, 2);
        let mut packet = vec![1; BODY_AT + 2 * BLOCK];
        packet[BODY_AT + BLOCK..].fill(2);
        key.write_tag(0, &mut packet);
        let (first, second) = packet[BODY_AT..].split_at_mut(BLOCK);
        first.swap_with_slice(second);
        assert!(!key.verify(0, &packet));
    }
}
