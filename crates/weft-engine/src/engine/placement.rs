//! Large messages that a carrier writes to the peer's memory by itself: the receiver's invitation, and the
//! sender's pieces (`weft_core::placement`).
//!
//! `outgoing.rs` calls it for invitations and remote writes, and `network.rs` when a connection may have work
//! for its carrier.

use weft_core::message::{Head, Invitation};
use weft_core::refusal::Refusal;
use weft_core::rendezvous_schemes::RendezvousScheme;
use weft_core::time::{Duration, Instant};

use super::{FLOW_QUEUE_BYTES, PointToPoint};
use crate::carriers::{Access, CarrierId, Carriers, Registered, Remote, Submission};
use crate::group::PeerId;
use crate::jobs::Jobs;
use crate::memory::UserData;
use crate::messages::Messages;
use crate::regions::RegionKey;
use crate::request::State;
use crate::transport::{Begun, Platform, RemoteMemory, RemoteMemoryAccess, Written};

/// The bit that is set in the names of pieces of one-sided operations; the name ends with that of the
/// operation.
pub(super) const OF_A_WINDOW: u64 = 1 << 63;
/// The bit that is set in the names of acknowledgements of streams.
pub(super) const OF_A_STREAM: u64 = 1 << 62;

/// The name under which a carrier is given a piece of a message: the peer's index, and the number of the
/// piece.
fn name(peer: PeerId, number: u32) -> u64 {
    (peer.index() as u64) << 32 | u64::from(number)
}

impl<P: Platform> PointToPoint<P> {
    /// Invites the sender of a message to have it written to our memory. Asks for its data where the memory
    /// cannot be registered, or packets are quicker. Returns `false` when the route is full.
    pub(super) fn push_invitation(&mut self, peer: PeerId, handle: usize, asked: u32) -> bool {
        let Some(remote) = self.network.remotes.get(peer) else { return true };
        if remote.queued_bytes() > FLOW_QUEUE_BYTES {
            return false;
        }
        let entry = self.messages.requests.get(handle);
        let Some(State::Receiving { data, total, region: Some(key), .. }) = entry.map(|entry| &entry.state) else {
            // The receive is gone: the sender's operation is over.
            return self.carry(peer, &Head::fin(asked), &UserData::empty(), 0, 0);
        };
        let (data, total, key) = (data.clone(), *total, *key);
        let scheme = self.choose_scheme(peer, total);
        let Self { messages, network, peers, .. } = self;
        let remote = network.remotes.get(peer).filter(|_| scheme == RendezvousScheme::RemoteWrite);
        let path = remote.and_then(|remote| remote.access.as_ref()).map(|access| access.carrier_path);
        let registered = path.and_then(|path| network.carriers.register(path.carrier, &data, total));
        if let (Some(path), Some((Registered { registration, .. }, _))) = (path, registered)
            && let Some(rma) = network.carriers.rma(path.carrier)
        {
            rma.expect(&path.to, registration);
        }
        let head = match registered {
            Some((registered, target)) => {
                messages.regions.note_registered(key, registered);
                let with_fin = peers[peer].matching.has_choice();
                if with_fin {
                    messages.note_invited(handle, asked);
                    self.progress_of_writes.expect(peer, self.platform.now(), STALLED_AFTER);
                }
                let (request, remote_key) = (asked, key.wire());
                Head::clear_to_place(&Invitation { request, remote_key, total, target, with_fin })
            }
            None if peers[peer].matching.paced => {
                messages.ask_in_pieces(handle, asked);
                return true;
            }
            None => Head::clear_to_send(asked, key.wire(), total, total),
        };
        self.carry(peer, &head, &UserData::empty(), 0, 0)
    }

