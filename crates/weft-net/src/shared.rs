//! Ranks of one node: frames through rings in one shared segment, without the kernel while both sides are awake.
//!
//! A frame is a head and a payload, at most [`Node::frame_max`] bytes together, delivered exactly once and in the order of sending
//! from one rank to another. No acknowledgement, no resend: memory does not lose.
//!
//! # Sleeping without missing a frame
//!
//! All four steps are sequentially consistent, so they have one order that everybody agrees on:
//!
//! | the sleeper | a sender |
//! |---|---|
//! | 1. writes to `sleeping` how it sleeps ([`SleepMode`]) | a. writes the frame's ready word |
//! | 2. looks at all its rings once more ([`Node::arm`]) | b. reads `sleeping`; if not 0, takes it to 0 and wakes |
//!
//! If the look (2) misses the frame, then a comes after 2, hence b after 1, hence b sees the sleeper and wakes it. The sender that
//! took `sleeping` to 0 is the only one that wakes: a sleep costs one system call on the sending side, however many send. Who sleeps
//! on the futex sleeps on `sleeping` itself, so a sender that comes between 2 and the sleep makes the kernel refuse the sleep.

#[cfg_attr(loom, path = "shared/area_model.rs")]
mod area;
mod cooperative_copy;
mod doorbell;
#[cfg_attr(loom, path = "shared/futex_model.rs")]
mod futex;
mod posted_receives;
mod ring;
#[cfg_attr(loom, path = "shared/segment_model.rs")]
mod segment;
mod sizes;
mod sleeping;
#[cfg_attr(loom, path = "shared/slot_area_model.rs")]
mod slot_area;
mod slots;
// The model checker replaces the segment, whose files this needs.
#[cfg(not(loom))]
mod window_memory;

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::{Error, life, sys};
pub use cooperative_copy::CooperativeCopy;
use doorbell::{Bell, Doorbell, Key, Rung};
pub use posted_receives::PostedReceives;
use ring::{Broken, Consumer, Producer};
use segment::Segment;
use weft_core::time::Duration;
use weft_engine::transport::{
    self, CollectiveSlots, Frames, Liveness, NodeProcessors, PeerFault, SleepMode, Sleeping, SlotCounts, Stamp,
};
#[cfg(not(loom))]
pub use window_memory::{WindowMemory, holder};

/// Ranks that can share a segment. More on one node must be split into groups that treat each other as remote.
pub const LOCAL_SIZE_MAX: usize = 512;
/// Characters of a job key.
pub const JOB_KEY_MAX: usize = 64;

/// How the shared segment is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory to try first (`WEFT_SHM_DIR`); then come `/dev/shm`, `$TMPDIR`, `/tmp`.
    pub directory: Option<PathBuf>,
    /// Bytes of one ring at most; many local ranks make it smaller.
    pub ring_bytes_max: usize,
    /// How long a rank waits for the leader's segment.
    pub attach_timeout: Duration,
    /// Processors that this process may use.
    pub processors: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            directory: None,
            ring_bytes_max: 2 << 20,
            attach_timeout: Duration::from_secs(20),
            processors: usize::MAX,
        }
    }
}

/// Memory that the ranks of one node share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// One ring, of which each ordered pair of ranks has one, bytes.
    pub ring_bytes: usize,
    /// Head and payload of the largest frame in it, bytes.
    pub frame_max: usize,
    /// All that can come to have memory behind it, bytes.
    pub segment_bytes: usize,
    /// Whether a ring takes memory only once it is used.
    pub on_first_use: bool,
}

/// The memory that `local_size` ranks of one node share; none when so many cannot ([`LOCAL_SIZE_MAX`]).
pub fn memory(local_size: usize, settings: &Settings) -> Option<Memory> {
    (1..=LOCAL_SIZE_MAX).contains(&local_size).then(|| {
        let geometry = segment::Geometry::choose(local_size, settings.ring_bytes_max);
        // No rank uses the ring to itself.
        let (ring_bytes, segment_bytes) = (geometry.ring_bytes, geometry.total() - local_size * geometry.ring_bytes);
        Memory { ring_bytes, frame_max: ring::frame_max(ring_bytes), segment_bytes, on_first_use: geometry.is_lazy() }
    })
}

