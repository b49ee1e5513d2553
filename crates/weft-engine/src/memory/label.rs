//! Labels: the description of a message before its data, where that is asked for (`WEFT_CHECK`).
//!
//! The code that makes a message, or the buffer for one, puts a label before the program's memory. For all
//! other code both are one sequence of bytes.

use std::cell::UnsafeCell;

use weft_core::layout::{Element, Layout};

use super::{BufferUse, Items, MemoryKind, Shape, UserData, check_items, checkers};
use crate::error::{Error, ErrorClass, Result};

/// The words of a label.
pub const LABEL_WORDS: usize = 16;
/// The bytes of a label.
pub const LABEL_BYTES: u64 = 8 * LABEL_WORDS as u64;

/// The memory of a label. It stays where it is for as long as the label lives.
pub struct Label(Box<[UnsafeCell<i64>; LABEL_WORDS]>);

impl Label {
    /// Makes a label with these words.
    pub fn new(words: [i64; LABEL_WORDS]) -> Self {
        Self(Box::new(words.map(UnsafeCell::new)))
    }

    /// The words of the label; in a receive, those that have arrived, once it is complete.
    pub fn words(&self) -> [i64; LABEL_WORDS] {
        // SAFETY: the words are the label's and are there. A peer may write them meanwhile, as the program's
        // memory: then they are any numbers.
        std::array::from_fn(|at| unsafe { self.0[at].get().read_volatile() })
    }

    /// Describes a message, or the buffer for one: this label, and then `count` items of `layout` at `base`.
    ///
    /// # Errors
    /// As for [`UserData::new`].
    ///
    /// # Safety
    /// As for [`UserData::new`]; and the label lives as long as the memory must.
    pub unsafe fn before(&self, buffer_use: BufferUse, base: *mut u8, count: u64, layout: &Layout) -> Result<UserData> {
        let bytes = check_items(base.addr(), count, layout)?;
        checkers::show_items(buffer_use, base, count, layout);
        let from_base = self.0.as_ptr().expose_provenance().wrapping_sub(base.addr()) as i64;
        let byte = Layout::element(Element::UInt8);
        let layout =
            Layout::structure(&[(from_base, LABEL_BYTES, byte), (0, count, layout.clone())]).map_err(|why| {
                Error::new(ErrorClass::Buffer, format!("WEFT_CHECK: the buffer cannot have a label before it: {why}"))
            })?;
        let bytes = LABEL_BYTES + bytes;
        Ok(UserData { base, bytes, shape: Shape::Items { items: Items::new(MemoryKind::Host, 1, bytes), layout } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_before_the_items_and_written_before_them() {
        let comb = Layout::vector(3, 1, 2, &Layout::element(Element::Byte)).unwrap();
        let mut memory: Vec<u8> = (0..10).collect();
        let label = Label::new(std::array::from_fn(|at| 1000 + at as i64));
        // SAFETY: both outlive it.
        let data = unsafe { label.before(BufferUse::Any, memory.as_mut_ptr(), 2, &comb) }.unwrap();
        assert_eq!(data.len(), LABEL_BYTES + 6);
        let mut packed = vec![0; data.len() as usize];
        data.read(0, &mut packed);
        assert_eq!(packed[8 * 3..8 * 4], 1003_i64.to_le_bytes());
        assert_eq!(packed[LABEL_BYTES as usize..], [0, 2, 4, 5, 7, 9]);
        packed.fill(1);
        data.write(0, &packed);
        assert_eq!(label.words(), [0x0101_0101_0101_0101; LABEL_WORDS]);
        assert_eq!(memory, [1, 1, 1, 3, 1, 1, 6, 1, 8, 1]);
    }

    #[test]
    fn a_message_without_data_is_its_label() {
        let label = Label::new([7; LABEL_WORDS]);
        // SAFETY: there are no items.
        let data = unsafe { label.before(BufferUse::Any, std::ptr::null_mut(), 0, &Layout::element(Element::Int32)) };
        assert_eq!(data.unwrap().len(), LABEL_BYTES);
    }
}
