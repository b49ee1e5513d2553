//! Buffers of bytes.

use alloc::vec::Vec;

/// Makes `bytes` as long as `length`; what is added is zero.
///
/// The crates of the library that are compiled for size call this in the place of `Vec::resize`, which writes
/// one byte after the other there: 19 µs for 56 KB (AMD EPYC) in the place of 1. This crate is compiled for
/// speed, and the function is never inlined elsewhere.
#[inline(never)]
pub fn resize(bytes: &mut Vec<u8>, length: usize) {
    bytes.resize(length, 0);
}
