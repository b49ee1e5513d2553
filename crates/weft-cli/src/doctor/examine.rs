//! Sends the doctor's requests to the agents and collects their answers. A request goes to all agents before
//! the first answer is awaited, so that many hosts take no longer than one.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weft_launch::DEFAULTS_VARIABLE;
use weft_mpi::settings::Said;

use super::Plan;
use super::agent;
use super::facts::Facts;
use super::findings::{self, Finding, HostSeen, PairSeen};
use super::host::{Host, Unreachable};
use super::protocol::{
    BURST, FABRIC, FABRIC_ON, MULTICAST, MULTICAST_OF_LINK, Reply, Request, SHORT_BYTES, Target, Unanswered, VERSION,
};

/// The number of hosts up to which every pair is tried; beyond it, each host is tried with its neighbours in
/// a ring.
pub(crate) const ALL_PAIRS_HOSTS_MAX: usize = 16;
/// The time that an agent may take for one request beyond the time that the request itself allows.
const REPLY_TIMEOUT: Duration = Duration::from_secs(15);
/// The rounds of packets: a packet that was lost in one round is sent again in the next.
const ROUNDS: usize = 3;
/// The time for which the agents wait for packets in one round; they stop when all have arrived.
const COLLECT: Duration = Duration::from_millis(400);
/// The most pairs of one host for which the network is asked about the fate of packets.
const TRACES_OF_A_HOST_MAX: usize = 4;
/// The number of questions for the time.
const PINGS: usize = 5;
/// The payloads in bytes that are tried where the largest is lost: those of usual MTUs less 28 and 48 bytes
/// of headers.
const LADDER: [usize; 9] = [472, 548, 872, 1232, 1252, 1372, 1422, 1452, 1472];
/// The variables that belong to one host and are not sent to others.
const HOST_BOUND: [&str; 2] = ["WEFT_NODE", "WEFT_AGENT"];

/// The result of an examination.
pub(crate) struct Report {
    pub(crate) hosts: Vec<String>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) facts: BTreeMap<String, Facts>,
    /// The number of pairs of hosts between which packets were sent, both directions counted.
    pub(crate) directions: usize,
    pub(crate) seconds: f64,
}

/// Examines all hosts; `None` when the user stopped it.
pub(crate) fn run(plan: &Plan, interrupted: &Arc<AtomicBool>) -> Option<Report> {
    let began = Instant::now();
    let mut findings = Vec::new();
    let hosts = start(plan, interrupted, &mut findings);
    let mut examination = Examination::new(hosts);
    examination.introduce();
    examination.time();
    examination.facts();
    examination.open();
    examination.packets();
    examination.multicast();
    examination.ladder();
    examination.trace();
    if interrupted.load(Ordering::Relaxed) {
        return None;
    }
    let Examination { hosts, seen, pairs, names, .. } = examination;
    for host in &hosts {
        findings.extend(host.fault.as_ref().map(|why| findings::lost(&host.name, why)));
    }
    seen.iter().for_each(|one| findings.extend(findings::of_host(one)));
    findings.extend(findings::of_all(&seen));
    findings.extend(findings::of_pairs(&pairs.iter().map(|pair| &pair.seen).collect::<Vec<_>>()));
    findings.extend(findings::of_multicast(&seen, &names));
    Some(Report {
        hosts: plan.hosts.iter().map(|(name, _)| name.clone()).collect(),
        findings,
        facts: seen.into_iter().map(|one| (one.name, one.facts)).collect(),
        directions: pairs.len(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Starts all agents at once; hosts that cannot be reached become findings.
fn start(plan: &Plan, interrupted: &Arc<AtomicBool>, findings: &mut Vec<Finding>) -> Vec<Host> {
    let answer = plan.reach.answer;
    let started: Vec<Result<Host, Unreachable>> = std::thread::scope(|scope| {
        let start = |(name, remote): &'_ (String, bool)| {
            let (name, reach) = (name.clone(), remote.then(|| plan.reach.clone()));
            scope.spawn(move || Host::start(&name, reach.as_ref(), answer, interrupted))
        };
        let threads: Vec<_> = plan.hosts.iter().map(start).collect();
        let ended = "the thread that started it ended".to_owned();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Unreachable::Silent(ended.clone())))).collect()
    });
    let mut hosts = Vec::new();
    for ((name, _), result) in plan.hosts.iter().zip(started) {
        match result {
            Ok(host) => hosts.push(host),
            Err(Unreachable::Silent(why)) => findings.push(findings::unreachable(name, &why)),
            Err(Unreachable::Version(theirs)) => findings.push(findings::other_version(name, &theirs, VERSION)),
            Err(Unreachable::Interrupted) => {}
        }
    }
    hosts
}

