//! Ports at which processes of two jobs meet (MPI-5.0 §11.9), and the contact between the leaders of their
//! groups: one connection by TCP, on which each message is sealed ([`weft_core::meeting`]).
//!
//! The name of a port has the addresses of the process that has opened it, and the port's token. Who does not
//! know the token is sent away, and holds nobody up: a process that accepts looks at several strangers at a
//! time. On the host of the port a process comes by a Unix socket without a file, which is several times
//! quicker than TCP; its name follows from the token.
//!
//! Nothing here waits: a process looks ([`Acceptance::look`], [`Call::look`], [`Contact::look`]), and may
//! sleep on the sockets between two looks.
//!
//! | bytes | from the connector, then from the acceptor |
//! |---|---|
//! | 8 | `MAGIC` |
//! | 16 | the nonce of this end |
//! | 16 | the proof that this end knows the token |
//!
//! Then come messages: the length of what was sealed in four bytes, little-endian, and what was sealed.

use std::io::{self, ErrorKind, Read as _};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, RawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{self as unix, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_core::meeting::{self, End, LENGTH, Nonce, Token};
use weft_core::time::{Duration, Instant};

use crate::udp::{self, Candidate, EndpointAddress};
use crate::wait::{FDS_MAX, Interest};
use crate::{Error, clock, sys};

/// The beginning of both greetings; the last byte is the version.
const MAGIC: [u8; 8] = *b"WEFTPRT\x02";
/// The bytes of a greeting.
const GREETING: usize = MAGIC.len() + 2 * LENGTH;
/// The beginning of a port's name.
const PREFIX: &str = "weft-port.";
/// The most connections without a greeting that an acceptor keeps.
const STRANGERS_MAX: usize = 16;
const _: () = assert!(SOCKETS_MAX <= FDS_MAX);
/// The most sockets of a wait: the listening ones, and those of strangers.
pub const SOCKETS_MAX: usize = STRANGERS_MAX + 2;
/// The time within which a connection must greet.
const PATIENCE: Duration = Duration::from_secs(20);
/// The seconds for which a connection is quiet before the kernel asks whether the other host lives, those
/// between two questions, and the number of questions without an answer that end the connection.
const KEEPALIVE: [i32; 3] = [5, 5, 3];
/// The bytes that one look reads at a time.
const PIECE: usize = 64 << 10;

/// A connection, which is never waited for.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    /// Within a host.
    Unix(UnixStream),
}

impl Stream {
    fn over_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let [idle, between, count] = KEEPALIVE;
        sys::set_option(stream.as_fd(), libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        for (name, value) in [(libc::TCP_KEEPIDLE, idle), (libc::TCP_KEEPINTVL, between), (libc::TCP_KEEPCNT, count)] {
            sys::set_option(stream.as_fd(), libc::IPPROTO_TCP, name, value)?;
        }
        Ok(Self::Tcp(stream))
    }

    fn over_unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::Unix(stream))
    }

    /// Sends as many of these bytes as the kernel takes; 0: none now. A broken connection is an error, and no
    /// signal.
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        later(sys::send(self.as_fd(), bytes))
    }

    /// Receives what is there; `None`: nothing yet.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let received = match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        };
        later(received.map(Some))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// A result of which there may be more later.
fn later<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(T::default()),
        result => result,
    }
}

/// A port that this process has opened.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    /// For processes of this host, where the system has such sockets.
    near: Option<UnixListener>,
    token: Token,
    name: String,
    is_closed: AtomicBool,
}

impl Port {
    /// Opens a port at which processes with these addresses can be reached.
    ///
    /// # Errors
    /// The system has no socket or no random numbers.
    pub fn open(candidates: &[Candidate]) -> Result<Self, Error> {
        let system = |cause| Error::system("open a port", cause);
        // A host without IPv6 refuses the first.
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
            .map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let port = listener.local_addr().map_err(system)?.port();
        let mut token = [0; LENGTH];
        sys::random(&mut token).map_err(system)?;
        let near = near_address(&token).and_then(|address| UnixListener::bind_addr(&address));
        let near = near.and_then(|near| near.set_nonblocking(true).map(|()| near)).ok();
        let candidates = candidates.iter().map(|candidate| Candidate { port, ..*candidate }).collect();
        let name = named(&token, &EndpointAddress { candidates, window_packets: 0 });
        Ok(Self { listener, near, token, name, is_closed: AtomicBool::new(false) })
    }

