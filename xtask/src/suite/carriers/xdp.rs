//! Tests of raw frames received by AF_XDP, where the user asks for it: the interface must not notice, however
//! the job ends.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::super::Case;
use super::super::context::{Context, Expected};
use super::super::needs::Need;
use super::super::process::{Finished, Run, Running};
use super::super::programs::BAD_DAY;
use super::{LIMIT_SECONDS, case, on_host};

const LINK: &str = "auto,xdp";
/// The number of ranks: the two on each host share its interface.
const RANKS: u32 = 4;
/// The time that the kernel may take to notice that processes are gone.
const DETACHED_SECONDS: u64 = 10;
/// The capabilities without which a process cannot attach programs.
const RIGHTS: &str = "-bpf,-net_admin,-sys_admin,-perfmon";

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = ["point_to_point", "sizes", "collectives", "requests"].map(bad_day).into();
    cases.push(attached(
        "AF_XDP: all other traffic passes, and nothing stays behind a job that is killed",
        |context| {
            let running = hang(context)?;
            let passes = everything_passes(context);
            let finished = kill(running);
            passes?;
            expect_detached(context)?;
            Ok((Expected::code(128 + Signal::KILL.as_raw()), finished))
        },
    ));
    cases.push(attached("AF_XDP: a second job on the same interface does without", |context| {
        let first = hang(context)?;
        let second = xdp(context)?.arg(context.compile("tests/c/sizes.c")?).finish();
        kill(first)?;
        let refused =
            "another XDP program is attached, perhaps of another job; small messages go as raw frames without it";
        Ok((Expected::code(0).says(refused).says("ethernet+udp"), once_a_host(second, refused)))
    }));
    for (rights, sentence, links) in [
        (
            RIGHTS,
            "it needs the privileges CAP_BPF and CAP_NET_ADMIN; small messages go as raw frames without it",
            "ethernet+udp",
        ),
        ("-all", "there is no AF_XDP without raw frames, and UDP carries everything: ", " udp "),
    ] {
        cases.push(case(&format!("AF_XDP: a job without privileges does without ({rights})"), move |context| {
            // In a user namespace no process may attach programs, nor lock memory for several ranks; the
            // second is found first.
            let (give_up, sentence): (&[&str], _) = match (context.hosts()?.are_without_root(), rights) {
                (false, _) => (&["setpriv", "--bounding-set", rights], sentence),
                (true, RIGHTS) => (&[], "small messages go as raw frames without it"),
                (true, _) => (&["setpriv", "--inh-caps", rights, "--ambient-caps", rights], sentence),
            };
            let run = xdp(context)?.args(give_up).arg(context.compile("tests/c/sizes.c")?);
            Ok((Expected::code(0).says(sentence).says(links), once_a_host(run.finish(), sentence)))
        }));
    }
    cases
}

/// A case in which a program is attached to interfaces: only root of the machine may do that, also in
/// namespaces of its own.
fn attached(
    name: &str,
    attempt: impl Fn(&Context) -> anyhow::Result<(Expected, anyhow::Result<Finished>)> + 'static,
) -> Case {
    case(name, attempt).needs(&[Need::AttachedPrograms])
}

fn bad_day(name: &'static str) -> Case {
    attached(&format!("AF_XDP: {name}, {RANKS} ranks on a bad day"), move |context| {
        let run = xdp(context)?.arg(context.compile(&format!("tests/c/{name}.c"))?);
        let finished = run.env("WEFT_FAULTS", BAD_DAY).finish();
        expect_detached(context)?;
        Ok((Expected::code(0).says("xdp+udp"), finished))
    })
}

fn xdp(context: &Context) -> anyhow::Result<Run> {
    Ok(context.mpiexec_on_hosts(RANKS)?.arg("--stats").env("WEFT_LINK", LINK).limit(LIMIT_SECONDS))
}

/// Starts a job whose ranks have met and wait for ever.
fn hang(context: &Context) -> anyhow::Result<Running> {
    let running = xdp(context)?.arg(context.compile("tests/launcher/behave.c")?).arg("hang").start()?;
    anyhow::ensure!(
        running.says("ready", Duration::from_secs(LIMIT_SECONDS)),
        "the job does not start:\n{}",
        running.output()
    );
    Ok(running)
}

/// Sends SIGKILL to every process of a job.
fn kill(running: Running) -> anyhow::Result<Finished> {
    for (pid, _) in running.processes() {
        // The process may have ended because of the others.
        let _ = kill_process(pid, Signal::KILL);
    }
    running.finish(Duration::from_secs(LIMIT_SECONDS))
}

fn is_attached(context: &Context, host: usize) -> anyhow::Result<bool> {
    let hosts = context.hosts()?;
    Ok(hosts.do_on(&hosts.names[host], &["ip", "-details", "link", "show", "e0"])?.contains("prog/xdp"))
}

fn expect_detached(context: &Context) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(DETACHED_SECONDS);
    while is_attached(context, 0)? || is_attached(context, 1)? {
        anyhow::ensure!(Instant::now() < deadline, "a program is still attached after the job");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Checks that other traffic passes while the program is attached: the neighbour's address is asked for anew,
/// and packets of another program pass, by UDP, multicast and raw frames.
fn everything_passes(context: &Context) -> anyhow::Result<()> {
    anyhow::ensure!(is_attached(context, 0)? && is_attached(context, 1)?, "no program is attached while the job runs");
    on_host(context, &["ip", "neigh", "flush", "dev", "e0"])?;
    let hosts = context.hosts()?;
    let doctor = Run::new(context.bin("weft")).arg("doctor").args(&hosts.names).args(["--agent", &hosts.agent]);
    let finished = doctor.limit(LIMIT_SECONDS).finish()?;
    let is_fine =
        ["packets-arrive", "ethernet: packets of 64", "multicast"].iter().all(|one| finished.output.contains(one));
    anyhow::ensure!(is_fine && finished.code == Some(0), "other traffic does not pass:\n{}", finished.report());
    Ok(())
}

/// Checks that a sentence is said exactly once on each host.
fn once_a_host(finished: anyhow::Result<Finished>, sentence: &str) -> anyhow::Result<Finished> {
    let finished = finished?;
    let times = finished.output.matches(sentence).count();
    anyhow::ensure!(times == 2, "{sentence:?} is said {times} times, not once a host:\n{}", finished.report());
    Ok(finished)
}
