//! Tests of `weft hosts`: the hosts are there while the command runs, and gone afterwards, however the
//! command ended.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use super::context::{Context, EXIT_NO_HOSTS, Expected, no_hosts};
use super::process::{Finished, Run};
use super::{Case, Outcome};

const START: Duration = Duration::from_secs(10);
const END: Duration = Duration::from_secs(15);

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    vec![
        Case::new("hosts reach each other, and the exit code is the command's", |context| {
            // The receiver tells when its port is open: the sender waits for that.
            let script = "h0=${WEFT_HOSTS%%,*} h1=${WEFT_HOSTS##*,}
                open=$(mktemp -u); mkfifo $open; trap 'rm -f $open' EXIT
                ip netns exec $h1 python3 -c '
import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((\"198.18.0.2\", 4711))
open(sys.argv[1], \"w\").close(); s.settimeout(10); print(s.recv(9))' $open &
                cat $open
                ip netns exec $h0 python3 -c '
import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b\"thread\", (\"198.18.0.2\", 4711))'
                wait; exit 5";
            check(context, hosts(context, &["sh", "-c", script]), Expected::code(5).says("b'thread'"))
        }),
        Case::new("the rate is set", |context| {
            let script = "tc -n ${WEFT_HOSTS%%,*} qdisc show dev e0";
            let run =
                Run::new(context.bin("weft")).args(["hosts", "run", "--rate", "10gbit", "--", "sh", "-c", script]);
            check(context, run, Expected::code(0).says("rate 10Gbit"))
        }),
        Case::new("processes left in a host are ended", |context| {
            // The process tells that it is there before the command ends.
            let script = "there=$(mktemp -u); mkfifo $there; trap 'rm -f $there' EXIT
                ip netns exec ${WEFT_HOSTS%%,*} setsid sh -c 'echo there >$0; exec sleep 600' $there >/dev/null 2>&1 &
                cat $there";
            check(context, hosts(context, &["sh", "-c", script]), Expected::code(0).says("there"))
        }),
        Case::new("a command that is not there", |context| {
            check(context, hosts(context, &["/no/such/command"]), Expected::code(127).says("/no/such/command"))
        }),
        Case::new("SIGTERM", |context| signalled(context, Signal::TERM, 143)),
        Case::new("SIGINT", |context| signalled(context, Signal::INT, 130)),
        Case::new("SIGHUP", |context| signalled(context, Signal::HUP, 129)),
        Case::new("SIGKILL, swept by the next start", killed),
    ]
}

fn hosts(context: &Context, command: &[&str]) -> Run {
    Run::new(context.bin("weft")).args(["hosts", "run", "--count", "2", "--"]).args(command)
}

fn check(_: &Context, run: Run, expected: Expected) -> Outcome {
    judge(&namespaces(), run.limit(END.as_secs()).finish(), expected)
}

pub(super) fn judge(before: &[String], finished: anyhow::Result<Finished>, expected: Expected) -> Outcome {
    if let Ok(Finished { code: Some(EXIT_NO_HOSTS), output, .. }) = &finished {
        return no_hosts(output);
    }
    match (expected.judge(finished), orphans(before)) {
        (Outcome::Passed, left) if !left.is_empty() => Outcome::Failed(format!("left behind: {}", left.join(" "))),
        (outcome, _) => outcome,
    }
}

/// The existing namespaces; other runs on this machine may come and go.
pub(super) fn namespaces() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The new namespaces whose creator lives no more.
fn orphans(before: &[String]) -> Vec<String> {
    let creator = |name: &str| name.strip_prefix("weft-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    let is_dead = |name: &String| creator(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    namespaces().into_iter().filter(|name| !before.contains(name) && is_dead(name)).collect()
}

fn signalled(context: &Context, signal: Signal, code: i32) -> Outcome {
    let before = namespaces();
    let attempt = || {
        let running = hosts(context, &["sh", "-c", "echo ready; exec sleep 600"]).start()?;
        if running.says("ready", START) {
            kill_process(running.pid(), signal)?;
        }
        running.finish(END)
    };
    judge(&before, attempt(), Expected::code(code))
}

fn killed(context: &Context) -> Outcome {
    let before = namespaces();
    let attempt = || {
        let mut running =
            hosts(context, &["sh", "-c", "ip netns exec ${WEFT_HOSTS%%,*} sh -c 'echo ready; exec sleep 600'"])
                .start()?;
        if running.says("ready", START) {
            running.kill()?;
            // Other processes do not see the hosts of an ordinary user.
            let is_seen = !orphans(&before).is_empty() || !rustix::process::geteuid().is_root();
            anyhow::ensure!(is_seen, "SIGKILL left nothing to sweep: is this test still true?");
            let next = hosts(context, &["true"]).finish()?;
            anyhow::ensure!(next.output.contains("left by a process that is gone"), "not swept:\n{}", next.report());
        }
        running.finish(END)
    };
    judge(&before, attempt(), Expected::code(137))
}
