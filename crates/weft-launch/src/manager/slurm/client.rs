//! A task's way to the first task of its step: the search for its port, and the thread that relays between
//! the connection and this process.

use super::greeting;
use super::sealed::{CONTENT_MAX, Challenge, Kind, Sealed, Side};
use super::{Ending, step::Step};
use crate::LaunchError;
use crate::sys::munge::MungeError;
use crate::sys::{self, Poll, READ};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The longest time for a connection to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// The longest time for the first task to answer at a port. Another program may listen there and say nothing.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// The longest time for the first task to take what is sent to it.
const SEND_LIMIT: Duration = Duration::from_secs(30);
/// The pauses between two looks at all ports: the first, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// The reason why an attempt to reach the first task did not succeed.
enum Failure {
    /// The first task is not there, or not yet: half a sentence.
    Elsewhere(String),
    /// It is of no use to go on.
    Final(LaunchError),
}

/// Reads a credential: its content and the user who made it.
pub(super) type Decode<'a> = &'a dyn Fn(&str) -> Result<(String, u32), MungeError>;

/// Connects to the first task of `step`, and relays in a thread. Returns this process's end.
///
/// # Errors
/// The first task is not found within `limit`; MUNGE does not work here.
pub(super) fn connect(
    step: &Step,
    decode: Decode<'_>,
    limit: Duration,
    ending: Ending,
) -> Result<UnixStream, LaunchError> {
    let deadline = Instant::now() + limit;
    let hosts = hosts(step)?;
    let mut pause = PAUSE_FIRST;
    let (far, sealed, inbox) = 'found: loop {
        let mut why = String::new();
        for &port in &step.ports {
            for &host in &hosts {
                match attempt(SocketAddr::new(host, port), step, decode) {
                    Ok(found) => break 'found found,
                    Err(Failure::Final(error)) => return Err(error),
                    Err(Failure::Elsewhere(reason)) => why = reason,
                }
            }
        }
        if Instant::now() + pause >= deadline {
            return Err(not_found(step, limit, &why));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    };
    let system =
        |error: io::Error| LaunchError::Connection(format!("no thread or descriptor: {}", sys::reason(&error)));
    let (own, near) = UnixStream::pair().map_err(system)?;
    let near = File::from(OwnedFd::from(near));
    sys::spawn_without_signals("weft-step", move || {
        let mut relay = Relay { near, far, sealed, inbox };
        let why = relay.run();
        let _ = ending.set(why);
        super::end_near(relay.near);
    })
    .map_err(system)?;
    Ok(own)
}

fn not_found(step: &Step, limit: Duration, why: &str) -> LaunchError {
    let place = if step.one_node { "on this node" } else { "on the node" };
    LaunchError::Connection(format!(
        "the first task of step {} {place} {} was not found within {} s ({why}): has it called MPI_Init, and may nodes \
         connect to each other? If not, {}",
        step.name,
        step.first_node,
        limit.as_secs(),
        super::ADVICE
    ))
}

/// The addresses where the first task may be, the likely ones first.
fn hosts(step: &Step) -> Result<Vec<IpAddr>, LaunchError> {
    if step.is_on_first_node() {
        return Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    }
    // The port does not matter here.
    let resolved = (step.first_node.as_str(), 0).to_socket_addrs();
    let mut hosts: Vec<IpAddr> = resolved.iter().cloned().flatten().map(|address| address.ip()).collect();
    hosts.extend(step.launcher);
    hosts.dedup();
    match resolved {
        Err(error) if hosts.is_empty() => Err(LaunchError::Connection(format!(
            "this task of step {} cannot find the first one: the name {} of its node has no address here ({error}); {}",
            step.name,
            step.first_node,
            super::ADVICE
        ))),
        _ => Ok(hosts),
    }
}

