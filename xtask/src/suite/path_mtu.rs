//! Tests of two hosts between which the network carries smaller packets from some moment on, and later larger
//! ones again: jobs lose time, and nothing else. The smaller MTU is that of one host's interface, of both
//! hosts' interfaces, or of a port of the switch between them. The switch sends no ICMP message.

use std::time::Duration;

use super::context::{Context, Expected, Hosts};
use super::needs::Need;
use super::process::{Finished, Run, Running};
use super::rails::await_carriers;
use super::{Case, Outcome};

/// The longest time of a case.
const LIMIT: Duration = Duration::from_secs(90);
/// The seconds for which a job goes on that has nothing to notice.
const UNNOTICED: &str = "1";
/// The MTU of an Ethernet, and smaller ones.
const FULL: u32 = 1500;
const SMALLER: u32 = 1400;
/// An MTU below the smallest packets.
const TOO_SMALL: u32 = 200;

/// The place with the smaller MTU.
#[derive(Clone, Copy)]
enum Place {
    OneHost,
    BothHosts,
    Switch,
}

const PLACES: [(&str, Place); 3] =
    [("at one host", Place::OneHost), ("at both hosts", Place::BothHosts), ("at the switch only", Place::Switch)];

/// The description of a job.
struct Job {
    traffic: &'static str,
    settings: &'static [(&'static str, &'static str)],
    place: Place,
    /// Says whether the MTU is full again once the job has found it to be smaller.
    comes_back: bool,
}

impl Job {
    const fn new(traffic: &'static str, settings: &'static [(&'static str, &'static str)], place: Place) -> Self {
        Self { traffic, settings, place, comes_back: false }
    }

    const fn comes_back(self) -> Self {
        Self { comes_back: true, ..self }
    }
}

const UDP: &[(&str, &str)] = &[("WEFT_LINK", "shared,udp")];
/// Without TCP, which would bring large messages: the kernel has a search of its own.
const BOTH: &[(&str, &str)] = &[("WEFT_LINK", "shared,udp,ethernet")];
const ETHERNET: &[(&str, &str)] = &[("WEFT_LINK", "shared,ethernet")];
const XDP: &[(&str, &str)] = &[("WEFT_LINK", "shared,udp,xdp")];
const LOSSY: &[(&str, &str)] = &[("WEFT_FAULTS", "drop=1%,seed=5")];
const MULTICAST: &[(&str, &str)] = &[("WEFT_BCAST", "window")];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for (where_, place) in PLACES {
        for (links, settings) in [("udp", UDP), ("ethernet", ETHERNET), ("raw frames and UDP", BOTH)] {
            let name = format!("a smaller MTU {where_}, large messages both ways, {links}");
            cases.push(case(name, Job::new("streams", settings, place)));
        }
        for traffic in ["windows", "small"] {
            cases.push(case(format!("a smaller MTU {where_}, {traffic}"), Job::new(traffic, &[], place)));
        }
        let name = format!("a smaller MTU {where_}, broadcasts by multicast");
        cases.push(case(name, Job::new("broadcasts", MULTICAST, place)));
    }
    let back = |name: &str, settings, place| {
        case(format!("{name}, smaller and larger again"), Job::new("streams", settings, place).comes_back())
    };
    cases.push(back("raw frames and UDP", BOTH, Place::Switch));
    cases.push(back("UDP, one packet of a hundred lost", LOSSY, Place::BothHosts));
    cases.push(back("AF_XDP", XDP, Place::OneHost));
    let too_small = Case::new("a path that does not carry the least: the job fails and says why", |context| {
        on_hosts(context, Context::hosts, too_small)
    });
    let one_of_two = Case::new("two interfaces, a smaller MTU at the switch of one: both go on", |context| {
        on_hosts(context, Context::hosts_on_rails, one_of_two_rails)
    });
    let forged =
        Case::new("forged ICMP messages make no packet smaller", |context| on_hosts(context, Context::hosts, forged));
    cases.extend([
        too_small.needs(&[Need::Networks]),
        one_of_two.needs(&[Need::NetworksOnRails]),
        forged.needs(&[Need::Networks]),
    ]);
    cases
}

type Judged = anyhow::Result<(Expected, anyhow::Result<Finished>)>;

/// Makes an attempt on hosts, and restores their interfaces afterwards.
fn on_hosts(
    context: &Context,
    hosts: impl Fn(&Context) -> anyhow::Result<&Hosts>,
    attempt: impl FnOnce(&Context, &Hosts) -> Judged,
) -> anyhow::Result<Outcome> {
    let hosts = hosts(context)?;
    let outcome = attempt(context, hosts);
    heal(hosts)?;
    outcome.map(|(expected, finished)| expected.judge(finished))
}

fn case(name: String, job: Job) -> Case {
    Case::new(name, move |context| on_hosts(context, Context::hosts, |context, hosts| play(context, hosts, &job)))
        .needs(&[Need::Networks])
}

fn program(context: &Context, hosts: &Hosts, words: &[&str]) -> anyhow::Result<Run> {
    let run = context.mpiexec_on(hosts, 4).arg("--stats").arg(context.compile("tests/c/path_mtu.c")?);
    let run = BOTH.iter().fold(run, |run, (name, value)| run.env(name, value));
    Ok(run.args(words.iter().copied()).limit(LIMIT.as_secs()))
}

