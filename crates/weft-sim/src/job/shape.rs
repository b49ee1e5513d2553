//! Bytes with names, and their places in memory: the content of every message, and the content that must be
//! found where the message went.

use std::sync::LazyLock;
use weft_core::layout::{Element, Layout};
use weft_engine::memory::{SharedBuffer, UserData};
use weft_random::{Random, mix};

/// The largest message of a program, bytes.
pub(super) const BYTES_MAX: u64 = 2 << 20;
/// The number of places in the noise where the bytes of a name may begin.
const STARTS: u64 = 65_521;
/// Bytes around the memory that an operation may touch.
const GUARD: usize = 64;

/// The noise of which every message is a part: comparing with it is quicker than making the bytes anew.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut noise = vec![0; (3 * BYTES_MAX + STARTS) as usize];
    weft_random::fill(0x77ef_7e57, 0, &mut noise);
    noise
});

/// The bytes of a name.
pub(super) fn content(name: u64, bytes: usize) -> &'static [u8] {
    let start = (mix(name ^ 0xc0de) % STARTS) as usize;
    &NOISE[start..start + bytes]
}

/// The places of a message's bytes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The bytes lie one after the other.
    Plain,
    /// Blocks of `block` bytes lie `gap` bytes apart.
    Strided { block: u64, gap: u64 },
    /// The blocks of `Strided`, in the opposite order.
    Backwards { block: u64, gap: u64 },
}

impl Shape {
    /// Draws a shape that suits this number of bytes.
    pub(super) fn draw(random: &mut Random, bytes: u64, strided: u32) -> Self {
        if bytes == 0 || !random.chance(strided) {
            return Self::Plain;
        }
        let block = 1 + random.below((bytes / 2).clamp(1, 6000));
        // The number of runs is limited: their cost is not what the simulation tests.
        let block = block.max(bytes / 2048);
        let gap = random.between(1, 1 + block / 2);
        if random.chance(300_000) { Self::Backwards { block, gap } } else { Self::Strided { block, gap } }
    }

    /// The places and lengths of the runs of this number of packed bytes, in packed order.
    pub(super) fn runs(self, bytes: u64) -> Vec<(u64, u64)> {
        let (block, gap) = match self {
            Self::Plain => return vec![(0, bytes)],
            Self::Strided { block, gap } | Self::Backwards { block, gap } => (block, gap),
        };
        let count = bytes.div_ceil(block);
        let run = |at: u64| {
            let index = if matches!(self, Self::Strided { .. }) { at } else { count - 1 - at };
            (index * (block + gap), block.min(bytes - at * block))
        };
        (0..count).map(run).collect()
    }

    /// A datatype whose one item is this number of bytes in this shape.
    pub(super) fn layout(self, bytes: u64) -> Layout {
        let byte = Layout::element(Element::UInt8);
        if self == Self::Plain {
            return byte;
        }
        let blocks: Vec<(i64, u64)> = self.runs(bytes).iter().map(|(at, length)| (*at as i64, *length)).collect();
        Layout::indexed(&blocks, &byte).expect("a few megabytes can be described")
    }

    fn extent(self, bytes: u64) -> u64 {
        self.runs(bytes).iter().map(|(at, length)| at + length).max().unwrap_or(0)
    }
}

/// Memory of the program, with the bytes around it.
pub(super) struct Placed {
    pub(super) buffer: SharedBuffer,
    shape: Shape,
    bytes: u64,
    background: u64,
}

impl Placed {
    /// Makes room for `bytes` bytes. The name `background` determines all bytes in it and around it.
    pub(super) fn new(shape: Shape, bytes: u64, background: u64) -> Self {
        let placed = Self::bare(shape, bytes, background);
        placed.wipe();
        placed
    }

    /// Makes the same room with any content.
    fn bare(shape: Shape, bytes: u64, background: u64) -> Self {
        let buffer = SharedBuffer::new(shape.extent(bytes) as usize + 2 * GUARD);
        Self { buffer, shape, bytes, background: background ^ 0xbacc }
    }