/// Directories that may hold the segment, in the order in which they are tried.
pub fn directories(settings: &Settings) -> Vec<PathBuf> {
    segment::directories(settings)
}

/// Values of [`segment::RankState::inside_mpi`] beside 0: the rank waits; from this one on, it spins on the processor with this number more.
const WAITS: u32 = 1;
const SPINS: u32 = 2;

/// Processes that one look for dead ones looks up in /proc, which takes some microseconds for each; of the others it asks whether their numbers
/// are in use. All are looked up in turns.
const LOOKED_UP_MAX: usize = 16;

/// Values of [`segment::RankState::copies`]: a rank may not copy from the memory of some other, and it may from all.
const COPIES: [u32; 2] = [1, 2];

/// Of the processors `mine` the one where the fewest of the others are that are `spinning`, if they are at least two fewer there than
/// `here` with this one, wherever the `unknown` ones are.
fn less_loaded(here: u32, mine: &[u32], spinning: &[u32], unknown: usize) -> Option<u32> {
    let on = |processor: u32| spinning.iter().filter(|other| **other == processor).count();
    let emptiest = mine.iter().copied().filter(|other| *other != here).min_by_key(|other| on(*other))?;
    (on(emptiest) + unknown < on(here)).then_some(emptiest)
}

/// Sleeps for a [`Node`] while others use it.
#[derive(Clone)]
pub struct Sleeper {
    segment: Arc<Segment>,
    own: usize,
}

impl Sleeper {
    /// After [`Node::arm`] for [`SleepMode::Futex`] said true: sleeps until a neighbour wakes this rank, or for `timeout` at most.
    pub fn sleep(&self, timeout: Option<Duration>) {
        let word = &self.segment.rank_state(self.own).sleeping;
        futex::wait(word, SleepMode::Futex as u32, timeout.map(Duration::as_nanos));
    }
}

/// This process's place among the ranks of its node.
pub struct Node {
    // The rings inside point into the segment, which both hold.
    inbox: Inbox,
    outbox: Outbox,
    warnings: Vec<String>,
    reported: Vec<bool>,
    /// Whether this process can ask when others began ([`life`]).
    knows_births: bool,
    /// The first place that is looked up in /proc by the next look for dead processes.
    looked_up_next: usize,
    /// How many looks in a row have found each process dead.
    found_dead: Vec<u8>,
    /// How many are needed before this process believes it.
    looks_to_believe: u8,
}

impl Node {
    /// Joins the ranks of this node. Rank 0 of `local_size` creates the segment; the others wait for it, at most
    /// `settings.attach_timeout`. Collective over the node's ranks but not synchronizing: rank 0 returns before the others arrive.
    ///
    /// `job_key` names the group: the same on all its ranks, unguessable, different from that of any other group of ranks on this
    /// machine (so mix in the node's identity when one machine plays several nodes); 1 to [`JOB_KEY_MAX`] of `A-Z a-z 0-9 . _ -`.
    ///
    /// # Errors
    /// No directory can hold the segment, the leader did not offer one in time, or the arguments make no sense.
    pub fn create(job_key: &str, local_index: usize, local_size: usize, settings: &Settings) -> Result<Self, Error> {
        check_arguments(job_key, local_index, local_size)?;
        let bell = Doorbell::hang()?;
        let (segment, warnings) = if local_index == 0 {
            Segment::create(job_key, local_size, settings)?
        } else {
            (Segment::attach(job_key, local_size, settings)?, Vec::new())
        };
        Self::join(Arc::new(segment), local_index, bell, warnings)
    }

