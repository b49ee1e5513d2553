//! Memory of unexpected messages, kept for the next ones. New memory costs a page fault for every 4 KiB, which
//! take longer than the copies: the allocator gives long buffers back to the kernel again and again.

use super::CREDIT_BYTES;

/// The bytes of the largest short buffer.
const SHORT_BYTES_MAX: usize = 1024;
/// The bytes of the smallest buffer that is made.
const BYTES_MIN: usize = 64;
/// The most short buffers that are kept.
const SHORT_MAX: usize = 64;
/// The most bytes of long buffers that are kept: as many as one peer may send before a receive.
const LONG_BYTES_MAX: usize = CREDIT_BYTES as usize;

/// Empty buffers.
#[derive(Default)]
pub(super) struct SpareBuffers {
    short: Vec<Vec<u8>>,
    /// The long ones, the oldest first.
    long: Vec<Vec<u8>>,
}

impl SpareBuffers {
    /// Takes an empty buffer for `length` bytes, or makes one.
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Vec<u8> {
        if length <= SHORT_BYTES_MAX {
            return self.short.pop().unwrap_or_else(|| Vec::with_capacity(length.max(BYTES_MIN)));
        }
        match self.long.iter().rposition(|bytes| bytes.capacity() >= length) {
            Some(place) => self.long.remove(place),
            None => Vec::with_capacity(length),
        }
    }

    /// Keeps a buffer, if it is not too large. Long ones that were put here earlier make room.
    #[inline]
    pub(super) fn put(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        if bytes.capacity() <= SHORT_BYTES_MAX {
            if self.short.len() < SHORT_MAX {
                self.short.push(bytes);
            }
        } else if bytes.capacity() <= LONG_BYTES_MAX {
            self.long.push(bytes);
            while self.long.iter().map(Vec::capacity).sum::<usize>() > LONG_BYTES_MAX {
                self.long.remove(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose messages of 64 KiB come before their receives, four at a time.   Expect: the same four
    /// buffers hold them again and again, and shorter messages get others.
    #[test]
    fn the_memory_of_long_messages_is_used_again() {
        let mut spare = SpareBuffers::default();
        let mut places = Vec::new();
        for _ in 0..3 {
            let buffers = [(); 4].map(|()| spare.take(64 << 10));
            places.push(buffers.each_ref().map(|bytes| bytes.as_ptr()));
            places.last_mut().expect("four").sort_unstable();
            assert!(spare.take(100).capacity() <= SHORT_BYTES_MAX);
            buffers.into_iter().for_each(|bytes| spare.put(bytes));
        }
        assert_eq!((places[1], places[2]), (places[0], places[0]));
    }

    /// Buffers of many sizes, more than are kept.   Expect: never more than the limits, and the last ones.
    #[test]
    fn memory_that_is_kept_is_bounded() {
        let mut spare = SpareBuffers::default();
        for length in (0..4000).map(|number| (number * 7919) % (3 << 20)) {
            spare.put(Vec::with_capacity(length));
            assert!(spare.short.len() <= SHORT_MAX);
            assert!(spare.long.iter().map(Vec::capacity).sum::<usize>() <= LONG_BYTES_MAX);
        }
        spare.put(Vec::with_capacity(LONG_BYTES_MAX));
        assert_eq!((spare.long.len(), spare.take(5000).capacity()), (1, LONG_BYTES_MAX));
    }
}
