//! A device with its queues and peers. Only this module, the modules below it and `memory.rs` follow pointers
//! of the libraries.
//!
//! No call here waits: both channels are read without blocking, and events tell of slow work (addresses,
//! routes, connections).
#![allow(unsafe_code)]

mod accesses;
mod bound;
mod connections;
mod groups;
mod queues;
mod receiving;
mod rings;
mod sending;

pub(super) use bound::Bound;
use bound::scope_of;
use queues::{arm_queue, facts, make_queue_pair, poll_queue, post};

use super::api::{CmId, Completion, CompletionChannel, Cq, IBV_TRANSPORT_IWARP, Library, Pd, Srq, SrqWish};
use super::credits::{Controls, Credits, Grants, WINDOW_FIRST};
use super::kept::Kept;
use super::limits::{self, Limits, MESSAGE_BYTES, SENDS_MAX};
use super::memory::{ACCESSES_MAX, Packets, Placing};
use super::pairing::Pair;
use super::ring::{self, Cell, Far, Ring};
use crate::{sys, watch};
use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use weft_core::time::Duration;

/// Operations of a peer that are reserved for messages that this end has to send by itself.
const OPERATIONS_RESERVED: u32 = 4;
/// Completions that are read in a single call.
const BATCH: usize = 32;
/// Kinds of work that a completion's number names.
const RECEIVED: u64 = 0;
const SENT: u64 = 1;
const ACCESSED: u64 = 2;

/// Returns a completion's number, of three parts: the kind of work; the connection to the peer, so that a
/// completion of an earlier connection is recognized; the index.
fn number(what: u64, epoch: u32, index: usize) -> u64 {
    what << 56 | u64::from(epoch & 0x00ff_ffff) << 32 | index as u64
}

/// Returns an address in the kernel's form. `scope` is the interface of an address that only its link has.
fn socket_address(address: SocketAddr, scope: u32) -> libc::sockaddr_storage {
    // SAFETY: plain numbers, of which zeros are values.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let to = &raw mut storage;
    // SAFETY: the storage has room for an address of either family, and is aligned for it.
    unsafe {
        match address {
            SocketAddr::V4(address) => {
                let to = &mut *to.cast::<libc::sockaddr_in>();
                to.sin_family = libc::AF_INET as libc::sa_family_t;
                to.sin_port = address.port().to_be();
                to.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
            }
            SocketAddr::V6(address) => {
                let to = &mut *to.cast::<libc::sockaddr_in6>();
                to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                to.sin6_port = address.port().to_be();
                to.sin6_addr.s6_addr = address.ip().octets();
                to.sin6_scope_id =
                    if address.ip().is_unicast_link_local() || address.ip().is_multicast() { scope } else { 0 };
            }
        }
    }
    storage
}

fn failed(call: &str) -> String {
    let error = io::Error::last_os_error();
    format!("{call}: {error}{}", limits::locked_memory(error.raw_os_error(), sys::locked_memory_max()))
}

fn nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: no memory is involved.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        sys::check(flags)?;
        sys::check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))
    }
}

/// The peers that are given a ring, into which they write small packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rings {
    Nowhere,
    /// Peers with much traffic, while this process does not sleep.
    WherePaid,
    /// All peers, up to a limit, at once, and again after each sleep.
    Everywhere,
}

/// The use that the link makes of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// Most connections at a time.
    pub(super) connections: u32,
    /// True if memory of peers is written and read.
    pub(super) has_remote_memory: bool,
    pub(super) rings: Rings,
    /// Most bytes of registrations that are kept.
    pub(super) kept_bytes: u64,
    /// Number that each request for a connection must show.
    pub(super) token: u64,
}

/// A ring that a peer writes to, and its memory. The fields are dropped in this order.
struct OwnRing {
    ring: Ring,
    /// The ring's memory, only kept here; the ring has its address.
    _memory: Packets,
}