    /// Tells our carrier where an eager write goes. If it cannot put it there, the message is asked for.
    pub(super) fn push_expectation(&mut self, peer: PeerId, handle: usize, asked: u32) {
        let Self { messages, network, .. } = self;
        let entry = messages.requests.get(handle);
        let Some(State::Receiving { data, total, region: Some(key), .. }) = entry.map(|entry| &entry.state) else {
            return;
        };
        let access = network.remotes.get(peer).and_then(|remote| remote.access.as_ref());
        let registered =
            access.and_then(|access| network.carriers.register_unasked(&access.carrier_path, asked, data, *total));
        match registered {
            Some(registered) => {
                messages.regions.note_registered(*key, registered);
                self.progress_of_writes.expect(peer, self.platform.now(), UNASKED_STALLED_AFTER);
            }
            None => messages.ask_for_eager_write(handle),
        }
    }

    /// Chooses what brings an announced message.
    fn choose_scheme(&mut self, peer: PeerId, bytes: u64) -> RendezvousScheme {
        let Self { messages, network, peers, platform, .. } = self;
        if !peers[peer].matching.has_choice() {
            return RendezvousScheme::RemoteWrite;
        }
        let now = platform.now();
        let access = network.remotes.get(peer).and_then(|remote| remote.access.as_ref());
        let path = access.map(|access| access.carrier_path);
        let rma = path.and_then(|path| Some((network.carriers.rma(path.carrier)?, path.to)));
        let has_room = rma.is_some_and(|(rma, from)| rma.has_room_for(&from));
        let may_write = has_room && messages.may_be_written_by(peer, now, peers);
        let scheme = peers[peer].matching.schemes.get_or_insert_default().begin(now, bytes, may_write);
        if scheme == RendezvousScheme::RemoteWrite {
            messages.note_writer(peer);
        }
        scheme
    }

    /// Begins to write the first `total` bytes of the send `handle` to `target`.
    pub(super) fn push_placement(
        &mut self,
        peer: PeerId,
        handle: usize,
        remote_key: u32,
        total: u64,
        target: RemoteMemory,
    ) {
        let Some(State::Sending { send, remote_key: asked, region: Some(key), .. }) =
            self.messages.requests.get(handle).map(|entry| &entry.state)
        else {
            return;
        };
        // The receiver may have asked for the message anew before its first request was acted on.
        if *asked != remote_key && !cfg!(weft_mutant = "late_write_counted") {
            return;
        }
        let (key, is_run) = (*key, send.data.address().is_some());
        // The peer becomes due to be looked at.
        self.submission(peer);
        let Some(remote) = self.network.remotes.get_mut(peer) else { return };
        if let Some(placements) = remote.placements().filter(|_| is_run) {
            placements.submit(remote_key, key.wire(), total, target);
            self.network.writes = true;
        } else {
            self.submission(peer).submit_data(remote_key, key.wire(), 0..total);
        }
    }

    /// Notes that a piece has been written, and tells the receiver of the message, unless its carrier does.
    pub(super) fn note_placed(&mut self, done: u64) {
        let Some(peer) = self.peers.at((done >> 32) as usize) else { return };
        let Some(remote) = self.network.remotes.get_mut(peer) else { return };
        let Some(Access { placements, placement, .. }) = remote.access.as_deref_mut() else { return };
        let Some(piece) = placements.ended(done as u32) else { return };
        let length = piece.range.end - piece.range.start;
        if !placement.tells && !cfg!(weft_mutant = "placed_told_early") {
            let head = Head::placed(piece.remote_key, piece.range.start, length);
            self.submission(peer).submit_message(head.as_bytes(), &[]);
        }
        self.messages.handle_acknowledged(RegionKey::from_wire(piece.region), length);
    }

    /// Looks whether carriers still write: those that only write need no more looks then.
    #[inline]
    pub(super) fn look_for_writes(&mut self) {
        let network = &mut self.network;
        if !network.writes {
            return;
        }
        let is_writing = |peer: &PeerId| network.remotes.get(*peer).is_some_and(Remote::is_writing);
        let is_any = network.active.iter().any(is_writing);
        self.network.writes = is_any || self.is_writing_eagerly();
    }

