//! The commands for programs by chance on whole engines: many programs, one with all its events, or one made
//! smaller.

use super::Arguments;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use weft_sim::files;
use weft_sim::job::{self, DrawOptions, Played, meetings};

/// The commands, for people.
pub(crate) const LIST: &str = "  programs        programs by chance, one for each seed
  program         the program of one seed, with all that happens
  shrink          the smallest program found that fails like that of a seed
  files           collective accesses to a simulated file by chance, one for each seed
  file            the access of one seed
  agreements      agreements of processes that die at any moment, one program for each seed
  recovery-times  how long an agreement and a shrinking take, by the number of processes
  jobs            several jobs that meet, part, end and die, one program for each seed";

/// The most failures that are described at length.
const FAILURES_TOLD: u64 = 5;

/// Runs one of these commands; `None` if the argument names none of them, `Some(false)` if a program failed.
pub(crate) fn run(arguments: &Arguments) -> Option<bool> {
    let draw_options = DrawOptions { ranks: arguments.ranks.map(usize::from) };
    match arguments.scenario.as_str() {
        "programs" => Some(many(arguments, draw_options)),
        "program" => Some(one(arguments, draw_options)),
        "shrink" => Some(shrink(arguments, draw_options)),
        "files" => Some(many_files(arguments)),
        "file" => Some(one_file(arguments)),
        "agreements" => Some(agreements(arguments)),
        "recovery-times" => Some(recovery_times()),
        "jobs" => Some(many_jobs(arguments)),
        _ => None,
    }
}

/// Prints the time of an agreement without failures. Prints the time of a shrinking, from the death of the
/// coordinator until all other processes have the smaller group: once where the others learn of the death at
/// once, and once where they learn of it late.
fn recovery_times() -> bool {
    use weft_sim::agreement::{Network, time_to_shrink, time_without_failures};
    let network = Network { latency_ns: 10_000, delay_ns_max: 0, overhead_ns: 1_000, notice_ns_max: 0 };
    let late = Network { notice_ns_max: 3_000_000, ..network };
    weft_sim::out::line(format_args!(
        "A message takes 10 µs, and 1 µs at either end. Late: each learns of the death at a moment within 3 ms."
    ));
    weft_sim::out::line(format_args!("processes, µs: agreement, shrinking, shrinking late"));
    for ranks in [4, 16, 64, 256, 1024, 4096] {
        let times =
            [time_without_failures(ranks, network), time_to_shrink(ranks, network), time_to_shrink(ranks, late)];
        let [Ok(agreement), Ok(at_once), Ok(late)] = times else {
            weft_sim::out::remark(format_args!("{ranks} processes do not end: {times:?}"));
            return false;
        };
        let [agreement, at_once, late] = [agreement, at_once, late].map(|ns| ns / 1000);
        weft_sim::out::line(format_args!("{ranks}: {agreement}, {at_once}, {late}"));
    }
    true
}

/// Plays agreements of processes that die, one program for each seed.
fn agreements(arguments: &Arguments) -> bool {
    let (mut sum, mut failed) = (weft_sim::agreement::Played::default(), 0);
    for seed in (0..arguments.runs).map(|run| arguments.seed.wrapping_add(run)) {
        match weft_sim::agreement::play(seed) {
            Ok(played) => sum.add(&played),
            Err(what) => {
                failed += 1;
                if failed <= FAILURES_TOLD {
                    weft_sim::out::remark(format_args!("{what}\nreplay: weft-sim agreements --seed {seed:#x}"));
                }
                if arguments.until_failure {
                    break;
                }
            }
        }
    }
    let weft_sim::agreement::Played { messages, deaths, rounds, .. } = sum;
    let runs = arguments.runs;
    weft_sim::out::remark(format_args!(
        "{runs} programs, {failed} failed; {rounds} decisions, {deaths} deaths, {messages} messages"
    ));
    failed == 0
}

/// Programs of many seeds that were played.
struct Many<P> {
    sum: P,
    failed: u64,
    /// Programs a second and processor.
    rate: f64,
}

/// Plays the programs of all seeds that are asked for, on so many processors. `tell` describes a program that
/// has failed; it is called for the first few.
fn play_many<P: Default + Send>(
    arguments: &Arguments,
    play: impl Fn(u64) -> Result<P, String> + Sync,
    add: impl Fn(&mut P, &P) + Sync,
    tell: impl Fn(u64, &str) + Sync,
) -> Many<P> {
    // A panic is reported as a failure of its program.
    std::panic::set_hook(Box::new(|_| {}));
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let sum = Mutex::new(P::default());
    let began = Instant::now();
    let work = || {
        let mut own = P::default();
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            let stops = arguments.until_failure && failed.load(Ordering::Relaxed) > 0;
            if run >= arguments.runs || stops {
                break;
            }
            let seed = arguments.seed.wrapping_add(run);
            match play(seed) {
                Ok(played) => add(&mut own, &played),
                Err(what) => {
                    if failed.fetch_add(1, Ordering::Relaxed) < FAILURES_TOLD {
                        tell(seed, &what);
                    }
                }
            }
        }
        add(&mut sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner), &own);
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(work);
        }
    });
    let (failed, seconds) = (failed.into_inner(), began.elapsed().as_secs_f64());
    let rate = arguments.runs as f64 / seconds / arguments.jobs as f64;
    Many { sum: sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner), failed, rate }
}

