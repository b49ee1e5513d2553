//! Joining the job and leaving it: `MPI_Init_thread`, `MPI_Session_init`, `MPI_Finalize`, `MPI_Abort` (MPI-5.0 §11.2, §11.3).
//!
//! A process joins once, with its first session or with the World Model, whichever comes first. It leaves with `MPI_Finalize` if no
//! process of the job has had a session; otherwise it stays, and only says goodbye to the launcher whenever nothing is open: a session
//! that is opened later finds everything as it was (decision 0117).

mod capture;
mod devices;
mod leave;
mod links;
mod rails;
mod raw;
mod sessions;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_core::time::Duration;
use weft_core::wire::Secret;
use weft_launch::{CallSite, JobSecret, Load, ProcessManager, process_manager, say};
use weft_net::checkers::attach_checkers;
use weft_net::single_copy::SingleCopy;
use weft_net::{ethernet, fabric, node, shared, single_copy, udp, verbs};

use crate::constants::MPI_ERR_OTHER;
use crate::engine::{Devices, Engine, Machine, NewPeer, Parts, Route};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::live::Live;
use crate::multicast::Knowledge;
use crate::names::SharedNames;
use crate::object::PeerId;
use crate::planner::Planner;
use crate::process::{self, Phase, Process};
use crate::settings::{self, Settings};
use crate::slots::Slots;
use crate::tools;
pub use leave::finalize;
use links::Opened;
pub use sessions::{close_session, open_session};

/// How often one that computes looks whether a peer that waits for it asks for a sign of life, in each `WEFT_PEER_TIMEOUT`.
const ANSWERS_PER_TIMEOUT: u64 = 4;

/// What a process tells all others of itself.
struct Card {
    node: u64,
    pid: i32,
    /// Name of its host, for messages to people.
    host: String,
    secret: Option<JobSecret>,
    /// Where it can be reached, by UDP or not.
    addresses: Option<udp::Card>,
    /// The interfaces on which it takes raw frames.
    raw: Vec<ethernet::Card>,
    /// Its endpoints of libfabric, the better ones first.
    fabric: Vec<fabric::Card>,
    /// Its RDMA devices.
    verbs: Option<verbs::Card>,
    /// Which of several programs of one command line it runs.
    appnum: Option<i32>,
    /// A number for the processors that it may use, and how many these are.
    processors: (u64, usize),
    /// What differs where algorithms of collectives would be chosen differently.
    choices: u64,
}

impl Card {
    fn encode(&self) -> String {
        let secret = self.secret.map_or_else(|| "-".to_owned(), |secret| secret.expose_hex());
        let addresses = self.addresses.as_ref().map_or_else(|| "-".to_owned(), udp::Card::encode);
        let raw: Vec<String> = self.raw.iter().map(ethernet::Card::encode).collect();
        let fabric: Vec<String> = self.fabric.iter().map(fabric::Card::encode).collect();
        let appnum = self.appnum.map_or_else(|| "-".to_owned(), |appnum| appnum.to_string());
        let Self { node, pid, host, .. } = self;
        let (set, processors) = self.processors;
        let verbs = self.verbs.as_ref().map_or_else(|| "-".to_owned(), verbs::Card::encode);
        let (raw, fabric, choices) = (raw.join("+"), fabric.join("+"), self.choices);
        format!(
            "9,{node:x},{pid},{host},{secret},{addresses},{raw},{fabric},{verbs},{appnum},{set:x},{processors},{choices:x}"
        )
    }

    fn decode(text: &str) -> std::result::Result<Self, String> {
        // The text itself is not shown: it may hold the job's secret.
        let wrong = || {
            "a process of the job describes itself in a way that this version of Weft does not understand: do all use the same?".to_owned()
        };
        let parts: Vec<&str> = text.split(',').collect();
        let ["9", node, pid, host, secret, addresses, raw, fabric, verbs, appnum, set, processors, choices] = parts[..]
        else {
            return Err(wrong());
        };
        let number = |text: &str| u64::from_str_radix(text, 16).map_err(|_| wrong());
        let raw = raw.split('+').filter(|card| !card.is_empty()).map(ethernet::Card::decode);
        let fabric = fabric.split('+').filter(|text| !text.is_empty()).map(fabric::Card::decode);
        let verbs = Some(verbs).filter(|text| *text != "-").map(verbs::Card::decode);
        let addresses = Some(addresses).filter(|text| *text != "-").map(udp::Card::decode);
        Ok(Self {
            node: number(node)?,
            pid: pid.parse().map_err(|_| wrong())?,
            host: host.to_owned(),
            secret: JobSecret::from_hex(secret),
            addresses: addresses.transpose().map_err(|_| wrong())?,
            raw: raw.collect::<std::result::Result<_, _>>().map_err(|_| wrong())?,
            fabric: fabric.collect::<std::result::Result<_, _>>().map_err(|_| wrong())?,
            verbs: verbs.transpose().map_err(|_| wrong())?,
            appnum: Some(appnum).filter(|text| *text != "-").map(str::parse).transpose().map_err(|_| wrong())?,
            processors: (number(set)?, processors.parse().map_err(|_| wrong())?),
            choices: number(choices)?,
        })
    }
}

