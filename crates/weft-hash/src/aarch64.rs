//! The hash by PMULL.

use core::arch::aarch64::vmull_p64;

use super::{ROW, Rows};

cpufeatures::new!(is_there, "aes");

/// Hashes by PMULL; None if the processor does not have this instruction.
#[inline]
pub(super) fn hash(rows: Rows<'_>) -> Option<u128> {
    // SAFETY: the processor has the feature, of which PMULL is a part, and NEON is always there.
    is_there::get().then(|| unsafe { multiply(rows) })
}

/// Hashes by PMULL. The processor must have `aes`.
#[target_feature(enable = "neon,aes")]
pub(super) fn multiply(rows: Rows<'_>) -> u128 {
    let products = |sum: u128, (row, key): (&[u8; ROW], &[u64; ROW / 8])| {
        let (words, _) = row.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]) ^ key[at];
        (0..ROW / 16).fold(sum, |sum, pair| sum ^ vmull_p64(word(2 * pair), word(2 * pair + 1)))
    };
    let mut sum = 0;
    for row in rows.whole() {
        sum = products(sum, row);
    }
    match rows.rest() {
        Some((row, key)) => products(sum, (&row, key)),
        None => sum,
    }
}
