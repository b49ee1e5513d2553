//! What a running rank tells of itself to `weft info --live`: which call it is in, what it waits for, what it has sent, and every
//! counter of its flows. It is written to a page that other processes of the user may read (`weft_net::live`), before a rank goes to
//! sleep and once in a while as it works: so it is right for a rank that hangs, and costs nothing on the way of a message.
//!
//! A page is a list of 64-bit words: [`HEAD`] of the rank, [`WAITS_MAX`] outstanding operations, [`GROUP`] for each of [`GROUPS_MAX`] multicast groups, then
//! [`SLOT`] for each peer.

use weft_core::flow::{Counters, Gauges};
use weft_engine::engine::GroupStanding;
use weft_launch::standing::{self, Draft, Front, Operation, Standing};
use weft_launch::{CallSite, page};
use weft_net::clock;

use crate::awaited::Awaited;
use crate::context::CONTEXTS_EACH;
use crate::engine::{Engine, Route};
use crate::multicast::{Carried, Counters as Multicasts, Scheme};
use crate::object::{Objects, PeerId};
use crate::request::{Receive, Request, Send, State};

/// Name and meaning of each number of a peer's flow, in the order of [`Peer::counters`] and [`Peer::gauges`].
pub const COUNTERS: &[(&str, &str)] = Counters::NAMES;
/// The same.
pub const GAUGES: &[(&str, &str)] = &Gauges::NAMES;

/// Peers whose counters are published one by one.
pub const PEERS_MAX: usize = 4096;
/// Requests and messages that are looked at for what is told.
const SEEN_MAX: usize = 64;
/// Words of a peer in front of the counters.
const PEER: usize = 4;
/// Words of a peer.
const SLOT: usize = PEER + Counters::NAMES.len() + Gauges::NAMES.len();
/// The word that says what the counters are, behind how the rank stands.
const LAYOUT_AT: usize = standing::WORDS;
/// The word that says whether the network carries multicast, and behind it the groups.
const CARRIED_AT: usize = LAYOUT_AT + 1;
const GROUPS_AT: usize = CARRIED_AT + 1;
/// Groups that are told.
const GROUPS_MAX: usize = 4;
/// Words of one.
const GROUP: usize = 8;
/// Context of `MPI_COMM_WORLD`.
const WORLD_CONTEXT: u64 = 0;
const PEERS_AT: usize = GROUPS_AT + GROUPS_MAX * GROUP;

const _: () = assert!(PEERS_AT + PEERS_MAX * SLOT <= page::WORDS_MAX);

/// A number that differs when the counters mean something else: the library's version and all names, hashed (FNV-1a).
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
    hash ^ (PEERS_AT << 16 | SLOT) as u64
};

/// How a peer is reached, as a number.
const LINKS: [&str; 5] = ["not yet", "self", "shared", "network", "failed"];

/// The writer.
pub struct Live {
    page: page::Page,
    names: &'static [&'static str],
    process: (u32, u32, u32),
    /// The call at the last time, and the completions then: as long as they stay the same, nothing has happened.
    last: (u32, u64),
    still_since_ns: u64,
}

/// A collective under way.
pub struct Collective<'a> {
    /// Its request,
    pub request: usize,
    /// and those of its messages that are under way.
    pub transfers: &'a [usize],
    /// Who of the node has not published what it waits for.
    pub missing: Vec<PeerId>,
    /// Context of its messages.
    pub context: u32,
}

/// What is published.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Communicators.
    pub objects: &'a Objects,
    /// Collectives under way.
    pub collectives: &'a [Collective<'a>],
    /// Messages and peers.
    pub engine: &'a Engine,
    /// What the call waits for.
    pub awaited: &'a Awaited,
    /// Threads that wait.
    pub threads: u32,
    /// Whether the network carries multicast.
    pub carried: Carried,
}

