//! Tests of libfabric in the place of UDP: the programs of `tests/c` between virtual hosts, by datagrams with
//! faults and by reliable messages, and the messages where libfabric is not installed.

use std::time::Duration;

use super::carriers::{Filter, RESETS_TCP};
use super::context::{Context, Expected};
use super::libfabric::{self, LINK};
use super::needs::Need;
use super::process::{Finished, Run};
use super::programs::{self, BAD_DAY, DAMAGE, PROGRAMS};
use super::{Case, Outcome, gone, rails};

const LIMIT_SECONDS: u64 = 60;
const LIMIT: Duration = Duration::from_secs(LIMIT_SECONDS);
/// Exchanges of the program under damage.
const DAMAGE_ROUNDS: &str = "12";
/// The ranks of the programs of the suite `hosts`: two on each of two hosts, one on each of four.
const RANKS: u32 = 4;
/// Programs that run over provider `udp` in this suite. Its datagrams carry the flow of the suite `hosts`, in
/// which all programs run.
const BY_DATAGRAMS: &[&str] = &["point_to_point", "sizes", "collectives", "windows", "threads", "waiting"];
/// Programs that run over the reliable messages of provider `tcp` in this suite: those that send messages or
/// access windows in a way of their own. The others call the same parts of the engine. All programs run over
/// both providers in `make test-large`.
pub(super) const BY_MESSAGES: &[&str] = &[
    "point_to_point",
    "partitioned",
    "probe",
    "requests",
    "sizes",
    "datatypes",
    "collectives",
    "node_collectives",
    "persistent",
    "intercommunicators",
    "neighbors",
    "sessions",
    "threads",
    "window_access",
    "window_epochs",
    "window_oracles",
    "window_passive",
    "refused_accesses",
    "windows",
    "waiting",
    "registration_cache",
];
/// Programs that run on four hosts in this suite; all of them do in `make test-large`.
const ON_FOUR_HOSTS: &[&str] = &["point_to_point", "collectives", "sizes"];
/// Programs that run with two ranks.
const WITH_TWO: &[&str] = &["misuse", "flood"];
/// Providers whose waiting is tested, with the places to which they lead.
const WAITING: &[(&str, Whither)] = &[
    ("udp", Whither::Hosts),
    ("tcp", Whither::Hosts),
    ("tcp;ofi_rxm", Whither::Hosts),
    ("net", Whither::Hosts),
    ("udp;ofi_rxd", Whither::Hosts),
    ("shm", Whither::Loopback),
];
const BLOCKED_LIMIT: Duration = Duration::from_secs(45);
/// Settings that make buffers and queues in the provider small, by its own variables.
const SMALL: &[(&str, &str)] = &[
    ("FI_OFI_RXM_BUFFER_SIZE", "2048"),
    ("FI_OFI_RXM_TX_SIZE", "8"),
    ("FI_OFI_RXM_RX_SIZE", "16"),
    ("FI_OFI_RXM_MSG_TX_SIZE", "8"),
    ("FI_OFI_RXM_MSG_RX_SIZE", "8"),
    ("FI_TCP_MAX_INJECT_SIZE", "16"),
    ("FI_NET_MAX_INJECT_SIZE", "16"),
];
/// The seconds for which traffic goes on; its connection is broken meanwhile.
const TRAFFIC_SECONDS: &str = "20";
/// Properties that the providers of the library of `tests/fabric` have on demand.
const STRICT: &[&str] = &[
    "size=1400",
    "prefix=40",
    "register,prefix=64",
    "register,prefix=40,received",
    "register,endpoint",
    "register,inject=0,queue=4",
    "size=508,inject=16",
];
/// Properties of such a provider that writes to memory of peers: its demands on registered memory, in either
/// form, and its refusals.
const STRICT_PLACING: &[&str] = &[
    "placing,size=20000,register",
    "placing,size=20000,endpoint,virtual,keybytes=2",
    "placing,size=4000,register,endpoint,virtual,keys",
    "placing,size=20000,register,endpoint,keys,queue=8",
    "placing,size=20000,register,endpoint,regions=4",
    "placing,size=20000,register,refuse=3",
];
/// Programs that test such a provider with windows, and the words of properties that refuse. With all other
/// properties, ranks must have read, too.
const STRICT_WINDOWS: &[&str] = &["windows", "window_oracles", "window_passive"];
const STRICT_REFUSING: [&str; 2] = ["regions=", "refuse="];
/// Settings of cases in which a peer is to be given up.
const GIVES_UP: &[(&str, &str)] = &[("WEFT_PEER_TIMEOUT", "2")];
/// The provider's sentences at the end of a rank that wrote nothing, and of each rank.
const WROTE_NOTHING: &str = "strict libfabric: 0 bytes were written";
const WROTE: &str = " bytes were written to memory of peers";
/// The provider's sentences about reads.
const READ_NOTHING: &str = "strict libfabric: 0 bytes were read";
const READ: &str = " bytes were read from memory of peers";
/// A script that hides the library from everything that `"$@"` starts.
const HIDDEN: &str = "for library in $(ldconfig -p | sed -n 's/.*libfabric[.]so[.]1 .*=> //p'); do mount --bind /dev/null \"$library\" || exit; done; \
                      exec \"$@\"";