/// Tries to reach the first task at one address. Returns the connection, its ciphers, and the bytes that came
/// behind the greeting.
fn attempt(address: SocketAddr, step: &Step, decode: Decode<'_>) -> Result<(TcpStream, Sealed, Vec<u8>), Failure> {
    let elsewhere = |error: io::Error| Failure::Elsewhere(format!("{address}: {}", sys::reason(&error)));
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT).map_err(elsewhere)?;
    let stranger = |what: &str| Failure::Elsewhere(format!("{address}: {what}"));
    super::prepare(&stream);
    stream.set_write_timeout(Some(SEND_LIMIT)).map_err(elsewhere)?;
    let deadline = Instant::now() + ANSWER_LIMIT;
    let mut of_task: Challenge = [0; 16];
    sys::random(&mut of_task).map_err(elsewhere)?;
    stream.write_all(greeting::hello(&step.name, step.rank, &of_task).as_bytes()).map_err(elsewhere)?;
    let mut inbox = Vec::new();
    let end = loop {
        match inbox.iter().position(|&byte| byte == b'\n') {
            Some(end) => break end,
            None if inbox.len() > greeting::OFFER_MAX => return Err(stranger("another program answers")),
            None => hear(&mut stream, &mut inbox, deadline).map_err(elsewhere)?,
        }
    };
    let line: Vec<u8> = inbox.drain(..=end).take(end).collect();
    let (of_server, credential) = greeting::read_offer(&line).ok_or_else(|| stranger("another program answers"))?;
    let (content, user) = decode(credential).map_err(|error| match error {
        MungeError::Absent(why) => Failure::Final(super::no_munge(step, &why)),
        MungeError::Refused(why) => stranger(&why),
    })?;
    let secret = greeting::read_content(&content, &step.name).filter(|_| user == sys::user());
    let secret = secret.ok_or_else(|| stranger("another user answers"))?;
    let mut sealed = Sealed::new(&secret, Side::Task, &of_task, &of_server);
    let mut proof = Vec::new();
    sealed.seal(Kind::Proof, b"", &mut proof);
    stream.write_all(&proof).map_err(elsewhere)?;
    loop {
        match sealed.open(&mut inbox) {
            Ok(Some((Kind::Proof, _))) => break,
            Ok(None) => hear(&mut stream, &mut inbox, deadline).map_err(elsewhere)?,
            _ => return Err(stranger("another program answers")),
        }
    }
    stream.set_read_timeout(None).map_err(elsewhere)?;
    Ok((stream, sealed, inbox))
}

/// Reads more bytes, before `deadline`.
fn hear(stream: &mut TcpStream, inbox: &mut Vec<u8>, deadline: Instant) -> io::Result<()> {
    let rest = deadline.saturating_duration_since(Instant::now());
    if rest.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(rest))?;
    let mut bytes = [0; 1024];
    match stream.read(&mut bytes) {
        Ok(0) => Err(ErrorKind::ConnectionReset.into()),
        Ok(count) => {
            inbox.extend_from_slice(&bytes[..count]);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
        Err(error) => Err(error),
    }
}

/// The relay between this process and the first task.
struct Relay {
    near: File,
    far: TcpStream,
    sealed: Sealed,
    inbox: Vec<u8>,
}

impl Relay {
    /// Relays until one side is gone; returns the reason.
    fn run(&mut self) -> String {
        let gone = || "the first task of this step, which answers the others, has ended".to_owned();
        let mut bytes = vec![0; CONTENT_MAX];
        loop {
            match self.sealed.open(&mut self.inbox) {
                Ok(None) => {}
                Ok(Some((Kind::Talk, content))) => {
                    if self.near.write_all(&content).is_err() {
                        return gone();
                    }
                    continue;
                }
                Ok(Some((Kind::Abort, code))) => {
                    let code = code.first_chunk().map_or(1, |code| i32::from_le_bytes(*code));
                    sys::exit_now(super::super::status_aborted(code));
                }
                Ok(Some((Kind::Lost, why))) => return String::from_utf8_lossy(&why).into_owned(),
                Ok(Some((Kind::Proof, _))) | Err(_) => {
                    return "what came over the connection to the first task is not from it".to_owned();
                }
            }
            let mut poll = Poll::default();
            let (far, near) = (poll.add(&self.far, READ), poll.add(&self.near, READ));
            let Ok(ready) = poll.wait(None) else { return gone() };
            if ready.has(far) {
                match self.far.read(&mut bytes) {
                    Ok(count @ 1..) => self.inbox.extend_from_slice(&bytes[..count]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => return gone(),
                }
            }
            if ready.has(near) {
                match self.near.read(&mut bytes) {
                    Ok(count @ 1..) => {
                        let mut frame = Vec::with_capacity(count + 64);
                        self.sealed.seal(Kind::Talk, &bytes[..count], &mut frame);
                        if self.far.write_all(&frame).is_err() {
                            return gone();
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => return gone(),
                }
            }
        }
    }
}
