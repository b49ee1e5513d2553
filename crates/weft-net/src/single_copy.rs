//! Single copy between two address spaces of a node, by `process_vm_readv(2)` and `process_vm_writev(2)`.
//!
//! The kernel allows this between processes of one user unless the machine forbids it (Yama's `ptrace_scope`,
//! seccomp in containers, processes that are not dumpable). So ask [`available`] once per peer before the
//! first use.
#![allow(unsafe_code)]

use std::io;

use weft_engine::transport::NeighbourMemory;

/// Most runs of memory that a call hands to the kernel. The kernel would take 1024; this many fit on the
/// stack, and amortize the call.
const RUNS_MAX: usize = 64;
/// Most bytes that the kernel moves in a call (MAX_RW_COUNT is 2 GiB less a page).
const CALL_BYTES_MAX: usize = 1 << 30;
/// An address in the first page, which no process can map (`vm.mmap_min_addr`).
const UNMAPPED_ADDRESS: u64 = 1;

/// A run of memory in this process.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// First byte.
    pub start: *mut u8,
    /// Number of bytes.
    pub len: usize,
}

/// A run of memory in the other process.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// Address of the first byte in that process.
    pub address: u64,
    /// Number of bytes.
    pub len: usize,
}

/// The memory of other processes of this node, reached by the calls of this module.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleCopy;

impl NeighbourMemory for SingleCopy {
    unsafe fn read(&self, process: i32, address: u64, to: *mut u8, len: usize) -> io::Result<()> {
        // SAFETY: the caller's promise, passed on.
        unsafe { read(process, address, to, len) }
    }

    unsafe fn write(&self, process: i32, address: u64, from: *const u8, len: usize) -> io::Result<()> {
        // SAFETY: the caller's promise, passed on.
        unsafe { write(process, address, from, len) }
    }
}

/// Returns whether this process may copy from and to the memory of process `pid` (in this pid namespace).
pub fn available(pid: i32) -> bool {
    matches!(ask(pid), None | Some(libc::EFAULT))
}

/// Returns whether the system refuses copies from and to the memory of process `pid`. A process that has only
/// ended meanwhile is not refused.
pub fn is_refused(pid: i32) -> bool {
    !matches!(ask(pid), None | Some(libc::EFAULT | libc::ESRCH))
}

/// Asks for a byte that cannot exist, and returns the system's answer: "bad address" means that permission
/// was given.
fn ask(pid: i32) -> Option<i32> {
    let mut byte = 0_u8;
    let local = [Local { start: &mut byte, len: 1 }];
    let remote = [Remote { address: UNMAPPED_ADDRESS, len: 1 }];
    // SAFETY: the local run is the byte above, which is ours to write.
    unsafe { read_vectored(pid, &local, &remote) }.err().map(|cause| cause.raw_os_error().unwrap_or(libc::EIO))
}

/// Lets processes of the same user copy from and to this process's memory where Yama would allow that to
/// ancestors only (`ptrace_scope` 1).
///
/// It also lets a debugger of the same user attach, so it is the caller's decision. Returns true when copies
/// are permitted, or Yama is not there.
pub fn permit() -> bool {
    // SAFETY: prctl with these arguments reads no memory.
    let result = unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// Copies `len` bytes at `remote_address` of process `pid` to `local`.
///
/// # Errors
/// The kernel's error; EFAULT when part of the remote range is not mapped. Part of `local` may then have been
/// written.
///
/// # Safety
/// `local` points to `len` bytes that this process may write and that no other code uses during the call.
pub unsafe fn read(pid: i32, remote_address: u64, local: *mut u8, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise, passed on.
    unsafe { copy(Direction::Read, pid, &[Local { start: local, len }], &[Remote { address: remote_address, len }]) }
}

/// Copies `len` bytes at `local` to `remote_address` of process `pid`.
///
/// # Errors
/// As [`read`].
///
/// # Safety
/// `local` points to `len` bytes that this process may read, and the other process has agreed to have its
/// `len` bytes overwritten.
pub unsafe fn write(pid: i32, remote_address: u64, local: *const u8, len: usize) -> io::Result<()> {
    let local = [Local { start: local.cast_mut(), len }];
    // SAFETY: the caller's promise, passed on; the kernel only reads local runs when writing.
    unsafe { copy(Direction::Write, pid, &local, &[Remote { address: remote_address, len }]) }
}

/// Copies the remote runs, in order, into the local runs, in order. Both lists must have the same number of
/// bytes in all.
///
/// # Errors
/// As [`read`]; InvalidInput when the sums differ.
///
/// # Safety
/// Every local run is memory that this process may write and that no other code uses during the call.
pub unsafe fn read_vectored(pid: i32, local: &[Local], remote: &[Remote]) -> io::Result<()> {
    // SAFETY: the caller's promise, passed on.
    unsafe { copy(Direction::Read, pid, local, remote) }
}

/// Copies the local runs, in order, into the remote runs, in order. Both lists must have the same number of
/// bytes in all.
///
/// # Errors
/// As [`read_vectored`].
///
/// # Safety
/// Every local run is readable; the other process has agreed to have its runs overwritten.
pub unsafe fn write_vectored(pid: i32, local: &[Local], remote: &[Remote]) -> io::Result<()> {
    // SAFETY: the caller's promise, passed on.
    unsafe { copy(Direction::Write, pid, local, remote) }
}

#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

/// Feeds the kernel at most RUNS_MAX runs and CALL_BYTES_MAX bytes at a time. Each turn moves at least a byte
/// or fails.
unsafe fn copy(direction: Direction, pid: i32, local: &[Local], remote: &[Remote]) -> io::Result<()> {
    let total: usize = local.iter().map(|run| run.len).sum();
    if total != remote.iter().map(|run| run.len).sum::<usize>() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "local and remote runs differ in size"));
    }
    let mut here = Cursor { run: 0, offset: 0 };
    let mut there = Cursor { run: 0, offset: 0 };
    let mut done = 0;
    let (mut near, mut far) = ([NO_RUN; RUNS_MAX], [NO_RUN; RUNS_MAX]);
    while done < total {
        let near_len = here.fill(local.iter().map(|run| (run.start as u64, run.len)), &mut near);
        let far_len = there.fill(remote.iter().map(|run| (run.address, run.len)), &mut far);
        // SAFETY: `near` holds parts of the caller's local runs, whose access the caller promised; the kernel
        // checks remote addresses.
        let moved = unsafe {
            let (l, ln) = (near.as_ptr(), near_len as libc::c_ulong);
            let (r, rn) = (far.as_ptr(), far_len as libc::c_ulong);
            match direction {
                Direction::Read => libc::process_vm_readv(pid, l, ln, r, rn, 0),
                Direction::Write => libc::process_vm_writev(pid, l, ln, r, rn, 0),
            }
        };
        match moved {
            n if n > 0 => {
                let n = n as usize;
                here.advance(n, |i| local[i].len);
                there.advance(n, |i| remote[i].len);
                done += n;
            }
            0 => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
            _ => {
                let cause = io::Error::last_os_error();
                if cause.raw_os_error() != Some(libc::EINTR) {
                    return Err(cause);
                }
            }
        }
    }
    Ok(())
}