/// A sentence for the user on standard error: nothing is wrong, but something is not as it should be.
fn warn(rank: u32, sentence: &str) {
    say(&format!("weft: rank {rank}: {sentence}"));
}

fn other(sentence: impl Into<String>) -> Error {
    Error::new(MPI_ERR_OTHER, sentence.into())
}

/// The program has entered the call with this number, an index into the names given to [`initialize`].
#[inline]
pub fn note_call(call: u32) {
    CallSite::set(call);
}

/// The program is outside of MPI again.
#[inline]
pub fn note_return() {
    CallSite::set(CallSite::OUTSIDE);
}

/// Begins the World Model (MPI-5.0 §11.2.1), and joins the job unless a session has done so. `names` are the names of the MPI calls by
/// their number, for the launcher's diagnosis.
///
/// # Errors
/// One sentence: the launcher, a setting, or a link that cannot be used.
pub fn initialize(thread_level: i32, names: &'static [&'static str]) -> Result<()> {
    let mut process = process::lock();
    take_part(&mut process, names)?;
    let Some(job) = &process.job else { return Err(other("this process is in no job")) };
    let (rank, members) = (job.rank, job.members.clone());
    process.objects.begin_world(rank, members);
    let (objects, engine) = process.parts()?;
    if let Some(world) = objects.world_mut() {
        world.slot = Slots::open_world(world.collective_context(), &world.group, engine);
    }
    process.thread_level = thread_level;
    process.main_thread = Some(process::thread_number());
    process.phase = Phase::Active;
    process::ACTIVE.store(true, Ordering::Relaxed);
    Ok(())
}

/// This process is one of its job from now on, if it was not before: since the start, or since it said goodbye.
fn take_part(process: &mut Process, names: &'static [&'static str]) -> Result<()> {
    process::watch_for_forks();
    attach_checkers();
    if process.job.is_some() && process::ACTIVE.load(Ordering::Relaxed) {
        return Ok(());
    }
    process.engine.iter().for_each(|engine| engine.say_left(false));
    match &mut process.job {
        None => {}
        // Everything is as it was. A launcher that heard the goodbye and listens no more will not miss this process.
        Some(job) if !job.manager.can_come_back() => return Ok(()),
        Some(job) => return job.manager.come_back().map_err(|error| other(error.to_string())),
    }
    // It stays with the process until it is the job's: by it the launcher hears why this process could not join, so that
    // one sentence is said for the whole job. A setting that is wrong is wrong for all ranks.
    match &mut process.manager {
        Some(manager) => manager.come_back().map_err(|error| other(error.to_string()))?,
        none => *none = Some(process_manager().map_err(|error| other(error.to_string()))?),
    }
    let Some(mut manager) = process.manager.take() else { return Err(other("there is no process manager")) };
    if let Some(observer) = manager.observer() {
        observer.name_calls(names);
    }
    let mut manager = Some(manager);
    let joined = join(process, &mut manager, names);
    process.manager = manager;
    joined
}