    fn join(segment: Arc<Segment>, own: usize, bell: Doorbell, warnings: Vec<String>) -> Result<Self, Error> {
        let (state, size) = (segment.rank_state(own), segment.geometry().local_size);
        let birth = life::own_birth();
        for (place, word) in state.bell.iter().zip(bell.key().0) {
            place.store(word, Ordering::Relaxed);
        }
        state.birth.store(birth, Ordering::Relaxed);
        // Whoever sees the number sees the rest.
        let pid = std::process::id() as i32;
        if state.pid.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            let who = "another process has joined the node in its place: do two groups of ranks use one job key?";
            return Err(Error::Invalid(format!("local index {own} of {size} local ranks: {who}")));
        }
        Ok(Self {
            reported: vec![false; size],
            inbox: Inbox::new(Arc::clone(&segment), own),
            outbox: Outbox::new(segment, own, bell),
            knows_births: birth != 0,
            looked_up_next: 0,
            found_dead: vec![0; size],
            looks_to_believe: 1,
            warnings,
        })
    }

    /// One-line warnings for the user, e.g. that /dev/shm is full and another directory is used.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The launcher ends the job when a rank dies, and knows the cause: `looks` looks must find a process
    /// dead before this process says so itself. A message of this process about the death would hide the
    /// cause.
    pub fn leave_deaths_to_launcher(&mut self, looks: u8) {
        self.looks_to_believe = looks;
    }

    /// Whether this rank is the first of the node to ask, and so says what all of them would.
    pub fn speaks_first(&self) -> bool {
        self.inbox.segment.speaks_first()
    }

    /// The process of a local peer, None until it has joined. For [`crate::single_copy`].
    pub fn pid(&self, peer: usize) -> Option<i32> {
        let pid = self.inbox.segment.rank_state(peer).pid.load(Ordering::Acquire);
        (pid > 0).then_some(pid)
    }

    /// Whether all ranks of the node have joined; from then on the segment has no name in any directory.
    pub fn is_complete(&self) -> bool {
        self.inbox.segment.attached() >= self.inbox.segment.geometry().local_size
    }

    /// See [`Outbox::try_send`].
    #[inline]
    pub fn try_send(&mut self, to: usize, head: &[u8], payload: &[u8]) -> bool {
        self.outbox.try_send(to, head, payload)
    }

    /// The processors on which other ranks spin.
    fn spinning_elsewhere(&self) -> impl Iterator<Item = u32> {
        let segment = &self.inbox.segment;
        let others = (0..segment.geometry().local_size).filter(|index| *index != self.inbox.own);
        others.filter_map(|index| segment.rank_state(index).inside_mpi.load(Ordering::Relaxed).checked_sub(SPINS))
    }

    /// Both halves, to send from inside `on_frame`.
    pub fn split(&mut self) -> (&mut Inbox, &mut Outbox) {
        (&mut self.inbox, &mut self.outbox)
    }
}

impl transport::Node for Node {
    type Slots = Self;
    type Posted = Self;

    #[inline]
    fn slots(&self) -> Option<&Self> {
        Some(self)
    }

