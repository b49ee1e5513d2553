//! What C hands over: places for results, arrays, strings and buffers.
//!
//! A generated function makes these values from the pointers of its call. Its caller keeps the contract of
//! the C prototype (MPI-5.0 §2, §20): memory behind a pointer is there until the call returns, as much as the
//! arguments say. That is promised where a value is made, once, and the functions in `calls/` need no promise
//! of their own. The lifetime keeps a value from outliving its call. Nothing here is a reference: the program
//! may pass one address twice, and memory for a result may hold anything.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::constants::MPI_UNDEFINED;
use crate::types::MPI_Request;

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

/// A place that holds a value of the program, and may get another one.
pub(crate) struct InOut<'call, T>(Out<'call, T>);

/// Memory of the program. Other arguments, the counts and datatypes above all, say what is there.
#[derive(Clone, Copy)]
pub(crate) struct Buffer(*mut c_void);

copies! { Out InOut }

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

/// The forms of an operation that exists in several: a function whose first parameter is `form` implements
/// MPI_X, MPI_IX and MPI_X_init (MPI-5.0 §3.4, §3.7.2, §3.9, §6.12, §6.13), or MPI_X and MPI_RX (§12.3.5).
#[derive(Clone, Copy)]
pub(crate) enum Form<'call> {
    /// Returns when it is complete.
    Blocking,
    /// Starts, and gives a request.
    Nonblocking(Out<'call, MPI_Request>),
    /// Gives a request that can be started.
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

/// An output count for the usual binding: what does not fit in an `int` is MPI_UNDEFINED (MPI-5.0 §3.2.5,
/// §5.1.5).
#[inline]
pub(crate) fn narrow(value: i64) -> c_int {
    c_int::try_from(value).unwrap_or(MPI_UNDEFINED)
}