/// A position in a list of runs.
struct Cursor {
    run: usize,
    offset: usize,
}

const NO_RUN: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

impl Cursor {
    /// Writes the runs from here on, as many as go into a call, and returns their number.
    fn fill(&self, runs: impl Iterator<Item = (u64, usize)>, out: &mut [libc::iovec; RUNS_MAX]) -> usize {
        let (mut room, mut used) = (CALL_BYTES_MAX, 0);
        // Empty runs are left out: a call that moves nothing would look like a fault.
        let ahead = runs.enumerate().skip(self.run).filter(|(_, (_, len))| *len > 0);
        for ((i, (start, len)), slot) in ahead.zip(out) {
            let skip = if i == self.run { self.offset } else { 0 };
            let len = (len - skip).min(room);
            *slot = libc::iovec { iov_base: (start + skip as u64) as *mut libc::c_void, iov_len: len };
            used += 1;
            room -= len;
            if room == 0 {
                break;
            }
        }
        used
    }

    fn advance(&mut self, mut bytes: usize, len_of: impl Fn(usize) -> usize) {
        while bytes > 0 {
            let left = len_of(self.run) - self.offset;
            if bytes < left {
                self.offset += bytes;
                return;
            }
            bytes -= left;
            self.run += 1;
            self.offset = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts `bytes` into runs of 0, 1, 2, … `most` bytes and again from 0.
    fn cut(bytes: &mut [u8], most: usize) -> Vec<Local> {
        let (mut rest, mut runs) = (bytes, Vec::new());
        while !rest.is_empty() {
            let (run, tail) = rest.split_at_mut((runs.len() % (most + 1)).min(rest.len()));
            runs.push(Local { start: run.as_mut_ptr(), len: run.len() });
            rest = tail;
        }
        runs
    }

    fn remote(runs: &[Local]) -> Vec<Remote> {
        runs.iter().map(|run| Remote { address: run.start as u64, len: run.len }).collect()
    }

    #[test]
    fn runs_of_different_shapes_are_copied_in_order() {
        let own = std::process::id() as i32;
        if !available(own) {
            eprintln!("skipped: this machine does not let processes copy from each other");
            return;
        }
        for (near_most, far_most) in [(1, 900), (900, 1), (7, 13), (20_000, 3)] {
            let mut far: Vec<u8> = (0..10_000).map(|i| (i * 7 + i / 256) as u8).collect();
            let (original, mut near) = (far.clone(), vec![0; far.len()]);
            let far_runs = remote(&cut(&mut far, far_most));
            // SAFETY: the local runs are parts of `near`.
            unsafe { read_vectored(own, &cut(&mut near, near_most), &far_runs) }.unwrap();
            assert_eq!(near, original);
            near.iter_mut().for_each(|byte| *byte ^= 0xff);
            // SAFETY: the local runs are parts of `near`; the "other process" is this one, and `far` is ours.
            unsafe { write_vectored(own, &cut(&mut near, near_most), &far_runs) }.unwrap();
            assert_eq!(std::hint::black_box(&far), &near);
        }
    }

    #[test]
    fn many_empty_runs_do_not_stop_the_copy() {
        let own = std::process::id() as i32;
        let (mut near, mut far) = ([0_u8; 2], [1_u8, 2]);
        let run = |byte: *mut u8, len| Local { start: byte, len };
        let mut runs = vec![run(&mut near[0], 1)];
        runs.extend((0..3 * RUNS_MAX).map(|_| run(&mut near[1], 0)));
        runs.push(run(&mut near[1], 1));
        let far_runs = remote(&[run(far.as_mut_ptr(), 2)]);
        if available(own) {
            // SAFETY: the local runs are the two bytes of `near`.
            unsafe { read_vectored(own, &runs, &far_runs) }.unwrap();
            assert_eq!(std::hint::black_box(near), [1, 2]);
        }
    }

    #[test]
    fn sums_that_differ_are_refused_and_nothing_is_nothing() {
        let mut byte = 0;
        let local = [Local { start: &mut byte, len: 1 }];
        // SAFETY: nothing is copied when the sums differ.
        let error = unsafe { read_vectored(1, &local, &[]) }.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        // SAFETY: no bytes.
        unsafe { read(std::process::id() as i32, 0, &mut byte, 0) }.unwrap();
    }
}