impl Live {
    /// The page of a rank; `names` are those of the MPI calls by number. None where the process may not have one: then nobody can look.
    pub fn new(rank: u32, size: u32, names: &'static [&'static str]) -> Option<Self> {
        let page = page::Page::create(PEERS_AT + SLOT * (size as usize).min(PEERS_MAX)).ok()?;
        let process = (std::process::id(), rank, size);
        Some(Self { page, names, process, last: (CallSite::OUTSIDE, 0), still_since_ns: clock::now().0 })
    }

    /// The rank is awake again.
    pub fn awake(&self) {
        self.page.publish(|put| standing::put_awake(put));
    }

    /// Publishes how the rank stands.
    pub fn publish(&mut self, view: &View<'_>, asleep: bool) {
        let now = clock::now().0;
        let engine = view.engine;
        let (call, completions) = (CallSite::get(), engine.messages.completions);
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
            let mut groups = engine.groups();
            for at in 0..GROUPS_MAX {
                let words = groups.next().map_or([0; GROUP], |group| view.group(&group));
                words.into_iter().enumerate().for_each(|(word, value)| put(GROUPS_AT + at * GROUP + word, value));
            }
            for (_, peer) in engine.peers.iter().filter(|(_, peer)| peer.is_of_own_job()) {
                let number = peer.number() as usize;
                if number < PEERS_MAX {
                    put_peer(put, PEERS_AT + number * SLOT, peer.route(), peer.traffic());
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

/// Whom an operation waits for.
enum Told {
    /// This rank of the job.
    Of(u32),
    /// Any process of the communicator with this context.
    Anybody(u32),
    /// Nobody: it has ended.
    Complete,
    /// That cannot be said.
    Unknown,
}

impl View<'_> {
    /// The words of a group.
    fn group(&self, group: &GroupStanding) -> [u64; GROUP] {
        let Scheme { blocking, co_roots, aggregate, written } = group.scheme;
        let flags = u64::from(blocking) << 63 | u64::from(written) << 62;
        let scheme = flags | u64::from(aggregate) << 32 | u64::from(co_roots);
        let known = self.communicator(group.context);
        let ranks = known.map_or(0, |(_, object)| object.group.size());
        let Multicasts { packets, repairs_by_multicast, repairs_by_unicast, negative, .. } = group.counters;
        let repairs = repairs_by_multicast + repairs_by_unicast;
        let is_straight = u64::from(group.goes_straight);
        [
            group.members.into(),
            (group.context - group.context % CONTEXTS_EACH).into(),
            ranks.into(),
            scheme,
            is_straight,
            packets,
            repairs,
            negative,
        ]
    }

    /// Tells what the call waits for, and of whom; whether any of these is enough, if that is known.
    fn tell_awaited(&self, draft: &mut Draft<'_>) -> Option<bool> {
        let (handles, any): (&[usize], bool) = match self.awaited {
            Awaited::Unknown => return None,
            Awaited::One(handle) => (std::slice::from_ref(handle), false),
            Awaited::Both(handles) => (handles, false),
            Awaited::All(handles) => (handles, false),
            Awaited::Any(handles) => (handles, true),
            Awaited::Message { communicator, source, tag } => {
                return self.tell_probe(draft, *communicator, *source, *tag);
            }
        };
        handles.iter().take(SEEN_MAX).for_each(|handle| self.tell_missing(draft, *handle));
        let mut parts = 0;
        handles.iter().take(SEEN_MAX).for_each(|handle| self.each_part(*handle, &mut |_| parts += 1));
        // A receive from anybody is one of many; beside others of which all are needed that can only be left out.
        let alternatives = any || parts == 1;
        let (mut known, mut from_anybody) = (true, false);
        for handle in handles.iter().take(SEEN_MAX) {
            self.each_part(*handle, &mut |request| match self.tell(draft, request, true) {
                Told::Of(peer) => draft.needs(peer),
                Told::Anybody(context) if alternatives => {
                    from_anybody = true;
                    self.need_any(draft, context);
                }
                Told::Complete => {}
                Told::Anybody(_) | Told::Unknown => known = false,
            });
        }
        if handles.len() > SEEN_MAX || !known {
            draft.cut();
        }
        // With several threads, one that waits does not keep the process from going on.
        (self.threads <= 1).then_some(any || from_anybody)
    }

    /// Who has not come to a collective that goes through memory that the node's processes share.
    fn tell_missing(&self, draft: &mut Draft<'_>, handle: usize) {
        let Some(running) = self.collectives.iter().find(|running| running.request == handle) else { return };
        for peer in running.missing.iter().take(SEEN_MAX).filter_map(|peer| self.number(*peer)) {
            draft.wait(Operation::Receive, Some(peer), None, 0, &self.name(running.context), true);
            draft.needs(peer);
        }
    }

    /// A probe is of no request.
    fn tell_probe(&self, draft: &mut Draft<'_>, communicator: usize, source: i32, tag: i32) -> Option<bool> {
        let object = self.objects.find_communicator(communicator)?;
        let member = usize::try_from(source).ok().and_then(|rank| object.group.members.get(rank));
        let peer = member.and_then(|peer| self.number(*peer));
        let tag = (tag >= 0).then_some(tag);
        draft.wait(Operation::Probe, peer, tag, 0, &self.name(object.context), true);
        match peer {
            Some(peer) => draft.needs(peer),
            None => self.need_any(draft, object.context),
        }
        (self.threads <= 1).then_some(peer.is_none())
    }

    /// The requests that a request consists of, those of a collective among them.
    fn each_part(&self, handle: usize, tell: &mut dyn FnMut(&Request)) {
        let requests = &self.engine.messages.requests;
        let Some(request) = requests.get(handle) else { return };
        let parts: &[usize] = match &request.state {
            State::Pair { send, receive } => &[*send, *receive],
            State::Flush(parts) => parts,
            State::Collective => {
                let running = self.collectives.iter().find(|running| running.request == handle);
                running.map_or(&[][..], |running| running.transfers)
            }
            _ => return tell(request),
        };
        parts.iter().take(SEEN_MAX).filter_map(|part| requests.get(*part)).for_each(tell);
    }

    /// Tells operations that the call does not wait for, as far as there is room.
    fn tell_others(&self, draft: &mut Draft<'_>) {
        let is_awaited = |handle: usize| match self.awaited {
            Awaited::One(one) => *one == handle,
            Awaited::Both(handles) => handles.contains(&handle),
            Awaited::All(handles) | Awaited::Any(handles) => handles.contains(&handle),
            Awaited::Unknown | Awaited::Message { .. } => false,
        };
        // The transfers of a collective have been told with it.
        let of_collective = |handle: usize| self.collectives.iter().any(|running| running.transfers.contains(&handle));
        for (handle, request) in self.engine.messages.requests.iter().take(SEEN_MAX) {
            if !request.is_complete() && !is_awaited(handle) && !of_collective(handle) {
                self.tell(draft, request, false);
            }
        }
    }

    /// Tells an operation that has not ended.
    fn tell(&self, draft: &mut Draft<'_>, request: &Request, is_awaited: bool) -> Told {
        let peer = |peer: Option<PeerId>| peer.and_then(|peer| self.number(peer));
        let of_send = |send: &Send, bytes| {
            (Operation::Send, peer(send.peer), Some(send.envelope.tag), bytes, send.envelope.context)
        };
        let (operation, peer, tag, bytes, context) = match &request.state {
            State::Posted(Receive { peer: from, tag, data, context, .. }) => {
                (Operation::Receive, peer(*from), *tag, data.len(), context.unwrap_or(0))
            }
            State::Queued(send) | State::Announced(send) if self.engine.waits_for_room(send) => {
                let (_, peer, tag, bytes, context) = of_send(send, send.data.len());
                (Operation::Room, peer, tag, bytes, context)
            }
            State::Queued(send) | State::Announced(send) | State::Multicasting(send) => of_send(send, send.data.len()),
            State::Sending { send, left, .. } => of_send(send, *left),
            State::AwaitingMatch { peer: by, context } => (Operation::Match, peer(Some(*by)), None, 0, *context),
            State::Receiving { peer: from, total, received, .. } => {
                let context = self.objects.find_communicator(request.communicator).map_or(0, |found| found.context);
                (Operation::Data, peer(Some(*from)), None, total - received, context)
            }
            State::Complete | State::Inactive => return Told::Complete,
            State::Pair { .. }
            | State::Labelled { .. }
            | State::Flush(_)
            | State::Collective
            | State::Partitioned
            | State::OneSided
            | State::Generalized => return Told::Unknown,
        };
        let tag = tag.filter(|_| context % CONTEXTS_EACH == 0);
        draft.wait(operation, peer, tag, bytes, &self.name(context), is_awaited);
        match (peer, operation) {
            (Some(peer), _) => Told::Of(peer),
            (None, Operation::Receive) => Told::Anybody(context),
            (None, _) => Told::Unknown,
        }
    }

    /// Any process of a communicator is waited for.
    fn need_any(&self, draft: &mut Draft<'_>, context: u32) {
        match self.communicator(context) {
            Some((_, found)) => {
                found.group.members.iter().filter_map(|member| self.number(*member)).for_each(|peer| draft.needs(peer));
            }
            None => draft.cut(),
        }
    }

    /// Tells the first messages that nobody has asked for.
    fn tell_arrived(&self, draft: &mut Draft<'_>) {
        let messages = &self.engine.messages;
        for (envelope, unexpected) in messages.matcher.unexpected().take(SEEN_MAX) {
            let Some(message) = messages.unexpected.get(*unexpected) else { continue };
            // What belongs to no communicator of this process is the library's own, and its tag means nothing to a user.
            let is_told = envelope.context % CONTEXTS_EACH == 0 && self.communicator(envelope.context).is_some();
            let tag = Some(envelope.tag).filter(|_| is_told);
            let peer = self.number(message.peer).unwrap_or(u32::MAX);
            if !draft.arrived(peer, tag, message.total, &self.name(envelope.context)) {
                break;
            }
        }
    }

    /// A peer's index in the job.
    fn number(&self, peer: PeerId) -> Option<u32> {
        self.engine.peers.get(peer).map(|peer| peer.number())
    }

    fn communicator(&self, context: u32) -> Option<(usize, &crate::object::Communicator)> {
        let first = context - context % CONTEXTS_EACH;
        self.objects.communicators.iter().find(|(_, found)| found.context == first)
    }

    /// Name of the communicator of a context.
    fn name(&self, context: u32) -> std::borrow::Cow<'_, str> {
        match self.communicator(context) {
            Some((_, found)) if !found.name.is_empty() => found.name.as_str().into(),
            Some((_, found)) => format!("communicator {} of {}", found.context, found.group.size()).into(),
            None => "".into(),
        }
    }
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
    let Some(counters) = remote.counters() else { return };
    let gauges = remote.current_flow().map(|flow| flow.gauges()).unwrap_or_default();
    let values = counters.values().into_iter().chain(gauges.values());
    for (i, word) in values.enumerate() {
        put(start + PEER + i, word);
    }
}

/// What a page says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// How the rank stands.
    pub standing: Standing,
    /// Peers that there is something to tell of.
    pub peers: Vec<Peer>,
    /// Whether the network carries multicast,
    pub carried: Carried,
    /// and the groups of communicators.
    pub groups: Vec<Group>,
}

