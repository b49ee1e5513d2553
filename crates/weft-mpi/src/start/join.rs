//! Joins the job: looks at this host, exchanges business cards with all other processes, connects to them,
//! and publishes the results to this process.
//!
//! `start.rs` calls it in `MPI_Init` and for the first session.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher as _};

use weft_core::time::Duration;
use weft_core::wire::Secret;
use weft_launch::{JobSecret, Load, ProcessManager};
use weft_net::{node, single_copy};

use super::links::{self, Opened};
use super::notices;
use super::{connect, other, processor_name, raw, warn};
use crate::business_card::BusinessCard;
use crate::engine::Engine;
use crate::error::Result;
use crate::job::{Introduction, Job, Link};
use crate::live::Live;
use crate::multicast::Knowledge;
use crate::names::SharedNames;
use crate::object::PeerId;
use crate::planner::Planner;
use crate::process::Process;
use crate::settings::{self, Said, Settings};
use crate::tools;

/// The times in each `WEFT_PEER_TIMEOUT` at which a process that computes looks whether a peer asks for a
/// sign of life.
const ANSWERS_PER_TIMEOUT: u64 = 4;

/// The facts that a process finds out by itself.
struct Own {
    settings: Settings,
    /// The links to other nodes; none before it is known that there are other nodes.
    links: Opened,
    card: BusinessCard,
}

/// The processes of the job, as they describe themselves.
pub(super) struct Members {
    /// The rank of this process among them.
    pub(super) rank: u32,
    pub(super) cards: Vec<BusinessCard>,
    /// The processes of this node.
    pub(super) locals: Vec<u32>,
    /// The processors that the processes of this node may use together.
    pub(super) processors: usize,
    /// Says of each process whether it takes turns on its processors.
    pub(super) crowded: Vec<bool>,
    pub(super) secret: JobSecret,
    /// The names of the memory that the processes of this node share.
    pub(super) names: SharedNames,
}

impl Members {
    pub(super) fn size(&self) -> u32 {
        self.cards.len() as u32
    }
}

/// Joins the job of this process manager. Takes the manager out of `manager` on success.
pub(super) fn join(
    process: &mut Process,
    manager: &mut Option<Box<dyn ProcessManager>>,
    call_names: &'static [&'static str],
) -> Result<()> {
    let Some(asked) = manager.as_deref_mut() else { return Err(other("there is no process manager")) };
    let mut own = look(asked)?;
    let members = exchange(asked, &mut own)?;
    let live = Live::new(members.rank, members.size(), members.names.job_id(), call_names);
    let Own { settings, links, card } = own;
    let network = Network { interfaces: links.interfaces(), is_open: links.any() };
    let by_udp = matches!(links.bulk, Some(links::Bulk::Udp(_)));
    let link = by_udp.then(|| Link { carrier: links.bulk_id(), candidates: links.candidates.clone() });
    let engine = connect(&settings, &members, links)?;
    // Links that lead to no process of the job are closed again.
    let (link, card) = match engine.has_network() {
        true => (link, card),
        false => (None, card.without_links()),
    };
    let secret = Secret::new(*members.secret.expose());
    let introduction = Introduction { settings: settings.clone(), card, secret, link, near: None, candidates: None };
    let spans_hosts = engine.has_network();
    let peers = (0..members.size()).filter_map(|number| engine.peers.find(number)).collect();
    attach(process, engine, (&settings, &members, &network), live)?;
    process.job = manager
        .take()
        .map(|manager| Job { spans_hosts, ..job(manager, members, peers, network.interfaces, introduction) });
    process.call_names = call_names;
    publish(process, settings);
    if let Some(job) = &mut process.job {
        notices::listen(&mut *job.manager);
    }
    Ok(())
}

/// The facts about the links that are kept once the engine has the links.
struct Network {
    /// Names of the interfaces by their number.
    interfaces: Vec<String>,
    /// Says that there is a link to other nodes.
    is_open: bool,
}

/// Reads the user's settings and looks at this host.
fn look(manager: &mut dyn ProcessManager) -> Result<Own> {
    let said = Said::here().map_err(other)?;
    let settings = said.settings(tools::written).map_err(other)?;
    let (rank, size) = (manager.rank(), manager.size());
    if rank == 0 {
        said.unknown().iter().for_each(|unknown| warn(rank, unknown));
    }
    let local_ranks = manager.local_ranks();
    let all_local = local_ranks.as_ref().is_some_and(|ranks| ranks.len() == size as usize);
    let links = match size > 1 && !(all_local && settings.links.shared) {
        true => links::open(&settings, rank)?,
        false => Opened::default(),
    };
    if settings.single_copy && settings.links.shared && local_ranks.is_none_or(|ranks| ranks.len() > 1) {
        // Before the other processes know this one, and try to copy.
        single_copy::permit();
    }
    let (processors, processor_count) = weft_launch::named_processors();
    let choices = format!("{:?} {:?} {:?}", settings.choices.digest(), settings.multicast, settings.clusters);
    let card = BusinessCard {
        node: node::identity(settings.node.as_deref(), settings.shm_dir.as_deref()).0,
        pid: std::process::id() as i32,
        host: processor_name(settings.node.as_deref()).replace(|c: char| c == ',' || !c.is_ascii_graphic(), "_"),
        // With Weft's own launcher every process has the secret already; with other launchers rank 0's card
        // carries it.
        secret: (manager.secret().is_none() && rank == 0).then(random_secret),
        addresses: None,
        raw: Vec::new(),
        fabric: Vec::new(),
        verbs: None,
        tcp: None,
        appnum: manager.appnum(),
        processors: (node::hash(processors.as_bytes()), processor_count),
        choices: node::hash(choices.as_bytes()),
    };
    let mut own = Own { settings, links, card };
    own.say_links();
    Ok(own)
}

