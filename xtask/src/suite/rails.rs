//! Tests of two hosts with two interfaces: large messages use both, and when either fails, the program goes
//! on. Over Weft's own links, and over libfabric.

use std::time::Duration;

use super::context::{Context, Expected, Hosts};
use super::needs::Need;
use super::process::{Finished, Run, Running};
use super::{Case, Outcome, libfabric};

/// The longest time of a case.
const LIMIT: Duration = Duration::from_secs(40);
/// The time for which traffic goes on before something is broken.
const BEFORE: Duration = Duration::from_millis(300);
/// The argument by which traffic goes on until its sender has found a path to have failed.
const UNTIL_FAILED: &str = "0.5 failed";
/// The argument by which traffic goes on until a path that had failed carries packets again.
const UNTIL_HEALED: &str = "0.5 healed";
/// The least share of each of two equal interfaces, in percent.
const SHARE_MIN: u64 = 30;
/// The least share over libfabric, whose datagrams leave one by one: they are divided less evenly
/// (docs/design/fabric.md).
const SHARE_MIN_FABRIC: u64 = 2;
/// The most runs over libfabric until the shares are right. On a busy machine the flow leaves the second
/// interface nearly unused in some runs, although the first is full (docs/design/fabric.md).
const RUNS_FABRIC: u32 = 5;
/// The seconds of traffic over libfabric: on a busy machine a dozen messages go in half a second, most of
/// them before the second interface is proved.
const SECONDS_FABRIC: &str = "3";

/// The interfaces by name: with several names a rank has reliable endpoints on all of them.
const BOTH: &str = "e0,e1";

/// The links that carry the traffic.
#[derive(Clone, Copy)]
enum Links {
    Own,
    /// libfabric by this provider.
    Fabric(&'static str),
}

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = of(Links::Own);
    cases.push(case(Links::Own, "an interface is excluded", |context| {
        let run = traffic(context, Links::Own, "bulk", "0.5")?.env("WEFT_INTERFACE", "!e1");
        let finished = run.limit(LIMIT.as_secs()).finish()?;
        let found = rails(&finished.output);
        Ok((finished, (!found.is_empty()).then(|| format!("rails though there is one interface: {found:?}"))))
    }));
    cases
}

/// The cases over libfabric.
pub(super) fn over_fabric() -> Vec<Case> {
    let mut cases: Vec<Case> = ["udp", "tcp"].into_iter().flat_map(|provider| of(Links::Fabric(provider))).collect();
    cases.push(case(Links::Fabric("tcp"), "reliable endpoints have a connection on one interface", |context| {
        let links = Links::Fabric("tcp");
        let run = traffic(context, links, "bulk", "0.5")?.env("WEFT_INTERFACE", "!lo");
        let finished = run.limit(LIMIT.as_secs()).finish()?;
        let found = rails(&finished.output);
        if !found.is_empty() {
            return Ok((finished, Some(format!("rails of a connection: {found:?}"))));
        }
        let info = [context.bin("weft").display().to_string(), "info".into()];
        let said = context.hosts_on_rails()?;
        let said = said.do_on(
            &said.names[0],
            &["env", "WEFT_LINK=shared,fabric", "WEFT_FABRIC_PROVIDER=tcp", &info[0], &info[1]],
        )?;
        // Long sentences are broken into lines.
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let wrong = (!words.contains("a connection is quicker than a flow over several"))
            .then(|| format!("weft info does not say why:\n{said}"));
        Ok((finished, wrong))
    }));
    cases
}

/// The cases that are the same over any links.
fn of(links: Links) -> Vec<Case> {
    vec![
        case(links, "large messages go over both", move |context| {
            let (seconds, share, runs) = match links {
                Links::Own => ("0.5", SHARE_MIN, 1),
                Links::Fabric(_) => (SECONDS_FABRIC, SHARE_MIN_FABRIC, RUNS_FABRIC),
            };
            let mut left = runs;
            loop {
                left -= 1;
                let (finished, rails) = run(context, links, "bulk", seconds, |_, _| Ok(()))?;
                let [e0, e1] = [bytes(&rails, "e0"), bytes(&rails, "e1")];
                let is_divided = e0.min(e1) >= (e0 + e1) * share / 100;
                if is_divided || left == 0 || finished.code != Some(0) {
                    return Ok((finished, (!is_divided).then(|| format!("e0 carried {e0} bytes, e1 {e1}"))));
                }
            }
        }),
        case(links, "one goes down under large messages", move |context| {
            let (finished, rails) = run(context, links, "bulk", UNTIL_FAILED, |hosts, _| set(hosts, 0, "e1", "down"))?;
            Ok((finished, failed(&rails, "e1", "down")))
        }),
        case(links, "that of small messages goes down", move |context| {
            let (finished, rails) = run(context, links, "small", UNTIL_FAILED, |hosts, _| set(hosts, 0, "e0", "down"))?;
            Ok((finished, failed(&rails, "e0", "down")))
        }),
        case(links, "that of acknowledgements goes down at the receiver", move |context| {
            let (finished, rails) = run(context, links, "bulk", UNTIL_FAILED, |hosts, _| set(hosts, 1, "e0", "down"))?;
            Ok((finished, failed(&rails, "e0", "down")))
        }),
        case(links, "one goes down and comes back", move |context| {
            let flap = |hosts: &Hosts, running: &Running| {
                set(hosts, 0, "e1", "down")?;
                anyhow::ensure!(running.says("a path has failed", LIMIT), "nobody finds e1 to have failed");
                set(hosts, 0, "e1", "up")
            };
            let (finished, rails) = run(context, links, "bulk", UNTIL_HEALED, flap)?;
            Ok((finished, failed(&rails, "e1", "up")))
        }),
    ]
}

