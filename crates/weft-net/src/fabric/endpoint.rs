//! An endpoint with its objects and buffers. Only this module follows pointers of the library.
#![allow(unsafe_code)]

mod memory;
mod offers;
mod sending;

use std::ffi::c_int;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};

use weft_core::time::Instant;

use super::api::{
    Av, AvAttr, Cq, CqAttr, CqEntry, CqErrEntry, Domain, Ep, FI_ADDR_UNSPEC, FI_AV_UNSPEC, FI_CQ_FORMAT_MSG, FI_EAVAIL,
    FI_ENABLE, FI_GETWAIT, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MSG_PREFIX, FI_RECV, FI_SEND, FI_WAIT_FD, FI_WAIT_NONE,
    Fabric, Fid, Info, Library,
};
use super::packets::Packets;
use super::placement::{Placing, call_of};
use crate::sys;
pub(super) use offers::Offers;
use offers::socket_address;
pub use offers::{Kind, Offer};
pub(super) use sending::Sent;

/// Most packets that may wait to be received.
const RECEIVES_MAX: usize = 1024;
/// Most bytes of packets that may wait to be received, and of those that may wait to be sent.
const BYTES_MAX: usize = 4 << 20;
/// Most packets that may wait to be sent, where they do not leave at once.
const SENDS_MAX: usize = 256;
/// Most accesses to memory of peers that may be under way.
const ACCESSES_MAX: usize = 64;
/// Divisor of the operations that a provider takes at a time: so large a part may be accesses.
const ACCESSES_PART: usize = 4;
/// Completions that are read in a single call.
const BATCH: usize = 32;
/// Most errors that the receiver takes from the queue in a look.
const ERRORS_MAX: u32 = 16;
/// Bytes of the longest address, as `FI_NAME_MAX` limits names.
pub(super) const ADDRESS_BYTES_MAX: usize = 64;
/// Providers that never take back the signal of a completion queue: after the first completion, a sleep on
/// its descriptor ends at once.
const ALWAYS_READABLE: &[&str] = &["net"];

/// Most endpoints that are tried until one has a port that no other program has. Providers over RDMA CM
/// choose a port without asking whether TCP uses it.
const PORTS_TRIED_MAX: u32 = 64;

/// The failure of a call that makes an endpoint.
struct Refused {
    /// The library's number for the reason: a negative errno.
    code: i64,
    sentence: String,
}

/// An object of the library, closed when it is dropped.
struct Object<T>(*mut T);

impl<T> Object<T> {
    const NONE: Self = Self(ptr::null_mut());

    fn fid(&self) -> *mut Fid {
        // Every object begins with a `Fid`.
        self.0.cast()
    }

    fn close(&mut self) {
        if let Some(fid) = NonNull::new(self.fid()) {
            // SAFETY: the object is open, and only this place closes it; objects that were made of it have
            // been closed before.
            unsafe { ((*fid.as_ref().ops).close)(fid.as_ptr()) };
            self.0 = ptr::null_mut();
        }
    }
}

/// A peer, as this end knows it.
struct Peer {
    /// The provider's name for the peer.
    name: u64,
    /// Packets for the peer that the provider still has.
    under_way: usize,
    /// Time since which there has been no room for the peer.
    full_since: Option<Instant>,
    /// True if a packet that the provider had taken was not delivered.
    broken: bool,
    /// The peer's address, if it is one of IP.
    ip: Option<SocketAddr>,
}

/// An endpoint that sends and receives packets.
pub(super) struct Endpoint {
    library: &'static Library,
    pub(super) offer: Offer,
    ep: Object<Ep>,
    cq: Object<Cq>,
    av: Object<Av>,
    domain: Object<Domain>,
    fabric: Object<Fabric>,
    receives: Packets,
    sends: Packets,
    free_sends: Vec<usize>,
    /// For each packet of `sends`, the peer that it goes to.
    owners: Box<[usize]>,
    peers: Vec<Peer>,
    /// Receives that the provider had no room for: they are tried again.
    unposted: Vec<usize>,
    prefix: Prefix,
    /// Bytes of a packet, without the prefix.
    pub(super) packet_size: usize,
    inject_max: usize,
    /// True if the last look found nothing, and no waiter has slept since.
    looks_in_vain: bool,
    /// The completions that were read last.
    completions: [CqEntry; BATCH],
    /// The accesses to memory of peers, if the endpoint has them.
    placing: Option<Placing>,
    /// Peers that are broken: at least one if this is not 0.
    broken: usize,
    address_format: u32,
    pub(super) address: Vec<u8>,
    pub(super) descriptor: Option<RawFd>,
    /// Completions with an error.
    pub(super) errors: u64,
    /// The call that failed last, and its error.
    pub(super) last_error: Option<(&'static str, i64)>,
}

// SAFETY: the library allows any thread to use a domain, one thread at a time (FI_THREAD_DOMAIN); so does the
// owner of this value.
unsafe impl Send for Endpoint {}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.ep.close();
        if let Some(placing) = &mut self.placing {
            placing.close();
        }
        for packets in [&mut self.receives, &mut self.sends] {
            Object(std::mem::replace(&mut packets.registered, ptr::null_mut())).close();
        }
        self.cq.close();
        self.av.close();
        self.domain.close();
        self.fabric.close();
    }
}

