//! The standard streams of `mpiexec`: output of ranks leaves in whole lines, input is read as ranks take it.

use crate::control::Stream;
use crate::sys::{self, Poll, READ, Ready, WRITE};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// The bytes that a pipe takes without blocking when it is ready, at least (PIPE_BUF).
const WRITE_PIPE: usize = 4096;
/// Bytes written to a file at once.
const WRITE_FILE: usize = 256 * 1024;
/// Bytes read from standard input at once.
const READ_BYTES: usize = 16 * 1024;

/// Bytes to be written, in whole lines.
struct Chunk {
    stream: usize,
    bytes: Vec<u8>,
    written: usize,
    /// The agent that the bytes came from, which waits for the report that they were written.
    agent: Option<usize>,
}

/// The two output streams of `mpiexec`.
pub(crate) struct Console {
    /// The files of the streams; `None` for a closed one.
    files: [Option<File>; 2],
    limits: [usize; 2],
    /// The two streams are the same file: their lines share the first queue and leave in order.
    same: bool,
    queues: [VecDeque<Chunk>; 2],
    /// The reason why standard output takes nothing any more.
    broken: Option<ErrorKind>,
}

impl Console {
    pub(crate) fn new() -> Self {
        let files = [1, 2].map(|stream| sys::duplicate_standard(stream).ok());
        let identity = |file: &Option<File>| file.as_ref()?.metadata().ok().map(|data| (data.dev(), data.ino()));
        let limits = [0, 1].map(|stream| write_limit(files[stream].as_ref()));
        let same = identity(&files[0]).is_some() && identity(&files[0]) == identity(&files[1]);
        Self { files, limits, same, queues: [VecDeque::new(), VecDeque::new()], broken: None }
    }

    /// Queues bytes that an agent sent, or a spawned job (`None`).
    pub(crate) fn queue_output(&mut self, agent: Option<usize>, stream: Stream, bytes: Vec<u8>) {
        self.queue(Chunk { stream: usize::from(stream == Stream::Error), bytes, written: 0, agent });
    }

    /// The bytes that were queued and have not been written whole.
    pub(crate) fn unsent(&self) -> usize {
        self.queues.iter().flatten().map(|chunk| chunk.bytes.len()).sum()
    }

    /// Queues a line of `mpiexec` for standard error, behind the lines of ranks.
    pub(crate) fn say(&mut self, text: &str) {
        self.queue_text(&format!("mpiexec: {text}\n"));
    }

    /// Queues text for standard error.
    pub(crate) fn queue_text(&mut self, text: &str) {
        self.queue(Chunk { stream: 1, bytes: text.as_bytes().to_vec(), written: 0, agent: None });
    }

    fn queue(&mut self, chunk: Chunk) {
        let queue = if self.same { 0 } else { chunk.stream };
        self.queues[queue].push_back(chunk);
    }

    /// Returns whether everything has left.
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Returns whether the next bytes in a queue are for a closed stream.
    fn is_for_nobody(&self, queue: usize) -> bool {
        self.queues[queue].front().is_some_and(|chunk| self.files[chunk.stream].is_none())
    }

    /// Returns whether there is work that needs no waiting.
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_for_nobody(0) || self.is_for_nobody(1)
    }

    /// The reason why standard output takes nothing any more. A broken pipe means that the reader has closed
    /// it.
    pub(crate) fn broken(&self) -> Option<ErrorKind> {
        self.broken
    }

    /// Adds the events that the console waits for.
    pub(crate) fn wait_in<'fd>(&'fd self, poll: &mut Poll<'fd>) -> [Option<usize>; 2] {
        [0, 1].map(|queue| {
            let chunk = self.queues[queue].front()?;
            Some(poll.add(self.files[chunk.stream].as_ref()?, WRITE))
        })
    }

    /// Writes where there is room. Returns the bytes that were written for agents: `(agent, bytes)`.
    pub(crate) fn handle(&mut self, ready: &Ready, entries: [Option<usize>; 2]) -> Vec<(usize, usize)> {
        let mut credits = Vec::new();
        for (queue, entry) in entries.into_iter().enumerate() {
            if entry.is_some_and(|entry| ready.has(entry)) {
                self.write(queue, &mut credits);
            }
            while self.is_for_nobody(queue) {
                self.write(queue, &mut credits);
            }
        }
        credits
    }

    fn write(&mut self, queue: usize, credits: &mut Vec<(usize, usize)>) {
        let Some(chunk) = self.queues[queue].front_mut() else { return };
        let rest = &chunk.bytes[chunk.written..];
        let rest = &rest[..rest.len().min(self.limits[chunk.stream])];
        let written = match self.files[chunk.stream].as_mut().map(|file| file.write(rest)) {
            Some(Ok(count)) => count,
            Some(Err(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Some(Err(error)) => {
                if chunk.stream == 0 {
                    self.broken = Some(error.kind());
                }
                self.files[chunk.stream] = None;
                rest.len()
            }
            None => rest.len(),
        };
        chunk.written += written;
        if chunk.written == chunk.bytes.len() {
            credits.extend(chunk.agent.map(|agent| (agent, chunk.bytes.len())));
            self.queues[queue].pop_front();
        }
    }
}

/// The bytes that may be written at once without the risk of waiting.
fn write_limit(file: Option<&File>) -> usize {
    let regular = file.and_then(|file| file.metadata().ok()).is_some_and(|data| {
        let kind = data.file_type();
        kind.is_file() || (kind.is_char_device() && !file.is_some_and(IsTerminal::is_terminal))
    });
    if regular { WRITE_FILE } else { WRITE_PIPE }
}

/// The reader of standard input for the agents.
pub(crate) struct Feeder {
    file: Option<File>,
    terminal: bool,
    /// Bytes read so far.
    pub(crate) sent: u64,
}

/// The result of a read.
pub(crate) enum Fed {
    Bytes(Vec<u8>),
    End,
    Nothing,
}

impl Feeder {
    /// Reads standard input if `wanted`.
    pub(crate) fn new(wanted: bool) -> Self {
        let file = if wanted { sys::duplicate_standard(0).ok() } else { None };
        let terminal = file.as_ref().is_some_and(IsTerminal::is_terminal);
        Self { file, terminal, sent: 0 }
    }

    /// Returns whether there is no standard input at all, so that ranks must be told the end.
    pub(crate) fn is_closed(&self) -> bool {
        self.file.is_none()
    }

    /// Returns whether the feeder must look again later. A background process that reads from its terminal is
    /// stopped, so it waits until it is in the foreground.
    pub(crate) fn must_look_again(&self) -> bool {
        self.terminal && self.file.as_ref().is_some_and(|file| !sys::is_foreground(file))
    }

    /// Adds the events that the feeder waits for.
    pub(crate) fn wait_in<'fd>(&'fd self, poll: &mut Poll<'fd>) -> Option<usize> {
        if self.must_look_again() {
            return None;
        }
        self.file.as_ref().map(|file| poll.add(file, READ))
    }

    /// Reads the input that is there.
    pub(crate) fn read(&mut self) -> Fed {
        let Some(file) = self.file.as_mut() else { return Fed::Nothing };
        let mut bytes = vec![0; READ_BYTES];
        match file.read(&mut bytes) {
            Ok(count) if count > 0 => {
                bytes.truncate(count);
                self.sent += count as u64;
                Fed::Bytes(bytes)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Fed::Nothing,
            _ => {
                self.file = None;
                Fed::End
            }
        }
    }
}
