//! Questions to peers of other nodes for which an operation here waits.
//!
//! A process that only waits to receive sends nothing that could go unanswered. So it asks its senders now
//! and then whether they live (docs/design/progress.md).
//!
//! Rounds are rare, and each asks only a few peers: a process that waits for any source in a large job gets
//! to all of them in turns. The flow of a peer does the asking, and counts its silence (`Flow::watch`).
//!
//! The system says of the processes of this node whether they live. So they are not asked, and a stopped one
//! lives. A waiting process checks all of them a few times in a second, whatever it waits for
//! (docs/design/node.md).

use weft_core::time::{Duration, Instant};

use super::{Engine, PointToPoint};
use crate::group::PeerId;
use crate::peers::Route;
use crate::transport::{Node, Platform};

/// The number of rounds in one `WEFT_PEER_TIMEOUT`, while there are few to ask: twice as many as questions.
const ROUNDS_PER_TIMEOUT: u64 = 16;
/// The most peers that one round asks.
const ASKED_PER_ROUND: usize = 64;
/// The least time between two rounds: at most a thousand questions a second.
const ROUND_MIN: Duration = Duration::from_millis(64);

/// The time between two checks whether the processes of this node live.
const NEIGHBOURS_PERIOD: Duration = Duration::from_millis(250);

/// The peers for which this process waits, as of the last round.
pub(super) struct Awaited {
    /// The time between rounds, while there are few to ask; zero: no rounds.
    period: Duration,
    next: Option<Instant>,
    /// The index of the peer after the last that was asked.
    cursor: usize,
    /// Peers whose flows are watched.
    watched: Vec<PeerId>,
    /// Processes of other jobs whose farewell is waited for: they may die without one.
    farewells: Vec<PeerId>,
    /// Processes that take part in an agreement whose decision is waited for.
    voters: Vec<PeerId>,
    /// The time of the next check of the processes of this node.
    neighbours: Option<Instant>,
}

impl Awaited {
    pub(super) fn new(peer_timeout: Duration) -> Self {
        Self {
            period: Duration(peer_timeout.0 / ROUNDS_PER_TIMEOUT),
            next: None,
            cursor: 0,
            watched: Vec::new(),
            farewells: Vec::new(),
            voters: Vec::new(),
            neighbours: None,
        }
    }

    /// The time of the round after one at `now` with this many peers to ask.
    fn following(&self, now: Instant, peers: usize) -> Instant {
        let share = self.period.0 / (peers.div_ceil(ASKED_PER_ROUND).max(1) as u64);
        now + Duration(share.max(ROUND_MIN.0.min(self.period.0)))
    }
}

impl<P: Platform> Engine<P> {
    /// Notes whose farewell this process waits for, until it says otherwise.
    pub(super) fn await_farewells_of(&mut self, peers: Vec<PeerId>) {
        self.awaited.farewells = peers;
    }

    /// Notes that this process waits for a decision of these processes, until it says otherwise: any of them
    /// may have to say something first.
    pub fn await_decision_of(&mut self, voters: Vec<PeerId>) {
        self.awaited.voters = voters;
    }

    /// Checks whether the processes of this node live, when it is time.
    pub(super) fn look_after_neighbours(&mut self) {
        let Self { point_to_point: PointToPoint { node: Some(node), platform, .. }, awaited, .. } = self else {
            return;
        };
        let now = platform.now();
        let next = awaited.neighbours.get_or_insert(now + NEIGHBOURS_PERIOD);
        if *next <= now {
            *next = now + NEIGHBOURS_PERIOD;
            if let Some(liveness) = node.liveness() {
                liveness.look_for_dead();
            }
        }
    }

    /// The nanoseconds until that check is due.
    pub(super) fn neighbours_due(&self) -> Option<u64> {
        self.node.as_ref()?;
        let left = self.awaited.neighbours.map_or(NEIGHBOURS_PERIOD, |next| next.since(self.platform.now()));
        Some(left.as_nanos())
    }