impl Endpoint {
    /// Opens an endpoint for packets of at most `packet_size_max` bytes. Where the port that was chosen for
    /// it belongs to another program, another endpoint is tried. No peer has been told of the port before.
    pub(super) fn open(
        library: &'static Library,
        (offer, info): (Offer, *mut Info),
        packet_size_max: usize,
        has_remote_memory: bool,
    ) -> Result<Self, String> {
        let mut tries = 0;
        loop {
            tries += 1;
            match Self::try_open(library, (offer.clone(), info), packet_size_max, has_remote_memory) {
                Err(Refused { code, .. }) if code == -i64::from(libc::EADDRINUSE) && tries < PORTS_TRIED_MAX => {}
                outcome => return outcome.map_err(|refused| refused.sentence),
            }
        }
    }

    fn try_open(
        library: &'static Library,
        (offer, info): (Offer, *mut Info),
        packet_size_max: usize,
        has_remote_memory: bool,
    ) -> Result<Self, Refused> {
        // SAFETY: the caller has `info` of a list that lives while this runs, and the library has filled in
        // all parts.
        let (prefixes, address_format, registration, key_bytes, tx, rx, endpoint) = unsafe {
            let (tx, rx) = (&*(*info).tx_attr, &*(*info).rx_attr);
            let domain = &*(*info).domain_attr;
            let modes = ((*info).mode, tx.mode, rx.mode);
            (modes, (*info).addr_format, domain.mr_mode, domain.mr_key_size, tx, rx, &*(*info).ep_attr)
        };
        let prefix = Prefix::new(prefixes, endpoint.msg_prefix_size);
        let packet_size = endpoint.max_msg_size.saturating_sub(prefix.sent.max(prefix.received)).min(packet_size_max);
        let most = BYTES_MAX / packet_size.max(1);
        let receives = rx.size.min(most).clamp(1, RECEIVES_MAX);
        // A provider takes so many operations at a time, of whatever kind.
        let accesses = if has_remote_memory { (tx.size / ACCESSES_PART).min(ACCESSES_MAX) } else { 0 };
        let has_remote_memory = accesses > 0;
        let sends = (tx.size - accesses.min(tx.size)).min(most).clamp(1, SENDS_MAX);
        // A reliable endpoint may still have a packet that was given to it at once. Nothing would tell
        // whether it must be looked at until the packet has left.
        let may_inject = prefix.sent == 0 && offer.kind == Kind::Datagrams;
        let inject_max = if may_inject { tx.inject_size } else { 0 };
        let mut this = Self {
            library,
            offer,
            ep: Object::NONE,
            cq: Object::NONE,
            av: Object::NONE,
            domain: Object::NONE,
            fabric: Object::NONE,
            receives: Packets::new(receives, prefix.received + packet_size),
            sends: Packets::new(sends, prefix.sent + packet_size),
            free_sends: (0..sends).collect(),
            owners: vec![0; sends].into(),
            peers: Vec::new(),
            unposted: (0..receives).collect(),
            prefix,
            packet_size,
            inject_max,
            address_format,
            address: Vec::new(),
            descriptor: None,
            errors: 0,
            last_error: None,
            looks_in_vain: false,
            completions: [CqEntry { context: ptr::null_mut(), flags: 0, len: 0 }; BATCH],
            broken: 0,
            placing: has_remote_memory.then(|| Placing::new(accesses, registration, key_bytes)),
        };
        this.make(info, registration, receives + sends + accesses)?;
        this.post_receives();
        Ok(this)
    }

