//! Numbers for short texts, by which processes and builds find out whether they mean the same (FNV-1a). They
//! keep out accidents, not attackers.

/// The fingerprint of no bytes.
pub const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x100_0000_01b3;

/// The fingerprint of what has the fingerprint `before`, and then of `bytes`.
pub const fn add(before: u64, bytes: &[u8]) -> u64 {
    let mut fingerprint = before;
    let mut at = 0;
    // Constants are made by this, in which there are no iterators.
    while at < bytes.len() {
        fingerprint = (fingerprint ^ bytes[at] as u64).wrapping_mul(PRIME);
        at += 1;
    }
    fingerprint
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test vectors of FNV-1a in 64 bits.   Expect: the same numbers.
    #[test]
    fn it_is_fnv_1a() {
        for (text, number) in [("", EMPTY), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)] {
            assert_eq!(add(EMPTY, text.as_bytes()), number);
        }
    }
}
