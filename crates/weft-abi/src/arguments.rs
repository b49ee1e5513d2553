//! What the generated functions hand to the implementations beside plain values.

use crate::types::MPI_Request;
use std::ffi::c_int;

/// The forms of an operation that exists in three: a function whose first parameter is `form` implements MPI_X, MPI_IX and
/// MPI_X_init (MPI-5.0 §3.4, §3.7.2, §3.9, §6.12, §6.13).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// Returns when it is complete.
    Blocking,
    /// Starts, and gives a request.
    Nonblocking(*mut MPI_Request),
    /// Gives a request that can be started.
    Persistent(*mut MPI_Request),
}

/// An input array of counts or displacements: `int` in one C binding, 64 bits wide in the other.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)]
pub(crate) enum Counts {
    /// The array of the usual binding.
    Narrow(*const c_int),
    /// The array of the large-count binding (MPI_Count or MPI_Aint), or of MPI_Aint in both.
    Wide(*const i64),
}

#[allow(dead_code)]
impl Counts {
    /// No array at all.
    pub(crate) fn is_null(self) -> bool {
        match self {
            Self::Narrow(array) => array.is_null(),
            Self::Wide(array) => array.is_null(),
        }
    }

    /// Element `index`.
    ///
    /// # Safety
    /// The array has more than `index` elements.
    #[inline]
    pub(crate) unsafe fn get(self, index: usize) -> i64 {
        match self {
            // SAFETY: the caller knows that the array has this element.
            Self::Narrow(array) => i64::from(unsafe { array.add(index).read() }),
            // SAFETY: the caller knows that the array has this element.
            Self::Wide(array) => unsafe { array.add(index).read() },
        }
    }

    /// The first `length` elements.
    ///
    /// # Safety
    /// The array has at least `length` elements.
    pub(crate) unsafe fn to_vec(self, length: usize) -> Vec<i64> {
        // SAFETY: `index < length`, and the caller knows that the array has `length` elements.
        (0..length).map(|index| unsafe { self.get(index) }).collect()
    }
}

/// An output count for the usual binding: what does not fit in an `int` is MPI_UNDEFINED (MPI-5.0 §3.2.5, §5.1.5).
#[inline]
#[allow(dead_code)]
pub(crate) fn narrow(value: i64) -> c_int {
    c_int::try_from(value).unwrap_or(crate::constants::MPI_UNDEFINED)
}
