//! Multicast groups of a device: a queue pair for datagrams (UD), with its own receives and sends, and the
//! addresses that this process has joined by RDMA CM.
//!
//! Datagrams are lost where no receive is posted, and elsewhere; `weft_core::multicast` makes streams of
//! them. The queue pair is made when the first group is joined. iWARP has no datagrams.
#![allow(unsafe_code)]

use super::{
    BATCH, Device, RECEIVED, SENT, arm_queue, failed, make_queue_pair, nonblocking, number, poll_queue, socket_address,
};
use crate::carrier::Outcome;
use crate::verbs::api::{
    Ah, AhWish, CmEvent, CmId, Completion, CompletionChannel, Context, Cq, Datagram, DeviceFacts, EVENT_DEVICE_REMOVAL,
    EVENT_MULTICAST_ERROR, EVENT_MULTICAST_JOIN, EventChannel, GroupEvent, IBV_LINK_LAYER_ETHERNET, IBV_QPT_UD,
    IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WC_GRH, IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, IBV_WR_SEND, Library, Pd,
    PortFacts, RDMA_PS_UDP, Receive,
};
use crate::verbs::limits::{INLINE_WANTED, locked_memory};
use crate::verbs::memory::Packets;
use crate::{clock, sys, watch};
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::ptr;
use weft_core::time::Duration;

/// Most groups that a process joins.
const GROUPS_MAX: usize = 64;
/// Bytes of memory for datagrams of all groups that may arrive between two looks. Datagrams beyond them are
/// lost, and asked for again.
const RECEIVE_BYTES: usize = 1 << 20;
/// Least receives with which multicast is offered.
const RECEIVES_MIN: usize = 64;
/// Datagrams that may wait to leave.
const SENDS: usize = 64;
/// Bytes of the network's header in front of a received datagram.
const GRH: usize = 40;
/// Longest datagram of a group of InfiniBand, whatever its ports carry: subnet managers make groups for this
/// size, unless they are told otherwise.
const INFINIBAND_BYTES_MAX: usize = 2048;
/// Longest time that the network may take to let this process into a group: on InfiniBand its manager is
/// asked.
const JOIN_TIME_MAX: Duration = Duration::from_millis(1000);

/// The room that a device has for datagrams to groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::verbs) struct Room {
    /// Bytes of the longest datagram.
    pub(in crate::verbs) bytes: usize,
    /// Datagrams that may arrive between two looks.
    pub(in crate::verbs) receives: usize,
}

/// Returns the room for datagrams, as far as it is known before a try; none where there are no datagrams.
pub(super) fn room(device: &DeviceFacts, port: &PortFacts, is_iwarp: bool) -> Option<Room> {
    // The numbers stand for 256 to 4096 bytes.
    let mtu = u32::try_from(port.active_mtu).ok().filter(|mtu| (1..=5).contains(mtu) && !is_iwarp)?;
    let is_ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    let bytes = if is_ethernet { 128 << mtu } else { (128 << mtu).min(INFINIBAND_BYTES_MAX) };
    let most = device.max_qp_wr.min(device.max_cqe.saturating_sub(SENDS as c_int));
    let receives = (RECEIVE_BYTES / receive_bytes(bytes)).min(usize::try_from(most).unwrap_or(0));
    (receives >= RECEIVES_MIN && device.max_qp_wr >= SENDS as c_int).then_some(Room { bytes, receives })
}

/// Returns the bytes of memory of a receive.
const fn receive_bytes(datagram: usize) -> usize {
    (GRH + datagram).next_multiple_of(64)
}

/// The network's header, which has a datagram's source and its destination. RoCE v2 over IPv4 has the header
/// of IPv4 in the last 20 of the 40 bytes (InfiniBand specification, annex A17).
#[derive(Clone, Copy)]
struct Route<'a>(&'a [u8; GRH]);

