//! A device with what it needs: the only place, with `memory.rs`, that follows pointers of the libraries.
//!
//! Nothing here waits: both channels are read without blocking, and what takes time (addresses, routes, connections) is told of by events.
#![allow(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use weft_engine::memory::UserData;

use super::api::{
    CmEvent, CmId, Completion, CompletionChannel, ConnectionWish, Context, Cq, DeviceFacts, EVENT_ADDR_ERROR,
    EVENT_ADDR_RESOLVED, EVENT_CONNECT_ERROR, EVENT_CONNECT_REQUEST, EVENT_DEVICE_REMOVAL, EVENT_DISCONNECTED,
    EVENT_ESTABLISHED, EVENT_REJECTED, EVENT_ROUTE_ERROR, EVENT_ROUTE_RESOLVED, EVENT_UNREACHABLE, EventChannel,
    IBV_QPT_RC, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_TRANSPORT_IWARP, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR,
    IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_SEND, Library, Pd, PortFacts, Qp, QpCapacity, QpWish, RDMA_PS_TCP,
    Receive, Send, Srq, SrqWish, text,
};
use super::limits::{self, CHUNK, INLINE_WANTED, Limits, MESSAGE_BYTES, SENDS_MAX};
use super::memory::{ACCESSES_MAX, Access, Packets, Placing};
use super::pairing::{Action, Event, Pair, Reason, State};
use super::wire::{GREETING, Greeting, HEADER, Kind};
use crate::datagrams::{Begun, Exposure, RemoteMemory};
use crate::{clock, sys, watch};

/// Completions that are read in one go.
const BATCH: usize = 32;
/// The events of connections are looked at once in so many looks, unless some are expected: each look is a system call.
const EVENTS_EVERY: u32 = 64;
/// Events that one look takes at most.
const EVENTS_MAX: usize = 64;
/// Requests for connections that the kernel keeps.
const BACKLOG: c_int = 1024;
/// How long the resolution of an address or a route may take, in milliseconds: the pair tries again.
const RESOLVE_MS: c_int = 5000;
/// Sends that only what this end has to say by itself may use.
const SENDS_RESERVED: usize = 16;
/// The same of the operations of one peer.
const OPERATIONS_RESERVED: u32 = 4;
/// A busy receiver is asked again for ever: with room granted it is never busy for long.
const RNR_FOREVER: u8 = 7;
/// Whose number a completion has.
const RECEIVED: u64 = 0;
const SENT: u64 = 1;
const ACCESSED: u64 = 2;

/// A completion's number: what it is of, which connection to the peer (so that what is left of an earlier one is told), and the place.
fn number(what: u64, epoch: u32, place: usize) -> u64 {
    what << 56 | u64::from(epoch & 0x00ff_ffff) << 32 | place as u64
}

