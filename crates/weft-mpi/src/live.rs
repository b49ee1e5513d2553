//! The state that a running rank publishes for `weft info --live`: its current call, its outstanding
//! operations, the traffic of its peers, and every counter of its flows.
//!
//! The rank writes the state to a page that other processes of the user may read ([`weft_launch::page`]),
//! before it goes to sleep and once in a while as it works. So the page is right for a rank that hangs, and
//! publishing costs nothing on the way of a message.
//!
//! A page is a list of 64-bit words:
//!
//! 1. [`standing::WORDS`] for the rank, its call and its outstanding operations;
//! 2. one that identifies the counters (`LAYOUT`), and one that says whether the network carries multicast;
//! 3. `GROUP` for each of `GROUPS_MAX` multicast groups;
//! 4. `ENTRY` for each peer.

mod snapshot;
mod view;

use weft_core::fingerprint;
use weft_core::flow::{Counters, Gauges};
use weft_core::process::JobId;
use weft_launch::standing::{self, Draft, Front};
use weft_launch::{CallSite, page};
use weft_net::clock;

use crate::engine::{Remote, Route};

pub use snapshot::{Group, Peer, Snapshot};
pub use view::{Collective, View};

/// Name and meaning of each counter of a peer's flow, in the order of [`Peer::counters`].
pub const COUNTERS: &[(&str, &str)] = Counters::NAMES;
/// Name and meaning of each gauge of a peer's flow, in the order of [`Peer::gauges`].
pub const GAUGES: &[(&str, &str)] = &Gauges::NAMES;

/// Peers whose counters are published one by one.
pub const PEERS_MAX: usize = 4096;
/// Words of a peer in front of the counters.
const PEER: usize = 4;
/// Words of a peer, with its counters and gauges.
const ENTRY: usize = PEER + Counters::NAMES.len() + Gauges::NAMES.len();
/// The word that identifies the counters, behind the words of the rank's state.
const LAYOUT_AT: usize = standing::WORDS;
/// The word that says whether the network carries multicast; the groups follow it.
const CARRIED_AT: usize = LAYOUT_AT + 1;
const GROUPS_AT: usize = CARRIED_AT + 1;
/// Groups that are published.
const GROUPS_MAX: usize = 4;
/// Words of one group.
const GROUP: usize = 8;
/// Context of `MPI_COMM_WORLD`.
const WORLD_CONTEXT: u64 = 0;
const PEERS_AT: usize = GROUPS_AT + GROUPS_MAX * GROUP;

const _: () = assert!(PEERS_AT + PEERS_MAX * ENTRY <= page::WORDS_MAX);

/// A number that changes when the counters change their meaning: the fingerprint of the library's version and
/// of all names.
const LAYOUT: u64 = {
    const fn add(before: u64, text: &str) -> u64 {
        fingerprint::add(fingerprint::add(before, text.as_bytes()), &[0])
    }
    let mut hash = add(fingerprint::EMPTY, env!("CARGO_PKG_VERSION"));
    let mut i = 0;
    while i < Counters::NAMES.len() {
        hash = add(hash, Counters::NAMES[i].0);
        i += 1;
    }
    i = 0;
    while i < Gauges::NAMES.len() {
        hash = add(hash, Gauges::NAMES[i].0);
        i += 1;
    }
    hash ^ (PEERS_AT << 16 | ENTRY) as u64
};

/// The ways to reach a peer, by number.
const LINKS: [&str; 5] = ["not yet", "self", "shared", "network", "failed"];

/// The writer of the page.
pub struct Live {
    page: page::Page,
    names: &'static [&'static str],
    process: (u32, u32, u32, u32),
    /// The call and the completions at the last publication, without the questions about MPI_Finalize. As
    /// long as they stay the same, nothing has happened.
    last: (u32, u64),
    still_since_ns: u64,
}

impl Live {
    /// Creates the page of a rank; `names` are those of the MPI calls by number. `None` where the process may
    /// not have a page: then the rank cannot be watched.
    pub fn new(rank: u32, size: u32, job: JobId, names: &'static [&'static str]) -> Option<Self> {
        let page = page::Page::create(PEERS_AT + ENTRY * (size as usize).min(PEERS_MAX)).ok()?;
        let process = (std::process::id(), rank, size, standing::job_number(job.0));
        Some(Self { page, names, process, last: (CallSite::OUTSIDE, 0), still_since_ns: clock::now().0 })
    }

    /// Publishes that the rank is awake again.
    pub fn awake(&self) {
        self.page.publish(|put| standing::put_awake(put));
    }

    /// Publishes the state of the rank.
    pub fn publish(&mut self, view: &View<'_>, asleep: bool) {
        let now = clock::now().0;
        let engine = view.engine;
        let completions = engine.messages.completions().wrapping_sub(view.questions);
        let call = CallSite::get();
        if self.last != (call, completions) {
            self.last = (call, completions);
            self.still_since_ns = now;
        }
        let front = Front {
            process: self.process,
            times: (now, self.still_since_ns),
            is_asleep: asleep,
            threads: view.threads,
            call: self.names.get(call as usize).copied().unwrap_or_default(),
            queues: [
                engine.messages.matcher.posted_count() as u64,
                engine.messages.matcher.unexpected_count() as u64,
                engine.messages.requests.len() as u64,
            ],
        };
        self.page.publish(|put| {
            put(LAYOUT_AT, LAYOUT);
            put(CARRIED_AT, view.carried as u64);
            let mut groups = engine.groups.standings();
            for at in 0..GROUPS_MAX {
                let words = groups.next().map_or([0; GROUP], |group| view.group(&group));
                words.into_iter().enumerate().for_each(|(word, value)| put(GROUPS_AT + at * GROUP + word, value));
            }
            for (id, peer) in engine.peers.iter().filter(|(_, peer)| peer.is_of_own_job()) {
                let number = peer.number() as usize;
                if number < PEERS_MAX {
                    put_peer(put, PEERS_AT + number * ENTRY, (peer.route(), engine.remote(id)), peer.traffic());
                }
            }
            let mut draft = Draft::new(put, &front);
            let any = view.tell_awaited(&mut draft);
            view.tell_others(&mut draft);
            view.tell_arrived(&mut draft);
            draft.finish(any);
        });
    }
}

fn put_peer(
    put: &mut dyn FnMut(usize, u64),
    start: usize,
    (route, remote): (&Route<()>, Option<&Remote>),
    traffic: [u64; 3],
) {
    let link = match route {
        Route::Myself => 1,
        Route::Shared(_) => 2,
        Route::Remote(_) => 3,
        Route::None(_) => 4,
    };
    put(start, link);
    for (i, word) in traffic.into_iter().enumerate() {
        put(start + 1 + i, word);
    }
    let Some(remote) = remote else { return };
    let Some(counters) = remote.counters() else { return };
    let gauges = remote.current_flow().map(|flow| flow.gauges()).unwrap_or_default();
    let values = counters.values().into_iter().chain(gauges.values());
    for (i, word) in values.enumerate() {
        put(start + PEER + i, word);
    }
}
