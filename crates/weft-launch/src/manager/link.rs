//! A rank's connection to its launcher: lines out, lines in.

use crate::wire;
use crate::{LaunchError, sys};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

/// The most lines that a launcher may say before it has told rank and size (Hydra says three or four).
const GREETING_LINES_MAX: usize = 16;

/// Bytes read at once when a line is awaited.
const CHUNK_LINE: usize = 4 * 1024;
/// The most bytes read at once.
const CHUNK_MAX: usize = 256 * 1024;

/// The connection. Reads are buffered; each request is written with one system call.
pub(crate) struct Link {
    stream: File,
    buffer: Vec<u8>,
    /// The start of the bytes that were not handed out yet.
    start: usize,
}

/// Shows no bytes, because what was received may hold the job's secret.
impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("stream", &self.stream).field("unread", &(self.buffer.len() - self.start)).finish()
    }
}

impl Link {
    /// Takes over the descriptor that the launcher left open.
    pub(crate) fn inherit(fd: i32) -> Result<Self, LaunchError> {
        let stream = sys::adopt(fd).map_err(|error| {
            LaunchError::Environment(format!(
                "PMI_FD={fd} names no usable descriptor ({error}): this program seems to be started by a rank of \
                 another job; unset PMI_FD to run it on its own"
            ))
        })?;
        Ok(Self::over(stream))
    }

    /// Connects to a launcher that listens at `address` (`host:port`), which then tells rank and size.
    pub(crate) fn connect(address: &str, id: &str) -> Result<(Self, u32, u32), LaunchError> {
        let stream = TcpStream::connect(address).map_err(|error| {
            LaunchError::Connection(format!("PMI_PORT={address} cannot be reached: {}", sys::reason(&error)))
        })?;
        // Requests are short and answered at once. If the option cannot be set, that only costs time.
        let _ = stream.set_nodelay(true);
        let mut link = Self::over(File::from(OwnedFd::from(stream)));
        link.send(&format!("cmd=initack pmiid={id}"))?;
        let (mut rank, mut size) = (None, None);
        for _ in 0..GREETING_LINES_MAX {
            let text = link.receive()?;
            let line = wire::Line::parse(&text);
            rank = line.number("rank").or(rank);
            size = line.number("size").or(size);
            // Hydra ends its greeting with the line on debugging.
            if line.command() == "set" && line.get("debug").is_some() {
                break;
            }
        }
        match (rank, size) {
            (Some(rank), Some(size)) if rank < size => Ok((link, rank, size)),
            _ => Err(LaunchError::Protocol(format!("the launcher at {address} tells no rank and size"))),
        }
    }

    pub(super) fn over(stream: File) -> Self {
        Self { stream, buffer: Vec::new(), start: 0 }
    }

    /// Sends one line; the newline is added here.
    pub(crate) fn send(&mut self, line: &str) -> Result<(), LaunchError> {
        self.send_with_body(line, b"")
    }

    /// Sends one line and then `body`, together.
    pub(crate) fn send_with_body(&mut self, line: &str, body: &[u8]) -> Result<(), LaunchError> {
        let mut bytes = Vec::with_capacity(line.len() + 1 + body.len());
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        bytes.extend_from_slice(body);
        self.stream.write_all(&bytes).map_err(|error| broken(&error))
    }

    /// Receives the next line, without its newline.
    pub(crate) fn receive(&mut self) -> Result<String, LaunchError> {
        let mut searched = self.start;
        loop {
            if let Some(at) = self.buffer[searched..].iter().position(|&byte| byte == b'\n') {
                let line = self.buffer[self.start..searched + at].to_vec();
                self.start = searched + at + 1;
                return String::from_utf8(line)
                    .map_err(|_| LaunchError::Protocol("the launcher's reply is not text".into()));
            }
            if self.buffer.len() - self.start > wire::LINE_MAX {
                return Err(LaunchError::Protocol("the launcher's reply has no end".into()));
            }
            let unread = self.buffer.len() - self.start;
            self.fill(CHUNK_LINE)?;
            searched = self.start + unread;
        }
    }

    /// Receives the next `length` bytes.
    pub(crate) fn receive_bytes(&mut self, length: usize) -> Result<Vec<u8>, LaunchError> {
        while self.buffer.len() - self.start < length {
            let missing = length - (self.buffer.len() - self.start);
            self.fill(missing.clamp(CHUNK_LINE, CHUNK_MAX))?;
        }
        let bytes = self.buffer[self.start..self.start + length].to_vec();
        self.start += length;
        Ok(bytes)
    }

    /// Waits for more bytes and reads at most `chunk` of them.
    fn fill(&mut self, chunk: usize) -> Result<(), LaunchError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let end = self.buffer.len();
        self.buffer.resize(end + chunk, 0);
        let result = loop {
            match self.stream.read(&mut self.buffer[end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(end + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(0) => Err(LaunchError::Gone),
            Ok(_) => Ok(()),
            Err(error) => Err(broken(&error)),
        }
    }
}

fn broken(error: &std::io::Error) -> LaunchError {
    match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::NotConnected => LaunchError::Gone,
        _ => LaunchError::Connection(format!("the connection to the launcher failed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Link, UnixStream) {
        let (own, other) = UnixStream::pair().expect("a socket pair");
        (Link::over(File::from(OwnedFd::from(own))), other)
    }

    #[test]
    fn lines_and_bytes_arrive_whole_however_they_are_cut() {
        let (mut link, mut other) = pair();
        let sender = std::thread::spawn(move || {
            for chunk in [&b"cmd=on"[..], b"e\ncmd=two bytes=3\nab", b"c", b"cmd=three\n"] {
                other.write_all(chunk).expect("open");
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        });
        assert_eq!(link.receive().as_deref(), Ok("cmd=one"));
        assert_eq!(link.receive().as_deref(), Ok("cmd=two bytes=3"));
        assert_eq!(link.receive_bytes(3).as_deref(), Ok(&b"abc"[..]));
        assert_eq!(link.receive().as_deref(), Ok("cmd=three"));
        sender.join().expect("no panic");
        assert_eq!(link.receive(), Err(LaunchError::Gone));
        assert_eq!(link.send("cmd=late"), Err(LaunchError::Gone));
    }

    #[test]
    fn a_reply_without_end_is_refused() {
        let (mut link, mut other) = pair();
        let sender = std::thread::spawn(move || {
            let _ = other.write_all(&vec![b'x'; wire::LINE_MAX + 8192]);
        });
        assert!(matches!(link.receive(), Err(LaunchError::Protocol(_))));
        drop(link);
        sender.join().expect("no panic");
    }
}
