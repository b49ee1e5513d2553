//! Ranks of one node: frames through rings in one shared segment, without the kernel while both sides are
//! awake.
//!
//! A frame is a head and a payload, at most [`Node::frame_max`] bytes together. Each frame is delivered
//! exactly once, in the order of sending from one rank to another. There is no acknowledgement and no
//! retransmission: memory loses nothing.
//!
//! # Sleeping without missing a frame
//!
//! All four steps are sequentially consistent, so they have one order that all ranks agree on:
//!
//! | the sleeper | a sender |
//! |---|---|
//! | 1. writes to `sleeping` how it sleeps ([`SleepMode`]) | a. writes the frame's ready word |
//! | 2. looks at all its rings again ([`Node::arm`]) | b. reads `sleeping`; if not 0: takes it to 0, wakes |
//!
//! If the look (2) misses the frame, step a comes after step 2. Then step b comes after step 1, so the sender
//! sees the sleeper and wakes it. Only the sender that took `sleeping` to 0 wakes the sleeper: a sleep costs
//! one system call on the sending side, however many ranks send. A rank that sleeps on the futex sleeps on
//! `sleeping` itself, so a sender that comes between step 2 and the sleep makes the kernel refuse the sleep.

#[cfg_attr(loom, path = "shared/area_model.rs")]
mod area;
// The model checker replaces the segment, whose header this needs.
#[cfg(not(loom))]
mod calibration;
mod cooperative_copy;
mod costs;
mod doorbell;
#[cfg_attr(loom, path = "shared/futex_model.rs")]
pub(crate) mod futex;
mod inbox;
// The model checker replaces the segment, whose files this needs.
#[cfg(not(loom))]
mod kept_costs;
// The model checker knows no descriptors.
#[cfg(not(loom))]
mod link;
mod outbox;
mod posted_receives;
mod processors;
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

use crate::{Error, life};
pub use cooperative_copy::CooperativeCopy;
use doorbell::Doorbell;
pub use inbox::Inbox;
#[cfg(not(loom))]
pub use kept_costs::{KeptCosts, keep_costs, kept_costs, origin};
#[cfg(not(loom))]
pub use link::{LINK_SIZE_MAX, SharedLink, new_key};
pub use outbox::Outbox;
use outbox::Ring;
pub use posted_receives::PostedReceives;
use processors::{SPINS, WAITS};
use segment::Segment;
use weft_core::time::Duration;
use weft_engine::transport::{self, Frames, Liveness, NodeCosts, NodeProcessors, PeerFault, SleepMode, Sleeping};
#[cfg(not(loom))]
pub use window_memory::{WindowMemory, holder};

/// Most ranks that can share a segment. A node with more ranks must split them into groups that treat each
/// other as remote.
pub const LOCAL_SIZE_MAX: usize = 512;
/// Most characters of a job key.
pub const JOB_KEY_MAX: usize = 64;

/// Settings by which the shared segment is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory to try first (`WEFT_SHM_DIR`); then come `/dev/shm`, `$TMPDIR`, `/tmp`.
    pub directory: Option<PathBuf>,
    /// Most bytes of a ring; many local ranks make the ring smaller.
    pub ring_bytes_max: usize,
    /// Longest time for which a rank waits for the leader's segment.
    pub attach_timeout: Duration,
    /// Processors that this process may use.
    pub processors: usize,
    /// The segment has rings and no slots, and each ring takes memory when it is first used.
    pub only_rings: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            directory: None,
            ring_bytes_max: sizes::ring_bytes_max(crate::sys::second_level_cache()),
            attach_timeout: Duration::from_secs(20),
            processors: usize::MAX,
            only_rings: false,
        }
    }
}

/// The sizes of the memory that the ranks of one node share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of one ring; each ordered pair of ranks has a ring.
    pub ring_bytes: usize,
    /// Bytes of the largest frame in a ring, head and payload.
    pub frame_max: usize,
    /// Bytes of the segment, all of which can come to have memory behind them.
    pub segment_bytes: usize,
    /// True if a ring takes memory only once it is used.
    pub on_first_use: bool,
}

/// Returns the sizes of the memory that `local_size` ranks of one node share, or none when there are more
/// than [`LOCAL_SIZE_MAX`].
pub fn memory(local_size: usize, settings: &Settings) -> Option<Memory> {
    (1..=LOCAL_SIZE_MAX).contains(&local_size).then(|| {
        let geometry = segment::Geometry::choose(local_size, settings);
        // No rank uses the ring to itself.
        let (ring_bytes, segment_bytes) = (geometry.ring_bytes, geometry.total() - local_size * geometry.ring_bytes);
        Memory { ring_bytes, frame_max: ring::frame_max(ring_bytes), segment_bytes, on_first_use: geometry.is_lazy() }
    })
}

