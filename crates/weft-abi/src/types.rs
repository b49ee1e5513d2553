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
        /// A pointer to an incomplete structure in C; nobody ever follows it. Values below 4096 are
        /// predefined handles.
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

/// The facts about a finished operation (MPI-5.0 §3.2.5); the layout is the ABI's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(crate) struct MPI_Status {
    /// The rank that sent the message.
    pub(crate) source: c_int,
    /// The tag of the message.
    pub(crate) tag: c_int,
    /// The error class, where a call completes several requests.
    pub(crate) error: c_int,
    /// The part that the library uses.
    pub(crate) private: [c_int; 5],
}

const _: () = assert!(size_of::<MPI_Status>() == 32);
const _: () = assert!(size_of::<MPI_Aint>() == size_of::<MPI_Count>());
