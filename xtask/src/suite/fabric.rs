//! libfabric in the place of UDP: the programs of `tests/c` between virtual hosts, by datagrams with faults and by reliable messages, and what
//! is said where libfabric is not to be had.

use super::context::{Context, Expected};
use super::libfabric::{LINK, missing};
use super::process::Run;
use super::programs::{BAD_DAY, DAMAGE};
use super::{Case, Outcome, gone};

const LIMIT_SECONDS: u64 = 60;
/// Exchanges of the program under damage.
const DAMAGE_ROUNDS: &str = "12";
const PROGRAMS: &[(&str, u32)] = &[
    ("point_to_point", 2),
    ("probe", 2),
    ("requests", 4),
    ("sizes", 2),
    ("datatypes", 3),
    ("collectives", 4),
    ("communicators", 4),
    ("threads", 2),
    ("waiting", 2),
];
/// Properties of providers that the library of `tests/fabric` has on demand.
const STRICT: &[&str] = &[
    "size=1400",
    "prefix=40",
    "register,prefix=64",
    "register,endpoint",
    "register,inject=0,queue=4",
    "size=508,inject=16",
    "nowait",
];
/// Where the declarations of that library are.
const HEADERS: &[&str] = &["/usr/include/rdma/fabric.h", "/usr/local/include/rdma/fabric.h"];
/// What hides the library from everything that `"$@"` starts.
const HIDDEN: &str = "for library in $(ldconfig -p | sed -n 's/.*libfabric[.]so[.]1 .*=> //p'); do mount --bind /dev/null \"$library\" || exit; done; \
                      exec \"$@\"";
/// Two sets of ranks on this host.
const LOOPBACK: [&str; 6] = ["-ppn", "1", "--hosts", "h0,h1", "--agent", "env WEFT_NODE={host}"];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for provider in ["udp", "tcp"] {
        for &(program, ranks) in PROGRAMS {
            let settings = &[("WEFT_FABRIC_PROVIDER", provider)];
            cases.push(over(format!("provider {provider}, {program}, {ranks} ranks"), program, ranks, "", settings));
        }
        cases.push(Case::new(format!("provider {provider}, collectives, 4 hosts"), move |context| {
            four_hosts(context, provider)
        }));
    }
    for (provider, size) in
        [("udp", "packets of 64 and 1472 bytes arrive"), ("net", "packets of 64 and 65507 bytes arrive")]
    {
        cases.push(Case::new(format!("doctor, provider {provider}"), move |context| doctor(context, provider, size)));
    }
    cases.extend(["udp", "tcp"].into_iter().flat_map(|provider| gone::over(Some(provider))));
    for program in ["point_to_point", "sizes", "collectives"] {
        cases.push(over(format!("{program}, 2 ranks on a bad day"), program, 2, "", &[("WEFT_FAULTS", BAD_DAY)]));
    }
    for sealed in ["0", "1"] {
        let settings = &[("WEFT_FAULTS", DAMAGE), ("WEFT_SEALED", sealed)];
        cases.push(over(
            format!("outstanding, 2 ranks, damage, WEFT_SEALED={sealed}"),
            "outstanding",
            2,
            DAMAGE_ROUNDS,
            settings,
        ));
    }
    cases.push(over(
        "sizes, 2 ranks, raw frames beside it".into(),
        "sizes",
        2,
        "",
        &[("WEFT_LINK", "ethernet,fabric")],
    ));
    // Over reliable messages: a connection that is sealed; and a flow, since there is another carrier or something that injects faults.
    let tcp = ("WEFT_FABRIC_PROVIDER", "tcp");
    for (what, settings) in [
        ("sealed", [tcp, ("WEFT_SEALED", "1")]),
        ("raw frames beside it", [tcp, ("WEFT_LINK", "ethernet,fabric")]),
        ("on a bad day", [tcp, ("WEFT_FAULTS", BAD_DAY)]),
    ] {
        cases.push(over(format!("provider tcp, sizes, 2 ranks, {what}"), "sizes", 2, "", &settings));
    }
    for property in STRICT {
        cases.push(Case::new(format!("a strict provider, {property}, sizes, 2 ranks"), move |context| {
            strict(context, property, &Expected::code(0))
        }));
    }
    cases.push(Case::new("a provider that fails in the middle is named with its call and the peer", |context| {
        let expected = Expected::failure().says("of the job, on host").says("provider strict, fi_send: a failure made");
        strict(context, "fail=200", &expected)
    }));
    cases.push(Case::new("a provider that is not there is named", |context| {
        if let Some(skipped) = missing(context) {
            return skipped;
        }
        let run = || on_hosts(context, "start", 2, &[("WEFT_FABRIC_PROVIDER", "cloth")])?.finish();
        Expected::failure().says("libfabric's provider 'cloth' has no endpoints here").judge(run())
    }));
    cases.push(Case::new("without libfabric nobody misses it", |context| {
        Expected::code(0).never_says("libfabric").judge(without_libfabric(context, "udp"))
    }));
    cases.push(Case::new("without libfabric who names it is told to install it", |context| {
        Expected::failure()
            .says("libfabric is not to be had")
            .says("libfabric1")
            .judge(without_libfabric(context, LINK))
    }));
    cases
}

