//! The memory that frames are received into, shared by the kernel and all processes of a group, and the lock
//! around the ring by which the processes give chunks of it back.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use crate::sys::check;

/// Bytes in front of the chunks. The lock lies there; the chunks begin on a page, whatever its size.
const FRONT: usize = 64 << 10;
/// pthread.h of glibc and musl.
const PTHREAD_MUTEX_ROBUST: libc::c_int = 1;

/// The geometry of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Bytes of a chunk, which holds a frame; a power of two.
    pub(super) chunk: usize,
    pub(super) chunks: usize,
}

impl Geometry {
    /// Returns the bytes of all chunks.
    pub(super) fn bytes(self) -> usize {
        self.chunk * self.chunks
    }
}

/// The mapped memory.
pub(super) struct Memory {
    fd: OwnedFd,
    base: NonNull<u8>,
    geometry: Geometry,
}

// SAFETY: shared memory. Its contents are reached through the lock, or belong to the process that the kernel
// gave the chunk to.
unsafe impl Send for Memory {}

impl Memory {
    /// Creates memory without a name, with an open lock.
    pub(super) fn create(geometry: Geometry) -> io::Result<Self> {
        // SAFETY: the name is a terminated string.
        let fd = unsafe { libc::memfd_create(c"weft-xdp".as_ptr(), libc::MFD_CLOEXEC) };
        check(fd)?;
        // SAFETY: the descriptor is new and ours.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        crate::sys::set_length(fd.as_fd(), (FRONT + geometry.bytes()) as u64)?;
        let memory = Self::attach(fd, geometry)?;
        // SAFETY: the memory is new, so no process uses the lock yet.
        unsafe { initialize(memory.lock()) }?;
        Ok(memory)
    }

    /// Maps memory that another process has created with this geometry.
    pub(super) fn attach(fd: OwnedFd, geometry: Geometry) -> io::Result<Self> {
        let length = FRONT + geometry.bytes();
        // SAFETY: a stat of zeros is a valid value of one.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and the buffer is ours.
        check(unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) })?;
        if stat.st_size as usize != length {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the memory is not as large as it should be"));
        }
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: the kernel chooses the address; the file has this length.
        let base = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, fd.as_raw_fd(), 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { fd, base, geometry }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn lock(&self) -> *mut libc::pthread_mutex_t {
        self.base.as_ptr().cast()
    }

    /// Returns the address of the chunks in this process.
    pub(super) fn chunks(&self) -> *mut u8 {
        // SAFETY: the mapping is longer than its front.
        unsafe { self.base.as_ptr().add(FRONT) }
    }

    /// Returns the frame that the kernel has put at `address`, counted from the first chunk; none when that
    /// lies outside.
    #[inline]
    pub(super) fn frame(&self, address: u64, length: u32) -> Option<&[u8]> {
        let (start, length) = (usize::try_from(address).ok()?, length as usize);
        if start.checked_add(length)? > self.geometry.bytes() {
            return None;
        }
        // SAFETY: inside the chunks. The kernel has given the chunk to this process. It writes to the chunk
        // again only after the caller, who holds `&self` meanwhile, has given the chunk back.
        Some(unsafe { std::slice::from_raw_parts(self.chunks().add(start), length) })
    }

    /// Takes the lock, unless another process has it. A process that died with the lock leaves it open.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<Locked<'_>> {
        // SAFETY: `create` has made the lock, and it lives as long as the mapping.
        match unsafe { libc::pthread_mutex_trylock(self.lock()) } {
            0 => Some(Locked(self)),
            libc::EOWNERDEAD => {
                // The data that the lock guards are whole at any moment: an entry counts once the ring's
                // index has moved past it. SAFETY: this thread has the lock now.
                let is_whole = unsafe { libc::pthread_mutex_consistent(self.lock()) } == 0;
                is_whole.then_some(Locked(self))
            }
            _ => None,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no borrow of it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), FRONT + self.geometry.bytes()) };
    }
}

/// The right to give chunks back.
pub(super) struct Locked<'a>(&'a Memory);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread has the lock: a `Locked` cannot move to another, since `Memory` is not `Sync`.
        unsafe { libc::pthread_mutex_unlock(self.0.lock()) };
    }
}

/// Makes the lock.
///
/// # Safety
/// `lock` is memory for a mutex that no thread uses.
unsafe fn initialize(lock: *mut libc::pthread_mutex_t) -> io::Result<()> {
    let succeed = |code| if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) };
    let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the call writes to attributes that are ours.
    succeed(unsafe { libc::pthread_mutexattr_init(attributes) })?;
    // SAFETY: the attributes have been initialized.
    succeed(unsafe { libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED) })?;
    // SAFETY: as above.
    succeed(unsafe { libc::pthread_mutexattr_setrobust(attributes, PTHREAD_MUTEX_ROBUST) })?;
    // SAFETY: as above, and the caller gives the memory.
    succeed(unsafe { libc::pthread_mutex_init(lock, attributes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry { chunk: 2048, chunks: 8 };

    fn again(memory: &Memory) -> Memory {
        Memory::attach(memory.fd().try_clone_to_owned().unwrap(), GEOMETRY).unwrap()
    }

    #[test]
    fn one_holds_the_lock_and_who_dies_with_it_leaves_it_open() {
        let memory = Memory::create(GEOMETRY).unwrap();
        let (rival, victim) = (again(&memory), again(&memory));
        let held = memory.try_lock().unwrap();
        std::thread::spawn(move || assert!(rival.try_lock().is_none())).join().unwrap();
        drop(held);
        // To the kernel, a thread that ends with the lock is like a killed process.
        let victim = std::thread::spawn(move || {
            std::mem::forget(victim.try_lock().unwrap());
            victim
        });
        let _victim = victim.join().unwrap();
        assert!(memory.try_lock().is_some());
        assert!(memory.try_lock().is_some(), "and again");
    }

    #[test]
    fn frames_lie_inside_the_chunks_or_are_none() {
        let memory = Memory::create(GEOMETRY).unwrap();
        let end = GEOMETRY.bytes() as u64;
        assert_eq!(memory.frame(256, 100).unwrap(), [0; 100]);
        assert_eq!(memory.frame(end - 1, 1).unwrap(), [0]);
        for (address, length) in [(end, 1), (end - 1, 2), (u64::MAX, 1), (u64::MAX - 10, u32::MAX), (0, u32::MAX)] {
            assert!(memory.frame(address, length).is_none(), "{length} bytes at {address}");
        }
    }

    #[test]
    fn memory_of_another_size_is_refused() {
        let memory = Memory::create(GEOMETRY).unwrap();
        let fd = memory.fd().try_clone_to_owned().unwrap();
        assert!(Memory::attach(fd, Geometry { chunks: 9, ..GEOMETRY }).is_err());
    }
}
