//! Tests of a job under attack: forged, replayed, damaged and foreign packets between two hosts cost the job
//! time, and nothing else. Also tests of a job without privileges, with and without the helper that has them.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::context::{Context, Expected, Hosts};
use super::needs::Need;
use super::process::{Finished, Run, Running};
use super::{Case, Outcome, built, strangers};

/// The numbers of hostile packets of the case in `make test-large`, and of each case in `make test`.
const MILLION: u64 = 1_000_000;
const SOME: u64 = 200_000;
const LIMIT: Duration = Duration::from_secs(150);
/// The least share of packets that must have been counted by cause is one in this number: many packets are
/// lost where they arrive too fast.
const COUNTED_SHARE: u64 = 50;
/// The parts of the line about multicast that must have counts: duplicate packets, and packets that come from
/// no member.
const GROUPS_COUNT: &[&str] = &["packets multicast: ", " duplicate", " rejected"];
/// The user id of an ordinary user.
const NOBODY: &str = "65534";

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = vec![
        attacked("hostile packets", SOME, &[], &[]),
        attacked("hostile packets, UDP alone", SOME, &[("WEFT_LINK", "shared,udp")], &[]),
        // Packets to a group are counted as well: replayed packets, and those of strangers and foreign jobs.
        attacked("hostile packets, multicast", SOME, &[("WEFT_BCAST", "window")], GROUPS_COUNT),
        attacked(
            "hostile packets, multicast by UDP alone",
            SOME,
            &[("WEFT_BCAST", "window"), ("WEFT_LINK", "shared,udp")],
            GROUPS_COUNT,
        ),
        attacked("hostile packets, sealed", SOME, &[("WEFT_SEALED", "1")], &[]),
        on_hosts("without privileges UDP carries everything, without a word", |context| {
            let run = unprivileged(context, None)?;
            Ok(Expected::code(0).says(" udp ").never_says("weft-netd").judge(run.finish()))
        }),
        on_hosts("who asks for raw frames without the privilege is told what is missing, once", |context| {
            let run = unprivileged(context, None)?.env("WEFT_LINK", "shared,udp,ethernet");
            let expected = Expected::code(0).says("rank 0: raw frames on e0").says("setcap cap_net_raw+ep");
            Ok(expected.never_says("rank 1: raw").judge(run.finish()))
        }),
        on_hosts("weft-netd gives raw frames to who has no privilege", |context| {
            let helpers = Helpers::start(context)?;
            let run = unprivileged(context, Some(&helpers))?;
            Ok(Expected::code(0).says("ethernet+udp").judge(run.finish()))
        }),
    ];
    cases.extend(
        [
            ("info", false, "weft-netd.socket"),
            ("doctor", false, "neither CAP_NET_RAW nor weft-netd"),
            ("info", true, "small messages to ranks of hosts that answer"),
            ("doctor", true, "gives sockets for links on Ethernet"),
        ]
        .map(|(command, has_helper, says)| told(command, has_helper, says)),
    );
    cases.extend(strangers::cases());
    cases
}

/// The case of `make test-large`.
pub(crate) fn all_cases(_: &Context) -> Vec<Case> {
    vec![attacked("a million hostile packets", MILLION, &[], &[])]
}

fn on_hosts(name: &str, attempt: impl Fn(&Context) -> anyhow::Result<Outcome> + 'static) -> Case {
    Case::new(name, attempt).needs(&[Need::Networks])
}

/// A case that checks the message of `weft` to a user without the privilege: it names the missing privilege,
/// and `weft-netd` that has it.
fn told(command: &'static str, has_helper: bool, says: &'static str) -> Case {
    let helper = if has_helper { "beside weft-netd" } else { "without weft-netd" };
    on_hosts(&format!("weft {command} {helper} says what is missing and who has it"), move |context| {
        let hosts = context.hosts()?;
        let helpers = if has_helper { Some(Helpers::start(context)?) } else { None };
        let netd = helpers.as_ref().map_or("/nowhere".into(), |helpers| helpers.socket(&hosts.names[0]));
        let run = hosts.on(&hosts.names[0], as_nobody(hosts)).arg(context.bin("weft")).arg(command);
        Ok(Expected::code(0).says(says).judge(run.env("WEFT_NETD", netd).finish()))
    })
}

