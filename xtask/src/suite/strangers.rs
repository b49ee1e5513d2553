//! Tests of another user of the machine against everything that a running job has. Every socket, file,
//! mapping and process of the job is found in `/proc`, must be of a kind that the book's page on security
//! lists, and is attacked. The job goes on, with as many descriptors as before, and ranks that sleep go on
//! sleeping.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::Pid;

use super::context::{Context, Expected};
use super::needs::Need;
use super::process::{Run, Running};
use super::{Case, Outcome};

/// The user id of the stranger.
const NOBODY: &str = "65534";
/// The page where each kind of thing has a row.
const PAGE: &str = "docs/book/security.md";
const STRANGER: &str = "tests/hostile/stranger.c";
/// The time for which each host is attacked.
const ATTACK_SECONDS: &str = "1.5";
const LIMIT: Duration = Duration::from_secs(60);
/// The time for which ranks sleep: longer than an attack, on a busy machine too.
const SLEEP_SECONDS: &str = "8";
/// The most times that a rank wakes during an attack: four looks at its neighbours a second, and signs of
/// life.
const WAKES_MAX: u64 = 500;

/// The kind of a thing, as its row begins; `None`: a kind that the page does not list.
type Kind = Option<&'static str>;

/// The kind of a name in `/proc`, and the targets by which it can be attacked.
type Classified = (Kind, Vec<String>);

const DOORBELL: &str = "doorbell";
const SEATS: &str = "AF_XDP's socket";
const PAIRS: &str = "unix sockets without a name";
const UDP: &str = "UDP sockets";
const TCP: &str = "a connection to the process manager";
const LISTENS: &str = "TCP sockets";
const PACKETS: &str = "packet sockets";
const PIPES: &str = "pipes";
const NAMELESS: &str = "epoll, timers";
const SEGMENT: &str = "shared segment, windows' shared memory";
const STANDING: &str = "page of standing";
const REGISTRY: &str = "registry of processors";
const STREAMS: &str = "standard streams";
const PROCESS: &str = "the processes";
const KINDS: [&str; 14] = [
    DOORBELL, SEATS, PAIRS, UDP, LISTENS, TCP, PACKETS, PIPES, NAMELESS, SEGMENT, STANDING, REGISTRY, STREAMS, PROCESS,
];
/// The kinds that every job of two hosts has, beside its sockets between hosts.
const SEEN: [&str; 7] = [DOORBELL, PAIRS, PIPES, NAMELESS, SEGMENT, STANDING, PROCESS];
/// The state of a TCP socket that listens, as `/proc` says it.
const LISTEN: &str = "0A";

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("another user attacks all that a job has", |context| attacked(context, "auto", UDP))
            .needs(&[Need::Root, Need::Networks]),
        Case::new("another user attacks all that a job over TCP has", |context| {
            attacked(context, "shared,tcp", LISTENS)
        })
        .needs(&[Need::Root, Need::Networks]),
        Case::new("another user wakes nobody who sleeps", undisturbed).needs(&[Need::Root, Need::Networks]),
    ]
}