/// A script that runs its arguments with little memory that they may lock.
const LOCKS_LITTLE: &str = "ulimit -l 64; exec \"$@\"";
/// The options for two sets of ranks on this host.
const LOOPBACK: [&str; 6] = ["-ppn", "1", "--hosts", "h0,h1", "--agent", "env WEFT_NODE={host}"];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = providers();
    cases.extend(doctors());
    cases.extend(["udp", "tcp"].into_iter().flat_map(|provider| gone::over(gone::Links::Fabric(provider))));
    cases.extend(rails::over_fabric());
    cases.extend(bad_days());
    cases.extend(strict_providers().into_iter().map(|case| case.needs(&[Need::LibfabricHeaders])));
    cases.push(
        Case::new("ranks blocked in MPI_Recv for 10 s, over each provider, sleep or are told why not", blocked)
            .needs(&[Need::Libfabric, Need::Networks]),
    );
    cases.push(Case::new("provider tcp, a connection that breaks is named with call and peer", breaks).needs(&[
        Need::Libfabric,
        Need::Networks,
        Need::Nft,
    ]));
    cases.extend(absence());
    cases
}

/// The cases of the programs over the providers that every libfabric has.
fn providers() -> Vec<Case> {
    let mut cases = Vec::new();
    for (provider, programs) in [("udp", BY_DATAGRAMS), ("tcp", BY_MESSAGES)] {
        let programs = programs.iter().map(|program| (*program, RANKS));
        for (program, ranks) in programs.chain(WITH_TWO.iter().map(|program| (*program, 2))) {
            let settings = &[("WEFT_FABRIC_PROVIDER", provider)];
            cases.push(over(format!("provider {provider}, {program}, {ranks} ranks"), program, ranks, "", settings));
        }
        let name = format!("provider {provider}, {} on 4 hosts", ON_FOUR_HOSTS.join(", "));
        cases.push(four_hosts(name, provider, ON_FOUR_HOSTS));
    }
    cases
}

/// The cases of `weft doctor` with hosts between which libfabric is used.
fn doctors() -> Vec<Case> {
    let provider = |(provider, size): (&'static str, &'static str)| {
        Case::new(format!("doctor, provider {provider}"), move |context| doctor(context, provider, size))
            .needs(&[Need::Libfabric])
    };
    let two_interfaces = Case::new("doctor, provider udp, each of two interfaces", |context| {
        let expected = Expected::code(0)
            .says("fabric on 198.18.0.0/24: packets of 64")
            .says("fabric on 198.18.1.0/24: packets of 64");
        expected.says("0 faults").judge(doctor_on(context, "udp", &["--interfaces", "2"]))
    });
    let sizes = [("udp", "packets of 64 and 1472 bytes arrive"), ("net", "packets of 64 and 65507 bytes arrive")];
    let cases = sizes.into_iter().map(provider);
    cases.chain([two_interfaces.needs(&[Need::Libfabric, Need::Networks])]).collect()
}