/// Joins the job: finds the other processes, and makes what leads to them. Takes the client when all is well.
fn join(process: &mut Process, connection: &mut Option<Box<dyn ProcessManager>>, names: &'static [&'static str]) -> Result<()> {
    let Some(client) = connection.as_deref_mut() else { return Err(other("there is no process manager")) };
    let variable = |name: &str| tools::written(name).or_else(|| std::env::var(name).ok());
    let settings = Settings::read(variable).map_err(other)?;
    let (rank, size) = (client.rank(), client.size());
    if rank == 0 {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        settings::unknown(names).iter().for_each(|unknown| warn(rank, &unknown.to_string()));
    }
    let identity = node::identity(settings.node.as_deref(), settings.shm_dir.as_deref()).0;
    let all_local = client.local_ranks().is_some_and(|ranks| ranks.len() == size as usize);
    let remote = size > 1 && !(all_local && settings.links.shared);
    let mut links = if remote { links::open(&settings, rank)? } else { Opened::default() };
    let own_secret = match client.secret() {
        Some(secret) => Some(secret),
        None if rank == 0 => Some(random_secret()),
        None => None,
    };
    let mut card = Card {
        node: identity,
        pid: std::process::id() as i32,
        host: processor_name(settings.node.as_deref()).replace(|c: char| c == ',' || !c.is_ascii_graphic(), "_"),
        // With Weft's own launcher everybody has it already; others carry rank 0's.
        secret: own_secret.filter(|_| client.secret().is_none()),
        addresses: links.addresses(),
        raw: raw::cards(&settings, &links.raw),
        fabric: links.fabric_cards(&settings),
        verbs: links.verbs_card(),
        appnum: client.appnum(),
        processors: {
            let (name, count) = weft_launch::named_processors();
            (node::hash(name.as_bytes()), count)
        },
        choices: node::hash(
            format!("{:?} {:?} {:?}", settings.choices.digest(), settings.multicast, settings.clusters).as_bytes(),
        ),
    };
    if settings.single_copy && settings.links.shared && client.local_ranks().is_none_or(|ranks| ranks.len() > 1) {
        // Before the others know this process, and try.
        single_copy::permit();
    }
    let mut cards = exchange(client, &card)?;
    if need_links_after_all(&cards) {
        links = links::open(&settings, rank)?;
        (card.addresses, card.raw) = (links.addresses(), raw::cards(&settings, &links.raw));
        card.fabric = links.fabric_cards(&settings);
        card.verbs = links.verbs_card();
        cards = exchange(client, &card)?;
    }
    if let Some(other) = cards.iter().position(|card| card.choices != cards[0].choices) {
        return Err(self::other(format!(
            "rank {other} would choose algorithms of collectives in another way than rank 0: WEFT_COLLECTIVES_TABLE (what the file \
             says), WEFT_REPRODUCIBLE, WEFT_CLUSTERS, WEFT_BCAST and the other settings of that kind must be the same for all ranks"
        )));
    }
    if settings.node.is_none() && settings.links.shared && speaks_for_divided_host(rank, &cards) {
        let what = "ranks of this host cannot all share memory (their pid namespaces, /dev/shm or users differ)";
        warn(rank, &format!("{what}: those that cannot talk over the network, which is slower"));
    }
    let secret = client.secret().or(cards[0].secret).ok_or_else(|| other("rank 0 gave no secret for the job"))?;
    let neighbours = cards.iter().filter(|card| card.node == identity).count();
    let load = Load::of_this_process(neighbours);
    let live = Live::new(rank, size, names);
    let (interfaces, links_open) = (links.interfaces(), links.any());
    let crowded: Vec<bool> = cards.iter().map(|card| is_crowded(card, &cards)).collect();
    let engine = connect(&settings, (rank, size), (&cards, &crowded), links, secret)?;
    let locals: Vec<u32> = (0..size).filter(|peer| cards[*peer as usize].node == identity).collect();
    let shared_names = SharedNames::new(&secret, locals[0], settings.node.as_deref());
    let members: Vec<PeerId> = (0..size).filter_map(|number| engine.peers.find(number)).collect();
    let nodes = members.iter().zip(&cards).map(|(member, card)| (*member, card.node)).collect();
    let cluster = |card: &Card| settings::cluster_of(&settings.clusters, &card.host);
    let clusters = match settings.clusters.is_empty() {
        true => HashMap::new(),
        false => members.iter().zip(&cards).map(|(member, card)| (*member, cluster(card))).collect(),
    };
    process.attach_engine(engine, load, neighbours, live).map_err(|error| {
        other(format!("cannot make a pair of sockets to wake threads with: {}", weft_net::reason(&error)))
    })?;
    process.is_crowded = crowded[rank as usize];
    if settings.progress_thread {
        process.allow_progress_thread();
    }
    if let Some(period) = sign_of_life(settings.peer_timeout).filter(|_| links_open) {
        process.give_signs_of_life(period);
    }
    process.objects.begin();
    let (appnum, universe_size) = (client.appnum(), client.universe_size());
    process.job = connection.take().map(|manager| Job {
        rank,
        size,
        appnum,
        universe_size,
        processor_name: processor_name(settings.node.as_deref()),
        interfaces,
        nodes,
        clusters,
        crowded: members.iter().zip(&crowded).filter(|(_, crowded)| **crowded).map(|(member, _)| *member).collect(),
        reorders: settings.reorder,
        names: shared_names,
        shm_dir: settings.shm_dir.clone(),
        members,
        appnums: cards.iter().map(|card| card.appnum).collect(),
        has_reported: false,
        manager,
    });
    process.verbose_errors = settings.verbose_errors;
    process.call_names = names;
    process.checks_calls = settings.check && size > 1;
    process.multicast =
        Knowledge::new(settings.multicast, settings.sealed, settings.peer_timeout).with_choices(&settings.choices);
    crate::check::compare_calls(process.checks_calls);
    process.contexts.limit_to(settings.communicators);
    process.planner = Planner::new(settings.choices);
    Ok(())
}

