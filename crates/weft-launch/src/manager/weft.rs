//! Weft's own `mpiexec`: PMI-1.1 with additional requests, of which one does the work of several.

use super::pmi1::{Conversation, escaped_card, unescaped_cards};
use super::{Names, Notice, Notices, Observer, ProcessManager, exit_aborted};
use crate::call_site::Board;
use crate::control::Loss;
use crate::loss::NOTICES_VARIABLE;
use crate::wire::{self, Line};
use crate::{JobSecret, LaunchError, SpawnProgram, Spawned, sys};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The connection, and the contents of the welcome.
pub(super) struct Weft {
    talk: Conversation,
    rank: u32,
    size: u32,
    appnum: Option<i32>,
    universe_size: Option<i32>,
    secret: Option<JobSecret>,
    locals: Vec<u32>,
    stats: bool,
    /// The port of the job that has spawned this one.
    parent_port: Option<String>,
    /// The board on which this process notes the call that it is in, and its entry there.
    board: Option<(Board, usize)>,
    /// The file in memory that the agent shares with the ranks of this host: the board, then the cards of the
    /// last exchange.
    shared: Option<File>,
    /// The pipe of notices, until they are taken.
    notices: Option<File>,
}

impl std::fmt::Debug for Weft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { talk, rank, size, secret, locals, stats, .. } = self;
        let mut out = f.debug_struct("Weft");
        out.field("talk", talk).field("rank", rank).field("size", size).field("secret", secret);
        out.field("locals", locals).field("stats", stats).finish_non_exhaustive()
    }
}

impl Weft {
    /// Asks for everything in one request. Plain PMI-1.1 needs four for less.
    ///
    /// # Errors
    /// The welcome lacks what a process needs, or `mpiexec` is gone.
    pub(super) fn meet(mut talk: Conversation, rank: u32, size: u32) -> Result<Self, LaunchError> {
        let reply = talk.ask("weft_hello", "cmd=weft_hello", "weft_welcome")?;
        let line = Line::parse(&reply);
        let bad = |what| LaunchError::Protocol(format!("the launcher's welcome has no usable {what}"));
        talk.job = line.get("kvsname").ok_or_else(|| bad("kvsname"))?.to_string();
        let locals = line.get("locals").and_then(|text| wire::parse_ranks(text, size));
        let shared = line.number("status_fd").and_then(|fd| sys::adopt(fd).ok());
        let board = match (&shared, line.number("slot"), line.number::<usize>("slots")) {
            (Some(file), Some(entry), Some(entries)) if entry < entries => {
                Board::map(file, entries).ok().map(|board| (board, entry))
            }
            _ => None,
        };
        if let Some((board, entry)) = &board {
            board.use_entry(*entry);
        }
        Ok(Self {
            talk,
            rank,
            size,
            appnum: line.number("appnum"),
            universe_size: line.number("universe_size"),
            secret: line.get("secret").and_then(JobSecret::from_hex),
            locals: locals.ok_or_else(|| bad("list of local ranks"))?,
            stats: line.get("stats") == Some("1"),
            parent_port: line.get("parent_port").and_then(wire::unescape),
            board,
            shared,
            notices: descriptor_of_notices().and_then(|fd| sys::adopt(fd).ok()),
        })
    }
}

/// The descriptor from which notices come, if the agent has given this process one.
fn descriptor_of_notices() -> Option<i32> {
    std::env::var(NOTICES_VARIABLE).ok()?.parse().ok()
}

impl Weft {
    fn tell_abort(&mut self, code: i32, message: &str) {
        let mut text = wire::escape(message);
        text.truncate(wire::CARD_MAX);
        self.talk.abort(&format!("cmd=abort exitcode={code} escaped={text}"));
    }

    /// Tells that the job ends, and waits until the other side has told all others: it ends the connection.
    pub(super) fn pass_abort_on(&mut self, code: i32, message: &str) {
        self.tell_abort(code, message);
        while self.talk.receive_bytes(1).is_ok() {}
    }
}

impl ProcessManager for Weft {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn appnum(&self) -> Option<i32> {
        self.appnum
    }

    fn universe_size(&self) -> Option<i32> {
        self.universe_size
    }

    fn job_name(&self) -> &str {
        &self.talk.job
    }

