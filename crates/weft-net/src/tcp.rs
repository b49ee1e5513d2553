//! Packets to other nodes over kernel TCP, and writes to memory of peers: the carrier for networks that let
//! nothing else pass.
//!
//! A process listens on one port. A pair of processes has one connection, which is made for the first packet:
//! acknowledgements travel with answers. The process that connects shows the token on the card of the other,
//! which only processes that have read the card know, and waits until the other accepts. Where both ends
//! connect at the same time, the connection of the process with the smaller token is accepted.
//!
//! TCP keeps each byte and its order, so a packet arrives once and in order, or the connection breaks, and
//! the carrier tells of it. A write is a frame with data on the same connection. The sender's kernel reads
//! the data where it lies in the program's memory, and the receiver's kernel puts it in its place: there is
//! no further copy.

mod connection;
mod endpoint_address;
mod memory;
mod outgoing;
mod socket;
mod wire;

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::fd::AsFd;

use weft_core::distrust::Distrust;
use weft_core::flow::{self, LongPath};
use weft_core::time::{Duration, Instant};
use weft_engine::memory::UserData;

use crate::carrier::{
    Address, Arrival, Begun, Carrier, CarrierAttributes, Delivery, Diagnostics, Look, Outcome, Placement, Proof,
    Registration, RemoteMemory, RemoteMemoryAccess, TcpAddress, Unasked, Written, wrong_address,
};
use crate::udp::{self, Candidate};
use crate::{Error, clock, sys};
use connection::{Connection, Handshake, Looked, State};
pub use endpoint_address::EndpointAddress;
use memory::{Memory, Name};
use outgoing::{Outgoing, try_send};
use wire::{Beginning, HEAD_BYTES, Parser, Write};

/// Bytes of the largest packet.
const PACKET_BYTES_MAX: usize = flow::PACKET_SIZE_MAX;
/// Bytes of memory for what arrives: a frame that is not complete, and as much again as comes at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Most packets of a train in a call.
const TRAIN_PACKETS_MAX: usize = 32;
/// Most connections that are looked at without asking first which have something.
const ASKED_SINGLY_MAX: usize = 4;
/// Time between two questions for new connections, while no more than those are there.
const QUESTION_PERIOD: Duration = Duration::from_millis(1);
/// The time after which a process connects again whose connection was closed before it was accepted: the
/// peer's own connection should be there by then.
const AGAIN_AFTER: Duration = Duration::from_millis(5);
/// The time after which a connection counts as impossible that is still being made, if only writes wait for
/// it.
const CONNECTS_WITHIN: Duration = Duration::from_millis(500);
/// Most connections whose other end has not greeted; the oldest is closed for a new one.
const STRANGERS_MAX: usize = 32;
/// Most connections that are accepted in a look.
const ACCEPTED_MAX: usize = 16;
/// The number of the listening socket in the list of sockets; connections have their index.
const LISTENER: u64 = u64::MAX;

/// Smallest message that is written to the receiver's memory.
const PLACED_MIN: u64 = 32 << 10;
/// Largest message that is sent eagerly, as packets, where this carrier is. A connection moves a longer one
/// sooner, with the announcement and its answer (docs/design/rails.md).
const EAGER_MAX: u64 = 64 << 10;

/// Bytes of a packet on the long path of a flow, where this carrier is beside others. Two packets of 28 KiB
/// in the place of one of 56 KiB made an exchange longer by a tenth (Xeon of the Granite Rapids kind).
pub const LONG_PACKET_BYTES: usize = PACKET_BYTES_MAX;

/// The carrier's writes to memory of peers.
const PLACEMENT: Placement = Placement {
    writes: true,
    reads: false,
    bytes_max: u64::MAX,
    bytes_min: PLACED_MIN,
    eager_max: EAGER_MAX,
    one_sided_min: PLACED_MIN,
    proof: Proof::Answer,
    tells: true,
    unasked: true,
};

/// A process that this one may send to.
struct Peer {
    listens: SocketAddr,
    token: u64,
    /// The connection.
    connection: Option<usize>,
    /// The frames that wait to leave.
    outgoing: Outgoing,
    /// Memory to which the peer is likely to write next, the first one first.
    expected: VecDeque<Registration>,
    /// The time before which this process does not connect.
    connects_from: Instant,
    /// Writes are refused for a time after no connection could be made while only writes waited for it.
    distrust: Distrust,
}

/// The carrier over one listening socket.
pub struct Tcp {
    listener: TcpListener,
    sockets: sys::Watched,
    candidates: Vec<Candidate>,
    token: u64,
    attributes: CarrierAttributes,
    peers: Vec<Peer>,
    by_token: HashMap<u64, usize>,
    /// The connections, by their numbers.
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// The most connections that are made for writes.
    connections_max: usize,
    /// The numbers of connections whose other end has not greeted, oldest first.
    strangers: VecDeque<usize>,
    /// The number of connections that are being made.
    connecting: usize,
    /// Set where frames may wait for peers without a connection.
    connects_again: bool,
    /// The connection at which a look begins.
    turn: usize,
    /// The time from which on the next look asks for new connections: a thread may have slept, or it is due.
    asks_from: Instant,
    memory: Memory,
    /// The numbers of writes that are complete.
    done: VecDeque<u64>,
    broken: VecDeque<Address>,
    buffer: Box<[u8]>,
    rejected: u64,
    last_refusal: Option<String>,
}

