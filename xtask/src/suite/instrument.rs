//! Tests of `weft compare`, `weft bench` and `weft availability`: they run to the end, keep samples, and
//! report what is wrong.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::context::{Context, EXIT_NO_HOSTS, Expected, no_hosts};
use super::process::{Finished, Run};
use super::{Case, Outcome};

/// The time that the first sample may take: programs are built before it.
const FIRST_SAMPLE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// The reasons for which `weft availability` refuses a figure, and ends with 1: the machine did something
/// else meanwhile.
const REFUSALS: [&str; 2] = ["disturbed: ", "the sweep did not reach the stop threshold"];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = vec![
        Case::new("one host: Weft, and MPICH where it is there", |context| {
            let libraries = format!("weft,mpich={}", context.root.join("build/venv").display());
            let run =
                weft(context, "compare pingpong barrier launch --rounds 2 --samples 1 --seconds 0.005 --sizes 8,64k");
            match check_run(context, "one-host", run.args(["--library", &libraries]), 0) {
                Outcome::Passed => check_lines(context, "one-host"),
                other => other,
            }
        }),
        Case::new("two hosts, shaped, with carriers", |context| {
            let run = weft(
                context,
                "compare pingpong --hosts 2 --rate 1gbit --rounds 1 --samples 1 --seconds 0.005 --sizes 8",
            );
            check_run(context, "two-hosts", run.args(["--library", "weft"]), 0)
        }),
        Case::new("two hosts that lose frames", |context| {
            let run =
                weft(context, "compare pingpong --hosts 2 --loss 1% --no-carriers --rounds 1 --samples 1 --sizes 8");
            check_run(context, "loss", run.args(["--library", "weft"]), 0)
        }),
        Case::new("weft bench prints a table", |context| {
            Expected::code(0).says("Barrier").judge(weft(context, "bench barrier --rounds 1 --quiet").finish())
        }),
        Case::new("weft availability prints a table, with figures or why they are refused", |context| {
            let line = "availability --rounds 1 --sizes 64k --direction send --seconds 0.001 --quiet";
            let finished = weft(context, line).finish();
            let says = |why: &str| finished.as_ref().is_ok_and(|finished| finished.output.contains(why));
            let code = i32::from(REFUSALS.into_iter().any(says));
            Expected::code(code).says("vailability").judge(finished)
        }),
        Case::new("a library that does not start: the others go on", |context| {
            let broken = fake_library(context);
            let run = weft(context, "compare barrier --no-carriers --rounds 1 --samples 1 --quiet");
            let run = run.args(["--library", &format!("weft,broken={}", broken.display()), "--output"]);
            let run = run.arg(run_file(context, "broken"));
            Expected::code(0).says("broken").says("refuses to start").judge(run.finish())
        }),
    ];
    for (name, signal, code) in [("SIGINT", Signal::INT, 130), ("SIGTERM", Signal::TERM, 143)] {
        for hosts in ["1", "2"] {
            cases.push(Case::new(
                format!("{name} on {hosts} host(s) keeps the samples and leaves nothing"),
                move |context| interrupted(context, signal, code, hosts),
            ));
        }
    }
    for (line, sentence) in [
        ("compare pinpong", "did you mean pingpong"),
        ("compare pingpong --hosts 9", "2 to 8"),
        ("compare pingpong --library no=/no/such/prefix", "not a directory"),
        ("compare pingpong --library weft --rate 10gbit", "--hosts 2"),
        ("bench barrier --library weft --output /no/such/directory/run", "cannot write"),
        ("bench barrier --library weft --output /dev/full", "No space left"),
    ] {
        cases.push(Case::new(format!("wrong use: {line}"), move |context| {
            Expected::code(2).says(sentence).never_says("panicked").judge(weft(context, line).finish())
        }));
    }
    cases
}

fn weft(context: &Context, line: &str) -> Run {
    Run::new(context.bin("weft")).args(line.split(' ')).env("XDG_CACHE_HOME", context.work.join("cache")).limit(90)
}

