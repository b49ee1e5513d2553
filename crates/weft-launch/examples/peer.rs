//! A process of a job that uses nothing of Weft but [`ProcessManager`]. It joins, meets the others, and does
//! what its arguments say, so that tests can see a launcher from inside.
//!
//! `peer [STEP…]`: all ranks take every step; with a prefix `RANK@` only that rank does. The steps:
//!
//! - `meet`: exchange, put, get and fence, checked.
//! - `exchange=BYTES`: exchange cards of that length.
//! - `say=TEXT`, `warn=TEXT`: print to standard output or standard error.
//! - `echo`: copy standard input to standard output.
//! - `call=NUMBER`: be inside that call.
//! - `sleep=MS`.
//! - `exit=CODE`: exit without saying goodbye.
//! - `signal=NUMBER`, `abort=CODE`.
//! - `barrier`: a fence.
//! - `stats`, `env=NAME`, `where`.
//! - `spawn=PROCESSES PROGRAM ARGUMENT…`: spawn, and say what has become of it. Words `KEY:=VALUE` before the
//!   number are info; `//` stands for a blank inside a word, `+` between programs.
//! - `spawns=COUNT PROCESSES PROGRAM ARGUMENT…`: spawn so often, each time when the job before has ended, and
//!   say how long it takes.
//! - `descriptors`: say how many descriptors `mpiexec` on this host has open.
//! - `parent`: say the port of the job that has spawned this one.
//! - `ended=NUMBER`: wait until that spawned job has ended, and say how.
//! - `publish=NAME`, `lookup=NAME`.
//! - `touch=FILE`: make a file.
//! - `done`: finalize.

use std::cell::Cell;
use std::io::{Read, Write};
use std::process::exit;
use std::time::{Duration, Instant};
use weft_launch::{CallSite, ProcessManager, SpawnProgram, process_manager};

thread_local! {
    /// The number of the job that was spawned last.
    static SPAWNED: Cell<u32> = const { Cell::new(0) };
}

const CALLS: [&str; 3] = ["MPI_Send", "MPI_Recv", "MPI_Barrier"];

fn main() {
    let mut manager = process_manager().unwrap_or_else(|error| fail(&error.to_string()));
    if let Some(observer) = manager.observer() {
        observer.name_calls(&CALLS);
    }
    for step in std::env::args().skip(1) {
        let step = match step.split_once('@') {
            Some((rank, step)) if rank.parse() == Ok(manager.rank()) => step.to_string(),
            Some(_) => continue,
            None => step,
        };
        let (name, argument) = step.split_once('=').unwrap_or((&step, ""));
        run(manager.as_mut(), name, argument);
    }
}

fn run(manager: &mut dyn ProcessManager, name: &str, argument: &str) {
    let number = || argument.parse::<i32>().unwrap_or_else(|_| fail(&format!("{name} needs a number")));
    match name {
        "meet" => meet(manager),
        "exchange" => exchange(manager, &"c".repeat(usize::try_from(number()).unwrap_or(0))),
        "say" => println!("{argument}"),
        "warn" => eprintln!("{argument}"),
        "echo" => echo(),
        "call" => CallSite::set(u32::try_from(number()).unwrap_or(CallSite::OUTSIDE)),
        "sleep" => std::thread::sleep(Duration::from_millis(u64::try_from(number()).unwrap_or(0))),
        "exit" => exit(number()),
        "signal" => signal_self(number()),
        "abort" => manager.abort(number(), "the example was told to"),
        "barrier" => manager.fence().unwrap_or_else(|error| fail(&error.to_string())),
        "stats" => stats(manager),
        "env" => println!("{argument}={}", std::env::var(argument).unwrap_or_else(|_| "(unset)".into())),
        "where" => println!("rank {} of {} in {}", manager.rank(), manager.size(), current_directory()),
        "touch" => drop(std::fs::File::create(argument).unwrap_or_else(|error| fail(&error.to_string()))),
        "spawn" => spawn(manager, argument),
        "spawns" => {
            let (count, programs) = argument.split_once(' ').unwrap_or_else(|| fail("spawns needs a number"));
            let mut took = Vec::new();
            for _ in 0..count.parse::<u32>().unwrap_or_else(|_| fail("spawns needs a number")) {
                let began = Instant::now();
                spawn(manager, programs);
                took.push(began.elapsed().as_micros());
                SPAWNED.with(|last| ended(manager, last.get()));
            }
            took.sort_unstable();
            println!("a spawn takes {} us (median)", took.get(took.len() / 2).unwrap_or(&0));
        }
        "descriptors" => {
            let parent = |pid: &str| {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)).unwrap_or("0").to_owned()
            };
            let mpiexec = parent(&parent("self"));
            let entries = std::fs::read_dir(format!("/proc/{mpiexec}/fd"));
            println!("descriptors {}", entries.unwrap_or_else(|error| fail(&error.to_string())).count());
        }
        "parent" => println!("parent {:?}", manager.parent_port().unwrap_or_else(|error| fail(&error.to_string()))),
        "ended" => ended(manager, u32::try_from(number()).unwrap_or(0)),
        "publish" => {
            let names = manager.names().unwrap_or_else(|| fail("there is no name service"));
            names.publish(argument, &format!("port of {argument}")).unwrap_or_else(|error| fail(&error.to_string()));
        }
        "lookup" => {
            let names = manager.names().unwrap_or_else(|| fail("there is no name service"));
            println!("{argument} is {:?}", names.look_up(argument).unwrap_or_else(|error| fail(&error.to_string())));
        }
        "done" => manager.finalize().unwrap_or_else(|error| fail(&error.to_string())),
        other => fail(&format!("unknown step {other}")),
    }
}

