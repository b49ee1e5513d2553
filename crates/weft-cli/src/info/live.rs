//! `weft info --live`: what running ranks of this host are doing, from the pages that they publish (`weft_mpi::live`).
//!
//! Nothing is asked of a rank: its page is read, so one that hangs or is stopped tells as much as any other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Map, Value, json};
use weft_mpi::live::{COUNTERS, GAUGES, Peer, Snapshot, Wait};
use weft_net::{clock, live};

use super::text::{BOLD, GREY, Style, YELLOW};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Peers of a rank that the page for people shows; JSON has all.
const PEERS_SHOWN_MAX: usize = 8;
/// A rank that is awake and has not published for this long computes outside of MPI.
const BUSY_NS_MAX: u64 = 500_000_000;
/// After so long without anything a wait is pointed out.
const LONG_NS: u64 = 10_000_000_000;
/// Generations of processes that are followed from one to its descendants.
const GENERATIONS_MAX: usize = 64;

/// Shows the ranks below the process `below`, or all of this user; again and again on a terminal. The exit code is 1 when there is none.
pub(super) fn run(below: Option<u32>, as_json: bool, once: bool) -> ExitCode {
    let style = Style::of_output();
    let repeats = !once && !as_json && std::io::stdout().is_terminal();
    let mut seen = false;
    loop {
        let found = look(below);
        if found.is_empty() && !seen {
            let whose =
                below.map_or_else(|| "no process of yours".to_owned(), |pid| format!("no process at or below {pid}"));
            eprintln!(
                "weft info: {whose} is a running rank of Weft on this host that may be read; a job's other hosts are asked on those"
            );
            return ExitCode::FAILURE;
        }
        seen = true;
        let now = clock::now().0;
        let text = if as_json { object(&found, now) } else { page(&found, now, style) };
        // Home, the page, and nothing of the one before.
        let text = if repeats { format!("\x1b[H\x1b[J{text}") } else { text };
        let mut out = std::io::stdout();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() || !repeats || found.is_empty() {
            return ExitCode::SUCCESS;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// A rank's process and what its page says.
struct Found {
    pid: u32,
    says: Result<Snapshot, String>,
}

fn look(below: Option<u32>) -> Vec<Found> {
    let mut found = Vec::new();
    for pid in below.map_or_else(processes, |root| descendants(root, &parents())) {
        for path in live::pages_of(pid) {
            let says = live::read(&path).map_err(|why| why.to_string()).and_then(|words| Snapshot::parse(&words));
            // A child that was forked has its parent's page.
            if says.as_ref().is_ok_and(|snapshot| !is_of(snapshot, pid)) {
                continue;
            }
            found.push(Found { pid, says });
        }
    }
    found.sort_by_key(|one| (one.says.as_ref().map_or(u32::MAX, |snapshot| snapshot.rank), one.pid));
    found
}

/// Whether a page is that of the process itself; one in another process namespace knows itself by another number.
fn is_of(snapshot: &Snapshot, pid: u32) -> bool {
    let own = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        line.split_whitespace().last()?.parse::<u32>().ok()
    };
    snapshot.pid == pid || own() == Some(snapshot.pid)
}

fn processes() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Each process with its parent.
fn parents() -> BTreeMap<u32, u32> {
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything, parentheses too.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    processes().into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

/// A process and all below it.
fn descendants(root: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut all = BTreeSet::from([root]);
    for _ in 0..GENERATIONS_MAX {
        let children: Vec<u32> = parents
            .iter()
            .filter(|(pid, parent)| all.contains(parent) && !all.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if children.is_empty() {
            break;
        }
        all.extend(children);
    }
    all.into_iter().collect()
}

/// What a rank is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Doing {
    /// It sleeps in a call until something arrives.
    Waits,
    /// It works, or looks for messages, in a call.
    Works,
    /// It has not been in a call for a while.
    Computes,
}

fn doing(snapshot: &Snapshot, now: u64) -> Doing {
    match snapshot.is_asleep {
        true => Doing::Waits,
        false if snapshot.call.is_empty() || now.saturating_sub(snapshot.published_ns) > BUSY_NS_MAX => Doing::Computes,
        false => Doing::Works,
    }
}

/// `waits in MPI_Recv for 12.3 s: receive from 1, tag 7, 100 bytes`.
fn sentence(snapshot: &Snapshot, now: u64) -> String {
    let since = |from: u64| seconds(now.saturating_sub(from));
    let call = if snapshot.call.is_empty() { "MPI" } else { &snapshot.call };
    let mut text = match doing(snapshot, now) {
        Doing::Waits => format!("waits in {call} for {}", since(snapshot.still_since_ns)),
        Doing::Works => format!("works in {call}"),
        Doing::Computes => format!(
            "is outside of MPI, or has just begun a call; last seen in {call} {} ago",
            since(snapshot.published_ns)
        ),
    };
    let waits: Vec<String> = snapshot.waits.iter().map(operation).collect();
    if !waits.is_empty() {
        let _ = write!(text, ": {}", waits.join("; "));
    }
    text
}

fn operation(wait: &Wait) -> String {
    let peer = wait.peer.map_or_else(|| "anybody".to_owned(), |peer| format!("rank {peer}"));
    let tag = wait.tag.map_or_else(String::new, |tag| format!(", tag {tag}"));
    format!("{} {peer}{tag}, {} bytes", wait.what, wait.bytes)
}

fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

/// The sum over a rank's peers of the counter of that name; of gauges, the times are the longest.
fn total(snapshot: &Snapshot, name: &str) -> u64 {
    let values = snapshot.peers.iter().filter_map(|peer| value(peer, name));
    if name.ends_with("_ns") { values.max().unwrap_or(0) } else { values.sum() }
}

fn value(peer: &Peer, name: &str) -> Option<u64> {
    let place = |names: &[(&str, &str)]| names.iter().position(|(known, _)| *known == name);
    let counter = place(COUNTERS).and_then(|place| peer.counters.get(place));
    counter.or_else(|| place(GAUGES).and_then(|place| peer.gauges.get(place))).copied()
}

/// Columns of the table: heading, and the counters that are added up for it.
const COLUMNS: [(&str, &[&str]); 10] = [
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
];
const NAME_WIDTH: usize = 26;

fn page(found: &[Found], now: u64, style: Style) -> String {
    let mut text = String::new();
    let mut heading = format!("{:NAME_WIDTH$}{:>10}{:>14}{:>10}", "", "messages", "bytes", "credit");
    COLUMNS.iter().for_each(|(name, _)| {
        let _ = write!(heading, "{name:>11}");
    });
    let _ = writeln!(text, "{}", style.paint(BOLD, &heading));
    for Found { pid, says } in found {
        let snapshot = match says {
            Ok(snapshot) => snapshot,
            Err(why) => {
                let _ = writeln!(text, "process {pid}: {why}");
                continue;
            }
        };
        let sentence = sentence(snapshot, now);
        let is_long = doing(snapshot, now) == Doing::Waits && now.saturating_sub(snapshot.still_since_ns) > LONG_NS;
        let sentence = if is_long { style.paint(YELLOW, &sentence) } else { sentence };
        let _ = writeln!(
            text,
            "{} {sentence}",
            style.paint(BOLD, &format!("rank {} of {} (process {pid})", snapshot.rank, snapshot.size))
        );
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
    text
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

fn object(found: &[Found], now: u64) -> String {
    let ranks: Vec<Value> = found.iter().map(|one| rank_object(one, now)).collect();
    serde_json::to_string_pretty(&json!({ "ranks": ranks })).map(|text| text + "\n").unwrap_or_default()
}

fn rank_object(Found { pid, says }: &Found, now: u64) -> Value {
    let snapshot = match says {
        Ok(snapshot) => snapshot,
        Err(why) => return json!({ "pid": pid, "why": why }),
    };
    let seconds = |since: u64| now.saturating_sub(since) as f64 / 1e9;
    let waits = snapshot.waits.iter();
    let waits: Vec<Value> = waits
        .map(|wait| json!({ "what": wait.what, "peer": wait.peer, "tag": wait.tag, "bytes": wait.bytes }))
        .collect();
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
        "pid": pid, "rank": snapshot.rank, "size": snapshot.size,
        "doing": match doing(snapshot, now) { Doing::Waits => "waits", Doing::Works => "works", Doing::Computes => "computes" },
        "call": snapshot.call, "still_seconds": seconds(snapshot.still_since_ns), "published_seconds_ago": seconds(snapshot.published_ns),
        "waits": waits, "receives_posted": snapshot.posted, "messages_unexpected": snapshot.unexpected, "requests": snapshot.requests,
        "total": named(COUNTERS, &|name| Some(total(snapshot, name))), "gauges": named(GAUGES, &|name| Some(total(snapshot, name))),
        "peers": peers.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let waits = vec![Wait { what: "receive from", peer: Some(3), tag: Some(7), bytes: 100 }];
        Snapshot {
            pid: 9,
            rank: 1,
            size: 20,
            is_asleep: true,
            call: "MPI_Recv".into(),
            waits,
            peers: (1..=20).map(peer).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_rank_that_waits_says_for_what_and_how_long() {
        let text = page(&[Found { pid: 9, says: Ok(snapshot()) }], 12_340_000_000, Style::Plain);
        assert!(
            text.contains(
                "rank 1 of 20 (process 9) waits in MPI_Recv for 12.3 s: receive from rank 3, tag 7, 100 bytes"
            ),
            "{text}"
        );
        assert!(text.contains("  all") && text.contains("to 8 (network)") && text.contains("12 more peers"), "{text}");
        assert!(!text.contains("to 9 ("), "{text}");
    }

    #[test]
    fn packets_add_up_and_of_times_the_longest_counts() {
        assert_eq!(total(&snapshot(), COUNTERS[3].0), 60);
        assert_eq!((total(&snapshot(), "round_trip_ns"), total(&snapshot(), "window_packets")), (20_000, 210_000));
    }

    #[test]
    fn an_object_has_every_counter_of_every_peer() {
        let object: Value = serde_json::from_str(&object(&[Found { pid: 9, says: Ok(snapshot()) }], 0)).unwrap();
        let peers = object["ranks"][0]["peers"].as_array().unwrap();
        assert_eq!((peers.len(), peers[0]["counters"].as_object().unwrap().len()), (20, COUNTERS.len()));
        assert_eq!(object["ranks"][0]["doing"], "waits");
    }

    #[test]
    fn a_tree_of_processes_is_followed_downwards() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 2), (5, 4), (6, 1)]);
        assert_eq!(descendants(2, &parents), [2, 3, 4, 5]);
        assert_eq!(descendants(6, &parents), [6]);
    }
}
