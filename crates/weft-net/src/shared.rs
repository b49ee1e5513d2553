//! Ranks of one node: frames through single-producer single-consumer rings in one shared segment.
use crate::Error;
use std::os::fd::RawFd;
use std::path::PathBuf;
use weft_core::time::Duration;

/// How the shared segment is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory to try first (`WEFT_SHM_DIR`); then come `/dev/shm`, `$TMPDIR`, `/tmp`.
    pub directory: Option<PathBuf>,
    /// Bytes of one ring at most; many local ranks make it smaller.
    pub ring_bytes_max: usize,
    /// How long a rank waits for the leader's segment.
    pub attach_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { directory: None, ring_bytes_max: 256 << 10, attach_timeout: Duration::from_secs(20) }
    }
}

/// Why nothing more can be exchanged with one local peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFault {
    /// The peer's local index.
    pub peer: usize,
    /// One sentence: what the peer did.
    pub reason: String,
}

/// This process's place among the ranks of its node.
pub struct Node(());

impl Node {
    /// Joins.
    pub fn create(
        _job_key: &str,
        _local_index: usize,
        _local_size: usize,
        _settings: &Settings,
    ) -> Result<Self, Error> {
        todo!()
    }
    /// One-line warnings for the user, e.g. that /dev/shm is full and another directory is used.
    pub fn warnings(&self) -> &[String] {
        todo!()
    }
    /// Largest head + payload.
    pub fn frame_max(&self) -> usize {
        todo!()
    }
    /// Process id of a local peer (for single copies).
    pub fn pid(&self, _peer: usize) -> i32 {
        todo!()
    }
    /// false: ring full.
    pub fn try_send(&mut self, _to: usize, _head: &[u8], _payload: &[u8]) -> bool {
        todo!()
    }
    /// The payload of `len` bytes is written in place by `fill`.
    pub fn try_send_with(&mut self, _to: usize, _head: &[u8], _len: usize, _fill: impl FnOnce(&mut [u8])) -> bool {
        todo!()
    }
    /// Handles at most `limit` frames.
    pub fn poll(&mut self, _limit: usize, _on_frame: &mut dyn FnMut(usize, &[u8])) -> usize {
        todo!()
    }
    /// A peer that broke the ring or died; each is reported once.
    pub fn poll_fault(&mut self) -> Option<PeerFault> {
        todo!()
    }
    /// About to sleep: false, something is already there.
    pub fn arm(&mut self) -> bool {
        todo!()
    }
    /// Awake again.
    pub fn disarm(&mut self) {
        todo!()
    }
    /// Readable when rung.
    pub fn doorbell_fd(&self) -> RawFd {
        todo!()
    }
    /// Empties the doorbell.
    pub fn drain_doorbell(&mut self) {
        todo!()
    }
    /// Receiving and sending halves, to answer from inside `on_frame`.
    pub fn split(&mut self) -> (&mut Inbox, &mut Outbox) {
        todo!()
    }
}
/// The receiving half of a [`Node`].
pub struct Inbox(());
impl Inbox {
    /// See [`Node::poll`].
    pub fn poll(&mut self, _limit: usize, _on_frame: &mut dyn FnMut(usize, &[u8])) -> usize {
        todo!()
    }
}
/// The sending half of a [`Node`].
pub struct Outbox(());
impl Outbox {
    /// See [`Node::try_send`].
    pub fn try_send(&mut self, _to: usize, _head: &[u8], _payload: &[u8]) -> bool {
        todo!()
    }
    /// See [`Node::try_send_with`].
    pub fn try_send_with(&mut self, _to: usize, _head: &[u8], _len: usize, _fill: impl FnOnce(&mut [u8])) -> bool {
        todo!()
    }
}