struct Examination {
    hosts: Vec<Host>,
    names: Vec<String>,
    seen: Vec<HostSeen>,
    pairs: Vec<Pair>,
}

/// A direction between two hosts over one link: the indices of the hosts, and the observations.
struct Pair {
    from: usize,
    to: usize,
    endpoint_address: String,
    /// The bytes of the largest packet, once the path is known.
    full: Option<usize>,
    seen: PairSeen,
}

impl Examination {
    fn new(hosts: Vec<Host>) -> Examination {
        let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
        let seen = |host: &Host| HostSeen {
            name: host.name.clone(),
            reached_seconds: host.reached_after.as_secs_f64(),
            ..HostSeen::default()
        };
        let seen = hosts.iter().map(seen).collect();
        Examination { hosts, names, seen, pairs: Vec::new() }
    }

    /// Sends to each host the request that `request` makes for it, then fetches the answers, in the same
    /// order. All have the same deadline: many hosts that hang take no longer than one.
    fn ask(&mut self, mut request: impl FnMut(usize) -> Option<Request>) -> Vec<Option<Reply>> {
        let mut asked = Vec::with_capacity(self.hosts.len());
        for (index, host) in self.hosts.iter_mut().enumerate() {
            let request = request(index);
            request.iter().for_each(|request| host.request(request));
            asked.push(request.is_some());
        }
        let deadline = Instant::now() + REPLY_TIMEOUT;
        self.hosts.iter_mut().zip(asked).map(|(host, asked)| if asked { host.reply(deadline) } else { None }).collect()
    }