    /// Notes that a peer's carrier has written to memory of this process, as our carrier tells.
    pub(super) fn note_written(&mut self, carrier: CarrierId, written: Written) {
        let Self { messages, peers, platform, progress_of_writes, .. } = self;
        let Written { registration, offset, length } = written;
        // A write to memory that is registered no more comes too late.
        let Some(key) = messages.regions.of_registered(Registered { carrier, registration }) else { return };
        let Some(peer) = messages.regions.get(key).map(|region| region.peer) else { return };
        messages.handle_placed(peer, key.wire(), offset, length, peers);
        if let Some(schemes) = &mut peers[peer].matching.schemes {
            let now = platform.now();
            schemes.note_progress(now);
            progress_of_writes.note(peer, now);
        }
    }

    /// Gives up writes that other ends have given up, and tells the choices of schemes which announced
    /// messages have arrived.
    #[inline]
    pub(super) fn look_after_writes(&mut self, now: Instant) {
        self.look_after_eager_writes();
        if std::mem::take(&mut self.messages.has_news_of_writes) {
            self.take_news_of_writes(now);
        }
    }

    #[inline(never)]
    fn take_news_of_writes(&mut self, now: Instant) {
        self.drop_broken_writes();
        let Self { messages, peers, .. } = self;
        messages.end_arrived(now, peers);
    }

    /// Gives up writes that make no progress.
    pub(super) fn give_up_stalled_writes(&mut self) {
        let Some(next) = self.progress_of_writes.next else { return };
        let now = self.platform.now();
        if now < next {
            return;
        }
        for peer in self.progress_of_writes.take_stalled(now) {
            if !self.messages.regions.registered_for(peer).is_empty() {
                self.distrust_long_path(peer, now);
                self.give_up_writes(peer, now);
            }
        }
    }

    /// Uses the long path to a peer no more for some time: its carrier does not deliver what it takes.
    #[cold]
    fn distrust_long_path(&mut self, peer: PeerId, now: Instant) {
        if let Some(remote) = self.network.remotes.get_mut(peer) {
            remote.give_up_long_path(now);
        }
    }

    /// Ends the connection by which a peer writes, and asks for all messages anew that it was to write.
    #[cold]
    pub(super) fn give_up_writes(&mut self, peer: PeerId, now: Instant) {
        self.drop_writes(peer);
        let before = self.messages.asked_anew;
        self.messages.ask_for_written(peer);
        if self.messages.asked_anew != before
            && let Some(schemes) = &mut self.peers[peer].matching.schemes
        {
            schemes.failed(now);
        }
    }

    /// Ends the connection by which a peer and this process write to each other's memory. Its receivers ask
    /// for what they lack.
    #[cold]
    pub(super) fn drop_writes(&mut self, peer: PeerId) {
        let network = &mut self.network;
        let Some(access) = network.remotes.get_mut(peer).and_then(|remote| remote.access.as_deref_mut()) else {
            return;
        };
        access.placements.clear();
        if let Some(rma) = network.carriers.rma(access.carrier_path.carrier) {
            rma.disconnect(&access.carrier_path.to);
        }
        self.end_eager_writes(peer);
        self.messages.end_writes(peer);
    }

    /// Keeps carriers from the memory of operations that were given up: it may be gone as soon as the caller
    /// has been told.
    pub(super) fn end_accesses(&mut self) {
        self.deregister_closed();
        self.drop_broken_writes();
    }

    fn drop_broken_writes(&mut self) {
        while let Some(peer) = self.messages.broken_writes.pop() {
            self.distrust_long_path(peer, self.platform.now());
            self.drop_writes(peer);
        }
    }

    /// Deregisters the memory of closed regions: peers reach it no more.
    #[inline]
    pub(super) fn deregister_closed(&mut self) {
        while let Some(registered) = self.messages.regions.take_closed() {
            self.network.carriers.deregister(registered);
        }
    }
}

/// The time without progress after which a message is asked for anew, as packets, that a peer's carrier was
/// to write: a firewall may have forgotten the connection, or an interface is down while others lead there.
const STALLED_AFTER: Duration = Duration::from_secs(1);
/// The same for eager writes. Their data leaves right behind the announcement. On a network that loses
/// packets a connection over TCP stands still for 200 ms now and then.
const UNASKED_STALLED_AFTER: Duration = Duration::from_millis(100);

