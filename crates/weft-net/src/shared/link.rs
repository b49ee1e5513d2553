//! Shared memory between processes of several jobs on one node: a carrier over segments.
//!
//! The processes of one node that meet join a segment of their own, of which only rings are used, and only
//! those that carry something take memory. So packets go from one process to another without the kernel, each
//! once and in order. Sleepers are woken as those of a job are, by one doorbell for all segments.
//!
//! The system tells at once of a process that has ended ([`sys::watch_process`]); what it has sent before is
//! handed over first. A segment is given back when the last of its other processes is let go.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_core::flow::PACKET_SIZE_MAX;
use weft_engine::transport::{
    Address, Arrival, Carrier, CarrierAttributes, Delivery, Diagnostics, Frames, Look, Outcome, SharedAddress,
    SleepMode, Sleeping, send_one_by_one, wrong_address,
};

use super::doorbell::Doorbell;
use super::{LOCAL_SIZE_MAX, Node, Settings, ring};
use crate::{Error, sys};

/// Most processes of a segment: the rings between all of them are mapped, though few take memory.
pub const LINK_SIZE_MAX: usize = 128;
/// Bytes of a ring; each ordered pair of processes has one.
const RING_BYTES: usize = 256 << 10;
/// Bytes of the largest packet.
const PACKET_BYTES: usize =
    if ring::frame_max(RING_BYTES) < PACKET_SIZE_MAX { ring::frame_max(RING_BYTES) } else { PACKET_SIZE_MAX };
/// The number of looks after one of which the system is asked who has ended, while nothing sleeps.
const LOOKS_PER_QUESTION: u32 = 4096;
/// The number of the doorbell among what is watched; a process has the number of its segment and its own.
const BELL: u64 = u64::MAX;
/// Room for the number of a process in its segment.
const MEMBER_BITS: u32 = 16;
const _: () = assert!(LINK_SIZE_MAX <= LOCAL_SIZE_MAX && LINK_SIZE_MAX <= 1 << MEMBER_BITS);

/// A random name for a segment, which nobody can guess.
///
/// # Errors
/// The system has no random numbers.
pub fn new_key() -> Result<[u64; 2], Error> {
    let mut bytes = [0; 16];
    sys::random(&mut bytes).map_err(|cause| Error::system("get random bytes", cause))?;
    let (words, _) = bytes.as_chunks();
    Ok([words[0], words[1]].map(u64::from_ne_bytes))
}

/// The share of this process in the segments of its node that several jobs have. Clones have the same share.
#[derive(Clone)]
pub struct SharedLink {
    attributes: CarrierAttributes,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    bell: Arc<Doorbell>,
    watched: sys::Watched,
    /// The segments, by number.
    segments: Vec<Option<Segment>>,
    /// The segment that is looked at first.
    first: usize,
    /// Set while other processes may ring.
    is_armed: bool,
    looks: u32,
    /// Processes that have ended, and whose last packets may still be here.
    ended: Vec<SharedAddress>,
    broken: VecDeque<Address>,
    last_refusal: Option<String>,
}

struct Segment {
    node: Node,
    /// The processes that are reached by it.
    peers: Vec<Option<Peer>>,
}

/// A process that is reached. Its descriptor is readable when it has ended.
struct Peer {
    _life: Option<OwnedFd>,
}