    fn introduce(&mut self) {
        let token = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let mut own: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("WEFT_") && !HOST_BOUND.contains(&name.as_str()))
            .collect();
        if let Ok(said) = Said::here() {
            own.insert(DEFAULTS_VARIABLE.to_owned(), said.defaults().to_variable());
        }
        self.ask(|index| Some(Request::Begin { index: index as u16, token, variables: own.clone() }));
    }

    /// Asks each host for its time, in a thread each, so that the wait for other hosts is not counted.
    fn time(&mut self) {
        std::thread::scope(|scope| {
            for (host, seen) in self.hosts.iter_mut().zip(&mut self.seen) {
                scope.spawn(move || time_one(host, seen));
            }
        });
    }

    fn facts(&mut self) {
        let replies = self.ask(|_| Some(Request::Facts));
        for (index, reply) in replies.into_iter().enumerate() {
            match reply {
                Some(Reply::Facts(facts)) => self.seen[index].facts = *facts,
                other => self.wrong(index, other),
            }
        }
    }

    fn open(&mut self) {
        let wrong: Vec<bool> = self.seen.iter().map(|seen| seen.facts.wrong_setting.is_some()).collect();
        let replies = self.ask(|index| (!wrong[index]).then_some(Request::Open));
        for (index, reply) in replies.into_iter().enumerate() {
            match reply {
                Some(Reply::Opened { links, multicast }) => {
                    self.seen[index].links = links;
                    self.seen[index].multicast = multicast;
                }
                other if !wrong[index] => self.wrong(index, other),
                _ => self.seen[index].multicast = Err("a setting makes no sense".into()),
            }
        }
        self.pairs = directions(self.hosts.len()).into_iter().flat_map(|(from, to)| self.pairs_of(from, to)).collect();
    }

    /// The pairs of one direction, one for each link that both hosts have. The best endpoints of libfabric
    /// are a pair only where the hosts have no endpoints on a common interface.
    fn pairs_of(&self, from: usize, to: usize) -> Vec<Pair> {
        let common = || self.seen[to].links.iter().filter(|link| self.has(from, &link.name));
        let has_interfaces = common().any(|link| link.name.starts_with(FABRIC_ON));
        let common = common().filter(|link| !(has_interfaces && link.name == FABRIC));
        let pair = |link: &super::protocol::OpenedLink| {
            let seen = PairSeen {
                link: link.name.clone(),
                from: self.names[from].clone(),
                to: self.names[to].clone(),
                firewall: firewall_of(&self.seen[to].facts),
                ..PairSeen::default()
            };
            Some(Pair { from, to, endpoint_address: link.endpoint_address.clone().ok()?, full: None, seen })
        };
        common.filter_map(pair).collect()
    }

    fn has(&self, host: usize, link: &str) -> bool {
        self.seen[host].links.iter().any(|one| one.name == link && one.endpoint_address.is_ok())
    }

    /// Handles a wrong answer: the host is left alone from now on.
    fn wrong(&mut self, index: usize, reply: Option<Reply>) {
        let host = &mut self.hosts[index];
        let why = match reply {
            Some(Reply::Failed { why }) => why,
            _ => "its agent gave another answer than was asked for".to_owned(),
        };
        host.fault.get_or_insert(why);
    }

    /// Sends a short and a full packet from each host to each, and repeats those that are missing.
    fn packets(&mut self) {
        for _ in 0..ROUNDS {
            let missing = |pair: &Pair| {
                let impossible = matches!(pair.seen.path, Some(Err(_)));
                let is_whole = pair.seen.short_arrived && pair.seen.full_arrived;
                if impossible || is_whole { None } else { Some(Vec::new()) }
            };
            if !self.round(missing) {
                return;
            }
            for pair in &mut self.pairs {
                let (seen, link) = (&self.seen[pair.to], pair.seen.link.as_str());
                let short = came(seen, link, pair.from, SHORT_BYTES);
                let full = pair.full.is_some_and(|full| came(seen, link, pair.from, full));
                (pair.seen.short_arrived, pair.seen.full_arrived) = (short, full);
            }
        }
    }

    /// Finds the largest packet that arrives, where only the full size is lost.
    fn ladder(&mut self) {
        let wanted = |pair: &Pair| {
            let full = pair.full.filter(|_| pair.seen.short_arrived && !pair.seen.full_arrived)?;
            Some(LADDER.into_iter().filter(|&size| size < full).collect())
        };
        if !self.round(wanted) {
            return;
        }
        for pair in &mut self.pairs {
            if pair.seen.short_arrived && !pair.seen.full_arrived {
                let sizes =
                    LADDER.into_iter().filter(|&size| came(&self.seen[pair.to], &pair.seen.link, pair.from, size));
                pair.seen.largest_arrived = sizes.max();
            }
        }
    }

    /// Sends packets of the sizes that `wanted` names (an empty list: the usual two sizes) and waits for
    /// them. Returns false if there was no packet to send.
    fn round(&mut self, wanted: impl Fn(&Pair) -> Option<Vec<usize>>) -> bool {
        let wishes: Vec<Option<Vec<usize>>> = self.pairs.iter().map(wanted).collect();
        if wishes.iter().all(Option::is_none) || self.hosts.iter().all(|host| host.fault.is_some()) {
            return false;
        }
        let links: BTreeSet<String> = self.pairs.iter().map(|pair| pair.seen.link.clone()).collect();
        for link in links {
            let targets = |from: usize| {
                let own =
                    self.pairs.iter().zip(&wishes).filter(|(pair, _)| pair.from == from && pair.seen.link == link);
                let target = |(pair, sizes): (&Pair, &Option<Vec<usize>>)| {
                    Some(Target {
                        peer: pair.to as u16,
                        endpoint_address: pair.endpoint_address.clone(),
                        sizes: sizes.clone()?,
                    })
                };
                own.filter_map(target).collect::<Vec<Target>>()
            };
            let requests = (0..self.hosts.len()).map(targets).map(|targets| {
                let link = link.clone();
                (!targets.is_empty()).then_some(Request::Send { link, targets })
            });
            let requests = requests.collect();
            self.send(&link, requests);
        }
        let mut missing = vec![0; self.hosts.len()];
        for (pair, sizes) in self.pairs.iter().zip(&wishes) {
            let usual = 2 - usize::from(pair.seen.short_arrived) - usize::from(pair.seen.full_arrived);
            let sent = sizes.as_ref().map_or(0, |sizes| if sizes.is_empty() { usual } else { sizes.len() });
            missing[pair.to] += if matches!(pair.seen.path, Some(Ok(_))) { sent } else { 0 };
        }
        self.collect(&missing);
        true
    }

    fn send(&mut self, link: &str, requests: Vec<Option<Request>>) {
        let mut requests = requests;
        let replies = self.ask(|index| requests[index].take());
        for (from, reply) in replies.into_iter().enumerate() {
            let Some(Reply::Sent { targets }) = reply else { continue };
            for sent in targets {
                let to = usize::from(sent.peer);
                let mut own = self.pairs.iter_mut();
                let Some(pair) = own.find(|pair| pair.from == from && pair.to == to && pair.seen.link == link) else {
                    continue;
                };
                pair.full = sent.path.as_ref().ok().map(|path| path.packet_bytes);
                pair.seen.path = Some(sent.path);
                pair.seen.refused = sent.refused;
            }
        }
    }

    /// Collects the packets that have arrived; waits until each host has as many new ones as `missing` says.
    fn collect(&mut self, missing: &[usize]) {
        let milliseconds = COLLECT.as_millis() as u64;
        let due: Vec<usize> = self.seen.iter().zip(missing).map(|(seen, more)| seen.arrived.len() + more).collect();
        let replies = self.ask(|index| Some(Request::Collect { expected: due[index], milliseconds }));
        for (index, reply) in replies.into_iter().enumerate() {
            match reply {
                Some(Reply::Arrived { packets }) => self.seen[index].arrived.extend(packets),
                other => self.wrong(index, other),
            }
        }
    }

    fn multicast(&mut self) {
        let can: Vec<bool> = self.seen.iter().map(|seen| seen.multicast.is_ok() && !seen.links.is_empty()).collect();
        let count = can.iter().filter(|&&can| can).count();
        if count < 2 {
            return;
        }
        for _ in 0..ROUNDS {
            let unheard = self.unheard_multicast(&can);
            let missing: Vec<usize> = unheard.iter().map(|senders| senders.iter().sum()).collect();
            if missing.iter().all(|&count| count == 0) {
                break;
            }
            self.ask(|from| unheard.iter().any(|senders| senders[from] > 0).then_some(Request::Multicast));
            self.collect(&missing);
        }
        // Each host sends in its turn and once. If all sent together, a limit would hit one host for the
        // packets of another, and receive buffers would overflow.
        for from in (0..can.len()).filter(|&from| can[from]) {
            self.ask(|index| (index == from).then_some(Request::MulticastInARow));
            let missing = |(index, &can): (usize, &bool)| if can && index != from { BURST } else { 0 };
            self.collect(&can.iter().enumerate().map(missing).collect::<Vec<usize>>());
        }
    }

    /// The number of packets of each host that each host has not received: a short one in each group, and a
    /// full one.
    fn unheard_multicast(&self, can: &[bool]) -> Vec<Vec<usize>> {
        let of = |to: usize, from: usize| {
            let full = self.seen[from].multicast.clone().unwrap_or(SHORT_BYTES);
            let expected = [(MULTICAST_OF_LINK, SHORT_BYTES), (MULTICAST, SHORT_BYTES), (MULTICAST, full)];
            let is_missing = |(link, bytes): &(&str, usize)| !came(&self.seen[to], link, from, *bytes);
            if can[to] && can[from] && to != from { expected.iter().filter(|one| is_missing(one)).count() } else { 0 }
        };
        (0..can.len()).map(|to| (0..can.len()).map(|from| of(to, from)).collect()).collect()
    }

    /// Asks the network for the reason where no packet arrives; all hosts at once, each for one pair in a
    /// round.
    fn trace(&mut self) {
        for _ in 0..TRACES_OF_A_HOST_MAX {
            let next = |from: usize| self.pairs.iter().position(|pair| pair.from == from && pair.seen.is_unexplained());
            let next: Vec<Option<usize>> = (0..self.hosts.len()).map(next).collect();
            if next.iter().all(Option::is_none) {
                return;
            }
            let request = |pair: usize| {
                let Pair { endpoint_address, seen, .. } = &self.pairs[pair];
                Request::Trace { link: seen.link.clone(), endpoint_address: endpoint_address.clone() }
            };
            let mut requests: Vec<Option<Request>> = next.iter().map(|pair| pair.map(request)).collect();
            let replies = self.ask(|index| requests[index].take());
            for (pair, reply) in next.into_iter().zip(replies).filter_map(|(pair, reply)| Some((pair?, reply))) {
                let unanswered =
                    if let Some(Reply::Traced { unanswered }) = reply { unanswered } else { Unanswered::Silence };
                self.pairs[pair].seen.unanswered = Some(unanswered);
            }
        }
    }
}