impl Tcp {
    /// Opens the listening socket, and finds the addresses to offer, as [`udp::Udp::bind`] does. Without
    /// remote memory if it is `without_placement`.
    ///
    /// # Errors
    /// No interface can be used, the settings make no sense, or the socket cannot be made.
    pub fn open(settings: &udp::Settings, without_placement: bool) -> Result<Self, Error> {
        Self::listen(udp::candidates(settings)?, without_placement)
    }

    /// Opens the listening socket at these addresses, best first; their ports do not count. Without remote
    /// memory if it is `without_placement`.
    ///
    /// # Errors
    /// There is no address, or the socket cannot be made.
    pub fn listen(mut candidates: Vec<Candidate>, without_placement: bool) -> Result<Self, Error> {
        let any = match candidates.first().map(|first| first.ip.is_ipv4()) {
            Some(true) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            Some(false) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            None => return Err(Error::Unavailable("there is no address for TCP".into())),
        };
        let failed = |cause| Error::system("listen for TCP connections", cause);
        let listener = socket::listen(&any).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        candidates.iter_mut().for_each(|candidate| candidate.port = port);
        let sockets = sys::Watched::new().map_err(failed)?;
        sockets.add(&listener, LISTENER, false).map_err(failed)?;
        let mut token = [0; 8];
        sys::random(&mut token).map_err(|cause| Error::system("get random bytes", cause))?;
        let attributes = CarrierAttributes {
            delivery: Delivery::Ordered,
            train_bytes: TRAIN_PACKETS_MAX * PACKET_BYTES_MAX,
            descriptor: Some(sockets.descriptor()),
            remote_memory: (!without_placement).then_some(PLACEMENT),
            ..CarrierAttributes::packets("tcp", PACKET_BYTES_MAX, Look::SystemCall)
        };
        Ok(Self {
            listener,
            sockets,
            candidates,
            token: u64::from_ne_bytes(token),
            attributes,
            peers: Vec::new(),
            by_token: HashMap::new(),
            connections: Vec::new(),
            free: Vec::new(),
            connections_max: usize::MAX,
            strangers: VecDeque::new(),
            connecting: 0,
            connects_again: false,
            turn: 0,
            asks_from: Instant(0),
            memory: Memory::default(),
            done: VecDeque::new(),
            broken: VecDeque::new(),
            buffer: vec![0; BUFFER_BYTES].into(),
            rejected: 0,
            last_refusal: None,
        })
    }

    /// Makes at most so many connections for writes: each takes a descriptor, and the program needs some. For
    /// other peers [`RemoteMemoryAccess::write`] refuses.
    #[must_use]
    pub fn with_connections_max(mut self, connections_max: usize) -> Self {
        self.connections_max = connections_max;
        self
    }

    /// Returns this end's endpoint address, which peers need; for the business card.
    pub fn endpoint_address(&self) -> EndpointAddress {
        EndpointAddress { candidates: self.candidates.clone(), token: self.token }
    }

    /// Returns the address of this end.
    pub fn own_address(&self) -> Address {
        Address::Tcp(TcpAddress { peer: 0, listens: self.candidates[0].socket_address() })
    }

    /// Returns this end's addresses, best first.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Learns a peer that listens at this address, with the token of its endpoint address.
    pub fn address_of(&mut self, listens: SocketAddr, token: u64) -> Address {
        let index = self.peers.len();
        let known = *self.by_token.entry(token).or_insert(index);
        if known == index {
            // The peer may have connected before.
            let has_greeted = |connection: &Option<Connection>| {
                connection.as_ref().is_some_and(|connection| connection.token == Some(token))
            };
            let connection = self.connections.iter().position(has_greeted);
            if let Some(connection) = connection.and_then(|number| self.connections[number].as_mut()) {
                connection.peer = Some(index);
            }
            self.peers.push(Peer {
                listens,
                token,
                connection,
                outgoing: Outgoing::default(),
                expected: VecDeque::new(),
                connects_from: Instant(0),
                distrust: Distrust::default(),
            });
        }
        Address::Tcp(TcpAddress { peer: known as u32, listens })
    }

    /// The index of the peer with this address.
    fn peer(&self, to: &Address) -> io::Result<usize> {
        match to {
            Address::Tcp(TcpAddress { peer, .. }) if (*peer as usize) < self.peers.len() => Ok(*peer as usize),
            _ => Err(wrong_address()),
        }
    }

    /// Begins to connect to a peer, if there is no connection. A failure is noted.
    fn ensure_connection(&mut self, peer: usize) {
        if self.peers[peer].connection.is_some() || clock::now() < self.peers[peer].connects_from {
            return;
        }
        if let Err(cause) = self.connect(peer) {
            self.cannot_connect(peer, &crate::reason(&cause));
        }
    }

    /// Notes that no connection to a peer could be made. Packets that wait for it are lost; writes are
    /// refused for a time.
    fn cannot_connect(&mut self, peer: usize, why: &str) {
        let why = format!("connect to {}: {why}", self.peers[peer].listens);
        if self.peers[peer].outgoing.waiting() > 0 {
            return self.break_off(peer, &why);
        }
        self.peers[peer].distrust.failed(clock::now());
        self.last_refusal = Some(why);
    }

