//! Items that collectives move, the arrays that hold them, and a check of every byte of an array.

use crate::job::shape::content;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use weft_core::layout::{Element, Layout};
use weft_engine::arguments::{Datatype, SharedDatatype};
use weft_engine::memory::{Address, SharedBuffer};
use weft_plan::collective::ElementShape;

/// Packed bytes of an item.
pub(super) const ITEM: usize = 8;
/// Bytes around the memory that an operation may touch.
const GUARD: usize = 64;

/// The datatype of items: eight bytes, or eight bytes in two parts.
struct Item {
    layout: Layout,
    element: Option<Element>,
    handle: AtomicUsize,
}

impl Datatype for Item {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn element(&self) -> Option<Element> {
        self.element
    }

    fn handle(&self) -> &AtomicUsize {
        &self.handle
    }
}

/// The parts of an item, and the distance in bytes from one item to the next.
pub(super) fn parts(strided: bool) -> (&'static [(usize, usize)], usize) {
    if strided { (&[(1, 3), (6, 5)], 16) } else { (&[(0, ITEM)], ITEM) }
}

pub(in crate::job) fn item(strided: bool) -> SharedDatatype {
    let (layout, element) = if strided {
        let byte = Layout::element(Element::UInt8);
        let blocks: Vec<(i64, u64)> = parts(true).0.iter().map(|(at, length)| (*at as i64, *length as u64)).collect();
        let parts = Layout::indexed(&blocks, &byte).expect("two small blocks can be described");
        (Layout::resized(&parts, 0, 16).expect("16 bytes are no overflow"), None)
    } else {
        (Layout::element(Element::Int64), Some(Element::Int64))
    };
    Arc::new(Item { layout, element, handle: AtomicUsize::new(0) })
}

pub(super) fn shape(layout: &Layout) -> ElementShape {
    ElementShape {
        extent: layout.extent(),
        true_lb: layout.true_lb(),
        true_extent: layout.true_extent(),
        size: layout.size(),
        contiguous: layout.is_contiguous(2),
    }
}

/// Items in memory, and the bytes around them.
pub(in crate::job) struct Array {
    pub(in crate::job) buffer: SharedBuffer,
    strided: bool,
    background: u64,
}

impl Array {
    pub(in crate::job) fn new(items: u64, strided: bool, background: u64) -> Self {
        let buffer = SharedBuffer::new(items as usize * parts(strided).1 + 2 * GUARD);
        buffer.write(0, content(background, buffer.len()));
        Self { buffer, strided, background }
    }

    /// Writes packed items, from number `first` on.
    pub(in crate::job) fn put(&self, first: u64, packed: &[u8]) {
        let (parts, extent) = parts(self.strided);
        for (at, item) in packed.chunks(ITEM).enumerate() {
            let base = GUARD + (first as usize + at) * extent;
            let mut from = 0;
            for (offset, length) in parts {
                self.buffer.write(base + offset, &item[from..from + length]);
                from += length;
            }
        }
    }

    pub(in crate::job) fn address(&self) -> Address {
        self.buffer.address(GUARD)
    }

    /// Checks that the array holds only these items and the background.
    pub(in crate::job) fn check(&self, items: &[(u64, Vec<u8>)]) -> Result<(), String> {
        let length = self.buffer.len();
        let expected = Self { buffer: SharedBuffer::new(length), strided: self.strided, background: self.background };
        expected.buffer.write(0, content(self.background, length));
        items.iter().for_each(|(first, packed)| expected.put(*first, packed));
        let (mut found, mut wanted) = (vec![0; length], vec![0; length]);
        self.buffer.read(0, &mut found);
        expected.buffer.read(0, &mut wanted);
        if found == wanted {
            return Ok(());
        }
        let differ: Vec<usize> = (0..length).filter(|at| found[*at] != wanted[*at]).collect();
        let (first, last) = (differ[0] as i64 - GUARD as i64, differ[differ.len() - 1] as i64 - GUARD as i64);
        Err(format!("{} bytes at {first} to {last} are wrong", differ.len()))
    }
}