/// The cases with injected faults, with sealing, beside another carrier, and with little room.
fn bad_days() -> Vec<Case> {
    let mut cases = Vec::new();
    for program in ["point_to_point", "sizes", "collectives"] {
        cases.push(over(format!("{program}, 2 ranks on a bad day"), program, 2, "", &[("WEFT_FAULTS", BAD_DAY)]));
    }
    for sealed in ["0", "1"] {
        let settings = &[("WEFT_FAULTS", DAMAGE), ("WEFT_SEALED", sealed)];
        let name = format!("outstanding, 2 ranks, damage, WEFT_SEALED={sealed}");
        cases.push(over(name, "outstanding", 2, DAMAGE_ROUNDS, settings));
    }
    let beside = &[("WEFT_LINK", "ethernet,fabric")];
    cases.push(over("sizes, 2 ranks, raw frames beside it".into(), "sizes", 2, "", beside));
    // The cases over reliable messages: a sealed connection; and a flow, since there is another carrier or a
    // fault injector.
    let tcp = ("WEFT_FABRIC_PROVIDER", "tcp");
    for (what, settings) in [
        ("sealed", [tcp, ("WEFT_SEALED", "1")]),
        ("raw frames beside it", [tcp, ("WEFT_LINK", "ethernet,fabric")]),
        ("on a bad day", [tcp, ("WEFT_FAULTS", BAD_DAY)]),
    ] {
        cases.push(over(format!("provider tcp, sizes, 2 ranks, {what}"), "sizes", 2, "", &settings));
    }
    let small: Vec<_> = SMALL.iter().copied().chain([tcp]).collect();
    cases.push(over("provider tcp, sizes, 2 ranks, small buffers and queues".into(), "sizes", 2, "", &small));
    cases
}