/// The multicast group of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Hosts.
    pub hosts: u64,
    /// `MPI_COMM_WORLD`, or `communicator`, its context and how many ranks it has.
    pub communicator: String,
    /// Who acknowledges to whom.
    pub scheme: Scheme,
    /// The network loses most of what this rank multicasts: it sends to each host by itself.
    pub goes_straight: bool,
    /// Packets that this rank has multicast, sent again, and asked for.
    pub packets: [u64; 3],
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
        let standing = Standing::parse(words, clock::now().0)?;
        let same = words.get(LAYOUT_AT) == Some(&LAYOUT);
        let carried = |word: &u64| Carried::ALL.get(usize::try_from(*word).ok()?);
        let groups = words.get(GROUPS_AT..PEERS_AT).filter(|_| same).unwrap_or_default().chunks_exact(GROUP);
        let slots = words.get(PEERS_AT..).filter(|_| same).unwrap_or_default().chunks_exact(SLOT);
        Ok(Self {
            standing,
            peers: slots.enumerate().filter_map(|(peer, slot)| Peer::parse(peer as u32, slot)).collect(),
            carried: words.get(CARRIED_AT).filter(|_| same).and_then(carried).copied().unwrap_or_default(),
            groups: groups.filter_map(Group::parse).collect(),
        })
    }
}

