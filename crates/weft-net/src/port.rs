//! Ports at which processes of two jobs meet (MPI-5.0 §11.9), and the contact between the leaders of their
//! groups: one connection by TCP, on which each message is sealed ([`weft_core::meeting`]).
//!
//! The name of a port has the addresses of the process that has opened it, and the port's token. Who does not
//! know the token is sent away, and holds nobody up: a process that accepts looks at several strangers at a
//! time.
//!
//! | bytes | from the connector, then from the acceptor |
//! |---|---|
//! | 8 | `MAGIC` |
//! | 16 | the nonce of this end |
//! | 16 | the proof that this end knows the token |
//!
//! Then come messages: the length of what was sealed in four bytes, little-endian, and what was sealed.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_core::meeting::{self, End, LENGTH, Nonce, Token};
use weft_core::time::{Duration, Instant};

use crate::udp::{self, Candidate, EndpointAddress};
use crate::wait::{FDS_MAX, Interest, wait};
use crate::{Error, clock, sys};

/// The beginning of both greetings; the last byte is the version.
const MAGIC: [u8; 8] = *b"WEFTPRT\x01";
/// The bytes of a greeting.
const GREETING: usize = MAGIC.len() + 2 * LENGTH;
/// The beginning of a port's name.
const PREFIX: &str = "weft-port.";
/// The longest message, in bytes: the cards of tens of thousands of processes fit.
pub const MESSAGE_MAX: usize = 1 << 28;
/// The most connections without a greeting that an acceptor keeps.
const STRANGERS_MAX: usize = FDS_MAX - 1;
/// The time within which a connection must greet, and within which each message that has begun must come.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time after which an acceptor looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// A port that this process has opened.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
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
        let candidates = candidates.iter().map(|candidate| Candidate { port, ..*candidate }).collect();
        let name = named(&token, &EndpointAddress { candidates, window_packets: 0 });
        Ok(Self { listener, token, name, is_closed: AtomicBool::new(false) })
    }

    /// The name of the port. It reveals the token: who knows it may come.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ends the acceptance that waits now, and each later one.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Waits for a process that knows the token, until `is_wanted` returns false.
    ///
    /// # Errors
    /// [`ErrorKind::Interrupted`]: the port is closed, or nobody is wanted any more; an error of the system.
    pub fn accept(&self, mut is_wanted: impl FnMut() -> bool) -> io::Result<Contact> {
        let mut strangers: Vec<Stranger> = Vec::new();
        loop {
            if self.is_closed.load(Ordering::Relaxed) || !is_wanted() {
                return Err(ErrorKind::Interrupted.into());
            }
            let sockets = strangers.iter().map(|stranger| stranger.stream.as_raw_fd());
            let watched: Vec<_> =
                std::iter::once(self.listener.as_raw_fd()).chain(sockets).map(|fd| (fd, Interest::Read)).collect();
            wait(&watched, Some(LOOK))?;
            while strangers.len() < STRANGERS_MAX
                && let Some(stream) = self.next_stranger()?
            {
                strangers.push(Stranger { stream, heard: Vec::new(), since: clock::now() });
            }
            let mut at = 0;
            while at < strangers.len() {
                match strangers[at].listen(&self.token) {
                    Heard::NotYet => at += 1,
                    Heard::Nonsense => drop(strangers.swap_remove(at)),
                    Heard::Greeting(nonce) => {
                        // One that goes away at once is as one that never came.
                        if let Ok(contact) = answer(strangers.swap_remove(at).stream, &self.token, &nonce) {
                            return Ok(contact);
                        }
                    }
                }
            }
        }
    }

    fn next_stranger(&self) -> io::Result<Option<TcpStream>> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                Ok(Some(stream))
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted => Ok(None),
                _ => Err(error),
            },
        }
    }
}

