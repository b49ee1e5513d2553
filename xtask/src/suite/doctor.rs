//! Tests of `weft info` and `weft doctor`: each fault that a case makes on purpose is found, by its name, in
//! bounded time, and nothing stays behind.
//!
//! The hosts are virtual and broken by `ip` alone, so that no firewall has to be installed.

use std::time::Duration;

use rustix::process::{Signal, kill_process};

use super::context::{Context, Expected};
use super::needs::Need;
use super::process::Run;
use super::virtual_hosts::{judge, namespaces};
use super::{Case, Outcome};

/// The time limit of a case, seconds; the longest wait inside a case is a few seconds.
const LIMIT: u64 = 30;
/// The names that scripts use: the command, the two hosts and the switch between them.
///
/// `keep PACKETS` drops such packets, named as for nft, on their way from the second host.
const NAMES: &str = "h0=${WEFT_HOSTS%%,*} h1=${WEFT_HOSTS##*,} switch=${WEFT_HOSTS%%-0,*}-switch; keep() { ip netns exec $h1 nft \
     \"add table ip t; add chain ip t c { type filter hook input priority 0; }; add rule ip t c $1 drop\" || exit 77; }";

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = info();
    cases.extend(broken_hosts());
    cases.extend(broken_agents());
    cases
}

fn info() -> Vec<Case> {
    vec![
        Case::new("info: links, addresses, settings", |context| {
            let run = Run::new(context.bin("weft")).arg("info").env("WEFT_EAGER_LIMIT", "0");
            let expected =
                Expected::code(0).says("the same as this command").says("WEFT_EAGER_LIMIT").says("there are");
            let expected = expected.says("from the environment; the default is auto").says("a ring of");
            finish(run, expected.says("How messages travel").says("it is longer than the eager limit"))
        }),
        Case::new("info: how messages travel over libfabric", |context| {
            let run = Run::new(context.bin("weft")).arg("info");
            let run =
                run.env("WEFT_LINK", "shared,fabric").env("WEFT_FABRIC_PROVIDER", "tcp").env("WEFT_INTERFACE", "lo");
            let expected = Expected::code(0).says("eager: libfabric").never_says("no link leads there");
            finish(run, expected.says("announced: written to where it belongs by libfabric"))
        })
        .needs(&[Need::Libfabric]),
        Case::new("info: a name that is no setting", |context| {
            let run = Run::new(context.bin("weft")).arg("info").env("WEFT_EAGR_LIMIT", "0");
            finish(
                run,
                Expected::code(0).says("WEFT_EAGR_LIMIT is set, but is no setting of Weft; WEFT_EAGER_LIMIT is"),
            )
        }),
        Case::new("info: a value that makes no sense", |context| {
            let run = Run::new(context.bin("weft")).args(["info", "--json"]).env("WEFT_ACK", "late");
            finish(run, Expected::code(1).says("\"wrong_setting\": \"WEFT_ACK=late"))
        }),
        Case::new("info: protocols by the costs of a file", |context| {
            let path = context.work.join("costs");
            if let Err(error) = std::fs::write(&path, "kernel_copy_ps 2097152 # twice as much\n") {
                return Outcome::Failed(error.to_string());
            }
            let run = |argument: &str| Run::new(context.bin("weft")).args(["info", argument]).env("WEFT_COSTS", &path);
            let told = Expected::code(0).says("\"single_copy_bytes_min\": 32768").says("\"row\": \"clear-to-send\"");
            match finish(run("--json"), told.says("\"per_byte_ps\": 84")) {
                Outcome::Passed => {
                    finish(run("--costs"), Expected::code(0).says("kernel_copy_ps                 2097152"))
                }
                other => other,
            }
        }),
        Case::new("info: costs that make no sense", |context| {
            let path = context.work.join("no-costs");
            if let Err(error) = std::fs::write(&path, "kernel_copy_ps 1\nkernel 2\n") {
                return Outcome::Failed(error.to_string());
            }
            let run = Run::new(context.bin("weft")).args(["info", "--costs"]).env("WEFT_COSTS", &path);
            finish(
                run,
                Expected::code(1).says("WEFT_COSTS=").says("line 2, \"kernel 2\": there is no cost of that name"),
            )
        }),
        Case::new("programs point out a name that is no setting, once", |context| {
            let program = match context.compile("tests/c/probe.c") {
                Ok(program) => program,
                Err(error) => return Outcome::Failed(format!("{error:#}")),
            };
            let run = context.mpiexec(2).arg(program).env("WEFT_LINKS", "udp");
            finish(run, Expected::code(0).says("rank 0: WEFT_LINKS is set").never_says("rank 1: WEFT_LINKS"))
        }),
    ]
}