    fn secret(&self) -> Option<JobSecret> {
        self.secret
    }

    fn local_ranks(&mut self) -> Option<Vec<u32>> {
        Some(self.locals.clone())
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), LaunchError> {
        self.talk.put(key, value)
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, LaunchError> {
        self.talk.get(key)
    }

    fn fence(&mut self) -> Result<(), LaunchError> {
        self.talk.fence()
    }

    /// Exchanges cards in one round trip. Where the agent shares memory with this process, the reply only
    /// says where in it the cards are. The agent writes there again when all ranks of the host have asked
    /// again, so not while any of them still reads.
    fn exchange(&mut self, card: &str) -> Result<Vec<String>, LaunchError> {
        let escaped = escaped_card(card)?;
        let memory = u8::from(self.shared.is_some());
        let line = format!("cmd=weft_exchange memory={memory} value={escaped}");
        let reply = self.talk.ask("weft_exchange", &line, "weft_exchanged")?;
        let limit = self.size as usize * (wire::CARD_MAX + 1);
        let line = Line::parse(&reply);
        let length: usize = line.number("bytes").unwrap_or(usize::MAX);
        if length > limit {
            return Err(LaunchError::Protocol(format!("the launcher announced an exchange of {length} bytes")));
        }
        let body = match (&self.shared, line.number("at")) {
            (Some(file), Some(at)) => {
                let mut body = vec![0; length];
                file.read_exact_at(&mut body, at).map_err(|error| {
                    LaunchError::Connection(format!("the cards cannot be read from the launcher's memory: {error}"))
                })?;
                body
            }
            _ => self.talk.receive_bytes(length)?,
        };
        let body = String::from_utf8(body).map_err(|_| LaunchError::Protocol("an exchange is not text".into()))?;
        let cards: Vec<String> = body.lines().map(str::to_string).collect();
        if cards.len() != self.size as usize {
            return Err(LaunchError::Protocol(format!("an exchange brought {} cards of {}", cards.len(), self.size)));
        }
        unescaped_cards(&cards)
    }

    fn abort(&mut self, code: i32, message: &str) -> ! {
        self.tell_abort(code, message);
        exit_aborted(code)
    }

    fn finalize(&mut self) -> Result<(), LaunchError> {
        self.talk.finalize()
    }

    fn can_come_back(&self) -> bool {
        true
    }

    fn come_back(&mut self) -> Result<(), LaunchError> {
        self.talk.init().map(drop)
    }

    fn spawn(&mut self, programs: &[SpawnProgram], port: &str) -> Result<Spawned, LaunchError> {
        self.talk.spawn(programs, port, true)
    }

    fn spawned_end(&mut self, number: u32) -> Result<Option<String>, LaunchError> {
        self.talk.spawned_end(number)
    }

    fn tells_ends(&self) -> bool {
        true
    }

    fn parent_port(&mut self) -> Result<Option<String>, LaunchError> {
        Ok(self.parent_port.clone())
    }

    fn names(&mut self) -> Option<&mut dyn Names> {
        Some(&mut self.talk)
    }

    /// `mpiexec` gives a rank a pipe for notices where it goes on without others.
    fn notices(&mut self) -> Option<Notices> {
        let pipe = self.notices.take()?;
        Some(Notices::new(pipe, |record| {
            let (loss, rank) = Loss::parse(record)?;
            Some(Notice::Failed { rank, reason: loss.reason() })
        }))
    }

    fn observer(&mut self) -> Option<&mut dyn Observer> {
        Some(self)
    }
}

impl Observer for Weft {
    fn name_calls(&self, names: &[&str]) {
        if let Some((board, entry)) = &self.board {
            board.name_calls(*entry, names);
        }
    }

    fn wants_stats(&self) -> bool {
        self.stats
    }

    fn report_stats(&mut self, lines: &str) -> Result<(), LaunchError> {
        if lines.len() > wire::STATS_MAX {
            return Err(LaunchError::TooLong { what: "the statistics", length: lines.len(), limit: wire::STATS_MAX });
        }
        let line = format!("cmd=weft_stats bytes={}", lines.len());
        self.talk.ask_with_body("weft_stats", &line, lines.as_bytes(), "weft_stats_result").map(drop)
    }
}