/// The last progress of the peers that write to memory of this process beside their flows.
#[derive(Default)]
pub(super) struct ProgressOfWrites {
    peers: Vec<Progress>,
    /// The next time to look whether one has stalled.
    pub(super) next: Option<Instant>,
}

/// The progress of a peer's writes.
struct Progress {
    peer: PeerId,
    last: Instant,
    /// The time without progress after which the writes have stalled.
    patience: Duration,
}

impl ProgressOfWrites {
    /// Expects writes of a peer from now on. They have stalled if nothing arrives for the time of `patience`,
    /// or of the longer one of earlier writes.
    fn expect(&mut self, peer: PeerId, now: Instant, patience: Duration) {
        match self.peers.iter_mut().find(|known| known.peer == peer) {
            Some(known) => (known.last, known.patience) = (now, known.patience.max(patience)),
            None => self.peers.push(Progress { peer, last: now, patience }),
        }
        let ends = now + patience;
        self.next = Some(self.next.map_or(ends, |next| next.min(ends)));
    }

    /// Notes that data of a peer has arrived.
    fn note(&mut self, peer: PeerId, now: Instant) {
        for progress in self.peers.iter_mut().filter(|known| known.peer == peer) {
            progress.last = now;
        }
    }

    /// Takes the peers of which nothing has arrived for long.
    fn take_stalled(&mut self, now: Instant) -> Vec<PeerId> {
        let mut stalled = Vec::new();
        self.peers.retain(|progress| {
            let has_stalled = now.since(progress.last) >= progress.patience;
            stalled.extend(has_stalled.then_some(progress.peer));
            !has_stalled
        });
        self.next = self.peers.iter().map(|progress| progress.last + progress.patience).min();
        stalled
    }
}

/// Gives the carrier of a peer its pieces to write, as far as it has room.
pub(super) fn write_pieces(
    carriers: &mut Carriers,
    peer: PeerId,
    remote: &mut Remote,
    messages: &mut Messages,
    (jobs, now): (&Jobs, Instant),
) {
    let Some(mut access) = remote.access.take() else { return };
    if let Some(rma) = carriers.rma(access.carrier_path.carrier) {
        offer_pieces(rma, peer, &mut access, &mut remote.submission(jobs), messages, now);
    }
    remote.access = Some(access);
}

/// Offers pieces to a carrier. What it never writes is submitted as packets.
fn offer_pieces(
    rma: &mut dyn RemoteMemoryAccess,
    peer: PeerId,
    access: &mut Access,
    submission: &mut Submission<'_>,
    messages: &mut Messages,
    now: Instant,
) {
    let Access { carrier_path, placements, refusal, .. } = access;
    let mut before = refusal.take();
    while let Some(piece) = placements.poll() {
        let begun = match messages.regions.get(RegionKey::from_wire(piece.region)) {
            Some(region) => {
                let (range, number) = (piece.range.clone(), name(peer, piece.number));
                rma.write(&carrier_path.to, &region.data, range, piece.target, number)
            }
            // The operation is over, and no caller waits for it.
            None => {
                placements.refused();
                continue;
            }
        };
        match begun {
            Begun::Yes => {
                messages.remote_writes += 1;
                #[cfg(weft_mutant = "placed_told_early")]
                submission.submit_message(
                    Head::placed(piece.remote_key, piece.range.start, piece.range.end - piece.range.start).as_bytes(),
                    &[],
                );
                placements.begun();
                before = None;
            }
            Begun::NotNow => {
                *refusal = Some(Refusal::after(before, now));
                return;
            }
            Begun::Never => {
                if let Some((remote_key, region, range)) = placements.refused()
                    && !cfg!(weft_mutant = "placement_refused_forgotten")
                {
                    submission.submit_data(remote_key, region, range);
                }
            }
        }
    }
}