/// The first bytes of an address of IPv4 that is written as one of IPv6.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Route<'_> {
    /// Compares an address of the header: addresses of IPv6 and InfiniBand are at `at`, those of IPv4 at
    /// `at_v4`.
    fn is(self, gid: &[u8; 16], at: usize, at_v4: usize) -> bool {
        match gid.strip_prefix(&MAPPED) {
            Some(v4) => self.0[at_v4..at_v4 + 4] == *v4,
            None => self.0[at..at + 16] == *gid,
        }
    }

    fn comes_from(self, gid: &[u8; 16]) -> bool {
        self.is(gid, 8, 32)
    }

    fn leads_to(self, gid: &[u8; 16]) -> bool {
        self.is(gid, 24, 36)
    }
}

/// A group that this process has joined, or is joining.
struct Joined {
    address: SocketAddr,
    /// Number by which events name the group.
    serial: usize,
    /// Groups of streams that have this address.
    users: u32,
    receives: bool,
    state: State,
}

enum State {
    Joining,
    Failed(String),
    Open(To),
}

/// The destination of datagrams to a group.
struct To {
    gid: [u8; 16],
    handle: *mut Ah,
    qp: u32,
    qkey: u32,
}

/// The groups of a device.
pub(super) struct Groups {
    library: &'static Library,
    context: *mut Context,
    pd: *mut Pd,
    port: u8,
    scope: u32,
    events: *mut EventChannel,
    id: *mut CmId,
    channel: *mut CompletionChannel,
    cq: *mut Cq,
    receives: Packets,
    sends: Packets,
    free_sends: Vec<usize>,
    inline_max: usize,
    bytes_max: usize,
    /// The address that this process's own datagrams come from.
    own_gid: Option<[u8; 16]>,
    joined: Vec<Joined>,
    serial: usize,
    /// Completions of receives that were found in a look for completions of sends.
    found: VecDeque<Completion>,
    /// Space for completions that are read; taken out of here while they are looked at.
    batch: Option<Box<[Completion; BATCH]>>,
    rejected: u64,
    /// Set once the queue pair no longer works: the reason.
    broken: Option<String>,
}

impl Drop for Groups {
    fn drop(&mut self) {
        while let Some(group) = self.joined.pop() {
            self.close(&group);
        }
        let library = self.library;
        // SAFETY: a pointer that is not null is open, and no other code closes it. Each object goes before
        // those that it was made of. The packets go after the queues.
        unsafe {
            if !self.id.is_null() {
                if !(*self.id).qp.is_null() {
                    (library.destroy_qp)(self.id);
                }
                (library.destroy_id)(self.id);
            }
            if !self.cq.is_null() {
                (library.destroy_cq)(self.cq);
            }
            if !self.channel.is_null() {
                (library.destroy_comp_channel)(self.channel);
            }
            if !self.events.is_null() {
                (library.destroy_event_channel)(self.events);
            }
        }
    }
}

impl Groups {
    /// Makes the queue pair with its queues, on the device with this address.
    fn new(
        library: &'static Library,
        (context, pd, port): (*mut Context, *mut Pd, u8),
        (ip, scope): (IpAddr, u32),
        Room { bytes: bytes_max, receives }: Room,
    ) -> Result<Self, String> {
        let packets = |count: usize, bytes: usize| {
            Packets::new(library, pd, count, bytes).map_err(|error| {
                let why = locked_memory(error.raw_os_error(), sys::locked_memory_max());
                format!("{} KiB cannot be registered (ibv_reg_mr): {error}{why}", count * bytes / 1024)
            })
        };
        let mut this = Self {
            library,
            context,
            pd,
            port,
            scope,
            events: ptr::null_mut(),
            id: ptr::null_mut(),
            channel: ptr::null_mut(),
            cq: ptr::null_mut(),
            receives: packets(receives, receive_bytes(bytes_max))?,
            sends: packets(SENDS, bytes_max)?,
            free_sends: (0..SENDS).collect(),
            inline_max: 0,
            bytes_max,
            own_gid: None,
            joined: Vec::new(),
            serial: 0,
            found: VecDeque::new(),
            batch: Some(Box::new([Completion::default(); BATCH])),
            rejected: 0,
            broken: None,
        };
        this.make(ip)?;
        (0..receives).for_each(|index| this.post_receive(index));
        this.broken.take().map_or(Ok(this), Err)
    }

