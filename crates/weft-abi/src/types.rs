//! The C types of the standard ABI (MPI-5.0 §20), as Rust sees them.

use std::ffi::c_int;

/// An address or a distance between two (`intptr_t` in C).
pub(crate) type MPI_Aint = isize;
/// A count of elements or bytes (`int64_t` in C).
pub(crate) type MPI_Count = i64;
/// A position in a file (`int64_t` in C).
pub(crate) type MPI_Offset = i64;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident $(= $null:literal)?;)*) => {$(
        $(#[$doc])*
        ///
        /// A pointer to an incomplete structure in C; nobody ever follows it. Values below 4096 are predefined handles.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        #[repr(transparent)]
        pub(crate) struct $name(pub(crate) usize);

        $(
            #[allow(dead_code)]
            impl $name {
                /// The handle that stands for no object.
                pub(crate) const NULL: Self = Self($null);
            }
        )?
    )*};
}

handles! {
    /// A communicator.
    MPI_Comm = 0x100;
    /// A group of processes.
    MPI_Group = 0x108;
    /// A window.
    MPI_Win = 0x110;
    /// An open file.
    MPI_File = 0x118;
    /// A session.
    MPI_Session = 0x120;
    /// A matched message.
    MPI_Message = 0x128;
    /// An info object.
    MPI_Info = 0x130;
    /// An error handler.
    MPI_Errhandler = 0x140;
    /// A request.
    MPI_Request = 0x180;
    /// A datatype.
    MPI_Datatype = 0x200;
    /// A reduction operation.
    MPI_Op = 0x20;
    /// An enumeration of the tool interface.
    MPI_T_enum = 0;
    /// A control variable of the tool interface.
    MPI_T_cvar_handle = 0;
    /// A performance variable of the tool interface.
    MPI_T_pvar_handle = 0;
    /// A session of the tool interface.
    MPI_T_pvar_session = 0;
    /// A registration for an event of the tool interface.
    MPI_T_event_registration = 0;
    /// An event of the tool interface.
    MPI_T_event_instance = 0;
}

/// What is known about a finished operation (MPI-5.0 §3.2.5); the layout is the ABI's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(crate) struct MPI_Status {
    /// The rank that sent the message.
    pub(crate) source: c_int,
    /// The tag of the message.
    pub(crate) tag: c_int,
    /// The error class, where a call completes several requests.
    pub(crate) error: c_int,
    /// The library's own.
    pub(crate) private: [c_int; 5],
}

const _: () = assert!(size_of::<MPI_Status>() == 32);
const _: () = assert!(size_of::<MPI_Aint>() == size_of::<MPI_Count>());

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
    c_int::try_from(value).unwrap_or(crate::generated::constants::MPI_UNDEFINED)
}