fn exchange(manager: &mut dyn ProcessManager, card: &str) {
    let cards = manager.exchange(card).unwrap_or_else(|error| fail(&error.to_string()));
    if cards.len() != manager.size() as usize || cards.iter().any(|other| other != card) {
        fail("the cards are not those that were sent");
    }
}

/// Exchanges short and long cards, puts and gets a value, and checks the results.
fn meet(manager: &mut dyn ProcessManager) {
    let (rank, size) = (manager.rank(), manager.size());
    for length in [0, 10, 1000] {
        let card = |rank: u32| format!("card of {rank}; x=1 {}", "é%".repeat(length));
        let cards = manager.exchange(&card(rank)).unwrap_or_else(|error| fail(&error.to_string()));
        let expected: Vec<String> = (0..size).map(card).collect();
        if cards != expected {
            fail("the cards are not those that were sent");
        }
    }
    let result = manager.put(&format!("key-{rank}"), &format!("value {rank}")).and_then(|()| manager.fence());
    result.unwrap_or_else(|error| fail(&error.to_string()));
    let next = (rank + 1) % size;
    match manager.get(&format!("key-{next}")) {
        Ok(Some(value)) if value == format!("value {next}") => {}
        other => fail(&format!("the value of rank {next} is {other:?}")),
    }
    if !matches!(manager.get("nobody-put-this"), Ok(None)) {
        fail("a key that nobody put has a value");
    }
    let locals = manager.local_ranks();
    println!("rank {rank} of {size} met all, locals {locals:?}, appnum {:?}", manager.appnum());
}

fn echo() {
    let mut bytes = Vec::new();
    let outcome = std::io::stdin().read_to_end(&mut bytes).and_then(|_| std::io::stdout().write_all(&bytes));
    outcome.unwrap_or_else(|error| fail(&error.to_string()));
}

/// The programs in the argument of `spawn`.
fn programs(argument: &str) -> Vec<SpawnProgram> {
    let program = |text: &str| {
        let words: Vec<String> =
            text.split(' ').filter(|word| !word.is_empty()).map(|word| word.replace("//", " ")).collect();
        let info = words.iter().map_while(|word| word.split_once(":="));
        let info: Vec<(String, String)> = info.map(|(key, value)| (key.into(), value.replace("\\n", "\n"))).collect();
        match &words[info.len()..] {
            [processes, command, arguments @ ..] => SpawnProgram {
                command: command.clone(),
                arguments: arguments.to_vec(),
                processes: processes.parse().unwrap_or_else(|_| fail("spawn needs a number of processes")),
                info,
            },
            _ => fail("spawn needs a number of processes and a program"),
        }
    };
    argument.split(" + ").map(program).collect()
}

fn spawn(manager: &mut dyn ProcessManager, argument: &str) {
    let spawned = manager.spawn(&programs(argument), "the port");
    if let Ok(spawned) = &spawned {
        SPAWNED.with(|last| last.set(spawned.number));
    }
    match spawned {
        Ok(spawned) if spawned.outcomes.iter().all(Result::is_ok) => {
            println!("spawned {} of {}", spawned.number, spawned.outcomes.len());
        }
        Ok(spawned) => {
            for (process, outcome) in spawned.outcomes.iter().enumerate() {
                println!("process {process}: {}", outcome.as_ref().err().map_or("runs", |why| why));
            }
        }
        Err(error) => println!("not spawned: {error}"),
    }
}

fn ended(manager: &mut dyn ProcessManager, number: u32) {
    loop {
        match manager.spawned_end(number) {
            Ok(Some(how)) => return println!("job {number}: {how}"),
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => fail(&error.to_string()),
        }
    }
}

fn stats(manager: &mut dyn ProcessManager) {
    let next = (manager.rank() + 1) % manager.size();
    let line = format!("{} {next} udp 10 1000 {}\n", manager.rank(), manager.rank());
    let Some(observer) = manager.observer().filter(|observer| observer.wants_stats()) else { return };
    let result = observer.report_stats(&line).and_then(|()| observer.report_stats(&line));
    result.unwrap_or_else(|error| fail(&error.to_string()));
}

fn current_directory() -> String {
    std::env::current_dir().map_or_else(|error| error.to_string(), |path| path.display().to_string())
}

/// Dies by a signal that a shell sends. Repeated, because Rust takes the first SIGSEGV for a stack overflow,
/// examines it, and only then restores the default.
fn signal_self(number: i32) {
    let pid = std::process::id().to_string();
    for _ in 0..10 {
        let _ = std::process::Command::new("kill").args([format!("-{number}"), pid.clone()]).status();
        std::thread::sleep(Duration::from_millis(100));
    }
    fail("the signal did nothing");
}

fn fail(text: &str) -> ! {
    eprintln!("peer: {text}");
    exit(99)
}
