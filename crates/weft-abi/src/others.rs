//! Other MPI libraries in the process. Two of them know nothing of each other's messages, and a call may
//! reach either: the loader decides by order. A program that hangs or gets wrong handles does not show
//! that. So the library looks once when MPI begins, and once when it ends, for modules may be loaded in
//! between.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The variable that only faces have, which know no messages themselves (`faces/library/face.c`).
const MARK: &CStr = c"weft_face";
/// The names of MPI libraries before `.so`.
const STEMS: [&str; 3] = ["libmpi", "libmpich", "libmpi_abi"];

static TOLD: AtomicBool = AtomicBool::new(false);

/// Says on standard error which other MPI library the process has, if it has one and that was not said yet.
pub(crate) fn tell() {
    if TOLD.load(Ordering::Relaxed) {
        return;
    }
    let mut loaded: Vec<PathBuf> = Vec::new();
    // SAFETY: `visit` gets the list that it expects, which lives until the end of this function.
    unsafe { dl_iterate_phdr(visit, (&raw mut loaded).cast()) };
    let own = loaded.iter().find(|file| is_own(file)).cloned().unwrap_or_default();
    let Some(other) = loaded.iter().find(|file| is_mpi_library(file) && **file != own && !is_face(file)) else {
        return;
    };
    if !TOLD.swap(true, Ordering::Relaxed) {
        eprintln!("weft: {}", sentence(&own, other));
    }
}

fn sentence(own: &Path, other: &Path) -> String {
    format!(
        "process {} has two MPI libraries, Weft ({}) and {}, which know nothing of each other's messages: \
         `weft info FILE` says which one a program or a module loads, and `mpiexec --faces` runs those of other ABIs over \
         Weft",
        std::process::id(),
        own.display(),
        other.display()
    )
}

/// Whether a file has the name of an MPI library: `libmpi.so.40.30.4`, and not `libmpi_mpifh.so.40`.
fn is_mpi_library(file: &Path) -> bool {
    let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.split_once(".so").is_some_and(|(stem, _)| STEMS.contains(&stem))
}

/// The address of a variable of this library leads to its file.
fn is_own(file: &Path) -> bool {
    crate::caller::own_file().is_some_and(|own| own == file)
}

fn is_face(file: &Path) -> bool {
    let Ok(name) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: the library is loaded, so nothing of it runs here, and the handle is given back below.
    let library = unsafe { dlopen(name.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) };
    if library.is_null() {
        return false;
    }
    // SAFETY: the handle is the one that dlopen gave, and the name ends with a zero.
    let found = !unsafe { dlsym(library, MARK.as_ptr()) }.is_null();
    // SAFETY: the handle is given back once.
    unsafe { dlclose(library) };
    found
}

/// The first members of `struct dl_phdr_info`.
#[repr(C)]
struct Object {
    base: usize,
    file: *const c_char,
}

unsafe extern "C" fn visit(object: *const Object, _size: usize, state: *mut c_void) -> c_int {
    // SAFETY: `tell` gave its list, and nothing else uses it meanwhile.
    let loaded = unsafe { &mut *state.cast::<Vec<PathBuf>>() };
    // SAFETY: the loader gives a structure that begins with these members, and the name of a loaded file.
    let file = unsafe { (*object).file };
    if !file.is_null() {
        // SAFETY: the loader's names end with a zero.
        loaded.push(PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(file) }.to_bytes())));
    }
    0
}

const RTLD_LAZY: c_int = 1;
const RTLD_NOLOAD: c_int = 4;

unsafe extern "C" {
    fn dl_iterate_phdr(
        visit: unsafe extern "C" fn(*const Object, usize, *mut c_void) -> c_int,
        state: *mut c_void,
    ) -> c_int;
    fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(library: *mut c_void) -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpi_libraries_are_known_by_their_names() {
        for (file, expected) in [
            ("/usr/lib/libmpi.so.40.30.4", true),
            ("/opt/mpich/lib/libmpi.so.12", true),
            ("/usr/lib/libmpich.so.12", true),
            ("/weft/lib/libmpi_abi.so.1", true),
            ("/usr/lib/libmpi_mpifh.so.40", false),
            ("/usr/lib/libmpifort.so.12", false),
            ("/usr/lib/libm.so.6", false),
            ("", false),
        ] {
            assert_eq!(is_mpi_library(Path::new(file)), expected, "{file}");
        }
        let said = sentence(Path::new("/weft/lib/libmpi_abi.so.1"), Path::new("/usr/lib/libmpi.so.40"));
        assert!(said.contains("/usr/lib/libmpi.so.40,") && said.matches(". ").count() == 0, "{said}");
    }

    /// Expect: a process with Weft alone says nothing.
    #[test]
    fn one_library_is_not_told_of() {
        tell();
        assert!(!TOLD.load(Ordering::Relaxed));
    }
}