/// Plays programs of several jobs that meet. One alone is described, and traced if that is asked for.
fn many_jobs(arguments: &Arguments) -> bool {
    if arguments.trace {
        weft_sim::out::line(format_args!("{}", meetings::describe(arguments.seed)));
    }
    let play = |seed| meetings::play_seed(seed, arguments.trace);
    let Many { sum, failed, rate } = play_many(arguments, play, meetings::Played::add, |seed, what| {
        weft_sim::out::remark(format_args!("jobs --seed {seed:#x}: {what}"));
        weft_sim::out::remark(format_args!("replay: cargo run -p weft-sim -- jobs --seed {seed:#x} --trace"));
    });
    weft_sim::out::line(format_args!(
        "{} programs of several jobs, {failed} failed; {rate:.0} a second and processor\n  {sum}",
        arguments.runs
    ));
    failed == 0
}

fn options(draw_options: DrawOptions) -> String {
    draw_options.ranks.map_or_else(String::new, |ranks| format!(" --ranks {ranks}"))
}

fn many(arguments: &Arguments, draw_options: DrawOptions) -> bool {
    let options = options(draw_options);
    let play = |seed| job::play_seed(seed, draw_options, false);
    let Many { sum, failed, rate } = play_many(arguments, play, Played::add, |seed, what| {
        weft_sim::out::remark(format_args!("program --seed {seed:#x}{options}: {what}"));
        weft_sim::out::remark(format_args!("replay: cargo run -p weft-sim -- program --seed {seed:#x}{options}"));
        weft_sim::out::remark(format_args!("shrink: cargo run -p weft-sim -- shrink --seed {seed:#x}{options}"));
    });
    weft_sim::out::line(format_args!(
        "{} programs, {failed} failed; {rate:.0} a second and processor\n  {sum}",
        arguments.runs
    ));
    failed == 0
}

/// Plays accesses to files.
fn many_files(arguments: &Arguments) -> bool {
    std::panic::set_hook(Box::new(|_| {}));
    let (mut sum, mut failed, mut run) = (files::Played::default(), 0, 0);
    let began = Instant::now();
    while run < arguments.runs && !(arguments.until_failure && failed > 0) {
        let seed = arguments.seed.wrapping_add(run);
        match play_file(seed) {
            Ok(played) => sum.add(&played),
            Err(what) => {
                failed += 1;
                if failed <= FAILURES_TOLD {
                    weft_sim::out::remark(format_args!("file --seed {seed:#x}: {what}"));
                    weft_sim::out::remark(format_args!("replay: cargo run -p weft-sim -- file --seed {seed:#x}"));
                }
            }
        }
        run += 1;
    }
    let rate = run as f64 / began.elapsed().as_secs_f64();
    weft_sim::out::line(format_args!("{run} accesses to files, {failed} failed; {rate:.0} a second\n  {sum}"));
    failed == 0
}

/// Plays the access of one seed. A panic is a failure.
fn play_file(seed: u64) -> Result<files::Played, String> {
    match std::panic::catch_unwind(|| files::play_seed(seed)) {
        Ok(played) => played.map_err(|violation| violation.to_string()),
        Err(panic) => Err(panic.downcast_ref::<String>().map_or("a panic", String::as_str).to_owned()),
    }
}

fn one_file(arguments: &Arguments) -> bool {
    weft_sim::out::line(format_args!("{}", files::describe(arguments.seed)));
    let played = play_file(arguments.seed);
    match &played {
        Ok(played) => weft_sim::out::line(format_args!("{played}")),
        Err(what) => weft_sim::out::line(format_args!("fails: {what}")),
    }
    played.is_ok()
}

fn one(arguments: &Arguments, draw_options: DrawOptions) -> bool {
    weft_sim::out::line(format_args!("{}", job::describe(arguments.seed, draw_options)));
    match job::play_seed(arguments.seed, draw_options, !arguments.quiet) {
        Ok(played) => {
            weft_sim::out::line(format_args!("{played}"));
            true
        }
        Err(what) => {
            weft_sim::out::line(format_args!("fails: {what}"));
            false
        }
    }
}

fn shrink(arguments: &Arguments, draw_options: DrawOptions) -> bool {
    std::panic::set_hook(Box::new(|_| {}));
    match job::shrink_seed(arguments.seed, draw_options) {
        Some(smallest) => {
            weft_sim::out::line(format_args!("{smallest}"));
            false
        }
        None => {
            weft_sim::out::line(format_args!("program --seed {:#x} does not fail", arguments.seed));
            true
        }
    }
}
