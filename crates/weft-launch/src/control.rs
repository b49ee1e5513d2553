//! The messages between `mpiexec` and its agents (one per host).
//!
//! A frame is a length (4 bytes, little-endian), then the message: its kind in one byte and its fields. The
//! agent speaks first, with one line of text ([`GREETING`]), because a remote shell may print other text
//! before it.

mod channel;
pub(crate) mod codec;
mod family;
mod heartbeat;
mod relay;
mod watch;

pub(crate) use channel::{Channel, State};
pub(crate) use family::{Answer, NameRequest, Request};
pub(crate) use heartbeat::{FromMember, Heartbeat, Listener, ToMember};
pub(crate) use relay::{FromCommand, ToCommand};
pub(crate) use watch::Watch;

use crate::JobSecret;
use crate::call_site::Whereabouts;
use crate::faces::Faces;
use crate::spawn::{PROCESSES_MAX, REASON_BYTES_MAX};
use crate::standing::Standing;
use crate::sys::Ended;
use codec::{Decode, Encode, Reader};

/// Version of the messages; both sides must have the same.
pub(crate) const VERSION: u32 = 8;
/// The beginning of an agent's greeting. The version, a blank, the name of the agent's machine
/// ([`crate::processors::machine`]) and a newline follow.
pub(crate) const GREETING: &str = "WEFT-AGENT ";
/// The longest frame, in bytes: an exchange of thousands of ranks fits.
pub(crate) const FRAME_MAX: usize = 64 * 1024 * 1024;
/// The outcomes of a spawn fit into a frame, each with its length and a byte beside the reason.
const _: () = assert!(PROCESSES_MAX as usize * (REASON_BYTES_MAX + 8) < FRAME_MAX / 2);
/// The bytes of output that an agent may have sent without a report that they were written.
pub(crate) const OUTPUT_WINDOW: usize = 256 * 1024;
/// The bytes of input that `mpiexec` may have sent without a report that a rank took them.
pub(crate) const INPUT_WINDOW: usize = 64 * 1024;

/// The label in front of a rank's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    /// No label.
    None,
    /// `[rank] `, and `[job:rank] ` in a spawned job.
    Rank,
    /// `[rank on host] `.
    RankAndHost,
}

/// The ranks that get what `mpiexec` reads from its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputTo {
    /// No rank: all of them see the end of the file.
    Nobody,
    /// The rank with this number.
    Rank(u32),
    /// Every rank gets everything.
    Everybody,
}

/// The stream that an output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Error,
}

/// The unit that a rank is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BindTo {
    /// All processors that its agent may use.
    None,
    /// Hardware threads.
    Thread,
    Core,
    Socket,
    Numa,
}

/// The order in which the ranks of a host are dealt to its processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapBy {
    /// The next processor.
    Slot,
    /// The next processor of the next socket.
    Socket,
    /// The next processor of the next memory node.
    Numa,
}

/// The processors that ranks get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) to: BindTo,
    pub(crate) by: MapBy,
    /// The cores (or threads) for each rank.
    pub(crate) each: u32,
    /// Reports the binding of each rank.
    pub(crate) report: bool,
    /// The ranks of the job on the machine of this host: virtual hosts share processors.
    pub(crate) machine_ranks: u32,
}

/// A program of the command line, as one host has to start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// The place on the command line, `MPI_APPNUM`.
    pub(crate) number: u32,
    /// The words; the first names the program.
    pub(crate) words: Vec<Vec<u8>>,
    /// The agent's own environment is the base.
    pub(crate) inherit: bool,
    /// Variables that are added to the base.
    pub(crate) variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// The working directory; empty: the agent's own.
    pub(crate) directory: Vec<u8>,
    /// The user has named the directory, so it must exist.
    pub(crate) directory_required: bool,
    /// Directories that are searched for the program before those of PATH, with colons between.
    pub(crate) search_path: Vec<u8>,
    /// Where the libraries for programs of other MPIs are found.
    pub(crate) faces: Faces,
}

