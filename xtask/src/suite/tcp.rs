//! Tests of kernel TCP, in the place of UDP and beside it: the programs of `tests/c` between virtual hosts,
//! connections that break or stall, and networks that let no UDP pass, or no TCP.

use std::time::Duration;

use super::Case;
use super::Outcome;
use super::carriers::{Filter, RESETS_TCP};
use super::context::{Context, Expected};
use super::fabric::BY_MESSAGES;
use super::gone;
use super::needs::Need;
use super::process::Run;
use super::programs::{BAD_DAY, PROGRAMS, on_four_hosts};

const LIMIT_SECONDS: u64 = 60;
const LIMIT: Duration = Duration::from_secs(LIMIT_SECONDS);
const LINK: (&str, &str) = ("WEFT_LINK", "shared,tcp");
/// The ranks of the programs: two on each of two hosts.
const RANKS: u32 = 4;
/// Programs that run with two ranks.
const WITH_TWO: &[&str] = &["misuse", "flood"];
/// Programs that run on four hosts in this suite; all of them do in `make test-large`.
const ON_FOUR_HOSTS: &[&str] = &["point_to_point", "collectives", "sizes"];
/// The seconds for which traffic goes on; its connection is broken meanwhile.
const TRAFFIC_SECONDS: &str = "20";
/// The rule of a firewall that lets no UDP pass.
const NO_UDP: &str = "meta l4proto udp drop";
/// The rule of a firewall that lets no TCP pass.
const NO_TCP: &str = "meta l4proto tcp drop";

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let programs = BY_MESSAGES.iter().map(|program| (*program, RANKS));
    let programs = programs.chain(WITH_TWO.iter().map(|program| (*program, 2)));
    let mut cases: Vec<Case> =
        programs.map(|(program, ranks)| over(format!("{program}, {ranks} ranks"), program, ranks, &[])).collect();
    // Carriers must not touch the memory of operations that are given up.
    cases.push(over("unequal, 6 ranks".into(), "unequal", 6, &[]));
    cases.push(four_hosts(format!("{} on 4 hosts", ON_FOUR_HOSTS.join(", ")), ON_FOUR_HOSTS));
    for (what, settings) in [
        ("sealed", ("WEFT_SEALED", "1")),
        ("on a bad day, which spares connections", ("WEFT_FAULTS", BAD_DAY)),
        ("raw frames beside it", ("WEFT_LINK", "ethernet,tcp")),
        ("without a progress thread", ("WEFT_PROGRESS", "none")),
    ] {
        cases.push(over(format!("sizes, 2 ranks, {what}"), "sizes", 2, &[settings]));
    }
    cases.push(Case::new("blocked, ranks in MPI_Recv for 10 s sleep", |context| {
        anyhow::Ok(Expected::code(0).judge(on_hosts(context, "blocked", 2, &[])?.finish()))
    }));
    cases.extend(gone::over(gone::Links::Tcp));
    cases.push(Case::new("doctor", |context| {
        let script = "\"$0\" doctor \"$WEFT_HOSTS\" --agent \"$WEFT_AGENT\"";
        let run = Run::new(context.bin("weft")).args(["hosts", "run", "--count", "2", "--", "sh", "-c", script]);
        let finished = run.arg(context.bin("weft")).env(LINK.0, LINK.1).limit(LIMIT_SECONDS).finish();
        Expected::code(0).says("packets of 64 and 65507 bytes arrive").says("0 faults").judge(finished)
    }));
    cases.push(Case::new("info says how it would be used", |context| {
        let run = Run::new(context.bin("weft")).arg("info").env(LINK.0, LINK.1).env("WEFT_INTERFACE", "lo");
        Expected::code(0).says("in the place of UDP, at 127.0.0.1").judge(run.limit(LIMIT_SECONDS).finish())
    }));
    cases.push(
        Case::new("a firewall that lets no UDP pass stops UDP, and not TCP", firewall)
            .needs(&[Need::Networks, Need::Nft]),
    );
    cases
        .push(Case::new("a connection that breaks is named with the peer", breaks).needs(&[Need::Networks, Need::Nft]));
    cases.extend(beside_udp());
    cases.push(Case::new("who names tcp at one end only is told so", |context| {
        let script = "if [ \"$PMI_RANK\" = 0 ]; then export WEFT_LINK=shared,tcp; else export WEFT_LINK=shared,udp; fi; \
                      exec \"$@\"";
        let run = context.mpiexec_on_hosts(2)?.args(["sh", "-c", script, "sh"]);
        let finished = run.arg(context.compile("tests/c/point_to_point.c")?).limit(LIMIT_SECONDS).finish();
        anyhow::Ok(Expected::failure().says("WEFT_LINK").judge(finished))
    }));
    cases
}