    /// Asks the peers for which this process waits whether they live, when it is time.
    pub(super) fn ask_awaited(&mut self, now: Instant) {
        if self.awaited.period.0 == 0 {
            return;
        }
        match self.awaited.next {
            Some(next) if next <= now => {}
            Some(_) => return,
            None => return self.awaited.next = Some(now + self.awaited.period),
        }
        self.note_awaited();
        let Self { awaited, point_to_point, .. } = self;
        let peers = &point_to_point.peers;
        let size = peers.entries();
        let turn = (0..size).filter_map(|i| peers.at((awaited.cursor + i) % size));
        let mut to_ask = 0;
        let mut asked = Vec::new();
        for peer in turn.filter(|&peer| peers[peer].waited_for && matches!(peers[peer].route, Route::Remote(_))) {
            to_ask += 1;
            if asked.len() < ASKED_PER_ROUND {
                asked.push(peer);
            }
        }
        awaited.next = Some(awaited.following(now, to_ask));
        if let Some(last) = asked.last() {
            awaited.cursor = (last.index() + 1) % size;
        }
        self.forget_others();
        for peer in asked {
            // The peer may not have been talked to yet.
            self.submission(peer);
            if let Some(remote) = self.network.remotes.get_mut(peer) {
                remote.watch(true);
            }
            if !self.awaited.watched.contains(&peer) {
                self.awaited.watched.push(peer);
            }
        }
    }

    /// Finds out for which peers this process waits.
    fn note_awaited(&mut self) {
        let Self { point_to_point: PointToPoint { messages, peers, .. }, windows, awaited, .. } = self;
        peers.iter_mut().for_each(|(_, peer)| peer.waited_for = false);
        let (mut anybody, mut probed) = (false, false);
        messages.take_awaited(&mut || probed = true, &mut |peer| match peer {
            Some(peer) => peers[peer].waited_for = true,
            None => anybody = true,
        });
        windows.for_each_awaited(&mut |peer| {
            if let Some(peer) = peers.get_mut(peer) {
                peer.waited_for = true;
            }
        });
        let farewells = awaited.farewells.iter().filter(|_| !cfg!(weft_mutant = "meeting_farewell_not_asked_for"));
        let voters = awaited.voters.iter().filter(|_| !cfg!(weft_mutant = "meeting_voters_not_asked"));
        for peer in farewells.chain(voters) {
            if let Some(peer) = peers.get_mut(*peer) {
                peer.waited_for = true;
            }
        }
        if probed {
            peers.iter_mut().for_each(|(_, peer)| peer.waited_for |= peer.matching.take_probed());
        }
        if anybody {
            peers.iter_mut().for_each(|(_, peer)| peer.waited_for = true);
        }
    }

    /// Ends the asking of peers for which this process does not wait any more.
    fn forget_others(&mut self) {
        let Self { awaited, point_to_point: PointToPoint { peers, network, .. }, .. } = self;
        awaited.watched.retain(|&peer| {
            let Some(stays) = peers.get(peer).map(|peer| peer.waited_for) else { return false };
            let Some(remote) = network.remotes.get_mut(peer) else { return false };
            if !stays {
                remote.watch(false);
            }
            stays
        });
    }

    /// The nanoseconds until the next round is due, if this process waits for a peer.
    pub(super) fn asking_due(&self) -> Option<u64> {
        let awaits_words = !(self.awaited.farewells.is_empty() && self.awaited.voters.is_empty());
        let awaits = self.messages.awaits() || self.windows.awaits() || awaits_words;
        if self.awaited.period.0 == 0 || !self.has_network() || !awaits {
            return None;
        }
        // A process with peers on this node may fall asleep before it has ever looked at the network.
        let left = self.awaited.next.map_or(self.awaited.period, |next| next.since(self.platform.now()));
        Some(left.as_nanos())
    }
}