    /// The name of the port. It reveals the token: who knows it may come.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ends the acceptance that waits now, and each later one.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// The next connection, by either way.
    fn next_stranger(&self) -> io::Result<Option<Stream>> {
        if let Some(near) = &self.near
            && let Some((stream, _)) = come(near.accept())?
        {
            return Stream::over_unix(stream).map(Some);
        }
        match come(self.listener.accept())? {
            // A connection that is broken already is as one that never came.
            Some((stream, _)) => Ok(Stream::over_tcp(stream).ok()),
            None => Ok(None),
        }
    }
}

/// A connection that has come; `None`: there is none.
fn come<T>(accepted: io::Result<T>) -> io::Result<Option<T>> {
    match accepted {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted => Ok(None),
            _ => Err(error),
        },
    }
}

/// The address of the port with this token for processes of its host.
fn near_address(token: &Token) -> io::Result<unix::SocketAddr> {
    unix::SocketAddr::from_abstract_name(format!("weft-{}", hexadecimal(&meeting::near_name(token))))
}

/// The wait at a port for a process that knows its token.
pub struct Acceptance {
    port: Arc<Port>,
    strangers: Vec<Stranger>,
}

impl Acceptance {
    /// Begins to wait.
    pub fn at(port: Arc<Port>) -> Self {
        Self { port, strangers: Vec::new() }
    }

