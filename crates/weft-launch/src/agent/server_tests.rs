//! Conversations of ranks with the server, line by line.

use super::*;
use crate::Spawned;
use crate::control::{BindTo, Binding, InputTo, Label, MapBy, Program};
use crate::faces::Faces;

fn plan(ranks: &[u32]) -> Plan {
    let program = Program {
        number: 0,
        words: vec![],
        inherit: true,
        variables: vec![],
        directory: vec![],
        directory_required: false,
        search_path: Vec::new(),
        faces: Faces::None,
    };
    Plan {
        job: "weft-job".into(),
        secret: crate::JobSecret::new([0; 16]),
        size: 4,
        universe: 4,
        spawned: 0,
        values: Vec::new(),
        host: "h0".into(),
        mapping: "(vector,(0,1,4))".into(),
        stats: false,
        goes_on: false,
        label: Label::None,
        input: InputTo::Nobody,
        merge: false,
        binding: Binding { to: BindTo::None, by: MapBy::Slot, each: 1, report: false, machine_ranks: 2 },
        patience_ms: 0,
        heartbeat: None,
        programs: vec![program.clone(), Program { number: 7, ..program }],
        ranks: ranks.iter().map(|&rank| (rank, rank % 2)).collect(),
    }
}

fn server(ranks: &[u32]) -> Server {
    Server::new(&plan(ranks), 9)
}

fn say(server: &mut Server, local_rank: usize, line: &str) -> Vec<Action> {
    server.handle_bytes(local_rank, format!("{line}\n").as_bytes());
    std::iter::from_fn(|| server.poll_action()).collect()
}

fn ask(server: &mut Server, local_rank: usize, line: &str) -> String {
    match &say(server, local_rank, line)[..] {
        [Action::Reply { local_rank: to, bytes }] if *to == local_rank => {
            String::from_utf8(bytes.to_vec()).expect("text")
        }
        other => panic!("{line} was answered with {other:?}"),
    }
}

