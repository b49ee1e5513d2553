//! Conversations of ranks with the server, line by line.

use super::*;
use crate::control::{BindTo, Binding, InputTo, Label, MapBy, Program};

fn server(ranks: &[u32]) -> Server {
    let program = Program {
        number: 0,
        words: vec![],
        inherit: true,
        variables: vec![],
        directory: vec![],
        directory_required: false,
        search_path: Vec::new(),
    };
    let plan = Plan {
        job: "weft-job".into(),
        secret: crate::JobSecret::new([0; 16]),
        size: 4,
        universe: 4,
        host: "h0".into(),
        mapping: "(vector,(0,1,4))".into(),
        stats: false,
        label: Label::None,
        input: InputTo::Nobody,
        merge: false,
        binding: Binding { to: BindTo::None, by: MapBy::Slot, each: 1, report: false, machine_ranks: 2 },
        patience_ms: 0,
        programs: vec![program.clone(), Program { number: 7, ..program }],
        ranks: ranks.iter().map(|&rank| (rank, rank % 2)).collect(),
    };
    Server::new(&plan, 9)
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
    server.handle_gathered(Gathered { puts: vec![("b".into(), "2".into())], cards: vec![] });
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
    server.handle_gathered(Gathered { puts: vec![], cards: cards.to_vec() });
    for local_rank in 0..2 {
        let bytes: Rc<[u8]> = b"cmd=weft_exchanged rc=0 bytes=16\nzero\none\n\nthree\n"[..].into();
        assert_eq!(server.poll_action(), Some(Action::Reply { local_rank, bytes }));
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
fn spawn_is_refused_and_nonsense_is_reported() {
    let mut server = server(&[0]);
    for line in ["mcmd=spawn", "nprocs=1", "execname=a.out"] {
        assert_eq!(say(&mut server, 0, line), []);
    }
    assert!(ask(&mut server, 0, "endcmd").starts_with("cmd=spawn_result rc=-1"));
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
    assert_eq!(actions, [Action::Name { local_rank: 0, request }]);
    server.handle_name(0, "lookup", &Ok("p".into()));
    let bytes: Rc<[u8]> = b"cmd=lookup_result info=ok rc=0 port=p\n"[..].into();
    assert_eq!(server.poll_action(), Some(Action::Reply { local_rank: 0, bytes }));
    server.handle_name(0, "publish", &Err("name taken".into()));
    let bytes: Rc<[u8]> = b"cmd=publish_result info=fail rc=-1 msg=name_taken\n"[..].into();
    assert_eq!(server.poll_action(), Some(Action::Reply { local_rank: 0, bytes }));
}
