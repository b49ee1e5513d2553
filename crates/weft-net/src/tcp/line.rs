//! One connection: the frames that wait to leave, and the bytes that have arrived and are no whole frame.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::ops::Range;

use weft_engine::memory::UserData;

use super::memory::Memory;
use super::socket;
use super::wire::{Parser, Part, Write, Wrong};
use crate::sys::INTERRUPTS_MAX;

/// Bytes of packets that wait to leave, above which no further packet is taken.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Writes that wait to leave, above which no further one is taken.
const WAITING_WRITES_MAX: usize = 16;
/// Most parts of a system call that sends.
const PARTS_MAX: usize = 16;
/// Most system calls that receive in one look at a connection: other connections have their turn.
const READS_MAX: usize = 8;

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
struct Outgoing {
    items: VecDeque<Item>,
    /// Bytes of the first item that have left.
    left: usize,
    /// Bytes in all items but the data of writes.
    frame_bytes: usize,
    writes: usize,
}

/// The result of a look at a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// All that has arrived has been taken, or as much as was asked for.
    Done,
    /// The peer sends no more.
    Ended,
    /// The bytes are none of this protocol, or a stranger's.
    Wrong,
    /// The connection is broken: the system's word for it.
    Broken(i32),
}

/// A connection.
pub(super) struct Line {
    pub(super) stream: TcpStream,
    /// The process at the other end; `None`: it is not known.
    pub(super) peer: Option<usize>,
    /// Set where the peer sends on a connection of its own: on this one comes only its end.
    pub(super) only_sends: bool,
    /// Set while the connection is being made.
    pub(super) connects: bool,
    /// Set while the list of sockets tells of room to send.
    pub(super) watches_room: bool,
    outgoing: Outgoing,
    parser: Parser,
    /// Bytes that have arrived: from `taken` on they are not taken.
    kept: Vec<u8>,
    taken: usize,
}

impl Line {
    pub(super) fn new(stream: TcpStream, peer: Option<usize>, connects: bool, parser: Parser) -> Self {
        let outgoing = Outgoing::default();
        let (watches_room, kept) = (connects, Vec::new());
        Self { stream, peer, only_sends: false, connects, watches_room, outgoing, parser, kept, taken: 0 }
    }

    /// The number of frames that wait to leave.
    pub(super) fn waiting(&self) -> usize {
        self.outgoing.items.len()
    }

    /// Returns whether packets that have arrived wait for a look.
    pub(super) fn has_kept(&self) -> bool {
        self.taken < self.kept.len()
    }

    /// Sends frames of packets, or keeps what the kernel does not take; returns `false`, and does nothing,
    /// where too much waits already. `done` is as for [`Self::flush`].
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn send(&mut self, parts: &[IoSlice<'_>], done: &mut VecDeque<u64>) -> io::Result<bool> {
        self.flush(done)?;
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut sent = 0;
        if self.outgoing.items.is_empty() && !self.connects {
            sent = try_send(&self.stream, parts)?;
            if sent == bytes {
                return Ok(true);
            }
        } else if self.outgoing.frame_bytes + bytes > WAITING_BYTES_MAX {
            return Ok(false);
        }
        let mut rest = Vec::with_capacity(bytes - sent);
        for part in parts {
            rest.extend_from_slice(part.get(sent..).unwrap_or_default());
            sent = sent.saturating_sub(part.len());
        }
        self.outgoing.frame_bytes += rest.len();
        match self.outgoing.items.back_mut() {
            Some(Item::Bytes(bytes)) => bytes.extend_from_slice(&rest),
            _ => self.outgoing.items.push_back(Item::Bytes(rest)),
        }
        Ok(true)
    }

    /// Takes a write; returns `false`, and does nothing, where too many wait already.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn write(
        &mut self,
        write: Write,
        data: &UserData,
        range: Range<u64>,
        number: u64,
        done: &mut VecDeque<u64>,
    ) -> io::Result<bool> {
        if self.outgoing.writes >= WAITING_WRITES_MAX {
            return Ok(false);
        }
        self.outgoing.writes += 1;
        let head = write.head();
        self.outgoing.frame_bytes += head.len();
        self.outgoing.items.push_back(Item::Bytes(head.into()));
        self.outgoing.items.push_back(Item::Data { data: data.clone(), range, number });
        self.flush(done)?;
        Ok(true)
    }

