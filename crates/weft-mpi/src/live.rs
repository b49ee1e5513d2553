//! What a running rank tells of itself to `weft info --live`: which call it is in, what it waits for, what it has sent, and every
//! counter of its flows. It is written to a page that other processes of the user may read (`weft_net::live`), before a rank goes to
//! sleep and once in a while as it works: so it is right for a rank that hangs, and costs nothing on the way of a message.
//!
//! A page is a list of 64-bit words: [`HEAD`] of the rank, [`WAITS_MAX`] outstanding operations, then [`SLOT`] for each peer.

use weft_core::flow::{Counters, Gauges};
use weft_launch::CallSite;
use weft_net::{clock, live};

use crate::engine::{Engine, Route};
use crate::object::PeerId;
use crate::request::{Receive, Request, Send, State};

/// Name and meaning of each number of a peer's flow, in the order of [`Peer::counters`] and [`Peer::gauges`].
pub const COUNTERS: &[(&str, &str)] = Counters::NAMES;
/// The same.
pub const GAUGES: &[(&str, &str)] = &Gauges::NAMES;

/// Peers whose counters are published one by one.
pub const PEERS_MAX: usize = 4096;
/// Outstanding operations that are told.
pub const WAITS_MAX: usize = 4;
/// Requests that are looked at for them.
const REQUESTS_SEEN_MAX: usize = 64;
/// Words of the name of a call.
const NAME_WORDS: usize = 6;
/// Words in front.
const HEAD: usize = 12 + NAME_WORDS;
/// Words of an outstanding operation.
const WAIT: usize = 4;
/// Words of a peer in front of the counters.
const PEER: usize = 4;
/// Words of a peer.
const SLOT: usize = PEER + Counters::NAMES.len() + Gauges::NAMES.len();
const PEERS_AT: usize = HEAD + WAITS_MAX * WAIT;

const _: () = assert!(PEERS_AT + PEERS_MAX * SLOT <= live::WORDS_MAX);

const MAGIC: u64 = u64::from_le_bytes(*b"weftlive");
/// Any source, any tag, or nothing known.
const ANY: u64 = u64::MAX;

/// Words of the head.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const LAYOUT: usize = 1;
    pub(super) const PID: usize = 2;
    pub(super) const RANK: usize = 3;
    pub(super) const SIZE: usize = 4;
    pub(super) const PUBLISHED: usize = 5;
    pub(super) const STILL_SINCE: usize = 6;
    pub(super) const ASLEEP: usize = 7;
    pub(super) const POSTED: usize = 8;
    pub(super) const UNEXPECTED: usize = 9;
    pub(super) const REQUESTS: usize = 10;
    pub(super) const WAITS: usize = 11;
    pub(super) const NAME: usize = 12;
}

/// A number that differs when the words mean something else: the library's version and all names, hashed (FNV-1a).
const LAYOUT: u64 = {
    const fn add(mut hash: u64, text: &str) -> u64 {
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0100_0000_01b3);
            i += 1;
        }
        hash.wrapping_mul(0x0100_0000_01b3)
    }
    let mut hash = add(0xcbf2_9ce4_8422_2325, env!("CARGO_PKG_VERSION"));
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
    hash ^ (SLOT * HEAD * WAITS_MAX) as u64
};

/// How a peer is reached, as a number.
const LINKS: [&str; 5] = ["not yet", "self", "shared", "network", "failed"];
/// What an outstanding operation is, as a number.
const OPERATIONS: [&str; 5] = ["", "receive from", "send to", "match by", "data from"];

/// The writer.
pub struct Live {
    page: live::Page,
    names: &'static [&'static str],
    /// The call at the last time, and the completions then: as long as they stay the same, nothing has happened.
    last: (u32, u64),
    still_since_ns: u64,
}

impl Live {
    /// The page of a rank; `names` are those of the MPI calls by number. None where the process may not have one: then nobody can look.
    pub fn new(rank: u32, size: u32, names: &'static [&'static str]) -> Option<Self> {
        let page = live::Page::create(PEERS_AT + SLOT * (size as usize).min(PEERS_MAX)).ok()?;
        page.publish(|put| {
            put(at::MAGIC, MAGIC);
            put(at::LAYOUT, LAYOUT);
            put(at::PID, std::process::id().into());
            put(at::RANK, rank.into());
            put(at::SIZE, size.into());
        });
        Some(Self { page, names, last: (CallSite::OUTSIDE, 0), still_since_ns: clock::now().0 })
    }

    /// The rank is awake again.
    pub fn awake(&self) {
        self.page.publish(|put| put(at::ASLEEP, 0));
    }

    /// Publishes how the rank stands.
    pub fn publish(&mut self, engine: &Engine, asleep: bool) {
        let now = clock::now().0;
        let (call, completions) = (CallSite::get(), engine.messages.completions);
        if self.last != (call, completions) {
            self.last = (call, completions);
            self.still_since_ns = now;
        }
        let name = self.names.get(call as usize).copied().unwrap_or_default();
        let Self { page, still_since_ns, .. } = self;
        page.publish(|put| {
            put(at::PUBLISHED, now);
            put(at::STILL_SINCE, *still_since_ns);
            put(at::ASLEEP, asleep.into());
            put(at::POSTED, engine.messages.matcher.posted_count() as u64);
            put(at::UNEXPECTED, engine.messages.matcher.unexpected_count() as u64);
            put(at::REQUESTS, engine.messages.requests.len() as u64);
            put_name(put, name);
            let waits = put_waits(put, engine);
            put(at::WAITS, waits);
            for (_, peer) in engine.peers.iter() {
                let number = peer.number() as usize;
                if number < PEERS_MAX {
                    put_peer(put, PEERS_AT + number * SLOT, peer.route(), peer.traffic());
                }
            }
        });
    }
}