    /// Makes memory that holds the bytes called `name`.
    pub(super) fn holding(shape: Shape, bytes: u64, name: u64) -> Self {
        let placed = Self::bare(shape, bytes, name);
        placed.wipe();
        placed.put(content(name, bytes as usize));
        placed
    }

    /// Fills everything with background again.
    pub(super) fn wipe(&self) {
        self.buffer.write(0, content(self.background, self.buffer.len()));
    }

    /// Puts these packed bytes to their places.
    pub(super) fn put(&self, bytes: &[u8]) {
        let mut packed = 0;
        for (at, length) in self.shape.runs(self.bytes) {
            self.buffer.write(GUARD + at as usize, &bytes[packed..packed + length as usize]);
            packed += length as usize;
        }
    }

    /// The number of bytes that have room.
    pub(super) fn room(&self) -> u64 {
        self.bytes
    }

    /// The memory as an operation of the engine takes it.
    pub(super) fn data(&self) -> UserData {
        let (count, layout) = match self.shape {
            Shape::Plain => (self.bytes, self.shape.layout(self.bytes)),
            _ => (u64::from(self.bytes > 0), self.shape.layout(self.bytes)),
        };
        self.buffer.describe(GUARD, count, &layout)
    }

    /// Checks that the memory begins with the bytes of `received`, and holds background everywhere else.
    ///
    /// # Errors
    /// The first difference.
    pub(super) fn check(&self, received: &[u8]) -> Result<(), String> {
        if self.shape == Shape::Plain {
            // Long buffers are compared in the quick way.
            let end = GUARD + received.len();
            let background = content(self.background, self.buffer.len());
            let right = self.buffer.equals(GUARD, received)
                && self.buffer.equals(0, &background[..GUARD])
                && self.buffer.equals(end, &background[end..]);
            if right {
                return Ok(());
            }
        }
        let mut expected = content(self.background, self.buffer.len()).to_vec();
        let mut packed = 0;
        for (at, length) in self.shape.runs(self.bytes) {
            let length = (length as usize).min(received.len() - packed);
            let at = GUARD + at as usize;
            expected[at..at + length].copy_from_slice(&received[packed..packed + length]);
            packed += length;
        }
        if self.buffer.equals(0, &expected) {
            return Ok(());
        }
        let mut found = vec![0; expected.len()];
        self.buffer.read(0, &mut found);
        let differ: Vec<usize> = (0..found.len()).filter(|at| found[*at] != expected[*at]).collect();
        let (first, last) = (differ[0] as i64 - GUARD as i64, differ[differ.len() - 1] as i64 - GUARD as i64);
        let (count, room, length) = (differ.len(), self.bytes, received.len());
        Err(format!(
            "{count} bytes at {first} to {last} are wrong ({length} bytes received, room for {room}, {:?})",
            self.shape
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_lies_where_the_datatype_says_and_a_wrong_byte_is_seen() {
        for (shape, bytes) in [
            (Shape::Plain, 0),
            (Shape::Plain, 100),
            (Shape::Strided { block: 7, gap: 3 }, 100),
            (Shape::Backwards { block: 9, gap: 1 }, 100),
        ] {
            let sent = Placed::holding(shape, bytes, 5);
            let mut packed = vec![0; bytes as usize];
            sent.data().read(0, &mut packed);
            assert_eq!(packed, content(5, bytes as usize), "{shape:?}");
            let received = Placed::new(shape, bytes, 9);
            received.check(&[]).unwrap();
            received.data().write(0, &packed[..packed.len() / 2]);
            received.check(&packed[..packed.len() / 2]).unwrap();
            for at in [0, received.buffer.len() - 1, received.buffer.len() / 2] {
                let mut byte = [0];
                received.buffer.read(at, &mut byte);
                received.buffer.write(at, &[!byte[0]]);
                assert!(received.check(&packed[..packed.len() / 2]).is_err(), "{shape:?}, byte {at}");
                received.buffer.write(at, &byte);
            }
        }
    }
}
