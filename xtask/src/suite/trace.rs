//! Tests of the views of a job from outside: packets that it captured, read by tshark, and ranks that hang.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::context::{Context, Expected};
use super::needs::Need;
use super::process::{Finished, Run, Running};
use super::{Case, Outcome};

/// The messages that `tests/launcher/traced.c` sends.
const SMALL: usize = 20;
const SMALL_BYTES: usize = 64;
const LARGE_BYTES: u64 = 200_000;
/// The number of the first packet of every flow: numbers start so that they wrap soon.
const FIRST: u32 = u32::MAX - 299;
/// The time that a rank may take until it waits, and until a look finds it waiting.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
const LIMIT_SECONDS: u64 = 60;
/// The kinds of packets, and of frames in them.
const MESSAGES: &str = "2";
const DATA: [&str; 2] = ["3", "4"];
const EAGER: &str = "1";

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    vec![
        Case::new("packets on UDP are what they say", |context| captured(context, "udp", "0")).needs(&[Need::Tshark]),
        Case::new("packets on Ethernet are what they say", |context| captured(context, "ethernet", "0"))
            .needs(&[Need::Tshark, Need::Networks]),
        Case::new("of sealed packets everything but the payload is shown", |context| captured(context, "udp", "1"))
            .needs(&[Need::Tshark]),
        Case::new("a file that may not grow ends a capture, not the job", limited_file),
        Case::new("ranks that hang say what they wait for, also when they are stopped", hanging),
        Case::new("a rank that waits for room at another says so", full),
        Case::new("a process that is no rank is answered with a sentence", |context| {
            let run = Run::new(context.bin("weft")).args(["info", "--live", &std::process::id().to_string()]);
            Expected::code(1).says("is a running rank of Weft on this host").judge(run.finish())
        }),
    ]
}

fn traced(context: &Context, what: &str) -> anyhow::Result<Run> {
    let program = context.compile("tests/launcher/traced.c")?;
    Ok(context.mpiexec_on_hosts(2)?.arg(program).arg(what).limit(LIMIT_SECONDS))
}

/// Runs the exchange with a capture, and compares tshark's reading with the program's messages.
fn captured(context: &Context, link: &str, sealed: &str) -> anyhow::Result<Outcome> {
    let at = context.work.join(format!("trace-{link}-{sealed}-%rank.pcapng"));
    let run = traced(context, "exchange")?.env("WEFT_CAPTURE", &at);
    let finished = run.env("WEFT_LINK", link).env("WEFT_SEALED", sealed).finish();
    let ended = Expected::code(0).never_says("weft:").judge(finished);
    if !matches!(ended, Outcome::Passed) {
        return Ok(ended);
    }
    let files = [0, 1].map(|rank: u32| PathBuf::from(at.display().to_string().replace("%rank", &rank.to_string())));
    let wrong = compare(context, &files, sealed == "1")?;
    Ok(if wrong.is_empty() { Outcome::Passed } else { Outcome::Failed(wrong.join("\n")) })
}

/// A packet as tshark shows it. Fields that a packet has several times are separated by `;`.
struct Packet {
    sender: String,
    kind: String,
    number: u32,
    acknowledged: u32,
    length: u64,
    offset: u64,
    transmission: String,
    frames: Vec<String>,
    tags: Vec<String>,
    frame_lengths: Vec<usize>,
    is_wrong: bool,
    is_weft: bool,
    is_reach: bool,
}

const FIELDS: [&str; 13] = [
    "weft.sender",
    "weft.kind",
    "weft.number",
    "weft.acknowledged",
    "weft.length",
    "weft.data.offset",
    "weft.transmission",
    "weft.frame.kind",
    "weft.frame.tag",
    "weft.frame.length",
    "weft.wrong",
    "_ws.col.Protocol",
    "weft.reach.kind",
];

fn read(context: &Context, file: &Path) -> anyhow::Result<Vec<Packet>> {
    let script = context.root.join("tools/wireshark/weft.lua");
    let run = Run::new("tshark").arg("-X").arg(format!("lua_script:{}", script.display())).arg("-r").arg(file);
    let run = run.args(["-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=;"]);
    let finished = run.args(FIELDS.iter().flat_map(|field| ["-e", field])).finish()?;
    anyhow::ensure!(finished.code == Some(0), "tshark failed:\n{}", finished.report());
    // As root tshark prints a warning on standard error.
    let lines = finished.output.lines().filter(|line| line.matches('|').count() == FIELDS.len() - 1);
    Ok(lines.map(packet).collect())
}

