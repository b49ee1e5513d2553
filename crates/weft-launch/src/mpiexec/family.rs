//! The messages between the first `mpiexec` of a family and the `mpiexec` of a spawned job, which it has
//! started, over a pair of sockets.
//!
//! The settings travel whole: a spawned job has those of the job that spawned it, but for what
//! `super::spawned` changes.

use super::environment::{Base, EnvironmentOptions};
use super::settings::{Block, Loudness, Processors, Settings};
use super::stats::Format;
use super::survey::JobSeen;
use super::tree::Width;
use crate::Spawned;
use crate::control::codec::{self, Decode, Encode, Reader};
use crate::control::{Answer, Request};
use crate::hosts::{Host, Order};
use crate::reach::RemoteShell;
use crate::spawn::Spawn;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

/// A job to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// Its number in the family.
    pub(crate) number: u32,
    /// What it inherits.
    pub(crate) settings: Settings,
    pub(crate) spawn: Spawn,
}

/// A message to the `mpiexec` of a spawned job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToSpawned {
    /// Start this job. The first message, sent once.
    Start(Box<Start>),
    /// The answer to a request of a rank.
    Answer { rank: u32, answer: Answer },
    /// Send this signal to all ranks.
    Signal(i32),
    /// Say where the ranks are.
    Look,
    /// End the job: first with a signal, after the grace by force.
    End { signal: i32, grace_ms: u32 },
}

/// A message from the `mpiexec` of a spawned job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromSpawned {
    /// What has become of the wanted processes. Sent once.
    Outcome(Spawned),
    /// A request of a rank, and where it spawns, the settings of the spawned job.
    Request { rank: u32, request: Request, settings: Option<Box<Settings>> },
    /// The job has failed and is being ended: the exit status, and the reason in one clause.
    Failed { status: i32, clause: String },
    /// The answer to [`ToSpawned::Look`].
    Standings(JobSeen),
    /// The job is over, with this exit status. The last message.
    Ended { status: i32 },
}

impl ToSpawned {
    /// Writes the message as a frame's content.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Start(start) => (0u8, start).encode(out),
            Self::Answer { rank, answer } => (1u8, rank, answer).encode(out),
            Self::Signal(signal) => (2u8, signal).encode(out),
            Self::Look => 3u8.encode(out),
            Self::End { signal, grace_ms } => (4u8, signal, grace_ms).encode(out),
        }
    }

    /// Reads the message in a frame; `None` when it is no valid message.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let reader = &mut reader;
        let message = match u8::decode(reader)? {
            0 => Self::Start(Decode::decode(reader)?),
            1 => Self::Answer { rank: Decode::decode(reader)?, answer: Decode::decode(reader)? },
            2 => Self::Signal(Decode::decode(reader)?),
            3 => Self::Look,
            4 => Self::End { signal: Decode::decode(reader)?, grace_ms: Decode::decode(reader)? },
            _ => return None,
        };
        reader.is_empty().then_some(message)
    }
}

impl FromSpawned {
    /// Writes the message as a frame's content.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Outcome(spawned) => (0u8, spawned).encode(out),
            Self::Request { rank, request, settings } => (1u8, rank, request, settings).encode(out),
            Self::Failed { status, clause } => (2u8, status, clause).encode(out),
            Self::Ended { status } => (3u8, status).encode(out),
            Self::Standings(seen) => (4u8, seen).encode(out),
        }
    }

    /// Reads the message in a frame; `None` when it is no valid message.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let reader = &mut reader;
        let message = match u8::decode(reader)? {
            0 => Self::Outcome(Decode::decode(reader)?),
            1 => Self::Request {
                rank: Decode::decode(reader)?,
                request: Decode::decode(reader)?,
                settings: Decode::decode(reader)?,
            },
            2 => Self::Failed { status: Decode::decode(reader)?, clause: Decode::decode(reader)? },
            3 => Self::Ended { status: Decode::decode(reader)? },
            4 => Self::Standings(Decode::decode(reader)?),
            _ => return None,
        };
        reader.is_empty().then_some(message)
    }
}

