//! Memory of the library that safe code can describe: buffers, and the table of all that are there.
//!
//! A description of such memory ([`UserData`]) holds no part of it. Each access looks for the buffer by its
//! address, checks that all bytes lie inside, and locks it. So a description may be used too late, or by
//! several threads. An access after the buffer is gone panics, and never touches memory that is not there.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use weft_ordered::Map;

use super::{Line, UserData};
use weft_core::layout::{Element, Layout};
use weft_plan::collective::SCRATCH_ALIGNMENT;

/// All buffers that exist, by their addresses.
static BUFFERS: RwLock<Map<usize, Weak<Inner>>> = RwLock::new(Map::new());

static BYTE: LazyLock<Layout> = LazyLock::new(|| Layout::element(Element::UInt8));

/// The datatype of a byte.
pub(super) fn byte() -> &'static Layout {
    &BYTE
}

struct Inner {
    address: usize,
    bytes: usize,
    lines: Mutex<Vec<Line>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        BUFFERS.write().unwrap_or_else(PoisonError::into_inner).remove(&self.address);
    }
}

/// The bytes of a buffer, which nothing else touches meanwhile.
struct Locked<'a> {
    lines: MutexGuard<'a, Vec<Line>>,
    bytes: usize,
}

impl Locked<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        let start = self.lines.as_mut_ptr().cast();
        // SAFETY: `new` made at least as many bytes as lines, any bits are a byte, and the lock is held for
        // as long as the borrow.
        unsafe { std::slice::from_raw_parts_mut(start, self.bytes) }
    }
}

/// The number of lines that hold so many bytes. It is one at least: each buffer has an address of its own.
fn lines(bytes: usize) -> usize {
    bytes.div_ceil(SCRATCH_ALIGNMENT as usize).max(1)
}

/// Bytes that several operations read and write in turns; clones are the same bytes.
#[derive(Clone)]
pub struct SharedBuffer(Arc<Inner>);

impl SharedBuffer {
    /// Makes `bytes` zeroed bytes, aligned for any basic type.
    pub fn new(bytes: usize) -> Self {
        Self::of_lines(vec![Line::ZERO; lines(bytes)], bytes)
    }

    /// Makes a buffer of the packed bytes of `data`.
    pub fn packed(data: &UserData) -> Self {
        let bytes = data.len() as usize;
        let Some(run) = data.run(0, data.len()) else {
            let buffer = Self::new(bytes);
            buffer.with_bytes_mut(|packed| data.read(0, packed));
            return buffer;
        };
        // Memory that is zeroed before it is filled would be written twice.
        let (whole, rest) = run.as_chunks();
        let mut lines = Vec::with_capacity(lines(bytes));
        lines.extend(whole.iter().map(|bytes| Line { bytes: *bytes }));
        if !rest.is_empty() || whole.is_empty() {
            let mut last = Line::ZERO;
            last.bytes[..rest.len()].copy_from_slice(rest);
            lines.push(last);
        }
        Self::of_lines(lines, bytes)
    }

    fn of_lines(mut lines: Vec<Line>, bytes: usize) -> Self {
        let address = lines.as_mut_ptr().addr();
        let inner = Arc::new(Inner { address, bytes, lines: Mutex::new(lines) });
        BUFFERS.write().unwrap_or_else(PoisonError::into_inner).insert(address, Arc::downgrade(&inner));
        Self(inner)
    }

    /// The buffer that has the bytes from address `low` up to `high`.
    pub(super) fn find(low: usize, high: usize) -> Option<Self> {
        let buffers = BUFFERS.read().unwrap_or_else(PoisonError::into_inner);
        let found = buffers.range(..=low).next_back().and_then(|(_, buffer)| buffer.upgrade());
        drop(buffers);
        found.map(Self).filter(|buffer| high <= buffer.base() + buffer.len())
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Returns whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    /// The address of the first byte.
    pub(super) fn base(&self) -> usize {
        self.0.address
    }

    fn lock(&self) -> Locked<'_> {
        Locked { lines: self.0.lines.lock().unwrap_or_else(PoisonError::into_inner), bytes: self.0.bytes }
    }