/// Returns the directories that may hold the segment, in the order in which they are tried.
pub fn directories(settings: &Settings) -> Vec<PathBuf> {
    segment::directories(settings)
}

/// Most processes that one look for dead processes looks up in /proc, a few microseconds for each. Of the
/// other processes the look only asks whether their numbers are in use. All processes are looked up in turns.
const LOOKED_UP_MAX: usize = 16;

/// Values of [`segment::RankState::copies`]: the rank may not copy from the memory of some other rank, or it
/// may copy from the memory of all ranks.
const COPIES: [u32; 2] = [1, 2];

/// A handle by which a thread sleeps for a [`Node`] while others use it.
#[derive(Clone)]
pub struct Sleeper {
    segment: Arc<Segment>,
    own: usize,
}

impl Sleeper {
    /// Sleeps until a neighbour wakes this rank, or for `timeout` at most. Call it after [`Node::arm`] for
    /// [`SleepMode::Futex`] has returned true.
    pub fn sleep(&self, timeout: Option<Duration>) {
        let word = &self.segment.rank_state(self.own).sleeping;
        futex::wait(word, SleepMode::Futex as u32, timeout.map(Duration::as_nanos));
    }
}

/// The share of this process in its node.
pub struct Node {
    // The rings inside point into the segment, which both hold.
    inbox: Inbox,
    outbox: Outbox,
    warnings: Vec<String>,
    reported: Vec<bool>,
    /// True if this process can ask when other processes began ([`life`]).
    knows_births: bool,
    /// The first local rank that is looked up in /proc by the next look for dead processes.
    looked_up_next: usize,
    /// For each process, the number of looks in a row that have found it dead.
    found_dead: Vec<u8>,
    /// Looks that must find a process dead before this process believes that it is dead.
    looks_to_believe: u8,
    /// Set once the costs of the node count for this rank.
    shares_costs: bool,
}

impl Node {
    /// Joins the ranks of this node. Rank 0 of `local_size` creates the segment; the others wait for it, at
    /// most `settings.attach_timeout`. The call is collective over the node's ranks but does not synchronize
    /// them: rank 0 returns before the others arrive.
    ///
    /// `job_key` names the group, by 1 to [`JOB_KEY_MAX`] characters of `A-Z a-z 0-9 . _ -`. The key is the
    /// same on all ranks of the group, cannot be guessed, and differs from the key of every other group on
    /// this machine. When one machine plays several nodes, mix the node's identity into the key.
    ///
    /// # Errors
    /// No directory can hold the segment, the leader did not offer one in time, or the arguments make no
    /// sense.
    pub fn create(job_key: &str, local_index: usize, local_size: usize, settings: &Settings) -> Result<Self, Error> {
        let bell = Arc::new(Doorbell::hang()?);
        Self::create_with(bell, job_key, local_index, local_size, settings)
    }

    /// Does the same with a doorbell that other nodes of this process may have as well.
    fn create_with(
        bell: Arc<Doorbell>,
        job_key: &str,
        local_index: usize,
        local_size: usize,
        settings: &Settings,
    ) -> Result<Self, Error> {
        check_arguments(job_key, local_index, local_size)?;
        let (segment, warnings) = if local_index == 0 {
            Segment::create(job_key, local_size, settings)?
        } else {
            (Segment::attach(job_key, local_size, settings)?, Vec::new())
        };
        Self::join(Arc::new(segment), local_index, bell, warnings)
    }