#[test]
fn a_rank_of_mpich_finds_what_it_asks_for() {
    let mut server = server(&[2, 3]);
    assert!(ask(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1").starts_with("cmd=response_to_init rc=0"));
    assert!(ask(&mut server, 0, "cmd=get_maxes").contains("keylen_max=64 vallen_max=1024"));
    assert_eq!(ask(&mut server, 0, "cmd=get_appnum"), "cmd=appnum rc=0 appnum=0\n");
    assert_eq!(ask(&mut server, 1, "cmd=get_appnum"), "cmd=appnum rc=0 appnum=7\n");
    assert_eq!(ask(&mut server, 0, "cmd=get_universe_size"), "cmd=universe_size rc=0 size=4\n");
    assert_eq!(ask(&mut server, 0, "cmd=get_my_kvsname"), "cmd=my_kvsname rc=0 kvsname=weft-job\n");
    let mapping = ask(&mut server, 0, "cmd=get kvsname=weft-job key=PMI_process_mapping");
    assert!(mapping.ends_with("value=(vector,(0,1,4))\n"));
    assert!(ask(&mut server, 0, "cmd=get kvsname=weft-job key=PMI_hwloc_xmlfile").contains("rc=-1"));
    assert!(ask(&mut server, 0, "cmd=init pmi_version=2 pmi_subversion=0").contains("rc=-1"));
    assert_eq!(ask(&mut server, 0, "cmd=finalize"), "cmd=finalize_ack rc=0\n");
    assert_eq!(server.phase(0), Phase::Finalized);
}

#[test]
fn what_is_put_leaves_with_the_barrier_and_all_come_out_together() {
    let mut server = server(&[0, 1]);
    assert!(ask(&mut server, 0, "cmd=put kvsname=weft-job key=a value=1 and more").contains("rc=0"));
    assert_eq!(say(&mut server, 0, "cmd=barrier_in"), []);
    assert_eq!(server.phase(0), Phase::Waiting);
    let gathered = Gathered { puts: vec![("a".into(), "1 and more".into())], cards: vec![] };
    assert_eq!(say(&mut server, 1, "cmd=barrier_in"), [Action::Gathered { exchange: false, gathered }]);
    server.handle_gathered(Gathered { puts: vec![("b".into(), "2".into())], cards: vec![] }, |_| None);
    let out: Vec<Action> = std::iter::from_fn(|| server.poll_action()).collect();
    assert_eq!(out.len(), 2);
    assert!(ask(&mut server, 1, "cmd=get kvsname=weft-job key=a").ends_with("value=1 and more\n"));
    assert!(ask(&mut server, 1, "cmd=get kvsname=weft-job key=b").ends_with("value=2\n"));
}

#[test]
fn an_exchange_comes_back_in_order_of_ranks() {
    let mut server = server(&[1, 3]);
    assert_eq!(say(&mut server, 1, "cmd=weft_exchange value=three"), []);
    let gathered = Gathered { puts: vec![], cards: vec![(1, "one".into()), (3, "three".into())] };
    assert_eq!(say(&mut server, 0, "cmd=weft_exchange value=one"), [Action::Gathered { exchange: true, gathered }]);
    let cards = [(3, "three"), (0, "zero"), (1, "one"), (2, "")].map(|(rank, card)| (rank, card.to_string()));
    server.handle_gathered(Gathered { puts: vec![], cards: cards.to_vec() }, |_| panic!("nobody reads memory"));
    for local_rank in 0..2 {
        let bytes: Rc<[u8]> = b"cmd=weft_exchanged rc=0 bytes=16\nzero\none\n\nthree\n"[..].into();
        assert_eq!(server.poll_action(), Some(Action::Reply { local_rank, bytes }));
    }
}

#[test]
fn cards_in_memory_are_announced_to_ranks_that_read_them_there() {
    let mut server = server(&[0, 1]);
    let cards = || Gathered { puts: vec![], cards: vec![(1, "one".into()), (0, "zero".into())] };
    let replies = |server: &mut Server| {
        let text = |action| match action {
            Action::Reply { bytes, .. } => String::from_utf8(bytes.to_vec()).expect("text"),
            other => panic!("{other:?} is no reply"),
        };
        std::iter::from_fn(|| server.poll_action()).map(text).collect::<Vec<_>>()
    };
    let (inline, at) = ("cmd=weft_exchanged rc=0 bytes=9\nzero\none\n", "cmd=weft_exchanged rc=0 bytes=9 at=64\n");
    // The second rank is of a Weft that does not read memory. Then both do, but there is no memory.
    for (memory, stored, expected) in [([1, 0], Some(64), [at, inline]), ([1, 1], None, [inline, inline])] {
        for (local_rank, memory) in memory.into_iter().enumerate() {
            say(&mut server, local_rank, &format!("cmd=weft_exchange memory={memory} value=x"));
        }
        server.handle_gathered(cards(), |bytes| {
            assert_eq!(bytes, b"zero\none\n");
            stored
        });
        assert_eq!(replies(&mut server), expected);
    }
}

/// The requests of a rank that joins a job of `size` ranks on one host, and leaves it; their bytes; and the
/// bytes of the replies.
fn cost_of_joining(size: u32) -> (usize, usize, usize) {
    const CARD_BYTES: usize = 250;
    let ranks: Vec<u32> = (0..size).collect();
    let mut server = server(&ranks);
    let (mut requests, mut asked, mut replied) = (0, 0, 0);
    let card = "c".repeat(CARD_BYTES);
    let exchange = format!("cmd=weft_exchange memory=1 value={card}");
    for line in ["cmd=init pmi_version=1 pmi_subversion=1", "cmd=weft_hello", &exchange, "cmd=finalize"] {
        (requests, asked) = (requests + 1, asked + line.len() + 1);
        for local_rank in 0..ranks.len() {
            server.handle_bytes(local_rank, format!("{line}\n").as_bytes());
        }
        while let Some(action) = server.poll_action() {
            match action {
                Action::Reply { local_rank: 0, bytes } => replied += bytes.len(),
                Action::Gathered { gathered, .. } => server.handle_gathered(gathered, |cards| {
                    assert_eq!(cards.len(), ranks.len() * (CARD_BYTES + 1));
                    Some(1 << 20)
                }),
                _ => {}
            }
        }
    }
    (requests, asked, replied)
}

#[test]
fn what_a_rank_says_and_hears_grows_by_digits_only() {
    let (requests, asked, replied) = cost_of_joining(2);
    for size in [16, 128, 1024] {
        let (more_requests, more_asked, more_replied) = cost_of_joining(size);
        assert_eq!((more_requests, more_asked), (requests, asked), "{size} ranks");
        // Numbers of ranks and of bytes have more digits; the list of this host's ranks is a range.
        assert!(more_replied <= replied + 6 * size.ilog2() as usize, "{size} ranks: {replied} to {more_replied} bytes");
    }
}

#[test]
fn a_barrier_and_an_exchange_do_not_meet() {
    let mut server = server(&[0, 1]);
    assert_eq!(say(&mut server, 0, "cmd=barrier_in"), []);
    assert!(matches!(&say(&mut server, 1, "cmd=weft_exchange value=x")[..], [Action::Violation { local_rank: 0, .. }]));
}

#[test]
fn bytes_may_arrive_in_any_pieces() {
    let mut server = server(&[0]);
    for piece in ["cmd=get_app", "num\ncmd=weft_stats bytes=5\n0 1", " u"] {
        server.handle_bytes(0, piece.as_bytes());
    }
    assert!(matches!(server.poll_action(), Some(Action::Reply { .. })));
    assert_eq!(server.poll_action(), Some(Action::Stats { text: "0 1 u".into() }));
    assert!(matches!(server.poll_action(), Some(Action::Reply { .. })));
    assert_eq!(server.poll_action(), None);
}

#[test]
fn nonsense_is_reported() {
    let mut server = server(&[0]);
    for line in ["mcmd=spawn", "nprocs=0", "execname=a.out"] {
        assert_eq!(say(&mut server, 0, line), []);
    }
    assert!(matches!(&say(&mut server, 0, "endcmd")[..], [Action::Violation { .. }]));
    assert!(matches!(&say(&mut server, 0, "hello")[..], [Action::Violation { .. }]));
    server.handle_bytes(0, &vec![b'x'; wire::LINE_MAX + 1]);
    assert!(matches!(server.poll_action(), Some(Action::Violation { .. })));
    server.handle_bytes(0, b"\xff\n");
    assert!(matches!(server.poll_action(), Some(Action::Violation { .. })));
}

#[test]
fn abort_keeps_its_code_and_its_message() {
    let mut server = server(&[0]);
    let abort = |code, message: &str| [Action::Abort { local_rank: 0, code, message: message.into() }];
    assert_eq!(say(&mut server, 0, "cmd=abort exitcode=3 message=all went wrong"), abort(3, "all went wrong"));
    assert_eq!(say(&mut server, 0, "cmd=abort exitcode=-1 escaped=a%20b"), abort(-1, "a b"));
    assert_eq!(say(&mut server, 0, "cmd=abort"), abort(1, ""));
}

#[test]
fn names_are_asked_for_and_answered() {
    let mut server = server(&[0]);
    let request = NameRequest::Publish { service: "s".into(), port: "p".into() };
    let actions = say(&mut server, 0, "cmd=publish_name service=s port=p");
    assert_eq!(actions, [Action::Request { local_rank: 0, request: Request::Name(request) }]);
    server.handle_answer(0, &Answer::Name { command: "lookup".into(), answer: Ok("p".into()) });
    let bytes: Rc<[u8]> = b"cmd=lookup_result info=ok rc=0 port=p\n"[..].into();
    assert_eq!(server.poll_action(), Some(Action::Reply { local_rank: 0, bytes }));
    server.handle_answer(0, &Answer::Name { command: "publish".into(), answer: Err("name taken".into()) });
    let bytes: Rc<[u8]> = b"cmd=publish_result info=fail rc=-1 msg=name_taken\n"[..].into();
    assert_eq!(server.poll_action(), Some(Action::Reply { local_rank: 0, bytes }));
}

#[test]
fn a_spawn_is_asked_for_and_answered() {
    let mut server = server(&[0, 1]);
    let mut spawned = |lines: &[&str], outcomes: Vec<Result<(), String>>| {
        let actions = lines.iter().flat_map(|line| say(&mut server, 1, line)).collect::<Vec<_>>();
        let [Action::Request { local_rank: 1, request: Request::Spawn(spawn) }] = &actions[..] else {
            panic!("{actions:?}")
        };
        assert_eq!(spawn.processes(), 2);
        server.handle_answer(1, &Answer::Spawned(Spawned { number: 4, outcomes }));
        let Some(Action::Reply { local_rank: 1, bytes }) = server.poll_action() else { panic!("no reply") };
        String::from_utf8(bytes.to_vec()).expect("text")
    };
    // A client of MPICH, and one of Weft that spawns two programs.
    let plain = ["mcmd=spawn", "nprocs=2", "execname=a", "endcmd"];
    assert_eq!(spawned(&plain, vec![Ok(()), Ok(())]), "cmd=spawn_result rc=0 errcodes=0,0\n");
    let head = ["mcmd=spawn", "nprocs=1", "execname=a", "totspawns=2", "weft_directory=%2Ftmp", "endcmd"];
    let escaped = [head, head].concat();
    let reply = spawned(&escaped, vec![Ok(()), Err("no".into())]);
    assert_eq!(reply, "cmd=spawn_result rc=0 number=4 bytes=4\n\nno\n");
    assert_eq!(spawned(&plain, vec![Err("not here".into()); 2]), "cmd=spawn_result rc=-1 msg=not_here\n");
    let actions = say(&mut server, 0, "cmd=weft_spawned_end number=4");
    assert_eq!(actions, [Action::Request { local_rank: 0, request: Request::SpawnedEnd(4) }]);
    server.handle_answer(0, &Answer::SpawnedEnd(Some("it is over".into())));
    let bytes: Rc<[u8]> = b"cmd=weft_spawned_end_result rc=0 ended=1 how=it%20is%20over\n"[..].into();
    assert_eq!(server.poll_action(), Some(Action::Reply { local_rank: 0, bytes }));
}

#[test]
fn a_spawned_job_finds_its_parents_port() {
    let mut plan = plan(&[0]);
    plan.values = vec![("PARENT_ROOT_PORT_NAME".into(), "port%20one".into())];
    let mut server = Server::new(&plan, 5);
    assert!(ask(&mut server, 0, "cmd=weft_hello").contains(" parent_port=port%20one "), "beside the other facts");
    assert_eq!(
        ask(&mut server, 0, "cmd=get kvsname=weft-job key=PARENT_ROOT_PORT_NAME"),
        "cmd=get_result rc=0 msg=success value=port%20one\n"
    );
}