/// Cases of TCP beside UDP.
fn beside_udp() -> Vec<Case> {
    let case = |name, attempt: fn(&Context) -> anyhow::Result<Outcome>| {
        Case::new(name, attempt).needs(&[Need::Networks, Need::Nft])
    };
    let settings = [
        ("auto: TCP brings large messages", "written", ("WEFT_LINK", "auto")),
        ("without raw frames: TCP brings large messages", "written", ("WEFT_LINK", "shared,udp,tcp")),
        ("without TCP: packets bring large messages", "packets", ("WEFT_LINK", "shared,udp,ethernet")),
        ("sealed: packets bring large messages", "packets", ("WEFT_SEALED", "1")),
    ];
    let mut cases: Vec<Case> = settings
        .into_iter()
        .map(|(name, how, (setting, value))| {
            Case::new(name, move |context| {
                anyhow::Ok(Expected::code(0).judge(schemes(context, how)?.env(setting, value).finish()))
            })
        })
        .collect();
    cases.extend([
        case("auto: TCP does not pass, and packets bring large messages", |context| {
            let _filter = Filter::of_packets(context, NO_TCP)?;
            Ok(Expected::code(0).judge(schemes(context, "packets")?.finish()))
        }),
        case("auto: TCP is reset, and packets bring large messages", |context| {
            let _filter = Filter::of_packets(context, RESETS_TCP)?;
            Ok(Expected::code(0).judge(schemes(context, "packets")?.finish()))
        }),
        case("auto: TCP is reset in the middle, and packets bring what it did not", |context| {
            anew(context, RESETS_TCP)
        }),
        case("auto: a sender that does nothing for a while finds two requests for its message", |context| {
            Ok(Expected::code(0).judge(schemes(context, "late")?.env("WEFT_PROGRESS", "none").finish()))
        }),
        case("auto: TCP stops in the middle, and packets bring what it did not", |context| anew(context, NO_TCP)),
    ]);
    let long = [
        ("auto: the long path is tried for messages of many packets", "taken", ("WEFT_LINK", "auto")),
        ("always: messages of many packets take the long path", "taken", ("WEFT_LONG_PATH", "always")),
        ("never: no message takes the long path", "untaken", ("WEFT_LONG_PATH", "never")),
        (
            "without raw frames: the long path is tried for messages of many packets",
            "taken",
            ("WEFT_LINK", "shared,udp,tcp"),
        ),
        ("without TCP: there is no long path", "untaken", ("WEFT_LINK", "shared,udp,ethernet")),
    ];
    cases.extend(long.map(|(name, how, (setting, value))| {
        Case::new(name, move |context| {
            anyhow::Ok(Expected::code(0).judge(long_path(context, how)?.env(setting, value).finish()))
        })
    }));
    let eager = [
        ("always: TCP writes eager messages at once", "written", ("WEFT_LONG_PATH", "always")),
        ("auto: TCP may write eager messages at once", "either", ("WEFT_LINK", "auto")),
        ("without raw frames: TCP may write eager messages at once", "either", ("WEFT_LINK", "shared,udp,tcp")),
        ("without a progress thread: TCP may write eager messages at once", "either", ("WEFT_PROGRESS", "none")),
        ("never: no eager message is written", "packets", ("WEFT_LONG_PATH", "never")),
        ("sealed: no eager message is written", "packets", ("WEFT_SEALED", "1")),
    ];
    cases.extend(eager.map(|(name, how, (setting, value))| {
        Case::new(name, move |context| {
            let run = context.mpiexec_on_hosts(2)?.arg(context.compile("tests/c/eager_writes.c")?).arg(how);
            anyhow::Ok(Expected::code(0).judge(run.env(setting, value).limit(LIMIT_SECONDS).finish()))
        })
    }));
    cases.extend(["always", "auto", "never"].map(|long_path| {
        Case::new(format!("{long_path}: messages above the eager limit that TCP may write at once"), move |context| {
            let run =
                context.mpiexec_on_hosts(2)?.arg(context.compile("tests/c/eager_writes.c")?).args(["either", "long"]);
            anyhow::Ok(Expected::code(0).judge(run.env("WEFT_LONG_PATH", long_path).limit(LIMIT_SECONDS).finish()))
        })
    }));
    cases.extend([
        case("auto: TCP does not pass, and there is no long path", |context| {
            let _filter = Filter::of_packets(context, NO_TCP)?;
            Ok(Expected::code(0).judge(long_path(context, "untaken")?.finish()))
        }),
        case("always: the long path is reset in the middle, and messages go on", |context| {
            under_rule(context, long_path(context, "closed")?.env("WEFT_LONG_PATH", "always"), RESETS_TCP)
        }),
        case("always: the long path stops in the middle, and messages go on", |context| {
            under_rule(context, long_path(context, "closed")?.env("WEFT_LONG_PATH", "always"), NO_TCP)
        }),
    ]);
    cases
}

