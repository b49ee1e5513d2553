//! bpf(2): a map of sockets, a program, and the link that attaches the program to an interface. Each is a
//! descriptor, and disappears with the last process that has it open, however that process ends.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use super::program::Instruction;
use crate::sys::check;

/// linux/bpf.h
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_OF_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// Flag of a program that bears frames in several pieces, so that the interface may keep an MTU of more than
/// a page. Linux 5.18.
const HAS_FRAGMENTS: u32 = 1 << 5;
/// linux/if_link.h
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;

/// The first fields of `union bpf_attr` that these commands use; the kernel takes the rest for zeros.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attachment: u32,
    flags: u32,
}

/// Calls bpf(2).
///
/// # Safety
/// `attributes` are those of `command`, and the memory that they point to lives until the call returns.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the attributes are as long as said; the caller answers for their contents.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(attributes), size_of::<T>()) };
    let result = result as libc::c_int;
    check(result).map(|()| result)
}

/// Calls bpf(2), and returns the new descriptor.
///
/// # Safety
/// As for [`bpf`]; `command` returns a new descriptor.
unsafe fn bpf_descriptor<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: as the caller says.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the descriptor is new and ours. The kernel closes it on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Creates a map from numbers below `entries` to AF_XDP sockets. A closed socket disappears from the map.
pub(super) fn create_map(entries: u32) -> io::Result<OwnedFd> {
    let word = size_of::<u32>() as u32;
    let attributes = MapCreate { kind: MAP_OF_SOCKETS, key_bytes: word, value_bytes: word, entries };
    // SAFETY: the attributes are those of the command and point to nothing.
    unsafe { bpf_descriptor(MAP_CREATE, &attributes) }
}

/// Puts `socket` into a map.
pub(super) fn put(map: BorrowedFd<'_>, key: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = socket.as_raw_fd() as u32;
    let attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        _padding: 0,
        key: ptr::from_ref(&key) as u64,
        value: ptr::from_ref(&value) as u64,
        flags: 0,
    };
    // SAFETY: key and value are words, as the map was made for, and live until the call returns.
    unsafe { bpf(MAP_UPDATE, &attributes) }.map(drop)
}

/// Loads a program, which the kernel checks.
pub(super) fn load(code: &[Instruction]) -> io::Result<OwnedFd> {
    let mut name = [0; 16];
    name[..4].copy_from_slice(b"weft");
    let mut attributes = ProgramLoad {
        kind: PROGRAM_XDP,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: c"Apache-2.0 OR MIT".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel: 0,
        flags: HAS_FRAGMENTS,
        name,
    };
    // SAFETY: the instructions are as many as said, the license is a terminated string, and both outlive the
    // call.
    match unsafe { bpf_descriptor(PROGRAM_LOAD, &attributes) } {
        Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => {}
        result => return result,
    }
    attributes.flags = 0;
    // SAFETY: as above.
    unsafe { bpf_descriptor(PROGRAM_LOAD, &attributes) }
}

/// The place in the kernel where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// In the interface's driver.
    Native,
    /// After the driver, where the kernel has already made a packet of the frame.
    Generic,
}

/// Attaches a program to an interface for as long as the descriptor is open in any process.
pub(super) fn attach(program: BorrowedFd<'_>, interface: u32, mode: Mode) -> io::Result<OwnedFd> {
    let flags = match mode {
        Mode::Native => NATIVE,
        Mode::Generic => GENERIC,
    };
    let program = program.as_raw_fd() as u32;
    let attributes = LinkCreate { program, interface, attachment: ATTACH_XDP, flags };
    // SAFETY: the attributes are those of the command and point to nothing.
    unsafe { bpf_descriptor(LINK_CREATE, &attributes) }
}