/// A peer: a process that packets are exchanged with.
struct Peer {
    name: SocketAddr,
    token: u64,
    pair: Pair,
    id: *mut CmId,
    /// Number of the connection to the peer, among all that there have been.
    epoch: u32,
    /// Packets that this end may send to the peer, and packets that the peer may send.
    credits: Credits,
    grants: Grants,
    /// Receives by which the peer's window has grown.
    grown: u32,
    /// All receives that the peer has been given.
    receives: u32,
    /// Operations to the peer that the device has.
    operations: u32,
    /// The packets and accesses among them.
    held: usize,
    /// True if some of them have failed.
    lost: bool,
    /// True if the connection is gone. Messages that have arrived by it are taken first.
    gone: bool,
    says: Controls,
    is_due: bool,
    broken: bool,
    used: u64,
    /// The last failure, for the user who reads that the connection is lost.
    warned: Option<String>,
    /// Packets that have gone to the peer, sent or written to its ring; then packets that have come from the
    /// peer.
    sent: u16,
    arrived: u16,
    /// The ring in this process that the peer writes to.
    ring: Option<OwnRing>,
    /// The peer's ring that this end writes to.
    far: Option<Far>,
    /// True if the peer has a receive beyond those of its window, for messages that tell of taken cells.
    has_extra: bool,
    /// Packets that were sent though they would have fitted in a cell, since this process last slept.
    /// `ring_after` is the number of them after which the peer is given a ring.
    small: u32,
    small_since: u32,
    ring_after: u32,
}

/// A hasher for numbers of queue pairs. The device makes the numbers, so no peer can choose numbers that
/// collide.
#[derive(Clone, Copy, Default)]
struct QueueHasher(u64);

impl Hasher for QueueHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A packet that is leaving.
#[derive(Clone, Copy)]
struct Leaving {
    peer: usize,
    epoch: u32,
    is_packet: bool,
    is_free: bool,
}

/// The device that packets leave and arrive by.
pub(super) struct Device {
    library: &'static Library,
    bound: Bound,
    /// The address where the device listens. Names are without interfaces, which are this machine's own.
    pub(super) name: SocketAddr,
    scope: u32,
    pub(super) token: u64,
    pub(super) device: String,
    pub(super) port: u8,
    pub(super) is_iwarp: bool,
    pub(super) message_max: u32,
    pub(super) limits: Limits,
    pd: *mut Pd,
    channel: *mut CompletionChannel,
    cq: *mut Cq,
    srq: *mut Srq,
    wake: Option<OwnedFd>,
    chunks: Vec<Packets>,
    /// Receives that are not posted.
    free_receives: Vec<usize>,
    /// The peer that each receive is posted to, where receives are not shared.
    posted_to: Vec<usize>,
    /// Receives that connections have been given, and those of them by which windows have grown.
    given: u32,
    grown: u32,
    /// The peer that has been asked to give receives back.
    reclaimed: Option<usize>,
    sends: Option<Packets>,
    leaving: Vec<Leaving>,
    free_sends: Vec<usize>,
    inline_max: usize,
    placing: Option<Placing>,
    pub(super) has_remote_memory: bool,
    /// The decision whether registrations are kept, and why not.
    pub(super) kept: Kept,
    peers: Vec<Peer>,
    by_name: HashMap<SocketAddr, usize>,
    by_qp: HashMap<u32, usize, BuildHasherDefault<QueueHasher>>,
    /// Peers that have a message to send; then peers that begin or end; then peers that are broken.
    due: Vec<usize>,
    changing: Vec<usize>,
    broken: VecDeque<usize>,
    /// Peers that have dropped their ends of other connections, and a bit for each of these rails.
    dropped: VecDeque<(u32, u16)>,
    connections: u32,
    looks: u32,
    clock: u64,
    /// Completions that were found before a sleep, or before a queue pair was closed.
    found: VecDeque<Completion>,
    /// Queue pairs that were closed while completions were looked at.
    gone_queues: Vec<u32>,
    must_look: bool,
    pub(super) rejected: u64,
    pub(super) last_error: Option<String>,
    pub(super) rings: Rings,
    /// Peers that may be writing to their rings.
    looked_at: Vec<usize>,
    cell: Box<Cell>,
    /// Looks at rings since the last look at completions.
    ring_looks: u32,
    /// A timer that runs out while a peer that was asked to stop has not answered, and when a connection's
    /// deadline comes.
    timer: Option<OwnedFd>,
    is_timer_set: bool,
    sleep: Duration,
    sleeps: u32,
    /// Packets that have been written to rings of peers.
    pub(super) written: u64,
    /// Multicast groups, once one has been joined; the room for datagrams to them; the reason when there is
    /// none.
    groups: Option<Box<groups::Groups>>,
    datagrams: Option<groups::Room>,
    no_datagrams: Option<String>,
    /// Space for completions that are read.
    batch: Option<Box<[Completion; BATCH]>>,
}

