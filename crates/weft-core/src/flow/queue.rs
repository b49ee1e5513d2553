//! The data that the program has submitted and the peer has not acknowledged: messages, copied into a ring of
//! bytes, and ranges of regions.

use super::settings::{FILLING_SHARE, RUN_PACKETS};
use crate::wire::{DATA_OVERHEAD, ECHO_SIZE, FRAME_PREFIX, MESSAGES_OVERHEAD, Number};
use alloc::collections::VecDeque;
use core::ops::Range;

/// Bytes of messages kept allocated by an idle flow.
pub(super) const KEPT_BYTES: usize = 64;

/// The content of a numbered packet, from which the packet can be built again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    /// `length` bytes of frames that stand at position `start` of the ring; `run`: part of a run of messages.
    Messages { start: u32, length: u16, first: Number, run: bool },
    /// A piece of a region; `end`: no other range was waiting behind it; `fills`: the packet may be filled up
    /// to the length of others, since the filling is little beside its range.
    Data { remote_key: u32, region: u32, offset: u64, length: u16, end: bool, fills: bool },
    /// A packet of zeros that asks whether the path carries `size` bytes. 0: the question is settled, by its
    /// loss or its arrival, and only the number counts.
    Question { size: u16 },
}

impl Content {
    /// Returns whether the content is bulk data.
    #[inline]
    pub(super) const fn is_data(&self) -> bool {
        matches!(self, Self::Data { .. })
    }

    /// Returns whether the content takes a path of bulk data: runs of messages do, too.
    pub(super) const fn is_bulk(&self) -> bool {
        matches!(self, Self::Data { .. } | Self::Messages { run: true, .. })
    }

    /// Bytes of the payload.
    #[inline]
    pub(super) const fn payload_bytes(&self) -> u16 {
        match self {
            Self::Messages { length, .. } | Self::Data { length, .. } => *length,
            Self::Question { .. } => 0,
        }
    }

    /// Bytes of a packet with this content, without an echo and a seal.
    #[inline]
    pub(super) const fn packet_bytes(&self) -> usize {
        match self {
            Self::Messages { length, .. } => MESSAGES_OVERHEAD - ECHO_SIZE + *length as usize,
            Self::Data { length, .. } => DATA_OVERHEAD + *length as usize,
            Self::Question { .. } => MESSAGES_OVERHEAD - ECHO_SIZE,
        }
    }
}

/// A numbered packet that should leave now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    /// The packet's number, beyond 32 bits.
    pub(super) number: u64,
    pub(super) transmission: u8,
    pub(super) path: usize,
    pub(super) order: u8,
    pub(super) content: Content,
    pub(super) request: bool,
}

/// A range of a region with bytes that are still to be sent.
#[derive(Debug)]
struct Job {
    remote_key: u32,
    region: u32,
    left: Range<u64>,
    /// Bytes of the whole range.
    total: u64,
}

#[derive(Debug)]
pub(super) struct Queue {
    /// Frames of messages that are queued or not yet acknowledged, in order. Positions in it wrap.
    frames: VecDeque<u8>,
    /// Position of the first byte in `frames`.
    front: u32,
    /// Position of the first frame that has not been sent.
    unsent: u32,
    /// Bytes in the last packet that the unsent messages will fill.
    last_packet: u16,
    /// Number of the message at `unsent`.
    next_message: Number,
    /// The unsent messages travel like bulk data, because many had come together. This lasts until none is
    /// left.
    run: bool,
    jobs: VecDeque<Job>,
}

impl Queue {
    pub(super) const fn new() -> Self {
        let first = Number::FIRST;
        Self {
            frames: VecDeque::new(),
            front: 0,
            unsent: 0,
            last_packet: 0,
            next_message: first,
            run: false,
            jobs: VecDeque::new(),
        }
    }

    /// An empty queue with this as the next message.
    pub(super) fn resumed(next_message: Number) -> Self {
        Self { next_message, ..Self::new() }
    }

    /// The number of the next message that is sent.
    pub(super) const fn next_message(&self) -> Number {
        self.next_message
    }

    /// Takes a message; `max`: bytes of messages that a packet takes.
    #[inline]
    pub(super) fn submit_message(&mut self, head: &[u8], payload: &[u8], max: usize) {
        let length = head.len() + payload.len();
        let begun = max - self.room(max);
        let longer = begun + FRAME_PREFIX + length;
        // A packet is smaller than 2¹⁶ bytes.
        self.last_packet = if longer <= max { longer } else { FRAME_PREFIX + length } as u16;
        let prefix = u16::try_from(length).expect("a message fits a packet").to_le_bytes();
        self.frames.reserve(FRAME_PREFIX + length);
        self.frames.extend(prefix);
        self.frames.extend(head);
        self.frames.extend(payload);
    }

    pub(super) fn submit_data(&mut self, remote_key: u32, region: u32, range: Range<u64>) {
        if !range.is_empty() {
            let total = range.end - range.start;
            self.jobs.push_back(Job { remote_key, region, left: range, total });
        }
    }

    /// Bytes that are free in the last packet of the unsent messages; `max` if there is none.
    pub(super) fn room(&self, max: usize) -> usize {
        if self.has_unsent_messages() { max.saturating_sub(usize::from(self.last_packet)) } else { max }
    }

    /// Bytes of messages queued or not yet acknowledged.
    pub(super) fn bytes(&self) -> usize {
        self.frames.len()
    }

