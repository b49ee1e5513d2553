//! Handles as integers, for languages without pointers (MPI-5.0 §19.3.4).
//!
//! Predefined handles stand for themselves; other handles have integers from 2^30 on. A value that is no
//! handle, or no integer of a handle, becomes the null handle.

use crate::types::*;
use std::ffi::c_int;
use std::ops::Range;
use weft_mpi::handle::Slab;
use weft_mpi::process::{Process, with};

// The ranges of the ABI for the predefined handles of each kind (MPI-5.0 §20.3).
const OPERATIONS: Range<usize> = 0x20..0x40;
const COMMUNICATORS: Range<usize> = 0x100..0x108;
const GROUPS: Range<usize> = 0x108..0x110;
const WINDOWS: Range<usize> = 0x110..0x118;
const FILES: Range<usize> = 0x118..0x120;
const SESSIONS: Range<usize> = 0x120..0x128;
const MESSAGES: Range<usize> = 0x128..0x130;
const INFOS: Range<usize> = 0x130..0x138;
const ERROR_HANDLERS: Range<usize> = 0x140..0x160;
const REQUESTS: Range<usize> = 0x180..0x1a0;
const DATATYPES: Range<usize> = 0x200..0x300;

/// The table of a process with the objects of one kind. There is none outside of init and finalize.
type Table<T> = fn(&mut Process) -> Option<&mut Slab<T>>;

fn to_integer<T>(handle: usize, predefined: Range<usize>, null: usize, table: Table<T>) -> c_int {
    if predefined.contains(&handle) {
        return handle as c_int;
    }
    with(|process| table(process)?.integer(handle)).unwrap_or(null as c_int)
}

fn from_integer<T>(integer: c_int, predefined: Range<usize>, null: usize, table: Table<T>) -> usize {
    match usize::try_from(integer) {
        Ok(handle) if predefined.contains(&handle) => handle,
        _ => with(|process| table(process)?.from_integer(integer)).unwrap_or(null),
    }
}

/// MPI_Comm_toint (MPI-5.0 §19.3.4).
pub(crate) fn comm_toint(comm: MPI_Comm) -> c_int {
    to_integer(comm.0, COMMUNICATORS, MPI_Comm::NULL.0, |process| Some(&mut process.objects.communicators))
}

/// MPI_Comm_fromint (MPI-5.0 §19.3.4).
pub(crate) fn comm_fromint(comm: c_int) -> MPI_Comm {
    MPI_Comm(from_integer(comm, COMMUNICATORS, MPI_Comm::NULL.0, |process| Some(&mut process.objects.communicators)))
}

/// MPI_Errhandler_toint (MPI-5.0 §19.3.4).
pub(crate) fn errhandler_toint(errhandler: MPI_Errhandler) -> c_int {
    to_integer(errhandler.0, ERROR_HANDLERS, MPI_Errhandler::NULL.0, |process| {
        Some(&mut process.objects.error_handlers)
    })
}

/// MPI_Errhandler_fromint (MPI-5.0 §19.3.4).
pub(crate) fn errhandler_fromint(errhandler: c_int) -> MPI_Errhandler {
    MPI_Errhandler(from_integer(errhandler, ERROR_HANDLERS, MPI_Errhandler::NULL.0, |process| {
        Some(&mut process.objects.error_handlers)
    }))
}

/// MPI_File_toint (MPI-5.0 §19.3.4).
pub(crate) fn file_toint(file: MPI_File) -> c_int {
    to_integer(file.0, FILES, MPI_File::NULL.0, |process| Some(&mut process.objects.files))
}

/// MPI_File_fromint (MPI-5.0 §19.3.4).
pub(crate) fn file_fromint(file: c_int) -> MPI_File {
    MPI_File(from_integer(file, FILES, MPI_File::NULL.0, |process| Some(&mut process.objects.files)))
}

/// MPI_Group_toint (MPI-5.0 §19.3.4).
pub(crate) fn group_toint(group: MPI_Group) -> c_int {
    to_integer(group.0, GROUPS, MPI_Group::NULL.0, |process| Some(&mut process.objects.groups))
}

