//! Tests of raw frames and UDP side by side between two hosts, of failures of one of them or of the
//! interface, and of raw frames received by AF_XDP.

mod xdp;

use std::time::Duration;

use super::Case;
use super::context::{Context, Expected};
use super::needs::Need;
use super::process::{Finished, Run};
use super::rails::await_carriers;

/// The time before something is broken in a run, which takes several times as long.
const BEFORE: Duration = Duration::from_millis(700);
/// The time for which an interface is down before it comes back.
const DOWN: Duration = Duration::from_millis(800);
/// The longest time of a case, seconds.
const LIMIT_SECONDS: u64 = 60;
/// The seconds after which a silent peer counts as failed, and those where an interface is down in between:
/// the commands that take it down and up wait for others in the kernel, so that may last for seconds.
const PEER_TIMEOUT: &str = "2";
const LONGER_THAN_DOWN: &str = "30";
const RAW: &str = "ether type 0x88b5 drop";
const UDP: &str = "ip protocol udp drop";

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = vec![
        case("both carriers are used", |context| {
            Ok((Expected::code(0).says("ethernet+udp"), sizes(context)?.finish()))
        }),
        case("raw frames do not arrive: UDP carries everything", |context| {
            let _filter = Filter::of_frames(context, RAW)?;
            Ok((Expected::code(0).says(" udp "), sizes(context)?.finish()))
        }),
        case("UDP does not arrive: raw frames carry everything", |context| {
            let _filter = Filter::of_frames(context, UDP)?;
            Ok((Expected::code(0).says(" ethernet "), sizes(context)?.finish()))
        }),
        case("raw frames stop arriving in the middle: UDP takes over", |context| {
            Ok((Expected::code(0).says(" udp "), broken(context, PEER_TIMEOUT, || Filter::of_frames(context, RAW))))
        }),
        case("UDP stops arriving in the middle: raw frames take over", |context| {
            Ok((
                Expected::code(0).says(" ethernet "),
                broken(context, PEER_TIMEOUT, || Filter::of_frames(context, UDP)),
            ))
        }),
        case("an interface goes down and comes back", |context| {
            let flap = || {
                let down = Down::new(context)?;
                std::thread::sleep(DOWN);
                drop(down);
                Ok(())
            };
            Ok((Expected::code(0).says("ethernet+udp"), broken(context, LONGER_THAN_DOWN, flap)))
        }),
        case("an interface goes down for good: the job fails in time, with a reason", |context| {
            Ok((
                // A rank in Waitall finds the error in a status; a rank in a collective has it as the call's
                // error.
                Expected::failure().says(" on host ").says("has not answered for longer than WEFT_PEER_TIMEOUT"),
                broken(context, PEER_TIMEOUT, || Down::new(context)),
            ))
        }),
    ];
    cases.extend(xdp::cases());
    cases
}

fn case(
    name: &str,
    attempt: impl Fn(&Context) -> anyhow::Result<(Expected, anyhow::Result<Finished>)> + 'static,
) -> Case {
    Case::new(name, move |context| attempt(context).map(|(expected, finished)| expected.judge(finished)))
        .needs(&[Need::Networks, Need::Nft])
}

fn run(context: &Context, program: &str, timeout: &str) -> anyhow::Result<Run> {
    let run = context.mpiexec_on_hosts(2)?.arg("--stats").arg(context.compile(program)?);
    Ok(run.env("WEFT_PEER_TIMEOUT", timeout).limit(LIMIT_SECONDS))
}

/// Runs messages of all sizes.
fn sizes(context: &Context) -> anyhow::Result<Run> {
    run(context, "tests/c/sizes.c", PEER_TIMEOUT)
}

/// Makes a run of some seconds, during which `breaks` happens; the value that it returns lasts until the end.
/// A peer that is silent for `timeout` seconds counts as failed.
fn broken<T>(context: &Context, timeout: &str, breaks: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<Finished> {
    let run = run(context, "examples/heat.c", timeout)?;
    let run = run.arg("--input").arg(context.root.join("examples/heat.pgm"));
    let run = run.arg("--output").arg(context.work.join("carriers.png")).args(["--steps", "6000"]);
    let running = run.start()?;
    std::thread::sleep(BEFORE);
    let _broken = breaks()?;
    running.finish(Duration::from_secs(LIMIT_SECONDS))
}

/// Runs a command on the first host.
fn on_host(context: &Context, command: &[&str]) -> anyhow::Result<()> {
    let hosts = context.hosts()?;
    hosts.do_on(&hosts.names[0], command).map(drop)
}

/// The rule by which a kernel ends all TCP connections.
pub(super) const RESETS_TCP: &str = "meta l4proto tcp reject with tcp reset";

/// A rule of the first host's kernel for what arrives, until dropped.
pub(super) struct Filter<'a> {
    context: &'a Context,
    family: &'static str,
}

impl<'a> Filter<'a> {
    /// A rule for frames, such as `ip protocol udp drop`.
    fn of_frames(context: &'a Context, rule: &str) -> anyhow::Result<Self> {
        Self::new(context, "netdev", "ingress device e0", rule)
    }

    /// A rule for packets, such as `meta l4proto udp drop`.
    pub(super) fn of_packets(context: &'a Context, rule: &str) -> anyhow::Result<Self> {
        Self::new(context, "inet", "input", rule)
    }

    fn new(context: &'a Context, family: &'static str, hook: &str, rule: &str) -> anyhow::Result<Self> {
        let chain = format!("type filter hook {hook} priority 0;");
        on_host(context, &["nft", &format!("table {family} suite {{ chain arriving {{ {chain} {rule}; }}; }}")])?;
        Ok(Self { context, family })
    }
}

impl Drop for Filter<'_> {
    fn drop(&mut self) {
        if let Err(error) = on_host(self.context, &["nft", "delete", "table", self.family, "suite"]) {
            eprintln!("suite: the filter stays: {error}");
        }
    }
}

/// A guard that holds the first host's interface down, until dropped.
pub(super) struct Down<'a>(&'a Context);

impl<'a> Down<'a> {
    pub(super) fn new(context: &'a Context) -> anyhow::Result<Self> {
        on_host(context, &["ip", "link", "set", "e0", "down"])?;
        Ok(Self(context))
    }
}

impl Drop for Down<'_> {
    fn drop(&mut self) {
        let up = || {
            on_host(self.0, &["ip", "link", "set", "e0", "up"])?;
            await_carriers(self.0.hosts()?)
        };
        if let Err(error) = up() {
            eprintln!("suite: the interface stays down: {error}");
        }
    }
}