/// Attacks a job over these links, whose sockets between hosts are of this kind.
fn attacked(context: &Context, link: &str, sockets: &'static str) -> anyhow::Result<Outcome> {
    let page = fs::read_to_string(context.root.join(PAGE))?;
    let missing: Vec<&str> =
        KINDS.into_iter().filter(|kind| !page.lines().any(|line| line.starts_with(&format!("| {kind} |")))).collect();
    anyhow::ensure!(missing.is_empty(), "{PAGE} has no row for {}", missing.join(", "));
    let end = context.work.join("strangers-end");
    let _ = fs::remove_file(&end);
    let run = context.mpiexec_on_hosts(4)?.arg(context.compile("tests/hostile/traffic.c")?).arg(&end);
    let running = run.env("WEFT_LINK", link).limit(LIMIT.as_secs()).start()?;
    let attack = || {
        // Sockets of groups and timers are opened when the first message needs them: a count in a job that
        // has only begun would take them for a leak.
        anyhow::ensure!(running.says("warm", LIMIT), "the job does not become warm:\n{}", running.output());
        let ranks = ranks_of(&running, 4)?;
        let things = things_of_job(&running)?;
        let unseen: Vec<&str> = SEEN
            .into_iter()
            .chain([sockets])
            .filter(|kind| !things.iter().any(|thing| thing.kind == Some(kind)))
            .collect();
        anyhow::ensure!(unseen.is_empty(), "the job has none of these, which it should have: {}", unseen.join(", "));
        let before = descriptors(&ranks)?;
        for (process, targets) in by_host(&things) {
            let reached = strange(context, process, &targets)?;
            anyhow::ensure!(reached.is_empty(), "a stranger has come to what is not his:\n{}", reached.join("\n"));
        }
        // A rank opens a file of /proc for a moment each time it looks whether its neighbours live: only
        // descriptors that stay open count.
        let deadline = Instant::now() + LIMIT;
        loop {
            let after = descriptors(&ranks)?;
            let more: Vec<&String> =
                after.iter().zip(&before).flat_map(|(after, before)| after.difference(before)).collect();
            if more.is_empty() {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < deadline, "descriptors that the attack has left: {more:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let done = attack();
    fs::write(&end, "")?;
    let finished = running.finish(LIMIT);
    done?;
    Ok(Expected::code(0).says(" rounds, ").judge(finished))
}

fn undisturbed(context: &Context) -> anyhow::Result<Outcome> {
    let program = context.compile("tests/c/vanish.c")?;
    let run = context.mpiexec_on_hosts(4)?.arg(program).args(["slow", SLEEP_SECONDS]);
    let running = run.limit(LIMIT.as_secs()).start()?;
    let attack = || {
        anyhow::ensure!(running.says("waiting", LIMIT), "the ranks do not wait");
        let ranks = ranks_of(&running, 4)?;
        // The first half sleeps, on one host: the second half computes, and wakes itself.
        let sleepers = &ranks[..2];
        let mut things = Vec::new();
        for pid in sleepers {
            things.extend(things_of(*pid)?.into_iter().filter(|thing| thing.kind == Some(DOORBELL)));
        }
        // The rank itself sleeps on one doorbell, and its progress thread always watches the other.
        anyhow::ensure!(things.len() == 2 * sleepers.len(), "{} doorbells of {} ranks", things.len(), sleepers.len());
        let before: Vec<u64> = sleepers.iter().map(|pid| wakes(*pid)).collect::<anyhow::Result<_>>()?;
        for (process, targets) in by_host(&things) {
            strange(context, process, &targets)?;
        }
        for (pid, before) in sleepers.iter().zip(before) {
            let woken = wakes(*pid)? - before;
            anyhow::ensure!(woken < WAKES_MAX, "a rank that sleeps has woken {woken} times");
        }
        Ok(())
    };
    let done = attack();
    let finished = running.finish(LIMIT);
    done?;
    Ok(Expected::code(0).never_says("vanish.c:").judge(finished))
}

/// Lets a stranger attack `targets` from the network of `process`; returns the stranger's successes.
fn strange(context: &Context, process: Pid, targets: &BTreeSet<String>) -> anyhow::Result<Vec<String>> {
    let net = format!("--net=/proc/{}/ns/net", process.as_raw_nonzero());
    let run = Run::new("nsenter").arg(net).arg(context.compile(STRANGER)?).args([ATTACK_SECONDS, NOBODY]).args(targets);
    let finished = run.limit(LIMIT.as_secs()).finish()?;
    anyhow::ensure!(finished.code == Some(0), "{}", finished.report());
    // Every user may see which processors are taken, and write to /dev/null.
    let is_allowed =
        |line: &&str| line.starts_with(&format!("reads {REGISTRY_DIRECTORY}")) || line.ends_with("/dev/null");
    let reached = finished.output.lines().filter(|line| !line.starts_with("tried ")).filter(|line| !is_allowed(line));
    Ok(reached.map(str::to_owned).collect())
}

/// The ranks of a job, by their number, once all of them are there and have begun to talk.
fn ranks_of(running: &Running, count: usize) -> anyhow::Result<Vec<Pid>> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let ranks: BTreeMap<u32, Pid> =
            running.processes().into_iter().filter_map(|(pid, _)| Some((rank_of(pid)?, pid))).collect();
        // A rank that talks to other hosts has a socket for that and a doorbell.
        let has_both = |things: Vec<Thing>| has(&things, DOORBELL) && (has(&things, UDP) || has(&things, LISTENS));
        let talk = |pid: &Pid| things_of(*pid).is_ok_and(has_both);
        if ranks.len() == count && ranks.values().all(talk) {
            return Ok(ranks.into_values().collect());
        }
        anyhow::ensure!(Instant::now() < deadline, "the job does not start:\n{}", running.output());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The things that the processes of a job have.
///
/// # Errors
/// A thing is of no kind that the page lists, and is still there in a second look. (A thing that comes and
/// goes between two looks is in no table of the system.)
fn things_of_job(running: &Running) -> anyhow::Result<Vec<Thing>> {
    let mut before: Option<BTreeSet<String>> = None;
    loop {
        let mut things = Vec::new();
        for (pid, _) in running.processes() {
            // A process that has ended has no things.
            things.extend(things_of(pid).unwrap_or_default());
        }
        let unknown: BTreeSet<String> =
            things.iter().filter(|thing| thing.kind.is_none()).map(|thing| thing.what.clone()).collect();
        if unknown.is_empty() {
            return Ok(things);
        }
        let stays: Vec<&String> = before.iter().flatten().filter(|what| unknown.contains(*what)).collect();
        anyhow::ensure!(stays.is_empty(), "{PAGE} has no row for what the job has: {stays:?}");
        before = Some(unknown);
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn has(things: &[Thing], kind: &str) -> bool {
    things.iter().any(|thing| thing.kind == Some(kind))
}

/// The rank of a process; `None` for the process that started it, which has the same environment.
pub(super) fn rank_of(pid: Pid) -> Option<u32> {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
    let names: [&[u8]; 2] = [b"PMI_RANK=", b"PMIX_RANK="];
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| names.iter().find_map(|name| entry.strip_prefix(*name)))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The descriptors of each rank: the number, and the thing for which it stands.
fn descriptors(ranks: &[Pid]) -> anyhow::Result<Vec<BTreeSet<String>>> {
    let of_rank = |pid: &Pid| {
        let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))?.flatten();
        // A descriptor that is closed between the two looks does not count.
        let named = |entry: fs::DirEntry| {
            let link = fs::read_link(entry.path()).ok()?;
            Some(format!("{} of process {}: {}", entry.file_name().display(), pid.as_raw_nonzero(), link.display()))
        };
        Ok(entries.filter_map(named).collect())
    };
    ranks.iter().map(of_rank).collect()
}

/// The number of times that the threads of a process have gone to sleep.
fn wakes(pid: Pid) -> anyhow::Result<u64> {
    let mut all = 0;
    for thread in fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()))? {
        // A thread may have ended.
        let Ok(status) = fs::read_to_string(thread?.path().join("status")) else { continue };
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        all += line.context("no count of switches")?.trim().parse::<u64>()?;
    }
    Ok(all)
}

/// A thing that a process has.
struct Thing {
    process: Pid,
    kind: Kind,
    /// The system's name of the thing.
    what: String,
    /// The targets by which it can be attacked, for `stranger.c`.
    targets: Vec<String>,
}

const REGISTRY_DIRECTORY: &str = "/dev/shm/weft-processors";

/// The targets of an attack, for one process of each network.
fn by_host(things: &[Thing]) -> Vec<(Pid, BTreeSet<String>)> {
    let mut all: BTreeMap<String, (Pid, BTreeSet<String>)> = BTreeMap::new();
    for thing in things {
        let network = fs::read_link(format!("/proc/{}/ns/net", thing.process.as_raw_nonzero()));
        let network = network.map(|link| link.display().to_string()).unwrap_or_default();
        all.entry(network).or_insert((thing.process, BTreeSet::new())).1.extend(thing.targets.iter().cloned());
    }
    all.into_values().collect()
}

/// The things of a process that others could reach.
fn things_of(process: Pid) -> anyhow::Result<Vec<Thing>> {
    let number = process.as_raw_nonzero();
    let own = |file: &str| format!("file:/proc/{number}/{file}");
    let mut things = vec![Thing {
        process,
        kind: Some(PROCESS),
        what: format!("process {number}"),
        targets: vec![
            format!("process:{number}"),
            own("mem"),
            own("maps"),
            own("environ"),
            own("fd"),
            own("map_files"),
        ],
    }];
    let sockets = Sockets::of(process);
    for entry in fs::read_dir(format!("/proc/{number}/fd"))?.flatten() {
        let Ok(link) = fs::read_link(entry.path()) else { continue };
        let what = link.display().to_string();
        let (kind, mut targets) = sockets.classify(&what);
        targets.push(format!("file:{}", entry.path().display()));
        things.push(Thing { process, kind, what, targets });
    }
    for line in fs::read_to_string(format!("/proc/{number}/maps"))?.lines() {
        let mut fields = line.split_ascii_whitespace();
        let is_shared = fields.nth(1).is_some_and(|access| access.ends_with('s'));
        let what = fields.skip(3).collect::<Vec<_>>().join(" ");
        if is_shared {
            let (kind, targets) = sockets.classify(&what);
            things.push(Thing { process, kind, what, targets });
        }
    }
    Ok(things)
}

/// The sockets in `/proc/PID/net`, by their inode.
struct Sockets(BTreeMap<String, Classified>);

impl Sockets {
    fn of(process: Pid) -> Self {
        let mut all = BTreeMap::new();
        let lines = |table: &str| {
            let path = format!("/proc/{}/net/{table}", process.as_raw_nonzero());
            let text = fs::read_to_string(path).unwrap_or_default();
            text.lines().skip(1).map(|line| line.split_ascii_whitespace().map(str::to_owned).collect()).collect()
        };
        let mut note = |table: &str, at: usize, what: &dyn Fn(&[String]) -> Classified| {
            let found: Vec<Vec<String>> = lines(table);
            all.extend(found.into_iter().filter_map(|line| Some((line.get(at)?.clone(), what(&line)))));
        };
        note("unix", 6, &|line| match line.get(7).map(String::as_str) {
            None => (Some(PAIRS), Vec::new()),
            Some(name) if name.starts_with("@weft-xdp-") => (Some(SEATS), vec![format!("stream:{}", &name[1..])]),
            Some(name) if name.starts_with("@weft-") => (Some(DOORBELL), vec![format!("unix:{}", &name[1..])]),
            Some(_) => (None, Vec::new()),
        });
        let target = |kind: &str, line: &[String]| line.get(1).and_then(|local| target(kind, local));
        for table in ["udp", "udp6"] {
            note(table, 9, &|line| (Some(UDP), target("udp", line).into_iter().collect()));
        }
        for table in ["tcp", "tcp6"] {
            let listens = |line: &[String]| line.get(3).is_some_and(|state| state == LISTEN);
            let has_listener = lines(table).iter().any(|line: &Vec<String>| listens(line));
            let kind = if has_listener { LISTENS } else { TCP };
            note(table, 9, &|line| (Some(kind), target("tcp", line).filter(|_| listens(line)).into_iter().collect()));
        }
        note("packet", 8, &|_| (Some(PACKETS), Vec::new()));
        Self(all)
    }

    /// The kind of the thing `what`, which is named as a link of `/proc` names it.
    fn classify(&self, what: &str) -> Classified {
        if let Some(inode) = what.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
            return self.0.get(inode).cloned().unwrap_or_default();
        }
        let is_segment = Path::new(what).file_name().is_some_and(|name| {
            name.to_string_lossy()
                .strip_prefix("weft-")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        let kind = match what {
            _ if what.starts_with("pipe:[") => PIPES,
            _ if ["[eventpoll]", "[timerfd]", "[eventfd]", "[signalfd]", "[pidfd]", "[userfaultfd]"]
                .iter()
                .any(|name| what.strip_prefix("anon_inode:") == Some(name)) =>
            {
                NAMELESS
            }
            _ if what.starts_with("/memfd:weft-") => STANDING,
            _ if what.starts_with(REGISTRY_DIRECTORY) => REGISTRY,
            _ if is_segment => SEGMENT,
            "/dev/null" => STREAMS,
            _ if what.contains("/weft-suite-") && what.ends_with(".log") => STREAMS,
            _ => return (None, Vec::new()),
        };
        let path = what.strip_suffix(" (deleted)").unwrap_or(what);
        (Some(kind), if path.starts_with('/') && kind != STREAMS { vec![format!("file:{path}")] } else { Vec::new() })
    }
}

/// Parses `0100007F:1F90`, the kernel's form of an address: words in the byte order of this machine. Returns
/// the target of this kind.
fn target(kind: &str, local: &str) -> Option<String> {
    let (address, port) = local.split_once(':')?;
    let words: Vec<u32> = address
        .as_bytes()
        .chunks(8)
        .map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok())
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let address: std::net::IpAddr = match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok()?.into(),
        _ => <[u8; 16]>::try_from(bytes).ok()?.into(),
    };
    let address = match address {
        std::net::IpAddr::V4(any) if any.is_unspecified() => "127.0.0.1".to_owned(),
        std::net::IpAddr::V6(any) if any.is_unspecified() => "::1".to_owned(),
        other => other.to_string(),
    };
    Some(format!("{kind}:{address}:{}", u16::from_str_radix(port, 16).ok()?))
}
