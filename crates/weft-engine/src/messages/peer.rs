//! The message layer's part of a peer: its credit, and the message that is arriving from it in pieces.

use std::sync::Arc;

use weft_core::rendezvous_schemes::SchemeChoice;

use super::{CREDIT_BYTES, OWN_STREAM, Stream};
use crate::memory::{Reader, UserData, Writer};

/// The destination of the pieces of a fragmented message that is arriving from a peer.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Request(usize),
    Unexpected(usize),
}

#[derive(Clone, Copy)]
pub(super) struct Arriving {
    pub(super) target: Target,
    pub(super) total: u64,
    pub(super) received: u64,
}

/// The message layer's record of a peer.
pub struct Peer {
    /// Eager bytes that this process may still send.
    pub credit: u64,
    /// Eager bytes consumed here whose credit has not been given back yet.
    pub(super) uncredited: u64,
    /// The cost of the peer's unexpected messages that are kept within its credit; others are not kept.
    pub(super) kept: u64,
    /// Set when the peer has been told that there is no room beyond its credit, since it last got some.
    pub(super) told_full: bool,
    /// Set when the peer has said that it has no room beyond the credit, since it last gave some: small
    /// messages without credit are announced.
    pub is_full: bool,
    pub(super) arriving: Option<Arriving>,
    /// The messages that are arriving in pieces on multicast streams of the peer.
    pub(super) arriving_on: Vec<(Stream, Arriving)>,
    /// The number of messages that have arrived from the peer, unexpected ones included.
    pub(super) handled: u32,
    /// The number of a message that the peer has written to its receive, and whose announcement has not been
    /// handled. The peer has written each earlier message as well whose announcement has not been handled.
    pub(super) written: Option<u32>,
    /// Set when announced data can be read from the peer's memory.
    pub single_copy: bool,
    /// Set when the peer shares a link with others: its announced messages are granted piece by piece.
    pub paced: bool,
    /// The size in bytes from which on the peer's carrier writes an announced message to our memory by
    /// itself.
    pub placed_min: u64,
    /// The choice of what brings the peer's announced messages, once there has been one
    /// ([`Self::has_choice`]).
    pub schemes: Option<Box<SchemeChoice>>,
    /// The reason why the peer is gone, once that is known.
    pub failed: Option<String>,
    /// The name of the peer's host, for messages to people.
    pub host: Option<Arc<str>>,
    /// Set when a probe has looked for a message of this peer in vain, since the last time that this was
    /// asked.
    pub(super) probed: bool,
    /// The reader of whole eager messages of the peer, as a neighbour.
    pub(super) reader: Reader,
    /// The writer that puts the peer's largest messages into the program's memory.
    pub(super) writer: Writer,
    /// Bytes that this process has asked of the peer, as a neighbour, and that have not come.
    pub(super) asked: u64,
}

impl Peer {
    /// Makes the record of a peer that has sent nothing and got nothing. For `ticks` see [`Writer::new`].
    pub fn new(ticks: fn() -> u64) -> Self {
        Self {
            credit: CREDIT_BYTES,
            uncredited: 0,
            kept: 0,
            told_full: false,
            is_full: false,
            arriving: None,
            arriving_on: Vec::new(),
            handled: 0,
            written: None,
            single_copy: false,
            paced: false,
            placed_min: u64::MAX,
            schemes: None,
            failed: None,
            host: None,
            reader: Reader::new(ticks),
            writer: Writer::beyond_caches(ticks),
            asked: 0,
            probed: false,
        }
    }

    /// Returns whether both packets and the peer's carrier can bring its announced messages.
    pub fn has_choice(&self) -> bool {
        self.paced && self.placed_min < u64::MAX
    }

    /// Returns whether the peer's carrier can bring an announced message of this size to this memory.
    pub(super) fn may_place(&self, bytes: u64, data: &UserData) -> bool {
        bytes >= self.placed_min && data.address().is_some()
    }

    /// The message that is arriving in pieces on one of the peer's streams.
    pub(super) fn arriving(&self, stream: Stream) -> Option<Arriving> {
        if stream == OWN_STREAM {
            return self.arriving;
        }
        self.arriving_on.iter().find(|(on, _)| *on == stream).map(|(_, arriving)| *arriving)
    }

    pub(super) fn set_arriving(&mut self, stream: Stream, arriving: Option<Arriving>) {
        if stream == OWN_STREAM {
            self.arriving = arriving;
            return;
        }
        self.arriving_on.retain(|(on, _)| *on != stream);
        self.arriving_on.extend(arriving.map(|arriving| (stream, arriving)));
    }

    /// Ends a multicast stream: nothing more comes on it.
    pub(crate) fn end_stream(&mut self, stream: Stream) {
        self.set_arriving(stream, None);
    }

    /// Eager bytes of the peer that have been consumed here and whose credit has not been given back yet.
    pub fn uncredited(&self) -> u64 {
        self.uncredited
    }

    /// The number of messages of the peer that have been handled.
    pub fn handled(&self) -> u32 {
        self.handled
    }
}
