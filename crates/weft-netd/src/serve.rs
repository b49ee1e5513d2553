//! The loop that accepts connections, reads requests and sends answers. No connection can keep another
//! waiting, and no user another user.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use weft_net::descriptors;
use weft_net::ethernet::netd;

use crate::grant::grant;
use crate::options::Options;
use crate::sys;

/// Time after which systemd's instance ends when no request comes; a request starts it again.
pub(crate) const IDLE: Option<Duration> = Some(Duration::from_secs(60));
/// Most connections that are open at a time.
const CONNECTIONS_MAX: usize = 512;
/// Most open connections of a user. Further ones are closed at once.
const USER_CONNECTIONS_MAX: usize = 256;
/// Most connections that a pass accepts.
const ACCEPTS_MAX: usize = 1024;
/// Longest time that a connection may take to ask.
const PATIENCE: Duration = Duration::from_secs(1);
const _: () = assert!(USER_CONNECTIONS_MAX < CONNECTIONS_MAX);

/// Makes the unix socket, for root and the group.
pub(crate) fn listen(path: &Path, options: &Options) -> Result<UnixListener, String> {
    let failed = |error: io::Error| format!("cannot listen on {}: {error}", path.display());
    let group = match &options.group {
        Some(name) => Some(sys::group(name).ok_or(format!("there is no group {name}"))?),
        None => None,
    };
    if UnixStream::connect(path).is_ok() {
        return Err(format!("somebody listens on {} already", path.display()));
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = sys::with_umask(Mode::from_raw_mode(0o177), || UnixListener::bind(path)).map_err(failed)?;
    if group.is_some() {
        chown(path, None, group).map_err(failed)?;
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o660)).map_err(failed)?;
    }
    Ok(listener)
}

/// A connection whose request has not been answered yet.
struct Connection {
    stream: UnixStream,
    user: u32,
    until: Instant,
    bytes: [u8; netd::REQUEST_SIZE],
    have: usize,
}

impl Connection {
    /// Reads what has arrived, and returns whether the connection may go on.
    fn read(&mut self) -> bool {
        while self.have < self.bytes.len() {
            match self.stream.read(&mut self.bytes[self.have..]) {
                Ok(count @ 1..) => self.have += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                _ => return false,
            }
        }
        true
    }

    fn is_whole(&self) -> bool {
        self.have == self.bytes.len()
    }
}

/// Answers requests, until none has come for `idle`.
pub(crate) fn serve(listener: &UnixListener, interfaces: &[String], idle: Option<Duration>) -> Result<(), String> {
    listener.set_nonblocking(true).map_err(|error| format!("cannot listen: {error}"))?;
    let mut waiting: Vec<Connection> = Vec::new();
    let mut last = Instant::now();
    loop {
        if waiting.is_empty() && idle.is_some_and(|idle| last.elapsed() >= idle) {
            return Ok(());
        }
        wait(listener, &waiting, idle).map_err(|error| format!("cannot wait for requests: {error}"))?;
        if accept(listener, &mut waiting) > 0 {
            last = Instant::now();
        }
        let now = Instant::now();
        waiting.retain_mut(|one| one.read() && (one.is_whole() || now < one.until));
        // A request of each user at a time, so that many requests of one user do not delay those of others.
        let mut served = BTreeSet::new();
        waiting.retain(|one| {
            let now = one.is_whole() && served.insert(one.user);
            if now {
                answer(one, interfaces);
            }
            !now
        });
    }
}

/// Sleeps until a connection or a request comes, or a time is over.
fn wait(listener: &UnixListener, waiting: &[Connection], idle: Option<Duration>) -> io::Result<()> {
    let now = Instant::now();
    let timeout = match waiting.iter().map(|one| one.until.saturating_duration_since(now)).min() {
        _ if waiting.iter().any(Connection::is_whole) => Some(Duration::ZERO),
        None => idle,
        some => some,
    };
    let descriptors = waiting.iter().map(|one| one.stream.as_fd());
    sys::poll_readable(descriptors.chain([listener.as_fd()]), timeout)
}

/// Accepts new connections, and returns how many there were.
fn accept(listener: &UnixListener, waiting: &mut Vec<Connection>) -> usize {
    for count in 0..ACCEPTS_MAX {
        // Also when descriptors run out: the next pass has fewer open.
        let Ok((stream, _)) = listener.accept() else { return count };
        let Ok(user) = descriptors::user(&stream) else { continue };
        let theirs = waiting.iter().filter(|one| one.user == user).count();
        if waiting.len() >= CONNECTIONS_MAX || theirs >= USER_CONNECTIONS_MAX || stream.set_nonblocking(true).is_err() {
            continue;
        }
        let until = Instant::now() + PATIENCE;
        waiting.push(Connection { stream, user, until, bytes: [0; netd::REQUEST_SIZE], have: 0 });
    }
    ACCEPTS_MAX
}

/// Answers a request. A new connection has room for an answer; it is closed even if its owner does not read
/// the answer.
fn answer(one: &Connection, interfaces: &[String]) {
    let request = netd::parse_request(&one.bytes).ok_or_else(|| "this is no request".to_owned());
    let _ = match request.and_then(|interface| grant(interface, one.user, interfaces)) {
        Ok(given) => {
            let both = [given.socket.as_fd(), given.holder.as_fd()];
            descriptors::send(&one.stream, &netd::granted(given.port), both)
        }
        Err(sentence) => sys::send(&one.stream, &netd::refused(&sentence)),
    };
}