/// The facts that an agent needs to start its ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The name of the job and of its key-value space.
    pub(crate) job: String,
    /// The secret that only the processes of the job know.
    pub(crate) secret: JobSecret,
    /// Ranks of the whole job.
    pub(crate) size: u32,
    /// `MPI_UNIVERSE_SIZE`.
    pub(crate) universe: u32,
    /// The number of the job in its family of jobs; 0: the first job, which was not spawned.
    pub(crate) spawned: u32,
    /// Keys and values that the job's processes find from the start.
    pub(crate) values: Vec<(String, String)>,
    /// The host's name on the command line.
    pub(crate) host: String,
    /// `PMI_process_mapping`, empty when it is too long to be stored.
    pub(crate) mapping: String,
    /// Ranks shall report statistics.
    pub(crate) stats: bool,
    /// The other ranks go on when a rank is lost, and are told.
    pub(crate) goes_on: bool,
    pub(crate) label: Label,
    pub(crate) input: InputTo,
    /// Standard error goes where standard output goes.
    pub(crate) merge: bool,
    pub(crate) binding: Binding,
    /// The longest silence of `mpiexec` after which the agent ends its ranks, in milliseconds; 0: no limit.
    pub(crate) patience_ms: u64,
    /// The part of this host in the heartbeats, where they are asked for.
    pub(crate) heartbeat: Option<Heartbeat>,
    pub(crate) programs: Vec<Program>,
    /// The ranks of this host in order, each with the index of its program.
    pub(crate) ranks: Vec<(u32, u32)>,
}

/// The contributions of all ranks to a barrier or an exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gathered {
    /// Keys and values that were put since the last barrier or exchange.
    pub(crate) puts: Vec<(String, String)>,
    /// The cards by rank, in an exchange.
    pub(crate) cards: Vec<(u32, String)>,
}

/// A message from `mpiexec` to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Start these ranks. The first order, sent once.
    Launch(Plan),
    /// Standard input for the ranks that get it.
    Input(Vec<u8>),
    /// Standard input has ended.
    InputEnd,
    /// A number of bytes of output has been written; as many more may be sent.
    Credit(u32),
    /// All ranks of the job have arrived: everything that they brought.
    Gathered(Gathered),
    /// The answer to a rank's request.
    Answer { rank: u32, answer: Answer },
    /// Send this signal to all ranks.
    Signal(i32),
    /// End all ranks: first with a signal, after the grace by force. The rank `spare` ends by itself and is
    /// only forced.
    End { signal: i32, grace_ms: u32, spare: Option<u32> },
    /// Report where every rank is.
    Where,
    /// Give a sign of life.
    Ping,
    /// A message to a command that reaches another host. The agent has at most one command of each number.
    Relay { command: u32, message: ToCommand },
    /// This rank of another host is lost; the ranks go on without it.
    Lost { rank: u32, loss: Loss },
    /// A word about heartbeats.
    Heartbeat(ToMember),
}

/// The progress of a rank with PMI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The rank has not said a word: it is no MPI program, or before `MPI_Init`.
    Silent,
    /// The rank has joined the job.
    Joined,
    /// The rank waits for the other ranks in a barrier or exchange of the process manager.
    Waiting,
    /// The rank has said goodbye.
    Finalized,
}

/// The end of a rank that leaves the others without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A signal ended it.
    Signal,
    /// It exited with a status that is not 0.
    Status,
    /// It exited with status 0 and without `MPI_Finalize`.
    Unfinalized,
    /// Its host or its agent is lost.
    Host,
}

/// The place of one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) rank: u32,
    pub(crate) phase: Phase,
    pub(crate) whereabouts: Whereabouts,
}

/// A message from an agent to `mpiexec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// Whole lines (or the rest of a stream).
    Output { stream: Stream, bytes: Vec<u8> },
    /// The bytes of input since the start that the slowest rank with input has taken.
    InputTaken(u64),
    /// All ranks of this host have arrived at a barrier or exchange.
    Gathered { exchange: bool, gathered: Gathered },
    /// A rank's request to the first `mpiexec` of its family.
    Request { rank: u32, request: Request },
    /// A rank called `MPI_Abort`.
    Abort { rank: u32, code: i32, message: String },
    /// A rank could not be started.
    NotStarted { rank: u32, status: i32, reason: String },
    /// A rank is lost: it ends, and the system has not closed all its files yet. [`Report::Ended`] follows.
    Dying { rank: u32, loss: Loss },
    /// A rank has ended.
    Ended { position: Position, ended: Ended },
    /// A rank said something that is not PMI-1.1.
    Violation { rank: u32, text: String },
    /// The answer to [`Order::Where`]: the ranks that live, and their states if they publish them.
    Where(Vec<(Position, Option<Standing>)>),
    /// A rank's statistics.
    Stats { text: String },
    /// A note for the user.
    Note(String),
    /// All ranks of this host run: each rank, and the number of its process.
    Started(Vec<(u32, i32)>),
    /// Each rank and the processors it got, in words.
    Bindings(Vec<(u32, String)>),
    /// A sign of life.
    Pong,
    /// A message from a command that reaches another host.
    Relay { command: u32, message: FromCommand },
    /// All ranks have ended and all their output was sent. The last report.
    Done,
    /// A word about heartbeats.
    Heartbeat(FromMember),
}

