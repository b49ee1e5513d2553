//! What C hands over: places for results, arrays, strings and buffers.
//!
//! A generated function makes these values from the pointers of its call. Its caller keeps the contract of
//! the C prototype (MPI-5.0 §2, §20): memory behind a pointer is there until the call returns, as much as the
//! arguments say. That is promised where a value is made, once, and the functions in `calls/` need no promise
//! of their own. The lifetime keeps a value from outliving its call. Nothing here is a reference: the program
//! may pass one address twice, and memory for a result may hold anything.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::constants::MPI_UNDEFINED;
use crate::types::{MPI_Aint, MPI_Request};

/// A place for a result.
pub(crate) struct Out<'call, T>(NonNull<T>, PhantomData<&'call T>);

/// A place that holds a value of the program, and may get another one.
pub(crate) struct InOut<'call, T>(Out<'call, T>);

/// An array that is only read. Whoever reads an element gets a copy.
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

/// An array that is only read, and whose length no argument tells: it follows from an object (a value for
/// each process of a communicator) or from the values of another array.
pub(crate) struct UnmeasuredArray<'call, T>(*const T, PhantomData<&'call T>);

/// Memory of the program. Other arguments, the counts and datatypes above all, say what is there.
#[derive(Clone, Copy)]
pub(crate) struct Buffer(*mut c_void);

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

/// Room for a string that a tool asks for: the program says how much there is, and is told how much the
/// string needs.
#[derive(Clone, Copy)]
pub(crate) struct OutText<'call> {
    first: *mut c_char,
    length: Option<InOut<'call, c_int>>,
}

macro_rules! copies {
    ($($name:ident)*) => {$(
        impl<T> Clone for $name<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<'_, T> {}
    )*};
}

copies! { Out InOut InArray OutArray InOutArray UnmeasuredArray }

impl<T: Copy> Out<'_, T> {
    /// The place at `pointer`.
    ///
    /// # Safety
    /// It is not null, and can be written until the call returns.
    #[inline(always)]
    pub(crate) unsafe fn new(pointer: *mut T) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { NonNull::new_unchecked(pointer) }, PhantomData)
    }

    /// The same, where null says that the program does not want the result.
    ///
    /// # Safety
    /// It is null, or can be written until the call returns.
    #[inline(always)]
    pub(crate) unsafe fn if_wanted(pointer: *mut T) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| Self(pointer, PhantomData))
    }

    /// Gives the program `value`.
    #[inline(always)]
    pub(crate) fn set(self, value: T) {
        // SAFETY: whoever made this promised that the place can be written.
        unsafe { self.0.write(value) };
    }
}

/// A result that the caller passes on in another width.
impl<'call, T> From<&'call mut T> for Out<'call, T> {
    #[inline(always)]
    fn from(place: &'call mut T) -> Self {
        Self(NonNull::from(place), PhantomData)
    }
}

impl<'call, T: Copy> InOut<'call, T> {
    /// The place at `pointer`.
    ///
    /// # Safety
    /// It is not null, holds a value, and can be written until the call returns.
    #[inline(always)]
    pub(crate) unsafe fn new(pointer: *mut T) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Out::new(pointer) })
    }

    /// The same, where null says that there is none.
    ///
    /// # Safety
    /// It is null, or as for [`InOut::new`].
    #[inline(always)]
    pub(crate) unsafe fn if_wanted(pointer: *mut T) -> Option<Self> {
        // SAFETY: the caller's promise.
        unsafe { Out::if_wanted(pointer) }.map(Self)
    }

    /// What the program has there.
    #[inline(always)]
    pub(crate) fn get(self) -> T {
        // SAFETY: whoever made this promised that the place holds a value.
        unsafe { self.0.0.read() }
    }

    /// Gives the program `value`.
    #[inline(always)]
    pub(crate) fn set(self, value: T) {
        self.0.set(value);
    }

    /// The address, for what changes a part of the value.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut T {
        self.0.0.as_ptr()
    }
}