/// The cases with a provider of ours that insists on demands that others may make.
fn strict_providers() -> Vec<Case> {
    let mut cases = Vec::new();
    for property in STRICT {
        cases.push(Case::new(format!("a strict provider, {property}, sizes, 2 ranks"), move |context| {
            strict(context, property, &[], &Expected::code(0).never_says("nothing to sleep on"))
        }));
    }
    for property in STRICT_PLACING {
        cases.push(Case::new(format!("a strict provider, {property}, sizes, 2 ranks"), move |context| {
            strict(context, property, &[], &Expected::code(0).says(WROTE).never_says(WROTE_NOTHING))
        }));
    }
    // `make test-large` has every program with every property ([`all_cases`]).
    let (first, others) = STRICT_PLACING.split_at(1);
    cases.extend(
        first.iter().flat_map(|property| STRICT_WINDOWS.iter().map(|program| strict_window(property, program))),
    );
    cases.extend(
        others.iter().zip(STRICT_WINDOWS.iter().cycle()).map(|(property, program)| strict_window(property, program)),
    );
    cases.push(Case::new(
        "a strict provider that could write to memory of peers and is not to, sizes, 2 ranks",
        |context| {
            let off = &[("WEFT_FABRIC_PLACEMENT", "0")];
            strict(context, "placing,size=20000,register", off, &Expected::code(0).says(WROTE_NOTHING))
        },
    ));
    cases.push(Case::new("a strict provider, placing, sizes, 2 ranks, a capture leaves remote writes on", |context| {
        let at = context.work.join("strict-capture-%rank.pcapng").display().to_string();
        let expected = Expected::code(0).says(WROTE).never_says(WROTE_NOTHING);
        strict(context, "placing,size=20000,register", &[("WEFT_CAPTURE", &at)], &expected)
    }));
    cases.push(Case::new("a strict provider without remote writes, reliable messages, sizes, 2 ranks", |context| {
        strict(context, "reliable,size=20000,register", &[], &Expected::code(0).says(WROTE_NOTHING))
    }));
    cases.push(Case::new("a write to a peer's memory that fails is named with its call and the peer", |context| {
        let expected =
            Expected::failure().says("of the job, on host").says("provider strict, fi_write: a failure made");
        strict(context, "placing,size=20000,register,broken=3", GIVES_UP, &expected)
    }));
    cases.push(Case::new("a get that fails is named with its call and the peer", |context| {
        let expected = Expected::failure().says("of the job, on host").says("provider strict, fi_read: a failure made");
        let property = "placing,size=20000,register,broken=3,unwritten";
        strict_behind(context, "window_passive", &[], property, GIVES_UP, &expected)
    }));
    cases.push(Case::new(
        "a provider that is refused memory for its buffers names the limit of locked memory",
        |context| {
            let expected = Expected::failure()
                .says("provider strict fails in fi_mr_reg")
                .says("may lock 64 KiB here (`ulimit -l`)");
            strict_behind(context, "sizes", &["sh", "-c", LOCKS_LITTLE, "sh"], "register,regions=1", &[], &expected)
        },
    ));
    cases.push(Case::new("a strict provider whose ports mostly belong to others, sizes, 2 ranks", |context| {
        strict(context, "reliable,size=20000,taken=50", &[], &Expected::code(0))
    }));
    cases.push(Case::new("a provider whose ports all belong to others is named", |context| {
        let expected = Expected::failure().says("provider strict fails in fi_enable: Address already in use");
        strict(context, "reliable,taken=100000", &[], &expected)
    }));
    cases.push(Case::new("a strict provider without descriptors to wait on says so, sizes, 2 ranks", |context| {
        strict(context, "nowait", &[], &Expected::code(0).says("provider strict has nothing to sleep on"))
    }));
    cases.push(Case::new("a provider that fails in the middle is named with its call and the peer", |context| {
        let expected = Expected::failure().says("of the job, on host").says("provider strict, fi_send: a failure made");
        // The rank that hears nothing any more names its own failures. With few sends before the first
        // failure, its attempts to reach the other one are enough to meet its own.
        strict(context, "fail=20", GIVES_UP, &expected)
    }));
    cases
}

/// The cases without the library, or without the provider.
fn absence() -> Vec<Case> {
    let unknown = Case::new("a provider that is not there is named", |context| {
        let run = || on_hosts(context, "start", 2, &[("WEFT_FABRIC_PROVIDER", "cloth")])?.finish();
        Expected::failure().says("libfabric's provider 'cloth' has no endpoints here").judge(run())
    });
    vec![
        unknown.needs(&[Need::Libfabric]),
        Case::new("without libfabric nobody misses it", |context| {
            without_libfabric(context, "udp", &Expected::code(0).never_says("libfabric"))
        }),
        Case::new("without libfabric who names it is told to install it", |context| {
            let expected = Expected::failure().says("libfabric is not to be had").says("libfabric1");
            without_libfabric(context, LINK, &expected)
        }),
    ]
}

/// The cases that take too long for every change.
pub(crate) fn all_cases(_: &Context) -> Vec<Case> {
    let case = |provider| four_hosts(format!("provider {provider}, all programs on 4 hosts"), provider, &PROGRAMS);
    let mut cases: Vec<Case> = ["udp", "tcp"].into_iter().map(case).collect();
    for property in STRICT_PLACING {
        let case = |program: &&'static str| strict_window(property, program).needs(&[Need::LibfabricHeaders]);
        cases.extend(STRICT_WINDOWS.iter().map(case));
    }
    cases
}

/// A case with a program of windows over the library of `tests/fabric`, whose provider has this property.
fn strict_window(property: &'static str, program: &'static str) -> Case {
    let name = format!("a strict provider, {property}, {program}, 2 ranks");
    Case::new(name, move |context| windows(context, program, property))
}