    fn connect(&mut self, peer: usize) -> io::Result<()> {
        let stream = socket::connect(&self.peers[peer].listens)?;
        let parser = Parser::new(Beginning::Accepted, PACKET_BYTES_MAX);
        let number = self.insert(Connection::new(stream, State::Connects, Some(peer), parser))?;
        self.connecting += 1;
        self.peers[peer].connection = Some(number);
        Ok(())
    }

    fn insert(&mut self, connection: Connection) -> io::Result<usize> {
        let number = self.free.last().copied().unwrap_or(self.connections.len());
        self.sockets.add(&connection.stream, number as u64, connection.watches_room)?;
        match self.free.pop() {
            Some(number) => self.connections[number] = Some(connection),
            None => self.connections.push(Some(connection)),
        }
        Ok(number)
    }

    /// Drops a connection. Returns the peer that has none now, and the state in which the connection was.
    fn remove(&mut self, number: usize) -> Option<(usize, State)> {
        let connection = self.connections[number].take()?;
        self.free.push(number);
        self.strangers.retain(|stranger| *stranger != number);
        self.connecting -= usize::from(connection.state == State::Connects);
        let peer = connection.peer.filter(|peer| self.peers[*peer].connection == Some(number))?;
        (self.peers[peer].connection, self.peers[peer].expected) = (None, VecDeque::new());
        Some((peer, connection.state))
    }

    /// Ends a connection. `why` says what broke it; `None`: the peer sends no more. A connection that was not
    /// accepted has lost nothing, however it ends.
    fn close(&mut self, number: usize, why: Option<&str>) {
        let Some((peer, state)) = self.remove(number) else { return };
        let listens = self.peers[peer].listens;
        match why {
            // The peer prefers a connection of its own, which is on its way, or has too many strangers.
            _ if state == State::Greets => {
                self.peers[peer].connects_from = clock::now() + AGAIN_AFTER;
                self.connects_again = true;
            }
            Some(why) if state == State::Connects => self.cannot_connect(peer, why),
            Some(why) => self.break_off(peer, &format!("the connection to {listens}: {why}")),
            None if self.peers[peer].outgoing.waiting() > 0 => {
                self.break_off(peer, &format!("{listens} has closed the connection before it had got everything"));
            }
            None => {}
        }
    }

    /// Gives up what waits to leave for a peer: some of it will not arrive.
    fn break_off(&mut self, peer: usize, why: &str) {
        self.last_refusal = Some(why.to_owned());
        self.peers[peer].outgoing.clear();
        let address = Address::Tcp(TcpAddress { peer: peer as u32, listens: self.peers[peer].listens });
        if !self.broken.contains(&address) {
            self.broken.push_back(address);
        }
    }

    /// The connection to a peer, if frames may leave by it. If there is none it is made, for a time.
    fn open_connection(&mut self, peer: usize) -> Option<usize> {
        let now = clock::now();
        if self.peers[peer].distrust.is_over(now) && self.has_room(peer) {
            self.ensure_connection(peer);
        }
        let number = self.peers[peer].connection?;
        let Connection { state, began, .. } = self.connections[number].as_ref()?;
        match state {
            State::Open => {
                self.peers[peer].distrust.succeeded();
                return Some(number);
            }
            State::Connects if now.since(*began) > CONNECTS_WITHIN && self.peers[peer].outgoing.waiting() == 0 => {
                self.close(number, Some("no answer comes"));
            }
            State::Connects | State::Greets | State::Stranger => {}
        }
        None
    }

    /// Connects again to peers for which frames wait.
    fn connect_again(&mut self) {
        let waits = |peer: &Peer| peer.connection.is_none() && peer.outgoing.waiting() > 0;
        (0..self.peers.len()).for_each(|peer| {
            if waits(&self.peers[peer]) {
                self.ensure_connection(peer);
            }
        });
        self.connects_again = self.peers.iter().any(waits);
    }

