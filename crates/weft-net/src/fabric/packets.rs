//! Memory for the packets of an endpoint, which its provider reads and writes while it has them.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use super::api::Mr;

/// Alignment of each packet in bytes.
const ALIGNMENT: usize = 64;
/// Bytes of the provider's own for each operation under way (`struct fi_context2`).
const CONTEXT_BYTES: usize = 64;

/// Packets of a direction: a context and the bytes of each, in memory that the provider writes to while it
/// has them. So no reference here covers more than a packet that the provider has given back.
pub(super) struct Packets {
    memory: NonNull<u8>,
    layout: Layout,
    pub(super) count: usize,
    /// Bytes from one packet to the next.
    stride: usize,
    pub(super) registered: *mut Mr,
}

impl Packets {
    /// Makes `count` packets of `bytes` bytes.
    pub(super) fn new(count: usize, bytes: usize) -> Self {
        // An odd number of cache lines: at a power of two the first lines of all packets would compete for a
        // few places of each cache.
        let stride = (bytes.div_ceil(ALIGNMENT) | 1) * ALIGNMENT;
        let size = (count * (CONTEXT_BYTES + stride)).max(ALIGNMENT);
        let layout = Layout::from_size_align(size, ALIGNMENT).expect("some megabytes at most");
        // SAFETY: the size is not 0.
        let memory = unsafe { std::alloc::alloc_zeroed(layout) };
        let memory = NonNull::new(memory).unwrap_or_else(|| std::alloc::handle_alloc_error(layout));
        Self { memory, layout, count, stride, registered: ptr::null_mut() }
    }

    /// Returns the memory of all contexts and packets, for their registration.
    pub(super) fn bytes(&self) -> (*const c_void, usize) {
        (self.memory.as_ptr().cast_const().cast(), self.layout.size())
    }

    pub(super) fn at(&self, index: usize) -> *mut u8 {
        assert!(index < self.count, "a packet that is not there");
        // SAFETY: `index` is one of the packets, which lie behind the contexts.
        unsafe { self.memory.as_ptr().add(self.count * CONTEXT_BYTES + index * self.stride) }
    }

    pub(super) fn context(&self, index: usize) -> *mut c_void {
        assert!(index < self.count, "a packet that is not there");
        // SAFETY: `index` is one of the contexts.
        unsafe { self.memory.as_ptr().add(index * CONTEXT_BYTES) }.cast()
    }

    /// Returns the index of a context; none if the context is of the other direction.
    pub(super) fn index_of(&self, context: *mut c_void) -> Option<usize> {
        let offset = (context as usize).checked_sub(self.memory.as_ptr() as usize)?;
        Some(offset / CONTEXT_BYTES).filter(|index| *index < self.count)
    }

    pub(super) fn description(&self) -> *mut c_void {
        // SAFETY: an open registration.
        unsafe { self.registered.as_ref() }.map_or(ptr::null_mut(), |registered| registered.desc)
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        // SAFETY: the memory was made with this layout. The provider gave it back when the endpoint and the
        // registration were closed.
        unsafe { std::alloc::dealloc(self.memory.as_ptr(), self.layout) };
    }
}