fn attacked(name: &str, packets: u64, settings: &'static [(&str, &str)], says: &'static [&'static str]) -> Case {
    on_hosts(name, move |context| {
        let end = context.work.join("hostile-end");
        let _ = std::fs::remove_file(&end);
        let program = context.compile("tests/hostile/traffic.c")?;
        let mut run = context.mpiexec_on_hosts(2)?.arg("--stats").arg(program).arg(&end);
        for (name, value) in settings {
            run = run.env(name, value);
        }
        let tool = tool(context)?;
        let running = run.start()?;
        // Before, memory that the job takes anyhow would hide what the attack makes it take. Groups have
        // packets that can be replayed.
        anyhow::ensure!(running.says("warm", LIMIT), "the job does not get warm:\n{}", running.output());
        let hosts = context.hosts()?;
        let attack = hosts.on(&hosts.switch()?, [tool]);
        let attack = attack.args(["--ports", "p0-0,p1-0", "--packets", &packets.to_string(), "--seconds-max", "100"]);
        let attacked = attack.limit(LIMIT.as_secs()).finish();
        std::fs::write(&end, "")?;
        let finished = running.finish(LIMIT)?;
        let counted = counted(&finished);
        if let Outcome::Failed(why) = Expected::code(0).says(" packets in ").judge(attacked) {
            return Ok(Outcome::Failed(format!("the attack: {why}")));
        }
        let expected = Expected::code(0).says(" forged").says(" foreign").says(" rounds, ");
        let expected = says.iter().fold(expected, |expected, text| expected.says(*text));
        match expected.judge(Ok(finished)) {
            Outcome::Passed if counted < packets / COUNTED_SHARE => {
                Ok(Outcome::Failed(format!("only {counted} packets were counted as dropped")))
            }
            outcome => Ok(outcome),
        }
    })
}

/// The number of packets in the line of `--stats` about dropped packets.
fn counted(finished: &Finished) -> u64 {
    let line = finished.output.lines().find_map(|line| line.split_once("packets dropped on arrival: "));
    let words = line.map(|(_, causes)| causes.split([' ', ','])).into_iter().flatten();
    words.filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// The attacker, built by the cargo that runs this program.
fn tool(context: &Context) -> anyhow::Result<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = BUILT.get() {
        return Ok(path.clone());
    }
    let path = built::by_cargo(context, &["build", "--workspace", "--bin", "hostile"])?;
    Ok(BUILT.get_or_init(|| path).clone())
}

/// The words that run a command without any privilege. Root runs it as nobody. An ordinary user, who has
/// privileges on hosts of their own, runs it without these.
fn as_nobody(hosts: &Hosts) -> &'static [&'static str] {
    match hosts.are_without_root() {
        true => &["setpriv", "--inh-caps", "-all", "--ambient-caps", "-all"],
        false => &["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"],
    }
}

/// Sends messages of all sizes between ranks without privilege.
fn unprivileged(context: &Context, helpers: Option<&Helpers>) -> anyhow::Result<Run> {
    let hosts = context.hosts()?;
    let netd = helpers.map_or("/nowhere".into(), |helpers| helpers.socket("{host}"));
    // The words behind the host run there.
    let agent = format!("{} env WEFT_NETD={} {}", hosts.agent, netd.display(), as_nobody(hosts).join(" "));
    let program = context.compile("tests/c/sizes.c")?;
    let reaches = hosts.on(&hosts.names[0], as_nobody(hosts)).args(["test", "-x"]).arg(&program).finish()?;
    anyhow::ensure!(reaches.code == Some(0), "{} is in a directory that other users may not enter", program.display());
    let run = context.mpiexec(2).args(["-ppn", "1", "--hosts", &hosts.names.join(","), "--agent", &agent, "--stats"]);
    Ok(run.arg(program).limit(60))
}

/// Servers of `weft-netd` on both hosts, for a user without privilege; ended when dropped.
struct Helpers {
    running: Vec<Running>,
    directory: PathBuf,
}

impl Helpers {
    fn start(context: &Context) -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("weft-suite-netd-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let mut helpers = Self { running: Vec::new(), directory };
        let hosts = context.hosts()?;
        let group = Run::new("getent").args(["group", NOBODY]).finish()?.output;
        // On a user's own hosts, the user that asks owns the socket.
        let group = group.split(':').next().filter(|_| !hosts.are_without_root());
        let program = context.prefix.join("sbin/weft-netd");
        for host in &hosts.names {
            let run = hosts.on(host, [&program]).arg("--socket").arg(helpers.socket(host));
            helpers.running.push(run.args(group.iter().flat_map(|group| ["--group", group])).start()?);
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        for (host, running) in hosts.names.iter().zip(&helpers.running) {
            while !helpers.socket(host).exists() {
                anyhow::ensure!(Instant::now() < deadline, "weft-netd does not start:\n{}", running.output());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(helpers)
    }

    fn socket(&self, host: &str) -> PathBuf {
        self.directory.join(host)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        for mut running in self.running.drain(..) {
            let _ = running.kill();
            let _ = running.finish(LIMIT);
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