fn packet(line: &str) -> Packet {
    let fields: Vec<&str> = line.split('|').collect();
    let list = |at: usize| fields[at].split(';').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    Packet {
        sender: fields[0].into(),
        kind: fields[1].into(),
        number: fields[2].parse().unwrap_or(0),
        acknowledged: fields[3].parse().unwrap_or(0),
        length: fields[4].parse().unwrap_or(0),
        offset: fields[5].parse().unwrap_or(0),
        transmission: fields[6].into(),
        frames: list(7),
        tags: list(8),
        frame_lengths: list(9).iter().filter_map(|length| length.parse().ok()).collect(),
        is_wrong: !fields[10].is_empty(),
        is_weft: fields[11].eq_ignore_ascii_case("weft"),
        is_reach: !fields[12].is_empty(),
    }
}

/// The differences between the two files and the program's messages.
fn compare(context: &Context, files: &[PathBuf; 2], sealed: bool) -> anyhow::Result<Vec<String>> {
    let read = [read(context, &files[0])?, read(context, &files[1])?];
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    for (rank, packets) in read.iter().enumerate() {
        expect(packets.len() > SMALL, format!("rank {rank} has {} packets", packets.len()));
        let foreign = packets.iter().filter(|packet| !packet.is_weft || packet.is_wrong).count();
        expect(foreign == 0, format!("{foreign} of rank {rank}'s packets are none of Weft, or wrong"));
        expect(
            packets.iter().any(|packet| packet.sender == "0") && packets.iter().any(|packet| packet.sender == "1"),
            format!("rank {rank} has packets of one side only"),
        );
    }
    let first_time = |packets: &'_ [Packet], sender: &str| -> Vec<u32> {
        let numbered =
            packets.iter().filter(|packet| packet.sender == sender && packet.transmission == "1" && !packet.is_reach);
        numbered.map(|packet| packet.number).collect()
    };
    for sender in ["0", "1"] {
        let sent = first_time(&read[sender.parse::<usize>()?], sender);
        let follow = sent.iter().enumerate().all(|(i, number)| *number == FIRST.wrapping_add(i as u32));
        expect(follow, format!("rank {sender}'s packets are not numbered in order: {sent:?}"));
        let other = &read[1 - sender.parse::<usize>()?];
        let arrived: BTreeSet<u32> =
            other.iter().filter(|packet| packet.sender == sender).map(|packet| packet.number).collect();
        expect(
            sent.iter().all(|number| arrived.contains(number)),
            format!("not all of rank {sender}'s packets arrived"),
        );
        let last = sent.last().copied().unwrap_or(0).wrapping_add(1);
        let acknowledged = other.iter().any(|packet| packet.sender != sender && packet.acknowledged == last);
        expect(acknowledged, format!("nothing acknowledges rank {sender}'s last packet, {last}"));
    }
    let data = read[1].iter().filter(|packet| packet.sender == "1" && packet.transmission == "1");
    let data: Vec<&Packet> = data.filter(|packet| DATA.contains(&packet.kind.as_str())).collect();
    let bytes: u64 = data.iter().map(|packet| packet.length).sum();
    let end = data.iter().map(|packet| packet.offset + packet.length).max();
    expect((bytes, end) == (LARGE_BYTES, Some(LARGE_BYTES)), format!("{bytes} bytes of data, the last at {end:?}"));
    let messages =
        read[0].iter().filter(|packet| packet.sender == "0" && packet.transmission == "1" && packet.kind == MESSAGES);
    let messages: Vec<&Packet> = messages.collect();
    let sevens = messages.iter().flat_map(|packet| &packet.tags).filter(|tag| *tag == "7").count();
    let eager = messages.iter().flat_map(|packet| &packet.frames).filter(|kind| *kind == EAGER).count();
    let as_long =
        messages.iter().flat_map(|packet| &packet.frame_lengths).filter(|length| **length == SMALL_BYTES + 20).count();
    if sealed {
        expect(eager == 0, format!("{eager} frames can be read although they are sealed"));
    } else {
        expect(
            (sevens, as_long >= SMALL, eager >= SMALL) == (SMALL, true, true),
            format!("{sevens} messages of tag 7, {as_long} of their length, {eager} eager ones"),
        );
    }
    Ok(wrong)
}

fn limited_file(context: &Context) -> Outcome {
    let attempt = || {
        let at = context.work.join("trace-full-%rank");
        traced(context, "limited")?.env("WEFT_CAPTURE", &at).finish()
    };
    Expected::code(0).says("no more packets are captured; the job goes on").judge(attempt())
}