impl Plan {
    /// Returns whether every rank has its program.
    fn is_sound(&self) -> bool {
        self.ranks.iter().all(|&(_, program)| (program as usize) < self.programs.len())
    }
}

impl Order {
    /// Writes the message as a frame's content.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Launch(plan) => (0u8, plan).encode(out),
            Self::Input(bytes) => (1u8, bytes).encode(out),
            Self::InputEnd => 2u8.encode(out),
            Self::Credit(bytes) => (3u8, bytes).encode(out),
            Self::Gathered(gathered) => (4u8, gathered).encode(out),
            Self::Answer { rank, answer } => (5u8, rank, answer).encode(out),
            Self::Signal(signal) => (6u8, signal).encode(out),
            Self::End { signal, grace_ms, spare } => (7u8, signal, grace_ms, spare).encode(out),
            Self::Where => 8u8.encode(out),
            Self::Ping => 9u8.encode(out),
            Self::Relay { command, message } => (10u8, command, message).encode(out),
            Self::Lost { rank, loss } => (11u8, rank, loss).encode(out),
            Self::Heartbeat(word) => (12u8, word).encode(out),
        }
    }

    /// Reads the message in a frame; `None` when it is no valid message.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let order = match u8::decode(&mut reader)? {
            0 => Self::Launch(Plan::decode(&mut reader).filter(Plan::is_sound)?),
            1 => Self::Input(Decode::decode(&mut reader)?),
            2 => Self::InputEnd,
            3 => Self::Credit(Decode::decode(&mut reader)?),
            4 => Self::Gathered(Gathered::decode(&mut reader)?),
            5 => Self::Answer { rank: Decode::decode(&mut reader)?, answer: Decode::decode(&mut reader)? },
            6 => Self::Signal(Decode::decode(&mut reader)?),
            7 => Self::End {
                signal: Decode::decode(&mut reader)?,
                grace_ms: Decode::decode(&mut reader)?,
                spare: Decode::decode(&mut reader)?,
            },
            8 => Self::Where,
            9 => Self::Ping,
            10 => Self::Relay { command: Decode::decode(&mut reader)?, message: Decode::decode(&mut reader)? },
            11 => Self::Lost { rank: Decode::decode(&mut reader)?, loss: Decode::decode(&mut reader)? },
            12 => Self::Heartbeat(Decode::decode(&mut reader)?),
            _ => return None,
        };
        reader.is_empty().then_some(order)
    }
}

