//! Expect: every message comes back as it was sent, and other bytes are refused.

use super::*;
use crate::spawn::{Spawn, SpawnProgram, Spawned};

fn plan() -> Plan {
    Plan {
        job: "weft-1".into(),
        secret: crate::JobSecret::new([7; 16]),
        size: 3,
        universe: 4,
        spawned: 2,
        values: vec![("key".into(), "value".into())],
        host: "h0".into(),
        mapping: "(vector,(0,1,3))".into(),
        stats: true,
        goes_on: false,
        label: Label::RankAndHost,
        input: InputTo::Rank(2),
        merge: false,
        binding: Binding { to: BindTo::Core, by: MapBy::Numa, each: 2, report: true, machine_ranks: 3 },
        patience_ms: 120_000,
        heartbeat: Some(Heartbeat { member: 3, limit_ms: 2_000 }),
        programs: vec![Program {
            number: 1,
            words: vec![b"a".to_vec(), vec![0xff]],
            inherit: true,
            variables: vec![(b"K".to_vec(), b"v".to_vec())],
            directory: b"/".to_vec(),
            directory_required: true,
            search_path: b"/opt/bin:/srv".to_vec(),
            faces: Faces::First,
        }],
        ranks: vec![(0, 0), (2, 0)],
    }
}

fn spawn() -> Spawn {
    let info = vec![("wdir".to_owned(), "/".to_owned())];
    let program = SpawnProgram { command: "a".into(), arguments: vec!["b".into()], processes: 2, info };
    Spawn { programs: vec![program], values: vec![("k".into(), "v".into())], directory: "/tmp".into() }
}

fn listener() -> Listener {
    let addresses = ["10.0.0.1:5000", "[fd00::1]:5001"].map(|text| text.parse().expect("an address"));
    Listener { member: 1, addresses: addresses.to_vec() }
}

fn orders() -> Vec<Order> {
    let gathered = Gathered { puts: vec![("k".into(), "v".into())], cards: vec![(1, "card".into())] };
    vec![
        Order::Launch(plan()),
        Order::Input(b"bytes".to_vec()),
        Order::InputEnd,
        Order::Credit(5),
        Order::Gathered(gathered),
        Order::Answer { rank: 1, answer: Answer::Name { command: "lookup".into(), answer: Ok("port".into()) } },
        Order::Answer { rank: 1, answer: Answer::Name { command: "publish".into(), answer: Err("no".into()) } },
        Order::Answer {
            rank: 1,
            answer: Answer::Spawned(Spawned { number: 3, outcomes: vec![Ok(()), Err("no".into())] }),
        },
        Order::Answer { rank: 1, answer: Answer::SpawnedEnd(Some("it has ended".into())) },
        Order::Answer { rank: 1, answer: Answer::SpawnedEnd(None) },
        Order::Signal(2),
        Order::End { signal: 15, grace_ms: 100, spare: Some(1) },
        Order::End { signal: 15, grace_ms: 100, spare: None },
        Order::Where,
        Order::Ping,
        Order::Relay { command: 7, message: ToCommand::Start(vec!["ssh".into(), "h1".into()]) },
        Order::Relay { command: 7, message: ToCommand::Input(b"bytes".to_vec()) },
        Order::Relay { command: 7, message: ToCommand::Signal(15) },
        Order::Heartbeat(ToMember::Place { next: Some(listener()), watched: Some(2), is_audible: true }),
        Order::Heartbeat(ToMember::Place { next: None, watched: None, is_audible: false }),
        Order::Heartbeat(ToMember::Ask { round: 9, anchor: listener() }),
        Order::Heartbeat(ToMember::Excluded("why".into())),
    ]
}