codec::enumeration!(Order { BySlot, ByHost });
codec::enumeration!(Loudness { Everybody, Verbose });
codec::enumeration!(Format { Text, Json });
codec::structure!(Start { number, settings, spawn });
codec::structure!(JobSeen { living, ended, hosts, missing });
codec::structure!(Host { name, slots, slots_max, interface, reached_as });
codec::structure!(RemoteShell { program, arguments });
codec::structure!(EnvironmentOptions { base, set });
codec::structure!(Block { count, words, environment, directory, search_path, hosts });
codec::structure!(Processors { to, implied, by, each, report });
codec::structure!(Settings {
    blocks,
    hosts,
    ranks_per_host,
    order,
    binding,
    oversubscribe,
    labels,
    merge,
    input,
    keep_others,
    time_limit,
    agent,
    remote_shell,
    agent_program,
    agent_timeout,
    tree_width,
    host_timeout,
    heartbeat,
    print_rank_map,
    stats,
    universe,
    spawned,
    directory,
    values,
    faces,
    verbose,
    quiet,
    notes,
});

impl Encode for OsString {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_bytes().to_vec().encode(out);
    }
}

impl Decode for OsString {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self::from_vec(Decode::decode(reader)?))
    }
}

/// Times of settings are whole nanoseconds below a few years.
impl Encode for Duration {
    fn encode(&self, out: &mut Vec<u8>) {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX).encode(out);
    }
}

impl Decode for Duration {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        u64::decode(reader).map(Self::from_nanos)
    }
}

impl Encode for Base {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::All => 0u8.encode(out),
            Self::None => 1u8.encode(out),
            Self::List(names) => (2u8, names).encode(out),
        }
    }
}

impl Decode for Base {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match u8::decode(reader)? {
            0 => Self::All,
            1 => Self::None,
            2 => Self::List(Decode::decode(reader)?),
            _ => return None,
        })
    }
}

impl Encode for Width {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Auto => 0u8.encode(out),
            Self::Direct => 1u8.encode(out),
            Self::Of(width) => (2u8, *width as u64).encode(out),
        }
    }
}

impl Decode for Width {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match u8::decode(reader)? {
            0 => Self::Auto,
            1 => Self::Direct,
            2 => Self::Of(usize::try_from(u64::decode(reader)?).ok()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let mut host = Host::new("h0", Some(2));
        (host.slots_max, host.reached_as, host.interface) = (Some(4), Some("me@h0".into()), Some("eth1".into()));
        let mut block = Block::new();
        block.words = vec!["a".into(), OsString::from_vec(vec![0xff])];
        block.environment =
            EnvironmentOptions { base: Base::List(vec!["A".into()]), set: vec![("B".into(), "".into())] };
        block.hosts = vec![host.clone()];
        let mut settings = Settings::new();
        (settings.blocks, settings.hosts) = (vec![block], vec![host]);
        (settings.order, settings.tree_width) = (Order::ByHost, Width::Of(3));
        (settings.time_limit, settings.stats) = (Some(Duration::from_millis(1500)), Some(Format::Json));
        settings.notes = vec![(Loudness::Verbose, "a note".into())];
        settings
    }

    #[test]
    fn messages_come_back_and_pieces_of_them_are_refused() {
        let spawn = Spawn { directory: "/".into(), ..Spawn::default() };
        let answer = Answer::SpawnedEnd(None);
        for message in [
            ToSpawned::Start(Box::new(Start { number: 3, settings: settings(), spawn })),
            ToSpawned::Answer { rank: 1, answer },
            ToSpawned::Signal(10),
            ToSpawned::Look,
            ToSpawned::End { signal: 15, grace_ms: 100 },
        ] {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(ToSpawned::decode(&bytes), Some(message));
            assert_eq!(ToSpawned::decode(&bytes[..bytes.len() - 1]), None);
        }
        for message in [
            FromSpawned::Outcome(Spawned { number: 3, outcomes: vec![Ok(()), Err("no".into())] }),
            FromSpawned::Request { rank: 0, request: Request::SpawnedEnd(1), settings: Some(Box::new(settings())) },
            FromSpawned::Failed { status: 3, clause: "rank 0 died".into() },
            FromSpawned::Ended { status: 0 },
        ] {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(FromSpawned::decode(&bytes), Some(message));
            assert_eq!(FromSpawned::decode(&bytes[..bytes.len() - 1]), None);
        }
    }
}