    fn make(&mut self, info: *mut Info, registration: c_int, completions: usize) -> Result<(), Refused> {
        let library = self.library;
        let provider = self.offer.provider.clone();
        let check = |call: &str, code: i64| match code {
            0 => Ok(()),
            code => {
                let hint = if code == -i64::from(libc::ENOMEM) { locked_memory() } else { String::new() };
                let why = library.describe(code);
                Err(Refused { code, sentence: format!("libfabric's provider {provider} fails in {call}: {why}{hint}") })
            }
        };
        let none = ptr::null_mut();
        // SAFETY: each object is made of earlier ones, by the tables that the library fills in for it. The
        // arguments live while the call runs, and registered memory as long as its registration, by the order
        // in `Drop`.
        unsafe {
            check("fi_fabric", (library.fabric)((*info).fabric_attr, &raw mut self.fabric.0, none).into())?;
            let fabric = self.fabric.0;
            check("fi_domain", ((*(*fabric).ops).domain)(fabric, info, &raw mut self.domain.0, none).into())?;
            let domain = self.domain.0;
            let mut av = AvAttr {
                kind: FI_AV_UNSPEC,
                rx_ctx_bits: 0,
                count: 0,
                ep_per_node: 0,
                name: ptr::null(),
                map_addr: none,
                flags: 0,
            };
            check("fi_av_open", ((*(*domain).ops).av_open)(domain, &raw mut av, &raw mut self.av.0, none).into())?;
            let mut cq = CqAttr {
                size: completions,
                flags: 0,
                format: FI_CQ_FORMAT_MSG,
                wait_obj: FI_WAIT_FD,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: none,
            };
            let open = (*(*domain).ops).cq_open;
            let mut code = open(domain, &raw mut cq, &raw mut self.cq.0, none);
            if code != 0 {
                // Open the queue without a descriptor to sleep on.
                cq.wait_obj = FI_WAIT_NONE;
                code = open(domain, &raw mut cq, &raw mut self.cq.0, none);
            }
            check("fi_cq_open", code.into())?;
            check("fi_endpoint", ((*(*domain).ops).endpoint)(domain, info, &raw mut self.ep.0, none).into())?;
            let (ep, ops) = (self.ep.0, (*self.ep.0).fid.ops);
            check("fi_ep_bind", ((*ops).bind)(self.ep.fid(), self.av.fid(), 0).into())?;
            check("fi_ep_bind", ((*ops).bind)(self.ep.fid(), self.cq.fid(), FI_SEND | FI_RECV).into())?;
            check("fi_enable", ((*ops).control)(self.ep.fid(), FI_ENABLE, none).into())?;
            if registration & FI_MR_LOCAL != 0 {
                let reg = (*(*domain).mr).reg;
                for (key, (packets, access)) in
                    [(&mut self.receives, FI_RECV), (&mut self.sends, FI_SEND)].into_iter().enumerate()
                {
                    let (bytes, length) = packets.bytes();
                    let made = &raw mut packets.registered;
                    let code = reg(domain.cast(), bytes, length, access, 0, key as u64, 0, made, none);
                    check("fi_mr_reg", code.into())?;
                    if registration & FI_MR_ENDPOINT != 0 {
                        let (registered, ops) = (packets.registered.cast(), (*packets.registered).fid.ops);
                        check("fi_mr_bind", ((*ops).bind)(registered, self.ep.fid(), 0).into())?;
                        check("fi_mr_enable", ((*ops).control)(registered, FI_ENABLE, none).into())?;
                    }
                }
            }
            let (mut address, mut length) = ([0_u8; ADDRESS_BYTES_MAX], ADDRESS_BYTES_MAX);
            let getname = (*(*ep).cm).getname;
            check("fi_getname", getname(self.ep.fid(), address.as_mut_ptr().cast(), &raw mut length).into())?;
            self.address = address[..length.min(ADDRESS_BYTES_MAX)].to_vec();
            if cq.wait_obj == FI_WAIT_FD {
                let mut descriptor: RawFd = -1;
                let control = (*(*self.cq.0).fid.ops).control;
                // `ofi_rxd` opens such a queue, and has no descriptor for it.
                let code = control(self.cq.fid(), FI_GETWAIT, (&raw mut descriptor).cast());
                let tells = code == 0 && descriptor >= 0 && !ALWAYS_READABLE.contains(&provider.as_str());
                self.descriptor = Some(descriptor).filter(|_| tells);
            }
        }
        Ok(())
    }

