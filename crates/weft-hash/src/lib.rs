//! The universal hash under the tag of a packet, by the best instructions that the processor has. All
//! implementations compute the same hash.
//!
//! The hash is CLNH (Lemire and Kaser, "Faster 64-bit universal hashing using carry-less multiplications",
//! 2016, §4; NH of RFC 4418 §5.2 with polynomials over GF(2) in place of integers):
//!
//! - Words of 64 bits are taken in pairs.
//! - A word of the key is added to each by exclusive or.
//! - The two are multiplied without carries.
//! - The products are added by exclusive or.
//!
//! Take two blocks of one length that differ, and any difference of hashes. The hashes of the blocks have
//! this difference in one of 2⁶⁴ keys. The hash hides nothing by itself: its result must go into a keyed
//! hash.
//!
//! | processor | how | bytes with one multiplication |
//! |---|---|---|
//! | x86-64 with AVX-512 and VPCLMULQDQ | `x86.rs` | 64 |
//! | x86-64 with PCLMULQDQ (all since about 2011) | `x86.rs` | 16 |
//! | AArch64 with PMULL (all servers) | `aarch64.rs` | 16 |
//! | any | `portable.rs`, some thirty times slower | – |
#![no_std]

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod aarch64;
mod portable;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

/// Words of a key.
pub const KEY_WORDS: usize = 256;
/// Most bytes of a block, which is one packet on most networks.
pub const BLOCK: usize = 8 * KEY_WORDS;
/// Bytes of a row, as many as the widest registers hold. A block is filled up to whole rows with zeros.
const ROW: usize = 64;

/// The key of a hash, with a word of its own for each word of a block. It is aligned so that no row of it
/// needs two cache lines.
#[derive(Clone)]
#[repr(align(64))]
pub struct Key(pub [u64; KEY_WORDS]);

/// Debug output without the key, which is a secret.
impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// A block as the implementations take it: whole rows, and the bytes after them. Each row has a row of the
/// key.
#[derive(Clone, Copy)]
struct Rows<'a> {
    whole: &'a [[u8; ROW]],
    rest: &'a [u8],
    key: &'a [[u64; ROW / 8]],
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn whole(self) -> impl Iterator<Item = (&'a [u8; ROW], &'a [u64; ROW / 8])> {
        self.whole.iter().zip(self.key)
    }

    /// The bytes after the whole rows, if any, filled up to a row.
    #[inline(always)]
    fn rest(self) -> Option<([u8; ROW], &'a [u64; ROW / 8])> {
        let key = self.key.get(self.whole.len()).filter(|_| !self.rest.is_empty())?;
        let mut filled = [0; ROW];
        filled[..self.rest.len()].copy_from_slice(self.rest);
        Some((filled, key))
    }
}

/// The hash of at most [`BLOCK`] bytes. The bytes behind them count as zeros, so the caller must hash the
/// number of bytes as well.
///
/// # Panics
/// When there are more bytes.
#[inline]
pub fn universal(key: &Key, block: &[u8]) -> u128 {
    assert!(block.len() <= BLOCK, "a block has at most {BLOCK} bytes");
    let (whole, rest) = block.as_chunks::<ROW>();
    let rows = Rows { whole, rest, key: key.0.as_chunks().0 };
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(hash) = x86::hash(rows) {
        return hash;
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    if let Some(hash) = aarch64::hash(rows) {
        return hash;
    }
    portable::hash(rows)
}

#[cfg(test)]
mod tests;