/// Makes a prefix whose `mpiexec` refuses to run.
fn fake_library(context: &Context) -> PathBuf {
    let prefix = context.work.join("broken-library");
    let write = |name: &str, text: &str| {
        let path = prefix.join(name);
        let _ = std::fs::create_dir_all(prefix.join("bin"));
        let _ = std::fs::write(&path, text);
        let _ = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755));
    };
    write("bin/mpiexec", "#!/bin/sh\necho 'error: this library refuses to start' >&2\nexit 1\n");
    write("bin/mpiexec.hydra", "");
    write("bin/mpicc", &format!("#!/bin/sh\nexec '{}' \"$@\"\n", context.bin("mpicc").display()));
    prefix
}

fn run_file(context: &Context, name: &str) -> PathBuf {
    let path = context.work.join(format!("instrument-{name}.jsonl"));
    let _ = std::fs::remove_file(&path);
    path
}

/// Runs a comparison into a file. Each of its jobs must have succeeded, and the file must have its last
/// record.
fn check_run(context: &Context, name: &str, run: Run, code: i32) -> Outcome {
    let path = run_file(context, name);
    let finished = run.arg("--output").arg(&path).finish();
    if let Ok(Finished { code: Some(EXIT_NO_HOSTS), output, .. }) = &finished {
        return no_hosts(output);
    }
    match Expected::code(code).says("pingpong").judge(finished) {
        Outcome::Passed => {}
        other => return other,
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let jobs = || text.lines().filter(|line| line.contains(r#""record":"job""#));
    // A feature that the machine lacks is no fault of the instrument.
    let bad: Vec<&str> = jobs().filter(|line| !line.contains("succeeded") && !line.contains("unsupported")).collect();
    match (bad.is_empty(), jobs().count() > 0, text.lines().last()) {
        (true, true, Some(end)) if end.contains(r#""interrupted":false"#) => Outcome::Passed,
        (_, _, last) => Outcome::Failed(format!("{}\nlast line: {}", bad.join("\n"), last.unwrap_or("none"))),
    }
}

/// Checks that on one host every sample of two ranks has the time of a cache line, or says that the time
/// could not be measured. A launch has no such time.
fn check_lines(context: &Context, name: &str) -> Outcome {
    let path = context.work.join(format!("instrument-{name}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let alone = std::thread::available_parallelism().is_ok_and(|count| count.get() < 2);
    for line in text.lines().filter(|line| line.contains(r#""record":"sample""#)) {
        let says = line.contains(r#""line_ns_before":"#) && line.contains(r#""line_ns_after":"#);
        if says == (alone || line.contains(r#""measurement":"launch""#)) {
            return Outcome::Failed(format!("what a cache line cost is missing, or too much: {line}"));
        }
    }
    match text.contains("line_ns_before") || alone {
        true => Outcome::Passed,
        false => Outcome::Failed("no sample at all".to_owned()),
    }
}

fn interrupted(context: &Context, signal: Signal, code: i32, hosts: &str) -> Outcome {
    let path = run_file(context, "interrupted");
    let run = weft(context, "compare pingpong --rounds 500 --samples 1 --sizes 8 --no-carriers --library weft");
    let attempt = || {
        let running = run.args(["--hosts", hosts]).arg("--output").arg(&path).start()?;
        let deadline = Instant::now() + FIRST_SAMPLE;
        while !has_sample(&path) && Instant::now() < deadline && !running.has_ended() {
            std::thread::sleep(POLL);
        }
        let _ = kill_process(running.pid(), signal);
        running.finish(Duration::from_secs(20))
    };
    let finished = attempt();
    if let Ok(Finished { code: Some(EXIT_NO_HOSTS), output, .. }) = &finished {
        return no_hosts(output);
    }
    let end = std::fs::read_to_string(&path).unwrap_or_default();
    let says_so = end.lines().last().is_some_and(|line| line.contains(r#""interrupted":true"#));
    match (Expected::code(code).says("pingpong").judge(finished), has_sample(&path) && says_so) {
        (Outcome::Passed, false) => Outcome::Failed("the run file has no sample or no end".into()),
        (outcome, _) => outcome,
    }
}

fn has_sample(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.contains(r#""record":"sample""#))
}