fn long_path(context: &Context, how: &str) -> anyhow::Result<Run> {
    let run = context.mpiexec_on_hosts(2)?.arg(context.compile("tests/c/long_path.c")?);
    Ok(run.arg(how).limit(LIMIT_SECONDS))
}

fn schemes(context: &Context, how: &str) -> anyhow::Result<Run> {
    let run = context.mpiexec_on_hosts(2)?.arg(context.compile("tests/c/rendezvous_schemes.c")?);
    Ok(run.arg(how).limit(LIMIT_SECONDS))
}

fn anew(context: &Context, rule: &str) -> anyhow::Result<Outcome> {
    under_rule(context, schemes(context, "anew")?, rule)
}

/// Messages are under way by TCP when a rule comes into force.
fn under_rule(context: &Context, program: Run, rule: &str) -> anyhow::Result<Outcome> {
    let running = program.start()?;
    if !running.says("under way", LIMIT) {
        return Ok(Outcome::Failed("no messages are under way".into()));
    }
    let _filter = Filter::of_packets(context, rule)?;
    Ok(Expected::code(0).judge(running.finish(LIMIT)))
}

/// The cases that take too long for every change.
pub(crate) fn all_cases(_: &Context) -> Vec<Case> {
    vec![four_hosts("all programs on 4 hosts".into(), &PROGRAMS)]
}

fn on_hosts(context: &Context, program: &str, ranks: u32, settings: &[(&str, &str)]) -> anyhow::Result<Run> {
    let run = context.mpiexec_on_hosts(ranks)?.arg(context.compile(&format!("tests/c/{program}.c"))?);
    let run = run.env(LINK.0, LINK.1).limit(LIMIT_SECONDS);
    Ok(settings.iter().fold(run, |run, (name, value)| run.env(name, value)))
}

fn over(name: String, program: &'static str, ranks: u32, settings: &[(&'static str, &'static str)]) -> Case {
    let settings = settings.to_vec();
    Case::new(name, move |context| {
        anyhow::Ok(Expected::code(0).judge(on_hosts(context, program, ranks, &settings)?.finish()))
    })
}

fn four_hosts(name: String, programs: &'static [&str]) -> Case {
    let run = move |context: &Context| on_four_hosts(context, programs)?.env(LINK.0, LINK.1).finish();
    Case::new(name, move |context| Expected::code(0).judge(run(context)))
}

fn firewall(context: &Context) -> anyhow::Result<Outcome> {
    let _firewall = Filter::of_packets(context, NO_UDP)?;
    let by = |link: &'static str| {
        let settings = [("WEFT_LINK", link), ("WEFT_PEER_TIMEOUT", "2")];
        on_hosts(context, "point_to_point", 2, &settings)?.finish()
    };
    if let Outcome::Failed(why) = Expected::failure().judge(by("shared,udp")) {
        return Ok(Outcome::Failed(format!("the firewall: {why}")));
    }
    Ok(Expected::code(0).judge(by("shared,tcp")))
}

/// Breaks connections: the kernel of the first host ends all TCP connections while messages are under way.
fn breaks(context: &Context) -> anyhow::Result<Outcome> {
    let settings = [("WEFT_PEER_TIMEOUT", "10")];
    let running = on_hosts(context, "rails", 2, &settings)?.args(["small", TRAFFIC_SECONDS]).start()?;
    if !running.says("under way", LIMIT) {
        return Ok(Outcome::Failed("no messages are under way".into()));
    }
    let _resets = Filter::of_packets(context, RESETS_TCP)?;
    let finished = running.finish(LIMIT);
    let expected = Expected::failure().says("of the job, on host").says("its connection broke");
    Ok(expected.judge(finished))
}