fn play(context: &Context, hosts: &Hosts, job: &Job) -> Judged {
    // A sender of small packets notices nothing. Multicast data is cut for a receiver that asks for it, and
    // no flow notices the MTU if the rest leaves in trains.
    let is_noticed = !["small", "broadcasts"].contains(&job.traffic);
    let until = if job.comes_back { "larger" } else { "smaller" };
    let words = if is_noticed { vec![job.traffic, "0", until] } else { vec![job.traffic, UNNOTICED] };
    let mut run = program(context, hosts, &words)?;
    for (name, value) in job.settings {
        run = run.env(name, value);
    }
    let running = run.start()?;
    says(&running, "under way")?;
    set(hosts, job.place, SMALLER)?;
    if job.comes_back {
        says(&running, "packets are smaller")?;
        set(hosts, job.place, FULL)?;
    }
    let expected = if is_noticed { Expected::code(0).says("changes of a path's MTU: ") } else { Expected::code(0) };
    let expected = if job.comes_back { expected.says(" larger, ") } else { expected };
    Ok((expected, running.finish(LIMIT)))
}

fn says(running: &Running, what: &str) -> anyhow::Result<()> {
    anyhow::ensure!(running.says(what, LIMIT), "the program does not say {what:?}:\n{}", running.output());
    Ok(())
}

fn too_small(context: &Context, hosts: &Hosts) -> Judged {
    let running = program(context, hosts, &["streams", "0", "smaller"])?.env("WEFT_PEER_TIMEOUT", "3").start()?;
    says(&running, "under way")?;
    set(hosts, Place::Switch, TOO_SMALL)?;
    let expected = Expected::failure().says("packets of 256 bytes").says("MTU of at least 284");
    Ok((expected, running.finish(LIMIT)))
}

fn one_of_two_rails(context: &Context, hosts: &Hosts) -> Judged {
    let running = program(context, hosts, &["streams", "0", "smaller"])?.start()?;
    says(&running, "under way")?;
    set_at_switch(hosts, 1, SMALLER)?;
    Ok((Expected::code(0).says("changes of a path's MTU: ").never_says("down"), running.finish(LIMIT)))
}

/// A Python program that sends forged ICMP "fragmentation needed" of 68 bytes to the first host from its
/// neighbour, about every UDP port in use there.
const FORGERY: &str = "
import socket, struct, sys, time
own, victim, ports = sys.argv[1], sys.argv[2], [int(port) for port in sys.argv[3].split(',') if port]
def sum16(data):
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
for turn in range(200):
    for sender in ports:
        for receiver in ports:
            ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 1500, 0, 0x4000, 64, 17, 0, socket.inet_aton(victim), socket.inet_aton(own))
            ip = ip[:10] + struct.pack('!H', sum16(ip)) + ip[12:]
            udp = struct.pack('!HHHH', sender, receiver, 1480, 0)
            body = struct.pack('!BBHHH', 3, 4, 0, 0, 68) + ip + udp
            out.sendto(body[:2] + struct.pack('!H', sum16(body)) + body[4:], (victim, 0))
";

/// The ports of UDP sockets at a host.
const PORTS: &str = "awk 'NR > 1 { split($2, a, \":\"); print a[2] }' /proc/net/udp | sort -u | \
                     while read port; do printf '%d,' 0x$port; done";

fn forged(context: &Context, hosts: &Hosts) -> Judged {
    let running = program(context, hosts, &["streams", "2"])?.env("WEFT_LINK", "shared,udp").start()?;
    says(&running, "under way")?;
    let [victim, own] = [0, 1].map(|host| format!("198.18.0.{}", host + 1));
    let mut ports = String::new();
    for host in &hosts.names {
        ports += &hosts.do_on(host, &["sh", "-c", PORTS])?;
    }
    let python = context.python("python3").display().to_string();
    hosts.do_on(&hosts.names[1], &[&python, "-c", FORGERY, &own, &victim, ports.trim()])?;
    Ok((Expected::code(0).never_says("changes of a path's MTU"), running.finish(LIMIT)))
}

fn set(hosts: &Hosts, place: Place, mtu: u32) -> anyhow::Result<()> {
    match place {
        Place::OneHost => set_at(hosts, &hosts.names[0], "e0", mtu),
        Place::BothHosts => hosts.names.iter().try_for_each(|host| set_at(hosts, host, "e0", mtu)),
        Place::Switch => set_at_switch(hosts, 0, mtu),
    }
}

/// Sets the MTU of both ports of one rail.
fn set_at_switch(hosts: &Hosts, rail: usize, mtu: u32) -> anyhow::Result<()> {
    let switch = hosts.switch()?;
    (0..hosts.names.len()).try_for_each(|host| set_at(hosts, &switch, &format!("p{host}-{rail}"), mtu))
}

fn set_at(hosts: &Hosts, host: &str, interface: &str, mtu: u32) -> anyhow::Result<()> {
    hosts.do_on(host, &["ip", "link", "set", interface, "mtu", &mtu.to_string()]).map(drop)
}

/// Restores every interface.
fn heal(hosts: &Hosts) -> anyhow::Result<()> {
    set(hosts, Place::BothHosts, FULL)?;
    (0..hosts.interfaces).try_for_each(|rail| set_at_switch(hosts, rail, FULL))?;
    await_carriers(hosts)
}