/// Runs the program `sizes` over the library of `tests/fabric`, whose provider has this property.
fn strict(context: &Context, property: &str, settings: &[(&str, &str)], expected: &Expected) -> Outcome {
    strict_behind(context, "sizes", &[], property, settings, expected)
}

/// Runs a program of windows over such a provider. Some rank must write, and some rank must read. If the
/// provider refuses nothing, each rank must write, and each must read unless the program is `window_passive`.
fn windows(context: &Context, program: &str, property: &str) -> Outcome {
    let mut expected = Expected::code(0).says(WROTE).says(READ);
    if !STRICT_REFUSING.iter().any(|refusing| property.contains(refusing)) {
        expected = expected.never_says(WROTE_NOTHING);
        if program != "window_passive" {
            expected = expected.never_says(READ_NOTHING);
        }
    }
    strict_behind(context, program, &[], property, &[], &expected)
}

/// Runs any program over such a provider, by a command that begins with the words `before`.
fn strict_behind(
    context: &Context,
    program: &str,
    before: &[&str],
    property: &str,
    settings: &[(&str, &str)],
    expected: &Expected,
) -> Outcome {
    let run = || {
        let directory = context.work.join("strict");
        std::fs::create_dir_all(&directory)?;
        let library = directory.join("libfabric.so.1");
        let compile =
            Run::new("cc").args(["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library);
        let compiled = compile.arg(context.root.join("tests/fabric/libfabric.c")).finish()?;
        anyhow::ensure!(compiled.code == Some(0), "{}", compiled.report());
        // The directory of the provider's sockets, which a rank that fails leaves behind; names of sockets
        // are short.
        let sockets = std::env::temp_dir().join(format!("weft-strict-{}", std::process::id()));
        std::fs::create_dir_all(&sockets)?;
        let property = format!("{property},tell");
        let run = on_hosts(context, program, 2, &[&[("STRICT", property.as_str())], settings].concat())?;
        let finished = run.behind(before).env("LD_LIBRARY_PATH", &directory).env("STRICT_DIRECTORY", &sockets).finish();
        std::fs::remove_dir_all(&sockets)?;
        finished
    };
    expected.judge(run())
}

fn doctor(context: &Context, provider: &str, size: &'static str) -> Outcome {
    let finished = doctor_on(context, provider, &[]);
    // Newer libraries have another name for the provider.
    if finished.as_ref().is_ok_and(|finished| finished.output.contains("has no endpoints here")) {
        return Outcome::Skipped(format!("libfabric has no provider {provider}"));
    }
    Expected::code(0).says(size).says("0 faults").judge(finished)
}

/// The output of `weft doctor` on two hosts made with these options.
fn doctor_on(context: &Context, provider: &str, options: &[&str]) -> anyhow::Result<Finished> {
    let script = "\"$0\" doctor \"$WEFT_HOSTS\" --agent \"$WEFT_AGENT\"";
    let run = Run::new(context.bin("weft")).args(["hosts", "run", "--count", "2"]).args(options);
    let run = run.args(["--", "sh", "-c", script]).arg(context.bin("weft"));
    libfabric::by(provider, run).limit(LIMIT_SECONDS).finish()
}

fn four_hosts(name: String, provider: &'static str, programs: &'static [&str]) -> Case {
    let run = move |context: &Context| libfabric::by(provider, programs::on_four_hosts(context, programs)?).finish();
    Case::new(name, move |context| Expected::code(0).judge(run(context))).needs(&[Need::Libfabric])
}

/// The place of the ranks of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whither {
    Hosts,
    /// A provider that leads only to processes of this host.
    Loopback,
}

/// Spends ten seconds in MPI_Recv over each provider that there is, all of them at the same time.
fn blocked(context: &Context) -> anyhow::Result<()> {
    let start = |&(provider, whither): &(&'static str, Whither)| {
        let program = context.compile("tests/c/blocked.c")?;
        let run = match whither {
            Whither::Hosts => context.mpiexec_on_hosts(2)?,
            Whither::Loopback => context.mpiexec(2).args(LOOPBACK).env("WEFT_INTERFACE", "lo"),
        };
        let run = libfabric::by(provider, run.arg(program)).env("WEFT_LINK", "fabric");
        anyhow::Ok((provider, run.start()?))
    };
    let running: Vec<_> = WAITING.iter().map(start).collect::<anyhow::Result<_>>()?;
    let mut slept = 0;
    for (provider, running) in running {
        let finished = running.finish(BLOCKED_LIMIT)?;
        if finished.output.contains("has no endpoints here") {
            continue;
        }
        let is_told = finished.output.contains("has nothing to sleep on");
        let used = finished.output.contains("ms of processor time");
        let said = finished.output.contains("while it was blocked");
        // A rank that is told that there is nothing to sleep on may have used its processor, and then does
        // not end with 0.
        let is_right = said && (finished.code == Some(0) && !used || is_told && used);
        anyhow::ensure!(is_right, "provider {provider}:\n{}", finished.report());
        slept += usize::from(!is_told);
    }
    anyhow::ensure!(slept >= 2, "udp and tcp, at least, have something to sleep on");
    Ok(())
}

/// Breaks connections: the kernel of the first host ends all TCP connections while messages are under way.
fn breaks(context: &Context) -> Outcome {
    let run = || {
        let run = context.mpiexec_on_hosts(2)?.arg(context.compile("tests/c/rails.c")?);
        // The provider must find the break, and not the limit for peers, also where it has much else to do.
        let run = libfabric::by("tcp", run).args(["small", TRAFFIC_SECONDS]).env("WEFT_PEER_TIMEOUT", "10");
        let running = run.start()?;
        let resets = || Filter::of_packets(context, RESETS_TCP);
        let _resets = running.says("under way", LIMIT).then(resets).transpose()?;
        running.finish(LIMIT)
    };
    let expected = Expected::failure().says("of the job, on host").says("libfabric's provider tcp").says(", fi_send: ");
    expected.judge(run())
}

fn over(
    name: String,
    program: &'static str,
    ranks: u32,
    argument: &'static str,
    settings: &[(&'static str, &'static str)],
) -> Case {
    let settings = settings.to_vec();
    Case::new(name, move |context| {
        let run = || {
            let run = on_hosts(context, program, ranks, &settings)?;
            if argument.is_empty() { run.finish() } else { run.arg(argument).finish() }
        };
        Expected::code(0).judge(run())
    })
    .needs(&[Need::Libfabric])
}

fn on_hosts(context: &Context, program: &str, ranks: u32, settings: &[(&str, &str)]) -> anyhow::Result<Run> {
    let run = context.mpiexec_on_hosts(ranks)?.arg(context.compile(&format!("tests/c/{program}.c"))?);
    let run = run.env("WEFT_LINK", LINK).limit(LIMIT_SECONDS);
    Ok(settings.iter().fold(run, |run, (name, value)| run.env(name, value)))
}

/// Runs a program between two sets of ranks, as if libfabric were not installed.
fn without_libfabric(context: &Context, link: &str, expected: &Expected) -> anyhow::Result<Outcome> {
    let program = context.compile("tests/c/start.c")?;
    // An ordinary user may hide files in a user namespace only.
    let is_root = rustix::process::geteuid().is_root();
    let namespaces: &[&str] = if is_root { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    if Run::new("unshare").args(namespaces).arg("true").finish()?.code != Some(0) {
        return Ok(Outcome::Skipped("hiding libfabric takes root or a user namespace".into()));
    }
    let run = Run::new("unshare").args(namespaces).args(["sh", "-c", HIDDEN, "sh"]);
    let run = run.arg(context.bin("mpiexec")).args(["-n", "2"]).args(LOOPBACK).arg(program);
    let finished = run.env("WEFT_LINK", link).env("WEFT_INTERFACE", "lo").limit(LIMIT_SECONDS).finish();
    Ok(expected.judge(finished))
}
