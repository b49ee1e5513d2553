//! The arguments that C passes: places for results, arrays, strings and buffers. The functions in `calls/`
//! take them.
//!
//! A generated function makes these values from the pointers of its call. Its caller keeps the contract of
//! the C prototype (MPI-5.0 §2, §20): memory behind a pointer is there until the call returns, as much as the
//! arguments say. This is promised once, where a value is made, and the functions in `calls/` need no promise
//! of their own. The lifetime keeps a value from outliving its call. No value here is a reference: the
//! program may pass one address twice, and memory for a result may hold any bytes.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use crate::constants::MPI_UNDEFINED;
use crate::types::{MPI_Request, MPI_Status};

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

mod arrays;
mod parts;
mod strings;

pub(crate) use arrays::*;
pub(crate) use parts::*;
pub(crate) use strings::*;

/// A place for a result.
pub(crate) struct Out<'call, T>(NonNull<T>, PhantomData<&'call T>);

/// A place that holds a value of the program, and may get another value.
pub(crate) struct InOut<'call, T>(Out<'call, T>);

/// Memory of the program. Other arguments, above all counts and datatypes, say what is in it.
#[derive(Clone, Copy)]
pub(crate) struct Buffer(*mut c_void);

/// A descriptor of the program.
#[derive(Clone, Copy)]
pub(crate) struct InDescriptor<'call>(Option<BorrowedFd<'call>>);

copies! { Out InOut }

impl InDescriptor<'_> {
    /// The descriptor with this number.
    ///
    /// # Safety
    /// It is negative, or stays open until the call returns.
    pub(crate) unsafe fn new(number: c_int) -> Self {
        // SAFETY: the caller's promise. -1 is no descriptor, and no negative number is one.
        Self((number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) }))
    }

    /// Another descriptor of the same file or socket.
    ///
    /// # Errors
    /// The number is no open descriptor, or the process has no room for another.
    pub(crate) fn duplicate(self) -> std::io::Result<OwnedFd> {
        self.0.ok_or(std::io::ErrorKind::InvalidInput)?.try_clone_to_owned()
    }
}

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

    /// The place at `pointer`, where null says that the program does not want the result.
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
        // SAFETY: the code that made this value promised that the place can be written.
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

    /// The place at `pointer`, where null says that there is none.
    ///
    /// # Safety
    /// It is null, or as for [`InOut::new`].
    #[inline(always)]
    pub(crate) unsafe fn if_wanted(pointer: *mut T) -> Option<Self> {
        // SAFETY: the caller's promise.
        unsafe { Out::if_wanted(pointer) }.map(Self)
    }

    /// The value of the program at this place.
    #[inline(always)]
    pub(crate) fn get(self) -> T {
        // SAFETY: the code that made this value promised that the place holds a value.
        unsafe { self.0.0.read() }
    }

    /// Gives the program `value`.
    #[inline(always)]
    pub(crate) fn set(self, value: T) {
        self.0.set(value);
    }

    /// Lets `body` change a part of the value, whose bits may all have any value.
    #[inline(always)]
    pub(crate) fn update(self, body: impl FnOnce(&mut T)) {
        // SAFETY: the code that made this value promised the place, and nobody else uses it meanwhile.
        body(unsafe { &mut *self.0.0.as_ptr() });
    }
}

impl<'call, T> From<&'call mut T> for InOut<'call, T> {
    #[inline(always)]
    fn from(place: &'call mut T) -> Self {
        Self(Out::from(place))
    }
}

impl<T: Copy> From<InOut<'_, T>> for Buffer {
    /// The memory of a value that the call may read and write.
    fn from(value: InOut<'_, T>) -> Self {
        Self(value.0.0.as_ptr().cast())
    }
}

impl Buffer {
    /// No memory at all.
    pub(crate) const NULL: Self = Self(std::ptr::null_mut());

    /// The memory at `address`.
    ///
    /// # Safety
    /// Where the other arguments of the call make it significant, there is as much memory as they say. The
    /// memory stays until the operation of the call is complete, and the program does not touch it, as the
    /// standard demands (MPI-5.0 §3.7.2, §6.1, §12.3).
    #[inline(always)]
    pub(crate) unsafe fn new(address: *const c_void) -> Self {
        Self(address.cast_mut())
    }

    /// The beginning of the memory.
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.0.cast()
    }

    /// The beginning as a number: some addresses stand for memory that is not there.
    #[inline(always)]
    pub(crate) fn addr(self) -> usize {
        self.0.addr()
    }

    /// Returns whether there is no memory at all.
    #[inline(always)]
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// A form in which the program gets a request.
pub(crate) trait MadeRequest: Copy {
    /// The request with a handle that was made just now, and so is not null.
    fn made(handle: usize) -> Self;
}

impl MadeRequest for MPI_Request {
    #[inline(always)]
    fn made(handle: usize) -> Self {
        Self(handle)
    }
}

/// The forms of an operation. A function whose first parameter is `form` implements MPI_X, MPI_IX and
/// MPI_X_init (MPI-5.0 §3.4, §3.7.2, §3.9, §6.12, §6.13), or MPI_X and MPI_RX (§12.3.5).
#[derive(Clone, Copy)]
pub(crate) enum Form<'call> {
    /// The call returns when the operation is complete.
    Blocking,
    /// The call starts the operation, and gives a request.
    Nonblocking(Out<'call, MPI_Request>),
    /// The call gives a request that can be started.
    Persistent(Out<'call, MPI_Request>),
}

impl<'call> Form<'call> {
    /// The place for the request of an operation without a persistent form, unless it is blocking.
    #[inline(always)]
    pub(crate) fn request(self) -> Option<Out<'call, MPI_Request>> {
        match self {
            Self::Blocking => None,
            Self::Nonblocking(request) | Self::Persistent(request) => Some(request),
        }
    }
}

/// The forms of an access to a file. A function whose first parameter is `transfer` implements MPI_File_x and
/// MPI_File_ix (MPI-5.0 §14.4.1).
#[derive(Clone, Copy)]
pub(crate) enum Transfer<'call> {
    /// The call returns when the data has been moved, and gives a status if one is wanted.
    Blocking(Option<InOut<'call, MPI_Status>>),
    /// The call starts the access, and gives a request.
    Nonblocking(Out<'call, MPI_Request>),
}

/// Converts an output count for the usual binding. A count that does not fit in an `int` becomes
/// MPI_UNDEFINED (MPI-5.0 §3.2.5, §5.1.5).
#[inline]
pub(crate) fn narrow(value: i64) -> c_int {
    c_int::try_from(value).unwrap_or(MPI_UNDEFINED)
}