    /// Makes the endpoint send nothing at once, as some providers do.
    #[cfg(test)]
    pub(super) fn without_inject(&mut self) {
        self.inject_max = 0;
    }

    /// Returns the packets that may wait to be received.
    pub(super) fn receives(&self) -> u32 {
        self.receives.count as u32
    }

    /// Returns the address of this end, if the provider's addresses are those of IP.
    pub(super) fn own_ip(&self) -> Option<SocketAddr> {
        socket_address(self.address_format, &self.address)
    }

    /// Returns the meaning of an error.
    pub(super) fn describe(&self, error: i64) -> String {
        self.library.describe(error)
    }

    /// Learns a peer's address, and returns the number by which packets are sent to the peer.
    pub(super) fn insert(&mut self, address: &[u8]) -> Result<(u64, Option<SocketAddr>), String> {
        if address.len() != self.address.len() {
            return Err(format!("its address has {} bytes and not {}", address.len(), self.address.len()));
        }
        let mut name = FI_ADDR_UNSPEC;
        // SAFETY: an address, as long as addresses of this provider are.
        let inserted = unsafe {
            let insert = (*(*self.av.0).ops).insert;
            insert(self.av.0, address.as_ptr().cast(), 1, &raw mut name, 0, ptr::null_mut())
        };
        match inserted {
            1 => {
                let ip = socket_address(self.address_format, address);
                self.peers.push(Peer { name, under_way: 0, full_since: None, broken: false, ip });
                Ok((self.peers.len() as u64 - 1, ip))
            }
            0 => Err("fi_av_insert takes none".into()),
            code => Err(format!("fi_av_insert: {}", self.describe(code.into()))),
        }
    }

    /// Returns the address of the peer of this number, if it is one of IP.
    pub(super) fn ip_of(&self, peer: u64) -> Option<SocketAddr> {
        self.peers.get(peer as usize)?.ip
    }

    /// Returns the packets for this peer that the provider has.
    #[inline]
    pub(super) fn under_way(&self, to: u64) -> usize {
        self.peers.get(to as usize).map_or(0, |peer| peer.under_way)
    }

    /// Returns a peer to which a packet was not delivered that the provider had taken.
    #[inline]
    pub(super) fn take_broken(&mut self) -> Option<u64> {
        if self.broken == 0 {
            return None;
        }
        self.broken = 0;
        let index = self.peers.iter_mut().position(|peer| std::mem::take(&mut peer.broken))?;
        // There may be more broken peers.
        self.broken = self.peers.iter().filter(|peer| peer.broken).count();
        Some(index as u64)
    }

    fn post(&mut self, index: usize) -> bool {
        let (bytes, length) = (self.receives.at(index), self.prefix.received + self.packet_size);
        let (description, context) = (self.receives.description(), self.receives.context(index));
        // SAFETY: the endpoint is open, and the bytes are the provider's until the context comes back.
        let code = unsafe {
            let recv = (*(*self.ep.0).msg).recv;
            recv(self.ep.0, bytes.cast(), length, description, FI_ADDR_UNSPEC, context)
        };
        code == 0
    }

    fn post_receives(&mut self) {
        while let Some(index) = self.unposted.pop() {
            if !self.post(index) {
                self.unposted.push(index);
                return;
            }
        }
    }

