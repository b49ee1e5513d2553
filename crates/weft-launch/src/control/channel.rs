//! Frames over a pair of non-blocking descriptors, or over another channel. Both `mpiexec` and its agents
//! speak through one.

use super::FRAME_MAX;
use crate::sys::{self, Poll, READ, Ready, WRITE};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;
/// The most chunks read in one go, so that one loud side does not starve the others.
const CHUNKS_MAX: usize = 16;
const LENGTH_BYTES: usize = 4;

/// The state of the other side: it may still send, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    Closed,
}

/// A side of a conversation.
pub(crate) struct Channel {
    /// The descriptors to read from and to write to. `None`: the owner carries the bytes
    /// ([`accept`](Self::accept), [`take_unsent`](Self::take_unsent)).
    files: Option<(File, File)>,
    inbox: Vec<u8>,
    /// The start of the bytes that were not handed out yet.
    start: usize,
    outbox: Vec<u8>,
    /// The start of the bytes that were not written yet.
    written: usize,
    state: State,
    /// The bytes that have ever arrived.
    received: u64,
}

impl Channel {
    /// Makes a conversation that reads from `input` and writes to `output`; both become non-blocking.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn new(input: File, output: File) -> io::Result<Self> {
        sys::set_nonblocking(&input)?;
        sys::set_nonblocking(&output)?;
        Ok(Self { files: Some((input, output)), ..Self::carried() })
    }

    /// Makes a conversation whose bytes the owner carries.
    pub(crate) fn carried() -> Self {
        let (inbox, outbox) = (Vec::new(), Vec::new());
        Self { files: None, inbox, start: 0, outbox, written: 0, state: State::Open, received: 0 }
    }

    /// Takes over bytes that the owner has carried here.
    pub(crate) fn accept(&mut self, bytes: &[u8]) {
        self.inbox.drain(..self.start);
        self.start = 0;
        self.inbox.extend_from_slice(bytes);
        self.received += bytes.len() as u64;
    }

    /// Hands out at most `limit` bytes that the owner has to carry to the other side.
    pub(crate) fn take_unsent(&mut self, limit: usize) -> Vec<u8> {
        let end = self.outbox.len().min(self.written + limit);
        let taken = self.outbox[self.written..end].to_vec();
        self.written = end;
        if !self.has_unsent() {
            self.outbox.clear();
            self.written = 0;
        }
        taken
    }

    /// Notes that the other side is gone.
    pub(crate) fn close(&mut self) {
        self.state = State::Closed;
    }

    /// Returns whether the other side may still send.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// The bytes that have ever arrived.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Adds the events that this channel waits for. The entries are for [`handle`](Self::handle).
    pub(crate) fn wait_in<'fd>(&'fd self, poll: &mut Poll<'fd>) -> (Option<usize>, Option<usize>) {
        let Some((input, output)) = &self.files else { return (None, None) };
        let input = (self.state == State::Open).then(|| poll.add(input, READ));
        let output = self.has_unsent().then(|| poll.add(output, WRITE));
        (input, output)
    }

    /// The queued bytes that have not left yet.
    pub(crate) fn unsent(&self) -> usize {
        self.outbox.len() - self.written
    }

    /// Returns whether queued bytes have not left yet.
    pub(crate) fn has_unsent(&self) -> bool {
        self.written < self.outbox.len()
    }

    /// Reads and writes where that is ready.
    pub(crate) fn handle(&mut self, ready: &Ready, entries: (Option<usize>, Option<usize>)) {
        if entries.0.is_some_and(|entry| ready.has(entry)) {
            self.fill();
        }
        if entries.1.is_some_and(|entry| ready.has(entry)) {
            self.flush();
        }
    }

    /// Queues text as it is, without a frame.
    pub(crate) fn queue_text(&mut self, text: &str) {
        self.outbox.extend_from_slice(text.as_bytes());
    }

    /// Queues a frame whose content `encode` writes. Returns `false` when it would be longer than a frame may
    /// be.
    #[must_use]
    pub(crate) fn queue(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> bool {
        let start = self.outbox.len();
        self.outbox.extend_from_slice(&[0; LENGTH_BYTES]);
        encode(&mut self.outbox);
        let length = self.outbox.len() - start - LENGTH_BYTES;
        if length > FRAME_MAX {
            self.outbox.truncate(start);
            return false;
        }
        let length = u32::try_from(length).expect("shorter than a frame may be");
        self.outbox[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        true
    }

    /// Writes as much as possible without waiting. Bytes for a side that is gone are lost.
    pub(crate) fn flush(&mut self) {
        let Some((_, output)) = &mut self.files else { return };
        while self.written < self.outbox.len() {
            match output.write(&self.outbox[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => break,
            }
        }
        self.outbox.clear();
        self.written = 0;
    }

    /// Reads what has arrived.
    pub(crate) fn fill(&mut self) {
        let Some((input, _)) = &mut self.files else { return };
        self.inbox.drain(..self.start);
        self.start = 0;
        for _ in 0..CHUNKS_MAX {
            let end = self.inbox.len();
            self.inbox.resize(end + CHUNK, 0);
            let result = input.read(&mut self.inbox[end..]);
            let count = *result.as_ref().unwrap_or(&0);
            self.inbox.truncate(end + count);
            self.received += count as u64;
            match result {
                Ok(0) => self.state = State::Closed,
                Ok(count) if count == CHUNK => continue,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.state = State::Closed,
            }
            return;
        }
    }

    /// Takes the content of the next whole frame. `Err`: the bytes are no frame.
    pub(crate) fn next_frame(&mut self) -> Result<Option<&[u8]>, ()> {
        let Some(head) = self.inbox[self.start..].first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > FRAME_MAX {
            return Err(());
        }
        let content = self.start + LENGTH_BYTES;
        if self.inbox.len() < content + length {
            return Ok(None);
        }
        self.start = content + length;
        Ok(Some(&self.inbox[content..content + length]))
    }

    /// Takes the text up to the next newline. `Err` when it is longer than `limit`.
    pub(crate) fn next_line(&mut self, limit: usize) -> Result<Option<String>, ()> {
        let rest = &self.inbox[self.start..];
        match rest.iter().position(|&byte| byte == b'\n') {
            Some(length) => {
                let line = String::from_utf8_lossy(&rest[..length]).into_owned();
                self.start += length + 1;
                Ok(Some(line))
            }
            None if rest.len() > limit => Err(()),
            None => Ok(None),
        }
    }
}
