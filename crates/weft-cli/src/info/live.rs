//! `weft info --live`: shows what running ranks of this host are doing, from the pages that they publish
//! (`weft_mpi::live`).
//!
//! The command sends no question to a rank: it reads the rank's page. So a rank that hangs or is stopped
//! shows as much as a healthy rank.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Map, Value, json};
use weft_launch::standing::{Names, Needs, Process, Standing, processes, seconds};
use weft_launch::{page, wait_for};
use weft_mpi::live::{COUNTERS, GAUGES, Group, Peer, Snapshot};

use super::text::{BOLD, GREY, Style, YELLOW};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most peers of a rank that the page for people shows; JSON has all.
const PEERS_SHOWN_MAX: usize = 8;
/// The time after which an awake rank that has not published counts as computing outside of MPI.
const BUSY_NS_MAX: u64 = 500_000_000;
/// The time after which a wait without any event is pointed out.
const LONG_NS: u64 = 10_000_000_000;

/// Shows the ranks below the process `below`, or all of this user; again and again on a terminal. The exit
/// code is 1 when there is no rank.
pub(super) fn run(below: Option<u32>, as_json: bool, once: bool) -> ExitCode {
    let style = Style::of_output();
    let repeats = !once && !as_json && std::io::stdout().is_terminal();
    let mut seen = false;
    loop {
        let found = look(below);
        if found.is_empty() && !seen {
            let whose =
                below.map_or_else(|| "no process of yours".to_owned(), |pid| format!("no process at or below {pid}"));
            weft_bench::out::say!(
                "weft info: {whose} is a running rank of Weft on this host that may be read; a job's other hosts are asked on those"
            );
            return ExitCode::FAILURE;
        }
        seen = true;
        let text = if as_json { object(&found) } else { table(&found, style) };
        // The cursor goes home, the screen is cleared, and the page follows.
        let text = if repeats { format!("\x1b[H\x1b[J{text}") } else { text };
        let mut out = std::io::stdout();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() || !repeats || found.is_empty() {
            return ExitCode::SUCCESS;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// A rank's process and the content of its page.
struct Found {
    pid: u32,
    /// The `mpiexec` that runs its job, if Weft's does.
    launcher: Option<u32>,
    /// The processors to which it is bound, in words.
    bound_to: Option<String>,
    says: Result<Snapshot, String>,
}

fn look(below: Option<u32>) -> Vec<Found> {
    let mut found = Vec::new();
    for (pid, path) in page::find(below) {
        let words = page::read(&path, page::WORDS_MAX).map_err(|why| why.to_string());
        let says = words.and_then(|words| Snapshot::parse(&words));
        // A forked child has its parent's page.
        if says.as_ref().is_ok_and(|snapshot| !page::is_of(snapshot.standing.pid, pid)) {
            continue;
        }
        found.push(Found { pid, launcher: None, bound_to: weft_launch::binding_of(pid), says });
    }
    let launchers = page::launchers(&found.iter().map(|one| one.pid).collect::<Vec<_>>());
    for one in &mut found {
        one.launcher = launchers.get(&one.pid).copied();
    }
    sort(&mut found);
    found
}

fn sort(found: &mut [Found]) {
    let place = |snapshot: &Snapshot| (snapshot.standing.job, snapshot.standing.rank);
    found.sort_by_key(|one| (one.launcher, one.says.as_ref().map_or((u32::MAX, u32::MAX), place), one.pid));
}

/// The ranks in the order of [`sort`], with the jobs on the pages numbered by the place of their first rank,
/// from 1 on. Jobs without a rank here keep their numbers, which are far larger.
struct Jobs<'a> {
    /// The ranks of each job; the last one has those that say nothing.
    found: Vec<&'a [Found]>,
    /// The numbers on pages.
    known: BTreeMap<u32, u32>,
}

/// The most jobs that are told apart.
const JOBS_MAX: u32 = 1 << 16;

impl<'a> Jobs<'a> {
    fn of(found: &'a [Found]) -> Self {
        let job = |one: &Found| one.says.as_ref().map_or(0, |snapshot| snapshot.standing.job);
        let found: Vec<&[Found]> = found.chunk_by(|one, other| job(one) == job(other)).collect();
        let known = (1..JOBS_MAX).zip(&found).map(|(number, found)| (job(&found[0]), number)).collect();
        Self { found, known }
    }

    fn number_of(&self, job: u32) -> u32 {
        self.known.get(&job).copied().unwrap_or(job.max(JOBS_MAX))
    }

    /// The job in words, as the end of a part of a sentence about the job `of`.
    fn name(&self, number: u32, of: u32) -> String {
        match self.found.get((number as usize).wrapping_sub(1)) {
            _ if number == of => String::new(),
            Some([first, ..]) => format!(" of the job of process {}", first.launcher.unwrap_or(first.pid)),
            _ => " of a job that is not seen here".to_owned(),
        }
    }

    /// The state of a rank, with the jobs of its peers numbered.
    fn standing(&self, snapshot: &Snapshot) -> Standing {
        let mut standing = snapshot.standing.clone();
        standing.renumber(self.number_of(standing.job), &|job| self.number_of(job));
        standing
    }
}

/// The activity of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Doing {
    /// The rank sleeps in a call until something arrives.
    Waits,
    /// The rank works, or looks for messages, in a call.
    Works,
    /// The rank has not been in a call for a while.
    Computes,
}

fn doing(standing: &Standing) -> Doing {
    match standing.is_asleep {
        true => Doing::Waits,
        false if standing.call.is_empty() || standing.published_ns > BUSY_NS_MAX => Doing::Computes,
        false => Doing::Works,
    }
}

/// A sentence such as `waits in MPI_Recv for 12.3 s: receive from rank 1, tag 7, 100 bytes on
/// MPI_COMM_WORLD`.
fn sentence(standing: &Standing, names: Names<'_>) -> String {
    let call = if standing.call.is_empty() { "MPI" } else { &standing.call };
    let mut text = match doing(standing) {
        Doing::Waits => format!("waits in {call} for {}", seconds(standing.still_ns)),
        Doing::Works => format!("works in {call}"),
        Doing::Computes => format!(
            "is outside of MPI, or has just begun a call; last seen in {call} {} ago",
            seconds(standing.published_ns)
        ),
    };
    let waits: Vec<String> = standing.waits.iter().map(|wait| wait.describe(&wait.peer(names))).collect();
    if !waits.is_empty() {
        let _ = write!(text, ": {}", waits.join("; "));
    }
    if standing.posted > 0 || standing.unexpected > 0 {
        let _ = write!(text, "; {} posted, {} unexpected", standing.posted, standing.unexpected);
    }
    for message in &standing.arrived {
        let tag = message.tag.map_or_else(String::new, |tag| format!(", tag {tag}"));
        let from = message.peer.map_or_else(|| "somebody".to_owned(), |peer| processes(&[peer], names));
        let _ = write!(text, "; unexpected from {from}{tag}, {} bytes", message.bytes);
        if !message.communicator.is_empty() {
            let _ = write!(text, " on {}", message.communicator);
        }
    }
    text
}

/// Sentences that say which ranks wait for which others, also of other jobs. A rank without a page on this
/// host counts as running: it may be on another host, or have ended.
fn reasons(found: &[Found]) -> Vec<String> {
    let jobs = Jobs::of(found);
    let one = if jobs.found.len() == 1 { 1 } else { 0 };
    let names = |job| jobs.name(job, one);
    let mut doings: BTreeMap<Process, wait_for::Doing> = BTreeMap::new();
    let absent = || wait_for::Doing::Runs("is not on this host, or has ended".to_owned());
    for found in &jobs.found {
        for snapshot in found.iter().filter_map(|one| one.says.as_ref().ok()) {
            let standing = jobs.standing(snapshot);
            let process = |rank| Process { job: jobs.number_of(standing.job), rank };
            doings.insert(process(standing.rank), wait_for_doing(&standing, &names));
            (0..standing.size).for_each(|rank| {
                doings.entry(process(rank)).or_insert_with(absent);
            });
        }
    }
    let of_unseen = |doing: &wait_for::Doing| match doing {
        wait_for::Doing::Waits(Needs::All(ranges) | Needs::Any(ranges), _) => ranges.clone(),
        _ => Vec::new(),
    };
    let unseen: Vec<Process> = doings.values().flat_map(of_unseen).map(|(first, _)| first).collect();
    for process in unseen.into_iter().filter(|process| process.job >= JOBS_MAX) {
        doings.entry(process).or_insert_with(absent);
    }
    wait_for::explain(&doings, &names)
}

fn wait_for_doing(standing: &Standing, names: Names<'_>) -> wait_for::Doing {
    match doing(standing) {
        Doing::Waits if standing.call.eq_ignore_ascii_case("MPI_Finalize") => {
            wait_for::Doing::Finalizes(standing.needs.clone())
        }
        Doing::Waits if standing.is_waiting() => {
            let what = standing.waits.first().map_or_else(String::new, |wait| wait.describe(&wait.peer(names)));
            wait_for::Doing::Waits(standing.needs.clone(), what)
        }
        Doing::Computes => wait_for::Doing::Runs("is outside of MPI, or has just begun a call".to_owned()),
        _ => wait_for::Doing::Runs(format!("is in {}", standing.call)),
    }
}

/// The sum over a rank's peers of the counter of that name. For gauges: the longest of the times, and the
/// least of the packets' sizes.
fn total(snapshot: &Snapshot, name: &str) -> u64 {
    let values = snapshot.peers.iter().filter_map(|peer| value(peer, name));
    match name {
        "packet_bytes" => values.filter(|bytes| *bytes > 0).min().unwrap_or(0),
        _ if name.ends_with("_ns") => values.max().unwrap_or(0),
        _ => values.sum(),
    }
}

fn value(peer: &Peer, name: &str) -> Option<u64> {
    let index = |names: &[(&str, &str)]| names.iter().position(|(known, _)| *known == name);
    let counter = index(COUNTERS).and_then(|index| peer.counters.get(index));
    counter.or_else(|| index(GAUGES).and_then(|index| peer.gauges.get(index))).copied()
}

/// The columns of the table: the heading, and the counters that are added up for it.
const COLUMNS: [(&str, &[&str]); 11] = [
    ("packets", &["packets_sent"]),
    ("resent", &["resent_by_gap", "resent_by_probe"]),
    ("probes", &["probes"]),
    ("duplicates", &["duplicates"]),
    ("outside", &["out_of_window"]),
    ("acks alone", &["acks_standalone"]),
    ("acks along", &["acks_piggybacked"]),
    ("window", &["window_packets"]),
    ("in flight", &["in_flight_packets"]),
    ("rtt µs", &["round_trip_ns"]),
    ("size max", &["packet_bytes"]),
];
const NAME_WIDTH: usize = 26;

fn table(found: &[Found], style: Style) -> String {
    let mut text = String::new();
    let mut heading = format!("{:NAME_WIDTH$}{:>10}{:>14}{:>10}", "", "messages", "bytes", "credit");
    COLUMNS.iter().for_each(|(name, _)| {
        let _ = write!(heading, "{name:>11}");
    });
    let _ = writeln!(text, "{}", style.paint(BOLD, &heading));
    let jobs = Jobs::of(found);
    let mut job = None;
    for Found { pid, launcher, bound_to, says } in found {
        let number = says.as_ref().map_or(0, |snapshot| jobs.number_of(snapshot.standing.job));
        if jobs.found.len() > 1 && job != Some(number) {
            let of = launcher.unwrap_or(*pid);
            let title = format!("job of process {of}: {}", page::command_of(of));
            let _ = writeln!(text, "{}", style.paint(GREY, &title));
        }
        job = Some(number);
        let snapshot = match says {
            Ok(snapshot) => snapshot,
            Err(why) => {
                let _ = writeln!(text, "process {pid}: {why}");
                continue;
            }
        };
        let standing = &jobs.standing(snapshot);
        let sentence = sentence(standing, &|job| jobs.name(job, number));
        let is_long = doing(standing) == Doing::Waits && standing.still_ns > LONG_NS;
        let sentence = if is_long { style.paint(YELLOW, &sentence) } else { sentence };
        let _ = writeln!(
            text,
            "{} {sentence}",
            style.paint(BOLD, &format!("rank {} of {} (process {pid})", standing.rank, standing.size))
        );
        if let Some(set) = bound_to {
            let _ = writeln!(text, "  bound to {set}");
        }
        if let Some(clause) = snapshot.carried.clause() {
            let _ = writeln!(text, "  multicast: {clause}");
        }
        for group in &snapshot.groups {
            let _ = writeln!(text, "    {}", of_group(group));
        }
        let sums =
            (snapshot.peers.iter().map(|peer| peer.messages).sum(), snapshot.peers.iter().map(|peer| peer.bytes).sum());
        let least = snapshot.peers.iter().map(|peer| peer.credit).min().unwrap_or(0);
        line(&mut text, "  all", sums, least, |name| Some(total(snapshot, name)));
        for peer in snapshot.peers.iter().take(PEERS_SHOWN_MAX) {
            let name = format!("  to {} ({})", peer.peer, peer.link);
            line(&mut text, &name, (peer.messages, peer.bytes), peer.credit, |name| value(peer, name));
        }
        if snapshot.peers.len() > PEERS_SHOWN_MAX {
            let more = format!("  and {} more peers: --json has all", snapshot.peers.len() - PEERS_SHOWN_MAX);
            let _ = writeln!(text, "{}", style.paint(GREY, &more));
        }
    }
    for reason in reasons(found) {
        let _ = writeln!(text, "{} {reason}", style.paint(BOLD, "why:"));
    }
    text
}

/// A sentence about a multicast group, such as `MPI_COMM_WORLD, 4 hosts, aggregate-10: 500 packets multicast,
/// 40 sent again, 30 asked for`.
fn of_group(group: &Group) -> String {
    let Group { hosts, communicator, scheme, goes_straight, packets: [packets, repairs, asked] } = group;
    let instead = if *goes_straight { "; most are lost, so that each host is sent its own now" } else { "" };
    format!(
        "{communicator}, {hosts} hosts, {scheme}: {packets} packets multicast, {repairs} sent again, {asked} asked for{instead}"
    )
}

fn line(
    text: &mut String,
    name: &str,
    (messages, bytes): (u64, u64),
    credit: u64,
    value: impl Fn(&str) -> Option<u64>,
) {
    let _ = write!(text, "{name:NAME_WIDTH$}{messages:>10}{bytes:>14}{credit:>10}");
    for (_, names) in COLUMNS {
        let sum = names.iter().filter_map(|name| value(name)).reduce(|a, b| a + b);
        let shown = match (sum, names[0].ends_with("_ns")) {
            (None, _) => "–".to_owned(),
            (Some(ns), true) => format!("{:.1}", ns as f64 / 1e3),
            (Some(sum), false) => sum.to_string(),
        };
        let _ = write!(text, "{shown:>11}");
    }
    text.push('\n');
}

fn object(found: &[Found]) -> String {
    let ranks: Vec<Value> = found.iter().map(rank_object).collect();
    serde_json::to_string_pretty(&json!({ "ranks": ranks, "why": reasons(found) }))
        .map(|text| text + "\n")
        .unwrap_or_default()
}

fn rank_object(Found { pid, launcher, bound_to, says }: &Found) -> Value {
    let snapshot = match says {
        Ok(snapshot) => snapshot,
        Err(why) => return json!({ "pid": pid, "launcher": launcher, "why": why }),
    };
    let standing = &snapshot.standing;
    let job_of = |peer: Process| if peer.job == 0 { standing.job } else { peer.job };
    let waits = standing.waits.iter().map(|wait| {
        json!({
            "what": wait.what, "peer": wait.peer.map(|peer| peer.rank), "peer_job": wait.peer.map(job_of), "tag": wait.tag, "bytes": wait.bytes,
            "communicator": wait.communicator, "awaited": wait.is_awaited,
        })
    });
    let arrived = standing.arrived.iter().map(|message| {
        json!({ "peer": message.peer.map(|peer| peer.rank), "peer_job": message.peer.map(job_of), "tag": message.tag, "bytes": message.bytes, "communicator": message.communicator })
    });
    let named = |names: &[(&str, &str)], value: &dyn Fn(&str) -> Option<u64>| -> Map<String, Value> {
        names.iter().filter_map(|(name, _)| Some(((*name).to_owned(), value(name)?.into()))).collect()
    };
    let peers = snapshot.peers.iter().map(|peer| {
        json!({
            "peer": peer.peer, "link": peer.link, "messages": peer.messages, "bytes": peer.bytes, "credit_bytes": peer.credit,
            "counters": named(COUNTERS, &|name| value(peer, name)), "gauges": named(GAUGES, &|name| value(peer, name)),
        })
    });
    json!({
        "pid": pid, "launcher": launcher, "bound_to": bound_to, "rank": standing.rank, "size": standing.size, "job": standing.job,
        "doing": match doing(standing) { Doing::Waits => "waits", Doing::Works => "works", Doing::Computes => "computes" },
        "call": standing.call, "still_seconds": standing.still_ns as f64 / 1e9,
        "published_seconds_ago": standing.published_ns as f64 / 1e9, "threads_waiting": standing.threads,
        "waits": waits.collect::<Vec<_>>(), "receives_posted": standing.posted, "messages_unexpected": standing.unexpected,
        "unexpected": arrived.collect::<Vec<_>>(), "requests": standing.requests,
        "total": named(COUNTERS, &|name| Some(total(snapshot, name))), "gauges": named(GAUGES, &|name| Some(total(snapshot, name))),
        "peers": peers.collect::<Vec<_>>(),
        "multicast": {
            "state": snapshot.carried.clause(),
            "groups": snapshot.groups.iter().map(|group| json!({
                "communicator": group.communicator, "hosts": group.hosts, "scheme": group.scheme.to_string(),
                "sends_to_each": group.goes_straight, "packets": group.packets[0], "sent_again": group.packets[1], "asked_for": group.packets[2],
            })).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_launch::standing::Wait;
    use weft_mpi::multicast::Carried;

    fn snapshot() -> Snapshot {
        let peer = |peer: u32| Peer {
            peer,
            link: "network",
            messages: 10,
            bytes: 1000,
            credit: 500 + u64::from(peer),
            counters: (0..COUNTERS.len() as u64).collect(),
            gauges: vec![u64::from(peer) * 1000; GAUGES.len()],
        };
        let waits = vec![Wait {
            what: "receive from",
            peer: Some(Process::own(3)),
            tag: Some(7),
            bytes: 100,
            communicator: "MPI_COMM_WORLD".into(),
            is_awaited: true,
        }];
        let standing = Standing {
            pid: 9,
            rank: 1,
            size: 20,
            is_asleep: true,
            still_ns: 12_340_000_000,
            call: "MPI_Recv".into(),
            needs: Needs::All(vec![(Process::own(3), Process::own(3))]),
            waits,
            ..Standing::default()
        };
        Snapshot { standing, peers: (1..=20).map(peer).collect(), ..Snapshot::default() }
    }

    fn found_of(snapshot: Snapshot) -> Found {
        Found { pid: 9, launcher: None, bound_to: None, says: Ok(snapshot) }
    }

    #[test]
    fn a_rank_that_is_bound_says_to_what() {
        let bound = || Found { bound_to: Some("processor 1: 1 core".into()), ..found_of(snapshot()) };
        assert!(table(&[bound()], Style::Plain).contains("\n  bound to processor 1: 1 core\n"));
        assert!(!table(&[found_of(snapshot())], Style::Plain).contains("bound to"));
        let object: Value = serde_json::from_str(&object(&[bound()])).unwrap();
        assert_eq!(object["ranks"][0]["bound_to"], "processor 1: 1 core");
    }

    #[test]
    fn a_rank_says_what_is_multicast_and_why_nothing_is() {
        let group = Group {
            hosts: 4,
            communicator: "MPI_COMM_WORLD".into(),
            scheme: "aggregate-10".parse().unwrap(),
            goes_straight: false,
            packets: [500, 40, 30],
        };
        let table = |snapshot| table(&[found_of(snapshot)], Style::Plain);
        let text = table(Snapshot { carried: Carried::Yes, groups: vec![group], ..snapshot() });
        let line = "MPI_COMM_WORLD, 4 hosts, aggregate-10: 500 packets multicast, 40 sent again, 30 asked for";
        assert!(text.contains("multicast: the network carries it") && text.contains(line), "{text}");
        let text = table(Snapshot { carried: Carried::NotHeard, ..snapshot() });
        assert!(text.contains("multicast: not used: packets did not reach all hosts"), "{text}");
        assert!(!table(snapshot()).contains("multicast"), "nobody has tried it");
    }

    #[test]
    fn a_rank_that_waits_says_for_what_and_how_long() {
        let text = table(&[found_of(snapshot())], Style::Plain);
        assert!(
            text.contains(
                "rank 1 of 20 (process 9) waits in MPI_Recv for 12.3 s: receive from rank 3, tag 7, 100 bytes on MPI_COMM_WORLD"
            ),
            "{text}"
        );
        assert!(text.contains("  all") && text.contains("to 8 (network)") && text.contains("12 more peers"), "{text}");
        assert!(!text.contains("to 9 ("), "{text}");
        assert!(text.contains("why: rank 1 waits for rank 3, which is not on this host, or has ended"), "{text}");
    }

    #[test]
    fn jobs_are_told_apart_and_wait_for_each_other() {
        // Rank 1 of two jobs waits for rank 1 of the other one, and rank 2 of the first for a third job.
        let waits = |rank: u32, own: u32, other: u32| {
            let mut snapshot = snapshot();
            let peer = Process { job: other, rank: 1 };
            let standing = &mut snapshot.standing;
            (standing.rank, standing.job, standing.size) = (rank, own, 3);
            (standing.waits[0].peer, standing.needs) = (Some(peer), Needs::All(vec![(peer, peer)]));
            snapshot
        };
        let found = [(9, 7, waits(1, 700, 800)), (10, 7, waits(2, 700, 123_456)), (11, 8, waits(1, 800, 700))];
        let found =
            found.map(|(pid, launcher, snapshot)| Found { pid, launcher: Some(launcher), ..found_of(snapshot) });
        let text = table(&found, Style::Plain);
        let titles: Vec<&str> = text.lines().filter(|line| line.starts_with("job of process ")).collect();
        assert_eq!(titles.len(), 2, "{text}");
        assert!(text.contains("receive from rank 1 of the job of process 8, tag 7"), "{text}");
        assert!(
            text.contains("why: deadlock: rank 1 of the job of process 7 (receive from rank 1 of the job of process 8"),
            "{text}"
        );
        let unseen =
            "rank 2 of the job of process 7 waits for rank 1 of a job that is not seen here, which is not on this host";
        assert!(text.contains(unseen), "{text}");
        let object: Value = serde_json::from_str(&object(&found)).unwrap();
        assert_eq!(
            (&object["ranks"][2]["waits"][0]["peer_job"], object["why"].as_array().unwrap().len()),
            (&json!(700), 2)
        );
    }

    #[test]
    fn packets_add_up_and_of_times_the_longest_counts() {
        assert_eq!(total(&snapshot(), COUNTERS[3].0), 60);
        assert_eq!((total(&snapshot(), "round_trip_ns"), total(&snapshot(), "window_packets")), (20_000, 210_000));
    }

    #[test]
    fn an_object_has_every_counter_of_every_peer() {
        let object: Value = serde_json::from_str(&object(&[found_of(snapshot())])).unwrap();
        let peers = object["ranks"][0]["peers"].as_array().unwrap();
        assert_eq!((peers.len(), peers[0]["counters"].as_object().unwrap().len()), (20, COUNTERS.len()));
        assert_eq!(object["ranks"][0]["doing"], "waits");
    }
}