/// Measures the clock of a host: the quickest of several answers tells the time best.
fn time_one(host: &mut Host, seen: &mut HostSeen) {
    let mut best = f64::INFINITY;
    for _ in 0..PINGS {
        let (asked, clock) = (Instant::now(), agent::now());
        host.request(&Request::Ping);
        let Some(Reply::Time { nanoseconds }) = host.reply(asked + REPLY_TIMEOUT) else { return };
        let took = asked.elapsed().as_secs_f64();
        if took < best {
            best = took;
            seen.answer_milliseconds = took * 1e3;
            seen.clock_ahead_seconds = (nanoseconds as f64 - clock as f64) / 1e9 - took / 2.0;
        }
    }
}

fn came(seen: &HostSeen, link: &str, from: usize, bytes: usize) -> bool {
    seen.arrived.iter().any(|one| one.link == link && usize::from(one.from) == from && one.bytes == bytes)
}

fn firewall_of(facts: &Facts) -> Option<String> {
    (facts.firewall.stopping > 0).then(|| facts.firewall.example.clone())
}

/// The directions between `count` hosts: all of them, or those of a ring when there are many hosts.
fn directions(count: usize) -> Vec<(usize, usize)> {
    if count <= ALL_PAIRS_HOSTS_MAX {
        return (0..count)
            .flat_map(|from| (0..count).filter(move |&to| to != from).map(move |to| (from, to)))
            .collect();
    }
    (0..count).flat_map(|from| [(from, (from + 1) % count), ((from + 1) % count, from)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_hosts_are_tried_all_with_all_and_many_in_a_ring() {
        assert_eq!(directions(0), []);
        assert_eq!(directions(1), []);
        assert_eq!(directions(2), [(0, 1), (1, 0)]);
        assert_eq!(directions(16).len(), 16 * 15);
        let ring = directions(17);
        assert_eq!(ring.len(), 34);
        assert!(ring.contains(&(16, 0)) && ring.contains(&(0, 16)) && !ring.contains(&(0, 5)));
    }
}