type Judged = anyhow::Result<(Finished, Option<String>)>;

fn case(links: Links, name: &str, attempt: impl Fn(&Context) -> Judged + 'static) -> Case {
    let name = match links {
        Links::Own => name.to_owned(),
        Links::Fabric(provider) => format!("provider {provider}, two interfaces: {name}"),
    };
    Case::new(name, move |context| {
        let outcome = attempt(context);
        // The next case finds all interfaces as they were.
        let healed = context.hosts_on_rails().and_then(heal);
        match (outcome, healed) {
            (Err(error), _) | (_, Err(error)) => Outcome::Failed(format!("{error:#}")),
            (Ok((finished, wrong)), Ok(())) => {
                let report = finished.report();
                match (Expected::code(0).judge(Ok(finished)), wrong) {
                    (Outcome::Passed, Some(wrong)) => Outcome::Failed(format!("{report}\n{wrong}")),
                    (outcome, _) => outcome,
                }
            }
        }
    })
    .needs(if matches!(links, Links::Fabric(_)) { &[Need::Libfabric] } else { &[] })
    .needs(&[Need::NetworksOnRails])
}

fn traffic(context: &Context, links: Links, kind: &str, seconds: &str) -> anyhow::Result<Run> {
    let run = context.mpiexec_on(context.hosts_on_rails()?, 2).arg("--stats");
    let run = match links {
        // TCP takes one interface: the flow's division among interfaces is what these cases look at.
        Links::Own => run.env("WEFT_LINK", "shared,udp,ethernet"),
        Links::Fabric(provider) => libfabric::by(provider, run).env("WEFT_INTERFACE", BOTH),
    };
    Ok(run.arg(context.compile("tests/c/rails.c")?).arg(kind).args(seconds.split_whitespace()))
}

/// Runs traffic for `seconds` seconds; `breaks` breaks something when the traffic is under way.
fn run(
    context: &Context,
    links: Links,
    kind: &str,
    seconds: &str,
    breaks: impl FnOnce(&Hosts, &Running) -> anyhow::Result<()>,
) -> anyhow::Result<(Finished, Vec<Rail>)> {
    let running = traffic(context, links, kind, seconds)?.start()?;
    if running.says("under way", LIMIT) {
        std::thread::sleep(BEFORE);
        breaks(context.hosts_on_rails()?, &running)?;
    }
    let finished = running.finish(LIMIT)?;
    let found = rails(&finished.output);
    Ok((finished, found))
}

fn set(hosts: &Hosts, host: usize, interface: &str, state: &str) -> anyhow::Result<()> {
    hosts.do_on(&hosts.names[host], &["ip", "link", "set", interface, state]).map(drop)
}

/// Brings every interface up, and waits until it has its carrier.
fn heal(hosts: &Hosts) -> anyhow::Result<()> {
    for (host, interface) in (0..hosts.names.len()).flat_map(|host| ["e0", "e1"].map(|interface| (host, interface))) {
        set(hosts, host, interface, "up")?;
    }
    await_carriers(hosts)
}

/// Waits until all interfaces of the hosts have their carrier: that takes a moment after `ip link set up`.
pub(super) fn await_carriers(hosts: &Hosts) -> anyhow::Result<()> {
    hosts.names.iter().try_for_each(|host| await_carriers_of(hosts, host))
}

fn await_carriers_of(hosts: &Hosts, host: &str) -> anyhow::Result<()> {
    let deadline = std::time::Instant::now() + LIMIT;
    loop {
        let shown = hosts.do_on(host, &["ip", "-o", "link", "show", "type", "veth"])?;
        if shown.matches("state UP").count() == hosts.interfaces {
            return Ok(());
        }
        anyhow::ensure!(std::time::Instant::now() < deadline, "the interfaces of {host} do not come up");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A line of the second table of `--stats`.
#[derive(Debug)]
struct Rail {
    from: String,
    interface: String,
    bytes: u64,
    failures: u64,
    state: String,
}

fn rails(output: &str) -> Vec<Rail> {
    let rail = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [from, _, interface, _, bytes, failures, state @ ("up" | "down")] = words[..] else { return None };
        let (bytes, failures) = (bytes.parse().ok()?, failures.parse().ok()?);
        Some(Rail { from: from.into(), interface: interface.into(), bytes, failures, state: state.into() })
    };
    output.lines().filter_map(rail).collect()
}

/// The bytes that the sender of bulk data sent on an interface.
fn bytes(rails: &[Rail], interface: &str) -> u64 {
    rails.iter().filter(|rail| rail.from == "0" && rail.interface == interface).map(|rail| rail.bytes).sum()
}

/// The fault, if this interface, and no other, should have failed and be in this state at the sender.
fn failed(rails: &[Rail], interface: &str, state: &str) -> Option<String> {
    let of_sender: Vec<&Rail> = rails.iter().filter(|rail| rail.from == "0").collect();
    let is_right = |rail: &&Rail| match rail.interface == interface {
        true => rail.failures > 0 && rail.state == state,
        false => rail.state == "up",
    };
    let right = of_sender.len() == 2 && of_sender.iter().all(is_right);
    (!right).then(|| format!("{interface} should have failed and be {state}: {of_sender:?}"))
}
