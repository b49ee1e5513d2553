//! Memory of unexpected messages, kept for the next ones. The allocator gives long buffers back to the
//! kernel. New ones cost a page fault for every 4 KiB, and such faults take longer than the copies.

/// The bytes of the largest short buffer.
const SHORT_BYTES_MAX: usize = 1024;
/// The bytes of the smallest buffer that is made.
const BYTES_MIN: usize = 64;
/// The most short buffers that are kept.
const SHORT_MAX: usize = 64;
/// The most bytes of all long buffers together that are kept. Processes hold as many as ever waited at once,
/// which depends on their speed: more would look like a leak.
const LONG_BYTES_MAX: usize = 64 << 10;

/// Empty buffers.
#[derive(Default)]
pub(super) struct SpareBuffers {
    short: Vec<Vec<u8>>,
    long: Vec<Vec<u8>>,
}

impl SpareBuffers {
    /// Takes an empty buffer for `length` bytes, or makes one.
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> Vec<u8> {
        if length > SHORT_BYTES_MAX {
            return self.take_long(length);
        }
        self.short.pop().unwrap_or_else(|| Vec::with_capacity(length.max(BYTES_MIN)))
    }

    #[inline(never)]
    fn take_long(&mut self, length: usize) -> Vec<u8> {
        for place in (0..self.long.len()).rev() {
            if self.long[place].capacity() >= length {
                return self.long.swap_remove(place);
            }
        }
        Vec::with_capacity(length)
    }

    /// Keeps a buffer for the next message, if there is room.
    #[inline(never)]
    pub(super) fn put(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() > LONG_BYTES_MAX {
            return;
        }
        bytes.clear();
        if bytes.capacity() <= SHORT_BYTES_MAX {
            if self.short.len() == SHORT_MAX {
                self.short.swap_remove(0);
            }
            return self.short.push(bytes);
        }
        while self.long.iter().map(Vec::capacity).sum::<usize>() + bytes.capacity() > LONG_BYTES_MAX {
            self.long.remove(0);
        }
        self.long.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose messages of 16 KiB come before their receives, four at a time.   Expect: the same four
    /// buffers hold them again and again, and shorter messages get others.
    #[test]
    fn the_memory_of_long_messages_is_used_again() {
        let mut spare = SpareBuffers::default();
        let mut places = Vec::new();
        for _ in 0..3 {
            let buffers = [(); 4].map(|()| spare.take(16 << 10));
            places.push(buffers.each_ref().map(|bytes| bytes.as_ptr()));
            places.last_mut().expect("four").sort_unstable();
            assert!(spare.take(100).capacity() <= SHORT_BYTES_MAX);
            buffers.into_iter().for_each(|bytes| spare.put(bytes));
        }
        assert_eq!((places[1], places[2]), (places[0], places[0]));
    }

    /// Buffers of many sizes, more than are kept.   Expect: never more than the limits, and the last one.
    #[test]
    fn memory_that_is_kept_is_bounded() {
        let mut spare = SpareBuffers::default();
        for length in (0..4000).map(|number| (number * 7919) % (256 << 10)) {
            spare.put(Vec::with_capacity(length));
            assert!(spare.short.len() <= SHORT_MAX);
            assert!(spare.long.iter().map(Vec::capacity).sum::<usize>() <= LONG_BYTES_MAX);
        }
        spare.put(Vec::with_capacity(LONG_BYTES_MAX));
        assert_eq!(spare.take(5000).capacity(), LONG_BYTES_MAX);
    }
}