fn reports() -> Vec<Report> {
    let position = |phase, whereabouts| Position { rank: 1, phase, whereabouts };
    vec![
        Report::Output { stream: Stream::Output, bytes: b"a\n".to_vec() },
        Report::Output { stream: Stream::Error, bytes: vec![] },
        Report::InputTaken(1 << 40),
        Report::Heartbeat(FromMember::Listens(listener().addresses)),
        Report::Heartbeat(FromMember::Audible),
        Report::Dying { rank: 1, loss: Loss::Status },
        Report::Heartbeat(FromMember::Unheard { member: 3 }),
        Report::Heartbeat(FromMember::Silent { member: 3 }),
        Report::Heartbeat(FromMember::Asking { round: 3 }),
        Report::Heartbeat(FromMember::Heard { round: 3 }),
        Report::Heartbeat(FromMember::Leaves),
        Report::Gathered { exchange: true, gathered: Gathered::default() },
        Report::Request { rank: 0, request: Request::Spawn(spawn()) },
        Report::Request { rank: 0, request: Request::SpawnedEnd(4) },
        Report::Request {
            rank: 0,
            request: Request::Name(NameRequest::Publish { service: "s".into(), port: "p".into() }),
        },
        Report::Request { rank: 0, request: Request::Name(NameRequest::Lookup { service: "s".into() }) },
        Report::Request { rank: 0, request: Request::Name(NameRequest::Unpublish { service: "s".into() }) },
        Report::Abort { rank: 0, code: -1, message: "m".into() },
        Report::NotStarted { rank: 0, status: 127, reason: "r".into() },
        Report::Ended { position: position(Phase::Silent, Whereabouts::Unknown), ended: Ended::Exit(3) },
        Report::Ended { position: position(Phase::Finalized, Whereabouts::Outside), ended: Ended::Signal(9) },
        Report::Bindings(vec![(0, "bound".into()), (3, "not bound".into())]),
        Report::Started(vec![(0, 4711), (3, 4712)]),
        Report::Violation { rank: 0, text: "t".into() },
        Report::Pong,
        Report::Relay { command: 7, message: FromCommand::Output(b"bytes".to_vec()) },
        Report::Relay { command: 7, message: FromCommand::Errors(vec![0xff]) },
        Report::Relay { command: 7, message: FromCommand::Closed },
        Report::Relay { command: 7, message: FromCommand::NotStarted("no".into()) },
        Report::Relay { command: 7, message: FromCommand::Ended(Ended::Exit(255)) },
        Report::Where(vec![
            (position(Phase::Waiting, Whereabouts::Inside("MPI_Recv".into())), None),
            (
                position(Phase::Joined, Whereabouts::Outside),
                Some(Standing {
                    rank: 1,
                    published_ns: 7,
                    still_ns: 9,
                    call: "MPI_Recv".into(),
                    ..Standing::default()
                }),
            ),
        ]),
        Report::Stats { text: "0 1 udp 1 2 3\n".into() },
        Report::Note("n".into()),
        Report::Done,
    ]
}

#[test]
fn every_message_comes_back() {
    for order in orders() {
        let mut bytes = Vec::new();
        order.encode(&mut bytes);
        assert_eq!(Order::decode(&bytes), Some(order));
    }
    for report in reports() {
        let mut bytes = Vec::new();
        report.encode(&mut bytes);
        assert_eq!(Report::decode(&bytes), Some(report));
    }
}

#[test]
fn a_message_cut_short_or_too_long_is_none() {
    for order in orders() {
        let mut bytes = Vec::new();
        order.encode(&mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(Order::decode(&bytes[..length]), None, "{order:?} cut to {length}");
        }
        bytes.push(0);
        assert_eq!(Order::decode(&bytes), None, "{order:?} and more");
    }
    // A list that claims to be huge must not be believed: no memory is asked for.
    assert_eq!(Report::decode(&[9, 255, 255, 255, 255]), None);
}

/// Expect: bytes that are carried in pieces make the same frames, and counts are of all bytes.
#[test]
fn frames_that_are_carried_arrive_whole() {
    let (mut sender, mut receiver) = (Channel::carried(), Channel::carried());
    sender.queue_text("WEFT-AGENT 1\n");
    assert!(sender.queue(|out| out.extend_from_slice(&[9; 1000])) && sender.queue(|_| {}));
    sender.flush();
    let total = sender.unsent();
    let mut frames = Vec::new();
    let mut line = None;
    while sender.has_unsent() {
        let piece = sender.take_unsent(7);
        assert!(!piece.is_empty() && piece.len() <= 7);
        receiver.accept(&piece);
        line = line.or_else(|| receiver.next_line(100).expect("a line"));
        while let Some(frame) = line.as_ref().and_then(|_| receiver.next_frame().expect("frames")) {
            frames.push(frame.to_vec());
        }
    }
    assert_eq!((line.as_deref(), receiver.received(), sender.unsent()), (Some("WEFT-AGENT 1"), total as u64, 0));
    assert_eq!(frames, [vec![9; 1000], vec![]]);
    receiver.close();
    assert_eq!(receiver.state(), State::Closed);
}

#[test]
fn frames_arrive_whole() {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    let (one, other) = UnixStream::pair().expect("a socket pair");
    let channel = |stream: UnixStream| {
        let output = stream.try_clone().expect("a descriptor");
        Channel::new(OwnedFd::from(stream).into(), OwnedFd::from(output).into()).expect("non-blocking")
    };
    let (mut sender, mut receiver) = (channel(one), channel(other));
    sender.queue_text("noise\nWEFT-AGENT 1\n");
    let content = vec![9; 3_000_000];
    assert!(sender.queue(|out| out.extend_from_slice(&content)));
    assert!(!sender.queue(|out| out.resize(out.len() + FRAME_MAX + 1, 0)), "too long");
    assert!(sender.queue(|_| {}));
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let mut lines = Vec::new();
    while sender.has_unsent() || frames.len() < 2 {
        sender.flush();
        receiver.fill();
        while lines.len() < 2 {
            lines.extend(receiver.next_line(100).expect("lines"));
        }
        while let Some(frame) = receiver.next_frame().expect("frames") {
            frames.push(frame.to_vec());
        }
    }
    assert_eq!(lines, ["noise", "WEFT-AGENT 1"]);
    assert!(frames[0] == content && frames[1].is_empty());
    drop(sender);
    receiver.fill();
    assert_eq!(receiver.state(), State::Closed);
}
