//! The library's reports to memory checkers: valgrind's memcheck, and the address sanitizer that a program
//! may have been built with.
//!
//! A peer writes to the program's memory where neither checker sees it. The library's own reads and writes
//! are not always checked either. So a call of MPI that describes a buffer shows all of it to the checker, as
//! a library built with the checker would. Bytes that a peer has written count as written from then on.
//!
//! Where no checker is there, [`UserData::new`] compares an address with a number, as it has to in any case.
//! Where messages have labels (`WEFT_CHECK`), the same comparison finds messages without one.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Items, MemoryKind, PROGRAM_START, Shape, UserData};
use crate::error::{Error, ErrorClass, Result};
use weft_core::layout::Layout;

/// The use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferUse {
    /// The buffer is sent: it must have a value.
    Send,
    /// The buffer is received into.
    Receive,
    /// The buffer must be there.
    Any,
}

/// A report of the address sanitizer, `__asan_report_load_n` or `__asan_report_store_n`: this many bytes at
/// an address may not be touched.
///
/// It says so and ends the program, or does whatever it has been told to.
pub type Report = unsafe extern "C" fn(address: *mut u8, bytes: usize);

/// The function `__asan_region_is_poisoned`: returns the first byte that may not be touched, or null.
pub type FindPoison = unsafe extern "C" fn(start: *mut u8, bytes: usize) -> *mut u8;

/// The functions of an address sanitizer.
#[derive(Clone, Copy, Debug)]
pub struct Sanitizer {
    /// Finds memory that may not be touched.
    pub find_poison: FindPoison,
    /// Reports memory that may not be read.
    pub report_load: Report,
    /// Reports memory that may not be written.
    pub report_store: Report,
}

impl Sanitizer {
    fn show(&self, start: *mut u8, bytes: usize, buffer_use: BufferUse) {
        // SAFETY: this looks whether memory may be touched, and touches none of it; `attach` was promised
        // that it is this function.
        let poison = unsafe { (self.find_poison)(start, bytes) };
        if poison.is_null() {
            return;
        }
        let left = bytes - (poison.addr() - start.addr());
        let report = if buffer_use == BufferUse::Receive { self.report_store } else { self.report_load };
        // SAFETY: as above; it reports what it is told.
        unsafe { report(poison, left) };
    }
}

enum Checker {
    Memcheck,
    Sanitizer(Sanitizer),
}

static CHECKER: OnceLock<Checker> = OnceLock::new();

/// The address below which buffers are looked at more closely: buffers at addresses of no memory, and all
/// buffers where a checker is there or messages have labels.
pub(super) static LOOK_BELOW: AtomicUsize = AtomicUsize::new(PROGRAM_START);

/// Looks once whether a checker is there. `sanitizer` holds the sanitizer's functions, if the process has
/// them.
///
/// # Safety
/// The functions are those of the address sanitizer.
pub unsafe fn attach(sanitizer: Option<Sanitizer>) {
    let byte = 0_u8;
    let found = match sanitizer {
        Some(sanitizer) => Checker::Sanitizer(sanitizer),
        // Other tools of valgrind do not answer as memcheck does.
        None if request(MAKE_DEFINED, &raw const byte, 1) == usize::MAX => Checker::Memcheck,
        None => return,
    };
    let _ = CHECKER.set(found);
    LOOK_BELOW.store(usize::MAX, Ordering::Relaxed);
}

/// Returns whether a tool of valgrind runs the program. It runs one thread at a time, and none while another
/// thread is within a call of the system that does not wait as a rule.
pub fn runs_one_thread() -> bool {
    /// `RUNNING_ON_VALGRIND`.
    const RUNNING: usize = 0x1001;
    let byte = 0_u8;
    request(RUNNING, &raw const byte, 0) != 0
}

static HAS_LABELS: AtomicBool = AtomicBool::new(false);

/// Sets whether messages must be described with a [label](super::Label) from now on. Where they need not,
/// that costs nothing.
pub fn label_messages(labels: bool) {
    HAS_LABELS.store(labels, Ordering::Relaxed);
    if labels {
        LOOK_BELOW.store(usize::MAX, Ordering::Relaxed);
    }
}

/// Returns whether all buffers are looked at.
#[inline]
pub(super) fn looks() -> bool {
    LOOK_BELOW.load(Ordering::Relaxed) != PROGRAM_START
}

/// Checks that a buffer may be described without a label.
///
/// # Errors
/// It may not: it is a whole message.
pub(super) fn check_unlabelled<const MESSAGE: bool>() -> Result<()> {
    if MESSAGE && HAS_LABELS.load(Ordering::Relaxed) {
        return Err(Error::new(
            ErrorClass::Other,
            "a message is described without the label that WEFT_CHECK gives it: a defect in Weft",
        ));
    }
    Ok(())
}

/// Shows one run of the program's memory to the checker.
pub(super) fn show_run(buffer_use: BufferUse, start: *mut u8, bytes: u64) {
    let Some(checker) = CHECKER.get() else { return };
    let bytes = bytes as usize;
    match (checker, buffer_use) {
        (Checker::Memcheck, BufferUse::Send) => _ = request(CHECK_DEFINED, start, bytes),
        (Checker::Memcheck, _) => _ = request(CHECK_ADDRESSABLE, start, bytes),
        (Checker::Sanitizer(sanitizer), _) => sanitizer.show(start, bytes, buffer_use),
    }
}

