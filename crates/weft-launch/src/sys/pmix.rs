//! libpmix, opened when a PMIx launcher has started this process: the calls of a client, with their
//! structures.
//!
//! The layout is that of `pmix_common.h` and `pmix.h` of OpenPMIx, which has been the same since version 3:
//! texts of fixed length, and a value as a kind and a union of 24 bytes.
#![allow(unsafe_code)]

mod notices;
mod spawn;

pub(crate) use notices::{ABORTED, RECORD_BYTES, is_loss_of_server, reason};
pub(crate) use spawn::Program;

use super::library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::mem::{offset_of, transmute};
use std::ptr::{null, null_mut};

/// Bytes of a namespace and of a key, with their zeros.
const NAMESPACE_BYTES: usize = 256;
const KEY_BYTES: usize = 512;

/// Kinds of values.
const BOOL: u16 = 1;
const STRING: u16 = 3;
const INT: u16 = 6;
const INT32: u16 = 9;
const UINT: u16 = 11;
const UINT32: u16 = 14;
const PROCESS: u16 = 22;
const RANK: u16 = 40;

/// The scope of a value that every process of the job may ask for.
const GLOBAL: u8 = 3;
/// The rank that stands for the whole job.
pub(crate) const ALL_RANKS: u32 = u32::MAX - 1;

/// What a call returns when there is no value, and when the server is gone.
pub(crate) const NOT_FOUND: [c_int; 2] = [-46, -62];
pub(crate) const GONE: [c_int; 3] = [-25, -49, -61];

type Status = c_int;

/// A process: its job and its rank.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Process {
    namespace: [c_char; NAMESPACE_BYTES],
    rank: u32,
}

impl Process {
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// The process of the same job with another rank.
    pub(crate) fn with_rank(&self, rank: u32) -> Self {
        Self { rank, ..*self }
    }

    pub(crate) fn namespace(&self) -> String {
        let bytes: Vec<u8> = self.namespace.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.namespace(), self.rank)
    }
}

/// A value. `data` is a number, or the address of a text.
#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    kind: u16,
    data: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    key: [c_char; KEY_BYTES],
    flags: u32,
    value: Value,
}

/// A name to look up, and its answer.
#[repr(C)]
struct Published {
    process: Process,
    key: [c_char; KEY_BYTES],
    value: Value,
}

const _: () = {
    assert!(size_of::<Process>() == 260 && size_of::<Value>() == 32 && size_of::<Info>() == 552);
    assert!(offset_of!(Value, data) == 8 && offset_of!(Info, value) == 520);
    assert!(size_of::<Published>() == 808 && offset_of!(Published, value) == 776);
};

type Init = unsafe extern "C" fn(*mut Process, *const Info, usize) -> Status;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> Status;
type Abort = unsafe extern "C" fn(Status, *const c_char, *const Process, usize) -> Status;
type Put = unsafe extern "C" fn(u8, *const c_char, *const Value) -> Status;
type Commit = unsafe extern "C" fn() -> Status;
type Fence = unsafe extern "C" fn(*const Process, usize, *const Info, usize) -> Status;
type Get = unsafe extern "C" fn(*const Process, *const c_char, *const Info, usize, *mut *mut Value) -> Status;
type Publish = unsafe extern "C" fn(*const Info, usize) -> Status;
type Lookup = unsafe extern "C" fn(*mut Published, usize, *const Info, usize) -> Status;
type Unpublish = unsafe extern "C" fn(*const *const c_char, *const Info, usize) -> Status;
type ErrorString = unsafe extern "C" fn(Status) -> *const c_char;

/// The library, with the calls that are used. It is never closed: it has threads of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Library {
    init: Init,
    finalize: Finalize,
    abort: Abort,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    publish: Publish,
    lookup: Lookup,
    unpublish: Unpublish,
    spawn: spawn::Spawn,
    register_handler: notices::RegisterHandler,
    error_string: ErrorString,
}

/// A value that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Datum {
    Text(String),
    Number(u32),
}