    /// Sends frames to a peer; `false`: there is no room, and nothing was taken.
    fn send_frames(&mut self, peer: usize, parts: &[IoSlice<'_>]) -> bool {
        self.ensure_connection(peer);
        let Self { peers, connections, done, .. } = self;
        let Peer { connection: Some(number), outgoing, .. } = &mut peers[peer] else { return false };
        let (number, stream) = match &connections[*number] {
            Some(connection) => (*number, (connection.state == State::Open).then_some(&connection.stream)),
            None => return false,
        };
        match outgoing.send(stream, parts, done) {
            Ok(taken) => taken,
            Err(cause) => {
                self.close(number, Some(&cause.to_string()));
                false
            }
        }
    }

    /// Accepts connections.
    fn accept(&mut self) {
        for _ in 0..ACCEPTED_MAX {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return,
                // The other end has given up, or this process has no descriptor left.
                Err(cause) => {
                    self.last_refusal = Some(format!("accept a connection: {}", crate::reason(&cause)));
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() || socket::prepare(&stream).is_err() {
                continue;
            }
            let parser = Parser::new(Beginning::Greeting(self.token), PACKET_BYTES_MAX);
            let connection = Connection::new(stream, State::Stranger, None, parser);
            let Ok(number) = self.insert(connection) else { continue };
            if self.strangers.len() == STRANGERS_MAX
                && let Some(oldest) = self.strangers.pop_front()
            {
                self.rejected += 1;
                self.remove(oldest);
            }
            self.strangers.push_back(number);
        }
    }

    /// Asks which sockets have something to do, and finishes connections that are being made; returns the
    /// numbers of the connections.
    fn ask(&mut self) -> Vec<usize> {
        let mut ready = Vec::new();
        for number in self.sockets.ready() {
            if number == LISTENER {
                self.accept();
                continue;
            }
            let number = number as usize;
            if self.connections.get(number).is_some_and(Option::is_some) {
                self.finish_connecting(number);
                ready.push(number);
            }
        }
        ready
    }

    fn finish_connecting(&mut self, number: usize) {
        let Some(connection) =
            self.connections[number].as_mut().filter(|connection| connection.state == State::Connects)
        else {
            return;
        };
        let error = sys::option(connection.stream.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(libc::EIO);
        if error != 0 {
            return self.close(number, Some(&io::Error::from_raw_os_error(error).to_string()));
        }
        // A socket that tells of nothing yet is still being connected.
        if connection.stream.peer_addr().is_err() {
            return;
        }
        connection.state = State::Greets;
        self.connecting -= 1;
        let Some(peer) = connection.peer else { return };
        self.say(number, &wire::greeting(self.token, self.peers[peer].token));
    }

    /// Sends the first bytes on a new connection, which has room for them.
    fn say(&mut self, number: usize, bytes: &[u8]) {
        let Some(connection) = &mut self.connections[number] else { return };
        match try_send(&connection.stream, &[IoSlice::new(bytes)]) {
            Ok(sent) if sent == bytes.len() => {
                connection.watches_room = self.sockets.change(&connection.stream, number as u64, false).is_err();
            }
            Ok(_) => self.close(number, Some("a new connection has no room")),
            Err(cause) => self.close(number, Some(&cause.to_string())),
        }
    }

    /// Answers the greeting of the process with this token.
    fn answer(&mut self, number: usize, token: u64) {
        self.strangers.retain(|stranger| *stranger != number);
        let peer = self.by_token.get(&token).copied();
        if let Some(own) = peer.and_then(|peer| self.peers[peer].connection) {
            let is_pending =
                matches!(&self.connections[own], Some(Connection { state: State::Connects | State::Greets, .. }));
            // The peer decides alike about the connection of this process.
            if !is_pending || self.token < token {
                self.remove(number);
                return;
            }
            self.remove(own);
        }
        let Some(connection) = &mut self.connections[number] else { return };
        (connection.state, connection.peer, connection.token) = (State::Open, peer, Some(token));
        if let Some(peer) = peer {
            self.peers[peer].connection = Some(number);
        }
        self.say(number, &wire::accepted());
        self.flush(number);
    }

    /// Sends what waits for the peer of a connection.
    fn flush(&mut self, number: usize) {
        let Self { peers, connections, done, sockets, .. } = self;
        let Some(connection) = connections[number].as_mut().filter(|connection| connection.state == State::Open) else {
            return;
        };
        let Some(outgoing) = connection.peer.map(|peer| &mut peers[peer].outgoing) else { return };
        if outgoing.waiting() == 0 && !connection.watches_room {
            return;
        }
        if let Err(cause) = outgoing.flush(&connection.stream, done) {
            return self.close(number, Some(&cause.to_string()));
        }
        if connection.watches_room && outgoing.waiting() == 0 {
            connection.watches_room = sockets.change(&connection.stream, number as u64, false).is_err();
        }
    }

    /// Looks at a connection; returns the number of packets that were handed over.
    fn look(&mut self, number: usize, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        self.flush(number);
        let Some(connection) =
            self.connections[number].as_mut().filter(|connection| connection.state != State::Connects)
        else {
            return 0;
        };
        let mut begun = None;
        let mut hand_over = |packet: &[u8]| on_arrival(Arrival::packet(packet));
        let mut none = VecDeque::new();
        let Self { memory, buffer, peers, .. } = self;
        let (token, expected) = match connection.peer {
            Some(peer) => (peers[peer].token, &mut peers[peer].expected),
            None => (connection.token.unwrap_or(0), &mut none),
        };
        let (packets, looked) = connection.look(limit, token, memory, expected, buffer, &mut begun, &mut hand_over);
        match begun {
            Some(Handshake::Greeted(token)) => self.answer(number, token),
            Some(Handshake::Accepted) => {
                connection.state = State::Open;
                self.flush(number);
            }
            None => {}
        }
        match looked {
            Looked::Done => {}
            Looked::Ended => self.close(number, None),
            Looked::Wrong => {
                self.rejected += 1;
                self.close(number, Some("the peer has sent something else than frames"));
            }
            Looked::Broken(error) => self.close(number, Some(&io::Error::from_raw_os_error(error).to_string())),
        }
        packets
    }

    /// Returns whether frames wait to leave by a connection.
    fn waits(&self, connection: &Connection) -> bool {
        connection.peer.is_some_and(|peer| self.peers[peer].outgoing.waiting() > 0)
    }

    /// Returns whether there is a connection to a peer, or may be one for writes.
    fn has_room(&self, peer: usize) -> bool {
        self.peers[peer].connection.is_some() || self.open_connections() < self.connections_max
    }

    /// The number of connections.
    fn open_connections(&self) -> usize {
        self.connections.len() - self.free.len()
    }
}

impl Carrier for Tcp {
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let peer = self.peer(to)?;
        if packet.len() > self.attributes.packet_size {
            return Ok(Outcome::TooLarge);
        }
        let head = wire::packet_head(packet.len());
        let sent = self.send_frames(peer, &[IoSlice::new(&head), IoSlice::new(packet)]);
        Ok(if sent { Outcome::Sent } else { Outcome::WouldBlock })
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        let peer = self.peer(to)?;
        let segment = segment.max(1);
        if segment.min(train.len()) > self.attributes.packet_size {
            return Ok(train.len());
        }
        let mut taken = 0;
        for run in train.chunks(segment.saturating_mul(TRAIN_PACKETS_MAX)) {
            let heads: Vec<[u8; HEAD_BYTES]> =
                run.chunks(segment).map(|packet| wire::packet_head(packet.len())).collect();
            let frames = heads.iter().zip(run.chunks(segment));
            let parts: Vec<IoSlice<'_>> =
                frames.flat_map(|(head, packet)| [IoSlice::new(head), IoSlice::new(packet)]).collect();
            if !self.send_frames(peer, &parts) {
                break;
            }
            taken += run.len();
        }
        Ok(taken)
    }

    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        let now = clock::now();
        if self.connects_again {
            self.connect_again();
        }
        let is_settled = self.strangers.is_empty() && self.connecting == 0;
        let all_singly = self.open_connections() <= ASKED_SINGLY_MAX;
        let mut ready = Vec::new();
        if !is_settled || !all_singly || now >= self.asks_from {
            self.asks_from = now + QUESTION_PERIOD;
            ready = self.ask();
        }
        let count = self.connections.len();
        self.turn = self.turn.wrapping_add(1);
        let mut packets = 0;
        for turn in 0..count {
            if packets >= limit {
                break;
            }
            let number = self.turn.wrapping_add(turn) % count;
            let Some(connection) = &self.connections[number] else { continue };
            if all_singly || connection.has_kept() || self.waits(connection) || ready.contains(&number) {
                packets += self.look(number, on_arrival, limit - packets);
            }
        }
        packets
    }

    fn prepare_sleep(&mut self) -> bool {
        self.asks_from = Instant(0);
        if !self.done.is_empty() || self.memory.has_written() || !self.broken.is_empty() {
            return false;
        }
        let Self { peers, connections, sockets, .. } = &mut *self;
        for (number, connection) in connections.iter_mut().enumerate() {
            let Some(connection) = connection else { continue };
            if connection.has_kept() {
                return false;
            }
            let waits = connection.peer.is_some_and(|peer| peers[peer].outgoing.waiting() > 0);
            if waits && connection.state == State::Open && !connection.watches_room {
                match sockets.change(&connection.stream, number as u64, true) {
                    Ok(()) => connection.watches_room = true,
                    Err(_) => return false,
                }
            }
        }
        // Nothing tells when to connect again.
        !self.connects_again
    }

    fn diagnostics(&self) -> Diagnostics {
        Diagnostics { rejected: self.rejected, last_refusal: self.last_refusal.clone(), ..Diagnostics::default() }
    }

    fn under_way(&self, to: &Address) -> usize {
        self.peer(to).map_or(0, |peer| self.peers[peer].outgoing.waiting())
    }

    fn take_broken(&mut self) -> Option<Address> {
        self.broken.pop_front()
    }

    fn long_path(&mut self, to: &Address) -> LongPath {
        let Ok(peer) = self.peer(to) else { return LongPath::Closed };
        match self.open_connection(peer) {
            None => LongPath::Closed,
            Some(_) if self.peers[peer].outgoing.waiting() > 0 => LongPath::Full,
            Some(_) => LongPath::Open,
        }
    }

    fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
        if self.attributes.remote_memory.is_some() { Some(self) } else { None }
    }
}