fn broken_hosts() -> Vec<Case> {
    let fine = || Expected::code(0).never_says("fault  ").says("0 faults");
    let fault = |name: &'static str| Expected::code(1).says(name);
    let case = |name: &str, break_it: &'static str, expected: Expected| {
        Case::new(format!("doctor: {name}"), move |context: &Context| {
            on_hosts(context, &format!("{break_it}; \"$weft\" doctor $h0 $h1"), expected.clone())
        })
    };
    vec![
        case(
            "two hosts that are fine",
            ":",
            fine().says("packets-arrive").says("ethernet: packets of 64").says("multicast").says("clock"),
        ),
        case(
            "multicast that a group does not get",
            r#"export WEFT_LINK=udp; keep "ip daddr 239.0.0.0/8""#,
            fine().says("multicast-snooped"),
        ),
        case("no multicast", r#"export WEFT_LINK=udp; keep "ip daddr 224.0.0.0/4""#, fine().says("multicast-lost")),
        case(
            "no full multicast",
            r#"export WEFT_LINK=udp; keep "ip daddr 239.0.0.0/8 ip length > 1000""#,
            fine().says("multicast-full-size-lost"),
        ),
        case(
            "little multicast at a time",
            r#"export WEFT_LINK=udp; keep "ip daddr 239.0.0.0/8 limit rate over 20/second""#,
            fine().says("multicast-limited"),
        ),
        case("a smaller MTU on one side", "ip -n $h1 link set e0 mtu 900", fine().says("mtu-differs")),
        case(
            "a smaller MTU between",
            "ip -n $switch link set p1-0 mtu 900",
            fine().says("full-size-lost").says("872 bytes"),
        ),
        case("an interface that is down", "ip -n $h1 link set e0 down", fault("only-loopback").says("it is down")),
        case("no cable", "ip -n $switch link set p1-0 down", fault("only-loopback").says("no carrier")),
        case(
            "a route that forbids",
            "export WEFT_LINK=udp; ip -n $h0 route add prohibit 198.18.0.2/32",
            fault("packets-refused-here").says("ip route get 198.18.0.2"),
        ),
        case(
            "a neighbour that is somebody else",
            "export WEFT_LINK=udp; ip -n $h0 neighbour replace 198.18.0.2 lladdr 02:00:00:00:00:99 dev e0 nud permanent",
            fault("packets-lost").says("nothing answers"),
        ),
        case(
            "a route that forbids one link of two",
            "ip -n $h0 route add prohibit 198.18.0.2/32",
            fine().says("packets-refused-here").says("ethernet: packets of 64"),
        ),
        case("a setting that makes no sense", "export WEFT_ACK=late", fault("setting-wrong").says("every-packet")),
        Case::new("doctor: hosts named as for mpiexec", move |context| {
            let expected = fine().says("packets-arrive").says("ethernet: packets of 64");
            on_hosts(context, "\"$weft\" doctor --hosts $WEFT_HOSTS", expected)
        }),
        Case::new("doctor: a host that is not there", |context| {
            let expected = Expected::code(1).says("host-unreachable").says("weft-0-9").says("host-reached");
            on_hosts(context, "\"$weft\" doctor $h0,weft-0-9", expected)
        }),
        Case::new("doctor: more hosts than are tried each with each", |context| {
            let script = "WEFT_LINK=udp \"$weft\" doctor $WEFT_HOSTS";
            let run = hosts(context, 17, script);
            judge(&namespaces(), run.limit(LIMIT).finish(), Expected::code(0).says("34 directions (in a ring)"))
        }),
    ]
}

fn broken_agents() -> Vec<Case> {
    let doctor = |context: &Context, agent: &str| {
        Run::new(context.bin("weft")).args(["doctor", "--agent-timeout", "1", "--agent", agent, "h0"])
    };
    vec![
        Case::new("doctor: this machine alone", |context| {
            let run = Run::new(context.bin("weft")).args(["doctor", "--json"]);
            finish(run, Expected::code(0).says("\"single-copy").says("\"level\": \"ok\""))
        }),
        Case::new("doctor: an agent's command that fails", move |context| {
            finish(doctor(context, "false"), Expected::code(1).says("host-unreachable").says("ended with status 1"))
        }),
        Case::new("doctor: an agent's command that is not there", move |context| {
            finish(doctor(context, "/no/such/command"), Expected::code(1).says("cannot be started"))
        }),
        Case::new("doctor: an agent that says nothing", move |context| {
            let run = doctor(context, "sh -c 'sleep 600'");
            finish(run, Expected::code(1).says("host-unreachable").says("did not answer within 1 s"))
        }),
        Case::new("doctor: another version", move |context| {
            let run = doctor(context, "sh -c 'echo Welcome; echo WEFT-DOCTOR 0.0.1; exec cat'");
            finish(run, Expected::code(1).says("version-differs").says("0.0.1"))
        }),
        Case::new("doctor: an agent that talks nonsense", move |context| {
            // The version is the second word of `weft version`; the command is given to the shell as its
            // name.
            let run = doctor(context, "sh -c 'set -- $($0 version); echo WEFT-DOCTOR $2; exec cat'");
            finish(run, Expected::code(1).says("host-stopped-answering"))
        }),
        Case::new("doctor: SIGTERM while an agent hangs", |context| {
            let arguments = ["doctor", "--agent", "sh -c 'echo hangs >&2; sleep 600'", "h0"];
            let attempt = || {
                let running = Run::new(context.bin("weft")).args(arguments).start()?;
                let deadline = std::time::Instant::now() + Duration::from_secs(5);
                while running.processes().len() < 2 && std::time::Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(10));
                }
                kill_process(running.pid(), Signal::TERM)?;
                running.finish(Duration::from_secs(LIMIT))
            };
            Expected::code(130).says("interrupted").judge(attempt())
        }),
        Case::new("doctor: wrong use", |context| {
            let run = Run::new(context.bin("weft")).args(["doctor", "--agent-timeout", "0", "h0"]);
            finish(run, Expected::code(2).says("--agent-timeout"))
        }),
    ]
}

fn finish(run: Run, expected: Expected) -> Outcome {
    expected.judge(run.limit(LIMIT).finish())
}

/// Runs a script beside two virtual hosts.
fn on_hosts(context: &Context, script: &str, expected: Expected) -> Outcome {
    judge(&namespaces(), hosts(context, 2, script).limit(LIMIT).finish(), expected)
}

fn hosts(context: &Context, count: u32, script: &str) -> Run {
    let script = format!("{NAMES}; {script}");
    let run = Run::new(context.bin("weft")).env("weft", context.bin("weft"));
    run.args(["hosts", "run", "--count", &count.to_string(), "--", "sh", "-c", &script])
}
