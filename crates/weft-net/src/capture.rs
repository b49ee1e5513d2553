//! A carrier that wraps another one and writes the packets that it sends and receives to a file for Wireshark
//! (`WEFT_CAPTURE`).
//!
//! All links of a process write to a single file, which holds the latest packets. A full file is renamed, and
//! replaces the previous file of that name. Only the beginning of a packet of bulk data is kept. If the file
//! cannot be written, the capture ends, and the job goes on.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use weft_core::connection;
use weft_core::pcapng::{self, Direction};
use weft_core::wire::{self, Channel, Kind, Packet};

use crate::carrier::{self, Address, Arrival, Carrier, FabricAddress, Outcome, VerbsAddress};
use crate::clock;
use crate::error::reason;
use crate::{ethernet, sys};

/// Bytes that are kept of a packet without readable messages: all headers, and the beginning of the data that
/// they announce.
pub const PACKET_BYTES_MAX: usize = 256;
/// Most bytes of a file; there are at most two files.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// Most bytes that wait for the link to be idle before they are written.
const PENDING_BYTES_MAX: usize = 64 << 10;
/// Suffix of the previous file's name.
const BEFORE: &str = ".1";

/// The function that is told, once, why a capture has ended before the job.
pub type OnProblem = Box<dyn Fn(&str) + Send>;

/// The recorder: the file, and the bytes that have not been written to it yet.
pub struct Recorder {
    path: PathBuf,
    /// The file. None once it could not be written.
    file: Option<File>,
    /// Names of the links, for the next file.
    interfaces: Vec<String>,
    pending: Vec<u8>,
    frame: Vec<u8>,
    written: u64,
    file_bytes_max: u64,
    /// Offset that turns the monotonic clock into nanoseconds after 1970.
    origin_ns: u64,
    on_problem: OnProblem,
}

/// A recorder that several links share.
pub type SharedRecorder = Arc<Mutex<Recorder>>;

