//! Strings in and out of C.

use std::ffi::{CStr, c_char, c_int};

use crate::constants::MPI_MAX_OBJECT_NAME;

/// A string of the program; bytes that are no UTF-8 are replaced.
///
/// # Safety
/// `text` is a string that ends with a zero byte.
pub(crate) unsafe fn take(text: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The name of an object: what does not fit in MPI_MAX_OBJECT_NAME is cut off (MPI-5.0 §7.8).
///
/// # Safety
/// As for [`take`].
pub(crate) unsafe fn object_name(text: *const c_char) -> String {
    // SAFETY: the caller's promise.
    let mut name = unsafe { take(text) };
    let mut end = name.len().min(MPI_MAX_OBJECT_NAME as usize - 1);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name
}

/// Writes `text` and a zero byte, as much as `room` bytes hold; the length without the zero byte.
///
/// # Safety
/// `to` has room for `room` bytes, of which there is at least one.
pub(crate) unsafe fn give(text: &str, to: *mut c_char, room: usize) -> c_int {
    let length = text.len().min(room - 1);
    // SAFETY: `length` bytes and the zero byte fit in `room`.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, length);
        *to.add(length) = 0;
    }
    length as c_int
}
