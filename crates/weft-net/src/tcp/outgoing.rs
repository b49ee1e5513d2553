//! The frames that wait to leave for one peer.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::ops::Range;

use weft_engine::memory::UserData;

use super::socket;
use super::wire::Write;
use crate::sys::INTERRUPTS_MAX;

/// Bytes of packets that wait to leave, above which no further packet is taken.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Writes that wait to leave, above which no further one is taken.
const WAITING_WRITES_MAX: usize = 16;
/// Most parts of a system call that sends.
const PARTS_MAX: usize = 16;

/// Something that is to leave.
enum Item {
    /// Bytes of frames.
    Bytes(Vec<u8>),
    /// Data of a write, which is read where it lies, and the number of the write.
    Data { data: UserData, range: Range<u64>, number: u64 },
}

impl Item {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Data { data, range, .. } => data.run(range.start, range.end - range.start).unwrap_or_default(),
        }
    }
}

/// The frames that wait to leave.
#[derive(Default)]
pub(super) struct Outgoing {
    items: VecDeque<Item>,
    /// Bytes of the first item that have left.
    left: usize,
    /// Bytes in all items but the data of writes.
    frame_bytes: usize,
    writes: usize,
}

impl Outgoing {
    /// The number of items that wait.
    pub(super) fn waiting(&self) -> usize {
        self.items.len()
    }

    /// Forgets all that waits: the connection is broken.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Sends frames of packets, or keeps what the kernel does not take; `None`: there is no connection yet.
    /// Returns `false`, and does nothing, where too much waits already. `done` is as for [`Self::flush`].
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn send(
        &mut self,
        stream: Option<&TcpStream>,
        parts: &[IoSlice<'_>],
        done: &mut VecDeque<u64>,
    ) -> io::Result<bool> {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut sent = 0;
        if let Some(stream) = stream {
            self.flush(stream, done)?;
            if self.items.is_empty() {
                sent = try_send(stream, parts)?;
            }
        }
        if sent == bytes {
            return Ok(true);
        }
        if sent == 0 && self.frame_bytes + bytes > WAITING_BYTES_MAX {
            return Ok(false);
        }
        self.frame_bytes += bytes - sent;
        if !matches!(self.items.back(), Some(Item::Bytes(_))) {
            self.items.push_back(Item::Bytes(Vec::with_capacity(bytes - sent)));
        }
        if let Some(Item::Bytes(rest)) = self.items.back_mut() {
            for part in parts {
                rest.extend_from_slice(part.get(sent..).unwrap_or_default());
                sent = sent.saturating_sub(part.len());
            }
        }
        Ok(true)
    }

    /// Takes a write; returns `false`, and does nothing, where too many wait already. The caller flushes.
    pub(super) fn write(&mut self, write: Write, data: &UserData, range: Range<u64>, number: u64) -> bool {
        if self.writes >= WAITING_WRITES_MAX {
            return false;
        }
        self.writes += 1;
        let head = write.head();
        self.frame_bytes += head.len();
        self.items.push_back(Item::Bytes(head.into()));
        self.items.push_back(Item::Data { data: data.clone(), range, number });
        true
    }

    /// Sends what waits, as far as the kernel takes it. The numbers of writes whose data has left go to
    /// `done`.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn flush(&mut self, stream: &TcpStream, done: &mut VecDeque<u64>) -> io::Result<()> {
        while !self.items.is_empty() {
            let mut parts = [IoSlice::new(&[]); PARTS_MAX];
            let mut count = 0;
            for (part, item) in parts.iter_mut().zip(&self.items) {
                *part = IoSlice::new(&item.bytes()[if count == 0 { self.left } else { 0 }..]);
                count += 1;
            }
            let offered: usize = parts[..count].iter().map(|part| part.len()).sum();
            let sent = try_send(stream, &parts[..count])?;
            self.leave(sent, done);
            if sent < offered {
                break;
            }
        }
        Ok(())
    }

    /// Notes that so many bytes have left.
    fn leave(&mut self, mut bytes: usize, done: &mut VecDeque<u64>) {
        while let Some(first) = self.items.front() {
            let rest = first.bytes().len() - self.left;
            if bytes < rest {
                self.left += bytes;
                return;
            }
            bytes -= rest;
            self.left = 0;
            match self.items.pop_front() {
                Some(Item::Data { number, .. }) => {
                    self.writes -= 1;
                    done.push_back(number);
                }
                Some(Item::Bytes(gone)) => self.frame_bytes -= gone.len(),
                None => {}
            }
        }
    }
}

/// Sends as many bytes as the kernel takes, maybe none.
///
/// # Errors
/// The connection is broken.
pub(super) fn try_send(stream: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    for _ in 0..INTERRUPTS_MAX {
        match socket::send(stream, parts) {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            sent => return sent,
        }
    }
    Ok(0)
}