/// A connection that has not greeted yet.
struct Stranger {
    stream: TcpStream,
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
        match self.stream.read(&mut buffer[..missing]) {
            Ok(0) => return Heard::Nonsense,
            Ok(count) => self.heard.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return Heard::Nonsense,
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
fn answer(stream: TcpStream, token: &Token, connector: &Nonce) -> io::Result<Contact> {
    stream.set_nonblocking(false)?;
    let own = new_nonce()?;
    let mut contact = Contact::over(stream, meeting::Contact::new(token, &own, connector, End::Acceptor))?;
    contact.stream.write_all(&greeting(token, &own))?;
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

/// Goes to the port with this name from a host with these addresses, and waits at most `patience` until the
/// other process accepts.
///
/// # Errors
/// A sentence, without the name of the port.
pub fn connect(name: &str, candidates: &[Candidate], patience: Duration) -> Result<Contact, Refused> {
    let (token, there) = parse(name).ok_or_else(|| {
        Refused::NoPort("port_name is no name that MPI_Open_port of this library has given".to_owned())
    })?;
    let pair = udp::choose_peer_address(candidates, &there.candidates).map_err(Refused::NoPort)?;
    greet(pair.to, &token, patience).map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => Refused::NoPort(format!(
            "no process listens at {}: has the port been closed, or its process ended?",
            pair.to
        )),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Refused::NotAccepted(format!(
            "no process has called MPI_Comm_accept for the port at {} within {} seconds",
            pair.to,
            patience.0 / 1_000_000_000
        )),
        ErrorKind::InvalidData => Refused::NoPort(format!("the process at {} has another port there", pair.to)),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
            Refused::NoPort(format!("the process at {} knows no such port, or has closed it", pair.to))
        }
        _ => Refused::NotAccepted(format!("cannot connect to {}: {}", pair.to, crate::reason(&error))),
    })
}

fn greet(to: SocketAddr, token: &Token, patience: Duration) -> io::Result<Contact> {
    let patience = std::time::Duration::from_nanos(patience.0.max(1));
    let mut stream = TcpStream::connect_timeout(&to, patience)?;
    let own = new_nonce()?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(&greeting(token, &own))?;
    let mut heard = [0; GREETING];
    stream.read_exact(&mut heard)?;
    let acceptor = read_greeting(&heard, token).ok_or(ErrorKind::InvalidData)?;
    Contact::over(stream, meeting::Contact::new(token, &acceptor, &own, End::Connector))
}

/// The connection of two leaders that have greeted each other.
#[derive(Debug)]
pub struct Contact {
    stream: TcpStream,
    sealing: meeting::Contact,
}