    /// Describes `count` items of `layout`, the first of them based `offset` bytes from the beginning.
    ///
    /// # Panics
    /// When items touch bytes that are not inside.
    pub fn describe(&self, offset: usize, count: u64, layout: &Layout) -> UserData {
        self.describe_at(i64::try_from(offset).unwrap_or(i64::MAX), count, layout)
    }

    /// Describes all of the buffer.
    pub fn describe_all(&self) -> UserData {
        self.describe_at(0, self.len() as u64, &BYTE)
    }

    /// Describes items as [`Self::describe`] does: the first item may be based outside, if all that it
    /// touches is inside.
    pub(super) fn describe_at(&self, offset: i64, count: u64, layout: &Layout) -> UserData {
        self.check(offset, count, layout);
        UserData::shared(self.base().wrapping_add_signed(offset as isize), count, layout)
    }

    pub(super) fn describe_bytes_at(&self, offset: i64, count: u64) -> UserData {
        self.describe_at(offset, count, &BYTE)
    }

    /// # Panics
    /// When items touch bytes that are not inside.
    pub(super) fn check(&self, offset: i64, count: u64, layout: &Layout) {
        let touched = layout.touched(count);
        let (low, high) = (offset.saturating_add(touched.start), offset.saturating_add(touched.end));
        let inside = touched.is_empty() || 0 <= low && high <= self.len() as i64;
        assert!(inside, "{low}..{high} is not inside of {} bytes", self.len());
    }

    pub(super) fn check_bytes(&self, offset: i64, count: u64) {
        self.check(offset, count, &BYTE);
    }

    /// Gives `used` the bytes, which nothing else touches meanwhile.
    pub fn with_bytes<R>(&self, used: impl FnOnce(&[u8]) -> R) -> R {
        used(self.lock().bytes())
    }

    /// Gives `used` the bytes to change them.
    pub fn with_bytes_mut<R>(&self, used: impl FnOnce(&mut [u8]) -> R) -> R {
        used(self.lock().bytes())
    }

    /// Copies the bytes from `offset` on to `out`.
    ///
    /// # Panics
    /// When they reach past the end.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.lock().bytes()[offset..][..out.len()]);
    }

    /// Copies `bytes` to the buffer, from `offset` on.
    ///
    /// # Panics
    /// When they reach past the end.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.lock().bytes()[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Returns whether the bytes from `offset` on are `bytes`.
    ///
    /// # Panics
    /// When they reach past the end.
    pub fn equals(&self, offset: usize, bytes: &[u8]) -> bool {
        &self.lock().bytes()[offset..][..bytes.len()] == bytes
    }
}

/// The numbers in a buffer of numbers, in the byte order of this machine.
impl SharedBuffer {
    /// Makes a buffer of `values`.
    pub fn of_values(values: &[i64]) -> Self {
        let buffer = Self::new(size_of_val(values));
        buffer.set_values(values);
        buffer
    }

    /// Replaces the first numbers.
    ///
    /// # Panics
    /// When there are more than have room.
    pub fn set_values(&self, values: &[i64]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.write(0, &bytes);
    }

    /// The value of every number.
    pub fn values(&self) -> Vec<i64> {
        let mut locked = self.lock();
        let (values, _) = locked.bytes().as_chunks();
        values.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect()
    }
}

/// Copies the packed bytes from `offset` on of `count` items of `layout` at address `base` to `out`.
pub(super) fn read_items(base: usize, count: u64, layout: &Layout, offset: u64, out: &mut [u8]) {
    let mut rest = out;
    visit_items(base, count, layout, offset..offset + rest.len() as u64, |run| {
        let (piece, after) = std::mem::take(&mut rest).split_at_mut(run.len());
        piece.copy_from_slice(run);
        rest = after;
    });
    assert!(rest.is_empty(), "bytes were asked for that no item has");
}

/// Copies `bytes` to the address of the packed bytes from `offset` on.
pub(super) fn write_items(base: usize, count: u64, layout: &Layout, offset: u64, bytes: &[u8]) {
    let mut rest = bytes;
    visit_items(base, count, layout, offset..offset + rest.len() as u64, |run| {
        let (piece, after) = rest.split_at(run.len());
        run.copy_from_slice(piece);
        rest = after;
    });
    assert!(rest.is_empty(), "bytes were given for which no item has a place");
}