fn exchange(client: &mut dyn ProcessManager, card: &Card) -> Result<Vec<Card>> {
    let texts = client.exchange(&card.encode()).map_err(|error| other(error.to_string()))?;
    texts.iter().map(|text| Card::decode(text).map_err(other)).collect()
}

/// Whether the job has more processes on the processors of one than these are. Those that share memory, and those that count as nodes of
/// their own on one machine, alike; all processes come to the same answer.
fn is_crowded(card: &Card, cards: &[Card]) -> bool {
    cards.iter().filter(|other| other.processors.0 == card.processors.0).count() > card.processors.1
}

/// Whether processes that the launcher has on one host, and that opened no links therefore, cannot share memory: containers. All
/// come to the same answer.
fn need_links_after_all(cards: &[Card]) -> bool {
    let unreachable = cards
        .iter()
        .all(|card| card.addresses.is_none() && card.raw.is_empty() && card.fabric.is_empty() && card.verbs.is_none());
    unreachable && cards.iter().any(|card| card.node != cards[0].node)
}

/// Whether there are ranks beside this one, with the same network and host name, that it shares no memory with, and it is the first of all.
fn speaks_for_divided_host(rank: u32, cards: &[Card]) -> bool {
    let network = |card: &Card| card.addresses.as_ref().and_then(|addresses| Some(addresses.candidates.first()?.host));
    let own = &cards[rank as usize];
    let mut neighbours =
        cards.iter().zip(0..).filter(|(card, _)| network(own).is_some() && network(card) == network(own));
    neighbours.clone().any(|(card, _)| card.node != own.node)
        && neighbours.next().is_some_and(|(_, first)| first == rank)
}

/// Finds a path to every process of the job.
fn connect(
    settings: &Settings,
    (rank, size): (u32, u32),
    (cards, crowded): (&[Card], &[bool]),
    mut links: Opened,
    secret: JobSecret,
) -> Result<Engine> {
    let own = &cards[rank as usize];
    let locals: Vec<u32> = (0..size).filter(|peer| cards[*peer as usize].node == own.node).collect();
    let use_shared = settings.links.shared && locals.len() > 1;
    let names = SharedNames::new(&secret, locals[0], settings.node.as_deref());
    let node = if use_shared { Some(join_node(settings, rank, &locals, &names)?) } else { None };
    let mut any_remote = false;
    let mut paths = Vec::with_capacity(size as usize);
    for peer in 0..size {
        let local = locals.iter().position(|local| *local == peer);
        paths.push(match local {
            _ if peer == rank => Route::Myself,
            Some(local) if use_shared => Route::Shared(local),
            _ => {
                let ends = (own, &cards[peer as usize]);
                let take_turns = crowded[rank as usize] || crowded[peer as usize];
                let delay = rails::ack_delay(settings, take_turns);
                let path = rails::remote((settings, delay), size, ends, &mut links, (rank, peer));
                any_remote |= matches!(path, Route::Remote(_));
                path
            }
        });
    }
    let copies = |peer: u32| settings.single_copy && single_copy::available(cards[peer as usize].pid);
    let pids: Vec<i32> = (0..size)
        .map(|peer| match paths[peer as usize] {
            Route::Shared(_) if copies(peer) => cards[peer as usize].pid,
            _ => 0,
        })
        .collect();
    let refused = |peer: &u32| {
        let without = matches!(paths[*peer as usize], Route::Shared(_)) && pids[*peer as usize] == 0;
        without && single_copy::is_refused(cards[*peer as usize].pid)
    };
    let speaks = || node.as_ref().is_some_and(shared::Node::speaks_first);
    if settings.single_copy && locals.iter().any(refused) && speaks() {
        let why =
            "the kernel refuses copies between ranks of this host (seccomp, ptrace_scope or another user namespace)";
        warn(rank, &format!("{why}: large messages go through shared memory"));
    }
    if let Some(udp) = &links.udp {
        udp.warnings().iter().for_each(|sentence| warn(rank, sentence));
    }
    let host = raw::Host { rank, locals: &locals, cards, key: names.name("xdp", &[]) };
    let devices = if any_remote { devices::devices(settings, &host, &paths, links)? } else { Devices::NONE };
    let hosts = hosts(cards);
    let parts = Parts {
        platform: Machine,
        number: rank,
        host: Some(hosts[rank as usize].clone()),
        node,
        memory: SingleCopy,
        devices,
        secret: Secret::new(*secret.expose()),
        eager_limit: settings.eager_limit,
        unexpected_bytes: settings.unexpected_bytes,
        peer_timeout: settings.peer_timeout,
    };
    let mut engine = Engine::new(parts);
    for (((number, route), process), host) in (0..).zip(paths).zip(pids).zip(hosts) {
        if number != rank {
            engine.add_peer(NewPeer { number, route, process, host: Some(host) });
        }
    }
    engine.say_copies();
    Ok(engine)
}