impl RemoteMemoryAccess for Tcp {
    fn register(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
        self.memory.register(data, length)
    }

    fn deregister(&mut self, registration: Registration) {
        self.memory.deregister(registration);
    }

    fn write(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        let Ok(peer) = self.peer(to) else { return Begun::Never };
        if range.is_empty() || data.program_run(&range).is_none() {
            return Begun::Never;
        }
        let Some(connection) = self.open_connection(peer) else {
            let may_come = self.peers[peer].distrust.is_over(clock::now()) && self.has_room(peer);
            return if may_come { Begun::NotNow } else { Begun::Never };
        };
        let (key, address, bytes) = (target.key, target.address, range.end - range.start);
        let write = Write { key, address, bytes, is_unasked: false };
        if !self.peers[peer].outgoing.write(write, data, range, number) {
            return Begun::NotNow;
        }
        self.flush(connection);
        Begun::Yes
    }

    fn may_write_unasked(&self, data: &UserData) -> bool {
        !data.is_empty() && data.program_run(&(0..data.len())).is_some()
    }

    fn write_unasked(&mut self, to: &Address, data: &UserData, name: u32, number: u64) -> Unasked {
        let range = 0..data.len();
        let Ok(peer) = self.peer(to) else { return Unasked::Refused };
        if !self.may_write_unasked(data) {
            return Unasked::Refused;
        }
        let Some(connection) = self.open_connection(peer) else { return Unasked::Refused };
        let write = Write { key: name.into(), address: 0, bytes: range.end, is_unasked: true };
        if !self.peers[peer].outgoing.write(write, data, range, number) {
            return Unasked::Refused;
        }
        self.flush(connection);
        if self.done.back() != Some(&number) {
            return Unasked::Begun;
        }
        self.done.pop_back();
        Unasked::Taken
    }

