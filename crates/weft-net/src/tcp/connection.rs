//! One connection: its state, and the bytes that have arrived and are no whole frame.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;

use weft_core::time::Instant;

use super::memory::{Expected, Memory, Name, is_run, put};
use super::socket;
use super::wire::{Parser, Part, WRITE_HEAD_BYTES, Write, Wrong};
use crate::carrier::Registration;
use crate::clock;

/// Most system calls that receive in one look at a connection: other connections have their turn.
const READS_MAX: usize = 8;
/// Most bytes that are received where they are expected before the head of their write is known. If it is
/// another frame they are copied.
const EXPECTED_BYTES_MAX: u64 = 128 << 10;

/// The steps of the handshake that the other end has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// The other end has greeted, and is the process with this token.
    Greeted(u64),
    /// The other end has accepted the greeting.
    Accepted,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// This end connects.
    Connects,
    /// This end has greeted, and the other end has not accepted yet.
    Greets,
    /// The other end has connected, and has not greeted yet.
    Stranger,
    /// Frames may leave.
    Open,
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

/// The bytes that a system call has received.
struct Received {
    /// Their number; 0: the peer sends no more.
    count: usize,
    /// The bytes that are in their place.
    placed: usize,
    /// The end of those in the buffer, with what was there before.
    end: usize,
    /// Set if there were no more.
    is_all: bool,
    /// The write to which the placed bytes belong.
    write: Option<Write>,
}