    fn make(&mut self, ip: IpAddr) -> Result<(), String> {
        let library = self.library;
        let mut address = socket_address((ip, 0).into(), self.scope);
        // SAFETY: the arguments live while the calls run. Each object is made of earlier ones, all of which
        // stay open until `drop`.
        unsafe {
            self.events = (library.create_event_channel)();
            if self.events.is_null() {
                return Err(failed("rdma_create_event_channel"));
            }
            if (library.create_id)(self.events, &raw mut self.id, ptr::null_mut(), RDMA_PS_UDP) != 0 {
                self.id = ptr::null_mut();
                return Err(failed("rdma_create_id of datagrams"));
            }
            if (library.bind_addr)(self.id, (&raw mut address).cast()) != 0 {
                return Err(failed(&format!("rdma_bind_addr of datagrams to {ip}")));
            }
            if (*self.id).verbs != self.context {
                return Err("datagrams would leave by another device".to_owned());
            }
            self.channel = (library.create_comp_channel)(self.context);
            if self.channel.is_null() {
                return Err(failed("ibv_create_comp_channel"));
            }
            let entries = (self.receives.count() + SENDS) as c_int;
            self.cq = (library.create_cq)(self.context, entries, ptr::null_mut(), self.channel, 0);
            if self.cq.is_null() {
                return Err(failed("ibv_create_cq of datagrams"));
            }
            for fd in self.descriptors() {
                nonblocking(fd).map_err(|error| format!("fcntl: {error}"))?;
            }
        }
        self.make_queues()
    }

    fn make_queues(&mut self) -> Result<(), String> {
        let queues = (self.cq, ptr::null_mut());
        let room = (SENDS as u32, self.receives.count() as u32);
        // SAFETY: all objects are open and of this device.
        let granted =
            unsafe { make_queue_pair(self.library, (self.id, self.pd), IBV_QPT_UD, queues, room, [INLINE_WANTED, 0]) };
        self.inline_max = granted.ok_or_else(|| failed("rdma_create_qp of datagrams"))? as usize;
        Ok(())
    }

    fn descriptors(&self) -> [RawFd; 2] {
        // SAFETY: both are open.
        unsafe { [(*self.events).fd, (*self.channel).fd] }
    }

