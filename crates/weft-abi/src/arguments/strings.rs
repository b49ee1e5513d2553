//! Strings of the program, and room for strings that it asks for.

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::InOut;
use super::arrays::length_of;

/// A string of the program.
#[derive(Clone, Copy)]
pub(crate) struct InString<'call>(&'call CStr);

/// Room for a string with its zero byte.
#[derive(Clone, Copy)]
pub(crate) struct OutString<'call> {
    first: NonNull<c_char>,
    room: usize,
    call: PhantomData<&'call c_char>,
}

/// Room for a string that a tool asks for. The program says how much room there is, and is told how much the
/// string needs.
#[derive(Clone, Copy)]
pub(crate) struct OutText<'call> {
    first: *mut c_char,
    length: Option<InOut<'call, c_int>>,
}

/// A list of strings of the program: as many as another argument says, or up to a null pointer.
#[derive(Clone, Copy)]
pub(crate) struct InStrings<'call>(*const *mut c_char, PhantomData<&'call c_char>);

/// The arguments of several commands, a list of strings for each.
#[derive(Clone, Copy)]
pub(crate) struct InCommandLines<'call>(*const *mut *mut c_char, PhantomData<&'call c_char>);

impl InStrings<'_> {
    /// The strings from `first` on.
    ///
    /// # Safety
    /// `first` is null, or the pointers are there until the call returns, as many as the standard says, each
    /// null or a string.
    pub(crate) unsafe fn new(first: *const *mut c_char) -> Self {
        Self(first, PhantomData)
    }

    /// The strings before the first null pointer; none where there is no list. Bytes that are no UTF-8 are
    /// replaced. Only for lists that end like that.
    pub(crate) fn up_to_null(self) -> Vec<String> {
        (0..).map_while(|index| self.at(index)).collect()
    }

    /// The string at `index`, one of those that the standard gives the list; `None` where its pointer is
    /// null.
    pub(crate) fn at(self, index: usize) -> Option<String> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the code that made this value promised the pointer, and a string behind it.
        let text = unsafe { InString::if_wanted(*self.0.add(index)) }?;
        Some(text.to_string())
    }
}

impl InCommandLines<'_> {
    /// The lists from `first` on.
    ///
    /// # Safety
    /// `first` is null, or there are as many lists as commands until the call returns, each null or ending
    /// with a null pointer.
    pub(crate) unsafe fn new(first: *const *mut *mut c_char) -> Self {
        Self(first, PhantomData)
    }

    /// The arguments of the command at `index`, one of those that there are; none where it has no list, or no
    /// command has.
    pub(crate) fn at(self, index: usize) -> Vec<String> {
        if self.0.is_null() {
            return Vec::new();
        }
        // SAFETY: the code that made this value promised the list.
        unsafe { InStrings::new(*self.0.add(index)) }.up_to_null()
    }
}

impl<'call> InString<'call> {
    /// The string at `first`.
    ///
    /// # Safety
    /// It is not null, and ends with a zero byte; the bytes do not change until the call returns.
    #[inline]
    pub(crate) unsafe fn new(first: *const c_char) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { CStr::from_ptr(first) })
    }

    /// The string at `first`; `None` where it is null.
    ///
    /// # Safety
    /// It is null, or a string as for [`Self::new`].
    #[inline]
    pub(crate) unsafe fn if_wanted(first: *const c_char) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!first.is_null()).then(|| unsafe { Self::new(first) })
    }

    /// The bytes, without the zero byte.
    pub(crate) fn as_c_str(self) -> &'call CStr {
        self.0
    }
}

/// Shows the string. Bytes that are no UTF-8 are replaced.
impl std::fmt::Display for InString<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.to_string_lossy())
    }
}

impl OutString<'_> {
    /// The `room` bytes from `first` on, of which there is at least one.
    ///
    /// # Safety
    /// `first` is not null, and they can be written until the call returns.
    #[inline]
    pub(crate) unsafe fn new(first: *mut c_char, room: usize) -> Self {
        // SAFETY: the caller's promise.
        Self { first: unsafe { NonNull::new_unchecked(first) }, room, call: PhantomData }
    }

    /// The `room` bytes from `first` on, where null or no room says that the program does not want the
    /// string.
    ///
    /// # Safety
    /// `first` is null, or the bytes can be written until the call returns.
    #[inline]
    pub(crate) unsafe fn if_wanted(first: *mut c_char, room: usize) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!first.is_null() && room > 0).then(|| unsafe { Self::new(first, room) })
    }

    /// Gives the program `text` and a zero byte, as much as there is room for. Returns the length without the
    /// zero byte.
    pub(crate) fn set(self, text: &str) -> c_int {
        let length = text.len().min(self.room - 1);
        // SAFETY: the code that made this value promised the room, and `length` bytes and the zero byte fit
        // in it.
        unsafe {
            self.first.copy_from_nonoverlapping(NonNull::from(text.as_bytes()).cast(), length);
            self.first.add(length).write(0);
        }
        length as c_int
    }
}

impl OutText<'_> {
    /// The room at `first`; null, or no `length`, says that the program does not want the string.
    ///
    /// # Safety
    /// `length` is null, or holds a value and can be written; so can as many bytes from `first` on as it
    /// says, unless that is null.
    pub(crate) unsafe fn new(first: *mut c_char, length: *mut c_int) -> Self {
        // SAFETY: the caller's promise.
        Self { first, length: unsafe { InOut::if_wanted(length) } }
    }

    /// Gives the program `text` as far as there is room, and the length that holds all of it with its zero
    /// byte (MPI-5.0 §15.3.3).
    pub(crate) fn set(self, text: &str) {
        let Some(length) = self.length else { return };
        // SAFETY: the code that made this value promised so much room.
        if let Some(room) = unsafe { OutString::if_wanted(self.first, length_of(i64::from(length.get()))) } {
            room.set(text);
        }
        length.set(text.len() as c_int + 1);
    }
}
