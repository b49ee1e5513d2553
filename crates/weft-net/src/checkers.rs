//! Memory checkers that run the process: see `weft_engine::memory::attach`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::mem::transmute;

use weft_engine::memory::{FindPoison, Report, Sanitizer, attach};

/// Looks for valgrind or an address sanitizer, and tells it from now on what happens to the program's memory.
pub fn attach_checkers() {
    // SAFETY: these are the sanitizer's own functions, by their names.
    unsafe { attach(sanitizer()) };
}

/// Returns the address sanitizer, if the program has one. The functions belong to its interface since GCC
/// 4.9.
fn sanitizer() -> Option<Sanitizer> {
    let find_poison = symbol(c"__asan_region_is_poisoned")?;
    let (load, store) = (symbol(c"__asan_report_load_n")?, symbol(c"__asan_report_store_n")?);
    // SAFETY: all functions of these names have these forms (`sanitizer/asan_interface.h`; those of
    // instrumented code).
    unsafe {
        Some(Sanitizer {
            find_poison: transmute::<*mut c_void, FindPoison>(find_poison),
            report_load: transmute::<*mut c_void, Report>(load),
            report_store: transmute::<*mut c_void, Report>(store),
        })
    }
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string; the call looks among loaded libraries, and loads none.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}
