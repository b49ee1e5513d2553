//! The name by which the program called a procedure: C's, or Fortran's.
//!
//! A Fortran binding is a library above this one, and calls C's functions. Who called is asked only when an
//! error has happened, and once at the start. The return addresses on the stack lead to the procedure of the
//! binding, whose symbol has the form of MPI-5.0 Table 19.1. A call that succeeds pays nothing, and no
//! binding needs to know of this.

use crate::functions::NAMES;
use std::borrow::Cow;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::LazyLock;

/// The most return addresses outside of this library that are looked at. Between a procedure of a binding and
/// this library are only functions of the binding and of profilers.
const FRAMES_MAX: usize = 16;
/// The most return addresses that are looked at, those inside of this library included.
const ALL_FRAMES_MAX: usize = 128;

/// The endings of a binding's symbols in Table 19.1: of mpif.h and the module `mpi`, and of `mpi_f08`.
const ENDINGS: [&str; 3] = ["_f08ts_", "_f08_", "_"];

/// The procedures whose forms with large counts have names of their own in Fortran (MPI-5.0 §19.1).
const LARGE_NAMES: [&str; 2] = ["MPI_Op_create_c", "MPI_Register_datarep_c"];

/// The names of all functions in Fortran, in the order of [`NAMES`].
static FORTRAN_NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| NAMES.iter().map(|name| &*fortran_name(name).leak()).collect());

/// Returns the names of all functions in the language in which the program begins MPI.
pub(crate) fn names() -> &'static [&'static str] {
    if fortran_procedure().is_some() { &FORTRAN_NAMES } else { &NAMES }
}

/// Returns the name of the procedure that the program called, where this library is in the function `name`.
#[cold]
pub(crate) fn procedure(name: &'static str) -> Cow<'static, str> {
    fortran_procedure().map_or(Cow::Borrowed(name), Cow::Owned)
}

/// The name of a function of C as the standard writes it in Fortran. There, forms with large counts have the
/// same name as the others.
fn fortran_name(name: &str) -> String {
    let short = if LARGE_NAMES.contains(&name) { name } else { name.strip_suffix("_c").unwrap_or(name) };
    short.to_ascii_uppercase()
}

/// The name of the Fortran procedure whose symbol this is, if it is one. `pmpi_send_` is PMPI_SEND.
fn procedure_of_symbol(symbol: &str) -> Option<String> {
    let profiling = symbol.starts_with("pmpi_");
    let symbol = symbol.strip_prefix('p').filter(|_| profiling).unwrap_or(symbol);
    let mut stems = ENDINGS.iter().filter_map(|ending| symbol.strip_suffix(ending));
    // C's own functions have capitals.
    let is_same = |name: &str, stem: &str| !stem.starts_with("MPI") && name.eq_ignore_ascii_case(stem);
    let name = stems.find_map(|stem| NAMES.iter().find(|name| is_same(name, stem)))?;
    Some(format!("{}{}", if profiling { "P" } else { "" }, fortran_name(name)))
}

/// What is said by one return address.
#[derive(Debug, PartialEq, Eq)]
enum Frame<'a> {
    /// It lies in this library.
    Own,
    /// It lies elsewhere, in the function of this symbol, if it has one.
    Other(Option<&'a str>),
}

/// Looks at the return addresses of a call from the inside to the outside.
#[derive(Default)]
struct Search {
    outside: usize,
    found: Option<String>,
}

impl Search {
    /// Takes the next return address. Returns whether the search goes on: until a procedure is found, until
    /// the stack comes back into this library, where a function of the program runs inside an outer call, or
    /// until there were too many.
    fn take(&mut self, frame: &Frame) -> bool {
        match frame {
            Frame::Own => self.outside == 0,
            Frame::Other(symbol) => {
                self.outside += 1;
                self.found = symbol.and_then(procedure_of_symbol);
                self.found.is_none() && self.outside < FRAMES_MAX
            }
        }
    }
}

/// The file of this library, as the dynamic linker names it.
pub(crate) fn own_file() -> Option<PathBuf> {
    let place = look_up(own_file as *const c_void)?;
    if place.file.is_null() {
        return None;
    }
    // SAFETY: the dynamic linker keeps the name as long as this library is loaded.
    Some(PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(place.file) }.to_bytes())))
}

/// The Fortran procedure in which the running call of this library was made.
fn fortran_procedure() -> Option<String> {
    let own = look_up(fortran_procedure as *const c_void)?;
    let mut state = Walk { own: own.base, left: ALL_FRAMES_MAX, search: Search::default() };
    // SAFETY: `visit` gets the state that it expects, which lives until the end of this function.
    unsafe { _Unwind_Backtrace(visit, (&raw mut state).cast()) };
    state.search.found
}

