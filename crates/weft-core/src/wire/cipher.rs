//! Sealed packets: only the two processes can read a payload, and no other can change a bit of it
//! (AES-128-GCM, NIST SP 800-38D).
//!
//! Each direction of a pair has a key of its own. A nonce is a packet's number, beyond 32 bits, and its
//! transmission. No two packets of a direction share both, because a packet that was sent 255 times is not
//! sent again.

use super::{Key, TAG_SIZE, is_messages, payload_at, u32_at};
use aes_gcm::aead::generic_array::GenericArray;
use aes_gcm::{AeadInPlace, Aes128Gcm, KeyInit};
use alloc::vec::Vec;

/// Bytes by which a sealed packet is longer.
pub(crate) const SEAL_SIZE: usize = 16;

/// The ciphers that seal and open the payloads of one pair.
pub(crate) struct Ciphers {
    seal: Aes128Gcm,
    open: Aes128Gcm,
    /// The packet that was opened last.
    opened: Vec<u8>,
}

impl core::fmt::Debug for Ciphers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Ciphers(..)")
    }
}

fn nonce(number: u64, transmission: u8) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    nonce[8] = transmission;
    nonce
}

impl Ciphers {
    /// Derives the ciphers of a pair from these keys.
    pub(crate) fn new(seal: &Key, open: &Key) -> Self {
        let cipher = |key: &Key| Aes128Gcm::new(&key.for_purpose(b"weft aes").into());
        Self { seal: cipher(seal), open: cipher(open), opened: Vec::new() }
    }

    /// Encrypts the payload at `at..length` of a packet that is otherwise complete but for its tag, and
    /// writes the seal behind it. Returns the new length.
    pub(crate) fn seal(&self, number: u64, transmission: u8, at: usize, length: usize, packet: &mut [u8]) -> usize {
        let (head, rest) = packet.split_at_mut(at);
        let (payload, behind) = rest.split_at_mut(length - at);
        let nonce = GenericArray::from(nonce(number, transmission));
        let seal = self.seal.encrypt_in_place_detached(&nonce, &head[TAG_SIZE..], payload);
        behind[..SEAL_SIZE].copy_from_slice(&seal.expect("a packet is far below the limit of the mode"));
        length + SEAL_SIZE
    }

    /// Opens a packet with messages or data of this epoch; returns the packet as it was before sealing.
    /// `None` if the peer did not seal it.
    pub(crate) fn open(&mut self, epoch: u32, packet: &[u8]) -> Option<&[u8]> {
        let at = payload_at(packet)?;
        // Length, order and transmission stand before the rest of the prefix.
        let transmission = *packet.get(at - if is_messages(packet) { 5 } else { 13 })?;
        let number = u64::from(epoch) << 32 | u64::from(u32_at(packet, 12));
        self.open_at(number, transmission, at, packet)
    }

    /// Opens a packet whose payload begins at `at`, and whose number and transmission are known; otherwise as
    /// [`Self::open`].
    pub(crate) fn open_at(&mut self, number: u64, transmission: u8, at: usize, packet: &[u8]) -> Option<&[u8]> {
        let (sealed, seal) = packet.split_at_checked(packet.len().checked_sub(SEAL_SIZE)?)?;
        self.opened.clear();
        self.opened.extend_from_slice(sealed);
        let (head, payload) = self.opened.split_at_mut_checked(at)?;
        let nonce = GenericArray::from(nonce(number, transmission));
        self.open.decrypt_in_place_detached(&nonce, &head[TAG_SIZE..], payload, GenericArray::from_slice(seal)).ok()?;
        Some(&self.opened)
    }

    /// Bytes allocated beside the value itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.opened.capacity()
    }
}