/// Looks, four in a second, that must find a neighbour dead where `mpiexec` ends the job itself: three seconds.
const LOOKS_BEHIND_MPIEXEC: u8 = 12;

fn join_node(settings: &Settings, rank: u32, locals: &[u32], names: &SharedNames) -> Result<shared::Node> {
    let place = locals.iter().position(|local| *local == rank).unwrap_or(0);
    let key = names.name("node", &[]);
    let (directory, processors) = (settings.shm_dir.clone(), weft_launch::usable_processors());
    let wanted = shared::Settings { directory, processors, ..shared::Settings::default() };
    let mut node =
        shared::Node::create(&key, place, locals.len(), &wanted).map_err(|error| other(error.to_string()))?;
    if Load::is_from_mpiexec() {
        node.leave_deaths_to_launcher(LOOKS_BEHIND_MPIEXEC);
    }
    node.warnings().iter().for_each(|sentence| warn(rank, sentence));
    Ok(node)
}

/// How often a process that computes looks around; `None`: nobody asks.
fn sign_of_life(peer_timeout: Duration) -> Option<Duration> {
    (peer_timeout.0 > 0).then_some(Duration(peer_timeout.0 / ANSWERS_PER_TIMEOUT))
}

/// The host of each process. Those of one host share the name.
fn hosts(cards: &[Card]) -> Vec<Arc<str>> {
    let mut names: HashMap<&str, Arc<str>> = HashMap::new();
    cards.iter().map(|card| names.entry(&card.host).or_insert_with(|| card.host.as_str().into()).clone()).collect()
}

fn processor_name(node: Option<&str>) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = machine.trim();
    let machine = if machine.is_empty() { "localhost" } else { machine };
    node.map_or_else(|| machine.to_owned(), |node| format!("{machine}/{node}"))
}

/// Sixteen bytes from the kernel; where it has none to give, from the hasher keys of the standard library, which come
/// from the same source when it has.
fn random_secret() -> JobSecret {
    let mut secret = [0; JobSecret::LENGTH];
    let read =
        std::fs::File::open("/dev/urandom").and_then(|mut source| std::io::Read::read_exact(&mut source, &mut secret));
    if read.is_err() {
        for half in secret.chunks_mut(8) {
            half.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
        }
    }
    JobSecret::new(secret)
}

/// Ends a child that was forked from a process of the job, and nothing else.
pub fn end_child() -> ! {
    weft_launch::exit_now(MPI_ERR_OTHER)
}

/// Ends the job with `code` (MPI-5.0 §11.4). Never returns.
pub fn abort(code: i32, message: &str) -> ! {
    let mut process = process::lock();
    let manager = process.job.take().map(|job| job.manager).or_else(|| process.manager.take());
    drop(process);
    match manager {
        Some(mut manager) => manager.abort(code, message),
        None => {
            say(&format!("weft: {message}"));
            std::process::exit(code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_is_not_understood_is_not_shown() {
        let secret = "00112233445566778899aabbccddeeff";
        for card in [format!("4,1f,77,h0,{secret},-,,-"), format!("5,no number,77,h0,{secret},-,,-")] {
            let sentence = Card::decode(&card).err().unwrap_or_default();
            assert!(sentence.contains("does not understand") && !sentence.contains(&secret[..8]), "{sentence}");
        }
    }
}