impl<'call, T> From<&'call mut T> for InOut<'call, T> {
    #[inline(always)]
    fn from(place: &'call mut T) -> Self {
        Self(Out::from(place))
    }
}

/// A length that an argument tells: none is negative, which has been checked where it is an error.
#[inline(always)]
fn length_of(told: i64) -> usize {
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

    /// How many elements there are.
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
        // SAFETY: whoever made this promised that the array has so many elements.
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

    /// The same, where null says that the program does not want the results.
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
        // SAFETY: whoever made this promised so many places.
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

    /// The same, where null says that the program does not want the results.
    ///
    /// # Safety
    /// `first` is null, or as for [`InOutArray::new`].
    #[inline(always)]
    pub(crate) unsafe fn if_wanted(first: *mut T, length: i64) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!first.is_null()).then(|| unsafe { Self::new(first, length) })
    }

    /// How many elements there are.
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

    /// Where it begins: some addresses stand for an array that is not there.
    #[inline]
    pub(crate) fn as_ptr(self) -> *const T {
        self.0
    }
}

impl Buffer {
    /// No memory at all.
    pub(crate) const NULL: Self = Self(std::ptr::null_mut());

    /// The memory at `address`.
    ///
    /// # Safety
    /// Where the other arguments of the call make it significant, there is as much memory as they say. Until
    /// the operation of the call is complete it stays there, and the program leaves it alone as the standard
    /// demands (MPI-5.0 §3.7.2, §6.1, §12.3).
    #[inline(always)]
    pub(crate) unsafe fn new(address: *const c_void) -> Self {
        Self(address.cast_mut())
    }

    /// Where it begins.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.0.cast()
    }

    /// The same as a number: some addresses stand for memory that is not there.
    #[inline(always)]
    pub(crate) fn addr(self) -> usize {
        self.0.addr()
    }

    /// Is there no memory at all?
    #[inline(always)]
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
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

    /// The bytes, without the zero byte.
    pub(crate) fn as_c_str(self) -> &'call CStr {
        self.0
    }
}

/// Bytes that are no UTF-8 are replaced.
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

    /// The same, where null or no room says that the program does not want the string.
    ///
    /// # Safety
    /// `first` is null, or the bytes can be written until the call returns.
    #[inline]
    pub(crate) unsafe fn if_wanted(first: *mut c_char, room: usize) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!first.is_null() && room > 0).then(|| unsafe { Self::new(first, room) })
    }

    /// Gives the program `text` and a zero byte, as much of it as there is room for; the length without the
    /// zero byte.
    pub(crate) fn set(self, text: &str) -> c_int {
        let length = text.len().min(self.room - 1);
        // SAFETY: whoever made this promised the room, and `length` bytes and the zero byte fit in it.
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
        // SAFETY: whoever made this promised so much room.
        if let Some(room) = unsafe { OutString::if_wanted(self.first, length_of(i64::from(length.get()))) } {
            room.set(text);
        }
        length.set(text.len() as c_int + 1);
    }
}

/// The forms of an operation that exists in three: a function whose first parameter is `form` implements
/// MPI_X, MPI_IX and MPI_X_init (MPI-5.0 §3.4, §3.7.2, §3.9, §6.12, §6.13).
#[derive(Clone, Copy)]
pub(crate) enum Form<'call> {
    /// Returns when it is complete.
    Blocking,
    /// Starts, and gives a request.
    Nonblocking(Out<'call, MPI_Request>),
    /// Gives a request that can be started.
    Persistent(Out<'call, MPI_Request>),
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

/// The same whose length no argument tells.
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
    /// No array at all.
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

/// An output count for the usual binding: what does not fit in an `int` is MPI_UNDEFINED (MPI-5.0 §3.2.5,
/// §5.1.5).
#[inline]
pub(crate) fn narrow(value: i64) -> c_int {
    c_int::try_from(value).unwrap_or(MPI_UNDEFINED)
}