fn put_name(put: &mut dyn FnMut(usize, u64), name: &str) {
    let mut chunks = name.as_bytes().chunks(8);
    for i in 0..NAME_WORDS {
        let mut word = [0; 8];
        let chunk = chunks.next().unwrap_or_default();
        word[..chunk.len()].copy_from_slice(chunk);
        put(at::NAME + i, u64::from_le_bytes(word));
    }
}

/// The first operations that have not ended; returns how many.
fn put_waits(put: &mut dyn FnMut(usize, u64), engine: &Engine) -> u64 {
    let mut count = 0;
    for (_, request) in engine.messages.requests.iter().take(REQUESTS_SEEN_MAX) {
        let Some(words) = wait(engine, request) else { continue };
        let start = HEAD + count * WAIT;
        for (i, word) in words.into_iter().enumerate() {
            put(start + i, word);
        }
        count += 1;
        if count == WAITS_MAX {
            break;
        }
    }
    count as u64
}

/// Which operation, of which peer in the job, with which tag, of how many bytes.
fn wait(engine: &Engine, request: &Request) -> Option<[u64; WAIT]> {
    let number =
        |peer: Option<PeerId>| peer.and_then(|peer| engine.peers.get(peer)).map_or(ANY, |peer| peer.number().into());
    let tag = |tag: i32| u64::from(tag as u32);
    let of_send = |send: &Send, bytes| [2, number(send.peer), tag(send.envelope.tag), bytes];
    Some(match &request.state {
        State::Posted(Receive { peer, tag: wanted, data, .. }) => {
            [1, number(*peer), wanted.map_or(ANY, tag), data.len()]
        }
        State::Queued(send) | State::Announced(send) => of_send(send, send.data.len()),
        State::Sending { send, left, .. } => of_send(send, *left),
        State::AwaitingMatch { peer, .. } => [3, number(Some(*peer)), ANY, 0],
        State::Receiving { peer, total, received, .. } => [4, number(Some(*peer)), ANY, total - received],
        _ => return None,
    })
}

fn put_peer(put: &mut dyn FnMut(usize, u64), start: usize, route: &Route, traffic: [u64; 3]) {
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
    let Route::Remote(remote) = route else { return };
    let Some(flow) = remote.flow.as_ref() else { return };
    let values = flow.counters().values().into_iter().chain(flow.gauges().values());
    for (i, word) in values.enumerate() {
        put(start + PEER + i, word);
    }
}

/// What a page says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The process.
    pub pid: u32,
    /// Its index in the job.
    pub rank: u32,
    /// Processes in the job.
    pub size: u32,
    /// When it was published, ns of the machine's monotonic clock.
    pub published_ns: u64,
    /// Since when no operation has completed and the call is the same.
    pub still_since_ns: u64,
    /// Whether it sleeps in a call until something arrives.
    pub is_asleep: bool,
    /// The call it is in or was in last; empty: none.
    pub call: String,
    /// Receives without a message.
    pub posted: u64,
    /// Messages without a receive.
    pub unexpected: u64,
    /// Requests that exist.
    pub requests: u64,
    /// The first operations that have not ended.
    pub waits: Vec<Wait>,
    /// Peers that there is something to tell of.
    pub peers: Vec<Peer>,
}

/// An operation that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What, with the word that leads to the peer: `receive from`.
    pub what: &'static str,
    /// The peer's index in the job; none: any.
    pub peer: Option<u32>,
    /// The tag; none: any, or not known.
    pub tag: Option<i32>,
    /// Bytes that are to come or to go.
    pub bytes: u64,
}

/// What passed between a rank and one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its index in the job.
    pub peer: u32,
    /// How it is reached.
    pub link: &'static str,
    /// Messages sent to it.
    pub messages: u64,
    /// Their payload, bytes.
    pub bytes: u64,
    /// What may still be sent to it unasked, bytes.
    pub credit: u64,
    /// In the order of [`Counters::NAMES`]; empty without a network between.
    pub counters: Vec<u64>,
    /// In the order of [`Gauges::NAMES`].
    pub gauges: Vec<u64>,
}