/// MPI_Group_fromint (MPI-5.0 §19.3.4).
pub(crate) fn group_fromint(group: c_int) -> MPI_Group {
    MPI_Group(from_integer(group, GROUPS, MPI_Group::NULL.0, |process| Some(&mut process.objects.groups)))
}

/// MPI_Info_toint (MPI-5.0 §19.3.4).
pub(crate) fn info_toint(info: MPI_Info) -> c_int {
    to_integer(info.0, INFOS, MPI_Info::NULL.0, |process| Some(&mut process.objects.infos))
}

/// MPI_Info_fromint (MPI-5.0 §19.3.4).
pub(crate) fn info_fromint(info: c_int) -> MPI_Info {
    MPI_Info(from_integer(info, INFOS, MPI_Info::NULL.0, |process| Some(&mut process.objects.infos)))
}

/// MPI_Message_toint (MPI-5.0 §19.3.4).
pub(crate) fn message_toint(message: MPI_Message) -> c_int {
    to_integer(message.0, MESSAGES, MPI_Message::NULL.0, |process| Some(&mut process.objects.extracted))
}

/// MPI_Message_fromint (MPI-5.0 §19.3.4).
pub(crate) fn message_fromint(message: c_int) -> MPI_Message {
    MPI_Message(from_integer(message, MESSAGES, MPI_Message::NULL.0, |process| Some(&mut process.objects.extracted)))
}

/// MPI_Op_toint (MPI-5.0 §19.3.4).
pub(crate) fn op_toint(op: MPI_Op) -> c_int {
    to_integer(op.0, OPERATIONS, MPI_Op::NULL.0, |process| Some(&mut process.objects.operations))
}

/// MPI_Op_fromint (MPI-5.0 §19.3.4).
pub(crate) fn op_fromint(op: c_int) -> MPI_Op {
    MPI_Op(from_integer(op, OPERATIONS, MPI_Op::NULL.0, |process| Some(&mut process.objects.operations)))
}

/// MPI_Request_toint (MPI-5.0 §19.3.4).
pub(crate) fn request_toint(request: MPI_Request) -> c_int {
    to_integer(request.0, REQUESTS, MPI_Request::NULL.0, |process| Some(&mut process.messages().ok()?.requests))
}

/// MPI_Request_fromint (MPI-5.0 §19.3.4).
pub(crate) fn request_fromint(request: c_int) -> MPI_Request {
    MPI_Request(from_integer(request, REQUESTS, MPI_Request::NULL.0, |process| {
        Some(&mut process.messages().ok()?.requests)
    }))
}

/// MPI_Session_toint (MPI-5.0 §19.3.4).
pub(crate) fn session_toint(session: MPI_Session) -> c_int {
    to_integer(session.0, SESSIONS, MPI_Session::NULL.0, |process| Some(&mut process.objects.sessions))
}

/// MPI_Session_fromint (MPI-5.0 §19.3.4).
pub(crate) fn session_fromint(session: c_int) -> MPI_Session {
    MPI_Session(from_integer(session, SESSIONS, MPI_Session::NULL.0, |process| Some(&mut process.objects.sessions)))
}

/// MPI_Type_toint (MPI-5.0 §19.3.4).
pub(crate) fn type_toint(datatype: MPI_Datatype) -> c_int {
    to_integer(datatype.0, DATATYPES, MPI_Datatype::NULL.0, |process| Some(&mut process.objects.datatypes))
}

/// MPI_Type_fromint (MPI-5.0 §19.3.4).
pub(crate) fn type_fromint(datatype: c_int) -> MPI_Datatype {
    MPI_Datatype(from_integer(datatype, DATATYPES, MPI_Datatype::NULL.0, |process| {
        Some(&mut process.objects.datatypes)
    }))
}

/// MPI_Win_toint (MPI-5.0 §19.3.4).
pub(crate) fn win_toint(win: MPI_Win) -> c_int {
    to_integer(win.0, WINDOWS, MPI_Win::NULL.0, |process| Some(&mut process.objects.windows))
}

/// MPI_Win_fromint (MPI-5.0 §19.3.4).
pub(crate) fn win_fromint(win: c_int) -> MPI_Win {
    MPI_Win(from_integer(win, WINDOWS, MPI_Win::NULL.0, |process| Some(&mut process.objects.windows)))
}
