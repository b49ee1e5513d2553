//! The checks of a buffer, made once where a call of MPI describes it: whether there can be such memory.
//!
//! `weft-abi` and `weft-mpi` make these checks for the buffers of a call.

use weft_core::layout::Layout;

use super::UserData;
use crate::error::{Error, ErrorClass, Result};

/// The lowest address of a program's memory: the first page is never mapped.
///
/// The addresses with a special meaning, `MPI_IN_PLACE` and `MPI_BUFFER_AUTOMATIC`, lie below, as do the
/// members of a structure at a null pointer. `MPI_BOTTOM` is the null pointer (MPI-5.0 §20.3): the place of
/// the items counts, not the beginning of the buffer.
pub(super) const PROGRAM_START: usize = 4096;

/// `MPI_IN_PLACE` (MPI-5.0 §20.3).
const IN_PLACE: usize = 1;

/// Checks that `count` items of `layout` at address `base` can be counted, and that there can be memory where
/// they are; returns their bytes.
///
/// # Errors
/// `MPI_ERR_COUNT` when they are more bytes than 63 bits count, `MPI_ERR_BUFFER` when they would lie at a
/// null pointer, or at an address with a special meaning.
#[inline(never)]
pub fn check_items(base: usize, count: u64, layout: &Layout) -> Result<u64> {
    let bytes = packed_size(count, layout)?;
    let lowest = base.wrapping_add_signed(layout.touched(count).start as isize);
    if lowest < PROGRAM_START && bytes > 0 { Err(nowhere(base, bytes)) } else { Ok(bytes) }
}

/// The most bytes of a program's memory: processors and Linux leave it addresses of 56 bits at most.
const PROGRAM_BYTES: u64 = 1 << 56;

/// Checks that a program may have `bytes` bytes from address `base` on, which a call gives by their `size`.
///
/// # Errors
/// An error of `class`.
pub fn check_size(base: usize, bytes: u64, class: ErrorClass) -> Result<()> {
    let end = usize::try_from(bytes).ok().and_then(|bytes| base.checked_add(bytes));
    if bytes <= PROGRAM_BYTES && end.is_some() {
        return Ok(());
    }
    let message = format!("size is {bytes}; no memory has so many bytes from address {base:#x} on");
    Err(Error::new(class, message))
}

/// Checks that something may lie this many bytes from a program's buffer.
///
/// # Errors
/// The sentence about a displacement that leads to no memory.
pub fn check_distance(displacement: i64) -> std::result::Result<(), String> {
    if displacement.unsigned_abs() <= PROGRAM_BYTES {
        return Ok(());
    }
    Err(format!("it would be {displacement} bytes from the buffer, farther than any memory reaches"))
}

/// Checks that there can be memory for `bytes` bytes at address `base`.
///
/// # Errors
/// `MPI_ERR_BUFFER`.
pub fn check_bytes(base: usize, bytes: u64) -> Result<()> {
    if base < PROGRAM_START && bytes > 0 { Err(nowhere(base, bytes)) } else { Ok(()) }
}

/// The bytes of `count` items of `layout`.
///
/// # Errors
/// `MPI_ERR_COUNT` when 63 bits do not count them, or their addresses.
pub fn packed_size(count: u64, layout: &Layout) -> Result<u64> {
    let extent = i64::try_from(count).ok().and_then(|count| count.checked_mul(layout.extent()));
    match layout.packed_size(count) {
        Ok(bytes) if extent.is_some() => Ok(bytes),
        _ => Err(too_many_bytes(count, layout)),
    }
}

#[cold]
fn too_many_bytes(count: u64, layout: &Layout) -> Error {
    let (size, extent) = (layout.size(), layout.extent());
    let message = format!("{count} items of {size} bytes, {extent} bytes apart, are more than 2^63 - 1 bytes");
    Error::new(ErrorClass::Count, message)
}

/// The error of a buffer at an address of no memory.
#[cold]
pub(super) fn nowhere(base: usize, bytes: u64) -> Error {
    let what = match base {
        0 => "a null pointer (or MPI_BOTTOM with a datatype whose displacements are not absolute)".to_owned(),
        IN_PLACE => "MPI_IN_PLACE, which is not allowed here".to_owned(),
        other => format!("{other:#x}, where no program has memory"),
    };
    Error::new(ErrorClass::Buffer, format!("a buffer is {what}, but must hold {bytes} bytes"))
}

/// The bytes of a collective's buffer, to check that no other buffer of it overlaps (MPI-5.0 §6.1).
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    lowest: usize,
    /// The address past the last byte, if all between is data.
    end: Option<usize>,
    bytes: u64,
}

impl Footprint {
    /// The footprint of `count` items of `layout` at address `base`.
    pub fn of_items(base: usize, count: u64, layout: &Layout) -> Self {
        let touched = layout.touched(count);
        let end = layout.is_contiguous(count).then(|| base.wrapping_add_signed(touched.end as isize));
        let bytes = layout.size().saturating_mul(count);
        Self { lowest: base.wrapping_add_signed(touched.start as isize), end, bytes }
    }

    /// Returns whether a byte is known to be in both. Items with gaps may lie in each other's gaps: then a
    /// common byte is known only if they begin at the same byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.bytes == 0 || other.bytes == 0 {
            return false;
        }
        match (self.end, other.end) {
            (Some(end), Some(other_end)) => self.lowest < other_end && other.lowest < end,
            _ => self.lowest == other.lowest,
        }
    }
}

/// Items in the program's memory of which parts are messages: the items of a partitioned operation (MPI-5.0
/// §4.2).
#[derive(Clone)]
pub struct Divisible {
    base: *mut u8,
    count: u64,
    layout: Layout,
}