    /// The positions after all messages that are acknowledged, and after all that were submitted.
    pub(super) fn positions(&self) -> (u32, u32) {
        (self.front, self.front.wrapping_add(self.frames.len() as u32))
    }

    /// Returns whether there are bytes that have never been sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.has_unsent_messages() || self.has_unsent_data()
    }

    #[inline]
    pub(super) fn has_unsent_messages(&self) -> bool {
        self.unsent_bytes() > 0
    }

    /// Bytes of messages that have never been sent.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.frames.len() - self.index(self.unsent)
    }

    /// Returns whether the unsent messages are, or will be, a run.
    pub(super) fn is_run(&self, messages_max: usize) -> bool {
        self.run || self.unsent_bytes() > RUN_PACKETS * messages_max
    }

    pub(super) fn has_unsent_data(&self) -> bool {
        !self.jobs.is_empty()
    }

    fn index(&self, position: u32) -> usize {
        position.wrapping_sub(self.front) as usize
    }

    /// Bytes of the unsent messages that the next packet takes.
    pub(super) fn peek_messages(&self, max: usize) -> usize {
        self.fitting(max).0
    }

    /// Bytes of data that the next packet takes.
    pub(super) fn peek_data(&self, max: usize) -> Option<usize> {
        let left = &self.jobs.front()?.left;
        Some((left.end - left.start).min(max as u64) as usize)
    }

    /// The approximate number of packets that the unsent messages will fill.
    #[inline]
    pub(super) fn message_packets_left(&self, max: usize) -> usize {
        self.unsent_bytes().div_ceil(max)
    }

    /// The number of packets that the two oldest ranges of data will fill.
    pub(super) fn data_packets_left(&self, max: usize) -> usize {
        self.jobs.iter().take(2).map(|job| (job.left.end - job.left.start).div_ceil(max as u64) as usize).sum()
    }

    /// Bytes and number of the unsent messages that go into a packet: all that fit, and the first in any
    /// case. The first may be longer than a packet if packets have become smaller since it was submitted.
    fn fitting(&self, max: usize) -> (usize, u32) {
        let begin = self.index(self.unsent);
        let (mut length, mut messages) = (0, 0);
        while let (Some(&low), Some(&high)) = (self.frames.get(begin + length), self.frames.get(begin + length + 1)) {
            let longer = length + FRAME_PREFIX + usize::from(u16::from_le_bytes([low, high]));
            if longer > max && messages > 0 {
                break;
            }
            (length, messages) = (longer, messages + 1);
        }
        (length, messages)
    }

    /// Returns whether the first unsent message alone is longer than a packet that takes `max` bytes.
    #[inline(never)]
    pub(super) fn is_first_longer(&self, max: usize) -> bool {
        let at = self.index(self.unsent);
        let (Some(&low), Some(&high)) = (self.frames.get(at), self.frames.get(at + 1)) else { return false };
        FRAME_PREFIX + usize::from(u16::from_le_bytes([low, high])) > max
    }

    /// Takes all whole messages that fit into a packet. A long packet is sent again as packets of a run are.
    pub(super) fn next_messages(&mut self, max: usize, is_long: bool) -> Content {
        let (start, first, run) = (self.unsent, self.next_message, is_long || self.is_run(max));
        let (length, messages) = self.fitting(max);
        assert!(length > 0, "next_path says that there are messages");
        self.unsent = start.wrapping_add(length as u32);
        self.next_message = first.plus(messages);
        self.run = (if is_long { self.run } else { run }) && self.has_unsent_messages();
        Content::Messages { start, length: length as u16, first, run }
    }

    /// Takes the next piece of the oldest range.
    pub(super) fn next_data(&mut self, max: usize) -> Option<Content> {
        let job = self.jobs.front_mut()?;
        let offset = job.left.start;
        let length = (job.left.end - offset).min(max as u64);
        job.left.start += length;
        let (remote_key, region, is_over) = (job.remote_key, job.region, job.left.is_empty());
        let fills = is_over && (max as u64 - length) * FILLING_SHARE <= job.total;
        if is_over {
            self.jobs.pop_front();
        }
        let end = is_over && self.jobs.is_empty();
        Some(Content::Data { remote_key, region, offset, length: length as u16, end, fills })
    }

    /// The frames of a packet, in two pieces.
    #[inline]
    pub(super) fn frames(&self, start: u32, length: u16) -> (&[u8], &[u8]) {
        let begin = self.index(start);
        let end = begin + usize::from(length);
        let (low, high) = self.frames.as_slices();
        let split = low.len();
        (&low[begin.min(split)..end.min(split)], &high[begin.saturating_sub(split)..end.saturating_sub(split)])
    }

    /// Forgets the frames of the oldest packet, which has been acknowledged: they stand at the front.
    pub(super) fn forget(&mut self, content: &Content) {
        if let Content::Messages { length, .. } = *content {
            self.frames.drain(..usize::from(length));
            self.front = self.front.wrapping_add(u32::from(length));
        }
    }

    /// Gives back memory that is not in use.
    pub(super) fn shrink(&mut self) {
        if self.frames.is_empty() && self.frames.capacity() > KEPT_BYTES {
            self.frames = VecDeque::new();
        }
        if self.jobs.is_empty() {
            self.jobs = VecDeque::new();
        }
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        self.frames.capacity() + self.jobs.capacity() * size_of::<Job>()
    }
}
