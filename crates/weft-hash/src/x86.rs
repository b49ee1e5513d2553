//! The hash by PCLMULQDQ, and by VPCLMULQDQ on registers of 512 bits.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_clmulepi64_si128, _mm_loadu_si128, _mm_setzero_si128, _mm_storeu_si128, _mm_xor_si128,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_xor_si256, _mm512_castsi512_si256,
    _mm512_clmulepi64_epi128, _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_maskz_loadu_epi8,
    _mm512_setzero_si512, _mm512_xor_si512,
};

use super::{ROW, Rows};

cpufeatures::new!(narrow_is_there, "sse2", "pclmulqdq");
cpufeatures::new!(wide_is_there, "avx2", "avx512f", "avx512bw", "vpclmulqdq");

/// Multiplies the upper half of each 128 bits with the lower.
const HALVES: i32 = 0x01;

/// Hashes by the widest instruction; None if the processor has neither.
#[inline]
pub(super) fn hash(rows: Rows<'_>) -> Option<u128> {
    by_wide(rows).or_else(|| by_narrow(rows))
}

#[inline]
pub(super) fn by_wide(rows: Rows<'_>) -> Option<u128> {
    // SAFETY: the processor has the features.
    wide_is_there::get().then(|| unsafe { wide(rows) })
}

#[inline]
pub(super) fn by_narrow(rows: Rows<'_>) -> Option<u128> {
    // SAFETY: the processor has the features.
    narrow_is_there::get().then(|| unsafe { narrow(rows) })
}

/// Hashes 64 bytes at a time. The processor must have these features.
#[target_feature(enable = "avx2,avx512f,avx512bw,vpclmulqdq")]
fn wide(rows: Rows<'_>) -> u128 {
    let products = |sum: __m512i, row: __m512i, key: &[u64; ROW / 8]| {
        // SAFETY: it is 64 bytes, which may lie anywhere.
        let key = unsafe { _mm512_loadu_si512(key.as_ptr().cast()) };
        let words = _mm512_xor_si512(row, key);
        _mm512_xor_si512(sum, _mm512_clmulepi64_epi128::<HALVES>(words, words))
    };
    let mut sum = _mm512_setzero_si512();
    for (row, key) in rows.whole() {
        // SAFETY: it is 64 bytes, which may lie anywhere.
        sum = products(sum, unsafe { _mm512_loadu_si512(row.as_ptr().cast()) }, key);
    }
    if let Some(key) = rows.key.get(rows.whole.len())
        && !rows.rest.is_empty()
    {
        // SAFETY: fewer than 64 bytes are left, and no others are touched.
        let row = unsafe { _mm512_maskz_loadu_epi8((1 << rows.rest.len()) - 1, rows.rest.as_ptr().cast()) };
        sum = products(sum, row, key);
    }
    let half = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
    to_integer(_mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half)))
}

/// Hashes 16 bytes at a time. The processor must have `pclmulqdq`.
#[target_feature(enable = "sse2,pclmulqdq")]
fn narrow(rows: Rows<'_>) -> u128 {
    let products = |sum: __m128i, (row, key): (&[u8; ROW], &[u64; ROW / 8])| {
        let (pairs, keys) = (row.as_chunks::<16>().0, key.as_chunks::<2>().0);
        pairs.iter().zip(keys).fold(sum, |sum, (pair, key)| {
            // SAFETY: both are 16 bytes, which may lie anywhere.
            let (pair, key) = unsafe { (_mm_loadu_si128(pair.as_ptr().cast()), _mm_loadu_si128(key.as_ptr().cast())) };
            let words = _mm_xor_si128(pair, key);
            _mm_xor_si128(sum, _mm_clmulepi64_si128::<HALVES>(words, words))
        })
    };
    let mut sum = _mm_setzero_si128();
    for row in rows.whole() {
        sum = products(sum, row);
    }
    if let Some((row, key)) = rows.rest() {
        sum = products(sum, (&row, key));
    }
    to_integer(sum)
}

#[inline(always)]
fn to_integer(register: __m128i) -> u128 {
    let mut integer = 0_u128;
    // SAFETY: there is room for 16 bytes.
    unsafe { _mm_storeu_si128((&raw mut integer).cast(), register) };
    integer
}