impl Own {
    /// Writes the addresses of the links to the card.
    fn say_links(&mut self) {
        let Self { settings, links, card } = self;
        (card.addresses, card.raw) = (links.addresses(), raw::addresses(settings, &links.raw));
        (card.fabric, card.verbs) = (links.fabric_addresses(settings), links.verbs_address());
        card.tcp = links.tcp_address();
    }
}

/// Sends this process's card to all others, and receives theirs.
fn exchange(manager: &mut dyn ProcessManager, own: &mut Own) -> Result<Members> {
    let rank = manager.rank();
    let mut cards = exchange_cards(manager, &own.card)?;
    if need_links_after_all(&cards) {
        own.links = links::open(&own.settings, rank)?;
        own.say_links();
        cards = exchange_cards(manager, &own.card)?;
    }
    let Own { settings, card, .. } = own;
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
    let secret = manager.secret().or(cards[0].secret).ok_or_else(|| other("rank 0 gave no secret for the job"))?;
    let is_local = |member: &BusinessCard| member.node == card.node;
    let locals: Vec<u32> = (0..).zip(&cards).filter(|(_, member)| is_local(member)).map(|(rank, _)| rank).collect();
    let crowded = cards.iter().map(|card| is_crowded(card, &cards)).collect();
    let names = SharedNames::new(&secret, locals[0], settings.node.as_deref());
    let processors = weft_launch::reduce_by_quota(processors_of(card.node, &cards));
    Ok(Members { rank, cards, locals, processors, crowded, secret, names })
}

fn exchange_cards(manager: &mut dyn ProcessManager, card: &BusinessCard) -> Result<Vec<BusinessCard>> {
    let (rank, own) = (manager.rank(), card.encode());
    let texts = manager.exchange(&own).map_err(|error| other(error.to_string()))?;
    if texts.get(rank as usize) != Some(&own) {
        let what = "another address card than its own back for it: do two programs of this rank talk to the launcher?";
        return Err(other(format!("rank {rank} got {what}")));
    }
    (0..).zip(&texts).map(|(rank, text)| BusinessCard::decode(rank, text).map_err(other)).collect()
}

/// Gives the process its engine, and the threads that look after the engine.
fn attach(
    process: &mut Process,
    engine: Engine,
    (settings, members, network): (&Settings, &Members, &Network),
    live: Option<Live>,
) -> Result<()> {
    let neighbours = members.locals.len();
    let counts = (neighbours, members.processors);
    process.attach_engine(engine, Load::of_this_process(), counts, live).map_err(|error| {
        other(format!("cannot make a pair of sockets to wake threads with: {}", weft_net::reason(&error)))
    })?;
    process.is_crowded = members.crowded[members.rank as usize];
    process.elsewhere = elsewhere(&members.cards[members.rank as usize], &members.cards);
    if settings.progress_thread {
        process.allow_progress_thread();
    }
    if let Some(period) = sign_of_life(settings.peer_timeout).filter(|_| network.is_open) {
        process.give_signs_of_life(period);
    }
    Ok(())
}

/// The job as the process keeps it, with the peers that its members are.
fn job(
    manager: Box<dyn ProcessManager>,
    members: Members,
    peers: Vec<PeerId>,
    interfaces: Vec<String>,
    introduction: Introduction,
) -> Job {
    let Members { rank, cards, crowded, names, .. } = members;
    let settings = &introduction.settings;
    let cluster = |card: &BusinessCard| settings::cluster_of(&settings.clusters, &card.host);
    let clusters = match settings.clusters.is_empty() {
        true => HashMap::new(),
        false => peers.iter().zip(&cards).map(|(peer, card)| (*peer, cluster(card))).collect(),
    };
    Job {
        rank,
        size: cards.len() as u32,
        appnum: manager.appnum(),
        universe_size: manager.universe_size(),
        processor_name: processor_name(settings.node.as_deref()),
        interfaces,
        nodes: peers.iter().zip(&cards).map(|(peer, card)| (*peer, card.node)).collect(),
        clusters,
        crowded: peers.iter().zip(&crowded).filter(|(_, crowded)| **crowded).map(|(peer, _)| *peer).collect(),
        reorders: settings.reorder,
        names,
        shm_dir: settings.shm_dir.clone(),
        members: peers,
        appnums: cards.iter().map(|card| card.appnum).collect(),
        has_reported: false,
        spans_hosts: false,
        introduction,
        parent: None,
        manager,
    }
}