/// An address as the kernel has it.
fn socket_address(address: SocketAddr) -> libc::sockaddr_storage {
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
                to.sin6_scope_id = address.scope_id();
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

/// Where an address leads to a device: the identifier that is bound there.
pub(super) struct Bound {
    library: &'static Library,
    channel: *mut EventChannel,
    id: *mut CmId,
}

impl Drop for Bound {
    fn drop(&mut self) {
        // SAFETY: both are open, if they are not null, and nobody else closes them.
        unsafe {
            if !self.id.is_null() {
                (self.library.destroy_id)(self.id);
            }
            if !self.channel.is_null() {
                (self.library.destroy_event_channel)(self.channel);
            }
        }
    }
}

impl Bound {
    /// The device behind an address of this machine, or why there is none.
    pub(super) fn new(library: &'static Library, ip: IpAddr) -> Result<Self, String> {
        let mut this = Self { library, channel: ptr::null_mut(), id: ptr::null_mut() };
        let mut address = socket_address((ip, 0).into());
        // SAFETY: what is passed lives while the calls run, and each object is made of those before.
        unsafe {
            this.channel = (library.create_event_channel)();
            if this.channel.is_null() {
                return Err(failed("rdma_create_event_channel"));
            }
            if (library.create_id)(this.channel, &raw mut this.id, ptr::null_mut(), RDMA_PS_TCP) != 0 {
                this.id = ptr::null_mut();
                return Err(failed("rdma_create_id"));
            }
            if (library.bind_addr)(this.id, (&raw mut address).cast()) != 0 {
                return Err(failed(&format!("rdma_bind_addr to {ip}")));
            }
            if (*this.id).verbs.is_null() {
                return Err(format!("no RDMA device has the address {ip}"));
            }
        }
        Ok(this)
    }

    fn context(&self) -> *mut Context {
        // SAFETY: the identifier is open, and bound to a device.
        unsafe { (*self.id).verbs }
    }

    /// The device's name, and its port.
    pub(super) fn device(&self) -> (String, u8) {
        // SAFETY: as above; names end with a zero.
        unsafe { (text((*(*self.context()).device).name.as_ptr()), (*self.id).port) }
    }
}

/// One who packets are exchanged with.
struct Peer {
    name: SocketAddr,
    token: u64,
    pair: Pair,
    id: *mut CmId,
    /// Which of the connections to it this is.
    epoch: u32,
    /// Packets that may be sent to it.
    credits: u16,
    /// Its packets that it has not been told to be received.
    owed: u16,
    /// What it may have on its way to this end, and the receives behind that.
    window: u16,
    receives: u32,
    /// Operations that the device has.
    operations: u32,
    /// Packets and accesses among them.
    held: usize,
    /// Some of them have failed.
    lost: bool,
    /// The connection is gone; what has arrived of it is taken first.
    gone: bool,
    /// What is to be said: each at most once at a time.
    says: VecDeque<Kind>,
    is_due: bool,
    broken: bool,
    used: u64,
    /// Packets to it that can be received by the smaller of both ends.
    warned: Option<String>,
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
    pub(super) name: SocketAddr,
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
    /// Receives that nobody posts now.
    free_receives: Vec<usize>,
    /// Without shared receives: whose each is.
    posted_to: Vec<usize>,
    /// Receives that connections have been given.
    given: u32,
    sends: Option<Packets>,
    leaving: Vec<Leaving>,
    free_sends: Vec<usize>,
    inline_max: usize,
    placing: Option<Placing>,
    pub(super) places: bool,
    peers: Vec<Peer>,
    by_name: HashMap<SocketAddr, usize>,
    by_qp: HashMap<u32, usize>,
    /// Peers that have something to say, that begin or end, or that are broken.
    due: Vec<usize>,
    changing: Vec<usize>,
    broken: VecDeque<usize>,
    connections: u32,
    looks: u32,
    clock: u64,
    /// Completions that were found before a sleep.
    found: VecDeque<Completion>,
    must_look: bool,
    pub(super) rejected: u64,
    pub(super) last_error: Option<String>,
}

// SAFETY: the libraries allow every object to be used by any thread, and whoever has this is one at a time.
unsafe impl std::marker::Send for Device {}

impl Drop for Device {
    fn drop(&mut self) {
        for peer in 0..self.peers.len() {
            self.drop_connection(peer);
        }
        if let Some(placing) = &mut self.placing {
            placing.close();
        }
        let library = self.library;
        // SAFETY: the queue pairs are closed, and each object before those that it was made of; packets' registrations before their domain.
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
        ip: IpAddr,
        (connections, places, token): (u32, bool, u64),
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
            name: (ip, 0).into(),
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
            sends: None,
            leaving: vec![Leaving { peer: 0, epoch: 0, is_packet: false, is_free: true }; SENDS_MAX],
            free_sends: (0..SENDS_MAX).collect(),
            inline_max: 0,
            placing: None,
            places,
            peers: Vec::new(),
            by_name: HashMap::new(),
            by_qp: HashMap::new(),
            due: Vec::new(),
            changing: Vec::new(),
            broken: VecDeque::new(),
            connections: 0,
            looks: 0,
            clock: 0,
            found: VecDeque::new(),
            must_look: true,
            rejected: 0,
            last_error: None,
        };
        this.make()?;
        Ok(this)
    }

    fn make(&mut self) -> Result<(), String> {
        let (library, context) = (self.library, self.bound.context());
        // SAFETY: each object is made of those before, all of which stay open until `drop`.
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
                // A device may say that it has some, and have none for this transport.
                self.limits.shared = !self.srq.is_null();
            }
            let descriptors = [(*self.bound.channel).fd, (*self.channel).fd];
            for fd in descriptors {
                nonblocking(fd).map_err(|error| format!("fcntl: {error}"))?;
            }
            self.wake = Some(watch::any_of(&descriptors).map_err(|error| format!("epoll_create: {error}"))?);
            if (library.listen)(self.bound.id, BACKLOG) != 0 {
                return Err(failed("rdma_listen"));
            }
            self.name.set_port(u16::from_be((library.get_src_port)(self.bound.id)));
        }
        self.sends = Some(self.packets(SENDS_MAX)?);
        if self.places {
            self.placing = Some(Placing::new(library, self.pd, self.is_iwarp));
        }
        Ok(())
    }

    fn packets(&self, count: usize) -> Result<Packets, String> {
        Packets::new(self.library, self.pd, count, MESSAGE_BYTES).map_err(|error| {
            let why = limits::locked_memory(error.raw_os_error(), sys::locked_memory_max());
            format!("{} KiB cannot be registered (ibv_reg_mr): {error}{why}", count * MESSAGE_BYTES / 1024)
        })
    }

    /// Readable when something is to be looked at.
    pub(super) fn fd(&self) -> RawFd {
        self.wake.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Learns where a peer listens: its number.
    pub(super) fn insert(&mut self, name: SocketAddr, token: u64) -> usize {
        if let Some(known) = self.by_name.get(&name) {
            return *known;
        }
        let place = self.peers.len();
        self.peers.push(Peer {
            name,
            token,
            pair: Pair::new(self.name > name),
            id: ptr::null_mut(),
            epoch: 0,
            credits: 0,
            owed: 0,
            window: 0,
            receives: 0,
            operations: 0,
            held: 0,
            lost: false,
            gone: false,
            says: VecDeque::new(),
            is_due: false,
            broken: false,
            used: 0,
            warned: None,
        });
        self.by_name.insert(name, place);
        place
    }

    // ---- connections

    fn event(&mut self, peer: usize, event: Event, request: Option<(*mut CmId, Greeting, (u8, u8))>) {
        let now = clock::now();
        match self.peers[peer].pair.on(event, now) {
            Action::Nothing => {}
            Action::Connect => {
                self.drop_connection(peer);
                if let Err(why) = self.connect(peer) {
                    self.fail(peer, Event::Failed, &why);
                }
            }
            Action::Accept => {
                self.drop_connection(peer);
                let Some(request) = request else { return };
                if let Err(why) = self.accept(peer, request) {
                    self.fail(peer, Event::Failed, &why);
                }
            }
            Action::Refuse(reason) => {
                if let Some((id, ..)) = request {
                    self.refuse(id, self.peers[peer].token, reason);
                }
            }
            Action::Greet => self.say(peer, Kind::First),
            Action::Drop => self.drop_connection(peer),
            Action::Lose => self.lose(peer),
        }
        if !self.changing.contains(&peer) && self.is_changing(peer) {
            self.changing.push(peer);
        }
    }

    fn is_changing(&self, peer: usize) -> bool {
        let Peer { pair, gone, .. } = &self.peers[peer];
        pair.is_beginning() || pair.state() == State::Leaving || *gone
    }

    /// An event with a sentence that the user reads if it is the last.
    fn fail(&mut self, peer: usize, event: Event, why: &str) {
        self.peers[peer].warned = Some(why.to_owned());
        self.event(peer, event, None);
    }

    fn lose(&mut self, peer: usize) {
        self.drop_connection(peer);
        let (own, device) = (self.name, &self.device);
        let Peer { name, warned, broken, .. } = &mut self.peers[peer];
        let why = warned.take().unwrap_or_else(|| "it was closed while packets were in it".to_owned());
        self.last_error = Some(format!("the RDMA connection from {own} ({device}) to {name} is lost: {why}"));
        if !std::mem::replace(broken, true) {
            self.broken.push_back(peer);
        }
    }

    fn connect(&mut self, peer: usize) -> Result<(), String> {
        let library = self.library;
        let mut from = socket_address((self.name.ip(), 0).into());
        let mut to = socket_address(self.peers[peer].name);
        let mut id = ptr::null_mut();
        // SAFETY: the channel is open, and the addresses live while the calls run.
        unsafe {
            let context = (peer + 1) as *mut c_void;
            if (library.create_id)(self.bound.channel, &raw mut id, context, RDMA_PS_TCP) != 0 {
                return Err(failed("rdma_create_id"));
            }
            self.peers[peer].id = id;
            let (from, to) = ((&raw mut from).cast(), (&raw mut to).cast());
            if (library.resolve_addr)(id, from, to, RESOLVE_MS) != 0 {
                return Err(failed("rdma_resolve_addr"));
            }
        }
        Ok(())
    }

    /// Takes receives from those that are there, or makes more, and the queue pair.
    fn make_queues(&mut self, peer: usize, id: *mut CmId) -> Result<(), String> {
        // SAFETY: the identifier is open.
        if unsafe { (*id).verbs } != self.bound.context() {
            return Err("its address is reached by another RDMA device".to_owned());
        }
        self.close_unused();
        let mut receives = limits::share(&self.limits, self.peers.len() as u32);
        let left = self.limits.receives.saturating_sub(self.given);
        receives = receives.min(left & !1);
        if receives < limits::least() {
            return Err("there are too many connections at a time".to_owned());
        }
        self.reserve(receives)?;
        let own_receives = if self.limits.shared { 0 } else { receives };
        let mut inline = INLINE_WANTED;
        let operations = self.limits.operations;
        loop {
            let capacity = QpCapacity {
                max_send_wr: operations,
                max_recv_wr: own_receives,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: inline,
            };
            let mut wish = QpWish {
                context: ptr::null_mut(),
                send_cq: self.cq,
                recv_cq: self.cq,
                srq: self.srq,
                capacity,
                kind: IBV_QPT_RC,
                signal_all: 0,
            };
            // SAFETY: all objects are open and of this device.
            if unsafe { (self.library.create_qp)(id, self.pd, &raw mut wish) } == 0 {
                // What is granted counts, not what was asked for.
                self.inline_max = wish.capacity.max_inline_data as usize;
                break;
            }
            if inline == 0 {
                return Err(failed("rdma_create_qp"));
            }
            inline = 0;
        }
        // SAFETY: it has just been made.
        let qp = unsafe { (*(*id).qp).number };
        self.by_qp.insert(qp, peer);
        self.connections += 1;
        self.given += receives;
        let place = &mut self.peers[peer];
        (place.receives, place.window) = (receives, limits::window(receives));
        (place.owed, place.operations, place.held) = (0, 0, 0);
        (place.lost, place.gone) = (false, false);
        place.says.clear();
        if !self.limits.shared {
            for _ in 0..receives {
                let Some(receive) = self.free_receives.pop() else { break };
                self.post_receive(receive, peer);
            }
        }
        Ok(())
    }

    /// There are receives for so many more.
    fn reserve(&mut self, receives: u32) -> Result<(), String> {
        while (self.chunks.len() as u32 * CHUNK) < (self.given + receives).min(self.limits.receives) {
            let first = self.chunks.len() * CHUNK as usize;
            let packets = self.packets(CHUNK as usize)?;
            let count = packets.count();
            self.chunks.push(packets);
            self.posted_to.resize(first + count, usize::MAX);
            for place in first..first + count {
                if !self.limits.shared || place >= self.limits.receives as usize {
                    self.free_receives.push(place);
                } else {
                    self.post_receive(place, usize::MAX);
                }
            }
        }
        Ok(())
    }

    /// Makes room for one more connection: that which was not used for longest is asked to close.
    fn close_unused(&mut self) {
        if self.connections < self.limits.connections {
            return;
        }
        let is_unused = |peer: &&Peer| {
            peer.pair.state() == State::Ready
                && peer.held == 0
                && peer.says.is_empty()
                && peer.credits > 0
                && !peer.gone
        };
        let longest = self.peers.iter().filter(is_unused).map(|peer| peer.used).min();
        let Some(place) =
            longest.and_then(|used| self.peers.iter().position(|peer| peer.used == used && is_unused(&peer)))
        else {
            return;
        };
        self.event(place, Event::Unused, None);
        self.say(place, Kind::Close);
    }

    fn greeting(&self, peer: usize) -> [u8; GREETING] {
        let Peer { token, window, .. } = &self.peers[peer];
        Greeting { name: self.name, token: *token, window: *window, refusal: None }.encode()
    }

    fn wish(&self, private: &[u8], (responder_resources, initiator_depth): (u8, u8)) -> ConnectionWish {
        ConnectionWish {
            private_data: private.as_ptr().cast(),
            private_bytes: private.len() as u8,
            responder_resources: responder_resources.min(self.limits.reads),
            initiator_depth: initiator_depth.min(self.limits.reads),
            flow_control: 1,
            retries: 7,
            rnr_retries: RNR_FOREVER,
            srq: u8::from(self.limits.shared),
            qp_number: 0,
        }
    }

    fn request(&mut self, peer: usize) -> Result<(), String> {
        let id = self.peers[peer].id;
        self.make_queues(peer, id)?;
        let private = self.greeting(peer);
        let mut wish = self.wish(&private, (u8::MAX, u8::MAX));
        // SAFETY: the identifier has a queue pair; the greeting lives while the call runs.
        match unsafe { (self.library.connect)(id, &raw mut wish) } {
            0 => Ok(()),
            _ => Err(failed("rdma_connect")),
        }
    }

    fn accept(&mut self, peer: usize, (id, greeting, reads): (*mut CmId, Greeting, (u8, u8))) -> Result<(), String> {
        self.peers[peer].id = id;
        // SAFETY: it is a request's, and open.
        unsafe { (*id).context = (peer + 1) as *mut c_void };
        self.make_queues(peer, id)?;
        self.peers[peer].credits = greeting.window;
        let private = self.greeting(peer);
        let mut wish = self.wish(&private, reads);
        // SAFETY: as for a request.
        match unsafe { (self.library.accept)(id, &raw mut wish) } {
            0 => Ok(()),
            _ => Err(failed("rdma_accept")),
        }
    }

    fn refuse(&mut self, id: *mut CmId, token: u64, reason: Reason) {
        let private = Greeting { name: self.name, token, window: 0, refusal: Some(reason) }.encode();
        // SAFETY: a request that nobody has accepted; it is forgotten here.
        unsafe {
            (self.library.reject)(id, private.as_ptr().cast(), private.len() as u8);
            (self.library.destroy_id)(id);
        }
    }

    /// Closes what there is of a connection: all that the device has of it comes back.
    fn drop_connection(&mut self, peer: usize) {
        let id = std::mem::replace(&mut self.peers[peer].id, ptr::null_mut());
        if id.is_null() {
            return;
        }
        let library = self.library;
        // SAFETY: the identifier is this peer's, and forgotten.
        let had_queues = unsafe {
            let qp = (*id).qp;
            if !qp.is_null() {
                self.by_qp.remove(&(*qp).number);
                (library.disconnect)(id);
                (library.destroy_qp)(id);
            }
            (library.destroy_id)(id);
            !qp.is_null()
        };
        if had_queues {
            self.connections -= 1;
        }
        let epoch = self.peers[peer].epoch;
        for (place, leaving) in self.leaving.iter_mut().enumerate() {
            if !leaving.is_free && (leaving.peer, leaving.epoch) == (peer, epoch) {
                leaving.is_free = true;
                self.free_sends.push(place);
            }
        }
        if let Some(placing) = &mut self.placing {
            placing.end_all(peer);
        }
        if !self.limits.shared {
            for (place, owner) in self.posted_to.iter_mut().enumerate() {
                if *owner == peer {
                    *owner = usize::MAX;
                    self.free_receives.push(place);
                }
            }
        }
        let place = &mut self.peers[peer];
        self.given -= std::mem::take(&mut place.receives);
        place.epoch = (place.epoch + 1) & 0x00ff_ffff;
        (place.operations, place.held, place.credits, place.owed) = (0, 0, 0, 0);
        (place.gone, place.lost) = (false, false);
        place.says.clear();
    }

    /// What RDMA CM tells of.
    fn take_events(&mut self) {
        for _ in 0..EVENTS_MAX {
            let mut event: *mut CmEvent = ptr::null_mut();
            // SAFETY: the channel is open, and does not block.
            if unsafe { (self.library.get_cm_event)(self.bound.channel, &raw mut event) } != 0 {
                return;
            }
            // SAFETY: the library has made it, and it stays until it is given back; so does what came with it.
            let (id, kind, status, reads, private) = unsafe {
                let CmEvent { id, event: kind, status, connection, .. } = &*event;
                let told = !connection.private_data.is_null() && connection.private_bytes > 0;
                let private = match *kind {
                    EVENT_CONNECT_REQUEST | EVENT_ESTABLISHED | EVENT_REJECTED if told => {
                        let bytes = connection.private_data.cast::<u8>();
                        std::slice::from_raw_parts(bytes, connection.private_bytes.into()).to_vec()
                    }
                    _ => Vec::new(),
                };
                (*id, *kind, *status, (connection.responder_resources, connection.initiator_depth), private)
            };
            // SAFETY: it is given back once, and not looked at again.
            unsafe { (self.library.ack_cm_event)(event) };
            self.take_event(id, kind, status, reads, Greeting::decode(&private));
        }
    }

    fn take_event(&mut self, id: *mut CmId, kind: c_int, status: c_int, reads: (u8, u8), greeting: Option<Greeting>) {
        if kind == EVENT_CONNECT_REQUEST {
            let Some(greeting) = greeting.filter(|greeting| greeting.token == self.token) else {
                self.rejected += 1;
                return self.refuse(id, 0, Reason::Other);
            };
            return match self.by_name.get(&greeting.name) {
                Some(peer) => self.event(*peer, Event::Request, Some((id, greeting, reads))),
                // Its card is still to be read.
                None => self.refuse(id, 0, Reason::Later),
            };
        }
        if kind == EVENT_DEVICE_REMOVAL {
            let all: Vec<usize> = self.by_qp.values().copied().collect();
            all.into_iter().for_each(|peer| self.fail(peer, Event::Failed, "the device is gone"));
            return;
        }
        // SAFETY: events are told of identifiers that are open only.
        let Some(peer) = (unsafe { (*id).context } as usize).checked_sub(1) else { return };
        if self.peers.get(peer).is_none_or(|peer| peer.id != id) {
            return;
        }
        let said = io::Error::from_raw_os_error(status.saturating_abs());
        match kind {
            EVENT_ADDR_RESOLVED => {
                // SAFETY: the identifier is open.
                let code = unsafe { (self.library.resolve_route)(id, RESOLVE_MS) };
                let refusal = (code != 0).then(|| failed("rdma_resolve_route"));
                refusal.into_iter().for_each(|why| self.fail(peer, Event::Failed, &why));
            }
            EVENT_ROUTE_RESOLVED => {
                if let Err(why) = self.request(peer) {
                    self.fail(peer, Event::Failed, &why);
                }
            }
            EVENT_ESTABLISHED => {
                if self.peers[peer].pair.state() == State::Connecting {
                    // The acceptance says how much may be sent.
                    let Some(greeting) = greeting else {
                        return self.fail(peer, Event::Failed, "what listens there is no process of this job");
                    };
                    self.peers[peer].credits = greeting.window;
                }
                self.event(peer, Event::Established, None);
            }
            EVENT_REJECTED => {
                let reason = greeting.and_then(|greeting| greeting.refusal).unwrap_or(Reason::Other);
                self.fail(peer, Event::Refused(reason), &format!("it was refused (status {status})"));
            }
            EVENT_ADDR_ERROR | EVENT_ROUTE_ERROR | EVENT_CONNECT_ERROR | EVENT_UNREACHABLE => {
                let (what, is_late) = match kind {
                    EVENT_ADDR_ERROR => ("its address is not resolved", false),
                    EVENT_ROUTE_ERROR => ("there is no route", false),
                    EVENT_CONNECT_ERROR => ("it cannot be established", false),
                    _ => ("it is not reached", status.saturating_abs() == libc::ETIMEDOUT),
                };
                let event = if is_late { Event::Late } else { Event::Failed };
                self.fail(peer, event, &format!("{what}: {said}"));
            }
            EVENT_DISCONNECTED => self.note_gone(peer),
            _ => {}
        }
    }

    fn note_gone(&mut self, peer: usize) {
        self.peers[peer].gone = true;
        if !self.changing.contains(&peer) {
            self.changing.push(peer);
        }
    }

    /// Deadlines, and connections that are gone and from which everything has been taken.
    fn look_after_changing(&mut self) {
        let now = clock::now();
        let mut place = 0;
        while let Some(peer) = self.changing.get(place).copied() {
            if self.peers[peer].gone {
                self.peers[peer].gone = false;
                let Peer { held, lost, .. } = &self.peers[peer];
                let held = *held > 0 || *lost;
                self.event(peer, Event::Disconnected { held }, None);
            }
            if self.peers[peer].pair.is_late(now) {
                self.event(peer, Event::Late, None);
            }
            if self.is_changing(peer) {
                place += 1;
            } else {
                self.changing.swap_remove(place);
            }
        }
    }

    // ---- sending

    /// Sends a packet: whether the device has it; an error says why it never will.
    pub(super) fn send(&mut self, to: usize, packet: &[u8]) -> Result<bool, ()> {
        let Some(peer) = self.peers.get(to) else { return Err(()) };
        match peer.pair.state() {
            State::Ready if !peer.gone => {}
            State::Apart => {
                self.event(to, Event::Wanted, None);
                return Ok(false);
            }
            State::Lost => return Err(()),
            _ => return Ok(false),
        }
        // What is to be said first goes first: a client's first message above all.
        if !peer.says.is_empty() && !self.talk(to) {
            return Ok(false);
        }
        self.transmit(to, Kind::Packet, packet)
    }

    /// Sends a message of a kind; `false`: there is no room for it now.
    fn transmit(&mut self, to: usize, kind: Kind, packet: &[u8]) -> Result<bool, ()> {
        let is_packet = kind == Kind::Packet;
        let peer = &mut self.peers[to];
        let operations =
            self.limits.operations - if is_packet { OPERATIONS_RESERVED.min(self.limits.operations / 2) } else { 0 };
        let sends_left = if is_packet { SENDS_RESERVED } else { 0 };
        if peer.operations >= operations
            || (kind.needs_credit() && peer.credits == 0)
            || self.free_sends.len() <= sends_left
            || peer.id.is_null()
        {
            return Ok(false);
        }
        let (Some(place), Some(sends)) = (self.free_sends.pop(), &self.sends) else { return Ok(false) };
        let length = HEADER + packet.len();
        let header = kind.encode(peer.owed);
        let mut piece = sends.piece(place, length);
        // SAFETY: the place is this message's until its completion comes, and a packet fits behind the header.
        unsafe {
            let bytes = sends.at(place);
            ptr::copy_nonoverlapping(header.as_ptr(), bytes, HEADER);
            ptr::copy_nonoverlapping(packet.as_ptr(), bytes.add(HEADER), packet.len());
        }
        let inline = if length <= self.inline_max { IBV_SEND_INLINE } else { 0 };
        let mut send = Send {
            id: number(SENT, peer.epoch, place),
            next: ptr::null_mut(),
            pieces: &raw mut piece,
            count: 1,
            operation: IBV_WR_SEND,
            flags: IBV_SEND_SIGNALED | inline,
            immediate: 0,
            remote_address: 0,
            remote_key: 0,
            unused: [0; 9],
        };
        // SAFETY: the identifier is open and has a queue pair whenever the pair may send.
        if let Err(error) = unsafe { post(peer.id, &mut send) } {
            self.free_sends.push(place);
            if error == libc::ENOMEM || error == libc::EAGAIN {
                return Ok(false);
            }
            peer.warned = Some(format!("ibv_post_send: {}", io::Error::from_raw_os_error(error)));
            self.note_gone(to);
            self.peers[to].lost |= is_packet;
            return Ok(false);
        }
        self.leaving[place] = Leaving { peer: to, epoch: peer.epoch, is_packet, is_free: false };
        peer.owed = 0;
        peer.operations += 1;
        peer.held += usize::from(is_packet);
        peer.credits -= u16::from(kind.needs_credit());
        if is_packet {
            self.clock += 1;
            peer.used = self.clock;
        }
        Ok(true)
    }

    /// Something is to be said to a peer as soon as there is room.
    fn say(&mut self, to: usize, kind: Kind) {
        let peer = &mut self.peers[to];
        if !peer.says.contains(&kind) {
            peer.says.push_back(kind);
        }
        if !self.talk(to) && !std::mem::replace(&mut self.peers[to].is_due, true) {
            self.due.push(to);
        }
    }

    /// Says what is to be said; whether nothing is left.
    fn talk(&mut self, to: usize) -> bool {
        while let Some(kind) = self.peers[to].says.front().copied() {
            // What was told by another message need not be told, and nothing follows the last message but what was taken before it.
            let is_moot = kind == Kind::Credit && self.peers[to].owed == 0;
            let must_wait = matches!(kind, Kind::Close | Kind::Closed) && self.peers[to].held > 0;
            if must_wait || (!is_moot && self.transmit(to, kind, &[]) != Ok(true)) {
                return false;
            }
            self.peers[to].says.pop_front();
        }
        true
    }

    /// Packets and accesses that the device has for a peer, and one more while a connection to it begins.
    pub(super) fn under_way(&self, to: usize) -> usize {
        self.peers.get(to).map_or(0, |peer| {
            peer.held + usize::from(matches!(peer.pair.state(), State::Connecting | State::Awaiting | State::Pausing))
        })
    }

    /// A peer to which the connection is lost, each once.
    pub(super) fn take_broken(&mut self) -> Option<usize> {
        self.broken.pop_front()
    }

    /// Where a peer listens.
    pub(super) fn name_of(&self, peer: usize) -> Option<SocketAddr> {
        Some(self.peers.get(peer)?.name)
    }

    // ---- receiving

    fn post_receive(&mut self, place: usize, peer: usize) {
        let chunk = &self.chunks[place / CHUNK as usize];
        let mut piece = chunk.piece(place % CHUNK as usize, MESSAGE_BYTES);
        let mut receive =
            Receive { id: number(RECEIVED, 0, place), next: ptr::null_mut(), pieces: &raw mut piece, count: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: the queues are open, and the packet is the device's until its completion comes, or its queue is closed.
        let code = unsafe {
            match self.srq.is_null() {
                false => ((*(*self.srq).context).post_srq_recv)(self.srq, &raw mut receive, &raw mut bad),
                true => match self.peers.get(peer).map(|peer| peer.id) {
                    Some(id) if !id.is_null() && !(*id).qp.is_null() => {
                        let qp = (*id).qp;
                        ((*(*qp).context).post_recv)(qp, &raw mut receive, &raw mut bad)
                    }
                    _ => libc::EINVAL,
                },
            }
        };
        if code == 0 {
            self.posted_to[place] = peer;
        } else {
            self.posted_to[place] = usize::MAX;
            self.free_receives.push(place);
        }
    }

    fn poll(&mut self, completions: &mut [Completion; BATCH], wanted: usize) -> usize {
        let mut count = 0;
        while count < wanted.min(BATCH)
            && let Some(found) = self.found.pop_front()
        {
            completions[count] = found;
            count += 1;
        }
        if count > 0 {
            return count;
        }
        // SAFETY: there is room for so many.
        let read =
            unsafe { ((*(*self.cq).context).poll_cq)(self.cq, wanted.min(BATCH) as c_int, completions.as_mut_ptr()) };
        usize::try_from(read).unwrap_or(0).min(BATCH)
    }

    /// Hands on at most `limit` packets that have arrived; how many.
    pub(super) fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        let mut completions = [Completion::default(); BATCH];
        let mut packets = 0;
        while packets < limit {
            let count = self.poll(&mut completions, limit - packets);
            for completion in &completions[..count] {
                packets += usize::from(self.complete(completion, on_packet));
            }
            if count == 0 {
                self.look_aside();
                break;
            }
        }
        if !self.due.is_empty() {
            for peer in std::mem::take(&mut self.due) {
                self.peers[peer].is_due = false;
                if !self.talk(peer) && !std::mem::replace(&mut self.peers[peer].is_due, true) {
                    self.due.push(peer);
                }
            }
        }
        packets
    }

    /// What is besides packets, when there are none.
    fn look_aside(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        if !self.changing.is_empty() {
            self.look_after_changing();
        }
        if std::mem::take(&mut self.must_look) || !self.changing.is_empty() || self.looks.is_multiple_of(EVENTS_EVERY) {
            self.take_events();
        }
    }

    /// Whether the completion is that of a packet that arrived.
    fn complete(&mut self, completion: &Completion, on_packet: &mut dyn FnMut(&[u8])) -> bool {
        let (what, epoch, place) =
            (completion.id >> 56, (completion.id >> 32) as u32 & 0x00ff_ffff, completion.id as u32 as usize);
        let ok = completion.status == IBV_WC_SUCCESS;
        match what {
            RECEIVED => return self.arrive(place, completion, on_packet),
            SENT => {
                let Some(leaving) = self.leaving.get_mut(place) else { return false };
                if leaving.is_free || leaving.epoch != epoch {
                    return false;
                }
                leaving.is_free = true;
                let Leaving { peer, is_packet, .. } = *leaving;
                self.free_sends.push(place);
                let entry = &mut self.peers[peer];
                entry.operations = entry.operations.saturating_sub(1);
                entry.held -= usize::from(is_packet && entry.held > 0);
                if !ok {
                    entry.lost |= is_packet;
                    self.operation_failed(peer, completion, "ibv_post_send");
                }
            }
            ACCESSED => {
                let ended = self.placing.as_mut().and_then(|placing| placing.end(place, ok));
                let Some(peer) = ended else { return false };
                let entry = &mut self.peers[peer];
                entry.operations = entry.operations.saturating_sub(1);
                entry.held = entry.held.saturating_sub(1);
                if !ok {
                    entry.lost = true;
                    self.operation_failed(peer, completion, "a remote write or read");
                }
            }
            _ => {}
        }
        false
    }

    fn operation_failed(&mut self, peer: usize, completion: &Completion, what: &str) {
        let Completion { status, vendor_error, .. } = completion;
        if *status != IBV_WC_WR_FLUSH_ERR || self.peers[peer].warned.is_none() {
            let said = self.library.describe(*status);
            self.peers[peer].warned = Some(format!("{what}: {said} (status {status}, vendor's {vendor_error:#x})"));
        }
        self.note_gone(peer);
    }

    fn arrive(&mut self, place: usize, completion: &Completion, on_packet: &mut dyn FnMut(&[u8])) -> bool {
        if place >= self.chunks.len() * CHUNK as usize {
            return false;
        }
        let peer = self.by_qp.get(&completion.qp).copied();
        let known = peer.unwrap_or(usize::MAX);
        if completion.status != IBV_WC_SUCCESS {
            if self.limits.shared {
                self.post_receive(place, known);
            }
            if let Some(peer) = peer {
                self.note_gone(peer);
            }
            return false;
        }
        let Some(peer) = peer else {
            self.rejected += 1;
            if self.limits.shared {
                self.post_receive(place, known);
            }
            return false;
        };
        let length = (completion.length as usize).min(MESSAGE_BYTES);
        let bytes = self.chunks[place / CHUNK as usize].at(place % CHUNK as usize);
        // SAFETY: the device has given this packet back, and all its bytes are initialised. Nothing posts it before this is done with.
        let message = unsafe { std::slice::from_raw_parts(bytes, length) };
        let Some((kind, credits)) = Kind::decode(message) else {
            self.rejected += 1;
            self.post_receive(place, known);
            self.fail(peer, Event::Failed, "what arrived is no message of Weft");
            return false;
        };
        let state = self.peers[peer].pair.state();
        // The client sends first, and what it sends first is its greeting; no device checks that for both ends.
        if (kind != Kind::First && state == State::Accepted) || state == State::Connecting {
            self.post_receive(place, known);
            self.fail(peer, Event::Failed, "the client did not send the first message");
            return false;
        }
        let is_packet = kind == Kind::Packet;
        if is_packet {
            on_packet(&message[HEADER..]);
        }
        self.post_receive(place, known);
        let entry = &mut self.peers[peer];
        entry.credits = entry.credits.saturating_add(credits);
        entry.owed = entry.owed.saturating_add(u16::from(kind.needs_credit()));
        if is_packet {
            self.clock += 1;
            entry.used = self.clock;
        }
        match kind {
            Kind::First => self.event(peer, Event::FirstMessage, None),
            Kind::Packet | Kind::Credit => {}
            Kind::Close => {
                let is_first = state == State::Ready;
                self.event(peer, Event::Unused, None);
                match is_first {
                    true => self.say(peer, Kind::Closed),
                    false => self.note_gone(peer),
                }
            }
            Kind::Closed => self.note_gone(peer),
        }
        let Peer { owed, window, pair, .. } = &self.peers[peer];
        // Also while it closes: the other end's last message needs room.
        if *owed >= limits::tell_at(*window) && matches!(pair.state(), State::Ready | State::Leaving) {
            self.say(peer, Kind::Credit);
        }
        is_packet
    }

    /// Whether a sleep on the descriptor ends when something arrives; `false`: something is here already.
    pub(super) fn arm(&mut self) -> bool {
        self.must_look = true;
        if !self.found.is_empty() || !self.due.is_empty() {
            return false;
        }
        let library = self.library;
        let mut completions = [Completion::default(); BATCH];
        // SAFETY: the channel does not block; each of its events is acknowledged.
        unsafe {
            let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
            let mut events = 0;
            while events < BATCH as u32 && (library.get_cq_event)(self.channel, &raw mut cq, &raw mut context) == 0 {
                events += 1;
            }
            if events > 0 {
                (library.ack_cq_events)(self.cq, events);
            }
            if ((*(*self.cq).context).req_notify_cq)(self.cq, 0) != 0 {
                return false;
            }
        }
        // What came before that is not told of.
        let count = self.poll(&mut completions, BATCH);
        self.found.extend(&completions[..count]);
        count == 0
    }

    // ---- memory of peers

    /// Lets peers access memory.
    pub(super) fn expose(&mut self, data: &UserData, length: u64) -> Option<(Exposure, RemoteMemory)> {
        let memory = (data.program_run(&(0..length))?, length as usize);
        // SAFETY: whoever made `data` promised that its memory stays until the operation is complete; the engine has it concealed before that is told.
        let exposed = unsafe { self.placing.as_mut()?.expose(memory) };
        exposed.map_err(|error| self.note_registration(memory.1, &error)).ok()
    }

    fn note_registration(&mut self, bytes: usize, error: &io::Error) {
        let why = limits::locked_memory(error.raw_os_error(), sys::locked_memory_max());
        let device = &self.device;
        self.last_error = Some(format!("{device} does not register {bytes} bytes (ibv_reg_mr): {error}{why}"));
    }

    /// No access that begins from now on succeeds.
    pub(super) fn conceal(&mut self, exposure: Exposure) {
        if let Some(placing) = &mut self.placing {
            placing.conceal(exposure);
        }
    }

    /// Starts an access to memory of a peer.
    pub(super) fn access(
        &mut self,
        to: usize,
        access: Access,
        data: &UserData,
        range: Range<u64>,
        there: RemoteMemory,
        number_of_access: u64,
    ) -> Begun {
        let (Some(peer), Some(placing)) = (self.peers.get_mut(to), &mut self.placing) else { return Begun::Never };
        match peer.pair.state() {
            State::Ready if !peer.gone => {}
            State::Lost => return Begun::Never,
            State::Apart => {
                self.event(to, Event::Wanted, None);
                return Begun::NotNow;
            }
            _ => return Begun::NotNow,
        }
        let reserved = OPERATIONS_RESERVED.min(self.limits.operations / 2);
        if peer.operations >= self.limits.operations - reserved || !peer.says.is_empty() {
            return Begun::NotNow;
        }
        let Some(memory) = data.program_run(&range) else { return Begun::Never };
        let (Ok(remote_key), Ok(length)) = (u32::try_from(there.key), u32::try_from(range.end - range.start)) else {
            return Begun::Never;
        };
        // SAFETY: as for `expose`: the operation is open until the engine has been told that the access is complete.
        let (place, mut piece) =
            match unsafe { placing.begin((to, number_of_access), access, (memory, length as usize)) } {
                Ok(Some(begun)) => begun,
                Ok(None) => return Begun::NotNow,
                Err(error) => {
                    self.note_registration(length as usize, &error);
                    return Begun::Never;
                }
            };
        let operation = if access == Access::Write { IBV_WR_RDMA_WRITE } else { IBV_WR_RDMA_READ };
        let is_inline = access == Access::Write && length as usize <= self.inline_max;
        let mut send = Send {
            id: number(ACCESSED, peer.epoch, place),
            next: ptr::null_mut(),
            pieces: &raw mut piece,
            count: 1,
            operation,
            flags: IBV_SEND_SIGNALED | if is_inline { IBV_SEND_INLINE } else { 0 },
            immediate: 0,
            remote_address: there.address,
            remote_key,
            unused: [0; 9],
        };
        // SAFETY: the pair is ready, so its identifier has a queue pair.
        if let Err(error) = unsafe { post(peer.id, &mut send) } {
            placing.end(place, false);
            return if error == libc::ENOMEM || error == libc::EAGAIN { Begun::NotNow } else { Begun::Never };
        }
        peer.operations += 1;
        peer.held += 1;
        self.clock += 1;
        peer.used = self.clock;
        Begun::Yes
    }

    /// An access that is complete.
    #[inline]
    pub(super) fn poll_placed(&mut self) -> Option<u64> {
        self.placing.as_mut()?.poll()
    }
}