    fn post_receive(&mut self, index: usize) {
        let mut piece = self.receives.piece(index, GRH + self.bytes_max);
        let mut receive =
            Receive { id: number(RECEIVED, 0, index), next: ptr::null_mut(), pieces: &raw mut piece, count: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue is open, and the packet is the device's until its completion comes, or the queue
        // is closed.
        let code = unsafe {
            let qp = (*self.id).qp;
            ((*(*qp).context).post_recv)(qp, &raw mut receive, &raw mut bad)
        };
        if code != 0 {
            let why = io::Error::from_raw_os_error(code.saturating_abs());
            self.broken.get_or_insert_with(|| format!("ibv_post_recv of datagrams: {why}"));
        }
    }

    fn join(&mut self, address: SocketAddr, receives: bool) -> Result<(), String> {
        if let Some(known) = self.joined.iter_mut().find(|joined| joined.address == address) {
            known.users += 1;
            known.receives |= receives;
            return Ok(());
        }
        if self.joined.len() >= GROUPS_MAX {
            return Err(format!("a process joins no more than {GROUPS_MAX} groups"));
        }
        self.serial += 1;
        let serial = self.serial;
        let mut to = socket_address(address, self.scope);
        // SAFETY: the identifier is open and has a queue pair; the address lives while the call runs.
        if unsafe { (self.library.join_multicast)(self.id, (&raw mut to).cast(), serial as *mut c_void) } != 0 {
            return Err(failed(&format!("rdma_join_multicast to {}", address.ip())));
        }
        self.joined.push(Joined { address, serial, users: 1, receives, state: State::Joining });
        let deadline = clock::now() + JOIN_TIME_MAX;
        let why = loop {
            self.take_events();
            match self.joined.last().map(|joined| &joined.state) {
                Some(State::Open(_)) => return Ok(()),
                Some(State::Failed(why)) => break why.clone(),
                _ => {}
            }
            let left = deadline.since(clock::now());
            if left.0 == 0 {
                break "the network does not answer".to_owned();
            }
            let mut events = [libc::pollfd { fd: self.descriptors()[0], events: libc::POLLIN, revents: 0 }];
            // An error is an early look.
            let _ = sys::ppoll(&mut events, Some(left.as_nanos()));
        };
        self.leave(&address);
        Err(format!("the group {} cannot be joined: {why}", address.ip()))
    }

    fn leave(&mut self, address: &SocketAddr) {
        let Some(at) = self.joined.iter().position(|joined| joined.address == *address) else { return };
        self.joined[at].users -= 1;
        if self.joined[at].users == 0 {
            let group = self.joined.swap_remove(at);
            self.close(&group);
        }
    }

    /// Closes a group. Datagrams that still come belong to no known group. Sends under way have the address
    /// already.
    fn close(&self, group: &Joined) {
        let mut address = socket_address(group.address, self.scope);
        // SAFETY: the identifier is open. The handle is open, and nothing else has it. All events have been
        // given back; the first call waits for that.
        unsafe {
            (self.library.leave_multicast)(self.id, (&raw mut address).cast());
            if let State::Open(to) = &group.state {
                (self.library.destroy_ah)(to.handle);
            }
        }
    }

    /// Takes the events of RDMA CM.
    fn take_events(&mut self) {
        // An event for each group, and events of the device.
        for _ in 0..2 * GROUPS_MAX {
            let mut event: *mut CmEvent = ptr::null_mut();
            // SAFETY: the channel is open, and does not block.
            if unsafe { (self.library.get_cm_event)(self.events, &raw mut event) } != 0 {
                return;
            }
            // SAFETY: the library has made the event, which stays until it is given back, once. Only events
            // of groups are read as such.
            let (kind, status, serial, to) = unsafe {
                let GroupEvent { event: kind, status, given, address, qp, qkey, .. } = &*event.cast::<GroupEvent>();
                let is_joined = *kind == EVENT_MULTICAST_JOIN && *status == 0;
                let told = (*kind, *status, *given as usize, is_joined.then_some((*address, *qp, *qkey)));
                (self.library.ack_cm_event)(event);
                told
            };
            match (kind, to) {
                (EVENT_DEVICE_REMOVAL, _) => self.broken = Some("the device is gone".to_owned()),
                (EVENT_MULTICAST_JOIN | EVENT_MULTICAST_ERROR, to) => {
                    let opened = to.ok_or_else(|| io::Error::from_raw_os_error(status.saturating_abs()).to_string());
                    let state = opened.and_then(|to| self.open(to));
                    self.note(serial, state);
                }
                _ => {}
            }
        }
    }

    /// Returns the destination of a group that has been joined.
    fn open(&mut self, (mut address, qp, qkey): (AhWish, u32, u32)) -> Result<To, String> {
        let mut own = [0; 16];
        // SAFETY: the device and the domain are open, and what is written to is ours.
        let handle = unsafe {
            if (self.library.query_gid)(self.context, self.port, address.own_gid.into(), &raw mut own) == 0 {
                self.own_gid = Some(own);
            }
            (self.library.create_ah)(self.pd, &raw mut address)
        };
        if handle.is_null() {
            return Err(failed("ibv_create_ah"));
        }
        let mut gid = [0; 16];
        let words = address.gid.map(u64::to_ne_bytes);
        gid[..8].copy_from_slice(&words[0]);
        gid[8..].copy_from_slice(&words[1]);
        Ok(To { gid, handle, qp, qkey })
    }

    fn note(&mut self, serial: usize, opened: Result<To, String>) {
        let library = self.library;
        let close = |to: &To| {
            // SAFETY: the handle is open, and forgotten.
            unsafe { (library.destroy_ah)(to.handle) };
        };
        let Some(group) = self.joined.iter_mut().find(|joined| joined.serial == serial) else {
            return opened.iter().for_each(close);
        };
        let state = opened.map_or_else(State::Failed, State::Open);
        if let State::Open(before) = std::mem::replace(&mut group.state, state) {
            close(&before);
        }
    }

    /// Sends a datagram to a group.
    fn send(&mut self, address: &SocketAddr, packet: &[u8]) -> Outcome {
        if packet.len() > self.bytes_max {
            return Outcome::TooLarge;
        }
        if self.free_sends.is_empty() {
            self.look();
        }
        let group = self.joined.iter().find(|joined| joined.address == *address);
        let Some(State::Open(to)) = group.map(|joined| &joined.state).filter(|_| self.broken.is_none()) else {
            return Outcome::Dropped;
        };
        let Some(index) = self.free_sends.pop() else { return Outcome::WouldBlock };
        // SAFETY: the buffer is this datagram's until its completion comes, and it fits there.
        unsafe { ptr::copy_nonoverlapping(packet.as_ptr(), self.sends.at(index), packet.len()) };
        let mut piece = self.sends.piece(index, packet.len());
        let inline = if packet.len() <= self.inline_max { IBV_SEND_INLINE } else { 0 };
        let mut send = Datagram {
            id: number(SENT, 0, index),
            next: ptr::null_mut(),
            pieces: &raw mut piece,
            count: 1,
            operation: IBV_WR_SEND,
            flags: IBV_SEND_SIGNALED | inline,
            immediate: 0,
            to: to.handle,
            qp: to.qp,
            qkey: to.qkey,
            unused: [0; 9],
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue and the handle are open; a datagram has the layout of any send.
        let code = unsafe {
            let qp = (*self.id).qp;
            ((*(*qp).context).post_send)(qp, (&raw mut send).cast(), &raw mut bad)
        };
        match code.saturating_abs() {
            0 => Outcome::Sent,
            error => {
                self.free_sends.push(index);
                if error == libc::ENOMEM || error == libc::EAGAIN { Outcome::WouldBlock } else { Outcome::Dropped }
            }
        }
    }

    /// Looks for completions of sends, and keeps those of receives.
    fn look(&mut self) {
        let Some(mut batch) = self.batch.take() else { return };
        let count = self.poll(&mut *batch);
        for completion in &batch[..count] {
            match completion.id >> 56 {
                SENT => self.complete_send(completion),
                _ => self.found.push_back(*completion),
            }
        }
        self.batch = Some(batch);
    }

    fn poll(&mut self, completions: &mut [Completion]) -> usize {
        // SAFETY: the queue is open.
        unsafe { poll_queue(self.cq, completions) }
    }

    fn complete_send(&mut self, completion: &Completion) {
        let index = completion.id as u32 as usize;
        if index < SENDS && !self.free_sends.contains(&index) {
            self.free_sends.push(index);
        }
        self.note_status(completion, "ibv_post_send");
    }

    /// Notes a completion's status. A failed completion stops the queue pair; the result is whether it
    /// succeeded.
    fn note_status(&mut self, completion: &Completion, what: &str) -> bool {
        let Completion { status, vendor_error, .. } = *completion;
        if status != IBV_WC_SUCCESS && (status != IBV_WC_WR_FLUSH_ERR || self.broken.is_none()) {
            let said = self.library.describe(status);
            self.broken = Some(format!("{what} of datagrams: {said} (status {status}, vendor's {vendor_error:#x})"));
        }
        status == IBV_WC_SUCCESS
    }

    /// Hands on at most `limit` datagrams that have arrived, and returns their number.
    fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        let Some(mut batch) = self.batch.take() else { return 0 };
        let mut packets = 0;
        while packets < limit {
            let wanted = (limit - packets).min(BATCH);
            let kept = self.found.len().min(wanted);
            self.found.drain(..kept).zip(&mut *batch).for_each(|(found, entry)| *entry = found);
            let count = if kept > 0 { kept } else { self.poll(&mut batch[..wanted]) };
            for completion in &batch[..count] {
                match completion.id >> 56 {
                    SENT => self.complete_send(completion),
                    _ => packets += usize::from(self.arrive(completion, on_packet)),
                }
            }
            if count == 0 {
                break;
            }
        }
        self.batch = Some(batch);
        packets
    }

    /// Hands on the datagram of a completion if it is wanted, and returns whether it was.
    fn arrive(&mut self, completion: &Completion, on_packet: &mut dyn FnMut(&[u8])) -> bool {
        let index = completion.id as u32 as usize;
        if index >= self.receives.count() || !self.note_status(completion, "ibv_post_recv") {
            return false;
        }
        let length = (completion.length as usize).min(GRH + self.bytes_max);
        // SAFETY: the device has given this packet back, and all its bytes are initialised. The packet is
        // posted again only after the datagram is done with.
        let bytes = unsafe { std::slice::from_raw_parts(self.receives.at(index).cast_const(), length) };
        let is_wanted = match bytes.split_first_chunk() {
            Some((header, body)) if completion.flags & IBV_WC_GRH != 0 && !body.is_empty() => {
                let is_wanted = self.is_wanted(Route(header), completion.source);
                if is_wanted {
                    on_packet(body);
                }
                is_wanted
            }
            _ => {
                self.rejected += 1;
                false
            }
        };
        self.post_receive(index);
        is_wanted
    }

    /// Returns whether a datagram went to a group that this process receives, and comes from another process:
    /// some devices bring a process's own datagrams back.
    fn is_wanted(&self, route: Route<'_>, source: u32) -> bool {
        // SAFETY: the queue pair is open as long as this is.
        let own = unsafe { (*(*self.id).qp).number };
        let is_own = source == own && self.own_gid.is_some_and(|gid| route.comes_from(&gid));
        let leads_here =
            |joined: &Joined| joined.receives && matches!(&joined.state, State::Open(to) if route.leads_to(&to.gid));
        !is_own && self.joined.iter().any(leads_here)
    }

    /// Arms the descriptors, so that a sleep on them ends when a datagram arrives. Returns `false` when one
    /// is here already.
    fn arm(&mut self) -> bool {
        self.take_events();
        // SAFETY: both are open, and the channel does not block.
        if !unsafe { arm_queue(self.library, self.channel, self.cq) } {
            return false;
        }
        // The channel does not tell of completions that came before it was armed.
        self.look();
        self.found.is_empty()
    }
}

impl Device {
    /// Makes the queue pair of groups, unless it is there.
    ///
    /// # Errors
    /// The device has no datagrams: a sentence, which is the answer from then on.
    pub(in crate::verbs) fn groups(&mut self) -> Result<Room, String> {
        let Some(room) = self.datagrams else {
            let why = if self.is_iwarp { "iWARP has no datagrams" } else { "it does not say what its port carries" };
            return Err(self.no_datagrams.clone().unwrap_or_else(|| why.to_owned()));
        };
        if self.groups.is_none() {
            let of = (self.bound.context(), self.pd, self.port);
            let made = Groups::new(self.library, of, (self.name.ip(), self.scope), room).and_then(|groups| {
                let wake = self.wake.as_ref().ok_or("it is not open")?;
                let also = |fd| watch::also(wake, fd).map_err(|error| format!("epoll_ctl: {error}"));
                groups.descriptors().into_iter().try_for_each(also)?;
                Ok(groups)
            });
            match made {
                Ok(groups) => self.groups = Some(Box::new(groups)),
                Err(why) => {
                    self.datagrams = None;
                    self.no_datagrams = Some(why.clone());
                    return Err(why);
                }
            }
        }
        Ok(room)
    }