impl Library {
    /// Opens the first of these files that is such a library; a name without a slash is searched for by the
    /// system.
    ///
    /// # Errors
    /// No file is: what the loader says of the last one.
    pub(crate) fn open(files: &[String]) -> Result<Self, String> {
        let mut why = "no file to open".to_owned();
        for file in files {
            match Self::open_file(file) {
                Ok(library) => return Ok(library),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn open_file(file: &str) -> Result<Self, String> {
        let library = library::open(file)?;
        let symbol = |name: &CStr| library::symbol(library, file, name);
        // SAFETY: `pmix.h` declares the functions of these names so, and pointers to functions are as large
        // as others.
        unsafe {
            Ok(Self {
                init: transmute::<*mut c_void, Init>(symbol(c"PMIx_Init")?),
                finalize: transmute::<*mut c_void, Finalize>(symbol(c"PMIx_Finalize")?),
                abort: transmute::<*mut c_void, Abort>(symbol(c"PMIx_Abort")?),
                put: transmute::<*mut c_void, Put>(symbol(c"PMIx_Put")?),
                commit: transmute::<*mut c_void, Commit>(symbol(c"PMIx_Commit")?),
                fence: transmute::<*mut c_void, Fence>(symbol(c"PMIx_Fence")?),
                get: transmute::<*mut c_void, Get>(symbol(c"PMIx_Get")?),
                publish: transmute::<*mut c_void, Publish>(symbol(c"PMIx_Publish")?),
                lookup: transmute::<*mut c_void, Lookup>(symbol(c"PMIx_Lookup")?),
                unpublish: transmute::<*mut c_void, Unpublish>(symbol(c"PMIx_Unpublish")?),
                spawn: transmute::<*mut c_void, spawn::Spawn>(symbol(c"PMIx_Spawn")?),
                register_handler: transmute::<*mut c_void, notices::RegisterHandler>(symbol(
                    c"PMIx_Register_event_handler",
                )?),
                error_string: transmute::<*mut c_void, ErrorString>(symbol(c"PMIx_Error_string")?),
            })
        }
    }

    /// Connects to the server, and returns this process.
    pub(crate) fn init(&self) -> Result<Process, Status> {
        let mut process = Process { namespace: [0; NAMESPACE_BYTES], rank: 0 };
        // SAFETY: the structure is the library's to fill, and there is no information for it.
        done(unsafe { (self.init)(&raw mut process, null(), 0) })?;
        Ok(process)
    }

    pub(crate) fn finalize(&self) -> Result<(), Status> {
        // SAFETY: there is no information for it.
        let status = unsafe { (self.finalize)(null(), 0) };
        notices::end();
        done(status)
    }

    /// Asks for notices of processes of the job of `own` that have failed. Returns the end of the pipe from
    /// which their records are read, [`RECORD_BYTES`] each: status and rank.
    pub(crate) fn notices(&self, own: &Process) -> Result<File, Status> {
        notices::begin(self.register_handler, own)
    }

    /// Asks the server to end all processes of the job.
    pub(crate) fn abort(&self, code: i32, message: &str) {
        let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the text ends with a zero, and no process is named: all are meant.
        let _ = unsafe { (self.abort)(code, message.as_ptr(), null(), 0) };
    }

    /// Stores a text for all processes of the job, which see it after [`Self::commit`] and a fence.
    pub(crate) fn put(&self, key: &str, value: &str) -> Result<(), Status> {
        let value_text = zero_ended(value)?;
        let value = Value { kind: STRING, data: [value_text.as_ptr().expose_provenance() as u64, 0, 0] };
        // SAFETY: the library copies key and value during the call.
        done(unsafe { (self.put)(GLOBAL, fixed(key)?.as_ptr(), &raw const value) })
    }

    /// Hands what was put to the server.
    pub(crate) fn commit(&self) -> Result<(), Status> {
        // SAFETY: the call has no arguments.
        done(unsafe { (self.commit)() })
    }

    /// Waits until all processes of the job are here, and brings the values that they have put.
    pub(crate) fn fence(&self) -> Result<(), Status> {
        let collect = yes("pmix.collect")?;
        // SAFETY: no process is named: all of the job are meant. The information is valid during the call.
        done(unsafe { (self.fence)(null(), 0, &raw const collect, 1) })
    }

    /// The value of a process; `None` when there is none. Where a process may still put the value, the server
    /// waits for it, up to two seconds.
    pub(crate) fn get(&self, of: &Process, key: &str) -> Result<Option<Datum>, Status> {
        self.get_with(of, key, &[])
    }

    /// The value of a process that it has put before the last fence; `None` when there is none.
    pub(crate) fn get_now(&self, of: &Process, key: &str) -> Result<Option<Datum>, Status> {
        self.get_with(of, key, &[yes("pmix.immediate")?])
    }

    fn get_with(&self, of: &Process, key: &str, how: &[Info]) -> Result<Option<Datum>, Status> {
        let mut found: *mut Value = null_mut();
        // SAFETY: process, key and information are valid during the call; the library makes the value.
        let status = unsafe { (self.get)(of, fixed(key)?.as_ptr(), how.as_ptr(), how.len(), &raw mut found) };
        if NOT_FOUND.contains(&status) || (status == 0 && found.is_null()) {
            return Ok(None);
        }
        done(status)?;
        // SAFETY: the call has succeeded, so it has made a value, by malloc, that is now this process's.
        unsafe {
            let datum = taken(&*found);
            libc::free(found.cast());
            Ok(datum)
        }
    }

    /// Makes a text known by a name to all jobs of the server.
    pub(crate) fn publish(&self, name: &str, value: &str) -> Result<(), Status> {
        let value_text = zero_ended(value)?;
        let value = Value { kind: STRING, data: [value_text.as_ptr().expose_provenance() as u64, 0, 0] };
        let info = Info { key: fixed(name)?, flags: 0, value };
        // SAFETY: the library copies the information during the call.
        done(unsafe { (self.publish)(&raw const info, 1) })
    }

    /// The text that is known by a name; `None` when there is none.
    pub(crate) fn look_up(&self, name: &str) -> Result<Option<String>, Status> {
        let process = Process { namespace: [0; NAMESPACE_BYTES], rank: 0 };
        let mut asked = Published { process, key: fixed(name)?, value: Value { kind: 0, data: [0; 3] } };
        // SAFETY: the structure is the library's to fill.
        let status = unsafe { (self.lookup)(&raw mut asked, 1, null(), 0) };
        if NOT_FOUND.contains(&status) {
            return Ok(None);
        }
        done(status)?;
        // SAFETY: the call has succeeded, so a text in the value is one that the library has made by malloc.
        match unsafe { taken(&asked.value) } {
            Some(Datum::Text(text)) => Ok(Some(text)),
            _ => Ok(None),
        }
    }

    pub(crate) fn unpublish(&self, name: &str) -> Result<(), Status> {
        let name = zero_ended(name)?;
        let names = [name.as_ptr(), null()];
        // SAFETY: the list ends with a null, and is valid during the call.
        done(unsafe { (self.unpublish)(names.as_ptr(), null(), 0) })
    }

    /// Starts a job of these programs, and waits until its processes are started. `attributes` are those of
    /// the job.
    pub(crate) fn spawn(&self, attributes: &[(&'static str, String)], programs: &[Program]) -> Result<(), Status> {
        spawn::spawn(self.spawn, attributes, programs)
    }

    /// The library's name of a status.
    pub(crate) fn describe(&self, status: Status) -> String {
        // SAFETY: the library returns a constant text, or null.
        let said = unsafe { library::text((self.error_string)(status)) };
        said.unwrap_or_else(|| format!("status {status}"))
    }
}

/// What a value holds, whose text is freed.
///
/// # Safety
/// A text in the value was made by malloc, ends with a zero, and is used by nobody else.
unsafe fn taken(value: &Value) -> Option<Datum> {
    match value.kind {
        STRING => {
            let address = std::ptr::with_exposed_provenance_mut::<c_char>(value.data[0] as usize);
            // SAFETY: the caller's promise.
            unsafe {
                let found = library::text(address);
                libc::free(address.cast());
                found.map(Datum::Text)
            }
        }
        // The first four bytes of the union, on machines of either order of bytes.
        INT | INT32 | UINT | UINT32 | RANK => {
            let [a, b, c, d, ..] = value.data[0].to_ne_bytes();
            Some(Datum::Number(u32::from_ne_bytes([a, b, c, d])))
        }
        _ => None,
    }
}

fn done(status: Status) -> Result<(), Status> {
    if status == 0 { Ok(()) } else { Err(status) }
}

/// What a call returns that the server does not support.
pub(crate) const NOT_SUPPORTED: Status = -47;

/// The status of a text that no structure holds: PMIX_ERR_BAD_PARAM.
const BAD_PARAMETER: Status = -27;

/// A key in a field of fixed length.
fn fixed(text: &str) -> Result<[c_char; KEY_BYTES], Status> {
    if text.len() >= KEY_BYTES || text.contains('\0') {
        return Err(BAD_PARAMETER);
    }
    let mut field = [0; KEY_BYTES];
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    Ok(field)
}

/// The information that something is wanted.
fn yes(key: &str) -> Result<Info, Status> {
    Ok(Info {
        key: fixed(key)?,
        flags: 0,
        value: Value { kind: BOOL, data: [u64::from_ne_bytes([1, 0, 0, 0, 0, 0, 0, 0]), 0, 0] },
    })
}

fn zero_ended(text: &str) -> Result<CString, Status> {
    CString::new(text).map_err(|_| BAD_PARAMETER)
}
