//! Calls everything in this crate that parses bytes of other programs, as plain functions for `weft-fuzz`.
//! They panic only where the code is wrong.

use crate::JobSecret;
use crate::agent::server::{Action, Server};
use crate::control::{Answer, BindTo, Binding, InputTo, Label, MapBy, Order, Plan, Program, Report, Request};
use crate::faces::Faces;
use crate::hosts;
use crate::manager;
use crate::mpiexec::stats::{Format, Stats};
use crate::spawn;
use crate::wire::{self, Line};

/// Processes of the job that ranks and mappings are read for.
const SIZE: u32 = 4096;
/// The byte that ends the turn of one rank.
const TURN: u8 = 0xff;

/// Parses frames between `mpiexec` and agents. Expect: what can be read is what would be written.
pub fn control(bytes: &[u8]) {
    let write = |encode: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        encode(&mut out);
        out
    };
    if let Some(order) = Order::decode(bytes) {
        assert_eq!(Order::decode(&write(&|out| order.encode(out))).as_ref(), Some(&order));
        if let Order::Launch(plan) = &order {
            Server::new(plan, 0);
        }
    }
    if let Some(report) = Report::decode(bytes) {
        assert_eq!(Report::decode(&write(&|out| report.encode(out))), Some(report));
    }
}

/// Parses the messages of two ranks to their process manager, in turns.
pub fn pmi(bytes: &[u8]) {
    let mut server = Server::new(&plan(), 0);
    for (turn, said) in bytes.split(|byte| *byte == TURN).enumerate() {
        server.handle_bytes(turn % 2, said);
        while let Some(action) = server.poll_action() {
            if let Action::Request { request: Request::Spawn(spawn), .. } = action {
                assert!(spawn::reread(&spawn).is_none_or(|again| again == spawn));
            }
        }
    }
    server.handle_bytes(0, b"\n");
}

/// Parses what strangers may send to tasks of a step of Slurm that find each other by themselves.
pub fn step(bytes: &[u8]) {
    manager::take_step_apart(bytes);
}

/// Valid inputs of [`step`].
pub fn step_seeds() -> Vec<Vec<u8>> {
    manager::step_seeds()
}

/// Parses lines and values of PMI-1.1.
pub fn lines(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let line = Line::parse(&text);
    let _ = (line.command(), line.opens_many(), line.get("key"), line.number::<u64>("idx"), wire::tail(&text, "value"));
    assert_eq!(wire::unescape(&wire::escape(&text)).as_deref(), Some(&*text));
    let _ = wire::unescape(&text);
    if let Some(secret) = JobSecret::from_hex(&text) {
        assert_eq!(secret.expose_hex(), text.to_ascii_lowercase());
    }
    for ranks in [wire::parse_ranks(&text, SIZE), wire::parse_mapping(&text, SIZE)].into_iter().flatten() {
        assert!(ranks.len() <= SIZE as usize);
    }
}

/// Parses host files, and the statistics of ranks.
pub fn texts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = (hosts::parse_file(&text), hosts::parse_list(&text));
    let mut stats = Stats::default();
    stats.add(&text);
    let _ = (stats.print(Format::Text), stats.print(Format::Json));
}

/// The content of valid frames, for [`control`] to begin with.
pub fn control_seeds() -> Vec<Vec<u8>> {
    let orders = [
        Order::Launch(plan()),
        Order::Input(b"input".to_vec()),
        Order::Answer { rank: 1, answer: Answer::Name { command: "lookup".into(), answer: Err("nothing".into()) } },
        Order::End { signal: 15, grace_ms: 100, spare: Some(0) },
    ];
    let reports = [
        Report::Note("a note".into()),
        Report::Bindings(vec![(1, "core 1".into())]),
        Report::Abort { rank: 0, code: 3, message: "enough".into() },
    ];
    let mut seeds = Vec::new();
    for order in orders {
        let mut out = Vec::new();
        order.encode(&mut out);
        seeds.push(out);
    }
    for report in reports {
        let mut out = Vec::new();
        report.encode(&mut out);
        seeds.push(out);
    }
    seeds
}

/// A plan for two ranks of one program.
pub(crate) fn plan() -> Plan {
    let program = Program {
        number: 0,
        words: vec![b"./a".to_vec()],
        inherit: true,
        variables: vec![(b"A".to_vec(), b"b".to_vec())],
        directory: b"/".to_vec(),
        directory_required: false,
        search_path: Vec::new(),
        faces: Faces::None,
    };
    Plan {
        job: "weft-job".into(),
        secret: JobSecret::new([1; 16]),
        size: 2,
        universe: 2,
        spawned: 0,
        values: Vec::new(),
        host: "h0".into(),
        mapping: "(vector,(0,1,2))".into(),
        stats: true,
        goes_on: false,
        label: Label::None,
        input: InputTo::Rank(0),
        merge: false,
        binding: Binding { to: BindTo::None, by: MapBy::Slot, each: 1, report: false, machine_ranks: 2 },
        patience_ms: 0,
        heartbeat: None,
        programs: vec![program],
        ranks: vec![(0, 0), (1, 0)],
    }
}