    #[inline]
    fn slots_mut(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    #[inline]
    fn posted_receives(&self) -> Option<&Self> {
        Some(self)
    }

    #[inline]
    fn posted_receives_mut(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn liveness(&mut self) -> Option<&mut dyn Liveness> {
        Some(self)
    }

    #[inline]
    fn processors(&self) -> Option<&dyn NodeProcessors> {
        Some(self)
    }
}

impl Frames for Node {
    #[inline]
    fn own_place(&self) -> usize {
        self.inbox.own
    }

    fn frame_max(&self) -> usize {
        ring::frame_max(self.inbox.segment.geometry().ring_bytes)
    }

    #[inline(always)]
    fn try_send_with(&mut self, to: usize, head: &[u8], len: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        self.outbox.try_send_with(to, head, len, fill)
    }

    #[inline]
    fn poll(&mut self, limit: usize, on_frame: impl FnMut(usize, &[u8])) -> usize {
        self.inbox.poll(limit, on_frame)
    }

    fn is_pending(&mut self) -> bool {
        self.inbox.is_pending()
    }

    fn poll_fault(&mut self) -> Option<PeerFault> {
        loop {
            let fault = self.inbox.faults.pop().or_else(|| self.outbox.faults.pop())?;
            if !std::mem::replace(&mut self.reported[fault.peer], true) {
                return Some(fault);
            }
        }
    }
}

impl Sleeping for Node {
    type Sleeper = Sleeper;

    fn arm(&mut self, rest: SleepMode) -> bool {
        if self.inbox.segment.rank_state(self.inbox.own).inside_mpi.load(Ordering::Relaxed) >= SPINS {
            transport::PostedReceives::set_inside_mpi(self, true);
        }
        self.inbox.segment.fall_asleep(self.inbox.own, rest as u32);
        if self.inbox.is_pending() {
            self.disarm();
            return false;
        }
        true
    }

    fn disarm(&mut self) {
        self.inbox.segment.take_sleep(self.inbox.own);
    }

    #[inline]
    fn wake_if_asleep(&mut self, place: usize) {
        if self.outbox.segment.rank_state(place).sleeping.load(Ordering::SeqCst) != 0 {
            self.outbox.wake(place);
        }
    }

    fn nudge(&mut self) {
        let place = self.inbox.segment.rank_state(self.inbox.own);
        if place.sleeping.load(Ordering::SeqCst) == SleepMode::Futex as u32 {
            self.inbox.segment.take_sleep(self.inbox.own);
            futex::wake(&place.sleeping);
        }
    }

    fn sleeper(&self) -> Sleeper {
        Sleeper { segment: Arc::clone(&self.inbox.segment), own: self.inbox.own }
    }

    fn doorbell_fd(&self) -> RawFd {
        self.outbox.bell.fd()
    }

    fn drain_doorbell(&mut self) {
        self.outbox.bell.drain();
    }

    fn awake(&self) -> usize {
        self.inbox.segment.awake()
    }

    fn is_oversubscribed(&self) -> bool {
        self.inbox.segment.geometry().local_size > self.inbox.segment.processors()
    }
}

impl CollectiveSlots for Node {
    fn counts(&self) -> SlotCounts {
        self.inbox.segment.geometry().slots
    }

    fn published_max(&self, slot: usize) -> usize {
        slots::published_max(self.inbox.segment.geometry().is_short(slot))
    }

    #[inline]
    fn phases_ahead(&self, slot: usize, len: usize) -> u32 {
        slots::cells(self.inbox.segment.geometry().is_short(slot), len)
    }

    #[inline]
    fn publish(&mut self, slot: usize, stamp: Stamp, len: usize, fill: impl FnOnce(&mut [u8])) {
        slots::publish(self.inbox.segment.slot(self.inbox.own, slot), stamp, len, fill);
    }

    #[inline]
    fn with_published<R>(&self, of: usize, slot: usize, stamp: Stamp, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        slots::published(&self.inbox.segment.slot(of, slot), stamp).map(take)
    }

    fn is_published(&self, of: usize, slot: usize, stamp: Stamp) -> bool {
        slots::is_published(&self.inbox.segment.slot(of, slot), stamp)
    }

    #[inline]
    fn finish_phases(&mut self, slot: usize, before: Stamp) {
        slots::finish(&self.inbox.segment.slot(self.inbox.own, slot), before);
    }

    #[inline]
    fn finished_phases(&self, of: usize, slot: usize) -> Stamp {
        slots::finished(&self.inbox.segment.slot(of, slot))
    }
}

impl transport::PostedReceives for Node {
    type Table = PostedReceives;

    fn own_table(&mut self, sender: usize) -> Option<PostedReceives> {
        if let Ring::Unused = self.outbox.rings[sender] {
            self.outbox.open(sender);
        }
        let is_open = matches!(self.outbox.rings[sender], Ring::Open(_));
        is_open.then(|| PostedReceives::new(Arc::clone(&self.outbox.segment), sender, self.outbox.own))
    }

    fn any_source_table(&mut self) -> Option<PostedReceives> {
        let (segment, own) = (&self.inbox.segment, self.inbox.own);
        segment.reserve_common(own).ok()?;
        segment.rank_state(own).common.store(1, Ordering::Release);
        Some(PostedReceives::new(Arc::clone(segment), own, own))
    }

    fn table_of(&mut self, receiver: usize) -> Option<PostedReceives> {
        let announcements = self.inbox.segment.rank_state(self.inbox.own).announcements.load(Ordering::Acquire);
        if announcements != self.inbox.announcements_seen {
            self.inbox.discover(announcements);
        }
        let known = self.inbox.is_active[receiver];
        known.then(|| PostedReceives::new(Arc::clone(&self.inbox.segment), self.inbox.own, receiver))
    }

    fn announce_written(&mut self, receiver: usize) {
        self.outbox.segment.rank_state(receiver).written.fetch_add(1, Ordering::SeqCst);
        if self.outbox.segment.rank_state(receiver).sleeping.load(Ordering::SeqCst) != 0 {
            self.outbox.wake(receiver);
        }
    }

    #[inline]
    fn take_written(&mut self) -> bool {
        let written = self.inbox.segment.rank_state(self.inbox.own).written.load(Ordering::Acquire);
        std::mem::replace(&mut self.inbox.written_seen, written) != written
    }

    #[inline]
    fn set_inside_mpi(&self, waits: bool) {
        let inside_mpi = if waits { WAITS } else { 0 };
        self.inbox.segment.rank_state(self.inbox.own).inside_mpi.store(inside_mpi, Ordering::Relaxed);
    }

    fn is_inside_mpi(&self, peer: usize) -> bool {
        self.inbox.segment.rank_state(peer).inside_mpi.load(Ordering::Relaxed) != 0
    }

    fn say_copies(&self, from_all: bool) {
        let copies = COPIES[usize::from(from_all)];
        self.inbox.segment.rank_state(self.inbox.own).copies.store(copies, Ordering::Release);
    }

    fn says_copies(&self, place: usize) -> Option<bool> {
        match self.inbox.segment.rank_state(place).copies.load(Ordering::Acquire) {
            0 => None,
            copies => Some(copies == COPIES[1]),
        }
    }
}

impl Liveness for Node {
    fn look_for_dead(&mut self) {
        let segment = &self.inbox.segment;
        let size = segment.geometry().local_size;
        let first = self.looked_up_next;
        self.looked_up_next = (first + LOOKED_UP_MAX) % size;
        for place in 0..size {
            let state = segment.rank_state(place);
            let pid = state.pid.load(Ordering::Acquire);
            if pid == 0 || place == self.inbox.own || self.reported[place] || state.left.load(Ordering::Acquire) != 0 {
                continue;
            }
            let is_looked_up = self.knows_births && (place + size - first) % size < LOOKED_UP_MAX;
            let birth = if is_looked_up { state.birth.load(Ordering::Relaxed) } else { 0 };
            // It may have left, and ended, just now.
            if life::has_ended(pid, birth) && state.left.load(Ordering::Acquire) == 0 {
                self.found_dead[place] = self.found_dead[place].saturating_add(1);
                if self.found_dead[place] >= self.looks_to_believe {
                    self.outbox.close(place, "has died: its process is gone".into());
                }
            }
        }
    }

    fn say_left(&mut self, left: bool) {
        self.inbox.segment.rank_state(self.inbox.own).left.store(left.into(), Ordering::Release);
    }
}

impl NodeProcessors for Node {
    fn note_processor(&self) {
        let spins = sys::processor().map_or(WAITS, |processor| SPINS.saturating_add(processor));
        self.inbox.segment.rank_state(self.inbox.own).inside_mpi.store(spins, Ordering::Relaxed);
    }

    fn shares_processor(&self) -> bool {
        sys::processor().is_some_and(|here| self.spinning_elsewhere().any(|processor| processor == here))
    }

    fn migrate(&self) {
        if let Some(here) = sys::processor() {
            // Where there is no third processor, any but this one will do.
            if !sys::move_to(|other| other != here && self.spinning_elsewhere().all(|taken| taken != other)) {
                sys::move_to(|other| other != here);
            }
        }
        self.note_processor();
    }

    fn rebalance(&self) {
        let Some(here) = sys::processor() else { return };
        let segment = &self.inbox.segment;
        let others = (0..segment.geometry().local_size).filter(|index| *index != self.inbox.own);
        let mut spinning = Vec::new();
        for index in others.clone() {
            match segment.rank_state(index).inside_mpi.load(Ordering::Relaxed).checked_sub(SPINS) {
                Some(processor) if processor == here && index > self.inbox.own => return,
                Some(processor) => spinning.push(processor),
                None => {}
            }
        }
        let unknown = others.count() - spinning.len();
        if let Some(less_loaded) = less_loaded(here, &sys::processors(), &spinning, unknown) {
            sys::move_to(|other| other == less_loaded);
            self.note_processor();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Nobody should ring a bell that is being taken down.
        self.disarm();
    }
}

fn check_arguments(job_key: &str, local_index: usize, local_size: usize) -> Result<(), Error> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if job_key.is_empty() || job_key.len() > JOB_KEY_MAX || !job_key.chars().all(legal) {
        return Err(Error::Invalid(format!("the job key {job_key:?} cannot be part of a file name")));
    }
    if local_size > LOCAL_SIZE_MAX {
        let advice = "give groups of them different WEFT_NODE values";
        return Err(Error::Invalid(format!(
            "{local_size} ranks on one node, at most {LOCAL_SIZE_MAX} share memory; {advice}"
        )));
    }
    if local_index >= local_size {
        return Err(Error::Invalid(format!("local index {local_index} of {local_size} local ranks")));
    }
    Ok(())
}

/// The receiving half of a [`Node`].
pub struct Inbox {
    segment: Arc<Segment>,
    own: usize,
    /// Rings that have been used, with the local index of the sender.
    active: Vec<(usize, Consumer)>,
    is_active: Vec<bool>,
    announcements_seen: u32,
    written_seen: u32,
    /// Which active ring is looked at first, so that a busy one does not starve the others.
    first: usize,
    faults: Vec<PeerFault>,
}

impl Inbox {
    fn new(segment: Arc<Segment>, own: usize) -> Self {
        let is_active = vec![false; segment.geometry().local_size];
        Self {
            segment,
            own,
            active: Vec::new(),
            is_active,
            announcements_seen: 0,
            written_seen: 0,
            first: 0,
            faults: Vec::new(),
        }
    }

    /// Hands at most `limit` frames that have arrived to `on_frame(sender, bytes)`, head and payload in one piece; returns how many.
    /// Frames of one sender come in its order. `bytes` is the ring itself: valid during the call only, aligned to 4 bytes.
    #[inline]
    pub fn poll(&mut self, limit: usize, mut on_frame: impl FnMut(usize, &[u8])) -> usize {
        let announcements = self.segment.rank_state(self.own).announcements.load(Ordering::Acquire);
        if announcements != self.announcements_seen {
            self.discover(announcements);
        }
        let mut handled = 0;
        for turn in 0..self.active.len() {
            let mut at = self.first + turn;
            if at >= self.active.len() {
                at -= self.active.len();
            }
            let (peer, ring) = &mut self.active[at];
            loop {
                match ring.peek() {
                    Ok(None) => break,
                    Ok(Some(frame)) => on_frame(*peer, frame),
                    Err(broken) => {
                        self.discard(at, &broken);
                        return handled;
                    }
                }
                ring.release();
                handled += 1;
                if handled >= limit {
                    self.first = if at + 1 < self.active.len() { at + 1 } else { 0 };
                    return handled;
                }
            }
        }
        handled
    }

    /// Whether any ring has something, sequentially consistent: step 2 of the sleeping protocol.
    fn is_pending(&mut self) -> bool {
        let announcements = self.segment.rank_state(self.own).announcements.load(Ordering::SeqCst);
        if announcements != self.announcements_seen {
            self.discover(announcements);
        }
        let written = self.segment.rank_state(self.own).written.load(Ordering::SeqCst);
        written != self.written_seen || self.active.iter().any(|(_, ring)| ring.is_pending())
    }

    /// Adds the rings that have been announced since the last look.
    #[cold]
    fn discover(&mut self, announcements: u32) {
        self.announcements_seen = announcements;
        let place = self.segment.rank_state(self.own);
        for sender in 0..self.is_active.len() {
            let announced = place.announced[sender / 64].load(Ordering::SeqCst) >> (sender % 64) & 1 != 0;
            if announced && !self.is_active[sender] {
                self.is_active[sender] = true;
                self.active.push((sender, Consumer::new(self.segment.ring(self.own, sender))));
            }
        }
    }

    /// A broken ring is not looked at again: `is_active` stays set, so it is not discovered again either.
    #[cold]
    fn discard(&mut self, at: usize, broken: &Broken) {
        let (peer, _) = self.active.swap_remove(at);
        self.first = 0;
        self.faults.push(PeerFault { peer, reason: broken.to_string() });
    }
}

/// The sending half of a [`Node`].
pub struct Outbox {
    segment: Arc<Segment>,
    own: usize,
    rings: Vec<Ring>,
    bell: Doorbell,
    /// Those of others that have been rung.
    bells: Vec<Option<Bell>>,
    faults: Vec<PeerFault>,
}

/// The way to one peer.
enum Ring {
    /// Never used: the peer does not look at it yet.
    Unused,
    /// In use.
    Open(Producer),
    /// Broken; the fault has been recorded.
    Closed,
}

impl Outbox {
    fn new(segment: Arc<Segment>, own: usize, bell: Doorbell) -> Self {
        let size = segment.geometry().local_size;
        let rings = (0..size).map(|_| Ring::Unused).collect();
        let bells = (0..size).map(|_| None).collect();
        Self { segment, own, rings, bell, bells, faults: Vec::new() }
    }

    /// Sends one frame to local rank `to` (which may be this rank). False: the ring is full (poll, then try again) or the peer has
    /// a fault. Copies; wakes the peer if it sleeps.
    ///
    /// # Panics
    /// When `to` is not a local rank, or head and payload together exceed [`Node::frame_max`].
    #[inline]
    pub fn try_send(&mut self, to: usize, head: &[u8], payload: &[u8]) -> bool {
        self.try_send_with(to, head, payload.len(), |out| out.copy_from_slice(payload))
    }

    /// As [`Self::try_send`], but `fill` writes the `len` bytes of payload where the receiver will read them. It is called at most
    /// once, not at all when the result is false, and must write all of them: what it leaves is what an earlier frame left.
    #[inline]
    pub fn try_send_with(&mut self, to: usize, head: &[u8], len: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        if let Ring::Unused = self.rings[to] {
            self.open(to);
        }
        let Ring::Open(producer) = &mut self.rings[to] else { return false };
        match producer.push(head, len, fill) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(broken) => {
                self.close(to, broken.to_string());
                return false;
            }
        }
        if self.segment.rank_state(to).sleeping.load(Ordering::SeqCst) != 0 {
            self.wake(to);
        }
        true
    }

    /// Reserves the ring and tells the peer to look at it from now on.
    #[cold]
    fn open(&mut self, to: usize) {
        if let Err(cause) = self.segment.reserve_ring(to, self.own) {
            return self.close(to, format!("cannot be reached: no memory for its shared ring: {cause}"));
        }
        self.rings[to] = Ring::Open(Producer::new(self.segment.ring(to, self.own)));
        let place = self.segment.rank_state(to);
        place.announced[self.own / 64].fetch_or(1 << (self.own % 64), Ordering::SeqCst);
        place.announcements.fetch_add(1, Ordering::SeqCst);
    }

    #[cold]
    fn close(&mut self, to: usize, reason: String) {
        self.rings[to] = Ring::Closed;
        self.faults.push(PeerFault { peer: to, reason });
    }

    /// Step b of the sleeping protocol.
    #[cold]
    fn wake(&mut self, to: usize) {
        let rest = self.segment.take_sleep(to);
        if rest == 0 {
            return;
        }
        if rest == SleepMode::Futex as u32 {
            // If nobody is in the kernel it is just falling asleep, which the kernel will refuse.
            return futex::wake(&self.segment.rank_state(to).sleeping);
        }
        match self.ring(to) {
            Rung::Yes => {}
            Rung::Nobody => self.close(to, "has died: nobody answers its doorbell".into()),
            Rung::Failed(code) => {
                let cause = std::io::Error::from_raw_os_error(code);
                self.close(to, format!("cannot be woken: its doorbell fails: {cause}"));
            }
        }
    }

    fn ring(&mut self, to: usize) -> Rung {
        let bell = match &mut self.bells[to] {
            Some(bell) => bell,
            unknown => {
                // It sleeps, so it has joined.
                let words = &self.segment.rank_state(to).bell;
                let key = Key(std::array::from_fn(|i| words[i].load(Ordering::Relaxed)));
                match Bell::new(key) {
                    Ok(bell) => unknown.insert(bell),
                    Err(cause) => return Rung::Failed(cause.raw_os_error().unwrap_or(0)),
                }
            }
        };
        self.bell.ring(bell)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "shared/node_tests.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "shared/model_tests.rs"]
mod model_tests;