    fn register_unasked(&mut self, from: &Address, name: u32, data: &UserData, length: u64) -> Option<Registration> {
        let peer = self.peer(from).ok()?;
        let Peer { token, expected, .. } = &mut self.peers[peer];
        let name = Name::Unasked { token: *token, name: name.into() };
        let registration = self.memory.register_unasked(name, data, length)?;
        expected.push_back(registration);
        Some(registration)
    }

    fn read(&mut self, _: &Address, _: &UserData, _: Range<u64>, _: RemoteMemory, _: u64) -> Begun {
        Begun::Never
    }

    fn poll_completion(&mut self) -> Option<u64> {
        self.done.pop_front()
    }

    fn expect(&mut self, from: &Address, registration: Registration) {
        if let Ok(peer) = self.peer(from) {
            self.peers[peer].expected.push_back(registration);
        }
    }

    fn has_room_for(&self, from: &Address) -> bool {
        self.peer(from).is_ok_and(|peer| self.has_room(peer))
    }

    fn disconnect(&mut self, to: &Address) {
        let Ok(peer) = self.peer(to) else { return };
        self.peers[peer].outgoing.clear();
        let removed = self.peers[peer].connection.and_then(|number| self.remove(number));
        if let Some((peer, State::Connects)) = removed {
            self.cannot_connect(peer, "no answer comes");
        }
    }

    fn poll_written(&mut self) -> Option<Written> {
        self.memory.take_written()
    }
}

/// Takes bytes of unknown origin apart, for `weft-fuzz`. The first byte says how many arrive at a time, and
/// whether a greeting must come first. They mean the same as if they had arrived at once.
///
/// # Panics
/// When they do not.
pub fn take_foreign_apart(bytes: &[u8]) {
    let Some((&first, stream)) = bytes.split_first() else { return };
    let beginning = [Beginning::Frames, Beginning::Greeting(FOREIGN_TOKEN), Beginning::Accepted];
    let parser = || Parser::new(beginning[usize::from(first) % 3], PACKET_BYTES_MAX);
    let in_pieces = wire::take_apart(stream, usize::from(first) / 3 + 1, parser());
    assert_eq!(in_pieces, wire::take_apart(stream, stream.len(), parser()));
}

/// Valid bytes, for [`take_foreign_apart`] to begin with.
pub fn foreign_seeds() -> Vec<Vec<u8>> {
    let packet = [&wire::packet_head(5)[..], b"hello"].concat();
    let write = |is_unasked| [&Write { key: 1, address: 2, bytes: 3, is_unasked }.head()[..], b"abc"].concat();
    let frames = [packet, write(false), write(true)].concat();
    let begins = |first: u8, beginning: &[u8]| [&[first], beginning, &frames].concat();
    vec![begins(1, &wire::greeting(9, FOREIGN_TOKEN)), begins(5, &wire::accepted()), begins(9, &[])]
}

const FOREIGN_TOKEN: u64 = 7;