/// Passes the settings to the parts of the process that depend on them.
fn publish(process: &mut Process, settings: Settings) {
    process.objects.begin();
    process.verbose_errors = settings.verbose_errors;
    process.set_goes_on(settings.goes_on);
    process.checks_calls = settings.check && process.job.as_ref().is_some_and(|job| job.size > 1);
    process.multicast =
        Knowledge::new(settings.multicast, settings.sealed, settings.peer_timeout).with_choices(&settings.choices);
    crate::check::compare_calls(process.checks_calls);
    process.contexts.limit_to(settings.communicators);
    process.planner = Planner::new(settings.choices);
}

/// The time between two looks of a process that computes; `None` when peers never ask.
pub(super) fn sign_of_life(peer_timeout: Duration) -> Option<Duration> {
    (peer_timeout.0 > 0).then_some(Duration(peer_timeout.0 / ANSWERS_PER_TIMEOUT))
}

/// The number of processors that the processes of a node may use together. Launchers give several ranks the
/// same processors, or bind each to others. All processes get the same answer.
fn processors_of(node: u64, cards: &[BusinessCard]) -> usize {
    let sets = cards.iter().filter(|card| card.node == node).map(|card| card.processors);
    sets.collect::<HashMap<u64, usize>>().values().sum()
}

/// Returns whether the job has more processes than processors on the machine of this card. Processes of one
/// machine that count as nodes of their own are counted, too. All processes get the same answer.
fn is_crowded(card: &BusinessCard, cards: &[BusinessCard]) -> bool {
    cards.iter().filter(|other| other.processors.0 == card.processors.0).count() > card.processors.1
}

/// The number of processes that use the processors of this card and count as processes of other nodes.
fn elsewhere(card: &BusinessCard, cards: &[BusinessCard]) -> usize {
    cards.iter().filter(|other| other.processors.0 == card.processors.0 && other.node != card.node).count()
}

/// Returns whether processes that the launcher has on one host cannot share memory, as in containers,
/// although they opened no links for that reason. All processes get the same answer.
fn need_links_after_all(cards: &[BusinessCard]) -> bool {
    cards.iter().all(BusinessCard::is_unreachable) && cards.iter().any(|card| card.node != cards[0].node)
}

/// Returns whether this rank is the first of the ranks with its network and host name, and some of these
/// ranks share no memory with it. The first rank reports this.
fn speaks_for_divided_host(rank: u32, cards: &[BusinessCard]) -> bool {
    let network =
        |card: &BusinessCard| card.addresses.as_ref().and_then(|addresses| Some(addresses.candidates.first()?.host));
    let own = &cards[rank as usize];
    let mut neighbours =
        cards.iter().zip(0..).filter(|(card, _)| network(own).is_some() && network(card) == network(own));
    neighbours.clone().any(|(card, _)| card.node != own.node)
        && neighbours.next().is_some_and(|(_, first)| first == rank)
}

/// Sixteen random bytes from the kernel. Where the kernel gives none, the hasher keys of the standard
/// library, which come from the same source when there is one.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Cards of one node: for each process, which set of processors it may use, and how many these are.
    fn cards(sets: &[(u64, usize)]) -> Vec<BusinessCard> {
        let card = BusinessCard::decode(0, &crate::business_card::card_seeds()[0]).expect("a card");
        sets.iter().map(|processors| BusinessCard { processors: *processors, ..card.clone() }).collect()
    }

    #[test]
    fn processes_that_are_bound_apart_do_not_take_turns() {
        for (sets, processors, crowded, what) in [
            (&[(1, 4); 4][..], 4, false, "four unbound, four processors"),
            (&[(1, 4); 5], 4, true, "five unbound, four processors"),
            (&[(1, 1), (2, 1), (3, 1), (4, 1)], 4, false, "each bound to a core of its own"),
            (&[(1, 1), (1, 1)], 1, true, "two bound to the same core"),
            (&[(1, 2), (1, 2), (2, 2), (2, 2)], 4, false, "two bound to each of two sockets"),
            (&[(1, 2), (1, 2), (1, 2), (2, 2)], 4, true, "three bound to a socket of two"),
            (&[(1, 1)], 1, false, "one process"),
        ] {
            let cards = cards(sets);
            assert_eq!(processors_of(cards[0].node, &cards), processors, "{what}");
            assert_eq!(is_crowded(&cards[0], &cards), crowded, "{what}");
        }
        // Expect: what other nodes may use does not count.
        let mut two_nodes = cards(&[(1, 1), (2, 1)]);
        two_nodes[1].node += 1;
        assert_eq!(processors_of(two_nodes[0].node, &two_nodes), 1);
        assert_eq!(elsewhere(&two_nodes[0], &two_nodes), 0);
        // Expect: processes of other nodes on the same processors do.
        let mut pods = cards(&[(1, 2); 3]);
        pods[2].node += 1;
        assert_eq!([0, 2].map(|rank| elsewhere(&pods[rank], &pods)), [1, 2]);
    }
}