impl SharedLink {
    /// Opens the link, without a segment.
    ///
    /// # Errors
    /// The system has no socket or descriptor.
    pub fn open() -> Result<Self, Error> {
        let failed = |cause| Error::system("watch the doorbell", cause);
        let (bell, watched) = (Doorbell::hang()?, sys::Watched::new().map_err(failed)?);
        watched.add(&bell.fd(), BELL, false).map_err(failed)?;
        let attributes = CarrierAttributes {
            delivery: Delivery::Ordered,
            descriptor: Some(watched.descriptor()),
            ..CarrierAttributes::packets("shared", PACKET_BYTES, Look::Memory)
        };
        let inner = Inner {
            bell: Arc::new(bell),
            watched,
            segments: Vec::new(),
            first: 0,
            is_armed: false,
            looks: 0,
            ended: Vec::new(),
            broken: VecDeque::new(),
            last_refusal: None,
        };
        Ok(Self { attributes, inner: Arc::new(Mutex::new(inner)) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A thread that has panicked has left it as it was between two packets.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a segment as its process `own` of `size`, and returns its number here. Process 0 creates it: the
    /// others come later, and find it. `key` is as for [`Node::create`].
    ///
    /// # Errors
    /// No directory can hold the segment, it is not there, or the arguments make no sense.
    pub fn join(&self, key: &str, own: usize, size: usize, directory: Option<PathBuf>) -> Result<u32, Error> {
        let settings = Settings { directory, ring_bytes_max: RING_BYTES, only_rings: true, ..Settings::default() };
        let mut inner = self.lock();
        let node = Node::create_with(inner.bell.clone(), key, own, size, &settings)?;
        if node.frame_max() < PACKET_BYTES {
            return Err(Error::Unavailable("the shared segment of several jobs has no room for packets".into()));
        }
        let segment = Some(Segment { node, peers: (0..size).map(|_| None).collect() });
        let number = inner.segments.iter().position(Option::is_none).unwrap_or(inner.segments.len());
        match inner.segments.get_mut(number) {
            Some(free) => *free = segment,
            None => inner.segments.push(segment),
        }
        Ok(number as u32)
    }

    /// Reaches process `member` of a segment, which has this process number, until it is let go
    /// ([`Carrier::let_go`]).
    ///
    /// # Panics
    /// There is no such segment, or no such process in it.
    pub fn reach(&self, segment: u32, member: usize, pid: i32) -> Address {
        let address = SharedAddress { segment, member: member as u32 };
        let mut inner = self.lock();
        let life = match sys::watch_process(pid) {
            Ok(life) => inner.watched.add(&life, number_of(address), false).is_ok().then_some(life),
            Err(cause) => {
                if cause.raw_os_error() == Some(libc::ESRCH) {
                    inner.ended.push(address);
                }
                None
            }
        };
        inner.segment_mut(segment).peers[member] = Some(Peer { _life: life });
        Address::Shared(address)
    }

    /// Gives a segment back that reaches nobody.
    pub fn leave_unused(&self, segment: u32) {
        self.lock().give_back_unused(segment);
    }
}

fn number_of(address: SharedAddress) -> u64 {
    u64::from(address.segment) << MEMBER_BITS | u64::from(address.member)
}

impl Inner {
    fn segment_mut(&mut self, segment: u32) -> &mut Segment {
        self.segments[segment as usize].as_mut().expect("a segment that has been joined")
    }

    /// The segment and process of an address that this link has given.
    fn at(&mut self, to: &Address) -> io::Result<(&mut Segment, usize)> {
        let Address::Shared(SharedAddress { segment, member }) = to else { return Err(wrong_address()) };
        let found = self.segments.get_mut(*segment as usize).and_then(Option::as_mut);
        let found = found.filter(|segment| segment.peers.get(*member as usize).is_some_and(Option::is_some));
        found.map(|segment| (segment, *member as usize)).ok_or_else(wrong_address)
    }

    fn give_back_unused(&mut self, segment: u32) {
        let Some(place) = self.segments.get_mut(segment as usize) else { return };
        if place.as_ref().is_some_and(|segment| segment.peers.iter().all(Option::is_none)) {
            *place = None;
        }
        while matches!(self.segments.last(), Some(None)) {
            self.segments.pop();
        }
    }

    /// Takes note of what has woken this process, or could have: rings, and processes that have ended.
    #[cold]
    fn take_events(&mut self) {
        if std::mem::take(&mut self.is_armed) {
            self.segments.iter_mut().flatten().for_each(|segment| segment.node.disarm());
        }
        for number in self.watched.ready() {
            if number == BELL {
                self.bell.drain();
                continue;
            }
            let member = (number & ((1 << MEMBER_BITS) - 1)) as u32;
            let address = SharedAddress { segment: (number >> MEMBER_BITS) as u32, member };
            if let Ok((segment, member)) = self.at(&Address::Shared(address)) {
                // It need not be told again.
                segment.peers[member] = Some(Peer { _life: None });
                self.ended.push(address);
            }
        }
    }

    /// Notes processes whose rings are broken, and those that have ended and of which nothing more is here.
    #[cold]
    fn note_lost(&mut self, is_empty: bool) {
        for (number, segment) in (0..).zip(&mut self.segments) {
            let Some(segment) = segment else { continue };
            while let Some(fault) = segment.node.poll_fault() {
                if segment.peers[fault.peer].is_some() {
                    self.last_refusal = Some(fault.reason);
                    let address = SharedAddress { segment: number, member: fault.peer as u32 };
                    self.broken.push_back(Address::Shared(address));
                }
            }
        }
        if is_empty {
            self.broken.extend(self.ended.drain(..).map(Address::Shared));
        }
    }
}

impl Carrier for SharedLink {
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let mut inner = self.lock();
        let (segment, member) = inner.at(to)?;
        if packet.len() > PACKET_BYTES {
            return Ok(Outcome::TooLarge);
        }
        Ok(if segment.node.try_send(member, &[], packet) { Outcome::Sent } else { Outcome::WouldBlock })
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        let mut inner = self.lock();
        inner.looks = inner.looks.wrapping_add(1);
        if inner.is_armed || inner.looks.is_multiple_of(LOOKS_PER_QUESTION) {
            inner.take_events();
        }
        let (count, first) = (inner.segments.len(), inner.first);
        inner.first = if first + 1 < count { first + 1 } else { 0 };
        let (mut packets, mut has_faults) = (0, false);
        for turn in 0..count {
            let at = if first + turn < count { first + turn } else { first + turn - count };
            let Some(segment) = &mut inner.segments[at] else { continue };
            packets += segment.node.poll(limit - packets, |_, packet| on_arrival(Arrival::packet(packet)));
            has_faults |= segment.node.has_faults();
            if packets >= limit {
                break;
            }
        }
        if has_faults || !inner.ended.is_empty() {
            inner.note_lost(packets == 0);
        }
        packets
    }

    fn prepare_sleep(&mut self) -> bool {
        let mut inner = self.lock();
        if !inner.ended.is_empty() || !inner.broken.is_empty() {
            return false;
        }
        inner.is_armed = true;
        // Those that are armed in vain are disarmed by the next look.
        inner.segments.iter_mut().flatten().all(|segment| segment.node.arm(SleepMode::Doorbell))
    }

    fn diagnostics(&self) -> Diagnostics {
        Diagnostics { last_refusal: self.lock().last_refusal.clone(), ..Diagnostics::default() }
    }

    fn under_way(&self, _: &Address) -> usize {
        0
    }

    fn take_broken(&mut self) -> Option<Address> {
        self.lock().broken.pop_front()
    }

    fn let_go(&mut self, to: &Address) {
        let mut inner = self.lock();
        let Ok((segment, member)) = inner.at(to) else { return };
        segment.peers[member] = None;
        let Address::Shared(address) = *to else { return };
        inner.ended.retain(|ended| *ended != address);
        inner.broken.retain(|broken| broken != to);
        inner.give_back_unused(address.segment);
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