// SAFETY: the libraries allow any thread to use every object, and only one thread at a time has this value.
unsafe impl std::marker::Send for Device {}

impl Drop for Device {
    fn drop(&mut self) {
        for peer in 0..self.peers.len() {
            self.drop_connection(peer);
        }
        if let Some(placing) = &mut self.placing {
            placing.close();
        }
        self.groups = None;
        let library = self.library;
        // SAFETY: the queue pairs are closed. Each object goes before those that it was made of, and packets'
        // registrations before their domain.
        unsafe {
            if !self.srq.is_null() {
                (library.destroy_srq)(self.srq);
            }
            if !self.cq.is_null() {
                (library.destroy_cq)(self.cq);
            }
            if !self.channel.is_null() {
                (library.destroy_comp_channel)(self.channel);
            }
            self.chunks.clear();
            self.sends = None;
            if !self.pd.is_null() {
                (library.dealloc_pd)(self.pd);
            }
        }
    }
}

impl Device {
    /// Opens the device that has this address.
    pub(super) fn open(
        library: &'static Library,
        bound: Bound,
        address: SocketAddr,
        &Use { connections, has_remote_memory, rings, kept_bytes, token }: &Use,
    ) -> Result<Self, String> {
        let (device, port) = bound.device();
        let context = bound.context();
        let (facts, port_facts) = facts(library, context, port)?;
        let asked = limits::Device {
            max_qp: facts.max_qp,
            max_qp_wr: facts.max_qp_wr,
            max_cqe: facts.max_cqe,
            max_srq: facts.max_srq,
            max_srq_wr: facts.max_srq_wr,
            max_reads: facts.max_qp_rd_atom.min(facts.max_qp_init_rd_atom),
        };
        let limits = limits::limits(&asked, ACCESSES_MAX, connections)?;
        // SAFETY: the device is open.
        let is_iwarp = unsafe { (*(*context).device).transport } == IBV_TRANSPORT_IWARP;
        let mut this = Self {
            library,
            bound,
            name: (address.ip(), 0).into(),
            scope: scope_of(address),
            token,
            device,
            port,
            is_iwarp,
            message_max: port_facts.max_message,
            limits,
            pd: ptr::null_mut(),
            channel: ptr::null_mut(),
            cq: ptr::null_mut(),
            srq: ptr::null_mut(),
            wake: None,
            chunks: Vec::new(),
            free_receives: Vec::new(),
            posted_to: Vec::new(),
            given: 0,
            grown: 0,
            reclaimed: None,
            sends: None,
            leaving: vec![Leaving { peer: 0, epoch: 0, is_packet: false, is_free: true }; SENDS_MAX],
            free_sends: (0..SENDS_MAX).collect(),
            inline_max: 0,
            placing: None,
            has_remote_memory,
            kept: Kept::new(library, kept_bytes, has_remote_memory),
            peers: Vec::new(),
            by_name: HashMap::new(),
            by_qp: HashMap::default(),
            due: Vec::new(),
            changing: Vec::new(),
            broken: VecDeque::new(),
            dropped: VecDeque::new(),
            connections: 0,
            looks: 0,
            clock: 0,
            found: VecDeque::new(),
            gone_queues: Vec::new(),
            must_look: true,
            rejected: 0,
            last_error: None,
            rings,
            looked_at: Vec::new(),
            cell: Box::new(Cell::new()),
            ring_looks: 0,
            timer: None,
            is_timer_set: false,
            sleep: rings::SLEEP_MIN,
            sleeps: 0,
            written: 0,
            groups: None,
            datagrams: groups::room(&facts, &port_facts, is_iwarp),
            no_datagrams: None,
            batch: Some(Box::new([Completion::default(); BATCH])),
        };
        this.make()?;
        Ok(this)
    }