    fn join(segment: Arc<Segment>, own: usize, bell: Arc<Doorbell>, warnings: Vec<String>) -> Result<Self, Error> {
        let (state, size) = (segment.rank_state(own), segment.geometry().local_size);
        let birth = life::own_birth();
        bell.key().publish(&state.bell);
        state.birth.store(birth, Ordering::Relaxed);
        // The process number is published last: a rank that sees it sees the rest.
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
            shares_costs: false,
            warnings,
        })
    }

    /// Returns one-line warnings for the user, e.g. that /dev/shm is full and another directory is used.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Leaves it to the launcher to say that a rank has died. The launcher ends the job then, and knows the
    /// cause; a message of this process would hide the cause. So `looks` looks in a row must find a process
    /// dead before this process says that it is dead.
    pub fn leave_deaths_to_launcher(&mut self, looks: u8) {
        self.looks_to_believe = looks;
    }

    /// Returns whether this rank is the first of the node to ask. The first one speaks for all ranks of the
    /// node.
    pub fn speaks_first(&self) -> bool {
        self.inbox.segment.speaks_first()
    }

    /// Returns the process number of a local peer, or none until the peer has joined. For
    /// [`crate::single_copy`].
    pub fn pid(&self, peer: usize) -> Option<i32> {
        let pid = self.inbox.segment.rank_state(peer).pid.load(Ordering::Acquire);
        (pid > 0).then_some(pid)
    }

    /// Returns whether a peer has a fault that has not been asked for.
    #[cfg(not(loom))]
    fn has_faults(&self) -> bool {
        !self.inbox.faults.is_empty() || !self.outbox.faults.is_empty()
    }

    /// Returns whether all ranks of the node have joined. From then on the segment has no name in any
    /// directory.
    pub fn is_complete(&self) -> bool {
        self.inbox.segment.attached() >= self.inbox.segment.geometry().local_size
    }

    /// Sends a frame as [`Frames::try_send_with`] does. The payload is copied.
    #[inline]
    pub fn try_send(&mut self, to: usize, head: &[u8], payload: &[u8]) -> bool {
        Frames::try_send_with(self, to, head, payload.len(), |out| out.copy_from_slice(payload))
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

    #[inline]
    fn costs(&self) -> Option<&dyn NodeCosts> {
        self.shares_costs.then_some(self)
    }
}

impl Frames for Node {
    #[inline]
    fn own_local_rank(&self) -> usize {
        self.inbox.own
    }

    fn frame_max(&self) -> usize {
        ring::frame_max(self.inbox.segment.geometry().ring_bytes)
    }

    #[inline(always)]
    fn try_send_with(&mut self, to: usize, head: &[u8], len: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        self.outbox.try_send_with(to, head, len, |peer| self.inbox.taken_from(peer), fill)
    }

    fn has_room(&mut self, to: usize, bytes: u64, frame_max: u64) -> bool {
        self.outbox.has_room(to, bytes, frame_max)
    }

    fn taken_by(&self, to: usize) -> Option<u64> {
        self.outbox.taken_by(to)
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
    fn wake_if_asleep(&mut self, local_rank: usize) {
        if self.outbox.segment.rank_state(local_rank).sleeping.load(Ordering::SeqCst) != 0 {
            self.outbox.wake(local_rank);
        }
    }

    fn nudge(&mut self) {
        let rank_state = self.inbox.segment.rank_state(self.inbox.own);
        if rank_state.sleeping.load(Ordering::SeqCst) == SleepMode::Futex as u32 {
            self.inbox.segment.take_sleep(self.inbox.own);
            futex::wake(&rank_state.sleeping);
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

    fn make_progress_bell(&mut self) -> Option<RawFd> {
        self.outbox.make_progress_bell()
    }

    fn ring_for_progress(&mut self, local_rank: usize) {
        self.outbox.ring_for_progress(local_rank);
    }

    fn awake(&self) -> usize {
        self.inbox.segment.awake()
    }

    fn is_oversubscribed(&self) -> bool {
        self.inbox.segment.geometry().local_size > self.inbox.segment.processors()
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

    fn says_copies(&self, local_rank: usize) -> Option<bool> {
        match self.inbox.segment.rank_state(local_rank).copies.load(Ordering::Acquire) {
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
        for local_rank in 0..size {
            let state = segment.rank_state(local_rank);
            let pid = state.pid.load(Ordering::Acquire);
            if pid == 0
                || local_rank == self.inbox.own
                || self.reported[local_rank]
                || state.left.load(Ordering::Acquire) != 0
            {
                continue;
            }
            let is_looked_up = self.knows_births && (local_rank + size - first) % size < LOOKED_UP_MAX;
            let birth = if is_looked_up { state.birth.load(Ordering::Relaxed) } else { 0 };
            // The process may have left, and ended, just now.
            if life::has_ended(pid, birth) && state.left.load(Ordering::Acquire) == 0 {
                self.found_dead[local_rank] = self.found_dead[local_rank].saturating_add(1);
                if self.found_dead[local_rank] >= self.looks_to_believe {
                    self.outbox.close(local_rank, "has died: its process is gone".into());
                }
            }
        }
    }

    fn say_left(&mut self, left: bool) {
        self.inbox.segment.rank_state(self.inbox.own).left.store(left.into(), Ordering::Release);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // No neighbour should ring a bell that is being taken down.
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

#[cfg(all(test, not(loom)))]
#[path = "shared/node_tests.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "shared/model_tests.rs"]
mod model_tests;