/// A connection.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) state: State,
    /// The time at which this end began to connect, or accepted.
    pub(super) began: Instant,
    /// The process at the other end; `None`: it is not known.
    pub(super) peer: Option<usize>,
    /// The token of the process at the other end, once it has greeted.
    pub(super) token: Option<u64>,
    /// Set while the list of sockets tells of room to send.
    pub(super) watches_room: bool,
    parser: Parser,
    /// Bytes that have arrived: from `taken` on they are not taken.
    kept: Vec<u8>,
    taken: usize,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, state: State, peer: Option<usize>, parser: Parser) -> Self {
        let watches_room = state == State::Connects;
        Self { stream, state, began: clock::now(), peer, token: None, watches_room, parser, kept: Vec::new(), taken: 0 }
    }

    /// Returns whether packets that have arrived wait for a look.
    pub(super) fn has_kept(&self) -> bool {
        self.taken < self.kept.len()
    }

    /// Hands packets that have arrived to `on_packet`, `limit` of them at most, and writes data to the memory
    /// that it is for. The peer, the process with this `token`, is likely to write to the memory that is
    /// `expected` next. `buffer` is memory for what arrives, larger than a frame. The beginning of the
    /// connection is told by `begun`. Returns how many packets were handed over.
    pub(super) fn look(
        &mut self,
        limit: usize,
        token: u64,
        memory: &mut Memory,
        expected: &mut VecDeque<Registration>,
        buffer: &mut [u8],
        begun: &mut Option<Handshake>,
        on_packet: &mut dyn FnMut(&[u8]),
    ) -> (usize, Looked) {
        let mut packets = 0;
        if self.has_kept() {
            let kept = std::mem::take(&mut self.kept);
            let parsed = self.parse(&kept, self.taken, limit, (token, &mut *memory), begun, on_packet);
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
            let guess =
                if begin == 0 && self.parser.is_between_frames() { memory.expected_from(expected) } else { None };
            let write = self.parser.write().filter(|_| begin == 0);
            let target = write.and_then(|write| Some((memory.target(token, &write)?, write.address, write.bytes)));
            let target = target.filter(|(data, address, bytes)| is_run(data, *address, *bytes));
            let placed_max = target.map_or(0, |(_, _, bytes)| bytes as usize);
            let received = match &guess {
                Some(guess) => self.receive_expected(guess, token, buffer),
                None => socket::receive(&self.stream, &mut [], target, &mut buffer[begin..]).map(|received| {
                    let placed = received.min(placed_max);
                    let is_all = received < placed_max + buffer.len() - begin;
                    Received { count: received, placed, end: begin + received - placed, is_all, write }
                }),
            };
            let Received { placed, end, is_all, write, .. } = match received {
                Ok(Received { count: 0, .. }) => return (packets, Looked::Ended),
                Ok(received) => received,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return (packets, Looked::Done),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                Err(cause) => return (packets, Looked::Broken(cause.raw_os_error().unwrap_or(0))),
            };
            if guess.is_some() {
                // Right or wrong, nothing of it is expected any more.
                expected.pop_front();
                if let Some(write) = write {
                    self.parser.begin_write(write);
                }
            }
            if let Some(write) = write.filter(|_| placed > 0) {
                memory.note_written(token, &Write { bytes: placed as u64, ..write });
            }
            self.parser.written(placed as u64);
            let bytes = &buffer[..end];
            match self.parse(bytes, 0, limit - packets, (token, &mut *memory), begun, on_packet) {
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

    /// Receives bytes where the next frame is likely to be a write to this memory: its data goes there at
    /// once. If it is another frame, all bytes are put to the front of `buffer`, as they came.
    #[inline(never)]
    fn receive_expected(&self, guess: &Expected, token: u64, buffer: &mut [u8]) -> io::Result<Received> {
        let Expected { data, length, name } = guess;
        let part = (*length).min(EXPECTED_BYTES_MAX);
        // Behind the beginning of a longer write there is only more of it, which has its place.
        let room = if *length > part { 0 } else { buffer.len() - WRITE_HEAD_BYTES - part as usize };
        let mut head = [0; WRITE_HEAD_BYTES];
        let received = socket::receive(&self.stream, &mut head, Some((data, 0, part)), &mut buffer[..room])?;
        let is_all = received < head.len() + part as usize + room;
        let (behind_head, end) =
            (received.saturating_sub(head.len()), received.saturating_sub(head.len() + part as usize));
        let placed = behind_head - end;
        let is_expected = |write: &Write| {
            Name::of(write, token) == *name && write.address == 0 && (part..=*length).contains(&write.bytes)
        };
        let write = Write::parse(&head[..received.min(head.len())]).filter(is_expected);
        if write.is_some() {
            return Ok(Received { count: received, placed, end, is_all, write });
        }
        buffer.copy_within(..end, head.len() + placed);
        data.read(0, &mut buffer[head.len()..][..placed]);
        buffer[..head.len()].copy_from_slice(&head);
        Ok(Received { count: received, placed: 0, end: received, is_all, write: None })
    }

    /// Takes in what has arrived, and drops it.
    pub(super) fn drain(&mut self, buffer: &mut [u8]) {
        for _ in 0..READS_MAX {
            if !matches!(socket::receive(&self.stream, &mut [], None, buffer), Ok(1..)) {
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
        (token, memory): (u64, &mut Memory),
        begun: &mut Option<Handshake>,
        on_packet: &mut dyn FnMut(&[u8]),
    ) -> Result<(usize, usize), Wrong> {
        let mut packets = 0;
        while packets < limit {
            match self.parser.next(bytes, &mut at)? {
                None => break,
                Some(Part::Greeting(token)) => *begun = Some(Handshake::Greeted(token)),
                Some(Part::Accepted) => *begun = Some(Handshake::Accepted),
                Some(Part::Packet(range)) => {
                    packets += 1;
                    on_packet(&bytes[range]);
                }
                Some(Part::Data(write, range)) => {
                    if let Some(data) = memory.target(token, &write) {
                        put(data, write.address, &bytes[range]);
                        memory.note_written(token, &write);
                    } else if write.is_unasked && !memory.keep(token, &write, &bytes[range]) {
                        return Err(Wrong);
                    }
                    // Another write that is for no registered memory comes too late, and is dropped.
                }
            }
        }
        Ok((at, packets))
    }
}