fn visit_items(
    base: usize,
    count: u64,
    layout: &Layout,
    range: std::ops::Range<u64>,
    mut visit: impl FnMut(&mut [u8]),
) {
    if range.is_empty() {
        return;
    }
    let touched = layout.touched(count);
    let (low, high) =
        (base.wrapping_add_signed(touched.start as isize), base.wrapping_add_signed(touched.end as isize));
    let found = SharedBuffer::find(low, high);
    let buffer = found.unwrap_or_else(|| panic!("{} bytes of an operation are gone", touched.end - touched.start));
    let mut locked = buffer.lock();
    let bytes = locked.bytes();
    layout.runs(count, range, &mut |at, length| {
        let start = base.wrapping_add_signed(at as isize).wrapping_sub(buffer.base());
        visit(&mut bytes[start..][..length]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_with_gaps_are_read_and_written_in_their_places() {
        let layout = Layout::vector(3, 2, 5, &BYTE).unwrap();
        let buffer = SharedBuffer::new(20);
        buffer.write(0, &[9; 20]);
        buffer.describe(1, 1, &layout).write(0, &[1, 2, 3, 4, 5, 6]);
        assert!(buffer.equals(0, &[9, 1, 2, 9, 9, 9, 3, 4, 9, 9, 9, 5, 6, 9, 9, 9, 9, 9, 9, 9]));
        let mut packed = [0; 4];
        buffer.describe(1, 1, &layout).read(1, &mut packed);
        assert_eq!(packed, [2, 3, 4, 5]);
        assert_eq!(buffer.describe(1, 1, &layout).address(), None);
        assert_eq!(buffer.describe(1, 1, &BYTE).address(), Some(buffer.base() as u64 + 1));
    }

    #[test]
    fn a_packed_buffer_has_the_bytes_of_program_memory_and_of_items_with_gaps() {
        for length in (0..130).chain([4095, 4096, 4097]) {
            let mut bytes: Vec<u8> = (0..length).map(|i| (i % 251 + 1) as u8).collect();
            // SAFETY: `bytes` outlives the description.
            let data = unsafe { UserData::from_bytes(bytes.as_mut_ptr(), length as u64) };
            let buffer = SharedBuffer::packed(&data);
            assert_eq!(buffer.len(), length);
            buffer.with_bytes(|packed| assert_eq!(packed, bytes));
        }
        let layout = Layout::vector(3, 2, 5, &BYTE).unwrap();
        let items = SharedBuffer::new(12);
        items.write(0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let packed = SharedBuffer::packed(&items.describe(0, 1, &layout));
        packed.with_bytes(|packed| assert_eq!(packed, [1, 2, 6, 7, 11, 12]));
    }

    #[test]
    #[should_panic(expected = "is not inside of 12 bytes")]
    fn items_outside_of_a_buffer_cannot_be_described() {
        SharedBuffer::new(12).describe(1, 12, &BYTE);
    }

    #[test]
    #[should_panic(expected = "12 bytes of an operation are gone")]
    fn a_description_outlives_its_buffer_and_touches_nothing() {
        let data = SharedBuffer::new(12).describe_all();
        data.write(0, &[1]);
    }

    #[test]
    fn an_overlapping_copy_and_one_of_a_buffer_to_itself_end() {
        let buffer = SharedBuffer::of_values(&[1, 2, 3]);
        let data = |at| buffer.describe(at, 16, &BYTE);
        crate::memory::copy(&data(0), &data(8));
        crate::memory::copy(&data(8), &data(8));
        assert_eq!(buffer.values(), [1, 1, 2]);
    }

    /// Two threads copy between the same two buffers in opposite directions.
    /// Expect: both end, and each value is one that was there.
    #[test]
    fn threads_share_buffers() {
        let (one, other) = (SharedBuffer::of_values(&[1; 8]), SharedBuffer::of_values(&[2; 8]));
        let (there, back) = ((one.describe_all(), other.describe_all()), (other.describe_all(), one.describe_all()));
        std::thread::scope(|scope| {
            for (from, to) in [there, back] {
                scope.spawn(move || (0..50).for_each(|_| crate::memory::copy(&from, &to)));
            }
        });
        assert!(one.values().iter().chain(&other.values()).all(|value| [1, 2].contains(value)));
    }
}
