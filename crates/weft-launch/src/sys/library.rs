//! Libraries that are opened when a launcher needs them, and never closed.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};

/// Opens a library. A name without a slash is searched for by the system.
///
/// # Errors
/// What the loader says.
pub(super) fn open(file: &str) -> Result<*mut c_void, String> {
    let name = CString::new(file).map_err(|_| format!("{file:?} is no name of a file"))?;
    // SAFETY: the name ends with a zero. The library's constructors run; it stays open for ever.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: a call has just failed, so there is a sentence, which is valid until the next call.
        let said = unsafe { text(libc::dlerror()) };
        return Err(said.unwrap_or_else(|| format!("{file} cannot be opened")));
    }
    Ok(library)
}

/// The file from which this code was loaded: the library, or the program that it is linked into.
pub(crate) fn own_file() -> Option<String> {
    // SAFETY: an all-zero Dl_info is a valid value to be overwritten.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let address = own_file as *const c_void;
    // SAFETY: the address is of a function of this file; the other pointer is to a local.
    let found = unsafe { libc::dladdr(address, &mut info) } != 0;
    // SAFETY: a name that was found is valid as long as the file is loaded, which this code is a part of.
    found.then(|| unsafe { text(info.dli_fname) }).flatten()
}

/// The address of a symbol of the library that [`open`] returned for `file`.
///
/// # Errors
/// It has no such symbol.
pub(super) fn symbol(library: *mut c_void, file: &str, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the handle is open, and the name ends with a zero.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    if symbol.is_null() { Err(format!("{file} has no {}", name.to_string_lossy())) } else { Ok(symbol) }
}

/// A text that is valid until the next call, copied.
///
/// # Safety
/// `text` is null, or ends with a zero.
pub(super) unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
