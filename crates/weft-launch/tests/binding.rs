//! Tests of the processors that ranks get. Expect: two jobs never get the same one.

mod common;

use common::{Outcome, Ready, Run, TWO_HOSTS, command};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// The registry of one test, apart from the machine's: other jobs of this machine must not change the result.
struct Registry(PathBuf);

impl Registry {
    fn new(story: &str) -> Self {
        Self(std::env::temp_dir().join(format!("weft-binding-{story}-{}", std::process::id())))
    }

    fn command(&self, line: &str) -> Command {
        let mut command = command(line);
        command.env("WEFT_REGISTRY", &self.0);
        command
    }

    fn run(&self, line: &str) -> Outcome {
        Run::start(self.command(line), b"").wait()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Prints the processors that a rank may use, as the kernel reports them.
const SAY: &str = "sh -c set|$(grep|Cpus_allowed_list|/proc/self/status);|echo|rank|$PMI_RANK:|$2|$WEFT_LOAD";

/// The processors of this process, from `0-3`, one by one.
fn own() -> Vec<u32> {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("it is told").trim();
    let ends = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        (first.parse::<u32>().expect("a number"), last.parse::<u32>().expect("a number"))
    };
    list.split(',').map(ends).flat_map(|(first, last)| first..=last).collect()
}

/// The same list in the kernel's form.
fn own_list() -> String {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("it is told");
    list.trim().to_string()
}

#[test]
fn each_rank_has_a_thread_of_its_own() {
    let registry = Registry::new("own");
    let count = own().len();
    let outcome = registry.run(&format!("--bind-to hwthread --report-bindings -n {count} {SAY}")).expect(0);
    let mut seen: Vec<u32> = outcome
        .lines()
        .iter()
        .map(|line| line.split_whitespace().nth(2).expect("a list").parse().expect("one processor"))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, own(), "{outcome:?}");
    outcome.says("rank 0 on ").says(": bound to processor ");
    assert_eq!(outcome.err.matches(": bound to processor ").count(), count, "a line for each rank: {outcome:?}");
}

#[test]
fn more_ranks_than_processors_are_not_bound_and_it_is_said() {
    let registry = Registry::new("more");
    let count = own().len() + 1;
    let outcome = registry.run(&format!("--bind-to hwthread -n {count} {SAY}")).expect(0);
    outcome.says("ranks are not bound:").says("hardware threads are wanted on this machine");
    let expected = format!("rank 0: {} {count}/", own_list());
    assert!(outcome.lines()[0].starts_with(&expected), "{expected} is not in {outcome:?}");
}

#[test]
fn a_job_gets_nothing_that_another_one_has() {
    let registry = Registry::new("another");
    let count = own().len();
    let ready = Ready::new(21);
    let wait = format!("sh -c {};|exec|sleep|60", ready.say());
    let first = Run::start(registry.command(&format!("--bind-to hwthread -n {count} {wait}")), b"");
    ready.wait(count);
    let second = registry.run(&format!("--bind-to hwthread --report-bindings -n 1 {SAY}")).expect(0);
    second.says("rank 0 on ").says(&format!("not bound (other jobs have taken {count} of {count} hardware threads"));
    assert!(second.out.contains(&own_list()), "{second:?}");
    // Expect: however the first job ends, its processors are free.
    first.signal("KILL");
    first.wait();
    let began = Instant::now();
    loop {
        let third = registry.run(&format!("--bind-to hwthread --report-bindings -n {count} {SAY}")).expect(0);
        if !third.err.contains("not bound") {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{third:?}");
    }
}

#[test]
fn virtual_hosts_share_the_processors_of_their_machine() {
    let registry = Registry::new("virtual");
    let count = own().len();
    let outcome = registry.run(&format!("{TWO_HOSTS} --bind-to hwthread -n {} {SAY}", 2 * count)).expect(0);
    outcome.says(&format!("on h0: ranks are not bound: {} hardware threads are wanted on this machine", 2 * count));
    assert!(outcome.lines().iter().all(|line| line.ends_with(&format!(" {}/{count}", 2 * count))), "{outcome:?}");
    if count >= 2 {
        // A rank that has ended gives its processor back, so both wait for each other.
        let ready = Ready::new(22);
        let both = format!("{0};|until|test|-e|{1}/0|-a|-e|{1}/1;|do|sleep|0.01;|done", ready.say(), ready.path());
        let outcome = registry.run(&format!("{TWO_HOSTS} --bind-to hwthread -n 2 {SAY};|{both}")).expect(0);
        let bound_to: Vec<&str> =
            outcome.out.lines().map(|line| line.split_whitespace().nth(2).expect("a list")).collect();
        assert!(bound_to.len() == 2 && bound_to[0] != bound_to[1], "{outcome:?}");
    }
}

#[test]
fn nothing_is_bound_unless_it_is_asked_for() {
    let registry = Registry::new("default");
    let outcome = registry.run(&format!("--report-bindings -n 1 {SAY}")).expect(0);
    outcome.says("rank 0 on ").says(": not bound, may run on processor");
    assert!(outcome.out.contains(&own_list()), "{outcome:?}");
    let mut nested = registry.command(&format!("-n 1 {SAY}"));
    nested.env("WEFT_LOAD", "77/1");
    let outcome = Run::start(nested, b"").wait().expect(0);
    assert!(!outcome.out.contains("77/1"), "what another mpiexec said is not handed on: {outcome:?}");
}

#[test]
fn a_registry_that_cannot_be_used_is_no_obstacle() {
    let mut command = command(&format!("--bind-to core -n 1 {SAY}"));
    command.env("WEFT_REGISTRY", "/proc/none");
    let outcome = Run::start(command, b"").wait().expect(0);
    outcome.says("ranks are not bound: the registry of processors in /proc/none cannot be used");
    assert!(outcome.out.contains(&own_list()), "{outcome:?}");
}