impl Snapshot {
    /// Reads a page.
    ///
    /// # Errors
    /// One sentence: another version wrote it, or it makes no sense.
    pub fn parse(words: &[u64]) -> Result<Self, String> {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        if word(at::MAGIC) != MAGIC {
            return Err("the page is not one of Weft".to_owned());
        }
        if word(at::LAYOUT) != LAYOUT {
            return Err(
                "another version of Weft wrote it: use the `weft` that was installed with its library".to_owned()
            );
        }
        let name: Vec<u8> = (0..NAME_WORDS).flat_map(|i| word(at::NAME + i).to_le_bytes()).collect();
        let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
        let waits = (0..(word(at::WAITS) as usize).min(WAITS_MAX)).map(|i| {
            let [operation, peer, tag, bytes] = std::array::from_fn(|field| word(HEAD + i * WAIT + field));
            let what = OPERATIONS.get(operation as usize).copied().unwrap_or_default();
            let known = |value: u64| Some(value as u32).filter(|_| value != ANY);
            Wait { what, peer: known(peer), tag: known(tag).map(|tag| tag as i32), bytes }
        });
        let slots = words.get(PEERS_AT..).unwrap_or_default().chunks_exact(SLOT);
        Ok(Self {
            pid: word(at::PID) as u32,
            rank: word(at::RANK) as u32,
            size: word(at::SIZE) as u32,
            published_ns: word(at::PUBLISHED),
            still_since_ns: word(at::STILL_SINCE),
            is_asleep: word(at::ASLEEP) != 0,
            call: name,
            posted: word(at::POSTED),
            unexpected: word(at::UNEXPECTED),
            requests: word(at::REQUESTS),
            waits: waits.collect(),
            peers: slots.enumerate().filter_map(|(peer, slot)| Peer::parse(peer as u32, slot)).collect(),
        })
    }
}

impl Peer {
    /// None of one that nothing was sent to or got from.
    fn parse(peer: u32, slot: &[u64]) -> Option<Self> {
        let link = LINKS.get(slot[0] as usize).copied().unwrap_or_default();
        let (counters, gauges) = slot[PEER..].split_at(Counters::NAMES.len());
        let networked = counters.iter().any(|count| *count > 0);
        (slot[1] > 0 || networked || slot[0] == 4).then(|| Self {
            peer,
            link,
            messages: slot[1],
            bytes: slot[2],
            credit: slot[3],
            counters: if networked { counters.to_vec() } else { Vec::new() },
            gauges: if networked { gauges.to_vec() } else { Vec::new() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<u64> {
        let mut words = vec![0; PEERS_AT + 2 * SLOT];
        let mut put = |at: usize, value: u64| words[at] = value;
        for (at, value) in [(at::MAGIC, MAGIC), (at::LAYOUT, LAYOUT), (at::RANK, 1), (at::SIZE, 2), (at::ASLEEP, 1)] {
            put(at, value);
        }
        put_name(&mut put, "MPI_Recv");
        put(at::WAITS, 1);
        [1, ANY, u64::from(-7_i32 as u32), 100].into_iter().enumerate().for_each(|(i, value)| put(HEAD + i, value));
        put(PEERS_AT, 3);
        put(PEERS_AT + 1, 12);
        put(PEERS_AT + PEER, 99);
        words
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let snapshot = Snapshot::parse(&page()).unwrap();
        assert_eq!(
            (snapshot.rank, snapshot.size, snapshot.is_asleep, snapshot.call.as_str()),
            (1, 2, true, "MPI_Recv")
        );
        assert_eq!(snapshot.waits, [Wait { what: "receive from", peer: None, tag: Some(-7), bytes: 100 }]);
        let [peer] = &snapshot.peers[..] else { panic!("{:?}", snapshot.peers) };
        assert_eq!(
            (peer.peer, peer.link, peer.messages, peer.counters[0], peer.gauges.len()),
            (0, "network", 12, 99, 4)
        );
    }

    #[test]
    fn a_page_of_another_version_or_of_nothing_is_refused_and_a_short_one_is_no_danger() {
        let mut words = page();
        words[at::LAYOUT] ^= 1;
        assert!(Snapshot::parse(&words).unwrap_err().contains("another version"));
        assert!(Snapshot::parse(&[]).is_err());
        let mut words = page();
        words[at::WAITS] = u64::MAX;
        for length in 0..words.len() {
            let _ = Snapshot::parse(&words[..length]);
        }
    }

    #[test]
    fn long_names_are_cut() {
        let mut words = [0; HEAD];
        put_name(&mut |at, value| words[at] = value, &"x".repeat(100));
        assert!(words[at::NAME..].iter().all(|word| *word == u64::from_le_bytes([b'x'; 8])));
    }
}
