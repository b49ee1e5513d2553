//! What ranks ask of `mpiexec` beyond their own job: the service names and the spawned jobs of their family.

use super::codec::{self, Decode, Encode, Reader};
use crate::spawn::{Spawn, SpawnProgram, Spawned};

/// A question to the name service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameRequest {
    Publish { service: String, port: String },
    Lookup { service: String },
    Unpublish { service: String },
}

/// A request of a rank that the first `mpiexec` of a family serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Name(NameRequest),
    Spawn(Spawn),
    /// How has the spawned job of this number ended?
    SpawnedEnd(u32),
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// To a name request (`publish`, `lookup`, `unpublish`): the port (empty unless looked up), or the reason
    /// why not.
    Name {
        command: String,
        answer: Result<String, String>,
    },
    Spawned(Spawned),
    /// Half a sentence; `None`: the job runs.
    SpawnedEnd(Option<String>),
}

codec::structure!(SpawnProgram { command, arguments, processes, info });
codec::structure!(Spawn { programs, values, directory });

impl Encode for Spawned {
    fn encode(&self, out: &mut Vec<u8>) {
        let Self { number, outcomes } = self;
        let reasons = outcomes.iter().map(|outcome| outcome.as_ref().err().cloned());
        (number, reasons.collect::<Vec<_>>()).encode(out);
    }
}

impl Decode for Spawned {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (number, reasons) = <(u32, Vec<Option<String>>)>::decode(reader)?;
        Some(Self { number, outcomes: reasons.into_iter().map(|reason| reason.map_or(Ok(()), Err)).collect() })
    }
}

impl Encode for NameRequest {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Publish { service, port } => (0u8, service, port).encode(out),
            Self::Lookup { service } => (1u8, service).encode(out),
            Self::Unpublish { service } => (2u8, service).encode(out),
        }
    }
}

impl Decode for NameRequest {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (kind, service) = (u8::decode(reader)?, String::decode(reader)?);
        Some(match kind {
            0 => Self::Publish { service, port: Decode::decode(reader)? },
            1 => Self::Lookup { service },
            2 => Self::Unpublish { service },
            _ => return None,
        })
    }
}

impl Encode for Request {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Name(request) => (0u8, request).encode(out),
            Self::Spawn(spawn) => (1u8, spawn).encode(out),
            Self::SpawnedEnd(number) => (2u8, number).encode(out),
        }
    }
}

impl Decode for Request {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match u8::decode(reader)? {
            0 => Self::Name(Decode::decode(reader)?),
            1 => Self::Spawn(Decode::decode(reader)?),
            2 => Self::SpawnedEnd(Decode::decode(reader)?),
            _ => return None,
        })
    }
}

impl Encode for Answer {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Name { command, answer } => (0u8, command, answer).encode(out),
            Self::Spawned(spawned) => (1u8, spawned).encode(out),
            Self::SpawnedEnd(how) => (2u8, how).encode(out),
        }
    }
}

impl Decode for Answer {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match u8::decode(reader)? {
            0 => Self::Name { command: Decode::decode(reader)?, answer: Decode::decode(reader)? },
            1 => Self::Spawned(Decode::decode(reader)?),
            2 => Self::SpawnedEnd(Decode::decode(reader)?),
            _ => return None,
        })
    }
}
