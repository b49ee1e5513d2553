//! The hash without a special instruction: for processors that have none, and for comparison with the others.

use super::{ROW, Rows};

pub(super) fn hash(rows: Rows<'_>) -> u128 {
    let sum = rows.whole().fold(0, |sum, (row, key)| sum ^ products(row, key));
    rows.rest().map_or(sum, |(row, key)| sum ^ products(&row, key))
}

fn products(row: &[u8; ROW], key: &[u64; ROW / 8]) -> u128 {
    let (words, _) = row.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at]) ^ key[at];
    (0..ROW / 16).fold(0, |sum, pair| sum ^ multiply(word(2 * pair), word(2 * pair + 1)))
}

/// The product without carries, in a time that does not depend on the factors.
pub(super) fn multiply(one: u64, other: u64) -> u128 {
    // Reversed factors make a reversed product, so a lower half gives the upper half.
    let upper = lower_half(one.reverse_bits(), other.reverse_bits()).reverse_bits() >> 1;
    u128::from(upper) << 64 | u128::from(lower_half(one, other))
}

/// The lower half of a product. In integers whose only set bits are every fourth one, carries stay between
/// these bits: at most 15 products meet at any bit below the last (the method of BearSSL's `ghash_ctmul64`).
fn lower_half(one: u64, other: u64) -> u64 {
    let mask = |place: usize| 0x1111_1111_1111_1111_u64 << place;
    (0..4).fold(0, |sum, place| {
        let products = (0..4).map(|at| (one & mask(at)).wrapping_mul(other & mask((place + 4 - at) % 4)));
        sum | (products.fold(0, |sum, product| sum ^ product) & mask(place))
    })
}