// SAFETY: as for `UserData`, which its parts are.
unsafe impl Send for Divisible {}

impl Divisible {
    /// Describes `count` items of `layout` at `base`.
    ///
    /// # Errors
    /// As for [`check_items`].
    ///
    /// # Safety
    /// As for [`UserData::new`], until every operation that gets a part of it is complete.
    pub unsafe fn new(base: *mut u8, count: u64, layout: &Layout) -> Result<Self> {
        check_items(base.addr(), count, layout)?;
        Ok(Self { base, count, layout: layout.clone() })
    }

    /// Packed length in bytes.
    pub fn len(&self) -> u64 {
        self.layout.size() * self.count
    }

    /// Returns whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packed bytes from `start` up to `end`; bytes past the end of the items are left out.
    ///
    /// # Errors
    /// A part that begins or ends within an item whose description would be nested too deep.
    pub fn part(&self, start: u64, end: u64) -> Result<UserData> {
        let end = end.min(self.len());
        if start >= end {
            return Ok(UserData::empty());
        }
        let size = self.layout.size();
        if start.is_multiple_of(size) && end.is_multiple_of(size) {
            let offset = (start / size) as i64 * self.layout.extent();
            let base = self.base.wrapping_offset(offset as isize);
            // SAFETY: `new` was promised all items, and these are some of them.
            return unsafe { UserData::new(base, (end - start) / size, &self.layout) };
        }
        let window = self.layout.window(self.count, start..end);
        let window = window.map_err(|why| Error::new(crate::error::ErrorClass::Other, why.to_string()))?;
        // SAFETY: as above: the window touches those bytes of the items, and no others.
        unsafe { UserData::new(self.base, 1, &window) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::layout::Element;

    fn double() -> Layout {
        Layout::element(Element::Float64)
    }

    #[test]
    fn what_cannot_be_counted_is_no_buffer() {
        let wide = Layout::contiguous(1 << 33, &double()).unwrap();
        for (count, layout) in
            [((1 << 61) + 1, &double()), (1 << 60, &double()), (u64::MAX, &double()), (1 << 28, &wide)]
        {
            assert_eq!(check_items(1 << 20, count, layout).unwrap_err().class, ErrorClass::Count);
        }
        assert!(check_items(1 << 20, (1 << 60) - 1, &double()).is_ok());
        // Few bytes far apart.
        let apart = Layout::resized(&double(), 0, 1 << 60).unwrap();
        assert_eq!(check_items(1 << 20, 9, &apart).unwrap_err().class, ErrorClass::Count);
    }

    #[test]
    fn the_place_of_the_items_counts_and_not_that_of_the_buffer() {
        for base in [0, 1, 2, 4095] {
            assert_eq!(check_items(base, 1, &double()).unwrap_err().class, ErrorClass::Buffer);
            assert!(check_items(base, 0, &double()).is_ok());
        }
        let absolute = Layout::indexed(&[(0x10_0000, 2)], &double()).unwrap();
        assert!(check_items(0, 1, &absolute).is_ok());
        assert_eq!(check_items(0usize.wrapping_sub(0x10_0000), 1, &absolute).unwrap_err().class, ErrorClass::Buffer);
        assert!(check_bytes(0, 0).is_ok() && check_bytes(0, 1).is_err());
    }

    #[test]
    fn what_no_address_can_name_has_no_size() {
        for (base, bytes) in [(1 << 20, i64::MAX as u64), (0, u64::MAX), (usize::MAX - 7, 8), (0, PROGRAM_BYTES + 1)] {
            assert_eq!(
                check_size(base, bytes, ErrorClass::Count).unwrap_err().class,
                ErrorClass::Count,
                "{base} {bytes}"
            );
        }
        assert!(
            check_distance(i64::MIN).is_err() && check_distance(i64::MAX).is_err() && check_distance(-4096).is_ok()
        );
        assert!(
            check_size(1 << 47, 1 << 40, ErrorClass::Count).is_ok()
                && check_size(usize::MAX, 0, ErrorClass::Count).is_ok()
        );
    }

    #[test]
    fn runs_overlap_if_they_share_a_byte_and_others_if_they_begin_together() {
        let of = |base, count, layout: &Layout| Footprint::of_items(base, count, layout);
        let run = of(8000, 2, &double());
        assert!(run.overlaps(&of(8008, 1, &double())) && !run.overlaps(&of(8016, 9, &double())));
        assert!(!run.overlaps(&of(8000, 0, &double())));
        let comb = Layout::vector(4, 1, 16, &double()).unwrap();
        assert!(of(8000, 1, &comb).overlaps(&of(8000, 1, &comb)));
        assert!(!of(8000, 1, &comb).overlaps(&of(8008, 1, &comb)));
    }

    #[test]
    fn any_part_of_the_items_is_what_the_whole_has_there() {
        let comb = Layout::resized(&Layout::vector(3, 2, 7, &Layout::element(Element::Byte)).unwrap(), 0, 32).unwrap();
        let memory: Vec<u8> = (0..4 * 32).map(|i| i as u8).collect();
        let base = memory.as_ptr().cast_mut();
        // SAFETY: `memory` outlives both, and is only read.
        let (items, whole) =
            unsafe { (Divisible::new(base, 4, &comb).unwrap(), UserData::new(base, 4, &comb).unwrap()) };
        let mut packed = vec![0; items.len() as usize];
        whole.read(0, &mut packed);
        for start in 0..=items.len() {
            for end in start..=items.len() + 2 {
                let part = items.part(start, end).unwrap();
                let mut found = vec![0; part.len() as usize];
                part.read(0, &mut found);
                assert_eq!(found, packed[start as usize..end.min(24) as usize], "{start}..{end}");
            }
        }
    }
}