    /// Returns the room for datagrams to groups, as far as it is known; none where there can be none.
    pub(in crate::verbs) fn datagrams(&self) -> Option<Room> {
        self.datagrams
    }

    #[inline]
    pub(in crate::verbs) fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Joins a group.
    pub(in crate::verbs) fn join(&mut self, group: &SocketAddr, receives: bool) -> io::Result<()> {
        let joined = self.groups().and_then(|_| match &mut self.groups {
            Some(groups) => groups.join(*group, receives),
            None => Err("there are no datagrams".to_owned()),
        });
        joined.map_err(|why| {
            let device = &self.device;
            self.last_error = Some(format!("the RDMA device {device} has no multicast: {why}"));
            io::Error::other(why)
        })
    }

    /// Leaves a group.
    pub(in crate::verbs) fn leave_group(&mut self, group: &SocketAddr) {
        if let Some(groups) = &mut self.groups {
            groups.leave(group);
        }
    }

    /// Sends a datagram to a group.
    pub(in crate::verbs) fn send_to_group(&mut self, group: &SocketAddr, packet: &[u8]) -> Outcome {
        let Some(groups) = &mut self.groups else { return Outcome::Dropped };
        let outcome = groups.send(group, packet);
        if let Some(why) = groups.broken.as_ref().filter(|_| outcome == Outcome::Dropped) {
            self.last_error = Some(format!("the RDMA device {} multicasts no more: {why}", self.device));
        }
        outcome
    }