impl Drop for Tcp {
    /// Takes in what has arrived, and only then closes. A connection that is closed while bytes wait to be
    /// read is reset, and its peer loses what is still on its way.
    fn drop(&mut self) {
        let Self { peers, connections, done, buffer, .. } = self;
        for connection in connections.iter_mut().flatten() {
            if let Some(peer) = connection.peer.filter(|_| connection.state == State::Open) {
                let _ = peers[peer].outgoing.flush(&connection.stream, done);
            }
            let _ = connection.stream.shutdown(std::net::Shutdown::Write);
            connection.drain(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::receive_packets;
    use weft_core::long_path_choice::EAGER_WRITE_BYTES_MAX;

    const LIMIT: Duration = Duration::from_secs(20);
    const PACKETS: u8 = 100;

    fn pair() -> [(Tcp, Address); 2] {
        let settings = udp::Settings { interfaces: Some("lo".into()), ..udp::Settings::default() };
        let [mut near, mut far] = [(); 2].map(|()| Tcp::open(&settings, false).expect("a listening socket"));
        let at = |tcp: &Tcp| SocketAddr::from((tcp.candidates[0].ip, tcp.candidates[0].port));
        let (there, back) = (near.address_of(at(&far), far.token), far.address_of(at(&near), near.token));
        [(near, there), (far, back)]
    }

    /// Both ends have packets for each other before either has looked.   Expect: one connection, and every
    /// packet once and in order.
    #[test]
    fn two_ends_that_begin_at_once_have_one_connection() {
        for round in 0..50 {
            let mut ends = pair();
            let mut arrived = [Vec::new(), Vec::new()];
            let mut sent = [0, 0];
            let began = clock::now();
            while arrived.iter().any(|arrived| arrived.len() < usize::from(PACKETS)) {
                for (end, (tcp, to)) in ends.iter_mut().enumerate() {
                    // The second end is late by more, from round to round.
                    if end == 0 || clock::now().since(began) >= Duration::from_micros(5 * round) {
                        while sent[end] < PACKETS && tcp.send(to, &[sent[end]]).expect("its address") == Outcome::Sent {
                            sent[end] += 1;
                        }
                    }
                    receive_packets(tcp, &mut |packet| arrived[end].extend_from_slice(packet), 64);
                    assert_eq!(tcp.take_broken(), None, "{:?}", tcp.last_refusal);
                }
                assert!(clock::now().since(began) < LIMIT, "{:?} arrive", arrived.each_ref().map(Vec::len));
            }
            assert!(arrived.iter().all(|arrived| arrived.iter().copied().eq(0..PACKETS)), "{arrived:?}");
            assert!(ends.iter().all(|(tcp, _)| tcp.open_connections() == 1), "round {round}");
        }
    }

    /// A peer that resets a connection before it has read the greeting.   Expect: this end connects again,
    /// and has lost nothing.
    #[test]
    fn a_connection_that_was_not_accepted_is_made_again() {
        use std::io::{Read, Write};
        let settings = udp::Settings { interfaces: Some("lo".into()), ..udp::Settings::default() };
        let mut near = Tcp::open(&settings, false).expect("a listening socket");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listening socket");
        let there = near.address_of(listener.local_addr().expect("its address"), 7);
        assert_eq!(near.send(&there, b"packet").expect("its address"), Outcome::Sent);
        for accepts in [false, false, true] {
            listener.set_nonblocking(true).expect("it is open");
            let began = clock::now();
            let mut stream = loop {
                receive_packets(&mut near, &mut |_| {}, 64);
                assert_eq!(near.take_broken(), None);
                match listener.accept() {
                    Ok((stream, _)) => break stream,
                    Err(_) => assert!(clock::now().since(began) < LIMIT, "it does not connect again"),
                }
            };
            // The greeting arrives; a socket that is closed with unread bytes is reset.
            stream.set_nonblocking(true).expect("it is open");
            while stream.peek(&mut [0; 64]).unwrap_or(0) < wire::GREETING_BYTES {
                receive_packets(&mut near, &mut |_| {}, 64);
                assert!(clock::now().since(began) < LIMIT, "no greeting arrives");
            }
            stream.set_nonblocking(false).expect("it is open");
            if !accepts {
                continue;
            }
            let mut greeting = [0; wire::GREETING_BYTES];
            stream.read_exact(&mut greeting).expect("a greeting");
            assert_eq!(greeting, wire::greeting(near.token, 7));
            stream.write_all(&wire::accepted()).expect("it is open");
            while near.under_way(&there) > 0 {
                receive_packets(&mut near, &mut |_| {}, 64);
                assert!(clock::now().since(began) < LIMIT, "the packet does not leave");
            }
            let mut frame = [0; HEAD_BYTES + 6];
            stream.read_exact(&mut frame).expect("the packet");
            assert_eq!(&frame[HEAD_BYTES..], b"packet");
        }
    }

    /// A peer that listens no more.   Expect: writes are refused, and nothing is broken: without a connection
    /// nothing has been lost.
    #[test]
    fn writes_to_a_peer_that_cannot_be_reached_are_refused() {
        let [(mut near, there), (far, _)] = pair();
        drop(far);
        let (data, target) = (UserData::leaked(100), RemoteMemory { key: 1, address: 0 });
        let began = clock::now();
        while near.write(&there, &data, 0..100, target, 1) != Begun::Never {
            receive_packets(&mut near, &mut |_| {}, 64);
            assert!(clock::now().since(began) < LIMIT, "it is never given up");
        }
        assert_eq!((near.take_broken(), near.under_way(&there), near.poll_completion()), (None, 0, None));
        assert!(near.diagnostics().last_refusal.is_some_and(|why| why.contains("connect to")));
    }

    /// An end that makes no more connections for writes.   Expect: it invites only peers to which it has a
    /// connection, and refuses to write to others.
    #[test]
    fn connections_for_writes_are_limited() {
        let [(near, there), (mut far, back)] = pair();
        let mut near = near.with_connections_max(0);
        let (data, target) = (UserData::leaked(100), RemoteMemory { key: 1, address: 0 });
        assert!(!near.has_room_for(&there));
        assert_eq!(near.write(&there, &data, 0..100, target, 1), Begun::Never);
        assert_eq!(far.send(&back, &[1]).expect("its address"), Outcome::Sent);
        let began = clock::now();
        let mut arrived = 0;
        while arrived == 0 {
            receive_packets(&mut far, &mut |_| {}, 64);
            arrived += receive_packets(&mut near, &mut |_| {}, 64);
            assert!(clock::now().since(began) < LIMIT, "the packet does not arrive");
        }
        assert!(near.has_room_for(&there));
        assert_eq!(near.write(&there, &data, 0..100, target, 1), Begun::Yes);
    }

    /// Makes a connection by a packet, and returns when both ends have it.
    fn connect([near, far]: &mut [(Tcp, Address); 2]) {
        assert_eq!(near.0.send(&near.1, &[1]).expect("its address"), Outcome::Sent);
        let began = clock::now();
        let mut arrived = 0;
        while arrived == 0 || near.0.long_path(&near.1) != LongPath::Open {
            receive_packets(&mut near.0, &mut |_| {}, 64);
            arrived += receive_packets(&mut far.0, &mut |_| {}, 64);
            assert!(clock::now().since(began) < LIMIT, "no packet arrives");
        }
    }

    fn filled(bytes: usize, with: u8) -> UserData {
        let data = UserData::leaked(bytes);
        data.write(0, &vec![with; bytes]);
        data
    }

    fn contents(data: &UserData) -> Vec<u8> {
        let mut bytes = vec![0; data.len() as usize];
        data.read(0, &mut bytes);
        bytes
    }

    /// Looks until something has been written here, `bytes` bytes in all.
    fn await_written(tcp: &mut Tcp, bytes: u64) -> Registration {
        let began = clock::now();
        let mut all = 0;
        loop {
            receive_packets(tcp, &mut |_| {}, 64);
            if let Some(Written { registration, length, .. }) = tcp.poll_written() {
                all += length;
                if all == bytes {
                    return registration;
                }
            }
            assert!(clock::now().since(began) < LIMIT, "{all} of {bytes} bytes arrive");
        }
    }

    /// Unasked writes whose places are named before they come and after, a packet in the place of an expected
    /// write, and a write that was asked for.   Expect: each is where it belongs, and no memory else changes.
    #[test]
    fn unasked_writes_find_the_memory_that_is_named_before_or_after() {
        const BYTES: usize = 50_000;
        let mut ends = pair();
        connect(&mut ends);
        let [(near, there), (far, back)] = &mut ends;
        for (name, is_early) in [(7, true), (8, false), (9, true), (7, false)] {
            let (data, place) = (filled(BYTES, name as u8), filled(BYTES, 0));
            let expected = is_early.then(|| far.register_unasked(back, name, &place, BYTES as u64).expect("room"));
            let mut packets = 0;
            if name == 9 {
                // A packet comes where the write is expected.
                assert_eq!(near.send(there, &[5; 1000]).expect("its address"), Outcome::Sent);
                let began = clock::now();
                while packets == 0 {
                    packets += receive_packets(far, &mut |packet| assert_eq!(packet, [5; 1000]), 64);
                    assert!(clock::now().since(began) < LIMIT, "the packet does not arrive");
                }
            }
            assert_ne!(near.write_unasked(there, &data, name, 1), Unasked::Refused);
            let began = clock::now();
            while !is_early && far.memory.kept_bytes() < BYTES {
                receive_packets(near, &mut |_| {}, 64);
                receive_packets(far, &mut |_| {}, 64);
                assert!(clock::now().since(began) < LIMIT, "the write does not arrive");
            }
            let named =
                expected.unwrap_or_else(|| far.register_unasked(back, name, &place, BYTES as u64).expect("room"));
            assert_eq!(await_written(far, BYTES as u64), named);
            assert!(contents(&place) == contents(&data) && far.memory.kept_bytes() == 0, "{name}");
            far.deregister(named);
        }
        let (data, place) = (filled(BYTES, 3), filled(BYTES, 0));
        let (named, target) = far.register(&place, BYTES as u64).expect("room");
        far.expect(back, named);
        assert_eq!(near.write(there, &data, 0..BYTES as u64, target, 2), Begun::Yes);
        assert_eq!(await_written(far, BYTES as u64), named);
        assert!(contents(&place) == contents(&data));
    }

    /// A write whose bytes arrive in pieces that end anywhere, also in its head and behind it.   Expect: it
    /// is in its place, and the connection lasts.
    #[test]
    fn an_expected_write_may_arrive_in_any_pieces() {
        use std::io::Write as _;
        let mut ends = pair();
        connect(&mut ends);
        let [(near, _), (far, back)] = &mut ends;
        let stream =
            near.connections.iter().flatten().next().expect("a connection").stream.try_clone().expect("a copy");
        for (name, first) in [1, 3, 4, 27, 28, 29, 1000].into_iter().enumerate() {
            let place = filled(5000, 0);
            let named = far.register_unasked(back, name as u32, &place, 5000).expect("room");
            let write = Write { key: name as u64, address: 0, bytes: 5000, is_unasked: true };
            let bytes = [&write.head()[..], &[9; 5000]].concat();
            (&stream).write_all(&bytes[..first]).expect("it is open");
            for _ in 0..50 {
                receive_packets(far, &mut |_| {}, 64);
            }
            (&stream).write_all(&bytes[first..]).expect("it is open");
            assert_eq!(await_written(far, 5000), named, "{first}");
            assert!(contents(&place) == [9; 5000] && far.open_connections() == 1, "{first}");
            far.deregister(named);
        }
    }

    /// A peer that writes more than anybody has asked for, and more than it may.   Expect: its connection is
    /// closed, and no memory is taken for it.
    #[test]
    fn what_a_peer_may_write_unasked_is_limited() {
        let mut ends = pair();
        connect(&mut ends);
        let [(near, there), (far, _)] = &mut ends;
        let data = filled(EAGER_WRITE_BYTES_MAX as usize, 1);
        let began = clock::now();
        for name in 0.. {
            let _ = near.write_unasked(there, &data, name, 1);
            receive_packets(near, &mut |_| {}, 64);
            receive_packets(far, &mut |_| {}, 64);
            assert!(far.memory.kept_bytes() <= 2 * EAGER_WRITE_BYTES_MAX as usize);
            if far.rejected > 0 {
                break;
            }
            assert!(clock::now().since(began) < LIMIT, "it is never refused");
        }
    }

    /// A peer that listens no more.   Expect: it is told as broken, once.
    #[test]
    fn a_peer_that_is_gone_is_broken() {
        let [(mut near, there), (far, _)] = pair();
        drop(far);
        let began = clock::now();
        let broken = loop {
            let _ = near.send(&there, &[1]).expect("its address");
            receive_packets(&mut near, &mut |_| {}, 64);
            if let Some(broken) = near.take_broken() {
                break broken;
            }
            assert!(clock::now().since(began) < LIMIT, "it is never told");
        };
        assert_eq!((broken, near.take_broken(), near.under_way(&there)), (there, None, 0));
        assert!(near.diagnostics().last_refusal.is_some_and(|why| why.contains("refused")));
    }
}