/// The program `sizes` over the library of `tests/fabric`, whose provider is like this.
fn strict(context: &Context, property: &str, expected: &Expected) -> Outcome {
    if !HEADERS.iter().any(|path| std::path::Path::new(path).exists()) {
        return Outcome::Skipped("libfabric's headers are not installed".into());
    }
    let run = || {
        let directory = context.work.join("strict");
        std::fs::create_dir_all(&directory)?;
        let library = directory.join("libfabric.so.1");
        let compile =
            Run::new("cc").args(["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library);
        let compiled = compile.arg(context.root.join("tests/fabric/libfabric.c")).finish()?;
        anyhow::ensure!(compiled.code == Some(0), "{}", compiled.report());
        let run = on_hosts(context, "sizes", 2, &[("STRICT", property), ("WEFT_PEER_TIMEOUT", "2")])?;
        run.env("LD_LIBRARY_PATH", &directory).finish()
    };
    expected.judge(run())
}

fn doctor(context: &Context, provider: &str, size: &'static str) -> Outcome {
    if let Some(skipped) = missing(context) {
        return skipped;
    }
    let script = "\"$0\" doctor \"$WEFT_HOSTS\" --agent \"$WEFT_AGENT\"";
    let run = Run::new(context.bin("weft")).args(["hosts", "run", "--count", "2", "--", "sh", "-c", script]);
    let run = run.arg(context.bin("weft")).env("WEFT_LINK", LINK).env("WEFT_FABRIC_PROVIDER", provider);
    let finished = run.limit(LIMIT_SECONDS).finish();
    // Newer libraries call it otherwise.
    if finished.as_ref().is_ok_and(|finished| finished.output.contains("has no endpoints here")) {
        return Outcome::Skipped(format!("libfabric has no provider {provider}"));
    }
    Expected::code(0).says(size).says("0 faults").judge(finished)
}

fn four_hosts(context: &Context, provider: &str) -> Outcome {
    if let Some(skipped) = missing(context) {
        return skipped;
    }
    let script = "\"$0\" -n 8 --hosts \"$WEFT_HOSTS\" --agent \"$WEFT_AGENT\" --stats \"$1\"";
    let run = || {
        let program = context.compile("tests/c/collectives.c")?;
        let run = Run::new(context.bin("weft")).args(["hosts", "run", "--count", "4", "--", "sh", "-c", script]);
        let run = run.arg(context.bin("mpiexec")).arg(program);
        run.env("WEFT_LINK", LINK).env("WEFT_FABRIC_PROVIDER", provider).limit(LIMIT_SECONDS).finish()
    };
    Expected::code(0).says("fabric").judge(run())
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
        if let Some(skipped) = missing(context) {
            return skipped;
        }
        let run = || {
            let run = on_hosts(context, program, ranks, &settings)?;
            if argument.is_empty() { run.finish() } else { run.arg(argument).finish() }
        };
        Expected::code(0).judge(run())
    })
}

fn on_hosts(context: &Context, program: &str, ranks: u32, settings: &[(&str, &str)]) -> anyhow::Result<Run> {
    let run = context.mpiexec_on_hosts(ranks)?.arg(context.compile(&format!("tests/c/{program}.c"))?);
    let run = run.env("WEFT_LINK", LINK).limit(LIMIT_SECONDS);
    Ok(settings.iter().fold(run, |run, (name, value)| run.env(name, value)))
}

/// A program between two sets of ranks, as if libfabric was not installed.
fn without_libfabric(context: &Context, link: &str) -> anyhow::Result<super::process::Finished> {
    let program = context.compile("tests/c/start.c")?;
    let run =
        Run::new("unshare").args(["--mount", "sh", "-c", HIDDEN, "sh"]).arg(context.bin("mpiexec")).args(["-n", "2"]);
    let run = run.args(LOOPBACK).arg(program).env("WEFT_LINK", link).env("WEFT_INTERFACE", "lo");
    run.limit(LIMIT_SECONDS).finish()
}
