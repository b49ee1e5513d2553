//! Arrays that C passes. Some know their length and check each index; the others must be measured first.

use std::ffi::c_int;
use std::marker::PhantomData;

use super::{InOut, Out};
use crate::types::MPI_Aint;

/// An array that is only read. Reading an element copies it.
pub(crate) struct InArray<'call, T> {
    first: *const T,
    length: usize,
    call: PhantomData<&'call T>,
}

/// Places for as many results as the program has room for.
pub(crate) struct OutArray<'call, T> {
    first: *mut T,
    room: usize,
    call: PhantomData<&'call T>,
}

/// An array whose elements may be replaced.
pub(crate) struct InOutArray<'call, T>(OutArray<'call, T>);

/// An array that is only read, and whose length no argument gives. The length follows from an object (a value
/// for each process of a communicator) or from the values of another array.
pub(crate) struct UnmeasuredArray<'call, T>(*const T, PhantomData<&'call T>);

/// The places of error codes, one for each process that a call starts, where the program wants to know them.
#[derive(Clone, Copy)]
pub(crate) struct OutCodes<'call>(*mut c_int, PhantomData<&'call c_int>);

impl OutCodes<'_> {
    /// The places from `first` on.
    ///
    /// # Safety
    /// `first` is null (`MPI_ERRCODES_IGNORE`), or there is a place for each process until the call returns.
    pub(crate) unsafe fn new(first: *mut c_int) -> Self {
        Self(first, PhantomData)
    }

    /// Sets the code of each process.
    pub(crate) fn fill(self, codes: impl Iterator<Item = c_int>) {
        if !self.0.is_null() {
            // SAFETY: the code that made this value promised a place for each process.
            codes.enumerate().for_each(|(index, code)| unsafe { self.0.add(index).write(code) });
        }
    }
}

copies! { InArray OutArray InOutArray UnmeasuredArray }

/// The length in an argument. It is never negative: that has been checked where it is an error.
#[inline(always)]
pub(super) fn length_of(told: i64) -> usize {
    usize::try_from(told).unwrap_or(0)
}

impl<T: Copy> InArray<'_, T> {
    /// The `length` elements from `first` on.
    ///
    /// # Safety
    /// They are there until the call returns; where there are none, `first` may be null.
    #[inline(always)]
    pub(crate) unsafe fn new(first: *const T, length: i64) -> Self {
        Self { first, length: length_of(length), call: PhantomData }
    }

    /// Returns whether there should be elements, and the program has passed a null pointer.
    pub(crate) fn is_missing(self) -> bool {
        self.first.is_null() && self.length > 0
    }

    /// The number of elements.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.length
    }

    /// Element `index`.
    ///
    /// # Panics
    /// When there is none.
    #[inline(always)]
    pub(crate) fn get(self, index: usize) -> T {
        assert!(index < self.length, "element {index} of {}", self.length);
        // SAFETY: the code that made this value promised that the array has so many elements.
        unsafe { self.first.add(index).read() }
    }

    /// All elements.
    #[inline(always)]
    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = T> + ExactSizeIterator + Clone {
        (0..self.length).map(move |index| self.get(index))
    }

    /// A copy of all elements.
    pub(crate) fn to_vec(self) -> Vec<T> {
        self.iter().collect()
    }
}

impl<'call, T: Copy> OutArray<'call, T> {
    /// The `room` places from `first` on.
    ///
    /// # Safety
    /// They can be written until the call returns; where there are none, `first` may be null.
    #[inline(always)]
    pub(crate) unsafe fn new(first: *mut T, room: i64) -> Self {
        Self { first, room: length_of(room), call: PhantomData }
    }

    /// The `room` places from `first` on, where null says that the program does not want the results.
    ///
    /// # Safety
    /// `first` is null, or as for [`OutArray::new`].
    #[inline(always)]
    pub(crate) unsafe fn if_wanted(first: *mut T, room: i64) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!first.is_null()).then(|| unsafe { Self::new(first, room) })
    }

    /// Gives the program `value` as element `index`.
    ///
    /// # Panics
    /// When there is no room for it.
    #[inline(always)]
    pub(crate) fn set(self, index: usize, value: T) {
        self.at(index).set(value);
    }

    /// Gives the program `values`, from the first place on.
    pub(crate) fn fill(self, values: impl Iterator<Item = T>) {
        for (index, value) in values.enumerate() {
            self.set(index, value);
        }
    }

    /// The place of element `index`.
    ///
    /// # Panics
    /// When there is none.
    #[inline(always)]
    fn at(self, index: usize) -> Out<'call, T> {
        assert!(index < self.room, "place {index} of {}", self.room);
        // SAFETY: the code that made this value promised so many places.
        unsafe { Out::new(self.first.add(index)) }
    }
}

