//! libmunge, opened when tasks of Slurm must find each other by themselves: credentials that only one user's
//! processes can read, on all hosts with the same key of MUNGE.
//!
//! The functions and numbers are those of `munge.h`, which has been the same since MUNGE 0.5.
#![allow(unsafe_code)]

use super::library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;

const LIBRARY: &str = "libmunge.so.2";

/// Options of a context: the cipher, the daemon's socket, the user who may decode.
const OPTION_CIPHER: c_int = 0;
const OPTION_SOCKET: c_int = 8;
const OPTION_USER: c_int = 9;
/// AES of 128 bits. The default cipher of a site may be none.
const CIPHER_AES128: c_int = 4;

const SUCCESS: c_int = 0;
/// The library was given something that it cannot use.
const BAD_ARGUMENT: c_int = 2;
/// The library cannot reach the daemon.
const NO_DAEMON: [c_int; 2] = [6, 7];
/// What a credential says is known, but it is too old, from the future, or has been decoded before.
const STALE: [c_int; 3] = [15, 16, 17];

#[repr(C)]
struct Context {
    _private: [u8; 0],
}

type Create = unsafe extern "C" fn() -> *mut Context;
type Destroy = unsafe extern "C" fn(*mut Context);
type Set = unsafe extern "C" fn(*mut Context, c_int, ...) -> c_int;
type Encode = unsafe extern "C" fn(*mut *mut c_char, *mut Context, *const c_void, c_int) -> c_int;
type Decode =
    unsafe extern "C" fn(*const c_char, *mut Context, *mut *mut c_void, *mut c_int, *mut u32, *mut u32) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// The reason why a credential was not made or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MungeError {
    /// MUNGE does not work on this host: half a sentence.
    Absent(String),
    /// The credential is none that this user may read: half a sentence.
    Refused(String),
}

/// The library, and a context that has the options.
pub(crate) struct Munge {
    context: *mut Context,
    destroy: Destroy,
    encode: Encode,
    decode: Decode,
    error_string: ErrorString,
}

impl Munge {
    /// Opens the library for credentials that only `user` can decode. `socket`: the daemon's socket, where it
    /// is not the usual one.
    ///
    /// # Errors
    /// MUNGE is not installed on this host.
    pub(crate) fn open(user: u32, socket: Option<&str>) -> Result<Self, MungeError> {
        let library = library::open(LIBRARY).map_err(MungeError::Absent)?;
        let symbol = |name: &CStr| library::symbol(library, LIBRARY, name).map_err(MungeError::Absent);
        let (create, set) = (symbol(c"munge_ctx_create")?, symbol(c"munge_ctx_set")?);
        // SAFETY: `munge.h` declares the functions of these names so, and pointers to functions are as large
        // as others.
        let (create, set) = unsafe { (transmute::<*mut c_void, Create>(create), transmute::<*mut c_void, Set>(set)) };
        // SAFETY: as above.
        let mut munge = unsafe {
            Self {
                context: null_mut(),
                destroy: transmute::<*mut c_void, Destroy>(symbol(c"munge_ctx_destroy")?),
                encode: transmute::<*mut c_void, Encode>(symbol(c"munge_encode")?),
                decode: transmute::<*mut c_void, Decode>(symbol(c"munge_decode")?),
                error_string: transmute::<*mut c_void, ErrorString>(symbol(c"munge_strerror")?),
            }
        };
        // SAFETY: the function takes nothing.
        munge.context = unsafe { create() };
        if munge.context.is_null() {
            return Err(MungeError::Absent(format!("{LIBRARY} has no memory")));
        }
        // SAFETY: the context is open, and the options take an int and a uid.
        let mut status = unsafe { set(munge.context, OPTION_CIPHER, CIPHER_AES128) };
        if status == SUCCESS {
            // SAFETY: as above.
            status = unsafe { set(munge.context, OPTION_USER, user) };
        }
        if let Some(socket) = socket.filter(|_| status == SUCCESS) {
            status = match CString::new(socket) {
                // SAFETY: the option takes a text that ends with a zero, and the library copies it.
                Ok(socket) => unsafe { set(munge.context, OPTION_SOCKET, socket.as_ptr()) },
                Err(_) => BAD_ARGUMENT,
            };
        }
        munge.done(status)?;
        Ok(munge)
    }

    /// Makes a credential of `text`, itself a text without blanks.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub(crate) fn encode(&self, text: &str) -> Result<String, MungeError> {
        let length = c_int::try_from(text.len()).expect("a short text");
        let mut credential: *mut c_char = null_mut();
        // SAFETY: the context is open, the text has this length, and the library makes the credential.
        let status = unsafe { (self.encode)(&raw mut credential, self.context, text.as_ptr().cast(), length) };
        // SAFETY: a credential that was made ends with a zero, and is this process's.
        let made = unsafe { taken(credential) };
        self.done(status)?;
        made.ok_or_else(|| MungeError::Absent(format!("{LIBRARY} made no text")))
    }

    /// Reads a credential; returns its text and the user who made it. A credential that is old or has been
    /// read before is as good: whoever relies on it must prove that it knows what the credential holds.
    ///
    /// # Errors
    /// It is no credential, or one for another user; the daemon does not answer.
    pub(crate) fn decode(&self, credential: &str) -> Result<(String, u32), MungeError> {
        let refused = |why: &str| MungeError::Refused(why.to_owned());
        let credential = CString::new(credential).map_err(|_| refused("it is no text"))?;
        let (mut data, mut length): (*mut c_void, c_int) = (null_mut(), 0);
        let (mut user, mut group) = (u32::MAX, u32::MAX);
        // SAFETY: the context is open, the text ends with a zero, and the other places are the library's to
        // fill.
        let status = unsafe {
            (self.decode)(
                credential.as_ptr(),
                self.context,
                &raw mut data,
                &raw mut length,
                &raw mut user,
                &raw mut group,
            )
        };
        let mut bytes = Vec::new();
        if !data.is_null() {
            // SAFETY: the library has made so many bytes by malloc, and they are this process's now.
            unsafe {
                bytes.extend_from_slice(std::slice::from_raw_parts(
                    data.cast::<u8>(),
                    usize::try_from(length).unwrap_or(0),
                ));
                libc::free(data);
            }
        }
        if !STALE.contains(&status) {
            self.done(status)?;
        }
        Ok((String::from_utf8(bytes).map_err(|_| refused("it holds no text"))?, user))
    }

    fn done(&self, status: c_int) -> Result<(), MungeError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: the library returns a constant text, or null.
        let said = unsafe { library::text((self.error_string)(status)) };
        let said = said.unwrap_or_else(|| format!("status {status}")).to_lowercase();
        Err(if NO_DAEMON.contains(&status) || status == BAD_ARGUMENT {
            MungeError::Absent(said)
        } else {
            MungeError::Refused(said)
        })
    }
}

impl Drop for Munge {
    fn drop(&mut self) {
        if !self.context.is_null() {
            // SAFETY: the context is open, and nobody uses it any more.
            unsafe { (self.destroy)(self.context) };
        }
    }
}

/// A text that malloc has made, freed.
///
/// # Safety
/// `text` is null, or ends with a zero and is used by nobody else.
unsafe fn taken(text: *mut c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    unsafe {
        let copy = library::text(text);
        libc::free(text.cast());
        copy
    }
}
