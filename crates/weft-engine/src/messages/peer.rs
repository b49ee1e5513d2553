//! What the message layer knows of a peer: its credit, and the message that is arriving from it in pieces.

use std::sync::Arc;

use super::{CREDIT_BYTES, OWN_STREAM, Stream};
use crate::memory::Writer;

/// Where the pieces of the fragmented message that is arriving from a peer go.
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

/// What the message layer knows of a peer.
pub struct Peer {
    /// Eager bytes that we may still send.
    pub credit: u64,
    /// Eager bytes consumed here that the peer has not been told of.
    pub(super) uncredited: u64,
    /// What its messages cost that are here and no receive has asked for: within its credit, or they are not
    /// kept.
    pub(super) kept: u64,
    /// It has been told that there is no room beyond its credit, since it last got some.
    pub(super) told_full: bool,
    /// It has said so, since it last gave some: small messages that there is no credit for are announced.
    pub is_full: bool,
    pub(super) arriving: Option<Arriving>,
    /// The same of its multicast streams.
    pub(super) arriving_on: Vec<(Stream, Arriving)>,
    /// Messages that have arrived from it, also those that nobody has asked for yet.
    pub(super) handled: u32,
    /// The message with this number has been written to its receive already: its announcement is still to
    /// come.
    pub(super) written: Option<u32>,
    /// Whether its announced data can be read from its memory.
    pub single_copy: bool,
    /// Whether it shares a link with others: what it announces is granted piece by piece.
    pub paced: bool,
    /// From so many bytes on its carrier writes what it announces to our memory by itself.
    pub placed_min: u64,
    /// Set when the peer is known to be gone.
    pub failed: Option<String>,
    /// Name of its host, for messages to people.
    pub host: Option<Arc<str>>,
    /// A probe has looked for a message of it in vain, since somebody asked.
    pub(super) probed: bool,
    /// How its largest messages are written to the program's memory.
    pub(super) writer: Writer,
    /// Bytes that it has been asked for, as a neighbour, and has not sent.
    pub(super) asked: u64,
}

impl Peer {
    /// Of one that has sent nothing and got nothing. `ticks`: see [`Writer::new`].
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
            failed: None,
            host: None,
            writer: Writer::beyond_caches(ticks),
            asked: 0,
            probed: false,
        }
    }

    /// The message that arrives in pieces on one of its streams.
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

    /// Nothing more comes on a multicast stream.
    pub(crate) fn end_stream(&mut self, stream: Stream) {
        self.set_arriving(stream, None);
    }

    /// Eager bytes of it that have been consumed here, and that it has not been told of.
    pub fn uncredited(&self) -> u64 {
        self.uncredited
    }

    /// Messages of it that have been handled.
    pub fn handled(&self) -> u32 {
        self.handled
    }
}