/// Shows any items in the program's memory to the checker.
#[cold]
#[inline(never)]
pub(super) fn show_items(buffer_use: BufferUse, base: *mut u8, count: u64, layout: &Layout) {
    if CHECKER.get().is_none() {
        return;
    }
    let bytes = layout.size() * count;
    let items = Items::new(MemoryKind::Host, count, bytes);
    let data = UserData { base, bytes, shape: Shape::Items { items, layout: layout.clone() } };
    each_run(&data, 0..bytes, &mut |start, bytes| show_run(buffer_use, start, bytes as u64));
}

/// Notes that a peer has written the packed bytes `range` of `data`. Bytes past the end of `data` are left
/// out.
pub(crate) fn note_written(data: &UserData, range: Range<u64>) {
    if let Some(Checker::Memcheck) = CHECKER.get() {
        each_run(data, range.start..range.end.min(data.bytes), &mut |start, bytes| {
            // Bytes that cannot be addressed are left out: they have been reported.
            request(MAKE_DEFINED_IF_ADDRESSABLE, start, bytes);
        });
    }
}

/// Visits the runs of the program's memory that hold the packed bytes `range`.
fn each_run(data: &UserData, range: Range<u64>, visit: &mut dyn FnMut(*mut u8, usize)) {
    if range.start >= range.end {
        return;
    }
    match &data.shape {
        Shape::Run => visit(data.base.wrapping_add(range.start as usize), (range.end - range.start) as usize),
        Shape::Items { items, layout } => match items.kind() {
            MemoryKind::Host => layout.batches(items.count(), range, &mut |batch| {
                let start = data.base.wrapping_offset(batch.offset as isize);
                for at in 0..batch.count as isize {
                    visit(start.wrapping_offset(at * batch.step as isize), batch.length);
                }
            }),
            MemoryKind::Buffer => {}
        },
    }
}

/// Requests of memcheck (`valgrind/memcheck.h`): the tool's letters, and a number.
const MEMCHECK: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16;
const MAKE_DEFINED: usize = MEMCHECK + 2;
const CHECK_ADDRESSABLE: usize = MEMCHECK + 4;
const CHECK_DEFINED: usize = MEMCHECK + 5;
const MAKE_DEFINED_IF_ADDRESSABLE: usize = MEMCHECK + 11;

/// Makes a client request (`valgrind/valgrind.h`): rotations that come back to where they began, and an
/// exchange of a register with itself. Valgrind, which translates the program, knows the sequence; a
/// processor does nothing. Returns valgrind's answer: 0 where no valgrind runs.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn request(number: usize, start: *const u8, bytes: usize) -> usize {
    let arguments = [number, start.addr(), bytes, 0, 0, 0];
    let mut answer = 0_usize;
    // SAFETY: the instructions leave all registers and memory as they were; valgrind reads the six words and
    // writes the answer.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") answer,
        );
    }
    answer
}

/// Makes a client request on another processor.
#[cfg(all(target_arch = "aarch64", not(miri)))]
fn request(number: usize, start: *const u8, bytes: usize) -> usize {
    let arguments = [number, start.addr(), bytes, 0, 0, 0];
    let mut answer = 0_usize;
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "ror x12, x12, #3", "ror x12, x12, #13", "ror x12, x12, #51", "ror x12, x12, #61", "orr x10, x10, x10",
            in("x4") arguments.as_ptr(),
            inout("x3") answer,
        );
    }
    answer
}

/// Makes no client request: valgrind's sequence is not known here.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
fn request(_: usize, _: *const u8, _: usize) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::layout::Element;

    #[test]
    fn a_processor_answers_no_request() {
        let byte = 7_u8;
        for number in [MAKE_DEFINED, CHECK_ADDRESSABLE, CHECK_DEFINED, MAKE_DEFINED_IF_ADDRESSABLE] {
            assert!([0, usize::MAX].contains(&request(number, &raw const byte, 1)), "outside of valgrind it is 0");
        }
        assert!(!runs_one_thread() || std::env::var("LD_PRELOAD").is_ok_and(|names| names.contains("vgpreload")));
    }

    #[test]
    fn all_bytes_of_the_items_are_shown_and_no_others() {
        let comb = Layout::resized(&Layout::vector(3, 2, 7, &Layout::element(Element::Byte)).unwrap(), 0, 32).unwrap();
        let mut memory = [0_u8; 4 * 32];
        // SAFETY: `memory` outlives it.
        let data = unsafe { UserData::new(memory.as_mut_ptr(), 4, &comb) }.unwrap();
        let base = memory.as_ptr().addr();
        for (range, expected) in [(0..24, 24), (3..9, 6), (5..5, 0)] {
            let mut seen = Vec::new();
            each_run(&data, range, &mut |start, bytes| seen.extend((0..bytes).map(|at| start.addr() - base + at)));
            assert_eq!(seen.len(), expected);
            assert!(seen.iter().all(|at| matches!(at % 32, 0 | 1 | 7 | 8 | 14 | 15)), "{seen:?}");
        }
    }
}