    /// Sends what waits, as far as the kernel takes it. The numbers of writes whose data has left go to
    /// `done`.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn flush(&mut self, done: &mut VecDeque<u64>) -> io::Result<()> {
        if self.connects {
            return Ok(());
        }
        while !self.outgoing.items.is_empty() {
            let Outgoing { items, left, .. } = &self.outgoing;
            let mut parts = [IoSlice::new(&[]); PARTS_MAX];
            let mut count = 0;
            for (part, item) in parts.iter_mut().zip(items) {
                *part = IoSlice::new(&item.bytes()[if count == 0 { *left } else { 0 }..]);
                count += 1;
            }
            let offered: usize = parts[..count].iter().map(|part| part.len()).sum();
            let sent = try_send(&self.stream, &parts[..count])?;
            self.outgoing.leave(sent, done);
            if sent < offered {
                break;
            }
        }
        Ok(())
    }

    /// Hands packets that have arrived to `on_packet`, `limit` of them at most, and writes data to the memory
    /// that it is for. `buffer` is memory for what arrives, larger than a frame. Tokens of greetings go to
    /// `greeted`. Returns how many packets were handed over.
    pub(super) fn look(
        &mut self,
        limit: usize,
        memory: &Memory,
        buffer: &mut [u8],
        greeted: &mut Option<u64>,
        on_packet: &mut dyn FnMut(&[u8]),
    ) -> (usize, Looked) {
        let mut packets = 0;
        if self.has_kept() {
            let kept = std::mem::take(&mut self.kept);
            let parsed = self.parse(&kept, self.taken, limit, memory, greeted, on_packet);
            let (at, count) = match parsed {
                Ok(parsed) => parsed,
                Err(Wrong) => return (packets, Looked::Wrong),
            };
            (self.kept, self.taken, packets) = (kept, at, count);
        }
        for _ in 0..READS_MAX {
            if packets >= limit {
                return (packets, Looked::Done);
            }
            // What is kept is no whole frame, and shorter than the buffer.
            let begin = self.kept.len() - self.taken;
            buffer[..begin].copy_from_slice(&self.kept[self.taken..]);
            let write = self.parser.write().filter(|_| begin == 0);
            let target = write.and_then(|write| Some((memory.target(&write)?, write.address, write.bytes)));
            let placed_max = target.map_or(0, |(_, _, bytes)| bytes as usize);
            let received = match socket::receive(&self.stream, target, &mut buffer[begin..]) {
                Ok(0) => return (packets, Looked::Ended),
                Ok(received) => received,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return (packets, Looked::Done),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                Err(cause) => return (packets, Looked::Broken(cause.raw_os_error().unwrap_or(0))),
            };
            let placed = received.min(placed_max);
            self.parser.written(placed as u64);
            let end = begin + received - placed;
            let is_all = received < placed_max + buffer.len() - begin;
            let bytes = &buffer[..end];
            match self.parse(bytes, 0, limit - packets, memory, greeted, on_packet) {
                Ok((at, count)) => {
                    packets += count;
                    self.kept.clear();
                    self.kept.extend_from_slice(&bytes[at..]);
                    self.taken = 0;
                }
                Err(Wrong) => return (packets, Looked::Wrong),
            }
            if is_all {
                break;
            }
        }
        (packets, Looked::Done)
    }

    /// Takes in what has arrived, and drops it.
    pub(super) fn drain(&mut self, buffer: &mut [u8]) {
        for _ in 0..READS_MAX {
            if !matches!(socket::receive(&self.stream, None, buffer), Ok(1..)) {
                return;
            }
        }
    }

    /// Takes frames out of `bytes` from `at` on; returns the first byte that it has left, and the number of
    /// packets.
    fn parse(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        limit: usize,
        memory: &Memory,
        greeted: &mut Option<u64>,
        on_packet: &mut dyn FnMut(&[u8]),
    ) -> Result<(usize, usize), Wrong> {
        let mut packets = 0;
        while packets < limit {
            match self.parser.next(bytes, &mut at)? {
                None => break,
                Some(Part::Greeting(token)) => *greeted = Some(token),
                Some(Part::Packet(range)) => {
                    packets += 1;
                    on_packet(&bytes[range]);
                }
                // A write that is for no registered memory comes too late, and is dropped.
                Some(Part::Data(write, range)) => {
                    if let Some(data) = memory.target(&write) {
                        data.write(write.address, &bytes[range]);
                    }
                }
            }
        }
        Ok((at, packets))
    }
}

impl Outgoing {
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
fn try_send(stream: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    for _ in 0..INTERRUPTS_MAX {
        match socket::send(stream, parts) {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            sent => return sent,
        }
    }
    Ok(0)
}
