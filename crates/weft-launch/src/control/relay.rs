//! Commands that an agent runs for `mpiexec` to reach further hosts. What passes through the standard streams
//! of such a command passes through the agent's own channel.

use super::codec::{Decode, Encode, Reader};
use crate::sys::Ended;

/// A message to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToCommand {
    /// Start it: these are its words. The first message, sent once.
    Start(Vec<String>),
    /// Bytes for its standard input.
    Input(Vec<u8>),
    /// Send this signal to it, and to all processes of its session that are in its process group.
    Signal(i32),
}

/// A message from a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromCommand {
    /// Bytes of its standard output.
    Output(Vec<u8>),
    /// Bytes of its standard error.
    Errors(Vec<u8>),
    /// Its standard output has ended.
    Closed,
    /// It could not be started: half a sentence with the reason. The last message.
    NotStarted(String),
    /// It has ended, and everything that it wrote was sent. The last message.
    Ended(Ended),
}

impl Encode for ToCommand {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Start(words) => (0u8, words).encode(out),
            Self::Input(bytes) => (1u8, bytes).encode(out),
            Self::Signal(signal) => (2u8, signal).encode(out),
        }
    }
}

impl Decode for ToCommand {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match u8::decode(reader)? {
            0 => Self::Start(Decode::decode(reader)?),
            1 => Self::Input(Decode::decode(reader)?),
            2 => Self::Signal(Decode::decode(reader)?),
            _ => return None,
        })
    }
}

impl Encode for FromCommand {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Output(bytes) => (0u8, bytes).encode(out),
            Self::Errors(bytes) => (1u8, bytes).encode(out),
            Self::Closed => 2u8.encode(out),
            Self::NotStarted(why) => (3u8, why).encode(out),
            Self::Ended(how) => (4u8, how).encode(out),
        }
    }
}

impl Decode for FromCommand {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match u8::decode(reader)? {
            0 => Self::Output(Decode::decode(reader)?),
            1 => Self::Errors(Decode::decode(reader)?),
            2 => Self::Closed,
            3 => Self::NotStarted(Decode::decode(reader)?),
            4 => Self::Ended(Decode::decode(reader)?),
            _ => return None,
        })
    }
}