impl<'call, T: Copy> InOutArray<'call, T> {
    /// The `length` elements from `first` on.
    ///
    /// # Safety
    /// They are there, and can be written, until the call returns; where there are none, `first` may be null.
    #[inline(always)]
    pub(crate) unsafe fn new(first: *mut T, length: i64) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { OutArray::new(first, length) })
    }

    /// The `length` elements from `first` on, where null says that the program does not want the results.
    ///
    /// # Safety
    /// `first` is null, or as for [`InOutArray::new`].
    #[inline(always)]
    pub(crate) unsafe fn if_wanted(first: *mut T, length: i64) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!first.is_null()).then(|| unsafe { Self::new(first, length) })
    }

    /// The number of elements.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.0.room
    }

    /// The place of element `index`.
    ///
    /// # Panics
    /// When there is none.
    #[inline(always)]
    pub(crate) fn at(self, index: usize) -> InOut<'call, T> {
        InOut(self.0.at(index))
    }

    /// The elements, to read them.
    #[inline(always)]
    pub(crate) fn as_in(self) -> InArray<'call, T> {
        InArray { first: self.0.first, length: self.0.room, call: PhantomData }
    }
}

impl<'call, T: Copy> UnmeasuredArray<'call, T> {
    /// The array that begins at `first`.
    ///
    /// # Safety
    /// Where it is not null, its elements are there until the call returns.
    #[inline(always)]
    pub(crate) unsafe fn new(first: *const T) -> Self {
        Self(first, PhantomData)
    }

    /// The array, with its `length`.
    ///
    /// # Safety
    /// The standard gives this array so many elements; where there are any, it is not null.
    #[inline]
    pub(crate) unsafe fn measured(self, length: usize) -> InArray<'call, T> {
        InArray { first: self.0, length, call: PhantomData }
    }

    /// The beginning of the array: some addresses stand for an array that is not there.
    #[inline]
    pub(crate) fn as_ptr(self) -> *const T {
        self.0
    }
}

/// An input array of counts or displacements: `int` in one C binding, 64 bits wide in the other.
#[derive(Clone, Copy)]
pub(crate) enum Counts<'call> {
    /// The array of the usual binding.
    Narrow(InArray<'call, c_int>),
    /// The array of the large-count binding (MPI_Count or MPI_Aint), or of MPI_Aint in both.
    Wide(InArray<'call, i64>),
}

impl Counts<'_> {
    /// A copy of all elements.
    pub(crate) fn to_vec(self) -> Vec<i64> {
        match self {
            Self::Narrow(array) => array.iter().map(i64::from).collect(),
            Self::Wide(array) => array.to_vec(),
        }
    }
}

/// An input array of counts or displacements whose length no argument gives.
#[derive(Clone, Copy)]
pub(crate) enum UnmeasuredCounts<'call> {
    /// The array of the usual binding.
    Narrow(UnmeasuredArray<'call, c_int>),
    /// The array of the large-count binding.
    Wide(UnmeasuredArray<'call, i64>),
}

/// Displacements that are MPI_Aint in both bindings.
impl<'call> From<UnmeasuredArray<'call, MPI_Aint>> for UnmeasuredCounts<'call> {
    fn from(array: UnmeasuredArray<'call, MPI_Aint>) -> Self {
        Self::Wide(UnmeasuredArray(array.0.cast(), PhantomData))
    }
}

impl<'call> UnmeasuredCounts<'call> {
    /// Returns whether there is no array at all.
    pub(crate) fn is_null(self) -> bool {
        match self {
            Self::Narrow(array) => array.as_ptr().is_null(),
            Self::Wide(array) => array.as_ptr().is_null(),
        }
    }

    /// The array, with its `length`.
    ///
    /// # Safety
    /// As for [`UnmeasuredArray::measured`].
    pub(crate) unsafe fn measured(self, length: usize) -> Counts<'call> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Narrow(array) => Counts::Narrow(array.measured(length)),
                Self::Wide(array) => Counts::Wide(array.measured(length)),
            }
        }
    }
}