    /// Hands on at most `limit` packets that have arrived, and returns their number.
    ///
    /// A provider may take only a packet from its network for each look, however many completions there is
    /// room for. So the queue is read until it is empty. But a waiter that has looked in vain, and then finds
    /// a packet, has most likely waited for that packet: the next look, a system call, is left to the next
    /// pass.
    pub(super) fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        let (mut packets, mut errors) = (0, 0);
        let looks_in_vain = std::mem::replace(&mut self.looks_in_vain, false);
        while packets < limit && !(looks_in_vain && packets > 0) {
            let wanted = BATCH.min(limit - packets);
            // SAFETY: there is room for so many completions of the format that the queue was opened with.
            let read = unsafe { ((*(*self.cq.0).ops).read)(self.cq.0, self.completions.as_mut_ptr().cast(), wanted) };
            if read == -(FI_EAVAIL as isize) && errors < ERRORS_MAX {
                self.take_error();
                errors += 1;
                continue;
            }
            let Some(read) = usize::try_from(read).ok().filter(|read| *read > 0) else {
                self.looks_in_vain = packets == 0;
                break;
            };
            for index in 0..read.min(wanted) {
                let entry = self.completions[index];
                packets += usize::from(self.complete(&entry, on_packet));
            }
        }
        // The caller that waits for the arrived packet gets it first, as long as there is room for others.
        if self.unposted.len() > if packets > 0 { self.receives.count / 2 } else { 0 } {
            self.post_receives();
        }
        packets
    }

    /// Acts on a completion, and returns whether it was that of an arrived packet.
    fn complete(&mut self, entry: &CqEntry, on_packet: &mut dyn FnMut(&[u8])) -> bool {
        if let Some(index) = self.sends.index_of(entry.context) {
            self.end_send(index);
            return false;
        }
        if self.end_access(entry.context, true).is_some() {
            return false;
        }
        let Some(index) = self.receives.index_of(entry.context) else { return false };
        let prefix = self.prefix.received;
        let length = entry.len.min(prefix + self.packet_size).saturating_sub(prefix);
        // SAFETY: the provider has given this packet back. The packet has room for the prefix and so many
        // bytes, all of them initialised.
        on_packet(unsafe { std::slice::from_raw_parts(self.receives.at(index).add(prefix), length) });
        self.unposted.push(index);
        true
    }

    fn take_error(&mut self) {
        // SAFETY: plain numbers and pointers, of which zeros are values.
        let mut entry: CqErrEntry = unsafe { std::mem::zeroed() };
        // SAFETY: there is room for one entry.
        let read = unsafe { ((*(*self.cq.0).ops).readerr)(self.cq.0, &raw mut entry, 0) };
        if read <= 0 {
            return;
        }
        self.errors += 1;
        let error = i64::from(entry.err);
        match (self.sends.index_of(entry.context), self.receives.index_of(entry.context)) {
            (Some(index), _) => {
                self.last_error = Some(("fi_send", error));
                if let Some(peer) = self.peers.get_mut(self.owners[index]) {
                    peer.broken = true;
                    self.broken += 1;
                }
                self.end_send(index);
            }
            (_, Some(index)) => {
                self.last_error = Some(("fi_recv", error));
                self.unposted.push(index);
            }
            _ => {
                let access = self.end_access(entry.context, false);
                self.last_error = Some((access.map_or("fi_cq_read", call_of), error));
            }
        }
    }

    /// Arms the descriptor, so that a sleep on it ends when a packet arrives. Returns `false` when one is
    /// here already, or there is no descriptor.
    pub(super) fn arm(&mut self) -> bool {
        if self.descriptor.is_none() {
            return false;
        }
        // A waiter that is woken takes all packets that are there.
        self.looks_in_vain = false;
        let fabric = self.fabric.0;
        let mut queue = self.cq.fid();
        // SAFETY: the fabric and the queue are open; a table that is too short for the entry has none.
        unsafe {
            let ops = (*fabric).ops;
            if (*ops).size <= std::mem::offset_of!(super::api::FabricOps, trywait) {
                return false;
            }
            (*ops).trywait.is_some_and(|trywait| trywait(fabric, &raw mut queue, 1) == 0)
        }
    }
}

/// Bytes in front of packets that the provider uses (`FI_MSG_PREFIX`).
#[derive(Clone, Copy)]
struct Prefix {
    sent: usize,
    received: usize,
}

impl Prefix {
    /// Decides by the modes of the whole, of sends and of receives. `verbs` wants room in front of received
    /// packets only: a packet that is sent with such room would begin with as many bytes that no end takes
    /// off.
    fn new((whole, sent, received): (u64, u64, u64), bytes: usize) -> Prefix {
        let is_told = (sent | received) & FI_MSG_PREFIX != 0;
        let of = |mode: u64| if (if is_told { mode } else { whole }) & FI_MSG_PREFIX != 0 { bytes } else { 0 };
        Prefix { sent: of(sent), received: of(received) }
    }
}

/// Returns the likely cause of a refusal for want of memory, as the end of a sentence: queues and buffers of
/// RDMA are locked.
fn locked_memory() -> String {
    let Some(limit) = sys::locked_memory_max() else { return String::new() };
    format!(
        "; a process may lock {} KiB here (`ulimit -l`), and RDMA takes more: `ulimit -l unlimited`, or `* - memlock unlimited` in \
         /etc/security/limits.conf",
        limit / 1024
    )
}