impl Recorder {
    /// Creates a new file that only its owner may read, because it holds contents of messages.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path, on_problem: OnProblem) -> io::Result<SharedRecorder> {
        Self::with_limit(path, on_problem, FILE_BYTES_MAX)
    }

    fn with_limit(path: &Path, on_problem: OnProblem, file_bytes_max: u64) -> io::Result<SharedRecorder> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let mut pending = Vec::new();
        pcapng::section(&mut pending);
        Ok(Arc::new(Mutex::new(Self {
            path: path.to_owned(),
            file: Some(open(path)?),
            interfaces: Vec::new(),
            pending,
            frame: Vec::new(),
            written: 0,
            file_bytes_max,
            origin_ns: since_1970.saturating_sub(clock::now().0),
            on_problem,
        })))
    }

    fn add_interface(&mut self, name: &str) -> u32 {
        pcapng::interface(&mut self.pending, name);
        self.interfaces.push(name.to_owned());
        self.interfaces.len() as u32 - 1
    }

    fn record(&mut self, interface: u32, direction: Direction, (from, to): (&Address, &Address), packet: &[u8]) {
        if self.file.is_none() {
            return;
        }
        let Self { frame, pending, .. } = self;
        frame.clear();
        headers(frame, from, to, packet.len());
        let length = frame.len() + packet.len();
        frame.extend(&packet[..kept(packet)]);
        let at_ns = self.origin_ns.saturating_add(clock::now().0);
        pcapng::packet(pending, interface, at_ns, direction, frame, length);
        if pending.len() >= PENDING_BYTES_MAX {
            self.flush();
        }
    }

    /// Writes the waiting bytes.
    fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        self.written += self.pending.len() as u64;
        let done = sys::check_file_size(self.written).and_then(|()| file.write_all(&self.pending));
        self.pending.clear();
        let done = done.and_then(|()| if self.written < self.file_bytes_max { Ok(()) } else { self.turn_over() });
        if let Err(why) = done {
            self.file = None;
            self.pending = Vec::new();
            let path = self.path.display();
            (self.on_problem)(&format!(
                "{path} cannot be written ({}): no more packets are captured; the job goes on",
                reason(&why)
            ));
        }
    }

    /// Begins a new file when the file is full: the full one becomes the previous file.
    fn turn_over(&mut self) -> io::Result<()> {
        let mut before = OsString::from(&self.path);
        before.push(BEFORE);
        fs::rename(&self.path, before)?;
        self.file = Some(open(&self.path)?);
        self.written = 0;
        pcapng::section(&mut self.pending);
        self.interfaces.iter().for_each(|name| pcapng::interface(&mut self.pending, name));
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Creates a new file in place of an existing one. In a directory that is open to all, another user may have
/// put a file there, or a link to another file: it is removed, and not written to.
fn open(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_file() || found.is_symlink()) {
        fs::remove_file(path)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Returns the bytes that are kept of a packet: messages whole, since many may share it.
fn kept(packet: &[u8]) -> usize {
    match Packet::parse(packet) {
        _ if connection::claims_messages(packet) => packet.len(),
        Some((Packet { kind: Kind::Numbered { channel: Channel::Messages { .. }, .. }, .. }, _)) => packet.len(),
        _ => packet.len().min(PACKET_BYTES_MAX),
    }
}

/// Writes the headers that stand in front of a packet on its way: those of Ethernet and of Weft's raw frames,
/// or those of Ethernet, IP and UDP.
fn headers(out: &mut Vec<u8>, from: &Address, to: &Address, length: usize) {
    match (from, to) {
        (Address::Udp(from), Address::Udp(to))
        | (
            Address::Fabric(FabricAddress { ip: Some(from), .. }),
            Address::Fabric(FabricAddress { ip: Some(to), .. }),
        ) => pcapng::udp_headers(out, *from, *to, 0, length),
        (Address::Verbs(VerbsAddress { listens: from, .. }), Address::Verbs(VerbsAddress { listens: to, .. })) => {
            pcapng::udp_headers(out, *from, *to, 0, length)
        }
        (Address::Tcp(from), Address::Tcp(to)) => pcapng::udp_headers(out, from.listens, to.listens, 0, length),
        (Address::Ethernet(from), Address::Ethernet(to)) => {
            pcapng::ethernet_header(out, from.mac, to.mac, ethernet::ETHER_TYPE);
            out.extend(ethernet::share_of_header(to.port, length as u16));
        }
        // No link has such a pair of addresses; these headers let a reader see the packet.
        _ => pcapng::udp_headers(out, NOWHERE, NOWHERE, 0, length),
    }
}

const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The two ends of a link to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The address of this end.
    pub own: Address,
    /// The address of the peer.
    pub peer: Address,
}

/// A link whose packets are written to a file.
pub struct Capture<D> {
    inner: D,
    recorder: SharedRecorder,
    interface: u32,
    /// The two ends of the link to each peer, by the peer's index in the job. An arriving packet tells only
    /// the index that its sender claims. If several ways lead to that peer, the packet is taken to have come
    /// the first way.
    ends: Vec<Option<Ends>>,
    own: HashMap<Address, Address>,
}

impl<D: Carrier> Capture<D> {
    /// Wraps a link that leads to these peers, by their index in the job. Several ways may lead to a peer,
    /// the best first.
    pub fn new(inner: D, recorder: &SharedRecorder, ends: Vec<Vec<Ends>>) -> Self {
        let interface = lock(recorder).add_interface(inner.attributes().name);
        let own = ends.iter().flatten().map(|ends| (ends.peer, ends.own)).collect();
        let ends = ends.iter().map(|ends| ends.first().copied()).collect();
        Self { inner, recorder: recorder.clone(), interface, ends, own }
    }

    fn sent(&mut self, to: &Address, packet: &[u8]) {
        let own = self.own.get(to).unwrap_or(to);
        lock(&self.recorder).record(self.interface, Direction::Out, (own, to), packet);
    }
}

fn lock(recorder: &SharedRecorder) -> std::sync::MutexGuard<'_, Recorder> {
    recorder.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Carrier> carrier::Wrapper for Capture<D> {
    type Inner = D;

    #[inline]
    fn inner(&self) -> &D {
        &self.inner
    }

    #[inline]
    fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let outcome = self.inner.send(to, packet)?;
        if outcome == Outcome::Sent {
            self.sent(to, packet);
        }
        Ok(outcome)
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        let taken = self.inner.send_train(to, train, segment)?;
        for packet in train[..taken].chunks(segment.max(1)) {
            self.sent(to, packet);
        }
        Ok(taken)
    }

    /// Records arriving packets. When no packet has arrived, it writes what was recorded.
    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        let Self { inner, recorder, interface, ends, .. } = self;
        let nowhere = Ends { own: NOWHERE.into(), peer: NOWHERE.into() };
        let note = |packet: &[u8]| {
            let claimed = wire::peek_sender(packet).and_then(|peer| *ends.get(peer as usize)?);
            let ends = claimed.unwrap_or(nowhere);
            lock(recorder).record(*interface, Direction::In, (&ends.peer, &ends.own), packet);
        };
        let mut both = |arrival: Arrival<'_>| {
            arrival.packets().for_each(note);
            on_arrival(arrival);
        };
        let count = inner.receive(&mut both, limit);
        if count == 0 {
            let mut recorder = lock(&self.recorder);
            if !recorder.pending.is_empty() {
                recorder.flush();
            }
        }
        count
    }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