struct Walk {
    own: *mut c_void,
    left: usize,
    search: Search,
}

/// The unwinder's code to go on, and one at which it ends.
const GO_ON: c_int = 0;
const END: c_int = 5;

unsafe extern "C" fn visit(context: *mut c_void, state: *mut c_void) -> c_int {
    // SAFETY: `fortran_procedure` gave its state, and nothing else uses it meanwhile.
    let walk = unsafe { &mut *state.cast::<Walk>() };
    // SAFETY: the unwinder calls this function with its context.
    let address = unsafe { _Unwind_GetIP(context) };
    if address == 0 || walk.left == 0 {
        return END;
    }
    walk.left -= 1;
    // A return address may be the one behind the end of its function.
    let place = look_up((address - 1) as *const c_void);
    let frame = match &place {
        Some(place) if place.base == walk.own => Frame::Own,
        Some(place) => Frame::Other(place.symbol()),
        None => Frame::Other(None),
    };
    if walk.search.take(&frame) { GO_ON } else { END }
}

/// What the dynamic linker knows of an address (`Dl_info`).
#[repr(C)]
struct Place {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    symbol_address: *mut c_void,
}

impl Place {
    fn symbol(&self) -> Option<&str> {
        if self.symbol.is_null() {
            return None;
        }
        // SAFETY: the name lies in the symbol table of a loaded library that a running call returns to.
        unsafe { CStr::from_ptr(self.symbol) }.to_str().ok()
    }
}

fn look_up(address: *const c_void) -> Option<Place> {
    let null: *mut c_void = std::ptr::null_mut();
    let mut place = Place { file: null.cast(), base: null, symbol: null.cast(), symbol_address: null };
    // SAFETY: dladdr writes a structure of this form, and takes any address.
    (unsafe { dladdr(address, &raw mut place) } != 0).then_some(place)
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, place: *mut Place) -> c_int;
    fn _Unwind_Backtrace(visit: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int, state: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_the_table_are_procedures() {
        for (symbol, procedure) in [
            ("mpi_send_", Some("MPI_SEND")),
            ("pmpi_send_", Some("PMPI_SEND")),
            ("mpi_send_f08ts_", Some("MPI_SEND")),
            ("mpi_send_c_f08ts_", Some("MPI_SEND")),
            ("pmpi_wait_f08_", Some("PMPI_WAIT")),
            ("mpi_op_create_c_f08_", Some("MPI_OP_CREATE_C")),
            ("MPI_Send", None),
            ("MPI_SEND_", None),
            ("mpi_send", None),
            ("mpi_of_the_program_", None),
            ("_", None),
            ("", None),
        ] {
            assert_eq!(procedure_of_symbol(symbol).as_deref(), procedure, "{symbol}");
        }
    }

    #[test]
    fn the_procedure_is_that_of_the_innermost_call() {
        let search = |frames: &[Frame]| {
            let mut search = Search::default();
            frames.iter().all(|frame| search.take(frame));
            search.found
        };
        let (helper, profiler) = (Frame::Other(None), Frame::Other(Some("MPI_Send")));
        let send = || Frame::Other(Some("mpi_send_"));
        // From Fortran, by a function of the binding or by a profiler in C.
        for between in [&helper, &profiler] {
            let between = Frame::Other(if let Frame::Other(symbol) = between { *symbol } else { None });
            assert_eq!(search(&[Frame::Own, Frame::Own, between, send()]).as_deref(), Some("MPI_SEND"));
        }
        // From C, in a function of the program that an outer call from Fortran runs.
        let callback = Frame::Other(Some("add_up"));
        assert_eq!(search(&[Frame::Own, callback, Frame::Own, send()]), None);
        // From C.
        let far: Vec<Frame> = (0..FRAMES_MAX).map(|_| Frame::Other(Some("main"))).chain([send()]).collect();
        assert_eq!(search(&far), None);
    }

    #[test]
    fn names_in_fortran_have_capitals_and_no_forms_for_large_counts() {
        assert_eq!(fortran_name("MPI_Send_c"), "MPI_SEND");
        assert_eq!(fortran_name("MPI_Op_create_c"), "MPI_OP_CREATE_C");
        assert_eq!(FORTRAN_NAMES.len(), NAMES.len());
        // This test is no Fortran program.
        assert_eq!((names()[0], procedure("MPI_Send")), (NAMES[0], Cow::Borrowed("MPI_Send")));
    }
}
