//! Buffers for buffered sends (MPI-5.0 §3.6). `point_to_point.rs` uses them for buffered sends, and
//! `process/settling.rs` waits for them in MPI_Finalize.
//!
//! The program attaches memory, and Weft accounts for it as the standard's model implementation does. The
//! messages themselves wait in Weft's own memory, so the program's buffer is never read.

use crate::constants::{MPI_BSEND_OVERHEAD, MPI_ERR_BUFFER};
use crate::error::{Error, Result};
use crate::memory::SharedBuffer;

/// The object that a buffer is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The process: for communicators that neither have a buffer nor come from a session with a buffer.
    Process,
    /// A communicator, by its handle.
    Communicator(usize),
    /// A session, by its handle: for communicators that come from it.
    Session(usize),
}

/// The buffer that was attached to a communicator, to a session or to the process.
#[derive(Default)]
pub struct Buffer {
    attached: Option<Attached>,
    /// Messages that have not left yet, with their requests and their memory.
    waiting: Vec<Waiting>,
}

struct Attached {
    address: usize,
    bytes: i64,
    /// `MPI_BUFFER_AUTOMATIC`: no limit.
    automatic: bool,
}

struct Waiting {
    request: usize,
    cost: i64,
    /// The message, which the request's data describes.
    _bytes: SharedBuffer,
}

impl Buffer {
    /// A state with no buffer attached.
    pub const fn new() -> Self {
        Self { attached: None, waiting: Vec::new() }
    }

    /// Attaches `bytes` bytes at `address`.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when a buffer is attached already.
    pub fn attach(&mut self, address: usize, bytes: i64, automatic: bool) -> Result<()> {
        if self.attached.is_some() {
            return Err(Error::new(MPI_ERR_BUFFER, "a buffer is attached already: detach it first"));
        }
        self.attached = Some(Attached { address, bytes, automatic });
        Ok(())
    }

    /// Detaches the buffer. Returns address and size as the program gave them.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when none is attached.
    pub fn detach(&mut self) -> Result<(usize, i64)> {
        let attached = self.attached.take();
        let attached = attached.ok_or_else(|| Error::new(MPI_ERR_BUFFER, "no buffer is attached"))?;
        Ok((attached.address, attached.bytes))
    }

    /// Takes over the messages that have not left yet from the buffer of a holder that is gone.
    pub fn take_over(&mut self, mut gone: Buffer) {
        self.waiting.append(&mut gone.waiting);
    }

    /// Returns whether a buffer is attached.
    pub fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    /// Requests of messages that have not left yet.
    pub fn requests(&self) -> impl Iterator<Item = usize> {
        self.waiting.iter().map(|waiting| waiting.request)
    }

    /// Drops the messages that have left, and returns their requests.
    pub fn reclaim(&mut self, has_left: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut left = Vec::new();
        self.waiting.retain(|waiting| {
            let gone = has_left(waiting.request);
            if gone {
                left.push(waiting.request);
            }
            !gone
        });
        left
    }

    /// Checks that a message of `bytes` bytes fits.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when it does not fit; the text says how much is missing.
    pub fn check(&self, bytes: u64) -> Result<()> {
        let Some(attached) = &self.attached else {
            return Err(Error::new(MPI_ERR_BUFFER, "no buffer is attached for buffered sends: call MPI_Buffer_attach"));
        };
        let used: i64 = self.waiting.iter().map(|waiting| waiting.cost).sum();
        let cost = cost(bytes);
        if !attached.automatic && used + cost > attached.bytes {
            let size = attached.bytes;
            return Err(Error::new(
                MPI_ERR_BUFFER,
                format!(
                    "a message of {bytes} bytes needs {cost} bytes of the attached buffer (with MPI_BSEND_OVERHEAD), \
                     whose {size} bytes hold {used} already"
                ),
            ));
        }
        Ok(())
    }

    /// Returns whether a message of `bytes` bytes fits once all others have left.
    pub fn could_hold(&self, bytes: u64) -> bool {
        self.attached.as_ref().is_some_and(|attached| attached.automatic || cost(bytes) <= attached.bytes)
    }

    /// Keeps `bytes` until `request` is complete; `length` of them are the program's.
    pub fn keep(&mut self, request: usize, bytes: SharedBuffer, length: u64) {
        self.waiting.push(Waiting { request, cost: cost(length), _bytes: bytes });
    }
}

fn cost(bytes: u64) -> i64 {
    bytes as i64 + i64::from(MPI_BSEND_OVERHEAD)
}
