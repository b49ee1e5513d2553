use super::*;
use proptest::prelude::*;

extern crate std;
use std::vec::Vec;

fn key(seed: u64) -> Key {
    Key(core::array::from_fn(|index| (index as u64 + 1 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// Hashes as the paper defines it.
fn by_definition(key: &Key, block: &[u8]) -> u128 {
    let mut filled = block.to_vec();
    filled.resize(block.len().next_multiple_of(ROW), 0);
    let words: Vec<u64> = filled.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let mut sum = 0;
    for at in (0..words.len()).step_by(2) {
        let (one, other) = (words[at] ^ key.0[at], words[at + 1] ^ key.0[at + 1]);
        for bit in (0..64).filter(|bit| other >> bit & 1 == 1) {
            sum ^= u128::from(one) << bit;
        }
    }
    sum
}

/// The hashes by all implementations that this processor can run.
fn all(key: &Key, block: &[u8]) -> Vec<(&'static str, u128)> {
    let (whole, rest) = block.as_chunks();
    let rows = Rows { whole, rest, key: key.0.as_chunks().0 };
    let mut hashes = std::vec![("chosen", universal(key, block))];
    hashes.push(("portable", portable::hash(rows)));
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    hashes.extend(aarch64::hash(rows).map(|hash| ("aarch64", hash)));
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        hashes.extend(x86::by_narrow(rows).map(|hash| ("narrow", hash)));
        hashes.extend(x86::by_wide(rows).map(|hash| ("wide", hash)));
    }
    hashes
}

#[test]
fn products_have_no_carries() {
    assert_eq!(portable::multiply(3, 3), 5);
    assert_eq!(portable::multiply(u64::MAX, 1), u128::from(u64::MAX));
    assert_eq!(portable::multiply(1 << 63, 1 << 63), 1 << 126);
}

#[test]
fn blocks_of_every_length_are_hashed_as_defined_by_every_implementation() {
    let key = key(0);
    for length in 0..=BLOCK {
        let block: Vec<u8> = (0..length).map(|at| (at * 37 + length) as u8).collect();
        let expected = by_definition(&key, &block);
        for (name, hash) in all(&key, &block) {
            assert_eq!(hash, expected, "{name}, {length} bytes");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 500 }, ..ProptestConfig::default() })]

    /// Any bytes and any key. Expect: the hashes agree, and a single bit that differs changes the hash,
    /// unless the word it is multiplied with is 0.
    #[test]
    fn all_implementations_agree_and_every_bit_counts(
        block in prop::collection::vec(any::<u8>(), 1..=BLOCK),
        seed in any::<u64>(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let key = key(seed);
        let expected = by_definition(&key, &block);
        for (name, hash) in all(&key, &block) {
            prop_assert_eq!(hash, expected, "{}", name);
        }
        let at = at.index(block.len());
        let word = (at / 8) ^ 1;
        let mut filled = block.clone();
        filled.resize(BLOCK, 0);
        let other = u64::from_le_bytes(filled[8 * word..8 * word + 8].try_into().unwrap()) ^ key.0[word];
        let mut changed = block;
        changed[at] ^= 1 << bit;
        prop_assert_eq!(universal(&key, &changed) == expected, other == 0);
    }
}