impl Report {
    /// Writes the message as a frame's content.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Output { stream, bytes } => (0u8, stream, bytes).encode(out),
            Self::InputTaken(total) => (1u8, total).encode(out),
            Self::Gathered { exchange, gathered } => (2u8, exchange, gathered).encode(out),
            Self::Request { rank, request } => (3u8, rank, request).encode(out),
            Self::Abort { rank, code, message } => (4u8, rank, code, message).encode(out),
            Self::NotStarted { rank, status, reason } => (5u8, rank, status, reason).encode(out),
            Self::Ended { position, ended } => (6u8, position, ended).encode(out),
            Self::Violation { rank, text } => (7u8, rank, text).encode(out),
            Self::Where(positions) => (8u8, positions).encode(out),
            Self::Stats { text } => (9u8, text).encode(out),
            Self::Note(text) => (10u8, text).encode(out),
            Self::Done => 11u8.encode(out),
            Self::Bindings(ranks) => (12u8, ranks).encode(out),
            Self::Pong => 13u8.encode(out),
            Self::Started(ranks) => (14u8, ranks).encode(out),
            Self::Relay { command, message } => (15u8, command, message).encode(out),
            Self::Heartbeat(word) => (16u8, word).encode(out),
            Self::Dying { rank, loss } => (17u8, rank, loss).encode(out),
        }
    }

    /// Reads the message in a frame; `None` when it is no valid message.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let reader = &mut reader;
        let report = match u8::decode(reader)? {
            0 => Self::Output { stream: Decode::decode(reader)?, bytes: Decode::decode(reader)? },
            1 => Self::InputTaken(Decode::decode(reader)?),
            2 => Self::Gathered { exchange: Decode::decode(reader)?, gathered: Decode::decode(reader)? },
            3 => Self::Request { rank: Decode::decode(reader)?, request: Decode::decode(reader)? },
            4 => Self::Abort {
                rank: Decode::decode(reader)?,
                code: Decode::decode(reader)?,
                message: Decode::decode(reader)?,
            },
            5 => Self::NotStarted {
                rank: Decode::decode(reader)?,
                status: Decode::decode(reader)?,
                reason: Decode::decode(reader)?,
            },
            6 => Self::Ended { position: Decode::decode(reader)?, ended: Decode::decode(reader)? },
            7 => Self::Violation { rank: Decode::decode(reader)?, text: Decode::decode(reader)? },
            8 => Self::Where(Decode::decode(reader)?),
            9 => Self::Stats { text: Decode::decode(reader)? },
            10 => Self::Note(Decode::decode(reader)?),
            11 => Self::Done,
            12 => Self::Bindings(Decode::decode(reader)?),
            13 => Self::Pong,
            14 => Self::Started(Decode::decode(reader)?),
            15 => Self::Relay { command: Decode::decode(reader)?, message: Decode::decode(reader)? },
            16 => Self::Heartbeat(Decode::decode(reader)?),
            17 => Self::Dying { rank: Decode::decode(reader)?, loss: Decode::decode(reader)? },
            _ => return None,
        };
        reader.is_empty().then_some(report)
    }
}

codec::enumeration!(Loss { Signal, Status, Unfinalized, Host });
codec::enumeration!(Label { None, Rank, RankAndHost });
codec::enumeration!(Stream { Output, Error });
codec::enumeration!(Phase { Silent, Joined, Waiting, Finalized });
codec::enumeration!(BindTo { None, Thread, Core, Socket, Numa });
codec::enumeration!(MapBy { Slot, Socket, Numa });
codec::enumeration!(Faces { Last, First, None });
codec::structure!(Binding { to, by, each, report, machine_ranks });
codec::structure!(Program { number, words, inherit, variables, directory, directory_required, search_path, faces });
codec::structure!(Plan {
    job,
    secret,
    size,
    universe,
    spawned,
    values,
    host,
    mapping,
    stats,
    goes_on,
    label,
    input,
    merge,
    binding,
    patience_ms,
    heartbeat,
    programs,
    ranks
});
codec::structure!(Gathered { puts, cards });
codec::structure!(Position { rank, phase, whereabouts });

/// The time at which a standing is written and read again here. A standing tells only how long ago its times
/// were.
const STANDING_TIME: u64 = 1 << 62;

impl Encode for Standing {
    fn encode(&self, out: &mut Vec<u8>) {
        self.words(STANDING_TIME).encode(out);
    }
}

impl Decode for Standing {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Self::parse(&Vec::<u64>::decode(reader)?, STANDING_TIME).ok()
    }
}

impl Encode for InputTo {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nobody => (0u8, 0u32).encode(out),
            Self::Rank(rank) => (1u8, rank).encode(out),
            Self::Everybody => (2u8, 0u32).encode(out),
        }
    }
}

impl Decode for InputTo {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (kind, rank) = (u8::decode(reader)?, u32::decode(reader)?);
        Some(match kind {
            0 => Self::Nobody,
            1 => Self::Rank(rank),
            2 => Self::Everybody,
            _ => return None,
        })
    }
}

impl Encode for Whereabouts {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Unknown => 0u8.encode(out),
            Self::Outside => 1u8.encode(out),
            Self::Inside(name) => (2u8, name).encode(out),
        }
    }
}

impl Decode for Whereabouts {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match u8::decode(reader)? {
            0 => Self::Unknown,
            1 => Self::Outside,
            2 => Self::Inside(Decode::decode(reader)?),
            _ => return None,
        })
    }
}

impl Encode for Ended {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Exit(status) => (false, status).encode(out),
            Self::Signal(signal) => (true, signal).encode(out),
        }
    }
}

impl Decode for Ended {
    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let (signal, number) = (bool::decode(reader)?, i32::decode(reader)?);
        Some(if signal { Self::Signal(number) } else { Self::Exit(number) })
    }
}

#[cfg(test)]
mod tests;