    /// Hands on datagrams that have come to groups.
    #[inline]
    pub(in crate::verbs) fn receive_from_groups(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        match &mut self.groups {
            Some(groups) => {
                let count = groups.receive(on_packet, limit);
                self.rejected += std::mem::take(&mut groups.rejected);
                count
            }
            None => 0,
        }
    }

    /// Arms the descriptors of groups, as [`Device::arm`] does.
    pub(super) fn arm_groups(&mut self) -> bool {
        self.groups.as_mut().is_none_or(|groups| groups.arm())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Returns the header of IPv6 and InfiniBand.
    fn global(from: Ipv6Addr, to: Ipv6Addr) -> [u8; GRH] {
        let mut header = [0; GRH];
        header[0] = 6 << 4;
        header[8..24].copy_from_slice(&from.octets());
        header[24..].copy_from_slice(&to.octets());
        header
    }

    /// Returns the header of IPv4: the bytes before it may be anything.
    fn of_ipv4(from: Ipv4Addr, to: Ipv4Addr) -> [u8; GRH] {
        let mut header = [0xa5; GRH];
        header[20] = 4 << 4 | 5;
        header[32..36].copy_from_slice(&from.octets());
        header[36..].copy_from_slice(&to.octets());
        header
    }

    #[test]
    fn where_a_datagram_comes_from_and_goes_is_read_in_either_header() {
        let (own, other) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
        let (group, else_group) = (Ipv4Addr::new(239, 192, 0, 7), Ipv4Addr::new(239, 192, 0, 8));
        let gid = |ip: Ipv4Addr| ip.to_ipv6_mapped().octets();
        let header = of_ipv4(own, group);
        assert!(Route(&header).comes_from(&gid(own)) && !Route(&header).comes_from(&gid(other)));
        assert!(Route(&header).leads_to(&gid(group)) && !Route(&header).leads_to(&gid(else_group)));
        let [own, other, group] = ["fe80::1", "fe80::2", "ff12:401b:ffff::7"].map(|text| text.parse::<Ipv6Addr>());
        let (own, other, group) = (own.unwrap(), other.unwrap(), group.unwrap());
        let header = global(own, group);
        assert!(Route(&header).comes_from(&own.octets()) && !Route(&header).comes_from(&other.octets()));
        assert!(Route(&header).leads_to(&group.octets()) && !Route(&header).leads_to(&own.octets()));
    }

    #[test]
    fn datagrams_are_as_long_as_the_port_carries_and_no_longer_than_groups_of_infiniband_are() {
        let of = |active_mtu: c_int, link_layer: u8, is_iwarp: bool, max_qp_wr: c_int| {
            // SAFETY: plain numbers, of which zeros are values.
            let (mut port, mut device): (PortFacts, DeviceFacts) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
            (port.active_mtu, port.link_layer) = (active_mtu, link_layer);
            (device.max_qp_wr, device.max_cqe) = (max_qp_wr, 4096);
            room(&device, &port, is_iwarp).map(|Room { bytes, receives }| (bytes, receives))
        };
        const ETHERNET: u8 = IBV_LINK_LAYER_ETHERNET;
        assert_eq!(of(3, ETHERNET, false, 16384), Some((1024, 963)));
        assert_eq!(of(5, ETHERNET, false, 16384), Some((4096, 252)));
        assert_eq!((of(5, 1, false, 16384), of(1, 1, false, 256)), (Some((2048, 496)), Some((256, 256))));
        assert_eq!((of(3, ETHERNET, true, 16384), of(0, 1, false, 16384), of(6, 1, false, 16384)), (None, None, None));
        assert_eq!((of(3, ETHERNET, false, 63), of(3, ETHERNET, false, -1)), (None, None));
    }
}