/// Runs a job of which both ranks hang; one of them is stopped as well.
fn hanging(context: &Context) -> anyhow::Result<Outcome> {
    let running = traced(context, "hang")?.start()?;
    let seen = look(context, &running);
    // The ranks would wait for ever.
    kill_process(running.pid(), Signal::TERM)?;
    let finished: Finished = running.finish(Duration::from_secs(LIMIT_SECONDS))?;
    let left = finished.leftovers.is_empty();
    seen?;
    Ok(if left { Outcome::Passed } else { Outcome::Failed(finished.report()) })
}

fn look(context: &Context, running: &Running) -> anyhow::Result<()> {
    let pid_of = |rank: u32| -> anyhow::Result<Pid> {
        let line = format!("rank {rank} is process ");
        anyhow::ensure!(running.says(&line, PATIENCE), "rank {rank} does not begin to wait:\n{}", running.output());
        let pid = running.output().split(&line).nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        pid.and_then(Pid::from_raw).ok_or_else(|| anyhow::anyhow!("rank {rank} tells no process"))
    };
    let (zero, one) = (pid_of(0)?, pid_of(1)?);
    let began = std::time::Instant::now();
    let of_job = loop {
        let ranks = live(context, running.pid())?;
        let wait = |rank: &Value| rank["doing"] == "waits" && rank["waits"][0]["tag"].is_i64();
        if ranks.len() == 2 && ranks.iter().all(wait) {
            break ranks;
        }
        anyhow::ensure!(began.elapsed() < PATIENCE, "they are not seen to wait: {ranks:#?}");
        std::thread::sleep(POLL);
    };
    for (rank, said) in of_job.iter().enumerate() {
        let (peer, tag) = (1 - rank as i64, 42 + rank as i64);
        let found = (&said["rank"], &said["call"], &said["waits"][0]["peer"], &said["waits"][0]["tag"]);
        anyhow::ensure!(
            found == (&rank.into(), &"MPI_Recv".into(), &peer.into(), &tag.into()),
            "rank {rank} should wait in MPI_Recv for {peer} with tag {tag}: {said:#}"
        );
        anyhow::ensure!(said["total"]["packets_sent"].as_u64().is_some_and(|sent| sent > 0), "nothing sent: {said:#}");
        anyhow::ensure!(said["gauges"]["round_trip_ns"].as_u64().is_some_and(|ns| ns > 0), "no round trip: {said:#}");
    }
    kill_process(one, Signal::STOP)?;
    let stopped = live(context, one);
    kill_process(one, Signal::CONT)?;
    anyhow::ensure!(stopped?.iter().any(|said| said["waits"][0]["tag"] == 43), "a stopped rank tells nothing");
    let page = Run::new(context.bin("weft"))
        .args(["info", "--live", &zero.as_raw_nonzero().to_string(), "--once"])
        .finish()?;
    let sentence = "waits in MPI_Recv for ";
    anyhow::ensure!(
        page.code == Some(0) && page.output.contains(sentence) && page.output.contains("receive from rank 1, tag 42"),
        "{}",
        page.report()
    );
    Ok(())
}

/// Runs a job in which one rank sends more than the other may keep, which asks for something else.
fn full(context: &Context) -> anyhow::Result<Outcome> {
    let program = context.compile("tests/c/flood.c")?;
    let running = context.mpiexec(2).arg(program).env("WEFT_UNEXPECTED_BYTES", "0").limit(LIMIT_SECONDS).start()?;
    let began = std::time::Instant::now();
    let seen = loop {
        let said = live(context, running.pid()).unwrap_or_default();
        let wait = said.iter().find(|rank| rank["rank"] == 0).map(|rank| rank["waits"][0].clone()).unwrap_or_default();
        if wait["what"] == "waits for room at" && wait["peer"] == 1 {
            break Ok(());
        }
        if began.elapsed() > PATIENCE {
            break Err(anyhow::anyhow!("rank 0 is not seen to wait for room: {said:#?}"));
        }
        std::thread::sleep(POLL);
    };
    kill_process(running.pid(), Signal::TERM)?;
    let finished: Finished = running.finish(Duration::from_secs(LIMIT_SECONDS))?;
    seen?;
    Ok(if finished.leftovers.is_empty() { Outcome::Passed } else { Outcome::Failed(finished.report()) })
}

/// The ranks at or below a process.
fn live(context: &Context, pid: Pid) -> anyhow::Result<Vec<Value>> {
    let pid = pid.as_raw_nonzero().to_string();
    let finished = Run::new(context.bin("weft")).args(["info", "--live", &pid, "--json"]).finish()?;
    anyhow::ensure!(finished.code == Some(0), "{}", finished.report());
    let object: Value = serde_json::from_str(&finished.output)?;
    Ok(object["ranks"].as_array().cloned().unwrap_or_default())
}