impl Contact {
    fn over(stream: TcpStream, sealing: meeting::Contact) -> io::Result<Self> {
        let patience = std::time::Duration::from_nanos(PATIENCE.0);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream, sealing })
    }

    /// Sends a message to the other leader.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let sealed = self.sealing.seal(message);
        self.stream.write_all(&(sealed.len() as u32).to_le_bytes())?;
        self.stream.write_all(&sealed)
    }

    /// Receives the next message of the other leader.
    ///
    /// # Errors
    /// The connection is broken, the message does not come in time, or it is not the other leader's.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MESSAGE_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        // The buffer grows with what has come, whatever the length says.
        let mut sealed = Vec::new();
        (&mut self.stream).take(length as u64).read_to_end(&mut sealed)?;
        self.sealing.open(&sealed).filter(|_| sealed.len() == length).ok_or_else(|| ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration(10_000_000_000);

    fn candidates() -> Vec<Candidate> {
        let ip = Ipv4Addr::LOCALHOST.into();
        vec![Candidate { ip, prefix: 8, port: 0, packet_size: 1472, host: 7, interface: 1, rail: 0, speed: 0 }]
    }

    fn port() -> Port {
        Port::open(&candidates()).expect("a port")
    }

    /// Runs `connector` while the port accepts once.
    fn meet<R: Send>(port: &Port, connector: impl FnOnce() -> R + Send) -> (io::Result<Contact>, R) {
        std::thread::scope(|scope| {
            let acceptor = scope.spawn(|| port.accept(|| true));
            let result = connector();
            (acceptor.join().expect("no panic"), result)
        })
    }

    #[test]
    fn two_processes_meet_at_a_port_and_exchange_messages() {
        let port = port();
        let (near, far) = meet(&port, || connect(port.name(), &candidates(), SOON));
        let (mut near, mut far) = (near.expect("accepted"), far.expect("connected"));
        for message in [&b""[..], b"names", &[7; 100_000]] {
            near.send(message).expect("sent");
            assert_eq!(far.receive().expect("received"), message);
            far.send(message).expect("sent");
            assert_eq!(near.receive().expect("received"), message);
        }
        drop(far);
        assert!(near.receive().is_err());
    }

    #[test]
    fn strangers_are_sent_away_and_hold_nobody_up() {
        let port = port();
        let to: SocketAddr = (Ipv4Addr::LOCALHOST, port.listener.local_addr().expect("bound").port()).into();
        let mut silent: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(to).expect("open")).collect();
        silent[0].write_all(&[b'x'; GREETING]).expect("open");
        silent[1].write_all(&greeting(&[9; LENGTH], &[1; LENGTH])[..30]).expect("open");
        let wrong = port.name().replacen(PREFIX, &format!("{PREFIX}{:032x}.", 5), 1);
        let wrong = format!("{}{}", &wrong[..PREFIX.len() + 33], &wrong[PREFIX.len() + 66..]);
        let (near, far) = meet(&port, || {
            let refused = connect(&wrong, &candidates(), SOON);
            assert!(matches!(refused, Err(Refused::NoPort(_))), "{refused:?}");
            connect(port.name(), &candidates(), SOON)
        });
        assert!(near.is_ok() && far.is_ok(), "{far:?}");
    }

    #[test]
    fn each_refusal_is_a_sentence_without_the_token() {
        let port = port();
        let token = hexadecimal(&port.token);
        let in_vain = |name: &str, patience| match connect(name, &candidates(), patience) {
            Err(Refused::NoPort(sentence) | Refused::NotAccepted(sentence)) => {
                assert!(!sentence.contains(&token), "{sentence}");
                sentence
            }
            Ok(_) => panic!("{name} is no port"),
        };
        for name in ["", "weft-port.", "tag=0$port=1$", &port.name()[..40], &port.name().replace('.', ":")] {
            assert!(in_vain(name, SOON).contains("is no name that MPI_Open_port"), "{name}");
        }
        assert!(in_vain(port.name(), Duration(1_000_000)).contains("has called MPI_Comm_accept"));
        let name = port.name().to_owned();
        drop(port);
        assert!(in_vain(&name, SOON).contains("has the port been closed"));
    }

    #[test]
    fn a_name_comes_back() {
        assert!(parse(&name_seed()).is_some());
        [&name_seed(), port().name()].into_iter().for_each(reread_name);
    }

    #[test]
    fn a_port_that_closes_ends_the_acceptance() {
        let port = port();
        std::thread::scope(|scope| {
            let acceptor = scope.spawn(|| port.accept(|| true));
            port.close();
            assert!(acceptor.join().expect("no panic").is_err_and(|error| error.kind() == ErrorKind::Interrupted));
        });
        assert!(port.accept(|| false).is_err());
    }

    #[test]
    fn what_the_other_end_did_not_seal_is_no_message() {
        let port = port();
        let (near, far) = meet(&port, || connect(port.name(), &candidates(), SOON));
        let (mut near, mut far) = (near.expect("accepted"), far.expect("connected"));
        far.stream.write_all(&[20, 0, 0, 0]).and_then(|()| far.stream.write_all(&[0; 20])).expect("open");
        assert!(near.receive().is_err_and(|error| error.kind() == ErrorKind::InvalidData));
        far.stream.write_all(&u32::MAX.to_le_bytes()).expect("open");
        assert!(near.receive().is_err_and(|error| error.kind() == ErrorKind::InvalidData));
    }
}