/// Hands an operation to the device; its error.
///
/// # Safety
/// The identifier is open and has a queue pair; what the operation refers to stays until its completion comes, or the queue pair is closed.
unsafe fn post(id: *mut CmId, send: &mut Send) -> Result<(), c_int> {
    let mut bad = ptr::null_mut();
    // SAFETY: as promised.
    let code = unsafe {
        let qp: *mut Qp = (*id).qp;
        if qp.is_null() { libc::ENOTCONN } else { ((*(*qp).context).post_send)(qp, send, &raw mut bad) }
    };
    if code == 0 { Ok(()) } else { Err(code.saturating_abs()) }
}

/// What a device and a port of it have.
fn facts(library: &Library, context: *mut Context, port: u8) -> Result<(DeviceFacts, PortFacts), String> {
    // SAFETY: plain numbers, of which zeros are values; the device is open.
    unsafe {
        let (mut device, mut facts): (DeviceFacts, PortFacts) = (std::mem::zeroed(), std::mem::zeroed());
        if (library.query_device)(context, &raw mut device) != 0 {
            return Err(failed("ibv_query_device"));
        }
        if (library.query_port)(context, port, &raw mut facts) != 0 {
            return Err(failed(&format!("ibv_query_port {port}")));
        }
        Ok((device, facts))
    }
}