impl Group {
    fn parse(words: &[u64]) -> Option<Self> {
        let [hosts, context, ranks, scheme, straight, packets, repairs, asked] = words.try_into().ok()?;
        (hosts > 0).then(|| Self {
            hosts,
            communicator: if context == WORLD_CONTEXT {
                "MPI_COMM_WORLD".to_owned()
            } else {
                format!("communicator {context} of {ranks}")
            },
            scheme: Scheme {
                blocking: scheme >> 63 != 0,
                co_roots: scheme as u32,
                aggregate: (scheme >> 32) as u32 & 0x3fff_ffff,
                written: scheme >> 62 & 1 != 0,
            },
            goes_straight: straight != 0,
            packets: [packets, repairs, asked],
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
        let standing = Standing { rank: 1, size: 2, ..Standing::default() };
        let mut words = standing.words(0);
        words.push(LAYOUT);
        words.resize(PEERS_AT + 2 * SLOT, 0);
        words[PEERS_AT] = 3;
        words[PEERS_AT + 1] = 12;
        words[PEERS_AT + PEER] = 99;
        words[CARRIED_AT] = Carried::Yes as u64;
        let group = [3, WORLD_CONTEXT, 6, 1 << 62 | 10 << 32 | 2, 1, 500, 40, 30];
        words[GROUPS_AT..GROUPS_AT + GROUP].copy_from_slice(&group);
        words
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let snapshot = Snapshot::parse(&page()).unwrap();
        assert_eq!((snapshot.standing.rank, snapshot.standing.size), (1, 2));
        let [peer] = &snapshot.peers[..] else { panic!("{:?}", snapshot.peers) };
        assert_eq!(
            (peer.peer, peer.link, peer.messages, peer.counters[0], peer.gauges.len()),
            (0, "network", 12, 99, GAUGES.len())
        );
        let [group] = &snapshot.groups[..] else { panic!("{:?}", snapshot.groups) };
        let scheme = Scheme { co_roots: 2, aggregate: 10, written: true, ..Scheme::WINDOW };
        assert_eq!((snapshot.carried, group.scheme, group.packets), (Carried::Yes, scheme, [500, 40, 30]));
        assert!(group.goes_straight && group.communicator == "MPI_COMM_WORLD");
    }

    #[test]
    fn counters_of_another_version_are_not_shown_and_a_short_page_is_no_danger() {
        let mut words = page();
        words[LAYOUT_AT] ^= 1;
        assert!(Snapshot::parse(&words).unwrap().peers.is_empty());
        let words = page();
        for length in 0..words.len() {
            let _ = Snapshot::parse(&words[..length]);
        }
    }
}