    /// Looks who has come.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`]: the port is closed; an error of the system.
    pub fn look(&mut self) -> io::Result<Option<Contact>> {
        let Self { port, strangers } = self;
        if port.is_closed.load(Ordering::Relaxed) {
            return Err(ErrorKind::Interrupted.into());
        }
        while strangers.len() < STRANGERS_MAX
            && let Some(stream) = port.next_stranger()?
        {
            strangers.push(Stranger { stream, heard: Vec::new(), since: clock::now() });
        }
        let mut at = 0;
        while at < strangers.len() {
            match strangers[at].listen(&port.token) {
                Heard::NotYet => at += 1,
                Heard::Nonsense => drop(strangers.swap_remove(at)),
                Heard::Greeting(nonce) => {
                    // One that goes away at once is as one that never came.
                    if let Ok(contact) = answer(strangers.swap_remove(at).stream, &port.token, &nonce) {
                        return Ok(Some(contact));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The sockets on which something may come.
    pub fn sockets(&self) -> impl Iterator<Item = (RawFd, Interest)> {
        let near = self.port.near.as_ref().map(AsFd::as_fd);
        let strangers = self.strangers.iter().map(|stranger| stranger.stream.as_fd());
        let all = [self.port.listener.as_fd()].into_iter().chain(near).chain(strangers);
        all.map(|socket| (socket.as_raw_fd(), Interest::Read))
    }
}

/// A connection that has not greeted yet.
struct Stranger {
    stream: Stream,
    heard: Vec<u8>,
    since: Instant,
}

enum Heard {
    NotYet,
    Nonsense,
    Greeting(Nonce),
}

impl Stranger {
    fn listen(&mut self, token: &Token) -> Heard {
        let mut buffer = [0; GREETING];
        let missing = GREETING - self.heard.len();
        match self.stream.receive(&mut buffer[..missing]) {
            Ok(Some(0)) | Err(_) => return Heard::Nonsense,
            Ok(Some(count)) => self.heard.extend_from_slice(&buffer[..count]),
            Ok(None) => {}
        }
        match self.heard.first_chunk() {
            Some(greeting) => read_greeting(greeting, token).map_or(Heard::Nonsense, Heard::Greeting),
            None if clock::now().since(self.since) > PATIENCE => Heard::Nonsense,
            None => Heard::NotYet,
        }
    }
}

fn greeting(token: &Token, nonce: &Nonce) -> [u8; GREETING] {
    let mut greeting = [0; GREETING];
    greeting[..MAGIC.len()].copy_from_slice(&MAGIC);
    greeting[MAGIC.len()..MAGIC.len() + LENGTH].copy_from_slice(nonce);
    greeting[MAGIC.len() + LENGTH..].copy_from_slice(&meeting::proof(token, nonce));
    greeting
}

/// The nonce in the greeting of an end that knows the token.
fn read_greeting(heard: &[u8; GREETING], token: &Token) -> Option<Nonce> {
    let nonce: Nonce = heard[MAGIC.len()..].first_chunk().copied()?;
    (*heard == greeting(token, &nonce)).then_some(nonce)
}

fn new_nonce() -> io::Result<Nonce> {
    let mut nonce = [0; LENGTH];
    sys::random(&mut nonce).map(|()| nonce)
}

/// Answers a connector that knows the token.
fn answer(stream: Stream, token: &Token, connector: &Nonce) -> io::Result<Contact> {
    let own = new_nonce()?;
    let mut contact = Contact::over(stream, meeting::Contact::new(token, &own, connector, End::Acceptor));
    contact.messages.greet(&greeting(token, &own));
    contact.flush()?;
    Ok(contact)
}

/// Reads the name of a port: its token, and the addresses at which it can be reached.
fn parse(name: &str) -> Option<(Token, EndpointAddress)> {
    let (token, addresses) = name.strip_prefix(PREFIX)?.split_once('.')?;
    let is_hexadecimal = |text: &str| text.len() == 2 * LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let token = is_hexadecimal(token).then(|| u128::from_str_radix(token, 16).ok())??;
    Some((token.to_be_bytes(), EndpointAddress::decode(addresses).ok()?))
}

/// The name of the port with this token at these addresses.
fn named(token: &Token, addresses: &EndpointAddress) -> String {
    format!("{PREFIX}{}.{}", hexadecimal(token), addresses.encode())
}

fn hexadecimal(token: &Token) -> String {
    format!("{:032x}", u128::from_be_bytes(*token))
}

/// Reads a port's name of unknown origin, for `weft-fuzz`. A name that can be read means the same after it is
/// written and read again.
pub fn reread_name(text: &str) {
    if let Some((token, addresses)) = parse(text) {
        let written = named(&token, &addresses);
        let again = parse(&written).map(|(token, addresses)| named(&token, &addresses));
        assert_eq!(again, Some(written));
    }
}

/// A port's name, for [`reread_name`] to begin with.
pub fn name_seed() -> String {
    format!("{PREFIX}{}.00000009.0.40a000001180001058c00003e8", hexadecimal(&[7; LENGTH]))
}

/// The reason why a process did not get to a port.
#[derive(Debug)]
pub enum Refused {
    /// There is no such port: a sentence.
    NoPort(String),
    /// Nobody accepted in time, or the acceptor went away: a sentence.
    NotAccepted(String),
}

/// The way of a process to a port, until the process there accepts.
#[derive(Debug)]
pub struct Call {
    /// `None` once the other process has accepted.
    stream: Option<Stream>,
    to: String,
    token: Token,
    own: Nonce,
    heard: Vec<u8>,
    patience: Duration,
    until: Instant,
}

/// Goes to the port with this name if it is on this host; `None`: it is not, or the name is none. Waits at
/// most `patience` until the other process accepts.
///
/// # Errors
/// The system has no socket or no random numbers.
pub fn call_near(name: &str, patience: Duration) -> Result<Option<Call>, Refused> {
    let Some((token, _)) = parse(name) else { return Ok(None) };
    let Ok(stream) = near_address(&token).and_then(|address| UnixStream::connect_addr(&address)) else {
        return Ok(None);
    };
    let to = "this host".to_owned();
    let call = Stream::over_unix(stream).and_then(|stream| Call::over(stream, to, token, patience));
    call.map(Some).map_err(|error| not_connected("this host", &error))
}

/// Goes to the port with this name from a host with these addresses, by TCP. Waits at most `patience` until
/// there is a connection, and until the other process accepts.
///
/// # Errors
/// A sentence, without the name of the port.
pub fn call(name: &str, candidates: &[Candidate], patience: Duration) -> Result<Call, Refused> {
    let (token, there) = parse(name).ok_or_else(|| {
        Refused::NoPort("port_name is no name that MPI_Open_port of this library has given".to_owned())
    })?;
    let pair = udp::choose_peer_address(candidates, &there.candidates).map_err(Refused::NoPort)?;
    let (to, limit) = (pair.to.to_string(), std::time::Duration::from_nanos(patience.0.max(1)));
    let stream = TcpStream::connect_timeout(&pair.to, limit).map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => {
            Refused::NoPort(format!("no process listens at {to}: has the port been closed, or its process ended?"))
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => not_accepted(&to, patience),
        _ => not_connected(&to, &error),
    })?;
    let call = Stream::over_tcp(stream).and_then(|stream| Call::over(stream, to.clone(), token, patience));
    call.map_err(|error| not_connected(&to, &error))
}

fn not_connected(to: &str, error: &io::Error) -> Refused {
    Refused::NotAccepted(format!("cannot connect to {to}: {}", crate::reason(error)))
}

fn not_accepted(to: &str, patience: Duration) -> Refused {
    let seconds = patience.0 / 1_000_000_000;
    Refused::NotAccepted(format!("no process has called MPI_Comm_accept for the port at {to} within {seconds} seconds"))
}

impl Call {
    /// Greets the process at the other end.
    fn over(stream: Stream, to: String, token: Token, patience: Duration) -> io::Result<Self> {
        let own = new_nonce()?;
        // A new connection has room for a greeting.
        stream.send(&greeting(&token, &own))?;
        let until = clock::now() + patience;
        Ok(Self { stream: Some(stream), to, token, own, heard: Vec::new(), patience, until })
    }

    /// Looks whether the other process has accepted. Once it has, the call is over.
    ///
    /// # Errors
    /// A sentence, without the name of the port.
    pub fn look(&mut self) -> Result<Option<Contact>, Refused> {
        let Some(stream) = &mut self.stream else { return Err(self.unknown()) };
        let mut buffer = [0; GREETING];
        let missing = GREETING - self.heard.len();
        match stream.receive(&mut buffer[..missing]) {
            Ok(Some(0)) => return Err(self.unknown()),
            Ok(Some(count)) => self.heard.extend_from_slice(&buffer[..count]),
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err(self.unknown()),
            Err(error) => return Err(not_connected(&self.to, &error)),
        }
        let Some(greeting) = self.heard.first_chunk() else {
            let is_over = clock::now() >= self.until;
            return if is_over { Err(not_accepted(&self.to, self.patience)) } else { Ok(None) };
        };
        let Some(acceptor) = read_greeting(greeting, &self.token) else {
            return Err(Refused::NoPort(format!("the process at {} has another port there", self.to)));
        };
        let sealing = meeting::Contact::new(&self.token, &acceptor, &self.own, End::Connector);
        Ok(self.stream.take().map(|stream| Contact::over(stream, sealing)))
    }

    fn unknown(&self) -> Refused {
        Refused::NoPort(format!("the process at {} knows no such port, or has closed it", self.to))
    }

    /// The socket on which something may come.
    pub fn sockets(&self) -> impl Iterator<Item = (RawFd, Interest)> {
        self.stream.iter().map(|stream| (stream.as_fd().as_raw_fd(), Interest::Read))
    }
}

/// The connection of two leaders that have greeted each other.
#[derive(Debug)]
pub struct Contact {
    stream: Stream,
    /// The messages, and what the kernel has not taken yet.
    messages: meeting::Contact,
}

impl Contact {
    fn over(stream: Stream, messages: meeting::Contact) -> Self {
        Self { stream, messages }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.messages.outgoing().is_empty() {
            match self.stream.send(self.messages.outgoing())? {
                0 => break,
                sent => self.messages.have_left(sent),
            }
        }
        Ok(())
    }

    /// A number that both ends know, and that other contacts do not have.
    pub fn number(&self) -> u64 {
        self.messages.number()
    }

    /// Sends a message to the other leader. What the kernel does not take now leaves in later looks.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.messages.send(message);
        self.flush()
    }

    /// Looks for the next message of the other leader.
    ///
    /// # Errors
    /// The connection is broken, or the message is not the other leader's.
    pub fn look(&mut self) -> io::Result<Option<Vec<u8>>> {
        // A leader that has said its last word, and is gone, does not take more.
        let mut ended = self.flush().err();
        let mut buffer = [0; PIECE];
        loop {
            if let Some(message) = self.messages.next_message(ended.is_some()).map_err(|_| ErrorKind::InvalidData)? {
                return Ok(Some(message));
            }
            match self.stream.receive(&mut buffer) {
                Ok(Some(0)) if ended.is_none() => ended = Some(ErrorKind::UnexpectedEof.into()),
                Err(error) if ended.is_none() => ended = Some(error),
                Ok(Some(count @ 1..)) => self.messages.receive(&buffer[..count]),
                _ => return ended.map_or(Ok(None), Err),
            }
        }
    }

    /// The socket on which something may come, or leave.
    pub fn sockets(&self) -> impl Iterator<Item = (RawFd, Interest)> {
        let interest = if self.messages.outgoing().is_empty() { Interest::Read } else { Interest::ReadWrite };
        [(self.stream.as_fd().as_raw_fd(), interest)].into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    const SOON: Duration = Duration(10_000_000_000);

    fn candidates() -> Vec<Candidate> {
        let ip = Ipv4Addr::LOCALHOST.into();
        vec![Candidate { ip, prefix: 8, port: 0, packet_size: 1472, host: 7, interface: 1, rail: 0, speed: 0 }]
    }

    fn port() -> Arc<Port> {
        Arc::new(Port::open(&candidates()).expect("a port"))
    }

    /// Looks until there is something.
    fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(found) = look() {
                return found;
            }
            std::thread::yield_now();
        }
    }

    fn accept(port: &Arc<Port>) -> io::Result<Contact> {
        let mut acceptance = Acceptance::at(port.clone());
        until(|| acceptance.look().transpose())
    }

    fn wait_for(mut call: Call) -> Result<Contact, Refused> {
        until(|| call.look().transpose())
    }

    fn connect(name: &str, patience: Duration) -> Result<Contact, Refused> {
        call(name, &candidates(), patience).and_then(wait_for)
    }

    fn connect_near(name: &str) -> Result<Contact, Refused> {
        wait_for(call_near(name, SOON)?.expect("a port of this host"))
    }

    fn receive(contact: &mut Contact) -> io::Result<Vec<u8>> {
        until(|| contact.look().transpose())
    }

    /// Runs `connector` while the port accepts once.
    fn meet<R: Send>(port: &Arc<Port>, connector: impl FnOnce() -> R + Send) -> (io::Result<Contact>, R) {
        std::thread::scope(|scope| {
            let acceptor = scope.spawn(|| accept(port));
            let result = connector();
            (acceptor.join().expect("no panic"), result)
        })
    }

    /// The two ends of a contact, by the Unix socket of this host or by TCP.
    fn contact(port: &Arc<Port>, is_near: bool) -> (Contact, Contact) {
        let (near, far) = meet(port, || match is_near {
            true => connect_near(port.name()),
            false => connect(port.name(), SOON),
        });
        (near.expect("accepted"), far.expect("connected"))
    }

    #[test]
    fn two_processes_meet_at_a_port_and_exchange_messages() {
        let port = port();
        for is_near in [false, true] {
            let (mut near, mut far) = contact(&port, is_near);
            assert!(matches!(near.look(), Ok(None)));
            for message in [&b""[..], b"names", &[7; 100_000]] {
                near.send(message).expect("sent");
                assert_eq!(receive(&mut far).expect("received"), message);
                far.send(message).expect("sent");
                assert_eq!(receive(&mut near).expect("received"), message);
            }
            // What the kernel does not take at once leaves while both look.
            let large = vec![9; 20 << 20];
            near.send(&large).expect("sent");
            far.send(&large).expect("sent");
            let mut heard = [None, None];
            until(|| {
                for (contact, heard) in [&mut near, &mut far].into_iter().zip(&mut heard) {
                    if heard.is_none() {
                        *heard = contact.look().expect("open");
                    }
                }
                heard.iter().all(Option::is_some).then_some(())
            });
            assert_eq!(heard, [Some(large.clone()), Some(large)]);
            drop(far);
            assert!(receive(&mut near).is_err());
        }
    }

    #[test]
    fn strangers_are_sent_away_and_hold_nobody_up() {
        let port = port();
        let to: SocketAddr = (Ipv4Addr::LOCALHOST, port.listener.local_addr().expect("bound").port()).into();
        let silent: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(to).expect("open")).collect();
        let near = UnixStream::connect_addr(&near_address(&port.token).expect("a name")).expect("open");
        let send = |fd: BorrowedFd<'_>, bytes: &[u8]| assert_eq!(sys::send(fd, bytes).ok(), Some(bytes.len()));
        send(silent[0].as_fd(), &[b'x'; GREETING]);
        send(silent[1].as_fd(), &greeting(&[9; LENGTH], &[1; LENGTH])[..30]);
        send(near.as_fd(), &greeting(&[9; LENGTH], &[1; LENGTH]));
        let wrong = port.name().replacen(PREFIX, &format!("{PREFIX}{:032x}.", 5), 1);
        let wrong = format!("{}{}", &wrong[..PREFIX.len() + 33], &wrong[PREFIX.len() + 66..]);
        let (near, far) = meet(&port, || {
            let refused = connect(&wrong, SOON);
            assert!(matches!(refused, Err(Refused::NoPort(_))), "{refused:?}");
            assert!(matches!(call_near(&wrong, SOON), Ok(None)));
            connect(port.name(), SOON)
        });
        assert!(near.is_ok() && far.is_ok(), "{far:?}");
    }

    #[test]
    fn each_refusal_is_a_sentence_without_the_token() {
        let port = port();
        let token = hexadecimal(&port.token);
        let in_vain = |result| match result {
            Err(Refused::NoPort(sentence) | Refused::NotAccepted(sentence)) => {
                assert!(!sentence.contains(&token), "{sentence}");
                sentence
            }
            Ok(_) => panic!("there is no such port"),
        };
        for name in ["", "weft-port.", "tag=0$port=1$", &port.name()[..40], &port.name().replace('.', ":")] {
            assert!(in_vain(connect(name, SOON)).contains("is no name that MPI_Open_port"), "{name}");
            assert!(matches!(call_near(name, SOON), Ok(None)));
        }
        let briefly = Duration(1_000_000);
        assert!(in_vain(connect(port.name(), briefly)).contains("has called MPI_Comm_accept"));
        let near = call_near(port.name(), briefly).expect("a socket").expect("a port of this host");
        assert!(in_vain(wait_for(near)).contains("has called MPI_Comm_accept"));
        let waiting = call_near(port.name(), SOON).expect("a socket").expect("a port of this host");
        let name = port.name().to_owned();
        drop(port);
        assert!(in_vain(wait_for(waiting)).contains("has closed it"));
        assert!(in_vain(connect(&name, SOON)).contains("has the port been closed"));
        assert!(matches!(call_near(&name, SOON), Ok(None)));
    }

    #[test]
    fn a_name_comes_back() {
        assert!(parse(&name_seed()).is_some());
        [&name_seed(), port().name()].into_iter().for_each(reread_name);
    }

    #[test]
    fn a_port_that_closes_ends_the_acceptance() {
        let port = port();
        let mut acceptance = Acceptance::at(port.clone());
        assert!(matches!(acceptance.look(), Ok(None)));
        port.close();
        assert!(acceptance.look().is_err_and(|error| error.kind() == ErrorKind::Interrupted));
    }

    #[test]
    fn what_the_other_end_did_not_seal_is_no_message() {
        let port = port();
        let (near, far) = meet(&port, || connect(port.name(), SOON));
        let (mut near, far) = (near.expect("accepted"), far.expect("connected"));
        far.stream.send(&[20, 0, 0, 0]).and_then(|_| far.stream.send(&[0; 20])).expect("open");
        assert!(receive(&mut near).is_err_and(|error| error.kind() == ErrorKind::InvalidData));
    }

    /// Expect: an end that has heard the last word leaves only when its own last word has left.
    #[test]
    fn a_last_word_arrives_however_long_it_is() {
        let port = port();
        for is_near in [false, true] {
            let (mut near, mut far) = contact(&port, is_near);
            let long = vec![9; 20 << 20];
            near.send(b"short").expect("sent");
            far.send(&long).expect("sent");
            std::thread::scope(|scope| {
                let far = scope.spawn(move || receive(&mut far));
                assert_eq!(receive(&mut near).expect("received"), long);
                assert_eq!(far.join().expect("no panic").expect("received"), b"short");
            });
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_none() {
        let port = port();
        let (near, far) = meet(&port, || connect(port.name(), SOON));
        let (mut near, far) = (near.expect("accepted"), far.expect("connected"));
        far.stream.send(&u32::MAX.to_le_bytes()).expect("open");
        assert!(receive(&mut near).is_err_and(|error| error.kind() == ErrorKind::InvalidData));
    }
}