    fn make(&mut self) -> Result<(), String> {
        let (library, context) = (self.library, self.bound.context());
        // SAFETY: each object is made of earlier ones, all of which stay open until `drop`.
        unsafe {
            self.pd = (library.alloc_pd)(context);
            if self.pd.is_null() {
                return Err(failed("ibv_alloc_pd"));
            }
            self.channel = (library.create_comp_channel)(context);
            if self.channel.is_null() {
                return Err(failed("ibv_create_comp_channel"));
            }
            self.cq = (library.create_cq)(context, self.limits.completions as c_int, ptr::null_mut(), self.channel, 0);
            if self.cq.is_null() {
                return Err(failed("ibv_create_cq"));
            }
            if self.limits.shared {
                let mut wish = SrqWish::default();
                (wish.max_wr, wish.max_sge) = (self.limits.receives, 1);
                self.srq = (library.create_srq)(self.pd, &raw mut wish);
                // A device may report shared receive queues, and have none for this transport.
                self.limits.shared = !self.srq.is_null();
            }
            let descriptors = [(*self.bound.channel).fd, (*self.channel).fd];
            for fd in descriptors {
                nonblocking(fd).map_err(|error| format!("fcntl: {error}"))?;
            }
            let timer = watch::timer().map_err(|error| format!("timerfd_create: {error}"))?;
            let wakes = [descriptors[0], descriptors[1], timer.as_raw_fd()];
            self.wake = Some(watch::any_of(&wakes).map_err(|error| format!("epoll_create: {error}"))?);
            self.timer = Some(timer);
        }
        self.name.set_port(self.bound.listen()?);
        self.sends = Some(self.packets(SENDS_MAX)?);
        if self.has_remote_memory {
            self.placing = Some(Placing::new(library, self.pd, self.is_iwarp, self.kept.monitor()));
        }
        Ok(())
    }

    fn packets(&mut self, count: usize) -> Result<Packets, String> {
        let (library, pd) = (self.library, self.pd);
        let make = || Packets::new(library, pd, count, MESSAGE_BYTES);
        let made = match make() {
            Err(_) if self.placing.as_mut().is_some_and(Placing::give_back) => make(),
            other => other,
        };
        made.map_err(|error| {
            let why = limits::locked_memory(error.raw_os_error(), sys::locked_memory_max());
            format!("{} KiB cannot be registered (ibv_reg_mr): {error}{why}", count * MESSAGE_BYTES / 1024)
        })
    }

    /// Returns the descriptor that is readable when the link has something to look at.
    pub(super) fn fd(&self) -> RawFd {
        self.wake.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Learns the address where a peer listens, and returns the peer's number.
    pub(super) fn insert(&mut self, listens: SocketAddr, token: u64) -> usize {
        let name = SocketAddr::from((listens.ip(), listens.port()));
        if let Some(known) = self.by_name.get(&name) {
            return *known;
        }
        let index = self.peers.len();
        self.peers.push(Peer {
            name,
            token,
            pair: Pair::new(self.name > name),
            id: ptr::null_mut(),
            epoch: 0,
            credits: Credits::default(),
            grants: Grants::new(WINDOW_FIRST),
            grown: 0,
            receives: 0,
            operations: 0,
            held: 0,
            lost: false,
            gone: false,
            says: Controls::default(),
            is_due: false,
            broken: false,
            used: 0,
            warned: None,
            sent: 0,
            arrived: 0,
            ring: None,
            far: None,
            has_extra: false,
            small: 0,
            small_since: 0,
            ring_after: if self.rings == Rings::Everywhere { 0 } else { ring::AFTER },
        });
        self.by_name.insert(name, index);
        index
    }
}
