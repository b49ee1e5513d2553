//! The connection of the first task to a task that has joined: bytes in, frames out, without waiting.

use super::sealed::{CONTENT_MAX, Kind, Sealed};
use crate::sys::{READ, WRITE};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

/// The most answers that may wait for a task before it is heard again.
const PIECES_MAX: usize = 64;
/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// A task that has joined.
pub(super) struct Member {
    pub(super) stream: File,
    /// The ciphers of the connection; this process itself needs none.
    pub(super) sealed: Option<Sealed>,
    pub(super) inbox: Vec<u8>,
    /// The bytes to send that were not sealed yet: pieces, the first of them from `begun` on.
    pieces: VecDeque<(Kind, Rc<[u8]>)>,
    begun: usize,
    /// The frames to send, of which `written` bytes have left.
    outbox: Vec<u8>,
    written: usize,
}

impl Member {
    /// A task whose connection is `stream`.
    pub(super) fn new(stream: File, sealed: Option<Sealed>) -> Self {
        let (inbox, pieces, outbox) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { stream, sealed, inbox, pieces, begun: 0, outbox, written: 0 }
    }

    /// Adds bytes to send.
    pub(super) fn queue(&mut self, kind: Kind, bytes: Rc<[u8]>) {
        self.pieces.push_back((kind, bytes));
    }

    /// The events to wait for. A task that does not read its answers is not heard.
    pub(super) fn events(&self) -> PollFlags {
        let hears = if self.pieces.len() < PIECES_MAX { READ } else { PollFlags::empty() };
        if self.has_unsent() { hears | WRITE } else { hears }
    }

    /// Reads what has come, unless too many answers wait to be read. Returns `false` when the connection has
    /// ended.
    pub(super) fn fill(&mut self) -> bool {
        if self.pieces.len() >= PIECES_MAX {
            return true;
        }
        let mut bytes = vec![0; CHUNK];
        match self.stream.read(&mut bytes) {
            Ok(count) => {
                self.inbox.extend_from_slice(&bytes[..count]);
                count > 0
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn has_unsent(&self) -> bool {
        self.written < self.outbox.len() || !self.pieces.is_empty()
    }

    /// Writes as much as possible without waiting.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            if self.written == self.outbox.len() {
                self.refill();
            }
            match self.stream.write(&self.outbox[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes the next frame. The pieces of all tasks are the same bytes, so only a frame of each is in memory
    /// twice.
    fn refill(&mut self) {
        self.outbox.clear();
        self.written = 0;
        let Some((kind, bytes)) = self.pieces.front() else { return };
        let end = bytes.len().min(self.begun + CONTENT_MAX);
        let part = &bytes[self.begun..end];
        match &mut self.sealed {
            Some(sealed) => sealed.seal(*kind, part, &mut self.outbox),
            None if *kind == Kind::Talk => self.outbox.extend_from_slice(part),
            None => {}
        }
        self.begun = end;
        if end == bytes.len() {
            self.pieces.pop_front();
            self.begun = 0;
        }
    }

    /// Takes what the task has said. `None`: the bytes are not the task's.
    pub(super) fn take(&mut self) -> Option<Vec<Vec<u8>>> {
        let Some(sealed) = &mut self.sealed else { return Some(vec![std::mem::take(&mut self.inbox)]) };
        let mut said = Vec::new();
        while let Some((kind, content)) = sealed.open(&mut self.inbox).ok()? {
            match kind {
                Kind::Talk => said.push(content),
                _ => return None,
            }
        }
        Some(said)
    }
}
